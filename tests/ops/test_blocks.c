/* SPDX-License-Identifier: MIT
 *
 * Formats whose blocks hold their scales: ops/format_blocks.c against what PyPI's gguf made of the same blocks, and
 * against the harness' conversion, written apart; and that encoded numbers come back. */
#include <inttypes.h>
#include <math.h>

#include "base/util.h"
#include "ops/format.h"
#include "ops/oracle.h"
#include "tests/suite.h"

#define BLOCKS 512 /* as the script has it */

/* tests/tools/gguf_blocks.py: the type's number in files, elements and bytes, a hash of all values as f32, and the
 * first, a middle and the last one of the last block. */
static const struct {
    rfg_dtype dtype;
    int type, elements, bytes;
    uint64_t hash;
    double values[3];
} rows[] = {
    { RFG_Q4_0, 2, 32, 18, 0x071f52af7f0c6b25, { 0x1.45c0000000000p+8, -0x1.45c0000000000p+8, -0x1.e8a0000000000p+8 } },
    { RFG_Q4_1,
      3,
      32,
      20,
      0xe4692c7fcb6422a6,
      { -0x1.a71a000000000p+6, -0x1.4dd0000000000p+3, -0x1.47c2000000000p+6 } },
    { RFG_Q5_0,
      6,
      32,
      22,
      0x06554a20c9118925,
      { 0x1.8700000000000p-12, 0x1.8700000000000p-11, 0x1.2540000000000p-12 } },
    { RFG_Q5_1, 7, 32, 24, 0x112a1b9b90906593, { -0x1.a180000000000p+2, 0x1.70c0000000000p+3, 0x1.2200000000000p+3 } },
    { RFG_Q8_0,
      8,
      32,
      34,
      0x86914bb796de8925,
      { 0x1.5ea9000000000p+18, -0x1.aae4000000000p+16, 0x1.e2cb000000000p+18 } },
    { RFG_Q2_K,
      10,
      256,
      84,
      0x6e4f48b264bb3272,
      { 0x1.e100000000000p-5, -0x1.2d7c3e0000000p+9, -0x1.c427940000000p+9 } },
    { RFG_Q3_K,
      11,
      256,
      110,
      0x35c31f9af595ab25,
      { -0x1.5516000000000p-2, 0x1.d7a0000000000p-3, -0x1.0514000000000p-2 } },
    { RFG_Q4_K,
      12,
      256,
      144,
      0x61cc4a12550efbe3,
      { 0x1.d023ae0000000p+3, 0x1.d5f48c0000000p+3, 0x1.0d2b540000000p+4 } },
    { RFG_Q5_K,
      13,
      256,
      176,
      0xf9620f8b366e4a2d,
      { 0x1.36cd5a0000000p+15, 0x1.f35c000000000p+1, 0x1.bb121a0000000p+14 } },
    { RFG_Q6_K,
      14,
      256,
      210,
      0x8830e7ee50169c21,
      { -0x1.e636800000000p+20, -0x1.6c73800000000p+18, -0x1.75a0000000000p+15 } },
    { RFG_IQ4_NL,
      20,
      32,
      18,
      0x429e28cfc297ed65,
      { -0x1.5ac0000000000p+4, 0x1.da80000000000p+5, 0x1.7ab0000000000p+5 } },
    { RFG_IQ4_XS,
      23,
      256,
      136,
      0x7cd4de077d2e7ec3,
      { 0x1.7840400000000p-2, -0x1.d3d9000000000p+0, -0x1.072a100000000p+0 } },
    { RFG_MXFP4,
      39,
      32,
      17,
      0xa82da61752072325,
      { -0x1.8000000000000p-83, -0x1.8000000000000p-83, 0x1.8000000000000p-83 } },
    { RFG_NVFP4,
      40,
      64,
      36,
      0x3fa3fb4488882325,
      { -0x1.c000000000000p+0, -0x1.6800000000000p-1, -0x1.6000000000000p-1 } },
};
#define ROWS ((int)(sizeof(rows) / sizeof(rows[0])))

static const uint8_t fills[] = { 0x00, 0xff, 0x7f, 0x80 };

/* The first blocks are of one byte, the others are random. */
static void make_blocks(uint8_t *to, int row)
{
    uint64_t seed = (uint64_t)rows[row].type;
    int size = rows[row].bytes, first = (int)sizeof(fills) * size;
    for (int i = 0; i < BLOCKS * size; i++)
        to[i] = i < first ? fills[i / size] : (uint8_t)rfg_random(&seed);
}

static bool same(double a, double b)
{
    return (isnan(a) && isnan(b)) || a == b;
}

START_TEST(decode)
{
    const struct rfg_format *f = rfg_format((int)rows[_i].dtype);
    uint8_t *blocks = malloc((size_t)(BLOCKS * rows[_i].bytes));
    double v[RFG_FORMAT_MAX_ELEMENTS];
    uint64_t hash = 0xcbf29ce484222325;
    ck_assert(f->kind == RFG_FORMAT_BLOCK && f->elements == rows[_i].elements && f->bytes == rows[_i].bytes);
    ck_assert(f->elements <= RFG_FORMAT_MAX_ELEMENTS && f->bytes <= RFG_FORMAT_MAX_BYTES);
    make_blocks(blocks, _i);
    for (int b = 0; b < BLOCKS; b++) {
        f->decode(f, blocks + b * f->bytes, v);
        for (int i = 0; i < f->elements; i++) {
            double harness = rfg_load(blocks, rows[_i].dtype, (int64_t)b * f->elements + i);
            ck_assert_msg(same(v[i], harness), "%s: element %d of block %d is %a, the harness has %a", f->name, i, b,
                          v[i], harness);
            float as = (float)v[i];
            uint32_t bits;
            memcpy(&bits, &as, 4);
            bits = as != as ? 0x7fc00000 : bits == 0x80000000 ? 0 : bits;
            hash = (hash ^ bits) * 0x100000001b3;
        }
    }
    free(blocks);
    int at[] = { 0, f->elements / 2 + 1, f->elements - 1 };
    for (int i = 0; i < 3; i++)
        ck_assert_msg((float)v[at[i]] == (float)rows[_i].values[i], "%s: element %d of the last block is %a, not %a",
                      f->name, at[i], v[at[i]], rows[_i].values[i]);
    ck_assert_msg(hash == rows[_i].hash, "%s: 0x%" PRIx64 ", gguf has 0x%" PRIx64, f->name, hash, rows[_i].hash);
}
END_TEST

/* Numbers come back within a share of the largest that the format's bits are good for; what a block holds, as it is. */
START_TEST(encode)
{
    static const double step[] = { [RFG_Q4_0 - RFG_Q4_0] = 1. / 14,  [RFG_Q4_1 - RFG_Q4_0] = 1. / 15,
                                   [RFG_Q5_0 - RFG_Q4_0] = 1. / 30,  [RFG_Q5_1 - RFG_Q4_0] = 1. / 31,
                                   [RFG_Q8_0 - RFG_Q4_0] = 1. / 254, [RFG_Q2_K - RFG_Q4_0] = 1. / 2.6,
                                   [RFG_Q3_K - RFG_Q4_0] = 1. / 5.8, [RFG_Q4_K - RFG_Q4_0] = 1. / 14,
                                   [RFG_Q5_K - RFG_Q4_0] = 1. / 28,  [RFG_Q6_K - RFG_Q4_0] = 1. / 60,
                                   [RFG_IQ4_NL - RFG_Q4_0] = 1. / 9, [RFG_IQ4_XS - RFG_Q4_0] = 1. / 8,
                                   [RFG_MXFP4 - RFG_Q4_0] = 1. / 3,  [RFG_NVFP4 - RFG_Q4_0] = 1. / 5 };
    const struct rfg_format *f = rfg_format((int)rows[_i].dtype);
    double v[RFG_FORMAT_MAX_ELEMENTS], back[RFG_FORMAT_MAX_ELEMENTS], again[RFG_FORMAT_MAX_ELEMENTS];
    uint8_t block[RFG_FORMAT_MAX_BYTES];
    uint64_t seed = 5;
    for (int round = 0; round < 64; round++) {
        double scale = exp2(round % 7), off = 0;
        for (int i = 0; i < f->elements; i++)
            v[i] = scale * (double)(int64_t)rfg_random(&seed) * 0x1p-63;
        f->encode(f, block, v);
        f->decode(f, block, back);
        for (int i = 0; i < f->elements; i++)
            off = fmax(off, fabs(v[i] - back[i]));
        ck_assert_msg(off <= scale * step[rows[_i].dtype - RFG_Q4_0], "%s: off by %g of %g", f->name, off, scale);
        f->encode(f, block, back);
        f->decode(f, block, again);
        for (int i = 0; i < f->elements; i++)
            ck_assert_msg(fabs(again[i] - back[i]) <= 0.3 * scale * step[rows[_i].dtype - RFG_Q4_0],
                          "%s: %g becomes %g", f->name, back[i], again[i]);
    }
    for (int i = 0; i < f->elements; i++)
        v[i] = i == 3 ? NAN : i == 4 ? INFINITY : 0;
    f->encode(f, block, v);
    f->decode(f, block, back);
    for (int i = 0; i < f->elements; i++)
        ck_assert_msg(back[i] == 0, "%s: not finite becomes %g", f->name, back[i]);
}
END_TEST

/* q8_0 bit for bit: an fp16 scale, then codes. */
START_TEST(q8_0)
{
    const struct rfg_format *f = rfg_format(RFG_Q8_0);
    uint8_t block[34], again[34];
    double v[32], back[32];
    for (int i = 0; i < 32; i++)
        v[i] = i == 5 ? -127 * 0.25 : (i - 16) * 1.25;
    f->encode(f, block, v);
    ck_assert(block[0] == 0 && block[1] == 0x34 && block[2 + 5] == 0x81); /* 0.25, -127 */
    f->decode(f, block, back);
    for (int i = 0; i < 32; i++)
        ck_assert(back[i] == v[i]); /* multiples of the scale */
    f->encode(f, again, back);
    ck_assert(!memcmp(block, again, 34));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("blocks");
    TCase *tc = test_case(s, "blocks", NULL, NULL);
    ADD_LOOPS(tc, ROWS, decode, encode);
    ADD_TESTS(tc, q8_0);
    return run_suite(s);
}
