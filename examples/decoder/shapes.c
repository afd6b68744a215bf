/* SPDX-License-Identifier: MIT
 *
 * The built-in shapes. */
#include "decoder.h"

#include <stdio.h>
#include <string.h>

#define ROPE(...)                                                                                                      \
    {                                                                                                                  \
        .size = sizeof(rfg_rope_table_params), __VA_ARGS__                                                             \
    }
#define LLAMA3_ROPE                                                                                                    \
    ROPE(.scaling = RFG_ROPE_LLAMA3, .theta = 500000, .factor = 8, .low_freq_factor = 1, .high_freq_factor = 4,        \
         .original = 8192)

/* gpt-oss': config.json says "truncate": false. */
#define GPT_OSS_ROPE                                                                                                   \
    ROPE(.scaling = RFG_ROPE_YARN, .theta = 150000, .factor = 32, .original = 4096, .beta_fast = 32, .beta_slow = 1,   \
         .untruncated = 1)

#define SMALL                                                                                                          \
    .hidden = 256, .heads = 4, .kv_heads = 2, .head_dim = 64, .vocab = 256, .positions = 4096, .eps = 1e-5f,           \
    .rope = ROPE(.theta = 10000), .tied = true, .bytes = true

/* The files of meta-llama/Llama-3.1-8B and 70B, Qwen/Qwen3-8B, google/gemma-3-4b-it, Qwen/Qwen3-30B-A3B,
 * openai/gpt-oss-20b, deepseek-ai/DeepSeek-V3. Of the last one it is a layer's experts, without attention, with a
 * vocabulary so small that embedding and lm_head don't count. */
static const struct config shapes[] = {
    { .name = "llama3-8b",
      .hidden = 4096,
      .intermediate = 14336,
      .layers = 32,
      .heads = 32,
      .kv_heads = 8,
      .head_dim = 128,
      .vocab = 128256,
      .positions = 131072,
      .eps = 1e-5f,
      .rope = LLAMA3_ROPE },
    { .name = "qwen3-8b",
      .hidden = 4096,
      .intermediate = 12288,
      .layers = 36,
      .heads = 32,
      .kv_heads = 8,
      .head_dim = 128,
      .vocab = 151936,
      .positions = 40960,
      .eps = 1e-6f,
      .rope = ROPE(.theta = 1e6),
      .qk_norm = true },
    { .name = "gemma3-4b",
      .hidden = 2560,
      .intermediate = 10240,
      .layers = 34,
      .heads = 8,
      .kv_heads = 4,
      .head_dim = 256,
      .vocab = 262208,
      .positions = 131072,
      .eps = 1e-6f,
      .rope = ROPE(.scaling = RFG_ROPE_LINEAR, .theta = 1e6, .factor = 8),
      .sliding_rope = ROPE(.theta = 10000),
      .slides = true,
      .window = 1024,
      .qk_norm = true,
      .gemma = true,
      .tied = true,
      .act = RFG_ACT_GELU_TANH,
      .attention_scale = 1 / 16.f },
    { .name = "llama3-70b-tp8",
      .hidden = 8192,
      .intermediate = 28672 / 8,
      .layers = 80,
      .heads = 64 / 8,
      .kv_heads = 8 / 8,
      .head_dim = 128,
      .vocab = 128256 / 8,
      .positions = 131072,
      .eps = 1e-5f,
      .rope = LLAMA3_ROPE },
    { .name = "qwen3-30b-a3b",
      .hidden = 2048,
      .layers = 48,
      .heads = 32,
      .kv_heads = 4,
      .head_dim = 128,
      .vocab = 151936,
      .positions = 40960,
      .eps = 1e-6f,
      .rope = ROPE(.theta = 1e6),
      .qk_norm = true,
      .moe = { .experts = 128, .top = 8, .intermediate = 768, .renormalise = true } },
    { .name = "gpt-oss-20b",
      .hidden = 2880,
      .layers = 24,
      .heads = 64,
      .kv_heads = 8,
      .head_dim = 64,
      .vocab = 201088,
      .positions = 131072,
      .eps = 1e-5f,
      .rope = GPT_OSS_ROPE,
      .sliding_rope = GPT_OSS_ROPE,
      .slides = true,
      .window = 128,
      .gpt_oss = true,
      .act = RFG_ACT_SWIGLUOAI,
      .moe = { .experts = 32,
               .top = 4,
               .intermediate = 2880,
               .scoring = RFG_MOE_TOPK_SOFTMAX,
               .format = EXPERTS_MXFP4,
               .limit = 7 } },
    { .name = "deepseek-v3-layer",
      .hidden = 7168,
      .layers = 1,
      .heads = 1,
      .kv_heads = 1,
      .head_dim = 64,
      .vocab = 1024,
      .positions = 163840,
      .eps = 1e-6f,
      .rope = ROPE(.theta = 10000),
      .deepseek = true,
      .no_attention = true,
      .moe = { .experts = 256,
               .top = 8,
               .intermediate = 2048,
               .shared = 1,
               .groups = 8,
               .topk_groups = 4,
               .scoring = RFG_MOE_SIGMOID,
               .renormalise = true,
               .scale = 2.5f,
               .format = EXPERTS_FP8_BLOCKS } },
    { .name = "small", .intermediate = 576, .layers = 6, SMALL },
    { .name = "small-moe",
      .layers = 4,
      SMALL,
      .moe = { .experts = 16, .top = 4, .intermediate = 128, .renormalise = true } },
};
enum { SHAPES = sizeof(shapes) / sizeof(shapes[0]) };

_Noreturn static void unknown(const char *name)
{
    char names[256] = "";
    for (int i = 0; i < SHAPES; i++) {
        strncat(names, !i ? "" : i + 1 == SHAPES ? " or " : ", ", sizeof(names) - strlen(names) - 1);
        strncat(names, shapes[i].name, sizeof(names) - strlen(names) - 1);
    }
    die("--random '%s': must be %s", name, names);
}

void config_builtin(struct config *c, const char *name, int64_t layers)
{
    int i = 0;
    while (i < SHAPES && strcmp(shapes[i].name, name))
        i++;
    if (i == SHAPES)
        unknown(name);
    *c = shapes[i];
    if (layers && layers != c->layers) {
        c->layers = layers;
        snprintf(c->name, sizeof(c->name), "%s, %lld layers", name, (long long)layers);
    }
    for (int64_t n = 0; c->slides && n < c->layers; n++)
        c->sliding[n] = (n + 1) % (c->gemma ? 6 : 2) != 0;
    config_check(c, "--random");
}
