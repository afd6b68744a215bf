/* SPDX-License-Identifier: MIT
 *
 * Instructions too close to each other. For gfx90a and gfx942 the programs are made of what makes a hazard, N - 1 or N
 * wait states, and what minds it, for every row of the rules below, which are docs/emulator.md's; a rule of
 * check_hazards.c that has none here is an error. gfx11's are written out. */
#include "emu_rules.h"

#include "emu/check/check_hazards.h"

/* ---- gfx90a, gfx942: the rules ----------------------------------------------------------------------------------- */

/* The counts are not the emulator's, but those of the document. By passes: 2, 4, 8, 16; without: the first. */
static const struct want {
    int archs;
    int need;
    uint32_t makes;
    int how; /* EXACT, OVERLAP, READ_AS_C, DGEMM_SINCE, STRICT */
    int wait[4];
    const char *says;
} wants[] = {
    { P9, LANE_SELECT, VALU_SGPR, 0, { 4 }, "wrote the lane select" },
    { P9, DIV_FMAS, VALU_SGPR, 0, { 4 }, "VCC, which v_div_fmas reads" },
    { P9, MEM_SGPR, VALU_SGPR, 0, { 5 }, "an SGPR that vector memory reads" },
    { P9, DPP_VGPR, VALU_VGPR, 0, { 2 }, "a VGPR that DPP reads" },
    { P9, DPP_ANY, VALU_EXEC, 0, { 5 }, "EXEC before DPP" },
    { P9, VCCZ, VALU_SGPR, 0, { 5 }, "vccz is read as data" },
    { P9, EXECZ, VALU_EXEC, 0, { 5 }, "execz is read as data" },
    { P9, M0_USER, SALU_M0, 0, { 1 }, "wrote M0, which this reads" },
    { P9, M0_LDS_DMA, SALU_M0, STRICT, { 1 }, "wrote M0, which a load to LDS reads" },
    { P90A, WRITES_VGPR, WIDE_STORE, 0, { 1 }, "overwrites the data of a store of more than 64 bits" },
    { P94, WRITES_VGPR, WIDE_STORE, 0, { 2 }, "overwrites the data of a store of more than 64 bits" },
    { P9, HWREG, SETREG, 0, { 2 }, "s_setreg wrote the same hardware register" },
    { P9, GETREG_MODE, SETVSKIP, 0, { 2 }, "s_setvskip changed MODE" },
    { P9, VECTOR, SET_MODE_VSKIP, 0, { 2 }, "s_setreg wrote MODE.vskip before a vector instruction" },
    { P94, VALU_READS_VGPR, PART, 0, { 1 }, "a part of a VGPR was written by SDWA or op_sel" },
    { P9, VALU_READS_VGPR, DOT, 0, { 3 }, "a dot instruction wrote a VGPR that is read" },
    { P90A, VALU_READS_VGPR, XDL, 0, { 5, 0, 11, 19 }, "an MFMA wrote a VGPR that a VALU instruction reads" },
    { P942, VALU_READS_VGPR, XDL, 0, { 5, 7, 11, 19 }, "an MFMA wrote a VGPR that a VALU instruction reads" },
    { P950, VALU_READS_VGPR, XDL, 0, { 5, 8, 12, 20 }, "an MFMA wrote a VGPR that a VALU instruction reads" },
    { P94, VALU_READS_VGPR, SGEMM, 0, { 4, 0, 10, 18 }, "an MFMA wrote a VGPR that a VALU instruction reads" },
    { P9, VALU_READS_VGPR, DGEMM4, 0, { 0, 6 }, "an fp64 MFMA wrote a VGPR that a VALU instruction reads" },
    { P90A | P942,
      VALU_READS_VGPR,
      DGEMM16,
      0,
      { 0, 0, 11 },
      "an fp64 MFMA wrote a VGPR that a VALU instruction reads" },
    { P950, VALU_READS_VGPR, DGEMM16, 0, { 0, 0, 0, 19 }, "an fp64 MFMA wrote a VGPR that a VALU instruction reads" },
    { P94, NOT_TRANS_READS_VGPR, TRANS, 0, { 1 }, "a transcendental wrote a VGPR that is read" },
    { P94, VALU_READS_SGPR, VALU_SGPR, STRICT, { 2 }, "an SGPR or VCC that is read" },
    { P9, VALU_WRITES_VGPR, DOT, 0, { 3 }, "a dot instruction wrote a VGPR that is overwritten" },
    { P90A, VALU_WRITES_VGPR, XDL, 0, { 5, 0, 11, 19 }, "an MFMA wrote a VGPR that is overwritten" },
    { P942, VALU_WRITES_VGPR, XDL, 0, { 5, 7, 11, 19 }, "an MFMA wrote a VGPR that is overwritten" },
    { P950, VALU_WRITES_VGPR, XDL, 0, { 5, 8, 12, 20 }, "an MFMA wrote a VGPR that is overwritten" },
    { P94, VALU_WRITES_VGPR, SGEMM, 0, { 4, 0, 10, 18 }, "an MFMA wrote a VGPR that is overwritten" },
    { P9, VALU_WRITES_VGPR, DGEMM4, 0, { 0, 6 }, "an fp64 MFMA wrote a VGPR that is overwritten" },
    { P90A | P942, VALU_WRITES_VGPR, DGEMM16, 0, { 0, 0, 11 }, "an fp64 MFMA wrote a VGPR that is overwritten" },
    { P950, VALU_WRITES_VGPR, DGEMM16, 0, { 0, 0, 0, 19 }, "an fp64 MFMA wrote a VGPR that is overwritten" },
    { P90A, VALU_WRITES_VGPR, XDL, READ_AS_C, { 1, 0, 7, 15 }, "overwrites an MFMA's operand C" },
    { P94, VALU_WRITES_VGPR, XDL, READ_AS_C, { 1, 3, 7, 15 }, "overwrites an MFMA's operand C" },
    { P94, READLANE, VALU_VGPR, 0, { 1 }, "the VGPR that v_readlane reads" },
    { P94, RWLANE, VALU_EXEC, 0, { 4 }, "EXEC before a lane is read or written" },
    { P9, MEM_VGPR, DOT, 0, { 3 }, "a dot instruction wrote a VGPR that is read" },
    { P90A, MEM_VGPR, VALU_VGPR, DGEMM_SINCE, { 2 }, "a VGPR that memory reads, an fp64 MFMA between" },
    { P90A, MEM_VGPR, XDL, 0, { 5, 0, 11, 19 }, "an MFMA wrote a VGPR that memory reads" },
    { P942, MEM_VGPR, XDL, 0, { 5, 7, 11, 19 }, "an MFMA wrote a VGPR that memory reads" },
    { P950, MEM_VGPR, XDL, 0, { 5, 8, 12, 20 }, "an MFMA wrote a VGPR that memory reads" },
    { P94, MEM_VGPR, SGEMM, 0, { 4, 0, 10, 18 }, "an MFMA wrote a VGPR that memory reads" },
    { P9, MEM_VGPR, DGEMM4, 0, { 0, 9 }, "an fp64 MFMA wrote a VGPR that memory reads" },
    { P90A | P942, MEM_VGPR, DGEMM16, 0, { 0, 0, 18 }, "an fp64 MFMA wrote a VGPR that memory reads" },
    { P950, MEM_VGPR, DGEMM16, 0, { 0, 0, 0, 18 }, "an fp64 MFMA wrote a VGPR that memory reads" },
    { P9, MFMA_ANY, VALU_EXEC, 0, { 4 }, "EXEC before an MFMA" },
    { P9, MFMA_VGPR, VALU_NO_DOT, 0, { 2 }, "a VGPR that an MFMA reads" },
    { P90A, MFMA_AB, XDL, 0, { 5, 0, 11, 19 }, "an MFMA wrote a VGPR that an MFMA reads as A or B" },
    { P942, MFMA_AB, XDL, 0, { 5, 7, 11, 19 }, "an MFMA wrote a VGPR that an MFMA reads as A or B" },
    { P950, MFMA_AB, XDL, 0, { 5, 8, 12, 20 }, "an MFMA wrote a VGPR that an MFMA reads as A or B" },
    { P94, MFMA_AB, SGEMM, 0, { 4, 0, 10, 18 }, "an MFMA wrote a VGPR that an MFMA reads as A or B" },
    { P9, MFMA_AB, DGEMM4, 0, { 0, 6 }, "an fp64 MFMA wrote a VGPR that an MFMA reads as A or B" },
    { P90A | P942, MFMA_AB, DGEMM16, 0, { 0, 0, 11 }, "an fp64 MFMA wrote a VGPR that an MFMA reads as A or B" },
    { P950, MFMA_AB, DGEMM16, 0, { 0, 0, 0, 19 }, "an fp64 MFMA wrote a VGPR that an MFMA reads as A or B" },
    { P90A, XDL_C, XDL, OVERLAP, { 2, 0, 8, 16 }, "an MFMA wrote a part of what an MFMA reads as C" },
    { P942, XDL_C, XDL, OVERLAP, { 3, 5, 9, 17 }, "an MFMA wrote a part of what an MFMA reads as C" },
    { P950, XDL_C, XDL, OVERLAP, { 3, 6, 10, 18 }, "an MFMA wrote a part of what an MFMA reads as C" },
    { P94, XDL_C, XDL, EXACT, { 2 }, "an MFMA of 2 passes wrote what an MFMA reads as C" },
    { P94, XDL_C, SGEMM, EXACT, { 2 }, "an MFMA of 2 passes wrote what an MFMA reads as C" },
    { P942, SGEMM_C, XDL, OVERLAP, { 3, 5, 9, 17 }, "an MFMA wrote a part of what an MFMA reads as C" },
    { P950, SGEMM_C, XDL, OVERLAP, { 3, 6, 10, 18 }, "an MFMA wrote a part of what an MFMA reads as C" },
    { P94, SGEMM_C, SGEMM, OVERLAP, { 2, 0, 8, 16 }, "an MFMA wrote a part of what an MFMA reads as C" },
    { P94, SGEMM_C, XDL, EXACT, { 2 }, "an MFMA of 2 passes wrote what an MFMA reads as C" },
    { P94, SGEMM_C, SGEMM, EXACT, { 2 }, "an MFMA of 2 passes wrote what an MFMA reads as C" },
    { P94, SGEMM_C, DGEMM4, OVERLAP, { 0, 4 }, "an fp64 MFMA wrote a part of what an MFMA reads as C" },
    { P942, SGEMM_C, DGEMM16, OVERLAP, { 0, 0, 9 }, "an fp64 MFMA wrote a part of what an MFMA reads as C" },
    { P950, SGEMM_C, DGEMM16, OVERLAP, { 0, 0, 0, 17 }, "an fp64 MFMA wrote a part of what an MFMA reads as C" },
    { P90A, DGEMM_C, XDL, OVERLAP, { 3, 0, 9, 17 }, "an MFMA wrote a part of what an fp64 MFMA reads as C" },
    { P942, DGEMM_C, XDL, OVERLAP, { 3, 5, 9, 17 }, "an MFMA wrote a part of what an fp64 MFMA reads as C" },
    { P950, DGEMM_C, XDL, OVERLAP, { 3, 6, 10, 18 }, "an MFMA wrote a part of what an fp64 MFMA reads as C" },
    { P94, DGEMM_C, SGEMM, OVERLAP, { 2, 0, 8, 16 }, "an MFMA wrote a part of what an fp64 MFMA reads as C" },
    { P9, DGEMM_C, DGEMM4, 0, { 0, 4 }, "an fp64 MFMA wrote what an fp64 MFMA reads as C" },
    { P90A | P942,
      DGEMM_C,
      DGEMM16,
      OVERLAP,
      { 0, 0, 9 },
      "an fp64 MFMA wrote a part of what an fp64 MFMA reads as C" },
    { P950, DGEMM_C, DGEMM16, OVERLAP, { 0, 0, 0, 17 }, "an fp64 MFMA wrote a part of what an fp64 MFMA reads as C" },
    { P9, FMA64, DGEMM4, 0, { 0, 2 }, "an fp64 MFMA is followed by v_fma_f64" },
    { P90A | P942, FMA64, DGEMM16, 0, { 0, 0, 2 }, "an fp64 MFMA is followed by v_fma_f64" },
    { P950, FMA64, DGEMM16, 0, { 0, 0, 0, 2 }, "an fp64 MFMA is followed by v_fma_f64" },
    { P950, SWAP_VGPR, VALU_VGPR, 0, { 2 }, "a VGPR that v_permlane*_swap exchanges" },
    { P950, SWAP_ANY, VALU_EXEC, 0, { 4 }, "EXEC before v_permlane*_swap" },
};
#define N_WANTS (int)(sizeof(wants) / sizeof(wants[0]))

/* ---- gfx90a, gfx942: the instructions ---------------------------------------------------------------------------- */

/* EXEC is 0 throughout: what is read, written and waited for doesn't depend on it. VGPRs that are made begin at v40,
 * an MFMA's C at v8 (0: none); SGPRs are s[40:41]. */
/* Those of the transcendental unit. */
#define EVERY_TRANS(one, two)                                                                                          \
    one("v_rcp_f32") one("v_rcp_iflag_f32") one("v_rsq_f32") one("v_sqrt_f32") one("v_exp_f32") one("v_log_f32")       \
        one("v_sin_f32") one("v_cos_f32") one("v_rcp_f16") one("v_rsq_f16") one("v_sqrt_f16") one("v_exp_f16")         \
            one("v_log_f16") one("v_sin_f16") one("v_cos_f16") two("v_rcp_f64") two("v_rsq_f64") two("v_sqrt_f64")

static const struct maker {
    int archs;
    uint32_t makes;
    int passes; /* 0..3: 2, 4, 8, 16 */
    int words, c;
    const char *text;
} makers[] = {
    { P9, VALU_VGPR | VALU_NO_DOT, 0, 1, 0, "v_mov_b32 v40, 0" },
    { P9, VALU_SGPR, 0, 2, 0, "v_cmp_eq_u32 s[40:41], v80, v81" },
    { P9, VALU_EXEC, 0, 0, 0, "v_cmpx_eq_u32 vcc, v80, v80" },
#define TRANS_1(n) { P9, TRANS, 0, 1, 0, n " v40, v80" },
#define TRANS_2(n) { P9, TRANS, 0, 2, 0, n " v[40:41], v[80:81]" },
    EVERY_TRANS(TRANS_1, TRANS_2) TRANS_1("v_exp_legacy_f32") TRANS_1("v_log_legacy_f32"){
        P9, PART, 0, 1, 0, "v_cvt_f16_f32_sdwa v40, v80 dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:DWORD" },
    { P9, PART, 0, 1, 0, "v_mad_f16 v40, v80, v81, v82 op_sel:[0,0,0,1]" },
    { P9, DOT, 0, 1, 0, "v_dot2_f32_f16 v40, v80, v81, v82" },
    { P9, DOT, 0, 1, 0, "v_dot4_i32_i8 v40, v80, v81, v82" },
    { P9, SALU_M0, 0, 0, 0, "s_mov_b32 m0, 0" },
    { P9, WIDE_STORE, 0, 4, 0, "global_store_dwordx4 v1, v[40:43], s[2:3]" },
    { P9, WIDE_STORE, 0, 3, 0, "flat_store_dwordx3 v[80:81], v[40:42]" },
    { P9, WIDE_STORE, 0, 4, 0, "buffer_store_dwordx4 v[40:43], v80, s[12:15], 0 offen" },
    { P9, WIDE_STORE, 0, 4, 0, "global_atomic_cmpswap_x2 v80, v[40:43], s[2:3]" },
    { P9, SETREG, 0, 0, 0, "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 2), 0" },
    { P9, SETREG, 0, 0, 0, "s_setreg_b32 hwreg(HW_REG_MODE, 0, 2), s50" },
    { P9, SETVSKIP, 0, 0, 0, "s_setvskip 0, 0" },
    { P9, SET_MODE_VSKIP, 0, 0, 0, "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 28, 1), 0" },
    { P9, SET_MODE_VSKIP, 0, 0, 0, "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 20, 9), 0" },
    { P9, XDL, 0, 4, 4, "v_mfma_f32_4x4x4f16 v[40:43], v[80:81], v[82:83], v[8:11]" },
    { P90A, XDL, 2, 4, 4, "v_mfma_f32_16x16x16f16 v[40:43], v[80:81], v[82:83], v[8:11]" },
    { P90A, XDL, 2, 4, 4, "v_mfma_f32_16x16x4f32 v[40:43], v80, v82, v[8:11]" },
    { P90A, XDL, 3, 16, 16, "v_mfma_f32_32x32x8f16 v[40:55], v[80:81], v[82:83], v[8:23]" },
    { P94, XDL, 1, 4, 4, "v_mfma_f32_16x16x16f16 v[40:43], v[80:81], v[82:83], v[8:11]" },
    { P942, XDL, 1, 4, 4, "v_mfma_f32_16x16x8_xf32 v[40:43], v[80:81], v[82:83], v[8:11]" },
    { P94, XDL, 1, 4, 0, "v_smfmac_f32_16x16x32_f16 v[40:43], v[80:81], v[84:87], v30" },
    { P94, XDL, 2, 16, 16, "v_mfma_f32_32x32x8f16 v[40:55], v[80:81], v[82:83], v[8:23]" },
    { P94, XDL, 2, 16, 16, "v_mfma_f32_16x16x4f16 v[40:55], v[80:81], v[82:83], v[8:23]" },
    { P94, XDL, 3, 32, 32, "v_mfma_f32_32x32x4f16 v[40:71], v[80:81], v[82:83], v[8:39]" },
    { P94, SGEMM, 0, 4, 4, "v_mfma_f32_4x4x1f32 v[40:43], v80, v81, v[8:11]" },
    { P94, SGEMM, 2, 4, 4, "v_mfma_f32_16x16x4f32 v[40:43], v80, v81, v[8:11]" },
    { P94, SGEMM, 3, 16, 16, "v_mfma_f32_32x32x2f32 v[40:55], v80, v81, v[8:23]" },
    { P9, DGEMM4, 1, 2, 2, "v_mfma_f64_4x4x4f64 v[40:41], v[80:81], v[82:83], v[8:9]" },
    { P950, XDL, 1, 4, 4,
      ".long 0xd3d40028, 0x0422a950" }, /* v_mfma_f32_16x16x32_f16 v[40:43], v[80:83], v[84:87], v[8:11] */
    { P950, XDL, 2, 16, 16,
      ".long 0xd3b80028, 0x0422a950" }, /* v_mfma_i32_32x32x32_i8 v[40:55], v[80:83], v[84:87], v[8:23] */
    { P950, XDL, 1, 4, 4, ".long 0xd3ad0428, 0x8422a950" }, /* v_mfma_f32_16x16x128_f8f6f4 of fp4, the same registers */
    { P950, XDL, 2, 4, 4, ".long 0xd3ad0028, 0x8422a950" }, /* of fp8 and fp4 */
    { P950, XDL, 3, 16, 16, ".long 0xd3ae0428, 0x0422a950" }, /* v_mfma_f32_32x32x64_f8f6f4 v[40:55], of fp4 and fp8 */
    { P950, PART, 0, 1, 0, ".long 0xd24c0028, 0x0002a350" },  /* v_cvt_scalef32_pk_fp4_f16 v40, v80, v81 */
    { P950, PART, 0, 1, 0,
      ".long 0xd2422028, 0x054aa350" }, /* v_cvt_scalef32_sr_fp8_f16 v40, v80, v81, v82 op_sel:[0,0,1,0] */
    { P950, DGEMM16, 3, 8, 8, "v_mfma_f64_16x16x4f64 v[40:47], v[80:81], v[82:83], v[8:15]" },
    { P90A | P942, DGEMM16, 2, 8, 8, "v_mfma_f64_16x16x4f64 v[40:47], v[80:81], v[82:83], v[8:15]" },
};
#define N_MAKERS (int)(sizeof(makers) / sizeof(makers[0]))

/* %d: the register, its last of `words`. `even`: it must be. */
static const struct minder {
    int archs;
    int need;
    int words, operand; /* operand: 'v', 's', or 0: names none of the maker's registers */
    const char *text;
} minders[] = {
    { P9, LANE_SELECT, 1, 's', "v_readlane_b32 s60, v90, s%d" },
    { P9, LANE_SELECT, 1, 's', "v_writelane_b32 v90, 1, s%d" },
    { P9, DIV_FMAS, 0, 'c', "v_div_fmas_f32 v90, v91, v92, v93" },
    { P9, MEM_SGPR, 2, 's', "global_load_dword v90, v91, s[%d:%d]\ns_waitcnt vmcnt(0)" },
    { P9, MEM_SGPR, 1, 's', "buffer_load_dword v90, v91, s[12:15], s%d offen\ns_waitcnt vmcnt(0)" },
    { P9, DPP_VGPR, 1, 'v', "v_mov_b32_dpp v90, v%d quad_perm:[0,1,2,3] row_mask:0xf bank_mask:0xf" },
    { P9, DPP_ANY, 0, 0, "v_mov_b32_dpp v90, v91 quad_perm:[0,1,2,3] row_mask:0xf bank_mask:0xf" },
    { P9, VCCZ, 0, 'c', "v_mov_b32 v90, src_vccz" },
    { P9, EXECZ, 0, 0, "v_mov_b32 v90, src_execz" },
    { P9, M0_USER, 0, 0, "s_movrels_b32 s60, s61" },
    { P9, M0_USER, 0, 0, "s_sendmsg sendmsg(MSG_INTERRUPT)" },
    { P9, M0_LDS_DMA, 0, 0, "buffer_load_dword v90, s[12:15], 0 offen lds\ns_waitcnt vmcnt(0)" },
    { P94, M0_LDS_DMA, 0, 0, "global_load_lds_dword v90, s[2:3]\ns_waitcnt vmcnt(0)" },
    { P9, WRITES_VGPR, 1, 'v', "v_mov_b32 v%d, 0" },
    { P9, WRITES_VGPR, 4, 'm', "v_mfma_f32_4x4x4f16 v[%d:%d], v[92:93], v[94:95], 0" },
    { P9, HWREG, 0, 0, "s_getreg_b32 s60, hwreg(HW_REG_MODE)" },
    { P9, HWREG, 0, 0, "s_setreg_b32 hwreg(HW_REG_MODE, 4, 2), s60" },
    { P9, GETREG_MODE, 0, 0, "s_getreg_b32 s60, hwreg(HW_REG_MODE)" },
    { P9, VECTOR, 0, 0, "v_mov_b32 v90, 0" },
    { P9, VECTOR, 0, 0, "global_load_dword v90, v91, s[2:3]\ns_waitcnt vmcnt(0)" },
    { P9, VALU_READS_VGPR, 1, 'v', "v_mov_b32 v90, v%d" },
    { P9, VALU_READS_VGPR, 1, 'v', "v_add_f32 v90, v91, v%d" },
    { P9, VALU_READS_VGPR, 1, 'v', "v_cmp_eq_u32 vcc, v91, v%d" },
    { P9, NOT_TRANS_READS_VGPR, 1, 'v', "v_mov_b32 v90, v%d" },
    { P9, VALU_READS_SGPR, 1, 's', "v_mov_b32 v90, s%d" },
    { P9, VALU_READS_SGPR, 0, 'c', "v_cndmask_b32 v90, v91, v92, vcc" },
    { P9, VALU_WRITES_VGPR, 1, 'v', "v_mov_b32 v%d, 0" },
    { P9, READLANE, 1, 'v', "v_readlane_b32 s60, v%d, 0" },
    { P9, READLANE, 1, 'v', "v_readfirstlane_b32 s60, v%d" },
    { P9, RWLANE, 0, 0, "v_readlane_b32 s60, v90, 0" },
    { P9, RWLANE, 0, 0, "v_readfirstlane_b32 s60, v90" },
    { P9, RWLANE, 0, 0, "v_writelane_b32 v90, 1, 0" },
    { P9, MEM_VGPR, 1, 'v', "global_store_dword v91, v%d, s[2:3]" },
    { P9, MEM_VGPR, 1, 'v', "ds_write_b32 v91, v%d" },
    { P9, MEM_VGPR, 1, 'v', "global_load_dword v90, v%d, s[2:3]\ns_waitcnt vmcnt(0)" },
    { P9, MFMA_ANY, 0, 0, "v_mfma_f32_4x4x4f16 v[96:99], v[92:93], v[94:95], 0" },
    { P9, MFMA_ANY, 0, 0, "v_mfma_f64_4x4x4f64 v[96:97], v[92:93], v[94:95], 0" },
    { P9, MFMA_VGPR, 2, 'v', "v_mfma_f32_4x4x4f16 v[96:99], v[%d:%d], v[94:95], 0" },
    { P9, MFMA_VGPR, 2, 'v', "v_mfma_f32_4x4x4f16 v[96:99], v[92:93], v[%d:%d], 0" },
    { P9, MFMA_VGPR, 4, 'v', "v_mfma_f32_4x4x4f16 v[96:99], v[92:93], v[94:95], v[%d:%d]" },
    { P9, MFMA_AB, 2, 'v', "v_mfma_f32_16x16x16f16 v[96:99], v[%d:%d], v[94:95], 0" },
    { P9, MFMA_AB, 2, 'v', "v_mfma_f32_4x4x4f16 v[96:99], v[92:93], v[%d:%d], 0" },
    { P9, MFMA_AB, 1, 'v', "v_mfma_f32_4x4x1f32 v[96:99], v%d, v94, 0" },
    { P9, MFMA_AB, 2, 'v', "v_mfma_f64_4x4x4f64 v[96:97], v[92:93], v[%d:%d], 0" },
    { P94, MFMA_AB, 2, 'v', "v_smfmac_f32_16x16x32_f16 v[96:99], v[%d:%d], v[92:95], v100" },
    { P94, MFMA_AB, 1, 'v', "v_smfmac_f32_16x16x32_f16 v[96:99], v[94:95], v[104:107], v%d" }, /* the index */
    { P9, XDL_C, 4, 'v', "v_mfma_f32_16x16x16f16 v[96:99], v[92:93], v[94:95], v[%d:%d]" },
    { P94, XDL_C, 4, 'v', "v_smfmac_f32_16x16x32_f16 v[%d:%d], v[92:93], v[104:107], v100" },
    { P94, SGEMM_C, 4, 'v', "v_mfma_f32_4x4x1f32 v[96:99], v92, v94, v[%d:%d]" },
    { P9, DGEMM_C, 2, 'v', "v_mfma_f64_4x4x4f64 v[96:97], v[92:93], v[94:95], v[%d:%d]" },
    { P9, DGEMM_C, 8, 'v', "v_mfma_f64_16x16x4f64 v[104:111], v[92:93], v[94:95], v[%d:%d]" },
    { P950, SWAP_VGPR, 1, 'v', ".long 0x7e00b300 | 23 << 17 | %d" }, /* v_permlane16_swap_b32 v23, v%d */
    { P950, SWAP_VGPR, 1, 'v', ".long 0x7e00b500 | %d << 17 | 23" }, /* v_permlane32_swap_b32 v%d, v23 */
    { P950, SWAP_ANY, 0, 0, ".long 0x7eb4b35b" },                    /* v_permlane16_swap_b32 v90, v91 */
    { P9, FMA64, 0, 0, "v_fma_f64 v[96:97], v[92:93], v[94:95], v[100:101]" },
    { P9, FMA64, 0, 0, "v_fmac_f64 v[96:97], v[92:93], v[94:95]" },
};
#define N_MINDERS (int)(sizeof(minders) / sizeof(minders[0]))

#define SETUP "v_mov_b32 v71, 0\ns_mov_b64 exec, 0\ns_mov_b64 s[50:51], 0\ns_mov_b32 s60, 0\ns_nop 15\ns_nop 15\n"

static const char *nops(int n)
{
    return n <= 0 ? "" : n <= 16 ? text("s_nop %d\n", n - 1) : text("s_nop 15\ns_nop %d\n", n - 17);
}

/* What the minder says with its register at `reg`. */
static const char *minder_text(const struct minder *d, int reg)
{
    char t[200];
    ck_assert_ptr_nonnull(d->text);
    snprintf(t, sizeof(t), d->text, reg, reg + d->words - 1);
    return text("%s", t);
}

static void add_pair(struct pairs *p, const struct want *w, const char *rule, const char *first, const char *then,
                     const char *apart, int need)
{
    const char *between = w->how & DGEMM_SINCE ? "v_mfma_f64_4x4x4f64 v[96:97], v[92:93], v[94:95], 0\n" : "";
    int more = w->how & DGEMM_SINCE ? 1 : 0;
    struct pair pair = { .archs = 1 << p->arch,
                         .rule = rule,
                         .check = "hazard",
                         .says = text("%s: after '", w->says),
                         .groups = w->how & STRICT ? "strict" : "hazards",
                         .bad = text(SETUP "%s\n%s%s%s", first, between, nops(need - 1 - more), then),
                         .good = text(SETUP "%s\n%s%s%s", first, between, nops(need - more), then) };
    pair_add(p, &pair);
    /* the counts, too */
    pair.says = text(" %d wait states are needed, there are %d;", need, need - 1);
    pair.good = apart ? text(SETUP "%s\n%s%s", first, between, apart) : NULL; /* other registers: at once */
    pair_add(p, &pair);
    if (w->how & STRICT) { /* not of the usual ones */
        pair.good = pair.bad;
        pair.bad = NULL;
        pair.groups = "hazards";
        pair_add(p, &pair);
    }
}

/* One maker and one minder: the first and the last register that may be in common, or just the same ones. */
static void combine(struct pairs *p, const struct want *w, const struct maker *k, const struct minder *d,
                    const char *rule, int need)
{
    int from = w->how & READ_AS_C ? 8 : 40, words = w->how & READ_AS_C ? k->c : k->words;
    const char *first = k->text, *apart;
    if (w->how & READ_AS_C && !k->c)
        return;
    switch (d->operand) {
    case 0:
        add_pair(p, w, rule, first, d->text, NULL, need);
        return;
    case 'c':
        add_pair(p, w, rule, "v_cmp_eq_u32 vcc, v80, v81", d->text, NULL, need);
        return;
    case 's':
        apart = minder_text(d, 50);
        for (int r = from; r + d->words <= from + words; r++)
            if (d->words == 1 || r == from)
                add_pair(p, w, rule, first, minder_text(d, r), apart, need);
        return;
    default:
        break;
    }
    int even = d->words > 1; /* gfx90a: tuples begin at even registers */
    apart = minder_text(d, 112);
    if (w->how & EXACT) {
        if (words == d->words)
            add_pair(p, w, rule, first, minder_text(d, from), apart, need);
        return;
    }
    int lowest = from - d->words + 1 + (even && d->words % 2 == 0),
        highest = from + words - 1 - (even && words % 2 == 0);
    for (int n = 0; n < 2; n++) {
        int r = n ? highest : lowest;
        bool exact = r == from && d->words == words;
        if (r < 0 || (n && r == lowest) || (w->how & OVERLAP && exact) || (even && r % 2))
            continue;
        /* right beside them: not concerned */
        add_pair(p, w, rule, first, minder_text(d, r),
                 minder_text(d, n && from == 40 ? from + words + (even && words % 2) : 112), need);
    }
}

static void pairs_gfx9(struct pairs *p)
{
    for (int n = 0; n < N_WANTS; n++) {
        const struct want *w = &wants[n];
        if (!(w->archs >> p->arch & 1))
            continue;
        for (int k = 0; k < N_MAKERS; k++)
            for (int d = 0; d < N_MINDERS; d++)
                if (makers[k].makes & w->makes && makers[k].archs >> p->arch & 1 && minders[d].need == w->need &&
                    minders[d].archs >> p->arch & 1 && w->wait[makers[k].passes])
                    combine(p, w, &makers[k], &minders[d],
                            text("%s, how %d, %d passes", w->says, w->how, 2 << makers[k].passes),
                            w->wait[makers[k].passes]);
    }
}

/* Is there a pair for each rule, each sort of instruction that it names, each number of passes that such an instruction
 * has? */
static int bit_of(int arch)
{
    return arch == 0 ? G90A : arch == 1 ? G942 : G950;
}
static void every_rule_has_one(const struct pairs *p)
{
    int shape = EXACT | OVERLAP | READ_AS_C | DGEMM_SINCE | STRICT, rules = 0;
    for (const struct emu_hazard_rule *r = emu_hazard_rules; r < emu_hazard_rules + emu_n_hazard_rules; r++)
        for (int k = 0; k < N_MAKERS; k++) {
            uint32_t makes = makers[k].makes & r->makes;
            int passes = makers[k].passes, found = 0;
            if (!makes || !(r->how & bit_of(p->arch)) || !(makers[k].archs >> p->arch & 1) || !r->wait[passes])
                continue;
            for (int n = 0; n < N_WANTS; n++) {
                const struct want *w = &wants[n];
                const char *rule = text("%s, how %d, %d passes", w->says, w->how, 2 << passes);
                if (w->need != r->need || !(w->makes & makes) || !(w->archs >> p->arch & 1) ||
                    ((w->how ^ r->how) & shape) || !w->wait[passes])
                    continue;
                for (int i = 0; i < p->n; i++)
                    found += p->pair[i].bad && p->pair[i].good && !strcmp(p->pair[i].rule, rule);
            }
            ck_assert_msg(found, "no pair for the hazard '%s' after '%s'", r->text, makers[k].text);
            rules++;
        }
    ck_assert_int_gt(rules, 60);
}

/* ---- what the table can't say ------------------------------------------------------------------------------------ */

#define MFMA_8  "v_mfma_f32_16x16x16f16 v[40:43], v[44:45], v[46:47], v[48:51]" /* gfx90a: 8 passes, gfx942: 4 */
#define READ    "v_mov_b32 v56, v40"
#define MOV     "v_mov_b32 v60, 0\n"
#define DEPCTR  "s_waitcnt_depctr "
#define WMMA    "v_wmma_f32_16x16x16_f16 v[40:47], v[50:57], v[60:67], v[40:47]"
#define MASK    "reads an SGPR that a SALU instruction wrote after a VALU one read it as a lane mask"
#define EXECS   "reads one VGPR from before and one from after a SALU write of EXEC"
#define TRANS11 "reads a transcendental's result"

/* Before the difference, bad and good, after it. */
static const struct special {
    int archs;
    const char *says, *before, *bad, *good, *after;
} specials[] = {
    /* A chain of one dot instruction forwards its sum, and only that. */
    { P9, "dot instruction wrote a VGPR that is read", "v_dot2_f32_f16 v40, v41, v42, v43",
      "v_dot2_f32_f16 v44, v40, v42, v43", "v_dot2_f32_f16 v44, v41, v42, v40", "" },
    { P9, "dot instruction wrote a VGPR that is read", "v_dot2_f32_f16 v40, v41, v42, v43",
      "v_dot4_i32_i8 v44, v41, v42, v40", "v_dot2_f32_f16 v44, v41, v42, v40", "" },
    { P9, "that is overwritten", "v_dot2_f32_f16 v40, v41, v42, v43", "v_dot4_i32_i8 v40, v44, v45, v46",
      "v_dot2_f32_f16 v40, v44, v45, v46", "" },
    /* A transcendental may read another's result. */
    { P942, "a transcendental wrote", "v_rcp_f32 v40, v41", READ, "v_rcp_f32 v42, v40", "" },
    /* DPP moves its source 0 alone. */
    { P9, "that DPP reads", "v_mov_b32 v40, 1",
      "v_add_f32_dpp v41, v40, v42 quad_perm:[0,1,2,3] row_mask:0xf bank_mask:0xf",
      "v_add_f32_dpp v41, v42, v40 quad_perm:[0,1,2,3] row_mask:0xf bank_mask:0xf", "" },
    /* The lane select is operand 2 of v_readlane; what v_writelane writes is none. */
    { P9, "wrote the lane select", "v_readfirstlane_b32 s40, v40", "v_writelane_b32 v41, 1, s40",
      "v_writelane_b32 v41, s40, 1", "" },
    /* Another hardware register; another one of its fields is the same one. */
    { P9, "same hardware register", "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 2), 0",
      "s_getreg_b32 s40, hwreg(HW_REG_MODE, 4, 4)", "s_getreg_b32 s40, hwreg(HW_REG_TRAPSTS)", "" },
    { P9, "wrote MODE.vskip", "", "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 27, 2), 0",
      "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 27, 1), 0", "v_mov_b32 v40, 0" },
    /* Stores of 64 bits, and buffer ones with an SGPR as offset, leave the time. */
    { P9, "overwrites the data", "", "global_store_dwordx3 v1, v[40:42], s[2:3]",
      "global_store_dwordx2 v1, v[40:41], s[2:3]", "v_mov_b32 v40, 0" },
    { P9, "overwrites the data", "", "buffer_store_dwordx4 v[40:43], v80, s[12:15], 0 offen",
      "buffer_store_dwordx4 v[40:43], v80, s[12:15], s50 offen", "v_mov_b32 v40, 0" },
    /* Forwarded whole; of gfx942's only those of more than 2 passes. */
    { P9, "part of what an MFMA", MFMA_8, "v_mfma_f32_16x16x16f16 v[42:45], v[60:61], v[62:63], v[42:45]",
      "v_mfma_f32_16x16x16f16 v[40:43], v[60:61], v[62:63], v[40:43]", "" },
    { P942, "2 passes", "v_mfma_f32_4x4x1f32 v[40:43], v44, v45, 0", "s_nop 0", "s_nop 1",
      "v_mfma_f32_4x4x1f32 v[40:43], v46, v47, v[40:43]" },
    /* Between an MFMA and the next another one takes its passes: the time is counted. */
    { P90A, "there are 10;", MFMA_8 "\nv_mfma_f32_4x4x4f16 v[96:99], v[92:93], v[94:95], 0\nv_mov_b32 v60, 0",
      "s_nop 0", "s_nop 1", READ },
    { P942, "there are 6;", MFMA_8 "\nv_mfma_f32_4x4x4f16 v[96:99], v[92:93], v[94:95], 0\nv_mov_b32 v60, 0", "s_nop 0",
      "s_nop 1", READ },
    /* Any instruction is a wait state, a branch that is taken 4, one that isn't 1. */
    { P90A, "there are 10;", MFMA_8 "\ns_branch 1f\ns_nop 15\n1:", "s_nop 5", "s_nop 6", READ },
    { P90A, "there are 10;", MFMA_8 "\ns_cmp_eq_u32 s50, s50\ns_cbranch_scc0 1f\n1:", "s_nop 7", "s_nop 8", READ },
    { P90A, "there are 10;", MFMA_8 "\ns_mov_b32 s50, 0\nds_read_b32 v70, v71\ns_waitcnt lgkmcnt(0)", "s_nop 6",
      "s_nop 7", READ },
    /* Through AGPRs. */
    { P90A, "a VALU instruction reads", "v_mfma_f32_16x16x16f16 a[0:3], v[44:45], v[46:47], 0", "s_nop 9", "s_nop 10",
      "v_accvgpr_read_b32 v40, a3" },
    { P9, "overwrites an MFMA's operand C", "v_mfma_f32_4x4x4f16 a[4:7], v[44:45], v[46:47], a[0:3]", "", "s_nop 0",
      "v_accvgpr_write_b32 a2, v60" },
    { P9, "MFMA reads", "v_accvgpr_write_b32 a2, v60", "s_nop 0", "s_nop 1",
      "v_mfma_f32_4x4x4f16 a[4:7], v[44:45], v[46:47], a[0:3]" },
    /* Of two MFMAs that wrote the register the nearer counts. */
    { P90A, "there are 4;", MFMA_8 "\ns_nop 15\nv_mfma_f32_4x4x4f16 v[40:43], v[92:93], v[94:95], 0", "s_nop 3",
      "s_nop 4", READ },

    /* VALUTransUse */
    { P11 | P11W64, TRANS11, "v_rcp_f32 v40, v41", MOV MOV MOV MOV MOV, MOV MOV MOV MOV MOV MOV, READ },
    { P11, TRANS11, "v_rcp_f32 v40, v41", "v_rcp_f32 v60, v61", "v_rcp_f32 v60, v61\nv_rcp_f32 v62, v63", READ },
    { P11, TRANS11, "v_rcp_f32 v40, v41", "s_nop 15", DEPCTR "0xfff", READ },
    { P11, TRANS11, "v_rcp_f32 v40, v41", DEPCTR "0x1fff", DEPCTR "0xfff", READ },
    { P11, TRANS11, "v_rcp_f32 v40, v41", "s_mov_b32 s50, 0", "ds_load_b32 v70, v71\ns_waitcnt lgkmcnt(0)", READ },
    { P11, TRANS11, "v_rcp_f32 v40, v41", "s_load_b32 s50, s[2:3], 0\ns_waitcnt lgkmcnt(0)",
      "global_store_b32 v71, v70, s[2:3]", READ },
    { P11, TRANS11, "v_rcp_f32 v40, v41", READ, "v_mov_b32 v56, v42", "" },
    { P11, TRANS11, "v_sqrt_f32 v40, v41", "v_mov_b32 v56, v40", "v_mov_b32 v40, v56", "" }, /* overwriting is none */
    { P11, TRANS11, "v_exp_f32 v40, v41",
      "v_dual_mov_b32 v57, v60 :: v_dual_mov_b32 v58, v61\n" MOV MOV MOV MOV, /* a pair is one */
      "v_dual_mov_b32 v57, v60 :: v_dual_mov_b32 v58, v61\n" MOV MOV MOV MOV MOV, READ },
#define TRANS11_1(n) { P11, TRANS11, n " v40, v41", "", DEPCTR "0xfff", READ },
#define TRANS11_2(n) { P11, TRANS11, n " v[40:41], v[42:43]", "", DEPCTR "0xfff", "v_mov_b32 v56, v41" },
    EVERY_TRANS(TRANS11_1, TRANS11_2)
    /* WMMA */
    { P11, "reads a WMMA's result as A or B", WMMA, "s_nop 15", "v_nop",
      "v_wmma_f32_16x16x16_f16 v[70:77], v[40:47], v[80:87], v[70:77]" },
    { P11, "reads a WMMA's result as A or B", WMMA, "s_nop 15", MOV,
      "v_wmma_f32_16x16x16_f16 v[70:77], v[80:87], v[40:47], v[70:77]" },
    { P11, "reads a WMMA's result as A or B", WMMA, "v_wmma_f32_16x16x16_f16 v[70:77], v[47:54], v[80:87], v[70:77]",
      "v_wmma_f32_16x16x16_f16 v[70:77], v[48:55], v[80:87], v[70:77]", "" },
    { P11, "reads a WMMA's result as A or B", WMMA, "v_wmma_f32_16x16x16_f16 v[70:77], v[50:57], v[40:47], v[70:77]",
      WMMA, "" },
    /* VcmpxPermlane */
    { P11, "v_cmpx wrote EXEC before v_permlane", "v_cmpx_eq_u32 v40, v40", "v_nop", MOV,
      "v_permlane16_b32 v41, v42, s40, s41" },
    { P11, "v_cmpx wrote EXEC before v_permlane", "v_cmpx_eq_f32 v40, v40", "s_nop 15", MOV,
      "v_permlanex16_b32 v41, v42, s40, s41" },
    { P11W64, "v_cmpx wrote EXEC before v_permlane", "v_cmpx_eq_f32 v40, v40", "", MOV, "v_permlane64_b32 v41, v42" },
    { P11, "v_cmpx wrote EXEC before v_permlane", "", "v_cmpx_eq_u32 v40, v40", "v_cmp_eq_u32 vcc_lo, v40, v40",
      "v_permlane16_b32 v41, v42, s40, s41" },
    /* MSG_DEALLOC_VGPRS */
    { P11, "gives the VGPRs back", "v_mov_b32 v40, 0", "s_mov_b32 s40, 0", "s_nop 0",
      "s_sendmsg sendmsg(MSG_DEALLOC_VGPRS)" },
    { P11, "gives the VGPRs back", "s_nop 0", "v_mov_b32 v40, 0", "s_nop 0", "s_sendmsg sendmsg(MSG_DEALLOC_VGPRS)" },
    { P11, "gives the VGPRs back", "s_mov_b32 m0, 0", "s_sendmsg sendmsg(MSG_DEALLOC_VGPRS)",
      "s_sendmsg sendmsg(MSG_INTERRUPT)", "" },
/* VALUPartialForwarding */
#define PARTIAL(b, g)                                                                                                  \
    {                                                                                                                  \
        P11W64, EXECS, "", b, g, "v_add_nc_u32 v42, v40, v41"                                                          \
    }
#define BEFORE "v_mov_b32 v40, 0\n"
#define EXEC   "s_mov_b64 exec, -1\n"
#define AFTER  "v_mov_b32 v41, 0\n"
    PARTIAL(BEFORE EXEC AFTER, BEFORE EXEC AFTER DEPCTR "0xfff"),
    PARTIAL(BEFORE EXEC AFTER, BEFORE AFTER EXEC),
    PARTIAL(BEFORE EXEC AFTER, EXEC BEFORE AFTER),
    PARTIAL(BEFORE EXEC AFTER, BEFORE "s_mov_b64 s[50:51], -1\n" AFTER),
    PARTIAL(BEFORE EXEC AFTER MOV MOV MOV MOV, BEFORE EXEC AFTER MOV MOV MOV MOV MOV),
    PARTIAL(BEFORE MOV MOV EXEC AFTER, BEFORE MOV MOV MOV EXEC AFTER),
    PARTIAL(BEFORE MOV EXEC MOV AFTER, BEFORE MOV EXEC MOV MOV AFTER),
    PARTIAL(BEFORE EXEC AFTER "s_nop 15\n", BEFORE EXEC AFTER "ds_load_b32 v70, v71\n"),
    PARTIAL(AFTER "s_or_b64 exec, exec, exec\n" BEFORE, AFTER BEFORE),
    { P11W64, EXECS, BEFORE EXEC AFTER, "v_add_nc_u32 v42, v40, v41", "v_add_nc_u32 v42, v41, v41", "" },
/* VALUMaskWrite */
#define CNDMASK "v_cndmask_b32 v40, v41, v42, s[40:41]"
#define WRITES  "s_mov_b64 s[40:41], 0\n"
    { P11W64, MASK, CNDMASK "\n" WRITES, "s_nop 15", DEPCTR "0xfffe", "s_mov_b64 s[42:43], s[40:41]" },
    { P11W64, MASK, CNDMASK, "v_mov_b32 v44, v45", "v_mov_b32 v44, s50", WRITES "v_mov_b32 v43, s40" },
    { P11W64, MASK, CNDMASK, "v_mov_b32 v44, 1", "v_mov_b32 v44, 0x12345678", WRITES "v_mov_b32 v43, s40" },
    { P11W64, MASK, CNDMASK, "s_mov_b32 s41, 0", "s_mov_b32 s42, 0", "s_mov_b32 s44, s41" },
    { P11W64, MASK, CNDMASK "\ns_mov_b32 s41, 0", "s_mov_b32 s44, s41", "s_mov_b32 s44, s42", "" },
    { P11W64, MASK, CNDMASK "\ns_mov_b32 s41, 0", "s_mov_b32 s44, s41", "buffer_load_dword v44, off, s[12:15], s41",
      "s_waitcnt vmcnt(0)" },
    { P11W64, MASK, "", "v_cndmask_b32 v40, v41, v42, vcc", "v_cndmask_b32 v40, v41, v42, s[42:43]",
      "s_mov_b64 vcc, 0\ns_mov_b64 s[44:45], vcc" },
    { P11W64, MASK, "", "v_div_fmas_f32 v40, v41, v42, v43", "v_add_f32 v40, v41, v42",
      "s_mov_b64 vcc, 0\ns_mov_b64 s[44:45], vcc" },
    { P11W64, MASK, "", "v_add_co_ci_u32 v40, vcc, v41, v42, vcc", "v_mov_b32 v40, v41",
      "s_mov_b64 vcc, 0\ns_mov_b64 s[44:45], vcc" },
    { P11W64, MASK, "", "v_sub_co_ci_u32 v40, s[46:47], v41, v42, s[40:41]", "v_mov_b32 v40, v41",
      WRITES "s_mov_b64 s[44:45], s[40:41]" },
    { P11W64, MASK, "", "v_subrev_co_ci_u32 v40, s[46:47], v41, v42, s[40:41]", "v_mov_b32 v40, v41",
      WRITES "s_mov_b64 s[44:45], s[40:41]" },
    { P11W64, MASK, CNDMASK "\n" WRITES, "s_cselect_b32 s44, s40, s46", "s_cselect_b32 s44, s46, s48", "" },
    /* In wave32 there are neither. */
    { P11, NULL, "", NULL, "v_cndmask_b32 v40, v41, v42, s40\ns_mov_b32 s40, 0\ns_mov_b32 s42, s40", "" },
    { P11, NULL, "", NULL, BEFORE "s_mov_b32 exec_lo, -1\n" AFTER "v_add_nc_u32 v42, v40, v41", "" },
};

/* Each of them. */
static void pairs_transcendentals(struct pairs *p)
{
    static const char *const names[] = { "exp_f32", "log_f32", "rcp_f32", "rcp_iflag_f32", "rsq_f32",  "sqrt_f32",
                                         "sin_f32", "cos_f32", "rcp_f16", "rsq_f16",       "sqrt_f16", "exp_f16",
                                         "log_f16", "sin_f16", "cos_f16", "rcp_f64",       "rsq_f64",  "sqrt_f64" };
    for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++) {
        bool wide = strstr(names[k], "f64");
        const char *first = text(SETUP "v_%s %s, %s\n", names[k], wide ? "v[40:41]" : "v40", wide ? "v[42:43]" : "v42");
        const char *reads = wide ? "v_mov_b32 v50, v41" : "v_mov_b32 v50, v40";
        pair_add(p, &(struct pair){ .archs = P942,
                                    .rule = text("v_%s is read", names[k]),
                                    .check = "hazard",
                                    .says = "a transcendental wrote a VGPR that is read",
                                    .groups = "hazards",
                                    .bad = text("%s%s", first, reads),
                                    .good = text("%ss_nop 0\n%s", first, reads) });
        pair_add(p, &(struct pair){ .archs = P11 | P11W64,
                                    .rule = text("v_%s is read", names[k]),
                                    .check = "hazard",
                                    .says = TRANS11,
                                    .groups = "hazards",
                                    .bad = text("%s%s", first, reads),
                                    .good = text("%s" DEPCTR "0xfff\n%s", first, reads) });
        /* What goes by the memory's way waits for the results of the vector ALU. */
        pair_add(p, &(struct pair){ .archs = P11 | P11W64,
                                    .rule = text("v_%s is read, caches invalidated", names[k]),
                                    .check = "hazard",
                                    .says = TRANS11,
                                    .groups = "hazards",
                                    .bad = text("%ss_nop 7\n%s", first, reads),
                                    .good = text("%sbuffer_gl%zu_inv\n%s", first, k & 1, reads) });
    }
}

void pairs_hazards(struct pairs *p)
{
    if (p->arch < 2 || p->arch == 5) {
        pairs_gfx9(p);
        every_rule_has_one(p);
    }
    pairs_transcendentals(p);
    for (size_t k = 0; k < sizeof(specials) / sizeof(specials[0]); k++) {
        const struct special *s = &specials[k];
        pair_add(p, &(struct pair){ .archs = s->archs,
                                    .rule = s->says ? s->says : "wave32 has none",
                                    .check = "hazard",
                                    .says = s->says,
                                    .groups = "hazards",
                                    .bad = s->bad ? text(SETUP "%s\n%s\n%s", s->before, s->bad, s->after) : NULL,
                                    .good = text(SETUP "%s\n%s\n%s", s->before, s->good, s->after) });
    }
}
