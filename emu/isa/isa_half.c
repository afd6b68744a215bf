/* SPDX-License-Identifier: MIT
 *
 * Packed f16, mixed precision, dot products, conversions between small formats. */
#include "isa_math.h"

/* ---- packed f16 -------------------------------------------------------------------------------------------------- */

/* Half `h` of packed source n, as f32. */
static void pk_source(const struct emu_wave *w, const struct emu_inst *i, int n, int h, float *out)
{
    const struct emu_mods *m = i->mods;
    row32 t;
    const uint32_t *r = src(w, i, n + 1, t);
    unsigned shift = (h ? m->op_sel_hi : m->op_sel) >> n & 1 ? 16 : 0;
    uint32_t flip = (h ? m->neg_hi : m->neg_lo) >> n & 1 ? 0x8000 : 0;
    if (unlikely(ftz_in16(w)))
        LANES out[l] = h2f(flush16((r[l] >> shift & 0xffff) ^ flip));
    else
        LANES out[l] = h2f((r[l] >> shift & 0xffff) ^ flip);
}
static uint32_t clamp_h(uint32_t h)
{
    float f = h2f(h);
    return f != f || f <= 0 ? 0 : f >= 1 ? 0x3c00 : h;
}
#define IEEE ieee
#define PKH(name, n, e)                                                                                                \
    H(name)                                                                                                            \
    {                                                                                                                  \
        const int ieee __attribute__((unused)) = (w->mode & EMU_MODE_IEEE) != 0;                                       \
        row32 r;                                                                                                       \
        rowf A_, B_, C_;                                                                                               \
        memset(C_, 0, sizeof(C_));                                                                                     \
        for (int h = 0; h < 2; h++) {                                                                                  \
            pk_source(w, i, 0, h, A_);                                                                                 \
            pk_source(w, i, 1, h, B_);                                                                                 \
            if (n > 2)                                                                                                 \
                pk_source(w, i, 2, h, C_);                                                                             \
            row32 x;                                                                                                   \
            LANES                                                                                                      \
            {                                                                                                          \
                float a = A_[l], b = B_[l], c __attribute__((unused)) = C_[l];                                         \
                x[l] = d2h(e);                                                                                         \
            }                                                                                                          \
            if (unlikely(ftz_out16(w)))                                                                                \
                LANES x[l] = flush16(x[l]);                                                                            \
            if (unlikely(i->mods->clamp))                                                                              \
                LANES x[l] = clamp_h(x[l]);                                                                            \
            LANES r[l] = h ? r[l] | x[l] << 16 : x[l];                                                                 \
        }                                                                                                              \
        blend(vrow(w, i->reg[0]), r, w->exec);                                                                         \
    }
PKH(v_pk_add_f16, 2, (double)a + (double)b)
PKH(v_pk_mul_f16, 2, (double)a *(double)b)
PKH(v_pk_min_f16, 2, (double)fmin_(a, b, IEEE))
PKH(v_pk_max_f16, 2, (double)fmax_(a, b, IEEE))
PKH(v_pk_minimum_f16, 2, (double)fminimum_(a, b))
PKH(v_pk_maximum_f16, 2, (double)fmaximum_(a, b))
PKH(v_pk_fma_f16, 3, (double)a *(double)b + (double)c)
H(v_pk_fmac_f16)
{
    struct emu_mods m = *i->mods;
    struct emu_inst x = *i;
    m.op_sel = 0;
    m.op_sel_hi = 7;
    m.neg_lo = m.neg_hi = 0;
    x.mods = &m;
    x.reg[3] = i->reg[0];
    x.slow &= (uint8_t)~8;
    h_v_pk_fma_f16(w, &x);
}

/* ---- fma_mix: each source f32, or a half of a packed f16 --------------------------------------------------------- */

static void mix_source(const struct emu_wave *w, const struct emu_inst *i, int n, float *out)
{
    const struct emu_mods *m = i->mods;
    row32 t;
    const uint32_t *r = src(w, i, n + 1, t);
    if (m->op_sel_hi >> n & 1) {
        unsigned shift = m->op_sel >> n & 1 ? 16 : 0;
        bool ftz = ftz_in16(w);
        LANES out[l] = h2f(ftz ? flush16(r[l] >> shift & 0xffff) : r[l] >> shift & 0xffff);
    } else {
        bool ftz = ftz_in32(w);
        LANES out[l] = as_f32(ftz ? flush32(r[l]) : r[l]);
    }
    uint32_t clear = m->src[n + 1] & EMU_ABS ? 0x7fffffff : ~0u, flip = m->src[n + 1] & EMU_NEG ? 0x80000000 : 0;
    LANES out[l] = as_f32((as_u32(out[l]) & clear) ^ flip);
}
static void fma_mix(struct emu_wave *w, const struct emu_inst *i, rowf r)
{
    rowf a, b, c;
    mix_source(w, i, 0, a);
    mix_source(w, i, 1, b);
    mix_source(w, i, 2, c);
    LANES r[l] = __builtin_fmaf(a[l], b[l], c[l]);
}
H(v_fma_mix_f32)
{
    rowf r;
    fma_mix(w, i, r);
    putf(w, i, r);
}
/* The f16 results are those of the exact sum rounded once: fma in double is exact but for far-apart addends. */
static void fma_mix16(struct emu_wave *w, const struct emu_inst *i, bool hi)
{
    rowf a, b, c;
    row32 r;
    uint32_t *d = vrow(w, i->reg[0]);
    mix_source(w, i, 0, a);
    mix_source(w, i, 1, b);
    mix_source(w, i, 2, c);
    LANES r[l] = d2h(__builtin_fma((double)a[l], (double)b[l], (double)c[l]));
    if (ftz_out16(w))
        LANES r[l] = flush16(r[l]);
    if (i->mods->clamp)
        LANES r[l] = clamp_h(r[l]);
    LANES r[l] = hi ? r[l] << 16 | (d[l] & 0xffff) : r[l] | (d[l] & 0xffff0000);
    blend(d, r, w->exec);
}
H(v_fma_mixlo_f16)
{
    fma_mix16(w, i, false);
}
H(v_fma_mixhi_f16)
{
    fma_mix16(w, i, true);
}

/* ---- dot products ------------------------------------------------------------------------------------------------ */

/* The products are exact in double, and so is their sum for all but far-apart exponents; one rounding to f32. */
static inline void dot2(struct emu_wave *w, const struct emu_inst *i, bool bf16, int acc)
{
    const struct emu_mods *m = i->mods;
    row32 ta, tb, tc;
    rowf r;
    const uint32_t *a = src(w, i, 1, ta), *b = src(w, i, 2, tb), *c = acc ? vrow(w, i->reg[0]) : src(w, i, 3, tc);
    unsigned lo = acc ? 0 : m->op_sel, hi = acc ? 3 : m->op_sel_hi, nl = acc ? 0 : m->neg_lo, nh = acc ? 0 : m->neg_hi;
    uint32_t sign = 0x8000, negc = nl & 4 ? 0x80000000 : 0;
    (void)nh;
    LANES
    {
        uint32_t a0 = (a[l] >> (lo & 1 ? 16 : 0) & 0xffff) ^ (nl & 1 ? sign : 0);
        uint32_t b0 = (b[l] >> (lo & 2 ? 16 : 0) & 0xffff) ^ (nl & 2 ? sign : 0);
        uint32_t a1 = (a[l] >> (hi & 1 ? 16 : 0) & 0xffff) ^ (nh & 1 ? sign : 0);
        uint32_t b1 = (b[l] >> (hi & 2 ? 16 : 0) & 0xffff) ^ (nh & 2 ? sign : 0);
        double p0 = bf16 ? (double)bf2f(a0) * (double)bf2f(b0) : (double)h2f(a0) * (double)h2f(b0);
        double p1 = bf16 ? (double)bf2f(a1) * (double)bf2f(b1) : (double)h2f(a1) * (double)h2f(b1);
        r[l] = (float)(p0 + p1 + (double)as_f32(c[l] ^ negc));
    }
    putf(w, i, r);
}
H(v_dot2_f32_f16)
{
    dot2(w, i, false, 0);
}
H(v_dot2c_f32_f16)
{
    dot2(w, i, false, 1);
}
H(v_dot2c_f32_bf16)
{
    dot2(w, i, true, 1);
}
H(v_dot2_f32_bf16)
{
    dot2(w, i, true, 0);
}
/* gfx11: 16-bit result and addend. */
static void dot2_16(struct emu_wave *w, const struct emu_inst *i, bool bf16)
{
    row32 ta, tb, tc, r;
    const uint32_t *a = src(w, i, 1, ta), *b = src(w, i, 2, tb), *c = src(w, i, 3, tc);
    unsigned shift = i->mods->op_sel & 4 ? 16 : 0;
    LANES
    {
        if (bf16) {
            float p = bf2f(a[l] & 0xffff) * bf2f(b[l] & 0xffff) + bf2f(c[l] >> shift & 0xffff);
            r[l] = f2bf(__builtin_fmaf(bf2f(a[l] >> 16), bf2f(b[l] >> 16), p));
        } else {
            double p = (double)h2f(a[l] & 0xffff) * (double)h2f(b[l] & 0xffff) +
                       (double)h2f(a[l] >> 16) * (double)h2f(b[l] >> 16);
            r[l] = d2h(p + (double)h2f(c[l] >> shift & 0xffff));
        }
    }
    EMU_N(put16)(w, i, r);
}
H(v_dot2_f16_f16)
{
    dot2_16(w, i, false);
}
H(v_dot2_bf16_bf16)
{
    dot2_16(w, i, true);
}

/* ---- f16 conversions --------------------------------------------------------------------------------------------- */

H(v_cvt_f32_f16)
{
    rowf r;
    srch(w, i, 1, r);
    putf(w, i, r);
}
/* With FP16_OVFL what overflows becomes the largest number. */
static inline uint32_t cvt_h(const struct emu_wave *w, float f)
{
    uint32_t h = f2h(f);
    return unlikely(w->mode & EMU_MODE_FP16_OVFL) && (h & 0x7fff) == 0x7c00 && !isinf(f) ? (h & 0x8000) | 0x7bff : h;
}
OP(v_cvt_f16_f32, row32, ROW_F(a, 1), LANE1, cvt_h(w, a), EMU_N(puth))
OP(v_cvt_pkrtz_f16_f32, row32, ROW_F(a, 1) ROW_F(b, 2), LANE2, f2h_rtz(a) | f2h_rtz(b) << 16, put)
OP(v_cvt_f16_u16, row32, ROW_U(a, 1), LANE1, f2h((float)(a & 0xffff)), EMU_N(puth))
OP(v_cvt_f16_i16, row32, ROW_U(a, 1), LANE1, f2h((float)(int16_t)a), EMU_N(puth))
OP(v_cvt_u16_f16, row32, ROW_H(a, 1), LANE1, a >= 65535.0f ? 65535 : a > 0 ? (uint32_t)a : 0, EMU_N(put16))
OP(v_cvt_i16_f16, row32, ROW_H(a, 1), LANE1,
   a >= 32767.0f   ? 32767
   : a > -32769.0f ? (uint32_t)(int32_t)a
   : a != a        ? 0
                   : 0x8000,
   EMU_N(put16))
OP(v_frexp_exp_i16_f16, row32, ROW_H(a, 1), LANE1, frexp_exp32(a), EMU_N(put16))
OP(v_ldexp_f16, row32, ROW_H(a, 1) ROW_U(b, 2), LANE2, d2h(ldexp((double)a, (int16_t)b)), EMU_N(puth))
OP(v_pack_b32_f16, row32, ROW_U(a, 1) ROW_U(b, 2), LANE2, (a & 0xffff) | b << 16, put)
static inline uint32_t norm16(float f, bool is_signed)
{
    float s = is_signed ? (f > 1 ? 1 : f < -1 ? -1 : f) * 32767.0f : (f > 1 ? 1 : f > 0 ? f : 0) * 65535.0f;
    return f != f ? 0 : (uint32_t)(int32_t)rintf(s) & 0xffff;
}
OP(v_cvt_norm_i16_f16, row32, ROW_H(a, 1), LANE1, norm16(a, true), EMU_N(put16))
OP(v_cvt_norm_u16_f16, row32, ROW_H(a, 1), LANE1, norm16(a, false), EMU_N(put16))
OP(v_cvt_pk_norm_i16_f16, row32, ROW_H(a, 1) ROW_H(b, 2), LANE2, norm16(a, true) | norm16(b, true) << 16, put)
OP(v_cvt_pk_norm_u16_f16, row32, ROW_H(a, 1) ROW_H(b, 2), LANE2, norm16(a, false) | norm16(b, false) << 16, put)
OP(v_cvt_pknorm_i16_f32, row32, ROW_F(a, 1) ROW_F(b, 2), LANE2, norm16(a, true) | norm16(b, true) << 16, put)
OP(v_cvt_pknorm_u16_f32, row32, ROW_F(a, 1) ROW_F(b, 2), LANE2, norm16(a, false) | norm16(b, false) << 16, put)
OP(v_cvt_pk_u16_u32, row32, ROW_U(a, 1) ROW_U(b, 2), LANE2, (a > 0xffff ? 0xffff : a) | (b > 0xffff ? 0xffff : b) << 16,
   put)
H(v_cvt_pk_i16_i32)
{
    row32 r, ta, tb;
    const uint32_t *a = src(w, i, 1, ta), *b = src(w, i, 2, tb);
    LANES
    {
        int32_t x = (int32_t)a[l], y = (int32_t)b[l];
        x = x > 32767 ? 32767 : x < -32768 ? -32768 : x;
        y = y > 32767 ? 32767 : y < -32768 ? -32768 : y;
        r[l] = ((uint32_t)x & 0xffff) | (uint32_t)y << 16;
    }
    put(w, i, r);
}
H(v_cvt_pk_u8_f32)
{
    row32 r, ta, tb, tc;
    const float *a = srcf(w, i, 1, ta);
    const uint32_t *b = src(w, i, 2, tb), *c = src(w, i, 3, tc);
    LANES
    {
        float f = rintf(a[l]);
        uint32_t x = f >= 255 ? 255 : f > 0 ? (uint32_t)f : 0, at = 8 * (b[l] & 3);
        r[l] = (c[l] & ~(255u << at)) | x << at;
    }
    put(w, i, r);
}
H(v_sat_pk_u8_i16)
{
    row32 r, t;
    const uint32_t *a = src(w, i, 1, t);
    LANES
    {
        int32_t x = (int16_t)a[l], y = (int32_t)a[l] >> 16;
        r[l] = (uint32_t)(x < 0 ? 0 : x > 255 ? 255 : x) | (uint32_t)(y < 0 ? 0 : y > 255 ? 255 : y) << 8;
    }
    EMU_N(put16)(w, i, r);
}
/* d, s, s, c; class masks are in isa_cmp.c */

/* ---- fp8: e4m3 and e5m2, AMD's fnuz or OCP's --------------------------------------------------------------------- */

/* mantissa bits m (3 or 2). fnuz: bias one higher, no infinities, the only NaN is 0x80. */
static float fp8_value(uint32_t x, int m, bool fnuz)
{
    int bits = 7 - m, bias = (1 << (bits - 1)) - 1 + fnuz;
    uint32_t e = x >> m & ((1u << bits) - 1), f = x & ((1u << m) - 1), sign = x & 0x80;
    if (fnuz && x == 0x80)
        return NAN;
    if (!fnuz && m == 2 && e == 31)
        return f ? NAN : sign ? -INFINITY : INFINITY;
    if (!fnuz && m == 3 && (x & 0x7f) == 0x7f)
        return NAN;
    float v = e ? ldexpf((float)(f | 1u << m), (int)e - bias - m) : ldexpf((float)f, 1 - bias - m);
    return sign ? -v : v;
}
static uint32_t fp8_largest(int m, bool fnuz)
{
    return fnuz ? 0x7f : m == 3 ? 0x7e : 0x7b;
}
/* To nearest even, or with `random` (the bits below, left-aligned in 32) added and then truncated. */
static uint32_t fp8_round(float f, int m, bool fnuz, bool saturate, bool stochastic, uint32_t random)
{
    int bits = 7 - m, bias = (1 << (bits - 1)) - 1 + fnuz;
    uint32_t sign = as_u32(f) >> 24 & 0x80, nan = fnuz ? 0x80 : 0x7f | sign;
    double a = fabs((double)f);
    if (f != f)
        return nan;
    uint32_t largest = fp8_largest(m, fnuz);
    uint32_t over = saturate ? largest | sign : fnuz || m == 3 ? nan : 0x7c | sign;
    if (isinf(f))
        return saturate && (fnuz || m == 3) ? largest | sign : fnuz || m == 3 ? nan : 0x7c | sign;
    int e;
    frexp(a, &e);
    e = a == 0 ? 1 - bias : e - 1; /* a = 1.x * 2^e */
    if (e < 1 - bias)
        e = 1 - bias;
    double ulp = ldexp(1, e - m), n = a / ulp;
    n = stochastic ? floor(n + ldexp((double)random, -32)) : rint(n);
    double v = n * ulp;
    if (v > (double)fp8_value(largest, m, fnuz))
        return over;
    uint32_t q = (uint32_t)n; /* with the hidden bit */
    uint32_t x = q >= 1u << m ? ((uint32_t)(e + bias) << m) + q - (1u << m) : q;
    return x == 0 ? (fnuz ? 0 : sign) : x | sign;
}
static inline bool fnuz_of(const struct emu_wave *w)
{
    return w->prog->arch->fnuz;
}
/* Which byte or word of the source: SDWA has chosen on gfx9; op_sel does on the VOP3 forms of gfx12. */
static void cvt_f32_fp8(struct emu_wave *w, const struct emu_inst *i, int m)
{
    row32 t;
    rowf r;
    const uint32_t *a = src(w, i, 1, t);
    unsigned shift = i->mods->sdwa ? 0 : 8 * ((i->mods->op_sel & 1) * 2 + (i->mods->op_sel >> 1 & 1));
    bool fnuz = fnuz_of(w);
    LANES r[l] = fp8_value(a[l] >> shift & 255, m, fnuz);
    put(w, i, (uint32_t *)r);
}
H(v_cvt_f32_fp8)
{
    cvt_f32_fp8(w, i, 3);
}
H(v_cvt_f32_bf8)
{
    cvt_f32_fp8(w, i, 2);
}
static void cvt_pk_f32_fp8(struct emu_wave *w, const struct emu_inst *i, int m)
{
    row32 t, x;
    row64 r;
    bool fnuz = fnuz_of(w);
    memcpy(x, src(w, i, 1, t), 256);
    unsigned shift = !i->mods->sdwa && i->mods->op_sel & 1 ? 16 : 0;
    LANES r[l] = as_u32(fp8_value(x[l] >> shift & 255, m, fnuz)) |
                 (uint64_t)as_u32(fp8_value(x[l] >> (shift + 8) & 255, m, fnuz)) << 32;
    EMU_N(put64)(w, i, r);
}
H(v_cvt_pk_f32_fp8)
{
    cvt_pk_f32_fp8(w, i, 3);
}
H(v_cvt_pk_f32_bf8)
{
    cvt_pk_f32_fp8(w, i, 2);
}
static void cvt_pk_fp8(struct emu_wave *w, const struct emu_inst *i, int m)
{
    row32 r, ta, tb;
    const float *a = srcf(w, i, 1, ta), *b = srcf(w, i, 2, tb);
    uint32_t *d = vrow(w, i->reg[0]);
    bool fnuz = fnuz_of(w), sat = w->mode & EMU_MODE_FP16_OVFL, hi = i->mods->op_sel & 8;
    LANES
    {
        uint32_t x = fp8_round(a[l], m, fnuz, sat, false, 0) | fp8_round(b[l], m, fnuz, sat, false, 0) << 8;
        r[l] = hi ? x << 16 | (d[l] & 0xffff) : x | (d[l] & 0xffff0000);
    }
    blend(d, r, w->exec);
}
H(v_cvt_pk_fp8_f32)
{
    cvt_pk_fp8(w, i, 3);
}
H(v_cvt_pk_bf8_f32)
{
    cvt_pk_fp8(w, i, 2);
}
/* Byte op_sel[3:2] of the destination; the random bits' top ones are added below the mantissa. */
static void cvt_sr_fp8(struct emu_wave *w, const struct emu_inst *i, int m)
{
    row32 r, ta, tb;
    const float *a = srcf(w, i, 1, ta);
    const uint32_t *b = src(w, i, 2, tb);
    uint32_t *d = vrow(w, i->reg[0]);
    bool fnuz = fnuz_of(w), sat = w->mode & EMU_MODE_FP16_OVFL;
    unsigned shift = 8 * (i->mods->op_sel >> 2 & 3);
    LANES
    {
        uint32_t x = fp8_round(a[l], m, fnuz, sat, true, b[l]);
        r[l] = (d[l] & ~(255u << shift)) | x << shift;
    }
    blend(d, r, w->exec);
}
H(v_cvt_sr_fp8_f32)
{
    cvt_sr_fp8(w, i, 3);
}
H(v_cvt_sr_bf8_f32)
{
    cvt_sr_fp8(w, i, 2);
}

/* gfx12: four products of bytes, summed in double (exact but for far-apart exponents) and rounded once. */
static void dot4_fp8(struct emu_wave *w, const struct emu_inst *i, int ma, int mb)
{
    row32 ta, tb, tc;
    rowf r;
    const uint32_t *a = src(w, i, 1, ta), *b = src(w, i, 2, tb);
    const float *c = srcf(w, i, 3, tc);
    LANES
    {
        double sum = (double)(i->mods->neg_lo & 4 ? -c[l] : c[l]);
        for (int k = 0; k < 32; k += 8)
            sum += (double)fp8_value(a[l] >> k & 255, ma, false) * (double)fp8_value(b[l] >> k & 255, mb, false);
        r[l] = (float)sum;
    }
    putf(w, i, r);
}
H(v_dot4_f32_fp8_fp8)
{
    dot4_fp8(w, i, 3, 3);
}
H(v_dot4_f32_fp8_bf8)
{
    dot4_fp8(w, i, 3, 2);
}
H(v_dot4_f32_bf8_fp8)
{
    dot4_fp8(w, i, 2, 3);
}
H(v_dot4_f32_bf8_bf8)
{
    dot4_fp8(w, i, 2, 2);
}

/* clang-format off */
static const struct emu_op rows[] = {
#define ROW(n, s) { #n, h_##n, s, EMU_VALU, 0 },
    ROW(v_pk_add_f16, "d1 s1p s1p")
    ROW(v_pk_mul_f16, "d1 s1p s1p")
    ROW(v_pk_min_f16, "d1 s1p s1p")
    ROW(v_pk_max_f16, "d1 s1p s1p")
    { "v_pk_min_num_f16", h_v_pk_min_f16, "d1 s1p s1p", EMU_VALU, 0 },
    { "v_pk_max_num_f16", h_v_pk_max_f16, "d1 s1p s1p", EMU_VALU, 0 },
    ROW(v_pk_minimum_f16, "d1 s1p s1p")
    ROW(v_pk_maximum_f16, "d1 s1p s1p")
    ROW(v_dot4_f32_fp8_fp8, "d1 s1 s1 s1f")
    ROW(v_dot4_f32_fp8_bf8, "d1 s1 s1 s1f")
    ROW(v_dot4_f32_bf8_fp8, "d1 s1 s1 s1f")
    ROW(v_dot4_f32_bf8_bf8, "d1 s1 s1 s1f")
    ROW(v_pk_fma_f16, "d1 s1p s1p s1p")
    ROW(v_pk_fmac_f16, "b1 s1p s1p")
    { "v_fma_mix_f32", h_v_fma_mix_f32, "d1 s1p s1p s1p", EMU_VALU, 0 },
    { "v_fma_mixlo_f16", h_v_fma_mixlo_f16, "b1 s1p s1p s1p", EMU_VALU, 0 },
    { "v_fma_mixhi_f16", h_v_fma_mixhi_f16, "b1 s1p s1p s1p", EMU_VALU, 0 },
    ROW(v_dot2_f32_f16, "d1 s1p s1p s1f")
    { "v_dot2acc_f32_f16", h_v_dot2c_f32_f16, "b1 s1p s1p", EMU_VALU, 0 },
    ROW(v_dot2c_f32_f16, "b1 s1p s1p")
    ROW(v_dot2c_f32_bf16, "b1 s1y s1y")
    ROW(v_dot2_f32_bf16, "d1 s1y s1y s1f")
    ROW(v_dot2_f16_f16, "d1 s1 s1 s1")
    ROW(v_dot2_bf16_bf16, "d1 s1 s1 s1")
    ROW(v_cvt_f32_f16, "d1 s1h")
    ROW(v_cvt_f16_f32, "d1 s1f")
    ROW(v_cvt_pkrtz_f16_f32, "d1 s1f s1f")
    { "v_cvt_pk_rtz_f16_f32", h_v_cvt_pkrtz_f16_f32, "d1 s1f s1f", EMU_VALU, 0 },
    ROW(v_cvt_f16_u16, "d1 s1w")
    ROW(v_cvt_f16_i16, "d1 s1w")
    ROW(v_cvt_u16_f16, "d1 s1h")
    ROW(v_cvt_i16_f16, "d1 s1h")
    ROW(v_frexp_exp_i16_f16, "d1 s1h")
    ROW(v_ldexp_f16, "d1 s1h s1w")
    ROW(v_pack_b32_f16, "d1 s1h s1h")
    ROW(v_cvt_norm_i16_f16, "d1 s1h")
    ROW(v_cvt_norm_u16_f16, "d1 s1h")
    ROW(v_cvt_pk_norm_i16_f16, "d1 s1h s1h")
    ROW(v_cvt_pk_norm_u16_f16, "d1 s1h s1h")
    { "v_cvt_pknorm_i16_f16", h_v_cvt_pk_norm_i16_f16, "d1 s1h s1h", EMU_VALU, 0 },
    { "v_cvt_pknorm_u16_f16", h_v_cvt_pk_norm_u16_f16, "d1 s1h s1h", EMU_VALU, 0 },
    ROW(v_cvt_pknorm_i16_f32, "d1 s1f s1f")
    ROW(v_cvt_pknorm_u16_f32, "d1 s1f s1f")
    { "v_cvt_pk_norm_i16_f32", h_v_cvt_pknorm_i16_f32, "d1 s1f s1f", EMU_VALU, 0 },
    { "v_cvt_pk_norm_u16_f32", h_v_cvt_pknorm_u16_f32, "d1 s1f s1f", EMU_VALU, 0 },
    ROW(v_cvt_pk_u16_u32, "d1 s1 s1")
    ROW(v_cvt_pk_i16_i32, "d1 s1 s1")
    ROW(v_cvt_pk_u8_f32, "d1 s1f s1 s1")
    ROW(v_sat_pk_u8_i16, "d1 s1")
    ROW(v_cvt_f32_fp8, "d1 s1")
    ROW(v_cvt_f32_bf8, "d1 s1")
    ROW(v_cvt_pk_f32_fp8, "d2 s1")
    ROW(v_cvt_pk_f32_bf8, "d2 s1")
    ROW(v_cvt_pk_fp8_f32, "b1 s1f s1f")
    ROW(v_cvt_pk_bf8_f32, "b1 s1f s1f")
    ROW(v_cvt_sr_fp8_f32, "b1 s1f s1")
    ROW(v_cvt_sr_bf8_f32, "b1 s1f s1")
};
/* clang-format on */
const struct emu_ops EMU_N(ops_half) = { rows, COUNT(rows) };
