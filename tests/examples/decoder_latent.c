/* SPDX-License-Identifier: MIT
 *
 * DeepSeek's attention of the decoder's tiny models: writing the files, and computing the same in double, as the model's
 * report has it: keys and values of each head are made of the latent. */
#include "decoder_model.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_HEADS = 4, MOST_HEAD = 128, ORIGINAL = 16, FACTOR = 4 };

static int norm_item(struct tiny_item *list, int n, int layer, const char *part, int64_t size)
{
    list[n] = (struct tiny_item){ .ndim = 1, .shape = { size } };
    snprintf(list[n].name, sizeof(list[n].name), "model.layers.%d.self_attn.%s", layer, part);
    return n + 1;
}

int tiny_latent_items(const struct tiny *t, int layer, struct tiny_item *list, int n)
{
    int64_t of_q = t->heads * (t->nope + t->rope), of_kv = t->heads * (t->nope + t->values);
    n = tiny_append_matrix(t, list, n, layer, "self_attn.q_a_proj.weight", t->q_rank, t->hidden);
    n = norm_item(list, n, layer, "q_a_layernorm.weight", t->q_rank);
    n = tiny_append_matrix(t, list, n, layer, "self_attn.q_b_proj.weight", of_q, t->q_rank);
    n = tiny_append_matrix(t, list, n, layer, "self_attn.kv_a_proj_with_mqa.weight", t->kv_rank + t->rope, t->hidden);
    n = norm_item(list, n, layer, "kv_a_layernorm.weight", t->kv_rank);
    n = tiny_append_matrix(t, list, n, layer, "self_attn.kv_b_proj.weight", of_kv, t->kv_rank);
    return tiny_append_matrix(t, list, n, layer, "self_attn.o_proj.weight", t->hidden, t->heads * t->values);
}

void tiny_write_latent(const struct tiny *t, FILE *f)
{
    fprintf(f,
            "  \"q_lora_rank\": %d,\n  \"kv_lora_rank\": %d,\n  \"qk_nope_head_dim\": %d,\n"
            "  \"qk_rope_head_dim\": %d,\n  \"v_head_dim\": %d,\n",
            t->q_rank, t->kv_rank, t->nope, t->rope, t->values);
    if (t->mscale_all != 0)
        fprintf(f,
                "  \"rope_scaling\": {\"type\": \"yarn\", \"factor\": %d, \"beta_fast\": 32, \"beta_slow\": 1, "
                "\"mscale\": %g, \"mscale_all_dim\": %g, \"original_max_position_embeddings\": %d},\n",
                FACTOR, t->mscale, t->mscale_all, ORIGINAL);
}

static double yarn_size(double mscale)
{
    return 0.1 * mscale * log(FACTOR) + 1;
}

/* Pair i's turn from a position to the next. */
static double frequency(const struct tiny *t, int i)
{
    const double pi = 3.14159265358979323846;
    double f = pow(t->theta, -2.0 * i / t->rope), d = t->rope / (2 * log(t->theta));
    if (t->mscale_all == 0)
        return f;
    double low = fmax(floor(d * log(ORIGINAL / (32 * 2 * pi))), 0),
           high = fmin(ceil(d * log(ORIGINAL / (1 * 2 * pi))), t->rope - 1), ramp = (i - low) / (high - low);
    ramp = fmin(fmax(ramp, 0), 1);
    return f * (1 - ramp) + f / FACTOR * ramp;
}

/* Pairs of neighbours, of one head at a position. */
static void rotate(const struct tiny *t, double *x, int position)
{
    double size = t->mscale_all != 0 ? yarn_size(t->mscale) / yarn_size(t->mscale_all) : 1;
    for (int i = 0; i < t->rope / 2; i++) {
        double angle = position * frequency(t, i), a = x[2 * i], b = x[2 * i + 1];
        x[2 * i] = size * (a * cos(angle) - b * sin(angle));
        x[2 * i + 1] = size * (b * cos(angle) + a * sin(angle));
    }
}

/* What query m of head h makes of keys 0 to m. q: of the head; kv: [n, heads, nope + values]; k_rope: [n, latent's row]
 * from its rotated part on. */
static void attend(const struct tiny *t, double *out, const double *q, const double *kv, const double *k_rope,
                   int64_t k_row, int m, int h)
{
    int head = t->nope + t->values;
    double scale = 1 / sqrt(t->nope + t->rope), sum = 0;
    if (t->mscale_all != 0)
        scale *= yarn_size(t->mscale_all) * yarn_size(t->mscale_all);
    for (int i = 0; i < t->values; i++)
        out[i] = 0;
    for (int j = 0; j <= m; j++) {
        const double *of = kv + (j * t->heads + h) * head;
        double score = 0;
        for (int i = 0; i < t->nope; i++)
            score += q[i] * of[i];
        for (int i = 0; i < t->rope; i++)
            score += q[t->nope + i] * k_rope[j * k_row + i];
        double w = exp(scale * score);
        sum += w;
        for (int i = 0; i < t->values; i++)
            out[i] += w * of[t->nope + i];
    }
    for (int i = 0; i < t->values; i++)
        out[i] /= sum;
}

void tiny_latent_attention(const struct tiny *t, int layer, double *x, const double *h, int n)
{
    static double low[TINY_MOST_TOKENS * TINY_MOST_HIDDEN], latent[TINY_MOST_TOKENS * 2 * TINY_MOST_HIDDEN],
        normed[TINY_MOST_TOKENS * TINY_MOST_HIDDEN], q[TINY_MOST_TOKENS * MOST_HEADS * 2 * MOST_HEAD],
        kv[TINY_MOST_TOKENS * MOST_HEADS * 2 * MOST_HEAD], out[TINY_MOST_TOKENS * MOST_HEADS * MOST_HEAD],
        y[TINY_MOST_TOKENS * TINY_MOST_HIDDEN];
    char name[80];
    int head = t->nope + t->rope, row = t->kv_rank + t->rope;
    int prefix = snprintf(name, sizeof(name), "model.layers.%d.self_attn.", layer);
    ck_assert(t->heads <= MOST_HEADS && t->nope <= MOST_HEAD && t->rope <= MOST_HEAD && t->values <= MOST_HEAD);
    ck_assert(t->q_rank <= TINY_MOST_HIDDEN && t->kv_rank <= TINY_MOST_HIDDEN);
#define OF(suffix) (strcpy(name + prefix, suffix), name)
    tiny_linear(t, low, h, n, OF("q_a_proj.weight"), t->q_rank, t->hidden);
    tiny_norm(t, low, low, n, t->q_rank, OF("q_a_layernorm.weight"));
    tiny_linear(t, q, low, n, OF("q_b_proj.weight"), t->heads * head, t->q_rank);
    tiny_linear(t, latent, h, n, OF("kv_a_proj_with_mqa.weight"), row, t->hidden);
    for (int m = 0; m < n; m++) {
        tiny_norm(t, normed + m * t->kv_rank, latent + m * row, 1, t->kv_rank, OF("kv_a_layernorm.weight"));
        rotate(t, latent + m * row + t->kv_rank, m);
        for (int i = 0; i < t->heads; i++)
            rotate(t, q + (m * t->heads + i) * head + t->nope, m);
    }
    tiny_linear(t, kv, normed, n, OF("kv_b_proj.weight"), t->heads * (t->nope + t->values), t->kv_rank);
    for (int m = 0; m < n; m++)
        for (int i = 0; i < t->heads; i++)
            attend(t, out + (m * t->heads + i) * t->values, q + (m * t->heads + i) * head, kv, latent + t->kv_rank, row,
                   m, i);
    tiny_linear(t, y, out, n, OF("o_proj.weight"), t->hidden, t->heads * t->values);
#undef OF
    for (int i = 0; i < n * t->hidden; i++)
        x[i] += y[i];
}
