/* SPDX-License-Identifier: MIT
 *
 * The decoder's tiny models as llama.cpp's converter from Hugging Face's folders writes them. */
#include "decoder_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/gguf_file.h"

enum { D = 64, POSITIONS = 64, INTER = 96, F32 = 0, F16 = 1, Q8_0 = 8, BF16 = 30, MXFP4 = 39 };

static const struct {
    const char *class, *name;
} archs[] = { { "LlamaForCausalLM", "llama" },   { "Qwen2ForCausalLM", "qwen2" },
              { "Qwen3ForCausalLM", "qwen3" },   { "Qwen3MoeForCausalLM", "qwen3moe" },
              { "Gemma3ForCausalLM", "gemma3" }, { "GptOssForCausalLM", "gpt-oss" } };

/* A tensor's name without its last word. */
static const char *const names[][2] = {
    { "input_layernorm", "attn_norm" },
    { "self_attn.q_proj", "attn_q" },
    { "self_attn.k_proj", "attn_k" },
    { "self_attn.v_proj", "attn_v" },
    { "self_attn.o_proj", "attn_output" },
    { "self_attn.q_norm", "attn_q_norm" },
    { "self_attn.k_norm", "attn_k_norm" },
    { "mlp.gate_proj", "ffn_gate" },
    { "mlp.up_proj", "ffn_up" },
    { "mlp.down_proj", "ffn_down" },
    { "pre_feedforward_layernorm", "ffn_norm" },
    { "post_feedforward_layernorm", "post_ffw_norm" },
    { "mlp.router", "ffn_gate_inp" },
    { "mlp.gate", "ffn_gate_inp" },
};

static const char *arch_of(const struct tiny *t)
{
    for (size_t i = 0; i < sizeof(archs) / sizeof(archs[0]); i++)
        if (!strcmp(t->arch, archs[i].class))
            return archs[i].name;
    return NULL;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

static void put_values(const struct tiny *t, struct gguf_file *f)
{
    char key[96];
    const char *arch = arch_of(t);
#define KEY(what) (snprintf(key, sizeof(key), "%s." what, arch), key)
    gguf_text(f, "general.architecture", arch);
    gguf_u32(f, KEY("block_count"), (uint32_t)t->layers);
    gguf_u32(f, KEY("context_length"), POSITIONS);
    gguf_u32(f, KEY("embedding_length"), (uint32_t)t->hidden);
    gguf_u32(f, KEY("feed_forward_length"), INTER);
    gguf_u32(f, KEY("attention.head_count"), (uint32_t)t->heads);
    gguf_u32(f, KEY("attention.head_count_kv"), (uint32_t)t->kv_heads);
    gguf_u32(f, KEY("attention.key_length"), D);
    gguf_u32(f, KEY("attention.value_length"), D);
    gguf_f32(f, KEY("attention.layer_norm_rms_epsilon"), 1e-5);
    gguf_f32(f, KEY("rope.freq_base"), t->theta);
    if (t->experts) {
        gguf_u32(f, KEY("expert_count"), (uint32_t)t->experts);
        gguf_u32(f, KEY("expert_used_count"), (uint32_t)t->top);
        gguf_u32(f, KEY("expert_feed_forward_length"), (uint32_t)t->inter);
    }
    if (t->window)
        gguf_u32(f, KEY("attention.sliding_window"), (uint32_t)t->window);
    if (t->gemma) { /* the first and third slide, and scores are divided by the root of 32 */
        gguf_u32(f, KEY("attention.sliding_window_pattern"), 2);
        gguf_f32(f, KEY("rope.freq_base_swa"), t->local_theta);
        gguf_f32(f, KEY("attention.scale"), 1 / sqrt(32));
        gguf_text(f, KEY("rope.scaling.type"), "linear");
        gguf_f32(f, KEY("rope.scaling.factor"), t->linear);
    }
    if (t->gpt_oss) {
        gguf_text(f, KEY("rope.scaling.type"), "yarn");
        gguf_f32(f, KEY("rope.scaling.factor"), 4);
        gguf_u32(f, KEY("rope.scaling.original_context_length"), 16);
    }
#undef KEY
}

/* Llama 3's scaling, as what each pair's frequency is divided by. */
static void put_factors(const struct tiny *t, struct gguf_file *f)
{
    const double pi = 3.14159265358979323846;
    float factors[D / 2];
    int64_t n = D / 2;
    for (int i = 0; i < D / 2; i++) {
        double w = 2 * pi * pow(t->theta, 2.0 * i / D), original = t->llama3_original;
        double g = (original / w - 1) / (4 - 1);
        factors[i] = (float)(w < original / 4 ? 1 : w > original ? 8 : 1 / ((1 - g) / 8 + g));
    }
    gguf_add(f, "rope_freqs.weight", F32, 1, &n, factors, sizeof(factors));
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

static void put_number(struct gguf_bytes *b, uint32_t type, double v)
{
    float single = (float)v;
    _Float16 half = (_Float16)v;
    uint32_t bits;
    memcpy(&bits, &single, sizeof(bits));
    uint16_t upper = (uint16_t)(bits >> 16);
    gguf_put(b, type == F32 ? (void *)&single : type == F16 ? (void *)&half : (void *)&upper, type == F32 ? 4 : 2);
}

/* 32 of a tensor's numbers, k 2^-8 with k of 7 bits. */
static void put_block(struct gguf_bytes *b, const double *v)
{
    _Float16 scale = (_Float16)0x1p-8;
    int8_t codes[32];
    for (int i = 0; i < 32; i++)
        codes[i] = (int8_t)lrint(v[i] * 0x1p8);
    gguf_put(b, &scale, sizeof(scale));
    gguf_put(b, codes, sizeof(codes));
}

static bool is_q8(const char *name, enum tiny_q8 q8)
{
    return q8 == TINY_Q8_ALL ||
           (q8 == TINY_Q8_SOME && (strstr(name, "attn_v") || strstr(name, "ffn_up") || strstr(name, "token_embd")));
}

/* Row r of q and k in a llama's file: a head's rows 0, half, 1, half + 1 ... */
static int64_t row_in_turn(int64_t r)
{
    int64_t in = r % D;
    return r - in + in / 2 + in % 2 * (D / 2);
}

static void put_floats(const struct tiny *t, struct gguf_file *f, const char *name, const struct tiny_item *x,
                       enum tiny_q8 q8)
{
    struct gguf_bytes b = { 0 };
    bool vector = x->ndim == 1, q_or_k = strstr(name, "attn_q.") || strstr(name, "attn_k.");
    uint32_t type = vector ? F32 : is_q8(name, q8) ? Q8_0 : t->f16 ? F16 : BF16;
    double block[32];
    int64_t rows = x->shape[0], cols = vector ? 1 : x->shape[1];
    double more = t->gemma && strstr(name, "norm") ? 1 : 0;
    for (int64_t i = 0; i < rows * cols; i++) {
        int64_t row = i / cols;
        row = q_or_k && !strcmp(t->arch, "LlamaForCausalLM") ? row_in_turn(row) : row;
        block[i % 32] = tiny_item_element(t, x, row * cols + i % cols) + more;
        if (type != Q8_0)
            put_number(&b, type, block[i % 32]);
        else if (i % 32 == 31)
            put_block(&b, block);
    }
    gguf_add(f, name, type, x->ndim, x->shape, b.at, b.size);
    free(b.at);
}

/* All experts' gates, ups or downs; x is the first expert's. */
static void put_experts(const struct tiny *t, struct gguf_file *f, int layer, const struct tiny_item *x,
                        const char *which, enum tiny_q8 q8)
{
    struct gguf_bytes b = { 0 };
    char name[96];
    double block[32];
    int64_t shape[3] = { t->experts, x->shape[0], x->shape[1] };
    uint32_t type = q8 == TINY_Q8_ALL ? Q8_0 : t->f16 ? F16 : BF16;
    for (int e = 0; e < t->experts; e++) {
        struct tiny_item one = *x;
        snprintf(one.name, sizeof(one.name), "model.layers.%d.mlp.experts.%d.%s_proj.weight", layer, e, which);
        for (int64_t i = 0; i < x->shape[0] * x->shape[1]; i++) {
            block[i % 32] = tiny_item_element(t, &one, i);
            if (type != Q8_0)
                put_number(&b, type, block[i % 32]);
            else if (i % 32 == 31)
                put_block(&b, block);
        }
    }
    snprintf(name, sizeof(name), "blk.%d.ffn_%s_exps.weight", layer, which);
    gguf_add(f, name, type, 3, shape, b.at, b.size);
    free(b.at);
}

/* gpt-oss': rows first, first + step, ... of each expert's. */
static void put_stacked(const struct tiny *t, struct gguf_file *f, int layer, const struct tiny_item *blocks, int first,
                        int step, const char *which)
{
    struct gguf_bytes b = { 0 }, biases = { 0 };
    char scales[128], bias[128], name[96];
    int64_t rows = blocks->shape[1], groups = blocks->shape[2];
    int base = (int)(strlen(blocks->name) - strlen("blocks"));
    snprintf(scales, sizeof(scales), "%.*sscales", base, blocks->name);
    snprintf(bias, sizeof(bias), "%.*sbias", base, blocks->name);
    for (int64_t r = first; r < t->experts * rows; r += step) {
        for (int64_t g = r * groups; g < (r + 1) * groups; g++) {
            uint8_t block[17] = { tiny_byte(t, scales, TINY_U8, g) };
            for (int i = 0; i < 32; i++) {
                int code = tiny_byte(t, blocks->name, TINY_U8, g * 16 + i / 2) >> i % 2 * 4 & 15;
                block[1 + i % 16] |= (uint8_t)(code << i / 16 * 4);
            }
            gguf_put(&b, block, sizeof(block));
        }
        put_number(&biases, F32, tiny_weight(t, bias, rows, r));
    }
    int64_t shape[] = { t->experts, rows / step, groups * 32 };
    snprintf(name, sizeof(name), "blk.%d.ffn_%s_exps.weight", layer, which);
    gguf_add(f, name, MXFP4, 3, shape, b.at, b.size);
    snprintf(name, sizeof(name), "blk.%d.ffn_%s_exps.bias", layer, which);
    gguf_add(f, name, F32, 2, shape, biases.at, biases.size);
    free(b.at);
    free(biases.at);
}

/* Tensors of a layer's experts. False: it is none. */
static bool put_mixture(const struct tiny *t, struct gguf_file *f, int layer, const char *part,
                        const struct tiny_item *x, enum tiny_q8 q8)
{
    static const char *const which[] = { "gate", "up", "down" };
    if (strncmp(part, "mlp.experts.", 12))
        return false;
    for (int i = 0; i < 3 && !t->gpt_oss; i++) {
        char first[64];
        snprintf(first, sizeof(first), "mlp.experts.0.%s_proj.weight", which[i]);
        if (!strcmp(part, first))
            put_experts(t, f, layer, x, which[i], q8);
    }
    if (!strcmp(part, "mlp.experts.gate_up_proj_blocks")) {
        put_stacked(t, f, layer, x, 0, 2, "gate");
        put_stacked(t, f, layer, x, 1, 2, "up");
    }
    if (!strcmp(part, "mlp.experts.down_proj_blocks"))
        put_stacked(t, f, layer, x, 0, 1, "down");
    return true;
}

static void put_item(const struct tiny *t, struct gguf_file *f, const struct tiny_item *x, enum tiny_q8 q8)
{
    char name[128];
    int layer, n = 0;
    if (sscanf(x->name, "model.layers.%d.%n", &layer, &n) != 1) {
        put_floats(t, f,
                   strstr(x->name, "embed_tokens") ? "token_embd.weight"
                   : strstr(x->name, "lm_head")    ? "output.weight"
                                                   : "output_norm.weight",
                   x, q8);
        return;
    }
    const char *part = x->name + n, *last = strrchr(part, '.');
    if (put_mixture(t, f, layer, part, x, q8))
        return;
    snprintf(name, sizeof(name), "blk.%d.%s%s", layer, t->gemma || t->gpt_oss ? "post_attention_norm" : "ffn_norm",
             last);
    if (!strcmp(part, "self_attn.sinks"))
        snprintf(name, sizeof(name), "blk.%d.attn_sinks.weight", layer);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strlen(names[i][0]) == (size_t)(last - part) && !strncmp(part, names[i][0], (size_t)(last - part)))
            snprintf(name, sizeof(name), "blk.%d.%s%s", layer, names[i][1], last);
    put_floats(t, f, name, x, q8);
}

void tiny_write_gguf(const struct tiny *t, const char *path, enum tiny_q8 q8)
{
    struct gguf_file f = { 0 };
    int count;
    const struct tiny_item *list = tiny_items(t, &count);
    put_values(t, &f);
    for (int i = 0; i < count; i++)
        put_item(t, &f, &list[i], q8);
    if (t->llama3_original)
        put_factors(t, &f);
    gguf_write(path, gguf_join(&f));
    gguf_free(&f);
}
