/* SPDX-License-Identifier: MIT
 *
 * Every allocation fails once, alone and with all that follow. The call returns OUT_OF_MEMORY or does without the
 * memory; nothing leaks, and the same call works the second time. */
#include <errno.h>
#include <unistd.h>

#include "base/util.h"
#include "dispatch/context.h"
#include "dispatch/pack/pack.h"
#include "tuner/harness/harness.h"
#include "ops/gemm/gemm.h"
#include "no_memory.h"
#include "rfg/rfg.h"
#include "tests/program.h"
#include "tests/suite.h"

enum { M = 3, N = 40, K = 64 };
#define PROBLEM "gemm bf16,bf16->f32 M=3 N=40 K=64"

static rfg_context *ctx;
static struct rfg_row row;
static bool wrong; /* a call that succeeded did something else than it should */

/* All of these return the first error, with everything given back. */

static rfg_status opened(void)
{
    rfg_context_params p = { .size = sizeof(p), .device = "cpu", .user_db = "", .system_db = "", .cache_dir = "cache" };
    return rfg_context_create(&ctx, &p);
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
            wrong |= ((float *)y.data)[i] != 2 * K;
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
        wrong |= !strstr(text, "gemm_cpu");
    rfg_context_destroy(&ctx);
    return st;
}

static bool is_the_row(void *n, const struct rfg_row *r, const char *bad)
{
    (void)bad;
    *(int *)n += rfg_problem_equal(&r->problem, &row.problem) && r->median_us == row.median_us;
    return true;
}

static rfg_status rows(void)
{
    int imported = 0, seen = 0;
    struct rfg_db *db;
    (void)unlink("rows.db");
    rfg_status st = rfg_db_open(&db, "rows.db", RFG_DB_WRITE);
    if (st)
        return st;
    struct rfg_row got;
    if ((st = rfg_db_put(db, &row)) == RFG_OK && rfg_db_get(db, &row.problem, row.arch, row.cu_count, NULL, &got) < 0)
        st = RFG_ERROR_OUT_OF_MEMORY;
    if (st == RFG_OK && (st = rfg_db_export_csv(db, NULL, "rows.csv")) == RFG_OK &&
        (st = rfg_db_import_csv(db, "rows.csv", true, &imported)) == RFG_OK)
        wrong |= imported != 1;
    if (st == RFG_OK)
        st = rfg_db_add_misses(db, &row.problem, row.arch, row.cu_count, 2, 1);
    if (st == RFG_OK && (st = rfg_db_each(db, NULL, is_the_row, &seen)) == RFG_OK)
        wrong |= seen != 1;
    rfg_db_close(&db);
    return st;
}

static rfg_status packs(void)
{
    static const char code[] = "\177ELF of the kernel";
    const struct rfg_blob blob = { (void *)(uintptr_t)code, strlen(code) }, *list = &blob, *got;
    struct rfg_kernel k = { .source = "gemm/gpu/any/portable.hip", .entry = "entry" };
    struct rfg_pack_code c = { .target = "gfx942", .compiler = "a compiler", .size = blob.size };
    struct rfg_reason why;
    struct rfg_pack *pack;
    const char *bytes = code;
    rfg_kernel_macro(&k, "ROWS", 2);
    (void)rfg_pack_name(&c, &k, &why);
    rfg_jit_source_hash(k.source, c.source_hash);
    rfg_sha256_hex(c.code_hash, &bytes, &blob.size, 1);
    rfg_status st = rfg_pack_write("a.rfgpack", &c, &list, 1, &row, 1);
    if (st == RFG_OK && (st = rfg_pack_open(&pack, "a.rfgpack")) == RFG_OK) {
        const struct rfg_pack_code *found = rfg_pack_find(pack, "gfx942", &k);
        wrong |= !found;
        if (found && (st = rfg_pack_load(pack, found, &got)) == RFG_OK)
            wrong |= got->size != blob.size || memcmp(got->data, code, blob.size);
        rfg_pack_close(&pack);
    }
    return st;
}

static rfg_status shapes(void)
{
    struct rfg_shapes s;
    rfg_status st = rfg_shapes_read("shapes.csv", &s, NULL, NULL);
    if (st == RFG_OK) {
        wrong |= s.n != 2;
        rfg_shapes_free(&s);
    }
    return st;
}

static rfg_status expands(void)
{
    struct rfg_kernel k = { .source = "gemm/gpu/any/portable.hip", .entry = "gemm_portable" };
    rfg_kernel_macro(&k, "ROWS", 2);
    char *text = rfg_jit_expand(&k);
    if (!text)
        return RFG_ERROR_OUT_OF_MEMORY;
    wrong |= !strstr(text, "gemm_portable");
    free(text);
    return RFG_OK;
}

static const struct scene {
    const char *name;
    rfg_status (*run)(void);
    int step; /* every so many requests */
} scenes[] = {
    { "calls", calls, 1 },       { "prepares a file", prepares_a_file, 1 },
    { "explains", explains, 1 }, { "rows", rows, 83 }, /* SQLite's, most of them */
    { "packs", packs, 1 },       { "shapes", shapes, 1 },
    { "expands", expands, 1 },
};

/* Blocks that it left behind. */
static long play(const struct scene *s, long n, bool all_later)
{
    char where[100];
    snprintf(where, sizeof(where), "%s, request %ld%s", s->name, n, all_later ? " and all later" : "");
    long blocks = no_memory_blocks();
    wrong = false;
    no_memory_from(n, all_later);
    rfg_status st = s->run();
    no_memory_from(0, false);
    /* A library's error can be a file's or a database's, and then says why. */
    ck_assert_msg(st == RFG_OK || st == RFG_ERROR_OUT_OF_MEMORY || st == RFG_ERROR_DATABASE ||
                      (st == RFG_ERROR_IO && strstr(rfg_last_error(), strerror(ENOMEM))),
                  "%s: %s: %s", where, rfg_status_name(st), rfg_last_error());
    ck_assert_msg(!wrong, "%s: it did something else", where);
    blocks = no_memory_blocks() - blocks;
    if (st) {
        st = s->run();
        ck_assert_msg(st == RFG_OK && !wrong, "%s: the second time: %s", where, rfg_last_error());
    }
    return blocks;
}

START_TEST(each_request_fails)
{
    const struct scene *s = &scenes[_i];
    for (int warm = 0; warm < 3; warm++)
        (void)play(s, 0, false);
    no_memory_from(0, false);
    ck_assert_msg(s->run() == RFG_OK, "%s: %s", s->name, rfg_last_error());
    long n = no_memory_requests();
    ck_assert_int_gt(n, 0);
    ck_assert_int_eq(play(s, 0, false), 0);
    for (long i = 1; i <= n; i += s->step)
        for (int later = 0; later < 2; later++) /* what is made once, when an error is first told, is no leak */
            ck_assert_msg(play(s, i, later) <= 0 || play(s, i, later) <= 0, "%s, request %ld%s: %ld blocks leak",
                          s->name, i, later ? " and all later" : "", play(s, i, later));
    printf("%s: %ld requests\n", s->name, n);
}
END_TEST

static void be_silent(void *user, rfg_log_topic topic, const char *line)
{
    (void)user, (void)topic, (void)line;
}

static void setup(void)
{
    struct rfg_reason why;
    int p[RFG_MAX_PARAMS];
    program_setup();
    rfg_set_log_callback(be_silent, NULL, 0);
    FILE *f = fopen("shapes.csv", "w");
    ck_assert(f && fputs("op,dtype,M,N,K\ngemm,\"bf16,bf16->f32\",3,40,64\ngemm,\"bf16,bf16->f32\",9,40,64\n", f) >= 0);
    ck_assert_int_eq(fclose(f), 0);
    row = (struct rfg_row){
        .arch = "gfx942", .cu_count = 304, .median_us = 1.25, .samples = 9, .how = RFG_SOURCE_MEASURED
    };
    strcpy(row.date, "2026-11-01T00:00:00Z");
    strcpy(row.version, RFG_VERSION);
    ck_assert(rfg_problem_parse(&row.problem, PROBLEM, &why));
    for (int i = 0; i < gemm_portable.n_params; i++)
        p[i] = gemm_portable.params[i].values[0];
    rfg_row_set_config(&row, &gemm_portable, p, false);
}

int main(void)
{
    no_memory_sqlite();
    Suite *su = suite_create("no_memory");
    TCase *tc = test_case(su, "no_memory", setup, program_teardown);
    tcase_set_timeout(tc, 240);
    ADD_LOOPS(tc, (sizeof(scenes) / sizeof(scenes[0])), each_request_fails);
    return run_suite(su);
}
