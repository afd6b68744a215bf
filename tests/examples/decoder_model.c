/* SPDX-License-Identifier: MIT */
#include "decoder_model.h"

#include <check.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { HIDDEN = 64, INTER = 96, D = 64, MOST_TENSORS = 64, MOST_TOKENS = 64 };

const struct tiny tiny_models[TINY_MODELS] = {
    { .name = "llama",
      .arch = "LlamaForCausalLM",
      .layers = 2,
      .heads = 2,
      .kv_heads = 1,
      .f16 = true,
      .theta = 10000,
      .llama3_original = 40 },
    { .name = "qwen3",
      .arch = "Qwen3ForCausalLM",
      .qk_norm = true,
      .layers = 2,
      .heads = 4,
      .kv_heads = 2,
      .theta = 1000 },
    { .name = "gemma3",
      .arch = "Gemma3ForCausalLM",
      .qk_norm = true,
      .gemma = true,
      .layers = 3,
      .heads = 2,
      .kv_heads = 1,
      .theta = 5000,
      .local_theta = 50,
      .linear = 4,
      .window = 5 },
};

/* ---- weights ---------------------------------------------------------------------------------------------------- */

/* Element i of a tensor: an integer of at most 7 bits by a power of two. cols 0: a norm's, near 1 (Gemma: near 0). */
static double weight(const struct tiny *t, const char *name, int64_t cols, int64_t i)
{
    uint64_t h = 1469598103934665603u + (uint64_t)i * 0x9e3779b97f4a7c15;
    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 1099511628211u;
    h ^= h >> 29;
    h *= 0xbf58476d1ce4e5b9;
    int k = (int)(h >> 40) % 127 - 63;
    if (cols)
        return k * 0x1p-8; /* about 1 / sqrt(cols) */
    return t->gemma ? k * 0x1p-7 : 1 + k * 0x1p-8 - (k & 1) * 0x1p-8;
}

struct item {
    char name[80];
    int64_t rows, cols;
};

static int add(struct item *list, int n, int64_t rows, int64_t cols, const char *format, int layer)
{
    ck_assert_int_lt(n, MOST_TENSORS);
    snprintf(list[n].name, sizeof(list[n].name), format, layer);
    list[n].rows = rows;
    list[n].cols = cols;
    return n + 1;
}

static int all_items(const struct tiny *t, struct item *list)
{
    int n = add(list, 0, TINY_VOCAB, HIDDEN, "model.embed_tokens.weight", 0);
    for (int l = 0; l < t->layers; l++) {
        n = add(list, n, HIDDEN, 0, "model.layers.%d.input_layernorm.weight", l);
        n = add(list, n, t->heads * D, HIDDEN, "model.layers.%d.self_attn.q_proj.weight", l);
        n = add(list, n, t->kv_heads * D, HIDDEN, "model.layers.%d.self_attn.k_proj.weight", l);
        n = add(list, n, t->kv_heads * D, HIDDEN, "model.layers.%d.self_attn.v_proj.weight", l);
        n = add(list, n, HIDDEN, t->heads * D, "model.layers.%d.self_attn.o_proj.weight", l);
        if (t->qk_norm) {
            n = add(list, n, D, 0, "model.layers.%d.self_attn.q_norm.weight", l);
            n = add(list, n, D, 0, "model.layers.%d.self_attn.k_norm.weight", l);
        }
        n = add(list, n, HIDDEN, 0, "model.layers.%d.post_attention_layernorm.weight", l);
        if (t->gemma) {
            n = add(list, n, HIDDEN, 0, "model.layers.%d.pre_feedforward_layernorm.weight", l);
            n = add(list, n, HIDDEN, 0, "model.layers.%d.post_feedforward_layernorm.weight", l);
        }
        n = add(list, n, INTER, HIDDEN, "model.layers.%d.mlp.gate_proj.weight", l);
        n = add(list, n, INTER, HIDDEN, "model.layers.%d.mlp.up_proj.weight", l);
        n = add(list, n, HIDDEN, INTER, "model.layers.%d.mlp.down_proj.weight", l);
    }
    n = add(list, n, t->hidden_of_norm ? t->hidden_of_norm : HIDDEN, 0, "model.norm.weight", 0);
    if (!t->gemma)
        n = add(list, n, TINY_VOCAB, HIDDEN, "lm_head.weight", 0);
    if (t->also)
        n = add(list, n, HIDDEN, 0, t->also, 0);
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

/* Those of the tensors whose number is `part` modulo `parts`. */
static int64_t write_weights(const struct tiny *t, const char *path, const struct item *list, int n, int part,
                             int parts)
{
    static char header[MOST_TENSORS * 200];
    int at = snprintf(header, sizeof(header), "{\"__metadata__\": {\"format\": \"pt\"}");
    int64_t offset = 0, size = t->f32 ? 4 : 2;
    for (int i = part; i < n; i += parts) {
        const struct item *x = &list[i];
        int64_t bytes = x->rows * (x->cols ? x->cols : 1) * size;
        if (t->without && !strcmp(t->without, x->name))
            continue;
        at += snprintf(header + at, sizeof(header) - (size_t)at, ", \"%s\": {\"dtype\": \"%s\", \"shape\": [%" PRId64,
                       x->name,
                       t->f32   ? "F32"
                       : t->f16 ? "F16"
                                : "BF16",
                       x->rows);
        if (x->cols)
            at += snprintf(header + at, sizeof(header) - (size_t)at, ", %" PRId64, x->cols);
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
        for (int64_t k = 0; k < list[i].rows * (list[i].cols ? list[i].cols : 1); k++)
            if (!t->without || strcmp(t->without, list[i].name))
                write_number(t, f, weight(t, list[i].name, list[i].cols, k));
    ck_assert_int_eq(fclose(f), 0);
    return 8 + at + offset;
}

static void write_config(const struct tiny *t, const char *path)
{
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fprintf(f,
            "{\n  \"architectures\": [\"%s\"],\n  \"hidden_size\": %d,\n  \"intermediate_size\": %d,\n"
            "  \"num_hidden_layers\": %d,\n  \"num_attention_heads\": %d,\n  \"num_key_value_heads\": %d,\n"
            "  \"head_dim\": %d,\n  \"rms_norm_eps\": 1e-5,\n  \"rope_theta\": %g,\n  \"vocab_size\": %d,\n",
            t->arch, HIDDEN, INTER, t->layers, t->heads, t->kv_heads, D, t->theta, TINY_VOCAB);
    if (t->llama3_original)
        fprintf(f,
                "  \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8.0, \"low_freq_factor\": 1.0, "
                "\"high_freq_factor\": 4.0, \"original_max_position_embeddings\": %g},\n",
                t->llama3_original);
    if (t->linear)
        fprintf(f, "  \"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": %g},\n", t->linear);
    if (t->gemma)
        fprintf(
            f,
            "  \"hidden_activation\": \"gelu_pytorch_tanh\",\n  \"rope_local_base_freq\": %g,\n  \"sliding_window\": "
            "%d,\n  \"query_pre_attn_scalar\": 32,\n"
            "  \"layer_types\": [\"sliding_attention\", \"full_attention\", \"sliding_attention\"],\n",
            t->local_theta, t->window);
    else
        fputs("  \"hidden_act\": \"silu\",\n  \"tie_word_embeddings\": false,\n", f);
    fputs("  \"max_position_embeddings\": 64\n}\n", f);
    ck_assert_int_eq(fclose(f), 0);
}

int64_t tiny_write(const struct tiny *t, const char *folder)
{
    struct item list[MOST_TENSORS];
    char path[256];
    int n = all_items(t, list);
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

/* y [n, rows] = x [n, cols] w^T */
static void linear(const struct tiny *t, double *y, const double *x, int n, const char *name, int rows, int cols)
{
    double *w = malloc((size_t)(rows * cols) * sizeof(*w));
    ck_assert_ptr_nonnull(w);
    for (int i = 0; i < rows * cols; i++)
        w[i] = weight(t, name, cols, i);
    for (int m = 0; m < n; m++)
        for (int r = 0; r < rows; r++) {
            double sum = 0;
            for (int c = 0; c < cols; c++)
                sum += x[m * cols + c] * w[r * cols + c];
            y[m * rows + r] = sum;
        }
    free(w);
}

/* n rows of `size`, in place or not. */
static void norm(const struct tiny *t, double *y, const double *x, int n, int size, const char *name)
{
    for (int m = 0; m < n; m++) {
        double squares = 0;
        for (int i = 0; i < size; i++)
            squares += x[m * size + i] * x[m * size + i];
        for (int i = 0; i < size; i++)
            y[m * size + i] = x[m * size + i] / sqrt(squares / size + 1e-5) * (t->gemma + weight(t, name, 0, i));
    }
}

static double frequency(const struct tiny *t, int pair, bool sliding)
{
    const double pi = 3.14159265358979323846;
    double f = pow(sliding ? t->local_theta : t->theta, -2.0 * pair / D), wavelength = 2 * pi / f;
    if (sliding)
        return f;
    if (t->linear)
        return f / t->linear;
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
    for (int m = 0; m < n; m++)
        for (int h = 0; h < heads; h++)
            for (int i = 0; i < D / 2; i++) {
                double *a = &x[(m * heads + h) * D + i], *b = a + D / 2, angle = m * frequency(t, i, sliding), was = *a;
                *a = was * cos(angle) - *b * sin(angle);
                *b = *b * cos(angle) + was * sin(angle);
            }
}

static void attention(const struct tiny *t, double *out, const double *q, const double *k, const double *v, int n,
                      bool sliding)
{
    double scale = 1 / sqrt(t->gemma ? 32 : D);
    for (int m = 0; m < n; m++)
        for (int h = 0; h < t->heads; h++) {
            int of = h / (t->heads / t->kv_heads);
            double sum = 0, acc[D] = { 0 };
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

void tiny_reference(const struct tiny *t, const int32_t *tokens, int n, double *logits)
{
    static double x[MOST_TOKENS * HIDDEN], h[MOST_TOKENS * HIDDEN], y[MOST_TOKENS * HIDDEN], q[MOST_TOKENS * 4 * D],
        k[MOST_TOKENS * 4 * D], v[MOST_TOKENS * 4 * D], a[MOST_TOKENS * 4 * D], gate[MOST_TOKENS * INTER],
        up[MOST_TOKENS * INTER];
    char name[80];
    ck_assert(n <= MOST_TOKENS && t->heads <= 4);
    for (int i = 0; i < n * HIDDEN; i++)
        x[i] = weight(t, "model.embed_tokens.weight", HIDDEN, tokens[i / HIDDEN] * HIDDEN + i % HIDDEN) *
               (t->gemma ? sqrt(HIDDEN) : 1);
    for (int l = 0; l < t->layers; l++) {
        bool sliding = t->gemma && l != 1;
        int prefix = snprintf(name, sizeof(name), "model.layers.%d.", l);
#define OF(suffix) (strcpy(name + prefix, suffix ".weight"), name)
        norm(t, h, x, n, HIDDEN, OF("input_layernorm"));
        linear(t, q, h, n, OF("self_attn.q_proj"), t->heads * D, HIDDEN);
        linear(t, k, h, n, OF("self_attn.k_proj"), t->kv_heads * D, HIDDEN);
        linear(t, v, h, n, OF("self_attn.v_proj"), t->kv_heads * D, HIDDEN);
        if (t->qk_norm) {
            norm(t, q, q, n * t->heads, D, OF("self_attn.q_norm"));
            norm(t, k, k, n * t->kv_heads, D, OF("self_attn.k_norm"));
        }
        rotate(t, q, n, t->heads, sliding);
        rotate(t, k, n, t->kv_heads, sliding);
        attention(t, a, q, k, v, n, sliding);
        linear(t, y, a, n, OF("self_attn.o_proj"), HIDDEN, t->heads * D);
        if (t->gemma)
            norm(t, y, y, n, HIDDEN, OF("post_attention_layernorm"));
        for (int i = 0; i < n * HIDDEN; i++)
            x[i] += y[i];
        norm(t, h, x, n, HIDDEN, t->gemma ? OF("pre_feedforward_layernorm") : OF("post_attention_layernorm"));
        linear(t, gate, h, n, OF("mlp.gate_proj"), INTER, HIDDEN);
        linear(t, up, h, n, OF("mlp.up_proj"), INTER, HIDDEN);
        for (int i = 0; i < n * INTER; i++)
            up[i] *= activation(t, gate[i]);
        linear(t, y, up, n, OF("mlp.down_proj"), HIDDEN, INTER);
        if (t->gemma)
            norm(t, y, y, n, HIDDEN, OF("post_feedforward_layernorm"));
        for (int i = 0; i < n * HIDDEN; i++)
            x[i] += y[i];
#undef OF
    }
    norm(t, h, x, n, HIDDEN, "model.norm.weight");
    linear(t, logits, h, n, t->gemma ? "model.embed_tokens.weight" : "lm_head.weight", TINY_VOCAB, HIDDEN);
}
