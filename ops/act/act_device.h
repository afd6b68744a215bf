/* SPDX-License-Identifier: MIT
 *
 * What the kernels of act_and_mul and act share. Macros: IN_DTYPE (x, y), OUT_DTYPE (codes), ACT (enum rfg_act), MUL,
 * LIMITED (may be missing: 0; a and b have limits), INTERLEAVED, PACKED (rows follow each other), SCALE (RFG_SCALE_*),
 * ROUNDING (of mx: enum rfg_scale_rounding), PLAIN (0: codes only), WIDTH (bytes of a load), STREAM (1: results are not
 * worth caching; 2: nor is x). And of each kernel, UNIFORM: a wave's lanes work on one row.
 */
#include "rfg_device.h"
#include "act/act_args.h"
#ifndef LIMITED
#define LIMITED 0
#endif
#define RFG_GATE_ARGS struct act_args
#include "rfg_act.h"

#ifndef ROUNDING
#define ROUNDING RFG_SCALE_EXACT
#endif

#define VEC  RFG_DTYPE_VEC(IN_DTYPE)
#define SIZE RFG_DTYPE_BYTES(IN_DTYPE)

#define LDX(args) (PACKED ? (long long)(args).n * (MUL ? 2 : 1) : (args).ldx)
#define LDY(args) (PACKED ? (long long)(args).n : (args).ldy)

/* Is element i of a chunk there? Of whole chunks all are: one mask and not eight. */
#define THERE(i, left) (WIDTH == 16 ? (left) > 0 : (i) < (left))

/* Element 0 of a row; of one that all lanes of the wave share if UNIFORM. */
RFG_DEVICE char *row_of(const void *data, rfg_u32 row, long long ld, int size)
{
    char *p = (char *)data + row * ld * size;
    return UNIFORM ? rfg_uniform(p) : p;
}

/* Chunk `chunk` of a row as it lies in memory; n elements of the row are left from it on. */
struct raw {
    rfg_u32x4 a, b;
};
RFG_DEVICE struct raw load(struct act_args args, rfg_u32 row, int chunk, int n)
{
    struct raw raw;
    const char *x = row_of(args.x, row, LDX(args), SIZE);
    rfg_u32 at = rfg_anew((rfg_u32)chunk * (INTERLEAVED ? 32u : 16u));
    if (INTERLEAVED) {
        raw.a = rfg_load_chunk(x, at, 2 * n, IN_DTYPE, WIDTH, STREAM == 2);
        raw.b = rfg_load_chunk(x + 16, at, 2 * n - VEC, IN_DTYPE, WIDTH, STREAM == 2);
    } else {
        raw.a = rfg_load_chunk(x, at, n, IN_DTYPE, WIDTH, STREAM == 2);
        if (MUL)
            raw.b = rfg_load_chunk(x + (long long)args.n * SIZE, at, n, IN_DTYPE, WIDTH, STREAM == 2);
    }
    return raw;
}

RFG_DEVICE void compute(float *f, struct raw raw, struct act_args args)
{
    float a[VEC], b[VEC], c[VEC], d[VEC];
    rfg_unpack(a, raw.a, IN_DTYPE);
    rfg_unpack(b, MUL ? raw.b : raw.a, IN_DTYPE);
#pragma unroll
    for (int i = 0; i < VEC; i++) {
        const float *from = 2 * i < VEC ? a : b;
        c[i] = INTERLEAVED ? from[2 * i % VEC] : a[i];
        d[i] = INTERLEAVED ? from[(2 * i + 1) % VEC] : b[i];
    }
#pragma unroll
    for (int i = 0; i < VEC; i += 2) {
        rfg_f32x2 v;
#if LIMITED
        v = rfg_pair(rfg_gate_up(&args, c[i], d[i], ACT), rfg_gate_up(&args, c[i + 1], d[i + 1], ACT));
#else
        v = rfg_activate(rfg_pair(c[i], c[i + 1]), ACT);
        if (MUL)
            v = rfg_mul2(v, rfg_pair(d[i], d[i + 1]));
#endif
        f[i] = v.x;
        f[i + 1] = v.y;
    }
}

/* The same for a plain output only, as it is stored. */
RFG_DEVICE rfg_u32 compute_f16x2(rfg_u32 a, rfg_u32 b)
{
    rfg_f32x2 two = rfg_pair(rfg_low(a, RFG_F16), rfg_high(a, RFG_F16));
    return rfg_pack_mul_f16x2(rfg_activate(two, ACT), b);
}
RFG_DEVICE rfg_u32x4 compute_plain(struct raw raw, struct act_args args)
{
    float f[VEC];
    if (RFG_F16_WORDS && IN_DTYPE == RFG_F16 && MUL && !LIMITED && !INTERLEAVED) {
        rfg_u32x4 v;
        v.x = compute_f16x2(raw.a.x, raw.b.x);
        v.y = compute_f16x2(raw.a.y, raw.b.y);
        v.z = compute_f16x2(raw.a.z, raw.b.z);
        v.w = compute_f16x2(raw.a.w, raw.b.w);
        return v;
    }
    compute(f, raw, args);
    return rfg_pack(f, IN_DTYPE);
}

/* Store a chunk's results. */
RFG_DEVICE void store_plain(struct act_args args, rfg_u32 row, int chunk, int n, rfg_u32x4 v)
{
    rfg_store_chunk(row_of(args.y, row, LDY(args), SIZE), rfg_anew((rfg_u32)chunk * 16u), n, v, IN_DTYPE, WIDTH,
                    STREAM != 0);
}
RFG_DEVICE void store(struct act_args args, rfg_u32 row, int chunk, int n, const float *f, float inverse)
{
    if (PLAIN)
        store_plain(args, row, chunk, n, rfg_pack(f, IN_DTYPE));
    if (SCALE != RFG_SCALE_NONE)
        rfg_store_codes(row_of(args.q, row, RFG_IS_4_BITS(OUT_DTYPE) ? args.ldq / 2 : args.ldq, 1),
                        rfg_anew((rfg_u32)(chunk * VEC)), n, f, inverse, OUT_DTYPE, IN_DTYPE, WIDTH, STREAM != 0);
}

RFG_DEVICE float group_inverse(struct act_args args, rfg_u32 row, int chunk, const float *f, bool there)
{
    return rfg_group_inverse(args.scale, row * args.scale_row, args.scale_col, chunk, there, f, SCALE, ROUNDING,
                             OUT_DTYPE, IN_DTYPE);
}
