/* SPDX-License-Identifier: MIT */
#include "list.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "dispatch/context.h"
#include "dispatch/db/db_internal.h"
#include "exit.h"
#include "merge.h"

static json_t *row_json(const struct rfg_row *row)
{
    char text[512];
    struct rfg_flat f;
    rfg_flatten(row, &f);
    json_t *obj = json_object();
    json_object_set_new(obj, "problem", json_string(rfg_problem_format(&row->problem, text, sizeof(text))));
    for (int i = 0; i < RFG_N_COLUMNS; i++) {
        const struct rfg_column *c = &rfg_columns[i];
        const void *v = (const char *)&f + c->offset;
        json_t *value = NULL;
        if (c->type == RFG_COLUMN_REAL)
            value = json_real(*(const double *)v);
        else if (c->type == RFG_COLUMN_INT)
            value = json_integer(*(const int *)v);
        else if (c->type == RFG_COLUMN_I64)
            value = json_integer(*(const int64_t *)v);
        else if (!strcmp(c->name, "params"))
            value = json_loads(v, 0, NULL);
        if (!value) /* seeds too: JSON's numbers end at 2^53 for many readers */
            value = json_string(rfg_column_format(&f, i, text, sizeof(text)));
        json_object_set_new(obj, c->name, value);
    }
    return obj;
}

#define LIST_COLUMNS 11
static const char *const list_titles[LIST_COLUMNS] = { "problem",   "arch",   "CUs",        "variant",
                                                       "median us", "spread", "vs default", "vs vendor",
                                                       "how",       "device", "date" };
static const bool list_right[LIST_COLUMNS] = { [2] = true, [4] = true, [5] = true, [6] = true, [7] = true };

static char *list_cell(const struct rfg_row *row, int column)
{
    char text[RFG_CONFIG_STRLEN + RFG_PROBLEM_STRLEN];
    double other;
    switch (column) {
    case 0:
        return strdup(rfg_problem_format(&row->problem, text, sizeof(text)));
    case 1:
        return strdup(row->arch);
    case 2:
        return rfg_asprintf("%d", row->cu_count);
    case 3:
        return strdup(rfg_row_config(row, text, sizeof(text)));
    case 4:
        return rfg_asprintf("%.2f", row->median_us);
    case 5:
        return rfg_asprintf("%.2f", row->spread_us);
    case 6:
    case 7:
        other = column == 6 ? row->default_us : row->vendor_us;
        return other > 0 ? rfg_asprintf("%.2fx", other / row->median_us) : strdup("-");
    case 8:
        return rfg_asprintf(row->how == RFG_SOURCE_PREDICTED && *row->driver ? "%s by %s" : "%s",
                            rfg_source_name(row->how), row->driver);
    case 9:
        return strdup(*row->device ? row->device : "-");
    default:
        return strdup(row->date);
    }
}

static void print_table(const struct rfg_row *rows, size_t n)
{
    int width[LIST_COLUMNS];
    for (int c = 0; c < LIST_COLUMNS; c++) {
        width[c] = (int)strlen(list_titles[c]);
        for (size_t i = 0; i < n; i++) {
            char *cell = list_cell(&rows[i], c);
            if (cell && (int)strlen(cell) > width[c])
                width[c] = (int)strlen(cell);
            free(cell);
        }
    }
    for (size_t i = 0; i < n + 1; i++)
        for (int c = 0; c < LIST_COLUMNS; c++) {
            char *cell = i ? list_cell(&rows[i - 1], c) : strdup(list_titles[c]);
            bool last = c + 1 == LIST_COLUMNS;
            rfg_print(stdout, "%*s%s",
                      list_right[c] ? width[c]
                      : last        ? 0
                                    : -width[c],
                      cell ? cell : "?", last ? "\n" : "  ");
            free(cell);
        }
}

int rfg_db_list(const char *path, const char *arch, bool json)
{
    struct rfg_row *rows;
    size_t n;
    if (!rfg_db_load(path, arch, &rows, &n))
        return complain(BAD_USAGE);
    if (json) {
        json_t *all = json_array();
        for (size_t i = 0; i < n; i++)
            json_array_append_new(all, row_json(&rows[i]));
        json_dumpf(all, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(17));
        putchar('\n');
        json_decref(all);
    } else {
        print_table(rows, n);
        rfg_print(stdout, "%zu row%s\n", n, n == 1 ? "" : "s");
    }
    free(rows);
    return FINE;
}

int rfg_db_show(const char *path, const char *arch, const char *problem)
{
    struct rfg_row *rows;
    struct rfg_problem p;
    struct rfg_reason why;
    size_t n, found = 0;
    if (!rfg_problem_parse(&p, problem, &why)) {
        fprintf(stderr, "rfg-db: problem: %s\n", why.text);
        return BAD_USAGE;
    }
    if (!rfg_db_load(path, arch, &rows, &n))
        return complain(BAD_USAGE);
    p = rfg_problem_key(&p);
    for (size_t i = 0; i < n; i++) {
        char text[512];
        struct rfg_flat f;
        if (!rfg_problem_equal(&rows[i].problem, &p))
            continue;
        rfg_flatten(&rows[i], &f);
        if (found++)
            putchar('\n');
        rfg_print(stdout, "%-12s %s\n", "problem", rfg_problem_format(&p, text, sizeof(text)));
        for (int c = 0; c < RFG_N_COLUMNS; c++)
            rfg_print(stdout, "%-12s %s\n", rfg_columns[c].name, rfg_column_format(&f, c, text, sizeof(text)));
    }
    free(rows);
    if (!found)
        fprintf(stderr, "rfg-db: %s: no row for '%s'\n", path, problem);
    return found ? FINE : PROBLEMS;
}
