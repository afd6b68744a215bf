/* SPDX-License-Identifier: MIT
 *
 * Source: the GGUF file format's block layouts, as ggml's documentation and the Python package gguf decode them. */
#include "format_blocks.h"

#include <math.h>
#include <string.h>

/* ---- fields ------------------------------------------------------------------------------------------------------ */

struct place {
    int byte, shift;
};

static struct place place_of(const struct rfg_block_field *f, int i)
{
    int span = 8 / f->bits * f->run; /* elements of a run */
    return (struct place){ f->at + i / span * f->run + i % f->run, i % span / f->run * f->bits };
}

static int get_field(const struct rfg_block_field *f, const uint8_t *block, int i)
{
    struct place p = place_of(f, i);
    return block[p.byte] >> p.shift & ((1 << f->bits) - 1);
}

static void put_field(const struct rfg_block_field *f, uint8_t *block, int i, int code)
{
    struct place p = place_of(f, i);
    int mask = (1 << f->bits) - 1;
    block[p.byte] = (uint8_t)((block[p.byte] & ~(mask << p.shift)) | (code & mask) << p.shift);
}

static int bits_of(const struct rfg_blocks *b)
{
    return b->low.bits + b->high.bits;
}

/* What a code stands for, before it is scaled. */
static int number_of(const struct rfg_blocks *b, int code)
{
    return b->values ? b->values[code] : bits_of(b) == 8 ? (int8_t)code : code - b->bias;
}

static double get_half(const uint8_t *block, int at, double otherwise)
{
    _Float16 h;
    if (at < 0)
        return otherwise;
    memcpy(&h, block + at, sizeof(h));
    return (double)h;
}

static void put_half(uint8_t *block, int at, double v)
{
    _Float16 h = (_Float16)v;
    if (at >= 0)
        memcpy(block + at, &h, sizeof(h));
}

/* ---- scales of parts --------------------------------------------------------------------------------------------- */

/* Q2_K: a byte has a scale and a min, of 4 bits. */
static void get_q2(const uint8_t *b, struct rfg_block_scales *s)
{
    for (int j = 0; j < 16; j++) {
        s->scale[j] = b[j] & 15;
        s->m[j] = b[j] >> 4;
    }
}

static void put_q2(uint8_t *b, const struct rfg_block_scales *s)
{
    for (int j = 0; j < 16; j++)
        b[j] = (uint8_t)((int)s->scale[j] | (int)s->m[j] << 4);
}

/* Q3_K: 6 bits each, 32 more than the scale. Eight bytes have the lower four, of j and of j + 8; four the upper two, of
 * j, j + 4, j + 8 and j + 12. */
#define Q3_SCALES 96
static const struct rfg_block_field q3_low = { Q3_SCALES, 4, 8 }, q3_high = { Q3_SCALES + 8, 2, 4 };

static void get_q3(const uint8_t *b, struct rfg_block_scales *s)
{
    for (int j = 0; j < 16; j++)
        s->scale[j] = (get_field(&q3_low, b, j) | get_field(&q3_high, b, j) << 4) - 32;
}

static void put_q3(uint8_t *b, const struct rfg_block_scales *s)
{
    for (int j = 0; j < 16; j++) {
        put_field(&q3_low, b, j, (int)s->scale[j] + 32);
        put_field(&q3_high, b, j, ((int)s->scale[j] + 32) >> 4);
    }
}

/* Q4_K and Q5_K: 6 bits each. Bytes 0 to 3 have scales 0 to 3, and in their upper bits the upper two of scales 4 to 7;
 * bytes 4 to 7 the same of the mins; bytes 8 to 11 the lower four of scales and mins 4 to 7. */
#define Q4_SCALES 4

static void get_q4(const uint8_t *block, struct rfg_block_scales *s)
{
    const uint8_t *b = block + Q4_SCALES;
    for (int j = 0; j < 4; j++) {
        s->scale[j] = b[j] & 63;
        s->m[j] = b[4 + j] & 63;
        s->scale[4 + j] = (b[8 + j] & 15) | b[j] >> 6 << 4;
        s->m[4 + j] = b[8 + j] >> 4 | b[4 + j] >> 6 << 4;
    }
}

static void put_q4(uint8_t *block, const struct rfg_block_scales *s)
{
    uint8_t *b = block + Q4_SCALES;
    for (int j = 0; j < 4; j++) {
        int scale = (int)s->scale[4 + j], m = (int)s->m[4 + j];
        b[j] = (uint8_t)((int)s->scale[j] | scale >> 4 << 6);
        b[4 + j] = (uint8_t)((int)s->m[j] | m >> 4 << 6);
        b[8 + j] = (uint8_t)((scale & 15) | (m & 15) << 4);
    }
}

/* Q6_K: bytes. */
#define Q6_SCALES 192

static void get_q6(const uint8_t *b, struct rfg_block_scales *s)
{
    for (int j = 0; j < 16; j++)
        s->scale[j] = (int8_t)b[Q6_SCALES + j];
}

static void put_q6(uint8_t *b, const struct rfg_block_scales *s)
{
    for (int j = 0; j < 16; j++)
        b[Q6_SCALES + j] = (uint8_t)(int)s->scale[j];
}

/* IQ4_XS: 6 bits, 32 more than the scale: the upper two of each in a word, then the lower four. */
static const struct rfg_block_field xs_high = { 2, 2, 1 }, xs_low = { 4, 4, 1 };

static void get_xs(const uint8_t *b, struct rfg_block_scales *s)
{
    for (int j = 0; j < 8; j++)
        s->scale[j] = (get_field(&xs_low, b, j) | get_field(&xs_high, b, j) << 4) - 32;
}

static void put_xs(uint8_t *b, const struct rfg_block_scales *s)
{
    for (int j = 0; j < 8; j++) {
        put_field(&xs_low, b, j, (int)s->scale[j] + 32);
        put_field(&xs_high, b, j, ((int)s->scale[j] + 32) >> 4);
    }
}

/* MXFP4: e8m0, halved, since e2m1's values are doubled. No code is a NaN: 255 is 2^128. */
static void get_mx(const uint8_t *b, struct rfg_block_scales *s)
{
    s->scale[0] = ldexp(1, b[0] - 128);
}

static void put_mx(uint8_t *b, const struct rfg_block_scales *s)
{
    int e = 0;
    while (e < 254 && ldexp(1, e - 128) < s->scale[0])
        e++;
    b[0] = (uint8_t)e;
}

/* NVFP4: e4m3 without its sign, halved. 0x7f is 0, and bit 7, which is never set, is not read but there. */
static double of_nv(int code)
{
    int e = code >> 3 & 15, fraction = code & 7;
    return code == 0x7f ? 0 : e ? ldexp(8 + fraction, e - 11) : ldexp(fraction, -10);
}

static void get_nv(const uint8_t *b, struct rfg_block_scales *s)
{
    for (int j = 0; j < 4; j++)
        s->scale[j] = of_nv(b[j]);
}

static void put_nv(uint8_t *b, const struct rfg_block_scales *s)
{
    for (int j = 0; j < 4; j++) {
        int code = 0;
        while (code < 0x7e && of_nv(code) < s->scale[j])
            code++;
        b[j] = (uint8_t)code;
    }
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

static const int8_t iq4[16] = { -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113 };
static const int8_t e2m1[16] = { 0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12 }; /* doubled */

#define NONE                                                                                                           \
    {                                                                                                                  \
        0, 0, 0                                                                                                        \
    }

const struct rfg_blocks rfg_blocks_q4_0 = { { 2, 4, 16 }, NONE, 8, NULL, 32, 0, -1, NULL, NULL, 0, 0 };
const struct rfg_blocks rfg_blocks_q4_1 = { { 4, 4, 16 }, NONE, 0, NULL, 32, 0, 2, NULL, NULL, 0, 0 };
const struct rfg_blocks rfg_blocks_q5_0 = { { 6, 4, 16 }, { 2, 1, 1 }, 16, NULL, 32, 0, -1, NULL, NULL, 0, 0 };
const struct rfg_blocks rfg_blocks_q5_1 = { { 8, 4, 16 }, { 4, 1, 1 }, 0, NULL, 32, 0, 2, NULL, NULL, 0, 0 };
const struct rfg_blocks rfg_blocks_q8_0 = { { 2, 8, 32 }, NONE, 0, NULL, 32, 0, -1, NULL, NULL, 0, 0 };
const struct rfg_blocks rfg_blocks_q2_k = { { 16, 2, 32 }, NONE, 0, NULL, 16, 80, 82, get_q2, put_q2, 15, 15 };
const struct rfg_blocks rfg_blocks_q3_k = { { 32, 2, 32 }, { 0, 1, 32 }, 4, NULL, 16, 108, -1, get_q3, put_q3, 31, 0 };
const struct rfg_blocks rfg_blocks_q4_k = { { 16, 4, 32 }, NONE, 0, NULL, 32, 0, 2, get_q4, put_q4, 63, 63 };
const struct rfg_blocks rfg_blocks_q5_k = { { 48, 4, 32 }, { 16, 1, 32 }, 0, NULL, 32, 0, 2, get_q4, put_q4, 63, 63 };
const struct rfg_blocks rfg_blocks_q6_k = {
    { 0, 4, 64 }, { 128, 2, 32 }, 32, NULL, 16, 208, -1, get_q6, put_q6, 127, 0
};
const struct rfg_blocks rfg_blocks_iq4_nl = { { 2, 4, 16 }, NONE, 0, iq4, 32, 0, -1, NULL, NULL, 0, 0 };
const struct rfg_blocks rfg_blocks_iq4_xs = { { 8, 4, 16 }, NONE, 0, iq4, 32, 0, -1, get_xs, put_xs, 31, 0 };
const struct rfg_blocks rfg_blocks_mxfp4 = { { 1, 4, 16 }, NONE, 0, e2m1, 32, -1, -1, get_mx, put_mx, 0, 0 };
const struct rfg_blocks rfg_blocks_nvfp4 = { { 4, 4, 8 }, NONE, 0, e2m1, 16, -1, -1, get_nv, put_nv, 0, 0 };

static void get_scales(const struct rfg_blocks *b, const uint8_t *block, struct rfg_block_scales *s)
{
    memset(s, 0, sizeof(*s));
    s->d = get_half(block, b->d, 1);
    s->min = get_half(block, b->min, 0);
    if (b->get) {
        b->get(block, s);
        return;
    }
    s->scale[0] = 1;
    s->m[0] = b->min >= 0 ? -1 : 0; /* it is added */
}

void rfg_blocks_decode(const struct rfg_blocks *b, int elements, const void *block, double *values)
{
    struct rfg_block_scales s;
    get_scales(b, block, &s);
    for (int i = 0; i < elements; i++) {
        int code = get_field(&b->low, block, i), j = i / b->part;
        if (b->high.bits)
            code |= get_field(&b->high, block, i) << b->low.bits;
        values[i] = s.d * s.scale[j] * number_of(b, code) - s.min * s.m[j];
    }
}

static double or_zero(double v)
{
    return isfinite(v) ? v : 0;
}

/* The scales that n values of a part want, whose codes stand for numbers from low to high. */
static void want(const struct rfg_blocks *b, const double *v, int n, int j, struct rfg_block_scales *s)
{
    double least = or_zero(v[0]), most = least;
    int low = INT32_MAX, high = INT32_MIN;
    for (int i = 1; i < n; i++) {
        least = fmin(least, or_zero(v[i]));
        most = fmax(most, or_zero(v[i]));
    }
    for (int code = 0; code < 1 << bits_of(b); code++) {
        int number = number_of(b, code);
        low = number < low && number > -128 ? number : low;
        high = number > high ? number : high;
    }
    if (b->min < 0) {
        s->scale[j] = fmax(0, fmax(most / high, least / low));
        s->m[j] = 0;
    } else {
        s->m[j] = b->get ? fmax(0, -least) : -least; /* mins of parts are not negative */
        s->scale[j] = (most + s->m[j]) / high;
    }
}

/* To codes of parts times d and min. */
static void put_scales(const struct rfg_blocks *b, uint8_t *block, struct rfg_block_scales *s, int parts)
{
    double most = 0, most_m = 0;
    for (int j = 0; j < parts; j++) {
        most = fmax(most, s->scale[j]);
        most_m = fmax(most_m, s->m[j]);
    }
    put_half(block, b->d, b->put ? most / b->most_scale : most);
    put_half(block, b->min, b->put ? most_m / b->most_min : -s->m[0]);
    double d = get_half(block, b->d, 0), min = get_half(block, b->min, 0);
    for (int j = 0; j < parts && b->most_scale; j++) {
        s->scale[j] = d > 0 ? fmin(rint(s->scale[j] / d), b->most_scale) : 0;
        s->m[j] = min > 0 ? fmin(rint(s->m[j] / min), b->most_min) : 0;
    }
    if (b->put)
        b->put(block, s);
}

void rfg_blocks_encode(const struct rfg_blocks *b, int elements, void *block, const double *values)
{
    struct rfg_block_scales s;
    for (int j = 0; j < elements / b->part; j++)
        want(b, values + j * b->part, b->part, j, &s);
    put_scales(b, block, &s, elements / b->part);
    get_scales(b, block, &s);
    for (int i = 0; i < elements; i++) {
        int best = 0;
        double d = s.d * s.scale[i / b->part], v = or_zero(values[i]) + s.min * s.m[i / b->part], least = INFINITY;
        for (int code = 0; code < 1 << bits_of(b); code++) {
            double off = fabs(d * number_of(b, code) - v);
            if (off < least || (off == least && !number_of(b, code))) {
                least = off;
                best = code;
            }
        }
        put_field(&b->low, block, i, best);
        if (b->high.bits)
            put_field(&b->high, block, i, best >> b->low.bits);
    }
}
