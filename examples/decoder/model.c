/* SPDX-License-Identifier: MIT
 *
 * The weights in device memory, under the names that Hugging Face's files have. What is multiplied with the same
 * activations lies together, whether it is used as one matrix or not: rows of q, of k and of v; rows of gate and of up
 * in turn, which is how a product's epilogue finds both. */
#include "load.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- loading ----------------------------------------------------------------------------------------------------- */

/* Rows of two matrices in turn. second NULL: the first one has the rows of both, one's after the other's. Blocks of two
 * kinds become the model's dtype. */
static struct weight interleaved(struct loader *l, const char *first, const char *second, int64_t rows, int64_t cols)
{
    const char *names[] = { first, second ? second : first };
    struct cut cut = cut_rows(&l->m->c, rows);
    int64_t in_file = second ? cut.whole : 2 * rows, begin[] = { cut.first, second ? cut.first : rows };
    struct weight w = { .at = arena_take(&l->arena, 0), .dtype = load_dtype(l, names[0]) };
    if (w.dtype != load_dtype(l, names[1]))
        w.dtype = l->m->dtype;
    size_t row = load_row_bytes(first, w.dtype, cols);
    l->arena.used += (size_t)(2 * rows) * row;
    char *to = w.at, *piece = (char *)l->piece;
    int64_t many = (int64_t)(PIECE * sizeof(*l->piece) / 3 / row); /* rows of one: they take a third, and of both two */
    for (int64_t at = 0, count; to && at < rows; at += count) {
        count = rows - at < many ? rows - at : many;
        char *read = piece + (size_t)(2 * count) * row;
        for (int i = 0; i < 2; i++) {
            load_rows(l, names[i], w.dtype, in_file, cols, begin[i] + at, count, read);
            for (int64_t r = 0; r < count; r++)
                memcpy(piece + (size_t)(2 * r + i) * row, read + (size_t)r * row, row);
        }
        load_copy(l, to + (size_t)(2 * at) * row, piece, (size_t)(2 * count) * row, RFG_HOST_TO_DEVICE);
    }
    return w;
}

static void *norm(struct loader *l, const char *name, int64_t n)
{
    return load_vector(l, name, n, l->m->c.plus ? 0 : 1, 0.1);
}

/* Qwen3.5's q_proj has, for each head, rows of q and rows of its gate: all of the one kind right behind what is there. */
static struct weight load_every_other(struct loader *l, const char *name, const struct config *c, int which)
{
    int64_t n = c->head_dim * c->hidden;
    char *to = l->arena.base ? l->arena.base + l->arena.used : NULL;
    l->arena.used += (size_t)(c->heads * n) * sizeof(*l->piece);
    for (int64_t h = 0; to && h < c->heads; h++) {
        weights_get(l->w, name, 2 * c->heads * c->head_dim, c->hidden, 0, sqrt(3.0 / (double)c->hidden),
                    (2 * h + which) * n, n, l->piece);
        load_copy(l, to + (size_t)(h * n) * sizeof(*l->piece), l->piece, (size_t)n * sizeof(*l->piece),
                  RFG_HOST_TO_DEVICE);
    }
    return (struct weight){ to, NULL, l->m->dtype };
}

/* Rows of k or v: of ranks that outnumber the heads, each has the one that its heads of q go with. */
static struct cut cut_keys(const struct config *c, int64_t rows)
{
    struct cut cut = cut_rows(c, rows);
    if (c->shard.ranks > c->shard.kv_heads)
        cut =
            (struct cut){ c->shard.kv_heads * rows, c->shard.rank * c->shard.kv_heads / c->shard.ranks * rows, false };
    return cut;
}

/* q, k and v: side by side if they are of one dtype, or each aligned. */
static void load_qkv(struct loader *l, int64_t i)
{
    static const char *const parts[] = { "self_attn.q_proj.weight", "self_attn.k_proj.weight",
                                         "self_attn.v_proj.weight" };
    const struct config *c = &l->m->c;
    struct layer *to = &l->m->layer[i];
    int64_t d = head_elements(c, i), kv = key_heads(c, i) * d, rows[] = { c->heads * d, kv, kv };
    int n = keys_of(c, i) == i ? 3 : 1;
    bool v_is_k = c->gemma4.k_is_v && !c->sliding[i];
    to->joined = true;
    for (int p = 0; p < n; p++)
        to->joined = to->joined && load_dtype(l, load_name(l, i, parts[p - (v_is_k && p == 2)])) ==
                                       load_dtype(l, load_name(l, i, parts[0]));
    for (int p = 0; p < n; p++) {
        const char *name = load_name(l, i, parts[p - (v_is_k && p == 2)]);
        if (p == 0 || !to->joined)
            arena_take(&l->arena, 0);
        if (p == 0 && c->gated)
            to->qkv[0] = load_every_other(l, name, c, 0);
        else
            to->qkv[p] = load_weight_part(l, name, p ? cut_keys(c, kv) : cut_rows(c, rows[0]), rows[p], c->hidden);
    }
}

static void load_attention(struct loader *l, int64_t i)
{
    const struct config *c = &l->m->c;
    struct layer *to = &l->m->layer[i];
    int64_t d = head_elements(c, i), q = c->heads * d, kv = key_heads(c, i) * d;
    bool own = keys_of(c, i) == i;
#define NAMED(part) load_name(l, i, part)
    to->attention_norm = norm(l, NAMED("input_layernorm.weight"), c->hidden);
    if (c->phi3) {
        arena_take(&l->arena, 0);
        to->qkv[0] = load_weight(l, NAMED("self_attn.qkv_proj.weight"), q + 2 * kv, c->hidden);
        to->qkv[1] = weight_from(to->qkv[0], q, c->hidden);
        to->qkv[2] = weight_from(to->qkv[0], q + kv, c->hidden);
        to->joined = true;
    } else {
        load_qkv(l, i);
    }
    if (c->gated) {
        arena_take(&l->arena, 0);
        to->gate = load_every_other(l, NAMED("self_attn.q_proj.weight"), c, 1).at;
    }
    if (c->qk_norm) {
        to->q_norm = norm(l, NAMED("self_attn.q_norm.weight"), d);
        to->k_norm = own ? norm(l, NAMED("self_attn.k_norm.weight"), d) : NULL;
    }
    arena_take(&l->arena, 0);
    to->o = load_weight_part(l, NAMED("self_attn.o_proj.weight"), cut_columns(c, q), c->hidden, q);
    if (c->biased) {
        to->qkv_bias = load_vector(l, NAMED("self_attn.q_proj.bias"), q, 0, 0.1);
        load_more(l, NAMED("self_attn.k_proj.bias"), kv, 0, 0, 0.1);
        load_more(l, NAMED("self_attn.v_proj.bias"), kv, 0, 0, 0.1);
    }
    if (c->gpt_oss) {
        to->o_bias = load_vector(l, NAMED("self_attn.o_proj.bias"), c->hidden, 0, 0.1);
        to->sinks = load_floats(l, NAMED("self_attn.sinks"), c->heads, 0, 1);
    }
}

/* Matrices one below the other, as the files have them: of the model's dtype, or, with fp8, codes and scales. */
static struct weight load_joined(struct loader *l, int64_t layer, const char *const *parts, const int64_t *rows, int n,
                                 int64_t cols)
{
    bool fp8 = l->m->c.moe.format == EXPERTS_FP8_BLOCKS;
    int64_t all = 0, along = (cols + 127) / 128, blocks = 0, row = 0, block = 0;
    for (int i = 0; i < n; i++) {
        all += rows[i];
        blocks += (rows[i] + 127) / 128;
    }
    char *to = arena_take(&l->arena, (size_t)(all * cols) * (fp8 ? 1 : sizeof(uint16_t)));
    char *scales = fp8 ? arena_take(&l->arena, (size_t)(blocks * along) * sizeof(float)) : NULL;
    for (int i = 0; to && i < n; i++) {
        if (fp8)
            load_codes(l, to + (size_t)(row * cols), scales + (size_t)(block * along) * sizeof(float), layer, parts[i],
                       rows[i], cols);
        else
            load_at(l, to + (size_t)(row * cols) * sizeof(uint16_t), load_name(l, layer, parts[i]), rows[i], cols, 0,
                    sqrt(3.0 / (double)cols));
        row += rows[i];
        block += (rows[i] + 127) / 128;
    }
    return (struct weight){ to, (float *)scales, fp8 ? RFG_E4M3 : l->m->dtype };
}

/* A head's rows of expand_k; rows: those of kv_b that make its k. */
static void load_expanding(struct loader *l, const struct layer *to, int64_t head, const uint16_t *rows,
                           uint16_t *piece)
{
    const struct latent *s = &l->m->c.mla;
    int64_t key = s->kv_rank + s->rope, n = (s->nope + s->rope) * key;
    memset(piece, 0, (size_t)n * sizeof(*piece));
    for (int64_t i = 0; i < s->nope; i++)
        memcpy(piece + i * key, rows + i * s->kv_rank, (size_t)s->kv_rank * sizeof(*piece));
    for (int64_t i = 0; i < s->rope; i++)
        piece[(s->nope + i) * key + s->kv_rank + i] = l->m->dtype == RFG_BF16 ? 0x3f80 : 0x3c00; /* 1 */
    load_copy(l, (char *)to->expand_k + (size_t)(head * n) * sizeof(*piece), piece, (size_t)n * sizeof(*piece),
              RFG_HOST_TO_DEVICE);
}

/* kv_b, of each head rows that make its k and rows that make its v: the former are turned, since queries are multiplied
 * with them from the other side. */
static void load_absorbed(struct loader *l, int64_t layer)
{
    const struct config *c = &l->m->c;
    const struct latent *s = &c->mla;
    struct layer *to = &l->m->layer[layer];
    int64_t rank = s->kv_rank, rows = s->nope + s->values, n = rows * rank;
    size_t k_bytes = (size_t)(s->nope * rank) * sizeof(uint16_t),
           v_bytes = (size_t)(s->values * rank) * sizeof(uint16_t);
    to->absorb_k = arena_take(&l->arena, (size_t)c->heads * k_bytes);
    to->absorb_v = arena_take(&l->arena, (size_t)c->heads * v_bytes);
    size_t expanding = (size_t)(c->heads * (s->nope + s->rope) * (rank + s->rope)) * sizeof(uint16_t);
    to->expand_k = arena_take(&l->arena, expanding);
    l->apart += expanding;
    for (int64_t h = 0; h < c->heads && to->absorb_k; h++) {
        uint16_t *turned = l->piece + n;
        weights_get(l->w, load_name(l, layer, "self_attn.kv_b_proj.weight"), c->heads * rows, rank, 0,
                    sqrt(3.0 / (double)rank), h * n, n, l->piece);
        for (int64_t r = 0; r < rank; r++)
            for (int64_t i = 0; i < s->nope; i++)
                turned[r * s->nope + i] = l->piece[i * rank + r];
        load_copy(l, (char *)to->absorb_k + (size_t)h * k_bytes, turned, k_bytes, RFG_HOST_TO_DEVICE);
        load_copy(l, (char *)to->absorb_v + (size_t)h * v_bytes, l->piece + s->nope * rank, v_bytes,
                  RFG_HOST_TO_DEVICE);
        load_expanding(l, to, h, l->piece, turned);
    }
}

static void load_latent(struct loader *l, int64_t i)
{
    static const char *const down[] = { "self_attn.q_a_proj.weight", "self_attn.kv_a_proj_with_mqa.weight" },
                             *const up[] = { "self_attn.q_b_proj.weight" }, *const o[] = { "self_attn.o_proj.weight" };
    const struct config *c = &l->m->c;
    const struct latent *s = &c->mla;
    struct layer *to = &l->m->layer[i];
    int64_t of_q = query_columns(c), rows[] = { s->q_rank, s->kv_rank + s->rope };
    to->attention_norm = norm(l, NAMED("input_layernorm.weight"), c->hidden);
    to->qkv[0] = load_joined(l, i, down, rows, 2, c->hidden);
    to->joined = true;
    to->q_norm = norm(l, NAMED("self_attn.q_a_layernorm.weight"), s->q_rank);
    to->k_norm = norm(l, NAMED("self_attn.kv_a_layernorm.weight"), s->kv_rank);
    to->q_b = load_joined(l, i, up, &of_q, 1, s->q_rank);
    to->o = load_joined(l, i, o, &c->hidden, 1, attention_columns(c));
    load_absorbed(l, i);
}

/* A number, which random weights have near 1. */
static float load_factor(struct loader *l, const char *name)
{
    float factor = 1;
    if (l->arena.base)
        weights_floats(l->w, name, 1, 0, 1, 0.1, &factor);
    return factor;
}

static void load_input(struct loader *l, int64_t i)
{
    const struct config *c = &l->m->c;
    struct layer *to = &l->m->layer[i];
    to->factor = load_factor(l, NAMED("layer_scalar"));
    if (!c->gemma4.extra)
        return;
    to->extra_gate = load_matrix(l, NAMED("per_layer_input_gate.weight"), c->gemma4.extra, c->hidden);
    to->extra_projection = load_matrix(l, NAMED("per_layer_projection.weight"), c->hidden, c->gemma4.extra);
    to->extra_norm = norm(l, NAMED("post_per_layer_input_norm.weight"), c->hidden);
}

/* What makes the layers' inputs: see op_inputs() for the factor. */
static void load_inputs(struct loader *l)
{
    struct model *m = l->m;
    int64_t n = m->c.gemma4.extra, columns = m->c.layers * n;
    m->extra_projection = load_matrix(l, "model.per_layer_model_projection.weight", columns, m->c.hidden);
    float *to = arena_take(&l->arena, (size_t)n * sizeof(*to)), *w = (float *)l->piece;
    m->extra_norm = to;
    if (!to)
        return;
    weights_floats(l->w, "model.per_layer_projection_norm.weight", n, 0, 1, 0.1, w);
    for (int64_t i = 0; i < n; i++)
        w[i] *= (float)sqrt(0.5);
    load_copy(l, to, w, (size_t)n * sizeof(*w), RFG_HOST_TO_DEVICE);
}

static void load_layer(struct loader *l, int64_t i)
{
    const struct config *c = &l->m->c;
    struct layer *to = &l->m->layer[i];
    if (c->mla.kv_rank)
        load_latent(l, i);
    else
        load_attention(l, i);
    if (c->gemma) {
        to->after_attention_norm = norm(l, NAMED("post_attention_layernorm.weight"), c->hidden);
        to->mlp_norm = norm(l, NAMED("pre_feedforward_layernorm.weight"), c->hidden);
        to->after_mlp_norm = norm(l, NAMED("post_feedforward_layernorm.weight"), c->hidden);
    } else {
        to->mlp_norm = norm(l, NAMED("post_attention_layernorm.weight"), c->hidden);
    }
    if (c->gemma4.on)
        load_input(l, i);
    if (has_experts(c, i)) {
        load_mixture(l, i);
        return;
    }
    int64_t inner = mlp_columns(c, i);
    char gate[sizeof(l->name)];
    snprintf(gate, sizeof(gate), "%s", c->phi3 ? NAMED("mlp.gate_up_proj.weight") : NAMED("mlp.gate_proj.weight"));
    to->gate_up = interleaved(l, gate, c->phi3 ? NULL : NAMED("mlp.up_proj.weight"), inner, c->hidden);
    arena_take(&l->arena, 0);
    to->down = load_weight_part(l, NAMED("mlp.down_proj.weight"), cut_columns(c, inner), c->hidden, inner);
#undef NAMED
}

/* Of the rotary tables of full (0) and of sliding layers. */
static int64_t table_columns(const struct config *c, int which)
{
    int64_t d = c->gemma4.on && which == 0 ? c->gemma4.head_dim : c->head_dim;
    return c->rotated ? c->rotated : d;
}

/* Called twice: to know how many bytes it takes, and to fill them. */
static void load_all(struct loader *l)
{
    struct model *m = l->m;
    for (int64_t i = 0; i < m->c.layers; i++)
        load_layer(l, i);
    m->norm = norm(l, "model.norm.weight", m->c.hidden);
    if (m->c.gemma4.extra)
        load_inputs(l);
    /* Rows of the embedding table are of the model's dtype: a tied head of blocks has them, too, as they are. */
    const char *head = m->c.tied ? "model.embed_tokens.weight" : "lm_head.weight";
    bool apart = !m->c.tied || load_dtype(l, head) != m->dtype;
    int64_t part = m->c.vocab / ranks_of(&m->c);
    arena_take(&l->arena, 0);
    if (apart)
        m->head = load_weight_part(l, head, cut_rows(&m->c, part), part, m->c.hidden);
    m->step_bytes = l->arena.used - l->apart;
    m->embedding = load_matrix(l, "model.embed_tokens.weight", m->c.vocab, m->c.hidden);
    if (!apart) {
        m->head = weight_from((struct weight){ m->embedding, NULL, m->dtype }, part * m->c.shard.rank, m->c.hidden);
        m->step_bytes += rfg_dtype_bytes(m->dtype, part * m->c.hidden);
    }
    if (m->c.gemma4.extra)
        m->extra_embedding = load_matrix(l, "model.embed_tokens_per_layer.weight", m->c.gemma4.extra_vocab,
                                         m->c.layers * m->c.gemma4.extra);
    for (int i = 0; i < 2; i++)
        m->angles[i] = arena_take(&l->arena, (size_t)(m->context * table_columns(&m->c, i)) * sizeof(float));
}

/* ---- rotary angles ---------------------------------------------------------------------------------------------- */

/* Angles are a table in device memory, so that only the table depends on a model's scaling. */
static void fill_angles(rfg_context *ctx, struct model *m, int which, rfg_rope_table_params p)
{
    int64_t rows = m->context, d = table_columns(&m->c, which);
    float *host = allocate((size_t)(rows * d), sizeof(*host));
    rfg_tensor t = rfg_tensor_2d(host, RFG_F32, rows, d, d);
    rfg_tensor short_factor = rfg_tensor_1d(m->c.rope_factors[0], RFG_F32, d / 2);
    rfg_tensor long_factor = rfg_tensor_1d(m->c.rope_factors[1], RFG_F32, d / 2);
    if (p.scaling == RFG_ROPE_LONGROPE) {
        p.short_factor = &short_factor;
        p.long_factor = &long_factor;
    }
    CHECK(rfg_rope_table(&t, &p));
    CHECK(rfg_device_copy(ctx, m->angles[which], host, (size_t)(rows * d) * sizeof(*host), RFG_HOST_TO_DEVICE, NULL));
    CHECK(rfg_stream_sync(ctx, NULL));
    free(host);
}

/* ---- the model -------------------------------------------------------------------------------------------------- */

/* Gemma's embeddings are multiplied with sqrt(hidden), which transformers rounds to the weights' dtype first. */
static float embedding_scale(const struct model *m)
{
    if (!m->c.gemma)
        return 0;
    double scale = sqrt((double)m->c.hidden), ulp = ldexp(1, ilogb(scale) - (m->dtype == RFG_BF16 ? 7 : 10));
    return (float)(nearbyint(scale / ulp) * ulp);
}

struct model *model_create(rfg_context *ctx, const struct config *c, struct weights *w, int64_t context)
{
    struct model *m = allocate(1, sizeof(*m));
    m->c = *c;
    m->context = context;
    m->dtype = weights_dtype(w);
    for (int64_t i = 0; i < c->layers; i++) {
        int64_t n = head_elements(c, i) * (c->heads + 2 * key_heads(c, i));
        m->qkv = c->mla.kv_rank ? c->mla.q_rank + c->mla.kv_rank + c->mla.rope : n > m->qkv ? n : m->qkv;
    }
    m->embedding_scale = embedding_scale(m);
    struct loader l = { .ctx = ctx, .m = m, .w = w };
    load_all(&l);
    m->bytes = l.arena.used;
    CHECK(rfg_device_alloc(ctx, &m->memory, m->bytes));
    l.piece = allocate(PIECE, sizeof(*l.piece));
    l.arena = (struct arena){ m->memory, 0 };
    l.apart = 0;
    load_all(&l);
    free(l.piece);
    const char *unused = weights_unused(w);
    if (unused)
        die("tensor '%s': the model has no such part here", unused);
    fill_angles(ctx, m, 0, c->rope);
    if (c->slides)
        fill_angles(ctx, m, 1, c->sliding_rope);
    return m;
}

void model_destroy(rfg_context *ctx, struct model **m)
{
    CHECK(rfg_device_free(ctx, (*m)->memory));
    free(*m);
    *m = NULL;
}
