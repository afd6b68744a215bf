/* SPDX-License-Identifier: MIT
 *
 * gemm_skinny: few rows of X against a stream of weights, by dot products. A workgroup owns ROWS rows of W; its WAVES waves,
 * and grid z's workgroups, take slices of k: wave s of S takes every S-th step of 8 * wave-size elements, so that the
 * workgroup reads each row of W in one contiguous stream. Each lane keeps M_TILE x ROWS sums in fp32; they are added across
 * the lanes by a tree, across waves through LDS, across workgroups by the last to arrive, each in a fixed order.
 *
 * Macros: DT_IN (16-bit), DT_OUT, M_TILE >= M, ROWS, WAVES, UNROLL (steps in flight a lane). K % 8 == 0, 16-byte alignment of
 * X and W. */
#include "rfg_device.h"
#include "rfg_gemm_args.h"

#define STEP (8 * RFG_WAVE)
#define SUMS (M_TILE * ROWS)

RFG_FN void store(const struct gemm_args *a, int n0, int i, float sum)
{
    int m = i / ROWS, n = n0 + i % ROWS;
    if (m < a->m && n < a->n)
        rfg_put(a->y, m * a->ldy + n, sum + (a->bias ? rfg_get(a->bias, n, DT_IN) : 0.0f), DT_OUT);
}

RFG_KERNEL(WAVES * RFG_WAVE) gemm_skinny(struct gemm_args a)
{
    float *lds = (float *)rfg_lds; /* [WAVES][SUMS], then one word */
    int split = rfg_groups_z(), z = rfg_group_z(), tile = rfg_group_x(), n0 = tile * ROWS;
    int wave = rfg_wave(), lane = rfg_lane(), tid = rfg_tid();
    int stride = split * WAVES * STEP;
    const rfg_u16 *w[ROWS], *x[M_TILE];
#pragma unroll
    for (int r = 0; r < ROWS; r++) /* rows past the end are read again and dropped */
        w[r] = (const rfg_u16 *)a.w + (long long)(n0 + r < a.n ? n0 + r : a.n - 1) * a.ldw;
#pragma unroll
    for (int m = 0; m < M_TILE; m++)
        x[m] = (const rfg_u16 *)a.x + (long long)(m < a.m ? m : a.m - 1) * a.ldx;

    float acc[M_TILE][ROWS];
#pragma unroll
    for (int m = 0; m < M_TILE; m++)
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            acc[m][r] = 0;

    for (int k0 = (z * WAVES + wave) * STEP + lane * 8; k0 < a.k; k0 += UNROLL * stride) {
        rfg_u32x4 wv[UNROLL][ROWS];
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                wv[u][r] = k0 + u * stride < a.k ? rfg_load_once(w[r] + k0 + u * stride) : rfg_zero16();
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            if (k0 + u * stride >= a.k)
                break;
#pragma unroll
            for (int m = 0; m < M_TILE; m++) {
                rfg_u32x4 xv = rfg_load(x[m] + k0 + u * stride);
#pragma unroll
                for (int r = 0; r < ROWS; r++)
                    acc[m][r] = rfg_dot8(xv, wv[u][r], acc[m][r], DT_IN);
            }
        }
    }

#pragma unroll
    for (int m = 0; m < M_TILE; m++)
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            float s = rfg_wave_sum(acc[m][r]);
            if (lane == 0)
                lds[wave * SUMS + m * ROWS + r] = s;
        }
    rfg_barrier();
    float sum[(SUMS + WAVES * RFG_WAVE - 1) / (WAVES * RFG_WAVE)];
    int own = 0;
    for (int i = tid; i < SUMS; i += WAVES * RFG_WAVE, own++) {
        sum[own] = 0;
#pragma unroll
        for (int v = 0; v < WAVES; v++)
            sum[own] += lds[v * SUMS + i];
        if (split == 1)
            store(&a, n0, i, sum[own]);
        else
            ((float *)a.workspace)[((long long)tile * split + z) * SUMS + i] = sum[own];
    }
    if (split == 1 || !rfg_last_group(a.counters + tile, split, (rfg_u32 *)lds + WAVES * SUMS))
        return;
    for (int i = tid; i < SUMS; i += WAVES * RFG_WAVE) {
        const float *part = (const float *)a.workspace + (long long)tile * split * SUMS + i;
        float s = 0;
        for (int v = 0; v < split; v++)
            s += part[v * SUMS];
        store(&a, n0, i, s);
    }
}
