/* SPDX-License-Identifier: MIT
 *
 * ops/quantize/quotient.h, kernels' text, with the processor's arithmetic: beside its division. */
#include <inttypes.h>
#include <math.h>

#include "ops/format.h"
#include "tests/suite.h"

#define RFG_DEVICE static inline
typedef uint32_t rfg_u32;
RFG_DEVICE rfg_u32 rfg_as_u32(float f)
{
    rfg_u32 u;
    memcpy(&u, &f, sizeof(u));
    return u;
}
RFG_DEVICE float rfg_as_float(rfg_u32 u)
{
    float f;
    memcpy(&f, &u, sizeof(f));
    return f;
}
RFG_DEVICE float rfg_fma(float a, float b, float c)
{
    return fmaf(a, b, c);
}
RFG_DEVICE float rfg_reciprocal(float f)
{
    return 1 / f;
}
RFG_DEVICE float rfg_rcp(float f)
{
    return 1 / f;
}
#include "ops/quantize/quotient.h"

/* Of an odd number: times it 1, modulo 2^64. */
static uint64_t inverse(uint64_t odd)
{
    uint64_t x = odd;
    for (int i = 0; i < 5; i++)
        x *= 2 - odd * x;
    return x;
}

/* x and s of 24 bits. x / s, times 2^p, is close to an odd m of 25 bits, so the quotient to what is halfway between two
 * numbers, where m s - 2^p x = k is small. What quotient.h is off by before it rounds is less than k = 4 stands for: r
 * by half a last place of at most 2^-24, q by 1.5 last places, the remainder perhaps by half of its last place. So
 * these are all pairs in doubt, up to powers of two: m is k times the inverse of s, modulo 2^p. */
START_TEST(halfway)
{
    int64_t pairs = 0;
    for (uint32_t s = 1u << 23; s < 1u << 24; s++) {
        int zeros = __builtin_ctz(s), most = 4;
        if (zeros > 2)
            continue; /* k has as many */
        struct quotient d = quotient_near((float)s);
        uint64_t unit = inverse(s >> zeros);
        for (int p = 24; p <= 25; p++) /* quotients from 1 on, or below */
            for (int k = -most; k <= most; k++) {
                if (!k || __builtin_ctz((unsigned)k) != zeros)
                    continue;
                uint64_t every = UINT64_C(1) << (p - zeros);
                for (uint64_t m = ((uint64_t)(k >> zeros) * unit) & (every - 1); m < 1u << 25; m += every) {
                    uint64_t x = (uint64_t)((int64_t)(m * s) - k) >> p;
                    if (m < 1u << 24 || !(m & 1) || x < 1u << 23 || x >= 1u << 24)
                        continue;
                    float want = (float)x / (float)s, got = quotient_of_near((float)x, d);
                    pairs += (int64_t)(m * s) - (int64_t)(x << p) == k;
                    if (got != want) /* (an assertion for each takes a minute) */
                        ck_abort_msg("%" PRIu64 " / %" PRIu32 ": %a, should be %a", x, s, (double)got, (double)want);
                }
            }
    }
    ck_assert_int_gt(pairs, 10000000);
}
END_TEST

static int code_of(rfg_dtype dtype, float v)
{
    uint8_t code;
    double value = (double)v;
    rfg_format((int)dtype)->encode(rfg_format((int)dtype), &code, &value);
    return code;
}

static void check_codes(float x, float s, float got, float want)
{
    static const rfg_dtype dtypes[] = { RFG_E4M3, RFG_E4M3FNUZ, RFG_E5M2, RFG_I8 };
    if (rfg_as_u32(got) == rfg_as_u32(want))
        return;
    for (int i = 0; i < 4; i++)
        if (code_of(dtypes[i], got) != code_of(dtypes[i], want))
            ck_abort_msg("%a / %a: %a, %s should be as of %a", (double)x, (double)s, (double)got,
                         rfg_dtype_name(dtypes[i]), (double)want);
}

/* Each bf16, and what lies between two, by scales of all magnitudes. */
START_TEST(magnitudes)
{
    static const float scales[] = { 1, 0x1.000002p0f, 0x1.fffffep0f, 0x1.234568p0f, 1 / 3.0f, 0x1.92p-4f };
    for (int e = -149; e <= 127; e += e < -74 || e > 114 ? 1 : 7)
        for (size_t i = 0; i < sizeof(scales) / sizeof(scales[0]); i++) {
            float s = ldexpf(scales[i], e) * (i == 4 ? -1 : 1);
            struct quotient any = quotient_by(s), near = quotient_near(s);
            bool is_near = s >= QUOTIENT_LEAST && s <= QUOTIENT_MOST;
            for (uint32_t b = 0; b < 0x10000; b += 3) {
                float x = rfg_as_float(b << 16 | (b * 40503u & 0xffffu)), want = x / s;
                check_codes(x, s, quotient_of(x, any), want);
                if (is_near && fabsf(x) <= 60000 * s)
                    check_codes(x, s, quotient_of_near(x, near), want);
            }
        }
}
END_TEST

START_TEST(specials)
{
    static const float v[] = { 0, -0.0f, 1, -1, 0x1p-149f, -0x1p-149f, 0x1.fffffep127f, INFINITY, -INFINITY, NAN };
    for (int i = 0; i < 10; i++)
        for (int j = 0; j < 10; j++) {
            float got = quotient_of(v[i], quotient_by(v[j])), want = v[i] / v[j];
            if (want != want)
                ck_assert_msg(got != got, "%a / %a: %a", (double)v[i], (double)v[j], (double)got);
            else
                check_codes(v[i], v[j], got, want);
        }
}
END_TEST

/* Of those that kernels take for near: the scale, which is stored, has all its bits. */
START_TEST(of_largest)
{
    static const float most[] = { 448, 240, 224, 57344, 127, 1, 0x1.fffffep0f, 100.3f };
    for (int i = 0; i < 8; i++) {
        struct quotient d = quotient_near(most[i]);
        for (int e = -60; e <= 120; e += 15)
            for (uint32_t u = 0; u < 1u << 23; u += 997) {
                float amax = ldexpf(rfg_as_float(0x3f800000u + u), e), got = quotient_of_near(amax, d);
                if (got != amax / most[i])
                    ck_abort_msg("%a / %a: %a", (double)amax, (double)most[i], (double)got);
            }
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("quotient");
    TCase *t = test_case(s, "quotient", NULL, NULL);
    tcase_set_timeout(t, 240);
    ADD_TESTS(t, halfway, magnitudes, specials, of_largest);
    return run_suite(s);
}
