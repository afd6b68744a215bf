/* SPDX-License-Identifier: MIT
 *
 * rfg_op_advance on the cpu and on the devices of $RFG_TEST_DEVICES: options, sizes, whatever tensors hold; a captured
 * step that is replayed against an engine's own books. (What it refuses: test_args.c.) */
#include "base/util.h"
#include "tests/op_cases.h"
#include "tests/program.h"
#include "rfg/rfg.h"

static const struct op_case options[] = {
    { "advance i32->i64 B=9 Sq=1 blocks=0" },
    { "advance i32->i32 B=9 Sq=1 blocks=0 active=1" },
    { "advance i32->i32 B=17 Sq=3 blocks=0 accepted=1" },
    { "advance i32->i64 B=40 Sq=1 blocks=6 page=4 slots=1" },
    { "advance i32->i64 B=40 Sq=4 blocks=6 page=4 slots=1 accepted=1 active=1" },
    { "advance i32->i32 B=40 Sq=2 blocks=6 page=16" },
    { "advance i32->i64 B=40 Sq=1 blocks=6 page=4 slots=1 spare=30" },
    { "advance i32->i32 B=40 Sq=8 blocks=20 page=2 slots=1 spare=100 accepted=1" },
    { "advance i32->i64 B=40 Sq=8 blocks=30 page=1 slots=1 spare=200 accepted=1 active=1" },
    { "advance i32->i64 B=40 Sq=5 blocks=6 page=4 spare=7 active=1" },
    { "advance i32->i64 B=1100 Sq=1 blocks=2 page=2 slots=1 spare=900" }, /* several rounds of a workgroup */
    { "advance i32->i64 B=9 Sq=1 blocks=2000 page=1048576 slots=1 spare=5" },
    { "advance i32->i64 B=9 Sq=2 blocks=3000 page=1048576 slots=1" },
    { "advance i32->i64 B=11 Sq=2 blocks=6 page=4 slots=1 spare=9 ldb=11" },
    { "advance i32->i64 B=40 Sq=3 blocks=9 page=3 slots=1 spare=70 accepted=1" },
    { "advance i32->i64 B=9 Sq=2 blocks=40 page=784 slots=1" },
};

static const struct op_case sizes[] = {
    { "advance i32->i64 B=1 Sq=1 blocks=1 page=1 slots=1 spare=1" },
    { "advance i32->i32 B=0 Sq=1 blocks=0" },
    { "advance i32->i64 B=63 Sq=1 blocks=9 page=8 slots=1 spare=40" },
    { "advance i32->i64 B=65 Sq=2 blocks=9 page=8 slots=1 spare=70" },
    { "advance i32->i64 B=1500 Sq=1 blocks=5 page=2 slots=1 spare=2000" },
    { "advance i32->i32 B=2100 Sq=3 blocks=9 page=2 slots=1 spare=1000 accepted=1" },
};

OP_CASES(right_options, options, "next steps")
OP_CASES(right_sizes, sizes, "sizes of next steps")

/* Problems at random, and with each case's seed other data. */
START_TEST(random_problems)
{
    static const int pages[] = { 0, 1, 2, 16, 48, 128, 1 << 20 }, tokens[] = { 1, 1, 2, 5, 8 };
    rfg_context *ctx = op_context("cpu");
    uint64_t seed = op_seed();
    for (int i = 0, n = op_random_problems(); i < n; i++) {
        char text[RFG_PROBLEM_STRLEN];
        int page = ONE_OF(pages), blocks = page ? 1 + BELOW(page > 128 ? 2060 : 40) : 0;
        snprintf(text, sizeof(text),
                 "advance i32->%s B=%d Sq=%d blocks=%d page=%d slots=%d accepted=%d active=%d spare=%d",
                 BELOW(2) ? "i64" : "i32", 1 + BELOW(80), ONE_OF(tokens), blocks, page, page ? BELOW(2) : 0, BELOW(2),
                 BELOW(2), page ? BELOW(2) * (1 + BELOW(200)) : 0);
        op_case_right(ctx, text, RFG_DATA_RANDOM, rfg_random(&seed));
    }
    rfg_context_destroy(&ctx);
}
END_TEST

/* ---- 40 steps of one graph --------------------------------------------------------------------------------------- */

enum { B = 6, PAGE = 4, BLOCKS = 12, F = 40, STEPS = 40, MOST = 4 };

/* An engine's books: each sequence's tokens that count, and those that are drafted behind them; its blocks; a pile of
 * blocks that nobody has. */
struct books {
    int len[B], drafted[B], n_blocks[B], block[B][BLOCKS], pile[F], n_pile;
};

/* Does the sequence take its n accepted tokens and draft the next ones? */
static bool goes(struct books *s, int b, int n, int sq, bool *waits)
{
    int len = s->len[b] + s->drafted[b] - sq + n, need = (len + sq + PAGE - 1) / PAGE - s->n_blocks[b];
    if ((len + sq + PAGE - 1) / PAGE > BLOCKS)
        return false;
    *waits |= need > 0 && need > s->n_pile;
    if (need > 0 && *waits)
        return false;
    for (; need > 0; need--)
        s->block[b][s->n_blocks[b]++] = s->pile[--s->n_pile];
    s->len[b] = len;
    s->drafted[b] = sq;
    return true;
}

struct memory {
    rfg_context *ctx;
    rfg_stream stream;
};

static void *put(const struct memory *m, const void *from, size_t bytes)
{
    void *to;
    ck_assert_msg(rfg_device_alloc(m->ctx, &to, bytes) == RFG_OK, "%s", rfg_last_error());
    ck_assert(rfg_device_copy(m->ctx, to, from, bytes, RFG_HOST_TO_DEVICE, m->stream) == RFG_OK);
    return to;
}
static void copy(const struct memory *m, void *to, const void *from, size_t bytes, rfg_copy_kind way)
{
    ck_assert_msg(rfg_device_copy(m->ctx, to, from, bytes, way, m->stream) == RFG_OK, "%s", rfg_last_error());
    ck_assert(rfg_stream_sync(m->ctx, m->stream) == RFG_OK);
}

/* The prompts' blocks, and some that are spare. Returns the last number of a block. */
static int begin(struct books *s, int32_t table[B][BLOCKS], int32_t *lens, int32_t *spare)
{
    static const int prompts[B] = { 5, 0, 8, 30, 3, 1 };
    int next = 100;
    memset(table, 0xff, sizeof(int32_t[B][BLOCKS]));
    for (int b = 0; b < B; b++) {
        lens[b] = prompts[b];
        s->len[b] = prompts[b];
        while (s->n_blocks[b] * PAGE < prompts[b])
            table[b][s->n_blocks[b]] = s->block[b][s->n_blocks[b]] = next, s->n_blocks[b]++, next += 7;
    }
    for (; s->n_pile < 9; s->n_pile++)
        spare[s->n_pile] = s->pile[s->n_pile] = next += 3;
    return next;
}

static void check_step(const struct books *s, int step, int sq, const bool *went, const int32_t *lens,
                       const int64_t *positions, const int64_t *slots)
{
    for (int b = 0; b < B; b++) {
        ck_assert_msg(lens[b] == s->len[b] + s->drafted[b], "step %d, sequence %d: %d keys, expected %d", step, b,
                      lens[b], s->len[b] + s->drafted[b]);
        for (int j = 0; j < sq; j++) {
            int at = went[b] ? s->len[b] + j : 0;
            int slot = went[b] ? s->block[b][at / PAGE] * PAGE + at % PAGE : -1;
            ck_assert_msg(positions[b * sq + j] == at && slots[b * sq + j] == slot,
                          "step %d, sequence %d, token %d: position %lld in slot %lld, expected %d in %d", step, b, j,
                          (long long)positions[b * sq + j], (long long)slots[b * sq + j], at, slot);
        }
    }
}

/* The step is captured once; between replays the host changes what tensors hold: how many tokens are accepted, who is
 * active, and, in the middle, it gives a sequence's blocks back and starts another one in its place. */
static void replay(const char *device, int sq)
{
    struct memory m = { op_context(device), NULL };
    struct books s = { .n_pile = 0 };
    int32_t table[B][BLOCKS], lens[B], accepted[B], active[B], spare[F] = { 0 }, count;
    ck_assert(rfg_stream_create(m.ctx, &m.stream) == RFG_OK);
    int next = begin(&s, table, lens, spare);
    for (int b = 0; b < B; b++) {
        accepted[b] = sq;
        active[b] = 1;
    }
    count = s.n_pile;
    int64_t poison[B * MOST];
    memset(poison, 0x55, sizeof(poison));
    void *d_lens = put(&m, lens, sizeof(lens)), *d_table = put(&m, table, sizeof(table)),
         *d_accepted = put(&m, accepted, sizeof(accepted)), *d_active = put(&m, active, sizeof(active)),
         *d_spare = put(&m, spare, sizeof(spare)), *d_count = put(&m, &count, sizeof(count)),
         *d_positions = put(&m, poison, sizeof(poison)), *d_slots = put(&m, poison, sizeof(poison));
    rfg_tensor tl = rfg_tensor_1d(d_lens, RFG_I32, B), tp = rfg_tensor_2d(d_positions, RFG_I64, B, sq, sq),
               ts = rfg_tensor_2d(d_slots, RFG_I64, B, sq, sq), tt = rfg_tensor_2d(d_table, RFG_I32, B, BLOCKS, BLOCKS),
               ta = rfg_tensor_1d(d_accepted, RFG_I32, B), to = rfg_tensor_1d(d_active, RFG_I32, B),
               tf = rfg_tensor_1d(d_spare, RFG_I32, F), tc = rfg_tensor_1d(d_count, RFG_I32, 1);
    rfg_advance_params p = { .size = sizeof(p),
                             .slots = &ts,
                             .block_table = &tt,
                             .page = PAGE,
                             .accepted = &ta,
                             .active = &to,
                             .spare = &tf,
                             .spare_count = &tc };
    char problem[RFG_PROBLEM_STRLEN];
    snprintf(problem, sizeof(problem),
             "advance i32->i64 B=%d Sq=%d blocks=%d page=%d slots=1 accepted=1 active=1 spare=%d", B, sq, BLOCKS, PAGE,
             F);
    ck_assert_msg(rfg_prepare(m.ctx, problem) == RFG_OK, "%s", rfg_last_error());
    rfg_graph *graph;
    ck_assert(rfg_stream_begin_capture(m.ctx, m.stream) == RFG_OK);
    ck_assert_msg(rfg_op_advance(m.ctx, &tl, &tp, &p, m.stream) == RFG_OK, "%s", rfg_last_error());
    ck_assert(rfg_stream_end_capture(m.ctx, m.stream, &graph) == RFG_OK);

    uint64_t seed = op_seed();
    int went = 0, stood = 0;
    for (int step = 0; step < STEPS; step++) {
        bool went_now[B], waits = false;
        if (step == STEPS / 2) { /* sequence 3 ends, another of 2 tokens takes its place */
            copy(&m, lens, d_lens, sizeof(lens), RFG_DEVICE_TO_HOST);
            copy(&m, table, d_table, sizeof(table), RFG_DEVICE_TO_HOST);
            while (s.n_blocks[3] > 1)
                spare[s.n_pile] = s.pile[s.n_pile] = s.block[3][--s.n_blocks[3]], s.n_pile++;
            for (int more = 0; more < 15; more++, s.n_pile++)
                spare[s.n_pile] = s.pile[s.n_pile] = next += 3;
            ck_assert_int_le(s.n_pile, F);
            count = s.n_pile;
            lens[3] = s.len[3] = 2;
            s.drafted[3] = 0;
            copy(&m, d_spare, spare, sizeof(spare), RFG_HOST_TO_DEVICE);
            copy(&m, d_count, &count, sizeof(count), RFG_HOST_TO_DEVICE);
            copy(&m, d_lens, lens, sizeof(lens), RFG_HOST_TO_DEVICE);
        }
        for (int b = 0; b < B; b++) {
            accepted[b] = s.drafted[b] ? 1 + BELOW(sq) : sq; /* of a new one there are no rejected ones */
            active[b] = b != 4 || step % 3 != 1;
            went_now[b] = active[b] && goes(&s, b, accepted[b], sq, &waits);
            went += went_now[b];
            stood += !went_now[b];
        }
        copy(&m, d_accepted, accepted, sizeof(accepted), RFG_HOST_TO_DEVICE);
        copy(&m, d_active, active, sizeof(active), RFG_HOST_TO_DEVICE);
        ck_assert_msg(rfg_graph_replay(m.ctx, graph, m.stream) == RFG_OK, "%s", rfg_last_error());
        int64_t positions[B * MOST], slots[B * MOST];
        copy(&m, lens, d_lens, sizeof(lens), RFG_DEVICE_TO_HOST);
        copy(&m, &count, d_count, sizeof(count), RFG_DEVICE_TO_HOST);
        ck_assert_msg(count == s.n_pile, "step %d: %d spare blocks, expected %d", step, count, s.n_pile);
        copy(&m, positions, d_positions, (size_t)(B * sq) * 8, RFG_DEVICE_TO_HOST);
        copy(&m, slots, d_slots, (size_t)(B * sq) * 8, RFG_DEVICE_TO_HOST);
        check_step(&s, step, sq, went_now, lens, positions, slots);
    }
    ck_assert_msg(went > 60 && stood > 30, "%d went, %d stood still: too few of one to tell", went, stood);
    ck_assert(rfg_graph_destroy(m.ctx, &graph) == RFG_OK);
    void *all[] = { d_lens, d_table, d_accepted, d_active, d_spare, d_count, d_positions, d_slots };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        ck_assert(rfg_device_free(m.ctx, all[i]) == RFG_OK);
    ck_assert(rfg_stream_destroy(m.ctx, &m.stream) == RFG_OK);
    rfg_context_destroy(&m.ctx);
}

START_TEST(steps)
{
    replay(op_device(_i), 1);
    replay(op_device(_i), 3);
}
END_TEST

/* Nothing that these hold is a length, a number of tokens or a block: all stand still, and no address is
 * made of them. */
START_TEST(any_state)
{
    static const int32_t bad[] = { INT32_MIN, INT32_MIN + 1, -1, INT32_MAX, INT32_MAX - 1 };
    enum { N = sizeof(bad) / sizeof(bad[0]), ROWS = N * 4 };
    struct memory m = { op_context(op_device(_i)), NULL };
    int32_t lens[ROWS], accepted[ROWS], table[ROWS][2], spare[2] = { INT32_MIN, -1 }, count = 0, got[ROWS];
    int64_t slots[ROWS], positions[ROWS];
    ck_assert(rfg_stream_create(m.ctx, &m.stream) == RFG_OK);
    for (int i = 0; i < ROWS; i++) { /* a bad length; more tokens than there are; a bad block; a bad spare one */
        lens[i] = i / N == 0 ? bad[i % N] : i / N == 3 ? 4 : 2;
        accepted[i] = i / N == 1 ? bad[i % N] : 1;
        table[i][0] = i / N == 2 && bad[i % N] < 0 ? bad[i % N] : i / N == 2 ? -7 : 5;
        table[i][1] = INT32_MIN;
    }
    memset(slots, 0x55, sizeof(slots));
    void *d[] = { put(&m, lens, sizeof(lens)),   put(&m, accepted, sizeof(accepted)), put(&m, table, sizeof(table)),
                  put(&m, spare, sizeof(spare)), put(&m, &count, sizeof(count)),      put(&m, slots, sizeof(slots)),
                  put(&m, slots, sizeof(slots)) };
    rfg_tensor tl = rfg_tensor_1d(d[0], RFG_I32, ROWS), ta = rfg_tensor_1d(d[1], RFG_I32, ROWS),
               tt = rfg_tensor_2d(d[2], RFG_I32, ROWS, 2, 2), tf = rfg_tensor_1d(d[3], RFG_I32, 2),
               tc = rfg_tensor_1d(d[4], RFG_I32, 1), tp = rfg_tensor_1d(d[5], RFG_I64, ROWS),
               ts = rfg_tensor_1d(d[6], RFG_I64, ROWS);
    rfg_advance_params p = { .size = sizeof(p),
                             .slots = &ts,
                             .block_table = &tt,
                             .page = 4,
                             .accepted = &ta,
                             .spare = &tf,
                             .spare_count = &tc };
    static const int32_t counts[][2] = { { INT32_MIN, 0 }, { -1, 0 }, { 2, 0 }, { INT32_MAX, 0 } };
    for (int k = 0; k < 4; k++) {
        copy(&m, d[4], &counts[k][0], sizeof(count), RFG_HOST_TO_DEVICE);
        ck_assert_msg(rfg_op_advance(m.ctx, &tl, &tp, &p, m.stream) == RFG_OK, "%s", rfg_last_error());
        copy(&m, got, d[0], sizeof(got), RFG_DEVICE_TO_HOST);
        ck_assert_mem_eq(got, lens, sizeof(lens));
        copy(&m, got, d[2], sizeof(got), RFG_DEVICE_TO_HOST);
        ck_assert_mem_eq(got, table, sizeof(got));
        copy(&m, &count, d[4], sizeof(count), RFG_DEVICE_TO_HOST);
        ck_assert_int_eq(count, counts[k][1]);
        copy(&m, positions, d[5], sizeof(positions), RFG_DEVICE_TO_HOST);
        copy(&m, slots, d[6], sizeof(slots), RFG_DEVICE_TO_HOST);
        for (int i = 0; i < ROWS; i++)
            ck_assert_msg(slots[i] == -1 && positions[i] == 0, "sequence %d: position %lld, slot %lld", i,
                          (long long)positions[i], (long long)slots[i]);
    }
    for (size_t i = 0; i < sizeof(d) / sizeof(d[0]); i++)
        ck_assert(rfg_device_free(m.ctx, d[i]) == RFG_OK);
    ck_assert(rfg_stream_destroy(m.ctx, &m.stream) == RFG_OK);
    rfg_context_destroy(&m.ctx);
}
END_TEST

/* ---- by hand ----------------------------------------------------------------------------------------------------- */

#define RUN() ck_assert_msg(rfg_op_advance(ctx, &tl, &tp, &p, NULL) == RFG_OK, "%s", rfg_last_error())
#define HOLDS(a, ...)                                                                                                  \
    ck_assert_mem_eq(a, ((__typeof__(a[0])[]){ __VA_ARGS__ }), sizeof((__typeof__(a[0])[]){ __VA_ARGS__ }))

/* Two sequences of blocks of 4; the list gives from its end, in the order of sequences. */
START_TEST(blocks_by_hand)
{
    rfg_context *ctx = op_context("cpu"); /* whose memory this is */
    int32_t lens[] = { 4, 3, 4, 7, -5 }, table[] = { 10, -1, 11, -1, 12, -1, 13, 14, 15, 16 }, spare[] = { 20, 21, 22 };
    int32_t count = 2;
    int64_t positions[5], slots[5];
    rfg_tensor tl = rfg_tensor_1d(lens, RFG_I32, 5), tp = rfg_tensor_1d(positions, RFG_I64, 5),
               ts = rfg_tensor_1d(slots, RFG_I64, 5), tt = rfg_tensor_2d(table, RFG_I32, 5, 2, 2),
               tf = rfg_tensor_1d(spare, RFG_I32, 3), tc = rfg_tensor_1d(&count, RFG_I32, 1);
    rfg_advance_params p = {
        .size = sizeof(p), .slots = &ts, .block_table = &tt, .page = 4, .spare = &tf, .spare_count = &tc
    };
    RUN();
    HOLDS(lens, 5, 4, 5, 8, -5);
    HOLDS(positions, 4, 3, 4, 7, 0);
    HOLDS(slots, 21 * 4, 11 * 4 + 3, 20 * 4, 14 * 4 + 3, -1);
    HOLDS(table, 10, 21, 11, -1, 12, 20, 13, 14, 15, 16);
    ck_assert_int_eq(count, 0);
    RUN(); /* the second one comes to a block, and there is none; the fourth to the table's end */
    HOLDS(lens, 6, 4, 6, 8, -5);
    HOLDS(slots, 21 * 4 + 1, -1, 20 * 4 + 1, -1, -1);
    count = 1; /* the list's first; an engine gave it back */
    RUN();
    HOLDS(lens, 7, 5, 7, 8, -5);
    HOLDS(table, 10, 21, 11, 20, 12, 20, 13, 14, 15, 16);
    ck_assert_int_eq(count, 0);
    /* Without a list: a row that says no block is one that ends there. */
    p.spare = p.spare_count = NULL;
    lens[0] = 4;
    table[1] = -1;
    RUN();
    HOLDS(lens, 4, 6, 8, 8, -5);
    HOLDS(positions, 0, 5, 7, 0, 0);
    HOLDS(slots, -1, 20 * 4 + 1, 20 * 4 + 3, -1, -1);
    rfg_context_destroy(&ctx);
}
END_TEST

/* Speculative decoding: 3 tokens a step, of which 3, 1, 0 count; 4 and -1 are no such numbers. */
START_TEST(accepted_by_hand)
{
    rfg_context *ctx = op_context("cpu");
    int32_t lens[] = { 10, 10, 10, 10, 10, 1 }, accepted[] = { 3, 1, 0, 4, -1, 1 }, positions[18];
    rfg_tensor tl = rfg_tensor_1d(lens, RFG_I32, 6), tp = rfg_tensor_2d(positions, RFG_I32, 6, 3, 3),
               ta = rfg_tensor_1d(accepted, RFG_I32, 6);
    rfg_advance_params p = { .size = sizeof(p), .accepted = &ta };
    RUN();
    HOLDS(lens, 13, 11, 10, 10, 10, 1);
    HOLDS(positions, 10, 11, 12, 8, 9, 10, 7, 8, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    rfg_context_destroy(&ctx);
}
END_TEST

/* What a table of wrong tensors doesn't reach. */
START_TEST(refusals)
{
    static const char *const wrong[][2] = {
        { "advance i32->i64 B=4 Sq=9 blocks=0", "Sq=9" },
        { "advance i64->i64 B=4 Sq=1 blocks=0", "dtype of kv_lens is i64" },
        { "advance i32->f32 B=4 Sq=1 blocks=0", "dtype of positions is f32" },
        { "advance i32->i64 B=4 Sq=1 blocks=3", "blocks=3 page=0: both or neither" },
        { "advance i32->i64 B=4 Sq=1 blocks=0 page=4", "blocks=0 page=4: both or neither" },
        { "advance i32->i64 B=4 Sq=1 blocks=0 slots=1", "slots=1: needs page=" },
        { "advance i32->i64 B=4 Sq=1 blocks=0 spare=7", "spare=7: needs page=" },
        { "advance i32->i64 B=4 Sq=1 blocks=3 page=4 ldb=2", "ldb=2: must be at least blocks=3" },
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        op_problem_refused(wrong[i][0], wrong[i][1]);
}
END_TEST

int main(void)
{
    return op_main("advance", OP_TESTS(right_options, right_sizes, steps, any_state),
                   OP_TESTS(blocks_by_hand, accepted_by_hand, random_problems, refusals));
}
