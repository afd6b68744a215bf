/* SPDX-License-Identifier: MIT
 *
 * rfg_op_moe, on the cpu and on the devices of $RFG_TEST_DEVICES: whole mixtures of experts against sums in double
 * precision; one captured graph with several loads; the same bits every time, and where few tokens are summed by the
 * second product's launch, as apart; and what it refuses. Its operators' own tests have special values and strides. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "moe_case.h"

START_TEST(right_mixtures)
{
    const char *device = op_device(_i);
    rfg_context *ctx = op_context(device);
    int every = getenv("RFG_TEST_FEW") ? 3 : 1;
    for (int i = 0; i < n_forms; i += every) {
        struct call c;
        new_call(&c, &forms[i], ctx, op_seed() + (uint64_t)i);
        float *before = zeroed(c.y.bytes), *first = zeroed(c.y.bytes);
        for (int again = 0; again < 2; again++) {
            memcpy(before, memset(c.y.host, 0x5a, c.y.bytes), c.y.bytes);
            upload(ctx, &c.y);
            ck_assert(rfg_device_memset(ctx, c.p.workspace, again ? 0xff : 0x7f, c.p.workspace_bytes, NULL) == RFG_OK);
            run(&c, ctx, NULL);
            download(ctx, &c.y);
            expect(&c, before);
            if (again)
                ck_assert_msg(!memcmp(first, c.y.host, c.y.bytes), "%s: other bits", forms[i].what);
            memcpy(first, c.y.host, c.y.bytes);
        }
        if (forms[i].rounding) { /* another one gives other bits */
            c.p.rounding = 0;
            run(&c, ctx, NULL);
            download(ctx, &c.y);
            ck_assert_msg(memcmp(first, c.y.host, c.y.bytes) != 0, "%s: the same bits", forms[i].what);
        }
        free(before);
        free(first);
        end_call(&c, ctx);
    }
    printf("mixtures of experts on %s: %d forms right\n", device, (n_forms + every - 1) / every);
    rfg_context_destroy(&ctx);
}
END_TEST

/* One graph serves any number of tokens, and any experts. */
START_TEST(graph_of_any_load)
{
    static const struct form form = { "graph",         RFG_BF16,     RFG_BF16,     0,          0, 0, RFG_ACT_SILU,
                                      .bounded = true, .experts = 4, .hidden = 64, .inner = 32 };
    rfg_context *ctx = op_context(op_device(_i));
    struct call c;
    rfg_stream stream;
    rfg_graph *graph;
    uint64_t seed = op_seed();
    new_call(&c, &form, ctx, seed);
    ck_assert_msg(rfg_stream_create(ctx, &stream) == RFG_OK, "%s", rfg_last_error());
    run(&c, ctx, stream); /* what is compiled at the first call can't be in a capture */
    ck_assert_msg(rfg_stream_begin_capture(ctx, stream) == RFG_OK, "%s", rfg_last_error());
    run(&c, ctx, stream);
    ck_assert_msg(rfg_stream_end_capture(ctx, stream, &graph) == RFG_OK, "%s", rfg_last_error());
    static const int loads[] = { 0, 1, 6, 3, -5, 1000 };
    for (int i = 0; i < COUNT(loads); i++) {
        float before[6 * 64];
        *(int32_t *)c.tokens.host = loads[i];
        for (int k = 0; k < n_tokens * n_slots; k++)
            ((int32_t *)c.ids.host)[k] = i == 2 ? 3 : (int32_t)(rfg_random(&seed) % 4);
        memcpy(before, memset(c.y.host, 0x5a, c.y.bytes), c.y.bytes);
        upload(ctx, &c.y);
        upload(ctx, &c.ids);
        upload(ctx, &c.tokens);
        ck_assert_msg(rfg_graph_replay(ctx, graph, stream) == RFG_OK && rfg_stream_sync(ctx, stream) == RFG_OK, "%s",
                      rfg_last_error());
        download(ctx, &c.y);
        expect(&c, before);
    }
    rfg_graph_destroy(ctx, &graph);
    ck_assert(rfg_stream_destroy(ctx, &stream) == RFG_OK);
    end_call(&c, ctx);
    rfg_context_destroy(&ctx);
}
END_TEST

/* On an emulated GPU gemm_stream_mma is the only product there is. */
static rfg_context *stream_context(const char *device, bool invariant)
{
    rfg_context *ctx;
    rfg_context_params p = { .size = sizeof(p), .device = device, .user_db = "", .system_db = "" };
    p.batch_invariant = invariant;
    p.variants = strncmp(device, "emu:", 4) == 0 ? "gemm_stream_mma" : NULL;
    ck_assert_msg(rfg_context_create(&ctx, &p) == RFG_OK, "%s: %s", device, rfg_last_error());
    return ctx;
}

/* Has the device that kernel? */
static bool has_stream(rfg_context *ctx)
{
    struct rfg_problem prob = op_problem("gemm bf16,bf16->f32 M=16 N=64 K=64 experts=4");
    return rfg_variant_supports(&gemm_stream_mma, rfg_context_info(ctx), &prob, NULL);
}

/* The operators of rfg_op_moe(), of a form without codes, to c->y. */
static void run_apart(struct call *c, rfg_context *ctx)
{
    const struct form *f = c->f;
    int64_t pairs = n_tokens * n_slots;
    struct matrix offsets = new_matrix(ctx, RFG_I32, 1, f->experts + 1), rows = new_matrix(ctx, RFG_I32, 1, pairs);
    struct matrix sorted = new_matrix(ctx, RFG_F32, 1, pairs), places = new_matrix(ctx, RFG_I32, n_tokens, n_slots);
    struct matrix h = new_matrix(ctx, f->x, pairs, f->inner), out = new_matrix(ctx, RFG_F32, pairs, f->hidden);
    struct matrix *all[] = { &offsets, &rows, &sorted, &places, &h, &out };
    rfg_moe_align_params a = RFG_MOE_ALIGN_PARAMS_INIT;
    rfg_gemm_params first = RFG_GEMM_PARAMS_INIT, second = first;
    rfg_moe_sum_params sum = RFG_MOE_SUM_PARAMS_INIT;
    for (int i = 0; i < 3; i++)
        all[i]->t = rfg_tensor_1d(all[i]->t.data, all[i]->t.dtype, all[i]->cols);
    a.experts = f->experts;
    a.offsets = first.offsets = second.offsets = &offsets.t;
    a.weights = &c->weights.t;
    a.weights_out = second.weights = &sorted.t;
    a.places = &places.t;
    a.expert_map = c->p.expert_map;
    a.tokens = sum.tokens = c->p.tokens;
    first.gated = 1;
    first.act = f->act;
    first.gates = c->p.gates;
    first.rows = &rows.t;
    sum.residual = c->p.residual;
    ck_assert_msg(rfg_op_moe_align(ctx, &rows.t, &c->ids.t, &a, NULL) == RFG_OK &&
                      rfg_op_gemm(ctx, &h.t, &c->x.t, &c->w1.t, &first, NULL) == RFG_OK &&
                      rfg_op_gemm(ctx, &out.t, &h.t, &c->w2.t, &second, NULL) == RFG_OK &&
                      rfg_op_moe_sum(ctx, &c->y.t, &out.t, &places.t, &sum, NULL) == RFG_OK,
                  "%s: %s", f->what, rfg_last_error());
    download(ctx, &c->y);
    for (int i = 0; i < COUNT(all); i++) {
        free(all[i]->host);
        free(all[i]->value);
        ck_assert(rfg_device_free(ctx, all[i]->t.data) == RFG_OK);
    }
}

/* Was the second product of so many pairs called that sums its rows? */
static bool sums(rfg_context *ctx, const struct form *f, int pairs, const char *more)
{
    char text[200];
    snprintf(text, sizeof(text), "gemm bf16,bf16->f32 M=%d N=%d K=%d experts=%d weights=1 slots=%d%s%s%s", pairs,
             (int)f->hidden, (int)f->inner, (int)f->experts, n_slots, f->residual ? " residual=1" : "",
             f->bounded ? " tokens=1" : "", more);
    struct rfg_problem prob = op_problem(text);
    return rfg_plan_find(ctx, &prob) != NULL;
}

/* On AMD GPUs few tokens are summed by the launch of the second product: the same bits. */
START_TEST(summed_as_apart)
{
    const char *device = op_device(_i);
    rfg_context *ctx = stream_context(device, false);
    for (int i = 1; i < 3; i++) {
        struct call c;
        new_call(&c, &forms[i], ctx, op_seed() + (uint64_t)i);
        float *together = zeroed(c.y.bytes);
        memset(c.y.host, 0x5a, c.y.bytes);
        upload(ctx, &c.y);
        run(&c, ctx, NULL);
        download(ctx, &c.y);
        memcpy(together, c.y.host, c.y.bytes);
        ck_assert_int_eq(sums(ctx, &forms[i], n_tokens * n_slots, ""), has_stream(ctx));
        memset(c.y.host, 0x5a, c.y.bytes);
        upload(ctx, &c.y);
        run_apart(&c, ctx);
        ck_assert_msg(!memcmp(together, c.y.host, c.y.bytes), "%s: other bits than apart", forms[i].what);
        free(together);
        end_call(&c, ctx);
    }
    rfg_context_destroy(&ctx);
}
END_TEST

/* With batch_invariant a token's bits are the same among few, which that launch sums, and among many,
 * which it doesn't. */
START_TEST(invariant_sums)
{
    rfg_context *ctx = stream_context(op_device(_i), true);
    int few = n_tokens;
    struct call c;
    n_tokens = 30;
    new_call(&c, &forms[1], ctx, op_seed());
    run(&c, ctx, NULL);
    download(ctx, &c.y);
    float *many = zeroed(c.y.bytes);
    memcpy(many, c.y.host, c.y.bytes);
    ck_assert(!sums(ctx, &forms[1], n_tokens * n_slots, " invariant=1"));
    c.x.t.shape[0] = c.y.t.shape[0] = c.ids.t.shape[0] = c.weights.t.shape[0] = few;
    run(&c, ctx, NULL);
    download(ctx, &c.y);
    ck_assert_int_eq(sums(ctx, &forms[1], few * n_slots, " invariant=1"), has_stream(ctx));
    ck_assert_msg(!memcmp(many, c.y.host, c.y.bytes), "other bits of %d tokens than of %d", few, n_tokens);
    free(many);
    end_call(&c, ctx);
    n_tokens = few;
    rfg_context_destroy(&ctx);
}
END_TEST

/* Of few pairs experts are found by their ids, in two launches, on GPUs: of a form that allows it. */
START_TEST(few_by_id)
{
    const char *device = op_device(_i);
    rfg_context *ctx = op_context(device);
    int tokens = n_tokens, by_id = 0, every = getenv("RFG_TEST_FEW") ? 3 : 1;
    n_tokens = 4;
    for (int i = 1; i < n_forms; i += every) {
        struct call c;
        rfg_stats before = RFG_STATS_INIT, after = RFG_STATS_INIT;
        new_call(&c, &forms[i], ctx, op_seed() + (uint64_t)i);
        float *was = zeroed(c.y.bytes);
        memcpy(was, memset(c.y.host, 0x5a, c.y.bytes), c.y.bytes);
        upload(ctx, &c.y);
        ck_assert(rfg_device_memset(ctx, c.p.workspace, 0x7f, c.p.workspace_bytes, NULL) == RFG_OK);
        rfg_context_stats(ctx, &before);
        run(&c, ctx, NULL);
        rfg_context_stats(ctx, &after);
        download(ctx, &c.y);
        expect(&c, was);
        bool whole = !forms[i].per || forms[i].codes == forms[i].x; /* x isn't quantised */
        bool may = strncmp(device, "cpu", 3) && whole && !forms[i].mapped && !forms[i].identity;
        ck_assert_msg(may || after.calls - before.calls > 2, "%s: %d launches", forms[i].what,
                      (int)(after.calls - before.calls));
        by_id += after.calls - before.calls == 2;
        free(was);
        end_call(&c, ctx);
    }
    ck_assert_int_eq(by_id > 1, strncmp(device, "cpu", 3) != 0);
    n_tokens = tokens;
    rfg_context_destroy(&ctx);
}
END_TEST

/* A form that rfg_op_moe() takes. Rows of h fit expect()'s array. */
static struct form draw(uint64_t *state)
{
    static const struct {
        rfg_dtype x, w, scale;
        rfg_gemm_scale per;
        double eps;
        rfg_dtype codes;
    } kinds[] = {
        { RFG_F32, RFG_F32, 0, 0, 0 },
        { RFG_BF16, RFG_BF16, 0, 0, 0 },
        { RFG_F16, RFG_F16, 0, 0, 0 },
        { RFG_BF16, RFG_E2M1, RFG_E8M0, 0, 0 },
        { RFG_F16, RFG_I4, RFG_F16, 0, 0 },
        { RFG_BF16, RFG_I4, RFG_BF16, 0, 0 },
        { RFG_BF16, RFG_E4M3, RFG_F32, RFG_GEMM_SCALE_BLOCK, 0x1p-4 },
        { RFG_BF16, RFG_E4M3, RFG_F32, RFG_GEMM_SCALE_ROW, 0x1p-4 },
        { RFG_F16, RFG_E4M3, RFG_F32, RFG_GEMM_SCALE_TENSOR, 0x1p-4 },
        { RFG_F16, RFG_I8, RFG_F32, RFG_GEMM_SCALE_ROW, 0x1p-6 },
        { RFG_BF16, RFG_E2M1, RFG_E8M0, RFG_GEMM_SCALE_GROUP, 0x1p-4, RFG_E4M3 },
        { RFG_F16, RFG_E2M1, RFG_E8M0, RFG_GEMM_SCALE_GROUP, 0x1p-2, 0 },
        { RFG_E2M1, RFG_E2M1, RFG_E8M0, RFG_GEMM_SCALE_GROUP, 0x1p-2, 0 },
        { RFG_E4M3, RFG_E2M1, RFG_E8M0, RFG_GEMM_SCALE_GROUP, 0x1p-4, 0 },
        { RFG_BF16, RFG_E4M3, RFG_E8M0, RFG_GEMM_SCALE_GROUP, 0x1p-4, 0 },
    };
    static const rfg_act acts[] = { RFG_ACT_SILU, RFG_ACT_GELU, RFG_ACT_SWIGLUOAI, RFG_ACT_SITU };
    static const int groups[] = { 32, 64 };
    uint64_t seed = *state;
    int kind = BELOW(COUNT(kinds)), step = 1;
    struct form f = { .what = "random", .x = kinds[kind].x, .w = kinds[kind].w, .scale = kinds[kind].scale };
    f.per = kinds[kind].per;
    f.eps = kinds[kind].eps;
    f.codes = kinds[kind].codes;
    if (f.w == RFG_E2M1 || f.w == RFG_I4 || f.per == RFG_GEMM_SCALE_GROUP)
        step = (int)(f.group = f.w != RFG_I4 ? 32 : ONE_OF(groups));
    f.act = ONE_OF(acts);
    f.halves = BELOW(2);
    f.weights_first = BELOW(4) == 0;
    f.bias = BELOW(3) == 0;
    f.mapped = BELOW(3) == 0;
    f.residual = BELOW(3) == 0;
    f.bounded = BELOW(3) == 0;
    f.limit = (float)(BELOW(2) * BELOW(9));
    f.identity = BELOW(3) ? 0 : 1 + BELOW(9);
    f.own = f.identity && (f.x != RFG_F32 || BELOW(2));
    f.experts = BELOW(5) ? 1 + BELOW(9) : 1 + BELOW(70);
    f.hidden = step * (1 + BELOW(BELOW(2) ? 160 / step : 40 / step + 1));
    f.inner = step * (1 + BELOW(BELOW(2) ? 150 / step : 40 / step + 1));
    n_tokens = 1 + BELOW(BELOW(3) ? 8 : 40);
    n_slots = 1 + BELOW(BELOW(4) ? 4 : 9);
    *state = seed;
    return f;
}

/* Experts as they were drawn, all tokens to one, few of them, or none that is here. */
static void reroute(struct call *c, rfg_context *ctx, int kind, uint64_t seed)
{
    int32_t global = (int32_t)(c->f->mapped ? c->map.cols : c->f->experts), one = BELOW(global);
    for (int i = 0; kind < 3 && i < n_tokens * n_slots; i++)
        ((int32_t *)c->ids.host)[i] = kind == 0 ? one : kind == 1 ? (one + i % 2) % global : i % 3 - 1 ? -1 : global;
    upload(ctx, &c->ids);
}

/* A third of $RFG_TEST_RANDOM. */
START_TEST(random_problems)
{
    rfg_context *ctx = op_context("cpu");
    uint64_t seed = op_seed();
    int wanted = op_random_problems() / 3;
    most_off = 5;
    for (int i = 0; i < wanted; i++) {
        char what[200];
        struct call c;
        uint64_t at = seed;
        struct form f = draw(&seed);
        snprintf(what, sizeof(what),
                 "problem %d of seed %" PRIu64 ": T=%d top=%d E=%d H=%d I=%d %s by %s per=%d group=%d act=%d halves=%d "
                 "first=%d bias=%d map=%d residual=%d bounded=%d limit=%g identity=%d own=%d",
                 i, at, n_tokens, n_slots, (int)f.experts, (int)f.hidden, (int)f.inner, rfg_dtype_name(f.x),
                 rfg_dtype_name(f.w), f.per, (int)f.group, f.act, f.halves, f.weights_first, f.bias, f.mapped,
                 f.residual, f.bounded, (double)f.limit, (int)f.identity, f.own);
        f.what = what;
        new_call(&c, &f, ctx, rfg_random(&seed));
        reroute(&c, ctx, BELOW(12), rfg_random(&seed));
        float *before = zeroed(c.y.bytes);
        memcpy(before, memset(c.y.host, 0x5a, c.y.bytes), c.y.bytes);
        upload(ctx, &c.y);
        run(&c, ctx, NULL);
        download(ctx, &c.y);
        expect(&c, before);
        free(before);
        end_call(&c, ctx);
    }
    printf("random mixtures of experts on cpu: %d right\n", wanted);
    rfg_context_destroy(&ctx);
}
END_TEST

/* One string prepares all that a mixture is made of: afterwards its call plans nothing. */
START_TEST(prepared_whole)
{
    for (int i = 0; i < n_forms; i++) {
        rfg_context *ctx = op_context(op_device(_i));
        rfg_stats before = RFG_STATS_INIT, after = RFG_STATS_INIT;
        char problems[RFG_DESCRIBE_MAX];
        struct call c;
        new_call(&c, &forms[i], ctx, 3);
        ck_assert_msg(rfg_describe_begin(ctx, problems, sizeof(problems)) == RFG_OK, "%s", rfg_last_error());
        run(&c, ctx, NULL);
        rfg_describe_end(ctx);
        ck_assert_msg(rfg_prepare(ctx, problems) == RFG_OK, "%s: %s", forms[i].what, rfg_last_error());
        rfg_context_stats(ctx, &before);
        run(&c, ctx, NULL);
        rfg_context_stats(ctx, &after);
        ck_assert_msg(after.plans == before.plans, "%s: not all of it is in\n%s", forms[i].what, problems);
        end_call(&c, ctx);
        rfg_context_destroy(&ctx);
    }
}
END_TEST

int main(void)
{
    return op_main(
        "moe", OP_TESTS(right_mixtures, prepared_whole, graph_of_any_load, summed_as_apart, invariant_sums, few_by_id),
        OP_TESTS(random_problems));
}
