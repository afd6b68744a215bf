/* SPDX-License-Identifier: MIT
 *
 * Rows of x, and the scales of x and w. */
#include "gemm.h"

int64_t gemm_far_rows(int64_t rows, int64_t ld)
{
    int64_t up = 1;
    if (rows <= INT32_MAX / 2 / (ld ? ld : 1))
        return 0;
    while (up < rows)
        up *= 2;
    return up < RFG_MAX_SIZE ? up : RFG_MAX_SIZE;
}

/* Scales of a row. Of mx formats as many as a w has that is padded. */
static int64_t scale_cols(const struct rfg_problem *prob, int64_t per)
{
    return per == RFG_GEMM_SCALE_BLOCK ? ceil_div(prob->v[GEMM_K], GEMM_SCALE_BLOCK)
           : per == RFG_GEMM_SCALE_GROUP
               ? (prob->v[GEMM_W_GROUP] ? gemm_w_groups(prob) : ceil_div(gemm_w_cols(prob), GEMM_SCALE_GROUP))
               : 1;
}

struct gemm_scale_shape gemm_x_scales(const struct rfg_problem *prob)
{
    const int64_t *v = prob->v;
    struct gemm_scale_shape s = { v[GEMM_X_PER] == RFG_GEMM_SCALE_TENSOR ? 1 : gemm_all_x_rows(prob),
                                  scale_cols(prob, v[GEMM_X_PER]) };
    return v[GEMM_X_SCALE] ? s : (struct gemm_scale_shape){ 0, 0 };
}

struct gemm_scale_shape gemm_w_scales(const struct rfg_problem *prob)
{
    const int64_t *v = prob->v;
    bool blocks = v[GEMM_W_PER] == RFG_GEMM_SCALE_BLOCK;
    struct gemm_scale_shape s = { v[GEMM_W_PER] == RFG_GEMM_SCALE_TENSOR ? 1
                                  : blocks                               ? ceil_div(v[GEMM_N], GEMM_SCALE_BLOCK)
                                                                         : v[GEMM_N],
                                  scale_cols(prob, v[GEMM_W_PER]) };
    return v[GEMM_W_SCALE] ? s : (struct gemm_scale_shape){ 0, 0 };
}

int64_t gemm_expert_scales(const struct rfg_problem *prob, int row)
{
    return prob->v[GEMM_W_PER] == RFG_GEMM_SCALE_TENSOR ? 1 : gemm_w_scales(prob).rows * row;
}
