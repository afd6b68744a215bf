/* SPDX-License-Identifier: MIT
 *
 * Problems with overlap=1: the rows that a context with launch_overlap uses and how it launches them, the tuner's rows,
 * and refusals where launches can't overlap. On mock H200s that run gfx90a's code objects, which are really
 * compiled. */
#include <unistd.h>

#include "dispatch/context.h"
#include "base/util.h"
#include "ops/gemm/gemm.h"
#include "ops/norm/norm.h"
#include "tuner/harness/harness.h"
#include "tests/dispatch/fakehip.h"
#include "tests/program.h"
#include "rfg/rfg.h"
#include "tests/op_cases.h"

#define P4 "gemm bf16,bf16->f32 M=4 N=64 K=256"
#define P8 "gemm bf16,bf16->f32 M=8 N=64 K=256"
#define OV " overlap=1"

static char cache[200]; /* of compiled kernels, for all tests */

static void setup(void)
{
    program_setup();
    rfg_hip_override(RFG_PLATFORM_NVIDIA, fakehip_nvidia());
    unsetenv("RFG_LAUNCH_OVERLAP");
    unsetenv("RFG_VARIANTS");
    unsetenv("RFG_LOG");
    setenv("RFG_VENDOR", "0", 1);
    setenv("RFG_CACHE_DIR", cache, 1);
    setenv("RFG_SYSTEM_DB", "/nonexistent/s.db", 1);
}

static rfg_context *open_on(const char *device, int overlap)
{
    rfg_context *ctx;
    rfg_context_params p = { .size = sizeof(p),
                             .device = device,
                             .user_db = "t.db",
                             .system_db = "",
                             .cache_dir = cache,
                             .misses = 1,
                             .variants = strcmp(device, "cpu") ? "gemm_skinny,gemm_portable" : NULL,
                             .launch_overlap = overlap };
    ck_assert_msg(rfg_context_create(&ctx, &p) == RFG_OK, "%s", rfg_last_error());
    return ctx;
}

static rfg_context *open_ctx(int overlap)
{
    return open_on("nvidia:0", overlap);
}

static struct rfg_row make_row(const char *text, int cus, const char *config, int overlap, double us)
{
    struct rfg_row row = { .problem = op_problem(text),
                           .arch = "sm_90",
                           .cu_count = cus,
                           .median_us = us,
                           .samples = 9,
                           .error = 0.5,
                           .error_bound = 1,
                           .how = RFG_SOURCE_MEASURED,
                           .date = "2026-11-21T00:00:00Z",
                           .version = RFG_VERSION,
                           .device = "nvidia:0",
                           .compiler = "test" };
    const struct rfg_variant *var;
    int p[RFG_MAX_PARAMS];
    struct rfg_reason why;
    ck_assert_msg(rfg_config_parse(row.problem.op, config, &var, p, &why), "%s: %s", config, why.text);
    rfg_row_set_config(&row, var, p, overlap);
    struct rfg_kernel k = { 0 };
    struct rfg_device dev;
    ck_assert(rfg_device_imagine(&dev, "sm_90"));
    var->kernel(&dev, &row.problem, p, &k);
    rfg_jit_source_hash(k.source, row.source_hash);
    return row;
}

static void put(struct rfg_row row)
{
    struct rfg_db *db;
    ck_assert_msg(rfg_db_open(&db, "t.db", RFG_DB_WRITE) == RFG_OK, "%s", rfg_last_error());
    ck_assert_msg(rfg_db_put(db, &row) == RFG_OK, "%s", rfg_last_error());
    rfg_db_close(&db);
}

#define SKINNY(waves) "gemm_skinny{m_tile=8,rows=1,waves=" #waves ",unroll=2,split_k=1}"
#define PORTABLE      "gemm_portable{tile_m=16}"

/* Runs the op with packed operands: what was chosen for it, and was its launch an overlapping one? */
static const struct rfg_choice *call(rfg_context *ctx, const char *text, bool *overlapped)
{
    struct rfg_problem prob = op_problem(text);
    struct rfg_case_params params = { .seed = 1 };
    struct rfg_case *c;
    struct rfg_check check;
    ck_assert_msg(rfg_case_create(ctx, &prob, &params, &c) == RFG_OK, "%s", rfg_last_error());
    int launches = fakehip_launches(), so = fakehip_overlapped();
    ck_assert_msg(rfg_case_run(c, 0, NULL, NULL) == RFG_OK, "%s: %s", text, rfg_last_error());
    ck_assert_int_eq(fakehip_launches(), launches + 1);
    *overlapped = fakehip_overlapped() != so;
    ck_assert(rfg_case_check(c, 0, &check) == RFG_OK && check.ok);
    const struct rfg_plan *plan = rfg_plan_find(ctx, rfg_case_problem(c));
    ck_assert_ptr_nonnull(plan);
    rfg_case_destroy(&c);
    return rfg_plan_choice(plan);
}

static void expect(int context_overlap, const char *text, enum rfg_rung rung, double us, bool overlapped)
{
    bool was;
    rfg_context *ctx = open_ctx(context_overlap);
    const struct rfg_choice *c = call(ctx, text, &was);
    ck_assert_msg(c->rung == rung && (us > 0 ? c->row && c->row->median_us == us : !c->row), "%s: rung %d, %g us", text,
                  (int)c->rung, c->row ? c->row->median_us : 0);
    ck_assert_msg(was == overlapped && c->overlap == overlapped, "%s: %slaunched with overlap", text,
                  was ? "" : "not ");
    rfg_context_destroy(&ctx);
    ck_assert_msg(!fakehip_misuse(), "%s", fakehip_misuse());
}

/* ---- keys -------------------------------------------------------------------------------------------------------- */

START_TEST(every_operator_has_the_key)
{
    for (int i = 0; rfg_ops[i]; i++) {
        const struct rfg_op *op = rfg_ops[i];
        const struct rfg_key *k = &op->keys[op->n_keys - 1];
        ck_assert_msg(!strcmp(k->name, "overlap") && k->kind == RFG_KEY_ATTR && !k->def && !k->min && k->max == 1, "%s",
                      op->name);
        for (int v = 0; v < rfg_op_variants(op)->n; v++) /* a row's params have one of this name */
            for (int n = 0; n < rfg_op_variants(op)->list[v]->n_params; n++)
                ck_assert_str_ne(rfg_op_variants(op)->list[v]->params[n].name, "overlap");
    }
    char text[RFG_PROBLEM_STRLEN];
    struct rfg_problem plain = op_problem(P8 " overlap=0"), with = op_problem(P8 OV);
    ck_assert_str_eq(rfg_problem_format(&plain, text, sizeof(text)), P8);
    ck_assert_str_eq(rfg_problem_format(&with, text, sizeof(text)), P8 OV);
    ck_assert(!rfg_problem_overlaps(&plain) && rfg_problem_overlaps(&with));
    with = rfg_problem_with_overlap(&with, false);
    ck_assert(rfg_problem_equal(&plain, &with));
}
END_TEST

/* ---- the ladder -------------------------------------------------------------------------------------------------- */

START_TEST(rows_of_its_own_come_first)
{
    expect(0, P8, RFG_RUNG_MODEL, 0, false);
    expect(1, P8, RFG_RUNG_MODEL, 0, true);
    put(make_row(P8, 132, SKINNY(1), 0, 10));
    expect(0, P8, RFG_RUNG_EXACT, 10, false);
    expect(1, P8, RFG_RUNG_EXACT, 10, true); /* better than a guess */
    put(make_row(P8 OV, 132, SKINNY(4), 1, 20));
    expect(0, P8, RFG_RUNG_EXACT, 10, false);
    expect(1, P8, RFG_RUNG_EXACT, 20, true);
    put(make_row(P8 OV, 132, SKINNY(4), 0, 30)); /* faster without */
    expect(0, P8, RFG_RUNG_EXACT, 10, false);
    expect(1, P8, RFG_RUNG_EXACT, 30, false);
    setenv("RFG_LAUNCH_OVERLAP", "1", 1);
    expect(0, P8, RFG_RUNG_EXACT, 30, false);
}
END_TEST

START_TEST(without_overlap_its_rows_are_not_there)
{
    put(make_row(P8 OV, 132, SKINNY(1), 1, 10));
    expect(0, P8, RFG_RUNG_MODEL, 0, false);
    expect(0, P4, RFG_RUNG_MODEL, 0, false);
    expect(1, P4, RFG_RUNG_NEAREST, 10, true);
}
END_TEST

START_TEST(lower_rungs_prefer_its_rows)
{
    put(make_row("gemm bf16,bf16->f32 M=7 N=64 K=256", 132, PORTABLE, 0, 7));
    expect(1, P8, RFG_RUNG_NEAREST, 7, true);
    put(make_row("gemm bf16,bf16->f32 M=4 N=64 K=256" OV, 132, PORTABLE, 1, 2)); /* farther, but of its kind */
    expect(1, P8, RFG_RUNG_NEAREST, 2, true);
    expect(0, P8, RFG_RUNG_NEAREST, 7, false);
    ck_assert_int_eq(unlink("t.db"), 0);
    put(make_row(P8, 131, PORTABLE, 0, 131));
    expect(1, P8, RFG_RUNG_OTHER_CUS, 131, true);
    put(make_row(P8 OV, 100, PORTABLE, 0, 100));
    expect(1, P8, RFG_RUNG_OTHER_CUS, 100, false);
    expect(0, P8, RFG_RUNG_OTHER_CUS, 131, false);
    put(make_row(P8, 132, PORTABLE, 0, 132)); /* a higher rung comes first */
    expect(1, P8, RFG_RUNG_EXACT, 132, true);
}
END_TEST

START_TEST(explains_and_prepares)
{
    char buf[4096];
    rfg_context *ctx = open_ctx(1);
    put(make_row(P8, 132, SKINNY(1), 0, 10));
    put(make_row(P4 OV, 132, SKINNY(4), 0, 30));
    rfg_context_destroy(&ctx);
    ctx = open_ctx(1);
    ck_assert_int_eq(rfg_explain(ctx, P8, buf, sizeof(buf)), RFG_OK);
    PRINTS(buf, "rung 1: no row for " P8 OV);
    PRINTS(buf, "rung 1: row " P8 " on 132 CUs -> gemm_skinny{");
    PRINTS(buf, "CUs), launched with overlap");
    ck_assert_int_eq(rfg_explain(ctx, P4 OV, buf, sizeof(buf)), RFG_OK);
    PRINTS(buf, "rung 1: row " P4 OV " on 132 CUs -> gemm_skinny{m_tile=8,rows=1,waves=4");
    PRINTS(buf, "} launched plainly, 30.00 us");
    PRINTS(buf, "CUs), launched plainly");
    /* One problem, however it is written. */
    rfg_stats stats = RFG_STATS_INIT;
    ck_assert_int_eq(rfg_prepare(ctx, P8), RFG_OK);
    ck_assert_int_eq(rfg_prepare(ctx, P8 OV), RFG_OK);
    rfg_context_stats(ctx, &stats);
    ck_assert_uint_eq(stats.plans, 1);
    rfg_context_destroy(&ctx);

    FILE *f = fopen("s.csv", "w");
    ck_assert(f &&
              fputs("op,dtype,M,N,K,attrs\ngemm,\"bf16,bf16->f32\",4,64,256,overlap=1\n"
                    "gemm,\"bf16,bf16->f32\",8,64,256,\n",
                    f) >= 0 &&
              !fclose(f));
    ctx = open_ctx(1);
    ck_assert_msg(rfg_prepare_from_csv(ctx, "s.csv") == RFG_OK, "%s", rfg_last_error());
    rfg_context_stats(ctx, &stats);
    ck_assert_uint_eq(stats.plans, 2);
    rfg_context_destroy(&ctx);
    ctx = open_ctx(0);
    ck_assert_int_eq(rfg_prepare_from_csv(ctx, "s.csv"), RFG_ERROR_INVALID_ARGUMENT);
    PRINTS(rfg_last_error(), "s.csv:2: overlap=1: launch_overlap of the context is off");
    rfg_context_stats(ctx, &stats);
    ck_assert_uint_eq(stats.plans, 1); /* the other one */
    ck_assert_int_eq(rfg_prepare(ctx, P8 OV), RFG_ERROR_INVALID_ARGUMENT);
    ck_assert_int_eq(rfg_explain(ctx, P8 OV, buf, sizeof(buf)), RFG_ERROR_INVALID_ARGUMENT);
    PRINTS(rfg_last_error(), "launch_overlap of the context is off");
    rfg_context_destroy(&ctx);
}
END_TEST

START_TEST(refused_where_launches_cannot_overlap)
{
    char buf[4096];
    struct rfg_plan *plan;
    const struct rfg_variant *var;
    struct rfg_problem prob = op_problem(P8 OV);
    int p[RFG_MAX_PARAMS];
    rfg_context *ctx = open_on("cpu", 1);
    static const char rule[] = "can't overlap launches: must be an NVIDIA GPU from sm_90 on";
    ck_assert_int_eq(rfg_prepare(ctx, P8), RFG_OK); /* the context's wish is ignored */
    ck_assert_int_eq(rfg_prepare(ctx, P8 OV), RFG_ERROR_UNSUPPORTED);
    PRINTS(rfg_last_error(), rule);
    ck_assert_int_eq(rfg_explain(ctx, P8 OV, buf, sizeof(buf)), RFG_ERROR_UNSUPPORTED);
    ck_assert(rfg_config_parse(prob.op, "gemm_cpu_portable{rows=1,cols=1,k_block=0,prefetch=0}", &var, p, NULL));
    ck_assert_int_eq(rfg_plan_create(ctx, &prob, var, p, &plan), RFG_ERROR_UNSUPPORTED);
    PRINTS(rfg_last_error(), rule);
    rfg_context_destroy(&ctx);
    ck_assert_int_eq(run_program("rfg-tune", "--db t.db --device cpu --overlap --problem '%s'", P8), 2);
    PRINTS(err, "rfg-tune: --overlap: overlap=1: cpu (cpu-");
    PRINTS(err, rule);
    ck_assert_int_eq(run_program("rfg-tune", "--db t.db --device cpu --problem '%s'", P8 OV), 2);
    PRINTS(err, "rfg-tune: " P8 OV ": overlap=1: cpu (cpu-");
    ck_assert_int_eq(run_program("rfg-tune", "--db t.db --dry-run --device gfx942:304 --overlap --problem '%s'", P8),
                     2);
    PRINTS(err, "gfx942");
    RUNS(run_program("rfg-tune", "--db t.db --dry-run --device sm_90 --overlap --problem '%s'", P8), 0, out, P8 OV);
    RUNS(run_program("rfg-bench", "--device cpu --overlap --problem '%s'", P8), 2, err, "rfg-bench: --overlap: ");
    PRINTS(err, rule);
    RUNS(run_program("rfg-bench", "--device cpu --problem '%s'", P8 OV), 1, err, "rfg-bench: " P8 OV ": overlap=1: ");
}
END_TEST

static bool collect_miss(void *arg, const struct rfg_problem *prob, const char *arch, int cu_count, int rung,
                         uint64_t calls, const char *last)
{
    char *buf = arg, text[RFG_PROBLEM_STRLEN];
    (void)rung, (void)calls, (void)last;
    ck_assert(!strcmp(arch, "sm_90") && cu_count == 132);
    strcat(strcat(buf, rfg_problem_format(prob, text, sizeof(text))), ";");
    return true;
}

START_TEST(misses_say_which)
{
    char buf[1000] = "";
    bool so;
    struct rfg_db *db;
    for (int overlap = 0; overlap < 2; overlap++) {
        rfg_context *ctx = open_ctx(overlap);
        call(ctx, overlap ? P8 : P4, &so);
        rfg_context_destroy(&ctx);
    }
    ck_assert_int_eq(rfg_db_open(&db, "t.db", RFG_DB_READ), RFG_OK);
    ck_assert_int_eq(rfg_db_each_miss(db, collect_miss, buf), RFG_OK);
    rfg_db_close(&db);
    ck_assert_str_eq(buf, P4 ";" P8 OV ";");
}
END_TEST

/* ---- rows as text ------------------------------------------------------------------------------------------------ */

START_TEST(rows_say_how_they_are_launched)
{
    struct rfg_row with = make_row(P8 OV, 132, SKINNY(1), 1, 10), plainly = make_row(P8 OV, 132, SKINNY(1), 0, 10),
                   other = make_row(P8, 132, SKINNY(1), 1, 10);
    const struct rfg_variant *var = &gemm_skinny;
    struct rfg_reason why;
    char text[300];
    int p[RFG_MAX_PARAMS];
    ck_assert_str_eq(with.params, "{\"m_tile\":8,\"rows\":1,\"waves\":1,\"unroll\":2,\"split_k\":1,\"overlap\":1}");
    ck_assert_str_eq(other.params, "{\"m_tile\":8,\"rows\":1,\"waves\":1,\"unroll\":2,\"split_k\":1}");
    ck_assert(rfg_row_overlap(&with) && !rfg_row_overlap(&plainly) && !rfg_row_overlap(&other));
    ck_assert(rfg_row_params(&with, var, p, &why) && p[0] == 8 && rfg_row_params(&plainly, var, p, &why) &&
              rfg_row_params(&other, var, p, &why));
    ck_assert_str_eq(rfg_row_config(&with, text, sizeof(text)), SKINNY(1));
    ck_assert_str_eq(rfg_row_config(&plainly, text, sizeof(text)), SKINNY(1) " launched plainly");
    ck_assert_str_eq(rfg_row_config(&other, text, sizeof(text)), SKINNY(1));
    /* With the key the parameter must be there; without, it must not. */
    memcpy(text, other.params, sizeof(other.params));
    memcpy(other.params, with.params, sizeof(other.params));
    memcpy(with.params, text, sizeof(with.params));
    ck_assert(!rfg_row_params(&with, var, p, &why));
    PRINTS(why.text, "overlap must be 0 or 1");
    ck_assert(!rfg_row_params(&other, var, p, &why));
    PRINTS(why.text, "no parameter 'overlap'");
    *strrchr(plainly.params, '0') = '2';
    ck_assert(!rfg_row_params(&plainly, var, p, &why));
    ck_assert(!rfg_row_overlap(&plainly));
}
END_TEST

START_TEST(databases_and_text_keep_them_apart)
{
    put(make_row(P8, 132, SKINNY(1), 0, 10));
    put(make_row(P8 OV, 132, SKINNY(4), 0, 30));
    ck_assert_int_eq(run_program("rfg-db", "export t.db -o rows.csv"), 0);
    RUNS(run_program("rfg-db", "import --db new.db --how keep rows.csv"), 0, out, "2 rows imported");
    ck_assert_int_eq(run_program("rfg-db", "export new.db -o again.csv"), 0);
    ck_assert_int_eq(system("cmp rows.csv again.csv && grep -q ',overlap=1,' rows.csv"), 0);
    RUNS(run_program("rfg-db", "merge --db new.db t.db"), 0, out, "2 rows, 0 conflicts");
    RUNS(run_program("rfg-db", "list new.db"), 0, out, P8 OV);
    PRINTS(out, "split_k=1} launched plainly");
    RUNS(run_program("rfg-db", "show new.db '%s'", P8 OV), 0, out, "\"overlap\":0}");
    ck_assert_int_eq(system("sed 's/,\"\"overlap\"\":0}/}/' rows.csv > bad.csv"), 0);
    RUNS(run_program("rfg-db", "import --db bad.db bad.csv"), 2, err, "column params: ");
    PRINTS(err, "overlap must be 0 or 1: the problem has overlap=1");
    ck_assert_int_eq(run_program("rfg-db", "verify new.db"), 0);
    struct rfg_row row = make_row(P8 OV, 304, SKINNY(4), 0, 30); /* where it can't be */
    strcpy(row.arch, "gfx942");
    put(row);
    RUNS(run_program("rfg-db", "verify t.db"), 1, out, "overlap=1: gfx942:304 (gfx942) can't overlap launches");
}
END_TEST

/* ---- the tuner --------------------------------------------------------------------------------------------------- */

static void get(const char *text, struct rfg_row *row)
{
    struct rfg_problem p = op_problem(text);
    struct rfg_db *db;
    ck_assert_msg(rfg_db_open(&db, "t.db", RFG_DB_READ) == RFG_OK, "%s", rfg_last_error());
    ck_assert_msg(rfg_db_get(db, &p, "sm_90", 132, NULL, row) == 1, "%s: no row", text);
    rfg_db_close(&db);
}

/* A program of the imagined NVIDIA GPUs. */
static int run_fake(const char *program, const char *options)
{
    char cmd[1000];
    const char *dir = rfg_env("RFG_FAKE_BINDIR");
    ck_assert_msg(dir, "RFG_FAKE_BINDIR must say where the programs are");
    snprintf(cmd, sizeof(cmd), "%s/%s --db t.db --device nvidia:0 --seed 1 %s >out 2>err", dir, program, options);
    int rc = system(cmd);
    free(out);
    free(err);
    out = rfg_read_file("out", NULL);
    err = rfg_read_file("err", NULL);
    return rc;
}

/* Time enough for all candidates, however slow this machine is: what they take is imagined. */
static void tune(const char *options)
{
    char all[900];
    snprintf(all, sizeof(all), "--variants gemm_skinny,gemm_portable --per-shape 20 %s", options);
    ck_assert_msg(run_fake("rfg-tune-fake", all) == 0, "%s: %s%s", options, err, out);
}

#define FEW  "gemm bf16,bf16->f32 M=1 N=64 K=256"
#define MANY "gemm bf16,bf16->f32 M=1 N=512 K=64"

/* In the imagined time wide workgroups are good for plain launches, narrow ones for overlapping ones, and those are
 * good for few columns only. */
START_TEST(tunes_for_overlap)
{
    struct rfg_row few, many, few_ov, many_ov;
    tune("--problem '" FEW "' --problem '" MANY "'");
    get(FEW, &few);
    get(MANY, &many);
    ck_assert_msg(!strstr(few.params, "overlap") && !strstr(many.params, "overlap"), "%s %s", few.params, many.params);
    ck_assert_msg(many.median_us < 3 && few.median_us < 3, "%g %g", few.median_us, many.median_us); /* plain launches */
    tune("--overlap --problem '" FEW "' --problem '" MANY "' --json j.json");
    PRINTS(out, FEW OV);
    PRINTS(out, "} launched plainly");
    get(FEW OV, &few_ov);
    get(MANY OV, &many_ov);
    ck_assert_msg(rfg_row_overlap(&few_ov) && strstr(few_ov.params, "\"overlap\":1"), "%s", few_ov.params);
    ck_assert_msg(few_ov.median_us < few.median_us - 0.5, "%g against %g", few_ov.median_us, few.median_us);
    /* Better without: then what is best without, though overlapped it is among the slowest. */
    ck_assert_msg(!rfg_row_overlap(&many_ov) && strstr(many_ov.params, "\"overlap\":0"), "%s", many_ov.params);
    ck_assert_msg(many_ov.median_us < many.median_us * 1.001, "%g against %g", many_ov.median_us, many.median_us);
    ck_assert_int_eq(system("grep -q plain_us j.json"), 0);
    /* The rows without overlap are as they were; nothing is tuned twice; a context finds them. */
    struct rfg_row again;
    get(FEW, &again);
    ck_assert_str_eq(again.params, few.params);
    tune("--problem '" FEW OV "' --problem '" MANY "'");
    PRINTS(out, "0 tuned, 2 up to date");
    expect(1, FEW, RFG_RUNG_EXACT, few_ov.median_us, true);
    expect(1, MANY, RFG_RUNG_EXACT, many_ov.median_us, false);
    expect(0, MANY, RFG_RUNG_EXACT, many.median_us, false);
}
END_TEST

START_TEST(tunes_the_misses_of_overlapping_contexts)
{
    bool so;
    struct rfg_row row;
    rfg_context *ctx = open_ctx(1);
    call(ctx, FEW, &so);
    rfg_context_destroy(&ctx);
    tune("--from-misses");
    PRINTS(out, FEW OV);
    get(FEW OV, &row);
    ck_assert(rfg_row_overlap(&row));
    /* By the column of a shapes file, too. */
    ck_assert_int_eq(system("printf 'op,dtype,M,N,K,attrs\\ngemm,\"bf16,bf16->f32\",1,64,256,overlap=1\\n' > s.csv"),
                     0);
    tune("--shapes s.csv");
    PRINTS(out, "0 tuned, 1 up to date");
}
END_TEST

START_TEST(benches_with_overlap)
{
    double us[2];
    put(make_row(FEW, 132, SKINNY(8), 0, 10));
    put(make_row(FEW OV, 132, SKINNY(1), 1, 20));
    put(make_row(MANY OV, 132, SKINNY(2), 0, 30));
    setenv("RFG_VARIANTS", "gemm_skinny", 1);
    ck_assert_msg(run_fake("rfg-bench-fake", "--problem '" FEW "' --problem '" FEW OV "' --problem '" MANY OV "'") == 0,
                  "%s%s", err, out);
    const char *plain = strstr(out, FEW " "), *so = strstr(out, FEW OV), *many = strstr(out, MANY OV);
    ck_assert_msg(plain && so && many && sscanf(plain + strlen(FEW), "%lf", &us[0]) == 1 &&
                      sscanf(so + strlen(FEW OV), "%lf", &us[1]) == 1,
                  "%s", out);
    ck_assert_msg(us[0] > 2 && us[1] < 1.5, "%s", out); /* as imagined */
    PRINTS(plain, "1 " SKINNY(8) "\n");
    PRINTS(so, "1 " SKINNY(1) "\n");
    PRINTS(many, "1 " SKINNY(2) " launched plainly\n");
    RUNS(run_fake("rfg-bench-fake", "--overlap --json --problem '" FEW "'"), 0, out, "\"problem\": \"" FEW OV "\"");
    PRINTS(out, "\"overlap\": true");
    ck_assert_int_eq(run_fake("rfg-bench-fake", "--overlap --variant '" SKINNY(8) "' --problem '" FEW "'"), 0);
    PRINTS(out, "0 " SKINNY(8) "\n");
    ck_assert_int_eq(run_fake("rfg-bench-fake", "--overlap --dispatch --problem '" FEW "'"), 0);
    PRINTS(out, FEW OV " on nvidia:0, " SKINNY(1));
    setenv("RFG_LAUNCH_OVERLAP", "1", 1); /* named as it is launched */
    RUNS(run_fake("rfg-bench-fake", "--problem '" FEW "'"), 0, out, FEW OV);
}
END_TEST

/* ---- more LDS than a launch may take unasked --------------------------------------------------------------------- */

/* Plans of one code object with 64 and 56 KiB: the first must still be launched after the second was made. */
START_TEST(plans_with_less_lds_take_nothing_from_others)
{
    static const char *const texts[] = { "rmsnorm f32->f32 M=1 N=16384", "rmsnorm f32->f32 M=1 N=14336" };
    static const char config[] =
        "rmsnorm_rows{threads=256,rows=1,chunks=2,keep=2,ahead=0,width=16,stream=0,persist=0,split=1}";
    struct rfg_plan *plan[2];
    struct rfg_case *c[2];
    struct rfg_launch l[2];
    hipFunction_t fn[2];
    rfg_context *ctx = open_ctx(0);
    for (int i = 0; i < 2; i++) {
        const struct rfg_variant *var;
        int p[RFG_MAX_PARAMS];
        struct rfg_reason why;
        struct rfg_problem prob = op_problem(texts[i]);
        ck_assert_msg(rfg_config_parse(prob.op, config, &var, p, &why), "%s", why.text);
        struct rfg_case_params params = { .seed = 1, .check_rows = 1 };
        ck_assert_msg(rfg_case_create(ctx, &prob, &params, &c[i]) == RFG_OK, "%s", rfg_last_error());
        ck_assert_msg(rfg_plan_create(ctx, rfg_case_problem(c[i]), var, p, &plan[i]) == RFG_OK, "%s", rfg_last_error());
        ck_assert(rfg_plan_raw(plan[i], &fn[i], &l[i]));
    }
    ck_assert_msg(fn[0] == fn[1] && l[0].lds > l[1].lds && l[1].lds > 48 << 10, "%u and %u bytes", l[0].lds, l[1].lds);
    for (int i = 0; i < 4; i++)
        ck_assert_msg(rfg_case_run(c[i % 2], 0, plan[i % 2], NULL) == RFG_OK, "%s: %s", texts[i % 2], rfg_last_error());
    for (int i = 0; i < 2; i++) {
        rfg_plan_destroy(ctx, &plan[i]);
        rfg_case_destroy(&c[i]);
    }
    rfg_context_destroy(&ctx);
}
END_TEST

int main(void)
{
    const char *tmp = rfg_env("TMPDIR");
    snprintf(cache, sizeof(cache), "%s/rfg-overlap-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(cache))
        return 1;
    Suite *s = suite_create("overlap");
    TCase *tc = test_case(s, "overlap", setup, program_teardown);
    tcase_set_timeout(tc, 120);
    ADD_TESTS(tc, every_operator_has_the_key, rows_of_its_own_come_first, without_overlap_its_rows_are_not_there,
              lower_rungs_prefer_its_rows, explains_and_prepares, refused_where_launches_cannot_overlap,
              misses_say_which, rows_say_how_they_are_launched, databases_and_text_keep_them_apart, tunes_for_overlap,
              tunes_the_misses_of_overlapping_contexts);
    tcase_add_test(slow_case(s, "overlap", "benches_with_overlap", setup, program_teardown), benches_with_overlap);
    ADD_TESTS(tc, plans_with_less_lds_take_nothing_from_others);
    int rc = run_suite(s);
    char cmd[300];
    snprintf(cmd, sizeof(cmd), "rm -rf '%s'", cache);
    return system(cmd) || rc;
}
