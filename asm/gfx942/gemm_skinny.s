/* SPDX-License-Identifier: MIT
 *
 * asm/gemm_skinny.inc for CDNA 3. */
.amdgcn_target "amdgcn-amd-amdhsa--gfx942"

/* Read once, kept out of the way of what is worth caching. */
.macro load_w dst, offset, imm
    global_load_dwordx4 v[\dst:\dst + 3], v[\offset], s[S_W:S_W + 1] offset:\imm nt
.endm

.macro mma_bf16 acc, a, b
    v_mfma_f32_4x4x4_16b_bf16 v[\acc:\acc + 3], v[\a:\a + 1], v[\b:\b + 1], v[\acc:\acc + 3]
.endm

.macro mma_f16 acc, a, b
    v_mfma_f32_4x4x4_16b_f16 v[\acc:\acc + 3], v[\a:\a + 1], v[\b:\b + 1], v[\acc:\acc + 3]
.endm

.macro zero_pair dst
    v_mov_b64 v[\dst:\dst + 1], 0
.endm

#include "asm/gemm_skinny.inc"
