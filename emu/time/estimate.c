/* SPDX-License-Identifier: MIT
 *
 * From an XCD's cycles to a launch's microseconds; the table of parameters. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "simulate.h"

#define ROTATED_COPIES 101            /* of AITER's arguments */
#define LAST_CACHE     (256ull << 20) /* bytes */
#define CLOCK_TURNS    3
#define CLOCK_NEAR     0.03
#define CLOCK_GUESS    0.2 /* a load to begin with */

/* ---- parameters -------------------------------------------------------------------------------------------------- */

static const struct row {
    const char *name, *unit, *source;
    size_t offset;
    double value[6]; /* gfx90a, gfx942: MI300X, MI308X, gfx950, gfx11, gfx12 */
    int error;
} rows[] = {
#define P(name, unit, a, b, c, d, e, f, source, error)                                                                 \
    { #name, unit, source, offsetof(struct emu_time_params, name), { a, b, c, d, e, f }, error },
#include "params.def"
#undef P
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))

static double *member(struct emu_time_params *p, const struct row *r)
{
    return (double *)(void *)((char *)p + r->offset);
}

void emu_time_defaults(int gfx, int cu_count, struct emu_time_params *p)
{
    int column = gfx >= 0x1200 ? 5 : gfx >= 0x1000 ? 4 : gfx == 0x950 ? 3 : gfx != 0x942 ? 0 : cu_count % 20 ? 1 : 2;
    for (size_t i = 0; i < ROWS; i++)
        *member(p, &rows[i]) = rows[i].value[column];
}

bool emu_time_set(struct emu_time_params *p, const char *text, char *error, size_t error_size)
{
    const char *is = strchr(text, '=');
    size_t n = is ? (size_t)(is - text) : strlen(text);
    char *end;
    for (size_t i = 0; i < ROWS; i++) {
        if (strlen(rows[i].name) != n || strncmp(rows[i].name, text, n))
            continue;
        double v = is ? strtod(is + 1, &end) : -1;
        if (is && end != is + 1 && !*end && v >= 0 && v <= 1e9) {
            *member(p, &rows[i]) = v;
            return true;
        }
        snprintf(error, error_size, "'%s': must be %s=NUMBER, from 0 to 1e9", text, rows[i].name);
        return false;
    }
    snprintf(error, error_size, "'%s': there is no parameter '%.*s'; rfg-emu time --params lists them", text, (int)n,
             text);
    return false;
}

void emu_time_print_params(FILE *f, const struct emu_time_params *p)
{
    struct emu_time_params copy = *p;
    fprintf(f, "%-18s %10s  %-62s %6s  %s\n", "name", "value", "unit", "error", "source");
    for (size_t i = 0; i < ROWS; i++)
        fprintf(f, "%-18s %10g  %-62s %5d%%  %s\n", rows[i].name, *member(&copy, &rows[i]), rows[i].unit, rows[i].error,
                rows[i].source);
}

/* ---- estimates --------------------------------------------------------------------------------------------------- */

/* Cycles of all the XCD's workgroups: those that are in the trace, and whole rounds of such that are not. */
static bool cycles_of(const struct emu_time_run_shape *s, struct emu_time_outcome *o, double *cycles)
{
    const struct emu_time_trace *t = s->t;
    uint64_t round = (uint64_t)t->units * (uint64_t)t->groups_a_unit, missing = t->on_xcd - t->n_groups;
    struct emu_time_run_shape fewer = *s;
    struct emu_time_outcome less;
    if (missing && t->n_groups > round) {
        fewer.groups = t->n_groups - round;
        fewer.timeline = NULL;
        if (!emu_time_simulate(&fewer, &less))
            return false;
    }
    if (!emu_time_simulate(s, o))
        return false;
    *cycles = (double)o->cycles;
    if (missing && t->n_groups > round)
        *cycles += (double)missing / (double)round * ((double)o->cycles - (double)less.cycles);
    return true;
}

static void take_outcome(const struct emu_time_trace *t, const struct emu_time_outcome *o, struct emu_time_result *r)
{
    double units = (double)t->units, cycles = o->cycles ? (double)o->cycles : 1;
    r->matrix_busy = (double)o->matrix_cycles / (cycles * units * t->simds);
    r->lds_busy = (double)o->lds_cycles / (cycles * units);
    r->l1_busy = o->traffic.l1_cycles / (cycles * units);
    r->mall_busy = o->traffic.fabric_cycles / cycles;
    r->hbm_busy = o->traffic.hbm_cycles / cycles;
    r->bytes_l2 = o->traffic.l2_bytes;
    r->bytes_fabric = o->traffic.fabric_bytes;
    r->bytes_hbm = o->traffic.hbm_bytes;
    r->simulated = o->instructions;
    double life = o->life ? (double)o->life : 1, stalled = 0;
    for (int k = 1; k < EMU_STALLS; k++)
        stalled += r->limit[k] = (double)o->stall[k] / life;
    r->limit[EMU_STALL_NONE] = stalled < 1 ? 1 - stalled : 0;
}

bool emu_time_estimate(const struct emu_time_trace *t, const struct emu_time_params *p, enum emu_time_inputs inputs,
                       struct emu_time_timeline *timeline, struct emu_time_result *out)
{
    bool cold =
        inputs == EMU_TIME_COLD || (inputs == EMU_TIME_ROTATED && t->unique * 128 * ROTATED_COPIES > LAST_CACHE);
    struct emu_time_run_shape s = { .t = t,
                                    .p = p,
                                    .mhz = p->clock_mhz + (p->matrix_clock_mhz - p->clock_mhz) * CLOCK_GUESS,
                                    .cold = cold || p->mall_ns <= 0,
                                    .groups = t->n_groups };
    struct emu_time_outcome o;
    double cycles = 0;
    *out = (struct emu_time_result){ .cold = s.cold, .launch_us = p->launch_us };
    /* the clock falls with the matrix cores' load, which depends on the clock where memory is the limit */
    for (int turn = 0; turn < CLOCK_TURNS; turn++) {
        if (!cycles_of(&s, &o, &cycles))
            return false;
        take_outcome(t, &o, out);
        double load = out->matrix_busy > 1 ? 1 : out->matrix_busy;
        double mhz = p->clock_mhz + (p->matrix_clock_mhz - p->clock_mhz) * load;
        bool near = fabs(mhz - s.mhz) <= CLOCK_NEAR * p->clock_mhz;
        if (near || turn == CLOCK_TURNS - 1)
            break;
        s.mhz = mhz;
    }
    if (timeline) {
        s.timeline = timeline;
        s.hot = timeline->hot;
        s.groups = t->n_groups;
        if (!emu_time_simulate(&s, &o))
            return false;
    }
    out->cycles = cycles;
    out->clock_mhz = s.mhz;
    out->us = p->launch_us + cycles / s.mhz;
    return true;
}

/* Chrome's trace format: processes are CUs, threads are waves. */
void emu_time_timeline_write(const struct emu_time_timeline *tl, double mhz, FILE *f)
{
    fputs("{\"traceEvents\":[\n", f);
    for (size_t i = 0; i < tl->n; i++) {
        const struct emu_time_segment *s = &tl->segment[i];
        fprintf(
            f,
            "%s{\"ph\":\"X\",\"name\":\"%s\",\"pid\":\"CU %u\",\"tid\":\"SIMD %u wave %u\",\"ts\":%.4f,\"dur\":%.4f}",
            i ? ",\n" : "", s->what, s->unit, s->simd, s->wave, (double)s->from / mhz, (double)(s->to - s->from) / mhz);
    }
    fputs("\n],\"displayTimeUnit\":\"ns\"}\n", f);
}
