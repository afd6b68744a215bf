/* SPDX-License-Identifier: MIT
 *
 * Codes of 8 bits to a 16-bit format, exactly. Not part of rfg_device.h, whose text all tuned rows' source hashes
 * cover.
 *
 * Macros: W_DTYPE (e4m3, e4m3fnuz, e5m2, i8), IN_DTYPE (f16, bf16). */

#if W_DTYPE == RFG_I8 && IN_DTYPE == RFG_F16 && RFG_NVIDIA
/* 1024 + 128 + i has i, its top bit turned, in its last bits. */
RFG_DEVICE rfg_u32x2 w_decode8_4(rfg_u32 codes)
{
    rfg_u32x2 r;
    rfg_u32 u = codes ^ 0x80808080u, by = 0xe480e480u; /* -1152 */
    asm("add.f16x2 %0, %1, %2;" : "=r"(r.x) : "r"(rfg_byte_perm(u, 0x64646464u, 0x4140)), "r"(by));
    asm("add.f16x2 %0, %1, %2;" : "=r"(r.y) : "r"(rfg_byte_perm(u, 0x64646464u, 0x4342)), "r"(by));
    return r;
}
#elif W_DTYPE == RFG_I8 && IN_DTYPE == RFG_BF16 && RFG_NVIDIA
/* 128 and the code's lower seven bits, less 128 or, if it is negative, 256: its top bit is where -128 and -256
 * differ. */
RFG_DEVICE rfg_u32 w_decode8_2(rfg_u32 u)
{
    rfg_u32 d;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;"
        : "=r"(d)
        : "r"((u & 0x007f007fu) | 0x43004300u), "r"(0x3f803f80u), "r"((u & 0x00800080u) | 0xc300c300u));
    return d;
}
RFG_DEVICE rfg_u32x2 w_decode8_4(rfg_u32 codes)
{
    rfg_u32x2 r;
    r.x = w_decode8_2(rfg_byte_perm(codes, 0, 0x4140));
    r.y = w_decode8_2(rfg_byte_perm(codes, 0, 0x4342));
    return r;
}
#elif W_DTYPE == RFG_I8 && IN_DTYPE == RFG_BF16
/* As fp32 they are exact in the upper half. */
RFG_DEVICE rfg_u32x2 w_decode8_4(rfg_u32 codes)
{
    rfg_u32 f[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        f[i] = rfg_as_u32((float)((int)(codes << (24 - 8 * i)) >> 24));
    rfg_u32x2 r;
    r.x = rfg_byte_perm(f[0], f[1], 0x7632);
    r.y = rfg_byte_perm(f[2], f[3], 0x7632);
    return r;
}
#elif IN_DTYPE == RFG_BF16 && RFG_AMD &&                                                                               \
    (RFG_CONVERTS_FP8(W_DTYPE) || (RFG_CONVERTS_FP8(RFG_E4M3) && W_DTYPE == RFG_E5M2))
/* As fp32, by an instruction, in whose upper half they are exact. */
#if W_DTYPE == RFG_E5M2
#define W_CVT __builtin_amdgcn_cvt_pk_f32_bf8
#else
#define W_CVT __builtin_amdgcn_cvt_pk_f32_fp8
#endif
RFG_DEVICE rfg_u32x2 w_decode8_4(rfg_u32 codes)
{
    typedef float f32x2 __attribute__((ext_vector_type(2)));
    f32x2 lo = W_CVT((int)codes, false), hi = W_CVT((int)codes, true);
    rfg_u32x2 r;
    r.x = rfg_byte_perm(rfg_as_u32(lo.x), rfg_as_u32(lo.y), 0x7632);
    r.y = rfg_byte_perm(rfg_as_u32(hi.x), rfg_as_u32(hi.y), 0x7632);
    return r;
}
#elif IN_DTYPE == RFG_BF16
/* By way of fp16, which has them, and fp32, whose upper half has them. */
RFG_DEVICE rfg_u32 w_f16_to_bf16(rfg_u32 half)
{
    return rfg_byte_perm(rfg_as_u32(rfg_low(half, RFG_F16)), rfg_as_u32(rfg_high(half, RFG_F16)), 0x7632);
}
RFG_DEVICE rfg_u32x2 w_decode8_4(rfg_u32 codes)
{
    rfg_u32x2 r = rfg_codes_to_f16x4(codes, W_DTYPE);
    r.x = w_f16_to_bf16(r.x);
    r.y = w_f16_to_bf16(r.y);
    return r;
}
#else
RFG_DEVICE rfg_u32x2 w_decode8_4(rfg_u32 codes)
{
    return rfg_codes_to_f16x4(codes, W_DTYPE);
}
#endif

/* Eight that follow one another. */
RFG_DEVICE rfg_u32x4 w_decode8_8(rfg_u32 first, rfg_u32 second)
{
    rfg_u32x2 lo = w_decode8_4(first), hi = w_decode8_4(second);
    rfg_u32x4 v;
    v.x = lo.x;
    v.y = lo.y;
    v.z = hi.x;
    v.w = hi.y;
    return v;
}
/* Half of a chunk. */
RFG_DEVICE rfg_u32x4 w_decode8(rfg_u32x4 chunk, int part)
{
    return w_decode8_8(part ? chunk.z : chunk.x, part ? chunk.w : chunk.y);
}
