/* SPDX-License-Identifier: MIT
 *
 * rfg_op_lora on the cpu and on the devices of $RFG_TEST_DEVICES: dtypes, ranks, rows without an adapter, segments,
 * layouts, alignment, special values. (What it refuses of its tensors: test_args.c.) */
#include <math.h>
#include <string.h>

#include "base/util.h"
#include "rfg/rfg.h"
#include "tests/op_cases.h"
#include "tests/program.h"
#include "tuner/harness/harness.h"

#define R RFG_DATA_RANDOM
#define I RFG_DATA_INTS
#define S RFG_DATA_SPECIAL

static const struct op_case shapes[] = {
    { "lora bf16->bf16 M=64 N=512 K=512 rank=16 adapters=8" },
    { "lora f16->f16 M=9 N=256 K=2304 rank=8 adapters=3" },
    { "lora bf16->f32 M=33 N=128 K=200 rank=32 adapters=2 scales=1" },
    { "lora f16->f32 M=1 N=300 K=64 rank=64 adapters=1" },
    { "lora f16->bf16 M=5 N=96 K=4128 rank=40 adapters=9 ranks=1" },
    { "lora bf16->f16 M=70 N=64 K=96 rank=24 adapters=1 scales=1 ranks=1" },
    { "lora bf16->bf16 M=17 N=129 K=1000 rank=1 adapters=5" },
    { "lora bf16->bf16 M=150 N=136 K=128 rank=128 adapters=2" },
    { "lora f16->f16 M=6 N=72 K=72 rank=256 adapters=2 ranks=1" },
    { "lora bf16->bf16 M=4 N=40 K=24 rank=512 adapters=2" },
    { "lora bf16->bf16 M=200 N=64 K=64 rank=8 adapters=500" },
    { "lora bf16->bf16 M=0 N=8 K=8 rank=8 adapters=2" },
    { "lora bf16->bf16 M=4 N=0 K=8 rank=8 adapters=2" },
    { "lora bf16->bf16 M=4 N=8 K=8 rank=8 adapters=0" },
};

static const struct op_case segments[] = {
    { "lora bf16->bf16 M=64 N=128 K=128 rank=16 adapters=4 segments=4" },
    { "lora f16->f16 M=130 N=64 K=128 rank=16 adapters=3 segments=9 scales=1" },
    { "lora bf16->f32 M=7 N=64 K=64 rank=8 adapters=3 segments=40" },
    { "lora bf16->bf16 M=100 N=64 K=64 rank=8 adapters=3 segments=1 ranks=1" },
};

static const struct op_case layouts[] = {
    { "lora bf16->bf16 M=20 N=128 K=256 rank=16 adapters=4 form=gaps" },
    { "lora f16->f32 M=20 N=131 K=260 rank=20 adapters=4 form=gaps" },
    { "lora bf16->bf16 M=20 N=128 K=256 rank=16 adapters=4 form=gaps align=8 align_a=4 align_b=2 align_y=2" },
    { "lora f16->f16 M=12 N=128 K=256 rank=16 adapters=4 align=2 align_a=2 align_b=8" },
    { "lora bf16->f32 M=12 N=127 K=33 rank=9 adapters=4 align_y=4" },
    { "lora bf16->bf16 M=12 N=63 K=2051 rank=3 adapters=2 segments=3", R, true },
    { "lora f16->f32 M=12 N=64 K=66 rank=8 adapters=2 form=gaps", R, true },
};

static const struct op_case values[] = {
    { "lora bf16->bf16 M=20 N=96 K=96 rank=8 adapters=4 scales=1", S },
    { "lora f16->f16 M=20 N=96 K=96 rank=12 adapters=4 ranks=1", S },
    { "lora bf16->f32 M=20 N=97 K=96 rank=8 adapters=4", S },
    { "lora bf16->bf16 M=20 N=96 K=96 rank=8 adapters=4", I },
    { "lora f16->f16 M=20 N=96 K=4096 rank=16 adapters=4 scales=1", RFG_DATA_CANCEL },
};

/* Clusters that share out k or ranks, of several passes. */
static const struct op_case clusters[] = {
    { "lora bf16->bf16 M=64 N=512 K=512 rank=64 adapters=8", R, false,
      "lora_rows{waves=8,rows=8,parts=4,slots=8,cluster=4,each=8,ranks=16,fetch=1,share=1}" },
    { "lora f16->f32 M=20 N=300 K=2304 rank=40 adapters=3 ranks=1 scales=1", R, false,
      "lora_rows{waves=8,rows=16,parts=2,slots=2,cluster=2,each=4,ranks=16,fetch=0,share=1}" },
    { "lora bf16->f32 M=70 N=256 K=200 rank=100 adapters=2", R, false,
      "lora_rows{waves=8,rows=8,parts=2,slots=1,cluster=2,each=4,ranks=16,fetch=0,share=1}" },
    { "lora bf16->bf16 M=40 N=512 K=4096 rank=100 adapters=3 ranks=1", R, false,
      "lora_rows{waves=4,rows=8,parts=8,slots=2,cluster=8,each=8,ranks=32,fetch=1,share=0}" },
};

OP_CASES(right_shapes, shapes, "adapters")

START_TEST(right_clusters)
{
    if (!strncmp(op_device(_i), "nvidia", 6)) /* others have no clusters */
        op_cases_run(op_device(_i), "adapters on clusters", clusters, (int)(sizeof(clusters) / sizeof(clusters[0])));
}
END_TEST
OP_CASES(right_segments, segments, "adapters of segments")
OP_CASES(right_layouts, layouts, "layouts of adapters")
OP_CASES(right_values, values, "adapters of NaN, inf, integers")

START_TEST(windows_by_turns)
{
    op_few_groups(op_device(_i), "lora bf16->bf16 M=200 N=64 K=64 rank=8 adapters=3",
                  "lora_rows{waves=8,rows=16,parts=1,slots=1,cluster=1,each=4,ranks=16,fetch=0,share=0}", 3);
}
END_TEST

/* ---- in memory of a device --------------------------------------------------------------------------------------- */

#define M        40
#define N        72
#define K        2200
#define RANK     24
#define ADAPTERS 3

struct memory {
    rfg_context *ctx;
    uint16_t x[M * K], y[M * N]; /* bf16 */
    int32_t ids[M];
    void *dev_x, *dev_a, *dev_b, *dev_y, *dev_ids;
};

static void *allocated(rfg_context *ctx, const void *from, size_t bytes)
{
    void *p = NULL;
    ck_assert_msg(rfg_device_alloc(ctx, &p, bytes) == RFG_OK, "%s", rfg_last_error());
    ck_assert_msg(rfg_device_copy(ctx, p, from, bytes, RFG_HOST_TO_DEVICE, NULL) == RFG_OK, "%s", rfg_last_error());
    return p;
}

static void to_device(const struct memory *m, void *to, const void *from, size_t bytes)
{
    ck_assert_msg(rfg_device_copy(m->ctx, to, from, bytes, RFG_HOST_TO_DEVICE, NULL) == RFG_OK, "%s", rfg_last_error());
}

static void read_back(const struct memory *m, void *to, const void *from, size_t bytes)
{
    ck_assert_msg(rfg_device_copy(m->ctx, to, from, bytes, RFG_DEVICE_TO_HOST, NULL) == RFG_OK, "%s", rfg_last_error());
    ck_assert_msg(rfg_stream_sync(m->ctx, NULL) == RFG_OK, "%s", rfg_last_error());
}

static void open_memory(struct memory *m, rfg_context *ctx)
{
    static uint16_t a[ADAPTERS * RANK * K], b[ADAPTERS * N * RANK];
    uint64_t seed = op_seed();
    m->ctx = ctx;
#define DRAW(array)                                                                                                    \
    for (size_t i = 0; i < sizeof(array) / 2; i++)                                                                     \
    (array)[i] = (uint16_t)(0x3e00 + BELOW(256) + (BELOW(2) << 15)) /* 0.125 to 0.5, of either sign */
    DRAW(m->x);
    DRAW(m->y);
    DRAW(a);
    DRAW(b);
    for (int i = 0; i < M; i++)
        m->ids[i] = BELOW(ADAPTERS + 1) - 1;
    m->dev_x = allocated(ctx, m->x, sizeof(m->x));
    m->dev_a = allocated(ctx, a, sizeof(a));
    m->dev_b = allocated(ctx, b, sizeof(b));
    m->dev_y = allocated(ctx, m->y, sizeof(m->y));
    m->dev_ids = allocated(ctx, m->ids, sizeof(m->ids));
}

static void close_memory(struct memory *m)
{
    void *const all[] = { m->dev_x, m->dev_a, m->dev_b, m->dev_y, m->dev_ids };
    for (int i = 0; i < 5; i++)
        ck_assert_msg(rfg_device_free(m->ctx, all[i]) == RFG_OK, "%s", rfg_last_error());
    rfg_context_destroy(&m->ctx);
}

/* Rows first to first + n - 1, in place. */
static rfg_status add(const struct memory *m, int first, int n, rfg_stream stream)
{
    rfg_tensor x = rfg_tensor_2d((uint16_t *)m->dev_x + first * K, RFG_BF16, n, K, K),
               y = rfg_tensor_2d((uint16_t *)m->dev_y + first * N, RFG_BF16, n, N, N),
               a = rfg_tensor_nd(m->dev_a, RFG_BF16, 3, (int64_t[]){ ADAPTERS, RANK, K }),
               b = rfg_tensor_nd(m->dev_b, RFG_BF16, 3, (int64_t[]){ ADAPTERS, N, RANK }),
               ids = rfg_tensor_1d((int32_t *)m->dev_ids + first, RFG_I32, n);
    return rfg_op_lora(m->ctx, &y, &x, &a, &b, &ids, NULL, stream);
}

/* A row's bits are the same whichever others are beside it. */
START_TEST(any_batch)
{
    static struct memory m;
    static uint16_t want[M * N], got[M * N];
    open_memory(&m, op_context(op_device(_i)));
    ck_assert_msg(add(&m, 0, M, NULL) == RFG_OK, "%s", rfg_last_error());
    read_back(&m, want, m.dev_y, sizeof(want));
    ck_assert_msg(memcmp(want, m.y, sizeof(want)) != 0, "nothing was added");
    for (int n = 1; n <= 9; n += 4) {
        to_device(&m, m.dev_y, m.y, sizeof(m.y));
        for (int first = 0; first < M; first += n)
            ck_assert_msg(add(&m, first, first + n < M ? n : M - first, NULL) == RFG_OK, "%s", rfg_last_error());
        read_back(&m, got, m.dev_y, sizeof(got));
        for (int i = 0; i < M; i++)
            ck_assert_msg(!memcmp(got + i * N, want + i * N, N * 2), "row %d, of batches of %d", i, n);
    }
    close_memory(&m);
}
END_TEST

/* Parameters decide nothing about a row's bits. */
struct kept {
    struct rfg_case *c;
    void *want;
    size_t size;
    int runs;
};

static void run_plan(void *arg, const struct rfg_plan *plan, const char *name)
{
    struct kept *k = arg;
    void *got;
    size_t size;
    ck_assert(rfg_case_poison(k->c, 0) == RFG_OK);
    ck_assert_msg(rfg_case_run(k->c, 0, plan, NULL) == RFG_OK, "%s: %s", name, rfg_last_error());
    ck_assert_msg(rfg_stream_sync(rfg_case_context(k->c), NULL) == RFG_OK, "%s", rfg_last_error());
    ck_assert_msg(rfg_case_outputs(k->c, 0, &got, &size) == RFG_OK, "%s", rfg_last_error());
    if (!k->runs++) {
        k->want = got;
        k->size = size;
        return;
    }
    ck_assert_msg(size == k->size && !memcmp(got, k->want, size), "%s: other bits", name);
    free(got);
}

START_TEST(one_order)
{
    rfg_context *ctx = op_context(op_device(_i));
    static const char *const problems[] = {
        "lora bf16->bf16 M=40 N=200 K=4300 rank=40 adapters=3 scales=1 align=8 align_a=8",
        "lora f16->f32 M=70 N=130 K=2050 rank=8 adapters=2 segments=3 align=4 align_a=4 align_y=8"
    };
    for (int i = 0; i < 2; i++) {
        struct rfg_problem prob = op_problem(problems[i]);
        struct rfg_case_params params = { .seed = op_seed() };
        struct kept k = { 0 };
        ck_assert_msg(rfg_case_create(ctx, &prob, &params, &k.c) == RFG_OK, "%s", rfg_last_error());
        run_plan(&k, NULL, "the public function");
        op_each_plan(ctx, &prob, 8, run_plan, &k);
        free(k.want);
        rfg_case_destroy(&k.c);
    }
    rfg_context_destroy(&ctx);
}
END_TEST

/* ids are read when the graph is replayed, not when it is captured. */
START_TEST(captured)
{
    static struct memory m;
    static uint16_t want[M * N], got[M * N];
    rfg_stream stream;
    rfg_graph *graph;
    open_memory(&m, op_context(op_device(_i)));
    ck_assert_msg(rfg_stream_create(m.ctx, &stream) == RFG_OK, "%s", rfg_last_error());
    ck_assert_msg(add(&m, 0, M, NULL) == RFG_OK, "%s", rfg_last_error());
    read_back(&m, want, m.dev_y, sizeof(want));
    ck_assert_msg(rfg_stream_begin_capture(m.ctx, stream) == RFG_OK, "%s", rfg_last_error());
    ck_assert_msg(add(&m, 0, M, stream) == RFG_OK, "%s", rfg_last_error());
    ck_assert_msg(rfg_stream_end_capture(m.ctx, stream, &graph) == RFG_OK, "%s", rfg_last_error());
    for (int round = 0; round < 2; round++) {
        static const int32_t none[M] = { [0 ... M - 1] = -1 };
        to_device(&m, m.dev_y, m.y, sizeof(m.y));
        to_device(&m, m.dev_ids, round ? m.ids : none, sizeof(none));
        ck_assert_msg(rfg_graph_replay(m.ctx, graph, stream) == RFG_OK, "%s", rfg_last_error());
        ck_assert_msg(rfg_stream_sync(m.ctx, stream) == RFG_OK, "%s", rfg_last_error());
        read_back(&m, got, m.dev_y, sizeof(got));
        ck_assert_msg(!memcmp(got, round ? want : m.y, sizeof(got)), "replay %d", round);
    }
    ck_assert_msg(rfg_graph_destroy(m.ctx, &graph) == RFG_OK, "%s", rfg_last_error());
    ck_assert_msg(rfg_stream_destroy(m.ctx, &stream) == RFG_OK, "%s", rfg_last_error());
    close_memory(&m);
}
END_TEST

/* Without params, or with a scale of 0, the factor is 1. */
START_TEST(scale_of_0_is_1)
{
    rfg_context *ctx = op_context("cpu");
    static uint16_t x[8], a[32], b[16], y[4];
    static int32_t id[1];
    for (int i = 0; i < 32; i++)
        x[i % 8] = a[i] = b[i % 16] = 0x3f80; /* 1 */
    rfg_tensor tx = rfg_tensor_2d(x, RFG_BF16, 1, 8, 8), ty = rfg_tensor_2d(y, RFG_BF16, 1, 4, 4),
               ta = rfg_tensor_nd(a, RFG_BF16, 3, (int64_t[]){ 1, 4, 8 }),
               tb = rfg_tensor_nd(b, RFG_BF16, 3, (int64_t[]){ 1, 4, 4 }), ti = rfg_tensor_1d(id, RFG_I32, 1);
    rfg_lora_params p[] = { { .size = sizeof(p[0]) }, { .size = sizeof(p[0]), .scale = 0.5f } };
    const rfg_lora_params *const params[] = { NULL, &p[0], &p[1] };
    const uint16_t sums[] = { 0x4200, 0x4280, 0x42a0 }; /* 32, 64, 80 */
    for (int i = 0; i < 3; i++) {
        ck_assert_msg(rfg_op_lora(ctx, &ty, &tx, &ta, &tb, &ti, params[i], NULL) == RFG_OK, "%s", rfg_last_error());
        ck_assert_uint_eq(y[3], sums[i]);
    }
    rfg_context_destroy(&ctx);
}
END_TEST

/* Not refused by test_args.c: what its tensors and numbers may not be. */
START_TEST(refusals)
{
    static const char *const bad[][2] = {
        { "M=4 N=8 K=0 rank=8 adapters=2", "K" },
        { "M=4 N=8 K=8 rank=0 adapters=2", "rank" },
        { "M=4 N=8 K=8 rank=513 adapters=2", "rank" },
        { "M=4 N=8 K=8 rank=8 adapters=2 align_b=3", "power of two" },
    };
    op_problem_refused("lora f32->f32 M=4 N=8 K=8 rank=8 adapters=2", "dtype of x is f32: must be bf16 or f16");
    op_problem_refused("lora bf16->e4m3 M=4 N=8 K=8 rank=8 adapters=2", "dtype of y is e4m3");
    OP_PROBLEMS_REFUSED("lora bf16->bf16 ", bad);
    rfg_context *ctx = op_context("cpu");
    static uint16_t x[64], a[64], b[64], y[64];
    static int32_t ids[4];
    rfg_tensor tx = rfg_tensor_2d(x, RFG_BF16, 4, 8, 8), ty = rfg_tensor_2d(y, RFG_BF16, 4, 4, 4),
               ta = rfg_tensor_nd(a, RFG_BF16, 3, (int64_t[]){ 2, 4, 8 }),
               tb = rfg_tensor_nd(b, RFG_BF16, 3, (int64_t[]){ 2, 4, 4 }), ti = rfg_tensor_1d(ids, RFG_I32, 4),
               odd = rfg_tensor_nd(b, RFG_BF16, 3, (int64_t[]){ 2, 5, 4 }),
               more = rfg_tensor_nd(b, RFG_BF16, 3, (int64_t[]){ 3, 4, 4 });
    op_refused(rfg_op_lora(ctx, &ty, &tx, &ta, &odd, &ti, NULL, NULL), "y has 4");
    op_refused(rfg_op_lora(ctx, &ty, &tx, &ta, &more, &ti, NULL, NULL), "b has 3 in dimension 0");
    op_refused(rfg_op_lora(ctx, &tx, &tx, &ta, &tb, &ti, NULL, NULL), "y");
    rfg_lora_params p = { .size = sizeof(p), .scale = NAN };
    op_refused(rfg_op_lora(ctx, &ty, &tx, &ta, &tb, &ti, &p, NULL), "scale is nan: must be finite");
    rfg_context_destroy(&ctx);
}
END_TEST

int main(void)
{
    return op_main_gpus("lora",
                        OP_TESTS(right_shapes, right_segments, right_layouts, right_values, right_clusters, one_order,
                                 any_batch, captured),
                        OP_TESTS(refusals, scale_of_0_is_1), OP_TESTS(windows_by_turns));
}
