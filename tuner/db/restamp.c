/* SPDX-License-Identifier: MIT
 *
 * rfg-db restamp: finds the rows that are still valid after an edit of their kernels, and the stale ones. */
#include "restamp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "dispatch/context.h"
#include "dispatch/db/db_internal.h"
#include "tuner/harness/stamp.h"

#define MOST_PROBLEMS 10 /* of a file that are told one by one */

struct file {
    const char *path;
    bool csv;
    struct rfg_row *rows;
    size_t n, bad;
    struct rfg_stamp_check *checks; /* of the rows of the arch that is asked for */
    size_t n_checks;
};

static void on_bad(void *ctx, const struct rfg_row *row, const char *why)
{
    struct file *f = ctx;
    (void)row;
    if (++f->bad <= MOST_PROBLEMS)
        rfg_print(stdout, "%s: row not understood: %s\n", f->path, why);
}

static bool read_rows(struct file *f)
{
    struct rfg_db *db;
    size_t len = strlen(f->path);
    f->csv = len > 4 && !strcmp(f->path + len - 4, ".csv");
    if (f->csv)
        return rfg_db_read_files(&f->path, 1, true, &f->rows, &f->n) == RFG_OK;
    bool ok =
        rfg_db_open(&db, f->path, RFG_DB_READ) == RFG_OK && rfg_db_all(db, NULL, &f->rows, &f->n, on_bad, f) == RFG_OK;
    rfg_db_close(&db);
    return ok;
}

static void show_progress(int done, int all)
{
    fprintf(stderr, "\r%d of %d code objects%s", done, all, done == all ? "\n" : "");
}

static void describe(const struct file *f, const struct rfg_stamp_check *c, const char *what)
{
    char text[RFG_PROBLEM_STRLEN];
    const struct rfg_row *row = c->stamp.row;
    rfg_print(stdout, "%s: %s, %s, %d CUs: %s%s: %s\n", f->path, rfg_problem_format(&row->problem, text, sizeof(text)),
              row->arch, row->cu_count, what, row->variant, c->why);
}

/* Rows of unknown state come in large groups: one line per kind. */
static void describe_unknown(const struct file *f, size_t first)
{
    size_t n = 0;
    for (size_t i = 0; i < f->n_checks; i++)
        if (f->checks[i].state == RFG_STAMP_UNKNOWN && !strcmp(f->checks[i].why, f->checks[first].why)) {
            if (i < first)
                return; /* told already */
            n++;
        }
    rfg_print(stdout, "%s: %zu rows unknown: %s\n", f->path, n, f->checks[first].why);
}

/* Prints the state of a file's rows. */
static void report(const struct file *f, size_t written)
{
    size_t count[RFG_STAMP_REFUSED + 1] = { 0 }, unstamped = 0;
    for (size_t i = 0; i < f->n_checks; i++) {
        const struct rfg_stamp_check *c = &f->checks[i];
        count[c->state]++;
        unstamped += c->state == RFG_STAMP_CURRENT && c->is_kernel && !*c->stamp.code_hash;
        if (c->state == RFG_STAMP_STALE)
            describe(f, c, "stale: ");
        else if (c->state == RFG_STAMP_REFUSED && count[RFG_STAMP_REFUSED] <= MOST_PROBLEMS)
            describe(f, c, "problem: ");
        else if (c->state == RFG_STAMP_UNKNOWN)
            describe_unknown(f, i);
    }
    if (unstamped)
        rfg_print(stdout, "%s: %zu rows have no code_hash yet: their compilers are not here\n", f->path, unstamped);
    rfg_print(stdout, "%s: %zu rows, %zu current, %zu stale, %zu unknown, %zu problem%s; %zu restamped\n", f->path,
              f->n_checks + f->bad, count[RFG_STAMP_CURRENT], count[RFG_STAMP_STALE], count[RFG_STAMP_UNKNOWN],
              count[RFG_STAMP_REFUSED] + f->bad, count[RFG_STAMP_REFUSED] + f->bad == 1 ? "" : "s", written);
}

static bool must_write(const struct rfg_stamp_check *c)
{
    bool wanted = c->state == RFG_STAMP_CURRENT || (c->state == RFG_STAMP_STALE && !*c->stamp.source_hash);
    return wanted && rfg_stamp_differs(&c->stamp);
}

static bool write_stamps(struct file *f, size_t *written)
{
    struct rfg_stamp *stamps = calloc(f->n_checks + 1, sizeof(*stamps));
    struct rfg_db *db = NULL;
    size_t n = 0;
    *written = 0;
    if (!stamps)
        return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "%s: out of memory", f->path) == RFG_OK;
    for (size_t i = 0; i < f->n_checks; i++)
        if (must_write(&f->checks[i]))
            stamps[n++] = f->checks[i].stamp;
    bool ok = true;
    if (n && f->csv) {
        for (size_t i = 0; i < n; i++) {
            struct rfg_row *row = &f->rows[stamps[i].row - f->rows];
            memcpy(row->source_hash, stamps[i].source_hash, sizeof(row->source_hash));
            memcpy(row->code_hash, stamps[i].code_hash, sizeof(row->code_hash));
            memcpy(row->compiler, stamps[i].compiler, sizeof(row->compiler));
        }
        ok = rfg_db_write_csv(f->rows, f->n, f->path) == RFG_OK;
        *written = n;
    } else if (n) {
        ok = rfg_db_open(&db, f->path, RFG_DB_WRITE) == RFG_OK && rfg_db_restamp(db, stamps, n, written) == RFG_OK;
        rfg_db_close(&db);
    }
    free(stamps);
    return ok;
}

/* The checks of all files in one array, so that shared kernels are compiled once. */
static bool check_files(struct file *f, int n, struct rfg_stamp_check *checks, const char *arch, bool all)
{
    size_t n_checks = 0;
    for (int i = 0; i < n; i++) {
        f[i].checks = checks + n_checks;
        for (size_t k = 0; k < f[i].n; k++)
            if (!arch || !strcmp(arch, f[i].rows[k].arch)) {
                struct rfg_stamp_check *c = &checks[n_checks++];
                rfg_stamp_look(c, &f[i].rows[k], NULL);
                c->compile |= all || !*f[i].rows[k].code_hash;
                f[i].n_checks++;
            }
    }
    struct rfg_cache *cache = rfg_cache_open(NULL, 0);
    bool ok = cache && rfg_stamp_compile(checks, n_checks, cache, 0, isatty(2) ? show_progress : NULL);
    rfg_cache_close(&cache);
    return ok || rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "out of memory") == RFG_OK;
}

bool rfg_db_restamp_files(const char *const *paths, int n, const char *arch, bool all, int *problems)
{
    struct file *f = calloc((size_t)n, sizeof(*f));
    size_t rows = 0;
    bool ok = f || rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "out of memory") == RFG_OK;
    for (int i = 0; i < n && ok; i++) {
        f[i].path = paths[i];
        ok = read_rows(&f[i]);
        rows += f[i].n;
    }
    struct rfg_stamp_check *checks = ok ? calloc(rows + 1, sizeof(*checks)) : NULL;
    if (ok)
        ok = checks ? check_files(f, n, checks, arch, all)
                    : rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "no memory for %zu rows", rows) == RFG_OK;
    for (int i = 0; i < n && ok; i++) {
        size_t written;
        ok = write_stamps(&f[i], &written);
        if (ok)
            report(&f[i], written);
        *problems += (int)f[i].bad;
        for (size_t k = 0; k < f[i].n_checks; k++)
            *problems += f[i].checks[k].state == RFG_STAMP_REFUSED;
    }
    if (!ok)
        fprintf(stderr, "rfg-db: %s\n", rfg_last_error());
    for (int i = 0; f && i < n; i++)
        free(f[i].rows);
    free(checks);
    free(f);
    return ok;
}
