/* SPDX-License-Identifier: MIT
 *
 * The harness that every other result rests on: its conversions over all codes, its oracle against sums done by hand,
 * and that its checks do find each kind of mistake. */
#include <check.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../tuner/harness.h"
#include "rfg/rfg.h"
#include "suite.h"

/* ---- conversions --------------------------------------------------------------------------------------------------
 */

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
    ck_assert(rfg_dtype_size(RFG_I32) == 4 && !strcmp(rfg_dtype_name(RFG_I32), "i32"));
    ck_assert(rfg_largest(RFG_I32) == INT32_MAX && rfg_ulp(RFG_I32, 1e6) == 1);
    for (int i = 0; i < 2; i++) {
        rfg_store(&got, RFG_I32, 0, i ? -123456789.0 : 16777217.0);
        ck_assert(got == (i ? -123456789 : 16777217) && rfg_load(&got, RFG_I32, 0) == got);
    }
    rfg_store(&got, RFG_I32, 0, -1e30);
    ck_assert_int_eq(got, INT32_MIN);
}
END_TEST

/* ---- the oracle ---------------------------------------------------------------------------------------------------
 */

START_TEST(oracle_by_hand)
{
    /* x = [1 2 3; -4 5 0.5], w = [2 -1 4; 0.25 8 -2], bias = [10 -1] */
    float x[] = { 1, 2, 3, -99, -4, 5, .5f }, w[] = { 2, -1, 4, .25f, 8, -2 }, b[] = { 10, -1 };
    const double sums[] = { 22, 9.25, -1, 37 }, mags[] = { 26, 23.25, 25, 43 };
    struct rfg_problem p;
    ck_assert(rfg_problem_parse(&p, "gemm f32,f32->f32 M=2 N=2 K=3 ldx=4 bias=1", NULL));
    rfg_tensor t[RFG_MAX_TENSORS] = {
        { 0 }, rfg_tensor_2d(x, RFG_F32, 2, 3, 4), rfg_tensor_2d(w, RFG_F32, 2, 3, 3), rfg_tensor_1d(b, RFG_F32, 2)
    };
    double e[4], a[4];
    struct rfg_expected want[RFG_MAX_TENSORS] = { { e, a } };
    int64_t rows[] = { 0, 1 };
    ck_assert_int_eq(rfg_oracle(&p, t, rows, 2, want), RFG_OK);
    for (int i = 0; i < 4; i++) {
        double allow = (sqrt(3) + 4) * 0x1p-24 * mags[i] + 0x1p-126;
        ck_assert_msg(e[i] == sums[i] && a[i] == allow, "[%d] is %g +- %g, not %g +- %g", i, e[i], a[i], sums[i],
                      allow);
    }
    ck_assert_int_eq(rfg_oracle(&p, t, rows + 1, 1, want), RFG_OK);
    ck_assert(e[0] == -1 && e[1] == 37);
}
END_TEST

/* ---- the checks find mistakes -------------------------------------------------------------------------------------
 */

static rfg_context *ctx;
static struct rfg_case *c;

static void begin(const char *text, enum rfg_data data)
{
    struct rfg_problem p;
    rfg_context_params cp = { .device = "cpu", .user_db = "", .system_db = "", .cache_dir = "", .threads = 1 };
    struct rfg_case_params params = { .seed = 5, .data = data };
    ck_assert_msg(rfg_context_create(&ctx, &cp) == RFG_OK, "%s", rfg_last_error());
    ck_assert(rfg_problem_parse(&p, text, NULL));
    ck_assert_msg(rfg_case_create(ctx, &p, &params, &c) == RFG_OK, "%s", rfg_last_error());
    ck_assert_msg(rfg_case_run(c, 0, NULL, NULL) == RFG_OK, "%s", rfg_last_error());
}

static void end(void)
{
    rfg_case_destroy(&c);
    rfg_context_destroy(&ctx);
}

static struct rfg_check checked(void)
{
    struct rfg_check k;
    ck_assert_msg(rfg_case_check(c, 0, &k) == RFG_OK, "%s", rfg_last_error());
    return k;
}

START_TEST(finds_wrong_values)
{
    begin("gemm bf16,bf16->bf16 M=3 N=50 K=256 ldy=56", RFG_DATA_RANDOM);
    ck_assert_msg(checked().ok, "%s", checked().message);
    const rfg_tensor *y = rfg_case_tensors(c, 0);
    uint16_t *e = (uint16_t *)y->data + 2 * 56 + 49, was = *e;
    *e = (uint16_t)(was + 2); /* two ulps off */
    struct rfg_check k = checked();
    ck_assert(!k.ok && k.wrong == 1 && !k.guard_broken);
    ck_assert_msg(strstr(k.message, "y[2,49]") && strstr(k.message, "seed=5") && strstr(k.message, "M=3 N=50"), "%s",
                  k.message);
    *e = 0xffff; /* never written: still poison */
    ck_assert_int_eq(checked().wrong, 1);
    *e = 0x7f80; /* infinity */
    ck_assert_int_eq(checked().wrong, 1);
    *e = was ^ 0x8000;
    ck_assert_int_eq(checked().wrong, 1);
    *e = was;
    ck_assert(checked().ok);
    end();
}
END_TEST

START_TEST(finds_writes_elsewhere)
{
    begin("gemm f16,f16->f32 M=3 N=50 K=64 ldy=56 bias=1", RFG_DATA_RANDOM);
    const rfg_tensor *t = rfg_case_tensors(c, 0);
    char *at[] = { (char *)t[0].data - 1,                      /* before the output */
                   (char *)t[0].data + 50 * 4,                 /* between its rows */
                   (char *)t[0].data + (2 * 56 + 50) * 4,      /* after it */
                   (char *)t[1].data + 5, (char *)t[3].data }; /* inputs */
    for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
        *at[i] ^= 1;
        struct rfg_check k = checked();
        ck_assert_msg(!k.ok && k.guard_broken && !k.wrong, "place %zu: not seen", i);
        ck_assert_ptr_nonnull(strstr(k.message, "outside the output"));
        *at[i] ^= 1;
    }
    ck_assert(checked().ok);
    end();
}
END_TEST

/* A sum kept in 16 bits is outside the tolerance, on data made for it. */
/* The quick check looks at all but the inside of large inputs, and at samples of that; the thorough one at everything.
 */
START_TEST(quick_checks)
{
    enum { N = 4096, K = 1024 }; /* 8 MiB of W */
    struct rfg_problem prob;
    struct rfg_reason why;
    struct rfg_check got;
    struct rfg_case_params params = { .seed = 5, .check_rows = 1 };
    rfg_context_params cp = { .device = "cpu", .user_db = "", .system_db = "", .cache_dir = "", .threads = 2 };
    ck_assert_int_eq(rfg_context_create(&ctx, &cp), RFG_OK);
    ck_assert(rfg_problem_parse(&prob, "gemm bf16,bf16->bf16 M=2 N=4096 K=1024", &why));
    ck_assert_int_eq(rfg_case_create(ctx, &prob, &params, &c), RFG_OK);
    const rfg_tensor *t = rfg_case_tensors(c, 0);
    char *y = t[0].data, *x = t[1].data, *w = t[2].data;
    char *const places[] = {
        x - 1,        x, x + 2 * K * 2 - 1, w - 1, w, w + 1000, w + (size_t)N * K * 2 - 1, w + (size_t)N * K * 2, y - 1,
        y + 2 * N * 2
    };
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        ck_assert_int_eq(rfg_case_poison(c, 0), RFG_OK);
        ck_assert_int_eq(rfg_case_run(c, 0, NULL, NULL), RFG_OK);
        *places[i] ^= 1;
        ck_assert_int_eq(rfg_case_check_quickly(c, 0, &got), RFG_OK);
        ck_assert_msg(got.guard_broken && !got.ok && !got.wrong, "place %zu", i);
    }
    ck_assert_int_eq(rfg_case_poison(c, 0), RFG_OK);
    for (int again = 0; again < 2; again++) { /* outputs are poisoned each time */
        ck_assert_int_eq(rfg_case_poison_quickly(c, 0), RFG_OK);
        ck_assert_int_eq(rfg_case_check_quickly(c, 0, &got), RFG_OK);
        ck_assert(got.wrong == N && !got.guard_broken);
        ck_assert_int_eq(rfg_case_run(c, 0, NULL, NULL), RFG_OK);
        ck_assert_int_eq(rfg_case_check_quickly(c, 0, &got), RFG_OK);
        ck_assert(got.ok && !got.guard_broken);
    }
    /* Somewhere between: of many places some are seen; the thorough check sees each, and poison mends it. */
    int seen = 0;
    for (int i = 0; i < 256; i++) {
        char *at = w + 100000 + (size_t)i * 31013;
        *at ^= 1;
        ck_assert_int_eq(rfg_case_check_quickly(c, 0, &got), RFG_OK);
        seen += got.guard_broken;
        *at ^= 1;
    }
    ck_assert_msg(seen > 0 && seen < 128, "%d of 256", seen);
    w[4000000] ^= 1;
    ck_assert_int_eq(rfg_case_check(c, 0, &got), RFG_OK);
    ck_assert(got.guard_broken);
    ck_assert_int_eq(rfg_case_poison(c, 0), RFG_OK);
    ck_assert_int_eq(rfg_case_run(c, 0, NULL, NULL), RFG_OK);
    ck_assert_int_eq(rfg_case_check(c, 0, &got), RFG_OK);
    ck_assert(got.ok);
    end();
}
END_TEST

START_TEST(finds_16_bit_accumulation)
{
    begin("gemm bf16,bf16->f32 M=2 N=8 K=512", RFG_DATA_CANCEL);
    ck_assert(checked().ok);
    const rfg_tensor *t = rfg_case_tensors(c, 0);
    for (int m = 0; m < 2; m++)
        for (int n = 0; n < 8; n++) {
            uint16_t acc = 0;
            for (int k = 0; k < 512; k++)
                rfg_store(&acc, RFG_BF16, 0,
                          rfg_load(&acc, RFG_BF16, 0) +
                              rfg_load(t[1].data, RFG_BF16, m * 512 + k) * rfg_load(t[2].data, RFG_BF16, n * 512 + k));
            ((float *)t[0].data)[m * 8 + n] = (float)rfg_load(&acc, RFG_BF16, 0);
        }
    struct rfg_check k = checked();
    ck_assert_msg(k.wrong >= 12, "only %d of 16 found", (int)k.wrong);
    end();
}
END_TEST

/* What proves nothing is said: no output differs from another. */
START_TEST(finds_trivial_data)
{
    begin("gemm bf16,bf16->bf16 M=3 N=50 K=0", RFG_DATA_RANDOM);
    struct rfg_check k = checked();
    ck_assert(!k.ok && k.trivial && !k.wrong);
    ck_assert_ptr_nonnull(strstr(k.message, "proves nothing"));
    end();
}
END_TEST

/* NaN must be NaN, infinity the right one; and nothing else may be. */
START_TEST(special_values)
{
    begin("gemm bf16,bf16->f32 M=24 N=60 K=64", RFG_DATA_SPECIAL);
    ck_assert_msg(checked().ok, "%s", checked().message);
    float *y = rfg_case_tensors(c, 0)[0].data;
    int nan = -1, inf = -1, finite = -1;
    for (int i = 0; i < 24 * 60; i++)
        *(isnan(y[i]) ? &nan : isinf(y[i]) ? &inf : &finite) = i;
    ck_assert_msg(nan >= 0 && inf >= 0 && finite >= 0, "the data has too little of a kind: nan %d inf %d finite %d",
                  nan, inf, finite);
    float was = y[nan];
    y[nan] = 1;
    ck_assert_int_eq(checked().wrong, 1);
    y[nan] = INFINITY;
    ck_assert_int_eq(checked().wrong, 1);
    y[nan] = was;
    was = y[inf];
    y[inf] = -was;
    ck_assert_int_eq(checked().wrong, 1);
    y[inf] = was;
    y[finite] = NAN;
    ck_assert_int_eq(checked().wrong, 1);
    end();
}
END_TEST

START_TEST(data_is_reproducible)
{
    void *a, *b;
    size_t n, m;
    begin("gemm bf16,bf16->bf16 M=3 N=50 K=100", RFG_DATA_RANDOM);
    ck_assert_int_eq(rfg_case_outputs(c, 0, &a, &n), RFG_OK);
    end();
    begin("gemm bf16,bf16->bf16 M=3 N=50 K=100", RFG_DATA_RANDOM);
    ck_assert_int_eq(rfg_case_outputs(c, 0, &b, &m), RFG_OK);
    ck_assert(n == m && n == 3 * 50 * 2 && !memcmp(a, b, n));
    free(a);
    free(b);
    end();
}
END_TEST

/* ---- timing -------------------------------------------------------------------------------------------------------
 */

START_TEST(times_are_sane)
{
    begin("gemm bf16,bf16->bf16 M=1 N=64 K=4096", RFG_DATA_RANDOM);
    const struct rfg_plan *plan = rfg_plan_find(ctx, rfg_case_problem(c));
    ck_assert_ptr_nonnull(plan);
    struct rfg_times one, race[2];
    ck_assert_int_eq(rfg_case_time(c, plan, 11, 5, &one), RFG_OK);
    ck_assert_int_eq(one.n, 11);
    for (int i = 0; i < 11; i++)
        ck_assert(one.us[i] > 0 && (i == 0 || one.us[i] >= one.us[i - 1]));
    ck_assert(rfg_times_at(&one, 0) == one.us[0] && rfg_times_at(&one, 1) == one.us[10] &&
              rfg_times_at(&one, .5) == one.us[5]);
    const struct rfg_plan *plans[] = { plan, plan };
    ck_assert_int_eq(rfg_case_race(c, plans, 2, 7, 5, race), RFG_OK);
    ck_assert(race[0].n == 7 && race[1].n == 7);
    rfg_times_free(&one);
    rfg_times_free(&race[0]);
    rfg_times_free(&race[1]);
    end();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("harness");
    TCase *tc = tcase_create("harness");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, bf16_codes);
    tcase_add_test(tc, f16_codes);
    tcase_add_test(tc, rounding);
    tcase_add_test(tc, byte_formats);
    tcase_add_test(tc, i32_values);
    tcase_add_test(tc, oracle_by_hand);
    tcase_add_test(tc, finds_wrong_values);
    tcase_add_test(tc, finds_writes_elsewhere);
    tcase_add_test(tc, quick_checks);
    tcase_add_test(tc, finds_16_bit_accumulation);
    tcase_add_test(tc, finds_trivial_data);
    tcase_add_test(tc, special_values);
    tcase_add_test(tc, data_is_reproducible);
    tcase_add_test(tc, times_are_sane);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
