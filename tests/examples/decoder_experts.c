/* SPDX-License-Identifier: MIT
 *
 * The experts of the decoder's tiny models: writing the files, and computing the same in double, token by token. */
#include "decoder_model.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_INTER = 256, MOST = 16 /* experts */ };

double tiny_margin = INFINITY;

/* ---- files ------------------------------------------------------------------------------------------------------ */

static struct tiny_item *append(struct tiny_item *list, int *n, enum tiny_kind kind, int layer, const char *part)
{
    struct tiny_item *x = &list[(*n)++];
    *x = (struct tiny_item){ .kind = kind };
    snprintf(x->name, sizeof(x->name), "model.layers.%d.%s", layer, part);
    return x;
}

#define SHAPE(item, ...)                                                                                               \
    do {                                                                                                               \
        const int64_t shape_[] = { __VA_ARGS__ };                                                                      \
        struct tiny_item *x_ = (item);                                                                                 \
        x_->ndim = (int)(sizeof(shape_) / sizeof(shape_[0]));                                                          \
        memcpy(x_->shape, shape_, sizeof(shape_));                                                                     \
    } while (0)

/* gate, up and down of an expert, or of the shared one (-1). */
static void matrix_name(char *to, size_t size, int expert, const char *which)
{
    if (expert < 0)
        snprintf(to, size, "shared_experts.%s_proj.weight", which);
    else
        snprintf(to, size, "experts.%d.%s_proj.weight", expert, which);
}

int tiny_append_matrix(const struct tiny *t, struct tiny_item *list, int n, int layer, const char *part, int64_t rows,
                       int64_t cols)
{
    char scales[96];
    SHAPE(append(list, &n, t->fp8 ? TINY_E4M3 : TINY_FLOATS, layer, part), rows, cols);
    snprintf(scales, sizeof(scales), "%s_scale_inv", part);
    if (t->fp8)
        SHAPE(append(list, &n, TINY_F32, layer, scales), (rows + 127) / 128, (cols + 127) / 128);
    return n;
}

static int append_experts(const struct tiny *t, int layer, struct tiny_item *list, int n)
{
    static const char *const which[] = { "gate", "up", "down" };
    for (int e = t->deepseek ? -1 : 0; e < t->experts; e++)
        for (int i = 0; i < 3; i++) {
            char part[64] = "mlp.";
            matrix_name(part + 4, sizeof(part) - 4, e, which[i]);
            n = tiny_append_matrix(t, list, n, layer, part, i < 2 ? t->inter : t->hidden, i < 2 ? t->hidden : t->inter);
        }
    return n;
}

int tiny_expert_items(const struct tiny *t, int layer, struct tiny_item *list, int n)
{
    SHAPE(append(list, &n, TINY_FLOATS, layer, t->gpt_oss ? "mlp.router.weight" : "mlp.gate.weight"), t->experts,
          t->hidden);
    if (t->deepseek)
        SHAPE(append(list, &n, TINY_F32, layer, "mlp.gate.e_score_correction_bias"), t->experts);
    if (!t->gpt_oss)
        return append_experts(t, layer, list, n);
    int64_t e = t->experts, rows = 2 * t->inter;
    SHAPE(append(list, &n, TINY_FLOATS, layer, "mlp.router.bias"), e);
    SHAPE(append(list, &n, TINY_U8, layer, "mlp.experts.gate_up_proj_blocks"), e, rows, t->hidden / 32, 16);
    SHAPE(append(list, &n, TINY_U8, layer, "mlp.experts.gate_up_proj_scales"), e, rows, t->hidden / 32);
    SHAPE(append(list, &n, TINY_FLOATS, layer, "mlp.experts.gate_up_proj_bias"), e, rows);
    SHAPE(append(list, &n, TINY_U8, layer, "mlp.experts.down_proj_blocks"), e, t->hidden, t->inter / 32, 16);
    SHAPE(append(list, &n, TINY_U8, layer, "mlp.experts.down_proj_scales"), e, t->hidden, t->inter / 32);
    SHAPE(append(list, &n, TINY_FLOATS, layer, "mlp.experts.down_proj_bias"), e, t->hidden);
    return n;
}

uint8_t tiny_byte(const struct tiny *t, const char *name, enum tiny_kind kind, int64_t i)
{
    uint64_t h = tiny_hash(t, name, i);
    if (kind == TINY_E4M3)
        return (uint8_t)((h & 1) << 7 | (5 + h / 2 % 5) << 3 | h / 10 % 8); /* 1/4 to 7.5 */
    return strstr(name, "scales") ? (uint8_t)(121 + h % 3) : (uint8_t)h;    /* 1/64 to 1/16; any two of e2m1 */
}

double tiny_f32(const struct tiny *t, const char *name, int64_t i)
{
    int k = (int)tiny_hash(t, name, i) % 127 - 63;
    return strstr(name, "bias") ? k * 0x1p-8 + 0x1p-14 : (96 + k) * 0x1p-11;
}

/* ---- in double -------------------------------------------------------------------------------------------------- */

static double e4m3(uint8_t code)
{
    double v = ldexp(8 + code % 8, (code >> 3 & 15) - 10);
    return code & 128 ? -v : v;
}

double tiny_element(const struct tiny *t, const char *name, int64_t cols, int64_t r, int64_t c)
{
    char scales[160];
    if (!t->fp8)
        return tiny_weight(t, name, cols, r * cols + c);
    snprintf(scales, sizeof(scales), "%s_scale_inv", name);
    return e4m3(tiny_byte(t, name, TINY_E4M3, r * cols + c)) *
           tiny_f32(t, scales, r / 128 * ((cols + 127) / 128) + c / 128);
}

/* Row r of gate, up or down of an expert (-1: the shared one), and its bias. */
static double row_of(const struct tiny *t, int layer, int expert, int which, int r, double *row)
{
    static const char *const names[] = { "gate", "up", "down" };
    static const double e2m1[] = { 0, 0.5, 1, 1.5, 2, 3, 4, 6 };
    int cols = which == 2 ? t->inter : t->hidden;
    char part[64], name[128];
    if (t->gpt_oss) {
        const char *stacked = which == 2 ? "down" : "gate_up";
        int64_t at = which == 2 ? (int64_t)expert * t->hidden + r : (int64_t)expert * 2 * t->inter + 2 * r + which;
        char blocks[128];
        snprintf(blocks, sizeof(blocks), "model.layers.%d.mlp.experts.%s_proj_blocks", layer, stacked);
        snprintf(name, sizeof(name), "model.layers.%d.mlp.experts.%s_proj_scales", layer, stacked);
        for (int c = 0; c < cols; c++) {
            uint8_t two = tiny_byte(t, blocks, TINY_U8, (at * cols + c) / 2), code = c % 2 ? two >> 4 : two & 15;
            int scale = tiny_byte(t, name, TINY_U8, (at * cols + c) / 32);
            row[c] = ldexp((code & 8 ? -1 : 1) * e2m1[code & 7], scale - 127);
        }
        snprintf(name, sizeof(name), "model.layers.%d.mlp.experts.%s_proj_bias", layer, stacked);
        return tiny_weight(t, name, cols, at);
    }
    matrix_name(part, sizeof(part), expert, names[which]);
    snprintf(name, sizeof(name), "model.layers.%d.mlp.%s", layer, part);
    for (int c = 0; c < cols; c++)
        row[c] = tiny_element(t, name, cols, r, c);
    return 0;
}

static double dot(const double *a, const double *b, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* x += weight times what the expert makes of h */
static void add_expert(const struct tiny *t, int layer, int expert, double weight, const double *h, double *x)
{
    double between[MOST_INTER], row[MOST_INTER];
    for (int i = 0; i < t->inter; i++) {
        double gate = row_of(t, layer, expert, 0, i, row);
        gate += dot(row, h, t->hidden);
        double up = row_of(t, layer, expert, 1, i, row);
        up += dot(row, h, t->hidden);
        if (t->gpt_oss) {
            gate = fmin(gate, 1);
            up = fmin(fmax(up, -1), 1);
            between[i] = gate / (1 + exp(-1.702 * gate)) * (up + 1);
        } else {
            between[i] = gate / (1 + exp(-gate)) * up;
        }
    }
    for (int i = 0; i < t->hidden; i++) {
        double bias = row_of(t, layer, expert, 2, i, row);
        x[i] += weight * (dot(row, between, t->inter) + bias);
    }
}

/* Takes the largest `top` of n values that may be taken; taken[] are theirs in order. slope: of values over logits, at
 * most. */
static void choose(const double *values, const bool *may, int n, int top, int *taken, double slope)
{
    bool is[MOST] = { false };
    double least = INFINITY, most = -INFINITY;
    for (int i = 0; i < top; i++) {
        int best = -1;
        for (int e = 0; e < n; e++)
            if (may[e] && !is[e] && (best < 0 || values[e] > values[best]))
                best = e;
        ck_assert_int_ge(best, 0);
        is[best] = true;
        taken[i] = best;
        least = values[best];
    }
    for (int e = 0; e < n; e++)
        if (may[e] && !is[e])
            most = fmax(most, values[e]);
    tiny_margin = fmin(tiny_margin, (least - most) / slope);
}

/* Which experts of DeepSeek's groups may be chosen. */
static void choose_groups(const struct tiny *t, const double *values, bool *may)
{
    double group[MOST];
    int taken[MOST], size = t->experts / t->groups;
    const bool any[MOST] = { true, true, true, true, true, true, true, true };
    for (int g = 0; g < t->groups; g++) {
        double first = -INFINITY, second = -INFINITY;
        for (int e = g * size; e < (g + 1) * size; e++) {
            second = fmax(second, fmin(first, values[e]));
            first = fmax(first, values[e]);
        }
        group[g] = first + second;
    }
    choose(group, any, t->groups, t->topk_groups, taken, 0.25);
    for (int e = 0; e < t->experts; e++)
        may[e] = false;
    for (int i = 0; i < t->topk_groups; i++)
        for (int e = 0; e < size; e++)
            may[taken[i] * size + e] = true;
}

static void route(const struct tiny *t, int layer, const double *h, int *taken, double *weights)
{
    char name[80];
    double logits[MOST], values[MOST], sum = 0;
    bool may[MOST];
    for (int e = 0; e < t->experts; e++) {
        double row[TINY_MOST_HIDDEN];
        snprintf(name, sizeof(name), "model.layers.%d.mlp.%s", layer, t->gpt_oss ? "router.weight" : "gate.weight");
        for (int c = 0; c < t->hidden; c++)
            row[c] = tiny_weight(t, name, t->hidden, e * t->hidden + c);
        logits[e] = dot(row, h, t->hidden);
        snprintf(name, sizeof(name), "model.layers.%d.mlp.%s", layer,
                 t->gpt_oss ? "router.bias" : "gate.e_score_correction_bias");
        if (t->gpt_oss)
            logits[e] += tiny_weight(t, name, 0, e);
        values[e] = t->deepseek ? 1 / (1 + exp(-logits[e])) + tiny_f32(t, name, e) : logits[e];
        may[e] = true;
    }
    if (t->deepseek)
        choose_groups(t, values, may);
    choose(values, may, t->experts, t->top, taken, t->deepseek ? 0.25 : 1);
    for (int i = 0; i < t->top; i++)
        sum += weights[i] = t->deepseek ? 1 / (1 + exp(-logits[taken[i]])) : exp(logits[taken[i]]);
    for (int i = 0; i < t->top; i++)
        weights[i] *= (t->deepseek ? 2.5 : 1) / sum;
}

void tiny_experts(const struct tiny *t, int layer, double *x, const double *h, int n)
{
    ck_assert(t->experts <= MOST && t->inter <= MOST_INTER && t->hidden <= TINY_MOST_HIDDEN);
    for (int m = 0; m < n; m++) {
        int taken[MOST];
        double weights[MOST];
        route(t, layer, h + m * t->hidden, taken, weights);
        for (int i = 0; i < t->top; i++)
            add_expert(t, layer, taken[i], weights[i], h + m * t->hidden, x + m * t->hidden);
        if (t->deepseek)
            add_expert(t, layer, -1, 1, h + m * t->hidden, x + m * t->hidden);
    }
}
