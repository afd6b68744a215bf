/* SPDX-License-Identifier: MIT
 *
 * rfg_op_moe_align on the cpu and on the devices of $RFG_TEST_DEVICES: formats, maps, bounds, sizes; random problems.
 * (What it refuses: test_args.c.) */
#include "base/util.h"
#include "tests/op_cases.h"
#include "tests/program.h"
#include "rfg/rfg.h"

#define R RFG_DATA_RANDOM

static const struct op_case formats[] = {
    { "moe_align i32->i32 T=33 top=8 E=33 weights=1 places=1" },
    { "moe_align i32->i32 T=33 top=8 E=33 weights=1 places=1 format=vllm block=16" },
    { "moe_align i32->i32 T=33 top=8 E=33 weights=1 places=1 format=aiter block=32" },
    { "moe_align i32->i32 T=33 top=8 E=33 weights=1 places=1 format=contiguous block=128" },
    { "moe_align i32->i32 T=33 top=8 E=33 weights=1 places=1 format=masked" },
    { "moe_align i32->i32 T=17 top=2 E=8 map=33 places=1 tokens=1" },
    { "moe_align i32->i32 T=17 top=2 E=8 map=33 format=vllm block=4 tokens=1" },
    { "moe_align i32->i32 T=17 top=2 E=8 map=8 format=aiter block=7 weights=1 tokens=1" },
    { "moe_align i32->i32 T=17 top=2 E=8 map=64 format=contiguous block=3 weights=1 places=1" },
    { "moe_align i32->i32 T=17 top=2 E=8 map=16 format=masked tokens=1 weights=1 rows=3" },
    { "moe_align i32->i32 T=40 top=6 E=8 format=masked places=1 weights=1 rows=9" },
    { "moe_align i32->i32 T=9 top=4 E=16 format=vllm block=1 rows=500 weights=1" },
    { "moe_align i32->i32 T=9 top=4 E=16 format=vllm block=64 rows=1100" },
    { "moe_align i32->i32 T=9 top=4 E=16 format=contiguous block=8 rows=1001 weights=1" },
    { "moe_align i32->i32 T=9 top=4 E=16 format=aiter block=8 rows=401 weights=1" },
    { "moe_align i32->i32 T=9 top=4 E=16 rows=100 weights=1" },
};

static const struct op_case sizes[] = {
    { "moe_align i32->i32 T=1 top=8 E=256 places=1" },
    { "moe_align i32->i32 T=1 top=1 E=1 weights=1 places=1" },
    { "moe_align i32->i32 T=300 top=1 E=1 format=vllm block=64" },
    { "moe_align i32->i32 T=64 top=8 E=256 weights=1 places=1" },
    { "moe_align i32->i32 T=64 top=8 E=32 map=256 weights=1 places=1 tokens=1" },
    { "moe_align i32->i32 T=20 top=32 E=384 format=vllm block=16 places=1" },
    { "moe_align i32->i32 T=130 top=8 E=33 format=aiter block=32 weights=1" },
    { "moe_align i32->i32 T=5 top=8 E=1024 format=contiguous block=2" },
    { "moe_align i32->i32 T=300 top=2 E=8 places=1" },
    { "moe_align i32->i32 T=300 top=4 E=33 map=40 places=1 format=masked" },
    { "moe_align i32->i32 T=0 top=8 E=8" },
    { "moe_align i32->i32 T=0 top=8 E=8 format=aiter block=8 rows=64" },
};

/* More experts than 1024, and ids that stand for the token itself. */
static const struct op_case large[] = {
    { "moe_align i32->i32 T=9 top=8 E=1025 weights=1 places=1" },
    { "moe_align i32->i32 T=40 top=32 E=1536 format=vllm block=4" },
    { "moe_align i32->i32 T=40 top=6 E=2048 format=aiter block=3 weights=1" },
    { "moe_align i32->i32 T=5 top=2 E=8192 format=contiguous block=2 places=1" },
    { "moe_align i32->i32 T=20 top=3 E=4096 format=masked rows=2 places=1" },
    { "moe_align i32->i32 T=300 top=8 E=4096 map=6000 places=1 tokens=1", R, false,
      "moe_align_chunks{threads=64,chunk=1024}" },
    { "moe_align i32->i32 T=300 top=8 E=2000 format=vllm block=16 places=1", R, false,
      "moe_align_chunks{threads=128,chunk=1024}" },
};

static const struct op_case identities[] = {
    { "moe_align i32->i32 T=33 top=12 E=51 places=1 identity=25 weights=1" },
    { "moe_align i32->i32 T=33 top=4 E=8 map=31 places=1 identity=5 tokens=1" },
    { "moe_align i32->i32 T=33 top=4 E=8 format=vllm block=16 places=1 identity=1 ldi=5 ldp=7" },
    { "moe_align i32->i32 T=17 top=4 E=8 format=masked places=1 identity=9 rows=3 tokens=1" },
    { "moe_align i32->i32 T=700 top=8 E=7 places=1 identity=3 tokens=1", R, false,
      "moe_align_chunks{threads=256,chunk=1024}" },
    { "moe_align i32->i32 T=700 top=8 E=7 places=1 identity=3 tokens=1", R, false,
      "moe_align_experts{threads=128,keep=4}" },
};

static const struct op_case layouts[] = {
    { "moe_align i32->i32 T=20 top=3 E=9 ldi=5 ldw=4 ldp=8 weights=1 places=1" },
    { "moe_align i32->i32 T=20 top=8 E=9 ldi=16 format=vllm block=8", R, true },
    { "moe_align i32->i32 T=20 top=8 E=9 ldp=9 ldw=8 weights=1 places=1 format=aiter block=8", R, true },
};

/* More pairs than a workgroup sees at once: lanes' second round, several chunks. */
static const struct op_case many[] = {
    { "moe_align i32->i32 T=700 top=8 E=7 weights=1 places=1", R, false, "moe_align_chunks{threads=256,chunk=1024}" },
    { "moe_align i32->i32 T=700 top=8 E=7 weights=1 places=1", R, false, "moe_align_experts{threads=128,keep=4}" },
    { "moe_align i32->i32 T=2500 top=2 E=40 map=100 tokens=1 format=vllm block=64 places=1", R, false,
      "moe_align_chunks{threads=512,chunk=1024}" },
    { "moe_align i32->i32 T=2500 top=2 E=10 map=30 tokens=1 format=aiter block=64 weights=1", R, false,
      "moe_align_experts{threads=256,keep=1}" },
    { "moe_align i32->i32 T=1100 top=4 E=300 format=masked places=1 weights=1", R, false,
      "moe_align_chunks{threads=256,chunk=2048}" },
    { "moe_align i32->i32 T=600 top=8 E=20 format=contiguous block=128 places=1", R, false,
      "moe_align_chunks{threads=512,chunk=4096}" },
    { "moe_align i32->i32 T=9000 top=8 E=64" },
};

OP_CASES(right_formats, formats, "formats of sorted experts")
OP_CASES(right_sizes, sizes, "sorted experts")
OP_CASES(right_large, large, "thousands of sorted experts")
OP_CASES(right_identities, identities, "sorted experts, identities")
OP_CASES(right_layouts, layouts, "strides and alignment of sorted experts")
OP_CASES(right_many, many, "many sorted experts")

/* Problems at random, and with each case's seed other ids: $RFG_TEST_RANDOM of them, 300 if nobody says. */
START_TEST(random_problems)
{
    static const int tops[] = { 1, 2, 3, 8, 32 }, experts[] = { 1, 2, 8, 33, 256, 384, 1024, 2048 },
                     blocks[] = { 1, 2, 16, 64, 128, 100 }, identities[] = { 0, 0, 1, 100 };
    static const char *const names[] = { "plain", "vllm", "aiter", "contiguous", "masked" };
    rfg_context *ctx = op_context("cpu");
    uint64_t seed = op_seed();
    for (int i = 0, n = op_random_problems(); i < n; i++) {
        char text[RFG_PROBLEM_STRLEN];
        int format = BELOW(5), e = ONE_OF(experts), block = format % 4 ? ONE_OF(blocks) : 1,
            map = BELOW(2) * (e + BELOW(2 * e)), places = BELOW(2);
        snprintf(
            text, sizeof(text),
            "moe_align i32->i32 T=%d top=%d E=%d map=%d tokens=%d weights=%d places=%d format=%s block=%d identity=%d",
            1 + BELOW(BELOW(2) ? 10 : 300), ONE_OF(tops), e, map, BELOW(2), BELOW(2), places, names[format], block,
            places ? ONE_OF(identities) : 0);
        op_case_right(ctx, text, RFG_DATA_RANDOM, rfg_random(&seed));
    }
    rfg_context_destroy(&ctx);
}
END_TEST

static rfg_tensor ints(int32_t *data, int64_t n)
{
    return rfg_tensor_1d(data, RFG_I32, n);
}

/* By hand, the layouts as their engines write them down: three tokens, two slots, three experts. */
START_TEST(layouts_by_hand)
{
    int32_t ids[] = { 2, 0, 0, -1, 2, 0 }, rows[18], blocks[18], count[3], offsets[4], places[6];
    float weights[] = { .1f, .2f, .3f, .4f, .5f, .6f }, sorted[18];
    rfg_context *ctx = op_context("cpu"); /* whose memory this is */
    rfg_tensor ti = rfg_tensor_2d(ids, RFG_I32, 3, 2, 2), tw = rfg_tensor_2d(weights, RFG_F32, 3, 2, 2);
    rfg_tensor tr = ints(rows, 6), to = ints(offsets, 4), tp = rfg_tensor_2d(places, RFG_I32, 3, 2, 2);
    rfg_moe_align_params p = { .size = sizeof(p), .experts = 3, .offsets = &to, .places = &tp };
#define RUN()         ck_assert_msg(rfg_op_moe_align(ctx, &tr, &ti, &p, NULL) == RFG_OK, "%s", rfg_last_error())
#define HOLDS(a, ...) ck_assert_mem_eq(a, ((const int32_t[]){ __VA_ARGS__ }), sizeof((const int32_t[]){ __VA_ARGS__ }))
    rows[5] = 77;
    RUN();
    HOLDS(rows, 0, 1, 2, 0, 2, 77);
    HOLDS(offsets, 0, 3, 3, 5);
    HOLDS(places, 3, 0, 1, -1, 4, 2);

    rfg_tensor tb = ints(blocks, 5), tc = ints(count, 1);
    tr = ints(rows, 9);
    p = (rfg_moe_align_params){
        .size = sizeof(p), .format = RFG_MOE_VLLM, .block = 2, .experts = 3, .block_experts = &tb, .count = &tc
    };
    RUN();
    HOLDS(rows, 1, 2, 5, 6, 0, 4, 6, 6, 6);
    HOLDS(blocks, 0, 0, 2, -1, -1);
    HOLDS(count, 6);

    rfg_tensor ts = rfg_tensor_1d(sorted, RFG_F32, 9);
    tc = ints(count, 2);
    p.format = RFG_MOE_AITER;
    p.weights = &tw;
    p.weights_out = &ts;
    RUN();
    HOLDS(rows, 1 << 24, 1, 1 << 24 | 2, 2 << 24 | 3, 0, 2, 2 << 24 | 3, 2 << 24 | 3, 2 << 24 | 3);
    HOLDS(blocks, 0, 0, 2, -1, -1);
    HOLDS(count, 6, 3);
    const float by_row[] = { .2f, .3f, .6f, 0, .1f, .5f, 0, 0, 0 };
    ck_assert_mem_eq(sorted, by_row, sizeof(by_row));

    tb = ints(blocks, 9);
    p = (rfg_moe_align_params){
        .size = sizeof(p), .format = RFG_MOE_CONTIGUOUS, .block = 2, .experts = 3, .block_experts = &tb
    };
    RUN();
    HOLDS(rows, 0, 1, 2, -1, 0, 2, -1, -1, -1);
    HOLDS(blocks, 0, 0, 0, -1, 2, 2, -1, -1, -1);

    /* Room for two rows of each expert: the third of expert 0 is left out. */
    tr = rfg_tensor_2d(rows, RFG_I32, 3, 2, 2);
    tc = ints(count, 3);
    p = (rfg_moe_align_params){
        .size = sizeof(p), .format = RFG_MOE_MASKED, .experts = 3, .count = &tc, .places = &tp
    };
    rows[2] = rows[3] = 77;
    RUN();
    HOLDS(rows, 0, 1, 77, 77, 0, 2);
    HOLDS(count, 2, 0, 2);
    HOLDS(places, 4, 0, 1, -1, 5, -1);

    /* No token, and none that counts. */
    int32_t none = -3;
    rfg_tensor tt = ints(&none, 1), t0 = rfg_tensor_2d(ids, RFG_I32, 0, 2, 2), r0 = ints(rows, 0);
    p = (rfg_moe_align_params){ .size = sizeof(p), .experts = 3, .offsets = &to };
    memset(offsets, 0x55, sizeof(offsets));
    ck_assert_msg(rfg_op_moe_align(ctx, &r0, &t0, &p, NULL) == RFG_OK, "%s", rfg_last_error());
    HOLDS(offsets, 0, 0, 0, 0);
    tr = ints(rows, 6);
    p.tokens = &tt;
    p.places = &tp;
    memset(offsets, 0x55, sizeof(offsets));
    RUN();
    HOLDS(offsets, 0, 0, 0, 0);
    HOLDS(places, -1, -1, -1, -1, -1, -1);
    rfg_context_destroy(&ctx);
}
END_TEST

/* What a table of wrong tensors doesn't reach. */
START_TEST(refusals)
{
    static const struct {
        const char *problem, *why;
    } wrong[] = {
        { "moe_align i32->i32 T=4 top=2 E=8 block=2", "block=2: must be 1 with format=plain" },
        { "moe_align i32->i32 T=4 top=2 E=8 format=masked block=2", "block=2: must be 1 with format=masked" },
        { "moe_align i32->i32 T=16777216 top=2 E=8 format=aiter", "T=16777216: must be at most 16777215" },
        { "moe_align i32->i32 T=2000000000 top=2 E=8", "ids must be at most" },
        { "moe_align i32->i32 T=67000000 top=32 E=1024 format=vllm block=65536", "must be at most" },
        { "moe_align i32->i32 T=4000000 top=2 E=1024 format=masked", "rows of all experts" },
        { "moe_align i32->i32 T=4 top=2 E=8 rows=7", "rows=7: must be at least 8" },
        { "moe_align i32->i32 T=1 top=2 E=8 format=vllm block=4 rows=7", "rows=7: must be at least 8" },
        { "moe_align i32->i32 T=4 top=2 E=8 ldi=1", "ldi=1: must be at least top=2" },
        { "moe_align i32->i32 T=4 top=2 E=8193", "E=8193: must be from 1 to 8192" },
        { "moe_align i32->i32 T=4 top=2 E=8 identity=2", "identity=2: there must be places" },
        { "moe_align i32->i32 T=4 top=2 E=8 identity=65537 places=1", "identity=65537: must be from 0 to 65536" },
        { "moe_align i64->i32 T=4 top=2 E=8", "dtype of ids is i64" },
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        op_problem_refused(wrong[i].problem, wrong[i].why);
    /* The least rows that are enough: of few pairs, and of those that end in a part of a block (vLLM's own sizes). */
    (void)op_problem("moe_align i32->i32 T=1 top=2 E=8 format=vllm block=4 rows=8");
    (void)op_problem("moe_align i32->i32 T=5 top=2 E=3 format=aiter block=8 rows=24");
}
END_TEST

int main(void)
{
    return op_main("moe_align",
                   OP_TESTS(right_formats, right_sizes, right_large, right_identities, right_layouts, right_many),
                   OP_TESTS(layouts_by_hand, random_problems, refusals));
}
