/* SPDX-License-Identifier: MIT
 *
 * The layers, as a prefill of a chunk and a decode of one token a sequence go through them, and the graph of the
 * latter. Nothing that changes from step to step is an argument of a kernel: tokens, positions, lengths, pages and
 * slots are in device memory, at the same addresses, so that one graph serves all steps. */
#include "ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the layers ------------------------------------------------------------------------------------------------- */

/* Rows up to which epilogues add residuals and activate: the products of more are a vendor's as often as not, which has
 * no such epilogue, and their kernels' launches don't count. */
enum { EPILOGUE_ROWS = 64 };

static bool epilogues(const struct engine *e, const struct rows *r)
{
    return !e->p.plain_gemms && r->count <= EPILOGUE_ROWS;
}
/* Gemma norms what it adds first; ranks sum it first. */
static bool adds_in_gemm(const struct engine *e, const struct rows *r)
{
    return epilogues(e, r) && !e->m->c.gemma && !e->comm;
}

/* The router norms its rows itself: they must be complete before. Rows of more than 8192 columns rfg_op_moe_gate()
 * doesn't take. */
static bool chooses_at_once(const struct engine *e, int64_t l, const struct rows *r)
{
    return has_experts(&e->m->c, l) && adds_in_gemm(e, r) && r->count <= e->p.gate && e->m->c.hidden <= 8192;
}

/* e->x = attention of e->normed, or, added in an epilogue, e->residual += it */
static void attention_block(struct engine *e, int64_t l, const struct rows *r, bool prefill, int64_t longest)
{
    const struct model *m = e->m;
    const struct config *c = &m->c;
    const struct layer *of = &m->layer[l];
    const char *bias = of->qkv_bias;
    int64_t q = c->mla.kv_rank ? attention_columns(c) : head_columns(c, l);
    int64_t kv = key_heads(c, l) * head_elements(c, l);
    bool own = keys_of(c, l) == l;
    int64_t part[] = { q, own ? kv : 0, own ? kv : 0 }, columns = part[0] + part[1] + part[2];
    if (c->mla.kv_rank) {
        op_latent_attention(e, l, r, prefill, longest);
    } else if (e->p.separate || !of->joined) {
        size_t at = 0; /* columns of e->qkv */
        for (int i = 0; i < 3 && part[i]; at += (size_t)part[i++])
            op_gemm(e, e->qkv + at * sizeof(uint16_t), m->dtype, m->qkv, e->normed, of->qkv[i], c->hidden,
                    bias ? bias + at * sizeof(uint16_t) : NULL, r->count, part[i], c->hidden, NULL);
    } else {
        op_gemm(e, e->qkv, m->dtype, m->qkv, e->normed, of->qkv[0], c->hidden, bias, r->count, columns, c->hidden,
                NULL);
    }
    if (!c->mla.kv_rank) {
        op_rope_append(e, l, r);
        op_attention(e, l, r, prefill, longest);
    }
    if (c->gated)
        op_gate(e, l, r);
    if (adds_in_gemm(e, r))
        op_gemm_add(e, e->residual, e->attention, of->o, of->o_bias, r->count, part[0]);
    else
        op_gemm(e, e->x, m->dtype, c->hidden, e->attention, of->o, part[0], of->o_bias, r->count, c->hidden, part[0],
                NULL);
    if (c->gemma && e->comm)
        op_all_reduce(e, e->x, r->count);
    if (c->gemma)
        op_norm(e, e->x, e->x, m->layer[l].after_attention_norm, r->count);
}

/* The same of the mlp, or of the experts, who add in any number of rows. */
static void mlp_block(struct engine *e, int64_t l, const struct rows *r)
{
    const struct model *m = e->m;
    const struct config *c = &m->c;
    if (has_experts(c, l)) {
        op_experts(e, l, r, adds_in_gemm(e, r), chooses_at_once(e, l, r));
        return;
    }
    struct weight w = m->layer[l].gate_up;
    int64_t n = mlp_columns(c, l);
    if (e->p.separate) {
        for (int i = 0; i < 2; i++) /* every other row of w */
            op_gemm(e, e->gate_up + (size_t)(i * n) * sizeof(uint16_t), m->dtype, 2 * n, e->normed,
                    weight_from(w, i, c->hidden), 2 * c->hidden, NULL, r->count, n, c->hidden, NULL);
        op_act(e, r->count, n, RFG_GATES_HALVES);
    } else if (epilogues(e, r)) {
        rfg_gemm_params p = { .size = sizeof(p), .gated = 1, .act = c->act, .gates = RFG_GATES_INTERLEAVED };
        op_gemm(e, e->act, m->dtype, n, e->normed, w, c->hidden, NULL, r->count, 2 * n, c->hidden, &p);
    } else {
        op_gemm(e, e->gate_up, m->dtype, 2 * n, e->normed, w, c->hidden, NULL, r->count, 2 * n, c->hidden, NULL);
        op_act(e, r->count, n, RFG_GATES_INTERLEAVED);
    }
    if (adds_in_gemm(e, r))
        op_gemm_add(e, e->residual, e->act, m->layer[l].down, NULL, r->count, n);
    else
        op_gemm(e, e->x, m->dtype, c->hidden, e->act, m->layer[l].down, n, NULL, r->count, c->hidden, n, NULL);
    if (c->gemma && e->comm)
        op_all_reduce(e, e->x, r->count);
    if (c->gemma)
        op_norm(e, e->x, e->x, m->layer[l].after_mlp_norm, r->count);
}

/* e->normed = norm(e->residual), to which e->x, what the block before made, is added first if it isn't yet. */
static void next_norm(struct engine *e, const struct rows *r, bool added, const void *weight)
{
    if (added)
        op_norm(e, e->normed, e->residual, weight, r->count);
    else if (e->comm && !e->m->c.gemma)
        op_reduce_add_norm(e, e->normed, e->residual, e->x, weight, r->count);
    else
        op_add_norm(e, e->normed, e->residual, e->x, weight, r->count);
}

/* e->normed = what lm_head reads. longest: keys that a sequence is expected to have at most; 0: what the cache has room
 * for. */
static void all_layers(struct engine *e, const struct rows *r, bool prefill, int64_t longest)
{
    const struct model *m = e->m;
    bool added = adds_in_gemm(e, r), complete = true;
    char *residual = e->residual, *x = e->x;
    e->call = -1; /* outside of layers */
    op_embedding(e, e->residual, r);
    op_inputs(e, r);
    for (int64_t l = 0; l < m->c.layers; l++) {
        e->call = 0;
        next_norm(e, r, added || complete, m->layer[l].attention_norm);
        attention_block(e, l, r, prefill, longest);
        if (!chooses_at_once(e, l, r))
            next_norm(e, r, added, m->layer[l].mlp_norm);
        mlp_block(e, l, r);
        complete = op_layer_end(e, l, r);
        e->calls = e->call;
    }
    e->call = -1;
    next_norm(e, r, added || complete, m->norm);
    e->residual = residual; /* a captured step begins where it began */
    e->x = x;
}

/* logits[row..] of rows of e->normed from `from` on, and the tokens that they choose. */
static void head(struct engine *e, int64_t from, int64_t row, int64_t rows, const int64_t *draws)
{
    const struct config *c = &e->m->c;
    int64_t part = c->vocab / ranks_of(c);
    op_gemm(e, e->logits + row * c->vocab + c->shard.rank * part, RFG_F32, c->vocab,
            e->normed + (size_t)(from * c->hidden) * sizeof(uint16_t), e->m->head, c->hidden, NULL, rows, part,
            c->hidden, NULL);
    if (e->comm)
        op_gather_logits(e, row, rows);
    op_sample(e, row, rows, draws);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* An image's parts: slots and draws (64-bit) first, the table, which changes seldom, last. Its bytes. */
static size_t place_rows(struct rows *r, char *image, int64_t count, int64_t sequences, int64_t columns, bool tokens)
{
    size_t at = 2 * (size_t)count * sizeof(int64_t), n = (size_t)count * sizeof(int32_t);
    *r = (struct rows){ .count = count, .sequences = sequences, .slots = (int64_t *)image };
    r->draws = r->slots + count;
    r->positions = (int32_t *)(image + at);
    r->lens = (int32_t *)(image + (at += n));
    r->live = (int32_t *)(image + (at += (size_t)sequences * sizeof(int32_t)));
    at += sizeof(int32_t);
    if (tokens) {
        r->pieces = (int32_t *)(image + at);
        r->tokens = r->pieces + 3 * PIECES;
        at += 3 * PIECES * sizeof(int32_t) + n;
    }
    r->table = (int32_t *)(image + at);
    r->head_bytes = at;
    r->bytes = at + (size_t)(sequences * columns) * sizeof(int32_t);
    return r->bytes;
}

/* Sequences that attention sees in a chunk. */
static int64_t chunk_sequences(const struct engine *e)
{
    return e->m->c.mla.kv_rank ? (e->p.chunk + LATENT_QUERIES - 1) / LATENT_QUERIES : 1;
}

/* What MLA's prefill expands. Pieces are longer if there would be too many of them. */
static void lay_out_expanded(struct engine *e, struct arena *a)
{
    const struct latent *s = &e->m->c.mla;
    int64_t heads = e->m->c.heads, least = (e->p.context + PIECES - 2) / (PIECES - 1);
    e->p.expand = e->p.expand ? e->p.expand : EXPAND_TOKENS;
    e->p.expand_keys = e->p.expand_keys ? e->p.expand_keys : EXPAND_KEYS;
    e->p.expand_keys = e->p.expand_keys > least ? e->p.expand_keys : least;
    if (e->p.chunk < e->p.expand)
        return;
    int64_t longest = e->p.expand_keys < e->p.context ? e->p.expand_keys : e->p.context;
    size_t keys = (size_t)(longest > e->p.chunk ? longest : e->p.chunk) * sizeof(uint16_t);
    size_t rows = (size_t)(PIECES * e->p.chunk * heads);
    e->keys = arena_take(a, keys * (size_t)(s->kv_rank + s->rope));
    e->head_keys = arena_take(a, keys * (size_t)(heads * (s->nope + s->rope)));
    e->head_values = arena_take(a, keys * (size_t)(heads * s->values));
    e->states = arena_take(a, rows * (size_t)s->values * sizeof(uint16_t));
    e->lse = arena_take(a, rows * sizeof(float));
}

/* Device memory: called once to know how much, and once to give it out. */
static void lay_out(struct engine *e, struct arena *a)
{
    const struct config *c = &e->m->c;
    int64_t batch = e->p.batch, columns = e->cache.per_sequence;
    size_t rows = (size_t)(batch > e->p.chunk ? batch : e->p.chunk) * sizeof(uint16_t);
    size_t hidden = rows * (size_t)c->hidden, ints = (size_t)batch * sizeof(int32_t);
    struct rows unplaced;
    char *image = arena_take(a, place_rows(&unplaced, (char *)e, batch, batch, columns, false));
    if (image)
        place_rows(&e->decode, image, batch, batch, columns, false);
    int64_t sequences = chunk_sequences(e);
    image = arena_take(a, place_rows(&unplaced, (char *)e, e->p.chunk, sequences, columns, true));
    if (image)
        place_rows(&e->chunk, image, e->p.chunk, sequences, columns, true);
    e->next = e->decode.tokens = arena_take(a, ints);
    e->x = arena_take(a, hidden);
    e->residual = arena_take(a, hidden);
    e->normed = arena_take(a, hidden);
    e->spare = arena_take(a, e->p.team ? hidden : 0);
    e->qkv = arena_take(a, rows * (size_t)e->m->qkv);
    e->state_elements = rows / sizeof(uint16_t) * (size_t)attention_columns(c);
    e->attention = arena_take(a, e->state_elements * sizeof(uint16_t) * (c->gated ? 2 : 1));
    e->gates = arena_take(a, c->gated ? 2 * e->state_elements * sizeof(float) : 0);
    size_t extra = rows * (size_t)(c->layers * c->gemma4.extra);
    e->inputs = arena_take(a, extra);
    e->scratch = arena_take(a, extra);
    e->pairs = arena_take(a, 2 * extra);
    e->counting = arena_take(a, rows / sizeof(uint16_t) * sizeof(int32_t));
    if (c->mla.kv_rank) {
        e->q = arena_take(a, rows * (size_t)query_columns(c));
        e->absorbed = arena_take(a, rows * (size_t)(c->heads * c->mla.kv_rank));
        e->latent = arena_take(a, rows * (size_t)(c->heads * c->mla.kv_rank));
        lay_out_expanded(e, a);
    }
    int64_t inner = has_experts(c, 0) ? 0 : c->intermediate * (c->gemma4.wide ? 2 : 1);
    e->gate_up = arena_take(a, rows * (size_t)(2 * inner));
    e->act = arena_take(a, rows * (size_t)inner);
    if (c->moe.experts) {
        e->layer_slots = rows / sizeof(uint16_t) * (size_t)model_slots(e->m);
        size_t slots = e->layer_slots * (size_t)c->layers * sizeof(int32_t);
        e->router = arena_take(a, rows / sizeof(uint16_t) * (size_t)c->moe.experts * sizeof(float));
        e->ids = arena_take(a, slots);
        e->shares = arena_take(a, slots);
        e->given_ids = arena_take(a, slots);
        e->given_shares = arena_take(a, slots);
        size_t pairs = (size_t)(e->p.gate * model_slots(e->m)) * sizeof(int32_t);
        e->sorted_rows = arena_take(a, pairs);
        e->sorted = arena_take(a, pairs);
        e->places = arena_take(a, pairs);
        e->offsets = arena_take(a, (size_t)(model_experts(e->m) + 1) * sizeof(int32_t));
    }
    e->p.quantise = e->p.quantise ? e->p.quantise : QUANTISE_ROWS;
    if (c->moe.format == EXPERTS_FP8_BLOCKS) {
        int64_t most = c->hidden > attention_columns(c) ? c->hidden : attention_columns(c);
        most = most > c->mla.q_rank ? most : c->mla.q_rank;
        e->codes = arena_take(a, rows / sizeof(uint16_t) * (size_t)most);
        e->code_scales = arena_take(a, rows / sizeof(uint16_t) * (size_t)((most + 127) / 128) * sizeof(float));
    }
    e->logits = arena_take(a, (size_t)(batch * c->vocab) * sizeof(float));
    e->temperature = arena_take(a, ints);
    e->top_p = arena_take(a, ints);
    e->top_k = arena_take(a, ints);
    e->seed = arena_take(a, 2 * ints);
}

void engine_seed(struct engine *e, int64_t row, uint64_t seed)
{
    CHECK(rfg_device_copy(e->ctx, e->seed + row, &seed, sizeof(seed), RFG_HOST_TO_DEVICE, e->stream));
    CHECK(rfg_stream_sync(e->ctx, e->stream));
}

/* All rows draw alike; an engine's requests would bring values of their own. */
static void set_sampling(struct engine *e)
{
    const struct sampling *s = &e->p.sampling;
    float temperature = (float)s->temperature, top_p = (float)s->top_p;
    int32_t top_k = (int32_t)s->top_k;
    for (int64_t b = 0; b < e->p.batch; b++) {
        CHECK(rfg_device_copy(e->ctx, e->temperature + b, &temperature, 4, RFG_HOST_TO_DEVICE, e->stream));
        CHECK(rfg_device_copy(e->ctx, e->top_p + b, &top_p, 4, RFG_HOST_TO_DEVICE, e->stream));
        CHECK(rfg_device_copy(e->ctx, e->top_k + b, &top_k, 4, RFG_HOST_TO_DEVICE, e->stream));
    }
    CHECK(rfg_stream_sync(e->ctx, e->stream));
}

struct engine *engine_create(rfg_context *ctx, const struct model *m, const struct engine_params *p)
{
    if (m->c.gemma4.soft_cap > 0 && p->sampling.temperature != 0)
        die("temperature %g: must be 0 where logits are capped ('final_logit_softcapping'): rfg draws from logits as "
            "they "
            "are",
            p->sampling.temperature);
    struct engine *e = allocate(1, sizeof(*e));
    e->ctx = ctx;
    e->m = m;
    e->p = *p;
    CHECK(rfg_stream_create(ctx, &e->stream));
    CHECK(rfg_prepare_stream(ctx, e->stream));
    if (p->team) {
        e->comm = team_join(p->team, ctx, m->c.shard.rank);
        CHECK(rfg_comm_prepare(e->comm, m->dtype));
        CHECK(rfg_comm_prepare(e->comm, RFG_F32)); /* logits */
    }
    cache_create(&e->cache, ctx, m, p->batch, p->context);
    struct arena a = { 0 };
    lay_out(e, &a);
    e->bytes = a.used;
    CHECK(rfg_device_alloc(ctx, &e->memory, e->bytes));
    a = (struct arena){ e->memory, 0 };
    lay_out(e, &a);
    CHECK(rfg_device_memset(ctx, e->memory, 0, e->bytes, e->stream));
    CHECK(rfg_device_memset(ctx, e->cache.memory, 0, e->cache.bytes, e->stream));

    e->host = allocate(1, IMAGES * (e->decode.bytes + 8) + e->chunk.bytes + 8);
    char *at = e->host;
    for (int i = 0; i < IMAGES; i++, at += (e->decode.bytes + 7) / 8 * 8) {
        place_rows(&e->decode_host[i], at, p->batch, p->batch, e->cache.per_sequence, false);
        for (int64_t b = 0; b < p->batch; b++)
            e->decode_host[i].slots[b] = -1; /* nobody is there */
    }
    place_rows(&e->chunk_host, at, p->chunk, chunk_sequences(e), e->cache.per_sequence, true);
    e->next_host = allocate((size_t)p->batch, sizeof(*e->next_host));
    e->table_changed = true;
    set_sampling(e);
    int64_t most = p->batch > p->chunk ? p->batch : p->chunk;
    int32_t *counting = allocate((size_t)most, sizeof(*counting));
    for (int64_t i = 0; i < most; i++)
        counting[i] = (int32_t)i;
    CHECK(rfg_device_copy(ctx, e->counting, counting, (size_t)most * sizeof(*counting), RFG_HOST_TO_DEVICE, e->stream));
    CHECK(rfg_stream_sync(ctx, e->stream));
    free(counting);
    return e;
}

void engine_destroy(struct engine **e)
{
    rfg_context *ctx = (*e)->ctx;
    CHECK(rfg_stream_sync(ctx, (*e)->stream));
    CHECK(rfg_graph_destroy(ctx, &(*e)->graph));
    if ((*e)->comm)
        team_leave((*e)->p.team, &(*e)->comm);
    CHECK(rfg_stream_destroy(ctx, &(*e)->stream));
    CHECK(rfg_device_free(ctx, (*e)->memory));
    cache_destroy(&(*e)->cache, ctx);
    free((*e)->host);
    free((*e)->next_host);
    free(*e);
    *e = NULL;
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

void engine_prefill(struct engine *e, int64_t row, const int32_t *tokens, int64_t count, int64_t first, bool last,
                    const int32_t *table)
{
    struct rows *host = &e->chunk_host, *device = &e->chunk;
    CHECK(rfg_stream_sync(e->ctx, e->stream)); /* the image's last copy has ended */
    memcpy(host->tokens, tokens, (size_t)count * sizeof(*tokens));
    for (int64_t i = 0, columns = e->cache.per_sequence; i < host->sequences; i++) {
        int64_t upto = (i + 1) * LATENT_QUERIES;
        memcpy(host->table + i * columns, table, (size_t)columns * sizeof(*table));
        host->lens[i] = (int32_t)(first + (host->sequences == 1 || upto > count ? count : upto));
    }
    for (int64_t i = 0; i < count; i++) {
        host->positions[i] = (int32_t)(first + i);
        host->draws[i] = first + i + 1;
        host->slots[i] = cache_slot(table, first + i);
    }
    host->live[0] = (int32_t)count;
    engine_pieces(e, host, first, count);
    CHECK(rfg_device_copy(e->ctx, device->slots, host->slots, host->bytes, RFG_HOST_TO_DEVICE, e->stream));
    device->count = count;
    e->settling = e->comm && count != e->settled;
    e->settled = count;
    all_layers(e, device, true, first + count);
    if (last)
        head(e, count - 1, row, 1, device->draws + count - 1);
    e->settling = false;
}

struct rows *engine_next_rows(struct engine *e)
{
    const struct rows *was = &e->decode_host[e->image];
    e->image = (e->image + 1) % IMAGES;
    if (e->image == 0)
        CHECK(rfg_stream_sync(e->ctx, e->stream)); /* their copies have ended */
    struct rows *r = &e->decode_host[e->image];
    memcpy(r->slots, was->slots, was->bytes);
    return r;
}

static void decode_kernels(struct engine *e)
{
    all_layers(e, &e->decode, false, e->p.longest);
    head(e, 0, 0, e->decode.count, e->decode.draws);
}

void engine_decode(struct engine *e)
{
    const struct rows *r = &e->decode_host[e->image];
    r->live[0] = 0;
    for (int64_t i = 0; i < r->count; i++) {
        r->draws[i] = r->positions[i] + 1;
        if (r->lens[i] > 0)
            r->live[0] = (int32_t)i + 1;
    }
    CHECK(rfg_device_copy(e->ctx, e->decode.slots, r->slots, e->table_changed ? r->bytes : r->head_bytes,
                          RFG_HOST_TO_DEVICE, e->stream));
    e->table_changed = false;
    if (e->graph)
        CHECK(rfg_graph_replay(e->ctx, e->graph, e->stream));
    else {
        e->settling = e->comm && !e->decoded;
        decode_kernels(e);
        e->settling = false;
        e->decoded = true;
    }
}

void engine_capture(struct engine *e)
{
    CHECK(rfg_graph_destroy(e->ctx, &e->graph));
    CHECK(rfg_stream_begin_capture(e->ctx, e->stream));
    decode_kernels(e);
    CHECK(rfg_stream_end_capture(e->ctx, e->stream, &e->graph));
}

const int32_t *engine_tokens(struct engine *e)
{
    size_t bytes = (size_t)e->p.batch * sizeof(*e->next);
    CHECK(rfg_device_copy(e->ctx, e->next_host, e->next, bytes, RFG_DEVICE_TO_HOST, e->stream));
    CHECK(rfg_stream_sync(e->ctx, e->stream));
    return e->next_host;
}

void engine_experts(struct engine *e, int32_t *ids, float *shares)
{
    size_t n = (size_t)(e->p.batch * model_slots(e->m)), bytes = n * sizeof(*ids);
    for (size_t l = 0; l < (size_t)e->m->c.layers; l++) {
        CHECK(rfg_device_copy(e->ctx, ids + l * n, e->ids + l * e->layer_slots, bytes, RFG_DEVICE_TO_HOST, e->stream));
        if (shares)
            CHECK(rfg_device_copy(e->ctx, shares + l * n, e->shares + l * e->layer_slots, bytes, RFG_DEVICE_TO_HOST,
                                  e->stream));
    }
    CHECK(rfg_stream_sync(e->ctx, e->stream));
}

void engine_give_experts(struct engine *e, const int32_t *ids, const float *shares)
{
    size_t n = (size_t)(e->p.batch * model_slots(e->m)), bytes = n * sizeof(*ids);
    for (size_t l = 0; l < (size_t)e->m->c.layers; l++) {
        size_t at = l * e->layer_slots;
        CHECK(rfg_device_copy(e->ctx, e->given_ids + at, ids + l * n, bytes, RFG_HOST_TO_DEVICE, e->stream));
        CHECK(rfg_device_copy(e->ctx, e->given_shares + at, shares + l * n, bytes, RFG_HOST_TO_DEVICE, e->stream));
    }
    CHECK(rfg_stream_sync(e->ctx, e->stream));
}

int64_t engine_touched(struct engine *e)
{
    int64_t n = e->p.batch * model_slots(e->m), touched = 0;
    int32_t *ids = allocate((size_t)(n * e->m->c.layers), sizeof(*ids));
    engine_experts(e, ids, NULL);
    for (int64_t l = e->m->c.moe.dense; l < e->m->c.layers; l++) {
        bool is[MOST_EXPERTS] = { false };
        for (int64_t i = l * n; i < (l + 1) * n; i++)
            if (ids[i] >= 0 && !is[ids[i]]) {
                is[ids[i]] = true;
                touched++;
            }
    }
    free(ids);
    return touched;
}

void engine_logits(struct engine *e, int64_t row, float *to)
{
    int64_t n = e->m->c.vocab;
    CHECK(rfg_device_copy(e->ctx, to, e->logits + row * n, (size_t)n * sizeof(*to), RFG_DEVICE_TO_HOST, e->stream));
    CHECK(rfg_stream_sync(e->ctx, e->stream));
    float cap = e->m->c.gemma4.soft_cap; /* which leaves them in order: argmax is right without */
    for (int64_t i = 0; cap > 0 && i < n; i++)
        to[i] = cap * tanhf(to[i] / cap);
}
