/* SPDX-License-Identifier: MIT
 *
 * The continuous batch. The engine has rows; a request takes a free one, with the blocks of the cache that it may come
 * to need. Its prompt goes through the layers in chunks, one chunk between two decode steps, so that the sequences
 * beside it wait for a chunk and not for a prompt. Then it decodes with the others until it has its tokens, or ends
 * itself. Rows that nobody has go through the decode step as well: their slot is -1 (no key is written) and their
 * length 0. */
#include "decoder.h"

#include <stdlib.h>

struct sequence {
    bool active;
    size_t request;
    int64_t keys;     /* of it in the cache */
    int64_t produced; /* tokens so far */
    int32_t *table;   /* its row of the block table */
    double last;      /* when its newest token came */
};

struct batch {
    struct engine *e;
    const struct request *requests;
    size_t waiting, count; /* the next request to join; all */
    struct sequence *rows;
    void (*token)(void *, size_t, int32_t);
    void *user;
    struct times *t;
    double begin;
};

static bool is_end(const struct config *c, int32_t token)
{
    for (int i = 0; i < c->eos_count; i++)
        if (c->eos[i] == token)
            return true;
    return false;
}

/* A row's new token. The last one leaves its blocks to others. */
static void produced(struct batch *b, struct sequence *s, int32_t token, double now)
{
    const struct request *q = &b->requests[s->request];
    bool end = is_end(&b->e->m->c, token);
    if (b->t) {
        if (s->produced == 0)
            b->t->first[b->t->firsts++] = now - b->begin;
        else
            b->t->between[b->t->betweens++] = now - s->last;
        b->t->tokens++;
    }
    s->last = now;
    s->produced++;
    if (!end)
        b->token(b->user, s->request, token);
    if (end || s->produced == q->tokens) {
        cache_give(&b->e->cache, s->table, q->count + q->tokens);
        s->active = false;
    }
}

static void join(struct batch *b)
{
    for (int64_t row = 0; row < b->e->p.batch && b->waiting < b->count; row++) {
        struct sequence *s = &b->rows[row];
        const struct request *q = &b->requests[b->waiting];
        if (s->active)
            continue;
        if (!cache_take(&b->e->cache, s->table, q->count + q->tokens))
            return; /* until one leaves */
        *s = (struct sequence){ .active = true, .request = b->waiting++, .table = s->table };
        engine_seed(b->e, row, q->seed);
    }
}

static bool in_prompt(const struct batch *b, const struct sequence *s)
{
    return s->active && s->keys < b->requests[s->request].count;
}

/* A chunk of the first sequence that still has some of its prompt before it. */
static void prefill(struct batch *b)
{
    for (int64_t row = 0; row < b->e->p.batch; row++) {
        struct sequence *s = &b->rows[row];
        if (!in_prompt(b, s))
            continue;
        const struct request *q = &b->requests[s->request];
        int64_t left = q->count - s->keys, n = left < b->e->p.chunk ? left : b->e->p.chunk;
        engine_prefill(b->e, row, q->prompt + s->keys, n, s->keys, n == left, s->table);
        s->keys += n;
        if (n == left) {
            const int32_t *tokens = engine_tokens(b->e);
            produced(b, s, tokens[row], seconds());
        }
        return;
    }
}

static bool any_active(const struct batch *b)
{
    for (int64_t row = 0; row < b->e->p.batch; row++)
        if (b->rows[row].active)
            return true;
    return false;
}

/* A token of each sequence whose prompt is in the cache. */
static void decode(struct batch *b)
{
    struct engine *e = b->e;
    struct rows *r = engine_next_rows(e);
    bool any = false;
    for (int64_t row = 0; row < e->p.batch; row++) {
        const struct sequence *s = &b->rows[row];
        bool there = s->active && !in_prompt(b, s);
        any = any || there;
        r->slots[row] = there ? cache_slot(s->table, s->keys) : -1;
        r->positions[row] = there ? (int32_t)s->keys : 0;
        r->lens[row] = there ? (int32_t)s->keys + 1 : 0;
        for (int64_t i = 0; i < e->cache.per_sequence; i++)
            if (there && r->table[row * e->cache.per_sequence + i] != s->table[i]) {
                r->table[row * e->cache.per_sequence + i] = s->table[i];
                e->table_changed = true;
            }
    }
    if (!any)
        return;
    engine_decode(e);
    const int32_t *tokens = engine_tokens(e);
    double now = seconds();
    for (int64_t row = 0; row < e->p.batch; row++)
        if (r->lens[row] > 0) {
            b->rows[row].keys++;
            produced(b, &b->rows[row], tokens[row], now);
        }
}

void request_check(const struct request *q, size_t number, const struct config *c, int64_t context)
{
    if (q->count < 1 || q->tokens < 1)
        die("prompt %zu has %lld tokens and asks for %lld: both must be 1 or more", number, (long long)q->count,
            (long long)q->tokens);
    if (q->count + q->tokens > context)
        die("prompt %zu: its %lld tokens and %lld to generate are more than the cache holds of a sequence: %lld "
            "(--context)",
            number, (long long)q->count, (long long)q->tokens, (long long)context);
    for (int64_t i = 0; i < q->count; i++)
        if (q->prompt[i] < 0 || q->prompt[i] >= c->vocab)
            die("prompt %zu: its token %lld is %d: the vocabulary has %lld", number, (long long)i, (int)q->prompt[i],
                (long long)c->vocab);
}

void generate(struct engine *e, const struct request *requests, size_t n, bool graph,
              void (*token)(void *user, size_t request, int32_t token), void *user, struct times *t)
{
    struct batch b = { .e = e, .requests = requests, .count = n, .token = token, .user = user, .t = t };
    size_t most = 0;
    for (size_t i = 0; i < n; i++) {
        request_check(&requests[i], i, &e->m->c, e->p.context);
        most += (size_t)requests[i].tokens;
    }
    if (t)
        *t = (struct times){ .first = allocate(n, sizeof(double)), .between = allocate(most, sizeof(double)) };
    b.rows = allocate((size_t)e->p.batch, sizeof(*b.rows));
    int32_t *tables = allocate((size_t)(e->p.batch * e->cache.per_sequence), sizeof(*tables));
    for (int64_t row = 0; row < e->p.batch; row++)
        b.rows[row].table = tables + row * e->cache.per_sequence;
    if (graph && !e->graph) {
        engine_next_rows(e);
        engine_decode(e); /* of no sequence: loads the kernels */
        engine_capture(e);
        engine_tokens(e);
    }
    b.begin = seconds();
    do {
        join(&b);
        if (!any_active(&b) && b.waiting < n)
            die("prompt %zu: the cache has no room for its %lld tokens and %lld to generate", b.waiting,
                (long long)requests[b.waiting].count, (long long)requests[b.waiting].tokens);
        prefill(&b);
        decode(&b);
    } while (any_active(&b) || b.waiting < n);
    for (size_t i = 0; t && i < n; i++)
        t->prompt_tokens += requests[i].count;
    if (t)
        t->seconds = seconds() - b.begin;
    free(tables);
    free(b.rows);
}

void times_free(struct times *t)
{
    free(t->first);
    free(t->between);
    *t = (struct times){ 0 };
}

/* {"p50": ..., "p95": ..., "p99": ...} in milliseconds. */
static json_t *percentiles(const double *values, size_t n)
{
    return json_pack("{s:f, s:f, s:f}", "p50", 1e3 * percentile(values, n, 0.5), "p95",
                     1e3 * percentile(values, n, 0.95), "p99", 1e3 * percentile(values, n, 0.99));
}

json_t *times_json(const struct times *t)
{
    return json_pack("{s:o, s:o, s:f}", "ttft_ms", percentiles(t->first, t->firsts), "tpot_ms",
                     percentiles(t->between, t->betweens), "tokens_per_second", (double)t->tokens / t->seconds);
}
