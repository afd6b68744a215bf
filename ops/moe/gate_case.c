/* SPDX-License-Identifier: MIT
 *
 * The harness' case of moe_gate. The router's weights are such that logits are spread as a router's are. */
#include <math.h>

#include "base/util.h"
#include "gate_case.h"
#include "route_case.h"

static struct rfg_tensor_spec vector(const char *name, rfg_dtype dtype, int64_t n, bool there)
{
    return (struct rfg_tensor_spec){
        .name = name, .dtype = dtype, .ndim = 1, .shape = { n }, .align_key = -1, .absent = !there, .few_special = true
    };
}

static int gate_tensors(const struct rfg_problem *prob, struct rfg_tensor_spec spec[RFG_MAX_TENSORS])
{
    const int64_t *v = prob->v;
    rfg_dtype x = (rfg_dtype)prob->dtype[0];
    int64_t t = v[GATE_T], e = v[GATE_E], k = v[GATE_K], slots = v[GATE_TOP] + v[GATE_SHARED];
    spec[CASE_IDS] = rfg_rows_spec("ids", RFG_I32, t, slots, 1, 0, -1);
    spec[CASE_WEIGHTS] = rfg_rows_spec("weights", RFG_F32, t, slots, 1, 0, -1);
    spec[CASE_NORMED] = rfg_rows_spec("normed", x, t, k, 1, 0, -1);
    spec[CASE_NORMED].absent = !v[GATE_NORM];
    spec[CASE_ROWS] = vector("rows", RFG_I32, t * slots, true);
    spec[CASE_OFFSETS] = vector("offsets", RFG_I32, e + v[GATE_SHARED] + 1, true);
    spec[CASE_SORTED] = vector("sorted", RFG_F32, t * slots, true);
    spec[CASE_PLACES] = rfg_rows_spec("places", RFG_I32, t, slots, 1, 0, -1);
    for (int i = CASE_IDS; i <= CASE_PLACES; i++) {
        spec[i].output = true;
        spec[i].by_predicate = i != CASE_NORMED;
    }
    spec[CASE_X] = rfg_rows_spec("x", x, t, k, 1, 0, -1);
    spec[CASE_X].few_special = true;
    spec[CASE_W] = rfg_rows_spec("w", x, e, k, 1, 0, -1);
    spec[CASE_W].few_special = true;
    spec[CASE_NORM] = vector("norm", x, k, v[GATE_NORM] != 0);
    spec[CASE_W_BIAS] = vector("w_bias", x, e, v[GATE_W_BIAS] != 0);
    spec[CASE_BIAS] = vector("bias", v[GATE_BTYPE] ? RFG_F32 : x, e, v[GATE_BIAS] != 0);
    spec[CASE_LIMIT] = vector("tokens", RFG_I32, 1, v[GATE_TOKENS] != 0);
    return CASE_TENSORS;
}

static void gate_fill(const struct rfg_problem *prob, int tensor, const rfg_tensor *t, enum rfg_data data,
                      uint64_t seed)
{
    int64_t rows = prob->v[GATE_T], n = prob->v[GATE_E] * prob->v[GATE_K];
    if (tensor == CASE_W && data != RFG_DATA_INTS) {
        double scale = 3 / sqrt((double)prob->v[GATE_K]);
        for (int64_t i = 0; i < n; i++)
            rfg_store(t->data, t->dtype, i, scale * rfg_load(t->data, t->dtype, i));
    }
    if (tensor == CASE_LIMIT && prob->v[GATE_TOKENS]) {
        uint64_t bits = rfg_random(&seed), within = rows ? bits / 8 % (uint64_t)rows : 0;
        *(int32_t *)t->data = bits % 8 == 0 ? -3 : bits % 8 == 1 ? (int32_t)rows + 5 : (int32_t)within + 1;
    }
}

static const rfg_tensor *given(const rfg_tensor *t)
{
    return t->data ? t : NULL;
}

static rfg_status gate_call(rfg_context *ctx, const struct rfg_problem *prob, const rfg_tensor *t, rfg_stream stream)
{
    const int64_t *v = prob->v;
    rfg_moe_gate_params p = { .size = sizeof(p),
                              .scoring = (rfg_moe_scoring)v[GATE_SCORE],
                              .renormalise = (int32_t)v[GATE_RENORM],
                              .bias = given(&t[CASE_BIAS]),
                              .groups = v[GATE_GROUPS],
                              .topk_groups = v[GATE_TOP_GROUPS],
                              .shared = v[GATE_SHARED],
                              .tokens = given(&t[CASE_LIMIT]),
                              .scale = ROUTE_SCALE,
                              .shared_weight = v[GATE_SHARED] ? ROUTE_SHARED_WEIGHT : 0,
                              .norm = given(&t[CASE_NORM]),
                              .normed = given(&t[CASE_NORMED]),
                              .eps = v[GATE_NORM] ? GATE_EPS : 0,
                              .one_plus_weight = v[GATE_NORM] == GATE_NORM_1W,
                              .w_bias = given(&t[CASE_W_BIAS]),
                              .rows = &t[CASE_ROWS],
                              .offsets = &t[CASE_OFFSETS],
                              .sorted = &t[CASE_SORTED],
                              .places = &t[CASE_PLACES] };
    return rfg_op_moe_gate(ctx, &t[CASE_IDS], &t[CASE_WEIGHTS], &t[CASE_X], &t[CASE_W], &p, stream);
}

static void gate_pack(const struct rfg_problem *prob, const rfg_tensor *t, void *kargs)
{
    struct gate_args *a = kargs;
    *a = gate_args_of(prob);
    a->route.bias = t[CASE_BIAS].data;
    a->route.tokens = t[CASE_LIMIT].data;
    a->route.ids = t[CASE_IDS].data;
    a->route.weights = t[CASE_WEIGHTS].data;
    a->route.scale = ROUTE_SCALE;
    a->route.shared_weight = ROUTE_SHARED_WEIGHT;
    a->x = t[CASE_X].data;
    a->w = t[CASE_W].data;
    a->norm = t[CASE_NORM].data;
    a->w_bias = t[CASE_W_BIAS].data;
    a->y = t[CASE_NORMED].data;
    a->eps = GATE_EPS;
    a->rows = t[CASE_ROWS].data;
    a->offsets = t[CASE_OFFSETS].data;
    a->sorted = t[CASE_SORTED].data;
    a->places = t[CASE_PLACES].data;
}

static const char *const compiled[] = {
    "moe_gate bf16->f32 T=1 E=256 K=7168 top=8 norm=w score=sigmoid bias=1 btype=f32 groups=8 top_groups=4 renorm=1 "
    "shared=1 tokens=1",
    "moe_gate bf16->f32 T=4 E=128 K=2048 top=8 norm=w renorm=1 tokens=1",
    "moe_gate bf16->f32 T=2 E=128 K=2880 top=4 norm=w wbias=1 score=topk_softmax",
    "moe_gate f16->f32 T=64 E=512 K=4096 top=10 norm=1+w shared=1",
    "moe_gate f16->f32 T=8 E=1024 K=8192 top=6 score=sqrt_softplus bias=1 wbias=1 groups=16 top_groups=4",
    "moe_gate bf16->f32 T=8 E=64 K=1024 top=6 score=softmax bias=1 groups=8 top_groups=3",
    NULL,
};
static const char *const small[] = { "moe_gate bf16->f32 T=3 E=16 K=64 top=2 norm=w shared=1", NULL };

const struct rfg_op_case rfg_op_case_moe_gate = {
    .tensors = gate_tensors,
    .fill = gate_fill,
    .call = gate_call,
    .pack = gate_pack,
    .oracle = rfg_oracle_moe_gate,
    .accept = gate_accept,
    .compiled = compiled,
    .small = small,
};
