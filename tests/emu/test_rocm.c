/* SPDX-License-Identifier: MIT
 *
 * The emulated libamdhip64 of one ROCm release ($EMULATED_ROCM), as a program finds it: by LD_LIBRARY_PATH. What is
 * expected of a release stands here, apart from emu/rocm/versions.def. */
#include <dlfcn.h>

#include "rocm_library.h"
#include "tests/suite.h"

/* ---- what it says of itself ------------------------------------------------------------------------------------- */

START_TEST(versions)
{
    int v = 0;
    rocm_open("MI300X");
    OK(CALL(hipInit, unsigned)(0));
    OK(CALL(hipRuntimeGetVersion, int *)(&v));
    ck_assert_int_eq(v / 100000, release->number / 100 / 100 * 100 + release->number / 100 % 100);
    int d = 0;
    OK(CALL(hipDriverGetVersion, int *)(&d));
    ck_assert_int_eq(d, v);
    char soname[64];
    snprintf(soname, sizeof(soname), "libamdhip64.so.%d", release->so);
    ck_assert_ptr_eq(dlopen(soname, RTLD_NOW | RTLD_NOLOAD), rocm); /* the same file by both names */
    ck_assert((dlsym(rocm, "hipGetDevicePropertiesR0600") != NULL) == (release->number >= 60000));
    ck_assert((dlsym(rocm, "hipGetProcAddress") != NULL) == (release->number >= 60200));
    ck_assert_ptr_null(dlsym(rocm, "rocm_start"));
    ck_assert_ptr_null(dlsym(rocm, "emu_hipMalloc"));
    ck_assert_ptr_null(dlsym(rocm, "rfg_emu_open"));
}
END_TEST

/* hipDeviceProp_t of the release, as bytes: 5.x has 792, 6.x 1472. */
static void properties(const char *fn, unsigned char p[2048], size_t size, int device)
{
    memset(p, 0xA5, 2048);
    OK(((hipError_t(*)(void *, int))rocm_symbol(fn))(p, device));
    for (size_t i = size; i < 2048; i++)
        ck_assert_msg(p[i] == 0xA5, "%s wrote byte %zu", fn, i);
}

static int word(const unsigned char *p, size_t at)
{
    int v;
    memcpy(&v, p + at, sizeof(v));
    return v;
}

#define MIB (1024 * 1024)

START_TEST(device_properties)
{
    static const struct {
        const char *product, *arch, *name;
        int multiprocessors, l2, l2_from_7, bits, khz, major;
    } want[] = {
        { "MI210", "gfx90a:sramecc+:xnack-", "AMD Instinct MI210", 104, 8 * MIB, 8 * MIB, 4096, 1600000, 9 },
        { "MI300X", "gfx942:sramecc+:xnack-", "AMD Instinct MI300X", 304, 4 * MIB, 32 * MIB, 8192, 1300000, 9 },
        { "MI300A", "gfx942:sramecc+:xnack-", "AMD Instinct MI300A", 228, 4 * MIB, 24 * MIB, 8192, 1300000, 9 },
        { "MI300X-CPX", "gfx942:sramecc+:xnack-", "AMD Instinct MI300X", 38, 4 * MIB, 4 * MIB, 8192, 1300000, 9 },
        { "RX7900XTX", "gfx1100", "AMD Radeon RX 7900 XTX", 48, 6 * MIB, 6 * MIB, 384, 1250000, 11 },
        { "RX9070XT", "gfx1201", "AMD Radeon RX 9070 XT", 32, 8 * MIB, 8 * MIB, 256, 1258000, 12 },
        { "MI355X", "gfx950:sramecc+:xnack-", "AMD Instinct MI355X", 256, 4 * MIB, 32 * MIB, 8192, 2000000, 9 },
    };
    enum { N = sizeof(want) / sizeof(want[0]) };
    char list[256] = "";
    for (int i = 0; i < N; i++)
        snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%s", i ? "," : "", want[i].product);
    rocm_open(list);
    int count = 0;
    OK(CALL(hipGetDeviceCount, int *)(&count));
    ck_assert_int_eq(count, N);
    for (int i = 0; i < N; i++) {
        unsigned char p[2048];
        int l2 = release->number >= 70000 ? want[i].l2_from_7 : want[i].l2, v = 0, bus = 0;
        properties("hipGetDeviceProperties", p, 792, i);
        ck_assert_str_eq((char *)p, want[i].name);
        ck_assert_str_eq((char *)p + 396, want[i].arch);
        ck_assert_int_eq(word(p, 336), want[i].multiprocessors);
        ck_assert_int_eq(word(p, 340), l2);
        ck_assert_int_eq(word(p, 312), want[i].khz);
        ck_assert_int_eq(word(p, 316), want[i].bits);
        ck_assert_int_eq(word(p, 328), want[i].major);
        bus = word(p, 368);
        if (release->number >= 60000) {
            properties("hipGetDevicePropertiesR0600", p, 1472, i);
            ck_assert_str_eq((char *)p, want[i].name);
            ck_assert_str_eq((char *)p + 1160, want[i].arch);
            ck_assert_int_eq(word(p, 388), want[i].multiprocessors);
            ck_assert_int_eq(word(p, 616), l2);
            ck_assert_int_eq(word(p, 608), want[i].khz);
            ck_assert_int_eq(word(p, 612), want[i].bits);
            ck_assert_int_eq(word(p, 360), want[i].major);
            ck_assert_int_eq(word(p, 584), bus);
        }
        const struct {
            hipDeviceAttribute_t attr;
            int value;
        } attrs[] = {
            { hipDeviceAttributeMultiprocessorCount, want[i].multiprocessors },
            { hipDeviceAttributePhysicalMultiProcessorCount, want[i].multiprocessors },
            { hipDeviceAttributeL2CacheSize, l2 },
            { hipDeviceAttributeMemoryBusWidth, want[i].bits },
            { hipDeviceAttributeMemoryClockRate, want[i].khz },
            { hipDeviceAttributePciBusId, bus },
            { hipDeviceAttributeComputeCapabilityMajor, want[i].major },
        };
        for (size_t k = 0; k < sizeof(attrs) / sizeof(attrs[0]); k++) {
            OK(CALL(hipDeviceGetAttribute, int *, hipDeviceAttribute_t, int)(&v, attrs[k].attr, i));
            ck_assert_msg(v == attrs[k].value, "%s: attribute %d is %d, not %d", want[i].product, attrs[k].attr, v,
                          attrs[k].value);
        }
        char name[64];
        OK(CALL(hipDeviceGetName, char *, int, int)(name, sizeof(name), i));
        ck_assert_str_eq(name, want[i].name);
    }
}
END_TEST

/* Debian's header has HIP 5's struct: the numbers above are its. */
#if HIP_VERSION_MAJOR < 6
_Static_assert(sizeof(hipDeviceProp_t) == 792 && offsetof(hipDeviceProp_t, gcnArchName) == 396 &&
                   offsetof(hipDeviceProp_t, multiProcessorCount) == 336 &&
                   offsetof(hipDeviceProp_t, l2CacheSize) == 340 && offsetof(hipDeviceProp_t, memoryClockRate) == 312 &&
                   offsetof(hipDeviceProp_t, memoryBusWidth) == 316 && offsetof(hipDeviceProp_t, major) == 328 &&
                   offsetof(hipDeviceProp_t, pciBusID) == 368,
               "hipDeviceProp_t of HIP 5");
#endif

/* ---- which devices there are ------------------------------------------------------------------------------------ */

START_TEST(wgp_mode)
{
    int v = 0;
    setenv("GPU_ENABLE_WGP_MODE", _i ? "1" : "0", 1);
    rocm_open("RX7900XT,RX7900XT:6");
    OK(CALL(hipDeviceGetAttribute, int *, hipDeviceAttribute_t, int)(&v, hipDeviceAttributeMultiprocessorCount, 0));
    ck_assert_int_eq(v, _i ? 42 : 84);
    OK(CALL(hipDeviceGetAttribute, int *, hipDeviceAttribute_t, int)(&v, hipDeviceAttributeMultiprocessorCount, 1));
    ck_assert_int_eq(v, _i ? 3 : 6);
}
END_TEST

static const struct {
    const char *gpus, *rocr, *hip;
    const char *left; /* the first arch of each: a, 3 (MI300X), 1 */
} seen[] = {
    { "MI210,MI300X,RX7900XTX", NULL, NULL, "a31" },
    { "MI210,MI300X,RX7900XTX", "1,2", NULL, "31" },
    { "MI210,MI300X,RX7900XTX", "1,2", "1", "1" },
    { "MI210,MI300X,RX7900XTX", NULL, "2,0", "1a" },
    { "MI210,MI300X,RX7900XTX", NULL, "0,7,1", "a" },
    { "MI210,MI300X,RX7900XTX", NULL, "-1", "" },
    { "none", NULL, NULL, "" },
    { "MI210,MI301X", NULL, NULL, "" },
    { "MI210:0", NULL, NULL, "" },
    { "MI210:4x", NULL, NULL, "" },
};

START_TEST(visible_devices)
{
    if (seen[_i].rocr)
        setenv("ROCR_VISIBLE_DEVICES", seen[_i].rocr, 1);
    if (seen[_i].hip)
        setenv("HIP_VISIBLE_DEVICES", seen[_i].hip, 1);
    rocm_open(seen[_i].gpus);
    int n = -1;
    IS(CALL(hipGetDeviceCount, int *)(&n), *seen[_i].left ? hipSuccess : hipErrorNoDevice);
    ck_assert_int_eq(n, (int)strlen(seen[_i].left));
    for (int i = 0; i < n; i++) {
        unsigned char p[2048];
        properties("hipGetDeviceProperties", p, 792, i);
        const char *arch = (char *)p + 396;
        char c = !strncmp(arch, "gfx90a", 6) ? 'a' : !strncmp(arch, "gfx942", 6) ? '3' : '1';
        ck_assert_int_eq(c, seen[_i].left[i]);
    }
}
END_TEST

START_TEST(overridden_version)
{
    unsigned char p[2048];
    setenv("HSA_OVERRIDE_GFX_VERSION", "11.0.0", 1);
    rocm_open("MI210");
    properties("hipGetDeviceProperties", p, 792, 0);
    ck_assert_str_eq((char *)p + 396, "gfx1100");
}
END_TEST

/* ---- errors ----------------------------------------------------------------------------------------------------- */

START_TEST(last_error)
{
    int n;
    rocm_open("MI210:4");
    IS(CALL(hipSetDevice, int)(7), hipErrorInvalidDevice);
    IS(CALL(hipPeekAtLastError, void)(), hipErrorInvalidDevice);
    IS(CALL(hipGetLastError, void)(), hipErrorInvalidDevice);
    IS(CALL(hipGetLastError, void)(), hipSuccess);
    IS(CALL(hipSetDevice, int)(7), hipErrorInvalidDevice);
    OK(CALL(hipGetDeviceCount, int *)(&n));
    IS(CALL(hipGetLastError, void)(), release->number >= 70000 ? hipErrorInvalidDevice : hipSuccess);
    ck_assert_str_eq(((const char *(*)(int))rocm_symbol("hipGetErrorName"))(hipErrorNoBinaryForGpu),
                     "hipErrorNoBinaryForGpu");
    ck_assert_str_eq(((const char *(*)(int))rocm_symbol("hipGetErrorName"))(123456), "hipErrorUnknown");
    ck_assert_str_eq(((const char *(*)(int))rocm_symbol("hipGetErrorString"))(hipErrorOutOfMemory), "out of memory");
}
END_TEST

START_TEST(others_are_refused_by_name)
{
    rocm_open("MI210:4");
    FILE *f = tmpfile();
    ck_assert_ptr_nonnull(f);
    fflush(stderr);
    ck_assert(dup2(fileno(f), 2) == 2);
    IS(CALL(hipMemAdvise, void)(), hipErrorNotSupported);
    IS(CALL(hipMemAdvise, void)(), hipErrorNotSupported);
    IS(CALL(hipGetLastError, void)(), hipErrorNotSupported);
    fflush(stderr);
    char text[512] = "";
    rewind(f);
    ck_assert(fread(text, 1, sizeof(text) - 1, f) > 0);
    ck_assert_str_eq(text, "emulated HIP: hipMemAdvise is not offered\n");
}
END_TEST

int main(void)
{
    if (!rocm_is_there())
        return 77;
    Suite *s = suite_create("rocm");
    TCase *tc = test_case(s, "devices", NULL, NULL);
    ADD_TESTS(tc, versions, device_properties, overridden_version, last_error, others_are_refused_by_name);
    ADD_LOOPS(tc, 2, wgp_mode);
    ADD_LOOPS(tc, sizeof(seen) / sizeof(seen[0]), visible_devices);
    return run_suite(s);
}
