/* SPDX-License-Identifier: MIT
 *
 * Faults that are found whichever checks run: bounds, alignment, registers, branches. And NaN made from operands that
 * are none. */
#include "emu_rules.h"

#include <stdint.h>

/* v1: 4 * the work-item, v2: 0, v[4:5]: data, s[12:15]: a buffer over data and 4 KiB more. */
#define BEGIN                                                                                                          \
    "v_lshlrev_b32 v1, 2, v0\nv_mov_b32 v2, 0\nv_mov_b32 v3, 0\nv_mov_b32 v4, s2\nv_mov_b32 v5, s3\ns_mov_b32 s12, "   \
    "s2\n"                                                                                                             \
    "s_and_b32 s13, s3, 0xffff\ns_mov_b32 s14, 0x11000\n.if GFX < 0x1000\ns_mov_b32 s15, 0x27000\n.else\n"             \
    "s_mov_b32 s15, 0x31016000\n.endif\n"
#define DATA 65536
#define LDS  1024
#define VM   "s_waitcnt vmcnt(0)\n"

/* ---- bounds: each instruction at each width, its last byte the last one, or one more ----------------------------- */

static const struct space {
    int archs;
    const char *check, *says;
    int size, step;   /* step: of what it must be a multiple, so that nothing else is wrong with it */
    const char *text; /* %d: where */
    int bytes;
} spaces[] = {
#define GLOBAL_ "v_mov_b32 v20, %d\n"
#define OOB     "global-out-of-bounds"
#define ACCESS(what, n)                                                                                                \
    {                                                                                                                  \
        PALL, OOB, "past the end of allocation 1", DATA, 1, GLOBAL_ what, n                                            \
    }
    ACCESS("global_load_ubyte v30, v20, s[2:3]", 1),
    ACCESS("global_load_ushort v30, v20, s[2:3]", 2),
    ACCESS("global_load_dword v30, v20, s[2:3]", 4),
    ACCESS("global_load_dwordx2 v[30:31], v20, s[2:3]", 8),
    ACCESS("global_load_dwordx3 v[30:32], v20, s[2:3]", 12),
    ACCESS("global_load_dwordx4 v[30:33], v20, s[2:3]", 16),
    ACCESS("global_store_byte v20, v2, s[2:3]", 1),
    ACCESS("global_store_short v20, v2, s[2:3]", 2),
    ACCESS("global_store_dword v20, v2, s[2:3]", 4),
    ACCESS("global_store_dwordx2 v20, v[2:3], s[2:3]", 8),
    ACCESS("global_store_dwordx3 v20, v[2:4], s[2:3]", 12),
    ACCESS("global_store_dwordx4 v20, v[2:5], s[2:3]", 16),
    ACCESS("LANES 16\nglobal_load_dword v30, v20, s[2:3]", 4),
    ACCESS("buffer_load_dword v30, v20, s[12:15], 0 offen", 4),
    ACCESS("buffer_store_dwordx4 v[2:5], v20, s[12:15], 0 offen", 16),
    ACCESS("v_mov_b32 v21, 0\nv_lshl_add_u32 v22, v20, 0, s2\nv_mov_b32 v23, s3\nflat_load_dword v30, v[22:23]", 4),
    ACCESS("v_lshl_add_u32 v22, v20, 0, s2\nv_mov_b32 v23, s3\nglobal_store_dword v[22:23], v2, off", 4),
    { PALL, OOB, "atomic of 4 bytes", DATA, 4, GLOBAL_ "global_atomic_add v20, v2, s[2:3]", 4 },
    { PALL, OOB, "atomic of 8 bytes", DATA, 8, GLOBAL_ "global_atomic_add_x2 v20, v[2:3], s[2:3]", 8 },
    { PALL, OOB, "load of 4 bytes", DATA, 4, "s_mov_b32 s20, %d\ns_load_dword s30, s[2:3], s20", 4 },
    { PALL, OOB, "load of 8 bytes", DATA, 4, "s_mov_b32 s20, %d\ns_load_dwordx2 s[30:31], s[2:3], s20", 8 },
    { PALL, OOB, "load of 16 bytes", DATA, 4, "s_mov_b32 s20, %d\ns_load_dwordx4 s[36:39], s[2:3], s20", 16 },
    { PALL, OOB, "load of 64 bytes", DATA, 4, "s_mov_b32 s20, %d\ns_load_dwordx16 s[36:51], s[2:3], s20", 64 },
    { P90A, OOB, "store of 4 bytes", DATA, 4, "s_mov_b32 m0, %d\ns_store_dword s9, s[2:3], m0", 4 },
#define LDS_(step, what, n)                                                                                            \
    {                                                                                                                  \
        PALL, "lds-out-of-bounds", "the workgroup's LDS has 1024 bytes", LDS, step, GLOBAL_ what, n                    \
    }
    LDS_(1, "ds_read_u8 v30, v20", 1),
    LDS_(2, "ds_read_u16 v30, v20", 2),
    LDS_(4, "ds_read_b32 v30, v20", 4),
    LDS_(4, "ds_read_b64 v[30:31], v20", 8),
    LDS_(4, "ds_read_b96 v[30:32], v20", 12),
    LDS_(4, "ds_read_b128 v[30:33], v20", 16),
    LDS_(1, "ds_write_b8 v20, v2", 1),
    LDS_(2, "ds_write_b16 v20, v2", 2),
    LDS_(4, "ds_write_b32 v20, v2", 4),
    LDS_(4, "ds_write_b64 v20, v[2:3]", 8),
    LDS_(4, "ds_write_b128 v20, v[2:5]", 16),
    LDS_(4, "ds_read2_b32 v[30:31], v20 offset1:1", 8),
    LDS_(4, "ds_read2st64_b32 v[30:31], v20 offset1:1", 260),
    LDS_(4, "ds_write2_b64 v20, v[2:3], v[4:5] offset1:2", 24),
    LDS_(4, "ds_add_u32 v20, v2", 4),
    LDS_(8, "ds_add_u64 v20, v[2:3]", 8),
    LDS_(4, "ds_read_b32 v30, v20 offset:16", 20),
    LDS_(4,
         "v_mov_b32 v22, v20\ns_mov_b64 s[30:31], src_shared_base\nv_mov_b32 v23, s31\nflat_store_dword v[22:23], v2",
         4),
    { P9, "lds-out-of-bounds", "the workgroup's LDS has 1024 bytes", LDS, 4,
      "s_mov_b32 m0, %d\nbuffer_load_dword v2, s[12:15], 0 offen lds\n" VM, 256 },
#define SCRATCH_(what, n)                                                                                              \
    {                                                                                                                  \
        P94 | P11, "scratch-out-of-bounds", "the work-item's scratch has 64 bytes", 64, 1, GLOBAL_ what, n             \
    }
    SCRATCH_("scratch_load_dword v30, v20, off", 4),
    SCRATCH_("scratch_load_ubyte v30, v20, off", 1),
    SCRATCH_("scratch_load_dwordx4 v[30:33], v20, off", 16),
    SCRATCH_("scratch_store_dword v20, v2, off", 4),
    SCRATCH_("scratch_store_dwordx2 v20, v[2:3], off", 8),
    SCRATCH_("scratch_store_dword v20, v2, off offset:8", 12),
};

static void bounds(struct pairs *p)
{
    for (size_t k = 0; k < sizeof(spaces) / sizeof(spaces[0]); k++) {
        const struct space *s = &spaces[k];
        int last = s->size - s->bytes;
        char good[500], bad[500];
        ck_assert_ptr_nonnull(s->text);
        snprintf(good, sizeof(good), s->text, last);
        snprintf(bad, sizeof(bad), s->text, last + s->step);
        struct pair pair = {
            .archs = s->archs, .rule = text("bounds, %zu", k), .check = s->check, .says = s->says, .groups = "none"
        };
        pair.bad = text(BEGIN "%s", bad);
        pair.good = text(BEGIN "%s", good);
        pair_add(p, &pair);
        snprintf(bad, sizeof(bad), s->text, s->size + 64); /* all of it */
        pair.bad = text(BEGIN "%s", bad);
        pair.good = NULL;
        pair_add(p, &pair);
    }
}

/* ---- the rest ---------------------------------------------------------------------------------------------------- */

static const struct fault {
    int archs, waves;
    const char *check, *says, *before, *bad, *good;
} faults[] = {
    { PALL, 1, OOB, "4 bytes before allocation 1", "s_sub_u32 s20, s2, 4\ns_subb_u32 s21, s3, 0\n",
      "global_load_dword v30, v2, s[20:21]", "global_load_dword v30, v2, s[20:21] offset:4" },
    { PALL, 1, OOB, "lanes 0x8 (1, first 3)", "v_mov_b32 v20, 0\nLANES 8\n",
      "v_mov_b32 v20, -4\nLANES -1\nglobal_load_dword v30, v20, s[2:3]",
      "v_mov_b32 v20, 4\nLANES -1\nglobal_load_dword v30, v20, s[2:3]" },
    { PALL, 1, OOB, NULL, "v_mov_b32 v20, -4\n", "global_store_dword v20, v2, s[2:3]",
      "LANES 0\nglobal_store_dword v20, v2, s[2:3]" },
    { PALL, 1, "use-after-free", "load of 4 bytes at", "", "global_load_dword v30, v1, s[6:7]",
      "global_load_dword v30, v1, s[2:3]" },
    { PALL, 1, "use-after-free", "(4096 bytes at ", "", "global_store_dword v1, v2, s[6:7]",
      "global_store_dword v1, v2, s[2:3]" },
    { PALL, 1, "use-after-free", "load of 4 bytes at", "", "s_load_dword s30, s[6:7], 0",
      "s_load_dword s30, s[2:3], 0" },
    { PALL, 1, "use-after-free", "atomic of 4 bytes at", "", "global_atomic_add v1, v2, s[6:7]",
      "global_atomic_add v1, v2, s[2:3]" },
    { PALL, 1, "write-to-read-only", "kernel arguments", "", "global_store_dword v2, v2, s[0:1]",
      "global_load_dword v30, v2, s[0:1]" },
    { PALL, 1, "write-to-read-only", "kernel arguments", "",
      "global_load_dword v30, v2, s[0:1]\nglobal_atomic_add v2, v2, s[0:1]",
      "global_load_dword v30, v2, s[0:1]\nglobal_atomic_add v2, v2, s[2:3]" },
/* alignment: of atomics their size, of LDS 4 bytes, or the size if that is less; other global accesses: any */
#define AT(n, what) "v_mov_b32 v20, " #n "\n" what
#define OFF(check, says, b, g, what)                                                                                   \
    {                                                                                                                  \
        PALL, 1, check, says, "", AT(b, what), AT(g, what)                                                             \
    }
    OFF("misaligned", "must be 4-byte aligned", 2, 4, "global_atomic_add v20, v2, s[2:3]"),
    OFF("misaligned", "must be 4-byte aligned", 1, 0, "global_atomic_add v20, v2, s[2:3]"),
    OFF("misaligned", "must be 8-byte aligned", 4, 8, "global_atomic_add_x2 v20, v[2:3], s[2:3]"),
    OFF("misaligned", "must be 8-byte aligned", 4, 8, "global_atomic_cmpswap_x2 v20, v[2:5], s[2:3]"),
    OFF("misaligned", "must be 4-byte aligned", 2, 4, "buffer_atomic_add v2, v20, s[12:15], 0 offen"),
    OFF("misaligned", "must be 4-byte aligned", 2, 4,
        "v_lshl_add_u32 v22, v20, 0, s2\nv_mov_b32 v23, s3\nflat_atomic_add v[22:23], v2"),
    OFF("misaligned", "must be 4-byte aligned", 2, 4, "ds_add_u32 v20, v2"),
    OFF("misaligned", "must be 8-byte aligned", 4, 8, "ds_add_u64 v20, v[2:3]"),
    /* LDS is at any byte's, but for atomics */
    { PALL, 1, "misaligned", "must be 4-byte aligned", "", AT(2, "ds_add_rtn_u32 v30, v20, v2"),
      AT(1, "ds_write_b128 v20, v[2:5]\nds_write_b16 v20, v2 offset:20\nds_write_b32 v20, v2 offset:16\ns_waitcnt "
            "lgkmcnt(0)\nds_read_b128 v[30:33], v20\nds_read2_b32 v[30:31], v20 offset1:1\nds_read_b64 v[30:31], v20 "
            "offset:2\nds_read_u16 v30, v20 offset:20") },
    { PALL, 1, "misaligned", "must be 4-byte aligned", "", AT(2, "global_atomic_add v20, v2, s[2:3]"),
      AT(1, "global_load_dwordx4 v[30:33], v20, s[2:3]\nglobal_store_dwordx2 v20, v[2:3], s[2:3]") },
    { P9, 1, "misaligned", "must be 4-byte aligned", "", "s_mov_b32 m0, 2\nbuffer_load_dword v2, s[12:15], 0 offen lds",
      "s_mov_b32 m0, 4\nbuffer_load_dword v2, s[12:15], 0 offen lds" },
    /* a scalar load's low two bits would be dropped */
    { PALL, 1, "misaligned", "must be 4-byte aligned", "", "s_load_dword s30, s[2:3], 2",
      "s_load_dword s30, s[2:3], 4" },
    { PALL, 1, "misaligned", "must be 4-byte aligned", "s_add_u32 s20, s2, 2\ns_mov_b32 s21, s3\n",
      "s_load_dwordx2 s[30:31], s[20:21], 0", "s_load_dwordx2 s[30:31], s[20:21], 2" },
    { PALL, 1, "misaligned", "must be 4-byte aligned", "", "s_buffer_load_dword s30, s[12:15], 2",
      "s_buffer_load_dword s30, s[12:15], 4" },
    { P90A, 1, "misaligned", "must be 4-byte aligned", "", "s_store_dword s9, s[2:3], 2",
      "s_store_dword s9, s[2:3], 4" },
    { P90A, 1, "misaligned", "must be 8-byte aligned", "", "s_atomic_add_x2 s[30:31], s[2:3], 4",
      "s_atomic_add_x2 s[30:31], s[2:3], 8" },
    /* registers that the kernel doesn't have: it has v0..v127, a0..a63 */
    { P11, 1, "register-range", "needs 129 VGPRs", "", "v_mov_b32 v128, 0", "v_mov_b32 v127, 0" },
    { P11, 1, "register-range", "needs 129 VGPRs", "", "v_add_f64 v[30:31], v[2:3], v[126:127]\nv_mov_b32 v30, v128",
      "v_add_f64 v[30:31], v[2:3], v[126:127]" },
    /* 128 VGPRs and 64 AGPRs in one file */
    { P9, 1, "register-range", "needs 193 VGPRs", "", "v_mov_b32 v192, 0", "v_mov_b32 v191, 0" },
    { P9, 1, "register-range", "and 65 AGPRs", "", "v_accvgpr_write_b32 a64, v2", "v_accvgpr_write_b32 a63, v2" },
    { P11, 1, "register-range", "v128 by M0: the wave has 128 VGPRs", "", "s_mov_b32 m0, 100\nv_movrels_b32 v30, v28",
      "s_mov_b32 m0, 99\nv_movrels_b32 v30, v28" },
    { P11, 1, "register-range", "v128 by M0", "", "s_mov_b32 m0, 100\nv_movreld_b32 v28, v2",
      "s_mov_b32 m0, 99\nv_movreld_b32 v28, v2" },
    { P9, 1, "register-range", "v128 by M0: the wave has 128 VGPRs", "s_mov_b32 s30, ",
      "100\ns_set_gpr_idx_on s30, gpr_idx(SRC0)\nv_mov_b32 v30, v28\ns_set_gpr_idx_off",
      "99\ns_set_gpr_idx_on s30, gpr_idx(SRC0)\nv_mov_b32 v30, v28\ns_set_gpr_idx_off" },
    /* control */
    { PALL, 1, "trap", "s_trap 2", "", "s_trap 2", "s_nop 2" },
    { PALL, 1, "illegal-instruction", "are not an instruction", "", ".long 0xbfffffff",
      "s_branch 1f\n.long 0xbfffffff\n1:" },
    { P11, 1, "illegal-instruction", "are not an instruction", "", ".long 0", "s_branch 1f\n.long 0\n1:" },
    { PALL, 1, "illegal-branch", "0x10 is not an instruction of this code object", "s_getpc_b64 s[20:21]\n",
      "s_mov_b64 s[20:21], 16\ns_setpc_b64 s[20:21]",
      "s_add_u32 s20, s20, 1f-.\ns_addc_u32 s21, s21, 0\ns_setpc_b64 s[20:21]\n.long 0xbfffffff\n1:" },
    { PALL, 1, "illegal-branch", "is not an instruction of this code object", "s_getpc_b64 s[20:21]\n",
      "s_add_u32 s20, s20, 2\ns_swappc_b64 s[22:23], s[20:21]",
      "s_add_u32 s20, s20, 1f-.\ns_addc_u32 s21, s21, 0\ns_swappc_b64 s[22:23], s[20:21]\n1:" },
    { PALL, 1, "not-implemented", "rounding mode 0x1", "s_mov_b32 s20, 1\n",
      "s_setreg_b32 hwreg(HW_REG_MODE, 0, 2), s20", "s_setreg_b32 hwreg(HW_REG_MODE, 4, 2), s20" },
    /* nobody gets on */
    { PALL, 1, "deadlock", "no wave stored anything or ended for", "s_mov_b32 s20, 1000\n", "1:\ns_branch 1b",
      "1:\ns_sub_u32 s20, s20, 1\ns_cbranch_scc0 1b" },
#define LOOP(what) "s_mov_b32 s20, 0xffff\n1:\n" what "\ns_nop 0\ns_nop 0\ns_sub_u32 s20, s20, 1\ns_cbranch_scc0 1b"
    { PALL, 1, "deadlock", "no wave stored anything", "", LOOP("s_nop 0"), LOOP("global_store_dword v2, v2, s[2:3]") },
    { PALL, 1, "deadlock", "no wave stored anything", "", LOOP("global_load_dword v30, v2, s[2:3]"),
      LOOP("flat_store_byte v[4:5], v2") },
    { PALL, 1, "deadlock", "1 waves of 1 workgroups are left", "s_mov_b32 s20, 1000\n", "1:\ns_sleep 1\ns_branch 1b",
      "s_sleep 1\n" },
    { PALL, 2, "deadlock", "2 waves of 1 workgroups are left",
      "v_readfirstlane_b32 s9, v0\ns_cmp_lg_u32 s9, 0\ns_cbranch_scc1 1f\n", "s_barrier\ns_endpgm\n1:\ns_branch 1b",
      "s_barrier\ns_endpgm\n1:\ns_barrier" },
    { PALL, 1, "deadlock", "a barrier of the grid, but the launch is not cooperative", "v_mov_b32 v20, 0\n",
      "ds_gws_barrier v20 gds", "s_barrier" },
};

/* ---- NaN --------------------------------------------------------------------------------------------------------- */

/* v10, v11: the value that makes a NaN, a harmless one, a NaN (which isn't born here). */
static const struct nan {
    int archs;
    const char *says;
    uint32_t bad[2], good[2], nan[2];
    const char *text; /* result: v30 and on */
    const char *ends; /* NULL: v30 is stored */
} nans[] = {
#define INF32                                                                                                          \
    {                                                                                                                  \
        0x7f800000                                                                                                     \
    }
#define ONE32                                                                                                          \
    {                                                                                                                  \
        0x3f800000                                                                                                     \
    }
#define NAN32                                                                                                          \
    {                                                                                                                  \
        0x7fc00000                                                                                                     \
    }
#define F32(archs, says, what)                                                                                         \
    {                                                                                                                  \
        archs, says, INF32, ONE32, NAN32, what, NULL                                                                   \
    }
#define INFINITE "an infinity among the operands"
    F32(PALL, "of inf, inf in lane 0, an infinity among the operands", "v_sub_f32 v30, v10, v10"),
    F32(PALL, "of inf, 0 in lane 0", "v_mul_f32 v30, v10, v2"),
    F32(PALL, INFINITE, "v_add_f32 v30, v10, -v10"),
    F32(PALL, INFINITE, "v_fma_f32 v30, v10, v2, v2"),
    F32(PALL, INFINITE, "v_fma_f32 v30, v2, v2, v10\nv_sub_f32 v30, v30, v10"),
    F32(PALL, INFINITE, "v_mov_b32 v30, v10\nv_fmac_f32 v30, -1.0, v10"),
    F32(P90A, INFINITE, "v_mov_b32 v30, v2\nv_mac_f32 v30, v2, v10"),
    F32(PALL, INFINITE, "v_sin_f32 v30, v10"),
    F32(PALL, INFINITE, "v_cos_f32 v30, v10"),
    F32(PALL, INFINITE,
        "v_mov_b32 v11, v10\nv_sub_f32_dpp v30, v10, v11 row_shr:1 row_mask:0xf bank_mask:0xf bound_ctrl:0\nLANES 2"),
    F32(P9, INFINITE, "v_pk_mul_f32 v[30:31], v[10:11], v[2:3]"),
    F32(P9, INFINITE,
        "v_mov_b32 v20, 0\nv_mov_b32 v21, v10\nv_pk_mul_f32 v[32:33], v[20:21], v[2:3]\nv_mov_b32 v30, v33"),
    { PALL, "of -1 in lane 0, all finite", { 0xbf800000 }, ONE32, NAN32, "v_sqrt_f32 v30, v10", NULL },
    { PALL, "all finite", { 0xbf800000 }, ONE32, NAN32, "v_rsq_f32 v30, v10", NULL },
    { PALL, "all finite", { 0xbf800000 }, ONE32, NAN32, "v_log_f32 v30, v10", NULL },
#define INF16                                                                                                          \
    {                                                                                                                  \
        0x7c00                                                                                                         \
    }
#define ONE16                                                                                                          \
    {                                                                                                                  \
        0x3c00                                                                                                         \
    }
#define NAN16                                                                                                          \
    {                                                                                                                  \
        0x7e00                                                                                                         \
    }
#define F16(archs, says, what)                                                                                         \
    {                                                                                                                  \
        archs, says, INF16, ONE16, NAN16, what, NULL                                                                   \
    }
    F16(PALL, "of inf, inf in lane 0", "v_sub_f16 v30, v10, v10"),
    F16(PALL, INFINITE, "v_fma_f16 v30, v10, v2, v2"),
    F16(PALL, INFINITE, "v_pk_mul_f16 v30, v10, v2"),
    F16(PALL, INFINITE, "v_pk_fma_f16 v30, v10, v2, v2"),
    F16(PALL, INFINITE, "v_fma_mix_f32 v30, v10, v2, v2 op_sel_hi:[1,1,1]"),
    F16(PALL, INFINITE, "v_mov_b32 v30, 0\nv_fma_mixlo_f16 v30, v10, v2, v2 op_sel_hi:[1,1,1]"),
    F16(PALL, INFINITE, "v_mov_b32 v30, 0\nv_fma_mixhi_f16 v30, v10, v2, v2 op_sel_hi:[1,1,1]"),
    F16(PALL, INFINITE, "v_dot2_f32_f16 v30, v10, v2, v2"),
    F16(P9, INFINITE, "v_mul_f16_sdwa v30, v10, v2 dst_sel:DWORD src0_sel:WORD_0 src1_sel:WORD_0"),
    { PALL, INFINITE, { 0x7c000000 }, { 0x3c000000 }, { 0x7e000000 }, "v_pk_mul_f16 v30, v10, v2", NULL },
    { PALL,
      INFINITE,
      { 0x7c000000 },
      { 0x3c000000 },
      { 0x7e000000 },
      "v_fma_mix_f32 v30, v10, v2, v2 op_sel:[1,0,0] op_sel_hi:[1,1,1]",
      NULL },
    { PALL, INFINITE, { 0x7c000000 }, { 0x3c000000 }, { 0x7e000000 }, "v_dot2_f32_f16 v30, v10, v2, v2", NULL },
    { PALL, "all finite", { 0xbc00 }, ONE16, NAN16, "v_sqrt_f16 v30, v10", NULL },
    { P11, INFINITE, { 0x7f80 }, { 0x3f80 }, { 0x7fc0 }, "v_dot2_f32_bf16 v30, v10, v2, v2", NULL },
#define F64(says, hi, what)                                                                                            \
    {                                                                                                                  \
        PALL, says, { 0, hi }, { 0, 0x3ff00000 }, { 0, 0x7ff80000 }, what, "global_store_dwordx2 v1, v[30:31], s[2:3]" \
    }
    F64("of inf, 0 in lane 0", 0x7ff00000, "v_mul_f64 v[30:31], v[10:11], v[2:3]"),
    F64(INFINITE, 0x7ff00000, "v_add_f64 v[30:31], v[10:11], -v[10:11]"),
    F64(INFINITE, 0x7ff00000, "v_fma_f64 v[30:31], v[10:11], v[2:3], v[2:3]"),
    F64("of -1 in lane 0, all finite", 0xbff00000, "v_sqrt_f64 v[30:31], v[10:11]"),
    { PALL,
      INFINITE,
      { 0, 0x7ff00000 },
      { 0, 0x3ff00000 },
      { 0, 0x7ff80000 },
      "v_mul_f64 v[32:33], v[10:11], v[2:3]\nv_cvt_f32_f64 v30, v[32:33]",
      NULL },
    { P94, "all finite", { 0x49742400 }, ONE32, NAN32, "v_mov_b32 v30, 0\nv_cvt_pk_fp8_f32 v30, v10, v2", NULL },
    { P942, "all finite", { 0x49742400 }, ONE32, NAN32, "v_mov_b32 v30, 0\nv_cvt_pk_bf8_f32 v30, v2, v10", NULL },
    { P94,
      "all finite",
      { 0x49742400 },
      ONE32,
      NAN32,
      "v_mov_b32 v30, 0\nv_cvt_pk_fp8_f32 v30, v10, v2 op_sel:[0,0,1]",
      NULL },
/* matrices: A, B, C */
#define MATRIX "a row of A and a column of B in lane"
    { P9, MATRIX, INF16, ONE16, NAN16, "v_mfma_f32_4x4x4f16 v[30:33], v[10:11], v[2:3], 0", NULL },
    { P9, MATRIX, INF16, ONE16, NAN16, "v_mfma_f32_4x4x4f16 v[30:33], v[2:3], v[10:11], 0", NULL },
    { P9, MATRIX, INF16, ONE16, NAN16, "v_mfma_f32_16x16x16f16 v[30:33], v[10:11], v[2:3], 0", NULL },
    { P9, MATRIX, { 0x7f80 }, { 0x3f80 }, { 0x7fc0 }, "v_mfma_f32_4x4x4bf16_1k v[30:33], v[10:11], v[2:3], 0", NULL },
    { P9, MATRIX, INF32, ONE32, NAN32, "v_mfma_f32_4x4x1f32 v[30:33], v10, v2, 0", NULL },
    { P9,
      MATRIX,
      { 0, 0x7ff00000 },
      { 0, 0x3ff00000 },
      { 0, 0x7ff80000 },
      "v_mfma_f64_4x4x4f64 v[30:31], v[10:11], v[2:3], 0",
      "global_store_dwordx2 v1, v[30:31], s[2:3]" },
    { P942, MATRIX, INF32, ONE32, NAN32, "v_mfma_f32_16x16x8_xf32 v[30:33], v[10:11], v[2:3], 0", NULL },
#define MINUS_INF_C                                                                                                    \
    "v_mov_b32 v11, 0\nv_mov_b32 v12, 0\nv_mov_b32 v13, 0\nv_mov_b32 v20, 0xfc00\nv_mov_b32 v21, 0\n"                  \
    "v_mov_b32 v22, 0x3c00\nv_mov_b32 v23, 0\n"
#define AB                                                                                                             \
    "v_mov_b32 v46, 0\nv_mov_b32 v47, 0\nv_mov_b32 v40, v10\n.irp "                                                    \
    "r,41,42,43,44,45,50,51,52,53,54,55,56,57,30,31,32,33,34,35,36,37\nv_mov_b32 v\\r, 0\n.endr\n"
    { P11, MATRIX, INF16, ONE16, NAN16, AB "v_wmma_f32_16x16x16_f16 v[30:37], v[40:47], v[50:57], v[30:37]", NULL },
    { P11,
      MATRIX,
      { 0x7f80 },
      { 0x3f80 },
      { 0x7fc0 },
      AB "v_wmma_f32_16x16x16_bf16 v[30:37], v[40:47], v[50:57], v[30:37]",
      NULL },
    { P9, MATRIX, INF32, ONE32, NAN32, MINUS_INF_C "v_mfma_f32_4x4x4f16 v[30:33], v[20:21], v[22:23], v[10:13]", NULL },
/* where it may end, and how it gets there */
#define BORN "v_sub_f32 v20, v10, v10\n"
    { PALL, "reaches 'ds_", INF32, ONE32, NAN32, BORN, "ds_write_b32 v1, v20" },
    { PALL, "reaches 'global_atomic", INF32, ONE32, NAN32, BORN, "global_atomic_add_f32 v1, v20, s[2:3]" },
    { PALL, "reaches 'buffer_store", INF32, ONE32, NAN32, BORN, "buffer_store_dword v20, v1, s[12:15], 0 offen" },
    { PALL, "reaches 'flat_store", INF32, ONE32, NAN32, BORN, "flat_store_dword v[4:5], v20" },
    { PALL, "reaches 'global_store", INF32, ONE32, NAN32, BORN "v_mov_b32 v30, v20", NULL },
    { PALL, "v_sub_f32", INF32, ONE32, NAN32, BORN "v_add_f32 v30, 1.0, v20", NULL },
    { PALL, "reaches 'global_store", INF32, ONE32, NAN32, BORN "ds_bpermute_b32 v30, v1, v20\ns_waitcnt lgkmcnt(0)",
      NULL },
    { PALL, "reaches 'global_store", INF32, ONE32, NAN32, BORN "v_cvt_f16_f32 v30, v20", NULL },
    { PALL, "reaches 'global_store", INF32, ONE32, NAN32, BORN "v_lshrrev_b32 v30, 16, v20",
      "global_store_short v1, v30, s[2:3]" },
    { P9, "reaches 'global_store", INF32, ONE32, NAN32, BORN "v_accvgpr_write_b32 a2, v20\nv_accvgpr_read_b32 v30, a2",
      NULL },
    { PALL, "reaches 'global_store", INF32, ONE32, NAN32,
      BORN ".if WAVE == 64\ns_mov_b64 vcc, -1\nv_cndmask_b32 v30, v2, v20, vcc\n.else\ns_mov_b32 vcc_lo, "
           "-1\nv_cndmask_b32 v30, v2, v20, vcc_lo\n.endif",
      NULL },
    /* another value is stored: says nothing */
    { PALL, NULL, INF32, ONE32, NAN32,
      BORN ".if WAVE == 64\ns_mov_b64 vcc, 0\nv_cndmask_b32 v30, v2, v20, vcc\n.else\ns_mov_b32 vcc_lo, "
           "0\nv_cndmask_b32 v30, v2, v20, vcc_lo\n.endif",
      NULL },
    { PALL, NULL, INF32, ONE32, NAN32, BORN "v_mov_b32 v20, 0\nv_mov_b32 v30, v20", NULL },
    { PALL, NULL, INF32, ONE32, NAN32, BORN "v_max_f32 v30, v20, v2", NULL },
    { PALL, NULL, INF32, ONE32, NAN32, BORN "LANES 0", "global_store_dword v1, v20, s[2:3]" },
    { PALL, NULL, INF32, ONE32, NAN32, "v_add_f32 v30, v10, v10", NULL },
    { PALL, NULL, INF32, ONE32, NAN32, "v_rcp_f32 v30, v10", NULL },
    { PALL, NULL, { 0x7f7fffff }, ONE32, NAN32, "v_mul_f32 v30, v10, v10", NULL },
};

void pairs_nan(struct pairs *p)
{
    for (size_t k = 0; k < sizeof(nans) / sizeof(nans[0]); k++) {
        const struct nan *n = &nans[k];
        const uint32_t *const values[] = { n->bad, n->good, n->nan };
        const char *programs[3];
        for (int v = 0; v < 3; v++)
            programs[v] = text(BEGIN "v_mov_b32 v10, 0x%x\nv_mov_b32 v11, 0x%x\n%s\n%s", values[v][0], values[v][1],
                               n->text, n->ends ? n->ends : "global_store_dword v1, v30, s[2:3]");
        struct pair pair = { .archs = n->archs,
                             .rule = text("%s, row %zu", n->says ? n->says : "not stored", k),
                             .check = "nan-born",
                             .says = n->says,
                             .groups = "nan" };
        pair.bad = n->says ? programs[0] : NULL;
        pair.good = n->says ? programs[1] : programs[0];
        pair_add(p, &pair);
        pair.bad = NULL;
        pair.good = programs[2];
        pair_add(p, &pair);
    }
}

void pairs_access(struct pairs *p)
{
    bounds(p);
    for (size_t k = 0; k < sizeof(faults) / sizeof(faults[0]); k++) {
        const struct fault *f = &faults[k];
        pair_add(p, &(struct pair){ .archs = f->archs,
                                    .rule = text("%s: %s, row %zu", f->check, f->says ? f->says : "", k),
                                    .check = f->check,
                                    .says = f->says,
                                    .groups = "none",
                                    .waves = f->waves,
                                    .bad = text(BEGIN "%s%s", f->before, f->bad),
                                    .good = text(BEGIN "%s%s", f->before, f->good) });
    }
}
