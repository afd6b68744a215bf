/* SPDX-License-Identifier: MIT
 *
 * The harness, on which all other results depend: its oracle against sums done by hand, and its checks against each
 * kind of mistake. (Its conversions: test_conversions.c.) */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness_case.h"

/* ---- the oracle -------------------------------------------------------------------------------------------------- */

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
    const int64_t rows[] = { 0, 1 };
    struct rfg_expected want[RFG_MAX_TENSORS] = { { rows, 2, e, a } };
    ck_assert_int_eq(rfg_oracle_gemm(&p, t, want), RFG_OK);
    for (int i = 0; i < 4; i++) {
        double allow = (sqrt(3) + 4) * 0x1p-24 * mags[i] + 0x1p-126;
        ck_assert_msg(e[i] == sums[i] && a[i] == allow, "[%d] is %g +- %g, not %g +- %g", i, e[i], a[i], sums[i],
                      allow);
    }
    want[0].rows = rows + 1;
    want[0].n_rows = 1;
    ck_assert_int_eq(rfg_oracle_gemm(&p, t, want), RFG_OK);
    ck_assert(e[0] == -1 && e[1] == 37);
}
END_TEST

/* Weights of 4 bits, a scale for two columns: no variant takes such a problem yet, or all do. */
START_TEST(oracle_scales_weights)
{
    /* x = [1 2 3 4], w = [1 -8 7 2; -1 0 3 -3], scales [0.5 2; -4 0.25] */
    float x[] = { 1, 2, 3, 4 }, scales[] = { .5f, 2, -4, .25f };
    const uint8_t w[] = { 0x81, 0x27, 0x0f, 0xd3 };
    const double sums[] = { -7.5 + 58, 4 - .75 }, mags[] = { 8.5 + 58, 4 + 5.25 };
    struct rfg_problem p;
    ck_assert(rfg_problem_parse(&p, "gemm f32,f32->f32 M=1 N=2 K=4", NULL));
    p.dtype[1] = RFG_I4;
    p.v[rfg_op_key(p.op, "w_scale")] = RFG_F32;
    p.v[rfg_op_key(p.op, "w_group")] = 2;
    rfg_tensor t[RFG_MAX_TENSORS] = { { 0 },
                                      rfg_tensor_2d(x, RFG_F32, 1, 4, 4),
                                      rfg_tensor_2d((void *)(uintptr_t)w, RFG_I4, 2, 4, 4),
                                      { 0 },
                                      rfg_tensor_2d(scales, RFG_F32, 2, 2, 2) };
    double e[2], a[2];
    const int64_t rows[] = { 0 };
    struct rfg_expected want[RFG_MAX_TENSORS] = { { rows, 1, e, a } };
    ck_assert_int_eq(rfg_oracle_gemm(&p, t, want), RFG_OK);
    for (int i = 0; i < 2; i++) {
        double allow = (2 + 4) * 0x1p-24 * mags[i] + 0x1p-126;
        ck_assert_msg(e[i] == sums[i] && a[i] == allow, "[%d] is %g +- %g, not %g +- %g", i, e[i], a[i], sums[i],
                      allow);
    }
}
END_TEST

/* ---- the checks find mistakes ------------------------------------------------------------------------------------ */

/* Weights of 4 bits as an input: every code is drawn, rows are apart, and one wrong code is found. */
START_TEST(finds_a_wrong_i4)
{
    struct rfg_problem p;
    struct rfg_case_params params = { .seed = 5, .fenced = true };
    begin("gemm f32,f32->f32 M=9 N=20 K=64 ldw=72", RFG_DATA_RANDOM);
    p = *rfg_case_problem(c);
    rfg_case_destroy(&c);
    p.dtype[1] = RFG_I4; /* no variant says that it takes it, so it runs below without being asked */
    p.v[rfg_op_key(p.op, "w_scale")] = RFG_F32;
    p.v[rfg_op_key(p.op, "w_group")] = 32;
    ck_assert_msg(rfg_case_create(ctx, &p, &params, &c) == RFG_OK, "%s", rfg_last_error());
    const rfg_tensor *t = rfg_case_tensors(c, 0);
    const struct rfg_variant *v = rfg_variant_find(p.op, "gemm_cpu_portable");
    const struct rfg_device *dev = rfg_context_info(ctx);
    const int config[RFG_MAX_PARAMS] = { 2, 4, 0, 0 };
    uint8_t *w = t[2].data;
    unsigned codes = 0;
    for (int n = 0; n < 20; n++) {
        for (int k = 0; k < 32; k++)
            codes |= 1u << (w[n * 36 + k] & 15) | 1u << (w[n * 36 + k] >> 4);
        for (int k = 32; k < 36 && n < 19; k++)
            ck_assert_uint_eq(w[n * 36 + k], w[32]);
    }
    ck_assert_msg(codes == 0xffff, "codes %#x", codes);
    struct rfg_cpu_pool *pool = rfg_cpu_pool_create(1);
    max_align_t args[32];
    ck_assert(p.op->kargs_size <= sizeof(args));
    rfg_op_case_of(p.op)->pack(&p, t, args);
    struct rfg_kargs_head *head = (void *)((char *)args + p.op->head);
    head->workspace = aligned_alloc(256, (v->workspace(dev, &p, config) + 255) & ~(size_t)255);
    for (int wrong = 0; wrong < 2; wrong++) {
        w[7 * 36 + 3] ^= wrong ? 0x10 : 0;
        v->run(dev, &p, config, args, pool);
        struct rfg_check k = checked();
        ck_assert_msg(k.ok == !wrong && !k.trivial, "%s", k.message);
        ck_assert_int_eq(k.wrong, wrong ? 9 : 0); /* column 7 of each row */
    }
    free(head->workspace);
    rfg_cpu_pool_destroy(&pool);
    end();
}
END_TEST

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
/* The same where a tensor has memory of its own: between its rows, and in what is left of its last 16 bytes. */
START_TEST(finds_writes_beside_a_fenced_tensor)
{
    static const int beside[] = { -1, 5, 17, 19 }; /* of 3 rows of 5, 6 apart, in 80 bytes */
    begin_with("gemm f32,f32->f32 M=3 N=5 K=7 ldy=6", (struct rfg_case_params){ .seed = 5, .fenced = true });
    ck_assert_msg(checked().ok, "%s", checked().message);
    float *y = rfg_case_tensors(c, 0)[0].data;
    for (size_t i = 0; i < sizeof(beside) / sizeof(beside[0]); i++) {
        float was = y[beside[i]];
        y[beside[i]] = 1;
        struct rfg_check k = checked();
        ck_assert_msg(k.guard_broken && !k.wrong, "y[%d]: %s", beside[i], k.message);
        y[beside[i]] = was;
    }
    ck_assert(checked().ok);
    end();
}
END_TEST

/* What lies there can't be read, which the kernel says without a signal if it is to write it somewhere. */
START_TEST(nothing_behind_a_fenced_tensor)
{
    begin_with("gemm f32,f32->f32 M=3 N=8 K=8", (struct rfg_case_params){ .seed = 5, .fenced = true });
    int fd[2];
    ck_assert_int_eq(pipe(fd), 0);
    for (int i = 0; i < 3; i++) {
        const rfg_tensor *t = &rfg_case_tensors(c, 0)[i];
        const char *behind = (const char *)t->data + t->shape[0] * 8 * 4;
        ck_assert_int_eq(write(fd[1], behind - 1, 1), 1);
        ck_assert(write(fd[1], behind, 1) == -1 && errno == EFAULT);
    }
    close(fd[0]);
    close(fd[1]);
    end();
}
END_TEST

/* NaN lies before, behind and between the rows of inputs: a kernel that reads there shows it. */
START_TEST(surrounds_inputs_with_nan)
{
    begin("gemm f32,f32->f32 M=3 N=8 K=8 ldx=9 ldw=11", RFG_DATA_RANDOM);
    for (int i = 0, found = 0; i < 3; i++) {
        const rfg_tensor *t = &rfg_case_tensors(c, 0)[i];
        const float *f = t->data;
        int64_t ld = t->strides[0];
        if (ld == 8)
            continue; /* y */
        ck_assert(isnan(f[-1]) && isnan(f[8]) && isnan(f[ld - 1]) && isnan(f[(t->shape[0] - 1) * ld + 8]));
        ck_assert(!isnan(f[0]) && !isnan(f[7]) && !isnan(f[ld]));
        ck_assert_int_le(++found, 2);
    }
    end();
}
END_TEST

START_TEST(quick_checks)
{
    enum { N = 4096, K = 1024 }; /* 8 MiB of W */
    struct rfg_problem prob;
    struct rfg_reason why;
    struct rfg_check got;
    struct rfg_case_params params = { .seed = 5, .check_rows = 1 };
    rfg_context_params cp = {
        .size = sizeof(cp), .device = "cpu", .user_db = "", .system_db = "", .cache_dir = "", .threads = 2
    };
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

/* Puts in place of y what a matrix unit gives that keeps `bits` bits behind the largest of 32 products and the sum
 * before, rounding down as a shift of two's complement does; its sums of 128 columns are added in fp64. */
static int wrong_with_bits(const char *text, int bits)
{
    begin(text, RFG_DATA_RANDOM);
    const struct rfg_problem *p = rfg_case_problem(c);
    const rfg_tensor *t = rfg_case_tensors(c, 0);
    int64_t rows = p->v[0], cols = p->v[1], k = p->v[2];
    for (int64_t m = 0; m < rows; m++)
        for (int64_t n = 0; n < cols; n++) {
            double all = 0, sum = 0;
            for (int64_t from = 0; from < k; from += 32) {
                double term[33], largest = 0, quantum, next = 0;
                if (from % 128 == 0) {
                    all += sum;
                    sum = 0;
                }
                for (int i = 0; i < 32; i++)
                    term[i] = rfg_load(t[1].data, t[1].dtype, m * k + from + i) *
                              rfg_load(t[2].data, t[2].dtype, n * k + from + i);
                term[32] = sum;
                for (int i = 0; i < 33; i++)
                    largest = fmax(largest, fabs(term[i]));
                quantum = ldexp(1, ilogb(largest) - bits);
                for (int i = 0; i < 33; i++)
                    next += floor(term[i] / quantum) * quantum;
                sum = next;
            }
            ((float *)t[0].data)[m * cols + n] = (float)(all + sum);
        }
    struct rfg_check got = checked();
    end();
    return (int)got.wrong;
}

START_TEST(fast_accum_allows_14_bits)
{
    ck_assert_int_eq(wrong_with_bits("gemm e4m3,e4m3->f32 M=4 N=16 K=2048 fast=1", 13), 0);
    ck_assert_int_eq(wrong_with_bits("gemm e5m2,e5m2->f32 M=4 N=16 K=1024 fast=1", 13), 0);
    ck_assert_int_ge(wrong_with_bits("gemm e4m3,e4m3->f32 M=4 N=16 K=2048 fast=1", 9), 56);
    ck_assert_int_ge(wrong_with_bits("gemm e4m3,e4m3->f32 M=4 N=16 K=2048", 13), 56);
}
END_TEST

/* What proves nothing is said: no output differs from another. */
/* With exact data a result that was rounded before the bias, too, is wrong wherever that shows. */
START_TEST(finds_a_second_rounding)
{
    static const char *const problems[] = { "gemm bf16,bf16->bf16 M=9 N=40 K=128 bias=1",
                                            "gemm f16,f16->f16 M=9 N=40 K=4096 bias=1" };
    for (int p = 0; p < 2; p++) {
        begin(problems[p], RFG_DATA_EXACT);
        ck_assert_msg(checked().ok, "%s", checked().message);
        const rfg_tensor *t = rfg_case_tensors(c, 0);
        rfg_dtype d = t[0].dtype;
        int shows = 0;
        for (int i = 0; i < 9 * 40; i++) {
            double sum = 0, bias = rfg_load(t[3].data, d, i % 40), right = rfg_load(t[0].data, d, i), twice;
            for (int64_t k = 0; k < t[1].shape[1]; k++)
                sum += rfg_element(&t[1], i / 40, k) * rfg_element(&t[2], i % 40, k);
            rfg_store(t[0].data, d, i, sum);
            rfg_store(t[0].data, d, i, rfg_load(t[0].data, d, i) + bias);
            twice = rfg_load(t[0].data, d, i);
            shows += twice != right;
        }
        ck_assert_int_gt(shows, 36); /* one in ten at least */
        ck_assert_int_eq(checked().wrong, shows);
        end();
    }
}
END_TEST

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

/* ---- attention's mistakes are seen in long contexts -------------------------------------------------------------- */

enum { MHA_OUT, MHA_LSE, MHA_Q, MHA_K, MHA_V, MHA_CU_Q = 9, MHA_TABLE = 11 }; /* as the op lists its tensors */

/* One query of one head against a mistake's keys: how it should be, and with the mistake. */
struct attended {
    double out[64], sum;
};
struct mistake {
    const char *dtypes;
    int s, first, n, times; /* keys from `first` on are counted so often */
};

static void attend(const struct mistake *m, struct attended *right, struct attended *wrong)
{
    enum { PAGE = 16, D = 64 };
    const rfg_tensor *t = rfg_case_tensors(c, 0);
    const int32_t *table = t[MHA_TABLE].data;
    memset(right, 0, sizeof(*right));
    memset(wrong, 0, sizeof(*wrong));
    for (int key = 0; key < m->s; key++) {
        int64_t row = (int64_t)table[key / PAGE] * PAGE + key % PAGE;
        double score = 0;
        for (int i = 0; i < D; i++)
            score += rfg_load(t[MHA_Q].data, t[MHA_Q].dtype, i) * rfg_load(t[MHA_K].data, t[MHA_K].dtype, row * D + i);
        double w = exp(score / sqrt(D)), times = key >= m->first && key < m->first + m->n ? m->times : 1;
        right->sum += w;
        wrong->sum += w * times;
        for (int i = 0; i < D; i++) {
            double x = w * rfg_load(t[MHA_V].data, t[MHA_V].dtype, row * D + i);
            right->out[i] += x;
            wrong->out[i] += x * times;
        }
    }
}

static void put_attended(const struct attended *a)
{
    const rfg_tensor *t = rfg_case_tensors(c, 0);
    for (int i = 0; i < 64; i++)
        rfg_store(t[MHA_OUT].data, t[MHA_OUT].dtype, i, a->out[i] / a->sum);
}

/* Steps and pages are of 16 keys. */
static const struct mistake dropped[] = {
    { "bf16->bf16", 32768, 0, 1, 0 },      { "bf16->bf16", 32768, 15, 1, 0 },      { "bf16->bf16", 32768, 4096, 1, 0 },
    { "bf16->bf16", 32768, 20007, 1, 0 },  { "bf16->bf16", 32768, 32767, 1, 0 },   { "f16->f16", 32768, 777, 1, 0 },
    { "bf16->bf16", 131072, 65536, 1, 0 }, { "bf16->bf16", 131072, 131071, 1, 0 }, { "f16->f16", 131072, 70000, 1, 0 },
    { "bf16->bf16", 131072, 4096, 16, 0 },
};
static const struct mistake doubled[] = {
    { "bf16->bf16", 32768, 0, 16, 2 },      { "bf16->bf16", 32768, 16384, 16, 2 },
    { "bf16->bf16", 131072, 65536, 16, 2 }, { "bf16->bf16", 131072, 131056, 16, 2 },
    { "f16->f16", 131072, 8000, 16, 2 },
};

static void must_find(const struct mistake *m)
{
    char text[RFG_PROBLEM_STRLEN];
    struct attended right, wrong;
    snprintf(text, sizeof(text), "mha_decode %s B=1 Hq=1 Hkv=1 D=64 S=%d lse=1 page=16", m->dtypes, m->s);
    begin(text, RFG_DATA_RANDOM);
    ck_assert_msg(checked().ok, "%s", checked().message);
    attend(m, &right, &wrong);
    put_attended(&right);
    ck_assert_msg(checked().ok, "%s", checked().message);
    put_attended(&wrong);
    ck_assert_msg(checked().wrong > 0, "%s: keys %d to %d counted %d times: not seen in out, %g of what it takes", text,
                  m->first, m->first + m->n - 1, m->times, checked().max_ratio);
    if (m->s / m->n <= 8192) { /* fewer of more are within what a sum in fp32 loses */
        put_attended(&right);
        *(float *)rfg_case_tensors(c, 0)[MHA_LSE].data = (float)log(wrong.sum);
        ck_assert_msg(checked().wrong == 1, "%s: keys %d to %d counted %d times: not seen in lse", text, m->first,
                      m->first + m->n - 1, m->times);
    }
    end();
}

START_TEST(finds_a_dropped_key)
{
    must_find(&dropped[_i]);
}
END_TEST

START_TEST(finds_a_doubled_page)
{
    must_find(&doubled[_i]);
}
END_TEST

/* A checked run of a plan asks for lse where the problem is without; others leave it alone, and so must they. */
START_TEST(checks_lse_always)
{
    struct rfg_problem p;
    const struct rfg_variant *var;
    struct rfg_plan *plan;
    int params[RFG_MAX_PARAMS] = { 0 };
    struct rfg_reason why;
    void *bytes;
    size_t size[2];
    begin("mha_decode bf16->bf16 B=3 Hq=4 Hkv=2 D=64 S=50 page=16", RFG_DATA_RANDOM);
    ck_assert_msg(checked().ok && checked().checked == 3 * 4 * 64, "%s", checked().message);
    p = *rfg_case_problem(c);
    ck_assert(rfg_config_parse(p.op, "mha_decode_cpu_portable", &var, params, &why));
    ck_assert_int_eq(rfg_plan_create(ctx, &p, var, params, &plan), RFG_OK);
    for (int all = 0; all < 2; all++) {
        ck_assert_int_eq(rfg_case_poison(c, 0), RFG_OK);
        ck_assert_int_eq((all ? rfg_case_run_checked : rfg_case_run)(c, 0, plan, NULL), RFG_OK);
        ck_assert_msg(checked().ok && checked().checked == 3 * 4 * (64 + all), "%s", checked().message);
        ck_assert_int_eq(rfg_case_outputs(c, 0, &bytes, &size[all]), RFG_OK);
        free(bytes);
    }
    ck_assert_uint_eq(size[1], size[0] + 3 * 4 * sizeof(float));
    ck_assert_int_eq(rfg_case_run(c, 0, plan, NULL), RFG_OK); /* what was asked for before is now written by nobody */
    ck_assert(checked().guard_broken);
    rfg_plan_destroy(ctx, &plan);
    end();
}
END_TEST

/* Rows that belong to no sequence stay as they were; a NaN there isn't what was there. */
START_TEST(finds_writes_to_rows_of_nobody)
{
    begin("mha bf16->bf16 B=5 Hq=2 Hkv=1 D=64 S=60 Sq=30 lse=1 varlen=1 lens=any", RFG_DATA_RANDOM);
    const rfg_tensor *t = rfg_case_tensors(c, 0);
    int tokens = (int)t[MHA_Q].shape[0], used = ((const int32_t *)t[MHA_CU_Q].data)[5];
    ck_assert_int_lt(used, tokens);
    ck_assert_msg(checked().ok, "%s", checked().message);
    uint16_t *out = (uint16_t *)t[MHA_OUT].data + (tokens - 1) * 2 * 64 + 127, was = *out;
    float *lse = (float *)t[MHA_LSE].data + used * 2, had = *lse;
    ck_assert(was != 0xffff && had == had);
    static const uint16_t writes[] = { 0xffff, 0x7fc0, 0 };
    for (int i = 0; i < 3; i++) {
        *out = writes[i];
        ck_assert_int_eq(checked().wrong, 1);
        *out = was;
        *lse = i == 2 ? 0 : NAN;
        ck_assert_int_eq(checked().wrong, 1);
        *lse = had;
    }
    ck_assert(checked().ok);
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

int main(void)
{
    Suite *s = suite_create("harness");
    TCase *tc = test_case(s, "harness", NULL, NULL);
    ADD_TESTS(tc, oracle_by_hand, oracle_scales_weights, fast_accum_allows_14_bits, finds_a_wrong_i4,
              finds_wrong_values, finds_writes_elsewhere, finds_writes_beside_a_fenced_tensor,
              nothing_behind_a_fenced_tensor, surrounds_inputs_with_nan, quick_checks, finds_16_bit_accumulation,
              finds_a_second_rounding, finds_trivial_data, special_values, checks_lse_always,
              finds_writes_to_rows_of_nobody, data_is_reproducible);
    ADD_LOOPS(tc, sizeof(dropped) / sizeof(dropped[0]), finds_a_dropped_key);
    ADD_LOOPS(tc, sizeof(doubled) / sizeof(doubled[0]), finds_a_doubled_page);
    return run_suite(s);
}
