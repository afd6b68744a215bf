/* SPDX-License-Identifier: MIT
 *
 * rfg_op_sample on the cpu and on the devices of $RFG_TEST_DEVICES: each draw is worked out in double
 * (ops/sample/sample_case.c), many draws have the frequencies that they should, and a row's draw is the same in any
 * batch and on any device. (What it refuses: test_args.c.) */
#include <math.h>

#include "base/util.h"
#include "tests/op_cases.h"
#include "tests/program.h"
#include "rfg/rfg.h"

#define R RFG_DATA_WILD
#define E RFG_DATA_RANDOM /* what engines ask for */
#define I RFG_DATA_INTS
#define S RFG_DATA_SPECIAL

static const struct op_case filters[] = {
    { "sample f32->i32 B=40 V=1000", R, false },
    { "sample bf16->i64 B=40 V=600 temperature=1", R, false },
    { "sample f32->i64 B=60 V=700 temperature=1 top_k=1", R, false },
    { "sample f16->i32 B=60 V=513 top_p=1", R, false },
    { "sample f32->i32 B=60 V=333 temperature=1 min_p=1", R, false },
    { "sample f32->i32 B=80 V=1024 temperature=1 top_k=1 top_p=1", R, false },
    { "sample bf16->i32 B=80 V=500 temperature=1 top_k=1 top_p=1 min_p=1", R, false },
    { "sample bf16->i32 B=80 V=500 temperature=1 top_k=1 top_p=1 min_p=1 joint=1", R, false },
    { "sample f32->i64 B=60 V=70 top_p=1 joint=1", R, false },
};

static const struct op_case penalties[] = {
    { "sample f32->i32 B=40 V=300 repetition=1 counts=1 prompt=1", R, false },
    { "sample bf16->i64 B=40 V=301 frequency=1 presence=1 counts=1", R, false },
    { "sample f16->i32 B=40 V=128 bias=1 temperature=1", R, false },
    { "sample f32->i32 B=40 V=200 temperature=1 repetition=1 frequency=1 presence=1 bias=1 counts=1 prompt=1", R,
      false },
    { "sample f32->i32 B=40 V=200 top_k=1 top_p=1 repetition=1 presence=1 bias=1 counts=1 prompt=1", R, false },
};

#define SPLIT_BY(threads, split, unroll)                                                                               \
    "sample_split{threads=" #threads ",split=" #split ",unroll=" #unroll ",cluster=0}"

static const struct op_case values[] = {
    { "sample bf16->i32 B=40 V=256 top_k=1", I, false },
    { "sample f32->i64 B=40 V=1001 temperature=1 top_k=1 top_p=1", I, false },
    { "sample f16->i32 B=40 V=999 top_k=1 top_p=1 joint=1", I, false },
    { "sample f32->i32 B=40 V=300 temperature=1", S, false },
    { "sample bf16->i32 B=40 V=64 top_k=1 top_p=1", S, false },
    { "sample f32->i32 B=9 V=1", R, false },
    { "sample f32->i32 B=9 V=2 top_k=1", R, false },
    { "sample f32->i32 B=0 V=2", R, false },
    { "sample f32->i32 B=3 V=3001 temperature=1 top_p=1 min_p=1", R, false, SPLIT_BY(256, 4, 4) },
};

static const struct op_case layouts[] = {
    { "sample f32->i32 B=5 V=500 ldx=512", R, false },
    { "sample bf16->i64 B=5 V=500 ldx=501", R, false },
    { "sample f32->i32 B=5 V=515 top_k=1", R, true },
    { "sample f16->i64 B=5 V=300 top_p=1", R, true },
    { "sample f16->i32 B=3 V=400 align=4", R, false },
    { "sample f32->i32 B=2 V=70000 top_k=1", R, false },
    { "sample f32->i64 B=2 V=128256 top_k=1 top_p=1", R, false },
};

/* Rows shared by workgroups: lists that are full, that are not, parts without a token, parts in several steps. */
static const struct op_case parts[] = {
    { "sample f32->i32 B=6 V=40000 temperature=1 top_k=1", I, false, SPLIT_BY(256, 4, 4) },
    { "sample f32->i32 B=24 V=3001 ldx=3004 temperature=1 top_k=1 top_p=1 min_p=1", R, false, SPLIT_BY(256, 8, 16) },
    { "sample f32->i32 B=12 V=9003 temperature=1 top_k=1 top_p=1", E, false, SPLIT_BY(256, 4, 4) },
    { "sample bf16->i64 B=24 V=2500 top_k=1 top_p=1 repetition=1 counts=1", R, false, SPLIT_BY(256, 4, 4) },
    { "sample f16->i32 B=24 V=77 temperature=1 top_k=1 top_p=1 joint=1", R, false, SPLIT_BY(256, 16, 4) },
    { "sample f32->i32 B=24 V=3000 temperature=1 top_k=1 top_p=1 joint=1", R, false, SPLIT_BY(256, 4, 8) },
    { "sample f32->i32 B=24 V=9 top_k=1", S, false, SPLIT_BY(256, 16, 4) },
    { "sample f32->i32 B=16 V=600 temperature=1 top_k=1", S, false, SPLIT_BY(512, 4, 4) },
    { "sample bf16->i32 B=6 V=5000 temperature=1 top_k=1", I, false, SPLIT_BY(512, 8, 8) },
    { "sample bf16->i64 B=4 V=40001 top_k=1 top_p=1", E, true, SPLIT_BY(256, 4, 4) },
};

/* Rows shared by workgroups that have no top-k: bins that are full, that are not. */
static const struct op_case bins[] = {
    { "sample f32->i32 B=24 V=3001 temperature=1 top_p=1", R, false, SPLIT_BY(256, 4, 4) },
    { "sample f32->i32 B=12 V=9003 ldx=9004 temperature=1 top_p=1", E, false, SPLIT_BY(256, 8, 8) },
    { "sample bf16->i64 B=12 V=2500 ldx=2504 temperature=1 min_p=1", E, false, SPLIT_BY(512, 4, 8) },
    { "sample f16->i32 B=24 V=1777 temperature=1 top_p=1 min_p=1 joint=1", R, true, SPLIT_BY(256, 4, 4) },
    { "sample f32->i64 B=24 V=2000 temperature=1", R, false, SPLIT_BY(256, 16, 4) },
    { "sample f32->i32 B=3 V=30000 temperature=1 top_p=1", I, false, SPLIT_BY(256, 4, 16) },
    { "sample f32->i32 B=16 V=600 temperature=1 top_p=1", S, false, SPLIT_BY(512, 4, 4) },
    { "sample bf16->i64 B=24 V=1500 top_p=1 repetition=1 counts=1 prompt=1", R, false, SPLIT_BY(256, 4, 4) },
    { "sample f16->i32 B=24 V=5", R, false, SPLIT_BY(256, 8, 4) },
};

OP_CASES(right_filters, filters, "filters of samples")
OP_CASES(right_penalties, penalties, "penalties of samples")
OP_CASES(right_parts, parts, "samples of rows in parts")
OP_CASES(right_bins, bins, "samples by sums of rows in parts")
OP_CASES(right_values, values, "samples of NaN, inf, integers")
OP_CASES(right_layouts, layouts, "strides and alignment of samples")

START_TEST(rows_by_turns)
{
    op_few_groups(op_device(_i), "sample f32->i32 B=20 V=300 top_k=1 top_p=1", "sample_rows{threads=512}", 3);
    op_few_groups(op_device(_i), "sample bf16->i64 B=20 V=300", "sample_portable{}", 2);
}
END_TEST

/* ---- on one device, by hand -------------------------------------------------------------------------------------- */

#define V 24

struct batch {
    rfg_context *ctx;
    int64_t b;
    float *logits, *temperature, *top_p, *min_p; /* min_p: or NULL */
    int32_t *top_k, *y;
    int64_t *seed, *offset;
};

static struct batch make(const char *device, int64_t b)
{
    struct batch t = { .ctx = op_context(device), .b = b };
    size_t n = (size_t)b;
    ck_assert((t.logits = malloc(n * V * 4)) && (t.temperature = malloc(n * 4)) && (t.top_p = malloc(n * 4)) &&
              (t.top_k = malloc(n * 4)) && (t.y = malloc(n * 4)) && (t.seed = malloc(n * 8)) &&
              (t.offset = malloc(n * 8)));
    return t;
}

static void unmake(struct batch *t)
{
    free(t->logits), free(t->temperature), free(t->top_p), free(t->top_k), free(t->y), free(t->seed), free(t->offset);
    free(t->min_p);
    rfg_context_destroy(&t->ctx);
}

/* By the public function, rows first to first + n, through the device's memory. */
static void run(struct batch *t, int64_t first, int64_t n)
{
    struct {
        void *host;
        size_t size;
        rfg_tensor t;
    } of[] = {
        { t->y + first, 4, rfg_tensor_1d(NULL, RFG_I32, n) },
        { t->logits + first * V, 4 * V, rfg_tensor_2d(NULL, RFG_F32, n, V, V) },
        { t->seed + first, 8, rfg_tensor_1d(NULL, RFG_I64, n) },
        { t->offset + first, 8, rfg_tensor_1d(NULL, RFG_I64, n) },
        { t->temperature + first, 4, rfg_tensor_1d(NULL, RFG_F32, n) },
        { t->top_k + first, 4, rfg_tensor_1d(NULL, RFG_I32, n) },
        { t->top_p + first, 4, rfg_tensor_1d(NULL, RFG_F32, n) },
        { t->min_p + (t->min_p ? first : 0), 4, rfg_tensor_1d(NULL, RFG_F32, n) },
    };
    size_t count = sizeof(of) / sizeof(of[0]) - !t->min_p;
    for (size_t i = 0; i < count; i++) {
        ck_assert_msg(rfg_device_alloc(t->ctx, &of[i].t.data, of[i].size * (size_t)n) == RFG_OK, "%s",
                      rfg_last_error());
        ck_assert_msg(rfg_device_copy(t->ctx, of[i].t.data, of[i].host, of[i].size * (size_t)n, RFG_HOST_TO_DEVICE,
                                      NULL) == RFG_OK,
                      "%s", rfg_last_error());
    }
    rfg_sample_params p = { .size = sizeof(p), .temperature = &of[4].t, .top_k = &of[5].t, .top_p = &of[6].t };
    p.min_p = t->min_p ? &of[7].t : NULL;
    ck_assert_msg(rfg_op_sample(t->ctx, &of[0].t, &of[1].t, &of[2].t, &of[3].t, &p, NULL) == RFG_OK, "%s",
                  rfg_last_error());
    ck_assert_msg(rfg_device_copy(t->ctx, t->y + first, of[0].t.data, 4 * (size_t)n, RFG_DEVICE_TO_HOST, NULL) ==
                      RFG_OK,
                  "%s", rfg_last_error());
    ck_assert(rfg_stream_sync(t->ctx, NULL) == RFG_OK);
    for (size_t i = 0; i < count; i++)
        (void)rfg_device_free(t->ctx, of[i].t.data);
}

static void random_batch(struct batch *t)
{
    uint64_t seed = op_seed();
    for (int64_t i = 0; i < t->b * V; i++)
        t->logits[i] = (float)((double)(rfg_random(&seed) >> 40) * 0x1p-22 - 2);
    for (int64_t r = 0; r < t->b; r++) {
        t->temperature[r] = (float)(1 + rfg_random(&seed) % 8) / 4;
        t->top_k[r] = (int32_t)(rfg_random(&seed) % V);
        t->top_p[r] = (float)(rfg_random(&seed) % 5 + 6) / 10;
        t->seed[r] = (int64_t)rfg_random(&seed);
        t->offset[r] = (int64_t)rfg_random(&seed);
    }
}

/* A row alone draws what it draws among others, and on the cpu. */
START_TEST(any_batch)
{
    struct batch t = make(op_device(_i), 48), cpu = make("cpu", 48);
    random_batch(&t);
    random_batch(&cpu);
    run(&cpu, 0, 48);
    run(&t, 0, 48);
    ck_assert_mem_eq(t.y, cpu.y, 48 * 4);
    for (int r = 0; r < 48; r += 7) {
        t.y[r] = -1;
        run(&t, r, 1);
    }
    run(&t, 20, 9);
    ck_assert_mem_eq(t.y, cpu.y, 48 * 4);
    unmake(&t);
    unmake(&cpu);
}
END_TEST

/* Draws of one row by seeds and offsets that count up, against the shares that weights in double have: chi-square. */
static void frequencies(const char *device, int64_t b, int calls, float temperature, int32_t k, float p)
{
    struct batch t = make(device, b);
    double share[V], all = 0, before = 0, left = 0, chi = 0;
    int64_t drawn[V] = { 0 }, n = b * calls;
    int kept = 0, order[V];
    for (int64_t i = 0; i < b * V; i++)
        t.logits[i] = 3 * (float)sin((double)(i % V * 7 % V)); /* in no order */
    for (int i = 0; i < V; i++) {
        all += share[i] = exp((double)t.logits[i] / (double)temperature);
        order[i] = i;
    }
    for (int i = 0; i < V; i++)
        for (int j = i + 1; j < V; j++)
            if (share[order[j]] > share[order[i]]) {
                int other = order[i];
                order[i] = order[j];
                order[j] = other;
            }
    for (int i = 0; i < V; i++)
        left += i < k ? share[order[i]] : 0;
    for (int i = 0; i < V; i++) {
        bool stays = i < k && before < (double)p * left;
        before += share[order[i]];
        kept += stays;
        share[order[i]] = stays ? share[order[i]] : 0;
    }
    all = 0;
    for (int i = 0; i < V; i++)
        all += share[i];
    for (int64_t r = 0; r < b; r++) {
        t.temperature[r] = temperature;
        t.top_k[r] = k;
        t.top_p[r] = p;
        t.seed[r] = r;
    }
    for (int c = 0; c < calls; c++) {
        for (int64_t r = 0; r < b; r++)
            t.offset[r] = c;
        run(&t, 0, b);
        for (int64_t r = 0; r < b; r++) {
            ck_assert_int_ge(t.y[r], 0);
            ck_assert_int_lt(t.y[r], V);
            drawn[t.y[r]]++;
        }
    }
    for (int i = 0; i < V; i++) {
        double expected = (double)n * share[i] / all;
        ck_assert_msg(share[i] > 0 || !drawn[i], "%s: token %d is filtered and was drawn", device, i);
        if (share[i] > 0)
            chi += ((double)drawn[i] - expected) * ((double)drawn[i] - expected) / expected;
    }
    /* Wilson and Hilferty: of normal distribution; 4.5 is one of 300000. */
    double d = kept - 1, z = (cbrt(chi / d) - (1 - 2 / (9 * d))) / sqrt(2 / (9 * d));
    ck_assert_msg(z < 4.5 && z > -4.5, "%s: chi-square %g of %d tokens, %lld draws: z = %g", device, chi, kept,
                  (long long)n, z);
    unmake(&t);
}

START_TEST(frequency)
{
    bool cpu = !strcmp(op_device(_i), "cpu");
    int64_t b = cpu ? 10000 : 500;
    frequencies(op_device(_i), b, cpu ? 50 : 2, 1.0f, V, 1.0f);
    frequencies(op_device(_i), b, cpu ? 30 : 1, 0.7f, 12, 1.0f);
    frequencies(op_device(_i), b, cpu ? 20 : 1, 1.3f, 15, 0.8f);
}
END_TEST

/* A min_p of 1 and more leaves the largest, all that are as large, which share the draw; top_k = 1 leaves
 * one of them. */
START_TEST(ties)
{
    enum { B = 60 };
    static const float min_ps[] = { 1, 1.5f, 2, 1e30f, INFINITY };
    struct batch t = make(op_device(_i), B);
    int drawn[V] = { 0 };
    ck_assert_ptr_nonnull(t.min_p = malloc(B * sizeof(*t.min_p)));
    for (int r = 0; r < B; r++) {
        for (int k = 0; k < V; k++)
            t.logits[r * V + k] = k % 8 == 3 ? 5 : (float)(k % 5);
        t.temperature[r] = 1;
        t.top_k[r] = 0;
        t.top_p[r] = 1;
        t.min_p[r] = min_ps[r % 5];
        t.seed[r] = r;
        t.offset[r] = 7;
    }
    run(&t, 0, B);
    for (int r = 0; r < B; r++) {
        ck_assert_msg(t.y[r] % 8 == 3, "%s: min_p %g: token %d", op_device(_i), (double)t.min_p[r], (int)t.y[r]);
        drawn[t.y[r]]++;
        t.top_k[r] = 1;
    }
    ck_assert_msg(drawn[3] > 8 && drawn[11] > 8 && drawn[19] > 8, "%s: %d, %d, %d times", op_device(_i), drawn[3],
                  drawn[11], drawn[19]);
    run(&t, 0, B);
    for (int r = 0; r < B; r++)
        ck_assert_int_eq(t.y[r], 3);
    unmake(&t);
}
END_TEST

/* Philox 4x32-10 by the known answers of Random123: key 0, counter 0; all ones (of which the counter's upper half is
 * 0 here, so by its own answer). With two tokens of equal weight the draw is the generator's highest bit. */
START_TEST(generator)
{
    struct batch t = make("cpu", 1);
    static const struct {
        int64_t seed, offset;
        uint64_t answer;
    } known[] = { { 0, 0, 0xe169c58d6627e8d5u } };
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        /* The place of the draw, bit by bit: V tokens, all but 2^n of them forbidden. */
        uint64_t at = known[i].answer;
        for (int n = 1; n <= V; n++) {
            for (int k = 0; k < V; k++)
                t.logits[k] = k < n ? 1 : -INFINITY;
            t.temperature[0] = 1;
            t.top_k[0] = 0;
            t.top_p[0] = 1;
            t.seed[0] = known[i].seed;
            t.offset[0] = known[i].offset;
            run(&t, 0, 1);
            ck_assert_int_eq(t.y[0], (int)((double)at * 0x1p-64 * n));
        }
    }
    unmake(&t);
}
END_TEST

int main(void)
{
    return op_main_gpus("sample",
                        OP_TESTS(right_filters, right_penalties, right_values, right_layouts, right_parts, right_bins,
                                 any_batch, frequency, ties),
                        OP_TESTS(generator), OP_TESTS(rows_by_turns));
}
