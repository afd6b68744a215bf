/* SPDX-License-Identifier: MIT
 *
 * Each rung of the dispatcher's ladder, the reasons to skip a row, and its log, on the cpu device. */
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ladder_case.h"

#define P8 "gemm f32,f32->f32 M=8 N=32 K=64"

START_TEST(rung_1_exact)
{
    put_row(user_db, P8, 0, 5);
    rfg_context *ctx = open_ctx(NULL);
    struct rfg_choice c = choose(ctx, P8);
    ck_assert_int_eq(c.rung, RFG_RUNG_EXACT);
    ck_assert_ptr_eq(c.variant, &gemm_cpu_portable);
    ck_assert_double_eq(c.row->median_us, 5);
    ck_assert_int_eq(run(ctx, 8, 32, 64), RFG_RUNG_EXACT);
    /* strides and alignment are no part of the key */
    ck_assert_int_eq(choose(ctx, P8 " ldx=80 align=4").rung, RFG_RUNG_EXACT);
    /* but dtypes, sizes and attributes are */
    ck_assert_int_eq(choose(ctx, P8 " bias=1").rung, RFG_RUNG_MODEL);
    ck_assert_int_eq(choose(ctx, "gemm f32,f32->bf16 M=8 N=32 K=64").rung, RFG_RUNG_MODEL);
    ck_assert_int_eq(choose(ctx, "gemm f32,f32->f32 M=8 N=33 K=64").rung, RFG_RUNG_MODEL);
    rfg_context_destroy(&ctx);
}
END_TEST

START_TEST(rung_2_nearest_m)
{
    put_row(user_db, "gemm f32,f32->f32 M=4 N=512 K=1024", 0, 4);
    put_row(user_db, "gemm f32,f32->f32 M=16 N=512 K=1024", 0, 16);
    put_row(user_db, "gemm f32,f32->f32 M=9 N=511 K=1024", 0, 31); /* another N */
    put_row(user_db, "gemm f32,f32->f32 M=9 N=512 K=1024", 1, 99); /* another CU count */
    rfg_context *ctx = open_ctx(NULL);
    struct rfg_choice c = choose(ctx, "gemm f32,f32->f32 M=9 N=512 K=1024");
    ck_assert_int_eq(c.rung, RFG_RUNG_NEAREST);
    ck_assert_double_eq(c.row->median_us, 16);
    ck_assert_double_eq(choose(ctx, "gemm f32,f32->f32 M=8 N=512 K=1024").row->median_us, 4); /* a tie: the smaller */
    ck_assert_double_eq(choose(ctx, "gemm f32,f32->f32 M=2 N=512 K=1024").row->median_us, 4);
    ck_assert_double_eq(choose(ctx, "gemm f32,f32->f32 M=32 N=512 K=1024").row->median_us, 16);
    /* Far away, the model's word counts: it expects more of its own pick than of the portable variant. */
    ck_assert_int_eq(choose(ctx, "gemm f32,f32->f32 M=1000 N=512 K=1024").rung, RFG_RUNG_MODEL);
    ck_assert_int_eq(choose(ctx, "gemm f32,f32->f32 M=33 N=512 K=1024").rung, RFG_RUNG_MODEL);
    put_row(user_db, "gemm f32,f32->f32 M=512 N=48 K=64", 0, 512);
    rfg_context *far = open_ctx(NULL);
    ck_assert_int_eq(choose(far, "gemm f32,f32->f32 M=256 N=48 K=64").rung, RFG_RUNG_NEAREST);
    ck_assert_int_eq(choose(far, "gemm f32,f32->f32 M=255 N=48 K=64").rung, RFG_RUNG_MODEL);
    ck_assert_int_eq(choose(far, "gemm f32,f32->f32 M=1024 N=48 K=64").rung, RFG_RUNG_NEAREST);
    ck_assert_int_eq(choose(far, "gemm f32,f32->f32 M=1025 N=48 K=64").rung, RFG_RUNG_MODEL);
    rfg_context_destroy(&far);
    /* Of this pick and the portable variant the model expects times that are 1.2 apart: enough more than eight times
     * away. */
    put_row(user_db, "gemm f32,f32->f32 M=64 N=40 K=64", 0, 64);
    far = open_ctx(NULL);
    ck_assert_int_eq(choose(far, "gemm f32,f32->f32 M=8 N=40 K=64").rung, RFG_RUNG_NEAREST);
    ck_assert_int_eq(choose(far, "gemm f32,f32->f32 M=7 N=40 K=64").rung, RFG_RUNG_MODEL);
    rfg_context_destroy(&far);
    ck_assert_int_eq(run(ctx, 9, 512, 1024), RFG_RUNG_NEAREST);
    rfg_context_destroy(&ctx);
}
END_TEST

START_TEST(rung_3_other_cu_count)
{
    put_row(user_db, P8, 100, 100);
    put_row(user_db, P8, 1, 1);
    rfg_context *ctx = open_ctx(NULL);
    struct rfg_choice c = choose(ctx, P8);
    ck_assert_int_eq(c.rung, RFG_RUNG_OTHER_CUS);
    ck_assert_double_eq(c.row->median_us, 1);
    ck_assert_int_eq(run(ctx, 8, 32, 64), RFG_RUNG_OTHER_CUS);
    rfg_context_destroy(&ctx);
}
END_TEST

struct first_best {
    const struct rfg_variant *var;
    const struct rfg_problem *prob;
    const struct rfg_device *dev;
    double us;
    int p[RFG_MAX_PARAMS], ties;
    const struct rfg_variant *best;
};

static bool keep_first_best(void *arg, const int *p)
{
    struct first_best *f = arg;
    double us = f->var->predict(f->dev, f->prob, p);
    f->ties += f->best && us == f->us;
    if (!f->best || us < f->us) {
        f->us = us;
        f->best = f->var;
        f->ties = 0;
        memcpy(f->p, p, (size_t)f->var->n_params * sizeof(int));
    }
    return true;
}

static struct first_best model_of(const struct rfg_device *dev, const struct rfg_problem *prob)
{
    struct first_best f = { .prob = prob, .dev = dev };
    for (int i = 0; i < rfg_op_variants(prob->op)->n; i++) {
        f.var = rfg_op_variants(prob->op)->list[i];
        if (f.var->predict && f.var->kind != RFG_VARIANT_VENDOR)
            rfg_variant_each(f.var, dev, prob, keep_first_best, &f);
    }
    ck_assert_ptr_nonnull(f.best);
    return f;
}

static void put_of_model(const struct first_best *f, enum rfg_source how)
{
    struct rfg_db *db;
    struct rfg_row row = { .problem = *f->prob,
                           .cu_count = f->dev->cu_count,
                           .median_us = f->us,
                           .samples = how == RFG_SOURCE_PREDICTED ? 0 : 9,
                           .error_bound = how == RFG_SOURCE_PREDICTED ? 0 : 1,
                           .how = how,
                           .date = "2026-11-21T00:00:00Z",
                           .version = RFG_VERSION,
                           .device = "another" };
    snprintf(row.arch, sizeof(row.arch), "%s", f->dev->arch);
    snprintf(row.variant, sizeof(row.variant), "%s", f->best->name);
    rfg_params_json(f->best, f->p, row.params, sizeof(row.params));
    ck_assert_msg(rfg_db_open(&db, user_db, RFG_DB_WRITE) == RFG_OK, "%s", rfg_last_error());
    ck_assert_msg(rfg_db_put(db, &row) == RFG_OK, "%s", rfg_last_error());
    rfg_db_close(&db);
}

static enum rfg_rung rung_on(const char *device, const struct rfg_problem *prob)
{
    rfg_context *ctx;
    struct rfg_choice c;
    rfg_context_params p = {
        .size = sizeof(p), .device = device, .user_db = user_db, .system_db = "", .cache_dir = ""
    };
    ck_assert_msg(rfg_context_create(&ctx, &p) == RFG_OK, "%s", rfg_last_error());
    ck_assert_msg(rfg_choose(ctx, prob, RFG_RUNG_EXACT, 0, &c, NULL, NULL) == RFG_OK, "%s", rfg_last_error());
    rfg_context_destroy(&ctx);
    return c.rung;
}

/* A predicted row serves its own problem on its own CU count: where its neighbours have none, the model's choice is
 * right. A measured one serves them, too. */
START_TEST(predicted_rows)
{
    struct rfg_device whole;
    struct rfg_problem prob = op_problem("gemm bf16,bf16->bf16 M=64 N=3072 K=1536"),
                       near = op_problem("gemm bf16,bf16->bf16 M=48 N=3072 K=1536");
    ck_assert(rfg_device_imagine(&whole, "gfx942:304"));
    strcpy(whole.arch, "emu-gfx942");
    struct first_best best = model_of(&whole, &prob);
    put_of_model(&best, RFG_SOURCE_PREDICTED);
    ck_assert_int_eq(rung_on("emu:gfx942:304", &prob), RFG_RUNG_EXACT);
    ck_assert_int_eq(rung_on("emu:gfx942:304", &near), RFG_RUNG_MODEL);
    ck_assert_int_eq(rung_on("emu:gfx942:38", &prob), RFG_RUNG_MODEL);
    put_of_model(&best, RFG_SOURCE_MEASURED);
    ck_assert_int_eq(rung_on("emu:gfx942:304", &near), RFG_RUNG_NEAREST);
    ck_assert_int_eq(rung_on("emu:gfx942:38", &prob), RFG_RUNG_OTHER_CUS);
}
END_TEST

START_TEST(rung_4_model)
{
    rfg_context *ctx = open_ctx(NULL);
    struct rfg_choice c = choose(ctx, P8);
    ck_assert_int_eq(c.rung, RFG_RUNG_MODEL);
    ck_assert_double_gt(c.predicted_us, 0);
    ck_assert_int_eq(run(ctx, 8, 32, 64), RFG_RUNG_MODEL);
    rfg_context_destroy(&ctx);
}
END_TEST

/* Of what the model thinks alike, the first of the operator's list. */
START_TEST(ties_go_to_the_first)
{
    static const char *const problems[] = { P8, "gemm bf16,bf16->bf16 M=1 N=64 K=512", "act bf16->bf16 M=3 N=64",
                                            "rmsnorm f32->f32 M=3 N=64" };
    rfg_context *ctx = open_ctx(NULL);
    int ties = 0;
    for (size_t i = 0; i < sizeof(problems) / sizeof(problems[0]); i++) {
        struct rfg_problem p = op_problem(problems[i]);
        struct first_best f = { .prob = &p, .dev = rfg_context_info(ctx) };
        for (int v = 0; v < rfg_op_variants(p.op)->n; v++) {
            f.var = rfg_op_variants(p.op)->list[v];
            if (f.var->predict)
                rfg_variant_each(f.var, f.dev, &p, keep_first_best, &f);
        }
        struct rfg_choice c = choose(ctx, problems[i]);
        ck_assert_ptr_eq(c.variant, f.best);
        ck_assert_msg(!memcmp(c.params, f.p, sizeof(f.p)), "%s: not the first", problems[i]);
        ties += f.ties;
    }
    ck_assert_int_gt(ties, 0); /* else it proves nothing */
    rfg_context_destroy(&ctx);
}
END_TEST

START_TEST(rung_5_portable)
{
    rfg_context *ctx = open_ctx(NULL);
    struct rfg_problem p = op_problem(P8);
    struct rfg_choice c;
    ck_assert_int_eq(rfg_choose(ctx, &p, RFG_RUNG_PORTABLE, 0, &c, NULL, NULL), RFG_OK);
    ck_assert_int_eq(c.rung, RFG_RUNG_PORTABLE);
    ck_assert_ptr_eq(c.variant, &gemm_cpu_portable);
    rfg_context_destroy(&ctx);
}
END_TEST

START_TEST(no_variant_allowed)
{
    rfg_context *ctx = open_ctx("gemm_skinny,act_portable");
    struct rfg_problem p = op_problem(P8);
    struct rfg_choice c;
    ck_assert_int_eq(rfg_choose(ctx, &p, RFG_RUNG_EXACT, 0, &c, NULL, NULL), RFG_ERROR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(rfg_last_error(), "gemm_cpu_portable: switched off by RFG_VARIANTS"));
    ck_assert_ptr_nonnull(strstr(rfg_last_error(), P8));
    float f = 0;
    rfg_tensor t = rfg_tensor_2d(&f, RFG_F32, 1, 1, 1), y = t;
    float g = 7;
    y.data = &g;
    ck_assert_int_eq(rfg_op_gemm(ctx, &y, &t, &t, NULL, NULL), RFG_ERROR_UNSUPPORTED);
    ck_assert_float_eq(g, 7);
    rfg_context_destroy(&ctx);
}
END_TEST

/* ---- rows that are no longer true ------------------------------------------------------------------------------- */

static const struct {
    const char *sql, *why;
} broken[] = {
    { "update tuned set variant='gemm_gone' where M=8", "variant 'gemm_gone' does not exist" },
    { "update tuned set params='{\\\"nonsense\\\":1}' where M=8", "nonsense" },
    { "update tuned set params='not json' where M=8", "params" },
    { "update tuned set params='{}' where M=8", "" },
    { "update tuned set variant='gemm_skinny', params='{}' where M=8", "" },
};

START_TEST(broken_rows_are_skipped)
{
    put_row(user_db, P8, 0, 5);
    put_row(user_db, "gemm f32,f32->f32 M=16 N=32 K=64", 0, 16);
    damage_row(broken[_i].sql);
    char log[96], cmd[200];
    snprintf(log, sizeof(log), "%s/stderr", dir);
    ck_assert_ptr_nonnull(freopen(log, "w", stderr));
    rfg_context *ctx = open_ctx(NULL);
    for (int i = 0; i < 3; i++) {
        struct rfg_choice c = choose(ctx, P8);
        ck_assert_int_eq(c.rung, RFG_RUNG_NEAREST); /* the ladder goes on */
        ck_assert_double_eq(c.row->median_us, 16);
    }
    ck_assert_int_eq(run(ctx, 8, 32, 64), RFG_RUNG_NEAREST);
    char buf[4096];
    ck_assert_int_eq(rfg_explain(ctx, P8, buf, sizeof(buf)), RFG_OK);
    ck_assert_msg(strstr(buf, "rung 1") && strstr(buf, "skipped") && strstr(buf, broken[_i].why), "%s", buf);
    rfg_context_destroy(&ctx);
    fflush(stderr);
    snprintf(cmd, sizeof(cmd), "test $(grep -c 'warning: tuned row' %s) = 1", log); /* one warning, not four */
    ck_assert_int_eq(system(cmd), 0);
}
END_TEST

/* ---- rows are checked against their own problem, and against the call's ------------------------------------------ */

/* A row of an emulated GPU: its variants take less than the cpu's. */
static void put_emu_row(const char *text, const char *variant, const char *params, double us)
{
    struct rfg_db *db;
    struct rfg_row row = { .problem = op_problem(text),
                           .arch = "emu-gfx942",
                           .cu_count = 4,
                           .median_us = us,
                           .samples = 9,
                           .error = 0.5,
                           .error_bound = 1,
                           .how = RFG_SOURCE_MEASURED,
                           .date = "2026-11-21T00:00:00Z",
                           .version = RFG_VERSION };
    snprintf(row.variant, sizeof(row.variant), "%s", variant);
    snprintf(row.params, sizeof(row.params), "%s", params);
    ck_assert_msg(rfg_db_open(&db, user_db, RFG_DB_WRITE) == RFG_OK, "%s", rfg_last_error());
    ck_assert_msg(rfg_db_put(db, &row) == RFG_OK, "%s", rfg_last_error());
    rfg_db_close(&db);
}

static const struct {
    const char *row, *call;
    bool broken; /* the row is no good for anybody, which is worth a warning */
} mismatched[] = {
    { "gemm bf16,bf16->bf16 M=8 N=64 K=512", "gemm bf16,bf16->bf16 M=8 N=64 K=512 align=2", false },
    { "gemm bf16,bf16->bf16 M=8 N=64 K=512", "gemm bf16,bf16->bf16 M=12 N=64 K=512", false },
    { "gemm bf16,bf16->bf16 M=12 N=64 K=512", "gemm bf16,bf16->bf16 M=8 N=64 K=512", true },
    { "gemm bf16,bf16->bf16 M=12 N=64 K=512", "gemm bf16,bf16->bf16 M=12 N=64 K=512", true },
};

START_TEST(rows_that_dont_fit)
{
    char buf[8192], log[96];
    put_emu_row(mismatched[_i].row, "gemm_skinny", "{\"m_tile\":8,\"rows\":1,\"waves\":4,\"unroll\":2,\"split_k\":1}",
                0.01);
    snprintf(log, sizeof(log), "%s/stderr", dir);
    ck_assert_ptr_nonnull(freopen(log, "w", stderr));
    rfg_context *ctx;
    rfg_context_params p = {
        .size = sizeof(p), .device = "emu:gfx942:4", .user_db = user_db, .system_db = "", .cache_dir = ""
    };
    ck_assert_msg(rfg_context_create(&ctx, &p) == RFG_OK, "%s", rfg_last_error());
    struct rfg_choice c = choose(ctx, mismatched[_i].call);
    ck_assert_msg(c.rung == RFG_RUNG_MODEL, "taken by rung %d: %s", (int)c.rung, mismatched[_i].row);
    ck_assert_int_eq(rfg_explain(ctx, mismatched[_i].call, buf, sizeof(buf)), RFG_OK);
    ck_assert_msg(strstr(buf, "skipped: "), "%s", buf);
    if (!mismatched[_i].broken) { /* but it is good for its own problem */
        c = choose(ctx, mismatched[_i].row);
        ck_assert_int_eq(c.rung, RFG_RUNG_EXACT);
    }
    rfg_context_destroy(&ctx);
    fflush(stderr);
    FILE *f = fopen(log, "r");
    size_t n = fread(buf, 1, sizeof(buf) - 1, f);
    buf[n] = 0;
    fclose(f);
    ck_assert_msg((strstr(buf, "warning: tuned row") != NULL) == mismatched[_i].broken, "%s", buf);
}
END_TEST

/* Nothing is wrong with a row whose variant is switched off. */
START_TEST(rows_that_are_switched_off)
{
    char buf[4096], log[96];
    put_row(user_db, P8, 0, 0.01);
    snprintf(log, sizeof(log), "%s/stderr", dir);
    ck_assert_ptr_nonnull(freopen(log, "w", stderr));
    rfg_context *ctx = open_ctx("gemm_cpu_avx2");
    ck_assert_int_eq(rfg_explain(ctx, P8, buf, sizeof(buf)), RFG_OK);
    ck_assert_msg(strstr(buf, "skipped: variant gemm_cpu_portable is switched off") != NULL, "%s", buf);
    rfg_context_destroy(&ctx);
    ctx = open_ctx("act_cpu_portable"); /* another operator's: the row counts */
    ck_assert_int_eq(choose(ctx, P8).rung, RFG_RUNG_EXACT);
    rfg_context_destroy(&ctx);
    fflush(stderr);
    FILE *f = fopen(log, "r");
    buf[fread(buf, 1, sizeof(buf) - 1, f)] = 0;
    fclose(f);
    ck_assert_msg(!strstr(buf, "warning: tuned row"), "%s", buf);
}
END_TEST

/* ---- files ------------------------------------------------------------------------------------------------------- */

START_TEST(user_wins_over_system)
{
    put_row(system_db, P8, 0, 50);
    rfg_context *ctx = open_ctx(NULL);
    ck_assert_double_eq(choose(ctx, P8).row->median_us, 50);
    rfg_context_destroy(&ctx);
    put_row(user_db, P8, 0, 60); /* slower, but it is the user's */
    ctx = open_ctx(NULL);
    ck_assert_double_eq(choose(ctx, P8).row->median_us, 60);
    rfg_context_destroy(&ctx);
}
END_TEST

START_TEST(unreadable_databases_cost_only_speed)
{
    static const char *const cmds[] = { "head -c 5000 /dev/urandom > %s", "printf 'SQLite format 3' > %s", ": > %s",
                                        "mkdir %s" };
    char cmd[200];
    put_row(system_db, P8, 0, 50);
    snprintf(cmd, sizeof(cmd), cmds[_i], user_db);
    ck_assert_int_eq(system(cmd), 0);
    rfg_context *ctx = open_ctx(NULL);
    ck_assert_int_eq(choose(ctx, P8).rung, RFG_RUNG_EXACT); /* the other file still counts */
    ck_assert_int_eq(run(ctx, 3, 5, 7), RFG_RUNG_MODEL);
    rfg_context_destroy(&ctx);
}
END_TEST

static bool count_miss(void *arg, const struct rfg_problem *prob, const char *arch, int cu_count, int rung,
                       uint64_t calls, const char *last)
{
    char text[RFG_PROBLEM_STRLEN];
    (void)arch;
    (void)cu_count;
    (void)last;
    rfg_problem_format(prob, text, sizeof(text));
    if (!strcmp(text, "gemm f32,f32->f32 M=3 N=5 K=7"))
        *(int *)arg += 100 * (int)calls + rung;
    else
        *(int *)arg += 1000000;
    return true;
}

START_TEST(misses_are_recorded)
{
    put_row(user_db, P8, 0, 5);
    rfg_context *ctx = open_ctx(NULL);
    for (int i = 0; i < 3; i++)
        run(ctx, 3, 5, 7);
    run(ctx, 8, 32, 64); /* no miss */
    rfg_stats stats = RFG_STATS_INIT;
    rfg_context_stats(ctx, &stats);
    ck_assert_uint_eq(stats.calls, 4);
    ck_assert_uint_eq(stats.misses, 3);
    ck_assert_uint_eq(stats.plans, 2);
    ck_assert_uint_eq(stats.compiles, 0);
    rfg_context_destroy(&ctx);
    ctx = open_ctx(NULL);
    for (int i = 0; i < 2; i++)
        run(ctx, 3, 5, 7);
    rfg_context_destroy(&ctx);

    struct rfg_db *db;
    int sum = 0;
    ck_assert_int_eq(rfg_db_open(&db, user_db, RFG_DB_READ), RFG_OK);
    ck_assert_int_eq(rfg_db_each_miss(db, count_miss, &sum), RFG_OK);
    ck_assert_int_eq(sum, 504); /* five calls, rung 4 */
    rfg_db_close(&db);
}
END_TEST

/* A call in the midst of an engine's work doesn't wait for whoever holds the database, and what it missed is written
 * later. */
START_TEST(locked_databases_cost_no_time)
{
    put_row(user_db, P8, 0, 5);
    rfg_context *ctx = open_ctx(NULL);
    run(ctx, 3, 5, 7);
    sqlite3 *h;
    ck_assert_int_eq(sqlite3_open(user_db, &h), SQLITE_OK);
    ck_assert_int_eq(sqlite3_exec(h, "begin exclusive", NULL, NULL, NULL), SQLITE_OK);
    for (int i = 0; i < 3; i++) {
        ctx->save_misses_at = 0; /* time to write */
        double before = rfg_now();
        run(ctx, 4 + i, 5, 7);
        ck_assert_double_lt(rfg_now() - before, 1);
        ck_assert_int_eq(ctx->misses_failed, i + 1);
        ck_assert_double_gt(ctx->save_misses_at, rfg_now());
    }
    run(ctx, 3, 5, 7);
    ck_assert_int_eq(sqlite3_exec(h, "rollback", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(h);
    ctx->save_misses_at = 0;
    run(ctx, 9, 5, 7);
    ck_assert_int_eq(ctx->misses_failed, 0);
    struct rfg_db *db;
    int sum = 0;
    ck_assert_int_eq(rfg_db_open(&db, user_db, RFG_DB_READ), RFG_OK);
    ck_assert_int_eq(rfg_db_each_miss(db, count_miss, &sum), RFG_OK);
    ck_assert_int_eq(sum, 3 * 1000000 + 204); /* both calls of M=3, and three other problems */
    rfg_db_close(&db);
    rfg_context_destroy(&ctx);
}
END_TEST

/* A lock that nobody lets go of costs a context's creation its patience of 2 s once, however much is read there. */
START_TEST(locked_databases_are_waited_for_once)
{
    put_row(user_db, P8, 0, 5);
    sqlite3 *h;
    ck_assert_int_eq(sqlite3_open(user_db, &h), SQLITE_OK);
    ck_assert_int_eq(sqlite3_exec(h, "pragma journal_mode=delete; begin exclusive", NULL, NULL, NULL), SQLITE_OK);
    double before = rfg_now();
    rfg_context *ctx = open_ctx(NULL);
    ck_assert_double_lt(rfg_now() - before, 3.5);
    ck_assert_int_eq(sqlite3_exec(h, "rollback", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(h);
    rfg_context_destroy(&ctx);
}
END_TEST

/* Many rows that can't be used make a few messages. */
START_TEST(a_few_warnings_of_many_rows)
{
    char text[100], cmd[400];
    for (int i = 0; i < 20; i++) {
        snprintf(text, sizeof(text), "gemm f32,f32->f32 M=%d N=32 K=64", 8 + i);
        put_row(user_db, text, 0, 5);
    }
    damage_row("update tuned set variant='gemm_gone'");
    snprintf(text, sizeof(text), "%s/stderr", dir);
    ck_assert_ptr_nonnull(freopen(text, "w", stderr));
    rfg_context *ctx = open_ctx(NULL);
    run(ctx, 8, 32, 64);
    rfg_context_destroy(&ctx);
    fflush(stderr);
    snprintf(cmd, sizeof(cmd), "test $(grep -c \"warning: tuned row '\" %s) = %d && grep -q 'not all are shown' %s",
             text, RFG_WARNINGS_OF_A_KIND, text);
    ck_assert_int_eq(system(cmd), 0);
}
END_TEST

/* Nothing is written that nobody asked for. */
static const struct {
    const char *env;
    int misses;
    bool written;
} asked[] = {
    { NULL, 0, false }, { "0", 0, false }, { "1", 0, true }, { NULL, 1, true }, { "0", 1, true }, { "1", -1, false },
};

START_TEST(misses_only_if_asked)
{
    rfg_context *ctx;
    rfg_context_params p = { .size = sizeof(p),
                             .device = "cpu",
                             .user_db = user_db,
                             .system_db = "",
                             .cache_dir = "",
                             .misses = asked[_i].misses };
    if (asked[_i].env)
        setenv("RFG_MISSES", asked[_i].env, 1);
    ck_assert_int_eq(rfg_context_create(&ctx, &p), RFG_OK);
    run(ctx, 3, 5, 7);
    rfg_stats stats = RFG_STATS_INIT;
    rfg_context_stats(ctx, &stats);
    ck_assert_uint_eq(stats.misses, 1);
    rfg_context_destroy(&ctx);
    ck_assert_int_eq(access(user_db, F_OK) == 0, asked[_i].written);
}
END_TEST

/* ---- preparing, explaining --------------------------------------------------------------------------------------- */

START_TEST(preparing)
{
    rfg_context *ctx = open_ctx(NULL);
    struct rfg_problem p = op_problem(P8);
    ck_assert_ptr_null(rfg_plan_find(ctx, &p));
    ck_assert_int_eq(rfg_prepare(ctx, P8), RFG_OK);
    ck_assert_ptr_nonnull(rfg_plan_find(ctx, &p));
    ck_assert_int_eq(rfg_prepare(ctx, "gemm f32,f32->f32 M=8 N=32"), RFG_ERROR_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(rfg_last_error(), "K= is missing"));
    ck_assert_int_eq(rfg_prepare(NULL, P8), RFG_ERROR_INVALID_ARGUMENT);
    ck_assert_int_eq(rfg_prepare_stream(ctx, NULL), RFG_OK);
    ck_assert_int_eq(rfg_prepare_stream(ctx, &p), RFG_ERROR_INVALID_ARGUMENT);
    rfg_stats stats = RFG_STATS_INIT;
    rfg_context_stats(ctx, &stats);
    ck_assert_uint_eq(stats.calls, 0);
    ck_assert_uint_eq(stats.plans, 1);
    rfg_context_destroy(&ctx);
}
END_TEST

START_TEST(preparing_from_csv)
{
    char path[96];
    snprintf(path, sizeof(path), "%s/shapes.csv", dir);
    FILE *f = fopen(path, "w");
    fputs("op,dtype,M,N,K\ngemm,f32,1,8,16\ngemm,f32,x,8,16\ngemm,bf16,2,8,16\n", f);
    fclose(f);
    rfg_context *ctx = open_ctx(NULL);
    ck_assert_int_eq(rfg_prepare_from_csv(ctx, path), RFG_ERROR_INVALID_ARGUMENT);
    ck_assert_msg(strstr(rfg_last_error(), "shapes.csv:3") && strstr(rfg_last_error(), "'x'"), "%s", rfg_last_error());
    rfg_stats stats = RFG_STATS_INIT;
    rfg_context_stats(ctx, &stats);
    ck_assert_uint_eq(stats.plans, 2); /* the good lines */
    ck_assert_int_eq(rfg_prepare_from_csv(ctx, "/nonexistent.csv"), RFG_ERROR_IO);
    ck_assert_ptr_nonnull(strstr(rfg_last_error(), "/nonexistent.csv"));
    rfg_context_destroy(&ctx);
}
END_TEST

START_TEST(explaining)
{
    char buf[4096], tiny[5];
    put_row(user_db, P8, 0, 5);
    rfg_context *ctx = open_ctx(NULL);
    ck_assert_int_eq(rfg_explain(ctx, P8, buf, sizeof(buf)), RFG_OK);
    ck_assert_msg(strstr(buf, "rung 1") && strstr(buf, "gemm_cpu_portable") && strstr(buf, "measured"), "%s", buf);
    ck_assert_int_eq(rfg_explain(ctx, "gemm f32,f32->f32 M=8 N=99 K=64", buf, sizeof(buf)), RFG_OK);
    ck_assert_msg(strstr(buf, "rung 1: no row") && strstr(buf, "rung 4: the model picks"), "%s", buf);
    ck_assert_msg(strstr(buf, "gemm_splitk_mma: "), "%s", buf); /* why the others were passed over */
    ck_assert_int_eq(rfg_explain(ctx, P8, tiny, sizeof(tiny)), RFG_ERROR_INVALID_ARGUMENT);
    ck_assert_uint_eq(strlen(tiny), 4);
    ck_assert_int_eq(rfg_explain(ctx, "nonsense", buf, sizeof(buf)), RFG_ERROR_INVALID_ARGUMENT);
    struct rfg_problem p = op_problem(P8);
    ck_assert_ptr_null(rfg_plan_find(ctx, &p));
    rfg_context_destroy(&ctx);
}
END_TEST

/* ---- threads ----------------------------------------------------------------------------------------------------- */

static void *caller(void *arg)
{
    rfg_context *ctx = arg;
    for (int i = 0; i < 200; i++) /* 100 problems: the plan table grows while others read it */
        run(ctx, 1 + i % 20, 3 + i % 5, 4);
    return NULL;
}

START_TEST(many_threads_one_context)
{
    pthread_t t[8];
    rfg_context *ctx = open_ctx(NULL);
    for (int i = 0; i < 8; i++)
        pthread_create(&t[i], NULL, caller, ctx);
    for (int i = 0; i < 8; i++)
        pthread_join(t[i], NULL);
    rfg_stats stats = RFG_STATS_INIT;
    rfg_context_stats(ctx, &stats);
    ck_assert_uint_eq(stats.calls, 1600);
    rfg_context_destroy(&ctx);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("ladder");
    TCase *tc = test_case(s, "ladder", setup, teardown);
    ADD_TESTS(tc, rung_1_exact, rung_2_nearest_m, rung_3_other_cu_count, predicted_rows, rung_4_model,
              ties_go_to_the_first, rung_5_portable, no_variant_allowed, rows_that_are_switched_off,
              user_wins_over_system, misses_are_recorded, locked_databases_cost_no_time,
              locked_databases_are_waited_for_once, a_few_warnings_of_many_rows, preparing, preparing_from_csv,
              explaining, many_threads_one_context);
    ADD_LOOPS(tc, sizeof(broken) / sizeof(broken[0]), broken_rows_are_skipped);
    ADD_LOOPS(tc, sizeof(mismatched) / sizeof(mismatched[0]), rows_that_dont_fit);
    ADD_LOOPS(tc, (int)(sizeof(asked) / sizeof(asked[0])), misses_only_if_asked);
    ADD_LOOPS(tc, 4, unreadable_databases_cost_only_speed);
    return run_suite(s);
}
