/* SPDX-License-Identifier: MIT
 *
 * The emulated GPU as a HIP runtime: modules, launches and their errors, with kernels compiled for each architecture.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "emu_hip_case.h"

static const char *const source =
    "typedef unsigned u32;\n"
    "#define BX __builtin_amdgcn_workgroup_id_x()\n"
    "#define TX __builtin_amdgcn_workitem_id_x()\n"
    "#define SX __builtin_amdgcn_workgroup_size_x()\n"
    "__device__ u32 counter = 7;\n"
    "__device__ u32 *where = &counter;\n"
    "__constant__ float lut[4] = { 1, 2, 3, 4 };\n"
    "extern __shared__ float dyn[];\n"
    "extern \"C\" __global__ void vadd(float *y, const float *x, int n, float a)\n"
    "{\n"
    "    int i = BX * SX + TX;\n"
    "    if (i < n) y[i] += a * x[i] + lut[i & 3];\n"
    "}\n"
    "extern \"C\" __global__ void reduce(float *y, const float *x)\n"
    "{\n"
    "    dyn[TX] = x[BX * SX + TX];\n"
    "    for (u32 n = SX / 2; n; n /= 2) {\n"
    "        __builtin_amdgcn_fence(__ATOMIC_RELEASE, \"workgroup\");\n"
    "        __builtin_amdgcn_s_barrier();\n"
    "        __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, \"workgroup\");\n"
    "        if (TX < n) dyn[TX] += dyn[TX + n];\n"
    "    }\n"
    "    if (TX == 0) { y[BX] = dyn[0]; __atomic_fetch_add(where, 1, __ATOMIC_RELAXED); }\n"
    "}\n"
    "extern \"C\" __global__ void ids(u32 *out)\n"
    "{\n"
    "    u32 sx = SX, sy = __builtin_amdgcn_workgroup_size_y(), sz = __builtin_amdgcn_workgroup_size_z();\n"
    "    u32 gx = __builtin_amdgcn_grid_size_x() / sx, gy = __builtin_amdgcn_grid_size_y() / sy;\n"
    "    u32 x = TX, y = __builtin_amdgcn_workitem_id_y(), z = __builtin_amdgcn_workitem_id_z();\n"
    "    u32 a = BX, b = __builtin_amdgcn_workgroup_id_y(), c = __builtin_amdgcn_workgroup_id_z();\n"
    "    u32 g = (c * gy + b) * gx + a, t = (z * sy + y) * sx + x;\n"
    "    out[g * sx * sy * sz + t] = a | b << 4 | c << 8 | x << 12 | y << 18 | z << 24;\n"
    "}\n"
    "__device__ __attribute__((noinline)) int pick(const int *a, int i)\n"
    "{\n"
    "    int b[20];\n"
    "    for (int j = 0; j < 20; j++) b[j] = a[j] * 3;\n"
    "    return b[i % 20];\n"
    "}\n"
    "extern \"C\" __global__ void calls(int *y, const int *x) { y[TX] = pick(x, TX) + pick(x, TX + 1); }\n"
    "extern \"C\" __global__ void read_counter(u32 *y) { *y = counter; }\n"
    "extern \"C\" __global__ void chain(u32 *flags, u32 *y)\n"
    "{\n"
    "    if (BX + 1 < __builtin_amdgcn_grid_size_x() / SX)\n"
    "        while (!__atomic_load_n(&flags[BX + 1], __ATOMIC_ACQUIRE)) __builtin_amdgcn_s_sleep(1);\n"
    "    if (TX == 0) {\n"
    "        y[BX] = (BX + 1 < __builtin_amdgcn_grid_size_x() / SX ? y[BX + 1] : 0) + 1;\n"
    "        __atomic_store_n(&flags[BX], 1, __ATOMIC_RELEASE);\n"
    "    }\n"
    "}\n"
    "extern \"C\" __global__ void forever(volatile u32 *flag) { while (!*flag) ; }\n"
    "extern \"C\" __global__ __attribute__((amdgpu_flat_work_group_size(1, 128))) void bounded(u32 *y) { y[TX] = TX; "
    "}\n";

static const struct {
    const char *name, *arch;
} archs[] = { { "gfx90a:4", "gfx90a" }, { "gfx942:4", "gfx942" },   { "gfx1100:4", "gfx1100" },
              { "gfx908:4", "gfx908" }, { "gfx1030:4", "gfx1030" }, { "gfx1201:4", "gfx1201" } };
#define N_ARCHS (int)(sizeof(archs) / sizeof(archs[0]))

static hipModule_t module;
static hipStream_t stream;

static bool load_kernels(int i)
{
    size_t size;
    if (!emu_can_compile())
        return false;
    open_device(archs[i].name);
    char *code = emu_compile(source, archs[i].arch, "", &size); /* v5, in a bundle */
    OK(hip->hipModuleLoadData(&module, code));
    free(code);
    OK(hip->hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
    return true;
}

static hipFunction_t kernel(const char *name)
{
    hipFunction_t f;
    OK(hip->hipModuleGetFunction(&f, module, name));
    return f;
}

static void *device_copy(const void *data, size_t size)
{
    void *p;
    OK(hip->hipMalloc(&p, size));
    if (data)
        OK(hip->hipMemcpyHtoD(p, (void *)(uintptr_t)data, size));
    else
        OK(hip->hipMemsetD8Async(p, 0, size, NULL));
    return p;
}

START_TEST(adds_vectors)
{
    enum { N = 1000 };
    float x[N], y[N], a = 0.5f;
    int n = N;
    if (!load_kernels(_i))
        return;
    for (int i = 0; i < N; i++) {
        x[i] = (float)(i - 500);
        y[i] = (float)i * 0.25f;
    }
    void *px = device_copy(x, sizeof(x)), *py = device_copy(y, sizeof(y));
    void *params[] = { &py, &px, &n, &a };
    OK(hip->hipModuleLaunchKernel(kernel("vadd"), 8, 1, 1, 128, 1, 1, 0, stream, params, NULL));
    float back[N];
    OK(hip->hipMemcpyDtoH(back, py, sizeof(back)));
    for (int i = 0; i < N; i++)
        ck_assert_msg(back[i] == y[i] + (a * x[i] + (float)(1 + (i & 3))), "%d: %g", i, (double)back[i]);

    /* The same through a packed buffer, captured, replayed twice. */
    struct {
        void *y, *x;
        int n;
        float a;
    } packed = { py, px, n, a };
    size_t size = sizeof(packed);
    void *extra[] = { HIP_LAUNCH_PARAM_BUFFER_POINTER, &packed, HIP_LAUNCH_PARAM_BUFFER_SIZE, &size,
                      HIP_LAUNCH_PARAM_END };
    hipGraph_t g;
    hipGraphExec_t exec;
    OK(hip->hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
    OK(hip->hipModuleLaunchKernel(kernel("vadd"), 8, 1, 1, 128, 1, 1, 0, stream, NULL, extra));
    packed.n = 0; /* its values were taken at the call */
    OK(hip->hipStreamEndCapture(stream, &g));
    OK(hip->hipGraphInstantiate(&exec, g, NULL, NULL, 0));
    OK(hip->hipGraphDestroy(g));
    OK(hip->hipGraphLaunch(exec, stream));
    OK(hip->hipGraphLaunch(exec, stream));
    OK(hip->hipMemcpyDtoH(back, py, sizeof(back)));
    for (int i = 0; i < N; i++)
        ck_assert_msg(back[i] == y[i] + 3 * (a * x[i] + (float)(1 + (i & 3))), "%d: %g", i, (double)back[i]);
    ck_assert_int_eq(emu_reports(NULL), 0);
}
END_TEST

START_TEST(dynamic_lds_and_globals)
{
    enum { N = 256, GROUPS = 37 };
    static float x[N * GROUPS];
    float y[GROUPS];
    uint32_t counter;
    if (!load_kernels(_i))
        return;
    for (int i = 0; i < N * GROUPS; i++)
        x[i] = (float)(i % 101);
    void *px = device_copy(x, sizeof(x)), *py = device_copy(NULL, sizeof(y)), *pc = device_copy(NULL, 4);
    void *params[] = { &py, &px };
    OK(hip->hipModuleLaunchKernel(kernel("reduce"), GROUPS, 1, 1, N, 1, 1, N * 4, stream, params, NULL));
    OK(hip->hipMemcpyDtoH(y, py, sizeof(y)));
    for (int g = 0; g < GROUPS; g++) {
        float sum = 0;
        for (int i = 0; i < N; i++)
            sum += x[g * N + i];
        ck_assert_msg(y[g] == sum, "%d: %g, not %g", g, (double)y[g], (double)sum);
    }
    void *p2[] = { &pc };
    OK(hip->hipModuleLaunchKernel(kernel("read_counter"), 1, 1, 1, 1, 1, 1, 0, stream, p2, NULL));
    OK(hip->hipMemcpyDtoH(&counter, pc, 4));
    ck_assert_uint_eq(counter, 7 + GROUPS);
    ck_assert_int_eq(emu_reports(NULL), 0);
    /* With too little LDS it strays. */
    IS(hip->hipModuleLaunchKernel(kernel("reduce"), 1, 1, 1, N, 1, 1, N * 4 - 4, stream, params, NULL),
       hipErrorIllegalAddress);
    ck_assert_int_ge(emu_reports("lds-out-of-bounds"), 1);
}
END_TEST

START_TEST(ids_in_three_dimensions)
{
    const uint32_t g[3] = { 3, 4, 2 }, b[3] = { 5, 6, 3 };
    static uint32_t back[24 * 90];
    if (!load_kernels(_i))
        return;
    void *p = device_copy(NULL, sizeof(back)), *params[] = { &p };
    OK(hip->hipModuleLaunchKernel(kernel("ids"), g[0], g[1], g[2], b[0], b[1], b[2], 0, stream, params, NULL));
    OK(hip->hipMemcpyDtoH(back, p, sizeof(back)));
    uint32_t at = 0;
    for (uint32_t i = 0; i < 24; i++)
        for (uint32_t t = 0; t < 90; t++, at++)
            ck_assert_uint_eq(back[at], i % 3 | (i / 3 % 4) << 4 | (i / 12) << 8 | (t % 5) << 12 | (t / 5 % 6) << 18 |
                                            (t / 30) << 24);
}
END_TEST

START_TEST(calls_and_scratch)
{
    int x[20], back[200];
    if (!load_kernels(_i))
        return;
    for (int i = 0; i < 20; i++)
        x[i] = i * i + 1;
    void *px = device_copy(x, sizeof(x)), *py = device_copy(NULL, sizeof(back)), *params[] = { &py, &px };
    OK(hip->hipModuleLaunchKernel(kernel("calls"), 1, 1, 1, 200, 1, 1, 0, stream, params, NULL));
    OK(hip->hipMemcpyDtoH(back, py, sizeof(back)));
    for (int i = 0; i < 200; i++)
        ck_assert_int_eq(back[i], 3 * (x[i % 20] + x[(i + 1) % 20]));
    ck_assert_int_eq(emu_reports(NULL), 0);
}
END_TEST

START_TEST(groups_wait_for_each_other)
{
    enum { N = 60 };
    uint32_t y[N];
    if (!load_kernels(_i % N_ARCHS))
        return;
    if (_i >= N_ARCHS)
        setenv("RFG_EMU_SCHEDULE", "5", 1);
    void *pf = device_copy(NULL, N * 4), *py = device_copy(NULL, sizeof(y)), *params[] = { &pf, &py };
    OK(hip->hipModuleLaunchKernel(kernel("chain"), N, 1, 1, 64, 1, 1, 0, stream, params, NULL));
    OK(hip->hipMemcpyDtoH(y, py, sizeof(y)));
    for (uint32_t i = 0; i < N; i++)
        ck_assert_uint_eq(y[i], N - i);
}
END_TEST

START_TEST(faults_and_deadlocks)
{
    float a = 1;
    int n = 1000;
    char text[1200];
    if (!load_kernels(_i))
        return;
    setenv("RFG_EMU_MAX_SPIN", "100000", 1);
    void *px = device_copy(NULL, 4000), *py = device_copy(NULL, 3996), *params[] = { &py, &px, &n, &a };
    IS(hip->hipModuleLaunchKernel(kernel("vadd"), 8, 1, 1, 128, 1, 1, 0, stream, params, NULL), hipErrorIllegalAddress);
    ck_assert_int_eq(emu_reports("global-out-of-bounds"), 1);
    emu_reports_last(text, sizeof(text));
    ck_assert_msg(strstr(text, "0 bytes past the end of allocation") && strstr(text, "(3996 bytes") &&
                      strstr(text, ", argument 0)") && strstr(text, "kernel vadd, 'global_load_") &&
                      strstr(text, "vadd+0x") && strstr(text, "workgroup (7,0,0)"),
                  "%s", text);
    n = 999;
    OK(hip->hipModuleLaunchKernel(kernel("vadd"), 8, 1, 1, 128, 1, 1, 0, stream, params, NULL)); /* still usable */
    OK(hip->hipFree(px));
    IS(hip->hipModuleLaunchKernel(kernel("vadd"), 8, 1, 1, 128, 1, 1, 0, stream, params, NULL), hipErrorIllegalAddress);
    ck_assert_int_ge(emu_reports("use-after-free"), 1);
    void *p2[] = { &py };
    OK(hip->hipMemsetD8Async(py, 0, 3996, stream));
    IS(hip->hipModuleLaunchKernel(kernel("forever"), 2, 1, 1, 64, 1, 1, 0, stream, p2, NULL), hipErrorLaunchFailure);
    ck_assert_int_eq(emu_reports("deadlock"), 1);
}
END_TEST

START_TEST(launches_are_checked)
{
    uint32_t y[128];
    hipFunction_t f;
    if (!load_kernels(_i))
        return;
    f = kernel("bounded");
    void *p = device_copy(NULL, sizeof(y)), *params[] = { &p }, *null[] = { NULL };
#define LAUNCH(gx, gy, bx, by, lds, params)                                                                            \
    hip->hipModuleLaunchKernel(f, gx, gy, 1, bx, by, 1, lds, stream, params, NULL)
    OK(LAUNCH(1, 1, 128, 1, 0, params));
    IS(LAUNCH(0, 1, 64, 1, 0, params), hipErrorInvalidConfiguration);
    IS(LAUNCH(1, 1, 64, 0, 0, params), hipErrorInvalidConfiguration);
    IS(LAUNCH(1, 1, 129, 1, 0, params), hipErrorLaunchFailure); /* more than its launch bounds */
    IS(LAUNCH(1, 1, 64, 32, 0, params), hipErrorInvalidConfiguration);
    IS(LAUNCH(0x10000000, 1, 64, 1, 0, params), hipErrorInvalidConfiguration);
    IS(LAUNCH(1, 1, 64, 1, 65537, params), hipErrorInvalidValue);
    IS(LAUNCH(1, 1, 64, 1, 0, NULL), hipErrorInvalidValue);
    IS(LAUNCH(1, 1, 64, 1, 0, null), hipErrorInvalidValue);
    IS(hip->hipModuleLaunchKernel((hipFunction_t)stream, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL),
       hipErrorInvalidHandle);
    IS(hip->hipModuleLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, (hipStream_t)f, params, NULL), hipErrorInvalidHandle);
    int v;
    OK(hip->hipFuncGetAttribute(&v, HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, f));
    ck_assert_int_eq(v, 128);
    OK(hip->hipFuncGetAttribute(&v, HIP_FUNC_ATTRIBUTE_NUM_REGS, f));
    ck_assert_int_ge(v, 1);
    OK(hip->hipFuncSetAttribute(f, hipFuncAttributeMaxDynamicSharedMemorySize, 65536));
    IS(hip->hipFuncSetAttribute(f, hipFuncAttributeMaxDynamicSharedMemorySize, 65537), hipErrorInvalidValue);
    IS(hip->hipModuleGetFunction(&f, module, "pick"), hipErrorNotFound);
    f = kernel("bounded");
    OK(hip->hipModuleUnload(module));
    IS(LAUNCH(1, 1, 64, 1, 0, params), hipErrorInvalidHandle);
    IS(hip->hipModuleUnload(module), hipErrorInvalidHandle);
}
END_TEST

/* Engines call from many threads. */
static void *launch_many(void *arg)
{
    float *y = arg, a = 1;
    int n = 256;
    char *ok = NULL;
    hipStream_t s;
    if (hip->hipSetDevice(0) != hipSuccess || hip->hipStreamCreateWithFlags(&s, hipStreamNonBlocking) != hipSuccess)
        return NULL;
    for (int i = 0; i < 20; i++) {
        void *px, *params[] = { &y, &px, &n, &a };
        if (hip->hipMalloc(&px, 1024) != hipSuccess || hip->hipMemsetD8Async(px, 0, 1024, s) != hipSuccess ||
            hip->hipModuleLaunchKernel(kernel("vadd"), 2, 1, 1, 128, 1, 1, 0, s, params, NULL) != hipSuccess ||
            hip->hipStreamSynchronize(s) != hipSuccess || hip->hipFree(px) != hipSuccess)
            return NULL;
    }
    ok = (char *)arg;
    return hip->hipStreamDestroy(s) == hipSuccess ? ok : NULL;
}

START_TEST(many_threads)
{
    pthread_t t[4];
    void *y[4], *result;
    float back[256];
    if (!load_kernels(1))
        return;
    for (int i = 0; i < 4; i++) {
        y[i] = device_copy(NULL, sizeof(back));
        ck_assert_int_eq(pthread_create(&t[i], NULL, launch_many, y[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(t[i], &result);
        ck_assert_ptr_eq(result, y[i]);
        OK(hip->hipMemcpyDtoH(back, y[i], sizeof(back)));
        for (int j = 0; j < 256; j++)
            ck_assert(back[j] == 20.0f * (float)(1 + (j & 3)));
    }
}
END_TEST

START_TEST(modules_are_checked)
{
    size_t size;
    hipModule_t m = (hipModule_t)&m;
    if (!emu_can_compile())
        return;
    open_device("gfx942:4");
    IS(hip->hipModuleLoadData(&m, "this is not a code object, and it is longer than a header"), hipErrorInvalidImage);
    ck_assert_ptr_null(m);
    IS(hip->hipModuleLoadData(&m, NULL), hipErrorInvalidValue);
    char *bundle = emu_compile(source, "gfx90a", "", &size),
         *elf = emu_compile(source, "gfx90a", "--no-gpu-bundle-output", &size);
    IS(hip->hipModuleLoadData(&m, bundle), hipErrorNoBinaryForGpu);
    IS(hip->hipModuleLoadData(&m, elf), hipErrorNoBinaryForGpu);
    open_device("gfx90a:4");
    OK(hip->hipModuleLoadData(&m, bundle));
    OK(hip->hipModuleUnload(m));
    OK(hip->hipModuleLoadData(&m, elf));
    OK(hip->hipModuleUnload(m));
    elf[20] = 99;
    IS(hip->hipModuleLoadData(&m, elf), hipSuccess); /* e_version is nobody's business */
    elf[16] = 1;
    IS(hip->hipModuleLoadData(&m, elf), hipErrorInvalidImage);
    free(bundle);
    free(elf);
}
END_TEST

/* ---- the program ------------------------------------------------------------------------------------------------- */

static char dir[] = "/tmp/rfg-emu-XXXXXX";

static void write_file(const char *name, const void *data, size_t size)
{
    char path[64];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *f = fopen(path, "wb");
    ck_assert(f && fwrite(data, 1, size, f) == size && fclose(f) == 0);
}

/* The exit code of rfg-emu ARGS in dir; its output in text. */
static int program(const char *args, char *text, size_t size)
{
    const char *bin = rfg_env("RFG_BINDIR");
    char *cmd = rfg_asprintf("cd %s && RFG_EMU_THREADS=2 %s/rfg-emu %s 2>&1", dir, bin ? bin : ".", args);
    FILE *p = popen(cmd, "r");
    ck_assert_ptr_nonnull(p);
    text[fread(text, 1, size - 1, p)] = 0;
    free(cmd);
    int code = pclose(p);
    return code < 0 ? code : code >> 8;
}

START_TEST(program_runs_code_objects)
{
    static const struct {
        const char *args;
        int code;
        const char *word;
    } cases[] = {
        { "--help", 0, "usage" },
        { "dance", 2, "'dance'" },
        { "list", 2, "must have a file" },
        { "list none.co", 1, "none.co" },
        { "list x.bin", 1, "not an ELF" },
        { "list k.co", 0, "vadd: wave64" },
        { "list k.co", 0, "16: value, 4 bytes" },
        { "--coverage k.co", 0, "s_endpgm" },
        { "--coverage k.co k.co", 0, "2 files, 2 wholly implemented, 0 not readable or not decodable" },
        { "--coverage k.co x.bin", 1, "2 files, 1 wholly implemented, 1 not readable" },
        { "run k.co --kernel vadd --grid 3 --block 64 --args inout:y.bin:z.bin in:x.bin i32:150 f32:0.5", 0,
          "wave-instructions" },
        { "run k.co --grid 3", 1, "--kernel must name one of vadd reduce" },
        { "run k.co --kernel vadd --grid 3", 2, "0 are given: vadd has 4" },
        { "run k.co --kernel vadd --grid 3,0 --args zero:4 zero:4 i32:1 f32:1", 2, "'0' must be a number from 1" },
        { "run k.co --kernel vadd --block 1,2,3,4 --args zero:4 zero:4 i32:1 f32:1", 2,
          "--block 1,2,3,4: must be X[,Y[,Z]]" },
        { "run k.co --kernel vadd --block 2000 --args zero:4 zero:4 i32:1 f32:1", 2, "1 to 1024" },
        { "run k.co --kernel vadd --args zero:4 zero:4 i32:1x f32:1", 2, "'1x' must be a number" },
        { "run k.co --kernel vadd --args zero:4 zero:4 i32:3000000000 f32:1", 2, "fits in 4 bytes" },
        { "run k.co --kernel vadd --args zero:4 zero:4 i64:1 f32:1", 2, "argument 2 has 8 bytes" },
        { "run k.co --kernel vadd --args zero:4 in:none i32:1 f32:1", 1, "none: No such file" },
        { "run k.co --kernel vadd --args zero:x zero:4 i32:1 f32:1", 2, "must be zero:BYTES" },
        { "run k.co --kernel vadd --args here zero:4 i32:1 f32:1", 2, "--args here: must be" },
        { "run k.co --kernel vadd --device gfx1100 --args zero:4 zero:4 i32:1 f32:1", 1, "must be for gfx1100" },
        { "run k.co --kernel vadd --device gfx942:x --args zero:4 zero:4 i32:1 f32:1", 2, "'x' is not a number" },
        { "run k.co --kernel vadd --block 64 --args zero:100 zero:256 i32:64 f32:1", 1, "global-out-of-bounds" },
    };
    char text[8000], *code;
    float x[150], y[150], z[150];
    size_t size;
    if (!emu_can_compile())
        return;
    ck_assert_ptr_nonnull(mkdtemp(dir));
    code = emu_compile(source, "gfx942", "--no-gpu-bundle-output", &size);
    write_file("k.co", code, size);
    free(code);
    for (int i = 0; i < 150; i++) {
        x[i] = (float)i;
        y[i] = (float)(2 * i);
    }
    write_file("x.bin", x, sizeof(x));
    write_file("y.bin", y, sizeof(y));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int got = program(cases[i].args, text, sizeof(text));
        ck_assert_msg(got == cases[i].code && strstr(text, cases[i].word), "rfg-emu %s: %d, '%s'", cases[i].args, got,
                      text);
    }
    snprintf(text, sizeof(text), "%s/z.bin", dir);
    char *back = rfg_read_file(text, &size);
    ck_assert(back && size == sizeof(z));
    memcpy(z, back, sizeof(z));
    free(back);
    for (int i = 0; i < 150; i++)
        ck_assert(z[i] == y[i] + (0.5f * x[i] + (float)(1 + (i & 3))));
    snprintf(text, sizeof(text), "rm -r %s", dir);
    ck_assert_int_eq(system(text), 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("emu_launch");
    TCase *tc = test_case(s, "kernels", NULL, NULL);
    ADD_TESTS(tc, many_threads, modules_are_checked, program_runs_code_objects);
    ADD_LOOPS(tc, N_ARCHS, adds_vectors, dynamic_lds_and_globals, ids_in_three_dimensions, calls_and_scratch,
              faults_and_deadlocks, launches_are_checked);
    ADD_LOOPS(tc, 2 * N_ARCHS, groups_wait_for_each_other);
    return run_suite(s);
}
