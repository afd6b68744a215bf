/* SPDX-License-Identifier: MIT
 *
 * rfg_op_moe_route on the cpu and on the devices of $RFG_TEST_DEVICES: scores, groups, sizes, values; random problems;
 * examples by hand. (What it refuses of tensors: test_args.c.) */
#include <math.h>

#include "base/util.h"
#include "tests/op_cases.h"
#include "tests/program.h"
#include "rfg/rfg.h"

#define R RFG_DATA_RANDOM
#define I RFG_DATA_INTS
#define S RFG_DATA_SPECIAL

static const struct op_case scores[] = {
    { "moe_route bf16->f32 T=9 E=64 top=8" },
    { "moe_route f32->f32 T=9 E=128 top=8 renorm=1", I },
    { "moe_route f16->f32 T=9 E=60 top=4 bias=1" },
    { "moe_route bf16->f32 T=9 E=128 top=4 score=topk_softmax bias=1" },
    { "moe_route bf16->f32 T=9 E=32 top=4 score=topk_softmax bias=1 btype=f32", I },
    { "moe_route f32->f32 T=9 E=32 top=2 score=topk_softmax renorm=1" },
    { "moe_route bf16->f32 T=9 E=256 top=8 score=sigmoid bias=1 btype=f32 renorm=1 shared=1" },
    { "moe_route f16->f32 T=9 E=16 top=1 score=sigmoid" },
    { "moe_route f32->f32 T=9 E=100 top=3 score=sigmoid bias=1", I },
    { "moe_route bf16->f32 T=9 E=256 top=6 score=sqrt_softplus bias=1 btype=f32 renorm=1" },
    { "moe_route f32->f32 T=9 E=256 top=6 score=sqrt_softplus shared=2" },
};

static const struct op_case groups[] = {
    { "moe_route bf16->f32 T=9 E=256 top=8 score=sigmoid bias=1 groups=8 top_groups=4 renorm=1 shared=1" },
    { "moe_route bf16->f32 T=9 E=256 top=8 score=sigmoid bias=1 groups=8 top_groups=4 renorm=1", I },
    { "moe_route f32->f32 T=9 E=160 top=6 groups=8 top_groups=3" },
    { "moe_route f16->f32 T=9 E=160 top=6 groups=8 top_groups=3 renorm=1", I },
    { "moe_route f32->f32 T=9 E=64 top=8 groups=16 top_groups=2 bias=1" },
    { "moe_route f32->f32 T=9 E=64 top=8 score=topk_softmax groups=16 top_groups=7 bias=1", I },
    { "moe_route bf16->f32 T=9 E=44 top=9 score=sqrt_softplus groups=4 top_groups=1" },
    { "moe_route f32->f32 T=9 E=32 top=5 score=topk_softmax groups=32 top_groups=9 bias=1", I },
    { "moe_route f32->f32 T=9 E=32 top=5 score=sigmoid groups=32 top_groups=9 bias=1" },
    { "moe_route f32->f32 T=9 E=16 top=5 groups=16 top_groups=5", I },
    { "moe_route bf16->f32 T=9 E=992 top=32 score=sigmoid bias=1 groups=16 top_groups=5" },
    { "moe_route f32->f32 T=9 E=24 top=3 score=sigmoid groups=4 top_groups=4", I },
    { "moe_route f32->f32 T=9 E=24 top=3 score=topk_softmax groups=8 top_groups=2 bias=1", I },
};

static const struct op_case sizes[] = {
    { "moe_route f32->f32 T=3 E=1 top=1" },
    { "moe_route bf16->f32 T=3 E=7 top=7 score=sigmoid renorm=1" },
    { "moe_route f32->f32 T=5 E=7 top=3 score=topk_softmax", I },
    { "moe_route f16->f32 T=3 E=384 top=8 score=sigmoid bias=1 renorm=1" },
    { "moe_route bf16->f32 T=3 E=512 top=10 renorm=1" },
    { "moe_route f32->f32 T=3 E=1000 top=32 score=sigmoid bias=1 renorm=1 shared=32" },
    { "moe_route f32->f32 T=3 E=1024 top=32", I },
    { "moe_route bf16->f32 T=3 E=1024 top=17 score=sqrt_softplus bias=1" },
    { "moe_route f32->f32 T=2 E=32 top=32 bias=1", I },
    { "moe_route f32->f32 T=0 E=8 top=2 tokens=1" },
    { "moe_route bf16->f32 T=1 E=256 top=8 renorm=1" },
    { "moe_route bf16->f32 T=33 E=8 top=2 renorm=1", R, false, "moe_route_wave{chunks=1,waves=8}" },
    { "moe_route bf16->f32 T=5 E=40 top=2 renorm=1", R, false, "moe_route_wave{chunks=8,waves=2}" },
    { "moe_route f32->f32 T=9 E=100 top=4", I, false, "moe_route_wave{chunks=16,waves=4}" },
};

static const struct op_case layouts[] = {
    { "moe_route bf16->f32 T=7 E=33 top=4 ldx=35", R, true },
    { "moe_route f32->f32 T=7 E=64 top=4 shared=1 ldx=80 ldi=5 ldw=9" },
    { "moe_route f16->f32 T=7 E=64 top=4 shared=2 ldi=8 ldw=6 tokens=1", R, true },
    { "moe_route f32->f32 T=40 E=16 top=2 score=sigmoid shared=1 tokens=1" },
    { "moe_route bf16->f32 T=11 E=64 top=4 bias=1 groups=4 top_groups=2 tokens=1", I },
    { "moe_route bf16->f32 T=1 E=64 top=4 bias=1 tokens=1 ldx=70 ldi=32" },
};

static const struct op_case values[] = {
    { "moe_route f32->f32 T=24 E=70 top=6", S },
    { "moe_route bf16->f32 T=24 E=70 top=6 renorm=1 bias=1", S },
    { "moe_route f16->f32 T=24 E=70 top=6 score=topk_softmax bias=1", S },
    { "moe_route f32->f32 T=24 E=70 top=6 score=sigmoid renorm=1", S },
    { "moe_route f32->f32 T=24 E=64 top=6 score=sigmoid renorm=1 bias=1 groups=8 top_groups=2", S },
    { "moe_route bf16->f32 T=24 E=64 top=6 score=sqrt_softplus groups=8 top_groups=4 renorm=1", S },
    { "moe_route f32->f32 T=24 E=64 top=6 score=sqrt_softplus bias=1", S },
    { "moe_route f32->f32 T=24 E=64 top=4 score=topk_softmax groups=4 top_groups=2 bias=1", S },
};

/* More experts than a wave holds. */
static const struct op_case large[] = {
    { "moe_route bf16->f32 T=3 E=1025 top=8" },
    { "moe_route f32->f32 T=3 E=1536 top=12 score=sigmoid bias=1 renorm=1 shared=1 tokens=1", I },
    { "moe_route f16->f32 T=3 E=2048 top=32 score=softmax bias=1" },
    { "moe_route f32->f32 T=3 E=4096 top=32 score=topk_softmax bias=1", I },
    { "moe_route bf16->f32 T=2 E=8192 top=17 score=sqrt_softplus renorm=1" },
    { "moe_route f32->f32 T=3 E=2048 top=8 score=sigmoid bias=1 groups=8 top_groups=4 renorm=1", I },
    { "moe_route f32->f32 T=12 E=1536 top=9 groups=2 top_groups=1" },
    { "moe_route bf16->f32 T=3 E=4096 top=32 score=sigmoid groups=32 top_groups=9 bias=1" },
    { "moe_route f32->f32 T=24 E=1100 top=6 score=sigmoid renorm=1 bias=1", S },
    { "moe_route f32->f32 T=24 E=1088 top=6 bias=1 groups=32 top_groups=2", S },
    { "moe_route f32->f32 T=4 E=2000 top=5 score=sigmoid groups=4 top_groups=1 bias=1", I, false,
      "moe_route_group{chunks=16}" },
};

/* Experts that a table says. */
static const struct op_case tables[] = {
    { "moe_route f32->f32 T=9 E=256 top=6 score=sqrt_softplus renorm=1 table=50 token_ids=i64" },
    { "moe_route bf16->f32 T=9 E=64 top=6 score=sqrt_softplus renorm=1 table=9", S },
    { "moe_route bf16->f32 T=19 E=100 top=4 score=softmax table=7 token_ids=i32 shared=2 tokens=1" },
    { "moe_route f16->f32 T=9 E=40 top=32 score=softmax renorm=1 table=30 token_ids=i32 ldt=40 ldx=50 ldi=33" },
    { "moe_route f32->f32 T=9 E=5000 top=3 score=sigmoid table=30 token_ids=i64", I },
    { "moe_route f32->f32 T=9 E=70 top=5 score=topk_softmax table=9 ldt=6", I },
    { "moe_route f32->f32 T=24 E=70 top=6 score=sigmoid renorm=1 table=40 token_ids=i32", S },
    { "moe_route f32->f32 T=24 E=70 top=6 table=24", S },
    { "moe_route f32->f32 T=24 E=70 top=6 score=topk_softmax table=3 token_ids=i64", S },
    { "moe_route f32->f32 T=0 E=8 top=2 table=4 token_ids=i32" },
};

OP_CASES(right_scores, scores, "routing")
OP_CASES(right_large, large, "routing to many experts")
OP_CASES(right_tables, tables, "routing by tables")
OP_CASES(right_groups, groups, "routing in groups")
OP_CASES(right_sizes, sizes, "sizes of routing")
OP_CASES(right_layouts, layouts, "strides and tokens of routing")
OP_CASES(right_values, values, "routing of NaN, inf")

START_TEST(rows_by_turns)
{
    op_few_groups(op_device(_i), "moe_route f32->f32 T=20 E=1300 top=4 bias=1 tokens=1", "moe_route_group{chunks=4}",
                  3);
    op_few_groups(op_device(_i), "moe_route f32->f32 T=6 E=1280 top=4 groups=8 top_groups=4",
                  "moe_route_group{chunks=4}", 3);
    op_few_groups(op_device(_i), "moe_route f32->f32 T=50 E=64 top=4 table=9 token_ids=i32", "moe_route_table{waves=2}",
                  3);
    op_few_groups(op_device(_i), "moe_route bf16->f32 T=50 E=64 top=4 tokens=1", "moe_route_wave{chunks=4,waves=2}", 3);
}
END_TEST

/* Problems at random, and with each case's seed other data: $RFG_TEST_RANDOM of them, 300 if nobody says. */
START_TEST(random_problems)
{
    static const int experts[] = { 1, 7, 8, 64, 128, 160, 256, 384, 512, 1000, 1024, 1536, 4096 };
    static const char *const names[] = { "softmax", "topk_softmax", "sigmoid", "sqrt_softplus" };
    static const char *const dtypes[] = { "f32", "f16", "bf16" };
    rfg_context *ctx = op_context("cpu");
    uint64_t seed = op_seed();
    for (int i = 0, n = op_random_problems(); i < n; i++) {
        char text[RFG_PROBLEM_STRLEN];
        int e = ONE_OF(experts), groups = BELOW(2) ? 1 : 1 << BELOW(6), dtype = BELOW(3), bias = BELOW(2);
        while (e % groups)
            groups /= 2;
        int kept = 1 + BELOW(groups), most = e / groups * kept, top = 1 + BELOW(most < 32 ? most : 32);
        snprintf(text, sizeof(text),
                 "moe_route %s->f32 T=%d E=%d top=%d score=%s bias=%d%s groups=%d top_groups=%d renorm=%d shared=%d "
                 "tokens=%d",
                 dtypes[dtype], 1 + BELOW(12), e, top, ONE_OF(names), bias,
                 bias && dtype && BELOW(2) ? " btype=f32" : "", groups, kept, BELOW(2), BELOW(3), BELOW(2));
        op_case_right(ctx, text, BELOW(3) ? BELOW(2) ? R : I : S, rfg_random(&seed));
    }
    rfg_context_destroy(&ctx);
}
END_TEST

/* ---- by hand ---------------------------------------------------------------------------------------------------- */

#define E 8

/* One row of E logits on the cpu. */
struct example {
    rfg_moe_route_params p;
    float x[E], bias[E];
    bool biased;
    int top, ids[6];
    float weights[6];
};

static void run_example(rfg_context *ctx, const struct example *e, int number)
{
    int slots = e->top + (int)e->p.shared;
    float x[E], bias[E], weights[6];
    int32_t ids[6];
    memcpy(x, e->x, sizeof(x));
    memcpy(bias, e->bias, sizeof(bias));
    rfg_tensor ti = rfg_tensor_2d(ids, RFG_I32, 1, slots, slots), tx = rfg_tensor_2d(x, RFG_F32, 1, E, E);
    rfg_tensor tw = rfg_tensor_2d(weights, RFG_F32, 1, slots, slots), tb = rfg_tensor_1d(bias, RFG_F32, E);
    rfg_moe_route_params p = e->p;
    p.size = sizeof(p);
    p.bias = e->biased ? &tb : NULL;
    ck_assert_msg(rfg_op_moe_route(ctx, &ti, &tw, &tx, &p, NULL) == RFG_OK, "%s", rfg_last_error());
    for (int i = 0; i < slots; i++)
        ck_assert_msg(ids[i] == e->ids[i] && fabsf(weights[i] - e->weights[i]) <= 1e-5f * e->weights[i],
                      "example %d, slot %d: %d, %.9g: must be %d, %.9g", number, i, ids[i], (double)weights[i],
                      e->ids[i], (double)e->weights[i]);
}

static const struct example known[] = {
    /* logits whose exponentials are 1, 2, 3, ... over 12 */
    { { .scoring = RFG_MOE_SOFTMAX },
      { 0, 0.69314718f, 1.0986123f, 0, 0, 0.69314718f, 0, 0 },
      { 0 },
      false,
      3,
      { 2, 1, 5 },
      { 3.f / 12, 2.f / 12, 2.f / 12 } },
    { { .scoring = RFG_MOE_SOFTMAX, .renormalise = 1, .scale = 2 },
      { 0, 0.69314718f, 1.0986123f, 0, 0, 0.69314718f, 0, 0 },
      { 0 },
      false,
      3,
      { 2, 1, 5 },
      { 6.f / 7, 4.f / 7, 4.f / 7 } },
    { { .scoring = RFG_MOE_TOPK_SOFTMAX },
      { 0, 0, 0, 0.69314718f, 0, 0, 0, 0 },
      { 0, 0, 0, 0, 0, 0, 1.0986123f, 0 },
      true,
      2,
      { 6, 3 },
      { 3.f / 5, 2.f / 5 } },
    /* sigmoid is 1/2 at 0, 3/4 and 1/4 at +-log 3; the bias chooses, and has no weight */
    { { .scoring = RFG_MOE_SIGMOID, .shared = 2, .shared_weight = 0.5f, .scale = 4 },
      { 1.0986123f, 0, 0, 0, 0, 0, 0, -1.0986123f },
      { 0, 0, 0, 0, 0, 0, 0, 1 },
      true,
      2,
      { 7, 0, 8, 9 },
      { 1, 3, 0.5f, 0.5f } },
    { { .scoring = RFG_MOE_SIGMOID, .renormalise = 1 },
      { 1.0986123f, 0, 0, 0, 0, 0, 0, -1.0986123f },
      { 0, 0, 0, 0, 0, 0, 0, 1 },
      true,
      2,
      { 7, 0 },
      { 0.25f, 0.75f } },
    /* log(1 + exp(x)) is 4 at log(e^4 - 1), 1 at log(e - 1) */
    { { .scoring = RFG_MOE_SQRT_SOFTPLUS },
      { -9, -9, 0.54132485f, 3.9815148f, -9, -9, -9, -9 },
      { 0 },
      false,
      2,
      { 3, 2 },
      { 2, 1 } },
    /* groups of two: with a bias by the sum of both, without by the larger one */
    { { .scoring = RFG_MOE_SIGMOID, .groups = 4, .topk_groups = 1 },
      { 0, 0, 1.0986123f, -1.0986123f, 0, 0, 0, 0 },
      { -1, -1, -2, -2, -1, -1, -1, -1.5f },
      true,
      2,
      { 0, 1 },
      { 0.5f, 0.5f } },
    { { .scoring = RFG_MOE_SIGMOID, .groups = 4, .topk_groups = 1 },
      { 0, 0, 1.0986123f, -1.0986123f, 0, 0, 0, 0 },
      { 0 },
      false,
      2,
      { 2, 3 },
      { 0.75f, 0.25f } },
    /* all are negative: experts of groups that are not kept would go first if they were 0 */
    { { .scoring = RFG_MOE_TOPK_SOFTMAX, .groups = 4, .topk_groups = 2 },
      { -4, -4, -2, -2, -3, -3, -2, -3 },
      { 0 },
      false,
      4,
      { 2, 3, 6, 7 },
      { 0.29692274f, 0.29692274f, 0.29692274f, 0.10923178f } },
    /* nothing but NaN; infinities */
    { { .scoring = RFG_MOE_SOFTMAX },
      { NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN },
      { 0 },
      false,
      3,
      { 0, 1, 2 },
      { 0.125f, 0.125f, 0.125f } },
    { { .scoring = RFG_MOE_SIGMOID, .renormalise = 1 },
      { NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN },
      { 0, 1, 2, 3, 4, 5, 6, 7 },
      true,
      2,
      { 0, 1 },
      { 0.5f, 0.5f } },
    { { .scoring = RFG_MOE_SOFTMAX },
      { 1, INFINITY, NAN, 3, INFINITY, 0, -INFINITY, 0 },
      { 0 },
      false,
      3,
      { 1, 4, 3 },
      { 0.5f, 0.5f, 0 } },
    { { .scoring = RFG_MOE_SQRT_SOFTPLUS, .renormalise = 1 },
      { INFINITY, 1, NAN, -INFINITY, 0, INFINITY, 2, 0 },
      { 0 },
      false,
      3,
      { 0, 5, 6 },
      { 0.5f, 0.5f, 0 } },
};

START_TEST(examples)
{
    rfg_context *ctx = op_context("cpu");
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        run_example(ctx, &known[i], (int)i);
    rfg_context_destroy(&ctx);
}
END_TEST

/* The order of workgroups and waves doesn't matter. */
START_TEST(same_bits_in_any_schedule)
{
    bool emulated = !strncmp(op_device(_i), "emu:", 4);
    void *first = NULL;
    for (int schedule = 0; schedule < (emulated ? 20 : 2); schedule++) {
        char text[16];
        snprintf(text, sizeof(text), "%d", schedule);
        setenv("RFG_EMU_SCHEDULE", text, 1);
        rfg_context *ctx = op_context(op_device(_i));
        struct rfg_problem prob = op_problem("moe_route bf16->f32 T=13 E=256 top=8 score=sigmoid bias=1 groups=8 "
                                             "top_groups=4 renorm=1 shared=1");
        struct rfg_case_params params = { .seed = 3 };
        struct rfg_case *c;
        void *bytes;
        size_t size;
        ck_assert_int_eq(rfg_case_create(ctx, &prob, &params, &c), RFG_OK);
        ck_assert_msg(rfg_case_run(c, 0, NULL, NULL) == RFG_OK, "%s", rfg_last_error());
        ck_assert_int_eq(rfg_case_outputs(c, 0, &bytes, &size), RFG_OK);
        ck_assert_msg(!first || !memcmp(first, bytes, size), "schedule %d gives other bits", schedule);
        if (!first)
            first = bytes;
        else
            free(bytes);
        rfg_case_destroy(&c);
        rfg_context_destroy(&ctx);
    }
    free(first);
    unsetenv("RFG_EMU_SCHEDULE");
}
END_TEST

#define COLUMNS 100
#define TOP     7

/* Rows first to first + n of x, through the device's memory. */
static void run_rows(rfg_context *ctx, float (*x)[COLUMNS], int64_t first, int64_t n, int32_t (*ids)[TOP],
                     float (*weights)[TOP])
{
    struct {
        void *host;
        size_t size;
        rfg_tensor t;
    } of[] = { { ids + first, sizeof(*ids), rfg_tensor_2d(NULL, RFG_I32, n, TOP, TOP) },
               { weights + first, sizeof(*weights), rfg_tensor_2d(NULL, RFG_F32, n, TOP, TOP) },
               { x + first, sizeof(*x), rfg_tensor_2d(NULL, RFG_F32, n, COLUMNS, COLUMNS) } };
    rfg_moe_route_params p = { .size = sizeof(p), .groups = 4, .topk_groups = 2 };
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(rfg_device_alloc(ctx, &of[i].t.data, of[i].size * (size_t)n), RFG_OK);
        ck_assert_int_eq(
            rfg_device_copy(ctx, of[i].t.data, of[i].host, of[i].size * (size_t)n, RFG_HOST_TO_DEVICE, NULL), RFG_OK);
    }
    ck_assert_msg(rfg_op_moe_route(ctx, &of[0].t, &of[1].t, &of[2].t, &p, NULL) == RFG_OK, "%s", rfg_last_error());
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(
            rfg_device_copy(ctx, of[i].host, of[i].t.data, of[i].size * (size_t)n, RFG_DEVICE_TO_HOST, NULL), RFG_OK);
    ck_assert_int_eq(rfg_stream_sync(ctx, NULL), RFG_OK);
    for (int i = 0; i < 3; i++)
        (void)rfg_device_free(ctx, of[i].t.data);
}

/* A row alone has the bits that it has among others. */
START_TEST(any_batch)
{
    enum { ROWS = 40 };
    float x[ROWS][COLUMNS], weights[2][ROWS][TOP];
    int32_t ids[2][ROWS][TOP];
    rfg_context *ctx = op_context(op_device(_i));
    uint64_t seed = op_seed();
    for (int i = 0; i < ROWS * COLUMNS; i++)
        x[i / COLUMNS][i % COLUMNS] = (float)((double)(rfg_random(&seed) >> 40) * 0x1p-22 - 2);
    run_rows(ctx, x, 0, ROWS, ids[0], weights[0]);
    memset(ids[1], 0, sizeof(ids[1]));
    memset(weights[1], 0, sizeof(weights[1]));
    run_rows(ctx, x, 0, 1, ids[1], weights[1]);
    run_rows(ctx, x, 1, 6, ids[1], weights[1]);
    run_rows(ctx, x, 7, ROWS - 7, ids[1], weights[1]);
    ck_assert_mem_eq(ids[0], ids[1], sizeof(ids[0]));
    ck_assert_mem_eq(weights[0], weights[1], sizeof(weights[0]));
    rfg_context_destroy(&ctx);
}
END_TEST

/* Problems, and params that forms of args_ops.c don't have. */
START_TEST(refusals)
{
    static const struct {
        const char *text, *why;
    } wrong[] = {
        { "moe_route bf16->f32 T=4 E=8193 top=2", "E=8193: must be from 1 to 8192" },
        { "moe_route bf16->f32 T=4 E=0 top=1", "E=0: must be from 1 to 8192" },
        { "moe_route bf16->f32 T=4 E=8 top=2 table=5", "table=5: must be T=4 without token_ids" },
        { "moe_route bf16->f32 T=4 E=8 top=2 token_ids=i32", "token_ids=i32, ldt=0: must be left out without a table" },
        { "moe_route bf16->f32 T=4 E=8 top=2 ldt=9", "ldt=9: must be left out without a table" },
        { "moe_route bf16->f32 T=4 E=8 top=2 table=9 token_ids=f32", "token_ids=f32: must be" },
        { "moe_route bf16->f32 T=4 E=8 top=2 table=4 bias=1", "bias=1, groups=1: must be left out with a table" },
        { "moe_route bf16->f32 T=4 E=8 top=2 table=4 groups=2", "bias=0, groups=2: must be left out with a table" },
        { "moe_route bf16->f32 T=4 E=8 top=2 table=4 ldt=1", "ldt=1: must be at least top=2" },
        { "moe_route bf16->f32 T=4 E=64 top=33", "top=33: must be from 1 to 32" },
        { "moe_route bf16->f32 T=4 E=8 top=9", "must be at most 8, the experts of top_groups=1" },
        { "moe_route bf16->f32 T=4 E=8 top=5 groups=4 top_groups=2", "must be at most 4, the experts of top_groups=2" },
        { "moe_route bf16->f32 T=4 E=8 top=1 groups=3", "groups=3: must be a power of two" },
        { "moe_route bf16->f32 T=4 E=12 top=1 groups=8", "groups=8: must divide E=12" },
        { "moe_route bf16->f32 T=4 E=64 top=1 groups=64", "groups=64: must be from 1 to 32" },
        { "moe_route bf16->f32 T=4 E=8 top=1 groups=2 top_groups=3", "must be at most groups=2" },
        { "moe_route bf16->f32 T=4 E=8 top=1 top_groups=2", "must be at most groups=1" },
        { "moe_route bf16->f32 T=4 E=8 top=1 ldx=7", "ldx=7: must be at least E=8" },
        { "moe_route bf16->f32 T=4 E=8 top=2 shared=1 ldi=2", "ldi=2: must be at least top + shared, 3" },
        { "moe_route bf16->f32 T=4 E=8 top=2 ldw=1", "ldw=1: must be at least top + shared, 2" },
        { "moe_route bf16->bf16 T=4 E=8 top=2", "dtype of weights is bf16: must be f32" },
        { "moe_route i32->f32 T=4 E=8 top=2", "dtype of x is i32" },
        { "moe_route f32->f32 T=4 E=8 top=2 bias=1 btype=f32", "btype=f32: is what it is without" },
        { "moe_route bf16->f32 T=4 E=8 top=2 btype=f32", "btype=f32: there is no bias" },
        { "moe_route bf16->f32 T=4 E=8 top=2 bias=1 btype=f16", "btype=f16: must be" },
        { "moe_route bf16->f32 T=4 E=8 top=2 score=relu", "score=relu" },
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        op_problem_refused(wrong[i].text, wrong[i].why);
}
END_TEST

int main(void)
{
    return op_main_gpus("moe_route",
                        OP_TESTS(right_scores, right_groups, right_large, right_tables, right_sizes, right_layouts,
                                 right_values, same_bits_in_any_schedule, any_batch),
                        OP_TESTS(random_problems, examples, refusals), OP_TESTS(rows_by_turns));
}
