/* SPDX-License-Identifier: MIT */
#include "emu_exposed.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emu/check/watch.h"

enum { VM, LGKM, VS, KM, COUNTERS };

/* A memory operation of a wave: under way until waits covered all of its numbers. */
struct op {
    const struct emu_inst *inst;
    uint32_t number[COUNTERS]; /* 0: isn't counted there, or waited for */
    bool unordered, exposed;
    uint8_t pending;
    struct emu_access access; /* lanes 0: none yet */
};
#define OPS 256
struct wave {
    const struct emu_wave *wave;
    uint32_t issued[COUNTERS];
    struct op op[OPS];
    int n, n_exposed;
    bool lost; /* more were under way than are kept */
};
#define WAVES 64

static struct {
    const struct emu_program *prog;
    const struct emu_effect *effects;
    const struct emu_inst *without;
    uint32_t wait;
    bool *ran;
    struct wave *waves[WAVES];
    int n_waves;
    bool any, scratch_alone;
    char needed[200];
} now;

static void (*checks_before)(struct emu_wave *w, const struct emu_inst *i);
static const struct emu_hooks *checks_hooks;
static struct emu_hooks hooks;

static struct wave *of(const struct emu_wave *w)
{
    for (int k = 0; k < now.n_waves; k++)
        if (now.waves[k]->wave == w)
            return now.waves[k];
    ck_assert_int_lt(now.n_waves, WAVES);
    struct wave *x = now.waves[now.n_waves];
    if (!x)
        x = now.waves[now.n_waves] = malloc(sizeof(*x));
    ck_assert_ptr_nonnull(x);
    x->wave = w;
    x->lost = false;
    now.n_waves++;
    return x;
}

/* In the place of one that has ended, or in a new one. */
static void wave_begin(struct emu_wave *w)
{
    struct wave *x = of(w);
    x->n = x->n_exposed = 0;
    memset(x->issued, 0, sizeof(x->issued));
    checks_hooks->wave_begin(w);
}

static void needed(const struct emu_inst *i, const struct op *op, const char *what)
{
    char text[80], late[80];
    if (*now.needed)
        return;
    emu_inst_text(now.prog, i, text, sizeof(text));
    emu_inst_text(now.prog, op->inst, late, sizeof(late));
    snprintf(now.needed, sizeof(now.needed), "%s %s '%s' at 0x%x", text, what, late, op->inst->address);
}

static bool counted_apart(const struct wave *x)
{
    return x->wave->prog->arch->gfx >= 0x1000;
}

static bool same_kind(const struct op *op, const struct emu_effect *e)
{
    return op->pending == e->pending && op->pending != EMU_PENDING_SMEM && op->pending != EMU_PENDING_FLAT;
}

/* Does the instruction touch what exposed loads still write? */
static void registers(const struct wave *x, const struct emu_inst *i, const struct emu_effect *e)
{
    for (int k = 0; k < x->n; k++) {
        const struct op *op = &x->op[k];
        const struct emu_effect *late = &now.effects[op->inst - now.prog->inst];
        for (int a = 0; op->exposed && a < late->n_writes; a++) {
            unsigned lo = late->write[a].reg, hi = lo + late->write[a].words;
            for (int b = 0; b < e->n_reads + e->n_writes; b++) {
                const struct emu_range *r = b < e->n_reads ? &e->read[b] : &e->write[b - e->n_reads];
                if (late->write[a].operand == EMU_IMPLICIT || r->reg >= hi || r->reg + r->words <= lo ||
                    (b >= e->n_reads && same_kind(op, e)))
                    continue;
                needed(i, op, b < e->n_reads ? "reads what is still to come from" : "overwrites what comes from");
            }
        }
    }
}

/* Which of a wave's operations a wait covers. */
static void covered(struct wave *x, uint32_t wait, bool taken_out)
{
    static const int shift[] = { EMU_WAIT_VM, EMU_WAIT_LGKM, EMU_WAIT_VS, EMU_WAIT_KM };
    bool split = x->wave->prog->arch->gfx >= 0x1200, unordered = false;
    int n = 0;
    for (int k = 0; k < x->n; k++)
        unordered |= x->op[k].number[LGKM] && x->op[k].unordered;
    for (int k = 0; k < x->n; k++) {
        struct op *op = &x->op[k];
        uint32_t left = 0, had = 0;
        for (int c = 0; c < COUNTERS; c++) {
            uint32_t limit = c == KM && !split ? 0 : wait >> shift[c] & 255;
            bool by_this = op->number[c] && limit && op->number[c] <= x->issued[c] - (limit - 1) &&
                           limit - 1 <= x->issued[c] && (c != LGKM || limit == 1 || !unordered) &&
                           (c != KM || limit == 1);
            had += op->number[c] != 0;
            if (by_this && !taken_out)
                op->number[c] = 0;
            left += op->number[c] && !by_this;
            if (by_this && taken_out) {
                bool own = op->inst->op->cls == EMU_SCRATCH_STORE || op->access.space == EMU_SCRATCH;
                op->exposed = now.any = true;
                now.scratch_alone &= own && op->pending == EMU_PENDING_STORE;
            }
        }
        if (left || (taken_out && had)) {
            if (n != k)
                x->op[n] = *op;
            n++;
        }
    }
    x->n = n;
    x->n_exposed = 0;
    for (int k = 0; k < n; k++)
        x->n_exposed += x->op[k].exposed;
}

static void issue(struct wave *x, const struct emu_inst *i, const struct emu_effect *e)
{
    bool apart = counted_apart(x), split = x->wave->prog->arch->gfx >= 0x1200, store = false;
    struct op op = { .inst = i, .pending = e->pending };
    switch (e->pending) {
    case EMU_PENDING_LOAD:
        op.number[VM] = ++x->issued[VM];
        break;
    case EMU_PENDING_STORE:
        op.number[apart ? VS : VM] = ++x->issued[apart ? VS : VM];
        break;
    case EMU_PENDING_LDS:
        op.number[LGKM] = ++x->issued[LGKM];
        break;
    case EMU_PENDING_SMEM:
        op.number[split ? KM : LGKM] = ++x->issued[split ? KM : LGKM];
        op.unordered = true;
        break;
    case EMU_PENDING_FLAT:
        store = apart && !e->n_writes;
        op.number[LGKM] = ++x->issued[LGKM];
        op.number[store ? VS : VM] = ++x->issued[store ? VS : VM];
        op.unordered = !apart;
        break;
    default:
        return;
    }
    if (x->n == OPS) {
        x->lost |= x->op[0].exposed;
        memmove(&x->op[0], &x->op[1], (OPS - 1) * sizeof(x->op[0]));
        x->n--;
    }
    x->op[x->n++] = op;
}

static void before(struct emu_wave *w, const struct emu_inst *i)
{
    if (w->prog == now.prog) {
        struct wave *x = of(w);
        const struct emu_effect *e = &now.effects[i - now.prog->inst];
        now.ran[i - now.prog->inst] = true;
        if (i == now.without)
            covered(x, now.wait, true);
        else if (i->wait)
            covered(x, i->wait, false);
        if (x->n_exposed)
            registers(x, i, e);
        issue(x, i, e);
    }
    checks_before(w, i);
}

/* Does another wave touch what an exposed operation does? */
static bool overlap(const struct emu_access *a, const struct emu_access *b)
{
    for (uint64_t m = a->lanes; m; m &= m - 1)
        for (uint64_t n = b->lanes; n; n &= n - 1) {
            uint64_t x = a->addr[__builtin_ctzll(m)], y = b->addr[__builtin_ctzll(n)];
            if (x < y + b->bytes && y < x + a->bytes)
                return true;
        }
    return false;
}

/* One word by which waves agree: asked for past the caches, or set. */
static bool is_flag(const struct emu_access *a, const struct emu_inst *i)
{
    bool past = i->mods->glc || i->mods->sc1 || i->mods->scope;
    return __builtin_popcountll(a->lanes) == 1 && (a->kind != EMU_LOAD || past);
}

static uint64_t on_access(struct emu_wave *w, const struct emu_inst *i, const struct emu_access *a,
                          const struct emu_block *b)
{
    struct wave *x = of(w);
    bool gfx9 = !counted_apart(x), scratch = a->space == EMU_SCRATCH || (b && b->kind == EMU_BLOCK_SCRATCH);
    for (int k = 0; k < now.n_waves && now.without && !scratch; k++) {
        struct wave *other = now.waves[k];
        bool same_group = other->wave->wg == w->wg;
        if (other == x || !other->n_exposed || (a->space == EMU_LDS_SPACE && !same_group))
            continue;
        for (int j = 0; j < other->n; j++) {
            const struct op *op = &other->op[j];
            if (!op->exposed || op->access.space != a->space || (a->kind == EMU_LOAD && op->access.kind == EMU_LOAD) ||
                (a->kind == EMU_ATOMIC && op->access.kind == EMU_ATOMIC))
                continue;
            if (a->space == EMU_GLOBAL && same_group && gfx9)
                continue; /* one L1 keeps their order */
            if (is_flag(a, w->checks->current) && op->access.kind != EMU_LOAD && is_flag(&op->access, op->inst))
                continue; /* who asks for it may be told either */
            if (overlap(a, &op->access))
                needed(i, op, "of another wave touches the bytes of");
        }
    }
    if (x->n && x->op[x->n - 1].inst == w->checks->current) {
        x->op[x->n - 1].access = *a;
        if (scratch) /* by a buffer instruction too */
            x->op[x->n - 1].access.space = EMU_SCRATCH;
    }
    return checks_hooks->access(w, i, a, b);
}

void exposed_in(void)
{
    checks_before = emu_before;
    checks_hooks = emu_hooks;
    hooks = *emu_hooks;
    hooks.access = on_access;
    hooks.wave_begin = wave_begin;
    emu_before = before;
    emu_hooks = &hooks;
}

void exposed_out(void)
{
    emu_before = checks_before;
    emu_hooks = checks_hooks;
    for (int k = 0; k < WAVES; k++) {
        free(now.waves[k]);
        now.waves[k] = NULL;
    }
    free(now.ran);
    now.ran = NULL;
}

void exposed_begin(const struct emu_program *prog, const struct emu_inst *without, uint32_t wait)
{
    if (now.prog != prog || !now.ran) {
        free(now.ran);
        now.ran = malloc((size_t)prog->n);
        ck_assert_ptr_nonnull(now.ran);
    }
    memset(now.ran, 0, (size_t)prog->n);
    now.prog = prog;
    now.effects = emu_effects(prog);
    now.without = without;
    now.wait = wait;
    now.n_waves = 0;
    now.any = false;
    now.scratch_alone = true;
    *now.needed = 0;
}

bool exposed_ran(const struct emu_inst *i)
{
    return now.ran[i - now.prog->inst];
}

const char *exposed_needed(const char **why)
{
    bool lost = false;
    for (int k = 0; k < now.n_waves; k++)
        lost |= now.waves[k]->lost;
    *why = !now.any ? "nothing was under way" : now.scratch_alone ? "stores to its own scratch" : "waited for later";
    return *now.needed ? now.needed : lost ? "more operations than are kept" : NULL;
}
