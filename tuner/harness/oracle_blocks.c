/* SPDX-License-Identifier: MIT
 *
 * One element of a block that holds its scales (GGUF's), apart from ops/format_blocks.c: each format's formula is
 * written out. */
#include <math.h>

#include "oracle_blocks.h"

static double half_at(const uint8_t *p)
{
    int e = p[1] >> 2 & 31, fraction = (p[1] & 3) * 256 + p[0];
    double v = e == 31 ? (fraction ? NAN : INFINITY)
               : e     ? (1 + fraction / 1024.0) * exp2(e - 15)
                       : fraction * exp2(-24);
    return p[1] >= 128 ? -v : v;
}

/* A nibble of 16 bytes that have elements 0 to 15, then 16 to 31. */
static int of_32(const uint8_t *p, int i)
{
    return i < 16 ? p[i] % 16 : p[i - 16] / 16;
}

static int fifth_bit(const uint8_t *p, int i)
{
    return p[i / 8] >> i % 8 & 1;
}

static double e2m1(int code)
{
    static const double of[] = { 0, 0.5, 1, 1.5, 2, 3, 4, 6 };
    return code < 8 ? of[code] : -of[code - 8];
}

static double iq4(int code)
{
    static const double of[] = { -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113 };
    return of[code];
}

/* Q4_K's and Q5_K's six bits: scale j of eight, or min j. */
static int six_bits(const uint8_t *s, int j, bool min)
{
    if (j < 4)
        return s[min ? j + 4 : j] % 64;
    int low = min ? s[j + 4] / 16 : s[j + 4] % 16, high = s[min ? j : j - 4] / 64;
    return low + 16 * high;
}

static double q2_k(const uint8_t *b, int i)
{
    int scales = b[i / 16], q = b[16 + i / 128 * 32 + i % 32] >> i % 128 / 32 * 2 & 3;
    return half_at(b + 80) * (scales % 16) * q - half_at(b + 82) * (scales / 16);
}

static double q3_k(const uint8_t *b, int i)
{
    const uint8_t *scales = b + 96;
    int j = i / 16, low = j < 8 ? scales[j] % 16 : scales[j - 8] / 16, high = scales[8 + j % 4] >> j / 4 * 2 & 3;
    int q = b[32 + i / 128 * 32 + i % 32] >> i % 128 / 32 * 2 & 3, there = b[i % 32] >> i / 32 & 1;
    return half_at(b + 108) * (low + 16 * high - 32) * (there ? q : q - 4);
}

static double q4_k(const uint8_t *b, int i)
{
    int j = i / 32, byte = b[16 + i / 64 * 32 + i % 32], q = j % 2 ? byte / 16 : byte % 16;
    return half_at(b) * six_bits(b + 4, j, false) * q - half_at(b + 2) * six_bits(b + 4, j, true);
}

static double q5_k(const uint8_t *b, int i)
{
    int j = i / 32, byte = b[48 + i / 64 * 32 + i % 32],
        q = (j % 2 ? byte / 16 : byte % 16) + 16 * (b[16 + i % 32] >> j & 1);
    return half_at(b) * six_bits(b + 4, j, false) * q - half_at(b + 2) * six_bits(b + 4, j, true);
}

static double q6_k(const uint8_t *b, int i)
{
    int part = i / 128, l = i % 32, quarter = i % 128 / 32;
    int byte = b[part * 64 + quarter % 2 * 32 + l], low = quarter < 2 ? byte % 16 : byte / 16;
    int high = b[128 + part * 32 + l] >> 2 * quarter & 3, scale = b[192 + i / 16];
    return half_at(b + 208) * (scale < 128 ? scale : scale - 256) * (low + 16 * high - 32);
}

static double iq4_xs(const uint8_t *b, int i)
{
    int j = i / 32, low = b[4 + j / 2] >> j % 2 * 4 & 15, high = (b[2] + 256 * b[3]) >> 2 * j & 3;
    return half_at(b) * (low + 16 * high - 32) * iq4(of_32(b + 8 + 16 * j, i % 32));
}

static double nvfp4(const uint8_t *b, int i)
{
    int scale = b[i / 16], e = scale / 8 % 16, byte = b[4 + i / 16 * 8 + i % 8];
    double v = scale == 0x7f ? 0 : e ? (1 + scale % 8 / 8.0) * exp2(e - 7) : scale % 8 * exp2(-9);
    return v * e2m1(i % 16 < 8 ? byte % 16 : byte / 16);
}

double rfg_load_block(const void *base, rfg_dtype dtype, int64_t index)
{
    const uint8_t *b = base;
    int i = (int)(index % rfg_block_elements(dtype)), q;
    b += index / rfg_block_elements(dtype) * rfg_block_bytes(dtype);
    switch (dtype) {
    case RFG_Q4_0:
        return half_at(b) * (of_32(b + 2, i) - 8);
    case RFG_Q4_1:
        return half_at(b) * of_32(b + 4, i) + half_at(b + 2);
    case RFG_Q5_0:
        return half_at(b) * (of_32(b + 6, i) + 16 * fifth_bit(b + 2, i) - 16);
    case RFG_Q5_1:
        return half_at(b) * (of_32(b + 8, i) + 16 * fifth_bit(b + 4, i)) + half_at(b + 2);
    case RFG_Q8_0:
        q = b[2 + i];
        return half_at(b) * (q < 128 ? q : q - 256);
    case RFG_Q2_K:
        return q2_k(b, i);
    case RFG_Q3_K:
        return q3_k(b, i);
    case RFG_Q4_K:
        return q4_k(b, i);
    case RFG_Q5_K:
        return q5_k(b, i);
    case RFG_Q6_K:
        return q6_k(b, i);
    case RFG_IQ4_NL:
        return half_at(b) * iq4(of_32(b + 2, i));
    case RFG_IQ4_XS:
        return iq4_xs(b, i);
    case RFG_MXFP4:
        return exp2(b[0] - 127) * e2m1(of_32(b + 1, i));
    default:
        return nvfp4(b, i);
    }
}

int rfg_block_elements(rfg_dtype dtype)
{
    return dtype == RFG_NVFP4 ? 64 : (dtype >= RFG_Q2_K && dtype <= RFG_Q6_K) || dtype == RFG_IQ4_XS ? 256 : 32;
}

int rfg_block_bytes(rfg_dtype dtype)
{
    static const uint8_t bytes[] = { 18, 20, 22, 24, 34, 84, 110, 144, 176, 210, 18, 136, 17, 36 };
    return bytes[dtype - RFG_Q4_0];
}
