/* SPDX-License-Identifier: MIT
 *
 * The harness' case of moe_route. Gaps between rows of x hold larger values than the rows. */
#include <math.h>

#include "base/util.h"
#include "route_case.h"

static int route_tensors(const struct rfg_problem *prob, struct rfg_tensor_spec spec[RFG_MAX_TENSORS])
{
    const int64_t *v = prob->v;
    int64_t slots = v[ROUTE_TOP] + v[ROUTE_SHARED];
    spec[ROUTE_IDS] = rfg_rows_spec("ids", RFG_I32, v[ROUTE_T], slots, 1, v[ROUTE_LDI], -1);
    spec[ROUTE_WEIGHTS] = rfg_rows_spec("weights", RFG_F32, v[ROUTE_T], slots, 1, v[ROUTE_LDW], -1);
    for (int i = ROUTE_IDS; i <= ROUTE_WEIGHTS; i++)
        spec[i].output = spec[i].by_predicate = true;
    spec[ROUTE_X] = rfg_rows_spec("x", (rfg_dtype)prob->dtype[0], v[ROUTE_T], v[ROUTE_E], 1, v[ROUTE_LDX], -1);
    spec[ROUTE_BIASES] = (struct rfg_tensor_spec){ .name = "bias",
                                                   .dtype = (rfg_dtype)route_bias_dtype(prob),
                                                   .ndim = 1,
                                                   .shape = { v[ROUTE_E] },
                                                   .align_key = -1,
                                                   .few_special = true,
                                                   .absent = !v[ROUTE_BIAS] };
    spec[ROUTE_LIMIT] = (struct rfg_tensor_spec){
        .name = "tokens", .dtype = RFG_I32, .ndim = 1, .shape = { 1 }, .align_key = -1, .absent = !v[ROUTE_TOKENS]
    };
    spec[ROUTE_EXPERTS] = rfg_rows_spec("table", RFG_I32, v[ROUTE_TABLE], v[ROUTE_TOP], 1, v[ROUTE_LDT], -1);
    spec[ROUTE_EXPERTS].absent = !v[ROUTE_TABLE];
    spec[ROUTE_IDS_OF_TOKENS] = (struct rfg_tensor_spec){
        .name = "token_ids",
        .dtype = (rfg_dtype)(v[ROUTE_TOKEN_IDS] ? v[ROUTE_TOKEN_IDS] : RFG_I32),
        .ndim = 1,
        .shape = { v[ROUTE_T] },
        .align_key = -1,
        .absent = !v[ROUTE_TOKEN_IDS],
    };
    return ROUTE_TENSORS;
}

/* Logits spread as a router's are. RFG_DATA_SPECIAL: of each eight rows one of NaN alone, one of NaN and -infinity, one
 * of few numbers among them, one of many infinities. */
static void fill_logits(const struct rfg_problem *prob, const rfg_tensor *t, enum rfg_data data, uint64_t seed)
{
    int64_t rows = prob->v[ROUTE_T], e = prob->v[ROUTE_E];
    for (int64_t r = 0; r < rows; r++) {
        int64_t row = r * t->strides[0];
        for (int64_t i = e; r + 1 < rows && i < t->strides[0]; i++)
            rfg_store(t->data, t->dtype, row + i, INFINITY);
        for (int64_t i = 0; i < e; i++) {
            uint64_t bits = rfg_random(&seed);
            double l = rfg_load(t->data, t->dtype, row + i);
            if (data == RFG_DATA_RANDOM)
                l *= 4;
            if (data == RFG_DATA_SPECIAL && r % 8 == 1)
                l = NAN;
            if (data == RFG_DATA_SPECIAL && r % 8 == 3)
                l = bits % 2 ? NAN : -INFINITY;
            if (data == RFG_DATA_SPECIAL && r % 8 == 5 && bits % 8)
                l = bits % 16 > 8 ? NAN : -INFINITY;
            if (data == RFG_DATA_SPECIAL && r % 8 == 7 && bits % 4)
                l = bits % 8 > 4 ? INFINITY : (double)(bits >> 8 & 127) - 120;
            rfg_store(t->data, t->dtype, row + i, l);
        }
    }
}

/* Token ids of which one in eight is out of range, experts of which one in sixteen is. */
static void fill_table(const struct rfg_problem *prob, int tensor, const rfg_tensor *t, uint64_t seed)
{
    const int64_t *v = prob->v, beside[] = { -1, INT32_MIN, INT32_MAX };
    bool ids = tensor == ROUTE_IDS_OF_TOKENS;
    int64_t end = ids ? v[ROUTE_TABLE] : v[ROUTE_E], cols = ids ? 1 : v[ROUTE_TOP];
    for (int64_t i = 0; i < (ids ? v[ROUTE_T] : v[ROUTE_TABLE]) * cols; i++) {
        uint64_t r = rfg_random(&seed), which = (r >> 8) % 4;
        int64_t id = (int64_t)((r >> 16) % (uint64_t)(end ? end : 1)), at = i / cols * t->strides[0] + i % cols;
        if (r % (ids ? 8 : 16) == 0 || !end)
            id = which == 3 ? end : beside[which];
        if (t->dtype == RFG_I64)
            ((int64_t *)t->data)[at] = id == INT32_MAX && end ? (1LL << 40) + (int64_t)(r >> 20) % end : id;
        else
            ((int32_t *)t->data)[at] = (int32_t)id;
    }
}

static void route_fill(const struct rfg_problem *prob, int tensor, const rfg_tensor *t, enum rfg_data data,
                       uint64_t seed)
{
    if (tensor == ROUTE_X)
        fill_logits(prob, t, data, seed);
    if ((tensor == ROUTE_EXPERTS && prob->v[ROUTE_TABLE]) ||
        (tensor == ROUTE_IDS_OF_TOKENS && prob->v[ROUTE_TOKEN_IDS]))
        fill_table(prob, tensor, t, seed);
    if (tensor == ROUTE_LIMIT && prob->v[ROUTE_TOKENS]) {
        int64_t rows = prob->v[ROUTE_T];
        uint64_t bits = rfg_random(&seed), within = rows ? bits / 8 % (uint64_t)rows : 0;
        *(int32_t *)t->data = bits % 8 == 0 ? -3 : bits % 8 == 1 ? (int32_t)rows + 5 : (int32_t)within + 1;
    }
}

static rfg_status route_call(rfg_context *ctx, const struct rfg_problem *prob, const rfg_tensor *t, rfg_stream stream)
{
    const int64_t *v = prob->v;
    rfg_moe_route_params p = { .size = sizeof(p),
                               .scoring = (rfg_moe_scoring)v[ROUTE_SCORE],
                               .bias = v[ROUTE_BIAS] ? &t[ROUTE_BIASES] : NULL,
                               .groups = v[ROUTE_GROUPS],
                               .topk_groups = v[ROUTE_TOP_GROUPS],
                               .renormalise = (int32_t)v[ROUTE_RENORM],
                               .shared = v[ROUTE_SHARED],
                               .tokens = v[ROUTE_TOKENS] ? &t[ROUTE_LIMIT] : NULL,
                               .scale = ROUTE_SCALE,
                               .shared_weight = v[ROUTE_SHARED] ? ROUTE_SHARED_WEIGHT : 0,
                               .table = v[ROUTE_TABLE] ? &t[ROUTE_EXPERTS] : NULL,
                               .token_ids = v[ROUTE_TOKEN_IDS] ? &t[ROUTE_IDS_OF_TOKENS] : NULL };
    return rfg_op_moe_route(ctx, &t[ROUTE_IDS], &t[ROUTE_WEIGHTS], &t[ROUTE_X], &p, stream);
}

static void route_pack(const struct rfg_problem *prob, const rfg_tensor *t, void *kargs)
{
    struct route_args *a = kargs;
    *a = route_args_of(prob);
    a->x = t[ROUTE_X].data;
    a->bias = t[ROUTE_BIASES].data;
    a->tokens = t[ROUTE_LIMIT].data;
    a->table = t[ROUTE_EXPERTS].data;
    a->token_ids = t[ROUTE_IDS_OF_TOKENS].data;
    a->ldt = t[ROUTE_EXPERTS].strides[0];
    a->ids = t[ROUTE_IDS].data;
    a->weights = t[ROUTE_WEIGHTS].data;
    a->scale = ROUTE_SCALE;
    a->shared_weight = ROUTE_SHARED_WEIGHT;
    a->ldx = t[ROUTE_X].strides[0];
    a->ldi = t[ROUTE_IDS].strides[0];
    a->ldw = t[ROUTE_WEIGHTS].strides[0];
}

/* All is accept()'s. */
rfg_status rfg_oracle_moe_route(const struct rfg_problem *prob, const rfg_tensor *host, struct rfg_expected *expected)
{
    (void)prob, (void)host, (void)expected;
    return RFG_OK;
}

static const char *const compiled[] = {
    "moe_route bf16->f32 T=8 E=256 top=8 score=sigmoid bias=1 groups=8 top_groups=4 renorm=1 shared=1",
    "moe_route bf16->f32 T=8 E=256 top=8 score=sigmoid bias=1 btype=f32 groups=8 top_groups=4 renorm=1",
    "moe_route f32->f32 T=8 E=1024 top=8 score=sigmoid bias=1 groups=32 top_groups=4",
    "moe_route f32->f32 T=8 E=1024 top=8 score=softmax bias=1 groups=32 top_groups=4",
    "moe_route f16->f32 T=8 E=1024 top=8 score=sqrt_softplus bias=1 groups=16 top_groups=4",
    "moe_route bf16->f32 T=8 E=1024 top=8 score=topk_softmax bias=1 groups=16 top_groups=4",
    "moe_route bf16->f32 T=4096 E=128 top=4 score=topk_softmax bias=1",
    "moe_route f16->f32 T=4096 E=8 top=2 score=softmax renorm=1",
    "moe_route bf16->f32 T=64 E=64 top=8",
    "moe_route bf16->f32 T=64 E=128 top=1 score=sigmoid",
    "moe_route bf16->f32 T=64 E=384 top=8 score=sigmoid bias=1 btype=f32 renorm=1",
    "moe_route f32->f32 T=4096 E=512 top=10 score=softmax",
    "moe_route bf16->f32 T=4096 E=256 top=6 score=sqrt_softplus bias=1 btype=f32 renorm=1 tokens=1",
    "moe_route bf16->f32 T=64 E=160 top=6 groups=8 top_groups=3",
    "moe_route bf16->f32 T=64 E=2048 top=8 score=sigmoid bias=1 groups=8 top_groups=3",
    "moe_route f32->f32 T=64 E=8192 top=16 score=softmax",
    "moe_route f16->f32 T=64 E=4096 top=32 score=sqrt_softplus bias=1 groups=32 top_groups=9",
    "moe_route f32->f32 T=64 E=256 top=6 score=sqrt_softplus renorm=1 table=129280 token_ids=i64",
    "moe_route bf16->f32 T=64 E=256 top=6 score=softmax table=64",
    "moe_route f16->f32 T=64 E=256 top=6 score=topk_softmax table=1000 token_ids=i32",
    NULL,
};

const struct rfg_op_case rfg_op_case_moe_route = {
    .tensors = route_tensors,
    .fill = route_fill,
    .call = route_call,
    .pack = route_pack,
    .oracle = rfg_oracle_moe_route,
    .accept = route_accept,
    .compiled = compiled,
};
