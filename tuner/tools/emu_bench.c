/* SPDX-License-Identifier: MIT
 *
 * How fast the emulator is: rfg-emu bench. */
#include "emu_tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "dispatch/context.h"
#include "dispatch/jit/jit.h"
#include "base/util.h"
#include "emu/run/front.h"
#include "emu/hip/hip_emu.h"

#define ROUNDS 5

/* Streams memory and adds up with FMAs, as a skinny GEMM's inner loop does; multiplies matrices from registers; and
 * passes words through LDS with barriers. p: 4 MiB; n: iterations. Groups of 256. */
static const char source[] =
    "#ifndef __global__\n"
    "#define __global__ __attribute__((global))\n"
    "#define __shared__ __attribute__((shared))\n"
    "#endif\n"
    "#define TID __builtin_amdgcn_workitem_id_x()\n"
    "#define ME (__builtin_amdgcn_workgroup_id_x() * 256 + TID)\n"
    "typedef float f4 __attribute__((ext_vector_type(4)));\n"
    "typedef short s4 __attribute__((ext_vector_type(4)));\n"
    "typedef short s16 __attribute__((ext_vector_type(16)));\n"
    "typedef float f8 __attribute__((ext_vector_type(8)));\n"
    "extern \"C\" __global__ void stream(float *p, int n)\n"
    "{\n"
    "    const f4 *q = (const f4 *)p;\n"
    "    float a = 1, b = 2, c = 3, d = 4;\n"
    "    for (int i = 0; i < n; i++) {\n"
    "        f4 x = q[(ME + i * 1024u) & 0x3ffffu];\n"
    "        for (int k = 0; k < 4; k++) {\n"
    "            a = __builtin_fmaf(a, 0.5f, x.x); b = __builtin_fmaf(b, 0.25f, x.y);\n"
    "            c = __builtin_fmaf(c, 0.125f, x.z); d = __builtin_fmaf(d, a, x.w);\n"
    "        }\n"
    "    }\n"
    "    if (a + b + c + d == 12345.0f) p[ME] = a;\n"
    "}\n"
    "extern \"C\" __global__ void matrix(float *p, int n)\n"
    "{\n"
    "#if defined(__gfx1100__)\n"
    "    s16 a, b; f8 c, d;\n"
    "    for (int k = 0; k < 16; k++) a[k] = b[k] = (short)(TID + k);\n"
    "    for (int k = 0; k < 8; k++) c[k] = d[k] = 0;\n"
    "    for (int i = 0; i < n; i++) {\n"
    "        c = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(a, b, c);\n"
    "        d = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(a, b, d);\n"
    "    }\n"
    "#else\n"
    "    s4 a, b; f4 c, d;\n"
    "    for (int k = 0; k < 4; k++) { a[k] = b[k] = (short)(TID + k); c[k] = d[k] = 0; }\n"
    "    for (int i = 0; i < n; i++)\n"
    "        for (int k = 0; k < 4; k++) {\n"
    "            c = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(a, b, c, 0, 0, 0);\n"
    "            d = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(a, b, d, 0, 0, 0);\n"
    "        }\n"
    "#endif\n"
    "    p[ME] = c[0] + d[1];\n"
    "}\n"
    "extern \"C\" __global__ void exchange(float *p, int n)\n"
    "{\n"
    "    __shared__ float s[256];\n"
    "    float x = p[ME];\n"
    "    for (int i = 0; i < n; i++) {\n"
    "        s[TID] = x;\n"
    "        __builtin_amdgcn_fence(__ATOMIC_RELEASE, \"workgroup\"); __builtin_amdgcn_s_barrier();\n"
    "        __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, \"workgroup\");\n"
    "        x += s[(TID + 1) & 255] * 0.5f + s[(TID + 64) & 255];\n"
    "        __builtin_amdgcn_fence(__ATOMIC_RELEASE, \"workgroup\"); __builtin_amdgcn_s_barrier();\n"
    "        __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, \"workgroup\");\n"
    "    }\n"
    "    p[ME] = x;\n"
    "}\n";

/* Of this process: what others do on a busy machine doesn't count. */
static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Million wave-instructions a second, the median; 0: it failed. */
static double measure(const struct rfg_hip *hip, hipModule_t module, const char *kernel, void *p, int n)
{
    hipFunction_t fn;
    double rate[ROUNDS];
    void *params[] = { &p, &n };
    if (hip->hipModuleGetFunction(&fn, module, kernel) != hipSuccess)
        return 0;
    for (int r = 0; r < ROUNDS; r++) {
        uint64_t before = emu_executed();
        double start = cpu_seconds();
        if (hip->hipModuleLaunchKernel(fn, 16, 1, 1, 256, 1, 1, 0, NULL, params, NULL) != hipSuccess)
            return 0;
        rate[r] = (double)(emu_executed() - before) / (cpu_seconds() - start) / 1e6;
    }
    return rfg_median(rate, ROUNDS);
}

static int bench_arch(const char *arch)
{
    static const struct {
        const char *kernel, *says;
        int iterations;
    } rows[] = { { "stream", "loads and FMAs", 3000 },
                 { "matrix", "16x16x16 matrix products", 5000 },
                 { "exchange", "LDS and barriers", 1000 } };
    struct rfg_jit_request req = { .name = "bench", .entry = "stream", .target = arch, .source = source };
    const struct rfg_jit_provider *jit = rfg_jit_provider_for(arch);
    const struct rfg_hip *hip = rfg_hip_emu(NULL);
    struct rfg_blob code = { 0 };
    char *log = NULL, error[256];
    hipModule_t module;
    void *p = NULL;
    int ordinal = rfg_emu_open(arch, error, sizeof(error));
    if (!jit || jit->compile(&req, &code, &log) != RFG_OK) {
        fprintf(stderr, "rfg-emu: %s: %s\n%s", arch, rfg_last_error(), log ? log : "");
        free(log);
        return 1;
    }
    free(log);
    bool ok = ordinal >= 0 && hip->hipSetDevice(ordinal) == hipSuccess &&
              hip->hipModuleLoadData(&module, code.data) == hipSuccess && hip->hipMalloc(&p, 4 << 20) == hipSuccess &&
              hip->hipMemsetD8Async(p, 0, 4 << 20, NULL) == hipSuccess;
    for (size_t k = 0; ok && k < sizeof(rows) / sizeof(rows[0]); k++) {
        setenv("RFG_EMU_CHECKS", "none", 1);
        double off = measure(hip, module, rows[k].kernel, p, rows[k].iterations);
        unsetenv("RFG_EMU_CHECKS");
        double on = measure(hip, module, rows[k].kernel, p, rows[k].iterations);
        ok = off > 0 && on > 0;
        printf("%-8s %-26s %8.1f %8.1f\n", arch, rows[k].says, off, on);
    }
    if (!ok)
        fprintf(stderr, "rfg-emu: %s: can't run the bench\n", arch);
    (void)hip->hipFree(p);
    rfg_blob_free(&code);
    return !ok;
}

int tool_bench(char **archs, int n)
{
    static char *const usual[] = { "gfx90a", "gfx942", "gfx1100" };
    int status = 0;
    setenv("RFG_EMU_THREADS", "1", 1);
    printf("million wave-instructions a second on one core (%s), without and with checks\n", emu_host());
    for (int k = 0; k < (n ? n : 3); k++)
        status |= bench_arch(n ? archs[k] : usual[k]);
    return status;
}
