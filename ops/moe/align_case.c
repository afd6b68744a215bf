/* SPDX-License-Identifier: MIT
 *
 * The harness' case of moe_align. The seed chooses the ids: random experts, a few of them, one for all, none of this
 * rank, some out of range. */
#include "align.h"
#include "align_case.h"
#include "base/util.h"
#include "ops/oracle.h"

static struct rfg_tensor_spec vector(const char *name, rfg_dtype dtype, int64_t n, bool output, bool there)
{
    return (struct rfg_tensor_spec){
        .name = name, .output = output, .dtype = dtype, .ndim = 1, .shape = { n }, .absent = !there, .align_key = -1
    };
}

/* [T,k], or masked rows. */
static struct rfg_tensor_spec matrix(const char *name, rfg_dtype dtype, int64_t rows, int64_t cols, int64_t ld,
                                     bool output, bool there)
{
    struct rfg_tensor_spec s = rfg_rows_spec(name, dtype, rows, cols, 1, ld, -1);
    s.output = output;
    s.absent = !there;
    return s;
}

static struct rfg_tensor_spec rows_spec(const char *name, rfg_dtype dtype, const struct rfg_problem *prob, bool there)
{
    return prob->v[ALIGN_FORMAT] == ALIGN_MASKED
               ? matrix(name, dtype, prob->v[ALIGN_E], align_rows(prob), 0, true, there)
               : vector(name, dtype, align_rows(prob), true, there);
}

static int align_tensors(const struct rfg_problem *prob, struct rfg_tensor_spec spec[RFG_MAX_TENSORS])
{
    const int64_t *v = prob->v;
    int64_t t = v[ALIGN_T], k = v[ALIGN_TOP], format = v[ALIGN_FORMAT];
    spec[CASE_ROWS] = rows_spec("rows", RFG_I32, prob, true);
    spec[CASE_IDS] = matrix("ids", RFG_I32, t, k, v[ALIGN_LDI], false, true);
    spec[CASE_OFFSETS] = vector("offsets", RFG_I32, v[ALIGN_E] + 1, true, format == ALIGN_PLAIN);
    spec[CASE_BLOCK_EXPERTS] = vector("block_experts", RFG_I32, align_blocks(prob), true, ALIGN_PADS(format));
    spec[CASE_COUNT] = vector("count", RFG_I32, align_counts(prob), true, align_counts(prob) > 0);
    spec[CASE_WEIGHTS_OUT] = rows_spec("weights_out", RFG_F32, prob, v[ALIGN_WEIGHTS]);
    spec[CASE_PLACES] = matrix("places", RFG_I32, t, k, v[ALIGN_LDP], true, v[ALIGN_PLACES]);
    spec[CASE_WEIGHTS] = matrix("weights", RFG_F32, t, k, v[ALIGN_LDW], false, v[ALIGN_WEIGHTS]);
    spec[CASE_MAP] = vector("expert_map", RFG_I32, v[ALIGN_MAP], false, v[ALIGN_MAP] > 0);
    spec[CASE_TOKENS] = vector("tokens", RFG_I32, 1, false, v[ALIGN_TOKENS]);
    return CASE_TENSORS;
}

static const int beside[] = { -1, INT32_MIN, INT32_MAX, -2 };

/* Routing chooses each of a token's experts once, but nothing here relies on it: the same seed, the same kind. */
static void fill_ids(const struct rfg_problem *prob, const rfg_tensor *t, uint64_t seed)
{
    const int64_t *v = prob->v;
    int64_t n = v[ALIGN_MAP] ? v[ALIGN_MAP] : v[ALIGN_E], kind = (int64_t)(rfg_random(&seed) % 8);
    int64_t one = (int64_t)(rfg_random(&seed) % (uint64_t)n), few = kind == 1 ? (n + 3) / 4 : n;
    for (int64_t i = 0; i < v[ALIGN_T]; i++)
        for (int64_t k = 0; k < v[ALIGN_TOP]; k++) {
            uint64_t r = rfg_random(&seed);
            int64_t id = (int64_t)(r % (uint64_t)few);
            if (kind == 2)
                id = one;
            else if (kind == 3) /* as routing does: distinct, in any order */
                id = (one + i * 7 + k * (n > 5 ? 5 : 1)) % n;
            if (kind >= 6 && (r >> 40) % 4 == 0)
                id = (r >> 50) % 5 == 4 ? n : beside[(r >> 50) % 5 % 4];
            if (v[ALIGN_IDENTITIES] && (r >> 44) % 3 == 0) /* and the first one behind these */
                id = n + (int64_t)((r >> 20) % (uint64_t)(v[ALIGN_IDENTITIES] + 1));
            ((int32_t *)t->data)[i * t->strides[0] + k] = (int32_t)id;
        }
}

/* Of a map in the order of ids, as ranks have it: a share of them, all, or none; or all over the place, and beyond. */
static void fill_map(const struct rfg_problem *prob, const rfg_tensor *t, uint64_t seed)
{
    int64_t n = prob->v[ALIGN_MAP], e = prob->v[ALIGN_E], kind = (int64_t)(rfg_random(&seed) % 6);
    int64_t first = n > e ? (int64_t)(rfg_random(&seed) % (uint64_t)(n - e)) : 0;
    for (int64_t i = 0; i < n; i++) {
        uint64_t r = rfg_random(&seed);
        int64_t local = i - first;
        if (kind == 0)
            local = -1;
        else if (kind == 1)
            local = r % 3 ? (int64_t)(r >> 8) % e : -1;
        else if (kind == 2)
            local = r % 5 == 4 ? e : r % 5 == 3 ? beside[(r >> 8) % 4] : (int64_t)((r >> 8) % (uint64_t)e);
        if (kind > 2 && (local < 0 || local >= e))
            local = -1;
        ((int32_t *)t->data)[i] = (int32_t)local;
    }
}

static void align_fill(const struct rfg_problem *prob, int tensor, const rfg_tensor *t, enum rfg_data data,
                       uint64_t seed)
{
    (void)data;
    if (tensor == CASE_IDS)
        fill_ids(prob, t, seed);
    if (tensor == CASE_MAP)
        fill_map(prob, t, seed);
    if (tensor == CASE_TOKENS) {
        int64_t n = prob->v[ALIGN_T], some = n ? (int64_t)(rfg_random(&seed) % (uint64_t)n) : 0;
        const int64_t most[] = { some, some, n, n + 5, 0, -3, INT32_MAX, some };
        *(int32_t *)t->data = (int32_t)most[rfg_random(&seed) % 8];
    }
}

static const rfg_tensor *given(const rfg_tensor *t)
{
    return t->data ? t : NULL;
}

static rfg_status align_call(rfg_context *ctx, const struct rfg_problem *prob, const rfg_tensor *t, rfg_stream stream)
{
    rfg_moe_align_params p = { .size = sizeof(p),
                               .format = (rfg_moe_format)prob->v[ALIGN_FORMAT],
                               .block = (int32_t)prob->v[ALIGN_BLOCK],
                               .experts = prob->v[ALIGN_E],
                               .identity = prob->v[ALIGN_IDENTITIES],
                               .offsets = given(&t[CASE_OFFSETS]),
                               .block_experts = given(&t[CASE_BLOCK_EXPERTS]),
                               .count = given(&t[CASE_COUNT]),
                               .weights_out = given(&t[CASE_WEIGHTS_OUT]),
                               .places = given(&t[CASE_PLACES]),
                               .weights = given(&t[CASE_WEIGHTS]),
                               .expert_map = given(&t[CASE_MAP]),
                               .tokens = given(&t[CASE_TOKENS]) };
    return rfg_op_moe_align(ctx, &t[CASE_ROWS], &t[CASE_IDS], &p, stream);
}

static void align_pack(const struct rfg_problem *prob, const rfg_tensor *t, void *kargs)
{
    struct moe_align_args *a = kargs;
    *a = (struct moe_align_args){ .ids = t[CASE_IDS].data,
                                  .map = t[CASE_MAP].data,
                                  .tokens = t[CASE_TOKENS].data,
                                  .weights = t[CASE_WEIGHTS].data,
                                  .rows = t[CASE_ROWS].data,
                                  .offsets = t[CASE_OFFSETS].data,
                                  .block_experts = t[CASE_BLOCK_EXPERTS].data,
                                  .count = t[CASE_COUNT].data,
                                  .weights_out = t[CASE_WEIGHTS_OUT].data,
                                  .places = t[CASE_PLACES].data,
                                  .ldi = t[CASE_IDS].strides[0],
                                  .ldw = t[CASE_WEIGHTS].strides[0],
                                  .ldp = t[CASE_PLACES].strides[0] };
    align_set_sizes(a, prob);
}

static const char *const compiled[] = {
    "moe_align i32->i32 T=64 top=8 E=256 map=256 tokens=1 weights=1 places=1",
    "moe_align i32->i32 T=64 top=8 E=256 format=vllm block=64",
    "moe_align i32->i32 T=64 top=8 E=33 format=aiter block=32 weights=1",
    "moe_align i32->i32 T=4096 top=8 E=256 format=contiguous block=128",
    "moe_align i32->i32 T=64 top=8 E=32 format=masked",
    "moe_align i32->i32 T=16384 top=8 E=1024",
    "moe_align i32->i32 T=64 top=8 E=8192 format=vllm block=16",
    "moe_align i32->i32 T=16384 top=8 E=2048 places=1 identity=256",
    "moe_align i32->i32 T=64 top=12 E=512 places=1 identity=256 weights=1",
    NULL,
};

const struct rfg_op_case rfg_op_case_moe_align = {
    .tensors = align_tensors,
    .fill = align_fill,
    .call = align_call,
    .pack = align_pack,
    .oracle = rfg_oracle_moe_align,
    .compiled = compiled,
};
