/* SPDX-License-Identifier: MIT
 *
 * rfg-emu time: microseconds of a launch, predicted; traces and timelines of it. */
#include "emu_tool.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emu/time/time.h"
#include "tuner/harness/output.h"

#define TIMELINE_UNITS 1 /* CUs */

/* Of the run that is under way. */
static struct {
    struct tool_run *r;
    int status, launches;
    double us;
} at;

static int failed(const char *what, const char *path)
{
    fprintf(stderr, "rfg-emu: time: %s %s: %s\n", what, path, strerror(errno));
    return 1;
}

static int params_of(const struct tool_time *o, int gfx, int cu_count, struct emu_time_params *p)
{
    char error[200];
    emu_time_defaults(gfx, cu_count, p);
    for (int i = 0; i < o->n_set; i++)
        if (!emu_time_set(p, o->set[i], error, sizeof(error)))
            return tool_wrong("time: --param %s", error);
    return 0;
}

static json_t *as_json(const struct emu_time_trace *t, const struct emu_time_result *r)
{
    json_t *j = json_pack("{s:s, s:f, s:f, s:f, s:f, s:b, s:I, s:I, s:I, s:I}", "kernel", t->kernel, "us", r->us,
                          "launch_us", r->launch_us, "cycles", r->cycles, "clock_mhz", r->clock_mhz, "cold", r->cold,
                          "workgroups", (json_int_t)t->n_workgroups, "of_xcd", (json_int_t)t->on_xcd, "simulated",
                          (json_int_t)t->n_groups, "instructions", (json_int_t)r->simulated);
    json_t *busy = json_pack("{s:f, s:f, s:f, s:f, s:f}", "matrix", r->matrix_busy, "lds", r->lds_busy, "l1",
                             r->l1_busy, "fabric", r->mall_busy, "hbm", r->hbm_busy);
    json_t *bytes = json_pack("{s:f, s:f, s:f}", "l2", r->bytes_l2, "fabric", r->bytes_fabric, "hbm", r->bytes_hbm);
    json_t *waits = json_object();
    for (int k = 0; k < EMU_STALLS; k++)
        json_object_set_new(waits, emu_time_stall_names[k], json_real(r->limit[k]));
    json_object_set_new(j, "busy", busy);
    json_object_set_new(j, "bytes_of_xcd", bytes);
    json_object_set_new(j, "waves", waits);
    return j;
}

static void print(const struct emu_time_trace *t, const struct emu_time_result *r)
{
    printf("%s: %.2f us = %.2f launch + %.0f cycles at %.0f MHz; inputs from %s\n", t->kernel, r->us, r->launch_us,
           r->cycles, r->clock_mhz, r->cold ? "memory" : "the last cache");
    printf("  %llu workgroups, %llu on an XCD, %zu of them simulated on its %d CUs, %d at a time on each\n",
           (unsigned long long)t->n_workgroups, (unsigned long long)t->on_xcd, t->n_groups, t->units, t->groups_a_unit);
    printf("  busy: matrix %.2f, LDS %.2f, L1 %.2f, fabric %.2f, memory %.2f\n  waves:", r->matrix_busy, r->lds_busy,
           r->l1_busy, r->mall_busy, r->hbm_busy);
    for (int k = 0; k < EMU_STALLS; k++)
        printf(" %s %.2f%s", emu_time_stall_names[k], r->limit[k], k < EMU_STALLS - 1 ? "," : "\n");
}

static int write_timeline(const char *path, const struct emu_time_timeline *tl, double mhz)
{
    struct rfg_output o;
    if (!rfg_output_open(&o, "rfg-emu", "--timeline", path))
        return 1;
    emu_time_timeline_write(tl, mhz, o.f);
    return !rfg_output_close(&o, true);
}

/* The instructions that waves were at the longest. */
static void print_hot(const struct tool_run *r, const struct emu_time_trace *t, uint64_t *hot)
{
    uint64_t all = 0;
    for (size_t i = 0; hot && i < t->n_inst; i++)
        all += hot[i];
    for (int n = 0; hot && n < r->time.hot; n++) {
        size_t most = 0;
        for (size_t i = 1; i < t->n_inst; i++)
            if (hot[i] > hot[most])
                most = i;
        if (!hot[most])
            break;
        printf("  %5.1f%% at 0x%x: %s\n", 100.0 * (double)hot[most] / (double)all, t->inst[most].address,
               emu_time_class_names[t->inst[most].cls]);
        hot[most] = 0;
    }
}

static int estimate(const struct tool_run *r, const struct emu_time_trace *t, const char *timeline)
{
    struct emu_time_timeline tl = { .units = timeline ? TIMELINE_UNITS : 0 };
    struct emu_time_params p;
    struct emu_time_result out;
    int status = params_of(&r->time, t->gfx, t->cu_count, &p);
    if (status)
        return status;
    if (r->time.hot)
        tl.hot = calloc(t->n_inst, sizeof(*tl.hot));
    if (!emu_time_estimate(t, &p, (enum emu_time_inputs)r->time.inputs, timeline || tl.hot ? &tl : NULL, &out)) {
        fprintf(stderr, "rfg-emu: time: no memory\n");
        return 1;
    }
    at.us += out.us;
    if (r->json) {
        json_t *j = as_json(t, &out);
        json_dumpf(j, stdout, 0);
        putchar('\n');
        json_decref(j);
    } else
        print(t, &out);
    if (timeline)
        status = write_timeline(timeline, &tl, out.clock_mhz);
    if (r->time.hot)
        print_hot(r, t, tl.hot);
    free(tl.hot);
    free(tl.segment);
    return status;
}

static void launched(void *to, struct emu_time_trace *t)
{
    struct tool_run *r = to;
    if (r->time.trace && !at.launches) {
        struct rfg_output o;
        bool ok = rfg_output_open(&o, "rfg-emu", "--trace", r->time.trace);
        if (ok && !emu_time_trace_write(t, o.f))
            at.status = failed("--trace", r->time.trace);
        if (ok && !rfg_output_close(&o, !at.status))
            at.status = 1;
        at.status |= !ok;
    }
    at.status |= estimate(r, t, at.launches++ ? NULL : r->time.timeline);
    emu_time_trace_free(t);
}

int tool_time_begin(struct tool_run *r)
{
    at.r = r;
    at.status = at.launches = 0;
    emu_time_record(r->time.rounds, launched, r);
    return 0;
}

int tool_time_end(struct tool_run *r)
{
    emu_time_record_end();
    if (!at.launches && !at.status) {
        fprintf(stderr, "rfg-emu: time: %s: nothing was timed\n", r->path);
        return 1;
    }
    return at.status;
}

int tool_time_replay(struct tool_run *r, char **paths, int n)
{
    int status = 0;
    for (int i = 0; i < n && !status; i++) {
        FILE *f = fopen(paths[i], "rb");
        struct emu_time_trace *t = f ? emu_time_trace_read(f) : NULL;
        bool other = f && !t && errno == EINVAL;
        status = t       ? estimate(r, t, i ? NULL : r->time.timeline)
                 : other ? tool_wrong("time: --replay %s: must be a trace that this rfg-emu wrote", paths[i])
                         : failed("--replay", paths[i]);
        emu_time_trace_free(t);
        if (f)
            fclose(f);
    }
    return status;
}

int tool_time_params(const struct tool_run *r)
{
    struct emu_time_params p;
    char name[32];
    const char *device = r->device ? r->device : "gfx942", *colon = strchr(device, ':');
    unsigned long long cus = 0;
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(device, ":"), device);
    const struct emu_arch *arch = emu_arch_find(name);
    if (!arch || (colon && !tool_number(colon + 1, 1, 4096, &cus)))
        return tool_wrong("time: --device %s: must be an emulated architecture, and :CUS perhaps", device);
    int status = params_of(&r->time, arch->gfx, colon ? (int)cus : arch->cu_count, &p);
    if (!status)
        emu_time_print_params(stdout, &p);
    return status;
}
