/* SPDX-License-Identifier: MIT
 *
 * examples/decoder: tiny models of each family, in files that the test writes, against the same model in double, in
 * plain loops, without a cache. */
#include <math.h>

#include "decoder_model.h"
#include "examples/decoder/decoder.h"
#include "base/util.h"
#include "tests/program.h"
#include "tests/suite.h"

/* $RFG_TEST_DEVICES, one after the other; cpu. */
static const char *device(int i)
{
    static char list[512], *at[8];
    const char *env = getenv("RFG_TEST_DEVICES");
    int n = 0;
    snprintf(list, sizeof(list), "%s", env && *env ? env : "cpu");
    for (char *s = strtok(list, ","); s && n < 8; s = strtok(NULL, ","))
        at[n++] = s;
    return i < n ? at[i] : NULL;
}

struct rig {
    rfg_context *ctx;
    struct model *m;
};

static struct rig open_rig(const char *name, const char *folder, int64_t context)
{
    struct rig r;
    struct config c;
    config_read(&c, folder);
    struct weights *w = weights_open(folder);
    rfg_context_params p = { .size = sizeof(p), .device = name };
    ck_assert_msg(rfg_context_create(&r.ctx, &p) == RFG_OK, "%s: %s", name, rfg_last_error());
    r.m = model_create(r.ctx, &c, w, context);
    weights_close(w);
    return r;
}

static void close_rig(struct rig *r)
{
    model_destroy(r->ctx, &r->m);
    rfg_context_destroy(&r->ctx);
}

static const int32_t words[] = { 3, 77, 12, 200, 5, 5, 131, 90, 41, 8, 255, 0, 17, 66, 123, 9, 31, 240, 2, 54 };
enum {
    WORDS = sizeof(words) / sizeof(words[0]),
    CONTEXT = TINY_CONTEXT,
    ROW = 1,
    COLUMNS = (CONTEXT + PAGE - 1) / PAGE
};

/* ---- against the reference --------------------------------------------------------------------------------------- */

/* Ten roundings a layer to the model's dtype, each off by up to half an ulp (rms: about a fourth of one), or, where rows
 * are quantised, six to e4m3, off by 2.5 % (rms), that add up at random. The model makes them grow, by attention's exponentials and
 * sums that cancel, by t->grows: measured, the worst token of both cpu and gfx942, and the same in bf16 as in f16
 * (where all is an eighth). Other orders of summation move it by up to a fifth; 1.3 times are allowed. */
static double allowed(const struct tiny *t, bool quantised)
{
    double roundings = quantised ? 0.025 * sqrt(6.0 * t->layers) : (t->f16 ? 0x1p-12 : 0x1p-9) * sqrt(10.0 * t->layers);
    return 1.3 * (quantised ? t->grows_quantised : t->grows) * roundings;
}

static void expect_logits(const struct tiny *t, bool quantised, const char *what, int64_t at, const float *got,
                          const double *want)
{
    double d = 0, all = 0;
    for (int i = 0; i < TINY_VOCAB; i++) {
        d += (got[i] - want[i]) * (got[i] - want[i]);
        all += want[i] * want[i];
    }
    ck_assert_msg(sqrt(d / all) <= allowed(t, quantised),
                  "%s %s, token %d: rms of the difference is %.4g of the logits': %.4g allowed", t->name, what, (int)at,
                  sqrt(d / all), allowed(t, quantised));
}

/* Sets the next decode step to one token of the sequence in row ROW; nobody is in the others. */
static void set_rows(struct engine *e, const int32_t *table, int64_t keys, int32_t token)
{
    struct rows *r = engine_next_rows(e);
    memcpy(r->table + ROW * COLUMNS, table, COLUMNS * sizeof(*table));
    e->table_changed = true;
    r->slots[ROW] = cache_slot(table, keys);
    r->positions[ROW] = (int32_t)keys;
    r->lens[ROW] = (int32_t)keys + 1;
    CHECK(rfg_device_copy(e->ctx, e->next + ROW, &token, sizeof(token), RFG_HOST_TO_DEVICE, e->stream));
    CHECK(rfg_stream_sync(e->ctx, e->stream));
}

/* Prompts through the layers in chunks, then token by token; with all the ways a step can be made. */
START_TEST(like_the_reference)
{
    const struct tiny *t = &tiny_models[_i];
    static double want[WORDS][TINY_VOCAB];
    float got[TINY_VOCAB];
    tiny_write(t, "model");
    tiny_margin = INFINITY;
    tiny_reference(t, words, WORDS, &want[0][0]);
    ck_assert_msg(tiny_margin > 0.03, "%s: a choice of experts is as near as %g: roundings may change it", t->name,
                  tiny_margin);
    const char *name;
    for (int d = 0; (name = device(d)); d++) {
        struct rig r = open_rig(name, "model", CONTEXT);
        for (int way = 0; way < (strcmp(name, "cpu") ? 2 : 4); way++) {
            bool quantised = way < 2 && t->fp8 && t->hidden % 128 == 0; /* the other's experts are too near */
            struct engine_params p = { .batch = 3,
                                       .context = CONTEXT,
                                       .chunk = way % 2 ? 8 : 32,
                                       .separate = way == 1 || way == 2,
                                       .unfused = way == 1 || way == 2,
                                       .plain_gemms = way >= 2,
                                       .gate = way == 0 ? 8 : 0,
                                       .expand = way == 1 || way == 2 ? 4 : 0, /* with parts of 5 keys, and whole */
                                       .expand_keys = 5,
                                       .quantise = quantised ? 4 : 0 };
            struct engine *e = engine_create(r.ctx, r.m, &p);
            int32_t table[COLUMNS], gap[COLUMNS];
            ck_assert(cache_take(&e->cache, gap, PAGE)); /* so that blocks aren't those of the row */
            ck_assert(cache_take(&e->cache, table, CONTEXT));
            int64_t prompt = 13, at = 0;
            for (int64_t n; at < prompt; at += n) {
                n = prompt - at < p.chunk ? prompt - at : p.chunk;
                engine_prefill(e, ROW, words + at, n, at, at + n == prompt, table);
            }
            engine_logits(e, ROW, got);
            expect_logits(t, quantised, "prefill", prompt - 1, got, want[prompt - 1]);
            int best = 0;
            for (int i = 0; i < TINY_VOCAB; i++)
                best = got[i] > got[best] ? i : best;
            ck_assert_int_eq(engine_tokens(e)[ROW], best);
            for (; at < WORDS; at++) {
                set_rows(e, table, at, words[at]);
                engine_decode(e);
                engine_logits(e, ROW, got);
                expect_logits(t, quantised, "decode", at, got, want[at]);
            }
            engine_destroy(&e);
        }
        close_rig(&r);
    }
}
END_TEST

/* Between them they have what a step can be made of. $RFG_TEST_FEW (an emulated GPU, which must compile each one's
 * kernels): these. */
static bool is_one_of_few(const struct tiny *t)
{
    static const char *const few[] = { "phi3", "gemma4", "qwen3.5", "gpt-oss, prepacked", "deepseek", "deepseek-fp8" };
    bool is = false;
    for (size_t i = 0; i < sizeof(few) / sizeof(few[0]); i++)
        is |= !strcmp(t->name, few[i]);
    return is;
}

/* A replay has the bits of the step called kernel by kernel, at lengths and pages that the capture never saw. */
START_TEST(graph_is_the_step)
{
    enum { STEPS = 4 };
    const struct tiny *t = &tiny_models[_i];
    static float eager[STEPS][TINY_VOCAB];
    float got[TINY_VOCAB];
    if (getenv("RFG_TEST_FEW") && !is_one_of_few(t))
        return;
    tiny_write(t, "model");
    const char *name;
    for (int d = 0; (name = device(d)); d++) {
        struct rig r = open_rig(name, "model", CONTEXT);
        struct engine_params p = { .batch = 2, .context = CONTEXT, .chunk = 32 };
        struct engine *e = engine_create(r.ctx, r.m, &p);
        int32_t tables[2][COLUMNS];
        for (int captured = 0; captured < 2; captured++) { /* the second time in other blocks */
            ck_assert(cache_take(&e->cache, tables[captured], CONTEXT));
            engine_prefill(e, ROW, words, 14, 0, true, tables[captured]);
            for (int i = 0; i < STEPS; i++) { /* 14 to 18 keys: a block more on the way */
                set_rows(e, tables[captured], 14 + i, words[14 + i]);
                engine_decode(e);
                engine_logits(e, ROW, captured ? got : eager[i]);
                ck_assert_msg(!captured || !memcmp(got, eager[i], sizeof(got)), "%s on %s: replay %d has other bits",
                              t->name, name, i);
            }
            if (!captured) { /* another sequence takes the blocks: who still reads them, reads that */
                engine_prefill(e, ROW, words + 1, 18, 0, true, tables[0]);
                engine_capture(e);
            }
        }
        engine_destroy(&e);
        close_rig(&r);
    }
}
END_TEST

enum { LOADS = 4 };

/* One token of the first `live` rows but row 0, which nobody has then: the prompt's last one again. */
static void set_load(struct engine *e, int32_t tables[LOADS][COLUMNS], int live)
{
    int32_t tokens[LOADS];
    struct rows *r = engine_next_rows(e);
    for (int b = 0; b < LOADS; b++) {
        bool there = b < live && (live == LOADS || b > 0);
        memcpy(r->table + b * COLUMNS, tables[b], sizeof(tables[b]));
        r->slots[b] = there ? cache_slot(tables[b], 9 + b) : -1;
        r->positions[b] = there ? 9 + b : 0;
        r->lens[b] = there ? 10 + b : 0;
        tokens[b] = words[9 + b];
    }
    e->table_changed = true;
    CHECK(rfg_device_copy(e->ctx, e->next, tokens, sizeof(tokens), RFG_HOST_TO_DEVICE, e->stream));
    CHECK(rfg_stream_sync(e->ctx, e->stream));
}

/* One graph, captured while nobody was there, serves any load: rows have the bits of the step called kernel by kernel.
 * What rows read of experts is counted; those behind the last sequence have none. */
START_TEST(any_load)
{
    static const int loads[] = { 2, LOADS, 0, 3 };
    const struct tiny *t = &tiny_models[TINY_QWEN3_MOE + _i];
    static float eager[LOADS][TINY_VOCAB];
    float got[TINY_VOCAB];
    tiny_write(t, "model");
    const char *name;
    for (int d = 0; (name = device(d)); d++) {
        struct rig r = open_rig(name, "model", CONTEXT);
        struct engine_params p = { .batch = LOADS, .context = CONTEXT, .chunk = 32 };
        struct engine *e = engine_create(r.ctx, r.m, &p);
        int32_t tables[LOADS][COLUMNS];
        for (int b = 0; b < LOADS; b++) {
            ck_assert(cache_take(&e->cache, tables[b], CONTEXT));
            engine_prefill(e, b, words, 9 + b, 0, true, tables[b]);
        }
        set_load(e, tables, 0);
        engine_decode(e);
        ck_assert_int_eq(engine_touched(e), 0);
        engine_capture(e);
        rfg_graph *graph = e->graph;
        for (size_t i = 0; i < sizeof(loads) / sizeof(loads[0]); i++) {
            int64_t touched = 0, slots = model_slots(r.m), experts = model_experts(r.m);
            for (int captured = 0; captured < 2; captured++) {
                e->graph = captured ? graph : NULL;
                set_load(e, tables, loads[i]);
                engine_decode(e);
                for (int b = loads[i] < LOADS; b < loads[i]; b++) {
                    engine_logits(e, b, captured ? got : eager[b]);
                    ck_assert_msg(!captured || !memcmp(got, eager[b], sizeof(got)), "%s on %s: load %d, row %d differs",
                                  t->name, name, loads[i], b);
                }
                ck_assert(!captured || touched == engine_touched(e));
                touched = engine_touched(e);
            }
            int64_t most = loads[i] * slots < experts ? loads[i] * slots : experts;
            ck_assert_int_ge(touched, loads[i] ? slots * (t->layers - t->dense) : 0);
            ck_assert_int_le(touched, most * (t->layers - t->dense));
        }
        e->graph = graph;
        engine_destroy(&e);
        close_rig(&r);
    }
}
END_TEST

/* ---- the continuous batch --------------------------------------------------------------------------------------- */

struct taken {
    int32_t tokens[8][CONTEXT];
    int count[8];
};

static void take(void *user, size_t request, int32_t token)
{
    struct taken *t = user;
    t->tokens[request][t->count[request]++] = token;
}

/* Five requests of all lengths through two rows, against each of them alone: drawn tokens too; and of mixtures. */
START_TEST(beside_others_as_alone)
{
    static const int models[] = { TINY_LLAMA, TINY_LLAMA, TINY_QWEN3_MOE, TINY_GPT_OSS, TINY_DEEPSEEK };
    tiny_write(&tiny_models[models[_i]], "model");
    struct rig r = open_rig("cpu", "model", CONTEXT);
    struct engine_params p = { .batch = 2, .context = CONTEXT, .chunk = 4 };
    if (_i == 1)
        p.sampling = (struct sampling){ .temperature = 1, .top_k = 40, .top_p = 0.95 };
    const struct request requests[] = { { words, 9, 12, 1 },
                                        { words + 4, 2, 3, 2 },
                                        { words + 1, 15, 1, 3 },
                                        { words + 7, 1, 20, 4 },
                                        { words, 5, 8, 5 } };
    enum { N = sizeof(requests) / sizeof(requests[0]) };
    struct taken all = { 0 }, again = { 0 };
    struct times t;
    struct engine *e = engine_create(r.ctx, r.m, &p);
    generate(e, requests, N, true, take, &all, &t);
    ck_assert_uint_eq(t.firsts, N);
    ck_assert_int_eq(t.tokens, 12 + 3 + 1 + 20 + 8);
    ck_assert_int_eq(e->cache.free_count, e->cache.blocks);
    times_free(&t);
    generate(e, requests, N, true, take, &again, NULL);
    engine_destroy(&e);
    for (int i = 0; i < N; i++) {
        struct taken alone = { 0 };
        e = engine_create(r.ctx, r.m, &p);
        generate(e, &requests[i], 1, false, take, &alone, NULL);
        engine_destroy(&e);
        ck_assert_int_eq(all.count[i], requests[i].tokens);
        ck_assert_int_eq(alone.count[0], all.count[i]);
        ck_assert_mem_eq(all.tokens[i], alone.tokens[0], (size_t)all.count[i] * sizeof(int32_t));
        ck_assert_mem_eq(all.tokens[i], again.tokens[i], (size_t)all.count[i] * sizeof(int32_t));
    }
    close_rig(&r);
}
END_TEST

/* However its prompt is cut into chunks, a sequence draws the same tokens. (Of an invariant context, in which logits
 * have the same bits, too.) */
START_TEST(any_chunk)
{
    static const int64_t chunks[] = { 32, 1, 3, 4, 8 };
    struct taken first = { 0 };
    struct rig r;
    tiny_write(&tiny_models[_i ? TINY_QWEN3_MOE : TINY_LLAMA], "model");
    setenv("RFG_BATCH_INVARIANT", "1", 1);
    r = open_rig("cpu", "model", CONTEXT);
    unsetenv("RFG_BATCH_INVARIANT");
    const struct request requests[] = { { words, 13, 8, 1 }, { words + 4, 9, 8, 2 }, { words + 2, 1, 8, 3 } };
    enum { N = sizeof(requests) / sizeof(requests[0]) };
    for (size_t k = 0; k < sizeof(chunks) / sizeof(chunks[0]); k++) {
        struct engine_params p = { .batch = 2, .context = CONTEXT, .chunk = chunks[k] };
        struct taken now = { 0 };
        p.sampling = (struct sampling){ .temperature = 1, .top_k = 40, .top_p = 0.95 };
        struct engine *e = engine_create(r.ctx, r.m, &p);
        generate(e, requests, N, false, take, k ? &now : &first, NULL);
        engine_destroy(&e);
        for (int i = 0; k && i < N; i++)
            for (int n = 0; n < 8; n++)
                ck_assert_msg(now.tokens[i][n] == first.tokens[i][n], "chunks of %d: request %d, token %d: %d, not %d",
                              (int)chunks[k], i, n, now.tokens[i][n], first.tokens[i][n]);
    }
    close_rig(&r);
}
END_TEST

/* Each token of a sequence is another draw. At this temperature all tokens are about as likely, so that a draw's number
 * is the place of its token among the logits. */
START_TEST(draws_differ)
{
    enum { DRAWS = 8 };
    float logits[TINY_VOCAB];
    int least = TINY_VOCAB, most = 0;
    tiny_write(&tiny_models[0], "model");
    struct rig r = open_rig("cpu", "model", CONTEXT);
    struct engine_params p = {
        .batch = 2, .context = CONTEXT, .chunk = 32, .sampling = { .temperature = 1000, .top_p = 1 }
    };
    struct engine *e = engine_create(r.ctx, r.m, &p);
    int32_t table[COLUMNS];
    ck_assert(cache_take(&e->cache, table, CONTEXT));
    engine_seed(e, ROW, 7);
    engine_prefill(e, ROW, words, 5, 0, true, table);
    for (int i = 0; i < DRAWS; i++) {
        int32_t token = engine_tokens(e)[ROW];
        int place = 0;
        engine_logits(e, ROW, logits);
        for (int n = 0; n < TINY_VOCAB; n++)
            place += logits[n] > logits[token];
        if (i > 0) { /* of decode steps */
            least = place < least ? place : least;
            most = place > most ? place : most;
        }
        set_rows(e, table, 5 + i, token);
        engine_decode(e);
    }
    ck_assert_int_gt(most - least, TINY_VOCAB / 4);
    engine_destroy(&e);
    close_rig(&r);
}
END_TEST

/* A model that ends after its first token, which is not given out. */
START_TEST(ends_itself)
{
    struct tiny t = tiny_models[0];
    tiny_write(&t, "model");
    struct rig r = open_rig("cpu", "model", CONTEXT);
    struct engine_params p = { .batch = 1, .context = CONTEXT, .chunk = 8 };
    struct engine *e = engine_create(r.ctx, r.m, &p);
    struct request q = { words, 6, 5, 1 };
    struct taken free_run = { 0 }, ended = { 0 };
    generate(e, &q, 1, false, take, &free_run, NULL);
    r.m->c.eos[0] = free_run.tokens[0][2];
    r.m->c.eos_count = 1;
    int first = 0;
    while (free_run.tokens[0][first] != free_run.tokens[0][2])
        first++;
    generate(e, &q, 1, false, take, &ended, NULL);
    ck_assert_int_eq(ended.count[0], first);
    engine_destroy(&e);
    close_rig(&r);
}
END_TEST

/* ---- files ------------------------------------------------------------------------------------------------------ */

static void logits_of(const char *folder, float *to)
{
    struct rig r = open_rig("cpu", folder, CONTEXT);
    struct engine_params p = { .batch = 2, .context = CONTEXT, .chunk = 32 };
    struct engine *e = engine_create(r.ctx, r.m, &p);
    int32_t table[COLUMNS];
    ck_assert(cache_take(&e->cache, table, CONTEXT));
    engine_prefill(e, ROW, words, WORDS, 0, true, table);
    engine_logits(e, ROW, to);
    engine_destroy(&e);
    close_rig(&r);
}

START_TEST(files_of_all_kinds)
{
    float one[TINY_VOCAB], other[TINY_VOCAB];
    struct tiny t = tiny_models[1];
    tiny_write(&t, "one");
    logits_of("one", one);
    t.shards = 3;
    tiny_write(&t, "sharded");
    logits_of("sharded", other);
    ck_assert_mem_eq(one, other, sizeof(one));
    t = tiny_models[1];
    t.f32 = true; /* numbers that bf16 rounds to the same */
    tiny_write(&t, "f32");
    logits_of("f32", other);
    ck_assert_mem_eq(one, other, sizeof(one));
}
END_TEST

/* A .gguf file of the same model gives the same bits. Llama 3's angles, which come as factors there, are other roundings
 * of the same: one part in 2^24, which now and then is an ulp of fp16. Products with blocks may sum in another
 * order. */
START_TEST(gguf_is_the_folder)
{
    static const struct {
        int model;
        enum tiny_q8 q8;
        double allowed;
    } ways[] = { { TINY_LLAMA, .allowed = 0x1p-10 },
                 { TINY_LLAMA },
                 { TINY_QWEN2 },
                 { TINY_QWEN3 },
                 { TINY_GEMMA3 },
                 { TINY_QWEN3_MOE },
                 { TINY_GPT_OSS },
                 { TINY_QWEN3, TINY_Q8_ALL, 0x1p-10 },
                 { TINY_QWEN3, TINY_Q8_SOME, 0x1p-10 },
                 { TINY_GEMMA3, TINY_Q8_ALL, 0x1p-10 },
                 { TINY_QWEN2, TINY_Q8_ALL, 0x1p-10 },
                 { TINY_QWEN3_MOE, TINY_Q8_ALL, 0x1p-10 } };
    float one[TINY_VOCAB], other[TINY_VOCAB];
    struct tiny t = tiny_models[ways[_i].model];
    double d = 0, all = 0;
    if (_i == 1)
        t.llama3_original = 0;
    tiny_write(&t, "one");
    if (t.gpt_oss) /* which .gguf files don't say */
        ck_assert_int_eq(system("sed -i 's/\"swiglu_limit\": 1.0/\"swiglu_limit\": 7.0/' one/config.json"), 0);
    logits_of("one", one);
    tiny_write_gguf(&t, "other.gguf", ways[_i].q8);
    logits_of("other.gguf", other);
    for (int i = 0; i < TINY_VOCAB; i++) {
        d += (one[i] - other[i]) * (one[i] - other[i]);
        all += one[i] * one[i];
    }
    ck_assert_msg(sqrt(d / all) <= ways[_i].allowed, "%s: logits differ by %g of their size", t.name, sqrt(d / all));
}
END_TEST

/* Numbers that another program made by docs/decoder.md's formula; the same whole and in pieces, by any threads. */
START_TEST(random_numbers)
{
    enum { N = 1000004 };
    static uint16_t whole[N], piece[N];
    static const struct {
        int at;
        uint16_t value;
    } known[] = {
        { 0, 0x3f8c }, { 1, 0x3f7f }, { 2, 0x3f88 }, { 3, 0x3f69 }, { 1000001, 0x3f83 }, { 1000002, 0x3f67 }
    };
    struct weights *w = weights_random(7);
    weights_get(w, "model.norm.weight", N, 0, 1, 0.1, 0, N, whole);
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        ck_assert_uint_eq(whole[known[i].at], known[i].value);
    for (int at = 0, n; at < N; at += n) {
        n = N - at < 333332 ? N - at : 333332;
        weights_get(w, "model.norm.weight", N, 0, 1, 0.1, at, n, piece + at);
    }
    ck_assert_mem_eq(whole, piece, sizeof(whole));
    /* bytes, and none of e4m3 is NaN */
    uint8_t *bytes = (uint8_t *)whole, *pieces = (uint8_t *)piece;
    for (int is_e4m3 = 0; is_e4m3 < 2; is_e4m3++) {
        const char *dtype = is_e4m3 ? "F8_E4M3" : "U8";
        int nan = 0;
        weights_bytes(w, "codes", dtype, 1, (int64_t[]){ N }, 0, N, bytes);
        for (int at = 0, n; at < N; at += n) {
            n = N - at < 333336 ? N - at : 333336;
            weights_bytes(w, "codes", dtype, 1, (int64_t[]){ N }, at, n, pieces + at);
        }
        ck_assert_mem_eq(bytes, pieces, N);
        for (int i = 0; i < N; i++)
            nan += (bytes[i] & 127) == 127;
        ck_assert_int_eq(nan > 0, !is_e4m3);
    }
    weights_close(w);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("decoder");
    const struct {
        const char *name;
        const TTest *test;
        int n;
    } cases[] = { { "reference", like_the_reference, TINY_MODELS },
                  { "graph", graph_is_the_step, TINY_MODELS },
                  { "load", any_load, TINY_MODELS - TINY_QWEN3_MOE },
                  { "batch", beside_others_as_alone, 5 },
                  { "chunks", any_chunk, 2 },
                  { "draws", draws_differ, 1 },
                  { "end", ends_itself, 1 },
                  { "files", files_of_all_kinds, 1 },
                  { "gguf", gguf_is_the_folder, 12 },
                  { "random", random_numbers, 1 } };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        TCase *c = test_case(s, cases[i].name, program_setup, program_teardown);
        tcase_set_timeout(c, 120);
        ADD_LOOPS(c, cases[i].n, cases[i].test);
    }
    return run_suite(s);
}
