/* SPDX-License-Identifier: MIT
 *
 * The harness' conversions over all codes of each format. */
#include <math.h>
#include <stdint.h>

#include "rfg/rfg.h"
#include "tests/suite.h"
#include "tuner/harness/harness.h"

/* bf16 is the upper half of a float. */
START_TEST(bf16_codes)
{
    for (uint32_t code = 0; code < 65536; code++) {
        uint16_t c = (uint16_t)code, back;
        uint32_t wide = code << 16;
        float f;
        memcpy(&f, &wide, 4);
        double v = rfg_load(&c, RFG_BF16, 0);
        if (isnan(f)) {
            ck_assert(isnan(v));
            continue;
        }
        ck_assert_msg(v == (double)f && !signbit(v) == !signbit(f), "bf16 %04x reads %g, not %g", code, v, (double)f);
        rfg_store(&back, RFG_BF16, 0, v);
        ck_assert_uint_eq(back, code);
    }
}
END_TEST

#if defined(__FLT16_MANT_DIG__) || defined(__F16C__) || defined(__x86_64__)
#define HAVE_FLOAT16 (__GNUC__ >= 12)
#endif

START_TEST(f16_codes)
{
    for (uint32_t code = 0; code < 65536; code++) {
        uint16_t c = (uint16_t)code, back;
        double v = rfg_load(&c, RFG_F16, 0);
        int e = code >> 10 & 31, m = code & 1023;
        double want = e == 31 ? (m ? NAN : INFINITY) : e ? (1 + m / 1024.0) * exp2(e - 15) : m * 0x1p-24;
        if (code >> 15)
            want = -want;
        if (isnan(want)) {
            ck_assert(isnan(v));
            continue;
        }
        ck_assert_msg(v == want && !signbit(v) == !signbit(want), "f16 %04x reads %g, not %g", code, v, want);
        rfg_store(&back, RFG_F16, 0, v);
        ck_assert_uint_eq(back, code);
#ifdef HAVE_FLOAT16
        _Float16 h;
        memcpy(&h, &c, 2);
        ck_assert(v == (double)h);
#endif
    }
}
END_TEST

/* Every tie and its neighbours, in both formats: to nearest, ties to even, overflow to infinity. */
START_TEST(rounding)
{
    static const rfg_dtype dtypes[] = { RFG_F16, RFG_BF16 };
    static const int top[] = { 0x7c00, 0x7f80 };
    for (int d = 0; d < 2; d++)
        for (int code = 0; code < top[d]; code++) {
            uint16_t lo = (uint16_t)code, hi = (uint16_t)(code + 1), got;
            double a = rfg_load(&lo, dtypes[d], 0), b = rfg_load(&hi, dtypes[d], 0);
            if (isinf(b))
                b = a + rfg_ulp(dtypes[d], a);
            double mid = (a + b) / 2;
            ck_assert_msg(rfg_ulp(dtypes[d], a) == b - a, "ulp of %g is %g, not %g", a, rfg_ulp(dtypes[d], a), b - a);
            rfg_store(&got, dtypes[d], 0, mid);
            ck_assert_msg(got == (code & 1 ? hi : lo), "tie above %04x rounds to %04x", code, got);
            rfg_store(&got, dtypes[d], 0, nextafter(mid, 0));
            ck_assert_uint_eq(got, lo);
            rfg_store(&got, dtypes[d], 0, -nextafter(mid, INFINITY));
            ck_assert_uint_eq(got, hi | 0x8000);
        }
    uint16_t got;
    rfg_store(&got, RFG_F16, 0, 1e30);
    ck_assert_uint_eq(got, 0x7c00);
    rfg_store(&got, RFG_BF16, 0, -INFINITY);
    ck_assert_uint_eq(got, 0xff80);
    float f;
    rfg_store(&f, RFG_F32, 0, 1 + 0x1p-24);
    ck_assert(f == 1);
}
END_TEST

/* The 8-bit formats: some codes by hand, all there and back, every tie and its neighbours, saturation, NaN. */
START_TEST(byte_formats)
{
    static const struct {
        rfg_dtype dtype;
        int one, last; /* codes of 1 and of the largest value */
        double smallest, largest;
    } f[] = { { RFG_E4M3, 0x38, 0x7e, 0x1p-9, 448 },
              { RFG_E4M3FNUZ, 0x40, 0x7f, 0x1p-10, 240 },
              { RFG_E5M2, 0x3c, 0x7b, 0x1p-16, 57344 },
              { RFG_I8, 1, 127, 1, 127 } };
    for (size_t d = 0; d < sizeof(f) / sizeof(f[0]); d++) {
        rfg_dtype t = f[d].dtype;
        uint8_t code, got, smallest = 1, one = (uint8_t)f[d].one, last = (uint8_t)f[d].last;
        ck_assert(rfg_load(&smallest, t, 0) == f[d].smallest && rfg_load(&one, t, 0) == 1);
        ck_assert(rfg_load(&last, t, 0) == f[d].largest && rfg_largest(t) == f[d].largest);
        for (int i = 0; i < 256; i++) {
            code = (uint8_t)i;
            double v = rfg_load(&code, t, 0);
            if (isfinite(v)) {
                rfg_store(&got, t, 0, v);
                ck_assert_msg(got == code, "%s: %02x comes back as %02x", rfg_dtype_name(t), code, got);
            }
        }
        for (int i = 0; i < f[d].last; i++) {
            uint8_t lo = (uint8_t)i, hi = (uint8_t)(i + 1);
            double a = rfg_load(&lo, t, 0), b = rfg_load(&hi, t, 0), mid = (a + b) / 2;
            ck_assert_msg(b > a && rfg_ulp(t, a) == b - a, "%s: %02x", rfg_dtype_name(t), lo);
            rfg_store(&got, t, 0, mid);
            ck_assert_msg(got == (i & 1 ? hi : lo), "%s: the tie above %02x", rfg_dtype_name(t), lo);
            rfg_store(&got, t, 0, nextafter(mid, 0));
            ck_assert_uint_eq(got, lo);
            rfg_store(&got, t, 0, -nextafter(mid, INFINITY));
            ck_assert_uint_eq(got, (uint8_t)(t == RFG_I8 ? -hi : hi | 0x80));
        }
        rfg_store(&got, t, 0, 1e9);
        ck_assert_uint_eq(got, last);
        rfg_store(&got, t, 0, 1e30);
        ck_assert_uint_eq(got, last);
        rfg_store(&got, t, 0, INFINITY);
        ck_assert_uint_eq(got, last);
        rfg_store(&got, t, 0, -INFINITY);
        ck_assert_uint_eq(got, t == RFG_I8 ? 0x80 : last | 0x80);
        rfg_store(&got, t, 0, -0.0);
        ck_assert_uint_eq(got, t == RFG_I8 || t == RFG_E4M3FNUZ ? 0 : 0x80);
        rfg_store(&got, t, 0, NAN);
        ck_assert(t == RFG_I8 ? got == 0 : isnan(rfg_load(&got, t, 0)));
    }
}
END_TEST

START_TEST(i32_values)
{
    int32_t got;
    ck_assert(!strcmp(rfg_dtype_name(RFG_I32), "i32"));
    ck_assert(rfg_largest(RFG_I32) == INT32_MAX && rfg_ulp(RFG_I32, 1e6) == 1);
    for (int i = 0; i < 2; i++) {
        rfg_store(&got, RFG_I32, 0, i ? -123456789.0 : 16777217.0);
        ck_assert(got == (i ? -123456789 : 16777217) && rfg_load(&got, RFG_I32, 0) == got);
    }
    rfg_store(&got, RFG_I32, 0, -1e30);
    ck_assert_int_eq(got, INT32_MIN);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("conversions");
    TCase *tc = test_case(s, "conversions", NULL, NULL);
    ADD_TESTS(tc, bf16_codes, f16_codes, rounding, byte_formats, i32_values);
    return run_suite(s);
}
