/* SPDX-License-Identifier: MIT
 *
 * Keys and values of i4 as decode_ints.h has them, for matrix instructions that take subnormal numbers as they are:
 * NVIDIA's. A code in the last bits of fp16 is the code times 2^-24, without an addition. The zero of a key is
 * subtracted from its score, times the sum of the query. Included by decode_pieces.h. */
#define TWICE(u)  ((rfg_u32)(u)*0x10001u)
#define CODE_UNIT 16777216.0f /* 2^24 */

/* Codes in bits 4 to 7 count 16 times: of the others, queries are multiplied by 16; of these, outputs are divided. */
#define KEY_UNIT      (CODE_UNIT / 16)
#define VALUE_UNIT(e) ((e) % 2 ? CODE_UNIT / 16 : CODE_UNIT)
/* 8 codes, by twos that are four apart: (0, 4), (1, 5), ... */
RFG_DEVICE rfg_u32x4 i4_key(rfg_u32 word)
{
    rfg_u32x4 v;
    v.x = word & TWICE(0x0f);
    v.y = word & TWICE(0xf0);
    v.z = word >> 8 & TWICE(0x0f);
    v.w = word >> 8 & TWICE(0xf0);
    return v;
}
/* A query's 8 elements in the same order. */
RFG_DEVICE rfg_u32x4 as_i4_keys(rfg_u32x4 q)
{
    rfg_u32x4 v;
    v.x = rfg_fma_half2(rfg_byte_perm(q.x, q.z, 0x5410), TWICE(0x4c00), 0); /* by 16 */
    v.y = rfg_byte_perm(q.x, q.z, 0x7632);
    v.z = rfg_fma_half2(rfg_byte_perm(q.y, q.w, 0x5410), TWICE(0x4c00), 0);
    v.w = rfg_byte_perm(q.y, q.w, 0x7632);
    return v;
}
/* Two tokens' words of 8 codes, code by code side by side. zeros: their zeros' subnormals, negative. */
RFG_DEVICE void int_values(rfg_u32 *to, rfg_u32 a, rfg_u32 b, rfg_u32 zeros)
{
    rfg_u32 zeros16 = (zeros & TWICE(0x0f)) << 4 | TWICE(0x8000);
#pragma unroll
    for (int half = 0; half < 2; half++) {
        rfg_u32x4 v = i4_key(rfg_byte_perm(a, b, half ? 0x7632 : 0x5410));
        to[4 * half] = rfg_add_half2(v.x, zeros);
        to[4 * half + 1] = rfg_add_half2(v.y, zeros16);
        to[4 * half + 2] = rfg_add_half2(v.z, zeros);
        to[4 * half + 3] = rfg_add_half2(v.w, zeros16);
    }
}
