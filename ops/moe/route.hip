/* SPDX-License-Identifier: MIT
 *
 * A wave a token, whose experts are in its lanes' registers, in order: each group has the same number of neighbouring
 * lanes, and each lane neighbouring experts of it. So of equal ones the lowest lane's come first, and
 * what groups have is found by lanes side by side. A lane that has nothing to offer has keys of 0, which no float has
 * (rfg_order_of()). A pick costs one search through the wave, and through the registers of the lane it was found in.
 *
 * Which lane has what depends on E and the groups alone: so do the sums.
 *
 * Macros: IN_DTYPE, SCORE, BIAS, BIAS_DTYPE, GROUPED, CHUNKS (experts of a lane, at most), WAVES (of a workgroup). */
#include "rfg_device.h"
#include "rfg_select.h"
#include "rfg_ballot.h"
#include "rfg_pick.h"
#include "moe/route_args.h"

#define THREADS   (WAVES * RFG_WAVE)
#define LOG2E     1.44269504f
#define TINY      0x1p-126f /* the smallest score above 0 */
#define LOW       rfg_as_float(0xff800000u)
#define LANE_BITS (RFG_WAVE == 64 ? 6 : 5)

/* With a bias choices say nothing of the score without it. */
#define APART (BIAS && SCORE != ROUTE_TOPK_SOFTMAX)

/* What a lane has. */
struct share {
    rfg_u32 first;   /* expert */
    int n;           /* experts */
    int group, bits; /* a group has 1 << bits lanes */
};

RFG_DEVICE struct share share_of(const struct route_args *a)
{
    struct share s;
    s.bits = GROUPED ? LANE_BITS - a->group_bits : LANE_BITS;
    int lanes = 1 << s.bits, each = (a->size + lanes - 1) >> s.bits;
    int before = (rfg_lane() & (lanes - 1)) * each, left = a->size - before;
    s.group = rfg_lane() >> s.bits;
    s.n = left < each ? left : each;
    s.n = s.n < 0 ? 0 : s.n;
    s.first = (rfg_u32)(s.group * a->size + before);
    return s;
}

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

/* How many experts a lane has, at the beginning of each loop over them: else tests of all of them would be kept, in
 * more masks than there are scalar registers. */
RFG_DEVICE int count_of(const struct share *s)
{
    return (int)rfg_anew((rfg_u32)s->n);
}

/* A lane's i-th expert; behind the last one expert 0, so that loads need no masks. */
RFG_DEVICE rfg_u32 expert_of(const struct share *s, int i, int n)
{
    return i < n ? s->first + i : 0u;
}

/* The keys of a lane's experts, and what a softmax over the row needs. */
RFG_DEVICE void read_row(const struct route_args *a, const struct share *s, rfg_u32 row, rfg_u32 *key, float *largest,
                         float *inverse)
{
    const char *x = (const char *)a->x + row * a->ldx * RFG_DTYPE_BYTES(IN_DTYPE);
    float l[CHUNKS], b[CHUNKS];
    int n = count_of(s);
#pragma unroll
    for (int i = 0; i < CHUNKS; i++) {
        l[i] = rfg_load_float(x, expert_of(s, i, n), IN_DTYPE);
        b[i] = BIAS ? rfg_load_float(a->bias, expert_of(s, i, n), BIAS_DTYPE) : 0.0f;
    }
    if (SCORE == ROUTE_SOFTMAX && (BIAS || !a->renormalise)) {
        float most = LOW, sum = 0.0f;
        n = count_of(s);
#pragma unroll
        for (int i = 0; i < CHUNKS; i++)
            most = i < n ? rfg_max(most, number(l[i])) : most;
        most = rfg_reduce_lanes(most, RFG_WAVE, true);
        n = count_of(s);
#pragma unroll
        for (int i = 0; i < CHUNKS; i++)
            sum += i < n ? power(number(l[i]), most) : 0.0f;
        *largest = most;
        *inverse = rfg_rcp(rfg_reduce_lanes(sum, RFG_WAVE, false));
    }
    n = count_of(s);
#pragma unroll
    for (int i = 0; i < CHUNKS; i++) {
        float c = number(l[i]);
        if (BIAS) {
            c = (APART ? score_of(c, *largest, *inverse) : c) + b[i];
            c = l[i] == l[i] ? number(c) : LOW;
        }
        key[i] = i < n ? rfg_order_of(c) : 0u;
    }
}

RFG_DEVICE rfg_u32 shuffle_xor(rfg_u32 v, int mask)
{
    return rfg_as_u32(rfg_shuffle_xor(rfg_as_float(v), mask));
}

RFG_DEVICE rfg_u32 smaller(rfg_u32 a, rfg_u32 b)
{
    return a < b ? a : b;
}

/* Takes from the lanes what is of no group that is kept. */
RFG_DEVICE void choose_groups(const struct route_args *a, const struct share *s, rfg_u32 *key)
{
    rfg_u32 first = 0u, second = 0u;
#pragma unroll
    for (int i = 0; i < CHUNKS; i++) {
        second = BIAS ? rfg_larger_u32(second, smaller(first, key[i])) : 0u;
        first = rfg_larger_u32(first, key[i]);
    }
    for (int mask = 1; mask < 1 << s->bits; mask *= 2) {
        rfg_u32 other = shuffle_xor(first, mask);
        if (BIAS)
            second = rfg_larger_u32(rfg_larger_u32(second, shuffle_xor(second, mask)), smaller(first, other));
        first = rfg_larger_u32(first, other);
    }
    if (BIAS && a->size > 1)
        first = rfg_order_of(number(rfg_float_of(first) + rfg_float_of(second)));
    int better = 0;
    for (int g = 0; g < a->groups; g++) {
        rfg_u32 other = rfg_of_any_lane(first, g << s->bits);
        better += other > first || (other == first && g < s->group);
    }
#pragma unroll
    for (int i = 0; i < CHUNKS; i++)
        key[i] = better < a->top_groups ? key[i] : 0u;
}

/* The largest of a lane's keys, and the first expert that has it. */
RFG_DEVICE rfg_u32 best_of(const struct share *s, const rfg_u32 *key, rfg_u32 *id)
{
    rfg_u32 best = 0u;
    *id = 0u;
#pragma unroll
    for (int i = 0; i < CHUNKS; i++) {
        *id = key[i] > best ? s->first + i : *id;
        best = rfg_larger_u32(best, key[i]);
    }
    return best;
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

RFG_DEVICE void route(const struct route_args *a, const struct share *s, rfg_u32 row)
{
    rfg_u32 key[CHUNKS], id, own_key = 0u, own_id = 0u;
    float largest = 0.0f, inverse = 1.0f;
    read_row(a, s, row, key, &largest, &inverse);
    if (GROUPED)
        choose_groups(a, s, key);
    rfg_u32 best = best_of(s, key, &id);
#pragma unroll 1
    for (int slot = 0; slot < a->top; slot++) {
        struct rfg_pick p = rfg_pick(best, id);
        own_key = rfg_lane() == slot ? p.key : own_key;
        own_id = rfg_lane() == slot ? p.id : own_id;
#pragma unroll
        for (int i = 0; i < CHUNKS; i++)
            key[i] = s->first + i == p.id ? 0u : key[i];
        best = best_of(s, key, &id);
    }
    bool has = rfg_lane() < a->top;
    float l =
        APART ? number(rfg_load_float((const char *)a->x + row * a->ldx * RFG_DTYPE_BYTES(IN_DTYPE), own_id, IN_DTYPE))
              : rfg_float_of(own_key);
    if (SCORE == ROUTE_TOPK_SOFTMAX || (SCORE == ROUTE_SOFTMAX && !BIAS && a->renormalise))
        largest = rfg_float_of(rfg_of_any_lane(own_key, 0));
    float weight = SCORE == ROUTE_TOPK_SOFTMAX ? power(l, largest) : score_of(l, largest, inverse);
    weight = has ? weight : 0.0f;
    if (SCORE == ROUTE_TOPK_SOFTMAX || a->renormalise)
        weight = normalised(weight, has);
    store(a, row, true, own_id, flushed(weight) * a->scale);
}

RFG_KERNEL(THREADS) moe_route_wave(struct route_args a)
{
    struct share s = share_of(&a);
    rfg_start_next();
    rfg_await_previous();
    int tokens = a.tokens ? (int)rfg_load4(a.tokens) : a.t;
    rfg_u32 limit = tokens > 0 ? (rfg_u32)tokens : 0u;
    for (rfg_u32 row = (rfg_u32)(rfg_group_x() * WAVES + rfg_wave()); row < (rfg_u32)a.t;
         row += (rfg_u32)(rfg_groups_x(THREADS) * WAVES))
        if (row < limit)
            route(&a, &s, row);
        else
            store(&a, row, false, 0u, 0.0f);
}
