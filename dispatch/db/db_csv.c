/* SPDX-License-Identifier: MIT
 *
 * Tuned rows as text: the list of columns, parameters as JSON, CSV files of them in and out. */
#include <csv.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "db_internal.h"
#include "base/tempdir.h"
#include "base/util.h"

/* ---- columns ----------------------------------------------------------------------------------------------------- */

#define FLAT(name, type, member)                                                                                       \
    {                                                                                                                  \
        name, type, offsetof(struct rfg_flat, member), sizeof(((struct rfg_flat *)0)->member)                          \
    }

const struct rfg_column rfg_columns[RFG_N_COLUMNS] = {
    FLAT("op", RFG_COLUMN_TEXT, op),
    FLAT("dtypes", RFG_COLUMN_TEXT, dtypes),
    FLAT("attrs", RFG_COLUMN_TEXT, attrs),
    FLAT("M", RFG_COLUMN_I64, size[0]),
    FLAT("N", RFG_COLUMN_I64, size[1]),
    FLAT("K", RFG_COLUMN_I64, size[2]),
    FLAT("arch", RFG_COLUMN_TEXT, row.arch),
    FLAT("cu_count", RFG_COLUMN_INT, row.cu_count),
    FLAT("variant", RFG_COLUMN_TEXT, row.variant),
    FLAT("params", RFG_COLUMN_TEXT, row.params),
    FLAT("median_us", RFG_COLUMN_REAL, row.median_us),
    FLAT("spread_us", RFG_COLUMN_REAL, row.spread_us),
    FLAT("samples", RFG_COLUMN_INT, row.samples),
    FLAT("error", RFG_COLUMN_REAL, row.error),
    FLAT("error_bound", RFG_COLUMN_REAL, row.error_bound),
    FLAT("default_us", RFG_COLUMN_REAL, row.default_us),
    FLAT("vendor_us", RFG_COLUMN_REAL, row.vendor_us),
    FLAT("source_hash", RFG_COLUMN_TEXT, row.source_hash),
    FLAT("code_hash", RFG_COLUMN_TEXT, row.code_hash),
    FLAT("compiler", RFG_COLUMN_TEXT, row.compiler),
    FLAT("driver", RFG_COLUMN_TEXT, row.driver),
    FLAT("rfg_version", RFG_COLUMN_TEXT, row.version),
    FLAT("date", RFG_COLUMN_TEXT, row.date),
    FLAT("device", RFG_COLUMN_TEXT, row.device),
    FLAT("mem_gbps", RFG_COLUMN_REAL, row.mem_gbps),
    FLAT("seed", RFG_COLUMN_U64, row.seed),
    FLAT("how", RFG_COLUMN_HOW, row.how),
};

void rfg_forget_opened_name(char *device)
{
    if (!strcmp(device, "cpu") || strchr(device, ':'))
        *device = 0;
}

/* Sizes without a column of their own go with the attributes: "B=32 Hq=32 causal=1". */
static bool has_column(const struct rfg_op *op, int key)
{
    for (int i = 0; i < 3; i++)
        if (op->column_key[i] && !strcmp(op->column_key[i], op->keys[key].name))
            return true;
    return false;
}

void rfg_flatten(const struct rfg_row *row, struct rfg_flat *f)
{
    memset(f, 0, sizeof(*f));
    f->row = *row;
    f->row.problem = rfg_problem_key(&row->problem);
    const struct rfg_problem *p = &f->row.problem;
    snprintf(f->op, sizeof(f->op), "%s", p->op->name);
    rfg_problem_format_dtypes(p, f->dtypes, sizeof(f->dtypes));
    for (int i = 0; i < 3; i++)
        f->size[i] = p->op->column_key[i] ? p->v[rfg_op_key(p->op, p->op->column_key[i])] : 0;
    size_t at = 0;
    for (int i = 0; i < p->op->n_keys && at < sizeof(f->attrs); i++)
        if (p->op->keys[i].kind == RFG_KEY_SIZE && !has_column(p->op, i))
            at += (size_t)snprintf(f->attrs + at, sizeof(f->attrs) - at, "%s%s=%" PRId64, at ? " " : "",
                                   p->op->keys[i].name, p->v[i]);
    if (at && at + 2 < sizeof(f->attrs))
        f->attrs[at++] = ' ';
    if (at < sizeof(f->attrs) && !*rfg_problem_format_attrs(p, f->attrs + at, sizeof(f->attrs) - at) && at)
        f->attrs[at - 1] = 0;
}

bool rfg_problem_set_attrs(struct rfg_problem *p, const char *attrs, struct rfg_reason *why)
{
    char copy[RFG_PROBLEM_STRLEN];
    if (strlen(attrs) >= sizeof(copy))
        return rfg_refuse(why, "'%.40s...': must be shorter than %d characters", attrs, RFG_PROBLEM_STRLEN);
    memcpy(copy, attrs, strlen(attrs) + 1);
    char *save;
    uint64_t seen = 0;
    for (char *word = strtok_r(copy, " \t", &save); word; word = strtok_r(NULL, " \t", &save)) {
        char *eq = strchr(word, '=');
        if (!eq)
            return rfg_refuse(why, "'%.40s': must be key=value", word);
        *eq = 0;
        int key = rfg_op_key(p->op, word);
        if (key >= 0 && has_column(p->op, key))
            return rfg_refuse(why, "'%.40s': has a column of its own", word);
        if (key >= 0 && p->op->keys[key].kind == RFG_KEY_LAYOUT)
            return rfg_refuse(why, "'%.40s': strides and alignment are not part of a tuned problem", word);
        if (!rfg_problem_set(p, word, eq + 1, why))
            return false;
        if (seen & 1ull << key)
            return rfg_refuse(why, "'%.40s': is given twice", word);
        seen |= 1ull << key;
    }
    for (int i = 0; i < p->op->n_keys; i++)
        if (p->op->keys[i].kind == RFG_KEY_SIZE && !has_column(p->op, i) && !(seen & 1ull << i))
            return rfg_refuse(why, "'%.60s': %s= is missing", attrs, p->op->keys[i].name);
    return true;
}

bool rfg_unflatten(struct rfg_flat *f, const char **column, struct rfg_reason *why)
{
    struct rfg_problem p;
    const struct rfg_op *op = rfg_op_find(f->op, strlen(f->op));
    f->row.problem.op = NULL;
    *column = "op";
    if (!op)
        return rfg_refuse(why, "'%.40s': no such operator", f->op);
    rfg_problem_init(&p, op);
    *column = "dtypes";
    if (!rfg_problem_parse_dtypes(&p, f->dtypes, why))
        return false;
    for (int i = 0; i < 3; i++) {
        char value[24];
        *column = rfg_columns[3 + i].name;
        snprintf(value, sizeof(value), "%" PRId64, f->size[i]);
        if (op->column_key[i] ? !rfg_problem_set(&p, op->column_key[i], value, why) : f->size[i] != 0)
            return op->column_key[i] ? false : rfg_refuse(why, "'%s': must be 0: %s has no such size", value, op->name);
    }
    *column = "attrs";
    if (!rfg_problem_set_attrs(&p, f->attrs, why))
        return false;
    *column = "dtypes";
    if (!op->valid(&p, why))
        return false;
    f->row.problem = p;
    return true;
}

/* printf and strtod follow the program's locale; files must not. */
static locale_t c_locale(void)
{
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    return c ? uselocale(c) : (locale_t)0;
}

static void restore_locale(locale_t old)
{
    if (old) {
        locale_t c = uselocale(old);
        freelocale(c);
    }
}

char *rfg_column_format(const struct rfg_flat *f, int column, char *buf, size_t size)
{
    const struct rfg_column *c = &rfg_columns[column];
    const void *v = (const char *)f + c->offset;
    switch (c->type) {
    case RFG_COLUMN_TEXT:
        snprintf(buf, size, "%s", (const char *)v);
        break;
    case RFG_COLUMN_INT:
        snprintf(buf, size, "%d", *(const int *)v);
        break;
    case RFG_COLUMN_I64:
        snprintf(buf, size, "%" PRId64, *(const int64_t *)v);
        break;
    case RFG_COLUMN_U64:
        snprintf(buf, size, "%" PRIu64, *(const uint64_t *)v);
        break;
    case RFG_COLUMN_REAL: {
        double x = *(const double *)v;
        locale_t old = c_locale();
        for (int digits = 15; digits <= 17; digits++) { /* the shortest that reads back as the same number */
            snprintf(buf, size, "%.*g", digits, x);
            if (strtod(buf, NULL) == x)
                break;
        }
        restore_locale(old);
        break;
    }
    case RFG_COLUMN_HOW:
        snprintf(buf, size, "%s", rfg_source_name(*(const enum rfg_source *)v));
        break;
    }
    return buf;
}

bool rfg_column_parse(struct rfg_flat *f, int column, const char *text, struct rfg_reason *why)
{
    const struct rfg_column *c = &rfg_columns[column];
    void *v = (char *)f + c->offset;
    char *end;
    bool digits = *text >= '0' && *text <= '9'; /* strto* would take spaces and signs */
    errno = 0;
    switch (c->type) {
    case RFG_COLUMN_TEXT:
        if (strlen(text) >= c->size)
            return rfg_refuse(why, "'%.40s...': must be shorter than %zu bytes", text, c->size);
        memcpy(v, text, strlen(text) + 1);
        return true;
    case RFG_COLUMN_INT:
    case RFG_COLUMN_I64: {
        long long max = c->type == RFG_COLUMN_INT ? INT32_MAX : INT64_MAX, x = strtoll(text, &end, 10);
        if (!digits || errno || *end || x > max)
            return rfg_refuse(why, "'%.40s': must be a whole number from 0 to %lld", text, max);
        if (c->type == RFG_COLUMN_INT)
            *(int *)v = (int)x;
        else
            *(int64_t *)v = x;
        return true;
    }
    case RFG_COLUMN_U64: {
        unsigned long long x = strtoull(text, &end, 10);
        if (!digits || errno || *end)
            return rfg_refuse(why, "'%.40s': must be a whole number from 0 to %" PRIu64, text, UINT64_MAX);
        *(uint64_t *)v = x;
        return true;
    }
    case RFG_COLUMN_REAL: {
        locale_t old = c_locale();
        double x = strtod(text, &end);
        restore_locale(old);
        if (!digits || *end || !isfinite(x))
            return rfg_refuse(why, "'%.40s': must be a finite number, 0 or more", text);
        *(double *)v = x;
        return true;
    }
    case RFG_COLUMN_HOW:
        for (int h = RFG_SOURCE_PREDICTED; h <= RFG_SOURCE_MEASURED; h++)
            if (!strcmp(text, rfg_source_name((enum rfg_source)h))) {
                *(enum rfg_source *)v = (enum rfg_source)h;
                return true;
            }
        return rfg_refuse(why, "'%.40s': must be measured, imported, provisional or predicted", text);
    }
    return false;
}

bool rfg_row_check(const struct rfg_row *row, const char **column, struct rfg_reason *why)
{
    *column = "op";
    if (!row->problem.op)
        return rfg_refuse(why, "is missing: must be an operator");
    *column = "how";
    if (row->how > RFG_SOURCE_MEASURED)
        return rfg_refuse(why, "%d: must be predicted, provisional, imported or measured", (int)row->how);
    *column = "cu_count";
    if (row->cu_count < 1)
        return rfg_refuse(why, "%d: must be 1 or more", row->cu_count);
    *column = "samples";
    if (row->samples < 0)
        return rfg_refuse(why, "%d: must be 0 or more", row->samples);
    struct rfg_flat f = { .row = *row };
    for (int i = 0; i < RFG_N_COLUMNS; i++) {
        const struct rfg_column *c = &rfg_columns[i];
        if (c->offset < offsetof(struct rfg_flat, row))
            continue;
        *column = c->name;
        const void *v = (const char *)&f + c->offset;
        if (c->type == RFG_COLUMN_REAL && !(*(const double *)v >= 0 && isfinite(*(const double *)v)))
            return rfg_refuse(why, "%g: must be finite and not negative", *(const double *)v);
        if (c->type != RFG_COLUMN_TEXT)
            continue;
        const char *text = v;
        if (!memchr(text, 0, c->size))
            return rfg_refuse(why, "is not terminated within %zu bytes", c->size);
        if (!rfg_is_printable(text))
            return rfg_refuse(why, "'%.60s': must be one line of printable text", text);
        if (!*text && (!strcmp(c->name, "arch") || !strcmp(c->name, "variant")))
            return rfg_refuse(why, "'': must not be empty");
    }
    *column = "median_us";
    if (row->median_us <= 0)
        return rfg_refuse(why, "%g: must be more than 0", row->median_us);
    *column = "error";
    if (row->error_bound > 0 && row->error > row->error_bound)
        return rfg_refuse(why, "%g: must be at most error_bound, %g: wrong results are not stored", row->error,
                          row->error_bound);
    return true;
}

/* ---- parameters -------------------------------------------------------------------------------------------------- */

#define OVERLAP "overlap" /* the parameter that says how a winner is launched: no variant's may be called so */

#define LOADS "loads" /* and one that says which loads a recorded problem's rows are of */

bool rfg_row_params(const struct rfg_row *row, const struct rfg_variant *var, int *p, struct rfg_reason *why)
{
    json_error_t error;
    json_t *obj = json_loads(row->params, JSON_REJECT_DUPLICATES, &error);
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

/* ---- import ------------------------------------------------------------------------------------------------------ */

struct import {
    const char *path;
    bool keep_how;
    int n_header, column[RFG_CSV_FIELDS]; /* of rfg_columns, by position in the file; n_header 0: not read yet */
    bool before_3;                        /* of a schema before 3 */
    struct rfg_row *rows;
    struct origin {
        const char *path;
        int line;
    } * origin; /* of each row */
    size_t n, room;
};

static rfg_status import_header(struct import *im, int line, int n, char *const *field)
{
    bool seen[RFG_N_COLUMNS] = { false };
    for (int i = 0; i < n; i++) {
        int c = 0;
        while (c < RFG_N_COLUMNS && strcmp(rfg_columns[c].name, field[i]))
            c++;
        if (c == RFG_N_COLUMNS || seen[c])
            return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s:%d: column '%.40s': %s", im->path, line, field[i],
                            c == RFG_N_COLUMNS ? "must be one that rfg-db export writes" : "is there twice");
        seen[c] = true;
        im->column[i] = c;
    }
    im->before_3 = false;
    for (int c = 0; c < RFG_N_COLUMNS; c++) {
        bool new_in_3 = !strcmp(rfg_columns[c].name, "mem_gbps"), new_in_2 = !strcmp(rfg_columns[c].name, "code_hash");
        im->before_3 |= !seen[c] && new_in_3;
        if (!seen[c] && !new_in_3 && !new_in_2)
            return rfg_fail(RFG_ERROR_INVALID_ARGUMENT,
                            "%s:%d: column %s is missing: must have every column that "
                            "rfg-db export writes",
                            im->path, line, rfg_columns[c].name);
    }
    im->n_header = n;
    return RFG_OK;
}

static bool import_row(const struct import *im, struct rfg_flat *f, char *const *field, const char **column,
                       struct rfg_reason *why)
{
    memset(f, 0, sizeof(*f));
    for (int i = 0; i < im->n_header; i++) {
        *column = rfg_columns[im->column[i]].name;
        if (!rfg_column_parse(f, im->column[i], field[i], why))
            return false;
    }
    if (im->before_3)
        rfg_forget_opened_name(f->row.device);
    if (!rfg_unflatten(f, column, why) || !rfg_row_check(&f->row, column, why))
        return false;
    *column = "variant";
    const struct rfg_variant *var = rfg_variant_find(f->row.problem.op, f->row.variant);
    if (!var)
        return rfg_refuse(why, "'%s': %s has no such variant", f->row.variant, f->op);
    *column = "params";
    int p[RFG_MAX_PARAMS];
    return rfg_row_params(&f->row, var, p, why) && rfg_params_listed(var, p, why);
}

static rfg_status import_line(void *ctx, int line, int n, char *const *field, const char *bad)
{
    struct import *im = ctx;
    if (bad)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s:%d: %s", im->path, line, bad);
    if (!im->n_header)
        return import_header(im, line, n, field);
    if (n != im->n_header)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s:%d: %d fields: must be %d, as in the header", im->path, line, n,
                        im->n_header);
    struct rfg_flat f;
    const char *column;
    struct rfg_reason why = { "" };
    if (!import_row(im, &f, field, &column, &why))
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s:%d: column %s: %s", im->path, line, column, why.text);
    if (!im->keep_how && f.row.how == RFG_SOURCE_MEASURED)
        f.row.how = RFG_SOURCE_IMPORTED;
    if (im->n == im->room) {
        size_t room = im->room ? 2 * im->room : 64;
        struct rfg_row *rows = realloc(im->rows, room * sizeof(*rows));
        im->rows = rows ? rows : im->rows;
        struct origin *origin = realloc(im->origin, room * sizeof(*origin));
        im->origin = origin ? origin : im->origin;
        if (!rows || !origin)
            return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "%s:%d: no memory for another row", im->path, line);
        im->room = room;
    }
    im->origin[im->n] = (struct origin){ im->path, line };
    im->rows[im->n++] = f.row;
    return RFG_OK;
}

static int same_key_together(const void *pa, const void *pb, void *ctx)
{
    const struct import *im = ctx;
    const struct rfg_row *a = &im->rows[*(const size_t *)pa], *b = &im->rows[*(const size_t *)pb];
    int c = (a->problem.op->id > b->problem.op->id) - (a->problem.op->id < b->problem.op->id);
    c = c ? c : memcmp(a->problem.dtype, b->problem.dtype, sizeof(a->problem.dtype));
    c = c ? c : memcmp(a->problem.v, b->problem.v, sizeof(a->problem.v));
    c = c ? c : strcmp(a->arch, b->arch);
    c = c ? c : (a->cu_count > b->cu_count) - (a->cu_count < b->cu_count);
    return c ? c : strcmp(a->device, b->device);
}

/* Two winners for one problem: text that was merged by hand. Which one is meant can't be guessed. */
static rfg_status refuse_repeats(struct import *im)
{
    size_t *order = malloc((im->n + 1) * sizeof(*order));
    if (!order)
        return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "%s: out of memory", im->path);
    for (size_t i = 0; i < im->n; i++)
        order[i] = i;
    qsort_r(order, im->n, sizeof(*order), same_key_together, im);
    rfg_status st = RFG_OK;
    for (size_t i = 1; i < im->n && st == RFG_OK; i++)
        if (!same_key_together(&order[i - 1], &order[i], im)) {
            size_t a = order[i - 1] < order[i] ? order[i - 1] : order[i], b = order[i - 1] + order[i] - a;
            char text[RFG_PROBLEM_STRLEN];
            st = rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s:%d: '%s', %s, %d CUs: must be there once, is in %s:%d too",
                          im->origin[b].path, im->origin[b].line,
                          rfg_problem_format(&im->rows[b].problem, text, sizeof(text)), im->rows[b].arch,
                          im->rows[b].cu_count, im->origin[a].path, im->origin[a].line);
        }
    free(order);
    return st;
}

static rfg_status import_text(struct import *im, FILE *f, const char *name)
{
    im->path = name;
    im->n_header = 0;
    rfg_status st = f ? rfg_csv_read_stream(f, name, import_line, im) : rfg_csv_read(name, import_line, im);
    if (st == RFG_OK && !im->n_header)
        st = rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s: empty: must begin with a header line", name);
    return st;
}

static rfg_status finish_import(struct import *im, rfg_status st, struct rfg_row **rows, size_t *n_rows)
{
    if (st == RFG_OK)
        st = refuse_repeats(im);
    free(im->origin);
    if (st != RFG_OK) {
        free(im->rows);
        im->rows = NULL;
        im->n = 0;
    }
    *rows = im->rows;
    *n_rows = im->n;
    return st;
}

rfg_status rfg_db_read_files(const char *const *paths, int n, bool keep_how, struct rfg_row **rows, size_t *n_rows)
{
    struct import im = { .keep_how = keep_how };
    rfg_status st = RFG_OK;
    for (int i = 0; i < n && st == RFG_OK; i++)
        st = import_text(&im, NULL, paths[i]);
    return finish_import(&im, st, rows, n_rows);
}

rfg_status rfg_db_read_rows(FILE *f, const char *name, struct rfg_row **rows, size_t *n_rows)
{
    struct import im = { .keep_how = true };
    return finish_import(&im, import_text(&im, f, name), rows, n_rows);
}

rfg_status rfg_db_import_csv(struct rfg_db *db, const char *path, bool keep_how, int *written)
{
    struct rfg_row *rows;
    size_t n;
    *written = 0;
    rfg_status st = rfg_db_read_files(&path, 1, keep_how, &rows, &n);
    if (st == RFG_OK)
        st = rfg_db_put_all(db, rows, n, written);
    free(rows);
    return st;
}

/* ---- export ------------------------------------------------------------------------------------------------------ */

static void write_field(FILE *f, const char *text)
{
    if (text[strcspn(text, ",\"# ")])
        csv_fwrite(f, text, strlen(text));
    else
        fputs(text, f);
}

static void write_row(FILE *f, const struct rfg_row *row)
{
    char text[512];
    struct rfg_flat flat;
    rfg_flatten(row, &flat);
    for (int i = 0; i < RFG_N_COLUMNS; i++) {
        if (i)
            fputc(',', f);
        write_field(f, rfg_column_format(&flat, i, text, sizeof(text)));
    }
    fputc('\n', f);
}

void rfg_db_write_rows(FILE *f, const struct rfg_row *rows, size_t n)
{
    for (int i = 0; i < RFG_N_COLUMNS; i++)
        fprintf(f, "%s%s", rfg_columns[i].name, i + 1 < RFG_N_COLUMNS ? "," : "\n");
    for (size_t i = 0; i < n; i++)
        write_row(f, &rows[i]);
}

rfg_status rfg_db_write_csv(const struct rfg_row *rows, size_t n, const char *path)
{
    /* Written beside the target and renamed, so that a full disk or a kill leaves the old file; a device or a pipe is
     * written as it is. */
    struct stat sb;
    struct rfg_tempdir dir = { NULL, -1 };
    bool beside = path && (stat(path, &sb) || S_ISREG(sb.st_mode));
    char *prefix = beside ? rfg_asprintf("%s.tmp-", path) : NULL;
    char *tmp = prefix && rfg_tempdir_make(&dir, prefix) ? rfg_asprintf("%s/csv", dir.path) : NULL;
    const char *target = beside ? tmp : path;
    FILE *f = !path ? stdout : target ? fopen(target, "wbe") : NULL;
    rfg_status st = f ? RFG_OK : rfg_fail(RFG_ERROR_IO, "%s: cannot write: %s", path, strerror(errno));
    if (f) {
        rfg_db_write_rows(f, rows, n);
        bool failed = fflush(f) || ferror(f) || (beside && fsync(fileno(f)));
        int e = errno;
        failed |= path && fclose(f);
        if (failed)
            st = rfg_fail(RFG_ERROR_IO, "%s: cannot write: %s", path ? path : "standard output", strerror(e));
        if (beside && st == RFG_OK && rename(tmp, path))
            st = rfg_fail(RFG_ERROR_IO, "%s: cannot rename to it: %s", path, strerror(errno));
    }
    free(tmp);
    free(prefix);
    rfg_tempdir_remove(&dir);
    return st;
}

static void keep_first(void *ctx, const struct rfg_row *row, const char *why)
{
    char *first = ctx;
    (void)row;
    if (!*first)
        snprintf(first, 200, "%s", why);
}

rfg_status rfg_db_export_csv(struct rfg_db *db, const char *arch, const char *path)
{
    struct rfg_row *rows;
    size_t n;
    char bad[200] = "";
    rfg_status st = rfg_db_all(db, arch, &rows, &n, keep_first, bad);
    if (st == RFG_OK && *bad)
        st = rfg_fail(RFG_ERROR_DATABASE, "%s: row not understood: %s", rfg_db_path(db), bad);
    if (st == RFG_OK)
        st = rfg_db_write_csv(rows, n, path);
    free(rows);
    return st;
}
