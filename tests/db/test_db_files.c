/* SPDX-License-Identifier: MIT
 *
 * The database's files: odd names, old schemas, damage, directories. */
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util.h"
#include "db_case.h"

static void ignore_finding(void *ctx, const char *finding)
{
    (void)ctx;
    (void)finding;
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

START_TEST(odd_names)
{
    static const char *const names[] = { "a b?c%41#d&.db", ":memory:", "file:x.db", "deep/er/\xc3\xa9.db", "-x.db" };
    char p[200];
    ck_assert_int_eq(chdir(dir), 0);
    for (int absolute = 0; absolute < 2; absolute++) {
        snprintf(p, sizeof(p), "%s%s%s", absolute ? dir : "", absolute ? "/" : "", names[_i]);
        put(p, make(gemm(1, 2 + absolute), "a", 1, 1, RFG_SOURCE_MEASURED));
        ck_assert_int_eq(access(p, F_OK), 0);
        ck_assert_uint_eq(count(p), (size_t)(1 + absolute));
    }
}
END_TEST

START_TEST(older_schemas_are_migrated)
{
    char text[100];
    if (_i == 1) { /* ours, but nothing in it */
        snprintf(text, sizeof(text), "pragma application_id=%d; create table x(y); drop table x",
                 RFG_DB_APPLICATION_ID);
        sql(path, text);
    } else {
        fclose(fopen(path, "w"));
    }
    ck_assert_uint_eq(count(path), 0); /* readable as it is */
    struct rfg_db *db = open_db(path, RFG_DB_READ);
    struct rfg_row got;
    struct rfg_problem p = gemm(1, 2);
    ck_assert_int_eq(rfg_db_schema(db), 0);
    ck_assert_int_eq(rfg_db_get(db, &p, "a", 1, NULL, &got), 0);
    rfg_db_close(&db);
    put(path, make(gemm(1, 2), "a", 1, 1, RFG_SOURCE_MEASURED));
    ck_assert_uint_eq(count(path), 1);
    db = open_db(path, RFG_DB_READ);
    ck_assert_int_eq(rfg_db_schema(db), RFG_DB_SCHEMA);
    rfg_db_close(&db);
}
END_TEST

/* A database as rfg 0.1.0 made it. */
static const char schema_1[] =
    "PRAGMA application_id=1380337457; PRAGMA user_version=1;"
    "CREATE TABLE failures ( op TEXT NOT NULL, dtypes TEXT NOT NULL, attrs TEXT NOT NULL, M INTEGER NOT NULL, N INTEGER"
    " NOT NULL, K INTEGER NOT NULL, arch TEXT NOT NULL, cu_count INTEGER NOT NULL, config TEXT NOT NULL, source_hash"
    " TEXT NOT NULL, what TEXT NOT NULL, detail TEXT NOT NULL, date TEXT NOT NULL, PRIMARY KEY (op, dtypes, attrs, M,"
    " N, K, arch, cu_count, config)) WITHOUT ROWID;"
    "CREATE TABLE misses ( op TEXT NOT NULL, dtypes TEXT NOT NULL, attrs TEXT NOT NULL, M INTEGER NOT NULL, N INTEGER"
    " NOT NULL, K INTEGER NOT NULL, arch TEXT NOT NULL, cu_count INTEGER NOT NULL, rung INTEGER NOT NULL, calls INTEGER"
    " NOT NULL, last TEXT NOT NULL, PRIMARY KEY (op, dtypes, attrs, M, N, K, arch, cu_count)) WITHOUT ROWID;"
    "CREATE TABLE tuned ( op TEXT NOT NULL, dtypes TEXT NOT NULL, attrs TEXT NOT NULL, M INTEGER NOT NULL, N INTEGER"
    " NOT NULL, K INTEGER NOT NULL, arch TEXT NOT NULL, cu_count INTEGER NOT NULL, variant TEXT NOT NULL, params TEXT"
    " NOT NULL, median_us REAL NOT NULL, spread_us REAL NOT NULL, samples INTEGER NOT NULL, error REAL NOT NULL,"
    " error_bound REAL NOT NULL, default_us REAL NOT NULL, vendor_us REAL NOT NULL, source_hash TEXT NOT NULL, compiler"
    " TEXT NOT NULL, driver TEXT NOT NULL, rfg_version TEXT NOT NULL, date TEXT NOT NULL, device TEXT NOT NULL, seed"
    " INTEGER NOT NULL, how TEXT NOT NULL, how_rank INTEGER NOT NULL, PRIMARY KEY (op, dtypes, attrs, M, N, K, arch,"
    " cu_count)) WITHOUT ROWID;"
    "INSERT INTO tuned VALUES('act_and_mul','bf16->bf16','',1,1536,0,'sm_90',132,'act_and_mul_flat','{\"threads\":64,"
    "\"unroll\":1,\"width\":16,\"stream\":1,\"persist\":0}',1.2107968796044588,0.011031283076566915,13,"
    "0.9993993684490333,1.0,1.2161718914285302,0.0,'e326acebba45da10e877c4217f1492828f67e5b3b19d5a5a0ff15488460a7d21',"
    "'nvrtc 13.0','CUDA 13.0','0.1.0','2026-11-21T14:12:12Z','nvidia:0',1677322558,'measured',2);"
    "INSERT INTO tuned VALUES('act_and_mul','bf16->bf16','',2,1536,0,'sm_90',132,'act_and_mul_flat','{\"threads\":128,"
    "\"unroll\":1,\"width\":16,\"stream\":2,\"persist\":0}',1.3758905697613954,0.02470301024631914,11,"
    "0.9993993684490333,1.0,1.514359377324581,0.0,'e326acebba45da10e877c4217f1492828f67e5b3b19d5a5a0ff15488460a7d21',"
    "'nvrtc 13.0','CUDA 13.0','0.1.0','2026-11-21T14:12:13Z','nvidia:0',1677322558,'measured',2);"
    "INSERT INTO misses VALUES('gemm','bf16,bf16->bf16','',7,64,512,'sm_90',132,4,12,'2026-11-21T14:12:13Z');"
    "INSERT INTO failures VALUES('act_and_mul','bf16->bf16','',1,1536,0,'sm_90',132,'c','h','hung','d','now');";

static void assert_rows_of_schema_1(const char *p, int schema, const char *code_hash)
{
    struct rfg_problem key = problem("act_and_mul bf16->bf16 M=2 N=1536"), failed = key;
    struct rfg_row row;
    char misses[100] = "", what[20] = "";
    failed.v[rfg_op_key(key.op, "M")] = 1;
    struct rfg_db *db = open_db(p, RFG_DB_READ);
    ck_assert_int_eq(rfg_db_schema(db), schema);
    ck_assert_uint_eq(count_all(db), 2);
    ck_assert_msg(rfg_db_get(db, &key, "sm_90", 132, NULL, &row) == 1, "%s", rfg_last_error());
    ck_assert_double_eq(row.median_us, 1.3758905697613954);
    ck_assert_str_eq(row.code_hash, code_hash);
    ck_assert_str_eq(row.device, ""); /* "nvidia:0" says no product */
    ck_assert_double_eq(row.mem_gbps, 0);
    ck_assert_str_eq(row.compiler, "nvrtc 13.0");
    ck_assert_int_eq(row.how, RFG_SOURCE_MEASURED);
    OK(rfg_db_each_miss(db, see_miss, misses));
    ck_assert_str_eq(misses, "M7 sm_90 132 r4 x12;");
    ck_assert_int_eq(rfg_db_failed(db, &failed, "sm_90", 132, "c", "h", what, sizeof(what)), 1);
    ck_assert_str_eq(what, "hung");
    rfg_db_close(&db);
}

/* What schema 2 changed. */
static const char schema_2[] = "ALTER TABLE tuned ADD COLUMN code_hash TEXT NOT NULL DEFAULT ''; PRAGMA user_version=2";

/* Reading leaves a file of schema 1 or 2 as it is; the first that writes migrates it, with everything that is in it. */
START_TEST(old_schemas_are_read_and_migrated)
{
    struct rfg_problem key = problem("act_and_mul bf16->bf16 M=2 N=1536");
    struct rfg_row row;
    sql(path, schema_1);
    if (_i)
        sql(path, schema_2);
    ck_assert_int_eq(shell("cp %s %s.before", path, path), 0);
    assert_rows_of_schema_1(path, 1 + _i, "");
    ck_assert_int_eq(shell("cmp %s %s.before", path, path), 0);
    struct rfg_db *db = open_db(path, RFG_DB_WRITE);
    rfg_db_close(&db);
    assert_rows_of_schema_1(path, RFG_DB_SCHEMA, "");
    assert_sound(path);
    db = open_db(path, RFG_DB_WRITE);
    ck_assert_int_eq(rfg_db_get(db, &key, "sm_90", 132, NULL, &row), 1);
    strcpy(row.code_hash, "c0de");
    OK(rfg_db_put(db, &row));
    rfg_db_close(&db);
    assert_rows_of_schema_1(path, RFG_DB_SCHEMA, "c0de");
}
END_TEST

/* The user's database of rfg 0.1 is copied to the new name, once; the old one stays for whoever still uses it. */
START_TEST(older_user_databases_are_taken_over)
{
    char old[100], new[100];
    unsetenv("RFG_DB");
    setenv("XDG_DATA_HOME", dir, 1);
    ck_assert_int_eq(shell("mkdir %s/rfg", dir), 0);
    snprintf(old, sizeof(old), "%s/rfg/user-v1.db", dir);
    snprintf(new, sizeof(new), "%s/rfg/user-v4.db", dir);
    sql(old, "PRAGMA journal_mode=WAL");
    sql(old, schema_1);
    ck_assert_int_eq(shell("cp %s %s.before", old, old), 0);
    if (_i == 0) {
        char *p = rfg_db_user_path();
        ck_assert_str_eq(p, new);
        free(p);
        assert_rows_of_schema_1(new, 1, "");
        put(new, make(gemm(1, 2), "a", 1, 1, RFG_SOURCE_MEASURED));
        ck_assert_uint_eq(count(new), 3);
        p = rfg_db_user_path(); /* not again */
        free(p);
        ck_assert_uint_eq(count(new), 3);
        ck_assert_int_eq(shell("cmp %s %s.before && test $(ls %s/rfg | grep -c tmp) = 0", old, old, dir), 0);
    } else if (_i == 1) { /* where nothing can be written, the old one is read */
        ck_assert_int_eq(shell("chmod 755 %s; chmod 644 %s; chmod 555 %s/rfg", dir, old, dir), 0);
        if (geteuid() == 0)
            ck_assert_int_eq(seteuid(65534), 0);
        char *p = rfg_db_user_path();
        ck_assert_str_eq(p, old);
        free(p);
        assert_rows_of_schema_1(old, 1, "");
        if (getuid() == 0)
            ck_assert_int_eq(seteuid(0), 0);
    } else { /* a file named by hand is the file */
        setenv("RFG_DB", new, 1);
        char *p = rfg_db_user_path();
        ck_assert_str_eq(p, new);
        free(p);
        ck_assert_int_ne(access(new, F_OK), 0);
    }
}
END_TEST

static const struct {
    const char *sql, *says, *says_too;
} foreign[] = {
    { "pragma user_version=7", "schema 7", "at most 4" },
    { "pragma user_version=-1", "schema -1", "at most 4" },
    { "pragma application_id=1196444487", "application_id 0x47504b47", "must be 0x52464731" },
    { "pragma application_id=0", "application_id 0x00000000", "another application" },
};

START_TEST(strangers_files_are_refused)
{
    struct rfg_db *db;
    put(path, make(gemm(1, 2), "a", 1, 1, RFG_SOURCE_MEASURED));
    sql(path, "pragma journal_mode=delete");
    sql(path, foreign[_i].sql);
    ck_assert_int_eq(shell("cp %s %s.before", path, path), 0);
    for (enum rfg_db_mode mode = RFG_DB_READ; mode <= RFG_DB_WRITE; mode++) {
        ck_assert_int_eq(rfg_db_open(&db, path, mode), RFG_ERROR_DATABASE);
        ck_assert_ptr_null(db);
        SAYS(foreign[_i].says);
        SAYS(foreign[_i].says_too);
        SAYS(path);
    }
    ck_assert_int_eq(shell("cmp %s %s.before && test $(ls %s | wc -l) = 2", path, path, dir), 0); /* untouched */
}
END_TEST

/* Only what has SQLite's header and our application id is ever moved. %s is the file. */
static const char *const strangers[] = {
    "printf 'op,dtype,M,N,K\\ngemm,bf16,1,2,3\\n' > %s",
    "printf '\\377\\330\\377\\340\\0\\020JFIF' > %s; head -c 9000 /dev/urandom >> %s",
    "head -c 9000 /dev/urandom > %s",
    "head -c 8192 /dev/zero > %s",
    "printf x > %s",
    "printf 'SQLite format 3' > %s",
    "head -c 68 /dev/zero | tr '\\\\0' x > %s; printf RFG1 >> %s; head -c 9000 /dev/zero >> %s",
    "python3 -c 'import sqlite3, sys; d = sqlite3.connect(sys.argv[1]); d.execute(\"create table t(x)\");"
    " d.execute(\"insert into t values(zeroblob(9000))\"); d.commit()' %s; dd if=/dev/urandom of=%s bs=1 seek=100 "
    "count=5000 conv=notrunc status=none", /* damaged, and another application's */
};

START_TEST(strangers_are_not_moved)
{
    struct rfg_db *db;
    ck_assert_int_eq(shell(strangers[_i], path, path, path), 0);
    ck_assert_int_eq(shell("cp %s %s.before", path, path), 0);
    for (enum rfg_db_mode mode = RFG_DB_READ; mode <= RFG_DB_NOTE; mode++) {
        ck_assert_int_eq(rfg_db_open(&db, path, mode), RFG_ERROR_DATABASE);
        ck_assert_ptr_null(db);
        SAYS(path);
    }
    ck_assert_int_eq(shell("cmp %s %s.before && test $(ls %s | wc -l) = 2", path, path, dir), 0);
}
END_TEST

/* A pipe is not waited for. */
START_TEST(pipes_are_refused)
{
    struct rfg_db *db;
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    for (enum rfg_db_mode mode = RFG_DB_READ; mode <= RFG_DB_NOTE; mode++) {
        ck_assert_int_eq(rfg_db_open(&db, path, mode), RFG_ERROR_DATABASE);
        SAYS("not a file");
    }
}
END_TEST

/* What would run when a table is read or written. */
static const char *const programs[] = {
    ("drop table misses; create view misses(op, dtypes, attrs, M, N, K, arch, cu_count, rung, calls, last) as with "
     "recursive c(i) as (select 1 union all select i + 1 from c) select '', '', '', i, 0, 0, '', 0, 0, 0, '' from c"),
    "create trigger t before insert on tuned begin select raise(ignore); end",
    "create virtual table v using fts5(x)",
};

START_TEST(views_and_triggers_are_refused)
{
    struct rfg_db *db;
    static const char *const says[] = { "view 'misses'", "trigger 't'", "virtual table 'v'" };
    put(path, make(gemm(1, 2), "a", 1, 1, RFG_SOURCE_MEASURED));
    sql(path, programs[_i]);
    for (enum rfg_db_mode mode = RFG_DB_READ; mode <= RFG_DB_NOTE; mode++) {
        ck_assert_int_eq(rfg_db_open(&db, path, mode), RFG_ERROR_DATABASE);
        SAYS(says[_i]);
    }
    ck_assert_int_eq(shell("test $(ls %s | grep -c corrupt) = 0", dir), 0);
}
END_TEST

/* A write that something in the file swallows is an error, and so is all that went with it. */
START_TEST(swallowed_writes_are_errors)
{
    struct rfg_db *db = open_db(path, RFG_DB_WRITE);
    struct rfg_row rows[] = { make(gemm(1, 2), "a", 1, 1, RFG_SOURCE_MEASURED),
                              make(gemm(2, 2), "a", 1, 1, RFG_SOURCE_MEASURED),
                              make(gemm(3, 2), "a", 1, 1, RFG_SOURCE_MEASURED) };
    struct rfg_problem p = gemm(2, 2);
    int written = 7;
    sql(path, _i == 0 ? "create trigger t before insert on tuned when new.M = 2 begin select raise(ignore); end"
                      : "create trigger t before insert on tuned when new.M = 2 begin select raise(fail, 'no'); end");
    ck_assert_int_eq(rfg_db_put_all(db, rows, 3, &written), RFG_ERROR_DATABASE);
    SAYS(_i == 0 ? "M=2" : "no");
    ck_assert_int_eq(written, 0);
    /* Nothing of it is there, and the connection is fit for the next. */
    OK(rfg_db_put(db, &rows[2]));
    ck_assert_uint_eq(count_all(db), 1);
    sql(path,
        "drop trigger t; create trigger t before insert on misses begin select raise(ignore); end; create trigger "
        "u before insert on failures begin select raise(ignore); end");
    ck_assert_int_eq(rfg_db_add_misses(db, &p, "a", 1, 4, 1), RFG_ERROR_DATABASE);
    ck_assert_int_eq(rfg_db_put_failure(db, &p, "a", 1, "c", "h", "w", "d"), RFG_ERROR_DATABASE);
    OK(rfg_db_put(db, &rows[1]));
    rfg_db_close(&db);
}
END_TEST

/* Locks of others: an engine's notes don't wait for them, nobody waits twice. */
START_TEST(locks_are_waited_for_once)
{
    static const char *const modes[] = { "wal", "delete" };
    static const double most[] = { 4, 30, 0.5, 4 };
    struct rfg_db *db, *open_already;
    struct rfg_problem p = gemm(2, 2);
    sqlite3 *h;
    char text[100];
    put(path, make(gemm(1, 2), "a", 1, 1, RFG_SOURCE_MEASURED));
    snprintf(text, sizeof(text), "pragma journal_mode=%s", modes[_i]);
    sql(path, text);
    if (_i == 0)
        OK(rfg_db_open(&open_already, path, RFG_DB_NOTE));
    ck_assert_int_eq(sqlite3_open(path, &h), SQLITE_OK);
    ck_assert_int_eq(sqlite3_exec(h, "begin exclusive", NULL, NULL, NULL), SQLITE_OK);
    for (enum rfg_db_mode mode = RFG_DB_READ; mode <= RFG_DB_LAST_NOTE; mode++) {
        if (mode == RFG_DB_WRITE)
            continue; /* 15 s */
        double before = rfg_now();
        rfg_status st = rfg_db_open(&db, path, mode);
        if (st == RFG_OK && mode != RFG_DB_READ) /* a log's readers don't mind its writer */
            st = rfg_db_add_misses(db, &p, "a", 1, 4, 1);
        ck_assert_msg(_i == 0 && mode == RFG_DB_READ ? st == RFG_OK : st == RFG_ERROR_DATABASE, "%d", (int)st);
        if (st != RFG_OK)
            SAYS("locked by another process");
        ck_assert_double_lt(rfg_now() - before, most[mode]);
        rfg_db_close(&db);
    }
    sqlite3_exec(h, "commit", NULL, NULL, NULL);
    sqlite3_close(h);
    if (_i == 0) {
        OK(rfg_db_add_misses(open_already, &p, "a", 1, 4, 1));
        rfg_db_close(&open_already);
    }
}
END_TEST

/* Columns that take long to compute: an end is made of it, in one step of SQLite or in many. */
START_TEST(endless_work_is_ended)
{
    struct rfg_db *db;
    char text[100] = "";
    put(path, make(gemm(1, 2), "a", 1, 1, RFG_SOURCE_MEASURED));
    sql(path,
        "drop table misses; create table misses (op, dtypes, attrs, M, N, K, arch, cu_count, rung, calls,"
        " last text as (substr(hex(zeroblob(2000000 + M)), 1, 1)) virtual); insert into misses with recursive c(i) as"
        " (select 1 union all select i + 1 from c where i < 600)"
        " select 'x', 'x', '', i, 2, 3, 'a', 1, 4, 600 - i from c");
    if (_i) /* the rows come one by one, in the order that is asked for */
        sql(path, "create index o on misses (calls desc, op, dtypes, attrs, N, K, M, arch, cu_count)");
    OK(rfg_db_open(&db, path, RFG_DB_NOTE));
    double before = rfg_now();
    ck_assert_int_eq(rfg_db_each_miss(db, see_miss, text), RFG_ERROR_DATABASE);
    SAYS("took longer than 0.5 s");
    ck_assert_double_lt(rfg_now() - before, 3);
    rfg_db_close(&db);
}
END_TEST

static void *release(void *arg)
{
    usleep(300000);
    sqlite3_exec(arg, "commit", NULL, NULL, NULL);
    return NULL;
}

START_TEST(locks_are_waited_for)
{
    sqlite3 *h;
    pthread_t t;
    put(path, make(gemm(1, 2), "a", 1, 1, RFG_SOURCE_MEASURED));
    sql(path, "pragma journal_mode=delete");
    ck_assert_int_eq(sqlite3_open_v2(path, &h, SQLITE_OPEN_READWRITE | SQLITE_OPEN_FULLMUTEX, NULL), SQLITE_OK);
    ck_assert_int_eq(sqlite3_exec(h, "begin exclusive", NULL, NULL, NULL), SQLITE_OK);
    pthread_create(&t, NULL, release, h);
    if (_i)
        put(path, make(gemm(2, 2), "a", 1, 1, RFG_SOURCE_MEASURED));
    ck_assert_uint_eq(count(path), (size_t)(1 + _i));
    pthread_join(t, NULL);
    sqlite3_close(h);
}
END_TEST

START_TEST(damaged_files_are_set_aside)
{
    struct rfg_db *db;
    int findings = -1;
    make_damaged(_i);
    /* Reading: an error or findings, at the latest when it is verified; the file stays as it is. */
    if (rfg_db_open(&db, path, RFG_DB_READ) == RFG_OK)
        findings = rfg_db_integrity(db, ignore_finding, NULL);
    else
        SAYS("damaged");
    rfg_db_close(&db);
    ck_assert_int_ne(findings, 0);
    ck_assert_int_eq(shell("cmp %s %s/damaged", path, dir), 0);
    /* Writing: moved, whole, and a new one begun; a second time to another name. */
    for (int i = 1; i <= 2; i++) {
        put(path, make(gemm(1, 2), "a", 1, 1, RFG_SOURCE_MEASURED));
        ck_assert_uint_eq(count(path), 1);
        assert_sound(path);
        ck_assert_int_eq(shell("cmp %s.corrupt-%d %s/damaged", path, i, dir), 0);
        ck_assert_int_eq(shell("cp %s/damaged %s", dir, path), 0);
    }
}
END_TEST

/* A name that leaves no room for ".corrupt-1". */
START_TEST(damaged_files_that_cannot_be_moved)
{
    char longer[300];
    struct rfg_db *db;
    make_damaged(1);
    snprintf(longer, sizeof(longer), "%s/%0248d", dir, 0);
    ck_assert_int_eq(rename(path, longer), 0);
    ck_assert_int_eq(rfg_db_open(&db, longer, RFG_DB_WRITE), RFG_ERROR_DATABASE);
    SAYS("damaged, and cannot be moved to ");
    ck_assert_ptr_null(db);
    ck_assert_int_eq(shell("cmp %s %s/damaged", longer, dir), 0);
}
END_TEST

START_TEST(logs_move_with_their_file)
{
    put(path, make(gemm(1, 2), "a", 1, 1, RFG_SOURCE_MEASURED));
    ck_assert_int_eq(shell("truncate -s 5000 %s; echo log > %s-wal; echo log > %s-shm", path, path, path), 0);
    put(path, make(gemm(1, 2), "a", 1, 1, RFG_SOURCE_MEASURED));
    ck_assert_int_eq(shell("test \"$(cat %s.corrupt-1-wal)\" = log", path), 0);
    assert_sound(path);
}
END_TEST

START_TEST(what_cannot_be_opened)
{
    struct rfg_db *db;
    ck_assert_int_eq(rfg_db_open(&db, path, RFG_DB_READ), RFG_ERROR_DATABASE);
    SAYS("No such file");
    SAYS(path);
    ck_assert_int_eq(access(path, F_OK), -1); /* nothing is made by reading */
    ck_assert_int_eq(rfg_db_open(&db, dir, RFG_DB_READ), RFG_ERROR_DATABASE);
    SAYS("not a file");
    ck_assert_int_eq(rfg_db_open(&db, dir, RFG_DB_WRITE), RFG_ERROR_DATABASE);
    ck_assert_int_eq(rfg_db_open(&db, "", RFG_DB_WRITE), RFG_ERROR_DATABASE);
    ck_assert_int_eq(rfg_db_open(&db, "/dev/null/x/y.db", RFG_DB_WRITE), RFG_ERROR_DATABASE);
    SAYS("/dev/null/x/y.db");
}
END_TEST

START_TEST(read_only_directories)
{
    struct rfg_db *db;
    struct rfg_row r = make(gemm(1, 2), "a", 1, 1, RFG_SOURCE_MEASURED);
    put(path, r); /* in WAL mode: its index would have to be made beside it */
    ck_assert_int_eq(shell("chmod 644 %s; chmod 555 %s", path, dir), 0);
    if (geteuid() == 0)
        ck_assert_int_eq(seteuid(65534), 0);
    ck_assert_uint_eq(count(path), 1);
    ck_assert_int_eq(rfg_db_open(&db, path, RFG_DB_WRITE), RFG_ERROR_DATABASE);
    SAYS(path);
    if (getuid() == 0)
        ck_assert_int_eq(seteuid(0), 0);
    ck_assert_int_eq(shell("test $(ls %s | wc -l) = 1", dir), 0);
}
END_TEST

START_TEST(default_paths)
{
    char expect[300];
    setenv("RFG_DB", "/x/y.db", 1);
    char *p = rfg_db_user_path();
    ck_assert_str_eq(p, "/x/y.db");
    free(p);
    unsetenv("RFG_DB");
    setenv("XDG_DATA_HOME", dir, 1);
    p = rfg_db_user_path();
    snprintf(expect, sizeof(expect), "%s/rfg/user-v%d.db", dir, RFG_DB_SCHEMA);
    ck_assert_str_eq(p, expect);
    free(p);

    unsetenv("RFG_SYSTEM_DB");
    p = rfg_db_system_path("zz7", 64); /* of what is installed, if anything */
    ck_assert_str_eq(p, "");
    free(p);
    char built[200];
    snprintf(built, sizeof(built), "%s/share", dir);
    setenv("RFG_SYSTEM_DB", built, 1);
    ck_assert_int_eq(shell("mkdir -p %s; cd %s; touch zz7_60-v4.db zz7_80-v4.db zz7_x_64-v4.db zz77_64-v4.db "
                           "zz7_64-v9.db",
                           built, built),
                     0);
    p = rfg_db_system_path("zz8", 64);
    ck_assert_str_eq(p, "");
    free(p);
    static const int cus[][2] = { { 60, 60 }, { 64, 60 }, { 70, 60 }, { 71, 80 }, { 500, 80 } };
    for (int i = 0; i < 5; i++) {
        p = rfg_db_system_path("zz7", cus[i][0]);
        snprintf(expect, sizeof(expect), "%s/zz7_%d-v4.db", built, cus[i][1]);
        ck_assert_str_eq(p, expect);
        free(p);
    }
    setenv("RFG_SYSTEM_DB", "/s.db", 1);
    p = rfg_db_system_path("zz7", 64);
    ck_assert_str_eq(p, "/s.db");
    free(p);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("db_files");
    TCase *tc = test_case(s, "files", setup, teardown);
    ADD_TESTS(tc, pipes_are_refused, damaged_files_that_cannot_be_moved, logs_move_with_their_file,
              what_cannot_be_opened, read_only_directories, default_paths);
    ADD_LOOPS(tc, 5, odd_names);
    ADD_LOOPS(tc, 2, older_schemas_are_migrated, old_schemas_are_read_and_migrated);
    ADD_LOOPS(tc, 3, older_user_databases_are_taken_over);
    ADD_LOOPS(tc, 4, strangers_files_are_refused);
    ADD_LOOPS(tc, (sizeof(strangers) / sizeof(strangers[0])), strangers_are_not_moved);
    ADD_LOOPS(tc, 3, views_and_triggers_are_refused);
    ADD_LOOPS(tc, 2, swallowed_writes_are_errors);
    ADD_LOOPS(tc, n_damages, damaged_files_are_set_aside);

    tc = test_case(s, "locks", setup, teardown);
    ADD_LOOPS(tc, 2, locks_are_waited_for_once, locks_are_waited_for);
    tcase_add_loop_test(slow_case(s, "locks", "endless_work_is_ended", setup, teardown), endless_work_is_ended, 0, 2);

    return run_suite(s);
}
