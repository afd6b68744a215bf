/* SPDX-License-Identifier: MIT
 *
 * The emulated GPU's check of NaN born of none, in what compilers make of C. (Instruction by instruction: emu_rules.)
 */
#include <math.h>

#include "dispatch/context.h"
#include "emu/run/front.h"
#include "emu_kernel.h"
#include "tests/program.h"
#include "tests/suite.h"

static const char *const archs[] = { "gfx90a", "gfx942", "gfx1100" };
#define N_ARCHS 3
enum { G11 = 4, G9 = 3 };

static const char prelude[] = "#ifndef __global__\n"
                              "#define __global__ __attribute__((global))\n"
                              "#define __device__ __attribute__((device))\n"
                              "#endif\n"
                              "#define TID __builtin_amdgcn_workitem_id_x()\n"
                              "#define BF(x) ((short)(__builtin_bit_cast(unsigned, (float)(x)) >> 16))\n";

#define BF16_4                                                                                                         \
    "typedef short s4 __attribute__((ext_vector_type(4))); typedef float f4 __attribute__((ext_vector_type(4))); "
#define MFMA_BF16 "f4 c = { 0 }; c = __builtin_amdgcn_mfma_f32_4x4x4bf16_1k(a, b, c, 0, 0, 0); p[TID] = c[0];"

/* The kernel stores to p[TID]; x is what makes the difference. good2 is as innocent as good. */
static const struct {
    int flags;
    const char *text, *body;
    float bad, good, good2;
} nans[] = {
#define ALL_ARCHS (G9 | G11)
    { ALL_ARCHS, "an infinity among the operands", "p[TID] = x - x;", INFINITY, 1, NAN },
    { ALL_ARCHS, "of -1 in lane 0, all finite", "p[TID] = __builtin_amdgcn_sqrtf(x);", -1, 4, INFINITY },
    { ALL_ARCHS, "of 0, 0, 0", "p[TID] = x / x;", 0, 2, NAN },
    { ALL_ARCHS, "reaches '", "p[TID] = TID == 3 ? x / (x - 1) : 1 / x;", INFINITY, 1, 0 }, /* 1 / 0 is none */
    { ALL_ARCHS, "reaches '", "if (TID == 7) p[TID] = x * 0.0f;", -INFINITY, 1, NAN },
    { ALL_ARCHS, "an infinity", "_Float16 h = (_Float16)x; p[TID] = (float)(h - h * (_Float16)2);", 1e6f, 1000, NAN },
    { ALL_ARCHS, "an infinity",
      "typedef _Float16 h2 __attribute__((ext_vector_type(2))); h2 h = { (_Float16)1, "
      "(_Float16)x }; *(h2 *)(p + TID) = h - h * h;",
      1e6f, 100, NAN },
    { ALL_ARCHS, "an infinity", "double d = x; p[TID] = (float)(d * 1e300 * 0.0);", 1e30f, 1, NAN },
    { ALL_ARCHS, "an infinity",
      "float y = x * 2; unsigned u = __builtin_bit_cast(unsigned, y - y); *(short *)(p + TID) "
      "= (short)(u >> 16);",
      INFINITY, 1, NAN }, /* packed by integer instructions */
    { ALL_ARCHS, "reaches 'global_store",
      "float y = x * 2; y = y - y; y = __builtin_bit_cast(float, "
      "__builtin_amdgcn_ds_bpermute((int)TID * 4, __builtin_bit_cast(int, y))); p[TID] = y + 1;",
      INFINITY, 1, NAN },
    { G9, "v_mfma",
      "typedef _Float16 h4 __attribute__((ext_vector_type(4))); typedef float f4 "
      "__attribute__((ext_vector_type(4))); h4 a = { 0, 0, 0, (_Float16)x }, b = { 1, 1, 1, 0 }; f4 c = { 1, "
      "2, 3, 4 }; c = __builtin_amdgcn_mfma_f32_4x4x4f16(a, b, c, 0, 0, 0); p[TID] = c[1];",
      1e6f, 1, NAN },
    { G9, "of a row of A and a column of B in lane 0, an infinity",
      BF16_4 "s4 a = { 0, BF(x), 0, 0 }, b = { 0 }; " MFMA_BF16, INFINITY, 1, NAN },
    { G11, "v_wmma",
      "typedef _Float16 h16 __attribute__((ext_vector_type(16))); typedef float f8 "
      "__attribute__((ext_vector_type(8))); h16 a = (h16)(_Float16)x, b = (h16)(_Float16)0; f8 c = { 1, 2, 3 "
      "}; c = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(a, b, c); p[TID] = c[1];",
      1e6f, 1, NAN },
    /* born, but another value is stored: never reported */
    { ALL_ARCHS, NULL, "float y = x - x; p[TID] = __builtin_isinf(x) ? 5.0f : y;", INFINITY, 1, NAN },
    { ALL_ARCHS, NULL, /* half of it would be a bf16 NaN */
      "float y = x - x; p[TID] = __builtin_isinf(x) ? __builtin_bit_cast(float, 0x3f80ffc1) : y;", INFINITY, 1, NAN },
    { ALL_ARCHS, NULL, "p[TID] = __builtin_sqrtf(x) + __builtin_expf(-x);", INFINITY, 0, NAN },
    { ALL_ARCHS, NULL, "double d = x; p[TID] = (float)__builtin_sqrt(d) / 3;", 0, 1, INFINITY },
};
#define N_NANS (int)(sizeof(nans) / sizeof(nans[0]))

static void run_nan(hipModule_t m, const char *arch, int k, float x, bool bad, float *p)
{
    char name[20], last[1200];
    hipFunction_t fn;
    void *params[] = { &p, &x };
    snprintf(name, sizeof(name), "nan%d", k);
    ck_assert_int_eq(hip->hipModuleGetFunction(&fn, m, name), hipSuccess);
    emu_reports_clear();
    hipError_t e = hip->hipModuleLaunchKernel(fn, 1, 1, 1, 64, 1, 1, 0, NULL, params, NULL);
    int found = emu_reports(NULL);
    emu_reports_last(last, sizeof(last));
    if (!bad) {
        ck_assert_msg(e == hipSuccess && !found, "%s: '%s' with x = %g is reported: %s", arch, nans[k].body, (double)x,
                      last);
        return;
    }
    ck_assert_msg(e != hipSuccess && emu_reports("nan-born") && emu_reports("nan-born") == found,
                  "%s: '%s' with %g: %s", arch, nans[k].body, (double)x, last);
    PRINTS(last, nans[k].text);
}

START_TEST(nan_born)
{
    const char *arch = archs[_i];
    char *source = NULL;
    size_t size;
    float *p;
    FILE *f = open_memstream(&source, &size);
    ck_assert_ptr_nonnull(f);
    fputs(prelude, f);
    for (int k = 0; k < N_NANS; k++)
        if (nans[k].flags >> _i & 1)
            fprintf(f, "extern \"C\" __global__ void nan%d(float *p, float x) { %s }\n", k, nans[k].body);
    ck_assert_int_eq(fclose(f), 0);
    emu_open_device(arch);
    hipModule_t m = emu_build(arch, "nan0", source, NULL);
    ck_assert_int_eq(hip->hipMalloc((void **)&p, 1024), hipSuccess);
    setenv("RFG_EMU_CHECKS", "nan", 1);
    for (int k = 0; k < N_NANS; k++)
        if (nans[k].flags >> _i & 1) {
            run_nan(m, arch, k, nans[k].good, false, p);
            run_nan(m, arch, k, nans[k].good2, false, p);
            run_nan(m, arch, k, nans[k].bad, nans[k].text, p);
        }
    ck_assert_int_eq(hip->hipFree(p), hipSuccess);
    ck_assert_int_eq(hip->hipModuleUnload(m), hipSuccess);
    rfg_context_destroy(&ctx);
    free(source);
}
END_TEST

int main(void)
{
    if (!emu_is_there())
        return 77;
    Suite *s = suite_create("emu_nan");
    TCase *tc = test_case(s, "emu", NULL, NULL);
    tcase_set_timeout(tc, 300);
    ADD_LOOPS(tc, N_ARCHS, nan_born);
    return run_suite(s);
}
