/* SPDX-License-Identifier: MIT
 *
 * rfg_op_moe_gate on the cpu and on the devices of $RFG_TEST_DEVICES: norms, choices, sizes, tokens that count; the
 * same bits in any batch. (What it refuses of tensors: test_args.c.) */
#include "base/util.h"
#include "rfg/rfg.h"
#include "tests/op_cases.h"
#include "tests/program.h"

#define I RFG_DATA_INTS

static const struct op_case choices[] = {
    { "moe_gate bf16->f32 T=5 E=64 K=512 top=8 norm=w renorm=1" },
    { "moe_gate f16->f32 T=3 E=32 K=256 top=4 score=topk_softmax wbias=1", I },
    { "moe_gate bf16->f32 T=4 E=32 K=128 top=4 norm=1+w score=sigmoid bias=1 btype=f32 groups=8 top_groups=4 renorm=1 "
      "shared=1 tokens=1" },
    { "moe_gate f16->f32 T=3 E=40 K=72 top=5 score=sqrt_softplus bias=1 shared=2" },
    { "moe_gate bf16->f32 T=9 E=16 K=64 top=2 groups=4 top_groups=2", I },
    { "moe_gate bf16->f32 T=6 E=16 K=64 top=2 score=softmax bias=1 groups=4 top_groups=2 norm=w" },
    { "moe_gate f16->f32 T=3 E=24 K=64 top=4 score=topk_softmax norm=w wbias=1 shared=1 tokens=1" },
};

static const struct op_case sizes[] = {
    { "moe_gate bf16->f32 T=1 E=1 K=8 top=1 norm=w" },
    { "moe_gate bf16->f32 T=1 E=256 K=1024 top=8 norm=w score=sigmoid bias=1 groups=8 top_groups=4 shared=1" },
    { "moe_gate f16->f32 T=2 E=33 K=2048 top=32 norm=w" },
    { "moe_gate bf16->f32 T=2 E=5 K=7168 top=2 norm=w shared=1" },
    { "moe_gate bf16->f32 T=1 E=3 K=8192 top=1 norm=1+w tokens=1" },
    { "moe_gate f16->f32 T=64 E=17 K=40 top=8 shared=8 tokens=1" },
    { "moe_gate bf16->f32 T=33 E=8 K=136 top=2 norm=w", I },
    { "moe_gate f16->f32 T=3 E=1024 K=16 top=7 renorm=1" },
    { "moe_gate bf16->f32 T=0 E=4 K=16 top=2" },
    { "moe_gate bf16->f32 T=7 E=10 K=64 top=3 norm=w", RFG_DATA_RANDOM, false,
      "moe_gate_arrive{rows=4,tokens=4,steps=2,chunks=1}" },
};

OP_CASES(right_choices, choices, "routers in one launch")
OP_CASES(right_sizes, sizes, "sizes of routers in one launch")

enum { ROWS = 13, K = 200, E = 24, TOP = 3 };

struct outputs {
    uint16_t normed[ROWS][K];
    int32_t ids[ROWS][TOP];
    float weights[ROWS][TOP];
};

/* Rows first to first + n - 1. */
static void run_rows(rfg_context *ctx, uint16_t (*x)[K], uint16_t (*w)[K], int64_t first, int64_t n, struct outputs *to)
{
    int32_t rows[ROWS * TOP], offsets[E + 1], places[ROWS * TOP];
    float sorted[ROWS * TOP];
    struct {
        void *host;
        size_t size;
    } of[] = { { x[first], (size_t)n * sizeof(*x) },
               { w, E * sizeof(*w) },
               { w[0], sizeof(*w) }, /* norm: any numbers */
               { to->normed[first], (size_t)n * sizeof(*x) },
               { to->ids[first], (size_t)n * sizeof(*to->ids) },
               { to->weights[first], (size_t)n * sizeof(*to->weights) },
               { rows, sizeof(rows) },
               { offsets, sizeof(offsets) },
               { sorted, sizeof(sorted) },
               { places, sizeof(places) } };
    enum { COUNT = sizeof(of) / sizeof(of[0]), INPUTS = 3 };
    void *at[COUNT];
    for (int i = 0; i < COUNT; i++) {
        ck_assert_int_eq(rfg_device_alloc(ctx, &at[i], of[i].size), RFG_OK);
        ck_assert_int_eq(rfg_device_copy(ctx, at[i], of[i].host, of[i].size, RFG_HOST_TO_DEVICE, NULL), RFG_OK);
    }
    rfg_tensor tx = rfg_tensor_2d(at[0], RFG_BF16, n, K, K), tw = rfg_tensor_2d(at[1], RFG_BF16, E, K, K);
    rfg_tensor norm = rfg_tensor_1d(at[2], RFG_BF16, K), normed = rfg_tensor_2d(at[3], RFG_BF16, n, K, K);
    rfg_tensor ids = rfg_tensor_2d(at[4], RFG_I32, n, TOP, TOP), weights = rfg_tensor_2d(at[5], RFG_F32, n, TOP, TOP);
    rfg_tensor tr = rfg_tensor_1d(at[6], RFG_I32, n * TOP), to_ = rfg_tensor_1d(at[7], RFG_I32, E + 1);
    rfg_tensor ts = rfg_tensor_1d(at[8], RFG_F32, n * TOP), tp = rfg_tensor_2d(at[9], RFG_I32, n, TOP, TOP);
    rfg_moe_gate_params p = { .size = sizeof(p),
                              .norm = &norm,
                              .normed = &normed,
                              .eps = 1e-5f,
                              .rows = &tr,
                              .offsets = &to_,
                              .sorted = &ts,
                              .places = &tp };
    ck_assert_msg(rfg_op_moe_gate(ctx, &ids, &weights, &tx, &tw, &p, NULL) == RFG_OK, "%s", rfg_last_error());
    for (int i = INPUTS; i < COUNT; i++)
        ck_assert_int_eq(rfg_device_copy(ctx, of[i].host, at[i], of[i].size, RFG_DEVICE_TO_HOST, NULL), RFG_OK);
    ck_assert_int_eq(rfg_stream_sync(ctx, NULL), RFG_OK);
    for (int i = 0; i < COUNT; i++)
        ck_assert_int_eq(rfg_device_free(ctx, at[i]), RFG_OK);
}

/* A row alone has the bits that it has among others. */
START_TEST(any_batch)
{
    static uint16_t x[ROWS][K], w[E][K];
    static struct outputs all, parts;
    uint64_t seed = op_seed();
    rfg_context *ctx = op_context(op_device(_i));
    for (int i = 0; i < (ROWS + E) * K; i++) /* bf16 of either sign, from 2^-3 to 2^0 */
        *(i < ROWS * K ? &x[i / K][i % K] : &w[i / K - ROWS][i % K]) =
            (uint16_t)((rfg_random(&seed) & 0x8000) | (0x3e00 + rfg_random(&seed) % 0x180));
    run_rows(ctx, x, w, 0, ROWS, &all);
    run_rows(ctx, x, w, 0, 1, &parts);
    run_rows(ctx, x, w, 1, 2, &parts);
    run_rows(ctx, x, w, 3, ROWS - 3, &parts);
    ck_assert_mem_eq(&all, &parts, sizeof(all));
    rfg_context_destroy(&ctx);
}
END_TEST

START_TEST(refusals)
{
    static const char *const bad[][2] = {
        { "T=65 E=8 K=64 top=2", "T=65: must be from 0 to 64" },
        { "T=4 E=1025 K=64 top=2", "E=1025: must be from 1 to 1024" },
        { "T=4 E=8 K=8200 top=2", "K=8200: must be from 8 to 8192" },
        { "T=4 E=8 K=68 top=2", "K=68, x's columns: must be a multiple of 8" },
        { "T=64 E=32 K=64 top=9 shared=8", "T=64 top=9 shared=8: ids must be at most 1024" },
        { "T=4 E=8 K=64 top=9", "must be at most 8, the experts of top_groups=1" },
        { "T=4 E=8 K=64 top=2 btype=f32", "btype=f32: there is no bias" },
        { "T=4 E=12 K=64 top=1 groups=8", "groups=8: must divide E=12" },
    };
    OP_PROBLEMS_REFUSED("moe_gate bf16->f32 ", bad);
    op_problem_refused("moe_gate f32->f32 T=4 E=8 K=64 top=2", "dtype of x is f32: must be bf16 or f16");
    op_problem_refused("moe_gate bf16->bf16 T=4 E=8 K=64 top=2", "dtype of weights is bf16: must be f32");
}
END_TEST

int main(void)
{
    return op_main("moe_gate", OP_TESTS(right_choices, right_sizes, any_batch), OP_TESTS(refusals));
}
