/* SPDX-License-Identifier: MIT */
#include "db_case.h"

#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

char dir[24], path[64];

void setup(void)
{
    strcpy(dir, "/tmp/rfg-db-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/t.db", dir);
}

void teardown(void)
{
    char cmd[128];
    snprintf(cmd, sizeof(cmd), "chmod -R u+w %s; rm -rf %s", dir, dir);
    ck_assert_int_eq(system(cmd), 0);
}

int shell(const char *fmt, ...)
{
    char cmd[1000];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(cmd, sizeof(cmd), fmt, ap);
    va_end(ap);
    int rc = system(cmd);
    return WIFEXITED(rc) ? WEXITSTATUS(rc) : -1;
}

struct rfg_problem problem(const char *text)
{
    struct rfg_problem p;
    struct rfg_reason why;
    ck_assert_msg(rfg_problem_parse(&p, text, &why), "%s: %s", text, why.text);
    return p;
}

struct rfg_problem gemm(int m, int n)
{
    char text[100];
    snprintf(text, sizeof(text), "gemm bf16,bf16->bf16 M=%d N=%d K=64", m, n);
    return problem(text);
}

struct rfg_row make(struct rfg_problem prob, const char *arch, int cus, double us, enum rfg_source how)
{
    struct rfg_row r;
    int p[RFG_MAX_PARAMS];
    memset(&r, 0, sizeof(r));
    r = (struct rfg_row){ .cu_count = cus,
                          .variant = "gemm_cpu_portable",
                          .median_us = us,
                          .spread_us = us / 3,
                          .samples = 11,
                          .error = 0.1,
                          .error_bound = 1,
                          .default_us = us * 2,
                          .vendor_us = us * 0.7,
                          .source_hash = "abc",
                          .code_hash = "def",
                          .compiler = "gcc 12, \"quoted\", #1",
                          .driver = " x ",
                          .version = RFG_VERSION,
                          .date = "2026-11-21T03:40:00Z",
                          .device = "cpu",
                          .seed = UINT64_MAX - 3,
                          .how = how };
    snprintf(r.arch, sizeof(r.arch), "%s", arch);
    r.problem = prob;
    for (int i = 0; i < gemm_cpu_portable.n_params; i++)
        p[i] = gemm_cpu_portable.params[i].values[i % gemm_cpu_portable.params[i].n];
    rfg_params_json(&gemm_cpu_portable, p, r.params, sizeof(r.params));
    return r;
}

struct rfg_db *open_db(const char *p, enum rfg_db_mode mode)
{
    struct rfg_db *db;
    OK(rfg_db_open(&db, p, mode));
    return db;
}

void put(const char *p, struct rfg_row r)
{
    struct rfg_db *db = open_db(p, RFG_DB_WRITE);
    OK(rfg_db_put(db, &r));
    rfg_db_close(&db);
}

size_t count_all(struct rfg_db *db)
{
    struct rfg_row *rows;
    size_t n;
    OK(rfg_db_all(db, NULL, &rows, &n, NULL, NULL));
    free(rows);
    return n;
}

size_t count(const char *p)
{
    struct rfg_db *db = open_db(p, RFG_DB_READ);
    size_t n = count_all(db);
    rfg_db_close(&db);
    return n;
}

void sql(const char *p, const char *text)
{
    sqlite3 *h;
    char *error = NULL;
    ck_assert_int_eq(sqlite3_open(p, &h), SQLITE_OK);
    sqlite3_busy_timeout(h, 5000);
    sqlite3_exec(h, text, NULL, NULL, &error);
    ck_assert_msg(!error, "%s: %s", text, error);
    sqlite3_close(h);
}

static void print_finding(void *ctx, const char *finding)
{
    (void)ctx;
    printf("%s\n", finding);
}

void assert_sound(const char *p)
{
    struct rfg_db *db = open_db(p, RFG_DB_READ);
    ck_assert_int_eq(rfg_db_integrity(db, print_finding, NULL), 0);
    rfg_db_close(&db);
}

bool see_miss(void *ctx, const struct rfg_problem *prob, const char *arch, int cu_count, int rung, uint64_t calls,
              const char *last)
{
    char *at = ctx;
    sprintf(at + strlen(at), "M%d %s %d r%d x%d;", (int)prob->v[GEMM_M], arch, cu_count, rung, (int)calls);
    return *last == '2';
}

/* %s is the file of 200 rows. */
static const char *const damages[] = {
    "truncate -s 5000 %s",
    "head -c 9000 /dev/urandom | dd of=%s bs=1 seek=100 conv=notrunc status=none",
    "head -c 4096 /dev/urandom | dd of=%s bs=4096 seek=4 conv=notrunc status=none",
    "head -c 40 /dev/zero | dd of=%s bs=1 seek=4096 conv=notrunc status=none",
    "truncate -s 100 %s",
    "truncate -s 16384 %s && truncate -s 200000 %s",
};
const int n_damages = sizeof(damages) / sizeof(damages[0]);

void make_damaged(int kind)
{
    struct rfg_row rows[200];
    struct rfg_db *db = open_db(path, RFG_DB_WRITE);
    for (int i = 0; i < 200; i++)
        rows[i] = make(gemm(1 + i, 2), "a", 1, 1, RFG_SOURCE_MEASURED);
    OK(rfg_db_put_all(db, rows, 200, NULL));
    OK(rfg_db_seal(db));
    rfg_db_close(&db);
    ck_assert_int_eq(shell(damages[kind], path, path), 0);
    ck_assert_int_eq(shell("cp %s %s/damaged", path, dir), 0);
}
