/* SPDX-License-Identifier: MIT
 *
 * Which bytes of device memory were ever written: a bit each, an eighth of the allocation, and nothing at all once all
 * of it was. What reads others marks its registers (check_registers.c); an atomic on them is reported at once. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "watch.h"

struct emu_shadow {
    bool all;
    uint8_t *bits; /* mapped: only touched pages are there */
    size_t size;
    struct emu_pages *pages; /* check_races.c */
};

void emu_memory_begin(struct emu_block *b)
{
    if (b->kind != EMU_BLOCK_DEVICE)
        return;
    struct emu_shadow *s = calloc(1, sizeof(*s));
    size_t size = (b->hi - b->lo + 7) / 8;
    if (!s)
        return; /* unwatched */
    s->bits = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    s->size = size;
    if (s->bits == MAP_FAILED) {
        s->bits = NULL;
        s->all = true;
    }
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
    emu_races_forget(&s->pages);
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

/* Of four bytes, or fewer, those that nothing wrote. */
static bool undefined(const struct emu_shadow *s, size_t at, size_t n)
{
    for (; n; at++, n--)
        if (!(s->bits[at / 8] >> at % 8 & 1))
            return true;
    return false;
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

void emu_memory_access(struct emu_wave *w, const struct emu_inst *i, const struct emu_access *a,
                       const struct emu_block *b)
{
    uint64_t bad[16] = { 0 }, any = 0;
    unsigned words = a->bytes < 4 ? 1 : a->bytes / 4u;
    for (uint64_t m = a->lanes; m; m &= m - 1) {
        int l = __builtin_ctzll(m);
        uint64_t addr = a->addr[l];
        if (addr < b->lo || addr >= b->hi)
            b = emu_memory_find(w->launch->memory, addr);
        struct emu_shadow *s = b ? b->shadow : NULL;
        if (!s || s->all)
            continue;
        size_t at = addr - b->lo;
        if (a->kind == EMU_STORE) {
            define(s, at, a->bytes);
            continue;
        }
        if (!undefined_words(s, at, a->bytes))
            continue;
        any |= 1ull << l;
        for (unsigned d = 0; d < words; d++)
            if (undefined(s, at + 4 * d, a->bytes < 4 ? a->bytes : 4))
                bad[d] |= 1ull << l;
        if (a->kind == EMU_ATOMIC)
            define(s, at, a->bytes);
    }
    if (!any)
        return;
    if (a->kind == EMU_ATOMIC) {
        char where[256];
        emu_memory_describe(w->launch->memory, a->addr[__builtin_ctzll(any)], where, sizeof(where));
        emu_report(w, i, "uninitialised-memory", any, "an atomic on what nothing wrote: %s", where);
    } else if (a->data != EMU_NONE)
        for (unsigned d = 0; d < words; d++)
            if (bad[d])
                emu_regs_undefined(w, a->data + d, bad[d], w->checks->current, false);
}
