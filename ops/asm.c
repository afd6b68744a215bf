/* SPDX-License-Identifier: MIT
 *
 * Answers for assembly variants, from the manifest's table. */
#include "asm.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

const struct rfg_asm *rfg_asm_find(const char *variant, const struct rfg_device *dev, struct rfg_reason *why)
{
    char archs[80] = "";
    for (const struct rfg_asm *a = rfg_asm_table; a->variant; a++) {
        if (strcmp(a->variant, variant))
            continue;
        if (!strcmp(a->arch, dev->hw->name))
            return a;
        size_t at = strlen(archs);
        snprintf(archs + at, sizeof(archs) - at, "%s%s", at ? " or " : "", a->arch);
    }
    rfg_refuse(why, "device is %s (%s): must be %s", dev->name, dev->arch, archs);
    return NULL;
}

/* ---- parameters and sizes ------------------------------------------------------------------------------------- */

static int param_index(const struct rfg_variant *var, const char *name)
{
    for (int i = 0; i < var->n_params; i++)
        if (!strcmp(var->params[i].name, name))
            return i;
    return -1;
}

static int64_t size_value(const struct rfg_asm_size *s, const struct rfg_variant *var, const struct rfg_problem *prob,
                          const int *p)
{
    int64_t v = s->number;
    for (size_t i = 0; i < COUNT(s->params) && s->params[i]; i++)
        v *= p[param_index(var, s->params[i])];
    if (!s->key)
        return v;
    int64_t n = prob->v[rfg_op_key(prob->op, s->key)];
    return n / v + (n % v != 0);
}

static void size_text(const struct rfg_asm_size *s, char *buf, size_t size)
{
    size_t at = 0;
    *buf = 0;
    if (s->number != 1 || !s->params[0])
        at += (size_t)snprintf(buf, size, "%" PRId64, s->number);
    for (size_t i = 0; i < COUNT(s->params) && s->params[i] && at < size; i++)
        at += (size_t)snprintf(buf + at, size - at, "%s%s", at ? "*" : "", s->params[i]);
}

/* ---- struct rfg_variant's questions ----------------------------------------------------------------------------- */

bool rfg_asm_supports(const struct rfg_variant *var, const struct rfg_device *dev, const struct rfg_problem *prob,
                      struct rfg_reason *why)
{
    char dtypes[40];
    const struct rfg_asm *a = rfg_asm_find(var->name, dev, why);
    if (!a)
        return false;
    bool listed = false;
    rfg_problem_format_dtypes(prob, dtypes, sizeof(dtypes));
    for (size_t i = 0; i < COUNT(a->dtypes) && a->dtypes[i]; i++)
        listed |= !strcmp(a->dtypes[i], dtypes);
    if (!listed)
        return rfg_refuse(why, "%s: not one of the dtypes that it has for %s", dtypes, a->arch);
    for (size_t i = 0; i < COUNT(a->rules) && a->rules[i].key; i++) {
        int64_t v = prob->v[rfg_op_key(prob->op, a->rules[i].key)];
        int64_t min = a->rules[i].min, max = a->rules[i].max, step = a->rules[i].step;
        if (v < min || v > max)
            return rfg_refuse(why, "%s=%" PRId64 ": must be from %" PRId64 " to %" PRId64, a->rules[i].key, v, min,
                              max);
        if ((v - min) % step)
            return rfg_refuse(why, "%s=%" PRId64 ": must be %" PRId64 " and a multiple of %" PRId64 " more",
                              a->rules[i].key, v, min, step);
    }
    return true;
}

bool rfg_asm_valid(const struct rfg_variant *var, const struct rfg_device *dev, const struct rfg_problem *prob,
                   const int *p, struct rfg_reason *why)
{
    const struct rfg_asm *a = rfg_asm_find(var->name, dev, why);
    char text[80];
    if (!a)
        return false;
    for (size_t i = 0; i < COUNT(a->limits) && a->limits[i].size.number; i++) {
        int64_t v = size_value(&a->limits[i].size, var, prob, p);
        size_text(&a->limits[i].size, text, sizeof(text));
        if (v > a->limits[i].most)
            return rfg_refuse(why, "%s=%" PRId64 ": must be at most %" PRId64, text, v, a->limits[i].most);
    }
    int64_t grid = size_value(&a->grid, var, prob, p), block = size_value(&a->block, var, prob, p);
    int64_t lds = size_value(&a->lds, var, prob, p);
    if (block > dev->max_threads || grid * block > UINT32_MAX)
        return rfg_refuse(why, "%" PRId64 " workgroups of %" PRId64 " threads: more than a launch takes", grid, block);
    return lds <= dev->lds_bytes ||
           rfg_refuse(why, "%" PRId64 " bytes of LDS: must be at most %d", lds, dev->lds_bytes);
}

void rfg_asm_kernel(const struct rfg_variant *var, const struct rfg_device *dev, const struct rfg_problem *prob,
                    const int *p, struct rfg_kernel *k)
{
    const struct rfg_asm *a = rfg_asm_find(var->name, dev, NULL);
    k->source =
        a ? a->source : ""; /* a tuned row may name the variant where it isn't supported: there is no such file */
    k->entry = a ? a->entry : "";
    if (!a)
        return;
    for (size_t i = 0; i < COUNT(a->macros) && a->macros[i].name; i++) {
        const char *from = a->macros[i].from;
        int value = a->macros[i].value;
        if (from && !strcmp(from, "in"))
            value = prob->dtype[0];
        else if (from && !strcmp(from, "out"))
            value = prob->dtype[prob->op->n_in];
        else if (from)
            value = p[param_index(var, from)];
        rfg_kernel_macro(k, a->macros[i].name, value);
    }
}

void rfg_asm_launch(const struct rfg_variant *var, const struct rfg_device *dev, const struct rfg_problem *prob,
                    const int *p, struct rfg_launch *l)
{
    const struct rfg_asm *a = rfg_asm_find(var->name, dev, NULL);
    if (!a)
        return;
    *l = (struct rfg_launch){ { (uint32_t)size_value(&a->grid, var, prob, p), 1, 1 },
                              { (uint32_t)size_value(&a->block, var, prob, p), 1, 1 },
                              (uint32_t)size_value(&a->lds, var, prob, p) };
}
