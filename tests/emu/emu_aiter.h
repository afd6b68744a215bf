/* SPDX-License-Identifier: MIT
 *
 * Helpers of the tests on AITER's code objects: numbers, memory of the device, arguments, launches. Each test is a
 * program of its own, hence static. */
#ifndef RFG_TESTS_EMU_AITER_H
#define RFG_TESTS_EMU_AITER_H

#include <math.h>
#include <unistd.h>

#include "base/util.h"
#include "emu/run/front.h"
#include "emu/hip/hip_emu.h"
#include "tests/suite.h"

static const struct rfg_hip *hip;
static const char *dir;  /* of gfx942's */
static const char *arch; /* whose objects run: "gfx942" or "gfx950" */
#define OK(call) ck_assert_msg((call) == hipSuccess, "%s", #call)

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

static uint64_t state;
static inline uint32_t random_bits(void)
{
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(state >> 33);
}
/* From -1 to 1. */
static inline float uniform(void)
{
    return (float)random_bits() / 1073741824.0f - 1;
}
static inline float bf16_value(uint16_t b)
{
    uint32_t x = (uint32_t)b << 16;
    float f;
    memcpy(&f, &x, 4);
    return f;
}
static inline uint16_t bf16_bits(float f)
{
    uint32_t x;
    memcpy(&x, &f, 4);
    return (uint16_t)((x + 0x7fff + (x >> 16 & 1)) >> 16);
}
static inline uint16_t *random_bf16(size_t n, float scale)
{
    uint16_t *p = malloc(2 * n);
    ck_assert_ptr_nonnull(p);
    for (size_t i = 0; i < n; i++)
        p[i] = bf16_bits(scale * uniform());
    return p;
}

/* gfx942's e4m3 is fnuz, whose values are half of gfx950's. */
static inline float e4m3(unsigned x)
{
    int e = (int)(x >> 3 & 15), m = (int)(x & 7);
    float v = e ? ldexpf((float)(8 + m), e - 11) : ldexpf((float)m, -10);
    v *= strcmp(arch, "gfx950") ? 1 : 2;
    return x & 128 ? -v : v;
}
/* int8, or fp8 below 16; none is fp8's NaN 0x80. */
static inline uint8_t *random_bytes(size_t n, bool fp8)
{
    uint8_t *p = malloc(n);
    ck_assert_ptr_nonnull(p);
    for (size_t i = 0; i < n; i++) {
        uint8_t x = (uint8_t)(random_bits() >> 8);
        p[i] = fp8 && (x & 0x78) > 0x58 ? x & 0xdf : x;
        p[i] = p[i] == 0x80 ? 0 : p[i];
    }
    return p;
}

/* ---- device ------------------------------------------------------------------------------------------------------ */

static inline void *upload(const void *data, size_t size)
{
    void *p;
    OK(hip->hipMalloc(&p, size));
    OK(hip->hipMemcpyHtoD(p, (void *)(uintptr_t)data, size));
    return p;
}
static inline void *zeroes(size_t size)
{
    void *p;
    OK(hip->hipMalloc(&p, size));
    OK(hip->hipMemsetD8Async(p, 0, size, NULL));
    return p;
}
static inline void *download(const void *p, size_t size)
{
    void *host = malloc(size);
    ck_assert_ptr_nonnull(host);
    OK(hip->hipMemcpyDtoH(host, (void *)(uintptr_t)p, size));
    return host;
}

struct arguments {
    uint8_t byte[768];
    size_t size;
};
static inline void put(struct arguments *a, const void *x, size_t size)
{
    ck_assert(a->size + 16 <= sizeof(a->byte));
    memcpy(a->byte + a->size, x, size);
    a->size += 16;
}
static inline void put_pointer(struct arguments *a, const void *p)
{
    put(a, &p, 8);
}
static inline void put_u32(struct arguments *a, uint32_t x)
{
    put(a, &x, 4);
}
static inline void put_f32(struct arguments *a, float x)
{
    put(a, &x, 4);
}

/* How many findings the checks of this list (with spaces between) made; fails if one made none. */
static inline int found_by(const char *checks)
{
    int sum = 0;
    char name[40];
    for (const char *c = checks; c && *c; c += strspn(c, " ")) {
        size_t n = strcspn(c, " ");
        snprintf(name, sizeof(name), "%.*s", (int)n, c);
        int found = emu_reports(name);
        ck_assert_msg(found > 0, "%s: finds nothing", name);
        sum += found;
        c += n;
    }
    return sum;
}

/* The file's only kernel. known: the checks that find something in it; NULL: none does. "hazard" is where fewer wait
 * states lie between an MFMA (or a VALU instruction) and who reads its result (by DPP) than LLVM puts there: AMD's
 * authors may know better. */
static inline void launch(const char *file, const char *known, struct arguments *a, unsigned gx, unsigned gy,
                          unsigned gz, unsigned threads)
{
    char path[1024], error[512];
    size_t size;
    struct emu_code *code = NULL;
    hipModule_t module;
    hipFunction_t fn;
    void *extra[] = { HIP_LAUNCH_PARAM_BUFFER_POINTER, a->byte, HIP_LAUNCH_PARAM_BUFFER_SIZE, &a->size,
                      HIP_LAUNCH_PARAM_END };
    snprintf(path, sizeof(path), "%s%s/%s", dir, strcmp(arch, "gfx950") ? "" : "/../gfx950", file);
    char *data = rfg_read_file(path, &size);
    ck_assert_msg(data != NULL, "%s: cannot be read", path);
    ck_assert_msg(emu_code_load(&code, data, size, NULL, error, sizeof(error)), "%s: %s", path, error);
    ck_assert_int_eq(code->n_kernels, 1);
    OK(hip->hipModuleLoadData(&module, data));
    OK(hip->hipModuleGetFunction(&fn, module, code->kernel[0].name));
    emu_reports_clear();
    uint64_t before = emu_executed();
    hipError_t e = hip->hipModuleLaunchKernel(fn, gx, gy, gz, threads, 1, 1, 0, NULL, NULL, extra);
    if (e == hipSuccess)
        e = hip->hipDeviceSynchronize();
    int reports = emu_reports(NULL);
    printf("%s %s: %llu wave-instructions, %d findings\n", arch, file, (unsigned long long)(emu_executed() - before),
           reports);
    ck_assert_msg(e == (known ? hipErrorLaunchFailure : hipSuccess), "%s: %s", file, hip->error_name(e));
    ck_assert_int_eq(reports, found_by(known));
    OK(hip->hipModuleUnload(module));
    emu_code_free(&code);
    free(data);
}

/* The architecture of a loop's number i: gfx942's n problems come first. */
static inline int open_for(int i, int n)
{
    char error[256];
    arch = i < n ? "gfx942" : "gfx950";
    int d = rfg_emu_open(i < n ? "gfx942:304" : "gfx950:256", error, sizeof(error));
    ck_assert_msg(d >= 0, "%s", error);
    hip = rfg_hip_emu(NULL);
    OK(hip->hipSetDevice(d));
    state = 12345;
    return i % n;
}
static inline void open_device(void)
{
    open_for(0, 1);
}
/* Of how many architectures objects are there; says what is skipped. */
static inline int architectures(void)
{
    dir = getenv("RFG_AITER_DIR");
    if (!dir || !*dir) {
        printf("SKIPPED: RFG_AITER_DIR names no directory of amd-aiter's gfx942 code objects\n");
        return 0;
    }
    char gfx950[1024];
    snprintf(gfx950, sizeof(gfx950), "%s/../gfx950", dir);
    if (!access(gfx950, R_OK))
        return 2;
    printf("SKIPPED: gfx950's, which are not in %s\n", gfx950);
    return 1;
}
#define COUNT_OF(table) ((int)(sizeof(table) / sizeof(table[0])))

#endif
