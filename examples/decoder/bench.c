/* SPDX-License-Identifier: MIT
 *
 * What llama-bench measures: pp512, a prompt of 512 tokens through an empty cache; tg128, 128 tokens one after the other
 * from the first on. Each once to warm up, then REPEATS times; tokens a second, mean and standard deviation. As there,
 * one sequence, and what tokens are chosen from isn't read on the host. */
#include "decoder.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { PROMPT = 512, STEPS = 128, REPEATS = 5 };

static double run_prompt(struct engine *e, const int32_t *tokens, const int32_t *table)
{
    double begin = seconds();
    for (int64_t at = 0, n; at < PROMPT; at += n) {
        n = PROMPT - at < e->p.chunk ? PROMPT - at : e->p.chunk;
        engine_prefill(e, 0, tokens + at, n, at, at + n == PROMPT, table);
    }
    engine_tokens(e);
    return seconds() - begin;
}

static double run_steps(struct engine *e, const int32_t *table)
{
    double begin = seconds();
    for (int64_t keys = 0; keys < STEPS; keys++) {
        struct rows *r = engine_next_rows(e);
        r->slots[0] = cache_slot(table, keys);
        r->positions[0] = (int32_t)keys;
        r->lens[0] = (int32_t)keys + 1;
        engine_decode(e);
    }
    engine_tokens(e);
    return seconds() - begin;
}

static json_t *report(const struct model *m, const char *device, const char *test, int tokens, const double *times)
{
    double mean = 0, squares = 0;
    for (int i = 0; i < REPEATS; i++)
        mean += tokens / times[i] / REPEATS;
    for (int i = 0; i < REPEATS; i++)
        squares += (tokens / times[i] - mean) * (tokens / times[i] - mean) / (REPEATS - 1);
    printf("| %s | %.2f GiB | %s | %s | %.2f +- %.2f |\n", m->c.name, (double)m->bytes / 0x1p30, device, test, mean,
           sqrt(squares));
    fflush(stdout);
    return json_pack("{s:f, s:f}", "tokens_per_second", mean, "deviation", sqrt(squares));
}

json_t *bench(rfg_context *ctx, const struct model *m, int64_t chunk, bool graph)
{
    const struct config *c = &m->c;
    if (m->context < PROMPT)
        die("--bench: %lld keys are too few (--context): must be %d at least", (long long)m->context, PROMPT);
    struct engine_params p = {
        .batch = 1, .context = PROMPT, .chunk = chunk < PROMPT ? chunk : PROMPT, .longest = STEPS, .mean = STEPS / 2
    };
    struct engine *e = engine_create(ctx, m, &p);
    int32_t *tokens = allocate(PROMPT, sizeof(*tokens)),
            *table = allocate((size_t)e->cache.per_sequence, sizeof(*table));
    double times[REPEATS + 1];
    for (int64_t i = 0; i < PROMPT; i++)
        tokens[i] = (int32_t)((i * 7919 + 1) % c->vocab);
    if (!cache_take(&e->cache, table, PROMPT))
        die("--bench: the cache has no room for %d keys", PROMPT);
    struct rows *r = engine_next_rows(e);
    for (int64_t i = 0; i < e->cache.per_sequence; i++)
        r->table[i] = table[i];
    e->table_changed = true;
    engine_decode(e); /* of no sequence: loads the kernels */
    if (graph)
        engine_capture(e);
    const char *device = rfg_context_device(ctx);
    puts("| model | memory | device | test | t/s |\n| --- | ---: | --- | --- | ---: |");
    json_t *root = json_pack("{s:s, s:s}", "model", c->name, "device", device);
    for (int i = 0; i <= REPEATS; i++)
        times[i] = run_steps(e, table);
    json_object_set_new(root, "tg128", report(m, device, "tg128", STEPS, times + 1));
    for (int i = 0; i <= REPEATS; i++)
        times[i] = run_prompt(e, tokens, table);
    json_object_set_new(root, "pp512", report(m, device, "pp512", PROMPT, times + 1));
    free(tokens);
    free(table);
    engine_destroy(&e);
    return root;
}
