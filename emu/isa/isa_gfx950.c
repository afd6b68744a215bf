/* SPDX-License-Identifier: MIT
 *
 * VALU instructions that only gfx950 has: conversions between wide floats and fp8, bf8, fp6, bf6, fp4 with a scale, and
 * a few others. Source: AMD, "CDNA4 Instruction Set Architecture", 7.3 and chapter 12.
 *
 * A scale is the exponent of a float, as E8M0: 2^(e - 127), e 255 is a NaN. To a narrow type the value is divided by it
 * and rounded once, from a narrow type it is multiplied. fp6, bf6 and fp4 have neither infinities nor NaN: what is too
 * large becomes the largest. The ISA doesn't say what a NaN becomes there; here the largest too. */
#include "isa_math.h"
#include "narrow.h"

enum wide { W_F32, W_F16, W_BF16 };
/* emu_op.info: the narrow type, the wide one, how many. */
#define SCALED(narrow, wide, n, sr)                                                                                    \
    ((unsigned)(narrow) << 8 | (unsigned)(wide) << 12 | (unsigned)(n) << 16 | (sr) << 24)
static inline enum narrow narrow_of(const struct emu_inst *i)
{
    return (enum narrow)(i->op->info >> 8 & 15);
}
static inline enum wide wide_of(const struct emu_inst *i)
{
    return (enum wide)(i->op->info >> 12 & 15);
}
static inline int count_of(const struct emu_inst *i)
{
    return (int)(i->op->info >> 16 & 255);
}
static inline bool stochastic(const struct emu_inst *i)
{
    return i->op->info >> 24;
}

static inline uint32_t prng(uint32_t x)
{
    return x << 1 ^ (x >> 31 ? 0xc5 : 0);
}
/* 2^(e - 127) of each lane's float. */
static void scales(const struct emu_wave *w, const struct emu_inst *i, int k, double *out)
{
    row32 t;
    const uint32_t *s = src(w, i, k, t);
    LANES out[l] = narrow_scale(s[l] >> 23 & 255);
}
/* Element j of operand k. */
static void wide_element(const struct emu_wave *w, const struct emu_inst *i, int k, int j, double *out)
{
    row32 t;
    if (wide_of(i) == W_F32) {
        const uint32_t *a = src_word(w, i, k, j, t);
        LANES out[l] = (double)as_f32(ftz_in32(w) ? flush32(a[l]) : a[l]);
        return;
    }
    const uint32_t *a = src_word(w, i, k, j / 2, t);
    unsigned shift = 16 * ((unsigned)j & 1);
    uint8_t mod = i->mods->src[k];
    bool bf16 = wide_of(i) == W_BF16;
    LANES
    {
        uint32_t x = a[l] >> shift & 0xffff;
        if (mod & EMU_ABS)
            x &= 0x7fff;
        if (mod & EMU_NEG)
            x ^= 0x8000;
        out[l] = bf16 ? (double)bf2f(x) : (double)h2f(x);
    }
}

/* pk_fp8_*, pk_fp4_*, sr_fp8_*, sr_pk_fp4_*: a byte or a word of D, which op_sel says; pk_*_f32 has its two elements in
 * two operands. The scale is the last operand, the random bits the one before. */
H(to_narrow)
{
    enum narrow type = narrow_of(i);
    int n = count_of(i), bits = narrow_bits(type) * n;
    bool sr = stochastic(i), sat = w->mode & EMU_MODE_FP16_OVFL, apart = !sr && n == 2 && wide_of(i) == W_F32;
    unsigned shift = bits == 16 ? 16u * (i->mods->op_sel >> 3 & 1) : 8u * (i->mods->op_sel >> 2 & 3);
    uint32_t field = ((1u << bits) - 1) << shift, *d = vrow(w, i->reg[0]);
    row32 r = { 0 }, random = { 0 }, t;
    rowd scale, a;
    scales(w, i, i->n - 1, scale);
    if (sr)
        memcpy(random, src(w, i, 2, t), 256);
    for (int j = 0; j < n; j++) {
        wide_element(w, i, apart ? 1 + j : 1, apart ? 0 : j, a);
        LANES
        {
            r[l] |= narrow_round(copysign(a[l] / scale[l], a[l]), type, sat, sr, random[l]) << narrow_bits(type) * j;
            random[l] = prng(random[l]);
        }
    }
    LANES r[l] = (d[l] & ~field) | r[l] << shift;
    blend(d, r, w->exec);
}
/* 32 elements: those of operand 1 in order, or those of operands 1 and 2 in turn. */
H(to_narrow32)
{
    enum narrow type = narrow_of(i);
    bool sr = stochastic(i), both = count_of(i) == 16;
    uint32_t r[6][64] = { 0 };
    row32 random = { 0 }, t;
    rowd scale, a;
    scales(w, i, i->n - 1, scale);
    if (sr)
        memcpy(random, src(w, i, 2, t), 256);
    for (int j = 0; j < 32; j++) {
        unsigned at = 6u * (unsigned)j, word = at / 32, shift = at % 32;
        wide_element(w, i, both ? 1 + j % 2 : 1, both ? j / 2 : j, a);
        LANES
        {
            uint32_t x = narrow_round(copysign(a[l] / scale[l], a[l]), type, true, sr, random[l]);
            random[l] = prng(random[l]);
            r[word][l] |= x << shift;
            if (shift > 26)
                r[word + 1][l] |= x >> (32 - shift);
        }
    }
    for (int k = 0; k < 6; k++)
        blend(vrow(w, i->reg[0] + (unsigned)k), r[k], w->exec);
}

static uint32_t to_wide(double v, enum wide type, bool sat)
{
    float f = (float)v;
    uint32_t h;
    switch (type) {
    case W_F16:
        h = d2h(v);
        return sat && (h & 0x7fff) == 0x7c00 && !isinf(v) ? (h & 0x8000) | 0x7bff : h;
    case W_BF16:
        return f2bf(d2f_odd(v));
    default:
        return as_u32(f);
    }
}
/* One or two elements from the byte or word that op_sel names; a single f16 goes to the half that it names. */
H(from_narrow)
{
    enum narrow type = narrow_of(i);
    enum wide wide = wide_of(i);
    int n = count_of(i), bits = narrow_bits(type);
    bool sat = w->mode & EMU_MODE_FP16_OVFL;
    unsigned at = bits * n == 16 ? 16u * (i->mods->op_sel & 1) : 8u * (i->mods->op_sel & 3);
    row32 x, t, lo, hi;
    rowd scale;
    memcpy(x, src(w, i, 1, t), 256);
    scales(w, i, 2, scale);
    LANES
    {
        uint32_t e = x[l] >> at;
        lo[l] = to_wide(narrow_value(e & ((1u << bits) - 1), type) * scale[l], wide, sat);
        hi[l] = n == 2 ? to_wide(narrow_value(e >> bits & ((1u << bits) - 1), type) * scale[l], wide, sat) : 0;
    }
    uint32_t *d = vrow(w, i->reg[0]);
    if (wide == W_F32) {
        blend(d, lo, w->exec);
        if (n == 2)
            blend(vrow(w, i->reg[0] + 1u), hi, w->exec);
        return;
    }
    bool high = i->mods->op_sel & 8;
    if (n == 2)
        LANES lo[l] |= hi[l] << 16;
    else
        LANES lo[l] = high ? (d[l] & 0xffff) | lo[l] << 16 : (d[l] & 0xffff0000) | lo[l];
    blend(d, lo, w->exec);
}
H(from_narrow32)
{
    enum narrow type = narrow_of(i);
    enum wide wide = wide_of(i);
    bool sat = w->mode & EMU_MODE_FP16_OVFL;
    uint32_t a[6][64], r[32][64] = { 0 };
    row32 t;
    rowd scale;
    for (int k = 0; k < 6; k++)
        memcpy(a[k], src_word(w, i, 1, k, t), 256);
    scales(w, i, 2, scale);
    for (int j = 0; j < 32; j++) {
        unsigned at = 6u * (unsigned)j, word = at / 32, shift = at % 32;
        LANES
        {
            uint64_t x = a[word][l] | (uint64_t)a[word < 5 ? word + 1 : 5][l] << 32;
            uint32_t y = to_wide(narrow_value(x >> shift & 63, type) * scale[l], wide, sat);
            if (wide == W_F32)
                r[j][l] = y;
            else
                r[j / 2][l] |= y << 16 * (j & 1);
        }
    }
    for (int k = 0; k < (wide == W_F32 ? 32 : 16); k++)
        blend(vrow(w, i->reg[0] + (unsigned)k), r[k], w->exec);
}

/* ---- 16-bit floats ----------------------------------------------------------------------------------------------- */

static float modified(const struct emu_inst *i, float x)
{
    static const float factor[] = { 1, 2, 4, 0.5f };
    x *= factor[i->mods->omod & 3];
    return i->mods->clamp ? (x > 0 ? x < 1 ? x : 1 : 0) : x;
}
static inline void pack16(struct emu_wave *w, const struct emu_inst *i, bool bf16)
{
    row32 ta, tb, r;
    const float *a = srcf(w, i, 1, ta), *b = srcf(w, i, 2, tb);
    LANES
    {
        float x = modified(i, a[l]), y = modified(i, b[l]);
        r[l] = bf16 ? f2bf(x) | f2bf(y) << 16 : f2h(x) | f2h(y) << 16;
    }
    blend(vrow(w, i->reg[0]), r, w->exec);
}
H(v_cvt_pk_bf16_f32)
{
    pack16(w, i, true);
}
H(v_cvt_pk_f16_f32)
{
    pack16(w, i, false);
}
/* The bits that are cut off get the random number's top ones added. The other half of D is kept. */
static inline void sr16(struct emu_wave *w, const struct emu_inst *i, bool bf16)
{
    row32 ta, tb, r;
    const float *a = srcf(w, i, 1, ta);
    const uint32_t *random = src(w, i, 2, tb);
    uint32_t *d = vrow(w, i->reg[0]);
    bool high = i->mods->op_sel & 8;
    LANES
    {
        uint32_t x = wide_random(a[l], bf16, random[l]);
        r[l] = high ? (d[l] & 0xffff) | x << 16 : (d[l] & 0xffff0000) | x;
    }
    blend(d, r, w->exec);
}
H(v_cvt_sr_bf16_f32)
{
    sr16(w, i, true);
}
H(v_cvt_sr_f16_f32)
{
    sr16(w, i, false);
}
H(v_cvt_f32_bf16)
{
    row32 t;
    rowf r;
    const uint32_t *a = src(w, i, 1, t);
    LANES r[l] = bf2f(a[l] & 0xffff);
    putf(w, i, r);
}

/* IEEE 754-2019's minimum() and maximum(): a NaN comes out, -0 is below +0. */
static inline float minimum(float a, float b)
{
    float r = a < b ? a : b < a ? b : as_f32(as_u32(a) | (a == b ? as_u32(b) : 0));
    return a != a ? quiet(a) : b != b ? quiet(b) : r;
}
static inline float maximum(float a, float b)
{
    return -minimum(-a, -b);
}
static inline void pk3(struct emu_wave *w, const struct emu_inst *i, bool max)
{
    const struct emu_mods *m = i->mods;
    row32 r = { 0 }, t[3];
    const uint32_t *a[3];
    for (int k = 0; k < 3; k++)
        a[k] = src(w, i, 1 + k, t[k]);
    for (int half = 0; half < 2; half++) {
        unsigned sel = half ? m->op_sel_hi : m->op_sel, neg = half ? m->neg_hi : m->neg_lo;
        LANES
        {
            float v[3];
            for (unsigned k = 0; k < 3; k++) {
                uint32_t x = (a[k][l] >> (sel >> k & 1 ? 16 : 0) & 0xffff) ^ (neg >> k & 1 ? 0x8000 : 0);
                v[k] = h2f(ftz_in16(w) ? flush16(x) : x);
            }
            float y = max ? maximum(maximum(v[0], v[1]), v[2]) : minimum(minimum(v[0], v[1]), v[2]);
            if (m->clamp)
                y = y > 0 ? y < 1 ? y : 1 : 0;
            r[l] |= f2h(y) << 16 * half;
        }
    }
    blend(vrow(w, i->reg[0]), r, w->exec);
}
H(v_pk_minimum3_f16)
{
    pk3(w, i, false);
}
H(v_pk_maximum3_f16)
{
    pk3(w, i, true);
}

/* ---- integers ---------------------------------------------------------------------------------------------------- */

H(v_prng_b32)
{
    row32 t, r;
    const uint32_t *a = src(w, i, 1, t);
    LANES r[l] = prng(a[l]);
    put(w, i, r);
}
/* Bit {a, b, c} of the truth table. */
static inline uint32_t bitop3(uint32_t a, uint32_t b, uint32_t c, unsigned table)
{
    uint32_t r = 0;
    for (unsigned k = 0; k < 8; k++)
        r |= (k & 4 ? a : ~a) & (k & 2 ? b : ~b) & (k & 1 ? c : ~c) & -(table >> k & 1);
    return r;
}
H(v_bitop3_b32)
{
    row32 r;
    unsigned table = i->mods->bitop3;
    ROW_U(a, 1) ROW_U(b, 2) ROW_U(c, 3) LANES r[l] = bitop3(a_[l], b_[l], c_[l], table);
    put(w, i, r);
}
H(v_bitop3_b16)
{
    row32 r;
    unsigned table = i->mods->bitop3;
    ROW_U(a, 1) ROW_U(b, 2) ROW_U(c, 3) LANES r[l] = bitop3(a_[l], b_[l], c_[l], table) & 0xffff;
    EMU_N(put16)(w, i, r);
}
static inline int32_t limited(int32_t x, int32_t lo, int32_t hi)
{
    return x < lo ? lo : x > hi ? hi : x;
}
static inline void ashr_pk(struct emu_wave *w, const struct emu_inst *i, int32_t lo, int32_t hi)
{
    row32 r;
    ROW_U(a, 1) ROW_U(b, 2) ROW_U(c, 3) LANES
    {
        uint32_t x = (uint32_t)limited((int32_t)a_[l] >> (c_[l] & 31), lo, hi),
                 y = (uint32_t)limited((int32_t)b_[l] >> (c_[l] & 31), lo, hi);
        r[l] = (x & 255) | (y & 255) << 8;
    }
    EMU_N(put16)(w, i, r);
}
H(v_ashr_pk_i8_i32)
{
    ashr_pk(w, i, -128, 127);
}
H(v_ashr_pk_u8_i32)
{
    ashr_pk(w, i, 0, 255);
}

/* Lane l of the second and lane l + rows of the first change places, for each l whose bit `rows` is not set. A lane
 * that is off gives what it holds with FI, else 0 with BOUND_CTRL, else nothing; it is not written. */
static void swap_rows(struct emu_wave *w, const struct emu_inst *i, int rows)
{
    uint32_t *d = vrow(w, i->reg[0]), *s = vrow(w, i->reg[1]);
    for (int l = 0; l < 64; l++) {
        int h = l + rows;
        if (l & rows)
            continue;
        bool low = w->exec >> l & 1, high = w->exec >> h & 1, fi = i->mods->fi, zero = i->mods->bound_ctrl;
        uint32_t x = s[l], y = d[h];
        if (high && (low || fi || zero))
            d[h] = low || fi ? x : 0;
        if (low && (high || fi || zero))
            s[l] = high || fi ? y : 0;
    }
}
H(v_permlane16_swap_b32)
{
    swap_rows(w, i, 16);
}
H(v_permlane32_swap_b32)
{
    swap_rows(w, i, 32);
}

/* clang-format off */
static const struct emu_op rows[] = {
#define ROW(n, s) { #n, h_##n, s, EMU_VALU, 0 },
    ROW(v_cvt_pk_bf16_f32, "d1 s1f s1f") ROW(v_cvt_pk_f16_f32, "d1 s1f s1f")
    ROW(v_cvt_sr_bf16_f32, "b1 s1f s1") ROW(v_cvt_sr_f16_f32, "b1 s1f s1") ROW(v_cvt_f32_bf16, "d1 s1h")
    ROW(v_pk_minimum3_f16, "d1 s1p s1p s1p") ROW(v_pk_maximum3_f16, "d1 s1p s1p s1p")
    ROW(v_prng_b32, "d1 s1") ROW(v_bitop3_b32, "d1 s1 s1 s1")
    { "v_bitop3_b16", h_v_bitop3_b16, "d1 s1w s1w s1w", EMU_VALU, EMU_KEEPS_HI },
    { "v_ashr_pk_i8_i32", h_v_ashr_pk_i8_i32, "d1 s1 s1 s1", EMU_VALU, EMU_KEEPS_HI },
    { "v_ashr_pk_u8_i32", h_v_ashr_pk_u8_i32, "d1 s1 s1 s1", EMU_VALU, EMU_KEEPS_HI },
    { "v_permlane16_swap_b32", h_v_permlane16_swap_b32, "b1 b1", EMU_CROSS, 0 },
    { "v_permlane32_swap_b32", h_v_permlane32_swap_b32, "b1 b1", EMU_CROSS, 0 },
#define CVT(name, fn, sig, t, wd, n, sr) { "v_cvt_scalef32_" name, fn, sig, EMU_VALU, SCALED(t, wd, n, sr) },
/* fp8 and bf8 */
#define EIGHT(t, T)                                                                                                    \
    CVT("pk_" t "_f32", h_to_narrow, "b1 s1f s1f s1", T, W_F32, 2, 0)                                                  \
    CVT("pk_" t "_f16", h_to_narrow, "b1 s1 s1", T, W_F16, 2, 0)                                                       \
    CVT("pk_" t "_bf16", h_to_narrow, "b1 s1 s1", T, W_BF16, 2, 0)                                                     \
    CVT("sr_" t "_f32", h_to_narrow, "b1 s1f s1 s1", T, W_F32, 1, 1)                                                   \
    CVT("sr_" t "_f16", h_to_narrow, "b1 s1 s1 s1", T, W_F16, 1, 1)                                                    \
    CVT("sr_" t "_bf16", h_to_narrow, "b1 s1 s1 s1", T, W_BF16, 1, 1)                                                  \
    CVT("pk_f32_" t, h_from_narrow, "d2 s1 s1", T, W_F32, 2, 0) CVT("f32_" t, h_from_narrow, "d1 s1 s1", T, W_F32, 1, 0)\
    CVT("pk_f16_" t, h_from_narrow, "d1 s1 s1", T, W_F16, 2, 0) CVT("f16_" t, h_from_narrow, "b1 s1 s1", T, W_F16, 1, 0)\
    CVT("pk_bf16_" t, h_from_narrow, "d1 s1 s1", T, W_BF16, 2, 0)
    EIGHT("fp8", N_FP8) EIGHT("bf8", N_BF8)
#define SIX(t, T)                                                                                                      \
    CVT("2xpk16_" t "_f32", h_to_narrow32, "d6 s16 s16 s1", T, W_F32, 16, 0)                                           \
    CVT("pk32_" t "_f16", h_to_narrow32, "d6 s16 s1", T, W_F16, 32, 0)                                                 \
    CVT("pk32_" t "_bf16", h_to_narrow32, "d6 s16 s1", T, W_BF16, 32, 0)                                               \
    CVT("sr_pk32_" t "_f32", h_to_narrow32, "d6 s32 s1 s1", T, W_F32, 32, 1)                                           \
    CVT("sr_pk32_" t "_f16", h_to_narrow32, "d6 s16 s1 s1", T, W_F16, 32, 1)                                           \
    CVT("sr_pk32_" t "_bf16", h_to_narrow32, "d6 s16 s1 s1", T, W_BF16, 32, 1)                                         \
    CVT("pk32_f32_" t, h_from_narrow32, "d32 s6 s1", T, W_F32, 32, 0)                                                  \
    CVT("pk32_f16_" t, h_from_narrow32, "d16 s6 s1", T, W_F16, 32, 0)                                                  \
    CVT("pk32_bf16_" t, h_from_narrow32, "d16 s6 s1", T, W_BF16, 32, 0)
    SIX("fp6", N_FP6) SIX("bf6", N_BF6)
    CVT("pk_fp4_f32", h_to_narrow, "b1 s1f s1f s1", N_FP4, W_F32, 2, 0)
    CVT("pk_fp4_f16", h_to_narrow, "b1 s1 s1", N_FP4, W_F16, 2, 0)
    CVT("pk_fp4_bf16", h_to_narrow, "b1 s1 s1", N_FP4, W_BF16, 2, 0)
    CVT("sr_pk_fp4_f32", h_to_narrow, "b1 s2p s1 s1", N_FP4, W_F32, 2, 1)
    CVT("sr_pk_fp4_f16", h_to_narrow, "b1 s1 s1 s1", N_FP4, W_F16, 2, 1)
    CVT("sr_pk_fp4_bf16", h_to_narrow, "b1 s1 s1 s1", N_FP4, W_BF16, 2, 1)
    CVT("pk_f32_fp4", h_from_narrow, "d2 s1 s1", N_FP4, W_F32, 2, 0)
    CVT("pk_f16_fp4", h_from_narrow, "d1 s1 s1", N_FP4, W_F16, 2, 0)
    CVT("pk_bf16_fp4", h_from_narrow, "d1 s1 s1", N_FP4, W_BF16, 2, 0)
};
/* clang-format on */
const struct emu_ops EMU_N(ops_gfx950) = { rows, COUNT(rows) };
