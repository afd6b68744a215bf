/* SPDX-License-Identifier: MIT */
#include "tune_case.h"

#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/util.h"

char dir[256], db_path[300], csv_path[300];
struct rfg_device dev;
char *out, *err;

/* How candidates misbehave (tuner/tune/measure.c). Times are steady unless `how` says otherwise: this machine may be
 * busy. */
void misbehave(const char *how)
{
    char *text = rfg_asprintf("%s;%s", how, strstr(how, "noisy") ? "" : "steady:gemm;steady:comm");
    setenv("RFG_TEST_MEASURE", text, 1);
    free(text);
}

/* Everything in a directory of its own; two threads and no instruction sets, so that candidates are the same
 * everywhere. */
void setup(void)
{
    snprintf(dir, sizeof(dir), "%s/rfg-test-tune-XXXXXX", rfg_env("TMPDIR") ? rfg_env("TMPDIR") : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(db_path, sizeof(db_path), "%s/t.db", dir);
    snprintf(csv_path, sizeof(csv_path), "%s/shapes.csv", dir);
    setenv("HOME", dir, 1);
    setenv("XDG_DATA_HOME", dir, 1);
    setenv("RFG_CACHE_DIR", dir, 1);
    setenv("RFG_CPU_ISA", "portable", 1);
    setenv("RFG_THREADS", "2", 1);
    setenv("RFG_DEVICE", "cpu", 1);
    unsetenv("RFG_DB");
    unsetenv("RFG_VARIANTS");
    unsetenv("RFG_LOG");
    misbehave("");
    unsetenv("RFG_TEST_MEASURE_TIMEOUT");
    rfg_device_cpu(&dev, 2);
}

void teardown(void)
{
    char cmd[300];
    snprintf(cmd, sizeof(cmd), "rm -rf '%s'", dir);
    ck_assert_int_eq(system(cmd), 0);
}

/* ---- running it ------------------------------------------------------------------------------------------------- */

pid_t start(const char *const *args)
{
    char path[512], out_path[300], err_path[300];
    const char *bin = rfg_env("RFG_BINDIR"), *argv[32] = { "rfg-tune" };
    int n = 1;
    snprintf(path, sizeof(path), "%s/rfg-tune", bin ? bin : "build/bin");
    snprintf(out_path, sizeof(out_path), "%s/out", dir);
    snprintf(err_path, sizeof(err_path), "%s/err", dir);
    while (*args && n < 31)
        argv[n++] = *args++;
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        int o = open(out_path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
        int e = open(err_path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
        if (dup2(o, 1) < 0 || dup2(e, 2) < 0)
            _exit(99);
        execv(path, (char *const *)(uintptr_t)argv);
        fprintf(stderr, "can't run %s\n", path);
        _exit(99);
    }
    return pid;
}

/* The exit status, or -signal. */
int finish(pid_t pid)
{
    char path[300];
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    free(out);
    free(err);
    snprintf(path, sizeof(path), "%s/out", dir);
    out = rfg_read_file(path, NULL);
    snprintf(path, sizeof(path), "%s/err", dir);
    err = rfg_read_file(path, NULL);
    ck_assert(out && err);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    ck_assert_int_eq(fclose(f), 0);
}

void nap(double s)
{
    nanosleep(&(struct timespec){ (time_t)s, (long)((s - (double)(time_t)s) * 1e9) }, NULL);
}

/* ---- the database ------------------------------------------------------------------------------------------------ */

struct rfg_problem problem(const char *text)
{
    struct rfg_problem p;
    struct rfg_reason why;
    ck_assert_msg(rfg_problem_parse(&p, text, &why), "%s", why.text);
    return p;
}

struct rfg_db *open_db(enum rfg_db_mode mode)
{
    struct rfg_db *db;
    ck_assert_msg(rfg_db_open(&db, db_path, mode) == RFG_OK, "%s", rfg_last_error());
    return db;
}

int get_row(const char *text, struct rfg_row *row)
{
    struct rfg_problem p = problem(text);
    struct rfg_db *db = open_db(RFG_DB_READ);
    int found = rfg_db_get(db, &p, dev.arch, dev.cu_count, NULL, row);
    rfg_db_close(&db);
    return found;
}

static bool collect(void *ctx, const struct rfg_row *row, const char *bad)
{
    char text[RFG_PROBLEM_STRLEN], *keys = ctx;
    ck_assert_msg(!bad, "%s", bad);
    rfg_problem_format(&row->problem, text, sizeof(text));
    ck_assert_uint_lt(strlen(keys) + strlen(text) + 2, 8192);
    strcat(strcat(keys, text), "\n");
    return true;
}

/* All problem strings, in the database's stable order. */
char *all_keys(char keys[8192])
{
    struct rfg_db *db = open_db(RFG_DB_READ);
    keys[0] = 0;
    ck_assert_int_eq(rfg_db_each(db, NULL, collect, keys), RFG_OK);
    rfg_db_close(&db);
    return keys;
}

void check_integrity(void)
{
    sqlite3 *s;
    sqlite3_stmt *q;
    ck_assert_int_eq(sqlite3_open_v2(db_path, &s, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    ck_assert_int_eq(sqlite3_prepare_v2(s, "PRAGMA integrity_check", -1, &q, NULL), SQLITE_OK);
    ck_assert_int_eq(sqlite3_step(q), SQLITE_ROW);
    ck_assert_str_eq((const char *)sqlite3_column_text(q, 0), "ok");
    sqlite3_finalize(q);
    sqlite3_close(s);
}

int count_failures(void)
{
    sqlite3 *h;
    sqlite3_stmt *q;
    ck_assert_int_eq(sqlite3_open_v2(db_path, &h, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    ck_assert_int_eq(sqlite3_prepare_v2(h, "SELECT count(*) FROM failures", -1, &q, NULL), SQLITE_OK);
    ck_assert_int_eq(sqlite3_step(q), SQLITE_ROW);
    int n = sqlite3_column_int(q, 0);
    sqlite3_finalize(q);
    sqlite3_close(h);
    return n;
}
