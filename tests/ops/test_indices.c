/* SPDX-License-Identifier: MIT
 *
 * Indices that operators read from device memory (ids, slots, positions, lengths, offsets, rows, places, counts) at
 * their extremes, one after the other of every operator: results are what the headers say, and nothing outside of the
 * tensors is touched (each has memory of its own that ends where it does). By the public function and by every variant,
 * on the devices of $RFG_TEST_DEVICES.
 *
 * Not in the table: block_table. Its numbers are the caller's to keep in range (rfg/mha.h): kernels would pay for a
 * check with every block. */
#include <inttypes.h>

#include "base/util.h"
#include "rfg/rfg.h"
#include "tuner/harness/fenced.h"
#include "tests/op_cases.h"

/* Which elements take a value. */
enum where {
    EACH, /* every third, whatever it is */
    ENDS, /* of an ascending list: the first, if the value is below all, else the last */
};

struct index {
    const char *problem, *tensor;
    int64_t first, end; /* values from first to end - 1 are indices; of a count end is the largest */
    enum where where;
    bool nearest; /* it is a count, which counts as the nearest from first to end: the oracle is told that */
    bool outside; /* nothing is promised but that nothing outside is touched */
};

/* ---- values ----------------------------------------------------------------------------------------------------- */

enum { MOST_VALUES = 16 };

static int values_of(const struct index *x, bool wide, int64_t *v)
{
    const int64_t narrow[] = { INT32_MIN,  INT32_MIN + 1, x->first - 2, x->first - 1,
                               x->end - 1, x->end,        x->end + 1,   INT32_MAX };
    const int64_t beyond[] = { INT64_MIN,
                               INT64_MIN + 1,
                               -(INT64_C(1) << 40),
                               INT64_C(1) << 31,
                               (INT64_C(1) << 32) + x->first,
                               (INT64_C(1) << 32) + x->end - 1,
                               INT64_MAX - 1,
                               INT64_MAX };
    memcpy(v, narrow, sizeof(narrow));
    memcpy(v + 8, beyond, sizeof(beyond));
    return wide ? MOST_VALUES : 8;
}

static int64_t get(const rfg_tensor *t, int64_t i)
{
    return t->dtype == RFG_I64 ? ((const int64_t *)t->data)[i] : ((const int32_t *)t->data)[i];
}

static void put(const rfg_tensor *t, int64_t i, int64_t value)
{
    if (t->dtype == RFG_I64)
        ((int64_t *)t->data)[i] = value;
    else
        ((int32_t *)t->data)[i] = (int32_t)value;
}

static int64_t elements(const rfg_tensor *t)
{
    return t->ndim > 1 ? (t->shape[0] - 1) * t->strides[0] + t->shape[1] : t->shape[0];
}

/* The harness' poison of integers is no value that an output in place can be compared by: INT32_MIN, the first. */
static bool is_changed(const struct rfg_problem *prob, const struct rfg_op_case *op, int tensor)
{
    struct rfg_tensor_spec spec[RFG_MAX_TENSORS] = { { 0 } };
    int n = op->tensors(prob, spec);
    for (int i = 0; i < n; i++)
        if (!spec[i].absent && spec[i].same_as == 1 + tensor)
            return true;
    return false;
}

/* What has the value already takes that of the element which gets it: no slot is there twice. */
static void take(const rfg_tensor *t, int64_t i, int64_t value)
{
    for (int64_t k = 0; k < elements(t); k++)
        if (get(t, k) == value) {
            put(t, k, get(t, i));
            break;
        }
    put(t, i, value);
}

/* ---- a case ----------------------------------------------------------------------------------------------------- */

/* What the harness calls has no argument for it. */
static const struct index *now;
static int64_t value;
static const struct rfg_op_case *plain;

static int tensor_of(const struct rfg_problem *prob, rfg_dtype *dtype)
{
    struct rfg_tensor_spec spec[RFG_MAX_TENSORS] = { { 0 } };
    int n = plain->tensors(prob, spec);
    for (int i = 0; i < n; i++)
        if (!spec[i].absent && !strcmp(spec[i].name, now->tensor)) {
            *dtype = spec[i].dtype;
            return i;
        }
    ck_abort_msg("%s: no tensor %s", now->problem, now->tensor);
    return -1;
}

static void fill(const struct rfg_problem *prob, int tensor, const rfg_tensor *t, enum rfg_data data, uint64_t seed)
{
    rfg_dtype dtype;
    if (plain->fill)
        plain->fill(prob, tensor, t, data, seed);
    if (tensor != tensor_of(prob, &dtype))
        return;
    int64_t n = elements(t);
    if (now->where == ENDS)
        put(t, value < now->first ? 0 : n - 1, value);
    else
        for (int64_t i = 0; i < n; i++)
            if (i % 3 == 1 || n == 1) {
                bool once = value < now->first || value >= now->end || i < 3;
                if (once)
                    take(t, i, value);
            }
}

static rfg_status oracle(const struct rfg_problem *prob, const rfg_tensor *host, struct rfg_expected *expected)
{
    rfg_tensor told[RFG_MAX_TENSORS];
    rfg_dtype dtype;
    int at = tensor_of(prob, &dtype);
    if (!now->nearest && !now->outside)
        return plain->oracle(prob, host, expected);
    memcpy(told, host, sizeof(told));
    int64_t n = elements(&host[at]);
    int32_t *counts = malloc((size_t)n * sizeof(*counts));
    ck_assert_ptr_nonnull(counts);
    ck_assert_int_eq(dtype, RFG_I32);
    told[at].data = counts;
    for (int64_t i = 0; i < n; i++) {
        int64_t v = get(&host[at], i);
        counts[i] = (int32_t)(v < now->first ? now->first : v > now->end ? now->end : v);
    }
    rfg_status st = plain->oracle(prob, told, expected);
    free(counts);
    return st;
}

struct turns {
    struct rfg_case *c[MOST_VALUES];
    int64_t value[MOST_VALUES];
    int n;
    const char *device;
};

static void run_turns(void *turns, const struct rfg_plan *plan, const char *how)
{
    struct turns *t = turns;
    for (int i = 0; i < t->n; i++) {
        struct rfg_check check;
        ck_assert(rfg_case_poison(t->c[i], 0) == RFG_OK);
        rfg_status st = rfg_case_run_checked(t->c[i], 0, plan, NULL);
        if (st == RFG_OK)
            st = rfg_stream_sync(rfg_case_context(t->c[i]), NULL);
        if (st == RFG_OK)
            st = rfg_case_check(t->c[i], 0, &check);
        ck_assert_msg(st == RFG_OK, "%s: %s: %s of %" PRId64 ": %s: %s", t->device, now->problem, now->tensor,
                      t->value[i], how, rfg_last_error());
        ck_assert_msg(now->outside ? !check.guard_broken : check.ok, "%s: %s: %s of %" PRId64 ": %s: %s", t->device,
                      now->problem, now->tensor, t->value[i], how, check.message);
    }
}

static void indices_run(const char *device, const struct index *of, int n)
{
    rfg_context *ctx = op_context(device);
    const char *only = getenv("RFG_TEST_PROBLEM");
    int runs = 0;
    for (int k = 0; k < n; k++) {
        struct rfg_problem prob = op_problem(of[k].problem);
        struct turns t = { .device = device };
        rfg_dtype dtype;
        if (only && !strstr(of[k].problem, only))
            continue;
        now = &of[k];
        plain = rfg_op_case_of(prob.op);
        int at = tensor_of(&prob, &dtype);
        struct rfg_op_case changed = *plain;
        changed.fill = fill;
        changed.oracle = oracle;
        struct rfg_case_params params = { .seed = op_seed(), .fenced = true, .of = &changed };
        t.n = values_of(now, dtype == RFG_I64, t.value);
        if (is_changed(&prob, plain, at))
            memmove(t.value, t.value + 1, (size_t)--t.n * sizeof(t.value[0]));
        for (int i = 0; i < t.n; i++) {
            value = t.value[i];
            ck_assert_msg(rfg_case_create(ctx, &prob, &params, &t.c[i]) == RFG_OK, "%s: %s", of[k].problem,
                          rfg_last_error());
        }
        run_turns(&t, NULL, "the public function");
        runs += t.n * (getenv("RFG_TEST_FEW") ? 1 : 1 + op_each_plan(ctx, &prob, 1, run_turns, &t));
        for (int i = 0; i < t.n; i++)
            rfg_case_destroy(&t.c[i]);
    }
    printf("%s: %d runs right\n", device, runs);
    rfg_context_destroy(&ctx);
}

#define INDICES(name, table)                                                                                           \
    START_TEST(name)                                                                                                   \
    {                                                                                                                  \
        indices_run(op_device(_i), table, (int)(sizeof(table) / sizeof(table[0])));                                    \
    }                                                                                                                  \
    END_TEST

/* ---- the tables ------------------------------------------------------------------------------------------------- */

static const struct index tokens[] = {
    { "embedding i32,bf16->bf16 M=13 N=64 V=24", "ids", 1000, 1024 },
    { "embedding i64,bf16->f32 M=13 N=72 V=24 scaled=1", "ids", 1000, 1024 },
    { "sample f32->i64 B=7 V=200 top_k=1", "top_k", 1, 200 },
    { "sample f32->i64 B=7 V=200 top_p=1 counts=1 frequency=1 presence=1", "counts", 0, 200 },
    { "sample f32->i32 B=7 V=200 temperature=1", "seed", 0, 200 },
    { "sample f32->i32 B=7 V=200 temperature=1", "offset", 0, 200 },
};
INDICES(of_tokens, tokens)

#define ALIGN "moe_align i32->i32 T=11 top=3 E=6"
static const struct index routing[] = {
    { "moe_route bf16->f32 T=9 E=16 top=2 tokens=1", "tokens", 0, 9 },
    { "moe_route bf16->f32 T=9 E=16 top=2 shared=1 tokens=1", "tokens", 0, 9 },
    { ALIGN " places=1", "ids", 0, 6 },
    { ALIGN " places=1 weights=1 ldi=5", "ids", 0, 6 },
    { ALIGN " places=1 format=vllm block=4", "ids", 0, 6 },
    { ALIGN " places=1 format=aiter block=4 weights=1", "ids", 0, 6 },
    { ALIGN " places=1 format=contiguous block=4", "ids", 0, 6 },
    { ALIGN " places=1 format=masked", "ids", 0, 6 },
    { ALIGN " places=1 map=9", "ids", 0, 9 },
    { ALIGN " places=1 map=9", "expert_map", 0, 6 },
    { ALIGN " places=1 format=vllm block=4 map=9", "expert_map", 0, 6 },
    { ALIGN " places=1 tokens=1", "tokens", 0, 11 },
    { ALIGN " places=1 format=aiter block=4 tokens=1", "tokens", 0, 11 },
    { "moe_sum bf16->bf16 T=7 N=72 top=3 weights=1 residual=1", "places", 0, 21 },
    { "moe_sum f16->f32 T=7 N=16 top=9 R=5", "places", 0, 5 },
    { "moe_sum bf16->bf16 T=7 N=72 top=3 tokens=1", "tokens", 0, 7 },
};
INDICES(of_routing, routing)

static const struct index heads[] = {
    { "rope bf16,i32->bf16 T=8 D=64 Hq=2 Hkv=1", "positions", 0, 48 },
    { "rope bf16,i64->bf16 T=8 D=64 Hq=2 Hkv=1 table=f32", "positions", 0, 48 },
    { "rope f16,i32->f16 T=8 D=64 R=32 Hq=2 Hkv=1 pairs=gptj", "positions", 0, 48 },
    { "rope bf16,i64->bf16 T=8 D=64 Hq=2 Hkv=1 axes=3", "positions", 0, 48 },
    { "rope bf16,i32->bf16 T=8 D=64 Hq=2 Hkv=1 axes=3 mrope=interleaved", "positions", 0, 48 },
    { "rope f32,i32->f32 T=8 D=64 R=32 Hq=2 Hkv=1 offset=8", "positions", 0, 48 },
    { "kv_append bf16->bf16 T=8 D=64 Hkv=2 page=4", "slots", 0, 16 },
    { "kv_append bf16->e4m3 T=8 D=64 Hkv=2 page=16 scales=head form=vllm", "slots", 0, 32 },
    { "kv_append bf16->bf16 T=8 D=64 Hkv=2 page=4 form=hnd", "slots", 0, 16 },
    { "rope_append bf16,i32->bf16 T=8 D=64 Hq=2 Hkv=1 page=4 norm=w", "positions", 0, 48 },
    { "rope_append bf16,i64->bf16 T=8 D=64 Hq=2 Hkv=1 page=4 norm=w", "slots", 0, 16 },
    { "rope_append bf16,i64->e4m3 T=8 D=64 R=32 Hq=2 Hkv=1 page=4", "slots", 0, 16 },
    { "mla_append bf16->bf16 T=8 D=96 R=32 Hq=2 page=4 norm=latent rope=gptj", "slots", 0, 16 },
    { "mla_append bf16->bf16 T=8 D=96 R=32 Hq=2 page=4 norm=latent rope=gptj", "positions", 0, 48 },
    { "mla_append bf16->e4m3 T=8 D=576 R=64 page=4 format=v32 rope=neox pos=i32", "positions", 0, 48 },
    { "mla_append bf16->e4m3 T=8 D=512 R=64 page=4 format=v4", "slots", 0, 16 },
};
INDICES(of_heads, heads)

static const struct index lengths[] = {
    { "mha_decode bf16->bf16 B=4 Hq=4 Hkv=2 D=64 S=60 page=16", "kv_lens", 0, 64, EACH, true },
    { "mha_decode bf16->bf16 B=4 Hq=4 Hkv=2 D=64 S=60 Sq=3 causal=1 page=16", "kv_lens", 0, 64, EACH, true },
    { "mha_decode bf16->bf16 B=4 Hq=4 Hkv=2 D=64 S=300 page=16 kv=e4m3 lens=log", "kv_lens", 0, 304, EACH, true },
    { "mha_decode f16->f16 B=4 Hq=4 Hkv=2 D=64 S=60 window=20 page=16", "kv_lens", 0, 64, EACH, true },
    { "mha bf16->bf16 B=4 Hq=4 Hkv=2 D=64 S=60 Sq=9 causal=1 page=16", "kv_lens", 0, 64, EACH, true },
    { "mha bf16->bf16 B=1 Hq=4 Hkv=2 D=64 S=60 Sq=20 varlen=1", "cu_seqlens_q", 0, 20, ENDS, true },
    { "mha bf16->bf16 B=3 Hq=4 Hkv=2 D=64 S=60 Sq=20 varlen=1 causal=1", "cu_seqlens_k", 0, 180, ENDS, true },
};
INDICES(of_lengths, lengths)

#define ADVANCE "advance i32->i64 B=7 Sq=2 blocks=6 page=4 slots=1"
static const struct index steps[] = {
    { "advance i32->i32 B=7 Sq=1 blocks=0", "kv_lens", 0, INT32_MAX - 1 },
    { ADVANCE, "kv_lens", 0, 24 },
    { ADVANCE, "block_table", 0, 9 },
    { ADVANCE " accepted=1", "accepted", 0, 2 },
    { ADVANCE " active=1", "active", 0, 1 },
    { ADVANCE " spare=9", "kv_lens", 0, 24 },
    { ADVANCE " spare=9", "block_table", 0, 9 },
    { ADVANCE " spare=9", "spare", 0, 9 },
    { ADVANCE " spare=9", "spare_count", 0, 9 },
};
INDICES(of_steps, steps)

#define BLOCKS " x_scale=f32 w_scale=f32 x_per=block w_per=block"
#define MX     " x_scale=e8m0 w_scale=e8m0 x_per=group w_per=group"
static const struct index experts[] = {
    { "gemm bf16,bf16->bf16 M=40 N=32 K=64 experts=4 top=2", "rows", 0, 20 },
    { "gemm bf16,bf16->bf16 M=40 N=32 K=64 experts=4 top=2", "offsets", 0, 40, ENDS, true },
    { "gemm bf16,bf16->bf16 M=300 N=32 K=64 experts=4 top=2", "rows", 0, 150 },
    { "gemm bf16,bf16->bf16 M=300 N=32 K=64 experts=4", "offsets", 0, 300, ENDS, true },
    { "gemm e4m3,e4m3->bf16 M=40 N=128 K=128 experts=4 top=2" BLOCKS, "rows", 0, 20 },
    { "gemm e4m3,e4m3->bf16 M=300 N=128 K=128 experts=4 top=2" BLOCKS, "rows", 0, 150 },
    { "gemm bf16,i4->bf16 M=40 N=32 K=128 experts=4 top=2 w_scale=f16 w_group=32", "rows", 0, 20 },
    { "gemm e4m3,e2m1->bf16 M=40 N=32 K=128 experts=4 top=2 packed=1" MX, "rows", 0, 20 },
    { "gemm bf16,bf16->bf16 M=32 N=32 K=64 experts=4 slots=2", "places", 0, 32 },
    { "gemm bf16,bf16->bf16 M=32 N=32 K=64 experts=4 slots=2 tokens=1", "tokens", 0, 16 },
};
INDICES(of_experts, experts)

/* Lists that don't ascend, which they must: two experts or sequences have the same rows, and either writes them. The
 * emulator keeps what is bounds alone: it would call that a race. */
static const struct index unordered[] = {
    { "mha bf16->bf16 B=3 Hq=4 Hkv=2 D=64 S=60 Sq=20 varlen=1", "cu_seqlens_q", 0, 60, .outside = true },
    { "mha bf16->bf16 B=3 Hq=4 Hkv=2 D=64 S=60 Sq=20 varlen=1 causal=1", "cu_seqlens_k", 0, 180, .outside = true },
    { "gemm bf16,bf16->bf16 M=40 N=32 K=64 experts=4 top=2 weights=1", "offsets", 0, 40, .outside = true },
    { "gemm bf16,bf16->bf16 M=300 N=32 K=64 experts=4", "offsets", 0, 300, .outside = true },
};
START_TEST(of_unordered)
{
    setenv("RFG_EMU_CHECKS", "none", 1);
    indices_run(op_device(_i), unordered, (int)(sizeof(unordered) / sizeof(unordered[0])));
    unsetenv("RFG_EMU_CHECKS");
}
END_TEST

/* ---- a mixture of experts: it is no operator of the harness' ---------------------------------------------------- */

enum { T = 7, TOP = 3, EXPERTS = 4, HIDDEN = 32, INNER = 16, IDS = 6 };
enum { Y, X, W1, W2, WEIGHTS, WORKSPACE, ID, MAP, LIMIT, N_TENSORS }; /* the last three are what it finds its way by */

struct mixture {
    rfg_context *ctx;
    struct rfg_fenced of[N_TENSORS];
    rfg_tensor t[N_TENSORS];
    rfg_moe_params p;
};

static void to_device(rfg_context *ctx, void *to, const void *from, size_t bytes)
{
    ck_assert(rfg_device_copy(ctx, to, from, bytes, RFG_HOST_TO_DEVICE, NULL) == RFG_OK);
    ck_assert(rfg_stream_sync(ctx, NULL) == RFG_OK);
}

static void open_mixture(struct mixture *m, const char *device)
{
    static const rfg_tensor shapes[N_TENSORS] = {
        [Y] = { NULL, RFG_F32, 2, { T, HIDDEN }, { HIDDEN, 1 } },
        [X] = { NULL, RFG_BF16, 2, { T, HIDDEN }, { HIDDEN, 1 } },
        [W1] = { NULL, RFG_BF16, 3, { EXPERTS, 2 * INNER, HIDDEN }, { 2 * INNER * HIDDEN, HIDDEN, 1 } },
        [W2] = { NULL, RFG_BF16, 3, { EXPERTS, HIDDEN, INNER }, { HIDDEN * INNER, INNER, 1 } },
        [WEIGHTS] = { NULL, RFG_F32, 2, { T, TOP }, { TOP, 1 } },
        [ID] = { NULL, RFG_I32, 2, { T, TOP }, { TOP, 1 } },
        [MAP] = { NULL, RFG_I32, 1, { IDS }, { 1 } },
        [LIMIT] = { NULL, RFG_I32, 1, { 1 }, { 1 } },
    };
    uint64_t seed = op_seed();
    size_t workspace;
    *m = (struct mixture){ .ctx = op_context(device),
                           .p = { .size = sizeof(m->p), .expert_map = &m->t[MAP], .tokens = &m->t[LIMIT] } };
    memcpy(m->t, shapes, sizeof(shapes));
    ck_assert_msg(rfg_moe_workspace_bytes(&m->t[Y], &m->t[X], &m->t[W1], &m->t[W2], &m->t[ID], &m->t[WEIGHTS], &m->p,
                                          &workspace) == RFG_OK,
                  "%s", rfg_last_error());
    m->t[WORKSPACE] = rfg_tensor_1d(NULL, RFG_E4M3, (int64_t)workspace);
    for (int i = 0; i < N_TENSORS; i++) {
        int64_t n = 1;
        for (int d = 0; d < m->t[i].ndim; d++)
            n *= m->t[i].shape[d];
        size_t bytes = rfg_dtype_bytes(m->t[i].dtype, n);
        ck_assert_msg(rfg_fenced_alloc(m->ctx, bytes, 256, 0, &m->of[i]) == RFG_OK, "%s", rfg_last_error());
        m->t[i].data = m->of[i].data;
        char *host = calloc(1, bytes);
        ck_assert_ptr_nonnull(host);
        for (int64_t k = 0; k < n && i != WORKSPACE && m->t[i].dtype != RFG_I32; k++)
            rfg_store(host, m->t[i].dtype, k, (double)(rfg_random(&seed) % 17) / 8 - 1);
        to_device(m->ctx, m->t[i].data, host, bytes);
        free(host);
    }
    m->p.workspace = m->t[WORKSPACE].data;
    m->p.workspace_bytes = workspace;
}

static void run_mixture(struct mixture *m, const int32_t *ids, const int32_t *map, int32_t limit, float *y)
{
    static const float poison[T * HIDDEN] = { -7 };
    to_device(m->ctx, m->t[ID].data, ids, T * TOP * sizeof(*ids));
    to_device(m->ctx, m->t[MAP].data, map, IDS * sizeof(*map));
    to_device(m->ctx, m->t[LIMIT].data, &limit, sizeof(limit));
    to_device(m->ctx, m->t[Y].data, poison, sizeof(poison));
    rfg_status st =
        rfg_op_moe(m->ctx, &m->t[Y], &m->t[X], &m->t[W1], &m->t[W2], &m->t[ID], &m->t[WEIGHTS], &m->p, NULL);
    if (st == RFG_OK)
        st = rfg_device_copy(m->ctx, y, m->t[Y].data, sizeof(poison), RFG_DEVICE_TO_HOST, NULL);
    if (st == RFG_OK)
        st = rfg_stream_sync(m->ctx, NULL);
    ck_assert_msg(st == RFG_OK, "%s", rfg_last_error());
}

/* An id or an expert out of range is as -1, tokens as the nearest number of them. */
START_TEST(of_mixtures)
{
    static struct mixture m;
    static const struct index is[] = {
        [ID] = { .first = 0, .end = IDS }, [MAP] = { .first = 0, .end = EXPERTS }, [LIMIT] = { .first = 0, .end = T }
    };
    open_mixture(&m, op_device(_i));
    for (int which = ID; which <= LIMIT; which++) {
        int64_t values[MOST_VALUES];
        int n = values_of(&is[which], false, values);
        for (int k = 0; k < n; k++) {
            int32_t ids[2][T * TOP], map[2][IDS], limit[2] = { T - 1, T - 1 }, v = (int32_t)values[k];
            int32_t told = which == LIMIT ? v < 0 ? 0 : v > T ? T : v : v < 0 || v >= is[which].end ? -1 : v;
            float want[T * HIDDEN], got[T * HIDDEN];
            for (int as = 0; as < 2; as++) {
                for (int i = 0; i < T * TOP; i++)
                    ids[as][i] = which == ID && i % 5 == 1 ? as ? v : told : i % IDS;
                for (int i = 0; i < IDS; i++)
                    map[as][i] = which == MAP && i % 2 ? as ? v : told : i % EXPERTS;
                if (which == LIMIT)
                    limit[as] = as ? v : told;
            }
            run_mixture(&m, ids[0], map[0], limit[0], want);
            run_mixture(&m, ids[1], map[1], limit[1], got);
            ck_assert_msg(!memcmp(want, got, sizeof(want)), "%s: tensor %d of %d", op_device(_i), which, (int)v);
            ck_assert_msg(which != LIMIT || told < T || got[(T - 1) * HIDDEN] != 0, "nothing is proven");
        }
    }
    for (int i = 0; i < N_TENSORS; i++)
        rfg_fenced_free(m.ctx, &m.of[i]);
    rfg_context_destroy(&m.ctx);
}
END_TEST

int main(void)
{
    return op_main(
        "indices",
        OP_TESTS(of_tokens, of_routing, of_heads, of_lengths, of_steps, of_experts, of_unordered, of_mixtures),
        OP_TESTS(NULL));
}
