/* SPDX-License-Identifier: MIT */
#include "decoder_model.h"

#include <check.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { INTER = 96, D = 64, MOST_TENSORS = 220, MOST_TOKENS = TINY_MOST_TOKENS };
/* max_position_embeddings, in most files and of "dynamic"; original_max_position_embeddings */
enum { POSITIONS = 64, DYNAMIC_ORIGINAL = 32, LONGROPE_ORIGINAL = 16 };

#define DEEPSEEK_FP8                                                                                                   \
    .grows = 4.7, .grows_quantised = 1.9, .arch = "DeepseekV3ForCausalLM", .deepseek = true, .fp8 = true, .layers = 2, \
    .dense = 1, .heads = 2, .theta = 1000, .q_rank = 128, .kv_rank = 192, .nope = 64, .rope = 64, .values = 96,        \
    .experts = 6, .top = 2, .inter = 256, .groups = 2, .topk_groups = 1
#define GEMMA3                                                                                                         \
    .grows = 1.1, .hidden = 128, .arch = "Gemma3ForCausalLM", .qk_norm = true, .gemma = true, .layers = 3, .heads = 2, \
    .kv_heads = 1, .theta = 5000, .local_theta = 50, .window = 5
#define GEMMA4                                                                                                         \
    .grows = 1.1, .hidden = 128, .arch = "Gemma4ForCausalLM", .gemma = true, .gemma4 = true, .heads = 2,               \
    .kv_heads = 1, .theta = 5000, .local_theta = 50, .proportional = .25, .window = 5
const struct tiny tiny_models[TINY_MODELS] = {
    { .name = "llama",
      .grows = 2.9,
      .hidden = 128,
      .arch = "LlamaForCausalLM",
      .layers = 2,
      .heads = 2,
      .kv_heads = 1,
      .f16 = true,
      .theta = 10000,
      .llama3_original = 40 },
    { .name = "qwen3",
      .grows = 1.3,
      .hidden = 128,
      .arch = "Qwen3ForCausalLM",
      .qk_norm = true,
      .layers = 2,
      .heads = 4,
      .kv_heads = 2,
      .theta = 1000 },
    { .name = "gemma3", GEMMA3, .linear = 4 },
    { .name = "phi3",
      .grows = 3.25,
      .hidden = 128,
      .arch = "Phi3ForCausalLM",
      .phi3 = true,
      .f16 = true,
      .layers = 2,
      .heads = 2,
      .kv_heads = 1,
      .theta = 1000,
      .window = 12 },
    { .name = "proportional", GEMMA3, .proportional = .25 },
    { .name = "dynamic",
      .grows = 2.7,
      .hidden = 128,
      .arch = "LlamaForCausalLM",
      .layers = 1,
      .heads = 2,
      .kv_heads = 1,
      .f16 = true,
      .theta = 100,
      .dynamic = 2 },
    { .name = "gemma4", GEMMA4, .layers = 5, .shared = 2, .extra = 16, .soft_cap = 3 },
    { .name = "gemma4-kv", GEMMA4, .layers = 2, .k_is_v = true },
    { .name = "qwen3.5",
      .grows = 1.3,
      .hidden = 128,
      .arch = "Qwen3_5ForCausalLM",
      .qk_norm = true,
      .gated = true,
      .layers = 2,
      .heads = 4,
      .kv_heads = 2,
      .theta = 1000 },
    { .name = "qwen2",
      .grows = 2.5,
      .hidden = 128,
      .arch = "Qwen2ForCausalLM",
      .biased = true,
      .layers = 2,
      .heads = 4,
      .kv_heads = 2,
      .theta = 1000 },
    { .name = "qwen3-moe",
      .grows = 1.4,
      .hidden = 128,
      .arch = "Qwen3MoeForCausalLM",
      .qk_norm = true,
      .layers = 2,
      .heads = 4,
      .kv_heads = 2,
      .theta = 1000,
      .experts = 6,
      .top = 2,
      .inter = 32,
      .seed = 10 },
    { .name = "gpt-oss",
      .grows = 1.5,
      .hidden = 128,
      .arch = "GptOssForCausalLM",
      .gpt_oss = true,
      .layers = 3,
      .heads = 2,
      .kv_heads = 1,
      .theta = 1000,
      .window = 5,
      .seed = 79,
      .experts = 5,
      .top = 2,
      .inter = 96 },
    { .name = "gpt-oss, prepacked",
      .grows = 2.9,
      .hidden = 128,
      .arch = "GptOssForCausalLM",
      .gpt_oss = true,
      .layers = 1,
      .heads = 2,
      .kv_heads = 1,
      .theta = 1000,
      .window = 5,
      .experts = 6,
      .top = 3,
      .inter = 128 },
    { .name = "deepseek",
      .grows = 2.8,
      .f16 = true,
      .hidden = 128,
      .arch = "DeepseekV3ForCausalLM",
      .deepseek = true,
      .layers = 3,
      .dense = 1,
      .heads = 3,
      .theta = 1000,
      .q_rank = 48,
      .kv_rank = 64,
      .nope = 40,
      .rope = 32,
      .values = 24,
      .mscale = 1,
      .mscale_all = 0.7,
      .experts = 8,
      .top = 3,
      .inter = 40,
      .groups = 4,
      .topk_groups = 2,
      .seed = 152 },
    { .name = "deepseek-fp8", .hidden = 128, .seed = 2, DEEPSEEK_FP8 },
    { .name = "deepseek-fp8-208", .hidden = 208, .seed = 3, DEEPSEEK_FP8 },
};

/* ---- weights ---------------------------------------------------------------------------------------------------- */

uint64_t tiny_hash(const struct tiny *t, const char *name, int64_t i)
{
    uint64_t h = 1469598103934665603u + (uint64_t)(i + 1000003 * t->seed) * 0x9e3779b97f4a7c15;
    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 1099511628211u;
    h ^= h >> 29;
    h *= 0xbf58476d1ce4e5b9;
    return h >> 40;
}

/* Norms multiply with 1 + w. */
static bool plus(const struct tiny *t)
{
    return (t->gemma && !t->gemma4) || t->gated;
}

double tiny_weight(const struct tiny *t, const char *name, int64_t cols, int64_t i)
{
    int k = (int)tiny_hash(t, name, i) % 127 - 63;
    if (strstr(name, "bias"))
        return k * 0x1p-8;
    if (strstr(name, "sinks"))
        return k * 0x1p-5;
    if (cols)
        return k * 0x1p-8;                   /* about 1 / sqrt(cols) */
    if (t->gemma4 && strstr(name, "q_norm")) /* nothing else divides scores by their size */
        return (1 + k * 0x1p-8 - (k & 1) * 0x1p-8) / 8;
    return plus(t) ? k * 0x1p-7 : 1 + k * 0x1p-8 - (k & 1) * 0x1p-8;
}

/* cols 0: a vector. */
static int add(struct tiny_item *list, int n, int64_t rows, int64_t cols, const char *format, int layer)
{
    ck_assert_int_lt(n, MOST_TENSORS);
    list[n] = (struct tiny_item){ .ndim = cols ? 2 : 1, .shape = { rows, cols } };
    snprintf(list[n].name, sizeof(list[n].name), format, layer);
    return n + 1;
}

/* Elements of a head that are rotated, the first. */
static int rotated(const struct tiny *t)
{
    return t->phi3 ? D * 3 / 4 : t->gated ? D / 4 : D;
}

static int64_t elements(const struct tiny_item *x)
{
    int64_t n = 1;
    for (int i = 0; i < x->ndim; i++)
        n *= x->shape[i];
    return n;
}

static int attention_items(const struct tiny *t, struct tiny_item *list, int n, int l)
{
    if (t->gemma4)
        return tiny_gemma4_items(t, list, n, l);
    if (t->phi3) {
        n = add(list, n, (t->heads + 2 * t->kv_heads) * D, t->hidden, "model.layers.%d.self_attn.qkv_proj.weight", l);
    } else {
        n = add(list, n, t->heads * D * (1 + t->gated), t->hidden, "model.layers.%d.self_attn.q_proj.weight", l);
        n = add(list, n, t->kv_heads * D, t->hidden, "model.layers.%d.self_attn.k_proj.weight", l);
        n = add(list, n, t->kv_heads * D, t->hidden, "model.layers.%d.self_attn.v_proj.weight", l);
    }
    n = add(list, n, t->hidden, t->heads * D, "model.layers.%d.self_attn.o_proj.weight", l);
    if (t->qk_norm) {
        n = add(list, n, D, 0, "model.layers.%d.self_attn.q_norm.weight", l);
        n = add(list, n, D, 0, "model.layers.%d.self_attn.k_norm.weight", l);
    }
    if (t->gpt_oss || t->biased) {
        n = add(list, n, t->heads * D, 0, "model.layers.%d.self_attn.q_proj.bias", l);
        n = add(list, n, t->kv_heads * D, 0, "model.layers.%d.self_attn.k_proj.bias", l);
        n = add(list, n, t->kv_heads * D, 0, "model.layers.%d.self_attn.v_proj.bias", l);
    }
    if (t->gpt_oss) {
        n = add(list, n, t->hidden, 0, "model.layers.%d.self_attn.o_proj.bias", l);
        n = add(list, n, t->heads, 0, "model.layers.%d.self_attn.sinks", l);
    }
    return n;
}

static int all_items(const struct tiny *t, struct tiny_item *list)
{
    int n = add(list, 0, TINY_VOCAB, t->hidden, "model.embed_tokens.weight", 0);
    for (int l = 0; l < t->layers; l++) {
        n = add(list, n, t->hidden, 0, "model.layers.%d.input_layernorm.weight", l);
        n = t->deepseek ? tiny_latent_items(t, l, list, n) : attention_items(t, list, n, l);
        n = add(list, n, t->hidden, 0, "model.layers.%d.post_attention_layernorm.weight", l);
        if (t->gemma) {
            n = add(list, n, t->hidden, 0, "model.layers.%d.pre_feedforward_layernorm.weight", l);
            n = add(list, n, t->hidden, 0, "model.layers.%d.post_feedforward_layernorm.weight", l);
        }
        int inter = tiny_gemma4_inter(t, l, INTER);
        if (t->experts && l >= t->dense) {
            n = tiny_expert_items(t, l, list, n);
            ck_assert_int_lt(n, MOST_TENSORS);
            continue;
        }
        if (t->phi3) {
            n = add(list, n, 2 * INTER, t->hidden, "model.layers.%d.mlp.gate_up_proj.weight", l);
        } else {
            n = tiny_append_matrix(t, list, n, l, "mlp.gate_proj.weight", inter, t->hidden);
            n = tiny_append_matrix(t, list, n, l, "mlp.up_proj.weight", inter, t->hidden);
        }
        n = tiny_append_matrix(t, list, n, l, "mlp.down_proj.weight", t->hidden, inter);
        ck_assert_int_lt(n, MOST_TENSORS);
    }
    n = add(list, n, t->hidden_of_norm ? t->hidden_of_norm : t->hidden, 0, "model.norm.weight", 0);
    if (!t->gemma)
        n = add(list, n, TINY_VOCAB, t->hidden, "lm_head.weight", 0);
    if (t->also)
        n = add(list, n, t->hidden, 0, t->also, 0);
    return n;
}

/* ---- files ------------------------------------------------------------------------------------------------------ */

static void write_number(const struct tiny *t, FILE *f, double v)
{
    float single = (float)v;
    _Float16 half = (_Float16)v;
    uint32_t bits;
    memcpy(&bits, &single, sizeof(bits));
    uint16_t upper = (uint16_t)(bits >> 16);
    single *= t->f32 ? 1 - 0x1p-10f : 1; /* bf16's nearest is the number, and what is cut off isn't */
    if (t->f32)
        fwrite(&single, sizeof(single), 1, f);
    else if (t->f16)
        fwrite(&half, sizeof(half), 1, f);
    else
        fwrite(&upper, sizeof(upper), 1, f);
}

double tiny_item_element(const struct tiny *t, const struct tiny_item *x, int64_t i)
{
    return tiny_weight(t, x->name, x->ndim > 1 ? x->shape[x->ndim - 1] : 0, i);
}

static void write_element(const struct tiny *t, FILE *f, const struct tiny_item *x, int64_t i)
{
    if (x->kind == TINY_FLOATS) {
        write_number(t, f, tiny_item_element(t, x, i));
    } else if (x->kind == TINY_F32) {
        float v = (float)tiny_f32(t, x->name, i);
        fwrite(&v, sizeof(v), 1, f);
    } else {
        fputc(tiny_byte(t, x->name, x->kind, i), f);
    }
}

/* Those of the tensors whose number is `part` modulo `parts`. */
static int64_t write_weights(const struct tiny *t, const char *path, const struct tiny_item *list, int n, int part,
                             int parts)
{
    const char *const dtypes[] = { t->f32 ? "F32" : t->f16 ? "F16" : "BF16", "F32", "F8_E4M3", "U8" };
    const int64_t sizes[] = { t->f32 ? 4 : 2, 4, 1, 1 };
    static char header[MOST_TENSORS * 200];
    int at = snprintf(header, sizeof(header), "{\"__metadata__\": {\"format\": \"pt\"}");
    int64_t offset = 0;
    for (int i = part; i < n; i += parts) {
        const struct tiny_item *x = &list[i];
        int64_t bytes = elements(x) * sizes[x->kind];
        if (t->without && !strcmp(t->without, x->name))
            continue;
        at += snprintf(header + at, sizeof(header) - (size_t)at, ", \"%s\": {\"dtype\": \"%s\", \"shape\": [%" PRId64,
                       x->name, dtypes[x->kind], x->shape[0]);
        for (int d = 1; d < x->ndim; d++)
            at += snprintf(header + at, sizeof(header) - (size_t)at, ", %" PRId64, x->shape[d]);
        at += snprintf(header + at, sizeof(header) - (size_t)at, "], \"data_offsets\": [%" PRId64 ", %" PRId64 "]}",
                       offset, offset + bytes);
        offset += bytes;
    }
    header[at++] = '}';
    while (at % 8)
        header[at++] = ' ';
    FILE *f = fopen(path, "wb");
    ck_assert_ptr_nonnull(f);
    uint64_t length = (uint64_t)at;
    fwrite(&length, sizeof(length), 1, f);
    fwrite(header, 1, length, f);
    for (int i = part; i < n; i += parts)
        for (int64_t k = 0; k < elements(&list[i]); k++)
            if (!t->without || strcmp(t->without, list[i].name))
                write_element(t, f, &list[i], k);
    ck_assert_int_eq(fclose(f), 0);
    return 8 + at + offset;
}

/* As the files of Qwen/Qwen3-30B-A3B, openai/gpt-oss-20b and deepseek-ai/DeepSeek-V3 say it. */
static void write_mixture(const struct tiny *t, FILE *f)
{
    fprintf(f, "  \"num_experts_per_tok\": %d,\n", t->top);
    if (t->gpt_oss)
        fprintf(f,
                "  \"num_local_experts\": %d,\n  \"attention_bias\": true,\n  \"sliding_window\": %d,\n"
                "  \"layer_types\": [\"sliding_attention\"%s],\n"
                "  \"swiglu_limit\": 1.0,\n  \"quantization_config\": {\"quant_method\": \"mxfp4\"},\n"
                "  \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4.0, \"beta_fast\": 32.0, \"beta_slow\": "
                "1.0, \"original_max_position_embeddings\": 16, \"truncate\": false},\n",
                t->experts, t->window, t->layers > 1 ? ", \"full_attention\", \"sliding_attention\"" : "");
    else
        fprintf(f, "  \"moe_intermediate_size\": %d,\n  \"norm_topk_prob\": true,\n", t->inter);
    if (t->deepseek)
        fprintf(f,
                "  \"n_routed_experts\": %d,\n  \"n_shared_experts\": 1,\n  \"n_group\": %d,\n  \"topk_group\": %d,\n"
                "  \"routed_scaling_factor\": 2.5,\n  \"scoring_func\": \"sigmoid\",\n"
                "  \"first_k_dense_replace\": %d,\n%s",
                t->experts, t->groups, t->topk_groups, t->dense,
                t->fp8 ? "  \"quantization_config\": {\"quant_method\": \"fp8\", \"weight_block_size\": [128, 128]},\n"
                       : "");
    if (t->deepseek)
        tiny_write_latent(t, f);
    else if (!t->gpt_oss)
        fprintf(f, "  \"num_experts\": %d,\n  \"decoder_sparse_step\": 1,\n  \"mlp_only_layers\": [],\n", t->experts);
}

/* Pair i's, of more positions than LONGROPE_ORIGINAL. */
static double long_factor(int i)
{
    return 1 + i * 0.125;
}

/* As microsoft/Phi-4-mini-instruct says it, but for the window. */
static void write_phi3(const struct tiny *t, FILE *f)
{
    fprintf(f,
            "  \"partial_rotary_factor\": 0.75,\n  \"sliding_window\": %d,\n"
            "  \"original_max_position_embeddings\": %d,\n  \"rope_scaling\": {\"type\": \"longrope\"",
            t->window, LONGROPE_ORIGINAL);
    for (int which = 0; which < 2; which++)
        for (int i = 0; i < rotated(t) / 2; i++)
            fprintf(f, "%s%g%s",
                    i       ? ", "
                    : which ? ", \"long_factor\": ["
                            : ", \"short_factor\": [",
                    which ? long_factor(i) : 1.5, i + 1 < rotated(t) / 2 ? "" : "]");
    fputs("},\n", f);
}

/* As transformers 5 writes it. */
static void write_parameters(const struct tiny *t, FILE *f)
{
    if (t->dynamic)
        fprintf(f, "  \"rope_parameters\": {\"rope_type\": \"dynamic\", \"rope_theta\": %g, \"factor\": %g},\n",
                t->theta, t->dynamic);
    else
        fprintf(f,
                "  \"rope_parameters\": {\"full_attention\": {\"rope_type\": \"proportional\", "
                "\"partial_rotary_factor\": %g, \"rope_theta\": %g},\n"
                "    \"sliding_attention\": {\"rope_type\": \"default\", \"rope_theta\": %g}},\n",
                t->proportional, t->theta, t->local_theta);
}

static void write_config(const struct tiny *t, const char *path)
{
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fprintf(f,
            "{\n  \"architectures\": [\"%s\"],\n  \"hidden_size\": %d,\n  \"intermediate_size\": %d,\n"
            "  \"num_hidden_layers\": %d,\n  \"num_attention_heads\": %d,\n  \"num_key_value_heads\": %d,\n"
            "  \"head_dim\": %d,\n  \"rms_norm_eps\": 1e-5,\n  \"vocab_size\": %d,\n",
            t->arch, t->hidden, t->gpt_oss ? t->inter : INTER, t->layers, t->heads, t->kv_heads, D, TINY_VOCAB);
    if (t->gemma4)
        tiny_write_gemma4(t, f);
    else if (t->proportional || t->dynamic)
        write_parameters(t, f);
    else if (t->gated) /* the quarter is the default */
        fprintf(f,
                "  \"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": %g},\n"
                "  \"layer_types\": [\"full_attention\", \"full_attention\"],\n",
                t->theta);
    else
        fprintf(f, "  \"rope_theta\": %g,\n", t->theta);
    if (t->phi3)
        write_phi3(t, f);
    if (t->llama3_original)
        fprintf(f,
                "  \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8.0, \"low_freq_factor\": 1.0, "
                "\"high_freq_factor\": 4.0, \"original_max_position_embeddings\": %g},\n",
                t->llama3_original);
    if (t->experts)
        write_mixture(t, f);
    if (t->linear)
        fprintf(f, "  \"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": %g},\n", t->linear);
    if (t->gemma && !t->gemma4)
        fprintf(
            f,
            "  \"hidden_activation\": \"gelu_pytorch_tanh\",\n  \"rope_local_base_freq\": %g,\n  \"sliding_window\": "
            "%d,\n  \"query_pre_attn_scalar\": 32,\n"
            "  \"layer_types\": [\"sliding_attention\", \"full_attention\", \"sliding_attention\"],\n",
            t->proportional ? 7 : t->local_theta, t->window);
    else if (!t->gemma4)
        fputs("  \"hidden_act\": \"silu\",\n  \"tie_word_embeddings\": false,\n", f);
    fprintf(f, "  \"max_position_embeddings\": %d\n}\n", t->dynamic ? DYNAMIC_ORIGINAL : POSITIONS);
    ck_assert_int_eq(fclose(f), 0);
}

const struct tiny_item *tiny_items(const struct tiny *t, int *count)
{
    static struct tiny_item list[MOST_TENSORS];
    *count = all_items(t, list);
    return list;
}

int64_t tiny_write(const struct tiny *t, const char *folder)
{
    char path[256];
    int n;
    const struct tiny_item *list = tiny_items(t, &n);
    int64_t bytes = 0;
    mkdir(folder, 0700);
    snprintf(path, sizeof(path), "%s/config.json", folder);
    write_config(t, path);
    snprintf(path, sizeof(path), "%s/model.safetensors", folder);
    if (!t->shards)
        return write_weights(t, path, list, n, 0, 1);
    for (int part = 0; part < t->shards; part++) {
        snprintf(path, sizeof(path), "%s/part%d.safetensors", folder, part);
        bytes = write_weights(t, path, list, n, part, t->shards);
    }
    snprintf(path, sizeof(path), "%s/model.safetensors.index.json", folder);
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    for (int i = 0; i < n; i++)
        fprintf(f, "%s\"%s\": \"part%d.safetensors\"", i ? ",\n" : "{\"weight_map\": {\n", list[i].name, i % t->shards);
    fputs("}}\n", f);
    ck_assert_int_eq(fclose(f), 0);
    return bytes;
}

/* ---- in double -------------------------------------------------------------------------------------------------- */

/* w: the rows of that matrix from `first` on */
static void linear_from(const struct tiny *t, double *y, const double *x, int n, const char *name, int first, int rows,
                        int cols)
{
    char bias[80];
    bool biased = strstr(name, "self_attn") && (t->gpt_oss || (t->biased && !strstr(name, "o_proj"))),
         coded = t->fp8 && strstr(name, "_proj");
    snprintf(bias, sizeof(bias), "%.*sbias", (int)(strlen(name) - strlen("weight")), name);
    double *w = malloc((size_t)(rows * cols) * sizeof(*w));
    ck_assert_ptr_nonnull(w);
    for (int i = 0; i < rows * cols; i++)
        w[i] = coded ? tiny_element(t, name, cols, first + i / cols, i % cols)
                     : tiny_weight(t, name, cols, first * cols + i);
    for (int m = 0; m < n; m++)
        for (int r = 0; r < rows; r++) {
            double sum = 0;
            for (int c = 0; c < cols; c++)
                sum += x[m * cols + c] * w[r * cols + c];
            y[m * rows + r] = sum + (biased ? tiny_weight(t, bias, 0, r) : 0);
        }
    free(w);
}

void tiny_linear(const struct tiny *t, double *y, const double *x, int n, const char *name, int rows, int cols)
{
    linear_from(t, y, x, n, name, 0, rows, cols);
}

void tiny_norm(const struct tiny *t, double *y, const double *x, int n, int size, const char *name)
{
    for (int m = 0; m < n; m++) {
        double squares = 0;
        for (int i = 0; i < size; i++)
            squares += x[m * size + i] * x[m * size + i];
        for (int i = 0; i < size; i++)
            y[m * size + i] =
                x[m * size + i] / sqrt(squares / size + 1e-5) * (name ? plus(t) + tiny_weight(t, name, 0, i) : 1);
    }
}

static double frequency(const struct tiny *t, int pair, bool sliding)
{
    const double pi = 3.14159265358979323846;
    double f = pow(sliding && t->gemma ? t->local_theta : t->theta, -2.0 * pair / rotated(t));
    double wavelength = 2 * pi / f;
    if (sliding && t->gemma)
        return f;
    if (t->linear)
        return f / t->linear;
    if (t->phi3)
        return f / long_factor(pair);
    if (t->proportional)
        return pair < t->proportional * D / 2 ? f : 0;
    if (t->dynamic)
        return pow(t->theta * pow(t->dynamic * TINY_CONTEXT / DYNAMIC_ORIGINAL - (t->dynamic - 1), D / (D - 2.0)),
                   -2.0 * pair / D);
    if (t->gpt_oss) { /* YaRN, its ramp not rounded: from pair 0 (for beta_fast it would be below) to `high` */
        double high = D * log(16 / (2 * pi)) / (2 * log(t->theta)), ramp = pair < high ? pair / high : 1;
        return f * (1 - ramp) + f / 4 * ramp;
    }
    double low = t->llama3_original / 1, high = t->llama3_original / 4; /* wavelengths; the factor is 8 */
    if (!t->llama3_original || wavelength < high)
        return f;
    if (wavelength > low)
        return f / 8;
    double smooth = (t->llama3_original / wavelength - 1) / (4 - 1);
    return (1 - smooth) * f / 8 + smooth * f;
}

/* [n, heads, D], each token at its position. */
static void rotate(const struct tiny *t, double *x, int n, int heads, bool sliding)
{
    double size = t->gpt_oss ? 0.1 * log(4) + 1
                  : t->phi3  ? sqrt(1 + log((double)POSITIONS / LONGROPE_ORIGINAL) / log(LONGROPE_ORIGINAL))
                             : 1;
    int half = rotated(t) / 2;
    for (int m = 0; m < n; m++)
        for (int h = 0; h < heads; h++)
            for (int i = 0; i < half; i++) {
                double *a = &x[(m * heads + h) * D + i], *b = a + half, angle = m * frequency(t, i, sliding), was = *a;
                *a = size * (was * cos(angle) - *b * sin(angle));
                *b = size * (*b * cos(angle) + was * sin(angle));
            }
}

/* sinks: their name, or NULL */
static void attention(const struct tiny *t, double *out, const double *q, const double *k, const double *v, int n,
                      bool sliding, const char *sinks)
{
    double scale = 1 / sqrt(t->gemma ? 32 : D);
    for (int m = 0; m < n; m++)
        for (int h = 0; h < t->heads; h++) {
            int of = h / (t->heads / t->kv_heads);
            double sum = sinks ? exp(tiny_weight(t, sinks, 0, h)) : 0, acc[D] = { 0 };
            for (int j = sliding && m >= t->window ? m - t->window + 1 : 0; j <= m; j++) {
                double score = 0;
                for (int i = 0; i < D; i++)
                    score += q[(m * t->heads + h) * D + i] * k[(j * t->kv_heads + of) * D + i];
                double w = exp(scale * score);
                sum += w;
                for (int i = 0; i < D; i++)
                    acc[i] += w * v[(j * t->kv_heads + of) * D + i];
            }
            for (int i = 0; i < D; i++)
                out[(m * t->heads + h) * D + i] = acc[i] / sum;
        }
}

static double activation(const struct tiny *t, double v)
{
    if (t->gemma)
        return v * (1 + tanh(sqrt(2 / 3.14159265358979323846) * (v + 0.044715 * v * v * v))) / 2;
    return v / (1 + exp(-v));
}

/* x += attention of x's norm */
static void add_attention(const struct tiny *t, int l, double *x, int n)
{
    static double h[MOST_TOKENS * TINY_MOST_HIDDEN], q[MOST_TOKENS * 8 * D], k[MOST_TOKENS * 4 * D],
        v[MOST_TOKENS * 4 * D], a[MOST_TOKENS * 4 * D], gates[MOST_TOKENS * 4 * D];
    char name[80];
    bool sliding = t->window && (l != 1 || t->phi3);
    int prefix = snprintf(name, sizeof(name), "model.layers.%d.", l);
#define OF(suffix) (strcpy(name + prefix, suffix), name)
    tiny_norm(t, h, x, n, t->hidden, OF("input_layernorm.weight"));
    if (t->deepseek) {
        tiny_latent_attention(t, l, x, h, n);
        return;
    }
    if (t->gemma4) {
        tiny_gemma4_attention(t, l, a, h, n);
        tiny_norm(t, h, a, n, t->hidden, OF("post_attention_layernorm.weight"));
        for (int i = 0; i < n * t->hidden; i++)
            x[i] += h[i];
        return;
    }
    const char *names[] = { "self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight" };
    double *const parts[] = { q, k, v };
    for (int i = 0, first = 0; i < 3; i++) {
        int rows = (i ? t->kv_heads : t->heads * (1 + t->gated)) * D;
        linear_from(t, parts[i], h, n, OF(t->phi3 ? "self_attn.qkv_proj.weight" : names[i]), first, rows, t->hidden);
        first += t->phi3 ? rows : 0;
    }
    for (int i = 0; t->gated && i < n * t->heads * D; i++) { /* of each head rows of q and of its gate */
        gates[i] = q[(2 * (i / D) + 1) * D + i % D];
        q[i] = q[2 * (i / D) * D + i % D];
    }
    if (t->qk_norm) {
        tiny_norm(t, q, q, n * t->heads, D, OF("self_attn.q_norm.weight"));
        tiny_norm(t, k, k, n * t->kv_heads, D, OF("self_attn.k_norm.weight"));
    }
    rotate(t, q, n, t->heads, sliding);
    rotate(t, k, n, t->kv_heads, sliding);
    attention(t, a, q, k, v, n, sliding, t->gpt_oss ? OF("self_attn.sinks") : NULL);
    for (int i = 0; t->gated && i < n * t->heads * D; i++)
        a[i] /= 1 + exp(-gates[i]);
    tiny_linear(t, h, a, n, OF("self_attn.o_proj.weight"), t->hidden, t->heads * D);
    if (t->gemma)
        tiny_norm(t, h, h, n, t->hidden, OF("post_attention_layernorm.weight"));
    for (int i = 0; i < n * t->hidden; i++)
        x[i] += h[i];
}

/* x += the mlp of x's norm, or the experts */
static void add_mlp(const struct tiny *t, int l, double *x, int n)
{
    static double h[MOST_TOKENS * TINY_MOST_HIDDEN], gate[MOST_TOKENS * 2 * INTER], up[MOST_TOKENS * 2 * INTER];
    char name[80];
    int inter = tiny_gemma4_inter(t, l, INTER);
    int prefix = snprintf(name, sizeof(name), "model.layers.%d.", l);
    tiny_norm(t, h, x, n, t->hidden,
              t->gemma ? OF("pre_feedforward_layernorm.weight") : OF("post_attention_layernorm.weight"));
    if (t->experts && l >= t->dense) {
        tiny_experts(t, l, x, h, n);
        return;
    }
    tiny_linear(t, gate, h, n, OF(t->phi3 ? "mlp.gate_up_proj.weight" : "mlp.gate_proj.weight"), inter, t->hidden);
    linear_from(t, up, h, n, OF(t->phi3 ? "mlp.gate_up_proj.weight" : "mlp.up_proj.weight"), t->phi3 ? inter : 0, inter,
                t->hidden);
    for (int i = 0; i < n * inter; i++)
        up[i] *= activation(t, gate[i]);
    tiny_linear(t, h, up, n, OF("mlp.down_proj.weight"), t->hidden, inter);
    if (t->gemma)
        tiny_norm(t, h, h, n, t->hidden, OF("post_feedforward_layernorm.weight"));
    for (int i = 0; i < n * t->hidden; i++)
        x[i] += h[i];
#undef OF
}

void tiny_reference(const struct tiny *t, const int32_t *tokens, int n, double *logits)
{
    static double x[MOST_TOKENS * TINY_MOST_HIDDEN];
    ck_assert(n <= MOST_TOKENS && t->heads <= 4);
    for (int i = 0; i < n * t->hidden; i++)
        x[i] =
            tiny_weight(t, "model.embed_tokens.weight", t->hidden, tokens[i / t->hidden] * t->hidden + i % t->hidden) *
            (t->gemma ? sqrt(t->hidden) : 1);
    for (int l = t->gemma4 ? -1 : 0; l < t->layers; l++) {
        if (l >= 0) {
            add_attention(t, l, x, n);
            add_mlp(t, l, x, n);
        }
        if (t->gemma4)
            tiny_gemma4_end(t, l, x, tokens, n);
    }
    tiny_norm(t, x, x, n, t->hidden, "model.norm.weight");
    tiny_linear(t, logits, x, n, t->gemma ? "model.embed_tokens.weight" : "lm_head.weight", TINY_VOCAB, t->hidden);
    for (int i = 0; t->soft_cap > 0 && i < n * TINY_VOCAB; i++)
        logits[i] = t->soft_cap * tanh(logits[i] / t->soft_cap);
}
