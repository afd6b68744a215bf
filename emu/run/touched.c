/* SPDX-License-Identifier: MIT */
#include "touched.h"

#include <stdlib.h>
#include <string.h>

#define WAYS 3

/* A bit for each byte of an allocation and each way to touch it. */
struct bits {
    struct bits *next;
    uint64_t lo, hi;
    uint64_t *word[WAYS];
    uint64_t from, to; /* all that were touched lie between */
};
struct emu_touched {
    struct bits *first; /* the one that was touched last */
    bool lost;
};

struct emu_touched *emu_touched_create(void)
{
    return calloc(1, sizeof(struct emu_touched));
}

void emu_touched_destroy(struct emu_touched *t)
{
    for (struct bits *b = t ? t->first : NULL, *next; b; b = next) {
        next = b->next;
        for (int way = 0; way < WAYS; way++)
            free(b->word[way]);
        free(b);
    }
    free(t);
}

static size_t words(const struct bits *b)
{
    return (size_t)((b->hi - b->lo) / 64 + 1);
}

/* NULL: of no memory that streams share. */
static struct bits *bits_of(struct emu_touched *t, const struct emu_memory *m, uint64_t address)
{
    for (struct bits **at = &t->first, *b; (b = *at); at = &b->next)
        if (address >= b->lo && address < b->hi) {
            *at = b->next;
            b->next = t->first;
            return t->first = b;
        }
    const struct emu_block *block = emu_memory_find(m, address);
    if (!block || address >= block->hi || !block->writable ||
        (block->kind != EMU_BLOCK_DEVICE && block->kind != EMU_BLOCK_CODE))
        return NULL;
    struct bits *b = calloc(1, sizeof(*b));
    if (b) {
        *b = (struct bits){ .next = t->first, .lo = block->lo, .hi = block->hi, .from = UINT64_MAX };
        t->first = b;
    } else
        t->lost = true;
    return b;
}

void emu_touched_add(struct emu_touched *t, const struct emu_memory *m, const struct emu_access *a)
{
    int way = a->kind == EMU_LOAD ? 0 : a->kind == EMU_STORE ? 1 : 2;
    for (uint64_t rest = a->lanes; rest; rest &= rest - 1) {
        uint64_t address = a->addr[__builtin_ctzll(rest)];
        struct bits *b = bits_of(t, m, address);
        if (!b || (!b->word[way] && !(b->word[way] = calloc(words(b), sizeof(uint64_t))))) {
            t->lost |= b != NULL;
            continue;
        }
        uint64_t from = address - b->lo, to = from + a->bytes < b->hi - b->lo ? from + a->bytes : b->hi - b->lo;
        b->from = from < b->from ? from : b->from;
        b->to = to > b->to ? to : b->to;
        for (uint64_t at = from; at < to; at++)
            b->word[way][at / 64] |= 1ull << at % 64;
    }
}

static bool is_set(const uint64_t *word, uint64_t at)
{
    return word[at / 64] >> at % 64 & 1;
}

static void each_of(const struct bits *b, int way, void (*fn)(void *, uint64_t, uint64_t, enum emu_touch), void *arg)
{
    const uint64_t *word = b->word[way];
    uint64_t size = b->to;
    for (uint64_t at = b->from; word && at < size;) {
        if (!word[at / 64])
            at = (at / 64 + 1) * 64;
        else if (!is_set(word, at))
            at++;
        else {
            uint64_t from = at;
            while (at < size && is_set(word, at))
                at += at % 64 == 0 && !~word[at / 64] && at + 64 <= size ? 64 : 1;
            fn(arg, b->lo + from, b->lo + at, (enum emu_touch)(1 << way));
        }
    }
}

bool emu_touched_each(const struct emu_touched *t, void (*fn)(void *, uint64_t, uint64_t, enum emu_touch), void *arg)
{
    for (const struct bits *b = t->first; b; b = b->next)
        for (int way = 0; way < WAYS; way++)
            each_of(b, way, fn, arg);
    return !t->lost;
}
