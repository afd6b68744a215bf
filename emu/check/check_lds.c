/* SPDX-License-Identifier: MIT
 *
 * A workgroup's LDS, by words of four bytes:
 *
 *   lds-race   two waves touch the same bytes, one of them writing, with no barrier between; or with one that the
 * writer reached before its store had been waited for missing-wait   a wave reads what its own load from memory to LDS
 * still has under way
 *
 * and which bytes were written at all (check_registers.c says where those that weren't end up). Atomics order
 * themselves. */
#include <stdlib.h>
#include <string.h>

#include "watch.h"

/* Who wrote last and who read since, which of its bytes, in which epoch (barriers so far). */
struct word {
    uint32_t write_epoch, read_epoch;
    uint32_t seq; /* of the writer's operation: lgkm, or vm if by_load */
    uint8_t writer, reader, written, read, defined;
    bool many_readers, by_load;
};

struct emu_lds_shadow {
    uint32_t epoch, first;           /* first: of this workgroup; what is older is another's */
    struct emu_progress *at_barrier; /* of each wave */
    struct word word[];
};

struct emu_lds_shadow *emu_lds_create(uint32_t bytes, int waves)
{
    size_t words = bytes / 4 + 1;
    struct emu_lds_shadow *s =
        calloc(1, sizeof(*s) + words * sizeof(struct word) + (size_t)waves * sizeof(*s->at_barrier));
    if (s)
        s->at_barrier = (struct emu_progress *)&s->word[words];
    return s;
}

void emu_lds_begin(struct emu_workgroup *wg)
{
    struct emu_lds_shadow *s = wg->shadow;
    memset(s->at_barrier, 0, (size_t)wg->n_waves * sizeof(*s->at_barrier));
    s->first = ++s->epoch;
}

static struct word *word_at(struct emu_lds_shadow *s, uint32_t at)
{
    struct word *b = &s->word[at];
    if (b->write_epoch < s->first && b->read_epoch < s->first)
        *b = (struct word){ 0 };
    return b;
}

static bool done(const struct word *b, const struct emu_progress *p)
{
    return (int32_t)((b->by_load ? p->vm_done : p->lgkm_done) - b->seq) >= 0;
}

static void race(struct emu_wave *w, const struct emu_inst *i, int lane, const char *does, uint32_t at, const char *did,
                 int other, const char *why)
{
    if (w->checks->groups & EMU_CHECK_LDS)
        emu_report(w, i, "lds-race", 1ull << lane, "%s LDS at offset %u, which wave %d %s %s", does, at * 4, other - 1,
                   did, why);
}

/* Returns the bytes that nothing wrote. */
static uint8_t load(struct emu_wave *w, const struct emu_inst *i, uint32_t at, uint8_t bytes, int lane)
{
    struct emu_lds_shadow *s = w->wg->shadow;
    struct word *b = word_at(s, at);
    uint8_t me = (uint8_t)(w->index + 1);
    if (b->writer && (b->written & bytes)) {
        if (b->writer == me) {
            if (b->by_load && !done(b, emu_regs_progress(w)) && (w->checks->groups & EMU_CHECK_WAITS))
                emu_report(
                    w, i, "missing-wait", 1ull << lane,
                    "reads LDS at offset %u while a load from memory to it is under way: no s_waitcnt vmcnt waited "
                    "for it",
                    at * 4);
        } else if (b->write_epoch == s->epoch)
            race(w, i, lane, "reads", at, "wrote", b->writer, "with no barrier between");
        else if (!done(b, &s->at_barrier[b->writer - 1]))
            race(w, i, lane, "reads", at, "wrote", b->writer, "and reached the barrier without waiting for it");
    }
    if (b->read_epoch != s->epoch) {
        b->read_epoch = s->epoch;
        b->reader = me;
        b->read = bytes;
        b->many_readers = false;
    } else {
        b->read |= bytes;
        b->many_readers |= b->reader != me;
    }
    return bytes & (uint8_t)~b->defined;
}

static void store(struct emu_wave *w, const struct emu_inst *i, const struct emu_access *a, uint32_t at, uint8_t bytes,
                  int lane, uint8_t defined)
{
    struct emu_lds_shadow *s = w->wg->shadow;
    struct word *b = word_at(s, at);
    const struct emu_progress *p = emu_regs_progress(w);
    uint8_t me = (uint8_t)(w->index + 1);
    bool current = b->write_epoch == s->epoch;
    if (current && b->writer != me && (b->written & bytes))
        race(w, i, lane, "writes", at, "wrote", b->writer, "with no barrier between");
    else if (b->read_epoch == s->epoch && (b->reader != me || b->many_readers) && (b->read & bytes))
        race(w, i, lane, "writes", at, "read", b->reader, "with no barrier between");
    b->written = current && b->writer == me ? b->written | bytes : bytes;
    b->write_epoch = s->epoch;
    b->writer = me;
    b->by_load = a->indirect;
    b->seq = a->indirect ? p->vm_issued : p->lgkm_issued;
    b->defined = (b->defined & (uint8_t)~bytes) | (defined & bytes);
}

/* Byte by byte: which were written. */
static void touch(struct emu_wave *w, const struct emu_inst *i, const struct emu_access *a, int l, uint16_t *known)
{
    uint32_t from = (uint32_t)a->addr[l], to = from + a->bytes;
    uint32_t stored = UINT32_MAX;
    if (a->kind == EMU_STORE && a->data != EMU_NONE)
        for (unsigned d = 0; d < (a->bytes < 4 ? 1 : a->bytes / 4u); d++) {
            unsigned bytes = emu_regs_bytes(w, i, a, d, l);
            stored &= ~(15u << 4 * d) | bytes << 4 * d;
        }
    *known = UINT16_MAX;
    for (uint32_t at = from / 4; at * 4 < to && w->stop != EMU_FAULT; at++) {
        uint32_t lo = from > at * 4 ? from - at * 4 : 0, hi = to < at * 4 + 4 ? to - at * 4 : 4;
        uint8_t part = (uint8_t)((1u << hi) - (1u << lo));
        uint32_t first = at * 4 + lo - from; /* of the access' bytes */
        if (a->kind == EMU_LOAD)
            *known &= (uint16_t) ~(load(w, i, at, part, l) >> lo << first);
        else if (a->kind == EMU_STORE)
            store(w, i, a, at, part, l, (uint8_t)(stored >> first << lo));
        else {
            struct word *b = word_at(w->wg->shadow, at);
            b->defined |= part;
            b->write_epoch = b->write_epoch < w->wg->shadow->first ? w->wg->shadow->first : b->write_epoch;
        }
    }
}

void emu_lds_access(struct emu_wave *w, const struct emu_inst *i, const struct emu_access *a)
{
    uint16_t known[64];
    uint64_t bad = 0;
    unsigned words = a->bytes < 4 ? 1 : a->bytes / 4u, want = a->bytes < 4 ? (1u << a->bytes) - 1 : 15;
    for (uint64_t m = a->lanes; m && w->stop != EMU_FAULT; m &= m - 1) {
        int l = __builtin_ctzll(m);
        touch(w, i, a, l, &known[l]);
        bad |= (uint64_t)(known[l] != UINT16_MAX) << l;
    }
    if (!bad || a->data == EMU_NONE || !(w->checks->groups & EMU_CHECK_REGISTERS))
        return;
    for (unsigned d = 0; d < words; d++) {
        uint64_t lanes = 0;
        uint32_t bits[64] = { 0 };
        for (uint64_t m = bad; m; m &= m - 1) {
            int l = __builtin_ctzll(m);
            unsigned bytes = known[l] >> 4 * d & 15;
            bits[l] = emu_bits_of_bytes(bytes);
            lanes |= (uint64_t)((bytes & want) != want) << l;
        }
        if (lanes)
            emu_regs_loaded(w, i, a, d, lanes, bits, EMU_FROM_LDS);
    }
}

void emu_lds_barrier(struct emu_workgroup *wg)
{
    struct emu_lds_shadow *s = wg->shadow;
    s->epoch++;
    for (int k = 0; k < wg->n_waves; k++)
        s->at_barrier[k] = *emu_regs_progress(&wg->wave[k]);
}
