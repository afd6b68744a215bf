/* SPDX-License-Identifier: MIT */
#include "failing_scenes.h"

#include "failing.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/tempdir.h"
#include "base/trust.h"
#include "base/util.h"
#include "dispatch/context.h"
#include "dispatch/db/db_internal.h"
#include "dispatch/jit/jit_internal.h"
#include "dispatch/pack/pack.h"
#include "ops/gemm/gemm.h"
#include "rfg/rfg.h"
#include "tuner/harness/harness.h"
#include "tuner/harness/output.h"

enum { M = 3, N = 40, K = 64 };
#define PROBLEM "gemm bf16,bf16->f32 M=3 N=40 K=64"

const char *wrong;
static rfg_context *ctx;
static struct rfg_row row;

static void put_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    ck_assert(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

static void check(bool right, const char *what)
{
    if (!right && !wrong)
        wrong = what;
}

/* ---- contexts ---------------------------------------------------------------------------------------------------- */

static rfg_status opened_on(const char *device, const char *user_db)
{
    rfg_context_params p = {
        .size = sizeof(p), .device = device, .user_db = user_db, .system_db = "", .cache_dir = "cache", .threads = 2
    };
    p.misses = *user_db ? 1 : -1;
    return rfg_context_create(&ctx, &p);
}

static rfg_status opened(void)
{
    return opened_on("cpu", "");
}

static rfg_status multiplies(rfg_stream stream)
{
    static _Alignas(64) char memory[(M * K + N * K) * 2 + M * N * 4];
    rfg_tensor x = rfg_tensor_2d(memory, RFG_BF16, M, K, K);
    rfg_tensor w = rfg_tensor_2d(memory + M * K * 2, RFG_BF16, N, K, K);
    rfg_tensor y = rfg_tensor_2d(memory + (M * K + N * K) * 2, RFG_F32, M, N, N);
    for (int i = 0; i < M * K; i++)
        rfg_store(x.data, RFG_BF16, i, 1);
    for (int i = 0; i < N * K; i++)
        rfg_store(w.data, RFG_BF16, i, 2);
    memset(y.data, 0, M * N * 4);
    rfg_status st = rfg_op_gemm(ctx, &y, &x, &w, NULL, stream);
    if (st == RFG_OK && (st = rfg_stream_sync(ctx, stream)) == RFG_OK)
        for (int i = 0; i < M * N; i++)
            check(((float *)y.data)[i] == 2 * K, "a wrong product");
    return st;
}

static rfg_status calls(void)
{
    rfg_stream stream = NULL;
    rfg_status st = opened();
    if (st == RFG_OK)
        st = multiplies(NULL);
    if (st == RFG_OK && (st = rfg_stream_create(ctx, &stream)) == RFG_OK) {
        st = multiplies(stream);
        rfg_status ended = rfg_stream_destroy(ctx, &stream);
        st = st ? st : ended;
    }
    rfg_context_destroy(&ctx);
    return st;
}

static rfg_status prepares_a_file(void)
{
    rfg_status st = opened();
    if (st == RFG_OK)
        st = rfg_prepare_from_csv(ctx, "shapes.csv");
    rfg_context_destroy(&ctx);
    return st;
}

static rfg_status explains(void)
{
    char text[8192];
    rfg_status st = opened();
    if (st == RFG_OK && (st = rfg_explain(ctx, PROBLEM, text, sizeof(text))) == RFG_OK)
        check(strstr(text, "gemm_cpu"), "an explanation without a variant");
    rfg_context_destroy(&ctx);
    return st;
}

/* A mixture of experts, which is made of other operators, with scratch memory between them. */
static rfg_status mixes(void)
{
    enum { T = 2, H = 16, I = 8, E = 3, TOP = 2 };
    static _Alignas(64) uint16_t x[T * H], w1[E * 2 * I * H], w2[E * H * I], y[T * H];
    static int32_t ids[T * TOP] = { 0, 2, 1, 0 };
    static float weights[T * TOP] = { 1, 1, 1, 1 };
    for (int i = 0; i < T * H; i++)
        x[i] = 0x3f80; /* 1 */
    for (int i = 0; i < E * 2 * I * H; i++)
        w1[i] = 0x3d80; /* 1/16: gate and up are 1 */
    for (int i = 0; i < E * H * I; i++)
        w2[i] = 0x3e00; /* 1/8 */
    rfg_tensor ty = rfg_tensor_2d(y, RFG_BF16, T, H, H), tx = rfg_tensor_2d(x, RFG_BF16, T, H, H);
    rfg_tensor t1 = { w1, RFG_BF16, 3, { E, 2 * I, H }, { 2 * I * H, H, 1 } };
    rfg_tensor t2 = { w2, RFG_BF16, 3, { E, H, I }, { H * I, I, 1 } };
    rfg_tensor ti = rfg_tensor_2d(ids, RFG_I32, T, TOP, TOP), tw = rfg_tensor_2d(weights, RFG_F32, T, TOP, TOP);
    rfg_moe_params p = RFG_MOE_PARAMS_INIT;
    memset(y, 0, sizeof(y));
    rfg_status st = opened();
    if (st == RFG_OK)
        st = rfg_op_moe(ctx, &ty, &tx, &t1, &t2, &ti, &tw, &p, NULL);
    for (int i = 0; st == RFG_OK && i < T * H; i++)
        check(y[i] == y[0] && y[0] >= 0x3fb8 && y[0] <= 0x3fbd, "a wrong mixture"); /* 2 silu(1) = 1.462 */
    rfg_context_destroy(&ctx);
    return st;
}

/* A communicator of one rank. */
static rfg_status communicates(void)
{
    rfg_comm *comm = NULL;
    rfg_comm_handle handle;
    float x[] = { 1, 2, 3 }, y[] = { 0, 0, 0 };
    rfg_tensor tx = rfg_tensor_1d(x, RFG_F32, 3), ty = rfg_tensor_1d(y, RFG_F32, 3);
    rfg_status st = opened();
    if (st == RFG_OK)
        st = rfg_comm_create(&comm, ctx, 0, 1, NULL);
    if (st == RFG_OK)
        st = rfg_comm_get_handle(comm, &handle);
    if (st == RFG_OK)
        st = rfg_comm_connect(comm, &handle);
    if (st == RFG_OK && (st = rfg_op_all_reduce(comm, &ty, &tx, NULL)) == RFG_OK &&
        (st = rfg_stream_sync(ctx, NULL)) == RFG_OK)
        check(!memcmp(x, y, sizeof(x)), "a wrong sum");
    rfg_comm_destroy(&comm);
    rfg_context_destroy(&ctx);
    return st;
}

/* ---- databases --------------------------------------------------------------------------------------------------- */

static bool is_the_row(void *n, const struct rfg_row *r, const char *bad)
{
    (void)bad;
    *(int *)n += rfg_problem_equal(&r->problem, &row.problem) && r->median_us == row.median_us;
    return true;
}

static rfg_status use_rows(struct rfg_db *db)
{
    int imported = 0, seen = 0;
    struct rfg_row got;
    rfg_status st = rfg_db_put(db, &row);
    if (st == RFG_OK && rfg_db_get(db, &row.problem, row.arch, row.cu_count, NULL, &got) < 0)
        return RFG_ERROR_DATABASE;
    if (st == RFG_OK && (st = rfg_db_export_csv(db, NULL, "rows.csv")) == RFG_OK &&
        (st = rfg_db_import_csv(db, "rows.csv", true, &imported)) == RFG_OK)
        check(imported == 1, "not one row imported");
    if (st == RFG_OK)
        st = rfg_db_add_misses(db, &row.problem, row.arch, row.cu_count, 2, 1);
    if (st == RFG_OK && (st = rfg_db_each(db, NULL, is_the_row, &seen)) == RFG_OK)
        check(seen == 1, "not the one row");
    return st;
}

static rfg_status rows(void)
{
    struct rfg_db *db;
    rfg_status st = rfg_db_open(&db, "rows.db", RFG_DB_WRITE);
    if (st == RFG_OK)
        st = use_rows(db);
    rfg_db_close(&db);
    return st;
}

static void no_rows(void)
{
    (void)unlink("rows.db");
    (void)unlink("rows.db-wal");
    (void)unlink("rows.db-shm");
    put_text("rows.csv", "what was there before\n");
}

/* It opens, and has the row or not. */
static const char *rows_are_whole(rfg_status st)
{
    struct rfg_db *db;
    int seen = 0;
    if (rfg_db_open(&db, "rows.db", RFG_DB_WRITE) != RFG_OK)
        return rfg_last_error();
    bool read = rfg_db_each(db, NULL, is_the_row, &seen) == RFG_OK;
    rfg_db_close(&db);
    return !read ? rfg_last_error() : st == RFG_OK && seen != 1 ? "the row is not there" : NULL;
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static const char code[] = "\177ELF of the kernel";
static struct rfg_kernel kernel = { .source = "gemm/gpu/any/portable.hip", .entry = "entry" };
static struct rfg_pack_code packed = { .target = "gfx942", .compiler = "a compiler", .size = sizeof(code) - 1 };

static rfg_status packs(void)
{
    const struct rfg_blob blob = { (void *)(uintptr_t)code, strlen(code) }, *list = &blob, *got;
    struct rfg_pack *pack;
    rfg_status st = rfg_pack_write("a.rfgpack", &packed, &list, 1, &row, 1);
    if (st == RFG_OK && (st = rfg_pack_open(&pack, "a.rfgpack")) == RFG_OK) {
        const struct rfg_pack_code *found = rfg_pack_find(pack, "gfx942", &kernel);
        check(found, "its code isn't in the pack");
        if (found && (st = rfg_pack_load(pack, found, &got)) == RFG_OK)
            check(got->size == blob.size && !memcmp(got->data, code, blob.size), "other code in the pack");
        rfg_pack_close(&pack);
    }
    return st;
}

static void an_older_pack(void)
{
    put_text("a.rfgpack", "an older pack");
}

static rfg_status shapes(void)
{
    struct rfg_shapes s;
    rfg_status st = rfg_shapes_read("shapes.csv", &s, NULL, NULL);
    if (st == RFG_OK) {
        check(s.n == 2, "not two shapes");
        rfg_shapes_free(&s);
    }
    return st;
}

static rfg_status reads_a_log(void)
{
    struct rfg_shapes s;
    rfg_status st = rfg_shapes_read("calls.log", &s, NULL, NULL);
    if (st == RFG_OK) {
        check(s.n == 2, "not two shapes");
        rfg_shapes_free(&s);
    }
    return st;
}

static char *kernel_text;

static rfg_status expands(void)
{
    char *text = rfg_jit_expand(&kernel);
    if (!text)
        return RFG_ERROR_OUT_OF_MEMORY;
    check(!strcmp(text, kernel_text), "another text of the kernel");
    free(text);
    return RFG_OK;
}

/* ---- compiles ---------------------------------------------------------------------------------------------------- */

#define CODE "\177ELF of the cache"

static bool fake_available(char *version, size_t size, struct rfg_reason *why)
{
    (void)why;
    snprintf(version, size, "fake 1");
    return true;
}

static bool fake_has_target(const char *target)
{
    return !strcmp(target, "test1");
}

static rfg_status fake_compile(const struct rfg_jit_request *req, struct rfg_blob *code, char **log)
{
    (void)req, (void)log;
    *code = (struct rfg_blob){ malloc(strlen(CODE)), strlen(CODE) };
    memcpy(code->data, CODE, code->size);
    return RFG_OK;
}

static const struct rfg_jit_provider fake = {
    .name = "fake",
    .available = fake_available,
    .has_target = fake_has_target,
    .compile = fake_compile,
};

static rfg_status gets(struct rfg_cache *c, const char *source)
{
    struct rfg_jit_request req = {
        .name = "v{}", .entry = "k", .target = "test1", .source = source, .provider = &fake
    };
    const struct rfg_blob *code;
    rfg_status st = rfg_cache_get(c, &req, NULL, NULL, &code);
    if (st == RFG_OK)
        check(code->size == strlen(CODE) && !memcmp(code->data, CODE, code->size), "other code from the cache");
    return st;
}

/* Two are stored, one is found on the disk by the next, which finds it too old to keep. */
static rfg_status caches(void)
{
    struct rfg_cache_stats stats;
    rfg_status st = RFG_OK;
    for (int i = 0; i < 2 && st == RFG_OK; i++) {
        struct rfg_cache *c = rfg_cache_open("code", i ? 100 : 0);
        if (!c)
            return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "no memory for a cache");
        st = gets(c, "one");
        if (st == RFG_OK)
            st = gets(c, i ? "three" : "two");
        rfg_cache_get_stats(c, &stats);
        check(!stats.corrupt || !strstr(failing_name() ? failing_name() : "", "alloc"),
              "a good file is called damaged");
        rfg_cache_close(&c);
    }
    return st;
}

static void no_cache(void)
{
    rfg_remove_tree("code");
}

/* Whatever was kept is found or made anew, and right. */
static const char *cache_is_whole(rfg_status st)
{
    struct rfg_cache_stats stats;
    struct rfg_cache *c = rfg_cache_open("code", 0);
    (void)st;
    rfg_status now = gets(c, "one") || gets(c, "two") || gets(c, "three");
    rfg_cache_get_stats(c, &stats);
    rfg_cache_close(&c);
    return now ? rfg_last_error() : stats.corrupt ? "a damaged file was kept" : NULL;
}

static rfg_status runs_a_program(void)
{
    const char *const argv[] = { "/bin/echo", "a", "word", NULL };
    struct rfg_reason why = { "" };
    char *output = NULL;
    bool ok = rfg_jit_run(argv, "/tmp", &output, &why);
    check(!ok || !output || (!*output && failing_name()) || !strcmp(output, "a word\n"), "another output");
    free(output);
    return ok ? RFG_OK : rfg_fail(RFG_ERROR_IO, "%s", why.text);
}

/* What is opened next is number 0. */
static void no_stdin(void)
{
    (void)close(0);
}

/* ---- databases that are not as they should be --------------------------------------------------------------------- */

static void copy(const char *from, const char *to)
{
    size_t n;
    char *bytes = rfg_read_file(from, &n);
    FILE *f = fopen(to, "w");
    ck_assert(bytes && f && fwrite(bytes, 1, n, f) == n && fclose(f) == 0);
    free(bytes);
}

static bool same(const char *a, const char *b)
{
    size_t n_a = 0, n_b = 0;
    char *x = rfg_read_file(a, &n_a), *y = rfg_read_file(b, &n_b);
    bool is = x && y && n_a == n_b && !memcmp(x, y, n_a);
    free(x);
    free(y);
    return is;
}

static rfg_status sets_aside(void)
{
    struct rfg_db *db;
    rfg_status st = rfg_db_open(&db, "bad.db", RFG_DB_WRITE);
    if (st == RFG_OK)
        st = rfg_db_put(db, &row);
    rfg_db_close(&db);
    return st;
}

static void a_damaged_one(void)
{
    static const char *const names[] = { "-wal", "-shm", "-journal", ".corrupt-1", ".corrupt-1-journal" };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char path[40];
        snprintf(path, sizeof(path), "bad.db%s", names[i]);
        (void)unlink(path);
    }
    copy("damaged", "bad.db");
}

/* Nothing of a damaged file is ever lost. */
static const char *nothing_is_lost(rfg_status st)
{
    (void)st;
    return same("bad.db", "damaged") || same("bad.db.corrupt-1", "damaged") ? NULL : "the damaged file is gone";
}

static rfg_status takes_over(void)
{
    setenv("XDG_DATA_HOME", "/proc/self/cwd/data", 1);
    char *path = rfg_db_user_path();
    if (!path)
        return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "no memory for a path");
    check(!access(path, F_OK) || failing_harmless(), "a path that leads nowhere");
    free(path);
    return RFG_OK;
}

static void only_an_older_one(void)
{
    (void)unlink("data/rfg/user-v4.db");
    ck_assert(rfg_mkdirs("data/rfg"));
    copy("older", "data/rfg/user-v3.db");
}

static const char *the_older_one_stays(rfg_status st)
{
    struct rfg_db *db;
    int seen = 0;
    (void)st;
    if (!same("data/rfg/user-v3.db", "older"))
        return "the older file was changed";
    if (access("data/rfg/user-v4.db", F_OK))
        return NULL;
    bool read = rfg_db_open(&db, "data/rfg/user-v4.db", RFG_DB_READ) == RFG_OK &&
                rfg_db_each(db, NULL, is_the_row, &seen) == RFG_OK;
    rfg_db_close(&db);
    return read && seen == 1 ? NULL : "a new file without the rows";
}

static rfg_status calibrates(void)
{
    struct rfg_calibration c = { 100, 200, 3, 0.5, 4, "a GPU", "a driver", "2026-11-01T00:00:00Z" }, got;
    struct rfg_db *db;
    rfg_status st = rfg_db_open(&db, "rows.db", RFG_DB_WRITE);
    if (st == RFG_OK && (st = rfg_db_put_calibration(db, "gfx942", 304, &c)) == RFG_OK) {
        int found = rfg_db_get_calibration(db, "gfx942", 304, c.device, c.driver, &got);
        check(found, "the calibration is not there");
        st = found < 0 ? RFG_ERROR_DATABASE : RFG_OK;
    }
    rfg_db_close(&db);
    return st;
}

/* A call that misses is noted, and the database's row of another is used. */
static rfg_status misses(void)
{
    char text[8192];
    rfg_status st = opened_on("cpu", "rows.db");
    if (st == RFG_OK)
        st = multiplies(NULL);
    if (st == RFG_OK)
        st = rfg_explain(ctx, PROBLEM, text, sizeof(text));
    rfg_context_destroy(&ctx);
    return st;
}

/* ---- the harness ------------------------------------------------------------------------------------------------- */

static rfg_status run_case(struct rfg_case *c)
{
    struct rfg_check verdict;
    struct rfg_times times;
    rfg_status st = rfg_case_poison(c, 0);
    if (st == RFG_OK)
        st = rfg_case_run(c, 0, NULL, NULL);
    if (st == RFG_OK && (st = rfg_case_check(c, 0, &verdict)) == RFG_OK)
        check(verdict.ok, "a right result is called wrong");
    const struct rfg_plan *plan = st == RFG_OK ? rfg_plan_find(ctx, rfg_case_problem(c)) : NULL;
    if (plan && (st = rfg_case_time(c, plan, 3, 1, &times)) == RFG_OK) {
        check(times.n == 3, "not three times");
        rfg_times_free(&times);
    }
    return st;
}

static rfg_status checks_a_case(void)
{
    struct rfg_problem prob;
    struct rfg_case *c = NULL;
    struct rfg_case_params params = { .seed = 1, .rotate_bytes = 20000 };
    rfg_status st = opened();
    if (st == RFG_OK && rfg_problem_parse(&prob, PROBLEM, NULL) &&
        (st = rfg_case_create(ctx, &prob, &params, &c)) == RFG_OK)
        st = run_case(c);
    rfg_case_destroy(&c);
    rfg_context_destroy(&ctx);
    return st;
}

/* Of operators whose oracles hold tables. */
static rfg_status checks_more_cases(void)
{
    static const char *const problems[] = { "advance i32->i64 B=3 Sq=1 blocks=4 page=2 slots=1",
                                            "rope_append bf16,i64->bf16 T=2 Hq=2 D=32 Hkv=1 page=4",
                                            "mha_decode bf16->bf16 B=1 Hq=2 Hkv=1 D=32 S=9",
                                            "mla_decode bf16->bf16 B=1 Hq=3 D=96 S=9 Dv=64 page=16",
                                            "moe_route f16->f32 T=2 E=17 top=3",
                                            "lora bf16->bf16 M=3 N=8 K=16 rank=8 adapters=2",
                                            "merge_states f32->f16 T=2 H=2 D=8 n=3" };
    struct rfg_problem prob;
    struct rfg_check verdict;
    struct rfg_case_params params = { .seed = 1 };
    rfg_status st = opened();
    for (size_t i = 0; i < sizeof(problems) / sizeof(problems[0]) && st == RFG_OK; i++) {
        struct rfg_case *c = NULL;
        if (!rfg_problem_parse(&prob, problems[i], NULL)) {
            check(false, problems[i]);
            continue;
        }
        st = rfg_case_create(ctx, &prob, &params, &c);
        if (st == RFG_OK)
            st = rfg_case_run(c, 0, NULL, NULL);
        if (st == RFG_OK && (st = rfg_case_check(c, 0, &verdict)) == RFG_OK)
            check(verdict.ok, problems[i]);
        rfg_case_destroy(&c);
    }
    rfg_context_destroy(&ctx);
    return st;
}

/* Its messages go to stderr. */
static rfg_status writes_an_output(void)
{
    struct rfg_output o;
    if (!rfg_output_check("program", "--json", "output") || !rfg_output_open(&o, "program", "--json", "output"))
        return rfg_fail(RFG_ERROR_IO, "cannot read stderr");
    for (int i = 0; i < 2000; i++)
        fprintf(o.f, "line %d\n", i);
    return rfg_output_close(&o, true) ? RFG_OK : rfg_fail(RFG_ERROR_IO, "cannot read stderr");
}

static void an_older_output(void)
{
    static bool silent;
    put_text("output", "an older output");
    silent = silent || freopen("/dev/null", "w", stderr);
}

/* ---- all --------------------------------------------------------------------------------------------------------- */

const struct scene scenes[] = {
    { "calls", calls, NULL, NULL, { NULL } },
    { "mixes", mixes, NULL, NULL, { NULL } },
    { "communicates", communicates, NULL, NULL, { NULL } },
    { "prepares a file", prepares_a_file, NULL, NULL, { NULL } },
    { "explains", explains, NULL, NULL, { NULL } },
    { "rows", rows, no_rows, rows_are_whole, { "rows.csv" } },
    { "packs", packs, an_older_pack, NULL, { "a.rfgpack" } },
    { "shapes", shapes, NULL, NULL, { "shapes.csv" } },
    { "reads a log", reads_a_log, NULL, NULL, { "calls.log" } },
    { "sets a database aside", sets_aside, a_damaged_one, nothing_is_lost, { NULL }, true },
    { "takes an older database over", takes_over, only_an_older_one, the_older_one_stays, { NULL } },
    { "calibrates", calibrates, no_rows, NULL, { NULL } },
    { "misses", misses, no_rows, NULL, { NULL } },
    { "checks a case", checks_a_case, NULL, NULL, { NULL } },
    { "checks more cases", checks_more_cases, NULL, NULL, { NULL } },
    { "writes an output", writes_an_output, an_older_output, NULL, { "output" } },
    { "expands", expands, NULL, NULL, { NULL } },
    { "caches", caches, no_cache, cache_is_whole, { NULL } },
    { "runs a program", runs_a_program, NULL, NULL, { NULL } },
    { "runs a program without a stdin", runs_a_program, no_stdin, NULL, { NULL } },
};
const int n_scenes = sizeof(scenes) / sizeof(scenes[0]);

/* "older": a database of schema 3 with the row; "damaged": one whose first table can't be read. */
static void make_databases(void)
{
    struct rfg_db *db;
    sqlite3 *h;
    ck_assert(rfg_db_open(&db, "older", RFG_DB_WRITE) == RFG_OK && rfg_db_put(db, &row) == RFG_OK &&
              rfg_db_seal(db) == RFG_OK);
    rfg_db_close(&db);
    copy("older", "damaged");
    int fd = open("damaged", O_WRONLY);
    ck_assert(fd >= 0 && pwrite(fd, "this is no page of a table", 26, 4096) == 26 && !close(fd));
    ck_assert_int_eq(sqlite3_open("older", &h), SQLITE_OK);
    ck_assert_int_eq(sqlite3_exec(h, "PRAGMA user_version=3", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(h);
}

void scenes_setup(void)
{
    struct rfg_reason why;
    int p[RFG_MAX_PARAMS];
    put_text("shapes.csv", "op,dtype,M,N,K\ngemm,\"bf16,bf16->f32\",3,40,64\ngemm,\"bf16,bf16->f32\",9,40,64\n");
    row = (struct rfg_row){
        .arch = "gfx942", .cu_count = 304, .median_us = 1.25, .samples = 9, .how = RFG_SOURCE_MEASURED
    };
    strcpy(row.date, "2026-11-01T00:00:00Z");
    strcpy(row.version, RFG_VERSION);
    ck_assert(rfg_problem_parse(&row.problem, PROBLEM, &why));
    for (int i = 0; i < gemm_portable.n_params; i++)
        p[i] = gemm_portable.params[i].values[0];
    rfg_row_set_config(&row, &gemm_portable, p, false);

    put_text("calls.log", "rfg: calls: " PROBLEM "\nanother line\nrfg: calls: gemm bf16,bf16->f32 M=4 N=40 K=64\n");
    make_databases();
    const char *bytes = code;
    rfg_kernel_macro(&kernel, "ROWS", 2);
    ck_assert(rfg_pack_name(&packed, &kernel, &why));
    rfg_jit_source_hash(kernel.source, packed.source_hash);
    rfg_sha256_hex(packed.code_hash, &bytes, &(size_t){ sizeof(code) - 1 }, 1);
    kernel_text = rfg_jit_expand(&kernel);
    ck_assert(kernel_text);
}
