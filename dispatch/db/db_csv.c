/* SPDX-License-Identifier: MIT
 *
 * Text files of tuned rows, in and out. */
#include <csv.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/tempdir.h"
#include "base/util.h"
#include "db_internal.h"

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
        if (path && fclose(f) && !failed) {
            failed = true;
            e = errno;
        }
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
