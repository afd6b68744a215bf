/* SPDX-License-Identifier: MIT
 *
 * Eight codes of 4 bits, a word of a prepacked W (gemm/prepack_layout.h), to as many elements of a 16-bit format,
 * exactly. Not part of rfg_device.h, whose text all tuned rows' source hashes cover.
 *
 * w_decode() gives the code less its zero point, divided by W_UNIT; w_decode_by(), of e2m1, the code times a number of
 * few bits, exactly.
 *
 * Macros: W_DTYPE (i4, e2m1), X_AS (f16, bf16), W_ZERO (not 0: there are zero points). */

/* A row's zero points as the decoders below have them, made once for a group. Without any they are constants. */
typedef struct w_offset {
#if W_DTYPE == RFG_E2M1
    char none;
#elif X_AS == RFG_F16 || RFG_NVIDIA
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

RFG_DEVICE rfg_u32 w_both_f16(float f)
{
#if RFG_AMD /* not by rfg_float_to_f16(), which is assembly: see w_floats8() */
    return w_both(__builtin_bit_cast(rfg_u16, (_Float16)f));
#else
    return w_both(rfg_float_to_f16(f));
#endif
}

#if RFG_NVIDIA
/* v & mask ^ flip, in one instruction, which the compiler makes two of when both are constants. */
RFG_DEVICE rfg_u32 w_pick(rfg_u32 v, rfg_u32 mask, rfg_u32 flip)
{
    rfg_u32 d;
    asm("lop3.b32 %0, %1, %2, %3, 0x6a;" : "=r"(d) : "r"(v), "r"(mask), "r"(flip));
    return d;
}
/* Of pairs; one is rounded, but here all are exact. */
RFG_DEVICE rfg_u32 w_add2(rfg_u32 a, rfg_u32 b)
{
    rfg_u32 d;
#if X_AS == RFG_F16
    asm("add.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
#else
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(0x3f803f80u), "r"(b));
#endif
    return d;
}
RFG_DEVICE rfg_u32 w_mul2(rfg_u32 a, rfg_u32 b)
{
    rfg_u32 d;
#if X_AS == RFG_F16
    asm("mul.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
#else
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(0x80008000u));
#endif
    return d;
}
#elif X_AS == RFG_F16
RFG_DEVICE rfg_u32 w_add2(rfg_u32 a, rfg_u32 b)
{
    return rfg_add_f16x2(a, b);
}
#endif

#if W_DTYPE == RFG_I4
#if X_AS == RFG_F16
/* A code with its top bit turned is 0 to 15, and in the fraction of 1024 (of 64, four bits higher) adds so much: what
 * is subtracted is 1024 + 8 + zero, which fp16 has exactly, as it has 64 + 8 + zero. */
#define W_UNIT 1.0f
RFG_DEVICE w_offset w_offset_of(int zero)
{
    w_offset o;
    o.first = w_both_f16(-(1032.0f + zero));
    o.second = w_both_f16(-(72.0f + zero));
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
    rfg_u32 v = w_add2(w_pick(codes, 0x000f000fu, 0x43084308u), o.first);
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
/* All nibbles as floats. The compiler doesn't see that assembly writes registers that matrix instructions may still be
 * writing, or reading: 11 wait states are the most that one of 16x16x16 makes (LLVM, AMDGPU's hazards). */
RFG_DEVICE void w_floats8(float *f, rfg_u32 codes)
{
#if defined(__GFX9__)
#define W_CVT(to, from, byte)                                                                                          \
    "v_cvt_off_f32_i4_sdwa " to ", " from " dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_" byte "\n"
    asm("s_nop 10\n" W_CVT("%0", "%8", "0") W_CVT("%1", "%9", "0") W_CVT("%2", "%8", "1") W_CVT("%3", "%9", "1")
            W_CVT("%4", "%8", "2") W_CVT("%5", "%9", "2") W_CVT("%6", "%8", "3") W_CVT("%7", "%9", "3")
        : "=&v"(f[0]), "=&v"(f[1]), "=&v"(f[2]), "=&v"(f[3]), "=&v"(f[4]), "=&v"(f[5]), "=&v"(f[6]), "=&v"(f[7])
        : "v"(codes), "v"(codes >> 4));
#undef W_CVT
#else
#pragma unroll
    for (int i = 0; i < 8; i++)
        asm("v_cvt_off_f32_i4_e32 %0, %1" : "=v"(f[i]) : "v"(codes >> 4 * i));
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
    float f[8];
    w_floats8(f, codes);
    rfg_u32x4 v; /* columns 2 j and 2 j + 1 are 16 bits apart */
    v.x = w_upper2(f[0], f[4], o);
    v.y = w_upper2(f[1], f[5], o);
    v.z = w_upper2(f[2], f[6], o);
    v.w = w_upper2(f[3], f[7], o);
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
/* Sign, exponent and fraction where the 16-bit format has them, times what the biases differ by. For bf16 a
 * multiplication puts a code, of which there is nothing beside it, there twice, once for its sign; of fp16 the two
 * would meet. */
#if X_AS == RFG_F16
RFG_DEVICE rfg_u32 w_decode2(rfg_u32 codes, int nibble)
{
    codes = nibble ? codes >> 4 : codes;
    return w_mul2((codes << 9 & 0x0e000e00u) | (codes << 12 & 0x80008000u), 0x74007400u);
}
#else
RFG_DEVICE rfg_u32 w_digits2(rfg_u32 codes, int nibble)
{
    rfg_u32 twice = nibble ? (codes & 0x00f000f0u) * 260u : (codes & 0x000f000fu) * 4160u;
    return twice & 0x81c081c0u;
}
RFG_DEVICE rfg_u32 w_decode2(rfg_u32 codes, int nibble)
{
    return w_mul2(w_digits2(codes, nibble), 0x7e807e80u);
}
/* w_decode() times a scale of e8m0, exactly. Digits are a 2^126th of the values: to multiply by a scale above 2 takes
 * two factors, which `large` says. */
#define W_MOST_FACTOR 128u
RFG_DEVICE rfg_u32x4 w_decode_scaled(rfg_u32 codes, rfg_u32 e8m0, bool large)
{
    rfg_u32 more = large && e8m0 > W_MOST_FACTOR ? e8m0 - W_MOST_FACTOR : 0;
    rfg_u32 first = (e8m0 - more + 126u) * 0x00800080u;
    rfg_u32x4 v;
    v.x = w_mul2(w_digits2(codes, 0), first);
    v.y = w_mul2(w_digits2(codes, 1), first);
    v.z = w_mul2(w_digits2(codes >> 8, 0), first);
    v.w = w_mul2(w_digits2(codes >> 8, 1), first);
    if (large) {
        rfg_u32 second = e8m0 == 255u ? 0x7fc07fc0u : (more + 127u) * 0x00800080u;
        v.x = w_mul2(v.x, second);
        v.y = w_mul2(v.y, second);
        v.z = w_mul2(v.z, second);
        v.w = w_mul2(v.w, second);
    }
    return v;
}
#endif
RFG_DEVICE rfg_u32x4 w_decode(rfg_u32 codes, w_offset o)
{
    (void)o;
    rfg_u32x4 v;
    v.x = w_decode2(codes, 0);
    v.y = w_decode2(codes, 1);
    v.z = w_decode2(codes >> 8, 0);
    v.w = w_decode2(codes >> 8, 1);
    return v;
}
#else
/* v_perm_b32 looks up four magnitudes at once: the upper and the lower bytes of 0, 0.5, 1, 1.5, 2, 3, 4, 6. (fp16's
 * lower bytes are 0: selector 12.) Byte b of `codes` has its code in the low bits. */
RFG_DEVICE void w_decode4(rfg_u32 *xy, rfg_u32 *zw, rfg_u32 magnitude, rfg_u32 sign)
{
#if X_AS == RFG_F16
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

/* Times a number of e4m3: four bits by two are six, and the least, 2^-10, is normal. */
#if RFG_NVIDIA
RFG_DEVICE rfg_u32 w_by(float f)
{
    return w_both(rfg_float_to_16(f, X_AS));
}
RFG_DEVICE rfg_u32 w_times(rfg_u32 pair, rfg_u32 by)
{
    return w_mul2(pair, by);
}
#elif X_AS == RFG_F16
RFG_DEVICE rfg_u32 w_by(float f)
{
    return w_both_f16(f);
}
RFG_DEVICE rfg_u32 w_times(rfg_u32 pair, rfg_u32 by)
{
    typedef _Float16 halves __attribute__((ext_vector_type(2)));
    return __builtin_bit_cast(rfg_u32, __builtin_bit_cast(halves, pair) * __builtin_bit_cast(halves, by));
}
#else /* there is no arithmetic on pairs of bf16: as floats, whose upper halves are all of them */
RFG_DEVICE float w_by(float f)
{
    return f;
}
RFG_DEVICE rfg_u32 w_times(rfg_u32 pair, float by)
{
    rfg_f32x2 two = rfg_mul2(rfg_pair(rfg_as_float(pair << 16), rfg_as_float(pair & 0xffff0000u)), rfg_pair(by, by));
    return __builtin_amdgcn_perm(rfg_as_u32(two.y), rfg_as_u32(two.x), 0x07060302u);
}
#endif
RFG_DEVICE rfg_u32x4 w_decode_by(rfg_u32 codes, float f)
{
    rfg_u32x4 v = w_decode(codes, w_offset_of(0));
    v.x = w_times(v.x, w_by(f));
    v.y = w_times(v.y, w_by(f));
    v.z = w_times(v.z, w_by(f));
    v.w = w_times(v.w, w_by(f));
    return v;
}
#endif
