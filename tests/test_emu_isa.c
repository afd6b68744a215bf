/* SPDX-License-Identifier: MIT
 *
 * Instructions one by one: assembled by LLVM, decoded, executed on random operands (denormals, infinities, NaN and
 * edges among them), compared with what plain C says here, which shares nothing with the emulator. A row of the table
 * is 1024 sets. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../dispatch/util.h"
#include "../emu/emu.h"
#include "../emu/memory.h"
#include "../tuner/harness.h"
#include "program.h"

enum { SETS = 16 }; /* of 64 lanes */

/* ---- numbers ------------------------------------------------------------------------------------------------------
 */

static float F(uint32_t u)
{
    float f;
    memcpy(&f, &u, 4);
    return f;
}

static uint32_t B(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}

static double H(uint32_t h) /* a half's value */
{
    uint16_t v = (uint16_t)h;
    return rfg_load(&v, RFG_F16, 0);
}

static uint32_t RH(double d) /* rounded to a half */
{
    uint16_t v;
    rfg_store(&v, RFG_F16, 0, d);
    return v;
}

static uint64_t LL(uint32_t lo, uint32_t hi)
{
    return lo | (uint64_t)hi << 32;
}

static uint32_t clz(uint32_t v)
{
    uint32_t n = 0;
    if (!v)
        return UINT32_MAX;
    for (; !(v >> 31); v <<= 1)
        n++;
    return n;
}

static uint32_t ctz(uint32_t v)
{
    uint32_t n = 0;
    if (!v)
        return UINT32_MAX;
    for (; !(v & 1); v >>= 1)
        n++;
    return n;
}

static uint32_t ones(uint32_t v)
{
    uint32_t n = 0;
    for (; v; v >>= 1)
        n += v & 1;
    return n;
}

static uint32_t reversed(uint32_t v)
{
    uint32_t r = 0;
    for (int i = 0; i < 32; i++)
        r = r << 1 | (v >> i & 1);
    return r;
}

static uint32_t to_u32(float f)
{
    return !(f > 0) ? 0 : f >= 4294967296.0f ? UINT32_MAX : (uint32_t)f;
}

static uint32_t to_i32(float f)
{
    return f != f ? 0 : f >= 2147483648.0f ? 0x7fffffff : f < -2147483648.0f ? 0x80000000u : (uint32_t)(int32_t)f;
}

static float lesser(float a, float b)
{
    return isnan(a) ? b : isnan(b) ? a : a < b || (a == b && signbit(a)) ? a : b;
}

static float greater(float a, float b)
{
    return isnan(a) ? b : isnan(b) ? a : a > b || (a == b && !signbit(a)) ? a : b;
}

static float median(float a, float b, float c)
{
    return greater(lesser(a, b), lesser(greater(a, b), c));
}

/* ---- the table ----------------------------------------------------------------------------------------------------
 */

/* a, b, c: lanes of v0, v1, v2; d: of v3 before; l the lane. v4:5 = v[0:1], v6 = mask bit of s[4:5]. R: result in v3.
 */
enum kind { BITS, FLOAT, HALF, ULP };
struct in {
    uint32_t a, b, c, d, *row0;
    int l;
    bool m; /* the lane's bit of s[4:5] */
};

#define TABLE                                                                                                          \
    X("v_mov_b32_e32 v3, v0", BITS, a)                                                                                 \
    X("v_not_b32_e32 v3, v0", BITS, ~a)                                                                                \
    X("v_bfrev_b32_e32 v3, v0", BITS, reversed(a))                                                                     \
    X("v_ffbh_u32_e32 v3, v0", BITS, clz(a))                                                                           \
    X("v_ffbl_b32_e32 v3, v0", BITS, ctz(a))                                                                           \
    X("v_add_u32_e32 v3, v0, v1", BITS, a + b)                                                                         \
    X("v_sub_u32_e32 v3, v0, v1", BITS, a - b)                                                                         \
    X("v_subrev_u32_e32 v3, v0, v1", BITS, b - a)                                                                      \
    X("v_and_b32_e32 v3, v0, v1", BITS, a &b)                                                                          \
    X("v_or_b32_e32 v3, v0, v1", BITS, a | b)                                                                          \
    X("v_xor_b32_e32 v3, v0, v1", BITS, a ^ b)                                                                         \
    X("v_xnor_b32_e32 v3, v0, v1", BITS, ~(a ^ b))                                                                     \
    X("v_lshlrev_b32_e32 v3, v0, v1", BITS, b << (a % 32))                                                             \
    X("v_lshrrev_b32_e32 v3, v0, v1", BITS, b >> (a % 32))                                                             \
    X("v_ashrrev_i32_e32 v3, v0, v1", BITS, (uint32_t)((int32_t)b >> (a % 32)))                                        \
    X("v_min_i32_e32 v3, v0, v1", BITS, (int32_t)a < (int32_t)b ? a : b)                                               \
    X("v_max_u32_e32 v3, v0, v1", BITS, a > b ? a : b)                                                                 \
    X("v_mul_lo_u32 v3, v0, v1", BITS, a *b)                                                                           \
    X("v_mul_hi_u32 v3, v0, v1", BITS, (uint32_t)(((uint64_t)a * b) >> 32))                                            \
    X("v_mul_hi_i32 v3, v0, v1", BITS, (uint32_t)((uint64_t)((int64_t)(int32_t)a * (int64_t)(int32_t)b) >> 32))        \
    X("v_mul_u32_u24_e32 v3, v0, v1", BITS, (a % 16777216) * (b % 16777216))                                           \
    X("v_bcnt_u32_b32 v3, v0, v1", BITS, ones(a) + b)                                                                  \
    X("v_add3_u32 v3, v0, v1, v2", BITS, a + b + c)                                                                    \
    X("v_lshl_add_u32 v3, v0, v1, v2", BITS, (a << (b % 32)) + c)                                                      \
    X("v_add_lshl_u32 v3, v0, v1, v2", BITS, (a + b) << (c % 32))                                                      \
    X("v_lshl_or_b32 v3, v0, v1, v2", BITS, (a << (b % 32)) | c)                                                       \
    X("v_and_or_b32 v3, v0, v1, v2", BITS, (a & b) | c)                                                                \
    X("v_or3_b32 v3, v0, v1, v2", BITS, a | b | c)                                                                     \
    X("v_bfi_b32 v3, v0, v1, v2", BITS, (a & b) | (c & ~a))                                                            \
    X("v_bfe_u32 v3, v0, v1, v2", BITS, (uint32_t)((uint64_t)(a >> (b % 32)) % (UINT64_C(1) << (c % 32))))             \
    X("v_alignbit_b32 v3, v0, v1, v2", BITS, (uint32_t)(LL(b, a) >> (c % 32)))                                         \
    X("v_alignbyte_b32 v3, v0, v1, v2", BITS, (uint32_t)(LL(b, a) >> (8 * (c % 4))))                                   \
    X("v_mad_u32_u24 v3, v0, v1, v2", BITS, (a % 16777216) * (b % 16777216) + c)                                       \
    X("v_min3_u32 v3, v0, v1, v2", BITS, a < b ? (a < c ? a : c) : (b < c ? b : c))                                    \
    X("v_sad_u32 v3, v0, v1, v2", BITS, (a > b ? a - b : b - a) + c)                                                   \
    X("v_cndmask_b32_e64 v3, v0, v1, s[4:5]", BITS, in->m ? b : a)                                                     \
    X("v_addc_co_u32_e64 v3, s[6:7], v0, v1, s[4:5]", BITS, a + b + in->m)                                             \
    X("v_subb_co_u32_e64 v3, s[6:7], v0, v1, s[4:5]", BITS, a - b - in->m)                                             \
    X("v_mbcnt_lo_u32_b32 v3, v0, v1", BITS, ones(l < 32 ? a & ((1u << l) - 1) : a) + b)                               \
    X("v_mbcnt_hi_u32_b32 v3, v0, v1", BITS, ones(l < 32 ? 0 : a & ((1u << (l - 32)) - 1)) + b)                        \
    X("v_add_f32_e32 v3, v0, v1", FLOAT, B(F(a) + F(b)))                                                               \
    X("v_sub_f32_e32 v3, v0, v1", FLOAT, B(F(a) - F(b)))                                                               \
    X("v_mul_f32_e32 v3, v0, v1", FLOAT, B(F(a) * F(b)))                                                               \
    X("v_mul_f32_e64 v3, -v0, |v1|", FLOAT, B(-F(a) * fabsf(F(b))))                                                    \
    X("v_add_f32_e64 v3, v0, v1 mul:2", FLOAT, B((F(a) + F(b)) * 2))                                                   \
    X("v_add_f32_e64 v3, v0, v1 clamp", FLOAT, B(F(a) + F(b) > 0 ? lesser(F(a) + F(b), 1) : 0.0f))                     \
    X("v_min_f32_e32 v3, v0, v1", FLOAT, B(lesser(F(a), F(b))))                                                        \
    X("v_max_f32_e32 v3, v0, v1", FLOAT, B(greater(F(a), F(b))))                                                       \
    X("v_fma_f32 v3, v0, v1, v2", FLOAT, B((float)fmaf(F(a), F(b), F(c))))                                             \
    X("v_fmac_f32_e32 v3, v0, v1", FLOAT, B(fmaf(F(a), F(b), F(d))))                                                   \
    X("v_max3_f32 v3, v0, v1, v2", FLOAT, B(greater(greater(F(a), F(b)), F(c))))                                       \
    X("v_floor_f32_e32 v3, v0", FLOAT, B(floorf(F(a))))                                                                \
    X("v_trunc_f32_e32 v3, v0", FLOAT, B(truncf(F(a))))                                                                \
    X("v_rndne_f32_e32 v3, v0", FLOAT, B(nearbyintf(F(a))))                                                            \
    X("v_rcp_f32_e32 v3, v0", ULP, B((float)(1 / (double)F(a))))                                                       \
    X("v_sqrt_f32_e32 v3, v0", ULP, B((float)sqrt((double)F(a))))                                                      \
    X("v_rsq_f32_e32 v3, v0", ULP, B((float)(1 / sqrt((double)F(a)))))                                                 \
    X("v_exp_f32_e32 v3, v0", ULP, B((float)pow(2, (double)F(a))))                                                     \
    X("v_log_f32_e32 v3, v0", ULP, B((float)(log((double)F(a)) / log(2.0))))                                           \
    X("v_ldexp_f32 v3, v0, v1", FLOAT, B(ldexpf(F(a), (int32_t)b)))                                                    \
    X("v_cvt_f32_u32_e32 v3, v0", FLOAT, B((float)a))                                                                  \
    X("v_cvt_f32_i32_e32 v3, v0", FLOAT, B((float)(int32_t)a))                                                         \
    X("v_cvt_u32_f32_e32 v3, v0", BITS, to_u32(F(a)))                                                                  \
    X("v_cvt_i32_f32_e32 v3, v0", BITS, to_i32(F(a)))                                                                  \
    X("v_cvt_f32_ubyte2_e32 v3, v0", FLOAT, B((float)(a >> 16 & 255)))                                                 \
    X("v_cvt_f32_f16_e32 v3, v0", FLOAT, B((float)H(a)))                                                               \
    X("v_cvt_f16_f32_e32 v3, v0", HALF, RH(F(a)))                                                                      \
    X("v_cvt_f32_f16_sdwa v3, v0 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_1", FLOAT, B((float)H(a >> 16)))    \
    X("v_or_b32_sdwa v3, v0, v1 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_1 src1_sel:BYTE_2", BITS,            \
      a >> 16 | (b >> 16 & 255))                                                                                       \
    X("v_add_u32_sdwa v3, v0, v1 dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:BYTE_3 src1_sel:WORD_0", BITS,     \
      ((a >> 24) + (b & 0xffff)) << 16 | (d & 0xffff))                                                                 \
    X("v_add_f16_e32 v3, v0, v1", HALF, RH(H(a) + H(b)))                                                               \
    X("v_mul_f16_e32 v3, v0, v1", HALF, RH(H(a) * H(b)))                                                               \
    X("v_pk_add_f16 v3, v0, v1", HALF, RH(H(a) + H(b)) | RH(H(a >> 16) + H(b >> 16)) << 16)                            \
    X("v_pk_mul_f16 v3, v0, v1 op_sel:[1,0] op_sel_hi:[0,1]", HALF,                                                    \
      RH(H(a >> 16) * H(b)) | RH(H(a) * H(b >> 16)) << 16)                                                             \
    X("v_dot2_f32_f16 v3, v0, v1, v2", FLOAT,                                                                          \
      B(fmaf((float)H(a >> 16), (float)H(b >> 16), fmaf((float)H(a), (float)H(b), F(c)))))                             \
    X("v_med3_f32 v3, v0, v1, v2", FLOAT,                                                                              \
      B(isnan(F(a)) || isnan(F(b)) || isnan(F(c)) ? lesser(lesser(F(a), F(b)), F(c)) : median(F(a), F(b), F(c))))      \
    X("v_mov_b32_dpp v3, v0 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf", BITS, in->row0[l ^ 1])                    \
    X("v_mov_b32_dpp v3, v0 row_shl:3 row_mask:0xf bank_mask:0xf", BITS, l % 16 + 3 < 16 ? in->row0[l + 3] : d)        \
    X("v_mov_b32_dpp v3, v0 row_shr:5 row_mask:0xf bank_mask:0xf bound_ctrl:0", BITS,                                  \
      l % 16 >= 5 ? in->row0[l - 5] : 0)                                                                               \
    X("v_mov_b32_dpp v3, v0 row_ror:4 row_mask:0xf bank_mask:0xf", BITS, in->row0[l / 16 * 16 + (l + 12) % 16])        \
    X("v_mov_b32_dpp v3, v0 row_mirror row_mask:0xf bank_mask:0xf", BITS, in->row0[l / 16 * 16 + 15 - l % 16])         \
    X("v_mov_b32_dpp v3, v0 row_half_mirror row_mask:0xf bank_mask:0xf", BITS, in->row0[l / 8 * 8 + 7 - l % 8])        \
    X("v_mov_b32_dpp v3, v0 row_bcast:15 row_mask:0xa bank_mask:0xf", BITS,                                            \
      l / 16 == 1 || l / 16 == 3 ? in->row0[l / 16 * 16 - 1] : d)                                                      \
    X("v_mov_b32_dpp v3, v0 row_bcast:31 row_mask:0xc bank_mask:0xf", BITS, l >= 32 ? in->row0[31] : d)                \
    X("v_mov_b32_dpp v3, v0 quad_perm:[0,1,2,3] row_mask:0x5 bank_mask:0x3", BITS,                                     \
      (l / 16 == 0 || l / 16 == 2) && l / 4 % 4 < 2 ? a : d)

#define X(text, kind, expr) { text, kind, 0 },
static const struct row {
    const char *text;
    enum kind kind;
    int unused;
} rows[] = { TABLE };
#undef X
#define N_ROWS (int)(sizeof(rows) / sizeof(rows[0]))

static uint32_t expected(int row, const struct in *in)
{
    uint32_t a = in->a, b = in->b, c = in->c, d = in->d;
    int l = in->l, n = 0;
    (void)b, (void)c, (void)d, (void)l;
#define X(text, kind, expr)                                                                                            \
    if (row == n++)                                                                                                    \
        return (expr);
    TABLE
#undef X
    abort();
}

/* ---- machines -------------------------------------------------------------------------------------------------------
 */

static struct emu_program program;
static void *text;

/* Assembles lines for an architecture and decodes them. */
static void assemble(const char *arch, const char *const *lines, int n)
{
    char cmd[300], error[400];
    size_t size;
    FILE *f = fopen("t.s", "w");
    ck_assert_ptr_nonnull(f);
    for (int i = 0; i < n; i++)
        fprintf(f, "%s\n", lines[i]);
    fprintf(f, "s_endpgm\n");
    ck_assert_int_eq(fclose(f), 0);
    snprintf(cmd, sizeof(cmd),
             "llvm-mc-19 -triple=amdgcn-amd-amdhsa -mcpu=%s -filetype=obj t.s -o t.o && "
             "llvm-objcopy-19 -O binary --only-section=.text t.o t.bin",
             arch);
    ck_assert_msg(system(cmd) == 0, "llvm-mc-19 (Debian: llvm-19) can't assemble for %s", arch);
    ck_assert_ptr_nonnull(text = rfg_read_file("t.bin", &size));
    const struct emu_arch *a = emu_arch_find(arch, strlen(arch));
    ck_assert_msg(
        emu_decode(&program, a, a->wave_size, text, size, (uint64_t)(uintptr_t)text, NULL, NULL, error, sizeof(error)),
        "%s", error);
    ck_assert_int_eq(program.n, n + 1);
}

static void release(void)
{
    emu_program_free(&program);
    free(text);
}

static uint32_t operand(uint64_t *seed)
{
    static const uint32_t edges[] = { 0,          1,          0x80000000u, 0x7fffffff, UINT32_MAX, 0x3f800000,
                                      0xbf800000, 0x00000001, 0x807fffff,  0x7f800000, 0xff800000, 0x7fc00000,
                                      0x7f7fffff, 31,         32,          33,         0x3c003c00, 0x7bff0400,
                                      0x00010001, 0xfc007c00, 0x4f000000 };
    uint64_t r = rfg_random(seed);
    switch (r % 4) {
    case 0:
        return edges[(r >> 8) % (sizeof(edges) / sizeof(edges[0]))];
    case 1:
        return B((float)((double)(int64_t)rfg_random(seed) * 0x1p-60));
    case 2:
        return (uint32_t)(r >> 32) >> (r >> 8) % 32;
    }
    return (uint32_t)(r >> 32);
}

static bool same(enum kind kind, uint32_t got, uint32_t want)
{
    if (got == want)
        return true;
    if (kind == FLOAT || kind == ULP)
        return (isnan(F(got)) && isnan(F(want))) ||
               (kind == ULP && !isnan(F(want)) && (int32_t)(got - want) <= 1 && (int32_t)(got - want) >= -1);
    if (kind == HALF)
        for (int h = 0; h < 32; h += 16) {
            uint16_t g = (uint16_t)(got >> h), w = (uint16_t)(want >> h);
            bool nan = (g & 0x7fff) > 0x7c00 && (w & 0x7fff) > 0x7c00;
            if (g != w && !nan)
                return false;
        }
    return kind == HALF;
}

START_TEST(vector_instructions)
{
    static const char *lines[sizeof(rows) / sizeof(rows[0])];
    static uint32_t v[512][64];
    struct emu_launch launch = { .first = "" };
    struct emu_workgroup wg = { .n_waves = 1 };
    uint64_t seed = 20260101;
    for (int r = 0; r < N_ROWS; r++)
        lines[r] = rows[r].text;
    assemble(_i ? "gfx942" : "gfx90a", lines, N_ROWS);
    for (int r = 0; r < N_ROWS; r++)
        for (int set = 0; set < SETS; set++) {
            struct emu_wave w = { .v = v, .lanes = 64, .wg = &wg, .launch = &launch, .prog = &program };
            bool full = strstr(rows[r].text, "dpp") || set % 2; /* DPP's lanes that are off: a test of its own */
            uint32_t before[64], row0[64], row1[64], row2[64];
            w.exec = full ? UINT64_MAX : rfg_random(&seed);
            w.s[4] = (uint32_t)rfg_random(&seed);
            w.s[5] = (uint32_t)rfg_random(&seed);
            emu_set_mode(&w, 0xf0); /* denormals are kept */
            for (int k = 0; k < 4; k++)
                for (int l = 0; l < 64; l++)
                    v[k][l] = operand(&seed);
            memcpy(row0, v[0], sizeof(row0));
            memcpy(row1, v[1], sizeof(row1));
            memcpy(row2, v[2], sizeof(row2));
            memcpy(before, v[3], sizeof(before));
            const struct emu_inst *i = &program.inst[r];
            w.pc = i + 1;
            i->fn(&w, i);
            ck_assert_msg(!launch.findings, "%s", launch.first);
            for (int l = 0; l < 64; l++) {
                struct in in = {
                    row0[l], row1[l], row2[l], before[l], row0, l, (l < 32 ? w.s[4] >> l : w.s[5] >> (l - 32)) & 1
                };
                uint32_t want = w.exec >> l & 1 ? expected(r, &in) : before[l];
                ck_assert_msg(same(rows[r].kind, v[3][l], want) || (!(w.exec >> l & 1) && v[3][l] == want),
                              "%s: lane %d: a=%08x b=%08x c=%08x d=%08x gives %08x, must be %08x", rows[r].text, l,
                              row0[l], row1[l], row2[l], before[l], v[3][l], want);
            }
        }
    printf("%s: %d instructions, %d operand sets each\n", _i ? "gfx942" : "gfx90a", N_ROWS, SETS * 64);
    release();
}
END_TEST

/* Comparisons: the mask of all lanes that are on; others give 0. */
START_TEST(comparisons)
{
    static const char *const lines[] = {
        "v_cmp_lt_i32_e64 s[8:9], v0, v1", "v_cmp_ge_u32_e64 s[8:9], v0, v1",        "v_cmp_eq_u32_e64 s[8:9], v0, v1",
        "v_cmp_lt_f32_e64 s[8:9], v0, v1", "v_cmp_nge_f32_e64 s[8:9], v0, v1",       "v_cmp_u_f32_e64 s[8:9], v0, v1",
        "v_cmp_lg_f32_e64 s[8:9], v0, v1", "v_cmp_gt_u64_e64 s[8:9], v[0:1], v[2:3]"
    };
    static uint32_t v[512][64];
    struct emu_launch launch = { .first = "" };
    struct emu_workgroup wg = { .n_waves = 1 };
    uint64_t seed = 7;
    assemble("gfx90a", lines, 8);
    for (int set = 0; set < 8 * SETS; set++) {
        struct emu_wave w = {
            .v = v, .lanes = 64, .wg = &wg, .launch = &launch, .prog = &program, .exec = rfg_random(&seed)
        };
        const struct emu_inst *i = &program.inst[set % 8];
        uint64_t want = 0;
        emu_set_mode(&w, 0xf0);
        for (int k = 0; k < 4; k++)
            for (int l = 0; l < 64; l++)
                v[k][l] = l % 5 == 0 && k == 1 ? v[0][l] : operand(&seed);
        i->fn(&w, i);
        for (int l = 0; l < 64; l++) {
            uint32_t a = v[0][l], b = v[1][l];
            float x = F(a), y = F(b);
            const bool r[] = { (
                int32_t)a<(int32_t)b, a >= b, a == b, x<y, !(x >= y), isnan(x) || isnan(y), x < y || x> y, LL(a, b)>
                                   LL(v[2][l], v[3][l]) };
            want |= (uint64_t)(r[set % 8] && (w.exec >> l & 1)) << l;
        }
        ck_assert_msg(LL(w.s[8], w.s[9]) == want, "%s: %016llx, must be %016llx", lines[set % 8],
                      (unsigned long long)LL(w.s[8], w.s[9]), (unsigned long long)want);
    }
    release();
}
END_TEST

/* Scalars: result and SCC. */
START_TEST(scalar_instructions)
{
    static const char *const lines[] = { "s_add_u32 s2, s0, s1",     "s_addc_u32 s2, s0, s1", "s_sub_u32 s2, s0, s1",
                                         "s_subb_u32 s2, s0, s1",    "s_add_i32 s2, s0, s1",  "s_lshl_b32 s2, s0, s1",
                                         "s_ashr_i32 s2, s0, s1",    "s_bfe_u32 s2, s0, s1",  "s_mul_hi_u32 s2, s0, s1",
                                         "s_cselect_b32 s2, s0, s1", "s_min_i32 s2, s0, s1",  "s_andn2_b32 s2, s0, s1",
                                         "s_bcnt1_i32_b32 s2, s0",   "s_brev_b32 s2, s0",     "s_abs_i32 s2, s0",
                                         "s_cmp_lt_i32 s0, s1",      "s_cmp_ge_u32 s0, s1",   "s_bitcmp1_b32 s0, s1",
                                         "s_addk_i32 s2, 0x8001",    "s_movk_i32 s2, 0x8001" };
    enum { N = sizeof(lines) / sizeof(lines[0]) };
    uint64_t seed = 11;
    assemble("gfx90a", lines, N);
    for (int round = 0; round < 1000 * N; round++) {
        struct emu_wave w = { .lanes = 64, .prog = &program };
        uint32_t a = w.s[0] = operand(&seed), b = w.s[1] = operand(&seed), d = w.s[2] = operand(&seed);
        bool in = w.scc = rfg_random(&seed) % 2;
        int k = round % N;
        int64_t sum = (int64_t)(int32_t)a + (int32_t)b, addk = (int64_t)(int32_t)d - 32767;
        uint32_t f = b >> 16 & 127, bits = f >= 32 ? UINT32_MAX : (1u << f) - 1, bfe = (a >> (b % 32)) & bits;
        const struct {
            uint32_t r;
            bool scc;
        } want[N] = { { a + b, ((uint64_t)a + b) >> 32 },
                      { a + b + in, ((uint64_t)a + b + in) >> 32 },
                      { a - b, a < b },
                      { a - b - in, (uint64_t)a < (uint64_t)b + in },
                      { a + b, sum != (int32_t)sum },
                      { a << (b % 32), a << (b % 32) },
                      { (uint32_t)((int32_t)a >> (b % 32)), (int32_t)a >> (b % 32) },
                      { bfe, bfe },
                      { (uint32_t)((uint64_t)a * b >> 32), in },
                      { in ? a : b, in },
                      { (int32_t)a < (int32_t)b ? a : b, (int32_t)a < (int32_t)b },
                      { a & ~b, a & ~b },
                      { ones(a), a },
                      { reversed(a), in },
                      { (int32_t)a < 0 ? 0u - a : a, a },
                      { d, (int32_t)a < (int32_t)b },
                      { d, a >= b },
                      { d, a >> (b % 32) & 1 },
                      { (uint32_t)addk, addk != (int32_t)addk },
                      { 0xffff8001u, in } };
        const struct emu_inst *i = &program.inst[k];
        i->fn(&w, i);
        ck_assert_msg(w.s[2] == want[k].r && w.scc == want[k].scc,
                      "%s: a=%08x b=%08x d=%08x scc=%d: %08x scc %d, must be %08x %d", lines[k], a, b, d, in, w.s[2],
                      w.scc, want[k].r, want[k].scc);
    }
    release();
}
END_TEST

/* MFMA against the plain product, by the layouts of AMD's matrix instruction calculator. */
START_TEST(matrix_instructions)
{
    static const struct {
        const char *text, *arch;
        int m, n, k, blocks;
        bool bf;
    } shapes[] = {
        { "v_mfma_f32_16x16x16f16 v[16:19], v[0:1], v[2:3], v[8:11]", "gfx90a", 16, 16, 16, 1, false },
        { "v_mfma_f32_16x16x16bf16_1k v[16:19], v[0:1], v[2:3], v[8:11]", "gfx90a", 16, 16, 16, 1, true },
        { "v_mfma_f32_32x32x8f16 v[16:31], v[0:1], v[2:3], v[32:47]", "gfx90a", 32, 32, 8, 1, false },
        { "v_mfma_f32_32x32x8_bf16 v[16:31], v[0:1], v[2:3], v[32:47]", "gfx942", 32, 32, 8, 1, true },
        { "v_mfma_f32_16x16x4f16 v[16:31], v[0:1], v[2:3], v[32:47]", "gfx90a", 16, 16, 4, 4, false },
        { "v_mfma_f32_4x4x4f16 v[16:19], v[0:1], v[2:3], v[8:11]", "gfx90a", 4, 4, 4, 16, false },
    };
    static uint32_t v[512][64];
    static double A[16][32][32], Bm[16][32][32], C[16][32][32];
    struct emu_launch launch = { .first = "" };
    struct emu_workgroup wg = { .n_waves = 1 };
    uint64_t seed = 13;
    for (size_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++) {
        int m = shapes[s].m, n = shapes[s].n, kk = shapes[s].k, blocks = shapes[s].blocks, groups = kk / 4;
        rfg_dtype t = shapes[s].bf ? RFG_BF16 : RFG_F16;
        assemble(shapes[s].arch, &shapes[s].text, 1);
        int c_base = program.inst[0].reg[3] - EMU_VGPR;
        struct emu_wave w = { .v = v, .lanes = 64, .exec = UINT64_MAX, .wg = &wg, .launch = &launch, .prog = &program };
        for (int b = 0; b < blocks; b++) {
            for (int k = 0; k < kk; k++)
                for (int x = 0; x < (m > n ? m : n); x++) {
                    int lane = m * (b * groups + k / 4) + x;
                    A[b][x][k] = (double)(int)(rfg_random(&seed) % 9) - 4;
                    Bm[b][k][x] = (double)(int)(rfg_random(&seed) % 9) - 4;
                    rfg_store((uint16_t *)&v[k % 4 / 2][lane] + k % 2, t, 0, A[b][x][k]);
                    rfg_store((uint16_t *)&v[2 + k % 4 / 2][lane] + k % 2, t, 0, Bm[b][k][x]);
                }
            for (int i = 0; i < m; i++)
                for (int j = 0; j < n; j++) {
                    C[b][i][j] = (double)(int)(rfg_random(&seed) % 100);
                    int reg = m == 4 ? i : b * (m * n / 64) + i % 4 + (m == 32 ? i / 8 * 4 : 0);
                    int lane = m == 4 ? 4 * b + j : j + n * (m == 32 ? i / 4 % 2 : i / 4);
                    v[c_base + reg][lane] = B((float)C[b][i][j]);
                }
        }
        program.inst[0].fn(&w, &program.inst[0]);
        ck_assert_msg(!launch.findings, "%s", launch.first);
        for (int b = 0; b < blocks; b++)
            for (int i = 0; i < m; i++)
                for (int j = 0; j < n; j++) {
                    double sum = C[b][i][j];
                    for (int k = 0; k < kk; k++)
                        sum += A[b][i][k] * Bm[b][k][j];
                    int reg = m == 4 ? i : b * (m * n / 64) + i % 4 + (m == 32 ? i / 8 * 4 : 0);
                    int lane = m == 4 ? 4 * b + j : j + n * (m == 32 ? i / 4 % 2 : i / 4);
                    ck_assert_msg(F(v[16 + reg][lane]) == (float)sum, "%s: D%d[%d][%d] is %g, must be %g",
                                  shapes[s].text, b, i, j, (double)F(v[16 + reg][lane]), sum);
                }
        release();
    }
}
END_TEST

int main(void)
{
    char why[200];
    if (!emu_llvm_ready(why, sizeof(why))) {
        printf("SKIPPED: the emulator's instructions: %s\n", why);
        return 77;
    }
    Suite *s = suite_create("emu-isa");
    TCase *tc = tcase_create("emu-isa");
    tcase_add_checked_fixture(tc, program_setup, program_teardown);
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, vector_instructions, 0, 2);
    tcase_add_test(tc, comparisons);
    tcase_add_test(tc, scalar_instructions);
    tcase_add_test(tc, matrix_instructions);
    suite_add_tcase(s, tc);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_ENV);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
