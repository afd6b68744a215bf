/* SPDX-License-Identifier: MIT
 *
 * SALU instructions against plain C (emu_isa_scalar.def), and programs of branches, calls and modes. */
#include "emu_isa.h"

static uint64_t reversed(uint64_t a, int bits)
{
    uint64_t r = 0;
    for (int k = 0; k < bits; k++)
        r |= (a >> k & 1) << (bits - 1 - k);
    return r;
}
static uint32_t population(uint64_t a)
{
    uint32_t n = 0;
    for (int k = 0; k < 64; k++)
        n += a >> k & 1;
    return n;
}
static uint32_t first_one(uint64_t a)
{
    for (uint32_t k = 0; k < 64; k++)
        if (a >> k & 1)
            return k;
    return 0xffffffff;
}
static uint32_t last_one(uint64_t a)
{
    uint32_t n = 63;
    while (!(a >> n & 1))
        n--;
    return n;
}
static bool outside(int64_t x)
{
    return x > 2147483647 || x < -2147483648ll;
}
static uint64_t bits_at(uint64_t a, unsigned at, unsigned n, unsigned width, bool is_signed)
{
    uint64_t r = 0;
    if (n > width - at)
        n = width - at;
    for (unsigned k = 0; k < 64; k++) {
        bool bit = k < n ? a >> (at + k) & 1 : is_signed && n && (a >> (at + n - 1) & 1);
        r |= (uint64_t)bit << k;
    }
    return r;
}
static uint64_t doubled(uint32_t a)
{
    uint64_t r = 0;
    for (int k = 0; k < 64; k++)
        r |= (uint64_t)(a >> k / 2 & 1) << k;
    return r;
}

/* Leading bits that are like the sign, -1: all. */
static uint32_t sign_run(uint64_t a, uint32_t width)
{
    uint32_t n = 1;
    while (n < width && (a >> (width - 1 - n) & 1) == (a >> (width - 1) & 1))
        n++;
    return n == width ? 0xffffffff : n;
}
/* Fours of bits: all set if any was, or one bit each. */
static uint64_t quads(uint64_t a, bool whole)
{
    uint64_t r = 0;
    for (int q = 0; q < 16; q++)
        if (a >> 4 * q & 15)
            r |= whole ? 15ull << 4 * q : 1ull << q;
    return r;
}

struct scalar {
    uint32_t a, b, d;
    uint64_t A, B, D, E, V, eo;
    bool scc, so;
    uint32_t got; /* the result, for what may differ from the expected one */
};
/* Any NaN is any other; near: one unit in the last place, and results below the normal range may be 0. */
static uint32_t as_good(uint32_t got, float want)
{
    return (isnan(want) && isnan(f32(got))) || got == u32(want) ? got : u32(want);
}
static uint32_t as_good16(uint32_t got, float want)
{
    bool nan = (got & 0x7fff) > 0x7c00 && got < 0x10000;
    return isnan(want) && nan ? got : u16((_Float16)want);
}
static uint32_t as_near(uint32_t got, double want)
{
    float g = f32(got), w = (float)want;
    bool tiny = fabs(want) < 1.17549435e-38 && g == 0;
    return tiny || fabs((double)g - want) <= ldexp(fabs(want), -23) ? got : as_good(got, w);
}
static uint32_t as_near16(uint32_t got, double want)
{
    double g = (double)(float)f16(got);
    return got < 0x10000 && fabs(g - want) <= fmax(ldexp(fabs(want), -10), 0x1p-24) ? got : as_good16(got, (float)want);
}
static double flushed(float x)
{
    return fabsf(x) < 1.17549435e-38f ? copysign(0, (double)x) : (double)x;
}
static bool signals(float x)
{
    return isnan(x) && !(u32(x) >> 22 & 1);
}
/* f16 to f32 that a signalling NaN remains. */
static float half_as_float(uint32_t h)
{
    return (h & 0x7fff) > 0x7c00 ? f32((h & 0x8000) << 16 | 0x7f800000 | (h & 0x3ff) << 13) : (float)f16(h);
}
static float chosen(float x, float y, bool max, bool ieee, bool nan_wins)
{
    if ((ieee && (signals(x) || signals(y))) || (nan_wins && (isnan(x) || isnan(y))))
        return NAN;
    if (isnan(x) || isnan(y))
        return isnan(x) ? y : x;
    if (x == y)
        return (signbit(x) != 0) != max ? x : y;
    return (x < y) != max ? x : y;
}
static uint32_t toward_zero(float x)
{
    _Float16 h = (_Float16)x;
    if (isnan(x))
        return 0x7e00 | (u32(x) >> 16 & 0x8000) | (u32(x) >> 13 & 0x3ff);
    return !isinf(x) && fabsf((float)h) > fabsf(x) ? u16(h) - 1 : u16(h);
}
#define same32(f)    as_good(x->got, f)
#define same16(f)    as_good16(x->got, f)
#define near32(f)    as_near(x->got, f)
#define near16(f)    as_near16(x->got, f)
#define PASTE2(p, q) p##q
#define PASTE(p, q)  PASTE2(p, q)
#define NZ(r)        (nz = (uint64_t)(r), so = nz != 0, nz)
#define Y(archs, words, text, expr)                                                                                    \
    static uint64_t PASTE(expect_, __LINE__)(struct scalar * x)                                                        \
    {                                                                                                                  \
        uint32_t a = x->a, b = x->b, d = x->d;                                                                         \
        uint64_t A = x->A, B = x->B, D = x->D, E = x->E, V = x->V, eo = E, nz = 0;                                     \
        bool scc = x->scc, so = scc;                                                                                   \
        float fa = f32(a), fb = f32(b), fd = f32(d), ha = (float)f16(a), hb = (float)f16(b);                           \
        (void)a, (void)b, (void)d, (void)A, (void)B, (void)D, (void)E, (void)V, (void)nz;                              \
        (void)fa, (void)fb, (void)fd, (void)ha, (void)hb;                                                              \
        uint64_t r = (uint64_t)(expr);                                                                                 \
        x->so = so;                                                                                                    \
        x->eo = eo;                                                                                                    \
        return r;                                                                                                      \
    }
#include "emu_isa_scalar.def"
#undef Y
#define Y(archs, words, text, expr) { archs, words, text, PASTE(expect_, __LINE__) },
static const struct {
    int archs, words;
    const char *text;
    uint64_t (*expect)(struct scalar *x);
} cases[] = {
#include "emu_isa_scalar.def"
};
enum { CASES = sizeof(cases) / sizeof(cases[0]) };

static uint64_t pair_at(const struct bare *b, int r)
{
    return b->w.s[r] | (uint64_t)b->w.s[r + 1] << 32;
}

static void check_case(int arch, int k, struct bare *b, const struct emu_inst *at)
{
    uint64_t all = b->w.wave_size == 64 ? ~0ull : 0xffffffff;
    for (int repeat = 0; repeat < 1200; repeat++) {
        rnd_seed((uint64_t)(5000 * k + repeat));
        bare_randomize(b);
        if (repeat % 8 == 0)
            memcpy(&b->w.s[2], &b->w.s[0], 8);
        if (repeat % 16 == 1)
            b->w.s[EMU_VCC] = b->w.s[EMU_VCC + 1] = 0;
        struct scalar x = { .a = b->w.s[0],
                            .b = b->w.s[2],
                            .d = b->w.s[6],
                            .A = pair_at(b, 0),
                            .B = pair_at(b, 2),
                            .D = pair_at(b, 6),
                            .E = b->w.exec,
                            .V = pair_at(b, EMU_VCC) & all,
                            .scc = b->w.scc };
        uint64_t old = pair_at(b, 6);
        ck_assert_int_eq(bare_run(b, at), EMU_END);
        x.got = b->w.s[6];
        uint64_t want = cases[k].expect(&x);
        uint64_t got = pair_at(b, 6), expected = cases[k].words == 2   ? want
                                                 : cases[k].words == 1 ? (want & 0xffffffff) | (old >> 32 << 32)
                                                                       : old;
        if (got != expected || b->w.scc != x.so || b->w.exec != (x.eo & all))
            ck_abort_msg("%s %s: a %016llx b %016llx d %08x scc %d exec %016llx\n  got %016llx scc %d exec %016llx, "
                         "expected %016llx "
                         "scc %d exec %016llx",
                         tested[arch].arch.name, cases[k].text, (unsigned long long)x.A, (unsigned long long)x.B, x.d,
                         x.scc, (unsigned long long)x.E, (unsigned long long)got, b->w.scc,
                         (unsigned long long)b->w.exec, (unsigned long long)expected, x.so, (unsigned long long)x.eo);
    }
}

START_TEST(scalar)
{
    const char *text[CASES];
    bool known[CASES];
    int arch = _i + 1, n = 0;
    struct snippets s;
    for (int k = 0; k < CASES; k++)
        text[k] = runs_on(arch, cases[k].archs, cases[k].text) ? cases[k].text : "";
    snippets_known(arch, text, CASES, known);
    for (int k = 0; k < CASES; k++) {
        ck_assert_msg(known[k] || !(cases[k].archs & 1 << arch), "%s: unknown", text[k]);
        n += *(text[k] = known[k] ? text[k] : "") != 0;
    }
    struct bare *b = snippets_build(&s, arch, text, CASES);
    for (int k = 0; k < CASES; k++)
        if (*text[k])
            check_case(arch, k, b, s.start[k]);
    printf("%s: %d SALU forms\n", tested[arch].arch.name, n);
    snippets_free(&s);
}
END_TEST

/* ---- programs: what a register holds at their end ---------------------------------------------------------------- */

static const struct {
    int arch;
    const char *name, *text;
    int reg;
    uint32_t want;
} programs[] = {
    { 2, "a loop",
      "s_mov_b32 s0, 0\ns_mov_b32 s1, 10\n1: s_add_u32 s0, s0, s1\ns_sub_u32 s1, s1, 1\ns_cmp_lg_u32 s1, "
      "0\ns_cbranch_scc1 1b",
      0, 55 },
    { 2, "execz taken", "s_mov_b64 exec, 0\ns_mov_b32 s0, 1\ns_cbranch_execz 1f\ns_mov_b32 s0, 2\n1: s_nop 0", 0, 1 },
    { 2, "execz not taken", "s_mov_b64 exec, 4\ns_mov_b32 s0, 1\ns_cbranch_execz 1f\ns_mov_b32 s0, 2\n1: s_nop 0", 0,
      2 },
    { 2, "execnz", "s_mov_b64 exec, 4\ns_mov_b32 s0, 1\ns_cbranch_execnz 1f\ns_mov_b32 s0, 2\n1: s_nop 0", 0, 1 },
    { 2, "vccz", "s_mov_b64 vcc, 0\ns_mov_b32 s0, 1\ns_cbranch_vccz 1f\ns_mov_b32 s0, 2\n1: s_nop 0", 0, 1 },
    { 3, "wave32's vccz looks at vcc_lo",
      "s_mov_b32 vcc_lo, 0\ns_mov_b32 vcc_hi, 1\ns_mov_b32 s0, 1\ns_cbranch_vccz 1f\ns_mov_b32 s0, 2\n1: s_nop 0", 0,
      1 },
    { 2, "getpc, swappc, setpc",
      "s_mov_b32 s0, 5\ns_getpc_b64 s[4:5]\n1: s_add_u32 s4, s4, 2f-1b\ns_addc_u32 s5, s5, 0\ns_swappc_b64 s[6:7], "
      "s[4:5]\n"
      "s_add_u32 s0, s0, 1\ns_branch 3f\n2: s_mul_i32 s0, s0, 10\ns_setpc_b64 s[6:7]\n3: s_nop 0",
      0, 51 },
    { 2, "call",
      "s_mov_b32 s0, 5\ns_call_b64 s[6:7], 2f\ns_add_u32 s0, s0, 1\ns_branch 3f\n2: s_mul_i32 s0, s0, 10\ns_setpc_b64 "
      "s[6:7]\n3: s_nop 0",
      0, 51 },
    { 2, "readfirstlane with EXEC 0 reads lane 0",
      "s_mov_b64 exec, -1\nv_mbcnt_lo_u32_b32 v1, -1, 7\ns_mov_b64 exec, 0\nv_readfirstlane_b32 s0, v1", 0, 7 },
    { 2, "readfirstlane",
      "s_mov_b64 exec, -1\nv_mbcnt_lo_u32_b32 v1, -1, 7\ns_mov_b64 exec, 0x20\nv_readfirstlane_b32 s0, v1", 0, 12 },
    { 2, "readlane wraps at 64",
      "s_mov_b64 exec, -1\nv_mbcnt_lo_u32_b32 v1, -1, 0\ns_movk_i32 s2, 64+9\nv_readlane_b32 s0, v1, s2", 0, 9 },
    { 3, "readlane wraps at 32",
      "s_mov_b32 exec_lo, -1\nv_mbcnt_lo_u32_b32 v1, -1, 0\ns_movk_i32 s2, 32+9\nv_readlane_b32 s0, v1, s2", 0, 9 },
    { 2, "writelane with EXEC 0",
      "s_mov_b64 exec, 0\ns_movk_i32 s2, 77\nv_writelane_b32 v1, s2, 3\nv_readlane_b32 s0, v1, 3", 0, 77 },
    { 2, "setvskip",
      "s_mov_b64 exec, -1\nv_mov_b32 v1, 1\ns_mov_b32 s1, 1\ns_setvskip s1, 0\nv_mov_b32 v1, 2\ns_mov_b32 s3, "
      "4\ns_setvskip s1, 1\n"
      "v_add_u32 v1, v1, s3\nv_readlane_b32 s0, v1, 0",
      0, 5 },
    { 2, "set_gpr_idx",
      "s_mov_b64 exec, -1\nv_mov_b32 v13, 13\nv_mov_b32 v10, 10\ns_mov_b32 s1, 3\ns_set_gpr_idx_on s1, gpr_idx(SRC0)\n"
      "v_mov_b32 v1, v10\ns_set_gpr_idx_off\nv_readlane_b32 s0, v1, 0",
      0, 13 },
    { 2, "set_gpr_idx of the destination",
      "s_mov_b64 exec, -1\nv_mov_b32 v13, 13\ns_mov_b32 s1, 3\ns_set_gpr_idx_on s1, gpr_idx(DST)\n"
      "v_mov_b32 v10, 4\ns_set_gpr_idx_off\nv_readlane_b32 s0, v13, 0",
      0, 4 },
    { 2, "vccnz", "s_mov_b64 vcc, 1\ns_mov_b32 s0, 1\ns_cbranch_vccnz 1f\ns_mov_b32 s0, 2\n1: s_nop 0", 0, 1 },
    { 2, "vccnz not taken", "s_mov_b64 vcc, 0\ns_mov_b32 s0, 1\ns_cbranch_vccnz 1f\ns_mov_b32 s0, 2\n1: s_nop 0", 0,
      2 },
    { 2, "set_gpr_idx_idx changes M0's low byte, set_gpr_idx_mode which operands",
      "s_mov_b64 exec, -1\nv_mov_b32 v12, 12\nv_mov_b32 v10, 10\ns_mov_b32 s1, 3\ns_mov_b32 s2, 2\n"
      "s_set_gpr_idx_on s1, gpr_idx(DST)\ns_set_gpr_idx_idx s2\ns_set_gpr_idx_mode gpr_idx(SRC0)\nv_mov_b32 v1, v10\n"
      "s_set_gpr_idx_off\nv_readlane_b32 s0, v1, 0",
      0, 12 },
    { 3, "movrels", "v_mov_b32 v12, 12\ns_mov_b32 m0, 2\nv_movrels_b32 v1, v10\nv_readlane_b32 s0, v1, 0", 0, 12 },
    { 3, "movreld",
      "v_mov_b32 v12, 12\nv_mov_b32 v1, 7\ns_mov_b32 m0, 2\nv_movreld_b32 v10, v1\nv_readlane_b32 s0, v12, 0", 0, 7 },
    { 3, "swap",
      "v_mov_b32 v1, 3\nv_mov_b32 v2, 5\nv_swap_b32 v1, v2\nv_readlane_b32 s0, v1, 0\nv_readlane_b32 s1, v2, "
      "0\ns_mul_i32 "
      "s0, s0, 10\ns_add_u32 s0, s0, s1",
      0, 53 },
    { 2, "swap leaves lanes that are off",
      "v_mov_b32 v1, 3\nv_mov_b32 v2, 5\ns_mov_b64 exec, 2\nv_swap_b32 v1, v2\nv_readlane_b32 s0, v1, "
      "0\nv_readlane_b32 "
      "s1, v1, 1\ns_mul_i32 s0, s0, 10\ns_add_u32 s0, s0, s1",
      0, 35 },
    { 4, "permlane64",
      "v_mbcnt_lo_u32_b32 v1, -1, 0\nv_mbcnt_hi_u32_b32 v1, -1, v1\nv_permlane64_b32 v2, v1\nv_readlane_b32 s0, v2, 5\n"
      "v_readlane_b32 s1, v2, 40\ns_mul_i32 s0, s0, 100\ns_add_u32 s0, s0, s1",
      0, 3708 },
    { 2, "accumulation registers",
      "v_mov_b32 v1, 77\nv_accvgpr_write_b32 a3, v1\nv_accvgpr_mov_b32 a200, a3\nv_accvgpr_read_b32 v2, a200\n"
      "v_readlane_b32 s0, v2, 63",
      0, 77 },
    { 2, "setreg of MODE by a register",
      "s_movk_i32 s1, 0x5\ns_setreg_b32 hwreg(HW_REG_MODE, 4, 4), s1\ns_getreg_b32 s0, "
      "hwreg(HW_REG_MODE, 4, 4)",
      0, 5 },
    { 3, "round_mode keeps the denormals' bits", "s_round_mode 0\ns_getreg_b32 s0, hwreg(HW_REG_MODE, 0, 8)", 0, 0xf0 },
    { 3, "round_mode and denorm_mode: four bits count",
      "s_getreg_b32 s1, hwreg(HW_REG_MODE)\ns_round_mode 0xfff0\ns_denorm_mode 0xffff\n"
      "s_getreg_b32 s0, hwreg(HW_REG_MODE)\ns_xor_b32 s0, s0, s1",
      0, 0 },
    { 2, "time goes on",
      "s_memtime s[2:3]\ns_memrealtime s[4:5]\ns_memtime s[6:7]\ns_waitcnt lgkmcnt(0)\ns_sub_u32 s0, s6, "
      "s2\ns_subb_u32 s1, s7, s3\ns_lshr_b32 s0, s1, 31",
      0, 0 },
    { 2, "what does nothing does nothing",
      "s_mov_b32 s0, 9\ns_setprio 2\ns_incperflevel 1\ns_decperflevel 1\ns_sendmsg "
      "sendmsg(MSG_INTERRUPT)\ns_icache_inv\n"
      "s_dcache_inv\ns_dcache_wb_vol\ns_dcache_inv_vol\ns_ttracedata\ns_setkill 0\ns_sethalt 0\nv_nop\nds_nop\ns_nop 3",
      0, 9 },
    { 3, "what does nothing on gfx11 does nothing",
      "s_mov_b32 s0, 9\ns_clause 1\nv_nop\nv_nop\ns_delay_alu instid0(VALU_DEP_1)\ns_gl1_inv\ns_code_end\n"
      "s_set_inst_prefetch_distance 2\ns_ttracedata_imm 3\ns_version 3\ns_wait_idle\ns_waitcnt_depctr 0xfff\n"
      "s_waitcnt_vmcnt null, 0\ns_waitcnt_expcnt null, 0\ns_waitcnt_lgkmcnt null, 0\ns_setprio 1",
      0, 9 },
    { 2, "getreg of MODE", "s_getreg_b32 s0, hwreg(HW_REG_MODE, 4, 4)", 0, 15 },
    { 2, "shared aperture", "s_mov_b64 s[0:1], src_shared_base", 1, (uint32_t)(EMU_SHARED_BASE >> 32) },
    { 3, "dual: both read before either writes",
      "v_mov_b32 v1, 1\nv_mov_b32 v2, 2\nv_dual_mov_b32 v1, v2 :: v_dual_mov_b32 v2, v1\nv_readlane_b32 s0, v1, "
      "0\nv_readlane_b32 s1, v2, 0\n"
      "s_mul_i32 s0, s0, 10\ns_add_u32 s0, s0, s1",
      0, 21 },
    { 3, "dual: the second reads what the first writes",
      "v_mov_b32 v1, 1\nv_mov_b32 v3, 5\nv_dual_mov_b32 v1, v3 :: v_dual_add_nc_u32 v2, 7, v1\nv_readlane_b32 s0, v2, "
      "0",
      0, 8 },
    { 3, "dual: its cndmask reads vcc",
      "s_mov_b32 vcc_lo, -1\nv_mov_b32 v1, 1\nv_mov_b32 v2, 2\nv_dual_cndmask_b32 v3, v1, v2 :: v_dual_mov_b32 v4, "
      "v2\nv_readlane_b32 s0, v3, 0",
      0, 2 },
    { 3, "permlanex16",
      "v_mbcnt_lo_u32_b32 v1, -1, 0\ns_mov_b32 s2, 0x76543210\ns_mov_b32 s3, 0xfedcba98\nv_permlanex16_b32 v2, v1, s2, "
      "s3\n"
      "v_readlane_b32 s0, v2, 3",
      0, 19 },
    { 3, "permlane16",
      "v_mbcnt_lo_u32_b32 v1, -1, 0\ns_mov_b32 s2, 0x76543291\ns_mov_b32 s3, 0xfedcba98\nv_permlane16_b32 v2, v1, s2, "
      "s3\n"
      "v_readlane_b32 s0, v2, 17",
      0, 25 },
    /* Denormals off: 2^-140 is 0 in and out. MODE bits 4..5 are f32's. */
    { 2, "f32 denormals kept", "v_mov_b32 v1, 0x200\nv_mul_f32 v2, 1.0, v1\nv_readlane_b32 s0, v2, 0", 0, 0x200 },
    { 2, "f32 denormals flushed",
      "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 0\nv_mov_b32 v1, 0x200\nv_mul_f32 v2, 2.0, v1\nv_readlane_b32 s0, "
      "v2, 0",
      0, 0 },
    { 2, "f32 results flushed",
      "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 1\nv_mov_b32 v1, 0x00800000\nv_mul_f32 v2, 0.5, v1\nv_readlane_b32 "
      "s0, v2, 0",
      0, 0 },
    { 2, "fma's addend flushed",
      "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 0\nv_mov_b32 v1, 0x200\nv_fma_f32 v2, 0, 0, -v1\nv_readlane_b32 "
      "s0, v2, 0",
      0, 0 },
    { 2, "f16 denormals kept", "v_mov_b32 v1, 1\nv_add_f16 v2, v1, v1\nv_readlane_b32 s0, v2, 0", 0, 2 },
    { 2, "f16 denormals flushed",
      "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 6, 2), 0\nv_mov_b32 v1, 1\nv_add_f16 v2, v1, v1\nv_readlane_b32 s0, v2, 0",
      0, 0 },
    { 2, "f16 converted from a subnormal", "v_mov_b32 v1, 1\nv_cvt_f32_f16 v2, v1\nv_readlane_b32 s0, v2, 0", 0,
      0x33800000 },
    { 3, "denorm_mode", "s_denorm_mode 0\nv_mov_b32 v1, 0x200\nv_mul_f32 v2, 2.0, v1\nv_readlane_b32 s0, v2, 0", 0, 0 },
    { 2, "omod with denormals off",
      "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 0\nv_mov_b32 v1, 1.0\nv_add_f32_e64 v2, v1, v1 "
      "mul:4\nv_readlane_b32 s0, v2, 0",
      0, 0x41000000 },
    { 2, "f32 mul:2",
      "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 0\n"
      "v_mov_b32 v1, 0x40400000\nv_add_f32_e64 v2, v1, v1 mul:2\nv_readlane_b32 s0, v2, 0",
      0, 0x41400000 },
    { 2, "f32 div:2",
      "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 0\n"
      "v_mov_b32 v1, 0x40400000\nv_add_f32_e64 v2, v1, v1 div:2\nv_readlane_b32 s0, v2, 0",
      0, 0x40400000 },
    { 2, "f32 omod with denormals on",
      "v_mov_b32 v1, 0x40400000\nv_add_f32_e64 v2, v1, v1 mul:4\nv_readlane_b32 s0, v2, 0", 0, 0x40c00000 },
    { 2, "f32 clamp", "v_mov_b32 v1, 0x40400000\nv_add_f32_e64 v2, v1, v1 clamp\nv_readlane_b32 s0, v2, 0", 0,
      0x3f800000 },
    { 2, "f16 mul:2",
      "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 6, 2), 0\n"
      "v_mov_b32 v1, 0x4200\nv_add_f16_e64 v2, v1, v1 mul:2\nv_readlane_b32 s0, v2, 0",
      0, 0x4a00 },
    { 2, "f16 mul:4",
      "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 6, 2), 0\n"
      "v_mov_b32 v1, 0x4200\nv_add_f16_e64 v2, v1, v1 mul:4\nv_readlane_b32 s0, v2, 0",
      0, 0x4e00 },
    { 2, "f16 div:2",
      "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 6, 2), 0\n"
      "v_mov_b32 v1, 0x4200\nv_add_f16_e64 v2, v1, v1 div:2\nv_readlane_b32 s0, v2, 0",
      0, 0x4200 },
    { 2, "f16 omod with denormals on", "v_mov_b32 v1, 0x4200\nv_add_f16_e64 v2, v1, v1 mul:4\nv_readlane_b32 s0, v2, 0",
      0, 0x4600 },
    { 2, "f16 clamp", "v_mov_b32 v1, 0x4200\nv_add_f16_e64 v2, v1, v1 clamp\nv_readlane_b32 s0, v2, 0", 0, 0x3c00 },
    { 2, "f16 clamp below 0", "v_mov_b32 v1, 0xc200\nv_add_f16_e64 v2, v1, v1 clamp\nv_readlane_b32 s0, v2, 0", 0,
      0x0 },
};

START_TEST(program)
{
    struct snippets s;
    const char *text = programs[_i].text;
    struct bare *b = snippets_build(&s, programs[_i].arch, &text, 1);
    b->w.exec = b->w.wave_size == 64 ? ~0ull : 0xffffffff;
    /* Snippets end at the first s_endpgm: these have one. */
    ck_assert_int_eq(bare_run(b, s.start[0]), EMU_END);
    ck_assert_msg(b->w.s[programs[_i].reg] == programs[_i].want, "%s: s%d is 0x%x, expected 0x%x", programs[_i].name,
                  programs[_i].reg, b->w.s[programs[_i].reg], programs[_i].want);
    snippets_free(&s);
}
END_TEST

/* Register v of lane l as a number; wide: it and the next. */
static double number(const struct bare *b, int v, int l, bool wide)
{
    return wide ? f64(b->v[v][l] | (uint64_t)b->v[v + 1][l] << 32) : (double)f32(b->v[v][l]);
}

/* a / b by the sequence that the compiler makes, correctly rounded for all a, b: floats, then doubles. */
START_TEST(division)
{
    static const char *const text[] = {
        "v_div_scale_f32 v4, s[4:5], v1, v1, v0\nv_div_scale_f32 v5, vcc, v0, v1, v0\n"
        "v_rcp_f32 v6, v4\nv_fma_f32 v7, -v4, v6, 1.0\nv_fma_f32 v6, v7, v6, v6\n"
        "v_mul_f32 v8, v5, v6\nv_fma_f32 v9, -v4, v8, v5\nv_fma_f32 v8, v9, v6, v8\nv_fma_f32 v9, -v4, v8, v5\n"
        "v_div_fmas_f32 v9, v9, v6, v8\nv_div_fixup_f32 v10, v9, v1, v0",
        "v_div_scale_f64 v[4:5], s[4:5], v[2:3], v[2:3], v[0:1]\nv_div_scale_f64 v[6:7], vcc, v[0:1], v[2:3], v[0:1]\n"
        "v_rcp_f64 v[8:9], v[4:5]\nv_fma_f64 v[10:11], -v[4:5], v[8:9], 1.0\n"
        "v_fma_f64 v[8:9], v[8:9], v[10:11], v[8:9]\nv_fma_f64 v[10:11], -v[4:5], v[8:9], 1.0\n"
        "v_fma_f64 v[8:9], v[8:9], v[10:11], v[8:9]\n"
        "v_mul_f64 v[10:11], v[6:7], v[8:9]\nv_fma_f64 v[4:5], -v[4:5], v[10:11], v[6:7]\n"
        "v_div_fmas_f64 v[4:5], v[4:5], v[8:9], v[10:11]\nv_div_fixup_f64 v[10:11], v[4:5], v[2:3], v[0:1]"
    };
    struct snippets s;
    bool wide = _i;
    struct bare *b = snippets_build(&s, 2, &text[_i], 1);
    for (int repeat = 0; repeat < 200; repeat++) {
        rnd_seed((uint64_t)repeat);
        bare_randomize(b);
        b->w.exec = ~0ull;
        if (!wide) { /* the quotient lies 2^-48 beyond the middle of two floats */
            b->v[0][0] = 0xbf800000;
            b->v[1][0] = 0x00ffffff;
        }
        for (int l = 0; wide && l < 64; l++)
            for (int r = 0; r < 4; r += 2) {
                uint64_t x = rnd64();
                b->v[r][l] = (uint32_t)x;
                b->v[r + 1][l] = (uint32_t)(x >> 32);
            }
        ck_assert_int_eq(bare_run(b, s.start[0]), EMU_END);
        for (int l = 0; l < 64; l++) {
            double x = number(b, 0, l, wide), y = number(b, wide ? 2 : 1, l, wide), got = number(b, 10, l, wide);
            double want = wide ? x / y : (double)((float)x / (float)y);
            ck_assert_msg(u64(got) == u64(want) || (isnan(got) && isnan(want)), "%a / %a: got %a, expected %a", x, y,
                          got, want);
        }
    }
    snippets_free(&s);
}
END_TEST

void emu_case_scalar(Suite *s)
{
    TCase *c = test_case(s, "scalar", NULL, NULL);
    ADD_LOOPS(c, EMU_TESTED - 2, scalar);
    ADD_LOOPS(c, sizeof(programs) / sizeof(programs[0]), program);
    ADD_LOOPS(c, 2, division);
}
