/* SPDX-License-Identifier: MIT
 *
 * The table of formats (ops/format.h): every code of every format both ways, what rounds where, blocks and bytes. The
 * expected values are literals and C's own types; the harness' conversions, written apart, must agree too. */
#include <inttypes.h>
#include <limits.h>
#include <math.h>

#include "ops/format.h"
#include "ops/operand.h"
#include "ops/oracle.h"
#include "tests/suite.h"

static const struct {
    rfg_dtype dtype;
    const char *name;
    int elements, bytes;
    enum rfg_format_kind kind;
    double largest, least; /* finite, above 0 */
} rows[] = {
    { RFG_F32, "f32", 1, 4, RFG_FORMAT_FLOAT, 0x1.fffffep127, 0x1p-149 },
    { RFG_F16, "f16", 1, 2, RFG_FORMAT_FLOAT, 65504, 0x1p-24 },
    { RFG_BF16, "bf16", 1, 2, RFG_FORMAT_FLOAT, 0x1.fep127, 0x1p-133 },
    { RFG_E4M3, "e4m3", 1, 1, RFG_FORMAT_FLOAT, 448, 0x1p-9 },
    { RFG_E4M3FNUZ, "e4m3fnuz", 1, 1, RFG_FORMAT_FLOAT, 240, 0x1p-10 },
    { RFG_E5M2, "e5m2", 1, 1, RFG_FORMAT_FLOAT, 57344, 0x1p-16 },
    { RFG_I8, "i8", 1, 1, RFG_FORMAT_INT, 127, 1 },
    { RFG_I32, "i32", 1, 4, RFG_FORMAT_INT, 2147483647, 1 },
    { RFG_I4, "i4", 2, 1, RFG_FORMAT_INT, 7, 1 },
    { RFG_E2M1, "e2m1", 2, 1, RFG_FORMAT_FLOAT, 6, 0.5 },
    { RFG_E8M0, "e8m0", 1, 1, RFG_FORMAT_SCALE, 0x1p127, 0x1p-127 },
    { RFG_I64, "i64", 1, 8, RFG_FORMAT_INT, 0x1p63, 1 },
};
#define ROWS ((int)(sizeof(rows) / sizeof(rows[0])))

static int bits_of(rfg_dtype d)
{
    const struct rfg_format *f = rfg_format((int)d);
    return 8 * f->bytes / f->elements;
}

/* One element of a block whose other one must stay out of it. */
static double value_of(rfg_dtype d, uint64_t code)
{
    const struct rfg_format *f = rfg_format((int)d);
    double v[RFG_FORMAT_MAX_ELEMENTS];
    if (f->elements == 2) {
        uint8_t low = (uint8_t)(code | 0x50), high = (uint8_t)(code << 4 | 5);
        f->decode(f, &high, v);
        double second = v[1];
        f->decode(f, &low, v);
        ck_assert(v[0] == second);
    } else
        f->decode(f, &code, v);
    return v[0];
}

static uint64_t code_of(rfg_dtype d, double value)
{
    const struct rfg_format *f = rfg_format((int)d);
    uint64_t code = 0;
    if (f->elements == 2) {
        uint8_t b = 0xff;
        double first[] = { value, 1 }, second[] = { 1, value };
        f->encode(f, &b, first);
        code = b & 15;
        f->encode(f, &b, second);
        ck_assert_uint_eq(b >> 4, code);
    } else
        f->encode(f, &code, &value);
    return code;
}

static bool same(double a, double b)
{
    return (isnan(a) && isnan(b)) || (a == b && !signbit(a) == !signbit(b));
}

START_TEST(table)
{
    char names[RFG_FORMAT_NAMES];
    ck_assert_int_eq(ROWS, RFG_Q4_0 - 1); /* test_blocks.c has the others */
    for (int i = 0; i < ROWS; i++) {
        const struct rfg_format *f = rfg_format((int)rows[i].dtype);
        ck_assert_str_eq(f->name, rows[i].name);
        ck_assert_str_eq(rfg_dtype_name(rows[i].dtype), rows[i].name);
        ck_assert_int_eq(rfg_format_find(f->name, strlen(f->name)), rows[i].dtype);
        ck_assert_msg(f->elements == rows[i].elements && f->bytes == rows[i].bytes, "%s: its block", f->name);
        ck_assert_msg(f->kind == rows[i].kind && f->largest == rows[i].largest, "%s: kind, largest", f->name);
        ck_assert(f->elements <= RFG_FORMAT_MAX_ELEMENTS && f->bytes <= RFG_FORMAT_MAX_BYTES);
        ck_assert_msg(!(f->elements & (f->elements - 1)), "%s: a power of two", f->name);
        ck_assert_msg(rfg_largest(rows[i].dtype) == f->largest, "%s: the harness' largest", f->name);
        ck_assert_msg(value_of(rows[i].dtype, code_of(rows[i].dtype, f->largest)) == f->largest, "%s: %g", f->name,
                      f->largest);
        ck_assert_msg(same(value_of(rows[i].dtype, code_of(rows[i].dtype, rows[i].least)), rows[i].least), "%s: %g",
                      f->name, rows[i].least);
    }
    ck_assert(!rfg_format(0) && !rfg_format(-1) && !rfg_format(RFG_DTYPE_COUNT) && !rfg_format(INT_MIN));
    ck_assert(rfg_format_find("bf16", 3) == RFG_DTYPE_NONE && rfg_format_find("f16x", 3) == RFG_F16 &&
              rfg_format_find("none", 4) == RFG_DTYPE_NONE && rfg_format_find("", 0) == RFG_DTYPE_NONE);
    ck_assert_str_eq(
        rfg_format_names(names, sizeof(names)),
        "f32, f16, bf16, e4m3, e4m3fnuz, e5m2, i8, i32, i4, e2m1, e8m0, i64, or one of GGUF's, q4_0 to nvfp4");
    ck_assert_str_eq(rfg_format_names(names, 8), "f32, f1");
}
END_TEST

/* From C's types and literals. */
static double expected(rfg_dtype d, uint64_t at)
{
    static const double e2m1[] = { 0, 0.5, 1, 1.5, 2, 3, 4, 6 };
    uint32_t code = (uint32_t)at, wide = code << 16;
    uint16_t half = (uint16_t)code;
    float f;
    _Float16 h;
    switch (d) {
    case RFG_F32:
        memcpy(&f, &code, 4);
        return f;
    case RFG_BF16:
        memcpy(&f, &wide, 4);
        return f;
    case RFG_F16:
        memcpy(&h, &half, 2);
        return (double)h;
    case RFG_E5M2: /* f16 without its lower half */
        half = (uint16_t)(code << 8);
        memcpy(&h, &half, 2);
        return (double)h;
    case RFG_E4M3: /* f16's exponents from 2^-14 on are e4m3's, 2^8 higher */
        half = (uint16_t)((code & 0x7f) << 7);
        memcpy(&h, &half, 2);
        return (code & 0x7f) == 0x7f ? NAN : (code >> 7 ? -256 : 256) * (double)h;
    case RFG_E4M3FNUZ:
        half = (uint16_t)((code & 0x7f) << 7);
        memcpy(&h, &half, 2);
        return code == 0x80 ? NAN : (code >> 7 ? -128 : 128) * (double)h;
    case RFG_I8:
        return (int8_t)code;
    case RFG_I32:
        return (int32_t)code;
    case RFG_I64:
        return (double)(int64_t)at;
    case RFG_I4:
        return code < 8 ? code : (double)code - 16;
    case RFG_E2M1:
        return code < 8 ? e2m1[code] : -e2m1[code - 8];
    default: /* E8M0: an fp32 exponent */
        wide = code << 23;
        memcpy(&f, &wide, 4);
        return code == 255 ? NAN : code == 0 ? 0x1p-127 : f;
    }
}

#define DOUBLES 53 /* bits: of integers that are all doubles */

/* A prime: all exponents, all ends. */
static uint64_t step_of(int bits)
{
    return bits == 64 ? 68718952447 : bits == 32 ? 65521 : 1;
}

START_TEST(codes)
{
    rfg_dtype d = rows[_i].dtype;
    int bits = bits_of(d);
    uint64_t end = (uint64_t)1 << (bits < DOUBLES ? bits : DOUBLES), step = step_of(bits);
    for (uint64_t code = 0; code < end; code += step) {
        double v = value_of(d, code), want = expected(d, code);
        ck_assert_msg(same(v, want), "%s: code 0x%" PRIx64 " is %a, not %a", rows[_i].name, code, v, want);
        ck_assert_msg(same(rfg_load(&code, d, 0), want), "%s: the harness takes 0x%" PRIx64 " for %a", rows[_i].name,
                      code, rfg_load(&code, d, 0));
        if (isfinite(v) || (isinf(v) && bits > 8)) /* 8-bit formats saturate */
            ck_assert_msg(code_of(d, v) == code, "%s: %a is 0x%" PRIx64 ", not 0x%" PRIx64, rows[_i].name, v,
                          code_of(d, v), code);
    }
}
END_TEST

static void expect_code(rfg_dtype d, const char *name, double v, uint64_t code)
{
    uint64_t stored = 0;
    ck_assert_msg(code_of(d, v) == code, "%s: %a becomes 0x%" PRIx64 ", not 0x%" PRIx64, name, v, code_of(d, v), code);
    rfg_store(&stored, d, 0, v);
    ck_assert_msg(stored == code, "%s: the harness stores %a as 0x%" PRIx64 ", not 0x%" PRIx64, name, v, stored, code);
}

/* Between each two neighbours: the middle goes to the even one, all else to the nearer one. */
START_TEST(rounding)
{
    rfg_dtype d = rows[_i].dtype;
    int bits = bits_of(d);
    bool is_signed = rows[_i].kind != RFG_FORMAT_SCALE;
    uint64_t half = (uint64_t)1 << ((bits < DOUBLES ? bits : DOUBLES) - is_signed), step = step_of(bits);
    for (uint64_t code = 0; code + 1 < half; code += step) {
        double a = value_of(d, code), b = value_of(d, code + 1), middle = (a + b) / 2;
        if (!isfinite(a) || !isfinite(b))
            continue;
        expect_code(d, rows[_i].name, middle, code % 2 ? code + 1 : code);
        expect_code(d, rows[_i].name, nextafter(middle, a), code);
        expect_code(d, rows[_i].name, nextafter(middle, b), code + 1);
        if (rows[_i].kind == RFG_FORMAT_FLOAT && code) {
            expect_code(d, rows[_i].name, -middle, (code % 2 ? code + 1 : code) | half);
            expect_code(d, rows[_i].name, nextafter(-middle, -a), code | half);
        }
    }
}
END_TEST

static const struct {
    rfg_dtype dtype;
    double value;
    uint64_t code;
} ends[] = {
    { RFG_F32, INFINITY, 0x7f800000 },
    { RFG_F32, 0x1.ffffffp127, 0x7f800000 },
    { RFG_F32, 0x1.fffffep127, 0x7f7fffff },
    { RFG_F32, 1e300, 0x7f800000 },
    { RFG_F32, -0.0, 0x80000000 },
    { RFG_F32, 1, 0x3f800000 },
    { RFG_F16, 65519.99, 0x7bff },
    { RFG_F16, 65520, 0x7c00 },
    { RFG_F16, -INFINITY, 0xfc00 },
    { RFG_F16, -1e300, 0xfc00 },
    { RFG_F16, -0x1p-26, 0x8000 },
    { RFG_BF16, 0x1.ffp127, 0x7f80 },
    { RFG_BF16, -3, 0xc040 },
    { RFG_E4M3, 464, 0x7e },
    { RFG_E4M3, 1e30, 0x7e },
    { RFG_E4M3, -INFINITY, 0xfe },
    { RFG_E4M3, -0.0, 0x80 },
    { RFG_E4M3FNUZ, 1e30, 0x7f },
    { RFG_E4M3FNUZ, -INFINITY, 0xff },
    { RFG_E4M3FNUZ, -0.0, 0 },
    { RFG_E4M3FNUZ, -0x1p-12, 0 },
    { RFG_E5M2, INFINITY, 0x7b },
    { RFG_E5M2, -1e30, 0xfb },
    { RFG_I8, 127.5, 127 },
    { RFG_I8, -1e30, 0x80 },
    { RFG_I8, -128.5, 0x80 },
    { RFG_I8, NAN, 0 },
    { RFG_I32, 1e30, 0x7fffffff },
    { RFG_I32, -INFINITY, 0x80000000 },
    { RFG_I32, NAN, 0 },
    { RFG_I64, 1e30, INT64_MAX },
    { RFG_I64, -INFINITY, 1ull << 63 },
    { RFG_I64, -1, ~0ull },
    { RFG_I64, NAN, 0 },
    { RFG_I4, 7.5, 7 },
    { RFG_I4, -INFINITY, 8 },
    { RFG_I4, -0.5, 0 },
    { RFG_I4, -1.5, 14 },
    { RFG_I4, NAN, 0 },
    { RFG_E2M1, 5, 6 },
    { RFG_E2M1, 5.01, 7 },
    { RFG_E2M1, 1e30, 7 },
    { RFG_E2M1, -INFINITY, 15 },
    { RFG_E2M1, -0.25, 8 },
    { RFG_E2M1, NAN, 7 },
    { RFG_E8M0, 0, 0 },
    { RFG_E8M0, -1, 0 },
    { RFG_E8M0, 1, 127 },
    { RFG_E8M0, 3, 128 },
    { RFG_E8M0, INFINITY, 254 },
    { RFG_E8M0, NAN, 255 },
};

START_TEST(beyond)
{
    expect_code(ends[_i].dtype, rfg_dtype_name(ends[_i].dtype), ends[_i].value, ends[_i].code);
}
END_TEST

START_TEST(nans)
{
    for (int i = 0; i < ROWS; i++)
        if (rows[i].kind != RFG_FORMAT_INT && rows[i].dtype != RFG_E2M1)
            ck_assert_msg(isnan(value_of(rows[i].dtype, code_of(rows[i].dtype, NAN))), "%s", rows[i].name);
}
END_TEST

START_TEST(nibbles)
{
    static const uint8_t packed[] = { 0xe1, 0x87 };
    static const double i4[] = { 1, -2, 7, -8 }, e2m1[] = { 0.5, -4, 6, -0.0 };
    double v[2];
    uint8_t b[2];
    for (int i = 0; i < 2; i++)
        for (int fp = 0; fp < 2; fp++) {
            const struct rfg_format *f = rfg_format(fp ? RFG_E2M1 : RFG_I4);
            const double *want = fp ? e2m1 : i4;
            f->decode(f, packed + i, v);
            ck_assert(v[0] == want[2 * i] && v[1] == want[2 * i + 1]);
            f->encode(f, b, want + 2 * i);
            ck_assert_uint_eq(b[0], packed[i]);
            for (int k = 0; k < 2; k++) {
                ck_assert(rfg_load(packed, fp ? RFG_E2M1 : RFG_I4, 2 * i + k) == want[2 * i + k]);
                rfg_store(b, fp ? RFG_E2M1 : RFG_I4, k, want[2 * i + k]);
            }
            ck_assert_uint_eq(b[0], packed[i]);
        }
}
END_TEST

START_TEST(bytes)
{
    ck_assert_int_eq(rfg_format_bytes(RFG_BF16, 7), 14);
    ck_assert_int_eq(rfg_format_bytes(RFG_F32, 0), 0);
    ck_assert_int_eq(rfg_format_bytes(RFG_I4, 6), 3);
    ck_assert_int_eq(rfg_format_bytes(RFG_I4, 7), 0);
    ck_assert_int_eq(rfg_format_bytes(RFG_E8M0, 7), 7);
    ck_assert_int_eq(rfg_format_bytes(RFG_F32, INT64_MAX / 4), INT64_MAX / 4 * 4);
    ck_assert_int_eq(rfg_format_bytes(RFG_F32, INT64_MAX / 4 + 1), 0);
    ck_assert_int_eq(rfg_format_bytes(RFG_DTYPE_NONE, 8), 0);
    ck_assert_int_eq(rfg_format_elements(RFG_F32, 16), 4);
    ck_assert_int_eq(rfg_format_elements(RFG_I4, 16), 32);
    ck_assert_int_eq(rfg_format_elements(RFG_BF16, 3), 0);
    ck_assert_int_eq(rfg_format_elements(-1, 16), 0);
    ck_assert_uint_eq(rfg_dtype_bytes(RFG_E2M1, 32), 16);
    ck_assert_uint_eq(rfg_dtype_bytes(RFG_E2M1, 31), 0);
    ck_assert_uint_eq(rfg_dtype_bytes(RFG_F32, -4), 0);
    ck_assert_uint_eq(rfg_dtype_bytes(RFG_DTYPE_NONE, 4), 0);
}
END_TEST

/* ---- operands of blocks ------------------------------------------------------------------------------------------ */

static const struct {
    rfg_tensor t;
    int64_t extent; /* bytes; 0: refused */
    const char *why;
} views[] = {
    { { NULL, RFG_I4, 2, { 3, 32 }, { 32, 1 } }, 48, NULL },
    { { NULL, RFG_I4, 2, { 3, 32 }, { 64, 1 } }, 2 * 32 + 16, NULL },
    { { NULL, RFG_E2M1, 3, { 2, 2, 6 }, { 32, 8, 1 } }, 16 + 4 + 3, NULL },
    { { NULL, RFG_I4, 1, { 5 }, { 1 } }, 0, "w has 5 columns of i4: must be whole blocks of 2" },
    { { NULL, RFG_I4, 2, { 2, 4 }, { 5, 1 } }, 0, "w has row stride 5 of i4: must be whole blocks of 2" },
    { { NULL, RFG_I4, 3, { 2, 2, 4 }, { 20, 5, 1 } }, 0, "w has row stride 5 of i4: must be whole blocks of 2" },
    { { NULL, RFG_I4, 3, { 2, 2, 4 }, { 13, 6, 1 } }, 0, "w has row stride 13 of i4: must be whole blocks of 2" },
    { { NULL, RFG_I4, 2, { 1, 4 }, { 5, 1 } }, 2, NULL }, /* one row has no stride */
    { { NULL, RFG_MXFP4, 2, { 3, 64 }, { 96, 1 } }, 2 * 51 + 34, NULL },
    { { NULL, RFG_MXFP4, 2, { 3, 48 }, { 64, 1 } }, 0, "w has 48 columns of mxfp4: must be whole blocks of 32" },
    { { NULL, RFG_Q4_K, 2, { 3, 256 }, { 256, 1 } },
      0,
      "w's data is 0x10001: must be aligned to its element, 16 bytes" },
};

START_TEST(operands)
{
    struct rfg_operand o;
    rfg_tensor t = views[_i].t;
    t.data = (void *)(uintptr_t)0x10001;
    rfg_status st = rfg_check_operand(&o, "fn", "w", &t, 1, 3);
    ck_assert_int_eq(st == RFG_OK, !views[_i].why);
    if (views[_i].why)
        ck_assert_msg(strstr(rfg_last_error(), views[_i].why), "%s", rfg_last_error());
    else
        ck_assert_int_eq((int64_t)(o.end - o.begin), views[_i].extent);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("format");
    TCase *tc = test_case(s, "format", NULL, NULL);
    ADD_TESTS(tc, table, nans, nibbles, bytes);
    ADD_LOOPS(tc, ROWS, codes, rounding);
    ADD_LOOPS(tc, (sizeof(ends) / sizeof(ends[0])), beyond);
    ADD_LOOPS(tc, (sizeof(views) / sizeof(views[0])), operands);
    return run_suite(s);
}
