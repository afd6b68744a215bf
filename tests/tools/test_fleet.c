/* SPDX-License-Identifier: MIT
 *
 * Fleets: shards of a sweep and their merging, all GPUs of a host, rows of siblings (GPUs of one arch and CU count). */
#include <unistd.h>

#include "base/util.h"
#include "dispatch/context.h"
#include "dispatch/db/db_internal.h"
#include "rfg/rfg.h"
#include "tests/program.h"
#include "tests/suite.h"

#define SHAPES 7

static const char *const variables[] = {
    "SLURM_ARRAY_TASK_ID",
    "SLURM_ARRAY_TASK_MIN",
    "SLURM_ARRAY_TASK_STEP",
    "SLURM_ARRAY_TASK_COUNT",
    "SLURM_PROCID",
    "SLURM_STEP_NUM_TASKS",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "PMI_RANK",
    "PMI_SIZE",
};

static void setup(void)
{
    program_setup();
    char here[4096];
    ck_assert_ptr_nonnull(getcwd(here, sizeof(here)));
    setenv("XDG_DATA_HOME", here, 1);
    setenv("RFG_CACHE_DIR", here, 1);
    setenv("RFG_CPU_ISA", "portable", 1);
    setenv("RFG_THREADS", "2", 1);
    setenv("RFG_TEST_MEASURE", "steady:gemm", 1);
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
        unsetenv(variables[i]);
    FILE *f = fopen("s.csv", "w");
    fputs("op,dtype,M,N,K\ngemm,bf16,1..3,16,32\ngemm,f32,1..4,8,16\n", f);
    fclose(f);
}

static int tune(const char *options)
{
    return run_program("rfg-tune", "--shapes s.csv --device cpu --per-shape 0.02 --candidates 2 --seed 1 %s", options);
}

static struct rfg_row *rows_of(const char *path, size_t *n)
{
    struct rfg_db *db;
    struct rfg_row *rows;
    ck_assert_msg(rfg_db_open(&db, path, RFG_DB_READ) == RFG_OK, "%s", rfg_last_error());
    ck_assert_int_eq(rfg_db_all(db, NULL, &rows, n, NULL, NULL), RFG_OK);
    rfg_db_close(&db);
    return rows;
}

/* ---- shards ------------------------------------------------------------------------------------------------------ */

/* Merged they have the rows of one sweep, each from one shard. */
START_TEST(shards_make_one_sweep)
{
    char options[60];
    size_t n, whole;
    ck_assert_msg(tune("--db whole.db") == 0, "%s", err);
    for (int i = 0; i < 3; i++) {
        snprintf(options, sizeof(options), "--db shard-%d.db --shard %d/3", i, i);
        ck_assert_msg(tune(options) == 0, "%s", err);
        snprintf(options, sizeof(options), "shard %d/3: %d of 7 shapes", i, i ? 2 : 3);
        PRINTS(err, options);
    }
    ck_assert_int_eq(run_program("rfg-db", "merge --db merged.db shard-2.db shard-0.db shard-1.db"), 0);
    PRINTS(out, "merged.db: 7 rows, 0 conflicts settled");
    struct rfg_row *a = rows_of("whole.db", &whole), *b = rows_of("merged.db", &n);
    ck_assert_uint_eq(whole, SHAPES);
    ck_assert_uint_eq(n, SHAPES);
    for (size_t i = 0; i < n; i++) {
        ck_assert(rfg_problem_equal(&a[i].problem, &b[i].problem));
        ck_assert_str_eq(a[i].arch, b[i].arch);
        ck_assert_str_eq(a[i].device, b[i].device);
        ck_assert_int_eq(a[i].cu_count, b[i].cu_count);
        ck_assert_int_eq(b[i].how, RFG_SOURCE_MEASURED);
    }
    free(a);
    free(b);
    /* More shards than shapes: nothing to do is no error. */
    ck_assert_int_eq(tune("--db none.db --shard 9/10"), 0);
    PRINTS(err, "shard 9/10: 0 of 7 shapes");
}
END_TEST

static const struct {
    const char *set, *says;
    int code;
} jobs[] = {
    { "SLURM_ARRAY_TASK_ID=2 SLURM_ARRAY_TASK_MIN=0 SLURM_ARRAY_TASK_COUNT=3", "shard 2/3: 2 of 7", 0 },
    { "SLURM_ARRAY_TASK_ID=20 SLURM_ARRAY_TASK_MIN=10 SLURM_ARRAY_TASK_STEP=10 SLURM_ARRAY_TASK_COUNT=3",
      "shard 1/3: 2 of 7", 0 },
    { "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2", "shard 0/2: 4 of 7", 0 },
    { "PMI_RANK=1 PMI_SIZE=2", "shard 1/2: 3 of 7", 0 },
    { "SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2", "shard 1/2: 3 of 7", 0 },
    { "SLURM_ARRAY_TASK_ID=1 SLURM_ARRAY_TASK_COUNT=2 PMI_RANK=1 PMI_SIZE=2", "shard 3/4: 1 of 7", 0 },
    { "SLURM_PROCID=0", "must run as a task of Slurm's or MPI's, or say --shard I/N", 2 },
    { "SLURM_ARRAY_TASK_ID=7 SLURM_ARRAY_TASK_MIN=1 SLURM_ARRAY_TASK_COUNT=3", "must be an array without gaps", 2 },
    { "SLURM_ARRAY_TASK_ID=two SLURM_ARRAY_TASK_COUNT=3", "SLURM_ARRAY_TASK_ID='two': must be a whole number", 2 },
    { "OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=2", "the first must be less than the second", 2 },
    { "OMPI_COMM_WORLD_RANK=2", "the first must be less than the second", 2 },
};

START_TEST(shards_of_jobs)
{
    char set[200];
    snprintf(set, sizeof(set), "%s", jobs[_i].set);
    for (char *save, *word = strtok_r(set, " ", &save); word; word = strtok_r(NULL, " ", &save))
        ck_assert_int_eq(putenv(strdup(word)), 0);
    ck_assert_msg(tune("--dry-run --shard auto") == jobs[_i].code, "%s", err);
    PRINTS(err, jobs[_i].says);
}
END_TEST

static const char *const wrong[][2] = {
    { "--shard 4/4", "--shard '4/4': must be I/N" },
    { "--shard 1", "--shard '1': must be I/N" },
    { "--shard /2", "--shard '/2': must be I/N" },
    { "--shard 0/", "--shard '0/': must be I/N" },
    { "--shard 0/0", "--shard '0/0': must be I/N" },
    { "--shard -1/2", "--shard '-1/2': must be I/N" },
    { "--shard 0/2x", "--shard '0/2x': must be I/N" },
    { "--shard 0/99999", "N from 1 to 65536" },
    { "--shard 0/2 --from-misses", "each run would see another list" },
    { "--device amd:all --json -", "--device amd:all: can't be combined with --json" },
    { "--device amd:all --dry-run", "can't be combined with --dry-run" },
};

START_TEST(wrong_usage)
{
    ck_assert_int_eq(tune(wrong[_i][0]), 2);
    PRINTS(err, wrong[_i][1]);
    ck_assert_int_eq(tune("--device emu:all"), 1);
    PRINTS(err, "--device 'emu:all': must be amd:all or nvidia:all");
}
END_TEST

/* ---- all GPUs of a host ------------------------------------------------------------------------------------------ */

/* On imagined GPUs: each is at work, each problem has one row, the table tells of all. */
START_TEST(all_gpus)
{
    char cmd[500];
    size_t n;
    const char *dir = rfg_env("RFG_FAKE_BINDIR");
    ck_assert_msg(dir, "RFG_FAKE_BINDIR must say where the programs are");
    if (!rfg_jit_provider_for("gfx90a")) {
        printf("SKIPPED: %s\n", rfg_last_error());
        return;
    }
    FILE *f = fopen("f.csv", "w");
    fputs("op,dtype,M,N,K\ngemm,\"bf16,bf16->f32\",1,64..68,256\n", f);
    fclose(f);
    snprintf(cmd, sizeof(cmd),
             "%s/rfg-tune-fake --device nvidia:all --shapes f.csv --variants gemm_skinny --candidates 2 --per-shape 20 "
             "--seed 5 --db all.db > out 2> err",
             dir);
    int rc = system(cmd);
    free(out);
    free(err);
    out = rfg_read_file("out", NULL);
    err = rfg_read_file("err", NULL);
    ck_assert_msg(rc == 0, "%d\n%.1000s\n%.2000s", rc, out, err);
    PRINTS(err, "nvidia:0: rfg-tune: nvidia:0: sm_90, 132 CUs; ");
    PRINTS(err, "nvidia:1: rfg-tune: nvidia:1: sm_90, 132 CUs; ");
    PRINTS(out, "seed 5; all.db");
    free(rows_of("all.db", &n));
    ck_assert_uint_eq(n, 5);
    for (int i = 64; i <= 68; i++) {
        snprintf(cmd, sizeof(cmd), "gemm bf16,bf16->f32 M=1 N=%d K=256", i);
        PRINTS(out, cmd);
    }
    ck_assert_int_eq(system("test $(grep -c '^nvidia:[01]: .*gemm_skinny' err) = 5"), 0); /* each was tuned once */
}
END_TEST

/* ---- siblings ---------------------------------------------------------------------------------------------------- */

#define P "gemm bf16,bf16->bf16 M=4 N=64 K=64"

static void put_row(const char *path, const char *device, double gbps, double us, const char *config)
{
    struct rfg_db *db;
    struct rfg_reason why;
    const struct rfg_variant *var;
    int p[RFG_MAX_PARAMS];
    struct rfg_row r = { .arch = "gfx942",
                         .cu_count = 304,
                         .median_us = us,
                         .samples = 9,
                         .error_bound = 1,
                         .date = "2026-11-01T00:00:00Z",
                         .version = RFG_VERSION,
                         .mem_gbps = gbps,
                         .seed = 1,
                         .how = RFG_SOURCE_MEASURED };
    ck_assert_msg(rfg_problem_parse(&r.problem, P, &why), "%s", why.text);
    ck_assert_msg(rfg_config_parse(r.problem.op, config, &var, p, &why), "%s", why.text);
    snprintf(r.device, sizeof(r.device), "%s", device);
    rfg_row_set_config(&r, var, p, false);
    ck_assert_int_eq(rfg_db_open(&db, path, RFG_DB_WRITE), RFG_OK);
    ck_assert_msg(rfg_db_put(db, &r) == RFG_OK, "%s", rfg_last_error());
    rfg_db_close(&db);
}

#define X300 "AMD Instinct MI300X"
#define X325 "AMD Instinct MI325X"

/* What rfg_explain() says on that product. */
static char *explain(const char *product, char text[4000])
{
    rfg_context *ctx;
    rfg_context_params p = {
        .size = sizeof(p), .device = "gfx942", .user_db = "a.db", .system_db = "", .cache_dir = ""
    };
    ck_assert_msg(rfg_context_imagine(&ctx, &p, product) == RFG_OK, "%s", rfg_last_error());
    ck_assert_int_eq(rfg_explain(ctx, P, text, 4000), RFG_OK);
    rfg_context_destroy(&ctx);
    return text;
}

START_TEST(explain_names_the_sibling)
{
    char text[4000];
    put_row("a.db", X300, 4101, 5, "gemm_portable{tile_m=16}");
    explain(X325, text);
    PRINTS(text, "a sibling's row: of " X300 " (4101 GB/s); there is none of " X325 " (5300 GB/s expected)");
    PRINTS(text, "measured on " X300);
    ck_assert_ptr_null(strstr(explain(X300, text), "sibling"));
    put_row("a.db", X325, 0, 6, "gemm_portable{tile_m=64}"); /* slower, but its own */
    explain(X325, text);
    ck_assert_ptr_null(strstr(text, "sibling"));
    PRINTS(text, "chosen: gemm_portable{tile_m=64} by rung 1");
    PRINTS(explain(X300, text), "chosen: gemm_portable{tile_m=16} by rung 1");
    PRINTS(explain("AMD Instinct MI300A", text), "a sibling's row: of ");
}
END_TEST

/* Rows of siblings are no conflict; conflicts end the same, whichever file comes first. */
START_TEST(merging_keeps_siblings)
{
    static const char *const orders[] = { "a.db b.db c.db", "c.db b.db a.db", "b.db c.db a.db" };
    put_row("a.db", X300, 4101, 5, "gemm_portable{tile_m=16}");
    put_row("b.db", X325, 4800, 4, "gemm_portable{tile_m=16}");
    put_row("c.db", X300, 4102, 5, "gemm_portable{tile_m=64}"); /* as fast, of the same day */
    for (size_t i = 0; i < 3; i++) {
        RUNS(run_program("rfg-db", "merge --db m%zu.db %s", i, orders[i]), 0, out, "a.db (5.00 us");
        PRINTS(out, "over c.db (5.00 us");
        PRINTS(out, "first by its variant, parameters and seed");
        PRINTS(out, ": 2 rows, 1 conflict settled");
        ck_assert_int_eq(run_program("rfg-db", "export -o m%zu.csv m%zu.db", i, i), 0);
    }
    ck_assert_int_eq(system("cmp m0.csv m1.csv && cmp m1.csv m2.csv && grep -q 'MI300X\",4101,' m0.csv"), 0);
}
END_TEST

START_TEST(packs_have_siblings_rows)
{
    char text[4000];
    rfg_context *ctx;
    put_row("a.db", X300, 4101, 5, "gemm_portable{tile_m=16}");
    put_row("a.db", X325, 4800, 6, "gemm_portable{tile_m=64}");
    if (!rfg_jit_provider_for("gfx942")) {
        printf("SKIPPED: %s\n", rfg_last_error());
        return;
    }
    FILE *f = fopen("p.csv", "w");
    fputs("op,dtype,M,N,K\ngemm,bf16,4,64,64\n", f);
    fclose(f);
    setenv("RFG_SYSTEM_DB", "none.db", 1);
    ck_assert_msg(run_program("rfg-db", "pack --arch gfx942 --shapes p.csv --db a.db -o p.rfgpack") == 0, "%s", err);
    PRINTS(out, "p.rfgpack: 1 problems on 1 arch: 2 rows, ");
    rfg_context_params p = { .size = sizeof(p), .device = "gfx942", .user_db = "", .pack = "p.rfgpack" };
    static const char *const products[][2] = { { X300, "tile_m=16" }, { X325, "tile_m=64" } };
    for (int i = 0; i < 2; i++) {
        ck_assert_msg(rfg_context_imagine(&ctx, &p, products[i][0]) == RFG_OK, "%s", rfg_last_error());
        ck_assert_int_eq(rfg_explain(ctx, P, text, sizeof(text)), RFG_OK);
        rfg_context_destroy(&ctx);
        PRINTS(text, "by rung 1");
        PRINTS(text, products[i][1]);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("fleet");
    TCase *tc = test_case(s, "fleet", setup, program_teardown);
    ADD_TESTS(tc, shards_make_one_sweep, all_gpus, explain_names_the_sibling, merging_keeps_siblings,
              packs_have_siblings_rows);
    ADD_LOOPS(tc, (sizeof(jobs) / sizeof(jobs[0])), shards_of_jobs);
    ADD_LOOPS(tc, (sizeof(wrong) / sizeof(wrong[0])), wrong_usage);
    return run_suite(s);
}
