/* SPDX-License-Identifier: MIT
 *
 * A small LLM of one decoder layer, as an engine decodes with it: a step takes one new token of each of several
 * sequences from its embedding to the next token, and is captured once and replayed. docs/engine.md walks through it.
 * One source for every device:
 *
 *   cc -std=c17 decoder_layer.c $(pkg-config --cflags --libs rfg) -lm -o decoder_layer
 *   ./decoder_layer cpu && ./decoder_layer emu:gfx942:4 && ./decoder_layer nvidia:0
 *
 * Each step is checked against the same model in double, in plain C. */
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
    BLOCKS = 4,   /* of a sequence, at most */
    SPARE = 4,    /* blocks that no sequence has in the beginning */
    VOCAB = 512,  /* tokens that there are */
    STEPS = 8,    /* the first one runs as it is called, the others replay it */
    QKV = (HQ + 2 * HKV) * D,
    POSITIONS = BLOCKS * PAGE,
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

static struct buffer embedding, norm1, norm2, norm3, w_qkv, w_o, w_gate_up, w_down, head, cos_sin; /* weights */
static struct buffer k_cache, v_cache, block_table, kv_lens, spare, spare_count;                   /* the cache */
static struct buffer tokens, positions, slots;                                                     /* of a step */
static struct buffer residual, normed, qkv, att, o, gate_up, act, logits;                          /* activations */

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

static void make_of(struct buffer *b, const void *from, size_t bytes)
{
    b->bytes = bytes;
    b->host = memcpy(malloc(bytes), from, bytes);
    b->device = alloc_device(bytes);
    upload(b);
}

static void drop(struct buffer *b)
{
    free(b->host);
    CHECK(rfg_device_free(ctx, b->device));
}

/* Sequences have prompts, whose keys and values are in the cache, and a first token each. */
static void make_all(void)
{
    static const int32_t lens[B] = { 5, 16, 30, 47 }, first[B] = { 3, 141, 59, 265 };
    static int32_t table[B * BLOCKS], free_blocks[SPARE], n = SPARE;
    static int64_t zeroes[B];
    static float angles[POSITIONS * D];
    int next = 0; /* the cache's blocks, in no order */
    for (int b = 0; b < B; b++)
        for (int i = 0; i < BLOCKS; i++)
            table[b * BLOCKS + i] = i * PAGE < lens[b] ? next++ * 5 % (B * BLOCKS) : -1;
    for (int i = 0; i < SPARE; i++)
        free_blocks[i] = next++ * 5 % (B * BLOCKS);
    rfg_tensor t = rfg_tensor_2d(angles, RFG_F32, POSITIONS, D, D);
    CHECK(rfg_rope_table(&t, NULL));
    make_of(&cos_sin, angles, sizeof(angles));
    make_of(&block_table, table, sizeof(table));
    make_of(&kv_lens, lens, sizeof(lens));
    make_of(&spare, free_blocks, sizeof(free_blocks));
    make_of(&spare_count, &n, sizeof(n));
    make_of(&tokens, first, sizeof(first));
    make_of(&positions, zeroes, sizeof(zeroes));
    make_of(&slots, zeroes, sizeof(zeroes));
    make(&embedding, (size_t)VOCAB * HIDDEN, 1);
    make(&norm1, HIDDEN, 1);
    make(&norm2, HIDDEN, 1);
    make(&norm3, HIDDEN, 1);
    make(&w_qkv, (size_t)QKV * HIDDEN, 0.1);
    make(&w_o, (size_t)HIDDEN * HQ * D, 0.1);
    make(&w_gate_up, (size_t)2 * INTER * HIDDEN, 0.1);
    make(&w_down, (size_t)HIDDEN * INTER, 0.1);
    make(&head, (size_t)VOCAB * HIDDEN, 0.1);
    make(&k_cache, CACHE, 1);
    make(&v_cache, CACHE, 1);
    make(&residual, B * HIDDEN, 0);
    make(&normed, B * HIDDEN, 0);
    make(&qkv, B * QKV, 0);
    make(&att, B * HQ * D, 0);
    make(&o, B * HIDDEN, 0);
    make(&gate_up, B * 2 * INTER, 0);
    make(&act, B * INTER, 0);
    make(&logits, B * VOCAB, 0);
}

static void drop_all(void)
{
    struct buffer *all[] = { &embedding, &norm1,       &norm2,   &norm3,     &w_qkv,   &w_o,         &w_gate_up,
                             &w_down,    &head,        &cos_sin, &k_cache,   &v_cache, &block_table, &kv_lens,
                             &spare,     &spare_count, &tokens,  &positions, &slots,   &residual,    &normed,
                             &qkv,       &att,         &o,       &gate_up,   &act,     &logits };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        drop(all[i]);
}

/* ---- the model on the device --------------------------------------------------------------------------------- */

static rfg_tensor rows(const struct buffer *b, int64_t m, int64_t n)
{
    return rfg_tensor_2d(b->device, RFG_BF16, m, n, n);
}

/* Heads of qkv, which the GEMM left there, from column `from` on. */
static rfg_tensor heads(int from, int n)
{
    return (rfg_tensor){ (bf16 *)qkv.device + from, RFG_BF16, 3, { B, n, D, 0, 0 }, { QKV, D, 1, 0, 0 } };
}

static rfg_tensor cache(const struct buffer *b)
{
    return rfg_tensor_nd(b->device, RFG_BF16, 4, (const int64_t[]){ B * BLOCKS, PAGE, HKV, D });
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

static void attention(void)
{
    rfg_tensor q = heads(0, HQ), k = heads(HQ * D, HKV), v = heads((HQ + HKV) * D, HKV);
    rfg_tensor keys = cache(&k_cache), values = cache(&v_cache);
    rfg_tensor angles = rfg_tensor_2d(cos_sin.device, RFG_F32, POSITIONS, D, D);
    rfg_tensor at = rfg_tensor_1d(positions.device, RFG_I64, B), to = rfg_tensor_1d(slots.device, RFG_I64, B);
    CHECK(rfg_op_rope_append(ctx, &q, &keys, &values, &q, &k, &v, &angles, &at, &to, NULL, stream));

    rfg_tensor out = rfg_tensor_nd(att.device, RFG_BF16, 3, (const int64_t[]){ B, HQ, D });
    rfg_tensor table = rfg_tensor_2d(block_table.device, RFG_I32, B, BLOCKS, BLOCKS);
    rfg_tensor lens = rfg_tensor_1d(kv_lens.device, RFG_I32, B);
    rfg_mha_params params = { .size = sizeof(params), .block_table = &table, .kv_lens = &lens };
    CHECK(rfg_op_mha_decode(ctx, &out, &q, &keys, &values, &params, stream));
}

/* Where the step's tokens go, and how long the sequences then are. */
static void advance(void)
{
    rfg_tensor lens = rfg_tensor_1d(kv_lens.device, RFG_I32, B), at = rfg_tensor_1d(positions.device, RFG_I64, B);
    rfg_tensor to = rfg_tensor_1d(slots.device, RFG_I64, B), list = rfg_tensor_1d(spare.device, RFG_I32, SPARE);
    rfg_tensor table = rfg_tensor_2d(block_table.device, RFG_I32, B, BLOCKS, BLOCKS);
    rfg_tensor count = rfg_tensor_1d(spare_count.device, RFG_I32, 1);
    rfg_advance_params params = {
        .size = sizeof(params), .slots = &to, .block_table = &table, .page = PAGE, .spare = &list, .spare_count = &count
    };
    CHECK(rfg_op_advance(ctx, &lens, &at, &params, stream));
}

/* From tokens to the next ones, in the same place. */
static void step(void)
{
    rfg_tensor ids = rfg_tensor_1d(tokens.device, RFG_I32, B), tr = rows(&residual, B, HIDDEN);
    rfg_tensor te = rows(&embedding, VOCAB, HIDDEN), tn = rows(&normed, B, HIDDEN), tl = rows(&logits, B, VOCAB);
    rfg_tensor tw = rfg_tensor_1d(norm1.device, RFG_BF16, HIDDEN);
    advance();
    CHECK(rfg_op_embedding(ctx, &tr, &ids, &te, NULL, stream));
    CHECK(rfg_op_rmsnorm(ctx, &tn, &tr, &tw, NULL, stream));
    linear(&qkv, &normed, &w_qkv, QKV, HIDDEN);
    attention();
    linear(&o, &att, &w_o, HIDDEN, HQ * D);
    add_norm(&o, &norm2);
    linear(&gate_up, &normed, &w_gate_up, 2 * INTER, HIDDEN);
    rfg_tensor ta = rows(&act, B, INTER), tg = rows(&gate_up, B, 2 * INTER);
    CHECK(rfg_op_act_and_mul(ctx, &ta, &tg, NULL, stream)); /* silu */
    linear(&o, &act, &w_down, HIDDEN, INTER);
    add_norm(&o, &norm3);
    linear(&logits, &normed, &head, VOCAB, HIDDEN);
    CHECK(rfg_op_argmax(ctx, &ids, &tl, stream));
}

static rfg_graph *capture(void (*what)(void))
{
    rfg_graph *graph;
    CHECK(rfg_stream_begin_capture(ctx, stream));
    what();
    CHECK(rfg_stream_end_capture(ctx, stream, &graph));
    return graph;
}

/* ---- the model in double ------------------------------------------------------------------------------------- */

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

/* Where key `at` of a sequence is in the cache, in elements. */
static size_t cache_row(int b, int at)
{
    const int32_t *table = block_table.host;
    return ((size_t)table[b * BLOCKS + at / PAGE] * PAGE + (size_t)(at % PAGE)) * HKV * D;
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

/* The new token of each sequence goes behind its last one; into a new block, if that one is full. */
static void ref_advance(void)
{
    int32_t *lens = kv_lens.host, *table = block_table.host, *left = spare_count.host;
    for (int b = 0; b < B; b++, lens++)
        if ((*lens)++ % PAGE == 0)
            table[b * BLOCKS + *lens / PAGE] = ((int32_t *)spare.host)[--*left];
}

/* Pairs (i, i + D / 2) of a head turn by the position's angles; NeoX. */
static void ref_rotate(double *head, int position)
{
    for (int i = 0; i < D / 2; i++) {
        double angle = position * pow(10000, -2.0 * i / D), x = head[i], y = head[i + D / 2];
        head[i] = rounded(x * cos(angle) - y * sin(angle));
        head[i + D / 2] = rounded(y * cos(angle) + x * sin(angle));
    }
}

static void ref_rope_append(double *in)
{
    const int32_t *lens = kv_lens.host;
    for (int b = 0; b < B; b++) {
        for (int h = 0; h < HQ + HKV; h++)
            ref_rotate(in + b * QKV + h * D, lens[b] - 1);
        for (int i = 0; i < HKV * D; i++) {
            size_t at = cache_row(b, lens[b] - 1) + (size_t)i;
            ((bf16 *)k_cache.host)[at] = to_bf16(in[b * QKV + HQ * D + i]);
            ((bf16 *)v_cache.host)[at] = to_bf16(in[b * QKV + (HQ + HKV) * D + i]);
        }
    }
}

static void ref_step(double *want)
{
    static double in[B * HIDDEN], res[B * HIDDEN], h[B * HIDDEN], proj[B * QKV], a[B * HQ * D], gu[B * 2 * INTER],
        mlp[B * INTER];
    const int32_t *ids = tokens.host;
    ref_advance();
    for (int i = 0; i < B * HIDDEN; i++) {
        in[i] = to_double(((bf16 *)embedding.host)[ids[i / HIDDEN] * HIDDEN + i % HIDDEN]);
        res[i] = 0;
    }
    ref_add_norm(h, res, in, &norm1);
    ref_linear(proj, h, &w_qkv, QKV, HIDDEN);
    ref_rope_append(proj);
    ref_attention(a, proj);
    ref_linear(in, a, &w_o, HIDDEN, HQ * D);
    ref_add_norm(h, res, in, &norm2);
    ref_linear(gu, h, &w_gate_up, 2 * INTER, HIDDEN);
    for (int m = 0; m < B; m++)
        for (int i = 0; i < INTER; i++) {
            double g = gu[m * 2 * INTER + i];
            mlp[m * INTER + i] = rounded(g / (1 + exp(-g)) * gu[m * 2 * INTER + INTER + i]);
        }
    ref_linear(in, mlp, &w_down, HIDDEN, INTER);
    ref_add_norm(h, res, in, &norm3);
    ref_linear(want, h, &head, VOCAB, HIDDEN);
}

/* The largest difference of the logits by the largest value: values that were rounded on the way differ by an ulp here
 * and there. The next tokens are the device's, each the largest of its logits. */
static int compare(int at, const char *how)
{
    static double want[B * VOCAB];
    static bf16 got[B * VOCAB];
    int32_t *ids = tokens.host;
    double most = 0, differs = 0;
    ref_step(want);
    CHECK(rfg_device_copy(ctx, got, logits.device, sizeof(got), RFG_DEVICE_TO_HOST, stream));
    CHECK(rfg_device_copy(ctx, ids, tokens.device, tokens.bytes, RFG_DEVICE_TO_HOST, stream));
    CHECK(rfg_stream_sync(ctx, stream));
    for (int i = 0; i < B * VOCAB; i++) {
        double d = fabs(to_double(got[i]) - want[i]);
        most = fmax(most, fabs(want[i]));
        differs = d > differs || isnan(d) ? d : differs;
    }
    int right = differs <= 0.01 * most;
    for (int b = 0; b < B; b++)
        for (int i = 0; i < VOCAB; i++)
            right &=
                ids[b] >= 0 && ids[b] < VOCAB && to_double(got[b * VOCAB + i]) <= to_double(got[b * VOCAB + ids[b]]);
    printf("step %d, %s: tokens %d %d %d %d, %s (largest difference %.3g, largest value %.3g)\n", at, how, ids[0],
           ids[1], ids[2], ids[3], right ? "right" : "WRONG", differs, most);
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
    rfg_context_params params = { .size = sizeof(params), .device = argc > 1 ? argv[1] : NULL };
    CHECK(rfg_context_create(&ctx, &params));
    CHECK(rfg_stream_create(ctx, &stream));
    void *workspace = alloc_device(rfg_workspace_size(ctx));
    CHECK(rfg_stream_set_workspace(ctx, stream, workspace, rfg_workspace_size(ctx)));
    make_all();

    /* For any number of sequences: no call of this GEMM compiles any more. The others do in the first step. */
    char problem[100];
    snprintf(problem, sizeof(problem), "gemm bf16,bf16->bf16 M=1..%d N=%d K=%d", B, QKV, HIDDEN);
    CHECK(rfg_prepare(ctx, problem));

    step();
    right &= compare(0, "called");
    rfg_graph *graph = capture(step);
    for (int at = 1; at < STEPS; at++) {
        CHECK(rfg_graph_replay(ctx, graph, stream));
        right &= compare(at, "replayed");
    }

    CHECK(rfg_graph_destroy(ctx, &graph));
    CHECK(rfg_stream_destroy(ctx, &stream));
    drop_all();
    CHECK(rfg_device_free(ctx, workspace));
    printf("%s: %s\n", rfg_context_device(ctx), right ? "right" : "WRONG");
    rfg_context_destroy(&ctx);
    return !right;
}
