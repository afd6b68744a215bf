/* SPDX-License-Identifier: MIT
 *
 * MFMA and WMMA. Layouts are those of AMD's ISA guides and matrix instruction calculator:
 *   A   lane l holds row l % M of block l / M % B, k from (l / (M B)) * KL on, KL elements a lane
 *   B   the same with columns for rows
 *   D   32x32: row 8 (i / 4) + 4 (l / 32) + i % 4, column l % 32, block i / 16
 *       16x16: row 4 (l / 16) + i % 4, column l % 16, block i / 4       (f64: row 4 i + l / 16)
 *       4x4:   row i, column l % 4, block l / 4                         (f64: row l / 16, block l / 4 % 4)
 * for C and D element i of lane l. So a row of D is N adjacent lanes of one register: rows are the vectors here.
 *
 * Accumulation: k ascends; each step is one fused multiply-add in the accumulator's type (the products of 16-bit and
 * 8-bit inputs are exact in f32 anyway). Hardware adds groups of products in an order and width that is not published, so
 * no emulation of the last place is claimed. Subnormal f16 and bf16 inputs and results are flushed on gfx90a (MI200:
 * rocm.docs.amd.com, MIOpen, "MI200 MFMA behavior specifics") and kept elsewhere. EXEC is not looked at. */
#include "isa.h"

enum mat_type { M_F32, M_F16, M_BF16, M_I8, M_FP8, M_BF8, M_XF32, M_F64, M_IU8, M_IU4 };

/* emu_op.info: M (= N), K, blocks, types of A and B. */
#define SHAPE(m, k, b, ta, tb) ((m) | (k) << 8 | (b) << 16 | (unsigned)(ta) << 21 | (unsigned)(tb) << 25)
static inline int shape_m(uint32_t s)
{
    return (int)(s & 255);
}
static inline int shape_k(uint32_t s)
{
    return (int)(s >> 8 & 255);
}
static inline int shape_b(uint32_t s)
{
    return (int)(s >> 16 & 31);
}
static inline int shape_a(uint32_t s)
{
    return (int)(s >> 21 & 15);
}
static inline int shape_bt(uint32_t s)
{
    return (int)(s >> 25 & 15);
}

static float fp8_table[2][2][256]; /* [fnuz][bf8][bits] */
static float fp8(uint32_t x, int m, bool fnuz)
{
    int bits = 7 - m, bias = (1 << (bits - 1)) - 1 + fnuz;
    uint32_t e = x >> m & ((1u << bits) - 1), f = x & ((1u << m) - 1);
    float v = e ? ldexpf((float)(f | 1u << m), (int)e - bias - m) : ldexpf((float)f, 1 - bias - m);
    if (fnuz ? x == 0x80 : m == 3 ? (x & 0x7f) == 0x7f : e == 31 && f)
        v = NAN;
    else if (!fnuz && m == 2 && e == 31)
        v = INFINITY;
    return x & 0x80 && v == v ? -v : v;
}
__attribute__((constructor)) static void fill_tables(void)
{
    for (int z = 0; z < 2; z++)
        for (uint32_t x = 0; x < 256; x++) {
            fp8_table[z][0][x] = fp8(x, 3, z);
            fp8_table[z][1][x] = fp8(x, 2, z);
        }
}

static int elements_per_word(int type)
{
    return type == M_F32 || type == M_XF32 ? 1 : type == M_F16 || type == M_BF16 ? 2 : type == M_IU4 ? 8 : 4;
}

/* blgp: which lanes of B are read for lane l. */
static int blgp_lane(int l, int blgp)
{
    switch (blgp) {
    case 1:
        return l & 31;
    case 2:
        return l | 32;
    case 3:
        return (l + 16) & 63;
    case 4:
    case 5:
    case 6:
    case 7:
        return (l & 15) | (blgp - 4) << 4;
    default:
        return l;
    }
}

/* out[j][l]: element j of lane l as f32. */
static inline void unpack_f32(float (*out)[64], const struct emu_wave *w, const struct emu_inst *i, int k, int type, int n, bool flush)
{
    int per = elements_per_word(type);
    row32 t;
    for (int word = 0; word * per < n; word++) {
        const uint32_t *r = src_word(w, i, k, word, t);
        switch (type) {
        case M_F32:
            LANES out[word][l] = as_f32(r[l]);
            break;
        case M_XF32: /* to 10 mantissa bits, to nearest even */
            LANES
            {
                uint32_t x = r[l], y = (x + 0xfff + (x >> 13 & 1)) & 0xffffe000;
                out[word][l] = as_f32((x & 0x7f800000) == 0x7f800000 ? x : y);
            }
            break;
        case M_BF16:
            LANES
            {
                uint32_t lo = r[l] << 16, hi = r[l] & 0xffff0000;
                out[2 * word][l] = as_f32(flush ? flush32(lo) : lo);
                out[2 * word + 1][l] = as_f32(flush ? flush32(hi) : hi);
            }
            break;
        case M_F16:
            LANES
            {
                uint32_t lo = r[l] & 0xffff, hi = r[l] >> 16;
                out[2 * word][l] = h2f(flush ? flush16(lo) : lo);
                out[2 * word + 1][l] = h2f(flush ? flush16(hi) : hi);
            }
            break;
        default: {
            const float *table = fp8_table[w->prog->arch->fnuz][type == M_BF8];
            for (int j = 0; j < 4; j++)
                LANES out[4 * word + j][l] = table[r[l] >> 8 * j & 255];
            break;
        }
        }
    }
}
static inline void unpack_i32(int32_t (*out)[64], const struct emu_wave *w, const struct emu_inst *i, int k, int type, int n, bool sgn)
{
    int per = elements_per_word(type);
    row32 t;
    for (int word = 0; word * per < n; word++) {
        const uint32_t *r = src_word(w, i, k, word, t);
        for (int j = 0; j < per; j++)
            if (type == M_IU4)
                LANES out[per * word + j][l] = sgn ? (int32_t)(r[l] << (28 - 4 * j)) >> 28 : (int32_t)(r[l] >> 4 * j & 15);
            else
                LANES out[per * word + j][l] = sgn ? (int32_t)(int8_t)(r[l] >> 8 * j) : (int32_t)(r[l] >> 8 * j & 255);
    }
}

/* Which register and lane row `row` of block b starts at. */
static inline void place(int m, int row, int b, int *reg, int *lane)
{
    if (m == 32) {
        *reg = 16 * b + 4 * (row / 8) + row % 4;
        *lane = 32 * (row / 4 % 2);
    } else if (m == 16) {
        *reg = 4 * b + row % 4;
        *lane = 16 * (row / 4);
    } else {
        *reg = row;
        *lane = 4 * b;
    }
}

/* The kernel of all: acc[0..n) += a * b[0..n), n columns of one row. */
#define MFMA_BODY(name, T, FMA)                                                                                        \
    static inline __attribute__((always_inline)) void name(T (*acc)[64], T (*a)[64], T (*b)[64], int m, int k, int kl, \
                                                           int blocks, const struct emu_mods *mods)                    \
    {                                                                                                                  \
        for (int blk = 0; blk < blocks; blk++) {                                                                       \
            int group = (1 << mods->cbsz) - 1, ablk = mods->cbsz ? (blk & ~group) | (mods->abid & group) : blk;        \
            for (int row = 0; row < m; row++) {                                                                        \
                int reg, lane;                                                                                         \
                place(m, row, blk, &reg, &lane);                                                                       \
                T *d = acc[reg] + lane, sum[32];                                                                       \
                for (int c = 0; c < m; c++)                                                                            \
                    sum[c] = d[c];                                                                                     \
                for (int g = 0; g < k / kl; g++)                                                                       \
                    for (int j = 0; j < kl; j++) {                                                                     \
                        T x = a[j][(g * blocks + ablk) * m + row];                                                     \
                        const T *y = &b[j][(g * blocks + blk) * m];                                                    \
                        for (int c = 0; c < m; c++)                                                                    \
                            sum[c] = FMA(x, y[c], sum[c]);                                                             \
                    }                                                                                                  \
                for (int c = 0; c < m; c++)                                                                            \
                    d[c] = sum[c];                                                                                     \
            }                                                                                                          \
        }                                                                                                              \
    }
#define FMAF(x, y, z) __builtin_fmaf(x, y, z)
#define IMAC(x, y, z) (int32_t)((uint32_t)(x) * (uint32_t)(y) + (uint32_t)(z))
MFMA_BODY(mac_f32, float, FMAF)
MFMA_BODY(mac_i32, int32_t, IMAC)

static void read_c(const struct emu_wave *w, const struct emu_inst *i, int regs, uint32_t (*acc)[64])
{
    row32 t;
    if (i->reg[3] == EMU_CONST) {
        uint32_t v = (uint32_t)i->k[3];
        for (int r = 0; r < regs; r++)
            LANES acc[r][l] = v;
        return;
    }
    for (int r = 0; r < regs; r++)
        memcpy(acc[r], src_word(w, i, 3, r, t), 256);
}

H(mfma_f32)
{
    uint32_t s = i->op->info;
    int m = shape_m(s), k = shape_k(s), blocks = shape_b(s), kl = k * m * blocks / 64, regs = m * m * blocks / 64;
    float a[8][64] __attribute__((aligned(64))), b[8][64] __attribute__((aligned(64)));
    float acc[32][64] __attribute__((aligned(64)));
    bool flush = w->prog->arch->gfx == 0x90a && (shape_a(s) == M_F16 || shape_a(s) == M_BF16);
    unpack_f32(a, w, i, 1, shape_a(s), kl, flush);
    unpack_f32(b, w, i, 2, shape_bt(s), kl, flush);
    if (unlikely(i->mods->blgp)) {
        float t[64];
        for (int j = 0; j < kl; j++) {
            LANES t[l] = b[j][blgp_lane(l, i->mods->blgp)];
            memcpy(b[j], t, sizeof(t));
        }
    }
    read_c(w, i, regs, (uint32_t(*)[64])acc);
    if (flush)
        for (int r = 0; r < regs; r++)
            LANES acc[r][l] = as_f32(flush32(as_u32(acc[r][l])));
    if (m == 16 && k == 16 && blocks == 1)
        mac_f32(acc, a, b, 16, 16, 4, 1, i->mods);
    else if (m == 16 && k == 32 && blocks == 1)
        mac_f32(acc, a, b, 16, 32, 8, 1, i->mods);
    else if (m == 32 && blocks == 1)
        mac_f32(acc, a, b, 32, k, kl, 1, i->mods);
    else if (m == 16)
        mac_f32(acc, a, b, 16, k, kl, blocks, i->mods);
    else
        mac_f32(acc, a, b, m, k, kl, blocks, i->mods);
    for (int r = 0; r < regs; r++) {
        uint32_t *d = vrow(w, i->reg[0] + (unsigned)r);
        if (flush)
            LANES d[l] = flush32(as_u32(acc[r][l]));
        else
            memcpy(d, acc[r], 256);
    }
}
H(mfma_i32)
{
    uint32_t s = i->op->info;
    int m = shape_m(s), k = shape_k(s), blocks = shape_b(s), kl = k * m * blocks / 64, regs = m * m * blocks / 64;
    int32_t a[8][64] __attribute__((aligned(64))), b[8][64] __attribute__((aligned(64)));
    int32_t acc[32][64] __attribute__((aligned(64)));
    unpack_i32(a, w, i, 1, M_I8, kl, true);
    unpack_i32(b, w, i, 2, M_I8, kl, true);
    if (unlikely(i->mods->blgp)) {
        int32_t t[64];
        for (int j = 0; j < kl; j++) {
            LANES t[l] = b[j][blgp_lane(l, i->mods->blgp)];
            memcpy(b[j], t, sizeof(t));
        }
    }
    read_c(w, i, regs, (uint32_t(*)[64])acc);
    if (m == 16 && blocks == 1)
        mac_i32(acc, a, b, 16, k, kl, 1, i->mods);
    else
        mac_i32(acc, a, b, m, k, kl, blocks, i->mods);
    for (int r = 0; r < regs; r++)
        memcpy(vrow(w, i->reg[0] + (unsigned)r), acc[r], 256);
}

/* ---- f64 ---------------------------------------------------------------------------------------------------------------- */

/* A's and B's neg bits are blgp on gfx90a, neg:[a,b,c] on gfx942. */
H(mfma_f64)
{
    int m = shape_m(i->op->info), elements = m == 16 ? 4 : 1;
    rowd a, b, c[4], d[4];
    row64 t;
    unsigned neg = i->mods->neg_lo | i->mods->blgp;
    src64(w, i, 1, t);
    LANES a[l] = as_f64(neg & 1 ? t[l] ^ 1ull << 63 : t[l]);
    src64(w, i, 2, t);
    LANES b[l] = as_f64(neg & 2 ? t[l] ^ 1ull << 63 : t[l]);
    for (int e = 0; e < elements; e++) {
        row32 t0, t1;
        bool constant = i->reg[3] == EMU_CONST;
        const uint32_t *lo = src_word(w, i, 3, constant ? 0 : 2 * e, t0), *hi = src_word(w, i, 3, constant ? 1 : 2 * e + 1, t1);
        LANES c[e][l] = as_f64((lo[l] | (uint64_t)hi[l] << 32) ^ (neg & 4 ? 1ull << 63 : 0));
    }
    for (int e = 0; e < elements; e++)
        for (int l = 0; l < 64; l++) {
            double sum = c[e][l];
            if (m == 16)
                for (int k = 0; k < 4; k++)
                    sum = __builtin_fma(a[16 * k + 4 * e + l / 16], b[16 * k + l % 16], sum);
            else
                for (int k = 0; k < 4; k++)
                    sum = __builtin_fma(a[16 * k + 4 * (l / 4 % 4) + l / 16], b[16 * k + 4 * (l / 4 % 4) + l % 4], sum);
            d[e][l] = sum;
        }
    for (int e = 0; e < elements; e++)
        LANES
        {
            vrow(w, i->reg[0] + 2u * (unsigned)e)[l] = (uint32_t)as_u64(d[e][l]);
            vrow(w, i->reg[0] + 2u * (unsigned)e + 1)[l] = (uint32_t)(as_u64(d[e][l]) >> 32);
        }
}

/* ---- WMMA of gfx11: 16x16x16, A's and B's rows whole in each lane, lanes 16..31 repeat lanes 0..15 ----------------------- */

/* D's row r is in register r / rows_per_reg, lanes from 16 (r % rows_per_reg) on: 2 rows a register, 4 in wave64. */
H(wmma_f32)
{
    uint32_t s = i->op->info;
    int rows = w->wave_size / 16;
    float a[16][64], b[16][64];
    unpack_f32(a, w, i, 1, shape_a(s), 16, false);
    unpack_f32(b, w, i, 2, shape_a(s), 16, false);
    float acc[16][16];
    row32 t;
    for (int r = 0; r < 16; r++) {
        const uint32_t *c = i->reg[3] == EMU_CONST ? src_word(w, i, 3, 0, t) : src_word(w, i, 3, r / rows, t);
        memcpy(acc[r], c + 16 * (r % rows), 64);
    }
    for (int j = 0; j < 16 * 16; j++) { /* neg_lo, neg_hi of A, B are for even and odd k, neg_hi of C is abs */
        int r = j / 16;
        if (i->mods->neg_hi & 4)
            acc[r][j % 16] = fabsf(acc[r][j % 16]);
        if (i->mods->neg_lo & 4)
            acc[r][j % 16] = -acc[r][j % 16];
    }
    for (int k = 0; k < 16; k++) {
        unsigned neg = k & 1 ? i->mods->neg_hi : i->mods->neg_lo;
        float sign = ((neg & 1) ^ (neg >> 1 & 1)) ? -1.0f : 1.0f;
        for (int r = 0; r < 16; r++) {
            float x = sign * a[k][r];
            for (int c = 0; c < 16; c++)
                acc[r][c] = __builtin_fmaf(x, b[k][c], acc[r][c]);
        }
    }
    for (int r = 0; r < 16; r++)
        memcpy(vrow(w, i->reg[0] + (unsigned)(r / rows)) + 16 * (r % rows), acc[r], 64);
}
/* 16-bit C and D: one element a register, in the half that op_sel[2] names; the other half of D is kept. */
H(wmma_16)
{
    uint32_t s = i->op->info;
    int rows = w->wave_size / 16;
    bool bf16 = shape_a(s) == M_BF16, hi = i->mods->op_sel & 4;
    float a[16][64], b[16][64], acc[16][16];
    row32 t;
    unpack_f32(a, w, i, 1, shape_a(s), 16, false);
    unpack_f32(b, w, i, 2, shape_a(s), 16, false);
    for (int r = 0; r < 16; r++) {
        const uint32_t *x = i->reg[3] == EMU_CONST ? src_word(w, i, 3, 0, t) : src_word(w, i, 3, r / rows, t);
        for (int c = 0; c < 16; c++) {
            uint32_t h = x[16 * (r % rows) + c] >> (hi && i->reg[3] != EMU_CONST ? 16 : 0) & 0xffff;
            acc[r][c] = bf16 ? bf2f(h) : h2f(h);
        }
        for (int k = 0; k < 16; k++) {
            unsigned neg = k & 1 ? i->mods->neg_hi : i->mods->neg_lo;
            float v = ((neg & 1) ^ (neg >> 1 & 1)) ? -a[k][r] : a[k][r];
            for (int c = 0; c < 16; c++)
                acc[r][c] = __builtin_fmaf(v, b[k][c], acc[r][c]);
        }
    }
    for (int r = 0; r < 16; r++) {
        uint32_t *d = vrow(w, i->reg[0] + (unsigned)(r / rows)) + 16 * (r % rows);
        for (int c = 0; c < 16; c++) {
            uint32_t h = bf16 ? f2bf(acc[r][c]) : f2h(acc[r][c]);
            d[c] = hi ? (d[c] & 0xffff) | h << 16 : (d[c] & 0xffff0000) | h;
        }
    }
}
/* neg_lo says which of A and B are signed; clamp saturates. */
H(wmma_i32)
{
    uint32_t s = i->op->info;
    int rows = w->wave_size / 16;
    int32_t a[16][64], b[16][64];
    row32 t;
    unpack_i32(a, w, i, 1, shape_a(s), 16, i->mods->neg_lo & 1);
    unpack_i32(b, w, i, 2, shape_a(s), 16, i->mods->neg_lo & 2);
    int32_t d[16][16];
    for (int r = 0; r < 16; r++) {
        const uint32_t *c = i->reg[3] == EMU_CONST ? src_word(w, i, 3, 0, t) : src_word(w, i, 3, r / rows, t);
        for (int n = 0; n < 16; n++) {
            int64_t sum = (int32_t)c[16 * (r % rows) + n];
            for (int k = 0; k < 16; k++)
                sum += (int64_t)a[k][r] * b[k][n];
            d[r][n] = i->mods->clamp ? (sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : (int32_t)sum)
                                     : (int32_t)(uint32_t)(uint64_t)sum;
        }
    }
    for (int r = 0; r < 16; r++)
        memcpy(vrow(w, i->reg[0] + (unsigned)(r / rows)) + 16 * (r % rows), d[r], 64);
}

static const struct emu_op rows[] = {
/* Under the names of gfx908 and gfx90a, and of gfx942. D's and C's words are M N B / 64. */
#define MFMA(name, sig, m, k, b, t) { "v_mfma_f32_" name, h_mfma_f32, sig, EMU_MFMA, SHAPE(m, k, b, t, t) },
    MFMA("32x32x1f32", "d32 s1 s1 s32f", 32, 1, 2, M_F32) MFMA("32x32x1_2b_f32", "d32 s1 s1 s32f", 32, 1, 2, M_F32)
    MFMA("16x16x1f32", "d16 s1 s1 s16f", 16, 1, 4, M_F32) MFMA("16x16x1_4b_f32", "d16 s1 s1 s16f", 16, 1, 4, M_F32)
    MFMA("4x4x1f32", "d4 s1 s1 s4f", 4, 1, 16, M_F32) MFMA("4x4x1_16b_f32", "d4 s1 s1 s4f", 4, 1, 16, M_F32)
    MFMA("32x32x2f32", "d16 s1 s1 s16f", 32, 2, 1, M_F32) MFMA("32x32x2_f32", "d16 s1 s1 s16f", 32, 2, 1, M_F32)
    MFMA("16x16x4f32", "d4 s1 s1 s4f", 16, 4, 1, M_F32) MFMA("16x16x4_f32", "d4 s1 s1 s4f", 16, 4, 1, M_F32)
    MFMA("32x32x4f16", "d32 s2 s2 s32f", 32, 4, 2, M_F16) MFMA("32x32x4_2b_f16", "d32 s2 s2 s32f", 32, 4, 2, M_F16)
    MFMA("16x16x4f16", "d16 s2 s2 s16f", 16, 4, 4, M_F16) MFMA("16x16x4_4b_f16", "d16 s2 s2 s16f", 16, 4, 4, M_F16)
    MFMA("4x4x4f16", "d4 s2 s2 s4f", 4, 4, 16, M_F16) MFMA("4x4x4_16b_f16", "d4 s2 s2 s4f", 4, 4, 16, M_F16)
    MFMA("32x32x8f16", "d16 s2 s2 s16f", 32, 8, 1, M_F16) MFMA("32x32x8_f16", "d16 s2 s2 s16f", 32, 8, 1, M_F16)
    MFMA("16x16x16f16", "d4 s2 s2 s4f", 16, 16, 1, M_F16) MFMA("16x16x16_f16", "d4 s2 s2 s4f", 16, 16, 1, M_F16)
    MFMA("32x32x2bf16", "d32 s1 s1 s32f", 32, 2, 2, M_BF16) MFMA("16x16x2bf16", "d16 s1 s1 s16f", 16, 2, 4, M_BF16)
    MFMA("4x4x2bf16", "d4 s1 s1 s4f", 4, 2, 16, M_BF16) MFMA("32x32x4bf16", "d16 s1 s1 s16f", 32, 4, 1, M_BF16)
    MFMA("16x16x8bf16", "d4 s1 s1 s4f", 16, 8, 1, M_BF16)
    MFMA("32x32x4bf16_1k", "d32 s2 s2 s32f", 32, 4, 2, M_BF16) MFMA("32x32x4_2b_bf16", "d32 s2 s2 s32f", 32, 4, 2, M_BF16)
    MFMA("16x16x4bf16_1k", "d16 s2 s2 s16f", 16, 4, 4, M_BF16) MFMA("16x16x4_4b_bf16", "d16 s2 s2 s16f", 16, 4, 4, M_BF16)
    MFMA("4x4x4bf16_1k", "d4 s2 s2 s4f", 4, 4, 16, M_BF16) MFMA("4x4x4_16b_bf16", "d4 s2 s2 s4f", 4, 4, 16, M_BF16)
    MFMA("32x32x8bf16_1k", "d16 s2 s2 s16f", 32, 8, 1, M_BF16) MFMA("32x32x8_bf16", "d16 s2 s2 s16f", 32, 8, 1, M_BF16)
    MFMA("16x16x16bf16_1k", "d4 s2 s2 s4f", 16, 16, 1, M_BF16) MFMA("16x16x16_bf16", "d4 s2 s2 s4f", 16, 16, 1, M_BF16)
    MFMA("16x16x8_xf32", "d4 s2 s2 s4f", 16, 8, 1, M_XF32) MFMA("32x32x4_xf32", "d16 s2 s2 s16f", 32, 4, 1, M_XF32)
    MFMA("16x16x32_f16", "d4 s4 s4 s4f", 16, 32, 1, M_F16) MFMA("32x32x16_f16", "d16 s4 s4 s16f", 32, 16, 1, M_F16)
    MFMA("16x16x32_bf16", "d4 s4 s4 s4f", 16, 32, 1, M_BF16) MFMA("32x32x16_bf16", "d16 s4 s4 s16f", 32, 16, 1, M_BF16)
#define FP8(na, nb, ta, tb)                                                                                            \
    { "v_mfma_f32_16x16x32_" na "_" nb, h_mfma_f32, "d4 s2 s2 s4f", EMU_MFMA, SHAPE(16, 32, 1, ta, tb) },              \
    { "v_mfma_f32_32x32x16_" na "_" nb, h_mfma_f32, "d16 s2 s2 s16f", EMU_MFMA, SHAPE(32, 16, 1, ta, tb) },
    FP8("fp8", "fp8", M_FP8, M_FP8) FP8("fp8", "bf8", M_FP8, M_BF8) FP8("bf8", "fp8", M_BF8, M_FP8)
    FP8("bf8", "bf8", M_BF8, M_BF8)
#define MFMAI(name, sig, m, k, b) { "v_mfma_i32_" name, h_mfma_i32, sig, EMU_MFMA, SHAPE(m, k, b, M_I8, M_I8) },
    MFMAI("32x32x4i8", "d32 s1 s1 s32", 32, 4, 2) MFMAI("32x32x4_2b_i8", "d32 s1 s1 s32", 32, 4, 2)
    MFMAI("16x16x4i8", "d16 s1 s1 s16", 16, 4, 4) MFMAI("16x16x4_4b_i8", "d16 s1 s1 s16", 16, 4, 4)
    MFMAI("4x4x4i8", "d4 s1 s1 s4", 4, 4, 16) MFMAI("4x4x4_16b_i8", "d4 s1 s1 s4", 4, 4, 16)
    MFMAI("32x32x8i8", "d16 s1 s1 s16", 32, 8, 1) MFMAI("16x16x16i8", "d4 s1 s1 s4", 16, 16, 1)
    MFMAI("32x32x16_i8", "d16 s2 s2 s16", 32, 16, 1) MFMAI("16x16x32_i8", "d4 s2 s2 s4", 16, 32, 1)
#define MFMAD(name, sig, m) { "v_mfma_f64_" name, h_mfma_f64, sig, EMU_MFMA, SHAPE(m, 4, 1, M_F64, M_F64) },
    MFMAD("16x16x4f64", "d8 s2 s2 s8d", 16) MFMAD("16x16x4_f64", "d8 s2 s2 s8d", 16)
    MFMAD("4x4x4f64", "d2 s2 s2 s2d", 4) MFMAD("4x4x4_4b_f64", "d2 s2 s2 s2d", 4)
#define WMMA(name, fn, ab, cd, t)                                                                                      \
    { "v_wmma_" name, fn, "d8 s" ab " s" ab " s8" cd, EMU_MFMA, SHAPE(16, 16, 1, t, t) },                              \
    { "v_wmma_" name, fn, "d4 s" ab " s" ab " s4" cd, EMU_MFMA, SHAPE(16, 16, 1, t, t) },
    WMMA("f32_16x16x16_f16", h_wmma_f32, "8p", "f", M_F16) WMMA("f32_16x16x16_bf16", h_wmma_f32, "8p", "f", M_BF16)
    WMMA("f16_16x16x16_f16", h_wmma_16, "8p", "p", M_F16) WMMA("bf16_16x16x16_bf16", h_wmma_16, "8p", "p", M_BF16)
    WMMA("i32_16x16x16_iu8", h_wmma_i32, "4", "", M_IU8) WMMA("i32_16x16x16_iu4", h_wmma_i32, "2", "", M_IU4)
};
const struct emu_ops EMU_N(ops_matrix) = { rows, COUNT(rows) };
