/* SPDX-License-Identifier: MIT
 *
 * WMMA and SWMMAC of gfx12, waves of 32 lanes (GPUOpen, "WMMA guide for AMD RDNA 4"; AMD's RDNA4 ISA guide, WMMA):
 *   A   lane l holds row l % 16; of its K elements those from K / 2 (l / 16) on, packed from the first register's low
 * bits B   the same with columns for rows D   lane l holds column l % 16, rows from 8 (l / 16) on: one a register, or
 * two of 16 bits for C and D alike. SWMMAC's A has two of each four along K; which, its lane's index register says, two
 * bits each. Accumulation as in isa_matrix.c: k ascends, one fused multiply-add in fp32 each. EXEC is not looked at. */
#include "isa_math.h"

enum type { T_F16, T_BF16, T_FP8, T_BF8, T_U8, T_U4 };

/* emu_op.info: K (of B), types of A and B, 16-bit C and D, sparse. */
#define SHAPE(k, ta, tb, narrow, sparse)                                                                               \
    ((k) | (unsigned)(ta) << 8 | (unsigned)(tb) << 12 | (unsigned)(narrow) << 16 | (unsigned)(sparse) << 17)

static int width(int type)
{
    return type <= T_BF16 ? 16 : type == T_U4 ? 4 : 8;
}

/* out[k][row], a matrix of 16 rows and n columns along K. */
static void fragment(const struct emu_wave *w, const struct emu_inst *i, int op, int type, int n, float (*out)[16])
{
    int bits = width(type), per = 32 / bits, words = n / 2 / per;
    bool is_signed = i->mods->neg_lo >> (op - 1) & 1;
    row32 t;
    for (int word = 0; word < words; word++) {
        const uint32_t *r = src_word(w, i, op, word, t);
        for (int l = 0; l < 32; l++)
            for (int j = 0; j < per; j++) {
                uint32_t x = r[l] >> bits * j & ((1u << bits) - 1);
                int k = n / 2 * (l / 16) + word * per + j;
                unsigned neg = j & 1 ? i->mods->neg_hi : i->mods->neg_lo;
                bool flip = type <= T_BF16 && neg >> (op - 1) & 1;
                float f = type == T_F16    ? h2f(x)
                          : type == T_BF16 ? bf2f(x)
                          : type == T_FP8  ? fp8(x, 3, false)
                          : type == T_BF8  ? fp8(x, 2, false)
                          : is_signed      ? (float)((int32_t)(x << (32 - bits)) >> (32 - bits))
                                           : (float)x;
                out[k][l % 16] = flip ? -f : f;
            }
    }
}

/* Of A's row and element k the column of B that it meets. */
static int meets(const uint32_t *index, int row, int k, int half, int key)
{
    int lane = row + 16 * (k / half), e = k % half;
    return 2 * half * (k / half) + 4 * (e / 2) + (int)(index[lane] >> (2 * e + key) & 3);
}

/* Rows of C as 32 bits each, C's own signs applied. */
static void read_c(const struct emu_wave *w, const struct emu_inst *i, int op, bool narrow, bool bf16, bool integer,
                   uint32_t (*acc)[16])
{
    row32 t;
    bool constant = i->reg[op] == EMU_CONST, accumulates = op == 0;
    for (int r = 0; r < 16; r++) {
        int reg = r % 8 / (narrow ? 2 : 1);
        const uint32_t *c = src_word(w, i, op, constant ? 0 : reg, t) + 16 * (r / 8);
        for (int n = 0; n < 16; n++) {
            uint32_t h = c[n] >> (narrow && !constant ? 16 * (r & 1) : 0) & 0xffff, x = c[n];
            if (narrow)
                x = as_u32(bf16 ? bf2f(h) : h2f(h));
            if (!integer && !accumulates && i->mods->neg_hi & 4)
                x &= 0x7fffffff;
            if (!integer && !accumulates && i->mods->neg_lo & 4)
                x ^= 0x80000000;
            acc[r][n] = x;
        }
    }
}

static void wmma(struct emu_wave *w, const struct emu_inst *i, bool integer)
{
    uint32_t s = i->op->info;
    int k = (int)(s & 255), ta = (int)(s >> 8 & 15), tb = (int)(s >> 12 & 15);
    bool narrow = s >> 16 & 1, sparse = s >> 17 & 1, bf16 = ta == T_BF16;
    int ka = sparse ? k / 2 : k, key = !i->mods->abid ? 0 : 16;
    float a[64][16], b[64][16];
    uint32_t acc[16][16], index[64] = { 0 };
    fragment(w, i, 1, ta, ka, a);
    fragment(w, i, 2, tb, k, b);
    if (sparse)
        memcpy(index, vrow(w, i->reg[3]), sizeof(index));
    read_c(w, i, sparse ? 0 : 3, narrow, bf16, integer, acc);
    for (int r = 0; r < 16; r++) {
        float sum[16];
        int64_t whole[16];
        for (int c = 0; c < 16; c++) {
            sum[c] = as_f32(acc[r][c]);
            whole[c] = (int32_t)acc[r][c];
        }
        for (int e = 0; e < ka; e++) {
            const float *y = b[sparse ? meets(index, r, e, ka / 2, key) : e];
            float x = a[e][r];
            if (integer)
                for (int c = 0; c < 16; c++)
                    whole[c] += (int32_t)x * (int32_t)y[c];
            else
                for (int c = 0; c < 16; c++)
                    sum[c] = __builtin_fmaf(x, y[c], sum[c]);
        }
        for (int c = 0; c < 16; c++) {
            int64_t n = whole[c];
            if (i->mods->clamp)
                n = n > INT32_MAX ? INT32_MAX : n < INT32_MIN ? INT32_MIN : n;
            acc[r][c] = integer ? (uint32_t)n : as_u32(sum[c]);
        }
    }
    for (int r = 0; r < 16; r += narrow ? 2 : 1) {
        uint32_t *d = vrow(w, i->reg[0] + (unsigned)(r % 8 / (narrow ? 2 : 1))) + 16 * (r / 8);
        for (int c = 0; c < 16; c++) {
            float lo = as_f32(acc[r][c]), hi = as_f32(acc[r | 1][c]);
            d[c] = !narrow ? acc[r][c] : bf16 ? f2bf(lo) | f2bf(hi) << 16 : f2h(lo) | f2h(hi) << 16;
        }
    }
}
H(wmma_f)
{
    wmma(w, i, false);
}
H(wmma_i)
{
    wmma(w, i, true);
}

/* clang-format off */
static const struct emu_op rows[] = {
#define WMMA(n, fn, d, ab, c, k, ta, tb) \
    { "v_wmma_" n, fn, "d" d " s" ab " s" ab " s" d c, EMU_MFMA, SHAPE(k, ta, tb, d[0] == '4', 0) },
#define SWMMAC(n, fn, d, a, b, k, ta, tb) \
    { "v_swmmac_" n, fn, "b" d " s" a " s" b " s1", EMU_MFMA, SHAPE(k, ta, tb, d[0] == '4', 1) },
    WMMA("f32_16x16x16_f16", h_wmma_f, "8", "4p", "f", 16, T_F16, T_F16)
    WMMA("f32_16x16x16_bf16", h_wmma_f, "8", "4p", "f", 16, T_BF16, T_BF16)
    WMMA("f16_16x16x16_f16", h_wmma_f, "4", "4p", "p", 16, T_F16, T_F16)
    WMMA("bf16_16x16x16_bf16", h_wmma_f, "4", "4p", "p", 16, T_BF16, T_BF16)
    WMMA("f32_16x16x16_fp8_fp8", h_wmma_f, "8", "2", "f", 16, T_FP8, T_FP8)
    WMMA("f32_16x16x16_fp8_bf8", h_wmma_f, "8", "2", "f", 16, T_FP8, T_BF8)
    WMMA("f32_16x16x16_bf8_fp8", h_wmma_f, "8", "2", "f", 16, T_BF8, T_FP8)
    WMMA("f32_16x16x16_bf8_bf8", h_wmma_f, "8", "2", "f", 16, T_BF8, T_BF8)
    WMMA("i32_16x16x16_iu8", h_wmma_i, "8", "2", "", 16, T_U8, T_U8)
    WMMA("i32_16x16x16_iu4", h_wmma_i, "8", "1", "", 16, T_U4, T_U4)
    WMMA("i32_16x16x32_iu4", h_wmma_i, "8", "2", "", 32, T_U4, T_U4)
    SWMMAC("f32_16x16x32_f16", h_wmma_f, "8", "4", "8", 32, T_F16, T_F16)
    SWMMAC("f32_16x16x32_bf16", h_wmma_f, "8", "4", "8", 32, T_BF16, T_BF16)
    SWMMAC("f16_16x16x32_f16", h_wmma_f, "4", "4", "8", 32, T_F16, T_F16)
    SWMMAC("bf16_16x16x32_bf16", h_wmma_f, "4", "4", "8", 32, T_BF16, T_BF16)
    SWMMAC("f32_16x16x32_fp8_fp8", h_wmma_f, "8", "2", "4", 32, T_FP8, T_FP8)
    SWMMAC("f32_16x16x32_fp8_bf8", h_wmma_f, "8", "2", "4", 32, T_FP8, T_BF8)
    SWMMAC("f32_16x16x32_bf8_fp8", h_wmma_f, "8", "2", "4", 32, T_BF8, T_FP8)
    SWMMAC("f32_16x16x32_bf8_bf8", h_wmma_f, "8", "2", "4", 32, T_BF8, T_BF8)
    SWMMAC("i32_16x16x32_iu8", h_wmma_i, "8", "2", "4", 32, T_U8, T_U8)
    SWMMAC("i32_16x16x32_iu4", h_wmma_i, "8", "1", "2", 32, T_U4, T_U4)
    SWMMAC("i32_16x16x64_iu4", h_wmma_i, "8", "2", "4", 64, T_U4, T_U4)
};
/* clang-format on */
const struct emu_ops EMU_N(ops_wmma12) = { rows, COUNT(rows) };
