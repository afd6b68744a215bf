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
#define LLAMA3 .head_dim = 128, .positions = 131072, .eps = 1e-5f, .rope = LLAMA3_ROPE

/* gpt-oss': config.json says "truncate": false. */
#define GPT_OSS_ROPE                                                                                                   \
    ROPE(.scaling = RFG_ROPE_YARN, .theta = 150000, .factor = 32, .original = 4096, .beta_fast = 32, .beta_slow = 1,   \
         .untruncated = 1)

#define SMALL                                                                                                          \
    .hidden = 256, .heads = 4, .kv_heads = 2, .head_dim = 64, .vocab = 256, .positions = 4096, .eps = 1e-5f,           \
    .rope = ROPE(.theta = 10000), .tied = true, .bytes = true

/* What layers with MLA and experts share. The vocabulary is so small that embedding and lm_head don't count. */
#define LATENT_LAYER .layers = 1, .kv_heads = 1, .head_dim = 64, .vocab = 1024, .eps = 1e-6f, .deepseek = true
#define LATENT_EXPERTS                                                                                                 \
    .top = 8, .intermediate = 2048, .shared = 1, .scoring = RFG_MOE_SIGMOID, .renormalise = true,                      \
    .format = EXPERTS_FP8_BLOCKS
#define LATENT_ROPE(...) ROPE(.scaling = RFG_ROPE_YARN, .original = 4096, .mscale = 1, .mscale_all_dim = 1, __VA_ARGS__)

/* The files of meta-llama/Llama-3.1-8B and 70B, Qwen/Qwen3-8B, google/gemma-3-4b-it, Qwen/Qwen3-30B-A3B,
 * openai/gpt-oss-20b, deepseek-ai/DeepSeek-V3, moonshotai/Kimi-K2-Instruct and zai-org/GLM-5. Of the last three it is a
 * layer that has experts, in DeepSeek's format, GLM's without its indexer. */
static const struct config shapes[] = {
    { .name = "llama3-8b",
      .hidden = 4096,
      .intermediate = 14336,
      .layers = 32,
      .heads = 32,
      .kv_heads = 8,
      .vocab = 128256,
      LLAMA3 },
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
      .plus = true,
      .tied = true,
      .act = RFG_ACT_GELU_TANH,
      .attention_scale = 1 / 16.f },
    { .name = "llama3-70b",
      .hidden = 8192,
      .intermediate = 28672,
      .layers = 80,
      .heads = 64,
      .kv_heads = 8,
      .vocab = 128256,
      LLAMA3 },
    { .name = "llama3-70b-tp8",
      .hidden = 8192,
      .intermediate = 28672 / 8,
      .layers = 80,
      .heads = 64 / 8,
      .kv_heads = 8 / 8,
      .vocab = 128256 / 8,
      LLAMA3 },
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
      .biased = true,
      .act = RFG_ACT_SWIGLUOAI,
      .moe = { .experts = 32,
               .top = 4,
               .intermediate = 2880,
               .scoring = RFG_MOE_TOPK_SOFTMAX,
               .format = EXPERTS_MXFP4,
               .limit = 7 } },
    { .name = "deepseek-v3-layer",
      .hidden = 7168,
      .heads = 128,
      .positions = 163840,
      .rope = LATENT_ROPE(.theta = 10000, .factor = 40, .beta_fast = 32, .beta_slow = 1),
      .mla = { .q_rank = 1536, .kv_rank = 512, .nope = 128, .rope = 64, .values = 128 },
      .moe = { .experts = 256, .groups = 8, .topk_groups = 4, .scale = 2.5f, LATENT_EXPERTS },
      LATENT_LAYER },
    { .name = "kimi-k2-layer",
      .hidden = 7168,
      .heads = 64,
      .positions = 131072,
      .rope = LATENT_ROPE(.theta = 50000, .factor = 32, .beta_fast = 1, .beta_slow = 1),
      .mla = { .q_rank = 1536, .kv_rank = 512, .nope = 128, .rope = 64, .values = 128 },
      .moe = { .experts = 384, .scale = 2.827f, LATENT_EXPERTS },
      LATENT_LAYER },
    { .name = "glm5-layer",
      .hidden = 6144,
      .heads = 64,
      .positions = 202752,
      .rope = ROPE(.theta = 1e6),
      .mla = { .q_rank = 2048, .kv_rank = 512, .nope = 192, .rope = 64, .values = 256 },
      .moe = { .experts = 256, .scale = 2.5f, LATENT_EXPERTS },
      LATENT_LAYER },
    { .name = "small", .intermediate = 576, .layers = 6, SMALL },
    { .name = "small-moe",
      .layers = 4,
      SMALL,
      .moe = { .experts = 16, .top = 4, .intermediate = 128, .renormalise = true } },
    { .name = "small-mla",
      .hidden = 256,
      .intermediate = 576,
      .layers = 4,
      .heads = 4,
      .kv_heads = 1,
      .head_dim = 32,
      .vocab = 256,
      .positions = 4096,
      .eps = 1e-5f,
      .rope = ROPE(.theta = 10000),
      .tied = true,
      .bytes = true,
      .deepseek = true,
      .mla = { .q_rank = 128, .kv_rank = 128, .nope = 64, .rope = 32, .values = 64 },
      .moe = { .experts = 16,
               .top = 4,
               .intermediate = 128,
               .dense = 1,
               .shared = 1,
               .scoring = RFG_MOE_SIGMOID,
               .renormalise = true,
               .scale = 2 } },
};
enum { SHAPES = sizeof(shapes) / sizeof(shapes[0]) };

_Noreturn static void unknown(const char *name)
{
    char names[512] = "";
    for (int i = 0; i < SHAPES; i++) {
        strncat(names, !i ? "" : i + 1 == SHAPES ? " or " : ", ", sizeof(names) - strlen(names) - 1);
        strncat(names, shapes[i].name, sizeof(names) - strlen(names) - 1);
    }
    die("--random '%s': must be %s", name, names);
}

/* One of eight ranks of a layer with MLA: an eighth of the heads and of each expert. */
static bool take_rank(struct config *c, const char *name)
{
    static const char suffix[] = "-tp8";
    size_t n = strlen(c->name);
    if (strncmp(name, c->name, n) || strcmp(name + n, suffix) || !c->mla.kv_rank || c->heads % 8 ||
        c->moe.intermediate % 1024)
        return false;
    c->heads /= 8;
    c->moe.intermediate /= 8;
    strcat(c->name, suffix);
    return true;
}

void config_builtin(struct config *c, const char *name, int64_t layers)
{
    bool found = false;
    for (int i = 0; i < SHAPES && !found; i++) {
        *c = shapes[i];
        found = !strcmp(c->name, name) || take_rank(c, name);
    }
    if (!found)
        unknown(name);
    if (c->mla.kv_rank)
        c->attention_scale = config_latent_scale(&c->mla, &c->rope);
    if (layers && layers != c->layers) {
        c->layers = layers;
        snprintf(c->name, sizeof(c->name), "%s, %lld layers", name, (long long)layers);
    }
    for (int64_t n = 0; c->slides && n < c->layers; n++)
        c->sliding[n] = (n + 1) % (c->gemma ? 6 : 2) != 0;
    config_check(c, "--random");
}
