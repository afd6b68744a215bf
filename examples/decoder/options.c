/* SPDX-License-Identifier: MIT
 *
 * The command line. */
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { FLAG, TEXT, INTEGER, NUMBER, PROMPT, IDS };

#define AT(member) offsetof(struct options, member)
/* What has no help is in the line before. */
static const struct {
    const char *name, *value, *help;
    enum kind kind;
    size_t at;
    int64_t least, most;
} table[] = {
    { "model", "PATH",
      "a folder with config.json and safetensors files of a Llama-, Qwen2-, Qwen3-, Qwen3-MoE-, Gemma3-, gpt-oss- or\n"
      "DeepSeek-V3-like model, or a .gguf file of the first six",
      TEXT, AT(model) },
    { "random", "NAME",
      "random weights: llama3-8b, qwen3-8b, gemma3-4b, llama3-70b, llama3-70b-tp8, small; of experts: small-moe,\n"
      "qwen3-30b-a3b, gpt-oss-20b, small-mla, deepseek-v3-layer, kimi-k2-layer, glm5-layer; of the last three with "
      "-tp8 one of\neight "
      "ranks",
      TEXT, AT(random) },
    { "layers", "N", "of --random: so many layers (as many as the model has)", INTEGER, AT(layers), 1, MOST_LAYERS },
    { "blocks", "TYPE",
      "of --random: matrices but experts are a .gguf file's blocks: q4_0, q8_0, q4_k, q5_k, q6_k, or as Q4_K_M mixes "
      "them:\n"
      "q4_k_m",
      TEXT, AT(blocks) },
    { "device", "D", "cpu, amd:0, nvidia:0, emu:gfx942:304 (default: $RFG_DEVICE, else the first GPU, else cpu)", TEXT,
      AT(device) },
    { "tp", "N",
      "tensor parallelism: N ranks, each a thread on a device of its own: cpu, amd:0, amd:1, ... --device D,D,... has\n"
      "one for each rank (1)",
      INTEGER, AT(tp), 1, RFG_COMM_MAX_RANKS },
    { "apart", NULL, "of ranks: all-reduce, and add and norm, by two launches in place of one", FLAG, AT(apart) },
    { "prompt", "TEXT", "what to go on from, for .gguf files and models of bytes; more than one: as many sequences",
      PROMPT },
    { "ids", "N,N,...", "the same as token ids, for any model; the answer is token ids", IDS },
    { "tokens", "N", "to generate for each prompt (128)", INTEGER, AT(tokens), 1, 1 << 24 },
    { "batch", "B", "sequences that decode together at most (as many as there are prompts)", INTEGER, AT(batch), 1,
      4096 },
    { "context", "N", "keys that the cache holds of a sequence (2048, or less if the model has less)", INTEGER,
      AT(context), 1, 1 << 24 },
    { "chunk", "N", "tokens of a prompt that go through the layers together (2048)", INTEGER, AT(chunk), 1, 1 << 20 },
    { "expand", "N", "DeepSeek: chunks of N tokens and more attend to keys of heads, made of latents (256)", INTEGER,
      AT(expand), 1, 1 << 20 },
    { "gate", "N", "up to N rows choose their experts in one launch, norm and router included (0)", INTEGER, AT(gate),
      0, 64 },
    { "temperature", "T, --top-k K, --top-p P", "draw tokens (0: the largest logit; 0: all; 1: all)", NUMBER,
      AT(sampling.temperature), 0, 100 },
    { "top-k", "K", NULL, INTEGER, AT(sampling.top_k), 0, INT32_MAX },
    { "top-p", "P", NULL, NUMBER, AT(sampling.top_p), 0, 1 },
    { "seed", "S", "of draws and of random weights (1)", INTEGER, AT(sampling.seed), 0, INT64_MAX },
    { "no-graph", NULL, "call each kernel of each step, in place of replaying a graph", FLAG, AT(no_graph) },
    { "json", "FILE", "times as JSON", TEXT, AT(json) },
    { "logits", "FILE", "of one prompt: the logits that each token was chosen by, fp32, one row after the other", TEXT,
      AT(logits) },
    { "ladder", NULL, "measure each step from portable kernels to graphs with launch overlap: docs/decoder.md", FLAG,
      AT(ladder) },
    { "bench", NULL, "llama-bench's pp512 and tg128: tokens a second of a prompt and of decode", FLAG, AT(bench) },
    { "prompt-tokens", "N", "of the ladder: keys in the cache before the first step (1024)", INTEGER, AT(prompt_tokens),
      1, 1 << 24 },
    { "steps", "N", "of the ladder: timed decode steps of a rung (32)", INTEGER, AT(steps), 1, 100000 },
    { "from", "N", "of the ladder: begin with rung N, as docs/decoder.md counts them (1)", INTEGER, AT(from), 1,
      LADDER_RUNGS },
    { "calls", NULL, "of the ladder: also time each operator call of a layer, alone and left out", FLAG, AT(calls) },
    { "save-baseline", "FILE, --baseline FILE",
      "of the ladder: keep its times; exit 1 if slower than these by over 10 %", TEXT, AT(save_baseline) },
    { "baseline", "FILE", NULL, TEXT, AT(baseline) },
};
enum { OPTIONS = sizeof(table) / sizeof(table[0]), FIRST = 256 /* what getopt_long() calls the first: no '?' */ };

static void print_help(void)
{
    puts("usage: rfg-decoder --model PATH | --random NAME [OPTIONS]");
    for (int i = 0; i < OPTIONS; i++) {
        char label[64];
        snprintf(label, sizeof(label), "--%s%s%s", table[i].name, table[i].value ? " " : "",
                 table[i].value ? table[i].value : "");
        for (const char *c = table[i].help; c; c = strchr(c, '\n') ? strchr(c, '\n') + 1 : NULL)
            printf("  %-17s   %.*s\n", c == table[i].help ? label : "", (int)strcspn(c, "\n"), c);
    }
}

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

static void take(struct options *o, int i, const char *text)
{
    const char *name = table[i].name;
    char *to = (char *)o + table[i].at;
    switch (table[i].kind) {
    case FLAG:
        *(bool *)to = true;
        break;
    case TEXT:
        *(const char **)to = text;
        break;
    case INTEGER:
        *(int64_t *)to = integer(name, text, table[i].least, table[i].most);
        break;
    case NUMBER:
        *(double *)to = number(name, text, (double)table[i].least, (double)table[i].most);
        break;
    case PROMPT:
        add_prompt(o, text, NULL);
        break;
    case IDS:
        add_prompt(o, NULL, text);
        break;
    }
}

void options_read(struct options *o, int argc, char **argv)
{
    struct option names[OPTIONS + 2] = { { "help", no_argument, NULL, FIRST + OPTIONS } };
    for (int i = 0; i < OPTIONS; i++)
        names[i + 1] =
            (struct option){ table[i].name, table[i].value ? required_argument : no_argument, NULL, FIRST + i };
    *o = (struct options){ .tokens = 128,
                           .chunk = 2048,
                           .prompt_tokens = 1024,
                           .steps = 32,
                           .from = 1,
                           .tp = 1,
                           .sampling = { .top_p = 1, .seed = 1 } };
    for (int c; (c = getopt_long(argc, argv, "", names, NULL)) != -1;) {
        if (c == '?')
            exit(2); /* getopt has said why */
        if (c == FIRST + OPTIONS) {
            print_help();
            exit(0);
        }
        take(o, c - FIRST, optarg);
    }
    if (optind < argc)
        die("'%s': no such argument (--help)", argv[optind]);
    if (!o->model == !o->random)
        die("one of --model PATH and --random NAME must be given (--help)");
    if (o->apart && o->tp == 1)
        die("--apart is of --tp");
    if (o->bench && o->tp > 1)
        die("--bench: must be without --tp");
    if ((o->layers || o->blocks) && !o->random)
        die("%s is --random's", o->layers ? "--layers" : "--blocks");
    if ((o->baseline || o->save_baseline) && !o->ladder)
        die("--baseline and --save-baseline are --ladder's");
    if (o->bench && o->ladder)
        die("--bench and --ladder: must be one of them");
    if (o->logits && (o->ladder || o->bench || o->count != 1))
        die("--logits: there must be one prompt");
}
