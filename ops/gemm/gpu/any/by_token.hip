/* SPDX-License-Identifier: MIT
 *
 * The second product of a mixture of experts and its sum, for few tokens: a token's rows of X, one for each of its
 * experts, are taken for one long row, which is multiplied by the experts' rows of W one after the other, each part times
 * its weight. So no row of the product is ever stored, and none is looked up: which expert a part has is said by its id.
 *
 * Each wave of a workgroup works on the same ROWS columns of Y, of one token, and on its share of the parts. Two tokens
 * of one expert read its W twice.
 *
 * Budget of a lane's chunk: 16 bytes of each of ROWS rows of W, a chunk of X from the caches, an id and a weight, from
 * there too, W_VEC * ROWS fma and the conversions. What binds is memory: UNROLL chunks of a lane are under way.
 *
 * Macros: those of load.h and epilogue.h, of experts.h with EXPERT_IDS and SLOTS, ROWS (1, 2, 4), WAVES, UNROLL. Needs
 * rows of X and W aligned to 16 bytes and K a multiple of W_VEC, and scales of blocks or groups, if of any. Grid: (N /
 * ROWS, tokens). */
#define SCALE_LATE 1
#include "rfg_device.h"
#include "gemm/gpu/any/load.h"
#include "gemm/gpu/any/epilogue.h"
#include "gemm/gpu/any/experts.h"
#include "gemm/gpu/any/slots.h"

#define THREADS (WAVES * RFG_WAVE)
#define PARTS   (W_VEC / X_VEC) /* chunks of X that a chunk of W is multiplied with */
static_assert(EXPERT_IDS && SLOTS, "rows have experts, and are summed");

/* A lane's chunk: what all of it needs is under way before any of it is used. */
struct piece {
    w_chunk w[ROWS];
    rfg_u32x4 x[PARTS];
    float weight;
    int at;      /* of its rows; the first has the bias */
    int e, pair; /* e -1: there is none */
};

/* Chunk c of the token's parts. */
RFG_DEVICE void find_piece(struct piece *p, const struct gemm_args *a, int token, int c, int chunks)
{
    rfg_u32 slot = (rfg_u32)c / (rfg_u32)chunks;
    bool there = slot < (rfg_u32)a->top;
    p->at = c - (int)slot * chunks;
    p->pair = token * a->top + (int)slot;
    p->e = there ? (int)rfg_load4((const char *)a->offsets + (long long)p->pair * 4) : -1;
    p->weight = 1.0f;
#if WEIGHTED
    p->weight = there ? rfg_load_float(a->weights, p->pair, RFG_F32) : 0.0f;
#endif
}

RFG_DEVICE void load_piece(struct piece *p, const struct gemm_args *all, int n0)
{
    struct expert it = { p->e, p->pair, 1, p->pair, 1 };
    struct gemm_args a = args_of(all, &it, 0, 1);
    const char *x = x_row(&a, 0);
#pragma unroll
    for (int r = 0; r < ROWS; r++) /* those beyond the matrix repeat the last one: their sums are not stored */
        p->w[r] = w_load(w_row_of(&a, r < a.n - n0 ? n0 + r : a.n - 1), p->at);
#pragma unroll
    for (int part = 0; part < PARTS; part++)
        p->x[part] = rfg_load16(x + (long long)(p->at * PARTS + part) * 16);
}

RFG_DEVICE void add_piece(float *sum, const struct piece *p, const struct gemm_args *all, int n0)
{
    float acc[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        acc[r] = 0.0f;
#pragma unroll
    for (int part = 0; part < PARTS; part++) {
        float xf[X_VEC];
        rfg_unpack(xf, p->x[part], IN_DTYPE);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            float wf[X_VEC];
            w_unpack(wf, p->w[r], part);
#pragma unroll
            for (int i = 0; i < X_VEC; i++)
                acc[r] = rfg_fma(wf[i], xf[i], acc[r]);
        }
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        acc[r] *= W_CHUNK_SCALE(p->w[r]);
        if (all->bias != 0 && p->at == 0 && r < all->n - n0)
            acc[r] += rfg_load_float(all->bias, (long long)p->e * all->n + n0 + r, BIAS_DTYPE);
        sum[r] = rfg_fma(p->weight, acc[r], sum[r]);
    }
}

RFG_DEVICE bool is_there(const struct piece *p, const struct gemm_args *a)
{
    return p->e >= 0 && p->e < a->experts;
}

RFG_KERNEL(THREADS) gemm_slots(struct gemm_args a)
{
    RFG_SHARED float part[WAVES][ROWS];
    int n0 = rfg_group_x() * ROWS, token = rfg_group_y(), chunks = a.k / W_VEC, all = chunks * a.top;
    rfg_start_next();
    rfg_await_previous();
    rfg_u32 tokens = rfg_slot_tokens(a.m / a.top, a.tokens); /* looked at last: it comes from memory, as ids do */
    int r = rfg_thread();
    bool stores = r < ROWS && r < a.n - n0;
    float acc[ROWS], residual = 0.0f;
    if (a.residual && stores)
        residual = rfg_load_float(a.residual, token * a.ldr + n0 + r, OUT_DTYPE);
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        acc[r] = 0.0f;
#pragma unroll 1
    for (int c = rfg_thread(); c < all; c += UNROLL * THREADS) {
        struct piece p[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
            find_piece(&p[u], &a, token, c + u * THREADS, chunks);
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
            if (is_there(&p[u], &a))
                load_piece(&p[u], &a, n0);
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
            if (is_there(&p[u], &a))
                add_piece(acc, &p[u], &a, n0);
    }
    float sum = rfg_wave_sum_scatter(acc, ROWS);
    if (rfg_lane() % (RFG_WAVE / ROWS) == 0)
        part[rfg_wave()][rfg_lane() / (RFG_WAVE / ROWS)] = sum;
    rfg_barrier_lds();
    if (!stores || (rfg_u32)token >= tokens)
        return;
    sum = part[0][r];
    for (int w = 1; w < WAVES; w++)
        sum += part[w][r];
    store_y(&a, token * a.ldy + n0 + r, sum + residual);
}
