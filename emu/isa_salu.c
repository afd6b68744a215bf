/* SPDX-License-Identifier: MIT
 *
 * Scalar instructions: arithmetic, branches, waits, and the run loop. Semantics: AMD's ISA guides of CDNA 2 and 3 and
 * RDNA 3, chapters "Scalar ALU operations" and "Program flow control". */
#include "isa.h"

#include "memory.h"

uint64_t emu_special(const W *w, uint16_t reg)
{
    uint64_t vcc = w->s[EMU_VCC] | (w->lanes == 32 ? 0 : (uint64_t)w->s[EMU_VCC + 1] << 32);
    switch (reg) {
    case EMU_EXEC:
        return w->exec;
    case EMU_EXEC + 1:
        return w->exec >> 32;
    case EMU_SCC:
        return w->scc;
    case EMU_VCCZ:
        return vcc == 0;
    case EMU_EXECZ:
        return w->exec == 0;
    case EMU_SHARED_BASE_REG:
        return EMU_SHARED_BASE;
    case EMU_SHARED_BASE_REG + 1:
        return EMU_SHARED_BASE + UINT32_MAX;
    case EMU_SHARED_BASE_REG + 2:
        return EMU_PRIVATE_BASE;
    case EMU_SHARED_BASE_REG + 3:
        return EMU_PRIVATE_BASE + UINT32_MAX;
    }
    return 0; /* null, off */
}

static uint64_t vcc_of(const W *w)
{
    return w->s[EMU_VCC] | (w->lanes == 32 ? 0 : (uint64_t)w->s[EMU_VCC + 1] << 32);
}

/* ---- arithmetic: D = result, scc = condition -----------------------------------------------------------------------
 */

static uint32_t brev32(uint32_t v)
{
    uint32_t r = 0;
    for (int n = 0; n < 32; n++)
        r |= (v >> n & 1) << (31 - n);
    return r;
}

static uint64_t brev64(uint64_t v)
{
    return (uint64_t)brev32((uint32_t)v) << 32 | brev32((uint32_t)(v >> 32));
}

/* Bit field of width bits at offset; a width of 0 gives 0. */
static uint64_t field(uint64_t v, unsigned offset, unsigned width, bool sign)
{
    if (!width)
        return 0;
    v >>= offset;
    if (width >= 64)
        return v;
    uint64_t mask = (UINT64_C(1) << width) - 1;
    v &= mask;
    return sign && v >> (width - 1) & 1 ? v | ~mask : v;
}

#define A(...) __VA_ARGS__
/* name, expression of a and b (uint32_t), new scc of a, b, r */
#define SALU_OPS                                                                                                       \
    S2(s_add_u32, a + b, r < a)                                                                                        \
    S2(s_sub_u32, a - b, b > a)                                                                                        \
    S2(s_add_i32, a + b, (~(a ^ b) & (a ^ r)) >> 31)                                                                   \
    S2(s_sub_i32, a - b, ((a ^ b) & (a ^ r)) >> 31)                                                                    \
    S2(s_addc_u32, a + b + w->scc, (uint64_t)a + b + w->scc > UINT32_MAX)                                              \
    S2(s_subb_u32, a - b - w->scc, (uint64_t)b + w->scc > a)                                                           \
    S2(s_min_i32, (int32_t)a < (int32_t)b ? a : b, (int32_t)a < (int32_t)b)                                            \
    S2(s_min_u32, a < b ? a : b, a < b)                                                                                \
    S2(s_max_i32, (int32_t)a > (int32_t)b ? a : b, (int32_t)a > (int32_t)b)                                            \
    S2(s_max_u32, a > b ? a : b, a > b)                                                                                \
    S2(s_cselect_b32, w->scc ? a : b, w->scc)                                                                          \
    S2(s_and_b32, a &b, r != 0)                                                                                        \
    S2(s_or_b32, a | b, r != 0)                                                                                        \
    S2(s_xor_b32, a ^ b, r != 0)                                                                                       \
    S2(s_andn2_b32, a & ~b, r != 0)                                                                                    \
    S2(s_and_not1_b32, a & ~b, r != 0)                                                                                 \
    S2(s_orn2_b32, a | ~b, r != 0)                                                                                     \
    S2(s_or_not1_b32, a | ~b, r != 0)                                                                                  \
    S2(s_nand_b32, ~(a & b), r != 0)                                                                                   \
    S2(s_nor_b32, ~(a | b), r != 0)                                                                                    \
    S2(s_xnor_b32, ~(a ^ b), r != 0)                                                                                   \
    S2(s_lshl_b32, a << (b & 31), r != 0)                                                                              \
    S2(s_lshr_b32, a >> (b & 31), r != 0)                                                                              \
    S2(s_ashr_i32, (uint32_t)((int32_t)a >> (b & 31)), r != 0)                                                         \
    S2(s_bfm_b32, ((1u << (a & 31)) - 1) << (b & 31), w->scc)                                                          \
    S2(s_mul_i32, a *b, w->scc)                                                                                        \
    S2(s_mul_hi_u32, (uint32_t)((uint64_t)a * b >> 32), w->scc)                                                        \
    S2(s_mul_hi_i32, (uint32_t)((uint64_t)((int64_t)(int32_t)a * (int32_t)b) >> 32), w->scc)                           \
    S2(s_bfe_u32, (uint32_t)field(a, b & 31, b >> 16 & 127, false), r != 0)                                            \
    S2(s_bfe_i32, (uint32_t)field((uint64_t)(int64_t)(int32_t)a, b & 31, b >> 16 & 127, true), r != 0)                 \
    S2(s_absdiff_i32, (int32_t)a > (int32_t)b ? a - b : b - a, r != 0)                                                 \
    S2(s_lshl1_add_u32, (a << 1) + b, ((uint64_t)a << 1) + b > UINT32_MAX)                                             \
    S2(s_lshl2_add_u32, (a << 2) + b, ((uint64_t)a << 2) + b > UINT32_MAX)                                             \
    S2(s_lshl3_add_u32, (a << 3) + b, ((uint64_t)a << 3) + b > UINT32_MAX)                                             \
    S2(s_lshl4_add_u32, (a << 4) + b, ((uint64_t)a << 4) + b > UINT32_MAX)                                             \
    S2(s_pack_ll_b32_b16, (a & 0xffff) | b << 16, w->scc)                                                              \
    S2(s_pack_lh_b32_b16, (a & 0xffff) | (b & 0xffff0000u), w->scc)                                                    \
    S2(s_pack_hl_b32_b16, a >> 16 | b << 16, w->scc)                                                                   \
    S2(s_pack_hh_b32_b16, a >> 16 | (b & 0xffff0000u), w->scc)                                                         \
    D2(s_cselect_b64, w->scc ? a : b, w->scc)                                                                          \
    D2(s_and_b64, a &b, r != 0)                                                                                        \
    D2(s_or_b64, a | b, r != 0)                                                                                        \
    D2(s_xor_b64, a ^ b, r != 0)                                                                                       \
    D2(s_andn2_b64, a & ~b, r != 0)                                                                                    \
    D2(s_and_not1_b64, a & ~b, r != 0)                                                                                 \
    D2(s_orn2_b64, a | ~b, r != 0)                                                                                     \
    D2(s_or_not1_b64, a | ~b, r != 0)                                                                                  \
    D2(s_nand_b64, ~(a & b), r != 0)                                                                                   \
    D2(s_nor_b64, ~(a | b), r != 0)                                                                                    \
    D2(s_xnor_b64, ~(a ^ b), r != 0)                                                                                   \
    H2(s_lshl_b64, a << (b & 63), r != 0)                                                                              \
    H2(s_lshr_b64, a >> (b & 63), r != 0)                                                                              \
    H2(s_ashr_i64, (uint64_t)((int64_t)a >> (b & 63)), r != 0)                                                         \
    H2(s_bfe_u64, field(a, b & 63, b >> 16 & 127, false), r != 0)                                                      \
    H2(s_bfe_i64, field(a, b & 63, b >> 16 & 127, true), r != 0)                                                       \
    S1(s_mov_b32, a, w->scc)                                                                                           \
    S1(s_not_b32, ~a, r != 0)                                                                                          \
    S1(s_brev_b32, brev32(a), w->scc)                                                                                  \
    S1(s_abs_i32, (int32_t)a < 0 ? 0 - a : a, r != 0)                                                                  \
    S1(s_sext_i32_i8, (uint32_t)(int8_t)a, w->scc)                                                                     \
    S1(s_sext_i32_i16, (uint32_t)(int16_t)a, w->scc)                                                                   \
    S1(s_bcnt1_i32_b32, (uint32_t)__builtin_popcount(a), r != 0)                                                       \
    S1(s_bcnt0_i32_b32, 32 - (uint32_t)__builtin_popcount(a), r != 0)                                                  \
    S1(s_ff1_i32_b32, a ? (uint32_t)__builtin_ctz(a) : UINT32_MAX, w->scc)                                             \
    S1(s_ctz_i32_b32, a ? (uint32_t)__builtin_ctz(a) : UINT32_MAX, w->scc)                                             \
    S1(s_ff0_i32_b32, ~a ? (uint32_t)__builtin_ctz(~a) : UINT32_MAX, w->scc)                                           \
    S1(s_flbit_i32_b32, a ? (uint32_t)__builtin_clz(a) : UINT32_MAX, w->scc)                                           \
    S1(s_clz_i32_u32, a ? (uint32_t)__builtin_clz(a) : UINT32_MAX, w->scc)                                             \
    D1(s_mov_b64, a, w->scc)                                                                                           \
    D1(s_not_b64, ~a, r != 0)                                                                                          \
    D1(s_brev_b64, brev64(a), w->scc)                                                                                  \
    X1(s_bcnt1_i32_b64, (uint32_t)__builtin_popcountll(a), r != 0)                                                     \
    X1(s_bcnt0_i32_b64, 64 - (uint32_t)__builtin_popcountll(a), r != 0)                                                \
    X1(s_ff1_i32_b64, a ? (uint32_t)__builtin_ctzll(a) : UINT32_MAX, w->scc)                                           \
    X1(s_ctz_i32_b64, a ? (uint32_t)__builtin_ctzll(a) : UINT32_MAX, w->scc)                                           \
    X1(s_flbit_i32_b64, a ? (uint32_t)__builtin_clzll(a) : UINT32_MAX, w->scc)                                         \
    X1(s_clz_i32_u64, a ? (uint32_t)__builtin_clzll(a) : UINT32_MAX, w->scc)                                           \
    K0(s_movk_i32, k, w->scc)                                                                                          \
    K1(s_addk_i32, d + k, (~(d ^ k) & (d ^ r)) >> 31)                                                                  \
    K1(s_mulk_i32, d *k, w->scc)                                                                                       \
    K1(s_cmovk_i32, w->scc ? k : d, w->scc)                                                                            \
    C2(s_cmp_eq_i32, a == b)                                                                                           \
    C2(s_cmp_lg_i32, a != b)                                                                                           \
    C2(s_cmp_gt_i32, (int32_t)a > (int32_t)b)                                                                          \
    C2(s_cmp_ge_i32, (int32_t)a >= (int32_t)b)                                                                         \
    C2(s_cmp_lt_i32, (int32_t)a < (int32_t)b)                                                                          \
    C2(s_cmp_le_i32, (int32_t)a <= (int32_t)b)                                                                         \
    C2(s_cmp_eq_u32, a == b)                                                                                           \
    C2(s_cmp_lg_u32, a != b)                                                                                           \
    C2(s_cmp_gt_u32, a > b)                                                                                            \
    C2(s_cmp_ge_u32, a >= b)                                                                                           \
    C2(s_cmp_lt_u32, a < b)                                                                                            \
    C2(s_cmp_le_u32, a <= b)                                                                                           \
    C2(s_bitcmp0_b32, !(a >> (b & 31) & 1))                                                                            \
    C2(s_bitcmp1_b32, a >> (b & 31) & 1)                                                                               \
    Q2(s_cmp_eq_u64, a == b)                                                                                           \
    Q2(s_cmp_lg_u64, a != b)                                                                                           \
    B2(s_bitcmp0_b64, !(a >> (b & 63) & 1))                                                                            \
    B2(s_bitcmp1_b64, a >> (b & 63) & 1)                                                                               \
    P2(s_cmpk_eq_i32, d == k)                                                                                          \
    P2(s_cmpk_lg_i32, d != k)                                                                                          \
    P2(s_cmpk_gt_i32, (int32_t)d > (int32_t)k)                                                                         \
    P2(s_cmpk_ge_i32, (int32_t)d >= (int32_t)k)                                                                        \
    P2(s_cmpk_lt_i32, (int32_t)d < (int32_t)k)                                                                         \
    P2(s_cmpk_le_i32, (int32_t)d <= (int32_t)k)                                                                        \
    P2(s_cmpk_eq_u32, d == (k & 0xffff))                                                                               \
    P2(s_cmpk_lg_u32, d != (k & 0xffff))                                                                               \
    P2(s_cmpk_gt_u32, d > (k & 0xffff))                                                                                \
    P2(s_cmpk_ge_u32, d >= (k & 0xffff))                                                                               \
    P2(s_cmpk_lt_u32, d < (k & 0xffff))                                                                                \
    P2(s_cmpk_le_u32, d <= (k & 0xffff))                                                                               \
    E1(s_and_saveexec, s &e)                                                                                           \
    E1(s_or_saveexec, s | e)                                                                                           \
    E1(s_xor_saveexec, s ^ e)                                                                                          \
    E1(s_andn2_saveexec, s & ~e)                                                                                       \
    E1(s_and_not1_saveexec, s & ~e)                                                                                    \
    E1(s_andn1_saveexec, ~s &e)                                                                                        \
    E1(s_and_not0_saveexec, ~s &e)                                                                                     \
    E1(s_orn2_saveexec, s | ~e)                                                                                        \
    E1(s_or_not1_saveexec, s | ~e)                                                                                     \
    E1(s_orn1_saveexec, ~s | e)                                                                                        \
    E1(s_or_not0_saveexec, ~s | e)                                                                                     \
    E1(s_nand_saveexec, ~(s & e))                                                                                      \
    E1(s_nor_saveexec, ~(s | e))                                                                                       \
    E1(s_xnor_saveexec, ~(s ^ e))

#define ONE(name, T, get, n, expr, cond, put)                                                                          \
    static void x_##name(W *w, I *i)                                                                                   \
    {                                                                                                                  \
        n;                                                                                                             \
        T r = (expr);                                                                                                  \
        bool c = (cond);                                                                                               \
        put;                                                                                                           \
        w->scc = c;                                                                                                    \
    }
#define S2(name, expr, cond)                                                                                           \
    ONE(name, uint32_t, , uint32_t a = emu_s32(w, i, 1);                                                               \
        uint32_t b = emu_s32(w, i, 2), expr, cond, emu_put_s32(w, i, 0, r))
#define S1(name, expr, cond) ONE(name, uint32_t, , uint32_t a = emu_s32(w, i, 1), expr, cond, emu_put_s32(w, i, 0, r))
#define D2(name, expr, cond)                                                                                           \
    ONE(name, uint64_t, , uint64_t a = emu_s64(w, i, 1);                                                               \
        uint64_t b = emu_s64(w, i, 2), expr, cond, emu_put_s64(w, i, 0, r))
#define H2(name, expr, cond)                                                                                           \
    ONE(name, uint64_t, , uint64_t a = emu_s64(w, i, 1);                                                               \
        uint32_t b = emu_s32(w, i, 2), expr, cond, emu_put_s64(w, i, 0, r))
#define D1(name, expr, cond) ONE(name, uint64_t, , uint64_t a = emu_s64(w, i, 1), expr, cond, emu_put_s64(w, i, 0, r))
#define X1(name, expr, cond) ONE(name, uint32_t, , uint64_t a = emu_s64(w, i, 1), expr, cond, emu_put_s32(w, i, 0, r))
#define K1(name, expr, cond)                                                                                           \
    ONE(name, uint32_t, , uint32_t d = emu_s32(w, i, 0); uint32_t k = (uint32_t)(int16_t)i->k[1];                      \
        (void)d, expr, cond, emu_put_s32(w, i, 0, r))
#define K0(name, expr, cond)                                                                                           \
    ONE(name, uint32_t, , uint32_t k = (uint32_t)(int16_t)i->k[1], expr, cond, emu_put_s32(w, i, 0, r))
#define CMP(name, pre, expr)                                                                                           \
    static void x_##name(W *w, I *i)                                                                                   \
    {                                                                                                                  \
        pre;                                                                                                           \
        w->scc = (expr);                                                                                               \
    }
#define C2(name, expr) CMP(name, uint32_t a = emu_s32(w, i, 0); uint32_t b = emu_s32(w, i, 1), expr)
#define Q2(name, expr) CMP(name, uint64_t a = emu_s64(w, i, 0); uint64_t b = emu_s64(w, i, 1), expr)
#define B2(name, expr) CMP(name, uint64_t a = emu_s64(w, i, 0); uint32_t b = emu_s32(w, i, 1), expr)
#define P2(name, expr) CMP(name, uint32_t d = emu_s32(w, i, 0); uint32_t k = (uint32_t)(int16_t)i->k[1], expr)
/* D = EXEC, EXEC = expression of s, the source, and e, EXEC */
#define E1(name, expr)                                                                                                 \
    static void x_##name(W *w, I *i)                                                                                   \
    {                                                                                                                  \
        uint64_t all = w->lanes == 32 ? UINT32_MAX : UINT64_MAX, s = emu_mask(w, i, 1), e = w->exec;                   \
        w->exec = (expr)&all;                                                                                          \
        if (i->reg[0] != EMU_EXEC)                                                                                     \
            emu_put_mask(w, i, 0, e);                                                                                  \
        w->scc = w->exec != 0;                                                                                         \
    }
SALU_OPS
#undef S2
#undef S1
#undef D2
#undef H2
#undef D1
#undef X1
#undef K1
#undef K0
#undef C2
#undef Q2
#undef B2
#undef P2
#undef E1

static void x_cmov_b32(W *w, I *i)
{
    if (w->scc)
        emu_put_s32(w, i, 0, emu_s32(w, i, 1));
}

static void x_cmov_b64(W *w, I *i)
{
    if (w->scc)
        emu_put_s64(w, i, 0, emu_s64(w, i, 1));
}

static void x_bfm_b64(W *w, I *i)
{
    emu_put_s64(w, i, 0, ((UINT64_C(1) << (emu_s32(w, i, 1) & 63)) - 1) << (emu_s32(w, i, 2) & 63));
}

/* info: 0 or 1, the bit's new value */
static void x_bitset_b32(W *w, I *i)
{
    uint32_t bit = 1u << (emu_s32(w, i, 1) & 31), d = emu_s32(w, i, 0);
    emu_put_s32(w, i, 0, i->op->info ? d | bit : d & ~bit);
}

static void x_bitset_b64(W *w, I *i)
{
    uint64_t bit = UINT64_C(1) << (emu_s32(w, i, 1) & 63), d = emu_s64(w, i, 0);
    emu_put_s64(w, i, 0, i->op->info ? d | bit : d & ~bit);
}

/* ---- program flow ---------------------------------------------------------------------------------------------------
 */

static void jump(W *w, I *i)
{
    w->pc = w->prog->inst + i->target;
}

static void x_branch(W *w, I *i)
{
    jump(w, i);
}

#define BRANCH(name, cond)                                                                                             \
    static void x_##name(W *w, I *i)                                                                                   \
    {                                                                                                                  \
        if (cond)                                                                                                      \
            jump(w, i);                                                                                                \
    }
BRANCH(cbranch_scc0, !w->scc)
BRANCH(cbranch_scc1, w->scc)
BRANCH(cbranch_vccz, !vcc_of(w))
BRANCH(cbranch_vccnz, vcc_of(w))
BRANCH(cbranch_execz, !w->exec)
BRANCH(cbranch_execnz, w->exec)

/* The instruction behind this one, as an address. */
static uint64_t next_address(const W *w, I *i)
{
    return w->prog->base + i->address + i->size;
}

static void go_to(W *w, I *i, uint64_t address)
{
    uint64_t off = address - w->prog->base;
    int32_t at = off < w->prog->size && off % 4 == 0 ? w->prog->at[off / 4] : -1;
    if (at < 0)
        emu_report(w, i, "jump", true, w->exec, "to 0x%llx, where there is no instruction",
                   (unsigned long long)address);
    else
        w->pc = w->prog->inst + at;
}

static void x_getpc(W *w, I *i)
{
    emu_put_s64(w, i, 0, next_address(w, i));
}

static void x_setpc(W *w, I *i)
{
    go_to(w, i, emu_s64(w, i, 0));
}

static void x_swappc(W *w, I *i)
{
    uint64_t to = emu_s64(w, i, 1);
    emu_put_s64(w, i, 0, next_address(w, i));
    go_to(w, i, to);
}

static void x_call(W *w, I *i)
{
    emu_put_s64(w, i, 0, next_address(w, i));
    go_to(w, i, next_address(w, i) + (uint64_t)(int64_t)(int16_t)i->k[1] * 4);
}

static void x_hint(W *w, I *i)
{
    (void)w, (void)i;
}

static void x_endpgm(W *w, I *i)
{
    (void)i;
    w->stop = EMU_END;
}

static void x_barrier(W *w, I *i)
{
    (void)i;
    w->stop = EMU_BARRIER;
}

static void x_sleep(W *w, I *i)
{
    (void)i;
    w->stop = EMU_YIELD;
}

static void x_trap(W *w, I *i)
{
    emu_report(w, i, "trap", true, w->exec, "s_trap");
}

/* MODE is the only hardware register that kernels change; of the others reads give what a test can't depend on. */
static void x_getreg(W *w, I *i)
{
    uint32_t k = (uint32_t)i->k[1], id = k & 63, offset = k >> 6 & 31, width = (k >> 11 & 31) + 1;
    uint32_t v = id == 1 ? w->mode : 0;
    emu_put_s32(w, i, 0, (uint32_t)field(v, offset, width, false));
}

void emu_set_mode(W *w, uint32_t mode)
{
    w->mode = mode;
    w->flush32 = (mode >> 4 & 3) != 3;
    w->flush16 = (mode >> 6 & 3) != 3;
}

static void set_reg(W *w, I *i, uint32_t value)
{
    uint32_t k = (uint32_t)i->k[0], id = k & 63, offset = k >> 6 & 31, width = (k >> 11 & 31) + 1;
    uint32_t mask = (uint32_t)((UINT64_C(1) << width) - 1) << offset;
    if (id != 1)
        return;
    emu_set_mode(w, (w->mode & ~mask) | (value << offset & mask));
    if (w->mode & 15)
        emu_report(w, i, "rounding", true, w->exec, "rounding mode %u is not emulated: only to nearest even",
                   w->mode & 15);
}

static void x_setreg(W *w, I *i)
{
    set_reg(w, i, emu_s32(w, i, 1));
}

static void x_memtime(W *w, I *i)
{
    emu_put_s64(w, i, 0, w->executed);
}

/* ---- loads
 * ----------------------------------------------------------------------------------------------------------- */

static void x_s_load(W *w, I *i)
{
    int words = i->op->info;
    uint64_t addr = emu_s64(w, i, 1) + emu_s32(w, i, 2) + (uint64_t)(int64_t)i->m.offset;
    addr &= ~UINT64_C(3);
    if (!emu_global(w, i, EMU_IS_LOAD, &addr, 1, (unsigned)words * 4))
        return;
    uint32_t v[16];
    memcpy(v, (void *)(uintptr_t)addr, (size_t)words * 4);
    for (int k = 0; k < words; k++)
        if (i->reg[0] + k < EMU_NULL)
            w->s[i->reg[0] + k] = v[k];
}

/* Out of bounds reads give 0; stride 0 only, as compilers emit it. */
static void x_s_buffer_load(W *w, I *i)
{
    int words = i->op->info;
    const uint32_t *d = &w->s[i->reg[1]];
    uint64_t base = (d[0] | (uint64_t)(d[1] & 0xffff) << 32), offset = emu_s32(w, i, 2) + (uint32_t)i->m.offset;
    for (int k = 0; k < words; k++, offset += 4) {
        uint64_t addr = base + (offset & ~UINT64_C(3));
        uint32_t v = 0;
        if (offset + 4 <= d[2]) {
            if (!emu_global(w, i, EMU_IS_LOAD, &addr, 1, 4))
                return;
            memcpy(&v, (void *)(uintptr_t)addr, 4);
        }
        if (i->reg[0] + k < EMU_NULL)
            w->s[i->reg[0] + k] = v;
    }
}

/* ---- the table
 * -------------------------------------------------------------------------------------------------------- */

const struct emu_op emu_salu_ops[] = {
#define S2(name, e, c) { #name, x_##name, "d1 s1 s1", EMU_SALU, 'u', 0 },
#define S1(name, e, c) { #name, x_##name, "d1 s1", EMU_SALU, 'u', 0 },
#define D2(name, e, c) { #name, x_##name, "d2 s2 s2", EMU_SALU, 'q', 0 },
#define H2(name, e, c) { #name, x_##name, "d2 s2 s1", EMU_SALU, 'q', 0 },
#define D1(name, e, c) { #name, x_##name, "d2 s2", EMU_SALU, 'q', 0 },
#define X1(name, e, c) { #name, x_##name, "d1 s2", EMU_SALU, 'q', 0 },
#define K1(name, e, c) { #name, x_##name, "b1 i1", EMU_SALU, 'u', 0 },
#define K0(name, e, c) { #name, x_##name, "d1 i1", EMU_SALU, 'u', 0 },
#define C2(name, e)    { #name, x_##name, "s1 s1", EMU_SALU, 'u', 0 },
#define Q2(name, e)    { #name, x_##name, "s2 s2", EMU_SALU, 'q', 0 },
#define B2(name, e)    { #name, x_##name, "s2 s1", EMU_SALU, 'q', 0 },
#define P2(name, e)    { #name, x_##name, "s1 i1", EMU_SALU, 'u', 0 },
#define E1(name, e)                                                                                                    \
    { #name "_b64", x_##name, "d2 s2", EMU_SALU, 'q', 0 }, { #name "_b32", x_##name, "d1 s1", EMU_SALU, 'u', 0 },
    SALU_OPS{ "s_cmov_b32", x_cmov_b32, "b1 s1", EMU_SALU, 'u', 0 },
    { "s_cmov_b64", x_cmov_b64, "b2 s2", EMU_SALU, 'q', 0 },
    { "s_bfm_b64", x_bfm_b64, "d2 s1 s1", EMU_SALU, 'u', 0 },
    { "s_bitset0_b32", x_bitset_b32, "b1 s1", EMU_SALU, 'u', 0 },
    { "s_bitset1_b32", x_bitset_b32, "b1 s1", EMU_SALU, 'u', 1 },
    { "s_bitset0_b64", x_bitset_b64, "b2 s1", EMU_SALU, 'u', 0 },
    { "s_bitset1_b64", x_bitset_b64, "b2 s1", EMU_SALU, 'u', 1 },
    { "s_getpc_b64", x_getpc, "d2", EMU_SALU, 'q', 0 },
    { "s_setpc_b64", x_setpc, "s2", EMU_BRANCH, 'q', 0 },
    { "s_swappc_b64", x_swappc, "d2 s2", EMU_BRANCH, 'q', 0 },
    { "s_call_b64", x_call, "d2 i1", EMU_BRANCH, 'u', 0 },
    { "s_branch", x_branch, "i1", EMU_BRANCH, 'u', 0 },
    { "s_cbranch_scc0", x_cbranch_scc0, "i1", EMU_BRANCH, 'u', 0 },
    { "s_cbranch_scc1", x_cbranch_scc1, "i1", EMU_BRANCH, 'u', 0 },
    { "s_cbranch_vccz", x_cbranch_vccz, "i1", EMU_BRANCH, 'u', 0 },
    { "s_cbranch_vccnz", x_cbranch_vccnz, "i1", EMU_BRANCH, 'u', 0 },
    { "s_cbranch_execz", x_cbranch_execz, "i1", EMU_BRANCH, 'u', 0 },
    { "s_cbranch_execnz", x_cbranch_execnz, "i1", EMU_BRANCH, 'u', 0 },
    { "s_endpgm", x_endpgm, "", EMU_BRANCH, 'u', 0 },
    { "s_barrier", x_barrier, "", EMU_SYNC, 'u', 0 },
    { "s_sleep", x_sleep, "", EMU_SYNC, 'u', 0 },
    { "s_trap", x_trap, "", EMU_SYNC, 'u', 0 },
    { "s_waitcnt", x_hint, "", EMU_SYNC, 'u', 0 },
    { "s_waitcnt_vscnt", x_hint, "", EMU_SYNC, 'u', 0 },
    { "s_waitcnt_depctr", x_hint, "", EMU_SYNC, 'u', 0 },
    { "s_nop", x_hint, "", EMU_SYNC, 'u', 0 },
    { "s_delay_alu", x_hint, "", EMU_SYNC, 'u', 0 },
    { "s_clause", x_hint, "", EMU_SYNC, 'u', 0 },
    { "s_set_inst_prefetch_distance", x_hint, "", EMU_SYNC, 'u', 0 },
    { "s_setprio", x_hint, "", EMU_SYNC, 'u', 0 },
    { "s_sethalt", x_hint, "", EMU_SYNC, 'u', 0 },
    { "s_icache_inv", x_hint, "", EMU_SYNC, 'u', 0 },
    { "s_dcache_inv", x_hint, "", EMU_SYNC, 'u', 0 },
    { "s_dcache_wb", x_hint, "", EMU_SYNC, 'u', 0 },
    { "s_sendmsg_rtn_b32", x_hint, "", EMU_SYNC, 'u', 0 }, /* before a trap only */
    { "s_sendmsg", x_hint, "", EMU_SYNC, 'u', 0 },
    { "s_ttracedata", x_hint, "", EMU_SYNC, 'u', 0 },
    { "s_getreg_b32", x_getreg, "d1 i1", EMU_SALU, 'u', 0 },
    { "s_setreg_b32", x_setreg, "i1 s1", EMU_SALU, 'u', 0 },
    { "s_setreg_imm32_b32", x_setreg, "i1 s1", EMU_SALU, 'u', 0 },
    { "s_memtime", x_memtime, "d2", EMU_SMEM, 'u', 0 },
    { "s_memrealtime", x_memtime, "d2", EMU_SMEM, 'u', 0 },
#define LOAD(n, dwords, bits)                                                                                          \
    { "s_load_" dwords, x_s_load, "d" #n " s2 s1", EMU_SMEM, 'u', n },                                                 \
        { "s_load_" bits, x_s_load, "d" #n " s2 s1", EMU_SMEM, 'u', n },                                               \
        { "s_buffer_load_" dwords, x_s_buffer_load, "d" #n " s4 s1", EMU_SMEM, 'u', n },                               \
        { "s_buffer_load_" bits, x_s_buffer_load, "d" #n " s4 s1", EMU_SMEM, 'u', n },
    LOAD(1, "dword", "b32") LOAD(2, "dwordx2", "b64") LOAD(4, "dwordx4", "b128") LOAD(8, "dwordx8", "b256")
        LOAD(16, "dwordx16", "b512"){ NULL, NULL, NULL, 0, 0, 0 },
};

/* ---- running
 * ---------------------------------------------------------------------------------------------------------- */

static void x_sentinel(W *w, I *i)
{
    emu_report(w, i, "jump", true, w->exec, "the program ran beyond its end");
}

void emu_make_sentinel(struct emu_inst *i)
{
    static const struct emu_op op = { "(end)", x_sentinel, "", EMU_BRANCH, 'u', 0 };
    i->op = &op;
    i->fn = x_sentinel;
}

static void count(W *w, I *i)
{
    struct emu_counters *c = &w->launch->counters;
    c->by_class[i->op->cls]++;
    if (i->op->cls == EMU_VALU) {
        c->vector++;
        c->active_lanes += (uint64_t)__builtin_popcountll(w->exec);
    }
}

enum emu_stop emu_run(struct emu_wave *w, int64_t budget)
{
    w->stop = EMU_RUNNING;
    int64_t left = budget;
    if (!w->checks && !w->launch->count)
        while (left > 0 && !w->stop) {
            I *i = w->pc++;
            i->fn(w, i);
            left--;
        }
    else
        while (left > 0 && !w->stop) {
            I *i = w->pc++;
            if (w->checks)
                emu_check_before(w, i);
            if (w->stop)
                break;
            if (w->launch->count)
                count(w, i);
            i->fn(w, i);
            left--;
        }
    w->executed += (uint64_t)(budget - left);
    return (enum emu_stop)w->stop;
}
