/* SPDX-License-Identifier: MIT
 *
 * Many writers of a database at once, and killed writers. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "db_case.h"

#define WRITERS 8
#define EACH    20

static void write_rows(struct rfg_db *db, int who)
{
    for (int i = 0; i < EACH; i++) {
        struct rfg_row r = make(gemm(1 + i, 1 + who), "a", 1, 1, RFG_SOURCE_MEASURED);
        struct rfg_problem miss = gemm(1, 1);
        if (rfg_db_put(db, &r) != RFG_OK || rfg_db_add_misses(db, &miss, "a", 1, 4, 1) != RFG_OK) {
            fprintf(stderr, "writer %d: %s\n", who, rfg_last_error());
            _exit(1);
        }
    }
}

static void assert_all_written(void)
{
    char text[100] = "";
    assert_sound(path);
    ck_assert_uint_eq(count(path), WRITERS * EACH);
    struct rfg_db *db = open_db(path, RFG_DB_READ);
    OK(rfg_db_each_miss(db, see_miss, text));
    ck_assert_str_eq(text, "M1 a 1 r4 x160;"); /* no count was lost either */
    rfg_db_close(&db);
}

static struct rfg_db *shared;

static void *thread(void *arg)
{
    struct rfg_db *db = shared;
    if (!db && rfg_db_open(&db, path, RFG_DB_WRITE) != RFG_OK) {
        fprintf(stderr, "%s\n", rfg_last_error());
        _exit(1);
    }
    write_rows(db, (int)(intptr_t)arg);
    if (!shared)
        rfg_db_close(&db);
    return NULL;
}

START_TEST(many_threads)
{
    pthread_t t[WRITERS];
    shared = _i ? open_db(path, RFG_DB_WRITE) : NULL; /* each with a connection of its own, and all on one */
    for (intptr_t i = 0; i < WRITERS; i++)
        pthread_create(&t[i], NULL, thread, (void *)i);
    for (int i = 0; i < WRITERS; i++)
        pthread_join(t[i], NULL);
    rfg_db_close(&shared);
    assert_all_written();
}
END_TEST

START_TEST(many_processes)
{
    pid_t pid[WRITERS];
    int go[2], status;
    if (_i)
        make_damaged(1); /* all find it damaged at once: it is moved once, and none loses what another wrote */
    ck_assert_int_eq(pipe(go), 0);
    for (int i = 0; i < WRITERS; i++)
        if (!(pid[i] = fork())) {
            char c;
            close(go[1]);
            if (read(go[0], &c, 1) == 0)
                thread((void *)(intptr_t)i);
            _exit(0);
        }
    close(go[0]);
    close(go[1]);
    for (int i = 0; i < WRITERS; i++) {
        ck_assert_int_eq(waitpid(pid[i], &status, 0), pid[i]);
        ck_assert_int_eq(status, 0);
    }
    assert_all_written();
    ck_assert_int_eq(shell("test $(ls %s | grep -c corrupt-) = %d", dir, _i), 0);
}
END_TEST

START_TEST(killed_writers_lose_nothing)
{
    uint64_t seed = (uint64_t)getpid();
    int next = 1;
    printf("killed_writers_lose_nothing: seed %llu\n", (unsigned long long)seed);
    srand((unsigned)seed);
    for (int round = 0; round < 20; round++) {
        int told[2], got;
        ck_assert_int_eq(pipe(told), 0);
        pid_t pid = fork();
        if (!pid) {
            struct rfg_db *db;
            if (rfg_db_open(&db, path, RFG_DB_WRITE) != RFG_OK)
                _exit(1);
            for (int i = next;; i++) {
                struct rfg_row r = make(gemm(i, 2), "a", 1, i, RFG_SOURCE_MEASURED);
                if (rfg_db_put(db, &r) != RFG_OK || write(told[1], &i, sizeof(i)) != sizeof(i))
                    _exit(1);
            }
        }
        close(told[1]);
        usleep((useconds_t)(rand() % (20000 + 10000 * round))); /* busy machines take long to begin */
        kill(pid, SIGKILL);
        waitpid(pid, &got, 0);
        ck_assert(WIFSIGNALED(got));
        while (read(told[0], &got, sizeof(got)) == sizeof(got))
            next = got + 1;
        close(told[0]);
        if (access(path, F_OK))
            continue; /* killed before it made the file */
        assert_sound(path);
        ck_assert_uint_ge(count(path), (size_t)next - 1); /* what was reported is there; one more may be */
        ck_assert_uint_le(count(path), (size_t)next + (size_t)round);
    }
    struct rfg_db *db = open_db(path, RFG_DB_WRITE);
    for (int i = 1; i < next; i++) {
        struct rfg_problem p = gemm(i, 2);
        struct rfg_row r;
        ck_assert_int_eq(rfg_db_get(db, &p, "a", 1, NULL, &r), 1);
        ck_assert_double_eq(r.median_us, i);
    }
    rfg_db_close(&db);
    ck_assert_int_gt(next, 1);
    ck_assert_int_eq(shell("test $(ls %s | grep -c corrupt) = 0", dir), 0);
}
END_TEST

/* Restamping is one transaction: whenever its process dies, all rows say the same. */
START_TEST(killed_restamping_writes_all_or_nothing)
{
    enum { N = 200 };
    uint64_t seed = (uint64_t)getpid();
    printf("killed_restamping_writes_all_or_nothing: seed %llu\n", (unsigned long long)seed);
    srand((unsigned)seed);
    struct rfg_row *rows = calloc(N, sizeof(*rows)), *read;
    struct rfg_stamp *stamps = calloc(N, sizeof(*stamps));
    size_t n, written;
    for (int i = 0; i < N; i++)
        rows[i] = make(gemm(1 + i, 2), "a", 1, 1, RFG_SOURCE_MEASURED);
    struct rfg_db *db = open_db(path, RFG_DB_WRITE);
    OK(rfg_db_put_all(db, rows, N, NULL));
    rfg_db_close(&db);
    int changes = 0;
    char last[65] = "abc";
    for (int round = 0; round < 20; round++) {
        pid_t pid = fork();
        if (!pid) {
            db = open_db(path, RFG_DB_WRITE);
            for (int k = 0;; k++) {
                if (rfg_db_all(db, NULL, &read, &n, NULL, NULL) != RFG_OK || n != N)
                    _exit(1);
                for (int i = 0; i < N; i++) {
                    stamps[i] = (struct rfg_stamp){ .row = &read[i] };
                    snprintf(stamps[i].source_hash, 65, "%d.%d", round, k);
                    snprintf(stamps[i].code_hash, 65, "%d.%d", round, k);
                }
                if (rfg_db_restamp(db, stamps, N, &written) != RFG_OK || written != N)
                    _exit(2);
                free(read);
            }
        }
        usleep((useconds_t)(rand() % (20000 + 10000 * round)));
        kill(pid, SIGKILL);
        int status;
        waitpid(pid, &status, 0);
        ck_assert_msg(WIFSIGNALED(status), "exit %d", WEXITSTATUS(status));
        db = open_db(path, RFG_DB_READ);
        OK(rfg_db_all(db, NULL, &read, &n, NULL, NULL));
        ck_assert_uint_eq(n, N);
        for (int i = 1; i < N; i++) {
            ck_assert_str_eq(read[i].source_hash, read[0].source_hash);
            ck_assert_str_eq(read[i].code_hash, read[0].code_hash);
        }
        changes += strcmp(last, read[0].source_hash) != 0;
        strcpy(last, read[0].source_hash);
        free(read);
        rfg_db_close(&db);
    }
    ck_assert_int_gt(changes, 0);
    free(rows);
    free(stamps);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("db_killed");
    TCase *tc = test_case(s, "many", setup, teardown);
    ADD_TESTS(tc, killed_writers_lose_nothing, killed_restamping_writes_all_or_nothing);
    ADD_LOOPS(tc, 2, many_threads, many_processes);
    return run_suite(s);
}
