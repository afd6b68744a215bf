/* SPDX-License-Identifier: MIT
 *
 * Attention by rules that need no oracle, on the cpu and on the devices of $RFG_TEST_DEVICES: what must not change a
 * result, and how results of parts make the whole's. And what the public functions refuse. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/util.h"
#include "mha_batch.h"

/* ---- what must not change a bit ---------------------------------------------------------------------------------- */

START_TEST(permuted_pages)
{
    rfg_context *ctx = op_context(op_device(_i));
    static struct result want, got;
    for (int kind = 0; kind < N_KINDS; kind++) {
        struct batch *b = make_kind(kind), *c = make_kind(kind);
        int n = B * b->columns;
        uint64_t seed = op_seed();
        run(ctx, b, &want);
        for (int i = 0; i < n; i++)
            c->table[i] = BLOCKS - 1 - i;
        for (int i = n - 1; i > 0; i--) {
            int j = (int)(rfg_random(&seed) % (uint64_t)(i + 1)), t = c->table[i];
            c->table[i] = c->table[j];
            c->table[j] = t;
        }
        for (int i = 0; i < n; i++) {
            memcpy(c->k + c->table[i] * BLOCK, b->k + b->table[i] * BLOCK, BLOCK * sizeof(*b->k));
            memcpy(c->v + c->table[i] * BLOCK, b->v + b->table[i] * BLOCK, BLOCK * sizeof(*b->v));
        }
        run(ctx, c, &got);
        ck_assert(want.lse[0] == want.lse[0]);
        must_equal(op_device(_i), kind, "pages lie elsewhere", &want, &got);
        free(b);
        free(c);
    }
    rfg_context_destroy(&ctx);
}
END_TEST

/* A negative scale is queries of the other sign. */
static void positive_scale(struct batch *b)
{
    b->p.scale = 0.3f;
}
static void negative_scale(struct batch *b)
{
    for (int i = 0; i < Q; i++)
        b->q[i] ^= 0x8000;
    b->p.scale = -0.3f;
}

/* Rows past a sequence's length are memory that nobody wrote: NaN there, and in blocks of no sequence. */
static void rows_past_the_end(struct batch *b)
{
    for (int n = 0; n < BLOCKS; n++)
        for (int r = 0; r < PAGE; r++) {
            int s = n / b->columns, key = n % b->columns * PAGE + r;
            for (int i = 0; (s >= B || key >= b->lens[s]) && i < ROW; i++)
                b->k[n * BLOCK + r * ROW + i] = b->v[n * BLOCK + r * ROW + i] = 0x7fc0;
        }
}

static void longer_table(struct batch *b)
{
    int few = b->columns;
    b->columns = COLUMNS;
    for (int s = B - 1; s >= 0; s--)
        for (int i = COLUMNS - 1; i >= 0; i--)
            b->table[s * COLUMNS + i] = i < few ? s * few + i : 0;
}

/* What keys outside of the window hold doesn't matter, as long as it is finite. */
static void window(struct batch *b)
{
    b->p.window = 12;
    b->p.causal = 1;
}
static void keys_outside_the_window(struct batch *b)
{
    for (int s = 0; s < B; s++)
        for (int key = 0; key < b->lens[s] - b->sq - 11; key++) {
            int at = b->table[s * b->columns + key / PAGE] * BLOCK + key % PAGE * ROW;
            for (int i = 0; i < ROW; i++) {
                b->k[at + i] = 0x447a; /* 1000 */
                b->v[at + i] = 0x7149; /* 1e30 */
            }
        }
}

static const struct {
    const char *says;
    void (*before)(struct batch *b), (*change)(struct batch *b);
} unchanged[] = {
    { "scale and queries change their sign", positive_scale, negative_scale },
    { "NaN in rows that hold no key", NULL, rows_past_the_end },
    { "more columns in the table", NULL, longer_table },
    { "other keys before the window", window, keys_outside_the_window },
};

START_TEST(no_bit_changes)
{
    rfg_context *ctx = op_context(op_device(_i));
    static struct result want, got;
    for (size_t n = 0; n < sizeof(unchanged) / sizeof(unchanged[0]); n++)
        for (int kind = 0; kind < N_KINDS; kind++) {
            struct batch *b = make_kind(kind);
            if (unchanged[n].before)
                unchanged[n].before(b);
            run(ctx, b, &want);
            unchanged[n].change(b);
            run(ctx, b, &got);
            must_equal(op_device(_i), kind, unchanged[n].says, &want, &got);
            free(b);
        }
    rfg_context_destroy(&ctx);
}
END_TEST

/* ---- parts and the whole ----------------------------------------------------------------------------------------- */

/* Attention to 48 keys and to those after them, merged by lse, is attention to all. */
START_TEST(halves)
{
    rfg_context *ctx = op_context(op_device(_i));
    static struct result whole, part[2];
    for (int kind = 0; kind < N_KINDS; kind++) {
        struct batch *b = make(kinds[kind].decode, kinds[kind].sq);
        int sq = b->sq, columns = b->columns;
        b->lens[1] = 90;
        run(ctx, b, &whole);
        for (int h = 0; h < 2; h++) {
            b->columns = h ? columns - 3 : 3;
            for (int s = 0; s < B; s++) {
                b->lens[s] = s ? (h ? 42 : 48) : h ? 59 : 48;
                for (int i = 0; i < b->columns; i++)
                    b->table[s * b->columns + i] = s * columns + i + (h ? 3 : 0);
            }
            run(ctx, b, &part[h]);
        }
        for (int n = 0; n < B * sq * HQ; n++) {
            int head = n % HQ, token = n / HQ % sq, s = n / HQ / sq, at = (s * HQ + head) * SQ + token;
            double l0 = (double)part[0].lse[at], l1 = (double)part[1].lse[at], lse = log(exp(l0) + exp(l1));
            ck_assert_msg(fabs(lse - (double)whole.lse[at]) < 2e-5, "%s: lse %.9g and %.9g make %.9g, not %.9g",
                          op_device(_i), l0, l1, lse, (double)whole.lse[at]);
            for (int i = 0; i < D; i++) {
                int e = ((s * SQ + token) * HQ + head) * D + i;
                double x0 = exp(l0 - lse) * (double)to_float(part[0].out[e]);
                double x1 = exp(l1 - lse) * (double)to_float(part[1].out[e]), got = (double)to_float(whole.out[e]);
                /* Half an ulp of three results, and what rounded weights lose: 2^-8 of each of 90 equal ones, in the
                 * whole and the parts alike, comes to 2^-8 sqrt(2 / 3 / 90) 0.42, of which this is 14. */
                double bound = 0x1p-8 * (fabs(x0) + fabs(x1) + fabs(got)) + 0x1p-9;
                ck_assert_msg(fabs(x0 + x1 - got) <= bound, "%s: parts make %g, the whole is %g", op_device(_i),
                              x0 + x1, got);
            }
        }
        free(b);
    }
    rfg_context_destroy(&ctx);
}
END_TEST

/* A captured call reads lengths and tables when it is replayed: after they have changed it gives what a
 * new call would. */
START_TEST(captured)
{
    rfg_context *ctx = op_context(op_device(_i));
    const struct rfg_hip *hip = rfg_context_hip(ctx);
    static struct result want, got;
    for (int kind = 0; hip && kind < N_KINDS; kind++) { /* the cpu has no graphs */
        struct batch *b = make_kind(kind), *c = make_kind(kind);
        struct uploaded u;
        hipStream_t stream;
        hipGraph_t graph;
        hipGraphExec_t exec;
        c->lens[0] = kinds[kind].sq;
        c->lens[1] = 91;
        for (int i = 0; i < B * c->columns; i++)
            c->table[i] = BLOCKS - 1 - i;
        run(ctx, c, &want);
        upload(ctx, b, &got, &u);
        ck_assert_int_eq(hip->hipStreamCreateWithFlags(&stream, hipStreamNonBlocking), hipSuccess);
        attend(ctx, b, &u, stream);
        ck_assert_int_eq(hip->hipStreamSynchronize(stream), hipSuccess);
        ck_assert_int_eq(hip->hipStreamBeginCapture(stream, hipStreamCaptureModeThreadLocal), hipSuccess);
        attend(ctx, b, &u, stream);
        ck_assert_int_eq(hip->hipStreamEndCapture(stream, &graph), hipSuccess);
        ck_assert_int_eq(hip->hipGraphInstantiate(&exec, graph, NULL, NULL, 0), hipSuccess);
        memset(&got, 0xff, sizeof(got));
        ck_assert_int_eq(hip->hipMemcpyHtoD((hipDeviceptr_t)u.out.data, got.out, sizeof(got.out)), hipSuccess);
        ck_assert_int_eq(hip->hipMemcpyHtoD((hipDeviceptr_t)u.lse.data, got.lse, sizeof(got.lse)), hipSuccess);
        ck_assert_int_eq(hip->hipMemcpyHtoD((hipDeviceptr_t)u.lens.data, c->lens, sizeof(c->lens)), hipSuccess);
        ck_assert_int_eq(hip->hipMemcpyHtoD((hipDeviceptr_t)u.table.data, c->table, sizeof(c->table)), hipSuccess);
        for (int replay = 0; replay < 2; replay++)
            ck_assert_int_eq(hip->hipGraphLaunch(exec, stream), hipSuccess);
        ck_assert_int_eq(hip->hipStreamSynchronize(stream), hipSuccess);
        download(&u, &got);
        must_equal(op_device(_i), kind, "replayed with other lengths", &want, &got);
        (void)hip->hipGraphExecDestroy(exec);
        (void)hip->hipGraphDestroy(graph);
        (void)hip->hipStreamDestroy(stream);
        free_buffers(&u.m);
        free(b);
        free(c);
    }
    rfg_context_destroy(&ctx);
}
END_TEST

/* ---- calls that are easy to compute by hand ---------------------------------------------------------------------- */

/* Zero queries: every visible key has the same weight, so that the result is the mean of V, and lse says how many.
 * Sequences of 3, 0 and 5 rows; max_seqlen_q = 4 leaves the last one's fifth query out. */
START_TEST(ragged_means)
{
    rfg_context *ctx = op_context(op_device(_i));
    struct buffers m = { .hip = rfg_context_hip(ctx) };
    enum { T = 8 };
    static uint16_t q[T * D], k[T * D], v[T * D], out[T * D];
    static float lse[T];
    static const int32_t begin[] = { 0, 3, 3, 8 };
    for (int i = 0; i < T * D; i++) {
        q[i] = 0;
        k[i] = 0x4000;
        rfg_store(v, RFG_BF16, i, i / D);
    }
    memset(out, 0x5a, sizeof(out)); /* a number */
    memset(lse, 0x5a, sizeof(lse));
    rfg_tensor tq = { put(&m, q, sizeof(q)), RFG_BF16, 3, { T, 1, D }, { D, D, 1 } }, tk = tq, tv = tq, to = tq;
    tk.data = put(&m, k, sizeof(k));
    tv.data = put(&m, v, sizeof(v));
    to.data = put(&m, out, sizeof(out));
    rfg_tensor tl = { put(&m, lse, sizeof(lse)), RFG_F32, 2, { 1, T }, { T, 1 } };
    rfg_tensor cu = rfg_tensor_1d(put(&m, begin, sizeof(begin)), RFG_I32, 4);
    rfg_mha_params p = {
        .size = sizeof(p), .causal = 1, .lse = &tl, .cu_seqlens_q = &cu, .cu_seqlens_k = &cu, .max_seqlen_q = 4
    };
    ck_assert_msg(rfg_op_mha(ctx, &to, &tq, &tk, &tv, &p, NULL) == RFG_OK, "%s", rfg_last_error());
    get(&m, out, to.data, sizeof(out));
    get(&m, lse, tl.data, sizeof(lse));
    for (int t = 0; t < T - 1; t++) {
        int first = t < 3 ? 0 : 3, seen = t - first + 1;
        ck_assert_msg(fabs((double)lse[t] - log(seen)) < 1e-5, "lse[%d] is %g", t, (double)lse[t]);
        for (int i = 0; i < D; i++)
            ck_assert_msg((double)to_float(out[t * D + i]) == (first + t) / 2.0, "%s: out[%d] is %g", op_device(_i), t,
                          (double)to_float(out[t * D + i]));
    }
    for (int i = 0; i < D; i++)
        ck_assert_msg(out[7 * D + i] == 0x5a5a && !memcmp(&lse[7], &out[7 * D], sizeof(lse[7])),
                      "a query past max_seqlen_q was answered");
    free_buffers(&m);
    rfg_context_destroy(&ctx);
}
END_TEST

/* scale is the call's, and so are strides of a lse that lies the other way round. */
START_TEST(scales)
{
    rfg_context *ctx = op_context("cpu");
    static uint16_t q[2 * 64], k[2 * 64], v[2 * 64], out[2 * 64];
    float lse[2] = { 0 };
    for (int i = 0; i < 2 * 64; i++) {
        rfg_store(q, RFG_F16, i, i < 64 ? 1 : 2);
        rfg_store(k, RFG_F16, i, i < 64 ? 0.5 : 0);
    }
    rfg_tensor tq = { q, RFG_F16, 4, { 1, 1, 2, 64 }, { 0, 0, 64, 1 } };
    rfg_tensor tk = { k, RFG_F16, 4, { 1, 2, 1, 64 }, { 0, 64, 0, 1 } }, tv = tk, to = tq;
    rfg_tensor tl = { lse, RFG_F32, 3, { 1, 2, 1 }, { 7, 1, 9 } };
    tv.data = v;
    to.data = out;
    rfg_mha_params p = { .size = sizeof(p), .lse = &tl };
    ck_assert_msg(rfg_op_mha(ctx, &to, &tq, &tk, &tv, &p, NULL) == RFG_OK, "%s", rfg_last_error());
    ck_assert_msg(fabs((double)lse[0] - log(exp(4) + 1)) < 1e-5, "%g", (double)lse[0]); /* 32 / sqrt(64) */
    ck_assert(fabs((double)lse[1] - log(exp(8) + 1)) < 1e-5);
    p.scale = 0.0625f;
    ck_assert_msg(rfg_op_mha(ctx, &to, &tq, &tk, &tv, &p, NULL) == RFG_OK, "%s", rfg_last_error());
    ck_assert(fabs((double)lse[0] - log(exp(2) + 1)) < 1e-5 && fabs((double)lse[1] - log(exp(4) + 1)) < 1e-5);
    p.soft_cap = 0.5f;
    ck_assert_msg(rfg_op_mha(ctx, &to, &tq, &tk, &tv, &p, NULL) == RFG_OK, "%s", rfg_last_error());
    ck_assert(fabs((double)lse[0] - log(exp(0.5 * tanh(4)) + 1)) < 1e-5);
    rfg_context_destroy(&ctx);
}
END_TEST

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

static struct {
    rfg_context *ctx;
    _Alignas(64) uint16_t q[4096], k[8192], v[8192], out[4096];
    float lse[64], sinks[8], scale[8];
    int32_t table[16], lens[4], cu[4];
    rfg_tensor tq, tk, tv, to, tl, ts, tscale, tt, tn, tcu;
    rfg_mha_params p;
} g;

/* A batch of 2 sequences of 2 queries, 4 heads of 64, 2 of keys; pages of 8 rows. */
static void fresh(void)
{
    for (int i = 0; i < 4096; i++)
        g.out[i] = 0x7777;
    for (int i = 0; i < 64; i++)
        g.lse[i] = 7;
    g.tq = (rfg_tensor){ g.q, RFG_BF16, 4, { 2, 2, 4, 64 }, { 512, 256, 64, 1 } };
    g.to = g.tq;
    g.to.data = g.out;
    g.tk = (rfg_tensor){ g.k, RFG_BF16, 4, { 4, 8, 2, 64 }, { 1024, 128, 64, 1 } };
    g.tv = g.tk;
    g.tv.data = g.v;
    g.tl = (rfg_tensor){ g.lse, RFG_F32, 3, { 2, 4, 2 }, { 8, 2, 1 } };
    g.ts = rfg_tensor_1d(g.sinks, RFG_F32, 4);
    g.tscale = rfg_tensor_1d(g.scale, RFG_F32, 2);
    g.tt = rfg_tensor_2d(g.table, RFG_I32, 2, 2, 2);
    g.tn = rfg_tensor_1d(g.lens, RFG_I32, 2);
    g.tcu = rfg_tensor_1d(g.cu, RFG_I32, 3);
    g.p = (rfg_mha_params){ .size = sizeof(g.p), .lse = &g.tl, .sinks = &g.ts, .alibi = &g.ts };
    for (int i = 0; i < 4; i++) {
        g.table[i] = i;
        g.lens[i] = 16;
        g.cu[i] = 2 * i;
    }
}

static rfg_status call(bool decode)
{
    if (decode) {
        g.p.block_table = g.tt.data ? &g.tt : NULL;
        g.p.kv_lens = g.tn.data ? &g.tn : NULL;
    }
    return (decode ? rfg_op_mha_decode : rfg_op_mha)(g.ctx, &g.to, &g.tq, &g.tk, &g.tv, &g.p, NULL);
}

static void refused(int line, bool decode, const char *const *words)
{
    rfg_status got = call(decode);
    ck_assert_msg(got == RFG_ERROR_INVALID_ARGUMENT, "line %d: %s: %s", line, rfg_status_name(got), rfg_last_error());
    ck_assert_msg(strstr(rfg_last_error(), decode ? "rfg_op_mha_decode: " : "rfg_op_mha: ") != NULL, "%s",
                  rfg_last_error());
    for (; *words; words++)
        ck_assert_msg(strstr(rfg_last_error(), *words) != NULL, "line %d: no '%s' in: %s", line, *words,
                      rfg_last_error());
    for (int i = 0; i < 4096; i++)
        ck_assert_msg(g.out[i] == 0x7777, "line %d: refused, but wrote element %d", line, i);
    fresh();
}
/* What is broken in a right call, and what the message must say of it. */
#define DECODE(broken, ...)                                                                                            \
    do {                                                                                                               \
        broken;                                                                                                        \
        refused(__LINE__, true, (const char *const[]){ __VA_ARGS__, NULL });                                           \
    } while (0)
#define PREFILL(broken, ...)                                                                                           \
    do {                                                                                                               \
        g.p.block_table = &g.tt;                                                                                       \
        g.p.kv_lens = &g.tn;                                                                                           \
        broken;                                                                                                        \
        refused(__LINE__, false, (const char *const[]){ __VA_ARGS__, NULL });                                          \
    } while (0)

static void refused_prefills(void)
{
    PREFILL(g.p.kv_lens = NULL, "kv_lens is NULL", "needs block_table and kv_lens");
    PREFILL(g.p.block_table = NULL, "block_table is NULL");
    PREFILL(g.p.cu_seqlens_k = &g.tcu, "cu_seqlens_k is given beside block_table");
    PREFILL(g.p.block_table = g.p.kv_lens = NULL; g.p.cu_seqlens_k = &g.tcu, "cu_seqlens_q is NULL");
    PREFILL(g.p.block_table = g.p.kv_lens = NULL; g.p.cu_seqlens_q = &g.tcu, "cu_seqlens_k is NULL");
    PREFILL(g.p.cu_seqlens_q = &g.tcu, "q has 4 dimensions", "must have 3");
    PREFILL(g.p.cu_seqlens_q = &g.tcu; g.p.max_seqlen_q = -1, "max_seqlen_q is -1");
    PREFILL(g.p.cu_seqlens_q = &g.tt, "cu_seqlens_q has 2 dimensions");
    PREFILL(g.tq.ndim = 3, "q has 3 dimensions", "must have 4");
}

START_TEST(refusals)
{
    g.ctx = op_context("cpu");
    fresh();
    ck_assert_msg(call(true) == RFG_OK, "%s", rfg_last_error());
    ck_assert(g.out[0] != 0x7777 && g.lse[15] != 7);
    fresh();
    g.p.block_table = &g.tt;
    g.p.kv_lens = &g.tn;
    ck_assert_msg(call(false) == RFG_OK, "%s", rfg_last_error());
    ck_assert(g.out[0] != 0x7777);
    fresh();

    DECODE(g.tq.dtype = RFG_I8, "q is i8", "bf16");
    DECODE(g.to.dtype = RFG_F16, "out is f16", "q's dtype, bf16");
    DECODE(g.tk.dtype = RFG_F16, "k is f16", "q's dtype, bf16, or e4m3");
    DECODE(g.tk.dtype = RFG_I32, "k is i32");
    DECODE(g.tv.dtype = RFG_E4M3, "v is e4m3", "k's dtype, bf16");
    DECODE(g.tq.dtype = (rfg_dtype)77, "q has dtype 77");
    DECODE(g.tq.ndim = 2, "q has 2 dimensions", "must have 4");
    DECODE(g.to.ndim = 3, "out has 3 dimensions", "must have 4");
    DECODE(g.tk.ndim = 3, "k has 3 dimensions", "must have 4");
    DECODE(g.tq.data = NULL, "q's data is NULL");
    DECODE(g.tv.data = (char *)g.v + 1, "v's data is", "aligned to its element, 2 bytes");
    DECODE(g.tq.strides[3] = 2, "q has stride 2 in its last dimension", "must be 1");
    DECODE(g.tk.strides[1] = 0, "k has stride 0 in dimension 1", "must be above 0");
    DECODE(g.tk.strides[0] = -1024, "k has stride -1024 in dimension 0", "must be above 0");
    DECODE(g.tk.strides[0] = INT64_MAX / 2, "k at ", "reach past the address space");
    DECODE(g.tk.shape[0] = INT64_C(1) << 31, "k has 2147483648 in dimension 0", "from 0 to 2147483647");
    DECODE(g.tq.shape[1] = 9, "out has 2 in dimension 1", "must be q's queries, 9");
    DECODE(g.tq.shape[1] = g.to.shape[1] = 9;
           g.tq.strides[0] = g.to.strides[0] = 2304, "lse has 2 in dimension 2", "q's queries, 9");
    DECODE(g.tq.shape[3] = g.tk.shape[3] = g.tv.shape[3] = g.to.shape[3] = 44, "D=44 Dv=44, of q and out",
           "multiples of 8, from 8 to 512");
    DECODE(g.to.shape[3] = g.tv.shape[3] = 31, "D=64 Dv=31, of q and out");
    DECODE(g.tk.shape[3] = 32, "k has 32 in dimension 3", "q's elements of a head, 64");
    DECODE(g.tv.shape[3] = 32, "v has 32 in dimension 3", "out's elements of a head, 64");
    DECODE(g.tv.shape[2] = 1, "v has 1 in dimension 2", "k's heads, 2");
    DECODE(g.tk.shape[2] = g.tv.shape[2] = 3;
           g.tk.strides[1] = g.tv.strides[1] = 192, "Hkv=3, k's heads", "must divide Hq=4");
    DECODE(g.tk.shape[2] = g.tv.shape[2] = 0, "k has 0 in dimension 2, heads: must be from 1");
    DECODE(g.to.strides[1] = 128, "out has stride 128", "overlap one another");
    DECODE(g.to.strides[0] = 256, "out has stride 256", "overlap one another");
    DECODE(g.to.data = g.q, "out [", "overlaps q [", "may not alias");
    DECODE(g.to.data = g.v + 4000, "out [", "overlaps v [");
    DECODE(g.tl.data = g.out, "out [", "overlaps lse [");
    DECODE(g.tl.data = g.sinks, "lse [", "overlaps sinks [");
    DECODE(g.tl.data = g.k, "lse [", "overlaps k [");
    DECODE(g.tt.dtype = RFG_F32, "block_table is f32", "must be i32");
    DECODE(g.tt.shape[0] = 3, "block_table has 3 in dimension 0", "q's sequences, 2");
    DECODE(g.tt.strides[1] = 2, "block_table has stride 2");
    DECODE(g.tt.shape[1] = 1 << 30; g.tt.strides[0] = 1 << 30, "block_table has 1073741824 columns", "at most");
    DECODE(g.tt.data = NULL, "k has 4 in dimension 0", "q's sequences, 2");
    DECODE(g.tn.shape[0] = 3, "kv_lens has 3 elements", "q's sequences, 2");
    DECODE(g.tn.dtype = RFG_F32, "kv_lens is f32");
    DECODE(g.tl.dtype = RFG_BF16, "lse is bf16", "f32");
    DECODE(g.tl.shape[2] = 1, "lse has 1 in dimension 2", "q's queries, 2");
    DECODE(g.tl.ndim = 2, "lse has 2 dimensions", "must have 3");
    DECODE(g.tl.strides[0] = 1, "lse has stride 1", "overlap one another");
    DECODE(g.ts.shape[0] = 3, "sinks has 3 elements", "q's heads, 4");
    DECODE(g.p.sinks = NULL; g.ts.dtype = RFG_F16, "alibi is f16", "f32");
    DECODE(g.ts.dtype = RFG_F16, "sinks is f16", "must be q's dtype, bf16, or f32");
    DECODE(g.p.k_scale = &g.tscale, "scales=head (k_scale, v_scale)", "8 bits");
    DECODE(g.tk.dtype = g.tv.dtype = RFG_E4M3; g.tscale.shape[0] = 3;
           g.p.v_scale = &g.tscale, "v_scale has 3 elements", "1 or k's heads, 2");
    DECODE(g.p.scale = NAN, "scale is nan", "finite");
    DECODE(g.p.soft_cap = -1, "soft_cap is -1");
    DECODE(g.p.window_left = 128, "window_left is 128, window_right 0", "must be 0, window is 0");
    DECODE(g.p.causal = 1; g.p.window = 8; g.p.window_right = -1, "window_left is 0, window_right -1",
                                           "must be 0, window is 8 and not RFG_MHA_WINDOW_SIDES");
    DECODE(g.p.window = RFG_MHA_WINDOW_SIDES; g.p.window_left = -2, "window_left is -2", "0 or above, or -1");
    DECODE(g.p.window = -2, "window is -2", "how many keys a query sees");
    DECODE(g.p.window = 128, "window=128: must be with causal=1 or Sq=1");
    DECODE(g.p.max_seqlen_k = -1, "max_seqlen_k is -1");
    /* vLLM's older form */
    rfg_tensor k5 = { g.k, RFG_BF16, 5, { 4, 2, 8, 8, 8 }, { 1024, 512, 64, 8, 1 } };
    rfg_tensor v4 = { g.v, RFG_BF16, 4, { 4, 2, 64, 8 }, { 1024, 512, 8, 1 } };
    g.tk = k5, g.tv = v4;
    ck_assert_msg(call(true) == RFG_OK, "%s", rfg_last_error());
    fresh();
    DECODE(g.tk = k5; g.tv = v4; g.tk.shape[4] = 4, "k has 4 in dimension 4", "16 bytes' worth, 8");
    DECODE(g.tk = k5; g.tv = v4; g.tk.shape[2] = 4, "k has 4 in dimension 2", "D / x, 8");
    DECODE(g.tk = k5; g.tv = v4; g.tv.shape[3] = 4, "v has 4 in dimension 3", "k's page, 8");
    DECODE(g.tk = k5; g.tv = v4; g.tt.data = NULL, "block_table is NULL", "5 dimensions");
    PREFILL(g.tk = k5; g.tv = v4, "k has 5 dimensions", "must have 4");
    refused_prefills();
    op_refused(rfg_op_mha(NULL, &g.to, &g.tq, &g.tk, &g.tv, &g.p, NULL), "ctx is NULL");
    op_refused(rfg_op_mha(g.ctx, &g.to, NULL, &g.tk, &g.tv, &g.p, NULL), "q is NULL");
    op_refused(rfg_op_mha_decode(g.ctx, &g.to, &g.tq, NULL, &g.tv, NULL, NULL), "k is NULL");
    rfg_context_destroy(&g.ctx);
}
END_TEST

START_TEST(problem_strings)
{
    static const char *const bad[][2] = {
        { "mha i32->i32 B=1 Hq=1 Hkv=1 D=64 S=8 Sq=8", "must be bf16, f16 or f32" },
        { "mha bf16->f16 B=1 Hq=1 Hkv=1 D=64 S=8 Sq=8", "must be q's, bf16" },
        { "mha bf16->bf16 B=1 Hq=1 Hkv=1 D=64 S=8", "Sq= is missing" },
        { "mha bf16->bf16 B=1 Hq=3 Hkv=2 D=64 S=8 Sq=8", "must divide Hq=3" },
        { "mha bf16->bf16 B=1 Hq=2 Hkv=2 D=84 S=8 Sq=8", "D=84" },
        { "mha bf16->bf16 B=1 Hq=2 Hkv=2 D=520 S=8 Sq=8", "512" },
        { "mha bf16->bf16 B=1 Hq=2 Hkv=2 D=128 Dv=4 S=8 Sq=8", "Dv=4" },
        { "mha_decode bf16->bf16 B=1 Hq=2 Hkv=2 D=72 S=8 page=16 kv=e4m3 form=vllm", "D=72, of q and k" },
        { "mha bf16->bf16 B=1 Hq=2 Hkv=2 D=64 Dv=64 S=8 Sq=8", "leave it out" },
        { "mha bf16->bf16 B=1 Hq=2 Hkv=2 D=64 S=8 Sq=8 causal=1 window_right=0", "leave it out" },
        { "mha bf16->bf16 B=1 Hq=2 Hkv=2 D=64 S=8 Sq=8 causal=1 window_left=3", "is window=4 with causal=1" },
        { "mha_decode bf16->bf16 B=1 Hq=2 Hkv=2 D=64 S=8 window_left=3", "is window=4 with one query" },
        { "mha bf16->bf16 B=1 Hq=2 Hkv=2 D=64 S=8 Sq=8 window=4", "window=4: must be with causal=1:" },
        { "mha_decode bf16->bf16 B=1 Hq=2 Hkv=2 D=64 S=8 Sq=2 window=4", "must be with causal=1 or Sq=1:" },
        { "mha bf16->bf16 B=1 Hq=2 Hkv=2 D=64 S=8 Sq=8 stype=bf16", "stype=bf16: must be q's dtype, bf16" },
        { "mha bf16->bf16 B=1 Hq=2 Hkv=2 D=64 S=8 Sq=8 sink=1 stype=f16", "stype=f16: must be q's dtype, bf16" },
        { "mha bf16->bf16 B=1 Hq=2 Hkv=2 D=64 S=8 Sq=8 form=vllm page=16", "only mha_decode" },
        { "mha bf16->bf16 B=1 Hq=2 Hkv=2 D=64 S=8 Sq=8 lens=any", "only with varlen=1 or a page" },
        { "mha bf16->bf16 B=1 Hq=2 Hkv=2 D=64 S=8 Sq=8 scales=head", "must be with k and v of 8 bits" },
        { "mha bf16->bf16 B=1 Hq=2 Hkv=1 D=64 S=8 Sq=8 kv=e4m3 scales=head", "scales=tensor" },
        { "mha bf16->bf16 B=100000 Hq=2 Hkv=1 D=64 S=8 Sq=100000", "at most" },
        { "mha_decode bf16->bf16 B=1 Hq=2 Hkv=1 D=64 S=8 Sq=9", "from 1 to 8" },
        { "mha_decode bf16->bf16 B=1 Hq=2 Hkv=1 D=64 S=8 causal=1", "one query" },
        { "mha_decode bf16->bf16 B=1 Hq=2 Hkv=1 D=64 S=8 varlen=1", "no cu_seqlens" },
        { "mha_decode bf16->bf16 B=2000000 Hq=1 Hkv=1 D=64 S=2000000000 page=16", "too many keys" },
        { "gemm i32,i32->i32 M=1 N=1 K=1", "i32" },
        { "rmsnorm i32->i32 M=1 N=8", "i32" },
        { "rmsnorm bf16->i32 M=1 N=8 scale=token", "i32" },
        { "act_and_mul i32->i32 M=1 N=8", "i32" },
    };
    OP_PROBLEMS_REFUSED("", bad);
}
END_TEST

/* Many sequences, of which one is long: what counts is the tokens that there are. Nothing is read: it is described. */
START_TEST(long_among_many)
{
    rfg_tensor q = rfg_tensor_nd(g.q, RFG_BF16, 3, (const int64_t[]){ INT32_MAX / 32, 32, 64 }), out = q;
    rfg_tensor cu = rfg_tensor_1d((void *)(uintptr_t)4096, RFG_I32, 4097);
    rfg_mha_params p = { .size = sizeof(p), .cu_seqlens_q = &cu, .cu_seqlens_k = &cu, .max_seqlen_q = 1 << 17 };
    rfg_context *ctx = op_context("cpu");
    char text[RFG_PROBLEM_MAX];
    out.data = (void *)(uintptr_t)(INT64_C(1) << 40);
    ck_assert_int_eq(rfg_describe_begin(ctx, text, sizeof(text)), RFG_OK);
    ck_assert_msg(rfg_op_mha(ctx, &out, &q, &q, &q, &p, NULL) == RFG_OK, "%s", rfg_last_error());
    q.shape[0]++, out.shape[0]++;
    op_refused(rfg_op_mha(ctx, &out, &q, &q, &q, &p, NULL), "tokens times heads must be at most 2147483647");
    rfg_context_destroy(&ctx);
}
END_TEST

/* The call made from a problem's string has that very problem, but for what only tests say of forms and lengths. */
START_TEST(calls_have_their_problem)
{
    static const char *const text[] = {
        "mha bf16->bf16 B=1 Hq=2 Hkv=2 D=192 S=20 Sq=8 Dv=128 window_left=3 window_right=2 cap=30 lse=1",
        "mha f16->f16 B=3 Hq=4 Hkv=2 D=64 S=20 Sq=8 causal=1 window=3 sink=1 stype=f16 alibi=1 varlen=1",
        "mha f16->f16 B=3 Hq=4 Hkv=2 D=64 S=20 Sq=8 varlen=1 page=16 kv=e5m2 scales=head",
        "mha_decode bf16->bf16 B=3 Hq=4 Hkv=1 D=96 S=20 Sq=2 causal=1 page=16 kv=e4m3 scales=tensor form=vllm",
        "mha_decode bf16->bf16 B=3 Hq=4 Hkv=1 D=96 S=20 window=7 page=1 kv=e4m3fnuz",
        "mha_decode bf16->bf16 B=3 Hq=4 Hkv=4 D=256 S=0",
        "mha_decode bf16->bf16 B=3 Hq=4 Hkv=4 D=64 S=40 page=16 form=hnd lens=any",
        "mha f16->f16 B=3 Hq=4 Hkv=4 D=64 S=40 Sq=9 form=gaps",
    };
    rfg_context *ctx = op_context("cpu");
    for (size_t i = 0; i < sizeof(text) / sizeof(text[0]); i++)
        for (int unaligned = 0; unaligned < 2; unaligned++) {
            struct rfg_problem prob;
            struct rfg_reason why;
            struct rfg_case *c;
            char again[RFG_PROBLEM_STRLEN];
            struct rfg_case_params params = { .seed = op_seed(), .unaligned = unaligned };
            ck_assert_msg(rfg_problem_parse(&prob, text[i], &why), "%s: %s", text[i], why.text);
            ck_assert_str_eq(rfg_problem_format(&prob, again, sizeof(again)), text[i]);
            ck_assert_msg(rfg_case_create(ctx, &prob, &params, &c) == RFG_OK, "%s", rfg_last_error());
            ck_assert_msg(rfg_case_run(c, 0, NULL, NULL) == RFG_OK, "%s: %s", text[i], rfg_last_error());
            ck_assert_msg(rfg_plan_find(ctx, rfg_case_as_called(c)) != NULL, "%s: it was dispatched as another problem",
                          text[i]);
            rfg_case_destroy(&c);
        }
    rfg_context_destroy(&ctx);
}
END_TEST

/* What tests and benches put into tables and lengths, and what a problem is said to cost. */
START_TEST(tables_and_costs)
{
    static const char *const text[] = {
        "mha_decode bf16->bf16 B=7 Hq=4 Hkv=2 D=64 S=200 page=16 lens=any",
        "mha_decode bf16->bf16 B=7 Hq=4 Hkv=2 D=64 S=200 page=16 lens=log",
        "mha_decode bf16->bf16 B=7 Hq=4 Hkv=2 D=64 S=200 page=16",
    };
    enum { LENS = 12, TABLE = 11, K = 3 }; /* as the op lists its tensors */
    for (int i = 0; i < 3; i++) {
        struct rfg_problem prob;
        struct rfg_tensor_spec spec[RFG_MAX_TENSORS];
        int32_t lens[7], table[7 * 13];
        bool used[7 * 13] = { false };
        int longest = 0, shortest = 1000;
        ck_assert(rfg_problem_parse(&prob, text[i], NULL));
        const struct rfg_op_case *of = rfg_op_case_of(prob.op);
        ck_assert_int_eq(of->tensors(&prob, spec), LENS + 1);
        ck_assert(!strcmp(spec[LENS].name, "kv_lens") && !strcmp(spec[TABLE].name, "block_table"));
        rfg_tensor t[] = { rfg_tensor_1d(lens, RFG_I32, 7), rfg_tensor_2d(table, RFG_I32, 7, 13, 13) };
        of->fill(&prob, LENS, &t[0], RFG_DATA_RANDOM, 1);
        of->fill(&prob, TABLE, &t[1], RFG_DATA_RANDOM, 1);
        int blocks = (int)spec[K].shape[0] / 16, sum = 0;
        for (int b = 0; b < 7; b++) {
            longest = lens[b] > longest ? lens[b] : longest;
            shortest = lens[b] < shortest ? lens[b] : shortest;
            for (int n = 0; n < 13; n++) {
                int block = table[b * 13 + n];
                ck_assert_msg(block >= 0 && block < blocks, "%s: block %d of %d", text[i], block, blocks);
                if (n * 16 < lens[b]) {
                    ck_assert_msg(!used[block], "%s: block %d holds two things", text[i], block);
                    used[block] = true;
                    sum++;
                }
            }
        }
        ck_assert_msg(sum == blocks && longest == 200, "%s: %d blocks, longest %d", text[i], sum, longest);
        ck_assert_msg(i == 0   ? shortest == 0
                      : i == 1 ? shortest >= 16 && shortest < 200
                               : shortest == 200,
                      "%s: shortest %d", text[i], shortest);
    }
    static const struct {
        const char *problem;
        double bytes, flops;
    } costs[] = {
        { "mha_decode bf16->bf16 B=2 Hq=4 Hkv=2 D=64 S=100 page=16", 2 * 4 * 128 * 2 + 200 * 2 * 128 * 2 + 50,
          2 * 128 * 200 * 4 },
        { "mha_decode bf16->bf16 B=1 Hq=4 Hkv=2 D=64 S=100 window=10 lse=1 kv=e4m3", 4 * (256 + 4) + 10 * 2 * 128,
          2 * 128 * 10 * 4 },
        { "mha bf16->bf16 B=1 Hq=1 Hkv=1 D=192 S=5 Sq=3 Dv=128 causal=1", 3 * 320 * 2 + 5 * 320 * 2, 2 * 320 * 12 },
        { "mha bf16->bf16 B=1 Hq=1 Hkv=1 D=64 S=2 Sq=5 causal=1", 5 * 256 + 2 * 256, 2 * 128 * 3 },
    };
    for (size_t i = 0; i < sizeof(costs) / sizeof(costs[0]); i++) {
        struct rfg_problem prob;
        double bytes, flops;
        ck_assert(rfg_problem_parse(&prob, costs[i].problem, NULL));
        prob.op->cost(&prob, &bytes, &flops);
        ck_assert_msg(bytes == costs[i].bytes && flops == costs[i].flops, "%s: %g bytes, %g flops", costs[i].problem,
                      bytes, flops);
    }
}
END_TEST

/* What a problem costs, by counting pairs one by one; and long sequences don't take long to cost. */
START_TEST(costs_by_counting)
{
    uint64_t seed = op_seed();
    for (int n = 0; n < 2000; n++) {
        int64_t sq = (int64_t)(rfg_random(&seed) % 20), skv = (int64_t)(rfg_random(&seed) % 20);
        int left = (int)(rfg_random(&seed) % 24) - 1, right = (int)(rfg_random(&seed) % 24) - 1;
        bool causal = rfg_random(&seed) % 3 == 0;
        char text[RFG_PROBLEM_STRLEN], window[60] = "";
        if (left >= 0)
            snprintf(window, sizeof(window), causal ? " window=%d" : " window_left=%d", left + causal);
        if (right >= 0 && !causal)
            snprintf(window + strlen(window), sizeof(window) - strlen(window), " window_right=%d", right);
        snprintf(text, sizeof(text), "mha bf16->bf16 B=1 Hq=1 Hkv=1 D=64 S=%d Sq=%d%s%s", (int)skv, (int)sq,
                 causal ? " causal=1" : "", window);
        int pairs = 0, keys = 0;
        bool seen[20] = { false };
        for (int64_t i = 0; i < sq; i++)
            for (int64_t key = 0; key < skv; key++) {
                int64_t at = i + skv - sq;
                bool masked = (left >= 0 && key < at - left) || (causal ? key > at : right >= 0 && key > at + right);
                pairs += !masked;
                seen[key] |= !masked;
            }
        for (int key = 0; key < 20; key++)
            keys += seen[key];
        struct rfg_problem prob;
        struct rfg_reason why;
        double bytes, flops;
        ck_assert_msg(rfg_problem_parse(&prob, text, &why), "%s: %s", text, why.text);
        prob.op->cost(&prob, &bytes, &flops);
        ck_assert_msg(flops == 2.0 * 128 * pairs && bytes == 256.0 * (double)sq + 256.0 * keys,
                      "%s: %g flops of %d pairs, %g bytes of %d keys", text, flops, pairs, bytes, keys);
    }
    struct timespec begin, end;
    rfg_context *ctx = op_context("cpu");
    clock_gettime(CLOCK_MONOTONIC, &begin);
    rfg_status st = rfg_prepare(ctx, "mha bf16->bf16 B=1 Hq=1 Hkv=1 D=64 S=2147483647 Sq=2147483647 causal=1");
    ck_assert_msg(st == RFG_OK, "%s", rfg_last_error());
    clock_gettime(CLOCK_MONOTONIC, &end);
    ck_assert_msg(end.tv_sec - begin.tv_sec < 3, "%d seconds", (int)(end.tv_sec - begin.tv_sec));
    rfg_context_destroy(&ctx);
}
END_TEST

/* A sum in parts whose partial results no stream has room for is refused before it is planned. */
START_TEST(parts_that_fit)
{
    static const struct {
        const char *config;
        bool fits;
    } cases[] = {
        { "mha_prefill_mma{waves=2,frags_q=2,tile_kv=32,stages=1,q_lds=1,pack=1,parts=32}", false },
        { "mha_prefill_mma{waves=2,frags_q=2,tile_kv=32,stages=1,q_lds=1,pack=1,parts=8}", true },
    };
    struct rfg_problem prob;
    struct rfg_device dev;
    ck_assert(rfg_problem_parse(&prob, "mha bf16->bf16 B=2 Hq=8 Hkv=2 D=128 S=300 Sq=300", NULL));
    ck_assert(rfg_device_imagine(&dev, "sm_90"));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct rfg_variant *var;
        struct rfg_reason why = { "" };
        int p[RFG_MAX_PARAMS] = { 0 };
        ck_assert_msg(rfg_config_parse(prob.op, cases[i].config, &var, p, &why), "%s", why.text);
        bool fits = rfg_variant_check(var, &dev, &prob, p, &why);
        ck_assert_msg(fits == cases[i].fits, "%s: %s", cases[i].config, why.text);
        if (!fits)
            ck_assert_msg(strstr(why.text, "workspace of 84672512 bytes"), "%s", why.text);
    }
}
END_TEST

int main(void)
{
    return op_main("mha_rules", OP_TESTS(permuted_pages, no_bit_changes, halves, captured, ragged_means),
                   OP_TESTS(scales, refusals, parts_that_fit, problem_strings, long_among_many,
                            calls_have_their_problem, tables_and_costs, costs_by_counting));
}
