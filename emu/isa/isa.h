/* SPDX-License-Identifier: MIT
 *
 * Helpers of the handlers. Every isa_*.c is compiled once for each instruction set of the host that is worth it, with
 * EMU_HOST naming it (avx512, avx2, portable); a file ends in a table of its rows, isa.c picks a host's tables.
 *
 * A handler is a loop over 64 lanes that the compiler vectorises: fetch source rows (src*), compute into a row of its
 * own, commit it under EXEC (put*). Lanes above the wave's size are computed too and never committed. */
#ifndef RFG_EMU_ISA_H
#define RFG_EMU_ISA_H

#include <math.h>
#include <string.h>

#include "emu/emu.h"

#ifndef EMU_HOST
#define EMU_HOST portable
#endif
#define EMU_CAT2(a, b) a##_##b
#define EMU_CAT(a, b)  EMU_CAT2(a, b)
#define EMU_N(name)    EMU_CAT(name, EMU_HOST)

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define LANES       for (int l = 0; l < 64; l++)
#define COUNT(x)    ((int)(sizeof(x) / sizeof((x)[0])))

struct emu_ops {
    const struct emu_op *op;
    int n;
};
/* The tables of a host, ended by NULL: isa_list.c. */
extern const struct emu_ops *const emu_tables_portable[], *const emu_tables_avx2[], *const emu_tables_avx512[];

/* emu_wave.stop, within emu_run() only: a mode has changed that the loop must look at. */
#define EMU_STOP_SWITCH 100

/* emu_op.info of VALU rows. */
enum { EMU_KEEPS_HI = 1 /* 16-bit result: upper half left alone on gfx9 too */ };

typedef uint32_t row32[64] __attribute__((aligned(64)));
typedef uint64_t row64[64] __attribute__((aligned(64)));
typedef float rowf[64] __attribute__((aligned(64)));
typedef double rowd[64] __attribute__((aligned(64)));

/* ---- bits -------------------------------------------------------------------------------------------------------- */

static inline float as_f32(uint32_t x)
{
    float f;
    memcpy(&f, &x, 4);
    return f;
}
static inline uint32_t as_u32(float f)
{
    uint32_t x;
    memcpy(&x, &f, 4);
    return x;
}
static inline double as_f64(uint64_t x)
{
    double f;
    memcpy(&f, &x, 8);
    return f;
}
static inline uint64_t as_u64(double f)
{
    uint64_t x;
    memcpy(&x, &f, 8);
    return x;
}

/* f16 -> f32, exact; a signalling NaN stays a NaN. Written for the vectoriser: no branches. */
static inline float h2f(uint32_t h)
{
    uint32_t em = (h & 0x7fff) << 13, sign = (h & 0x8000) << 16;
    uint32_t normal = em + 0x38000000;
    uint32_t special = em + 0x70000000;
    /* A subnormal's value is its bits * 2^-24, which the f32 conversion of a small integer gives exactly. */
    uint32_t sub = as_u32((float)(int32_t)(h & 0x3ff) * 0x1p-24f);
    uint32_t r = em >= 0x0f800000 ? special : em < 0x00800000 ? sub : normal;
    return as_f32(r | sign);
}

/* f32 -> f16, to nearest even. */
static inline uint32_t f2h(float f)
{
    uint32_t x = as_u32(f), sign = x >> 16 & 0x8000, a = x & 0x7fffffff;
    uint32_t normal = (a + 0xc8000fff + (a >> 13 & 1)) >> 13;
    /* Below 2^-14: adding 0.5 puts the f16 subnormal's bits at the bottom of the sum, rounded by the hardware. */
    uint32_t small = a < 0x38800000 ? a : 0;
    uint32_t sub = as_u32(as_f32(small) + 0.5f) - 0x3f000000;
    uint32_t r = a > 0x7f800000    ? (0x7e00 | (a >> 13 & 0x3ff))
                 : a >= 0x477ff000 ? 0x7c00
                 : a < 0x38800000  ? sub
                                   : normal;
    return r | sign;
}

/* f64 -> f32 rounded to odd: what is rounded once more to f16 comes out as if rounded once. */
static inline float d2f_odd(double d)
{
    float f = (float)d;
    uint32_t x = as_u32(f);
    double e = (double)f;
    int inexact = e != d && d == d;
    int up = fabs(e) > fabs(d);
    uint32_t r = inexact ? ((up ? x - 1 : x) | 1) : x;
    return as_f32(r);
}
static inline uint32_t d2h(double d)
{
    return f2h(d2f_odd(d));
}

static inline float bf2f(uint32_t b)
{
    return as_f32(b << 16);
}
static inline uint32_t f2bf(float f)
{
    uint32_t x = as_u32(f);
    uint32_t r = (x + 0x7fff + (x >> 16 & 1)) >> 16;
    return (x & 0x7fffffff) > 0x7f800000 ? (x >> 16 | 0x40) : r;
}

static inline uint32_t flush32(uint32_t x)
{
    return (x & 0x7f800000) ? x : x & 0x80000000;
}
static inline uint32_t flush16(uint32_t x)
{
    return (x & 0x7c00) ? x : x & 0x8000;
}

/* ---- mode -------------------------------------------------------------------------------------------------------- */

static inline bool ftz_in32(const struct emu_wave *w)
{
    return !(w->mode & 0x10);
}
static inline bool ftz_out32(const struct emu_wave *w)
{
    return !(w->mode & 0x20);
}
static inline bool ftz_in16(const struct emu_wave *w) /* f16 and f64 */
{
    return !(w->mode & 0x40);
}
static inline bool ftz_out16(const struct emu_wave *w)
{
    return !(w->mode & 0x80);
}
#define EMU_MODE_DX10_CLAMP 0x100
#define EMU_MODE_IEEE       0x200
#define EMU_MODE_FP16_OVFL  0x800000

/* ---- scalars ----------------------------------------------------------------------------------------------------- */

uint32_t EMU_N(rs_slow)(const struct emu_wave *w, const struct emu_inst *i, int k, int word);
void EMU_N(ws_slow)(struct emu_wave *w, unsigned reg, uint32_t v);

static inline uint32_t rs_word(const struct emu_wave *w, const struct emu_inst *i, int k, int word)
{
    unsigned r = i->reg[k];
    return likely(r < EMU_NULL) ? w->s[r + (unsigned)word] : EMU_N(rs_slow)(w, i, k, word);
}
static inline uint32_t rs(const struct emu_wave *w, const struct emu_inst *i, int k)
{
    return rs_word(w, i, k, 0);
}
static inline uint64_t rs2(const struct emu_wave *w, const struct emu_inst *i, int k)
{
    return rs_word(w, i, k, 0) | (uint64_t)rs_word(w, i, k, 1) << 32;
}
static inline void ws_reg(struct emu_wave *w, unsigned r, uint32_t v)
{
    if (likely(r < EMU_NULL))
        w->s[r] = v;
    else
        EMU_N(ws_slow)(w, r, v);
}
static inline void ws(struct emu_wave *w, const struct emu_inst *i, int k, uint32_t v)
{
    ws_reg(w, i->reg[k], v);
}
static inline void ws2(struct emu_wave *w, const struct emu_inst *i, int k, uint64_t v)
{
    unsigned r = i->reg[k];
    ws_reg(w, r, (uint32_t)v);
    if (r != EMU_NULL)
        ws_reg(w, r + 1, (uint32_t)(v >> 32));
}
/* A lane mask: one or two scalar registers. */
static inline uint64_t read_mask(const struct emu_wave *w, const struct emu_inst *i, int k)
{
    return w->wave_size == 64 ? rs2(w, i, k) : rs(w, i, k);
}
static inline void write_mask(struct emu_wave *w, const struct emu_inst *i, int k, uint64_t m)
{
    if (w->wave_size == 64)
        ws2(w, i, k, m);
    else
        ws(w, i, k, (uint32_t)m);
}
static inline uint64_t all_lanes(const struct emu_wave *w)
{
    return w->wave_size == 64 ? ~0ull : 0xffffffffull;
}
static inline uint64_t read_vcc(const struct emu_wave *w)
{
    return w->wave_size == 64 ? w->s[EMU_VCC] | (uint64_t)w->s[EMU_VCC + 1] << 32 : w->s[EMU_VCC];
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static inline uint32_t *vrow(const struct emu_wave *w, unsigned reg)
{
    return reg >= EMU_AGPR ? w->a[reg - EMU_AGPR] : w->v[reg - EMU_VGPR];
}

/* Word `word` of source operand k into tmp: broadcast, DPP, SDWA, op_sel, then neg, abs by the operand's type. */
const uint32_t *EMU_N(src_slow)(const struct emu_wave *w, const struct emu_inst *i, int k, int word, uint32_t *tmp);
/* Commits words [0, n) of the destination; each of 64 lanes. Honours DPP masks, SDWA, op_sel, clamp, omod. */
void EMU_N(put_slow)(struct emu_wave *w, const struct emu_inst *i, uint32_t *r);
/* Lanes that DPP lets be written. */
uint64_t EMU_N(dpp_lanes)(const struct emu_wave *w, const struct emu_inst *i);
void EMU_N(dpp_index)(const struct emu_wave *w, const struct emu_inst *i, int8_t *from);

/* 0 or -1 in each lane. */
static inline void expand_mask(uint32_t *m, uint64_t lanes)
{
    for (int h = 0; h < 2; h++) {
        uint32_t half = (uint32_t)(lanes >> 32 * h);
        for (int l = 0; l < 32; l++)
            m[32 * h + l] = (uint32_t)((int32_t)(half << (31 - l)) >> 31);
    }
}
static inline void blend(uint32_t *d, const uint32_t *r, uint64_t lanes)
{
    if (lanes == ~0ull) {
        memcpy(d, r, 256);
        return;
    }
    row32 m;
    expand_mask(m, lanes);
    LANES d[l] = (r[l] & m[l]) | (d[l] & ~m[l]);
}
/* Bit l: c[l] is not 0. c holds 0 and 1. */
static inline uint64_t pack_mask(const uint8_t *c)
{
    uint64_t m = 0;
    for (int g = 0; g < 8; g++) {
        uint64_t x;
        memcpy(&x, c + 8 * g, 8);
        m |= (x * 0x0102040810204080ull) >> 56 << 8 * g;
    }
    return m;
}

static inline const uint32_t *src_word(const struct emu_wave *w, const struct emu_inst *i, int k, int word,
                                       uint32_t *tmp)
{
    if (likely(!(i->slow >> k & 1)))
        return vrow(w, i->reg[k] + (unsigned)word);
    return EMU_N(src_slow)(w, i, k, word, tmp);
}
static inline const uint32_t *src(const struct emu_wave *w, const struct emu_inst *i, int k, uint32_t *tmp)
{
    return src_word(w, i, k, 0, tmp);
}
/* A row as floats, denormals as the mode has them. */
static inline const float *flushed(const struct emu_wave *w, const uint32_t *r, uint32_t *tmp)
{
    if (unlikely(ftz_in32(w))) {
        LANES tmp[l] = flush32(r[l]);
        r = tmp;
    }
    return (const float *)r;
}
static inline const float *srcf(const struct emu_wave *w, const struct emu_inst *i, int k, uint32_t *tmp)
{
    return flushed(w, src_word(w, i, k, 0, tmp), tmp);
}
/* The destination's row as it is, an accumulator. */
static inline const float *accf(const struct emu_wave *w, const struct emu_inst *i, uint32_t *tmp)
{
    return flushed(w, vrow(w, i->reg[0]), tmp);
}
/* A 16-bit float operand as f32. */
static inline void srch(const struct emu_wave *w, const struct emu_inst *i, int k, float *out)
{
    row32 tmp;
    const uint32_t *r = src_word(w, i, k, 0, tmp);
    if (unlikely(ftz_in16(w)))
        LANES out[l] = h2f(flush16(r[l] & 0xffff));
    else
        LANES out[l] = h2f(r[l]);
}
static inline void src64(const struct emu_wave *w, const struct emu_inst *i, int k, uint64_t *out)
{
    row32 t0, t1;
    const uint32_t *lo = src_word(w, i, k, 0, t0), *hi = src_word(w, i, k, 1, t1);
    LANES out[l] = lo[l] | (uint64_t)hi[l] << 32;
}
static inline void srcd(const struct emu_wave *w, const struct emu_inst *i, int k, double *out)
{
    row64 t;
    src64(w, i, k, t);
    if (unlikely(ftz_in16(w)))
        LANES t[l] = (t[l] & 0x7ff0000000000000ull) ? t[l] : t[l] & 0x8000000000000000ull;
    LANES out[l] = as_f64(t[l]);
}

static inline void put(struct emu_wave *w, const struct emu_inst *i, uint32_t *r)
{
    if (likely(!(i->slow & EMU_SLOW_DST)))
        blend(vrow(w, i->reg[0]), r, w->exec);
    else
        EMU_N(put_slow)(w, i, r);
}
void EMU_N(putf_slow)(struct emu_wave *w, const struct emu_inst *i, float *r);
static inline void putf(struct emu_wave *w, const struct emu_inst *i, float *r)
{
    if (likely(!(i->slow & EMU_SLOW_DST) && !ftz_out32(w)))
        blend(vrow(w, i->reg[0]), (uint32_t *)r, w->exec);
    else
        EMU_N(putf_slow)(w, i, r);
}
/* 16 bits in the low half of each lane; what becomes of the upper half is the architecture's and the operation's. */
void EMU_N(put16)(struct emu_wave *w, const struct emu_inst *i, uint32_t *r);
/* Half floats: omod, clamp, denormals, then put16. */
void EMU_N(puth)(struct emu_wave *w, const struct emu_inst *i, uint32_t *r);
void EMU_N(put64)(struct emu_wave *w, const struct emu_inst *i, const uint64_t *r);
void EMU_N(putd)(struct emu_wave *w, const struct emu_inst *i, double *r);
/* A comparison's result. */
static inline void put_mask(struct emu_wave *w, const struct emu_inst *i, int k, uint64_t m)
{
    write_mask(w, i, k, m & w->exec);
}

/* ---- handlers ---------------------------------------------------------------------------------------------------- */

#define H(name) static void h_##name(struct emu_wave *w, const struct emu_inst *i)

/* The row x_ of source operand k: unsigned, float, half (as f32), double, 64 bits; ROW_ACC: of the destination, as
 * float. */
#define ROW_U(x, k)                                                                                                    \
    row32 t##x;                                                                                                        \
    const uint32_t *x##_ = src(w, i, k, t##x);
#define ROW_F(x, k)                                                                                                    \
    row32 t##x;                                                                                                        \
    const float *x##_ = srcf(w, i, k, t##x);
#define ROW_H(x, k)                                                                                                    \
    rowf x##_;                                                                                                         \
    srch(w, i, k, x##_);
#define ROW_D(x, k)                                                                                                    \
    rowd x##_;                                                                                                         \
    srcd(w, i, k, x##_);
#define ROW_U64(x, k)                                                                                                  \
    row64 x##_;                                                                                                        \
    src64(w, i, k, x##_);
#define ROW_ACC(x)                                                                                                     \
    row32 t##x;                                                                                                        \
    const float *x##_ = accf(w, i, t##x);
/* A lane's elements of the rows a_, b_, c_. */
#define LANE(x) const __typeof__(*x##_) x = x##_[l];
#define LANE1   LANE(a)
#define LANE2   LANE1 LANE(b)
#define LANE3   LANE2 LANE(c)
/* The handler of one expression: fetches `rows`, commits e of each lane's elements, which `lane` names. e may ask for
 * `ieee`, the mode bit. */
#define OP(n, result, rows, lane, e, commit)                                                                           \
    H(n)                                                                                                               \
    {                                                                                                                  \
        const int ieee __attribute__((unused)) = (w->mode & EMU_MODE_IEEE) != 0;                                       \
        result r;                                                                                                      \
        rows LANES                                                                                                     \
        {                                                                                                              \
            lane r[l] = e;                                                                                             \
        }                                                                                                              \
        commit(w, i, r);                                                                                               \
    }

#endif
