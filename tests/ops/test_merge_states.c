/* SPDX-License-Identifier: MIT
 *
 * rfg_op_merge_states on the cpu and on the devices of $RFG_TEST_DEVICES: dtypes, numbers of states, states without
 * keys, layouts, alignment, special values. (What it refuses of its tensors: test_args.c.) */
#include <math.h>

#include "base/util.h"
#include "rfg/rfg.h"
#include "tests/op_cases.h"
#include "tests/program.h"

#define R RFG_DATA_RANDOM
#define I RFG_DATA_INTS
#define S RFG_DATA_SPECIAL

static const struct op_case shapes[] = {
    { "merge_states bf16->bf16 T=6 H=4 D=512 n=8 lse=1" }, { "merge_states f16->f16 T=9 H=3 D=128 n=2 lse=1 base2=1" },
    { "merge_states f32->f32 T=7 H=5 D=64 n=3 lse=1" },    { "merge_states bf16->f32 T=5 H=2 D=96 n=17 lse=1 base2=1" },
    { "merge_states f16->f32 T=5 H=2 D=192 n=4" },         { "merge_states f32->bf16 T=8 H=4 D=256 n=16" },
    { "merge_states f32->f16 T=3 H=7 D=576 n=5" },         { "merge_states f16->bf16 T=4 H=6 D=128 n=9 lse=1" },
    { "merge_states bf16->f16 T=4 H=6 D=72 n=33" },        { "merge_states bf16->bf16 T=33 H=1 D=128 n=1 lse=1" },
    { "merge_states f32->f32 T=1 H=33 D=1 n=64 lse=1" },   { "merge_states bf16->bf16 T=17 H=3 D=7 n=2" },
    { "merge_states f16->f32 T=5 H=3 D=65 n=8" },          { "merge_states f32->bf16 T=5 H=3 D=66 n=2" },
    { "merge_states f32->f16 T=2 H=3 D=1031 n=3" },        { "merge_states bf16->bf16 T=1 H=2 D=8 n=1024 lse=1" },
    { "merge_states bf16->bf16 T=0 H=4 D=128 n=2 lse=1" }, { "merge_states bf16->bf16 T=4 H=0 D=128 n=2" },
};

static const struct op_case layouts[] = {
    { "merge_states bf16->bf16 T=6 H=5 D=128 n=4 lse=1 form=tnh" },
    { "merge_states f16->f16 T=6 H=5 D=128 n=4 lse=1 form=nht" },
    { "merge_states bf16->bf16 T=6 H=5 D=128 n=4 lse=1 base2=1 form=mha" },
    { "merge_states f32->bf16 T=7 H=3 D=36 n=19 lse=1 form=mha" },
    { "merge_states bf16->f32 T=7 H=3 D=36 n=2 lse=1 form=tnh align=8 align_y=8" },
    { "merge_states f16->f16 T=7 H=3 D=128 n=8 align=4 align_y=2" },
    { "merge_states f32->f16 T=7 H=3 D=128 n=3 align=4 align_y=8" },
    { "merge_states bf16->bf16 T=7 H=3 D=128 n=3 lse=1", R, true },
    { "merge_states f16->f32 T=7 H=3 D=129 n=9 lse=1 form=nht", R, true },
    { "merge_states f32->f32 T=7 H=3 D=130 n=2 form=mha", R, true },
};

static const struct op_case values[] = {
    { "merge_states bf16->bf16 T=20 H=3 D=64 n=2 lse=1", S },
    { "merge_states f16->f16 T=20 H=3 D=40 n=5 lse=1 base2=1", S },
    { "merge_states f32->f32 T=20 H=3 D=64 n=9 lse=1", S },
    { "merge_states f32->bf16 T=20 H=3 D=64 n=3", S },
    { "merge_states bf16->bf16 T=20 H=3 D=64 n=4 lse=1", I },
    { "merge_states f32->bf16 T=20 H=3 D=200 n=8", RFG_DATA_CANCEL },
};

OP_CASES(right_shapes, shapes, "merged attention states")
OP_CASES(right_layouts, layouts, "layouts of attention states")
OP_CASES(right_values, values, "merged attention states of NaN, inf, integers")

START_TEST(rows_by_turns)
{
    op_few_groups(op_device(_i), "merge_states bf16->bf16 T=50 H=3 D=512 n=8 lse=1",
                  "merge_states_rows{threads=64,states=8,stream=0}", 3);
    op_few_groups(op_device(_i), "merge_states f32->f32 T=50 H=4 D=100 n=2", "merge_states_portable{}", 2);
}
END_TEST

/* ---- by hand ----------------------------------------------------------------------------------------------------- */

static void *allocated(rfg_context *ctx, const void *from, size_t bytes)
{
    void *p = NULL;
    ck_assert_msg(rfg_device_alloc(ctx, &p, bytes) == RFG_OK, "%s", rfg_last_error());
    if (from)
        ck_assert_msg(rfg_device_copy(ctx, p, from, bytes, RFG_HOST_TO_DEVICE, NULL) == RFG_OK, "%s", rfg_last_error());
    return p;
}

static void read_back(rfg_context *ctx, void *to, const void *from, size_t bytes)
{
    ck_assert_msg(rfg_device_copy(ctx, to, from, bytes, RFG_DEVICE_TO_HOST, NULL) == RFG_OK, "%s", rfg_last_error());
    ck_assert_msg(rfg_stream_sync(ctx, NULL) == RFG_OK, "%s", rfg_last_error());
}

struct rule {
    float lse[2], o[2], out, lse_out;
    int base2;
};

static void check_rule(rfg_context *ctx, const struct rule *r, size_t number)
{
    float y, l;
    void *o = allocated(ctx, r->o, sizeof(r->o)), *lse = allocated(ctx, r->lse, sizeof(r->lse)),
         *out = allocated(ctx, NULL, sizeof(y)), *lse_out = allocated(ctx, NULL, sizeof(l));
    rfg_tensor to = rfg_tensor_nd(o, RFG_F32, 4, (int64_t[]){ 2, 1, 1, 1 }),
               tl = rfg_tensor_nd(lse, RFG_F32, 3, (int64_t[]){ 2, 1, 1 }),
               ty = rfg_tensor_nd(out, RFG_F32, 3, (int64_t[]){ 1, 1, 1 }),
               tm = rfg_tensor_nd(lse_out, RFG_F32, 2, (int64_t[]){ 1, 1 });
    rfg_merge_states_params p = { .size = sizeof(p), .lse_out = &tm, .base2 = r->base2 };
    ck_assert_msg(rfg_op_merge_states(ctx, &ty, &to, &tl, &p, NULL) == RFG_OK, "%s", rfg_last_error());
    read_back(ctx, &y, out, sizeof(y));
    read_back(ctx, &l, lse_out, sizeof(l));
    ck_assert_msg(isnan(r->out) ? isnan(y) : y == r->out || fabsf(y - r->out) < 1e-6f * fabsf(y), "rule %zu: out is %g",
                  number, (double)y);
    ck_assert_msg(isnan(r->lse_out) ? isnan(l) : l == r->lse_out || fabsf(l - r->lse_out) < 2e-6f,
                  "rule %zu: lse_out is %g", number, (double)l);
    void *const all[] = { o, lse, out, lse_out };
    for (int i = 0; i < 4; i++)
        ck_assert_msg(rfg_device_free(ctx, all[i]) == RFG_OK, "%s", rfg_last_error());
}

/* Two states of one element: what lse says decides what counts. */
START_TEST(rules)
{
    rfg_context *ctx = op_context(op_device(_i));
    static const struct rule table[] = {
        { { 0, 0 }, { 1, 3 }, 2, 0.6931472f, 0 },
        { { 5, 5 }, { 1, 3 }, 2, 6, 1 },
        { { 1, 3 }, { 10, 20 }, 18, 3.321928f, 1 }, /* weights 2 and 8 */
        { { -INFINITY, 2 }, { NAN, 7 }, 7, 2, 0 },  /* no keys */
        { { 2, INFINITY }, { 7, NAN }, 7, 2, 0 },   /* none either */
        { { -INFINITY, INFINITY }, { NAN, INFINITY }, 0, -INFINITY, 0 },
        { { NAN, -INFINITY }, { 1, 1 }, NAN, NAN, 0 },
        { { NAN, 3 }, { 1, 1 }, NAN, NAN, 0 },
        { { 0, -126 }, { 1, INFINITY }, INFINITY, 0, 1 }, /* the least weight */
        { { 0, -127 }, { 1, NAN }, 1, 0, 1 },
        { { 0, -88 }, { 1, NAN }, 1, 0, 0 },                                 /* exp(-88) is below 2^-126 */
        { { 0, 0 }, { 0x1.8p127f, 0x1.8p127f }, 0x1.8p127f, 0.6931472f, 0 }, /* no sum beyond fp32 on the way */
        { { -3e38f, 3e38f }, { NAN, 7 }, 7, 3e38f, 0 },                      /* whose difference is infinite */
        { { 0, 0 }, { INFINITY, 1 }, INFINITY, 0.6931472f, 0 },
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        check_rule(ctx, &table[i], i);
    rfg_context_destroy(&ctx);
}
END_TEST

/* ---- in memory of a device: n states of T tokens, H heads, D elements -------------------------------------------- */

#define N       3
#define T       5
#define H       2
#define D       72
#define ROWS    (T * H)
#define STATE   (ROWS * D) /* elements of a state */
#define O_BYTES ((size_t)(N * STATE) * 2)

struct memory {
    rfg_context *ctx;
    uint16_t o[N * STATE]; /* bf16 */
    float lse[N * ROWS];
    void *dev_o, *dev_lse, *dev_out, *dev_lse_out;
};

static void open_memory(struct memory *m, const char *device)
{
    uint64_t seed = op_seed();
    m->ctx = op_context(device);
    for (int i = 0; i < N * STATE; i++)
        m->o[i] = (uint16_t)(0x3f00 + BELOW(256)); /* 0.5 to 2 */
    for (int i = 0; i < N * ROWS; i++)
        m->lse[i] = (float)BELOW(1000) / 100;
    m->dev_o = allocated(m->ctx, m->o, O_BYTES);
    m->dev_lse = allocated(m->ctx, m->lse, sizeof(m->lse));
    m->dev_out = allocated(m->ctx, m->o, STATE * 2);
    m->dev_lse_out = allocated(m->ctx, m->lse, ROWS * sizeof(float));
}

static void close_memory(struct memory *m)
{
    void *const all[] = { m->dev_o, m->dev_lse, m->dev_out, m->dev_lse_out };
    for (int i = 0; i < 4; i++)
        ck_assert_msg(rfg_device_free(m->ctx, all[i]) == RFG_OK, "%s", rfg_last_error());
    rfg_context_destroy(&m->ctx);
}

/* Tokens first to first + n - 1 of the states, merged into out. */
static rfg_status merge(const struct memory *m, void *out, int first, int n)
{
    rfg_tensor to = { (uint16_t *)m->dev_o + first * H * D, RFG_BF16, 4, { N, n, H, D }, { STATE, H * D, D, 1 } },
               tl = { (float *)m->dev_lse + first * H, RFG_F32, 3, { N, n, H }, { ROWS, H, 1 } },
               ty = { out, RFG_BF16, 3, { n, H, D }, { H * D, D, 1 } },
               tm = { m->dev_lse_out, RFG_F32, 2, { n, H }, { H, 1 } };
    rfg_merge_states_params p = { .size = sizeof(p), .lse_out = &tm };
    return rfg_op_merge_states(m->ctx, &ty, &to, &tl, &p, NULL);
}

/* out may be any one of the states; the others stay. */
START_TEST(in_place)
{
    static struct memory m;
    static uint16_t want[STATE], got[N * STATE];
    open_memory(&m, op_device(_i));
    ck_assert_msg(merge(&m, m.dev_out, 0, T) == RFG_OK, "%s", rfg_last_error());
    read_back(m.ctx, want, m.dev_out, sizeof(want));
    for (int k = 0; k < N; k++) {
        ck_assert_msg(rfg_device_copy(m.ctx, m.dev_o, m.o, O_BYTES, RFG_HOST_TO_DEVICE, NULL) == RFG_OK, "%s",
                      rfg_last_error());
        ck_assert_msg(merge(&m, (uint16_t *)m.dev_o + k * STATE, 0, T) == RFG_OK, "%s", rfg_last_error());
        read_back(m.ctx, got, m.dev_o, sizeof(got));
        for (int i = 0; i < N; i++)
            ck_assert_msg(!memcmp(got + i * STATE, i == k ? want : m.o + i * STATE, sizeof(want)),
                          "in place of state %d: state %d is wrong", k, i);
    }
    /* Not a row behind one: another thread reads what is written. */
    op_refused(merge(&m, (uint16_t *)m.dev_o + D, 0, T), "out");
    op_refused(merge(&m, (uint16_t *)m.dev_o + (N - 1) * STATE + D, 0, T), "out");
    close_memory(&m);
}
END_TEST

/* A token's bits are the same whichever others are merged with it. */
START_TEST(any_batch)
{
    static struct memory m;
    static uint16_t want[STATE], got[STATE];
    float want_lse[ROWS], got_lse[ROWS];
    open_memory(&m, op_device(_i));
    ck_assert_msg(merge(&m, m.dev_out, 0, T) == RFG_OK, "%s", rfg_last_error());
    read_back(m.ctx, want, m.dev_out, sizeof(want));
    read_back(m.ctx, want_lse, m.dev_lse_out, sizeof(want_lse));
    for (int first = 0; first < T; first += 2) {
        int n = first + 2 <= T ? 2 : 1;
        ck_assert_msg(merge(&m, m.dev_out, first, n) == RFG_OK, "%s", rfg_last_error());
        read_back(m.ctx, got, m.dev_out, sizeof(got));
        read_back(m.ctx, got_lse, m.dev_lse_out, sizeof(got_lse));
        ck_assert_msg(!memcmp(got, want + first * H * D, (size_t)(n * H * D) * 2), "tokens from %d", first);
        ck_assert_msg(!memcmp(got_lse, want_lse + first * H, (size_t)(n * H) * 4), "lse of tokens from %d", first);
    }
    close_memory(&m);
}
END_TEST

/* What its tensors may not be but for what test_args.c asks of all operators. */
START_TEST(refusals)
{
    rfg_context *ctx = op_context("cpu");
    static float o[2 * 4 * 8], lse[(RFG_MERGE_MAX_STATES + 1) * 2], y[16];
    rfg_tensor to = { o, RFG_F32, 4, { 2, 2, 2, 4 }, { 16, 8, 4, 1 } },
               tl = { lse, RFG_F32, 3, { 2, 2, 2 }, { 4, 2, 1 } }, ty = { y, RFG_F32, 3, { 2, 2, 4 }, { 8, 4, 1 } },
               tm = { lse, RFG_F32, 2, { 2, 2 }, { 2, 1 } };
    rfg_merge_states_params p = { .size = sizeof(p), .lse_out = &tm };
    op_refused(rfg_op_merge_states(ctx, &ty, &to, &tl, &p, NULL), "lse_out"); /* in place of the first state's */
    rfg_tensor many = { o, RFG_F32, 4, { RFG_MERGE_MAX_STATES + 1, 1, 1, 1 }, { 1, 1, 1, 1 } },
               many_lse = { lse, RFG_F32, 3, { RFG_MERGE_MAX_STATES + 1, 1, 1 }, { 1, 1, 1 } },
               one = { y, RFG_F32, 3, { 1, 1, 1 }, { 1, 1, 1 } };
    op_refused(rfg_op_merge_states(ctx, &one, &many, &many_lse, NULL, NULL), "must be from 1 to 1024");
    many.shape[0] = many_lse.shape[0] = 0;
    op_refused(rfg_op_merge_states(ctx, &one, &many, &many_lse, NULL, NULL), "o has 0 in dimension 0, states");
    op_problem_refused("merge_states bf16->bf16 T=1 H=1 D=0 n=2", "D");
    rfg_tensor none = { o, RFG_F32, 4, { 1, 1, 1, 0 }, { 1, 1, 1, 1 } };
    one.shape[2] = 0;
    many_lse.shape[0] = 1;
    op_refused(rfg_op_merge_states(ctx, &one, &none, &many_lse, NULL, NULL),
               "o has 0 in dimension 3, elements of a head");
    to.strides[0] = 4; /* states in each other's way */
    op_refused(rfg_op_merge_states(ctx, &ty, &to, &tl, NULL, NULL), "o has stride 4");
    op_problem_refused("merge_states bf16->bf16 T=1 H=1 D=8 n=0", "n");
    op_problem_refused("merge_states bf16->e4m3 T=1 H=1 D=8 n=2", "out");
    op_problem_refused("merge_states bf16->bf16 T=65536 H=65536 D=8 n=2", "T H");
    op_problem_refused("merge_states bf16->bf16 T=65536 H=128 D=4096 n=2", "at most");
    op_problem_refused("merge_states bf16->bf16 T=1 H=1 D=8 n=2 align=3", "power of two");
    rfg_context_destroy(&ctx);
}
END_TEST

int main(void)
{
    return op_main_gpus("merge_states", OP_TESTS(right_shapes, right_layouts, right_values, rules, in_place, any_batch),
                        OP_TESTS(refusals), OP_TESTS(rows_by_turns));
}
