/* SPDX-License-Identifier: MIT
 *
 * invariant=1: chooses one order of summation for all sizes that a row's bits must not depend on. */
#include <float.h>
#include <stdio.h>
#include <string.h>

#include "op.h"

#define MAX_ORDERS 128 /* of an operator: some tens */

/* The orders that were met, each with the least time that the model expects of it for few rows and for many. */
struct orders {
    const struct rfg_device *dev;
    struct rfg_problem prob;
    const struct rfg_variant *var;
    bool large;
    int n;
    struct rfg_order order[MAX_ORDERS];
    double us[MAX_ORDERS][2];
};

static bool note(void *arg, const int *p)
{
    struct orders *o = arg;
    struct rfg_order its;
    if (!o->var->order(o->dev, &o->prob, p, &its, NULL))
        return true;
    int i = 0;
    while (i < o->n && strcmp(o->order[i].words, its.words) != 0)
        i++;
    if (i == MAX_ORDERS || (i == o->n && o->large)) /* one that few rows don't want */
        return true;
    if (i == o->n) {
        o->order[o->n] = its;
        o->us[o->n][0] = o->us[o->n][1] = DBL_MAX;
        o->n++;
    }
    double us = o->var->predict(o->dev, &o->prob, p);
    if (us < o->us[i][o->large])
        o->us[i][o->large] = us;
    return true;
}

/* What is worth it for many rows, or, if an order has nothing of the kind, what is valid. */
static void note_all(struct orders *o, const struct rfg_problem *prob, const char *variants)
{
    o->prob = *prob;
    prob->op->at_size(&o->prob, o->large);
    /* Of any order; then, of many rows, each order that had nothing. */
    for (int i = -1; i < (o->large ? o->n : 0); i++)
        for (int v = 0; (i < 0 || o->us[i][true] == DBL_MAX) && v < rfg_op_variants(prob->op)->n; v++) {
            o->var = rfg_op_variants(prob->op)->list[v];
            if (o->var->order && o->var->predict && rfg_variant_listed(variants, prob->op, o->var))
                rfg_variant_each_in(o->var, o->dev, &o->prob, i < 0 ? NULL : &o->order[i], note, o);
        }
}

bool rfg_order_find(const struct rfg_device *dev, const struct rfg_problem *prob, const char *variants,
                    struct rfg_order *order, struct rfg_reason *why)
{
    struct orders o = { .dev = dev };
    int best = -1;
    note_all(&o, prob, variants);
    o.large = true;
    note_all(&o, prob, variants);
    for (int i = 0; i < o.n; i++)
        if (o.us[i][0] < DBL_MAX && o.us[i][1] < DBL_MAX &&
            (best < 0 || o.us[i][0] * o.us[i][1] < o.us[best][0] * o.us[best][1]))
            best = i;
    if (best < 0)
        return rfg_refuse(why, "invariant=1: no variant that can serve it sums all rows in one order");
    *order = o.order[best];
    return true;
}
