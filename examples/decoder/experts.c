/* SPDX-License-Identifier: MIT
 *
 * Router and experts of a layer. What rfg_op_moe() wants is one tensor of all experts' gates and ups, and one of their
 * downs, with their scales: files have a tensor for each expert (Qwen, DeepSeek), which are put one after the other, or
 * stacked ones already (gpt-oss). A shared expert is one more, the last. */
#include "load.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { PREPACK_COLS = 32 }; /* rfg_gemm_prepack() takes weights of 4 bits in multiples of this, and pads them to 128 */

/* What lies where of a layer's experts. */
struct sizes {
    int64_t experts, inner, hidden;
    int64_t w1_rows, w2_rows, w1_groups, w2_groups; /* of scales: of all experts, and columns */
    rfg_dtype dtype, scale;                         /* scale: RFG_DTYPE_NONE where there is none */
    bool prepacked;
    int64_t w1_cols, w2_cols; /* as they are stored: prepacked ones are whole blocks of 128 */
};

static struct sizes sizes_of(const struct model *m)
{
    struct sizes s = { .experts = model_experts(m), .inner = m->c.moe.intermediate, .hidden = m->c.hidden };
    s.dtype = m->dtype;
    s.scale = RFG_DTYPE_NONE;
    s.w1_cols = s.hidden;
    s.w2_cols = s.inner;
    if (m->c.moe.format == EXPERTS_FP8_BLOCKS) {
        s.dtype = RFG_E4M3;
        s.scale = RFG_F32;
        s.w1_rows = s.experts * 2 * (s.inner / 128);
        s.w2_rows = s.experts * ((s.hidden + 127) / 128);
        s.w1_groups = (s.hidden + 127) / 128;
        s.w2_groups = s.inner / 128;
    } else if (m->c.moe.format == EXPERTS_MXFP4) {
        s.dtype = RFG_E2M1;
        s.scale = RFG_E8M0;
        s.w1_rows = s.experts * 2 * s.inner;
        s.w2_rows = s.experts * s.hidden;
        s.prepacked = s.hidden % PREPACK_COLS == 0 && s.inner % PREPACK_COLS == 0;
        if (s.prepacked) {
            s.w1_cols = (s.hidden + 127) / 128 * 128;
            s.w2_cols = (s.inner + 127) / 128 * 128;
        }
        s.w1_groups = s.w1_cols / 32;
        s.w2_groups = s.w2_cols / 32;
    }
    return s;
}

/* ---- loading ---------------------------------------------------------------------------------------------------- */

/* One matrix of an expert. blocks: of its scales, in rows and columns; 0: it has none. */
static void expert_matrix(struct loader *l, char *to, char *scales, int64_t layer, int64_t expert, const char *which,
                          int64_t rows, int64_t cols)
{
    const struct mixture *m = &l->m->c.moe;
    char part[64];
    if (expert < m->experts)
        snprintf(part, sizeof(part), "mlp.experts.%d.%s.weight", (int)expert, which);
    else
        snprintf(part, sizeof(part), "mlp.shared_experts.%s.weight", which);
    if (m->format == EXPERTS_PLAIN) {
        bool down = !strcmp(which, "down_proj");
        load_part(l, to, load_name(l, layer, part), down ? cut_columns(&l->m->c, cols) : cut_rows(&l->m->c, rows), rows,
                  cols);
        return;
    }
    load_codes(l, to, scales, layer, part, rows, cols);
}

static void load_each_expert(struct loader *l, const struct sizes *s, int64_t layer)
{
    const struct layer *to = &l->m->layer[layer];
    size_t matrix = rfg_dtype_bytes(s->dtype, s->inner * s->hidden);
    size_t scales1 = rfg_dtype_bytes(s->scale, s->w1_rows * s->w1_groups) / (size_t)s->experts / 2;
    size_t scales2 = rfg_dtype_bytes(s->scale, s->w2_rows * s->w2_groups) / (size_t)s->experts;
    for (int64_t e = 0; e < s->experts; e++) {
        char *w1 = (char *)to->w1 + (size_t)(2 * e) * matrix, *w2 = (char *)to->w2 + (size_t)e * matrix;
        char *s1 = (char *)to->w1_scale + (size_t)(2 * e) * scales1, *s2 = (char *)to->w2_scale + (size_t)e * scales2;
        expert_matrix(l, w1, s1, layer, e, "gate_proj", s->inner, s->hidden);
        expert_matrix(l, w1 + matrix, s1 + scales1, layer, e, "up_proj", s->inner, s->hidden);
        expert_matrix(l, w2, s2, layer, e, "down_proj", s->hidden, s->inner);
    }
}

/* An e8m0 scale by which random codes of e2m1, which are 2.9 on average, have size 1 / sqrt(cols). */
static int scale_of_random(int64_t cols)
{
    return 127 - (int)lrint(log2(2.9 * sqrt((double)cols)));
}

/* Rows of all experts, in blocks of 32 columns, and their scales; prepacked if that is wanted. */
static void load_blocks(struct loader *l, const struct sizes *s, int64_t layer, const char *which, char *to,
                        char *scales, int64_t rows, int64_t k, int64_t stored_groups)
{
    int64_t n = s->experts * rows, groups = k / 32;
    const int64_t shape[] = { s->experts, rows, groups, 16 };
    char part[64], *at = to, *scales_at = scales;
    void *raw = NULL;
    if (s->prepacked) {
        size_t bytes = rfg_dtype_bytes(RFG_E2M1, n * k);
        CHECK(rfg_device_alloc(l->ctx, &raw, bytes + (size_t)(n * groups)));
        at = raw;
        scales_at = at + bytes;
    }
    snprintf(part, sizeof(part), "mlp.experts.%s_blocks", which);
    load_bytes(l, at, load_name(l, layer, part), "U8", 4, shape, -1);
    snprintf(part, sizeof(part), "mlp.experts.%s_scales", which);
    load_bytes(l, scales_at, load_name(l, layer, part), "U8", 3, shape, scale_of_random(k));
    if (s->prepacked) {
        rfg_tensor w = rfg_tensor_2d(at, RFG_E2M1, n, k, k), packed = rfg_tensor_prepacked(to, RFG_E2M1, n, k);
        rfg_tensor ws = rfg_tensor_2d(scales_at, RFG_E8M0, n, groups, groups);
        rfg_tensor scales_packed = rfg_tensor_prepacked_groups(scales, RFG_E8M0, n, stored_groups);
        CHECK(rfg_gemm_prepack(l->ctx, &packed, &w, NULL));
        CHECK(rfg_gemm_prepack(l->ctx, &scales_packed, &ws, NULL));
        CHECK(rfg_stream_sync(l->ctx, NULL));
    }
    CHECK(rfg_device_free(l->ctx, raw));
}

static void load_stacked(struct loader *l, const struct sizes *s, int64_t layer)
{
    const struct layer *to = &l->m->layer[layer];
    int64_t e = s->experts;
#define NAMED(part) load_name(l, layer, "mlp.experts." part)
    load_blocks(l, s, layer, "gate_up_proj", to->w1, to->w1_scale, 2 * s->inner, s->hidden, s->w1_groups);
    load_blocks(l, s, layer, "down_proj", to->w2, to->w2_scale, s->hidden, s->inner, s->w2_groups);
    load_at(l, to->w1_bias, NAMED("gate_up_proj_bias"), e, 2 * s->inner, 0, 0.1);
    load_at(l, to->w2_bias, NAMED("down_proj_bias"), e, s->hidden, 0, 0.1);
#undef NAMED
}

static void load_router(struct loader *l, int64_t layer)
{
    const struct config *c = &l->m->c;
    struct layer *to = &l->m->layer[layer];
    int64_t experts = c->moe.experts;
    to->router =
        load_matrix(l, load_name(l, layer, c->gpt_oss ? "mlp.router.weight" : "mlp.gate.weight"), experts, c->hidden);
    if (c->gpt_oss)
        to->router_bias = load_vector(l, load_name(l, layer, "mlp.router.bias"), experts, 0, 0.1);
    if (c->deepseek)
        to->choice_bias = load_floats(l, load_name(l, layer, "mlp.gate.e_score_correction_bias"), experts, 0, 0.1);
}

void load_mixture(struct loader *l, int64_t layer)
{
    struct layer *to = &l->m->layer[layer];
    struct sizes s = sizes_of(l->m);
    load_router(l, layer);
    char *begin = arena_take(&l->arena, 0);
    size_t from = l->arena.used;
    to->w1 = arena_take(&l->arena, rfg_dtype_bytes(s.dtype, s.experts * 2 * s.inner * s.w1_cols));
    to->w2 = arena_take(&l->arena, rfg_dtype_bytes(s.dtype, s.experts * s.hidden * s.w2_cols));
    to->w1_scale = arena_take(&l->arena, rfg_dtype_bytes(s.scale, s.w1_rows * s.w1_groups));
    to->w2_scale = arena_take(&l->arena, rfg_dtype_bytes(s.scale, s.w2_rows * s.w2_groups));
    if (l->m->c.gpt_oss) {
        to->w1_bias = arena_take(&l->arena, (size_t)(s.experts * 2 * s.inner) * sizeof(uint16_t));
        to->w2_bias = arena_take(&l->arena, (size_t)(s.experts * s.hidden) * sizeof(uint16_t));
    }
    size_t bytes = l->arena.used - from;
    l->apart += bytes;
    l->m->expert_bytes = bytes / (size_t)s.experts;
    if (!begin)
        return;
    int64_t first = l->m->c.moe.dense;
    if (layer > first && weights_are_random(l->w)) /* billions of numbers take long: those of the first layer again */
        load_copy(l, begin, l->m->layer[first].w1, bytes, RFG_DEVICE_TO_DEVICE);
    else if (l->m->c.gpt_oss)
        load_stacked(l, &s, layer);
    else
        load_each_expert(l, &s, layer);
}

/* ---- for rfg_op_moe() ------------------------------------------------------------------------------------------- */

void expert_tensors(struct expert_tensors *t, const struct model *m, int64_t layer)
{
    const struct layer *l = &m->layer[layer];
    struct sizes s = sizes_of(m);
    int64_t e = s.experts, h = s.hidden, n = s.inner;
    t->w1 = rfg_tensor_nd(l->w1, s.dtype, 3, (const int64_t[]){ e, 2 * n, h });
    t->w2 = rfg_tensor_nd(l->w2, s.dtype, 3, (const int64_t[]){ e, h, n });
    t->w1_scale = rfg_tensor_2d(l->w1_scale, s.scale, s.w1_rows, s.w1_groups, s.w1_groups);
    t->w2_scale = rfg_tensor_2d(l->w2_scale, s.scale, s.w2_rows, s.w2_groups, s.w2_groups);
    if (s.prepacked) {
        t->w1 = rfg_tensor_prepacked(l->w1, s.dtype, e * 2 * n, h);
        t->w2 = rfg_tensor_prepacked(l->w2, s.dtype, e * h, n);
        t->w1_scale = rfg_tensor_prepacked_groups(l->w1_scale, s.scale, e * 2 * n, s.w1_groups);
        t->w2_scale = rfg_tensor_prepacked_groups(l->w2_scale, s.scale, e * h, s.w2_groups);
    }
    t->w1_bias = rfg_tensor_1d(l->w1_bias, m->dtype, e * 2 * n);
    t->w2_bias = rfg_tensor_1d(l->w2_bias, m->dtype, e * h);
    bool scaled = s.scale != RFG_DTYPE_NONE, blocks = m->c.moe.format == EXPERTS_FP8_BLOCKS;
    t->p = (rfg_moe_params){ .size = sizeof(t->p),
                             .experts = e,
                             .act = m->c.act,
                             .gates = m->c.gpt_oss ? RFG_GATES_INTERLEAVED : RFG_GATES_HALVES,
                             .limit = m->c.moe.limit,
                             .w_per = blocks ? RFG_GEMM_SCALE_BLOCK : RFG_GEMM_SCALE_TENSOR,
                             .w1_scale = scaled ? &t->w1_scale : NULL,
                             .w2_scale = scaled ? &t->w2_scale : NULL,
                             .w1_bias = l->w1_bias ? &t->w1_bias : NULL,
                             .w2_bias = l->w2_bias ? &t->w2_bias : NULL };
}
