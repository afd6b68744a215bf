/* SPDX-License-Identifier: MIT
 *
 * The harness takes any output: an operator of this file's own, with outputs of several shapes, indices, one that more
 * than one answer is right for, one in place of which few rows are written; right, and with each kind of mistake. */
#include <math.h>

#include "tuner/harness/harness.h"
#include "rfg/rfg.h"
#include "tests/suite.h"

/* The K largest of each of M rows of N and where they are (-1 where N has run out), the columns' sums, any element of
 * the row that is above 0 (or -1), and rows of x put into the slots of a cache. */
enum { M, N, K, OVERLAP, N_KEYS };
enum { VALUES, INDICES, SUMS, DRAWN, CACHE_OUT, X, SLOTS, CACHE, N_TENSORS };

static const struct rfg_key keys[N_KEYS] = {
    [M] = { "M", RFG_KEY_SIZE, 0, 0, 1000, NULL, "rows" },
    [N] = { "N", RFG_KEY_SIZE, 0, 0, 1000, NULL, "columns" },
    [K] = { "K", RFG_KEY_SIZE, 0, 0, 1000, NULL, "how many" },
    [OVERLAP] = RFG_KEY_OVERLAP,
};
static const struct rfg_op op = {
    .name = "pick", .n_in = 1, .n_out = 1, .n_keys = N_KEYS, .keys = keys, .kargs_size = 8
};

#define BLOCKS 12 /* of the cache */

static int tensors(const struct rfg_problem *p, struct rfg_tensor_spec spec[RFG_MAX_TENSORS])
{
    int64_t m = p->v[M], n = p->v[N], k = p->v[K];
    spec[VALUES] = rfg_rows_spec("values", RFG_F32, m, k, 1, k + 3, -1);
    spec[VALUES].exact = true;
    spec[INDICES] = rfg_rows_spec("indices", RFG_I32, m, k, 1, 0, -1);
    spec[SUMS] = (struct rfg_tensor_spec){ .name = "sums", .dtype = RFG_BF16, .ndim = 1, .shape = { n } };
    spec[DRAWN] = (struct rfg_tensor_spec){ .name = "drawn", .dtype = RFG_I32, .ndim = 1, .shape = { m } };
    spec[DRAWN].by_predicate = true;
    spec[CACHE] = spec[CACHE_OUT] = rfg_rows_spec("cache", RFG_F32, BLOCKS, n, 1, 0, -1);
    spec[CACHE_OUT].name = "cache_out";
    spec[CACHE_OUT].same_as = 1 + CACHE;
    spec[X] = rfg_rows_spec("x", RFG_F32, m, n, 1, 0, -1);
    spec[SLOTS] = (struct rfg_tensor_spec){ .name = "slots", .dtype = RFG_I32, .ndim = 1, .shape = { m } };
    spec[SLOTS].index_end = BLOCKS;
    for (int i = 0; i < N_TENSORS; i++) {
        spec[i].output = i < X;
        spec[i].align_key = -1;
    }
    return N_TENSORS;
}

static const float *row_of(const rfg_tensor *t, int64_t row)
{
    return (const float *)t->data + row * t->strides[0];
}

/* Where the nth largest of n is; -1: there are fewer. */
static int64_t nth_largest(const float *x, int64_t n, int64_t nth)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t larger = 0;
        for (int64_t j = 0; j < n; j++)
            larger += x[j] > x[i];
        if (larger == nth)
            return i;
    }
    return -1;
}

static int64_t last_in_slot(const struct rfg_problem *p, const rfg_tensor *slots, int64_t slot)
{
    int64_t row = p->v[M] - 1;
    while (row >= 0 && ((const int32_t *)slots->data)[row] != slot)
        row--;
    return row;
}

static bool skip_indices; /* the operator forgets them */

static rfg_status call(rfg_context *ctx, const struct rfg_problem *p, const rfg_tensor *t, rfg_stream stream)
{
    int64_t m = p->v[M], n = p->v[N], k = p->v[K];
    (void)ctx, (void)stream;
    for (int64_t c = 0; c < n; c++) {
        double sum = 0;
        for (int64_t r = 0; r < m; r++)
            sum += (double)row_of(&t[X], r)[c];
        rfg_store(t[SUMS].data, RFG_BF16, c, sum);
    }
    for (int64_t r = 0; r < m; r++) {
        const float *x = row_of(&t[X], r);
        int32_t *drawn = (int32_t *)t[DRAWN].data + r;
        for (int64_t i = 0; i < k; i++) {
            int64_t at = nth_largest(x, n, i);
            ((float *)t[VALUES].data)[r * t[VALUES].strides[0] + i] = at < 0 ? 0 : x[at];
            if (!skip_indices)
                ((int32_t *)t[INDICES].data)[r * k + i] = (int32_t)at;
        }
        *drawn = (int32_t)nth_largest(x, n, 0);
        if (x[*drawn] <= 0)
            *drawn = -1;
        memcpy((float *)t[CACHE_OUT].data + ((const int32_t *)t[SLOTS].data)[r] * n, x, (size_t)n * sizeof(float));
    }
    return RFG_OK;
}

static rfg_status oracle(const struct rfg_problem *p, const rfg_tensor *host, struct rfg_expected *e)
{
    int64_t n = p->v[N], k = p->v[K];
    ck_assert(e[VALUES].rows == e[INDICES].rows && e[VALUES].n_rows == e[INDICES].n_rows && !e[DRAWN].value);
    for (int64_t r = 0; r < e[VALUES].n_rows; r++)
        for (int64_t i = 0; i < k; i++) {
            int64_t at = nth_largest(row_of(&host[X], e[VALUES].rows[r]), n, i);
            e[VALUES].value[r * k + i] = at < 0 ? 0 : (double)row_of(&host[X], e[VALUES].rows[r])[at];
            e[INDICES].value[r * k + i] = (double)at;
            e[VALUES].allow[r * k + i] = e[INDICES].allow[r * k + i] = 0;
        }
    for (int64_t c = 0; c < e[SUMS].n_rows; c++) {
        e[SUMS].value[c] = 0;
        e[SUMS].allow[c] = 0x1p-20;
        for (int64_t r = 0; r < p->v[M]; r++)
            e[SUMS].value[c] += (double)row_of(&host[X], r)[e[SUMS].rows[c]];
    }
    for (int64_t r = 0; r < e[CACHE_OUT].n_rows; r++) {
        int64_t from = last_in_slot(p, &host[SLOTS], e[CACHE_OUT].rows[r]);
        for (int64_t i = 0; i < n; i++) {
            e[CACHE_OUT].value[r * n + i] = from < 0 ? NAN : (double)row_of(&host[X], from)[i];
            e[CACHE_OUT].allow[r * n + i] = from < 0 ? -1 : 0;
        }
    }
    return RFG_OK;
}

static bool accept(const struct rfg_problem *p, const rfg_tensor *host, const rfg_tensor *got, int tensor, int64_t row,
                   struct rfg_reason *why)
{
    const float *x = row_of(&host[X], row);
    int32_t drawn = ((const int32_t *)got[tensor].data)[row];
    if (drawn < -1 || drawn >= p->v[N])
        return rfg_refuse(why, "%d is no column", (int)drawn);
    if (drawn == -1 ? x[nth_largest(x, p->v[N], 0)] > 0 : x[drawn] <= 0)
        return rfg_refuse(why, "column %d may not be drawn", (int)drawn);
    return true;
}

static void fill(const struct rfg_problem *p, int tensor, const rfg_tensor *t, enum rfg_data data, uint64_t seed)
{
    (void)p, (void)seed;
    if (tensor == X && data == RFG_DATA_INTS)
        ((float *)t->data)[0] = 99;
}

static const struct rfg_op_case pick = {
    .tensors = tensors, .call = call, .oracle = oracle, .fill = fill, .accept = accept
};

/* ---- a case ------------------------------------------------------------------------------------------------------ */

static rfg_context *ctx;
static struct rfg_case *c;
static const rfg_tensor *t;
static struct rfg_check check;

static void begin(int64_t m, int64_t n, int64_t k, struct rfg_case_params params)
{
    struct rfg_problem p;
    rfg_context_params cp = {
        .size = sizeof(cp), .device = "cpu", .user_db = "", .system_db = "", .cache_dir = "", .threads = 1
    };
    ck_assert_msg(rfg_context_create(&ctx, &cp) == RFG_OK, "%s", rfg_last_error());
    rfg_problem_init(&p, &op);
    p.v[M] = m;
    p.v[N] = n;
    p.v[K] = k;
    params.of = &pick;
    params.seed = 7;
    ck_assert_msg(rfg_case_create(ctx, &p, &params, &c) == RFG_OK, "%s", rfg_last_error());
    ck_assert_int_eq(rfg_case_run(c, 0, NULL, NULL), RFG_OK);
    t = rfg_case_tensors(c, 0);
}

static void end(void)
{
    rfg_case_destroy(&c);
    rfg_context_destroy(&ctx);
}

/* The check says that so many are wrong, in words that have `what` in them. */
static void finds(int64_t wrong, const char *what)
{
    ck_assert_int_eq(rfg_case_check(c, 0, &check), RFG_OK);
    ck_assert_msg(check.wrong == wrong && check.ok == !wrong && !check.guard_broken && !check.trivial,
                  "%d wrong in place of %d: %s", (int)check.wrong, (int)wrong, check.message);
    ck_assert_msg(strstr(check.message, what), "'%s' is not in: %s", what, check.message);
}

/* Everything right, of every output as much as there is. */
START_TEST(takes_what_is_right)
{
    for (int fenced = 0; fenced < 2; fenced++) {
        begin(8, 5, 3, (struct rfg_case_params){ .fenced = fenced });
        finds(0, "");
        ck_assert_int_eq(check.checked, 8 * 3 + 8 * 3 + 5 + 8 + BLOCKS * 5);
        end();
    }
}
END_TEST

START_TEST(finds_wrong_values_of_any_shape)
{
    begin(8, 5, 3, (struct rfg_case_params){ 0 });
    int32_t *index = (int32_t *)t[INDICES].data + 7 * 3 + 2, was = *index;
    *index = (was + 1) % 5;
    finds(1, "indices[7,2]");
    *index = 5; /* past the end */
    finds(1, "is 5, expected");
    *index = was;
    uint16_t *sum = (uint16_t *)t[SUMS].data + 4;
    *sum ^= 2;
    finds(1, "sums[4] is");
    *sum ^= 2;
    ((float *)t[VALUES].data)[7 * 6 + 2] += 1;
    *sum ^= 0x8000;
    finds(2, "values[7,2]");
    end();
}
END_TEST

/* Half a last place off, as the number below a power of two is, and the other zero. */
START_TEST(finds_other_bits_of_exact_outputs)
{
    begin(4, 2, 5, (struct rfg_case_params){ .data = RFG_DATA_INTS });
    finds(0, "");
    float *value = (float *)t[VALUES].data;
    ck_assert(value[0] == 99 && value[4] == 0 && !signbit(value[4]));
    value[4] = -0.0f;
    finds(1, "values[0,4]");
    value[4] = 0;
    float *two = value;
    while (two < value + 3 * 8 && *two != 1 && *two != 2)
        two++;
    ck_assert(two < value + 3 * 8);
    *two = nextafterf(*two, 0);
    finds(1, "values[");
    end();
}
END_TEST

/* What the outputs hold before is no answer: -1 is one that indices may have. */
START_TEST(finds_what_is_not_written)
{
    begin(4, 2, 5, (struct rfg_case_params){ 0 });
    finds(0, "");
    ck_assert_int_eq(((int32_t *)t[INDICES].data)[4], -1);
    skip_indices = true;
    ck_assert_int_eq(rfg_case_poison(c, 0), RFG_OK);
    ck_assert_int_eq(rfg_case_run(c, 0, NULL, NULL), RFG_OK);
    skip_indices = false;
    finds(4 * 5, "indices[0,0]");
    end();
}
END_TEST

/* Each output's first and last rows are asked for, however many another has. */
START_TEST(asks_each_output_for_its_rows)
{
    static const int counts[][2] = { { 40, 6 }, { 6, 40 } };
    for (int i = 0; i < 2; i++) {
        int m = counts[i][0], n = counts[i][1];
        begin(m, n, 3, (struct rfg_case_params){ .check_rows = 4 });
        finds(0, "");
        ck_assert_int_eq(check.checked, 4 * 3 + 4 * 3 + 4 + 4 + 4 * n);
        ((int32_t *)t[INDICES].data)[m * 3 - 1] = -7;
        finds(1, "indices[");
        ((uint16_t *)t[SUMS].data)[n - 1] ^= 0x8000;
        finds(2, "indices[");
        ((int32_t *)t[DRAWN].data)[m - 1] = n;
        finds(3, "indices[");
        end();
    }
}
END_TEST

START_TEST(asks_the_predicate)
{
    begin(8, 20, 3, (struct rfg_case_params){ 0 });
    int32_t *drawn = (int32_t *)t[DRAWN].data + 5, was = *drawn;
    const float *x = row_of(&t[X], 5);
    int right = 0;
    for (int i = 0; i < 20; i++) {
        *drawn = i;
        right += x[i] > 0;
        finds(x[i] <= 0, x[i] <= 0 ? "may not be drawn" : "");
    }
    ck_assert_msg(right > 1 && right < 20, "%d of 20 are right: proves nothing", right);
    *drawn = 20;
    finds(1, "drawn[5]: 20 is no column");
    ck_assert_msg(isinf(check.max_ratio), "%g", check.max_ratio);
    *drawn = was;
    ck_assert_int_eq(rfg_case_poison(c, 0), RFG_OK); /* nothing written */
    ck_assert_int_eq(rfg_case_check(c, 0, &check), RFG_OK);
    ck_assert_int_ge(check.wrong, 8 * 3 * 2 + 20 + 8);
    end();
}
END_TEST

/* Rows of an output in place that nobody writes keep the input's bytes. */
START_TEST(finds_writes_to_slots_of_nobody)
{
    begin(4, 5, 3, (struct rfg_case_params){ 0 });
    finds(0, "");
    int found = 0;
    for (int64_t slot = 0; slot < BLOCKS; slot++) {
        float *cache = (float *)t[CACHE_OUT].data + slot * 5 + 4, was = *cache;
        if (last_in_slot(rfg_case_problem(c), &t[SLOTS], slot) >= 0)
            continue;
        ck_assert_msg(was >= -1 && was < 1 && was != 0, "slot %d held %g", (int)slot, (double)was);
        *cache = NAN;
        finds(1, "cache_out[");
        *cache = nextafterf(was, 2);
        finds(1, "cache_out[");
        *cache = was;
        found++;
    }
    ck_assert_int_ge(found, BLOCKS - 4);
    finds(0, "");
    end();
}
END_TEST

/* Indices are in their range, and use it up to its ends. */
START_TEST(draws_indices_in_range)
{
    bool seen[BLOCKS] = { false };
    begin(400, 3, 1, (struct rfg_case_params){ 0 });
    for (int i = 0; i < 400; i++) {
        int32_t slot = ((const int32_t *)t[SLOTS].data)[i];
        ck_assert_msg(slot >= 0 && slot < BLOCKS, "slot %d", slot);
        seen[slot] = true;
    }
    for (int i = 0; i < BLOCKS; i++)
        ck_assert_msg(seen[i], "slot %d is never drawn", i);
    end();
}
END_TEST

START_TEST(operators_fill_in)
{
    begin(4, 5, 3, (struct rfg_case_params){ .data = RFG_DATA_INTS });
    ck_assert(((const float *)t[X].data)[0] == 99 && ((const float *)t[X].data)[1] < 4);
    end();
}
END_TEST

START_TEST(operators_of_nobody)
{
    struct rfg_problem p;
    struct rfg_case_params params = { .seed = 1 };
    rfg_context_params cp = {
        .size = sizeof(cp), .device = "cpu", .user_db = "", .system_db = "", .cache_dir = "", .threads = 1
    };
    ck_assert_int_eq(rfg_context_create(&ctx, &cp), RFG_OK);
    rfg_problem_init(&p, &op);
    ck_assert_int_eq(rfg_case_create(ctx, &p, &params, &c), RFG_ERROR_UNSUPPORTED);
    ck_assert(!c && strstr(rfg_last_error(), "pick is not in the registry"));
    rfg_context_destroy(&ctx);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("outputs");
    TCase *tc = test_case(s, "outputs", NULL, NULL);
    ADD_TESTS(tc, takes_what_is_right, finds_wrong_values_of_any_shape, finds_other_bits_of_exact_outputs,
              finds_what_is_not_written, asks_each_output_for_its_rows, asks_the_predicate,
              finds_writes_to_slots_of_nobody, draws_indices_in_range, operators_fill_in, operators_of_nobody);
    return run_suite(s);
}
