/* SPDX-License-Identifier: MIT
 *
 * The gain of each optimisation: the same decode steps, of the same sequences, on every rung. A rung's logits are
 * compared with those of the rung before, token by token, before it is timed. docs/decoder.md says what is measured. */
#include "decoder.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One kernel for each operator that takes any problem, the slowest there is. */
static const char portable[] =
    "embedding_portable,embedding_cpu,rmsnorm_portable,rmsnorm_cpu_portable,"
    "add_rmsnorm_portable,add_rmsnorm_cpu_portable,gemm_portable,gemm_cpu_portable,"
    "mha_decode_portable,mha_decode_cpu_portable,mla_decode_portable,mla_decode_cpu,act_and_mul_portable,rope_portable,"
    "rope_cpu,"
    "act_and_mul_cpu_portable,kv_append_portable,kv_append_cpu,argmax_portable,argmax_cpu,"
    "moe_route_wave,moe_route_cpu,moe_align_chunks,moe_align_cpu,moe_sum_portable,moe_sum_cpu,quantize_portable,"
    "quantize_cpu";

static const struct rung {
    const char *name, *variants;
    bool graph, separate, unfused, plain_gemms, gate, overlap;
} rungs[LADDER_RUNGS] = {
    { "portable kernels", portable, .separate = true, .unfused = true, .plain_gemms = true },
    { "tuned kernels", NULL, .separate = true, .unfused = true, .plain_gemms = true },
    { "captured graph", NULL, .separate = true, .unfused = true, .plain_gemms = true, .graph = true },
    { "joined projections", NULL, .unfused = true, .plain_gemms = true, .graph = true },
    { "fused norm, rope, append", NULL, .plain_gemms = true, .graph = true },
    { "residual, act in gemms", NULL, .graph = true },
    { "experts chosen at once", NULL, .graph = true, .gate = true },
    { "launch overlap", NULL, .graph = true, .gate = true, .overlap = true },
};
enum { CHECKED = 8 /* steps */, WARM = 2, PREFILLS = 10 };

struct result {
    double ms, worst; /* a token; the largest rms difference of a row's logits, by their rms */
    double p50, p95, p99;
    double host_us; /* of the host's time a launch, where the device waits for it */
    int64_t launches;
};

struct state {
    rfg_context *ctx;
    const struct model *m;
    const struct ladder_params *p;
    struct engine *base;   /* has prefilled the cache that every rung begins with */
    int32_t *tables;       /* [batch, columns] */
    int32_t *tokens;       /* [CHECKED + 1][batch]: what rungs are fed with while they are checked */
    float *logits, *newer; /* [CHECKED][batch, vocab], of the rung before; one step's of this one */
    int32_t *ids;          /* [CHECKED][layers, batch, slots]: experts of the first rung, and their weights, by which */
    float *shares;         /* all are checked: two that are as good but for rounding change places, and results */
    struct result result[LADDER_RUNGS];
    double share_ms[OP_KINDS];
    int64_t share_launches[OP_KINDS];
    double touched;   /* experts whose weights a step reads, of all layers, on average */
    double copy_rate; /* bytes a second, read and written */
    json_t *prefill;
};

/* ---- the sequences ----------------------------------------------------------------------------------------------- */

static int32_t prompt_token(int64_t row, int64_t at, int64_t vocab)
{
    uint64_t z = (uint64_t)(row * 1000003 + at + 1) * 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    return (int32_t)((z ^ z >> 31) % (uint64_t)vocab);
}

static void prefill(struct engine *e, int64_t row, int64_t count, const int32_t *table)
{
    int32_t *tokens = allocate((size_t)e->p.chunk, sizeof(*tokens));
    for (int64_t at = 0, n; at < count; at += n) {
        n = count - at < e->p.chunk ? count - at : e->p.chunk;
        for (int64_t i = 0; i < n; i++)
            tokens[i] = prompt_token(row, at + i, e->m->c.vocab);
        engine_prefill(e, row, tokens, n, at, at + n == count, table);
    }
    free(tokens);
}

/* Time to the first token of prompts of several lengths, alone on the device. */
static void measure_prefill(struct state *s, int64_t count)
{
    double times[PREFILLS], begin = seconds();
    int n = -1;
    for (; n < PREFILLS && (n < 1 || s->p->team || seconds() - begin < 4); n++) { /* the first one loads kernels */
        double t = seconds();
        prefill(s->base, 0, count, s->tables);
        engine_tokens(s->base);
        if (n >= 0)
            times[n] = 1e3 * (seconds() - t);
    }
    double p50 = percentile(times, (size_t)n, 0.5), p95 = percentile(times, (size_t)n, 0.95),
           p99 = percentile(times, (size_t)n, 0.99);
    if (s->m->c.shard.rank)
        return;
    printf("TTFT of %lld tokens: p50 %.2f, p95 %.2f, p99 %.2f ms (%d runs), %.0f tokens a second\n", (long long)count,
           p50, p95, p99, n, 1e3 * (double)count / p50);
    json_array_append_new(s->prefill, json_pack("{s:I, s:f, s:f, s:f, s:i}", "tokens", (json_int_t)count, "p50", p50,
                                                "p95", p95, "p99", p99, "runs", n));
}

static void prepare(struct state *s)
{
    const int64_t lengths[] = { 512, 2048, 8192 };
    struct engine_params p = { .batch = s->p->batch,
                               .context = s->m->context,
                               .chunk = s->p->chunk,
                               .expand = s->p->expand,
                               .team = s->p->team,
                               .apart = s->p->apart };
    s->base = engine_create(s->ctx, s->m, &p);
    int64_t columns = s->base->cache.per_sequence;
    s->tables = allocate((size_t)(p.batch * columns), sizeof(*s->tables));
    for (int64_t b = 0; b < p.batch; b++)
        if (!cache_take(&s->base->cache, s->tables + b * columns, p.context))
            die("the cache has no room for %lld sequences", (long long)p.batch);
    s->prefill = json_array();
    measure_prefill(s, s->p->prompt);
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
        if (lengths[i] != s->p->prompt && lengths[i] <= p.context)
            measure_prefill(s, lengths[i]);
    for (int64_t b = 0; b < p.batch; b++)
        prefill(s->base, b, s->p->prompt, s->tables + b * columns);
    memcpy(s->tokens, engine_tokens(s->base), (size_t)p.batch * sizeof(*s->tokens));
}

/* ---- a rung ------------------------------------------------------------------------------------------------------ */

/* The step at which all sequences have `keys` keys before it. */
static void step(struct engine *e, const struct state *s, int64_t keys)
{
    struct rows *r = engine_next_rows(e);
    int64_t columns = e->cache.per_sequence;
    for (int64_t b = 0; b < e->p.batch; b++) {
        r->slots[b] = cache_slot(s->tables + b * columns, keys);
        r->positions[b] = (int32_t)keys;
        r->lens[b] = (int32_t)keys + 1;
    }
    engine_decode(e);
}

static void give_tokens(struct engine *e, const int32_t *tokens)
{
    CHECK(
        rfg_device_copy(e->ctx, e->next, tokens, (size_t)e->p.batch * sizeof(*tokens), RFG_HOST_TO_DEVICE, e->stream));
}

/* The rms of a - b by the rms of b; NaN counts as 1000. */
static double difference(const float *a, const float *b, int64_t n)
{
    double d = 0, all = 0;
    for (int64_t i = 0; i < n; i++) {
        d += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        all += (double)b[i] * b[i];
    }
    double share = sqrt(d / all);
    return share < 1000 ? share : 1000;
}

/* About eight roundings a layer to 16 bits, each off by up to half an ulp (2^-9 in bf16), that add up at random, times
 * 4. With experts in e4m3 there are three to e4m3, off by 2.5 % (rms): a number that was moved a little may become its
 * neighbour. What is wrong differs by 1 and more. */
static double allowed(const struct model *m)
{
    double all = 8 * 0x1p-18, e4m3 = 3 * 0.025 * 0.025;
    return 4 * sqrt((all + (m->c.moe.format == EXPERTS_FP8_BLOCKS ? e4m3 : 0)) * (double)m->c.layers);
}

static int64_t slots_of_step(const struct state *s)
{
    return s->m->c.layers * s->p->batch * model_slots(s->m);
}

/* The first rung's experts of step i are kept; how many of this rung's are the same. */
static int64_t same_experts(struct state *s, struct engine *e, int rung, int64_t i)
{
    int64_t n = slots_of_step(s), slots = model_slots(s->m), same = 0;
    int32_t *was = s->ids + i * n, *now = allocate((size_t)n, sizeof(*now));
    if (rung == s->p->from - 1)
        engine_experts(e, was, s->shares + i * n);
    engine_experts(e, now, NULL);
    for (int64_t k = 0; k < n; k++) /* in whatever order */
        for (int64_t at = k / slots * slots, j = 0; j < slots; j++)
            same += now[k] == was[at + j];
    free(now);
    return same;
}

/* Steps that are fed with the first rung's tokens, and its experts, so that rungs are at the same place however they
 * choose. */
static bool check_rung(struct state *s, struct engine *e, int rung)
{
    int64_t vocab = s->m->c.vocab, batch = e->p.batch, same = 0, experts = 0;
    struct result *to = &s->result[rung];
    bool mixture = s->m->c.moe.experts > 0;
    for (int64_t i = 0; i < CHECKED; i++) {
        give_tokens(e, s->tokens + i * batch);
        if (e->given)
            engine_give_experts(e, s->ids + i * slots_of_step(s), s->shares + i * slots_of_step(s));
        step(e, s, s->p->prompt + i);
        const int32_t *chosen = engine_tokens(e);
        for (int64_t b = 0; b < batch; b++) {
            float *before = s->logits + (i * batch + b) * vocab;
            engine_logits(e, b, s->newer);
            if (rung == s->p->from - 1)
                s->tokens[(i + 1) * batch + b] = chosen[b];
            else
                to->worst = fmax(to->worst, difference(s->newer, before, vocab));
            same += chosen[b] == s->tokens[(i + 1) * batch + b];
            memcpy(before, s->newer, (size_t)vocab * sizeof(float));
        }
        experts += mixture ? same_experts(s, e, rung, i) : 0;
    }
    /* Rounding may swap two tokens that are nearly as likely; most stay. */
    bool right = to->worst <= allowed(s->m) && same * 4 >= CHECKED * batch * 3;
    if (experts * 4 < CHECKED * slots_of_step(s) * 3 && mixture) {
        fprintf(stderr, "decoder: %s: WRONG: %lld of %lld experts are the same\n", rungs[rung].name, (long long)experts,
                (long long)(CHECKED * slots_of_step(s)));
        return false;
    }
    if (!right)
        fprintf(stderr,
                "decoder: %s: WRONG: logits differ by %.3g of their size (%.3g is allowed), %lld of %lld tokens "
                "are the same\n",
                rungs[rung].name, to->worst, allowed(s->m), (long long)same, (long long)(CHECKED * batch));
    return right;
}

static void time_rung(struct state *s, struct engine *e, struct result *to)
{
    int64_t keys = s->p->prompt + CHECKED, n = s->p->steps;
    double touched = 0;
    double *times = allocate((size_t)n, sizeof(*times)), *queued = allocate((size_t)n, sizeof(*queued));
    for (int64_t i = 0; i < WARM; i++)
        step(e, s, keys++);
    engine_tokens(e);
    double begin = seconds();
    for (int64_t i = 0; i < n; i++)
        step(e, s, keys++);
    CHECK(rfg_stream_sync(e->ctx, e->stream));
    to->ms = 1e3 * (seconds() - begin) / (double)n;
    for (int64_t i = 0; i < n; i++) { /* as a reader sees them: each token comes to the host */
        double t = seconds();
        step(e, s, keys++);
        queued[i] = 1e6 * (seconds() - t);
        engine_tokens(e);
        times[i] = 1e3 * (seconds() - t);
        if (s->m->c.moe.experts)
            touched += (double)engine_touched(e) / (double)n;
    }
    s->touched = touched;
    to->host_us = percentile(queued, (size_t)n, 0.5) / (double)to->launches;
    to->p50 = percentile(times, (size_t)n, 0.5);
    to->p95 = percentile(times, (size_t)n, 0.95);
    to->p99 = percentile(times, (size_t)n, 0.99);
    free(queued);
    free(times);
}

/* Launches of the context so far; replays don't count. */
static int64_t launches_of(const struct engine *e)
{
    rfg_stats s = RFG_STATS_INIT;
    rfg_context_stats(e->ctx, &s);
    return (int64_t)s.calls + e->collectives;
}

/* The milliseconds of a graph of what e->only, e->alone or e->left_out leave; 0: of nothing. launches: or NULL. */
static double time_part(const struct state *s, struct engine *e, int64_t *launches)
{
    int n = s->p->steps < 20 ? (int)s->p->steps : 20;
    int64_t before = launches_of(e);
    engine_capture(e);
    int64_t captured = launches_of(e) - before;
    if (launches)
        *launches = captured;
    if (!captured)
        return 0;
    CHECK(rfg_graph_replay(e->ctx, e->graph, e->stream));
    CHECK(rfg_stream_sync(e->ctx, e->stream));
    double begin = seconds();
    for (int i = 0; i < n; i++)
        CHECK(rfg_graph_replay(e->ctx, e->graph, e->stream));
    CHECK(rfg_stream_sync(e->ctx, e->stream));
    return 1e3 * (seconds() - begin) / n;
}

/* Each operator's kernels alone: the last rung's. */
static void time_shares(struct state *s, struct engine *e)
{
    for (int kind = 0; kind < OP_KINDS; kind++) {
        e->only = 1U << kind;
        s->share_ms[kind] = time_part(s, e, &s->share_launches[kind]);
    }
    e->only = 0;
}

/* Each operator call of a layer: in a graph that has only it, of each layer; and what a graph without it saves. Launches
 * overlap, so neither is the other. */
static void time_calls(struct state *s, struct engine *e)
{
    double layers = (double)s->m->c.layers, whole = time_part(s, e, NULL);
    int n = e->calls;
    bool says = s->m->c.shard.rank == 0;
    if (says)
        printf("%-26s %10s %10s   of %.2f us a layer\n", "calls of a layer", "us alone", "us saved",
               1e3 * whole / layers);
    for (int i = 1; i <= n; i++) {
        e->alone = i;
        double alone = time_part(s, e, NULL);
        e->alone = 0;
        e->left_out = i;
        double rest = time_part(s, e, NULL);
        e->left_out = 0;
        char name[64];
        snprintf(name, sizeof(name), "%d: %s", i, op_names[e->kinds[i]]);
        if (says)
            printf("%-26s %10.2f %10.2f\n", name, 1e3 * alone / layers, 1e3 * (whole - rest) / layers);
    }
}

static bool run_rung(struct state *s, int rung)
{
    const struct rung *r = &rungs[rung];
    rfg_context *ctx;
    CHECK(rfg_context_create(&ctx, &(rfg_context_params){ .size = sizeof(rfg_context_params),
                                                          .device = rfg_context_device(s->ctx),
                                                          .variants = r->variants,
                                                          .launch_overlap = r->overlap }));
    struct engine_params p = s->base->p;
    p.separate = r->separate;
    p.unfused = r->unfused;
    p.plain_gemms = r->plain_gemms;
    p.gate = r->gate ? s->p->gate : 0;
    p.chunk = 1;
    p.longest = s->p->prompt + CHECKED + WARM + 2 * s->p->steps;
    p.mean = (s->p->prompt + p.longest) / 2;
    struct engine *e = engine_create(ctx, s->m, &p);
    CHECK(
        rfg_device_copy(ctx, e->cache.memory, s->base->cache.memory, e->cache.bytes, RFG_DEVICE_TO_DEVICE, e->stream));
    memcpy(engine_next_rows(e)->table, s->tables, (size_t)(p.batch * e->cache.per_sequence) * sizeof(*s->tables));
    step(e, s, s->p->prompt);
    s->result[rung].launches = launches_of(e);
    e->given = s->m->c.moe.experts && rung != s->p->from - 1;
    e->decoded = !e->given;
    if (e->given) /* whose launches are others: the first check writes this step's keys anew */
        step(e, s, s->p->prompt);
    if (r->graph)
        engine_capture(e);
    bool right = check_rung(s, e, rung);
    if (e->given && r->graph) {
        e->given = false;
        engine_capture(e);
    }
    e->given = false;
    if (right)
        time_rung(s, e, &s->result[rung]);
    if (right && rung == LADDER_RUNGS - 1)
        time_shares(s, e);
    if (right && rung == LADDER_RUNGS - 1 && s->p->calls)
        time_calls(s, e);
    engine_destroy(&e);
    rfg_context_destroy(&ctx);
    return right;
}

/* ---- the memory's speed ----------------------------------------------------------------------------------------- */

static void measure_copy(struct state *s)
{
    size_t half = s->m->bytes > (size_t)1 << 30 ? (size_t)1 << 30 : (size_t)32 << 20;
    char *memory;
    CHECK(rfg_device_alloc(s->ctx, (void **)&memory, 2 * half));
    CHECK(rfg_device_memset(s->ctx, memory, 1, 2 * half, s->base->stream));
    for (int i = 0; i < 5; i++) { /* the best of five: the first ones fault pages in */
        CHECK(rfg_stream_sync(s->ctx, s->base->stream));
        double begin = seconds();
        for (int n = 0; n < 4; n++)
            CHECK(rfg_device_copy(s->ctx, memory + half, memory, half, RFG_DEVICE_TO_DEVICE, s->base->stream));
        CHECK(rfg_stream_sync(s->ctx, s->base->stream));
        s->copy_rate = fmax(s->copy_rate, 8 * (double)half / (seconds() - begin));
    }
    CHECK(rfg_device_free(s->ctx, memory));
}

/* ---- what is said ----------------------------------------------------------------------------------------------- */

/* The bytes that a step must read: the weights (of experts, those that rows have), and the keys and values. (A sliding
 * layer reads its window.) */
static void step_bytes(const struct state *s, double *weights, double *keys)
{
    const struct config *c = &s->m->c;
    *weights = (double)s->m->step_bytes + s->touched * (double)s->m->expert_bytes;
    *keys = 0;
    for (int64_t l = 0; l < c->layers; l++) {
        int64_t length = s->p->prompt + CHECKED + WARM + s->p->steps / 2;
        if (c->sliding[l] && length > c->window)
            length = c->window;
        int64_t key = c->mla.kv_rank ? key_elements(c) : 2 * key_heads(c, l) * head_elements(c, l);
        *keys += (double)(length * s->p->batch * key) * sizeof(uint16_t);
    }
}

/* The same of one operator; what activations take is left out. The router's are read by the product, or where experts
 * are chosen at once. */
static double operator_bytes(const struct state *s, enum op_kind kind, double keys)
{
    const struct config *c = &s->m->c;
    double router = (double)((c->layers - c->moe.dense) * c->moe.experts * c->hidden) * sizeof(uint16_t);
    bool at_once = c->moe.experts && s->p->batch <= s->p->gate;
    switch (kind) {
    case OP_GEMM:
        return (double)s->m->step_bytes - (at_once ? router : 0);
    case OP_ROUTE:
        return at_once ? router : 0;
    case OP_ATTENTION:
        return keys;
    case OP_EXPERTS:
        return s->touched * (double)s->m->expert_bytes;
    default:
        return 0;
    }
}

/* Each operator of the last rung beside its floor: its bytes at copy speed. */
static json_t *report_operators(const struct state *s, double keys)
{
    double all = 0;
    json_t *list = json_object();
    for (int i = 0; i < OP_KINDS; i++)
        all += s->share_ms[i];
    printf("%-26s %10s %9s %8s %9s %9s %8s\n", "the last rung's kernels", "ms", "launches", "share", "us each",
           "floor ms", "of it");
    for (int i = 0; i < OP_KINDS; i++) {
        double ms = s->share_ms[i], floor = 1e3 * operator_bytes(s, (enum op_kind)i, keys) / s->copy_rate;
        if (!(ms > 0))
            continue;
        printf("%-26s %10.3f %9lld %7.1f%% %9.2f %9.3f %8.2f\n", op_names[i], ms, (long long)s->share_launches[i],
               100 * ms / all, 1e3 * ms / (double)s->share_launches[i], floor, floor / ms);
        json_object_set_new(
            list, op_names[i],
            json_pack("{s:f, s:I, s:f}", "ms", ms, "launches", (json_int_t)s->share_launches[i], "floor_ms", floor));
    }
    return list;
}

static json_t *report(const struct state *s)
{
    const struct result *r = s->result;
    double weights, keys, last = r[LADDER_RUNGS - 1].ms;
    json_t *list = json_array(), *shares = json_object(), *operators;
    step_bytes(s, &weights, &keys);
    printf("%-26s %10s %9s %8s %8s %9s %9s %9s %8s  %s\n", "rung", "ms/token", "launches", "gain", "in all", "TPOT p50",
           "p95", "p99", "host us", "differs");
    int from = (int)s->p->from - 1;
    for (int i = from; i < LADDER_RUNGS; i++) {
        printf("%-26s %10.3f %9lld %7.2fx %7.2fx %9.3f %9.3f %9.3f %8.2f  %.2g\n", rungs[i].name, r[i].ms,
               (long long)r[i].launches, i > from ? r[i - 1].ms / r[i].ms : 1, r[from].ms / r[i].ms, r[i].p50, r[i].p95,
               r[i].p99, r[i].host_us, r[i].worst);
        json_array_append_new(list,
                              json_pack("{s:s, s:f, s:I, s:f, s:f, s:f, s:f, s:f}", "name", rungs[i].name, "ms",
                                        r[i].ms, "launches", (json_int_t)r[i].launches, "p50", r[i].p50, "p95",
                                        r[i].p95, "p99", r[i].p99, "host_us", r[i].host_us, "differs", r[i].worst));
    }
    operators = report_operators(s, keys);
    for (int i = 0; i < OP_KINDS; i++)
        if (s->share_ms[i] > 0)
            json_object_set_new(shares, op_names[i], json_real(s->share_ms[i]));
    if (s->m->c.moe.experts)
        printf("experts: a step reads %.1f of %lld a layer, %.1f MB\n",
               s->touched / (double)(s->m->c.layers - s->m->c.moe.dense), (long long)model_experts(s->m),
               s->touched * (double)s->m->expert_bytes / 1e6);
    double bytes_ms = 1e3 * (weights + keys) / s->copy_rate;
    printf("weights %.1f MB and keys %.1f MB a step at copy speed (%.0f GB/s): %.3f ms, %.2f of the last rung's time\n",
           weights / 1e6, keys / 1e6, s->copy_rate / 1e9, bytes_ms, bytes_ms / last);
    printf("weights %.1f MB, cache %.1f MB, activations %.1f MB, workspace of a stream %.1f MB\n",
           (double)s->m->bytes / 1e6, (double)s->base->cache.bytes / 1e6, (double)s->base->bytes / 1e6,
           (double)rfg_workspace_size(s->ctx) / 1e6);
    return json_pack("{s:s, s:s, s:I, s:I, s:o, s:o, s:o, s:O, s:f, s:f, s:f, s:f, s:f, s:I, s:I}", "model",
                     s->m->c.name, "device", rfg_context_device(s->ctx), "batch", (json_int_t)s->p->batch, "prompt",
                     (json_int_t)s->p->prompt, "rungs", list, "operator_ms", shares, "operators", operators, "ttft",
                     s->prefill, "copy_bytes_per_second", s->copy_rate, "weight_bytes", weights, "experts_read",
                     s->touched, "key_bytes", keys, "share_of_copy_speed", bytes_ms / last, "activation_bytes",
                     (json_int_t)s->base->bytes, "workspace_bytes", (json_int_t)rfg_workspace_size(s->ctx));
}

static void save(const char *option, const char *path, const json_t *root)
{
    if (path && json_dump_file(root, path, JSON_INDENT(2)) != 0)
        die("--%s %s: can't be written: %m", option, path);
}

/* It must be of the same model, device and steps; said before anything is measured. */
static json_t *read_baseline(const struct state *s, const char *path)
{
    static const char *const same[] = { "model", "device", "batch", "prompt" };
    json_error_t e;
    json_t *root = json_load_file(path, 0, &e);
    if (!root || !json_is_array(json_object_get(root, "rungs")))
        die("--baseline %s: must be a file that --save-baseline wrote%s%s", path, root ? "" : ": ", root ? "" : e.text);
    json_t *now = json_pack("{s:s, s:s, s:I, s:I}", "model", s->m->c.name, "device", rfg_context_device(s->ctx),
                            "batch", (json_int_t)s->p->batch, "prompt", (json_int_t)s->p->prompt);
    const char *other = NULL;
    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++)
        if (!json_equal(json_object_get(now, same[i]), json_object_get(root, same[i])))
            other = same[i];
    json_decref(now);
    if (other) {
        json_decref(root);
        die("--baseline %s: is of another %s", path, other);
    }
    return root;
}

/* 1 if a rung is slower than the baseline's of that name by over 10 %. */
static int compare(const json_t *now, const json_t *was)
{
    int slower = 0;
    size_t i, j;
    json_t *a, *b;
    json_array_foreach(json_object_get(now, "rungs"), i, a)
    {
        json_array_foreach(json_object_get(was, "rungs"), j, b)
        {
            double ms = json_number_value(json_object_get(a, "ms")), old = json_number_value(json_object_get(b, "ms"));
            if (!json_equal(json_object_get(a, "name"), json_object_get(b, "name")) || !(old > 0))
                continue;
            bool bad = ms > 1.1 * old;
            slower |= bad;
            printf("baseline: %-26s %10.3f ms, was %10.3f: %+.1f %%%s\n", json_string_value(json_object_get(a, "name")),
                   ms, old, 100 * (ms / old - 1), bad ? " SLOWER" : "");
        }
    }
    return slower;
}

int ladder(rfg_context *ctx, const struct model *m, const struct ladder_params *p)
{
    struct state s = { .ctx = ctx, .m = m, .p = p };
    int64_t needed = p->prompt + CHECKED + WARM + 2 * p->steps;
    if (needed > m->context)
        die("--ladder: %lld keys and %lld steps need --context %lld: it is %lld", (long long)p->prompt,
            (long long)(needed - p->prompt), (long long)needed, (long long)m->context);
    json_t *was = p->baseline ? read_baseline(&s, p->baseline) : NULL;
    size_t row = (size_t)m->c.vocab, batch = (size_t)p->batch;
    s.tokens = allocate((CHECKED + 1) * batch, sizeof(*s.tokens));
    s.logits = allocate(CHECKED * batch * row, sizeof(*s.logits));
    s.newer = allocate(row, sizeof(*s.newer));
    s.ids = allocate((size_t)(CHECKED * slots_of_step(&s)), sizeof(*s.ids));
    s.shares = allocate((size_t)(CHECKED * slots_of_step(&s)), sizeof(*s.shares));
    prepare(&s);
    measure_copy(&s);
    bool right = true;
    for (int i = (int)p->from - 1; i < LADDER_RUNGS && right; i++)
        right = run_rung(&s, i);
    int code = right ? 0 : 1;
    if (right && !m->c.shard.rank) {
        json_t *now = report(&s);
        save("json", p->json, now);
        save("save-baseline", p->save_baseline, now);
        code = was ? compare(now, was) : 0;
        json_decref(now);
    }
    json_decref(was);
    json_decref(s.prefill);
    engine_destroy(&s.base);
    free(s.tables);
    free(s.tokens);
    free(s.logits);
    free(s.newer);
    free(s.ids);
    free(s.shares);
    return code;
}
