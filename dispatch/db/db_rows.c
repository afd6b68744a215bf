/* SPDX-License-Identifier: MIT
 *
 * What is in a tuned database: rows, misses and failures. */
#include "base/text.h"
#include "db_internal.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

#define KEY_NAMES "op, dtypes, attrs, M, N, K, arch, cu_count"
/* The same of a file of schema 3 or older, to be read from as if it were a table. */
#define OLDER_NAMES "op, dtypes, " RFG_DB_ATTRS_OF_3 " AS attrs, M, N, K, arch, cu_count"
#define KEY_WHERE   "op=?1 AND dtypes=?2 AND attrs=?3 AND M=?4 AND N=?5 AND K=?6 AND arch=?7 AND cu_count=?8"
#define TUNED_WHERE KEY_WHERE " AND device=?9" /* a tuned row's */
#define KEY_VALUES  "?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8"

/* As files have it: of two rows for one problem the higher stays, and of the same rank the later. Provisional rows came
 * after the others, which must keep their numbers: they share predicted ones'. */
#define BETTER(rank, how) "(how_rank > " rank " OR (how = 'provisional' AND " how " = 'predicted'))"

static int how_rank(enum rfg_source s)
{
    return s == RFG_SOURCE_MEASURED ? 2 : s == RFG_SOURCE_IMPORTED ? 1 : 0;
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static void *field(const struct rfg_flat *f, int column)
{
    return (char *)f + rfg_columns[column].offset;
}

static void bind(struct rfg_db *db, sqlite3_stmt *s, const struct rfg_flat *f, int columns)
{
    for (int i = 0; i < columns; i++) {
        const void *v = field(f, i);
        switch (rfg_columns[i].type) {
        case RFG_COLUMN_TEXT:
            rfg_db_bind(db, s, i + 1, v);
            break;
        case RFG_COLUMN_INT:
            sqlite3_bind_int(s, i + 1, *(const int *)v);
            break;
        case RFG_COLUMN_I64:
        case RFG_COLUMN_U64:
            sqlite3_bind_int64(s, i + 1, *(const int64_t *)v);
            break;
        case RFG_COLUMN_REAL:
            sqlite3_bind_double(s, i + 1, *(const double *)v);
            break;
        case RFG_COLUMN_HOW:
            rfg_db_bind(db, s, i + 1, rfg_source_name(*(const enum rfg_source *)v));
            break;
        }
    }
}

/* Reads the first n columns of a result. Anyone may have written to the file: each type and length is checked. */
static bool read_columns(sqlite3_stmt *s, int n, struct rfg_flat *f, struct rfg_reason *why)
{
    bool ok = true;
    memset(f, 0, sizeof(*f));
    for (int i = 0; i < n; i++) {
        const struct rfg_column *c = &rfg_columns[i];
        void *v = field(f, i);
        int type = sqlite3_column_type(s, i);
        const char *text = NULL;
        switch (c->type) {
        case RFG_COLUMN_TEXT:
        case RFG_COLUMN_HOW:
            text = (const char *)sqlite3_column_text(s, i);
            if (type != SQLITE_TEXT || !text)
                ok = ok && rfg_refuse(why, "column %s: must be text", c->name);
            else if (c->type == RFG_COLUMN_HOW)
                ok = rfg_column_parse(f, i, text, ok ? why : NULL) && ok;
            else if ((size_t)snprintf(v, c->size, "%s", text) >= c->size)
                ok = ok &&
                     rfg_refuse(why, "column %s: '%.40s...': must be shorter than %zu bytes", c->name, text, c->size);
            else if (!rfg_is_printable(text))
                ok = ok && rfg_refuse(why, "column %s: '%.60s': must be one line of printable text", c->name, text);
            break;
        case RFG_COLUMN_INT:
        case RFG_COLUMN_I64:
        case RFG_COLUMN_U64: {
            sqlite3_int64 x = sqlite3_column_int64(s, i);
            if (type != SQLITE_INTEGER || (c->type == RFG_COLUMN_INT && (x < INT32_MIN || x > INT32_MAX)))
                ok = ok && rfg_refuse(why, "column %s: '%.40s': must be an integer", c->name,
                                      (const char *)sqlite3_column_text(s, i));
            else if (c->type == RFG_COLUMN_INT)
                *(int *)v = (int)x;
            else
                *(int64_t *)v = x;
            break;
        }
        case RFG_COLUMN_REAL:
            if (type != SQLITE_FLOAT && type != SQLITE_INTEGER)
                ok = ok && rfg_refuse(why, "column %s: must be a number", c->name);
            *(double *)v = sqlite3_column_double(s, i);
            break;
        }
    }
    return ok;
}

/* "op, dtypes, ..., how"; what an older schema doesn't have as it would be migrated. */
static char *column_names(const struct rfg_db *db, char *buf, size_t size)
{
    size_t at = 0;
    buf[0] = 0;
    for (int i = 0; i < RFG_N_COLUMNS && at < size; i++) {
        const char *name = rfg_columns[i].name,
                   *instead = db->schema < 4 && !strcmp(name, "attrs")       ? RFG_DB_ATTRS_OF_3 " AS "
                              : db->schema < 2 && !strcmp(name, "code_hash") ? "'' AS "
                              : db->schema < 3 && !strcmp(name, "mem_gbps")  ? "0 AS "
                              : db->schema < 3 && !strcmp(name, "device")    ? RFG_DB_OLD_DEVICE " AS "
                                                                             : "";
        at += (size_t)snprintf(buf + at, size - at, "%s%s%s", i ? ", " : "", instead, name);
    }
    return buf;
}

/* "?1, ?2, ..., ?27" */
static char *column_values(char *buf, size_t size)
{
    size_t at = 0;
    buf[0] = 0;
    for (int i = 0; i < RFG_N_COLUMNS && at < size; i++)
        at += (size_t)snprintf(buf + at, size - at, "%s?%d", i ? ", " : "", i + 1);
    return buf;
}

static sqlite3_stmt *prepare_put(struct rfg_db *db)
{
    char sql[2400], names[700], values[300];
    /* A better `how` stays: nothing predicted or imported replaces a measurement. */
    size_t at = (size_t)snprintf(
        sql, sizeof(sql), "INSERT INTO tuned (%s, how_rank) VALUES (%s, ?%d) ON CONFLICT DO UPDATE SET ",
        column_names(db, names, sizeof(names)), column_values(values, sizeof(values)), RFG_N_COLUMNS + 1);
    for (int i = RFG_KEY_COLUMNS; i < RFG_N_COLUMNS; i++)
        at +=
            (size_t)snprintf(sql + at, sizeof(sql) - at, "%s=excluded.%s, ", rfg_columns[i].name, rfg_columns[i].name);
    snprintf(sql + at, sizeof(sql) - at,
             "how_rank=excluded.how_rank WHERE NOT " BETTER("excluded.how_rank", "excluded.how"));
    return rfg_db_prepare(db, sql);
}

/* A row that was not stored: is a better one there? If not, something in the file (a trigger) swallowed it. */
static rfg_status explain_unstored(struct rfg_db *db, const struct rfg_flat *f)
{
    char text[RFG_PROBLEM_STRLEN];
    sqlite3_stmt *s = rfg_db_prepare(db, "SELECT 1 FROM tuned WHERE " TUNED_WHERE " AND " BETTER("?10", "?11"));
    if (!s)
        return RFG_ERROR_DATABASE;
    bind(db, s, f, RFG_KEY_COLUMNS);
    rfg_db_bind(db, s, 9, f->row.device);
    sqlite3_bind_int(s, 10, how_rank(f->row.how));
    rfg_db_bind(db, s, 11, rfg_source_name(f->row.how));
    int rc = rfg_db_step(db, s);
    rfg_status st = rc == SQLITE_ROW    ? RFG_OK
                    : rc == SQLITE_DONE ? rfg_fail(RFG_ERROR_DATABASE,
                                                   "%s: the row of '%s' was not stored, though nothing better is there",
                                                   db->path, rfg_problem_format(&f->row.problem, text, sizeof(text)))
                                        : rfg_db_fail(db, "cannot read a row");
    sqlite3_finalize(s);
    return st;
}

static rfg_status check_row(const struct rfg_db *db, const struct rfg_row *row)
{
    const char *column;
    struct rfg_reason why;
    if (!rfg_row_check(row, &column, &why))
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s: row refused: column %s: %s", db->path, column, why.text);
    return RFG_OK;
}

rfg_status rfg_db_put_all(struct rfg_db *db, const struct rfg_row *rows, size_t n, int *written)
{
    int stored = 0;
    for (size_t i = 0; i < n; i++)
        if (check_row(db, &rows[i]) != RFG_OK)
            return RFG_ERROR_INVALID_ARGUMENT;
    rfg_db_lock(db);
    rfg_status st = rfg_db_begin(db);
    sqlite3_stmt *s = st == RFG_OK ? prepare_put(db) : NULL;
    if (st == RFG_OK && !s)
        st = RFG_ERROR_DATABASE;
    for (size_t i = 0; s && st == RFG_OK && i < n; i++) {
        struct rfg_flat f;
        rfg_flatten(&rows[i], &f);
        bind(db, s, &f, RFG_N_COLUMNS);
        sqlite3_bind_int(s, RFG_N_COLUMNS + 1, how_rank(rows[i].how));
        if (rfg_db_step(db, s) != SQLITE_DONE)
            st = rfg_db_fail(db, "cannot write a row");
        else if (sqlite3_changes(db->h))
            stored++;
        else
            st = explain_unstored(db, &f);
        sqlite3_reset(s);
    }
    sqlite3_finalize(s);
    if (!sqlite3_get_autocommit(db->h))
        st = rfg_db_finish(db, st);
    rfg_db_unlock(db);
    if (written)
        *written = st == RFG_OK ? stored : 0;
    return st;
}

rfg_status rfg_db_put(struct rfg_db *db, const struct rfg_row *row)
{
    return rfg_db_put_all(db, row, 1, NULL);
}

rfg_status rfg_db_restamp(struct rfg_db *db, const struct rfg_stamp *stamps, size_t n, size_t *written)
{
    /* A tuner may have written the row anew while its old code was compiled: then nothing of it is ours to change. */
    static const char sql[] = "UPDATE tuned SET source_hash=?10, code_hash=?11, compiler=?12 WHERE " TUNED_WHERE
                              " AND variant=?13 AND params=?14 AND date=?15 AND source_hash=?16 AND code_hash=?17";
    size_t stored = 0;
    rfg_db_lock(db);
    rfg_status st = rfg_db_begin(db);
    sqlite3_stmt *s = st == RFG_OK ? rfg_db_prepare(db, sql) : NULL;
    if (st == RFG_OK && !s)
        st = RFG_ERROR_DATABASE;
    for (size_t i = 0; st == RFG_OK && i < n; i++) {
        const struct rfg_row *row = stamps[i].row;
        const char *const texts[] = { row->device,        stamps[i].source_hash, stamps[i].code_hash,
                                      stamps[i].compiler, row->variant,          row->params,
                                      row->date,          row->source_hash,      row->code_hash };
        struct rfg_flat f;
        rfg_flatten(row, &f);
        bind(db, s, &f, RFG_KEY_COLUMNS);
        for (int k = 0; k < 9; k++)
            rfg_db_bind(db, s, 9 + k, texts[k]);
        if (rfg_db_step(db, s) != SQLITE_DONE)
            st = rfg_db_fail(db, "cannot write a row");
        stored += (size_t)sqlite3_changes(db->h);
        sqlite3_reset(s);
    }
    sqlite3_finalize(s);
    if (!sqlite3_get_autocommit(db->h))
        st = rfg_db_finish(db, st);
    rfg_db_unlock(db);
    *written = st == RFG_OK ? stored : 0;
    return st;
}

static void flatten_key(const struct rfg_problem *prob, const char *arch, int cu_count, struct rfg_flat *f)
{
    struct rfg_row row = { .problem = *prob, .cu_count = cu_count };
    snprintf(row.arch, sizeof(row.arch), "%s", arch);
    rfg_flatten(&row, f);
}

/* A statement with the key bound to ?1 ... ?8; NULL with the error set. */
static sqlite3_stmt *prepare_key(struct rfg_db *db, const char *sql, const struct rfg_problem *prob, const char *arch,
                                 int cu_count)
{
    struct rfg_flat f;
    sqlite3_stmt *s = rfg_db_prepare(db, sql);
    if (s) {
        flatten_key(prob, arch, cu_count, &f);
        bind(db, s, &f, RFG_KEY_COLUMNS);
    }
    return s;
}

int rfg_db_get(struct rfg_db *db, const struct rfg_problem *prob, const char *arch, int cu_count, const char *device,
               struct rfg_row *row)
{
    char sql[1600], names[700];
    struct rfg_flat f;
    struct rfg_reason why = { "" };
    const char *column;
    if (db->schema == 0)
        return 0;
    snprintf(sql, sizeof(sql),
             "SELECT * FROM (SELECT %s, how_rank FROM tuned) WHERE " KEY_WHERE
             " AND (?9 IS NULL OR device IN (?9, '')) "
             "ORDER BY (?9 IS NOT NULL AND device = ''), how_rank DESC, how = 'provisional' DESC, device LIMIT 1",
             column_names(db, names, sizeof(names)));
    rfg_db_lock(db);
    int found = -1;
    sqlite3_stmt *s = prepare_key(db, sql, prob, arch, cu_count);
    if (s && device)
        rfg_db_bind(db, s, 9, device);
    int rc = s ? rfg_db_step(db, s) : SQLITE_ERROR;
    if (rc == SQLITE_DONE) {
        found = 0;
    } else if (rc != SQLITE_ROW) {
        if (s)
            rfg_db_fail(db, "cannot read a row");
    } else if (!read_columns(s, RFG_N_COLUMNS, &f, &why) || !rfg_unflatten(&f, &column, &why)) {
        rfg_fail(RFG_ERROR_DATABASE, "%s: row not understood: %s", db->path, why.text);
    } else {
        *row = f.row;
        found = 1;
    }
    sqlite3_finalize(s);
    rfg_db_unlock(db);
    return found;
}

rfg_status rfg_db_each(struct rfg_db *db, const char *arch,
                       bool (*fn)(void *ctx, const struct rfg_row *row, const char *bad), void *ctx)
{
    char sql[1600], names[700];
    if (db->schema == 0)
        return RFG_OK;
    snprintf(sql, sizeof(sql),
             "SELECT %s FROM tuned WHERE ?1 IS NULL OR arch = ?1 ORDER BY op, dtypes, attrs, N, K, M, arch, cu_count, "
             "device",
             column_names(db, names, sizeof(names)));
    rfg_db_lock(db);
    rfg_status st = RFG_OK;
    bool more = true;
    int rc = SQLITE_DONE;
    sqlite3_stmt *s = rfg_db_prepare(db, sql);
    if (!s)
        st = RFG_ERROR_DATABASE;
    else if (arch)
        rfg_db_bind(db, s, 1, arch);
    while (s && more && (rc = rfg_db_step(db, s)) == SQLITE_ROW) {
        struct rfg_flat f;
        struct rfg_reason why = { "" }, said;
        const char *column;
        bool ok = read_columns(s, RFG_N_COLUMNS, &f, &why);
        if (ok && !rfg_unflatten(&f, &column, &why)) {
            ok = false;
            said = why;
            snprintf(why.text, sizeof(why.text), "column %s: %.120s", column, said.text);
        }
        if (!ok)
            f.row.problem.op = NULL;
        more = fn(ctx, &f.row, ok ? NULL : why.text);
    }
    if (st == RFG_OK && more && rc != SQLITE_DONE)
        st = rfg_db_fail(db, "cannot read the rows");
    sqlite3_finalize(s);
    rfg_db_unlock(db);
    return st;
}

struct collect {
    struct rfg_row *rows;
    size_t n, room;
    bool no_memory;
    void (*bad)(void *ctx, const struct rfg_row *row, const char *why);
    void *ctx;
};

static bool collect(void *ctx, const struct rfg_row *row, const char *bad)
{
    struct collect *c = ctx;
    if (bad) {
        if (c->bad)
            c->bad(c->ctx, row, bad);
        return true;
    }
    if (c->n == c->room) {
        size_t room = c->room ? 2 * c->room : 64;
        struct rfg_row *more = realloc(c->rows, room * sizeof(*more));
        if (!more) {
            c->no_memory = true;
            return false;
        }
        c->rows = more;
        c->room = room;
    }
    c->rows[c->n++] = *row;
    return true;
}

rfg_status rfg_db_all(struct rfg_db *db, const char *arch, struct rfg_row **rows, size_t *n,
                      void (*bad)(void *ctx, const struct rfg_row *row, const char *why), void *ctx)
{
    struct collect c = { .bad = bad, .ctx = ctx };
    rfg_status st = rfg_db_each(db, arch, collect, &c);
    if (c.no_memory)
        st = rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "%s: no memory for %zu rows", db->path, c.n + 1);
    if (st != RFG_OK) {
        free(c.rows);
        c.rows = NULL;
        c.n = 0;
    }
    *rows = c.rows;
    *n = c.n;
    return st;
}

/* ---- misses and failures ----------------------------------------------------------------------------------------- */

/* Runs a prepared change in a transaction of its own. must: it changes a row in any case. */
static rfg_status run_change(struct rfg_db *db, sqlite3_stmt *s, const char *what, bool must)
{
    rfg_status st = s ? rfg_db_begin(db) : RFG_ERROR_DATABASE;
    if (st == RFG_OK) {
        if (rfg_db_step(db, s) != SQLITE_DONE)
            st = rfg_db_fail(db, what);
        else if (must && !sqlite3_changes(db->h))
            st = rfg_fail(RFG_ERROR_DATABASE, "%s: %s: nothing was stored", db->path, what);
        sqlite3_reset(s);
        st = rfg_db_finish(db, st);
    }
    sqlite3_finalize(s);
    return st;
}

rfg_status rfg_db_add_misses(struct rfg_db *db, const struct rfg_problem *prob, const char *arch, int cu_count,
                             int rung, uint64_t calls)
{
    char date[24];
    rfg_date(date);
    rfg_db_lock(db);
    /* Counts may be lost in a power cut; they must not cost an engine a flush of the disk each. */
    sqlite3_exec(db->h, "PRAGMA synchronous=NORMAL", NULL, NULL, NULL);
    sqlite3_stmt *s = prepare_key(db,
                                  "INSERT INTO misses (" KEY_NAMES ", rung, calls, last) VALUES (" KEY_VALUES
                                  ", ?9, ?10, ?11) ON CONFLICT DO UPDATE SET calls = calls + excluded.calls, "
                                  "rung = excluded.rung, last = excluded.last",
                                  prob, arch, cu_count);
    if (s) {
        sqlite3_bind_int(s, 9, rung);
        sqlite3_bind_int64(s, 10, (sqlite3_int64)calls);
        rfg_db_bind(db, s, 11, date);
    }
    rfg_status st = run_change(db, s, "cannot record a miss", true);
    sqlite3_exec(db->h, "PRAGMA synchronous=FULL", NULL, NULL, NULL);
    rfg_db_unlock(db);
    return st;
}

rfg_status rfg_db_each_miss(struct rfg_db *db,
                            bool (*fn)(void *ctx, const struct rfg_problem *prob, const char *arch, int cu_count,
                                       int rung, uint64_t calls, const char *last),
                            void *ctx)
{
    if (db->schema == 0)
        return RFG_OK;
    rfg_db_lock(db);
    rfg_status st = RFG_OK;
    bool more = true;
    int rc = SQLITE_DONE;
#define MISSES(names)                                                                                                  \
    "SELECT " names ", rung, calls, last FROM misses ORDER BY calls DESC, op, dtypes, attrs, N, K, M, arch, cu_count"
    sqlite3_stmt *s = rfg_db_prepare(db, db->schema < 4 ? MISSES(OLDER_NAMES) : MISSES(KEY_NAMES));
#undef MISSES
    if (!s)
        st = RFG_ERROR_DATABASE;
    while (s && more && (rc = rfg_db_step(db, s)) == SQLITE_ROW) {
        struct rfg_flat f;
        const char *column, *last = (const char *)sqlite3_column_text(s, 10);
        if (read_columns(s, RFG_KEY_COLUMNS, &f, NULL) && rfg_unflatten(&f, &column, NULL))
            more = fn(ctx, &f.row.problem, f.row.arch, f.row.cu_count, sqlite3_column_int(s, 8),
                      (uint64_t)sqlite3_column_int64(s, 9), last ? last : "");
    }
    if (st == RFG_OK && more && rc != SQLITE_DONE)
        st = rfg_db_fail(db, "cannot read the misses");
    sqlite3_finalize(s);
    rfg_db_unlock(db);
    return st;
}

rfg_status rfg_db_clear_miss(struct rfg_db *db, const struct rfg_problem *prob, const char *arch, int cu_count)
{
    rfg_db_lock(db);
    rfg_status st = run_change(db, prepare_key(db, "DELETE FROM misses WHERE " KEY_WHERE, prob, arch, cu_count),
                               "cannot clear a miss", false);
    rfg_db_unlock(db);
    return st;
}

rfg_status rfg_db_drop_predicted(struct rfg_db *db, const struct rfg_problem *prob, const char *arch, int cu_count)
{
    rfg_db_lock(db);
    rfg_status st =
        run_change(db,
                   prepare_key(db, "DELETE FROM tuned WHERE " KEY_WHERE " AND device='' AND how='predicted'", prob,
                               arch, cu_count),
                   "cannot remove a row", false);
    rfg_db_unlock(db);
    return st;
}

rfg_status rfg_db_put_failure(struct rfg_db *db, const struct rfg_problem *prob, const char *arch, int cu_count,
                              const char *config, const char *source_hash, const char *what, const char *detail)
{
    char date[24];
    rfg_date(date);
    rfg_db_lock(db);
    sqlite3_stmt *s =
        prepare_key(db,
                    "INSERT OR REPLACE INTO failures (" KEY_NAMES
                    ", config, source_hash, what, detail, date) VALUES (" KEY_VALUES ", ?9, ?10, ?11, ?12, ?13)",
                    prob, arch, cu_count);
    if (s) {
        rfg_db_bind(db, s, 9, config);
        rfg_db_bind(db, s, 10, source_hash);
        rfg_db_bind(db, s, 11, what);
        rfg_db_bind(db, s, 12, detail ? detail : "");
        rfg_db_bind(db, s, 13, date);
    }
    rfg_status st = run_change(db, s, "cannot record a failure", true);
    rfg_db_unlock(db);
    return st;
}

int rfg_db_failed(struct rfg_db *db, const struct rfg_problem *prob, const char *arch, int cu_count, const char *config,
                  const char *source_hash, char *what, size_t size)
{
    if (db->schema == 0)
        return 0;
    rfg_db_lock(db);
#define FAILURES(names)                                                                                                \
    "SELECT what FROM (SELECT " names ", config, source_hash, what FROM failures) WHERE " KEY_WHERE                    \
    " AND config=?9 AND source_hash=?10"
    sqlite3_stmt *s =
        prepare_key(db, db->schema < 4 ? FAILURES(OLDER_NAMES) : FAILURES(KEY_NAMES), prob, arch, cu_count);
#undef FAILURES
    int found = -1;
    if (s) {
        rfg_db_bind(db, s, 9, config);
        rfg_db_bind(db, s, 10, source_hash);
        int rc = rfg_db_step(db, s);
        const char *text = rc == SQLITE_ROW ? (const char *)sqlite3_column_text(s, 0) : NULL;
        found = rc == SQLITE_ROW ? 1 : rc == SQLITE_DONE ? 0 : -1;
        if (found == 1 && what && size)
            snprintf(what, size, "%s", text ? text : "");
        if (found < 0)
            rfg_db_fail(db, "cannot read a failure");
    }
    sqlite3_finalize(s);
    rfg_db_unlock(db);
    return found;
}
