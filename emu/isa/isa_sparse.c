/* SPDX-License-Identifier: MIT
 *
 * v_smfmac_*: sparse matrix multiply-accumulate of gfx942 and gfx950, D += A B. Of each four values of K, A holds two
 * (the others are 0) and the index operand says which: 2 bits for each element of A, lowest first. A lane's elements of
 * A are of row l % M, and of as many fours as it holds pairs, from l / M on; B and D are as those of an MFMA with all
 * of K. Sources: "AMD Instinct MI300" ISA guide, sparse matrix multiplication.
 *
 * With CBSZ 0, ABID says which of the index register's sets is taken: four of 8 bits where A has 16-bit elements, two
 * of 16 bits where it has bytes; else it is the first. gfx950's with twice the K have half as many sets, of
 * twice the bits, and hold of K what two instructions with half of it would: its second half is in the upper half of
 * A's and B's registers (AMD, "CDNA4 Instruction Set Architecture", 7.5.1.3). */
#include "isa_math.h"

enum type { S_F16, S_BF16, S_FP8, S_BF8, S_I8 };
#define SPARSE(m, ta, tb) ((m) | (unsigned)(ta) << 8 | (unsigned)(tb) << 12)
#define DEEP              0x10000 /* gfx950: twice the K */

static float narrow_float(uint32_t x, int mantissa, bool fnuz)
{
    int bits = 7 - mantissa, bias = (1 << (bits - 1)) - 1 + fnuz;
    uint32_t e = x >> mantissa & ((1u << bits) - 1), f = x & ((1u << mantissa) - 1);
    bool nan = fnuz ? x == 0x80 : mantissa == 3 ? (x & 0x7f) == 0x7f : e == 31 && f;
    if (nan)
        return NAN;
    float v = !fnuz && mantissa == 2 && e == 31 ? INFINITY
              : e                               ? ldexpf((float)(f | 1u << mantissa), (int)e - bias - mantissa)
                                                : ldexpf((float)f, 1 - bias - mantissa);
    return x & 0x80 ? -v : v;
}

/* Element e of lane l of operand k. */
static float element(const struct emu_wave *w, const struct emu_inst *i, int k, int e, int l, int type)
{
    unsigned per = type <= S_BF16 ? 2 : 4;
    uint32_t word = vrow(w, i->reg[k] + (unsigned)e / per)[l], x = word >> 32 / per * ((unsigned)e % per);
    return type == S_F16    ? h2f(x & 0xffff)
           : type == S_BF16 ? bf2f(x & 0xffff)
           : type == S_I8   ? (float)(int8_t)x
                            : narrow_float(x & 0xff, type == S_FP8 ? 3 : 2, w->prog->arch->fnuz);
}

static void smfmac(struct emu_wave *w, const struct emu_inst *i, bool integer)
{
    int m = (int)(i->op->info & 255), ta = (int)(i->op->info >> 8 & 15), tb = (int)(i->op->info >> 12 & 15);
    bool deep = i->op->info & DEEP;
    int n = (ta <= S_BF16 ? 4 : 8) << deep /* elements of A a lane */, groups = 64 / m, regs = m * m / 64;
    unsigned set = 2u * (unsigned)n, shift = i->mods->cbsz ? 0 : set * (i->mods->abid & (32 / set - 1));
    float a[16][64], b[32][64];
    uint8_t from[16][64];
    const uint32_t *index = vrow(w, i->reg[3]);
    for (int l = 0; l < 64; l++) {
        for (int e = 0; e < n; e++) {
            a[e][l] = element(w, i, 1, e, l, ta);
            from[e][l] = (uint8_t)(4 * (e / 2) + (index[l] >> (shift + 2u * (unsigned)e) & 3));
        }
        for (int e = 0; e < 2 * n; e++)
            b[e][l] = element(w, i, 2, e, l, tb);
    }
    for (int r = 0; r < regs; r++) {
        uint32_t *d = vrow(w, i->reg[0] + (unsigned)r);
        for (int l = 0; l < 64; l++) {
            int row = m == 32 ? 8 * (r / 4) + 4 * (l / 32) + r % 4 : 4 * (l / 16) + r, column = l % m;
            float sum = as_f32(d[l]);
            uint32_t isum = d[l];
            for (int g = 0; g < groups; g++)
                for (int e = 0; e < n; e++) {
                    int la = g * m + row;
                    float x = a[e][la], y = b[from[e][la]][g * m + column];
                    if (integer)
                        isum += (uint32_t)((int32_t)x * (int32_t)y);
                    else
                        sum = __builtin_fmaf(x, y, sum);
                }
            d[l] = integer ? isum : as_u32(sum);
        }
    }
}
H(smfmac_f32)
{
    smfmac(w, i, false);
}
H(smfmac_i32)
{
    smfmac(w, i, true);
}

/* clang-format off */
static const struct emu_op rows[] = {
#define DEEPER(n16, n32, fn, ta, tb)                                                                                   \
    { "v_smfmac_" n16, fn, "b4 s4 s8 s1", EMU_MFMA, SPARSE(16, ta, tb) | DEEP },                                       \
    { "v_smfmac_" n32, fn, "b16 s4 s8 s1", EMU_MFMA, SPARSE(32, ta, tb) | DEEP },
    DEEPER("f32_16x16x64_f16", "f32_32x32x32_f16", h_smfmac_f32, S_F16, S_F16)
    DEEPER("f32_16x16x64_bf16", "f32_32x32x32_bf16", h_smfmac_f32, S_BF16, S_BF16)
    DEEPER("i32_16x16x128_i8", "i32_32x32x64_i8", h_smfmac_i32, S_I8, S_I8)
    DEEPER("f32_16x16x128_fp8_fp8", "f32_32x32x64_fp8_fp8", h_smfmac_f32, S_FP8, S_FP8)
    DEEPER("f32_16x16x128_fp8_bf8", "f32_32x32x64_fp8_bf8", h_smfmac_f32, S_FP8, S_BF8)
    DEEPER("f32_16x16x128_bf8_fp8", "f32_32x32x64_bf8_fp8", h_smfmac_f32, S_BF8, S_FP8)
    DEEPER("f32_16x16x128_bf8_bf8", "f32_32x32x64_bf8_bf8", h_smfmac_f32, S_BF8, S_BF8)
#define ROW(n16, n32, fn, ab, d16, d32, ta, tb)                                                                        \
    { "v_smfmac_" n16, fn, d16 ab " s1", EMU_MFMA, SPARSE(16, ta, tb) },                                               \
    { "v_smfmac_" n32, fn, d32 ab " s1", EMU_MFMA, SPARSE(32, ta, tb) },
    ROW("f32_16x16x32_f16", "f32_32x32x16_f16", h_smfmac_f32, " s2 s4", "b4", "b16", S_F16, S_F16)
    ROW("f32_16x16x32_bf16", "f32_32x32x16_bf16", h_smfmac_f32, " s2 s4", "b4", "b16", S_BF16, S_BF16)
    ROW("i32_16x16x64_i8", "i32_32x32x32_i8", h_smfmac_i32, " s2 s4", "b4", "b16", S_I8, S_I8)
    ROW("f32_16x16x64_fp8_fp8", "f32_32x32x32_fp8_fp8", h_smfmac_f32, " s2 s4", "b4", "b16", S_FP8, S_FP8)
    ROW("f32_16x16x64_fp8_bf8", "f32_32x32x32_fp8_bf8", h_smfmac_f32, " s2 s4", "b4", "b16", S_FP8, S_BF8)
    ROW("f32_16x16x64_bf8_fp8", "f32_32x32x32_bf8_fp8", h_smfmac_f32, " s2 s4", "b4", "b16", S_BF8, S_FP8)
    ROW("f32_16x16x64_bf8_bf8", "f32_32x32x32_bf8_bf8", h_smfmac_f32, " s2 s4", "b4", "b16", S_BF8, S_BF8)
};
/* clang-format on */
const struct emu_ops EMU_N(ops_sparse) = { rows, COUNT(rows) };
