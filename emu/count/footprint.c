/* SPDX-License-Identifier: MIT */
#include "footprint.h"

#include <stdatomic.h>
#include <stdlib.h>

#define BUCKETS    (1 << 14)
#define PAGE_LINES 1024 /* 64 KiB */
#define WORDS      (PAGE_LINES / 64)

struct emu_footprint_page {
    struct emu_footprint_page *next;
    uint64_t number;
    _Atomic uint64_t bits[EMU_TOUCHES][WORDS];
};

/* Pages are only added, each at the head of its bucket's list. */
struct emu_footprint {
    _Atomic(struct emu_footprint_page *) bucket[BUCKETS];
    _Atomic bool incomplete;
};

struct emu_footprint *emu_footprint_create(void)
{
    return calloc(1, sizeof(struct emu_footprint));
}

void emu_footprint_destroy(struct emu_footprint *f)
{
    for (int b = 0; f && b < BUCKETS; b++)
        for (struct emu_footprint_page *p = atomic_load(&f->bucket[b]), *next; p; p = next) {
            next = p->next;
            free(p);
        }
    free(f);
}

static struct emu_footprint_page *search(struct emu_footprint_page *p, const struct emu_footprint_page *end,
                                         uint64_t number)
{
    while (p != end && p->number != number)
        p = p->next;
    return p != end ? p : NULL;
}

static struct emu_footprint_page *page(struct emu_footprint *f, uint64_t number)
{
    _Atomic(struct emu_footprint_page *) *bucket = &f->bucket[(number * 0x9E3779B97F4A7C15ull) >> 50];
    struct emu_footprint_page *head = atomic_load(bucket), *seen = NULL, *found = search(head, NULL, number);
    if (found)
        return found;
    struct emu_footprint_page *fresh = calloc(1, sizeof(*fresh));
    if (!fresh) {
        atomic_store(&f->incomplete, true);
        return NULL;
    }
    fresh->number = number;
    do { /* what others added meanwhile may be this very page */
        if ((found = search(head, seen, number))) {
            free(fresh);
            return found;
        }
        fresh->next = seen = head;
    } while (!atomic_compare_exchange_weak(bucket, &head, fresh));
    return fresh;
}

void emu_footprint_touch(struct emu_footprint *f, struct emu_footprint_page **last, enum emu_footprint_kind kind,
                         uint64_t line)
{
    uint64_t number = line / PAGE_LINES, bit = 1ull << line % 64;
    if (!*last || (*last)->number != number)
        *last = page(f, number);
    if (!*last)
        return;
    _Atomic uint64_t *word = &(*last)->bits[kind][line % PAGE_LINES / 64];
    if (!(atomic_load_explicit(word, memory_order_relaxed) & bit))
        atomic_fetch_or_explicit(word, bit, memory_order_relaxed);
}

static void add(uint64_t word, uint64_t *lines64, uint64_t *lines128)
{
    *lines64 += (uint64_t)__builtin_popcountll(word);
    *lines128 += (uint64_t)__builtin_popcountll((word | word >> 1) & 0x5555555555555555ull);
}

bool emu_footprint_sum(const struct emu_footprint *f, uint64_t lines64[EMU_TOUCHES + 1],
                       uint64_t lines128[EMU_TOUCHES + 1])
{
    for (int k = 0; k <= EMU_TOUCHES; k++)
        lines64[k] = lines128[k] = 0;
    for (int b = 0; b < BUCKETS; b++)
        for (const struct emu_footprint_page *p = atomic_load(&f->bucket[b]); p; p = p->next)
            for (int w = 0; w < WORDS; w++) {
                uint64_t any = 0;
                for (int k = 0; k < EMU_TOUCHES; k++) {
                    uint64_t word = atomic_load_explicit(&p->bits[k][w], memory_order_relaxed);
                    add(word, &lines64[k], &lines128[k]);
                    any |= word;
                }
                add(any, &lines64[EMU_TOUCHES], &lines128[EMU_TOUCHES]);
            }
    return !atomic_load(&f->incomplete);
}
