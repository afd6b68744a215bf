/* SPDX-License-Identifier: MIT
 *
 * A decoder layer of a small LLM, as an engine runs it for one new token of each of several sequences: norms, the
 * projections, attention over a paged cache, a gated MLP. docs/engine.md walks through it. One source for every device:
 *
 *   cc -std=c17 decoder_layer.c $(pkg-config --cflags --libs rfg) -lm -o decoder_layer
 *   ./decoder_layer cpu && ./decoder_layer emu:gfx942:4 && ./decoder_layer nvidia:0
 *
 * Each step is checked against the same layer in double, in plain C. */
#include <rfg/rfg.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    B = 4,        /* sequences, one new token of each a step */
    HIDDEN = 256, /* of the residual stream */
    HQ = 4,       /* heads of queries, */
    HKV = 2,      /* of keys and values, */
    D = 64,       /* and their elements */
    INTER = 384,  /* of the MLP */
    PAGE = 16,    /* keys of a block of the cache */
    BLOCKS = 4,   /* of a sequence */
    STEPS = 4,    /* the first one runs as it is called, the others replay graphs */
    QKV = (HQ + 2 * HKV) * D,
    CACHE = B * BLOCKS * PAGE * HKV * D,
};

typedef uint16_t bf16;

static rfg_context *ctx;
static rfg_stream stream;

static void check(rfg_status st, const char *what)
{
    if (st == RFG_OK)
        return;
    fprintf(stderr, "%s: %s: %s\n", what, rfg_status_name(st), rfg_last_error());
    exit(1);
}
#define CHECK(call) check(call, #call)

/* ---- numbers on the host ------------------------------------------------------------------------------------- */

static double to_double(bf16 v)
{
    uint32_t bits = (uint32_t)v << 16;
    float f;
    memcpy(&f, &bits, sizeof(f));
    return f;
}

/* To nearest, ties to even. */
static bf16 to_bf16(double v)
{
    float f = (float)v;
    uint32_t bits;
    memcpy(&bits, &f, sizeof(bits));
    return (bf16)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static double rounded(double v)
{
    return to_double(to_bf16(v));
}

static void randomise(bf16 *v, size_t n, double scale)
{
    static uint32_t state = 1;
    for (size_t i = 0; i < n; i++) {
        state = state * 1664525 + 1013904223;
        v[i] = to_bf16(scale * ((state >> 8) * 0x1p-23 - 1));
    }
}

static bf16 *new_random(size_t n, double scale)
{
    bf16 *v = malloc(n * sizeof(*v));
    if (!v)
        exit(1);
    randomise(v, n, scale);
    return v;
}

/* ---- the layer's memory -------------------------------------------------------------------------------------- */

/* On the host (what the reference works with, and the device's memory is filled from) and on the device. */
struct buffer {
    void *host, *device;
    size_t bytes;
};

static struct buffer norm1, norm2, w_qkv, w_o, w_gate_up, w_down;            /* weights */
static struct buffer k_cache, v_cache, block_table, kv_lens;                 /* of the sequences */
static struct buffer x, residual, normed, qkv, att, o, gate_up, act, result; /* activations */

static void *alloc_device(size_t bytes)
{
    void *memory;
    CHECK(rfg_device_alloc(ctx, &memory, bytes));
    return memory;
}

static void upload(const struct buffer *b)
{
    CHECK(rfg_device_copy(ctx, b->device, b->host, b->bytes, RFG_HOST_TO_DEVICE, stream));
}

static void make(struct buffer *b, size_t n, double scale)
{
    b->host = new_random(n, scale);
    b->bytes = n * sizeof(bf16);
    b->device = alloc_device(b->bytes);
    upload(b);
}

static void make_ints(struct buffer *b, const int32_t *v, size_t n)
{
    b->bytes = n * sizeof(*v);
    b->host = memcpy(malloc(b->bytes), v, b->bytes);
    b->device = alloc_device(b->bytes);
    upload(b);
}

static void drop(struct buffer *b)
{
    free(b->host);
    CHECK(rfg_device_free(ctx, b->device));
}

static void make_all(void)
{
    static int32_t table[B * BLOCKS], lens[B] = { 5, 16, 30, 47 };
    for (int i = 0; i < B * BLOCKS; i++)
        table[i] = i * 5 % (B * BLOCKS); /* the cache's blocks, in no order */
    make(&norm1, HIDDEN, 1);
    make(&norm2, HIDDEN, 1);
    make(&w_qkv, (size_t)QKV * HIDDEN, 0.1);
    make(&w_o, (size_t)HIDDEN * HQ * D, 0.1);
    make(&w_gate_up, (size_t)2 * INTER * HIDDEN, 0.1);
    make(&w_down, (size_t)HIDDEN * INTER, 0.1);
    make(&k_cache, CACHE, 1);
    make(&v_cache, CACHE, 1);
    make_ints(&block_table, table, B * BLOCKS);
    make_ints(&kv_lens, lens, B);
    make(&x, B * HIDDEN, 1);
    make(&residual, B * HIDDEN, 1);
    make(&normed, B * HIDDEN, 0);
    make(&qkv, B * QKV, 0);
    make(&att, B * HQ * D, 0);
    make(&o, B * HIDDEN, 0);
    make(&gate_up, B * 2 * INTER, 0);
    make(&act, B * INTER, 0);
    make(&result, B * HIDDEN, 0);
}

static void drop_all(void)
{
    struct buffer *all[] = { &norm1,   &norm2,       &w_qkv,   &w_o, &w_gate_up, &w_down, &k_cache,
                             &v_cache, &block_table, &kv_lens, &x,   &residual,  &normed, &qkv,
                             &att,     &o,           &gate_up, &act, &result };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        drop(all[i]);
}

/* ---- the layer on the device --------------------------------------------------------------------------------- */

static rfg_tensor rows(const struct buffer *b, int64_t m, int64_t n)
{
    return rfg_tensor_2d(b->device, RFG_BF16, m, n, n);
}

static void linear(const struct buffer *y, const struct buffer *in, const struct buffer *w, int64_t n, int64_t k)
{
    rfg_tensor ty = rows(y, B, n), tx = rows(in, B, k), tw = rows(w, n, k);
    CHECK(rfg_op_gemm(ctx, &ty, &tx, &tw, NULL, stream));
}

/* normed = rmsnorm(residual += in) */
static void add_norm(const struct buffer *in, const struct buffer *weight)
{
    rfg_tensor ty = rows(&normed, B, HIDDEN), tx = rows(in, B, HIDDEN), tr = rows(&residual, B, HIDDEN);
    rfg_tensor tw = rfg_tensor_1d(weight->device, RFG_BF16, HIDDEN);
    CHECK(rfg_op_add_rmsnorm(ctx, &ty, &tr, &tx, &tr, &tw, NULL, stream));
}

static void before_the_cache(void)
{
    add_norm(&x, &norm1);
    linear(&qkv, &normed, &w_qkv, QKV, HIDDEN);
}

/* Where key `at` of a sequence is in the cache, in elements. */
static size_t cache_row(int b, int at)
{
    const int32_t *table = block_table.host;
    return ((size_t)table[b * BLOCKS + at / PAGE] * PAGE + (size_t)(at % PAGE)) * HKV * D;
}

/* The new tokens' keys and values go where each sequence's next ones belong: other addresses at each step, so this is
 * in no graph. Lengths are read by the attention kernel: they count the new key. */
static void write_cache(void)
{
    int32_t *lens = kv_lens.host;
    size_t bytes = HKV * D * sizeof(bf16);
    for (int b = 0; b < B; b++) {
        bf16 *row = (bf16 *)qkv.device + b * QKV;
        size_t at = cache_row(b, lens[b]++);
        CHECK(rfg_device_copy(ctx, (bf16 *)k_cache.device + at, row + HQ * D, bytes, RFG_DEVICE_TO_DEVICE, stream));
        CHECK(rfg_device_copy(ctx, (bf16 *)v_cache.device + at, row + (HQ + HKV) * D, bytes, RFG_DEVICE_TO_DEVICE,
                              stream));
    }
    upload(&kv_lens);
}

static void after_the_cache(void)
{
    rfg_tensor out = { att.device, RFG_BF16, 3, { B, HQ, D, 0, 0 }, { HQ * D, D, 1, 0, 0 } };
    rfg_tensor q = { qkv.device, RFG_BF16, 3, { B, HQ, D, 0, 0 }, { QKV, D, 1, 0, 0 } }; /* where it lies */
    rfg_tensor k = {
        k_cache.device, RFG_BF16, 4, { B * BLOCKS, PAGE, HKV, D, 0 }, { PAGE * HKV * D, HKV * D, D, 1, 0 }
    };
    rfg_tensor v = k, lens = rfg_tensor_1d(kv_lens.device, RFG_I32, B);
    rfg_tensor table = rfg_tensor_2d(block_table.device, RFG_I32, B, BLOCKS, BLOCKS);
    rfg_mha_params params = { .size = sizeof(params), .block_table = &table, .kv_lens = &lens };
    v.data = v_cache.device;
    CHECK(rfg_op_mha_decode(ctx, &out, &q, &k, &v, &params, stream));
    linear(&o, &att, &w_o, HIDDEN, HQ * D);
    add_norm(&o, &norm2);
    linear(&gate_up, &normed, &w_gate_up, 2 * INTER, HIDDEN);
    rfg_tensor ta = rows(&act, B, INTER), tg = rows(&gate_up, B, 2 * INTER);
    CHECK(rfg_op_act_and_mul(ctx, &ta, &tg, NULL, stream)); /* silu */
    linear(&result, &act, &w_down, HIDDEN, INTER);
}

static rfg_graph *capture(void (*part)(void))
{
    rfg_graph *graph;
    CHECK(rfg_stream_begin_capture(ctx, stream));
    part();
    CHECK(rfg_stream_end_capture(ctx, stream, &graph));
    return graph;
}

/* ---- the layer in double ------------------------------------------------------------------------------------- */

/* Rounds where the device stores bf16. */
static void ref_linear(double *y, const double *in, const struct buffer *w, int n, int k)
{
    const bf16 *weight = w->host;
    for (int m = 0; m < B; m++)
        for (int i = 0; i < n; i++) {
            double sum = 0;
            for (int j = 0; j < k; j++)
                sum += in[m * k + j] * to_double(weight[i * k + j]);
            y[m * n + i] = rounded(sum);
        }
}

static void ref_add_norm(double *y, double *res, const double *in, const struct buffer *w)
{
    const bf16 *weight = w->host;
    for (int m = 0; m < B; m++) {
        double squares = 0;
        for (int i = m * HIDDEN; i < (m + 1) * HIDDEN; i++) {
            res[i] = rounded(res[i] + in[i]);
            squares += res[i] * res[i];
        }
        for (int i = 0; i < HIDDEN; i++)
            y[m * HIDDEN + i] = rounded(res[m * HIDDEN + i] / sqrt(squares / HIDDEN + 1e-6) * to_double(weight[i]));
    }
}

/* lens: with the new key, which is in the host's cache by now. */
static void ref_attention(double *out, const double *in)
{
    const int32_t *lens = kv_lens.host;
    const bf16 *k = k_cache.host, *v = v_cache.host;
    for (int b = 0; b < B; b++)
        for (int h = 0; h < HQ; h++) {
            double sum = 0, acc[D] = { 0 };
            for (int at = 0; at < lens[b]; at++) {
                size_t row = cache_row(b, at) + (size_t)(h / (HQ / HKV) * D);
                double score = 0;
                for (int d = 0; d < D; d++)
                    score += in[b * QKV + h * D + d] * to_double(k[row + d]);
                double weight = exp(score / sqrt(D));
                sum += weight;
                for (int d = 0; d < D; d++)
                    acc[d] += weight * to_double(v[row + d]);
            }
            for (int d = 0; d < D; d++)
                out[(b * HQ + h) * D + d] = rounded(acc[d] / sum);
        }
}

static void ref_write_cache(const double *in)
{
    const int32_t *lens = kv_lens.host;
    for (int b = 0; b < B; b++)
        for (int i = 0; i < HKV * D; i++) {
            size_t at = cache_row(b, lens[b] - 1) + (size_t)i;
            ((bf16 *)k_cache.host)[at] = to_bf16(in[b * QKV + HQ * D + i]);
            ((bf16 *)v_cache.host)[at] = to_bf16(in[b * QKV + (HQ + HKV) * D + i]);
        }
}

static void ref_layer(double *want)
{
    static double in[B * HIDDEN], res[B * HIDDEN], h[B * HIDDEN], proj[B * QKV], a[B * HQ * D], gu[B * 2 * INTER],
        mlp[B * INTER];
    for (int i = 0; i < B * HIDDEN; i++) {
        in[i] = to_double(((bf16 *)x.host)[i]);
        res[i] = to_double(((bf16 *)residual.host)[i]);
    }
    ref_add_norm(h, res, in, &norm1);
    ref_linear(proj, h, &w_qkv, QKV, HIDDEN);
    ref_write_cache(proj);
    ref_attention(a, proj);
    ref_linear(in, a, &w_o, HIDDEN, HQ * D);
    ref_add_norm(h, res, in, &norm2);
    ref_linear(gu, h, &w_gate_up, 2 * INTER, HIDDEN);
    for (int m = 0; m < B; m++)
        for (int i = 0; i < INTER; i++) {
            double g = gu[m * 2 * INTER + i];
            mlp[m * INTER + i] = rounded(g / (1 + exp(-g)) * gu[m * 2 * INTER + INTER + i]);
        }
    ref_linear(want, mlp, &w_down, HIDDEN, INTER);
}

/* The largest difference by the largest value: values that were rounded on the way differ by an ulp here and there. */
static int compare(int step, const char *how)
{
    static double want[B * HIDDEN];
    static bf16 got[B * HIDDEN];
    double most = 0, differs = 0;
    CHECK(rfg_device_copy(ctx, got, result.device, sizeof(got), RFG_DEVICE_TO_HOST, stream));
    CHECK(rfg_stream_sync(ctx, stream));
    ref_layer(want);
    for (int i = 0; i < B * HIDDEN; i++) {
        double d = fabs(to_double(got[i]) - want[i]);
        most = fmax(most, fabs(want[i]));
        differs = d > differs || isnan(d) ? d : differs;
    }
    int right = differs <= 0.01 * most;
    printf("step %d, %s: %s (largest difference %.3g, largest value %.3g)\n", step, how, right ? "right" : "WRONG",
           differs, most);
    return right;
}

/* ---- the program --------------------------------------------------------------------------------------------- */

static void say(void *user, rfg_log_topic topic, const char *line)
{
    (void)user;
    if (topic == RFG_LOG_WARNING)
        fprintf(stderr, "decoder_layer: %s\n", line);
}

int main(int argc, char **argv)
{
    int right = 1;
    rfg_set_log_callback(say, NULL, 0);
    rfg_context_params params = { .device = argc > 1 ? argv[1] : NULL };
    CHECK(rfg_context_create(&ctx, &params));
    CHECK(rfg_stream_create(ctx, &stream));
    void *workspace = alloc_device(rfg_workspace_size(ctx));
    CHECK(rfg_stream_set_workspace(ctx, stream, workspace, rfg_workspace_size(ctx)));
    make_all();

    /* For any number of sequences: no call of this GEMM compiles any more. The others do in the first step. */
    char problem[100];
    snprintf(problem, sizeof(problem), "gemm bf16,bf16->bf16 M=1..%d N=%d K=%d", B, QKV, HIDDEN);
    CHECK(rfg_prepare(ctx, problem));

    rfg_graph *before = NULL, *after = NULL;
    for (int step = 0; step < STEPS; step++) {
        randomise(x.host, B * HIDDEN, 1);
        randomise(residual.host, B * HIDDEN, 1);
        upload(&x);
        upload(&residual);
        if (step == 0) {
            before_the_cache();
            write_cache();
            after_the_cache();
        } else {
            if (step == 1) {
                before = capture(before_the_cache);
                after = capture(after_the_cache);
            }
            CHECK(rfg_graph_replay(ctx, before, stream));
            write_cache();
            CHECK(rfg_graph_replay(ctx, after, stream));
        }
        right &= compare(step, step == 0 ? "called" : "replayed");
    }

    CHECK(rfg_graph_destroy(ctx, &before));
    CHECK(rfg_graph_destroy(ctx, &after));
    CHECK(rfg_stream_destroy(ctx, &stream));
    drop_all();
    CHECK(rfg_device_free(ctx, workspace));
    printf("%s: %s\n", rfg_context_device(ctx), right ? "right" : "WRONG");
    rfg_context_destroy(&ctx);
    return !right;
}
