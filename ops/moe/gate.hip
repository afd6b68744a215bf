/* SPDX-License-Identifier: MIT
 *
 * Norm, the router's product, the choice of experts and their rows' order, for few tokens, in one launch. A workgroup
 * has ROWS experts' rows of W, which its threads hold in registers, asked for before the launch before this one has
 * ended. It norms each token by itself (one workgroup stores it), TOKENS at a time, and multiplies. The last workgroup
 * to arrive has all logits: a wave chooses a token's experts (route_wave.h), then each pair of token and slot counts
 * those that go before it.
 *
 * Budget: W once, X once a workgroup, out of the L2. What binds is latency: a load of W and of X, the arrival, a load of
 * the logits, `top` picks.
 *
 * Macros: X_DTYPE (of x, w, norm), NORM (0: none, 1: by weights, 2: by 1 + weights), W_BIAS, ROWS (1, 2, 4), TOKENS
 * (1, 2, 4), STEPS (chunks of K of a thread, at most); those of route_choose.h, of logits of f32. */
#define WAVES GATE_WAVES
#include "moe/route_wave.h"
#include "moe/gate_args.h"

#define VEC  8
#define SUMS (ROWS * TOKENS)

/* What a thread holds of a row of K elements. */
struct piece {
    rfg_u32x4 v[STEPS];
};

RFG_DEVICE struct piece load_piece(const void *row, int k, bool there)
{
    struct piece p;
#pragma unroll
    for (int s = 0; s < STEPS; s++) {
        int chunk = rfg_thread() + s * THREADS;
        p.v[s].x = p.v[s].y = p.v[s].z = p.v[s].w = 0u;
        if (there && chunk * VEC < k)
            p.v[s] = rfg_load16((const char *)row + chunk * 16);
    }
    return p;
}

RFG_DEVICE float squares(const struct piece *p)
{
    float sum = 0.0f;
#pragma unroll
    for (int s = 0; s < STEPS; s++) {
        float f[VEC];
        rfg_unpack(f, p->v[s], X_DTYPE);
#pragma unroll
        for (int i = 0; i < VEC; i++)
            sum = rfg_fma(f[i], f[i], sum);
    }
    return sum;
}

/* x, normed and rounded. */
RFG_DEVICE void scale_piece(struct piece *x, const struct piece *weights, float rstd)
{
#pragma unroll
    for (int s = 0; s < STEPS; s++) {
        float f[VEC], w[VEC];
        rfg_unpack(f, x->v[s], X_DTYPE);
        rfg_unpack(w, weights->v[s], X_DTYPE);
#pragma unroll
        for (int i = 0; i < VEC; i++)
            f[i] = f[i] * rstd * (NORM == 2 ? 1.0f + w[i] : w[i]);
        x->v[s] = rfg_pack(f, X_DTYPE);
    }
}

RFG_DEVICE void store_piece(void *row, int k, const struct piece *p)
{
#pragma unroll
    for (int s = 0; s < STEPS; s++) {
        int chunk = rfg_thread() + s * THREADS;
        if (chunk * VEC < k)
            rfg_store16((char *)row + chunk * 16, p->v[s]);
    }
}

/* Sums over the workgroup of n (a constant) values a thread: part[i] has those of each wave, behind a barrier. */
RFG_DEVICE void add_waves(float (*part)[WAVES], const float *v, int n)
{
#pragma unroll
    for (int i = 0; i < n; i++) {
        float sum = rfg_reduce_to_lane(v[i], false);
        if (rfg_lane() == RFG_REDUCED_LANE)
            part[i][rfg_wave()] = sum;
    }
    rfg_barrier_lds();
}
RFG_DEVICE float sum_of(const float *part)
{
    float sum = part[0];
#pragma unroll
    for (int w = 1; w < WAVES; w++)
        sum += part[w];
    return sum;
}

RFG_DEVICE void norm_tokens(const struct gate_args *a, struct piece *x, const struct piece *weights, rfg_u32 first,
                            rfg_u32 limit)
{
    RFG_SHARED float part[TOKENS][WAVES];
    float sum[TOKENS];
#pragma unroll
    for (int u = 0; u < TOKENS; u++)
        sum[u] = squares(&x[u]);
    add_waves(part, sum, TOKENS);
#pragma unroll
    for (int u = 0; u < TOKENS; u++) {
        rfg_u32 t = first + (rfg_u32)u, groups = (rfg_u32)rfg_groups_x(THREADS);
        scale_piece(&x[u], weights, rfg_rsqrt(sum_of(part[u]) / (float)a->k + a->eps));
        if (t < limit && t % groups == (rfg_u32)rfg_group_x())
            store_piece((char *)a->y + (long long)t * a->k * 2, a->k, &x[u]);
    }
}

/* The logits of this workgroup's experts, of tokens first .. first + TOKENS - 1. */
RFG_DEVICE void multiply(const struct gate_args *a, const struct piece *x, const struct piece *w, int expert,
                         rfg_u32 first, rfg_u32 limit, float (*part)[WAVES])
{
    float acc[SUMS];
#pragma unroll
    for (int i = 0; i < SUMS; i++)
        acc[i] = 0.0f;
#pragma unroll
    for (int s = 0; s < STEPS; s++) {
        float wf[ROWS][VEC];
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            rfg_unpack(wf[r], w[r].v[s], X_DTYPE);
#pragma unroll
        for (int u = 0; u < TOKENS; u++) {
            float xf[VEC];
            rfg_unpack(xf, x[u].v[s], X_DTYPE);
#pragma unroll
            for (int r = 0; r < ROWS; r++)
#pragma unroll
                for (int i = 0; i < VEC; i++)
                    acc[u * ROWS + r] = rfg_fma(wf[r][i], xf[i], acc[u * ROWS + r]);
        }
    }
    add_waves(part, acc, SUMS);
    int i = rfg_thread(), e = expert + i % ROWS;
    rfg_u32 t = first + (rfg_u32)(i / ROWS);
    if (i < SUMS && t < limit && e < a->route.e)
        rfg_store_float(a->workspace, (long long)t * a->route.e + e,
                        sum_of(part[i]) + (W_BIAS ? rfg_load_float(a->w_bias, e, X_DTYPE) : 0.0f), RFG_F32);
}

/* A wave's rows: what is stored of them lies in LDS, too. */
RFG_DEVICE void choose(const struct route_args *a, rfg_u32 limit, rfg_u32 *ids, float *weights)
{
    struct share s = share_of(a);
    int slots = a->top + a->shared;
    for (rfg_u32 row = (rfg_u32)rfg_wave(); row < (rfg_u32)a->t; row += WAVES) {
        struct chosen c = { ~0u, 0.0f };
        bool counts = row < limit;
        if (counts)
            c = route(a, &s, row);
        else
            store(a, row, false, 0u, 0.0f);
        if (rfg_lane() < a->top) {
            ids[row * slots + rfg_lane()] = c.id;
            weights[row * slots + rfg_lane()] = c.weight;
        }
        if (rfg_lane() < a->shared) {
            ids[row * slots + a->top + rfg_lane()] = counts ? (rfg_u32)(a->e + rfg_lane()) : ~0u;
            weights[row * slots + a->top + rfg_lane()] = counts ? a->shared_weight : 0.0f;
        }
    }
    rfg_barrier_lds();
}

/* As rfg_op_moe_align() has them. Pairs without an expert have the largest number. */
RFG_DEVICE void sort(const struct gate_args *a, const rfg_u32 *ids, const float *weights)
{
    rfg_u32 slots = (rfg_u32)(a->route.top + a->route.shared), n = slots * (rfg_u32)a->route.t;
    rfg_u32 experts = (rfg_u32)(a->route.e + a->route.shared), thread = (rfg_u32)rfg_thread();
#pragma unroll 1
    for (rfg_u32 i = thread; i < n; i += THREADS) {
        rfg_u32 e = ids[i], before = 0u;
#pragma unroll 4 /* or masks of more would take all scalar registers */
        for (rfg_u32 k = 0; k < n; k++)
            before += ids[k] < e || (ids[k] == e && k < i);
        rfg_store4(a->places + i, e < experts ? before : ~0u);
        if (e < experts) {
            rfg_store4(a->rows + before, i / slots);
            rfg_store4(a->sorted + before, rfg_as_u32(weights[i]));
        }
    }
#pragma unroll 1
    for (rfg_u32 e = thread; e <= experts; e += THREADS) {
        rfg_u32 before = 0u;
#pragma unroll 4
        for (rfg_u32 k = 0; k < n; k++)
            before += ids[k] < e;
        rfg_store4(a->offsets + e, before);
    }
}

RFG_KERNEL(THREADS) moe_gate(struct gate_args a)
{
    RFG_SHARED float part[2][SUMS][WAVES], weights[GATE_MAX_SORT];
    RFG_SHARED rfg_u32 ids[GATE_MAX_SORT], flag;
    int expert = rfg_group_x() * ROWS;
    struct piece w[ROWS], norm, x[TOKENS];
    rfg_start_next();
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        w[r] = load_piece((const char *)a.w + (long long)(expert + r) * a.k * 2, a.k, expert + r < a.route.e);
    norm = load_piece(a.norm, a.k, NORM != 0);
    rfg_await_previous();
    rfg_u32 limit = rows_that_count(&a.route), tokens = (rfg_u32)a.route.t;
    int turn = 0;
    limit = limit < tokens ? limit : tokens;
    /* The first tokens are asked for together with their number; what isn't there isn't stored. */
    for (rfg_u32 first = 0; first < (first ? limit : tokens); first += TOKENS, turn ^= 1) {
#pragma unroll
        for (int u = 0; u < TOKENS; u++)
            x[u] = load_piece((const char *)a.x + (long long)(first + u) * a.k * 2, a.k, first + u < tokens);
        if (NORM)
            norm_tokens(&a, x, &norm, first, limit);
        multiply(&a, x, w, expert, first, limit, part[turn]);
    }
    if (!rfg_last_to_arrive(a.counters, rfg_groups_x(THREADS), &flag))
        return;
    a.route.x = a.workspace;
    choose(&a.route, limit, ids, weights);
    sort(&a, ids, weights);
}
