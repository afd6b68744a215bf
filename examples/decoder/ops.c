/* SPDX-License-Identifier: MIT */
#include "ops.h"

const char *const op_names[OP_KINDS] = { "embedding", "norm",  "gemm",    "rope",   "append", "attention",
                                         "act",       "route", "experts", "sample", "comm" };

bool wanted(struct engine *e, enum op_kind kind)
{
    bool inside = e->call >= 0 && e->call < LAYER_CALLS;
    bool yes = !e->only || (e->only >> kind & 1);
    if (inside)
        e->kinds[++e->call] = kind;
    if (e->alone)
        yes = inside && e->call == e->alone;
    if (e->left_out && inside && e->call == e->left_out)
        yes = false;
    return yes;
}

rfg_tensor matrix(const struct engine *e, const void *data, int64_t rows, int64_t cols)
{
    return rfg_tensor_2d((void *)data, e->m->dtype, rows, cols, cols);
}

rfg_tensor ints(const int32_t *data, int64_t n)
{
    return rfg_tensor_1d((void *)data, RFG_I32, n);
}

void op_embedding(struct engine *e, void *to, const struct rows *r)
{
    if (!wanted(e, OP_EMBEDDING))
        return;
    const struct model *m = e->m;
    rfg_tensor y = matrix(e, to, r->count, m->c.hidden), ids = ints(r->tokens, r->count);
    rfg_tensor table = matrix(e, m->embedding, m->c.vocab, m->c.hidden);
    rfg_embedding_params p = { .size = sizeof(p), .scale = m->embedding_scale };
    CHECK(rfg_op_embedding(e->ctx, &y, &ids, &table, &p, e->stream));
}

rfg_norm_params norm_params(const struct engine *e)
{
    return (rfg_norm_params){ .size = sizeof(rfg_norm_params), .eps = e->m->c.eps, .one_plus_weight = e->m->c.plus };
}

void op_norm(struct engine *e, void *y, const void *x, const void *weight, int64_t rows)
{
    if (!wanted(e, OP_NORM))
        return;
    int64_t n = e->m->c.hidden;
    rfg_tensor ty = matrix(e, y, rows, n), tx = matrix(e, x, rows, n);
    rfg_tensor tw = rfg_tensor_1d((void *)weight, e->m->dtype, n);
    rfg_norm_params p = norm_params(e);
    CHECK(rfg_op_rmsnorm(e->ctx, &ty, &tx, &tw, &p, e->stream));
}

void op_add_norm(struct engine *e, void *y, void *residual, const void *x, const void *weight, int64_t rows)
{
    if (!wanted(e, OP_NORM))
        return;
    int64_t n = e->m->c.hidden;
    rfg_tensor ty = matrix(e, y, rows, n), tx = matrix(e, x, rows, n), tr = matrix(e, residual, rows, n);
    rfg_tensor tw = rfg_tensor_1d((void *)weight, e->m->dtype, n);
    rfg_norm_params p = norm_params(e);
    p.one_plus_weight = weight && p.one_plus_weight;
    CHECK(rfg_op_add_rmsnorm(e->ctx, &ty, &tr, &tx, &tr, weight ? &tw : NULL, &p, e->stream));
}

struct weight plain(const struct engine *e, const void *at)
{
    return (struct weight){ (void *)at, NULL, e->m->dtype };
}

static bool quantises(const struct engine *e, int64_t rows)
{
    return e->m->c.moe.format == EXPERTS_FP8_BLOCKS && rows >= e->p.quantise;
}

/* x and its scales: codes of [rows, k], a scale for each 128 columns. */
static void quantise(struct engine *e, rfg_tensor *x, rfg_tensor *scales)
{
    int64_t rows = x->shape[0], k = x->shape[1];
    rfg_tensor codes = rfg_tensor_2d(e->codes, RFG_E4M3, rows, k, k);
    *scales = rfg_tensor_2d(e->code_scales, RFG_F32, rows, (k + 127) / 128, (k + 127) / 128);
    rfg_quantize_params p = { .size = sizeof(p), .group_rows = 1, .group_cols = 128 };
    CHECK(rfg_op_quantize(e->ctx, &codes, scales, x, &p, e->stream));
    *x = codes;
}

void op_gemm(struct engine *e, void *y, rfg_dtype dtype, int64_t ldy, const void *x, struct weight w, int64_t ldw,
             const void *bias, int64_t rows, int64_t n, int64_t k, const rfg_gemm_params *params)
{
    if (!wanted(e, OP_GEMM))
        return;
    rfg_gemm_params p = params ? *params : (rfg_gemm_params){ .size = sizeof(p) };
    int64_t blocks = (k + 127) / 128;
    rfg_tensor ts = rfg_tensor_2d(w.scale, RFG_F32, (n + 127) / 128, blocks, blocks);
    if (w.scale) {
        p.w_scale = &ts;
        p.w_per = RFG_GEMM_SCALE_BLOCK;
    }
    if (!w.scale && w.dtype != e->m->dtype) /* blocks: x may be rounded to bytes, as llama.cpp rounds it (q8_1) */
        p.fast_accum = 1;
    rfg_tensor tb = rfg_tensor_1d((void *)bias, e->m->dtype, n);
    p.bias = bias ? &tb : NULL;
    int64_t columns = p.gated ? n / 2 : n;
    rfg_tensor ty = rfg_tensor_2d(y, dtype, rows, columns, ldy), tx = matrix(e, x, rows, k);
    rfg_tensor tw = rfg_tensor_2d(w.at, w.dtype, n, k, ldw), xs;
    if (w.scale && quantises(e, rows)) {
        quantise(e, &tx, &xs);
        p.x_scale = &xs;
        p.x_per = RFG_GEMM_SCALE_BLOCK;
        p.fast_accum = 1;
    }
    CHECK(rfg_op_gemm(e->ctx, &ty, &tx, &tw, &p, e->stream));
}

void op_gemm_add(struct engine *e, void *residual, const void *x, struct weight w, const void *bias, int64_t rows,
                 int64_t k)
{
    int64_t n = e->m->c.hidden;
    rfg_tensor r = matrix(e, residual, rows, n);
    rfg_gemm_params p = { .size = sizeof(p), .residual = &r };
    op_gemm(e, residual, e->m->dtype, n, x, w, k, bias, rows, n, k, &p);
}

void op_act(struct engine *e, int64_t rows, int64_t n, rfg_gates gates)
{
    if (!wanted(e, OP_ACT))
        return;
    rfg_tensor y = matrix(e, e->act, rows, n), x = matrix(e, e->gate_up, rows, 2 * n);
    rfg_act_params p = { .size = sizeof(p), .act = e->m->c.act, .gates = gates };
    CHECK(rfg_op_act_and_mul(e->ctx, &y, &x, &p, e->stream));
}

/* ---- attention -------------------------------------------------------------------------------------------------- */

rfg_tensor heads(const struct engine *e, int64_t layer, int64_t rows, int64_t first, int64_t n)
{
    int64_t d = head_elements(&e->m->c, layer);
    char *at = e->qkv + (size_t)(first * d) * sizeof(uint16_t);
    return (rfg_tensor){ at, e->m->dtype, 3, { rows, n, d }, { e->m->qkv, d, 1 } };
}

/* A layer's keys (0) or values (1): [blocks, PAGE, key_heads, head_elements]. */
static rfg_tensor pages(const struct engine *e, int64_t layer, int which)
{
    int64_t h = key_heads(&e->m->c, layer), d = head_elements(&e->m->c, layer);
    char *at = (char *)e->cache.memory + (size_t)(2 * layer + which) * (e->cache.layer_bytes / 2);
    return rfg_tensor_nd(at, e->m->dtype, 4, (const int64_t[]){ e->cache.blocks, PAGE, h, d });
}

void op_rope_append(struct engine *e, int64_t layer, const struct rows *r)
{
    const struct config *c = &e->m->c;
    const struct layer *l = &e->m->layer[layer];
    int64_t of_k = key_heads(c, layer), turned = rotated(c, layer);
    rfg_tensor q = heads(e, layer, r->count, 0, c->heads), k = heads(e, layer, r->count, c->heads, of_k);
    rfg_tensor v = heads(e, layer, r->count, c->heads + of_k, of_k);
    rfg_tensor keys = pages(e, layer, 0), values = pages(e, layer, 1);
    rfg_tensor angles = rfg_tensor_2d(e->m->angles[c->sliding[layer]], RFG_F32, e->m->context, turned, turned);
    rfg_tensor positions = ints(r->positions, r->count), slots = rfg_tensor_1d(r->slots, RFG_I64, r->count);
    rfg_tensor q_norm = rfg_tensor_1d(l->q_norm, e->m->dtype, head_elements(c, layer)), k_norm = q_norm;
    k_norm.data = l->k_norm;
    if (keys_of(c, layer) != layer) {
        rfg_norm_params p = norm_params(e);
        if (wanted(e, OP_NORM))
            CHECK(rfg_op_rmsnorm(e->ctx, &q, &q, &q_norm, &p, e->stream));
        if (wanted(e, OP_ROPE))
            CHECK(rfg_op_rope(e->ctx, &q, NULL, &q, NULL, &angles, &positions, NULL, e->stream));
        return;
    }
    if (c->gemma4.on)
        op_norm_v(e, layer, r);
    if (!e->p.unfused) {
        rfg_rope_append_params p = { .size = sizeof(p),
                                     .q_norm = c->qk_norm ? &q_norm : NULL,
                                     .k_norm = c->qk_norm ? &k_norm : NULL,
                                     .eps = c->qk_norm ? c->eps : 0,
                                     .one_plus_weight = c->qk_norm && c->plus };
        if (wanted(e, OP_ROPE))
            CHECK(
                rfg_op_rope_append(e->ctx, &q, &keys, &values, &q, &k, &v, &angles, &positions, &slots, &p, e->stream));
        return;
    }
    if (c->qk_norm && wanted(e, OP_NORM)) {
        rfg_norm_params p = norm_params(e);
        CHECK(rfg_op_rmsnorm(e->ctx, &q, &q, &q_norm, &p, e->stream));
        CHECK(rfg_op_rmsnorm(e->ctx, &k, &k, &k_norm, &p, e->stream));
    }
    if (wanted(e, OP_ROPE))
        CHECK(rfg_op_rope(e->ctx, &q, &k, &q, &k, &angles, &positions, NULL, e->stream));
    if (wanted(e, OP_APPEND))
        CHECK(rfg_op_kv_append(e->ctx, &keys, &values, &k, &v, &slots, NULL, e->stream));
}

void op_attention(struct engine *e, int64_t layer, const struct rows *r, bool prefill, int64_t longest)
{
    if (!wanted(e, OP_ATTENTION))
        return;
    const struct config *c = &e->m->c;
    int64_t from = keys_of(c, layer);
    rfg_tensor q = heads(e, layer, r->count, 0, c->heads), out = q, k = pages(e, from, 0), v = pages(e, from, 1);
    rfg_tensor lens = ints(r->lens, r->sequences), sinks = rfg_tensor_1d(e->m->layer[layer].sinks, RFG_F32, c->heads);
    rfg_tensor table = rfg_tensor_2d(r->table, RFG_I32, r->sequences, e->cache.per_sequence, e->cache.per_sequence);
    out.data = e->attention;
    out.strides[0] = head_columns(c, layer);
    rfg_mha_params p = { .size = sizeof(p),
                         .scale = c->attention_scale,
                         .causal = 1,
                         .window = c->sliding[layer] ? (int32_t)c->window : 0,
                         .sinks = sinks.data ? &sinks : NULL,
                         .max_seqlen_k = (int32_t)longest,
                         .mean_seqlen_k = prefill ? 0 : (int32_t)e->p.mean,
                         .block_table = &table,
                         .kv_lens = &lens };
    if (!prefill) {
        CHECK(rfg_op_mha_decode(e->ctx, &out, &q, &k, &v, &p, e->stream));
        return;
    }
    /* One sequence: [1, rows, heads, head_dim]. */
    for (rfg_tensor *t = &q; t; t = t == &q ? &out : NULL)
        *t = (rfg_tensor){ t->data,
                           t->dtype,
                           4,
                           { 1, t->shape[0], t->shape[1], t->shape[2] },
                           { t->shape[0] * t->strides[0], t->strides[0], t->strides[1], 1 } };
    CHECK(rfg_op_mha(e->ctx, &out, &q, &k, &v, &p, e->stream));
}

/* sigmoid(g) x is x merged with an attention state of 0, if g and 0 are their logarithms: rfg has no other operator
 * for it. Each element is a head of its own. */
void op_gate(struct engine *e, int64_t layer, const struct rows *r)
{
    const struct model *m = e->m;
    int64_t n = attention_columns(&m->c), second = (int64_t)e->state_elements;
    op_gemm(e, e->gates, RFG_F32, n, e->normed, plain(e, m->layer[layer].gate), m->c.hidden, NULL, r->count, n,
            m->c.hidden, NULL);
    if (!wanted(e, OP_ACT))
        return;
    rfg_tensor states = { e->attention, m->dtype, 4, { 2, r->count, n, 1 }, { second, n, 1, 1 } };
    rfg_tensor logs = { e->gates, RFG_F32, 3, { 2, r->count, n }, { second, n, 1 } };
    rfg_tensor out = { e->attention, m->dtype, 3, { r->count, n, 1 }, { n, 1, 1 } };
    CHECK(rfg_op_merge_states(e->ctx, &out, &states, &logs, NULL, e->stream));
}

/* ---- experts ---------------------------------------------------------------------------------------------------- */

/* The arguments of rfg_op_moe(); the caller sets y's data. */
struct expert_call {
    struct expert_tensors t;
    rfg_tensor y, x, ids, shares, live;
    rfg_tensor rows, offsets, sorted, places; /* of rfg_op_moe_gate() */
};

static void expert_call(struct expert_call *call, const struct engine *e, int64_t layer, const struct rows *r)
{
    int64_t slots = model_slots(e->m);
    size_t at = (size_t)layer * e->layer_slots;
    expert_tensors(&call->t, e->m, layer);
    call->y = matrix(e, NULL, r->count, e->m->c.hidden);
    call->x = matrix(e, e->normed, r->count, e->m->c.hidden);
    call->ids = rfg_tensor_2d(e->ids + at, RFG_I32, r->count, slots, slots);
    call->shares = rfg_tensor_2d(e->shares + at, RFG_F32, r->count, slots, slots);
    call->live = ints(r->live, 1);
    call->rows = ints(e->sorted_rows, r->count * slots);
    call->offsets = ints(e->offsets, model_experts(e->m) + 1);
    call->sorted = rfg_tensor_1d(e->sorted, RFG_F32, r->count * slots);
    call->places = rfg_tensor_2d(e->places, RFG_I32, r->count, slots, slots);
    call->t.p.tokens = &call->live;
    if (quantises(e, r->count)) {
        call->t.p.x_per = RFG_GEMM_SCALE_BLOCK;
        call->t.p.fast_accum = 1;
    } else if (e->m->c.moe.format == EXPERTS_FP8_BLOCKS) {
        call->t.p.x_codes = e->m->dtype;
    }
}

/* Norm, router, choice and order in one launch. */
static void choose_at_once(struct engine *e, int64_t layer, const struct rows *r, const struct expert_call *c)
{
    const struct mixture *m = &e->m->c.moe;
    const struct layer *l = &e->m->layer[layer];
    int64_t hidden = e->m->c.hidden;
    rfg_tensor x = matrix(e, e->residual, r->count, hidden), w = matrix(e, l->router, m->experts, hidden);
    rfg_tensor norm = rfg_tensor_1d(l->mlp_norm, e->m->dtype, hidden);
    rfg_tensor bias = rfg_tensor_1d(l->choice_bias, RFG_F32, m->experts);
    rfg_tensor w_bias = rfg_tensor_1d(l->router_bias, e->m->dtype, m->experts);
    rfg_moe_gate_params p = { .size = sizeof(p),
                              .scoring = m->scoring,
                              .renormalise = m->renormalise,
                              .bias = bias.data ? &bias : NULL,
                              .groups = m->groups,
                              .topk_groups = m->topk_groups,
                              .shared = m->shared,
                              .tokens = &c->live,
                              .scale = m->scale,
                              .norm = &norm,
                              .normed = &c->x,
                              .eps = e->m->c.eps,
                              .one_plus_weight = e->m->c.plus,
                              .w_bias = w_bias.data ? &w_bias : NULL,
                              .rows = &c->rows,
                              .offsets = &c->offsets,
                              .sorted = &c->sorted,
                              .places = &c->places };
    if (wanted(e, OP_ROUTE))
        CHECK(rfg_op_moe_gate(e->ctx, &c->ids, &c->shares, &x, &w, &p, e->stream));
}

static void choose(struct engine *e, int64_t layer, const struct rows *r, const struct expert_call *c)
{
    const struct mixture *m = &e->m->c.moe;
    const struct layer *l = &e->m->layer[layer];
    op_gemm(e, e->router, RFG_F32, m->experts, e->normed, plain(e, l->router), e->m->c.hidden, l->router_bias, r->count,
            m->experts, e->m->c.hidden, NULL);
    rfg_tensor logits = rfg_tensor_2d(e->router, RFG_F32, r->count, m->experts, m->experts);
    rfg_tensor bias = rfg_tensor_1d(l->choice_bias, RFG_F32, m->experts);
    rfg_moe_route_params route = { .size = sizeof(route),
                                   .scoring = m->scoring,
                                   .bias = bias.data ? &bias : NULL,
                                   .groups = m->groups,
                                   .topk_groups = m->topk_groups,
                                   .renormalise = m->renormalise,
                                   .shared = m->shared,
                                   .tokens = &c->live,
                                   .scale = m->scale };
    if (wanted(e, OP_ROUTE))
        CHECK(rfg_op_moe_route(e->ctx, &c->ids, &c->shares, &logits, &route, e->stream));
}

void op_experts(struct engine *e, int64_t layer, const struct rows *r, bool add, bool gate)
{
    struct expert_call c;
    expert_call(&c, e, layer, r);
    if (gate)
        choose_at_once(e, layer, r, &c);
    else
        choose(e, layer, r, &c);
    if (!wanted(e, OP_EXPERTS))
        return;
    bool sorted = gate && !e->given;
    if (e->given) {
        c.ids.data = e->given_ids + (size_t)layer * e->layer_slots;
        c.shares.data = e->given_shares + (size_t)layer * e->layer_slots;
    }
    if (sorted) {
        c.t.p.rows = &c.rows;
        c.t.p.offsets = &c.offsets;
        c.t.p.sorted = &c.sorted;
        c.t.p.places = &c.places;
    }
    c.y.data = add ? e->residual : e->x;
    c.t.p.residual = add ? &c.y : NULL;
    CHECK(rfg_op_moe(e->ctx, &c.y, &c.x, &c.t.w1, &c.t.w2, &c.ids, &c.shares, &c.t.p, e->stream));
}

/* ---- the next token --------------------------------------------------------------------------------------------- */

void op_sample(struct engine *e, int64_t row, int64_t rows, const int64_t *draws)
{
    if (!wanted(e, OP_SAMPLE))
        return;
    int64_t n = e->m->c.vocab;
    rfg_tensor y = ints(e->next + row, rows), x = rfg_tensor_2d(e->logits + row * n, RFG_F32, rows, n, n);
    if (e->p.sampling.temperature == 0) {
        CHECK(rfg_op_argmax(e->ctx, &y, &x, e->stream));
        return;
    }
    rfg_tensor seed = rfg_tensor_1d(e->seed + row, RFG_I64, rows), offset = rfg_tensor_1d((void *)draws, RFG_I64, rows);
    rfg_tensor temperature = rfg_tensor_1d(e->temperature + row, RFG_F32, rows), top_k = ints(e->top_k + row, rows);
    rfg_tensor top_p = rfg_tensor_1d(e->top_p + row, RFG_F32, rows);
    rfg_sample_params p = { .size = sizeof(p), .temperature = &temperature, .top_k = &top_k, .top_p = &top_p };
    CHECK(rfg_op_sample(e->ctx, &y, &x, &seed, &offset, &p, e->stream));
}
