/* SPDX-License-Identifier: MIT
 *
 * The end of every gemm kernel: fp32 sums become what is stored in Y. store_lanes(), store_2() and store_4() take sums
 * of 1, 2 or 4 neighbouring columns of a row. reduce_partials() is the cross-workgroup reduction of split-K through
 * memory. Columns are those of the sums, rows of W; with a gated activation Y has half as many.
 *
 * Macros: those of load.h, BIAS_DTYPE, OUT_DTYPE (Y), RESIDUAL (1: there is one), GATED (enum rfg_act + 1, 0: none), of
 * which those of gates alone, and others that have a limit, need LIMITED; WEIGHTED (may be missing: 0; rows have weights).
 * Y_SHARED (may be missing: 0; other workgroups read Y, without a write-back: rfg_store16_shared()). */
#include "gemm/gpu/any/load.h"
#if GATED
#if LIMITED
#define RFG_GATE_ARGS struct gemm_args
#endif
#include "rfg_act.h"
static_assert(GATED - 1 <= (LIMITED ? RFG_ACT_LAST : RFG_ACT_RELU2), "gemm has no such activation");
#endif
#ifndef WEIGHTED
#define WEIGHTED 0
#endif

#if SLOTS /* y: the rows in the workspace */
#define GEMM_LDY(a) ((long long)GEMM_SLOT_LD((a)->n))
#else
#define GEMM_LDY(a) (PACKED ? (long long)((a)->n / (GATED ? 2 : 1)) : (a)->ldy)
#endif
#define Y_BYTES RFG_DTYPE_BYTES(OUT_DTYPE)

#if BATCH
/* The arguments become those of the product that this plane of the grid makes. */
RFG_DEVICE void take_batch(struct gemm_args *a)
{
    long long i = rfg_group_z();
    a->y = (char *)a->y + i * a->y_batch * Y_BYTES;
    a->x = (const char *)a->x + X_BYTES_OF(i * a->x_batch);
    a->w = (const char *)a->w + W_BYTES_OF(i * a->w_batch);
}
#endif

/* Y's elements from place `at` on, rounded to its format; of codes, what these stand for over y_scale. */
#if Y_CODES
RFG_DEVICE rfg_u32 y_codes(const struct gemm_args *a, float f0, float f1, float f2, float f3)
{
    float inverse = 1.0f / rfg_load_float(a->y_scale, 0, RFG_F32);
    return rfg_quantise4(f0 * inverse, f1 * inverse, f2 * inverse, f3 * inverse, OUT_DTYPE);
}
RFG_DEVICE void store_y(const struct gemm_args *a, long long at, float f)
{
    rfg_store1((char *)a->y + at, y_codes(a, f, 0.0f, 0.0f, 0.0f));
}
RFG_DEVICE void store_y2(const struct gemm_args *a, void *to, float f0, float f1)
{
    rfg_store2(to, (rfg_u16)y_codes(a, f0, f1, 0.0f, 0.0f));
}
RFG_DEVICE void store_y4(const struct gemm_args *a, long long at, rfg_f32x4 f)
{
    rfg_store4((char *)a->y + at, y_codes(a, f.x, f.y, f.z, f.w));
}
#elif Y_SHARED
RFG_DEVICE void store_y(const struct gemm_args *a, long long at, float f)
{
    if (OUT_DTYPE == RFG_F32)
        rfg_store4_shared((float *)a->y + at, rfg_as_u32(f));
    else
        rfg_store2_shared((rfg_u16 *)a->y + at, rfg_float_to_16(f, OUT_DTYPE));
}
RFG_DEVICE void store_y2(const struct gemm_args *a, void *to, float f0, float f1)
{
    (void)a;
    if (OUT_DTYPE == RFG_F32)
        rfg_store8_shared(to, rfg_as_u32(f0), rfg_as_u32(f1));
    else
        rfg_store4_shared(to, OUT_DTYPE == RFG_F16 ? rfg_pack_f16(f0, f1) : rfg_pack_bf16(f0, f1));
}
RFG_DEVICE void store_y4(const struct gemm_args *a, long long at, rfg_f32x4 f)
{
    char *to = (char *)a->y + at * Y_BYTES;
    if (OUT_DTYPE == RFG_F32) {
        rfg_store8_shared(to, rfg_as_u32(f.x), rfg_as_u32(f.y));
        rfg_store8_shared(to + 8, rfg_as_u32(f.z), rfg_as_u32(f.w));
    } else {
        rfg_store8_shared(to, rfg_floats_to_16(f.x, f.y, OUT_DTYPE), rfg_floats_to_16(f.z, f.w, OUT_DTYPE));
    }
}
#else
RFG_DEVICE void store_y(const struct gemm_args *a, long long at, float f)
{
    rfg_store_float(a->y, at, f, OUT_DTYPE);
}
/* Two, to an address, and four, aligned so. */
RFG_DEVICE void store_y2(const struct gemm_args *a, void *to, float f0, float f1)
{
    (void)a;
    if (OUT_DTYPE == RFG_F32) {
        rfg_u32x2 v;
        v.x = rfg_as_u32(f0);
        v.y = rfg_as_u32(f1);
        rfg_store8(to, v);
    } else {
        rfg_store4(to, OUT_DTYPE == RFG_F16 ? rfg_pack_f16(f0, f1) : rfg_pack_bf16(f0, f1));
    }
}
RFG_DEVICE void store_y4(const struct gemm_args *a, long long at, rfg_f32x4 f)
{
    rfg_store_float4(a->y, at, f, OUT_DTYPE);
}
#endif

/* What becomes of the fp32 sum of row m, column n before it is rounded to Y's format: scales of rows, the bias, and the
 * row's weight or the residual. Called only if finishes(), which is the same for all sums. */
RFG_DEVICE bool finishes(const struct gemm_args *a)
{
    return RESIDUAL || WEIGHTED || SCALES == GEMM_SCALES_ROWS || W_GLOBAL || a->bias != 0;
}
RFG_DEVICE float column_bias(const struct gemm_args *a, long long n)
{
    return (RESIDUAL || WEIGHTED || SCALES || W_GLOBAL) && a->bias == 0
               ? 0.0f
               : rfg_load_float(a->bias, w_row_at(a, n), BIAS_DTYPE);
}
/* Of a sum that is scaled. */
RFG_DEVICE float end_of(const struct gemm_args *a, long long m, long long n, float sum, float bias)
{
#if WEIGHTED
    return (sum + bias) * rfg_load_float(a->weights, m, RFG_F32);
#elif RESIDUAL
    return sum + bias + rfg_load_float(a->residual, m * a->ldr + n, OUT_DTYPE);
#else
    (void)a, (void)m, (void)n;
    return sum + bias;
#endif
}
RFG_DEVICE float finish_with(const struct gemm_args *a, long long m, long long n, float sum, float bias)
{
#if SCALES == GEMM_SCALES_ROWS
    sum *= x_scale_of(a, m, 0) * w_scale_of(a, n, 0);
#elif W_GLOBAL
    sum *= rfg_load_float(a->w_global, 0, RFG_F32);
#endif
    return end_of(a, m, n, sum, bias);
}
RFG_DEVICE float finish(const struct gemm_args *a, long long m, long long n, float sum)
{
    return finish_with(a, m, n, sum, column_bias(a, n));
}

/* What finish() reads of four columns, from n on: once, where a lane has them of many rows. */
struct column_ends {
    float scale[4], bias[4];
};
RFG_DEVICE struct column_ends column_ends_of(const struct gemm_args *a, long long n)
{
    struct column_ends c;
#pragma unroll
    for (int i = 0; i < 4; i++) {
#if SCALES == GEMM_SCALES_ROWS
        c.scale[i] = w_scale_of(a, n + i, 0);
#elif W_GLOBAL
        c.scale[i] = rfg_load_float(a->w_global, 0, RFG_F32);
#else
        c.scale[i] = 1.0f;
#endif
        c.bias[i] = column_bias(a, n + i);
    }
    return c;
}
RFG_DEVICE rfg_f32x4 finish_columns(const struct gemm_args *a, long long m, long long n, rfg_f32x4 f,
                                    const struct column_ends *c)
{
    float v[4] = { f.x, f.y, f.z, f.w };
#if SCALES == GEMM_SCALES_ROWS
    float x_scale = x_scale_of(a, m, 0);
#pragma unroll
    for (int i = 0; i < 4; i++)
        v[i] *= x_scale * c->scale[i];
#elif W_GLOBAL
#pragma unroll
    for (int i = 0; i < 4; i++)
        v[i] *= c->scale[i];
#endif
#pragma unroll
    for (int i = 0; i < 4; i++)
        v[i] = end_of(a, m, n + i, v[i], c->bias[i]);
    f.x = v[0];
    f.y = v[1];
    f.z = v[2];
    f.w = v[3];
    return f;
}

/* Row m, column n0 + dn, which exists. */
RFG_DEVICE void store_1(const struct gemm_args *a, long long m, int n0, int dn, float sum)
{
    if (finishes(a))
        sum = finish(a, m, n0 + dn, sum);
    store_y(a, m * GEMM_LDY(a) + n0 + dn, sum);
}

#if GATED
/* What the activation makes of both. */
RFG_DEVICE float gated_of(const struct gemm_args *a, float gate, float up)
{
#if LIMITED
    return rfg_gate_up(a, gate, up, GATED - 1);
#else
    (void)a;
    return rfg_activate(rfg_both(gate), GATED - 1).x * up;
#endif
}
#endif

/* Columns n to n + 3 of the sums of row m, all of which exist; of Y they are aligned to four elements. ends: of them,
 * if finishes(). */
RFG_DEVICE void store_4_whole(const struct gemm_args *a, long long m, int n, rfg_f32x4 f,
                              const struct column_ends *ends)
{
    if (finishes(a))
        f = finish_columns(a, m, n, f, ends);
#if GATED
    store_y(a, m * GEMM_LDY(a) + n / 2, gated_of(a, f.x, f.y));
    store_y(a, m * GEMM_LDY(a) + n / 2 + 1, gated_of(a, f.z, f.w));
#else
    store_y4(a, m * GEMM_LDY(a) + n, f);
#endif
}

/* Of row m, which exists: column n / 2 of Y, from columns n, even, and n + 1 of the sums. */
RFG_DEVICE void store_gated(const struct gemm_args *a, long long m, int n, float gate, float up)
{
#if GATED
    if (finishes(a)) {
        gate = finish(a, m, n, gate);
        up = finish(a, m, n + 1, up);
    }
    store_y(a, m * GEMM_LDY(a) + n / 2, gated_of(a, gate, up));
#endif
}

/* Row m, column n0 + dn, if that is there. All lanes of the wave call it; those whose numbers differ by `across`, a
 * power of two, have columns 2i and 2i + 1. */
RFG_DEVICE void store_lanes(const struct gemm_args *a, long long m, int n0, int dn, float sum, int across, bool there)
{
    if (GATED) {
        float up = rfg_shuffle_xor(sum, across);
        if (there && (n0 + dn) % 2 == 0)
            store_gated(a, m, n0 + dn, sum, up);
    } else if (there) {
        store_1(a, m, n0, dn, sum);
    }
}

/* Columns n, even, and n + 1 of row m, as far as they exist. */
RFG_DEVICE void store_2(const struct gemm_args *a, int m, int n, float x, float y)
{
    if (m >= a->m || n >= a->n)
        return;
    if (GATED) {
        store_gated(a, m, n, x, y);
        return;
    }
    long long at = m * GEMM_LDY(a) + n;
    rfg_u64 address = (rfg_u64)a->y + (rfg_u64)at * Y_BYTES;
    if (finishes(a)) {
        x = finish(a, m, n, x);
        if (n + 1 < a->n)
            y = finish(a, m, n + 1, y);
    }
    if (n + 1 < a->n && address % (2 * Y_BYTES) == 0) {
        store_y2(a, (void *)address, x, y);
    } else {
        store_y(a, at, x);
        if (n + 1 < a->n)
            store_y(a, at + 1, y);
    }
}

/* Columns n to n + 3 of row m, n a multiple of four; n exists. */
RFG_DEVICE void store_gated_4(const struct gemm_args *a, long long m, int n, rfg_f32x4 f)
{
    store_gated(a, m, n, f.x, f.y);
    if (n + 2 < a->n)
        store_gated(a, m, n + 2, f.z, f.w);
}

/* Columns n to n + 3 of row m, as far as they exist (n does). Rows of Y need not be aligned: only X and W are read in
 * chunks. */
RFG_DEVICE void store_4(const struct gemm_args *a, long long m, int n, rfg_f32x4 f)
{
    float v[4] = { f.x, f.y, f.z, f.w };
    if (GATED) {
        store_gated_4(a, m, n, f);
        return;
    }
    if (finishes(a)) {
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (i < a->n - n)
                v[i] = finish(a, m, n + i, v[i]);
    }
    rfg_u64 address = (rfg_u64)a->y + (rfg_u64)(m * GEMM_LDY(a) + n) * Y_BYTES;
    if (a->n - n >= 4 && address % (4 * Y_BYTES) == 0) {
        f.x = v[0];
        f.y = v[1];
        f.z = v[2];
        f.w = v[3];
        store_y4(a, m * GEMM_LDY(a) + n, f);
    } else {
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (i < a->n - n)
                store_y(a, m * GEMM_LDY(a) + n + i, v[i]);
    }
}

/* Adds the partial sums of a tile, `stride` floats from split to split, in the order of the splits, and stores the
 * result: `quads` times four columns, tile_n / 4 of them a row, from row m0 and column n0 of Y on. */
#define PARTIALS_IN_FLIGHT 16
RFG_DEVICE void reduce_partials(const struct gemm_args *a, const float *partials, int splits, int stride, int quads,
                                int threads, int tile_n, int m0, int n0)
{
#pragma unroll 1
    for (int q = rfg_thread(); q < quads; q += threads) {
        int row = q / (tile_n / 4), col = q % (tile_n / 4) * 4;
        rfg_f32x4 sum = rfg_load_f32x4(partials + q * 4);
#pragma unroll 1
        for (int s0 = 1; s0 < splits; s0 += PARTIALS_IN_FLIGHT) {
            rfg_f32x4 part[PARTIALS_IN_FLIGHT];
#pragma unroll
            for (int i = 0; i < PARTIALS_IN_FLIGHT; i++)
                if (s0 + i < splits)
                    part[i] = rfg_load_f32x4(partials + (long long)(s0 + i) * stride + q * 4);
#pragma unroll
            for (int i = 0; i < PARTIALS_IN_FLIGHT; i++)
                if (s0 + i < splits)
                    sum = rfg_add_f32x4(sum, part[i]);
        }
        if (col < a->n - n0)
            store_4(a, (long long)m0 + row, n0 + col, sum);
    }
}
