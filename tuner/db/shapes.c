/* SPDX-License-Identifier: MIT */
#include "shapes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/util.h"
#include "exit.h"
#include "dispatch/db/db_internal.h"
#include "dispatch/db/shapes_logs.h"

#define MOST_LEFT_OUT 10 /* that are told one by one */

static void bad_line(void *ctx, const char *message)
{
    (void)ctx;
    rfg_print(stderr, "rfg-db: %s\n", message);
}

static bool is_database(const char *path)
{
    char head[16] = "";
    FILE *f = fopen(path, "rbe");
    bool is = f && fread(head, 1, sizeof(head), f) == sizeof(head) && !memcmp(head, "SQLite format 3", 16);
    if (f)
        fclose(f);
    return is;
}

/* A database's rows, each once whatever the GPU. */
static rfg_status read_rows(const char *path, struct rfg_shapes *s)
{
    struct rfg_db *db;
    struct rfg_row *rows = NULL;
    size_t n = 0;
    memset(s, 0, sizeof(*s));
    rfg_status st = rfg_db_open(&db, path, RFG_DB_READ);
    if (st == RFG_OK)
        st = rfg_db_all(db, NULL, &rows, &n, NULL, NULL);
    rfg_db_close(&db);
    s->v = st == RFG_OK ? calloc(n + 1, sizeof(*s->v)) : NULL;
    if (st == RFG_OK && !s->v)
        st = rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "%s: no memory for its problems", path);
    for (size_t i = 0; st == RFG_OK && i < n; i++)
        s->v[s->n++] = (struct rfg_shape){ .problem = rows[i].problem, .weight = 1 };
    free(rows);
    return st;
}

/* Merges the problems of all files: each problem once, with the sum of the weights. */
static bool add(struct rfg_shapes *all, uint64_t **hashes, const struct rfg_shapes *more, bool strides,
                size_t *stridden)
{
    size_t room = all->n + more->n + 1;
    struct rfg_shape *v = realloc(all->v, room * sizeof(*v));
    all->v = v ? v : all->v;
    uint64_t *h = realloc(*hashes, room * sizeof(*h));
    *hashes = h ? h : *hashes;
    if (!v || !h)
        return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "no memory for %zu problems", room) == RFG_OK;
    for (size_t i = 0; i < more->n; i++) {
        struct rfg_shape s = more->v[i];
        struct rfg_problem key = rfg_problem_key(&s.problem);
        if (!strides && !rfg_problem_equal(&key, &s.problem)) {
            s.problem = key;
            ++*stridden;
        }
        size_t k = 0;
        h[all->n] = rfg_problem_hash(&s.problem);
        while (k < all->n && (h[k] != h[all->n] || !rfg_problem_equal(&v[k].problem, &s.problem)))
            k++;
        if (k < all->n)
            v[k].weight += s.weight;
        else
            v[all->n++] = s;
    }
    all->n_bad += more->n_bad;
    return true;
}

static void write_field(FILE *f, const char *text)
{
    fprintf(f, strchr(text, ',') ? "\"%s\"" : "%s", text); /* problems have no quotes */
}

static void write_csv(FILE *f, const struct rfg_shapes *s)
{
    char size[24];
    bool measured = false;
    for (size_t i = 0; i < s->n; i++)
        measured |= s->v[i].us > 0;
    fprintf(f, "op,dtype,M,N,K,attrs,weight%s\n", measured ? ",us,us_on" : "");
    for (size_t i = 0; i < s->n; i++) {
        struct rfg_row row = { .problem = s->v[i].problem };
        struct rfg_flat flat;
        rfg_flatten(&row, &flat);
        fprintf(f, "%s,", flat.op);
        write_field(f, flat.dtypes);
        for (int k = 0; k < 3; k++) {
            snprintf(size, sizeof(size), "%lld", (long long)flat.size[k]);
            fprintf(f, ",%s", row.problem.op->column_key[k] ? size : "");
        }
        fputc(',', f);
        write_field(f, flat.attrs);
        fprintf(f, ",%.17g", s->v[i].weight);
        if (s->v[i].us > 0)
            fprintf(f, ",%.9g,%s", s->v[i].us, s->v[i].us_on);
        fputs(measured && !(s->v[i].us > 0) ? ",,\n" : "\n", f);
    }
}

static size_t write_tunableop(FILE *f, const struct rfg_shapes *s)
{
    size_t left_out = 0;
    for (size_t i = 0; i < s->n; i++) {
        char line[300], text[RFG_PROBLEM_STRLEN];
        struct rfg_reason why;
        if (rfg_tunable_format(&s->v[i].problem, line, sizeof(line), &why))
            fprintf(f, "%s\n", line);
        else if (++left_out <= MOST_LEFT_OUT)
            rfg_print(stderr, "rfg-db: left out: %s: %s\n", rfg_problem_format(&s->v[i].problem, text, sizeof(text)),
                      why.text);
    }
    return left_out;
}

int rfg_db_shapes(const char *const *paths, int n, int tunableop, const char *out)
{
    struct rfg_shapes all = { 0 };
    size_t stridden = 0, left_out = 0;
    uint64_t *hashes = NULL;
    bool ok = true;
    for (int i = 0; i < n && ok; i++) {
        struct rfg_shapes one;
        ok = (is_database(paths[i]) ? read_rows(paths[i], &one) : rfg_shapes_read(paths[i], &one, bad_line, NULL)) ==
                 RFG_OK &&
             add(&all, &hashes, &one, tunableop, &stridden);
        rfg_shapes_free(&one);
    }
    bool to_stdout = !out || !strcmp(out, "-");
    FILE *f = ok ? to_stdout ? stdout : fopen(out, "wbe") : NULL;
    if (ok && !f)
        ok = rfg_fail(RFG_ERROR_IO, "%s: cannot write: %s", out, strerror(errno)) == RFG_OK;
    if (ok && tunableop)
        left_out = write_tunableop(f, &all);
    else if (ok)
        write_csv(f, &all);
    if (ok && !to_stdout) {
        ok = !ferror(f);
        ok = fclose(f) == 0 && ok;
        if (!ok)
            rfg_fail(RFG_ERROR_IO, "%s: cannot write: %s", out, strerror(errno));
    }
    int code = !ok ? complain(BAD_USAGE) : all.n_bad || left_out ? PROBLEMS : FINE;
    if (ok && stridden)
        fprintf(stderr, "rfg-db: note: %zu problems have strides, which rows and shapes files know nothing of\n",
                stridden);
    if (ok && left_out)
        fprintf(stderr, "rfg-db: %zu problems of %zu can't be said in TunableOp's words\n", left_out, all.n);
    rfg_shapes_free(&all);
    free(hashes);
    return code;
}
