/* SPDX-License-Identifier: MIT
 *
 * Problem strings: rfg_describe_begin() tells a call's problem, which equals the strings of headers and shapes files,
 * and prepares the call. Every key is listed. */
#include <dirent.h>
#include <pthread.h>

#include "dispatch/context.h"
#include "base/util.h"
#include "ops/op_case.h"
#include "tests/program.h"
#include "rfg/rfg.h"
#include "tests/suite.h"

static rfg_context *ctx;

static void setup(void)
{
    unsetenv("RFG_VARIANTS");
    unsetenv("RFG_LAUNCH_OVERLAP");
    rfg_context_params p = {
        .size = sizeof(p), .device = "cpu", .user_db = "", .system_db = "", .cache_dir = "", .threads = 1
    };
    ck_assert_msg(rfg_context_create(&ctx, &p) == RFG_OK, "%s", rfg_last_error());
}

static void teardown(void)
{
    rfg_context_destroy(&ctx);
}

/* What the problem's call is described as, with tensors that lie nowhere: a described call looks at none. */
static void describe(const struct rfg_problem *prob, char text[RFG_PROBLEM_MAX])
{
    struct rfg_tensor_spec spec[RFG_MAX_TENSORS];
    rfg_tensor t[RFG_MAX_TENSORS] = { 0 };
    char problem[RFG_PROBLEM_STRLEN];
    int n = rfg_op_case_of(prob->op)->tensors(prob, spec);
    for (int i = 0; i < n; i++) {
        const struct rfg_tensor_spec *s = &spec[i];
        uintptr_t at = (uintptr_t)((s->same_as ? s->same_as - 1 : i) + 1) << 44;
        t[i] = (rfg_tensor){ s->absent || s->on_request ? NULL : (void *)at, s->dtype, s->ndim, { 0 }, { 0 } };
        memcpy(t[i].shape, s->shape, sizeof(s->shape));
        t[i].strides[s->ndim - 1] = s->column_major ? s->shape[0] : 1;
        if (s->ndim == 3)
            t[i].strides[1] = s->shape[2];
        if (s->ndim > 1)
            t[i].strides[0] = s->column_major ? 1 : s->row_stride;
    }
    ck_assert_msg(rfg_describe_begin(ctx, text, RFG_PROBLEM_MAX) == RFG_OK, "%s", rfg_last_error());
    rfg_status st = rfg_op_case_of(prob->op)->call(ctx, prob, t, NULL);
    rfg_describe_end(ctx);
    ck_assert_msg(st == RFG_OK, "%s: %s", rfg_problem_format(prob, problem, sizeof(problem)), rfg_last_error());
}

/* ---- what is documented is what is called ------------------------------------------------------------------------ */

static char *read_source(const char *name)
{
    char *path = rfg_asprintf("%s/%s", getenv("RFG_SOURCE_ROOT"), name), *text = rfg_read_file(path, NULL);
    ck_assert_msg(text != NULL, "%s: can't be read", path);
    free(path);
    return text;
}

/* Each "operator dtypes->dtypes ..." in quotes. */
static int check_documented(const char *header)
{
    char *text = read_source(header);
    int n = 0;
    for (char *s = text; (s = strchr(s, '"')); s++) {
        size_t len = strcspn(s + 1, "\"\n");
        char said[RFG_PROBLEM_MAX], called[RFG_PROBLEM_MAX];
        if (s[1 + len] != '"' || len >= sizeof(said))
            continue;
        snprintf(said, sizeof(said), "%.*s", (int)len, s + 1);
        s += len + 1;
        if (!strstr(said, "->") || !rfg_op_find(said, strcspn(said, " ")))
            continue;
        struct rfg_problem prob;
        struct rfg_reason why;
        ck_assert_msg(rfg_problem_parse(&prob, said, &why), "%s: \"%s\": %s", header, said, why.text);
        describe(&prob, called);
        ck_assert_msg(!strcmp(said, called), "%s: \"%s\" is documented, \"%s\" is called", header, said, called);
        n++;
    }
    free(text);
    return n;
}

START_TEST(documented_strings)
{
    ck_assert_int_ge(check_documented("include/rfg/core.h"), 1);
    ck_assert_int_ge(check_documented("include/rfg/gemm.h"), 4);
    ck_assert_int_ge(check_documented("include/rfg/act.h"), 4);
    ck_assert_int_ge(check_documented("include/rfg/norm.h"), 5);
    ck_assert_int_ge(check_documented("include/rfg/mha.h"), 3);
}
END_TEST

/* A row that was tuned for a line of our shapes files must be the one that a call finds. */
START_TEST(shapes_files)
{
    char *dir = rfg_asprintf("%s/examples", getenv("RFG_SOURCE_ROOT"));
    DIR *d = opendir(dir);
    size_t total = 0;
    ck_assert_ptr_nonnull(d);
    for (struct dirent *e; (e = readdir(d));) {
        struct rfg_shapes shapes;
        if (!strstr(e->d_name, ".csv"))
            continue;
        char *path = rfg_asprintf("%s/%s", dir, e->d_name);
        ck_assert_msg(rfg_shapes_read(path, &shapes, NULL, NULL) == RFG_OK, "%s", rfg_last_error());
        for (size_t i = 0; i < shapes.n; i++) {
            char called[RFG_PROBLEM_MAX], said[RFG_PROBLEM_MAX];
            struct rfg_problem p;
            describe(&shapes.v[i].problem, called);
            ck_assert(rfg_problem_parse(&p, called, NULL));
            struct rfg_problem key = rfg_problem_key(&p), want = rfg_problem_key(&shapes.v[i].problem);
            ck_assert_msg(rfg_problem_equal(&key, &want), "%s:%d: %s is tuned, %s is called", e->d_name,
                          shapes.v[i].line, rfg_problem_format(&want, said, sizeof(said)), called);
        }
        total += shapes.n;
        rfg_shapes_free(&shapes);
        free(path);
    }
    closedir(d);
    free(dir);
    ck_assert_uint_gt(total, 100);
}
END_TEST

/* ---- as an engine does it ---------------------------------------------------------------------------------------- */

static struct {
    _Alignas(64) uint16_t q[4 * 8 * 64], k[8 * 16 * 2 * 64], v[8 * 16 * 2 * 64], out[4 * 8 * 64];
    int32_t table[4 * 2], lens[4];
} m;

static rfg_status decode(rfg_mha_params p)
{
    rfg_tensor q = rfg_tensor_nd(m.q, RFG_BF16, 3, (const int64_t[]){ 4, 8, 64 }), o = q;
    rfg_tensor k = rfg_tensor_nd(m.k, RFG_BF16, 4, (const int64_t[]){ 8, 16, 2, 64 }), v = k;
    rfg_tensor table = rfg_tensor_2d(m.table, RFG_I32, 4, 2, 2), lens = rfg_tensor_1d(m.lens, RFG_I32, 4);
    o.data = m.out;
    v.data = m.v;
    for (int i = 0; i < 8; i++)
        m.table[i] = i;
    for (int i = 0; i < 4; i++)
        m.lens[i] = 5 + i;
    p.size = sizeof(p);
    p.block_table = &table;
    p.kv_lens = &lens;
    rfg_tensor sinks = rfg_tensor_1d(m.q, p.sinks ? p.sinks->dtype : RFG_F32, 8);
    p.sinks = p.sinks ? &sinks : NULL;
    return rfg_op_mha_decode(ctx, &o, &q, &k, &v, &p, NULL);
}

static const struct {
    rfg_mha_params params;
    const char *problem;
} decodes[] = {
    { { 0 }, "mha_decode bf16->bf16 B=4 Hq=8 Hkv=2 D=64 S=32 page=16 lens=log" },
    { { .mean_seqlen_k = 23 }, "mha_decode bf16->bf16 B=4 Hq=8 Hkv=2 D=64 S=32 page=16 lens=log" },
    { { .mean_seqlen_k = 24 }, "mha_decode bf16->bf16 B=4 Hq=8 Hkv=2 D=64 S=32 page=16" },
    { { .max_seqlen_k = 9, .mean_seqlen_k = 7 }, "mha_decode bf16->bf16 B=4 Hq=8 Hkv=2 D=64 S=16 page=16" },
    { { .max_seqlen_k = 16, .mean_seqlen_k = 12 }, "mha_decode bf16->bf16 B=4 Hq=8 Hkv=2 D=64 S=16 page=16" },
    { { .max_seqlen_k = 17, .mean_seqlen_k = 12 }, "mha_decode bf16->bf16 B=4 Hq=8 Hkv=2 D=64 S=32 page=16 lens=log" },
    { { .soft_cap = 29.5f, .window = RFG_MHA_WINDOW_SIDES, .window_left = 8, .window_right = -1 },
      "mha_decode bf16->bf16 B=4 Hq=8 Hkv=2 D=64 S=32 window=9 cap=30 page=16 lens=log" },
    { { .window = RFG_MHA_WINDOW_SIDES, .window_left = INT32_MAX, .window_right = 2 },
      "mha_decode bf16->bf16 B=4 Hq=8 Hkv=2 D=64 S=32 window=2147483647 page=16 lens=log" },
    { { .sinks = &(const rfg_tensor){ .dtype = RFG_BF16 } },
      "mha_decode bf16->bf16 B=4 Hq=8 Hkv=2 D=64 S=32 sink=1 stype=bf16 page=16 lens=log" },
    { { .sinks = &(const rfg_tensor){ .dtype = RFG_F32 } },
      "mha_decode bf16->bf16 B=4 Hq=8 Hkv=2 D=64 S=32 sink=1 page=16 lens=log" },
    { { .soft_cap = 29.5f, .window = 9 },
      "mha_decode bf16->bf16 B=4 Hq=8 Hkv=2 D=64 S=32 window=9 cap=30 page=16 lens=log" },
};

START_TEST(asked_prepared_called)
{
    char text[RFG_PROBLEM_MAX] = "old";
    rfg_stats stats = RFG_STATS_INIT;
    memset(m.out, 0x77, sizeof(m.out));
    ck_assert_int_eq(rfg_describe_begin(ctx, text, sizeof(text)), RFG_OK);
    ck_assert_str_eq(text, "");
    ck_assert_msg(decode(decodes[_i].params) == RFG_OK, "%s", rfg_last_error());
    rfg_describe_end(ctx);
    ck_assert_str_eq(text, decodes[_i].problem);
    for (size_t i = 0; i < sizeof(m.out) / 2; i++)
        ck_assert_int_eq(m.out[i], 0x7777);
    rfg_context_stats(ctx, &stats);
    ck_assert_uint_eq(stats.plans, 0);
    ck_assert_uint_eq(stats.calls, 0);
    ck_assert_msg(rfg_prepare(ctx, text) == RFG_OK, "%s", rfg_last_error());
    ck_assert_msg(decode(decodes[_i].params) == RFG_OK, "%s", rfg_last_error());
    rfg_context_stats(ctx, &stats);
    ck_assert_uint_eq(stats.plans, 1); /* the call found what was prepared */
    ck_assert_uint_eq(stats.calls, 1);
    ck_assert_int_ne(m.out[0], 0x7777);
}
END_TEST

/* ---- beginnings and ends ----------------------------------------------------------------------------------------- */

static rfg_status act(int rows)
{
    static uint16_t x[256], y[256];
    rfg_tensor tx = rfg_tensor_2d(x, RFG_BF16, rows, 8, 8), ty = rfg_tensor_2d(y, RFG_BF16, rows, 8, 8);
    return rfg_op_act(ctx, &ty, &tx, NULL, NULL);
}

static void *call_elsewhere(void *arg)
{
    *(rfg_status *)arg = act(2);
    return NULL;
}

START_TEST(only_this_thread_and_context)
{
    char text[RFG_PROBLEM_MAX] = "old";
    rfg_status st = RFG_ERROR_INTERNAL;
    pthread_t other;
    rfg_stats stats = RFG_STATS_INIT;
    ck_assert_int_eq(rfg_describe_begin(ctx, text, sizeof(text)), RFG_OK);
    ck_assert_int_eq(pthread_create(&other, NULL, call_elsewhere, &st), 0);
    pthread_join(other, NULL);
    ck_assert_int_eq(st, RFG_OK);
    ck_assert_str_eq(text, ""); /* the other thread's call was made */
    rfg_context_stats(ctx, &stats);
    ck_assert_uint_eq(stats.calls, 1);
    rfg_context *mine = ctx;
    setup(); /* another context: calls with it are made */
    ck_assert_int_eq(act(3), RFG_OK);
    ck_assert_str_eq(text, "");
    ck_assert_int_eq(rfg_describe_begin(ctx, text, sizeof(text)), RFG_ERROR_INVALID_ARGUMENT);
    PRINTS(rfg_last_error(), "already");
    rfg_describe_end(ctx); /* not this one's */
    teardown();
    ctx = mine;
    ck_assert_int_eq(act(4), RFG_OK);
    PRINTS(text, "act bf16->bf16 M=4 N=8");
    ck_assert_int_eq(act(5), RFG_OK);
    PRINTS(text, "M=5");
    rfg_describe_end(ctx);
    ck_assert_int_eq(act(6), RFG_OK);
    PRINTS(text, "M=5");
    rfg_context_stats(ctx, &stats);
    ck_assert_uint_eq(stats.calls, 2);
    rfg_describe_end(ctx);
    rfg_describe_end(NULL);
}
END_TEST

/* A context that is destroyed by a thread that describes: the next one is a new one. */
START_TEST(destroyed_between)
{
    char text[RFG_PROBLEM_MAX] = "old";
    ck_assert_int_eq(rfg_describe_begin(ctx, text, sizeof(text)), RFG_OK);
    teardown();
    setup();
    ck_assert_int_eq(rfg_describe_begin(ctx, text, sizeof(text)), RFG_OK);
    rfg_describe_end(ctx);
}
END_TEST

START_TEST(refusals)
{
    char text[RFG_PROBLEM_MAX] = "before";
    ck_assert_int_eq(rfg_describe_begin(NULL, text, sizeof(text)), RFG_ERROR_INVALID_ARGUMENT);
    PRINTS(rfg_last_error(), "ctx is NULL");
    ck_assert_int_eq(rfg_describe_begin(ctx, NULL, sizeof(text)), RFG_ERROR_INVALID_ARGUMENT);
    PRINTS(rfg_last_error(), "buf is NULL");
    ck_assert_int_eq(rfg_describe_begin(ctx, text, sizeof(text) - 1), RFG_ERROR_INVALID_ARGUMENT);
    PRINTS(rfg_last_error(), "size is 511: must be at least 512");
    ck_assert_str_eq(text, "before");
    ck_assert_int_eq(rfg_describe_begin(ctx, text, sizeof(text)), RFG_OK);
    ck_assert_int_eq(rfg_op_act(ctx, NULL, NULL, NULL, NULL), RFG_ERROR_INVALID_ARGUMENT);
    ck_assert_str_eq(text, ""); /* a call that is refused describes nothing, */
    ck_assert_int_eq(act(0), RFG_OK);
    ck_assert_str_eq(text, ""); /* nor does one with nothing to do */
    rfg_describe_end(ctx);
}
END_TEST

static char *explained(const char *problem, size_t size)
{
    char *text = malloc(size);
    ck_assert_msg(rfg_explain(ctx, problem, text, size) == RFG_OK, "%s", rfg_last_error());
    return text;
}

/* Several calls make a list, which is prepared and explained as a whole, and is never cut off. */
START_TEST(lists)
{
    char text[RFG_DESCRIBE_MAX], small[RFG_PROBLEM_MAX], line[RFG_PROBLEM_MAX];
    rfg_stats stats = RFG_STATS_INIT;
    ck_assert_int_eq(rfg_describe_begin(ctx, text, sizeof(text)), RFG_OK);
    for (int rows = 1; rows < 4; rows++)
        ck_assert_int_eq(act(rows), RFG_OK);
    ck_assert_int_eq(act(1), RFG_OK); /* it is there */
    rfg_describe_end(ctx);
    ck_assert_str_eq(text, "act bf16->bf16 M=1 N=8\nact bf16->bf16 M=2 N=8\nact bf16->bf16 M=3 N=8");
    ck_assert_msg(rfg_prepare(ctx, text) == RFG_OK, "%s", rfg_last_error());
    rfg_context_stats(ctx, &stats);
    ck_assert_uint_eq(stats.plans, 3);
    char *said = explained(text, 65536);
    PRINTS(said, "act bf16->bf16 M=2 N=8\n");
    PRINTS(said, "act bf16->bf16 M=3 N=8\n");
    free(said);

    ck_assert_int_eq(rfg_describe_begin(ctx, small, sizeof(small)), RFG_OK);
    size_t most = sizeof(small);
    rfg_status st = RFG_OK;
    for (int rows = 1; st == RFG_OK; rows++) {
        ck_assert_int_lt(rows, (int)most);
        snprintf(line, sizeof(line), "%s", strrchr(small, '\n') ? strrchr(small, '\n') + 1 : small);
        st = act(rows);
    }
    rfg_describe_end(ctx);
    ck_assert_int_eq(st, RFG_ERROR_INVALID_ARGUMENT);
    PRINTS(rfg_last_error(), "size is 512: must be at least 5");
    ck_assert_str_eq(strrchr(small, '\n') + 1, line); /* what was there before is whole */
}
END_TEST

static const struct {
    const char *problems;
    unsigned plans;
    const char *says; /* NULL: right */
} listed[] = {
    { "act bf16->bf16 M=1..3 N=8\n\nact bf16->bf16 M=7 N=8\n", 4, NULL },
    { "\r\nact bf16->bf16 M=1..2 N=8\r\nact bf16->bf16 M=2..3 N=8", 3, NULL },
    { "act bf16->bf16 M=1 N=8\nact bf16->bf16 M=2 Q=8", 0, "Q" },
    { "act bf16->bf16 M=1..4096 N=8\nact bf16->bf16 M=1 N=9", 0, "must be at most" },
    { "act bf16->bf16 M=1..2 N=8..9", 0, "second range" },
    { "\n \n", 0, "no such operator" },
};

START_TEST(lists_prepared)
{
    rfg_stats stats = RFG_STATS_INIT;
    rfg_status st = rfg_prepare(ctx, listed[_i].problems);
    ck_assert_msg(st == (listed[_i].says ? RFG_ERROR_INVALID_ARGUMENT : RFG_OK), "%s", rfg_last_error());
    if (listed[_i].says)
        PRINTS(rfg_last_error(), listed[_i].says);
    rfg_context_stats(ctx, &stats);
    ck_assert_uint_eq(stats.plans, listed[_i].plans);
}
END_TEST

/* A text that has no room is said to have none, with the size that it takes. */
START_TEST(explained_whole)
{
    const char *problem = "gemm bf16,bf16->bf16 M=1 N=1 K=1";
    char *all = explained(problem, 65536), *text = malloc(65536), need[40];
    size_t size = strlen(all) + 1;
    ck_assert_int_eq(rfg_explain(ctx, problem, text, size), RFG_OK);
    ck_assert_str_eq(text, all);
    ck_assert_int_eq(rfg_explain(ctx, problem, text, size - 1), RFG_ERROR_INVALID_ARGUMENT);
    ck_assert_int_eq(strncmp(text, all, size - 2), 0);
    snprintf(need, sizeof(need), "must be at least %zu ", size);
    PRINTS(rfg_last_error(), need);
    free(text);
    free(all);
}
END_TEST

/* ---- keys -------------------------------------------------------------------------------------------------------- */

/* No problem has more characters than are promised, whatever its keys. */
START_TEST(longest_problems)
{
    for (int n = 0; rfg_ops[n]; n++) {
        const struct rfg_op *op = rfg_ops[n];
        char dtypes[200], one[60];
        size_t longest = strlen(op->name) + 1 + 10 * (size_t)(op->n_in + op->n_out); /* "e4m3fnuz->" */
        for (int k = 0; k < op->n_keys; k++) {
            const struct rfg_key *key = &op->keys[k];
            size_t most = 0;
            for (const char *s = key->names || key->formats ? rfg_key_values(key, "\n", dtypes, sizeof(dtypes)) : NULL;
                 s; s = (s = strchr(s, '\n')) ? s + 1 : NULL)
                most = strcspn(s, "\n") > most ? strcspn(s, "\n") : most;
            if (!most)
                most = (size_t)snprintf(one, sizeof(one), "%lld", (long long)key->max);
            longest += strlen(key->name) + 2 + most;
        }
        ck_assert_msg(longest < RFG_PROBLEM_MAX, "%s: %zu characters", op->name, longest);
    }
}
END_TEST

START_TEST(all_keys_are_listed)
{
    static const char *const headers[] = {
#define RFG_OP(name, folder) "include/rfg/" #folder ".h",
#include "ops/registry.def"
#undef RFG_OP
    };
    for (int n = 0; rfg_ops[n]; n++) {
        const struct rfg_op *op = rfg_ops[n];
        bool mla = !strncmp(op->name, "mla_", 4); /* of attention's folder, but with a header of its own */
        char args[60], *header = read_source(mla ? "include/rfg/mla.h" : headers[n]);
        snprintf(args, sizeof(args), "--keys %s", op->name);
        ck_assert_msg(run_program("rfg-info", "%s", args) == 0, "%s", err);
        for (int k = 0; k < op->n_keys; k++) {
            const struct rfg_key *key = &op->keys[k];
            ck_assert_msg(key->help && *key->help, "%s: %s: no help", op->name, key->name);
            snprintf(args, sizeof(args), "\n  %s=", key->name);
            ck_assert_msg(strstr(out, args) != NULL, "rfg-info --keys %s: no %s", op->name, key->name);
            ck_assert_msg(strstr(out, key->help) != NULL, "rfg-info --keys %s: %s: no help", op->name, key->name);
            ck_assert_msg(strstr(header, args + 3) != NULL, "%s: no %s=", headers[n], key->name);
        }
        free(header);
    }
    RUNS(run_program("rfg-info", "--keys nonsense"), 2, err, "no such operator: must be one of gemm, ");
    RUNS(run_program("rfg-info", "--keys"), 0, out, "add_layernorm x->q\n");
    ck_assert_int_eq(run_program("rfg-info", "--keys mha"), 0); /* what columns N and K are is no matter of course */
    PRINTS(out, "\n  S=0.. (column N of CSV files)\n");
    PRINTS(out, "(column K of CSV files)\n");
    ck_assert_int_eq(run_program("rfg-info", "--keys gemm"), 0);
    ck_assert_ptr_null(strstr(out, "(column"));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("describe");
    TCase *tc = tcase_create("describe");
    tcase_add_checked_fixture(tc, program_setup, program_teardown);
    tcase_add_checked_fixture(tc, setup, teardown);
    ADD_TESTS(tc, documented_strings, shapes_files, only_this_thread_and_context, destroyed_between, refusals, lists,
              explained_whole, longest_problems, all_keys_are_listed);
    ADD_LOOPS(tc, sizeof(decodes) / sizeof(decodes[0]), asked_prepared_called);
    ADD_LOOPS(tc, sizeof(listed) / sizeof(listed[0]), lists_prepared);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
