/* SPDX-License-Identifier: MIT
 *
 * load.h's branch of 4-bit W: i4, perhaps with zero points, or e2m1; scales are floats, of e8m0 or of e4m3 (w_formats
 * says which go together). A group is a multiple of 16 columns, half of those that 16 bytes of W hold, or a row. */
#if !RFG_IS_HALF(IN_DTYPE) && SCALES != GEMM_SCALES_GROUPS
#error "gemm has 4-bit W with 16-bit X, and by mx formats, only"
#endif
static_assert(W_GROUP >= 16 && W_GROUP % 16 == 0, "a group of columns is not whole halves of chunks of W");

#define W_VEC          32
#define W_BYTES_OF(k)  ((k) / 2)
#define W_SCALE_BYTES  (RFG_IS_FLOAT(W_SCALE_DTYPE) ? RFG_DTYPE_BYTES(W_SCALE_DTYPE) : 1)
#define W_HALVES       (W_GROUP % 32 ? 2 : 1) /* groups that a chunk may be of */
#define W_IS_FRAGMENTS 0
#define W_IS_4_BITS    1
#define W_IS_NVFP4     (W_SCALE_DTYPE == RFG_E4M3)

/* The value of a code, exactly; other bits of `code` than the lowest four don't matter. */
RFG_DEVICE float w_value(rfg_u32 code)
{
#if W_DTYPE == RFG_I4
    return (float)((int)(code << 28) >> 28);
#else
    return e2m1_value(code);
#endif
}

/* e8m0 */
RFG_DEVICE float w_power_of_two(rfg_u32 e)
{
    return rfg_as_float(e == 0 ? 0x00400000u : e == 255 ? 0x7fc00000u : e << 23);
}

#if W_IS_NVFP4
/* A code of e4m3. */
RFG_DEVICE float w_e4m3(rfg_u32 code)
{
    /* exponent and fraction in fp32's place, times 2^120: the least are denormals there */
    float f = rfg_as_float((code & 128u) << 24 | (code & 127u) << 20) * 0x1p120f;
    return (code & 127u) == 127u ? rfg_as_float(0x7fc00000u) : f;
}
#endif

/* The scale and the zero point of group `at`, counted over all rows. */
RFG_DEVICE float w_scale_at(const void *scales, long long at)
{
#if W_SCALE_DTYPE == RFG_E8M0
    return w_power_of_two(rfg_load1((const char *)scales + at));
#elif W_SCALE_DTYPE == RFG_E4M3
    return w_e4m3(rfg_load1((const char *)scales + at));
#else
    return rfg_load_float(scales, at, W_SCALE_DTYPE);
#endif
}
RFG_DEVICE float w_zero_at(const void *zeros, long long at)
{
    return W_ZERO ? (float)(signed char)rfg_load1((const char *)zeros + at) : 0.0f;
}
#if W_ZERO
#define W_ZEROS(a) ((a)->w_zero)
#else
#define W_ZEROS(a) ((const void *)0)
#endif

/* Group g of row n, of W by rows. */
#if SCALES
#define W_GROUP_AT(a, n, groups, g) ((n) * (a)->w_scale_row + (long long)(g) * (a)->w_scale_col)
#else
#define W_GROUP_AT(a, n, groups, g) ((n) * (groups) + (g))
#endif

RFG_DEVICE float w_element(const struct gemm_args *a, long long n, int k, bool prepacked)
{
    n = w_row_at(a, n);
    long long at = prepacked ? PREPACKED4_AT(n, k, (long long)W_COLS(a)) : n * a->ldw + k;
    int groups = W_GROUPS_IN(W_COLS(a)), g = k / W_GROUP;
    long long group = prepacked ? PREPACKED4_GROUP_AT(n, g, (long long)groups) : W_GROUP_AT(a, n, groups, g);
    rfg_u32 codes = rfg_load1((const char *)a->w + at / 2);
    return (w_value(codes >> at % 2 * 4) - w_zero_at(W_ZEROS(a), group)) * w_scale_at(a->w_scale, group);
}

typedef struct w_row {
    const char *codes;
    const void *scales, *zeros;
    long long group; /* the row's first */
#if SCALES
    int step; /* from there to the next */
#endif
} w_row;
typedef struct w_chunk {
    rfg_u32x4 codes;
    float scale[W_HALVES], zero[W_HALVES];
} w_chunk;

RFG_DEVICE w_row w_row_of(const struct gemm_args *a, int n)
{
    long long at = w_row_at(a, n);
#if SCALES
    w_row row = { (const char *)a->w + at * GEMM_LDW(a) / 2, a->w_scale, W_ZEROS(a), at * a->w_scale_row,
                  a->w_scale_col };
#else
    w_row row = { (const char *)a->w + at * GEMM_LDW(a) / 2, a->w_scale, W_ZEROS(a), at * W_GROUPS_IN(a->k) };
#endif
    return row;
}
RFG_DEVICE w_chunk w_load(w_row row, int chunk)
{
    w_chunk c;
    c.codes = rfg_load16_stream(row.codes + (long long)chunk * 16);
#pragma unroll
    for (int i = 0; i < W_HALVES; i++) {
#if SCALES
        long long group = row.group + (long long)chunk * row.step;
#else
        long long group = row.group + (chunk * W_HALVES + i) / (W_GROUP * W_HALVES / 32);
#endif
        c.scale[i] = w_scale_at(row.scales, group);
        c.zero[i] = w_zero_at(row.zeros, group);
    }
    return c;
}
/* The part-th eight elements of a chunk: a word. */
RFG_DEVICE void w_unpack(float *f, w_chunk chunk, int part)
{
    rfg_u32 codes = part == 0 ? chunk.codes.x : part == 1 ? chunk.codes.y : part == 2 ? chunk.codes.z : chunk.codes.w;
#pragma unroll
    for (int i = 0; i < 8; i++)
        f[i] = (w_value(codes >> 4 * i) - chunk.zero[part / 2 % W_HALVES]) * chunk.scale[part / 2 % W_HALVES];
}

/* ---- as matrix fragments: prepacked, or as they lie in rows ------------------------------------------------------ */

#if !PREPACKED
#define W_ROW_AT(a, n) ((const char *)(a)->w + w_row_at(a, n) * GEMM_LDW(a) / 2)
#endif

#if SCALES == GEMM_SCALES_GROUPS && !PREPACKED /* codes are multiplied as they are */
#define W_UNIT 1.0f
#else
#include "rfg_decode4.h"

#if W_ZERO
#define W_OFFSET_OF(zero) w_offset_of(zero)
#else
#define W_OFFSET_OF(zero) w_offset_of(0)
#endif

/* Of eight neighbouring codes w_decode() makes columns 0 and 4, 1 and 5, ...: in their order. */
RFG_DEVICE rfg_u32x4 w_in_order(rfg_u32x4 v)
{
    rfg_u32x4 r;
    r.x = rfg_byte_perm(v.x, v.y, 0x5410);
    r.y = rfg_byte_perm(v.z, v.w, 0x5410);
    r.z = rfg_byte_perm(v.x, v.y, 0x7632);
    r.w = rfg_byte_perm(v.z, v.w, 0x7632);
    return r;
}
/* The first in the lowest nibble. */
RFG_DEVICE rfg_u32x4 w_decode_row(rfg_u32 codes, w_offset offset)
{
    return w_in_order(w_decode(codes, offset));
}
#endif

/* Scale i of those that follow one another in v, or of every other from the first or second one on. */
RFG_DEVICE float w_group_scale(const rfg_u32 *v, int i)
{
#if W_SCALE_DTYPE == RFG_F32
    return rfg_as_float(v[i]);
#elif W_SCALE_DTYPE == RFG_E8M0
    return w_power_of_two(v[i / 4] >> i % 4 * 8 & 255u);
#else
    return i % 2 ? rfg_high(v[i / 2], W_SCALE_DTYPE) : rfg_low(v[i / 2], W_SCALE_DTYPE);
#endif
}

/* Sums of a group are scaled as fp32, but nvfp4's codes: a group is whole steps, or a step whole groups. */
#if PREPACKED && (PREPACK4_COLS % W_GROUP == 0 || W_GROUP % PREPACK4_COLS == 0)

#define W_STEPS        4 /* fragments of 32 columns in a step */
#define W_CODES_AT(a)  ((const char *)(a)->w)
#define W_FRAG_STEP    (PREPACK_ROWS * PREPACK4_COLS / 2)
#define W_ROW_AT(a, n) (W_CODES_AT(a) + (n) * (long long)W_COLS(a) / 2)
#define W_FRAG_AT(a, n, chunk)                                                                                         \
    (W_CODES_AT(a) + (n) / PREPACK_ROWS * (long long)W_COLS(a) * (PREPACK_ROWS / 2) + (chunk) * (PREPACK_ROWS * 16) +  \
     (n) % PREPACK_ROWS * 16)

#define W_GROUPS      (W_GROUP < PREPACK4_COLS ? PREPACK4_COLS / W_GROUP : 1) /* of a step */
#define W_GROUP_STEPS (W_STEPS / W_GROUPS)                                    /* fragments of a step in a group */
/* The first group of a step, of a row's. */
#define W_GROUP_OF(step) (W_GROUP < PREPACK4_COLS ? (step)*W_GROUPS : (step) / (W_GROUP / PREPACK4_COLS))

/* Of a step's groups, which one is that of the first column of fragment h, and of chunk c of it. */
#define W_GROUP_IN(h)       (W_GROUP < PREPACK4_COLS ? (h)*32 / W_GROUP : 0)
#define W_GROUP_OF_CHUNK(c) (W_GROUP < 32 ? (c)*8 / W_GROUP : 0)

#if SCALES == GEMM_SCALES_GROUPS && defined(RFG_FRAG_K) /* there are fragments */
/* Eight neighbouring codes of X, as fp16 in the order of w_decode()'s. */
#if IN_DTYPE == RFG_E2M1
typedef rfg_u32 x_codes;
RFG_DEVICE rfg_u32x4 x_decode(x_codes codes)
{
    return w_decode_row(codes, w_offset_of(0));
}
#else
typedef rfg_u32x2 x_codes;
RFG_DEVICE rfg_u32x4 x_decode(x_codes codes)
{
    rfg_u32x2 lo = rfg_codes_to_f16x4(codes.x, IN_DTYPE), hi = rfg_codes_to_f16x4(codes.y, IN_DTYPE);
    rfg_u32x4 v;
    v.x = lo.x;
    v.y = lo.y;
    v.z = hi.x;
    v.w = hi.y;
    return v;
}
#endif
#endif
#endif
