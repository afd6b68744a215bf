/* SPDX-License-Identifier: MIT
 *
 * The harness' case of moe_sum. Places are anywhere in x; one in six is out of range, one is the token's own. */
#include "base/util.h"
#include "ops/oracle.h"
#include "sum.h"
#include "sum_case.h"

static int sum_tensors(const struct rfg_problem *prob, struct rfg_tensor_spec spec[RFG_MAX_TENSORS])
{
    const int64_t *v = prob->v;
    rfg_dtype x = (rfg_dtype)prob->dtype[0], y = (rfg_dtype)prob->dtype[1];
    int64_t t = v[SUM_T], n = v[SUM_N], top = v[SUM_TOP];
    spec[CASE_Y] = rfg_rows_spec("y", y, t, n, 1, v[SUM_LDY], SUM_ALIGN_Y);
    spec[CASE_Y].output = true;
    spec[CASE_Y].same_as = v[SUM_INPLACE] ? 1 + CASE_RESIDUAL : 0;
    spec[CASE_X] = rfg_rows_spec("x", x, sum_x_rows(prob), n, 1, v[SUM_LDX], SUM_ALIGN);
    spec[CASE_PLACES] = rfg_rows_spec("places", RFG_I32, t, top, 1, v[SUM_LDP], -1);
    spec[CASE_WEIGHTS] = rfg_rows_spec("weights", RFG_F32, t, top, 1, v[SUM_LDW], -1);
    spec[CASE_WEIGHTS].absent = !v[SUM_WEIGHTS];
    spec[CASE_RESIDUAL] = rfg_rows_spec("residual", y, t, n, 1, v[SUM_LDR], SUM_ALIGN_Y);
    spec[CASE_RESIDUAL].absent = !v[SUM_RESIDUAL];
    spec[CASE_TOKENS] = (struct rfg_tensor_spec){
        .name = "tokens", .dtype = RFG_I32, .ndim = 1, .shape = { 1 }, .absent = !v[SUM_TOKENS], .align_key = -1
    };
    spec[CASE_IDENTITY] = rfg_rows_spec("identity", x, t, n, 1, v[SUM_LDI], SUM_ALIGN);
    spec[CASE_IDENTITY_WEIGHTS] = rfg_rows_spec("identity_weights", RFG_F32, t, top, 1, v[SUM_LDIW], -1);
    spec[CASE_IDENTITY].absent = spec[CASE_IDENTITY_WEIGHTS].absent = !v[SUM_IDENTITY];
    return CASE_TENSORS;
}

static void sum_fill(const struct rfg_problem *prob, int tensor, const rfg_tensor *t, enum rfg_data data, uint64_t seed)
{
    int64_t rows = sum_x_rows(prob), top = prob->v[SUM_TOP];
    const int64_t beside[] = { -1, rows, INT32_MIN, INT32_MAX };
    /* A NaN whose lower half isn't 0, in what doesn't have y's dtype. */
    if (data == RFG_DATA_SPECIAL && rows && t->dtype == RFG_F32 && (tensor == CASE_WEIGHTS || tensor == CASE_X))
        *(uint32_t *)t->data = 0x7fffffff;
    if (tensor == CASE_TOKENS) {
        const int64_t most[] = { prob->v[SUM_T] / 2, prob->v[SUM_T] - 1, prob->v[SUM_T] + 3, INT32_MAX };
        *(int32_t *)t->data = (int32_t)most[rfg_random(&seed) % 4];
    }
    for (int64_t i = 0; tensor == CASE_PLACES && i < prob->v[SUM_T]; i++)
        for (int64_t k = 0; k < top; k++) {
            uint64_t r = rfg_random(&seed), which = r >> 8;
            bool out = r % 6 == 0 || !rows, own = r % 6 == 1; /* which means nothing without identity */
            ((int32_t *)t->data)[i * t->strides[0] + k] = (int32_t)(own   ? RFG_MOE_IDENTITY
                                                                    : out ? beside[which % 4]
                                                                          : (int64_t)(which % (uint64_t)rows));
        }
}

static const rfg_tensor *given(const rfg_tensor *t)
{
    return t->data ? t : NULL;
}

static rfg_status sum_call(rfg_context *ctx, const struct rfg_problem *prob, const rfg_tensor *t, rfg_stream stream)
{
    rfg_moe_sum_params p = { .size = sizeof(p),
                             .weights = given(&t[CASE_WEIGHTS]),
                             .residual = given(&t[CASE_RESIDUAL]),
                             .tokens = given(&t[CASE_TOKENS]),
                             .identity = given(&t[CASE_IDENTITY]),
                             .identity_weights = given(&t[CASE_IDENTITY_WEIGHTS]) };
    (void)prob;
    return rfg_op_moe_sum(ctx, &t[CASE_Y], &t[CASE_X], &t[CASE_PLACES], &p, stream);
}

static void sum_pack(const struct rfg_problem *prob, const rfg_tensor *t, void *kargs)
{
    struct moe_sum_args *a = kargs;
    *a = (struct moe_sum_args){ .x = t[CASE_X].data,
                                .residual = t[CASE_RESIDUAL].data,
                                .y = t[CASE_Y].data,
                                .places = t[CASE_PLACES].data,
                                .tokens = t[CASE_TOKENS].data,
                                .weights = t[CASE_WEIGHTS].data,
                                .ldx = t[CASE_X].strides[0],
                                .ldy = t[CASE_Y].strides[0],
                                .ldr = t[CASE_RESIDUAL].strides[0],
                                .ldp = t[CASE_PLACES].strides[0],
                                .ldw = t[CASE_WEIGHTS].strides[0],
                                .identity = t[CASE_IDENTITY].data,
                                .identity_weights = t[CASE_IDENTITY_WEIGHTS].data,
                                .ld_identity = t[CASE_IDENTITY].strides[0],
                                .ld_identity_weights = t[CASE_IDENTITY_WEIGHTS].strides[0] };
    sum_set_sizes(a, prob);
}

static const char *const compiled[] = {
    "moe_sum bf16->bf16 T=8 N=7168 top=8 weights=1",
    "moe_sum bf16->bf16 T=8 N=7168 top=8 residual=1",
    "moe_sum f16->f16 T=64 N=2880 top=4 weights=1 tokens=1",
    "moe_sum f32->bf16 T=8 N=4096 top=2 residual=1",
    "moe_sum bf16->f32 T=8 N=4096 top=32 weights=1 residual=1",
    "moe_sum f16->f32 T=8 N=1001 top=9",
    "moe_sum f32->f32 T=8 N=1002 top=8 weights=1",
    "moe_sum bf16->bf16 T=8 N=6144 top=12 identity=1",
    "moe_sum f16->f32 T=8 N=1001 top=9 weights=1 identity=1",
    NULL,
};

const struct rfg_op_case rfg_op_case_moe_sum = {
    .tensors = sum_tensors,
    .fill = sum_fill,
    .call = sum_call,
    .pack = sum_pack,
    .oracle = rfg_oracle_moe_sum,
    .compiled = compiled,
};
