/* SPDX-License-Identifier: MIT
 *
 * The emulated GPU's check of instructions that come too soon after each other: each rule with one wait state too few,
 * which is found, and with enough, which isn't. Inline assembly, into which compilers put nothing of their own. And its
 * check of NaN born of none. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../dispatch/context.h"
#include "../emu/front.h"
#include "emu_kernel.h"
#include "program.h"
#include "suite.h"

static const char *const archs[] = { "gfx90a", "gfx942", "gfx1100" };
#define N_ARCHS 3
enum { G90A = 1, G942 = 2, G11 = 4, G9 = 3, STRICT = 8, WAVE64 = 16 };

/* What is between the instructions: need - 1 and need wait states, or, if need is 0, what is given. %0: an int of each
 * thread, %1: the first one of all, as an SGPR pair; %2, %3: the halves of its address, as VGPRs. */
static const struct gap {
    int flags;
    const char *text, *before, *after;
    int need;
    const char *bad, *good;
} gaps[] = {
#define MFMA_8  "v_mfma_f32_16x16x16f16 v[40:43], v[44:45], v[46:47], v[48:51]" /* gfx90a: 8 passes, gfx942: 4 */
#define MFMA_16 "v_mfma_f32_32x32x8f16 v[40:55], v[60:61], v[62:63], 0"         /* 16, 8 */
#define MFMA_2  "v_mfma_f32_4x4x4f16 v[40:43], v[44:45], v[46:47], 0"           /* 2 */
#define SGEMM_8 "v_mfma_f32_16x16x4f32 v[40:43], v44, v45, 0"                   /* 8 */
#define SGEMM_2 "v_mfma_f32_4x4x1f32 v[40:43], v44, v45, 0"
#define DGEMM4  "v_mfma_f64_4x4x4f64 v[40:41], v[52:53], v[54:55], 0"
#define DGEMM16 "v_mfma_f64_16x16x4f64 v[40:47], v[52:53], v[54:55], 0"
#define CMPX    "v_cmpx_eq_u32 vcc, v40, v40"
#define DPP     " quad_perm:[0,1,2,3] row_mask:0xf bank_mask:0xf"
#define STORE   "global_store_dword %0, v40, off"
#define READ    "v_mov_b32 v56, v40"
#define WRITE   "v_mov_b32 v40, 0"
#define AS_A    "v_mfma_f32_16x16x16f16 v[64:67], v[40:41], v[68:69], 0"
    { G9, "lane select", "v_readfirstlane_b32 s40, v40", "v_readlane_b32 s41, v41, s40", 4 },
    { G9, "lane select", "v_readfirstlane_b32 s40, v40", "v_writelane_b32 v41, 1, s40", 4 },
    { G9, "v_div_fmas", "v_cmp_eq_u32 vcc, v40, v41", "v_div_fmas_f32 v42, v43, v44, v45", 4 },
    { G9, "vector memory reads", "v_mov_b32 v43, 0\nv_readfirstlane_b32 s40, %2\nv_readfirstlane_b32 s41, %3",
      "global_load_dword v42, v43, s[40:41]\ns_waitcnt vmcnt(0)", 5 },
    { G9, "DPP reads", "v_mov_b32 v40, 1", "v_mov_b32_dpp v41, v40" DPP, 2 },
    { G9, "EXEC before DPP", CMPX, "v_mov_b32_dpp v41, v42" DPP, 5 },
    { G9, "vccz", "v_cmp_eq_u32 vcc, v40, v41", "v_mov_b32 v42, src_vccz", 5 },
    { G9, "execz", CMPX, "v_mov_b32 v42, src_execz", 5 },
    { G9, "wrote M0", "s_mov_b32 m0, 0", "s_movrels_b32 s40, s41", 1 },
    { G9, "wrote M0", "s_mov_b32 m0, 0", "s_sendmsg sendmsg(MSG_INTERRUPT)", 1 },
    { G9 | STRICT, "load to LDS", "s_mov_b64 exec, 0\ns_mov_b32 m0, 0",
      "buffer_load_dword v40, s[40:43], 0 offen lds\ns_waitcnt vmcnt(0)", 1 },
    { G90A, "overwrites the data", "global_store_dwordx4 %0, v[40:43], off", "v_mov_b32 v41, 0", 1 },
    { G942, "overwrites the data", "global_store_dwordx4 %0, v[40:43], off", "v_mov_b32 v41, 0", 2 },
    { G9, "same hardware register", "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 2), 0",
      "s_getreg_b32 s40, hwreg(HW_REG_MODE)", 2 },
    { G9, "s_setvskip", "s_setvskip 0, 0", "s_getreg_b32 s40, hwreg(HW_REG_MODE)", 2 },
    { G9, "vskip", "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 28, 1), 0", READ, 2 },
    { G942, "a part of a VGPR", "v_cvt_f16_f32_sdwa v40, v41 dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:DWORD",
      READ, 1 },
    { G942, "transcendental", "v_rcp_f32 v40, v41", READ, 1 },
    { G942 | STRICT, "SGPR or VCC", "v_readfirstlane_b32 s40, v40", "v_mov_b32 v41, s40", 2 },
    { G942 | STRICT, "SGPR or VCC", "v_cmp_eq_u32 vcc, v40, v41", "v_cndmask_b32 v42, v43, v44, vcc", 2 },
    { G942, "v_readlane reads", "v_mov_b32 v40, 1", "v_readfirstlane_b32 s40, v40", 1 },
    { G942, "EXEC before a lane", CMPX, "v_readlane_b32 s40, v41, 0", 4 },
    { G9, "a dot instruction wrote a VGPR that is read", "v_dot2_f32_f16 v40, v41, v42, v43", READ, 3 },
    { G9, "a dot instruction wrote a VGPR that is read", "v_dot2_f32_f16 v40, v41, v42, v43",
      "v_dot2_f32_f16 v44, v40, v42, v43", 3 },
    { G9, "a dot instruction wrote a VGPR that is read", "v_dot2_f32_f16 v40, v41, v42, v43", NULL, 0,
      "v_dot2_f32_f16 v44, v40, v42, v43", "v_dot2_f32_f16 v44, v41, v42, v40" },
    { G9, "a dot instruction wrote a VGPR that is read", "v_dot2_f32_f16 v40, v41, v42, v43", STORE, 3 },
    { G9, "a dot instruction wrote a VGPR that is overwritten", "v_dot2_f32_f16 v40, v41, v42, v43", WRITE, 3 },

    { G9, "EXEC before an MFMA", CMPX, MFMA_8, 4 },
    { G9, "wrote a VGPR that an MFMA reads", "v_mov_b32 v44, 0", MFMA_8, 2 },
    { G9, "wrote a VGPR that an MFMA reads", "v_mov_b32 v49, 0", MFMA_8, 2 },
    { G90A, "VALU instruction reads", MFMA_2, READ, 5 },
    { G90A, "VALU instruction reads", MFMA_8, READ, 11 },
    { G90A, "VALU instruction reads", MFMA_16, READ, 19 },
    { G90A, "VALU instruction reads", MFMA_8 "\ns_branch 1f\ns_nop 15\n1:", READ, 7 },
    { G942, "VALU instruction reads", MFMA_2, READ, 5 },
    { G942, "VALU instruction reads", MFMA_8, READ, 7 },
    { G942, "VALU instruction reads", MFMA_16, READ, 11 },
    { G942, "VALU instruction reads", "v_mfma_f32_32x32x4f16 v[40:71], v[72:73], v[74:75], 0", READ, 19 },
    { G942, "VALU instruction reads", SGEMM_2, READ, 4 },
    { G942, "VALU instruction reads", SGEMM_8, READ, 10 },
    { G942, "VALU instruction reads", "v_mfma_f32_32x32x2f32 v[40:55], v60, v61, 0", READ, 18 },
    { G90A, "VALU instruction reads", SGEMM_8, READ, 11 },
    { G9, "VALU instruction reads", DGEMM4, READ, 6 },
    { G9, "VALU instruction reads", DGEMM16, READ, 11 },
    { G90A, "VALU instruction reads", "v_mfma_f32_16x16x16f16 a[0:3], v[44:45], v[46:47], 0",
      "v_accvgpr_read_b32 v40, a1", 11 },
    { G90A, "that is overwritten", MFMA_8, WRITE, 11 },
    { G942, "that is overwritten", MFMA_8, WRITE, 7 },
    { G942, "that is overwritten", SGEMM_8, WRITE, 10 },
    { G9, "that is overwritten", DGEMM4, WRITE, 6 },
    { G9, "that is overwritten", DGEMM16, WRITE, 11 },
    { G90A, "operand C", MFMA_8, "v_mov_b32 v48, 0", 7 },
    { G942, "operand C", MFMA_8, "v_mov_b32 v48, 0", 3 },
    { G90A, "that memory reads", MFMA_8, STORE, 11 },
    { G942, "that memory reads", MFMA_8, STORE, 7 },
    { G942, "that memory reads", SGEMM_8, STORE, 10 },
    { G9, "that memory reads", DGEMM4, STORE, 9 },
    { G9, "that memory reads", DGEMM16, STORE, 18 },
    { G90A, "fp64 MFMA between", "v_mov_b32 v60, 0\n" DGEMM4, "global_store_dword %0, v60, off", 1 },
    { G90A, "as A or B", MFMA_8, AS_A, 11 },
    { G942, "as A or B", MFMA_8, AS_A, 7 },
    { G942, "as A or B", SGEMM_8, AS_A, 10 },
    { G9, "as A or B", DGEMM4, AS_A, 6 },
    { G9, "as A or B", DGEMM16, AS_A, 11 },
#define AS_C "v_mfma_f32_16x16x16f16 v[42:45], v[60:61], v[62:63], v[42:45]"
#define AS_S "v_mfma_f32_16x16x4f32 v[42:45], v60, v61, v[42:45]"
#define AS_D "v_mfma_f64_4x4x4f64 v[64:65], v[60:61], v[62:63], v[40:41]"
    { G90A, "part of what an MFMA", MFMA_8, AS_C, 8 },
    { G942, "part of what an MFMA", MFMA_8, AS_C, 5 },
    { G9, "part of what an MFMA", MFMA_8, NULL, 0, AS_C,
      "v_mfma_f32_16x16x16f16 v[40:43], v[60:61], v[62:63], v[40:43]" },
    { G942, "of 2 passes wrote what", MFMA_2, "v_mfma_f32_4x4x4f16 v[40:43], v[44:45], v[46:47], v[40:43]", 2 },
    { G942, "part of what an MFMA", MFMA_8, AS_S, 5 },
    { G942, "part of what an MFMA", SGEMM_8, AS_S, 8 },
    { G942, "of 2 passes wrote what", SGEMM_2, "v_mfma_f32_4x4x1f32 v[40:43], v44, v45, v[40:43]", 2 },
    { G942, "part of what an MFMA", "v_mfma_f64_4x4x4f64 v[44:45], v[52:53], v[54:55], 0", AS_S, 4 },
    { G942, "part of what an MFMA", DGEMM16, AS_S, 9 },
    { G90A, "part of what an fp64 MFMA", MFMA_8, AS_D, 9 },
    { G942, "part of what an fp64 MFMA", MFMA_8, AS_D, 5 },
    { G942, "part of what an fp64 MFMA", SGEMM_8, AS_D, 8 },
    { G9, "wrote what an fp64 MFMA", DGEMM4, AS_D, 4 },
    { G9, "part of what an fp64 MFMA", DGEMM16, "v_mfma_f64_16x16x4f64 v[42:49], v[52:53], v[54:55], v[42:49]", 9 },
    { G9, "v_fma_f64", DGEMM4, "v_fma_f64 v[64:65], v[66:67], v[68:69], v[70:71]", 2 },

#define MOV  "v_mov_b32 v60, 0\n"
#define WMMA "v_wmma_f32_16x16x16_f16 v[40:47], v[50:57], v[60:67], v[40:47]"
    { G11, "transcendental", "v_rcp_f32 v40, v41", READ, 0, MOV MOV MOV MOV MOV, MOV MOV MOV MOV MOV MOV },
    { G11, "transcendental", "v_rcp_f32 v40, v41", READ, 0, "v_rcp_f32 v60, v61",
      "v_rcp_f32 v60, v61\nv_rcp_f32 v62, v63" },
    { G11, "transcendental", "v_rcp_f32 v40, v41", READ, 0, "s_nop 15", "s_waitcnt_depctr 0xfff" },
    { G11, "WMMA", WMMA, "v_wmma_f32_16x16x16_f16 v[70:77], v[40:47], v[80:87], v[70:77]", 0, "s_nop 15", "v_nop" },
    { G11, "WMMA", WMMA, NULL, 0, "v_wmma_f32_16x16x16_f16 v[70:77], v[50:57], v[40:47], v[70:77]", WMMA },
    { G11, "v_permlane", "v_cmpx_eq_u32 v40, v40", "v_permlane16_b32 v41, v42, s40, s41", 0, "v_nop", MOV },
    { G11, "VGPRs back", "v_mov_b32 v40, 0", "s_sendmsg sendmsg(MSG_DEALLOC_VGPRS)\ns_endpgm", 0, "s_mov_b32 s40, 0",
      "s_nop 0" },
    { G11 | WAVE64, "write of EXEC", "v_mov_b32 v40, 0\ns_mov_b64 exec, -1\nv_mov_b32 v41, 0",
      "v_add_nc_u32 v42, v40, v41", 0, MOV MOV, "s_waitcnt_depctr 0xfff" },
    { G11 | WAVE64, "write of EXEC", "v_mov_b32 v40, 0\ns_mov_b64 exec, -1\nv_mov_b32 v41, 0",
      "v_add_nc_u32 v42, v40, v41", 0, MOV MOV MOV MOV, MOV MOV MOV MOV MOV },
    { G11 | WAVE64, "as a lane mask", "v_cndmask_b32 v40, v41, v42, s[40:41]\ns_mov_b64 s[40:41], 0",
      "s_mov_b64 s[42:43], s[40:41]", 0, "s_nop 15", "s_waitcnt_depctr 0xfffe" },
    { G11 | WAVE64, "as a lane mask", "v_cndmask_b32 v40, v41, v42, s[40:41]",
      "s_mov_b64 s[40:41], 0\nv_mov_b32 v43, s40", 0, "v_mov_b32 v44, v45", "v_mov_b32 v44, s50" },
};
#define N_GAPS (int)(sizeof(gaps) / sizeof(gaps[0]))

static const char prelude[] = "#ifndef __global__\n"
                              "#define __global__ __attribute__((global))\n"
                              "#define __device__ __attribute__((device))\n"
                              "#endif\n"
                              "#define TID __builtin_amdgcn_workitem_id_x()\n";

static void write_nops(FILE *f, int n)
{
    for (; n > 0; n -= 16)
        fprintf(f, "s_nop %d\n", n < 16 ? n - 1 : 15);
}

static void write_kernel(FILE *f, const struct gap *g, int k, bool bad)
{
    fprintf(f, "extern \"C\" __global__ %svoid %s%d(int *p)\n{\n    asm volatile(R\"(%s\n",
            g->flags & WAVE64 ? "__attribute__((target(\"wavefrontsize64\"))) " : "", bad ? "bad" : "good", k,
            g->before);
    if (g->bad)
        fprintf(f, "%s\n", bad ? g->bad : g->good);
    else
        write_nops(f, bad ? g->need - 1 : g->need);
    fprintf(
        f,
        "%s\n)\" :: \"v\"(p + TID), \"s\"(p), \"v\"((int)(long)p), \"v\"((int)((long)p >> 32)) : \"v127\", \"s60\", "
        "\"vcc\", \"memory\"%s);\n}\n",
        g->after ? g->after : "", g->flags & G9 ? ", \"a15\"" : "");
}

static void run_gap(hipModule_t m, const char *arch, const struct gap *g, int k, bool bad, int *p)
{
    char name[20], last[1200], needs[40];
    hipFunction_t fn;
    void *params[] = { &p };
    snprintf(name, sizeof(name), "%s%d", bad ? "bad" : "good", k);
    ck_assert_int_eq(hip->hipModuleGetFunction(&fn, m, name), hipSuccess);
    setenv("RFG_EMU_CHECKS", g->flags & STRICT ? "strict" : "hazards", 1);
    emu_reports_clear();
    hipError_t e = hip->hipModuleLaunchKernel(fn, 1, 1, 1, 64, 1, 1, 0, NULL, params, NULL);
    int found = emu_reports(NULL);
    emu_reports_last(last, sizeof(last));
    if (!bad) {
        ck_assert_msg(e == hipSuccess && !found, "%s: %s: the good kernel is reported: %s", arch, g->text, last);
        return;
    }
    ck_assert_msg(e != hipSuccess && emu_reports("hazard") && emu_reports("hazard") == found,
                  "%s: '%s', then '%s': the bad kernel passes: %s", arch, g->before, g->after ? g->after : g->bad,
                  last);
    PRINTS(last, g->text);
    snprintf(needs, sizeof(needs), "are needed, there are %d;", g->need - 1);
    if (g->need && !strchr(g->before, '\n'))
        PRINTS(last, needs);
}

START_TEST(hazards)
{
    const char *arch = archs[_i];
    char *source = NULL;
    size_t size;
    int n = 0, *p;
    FILE *f = open_memstream(&source, &size);
    ck_assert_ptr_nonnull(f);
    fputs(prelude, f);
    for (int k = 0; k < N_GAPS; k++)
        if (gaps[k].flags >> _i & 1)
            for (int bad = 0; bad <= 1; bad++)
                write_kernel(f, &gaps[k], k, bad);
    ck_assert_int_eq(fclose(f), 0);
    emu_open_device(arch);
    hipModule_t m = emu_build(arch, _i == 2 ? "bad80" : "bad0", source, NULL);
    ck_assert_int_eq(hip->hipMalloc((void **)&p, 1024), hipSuccess);
    for (int k = 0; k < N_GAPS; k++)
        if (gaps[k].flags >> _i & 1) {
            run_gap(m, arch, &gaps[k], k, false, p);
            run_gap(m, arch, &gaps[k], k, true, p);
            n++;
        }
    printf("hazards on %s: %d rules broken and kept\n", arch, n);
    ck_assert_int_eq(hip->hipFree(p), hipSuccess);
    ck_assert_int_eq(hip->hipModuleUnload(m), hipSuccess);
    rfg_context_destroy(&ctx);
    free(source);
}
END_TEST

/* ---- NaN ----------------------------------------------------------------------------------------------------------
 */

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
    Suite *s = suite_create("emu_hazards");
    TCase *tc = tcase_create("emu");
    tcase_set_timeout(tc, 300);
    tcase_add_loop_test(tc, hazards, 0, N_ARCHS);
    tcase_add_loop_test(tc, nan_born, 0, N_ARCHS);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
