/* SPDX-License-Identifier: MIT
 *
 * The platforms: what the loaders say when something is missing, a round trip where there is a GPU, imagined
 * devices, the cpu. Check's fork per test gives each its own first load. */
#include "dispatch/hip/hip.h"
#include "emu/emu.h"
#include "tests/suite.h"

/* ---- loaders ------------------------------------------------------------------------------------------------- */

static const struct {
    const char *platform, *lib_env;
    const struct rfg_hip_platform *p;
} platforms[] = {
    { "AMD", "RFG_LIBHIP", &rfg_platform_amd },
    { "NVIDIA", "RFG_LIBCUDA", &rfg_platform_nvidia },
};

START_TEST(library_missing)
{
    struct rfg_platform_report r, again;
    unsetenv("RFG_HIP_DISABLE");
    setenv(platforms[_i].lib_env, "/nonexistent/library.so", 1);
    ck_assert_ptr_null(platforms[_i].p->load(&r));
    ck_assert_str_eq(r.platform, platforms[_i].platform);
    ck_assert(!r.found);
    ck_assert_int_eq(r.devices, 0);
    ck_assert_msg(strstr(r.problem, "/nonexistent/library.so") != NULL, "problem: %s", r.problem);
    ck_assert_str_ne(r.advice, "");
    ck_assert_str_eq(r.library, "/nonexistent/library.so");
    /* The answer stays, and no report may be asked for. */
    ck_assert_ptr_null(platforms[_i].p->load(NULL));
    ck_assert_ptr_null(platforms[_i].p->load(&again));
    ck_assert_str_eq(again.problem, r.problem);
}
END_TEST

/* A library that is there but isn't the right one is refused with the name of what it lacks. */
START_TEST(symbol_missing)
{
    struct rfg_platform_report r;
    unsetenv("RFG_HIP_DISABLE");
    setenv(platforms[_i].lib_env, "libm.so.6", 1);
    ck_assert_ptr_null(platforms[_i].p->load(&r));
    ck_assert(r.found);
    ck_assert_msg(strstr(r.problem, "libm.so.6") != NULL, "problem: %s", r.problem);
    ck_assert_msg(strstr(r.problem, _i == 0 ? "hipInit" : "cuInit") != NULL, "problem: %s", r.problem);
    ck_assert_str_ne(r.advice, "");
}
END_TEST

START_TEST(switched_off)
{
    struct rfg_platform_report r;
    setenv("RFG_HIP_DISABLE", "amd,nvidia", 1);
    ck_assert_ptr_null(platforms[_i].p->load(&r));
    ck_assert_msg(strstr(r.problem, "RFG_HIP_DISABLE") != NULL, "problem: %s", r.problem);
    ck_assert_int_eq(r.devices, 0);
}
END_TEST

START_TEST(other_one_switched_off)
{
    struct rfg_platform_report r;
    setenv("RFG_HIP_DISABLE", platforms[1 - _i].p->name, 1);
    setenv(platforms[_i].lib_env, "/nonexistent/library.so", 1);
    ck_assert_ptr_null(platforms[_i].p->load(&r));
    ck_assert_ptr_null(strstr(r.problem, "RFG_HIP_DISABLE"));
}
END_TEST

/* Whatever this machine has: a usable table, or a report that says why not. */
START_TEST(this_machine)
{
    struct rfg_platform_report r;
    unsetenv("RFG_HIP_DISABLE");
    unsetenv(platforms[_i].lib_env);
    const struct rfg_hip *hip = platforms[_i].p->load(&r);
    ck_assert_str_ne(r.library, "");
    if (!hip) {
        ck_assert_int_eq(r.devices, 0);
        ck_assert_str_ne(r.problem, "");
        ck_assert_str_ne(r.advice, "");
        return;
    }
    ck_assert(r.found);
    ck_assert_int_gt(r.devices, 0);
    ck_assert_str_eq(r.problem, "");
    ck_assert_str_ne(r.version, "");
    for (int e = -1; e < 1200; e++)
        ck_assert_ptr_nonnull(hip->error_name((hipError_t)e));
    struct rfg_device d;
    ck_assert_int_eq(hip->describe(0, &d), hipSuccess);
    ck_assert_int_gt(d.cu_count, 0);
    ck_assert(d.wave_size == 32 || d.wave_size == 64);
    ck_assert_int_ge(d.lds_bytes, 32768);
    ck_assert_int_ge(d.max_threads, 256);
    ck_assert_int_eq(strncmp(d.target, d.arch, strlen(d.arch)), 0);
    ck_assert(d.mem_gbps > 0 && d.mma_tflops > 0 && d.fma_tflops > 0 && d.latency_us > 0 && d.cache_bytes > 0);
    ck_assert_int_ne(hip->describe(r.devices, &d), hipSuccess);
    ck_assert_int_ne(hip->hipSetDevice(r.devices), hipSuccess);

    /* Memory there and back, a stream, a graph of one memset. */
    int at = -7;
    ck_assert_int_eq(hip->hipSetDevice(0), hipSuccess);
    ck_assert_int_eq(hip->hipGetDevice(&at), hipSuccess);
    ck_assert_int_eq(at, 0);
    void *p, *none;
    unsigned char host[64];
    hipStream_t s;
    hipGraph_t g;
    hipGraphExec_t x;
    hipStreamCaptureStatus status;
    ck_assert_int_eq(hip->hipMalloc(&none, 0), hipSuccess);
    ck_assert_int_eq(hip->hipFree(NULL), hipSuccess);
    ck_assert_int_eq(hip->hipMalloc(&none, (size_t)1 << 60), hipErrorOutOfMemory);
    ck_assert_int_eq(hip->hipMalloc(&p, sizeof(host)), hipSuccess);
    memset(host, 1, sizeof(host));
    ck_assert_int_eq(hip->hipMemcpyHtoD(p, host, sizeof(host)), hipSuccess);
    ck_assert_int_eq(hip->hipStreamCreateWithFlags(&s, hipStreamNonBlocking), hipSuccess);
    ck_assert_int_eq(hip->hipStreamBeginCapture(s, hipStreamCaptureModeThreadLocal), hipSuccess);
    ck_assert_int_eq(hip->hipStreamIsCapturing(s, &status), hipSuccess);
    ck_assert_int_eq(status, hipStreamCaptureStatusActive);
    ck_assert_int_eq(hip->hipMemsetD8Async(p, 7, 32, s), hipSuccess);
    ck_assert_int_eq(hip->hipStreamEndCapture(s, &g), hipSuccess);
    ck_assert_int_eq(hip->hipGraphInstantiate(&x, g, NULL, NULL, 0), hipSuccess);
    ck_assert_int_eq(hip->hipMemcpyDtoH(host, p, sizeof(host)), hipSuccess);
    ck_assert_int_eq(host[0], 1); /* captured, not run */
    hipEvent_t e[2];
    float ms = -1;
    ck_assert_int_eq(hip->hipEventCreateWithFlags(&e[0], hipEventDefault), hipSuccess);
    ck_assert_int_eq(hip->hipEventCreateWithFlags(&e[1], hipEventDefault), hipSuccess);
    ck_assert_int_eq(hip->hipEventRecord(e[0], s), hipSuccess);
    ck_assert_int_eq(hip->hipGraphLaunch(x, s), hipSuccess);
    ck_assert_int_eq(hip->hipEventRecord(e[1], s), hipSuccess);
    ck_assert_int_eq(hip->hipEventSynchronize(e[1]), hipSuccess);
    ck_assert_int_eq(hip->hipEventElapsedTime(&ms, e[0], e[1]), hipSuccess);
    ck_assert(ms >= 0);
    ck_assert_int_eq(hip->hipMemcpyDtoH(host, p, sizeof(host)), hipSuccess);
    ck_assert_int_eq(host[31], 7);
    ck_assert_int_eq(host[32], 1);
    ck_assert_int_eq(hip->hipEventDestroy(e[0]), hipSuccess);
    ck_assert_int_eq(hip->hipEventDestroy(e[1]), hipSuccess);
    ck_assert_int_eq(hip->hipGraphExecDestroy(x), hipSuccess);
    ck_assert_int_eq(hip->hipGraphDestroy(g), hipSuccess);
    ck_assert_int_eq(hip->hipStreamDestroy(s), hipSuccess);
    ck_assert_int_eq(hip->hipFree(p), hipSuccess);
    hipModule_t m;
    ck_assert_int_ne(hip->hipModuleLoadData(&m, "not a module"), hipSuccess);
}
END_TEST

/* AMD's runtime on a machine without a device: found, of a version, and the reason with HIP's own word for it. */
START_TEST(runtime_without_device)
{
    struct rfg_platform_report r;
    unsetenv("RFG_HIP_DISABLE");
    unsetenv("RFG_LIBHIP");
    setenv("HIP_VISIBLE_DEVICES", "-1", 1); /* on one that has some, hide them */
    const struct rfg_hip *hip = rfg_platform_amd.load(&r);
    if (!r.found) {
        printf("SKIPPED: a runtime without a device: %s\n", r.problem);
        return;
    }
    ck_assert_ptr_null(hip);
    ck_assert_int_eq(r.devices, 0);
    ck_assert_msg(strspn(r.version, "0123456789.") == strlen(r.version) && strchr(r.version, '.'), "version: '%s'",
                  r.version);
    ck_assert_msg(!strncmp(r.problem, "no AMD device", 13), "problem: %s", r.problem);
    ck_assert_msg(!r.problem[13] || strstr(r.problem, "(hip"), "problem: %s", r.problem);
    static const char *const says[] = { "amdgpu", "/dev/kfd", "group render", "HIP_VISIBLE_DEVICES" };
    for (size_t i = 0; i < sizeof(says) / sizeof(says[0]); i++)
        ck_assert_msg(strstr(r.advice, says[i]) != NULL, "advice: %s", r.advice);
    /* A context says the same. */
    rfg_context *ctx;
    rfg_context_params p = { .size = sizeof(p), .device = "amd:0", .user_db = "", .system_db = "", .cache_dir = "" };
    ck_assert_int_eq(rfg_context_create(&ctx, &p), RFG_ERROR_DEVICE);
    ck_assert_msg(strstr(rfg_last_error(), "device 'amd:0': no AMD device") != NULL, "%s", rfg_last_error());
}
END_TEST

/* An emulated device is there for who names it, and nobody's default. */
START_TEST(default_device)
{
    rfg_context *emulated, *ctx;
    rfg_context_params p = {
        .size = sizeof(p), .device = "emu:gfx942:4", .user_db = "", .system_db = "", .cache_dir = ""
    };
    setenv("RFG_HIP_DISABLE", "amd,nvidia", 1);
    unsetenv("RFG_DEVICE");
    ck_assert_msg(rfg_context_create(&emulated, &p) == RFG_OK, "%s", rfg_last_error());
    ck_assert_str_eq(rfg_context_device(emulated), "emu:gfx942:4");
    p.device = NULL;
    ck_assert_msg(rfg_context_create(&ctx, &p) == RFG_OK, "%s", rfg_last_error());
    ck_assert_str_eq(rfg_context_device(ctx), "cpu");
    rfg_context_destroy(&ctx);
    rfg_context_destroy(&emulated);
}
END_TEST

/* ---- overriding ---------------------------------------------------------------------------------------------- */

static hipError_t two_devices(int *count)
{
    *count = 2;
    return hipSuccess;
}

START_TEST(overriding)
{
    const struct rfg_hip fake = { .hipGetDeviceCount = two_devices, .platform = RFG_PLATFORM_AMD };
    struct rfg_platform_report r;
    setenv("RFG_HIP_DISABLE", "amd,nvidia", 1);
    rfg_hip_override(RFG_PLATFORM_AMD, &fake);
    ck_assert_ptr_eq(rfg_platform_amd.load(&r), &fake);
    ck_assert(r.found);
    ck_assert_str_eq(r.problem, "");
    ck_assert_ptr_eq(rfg_platform_amd.load(NULL), &fake);
    ck_assert_ptr_null(rfg_platform_nvidia.load(&r));
    rfg_hip_override(RFG_PLATFORM_AMD, NULL);
    ck_assert_ptr_null(rfg_platform_amd.load(&r));
}
END_TEST

/* ---- devices ------------------------------------------------------------------------------------------------- */

#define HOPPER (RFG_FEATURE_MMA | RFG_FEATURE_ASYNC | RFG_FEATURE_CLUSTER | RFG_FEATURE_OVERLAP | RFG_FEATURE_TMA)

static const struct {
    const char *text, *arch, *target;
    enum rfg_platform platform;
    int cus, wave, lds;
    unsigned features;
} imagined[] = {
    { "gfx942", "gfx942", "gfx942", RFG_PLATFORM_AMD, 304, 64, 65536, RFG_FEATURE_MMA },
    { "gfx942:80", "gfx942", "gfx942", RFG_PLATFORM_AMD, 80, 64, 65536, RFG_FEATURE_MMA },
    { "gfx908", "gfx908", "gfx908", RFG_PLATFORM_AMD, 120, 64, 65536, RFG_FEATURE_MMA },
    { "gfx90a", "gfx90a", "gfx90a", RFG_PLATFORM_AMD, 104, 64, 65536, RFG_FEATURE_MMA },
    { "gfx950", "gfx950", "gfx950", RFG_PLATFORM_AMD, 256, 64, 163840, RFG_FEATURE_MMA },
    { "gfx1030", "gfx1030", "gfx1030", RFG_PLATFORM_AMD, 80, 32, 65536, 0 },
    { "gfx1100", "gfx1100", "gfx1100", RFG_PLATFORM_AMD, 96, 32, 65536, RFG_FEATURE_MMA },
    { "gfx1201", "gfx1201", "gfx1201", RFG_PLATFORM_AMD, 64, 32, 65536, RFG_FEATURE_MMA },
    { "sm_80", "sm_80", "sm_80", RFG_PLATFORM_NVIDIA, 108, 32, 166912, RFG_FEATURE_MMA | RFG_FEATURE_ASYNC },
    { "sm_90", "sm_90", "sm_90a", RFG_PLATFORM_NVIDIA, 132, 32, 232448, HOPPER },
    { "sm_90:114", "sm_90", "sm_90a", RFG_PLATFORM_NVIDIA, 114, 32, 232448, HOPPER },
    { "sm_100", "sm_100", "sm_100a", RFG_PLATFORM_NVIDIA, 148, 32, 232448, HOPPER },
};

START_TEST(imagining)
{
    struct rfg_device d;
    ck_assert(rfg_device_imagine(&d, imagined[_i].text));
    ck_assert_int_eq(strncmp(d.name, imagined[_i].text, strlen(imagined[_i].text)), 0); /* it may add the CUs */
    ck_assert_str_eq(d.arch, imagined[_i].arch);
    ck_assert_str_eq(d.target, imagined[_i].target);
    ck_assert_int_eq(d.platform, imagined[_i].platform);
    ck_assert_int_eq(d.cu_count, imagined[_i].cus);
    ck_assert_int_eq(d.wave_size, imagined[_i].wave);
    ck_assert_int_eq(d.lds_bytes, imagined[_i].lds);
    ck_assert_int_eq(d.max_threads, 1024);
    ck_assert_uint_eq(d.features, imagined[_i].features);
    ck_assert(d.mem_gbps > 0 && d.fma_tflops > 0);
    ck_assert(!(d.features & RFG_FEATURE_MMA) || d.mma_tflops > d.fma_tflops);
    ck_assert(d.latency_us > 0 && d.sync_us > 0 && d.cache_bytes > 0);
}
END_TEST

START_TEST(not_imaginable)
{
    static const char *const bad[] = {
        "",           "gfx",          "gfx9",     "gfx942:", "gfx942:0",     "gfx942:-1",
        "gfx942:3x4", "gfx942:99999", "gfx942a",  "gfx942 ", "GFX942",       "emu:gfx942:304",
        "sm_90a",     "sm_",          "nvidia:0", "cpu",     "gfx942:304:1",
    };
    struct rfg_device d;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        ck_assert_msg(!rfg_device_imagine(&d, bad[i]), "'%s' was accepted", bad[i]);
}
END_TEST

/* Dies of products, of their partitions, and of imagined ones that are neither. */
START_TEST(xcds)
{
    static const struct {
        const char *device;
        int xcds;
    } cases[] = { { "gfx942", 8 },     { "gfx942:228", 6 }, { "gfx942:152", 4 }, { "gfx942:80", 4 },
                  { "gfx942:76", 2 },  { "gfx942:40", 2 },  { "gfx942:38", 1 },  { "gfx942:20", 1 },
                  { "gfx942:4", 8 },   { "gfx942:100", 8 }, { "gfx950", 8 },     { "gfx942:380", 8 },
                  { "gfx950:128", 4 }, { "gfx950:32", 1 },  { "gfx950:5", 8 },   { "gfx90a", 1 },
                  { "gfx908:20", 1 },  { "gfx1100", 1 },    { "gfx1100:38", 1 }, { "sm_90", 1 } };
    struct rfg_device d;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ck_assert(rfg_device_imagine(&d, cases[i].device));
        ck_assert_msg(d.xcds == cases[i].xcds, "%s: %d dies", cases[i].device, d.xcds);
        ck_assert_int_eq(d.platform == RFG_PLATFORM_NVIDIA ? 1 : emu_xcds(emu_arch_find(d.arch), d.cu_count), d.xcds);
    }
}
END_TEST

START_TEST(fewer_units_compute_less)
{
    struct rfg_device whole, half, sibling;
    ck_assert(rfg_device_imagine(&whole, "gfx942:304"));
    ck_assert(rfg_device_imagine(&half, "gfx942:152"));
    ck_assert_double_eq_tol(half.mma_tflops * 2, whole.mma_tflops, 1e-6);
    ck_assert_double_eq_tol(half.fma_tflops * 2, whole.fma_tflops, 1e-6);
    /* 152 are four of eight XCDs, a partition, with its share of the memory; an MI300A has all of its own. */
    ck_assert_double_eq(half.mem_gbps * 2, whole.mem_gbps);
    ck_assert_double_eq(half.cache_gbps * 2, whole.cache_gbps);
    ck_assert(rfg_device_imagine(&sibling, "gfx942:228"));
    ck_assert_double_eq(sibling.mem_gbps, whole.mem_gbps);
    ck_assert_double_eq_tol(sibling.mma_tflops * 4, whole.mma_tflops * 3, 1e-6);
}
END_TEST

/* What a platform says of an unknown arch stays; only what it left open is filled. */
START_TEST(unknown_arch_peaks)
{
    struct rfg_device d = { .arch = "gfx999", .cu_count = 10, .mem_gbps = 1234, .features = RFG_FEATURE_MMA };
    rfg_device_peaks(&d, NULL);
    ck_assert_double_eq(d.mem_gbps, 1234);
    ck_assert_uint_eq(d.features, RFG_FEATURE_MMA);
    ck_assert(d.mma_tflops > d.fma_tflops && d.fma_tflops > 0 && d.latency_us > 0 && d.sync_us > 0 &&
              d.cache_bytes > 0);
    struct rfg_device known = { .arch = "sm_90", .cu_count = 132, .mem_gbps = 1234 };
    rfg_device_peaks(&known, NULL);
    ck_assert_double_ne(known.mem_gbps, 1234);
}
END_TEST

/* An H100 is an H200 with 69% of its memory's bandwidth; what has no name is taken for an H200. */
START_TEST(peaks_of_siblings)
{
    static const struct {
        const char *product;
        double gbps;
    } cases[] = { { "NVIDIA H200", 4300 }, { "NVIDIA H100 80GB HBM3", 2950 }, { "", 4300 }, { "NVIDIA X", 4300 } };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rfg_device d = { .arch = "sm_90", .cu_count = 132, .platform = RFG_PLATFORM_NVIDIA };
        struct rfg_memory memory = { .product = "" };
        snprintf(memory.product, sizeof(memory.product), "%s", cases[i].product);
        rfg_device_peaks(&d, &memory);
        ck_assert_double_eq(d.mem_gbps, cases[i].gbps);
        ck_assert_double_eq(d.latency_us, 1.25);
    }
}
END_TEST

#define VNNI (RFG_FEATURE_AVX2 | RFG_FEATURE_AVX512 | RFG_FEATURE_AVX512VNNI)
#define ALL  (VNNI | RFG_FEATURE_AVX512BF16)
static const struct {
    const char *isa;
    unsigned features;
} isas[] = {
    { "portable", 0 },
    { "avx2", RFG_FEATURE_AVX2 },
    { "avx512", RFG_FEATURE_AVX2 | RFG_FEATURE_AVX512 },
    { "avx512vnni", VNNI },
    { "avx512bf16", ALL },
    { "sse9", ALL }, /* warns, changes nothing */
    { "", ALL },
};

START_TEST(cpu)
{
    struct rfg_device full, d;
    unsetenv("RFG_CPU_ISA");
    rfg_device_cpu(&full, 3);
    ck_assert_int_eq(full.cu_count, 3);
    setenv("RFG_CPU_ISA", isas[_i].isa, 1);
    rfg_device_cpu(&d, 3);
    ck_assert_uint_eq(d.features, full.features & isas[_i].features);
    const char *arch = d.features & RFG_FEATURE_AVX512BF16   ? "cpu-avx512bf16"
                       : d.features & RFG_FEATURE_AVX512VNNI ? "cpu-avx512vnni"
                       : d.features & RFG_FEATURE_AVX512     ? "cpu-avx512"
                       : d.features & RFG_FEATURE_AVX2       ? "cpu-avx2"
                                                             : "cpu-base";
    ck_assert_str_eq(d.arch, arch);
    ck_assert_str_eq(d.name, "cpu");
    ck_assert_str_eq(d.target, "");
    ck_assert_int_eq(d.platform, RFG_PLATFORM_CPU);
    ck_assert_int_eq(d.wave_size, 1);
    ck_assert_int_eq(d.max_threads, 1);
    ck_assert(d.mem_gbps > 0 && d.mma_tflops >= d.fma_tflops && d.fma_tflops > 0 && d.cache_bytes > 0);
    rfg_device_cpu(&d, 0);
    ck_assert_int_ge(d.cu_count, 1);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("hip");
    TCase *tc = test_case(s, "platforms", NULL, NULL);
    ADD_TESTS(tc, runtime_without_device, default_device, overriding);
    ADD_LOOPS(tc, 2, library_missing, symbol_missing, switched_off, other_one_switched_off, this_machine);
    tc = test_case(s, "devices", NULL, NULL);
    ADD_TESTS(tc, not_imaginable, xcds, fewer_units_compute_less, unknown_arch_peaks, peaks_of_siblings);
    ADD_LOOPS(tc, sizeof(imagined) / sizeof(imagined[0]), imagining);
    ADD_LOOPS(tc, sizeof(isas) / sizeof(isas[0]), cpu);
    return run_suite(s);
}
