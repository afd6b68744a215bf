/* SPDX-License-Identifier: MIT
 *
 * v_cmp_* and v_cmpx_*. A comparison gives a lane mask, 0 where EXEC is off; cmpx also makes it EXEC. */
#include "isa_math.h"

/* The result's operand is 0, the sources 1 and 2; cmpx of gfx10 and later names no result: sources 0 and 1. */
static void finish(struct emu_wave *w, const struct emu_inst *i, const uint8_t *c, bool cmpx)
{
    uint64_t m = pack_mask(c) & w->exec;
    if (i->n == 3)
        write_mask(w, i, 0, m);
    if (cmpx)
        w->exec = m;
}
#define AT (i->n - 2)

#define INT32(T)                                                                                                       \
    row32 ta, tb;                                                                                                      \
    const T *A_ = (const T *)src(w, i, AT, ta), *B_ = (const T *)src(w, i, AT + 1, tb)
#define INT16(T)                                                                                                       \
    row32 ta, tb;                                                                                                      \
    T A_[64], B_[64];                                                                                                  \
    const uint32_t *p_ = src(w, i, AT, ta), *q_ = src(w, i, AT + 1, tb);                                               \
    LANES A_[l] = (T)p_[l], B_[l] = (T)q_[l]
#define INT64(T)                                                                                                       \
    row64 p_, q_;                                                                                                      \
    src64(w, i, AT, p_);                                                                                               \
    src64(w, i, AT + 1, q_);                                                                                           \
    const T *A_ = (const T *)p_, *B_ = (const T *)q_
#define FETCH_i32 INT32(int32_t)
#define FETCH_u32 INT32(uint32_t)
#define FETCH_i16 INT16(int16_t)
#define FETCH_u16 INT16(uint16_t)
#define FETCH_i64 INT64(int64_t)
#define FETCH_u64 INT64(uint64_t)
#define FETCH_f32                                                                                                      \
    row32 ta, tb;                                                                                                      \
    const float *A_ = srcf(w, i, AT, ta), *B_ = srcf(w, i, AT + 1, tb)
#define FETCH_f16                                                                                                      \
    rowf A_, B_;                                                                                                       \
    srch(w, i, AT, A_);                                                                                                \
    srch(w, i, AT + 1, B_)
#define FETCH_f64                                                                                                      \
    rowd A_, B_;                                                                                                       \
    srcd(w, i, AT, A_);                                                                                                \
    srcd(w, i, AT + 1, B_)

/* Every comparison of a type: X(name, type, C type, expression). */
#define INT_OPS(X, ty, T)                                                                                              \
    X(f, ty, T, 0)                                                                                                     \
    X(lt, ty, T, a < b)                                                                                                \
    X(eq, ty, T, a == b)                                                                                               \
    X(le, ty, T, a <= b)                                                                                               \
    X(gt, ty, T, a > b)                                                                                                \
    X(ne, ty, T, a != b)                                                                                               \
    X(ge, ty, T, a >= b)                                                                                               \
    X(t, ty, T, 1)
#define FLT_OPS(X, ty, T)                                                                                              \
    X(f, ty, T, 0)                                                                                                     \
    X(lt, ty, T, a < b)                                                                                                \
    X(eq, ty, T, a == b)                                                                                               \
    X(le, ty, T, a <= b)                                                                                               \
    X(gt, ty, T, a > b)                                                                                                \
    X(lg, ty, T, a<b || a> b)                                                                                          \
    X(ge, ty, T, a >= b)                                                                                               \
    X(o, ty, T, a == a && b == b)                                                                                      \
    X(u, ty, T, a != a || b != b)                                                                                      \
    X(nge, ty, T, !(a >= b))                                                                                           \
    X(nlg, ty, T, !(a < b || a > b))                                                                                   \
    X(ngt, ty, T, !(a > b))                                                                                            \
    X(nle, ty, T, !(a <= b))                                                                                           \
    X(neq, ty, T, a != b)                                                                                              \
    X(nlt, ty, T, !(a < b))                                                                                            \
    X(tru, ty, T, 1)                                                                                                   \
    X(t, ty, T, 1)
#define ALL(X)                                                                                                         \
    INT_OPS(X, i32, int32_t)                                                                                           \
    INT_OPS(X, u32, uint32_t)                                                                                          \
    INT_OPS(X, i16, int16_t)                                                                                           \
    INT_OPS(X, u16, uint16_t)                                                                                          \
    INT_OPS(X, i64, int64_t)                                                                                           \
    INT_OPS(X, u64, uint64_t)                                                                                          \
    FLT_OPS(X, f32, float)                                                                                             \
    FLT_OPS(X, f16, float)                                                                                             \
    FLT_OPS(X, f64, double)

/* Results as words first: that is what the vectoriser likes; then bytes. */
#define DEFINE(op, ty, T, e)                                                                                           \
    static void cmp_##op##_##ty(struct emu_wave *w, const struct emu_inst *i, bool cmpx)                               \
    {                                                                                                                  \
        uint8_t c[64];                                                                                                 \
        row32 o;                                                                                                       \
        FETCH_##ty;                                                                                                    \
        LANES                                                                                                          \
        {                                                                                                              \
            T a = A_[l], b = B_[l];                                                                                    \
            (void)a, (void)b;                                                                                          \
            o[l] = (e) ? 1 : 0;                                                                                        \
        }                                                                                                              \
        LANES c[l] = (uint8_t)o[l];                                                                                    \
        finish(w, i, c, cmpx);                                                                                         \
    }                                                                                                                  \
    H(v_cmp_##op##_##ty)                                                                                               \
    {                                                                                                                  \
        cmp_##op##_##ty(w, i, false);                                                                                  \
    }                                                                                                                  \
    H(v_cmpx_##op##_##ty)                                                                                              \
    {                                                                                                                  \
        cmp_##op##_##ty(w, i, true);                                                                                   \
    }
ALL(DEFINE)

/* ---- classes: signalling NaN, quiet NaN, -inf, -normal, -subnormal, -0, +0, ... +inf ----------------------------- */

static inline uint32_t class_bit(uint64_t x, int mant, int exps)
{
    uint64_t m = x & ((1ull << mant) - 1), e = x >> mant & ((1ull << exps) - 1);
    bool neg = x >> (mant + exps) & 1;
    if (e == (1ull << exps) - 1)
        return m ? (m >> (mant - 1) ? 2 : 1) : neg ? 4 : 0x200;
    if (e)
        return neg ? 8 : 0x100;
    return m ? (neg ? 0x10 : 0x80) : neg ? 0x20 : 0x40;
}
#define CLASS(ty, mant, exps, fetch)                                                                                   \
    static void class_##ty(struct emu_wave *w, const struct emu_inst *i, bool cmpx)                                    \
    {                                                                                                                  \
        uint8_t c[64];                                                                                                 \
        row32 tb;                                                                                                      \
        fetch;                                                                                                         \
        const uint32_t *b = src(w, i, AT + 1, tb);                                                                     \
        LANES c[l] = (class_bit(a[l], mant, exps) & b[l]) != 0;                                                        \
        finish(w, i, c, cmpx);                                                                                         \
    }                                                                                                                  \
    H(v_cmp_class_##ty)                                                                                                \
    {                                                                                                                  \
        class_##ty(w, i, false);                                                                                       \
    }                                                                                                                  \
    H(v_cmpx_class_##ty)                                                                                               \
    {                                                                                                                  \
        class_##ty(w, i, true);                                                                                        \
    }
CLASS(f32, 23, 8, row32 ta; const uint32_t *a = src(w, i, AT, ta))
CLASS(f16, 10, 5, row32 ta; const uint32_t *a = src(w, i, AT, ta))
CLASS(f64, 52, 11, row64 a; src64(w, i, AT, a))

/* clang-format off */
static const struct emu_op rows[] = {
#define SIG_i32 "s1 s1"
#define SIG_u32 "s1 s1"
#define SIG_i16 "s1w s1w"
#define SIG_u16 "s1w s1w"
#define SIG_i64 "s2j s2j"
#define SIG_u64 "s2 s2"
#define SIG_f32 "s1f s1f"
#define SIG_f16 "s1h s1h"
#define SIG_f64 "s2d s2d"
#define ROW(op, ty, T, e)                                                                                              \
    { "v_cmp_" #op "_" #ty, h_v_cmp_##op##_##ty, "m " SIG_##ty, EMU_VALU, 0 },                                         \
    { "v_cmpx_" #op "_" #ty, h_v_cmpx_##op##_##ty, "m " SIG_##ty "|e", EMU_VALU, 0 },                                  \
    { "v_cmpx_" #op "_" #ty, h_v_cmpx_##op##_##ty, SIG_##ty "|e", EMU_VALU, 0 },
    ALL(ROW)
#define CROW(ty, sig)                                                                                                  \
    { "v_cmp_class_" #ty, h_v_cmp_class_##ty, "m " sig, EMU_VALU, 0 },                                                 \
    { "v_cmpx_class_" #ty, h_v_cmpx_class_##ty, "m " sig "|e", EMU_VALU, 0 },                                          \
    { "v_cmpx_class_" #ty, h_v_cmpx_class_##ty, sig "|e", EMU_VALU, 0 },
    CROW(f32, "s1f s1")
    CROW(f16, "s1h s1w")
    CROW(f64, "s2d s1")
};
/* clang-format on */
const struct emu_ops EMU_N(ops_cmp) = { rows, COUNT(rows) };
