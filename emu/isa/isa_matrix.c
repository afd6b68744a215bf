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
 * 8-bit inputs are exact in f32 anyway). Hardware adds groups of products in an order and width that is not published,
 * so no emulation of the last place is claimed. Subnormal f16 and bf16 inputs and results are flushed on gfx90a (MI200:
 * rocm.docs.amd.com, MIOpen, "MI200 MFMA behavior specifics") and kept elsewhere. EXEC is not looked at. */
#include "isa_math.h"

#ifdef __AVX2__
#include <immintrin.h>
#endif

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

/* One f16 of each word. */
static inline void halves(const uint32_t *r, int shift, bool flush, float *out)
{
#ifdef __AVX512F__
    for (int l = 0; l < 64; l += 16) {
        __m512i x =
            _mm512_and_si512(_mm512_srli_epi32(_mm512_loadu_si512(r + l), (unsigned)shift), _mm512_set1_epi32(0xffff));
        if (flush) {
            __mmask16 normal = _mm512_test_epi32_mask(x, _mm512_set1_epi32(0x7c00));
            x = _mm512_mask_and_epi32(x, (__mmask16)~normal, x, _mm512_set1_epi32(0x8000));
        }
        _mm512_storeu_ps(out + l, _mm512_cvtph_ps(_mm512_cvtepi32_epi16(x)));
    }
#else
    LANES
    {
        uint32_t h = r[l] >> shift & 0xffff;
        out[l] = h2f(flush ? flush16(h) : h);
    }
#endif
}

/* out[j][l]: element j of lane l as f32. */
static inline void unpack_f32(float (*out)[64], const struct emu_wave *w, const struct emu_inst *i, int k, int type,
                              int n, bool flush)
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
            halves(r, 0, flush, out[2 * word]);
            halves(r, 16, flush, out[2 * word + 1]);
            break;
        default:
            for (int j = 0; j < 4; j++)
                if (type == M_FP8 && w->prog->arch->fnuz)
                    LANES out[4 * word + j][l] = fp8(r[l] >> 8 * j & 255, 3, true);
                else if (type == M_FP8)
                    LANES out[4 * word + j][l] = fp8(r[l] >> 8 * j & 255, 3, false);
                else if (w->prog->arch->fnuz)
                    LANES out[4 * word + j][l] = fp8(r[l] >> 8 * j & 255, 2, true);
                else
                    LANES out[4 * word + j][l] = fp8(r[l] >> 8 * j & 255, 2, false);
            break;
        }
    }
}
static inline void unpack_i32(int32_t (*out)[64], const struct emu_wave *w, const struct emu_inst *i, int k, int type,
                              int n, bool sgn)
{
    int per = elements_per_word(type);
    row32 t;
    for (int word = 0; word * per < n; word++) {
        const uint32_t *r = src_word(w, i, k, word, t);
        for (int j = 0; j < per; j++)
            if (type == M_IU4)
                LANES out[per * word + j][l] =
                    sgn ? (int32_t)(r[l] << (28 - 4 * j)) >> 28 : (int32_t)(r[l] >> 4 * j & 15);
            else
                LANES out[per * word + j][l] = sgn ? (int32_t)(int8_t)(r[l] >> 8 * j) : (int32_t)(r[l] >> 8 * j & 255);
    }
}

/* Signed bytes, two of them as i16 in a word. */
static inline void unpack_pairs(int32_t (*out)[64], const struct emu_wave *w, const struct emu_inst *i, int k,
                                int words)
{
    row32 t;
    for (int word = 0; word < words; word++) {
        const uint32_t *r = src_word(w, i, k, word, t);
        LANES
        {
            uint32_t x = r[l];
            uint32_t b0 = (uint32_t)(int8_t)x, b1 = (uint32_t)(int8_t)(x >> 8), b2 = (uint32_t)(int8_t)(x >> 16);
            out[2 * word][l] = (int32_t)((b0 & 0xffff) | b1 << 16);
            out[2 * word + 1][l] = (int32_t)((b2 & 0xffff) | (uint32_t)(int8_t)(x >> 24) << 16);
        }
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

/* ---- multiply and accumulate ------------------------------------------------------------------------------------- */

/* Vectors of 16 columns: what a row of D has, or half of it. */
#if defined(__AVX512F__)
enum { VECS = 1, ROWS = 8 };
typedef __m512 vf;
#define VF_LOAD(p)      _mm512_loadu_ps(p)
#define VF_STORE(p, x)  _mm512_storeu_ps(p, x)
#define VF_SET(x)       _mm512_set1_ps(x)
#define VF_FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#elif defined(__AVX2__) && defined(__FMA__)
enum { VECS = 2, ROWS = 4 };
typedef __m256 vf;
#define VF_LOAD(p)      _mm256_loadu_ps(p)
#define VF_STORE(p, x)  _mm256_storeu_ps(p, x)
#define VF_SET(x)       _mm256_set1_ps(x)
#define VF_FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#else
enum { VECS = 16, ROWS = 1 };
typedef float vf;
#define VF_LOAD(p)      (*(p))
#define VF_STORE(p, x)  (*(p) = (x))
#define VF_SET(x)       (x)
#define VF_FMA(a, b, c) __builtin_fmaf(a, b, c)
#endif

static inline int a_block(int blk, const struct emu_mods *mods)
{
    int group = (1 << mods->cbsz) - 1;
    return mods->cbsz ? (blk & ~group) | (mods->abid & group) : blk;
}

/* acc += a * b for m = 16 or 32. */
static inline __attribute__((always_inline)) void mac_f32(float (*acc)[64], float (*a)[64], float (*b)[64], int m,
                                                          int k, int kl, int blocks, const struct emu_mods *mods)
{
    enum { W = 16 / VECS };
    for (int blk = 0; blk < blocks; blk++)
        for (int r0 = 0; r0 < m; r0 += ROWS)
            for (int c0 = 0; c0 < m; c0 += 16) {
                float *d[ROWS];
                vf sum[ROWS][VECS];
                for (int r = 0; r < ROWS; r++) {
                    int reg, lane;
                    place(m, r0 + r, blk, &reg, &lane);
                    d[r] = acc[reg] + lane + c0;
                    for (int v = 0; v < VECS; v++)
                        sum[r][v] = VF_LOAD(d[r] + W * v);
                }
                for (int g = 0; g < k / kl; g++)
                    for (int j = 0; j < kl; j++) {
                        const float *x = &a[j][(g * blocks + a_block(blk, mods)) * m + r0];
                        const float *y = &b[j][(g * blocks + blk) * m + c0];
                        for (int v = 0; v < VECS; v++) {
                            vf yv = VF_LOAD(y + W * v);
                            for (int r = 0; r < ROWS; r++)
                                sum[r][v] = VF_FMA(VF_SET(x[r]), yv, sum[r][v]);
                        }
                    }
                for (int r = 0; r < ROWS; r++)
                    for (int v = 0; v < VECS; v++)
                        VF_STORE(d[r] + W * v, sum[r][v]);
            }
}
/* 4x4, 16 blocks: a lane is one column of one block, and needs one element of A for each row. */
static void mac4_f32(float (*acc)[64], float (*a)[64], float (*b)[64], int kl, const struct emu_mods *mods)
{
    for (int row = 0; row < 4; row++)
        for (int j = 0; j < kl; j++)
            LANES acc[row][l] = __builtin_fmaf(a[j][4 * a_block(l / 4, mods) + row], b[j][l], acc[row][l]);
}

/* Pairs of i8 as pairs of i16: two products a step. Sums wrap. */
static inline int32_t madd(int32_t x, int32_t y)
{
    return (int16_t)x * (int16_t)y + (x >> 16) * (y >> 16);
}
static inline __attribute__((always_inline)) void mac_i32(int32_t (*acc)[64], int32_t (*a)[64], int32_t (*b)[64], int m,
                                                          int k, int kl, int blocks, const struct emu_mods *mods)
{
    for (int blk = 0; blk < blocks; blk++)
        for (int row = 0; row < m; row++) {
            int reg, lane;
            place(m, row, blk, &reg, &lane);
            for (int c0 = 0; c0 < m; c0 += m < 16 ? m : 16) {
                int32_t *d = acc[reg] + lane + c0;
#ifdef __AVX512F__
                if (m >= 16) {
                    __m512i sum = _mm512_loadu_si512(d);
                    for (int g = 0; g < k / kl; g++)
                        for (int j = 0; j < kl / 2; j++)
                            sum = _mm512_add_epi32(
                                sum,
                                _mm512_madd_epi16(_mm512_set1_epi32(a[j][(g * blocks + a_block(blk, mods)) * m + row]),
                                                  _mm512_loadu_si512(&b[j][(g * blocks + blk) * m + c0])));
                    _mm512_storeu_si512(d, sum);
                    continue;
                }
#endif
                for (int g = 0; g < k / kl; g++)
                    for (int j = 0; j < kl / 2; j++) {
                        int32_t x = a[j][(g * blocks + a_block(blk, mods)) * m + row];
                        const int32_t *y = &b[j][(g * blocks + blk) * m + c0];
                        for (int c = 0; c < (m < 16 ? m : 16); c++)
                            d[c] = (int32_t)((uint32_t)d[c] + (uint32_t)madd(x, y[c]));
                    }
            }
        }
}

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
    if (m == 16 && k == 16)
        mac_f32(acc, a, b, 16, 16, 4, 1, i->mods);
    else if (m == 16 && k == 32)
        mac_f32(acc, a, b, 16, 32, 8, 1, i->mods);
    else if (m == 16)
        mac_f32(acc, a, b, 16, k, kl, blocks, i->mods);
    else if (m == 32)
        mac_f32(acc, a, b, 32, k, kl, blocks, i->mods);
    else
        mac4_f32(acc, a, b, kl, i->mods);
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
    unpack_pairs(a, w, i, 1, kl / 4);
    unpack_pairs(b, w, i, 2, kl / 4);
    if (unlikely(i->mods->blgp)) {
        int32_t t[64];
        for (int j = 0; j < kl / 2; j++) {
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

/* ---- f64 --------------------------------------------------------------------------------------------------------- */

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
        const uint32_t *lo = src_word(w, i, 3, constant ? 0 : 2 * e, t0),
                       *hi = src_word(w, i, 3, constant ? 1 : 2 * e + 1, t1);
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

/* ---- WMMA of gfx11: 16x16x16, A's and B's rows whole in each lane, lanes 16..31 repeat lanes 0..15 --------------- */

/* neg_lo and neg_hi of A and B are for even and odd k. */
static void wmma_signs(float (*a)[64], const struct emu_mods *m)
{
    for (int k = 0; k < 16; k++) {
        unsigned neg = k & 1 ? m->neg_hi : m->neg_lo;
        if ((neg ^ neg >> 1) & 1)
            LANES a[k][l] = -a[k][l];
    }
}
static void wmma_mac(float (*acc)[16], float (*a)[64], float (*b)[64])
{
    enum { W = 16 / VECS };
    for (int r0 = 0; r0 < 16; r0 += ROWS) {
        vf sum[ROWS][VECS];
        for (int r = 0; r < ROWS; r++)
            for (int v = 0; v < VECS; v++)
                sum[r][v] = VF_LOAD(acc[r0 + r] + W * v);
        for (int k = 0; k < 16; k++)
            for (int v = 0; v < VECS; v++) {
                vf y = VF_LOAD(b[k] + W * v);
                for (int r = 0; r < ROWS; r++)
                    sum[r][v] = VF_FMA(VF_SET(a[k][r0 + r]), y, sum[r][v]);
            }
        for (int r = 0; r < ROWS; r++)
            for (int v = 0; v < VECS; v++)
                VF_STORE(acc[r0 + r] + W * v, sum[r][v]);
    }
}

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
    for (int j = 0; j < 16 * 16; j++) { /* neg_hi of C is abs */
        int r = j / 16;
        if (i->mods->neg_hi & 4)
            acc[r][j % 16] = fabsf(acc[r][j % 16]);
        if (i->mods->neg_lo & 4)
            acc[r][j % 16] = -acc[r][j % 16];
    }
    wmma_signs(a, i->mods);
    wmma_mac(acc, a, b);
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
    }
    wmma_signs(a, i->mods);
    wmma_mac(acc, a, b);
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
            d[r][n] = i->mods->clamp ? (sum > INT32_MAX   ? INT32_MAX
                                        : sum < INT32_MIN ? INT32_MIN
                                                          : (int32_t)sum)
                                     : (int32_t)(uint32_t)(uint64_t)sum;
        }
    }
    for (int r = 0; r < 16; r++)
        memcpy(vrow(w, i->reg[0] + (unsigned)(r / rows)) + 16 * (r % rows), d[r], 64);
}

/* clang-format off */
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
    MFMA("16x16x32_f16", "d4 s4 s4 s4f", 16, 32, 1, M_F16) MFMA("32x32x16_f16", "d16 s4 s4 s16f", 32, 16, 1, M_F16)
    MFMA("16x16x32_bf16", "d4 s4 s4 s4f", 16, 32, 1, M_BF16) MFMA("32x32x16_bf16", "d16 s4 s4 s16f", 32, 16, 1, M_BF16)
    MFMA("16x16x8_xf32", "d4 s2 s2 s4f", 16, 8, 1, M_XF32) MFMA("32x32x4_xf32", "d16 s2 s2 s16f", 32, 4, 1, M_XF32)
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
    MFMAI("32x32x32_i8", "d16 s4 s4 s16", 32, 32, 1) MFMAI("16x16x64_i8", "d4 s4 s4 s4", 16, 64, 1)
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
/* clang-format on */
const struct emu_ops EMU_N(ops_matrix) = { rows, COUNT(rows) };
