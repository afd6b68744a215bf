/* SPDX-License-Identifier: MIT */
#include "options.h"
#include "tokens.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- prompts ----------------------------------------------------------------------------------------------------- */

/* Token ids between commas. */
static void read_ids(struct request *q, const char *ids)
{
    int32_t *tokens = allocate(strlen(ids) + 1, sizeof(*tokens));
    q->prompt = tokens;
    while (ids) {
        char *end;
        errno = 0;
        long long v = strtoll(ids, &end, 10);
        if (errno || end == ids || (*end && *end != ',') || v < 0 || v > INT32_MAX)
            die("--ids '%s': must be token ids between commas", ids);
        tokens[q->count++] = (int32_t)v;
        ids = *end ? end + 1 : NULL;
    }
}

/* What the model's tokenizer makes of text. t NULL: its tokens are bytes. */
static void read_text(struct request *q, const struct tokens *t, const char *text)
{
    size_t size = strlen(text);
    if (t) {
        q->prompt = tokens_encode(t, text, size, &q->count);
        return;
    }
    int32_t *tokens = allocate(size + 1, sizeof(*tokens));
    q->prompt = tokens;
    for (; *text; text++)
        tokens[q->count++] = (unsigned char)*text;
}

/* The tokenizer, if there is text. The file stays open. NULL: tokens are bytes, or nobody needs one. */
static struct tokens *open_tokens(const struct options *o, const struct config *c, struct gguf **file)
{
    bool texts = false;
    char error[GGUF_ERROR];
    for (size_t i = 0; i < o->count; i++)
        texts = texts || o->texts[i];
    if (!texts || c->bytes)
        return NULL;
    if (o->random || !is_gguf(o->model))
        die("--prompt: the model's tokens aren't bytes (\"tokenizer\": \"bytes\" in its config.json), and it is no "
            ".gguf "
            "file: give --ids");
    *file = open_gguf(o->model);
    struct tokens *t = tokens_open(*file, o->model, error);
    if (!t)
        die("%s", error);
    return t;
}

struct printer {
    struct engine *e;
    FILE *logits; /* NULL: not asked for */
    float *row;
    const struct tokens *tokens; /* NULL: bytes, if they are text */
    bool text, stream;
    size_t count;
    struct {
        int32_t *tokens;
        int64_t count;
    } of[MOST_PROMPTS];
};

/* Bytes of ASCII that are safe on any terminal, and of what a tokenizer makes those of other characters. */
static void print_token(const struct printer *p, int32_t token, bool first)
{
    char byte = (char)token;
    if (!p->text) {
        printf(first ? "%d" : ",%d", (int)token);
        return;
    }
    struct gguf_text text = p->tokens ? tokens_decode(p->tokens, token) : (struct gguf_text){ &byte, 1 };
    for (size_t i = 0; i < text.size; i++) {
        unsigned char c = (unsigned char)text.at[i];
        putchar((c >= ' ' && c < 127) || c == '\n' || (p->tokens && (c >= 128 || c == '\t')) ? c : '?');
    }
}

/* One sequence is printed as it comes, several one after the other at the end. */
static void take_token(void *user, size_t request, int32_t token)
{
    struct printer *p = user;
    if (p->stream) {
        print_token(p, token, p->of[0].count == 0);
        fflush(stdout);
    }
    if (p->logits) {
        engine_logits(p->e, 0, p->row);
        fwrite(p->row, sizeof(*p->row), (size_t)p->e->m->c.vocab, p->logits);
    }
    p->of[request].tokens[p->of[request].count++] = token;
}

static void print_all(const struct printer *p)
{
    for (size_t i = 0; i < p->count && !p->stream; i++) {
        printf("[%zu] ", i);
        for (int64_t n = 0; n < p->of[i].count; n++)
            print_token(p, p->of[i].tokens[n], n == 0);
        putchar('\n');
    }
    if (p->stream)
        putchar('\n');
}

/* ---- the program ------------------------------------------------------------------------------------------------ */

/* path NULL: nobody asked for it. */
static void write_json(const char *path, json_t *root)
{
    if (path && (!root || json_dump_file(root, path, JSON_INDENT(2)) != 0))
        die("--json %s: can't be written: %m", path);
    json_decref(root);
}

static void take_none(void *user, size_t request, int32_t token)
{
    (void)user, (void)request, (void)token;
}

static void open_logits(struct printer *out, struct engine *e, const char *path)
{
    out->e = e;
    out->row = allocate((size_t)e->m->c.vocab, sizeof(*out->row));
    out->logits = fopen(path, "wb");
    if (!out->logits)
        die("--logits %s: can't be written: %m", path);
}

static void say_times(const rfg_context *ctx, const struct model *m, const struct options *o, const struct times *t)
{
    char ranks[32] = "";
    if (o->tp > 1)
        snprintf(ranks, sizeof(ranks), " and %d more", (int)o->tp - 1);
    fprintf(stderr,
            "%s on %s%s: %lld tokens in %.2f s, %.1f a second; to the first one %.1f ms; between tokens p50 %.2f, p95 "
            "%.2f, p99 %.2f ms\n",
            m->c.name, rfg_context_device(ctx), ranks, (long long)t->tokens, t->seconds, (double)t->tokens / t->seconds,
            1e3 * percentile(t->first, t->firsts, 0.5), 1e3 * percentile(t->between, t->betweens, 0.5),
            1e3 * percentile(t->between, t->betweens, 0.95), 1e3 * percentile(t->between, t->betweens, 0.99));
    if (o->json) {
        json_t *root = times_json(t);
        json_object_set_new(root, "model", json_string(m->c.name));
        json_object_set_new(root, "device", json_string(rfg_context_device(ctx)));
        json_object_set_new(root, "ranks", json_integer(o->tp));
        write_json(o->json, root);
    }
}

/* Each rank generates the tokens; the first one says them. */
static void run_prompts(rfg_context *ctx, const struct model *m, const struct tokens *tokens, const struct options *o,
                        struct team *team)
{
    bool says = m->c.shard.rank == 0;
    struct printer out = { .tokens = tokens, .text = o->texts[0], .stream = o->count == 1, .count = o->count };
    struct engine_params p = { .batch = o->batch ? o->batch : (int64_t)o->count,
                               .context = m->context,
                               .chunk = o->chunk < m->context ? o->chunk : m->context,
                               .expand = o->expand,
                               .gate = o->gate,
                               .sampling = o->sampling,
                               .team = team,
                               .apart = o->apart };
    for (size_t i = 0; i < o->count; i++) {
        int64_t prompt = o->requests[i].count, all = prompt + o->requests[i].tokens;
        p.longest = all > p.longest ? all : p.longest;
        p.mean += (prompt + all) / 2 / (int64_t)o->count;
    }
    struct engine *e = engine_create(ctx, m, &p);
    for (size_t i = 0; i < o->count; i++)
        out.of[i].tokens = allocate((size_t)o->tokens, sizeof(int32_t));
    if (o->logits && says)
        open_logits(&out, e, o->logits);
    struct times t;
    generate(e, o->requests, o->count, !o->no_graph, says ? take_token : take_none, &out, &t);
    if (says) {
        print_all(&out);
        fflush(stdout);
        if (out.logits && (ferror(out.logits) | fclose(out.logits)))
            die("--logits %s: can't be written: %m", o->logits);
        say_times(ctx, m, o, &t);
    }
    free(out.row);
    times_free(&t);
    for (size_t i = 0; i < o->count; i++)
        free(out.of[i].tokens);
    engine_destroy(&e);
}

/* ---- ranks ------------------------------------------------------------------------------------------------------- */

struct program {
    struct options o;
    struct config c;
    int64_t context;
    const struct tokens *tokens; /* NULL: tokens are bytes, or nobody needs them */
    char devices[RFG_COMM_MAX_RANKS][64];
    int code;
};

static void create_context(rfg_context **ctx, const char *device)
{
    CHECK(rfg_context_create(ctx, &(rfg_context_params){ .size = sizeof(rfg_context_params), .device = device }));
}

/* One name for each rank; of one GPU's name its rank's are counted from there. */
static void name_devices(struct program *p)
{
    int n = 0, ranks = (int)p->o.tp;
    const char *given = p->o.device, *at = given;
    rfg_context *first = NULL;
    if (!given) {
        create_context(&first, NULL);
        at = rfg_context_device(first);
    }
    for (; at && n < ranks; n++) {
        snprintf(p->devices[n], sizeof(p->devices[n]), "%.*s", (int)strcspn(at, ","), at);
        at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL;
    }
    if (at || (n > 1 && n < ranks))
        die("--device %s: must be one, or one for each of --tp %d", given, ranks);
    rfg_context_destroy(&first);
    bool counts = !strncmp(p->devices[0], "amd:", 4) || !strncmp(p->devices[0], "nvidia:", 7);
    for (; n < ranks; n++) {
        int kind = (int)strcspn(p->devices[0], ":");
        if (counts)
            snprintf(p->devices[n], sizeof(p->devices[n]), "%.*s:%d", kind, p->devices[0],
                     atoi(p->devices[0] + kind + 1) + n);
        else
            memcpy(p->devices[n], p->devices[0], sizeof(p->devices[n]));
    }
}

static void run(void *user, struct team *team, int rank)
{
    struct program *p = user;
    struct options own = p->o, *o = &own;
    struct config c = p->c;
    if (team)
        config_shard(&c, rank, (int)o->tp);
    struct weights *w = o->random ? weights_random(o->sampling.seed) : weights_open(o->model);
    if (o->blocks)
        weights_random_blocks(w, o->blocks, c.layers);
    rfg_context *ctx;
    create_context(&ctx, o->tp == 1 ? o->device : p->devices[rank]);
    struct model *m = model_create(ctx, &c, w, p->context);
    int64_t bytes, decoded = weights_decoded(w, &bytes);
    if (decoded)
        fprintf(stderr, "decoded to %s, %.1f MB: %lld tensors of blocks, which operators here don't take as they are\n",
                rfg_dtype_name(m->dtype), (double)bytes / 1e6, (long long)decoded);
    weights_close(w);
    if (o->ladder) {
        int code = ladder(ctx, m,
                          &(struct ladder_params){ .json = o->json,
                                                   .save_baseline = o->save_baseline,
                                                   .baseline = o->baseline,
                                                   .batch = o->batch ? o->batch : 1,
                                                   .prompt = o->prompt_tokens,
                                                   .steps = o->steps,
                                                   .from = o->from,
                                                   .chunk = o->chunk,
                                                   .expand = o->expand,
                                                   .gate = o->gate,
                                                   .team = team,
                                                   .apart = o->apart,
                                                   .calls = o->calls });
        p->code = rank == 0 ? code : p->code;
    } else if (o->bench) {
        write_json(o->json, bench(ctx, m, o->chunk, !o->no_graph));
    } else {
        run_prompts(ctx, m, p->tokens, o, team);
    }
    model_destroy(ctx, &m);
    rfg_context_destroy(&ctx);
}

int main(int argc, char **argv)
{
    static struct program p;
    struct options *o = &p.o;
    options_read(o, argc, argv);
    if (o->random)
        config_builtin(&p.c, o->random, o->layers);
    else
        config_read(&p.c, o->model);
    if (o->tp > 1) { /* what can't be spread is said once */
        struct config c = p.c;
        if (o->blocks || (o->model && is_gguf(o->model)))
            die("--tp %d: must be without blocks, of .gguf files or of --blocks", (int)o->tp);
        config_shard(&c, 0, (int)o->tp);
    }
    p.context = o->context ? o->context : 2048 < p.c.positions ? 2048 : p.c.positions;
    if (p.context > p.c.positions)
        die("--context %lld: the model has %lld positions", (long long)p.context, (long long)p.c.positions);
    struct gguf *file = NULL;
    struct tokens *tokens = open_tokens(o, &p.c, &file);
    p.tokens = tokens;
    for (size_t i = 0; i < o->count; i++) {
        struct request *q = &o->requests[i];
        if (o->texts[i])
            read_text(q, tokens, o->texts[i]);
        else
            read_ids(q, o->ids[i]);
        q->tokens = o->tokens;
        q->seed = o->sampling.seed + i;
        request_check(q, i, &p.c, p.context);
    }
    if (o->count == 0 && !o->ladder && !o->bench)
        die("there is no --prompt and no --ids");
    if (o->tp > 1) {
        name_devices(&p);
        team_run((int)o->tp, run, &p);
    } else {
        run(&p, NULL, 0);
    }
    if (tokens)
        tokens_close(tokens);
    if (file)
        gguf_close(file);
    for (size_t i = 0; i < o->count; i++)
        free((void *)o->requests[i].prompt);
    return p.code;
}
