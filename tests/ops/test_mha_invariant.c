/* SPDX-License-Identifier: MIT
 *
 * batch_invariant of attention: the bits of a query's output and log-sum-exp, whatever other sequences, queries and
 * room there are. On the cpu, by each instruction set's variants, and on the devices of $RFG_TEST_DEVICES. */
#include "dispatch/context.h"
#include "base/util.h"
#include "tests/op_cases.h"
#include "rfg/rfg.h"

enum { HQ = 4, HKV = 2, D = 64, SEQUENCES = 5, MOST = 1400, Q_ROW = HQ * D, KV_ROW = HKV * D };

#define MUST(what) ck_assert_msg((what) == RFG_OK, "%s", rfg_last_error())

/* Everything in memory of the device, and what came out. */
struct memory {
    rfg_context *ctx;
    uint16_t *q, *k, *v, *out;
    float *lse;
    int32_t *lens;
    rfg_mha_params p;
};
struct result {
    uint16_t out[SEQUENCES * MOST * Q_ROW];
    float lse[SEQUENCES * MOST * HQ];
};

static rfg_context *open_ctx(const char *device, bool invariant, const char *variants)
{
    if (invariant)
        setenv("RFG_BATCH_INVARIANT", "1", 1);
    if (variants)
        setenv("RFG_VARIANTS", variants, 1);
    rfg_context *ctx = op_context(device);
    unsetenv("RFG_BATCH_INVARIANT");
    unsetenv("RFG_VARIANTS");
    return ctx;
}

static void *room(rfg_context *ctx, size_t bytes)
{
    void *p;
    MUST(rfg_device_alloc(ctx, &p, bytes));
    return p;
}

/* Elements of tokens; grows: from one to the next, so that the largest scores do. */
static void fill(rfg_context *ctx, uint16_t *to, int row, double by, bool grows, uint64_t seed)
{
    int n = SEQUENCES * MOST * row;
    uint16_t *host = malloc((size_t)n * 2);
    ck_assert_ptr_nonnull(host);
    for (int i = 0; i < n; i++)
        rfg_store(host, RFG_BF16, i,
                  (double)(int64_t)rfg_random(&seed) * 0x1p-63 * by * (grows ? 1 + i / row % MOST / 60.0 : 1));
    MUST(rfg_device_copy(ctx, to, host, (size_t)n * 2, RFG_HOST_TO_DEVICE, NULL));
    MUST(rfg_stream_sync(ctx, NULL));
    free(host);
}

static struct memory make(rfg_context *ctx, const rfg_mha_params *p, bool grows)
{
    int rows = SEQUENCES * MOST;
    struct memory m = { .ctx = ctx, .p = *p };
    m.q = room(ctx, (size_t)rows * Q_ROW * 2);
    m.out = room(ctx, (size_t)rows * Q_ROW * 2);
    m.k = room(ctx, (size_t)rows * KV_ROW * 2);
    m.v = room(ctx, (size_t)rows * KV_ROW * 2);
    m.lse = room(ctx, (size_t)rows * HQ * 4);
    m.lens = room(ctx, SEQUENCES * 4);
    fill(ctx, m.q, Q_ROW, 4, false, op_seed());
    fill(ctx, m.k, KV_ROW, 1, grows, op_seed() + 1);
    fill(ctx, m.v, KV_ROW, 1, false, op_seed() + 2);
    return m;
}

static void drop(struct memory *m)
{
    void *all[] = { m->q, m->k, m->v, m->out, m->lse, m->lens };
    for (int i = 0; i < 6; i++)
        MUST(rfg_device_free(m->ctx, all[i]));
}

static rfg_tensor rows_of(void *data, int b, int s, int heads)
{
    return (rfg_tensor){ data, RFG_BF16, 4, { b, s, heads, D }, { (int64_t)MOST * heads * D, heads * D, D, 1 } };
}

/* Queries from..to - 1 of the keys before `to`, of sequences first..first + n - 1, which are `most` tokens apart. */
static void prefill(struct memory *m, int first, int n, int from, int to, struct result *r)
{
    size_t at = (size_t)first * MOST;
    rfg_tensor q = rows_of(m->q + (at + (size_t)from) * Q_ROW, n, to - from, HQ), out = q;
    rfg_tensor k = rows_of(m->k + at * KV_ROW, n, to, HKV), v = rows_of(m->v + at * KV_ROW, n, to, HKV);
    rfg_tensor lse = { m->lse, RFG_F32, 3, { n, HQ, to - from }, { (int64_t)MOST * HQ, 1, HQ } };
    rfg_mha_params p = m->p;
    out.data = m->out;
    p.lse = &lse;
    MUST(rfg_op_mha(m->ctx, &out, &q, &k, &v, &p, NULL));
    MUST(rfg_device_copy(m->ctx, r->out, m->out, sizeof(r->out), RFG_DEVICE_TO_HOST, NULL));
    MUST(rfg_device_copy(m->ctx, r->lse, m->lse, sizeof(r->lse), RFG_DEVICE_TO_HOST, NULL));
    MUST(rfg_stream_sync(m->ctx, NULL));
}

/* Queries that are not what they are among all. */
static int other_queries(const struct result *all, int sequence, int from, int to, const struct result *r, int at)
{
    int differ = 0;
    for (int i = from; i < to; i++) {
        int whole = sequence * MOST + i, part = at * MOST + i - from;
        differ += memcmp(all->out + whole * Q_ROW, r->out + part * Q_ROW, Q_ROW * 2) ||
                  memcmp(all->lse + whole * HQ, r->lse + part * HQ, HQ * 4);
    }
    return differ;
}

/* Whole sequences, all together, against each alone and parts of each. */
static int differing_prefill(rfg_context *ctx, const rfg_mha_params *p, int sq)
{
    static struct result all, some;
    static const int parts[][2] = { { 0, 1 }, { 0, 17 }, { 17, 18 }, { 5, 70 }, { 64, 150 }, { 100, 163 } };
    struct memory m = make(ctx, p, true);
    int differ = 0;
    prefill(&m, 0, SEQUENCES, 0, sq, &all);
    for (int s = 1; s < SEQUENCES; s += 2) {
        prefill(&m, s, 1, 0, sq, &some);
        differ += other_queries(&all, s, 0, sq, &some, 0);
    }
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        int first = (int)i % 3, n = 1 + (int)i % 2;
        prefill(&m, first, n, parts[i][0], parts[i][1], &some);
        for (int s = 0; s < n; s++)
            differ += other_queries(&all, first + s, parts[i][0], parts[i][1], &some, s);
    }
    drop(&m);
    return differ;
}

/* The last `sq` queries of sequences first..first + n - 1, of the lengths that they have, or (lens NULL)
 * all of `keys`. */
static void decode(struct memory *m, int first, int n, int sq, const int32_t *lens, int keys, int mean,
                   struct result *r)
{
    size_t at = (size_t)first * MOST;
    rfg_tensor q = rows_of(m->q + at * Q_ROW, n, sq, HQ), out = q;
    rfg_tensor k = rows_of(m->k + at * KV_ROW, n, keys, HKV), v = rows_of(m->v + at * KV_ROW, n, keys, HKV);
    rfg_tensor lse = { m->lse, RFG_F32, 3, { n, HQ, sq }, { (int64_t)MOST * HQ, 1, HQ } };
    rfg_tensor kv_lens = rfg_tensor_1d(m->lens, RFG_I32, n);
    rfg_mha_params p = m->p;
    out.data = m->out;
    p.lse = &lse;
    p.mean_seqlen_k = mean;
    if (lens) {
        p.kv_lens = &kv_lens;
        MUST(rfg_device_copy(m->ctx, m->lens, lens + first, (size_t)n * 4, RFG_HOST_TO_DEVICE, NULL));
    }
    MUST(rfg_op_mha_decode(m->ctx, &out, &q, &k, &v, &p, NULL));
    MUST(rfg_device_copy(m->ctx, r->out, m->out, sizeof(r->out), RFG_DEVICE_TO_HOST, NULL));
    MUST(rfg_device_copy(m->ctx, r->lse, m->lse, sizeof(r->lse), RFG_DEVICE_TO_HOST, NULL));
    MUST(rfg_stream_sync(m->ctx, NULL));
}

static int differing_decode(rfg_context *ctx, const rfg_mha_params *p, int sq)
{
    static const int32_t lens[SEQUENCES] = { 1400, 33, 9, 1100, 600 };
    static struct result all, some;
    struct memory m = make(ctx, p, false);
    int differ = 0;
    decode(&m, 0, SEQUENCES, sq, lens, MOST, 0, &all);
    for (int first = 0; first < SEQUENCES; first++)
        for (int n = 1; first + n <= SEQUENCES; n += 2) {
            int most = 0;
            for (int s = first; s < first + n; s++)
                most = lens[s] > most ? lens[s] : most;
            decode(&m, first, n, sq, lens, n == 1 ? most : MOST, n == 3 ? MOST : 0, &some);
            for (int s = 0; s < n; s++)
                differ += other_queries(&all, first + s, 0, sq, &some, s);
        }
    for (int s = 0; s < SEQUENCES; s += 3) {
        decode(&m, s, 1, sq, NULL, lens[s], 0, &some);
        differ += other_queries(&all, s, 0, sq, &some, 0);
    }
    drop(&m);
    return differ;
}

static const rfg_mha_params kinds[] = {
    { .size = sizeof(rfg_mha_params), .causal = 1 },
    { .size = sizeof(rfg_mha_params), .causal = 1, .window = 91 },
};
#define N_KINDS (int)(sizeof(kinds) / sizeof(kinds[0]))

/* What the context would choose, and each variant that can. */
static const char *const ways[] = { NULL, "mha_portable,mha_decode_portable", "mha_cpu_avx2,mha_decode_cpu_avx2",
                                    "mha_cpu_portable,mha_decode_cpu_portable",
                                    "mha_prefill_mma,mha_decode_stream_mma" };
#define N_WAYS (int)(sizeof(ways) / sizeof(ways[0]))

static bool can(const char *device, const char *way, const char *problem)
{
    rfg_context *ctx = open_ctx(device, true, way);
    struct rfg_problem prob = op_problem(problem);
    struct rfg_choice c;
    bool yes = rfg_choose(ctx, &prob, RFG_RUNG_EXACT, 0, &c, NULL, NULL) == RFG_OK;
    rfg_context_destroy(&ctx);
    return yes;
}

static bool is_cpu(const char *device)
{
    return !strcmp(device, "cpu");
}

START_TEST(queries_are_the_same_in_any_batch)
{
    const char *device = op_device(_i);
    int ran = 0;
    for (int way = 0; way < N_WAYS; way++) {
        if (!can(device, ways[way], "mha bf16->bf16 B=1 Hq=4 Hkv=2 D=64 S=64 Sq=64 invariant=1"))
            continue;
        rfg_context *ctx = open_ctx(device, true, ways[way]);
        for (int k = 0; k < N_KINDS; k++, ran++) {
            int differ = differing_prefill(ctx, &kinds[k], is_cpu(device) ? 300 : 170);
            ck_assert_msg(!differ, "%s: %s: kind %d: %d queries differ", device, ways[way], k, differ);
        }
        rfg_context_destroy(&ctx);
    }
    ck_assert_int_ge(ran, 4);
}
END_TEST

START_TEST(sequences_are_the_same_in_any_batch)
{
    const char *device = op_device(_i);
    for (int way = 0; way < N_WAYS; way++) {
        if (!can(device, ways[way], "mha_decode bf16->bf16 B=1 Hq=4 Hkv=2 D=64 S=64 invariant=1"))
            continue;
        rfg_context *ctx = open_ctx(device, true, ways[way]);
        for (int k = 0; k < N_KINDS; k++) {
            rfg_mha_params p = kinds[k];
            int sq = k ? 3 : 1;
            int differ = differing_decode(ctx, &p, sq);
            ck_assert_msg(!differ, "%s: %s: kind %d: %d queries differ", device, ways[way], k, differ);
        }
        rfg_context_destroy(&ctx);
    }
}
END_TEST

/* So that the tests above say something. */
START_TEST(without_it_some_differ)
{
    rfg_context *ctx = open_ctx(op_device(_i), false, NULL);
    int prefills = differing_prefill(ctx, &kinds[0], 170) + differing_prefill(ctx, &kinds[1], 170);
    int decodes = differing_decode(ctx, &kinds[0], 1);
    ck_assert_msg(prefills && (decodes || is_cpu(op_device(_i))), "%s: %d, %d", op_device(_i), prefills, decodes);
    rfg_context_destroy(&ctx);
}
END_TEST

/* Every size finds a kernel, of one order. */
START_TEST(one_order_serves_all_sizes)
{
    static const char *const devices[] = { "gfx942",  "gfx942:38", "gfx90a", "gfx908", "gfx1030",
                                           "gfx1100", "gfx1201",   "sm_80",  "sm_90" };
    static const char *const problems[] = {
        "mha_decode bf16->bf16 B=%d Hq=32 Hkv=8 D=128 S=%d page=16 invariant=1",
        "mha_decode bf16->bf16 B=%d Hq=128 Hkv=1 D=256 S=%d page=16 Sq=2 causal=1 lens=log invariant=1",
        "mha_decode f16->f16 B=%d Hq=8 Hkv=8 D=64 S=%d kv=e4m3 window=101 invariant=1",
        "mha bf16->bf16 B=%d Hq=32 Hkv=8 D=128 S=%d Sq=77 causal=1 invariant=1",
        "mha bf16->bf16 B=%d Hq=16 Hkv=16 D=192 Dv=128 S=%d Sq=3 page=64 window_left=50 varlen=1 invariant=1",
        "mha f16->f16 B=%d Hq=4 Hkv=2 D=64 S=%d Sq=2000 alibi=1 cap=30 align=2 invariant=1",
    };
    for (size_t d = 0; d < sizeof(devices) / sizeof(devices[0]); d++) {
        rfg_context *ctx;
        rfg_context_params params = {
            .size = sizeof(params), .device = devices[d], .user_db = "", .system_db = "", .cache_dir = ""
        };
        MUST(rfg_context_imagine(&ctx, &params, NULL));
        for (size_t n = 0; n < sizeof(problems) / sizeof(problems[0]); n++) {
            struct rfg_order first = { "" }, o;
            for (int b = 1; b <= 1000; b *= 10)
                for (int s = 1; s <= 100000; s *= 10) {
                    char text[200];
                    snprintf(text, sizeof(text), problems[n], b, s);
                    struct rfg_problem prob = op_problem(text);
                    struct rfg_choice c;
                    struct rfg_reason why;
                    MUST(rfg_choose(ctx, &prob, RFG_RUNG_EXACT, 0, &c, NULL, NULL));
                    ck_assert_msg(c.variant->order(rfg_context_info(ctx), &prob, c.params, &o, &why), "%s", why.text);
                    ck_assert_msg(!*first.words || !strcmp(first.words, o.words), "%s: %s: '%s', not '%s'", devices[d],
                                  text, o.words, first.words);
                    first = o;
                }
        }
        rfg_context_destroy(&ctx);
    }
}
END_TEST

int main(void)
{
    return op_main(
        "mha_invariant",
        OP_TESTS(queries_are_the_same_in_any_batch, sequences_are_the_same_in_any_batch, without_it_some_differ),
        OP_TESTS(one_order_serves_all_sizes));
}
