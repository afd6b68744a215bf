/* SPDX-License-Identifier: MIT
 *
 * Which host's handlers run, the table of instructions by name, and the loop. */
#include "isa.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/env.h"

void (*emu_before)(struct emu_wave *w, const struct emu_inst *i);
void (*emu_after)(struct emu_wave *w, const struct emu_inst *i);

/* ---- the table
 * ------------------------------------------------------------------------------------------------------------- */

static struct {
    const char *host;
    const struct emu_op **sorted; /* by name; rows of one name in their tables' order */
    int n;
} isa;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static int by_name(const void *a, const void *b)
{
    const struct emu_op *x = *(const struct emu_op *const *)a, *y = *(const struct emu_op *const *)b;
    int c = strcmp(x->name, y->name);
    return c ? c : x < y ? -1 : x > y;
}

static void choose(void)
{
    const struct {
        const char *name;
        const struct emu_ops *const *tables;
        bool ok;
    } hosts[] = {
#ifdef EMU_HAVE_X86
        { "avx512", emu_tables_avx512,
          __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
              __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") },
        { "avx2", emu_tables_avx2, __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") },
#endif
        { "portable", emu_tables_portable, true },
    };
    const char *forced = rfg_env("RFG_EMU_HOST");
    int chosen = COUNT(hosts) - 1;
    for (int k = COUNT(hosts) - 1; k >= 0; k--)
        if (hosts[k].ok && (!forced || !strcmp(forced, hosts[k].name)))
            chosen = k;
    isa.host = hosts[chosen].name;
    for (const struct emu_ops *const *t = hosts[chosen].tables; *t; t++)
        isa.n += (*t)->n;
    isa.sorted = malloc((size_t)isa.n * sizeof(*isa.sorted));
    if (!isa.sorted) { /* nothing is known, then: decoding says so */
        isa.n = 0;
        return;
    }
    int n = 0;
    for (const struct emu_ops *const *t = hosts[chosen].tables; *t; t++)
        for (int k = 0; k < (*t)->n; k++)
            isa.sorted[n++] = &(*t)->op[k];
    qsort(isa.sorted, (size_t)isa.n, sizeof(*isa.sorted), by_name);
}

const char *emu_host(void)
{
    pthread_once(&once, choose);
    return isa.host;
}

const struct emu_op *emu_op_find(const char *name)
{
    pthread_once(&once, choose);
    int lo = 0, hi = isa.n;
    while (lo < hi) {
        int mid = (lo + hi) / 2;
        if (strcmp(isa.sorted[mid]->name, name) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < isa.n && !strcmp(isa.sorted[lo]->name, name) ? isa.sorted[lo] : NULL;
}

const struct emu_op *emu_op_next(const struct emu_op *op)
{
    pthread_once(&once, choose);
    if (!op)
        return isa.n ? isa.sorted[0] : NULL;
    const struct emu_op *const *at = bsearch(&op, isa.sorted, (size_t)isa.n, sizeof(*isa.sorted), by_name);
    return at && at + 1 < isa.sorted + isa.n ? at[1] : NULL;
}

/* ---- the loop
 * ----------------------------------------------------------------------------------------------------------------- */

static void lacks_registers(struct emu_wave *w, const struct emu_inst *i)
{
    emu_report(w, i, "register-range", w->exec, "needs %u VGPRs and %u AGPRs: the wave has %d and %d", i->need_v,
               i->need_a, w->n_vgprs, w->n_agprs);
    w->stop = EMU_FAULT;
}
static inline bool fits(const struct emu_wave *w, const struct emu_inst *i)
{
    return i->need_v <= w->n_vgprs && i->need_a <= w->n_agprs;
}

/* X and Y of a pair that each read what the other writes: both see the old registers. */
void emu_dual(struct emu_wave *w, const struct emu_inst *i);
void emu_dual(struct emu_wave *w, const struct emu_inst *i)
{
    const struct emu_inst *y = i + 1;
    row32 before, after;
    if (unlikely(!fits(w, y))) {
        lacks_registers(w, y);
        return;
    }
    if (w->watch & EMU_WATCH_BEFORE)
        emu_before(w, y);
    uint32_t *d = vrow(w, i->reg[0]);
    memcpy(before, d, 256);
    i->op->fn(w, i);
    memcpy(after, d, 256);
    memcpy(d, before, 256);
    y->op->fn(w, y);
    memcpy(d, after, 256);
    w->pc = y + 1;
    w->executed++;
}

/* With s_set_gpr_idx on, M0's low byte shifts the vector registers of the operands chosen. */
static void run_indexed(struct emu_wave *w, const struct emu_inst *i)
{
    struct emu_inst x = *i;
    int number = 0;
    for (int k = 0; k < i->n; k++) {
        bool dst = i->role[k] == 'd' || i->role[k] == 'b';
        unsigned bit = dst ? 8 : i->role[k] == 's' && number < 3 ? 1u << number++ : 0;
        if (!(w->gpr_index & bit) || i->reg[k] < EMU_VGPR || i->reg[k] >= EMU_AGPR)
            continue;
        unsigned r = i->reg[k] + (w->s[EMU_M0] & 255);
        if (r + i->words[k] > (unsigned)w->n_vgprs + EMU_VGPR) {
            emu_report(w, i, "register-range", w->exec, "v%u by M0: the wave has %d VGPRs", r - EMU_VGPR, w->n_vgprs);
            w->stop = EMU_FAULT;
            return;
        }
        x.reg[k] = (uint16_t)r;
    }
    x.fn(w, &x);
}

static bool is_vector(const struct emu_inst *i)
{
    return i->op->cls >= EMU_VALU && i->op->cls < EMU_CACHE;
}
static bool is_alu(const struct emu_inst *i)
{
    return i->op->cls == EMU_VALU || i->op->cls == EMU_TRANS || i->op->cls == EMU_CROSS;
}

/* One instruction, with all that is rare. */
static void step(struct emu_wave *w)
{
    const struct emu_inst *i = w->pc;
    if (!fits(w, i)) {
        lacks_registers(w, i);
        return;
    }
    if (w->vskip && is_vector(i)) {
        w->pc = i + 1;
        return;
    }
    if (w->watch & EMU_WATCH_BEFORE)
        emu_before(w, i);
    if (w->stop)
        return;
    w->pc = i + 1;
    if (w->gpr_index && is_alu(i))
        run_indexed(w, i);
    else
        i->fn(w, i);
    if (w->watch & EMU_WATCH_AFTER)
        emu_after(w, i);
}

enum emu_stop emu_run(struct emu_wave *w, int64_t budget)
{
    w->stop = EMU_RUNNING;
    int64_t left = budget;
    while (left > 0 && !w->stop) {
        if (unlikely(w->watch || w->vskip || w->gpr_index)) {
            for (; left > 0 && !w->stop; left--, w->executed++)
                step(w);
        } else {
            const struct emu_inst *i = w->pc;
            int64_t start = left;
            do {
                if (unlikely(!fits(w, i))) {
                    lacks_registers(w, i);
                    break;
                }
                w->pc = i + 1;
                i->fn(w, i);
                left--;
                i = w->pc;
            } while (likely(!w->stop) && left > 0);
            w->executed += (uint64_t)(start - left);
        }
        if (w->stop == EMU_STOP_SWITCH)
            w->stop = EMU_RUNNING;
    }
    return (enum emu_stop)w->stop;
}
