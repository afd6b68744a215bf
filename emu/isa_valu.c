/* SPDX-License-Identifier: MIT
 *
 * Vector instructions: loops over the 64 lanes of rows, which the compiler turns into the host's SIMD. This file is
 * built once for each instruction set (EMU_SUFFIX); a wave of 32 lanes computes 64 and keeps 32, since EXEC has no
 * more. Semantics: AMD's ISA guides of CDNA 2 and 3 and RDNA 3, "Vector ALU operations". */
#include <math.h>

#include "isa.h"

#include "float.h"

#if !defined(EMU_SUFFIX)
#define EMU_SUFFIX portable
#endif
#define JOIN_(a, b) a##_##b
#define JOIN(a, b)  JOIN_(a, b)

/* ---- sources -------------------------------------------------------------------------------------------------------
 */

/* Lane l of the result is lane from[l] of the row; where there is none, 0 if bound_ctrl says so, else the lane is not
 * written. */
static const uint32_t *gather_dpp(W *w, I *i, const uint32_t *row, uint32_t *t)
{
    uint64_t write = 0;
    for (int l = 0; l < w->lanes; l++) {
        int r = l & ~15, q = l & 15, from = -1, arg = (int)i->m.dpp_arg;
        switch (i->m.dpp) {
        case EMU_DPP_QUAD_PERM:
            from = (l & ~3) + (arg >> 2 * (l & 3) & 3);
            break;
        case EMU_DPP_ROW_SHL:
            from = q + arg < 16 ? l + arg : -1;
            break;
        case EMU_DPP_ROW_SHR:
            from = q - arg >= 0 ? l - arg : -1;
            break;
        case EMU_DPP_ROW_ROR:
            from = r + ((q - arg) & 15);
            break;
        case EMU_DPP_WAVE_SHL:
            from = l + 1 < w->lanes ? l + 1 : -1;
            break;
        case EMU_DPP_WAVE_SHR:
            from = l - 1;
            break;
        case EMU_DPP_WAVE_ROL:
            from = (l + 1) & (w->lanes - 1);
            break;
        case EMU_DPP_WAVE_ROR:
            from = (l - 1) & (w->lanes - 1);
            break;
        case EMU_DPP_ROW_MIRROR:
            from = r + 15 - q;
            break;
        case EMU_DPP_ROW_HALF_MIRROR:
            from = (l & ~7) + 7 - (l & 7);
            break;
        case EMU_DPP_ROW_BCAST15: /* the last lane of a row to the whole next row */
            from = r >= 16 ? r - 1 : -1;
            break;
        case EMU_DPP_ROW_BCAST31: /* lane 31 to rows 2 and 3 */
            from = l >= 32 ? 31 : -1;
            break;
        case EMU_DPP_ROW_NEWBCAST:
        case EMU_DPP_ROW_SHARE:
            from = r + arg;
            break;
        case EMU_DPP_ROW_XMASK:
            from = r + (q ^ arg);
            break;
        case EMU_DPP_8:
            from = (l & ~7) + (arg >> 3 * (l & 7) & 7);
            break;
        }
        bool chosen = (i->m.row_mask >> (l / 16) & 1) && (i->m.bank_mask >> (l / 4 % 4) & 1);
        bool valid = from >= 0 && (i->m.fi || (w->exec >> from & 1));
        t[l] = valid ? row[from] : 0;
        if (chosen && (valid || i->m.bound_ctrl))
            write |= UINT64_C(1) << l;
    }
    w->dpp_write = write;
    return t;
}

static const uint32_t *select_sdwa(I *i, int k, const uint32_t *row, uint32_t *t)
{
    uint8_t sel = i->m.sel[k - 1];
    bool sext = i->m.src[k] & EMU_SEXT;
    if (sel == 6)
        return row;
    unsigned shift = sel < 4 ? 8u * sel : 16u * (sel - 4u), bits = sel < 4 ? 8 : 16;
    uint32_t mask = (1u << bits) - 1, sign = 1u << (bits - 1);
    LANES
    {
        uint32_t v = row[l] >> shift & mask;
        t[l] = sext ? (v ^ sign) - sign : v;
    }
    return t;
}

static const uint32_t *src(W *w, I *i, int k, uint32_t *t)
{
    uint16_t r = i->reg[k];
    if (r < EMU_VGPR) {
        uint32_t v = emu_s32(w, i, k);
        LANES t[l] = v;
        return i->m.sdwa && k <= 2 ? select_sdwa(i, k, t, t) : t;
    }
    const uint32_t *row = emu_row(w, r);
    if (i->m.dpp && k == 1)
        return gather_dpp(w, i, row, t);
    return i->m.sdwa && k <= 2 ? select_sdwa(i, k, row, t) : row;
}

static uint32_t flushed(uint32_t v)
{
    return v & 0x7f800000 ? v : v & 0x80000000u;
}

/* fp32: neg, abs, denormals. */
static const uint32_t *srcf(W *w, I *i, int k, uint32_t *t)
{
    const uint32_t *s = src(w, i, k, t);
    uint8_t m = i->m.src[k];
    if (!m && !w->flush32)
        return s;
    uint32_t keep = m & EMU_ABS ? 0x7fffffff : UINT32_MAX, flip = m & EMU_NEG ? 0x80000000u : 0;
    bool flush = w->flush32;
    LANES
    {
        uint32_t v = (s[l] & keep) ^ flip;
        t[l] = flush ? flushed(v) : v;
    }
    return t;
}

/* fp16: one half of the source, by op_sel, in the low bits of t. */
static const uint32_t *srch(W *w, I *i, int k, uint32_t *t)
{
    const uint32_t *s = src(w, i, k, t);
    uint8_t m = i->m.src[k];
    int n = i->role[0] == 's' ? k : k - 1; /* v_cmpx of gfx10+ has no destination: its first source is operand 0 */
    unsigned shift = i->m.op_sel >> n & 1 ? 16 : 0;
    uint32_t keep = m & EMU_ABS ? 0x7fff : 0xffff, flip = m & EMU_NEG ? 0x8000 : 0;
    LANES t[l] = ((s[l] >> shift) & keep) ^ flip;
    return t;
}

static void src64(W *w, I *i, int k, uint64_t *t)
{
    uint16_t r = i->reg[k];
    if (r < EMU_VGPR) {
        uint64_t v = emu_s64(w, i, k);
        LANES t[l] = v;
    } else {
        const uint32_t *lo = emu_row(w, r), *hi = emu_row(w, (uint16_t)(r + 1));
        LANES t[l] = lo[l] | (uint64_t)hi[l] << 32;
    }
}

static void srcd(W *w, I *i, int k, uint64_t *t)
{
    src64(w, i, k, t);
    uint8_t m = i->m.src[k];
    if (m & EMU_ABS)
        LANES t[l] &= INT64_MAX;
    if (m & EMU_NEG)
        LANES t[l] ^= UINT64_C(1) << 63;
}

/* ---- destinations ---------------------------------------------------------------------------------------------------
 */

static void blend(uint32_t *d, const uint32_t *r, uint64_t mask)
{
    if (mask == UINT64_MAX) {
        memcpy(d, r, 64 * sizeof(*d));
        return;
    }
    LANES d[l] = mask >> l & 1 ? r[l] : d[l];
}

static uint64_t write_mask(W *w, I *i)
{
    return i->m.dpp ? w->exec & w->dpp_write : w->exec;
}

static void put(W *w, I *i, uint32_t *r)
{
    uint32_t *d = emu_row(w, i->reg[0]);
    if (i->m.sdwa && i->m.sel_dst != 6) {
        uint8_t sel = i->m.sel_dst;
        unsigned shift = sel < 4 ? 8u * sel : 16u * (sel - 4u), bits = sel < 4 ? 8 : 16;
        uint32_t mask = ((1u << bits) - 1) << shift;
        LANES
        {
            uint32_t v = r[l] << shift & mask, sign = r[l] >> (bits - 1) & 1 ? UINT32_MAX << (shift + bits - 1) : 0;
            r[l] = i->m.sel_unused == 2 ? v | (d[l] & ~mask) : i->m.sel_unused == 1 ? v | sign : v;
        }
    }
    blend(d, r, write_mask(w, i));
}

/* fp32: denormals, omod, clamp. */
static void putf(W *w, I *i, uint32_t *r)
{
    if (w->flush32)
        LANES r[l] = flushed(r[l]);
    if (i->m.omod) {
        float f = i->m.omod == 1 ? 2.0f : i->m.omod == 2 ? 4.0f : 0.5f;
        LANES r[l] = f2u(u2f(r[l]) * f);
    }
    if (i->m.clamp) /* NaN becomes 0, as DX10_CLAMP says */
        LANES
        {
            float v = u2f(r[l]);
            r[l] = f2u(v > 0 ? (v < 1 ? v : 1.0f) : 0.0f);
        }
    put(w, i, r);
}

/* fp16 in the low bits of r: into the half that op_sel says. The other half: kept on gfx10+ and where op_sel names one,
 * else zero. */
static void puth(W *w, I *i, uint32_t *r)
{
    uint32_t *d = emu_row(w, i->reg[0]);
    bool high = i->m.op_sel & 8;
    if (i->m.clamp)
        LANES
        {
            float v = half_to_float((uint16_t)r[l]);
            r[l] = float_to_half(v > 0 ? (v < 1 ? v : 1.0f) : 0.0f);
        }
    if (i->m.sdwa) {
        put(w, i, r);
        return;
    }
    if (high)
        LANES r[l] = r[l] << 16 | (d[l] & 0xffff);
    else if (w->prog->arch->gfx >= 0x1000)
        LANES r[l] = (r[l] & 0xffff) | (d[l] & 0xffff0000u);
    else
        LANES r[l] &= 0xffff;
    blend(d, r, write_mask(w, i));
}

static void put64(W *w, I *i, const uint64_t *r)
{
    uint32_t lo[64], hi[64];
    LANES
    {
        lo[l] = (uint32_t)r[l];
        hi[l] = (uint32_t)(r[l] >> 32);
    }
    uint64_t m = write_mask(w, i);
    blend(emu_row(w, i->reg[0]), lo, m);
    blend(emu_row(w, (uint16_t)(i->reg[0] + 1)), hi, m);
}

/* The lowest bits of 64 words as one mask. */
static uint64_t pack(const uint32_t *r)
{
    uint64_t m = 0;
    for (int g = 0; g < 64; g += 8) {
        uint32_t b = 0;
        for (int k = 0; k < 8; k++)
            b |= (r[g + k] & 1) << k;
        m |= (uint64_t)b << g;
    }
    return m;
}

/* ---- what some instructions compute
 * ---------------------------------------------------------------------------------- */

static uint32_t cvt_u32(float f)
{
    return f >= 4294967296.0f ? UINT32_MAX : f > 0 ? (uint32_t)f : 0;
}

static uint32_t cvt_i32(float f)
{
    return f >= 2147483648.0f ? INT32_MAX : f <= -2147483648.0f ? 0x80000000u : f == f ? (uint32_t)(int32_t)f : 0;
}

static uint32_t cvt_i32d(double f)
{
    return f >= 2147483647.0 ? INT32_MAX : f <= -2147483648.0 ? 0x80000000u : f == f ? (uint32_t)(int32_t)f : 0;
}

static uint32_t cvt_u32d(double f)
{
    return f >= 4294967295.0 ? UINT32_MAX : f > 0 ? (uint32_t)f : 0;
}

/* minNum, maxNum: a NaN loses; -0 < +0. */
static float fmin_(float a, float b)
{
    return a != a ? b : b != b ? a : a < b ? a : b < a ? b : signbit(a) ? a : b;
}

static float fmax_(float a, float b)
{
    return a != a ? b : b != b ? a : a > b ? a : b > a ? b : signbit(a) ? b : a;
}

static double dmin_(double a, double b)
{
    return a != a ? b : b != b ? a : a < b ? a : b < a ? b : signbit(a) ? a : b;
}

static double dmax_(double a, double b)
{
    return a != a ? b : b != b ? a : a > b ? a : b > a ? b : signbit(a) ? b : a;
}

static float med3(float a, float b, float c)
{
    if (a != a || b != b || c != c)
        return fmin_(fmin_(a, b), c);
    float m = fmax_(fmax_(a, b), c);
    return m == a ? fmax_(b, c) : m == b ? fmax_(a, c) : fmax_(a, b);
}

static int32_t smed3(int32_t a, int32_t b, int32_t c)
{
    int32_t lo = a < b ? a : b, hi = a < b ? b : a;
    return c < lo ? lo : c > hi ? hi : c;
}

static uint32_t umed3(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t lo = a < b ? a : b, hi = a < b ? b : a;
    return c < lo ? lo : c > hi ? hi : c;
}

static uint32_t perm_byte(uint32_t a, uint32_t b, uint32_t sel)
{
    uint64_t both = (uint64_t)a << 32 | b;
    if (sel < 8)
        return (uint32_t)(both >> 8 * sel) & 255;
    if (sel < 12) /* sign of a 16-bit word */
        return both >> (16 * (sel - 8) + 15) & 1 ? 255 : 0;
    return sel == 12 ? 0 : 255;
}

static uint32_t perm(uint32_t a, uint32_t b, uint32_t s)
{
    return perm_byte(a, b, s & 255) | perm_byte(a, b, s >> 8 & 255) << 8 | perm_byte(a, b, s >> 16 & 255) << 16 |
           perm_byte(a, b, s >> 24) << 24;
}

static int32_t sext24(uint32_t v)
{
    return (int32_t)(v << 8) >> 8;
}

static uint32_t brev(uint32_t v)
{
    v = (v >> 1 & 0x55555555) | (v & 0x55555555) << 1;
    v = (v >> 2 & 0x33333333) | (v & 0x33333333) << 2;
    v = (v >> 4 & 0x0f0f0f0f) | (v & 0x0f0f0f0f) << 4;
    return __builtin_bswap32(v);
}

static float fract_(float a)
{
    float r = a - floorf(a);
    return r < 1 ? r : 0x1.fffffep-1f;
}

/* Fixes the result of a division up: q quotient, den, num. */
static float div_fixup(float q, float den, float num)
{
    bool neg = signbit(den) != signbit(num);
    if (den != den)
        return den;
    if (num != num)
        return num;
    if (den == 0 && num == 0)
        return NAN;
    if (isinf(den) && isinf(num))
        return NAN;
    if (den == 0 || isinf(num))
        return neg ? -INFINITY : INFINITY;
    if (isinf(den) || num == 0)
        return neg ? -0.0f : 0.0f;
    return neg ? -fabsf(q) : fabsf(q);
}

static int fexp(float f)
{
    return (int)(f2u(f) >> 23 & 255);
}

/* Brings numerator and denominator into a range where the quotient's steps neither overflow nor underflow; the flag
 * tells v_div_fmas to scale the result back. s0 is one of s1 (denominator) and s2 (numerator). */
static float div_scale(float s0, float den, float num, bool *flag)
{
    *flag = false;
    if (den == 0 || num == 0)
        return NAN;
    if (fexp(num) - fexp(den) >= 96) {
        *flag = true;
        return f2u(s0) == f2u(den) ? ldexpf(s0, 64) : s0;
    }
    if (fexp(den) == 0)
        return ldexpf(s0, 64);
    if (!isnormal(1 / den) && !isnormal(num / den)) {
        *flag = true;
        return f2u(s0) == f2u(den) ? ldexpf(s0, 64) : s0;
    }
    if (!isnormal(1 / den))
        return ldexpf(s0, -64);
    if (!isnormal(num / den)) {
        *flag = true;
        return f2u(s0) == f2u(num) ? ldexpf(s0, 64) : s0;
    }
    if (fexp(num) <= 23)
        return ldexpf(s0, 64);
    return s0;
}

/* bit: signaling NaN, quiet NaN, -inf, -normal, -denormal, -0, +0, +denormal, +normal, +inf */
static bool fclass(float f, uint32_t mask)
{
    uint32_t u = f2u(f), e = u >> 23 & 255, m = u & 0x7fffff;
    int c = e == 255 && m ? (m >> 22 ? 1 : 0)
            : u >> 31     ? (e == 255 ? 2
                             : e      ? 3
                             : m      ? 4
                                      : 5)
                          : (e == 255 ? 9
                             : e      ? 8
                             : m      ? 7
                                      : 6);
    return mask >> c & 1;
}

static float dot2(uint32_t a, uint32_t b, float c, bool bf)
{
    float alo = bf ? u2f(a << 16) : half_to_float((uint16_t)a),
          ahi = bf ? u2f(a & 0xffff0000u) : half_to_float((uint16_t)(a >> 16));
    float blo = bf ? u2f(b << 16) : half_to_float((uint16_t)b),
          bhi = bf ? u2f(b & 0xffff0000u) : half_to_float((uint16_t)(b >> 16));
    return fmaf(ahi, bhi, fmaf(alo, blo, c));
}

static uint32_t dot4_i8(uint32_t a, uint32_t b, uint32_t c)
{
    for (int k = 0; k < 32; k += 8)
        c += (uint32_t)((int32_t)(int8_t)(a >> k) * (int8_t)(b >> k));
    return c;
}

static uint32_t dot4_u8(uint32_t a, uint32_t b, uint32_t c)
{
    for (int k = 0; k < 32; k += 8)
        c += (a >> k & 255) * (b >> k & 255);
    return c;
}

/* ---- the instructions
 * -------------------------------------------------------------------------------------------------- */

/* U: 32-bit integers; F: fp32; H: fp16 computed in fp32; the number of sources follows. In the expressions a, b, c. */
#define VALU_OPS                                                                                                       \
    U1(v_mov_b32, a)                                                                                                   \
    U1(v_not_b32, ~a)                                                                                                  \
    U1(v_bfrev_b32, brev(a))                                                                                           \
    U1(v_ffbh_u32, a ? (uint32_t)__builtin_clz(a) : UINT32_MAX)                                                        \
    U1(v_clz_i32_u32, a ? (uint32_t)__builtin_clz(a) : UINT32_MAX)                                                     \
    U1(v_ffbl_b32, a ? (uint32_t)__builtin_ctz(a) : UINT32_MAX)                                                        \
    U1(v_ctz_i32_b32, a ? (uint32_t)__builtin_ctz(a) : UINT32_MAX)                                                     \
    U1(v_cvt_f32_u32, f2u((float)a))                                                                                   \
    U1(v_cvt_f32_i32, f2u((float)(int32_t)a))                                                                          \
    U1(v_cvt_f32_ubyte0, f2u((float)(a & 255)))                                                                        \
    U1(v_cvt_f32_ubyte1, f2u((float)(a >> 8 & 255)))                                                                   \
    U1(v_cvt_f32_ubyte2, f2u((float)(a >> 16 & 255)))                                                                  \
    U1(v_cvt_f32_ubyte3, f2u((float)(a >> 24)))                                                                        \
    U2(v_add_u32, a + b)                                                                                               \
    U2(v_add_nc_u32, a + b)                                                                                            \
    U2(v_sub_u32, a - b)                                                                                               \
    U2(v_sub_nc_u32, a - b)                                                                                            \
    U2(v_subrev_u32, b - a)                                                                                            \
    U2(v_subrev_nc_u32, b - a)                                                                                         \
    U2(v_add_i32, a + b)                                                                                               \
    U2(v_sub_i32, a - b)                                                                                               \
    U2(v_and_b32, a &b)                                                                                                \
    U2(v_or_b32, a | b)                                                                                                \
    U2(v_xor_b32, a ^ b)                                                                                               \
    U2(v_xnor_b32, ~(a ^ b))                                                                                           \
    U2(v_lshlrev_b32, b << (a & 31))                                                                                   \
    U2(v_lshrrev_b32, b >> (a & 31))                                                                                   \
    U2(v_ashrrev_i32, (uint32_t)((int32_t)b >> (a & 31)))                                                              \
    U2(v_min_i32, (int32_t)a < (int32_t)b ? a : b)                                                                     \
    U2(v_max_i32, (int32_t)a > (int32_t)b ? a : b)                                                                     \
    U2(v_min_u32, a < b ? a : b)                                                                                       \
    U2(v_max_u32, a > b ? a : b)                                                                                       \
    U2(v_mul_lo_u32, a *b)                                                                                             \
    U2(v_mul_hi_u32, (uint32_t)((uint64_t)a * b >> 32))                                                                \
    U2(v_mul_hi_i32, (uint32_t)((uint64_t)((int64_t)(int32_t)a * (int32_t)b) >> 32))                                   \
    U2(v_mul_u32_u24, (a & 0xffffff) * (b & 0xffffff))                                                                 \
    U2(v_mul_i32_i24, (uint32_t)sext24(a) * (uint32_t)sext24(b))                                                       \
    U2(v_mul_hi_u32_u24, (uint32_t)((uint64_t)(a & 0xffffff) * (b & 0xffffff) >> 32))                                  \
    U2(v_bfm_b32, ((1u << (a & 31)) - 1) << (b & 31))                                                                  \
    U2(v_bcnt_u32_b32, (uint32_t)__builtin_popcount(a) + b)                                                            \
    U2(v_pack_b32_f16, (a & 0xffff) | b << 16)                                                                         \
    U2(v_cvt_pk_u16_u32, (a > 0xffff ? 0xffff : a) | (b > 0xffff ? 0xffff : b) << 16)                                  \
    U2(v_lshlrev_b16, (b << (a & 15)) & 0xffff)                                                                        \
    U2(v_lshrrev_b16, (b & 0xffff) >> (a & 15))                                                                        \
    U2(v_ashrrev_i16, (uint32_t)((int16_t)b >> (a & 15)) & 0xffff)                                                     \
    U2(v_add_u16, (a + b) & 0xffff)                                                                                    \
    U2(v_sub_u16, (a - b) & 0xffff)                                                                                    \
    U2(v_mul_lo_u16, (a * b) & 0xffff)                                                                                 \
    U2(v_max_u16, (a & 0xffff) > (b & 0xffff) ? a & 0xffff : b & 0xffff)                                               \
    U2(v_min_u16, (a & 0xffff) < (b & 0xffff) ? a & 0xffff : b & 0xffff)                                               \
    U3(v_add3_u32, a + b + c)                                                                                          \
    U3(v_lshl_add_u32, (a << (b & 31)) + c)                                                                            \
    U3(v_add_lshl_u32, (a + b) << (c & 31))                                                                            \
    U3(v_lshl_or_b32, a << (b & 31) | c)                                                                               \
    U3(v_and_or_b32, (a & b) | c)                                                                                      \
    U3(v_or3_b32, a | b | c)                                                                                           \
    U3(v_xor3_b32, a ^ b ^ c)                                                                                          \
    U3(v_xad_u32, (a ^ b) + c)                                                                                         \
    U3(v_bfi_b32, (a & b) | (~a & c))                                                                                  \
    U3(v_bfe_u32, (c & 31) ? a >> (b & 31) & ((1u << (c & 31)) - 1) : 0)                                               \
    U3(v_bfe_i32, (c & 31) ? (uint32_t)((int32_t)(a >> (b & 31) << (32 - (c & 31))) >> (32 - (c & 31))) : 0)           \
    U3(v_alignbit_b32, (uint32_t)(((uint64_t)a << 32 | b) >> (c & 31)))                                                \
    U3(v_alignbyte_b32, (uint32_t)(((uint64_t)a << 32 | b) >> 8 * (c & 3)))                                            \
    U3(v_perm_b32, perm(a, b, c))                                                                                      \
    U3(v_mad_u32_u24, (a & 0xffffff) * (b & 0xffffff) + c)                                                             \
    U3(v_mad_i32_i24, (uint32_t)sext24(a) * (uint32_t)sext24(b) + c)                                                   \
    U3(v_min3_u32, a < b ? (a < c ? a : c) : b < c ? b : c)                                                            \
    U3(v_max3_u32, a > b ? (a > c ? a : c) : b > c ? b : c)                                                            \
    U3(v_min3_i32, (uint32_t)((int32_t)a < (int32_t)b ? ((int32_t)a < (int32_t)c ? (int32_t)a : (int32_t)c)            \
                                                      : ((int32_t)b < (int32_t)c ? (int32_t)b : (int32_t)c)))          \
    U3(v_max3_i32, (uint32_t)((int32_t)a > (int32_t)b ? ((int32_t)a > (int32_t)c ? (int32_t)a : (int32_t)c)            \
                                                      : ((int32_t)b > (int32_t)c ? (int32_t)b : (int32_t)c)))          \
    U3(v_med3_i32, (uint32_t)smed3((int32_t)a, (int32_t)b, (int32_t)c))                                                \
    U3(v_med3_u32, umed3(a, b, c))                                                                                     \
    U3(v_sad_u32, (a > b ? a - b : b - a) + c)                                                                         \
    U3(v_dot4_i32_i8, dot4_i8(a, b, c))                                                                                \
    U3(v_dot4_u32_u8, dot4_u8(a, b, c))                                                                                \
    F1(v_rcp_f32, (float)(1.0 / (double)a))                                                                            \
    F1(v_rcp_iflag_f32, (float)(1.0 / (double)a))                                                                      \
    F1(v_rsq_f32, (float)(1.0 / sqrt((double)a)))                                                                      \
    F1(v_sqrt_f32, sqrtf(a))                                                                                           \
    F1(v_exp_f32, (float)exp2((double)a))                                                                              \
    F1(v_log_f32, (float)log2((double)a))                                                                              \
    F1(v_sin_f32, (float)sin(6.283185307179586 * (double)fract_(a)))                                                   \
    F1(v_cos_f32, (float)cos(6.283185307179586 * (double)fract_(a)))                                                   \
    F1(v_floor_f32, floorf(a))                                                                                         \
    F1(v_ceil_f32, ceilf(a))                                                                                           \
    F1(v_trunc_f32, truncf(a))                                                                                         \
    F1(v_rndne_f32, rintf(a))                                                                                          \
    F1(v_fract_f32, fract_(a))                                                                                         \
    F2(v_add_f32, a + b)                                                                                               \
    F2(v_sub_f32, a - b)                                                                                               \
    F2(v_subrev_f32, b - a)                                                                                            \
    F2(v_mul_f32, a *b)                                                                                                \
    F2(v_mul_legacy_f32, a == 0 || b == 0 ? 0.0f : a * b)                                                              \
    F2(v_mul_dx9_zero_f32, a == 0 || b == 0 ? 0.0f : a * b)                                                            \
    F2(v_min_f32, fmin_(a, b))                                                                                         \
    F2(v_max_f32, fmax_(a, b))                                                                                         \
    F3(v_fma_f32, fmaf(a, b, c))                                                                                       \
    F3(v_mad_f32, a *b + c)                                                                                            \
    F3(v_min3_f32, fmin_(fmin_(a, b), c))                                                                              \
    F3(v_max3_f32, fmax_(fmax_(a, b), c))                                                                              \
    F3(v_med3_f32, med3(a, b, c))                                                                                      \
    F3(v_div_fixup_f32, div_fixup(a, b, c))                                                                            \
    H1(v_rcp_f16, 1.0f / a)                                                                                            \
    H1(v_sqrt_f16, sqrtf(a))                                                                                           \
    H1(v_rsq_f16, (float)(1.0 / sqrt((double)a)))                                                                      \
    H1(v_exp_f16, exp2f(a))                                                                                            \
    H1(v_log_f16, log2f(a))                                                                                            \
    H1(v_floor_f16, floorf(a))                                                                                         \
    H1(v_ceil_f16, ceilf(a))                                                                                           \
    H1(v_trunc_f16, truncf(a))                                                                                         \
    H1(v_rndne_f16, rintf(a))                                                                                          \
    H2(v_add_f16, a + b)                                                                                               \
    H2(v_sub_f16, a - b)                                                                                               \
    H2(v_subrev_f16, b - a)                                                                                            \
    H2(v_mul_f16, a *b)                                                                                                \
    H2(v_min_f16, fmin_(a, b))                                                                                         \
    H2(v_max_f16, fmax_(a, b))

#define DEFINE1(name, get, T, from, expr, to, store)                                                                   \
    static void x_##name(W *w, I *i)                                                                                   \
    {                                                                                                                  \
        uint32_t ta[64], r[64];                                                                                        \
        const uint32_t *pa = get(w, i, 1, ta);                                                                         \
        LANES                                                                                                          \
        {                                                                                                              \
            T a = from(pa[l]);                                                                                         \
            r[l] = to(expr);                                                                                           \
        }                                                                                                              \
        store(w, i, r);                                                                                                \
    }
#define DEFINE2(name, get, T, from, expr, to, store)                                                                   \
    static void x_##name(W *w, I *i)                                                                                   \
    {                                                                                                                  \
        uint32_t ta[64], tb[64], r[64];                                                                                \
        const uint32_t *pa = get(w, i, 1, ta), *pb = get(w, i, 2, tb);                                                 \
        LANES                                                                                                          \
        {                                                                                                              \
            T a = from(pa[l]), b = from(pb[l]);                                                                        \
            r[l] = to(expr);                                                                                           \
        }                                                                                                              \
        store(w, i, r);                                                                                                \
    }
#define DEFINE3(name, get, T, from, expr, to, store)                                                                   \
    static void x_##name(W *w, I *i)                                                                                   \
    {                                                                                                                  \
        uint32_t ta[64], tb[64], tc[64], r[64];                                                                        \
        const uint32_t *pa = get(w, i, 1, ta), *pb = get(w, i, 2, tb), *pc = get(w, i, 3, tc);                         \
        LANES                                                                                                          \
        {                                                                                                              \
            T a = from(pa[l]), b = from(pb[l]), c = from(pc[l]);                                                       \
            r[l] = to(expr);                                                                                           \
        }                                                                                                              \
        store(w, i, r);                                                                                                \
    }
#define SAME(x)  (x)
#define FROMH(x) half_to_float((uint16_t)(x))
#define U1(n, e) DEFINE1(n, src, uint32_t, SAME, e, SAME, put)
#define U2(n, e) DEFINE2(n, src, uint32_t, SAME, e, SAME, put)
#define U3(n, e) DEFINE3(n, src, uint32_t, SAME, e, SAME, put)
#define F1(n, e) DEFINE1(n, srcf, float, u2f, e, f2u, putf)
#define F2(n, e) DEFINE2(n, srcf, float, u2f, e, f2u, putf)
#define F3(n, e) DEFINE3(n, srcf, float, u2f, e, f2u, putf)
#define H1(n, e) DEFINE1(n, srch, float, FROMH, e, float_to_half, puth)
#define H2(n, e) DEFINE2(n, srch, float, FROMH, e, float_to_half, puth)
VALU_OPS
#undef F1
#define CONVERT(name, get, T, from, expr, store)                                                                       \
    static void x_##name(W *w, I *i)                                                                                   \
    {                                                                                                                  \
        uint32_t ta[64], r[64];                                                                                        \
        const uint32_t *pa = get(w, i, 1, ta);                                                                         \
        LANES                                                                                                          \
        {                                                                                                              \
            T a = from(pa[l]);                                                                                         \
            r[l] = (expr);                                                                                             \
        }                                                                                                              \
        store(w, i, r);                                                                                                \
    }
CONVERT(v_cvt_u32_f32, srcf, float, u2f, cvt_u32(a), put)
CONVERT(v_cvt_i32_f32, srcf, float, u2f, cvt_i32(a), put)
CONVERT(v_cvt_flr_i32_f32, srcf, float, u2f, cvt_i32(floorf(a)), put)
CONVERT(v_cvt_f32_f16, srch, float, FROMH, f2u(a), putf)
CONVERT(v_cvt_f16_f32, srcf, float, u2f, float_to_half(a), puth)
CONVERT(v_cvt_f16_u16, srch, uint32_t, SAME, float_to_half((float)a), puth)
CONVERT(v_cvt_f16_i16, srch, uint32_t, SAME, float_to_half((float)(int16_t)a), puth)
CONVERT(v_frexp_mant_f32, srcf, float, u2f, f2u(isfinite(a) ? frexpf(a, &(int){ 0 }) : a), putf)

static void x_v_frexp_exp_i32_f32(W *w, I *i)
{
    uint32_t t[64], r[64];
    const uint32_t *a = srcf(w, i, 1, t);
    LANES
    {
        int e = 0;
        if (isfinite(u2f(a[l])))
            frexpf(u2f(a[l]), &e);
        r[l] = (uint32_t)e;
    }
    put(w, i, r);
}

static void x_v_ldexp_f32(W *w, I *i)
{
    uint32_t ta[64], tb[64], r[64];
    const uint32_t *a = srcf(w, i, 1, ta), *b = src(w, i, 2, tb);
    LANES r[l] = f2u(ldexpf(u2f(a[l]), (int32_t)b[l]));
    putf(w, i, r);
}

/* d = a b + d, with one rounding (fmac) or two (mac: info 1). */
static void x_v_fmac_f32(W *w, I *i)
{
    uint32_t ta[64], tb[64], r[64];
    const uint32_t *a = srcf(w, i, 1, ta), *b = srcf(w, i, 2, tb), *d = emu_row(w, i->reg[0]);
    if (i->op->info)
        LANES r[l] = f2u(u2f(a[l]) * u2f(b[l]) + u2f(d[l]));
    else
        LANES r[l] = f2u(fmaf(u2f(a[l]), u2f(b[l]), u2f(d[l])));
    putf(w, i, r);
}

/* v_fmamk: d = s0 k + s1, operands in the order s0, k, s1; v_fmaak: d = s0 s1 + k: the same as v_fma. */
static void x_v_fmamk_f32(W *w, I *i)
{
    uint32_t ta[64], tb[64], tc[64], r[64];
    const uint32_t *a = srcf(w, i, 1, ta), *b = srcf(w, i, 2, tb), *c = srcf(w, i, 3, tc);
    LANES r[l] = f2u(fmaf(u2f(a[l]), u2f(b[l]), u2f(c[l])));
    putf(w, i, r);
}

static void x_v_fma_f16(W *w, I *i)
{
    uint32_t ta[64], tb[64], tc[64], r[64];
    const uint32_t *a = srch(w, i, 1, ta), *b = srch(w, i, 2, tb), *c = srch(w, i, 3, tc);
    LANES r[l] = double_to_half((double)FROMH(a[l]) * (double)FROMH(b[l]) + (double)FROMH(c[l]));
    puth(w, i, r);
}

static void x_v_fmac_f16(W *w, I *i)
{
    uint32_t ta[64], tb[64], r[64];
    const uint32_t *a = srch(w, i, 1, ta), *b = srch(w, i, 2, tb), *d = emu_row(w, i->reg[0]);
    LANES r[l] = double_to_half((double)FROMH(a[l]) * (double)FROMH(b[l]) + (double)FROMH(d[l]));
    puth(w, i, r);
}

static void x_v_dot2(W *w, I *i) /* info 1: bf16 */
{
    uint32_t ta[64], tb[64], tc[64], r[64];
    const uint32_t *a = src(w, i, 1, ta), *b = src(w, i, 2, tb), *c = srcf(w, i, 3, tc);
    bool bf = i->op->info;
    LANES r[l] = f2u(dot2(a[l], b[l], u2f(c[l]), bf));
    putf(w, i, r);
}

static void x_v_dot2c(W *w, I *i)
{
    uint32_t ta[64], tb[64], r[64];
    const uint32_t *a = src(w, i, 1, ta), *b = src(w, i, 2, tb), *d = emu_row(w, i->reg[0]);
    bool bf = i->op->info;
    LANES r[l] = f2u(dot2(a[l], b[l], u2f(d[l]), bf));
    putf(w, i, r);
}

/* Each source is fp32, or the half that op_sel says where op_sel_hi has its bit; info: 0 fp32 result, 1 low half, 2
 * high. */
static void x_v_fma_mix(W *w, I *i)
{
    uint32_t t[3][64], r[64];
    for (int k = 1; k <= 3; k++) {
        const uint32_t *s = src(w, i, k, t[k - 1]);
        uint8_t m = i->m.src[k];
        if (i->m.op_sel_hi >> (k - 1) & 1) {
            unsigned shift = i->m.op_sel >> (k - 1) & 1 ? 16 : 0;
            LANES t[k - 1][l] = f2u(half_to_float((uint16_t)(s[l] >> shift)));
        } else
            LANES t[k - 1][l] = s[l];
        if (m & EMU_ABS)
            LANES t[k - 1][l] &= 0x7fffffff;
        if (m & EMU_NEG)
            LANES t[k - 1][l] ^= 0x80000000u;
    }
    LANES r[l] = f2u(fmaf(u2f(t[0][l]), u2f(t[1][l]), u2f(t[2][l])));
    if (i->op->info == 0) {
        putf(w, i, r);
        return;
    }
    uint32_t *d = emu_row(w, i->reg[0]);
    if (i->op->info == 1)
        LANES r[l] = (uint32_t)float_to_half(u2f(r[l])) | (d[l] & 0xffff0000u);
    else
        LANES r[l] = (uint32_t)float_to_half(u2f(r[l])) << 16 | (d[l] & 0xffff);
    blend(d, r, w->exec);
}

/* ---- packed
 * ------------------------------------------------------------------------------------------------------------- */

/* Source k for the low and the high result, as op_sel and op_sel_hi say. */
static void src_pk32(W *w, I *i, int k, uint32_t *lo, uint32_t *hi)
{
    uint16_t r = i->reg[k];
    int first = i->m.op_sel >> (k - 1) & 1, second = i->m.op_sel_hi >> (k - 1) & 1;
    uint32_t nlo = i->m.neg_lo >> (k - 1) & 1 ? 0x80000000u : 0, nhi = i->m.neg_hi >> (k - 1) & 1 ? 0x80000000u : 0;
    if (r < EMU_VGPR) {
        uint64_t v = r == EMU_CONST ? (uint32_t)i->k[k] | i->k[k] << 32 : emu_s64(w, i, k);
        LANES
        {
            lo[l] = (uint32_t)(v >> 32 * first) ^ nlo;
            hi[l] = (uint32_t)(v >> 32 * second) ^ nhi;
        }
    } else {
        const uint32_t *a = emu_row(w, (uint16_t)(r + first)), *b = emu_row(w, (uint16_t)(r + second));
        LANES
        {
            lo[l] = a[l] ^ nlo;
            hi[l] = b[l] ^ nhi;
        }
    }
}

static void put_pk32(W *w, I *i, const uint32_t *lo, const uint32_t *hi)
{
    blend(emu_row(w, i->reg[0]), lo, w->exec);
    blend(emu_row(w, (uint16_t)(i->reg[0] + 1)), hi, w->exec);
}

#define PK2(name, expr)                                                                                                \
    static void x_##name(W *w, I *i)                                                                                   \
    {                                                                                                                  \
        uint32_t a0[64], a1[64], b0[64], b1[64];                                                                       \
        src_pk32(w, i, 1, a0, a1);                                                                                     \
        src_pk32(w, i, 2, b0, b1);                                                                                     \
        LANES                                                                                                          \
        {                                                                                                              \
            float a = u2f(a0[l]), b = u2f(b0[l]);                                                                      \
            a0[l] = f2u(expr);                                                                                         \
            a = u2f(a1[l]);                                                                                            \
            b = u2f(b1[l]);                                                                                            \
            a1[l] = f2u(expr);                                                                                         \
        }                                                                                                              \
        put_pk32(w, i, a0, a1);                                                                                        \
    }
PK2(v_pk_add_f32, a + b)
PK2(v_pk_mul_f32, a *b)

static void x_v_pk_fma_f32(W *w, I *i)
{
    uint32_t a0[64], a1[64], b0[64], b1[64], c0[64], c1[64];
    src_pk32(w, i, 1, a0, a1);
    src_pk32(w, i, 2, b0, b1);
    src_pk32(w, i, 3, c0, c1);
    LANES
    {
        a0[l] = f2u(fmaf(u2f(a0[l]), u2f(b0[l]), u2f(c0[l])));
        a1[l] = f2u(fmaf(u2f(a1[l]), u2f(b1[l]), u2f(c1[l])));
    }
    put_pk32(w, i, a0, a1);
}

/* D.lo = S0[op_sel[0]], D.hi = S1[op_sel[1]] */
static void x_v_pk_mov_b32(W *w, I *i)
{
    uint32_t lo[64], hi[64], unused[64];
    src_pk32(w, i, 1, lo, unused);
    src_pk32(w, i, 2, hi, unused);
    put_pk32(w, i, lo, hi);
}

/* Halves of source k for the low and the high result. */
static void src_pk16(W *w, I *i, int k, uint16_t *lo, uint16_t *hi)
{
    uint32_t t[64];
    const uint32_t *s = src(w, i, k, t);
    unsigned first = i->m.op_sel >> (k - 1) & 1 ? 16 : 0, second = i->m.op_sel_hi >> (k - 1) & 1 ? 16 : 0;
    uint16_t nlo = i->m.neg_lo >> (k - 1) & 1 ? 0x8000 : 0, nhi = i->m.neg_hi >> (k - 1) & 1 ? 0x8000 : 0;
    LANES
    {
        lo[l] = (uint16_t)(s[l] >> first) ^ nlo;
        hi[l] = (uint16_t)(s[l] >> second) ^ nhi;
    }
}

/* T and the expression of a, b, c for each half. */
#define PKH(name, n, T, from, to, expr)                                                                                \
    static void x_##name(W *w, I *i)                                                                                   \
    {                                                                                                                  \
        uint16_t s[3][2][64] = { 0 };                                                                                  \
        uint32_t r[64];                                                                                                \
        for (int k = 1; k <= (n); k++)                                                                                 \
            src_pk16(w, i, k, s[k - 1][0], s[k - 1][1]);                                                               \
        LANES                                                                                                          \
        {                                                                                                              \
            uint32_t half[2];                                                                                          \
            for (int h = 0; h < 2; h++) {                                                                              \
                T a = from(s[0][h][l]), b = from(s[1][h][l]), c = from(s[2][h][l]);                                    \
                (void)c;                                                                                               \
                half[h] = (uint16_t)to(expr);                                                                          \
            }                                                                                                          \
            r[l] = half[0] | half[1] << 16;                                                                            \
        }                                                                                                              \
        blend(emu_row(w, i->reg[0]), r, w->exec);                                                                      \
    }
#define HALFD(x) ((double)half_to_float(x))
PKH(v_pk_add_f16, 2, float, half_to_float, float_to_half, a + b)
PKH(v_pk_mul_f16, 2, float, half_to_float, float_to_half, a *b)
PKH(v_pk_fma_f16, 3, double, HALFD, double_to_half, a *b + c)
PKH(v_pk_max_f16, 2, float, half_to_float, float_to_half, fmax_(a, b))
PKH(v_pk_min_f16, 2, float, half_to_float, float_to_half, fmin_(a, b))
PKH(v_pk_add_u16, 2, uint32_t, SAME, SAME, a + b)
PKH(v_pk_sub_i16, 2, uint32_t, SAME, SAME, a - b)
PKH(v_pk_mul_lo_u16, 2, uint32_t, SAME, SAME, a *b)
PKH(v_pk_mad_u16, 3, uint32_t, SAME, SAME, a *b + c)
PKH(v_pk_lshlrev_b16, 2, uint32_t, SAME, SAME, b << (a & 15))
PKH(v_pk_lshrrev_b16, 2, uint32_t, SAME, SAME, b >> (a & 15))
PKH(v_pk_max_i16, 2, int16_t, SAME, SAME, a > b ? a : b)
PKH(v_pk_min_i16, 2, int16_t, SAME, SAME, a < b ? a : b)

/* Two fp32 to packed fp16, towards zero. */
static void x_v_cvt_pkrtz_f16_f32(W *w, I *i)
{
    uint32_t ta[64], tb[64], r[64];
    const uint32_t *a = srcf(w, i, 1, ta), *b = srcf(w, i, 2, tb);
    LANES r[l] = (uint32_t)float_to_half_rtz(u2f(a[l])) | (uint32_t)float_to_half_rtz(u2f(b[l])) << 16;
    put(w, i, r);
}

/* ---- 64 bits
 * --------------------------------------------------------------------------------------------------------------- */

#define WIDE2(name, expr)                                                                                              \
    static void x_##name(W *w, I *i)                                                                                   \
    {                                                                                                                  \
        uint32_t ta[64];                                                                                               \
        uint64_t tb[64], r[64];                                                                                        \
        const uint32_t *pa = src(w, i, 1, ta);                                                                         \
        src64(w, i, 2, tb);                                                                                            \
        LANES                                                                                                          \
        {                                                                                                              \
            uint32_t a = pa[l];                                                                                        \
            uint64_t b = tb[l];                                                                                        \
            r[l] = (expr);                                                                                             \
        }                                                                                                              \
        put64(w, i, r);                                                                                                \
    }
WIDE2(v_lshlrev_b64, b << (a & 63))
WIDE2(v_lshrrev_b64, b >> (a & 63))
WIDE2(v_ashrrev_i64, (uint64_t)((int64_t)b >> (a & 63)))

static void x_v_mov_b64(W *w, I *i)
{
    uint64_t a[64];
    src64(w, i, 1, a);
    put64(w, i, a);
}

static void x_v_lshl_add_u64(W *w, I *i)
{
    uint64_t a[64], c[64];
    uint32_t tb[64];
    const uint32_t *b = src(w, i, 2, tb);
    src64(w, i, 1, a);
    src64(w, i, 3, c);
    LANES a[l] = (a[l] << (b[l] & 7)) + c[l];
    put64(w, i, a);
}

/* D = a b + c, VCC-like = carry out; info 1: signed */
static void x_v_mad_u64_u32(W *w, I *i)
{
    uint32_t ta[64], tb[64], carry[64];
    uint64_t c[64], r[64];
    const uint32_t *a = src(w, i, 2, ta), *b = src(w, i, 3, tb);
    src64(w, i, 4, c);
    if (i->op->info)
        LANES r[l] = (uint64_t)((int64_t)(int32_t)a[l] * (int32_t)b[l]) + c[l];
    else
        LANES r[l] = (uint64_t)a[l] * b[l] + c[l];
    LANES carry[l] = r[l] < c[l];
    put64(w, i, r);
    emu_put_mask(w, i, 1, pack(carry) & w->exec);
}

#define DOUBLE(name, n, expr)                                                                                          \
    static void x_##name(W *w, I *i)                                                                                   \
    {                                                                                                                  \
        uint64_t s[3][64] = { 0 };                                                                                     \
        for (int k = 1; k <= (n); k++)                                                                                 \
            srcd(w, i, k, s[k - 1]);                                                                                   \
        LANES                                                                                                          \
        {                                                                                                              \
            double a = u2d(s[0][l]), b = u2d(s[1][l]), c = u2d(s[2][l]);                                               \
            (void)b, (void)c;                                                                                          \
            s[0][l] = d2u(expr);                                                                                       \
        }                                                                                                              \
        put64(w, i, s[0]);                                                                                             \
    }
DOUBLE(v_add_f64, 2, a + b)
DOUBLE(v_mul_f64, 2, a *b)
DOUBLE(v_fma_f64, 3, fma(a, b, c))
DOUBLE(v_min_f64, 2, dmin_(a, b))
DOUBLE(v_max_f64, 2, dmax_(a, b))
DOUBLE(v_rcp_f64, 1, 1 / a)
DOUBLE(v_rsq_f64, 1, 1 / sqrt(a))
DOUBLE(v_sqrt_f64, 1, sqrt(a))
DOUBLE(v_floor_f64, 1, floor(a))
DOUBLE(v_ceil_f64, 1, ceil(a))
DOUBLE(v_trunc_f64, 1, trunc(a))
DOUBLE(v_rndne_f64, 1, rint(a))

static void x_v_fmac_f64(W *w, I *i)
{
    uint64_t a[64], b[64], d[64];
    srcd(w, i, 1, a);
    srcd(w, i, 2, b);
    src64(w, i, 0, d);
    LANES d[l] = d2u(fma(u2d(a[l]), u2d(b[l]), u2d(d[l])));
    put64(w, i, d);
}

static void x_v_cvt_f32_f64(W *w, I *i)
{
    uint64_t a[64];
    uint32_t r[64];
    srcd(w, i, 1, a);
    LANES r[l] = f2u((float)u2d(a[l]));
    putf(w, i, r);
}

static void x_v_cvt_f64_f32(W *w, I *i)
{
    uint32_t t[64];
    uint64_t r[64];
    const uint32_t *a = srcf(w, i, 1, t);
    LANES r[l] = d2u((double)u2f(a[l]));
    put64(w, i, r);
}

static void x_v_cvt_f64_i32(W *w, I *i) /* info 1: unsigned */
{
    uint32_t t[64];
    uint64_t r[64];
    const uint32_t *a = src(w, i, 1, t);
    bool u = i->op->info;
    LANES r[l] = d2u(u ? (double)a[l] : (double)(int32_t)a[l]);
    put64(w, i, r);
}

static void x_v_cvt_i32_f64(W *w, I *i)
{
    uint64_t a[64];
    uint32_t r[64];
    bool u = i->op->info;
    srcd(w, i, 1, a);
    LANES r[l] = u ? cvt_u32d(u2d(a[l])) : cvt_i32d(u2d(a[l]));
    put(w, i, r);
}

/* ---- carries, comparisons, selections
 * ----------------------------------------------------------------------------------------- */

/* info: bit 0 subtract, bit 1 reversed, bit 2 carry in (operand 4) */
static void x_add_co(W *w, I *i)
{
    uint32_t ta[64], tb[64], r[64], carry[64];
    const uint32_t *a = src(w, i, 2, ta), *b = src(w, i, 3, tb);
    int info = i->op->info;
    uint64_t in = info & 4 ? emu_mask(w, i, 4) : 0;
    if (info & 2) {
        const uint32_t *s = a;
        a = b;
        b = s;
    }
    LANES
    {
        uint64_t c = in >> l & 1;
        uint64_t v = info & 1 ? (uint64_t)a[l] - b[l] - c : (uint64_t)a[l] + b[l] + c;
        r[l] = (uint32_t)v;
        carry[l] = v >> 32 & 1;
    }
    uint64_t out = pack(carry) & w->exec;
    put(w, i, r);
    emu_put_mask(w, i, 1, out);
}

static void x_cndmask(W *w, I *i)
{
    uint32_t ta[64], tb[64], r[64];
    const uint32_t *a = srcf(w, i, 1, ta), *b = srcf(w, i, 2, tb);
    uint64_t m = i->reg[3] == EMU_NONE
                     ? (w->lanes == 32 ? w->s[EMU_VCC] : w->s[EMU_VCC] | (uint64_t)w->s[EMU_VCC + 1] << 32)
                     : emu_mask(w, i, 3);
    LANES r[l] = m >> l & 1 ? b[l] : a[l];
    put(w, i, r);
}

static void put_compare(W *w, I *i, const uint32_t *r, bool x, int first)
{
    uint64_t m = pack(r) & w->exec;
    if (first)
        emu_put_mask(w, i, 0, m);
    if (x)
        w->exec = m;
}

/* Comparisons of type T: for each, v_cmp (mask, a, b) and v_cmpx: gfx9 names the mask too, gfx10+ only writes EXEC. */
#define COMPARE(name, get, T, from, expr)                                                                              \
    static void cmp_##name(W *w, I *i)                                                                                 \
    {                                                                                                                  \
        uint32_t ta[64], tb[64], r[64];                                                                                \
        const uint32_t *pa = get(w, i, i->n - 2, ta), *pb = get(w, i, i->n - 1, tb);                                   \
        LANES                                                                                                          \
        {                                                                                                              \
            T a = from(pa[l]), b = from(pb[l]);                                                                        \
            (void)a, (void)b;                                                                                          \
            r[l] = (expr);                                                                                             \
        }                                                                                                              \
        put_compare(w, i, r, i->op->info, i->n == 3);                                                                  \
    }
#define COMPARE64(name, T, expr)                                                                                       \
    static void cmp_##name(W *w, I *i)                                                                                 \
    {                                                                                                                  \
        uint64_t pa[64], pb[64];                                                                                       \
        uint32_t r[64];                                                                                                \
        CMP64_GET(w, i, i->n - 2, pa);                                                                                 \
        CMP64_GET(w, i, i->n - 1, pb);                                                                                 \
        LANES                                                                                                          \
        {                                                                                                              \
            T a = CMP64_FROM(T, pa[l]), b = CMP64_FROM(T, pb[l]);                                                      \
            (void)a, (void)b;                                                                                          \
            r[l] = (expr);                                                                                             \
        }                                                                                                              \
        put_compare(w, i, r, i->op->info, i->n == 3);                                                                  \
    }
#define INTS(M, t)                                                                                                     \
    M(f_##t, 0)                                                                                                        \
    M(lt_##t, a < b)                                                                                                   \
    M(eq_##t, a == b) M(le_##t, a <= b) M(gt_##t, a > b) M(ne_##t, a != b) M(ge_##t, a >= b) M(t_##t, 1)
#define FLOATS(M, t)                                                                                                   \
    M(f_##t, 0)                                                                                                        \
    M(lt_##t, a < b)                                                                                                   \
    M(eq_##t, a == b)                                                                                                  \
    M(le_##t, a <= b)                                                                                                  \
    M(gt_##t, a > b)                                                                                                   \
    M(lg_##t, a<b || a> b)                                                                                             \
    M(ge_##t, a >= b)                                                                                                  \
    M(o_##t, a == a && b == b)                                                                                         \
    M(u_##t, a != a || b != b)                                                                                         \
    M(nge_##t, !(a >= b))                                                                                              \
    M(nlg_##t, !(a < b || a > b))                                                                                      \
    M(ngt_##t, !(a > b)) M(nle_##t, !(a <= b)) M(neq_##t, a != b) M(nlt_##t, !(a < b)) M(tru_##t, 1)
#define ASI(x)      ((int32_t)(x))
#define ASI16(x)    ((int16_t)(x))
#define M_I32(n, e) COMPARE(n, src, int32_t, ASI, e)
#define M_U32(n, e) COMPARE(n, src, uint32_t, SAME, e)
#define M_I16(n, e) COMPARE(n, src, int16_t, ASI16, e)
#define M_U16(n, e) COMPARE(n, src, uint16_t, (uint16_t), e)
#define M_F32(n, e) COMPARE(n, srcf, float, u2f, e)
#define M_F16(n, e) COMPARE(n, srch, float, FROMH, e)
INTS(M_I32, i32)
INTS(M_U32, u32)
INTS(M_I16, i16)
INTS(M_U16, u16)
FLOATS(M_F32, f32)
/* v_cmp's first source is operand 1 of three or 0 of two: srch counts op_sel from operand 1. */
FLOATS(M_F16, f16)
#define CMP64_GET        src64
#define CMP64_FROM(T, x) ((T)(x))
#define M_I64(n, e)      COMPARE64(n, int64_t, e)
#define M_U64(n, e)      COMPARE64(n, uint64_t, e)
INTS(M_I64, i64)
INTS(M_U64, u64)
#undef CMP64_GET
#undef CMP64_FROM
#define CMP64_GET        srcd
#define CMP64_FROM(T, x) u2d(x)
#define M_F64(n, e)      COMPARE64(n, double, e)
FLOATS(M_F64, f64)

static void x_cmp_class_f32(W *w, I *i)
{
    uint32_t ta[64], tb[64], r[64];
    const uint32_t *a = src(w, i, i->n - 2, ta), *b = src(w, i, i->n - 1, tb);
    uint8_t m = i->m.src[i->n - 2];
    LANES r[l] = fclass(u2f((m & EMU_ABS ? a[l] & 0x7fffffff : a[l]) ^ (m & EMU_NEG ? 0x80000000u : 0)), b[l]);
    put_compare(w, i, r, i->op->info, i->n == 3);
}

static void x_div_scale_f32(W *w, I *i)
{
    uint32_t ta[64], tb[64], tc[64], r[64], flag[64];
    const uint32_t *a = srcf(w, i, 2, ta), *b = srcf(w, i, 3, tb), *c = srcf(w, i, 4, tc);
    LANES
    {
        bool f;
        r[l] = f2u(div_scale(u2f(a[l]), u2f(b[l]), u2f(c[l]), &f));
        flag[l] = f;
    }
    uint64_t m = pack(flag) & w->exec;
    put(w, i, r);
    emu_put_mask(w, i, 1, m);
}

static void x_div_fmas_f32(W *w, I *i)
{
    uint32_t ta[64], tb[64], tc[64], r[64];
    const uint32_t *a = srcf(w, i, 1, ta), *b = srcf(w, i, 2, tb), *c = srcf(w, i, 3, tc);
    uint64_t vcc = w->s[EMU_VCC] | (w->lanes == 32 ? 0 : (uint64_t)w->s[EMU_VCC + 1] << 32);
    LANES
    {
        float v = fmaf(u2f(a[l]), u2f(b[l]), u2f(c[l]));
        r[l] = f2u(vcc >> l & 1 ? v * (fexp(u2f(c[l])) >= 127 ? 0x1p64f : 0x1p-64f) : v);
    }
    putf(w, i, r);
}

/* ---- across lanes
 * ---------------------------------------------------------------------------------------------------------------- */

static void x_readfirstlane(W *w, I *i)
{
    int lane = w->exec ? __builtin_ctzll(w->exec) : 0;
    emu_put_s32(w, i, 0, i->reg[1] >= EMU_VGPR ? emu_row(w, i->reg[1])[lane] : emu_s32(w, i, 1));
}

static void x_readlane(W *w, I *i)
{
    uint32_t lane = emu_s32(w, i, 2) & (w->lanes - 1u);
    emu_put_s32(w, i, 0, emu_row(w, i->reg[1])[lane]);
}

static void x_writelane(W *w, I *i)
{
    uint32_t lane = emu_s32(w, i, 2) & (w->lanes - 1u);
    emu_row(w, i->reg[0])[lane] = emu_s32(w, i, 1);
}

/* b + number of bits of a below this lane; info 32: of lanes 32.. */
static void x_mbcnt(W *w, I *i)
{
    uint32_t ta[64], tb[64], r[64];
    const uint32_t *a = src(w, i, 1, ta), *b = src(w, i, 2, tb);
    int from = i->op->info;
    LANES
    {
        int n = l - from;
        uint32_t below = n <= 0 ? 0 : n >= 32 ? UINT32_MAX : (1u << n) - 1;
        r[l] = b[l] + (uint32_t)__builtin_popcount(a[l] & below);
    }
    put(w, i, r);
}

/* info 1: from the other row of 16 (permlanex16) */
static void x_permlane16(W *w, I *i)
{
    uint32_t r[64];
    const uint32_t *a = emu_row(w, i->reg[1]);
    uint64_t sel = emu_s32(w, i, 2) | (uint64_t)emu_s32(w, i, 3) << 32;
    uint32_t *d = emu_row(w, i->reg[0]);
    bool fi = i->m.op_sel & 1, bound = i->m.op_sel & 2;
    LANES
    {
        int from = ((l & ~15) ^ (i->op->info ? 16 : 0)) + (int)(sel >> 4 * (l & 15) & 15);
        r[l] = fi || (w->exec >> from & 1) ? a[from] : bound ? 0 : d[l];
    }
    blend(d, r, w->exec);
}

static void x_swap(W *w, I *i)
{
    uint32_t *a = emu_row(w, i->reg[0]), *b = emu_row(w, i->reg[1]);
    LANES if (w->exec >> l & 1)
    {
        uint32_t t = a[l];
        a[l] = b[l];
        b[l] = t;
    }
}

static void x_nop(W *w, I *i)
{
    (void)w, (void)i;
}

/* ---- the table
 * --------------------------------------------------------------------------------------------------------------------
 */

#undef U1
#undef U2
#undef U3
#undef F1
#undef F2
#undef F3
#undef H1
#undef H2
#define U1(n, e)          { #n, x_##n, "d1 s1", EMU_VALU, 'u', 0 },
#define U2(n, e)          { #n, x_##n, "d1 s1 s1", EMU_VALU, 'u', 0 },
#define U3(n, e)          { #n, x_##n, "d1 s1 s1 s1", EMU_VALU, 'u', 0 },
#define F1(n, e)          { #n, x_##n, "d1 s1", EMU_VALU, 'u', 0 },
#define F2(n, e)          { #n, x_##n, "d1 s1 s1", EMU_VALU, 'u', 0 },
#define F3(n, e)          { #n, x_##n, "d1 s1 s1 s1", EMU_VALU, 'u', 0 },
#define H1(n, e)          { #n, x_##n, "d1 s1", EMU_VALU, 'h', 0 },
#define H2(n, e)          { #n, x_##n, "d1 s1 s1", EMU_VALU, 'h', 0 },
#define ROW(n, sig, type) { #n, x_##n, sig, EMU_VALU, type, 0 },
#define CMPS(n, bits, type)                                                                                            \
    { "v_cmp_" #n, cmp_##n, "m0 s" #bits " s" #bits, EMU_VALU, type, 0 },                                              \
        { "v_cmpx_" #n, cmp_##n, "s" #bits " s" #bits "/m0 s" #bits " s" #bits, EMU_VALU, type, 1 },
#define T32(n, e) CMPS(n, 1, 'u')
#define T16(n, e) CMPS(n, 1, 'h')
#define T64(n, e) CMPS(n, 2, 'q')
#define TD(n, e)  CMPS(n, 2, 'd')

const struct emu_op JOIN(emu_valu_ops, EMU_SUFFIX)[] = {
    VALU_OPS INTS(T32, i32) INTS(T32, u32) INTS(T16, i16) INTS(T16, u16) FLOATS(T32, f32) FLOATS(T16, f16) INTS(
        T64, i64) INTS(T64, u64) FLOATS(TD, f64) ROW(v_cvt_u32_f32, "d1 s1", 'u') ROW(v_cvt_i32_f32, "d1 s1", 'u')
        ROW(v_cvt_flr_i32_f32, "d1 s1", 'u') ROW(v_cvt_f32_f16, "d1 s1", 'h') ROW(v_cvt_f16_f32, "d1 s1",
                                                                                  'u') ROW(v_cvt_f16_u16, "d1 s1", 'h')
            ROW(v_cvt_f16_i16, "d1 s1", 'h') ROW(v_frexp_mant_f32, "d1 s1", 'u') ROW(v_frexp_exp_i32_f32, "d1 s1", 'u')
                ROW(v_ldexp_f32, "d1 s1 s1", 'u') ROW(v_fma_f16, "d1 s1 s1 s1", 'h') ROW(v_fmac_f16, "b1 s1 s1", 'h')
                    ROW(v_pk_add_f32, "d2 s2 s2", 'u') ROW(v_pk_mul_f32, "d2 s2 s2", 'u')
                        ROW(v_pk_fma_f32, "d2 s2 s2 s2", 'u') ROW(v_pk_mov_b32, "d2 s2 s2", 'u')
                            ROW(v_pk_add_f16, "d1 s1 s1", 'p') ROW(v_pk_mul_f16, "d1 s1 s1", 'p')
                                ROW(v_pk_fma_f16, "d1 s1 s1 s1",
                                    'p') ROW(v_pk_max_f16, "d1 s1 s1", 'p') ROW(v_pk_min_f16, "d1 s1 s1",
                                                                                'p') ROW(v_pk_add_u16, "d1 s1 s1", 'p')
                                    ROW(v_pk_sub_i16, "d1 s1 s1", 'p') ROW(v_pk_mul_lo_u16, "d1 s1 s1", 'p')
                                        ROW(v_pk_mad_u16, "d1 s1 s1 s1", 'p') ROW(v_pk_lshlrev_b16, "d1 s1 s1", 'p')
                                            ROW(v_pk_lshrrev_b16, "d1 s1 s1", 'p') ROW(v_pk_max_i16, "d1 s1 s1", 'p')
                                                ROW(v_pk_min_i16, "d1 s1 s1",
                                                    'p') ROW(v_cvt_pkrtz_f16_f32, "d1 s1 s1",
                                                             'u') ROW(v_lshlrev_b64, "d2 s1 s2",
                                                                      'q') ROW(v_lshrrev_b64, "d2 s1 s2",
                                                                               'q') ROW(v_ashrrev_i64, "d2 s1 s2", 'q')
                                                    ROW(v_mov_b64, "d2 s2", 'q') ROW(v_lshl_add_u64, "d2 s2 s1 s2", 'q')
                                                        ROW(v_add_f64, "d2 s2 s2",
                                                            'd') ROW(v_mul_f64, "d2 s2 s2",
                                                                     'd') ROW(v_fma_f64, "d2 s2 s2 s2",
                                                                              'd') ROW(v_fmac_f64, "b2 s2 s2", 'd')
                                                            ROW(v_min_f64, "d2 s2 s2",
                                                                'd') ROW(v_max_f64, "d2 s2 s2",
                                                                         'd') ROW(v_rcp_f64, "d2 s2",
                                                                                  'd') ROW(v_rsq_f64, "d2 s2", 'd')
                                                                ROW(v_sqrt_f64, "d2 s2", 'd')
                                                                    ROW(v_floor_f64, "d2 s2", 'd') ROW(v_ceil_f64,
                                                                                                       "d2 s2", 'd')
                                                                        ROW(v_trunc_f64, "d2 s2", 'd') ROW(v_rndne_f64,
                                                                                                           "d2 s2", 'd')
                                                                            ROW(v_cvt_f32_f64, "d1 s2", 'd')
                                                                                ROW(v_cvt_f64_f32, "d2 s1", 'u'){
                                                                                    "v_cvt_f64_i32", x_v_cvt_f64_i32,
                                                                                    "d2 s1", EMU_VALU, 'u', 0 },
    { "v_cvt_f64_u32", x_v_cvt_f64_i32, "d2 s1", EMU_VALU, 'u', 1 },
    { "v_cvt_i32_f64", x_v_cvt_i32_f64, "d1 s2", EMU_VALU, 'd', 0 },
    { "v_cvt_u32_f64", x_v_cvt_i32_f64, "d1 s2", EMU_VALU, 'd', 1 },
    { "v_fmac_f32", x_v_fmac_f32, "b1 s1 s1", EMU_VALU, 'u', 0 },
    { "v_mac_f32", x_v_fmac_f32, "b1 s1 s1", EMU_VALU, 'u', 1 },
    { "v_fmamk_f32", x_v_fmamk_f32, "d1 s1 s1 s1", EMU_VALU, 'u', 0 },
    { "v_fmaak_f32", x_v_fma_f32, "d1 s1 s1 s1", EMU_VALU, 'u', 0 },
    { "v_madmk_f32", x_v_mad_f32, "d1 s1 s1 s1", EMU_VALU, 'u', 0 },
    { "v_madak_f32", x_v_mad_f32, "d1 s1 s1 s1", EMU_VALU, 'u', 0 },
    { "v_fma_mix_f32", x_v_fma_mix, "d1 s1 s1 s1", EMU_VALU, 'u', 0 },
    { "v_fma_mixlo_f16", x_v_fma_mix, "b1 s1 s1 s1", EMU_VALU, 'u', 1 },
    { "v_fma_mixhi_f16", x_v_fma_mix, "b1 s1 s1 s1", EMU_VALU, 'u', 2 },
    { "v_dot2_f32_f16", x_v_dot2, "d1 s1 s1 s1", EMU_VALU, 'u', 0 },
    { "v_dot2_f32_bf16", x_v_dot2, "d1 s1 s1 s1", EMU_VALU, 'u', 1 },
    { "v_dot2c_f32_f16", x_v_dot2c, "b1 s1 s1", EMU_VALU, 'u', 0 },
    { "v_dot2c_f32_bf16", x_v_dot2c, "b1 s1 s1", EMU_VALU, 'u', 1 },
    { "v_dot2acc_f32_f16", x_v_dot2c, "b1 s1 s1", EMU_VALU, 'u', 0 },
    { "v_mad_u64_u32", x_v_mad_u64_u32, "d2 m0 s1 s1 s2", EMU_VALU, 'q', 0 },
    { "v_mad_i64_i32", x_v_mad_u64_u32, "d2 m0 s1 s1 s2", EMU_VALU, 'q', 1 },
    { "v_add_co_u32", x_add_co, "d1 m0 s1 s1", EMU_VALU, 'u', 0 },
    { "v_sub_co_u32", x_add_co, "d1 m0 s1 s1", EMU_VALU, 'u', 1 },
    { "v_subrev_co_u32", x_add_co, "d1 m0 s1 s1", EMU_VALU, 'u', 3 },
    { "v_addc_co_u32", x_add_co, "d1 m0 s1 s1 n0", EMU_VALU, 'u', 4 },
    { "v_subb_co_u32", x_add_co, "d1 m0 s1 s1 n0", EMU_VALU, 'u', 5 },
    { "v_subbrev_co_u32", x_add_co, "d1 m0 s1 s1 n0", EMU_VALU, 'u', 7 },
    { "v_add_co_ci_u32", x_add_co, "d1 m0 s1 s1 n0", EMU_VALU, 'u', 4 },
    { "v_sub_co_ci_u32", x_add_co, "d1 m0 s1 s1 n0", EMU_VALU, 'u', 5 },
    { "v_subrev_co_ci_u32", x_add_co, "d1 m0 s1 s1 n0", EMU_VALU, 'u', 7 },
    { "v_cndmask_b32", x_cndmask, "d1 s1 s1 n0?", EMU_VALU, 'u', 0 },
    { "v_cmp_class_f32", x_cmp_class_f32, "m0 s1 s1", EMU_VALU, 'u', 0 },
    { "v_cmpx_class_f32", x_cmp_class_f32, "s1 s1/m0 s1 s1", EMU_VALU, 'u', 1 },
    { "v_div_scale_f32", x_div_scale_f32, "d1 m0 s1 s1 s1", EMU_VALU, 'u', 0 },
    { "v_div_fmas_f32", x_div_fmas_f32, "d1 s1 s1 s1", EMU_VALU, 'u', 0 },
    { "v_readfirstlane_b32", x_readfirstlane, "d1 s1", EMU_VALU, 'u', 0 },
    { "v_readlane_b32", x_readlane, "d1 s1 s1", EMU_VALU, 'u', 0 },
    { "v_writelane_b32", x_writelane, "b1 s1 s1", EMU_VALU, 'u', 0 },
    { "v_mbcnt_lo_u32_b32", x_mbcnt, "d1 s1 s1", EMU_VALU, 'u', 0 },
    { "v_mbcnt_hi_u32_b32", x_mbcnt, "d1 s1 s1", EMU_VALU, 'u', 32 },
    { "v_permlane16_b32", x_permlane16, "b1 s1 s1 s1", EMU_VALU, 'u', 0 },
    { "v_permlanex16_b32", x_permlane16, "b1 s1 s1 s1", EMU_VALU, 'u', 1 },
    { "v_swap_b32", x_swap, "b1 b1", EMU_VALU, 'u', 0 },
    { "v_accvgpr_read_b32", x_v_mov_b32, "d1 s1", EMU_VALU, 'u', 0 },
    { "v_accvgpr_write_b32", x_v_mov_b32, "d1 s1", EMU_VALU, 'u', 0 },
    { "v_accvgpr_mov_b32", x_v_mov_b32, "d1 s1", EMU_VALU, 'u', 0 },
    { "v_nop", x_nop, "", EMU_VALU, 'u', 0 },
    { NULL, NULL, NULL, 0, 0, 0 },
};
