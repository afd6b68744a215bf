/* SPDX-License-Identifier: MIT
 *
 * What can be asked of any variant: enumerate, check, name. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "op.h"

#define MAX_GRID_YZ 65535

bool rfg_order_kept(const struct rfg_variant *var, const struct rfg_device *dev, const struct rfg_problem *prob,
                    const int *p, const struct rfg_order *order, struct rfg_reason *why)
{
    struct rfg_order its;
    if (!rfg_problem_is_invariant(prob))
        return true;
    if (!var->order)
        return rfg_refuse(why, "invariant=1: its order of summation isn't known to be the same for all rows");
    if (!var->order(dev, prob, p, &its, why))
        return false;
    return !order || !strcmp(its.words, order->words) ||
           rfg_refuse(why, "invariant=1: it sums as '%s', must be as '%s'", its.words, order->words);
}

/* What no device can launch isn't valid, whatever a variant's own rules say. */
static bool fits_launch(const struct rfg_variant *var, const struct rfg_device *dev, const struct rfg_problem *prob,
                        const int *p, struct rfg_reason *why)
{
    if (var->kind == RFG_VARIANT_HOST) /* takes from the heap what it needs */
        return true;
    size_t workspace = var->workspace ? var->workspace(dev, prob, p) : 0;
    size_t has = var->kind == RFG_VARIANT_VENDOR ? rfg_workspace_bytes(dev) : RFG_WORKSPACE_BYTES;
    if (workspace > has)
        return rfg_refuse(why, "needs a workspace of %zu bytes: a stream has %zu", workspace, has);
    if (var->kind == RFG_VARIANT_VENDOR)
        return true;
    struct rfg_launch l;
    var->launch(dev, prob, p, &l);
    uint64_t threads = (uint64_t)l.block[0] * l.block[1] * l.block[2];
    if (threads > (uint64_t)dev->max_threads)
        return rfg_refuse(why, "%" PRIu64 " threads: must be at most %d", threads, dev->max_threads);
    if ((uint64_t)l.lds > (uint64_t)dev->lds_bytes)
        return rfg_refuse(why, "%" PRIu32 " bytes of LDS: must be at most %d", l.lds, dev->lds_bytes);
    if ((uint64_t)l.grid[0] * l.block[0] > UINT32_MAX || l.grid[0] > INT32_MAX || l.grid[1] > MAX_GRID_YZ ||
        l.grid[2] > MAX_GRID_YZ)
        return rfg_refuse(
            why, "%" PRIu32 " x %" PRIu32 " x %" PRIu32 " workgroups of %" PRIu64 " threads: more than a launch takes",
            l.grid[0], l.grid[1], l.grid[2], threads);
    return true;
}

/* Those that valid() allows, and that are worth it if only those are asked for. */
static int each(const struct rfg_variant *var, const struct rfg_device *dev, const struct rfg_problem *prob,
                const struct rfg_order *order, bool worth, bool (*fn)(void *ctx, const int *p), void *ctx)
{
    int at[RFG_MAX_PARAMS] = { 0 }, p[RFG_MAX_PARAMS] = { 0 }, offered = 0;
    if (!rfg_variant_supports(var, dev, prob, NULL))
        return 0;
    for (;;) {
        for (int i = 0; i < var->n_params; i++)
            p[i] = var->params[i].values[at[i]];
        if ((!var->valid || var->valid(dev, prob, p, NULL)) &&
            (!worth || !var->worth || var->worth(dev, prob, p, NULL)) && fits_launch(var, dev, prob, p, NULL) &&
            rfg_order_kept(var, dev, prob, p, order, NULL)) {
            offered++;
            if (!fn(ctx, p))
                return offered;
        }
        int i = var->n_params - 1; /* the last parameter varies fastest */
        while (i >= 0 && ++at[i] == var->params[i].n)
            at[i--] = 0;
        if (i < 0)
            return offered;
    }
}

int rfg_variant_each_in(const struct rfg_variant *var, const struct rfg_device *dev, const struct rfg_problem *prob,
                        const struct rfg_order *order, bool (*fn)(void *ctx, const int *p), void *ctx)
{
    int offered = each(var, dev, prob, order, true, fn, ctx);
    return offered || !order ? offered : each(var, dev, prob, order, false, fn, ctx);
}

int rfg_variant_each(const struct rfg_variant *var, const struct rfg_device *dev, const struct rfg_problem *prob,
                     bool (*fn)(void *ctx, const int *p), void *ctx)
{
    return rfg_variant_each_in(var, dev, prob, NULL, fn, ctx);
}

bool rfg_variant_supports(const struct rfg_variant *var, const struct rfg_device *dev, const struct rfg_problem *prob,
                          struct rfg_reason *why)
{
    if (rfg_problem_is_invariant(prob) && !var->order)
        return rfg_refuse(why, "invariant=1: its order of summation isn't known to be the same for all rows");
    return var->supports(dev, prob, why);
}

/* The name at *s, which moves on to the next; false at the list's end. */
static bool next_name(const char **s, char *name, size_t size)
{
    while (**s == ',')
        ++*s;
    size_t n = strcspn(*s, ",");
    snprintf(name, size, "%.*s", (int)n, *s);
    *s += n;
    return n > 0;
}

bool rfg_variant_listed(const char *list, const struct rfg_op *op, const struct rfg_variant *var)
{
    bool restricted = false;
    char name[64];
    while (list && next_name(&list, name, sizeof(name))) {
        const struct rfg_variant *named = rfg_variant_find(op, name);
        if (named == var)
            return true;
        restricted |= named != NULL;
    }
    return !restricted;
}

bool rfg_variants_known(const char *list, struct rfg_reason *why)
{
    char name[64];
    while (list && next_name(&list, name, sizeof(name))) {
        bool known = false;
        for (int i = 0; rfg_ops[i]; i++)
            known |= rfg_variant_find(rfg_ops[i], name) != NULL;
        if (!known)
            return rfg_refuse(why, "'%s': no variant has this name", name);
    }
    return true;
}

bool rfg_params_listed(const struct rfg_variant *var, const int *p, struct rfg_reason *why)
{
    for (int i = 0; i < var->n_params; i++) {
        bool listed = false;
        for (int j = 0; j < var->params[i].n; j++)
            listed |= var->params[i].values[j] == p[i];
        if (!listed)
            return rfg_refuse(why, "%s=%d: not a value that %s has", var->params[i].name, p[i], var->name);
    }
    return true;
}

bool rfg_variant_check(const struct rfg_variant *var, const struct rfg_device *dev, const struct rfg_problem *prob,
                       const int *p, struct rfg_reason *why)
{
    if (!rfg_variant_supports(var, dev, prob, why) || !rfg_params_listed(var, p, why))
        return false;
    return (!var->valid || var->valid(dev, prob, p, why)) && fits_launch(var, dev, prob, p, why) &&
           rfg_order_kept(var, dev, prob, p, NULL, why);
}

char *rfg_config_format(const struct rfg_variant *var, const int *p, char *buf, size_t size)
{
    size_t at = (size_t)snprintf(buf, size, "%s", var->name);
    for (int i = 0; i < var->n_params && at < size; i++)
        at += (size_t)snprintf(buf + at, size - at, "%s%s=%d%s", i ? "," : "{", var->params[i].name, p[i],
                               i + 1 == var->n_params ? "}" : "");
    return buf;
}

bool rfg_config_parse(const struct rfg_op *op, const char *text, const struct rfg_variant **var, int *p,
                      struct rfg_reason *why)
{
    char copy[RFG_CONFIG_STRLEN];
    if (strlen(text) >= sizeof(copy))
        return rfg_refuse(why, "variant '%.40s...': too long", text);
    memcpy(copy, text, strlen(text) + 1);
    char *brace = strchr(copy, '{');
    if (brace)
        *brace = 0;
    *var = rfg_variant_find(op, copy);
    if (!*var)
        return rfg_refuse(why, "variant '%.40s': %s has no such variant", copy, op->name);
    char *end = brace ? strchr(brace + 1, '}') : NULL;
    if (brace && (!end || end[1]))
        return rfg_refuse(why, "variant '%.60s': must end with one '}'", text);
    if (end)
        *end = 0;

    bool set[RFG_MAX_PARAMS] = { false };
    char *save;
    for (char *word = brace ? strtok_r(brace + 1, ",", &save) : NULL; word; word = strtok_r(NULL, ",", &save)) {
        char *eq = strchr(word, '='), *stop;
        int i = (*var)->n_params;
        if (eq) {
            *eq = 0;
            for (i = 0; i < (*var)->n_params && strcmp((*var)->params[i].name, word); i++)
                ;
        }
        if (i == (*var)->n_params)
            return rfg_refuse(why, "parameter '%.40s': %s has no such parameter", word, (*var)->name);
        long v = strtol(eq + 1, &stop, 10);
        if (stop == eq + 1 || *stop)
            return rfg_refuse(why, "%s=%.40s: must be a whole number", word, eq + 1);
        p[i] = (int)v;
        set[i] = true;
    }
    for (int i = 0; i < (*var)->n_params; i++)
        if (!set[i])
            return rfg_refuse(why, "variant '%.60s': %s= is missing", text, (*var)->params[i].name);
    return true;
}
