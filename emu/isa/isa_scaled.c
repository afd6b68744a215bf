/* SPDX-License-Identifier: MIT
 *
 * v_mfma_f32_*_f8f6f4 and v_mfma_scale_f32_*_f8f6f4 of gfx950: each of A and B in fp8, bf8, fp6, bf6 or fp4 (CBSZ,
 * BLGP), each 32 values of K with a scale of their own. Source: AMD, "CDNA4 Instruction Set Architecture", 7.1.5
 * and 7.2: A   lane l holds row l % M. fp6, fp4: 32 values from k = 32 (l / M) on. fp8, bf8: 16 from k = 16 (l / M) on
 * and 16 from K / 2 + 16 (l / M) on B   the same with columns for rows; D as in isa_matrix.c scales   lane l has the
 * one of row (column) l % M, k from 32 (l / M) on, in the byte {op_sel_hi, op_sel} The products of a block are added
 * exactly (in double), scaled, and added to the sum in f32: AMD doesn't say in which order and width the hardware does
 * it. */
#include "narrow.h"

enum { MOST_K = 128, MOST_M = 32 };

/* x[k][row]; a float holds each value of these formats. */
static void unpack(const struct emu_wave *w, const struct emu_inst *i, int operand, int m, enum narrow type,
                   float (*x)[MOST_M])
{
    int bits = narrow_bits(type), groups = 64 / m;
    row32 t;
    uint32_t a[8][64];
    double values[256];
    for (uint32_t v = 0; v < 1u << bits; v++)
        values[v] = narrow_value(v, type);
    for (int k = 0; k < bits; k++)
        memcpy(a[k], src_word(w, i, operand, k, t), 256);
    for (int e = 0; e < 32; e++) {
        unsigned at = (unsigned)(e * bits), word = at / 32, shift = at % 32,
                 next = word + 1 < (unsigned)bits ? word + 1 : word;
        for (int l = 0; l < 64; l++) {
            uint64_t two = a[word][l] | (uint64_t)a[next][l] << 32;
            int g = l / m, k = bits == 8 ? 16 * groups * (e / 16) + 16 * g + e % 16 : 32 * g + e;
            x[k][l % m] = (float)values[two >> shift & ((1u << bits) - 1)];
        }
    }
}
static void unpack_scales(const struct emu_wave *w, const struct emu_inst *i, int operand, int which, double *scale)
{
    row32 t;
    if (i->n < 6) {
        LANES scale[l] = 1;
        return;
    }
    const uint32_t *s = src(w, i, operand, t);
    bool constant = i->reg[operand] < EMU_VGPR; /* a float, of which the exponent counts */
    unsigned byte = (i->mods->op_sel >> which & 1u) | (i->mods->op_sel_hi >> which & 1u) << 1;
    LANES scale[l] = narrow_scale(constant ? s[l] >> 23 & 255 : s[l] >> 8 * byte & 255);
}

H(mfma_narrow)
{
    int m = (int)(i->op->info & 255), k_all = (int)(i->op->info >> 8 & 255);
    float a[MOST_K][MOST_M], b[MOST_K][MOST_M];
    rowd sa, sb;
    float c[16][64];
    row32 t;
    unpack(w, i, 1, m, (enum narrow)i->mods->cbsz, a);
    unpack(w, i, 2, m, (enum narrow)i->mods->blgp, b);
    unpack_scales(w, i, 4, 0, sa);
    unpack_scales(w, i, 5, 1, sb);
    for (int r = 0; r < m * m / 64; r++) {
        const uint32_t *from = src_word(w, i, 3, i->reg[3] == EMU_CONST ? 0 : r, t);
        memcpy(c[r], from, 256);
    }
    for (int row = 0; row < m; row++) {
        int reg = m == 32 ? 4 * (row / 8) + row % 4 : row % 4, lane = m == 32 ? 32 * (row / 4 % 2) : 16 * (row / 4);
        for (int block = 0; block < k_all / 32; block++) {
            double sum[MOST_M] = { 0 };
            for (int k = 32 * block; k < 32 * block + 32; k++)
                for (int column = 0; column < m; column++)
                    sum[column] += (double)a[k][row] * b[k][column];
            for (int column = 0; column < m; column++) {
                double scale = sa[m * block + row] * sb[m * block + column];
                c[reg][lane + column] = (float)((double)c[reg][lane + column] + sum[column] * scale);
            }
        }
    }
    for (int r = 0; r < m * m / 64; r++)
        memcpy(vrow(w, i->reg[0] + (unsigned)r), c[r], 256);
}

static const struct emu_op rows[] = {
#define ROW(name, sig, m, k)                                                                                           \
    { "v_mfma_f32_" name, h_mfma_narrow, sig, EMU_MFMA, (m) | (k) << 8 },                                              \
        { "v_mfma_scale_f32_" name, h_mfma_narrow, sig " s1 s1", EMU_MFMA, (m) | (k) << 8 },
    ROW("16x16x128_f8f6f4", "d4 s0 s0 s4f", 16, 128) ROW("32x32x64_f8f6f4", "d16 s0 s0 s16f", 32, 64)
};
const struct emu_ops EMU_N(ops_scaled) = { rows, COUNT(rows) };
