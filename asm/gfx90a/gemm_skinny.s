/* SPDX-License-Identifier: MIT
 *
 * asm/gemm_skinny.inc for CDNA 2. bf16 only: its matrix instructions take subnormal fp16 inputs for 0, and weights do
 * have such values (subnormal bf16 are below 1e-38). */
.amdgcn_target "amdgcn-amd-amdhsa--gfx90a"

/* Read once, kept out of the way of what is worth caching: streaming in L1 (glc) and L2 (slc). */
.macro load_w dst, offset, imm
    global_load_dwordx4 v[\dst:\dst + 3], v[\offset], s[S_W:S_W + 1] offset:\imm glc slc
.endm

.macro mma_bf16 acc, a, b
    v_mfma_f32_4x4x4bf16_1k v[\acc:\acc + 3], v[\a:\a + 1], v[\b:\b + 1], v[\acc:\acc + 3]
.endm

.macro mma_f16 acc, a, b
    .error "fp16 on gfx90a: its matrix instructions flush subnormals"
.endm

.macro zero_pair dst
    v_mov_b32 v[\dst], 0
    v_mov_b32 v[\dst + 1], 0
.endm

#include "asm/gemm_skinny.inc"
