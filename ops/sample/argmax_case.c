/* SPDX-License-Identifier: MIT
 *
 * argmax as the harness has it. What lies between rows of x is above all that is in them; some rows hold nothing above
 * zero, or one value alone. */
#include <math.h>

#include "argmax.h"
#include "base/util.h"
#include "ops/oracle.h"

static int argmax_tensors(const struct rfg_problem *prob, struct rfg_tensor_spec spec[RFG_MAX_TENSORS])
{
    const int64_t *v = prob->v;
    spec[0] = (struct rfg_tensor_spec){ .name = "y",
                                        .output = true,
                                        .dtype = (rfg_dtype)prob->dtype[1],
                                        .ndim = 1,
                                        .shape = { v[ARGMAX_M] },
                                        .align_key = -1 };
    spec[1] = rfg_rows_spec("x", (rfg_dtype)prob->dtype[0], v[ARGMAX_M], v[ARGMAX_V], 1, v[ARGMAX_LDX], ARGMAX_ALIGN);
    return 2;
}

/* Every fourth row in turn: as it was; all as small as can be, or zeros of either sign; one value, in places -infinity
 * and NaN; as it was, but its largest is the last one, and in every
 * other of these one at an end of what is in 16 bytes. */
static void argmax_fill(const struct rfg_problem *prob, int tensor, const rfg_tensor *t, enum rfg_data data,
                        uint64_t seed)
{
    int64_t m = prob->v[ARGMAX_M], v = prob->v[ARGMAX_V];
    double tiny = rfg_ulp(t->dtype, 0);
    for (int64_t r = 0; tensor == 1 && r < m; r++) {
        int64_t row = r * t->strides[0];
        for (int64_t i = v; r + 1 < m && i < t->strides[0]; i++)
            rfg_store(t->data, t->dtype, row + i, INFINITY);
        for (int64_t i = 0; data == RFG_DATA_SPECIAL && i < v; i++) {
            const double small[] = { -tiny, -0.0, 0, -0.0, -tiny, -2 * tiny, v % 2 ? tiny : -1, 0 };
            const double low[] = { -INFINITY, NAN, -INFINITY, -NAN };
            uint64_t bits = rfg_random(&seed);
            if (r % 4 == 1)
                rfg_store(t->data, t->dtype, row + i, small[bits % 8]);
            else if (r % 4 == 2)
                rfg_store(t->data, t->dtype, row + i, r % 8 == 2 && i > v / 2 ? -60000 : low[bits % 4]);
        }
        if (r % 4 == 3) {
            int64_t at = (int64_t)(rfg_random(&seed) % (uint64_t)v), side = at % 8 < 4 ? at / 8 * 8 : at / 8 * 8 + 7;
            if (r % 8 == 3)
                rfg_store(t->data, t->dtype, row + (side < v ? side : v - 1), 50000);
            rfg_store(t->data, t->dtype, row + v - 1, 50000);
        }
    }
}

static rfg_status argmax_call(rfg_context *ctx, const struct rfg_problem *prob, const rfg_tensor *t, rfg_stream stream)
{
    (void)prob;
    return rfg_op_argmax(ctx, &t[0], &t[1], stream);
}

static void argmax_pack(const struct rfg_problem *prob, const rfg_tensor *t, void *kargs)
{
    *(struct argmax_args *)kargs = (struct argmax_args){
        .x = t[1].data, .y = t[0].data, .m = (int)prob->v[ARGMAX_M], .v = (int)prob->v[ARGMAX_V], .ldx = t[1].strides[0]
    };
}

/* The first of the largest, where what can't be compared is as small as anything. */
rfg_status rfg_oracle_argmax(const struct rfg_problem *prob, const rfg_tensor *host, struct rfg_expected *expected)
{
    for (int64_t r = 0; r < expected[0].n_rows; r++) {
        int64_t first = 0;
        double most = -INFINITY;
        for (int64_t i = prob->v[ARGMAX_V] - 1; i >= 0; i--) {
            double x = rfg_element(&host[1], expected[0].rows[r], i);
            if (isnan(x) || x < most)
                continue;
            most = x;
            first = i;
        }
        expected[0].value[r] = isinf(most) && most < 0 ? 0 : (double)first;
        expected[0].allow[r] = 0;
    }
    return RFG_OK;
}

static const char *const compiled[] = {
    "argmax f32->i32 M=32 V=128256",
    "argmax f32->i64 M=2 V=128256 align=4",
    "argmax bf16->i64 M=1 V=151936",
    "argmax f16->i32 M=8 V=32000 ldx=32064",
    "argmax bf16->i32 M=64 V=50257 align=2",
    "argmax f16->i64 M=4096 V=1000 align=8",
    NULL,
};

const struct rfg_op_case rfg_op_case_argmax = {
    .tensors = argmax_tensors,
    .fill = argmax_fill,
    .call = argmax_call,
    .pack = argmax_pack,
    .oracle = rfg_oracle_argmax,
    .compiled = compiled,
};
