/* SPDX-License-Identifier: MIT
 *
 * The list of columns: tables and text files follow it. */
#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "db_internal.h"

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

const char *rfg_source_name(enum rfg_source s)
{
    return s == RFG_SOURCE_MEASURED      ? "measured"
           : s == RFG_SOURCE_IMPORTED    ? "imported"
           : s == RFG_SOURCE_PROVISIONAL ? "provisional"
                                         : "predicted";
}

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
