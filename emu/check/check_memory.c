/* SPDX-License-Identifier: MIT
 *
 * Tracks which bytes of device memory were ever written: one bit per byte, freed once the whole allocation was written.
 * What reads others marks its registers (check_registers.c); an atomic on them is reported at once.
 *
 * A wave's scratch has marks too: what was stored there with one keeps it. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "check_pages.h"

struct emu_shadow {
    bool all;
    uint8_t *bits; /* mapped: only touched pages are there */
    size_t size;
    struct emu_pages *pages; /* check_races.c */
};

static bool map_bits(struct emu_shadow *s)
{
    s->bits = mmap(NULL, s->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (s->bits == MAP_FAILED)
        s->bits = NULL;
    return s->bits != NULL;
}

void emu_memory_begin(struct emu_block *b)
{
    if (b->kind != EMU_BLOCK_DEVICE)
        return;
    struct emu_shadow *s = calloc(1, sizeof(*s));
    if (!s)
        return; /* unwatched */
    s->size = (b->hi - b->lo + 7) / 8;
    s->all = !map_bits(s);
    b->shadow = s;
}

static void all_defined(struct emu_shadow *s)
{
    s->all = true;
    if (s->bits)
        munmap(s->bits, s->size);
    s->bits = NULL;
}

void emu_memory_end(struct emu_block *b)
{
    struct emu_shadow *s = b->shadow;
    if (!s)
        return;
    all_defined(s);
    forget_pages(&s->pages);
    free(s);
    b->shadow = NULL;
}

struct emu_pages **emu_memory_pages(const struct emu_block *b)
{
    return b->shadow ? &((struct emu_shadow *)b->shadow)->pages : NULL;
}

static void define(struct emu_shadow *s, size_t at, size_t n)
{
    for (; n && at % 8; at++, n--)
        s->bits[at / 8] |= (uint8_t)(1u << at % 8);
    memset(s->bits + at / 8, 0xff, n / 8);
    at += n & ~(size_t)7;
    for (n %= 8; n; at++, n--)
        s->bits[at / 8] |= (uint8_t)(1u << at % 8);
}

void emu_memory_host_write(struct emu_block *b, uint64_t address, size_t size)
{
    struct emu_shadow *s = b->shadow;
    if (!s || s->all)
        return;
    if (address == b->lo && size == b->hi - b->lo)
        all_defined(s);
    else
        define(s, address - b->lo, size);
}

void emu_memory_trust(const struct emu_memory *m)
{
    for (int k = 0; k < m->n; k++)
        if (m->block[k]->shadow)
            all_defined(m->block[k]->shadow);
}

/* The written bytes among four or fewer, one bit per byte. */
static unsigned known_bytes(const struct emu_shadow *s, size_t at, size_t n)
{
    unsigned known = 0;
    for (unsigned b = 0; b < n; b++)
        known |= (unsigned)(s->bits[(at + b) / 8] >> (at + b) % 8 & 1) << b;
    return known;
}

static bool undefined(const struct emu_shadow *s, size_t at, size_t n)
{
    for (; n; at++, n--)
        if (!(s->bits[at / 8] >> at % 8 & 1))
            return true;
    return false;
}

uint32_t emu_bits_of_bytes(unsigned bytes)
{
    return (bytes & 1 ? 0xffu : 0) | (bytes & 2 ? 0xff00u : 0) | (bytes & 4 ? 0xff0000u : 0) |
           (bytes & 8 ? 0xff000000u : 0);
}

/* Of a register that a load of 1 or 2 bytes fills: above them are zeros, or what the sign says. */
static uint32_t extended(const char *name, unsigned bytes, uint32_t known)
{
    bool is_signed = strstr(name, "sbyte") || strstr(name, "sshort") || strstr(name, "_i8") || strstr(name, "_i16");
    uint32_t above = ~0u << 8 * bytes;
    known = is_signed && !(known >> (8 * bytes - 1) & 1) ? known & ~above : known | above;
    return strstr(name, "d16_hi") ? known << 16 | 0xffff : strstr(name, "d16") ? known | 0xffff0000 : known;
}

void emu_regs_loaded(struct emu_wave *w, const struct emu_inst *i, const struct emu_access *a, unsigned word,
                     uint64_t lanes, uint32_t *bits, enum emu_origin origin)
{
    for (int l = 0; l < 64 && a->bytes < 4; l++)
        bits[l] = extended(i->op->name, a->bytes, bits[l]);
    emu_regs_undefined(w, a->data + word, lanes, bits, w->checks->current, origin);
}

void emu_regs_transposed(struct emu_wave *w, const struct emu_inst *i, const struct emu_access *a,
                         uint32_t (*known)[64], enum emu_origin origin)
{
    int words = a->bytes / 4;
    emu_transpose(a->transposed, words, known);
    for (int d = 0; d < words; d++) {
        uint64_t bad = 0;
        for (int l = 0; l < 64; l++)
            bad |= (uint64_t)(known[d][l] != UINT32_MAX) << l;
        if (bad & w->exec)
            emu_regs_loaded(w, i, a, (unsigned)d, bad & w->exec, known[d], origin);
    }
}

static bool undefined_words(const struct emu_shadow *s, size_t at, unsigned bytes)
{
    if (at % 4 == 0 && (bytes == 16 || bytes == 8 || bytes == 4)) {
        uint32_t have = s->bits[at / 8] | (uint32_t)(bytes + at % 8 > 8 ? s->bits[at / 8 + 1] : 0) << 8 |
                        (uint32_t)(bytes + at % 8 > 16 ? s->bits[at / 8 + 2] : 0) << 16;
        uint32_t want = ((1u << bytes) - 1) << at % 8;
        return (have & want) != want;
    }
    return undefined(s, at, bytes);
}

/* The bytes of a lane's store that were unwritten before it. */
static void forget_copied(const struct emu_wave *w, const struct emu_inst *i, const struct emu_access *a, int lane,
                          struct emu_shadow *s, size_t at)
{
    if (s->all && map_bits(s)) {
        memset(s->bits, 0xff, s->size);
        s->all = false;
    }
    for (unsigned b = 0; b < a->bytes && !s->all; b++)
        if (!(emu_regs_bytes(w, i, a, b / 4, lane) >> b % 4 & 1))
            s->bits[(at + b) / 8] &= (uint8_t) ~(1u << (at + b) % 8);
}

void emu_memory_access(struct emu_wave *w, const struct emu_inst *i, const struct emu_access *a,
                       const struct emu_block *b, uint64_t copied)
{
    uint64_t bad[16] = { 0 }, any = 0;
    uint32_t known[16][64];
    unsigned words = a->bytes < 4 ? 1 : a->bytes / 4u;
    if (a->transposed)
        memset(known, 0xff, sizeof(known));
    for (uint64_t m = a->lanes; m; m &= m - 1) {
        int l = __builtin_ctzll(m);
        uint64_t addr = a->addr[l];
        if (addr < b->lo || addr >= b->hi)
            b = emu_memory_find(w->launch->memory, addr);
        struct emu_shadow *s = b ? b->shadow : NULL;
        if (!s || (s->all && !copied))
            continue;
        size_t at = addr - b->lo;
        if (a->kind == EMU_STORE) {
            if (!s->all)
                define(s, at, a->bytes);
            if (copied >> l & 1)
                forget_copied(w, i, a, l, s, at);
            continue;
        }
        if (!undefined_words(s, at, a->bytes))
            continue;
        any |= 1ull << l;
        for (unsigned d = 0; d < words; d++) {
            unsigned size = a->bytes < 4 ? a->bytes : 4;
            unsigned bytes = known_bytes(s, at + 4 * d, size);
            known[d][l] = emu_bits_of_bytes(bytes);
            if (bytes != (1u << size) - 1)
                bad[d] |= 1ull << l;
        }
        if (a->kind == EMU_ATOMIC)
            define(s, at, a->bytes);
    }
    if (!any)
        return;
    if (a->kind == EMU_ATOMIC) {
        char where[256];
        emu_memory_describe(w->launch->memory, a->addr[__builtin_ctzll(any)], where, sizeof(where));
        emu_report(w, i, "uninitialised-memory", any, "an atomic on what nothing wrote: %s", where);
    } else if (a->transposed)
        emu_regs_transposed(w, i, a, known, EMU_FROM_MEMORY);
    else if (a->data != EMU_NONE)
        for (unsigned d = 0; d < words; d++)
            if (bad[d])
                emu_regs_loaded(w, i, a, d, bad[d], known[d], EMU_FROM_MEMORY);
}

/* ---- scratch ----------------------------------------------------------------------------------------------------- */

struct emu_scratch_shadow {
    size_t bytes, used; /* used: the marks from there on are clear */
    uint8_t known[];    /* bits of each byte, as they lie in memory: spilled lane masks are known in part */
};

struct emu_scratch_shadow *emu_scratch_create(size_t bytes)
{
    struct emu_scratch_shadow *s = calloc(1, sizeof(*s) + bytes);
    if (s)
        s->bytes = bytes;
    return s;
}

void emu_scratch_begin(struct emu_scratch_shadow *s)
{
    memset(s->known, 0, s->used);
    s->used = 0;
}

/* Scratch instructions give offsets of a work-item's own, others addresses. Bytes of a word are together; its next word
 * is behind those of the other lanes, but for a buffer's, whose words are asked for one by one. */
static size_t scratch_place(const struct emu_wave *w, const struct emu_access *a, int lane, unsigned byte)
{
    uint64_t at = a->addr[lane] + byte;
    if (a->space == EMU_SCRATCH)
        return (at & ~3ull) * w->wave_size + (size_t)lane * 4 + (at & 3);
    return at - (uint64_t)(uintptr_t)w->scratch;
}

void emu_scratch_access(struct emu_wave *w, const struct emu_inst *i, const struct emu_access *a)
{
    struct emu_scratch_shadow *s = w->checks->scratch;
    unsigned words = a->bytes < 4 ? 1 : a->bytes / 4u, size = a->bytes < 4 ? a->bytes : 4;
    bool store = a->kind != EMU_LOAD, from_register = a->kind == EMU_STORE && a->data != EMU_NONE;
    for (unsigned d = 0; d < words; d++) {
        uint64_t bad = 0;
        uint32_t known[64] = { 0 };
        for (uint64_t m = a->lanes; m; m &= m - 1) {
            int l = __builtin_ctzll(m);
            uint32_t bits = from_register ? emu_regs_bits(w, a->data + d, l) : UINT32_MAX;
            if (a->bytes < 4 && strstr(i->op->name, "d16_hi"))
                bits >>= 16;
            for (unsigned b = 0; b < size; b++) {
                size_t at = scratch_place(w, a, l, 4 * d + b);
                if (at >= s->bytes)
                    continue;
                if (store) {
                    s->known[at] = (uint8_t)(bits >> 8 * b);
                    s->used = at >= s->used ? at + 1 : s->used;
                } else
                    known[l] |= (uint32_t)s->known[at] << 8 * b;
            }
            if (!store && known[l] != (uint32_t)((1ull << 8 * size) - 1))
                bad |= 1ull << l;
        }
        if (bad && a->data != EMU_NONE)
            emu_regs_loaded(w, i, a, d, bad, known, EMU_FROM_SCRATCH);
    }
}
