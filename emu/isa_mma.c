/* SPDX-License-Identifier: MIT
 *
 * Matrix instructions. D[i][j] = C[i][j] + sum over k of A[i][k] B[k][j], for each block. Products are exact, sums are
 * taken in fp32 (fp64 for f64) one product after another in the order of k; AMD does not document its order within an
 * instruction.
 *
 * MFMA layouts (AMD's matrix instruction calculator; CDNA 3 ISA guide, "Matrix arithmetic instructions"): with kpl
 * elements a lane and groups = K / kpl, element k of row i of A's block b is element k % kpl of lane i + M (b groups +
 * k / kpl), B's column j alike. Of D, lane l holds column l % N; its register v of a block is row 4 (l / N) + v % 4,
 * plus 8 (v / 4) when M is 32. WMMA (RDNA 3): lanes 0..15 hold rows of A and columns of B, 16..31 the same again; D's
 * register v is row 2 v + lane / 16. */
#include <math.h>
#include <stdlib.h>

#include "isa.h"

#include "float.h"

#if !defined(EMU_SUFFIX)
#define EMU_SUFFIX portable
#endif
#define JOIN_(a, b) a##_##b
#define JOIN(a, b)  JOIN_(a, b)

enum type { F16, BF16, F32, I8, FP8, BF8, XF32, F64 };

static const struct shape {
    uint8_t m, n, k, blocks, a, b, words; /* words: registers of A (and B) a lane */
} shapes[] = {
    { 16, 16, 16, 1, F16, F16, 2 },  { 16, 16, 16, 1, BF16, BF16, 2 }, { 32, 32, 8, 1, F16, F16, 2 },
    { 32, 32, 8, 1, BF16, BF16, 2 }, { 16, 16, 4, 4, F16, F16, 2 },    { 32, 32, 4, 2, F16, F16, 2 },
    { 4, 4, 4, 16, F16, F16, 2 },    { 16, 16, 4, 4, BF16, BF16, 2 },  { 32, 32, 4, 2, BF16, BF16, 2 },
    { 4, 4, 4, 16, BF16, BF16, 2 },  { 16, 16, 4, 1, F32, F32, 1 },    { 32, 32, 2, 1, F32, F32, 1 },
    { 16, 16, 1, 4, F32, F32, 1 },   { 32, 32, 1, 2, F32, F32, 1 },    { 4, 4, 1, 16, F32, F32, 1 },
    { 16, 16, 16, 1, I8, I8, 1 },    { 32, 32, 8, 1, I8, I8, 1 },      { 16, 16, 32, 1, I8, I8, 2 },
    { 32, 32, 16, 1, I8, I8, 2 },    { 16, 16, 32, 1, FP8, FP8, 2 },   { 16, 16, 32, 1, FP8, BF8, 2 },
    { 16, 16, 32, 1, BF8, FP8, 2 },  { 16, 16, 32, 1, BF8, BF8, 2 },   { 32, 32, 16, 1, FP8, FP8, 2 },
    { 32, 32, 16, 1, FP8, BF8, 2 },  { 32, 32, 16, 1, BF8, FP8, 2 },   { 32, 32, 16, 1, BF8, BF8, 2 },
    { 16, 16, 8, 1, XF32, XF32, 2 }, { 32, 32, 4, 1, XF32, XF32, 2 },  { 16, 16, 8, 1, BF16, BF16, 1 },
    { 32, 32, 4, 1, BF16, BF16, 1 }, { 16, 16, 4, 1, F64, F64, 2 },    { 16, 16, 4, 4, I8, I8, 1 },
    { 32, 32, 4, 2, I8, I8, 1 },     { 4, 4, 4, 16, I8, I8, 1 },
};

/* fp8 as the device has it: gfx942 the fnuz forms (bias 8 and 16, one NaN 0x80), others OCP's. */
static float fp8(uint8_t v, bool e5, bool fnuz)
{
    int ebits = e5 ? 5 : 4, mbits = 7 - ebits, bias = (1 << (ebits - 1)) - (fnuz ? 0 : 1);
    int e = v >> mbits & ((1 << ebits) - 1), m = v & ((1 << mbits) - 1);
    if (fnuz && v == 0x80)
        return NAN;
    if (!fnuz && e5 && e == 31)
        return m ? NAN : v >> 7 ? -INFINITY : INFINITY;
    if (!fnuz && !e5 && (v & 127) == 127)
        return NAN;
    float r = e ? ldexpf((float)((1 << mbits) + m), e - bias - mbits) : ldexpf((float)m, 1 - bias - mbits);
    return v >> 7 ? -r : r;
}

/* Element e of a lane's registers, row by row. */
static float element(uint32_t (*rows)[64], int lane, int e, enum type t, bool fnuz)
{
    switch (t) {
    case F16:
        return half_to_float((uint16_t)(rows[e / 2][lane] >> 16 * (e % 2)));
    case BF16:
        return u2f(rows[e / 2][lane] >> 16 * (e % 2) << 16);
    case XF32: /* 10 bits of mantissa: the rest is cut */
        return u2f(rows[e][lane] & 0xffffe000u);
    case I8:
        return (float)(int8_t)(rows[e / 4][lane] >> 8 * (e % 4));
    case FP8:
    case BF8:
        return fp8((uint8_t)(rows[e / 4][lane] >> 8 * (e % 4)), t == BF8, fnuz);
    default:
        return u2f(rows[e][lane]);
    }
}

/* MI100 and MI200 take subnormal 16-bit inputs of matrix instructions for 0 (PyTorch's notes on numerical accuracy,
 * "Reduced precision FP16 and BF16 GEMMs and convolutions on AMD Instinct MI200 devices"). */
static void flush_subnormals(uint32_t (*rows)[64], int words, enum type t)
{
    uint32_t exponent = t == F16 ? 0x7c00 : 0x7f80;
    for (int k = 0; k < words; k++)
        for (int l = 0; l < 64; l++) {
            uint32_t v = rows[k][l];
            v = v & exponent ? v : v & 0xffff8000u;
            rows[k][l] = v & exponent << 16 ? v : v & 0x8000ffffu;
        }
}

/* Element e of n lanes from `lane` on: one loop a format, so that each becomes the host's SIMD. */
static void unpack(float *out, uint32_t (*rows)[64], int lane, int n, int e, enum type t, bool fnuz)
{
    const uint32_t *half = &rows[e / 2][lane];
    unsigned shift = 16u * (unsigned)(e % 2);
    if (t == F16)
        for (int l = 0; l < n; l++)
            out[l] = half_to_float((uint16_t)(half[l] >> shift));
    else if (t == BF16)
        for (int l = 0; l < n; l++)
            out[l] = u2f(half[l] >> shift << 16);
    else
        for (int l = 0; l < n; l++)
            out[l] = element(rows, lane + l, e, t, fnuz);
}

/* The rows of an operand, or of its constant (C may be 0 or an inline constant). */
static void fetch(W *w, I *i, int k, int words, uint32_t (*out)[64])
{
    for (int n = 0; n < words; n++)
        if (i->reg[k] >= EMU_VGPR)
            memcpy(out[n], emu_row(w, (uint16_t)(i->reg[k] + n)), sizeof(out[n]));
        else
            for (int l = 0; l < 64; l++)
                out[n][l] = (uint32_t)i->k[k];
}

static _Thread_local float fa[32][32], fb[32][32]; /* [k][row] and [k][column] of a block */

/* n elements of a row of D: acc += sum over k of A[row][k] B[k]. */
static void accumulate(uint32_t *acc, int row, int k, int n)
{
#if defined(__FMA__) /* 16 lanes at once; this file is built with -ffp-contract=fast there, so that it is one fused    \
                        operation */
    typedef float v16 __attribute__((vector_size(64)));
    for (int j = 0; j < n; j += 16) {
        v16 sum, b;
        memcpy(&sum, acc + j, sizeof(sum));
        for (int e = 0; e < k; e++) {
            memcpy(&b, &fb[e][j], sizeof(b));
            sum = b * fa[e][row] + sum;
        }
        memcpy(acc + j, &sum, sizeof(sum));
    }
#else
    for (int j = 0; j < n; j++) {
        float sum = u2f(acc[j]);
        for (int e = 0; e < k; e++)
            sum = fmaf(fa[e][row], fb[e][j], sum);
        acc[j] = f2u(sum);
    }
#endif
}

static void x_mfma(W *w, I *i)
{
    const struct shape *s = &shapes[i->op->info];
    static _Thread_local uint32_t a[4][64], b[4][64], c[32][64];
    int kpl = s->words * 4 / (s->a == F32 || s->a == XF32 ? 4 : s->a == F16 || s->a == BF16 ? 2 : 1);
    int groups = s->k / kpl, regs = s->m * s->n * s->blocks / 64, per_block = regs / s->blocks, n = s->n;
    bool fnuz = w->prog->arch->gfx == 0x942, ints = s->a == I8;
    if (i->m.cbsz || i->m.abid || i->m.blgp) {
        emu_report(w, i, "not-emulated", true, w->exec, "cbsz, abid, blgp");
        return;
    }
    fetch(w, i, 1, s->words, a);
    fetch(w, i, 2, s->words, b);
    fetch(w, i, 3, regs, c);
    if (w->prog->arch->gfx < 0x940 && (s->a == F16 || s->a == BF16)) {
        flush_subnormals(a, s->words, (enum type)s->a);
        flush_subnormals(b, s->words, (enum type)s->b);
    }
    for (int block = 0; block < s->blocks; block++) {
        for (int g = 0; g < groups; g++)
            for (int e = 0; e < kpl; e++) {
                int lane = s->m * (block * groups + g), k = g * kpl + e;
                unpack(fa[k], a, lane, s->m, e, (enum type)s->a, fnuz);
                unpack(fb[k], b, lane, n, e, (enum type)s->b, fnuz);
            }
        for (int v = 0; v < per_block; v++)
            for (int g = 0; g < 64 / n; g++) { /* lanes that hold a row of D between them */
                uint32_t *acc = &c[block * per_block + v][g * n];
                int row = 4 * g + v % 4 + 8 * (v / 4);
                if (ints) {
                    for (int k = 0; k < s->k; k++)
                        for (int j = 0; j < n; j++)
                            acc[j] += (uint32_t)((int32_t)fa[k][row] * (int32_t)fb[k][j]);
                    continue;
                }
                accumulate(acc, row, s->k, n);
            }
    }
    for (int k = 0; k < regs; k++)
        memcpy(emu_row(w, (uint16_t)(i->reg[0] + k)), c[k], sizeof(c[k]));
}

/* 4x4 with 16 blocks: lane l is row (of A), column (of B and D) l % 4 of block l / 4; D's register v is row v. */
static void x_mfma_4x4(W *w, I *i)
{
    const struct shape *s = &shapes[i->op->info];
    uint32_t a[2][64], b[2][64], c[4][64];
    int kpl = s->k;
    if (i->m.cbsz || i->m.abid || i->m.blgp) {
        emu_report(w, i, "not-emulated", true, w->exec, "cbsz, abid, blgp");
        return;
    }
    fetch(w, i, 1, s->words, a);
    fetch(w, i, 2, s->words, b);
    fetch(w, i, 3, 4, c);
    if (w->prog->arch->gfx < 0x940 && (s->a == F16 || s->a == BF16)) {
        flush_subnormals(a, s->words, (enum type)s->a);
        flush_subnormals(b, s->words, (enum type)s->b);
    }
    for (int v = 0; v < 4; v++)
        for (int l = 0; l < 64; l++) {
            float sum = u2f(c[v][l]);
            int32_t isum = (int32_t)c[v][l];
            for (int k = 0; k < kpl; k++) {
                float x = element(a, (l & ~3) + v, k, (enum type)s->a, false),
                      y = element(b, l, k, (enum type)s->b, false);
                sum = fmaf(x, y, sum);
                isum += (int32_t)x * (int32_t)y;
            }
            c[v][l] = s->a == I8 ? (uint32_t)isum : f2u(sum);
        }
    for (int n = 0; n < 4; n++)
        memcpy(emu_row(w, (uint16_t)(i->reg[0] + n)), c[n], sizeof(c[n]));
}

/* f64 16x16x4: one element a lane; D's register pair v of lane l is row l / 16 + 4 v. */
static void x_mfma_f64(W *w, I *i)
{
    uint32_t a[2][64], b[2][64], c[8][64];
    fetch(w, i, 1, 2, a);
    fetch(w, i, 2, 2, b);
    if (i->reg[3] >= EMU_VGPR)
        fetch(w, i, 3, 8, c);
    else
        for (int n = 0; n < 8; n++)
            for (int l = 0; l < 64; l++)
                c[n][l] = (uint32_t)(i->k[3] >> 32 * (n & 1));
#define AT(m, l) u2d(m[0][l] | (uint64_t)m[1][l] << 32)
    for (int v = 0; v < 4; v++)
        for (int l = 0; l < 64; l++) {
            int row = l / 16 + 4 * v, col = l % 16;
            double sum = u2d(c[2 * v][l] | (uint64_t)c[2 * v + 1][l] << 32);
            for (int k = 0; k < 4; k++)
                sum = fma(AT(a, row + 16 * k), AT(b, col + 16 * k), sum);
            c[2 * v][l] = (uint32_t)d2u(sum);
            c[2 * v + 1][l] = (uint32_t)(d2u(sum) >> 32);
        }
#undef AT
    for (int n = 0; n < 8; n++)
        memcpy(emu_row(w, (uint16_t)(i->reg[0] + n)), c[n], sizeof(c[n]));
}

/* info: enum type of A and B */
static void x_wmma(W *w, I *i)
{
    uint32_t a[8][64], b[8][64], c[8][64];
    enum type t = (enum type)i->op->info;
    if (i->m.neg_lo || i->m.neg_hi) {
        emu_report(w, i, "not-emulated", true, w->exec, "neg_lo, neg_hi");
        return;
    }
    fetch(w, i, 1, 8, a);
    fetch(w, i, 2, 8, b);
    fetch(w, i, 3, 8, c);
    for (int v = 0; v < 8; v++)
        for (int l = 0; l < 32; l++) {
            int row = 2 * v + l / 16, col = l % 16;
            float sum = u2f(c[v][l]);
            for (int k = 0; k < 16; k++)
                sum = fmaf(element(a, row, k, t, false), element(b, col, k, t, false), sum);
            c[v][l] = f2u(sum);
        }
    for (int n = 0; n < 8; n++)
        memcpy(emu_row(w, (uint16_t)(i->reg[0] + n)), c[n], sizeof(c[n]));
}

#define MFMA(name, words, regs, shape)                                                                                 \
    { name, x_mfma, "d" #regs " s" #words " s" #words " s" #regs, EMU_MMA, 'u', shape },
const struct emu_op JOIN(emu_mma_ops, EMU_SUFFIX)[] = {
    MFMA("v_mfma_f32_16x16x16f16", 2, 4, 0) MFMA("v_mfma_f32_16x16x16_f16", 2, 4, 0)
        MFMA("v_mfma_f32_16x16x16bf16_1k", 2, 4, 1) MFMA("v_mfma_f32_16x16x16_bf16", 2, 4, 1)
            MFMA("v_mfma_f32_32x32x8f16", 2, 16, 2) MFMA("v_mfma_f32_32x32x8_f16", 2, 16, 2)
                MFMA("v_mfma_f32_32x32x8bf16_1k", 2, 16, 3) MFMA("v_mfma_f32_32x32x8_bf16", 2, 16, 3)
                    MFMA("v_mfma_f32_16x16x4f16", 2, 16, 4) MFMA("v_mfma_f32_16x16x4_4b_f16", 2, 16,
                                                                 4) MFMA("v_mfma_f32_32x32x4f16", 2, 32, 5)
                        MFMA("v_mfma_f32_32x32x4_2b_f16", 2, 32, 5) MFMA("v_mfma_f32_16x16x4bf16_1k", 2, 16,
                                                                         7) MFMA("v_mfma_f32_16x16x4_4b_bf16", 2, 16, 7)
                            MFMA("v_mfma_f32_32x32x4bf16_1k", 2, 32, 8) MFMA("v_mfma_f32_32x32x4_2b_bf16", 2, 32,
                                                                             8) MFMA("v_mfma_f32_16x16x4f32", 1, 4, 10)
                                MFMA("v_mfma_f32_16x16x4_f32", 1, 4, 10) MFMA("v_mfma_f32_32x32x2f32", 1, 16, 11)
                                    MFMA("v_mfma_f32_32x32x2_f32", 1, 16, 11) MFMA("v_mfma_f32_16x16x1f32", 1, 16, 12)
                                        MFMA("v_mfma_f32_16x16x1_4b_f32", 1, 16,
                                             12) MFMA("v_mfma_f32_32x32x1f32", 1, 32,
                                                      13) MFMA("v_mfma_f32_32x32x1_2b_f32", 1, 32,
                                                               13) MFMA("v_mfma_i32_16x16x16i8", 1, 4, 15)
                                            MFMA("v_mfma_i32_32x32x8i8", 1, 16,
                                                 16) MFMA("v_mfma_i32_16x16x32_i8", 2, 4,
                                                          17) MFMA("v_mfma_i32_32x32x16_i8", 2, 16,
                                                                   18) MFMA("v_mfma_f32_16x16x32_fp8_fp8", 2, 4, 19)
                                                MFMA("v_mfma_f32_16x16x32_fp8_bf8", 2, 4,
                                                     20) MFMA("v_mfma_f32_16x16x32_bf8_fp8", 2, 4,
                                                              21) MFMA("v_mfma_f32_16x16x32_bf8_bf8", 2, 4, 22)
                                                    MFMA("v_mfma_f32_32x32x16_fp8_fp8", 2, 16,
                                                         23) MFMA("v_mfma_f32_32x32x16_fp8_bf8", 2, 16,
                                                                  24) MFMA("v_mfma_f32_32x32x16_bf8_fp8", 2, 16, 25)
                                                        MFMA("v_mfma_f32_32x32x16_bf8_bf8", 2, 16,
                                                             26) MFMA("v_mfma_f32_16x16x8_xf32", 2, 4,
                                                                      27) MFMA("v_mfma_f32_32x32x4_xf32", 2, 16, 28)
                                                            MFMA("v_mfma_f32_16x16x8bf16", 1, 4,
                                                                 29) MFMA("v_mfma_f32_32x32x4bf16", 1, 16, 30)
                                                                MFMA("v_mfma_i32_16x16x4i8", 1, 16, 32)
                                                                    MFMA("v_mfma_i32_16x16x4_4b_i8", 1, 16, 32)
                                                                        MFMA("v_mfma_i32_32x32x4i8", 1, 32, 33)
                                                                            MFMA("v_mfma_i32_32x32x4_2b_i8", 1, 32,
                                                                                 33){ "v_mfma_f32_4x4x4f16", x_mfma_4x4,
                                                                                      "d4 s2 s2 s4", EMU_MMA, 'u', 6 },
    { "v_mfma_f32_4x4x4_16b_f16", x_mfma_4x4, "d4 s2 s2 s4", EMU_MMA, 'u', 6 },
    { "v_mfma_f32_4x4x4bf16_1k", x_mfma_4x4, "d4 s2 s2 s4", EMU_MMA, 'u', 9 },
    { "v_mfma_f32_4x4x4_16b_bf16", x_mfma_4x4, "d4 s2 s2 s4", EMU_MMA, 'u', 9 },
    { "v_mfma_f32_4x4x1f32", x_mfma_4x4, "d4 s1 s1 s4", EMU_MMA, 'u', 14 },
    { "v_mfma_f32_4x4x1_16b_f32", x_mfma_4x4, "d4 s1 s1 s4", EMU_MMA, 'u', 14 },
    { "v_mfma_i32_4x4x4i8", x_mfma_4x4, "d4 s1 s1 s4", EMU_MMA, 'u', 34 },
    { "v_mfma_i32_4x4x4_16b_i8", x_mfma_4x4, "d4 s1 s1 s4", EMU_MMA, 'u', 34 },
    { "v_mfma_f64_16x16x4f64", x_mfma_f64, "d8 s2 s2 s8", EMU_MMA, 'd', 31 },
    { "v_mfma_f64_16x16x4_f64", x_mfma_f64, "d8 s2 s2 s8", EMU_MMA, 'd', 31 },
    { "v_wmma_f32_16x16x16_f16", x_wmma, "d8 s8 s8 s8", EMU_MMA, 'u', F16 },
    { "v_wmma_f32_16x16x16_bf16", x_wmma, "d8 s8 s8 s8", EMU_MMA, 'u', BF16 },
    { NULL, NULL, NULL, 0, 0, 0 },
};
