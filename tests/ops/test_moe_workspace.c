/* SPDX-License-Identifier: MIT
 *
 * rfg_op_moe in the stream's workspace: the bits of the caller's, in and out of graphs, by several threads; what it
 * takes beyond rfg_workspace_size() of memory that was given; and what is refused. */
#include <pthread.h>

#include "tests/op_cases.h"
#include "rfg/rfg.h"

enum { MOST = 40, K = 2, E = 4, H = 32, I = 24 };

#define RIGHT(call) ck_assert_msg((call) == RFG_OK, "%s", rfg_last_error())

/* Tensors of one call of up to MOST tokens, on the device. */
struct call {
    rfg_context *ctx;
    char *memory;
    rfg_tensor y, x, w1, w2, ids, weights;
};

static float noise(int i, int seed)
{
    return (float)((i * 37 + seed * 101) % 64 - 32) / 64;
}

static void new_call(struct call *c, rfg_context *ctx, int seed)
{
    enum { X = MOST * H, W1 = E * 2 * I * H, W2 = E * H * I, IDS = MOST * K, ALL = 2 * X + W1 + W2 + 2 * IDS };
    static float host[ALL];
    float *at = host + X;
    for (int i = 0; i < ALL; i++)
        host[i] = noise(i, seed);
    for (int i = 0; i < IDS; i++)
        ((int32_t *)host)[ALL - IDS + i] = (i * 7 + seed) % E;
    c->ctx = ctx;
    RIGHT(rfg_device_alloc(ctx, (void **)&c->memory, sizeof(host)));
    RIGHT(rfg_device_copy(ctx, c->memory, host, sizeof(host), RFG_HOST_TO_DEVICE, NULL));
    RIGHT(rfg_stream_sync(ctx, NULL));
    float *device = (float *)c->memory;
    at = device;
    c->y = rfg_tensor_2d(at, RFG_F32, MOST, H, H);
    c->x = rfg_tensor_2d(at += X, RFG_F32, MOST, H, H);
    c->w1 = rfg_tensor_nd(at += X, RFG_F32, 3, (const int64_t[]){ E, 2 * I, H });
    c->w2 = rfg_tensor_nd(at += W1, RFG_F32, 3, (const int64_t[]){ E, H, I });
    c->weights = rfg_tensor_2d(at += W2, RFG_F32, MOST, K, K);
    c->ids = rfg_tensor_2d(at + IDS, RFG_I32, MOST, K, K);
}

static rfg_status call(struct call *c, int64_t tokens, const rfg_moe_params *p, rfg_stream stream)
{
    rfg_tensor *rows[] = { &c->y, &c->x, &c->ids, &c->weights };
    for (int i = 0; i < 4; i++)
        rows[i]->shape[0] = tokens;
    return rfg_op_moe(c->ctx, &c->y, &c->x, &c->w1, &c->w2, &c->ids, &c->weights, p, stream);
}

/* y's first rows, which are overwritten on the device. */
static void take(struct call *c, float *y, int64_t tokens, rfg_stream stream)
{
    RIGHT(rfg_device_copy(c->ctx, y, c->y.data, (size_t)(tokens * H) * 4, RFG_DEVICE_TO_HOST, stream));
    RIGHT(rfg_device_memset(c->ctx, c->y.data, 0x77, (size_t)(tokens * H) * 4, stream));
    RIGHT(rfg_stream_sync(c->ctx, stream));
}

/* What it is in a workspace of the caller's. */
static size_t want(struct call *c, float *y, int64_t tokens)
{
    rfg_moe_params p = RFG_MOE_PARAMS_INIT;
    c->y.shape[0] = c->x.shape[0] = c->ids.shape[0] = c->weights.shape[0] = tokens;
    RIGHT(rfg_moe_workspace_bytes(&c->y, &c->x, &c->w1, &c->w2, &c->ids, &c->weights, &p, &p.workspace_bytes));
    RIGHT(rfg_device_alloc(c->ctx, &p.workspace, p.workspace_bytes));
    RIGHT(call(c, tokens, &p, NULL));
    take(c, y, tokens, NULL);
    RIGHT(rfg_device_free(c->ctx, p.workspace));
    return p.workspace_bytes;
}

static void expect(struct call *c, const float *y, int64_t tokens, rfg_stream stream, const char *what)
{
    float got[MOST * H];
    take(c, got, tokens, stream);
    ck_assert_msg(!memcmp(got, y, (size_t)(tokens * H) * 4), "%s: other bits", what);
}

START_TEST(same_bits)
{
    static float few[MOST * H], many[MOST * H];
    rfg_context *ctx = op_context(op_device(_i));
    struct call c;
    rfg_stream stream;
    rfg_graph *graph;
    new_call(&c, ctx, 1);
    want(&c, few, 3);
    want(&c, many, MOST);
    ck_assert(few[0] != 0 && many[MOST * H - 1] != 0);
    RIGHT(call(&c, 3, NULL, NULL));
    expect(&c, few, 3, NULL, "few tokens");
    RIGHT(rfg_stream_create(ctx, &stream));
    RIGHT(rfg_stream_begin_capture(ctx, stream)); /* kernels are loaded, but the stream has no memory yet */
    ck_assert_int_eq(call(&c, 3, NULL, stream), RFG_ERROR_NOT_READY);
    ck_assert_ptr_nonnull(strstr(rfg_last_error(), "is being captured, has 0 bytes for it"));
    RIGHT(rfg_stream_end_capture(ctx, stream, &graph));
    RIGHT(rfg_graph_destroy(ctx, &graph));
    RIGHT(call(&c, 3, NULL, stream));
    expect(&c, few, 3, stream, "another stream");
    RIGHT(rfg_stream_begin_capture(ctx, stream));
    RIGHT(call(&c, 3, NULL, stream));
    ck_assert_int_eq(call(&c, MOST, NULL, stream), RFG_ERROR_NOT_READY);
    RIGHT(rfg_stream_end_capture(ctx, stream, &graph));
    for (int i = 0; i < 3; i++) { /* the graph's memory stays when a call needs more */
        RIGHT(call(&c, MOST, NULL, stream));
        expect(&c, many, MOST, stream, "many tokens");
        RIGHT(rfg_graph_replay(ctx, graph, stream));
        expect(&c, few, 3, stream, "a replay");
    }
    RIGHT(rfg_graph_destroy(ctx, &graph));
    RIGHT(rfg_stream_destroy(ctx, &stream));
    RIGHT(rfg_device_free(ctx, c.memory));
    rfg_context_destroy(&ctx);
}
END_TEST

/* Pairs that the caller has sorted: the same bits as those that are sorted here; and all four tensors or none. */
START_TEST(sorted_before)
{
    static float y[MOST * H];
    rfg_context *ctx = op_context(op_device(_i));
    struct call c;
    char *memory;
    new_call(&c, ctx, 3);
    want(&c, y, MOST);
    RIGHT(rfg_device_alloc(ctx, (void **)&memory, (3 * MOST * K + E + 1) * 4));
    rfg_tensor rows = rfg_tensor_1d(memory, RFG_I32, MOST * K),
               sorted = rfg_tensor_1d(memory + MOST * K * 4, RFG_F32, MOST * K),
               places = rfg_tensor_2d(memory + 2 * MOST * K * 4, RFG_I32, MOST, K, K),
               offsets = rfg_tensor_1d(memory + 3 * MOST * K * 4, RFG_I32, E + 1);
    const rfg_moe_align_params a = { .size = sizeof(a),
                                     .experts = E,
                                     .offsets = &offsets,
                                     .weights_out = &sorted,
                                     .places = &places,
                                     .weights = &c.weights };
    RIGHT(rfg_op_moe_align(ctx, &rows, &c.ids, &a, NULL));
    const rfg_moe_params all = { sizeof(all), .rows = &rows, .offsets = &offsets, .sorted = &sorted,
                                 .places = &places };
    RIGHT(call(&c, MOST, &all, NULL));
    expect(&c, y, MOST, NULL, "sorted before");
    rfg_moe_params some[] = { all, all, all, all };
    some[0].rows = some[1].offsets = some[2].sorted = some[3].places = NULL;
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(call(&c, MOST, &some[i], NULL), RFG_ERROR_INVALID_ARGUMENT);
        ck_assert_msg(strstr(rfg_last_error(), "rows, offsets, sorted and places go together") != NULL, "%s",
                      rfg_last_error());
    }
    RIGHT(rfg_device_free(ctx, memory));
    RIGHT(rfg_device_free(ctx, c.memory));
    rfg_context_destroy(&ctx);
}
END_TEST

/* What rfg_stream_set_workspace() gave beyond rfg_workspace_size(), and no byte more. */
START_TEST(given)
{
    static float y[MOST * H];
    rfg_context *ctx = op_context(op_device(_i));
    struct call c;
    rfg_stream stream;
    new_call(&c, ctx, 2);
    size_t bytes = want(&c, y, MOST), size = rfg_workspace_size(ctx);
    char *memory, guard[256], pattern[256];
    RIGHT(rfg_stream_create(ctx, &stream));
    RIGHT(rfg_device_alloc(ctx, (void **)&memory, size + bytes + sizeof(guard)));
    RIGHT(rfg_device_memset(ctx, memory + size, 0x33, bytes + sizeof(guard), stream));
    RIGHT(rfg_stream_set_workspace(ctx, stream, memory, size + bytes - 1));
    ck_assert_int_eq(call(&c, MOST, NULL, stream), RFG_ERROR_INVALID_ARGUMENT);
    char words[200];
    snprintf(words, sizeof(words), "%zu bytes beyond rfg_workspace_size(): must be at least %zu", bytes - 1, bytes);
    ck_assert_msg(strstr(rfg_last_error(), words) != NULL, "%s", rfg_last_error());
    RIGHT(rfg_stream_set_workspace(ctx, stream, memory, size + bytes));
    RIGHT(call(&c, MOST, NULL, stream));
    expect(&c, y, MOST, stream, "given memory");
    memset(pattern, 0x33, sizeof(pattern));
    RIGHT(rfg_device_copy(ctx, guard, memory + size + bytes, sizeof(guard), RFG_DEVICE_TO_HOST, stream));
    RIGHT(rfg_stream_sync(ctx, stream));
    ck_assert_mem_eq(guard, pattern, sizeof(guard));
    RIGHT(rfg_device_copy(ctx, guard, memory + size, sizeof(guard), RFG_DEVICE_TO_HOST, stream));
    RIGHT(rfg_stream_sync(ctx, stream));
    ck_assert_msg(memcmp(guard, pattern, sizeof(guard)) != 0, "it worked elsewhere");
    RIGHT(rfg_stream_set_workspace(ctx, stream, NULL, 0));
    RIGHT(rfg_device_free(ctx, memory));
    RIGHT(call(&c, MOST, NULL, stream)); /* allocated again */
    expect(&c, y, MOST, stream, "memory that was given back");
    rfg_moe_params p = { .size = sizeof(p), .workspace_bytes = bytes };
    op_refused(call(&c, MOST, &p, stream), "or NULL and 0");
    rfg_tensor *const weights[] = { &c.w1, &c.w2 };
    for (int i = 0; i < 2; i++) {
        rfg_tensor was = *weights[i];
        *weights[i] = rfg_tensor_nd(was.data, RFG_F32, 5, (const int64_t[]){ E, 1, 4, 16, 7 });
        op_refused(call(&c, MOST, NULL, stream), i ? "w2 is 4 x 1 x 4" : "w1 is 4 x 1 x 4");
        *weights[i] = was;
    }
    char text[RFG_DESCRIBE_MAX];
    RIGHT(rfg_describe_begin(ctx, text, sizeof(text)));
    RIGHT(call(&c, MOST, NULL, stream));
    rfg_describe_end(ctx);
    ck_assert_ptr_nonnull(strstr(text, "moe_align "));
    RIGHT(rfg_stream_destroy(ctx, &stream));
    RIGHT(rfg_device_free(ctx, c.memory));
    rfg_context_destroy(&ctx);
}
END_TEST

struct worker {
    struct call c;
    float y[MOST * H];
    int wrong;
};

static void *work(void *arg)
{
    struct worker *w = arg;
    float got[MOST * H];
    for (int i = 0; i < 40; i++) {
        int64_t tokens = 1 + (i * 13) % MOST;
        if (call(&w->c, tokens, NULL, NULL) != RFG_OK)
            w->wrong++;
        memcpy(got, w->c.y.data, sizeof(got));
        w->wrong += memcmp(got, w->y, (size_t)(tokens * H) * 4) != 0;
    }
    return NULL;
}

/* On cpu all threads share the default stream. */
START_TEST(threads)
{
    static struct worker w[3];
    pthread_t thread[3];
    rfg_context *ctx = op_context("cpu");
    for (int i = 0; i < 3; i++) {
        new_call(&w[i].c, ctx, 3 + i);
        want(&w[i].c, w[i].y, MOST);
    }
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(pthread_create(&thread[i], NULL, work, &w[i]), 0);
    for (int i = 0; i < 3; i++) {
        pthread_join(thread[i], NULL);
        ck_assert_int_eq(w[i].wrong, 0);
        RIGHT(rfg_device_free(ctx, w[i].c.memory));
    }
    rfg_context_destroy(&ctx);
}
END_TEST

int main(void)
{
    return op_main("moe_workspace", OP_TESTS(same_bits, sorted_before, given), OP_TESTS(threads));
}
