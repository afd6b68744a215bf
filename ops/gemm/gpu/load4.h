/* SPDX-License-Identifier: MIT
 *
 * load.h's branch of 4-bit W: i4 with floating-point scales and perhaps zero points, e2m1 with scales of e8m0. A group
 * is a multiple of the 32 columns that 16 bytes of W hold. */
#if !RFG_IS_HALF(IN_DTYPE)
#error "gemm has 4-bit W with 16-bit X only"
#endif
static_assert(W_GROUP >= 32 && W_GROUP % 32 == 0, "a group of columns is not whole chunks of W");

#define W_VEC          32
#define W_IS_FRAGMENTS 0
#define W_IS_CODES     1

/* The value of a code, exactly; other bits of `code` than the lowest four don't matter. */
RFG_DEVICE float w_value(rfg_u32 code)
{
#if W_DTYPE == RFG_I4
    return (float)((int)(code << 28) >> 28);
#else /* exponent and fraction in fp32's place, times 2^126: 0.5 is a denormal there */
    return rfg_as_float((code & 8u) << 28 | (code & 7u) << 22) * 0x1p126f;
#endif
}

/* e8m0 */
RFG_DEVICE float w_power_of_two(rfg_u32 e)
{
    return rfg_as_float(e == 0 ? 0x00400000u : e == 255 ? 0x7fc00000u : e << 23);
}

/* The scale and the zero point of group `at`, counted over all rows. */
RFG_DEVICE float w_scale_at(const void *scales, long long at)
{
#if W_SCALE_DTYPE == RFG_E8M0
    return w_power_of_two(rfg_load1((const char *)scales + at));
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

RFG_DEVICE float w_element(const struct gemm_args *a, long long n, int k, bool prepacked)
{
    long long at = prepacked ? PREPACKED4_AT(n, k, (long long)a->k) : n * a->ldw + k;
    int groups = a->k / W_GROUP, g = k / W_GROUP;
    long long group = prepacked ? PREPACKED4_GROUP_AT(n, g, (long long)groups) : n * groups + g;
    rfg_u32 codes = rfg_load1((const char *)a->w + at / 2);
    return (w_value(codes >> at % 2 * 4) - w_zero_at(W_ZEROS(a), group)) * w_scale_at(a->w_scale, group);
}

typedef struct w_row {
    const char *codes;
    const void *scales, *zeros;
    long long group; /* the row's first */
} w_row;
typedef struct w_chunk {
    rfg_u32x4 codes;
    float scale, zero;
} w_chunk;

RFG_DEVICE w_row w_row_of(const struct gemm_args *a, int n)
{
    w_row row = { (const char *)a->w + n * GEMM_LDW(a) / 2, a->w_scale, W_ZEROS(a), (long long)n * (a->k / W_GROUP) };
    return row;
}
RFG_DEVICE w_chunk w_load(w_row row, int chunk)
{
    w_chunk c;
    long long group = row.group + chunk / (W_GROUP / 32);
    c.codes = rfg_load16_stream(row.codes + (long long)chunk * 16);
    c.scale = w_scale_at(row.scales, group);
    c.zero = w_zero_at(row.zeros, group);
    return c;
}
/* The part-th X_VEC elements of a chunk: a word. */
RFG_DEVICE void w_unpack(float *f, w_chunk chunk, int part)
{
    rfg_u32 codes = part == 0 ? chunk.codes.x : part == 1 ? chunk.codes.y : part == 2 ? chunk.codes.z : chunk.codes.w;
#pragma unroll
    for (int i = 0; i < 8; i++)
        f[i] = (w_value(codes >> 4 * i) - chunk.zero) * chunk.scale;
}

/* ---- as matrix fragments: prepacked only ------------------------------------------------------------------------ */

/* Sums of a group are scaled as fp32: a group is whole steps, or a step whole groups. */
#if PREPACKED && RFG_HAS_MMA && (PREPACK4_COLS % W_GROUP == 0 || W_GROUP % PREPACK4_COLS == 0)

#define W_STEPS        4 /* fragments of 32 columns in a step */
#define W_BYTES_OF(k)  ((k) / 2)
#define W_CODES_AT(a)  ((const char *)(a)->w)
#define W_FRAG_STEP    (PREPACK_ROWS * PREPACK4_COLS / 2)
#define W_ROW_AT(a, n) (W_CODES_AT(a) + (n) * (long long)(a)->k / 2)
#define W_FRAG_AT(a, n, chunk)                                                                                         \
    (W_CODES_AT(a) + (n) / PREPACK_ROWS * (long long)(a)->k * (PREPACK_ROWS / 2) + (chunk) * (PREPACK_ROWS * 16) +     \
     (n) % PREPACK_ROWS * 16)

#define W_GROUPS      (W_GROUP < PREPACK4_COLS ? PREPACK4_COLS / W_GROUP : 1) /* of a step */
#define W_GROUP_STEPS (W_STEPS / W_GROUPS)                                    /* fragments of a step in a group */
/* The first group of a step, of a row's. */
#define W_GROUP_OF(step) (W_GROUP < PREPACK4_COLS ? (step)*W_GROUPS : (step) / (W_GROUP / PREPACK4_COLS))

#define W_SCALE_BYTES (W_SCALE_DTYPE == RFG_E8M0 ? 1 : RFG_DTYPE_BYTES(W_SCALE_DTYPE))

/* Scale i of those that follow one another in v, or of every other from the first or second one on. */
RFG_DEVICE float w_scale_of(const rfg_u32 *v, int i)
{
#if W_SCALE_DTYPE == RFG_F32
    return rfg_as_float(v[i]);
#elif W_SCALE_DTYPE == RFG_E8M0
    return w_power_of_two(v[i / 4] >> i % 4 * 8 & 255u);
#else
    return i % 2 ? rfg_high(v[i / 2], W_SCALE_DTYPE) : rfg_low(v[i / 2], W_SCALE_DTYPE);
#endif
}

/* A row's zero points as the decoders below have them, made once for a group. Without any they are constants. */
typedef struct w_offset {
#if W_DTYPE == RFG_E2M1
    char none;
#elif IN_DTYPE == RFG_F16 || RFG_NVIDIA
    rfg_u32 first, second; /* what is subtracted from both halves of a word */
#else
    float zero;
#endif
} w_offset;

RFG_DEVICE rfg_u32 w_word(rfg_u32x4 v, int i)
{
    return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

RFG_DEVICE rfg_u32 w_both(rfg_u16 half)
{
    return half * 0x10001u;
}

#if RFG_NVIDIA
/* Of pairs; one is rounded, but here all are exact. */
RFG_DEVICE rfg_u32 w_add2(rfg_u32 a, rfg_u32 b)
{
    rfg_u32 d;
#if IN_DTYPE == RFG_F16
    asm("add.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
#else
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(0x3f803f80u), "r"(b));
#endif
    return d;
}
RFG_DEVICE rfg_u32 w_mul2(rfg_u32 a, rfg_u32 b)
{
    rfg_u32 d;
#if IN_DTYPE == RFG_F16
    asm("mul.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
#else
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(0x80008000u));
#endif
    return d;
}
#elif IN_DTYPE == RFG_F16
RFG_DEVICE rfg_u32 w_add2(rfg_u32 a, rfg_u32 b)
{
    return rfg_add_f16x2(a, b);
}
#endif

#if W_DTYPE == RFG_I4
#if IN_DTYPE == RFG_F16
/* A code with its top bit turned is 0 to 15, and in the fraction of 1024 (of 64, four bits higher) adds so much: what
 * is subtracted is 1024 + 8 + zero, which fp16 has exactly, as it has 64 + 8 + zero. */
#define W_UNIT 1.0f
RFG_DEVICE w_offset w_offset_of(int zero)
{
    w_offset o;
    o.first = w_both(rfg_float_to_f16(-(1032.0f + zero)));
    o.second = w_both(rfg_float_to_f16(-(72.0f + zero)));
    return o;
}
RFG_DEVICE rfg_u32x4 w_decode(rfg_u32 codes, w_offset o)
{
    rfg_u32 u = codes ^ 0x88888888u;
    rfg_u32x4 v;
    v.x = w_add2((u & 0x000f000fu) | 0x64006400u, o.first);
    v.y = w_add2((u & 0x00f000f0u) | 0x54005400u, o.second);
    u >>= 8;
    v.z = w_add2((u & 0x000f000fu) | 0x64006400u, o.first);
    v.w = w_add2((u & 0x00f000f0u) | 0x54005400u, o.second);
    return v;
}
#elif RFG_NVIDIA
/* The same with bf16's 128; of its 8 bits there are too few to subtract a zero point in the same step. */
#define W_UNIT 1.0f
RFG_DEVICE w_offset w_offset_of(int zero)
{
    w_offset o;
    o.first = 0xc308c308u; /* -136 */
    o.second = w_both(rfg_float_to_bf16(-(float)zero));
    return o;
}
RFG_DEVICE rfg_u32 w_decode2(rfg_u32 codes, w_offset o)
{
    rfg_u32 v = w_add2((codes & 0x000f000fu) ^ 0x43084308u, o.first);
    return W_ZERO ? w_add2(v, o.second) : v;
}
RFG_DEVICE rfg_u32x4 w_decode(rfg_u32 codes, w_offset o)
{
    rfg_u32x4 v;
    v.x = w_decode2(codes, o);
    v.y = w_decode2(codes >> 4, o);
    v.z = w_decode2(codes >> 8, o);
    v.w = w_decode2(codes >> 12, o);
    return v;
}
#else
/* There is no arithmetic on pairs of bf16, but an instruction that makes an i4 a float, a 16th of it. Its upper half is
 * all of it, less a zero point, too: 8 bits. */
#define W_UNIT 16.0f
RFG_DEVICE w_offset w_offset_of(int zero)
{
    w_offset o;
    o.zero = zero * 0.0625f;
    return o;
}
/* Nibbles 0, 2, 4 and 6 as floats. The compiler doesn't see that assembly writes registers that matrix instructions
 * may still be writing, or reading: 11 wait states are the most that one of 16x16x16 makes (LLVM, AMDGPU's hazards). */
RFG_DEVICE void w_floats4(float *a, float *b, float *c, float *d, rfg_u32 codes)
{
#if defined(__GFX9__)
#define W_CVT(to, byte) "v_cvt_off_f32_i4_sdwa " to ", %4 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_" byte "\n"
    asm("s_nop 10\n" W_CVT("%0", "0") W_CVT("%1", "1") W_CVT("%2", "2") W_CVT("%3", "3")
        : "=&v"(*a), "=&v"(*b), "=&v"(*c), "=&v"(*d)
        : "v"(codes));
#undef W_CVT
#else
    asm("v_cvt_off_f32_i4_e32 %0, %1" : "=v"(*a) : "v"(codes));
    asm("v_cvt_off_f32_i4_e32 %0, %1" : "=v"(*b) : "v"(codes >> 8));
    asm("v_cvt_off_f32_i4_e32 %0, %1" : "=v"(*c) : "v"(codes >> 16));
    asm("v_cvt_off_f32_i4_e32 %0, %1" : "=v"(*d) : "v"(codes >> 24));
#endif
}
RFG_DEVICE rfg_u32 w_upper2(float x, float y, w_offset o)
{
    rfg_f32x2 two = rfg_pair(x, y);
    if (W_ZERO)
        two = rfg_add2(two, rfg_pair(-o.zero, -o.zero));
    return __builtin_amdgcn_perm(rfg_as_u32(two.y), rfg_as_u32(two.x), 0x07060302u);
}
RFG_DEVICE rfg_u32x4 w_decode(rfg_u32 codes, w_offset o)
{
    float e[8];
    w_floats4(&e[0], &e[4], &e[1], &e[5], codes);
    w_floats4(&e[2], &e[6], &e[3], &e[7], codes >> 4);
    rfg_u32x4 v;
    v.x = w_upper2(e[0], e[1], o);
    v.y = w_upper2(e[2], e[3], o);
    v.z = w_upper2(e[4], e[5], o);
    v.w = w_upper2(e[6], e[7], o);
    return v;
}
#endif

#else /* e2m1 */
#define W_UNIT 1.0f
RFG_DEVICE w_offset w_offset_of(int zero)
{
    w_offset o;
    (void)zero;
    o.none = 0;
    return o;
}
#if RFG_NVIDIA
/* Sign, exponent and fraction where the 16-bit format has them, times what the biases differ by. */
#define W_SHIFT  (IN_DTYPE == RFG_F16 ? 9 : 6)
#define W_DIGITS (IN_DTYPE == RFG_F16 ? 0x0e000e00u : 0x01c001c0u)
#define W_BIAS   (IN_DTYPE == RFG_F16 ? 0x74007400u : 0x7e807e80u)
RFG_DEVICE rfg_u32 w_decode2(rfg_u32 codes)
{
    return w_mul2((codes << W_SHIFT & W_DIGITS) | (codes << 12 & 0x80008000u), W_BIAS);
}
RFG_DEVICE rfg_u32x4 w_decode(rfg_u32 codes, w_offset o)
{
    (void)o;
    rfg_u32x4 v;
    v.x = w_decode2(codes);
    v.y = w_decode2(codes >> 4);
    v.z = w_decode2(codes >> 8);
    v.w = w_decode2(codes >> 12);
    return v;
}
#else
/* v_perm_b32 looks up four magnitudes at once: the upper and the lower bytes of 0, 0.5, 1, 1.5, 2, 3, 4, 6. (fp16's
 * lower bytes are 0: selector 12.) Byte b of `codes` has its code in the low bits. */
RFG_DEVICE void w_decode4(rfg_u32 *xy, rfg_u32 *zw, rfg_u32 magnitude, rfg_u32 sign)
{
#if IN_DTYPE == RFG_F16
    rfg_u32 high = __builtin_amdgcn_perm(0x46444240u, 0x3e3c3800u, magnitude) | sign;
    *xy = __builtin_amdgcn_perm(high, high, 0x020c000cu);
    *zw = __builtin_amdgcn_perm(high, high, 0x030c010cu);
#else
    rfg_u32 high = __builtin_amdgcn_perm(0x40404040u, 0x3f3f3f00u, magnitude) | sign;
    rfg_u32 low = __builtin_amdgcn_perm(0xc0804000u, 0xc0800000u, magnitude);
    *xy = __builtin_amdgcn_perm(high, low, 0x06020400u);
    *zw = __builtin_amdgcn_perm(high, low, 0x07030501u);
#endif
}
RFG_DEVICE rfg_u32x4 w_decode(rfg_u32 codes, w_offset o)
{
    (void)o;
    rfg_u32 x, y, z, w;
    w_decode4(&x, &z, codes & 0x07070707u, codes << 4 & 0x80808080u);
    w_decode4(&y, &w, codes >> 4 & 0x07070707u, codes & 0x80808080u);
    rfg_u32x4 v;
    v.x = x;
    v.y = y;
    v.z = z;
    v.w = w;
    return v;
}
#endif
#endif
#endif
