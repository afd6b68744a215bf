/* SPDX-License-Identifier: MIT
 *
 * Prefill's tiles of keys and values, of prefill_amd.hip and prefill_nvidia.hip: where the rows of a tile are, and
 * which thread copies what of them into LDS. The kernels define struct source_own and START_SOURCE(). */
struct source {
    const char *data;       /* row 0 of the sequence's head; paged: of block 0 */
    long long token, block; /* bytes */
    const int *table;
    int shift, last; /* last: the last key there is */
    struct source_own own;
};

RFG_DEVICE struct source source_of(const struct mha_args *a, const struct mha_cache *c, const struct work_item *p,
                                   int chunks)
{
    struct source s;
    long long b = PAGED || a->kv_begin ? 0 : p->b;
    s.data = rfg_uniform((char *)c->data + 2 * (b * c->block + p->kv_row * c->token + p->kv_head * c->head));
    s.token = 2 * c->token;
    s.block = 2 * c->block;
    s.table = a->block_table + p->b * a->table_stride;
    s.shift = a->page_shift;
    s.last = p->skv - 1;
    (void)chunks;
    START_SOURCE(s, chunks);
    return s;
}
/* Keys beyond the last one repeat it: they are masked, and hold no NaN unless the last one does. */
RFG_DEVICE const char *key_address(const struct source *s, int key)
{
    key = key < s->last ? key : s->last;
#if PAGED
    int block = (int)rfg_load4(s->table + RFG_PAGE_OF(key, s->shift));
    return s->data + block * s->block + RFG_PAGE_ROW(key, s->shift) * s->token;
#else
    return s->data + key * s->token;
#endif
}
/* A thread's i-th chunk of a tile's rows of so many chunks: neighbours have neighbouring chunks, as many as a power of
 * two allows; a row has `parts` of these. The row is the sum of a part that all lanes have and the rest. */
#define LANES_OF(chunks)    ((chunks) % 32 == 0 ? 32 : (chunks) % 16 == 0 ? 16 : (chunks) % 8 == 0 ? 8 : 4)
#define PARTS(chunks)       ((chunks) / LANES_OF(chunks))
#define ROWS_A_PASS(chunks) (THREADS / LANES_OF(chunks))
#define ITEMS(chunks)       (PARTS(chunks) * ((TILE_KV + ROWS_A_PASS(chunks) - 1) / ROWS_A_PASS(chunks)))
RFG_DEVICE int item_base(int i, int chunks)
{
    return i / PARTS(chunks) * ROWS_A_PASS(chunks);
}
RFG_DEVICE int item_row(int thread, int chunks)
{
    return thread / LANES_OF(chunks);
}
RFG_DEVICE int item_chunk(int thread, int i, int chunks)
{
    return thread % LANES_OF(chunks) + i % PARTS(chunks) * LANES_OF(chunks);
}
RFG_DEVICE bool item_exists(int thread, int i, int chunks)
{
    return TILE_KV % ROWS_A_PASS(chunks) == 0 || item_base(i, chunks) + item_row(thread, chunks) < TILE_KV;
}
