/* SPDX-License-Identifier: MIT
 *
 * Snapshots: the row that each rung of the ladder gets, compared with a plain search through all rows. */
#include <math.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dispatch/context.h"
#include "dispatch/db/db_internal.h"
#include "base/util.h"
#include "ops/gemm/gemm.h"
#include "tests/suite.h"

static char dir[32], user[64], sys[64];

static void setup(void)
{
    strcpy(dir, "/tmp/rfg-snap-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(user, sizeof(user), "%s/user.db", dir);
    snprintf(sys, sizeof(sys), "%s/system.db", dir);
}

static void teardown(void)
{
    char cmd[100];
    snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
    ck_assert_int_eq(system(cmd), 0);
}

static struct rfg_problem gemm(int m, int n)
{
    struct rfg_problem p;
    rfg_problem_init(&p, &rfg_op_gemm_desc);
    p.dtype[0] = p.dtype[1] = p.dtype[2] = RFG_BF16;
    p.v[GEMM_M] = m;
    p.v[GEMM_N] = n;
    p.v[GEMM_K] = 7168;
    return p;
}

static struct rfg_row make(int m, int n, const char *arch, int cus, double us, enum rfg_source how)
{
    struct rfg_row r = {
        .problem = gemm(m, n), .cu_count = cus, .variant = "v", .params = "{}", .median_us = us, .how = how
    };
    snprintf(r.arch, sizeof(r.arch), "%s", arch);
    return r;
}

static void put(const char *path, const struct rfg_row *rows, size_t n)
{
    struct rfg_db *db;
    ck_assert_msg(rfg_db_open(&db, path, RFG_DB_WRITE) == RFG_OK, "%s", rfg_last_error());
    ck_assert_msg(rfg_db_put_all(db, rows, n, NULL) == RFG_OK, "%s", rfg_last_error());
    rfg_db_close(&db);
}

static double exact(const struct rfg_snapshot *s, int m, int n, int cus)
{
    struct rfg_problem p = gemm(m, n);
    const struct rfg_row *r = rfg_snapshot_exact(s, &p, cus);
    return r ? r->median_us : -1;
}

/* "4 16 2 ": the Ms, in the order given */
static char *order(const struct rfg_snapshot *s, int m, int cus, bool others, char *buf)
{
    struct rfg_problem p = gemm(m, 32);
    const struct rfg_row *r;
    *buf = 0;
    for (int i = 0; i < 50; i++) {
        r = others ? rfg_snapshot_other_cus(s, &p, cus, i) : rfg_snapshot_nearest(s, &p, cus, i);
        if (!r)
            return buf;
        if (others)
            sprintf(buf + strlen(buf), "%d:%d ", r->cu_count, (int)r->problem.v[GEMM_M]);
        else
            sprintf(buf + strlen(buf), "%d ", (int)r->problem.v[GEMM_M]);
    }
    return buf;
}

static struct rfg_snapshot *load(const char *user_path, const char *system_path, const char *arch, const char *device)
{
    struct rfg_db *db = rfg_db_open_to_read(user_path, true);
    struct rfg_snapshot *s = rfg_snapshot_load(db, system_path, arch, device);
    rfg_db_close(&db);
    return s;
}

START_TEST(exact_rows)
{
    struct rfg_row rows[] = { make(1, 32, "a", 4, 1, RFG_SOURCE_MEASURED), make(2, 32, "a", 4, 2, RFG_SOURCE_MEASURED),
                              make(1, 32, "a", 8, 3, RFG_SOURCE_MEASURED),
                              make(1, 32, "b", 4, 4, RFG_SOURCE_MEASURED) };
    put(user, rows, 4);
    struct rfg_snapshot *s = load(user, "", "a", "");
    ck_assert_uint_eq(rfg_snapshot_rows(s), 3);
    ck_assert_double_eq(exact(s, 1, 32, 4), 1);
    ck_assert_double_eq(exact(s, 2, 32, 4), 2);
    ck_assert_double_eq(exact(s, 1, 32, 8), 3);
    ck_assert_double_eq(exact(s, 1, 32, 9), -1);
    ck_assert_double_eq(exact(s, 1, 33, 4), -1);
    struct rfg_problem p = gemm(1, 32);
    p.v[GEMM_BIAS] = 1;
    ck_assert_ptr_null(rfg_snapshot_exact(s, &p, 4));
    p = gemm(1, 32);
    p.dtype[2] = RFG_F32;
    ck_assert_ptr_null(rfg_snapshot_exact(s, &p, 4));
    rfg_snapshot_free(&s);
    ck_assert_ptr_null(s);
}
END_TEST

START_TEST(nearest_m)
{
    struct rfg_row rows[] = { make(4, 32, "a", 4, 1, RFG_SOURCE_MEASURED), make(16, 32, "a", 4, 1, RFG_SOURCE_MEASURED),
                              make(64, 32, "a", 4, 1, RFG_SOURCE_MEASURED), make(9, 33, "a", 4, 1, RFG_SOURCE_MEASURED),
                              make(9, 32, "a", 5, 1, RFG_SOURCE_MEASURED) };
    char buf[500];
    put(user, rows, 5);
    struct rfg_snapshot *s = load(user, "", "a", "");
    ck_assert_str_eq(order(s, 8, 4, false, buf), "4 16 64 "); /* 8/4 = 16/8: the smaller */
    ck_assert_str_eq(order(s, 9, 4, false, buf), "16 4 64 ");
    ck_assert_str_eq(order(s, 7, 4, false, buf), "4 16 64 ");
    ck_assert_str_eq(order(s, 16, 4, false, buf), "4 64 "); /* itself is rung 1's; a tie again */
    ck_assert_str_eq(order(s, 1, 4, false, buf), "4 16 64 ");
    ck_assert_str_eq(order(s, 2147483647, 4, false, buf), "64 16 4 ");
    ck_assert_str_eq(order(s, 0, 4, false, buf), "4 16 64 ");
    ck_assert_str_eq(order(s, 8, 6, false, buf), "");
    rfg_snapshot_free(&s);
}
END_TEST

START_TEST(other_cu_counts)
{
    struct rfg_row rows[] = {
        make(8, 32, "a", 104, 1, RFG_SOURCE_MEASURED), make(4, 32, "a", 96, 1, RFG_SOURCE_MEASURED),
        make(16, 32, "a", 96, 1, RFG_SOURCE_MEASURED), make(8, 32, "a", 96, 1, RFG_SOURCE_MEASURED),
        make(8, 32, "a", 304, 1, RFG_SOURCE_MEASURED), make(8, 32, "a", 100, 1, RFG_SOURCE_MEASURED),
        make(8, 31, "a", 99, 1, RFG_SOURCE_MEASURED)
    };
    char buf[500];
    put(user, rows, 7);
    struct rfg_snapshot *s = load(user, "", "a", "");
    ck_assert_str_eq(order(s, 8, 100, true, buf), "96:8 96:4 96:16 104:8 304:8 "); /* 96 and 104 tie: the smaller */
    ck_assert_str_eq(order(s, 15, 101, true, buf), "100:8 104:8 96:16 96:8 96:4 304:8 ");
    ck_assert_str_eq(order(s, 8, 1000, true, buf), "304:8 104:8 100:8 96:8 96:4 96:16 ");
    ck_assert_str_eq(order(s, 8, 1, true, buf), "96:8 96:4 96:16 100:8 104:8 304:8 ");
    rfg_snapshot_free(&s);
}
END_TEST

START_TEST(who_wins)
{
    static const struct {
        enum rfg_source user, system;
        double expect; /* 1: the user's */
    } t[] = { { RFG_SOURCE_MEASURED, RFG_SOURCE_MEASURED, 1 },    { RFG_SOURCE_IMPORTED, RFG_SOURCE_MEASURED, 1 },
              { RFG_SOURCE_PREDICTED, RFG_SOURCE_MEASURED, 2 },   { RFG_SOURCE_PREDICTED, RFG_SOURCE_IMPORTED, 2 },
              { RFG_SOURCE_PREDICTED, RFG_SOURCE_PREDICTED, 1 },  { RFG_SOURCE_MEASURED, RFG_SOURCE_PREDICTED, 1 },
              { RFG_SOURCE_PROVISIONAL, RFG_SOURCE_MEASURED, 2 }, { RFG_SOURCE_PROVISIONAL, RFG_SOURCE_IMPORTED, 2 },
              { RFG_SOURCE_PROVISIONAL, RFG_SOURCE_PREDICTED, 1 } };
    struct rfg_row u = make(1, 32, "a", 4, 1, t[_i].user),
                   y[] = { make(1, 32, "a", 4, 2, t[_i].system), make(2, 32, "a", 4, 3, t[_i].system) };
    put(user, &u, 1);
    put(sys, y, 2);
    struct rfg_snapshot *s = load(user, sys, "a", "");
    ck_assert_uint_eq(rfg_snapshot_rows(s), 2);
    ck_assert_double_eq(exact(s, 1, 32, 4), t[_i].expect);
    ck_assert_double_eq(exact(s, 2, 32, 4), 3);
    rfg_snapshot_free(&s);
}
END_TEST

/* Of two siblings' rows for one problem each device has its own; what is known to be measured ranks first
 * all the same. */
START_TEST(siblings)
{
    static const struct {
        const char *device, *user, *system; /* whose rows there are */
        enum rfg_source how_user, how_system;
        double expect; /* 1: the user's */
    } t[] = { { "MI300X", "MI325X", "MI300X", RFG_SOURCE_MEASURED, RFG_SOURCE_MEASURED, 2 },
              { "MI325X", "MI325X", "MI300X", RFG_SOURCE_MEASURED, RFG_SOURCE_MEASURED, 1 },
              { "MI325X", "MI300X", "MI325X", RFG_SOURCE_MEASURED, RFG_SOURCE_IMPORTED, 2 },
              { "MI325X", "MI300X", "", RFG_SOURCE_MEASURED, RFG_SOURCE_MEASURED, 2 },
              { "MI325X", "", "MI325X", RFG_SOURCE_MEASURED, RFG_SOURCE_MEASURED, 2 },
              { "MI325X", "MI300X", "MI325X", RFG_SOURCE_MEASURED, RFG_SOURCE_PREDICTED, 1 },
              { "MI325X", "MI300X", "MI325X", RFG_SOURCE_MEASURED, RFG_SOURCE_PROVISIONAL, 1 },
              { "MI325X", "MI300X", "MI325X", RFG_SOURCE_PREDICTED, RFG_SOURCE_PREDICTED, 2 },
              { "MI300A", "MI300X", "MI325X", RFG_SOURCE_IMPORTED, RFG_SOURCE_MEASURED, 1 },
              { "", "MI300X", "", RFG_SOURCE_MEASURED, RFG_SOURCE_MEASURED, 1 } };
    struct rfg_row u = make(1, 32, "a", 4, 1, t[_i].how_user), y = make(1, 32, "a", 4, 2, t[_i].how_system);
    strcpy(u.device, t[_i].user);
    strcpy(y.device, t[_i].system);
    put(user, &u, 1);
    put(sys, &y, 1);
    struct rfg_snapshot *s = load(user, sys, "a", t[_i].device);
    ck_assert_uint_eq(rfg_snapshot_rows(s), 1);
    ck_assert_double_eq(exact(s, 1, 32, 4), t[_i].expect);
    rfg_snapshot_free(&s);
    /* In one file they lie beside each other. */
    put(user, &y, 1);
    s = load(user, "", "a", t[_i].device);
    ck_assert_double_eq(exact(s, 1, 32, 4), *t[_i].device && _i != 8 ? t[_i].expect : exact(s, 1, 32, 4));
    int names = (*u.device != 0) + (*y.device && strcmp(y.device, u.device));
    ck_assert_ptr_null(rfg_snapshot_device(s, 4, names));
    ck_assert(!names || rfg_snapshot_device(s, 4, names - 1));
    ck_assert_ptr_null(rfg_snapshot_device(s, 5, 0));
    rfg_snapshot_free(&s);
}
END_TEST

/* Of every two rows for one problem, by what each says of itself. */
START_TEST(every_pair)
{
    enum { DEVICES = 3, HOWS = 4, KINDS = 2 * DEVICES * HOWS };
    static const char *const devices[DEVICES] = { "MI300X", "", "MI325X" }; /* the own one, not known, a sibling */
    static const enum rfg_source hows[HOWS] = { RFG_SOURCE_MEASURED, RFG_SOURCE_IMPORTED, RFG_SOURCE_PREDICTED,
                                                RFG_SOURCE_PROVISIONAL };
    static struct rfg_row rows[2][KINDS * KINDS];
    size_t n[2] = { 0, 0 };
    for (int i = 0; i < KINDS * KINDS; i++)
        for (int k = 0; k < 2; k++) {
            int kind = k ? i % KINDS : i / KINDS, file = kind / (DEVICES * HOWS), device = kind / HOWS % DEVICES;
            struct rfg_row r = make(1 + i, 32, "a", 4, 1 + k, hows[kind % HOWS]);
            strcpy(r.device, devices[device]);
            rows[file][n[file]++] = r;
        }
    put(user, rows[0], n[0]);
    put(sys, rows[1], n[1]);
    struct rfg_snapshot *s = load(user, sys, "a", devices[0]);
    for (int i = 0; i < KINDS * KINDS; i++) {
        int rank[2], place[2];
        for (int k = 0; k < 2; k++) {
            int kind = k ? i % KINDS : i / KINDS;
            /* What was only predicted, or provisional, comes last; then whose device, whose file it is. */
            rank[k] = (kind % HOWS > 1) * 100 + kind / HOWS % DEVICES * 10 + kind / (DEVICES * HOWS) * 5;
            place[k] = kind / HOWS;
        }
        if (place[0] == place[1]) /* one row in a file: which stays is test_db.c's */
            continue;
        ck_assert_msg(exact(s, 1 + i, 32, 4) == (rank[0] < rank[1] ? 1 : 2), "%d and %d: %g", i / KINDS, i % KINDS,
                      exact(s, 1 + i, 32, 4));
    }
    rfg_snapshot_free(&s);
}
END_TEST

static int warnings(const char *log)
{
    char cmd[200];
    fflush(stderr);
    snprintf(cmd, sizeof(cmd), "exit $(grep -c 'rfg: warning' %s)", log);
    int rc = system(cmd);
    return WEXITSTATUS(rc);
}

START_TEST(unreadable_files_are_a_warning)
{
    char log[64], cmd[300];
    struct rfg_row r = make(1, 32, "a", 4, 1, RFG_SOURCE_MEASURED);
    snprintf(log, sizeof(log), "%s/log", dir);
    ck_assert_ptr_nonnull(freopen(log, "w", stderr));
    struct rfg_snapshot *s = load(user, "", "a", ""); /* none before the first tuning: nothing to say */
    ck_assert_uint_eq(rfg_snapshot_rows(s), 0);
    ck_assert_double_eq(exact(s, 1, 32, 4), -1);
    rfg_snapshot_free(&s);
    ck_assert_int_eq(warnings(log), 0);

    put(user, &r, 1);
    s = load(user, sys, "a", "");
    ck_assert_double_eq(exact(s, 1, 32, 4), 1);
    rfg_snapshot_free(&s);
    ck_assert_int_eq(warnings(log), 1); /* a system file that was named but isn't there */

    snprintf(cmd, sizeof(cmd), "head -c 9000 /dev/urandom > %s; cp %s %s.before", sys, sys, sys);
    ck_assert_int_eq(system(cmd), 0);
    s = load(user, sys, "a", "");
    ck_assert_double_eq(exact(s, 1, 32, 4), 1);
    rfg_snapshot_free(&s);
    ck_assert_int_eq(warnings(log), 2);
    snprintf(cmd, sizeof(cmd), "cmp %s %s.before", sys, sys);
    ck_assert_int_eq(system(cmd), 0);
}
END_TEST

/* ---- against a plain search -------------------------------------------------------------------------------------- */

#define N_ROWS 3000
static struct rfg_row many[N_ROWS];
static size_t n_many;

static unsigned next_random(unsigned *state)
{
    return *state = *state * 1664525u + 1013904223u;
}

static void make_many(void)
{
    unsigned x = 1;
    for (int i = 0; i < N_ROWS; i++) {
        int m = 1 + (int)(next_random(&x) >> 8) % 300, n = 1 + (int)(next_random(&x) >> 8) % 12;
        int cus = 1 + (int)(next_random(&x) >> 8) % 6;
        bool there = false;
        for (size_t k = 0; k < n_many && !there; k++)
            there = many[k].problem.v[GEMM_M] == m && many[k].problem.v[GEMM_N] == n && many[k].cu_count == cus;
        if (!there)
            many[n_many++] = make(m, n, "a", cus, i + 1, RFG_SOURCE_MEASURED);
    }
}

/* Is a to be offered before b? */
static bool before(const struct rfg_row *a, const struct rfg_row *b, int m, int cus)
{
    int da = abs(a->cu_count - cus), db = abs(b->cu_count - cus);
    if (da != db)
        return da < db;
    if (a->cu_count != b->cu_count)
        return a->cu_count < b->cu_count;
    double ma = (double)a->problem.v[GEMM_M], mb = (double)b->problem.v[GEMM_M];
    double la = fabs(log2(ma / m)), lb = fabs(log2(mb / m));
    return fabs(la - lb) > 1e-12 ? la < lb : ma < mb;
}

static void check_order(const struct rfg_snapshot *s, const struct rfg_problem *p, int cus, bool others)
{
    const struct rfg_row *last = NULL, *r;
    int m = (int)p->v[GEMM_M], n = 0, expect = 0;
    for (size_t k = 0; k < n_many; k++) {
        const struct rfg_row *row = &many[k];
        if (row->problem.v[GEMM_N] == p->v[GEMM_N])
            expect += others ? row->cu_count != cus : row->cu_count == cus && row->problem.v[GEMM_M] != m;
    }
    while ((r = others ? rfg_snapshot_other_cus(s, p, cus, n) : rfg_snapshot_nearest(s, p, cus, n))) {
        ck_assert_int_eq(r->problem.v[GEMM_N], p->v[GEMM_N]);
        ck_assert(others == (r->cu_count != cus));
        ck_assert(!last || before(last, r, m, cus));
        last = r;
        n++;
    }
    ck_assert_int_eq(n, expect);
}

START_TEST(as_a_plain_search_says)
{
    unsigned x = 7;
    make_many();
    put(user, many, n_many);
    struct rfg_snapshot *s = load(user, "", "a", "");
    ck_assert_uint_eq(rfg_snapshot_rows(s), n_many);
    for (size_t i = 0; i < n_many; i++)
        ck_assert_double_eq(exact(s, (int)many[i].problem.v[GEMM_M], (int)many[i].problem.v[GEMM_N], many[i].cu_count),
                            many[i].median_us);
    for (int i = 0; i < 300; i++) {
        struct rfg_problem p = gemm(1 + (int)(next_random(&x) >> 8) % 400, 1 + (int)(next_random(&x) >> 8) % 13);
        int cus = (int)(next_random(&x) >> 8) % 8;
        check_order(s, &p, cus, false);
        check_order(s, &p, cus, true);
    }
    rfg_snapshot_free(&s);
}
END_TEST

static struct rfg_snapshot *shared;

static void *reader(void *arg)
{
    for (int round = 0; round < 20; round++)
        for (size_t i = 0; i < n_many; i++) {
            const struct rfg_row *r = rfg_snapshot_exact(shared, &many[i].problem, many[i].cu_count);
            if (!r || r->median_us != many[i].median_us)
                return arg;
        }
    return NULL;
}

START_TEST(readers_share_it)
{
    pthread_t t[8];
    void *failed;
    make_many();
    put(user, many, n_many);
    shared = load(user, "", "a", "");
    for (int i = 0; i < 8; i++)
        pthread_create(&t[i], NULL, reader, dir);
    for (int i = 0; i < 8; i++) {
        pthread_join(t[i], &failed);
        ck_assert_ptr_null(failed);
    }
    double t0 = rfg_now();
    reader(NULL);
    printf("exact lookup: %.1f ns among %zu rows\n", (rfg_now() - t0) * 1e9 / 20 / (double)n_many, n_many);
    rfg_snapshot_free(&shared);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("snapshot");
    TCase *tc = test_case(s, "snapshot", setup, teardown);
    ADD_TESTS(tc, exact_rows, nearest_m, other_cu_counts, every_pair, unreadable_files_are_a_warning,
              as_a_plain_search_says, readers_share_it);
    ADD_LOOPS(tc, 9, who_wins);
    ADD_LOOPS(tc, 10, siblings);
    return run_suite(s);
}
