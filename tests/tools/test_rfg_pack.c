/* SPDX-License-Identifier: MIT
 *
 * rfg-db pack, unpack, inspect, verify; and an engine that lives on a pack, with no compiler to be found. */
#include <unistd.h>

#include "base/util.h"
#include "dispatch/context.h"
#include "dispatch/db/db_internal.h"
#include "dispatch/pack/pack.h"
#include "ops/gemm/gemm.h"
#include "rfg/rfg.h"
#include "tests/emu/emu_kernel.h"
#include "tests/program.h"
#include "tests/suite.h"

#define run(...) run_program("rfg-db", __VA_ARGS__)
#define DEVICE   "emu:gfx942:4"
#define N        64
#define K        64
#define PROBLEM  "gemm bf16,bf16->bf16 M=4 N=64 K=64"

static void write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    ck_assert_int_eq(fclose(f), 0);
}

static void put_row(const char *path, const char *arch, int cus, const char *problem, const char *config)
{
    struct rfg_db *db;
    struct rfg_reason why;
    const struct rfg_variant *var;
    int p[RFG_MAX_PARAMS];
    struct rfg_row r = { .cu_count = cus,
                         .median_us = 0.3,
                         .samples = 9,
                         .error_bound = 1,
                         .date = "2026-11-01T00:00:00Z",
                         .version = RFG_VERSION,
                         .device = "an emulator",
                         .seed = 1,
                         .how = RFG_SOURCE_MEASURED };
    ck_assert_msg(rfg_problem_parse(&r.problem, problem, &why), "%s", why.text);
    ck_assert_msg(rfg_config_parse(r.problem.op, config, &var, p, &why), "%s", why.text);
    snprintf(r.arch, sizeof(r.arch), "%s", arch);
    rfg_row_set_config(&r, var, p, false);
    ck_assert_int_eq(rfg_db_open(&db, path, RFG_DB_WRITE), RFG_OK);
    ck_assert_int_eq(rfg_db_put(db, &r), RFG_OK);
    rfg_db_close(&db);
}

static char *cwd_path(const char *name)
{
    static char path[4200];
    char dir[4096];
    ck_assert_ptr_nonnull(getcwd(dir, sizeof(dir)));
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    return path;
}

static void setup(void)
{
    program_setup();
    setenv("RFG_SYSTEM_DB", cwd_path("none.db"), 1);
    /* something else than the model would say */
    put_row("user.db", "emu-gfx942", 4, PROBLEM, "gemm_portable{tile_m=64}");
    put_row("none.db", "gfx9", 1, PROBLEM, "gemm_portable{tile_m=64}"); /* so that there is nothing to warn of */
    write_text("s.csv", "op,dtype,M,N,K\ngemm,bf16,1..4,64,64\ngemm,f16,4,64,64\n");
}

static void teardown(void)
{
    setenv("PATH", "/usr/bin:/bin", 1); /* it takes rm */
    program_teardown();
}

static void make_pack(void)
{
    ck_assert_msg(run("pack --arch " DEVICE " --shapes s.csv --db user.db -o m.rfgpack") == 0, "%s", err);
    PRINTS(out, "m.rfgpack: 5 problems on 1 arch: 1 rows, ");
}

/* From here on no compiler can be found. */
static void lose_compilers(void)
{
    static const char *const names[] = { "RFG_LIBHIPRTC", "RFG_LIBNVRTC",       "RFG_LIBCOMGR",      "RFG_LIBHIP",
                                         "RFG_CLANG",     "RFG_ZIGLANG_PYTHON", "RFG_COMPILE_WORKER" };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        setenv(names[i], "/nowhere", 1);
    setenv("PATH", "/nowhere", 1);
}

static rfg_status open_engine(const char *device, const char *pack)
{
    rfg_context_params p = { .size = sizeof(p), .device = device, .user_db = "", .cache_dir = "", .pack = pack };
    return rfg_context_create(&ctx, &p);
}

static uint16_t number_of(int small, rfg_dtype dtype)
{
    float f = (float)small;
    _Float16 half = (_Float16)small;
    uint32_t bits;
    uint16_t half_bits;
    memcpy(&bits, &f, sizeof(bits));
    memcpy(&half_bits, &half, sizeof(half_bits));
    return dtype == RFG_F16 ? half_bits : (uint16_t)(bits >> 16);
}

/* Small whole numbers: the result is exact. */
static rfg_status gemm(int m, int n, rfg_dtype dtype)
{
    uint16_t *host[3] = { calloc((size_t)m * K, 2), calloc((size_t)n * K, 2), calloc((size_t)m * n, 2) };
    size_t sizes[3] = { (size_t)m * K * 2, (size_t)n * K * 2, (size_t)m * n * 2 };
    void *dev[3];
    for (int i = 0; i < m * K; i++)
        host[0][i] = number_of(i % K % 3, dtype);
    for (int i = 0; i < n * K; i++)
        host[1][i] = number_of((i / K + i % K) % 2, dtype);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(rfg_device_alloc(ctx, &dev[i], sizes[i]), RFG_OK);
        ck_assert_int_eq(rfg_device_copy(ctx, dev[i], host[i], sizes[i], RFG_HOST_TO_DEVICE, NULL), RFG_OK);
    }
    rfg_tensor x = rfg_tensor_2d(dev[0], dtype, m, K, K), w = rfg_tensor_2d(dev[1], dtype, n, K, K),
               y = rfg_tensor_2d(dev[2], dtype, m, n, n);
    rfg_status st = rfg_op_gemm(ctx, &y, &x, &w, NULL, NULL);
    if (st == RFG_OK)
        ck_assert_int_eq(rfg_device_copy(ctx, host[2], dev[2], sizes[2], RFG_DEVICE_TO_HOST, NULL), RFG_OK);
    for (int i = 0; i < m * n && st == RFG_OK; i++) {
        int sum = 0;
        for (int k = 0; k < K; k++)
            sum += k % 3 * ((i % n + k) % 2);
        ck_assert_uint_eq(host[2][i], number_of(sum, dtype));
    }
    for (int i = 0; i < 3; i++) {
        free(host[i]);
        rfg_device_free(ctx, dev[i]);
    }
    return st;
}

static void explains(const char *problem, const char *says)
{
    static char text[8192];
    ck_assert_msg(rfg_explain(ctx, problem, text, sizeof(text)) == RFG_OK, "%s", rfg_last_error());
    PRINTS(text, says);
}

START_TEST(an_engine_never_compiles)
{
    rfg_stats stats = RFG_STATS_INIT;
    make_pack();
    lose_compilers();
    ck_assert_msg(open_engine(DEVICE, "m.rfgpack") == RFG_OK, "%s", rfg_last_error());
    for (int m = 1; m <= 4; m++)
        ck_assert_msg(gemm(m, N, RFG_BF16) == RFG_OK, "%s", rfg_last_error());
    explains("gemm bf16,bf16->bf16 M=4 N=64 K=64", "rung 1: row gemm bf16,bf16->bf16 M=4 N=64 K=64 on 4 CUs -> "
                                                   "gemm_portable{");
    explains("gemm bf16,bf16->bf16 M=4 N=64 K=64", "code: of the pack m.rfgpack, nothing is compiled");
    /* what it was not made for takes what there is: */
    ck_assert_msg(gemm(70, 48, RFG_BF16) == RFG_OK, "%s", rfg_last_error());
    ck_assert_int_eq(rfg_prepare(ctx, "gemm bf16,bf16->bf16 M=5..9 N=64 K=64"), RFG_OK);
    /* where that has no row of its own, too, and of any size and alignment; */
    ck_assert_msg(gemm(4, N, RFG_F16) == RFG_OK, "%s", rfg_last_error());
    ck_assert_msg(rfg_prepare(ctx, "gemm f16,f16->f16 M=3 N=7 K=5 align=2 align_y=2") == RFG_OK, "%s",
                  rfg_last_error());
    /* of other formats there is nothing */
    ck_assert_int_eq(rfg_prepare(ctx, "gemm f32,f32->f32 M=4 N=64 K=64"), RFG_ERROR_COMPILE);
    PRINTS(rfg_last_error(), "gemm f32,f32->f32 M=4 N=64 K=64");
    PRINTS(rfg_last_error(), "nothing is compiled with a pack, and m.rfgpack has no code that serves it");
    ck_assert_int_eq(rfg_prepare(ctx, "rmsnorm bf16->bf16 M=4 N=64"), RFG_ERROR_COMPILE);
    rfg_context_stats(ctx, &stats);
    ck_assert_uint_eq(stats.compiles, 0);
    rfg_context_destroy(&ctx);
    /* the environment names it as well, and "" none */
    setenv("RFG_PACK", "m.rfgpack", 1);
    ck_assert_int_eq(open_engine(DEVICE, NULL), RFG_OK);
    ck_assert_msg(gemm(2, N, RFG_BF16) == RFG_OK, "%s", rfg_last_error());
    rfg_context_destroy(&ctx);
    ck_assert_int_eq(open_engine(DEVICE, ""), RFG_OK);
    ck_assert_int_ne(gemm(2, N, RFG_BF16), RFG_OK); /* so there really was no compiler */
    ck_assert_ptr_null(strstr(rfg_last_error(), "pack"));
    rfg_context_destroy(&ctx);
    ck_assert_int_eq(open_engine("cpu", NULL), RFG_OK); /* has no need of code */
    ck_assert_msg(gemm(2, N, RFG_BF16) == RFG_OK, "%s", rfg_last_error());
    rfg_context_destroy(&ctx);
}
END_TEST

START_TEST(engines_refuse_what_is_not_for_them)
{
    size_t size;
    make_pack();
    ck_assert_int_eq(open_engine("emu:gfx90a:4", "m.rfgpack"), RFG_ERROR_DATABASE);
    PRINTS(rfg_last_error(), "m.rfgpack: has no code for gfx90a: must be packed with --arch for it (has gfx942)");
    ck_assert_ptr_null(ctx);
    ck_assert_int_eq(open_engine(DEVICE, "none.rfgpack"), RFG_ERROR_DATABASE);
    PRINTS(rfg_last_error(), "none.rfgpack: cannot open: No such file");
    /* the tuner compiles, whatever the environment says */
    setenv("RFG_PACK", "none.rfgpack", 1);
    ck_assert_msg(run_program("rfg-tune", "--dry-run --device cpu --db tune.db --shapes s.csv") == 0, "%s", err);
    unsetenv("RFG_PACK");
    /* damaged code is found when it is to run, and nothing stands in for it */
    char *bytes = rfg_read_file("m.rfgpack", &size);
    for (size_t i = size / 2; i < size; i++)
        bytes[i] = (char)~bytes[i];
    FILE *f = fopen("damaged.rfgpack", "wb");
    ck_assert_uint_eq(fwrite(bytes, 1, size, f), size);
    fclose(f);
    free(bytes);
    rfg_status st = open_engine(DEVICE, "damaged.rfgpack");
    for (int m = 1; m <= 4 && st == RFG_OK; m++)
        st = gemm(m, N, RFG_BF16);
    ck_assert_int_eq(st, RFG_ERROR_DATABASE);
    PRINTS(rfg_last_error(), "damaged.rfgpack: damaged: wrong checksum of the code of gemm/");
    rfg_context_destroy(&ctx);
    RUNS(run("verify damaged.rfgpack"), 1, out, "damaged: wrong checksum");
    /* kernels of another text: what this build would launch is not what was packed */
    ck_assert_int_eq(system("mkdir -p k/gemm/gpu/any && echo '// another' > k/gemm/gpu/any/portable.hip"), 0);
    setenv("RFG_KERNEL_DIR", cwd_path("k"), 1);
    ck_assert_int_eq(open_engine(DEVICE, "m.rfgpack"), RFG_ERROR_DATABASE);
    PRINTS(rfg_last_error(),
           "made by another build, rfg " RFG_VERSION ": its code for gfx942 is of a gemm/gpu/any/portable");
    RUNS(run("verify m.rfgpack"), 1, out, "made by another build");
}
END_TEST

START_TEST(looking_into_a_pack)
{
    make_pack();
    RUNS(run("verify m.rfgpack"), 0, out, "m.rfgpack: pack of rfg " RFG_VERSION ", 1 rows, ");
    PRINTS(out, " 0 problems");
    RUNS(run("inspect m.rfgpack"), 0, out, "gfx942: its kernels are those of this rfg");
    PRINTS(out, "gfx942 gemm/gpu/any/portable.hip gemm_portable IN_DTYPE=");
    PRINTS(out, "row gemm bf16,bf16->bf16 M=4 N=64 K=64, emu-gfx942, 4 CUs: gemm_portable{");
    /* again: the same file */
    ck_assert_int_eq(system("cp m.rfgpack first.rfgpack"), 0);
    make_pack();
    ck_assert_int_eq(system("cmp m.rfgpack first.rfgpack"), 0);
    /* out and back: rows keep every bit, code its hash */
    ck_assert_msg(run("unpack -o u m.rfgpack") == 0, "%s", err);
    ck_assert_int_eq(run("export -o user.csv user.db"), 0);
    ck_assert_int_eq(system("cmp u/rows.csv user.csv"), 0);
    ck_assert_int_eq(run("import --how keep --db back.db u/rows.csv"), 0);
    ck_assert_int_eq(run("export -o back.csv back.db"), 0);
    ck_assert_int_eq(system("cmp back.csv user.csv"), 0);
    ck_assert_int_eq(system("for f in u/gfx942/*.co; do head -c 4 $f | grep -q ELF || exit 1; done"), 0);
    ck_assert_int_eq(system("test $(ls u/gfx942/*.co | wc -l) = $(wc -l < u/code.txt)"), 0);
    RUNS(run("unpack -o u m.rfgpack"), 2, err, "-o u: cannot be made: File exists");
}
END_TEST

/* A winner of a library needs no code where the library is; elsewhere the best of ours serves. */
START_TEST(a_librarys_row_goes_along)
{
    put_row("blas.db", "gfx942", 304, PROBLEM, "gemm_hipblaslt{algo=15}");
    write_text("s.csv", "op,dtype,M,N,K\ngemm,bf16,4,64,64\n");
    ck_assert_msg(run("pack --arch gfx942 --shapes s.csv --db blas.db -o m.rfgpack") == 0, "%s", err);
    PRINTS(out, "m.rfgpack: 1 problems on 1 arch: 1 rows, 2 code objects");
    ck_assert_int_eq(run("inspect m.rfgpack"), 0);
    PRINTS(out, "row gemm bf16,bf16->bf16 M=4 N=64 K=64, gfx942, 304 CUs: gemm_hipblaslt{algo=15}");
    lose_compilers();
    ck_assert_msg(open_engine("emu:gfx942:304", "m.rfgpack") == RFG_OK, "%s", rfg_last_error());
    ck_assert_msg(gemm(4, N, RFG_BF16) == RFG_OK, "%s", rfg_last_error());
    rfg_context_destroy(&ctx);
}
END_TEST

static char warned[1500];

static void hear_warning(void *user, rfg_log_topic topic, const char *line)
{
    (void)user;
    if (topic == RFG_LOG_WARNING)
        snprintf(warned, sizeof(warned), "%s", line);
}

/* A pack says for which CU counts it is, and a GPU of another one that has nothing good in it says so, once. */
START_TEST(a_partition_without_rows)
{
    static const char *const archs[] = { "emu:gfx942:4", "emu:gfx942:4,emu:gfx942:2" };
    const char *asked[] = { "gemm bf16,bf16->bf16 M=512 N=2048 K=1024", "gemm bf16,bf16->bf16 M=640 N=2048 K=1024" };
    for (int own = 0; own < 2; own++) {
        write_text("s.csv", own ? "op,dtype,M,N,K\ngemm,bf16,512,2048,1024\ngemm,bf16,640,2048,1024\n"
                                : "op,dtype,M,N,K\ngemm,bf16,1,64,64\n");
        ck_assert_msg(run("pack --arch %s --shapes s.csv --db none.db -o m.rfgpack", archs[own]) == 0, "%s", err);
        PRINTS(out,
               own ? "m.rfgpack: for gfx942 with 4 CUs, gfx942 with 2 CUs (" : "m.rfgpack: for gfx942 with 4 CUs (");
        for (int i = 0; i < 2; i++) {
            *warned = 0;
            rfg_set_log_callback(hear_warning, NULL, 0);
            if (!i)
                ck_assert_msg(open_engine("emu:gfx942:2", "m.rfgpack") == RFG_OK, "%s", rfg_last_error());
            ck_assert_msg(rfg_prepare(ctx, asked[i]) == RFG_OK, "%s", rfg_last_error());
            rfg_set_log_callback(NULL, NULL, 0);
            ck_assert_msg((*warned != 0) == (!own && !i), "%s, pack for %s: '%s'", asked[i], archs[own], warned);
            if (*warned)
                PRINTS(warned, "m.rfgpack: has no row that serves 'gemm bf16,bf16->bf16 M=512 N=2048 K=1024' on "
                               "emu-gfx942 with 2 CUs, and no code of gemm_tile");
        }
        rfg_context_destroy(&ctx);
    }
}
END_TEST

/* As a context goes on to the next variant, so does the packing. */
START_TEST(what_a_compiler_refuses_is_passed_over)
{
    setenv("RFG_CACHE_DIR", cwd_path("cache"), 1);
    setenv("RFG_TEST_WORKER_CRASH", "gemm_stream_mma", 1);
    write_text("s.csv", "op,dtype,M,N,K\ngemm,f16,4,64,64\n");
    ck_assert_msg(run("pack --arch " DEVICE " --shapes s.csv --db none.db -o m.rfgpack") == 0, "%s", err);
    PRINTS(err, "gemm_stream_mma{");
    PRINTS(err, "; the next best is packed");
    ck_assert_int_eq(run("inspect m.rfgpack"), 0);
    ck_assert_ptr_null(strstr(out, "stream.hip"));
    setenv("RFG_TEST_WORKER_CRASH", "gemm", 1); /* all of them */
    ck_assert_int_eq(system("rm -r cache m.rfgpack"), 0);
    ck_assert_int_eq(run("pack --arch " DEVICE " --shapes s.csv --db none.db -o m.rfgpack"), 1);
    PRINTS(err, DEVICE ": gemm f16,f16->f16 M=4 N=64 K=64");
    PRINTS(err, "m.rfgpack: not written");
    ck_assert_int_ne(access("m.rfgpack", F_OK), 0);
}
END_TEST

/* Contexts with launch_overlap run other kernels of some variants. */
START_TEST(for_overlapping_launches)
{
    if (!rfg_jit_provider_for("sm_90a")) {
        printf("SKIPPED: overlapping launches: takes a compiler for sm_90a\n");
        return;
    }
    put_row("thin.db", "sm_90", 132, "gemm bf16,bf16->bf16 M=8 N=2112 K=7168",
            "gemm_thin_mma{tile_m=8,frags_n=4,k_waves=14,unroll=4,split_k=2}");
    write_text("s.csv", "op,dtype,M,N,K\ngemm,bf16,8,2112,7168\n");
    for (int with = 0; with < 2; with++) {
        ck_assert_msg(run("pack --arch sm_90 %s --shapes s.csv --db thin.db -o m.rfgpack", with ? "--overlap" : "") ==
                          0,
                      "%s", err);
        PRINTS(out, "m.rfgpack: 1 problems on 1 arch");
        RUNS(run("inspect m.rfgpack"), 0, out, "X_FIRST=1");
        ck_assert(with == (strstr(out, "X_FIRST=0") != NULL));
    }
}
END_TEST

START_TEST(bad_usage)
{
    RUNS(run("pack --shapes s.csv -o m.rfgpack"), 2, err, "--arch is missing");
    RUNS(run("pack --arch gfx942 -o m.rfgpack"), 2, err, "--shapes is missing");
    RUNS(run("pack --arch gfx942 --shapes s.csv"), 2, err, "-o is missing");
    ck_assert_int_eq(run("pack --arch gfx9 --shapes s.csv -o m.rfgpack"), 2);
    PRINTS(err, "--arch 'gfx9': must be an arch that this version knows");
    RUNS(run("pack --arch gfx942,gfx942 --shapes s.csv -o m.rfgpack"), 2, err, "gfx942 is there twice");
    RUNS(run("pack --arch , --shapes s.csv -o m.rfgpack"), 2, err, "must name archs");
    write_text("bad.csv", "op,dtype,M,N,K\ngemm,bf16,4..1,64,64\n");
    ck_assert_int_eq(run("pack --arch gfx942 --shapes bad.csv -o m.rfgpack"), 2);
    PRINTS(err, "bad.csv:2: '4..1': low must not be above high");
    RUNS(run("pack --arch gfx942 --jobs 0 --shapes s.csv -o m.rfgpack"), 2, err, "--jobs '0': must be");
    RUNS(run("unpack m.rfgpack"), 2, err, "-o is missing");
    RUNS(run("inspect s.csv"), 2, err, "s.csv: not a pack");
    /* what can't be had is said, and nothing is written */
    ck_assert_int_eq(access("m.rfgpack", F_OK), -1);
    setenv("RFG_JIT", "nvrtc", 1);
    ck_assert_int_eq(run("pack --arch gfx942 --shapes s.csv -o m.rfgpack"), 1);
    PRINTS(err, "--arch gfx942: no compiler for gfx942 with RFG_JIT=nvrtc");
    PRINTS(err, "m.rfgpack: not written");
    ck_assert_int_eq(access("m.rfgpack", F_OK), -1);
}
END_TEST

int main(void)
{
    if (!emu_is_there() || !rfg_jit_provider_for("gfx942"))
        return 77;
    Suite *s = suite_create("rfg_pack");
    TCase *tc = test_case(s, "rfg_pack", setup, teardown);
    tcase_set_timeout(tc, 100);
    ADD_TESTS(tc, an_engine_never_compiles, engines_refuse_what_is_not_for_them, looking_into_a_pack,
              a_librarys_row_goes_along, a_partition_without_rows, what_a_compiler_refuses_is_passed_over,
              for_overlapping_launches, bad_usage);
    return run_suite(s);
}
