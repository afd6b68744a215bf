/* SPDX-License-Identifier: MIT
 *
 * Scalar ALU, branches, messages, hardware registers. */
#include "isa.h"

static inline uint32_t brev(uint32_t x)
{
    x = (x >> 1 & 0x55555555) | (x & 0x55555555) << 1;
    x = (x >> 2 & 0x33333333) | (x & 0x33333333) << 2;
    x = (x >> 4 & 0x0f0f0f0f) | (x & 0x0f0f0f0f) << 4;
    return __builtin_bswap32(x);
}
/* b: offset in bits 5:0 (4:0), width in 22:16. */
static uint64_t bfe(uint64_t a, uint64_t b, unsigned bits, bool is_signed)
{
    unsigned at = b & (bits - 1), n = b >> 16 & 0x7f;
    if (n == 0)
        return 0;
    if (n > bits - at)
        n = bits - at;
    uint64_t x = a >> at & (n >= 64 ? ~0ull : (1ull << n) - 1);
    return is_signed ? (uint64_t)((int64_t)(x << (64 - n)) >> (64 - n)) : x;
}
static uint64_t quadmask(uint64_t a)
{
    uint64_t r = 0;
    for (int q = 0; q < 16; q++)
        r |= (uint64_t)((a >> 4 * q & 15) != 0) << q;
    return r;
}
static uint64_t wqm(uint64_t a)
{
    uint64_t r = 0;
    for (int q = 0; q < 16; q++)
        r |= a >> 4 * q & 15 ? 15ull << 4 * q : 0;
    return r;
}
static uint64_t replicate(uint32_t a)
{
    uint64_t r = 0;
    for (int k = 0; k < 32; k++)
        r |= (uint64_t)(a >> k & 1) * 3 << 2 * k;
    return r;
}

#define N scc = r != 0
#define SBODY(n, RT, fetch, e, write)                                                                                  \
    H(n)                                                                                                               \
    {                                                                                                                  \
        bool scc __attribute__((unused)) = w->scc;                                                                     \
        RT r;                                                                                                          \
        fetch;                                                                                                         \
        e;                                                                                                             \
        write(w, i, 0, r);                                                                                             \
        w->scc = scc;                                                                                                  \
    }
#define OLD32         r = rs(w, i, 0)
#define OLD64         r = rs2(w, i, 0)
#define Q1(n, i_, e)  SBODY(n, uint32_t, OLD32; uint32_t a = rs(w, i, 1), e, ws)
#define Q2(n, i_, e)  SBODY(n, uint32_t, OLD32; uint32_t a = rs(w, i, 1); uint32_t b = rs(w, i, 2), e, ws)
#define K1(n, i_, e)  SBODY(n, uint32_t, OLD32; uint32_t a = (uint32_t)i->k[1], e, ws)
#define KM(n, i_, e)  K1(n, i_, e)
#define L1(n, i_, e)  SBODY(n, uint64_t, OLD64; uint64_t a = rs2(w, i, 1), e, ws2)
#define L2(n, i_, e)  SBODY(n, uint64_t, OLD64; uint64_t a = rs2(w, i, 1); uint64_t b = rs2(w, i, 2), e, ws2)
#define LQ1(n, i_, e) SBODY(n, uint32_t, OLD32; uint64_t a = rs2(w, i, 1), e, ws)
#define LS(n, i_, e)  SBODY(n, uint64_t, OLD64; uint64_t a = rs2(w, i, 1); uint32_t b = rs(w, i, 2), e, ws2)
#define LM(n, i_, e)  SBODY(n, uint64_t, OLD64; uint32_t a = rs(w, i, 1); uint32_t b = rs(w, i, 2), e, ws2)
#define QL1(n, i_, e) SBODY(n, uint64_t, OLD64; uint32_t a = rs(w, i, 1), e, ws2)
#define C2(n, e)                                                                                                       \
    H(n)                                                                                                               \
    {                                                                                                                  \
        uint32_t a = rs(w, i, 0), b = rs(w, i, 1);                                                                     \
        w->scc = e;                                                                                                    \
    }
#define CK(n, e)                                                                                                       \
    H(n)                                                                                                               \
    {                                                                                                                  \
        uint32_t a = rs(w, i, 0), b = (uint32_t)i->k[1];                                                               \
        w->scc = e;                                                                                                    \
    }
#define CL(n, e, s)                                                                                                    \
    H(n)                                                                                                               \
    {                                                                                                                  \
        uint64_t a = rs2(w, i, 0), b = i->words[1] == 2 ? rs2(w, i, 1) : rs(w, i, 1);                                  \
        w->scc = (e) != 0;                                                                                             \
    }
#define SE(n, x)                                                                                                       \
    H(s_##n##_saveexec_b64)                                                                                            \
    {                                                                                                                  \
        uint64_t s = rs2(w, i, 1), e = w->exec;                                                                        \
        w->exec = x;                                                                                                   \
        ws2(w, i, 0, e);                                                                                               \
        w->scc = w->exec != 0;                                                                                         \
    }                                                                                                                  \
    H(s_##n##_saveexec_b32)                                                                                            \
    {                                                                                                                  \
        uint32_t s = rs(w, i, 1), e = (uint32_t)w->exec;                                                               \
        w->exec = (w->exec & ~0xffffffffull) | (uint32_t)(x);                                                          \
        ws(w, i, 0, e);                                                                                                \
        w->scc = (uint32_t)w->exec != 0;                                                                               \
    }
#define A(n, f, s)
#include "ops_salu.def"
#undef Q1
#undef Q2
#undef K1
#undef KM
#undef L1
#undef L2
#undef LQ1
#undef LS
#undef LM
#undef QL1
#undef C2
#undef CK
#undef CL
#undef SE
#undef A

/* EXEC and the destination both become the result. */
H(s_andn1_wrexec_b64)
{
    w->exec = ~rs2(w, i, 1) & w->exec;
    ws2(w, i, 0, w->exec);
    w->scc = w->exec != 0;
}
H(s_andn2_wrexec_b64)
{
    w->exec = rs2(w, i, 1) & ~w->exec;
    ws2(w, i, 0, w->exec);
    w->scc = w->exec != 0;
}
H(s_and_not0_wrexec_b32)
{
    w->exec = (uint32_t)(~rs(w, i, 1) & w->exec);
    ws(w, i, 0, (uint32_t)w->exec);
    w->scc = w->exec != 0;
}
H(s_and_not1_wrexec_b32)
{
    w->exec = (uint32_t)(rs(w, i, 1) & ~w->exec);
    ws(w, i, 0, (uint32_t)w->exec);
    w->scc = w->exec != 0;
}

/* ---- branches ---------------------------------------------------------------------------------------------------- */

static void fault(struct emu_wave *w, const struct emu_inst *i, const char *what, uint64_t value)
{
    emu_report(w, i, "illegal-branch", w->exec, "%s 0x%llx is not an instruction of this code object", what,
               (unsigned long long)value);
    w->stop = EMU_FAULT;
}
static inline void jump(struct emu_wave *w, const struct emu_inst *i)
{
    if (likely(i->target >= 0))
        w->pc = w->prog->inst + i->target;
    else
        fault(w, i, "the target of", i->address);
}
static void jump_to(struct emu_wave *w, const struct emu_inst *i, uint64_t address)
{
    uint64_t at = address - w->prog->base;
    int32_t k = at < w->prog->size && at % 4 == 0 ? w->prog->at[at / 4] : -1;
    if (k < 0)
        fault(w, i, "address", address);
    else
        w->pc = w->prog->inst + k;
}
static inline uint64_t next_address(const struct emu_wave *w, const struct emu_inst *i)
{
    return w->prog->base + i->address + i->size;
}
H(s_branch)
{
    jump(w, i);
}
#define BRANCH(n, c)                                                                                                   \
    H(n)                                                                                                               \
    {                                                                                                                  \
        if (c)                                                                                                         \
            jump(w, i);                                                                                                \
    }
BRANCH(s_cbranch_scc0, !w->scc)
BRANCH(s_cbranch_scc1, w->scc)
BRANCH(s_cbranch_vccz, read_vcc(w) == 0)
BRANCH(s_cbranch_vccnz, read_vcc(w) != 0)
BRANCH(s_cbranch_execz, w->exec == 0)
BRANCH(s_cbranch_execnz, w->exec != 0)
H(s_getpc_b64)
{
    ws2(w, i, 0, next_address(w, i));
}
H(s_setpc_b64)
{
    jump_to(w, i, rs2(w, i, 0));
}
H(s_swappc_b64)
{
    uint64_t to = rs2(w, i, 1);
    ws2(w, i, 0, next_address(w, i));
    jump_to(w, i, to);
}
H(s_call_b64)
{
    ws2(w, i, 0, next_address(w, i));
    jump(w, i);
}

/* ---- waiting and messages ---------------------------------------------------------------------------------------- */

H(s_nothing)
{
    (void)w, (void)i;
}
H(s_endpgm)
{
    (void)i;
    w->stop = EMU_END;
}
H(s_barrier)
{
    (void)i;
    w->stop = EMU_BARRIER;
}
/* The workgroup's barrier in two steps. Waves are counted where they wait: what one does between its signal and its
 * wait is taken to be before the barrier. */
H(s_barrier_signal)
{
    (void)i;
    w->signalled = true;
}
H(s_barrier_wait)
{
    if (!w->signalled) {
        emu_report(w, i, "deadlock", 0, "waits at a barrier without s_barrier_signal: nobody completes it");
        w->stop = EMU_FAULT;
        return;
    }
    w->signalled = false;
    w->stop = EMU_BARRIER;
}
/* ROCm's grid.sync(): one wave of each workgroup comes here, with their number less one in a register. (ROCm's runtime
 * sets the resource up before a cooperative launch.) */
H(ds_gws_barrier)
{
    if (!w->exec)
        return;
    w->grid_waves = w->v[i->reg[0] - EMU_VGPR][__builtin_ctzll(w->exec)] + 1;
    w->stop = EMU_GRID;
}
H(s_sleep)
{
    (void)i;
    w->stop = EMU_YIELD;
}
H(s_trap)
{
    emu_report(w, i, "trap", w->exec, "s_trap %llu", (unsigned long long)i->k[0]);
    w->stop = EMU_FAULT;
}

/* ---- hardware registers ------------------------------------------------------------------------------------------ */

enum {
    REG_MODE = 1,
    REG_STATUS = 2,
    REG_TRAPSTS = 3,
    REG_HW_ID = 4,
    REG_SH_MEM_BASES = 15,
    REG_XCC_ID = 20,
    REG_HW_ID1 = 23,
    REG_HW_ID2 = 24,
    REG_SHADER_CYCLES = 29
};

static void getreg(struct emu_wave *w, const struct emu_inst *i, int k)
{
    unsigned id = i->k[k] & 63, at = i->k[k] >> 6 & 31, n = (i->k[k] >> 11 & 31) + 1;
    uint32_t v = 0;
    switch (id) {
    case REG_MODE:
        v = w->mode;
        break;
    case REG_STATUS:
        v = (uint32_t)w->scc | (w->exec == 0) << 9 | (read_vcc(w) == 0) << 10;
        break;
    case REG_TRAPSTS:
    case REG_HW_ID2:
        break;
    case REG_HW_ID:
    case REG_HW_ID1:
        v = (uint32_t)w->index & 15;
        break;
    case REG_SH_MEM_BASES:
        v = (uint32_t)(EMU_SHARED_BASE >> 48 << 16 | EMU_PRIVATE_BASE >> 48);
        break;
    case REG_XCC_ID:
        v = (uint32_t)w->wg->xcd;
        break;
    case REG_SHADER_CYCLES:
        v = (uint32_t)w->executed & 0xfffff;
        break;
    default:
        emu_report(w, i, "not-implemented", w->exec, "s_getreg of hardware register %u", id);
        w->stop = EMU_FAULT;
        return;
    }
    ws(w, i, 0, n == 32 ? v >> at : v >> at & ((1u << n) - 1));
}
H(s_getreg_b32)
{
    getreg(w, i, 1);
}
static void set_mode(struct emu_wave *w, const struct emu_inst *i, uint32_t mode)
{
    if (mode & 15) {
        emu_report(w, i, "not-implemented", w->exec, "rounding mode 0x%x: only to nearest even (0) is", mode & 15);
        w->stop = EMU_FAULT;
        return;
    }
    w->mode = mode;
}
static void setreg(struct emu_wave *w, const struct emu_inst *i, uint64_t reg, uint32_t v)
{
    unsigned id = reg & 63, at = reg >> 6 & 31, n = (reg >> 11 & 31) + 1;
    uint32_t field = (n == 32 ? ~0u : (1u << n) - 1) << at;
    if (id == REG_MODE) {
        set_mode(w, i, (w->mode & ~field) | (v << at & field));
    } else if (id != REG_TRAPSTS && !(w->prog->arch->gfx >> 8 == 0x10 && (id == 20 || id == 21))) {
        emu_report(w, i, "not-implemented", w->exec, "s_setreg of hardware register %u", id);
        w->stop = EMU_FAULT;
    }
}
H(s_setreg_b32)
{
    setreg(w, i, i->k[0], rs(w, i, 1));
}
H(s_setreg_imm32_b32)
{
    setreg(w, i, i->k[0], (uint32_t)i->k[1]);
}
H(s_round_mode)
{
    set_mode(w, i, (w->mode & ~15u) | ((uint32_t)i->k[0] & 15));
}
H(s_denorm_mode)
{
    set_mode(w, i, (w->mode & ~0xf0u) | ((uint32_t)i->k[0] & 15) << 4);
}
H(s_memtime)
{
    ws2(w, i, 0, w->executed);
}

/* s_sendmsg with an answer: the clock, as s_memrealtime has it; doorbells, trap handlers' addresses: 0. */
#define MSG_RTN_GET_REALTIME 0x83
H(s_sendmsg_rtn_b32)
{
    ws(w, i, 0, 0);
}
H(s_sendmsg_rtn_b64)
{
    ws2(w, i, 0, i->k[1] == MSG_RTN_GET_REALTIME ? w->executed : 0);
}

/* ---- modes of the front end: isa.c's loop does the rest ---------------------------------------------------------- */

H(s_setvskip)
{
    uint32_t a = rs(w, i, 0), b = rs(w, i, 1);
    w->vskip = a >> (b & 31) & 1;
    w->stop = EMU_STOP_SWITCH;
}
H(s_set_gpr_idx_on)
{
    uint32_t a = rs(w, i, 0);
    w->s[EMU_M0] = (w->s[EMU_M0] & 0xffff0f00) | (a & 255) | (uint32_t)(i->k[1] >> 8 & 15) << 12;
    w->gpr_index = (uint8_t)(i->k[1] >> 8 & 15);
    w->stop = EMU_STOP_SWITCH;
}
H(s_set_gpr_idx_idx)
{
    w->s[EMU_M0] = (w->s[EMU_M0] & 0xffffff00) | (rs(w, i, 0) & 255);
}
H(s_set_gpr_idx_mode)
{
    w->gpr_index = (uint8_t)(i->k[0] & 15);
    w->stop = EMU_STOP_SWITCH;
}
H(s_set_gpr_idx_off)
{
    (void)i;
    w->gpr_index = 0;
    w->stop = EMU_STOP_SWITCH;
}
static unsigned movrel(const struct emu_wave *w, const struct emu_inst *i, int k)
{
    unsigned r = i->reg[k] + w->s[EMU_M0];
    return r < EMU_VCC + 2 ? r : EMU_NULL;
}
H(s_movrels_b32)
{
    unsigned r = movrel(w, i, 1);
    ws(w, i, 0, r == EMU_NULL ? 0 : w->s[r]);
}
H(s_movrels_b64)
{
    unsigned r = movrel(w, i, 1);
    ws2(w, i, 0, r == EMU_NULL ? 0 : w->s[r] | (uint64_t)w->s[r + 1] << 32);
}
H(s_movreld_b64)
{
    unsigned r = movrel(w, i, 0);
    uint64_t v = rs2(w, i, 1);
    ws_reg(w, r, (uint32_t)v);
    if (r != EMU_NULL)
        ws_reg(w, r + 1, (uint32_t)(v >> 32));
}
H(s_movreld_b32)
{
    ws_reg(w, movrel(w, i, 0), rs(w, i, 1));
}

/* clang-format off */
static const struct emu_op rows[] = {
#define ROW(n, s, c) { #n, h_##n, s, c, 0 },
#define NOP(n, s, c) { #n, h_s_nothing, s, c, 0 },
#define Q1(n, i_, e)     { #n, h_##n, "d1 s1" i_, EMU_SALU, 0 },
#define Q2(n, i_, e)     { #n, h_##n, "d1 s1 s1" i_, EMU_SALU, 0 },
#define K1(n, i_, e)     { #n, h_##n, "b1 i" i_, EMU_SALU, 0 },
#define KM(n, i_, e)     { #n, h_##n, "d1 i" i_, EMU_SALU, 0 },
#define L1(n, i_, e)     { #n, h_##n, "d2 s2" i_, EMU_SALU, 0 },
#define L2(n, i_, e)     { #n, h_##n, "d2 s2 s2" i_, EMU_SALU, 0 },
#define LQ1(n, i_, e)    { #n, h_##n, "d1 s2" i_, EMU_SALU, 0 },
#define LS(n, i_, e)     { #n, h_##n, "d2 s2 s1" i_, EMU_SALU, 0 },
#define LM(n, i_, e)     { #n, h_##n, "d2 s1 s1" i_, EMU_SALU, 0 },
#define QL1(n, i_, e)    { #n, h_##n, "d2 s1" i_, EMU_SALU, 0 },
#define C2(n, e)     { #n, h_##n, "s1 s1|s", EMU_SALU, 0 },
#define CK(n, e)     { #n, h_##n, "s1 i|s", EMU_SALU, 0 },
#define CL(n, e, s)  { #n, h_##n, s "|s", EMU_SALU, 0 },
#define SE(n, x)                                                                                                       \
    { "s_" #n "_saveexec_b64", h_s_##n##_saveexec_b64, "d2 s2|Ees", EMU_SALU, 0 },                                     \
    { "s_" #n "_saveexec_b32", h_s_##n##_saveexec_b32, "d1 s1|Ees", EMU_SALU, 0 },
#define A(n, f, s) { #n, h_##f, s, EMU_SALU, 0 },
#include "ops_salu.def"
    ROW(s_andn1_wrexec_b64, "d2 s2|Ees", EMU_SALU)
    ROW(s_andn2_wrexec_b64, "d2 s2|Ees", EMU_SALU)
    A(s_and_not0_wrexec_b64, s_andn1_wrexec_b64, "d2 s2|Ees")
    A(s_and_not1_wrexec_b64, s_andn2_wrexec_b64, "d2 s2|Ees")
    ROW(s_and_not0_wrexec_b32, "d1 s1|Ees", EMU_SALU)
    ROW(s_and_not1_wrexec_b32, "d1 s1|Ees", EMU_SALU)
    ROW(s_branch, "i", EMU_BRANCH)
    ROW(s_cbranch_scc0, "i|S", EMU_BRANCH)
    ROW(s_cbranch_scc1, "i|S", EMU_BRANCH)
    ROW(s_cbranch_vccz, "i|V", EMU_BRANCH)
    ROW(s_cbranch_vccnz, "i|V", EMU_BRANCH)
    ROW(s_cbranch_execz, "i|E", EMU_BRANCH)
    ROW(s_cbranch_execnz, "i|E", EMU_BRANCH)
    ROW(s_getpc_b64, "d2", EMU_SALU)
    ROW(s_setpc_b64, "s2", EMU_BRANCH)
    ROW(s_swappc_b64, "d2 s2", EMU_BRANCH)
    ROW(s_call_b64, "d2 i", EMU_BRANCH)
    NOP(s_nop, "*", EMU_WAIT)
    NOP(s_waitcnt, "*", EMU_WAIT)
    NOP(s_waitcnt_depctr, "*", EMU_WAIT)
    NOP(s_waitcnt_vscnt, "*", EMU_WAIT)
    NOP(s_waitcnt_vmcnt, "*", EMU_WAIT)
    NOP(s_waitcnt_expcnt, "*", EMU_WAIT)
    NOP(s_waitcnt_lgkmcnt, "*", EMU_WAIT)
    NOP(s_wait_idle, "*", EMU_WAIT)
    NOP(s_wait_loadcnt, "*", EMU_WAIT)
    NOP(s_wait_storecnt, "*", EMU_WAIT)
    NOP(s_wait_dscnt, "*", EMU_WAIT)
    NOP(s_wait_kmcnt, "*", EMU_WAIT)
    NOP(s_wait_loadcnt_dscnt, "*", EMU_WAIT)
    NOP(s_wait_storecnt_dscnt, "*", EMU_WAIT)
    NOP(s_wait_samplecnt, "*", EMU_WAIT)
    NOP(s_wait_bvhcnt, "*", EMU_WAIT)
    NOP(s_wait_expcnt, "*", EMU_WAIT)
    NOP(s_wait_alu, "*", EMU_WAIT)
    NOP(s_wait_event, "*", EMU_WAIT)
    NOP(s_singleuse_vdst, "*", EMU_WAIT)
    NOP(s_prefetch_inst, "*", EMU_MESSAGE)
    NOP(s_prefetch_inst_pc_rel, "*", EMU_MESSAGE)
    NOP(s_prefetch_data, "*", EMU_MESSAGE)
    NOP(s_prefetch_data_pc_rel, "*", EMU_MESSAGE)
    ROW(s_barrier_signal, "s1", EMU_MESSAGE)
    ROW(s_barrier_wait, "i", EMU_WAIT)
    { "s_sleep_var", h_s_sleep, "s1", EMU_WAIT, 0 },
    NOP(s_delay_alu, "*", EMU_WAIT)
    NOP(s_clause, "*", EMU_MESSAGE)
    NOP(s_setprio, "*", EMU_MESSAGE)
    NOP(s_sethalt, "*", EMU_MESSAGE)
    NOP(s_setkill, "*", EMU_MESSAGE)
    NOP(s_sendmsg, "*", EMU_MESSAGE)
    NOP(s_icache_inv, "*", EMU_CACHE)
    NOP(s_inst_prefetch, "*", EMU_MESSAGE)
    NOP(s_set_inst_prefetch_distance, "*", EMU_MESSAGE)
    NOP(s_incperflevel, "*", EMU_MESSAGE)
    NOP(s_decperflevel, "*", EMU_MESSAGE)
    NOP(s_ttracedata, "*", EMU_MESSAGE)
    NOP(s_ttracedata_imm, "*", EMU_MESSAGE)
    NOP(s_code_end, "*", EMU_MESSAGE)
    NOP(s_version, "*", EMU_MESSAGE)
    NOP(s_dcache_inv, "*", EMU_CACHE)
    NOP(s_dcache_inv_vol, "*", EMU_CACHE)
    NOP(s_dcache_wb, "*", EMU_CACHE)
    NOP(s_dcache_wb_vol, "*", EMU_CACHE)
    NOP(s_gl1_inv, "*", EMU_CACHE)
    ROW(s_endpgm, "*", EMU_BRANCH)
    ROW(s_barrier, "*", EMU_WAIT)
    ROW(ds_gws_barrier, "s1|M", EMU_WAIT)
    ROW(s_sleep, "i", EMU_WAIT)
    ROW(s_sendmsg_rtn_b32, "d1 i", EMU_SMEM)
    ROW(s_sendmsg_rtn_b64, "d2 i", EMU_SMEM)
    ROW(s_trap, "i", EMU_MESSAGE)
    ROW(s_getreg_b32, "d1 i", EMU_SALU)
    ROW(s_setreg_b32, "i s1", EMU_SALU)
    ROW(s_setreg_imm32_b32, "i i", EMU_SALU)
    ROW(s_round_mode, "i", EMU_SALU)
    ROW(s_denorm_mode, "i", EMU_SALU)
    ROW(s_memtime, "d2", EMU_SMEM)
    { "s_memrealtime", h_s_memtime, "d2", EMU_SMEM, 0 },
    ROW(s_setvskip, "s1 s1", EMU_SALU)
    ROW(s_set_gpr_idx_on, "s1 i|m", EMU_SALU)
    ROW(s_set_gpr_idx_idx, "s1|m", EMU_SALU)
    ROW(s_set_gpr_idx_mode, "i", EMU_SALU)
    ROW(s_set_gpr_idx_off, "*", EMU_SALU)
    ROW(s_movrels_b32, "d1 s1|M", EMU_SALU)
    ROW(s_movreld_b32, "d1 s1|M", EMU_SALU)
    ROW(s_movrels_b64, "d2 s2|M", EMU_SALU)
    ROW(s_movreld_b64, "d2 s2|M", EMU_SALU)
};
/* clang-format on */
const struct emu_ops EMU_N(ops_salu) = { rows, COUNT(rows) };
