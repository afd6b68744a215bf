/* SPDX-License-Identifier: MIT
 *
 * lora as the harness has it. One row (or segment) in eight has no adapter, which is said in each way that there is.
 * Segments are of any lengths, some empty; in some cases the first rows, or the last ones, are in none. */
#include <math.h>

#include "base/util.h"
#include "lora.h"
#include "ops/oracle.h"
#include "lora_case.h"

#define GAP 64 /* elements between rows of form=gaps: keeps every alignment */

static struct rfg_tensor_spec list(const char *name, rfg_dtype dtype, int64_t n, bool there)
{
    return (struct rfg_tensor_spec){
        .name = name, .dtype = dtype, .ndim = 1, .shape = { n }, .absent = !there, .align_key = -1
    };
}

static int lora_tensors(const struct rfg_problem *prob, struct rfg_tensor_spec spec[RFG_MAX_TENSORS])
{
    const int64_t *v = prob->v;
    rfg_dtype in = (rfg_dtype)prob->dtype[0], out = (rfg_dtype)prob->dtype[1];
    int64_t gap = v[LORA_FORM] == LORA_GAPS ? GAP : 0, adapters = v[LORA_ADAPTERS];
    int64_t lists = v[LORA_SEGMENTS] ? v[LORA_SEGMENTS] : v[LORA_M];
    spec[CASE_X] = rfg_rows_spec("x", in, v[LORA_M], v[LORA_K], 1, gap ? v[LORA_K] + gap : 0, LORA_ALIGN);
    spec[CASE_A] = rfg_rows_spec("a", in, adapters * lora_case_rows(prob, v[LORA_RANK]), v[LORA_K], 1,
                                 gap ? v[LORA_K] + gap : 0, LORA_ALIGN_A);
    spec[CASE_B] = rfg_rows_spec("b", in, adapters * lora_case_rows(prob, v[LORA_N]), v[LORA_RANK], 1,
                                 gap ? v[LORA_RANK] + gap : 0, LORA_ALIGN_B);
    spec[CASE_Y_IN] = rfg_rows_spec("y_in", out, v[LORA_M], v[LORA_N], 1, gap ? v[LORA_N] + gap : 0, LORA_ALIGN_Y);
    spec[CASE_Y] = spec[CASE_Y_IN];
    spec[CASE_Y].name = "y";
    spec[CASE_Y].output = true;
    spec[CASE_Y].same_as = 1 + CASE_Y_IN;
    spec[CASE_IDS] = list("ids", RFG_I32, lists, true);
    spec[CASE_INDPTR] = list("indptr", RFG_I32, v[LORA_SEGMENTS] + 1, v[LORA_SEGMENTS] > 0);
    spec[CASE_SCALES] = list("scales", RFG_F32, adapters, v[LORA_SCALES]);
    spec[CASE_RANKS] = list("ranks", RFG_I32, adapters, v[LORA_RANKS]);
    spec[CASE_A].few_special = spec[CASE_B].few_special = spec[CASE_SCALES].few_special = true;
    return CASE_TENSORS;
}

static void fill_ids(const struct rfg_problem *prob, int32_t *ids, int64_t n, uint64_t seed)
{
    int64_t adapters = prob->v[LORA_ADAPTERS];
    const int32_t none[] = { -1, INT32_MIN, (int32_t)adapters, INT32_MAX };
    for (int64_t i = 0; i < n; i++) {
        uint64_t r = rfg_random(&seed);
        ids[i] = r % 8 == 0 || !adapters ? none[(r >> 8) % 4] : (int32_t)((r >> 8) % (uint64_t)adapters);
    }
}

/* Ends of segments are drawn, and put in order. Of an odd number the first begins with row 0. */
static void fill_indptr(const struct rfg_problem *prob, int32_t *indptr, uint64_t seed)
{
    int64_t m = prob->v[LORA_M], n = prob->v[LORA_SEGMENTS];
    uint64_t how = rfg_random(&seed);
    for (int64_t i = 0; i <= n; i++) {
        int32_t at = (int32_t)(rfg_random(&seed) % (uint64_t)(m + 1));
        at = i == 0 && n & 1 ? 0 : i == n && how & 2 ? (int32_t)m + (how & 4 ? 3 : 0) : at;
        int64_t to = i;
        for (; to > 0 && indptr[to - 1] > at; to--)
            indptr[to] = indptr[to - 1];
        indptr[to] = at;
    }
}

static void lora_fill(const struct rfg_problem *prob, int tensor, const rfg_tensor *t, enum rfg_data data,
                      uint64_t seed)
{
    int32_t *ints = t->data;
    int64_t rank = prob->v[LORA_RANK];
    if (tensor == CASE_IDS)
        fill_ids(prob, ints, t->shape[0], seed);
    if (tensor == CASE_INDPTR)
        fill_indptr(prob, ints, seed);
    for (int64_t i = 0; tensor == CASE_RANKS && i < t->shape[0]; i++) {
        const int32_t odd[] = { 0, -3, (int32_t)rank + 5, INT32_MIN, 1 };
        uint64_t r = rfg_random(&seed);
        ints[i] = r % 4 == 0 ? odd[(r >> 8) % 5] : 1 + (int32_t)((r >> 8) % (uint64_t)rank);
    }
    for (int64_t i = 0; tensor == CASE_SCALES && data == RFG_DATA_SPECIAL && i < t->shape[0]; i++)
        if (isnan(((float *)t->data)[i]))
            ints[i] = 0x7fffffff; /* a NaN whose lower half isn't 0 */
}

static rfg_tensor stacked(const rfg_tensor *t, const struct rfg_problem *prob, int64_t rows, int64_t cols)
{
    return (rfg_tensor){ t->data,
                         t->dtype,
                         3,
                         { prob->v[LORA_ADAPTERS], rows, cols },
                         { lora_case_rows(prob, rows) * t->strides[0], t->strides[0], 1 } };
}

static rfg_status lora_call(rfg_context *ctx, const struct rfg_problem *prob, const rfg_tensor *t, rfg_stream stream)
{
    const int64_t *v = prob->v;
    rfg_tensor a = stacked(&t[CASE_A], prob, v[LORA_RANK], v[LORA_K]),
               b = stacked(&t[CASE_B], prob, v[LORA_N], v[LORA_RANK]);
    rfg_lora_params p = { .size = sizeof(p),
                          .indptr = v[LORA_SEGMENTS] ? &t[CASE_INDPTR] : NULL,
                          .scales = v[LORA_SCALES] ? &t[CASE_SCALES] : NULL,
                          .ranks = v[LORA_RANKS] ? &t[CASE_RANKS] : NULL,
                          .scale = CASE_SCALE };
    return rfg_op_lora(ctx, &t[CASE_Y], &t[CASE_X], &a, &b, &t[CASE_IDS], &p, stream);
}

static void lora_pack(const struct rfg_problem *prob, const rfg_tensor *t, void *kargs)
{
    const int64_t *v = prob->v;
    struct lora_args *a = kargs;
    *a = (struct lora_args){ .y = t[CASE_Y].data,
                             .x = t[CASE_X].data,
                             .a = t[CASE_A].data,
                             .b = t[CASE_B].data,
                             .ids = t[CASE_IDS].data,
                             .indptr = v[LORA_SEGMENTS] ? t[CASE_INDPTR].data : NULL,
                             .scales = v[LORA_SCALES] ? t[CASE_SCALES].data : NULL,
                             .ranks = v[LORA_RANKS] ? t[CASE_RANKS].data : NULL,
                             .ldy = t[CASE_Y].strides[0],
                             .ldx = t[CASE_X].strides[0],
                             .a_adapter = lora_case_rows(prob, v[LORA_RANK]) * t[CASE_A].strides[0],
                             .a_row = t[CASE_A].strides[0],
                             .b_adapter = lora_case_rows(prob, v[LORA_N]) * t[CASE_B].strides[0],
                             .b_row = t[CASE_B].strides[0],
                             .scale = CASE_SCALE };
    lora_set_sizes(a, prob);
}

static void lora_as_called(struct rfg_problem *prob)
{
    prob->v[LORA_FORM] = LORA_PACKED;
}

static const char *const compiled[] = {
    "lora bf16->bf16 M=64 N=4096 K=4096 rank=16 adapters=8",
    "lora f16->f16 M=64 N=4096 K=4096 rank=64 adapters=8",
    "lora bf16->f32 M=512 N=512 K=1024 rank=8 adapters=4",
    "lora f16->f32 M=3 N=513 K=1022 rank=12 adapters=4",
    "lora bf16->bf16 M=16 N=1021 K=1023 rank=33 adapters=4",
    "lora f16->bf16 M=16 N=1024 K=1028 rank=34 adapters=4",
    NULL,
};

static const char *const small[] = {
    "lora bf16->bf16 M=9 N=72 K=96 rank=8 adapters=3",
    "lora f16->f32 M=21 N=33 K=130 rank=20 adapters=4 segments=5 scales=1 ranks=1 form=gaps align=4 align_a=4 "
    "align_b=8 align_y=4",
    NULL,
};

const struct rfg_op_case rfg_op_case_lora = {
    .tensors = lora_tensors,
    .fill = lora_fill,
    .call = lora_call,
    .pack = lora_pack,
    .oracle = rfg_oracle_lora,
    .as_called = lora_as_called,
    .compiled = compiled,
    .small = small,
};
