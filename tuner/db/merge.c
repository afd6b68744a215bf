/* SPDX-License-Identifier: MIT
 *
 * rfg-db merge: merges the rows of several files, and settles conflicts by one rule. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/util.h"
#include "exit.h"
#include "merge.h"
#include "tuner/harness/output.h"

struct bad_rows {
    const char *path;
    size_t n;
};
#define MOST_BAD_ROWS 10 /* that are told one by one */

static void on_bad(void *ctx, const struct rfg_row *row, const char *why)
{
    struct bad_rows *b = ctx;
    (void)row;
    if (++b->n <= MOST_BAD_ROWS)
        rfg_print(stderr, "rfg-db: %s: row not understood: %s\n", b->path, why);
}

bool rfg_db_load(const char *path, const char *arch, struct rfg_row **rows, size_t *n)
{
    struct rfg_db *db;
    struct bad_rows bad = { .path = path };
    *rows = NULL;
    *n = 0;
    bool ok = rfg_db_open(&db, path, RFG_DB_READ) == RFG_OK && rfg_db_all(db, arch, rows, n, on_bad, &bad) == RFG_OK;
    if (bad.n > MOST_BAD_ROWS)
        fprintf(stderr, "rfg-db: %s: %zu rows not understood in all\n", path, bad.n);
    rfg_db_close(&db);
    return ok;
}

struct merged {
    struct rfg_row row;
    const char *from;
    int order; /* of from among the files */
};

static int by_key(const void *pa, const void *pb)
{
    const struct rfg_row *a = &((const struct merged *)pa)->row, *b = &((const struct merged *)pb)->row;
    int c = memcmp(a->problem.v, b->problem.v, sizeof(a->problem.v));
    c = c ? c : memcmp(a->problem.dtype, b->problem.dtype, sizeof(a->problem.dtype));
    c = c ? c : strcmp(a->problem.op->name, b->problem.op->name);
    c = c ? c : strcmp(a->arch, b->arch);
    c = c ? c : (a->cu_count > b->cu_count) - (a->cu_count < b->cu_count);
    c = c ? c : strcmp(a->device, b->device);
    return c ? c : ((const struct merged *)pa)->order - ((const struct merged *)pb)->order;
}

static bool same_key(const struct rfg_row *a, const struct rfg_row *b)
{
    return rfg_problem_equal(&a->problem, &b->problem) && !strcmp(a->arch, b->arch) && a->cu_count == b->cu_count &&
           !strcmp(a->device, b->device);
}

/* Whether b beats a, and why the winner wins. The rule of docs/shipping.md is a total order of rows, so that the files'
 * order doesn't matter. */
static bool beats(const struct rfg_row *b, const struct rfg_row *a, bool newest, const char **why)
{
    *why = "better evidence";
    if (a->how != b->how)
        return b->how > a->how;
    int date = strcmp(b->date, a->date);
    *why = newest ? "newest" : "fastest";
    if (newest && date)
        return date > 0;
    if (!newest && a->median_us != b->median_us) /* dates settle what is equally fast */
        return b->median_us < a->median_us;
    *why = newest ? "fastest of one date" : "newest of the equally fast";
    if (a->median_us != b->median_us || date)
        return newest ? b->median_us < a->median_us : date > 0;
    *why = "first by its variant, parameters and seed";
    int text = strcmp(b->variant, a->variant);
    text = text ? text : strcmp(b->params, a->params);
    return text ? text < 0 : b->seed < a->seed;
}

int rfg_db_merge(const char *const *paths, int n_paths, const char *out, bool newest)
{
    struct merged *all = NULL;
    size_t n = 0, stored = 0, conflicts = 0;
    int rc = FINE;
    for (int i = -1; i < n_paths && rc == FINE; i++) {
        const char *path = i < 0 ? out : paths[i];
        struct rfg_row *rows;
        size_t more;
        if (i < 0 && !rfg_access(path, F_OK))
            continue;
        size_t len = strlen(path);
        bool text = i >= 0 && len > 4 && !strcmp(path + len - 4, ".csv");
        if (text ? rfg_db_read_files(&path, 1, true, &rows, &more) != RFG_OK : !rfg_db_load(path, NULL, &rows, &more)) {
            rc = complain(BAD_USAGE);
            break;
        }
        struct merged *grown = realloc(all, (n + more + 1) * sizeof(*all));
        if (!grown) {
            fprintf(stderr, "rfg-db: %s: no memory for %zu rows\n", path, more);
            rc = BAD_USAGE;
        }
        all = grown ? grown : all;
        for (size_t k = 0; grown && k < more; k++)
            all[n++] = (struct merged){ rows[k], path, i };
        free(rows);
    }
    struct rfg_row *winners = rc == FINE ? malloc((n + 1) * sizeof(*winners)) : NULL;
    if (winners)
        qsort(all, n, sizeof(*all), by_key);
    for (size_t i = 0; winners && i < n;) {
        size_t best = i, k = i + 1;
        for (; k < n && same_key(&all[i].row, &all[k].row); k++) {
            const char *why;
            char text[RFG_PROBLEM_STRLEN];
            if (!memcmp(&all[best].row, &all[k].row, sizeof(struct rfg_row)))
                continue; /* one row in two files is no conflict */
            bool later = beats(&all[k].row, &all[best].row, newest, &why);
            const struct merged *win = &all[later ? k : best], *lose = &all[later ? best : k];
            rfg_print(stdout, "%s, %s, %d CUs: %s (%.2f us, %s, %s) over %s (%.2f us, %s, %s): %s\n",
                      rfg_problem_format(&win->row.problem, text, sizeof(text)), win->row.arch, win->row.cu_count,
                      win->from, win->row.median_us, rfg_source_name(win->row.how), win->row.date, lose->from,
                      lose->row.median_us, rfg_source_name(lose->row.how), lose->row.date, why);
            conflicts++;
            best = later ? k : best;
        }
        winners[stored++] = all[best].row;
        i = k;
    }
    struct rfg_db *db = NULL;
    if (winners &&
        (rfg_db_open(&db, out, RFG_DB_WRITE) != RFG_OK || rfg_db_put_all(db, winners, stored, NULL) != RFG_OK))
        rc = complain(BAD_USAGE);
    rfg_db_close(&db);
    if (rc == FINE)
        rfg_print(stdout, "%s: %zu rows, %zu conflict%s settled\n", out, stored, conflicts, conflicts == 1 ? "" : "s");
    free(winners);
    free(all);
    return rc;
}
