/* SPDX-License-Identifier: MIT
 *
 * Integer VALU: ops_int.def, carries, 64 bits, and what moves bits. */
#include "isa.h"

#define SX(x)  ((int32_t)(x))
#define S16(x) ((int32_t)(int16_t)(x))
#define U24(x) ((x)&0xffffffu)
#define S24(x) ((int32_t)((x) << 8) >> 8)

static inline uint32_t brev32(uint32_t x)
{
    x = (x >> 1 & 0x55555555) | (x & 0x55555555) << 1;
    x = (x >> 2 & 0x33333333) | (x & 0x33333333) << 2;
    x = (x >> 4 & 0x0f0f0f0f) | (x & 0x0f0f0f0f) << 4;
    return __builtin_bswap32(x);
}
static inline uint32_t sat32(int64_t x)
{
    return (uint32_t)(x > INT32_MAX ? INT32_MAX : x < INT32_MIN ? INT32_MIN : (int32_t)x);
}
static inline uint32_t satu32(uint64_t x)
{
    return x > UINT32_MAX ? UINT32_MAX : (uint32_t)x;
}
static inline uint32_t sat16(int32_t x)
{
    return (uint32_t)(x > 32767 ? 32767 : x < -32768 ? -32768 : x);
}
static inline uint32_t imin(uint32_t a, uint32_t b)
{
    return SX(a) < SX(b) ? a : b;
}
static inline uint32_t imax(uint32_t a, uint32_t b)
{
    return SX(a) > SX(b) ? a : b;
}
static inline uint32_t umin(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}
static inline uint32_t umax(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}
static inline uint32_t absdiff(uint32_t a, uint32_t b)
{
    return a > b ? a - b : b - a;
}
static inline uint32_t bfe_i32(uint32_t a, uint32_t at, uint32_t n)
{
    uint32_t x = (uint32_t)(SX(a) >> at);
    return n == 0 ? 0 : (uint32_t)(SX(x << (32 - n)) >> (32 - n));
}
static inline uint32_t sad8(uint32_t a, uint32_t b, uint32_t mask)
{
    uint32_t s = 0;
    for (int k = 0; k < 32; k += 8)
        s += mask >> k & 255 ? absdiff(a >> k & 255, b >> k & 255) : 0;
    return s;
}
static inline uint32_t lerp8(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t r = 0;
    for (int k = 0; k < 32; k += 8)
        r |= (((a >> k & 255) + (b >> k & 255) + (c >> k & 1)) >> 1) << k;
    return r;
}
/* Bytes of {a, b} (b the low four) that c's bytes select; 8..11: sign of a byte 1, 3, 5, 7; 12: 0; above: 0xff. */
static inline uint32_t perm(uint32_t a, uint32_t b, uint32_t c)
{
    uint64_t d = (uint64_t)a << 32 | b;
    uint32_t r = 0;
    for (int k = 0; k < 32; k += 8) {
        uint32_t s = c >> k & 255;
        uint32_t byte = (uint32_t)(d >> 8 * (s & 7)) & 255;
        uint32_t sign = d >> (16 * (s & 3) + 15) & 1 ? 255 : 0;
        r |= (s < 8 ? byte : s < 12 ? sign : s == 12 ? 0 : 255) << k;
    }
    return r;
}
static inline int32_t dot4(uint32_t a, uint32_t b, unsigned sa, unsigned sb)
{
    int32_t s = 0;
    for (int k = 0; k < 32; k += 8) {
        int32_t x = (int32_t)(a >> k & 255), y = (int32_t)(b >> k & 255);
        s += (sa ? (int8_t)x : x) * (sb ? (int8_t)y : y);
    }
    return s;
}
static inline int32_t dot8(uint32_t a, uint32_t b, unsigned sa, unsigned sb)
{
    int32_t s = 0;
    for (int k = 0; k < 32; k += 4) {
        int32_t x = (int32_t)(a >> k & 15), y = (int32_t)(b >> k & 15);
        s += (sa ? (x ^ 8) - 8 : x) * (sb ? (y ^ 8) - 8 : y);
    }
    return s;
}

/* C: clamp, M: the sources' signs. */
#define MODS                                                                                                           \
    const bool C __attribute__((unused)) = i->mods->clamp;                                                             \
    const unsigned M __attribute__((unused)) = i->mods->neg_lo;
#define ROWS2     ROW_U(a, 1) ROW_U(b, 2)
#define ROWS3     ROWS2 ROW_U(c, 3)
#define I1(n, e)  OP(n, row32, MODS ROW_U(a, 1), LANE1, (uint32_t)(e), put)
#define I2(n, e)  OP(n, row32, MODS ROWS2, LANE2, (uint32_t)(e), put)
#define I3(n, e)  OP(n, row32, MODS ROWS3, LANE3, (uint32_t)(e), put)
#define ACC(n, e) OP(n, row32, MODS ROWS2 const uint32_t *c_ = vrow(w, i->reg[0]);, LANE3, (uint32_t)(e), put)
#define W1(n, e)  OP(n, row32, MODS ROW_U(a, 1), LANE1, (uint32_t)(e), EMU_N(put16))
#define W2(n, e)  OP(n, row32, MODS ROWS2, LANE2, (uint32_t)(e), EMU_N(put16))
#define W3K(n, e) OP(n, row32, MODS ROWS3, LANE3, (uint32_t)(e), EMU_N(put16))
#define A(n, f, s)
/* Each half of the words by itself. */
#define HALF(x, k) uint32_t x = x##_[l] >> (sel & (k) ? 16 : 0) & 0xffff;
#define PK(n, rows, halves, e)                                                                                         \
    H(n)                                                                                                               \
    {                                                                                                                  \
        row32 r;                                                                                                       \
        MODS rows for (int h = 0; h < 2; h++)                                                                          \
        {                                                                                                              \
            unsigned sel = h ? i->mods->op_sel_hi : i->mods->op_sel;                                                   \
            LANES                                                                                                      \
            {                                                                                                          \
                halves uint32_t x = (uint32_t)(e);                                                                     \
                r[l] = h ? r[l] | x << 16 : (x & 0xffff);                                                              \
            }                                                                                                          \
        }                                                                                                              \
        put(w, i, r);                                                                                                  \
    }
#define P2(n, e) PK(n, ROWS2, HALF(a, 1) HALF(b, 2), e)
#define P3(n, e) PK(n, ROWS3, HALF(a, 1) HALF(b, 2) HALF(c, 4), e)
#include "ops_int.def"
#undef I1
#undef I2
#undef I3
#undef ACC
#undef W1
#undef W2
#undef W3K
#undef A
#undef P2
#undef P3

/* ---- carries ----------------------------------------------------------------------------------------------------- */

/* d, carry out, a, b [, carry in]. kind 0: a + b, 1: a - b, 2: b - a. */
static inline void carry(struct emu_wave *w, const struct emu_inst *i, int kind, bool in)
{
    row32 r, ta, tb, t1, tm;
    uint8_t out[64];
    const uint32_t *a = src(w, i, 2, ta), *b = src(w, i, 3, tb);
    uint64_t cin = in ? read_mask(w, i, 4) : 0;
    bool clamp = i->mods->clamp;
    expand_mask(tm, cin);
    if (kind == 2) {
        const uint32_t *t = a;
        a = b;
        b = t;
    }
    LANES
    {
        uint32_t c = tm[l] & 1;
        uint32_t x = kind ? a[l] - b[l] - c : a[l] + b[l] + c;
        uint32_t o = kind ? (a[l] < b[l] || (a[l] == b[l] && c)) : (x < a[l] || (x == a[l] && c));
        r[l] = x;
        t1[l] = o;
    }
    LANES out[l] = (uint8_t)t1[l];
    if (clamp)
        LANES r[l] = t1[l] ? (kind ? 0 : ~0u) : r[l];
    put_mask(w, i, 1, pack_mask(out));
    put(w, i, r);
}
H(v_add_co_u32)
{
    carry(w, i, 0, false);
}
H(v_sub_co_u32)
{
    carry(w, i, 1, false);
}
H(v_subrev_co_u32)
{
    carry(w, i, 2, false);
}
H(v_addc_co_u32)
{
    carry(w, i, 0, true);
}
H(v_subb_co_u32)
{
    carry(w, i, 1, true);
}
H(v_subbrev_co_u32)
{
    carry(w, i, 2, true);
}

/* d, condition's mask last; without one it is VCC. */
#define ROW_MASK                                                                                                       \
    row32 m_;                                                                                                          \
    expand_mask(m_, i->n > 3 ? read_mask(w, i, 3) : read_vcc(w));
OP(v_cndmask_b32, row32, ROWS2 ROW_MASK, LANE2 LANE(m), (a & ~m) | (b & m), put)
OP(v_cndmask_b16, row32, ROWS2 ROW_MASK, LANE2 LANE(m), (a & ~m) | (b & m), EMU_N(put16))

OP(v_mbcnt_lo_u32_b32, row32, ROWS2, LANE2, b + (uint32_t)__builtin_popcount(a & (l < 32 ? (1u << l) - 1 : ~0u)), put)
OP(v_mbcnt_hi_u32_b32, row32, ROWS2, LANE2, b + (uint32_t)__builtin_popcount(a & (l >= 32 ? (1u << (l - 32)) - 1 : 0)),
   put)

H(v_swap_b32)
{
    row32 a, b;
    memcpy(a, vrow(w, i->reg[0]), 256);
    memcpy(b, vrow(w, i->reg[1]), 256);
    blend(vrow(w, i->reg[0]), b, w->exec);
    blend(vrow(w, i->reg[1]), a, w->exec);
}
/* op_sel: bit 0 the second operand's half, bit 1 the first's. */
H(v_swap_b16)
{
    uint32_t *a = vrow(w, i->reg[0]), *b = vrow(w, i->reg[1]);
    unsigned at = i->mods->op_sel & 2 ? 16 : 0, bt = i->mods->op_sel & 1 ? 16 : 0;
    LANES if (w->exec >> l & 1)
    {
        uint32_t x = a[l] >> at & 0xffff, y = b[l] >> bt & 0xffff;
        a[l] = (a[l] & ~(0xffffu << at)) | y << at;
        b[l] = (b[l] & ~(0xffffu << bt)) | x << bt;
    }
}

H(v_nop)
{
    (void)w, (void)i;
}

/* ---- 64 bits ----------------------------------------------------------------------------------------------------- */

H(v_mov_b64)
{
    row64 a;
    src64(w, i, 1, a);
    EMU_N(put64)(w, i, a);
}
OP(v_lshlrev_b64, row64, ROW_U(a, 1) ROW_U64(b, 2), LANE2, b << (a & 63), EMU_N(put64))
OP(v_lshrrev_b64, row64, ROW_U(a, 1) ROW_U64(b, 2), LANE2, b >> (a & 63), EMU_N(put64))
OP(v_ashrrev_i64, row64, ROW_U(a, 1) ROW_U64(b, 2), LANE2, (uint64_t)((int64_t)b >> (a & 63)), EMU_N(put64))
OP(v_lshl_add_u64, row64, ROW_U64(a, 1) ROW_U(b, 2) ROW_U64(c, 3), LANE3, (a << (b & 7)) + c, EMU_N(put64))
/* d2, carry out, a, b, c2 */
H(v_mad_u64_u32)
{
    row32 ta, tb;
    row64 c, r;
    uint8_t out[64];
    const uint32_t *a = src(w, i, 2, ta), *b = src(w, i, 3, tb);
    src64(w, i, 4, c);
    LANES r[l] = (uint64_t)a[l] * b[l] + c[l];
    LANES out[l] = r[l] < c[l];
    put_mask(w, i, 1, pack_mask(out));
    EMU_N(put64)(w, i, r);
}
H(v_mad_i64_i32)
{
    row32 ta, tb;
    row64 c, r;
    uint8_t out[64];
    const uint32_t *a = src(w, i, 2, ta), *b = src(w, i, 3, tb);
    src64(w, i, 4, c);
    LANES
    {
        int64_t p = (int64_t)SX(a[l]) * SX(b[l]), s;
        out[l] = __builtin_add_overflow(p, (int64_t)c[l], &s);
        r[l] = (uint64_t)s;
    }
    put_mask(w, i, 1, pack_mask(out));
    EMU_N(put64)(w, i, r);
}
/* Words: op_sel picks source 0's for the low one, op_sel_hi source 1's for the high one. */
H(v_pk_mov_b32)
{
    row32 t0, t1, lo, hi;
    memcpy(lo, src_word(w, i, 1, i->mods->op_sel & 1, t0), 256);
    memcpy(hi, src_word(w, i, 2, i->mods->op_sel & 2 ? 1 : 0, t1), 256);
    row64 r;
    LANES r[l] = lo[l] | (uint64_t)hi[l] << 32;
    EMU_N(put64)(w, i, r);
}
/* clang-format off */
static const struct emu_op rows[] = {
#define ROW(n, s, cls)     { #n, h_##n, s, cls, 0 },
#define I1(n, e)           { #n, h_##n, "d1 s1", EMU_VALU, 0 },
#define I2(n, e)           { #n, h_##n, "d1 s1 s1", EMU_VALU, 0 },
#define I3(n, e)           { #n, h_##n, "d1 s1 s1 s1", EMU_VALU, 0 },
#define ACC(n, e)          { #n, h_##n, "b1 s1 s1", EMU_VALU, 0 },
#define W1(n, e)           { #n, h_##n, "d1 s1w", EMU_VALU, 0 },
#define W2(n, e)           { #n, h_##n, "d1 s1w s1w", EMU_VALU, 0 },
#define W3K(n, e)          { #n, h_##n, "d1 s1w s1w s1w", EMU_VALU, EMU_KEEPS_HI },
#define P2(n, e)           { #n, h_##n, "d1 s1p s1p", EMU_VALU, 0 },
#define P3(n, e)           { #n, h_##n, "d1 s1p s1p s1p", EMU_VALU, 0 },
#define A(n, f, s)         { #n, h_##f, s, EMU_VALU, 0 },
#include "ops_int.def"
    ROW(v_add_co_u32, "d1 m s1 s1", EMU_VALU)
    ROW(v_sub_co_u32, "d1 m s1 s1", EMU_VALU)
    ROW(v_subrev_co_u32, "d1 m s1 s1", EMU_VALU)
    ROW(v_addc_co_u32, "d1 m s1 s1 n", EMU_VALU)
    ROW(v_subb_co_u32, "d1 m s1 s1 n", EMU_VALU)
    ROW(v_subbrev_co_u32, "d1 m s1 s1 n", EMU_VALU)
    A(v_add_co_ci_u32, v_addc_co_u32, "d1 m s1 s1 n")
    A(v_sub_co_ci_u32, v_subb_co_u32, "d1 m s1 s1 n")
    A(v_subrev_co_ci_u32, v_subbrev_co_u32, "d1 m s1 s1 n")
    ROW(v_cndmask_b32, "d1 s1 s1 n", EMU_VALU)
    A(v_cndmask_b32, v_cndmask_b32, "d1 s1 s1|V")
    ROW(v_cndmask_b16, "d1 s1w s1w n", EMU_VALU)
    ROW(v_mbcnt_lo_u32_b32, "d1 s1 s1", EMU_VALU)
    ROW(v_mbcnt_hi_u32_b32, "d1 s1 s1", EMU_VALU)
    ROW(v_swap_b32, "b1 b1", EMU_VALU)
    ROW(v_swap_b16, "b1 b1", EMU_VALU)
    ROW(v_nop, "*", EMU_VALU)
    ROW(v_mov_b64, "d2 s2", EMU_VALU)
    ROW(v_lshlrev_b64, "d2 s1 s2", EMU_VALU)
    ROW(v_lshrrev_b64, "d2 s1 s2", EMU_VALU)
    ROW(v_ashrrev_i64, "d2 s1 s2j", EMU_VALU)
    ROW(v_lshl_add_u64, "d2 s2 s1 s2", EMU_VALU)
    ROW(v_mad_u64_u32, "d2 m s1 s1 s2", EMU_VALU)
    ROW(v_mad_i64_i32, "d2 m s1 s1 s2j", EMU_VALU)
    A(v_mad_co_u64_u32, v_mad_u64_u32, "d2 m s1 s1 s2")
    A(v_mad_co_i64_i32, v_mad_i64_i32, "d2 m s1 s1 s2j")
    ROW(v_pk_mov_b32, "d2 s2p s2p", EMU_VALU)
};
/* clang-format on */
const struct emu_ops EMU_N(ops_int) = { rows, COUNT(rows) };
