/* SPDX-License-Identifier: MIT
 *
 * What the kernels of moe_route share: scores, weights and what is stored. Each row is one wave's in the end, whose lanes
 * below `top` have a slot each.
 *
 * Macros: IN_DTYPE, SCORE, BIAS, WAVES (of a workgroup). */
#include "rfg_device.h"
#include "rfg_select.h"
#include "rfg_ballot.h"
#include "rfg_pick.h"
#include "moe/route_args.h"

#define THREADS (WAVES * RFG_WAVE)
#define LOG2E   1.44269504f
#define TINY    0x1p-126f /* the smallest score above 0 */
#define LOW     rfg_as_float(0xff800000u)

/* f, but of a NaN -infinity. */
RFG_DEVICE float number(float f)
{
    return rfg_max(f, LOW);
}

/* exp(l - largest) where the largest may be infinite: what is as large is 1. */
RFG_DEVICE float power(float l, float largest)
{
    return l == largest ? 1.0f : rfg_exp2((l - largest) * LOG2E);
}

RFG_DEVICE float flushed(float score)
{
    return score < TINY ? 0.0f : score;
}

/* sqrt(log(1 + exp(l))). log(1 + t) is 2 atanh(t / (2 + t)), whose series is good to 2e-7 at t = 1; far below 1 it is
 * t. */
RFG_DEVICE float sqrt_softplus(float l)
{
    if (l < -40.0f)
        return rfg_exp2(l * (0.5f * LOG2E));
    float t = rfg_exp2((l > 0.0f ? -l : l) * LOG2E), z = t * rfg_rcp(2.0f + t), y = z * z, p = 1.0f / 11.0f;
    p = rfg_fma(p, y, 1.0f / 9.0f);
    p = rfg_fma(p, y, 1.0f / 7.0f);
    p = rfg_fma(p, y, 1.0f / 5.0f);
    p = rfg_fma(p, y, 1.0f / 3.0f);
    p = rfg_fma(p, y, 1.0f);
    float f = rfg_fma(2.0f * z, p, l > 0.0f ? l : 0.0f);
    return f < rfg_as_float(0x7f800000u) ? f * rfg_rsqrt(f) : f;
}

/* largest, inverse: of a softmax over the row. */
RFG_DEVICE float score_of(float l, float largest, float inverse)
{
    float score = SCORE == ROUTE_SOFTMAX   ? power(l, largest) * inverse
                  : SCORE == ROUTE_SIGMOID ? rfg_rcp(1.0f + rfg_exp2(-l * LOG2E))
                                           : sqrt_softplus(l);
    return flushed(score);
}

/* A lane's weight over the sum of all; lanes without one have 0. */
RFG_DEVICE float normalised(float weight, bool has)
{
    float sum = rfg_reduce_lanes(weight, RFG_WAVE, false);
    if (!(sum > 0.0f && sum < rfg_as_float(0x7f800000u))) {
        float most = rfg_reduce_lanes(weight, RFG_WAVE, true);
        weight = has && weight == most ? 1.0f : 0.0f;
        sum = rfg_reduce_lanes(weight, RFG_WAVE, false);
    }
    return weight * rfg_rcp(sum);
}

/* What a lane of those below `top` has found, and, in others, of the shared experts. */
RFG_DEVICE void store(const struct route_args *a, rfg_u32 row, bool counts, rfg_u32 id, float weight)
{
    int *ids = a->ids + row * a->ldi;
    float *weights = a->weights + row * a->ldw;
    if (rfg_lane() < a->top) {
        rfg_store4(ids + rfg_lane(), counts ? id : ~0u);
        rfg_store4(weights + rfg_lane(), counts ? rfg_as_u32(weight) : 0u);
    }
    if (rfg_lane() < a->shared) {
        rfg_store4(ids + a->top + rfg_lane(), counts ? (rfg_u32)(a->e + rfg_lane()) : ~0u);
        rfg_store4(weights + a->top + rfg_lane(), counts ? rfg_as_u32(a->shared_weight) : 0u);
    }
}

RFG_DEVICE const char *row_of(const struct route_args *a, rfg_u32 row)
{
    return (const char *)a->x + row * a->ldx * RFG_DTYPE_BYTES(IN_DTYPE);
}

/* The weight of a slot whose logit, or for RFG_MOE_TOPK_SOFTMAX choice, is l; !has: of none. All lanes come here. */
RFG_DEVICE float weight_of(const struct route_args *a, float l, bool has, float largest, float inverse)
{
    float weight = SCORE == ROUTE_TOPK_SOFTMAX ? power(l, largest) : score_of(l, largest, inverse);
    weight = has ? weight : 0.0f;
    if (SCORE == ROUTE_TOPK_SOFTMAX || a->renormalise)
        weight = normalised(weight, has);
    return flushed(weight) * a->scale;
}

/* Rows that count. */
RFG_DEVICE rfg_u32 rows_that_count(const struct route_args *a)
{
    int tokens = a->tokens ? (int)rfg_load4(a->tokens) : a->t;
    return tokens > 0 ? (rfg_u32)tokens : 0u;
}

/* Does `call` for each `row` of a wave's that counts, and stores none of the others. */
#define EACH_ROW_OF_A_WAVE(a, call)                                                                                    \
    rfg_u32 limit = rows_that_count(a);                                                                                \
    for (rfg_u32 row = (rfg_u32)(rfg_group_x() * WAVES + rfg_wave()); row < (rfg_u32)(a)->t;                           \
         row += (rfg_u32)(rfg_groups_x(THREADS) * WAVES))                                                              \
        if (row < limit)                                                                                               \
            call;                                                                                                      \
        else                                                                                                           \
            store(a, row, false, 0u, 0.0f)
