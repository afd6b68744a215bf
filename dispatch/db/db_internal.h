/* SPDX-License-Identifier: MIT
 *
 * What the files of dispatch/db, rfg-db and their tests share below db.h. */
#ifndef RFG_DISPATCH_DB_INTERNAL_H
#define RFG_DISPATCH_DB_INTERNAL_H

#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>

#include "db.h"

/* A macro's value as text. */
#define RFG_DB_STR2(x) #x
#define RFG_DB_STR(x)  RFG_DB_STR2(x)

/* ---- a connection -------------------------------------------------------------------------------------------- */

struct rfg_db {
    sqlite3 *h;
    char *path;
    enum rfg_db_mode mode;
    int schema;           /* of the file; 0: nothing in it */
    bool ours;            /* the file itself has SQLite's header and our application id */
    bool labelled;        /* so says SQLite, which reads the log too */
    double give_up_at;    /* waiting for another process's lock */
    double spent;         /* that SQLite ran for the operation, in seconds */
    double stop_at;       /* what SQLite runs now */
    bool unbound;         /* a statement of this operation lacks a text, for want of memory */
    int claims;           /* a descriptor of the file, on whose claims are locks; -1: none yet */
    pthread_mutex_t lock; /* recursive: a callback of rfg_db_each() may write to the same database */
    struct rfg_db *next;  /* of those that are open (fork()) */
    pthread_t opener;
};

/* db_fork.c. An open one, from its beginning to its end. */
void rfg_db_watch(struct rfg_db *db);
void rfg_db_unwatch(struct rfg_db *db);
/* The thread's error from the connection's: "PATH: what: why". */
rfg_status rfg_db_fail(const struct rfg_db *db, const char *what);
rfg_status rfg_db_begin(struct rfg_db *db);
/* Commits if st is RFG_OK, else rolls back and passes st on. */
rfg_status rfg_db_finish(struct rfg_db *db, rfg_status st);
/* NULL with the error set. */
sqlite3_stmt *rfg_db_prepare(struct rfg_db *db, const char *sql);
/* sqlite3_bind_text(). Where it fails, no step is run until the next operation. */
void rfg_db_bind(struct rfg_db *db, sqlite3_stmt *s, int i, const char *text);
/* sqlite3_step(), which ends with SQLITE_INTERRUPT if it runs for too long. */
int rfg_db_step(struct rfg_db *db, sqlite3_stmt *s);
/* Begins every operation: from here on, others' locks are waited for no longer than the mode says. */
void rfg_db_lock(struct rfg_db *db);
void rfg_db_unlock(struct rfg_db *db);
/* Unless there is something already: EEXIST. */
bool rfg_rename_new(const char *from, const char *to);

/* ---- columns ------------------------------------------------------------------------------------------------- */

/* A row as it lies in a table or a text file: the problem taken apart. attrs also holds the sizes that have no column
 * of their own. */
struct rfg_flat {
    char op[32], dtypes[64], attrs[RFG_PROBLEM_STRLEN];
    int64_t size[3]; /* M, N, K; 0 where the op has no such key */
    struct rfg_row row;
};

enum rfg_column_type {
    RFG_COLUMN_TEXT,
    RFG_COLUMN_INT, /* int */
    RFG_COLUMN_I64,
    RFG_COLUMN_U64, /* SQLite keeps its bits as a signed integer */
    RFG_COLUMN_REAL,
    RFG_COLUMN_HOW, /* enum rfg_source by name */
};

/* The one list of columns: tables, text files and listings all follow it. The first eight are the primary key of misses
 * and failures; of tuned rows that is these and the device. */
struct rfg_column {
    const char *name;
    enum rfg_column_type type;
    size_t offset, size; /* in struct rfg_flat */
};
#define RFG_KEY_COLUMNS 8
#define RFG_N_COLUMNS   27
extern const struct rfg_column rfg_columns[RFG_N_COLUMNS];

/* Before schema 3 a row's device was the name that it was opened by ("nvidia:0", "gfx942:304", "cpu"): makes it "". */
void rfg_forget_opened_name(char *device);
#define RFG_DB_OLD_DEVICE "CASE WHEN device = 'cpu' OR instr(device, ':') THEN '' ELSE device END" /* the same */

void rfg_flatten(const struct rfg_row *row, struct rfg_flat *f);
/* Fills f->row.problem from the text; else row.problem.op is NULL, and column and why say what is wrong. */
bool rfg_unflatten(struct rfg_flat *f, const char **column, struct rfg_reason *why);
/* The text of one column; doubles read back as the same bits. Returns buf. */
char *rfg_column_format(const struct rfg_flat *f, int column, char *buf, size_t size);
bool rfg_column_parse(struct rfg_flat *f, int column, const char *text, struct rfg_reason *why);

/* Sets keys from "bias=1 B=32"; refuses those that have a column (M, N, K) and LAYOUT keys. */
bool rfg_problem_set_attrs(struct rfg_problem *p, const char *attrs, struct rfg_reason *why);

/* Are the figures plausible: finite, not negative, an error within its bound? What rfg_db_put() insists on. */
bool rfg_row_check(const struct rfg_row *row, const char **column, struct rfg_reason *why);

/* db_older.c. The problem of a row of schema 3 or older, as it is said now; in SQL, of the columns op and attrs. False:
 * it has no room. */
bool rfg_db_attrs_of_3(const char *op, const char *attrs, char *out, size_t size);
#define RFG_DB_ATTRS_OF_3 "rfg_attrs_of_3(op, attrs)"
int rfg_db_add_functions(sqlite3 *h);

/* ---- files --------------------------------------------------------------------------------------------------- */

/* Several rows in one transaction. written: how many were stored (for the others a row with a better `how` is there);
 * may be NULL. */
rfg_status rfg_db_put_all(struct rfg_db *db, const struct rfg_row *rows, size_t n, int *written);

/* Every row, in an array to free(). bad is called for those that can't be understood; may be NULL. */
rfg_status rfg_db_all(struct rfg_db *db, const char *arch, struct rfg_row **rows, size_t *n,
                      void (*bad)(void *ctx, const struct rfg_row *row, const char *why), void *ctx);

/* Leaves the write-ahead log: one self-contained file that can be read from a read-only directory. */
rfg_status rfg_db_seal(struct rfg_db *db);

/* PRAGMA integrity_check; say hears each finding. Returns their number, -1 on an error. */
int rfg_db_integrity(struct rfg_db *db, void (*say)(void *ctx, const char *finding), void *ctx);

/* PRAGMA user_version: 0 for a file that was never written to. */
int rfg_db_schema(const struct rfg_db *db);

/* The rows of several text files, to free(): all or nothing. */
rfg_status rfg_db_read_files(const char *const *paths, int n, bool keep_how, struct rfg_row **rows, size_t *n_rows);

/* The rows of one such text in a stream; name is for messages. */
rfg_status rfg_db_read_rows(FILE *f, const char *name, struct rfg_row **rows, size_t *n_rows);
/* Writes them there; ferror() tells. */
void rfg_db_write_rows(FILE *f, const struct rfg_row *rows, size_t n);

/* Rows as a text file, in the order given. path NULL: stdout. A file is replaced as a whole, or stays. */
rfg_status rfg_db_write_csv(const struct rfg_row *rows, size_t n, const char *path);

/* The directory of the system databases: $RFG_SYSTEM_DB if that is one, else the installed share/rfg. malloc'ed; NULL
 * if RFG_SYSTEM_DB names a file. */
char *rfg_db_system_dir(void);

/* ---- CSV ----------------------------------------------------------------------------------------------------- */

#define RFG_CSV_FIELDS 64
#define RFG_MAX_LINE   65536

/* The next line without its end, as far as there is room in RFG_MAX_LINE bytes; no NUL follows. Its length, -1 at the
 * end of the file. */
long rfg_next_line(FILE *f, char *line, bool *too_long);

/* Reads path with libcsv, one line a record, of at most 64 KiB; '#' lines and blank ones are skipped, a byte order mark
 * and CRLF are fine. The first call is the header. bad: why the line is malformed (field is then empty), else NULL. fn
 * false stops with its own error set. Errors: RFG_ERROR_IO, RFG_ERROR_OUT_OF_MEMORY. */
typedef rfg_status (*rfg_csv_fn)(void *ctx, int line, int n, char *const *field, const char *bad);
rfg_status rfg_csv_read(const char *path, rfg_csv_fn fn, void *ctx);
/* The same of an open stream, which stays open; path is for messages. */
rfg_status rfg_csv_read_stream(FILE *f, const char *path, rfg_csv_fn fn, void *ctx);

#endif
