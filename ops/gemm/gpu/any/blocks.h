/* SPDX-License-Identifier: MIT
 *
 * Where the bits of a W_DTYPE are whose blocks hold their scales: ops/format_blocks.c's table as macros.
 *
 *   W_BLOCK, W_BLOCK_BYTES, W_PART   elements and bytes of a block; elements that share a scale
 *   W_LOW, W_HIGH                    fields of a code: first byte, bits, bytes of a run (W_HIGH may be missing)
 *   W_BIAS, or W_TABLE               what is subtracted from codes, or what they stand for: words of four bytes
 *   W_D_AT, W_MIN_AT                 where fp16 scales of the block are; -1: there is none */
#if W_DTYPE == RFG_Q4_0
#define W_BLOCK_BYTES 18
#define W_LOW         2, 4, 16
#define W_BIAS        8
#elif W_DTYPE == RFG_Q4_1
#define W_BLOCK_BYTES 20
#define W_LOW         4, 4, 16
#define W_BIAS        0
#define W_MIN_AT      2
#elif W_DTYPE == RFG_Q5_0
#define W_BLOCK_BYTES 22
#define W_LOW         6, 4, 16
#define W_HIGH        2, 1, 1
#define W_BIAS        16
#elif W_DTYPE == RFG_Q5_1
#define W_BLOCK_BYTES 24
#define W_LOW         8, 4, 16
#define W_HIGH        4, 1, 1
#define W_BIAS        0
#define W_MIN_AT      2
#elif W_DTYPE == RFG_Q8_0
#define W_BLOCK_BYTES 34
#define W_LOW         2, 8, 32
#define W_LOW_BITS    8
#define W_BIAS        0
#elif W_DTYPE == RFG_Q2_K
#define W_BLOCK       256
#define W_BLOCK_BYTES 84
#define W_PART        16
#define W_LOW         16, 2, 32
#define W_LOW_BITS    2
#define W_BIAS        0
#define W_D_AT        80
#define W_MIN_AT      82
#elif W_DTYPE == RFG_Q3_K
#define W_BLOCK       256
#define W_BLOCK_BYTES 110
#define W_PART        16
#define W_LOW         32, 2, 32
#define W_LOW_BITS    2
#define W_HIGH        0, 1, 32
#define W_BIAS        4
#define W_D_AT        108
#elif W_DTYPE == RFG_Q4_K
#define W_BLOCK       256
#define W_BLOCK_BYTES 144
#define W_LOW         16, 4, 32
#define W_BIAS        0
#define W_MIN_AT      2
#elif W_DTYPE == RFG_Q5_K
#define W_BLOCK       256
#define W_BLOCK_BYTES 176
#define W_LOW         48, 4, 32
#define W_HIGH        16, 1, 32
#define W_BIAS        0
#define W_MIN_AT      2
#elif W_DTYPE == RFG_Q6_K
#define W_BLOCK       256
#define W_BLOCK_BYTES 210
#define W_PART        16
#define W_LOW         0, 4, 64
#define W_HIGH        128, 2, 32
#define W_BIAS        32
#define W_D_AT        208
#elif W_DTYPE == RFG_IQ4_NL
#define W_BLOCK_BYTES 18
#define W_LOW         2, 4, 16
#define W_TABLE       W_IQ4
#elif W_DTYPE == RFG_IQ4_XS
#define W_BLOCK       256
#define W_BLOCK_BYTES 136
#define W_LOW         8, 4, 16
#define W_TABLE       W_IQ4
#elif W_DTYPE == RFG_MXFP4
#define W_BLOCK_BYTES 17
#define W_LOW         1, 4, 16
#define W_TABLE       W_E2M1
#define W_D_AT        -1
#elif W_DTYPE == RFG_NVFP4
#define W_BLOCK       64
#define W_BLOCK_BYTES 36
#define W_PART        16
#define W_LOW         4, 4, 8
#define W_TABLE       W_E2M1
#define W_D_AT        -1
#else
#error "gemm has no loader for these blocks"
#endif
#ifndef W_BLOCK
#define W_BLOCK 32
#endif
#ifndef W_PART
#define W_PART 32
#endif
#ifndef W_BIAS
#define W_BIAS 0
#endif
#ifndef W_LOW_BITS
#define W_LOW_BITS 4
#endif
#ifndef W_D_AT
#define W_D_AT 0
#endif
#ifndef W_MIN_AT
#define W_MIN_AT -1
#endif
/* Numbers of codes 0 to 3, 4 to 7, 8 to 11, 12 to 15; e2m1's are doubled. */
#define W_IQ4  0xbfad9881u, 0xf6eaddcfu, 0x26190d01u, 0x71594535u
#define W_E2M1 0x03020100u, 0x0c080604u, 0xfdfeff00u, 0xf4f8fafcu

/* What a code stands for, before it is scaled. */
RFG_DEVICE int w_number(int code)
{
#ifdef W_TABLE
    const rfg_u32 table[4] = { W_TABLE };
    rfg_u32 low = code & 4 ? table[1] : table[0], high = code & 4 ? table[3] : table[2];
    return (signed char)((code & 8 ? high : low) >> code % 4 * 8);
#elif W_LOW_BITS == 8
    return (signed char)code;
#else
    return code - W_BIAS;
#endif
}

/* e8m0 halved, since e2m1's numbers are doubled; no code is a NaN. */
RFG_DEVICE float w_e8m0_half(rfg_u32 code)
{
    return rfg_as_float(code < 2 ? 0x00200000u << code : (code - 1) << 23);
}
/* The same of e4m3 without its sign; 0x7f is 0. */
RFG_DEVICE float w_ue4m3_half(rfg_u32 code)
{
    rfg_u32 e = code >> 3 & 15, fraction = code & 7;
    float v = e ? rfg_as_float((e + 120) << 23 | fraction << 20) : (float)fraction * 0x1p-9f;
    return code == 0x7f ? 0.0f : v * 0.5f;
}
