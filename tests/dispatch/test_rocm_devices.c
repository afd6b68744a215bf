/* SPDX-License-Identifier: MIT
 *
 * amd:0 on the emulated ROCm releases: each product is what docs/amd.md says rfg makes of it, whatever the release
 * counts and sums; and takes those of the tuned rows that are worth something to it. */
#include <dlfcn.h>

#include "dispatch/context.h"
#include "rfg/rfg.h"
#include "tests/emu/rocm_library.h"
#include "tests/program.h"
#include "tests/suite.h"

#define MIB (1024.0 * 1024)

static const struct {
    const char *product, *arch;
    int cus, xcds;
    double gbps, cache_mib;
} products[] = {
    { "MI210", "gfx90a", 104, 1, 1638.4, 8 },
    { "MI250X", "gfx90a", 110, 1, 1638.4, 8 },
    { "MI300X", "gfx942", 304, 8, 5324.8, 256 },
    { "MI300X:4", "gfx942", 4, 8, 5324.8, 256 }, /* no partition: the emulator's small one */
    { "MI300X-CPX", "gfx942", 38, 1, 665.6, 256 },
    { "MI308X", "gfx942", 80, 4, 5324.8, 256 },
    { "MI300A", "gfx942", 228, 6, 5324.8, 256 },
    { "MI325X", "gfx942", 304, 8, 6144, 256 },
    { "RX7900XTX", "gfx1100", 96, 1, 960, 96 },
    { "RX7900XTX:8", "gfx1100", 8, 1, 960, 96 },
    { "RX7900XT", "gfx1100", 84, 1, 800, 80 },
    { "RX7900GRE", "gfx1100", 80, 1, 576, 64 },
    { "MI355X", "gfx950", 256, 8, 8192, 256 },
    { "RX9070XT", "gfx1201", 64, 1, 644.096, 64 },
};

static void setup(void)
{
    program_setup();
    rfg_kfd_override("/nonexistent");
    static const char *const unset[] = { "GPU_ENABLE_WGP_MODE", "RFG_HIP_DISABLE",     "RFG_LIBAMDHIP64",
                                         "RFG_LIBHIP",          "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES" };
    for (size_t i = 0; i < sizeof(unset) / sizeof(unset[0]); i++)
        unsetenv(unset[i]);
}

static struct rfg_device described(const char *product)
{
    struct rfg_platform_report r;
    struct rfg_device d;
    setenv("EMULATED_ROCM_GPUS", product, 1);
    const struct rfg_hip *hip = rfg_platform_amd.load(&r);
    ck_assert_msg(hip != NULL, "%s: %s: %s", product, r.library, r.problem);
    ck_assert_int_eq(hip->describe(0, &d), hipSuccess);
    return d;
}

START_TEST(product)
{
    struct rfg_device d = described(products[_i].product);
    ck_assert_str_eq(d.arch, products[_i].arch);
    ck_assert_int_eq(d.cu_count, products[_i].cus);
    ck_assert_int_eq(d.xcds, products[_i].xcds);
    ck_assert_double_eq_tol(d.mem_gbps, products[_i].gbps, 1e-6 * products[_i].gbps);
    ck_assert_double_eq(d.cache_bytes / MIB, products[_i].cache_mib);
    ck_assert(d.features & RFG_FEATURE_MMA);
    /* Nothing that was asked is an error which the host program finds later. */
    hipError_t (*last)(void) = (hipError_t(*)(void))dlsym(dlopen("libamdhip64.so", RTLD_NOW), "hipGetLastError");
    ck_assert_ptr_nonnull(last);
    ck_assert_int_eq(last(), hipSuccess);
}
END_TEST

START_TEST(cu_mode)
{
    setenv("GPU_ENABLE_WGP_MODE", "0", 1);
    ck_assert_int_eq(described("RX7900XTX").cu_count, 96);
}
END_TEST

/* Predicted rows of 304 CUs are an MI300X's own; a partition and a sibling leave them. */
static const struct {
    const char *product, *says;
} ladders[] = {
    { "MI300X", "by rung 1 " },
    { "MI300X-CPX", "on 304 CUs skipped: a predicted row serves its own problem and CU count only" },
    { "MI308X", "on 304 CUs skipped: a predicted row serves its own problem and CU count only" },
};

START_TEST(ladder)
{
    char text[4000];
    rfg_context *ctx;
    rfg_context_params p = {
        .size = sizeof(p), .device = "amd:0", .user_db = "", .system_db = "sys.db", .cache_dir = ""
    };
    FILE *f = fopen("row.csv", "w");
    ck_assert_ptr_nonnull(f);
    fputs(
        "op,dtypes,attrs,M,N,K,arch,cu_count,variant,params,median_us,spread_us,samples,error,error_bound,default_us,"
        "vendor_us,source_hash,compiler,driver,rfg_version,date,device,seed,how\n"
        "gemm,\"bf16,bf16->bf16\",,64,3072,1536,gfx942,304,gemm_stream_mma,\"{\"\"tile_m\"\":64,\"\"frags_n\"\":2,"
        "\"\"k_waves\"\":4,\"\"unroll\"\":7,\"\"split_k\"\":2}\",7.5,0,0,0,1,0,0,,,clock 1,0.2.0,2026-11-30T00:00:00Z,"
        ",1,predicted\n",
        f);
    ck_assert_int_eq(fclose(f), 0);
    ck_assert_int_eq(run_program("rfg-db", "import --system --db sys.db row.csv"), 0);
    setenv("EMULATED_ROCM_GPUS", ladders[_i].product, 1);
    setenv("RFG_VENDOR", "0", 1); /* hipBLASLt may be the model's pick */
    ck_assert_msg(rfg_context_create(&ctx, &p) == RFG_OK, "%s", rfg_last_error());
    ck_assert_int_eq(rfg_explain(ctx, "gemm bf16,bf16->bf16 M=64 N=3072 K=1536", text, sizeof(text)), RFG_OK);
    PRINTS(text, ladders[_i].says);
    rfg_context_destroy(&ctx);
}
END_TEST

int main(void)
{
    if (!rocm_is_there())
        return 77;
    Suite *s = suite_create("rocm_devices");
    TCase *tc = test_case(s, "rocm_devices", setup, program_teardown);
    ADD_TESTS(tc, cu_mode);
    ADD_LOOPS(tc, sizeof(products) / sizeof(products[0]), product);
    ADD_LOOPS(tc, 3, ladder);
    return run_suite(s);
}
