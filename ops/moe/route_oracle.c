/* SPDX-License-Identifier: MIT
 *
 * The valid answers of moe_route, by rfg/moe.h's formulas in double. Ids of logits alone, or of one sum of a logit and
 * its bias, are what they are; scores with a bias are rounded on the way, and experts, or groups, that are nearer to
 * one another than that may change places. Weights are those of the ids that the kernel chose. */
#include <inttypes.h>
#include <math.h>

#include "route_case.h"

#define NEAR  2e-5 /* of a score and its bias: how far off a choice may be */
#define RIGHT 1e-4 /* of a weight */
#define TINY  0x1p-126

/* A row: logits, scores, choices, how far off these may be, and what groups have. */
struct truth {
    const struct rfg_problem *prob;
    double near; /* how far off logits may be */
    double l[ROUTE_MAX_E], bias[ROUTE_MAX_E], s[ROUTE_MAX_E], c[ROUTE_MAX_E], off[ROUTE_MAX_E];
    double group[ROUTE_MAX_GROUPS], group_off[ROUTE_MAX_GROUPS];
    bool exact;
};

static double share(double l, double largest)
{
    return l == largest ? 1 : exp(l - largest);
}

static double as_f32(double x)
{
    return (double)(float)x;
}

static void find_scores(struct truth *t, int64_t kind, int64_t n)
{
    double largest = -INFINITY, sum = 0;
    for (int64_t e = 0; e < n; e++)
        largest = fmax(largest, t->l[e]);
    for (int64_t e = 0; e < n; e++)
        sum += share(t->l[e], largest);
    for (int64_t e = 0; e < n; e++) {
        double l = t->l[e];
        t->s[e] = kind == RFG_MOE_SOFTMAX   ? share(l, largest) / sum
                  : kind == RFG_MOE_SIGMOID ? 1 / (1 + exp(-l))
                                            : sqrt(l > 0 ? l + log1p(exp(-l)) : log1p(exp(l)));
        t->s[e] = t->s[e] < TINY ? 0 : t->s[e];
    }
}

static void find_groups(struct truth *t)
{
    int64_t groups = t->prob->v[ROUTE_GROUPS], size = t->prob->v[ROUTE_E] / groups;
    bool pairs = t->prob->v[ROUTE_BIAS] && size > 1;
    for (int64_t g = 0; g < groups; g++) {
        double first = -INFINITY, second = -INFINITY, off = 0;
        for (int64_t e = g * size; e < (g + 1) * size; e++) {
            off = fmax(off, t->off[e]);
            if (t->c[e] > first) {
                second = first;
                first = t->c[e];
            } else
                second = fmax(second, t->c[e]);
        }
        t->group[g] = pairs ? as_f32(first + second) : first;
        t->group[g] = isnan(t->group[g]) ? -INFINITY : t->group[g];
        t->group_off[g] = isinf(t->group[g]) || t->exact ? 0 : 2 * off + 1e-6 * fabs(t->group[g]);
    }
}

static void find_truth(struct truth *t, const struct rfg_problem *prob, const rfg_tensor *host, int64_t row)
{
    int64_t kind = prob->v[ROUTE_SCORE], n = prob->v[ROUTE_E];
    bool nan[ROUTE_MAX_E], bias = prob->v[ROUTE_BIAS];
    bool alone = !bias || kind == RFG_MOE_TOPK_SOFTMAX; /* no score is a part of the choice */
    t->prob = prob;
    t->exact = alone && t->near == 0;
    for (int64_t e = 0; e < n; e++) {
        t->l[e] = rfg_element(&host[ROUTE_X], row, e);
        nan[e] = isnan(t->l[e]);
        t->l[e] = nan[e] ? -INFINITY : t->l[e];
        t->bias[e] = bias ? rfg_load(host[ROUTE_BIASES].data, host[ROUTE_BIASES].dtype, e) : 0;
    }
    find_scores(t, kind, n);
    for (int64_t e = 0; e < n; e++) {
        double c = alone ? as_f32(t->l[e] + t->bias[e]) : t->s[e] + t->bias[e];
        t->c[e] = isnan(c) || nan[e] ? -INFINITY : c;
        t->off[e] = isinf(t->c[e]) ? 0 : (alone ? 0 : NEAR * (t->s[e] + fabs(t->bias[e]))) + t->near;
    }
    find_groups(t);
}

/* The id that a table says for slot i of a row; -1: none. */
static int64_t said(const struct rfg_problem *prob, const rfg_tensor *host, int64_t row, int64_t i)
{
    const rfg_tensor *t = &host[ROUTE_IDS_OF_TOKENS];
    int64_t wide = prob->v[ROUTE_TOKEN_IDS] == RFG_I64, at = row;
    if (prob->v[ROUTE_TOKEN_IDS])
        at = wide ? ((const int64_t *)t->data)[row] : ((const int32_t *)t->data)[row];
    if (at < 0 || at >= prob->v[ROUTE_TABLE])
        return -1;
    double id = rfg_element(&host[ROUTE_EXPERTS], at, i);
    return id >= 0 && id < (double)prob->v[ROUTE_E] ? (int64_t)id : -1;
}

/* ---- ids -------------------------------------------------------------------------------------------------------- */

/* Whether e must come before o if both may be chosen: by a difference above the tolerance, or by index if they are
 * exactly equal. */
static bool surely_before(const struct truth *t, int64_t e, int64_t o)
{
    if (t->c[e] - t->off[e] > t->c[o] + t->off[o])
        return true;
    bool alike = (t->near == 0 && t->l[e] == t->l[o] && t->bias[e] == t->bias[o]) || (t->off[e] == 0 && t->off[o] == 0);
    return alike && t->c[e] == t->c[o] && e < o;
}

/* Groups that are kept whatever is near, and those that may be. */
static void keep_groups(const struct truth *t, bool *must, bool *may)
{
    int64_t groups = t->prob->v[ROUTE_GROUPS], kept = t->prob->v[ROUTE_TOP_GROUPS];
    for (int64_t g = 0; g < groups; g++) {
        int64_t before = 0, perhaps = 0;
        for (int64_t o = 0; o < groups; o++) {
            double apart = t->group_off[g] + t->group_off[o];
            bool as_is = t->group[o] > t->group[g] || (t->group[o] == t->group[g] && o < g);
            if (o == g)
                continue;
            before += apart > 0 ? t->group[o] > t->group[g] + apart : as_is;
            perhaps += apart > 0 ? t->group[o] >= t->group[g] - apart : as_is;
        }
        must[g] = perhaps < kept;
        may[g] = before < kept;
    }
}

static bool ids_right(const struct truth *t, const int64_t *id, struct rfg_reason *why)
{
    const int64_t *v = t->prob->v;
    int64_t size = v[ROUTE_E] / v[ROUTE_GROUPS], top = v[ROUTE_TOP], used = 0;
    bool must[ROUTE_MAX_GROUPS], may[ROUTE_MAX_GROUPS], chosen[ROUTE_MAX_E] = { false };
    bool has[ROUTE_MAX_GROUPS] = { false };
    keep_groups(t, must, may);
    for (int64_t i = 0; i < top; i++) {
        if (id[i] < 0 || id[i] >= v[ROUTE_E] || chosen[id[i]])
            return rfg_refuse(why, "slot %" PRId64 ": id %" PRId64 ": must be from 0 to %" PRId64 ", and only once", i,
                              id[i], v[ROUTE_E] - 1);
        int64_t g = id[i] / size;
        if (!may[g])
            return rfg_refuse(why, "slot %" PRId64 ": id %" PRId64 " is of group %" PRId64 ", which is not kept", i,
                              id[i], g);
        chosen[id[i]] = true;
        used += !has[g];
        has[g] = true;
    }
    if (used > v[ROUTE_TOP_GROUPS])
        return rfg_refuse(why, "ids are of %" PRId64 " groups: must be of %" PRId64, used, v[ROUTE_TOP_GROUPS]);
    for (int64_t i = 0; i < top; i++)
        for (int64_t j = i + 1; j < top; j++)
            if (surely_before(t, id[j], id[i]))
                return rfg_refuse(why,
                                  "slots %" PRId64 ", %" PRId64 ": id %" PRId64 " (%.9g) before %" PRId64 " (%.9g)", i,
                                  j, id[i], t->c[id[i]], id[j], t->c[id[j]]);
    for (int64_t e = 0; e < v[ROUTE_E]; e++)
        for (int64_t i = 0; !chosen[e] && (must[e / size] || has[e / size]) && i < top; i++)
            if (surely_before(t, e, id[i]))
                return rfg_refuse(why, "slot %" PRId64 ": id %" PRId64 " (%.9g) and not %" PRId64 " (%.9g)", i, id[i],
                                  t->c[id[i]], e, t->c[e]);
    return true;
}

/* ---- weights ---------------------------------------------------------------------------------------------------- */

static void divide(const int64_t *id, double *w, int64_t n)
{
    double sum = 0, most = 0, equal = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += w[i];
        most = fmax(most, w[i]);
    }
    for (int64_t i = 0; i < n; i++)
        equal += id[i] >= 0 && w[i] == most;
    for (int64_t i = 0; i < n; i++)
        w[i] = sum > 0 && !isinf(sum) ? w[i] / sum : id[i] >= 0 && w[i] == most ? 1 / equal : 0;
}

static bool weights_right(const struct truth *t, const int64_t *id, const double *got, struct rfg_reason *why)
{
    const int64_t *v = t->prob->v;
    double w[ROUTE_MAX_TOP], most = -INFINITY;
    for (int64_t i = 0; i < v[ROUTE_TOP]; i++) {
        if (id[i] >= v[ROUTE_E] || (id[i] < 0 && !v[ROUTE_TABLE]))
            return rfg_refuse(why, "slot %" PRId64 ": has no id", i);
        most = id[i] < 0 ? most : fmax(most, t->c[id[i]]);
    }
    bool topk = v[ROUTE_SCORE] == RFG_MOE_TOPK_SOFTMAX;
    for (int64_t i = 0; i < v[ROUTE_TOP]; i++)
        w[i] = id[i] < 0 ? 0 : topk ? share(t->c[id[i]], most) : t->s[id[i]];
    if (topk || v[ROUTE_RENORM])
        divide(id, w, v[ROUTE_TOP]);
    for (int64_t i = 0; i < v[ROUTE_TOP]; i++) {
        double want = w[i] * (double)ROUTE_SCALE;
        bool right = isinf(want) || id[i] < 0
                         ? got[i] == want
                         : fabs(got[i] - want) <= (RIGHT + 4 * t->near) * fabs(want) + 2 * TINY * (double)ROUTE_SCALE;
        if (!right)
            return rfg_refuse(why, "slot %" PRId64 ": id %" PRId64 " has weight %.9g: must be %.9g", i, id[i], got[i],
                              want);
    }
    return true;
}

bool route_accept_near(const struct rfg_problem *prob, const rfg_tensor *host, const rfg_tensor *got, int tensor,
                       int64_t row, double near, struct rfg_reason *why)
{
    const int64_t *v = prob->v;
    int64_t id[ROUTE_MAX_TOP], slots = v[ROUTE_TOP] + v[ROUTE_SHARED];
    double weight[ROUTE_MAX_TOP];
    bool counts = !v[ROUTE_TOKENS] || row < *(const int32_t *)host[ROUTE_LIMIT].data;
    for (int64_t i = 0; i < slots; i++) {
        double value = rfg_element(&got[tensor], row, i), want = tensor == ROUTE_IDS ? -1 : 0;
        if (counts && i < v[ROUTE_TOP]) {
            id[i] = (int64_t)rfg_element(&got[ROUTE_IDS], row, i);
            weight[i] = value;
            continue;
        }
        if (counts)
            want = tensor == ROUTE_IDS ? (double)(v[ROUTE_E] + i - v[ROUTE_TOP]) : (double)ROUTE_SHARED_WEIGHT;
        if (value != want)
            return rfg_refuse(why, "slot %" PRId64 ": is %g: must be %g", i, value, want);
    }
    if (!counts)
        return true;
    for (int64_t i = 0; v[ROUTE_TABLE] && i < v[ROUTE_TOP]; i++)
        if (id[i] != said(prob, host, row, i))
            return rfg_refuse(why, "slot %" PRId64 ": is %" PRId64 ": must be %" PRId64 ", by the table", i, id[i],
                              said(prob, host, row, i));
    if (v[ROUTE_TABLE] && tensor == ROUTE_IDS)
        return true;
    struct truth t = { .near = near };
    find_truth(&t, prob, host, row);
    return tensor == ROUTE_IDS ? ids_right(&t, id, why) : weights_right(&t, id, weight, why);
}

bool route_accept(const struct rfg_problem *prob, const rfg_tensor *host, const rfg_tensor *got, int tensor,
                  int64_t row, struct rfg_reason *why)
{
    return route_accept_near(prob, host, got, tensor, row, 0, why);
}
