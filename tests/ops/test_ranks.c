/* SPDX-License-Identifier: MIT
 *
 * The harness takes operators that several devices work on together: an all-reduce of this file's own, by way of the
 * host's memory, on two ranks of the cpu and on two emulated devices. */
#include <math.h>

#include "tuner/harness/harness.h"
#include "rfg/rfg.h"
#include "tests/suite.h"

enum { M, N, RANKS, OVERLAP, N_KEYS };
enum { Y, X, N_TENSORS };
#define MOST 2 /* ranks */

static const struct rfg_key keys[N_KEYS] = {
    [M] = { "M", RFG_KEY_SIZE, 0, 0, 100, NULL, "rows" },
    [N] = { "N", RFG_KEY_SIZE, 0, 0, 100, NULL, "columns" },
    [RANKS] = { "ranks", RFG_KEY_SIZE, 0, 1, MOST, NULL, "ranks" },
    [OVERLAP] = RFG_KEY_OVERLAP,
};
static const struct rfg_op op = {
    .name = "all_sum", .n_in = 1, .n_out = 1, .n_keys = N_KEYS, .keys = keys, .kargs_size = 8
};

static int ranks(const struct rfg_problem *p)
{
    return (int)p->v[RANKS];
}

static int tensors(const struct rfg_problem *p, struct rfg_tensor_spec spec[RFG_MAX_TENSORS])
{
    spec[Y] = rfg_rows_spec("y", RFG_F32, p->v[M], p->v[N], 1, p->v[N] + 1, -1);
    spec[Y].output = true;
    spec[X] = rfg_rows_spec("x", RFG_BF16, p->v[M], p->v[N], 1, 0, -1);
    return N_TENSORS;
}

static rfg_status oracle(const struct rfg_problem *p, const rfg_tensor *host, struct rfg_expected *expected)
{
    for (int r = 0; r < ranks(p); r++) {
        struct rfg_expected *e = &expected[r * RFG_MAX_TENSORS + Y];
        for (int64_t i = 0; i < e->n_rows * p->v[N]; i++) {
            e->value[i] = e->allow[i] = 0;
            for (int from = 0; from < ranks(p); from++)
                e->value[i] += rfg_element(&host[from * RFG_MAX_TENSORS + X], e->rows[i / p->v[N]], i % p->v[N]);
        }
    }
    return RFG_OK;
}

/* A copy of a tensor's rows to the host or back. */
static void move(rfg_context *ctx, const rfg_tensor *t, char *rows, bool back)
{
    const struct rfg_hip *hip = rfg_context_hip(ctx);
    size_t size = (size_t)rfg_format_bytes((int)t->dtype, 1), bytes = (size_t)t->shape[1] * size;
    if (hip)
        ck_assert_int_eq(hip->hipSetDevice(rfg_context_ordinal(ctx)), hipSuccess);
    for (int64_t r = 0; r < t->shape[0]; r++, rows += bytes) {
        char *there = (char *)t->data + (size_t)(r * t->strides[0]) * size;
        if (!hip)
            memcpy(back ? there : rows, back ? rows : there, bytes);
        else
            ck_assert_int_eq(back ? hip->hipMemcpyHtoD((hipDeviceptr_t)there, rows, bytes)
                                  : hip->hipMemcpyDtoH(rows, (hipDeviceptr_t)there, bytes),
                             hipSuccess);
    }
}

static int forgets = -1; /* the rank that leaves the last one's x out */

static rfg_status call_ranks(rfg_context *const *ctx, const struct rfg_problem *p, const rfg_tensor *t,
                             const rfg_stream *streams)
{
    size_t n = (size_t)(p->v[M] * p->v[N]);
    uint16_t *x = malloc(n * MOST * sizeof(*x));
    float *y = malloc(n * sizeof(*y));
    ck_assert(x && y && !streams);
    for (int r = 0; r < ranks(p); r++)
        move(ctx[r], &t[r * RFG_MAX_TENSORS + X], (char *)(x + (size_t)r * n), false);
    for (int r = 0; r < ranks(p); r++) {
        memset(y, 0, n * sizeof(*y));
        for (int from = 0; from < ranks(p) - (r == forgets); from++)
            for (size_t i = 0; i < n; i++)
                y[i] += (float)rfg_load(x, RFG_BF16, (int64_t)((size_t)from * n + i));
        move(ctx[r], &t[r * RFG_MAX_TENSORS + Y], (char *)y, true);
    }
    free(x);
    free(y);
    return RFG_OK;
}

static const struct rfg_op_case all_sum = {
    .tensors = tensors, .oracle = oracle, .ranks = ranks, .call_ranks = call_ranks
};

static const char *const devices[][MOST] = { { "cpu", "cpu" }, { "emu:gfx942:4", "emu:gfx942:8" } };

static void open_ranks(const char *const *names, rfg_context *ctx[MOST])
{
    for (int r = 0; r < MOST; r++) {
        rfg_context_params p = {
            .size = sizeof(p), .device = names[r], .user_db = "", .system_db = "", .cache_dir = "", .threads = 1
        };
        ck_assert_msg(rfg_context_create(&ctx[r], &p) == RFG_OK, "%s", rfg_last_error());
    }
}

static void run_and_check(struct rfg_case *const *c, struct rfg_check check[MOST])
{
    for (int r = 0; r < MOST; r++)
        ck_assert_int_eq(rfg_case_poison(c[r], 0), RFG_OK);
    ck_assert_msg(rfg_case_run_ranks(c, MOST, 0, NULL) == RFG_OK, "%s", rfg_last_error());
    for (int r = 0; r < MOST; r++)
        ck_assert_int_eq(rfg_case_check(c[r], 0, &check[r]), RFG_OK);
}

START_TEST(checks_each_rank)
{
    rfg_context *ctx[MOST];
    struct rfg_case *c[MOST];
    struct rfg_check check[MOST];
    struct rfg_problem p;
    struct rfg_case_params params = { .seed = 3, .of = &all_sum };
    open_ranks(devices[_i], ctx);
    rfg_problem_init(&p, &op);
    p.v[M] = 3;
    p.v[N] = 7;
    p.v[RANKS] = MOST;
    for (int fenced = 0; fenced < 2; fenced++) {
        params.fenced = fenced;
        ck_assert_msg(rfg_case_create_ranks(ctx, MOST, &p, &params, c) == RFG_OK, "%s", rfg_last_error());
        run_and_check(c, check);
        rfg_tensor x[MOST] = { rfg_case_tensors(c[0], 0)[X], rfg_case_tensors(c[1], 0)[X] };
        uint16_t held[MOST][21];
        for (int r = 0; r < MOST; r++)
            move(ctx[r], &x[r], (char *)held[r], false);
        ck_assert_msg(memcmp(held[0], held[1], sizeof(held[0])), "both ranks hold the same");
        for (int r = 0; r < MOST; r++)
            ck_assert_msg(check[r].ok && check[r].checked == 21, "rank %d: %s", r, check[r].message);
        for (forgets = 0; forgets < MOST; forgets++) {
            run_and_check(c, check);
            for (int r = 0; r < MOST; r++)
                ck_assert_msg(check[r].wrong == (r == forgets ? 21 : 0) && !check[r].guard_broken,
                              "rank %d, and rank %d forgets one: %s", r, forgets, check[r].message);
        }
        forgets = -1;
        for (int r = 0; r < MOST; r++)
            rfg_case_destroy(&c[r]);
    }
    for (int r = 0; r < MOST; r++)
        rfg_context_destroy(&ctx[r]);
}
END_TEST

START_TEST(needs_as_many_contexts)
{
    rfg_context *ctx[MOST];
    struct rfg_case *c[MOST];
    struct rfg_problem p;
    struct rfg_case_params params = { .seed = 3, .of = &all_sum };
    open_ranks(devices[0], ctx);
    rfg_problem_init(&p, &op);
    p.v[M] = p.v[N] = 2;
    p.v[RANKS] = 1;
    ck_assert_int_eq(rfg_case_create_ranks(ctx, MOST, &p, &params, c), RFG_ERROR_INVALID_ARGUMENT);
    ck_assert(strstr(rfg_last_error(), "2 contexts: must be 1") && !c[0] && !c[1]);
    p.v[RANKS] = 2;
    ck_assert_int_eq(rfg_case_create(ctx[0], &p, &params, c), RFG_ERROR_INVALID_ARGUMENT);
    ck_assert(strstr(rfg_last_error(), "1 contexts: must be 2"));
    for (int r = 0; r < MOST; r++)
        rfg_context_destroy(&ctx[r]);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("ranks");
    TCase *tc = test_case(s, "ranks", NULL, NULL);
    ADD_TESTS(tc, needs_as_many_contexts);
    ADD_LOOPS(tc, 2, checks_each_rank);
    return run_suite(s);
}
