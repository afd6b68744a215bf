/* SPDX-License-Identifier: MIT
 *
 * Chooses the host's handlers; the table of instructions by name; the execution loop. */
#include "isa.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"

void (*emu_before)(struct emu_wave *w, const struct emu_inst *i);
void (*emu_after)(struct emu_wave *w, const struct emu_inst *i);

/* ---- the table --------------------------------------------------------------------------------------------------- */

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

/* ---- the loop ---------------------------------------------------------------------------------------------------- */

static void lacks_registers(struct emu_wave *w, const struct emu_inst *i)
{
    emu_report(w, i, "register-range", w->exec, "needs %u VGPRs and %u AGPRs: the wave has %d and %d", i->need_v,
               i->need_a, w->n_vgprs, w->n_agprs);
    w->stop = EMU_FAULT;
}
/* Where AGPRs are the file's upper part, VGPRs may be named beyond the first of them, and are the same (AITER's
 * attention does so). */
static inline bool fits(const struct emu_wave *w, const struct emu_inst *i)
{
    return (i->need_v <= w->n_vgprs || (w->prog->arch->unified_agprs && i->need_v <= w->n_vgprs + w->n_agprs)) &&
           i->need_a <= w->n_agprs;
}

/* gfx950: of each 16 lanes, what they read is a matrix of 16 columns, rows one after another; lane c gets column c.
 * Source: AMD, "CDNA4 Instruction Set Architecture", 11.4, by the values of K that it says the instructions load.
 *
 * gfx12, waves of 32: A or B of a 16x16x16 WMMA, whose lane l has column l % 16 and the 8 rows from 8 (l / 16) on. Of
 * 16 bits: 8 lanes transpose an 8x8 matrix (ROCm's "HIP C++ language extensions", the fragment layout of transpose
 * loads; a kernel in public use). Of 8 bits: the 8 lanes are those whose numbers have the bits 0, 1 and 3 free
 * (measured on gfx1201: two public sources that agree). */
void emu_transpose(unsigned layout, int words, uint32_t (*rows)[64])
{
    uint32_t out[4][64] = { 0 };
    int bits = layout & (EMU_TR_GFX12 - 1), n = 32 * words / bits;
    for (int l = 0; l < 64; l++)
        for (int row = 0; row < n; row++) {
            int element = 16 * row + l % 16, from = (l & ~15) + element / n, at = element % n * bits, to = row * bits;
            if (layout & EMU_TR_GFX12) {
                from = bits == 16 ? (l & ~7) + row : (l & ~15) + 8 * (row >> 2) + (row & 3) + (l >> 1 & 4);
                at = l % 8 * bits;
            }
            for (int bit = 0; bit < bits; bit += 2) { /* of 6-bit elements, some lie in two words */
                uint32_t x = rows[(at + bit) / 32][from] >> (at + bit) % 32 & 3;
                out[(to + bit) / 32][l] |= x << (to + bit) % 32;
            }
        }
    memcpy(rows, out, (size_t)words * sizeof(*rows));
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
