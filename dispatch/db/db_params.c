/* SPDX-License-Identifier: MIT
 *
 * A row's parameters, which are stored as a JSON object. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "db_internal.h"

#define OVERLAP "overlap" /* the parameter that says how a winner is launched: no variant's may be called so */
#define LOADS   "loads"   /* and one that says which loads a recorded problem's rows are of */

bool rfg_row_params(const struct rfg_row *row, const struct rfg_variant *var, int *p, struct rfg_reason *why)
{
    json_error_t error;
    errno = 0;
    json_t *obj = json_loads(row->params, JSON_REJECT_DUPLICATES, &error);
    if (!obj && errno == ENOMEM)
        return rfg_refuse(why, "params: no memory to read them");
    if (!json_is_object(obj)) {
        json_decref(obj);
        return rfg_refuse(why, "params '%.60s': must be a JSON object of %s's parameters", row->params, var->name);
    }
    bool ok = true;
    for (int i = 0; i < var->n_params && ok; i++) {
        json_t *v = json_object_get(obj, var->params[i].name);
        if (!v)
            ok = rfg_refuse(why, "params '%.60s': %s is missing", row->params, var->params[i].name);
        else if (!json_is_integer(v) || json_integer_value(v) < INT32_MIN || json_integer_value(v) > INT32_MAX)
            ok = rfg_refuse(why, "params '%.60s': %s must be a whole number", row->params, var->params[i].name);
        else
            p[i] = (int)json_integer_value(v);
    }
    bool overlaps = row->problem.op && rfg_problem_overlaps(&row->problem);
    const json_t *how = json_object_get(obj, OVERLAP);
    if (ok && overlaps && !(json_is_integer(how) && json_integer_value(how) >= 0 && json_integer_value(how) <= 1))
        ok = rfg_refuse(why, "params '%.60s': " OVERLAP " must be 0 or 1: the problem has overlap=1", row->params);
    bool recorded = row->problem.op && rfg_problem_is_recorded(&row->problem);
    const char *loads = json_string_value(json_object_get(obj, LOADS));
    if (ok && recorded && !(loads && strlen(loads) == 16 && strspn(loads, "0123456789abcdef") == 16))
        ok = rfg_refuse(why, "params '%.60s': " LOADS " must be 16 hexadecimal digits: the problem's data are recorded",
                        row->params);
    const char *name;
    json_t *v;
    json_object_foreach(obj, name, v)
    {
        int i = 0;
        while (i < var->n_params && strcmp(var->params[i].name, name))
            i++;
        if (ok && i == var->n_params && !(overlaps && !strcmp(name, OVERLAP)) && !(recorded && !strcmp(name, LOADS)))
            ok = rfg_refuse(why, "params '%.60s': %s has no parameter '%.40s'", row->params, var->name, name);
    }
    json_decref(obj);
    return ok;
}

char *rfg_params_json(const struct rfg_variant *var, const int *p, char *buf, size_t size)
{
    size_t at = (size_t)snprintf(buf, size, "{");
    for (int i = 0; i < var->n_params && at < size; i++)
        at += (size_t)snprintf(buf + at, size - at, "%s\"%s\":%d", i ? "," : "", var->params[i].name, p[i]);
    if (at < size)
        snprintf(buf + at, size - at, "}");
    return buf;
}

bool rfg_row_overlap(const struct rfg_row *row)
{
    json_t *obj = rfg_problem_overlaps(&row->problem) ? json_loads(row->params, 0, NULL) : NULL;
    bool overlap = json_integer_value(json_object_get(obj, OVERLAP)) == 1;
    json_decref(obj);
    return overlap;
}

void rfg_row_set_config(struct rfg_row *row, const struct rfg_variant *var, const int *p, bool overlap)
{
    snprintf(row->variant, sizeof(row->variant), "%s", var->name);
    rfg_params_json(var, p, row->params, sizeof(row->params));
    size_t at = strlen(row->params) - 1; /* of the brace */
    if (rfg_problem_overlaps(&row->problem))
        snprintf(row->params + at, sizeof(row->params) - at, "%s\"" OVERLAP "\":%d}", var->n_params ? "," : "",
                 overlap);
}

void rfg_row_set_loads(struct rfg_row *row, const char *name)
{
    size_t at = strlen(row->params) - 1; /* of the brace */
    snprintf(row->params + at, sizeof(row->params) - at, "%s\"" LOADS "\":\"%s\"}", at > 1 ? "," : "", name);
}

char *rfg_row_loads(const struct rfg_row *row, char *buf, size_t size)
{
    json_t *obj = rfg_problem_is_recorded(&row->problem) ? json_loads(row->params, 0, NULL) : NULL;
    const char *name = json_string_value(json_object_get(obj, LOADS));
    snprintf(buf, size, "%s", name ? name : "");
    json_decref(obj);
    return buf;
}

char *rfg_row_config(const struct rfg_row *row, char *buf, size_t size)
{
    int p[RFG_MAX_PARAMS];
    const struct rfg_variant *var = rfg_variant_find(row->problem.op, row->variant);
    if (!var || !rfg_row_params(row, var, p, NULL)) {
        snprintf(buf, size, "%s %s", row->variant, row->params);
        return buf;
    }
    rfg_config_format(var, p, buf, size);
    size_t at = strlen(buf);
    if (rfg_problem_overlaps(&row->problem) && !rfg_row_overlap(row))
        at += (size_t)snprintf(buf + at, size - at, " launched plainly");
    char loads[RFG_RECORDING_NAME];
    if (*rfg_row_loads(row, loads, sizeof(loads)) && at < size)
        snprintf(buf + at, size - at, " for loads %s", loads);
    return buf;
}
