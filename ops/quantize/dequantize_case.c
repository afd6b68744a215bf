/* SPDX-License-Identifier: MIT
 *
 * dequantize as the harness has it. */
#include <math.h>
#include <string.h>

#include "base/util.h"
#include "dequantize.h"
#include "ops/oracle.h"

static int dequantize_tensors(const struct rfg_problem *prob, struct rfg_tensor_spec spec[RFG_MAX_TENSORS])
{
    const int64_t *v = prob->v;
    int64_t m = v[DEQUANTIZE_M], n = v[DEQUANTIZE_N];
    spec[0] = rfg_rows_spec("y", (rfg_dtype)prob->dtype[2], m, n, 1, v[DEQUANTIZE_LDY], DEQUANTIZE_ALIGN_Y);
    spec[0].output = true;
    spec[1] = rfg_rows_spec("q", (rfg_dtype)prob->dtype[0], m, n, 1, v[DEQUANTIZE_LDQ], DEQUANTIZE_ALIGN);
    spec[2] = rfg_rows_spec("scale", (rfg_dtype)prob->dtype[1], dequantize_scales(m, v[DEQUANTIZE_GROUP_ROWS]),
                            dequantize_scales(n, v[DEQUANTIZE_GROUP_COLS]), 1, 0, -1);
    spec[2].column_major = v[DEQUANTIZE_SCALE_COLUMNS] && spec[2].shape[0] > 1 && spec[2].shape[1] > 1;
    return 3;
}

/* A scale whose products are fp32's; of special data one in four is any, or the least, or NaN. */
static uint8_t e8m0_of(uint64_t x, enum rfg_data data)
{
    if (data != RFG_DATA_SPECIAL || (x >> 40) % 4)
        return (uint8_t)(112 + (x >> 24) % 32);
    return x & 1 ? (uint8_t)(x >> 16) : x & 2 ? 255 : 0;
}

/* Of codes every one there is, NaNs among them; of special data one of them at least, and of scales. */
static void dequantize_fill(const struct rfg_problem *prob, int tensor, const rfg_tensor *t, enum rfg_data data,
                            uint64_t seed)
{
    if (tensor == 0 || dequantize_is_blocks(t->dtype) || t->dtype == RFG_F32 || !t->shape[0] || !t->shape[1])
        return;
    (void)prob;
    for (int64_t r = 0; r < t->shape[0]; r++)
        for (int64_t c = 0; c < t->shape[1]; c++) {
            uint64_t x = rfg_random(&seed);
            int64_t at = r * t->strides[0] + c * t->strides[1];
            ((uint8_t *)t->data)[rfg_format(t->dtype)->elements == 2 ? at / 2 : at] =
                t->dtype == RFG_E8M0 ? e8m0_of(x, data) : (uint8_t)(x >> 16);
        }
    if (data == RFG_DATA_SPECIAL && t->shape[0] * t->shape[1] > 1 && rfg_format(t->dtype)->elements == 1 &&
        t->dtype != RFG_I8) {
        uint64_t x = rfg_random(&seed);
        int64_t r = (int64_t)(x % (uint64_t)t->shape[0]), c = (int64_t)((x >> 32) % (uint64_t)t->shape[1]);
        rfg_store(t->data, t->dtype, r * t->strides[0] + c * t->strides[1], NAN);
    }
}

static rfg_status dequantize_call(rfg_context *ctx, const struct rfg_problem *prob, const rfg_tensor *t,
                                  rfg_stream stream)
{
    rfg_dequantize_params p = { .size = sizeof(p),
                                .group_rows = prob->v[DEQUANTIZE_GROUP_ROWS],
                                .group_cols = prob->v[DEQUANTIZE_GROUP_COLS] };
    return rfg_op_dequantize(ctx, &t[0], &t[1], &t[2], &p, stream);
}

static void dequantize_pack(const struct rfg_problem *prob, const rfg_tensor *t, void *kargs)
{
    struct dequantize_args *a = kargs;
    *a = (struct dequantize_args){ .q = t[1].data,
                                   .scale = t[2].data,
                                   .y = t[0].data,
                                   .m = (int)prob->v[DEQUANTIZE_M],
                                   .n = (int)prob->v[DEQUANTIZE_N],
                                   .ldq = t[1].strides[0],
                                   .ldy = t[0].strides[0],
                                   .scale_row = t[2].strides[0],
                                   .scale_col = t[2].strides[1] };
    dequantize_set_chunks(a, prob);
}

/* One scale in a row or a column has no order. */
static void dequantize_as_called(struct rfg_problem *prob)
{
    int64_t *v = prob->v;
    if (dequantize_scales(v[DEQUANTIZE_M], v[DEQUANTIZE_GROUP_ROWS]) < 2 ||
        dequantize_scales(v[DEQUANTIZE_N], v[DEQUANTIZE_GROUP_COLS]) < 2)
        v[DEQUANTIZE_SCALE_COLUMNS] = 0;
}

static const char *const compiled[] = {
    "dequantize e4m3,f32->bf16 M=64 N=7168 group_rows=1 group_cols=128",
    "dequantize e4m3fnuz,f32->f16 M=64 N=7168 group_rows=1",
    "dequantize e5m2,e8m0->f32 M=64 N=7168 group_rows=1 group_cols=32",
    "dequantize i8,f32->bf16 M=64 N=7169",
    "dequantize e4m3,e8m0->f16 M=64 N=7170 group_rows=128 group_cols=128",
    "dequantize i8,f32->f32 M=64 N=7171 ldy=7175",
    "dequantize e2m1,e8m0->bf16 M=64 N=7168 group_rows=1 group_cols=32",
    "dequantize e2m1,f32->f32 M=64 N=7170",
    "dequantize i4,f32->bf16 M=64 N=7168 group_rows=1 group_cols=128",
    "dequantize i4,f32->f16 M=64 N=7170 group_rows=1 group_cols=32",
    "dequantize e4m3,f32->f32 M=3 N=1024", /* so few that rows takes smaller workgroups than portable */
    NULL,
};

const struct rfg_op_case rfg_op_case_dequantize = {
    .tensors = dequantize_tensors,
    .fill = dequantize_fill,
    .call = dequantize_call,
    .pack = dequantize_pack,
    .oracle = rfg_oracle_dequantize,
    .as_called = dequantize_as_called,
    .compiled = compiled,
};
