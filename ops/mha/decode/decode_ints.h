/* SPDX-License-Identifier: MIT
 *
 * Keys and values of i8 and i4 (rfg_cache.h) as fp16, exactly. 1024 plus a code is fp16 with the code in its last bits,
 * so that a few bits of a word make two numbers, and what is subtracted from them makes codes signed: 128, or of i4 the
 * code that stands for 0. Included by decode_pieces.h. */
#define TWICE(u) ((rfg_u32)(u)*0x10001u)

#if KV_I4
/* Codes in bits 0 to 3 and 16 to 19 of a word; of `fourth`, from bit 4 on, less by `zero`, of which there are two. */
RFG_DEVICE rfg_u32 two_i4(rfg_u32 word, bool fourth, rfg_u32 zero)
{
    return fourth ? rfg_fma_half2((word & TWICE(0xf0)) | TWICE(0x6400), TWICE(0x2c00), /* 1024 + 16 code, by 16, */
                                  (zero << 4) + TWICE(0xd400))                         /* - 64 - zero */
                  : rfg_add_half2((word & TWICE(0x0f)) | TWICE(0x6400), zero | TWICE(0xe400)); /* - 1024 - zero */
}
/* 8 codes, by twos that are four apart: (0, 4), (1, 5), ... */
RFG_DEVICE rfg_u32x4 i4_key(rfg_u32 word, rfg_u32 zero)
{
    rfg_u32x4 v;
    v.x = two_i4(word, false, zero);
    v.y = two_i4(word, true, zero);
    v.z = two_i4(word >> 8, false, zero);
    v.w = two_i4(word >> 8, true, zero);
    return v;
}
/* A query's 8 elements in the same order. */
RFG_DEVICE rfg_u32x4 as_i4_keys(rfg_u32x4 q)
{
    rfg_u32x4 v;
    v.x = rfg_byte_perm(q.x, q.z, 0x5410);
    v.y = rfg_byte_perm(q.x, q.z, 0x7632);
    v.z = rfg_byte_perm(q.y, q.w, 0x5410);
    v.w = rfg_byte_perm(q.y, q.w, 0x7632);
    return v;
}
/* Two tokens' words of 8 codes, code by code side by side. */
RFG_DEVICE void int_values(rfg_u32 *to, rfg_u32 a, rfg_u32 b, rfg_u32 zeros)
{
#pragma unroll
    for (int half = 0; half < 2; half++) {
        rfg_u32 codes = rfg_byte_perm(a, b, half ? 0x7632 : 0x5410);
        to[4 * half] = two_i4(codes, false, zeros);
        to[4 * half + 1] = two_i4(codes, true, zeros);
        to[4 * half + 2] = two_i4(codes >> 8, false, zeros);
        to[4 * half + 3] = two_i4(codes >> 8, true, zeros);
    }
}
#else
RFG_DEVICE rfg_u32x2 four_i8(rfg_u32 word)
{
    rfg_u32x2 r;
    word ^= 0x80808080u;
    r.x = rfg_add_half2(rfg_byte_perm(word, 0x64646464u, 0x4140), TWICE(0xe480)); /* - 1024 - 128 */
    r.y = rfg_add_half2(rfg_byte_perm(word, 0x64646464u, 0x4342), TWICE(0xe480));
    return r;
}
RFG_DEVICE rfg_u32x4 i8_key(rfg_u32 first, rfg_u32 second)
{
    rfg_u32x4 v;
    rfg_u32x2 half = four_i8(first);
    v.x = half.x;
    v.y = half.y;
    half = four_i8(second);
    v.z = half.x;
    v.w = half.y;
    return v;
}
RFG_DEVICE void int_values(rfg_u32 *to, rfg_u32 a, rfg_u32 b, rfg_u32 zeros)
{
    rfg_u32x2 lo = four_i8(rfg_byte_perm(a, b, 0x5140)), hi = four_i8(rfg_byte_perm(a, b, 0x7362));
    (void)zeros;
    to[0] = lo.x;
    to[1] = lo.y;
    to[2] = hi.x;
    to[3] = hi.y;
}
#endif
