/* SPDX-License-Identifier: MIT
 *
 * moe_route on the cpu: rows are distributed among threads, each in plain C. */
#include <math.h>

#include "ops/cpu/pool.h"
#include "ops/cpu/rows.h"
#include "route.h"

#define TINY 0x1p-126f /* the smallest score above 0 */

struct job {
    const struct route_args *a;
    const struct rfg_problem *prob;
    int limit; /* rows that count */
};

/* A row; calls on cpu take little stack, so logits are read again where they are wanted. */
struct row {
    const char *x;
    float choice[ROUTE_MAX_E];
    bool keep[ROUTE_MAX_GROUPS]; /* a group's experts may be chosen */
    float largest, sum;          /* of the logits; of exp(logit - largest) */
};

/* exp(l - largest) where the largest may be infinite: what is as large is 1. */
static float power(float l, float largest)
{
    return l == largest ? 1 : expf(l - largest);
}

static float flushed(float score)
{
    return score < TINY ? 0 : score;
}

static float score_of(const struct row *w, int kind, float l)
{
    float score = kind == RFG_MOE_SOFTMAX   ? power(l, w->largest) / w->sum
                  : kind == RFG_MOE_SIGMOID ? 1 / (1 + expf(-l))
                  : l < -40                 ? expf(l / 2) /* log(1 + t) is t */
                                            : sqrtf(fmaxf(l, 0) + log1pf(expf(-fabsf(l))));
    return flushed(score);
}

/* An expert's logit, of a NaN -infinity. */
static float logit(const struct job *j, const struct row *w, int64_t e)
{
    float l = rfg_float_get(w->x, j->prob->dtype[0], e);
    return isnan(l) ? -INFINITY : l;
}

/* What a softmax over the row takes. */
static void sum_row(const struct job *j, struct row *w)
{
    w->largest = -INFINITY;
    w->sum = 0;
    for (int e = 0; e < j->a->e; e++)
        w->largest = fmaxf(w->largest, logit(j, w, e));
    for (int e = 0; e < j->a->e; e++)
        w->sum += power(logit(j, w, e), w->largest);
}

static void read_row(const struct job *j, struct row *w)
{
    int bias_dtype = route_bias_dtype(j->prob), kind = (int)j->prob->v[ROUTE_SCORE];
    const struct route_args *a = j->a;
    if (kind == RFG_MOE_SOFTMAX)
        sum_row(j, w);
    for (int e = 0; e < a->e; e++) {
        float c = logit(j, w, e);
        if (a->bias) {
            float b = rfg_float_get(a->bias, bias_dtype, e), l = rfg_float_get(w->x, j->prob->dtype[0], e);
            c = (kind == RFG_MOE_TOPK_SOFTMAX ? c : score_of(w, kind, c)) + b;
            c = isnan(c) || isnan(l) ? -INFINITY : c;
        }
        w->choice[e] = c;
    }
    for (int g = 0; g < a->groups; g++)
        w->keep[g] = true;
}

/* Keeps the experts of the largest groups. */
static void choose_groups(const struct route_args *a, struct row *w)
{
    float score[ROUTE_MAX_GROUPS];
    for (int g = 0; g < a->groups; g++) {
        float first = -INFINITY, second = -INFINITY;
        for (int e = g * a->size; e < (g + 1) * a->size; e++) {
            float c = w->choice[e];
            second = c > first ? first : c > second ? c : second;
            first = c > first ? c : first;
        }
        score[g] = a->bias && a->size > 1 ? first + second : first;
        score[g] = isnan(score[g]) ? -INFINITY : score[g];
    }
    for (int g = 0; g < a->groups; g++) {
        int better = 0;
        for (int o = 0; o < a->groups; o++)
            better += score[o] > score[g] || (score[o] == score[g] && o < g);
        w->keep[g] = better < a->top_groups;
    }
}

/* The `top` largest of those that are kept, in order. */
static void choose(const struct route_args *a, const struct row *w, int *ids)
{
    int n = 0;
    for (int e = 0; e < a->e; e++) {
        float c = w->choice[e];
        if (!w->keep[e / a->size] || (n == a->top && !(c > w->choice[ids[n - 1]])))
            continue;
        int at = n < a->top ? n++ : n - 1;
        for (; at > 0 && c > w->choice[ids[at - 1]]; at--)
            ids[at] = ids[at - 1];
        ids[at] = e;
    }
}

/* Of slots that have an id. */
static void normalise(const int *ids, float *weights, int n)
{
    float sum = 0, most = 0;
    for (int i = 0; i < n; i++) {
        sum += weights[i];
        most = weights[i] > most ? weights[i] : most;
    }
    if (!(sum > 0) || isinf(sum)) {
        int share = 0;
        for (int i = 0; i < n; i++)
            share += ids[i] >= 0 && weights[i] == most;
        for (int i = 0; i < n; i++)
            weights[i] = ids[i] >= 0 && weights[i] == most;
        sum = (float)(share ? share : 1);
    }
    for (int i = 0; i < n; i++)
        weights[i] /= sum;
}

static void weigh(const struct job *j, const struct row *w, const int *ids, float *weights)
{
    const struct route_args *a = j->a;
    int kind = (int)j->prob->v[ROUTE_SCORE];
    float most = -INFINITY; /* RFG_MOE_TOPK_SOFTMAX: of the choices, which a table's logits are */
    bool chosen = !a->table;
    for (int i = 0; i < a->top && kind == RFG_MOE_TOPK_SOFTMAX; i++)
        if (ids[i] >= 0)
            most = fmaxf(most, chosen ? w->choice[ids[i]] : logit(j, w, ids[i]));
    for (int i = 0; i < a->top; i++) {
        float l = ids[i] < 0 ? 0 : chosen && kind == RFG_MOE_TOPK_SOFTMAX ? w->choice[ids[i]] : logit(j, w, ids[i]);
        float weight = kind == RFG_MOE_TOPK_SOFTMAX ? power(l, most) : score_of(w, kind, l);
        weights[i] = ids[i] < 0 ? 0 : weight;
    }
    if (kind == RFG_MOE_TOPK_SOFTMAX || a->renormalise)
        normalise(ids, weights, a->top);
    for (int i = 0; i < a->top; i++)
        weights[i] = ids[i] < 0 ? 0 : flushed(weights[i]) * a->scale;
}

/* The ids that the table says; -1 of those that aren't experts, and all of a row that isn't there. */
static void look_up(const struct job *j, int64_t t, int *ids)
{
    const struct route_args *a = j->a;
    bool wide = j->prob->v[ROUTE_TOKEN_IDS] == RFG_I64;
    int64_t row = !a->token_ids ? t : wide ? ((const int64_t *)a->token_ids)[t] : ((const int32_t *)a->token_ids)[t];
    for (int i = 0; i < a->top; i++) {
        int id = row >= 0 && row < a->table_rows ? a->table[row * a->ldt + i] : -1;
        ids[i] = id >= 0 && id < a->e ? id : -1;
    }
}

static void choose_experts(const struct job *j, int64_t t, struct row *w, int *ids)
{
    if (j->a->table) {
        if (j->prob->v[ROUTE_SCORE] == RFG_MOE_SOFTMAX)
            sum_row(j, w);
        look_up(j, t, ids);
        return;
    }
    read_row(j, w);
    if (j->a->groups > 1)
        choose_groups(j->a, w);
    choose(j->a, w, ids);
}

static void run_row(void *ctx, int task, int worker)
{
    const struct job *j = ctx;
    const struct route_args *a = j->a;
    int *ids = a->ids + task * a->ldi;
    float *weights = a->weights + task * a->ldw;
    struct row w;
    (void)worker;
    bool counts = task < j->limit;
    if (counts) {
        w.x = (const char *)a->x + rfg_format_bytes(j->prob->dtype[0], 1) * task * a->ldx;
        choose_experts(j, task, &w, ids);
        weigh(j, &w, ids, weights);
    }
    for (int i = counts ? a->top : 0; i < a->top + a->shared; i++) {
        ids[i] = counts ? a->e + i - a->top : -1;
        weights[i] = counts ? a->shared_weight : 0;
    }
}

static void cpu_run(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, const void *kargs,
                    struct rfg_cpu_pool *pool)
{
    const struct route_args *a = kargs;
    struct job j = { a, prob, a->tokens && *a->tokens < a->t ? *a->tokens : a->t };
    (void)dev, (void)p;
    rfg_cpu_pool_run(pool, a->t, run_row, &j);
}

static double cpu_predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    return 5 * rfg_cpu_plain_predict(dev, prob, p);
}

const struct rfg_variant moe_route_cpu = {
    .name = "moe_route_cpu",
    .kind = RFG_VARIANT_HOST,
    .supports = rfg_cpu_plain_supports,
    .predict = cpu_predict,
    .run = cpu_run,
};
