/* SPDX-License-Identifier: MIT
 *
 * One paged cache for all sequences: blocks of PAGE keys, the same numbers in every layer; a sequence's row of the
 * block table says which are its. A sequence takes all the blocks that it may come to need when it joins, so it never
 * has to wait for one later. */
#include "decoder.h"

#include <stdlib.h>

void cache_create(struct cache *k, rfg_context *ctx, const struct model *m, int64_t sequences, int64_t context)
{
    k->per_sequence = (context + PAGE - 1) / PAGE;
    k->blocks = sequences * k->per_sequence;
    k->layer_bytes = (size_t)k->blocks * PAGE * (size_t)key_elements(&m->c) * sizeof(uint16_t);
    k->bytes = k->layer_bytes * (size_t)m->c.layers;
    CHECK(rfg_device_alloc(ctx, &k->memory, k->bytes));
    k->free = allocate((size_t)k->blocks, sizeof(*k->free));
    for (k->free_count = 0; k->free_count < k->blocks; k->free_count++)
        k->free[k->free_count] = (int32_t)(k->blocks - 1 - k->free_count);
}

void cache_destroy(struct cache *k, rfg_context *ctx)
{
    CHECK(rfg_device_free(ctx, k->memory));
    free(k->free);
}

static int64_t blocks_for(int64_t keys)
{
    return (keys + PAGE - 1) / PAGE;
}

bool cache_take(struct cache *k, int32_t *table, int64_t keys)
{
    if (blocks_for(keys) > k->free_count || blocks_for(keys) > k->per_sequence)
        return false;
    for (int64_t i = 0; i < k->per_sequence; i++)
        table[i] = i < blocks_for(keys) ? k->free[--k->free_count] : 0;
    return true;
}

void cache_give(struct cache *k, const int32_t *table, int64_t keys)
{
    for (int64_t i = 0; i < blocks_for(keys); i++)
        k->free[k->free_count++] = table[i];
}

int64_t cache_slot(const int32_t *table, int64_t at)
{
    return (int64_t)table[at / PAGE] * PAGE + at % PAGE;
}
