/* SPDX-License-Identifier: MIT */
#include "decoder.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: rfg-decoder --model DIR | --random NAME [OPTIONS]\n"
    "  --model DIR         config.json and safetensors files of a Llama-, Qwen3-, Qwen3-MoE-, Gemma3- or gpt-oss-like "
    "model\n"
    "  --random NAME       random weights: llama3-8b, qwen3-8b, gemma3-4b, llama3-70b-tp8, small; of experts: "
    "small-moe,\n"
    "                      qwen3-30b-a3b, gpt-oss-20b, deepseek-v3-layer (without attention)\n"
    "  --layers N          of --random: so many layers (as many as the model has)\n"
    "  --device D          cpu, amd:0, nvidia:0, emu:gfx942:304 (default: $RFG_DEVICE, else the first GPU, else cpu)\n"
    "  --prompt TEXT       what to go on from, for models of bytes; more than one: as many sequences\n"
    "  --ids N,N,...       the same as token ids, for any model; the answer is token ids\n"
    "  --tokens N          to generate for each prompt (128)\n"
    "  --batch B           sequences that decode together at most (as many as there are prompts)\n"
    "  --context N         keys that the cache holds of a sequence (2048, or less if the model has less)\n"
    "  --chunk N           tokens of a prompt that go through the layers together (2048)\n"
    "  --temperature T, --top-k K, --top-p P   draw tokens (0: the largest logit; 0: all; 1: all)\n"
    "  --seed S            of draws and of random weights (1)\n"
    "  --no-graph          call each kernel of each step, in place of replaying a graph\n"
    "  --json FILE         times as JSON\n"
    "  --logits FILE       of one prompt: the logits that each token was chosen by, fp32, one row after the other\n"
    "  --ladder            measure each step from portable kernels to graphs with launch overlap: docs/decoder.md\n"
    "  --prompt-tokens N   of the ladder: keys in the cache before the first step (1024)\n"
    "  --steps N           of the ladder: timed decode steps of a rung (32)\n"
    "  --from N            of the ladder: begin with rung N, as docs/decoder.md counts them (1)\n"
    "  --save-baseline FILE, --baseline FILE   of the ladder: keep its times; exit 1 if slower than these by over 10 "
    "%\n";

enum { MOST_PROMPTS = 256 };

struct options {
    const char *model, *random, *device, *json, *logits, *save_baseline, *baseline;
    struct request requests[MOST_PROMPTS];
    const char *texts[MOST_PROMPTS], *ids[MOST_PROMPTS]; /* of a request one is set */
    size_t count;
    int64_t tokens, batch, context, chunk, prompt_tokens, steps, from, layers;
    struct sampling sampling;
    bool no_graph, ladder;
};

static int64_t integer(const char *option, const char *text, int64_t least, int64_t most)
{
    char *end;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (errno || end == text || *end || v < least || v > most)
        die("--%s '%s': must be an integer from %lld to %lld", option, text, (long long)least, (long long)most);
    return v;
}

static double number(const char *option, const char *text, double least, double most)
{
    char *end;
    double v = strtod(text, &end);
    if (end == text || *end || !(v >= least && v <= most))
        die("--%s '%s': must be a number from %g to %g", option, text, least, most);
    return v;
}

static void add_prompt(struct options *o, const char *text, const char *ids)
{
    if (o->count == MOST_PROMPTS)
        die("there are more than %d prompts", MOST_PROMPTS);
    o->texts[o->count] = text;
    o->ids[o->count++] = ids;
}

static void read_options(struct options *o, int argc, char **argv)
{
    static const struct option names[] = { { "model", 1, 0, 'm' },
                                           { "random", 1, 0, 'r' },
                                           { "device", 1, 0, 'd' },
                                           { "prompt", 1, 0, 'p' },
                                           { "ids", 1, 0, 'i' },
                                           { "tokens", 1, 0, 'n' },
                                           { "batch", 1, 0, 'b' },
                                           { "context", 1, 0, 'c' },
                                           { "chunk", 1, 0, 'C' },
                                           { "temperature", 1, 0, 't' },
                                           { "top-k", 1, 0, 'k' },
                                           { "top-p", 1, 0, 'P' },
                                           { "seed", 1, 0, 's' },
                                           { "no-graph", 0, 0, 'g' },
                                           { "json", 1, 0, 'j' },
                                           { "ladder", 0, 0, 'l' },
                                           { "logits", 1, 0, 'o' },
                                           { "prompt-tokens", 1, 0, 'q' },
                                           { "steps", 1, 0, 'S' },
                                           { "from", 1, 0, 'f' },
                                           { "save-baseline", 1, 0, 'B' },
                                           { "baseline", 1, 0, 'L' },
                                           { "layers", 1, 0, 'N' },
                                           { "help", 0, 0, 'h' },
                                           { 0 } };
    *o = (struct options){ .tokens = 128,
                           .chunk = 2048,
                           .prompt_tokens = 1024,
                           .steps = 32,
                           .from = 1,
                           .sampling = { .top_p = 1, .seed = 1 } };
    int index = 0;
    for (int c; (c = getopt_long(argc, argv, "", names, &index)) != -1;) {
        const char *name = c == '?' ? "" : names[index].name;
        switch (c) {
        case 'm':
            o->model = optarg;
            break;
        case 'r':
            o->random = optarg;
            break;
        case 'd':
            o->device = optarg;
            break;
        case 'p':
            add_prompt(o, optarg, NULL);
            break;
        case 'i':
            add_prompt(o, NULL, optarg);
            break;
        case 'n':
            o->tokens = integer(name, optarg, 1, 1 << 24);
            break;
        case 'b':
            o->batch = integer(name, optarg, 1, 4096);
            break;
        case 'c':
            o->context = integer(name, optarg, 1, 1 << 24);
            break;
        case 'C':
            o->chunk = integer(name, optarg, 1, 1 << 20);
            break;
        case 't':
            o->sampling.temperature = number(name, optarg, 0, 100);
            break;
        case 'k':
            o->sampling.top_k = integer(name, optarg, 0, INT32_MAX);
            break;
        case 'P':
            o->sampling.top_p = number(name, optarg, 0, 1);
            break;
        case 's':
            o->sampling.seed = (uint64_t)integer(name, optarg, 0, INT64_MAX);
            break;
        case 'g':
            o->no_graph = true;
            break;
        case 'j':
            o->json = optarg;
            break;
        case 'o':
            o->logits = optarg;
            break;
        case 'l':
            o->ladder = true;
            break;
        case 'q':
            o->prompt_tokens = integer(name, optarg, 1, 1 << 24);
            break;
        case 'S':
            o->steps = integer(name, optarg, 1, 100000);
            break;
        case 'f':
            o->from = integer(name, optarg, 1, LADDER_RUNGS);
            break;
        case 'N':
            o->layers = integer(name, optarg, 1, MOST_LAYERS);
            break;
        case 'B':
            o->save_baseline = optarg;
            break;
        case 'L':
            o->baseline = optarg;
            break;
        case 'h':
            fputs(usage, stdout);
            exit(0);
        default:
            exit(2); /* getopt has said why */
        }
    }
    if (optind < argc)
        die("'%s': no such argument (--help)", argv[optind]);
    if (!o->model == !o->random)
        die("one of --model DIR and --random NAME must be given (--help)");
    if (o->layers && !o->random)
        die("--layers is --random's");
    if ((o->baseline || o->save_baseline) && !o->ladder)
        die("--baseline and --save-baseline are --ladder's");
    if (o->logits && (o->ladder || o->count != 1))
        die("--logits: there must be one prompt");
}

/* ---- prompts -------------------------------------------------------------------------------------------------------
 */

/* Bytes of the text, or numbers between commas, as token ids. */
static void read_prompt(struct request *q, const struct config *c, const char *text, const char *ids)
{
    int32_t *tokens = allocate(strlen(text ? text : ids) + 1, sizeof(*tokens));
    q->prompt = tokens;
    if (text && !c->bytes)
        die("--prompt: the model's tokens aren't bytes (\"tokenizer\": \"bytes\" in its config.json): give --ids");
    for (; text && *text; text++)
        tokens[q->count++] = (unsigned char)*text;
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

struct printer {
    struct engine *e;
    FILE *logits; /* NULL: not asked for */
    float *row;
    bool bytes, stream;
    size_t count;
    struct {
        int32_t *tokens;
        int64_t count;
    } of[MOST_PROMPTS];
};

static void print_token(bool bytes, int32_t token, bool first)
{
    if (!bytes)
        printf(first ? "%d" : ",%d", (int)token);
    else
        putchar((token >= ' ' && token < 127) || token == '\n' ? token : '?'); /* ASCII is safe on any terminal */
}

/* One sequence is printed as it comes, several one after the other at the end. */
static void take_token(void *user, size_t request, int32_t token)
{
    struct printer *p = user;
    if (p->stream) {
        print_token(p->bytes, token, p->of[0].count == 0);
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
            print_token(p->bytes, p->of[i].tokens[n], n == 0);
        putchar('\n');
    }
    if (p->stream)
        putchar('\n');
}

/* ---- the program ------------------------------------------------------------------------------------------------ */

static void write_json(const char *path, json_t *root)
{
    if (!root || json_dump_file(root, path, JSON_INDENT(2)) != 0)
        die("--json %s: can't be written: %m", path);
    json_decref(root);
}

static void run_prompts(rfg_context *ctx, const struct model *m, struct options *o)
{
    struct printer out = { .bytes = m->c.bytes && o->texts[0], .stream = o->count == 1, .count = o->count };
    struct engine_params p = { .batch = o->batch ? o->batch : (int64_t)o->count,
                               .context = m->context,
                               .chunk = o->chunk < m->context ? o->chunk : m->context,
                               .sampling = o->sampling };
    for (size_t i = 0; i < o->count; i++) {
        int64_t prompt = o->requests[i].count, all = prompt + o->requests[i].tokens;
        p.longest = all > p.longest ? all : p.longest;
        p.mean += (prompt + all) / 2 / (int64_t)o->count;
    }
    struct engine *e = engine_create(ctx, m, &p);
    for (size_t i = 0; i < o->count; i++)
        out.of[i].tokens = allocate((size_t)o->tokens, sizeof(int32_t));
    if (o->logits) {
        out.e = e;
        out.row = allocate((size_t)m->c.vocab, sizeof(*out.row));
        out.logits = fopen(o->logits, "wb");
        if (!out.logits)
            die("--logits %s: can't be written: %m", o->logits);
    }
    struct times t;
    generate(e, o->requests, o->count, !o->no_graph, take_token, &out, &t);
    print_all(&out);
    fflush(stdout);
    if (out.logits && (ferror(out.logits) | fclose(out.logits)))
        die("--logits %s: can't be written: %m", o->logits);
    free(out.row);
    fprintf(stderr,
            "%s on %s: %lld tokens in %.2f s, %.1f a second; to the first one %.1f ms; between tokens p50 %.2f, p95 "
            "%.2f, p99 %.2f ms\n",
            m->c.name, rfg_context_device(ctx), (long long)t.tokens, t.seconds, (double)t.tokens / t.seconds,
            1e3 * percentile(t.first, t.firsts, 0.5), 1e3 * percentile(t.between, t.betweens, 0.5),
            1e3 * percentile(t.between, t.betweens, 0.95), 1e3 * percentile(t.between, t.betweens, 0.99));
    if (o->json) {
        json_t *root = times_json(&t);
        json_object_set_new(root, "model", json_string(m->c.name));
        json_object_set_new(root, "device", json_string(rfg_context_device(ctx)));
        write_json(o->json, root);
    }
    times_free(&t);
    for (size_t i = 0; i < o->count; i++)
        free(out.of[i].tokens);
    engine_destroy(&e);
}

int main(int argc, char **argv)
{
    static struct options o;
    static struct config c;
    read_options(&o, argc, argv);
    if (o.random)
        config_builtin(&c, o.random, o.layers);
    else
        config_read(&c, o.model);
    int64_t context = o.context ? o.context : 2048 < c.positions ? 2048 : c.positions;
    if (context > c.positions)
        die("--context %lld: the model has %lld positions", (long long)context, (long long)c.positions);
    for (size_t i = 0; i < o.count; i++) {
        struct request *q = &o.requests[i];
        read_prompt(q, &c, o.texts[i], o.ids[i]);
        q->tokens = o.tokens;
        q->seed = o.sampling.seed + i;
        request_check(q, i, &c, context);
    }
    if (o.count == 0 && !o.ladder)
        die("there is no --prompt and no --ids");
    struct weights *w = o.random ? weights_random(o.sampling.seed) : weights_open(o.model);
    rfg_context *ctx;
    CHECK(rfg_context_create(&ctx, &(rfg_context_params){ .device = o.device }));
    struct model *m = model_create(ctx, &c, w, context);
    weights_close(w);
    if (c.no_attention)
        fprintf(stderr,
                "%s: without attention: layers are a norm, a router and experts; tokens don't see one another\n",
                c.name);
    int code = 0;
    if (o.ladder)
        code = ladder(ctx, m,
                      &(struct ladder_params){ .json = o.json,
                                               .save_baseline = o.save_baseline,
                                               .baseline = o.baseline,
                                               .batch = o.batch ? o.batch : 1,
                                               .prompt = o.prompt_tokens,
                                               .steps = o.steps,
                                               .from = o.from,
                                               .chunk = o.chunk });
    else
        run_prompts(ctx, m, &o);
    for (size_t i = 0; i < o.count; i++)
        free((void *)o.requests[i].prompt);
    model_destroy(ctx, &m);
    rfg_context_destroy(&ctx);
    return code;
}
