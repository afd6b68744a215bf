/* SPDX-License-Identifier: MIT
 *
 * How long matrix instructions keep their SIMD's matrix core busy: until the next one may begin. In cycles; the ISA
 * guides count passes of 4. gfx90a and gfx1100: AMD's matrix instruction calculator. gfx942: LLVM 19's scheduling model
 * (llvm-mca's reciprocal throughput in passes), which agrees with the calculator on every row of gfx90a, and with
 * MI300X's published peak rates. gfx950: AMD's "CDNA4 Instruction Set Architecture", 7.1.5, table 33, and MI355X's
 * published peak rates; its 16x16x4 of fp64 takes twice as long as gfx942's. Names are distinct where the cycles are:
 * those without an underscore before the type are gfx90a's, those with one gfx942's. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "counters.h"

#define GFX12 "_gfx12" /* where gfx11 has an instruction of that name too */
static const struct {
    const char *name;
    unsigned cycles;
} table[] = {
    /* gfx90a */
    { "mfma_f32_32x32x1f32", 64 },
    { "mfma_f32_16x16x1f32", 32 },
    { "mfma_f32_4x4x1f32", 8 },
    { "mfma_f32_32x32x2f32", 64 },
    { "mfma_f32_16x16x4f32", 32 },
    { "mfma_f32_32x32x4f16", 64 },
    { "mfma_f32_16x16x4f16", 32 },
    { "mfma_f32_4x4x4f16", 8 },
    { "mfma_f32_32x32x8f16", 64 },
    { "mfma_f32_16x16x16f16", 32 },
    { "mfma_f32_32x32x2bf16", 64 },
    { "mfma_f32_16x16x2bf16", 32 },
    { "mfma_f32_4x4x2bf16", 8 },
    { "mfma_f32_32x32x4bf16", 64 },
    { "mfma_f32_16x16x8bf16", 32 },
    { "mfma_f32_32x32x4bf16_1k", 64 },
    { "mfma_f32_16x16x4bf16_1k", 32 },
    { "mfma_f32_4x4x4bf16_1k", 8 },
    { "mfma_f32_32x32x8bf16_1k", 64 },
    { "mfma_f32_16x16x16bf16_1k", 32 },
    { "mfma_i32_32x32x4i8", 64 },
    { "mfma_i32_16x16x4i8", 32 },
    { "mfma_i32_4x4x4i8", 8 },
    { "mfma_i32_32x32x8i8", 64 },
    { "mfma_i32_16x16x16i8", 32 },
    { "mfma_f64_16x16x4f64", 32 },
    { "mfma_f64_4x4x4f64", 16 },
    /* gfx942 */
    { "mfma_f32_32x32x1_2b_f32", 64 },
    { "mfma_f32_16x16x1_4b_f32", 32 },
    { "mfma_f32_4x4x1_16b_f32", 8 },
    { "mfma_f32_32x32x2_f32", 64 },
    { "mfma_f32_16x16x4_f32", 32 },
    { "mfma_f32_32x32x4_2b_f16", 64 },
    { "mfma_f32_16x16x4_4b_f16", 32 },
    { "mfma_f32_4x4x4_16b_f16", 8 },
    { "mfma_f32_32x32x8_f16", 32 },
    { "mfma_f32_16x16x16_f16", 16 },
    { "mfma_f32_32x32x4_2b_bf16", 64 },
    { "mfma_f32_16x16x4_4b_bf16", 32 },
    { "mfma_f32_4x4x4_16b_bf16", 8 },
    { "mfma_f32_32x32x8_bf16", 32 },
    { "mfma_f32_16x16x16_bf16", 16 },
    { "mfma_f32_16x16x8_xf32", 16 },
    { "mfma_f32_32x32x4_xf32", 32 },
    { "mfma_f32_16x16x32_fp8_fp8", 16 },
    { "mfma_f32_16x16x32_fp8_bf8", 16 },
    { "mfma_f32_16x16x32_bf8_fp8", 16 },
    { "mfma_f32_16x16x32_bf8_bf8", 16 },
    { "mfma_f32_32x32x16_fp8_fp8", 32 },
    { "mfma_f32_32x32x16_fp8_bf8", 32 },
    { "mfma_f32_32x32x16_bf8_fp8", 32 },
    { "mfma_f32_32x32x16_bf8_bf8", 32 },
    { "mfma_i32_32x32x4_2b_i8", 64 },
    { "mfma_i32_16x16x4_4b_i8", 32 },
    { "mfma_i32_4x4x4_16b_i8", 8 },
    { "mfma_i32_32x32x16_i8", 32 },
    { "mfma_i32_16x16x32_i8", 16 },
    { "mfma_f64_16x16x4_f64", 32 },
    { "mfma_f64_4x4x4_4b_f64", 16 },
    /* twice the dense ones' K in the same time, as MI300X's published peaks say */
    { "smfmac_f32_16x16x32_f16", 16 },
    { "smfmac_f32_32x32x16_f16", 32 },
    { "smfmac_f32_16x16x32_bf16", 16 },
    { "smfmac_f32_32x32x16_bf16", 32 },
    { "smfmac_i32_16x16x64_i8", 16 },
    { "smfmac_i32_32x32x32_i8", 32 },
    { "smfmac_f32_16x16x64_fp8_fp8", 16 },
    { "smfmac_f32_32x32x32_fp8_fp8", 32 },
    { "smfmac_f32_16x16x64_fp8_bf8", 16 },
    { "smfmac_f32_32x32x32_fp8_bf8", 32 },
    { "smfmac_f32_16x16x64_bf8_fp8", 16 },
    { "smfmac_f32_32x32x32_bf8_fp8", 32 },
    { "smfmac_f32_16x16x64_bf8_bf8", 16 },
    { "smfmac_f32_32x32x32_bf8_bf8", 32 },
    /* gfx950; f8f6f4 without more: of fp6 and fp4 */
    { "mfma_f64_16x16x4_f64 of gfx950", 64 },
    { "mfma_f32_16x16x32_f16", 16 },
    { "mfma_f32_16x16x32_bf16", 16 },
    { "mfma_f32_32x32x16_f16", 32 },
    { "mfma_f32_32x32x16_bf16", 32 },
    { "mfma_i32_16x16x64_i8", 16 },
    { "mfma_i32_32x32x32_i8", 32 },
    { "mfma_f32_16x16x128_f8f6f4", 16 },
    { "mfma_f32_16x16x128_f8f6f4 with 8 bits", 32 },
    { "mfma_f32_32x32x64_f8f6f4", 32 },
    { "mfma_f32_32x32x64_f8f6f4 with 8 bits", 64 },
    { "mfma_scale_f32_16x16x128_f8f6f4", 16 },
    { "mfma_scale_f32_16x16x128_f8f6f4 with 8 bits", 32 },
    { "mfma_scale_f32_32x32x64_f8f6f4", 32 },
    { "mfma_scale_f32_32x32x64_f8f6f4 with 8 bits", 64 },
    { "smfmac_f32_16x16x64_f16", 16 },
    { "smfmac_f32_16x16x64_bf16", 16 },
    { "smfmac_i32_16x16x128_i8", 16 },
    { "smfmac_f32_16x16x128_fp8_fp8", 16 },
    { "smfmac_f32_16x16x128_fp8_bf8", 16 },
    { "smfmac_f32_16x16x128_bf8_fp8", 16 },
    { "smfmac_f32_16x16x128_bf8_bf8", 16 },
    { "smfmac_f32_32x32x32_f16", 32 },
    { "smfmac_f32_32x32x32_bf16", 32 },
    { "smfmac_i32_32x32x64_i8", 32 },
    { "smfmac_f32_32x32x64_fp8_fp8", 32 },
    { "smfmac_f32_32x32x64_fp8_bf8", 32 },
    { "smfmac_f32_32x32x64_bf8_fp8", 32 },
    { "smfmac_f32_32x32x64_bf8_bf8", 32 },
    /* gfx1100; the calculator has one number for waves of 32 and of 64 */
    { "wmma_f32_16x16x16_f16", 32 },
    { "wmma_f32_16x16x16_bf16", 32 },
    { "wmma_f16_16x16x16_f16", 32 },
    { "wmma_bf16_16x16x16_bf16", 32 },
    { "wmma_i32_16x16x16_iu8", 32 },
    { "wmma_i32_16x16x16_iu4", 16 },
    /* gfx12: from RX 9070 XT's published peaks (64 CUs of two SIMDs: 195 TFLOP/s of fp16, twice of fp8 and int8, four
       times of int4) */
    { "wmma_f32_16x16x16_f16" GFX12, 16 },
    { "wmma_f32_16x16x16_bf16" GFX12, 16 },
    { "wmma_f16_16x16x16_f16" GFX12, 16 },
    { "wmma_bf16_16x16x16_bf16" GFX12, 16 },
    { "wmma_f32_16x16x16_fp8_fp8", 8 },
    { "wmma_f32_16x16x16_fp8_bf8", 8 },
    { "wmma_f32_16x16x16_bf8_fp8", 8 },
    { "wmma_f32_16x16x16_bf8_bf8", 8 },
    { "wmma_i32_16x16x16_iu8" GFX12, 8 },
    { "wmma_i32_16x16x16_iu4" GFX12, 8 },
    { "wmma_i32_16x16x32_iu4", 8 },
    { "swmmac_f32_16x16x32_f16", 16 },
    { "swmmac_f32_16x16x32_bf16", 16 },
    { "swmmac_f16_16x16x32_f16", 16 },
    { "swmmac_bf16_16x16x32_bf16", 16 },
    { "swmmac_f32_16x16x32_fp8_fp8", 8 },
    { "swmmac_f32_16x16x32_fp8_bf8", 8 },
    { "swmmac_f32_16x16x32_bf8_fp8", 8 },
    { "swmmac_f32_16x16x32_bf8_bf8", 8 },
    { "swmmac_i32_16x16x32_iu8", 8 },
    { "swmmac_i32_16x16x32_iu4", 8 },
    { "swmmac_i32_16x16x64_iu4", 8 },
};
#define ROWS (int)(sizeof(table) / sizeof(table[0]))
static_assert(sizeof(table) / sizeof(table[0]) <= EMU_MATRIX_ROWS, "emu_counters.by_matrix is too small");

int emu_matrix_find(const char *op_name, int gfx)
{
    char own[80];
    int found = -1;
    snprintf(own, sizeof(own), "%s" GFX12, op_name);
    for (int row = 0; row < ROWS && !strncmp(op_name, "v_", 2); row++)
        if (!strcmp(op_name + 2, table[row].name) || (gfx >= 0x1200 && !strcmp(own + 2, table[row].name)))
            found = row; /* gfx12's comes later */
    return found;
}

const char *emu_matrix_name(int row)
{
    return row >= 0 && row < ROWS ? table[row].name : NULL;
}

/* Longer ones of a name have rows of their own. */
int emu_matrix_row(const struct emu_arch *arch, const struct emu_inst *i)
{
    char name[80];
    bool narrow = strstr(i->op->name, "f8f6f4") && (i->mods->cbsz < 2 || i->mods->blgp < 2),
         f64 = arch->gfx == 0x950 && !strcmp(i->op->name, "v_mfma_f64_16x16x4_f64");
    snprintf(name, sizeof(name), "%s%s", i->op->name, narrow ? " with 8 bits" : f64 ? " of gfx950" : "");
    return emu_matrix_find(name, arch->gfx);
}

unsigned emu_matrix_cycles(int row)
{
    return row >= 0 && row < ROWS ? table[row].cycles : 0;
}
