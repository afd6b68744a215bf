/* SPDX-License-Identifier: MIT
 *
 * What the kernels of act_and_mul and act share. Macros: IN_DTYPE (x, y), OUT_DTYPE (codes), ACT (enum rfg_act), MUL,
 * INTERLEAVED, SCALE (RFG_SCALE_*), PLAIN (0: codes only), WIDTH (bytes of a load), STREAM (1: results are not worth
 * caching; 2: nor is x). */
#include "rfg_device.h"
#include "act/act_args.h"

#define VEC  RFG_DTYPE_VEC(IN_DTYPE)
#define SIZE RFG_DTYPE_BYTES(IN_DTYPE)

/* Is element i of a chunk there? Of whole chunks all are: one mask and not eight. */
#define THERE(i, left) (WIDTH == 16 ? (left) > 0 : (i) < (left))

#define ACT_SILU      0
#define ACT_GELU      1
#define ACT_GELU_TANH 2
#define ACT_RELU      3
#define ACT_RELU2     4
#define ACT_SWIGLUOAI 5

RFG_DEVICE float sigmoid_exp2(float minus_log2e_v)
{
    return rfg_rcp(1.0f + rfg_exp2(minus_log2e_v));
}

/* v Phi(v). erfc(z) = t exp(-z^2 + P(t)), t = 1 / (1 + z / 2): P is a Chebyshev fit of ours to log(erfc(z) / t) + z^2
 * on z in [0, 14], good to 9e-8 of erfc(z) everywhere, so that nothing cancels for negative v. */
RFG_DEVICE float gelu(float v)
{
    float z = rfg_as_float(rfg_as_u32(v) & 0x7fffffffu) * 0.70710678f;
    float t = rfg_rcp(rfg_fma(z, 0.5f, 1.0f));
    float p = 0.17100675404071808f;
    p = rfg_fma(p, t, -0.8196915984153748f);
    p = rfg_fma(p, t, 1.4752486944198608f);
    p = rfg_fma(p, t, -1.107899785041809f);
    p = rfg_fma(p, t, 0.2488659769296646f);
    p = rfg_fma(p, t, -0.16692271828651428f);
    p = rfg_fma(p, t, 0.0893019437789917f);
    p = rfg_fma(p, t, 0.3757663071155548f);
    p = rfg_fma(p, t, 0.9998276829719543f);
    p = rfg_fma(p, t, -1.265503168106079f);
    float half_erfc = 0.5f * t * rfg_exp2(1.4426950408889634f * rfg_fma(-z, z, p));
    return v * (v < 0.0f ? half_erfc : 1.0f - half_erfc);
}

RFG_DEVICE float activate(float a, float b, struct act_args args)
{
    float v = a;
    if (ACT == ACT_SILU)
        v = a * sigmoid_exp2(-1.4426950408889634f * a);
    else if (ACT == ACT_GELU)
        v = gelu(a);
    else if (ACT == ACT_GELU_TANH) /* (1 + tanh(u)) / 2 = sigmoid(2u) */
        v = a * sigmoid_exp2(a * rfg_fma(a * a, -0.10294324f, -2.3022082f));
    else if (ACT == ACT_RELU)
        v = a < 0.0f ? 0.0f : a;
    else if (ACT == ACT_RELU2)
        v = a < 0.0f ? 0.0f : a * a;
    else if (ACT == ACT_SWIGLUOAI) {
        float limit = args.limit, gate = a > limit ? limit : a, up = b > limit ? limit : b < -limit ? -limit : b;
        return gate * sigmoid_exp2(-1.4426950408889634f * args.alpha * gate) * (up + 1.0f);
    }
    return MUL ? v * b : v;
}

/* Chunk `chunk` of a row as it lies in memory; n elements of the row are left from it on. */
struct raw {
    rfg_u32x4 a, b;
};
RFG_DEVICE struct raw load(struct act_args args, long long row, int chunk, int n)
{
    struct raw raw;
    rfg_u32 at = (rfg_u32)chunk * 16u;
    if (INTERLEAVED) {
        const char *x = (const char *)args.x + (row * args.ldx + (long long)chunk * VEC) * SIZE;
        raw.a = rfg_load_chunk(x, at, 2 * n, IN_DTYPE, WIDTH, STREAM == 2);
        raw.b = rfg_load_chunk(x + 16, at, 2 * n - VEC, IN_DTYPE, WIDTH, STREAM == 2);
    } else {
        const char *x = (const char *)args.x + row * args.ldx * SIZE;
        raw.a = rfg_load_chunk(x, at, n, IN_DTYPE, WIDTH, STREAM == 2);
        if (MUL)
            raw.b = rfg_load_chunk(x + (long long)args.n * SIZE, at, n, IN_DTYPE, WIDTH, STREAM == 2);
    }
    return raw;
}

RFG_DEVICE void compute(float *f, struct raw raw, struct act_args args)
{
    float a[VEC], b[VEC];
    rfg_unpack(a, raw.a, IN_DTYPE);
    if (MUL)
        rfg_unpack(b, raw.b, IN_DTYPE);
#pragma unroll
    for (int i = 0; i < VEC; i++) {
        if (INTERLEAVED)
            f[i] = 2 * i < VEC ? activate(a[2 * i % VEC], a[(2 * i + 1) % VEC], args)
                               : activate(b[2 * i % VEC], b[(2 * i + 1) % VEC], args);
        else
            f[i] = activate(a[i], MUL ? b[i] : 0.0f, args);
    }
}

/* Stores a chunk's results. */
RFG_DEVICE void store(struct act_args args, long long row, int chunk, int n, const float *f, float inverse)
{
    if (PLAIN)
        rfg_store_chunk((char *)args.y + row * args.ldy * SIZE, (rfg_u32)chunk * 16u, n, rfg_pack(f, IN_DTYPE),
                        IN_DTYPE, WIDTH, STREAM != 0);
    if (SCALE != RFG_SCALE_NONE)
        rfg_store_codes((char *)args.q + row * args.ldq, (rfg_u32)(chunk * VEC), n, f, inverse, OUT_DTYPE, IN_DTYPE,
                        WIDTH, STREAM != 0);
}

/* The reciprocal of the scale of a group's chunks, which neighbouring lanes have; the first of them stores it. All
 * lanes are on; those that hold no chunk hold zeroes. */
RFG_DEVICE float group_inverse(struct act_args args, long long row, int chunk, const float *f, bool there)
{
    float largest = rfg_reduce_lanes(rfg_chunk_max(f, IN_DTYPE), RFG_GROUP_LANES(IN_DTYPE), true);
    float scale = rfg_scale_of(largest, OUT_DTYPE);
    if (there && chunk % RFG_GROUP_LANES(IN_DTYPE) == 0)
        rfg_store_float(args.scale, row * args.scale_row + chunk / RFG_GROUP_LANES(IN_DTYPE) * args.scale_col, scale,
                        RFG_F32);
    return rfg_rcp(scale);
}
