/* SPDX-License-Identifier: MIT
 *
 * Gemma 4 in double, by transformers 5.24: heads of two sizes, keys of other layers, a norm of v,
 * inputs of layers, a factor at a layer's end. */
#include "decoder_model.h"

#include <check.h>
#include <math.h>
#include <string.h>

enum { D = 64, FULL_D = 128, FULL_KV = 2, MOST_HEADS = 4, MOST_COLUMNS = MOST_HEADS * FULL_D };

bool tiny_gemma4_full(const struct tiny *t, int layer)
{
    return layer == 1 || layer == t->layers - 1;
}

static bool shares(const struct tiny *t, int layer)
{
    return layer >= t->layers - t->shared;
}

int tiny_gemma4_inter(const struct tiny *t, int layer, int inter)
{
    return t->shared && shares(t, layer) ? 2 * inter : inter;
}

static int size_of(const struct tiny *t, int layer)
{
    return tiny_gemma4_full(t, layer) ? FULL_D : D;
}

static int keys_of(const struct tiny *t, int layer)
{
    return tiny_gemma4_full(t, layer) && t->k_is_v ? FULL_KV : t->kv_heads;
}

static bool has_v(const struct tiny *t, int layer)
{
    return !(tiny_gemma4_full(t, layer) && t->k_is_v);
}

static int item(struct tiny_item *list, int n, int64_t rows, int64_t cols, const char *part, int layer)
{
    list[n] = (struct tiny_item){ .ndim = cols ? 2 : 1, .shape = { rows, cols } };
    if (layer < 0)
        snprintf(list[n].name, sizeof(list[n].name), "model.%s", part);
    else
        snprintf(list[n].name, sizeof(list[n].name), "model.layers.%d.%s", layer, part);
    return n + 1;
}

int tiny_gemma4_items(const struct tiny *t, struct tiny_item *list, int n, int l)
{
    int d = size_of(t, l), q = t->heads * d, kv = keys_of(t, l) * d;
    n = item(list, n, q, t->hidden, "self_attn.q_proj.weight", l);
    n = item(list, n, d, 0, "self_attn.q_norm.weight", l);
    n = item(list, n, t->hidden, q, "self_attn.o_proj.weight", l);
    n = item(list, n, 1, 0, "layer_scalar", l);
    if (!shares(t, l)) {
        n = item(list, n, kv, t->hidden, "self_attn.k_proj.weight", l);
        n = item(list, n, d, 0, "self_attn.k_norm.weight", l);
        if (has_v(t, l))
            n = item(list, n, kv, t->hidden, "self_attn.v_proj.weight", l);
    }
    if (!t->extra)
        return n;
    n = item(list, n, t->extra, t->hidden, "per_layer_input_gate.weight", l);
    n = item(list, n, t->hidden, t->extra, "per_layer_projection.weight", l);
    n = item(list, n, t->hidden, 0, "post_per_layer_input_norm.weight", l);
    if (l > 0)
        return n;
    n = item(list, n, TINY_VOCAB, t->layers * t->extra, "embed_tokens_per_layer.weight", -1);
    n = item(list, n, t->layers * t->extra, t->hidden, "per_layer_model_projection.weight", -1);
    return item(list, n, t->extra, 0, "per_layer_projection_norm.weight", -1);
}

/* With values of full layers at the top, as google's files have them, or in per_layer_config, as transformers 5.24 writes
 * them. */
void tiny_write_gemma4(const struct tiny *t, FILE *f)
{
    fprintf(f,
            "  \"num_kv_shared_layers\": %d,\n  \"use_double_wide_mlp\": %s,\n  \"attention_k_eq_v\": %s,\n"
            "  \"hidden_size_per_layer_input\": %d,\n  \"vocab_size_per_layer_input\": %d,\n"
            "  \"hidden_activation\": \"gelu_pytorch_tanh\",\n  \"sliding_window\": %d,\n",
            t->shared, t->shared ? "true" : "false", t->k_is_v ? "true" : "false", t->extra, TINY_VOCAB, t->window);
    if (t->soft_cap > 0)
        fprintf(f, "  \"final_logit_softcapping\": %g,\n  \"global_head_dim\": %d,\n", t->soft_cap, FULL_D);
    else
        fprintf(f, "  \"per_layer_config\": {\"1\": {\"head_dim\": %d, \"num_key_value_heads\": %d}},\n", FULL_D,
                FULL_KV);
    fprintf(f,
            "  \"rope_parameters\": {\"full_attention\": {\"rope_type\": \"proportional\", "
            "\"partial_rotary_factor\": %g, \"rope_theta\": %g},\n"
            "    \"sliding_attention\": {\"rope_type\": \"default\", \"rope_theta\": %g}},\n  \"layer_types\": [",
            t->proportional, t->theta, t->local_theta);
    for (int l = 0; l < t->layers; l++)
        fprintf(f, "%s\"%s_attention\"", l ? ", " : "", tiny_gemma4_full(t, l) ? "full" : "sliding");
    fputs("],\n", f);
}

static void rotate(const struct tiny *t, double *x, int n, int heads, int layer)
{
    bool full = tiny_gemma4_full(t, layer);
    int d = size_of(t, layer), turned = full ? (int)(t->proportional * d / 2) : d / 2;
    for (int row = 0; row < n * heads; row++)
        for (int i = 0; i < turned; i++) {
            double angle = row / heads * pow(full ? t->theta : t->local_theta, -2.0 * i / d);
            double *a = &x[row * d + i], *b = a + d / 2, was = *a;
            *a = was * cos(angle) - *b * sin(angle);
            *b = *b * cos(angle) + was * sin(angle);
        }
}

/* Keys and values of the last layers of either kind that have some. */
static double kept[2][2][TINY_MOST_TOKENS * MOST_COLUMNS];

void tiny_gemma4_attention(const struct tiny *t, int layer, double *out, const double *h, int n)
{
    static double q[TINY_MOST_TOKENS * MOST_COLUMNS];
    char name[80];
    int prefix = snprintf(name, sizeof(name), "model.layers.%d.", layer);
#define OF(suffix) (strcpy(name + prefix, suffix), name)
    bool full = tiny_gemma4_full(t, layer);
    int d = size_of(t, layer), heads_k = keys_of(t, layer), columns = t->heads * d;
    double *k = kept[full][0], *v = kept[full][1];
    tiny_linear(t, q, h, n, OF("self_attn.q_proj.weight"), columns, t->hidden);
    tiny_norm(t, q, q, n * t->heads, d, OF("self_attn.q_norm.weight"));
    rotate(t, q, n, t->heads, layer);
    if (!shares(t, layer)) {
        tiny_linear(t, k, h, n, OF("self_attn.k_proj.weight"), heads_k * d, t->hidden);
        if (has_v(t, layer))
            tiny_linear(t, v, h, n, OF("self_attn.v_proj.weight"), heads_k * d, t->hidden);
        else
            memcpy(v, k, (size_t)(n * heads_k * d) * sizeof(*v));
        tiny_norm(t, v, v, n * heads_k, d, NULL);
        tiny_norm(t, k, k, n * heads_k, d, OF("self_attn.k_norm.weight"));
        rotate(t, k, n, heads_k, layer);
    }
    for (int m = 0; m < n; m++)
        for (int a = 0; a < t->heads; a++) {
            int of = a / (t->heads / heads_k);
            double sum = 0, acc[FULL_D] = { 0 };
            for (int j = !full && m >= t->window ? m - t->window + 1 : 0; j <= m; j++) {
                double score = 0; /* not divided by sqrt(d) */
                for (int i = 0; i < d; i++)
                    score += q[m * columns + a * d + i] * k[(j * heads_k + of) * d + i];
                sum += exp(score);
                for (int i = 0; i < d; i++)
                    acc[i] += exp(score) * v[(j * heads_k + of) * d + i];
            }
            for (int i = 0; i < d; i++)
                q[m * columns + a * d + i] = acc[i] / sum;
        }
    tiny_linear(t, out, q, n, OF("self_attn.o_proj.weight"), t->hidden, columns);
}

static double gelu(double v)
{
    return v * (1 + tanh(sqrt(2 / 3.14159265358979323846) * (v + 0.044715 * v * v * v))) / 2;
}

/* The inputs of all layers, of the embedding x. */
static void make_inputs(const struct tiny *t, double *inputs, const int32_t *tokens, const double *x, int n)
{
    int columns = t->layers * t->extra;
    tiny_linear(t, inputs, x, n, "model.per_layer_model_projection.weight", columns, t->hidden);
    for (int i = 0; i < n * columns; i++)
        inputs[i] /= sqrt(t->hidden);
    tiny_norm(t, inputs, inputs, n * t->layers, t->extra, "model.per_layer_projection_norm.weight");
    for (int i = 0; i < n * columns; i++)
        inputs[i] = (inputs[i] + sqrt(t->extra) * tiny_weight(t, "model.embed_tokens_per_layer.weight", columns,
                                                              tokens[i / columns] * columns + i % columns)) /
                    sqrt(2);
}

void tiny_gemma4_end(const struct tiny *t, int layer, double *x, const int32_t *tokens, int n)
{
    static double inputs[TINY_MOST_TOKENS * 8 * 32], gate[TINY_MOST_TOKENS * 32],
        y[TINY_MOST_TOKENS * TINY_MOST_HIDDEN];
    char name[80];
    int prefix = snprintf(name, sizeof(name), "model.layers.%d.", layer);
    ck_assert(t->layers <= 8 && t->extra <= 32);
    if (layer < 0) { /* before the first one */
        if (t->extra)
            make_inputs(t, inputs, tokens, x, n);
        return;
    }
    if (t->extra) {
        tiny_linear(t, gate, x, n, OF("per_layer_input_gate.weight"), t->extra, t->hidden);
        for (int i = 0; i < n * t->extra; i++)
            gate[i] = gelu(gate[i]) * inputs[(i / t->extra * t->layers + layer) * t->extra + i % t->extra];
        tiny_linear(t, y, gate, n, OF("per_layer_projection.weight"), t->hidden, t->extra);
        tiny_norm(t, y, y, n, t->hidden, OF("post_per_layer_input_norm.weight"));
    }
    double factor = tiny_weight(t, OF("layer_scalar"), 0, 0);
    for (int i = 0; i < n * t->hidden; i++)
        x[i] = (x[i] + (t->extra ? y[i] : 0)) * factor;
#undef OF
}
