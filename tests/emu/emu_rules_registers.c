/* SPDX-License-Identifier: MIT
 *
 * Uninitialised values: every place where they may end, and every way there. */
#include "emu_rules.h"

/* v1: 4 * the work-item, v2: 0, v[4:5]: data, s[12:15]: a buffer over data. Known where KNOWN is said before, else
 * unknown, for all that are 0 (or data's address): v[20:21]: 0; v[22:23]: data; s20: 0; s[22:23]: data. */
#define BEGIN                                                                                                          \
    "v_lshlrev_b32 v1, 2, v0\nv_mov_b32 v2, 0\nv_mov_b32 v3, 0\nv_mov_b32 v4, s2\nv_mov_b32 v5, s3\ns_mov_b32 s12, "   \
    "s2\n"                                                                                                             \
    "s_and_b32 s13, s3, 0xffff\ns_mov_b32 s14, 0x10000\n.if GFX < 0x1000\ns_mov_b32 s15, 0x27000\n.else\n"             \
    "s_mov_b32 s15, 0x31016000\n.endif\n"
#define KNOWN                                                                                                          \
    "v_mov_b32 v20, -1\nv_mov_b32 v21, -1\nv_mov_b32 v22, -1\nv_mov_b32 v23, -1\ns_mov_b32 s20, 0xffffdead\n"          \
    "s_mov_b32 s22, s20\ns_mov_b32 s23, s20\n"
/* What nobody wrote the emulator fills with ones, scalars with 0xffffdead. */
#define ZERO                                                                                                           \
    "v_not_b32 v20, v20\nv_not_b32 v21, v21\nv_not_b32 v22, v22\nv_or_b32 v22, s2, v22\nv_not_b32 v23, v23\n"          \
    "v_or_b32 v23, s3, v23\ns_xor_b32 s20, s20, 0xffffdead\ns_xor_b32 s22, s22, 0xffffdead\ns_or_b32 s22, s22, s2\n"   \
    "s_xor_b32 s23, s23, 0xffffdead\ns_or_b32 s23, s23, s3\n"
#define KEEP  "global_store_dword v1, v30, s[2:3]\n" /* where v30 ends */
#define KEEP1 "global_store_dword v1, v31, s[2:3]\n"
#define MADE  "v_xor_b32 v30, v2, v30\n" KEEP /* ... and is no copy */
#define MADE1 "v_xor_b32 v31, v2, v31\n" KEEP1
#define VM    "s_waitcnt vmcnt(0)\n"
#define LGKM  "s_waitcnt lgkmcnt(0)\n"
#define HALF  "LANES 15\n" /* of the lanes */
#define ALL   "LANES -1\n"

/* Bad without KNOWN, good with it. */
static const struct sink {
    int archs;
    const char *says, *text;
} sinks[] = {
    /* ends */
    { PALL, "v20 was never written", "global_store_dword v1, v20, s[2:3]" },
    { PALL, "v20 was never written", "global_store_dword v20, v2, s[2:3]" },
    { PALL, "s22 was never written", "global_store_dword v1, v2, s[22:23]" },
    { PALL, "v22 was never written", "global_store_dword v[22:23], v2, off" },
    { PALL, "v21 was never written", "v_mov_b32 v20, 0\nglobal_store_dwordx2 v1, v[20:21], s[2:3]" },
    { PALL, "v20 was never written", "global_load_dword v30, v20, s[2:3]\n" VM },
    { PALL, "s22 was never written", "global_load_dword v30, v1, s[22:23]\n" VM },
    { PALL, "v20 was never written", "global_atomic_add v1, v20, s[2:3]" },
    { PALL, "v20 was never written", "global_atomic_add v20, v2, s[2:3]" },
    { PALL, "v20 was never written", "buffer_store_dword v20, off, s[12:15], 0" },
    { PALL, "v20 was never written", "buffer_store_dword v2, v20, s[12:15], 0 offen" },
    { PALL, "s20 was never written", "buffer_store_dword v2, off, s[12:15], s20" },
    { PALL, "v20 was never written", "buffer_load_dword v30, v20, s[12:15], 0 offen\n" VM },
    { PALL, "v20 was never written", "buffer_atomic_add v20, off, s[12:15], 0" },
    { PALL, "v20 was never written", "flat_store_dword v[4:5], v20" },
    { PALL, "v22 was never written", "flat_store_dword v[22:23], v2" },
    { PALL, "v22 was never written", "flat_load_dword v30, v[22:23]\n" VM LGKM },
    { PALL, "v20 was never written", "flat_atomic_add v[4:5], v20" },
    { P94 | P11, "v20 was never written", "scratch_load_dword v30, v20, off\n" VM },
    { P94 | P11, "v20 was never written", "scratch_store_dword v20, v2, off" },
    { P94 | P11, "s20 was never written", "scratch_store_dword off, v2, s20" },
    { PALL, "v20 was never written", "ds_write_b32 v20, v2" },
    { PALL, "v20 was never written", "ds_read_b32 v30, v20\n" LGKM },
    { PALL, "v20 was never written", "ds_write_b32 v2, v2\nds_add_u32 v2, v20" },
    { PALL, "v20 was never written", "ds_write_b32 v2, v2\nds_add_u32 v20, v2" },
    { PALL, "v20 was never written", "ds_write_b32 v2, v2\nds_add_rtn_u32 v30, v2, v20\n" LGKM },
    { PALL, "s22 was never written", "s_load_dword s30, s[22:23], 0\n" LGKM },
    { PALL, "s20 was never written", "s_load_dword s30, s[2:3], s20\n" LGKM },
    { PALL, "scc was never written", "s_cmp_eq_u32 s20, 0\ns_cbranch_scc0 1f\n1:" },
    { PALL, "scc was never written", "s_add_u32 s30, s20, 1\ns_cbranch_scc0 1f\n1:" },
    { PALL, "vcc_lo was never written",
      ".if WAVE == 64\nv_cmp_eq_u32 vcc, v20, v2\n.else\nv_cmp_eq_u32 vcc_lo, v20, v2\n.endif\ns_cbranch_vccnz "
      "1f\n1:" },
    { PALL, "exec_lo was never written", "s_and_b32 exec_lo, exec_lo, s20" },
    { PALL, "exec_lo was never written",
      "v_mov_b32 v20, v20\n.if GFX < 0x1000\nv_cmpx_eq_u32 vcc, v20, v2\n.else\nv_cmpx_eq_u32 v20, v2\n.endif" },
/* ways */
#define WAY(archs, op)                                                                                                 \
    {                                                                                                                  \
        archs, "was never written", op "\n" KEEP                                                                       \
    }
    WAY(PALL, "v_mov_b32 v30, v20"),
    WAY(PALL, "v_mov_b32 v30, s20"),
    WAY(PALL, "v_add_f32 v30, v20, v2"),
    WAY(PALL, "v_add_f32 v30, v2, v20"),
    WAY(PALL, "v_fma_f32 v30, v2, v2, v20"),
    WAY(PALL, "v_mov_b32 v30, v2\nv_fmac_f32 v30, v2, v20"),
    WAY(PALL, "v_rcp_f32 v30, v20"),
    WAY(PALL, "v_cvt_f32_f64 v30, v[20:21]"),
    WAY(PALL, "v_mov_b32 v20, 0\nv_cvt_f32_f64 v30, v[20:21]"),
    WAY(PALL, "v_readfirstlane_b32 s30, v20\nv_mov_b32 v30, s30"),
    WAY(PALL, "v_readlane_b32 s30, v20, 3\nv_mov_b32 v30, s30"),
    WAY(PALL, "s_add_u32 s30, s20, 1\nv_mov_b32 v30, s30"),
    WAY(PALL, "s_lshl_b64 s[30:31], s[22:23], 1\nv_mov_b32 v30, s30"),
    WAY(PALL, "ds_swizzle_b32 v30, v20 offset:0x1f\n" LGKM),
    WAY(PALL, "ds_bpermute_b32 v30, v2, v20\n" LGKM),
    WAY(PALL, "ds_bpermute_b32 v30, v20, v1\n" LGKM),
    WAY(PALL, "v_mov_b32_dpp v30, v20 row_shr:1 row_mask:0xf bank_mask:0xf bound_ctrl:1"),
    WAY(PALL, ".if WAVE == 64\ns_mov_b64 vcc, 0\nv_cndmask_b32 v30, v20, v2, vcc\n.else\ns_mov_b32 vcc_lo, "
              "0\nv_cndmask_b32 v30, v20, v2, vcc_lo\n.endif"),
    WAY(PALL, ".if WAVE == 64\ns_mov_b64 vcc, -1\nv_cndmask_b32 v30, v2, v20, vcc\n.else\ns_mov_b32 vcc_lo, "
              "-1\nv_cndmask_b32 v30, v2, v20, vcc_lo\n.endif"),
    WAY(PALL, ".if WAVE == 64\ns_mov_b64 s[40:41], -1\nv_cndmask_b32 v30, v2, v20, s[40:41]\n.else\ns_mov_b32 s40, "
              "-1\nv_cndmask_b32 v30, v2, v20, s40\n.endif"),
    WAY(PALL, ".if WAVE == 64\nv_cmp_eq_u32 vcc, v20, v2\nv_cndmask_b32 v30, v2, v1, vcc\n.else\nv_cmp_eq_u32 vcc_lo, "
              "v20, v2\nv_cndmask_b32 v30, v2, v1, vcc_lo\n.endif"),
    WAY(PALL, "s_cmp_eq_u32 s2, s2\ns_cselect_b32 s30, s20, s2\nv_mov_b32 v30, s30"),
    WAY(PALL, "s_cmp_lg_u32 s2, s2\ns_cselect_b32 s30, s2, s20\nv_mov_b32 v30, s30"),
    WAY(P9, "v_accvgpr_write_b32 a4, v20\nv_accvgpr_read_b32 v30, a4"),
    WAY(P9, "v_pk_mul_f32 v[30:31], v[20:21], v[2:3]"),
    WAY(P9, "v_mfma_f32_4x4x4f16 v[30:33], v[20:21], v[2:3], 0"),
    WAY(P9, "v_mfma_f32_4x4x4f16 v[30:33], v[2:3], v[20:21], 0"),
    WAY(P11, "v_dual_mov_b32 v30, v20 :: v_dual_mov_b32 v31, v1"),
    WAY(P11, "v_mov_b32 v29, v2\nv_dual_add_f32 v28, v29, v2 :: v_dual_mov_b32 v31, v20\nv_mov_b32 v30, v31"),
};

/* Bad and good as written, BEGIN and ZERO (of unknown registers) before. */
static const struct pieces {
    int archs, waves, workgroups;
    const char *check, *says, *before, *bad, *good;
} pieces[] = {
#define REGISTER "uninitialised-register"
#define MEMORY   "uninitialised-memory"
#define FRESH    "global_load_dword v30, v1, s[4:5]\n" VM
    /* a selection takes the other */
    { PALL, 1, 1, REGISTER, "v30 was never written", "s_cmp_eq_u32 s2, s2\n",
      "s_cselect_b32 s30, s20, s2\nv_mov_b32 v30, s30\n" KEEP,
      "s_cselect_b32 s30, s2, s20\nv_mov_b32 v30, s30\n" KEEP },
    { PALL, 1, 1, REGISTER, "v30 was never written",
      "LANES 0xf0f0\n.if WAVE == 64\ns_mov_b64 s[40:41], exec\ns_mov_b64 exec, -1\nv_cndmask_b32 v30, v20, v2, "
      "s[40:41]\n.else\ns_mov_b32 s40, exec_lo\ns_mov_b32 exec_lo, -1\nv_cndmask_b32 v30, v20, v2, s40\n.endif\n",
      KEEP, "LANES 0xf0f0\n" KEEP },
    { PALL, 1, 1, REGISTER, "v30 was never written",
      "LANES 0xf0f0\n.if WAVE == 64\ns_mov_b64 s[40:41], exec\ns_mov_b64 exec, -1\nv_cndmask_b32 v30, v2, v20, "
      "s[40:41]\n.else\ns_mov_b32 s40, exec_lo\ns_mov_b32 exec_lo, -1\nv_cndmask_b32 v30, v2, v20, s40\n.endif\n",
      "LANES 0xf0f0\n" KEEP, "LANES 0x0f0f\n" KEEP },
/* logic whose other operand says it all */
#define LOGIC(bad, good)                                                                                               \
    { PALL,                                                                                                            \
      1,                                                                                                               \
      1,                                                                                                               \
      REGISTER,                                                                                                        \
      "v30 was never written",                                                                                         \
      "",                                                                                                              \
      bad "\nv_mov_b32 v30, s30\n" KEEP,                                                                               \
      good "\nv_mov_b32 v30, s30\n" KEEP },
    LOGIC("s_and_b32 s30, s20, 1", "s_and_b32 s30, s20, 0") LOGIC("s_and_b32 s30, 1, s20", "s_and_b32 s30, 0, s20")
        LOGIC("s_or_b32 s30, s20, 1", "s_or_b32 s30, s20, -1") LOGIC("s_or_b32 s30, 0, s20", "s_or_b32 s30, -1, s20")
            LOGIC("s_nand_b32 s30, s20, -1", "s_nand_b32 s30, s20, 0")
                LOGIC("s_nor_b32 s30, s20, 0", "s_nor_b32 s30, s20, -1")
                    LOGIC("s_andn2_b32 s30, 1, s20", "s_andn2_b32 s30, 0, s20")
                        LOGIC("s_andn2_b32 s30, s20, 0", "s_andn2_b32 s30, s20, -1")
                            LOGIC("s_orn2_b32 s30, 0, s20", "s_orn2_b32 s30, -1, s20")
                                LOGIC("s_orn2_b32 s30, s20, -1", "s_orn2_b32 s30, s20, 0")
                                    LOGIC("s_and_b32 s30, s20, s24", "s_mov_b32 s24, 0\ns_and_b32 s30, s20, s24")
                                        LOGIC("s_xor_b32 s30, s20, 0", "s_xor_b32 s30, s2, 0")
                                            LOGIC("s_mov_b64 s[24:25], 0\ns_or_b64 s[30:31], s[20:21], s[24:25]",
                                                  "s_mov_b64 s[24:25], 0\ns_and_b64 s[30:31], s[20:21], s[24:25]")
    /* lanes */
    { PALL, 1, 1, REGISTER, "in these lanes", "", HALF "v_mov_b32 v30, 0\n" ALL KEEP, HALF "v_mov_b32 v30, 0\n" KEEP },
    { PALL, 1, 1, REGISTER, "in these lanes", "", HALF "v_mov_b32 v30, 0\nLANES 16\n" KEEP,
      HALF "v_mov_b32 v30, 0\nLANES 8\n" KEEP },
    { PALL, 1, 1, REGISTER, "never written", HALF "v_mov_b32 v30, 0\n" ALL,
      "v_readlane_b32 s30, v30, 4\nv_mov_b32 v31, s30\n" KEEP1,
      "v_readlane_b32 s30, v30, 3\nv_mov_b32 v31, s30\n" KEEP1 },
    { PALL, 1, 1, REGISTER, "never written", HALF "v_mov_b32 v30, 0\n",
      "LANES 0x30\nv_readfirstlane_b32 s30, v30\nLANES 1\nv_mov_b32 v31, s30\n" KEEP1,
      "LANES 0x38\nv_readfirstlane_b32 s30, v30\nLANES 1\nv_mov_b32 v31, s30\n" KEEP1 },
    { PALL, 1, 1, REGISTER, "never written", "v_writelane_b32 v30, s2, 5\n",
      "v_readlane_b32 s30, v30, 6\nv_mov_b32 v31, s30\n" KEEP1,
      "v_readlane_b32 s30, v30, 5\nv_mov_b32 v31, s30\n" KEEP1 },
    { PALL, 1, 1, REGISTER, "never written", "v_mov_b32 v30, 0\n",
      "v_writelane_b32 v30, s20, 5\nv_readlane_b32 s30, v30, 5\nv_mov_b32 v31, s30\n" KEEP1,
      "v_writelane_b32 v30, s2, 5\nv_readlane_b32 s30, v30, 5\nv_mov_b32 v31, s30\n" KEEP1 },
    { PALL, 1, 1, REGISTER, "never written", "v_mov_b32 v30, 0\n", "v_writelane_b32 v30, s20, 5\n" KEEP,
      "v_writelane_b32 v30, s20, 5\nLANES 0x5f\n" KEEP },
    /* words */
    { P9, 1, 1, REGISTER, "v30 was never written", "v_mov_b32 v20, 0\n",
      "v_pk_mul_f32 v[30:31], v[20:21], v[2:3] op_sel:[1,0] op_sel_hi:[1,1]\n" KEEP,
      "v_pk_mul_f32 v[30:31], v[20:21], v[2:3] op_sel:[0,0] op_sel_hi:[0,1]\n" KEEP KEEP1 },
    { P9, 1, 1, REGISTER, "v31 was never written", "v_mov_b32 v20, 0\nv_pk_mul_f32 v[30:31], v[20:21], v[2:3]\n", KEEP1,
      KEEP },
    { P9, 1, 1, REGISTER, "v30 was never written", "v_mov_b32 v20, 0\n",
      "v_pk_mov_b32 v[30:31], v[20:21], v[2:3] op_sel:[1,0]\n" KEEP,
      "v_pk_mov_b32 v[30:31], v[20:21], v[2:3] op_sel:[0,1]\n" KEEP KEEP1 },
    { P94, 1, 1, REGISTER, "v31 was never written", "v_mov_b32 v20, 0\nv_mov_b64 v[30:31], v[20:21]\n", KEEP1, KEEP },
    { PALL, 1, 1, REGISTER, "v31 was never written", "v_mov_b32 v20, 0\nv_lshlrev_b64 v[30:31], 2, v[20:21]\n", KEEP1,
      KEEP },
    { PALL, 1, 1, REGISTER, "v30 was never written", "v_mov_b32 v20, 0\n", "v_lshrrev_b64 v[30:31], 2, v[20:21]\n" KEEP,
      "v_lshlrev_b64 v[30:31], 2, v[20:21]\n" KEEP },
    { P94, 1, 1, REGISTER, "v31 was never written", "v_mov_b32 v20, 0\nv_lshl_add_u64 v[30:31], v[20:21], 2, v[2:3]\n",
      KEEP1, KEEP },
    { PALL, 1, 1, REGISTER, "v30 was never written", "", "v_fma_mixlo_f16 v30, v2, v2, v2\n" KEEP,
      "v_fma_mixlo_f16 v30, v2, v2, v2\nv_fma_mixhi_f16 v30, v2, v2, v2\n" KEEP },
    { PALL, 1, 1, REGISTER, "v33 was never written", "v_mov_b32 v30, 0\nv_mov_b32 v31, 0\nv_mov_b32 v32, 0\n",
      "global_store_dwordx4 v1, v[30:33], s[2:3]\n", "global_store_dwordx3 v1, v[30:32], s[2:3]\n" },
    { P90A, 1, 1, REGISTER, "a5 was never written", "v_accvgpr_write_b32 a4, v2\n",
      "global_store_dword v1, a5, s[2:3]\n", "global_store_dword v1, a4, s[2:3]\n" },
    /* EXEC doesn't matter to an MFMA */
    { P9, 1, 1, REGISTER, "v30 was never written", "", HALF "v_mov_b32 v30, 0\n" ALL KEEP,
      HALF "v_mfma_f32_4x4x4f16 v[30:33], v[2:3], v[2:3], 0\n" ALL KEEP },
    /* masks of lanes: known if some are; EXEC itself */
    { PALL, 1, 1, REGISTER, "exec_lo was never written", "", "s_mov_b32 exec_lo, s20\n", "s_mov_b32 exec_lo, s2\n" },
    /* bit by bit: a mask, a comparison, a branch */
    { PALL, 1, 1, REGISTER, "exec_lo was never written", "s_and_b32 s30, s20, 6\n", "s_or_b32 exec_lo, s30, 1\n",
      "s_or_b32 exec_lo, s30, 7\n" },
    { PALL, 1, 1, REGISTER, "exec_lo was never written", "s_and_b32 s30, s20, 6\n",
      "s_mov_b32 exec_lo, 1\ns_or_b32 exec_lo, s30, exec_lo\n",
      "s_mov_b32 exec_lo, 6\ns_or_b32 exec_lo, s30, exec_lo\n" },
    { PALL, 1, 1, REGISTER, "exec_lo was never written", "s_and_b32 s30, s20, 6\n",
      ".if WAVE == 64\ns_mov_b32 s31, 0\ns_mov_b64 exec, 7\ns_and_saveexec_b64 s[40:41], s[30:31]\n.else\n"
      "s_mov_b32 exec_lo, 7\ns_and_saveexec_b32 s40, s30\n.endif\n",
      ".if WAVE == 64\ns_mov_b32 s31, 0\ns_mov_b64 exec, 1\ns_and_saveexec_b64 s[40:41], s[30:31]\n.else\n"
      "s_mov_b32 exec_lo, 1\ns_and_saveexec_b32 s40, s30\n.endif\n" },
    { PALL, 1, 1, REGISTER, "scc was never written", "", "s_and_b32 s30, s20, 6\ns_cbranch_scc1 1f\n1:\n",
      "s_or_b32 s30, s20, 6\ns_cbranch_scc1 1f\n1:\n" },
    { PALL, 1, 1, REGISTER, "scc was never written", "s_and_b32 s30, s20, 1\n",
      "s_cmp_eq_u32 s30, 1\ns_cbranch_scc1 1f\n1:\n", "s_cmp_eq_u32 s30, 4\ns_cbranch_scc1 1f\n1:\n" },
    { PALL, 1, 1, REGISTER, "vcc_lo was never written",
      "LANES 1\nv_mov_b32 v30, 0\nLANES 3\n.if WAVE == 64\n.set mask, vcc\n.else\n.set mask, vcc_lo\n.endif\n",
      ".if WAVE == 64\nv_cmp_lt_u32 vcc, v2, v30\n.else\nv_cmp_lt_u32 vcc_lo, v2, v30\n.endif\ns_cbranch_vccnz "
      "1f\n1:\n",
      ".if WAVE == 64\nv_cmp_ge_u32 vcc, v2, v30\n.else\nv_cmp_ge_u32 vcc_lo, v2, v30\n.endif\ns_cbranch_vccnz "
      "1f\n1:\n" },
    { PALL, 1, 1, REGISTER, "lanes 0x2 (",
      "LANES 1\nv_mov_b32 v30, 0\nLANES 3\n.if WAVE == 64\nv_cmp_eq_u32 vcc, v30, v2\nv_cndmask_b32 v31, v2, v1, "
      "vcc\n.else\nv_cmp_eq_u32 vcc_lo, v30, v2\nv_cndmask_b32 v31, v2, v1, vcc_lo\n.endif\n",
      KEEP1, "LANES 1\n" KEEP1 },
    { PALL, 1, 1, REGISTER, "s30 was never written", "s_and_b32 s30, s20, 6\n",
      "v_writelane_b32 v31, s30, 3\nv_readlane_b32 s30, v31, 3\ns_load_dword s31, s[2:3], s30\n" LGKM,
      "v_writelane_b32 v31, s30, 3\nv_readlane_b32 s30, v31, 3\ns_and_b32 s30, s30, 8\ns_load_dword s31, s[2:3], "
      "s30\n" LGKM },
    { PALL, 1, 1, REGISTER, "v30 was never written", "v_mov_b32 v30, 0\ns_mov_b32 s30, 0xffff\n",
      "v_bfi_b32 v31, s30, v30, v31\ns_not_b32 s30, s30\ns_bitset0_b32 s30, 20\nv_bfi_b32 v31, s30, v30, "
      "v31\nv_mov_b32 v30, v31\n" KEEP,
      "v_bfi_b32 v31, s30, v30, v31\ns_not_b32 s30, s30\nv_bfi_b32 v31, s30, v30, v31\nv_mov_b32 v30, v31\n" KEEP },
    { PALL, 1, 1, REGISTER, "v30 was never written", "v_fma_mixlo_f16 v30, v2, v2, v2\n",
      "global_store_dword v1, v30, s[2:3]\n", "global_store_short v1, v30, s[2:3]\n" },
    { PALL, 1, 1, REGISTER, "v30 was never written", "v_fma_mixhi_f16 v30, v2, v2, v2\n",
      "global_store_short v1, v30, s[2:3]\n", "global_store_short_d16_hi v1, v30, s[2:3]\n" },
    /* lanes that move */
    { PALL, 1, 1, REGISTER, "lanes 0x4 (", "LANES 3\nv_mov_b32 v30, 0\nLANES 15\n",
      "v_mov_b32_dpp v31, v30 quad_perm:[0,1,2,1] row_mask:0xf bank_mask:0xf bound_ctrl:1\n" KEEP1,
      "v_mov_b32_dpp v31, v30 quad_perm:[0,1,0,1] row_mask:0xf bank_mask:0xf bound_ctrl:1\n" KEEP1 },
    { PALL, 1, 1, REGISTER, "lanes 0x2 (", "LANES 3\n",
      "v_mov_b32_dpp v31, v2 quad_perm:[0,2,0,1] row_mask:0xf bank_mask:0xf\n" KEEP1,
      "v_mov_b32_dpp v31, v2 quad_perm:[0,0,0,1] row_mask:0xf bank_mask:0xf\n" KEEP1 },
    { PALL, 1, 1, REGISTER, "lanes 0x8 (", "LANES 3\nv_mov_b32 v30, 0\nLANES 15\n",
      "ds_swizzle_b32 v31, v30 offset:swizzle(QUAD_PERM,0,1,1,3)\n" LGKM KEEP1,
      "ds_swizzle_b32 v31, v30 offset:swizzle(QUAD_PERM,0,1,1,0)\n" LGKM KEEP1 },
    { PALL, 1, 1, REGISTER, "lanes 0xc (", "LANES 3\nv_mov_b32 v30, 0\nLANES 15\n",
      "ds_bpermute_b32 v31, v1, v30\n" LGKM KEEP1, "ds_bpermute_b32 v31, v2, v30\n" LGKM KEEP1 },
    { P11, 1, 1, REGISTER, "v31 was never written", "v_mov_b32 v30, 0\ns_mov_b32 s30, 0\n",
      "v_permlanex16_b32 v31, v30, s30, s30\nv_permlanex16_b32 v31, v20, s30, s30\n" KEEP1,
      "v_permlanex16_b32 v31, v30, s30, s30\n" KEEP1 },
    { P9, 1, 1, REGISTER, "in these lanes", "LANES 15\nv_mov_b32 v32, 0\nv_mov_b32 v33, 0\n" ALL,
      "v_mfma_f32_4x4x4f16 v[36:39], v[32:33], v[2:3], 0\nv_mov_b32 v30, v36\n" KEEP,
      "v_mfma_f32_4x4x4f16 v[36:39], v[32:33], v[2:3], 0\nv_mov_b32 v30, v36\nLANES 15\n" KEEP },
    /* what M0 names */
    { P11, 1, 1, REGISTER, "v30 was never written", "", "s_mov_b32 m0, 3\nv_movreld_b32 v28, v2\n" KEEP,
      "s_mov_b32 m0, 2\nv_movreld_b32 v28, v2\n" KEEP },
    { P11, 1, 1, REGISTER, "v30 was never written", "v_mov_b32 v34, 0\n",
      "s_mov_b32 m0, 3\nv_movrels_b32 v30, v32\n" KEEP, "s_mov_b32 m0, 2\nv_movrels_b32 v30, v32\n" KEEP },
    { P11, 1, 1, REGISTER, "v30 was never written", "v_mov_b32 v34, 0\n",
      "s_mov_b32 m0, 35\nv_movrels_b32 v30, v0\n" KEEP, "s_mov_b32 m0, 34\nv_movrels_b32 v30, v0\n" KEEP },
    /* scratch */
    { P942 | P11, 1, 1, "uninitialised-scratch", "v30 comes from scratch that nothing wrote",
      "scratch_store_dword off, v2, off\n", "scratch_load_dword v30, off, off offset:4\n" VM KEEP,
      "scratch_load_dword v30, off, off\n" VM KEEP },
    { P942 | P11, 1, 1, "uninitialised-scratch", "v31 comes from scratch",
      "v_mov_b32 v31, 0\nscratch_store_dword off, v20, off\n",
      "scratch_load_dword v30, off, off\n" VM "v_add_u32 v31, v30, v2\n" KEEP1,
      "scratch_load_dword v30, off, off\n" VM KEEP1 },
    { P942 | P11, 1, 1, "uninitialised-scratch", "lanes 0x2 (", "LANES 1\nscratch_store_dword off, v2, off\nLANES 3\n",
      "scratch_load_dword v30, off, off\n" VM KEEP, "scratch_load_dword v30, off, off\n" VM "LANES 1\n" KEEP },
    { P942 | P11, 1, 1, "uninitialised-scratch", "v30 comes from scratch",
      "scratch_store_short off, v2, off offset:2\n", "scratch_load_ushort v30, off, off\n" VM KEEP,
      "scratch_load_ushort v30, off, off offset:2\n" VM KEEP },
    { P942 | P11, 2, 1, "uninitialised-scratch", "v30 comes from scratch",
      "s_cmp_eq_u32 s8, 0\nv_readfirstlane_b32 s30, v0\n",
      "s_cmp_eq_u32 s30, 0\ns_cbranch_scc1 1f\nscratch_store_dword "
      "off, v2, off\n1:\nscratch_load_dword v30, off, off\n" VM KEEP,
      "scratch_store_dword off, v2, off\nscratch_load_dword v30, off, off\n" VM KEEP },
    /* what the hardware sets */
    { PALL, 1, 1, REGISTER, "v30 was never written", "", "v_mov_b32 v30, s10\n" KEEP, "v_mov_b32 v30, s8\n" KEEP },
    { PALL, 1, 1, REGISTER, "v30 was never written", "", "v_mov_b32 v30, m0\n" KEEP, "v_mov_b32 v30, ttmp3\n" KEEP },
    { P9, 1, 1, REGISTER, "v30 was never written", "", "v_mov_b32 v30, v40\n" KEEP,
      "v_mov_b32 v30, flat_scratch_lo\n" KEEP },
    { PALL, 2, 1, REGISTER, "never written", "", "s_mov_b32 s30, s10\nv_mov_b32 v30, s30\n" KEEP,
      "v_mov_b32 v30, v0\n" KEEP },
    { PALL, 1, 2, REGISTER, "v30 was never written", "",
      "s_cmp_lg_u32 s8, 0\ns_cbranch_scc1 1f\nv_mov_b32 v30, 0\n1:\nglobal_store_dword v1, v30, s[2:3] offset:1024\n",
      "v_mov_b32 v30, 0\nglobal_store_dword v1, v30, s[2:3] offset:1024\n" },
    { PALL, 1, 2, REGISTER, "s30 was never written", "",
      "s_cmp_lg_u32 s8, 0\ns_cbranch_scc1 1f\ns_mov_b32 s30, 0\n1:\ns_xor_b32 s30, s30, 0xffffdead\ns_and_b32 s30, "
      "s30, 4\ns_load_dword s31, s[2:3], "
      "s30\n" LGKM,
      "s_mov_b32 s30, 0\ns_load_dword s31, s[2:3], s30\n" LGKM },
    /* what is stored nowhere is nobody's business */
    { PALL, 1, 1, REGISTER, NULL, "", KEEP, "v_add_f32 v30, v20, v21\nv_mov_b32 v31, v30\n" },
    { PALL, 1, 1, REGISTER, NULL, "", KEEP, "v_add_f32 v30, v20, v21\nv_mov_b32 v30, 0\n" KEEP },
    { PALL, 1, 1, REGISTER, NULL, "v_mov_b32 v40, v20\n", "v_mov_b32 v30, v40\n" KEEP,
      "LANES 0\nv_mov_b32 v30, v40\n" KEEP },
    { P9, 1, 1, REGISTER, "v30 was never written", "s_mov_b32 m0, 0\n", KEEP,
      "s_mov_b32 s30, 0\ns_set_gpr_idx_on s30, gpr_idx(DST)\nv_mov_b32 v30, 0\ns_set_gpr_idx_off\n" KEEP },

    /* memory: each end once */
    /* a register that loads fill by halves is waited for as one */
    { PALL, 1, 1, "missing-wait", "a vector load into its lower half is under way", "v_mov_b32 v30, 0\n",
      "global_load_short_d16 v30, v1, s[2:3]\n" KEEP, "global_load_short_d16 v30, v1, s[2:3]\n" VM KEEP },
    { PALL, 1, 1, "missing-wait", "a vector load into its upper half is under way", "v_mov_b32 v30, 0\n",
      "global_load_short_d16_hi v30, v1, s[2:3]\n" KEEP, "global_load_short_d16_hi v30, v1, s[2:3]\n" VM KEEP },
    { PALL, 1, 1, "missing-wait", "a vector load into each of its halves is under way", "v_mov_b32 v30, 0\n",
      "global_load_short_d16 v30, v1, s[2:3]\nglobal_load_short_d16_hi v30, v1, s[2:3]\ns_waitcnt vmcnt(1)\n" KEEP,
      "global_load_short_d16 v30, v1, s[2:3]\nglobal_load_short_d16_hi v30, v1, s[2:3]\n" VM KEEP },
    /* a copy takes its mark along */
    { PALL, 1, 1, "note: copies-unwritten", "copies what nothing wrote, or padding", "", FRESH KEEP,
      "global_load_dword v30, v1, s[2:3]\n" VM KEEP },
    { PALL, 1, 1, MEMORY, "v31 comes from memory", FRESH KEEP "global_load_dword v31, v1, s[2:3]\n" VM,
      "v_xor_b32 v31, v2, v31\n" KEEP1, KEEP1 },
    { PALL, 1, 1, MEMORY, "v30 comes from memory that nothing wrote, read by 'global_load", "", FRESH MADE,
      "global_load_dword v30, v1, s[2:3]\n" VM MADE },
    { PALL, 1, 1, MEMORY, "v31 comes from memory", "", FRESH "v_add_f32 v31, v2, v30\n" MADE1,
      FRESH "v_mov_b32 v31, v2\n" MADE1 },
    { PALL, 1, 1, MEMORY, "v30 comes from memory", "",
      "v_mov_b32 v30, 0\n" FRESH "v_and_b32 v30, 4, v30\nglobal_load_dword v31, v30, s[2:3]\n" VM,
      "v_mov_b32 v30, 0\nglobal_load_dword v31, v30, s[2:3]\n" VM },
    { PALL, 1, 1, MEMORY, "s30 comes from memory", "",
      "s_load_dword s30, s[4:5], 0\n" LGKM
      "v_mov_b32 v30, 0\ns_and_b32 s30, s30, 4\ns_load_dword s31, s[2:3], s30\n" LGKM,
      "s_load_dword s30, s[2:3], 0\n" LGKM "s_load_dword s31, s[2:3], s30\n" LGKM },
    { PALL, 1, 1, MEMORY, "comes from memory", "",
      "s_load_dword s30, s[4:5], 0\n" LGKM "s_cmp_eq_u32 s30, 0\ns_cbranch_scc1 1f\n1:\n",
      "s_load_dword s30, s[2:3], 0\n" LGKM "s_cmp_eq_u32 s30, 0\ns_cbranch_scc1 1f\n1:\n" },
    { PALL, 1, 1, MEMORY, "comes from memory", "",
      "v_mov_b32 v30, s4\nv_mov_b32 v31, s5\nflat_load_dword v30, v[30:31]\n" VM LGKM MADE,
      "flat_load_dword v30, v[4:5]\n" VM LGKM MADE },
    { PALL, 1, 1, MEMORY, "an atomic on what nothing wrote: byte 0 of", "", "global_atomic_add v1, v2, s[4:5]\n",
      "global_store_dword v1, v2, s[4:5]\n" VM "global_atomic_add v1, v2, s[4:5]\n" },
    { PALL, 1, 1, MEMORY, "an atomic on what nothing wrote", "", "global_atomic_add_f32 v1, v2, s[4:5] offset:16\n",
      "global_atomic_add_f32 v1, v2, s[2:3] offset:16\n" },
/* by bytes */
#define WRITTEN(what, n) "LANES 1\nglobal_store_" what " s[4:5] offset:" n "\n" VM
    { PALL, 1, 1, MEMORY, "v30 comes from memory", WRITTEN("dword v2, v2,", "16"),
      "global_load_dword v30, v2, s[4:5] offset:20\n" VM MADE,
      "global_load_dword v30, v2, s[4:5] offset:16\n" VM MADE },
    { PALL, 1, 1, MEMORY, "v30 comes from memory", WRITTEN("dword v2, v2,", "16"),
      "global_load_dword v30, v2, s[4:5] offset:12\n" VM MADE,
      "global_load_dword v30, v2, s[4:5] offset:16\n" VM MADE },
    { PALL, 1, 1, MEMORY, "v30 comes from memory", WRITTEN("dword v2, v2,", "16"),
      "global_load_dword v30, v2, s[4:5] offset:17\n" VM MADE,
      "global_load_ushort v30, v2, s[4:5] offset:17\n" VM MADE },
    { PALL, 1, 1, MEMORY, "v30 comes from memory", WRITTEN("byte v2, v2,", "18"),
      "global_load_ubyte v30, v2, s[4:5] offset:17\n" VM MADE,
      "global_load_ubyte v30, v2, s[4:5] offset:18\n" VM MADE },
    { PALL, 1, 1, MEMORY, "v30 comes from memory", WRITTEN("byte v2, v2,", "18"),
      "global_load_ubyte v30, v2, s[4:5] offset:19\n" VM MADE,
      "global_load_sbyte v30, v2, s[4:5] offset:18\n" VM MADE },
    { PALL, 1, 1, MEMORY, "v30 comes from memory", WRITTEN("short v2, v2,", "18"),
      "global_load_dword v30, v2, s[4:5] offset:16\n" VM MADE,
      "global_load_ushort v30, v2, s[4:5] offset:18\n" VM MADE },
    /* above what is loaded: zeros, or its sign */
    { PALL, 1, 1, MEMORY, "v30 comes from memory", WRITTEN("byte v2, v2,", "18"),
      "global_load_sshort v30, v2, s[4:5] offset:18\n" VM "v_lshrrev_b32 v30, 16, v30\n" MADE,
      "global_load_ushort v30, v2, s[4:5] offset:18\n" VM "v_lshrrev_b32 v30, 16, v30\n" MADE },
    { PALL, 1, 1, MEMORY, "v30 comes from memory", WRITTEN("byte v2, v2,", "19"),
      "global_load_ushort v30, v2, s[4:5] offset:18\n" VM MADE,
      "global_load_sshort v30, v2, s[4:5] offset:18\n" VM "v_lshrrev_b32 v30, 8, v30\n" MADE },
    { PALL, 1, 1, MEMORY, "v30 comes from memory", WRITTEN("byte v2, v2,", "18"),
      "global_load_sbyte v30, v2, s[4:5] offset:17\n" VM "v_lshrrev_b32 v30, 8, v30\n" MADE,
      "global_load_ubyte v30, v2, s[4:5] offset:17\n" VM "v_lshrrev_b32 v30, 8, v30\n" MADE },
    { PALL, 1, 1, MEMORY, "v30 comes from memory", WRITTEN("byte v2, v2,", "18") "v_mov_b32 v30, 0\n",
      "global_load_sbyte_d16_hi v30, v2, s[4:5] offset:17\n" VM "v_lshrrev_b32 v30, 24, v30\n" MADE,
      "global_load_ubyte_d16_hi v30, v2, s[4:5] offset:17\n" VM "v_lshrrev_b32 v30, 24, v30\n" MADE },
    { PALL, 1, 1, MEMORY, "v30 comes from memory", WRITTEN("byte v2, v2,", "18") "v_mov_b32 v30, 0\n",
      "global_load_sbyte_d16 v30, v2, s[4:5] offset:17\n" VM "v_lshrrev_b32 v30, 8, v30\n" MADE,
      "global_load_sbyte_d16 v30, v2, s[4:5] offset:17\n" VM "v_lshrrev_b32 v30, 16, v30\n" MADE },
    { PALL, 1, 1, "uninitialised-lds", "v30 comes from LDS", "ds_write_b8 v2, v2\n" LGKM,
      "ds_read_i16 v30, v2\n" LGKM "v_lshrrev_b32 v30, 16, v30\n" MADE,
      "ds_read_u16 v30, v2\n" LGKM "v_lshrrev_b32 v30, 16, v30\n" MADE },
    { P942 | P11, 1, 1, "uninitialised-scratch", "v30 comes from scratch", "scratch_store_byte off, v2, off\n",
      "scratch_load_sshort v30, off, off\n" VM "v_lshrrev_b32 v30, 16, v30\n" MADE,
      "scratch_load_ushort v30, off, off\n" VM "v_lshrrev_b32 v30, 16, v30\n" MADE },
    { PALL, 1, 1, MEMORY, "v32 comes from memory",
      WRITTEN("dwordx2 v2, v[2:3],", "16")
          WRITTEN("dword v2, v2,", "28") "global_load_dwordx4 v[30:33], v2, s[4:5] offset:16\n" VM,
      "v_xor_b32 v32, v2, v32\nglobal_store_dword v1, v32, s[2:3]\n",
      "global_store_dword v1, v33, s[2:3]\n" MADE MADE1 },
    { PALL, 1, 1, MEMORY, "v31 comes from memory",
      WRITTEN("dword v2, v2,", "24") "global_load_dwordx2 v[30:31], v2, s[4:5] offset:24\n" VM, MADE1, MADE },
    { PALL, 1, 1, MEMORY, "lanes 0x2 (",
      "LANES 3\nv_mov_b32 v40, 0\nLANES 1\nglobal_store_dword v1, v2, s[4:5]\n" VM
      "LANES 3\nglobal_load_dword v30, v1, s[4:5]\n" VM,
      MADE, "LANES 1\n" MADE },
};

void pairs_registers(struct pairs *p)
{
    for (size_t k = 0; k < sizeof(sinks) / sizeof(sinks[0]); k++)
        pair_add(p, &(struct pair){ .archs = sinks[k].archs,
                                    .rule = text("unknown: %.60s", sinks[k].text),
                                    .check = REGISTER,
                                    .says = sinks[k].says,
                                    .groups = "registers,waits,notes",
                                    .bad = text(BEGIN ZERO "%s", sinks[k].text),
                                    .good = text(BEGIN KNOWN ZERO "%s", sinks[k].text) });
    for (size_t k = 0; k < sizeof(pieces) / sizeof(pieces[0]); k++) {
        const struct pieces *s = &pieces[k];
        pair_add(p, &(struct pair){ .archs = s->archs,
                                    .rule = text("%s, row %zu", s->says ? s->says : "none", k),
                                    .check = s->check,
                                    .says = s->says,
                                    .groups = "registers,waits,notes",
                                    .waves = s->waves,
                                    .workgroups = s->workgroups,
                                    .bad = text(BEGIN ZERO "%s%s", s->before, s->bad),
                                    .good = text(BEGIN ZERO "%s%s", s->before, s->good) });
    }
}
