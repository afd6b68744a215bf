/* SPDX-License-Identifier: MIT
 *
 * DeepSeek's attention, MLA: a key in the cache is a latent that all heads share, and what is rotated. Absorbed, of k =
 * W_UK latent and v = W_UV latent neither is ever made: q W_UK is multiplied by latents, and what attention makes of
 * these by W_UV, a product for each head. Short prefill goes the same way, by LATENT_QUERIES tokens at a time, which read
 * the cache once. A chunk of many tokens expands: rows of the cache become keys and values of heads, piece by piece,
 * and what attention makes of the pieces is merged by their logarithms of sums. */
#include "ops.h"

#include <string.h>

/* [rows, heads, n] in rows of `row` elements, from element `at` of one on; heads are `head` elements apart. */
static rfg_tensor heads_at(const struct engine *e, char *base, int64_t rows, int64_t n, int64_t row, int64_t head,
                           int64_t at)
{
    return (rfg_tensor){
        base + (size_t)at * sizeof(uint16_t), e->m->dtype, 3, { rows, e->m->c.heads, n }, { row, head, 1 }
    };
}

/* The parts of the heads' q: those that aren't rotated, and those that are. */
static rfg_tensor q_nope(const struct engine *e, int64_t rows)
{
    const struct latent *s = &e->m->c.mla;
    return heads_at(e, e->q, rows, s->nope, query_columns(&e->m->c), s->nope + s->rope, 0);
}
static rfg_tensor q_rope(const struct engine *e, int64_t rows)
{
    const struct latent *s = &e->m->c.mla;
    return heads_at(e, e->q, rows, s->rope, query_columns(&e->m->c), s->nope + s->rope, s->nope);
}

/* The norm of a latent, in e->qkv from column `at` on; to: packed, or NULL: where it is. */
static void norm_latent(struct engine *e, void *to, const struct rows *r, int64_t at, int64_t n, void *weight)
{
    if (!wanted(e, OP_NORM))
        return;
    char *from = e->qkv + (size_t)at * sizeof(uint16_t);
    rfg_tensor x = rfg_tensor_2d(from, e->m->dtype, r->count, n, e->m->qkv), y = x;
    if (to)
        y = matrix(e, to, r->count, n);
    rfg_tensor w = rfg_tensor_1d(weight, e->m->dtype, n);
    rfg_norm_params p = norm_params(e);
    CHECK(rfg_op_rmsnorm(e->ctx, &y, &x, &w, &p, e->stream));
}

/* e->qkv = latents of q and k and k's rotated part; e->q = the heads' q. */
static void project(struct engine *e, const struct layer *l, const struct rows *r)
{
    const struct model *m = e->m;
    const struct latent *s = &m->c.mla;
    int64_t hidden = m->c.hidden, of_k = s->kv_rank + s->rope;
    if (e->p.separate) {
        op_gemm(e, e->qkv, m->dtype, m->qkv, e->normed, l->qkv[0], hidden, NULL, r->count, s->q_rank, hidden, NULL);
        op_gemm(e, e->qkv + (size_t)s->q_rank * sizeof(uint16_t), m->dtype, m->qkv, e->normed,
                weight_from(l->qkv[0], s->q_rank, hidden), hidden, NULL, r->count, of_k, hidden, NULL);
    } else {
        op_gemm(e, e->qkv, m->dtype, m->qkv, e->normed, l->qkv[0], hidden, NULL, r->count, m->qkv, hidden, NULL);
    }
    norm_latent(e, e->normed, r, 0, s->q_rank, l->q_norm);
    op_gemm(e, e->q, m->dtype, query_columns(&m->c), e->normed, l->q_b, s->q_rank, NULL, r->count, query_columns(&m->c),
            s->q_rank, NULL);
}

/* [blocks, PAGE, 1, n] of a layer's cache, from element `at` of a key on. */
static rfg_tensor pages_at(const struct engine *e, int64_t layer, int64_t at, int64_t n)
{
    int64_t key = key_elements(&e->m->c);
    char *base = (char *)e->cache.memory + (size_t)layer * e->cache.layer_bytes + (size_t)at * sizeof(uint16_t);
    return (rfg_tensor){ base, e->m->dtype, 4, { e->cache.blocks, PAGE, 1, n }, { PAGE * key, key, key, 1 } };
}

/* Rotates q and k, in pairs of neighbours, and writes the keys to the cache. */
static void write_keys(struct engine *e, int64_t layer, const struct rows *r)
{
    const struct model *m = e->m;
    const struct latent *s = &m->c.mla;
    void *norm = m->layer[layer].k_norm;
    rfg_tensor q = q_rope(e, r->count), k = heads_at(e, e->qkv, r->count, s->rope, m->qkv, s->rope, m->qkv - s->rope);
    rfg_tensor latent = heads_at(e, e->qkv, r->count, s->kv_rank, m->qkv, s->kv_rank, s->q_rank);
    rfg_tensor angles = rfg_tensor_2d(m->angles[0], RFG_F32, m->context, s->rope, s->rope);
    rfg_tensor positions = ints(r->positions, r->count), slots = rfg_tensor_1d(r->slots, RFG_I64, r->count);
    if (!e->p.unfused) {
        rfg_tensor keys = pages_at(e, layer, 0, s->kv_rank + s->rope),
                   weight = rfg_tensor_1d(norm, m->dtype, s->kv_rank);
        rfg_tensor rows = rfg_tensor_2d(latent.data, m->dtype, r->count, s->kv_rank, m->qkv);
        rfg_tensor rotated = rfg_tensor_2d(k.data, m->dtype, r->count, s->rope, m->qkv);
        rfg_mla_append_params p = { .size = sizeof(p),
                                    .norm = &weight,
                                    .cos_sin = &angles,
                                    .positions = &positions,
                                    .q = &q,
                                    .q_out = &q,
                                    .eps = m->c.eps,
                                    .gptj = 1 };
        if (wanted(e, OP_ROPE))
            CHECK(rfg_op_mla_append(e->ctx, &keys, &rows, &rotated, &slots, &p, e->stream));
        return;
    }
    norm_latent(e, NULL, r, s->q_rank, s->kv_rank, norm);
    k.shape[1] = latent.shape[1] = 1;
    rfg_tensor latents = pages_at(e, layer, 0, s->kv_rank), rotated = pages_at(e, layer, s->kv_rank, s->rope);
    rfg_rope_params rope = { .size = sizeof(rope), .gptj = 1 };
    if (wanted(e, OP_ROPE))
        CHECK(rfg_op_rope(e->ctx, &q, &k, &q, &k, &angles, &positions, &rope, e->stream));
    if (wanted(e, OP_APPEND)) /* what isn't rotated goes where values go */
        CHECK(rfg_op_kv_append(e->ctx, &rotated, &latents, &k, &latent, &slots, NULL, e->stream));
}

/* y [rows, heads, n] = x w^T, of each head its own w [n, k]. */
static void each_head(struct engine *e, rfg_tensor y, rfg_tensor x, void *w)
{
    if (!wanted(e, OP_GEMM))
        return;
    int64_t n = y.shape[2], k = x.shape[2];
    rfg_tensor tw = { w, e->m->dtype, 3, { e->m->c.heads, n, k }, { n * k, k, 1 } };
    CHECK(rfg_op_gemm(e->ctx, &y, &x, &tw, NULL, e->stream));
}

/* [rows, heads, ..] as [sequences, queries, heads, ..], from row `first` on. */
static rfg_tensor split(rfg_tensor t, int64_t first, int64_t sequences, int64_t queries)
{
    return (rfg_tensor){ (char *)t.data + (size_t)(first * t.strides[0]) * sizeof(uint16_t),
                         t.dtype,
                         4,
                         { sequences, queries, t.shape[1], t.shape[2] },
                         { queries * t.strides[0], t.strides[0], t.strides[1], 1 } };
}

/* Sequences first .. first + sequences - 1 of the rows', with so many queries each. */
static void attend(struct engine *e, int64_t layer, const struct rows *r, int64_t first, int64_t sequences,
                   int64_t queries, int64_t at, int64_t longest)
{
    const struct config *c = &e->m->c;
    const struct latent *s = &c->mla;
    int64_t columns = e->cache.per_sequence, row = c->heads * s->kv_rank;
    rfg_tensor q = split(heads_at(e, e->absorbed, r->count, s->kv_rank, row, s->kv_rank, 0), at, sequences, queries);
    rfg_tensor out = split(heads_at(e, e->latent, r->count, s->kv_rank, row, s->kv_rank, 0), at, sequences, queries);
    rfg_tensor rope = split(q_rope(e, r->count), at, sequences, queries);
    rfg_tensor keys = pages_at(e, layer, 0, s->kv_rank + s->rope), lens = ints(r->lens + first, sequences);
    rfg_tensor table = rfg_tensor_2d(r->table + first * columns, RFG_I32, sequences, columns, columns);
    rfg_mla_params p = { .size = sizeof(p),
                         .scale = c->attention_scale,
                         .causal = queries > 1,
                         .max_seqlen_k = (int32_t)longest,
                         .q_rope = &rope,
                         .block_table = &table,
                         .kv_lens = &lens };
    if (wanted(e, OP_ATTENTION))
        CHECK(rfg_op_mla_decode(e->ctx, &out, &q, &keys, &p, e->stream));
}

/* ---- expanded ---------------------------------------------------------------------------------------------------- */

int engine_pieces(const struct engine *e, struct rows *r, int64_t first, int64_t count)
{
    int n = 0;
    if (!e->m->c.mla.kv_rank || count < e->p.expand)
        return 0;
    for (int64_t at = 0; at <= first; n++) {
        int64_t keys = first - at < e->p.expand_keys ? first - at : e->p.expand_keys, own = at == first;
        int32_t piece[3] = { 0, (int32_t)(own ? count : keys), (int32_t)at };
        memcpy(r->pieces + (ptrdiff_t)3 * n, piece, sizeof(piece));
        at += own ? 1 : keys;
    }
    return n;
}

/* y [rows, n] = x [rows, k], of rows of the cache, times w^T */
static void of_keys(struct engine *e, char *y, const void *w, int64_t rows, int64_t n, int64_t k)
{
    if (!wanted(e, OP_GEMM))
        return;
    int64_t key = key_elements(&e->m->c);
    rfg_tensor ty = matrix(e, y, rows, n), tw = matrix(e, w, n, k), tx = matrix(e, e->keys, rows, k);
    tx.strides[0] = key;
    CHECK(rfg_op_gemm(e->ctx, &ty, &tx, &tw, NULL, e->stream));
}

/* e->head_keys and e->head_values = those of `keys` keys from a piece's first on. */
static void expand(struct engine *e, int64_t layer, const struct rows *r, const int32_t *piece, int64_t keys)
{
    const struct config *c = &e->m->c;
    const struct layer *l = &e->m->layer[layer];
    int64_t key = key_elements(c), columns = e->cache.per_sequence;
    rfg_tensor rows = matrix(e, e->keys, keys, key), cache = pages_at(e, layer, 0, key);
    rfg_tensor upto = ints(piece, 2), first = ints(piece + 2, 1);
    rfg_tensor table = rfg_tensor_2d(r->table, RFG_I32, 1, columns, columns);
    rfg_mla_gather_params p = { .size = sizeof(p), .block_table = &table, .first = &first };
    if (wanted(e, OP_ATTENTION))
        CHECK(rfg_op_mla_gather(e->ctx, &rows, &cache, &upto, &p, e->stream));
    of_keys(e, e->head_keys, l->expand_k, keys, c->heads * (c->mla.nope + c->mla.rope), key);
    of_keys(e, e->head_values, l->absorb_v, keys, c->heads * c->mla.values, c->mla.kv_rank);
}

/* [1, rows, heads, n], one after the other */
static rfg_tensor of_heads(const struct engine *e, void *data, int64_t rows, int64_t n)
{
    return rfg_tensor_nd(data, e->m->dtype, 4, (const int64_t[]){ 1, rows, e->m->c.heads, n });
}

/* The rows' queries to the keys in e->head_keys: to e->attention, or as a state of its own. */
static void attend_heads(struct engine *e, const struct rows *r, int64_t keys, bool own, int state, bool alone)
{
    const struct config *c = &e->m->c;
    const struct latent *s = &c->mla;
    int64_t n = r->count * c->heads;
    char *to = alone ? e->attention : e->states + (size_t)(state * n * s->values) * sizeof(uint16_t);
    rfg_tensor q = of_heads(e, e->q, r->count, s->nope + s->rope), out = of_heads(e, to, r->count, s->values);
    rfg_tensor k = of_heads(e, e->head_keys, keys, s->nope + s->rope), v = of_heads(e, e->head_values, keys, s->values);
    rfg_tensor lse = rfg_tensor_nd(e->lse + state * n, RFG_F32, 3, (const int64_t[]){ 1, c->heads, r->count });
    rfg_mha_params p = { .size = sizeof(p), .scale = c->attention_scale, .causal = own, .lse = alone ? NULL : &lse };
    if (wanted(e, OP_ATTENTION))
        CHECK(rfg_op_mha(e->ctx, &out, &q, &k, &v, &p, e->stream));
}

/* e->attention = the states', merged. */
static void merge(struct engine *e, const struct rows *r, int states)
{
    const struct config *c = &e->m->c;
    int64_t heads = c->heads, values = c->mla.values, n = r->count * heads;
    rfg_tensor out = rfg_tensor_nd(e->attention, e->m->dtype, 3, (const int64_t[]){ r->count, heads, values });
    rfg_tensor o = rfg_tensor_nd(e->states, e->m->dtype, 4, (const int64_t[]){ states, r->count, heads, values });
    rfg_tensor lse = { e->lse, RFG_F32, 3, { states, r->count, heads }, { n, 1, r->count } };
    if (wanted(e, OP_ATTENTION))
        CHECK(rfg_op_merge_states(e->ctx, &out, &o, &lse, NULL, e->stream));
}

/* Of a chunk whose first token has `first` before it. */
static void attend_expanded(struct engine *e, int64_t layer, const struct rows *r, int64_t first)
{
    int64_t size = e->p.expand_keys;
    int n = (int)((first + size - 1) / size) + 1; /* as engine_pieces() has them */
    for (int i = 0; i < n; i++) {
        bool own = i == n - 1;
        int64_t left = first - i * size, keys = own ? r->count : left < size ? left : size;
        expand(e, layer, r, r->pieces + (ptrdiff_t)3 * i, keys);
        attend_heads(e, r, keys, own, i, n == 1);
    }
    if (n > 1)
        merge(e, r, n);
}

void op_latent_attention(struct engine *e, int64_t layer, const struct rows *r, bool prefill, int64_t longest)
{
    const struct config *c = &e->m->c;
    const struct layer *l = &e->m->layer[layer];
    int64_t rank = c->mla.kv_rank, row = c->heads * rank, columns = attention_columns(c);
    int64_t whole = r->count / LATENT_QUERIES, rest = r->count % LATENT_QUERIES;
    project(e, l, r);
    write_keys(e, layer, r);
    if (prefill && r->count >= e->p.expand) {
        attend_expanded(e, layer, r, longest - r->count);
        return;
    }
    each_head(e, heads_at(e, e->absorbed, r->count, rank, row, rank, 0), q_nope(e, r->count), l->absorb_k);
    if (!prefill)
        attend(e, layer, r, 0, r->count, 1, 0, longest);
    if (prefill && whole)
        attend(e, layer, r, 0, whole, LATENT_QUERIES, 0, longest);
    if (prefill && rest)
        attend(e, layer, r, whole, 1, rest, whole * LATENT_QUERIES, longest);
    each_head(e, heads_at(e, e->attention, r->count, c->mla.values, columns, c->mla.values, 0),
              heads_at(e, e->latent, r->count, rank, row, rank, 0), l->absorb_v);
}
