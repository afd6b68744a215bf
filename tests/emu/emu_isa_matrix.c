/* SPDX-License-Identifier: MIT
 *
 * MFMA and WMMA against sums in double over matrices that are put into and taken from registers element by element, by
 * the formulas of AMD's matrix instruction calculator (github.com/ROCm/amd_matrix_instruction_calculator), coordinates
 * to register and lane. */
#include "emu_isa.h"

enum type { FLOAT, XFLOAT, HALF, BF16, INT8, FP8, BF8, DOUBLE, SIGNED8, SIGNED4 };
static const int type_bits[] = { 32, 32, 16, 16, 8, 8, 8, 64, 8, 4 };

/* A at v0 or a128, B at v8, C at v16 or a0 and so on: as the text says; D at v64 or a64. */
static const struct matrix_case {
    int archs;
    const char *text;
    int m, k, blocks, type_a, type_b;
    int a, b, c, d; /* first register; 1000 + n: AGPR; -1: C is the constant */
    double constant;
    int cbsz, abid, blgp;
} cases[] = {
#include "emu_isa_matrix.def"
};
enum { CASES = sizeof(cases) / sizeof(cases[0]) };

static uint32_t *row_of(struct bare *b, int reg)
{
    return reg >= 1000 ? b->a[reg - 1000] : b->v[reg];
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

static double fp8_of(uint32_t x, int mantissa, bool ocp)
{
    int bits = 7 - mantissa, e = (int)(x >> mantissa & ((1u << bits) - 1)), bias = (1 << (bits - 1)) - ocp;
    double m = (double)(x & ((1u << mantissa) - 1)) / (1 << mantissa);
    return (x & 128 ? -1 : 1) * (e ? ldexp(1 + m, e - bias) : ldexp(m, 1 - bias));
}
/* A random element of a type: its bits, its value. Now and then a subnormal. */
static uint64_t element(int type, int gfx, double *value)
{
    uint64_t r = rnd();
    uint32_t x;
    bool sub = (r >> 40) % 16 == 0, flush = gfx == 0x90a;
    switch (type) {
    case FLOAT:
    case XFLOAT:
        x = u32((float)(((double)(r % 2000001) - 1000000) / 300000));
        *value = (double)f32(x);
        if (type == XFLOAT) { /* 10 mantissa bits, to nearest even */
            double step = ldexp(1, ilogb(*value) - 10);
            *value = *value == 0 ? 0 : nearbyint(*value / step) * step;
        }
        return x;
    case HALF:
        x = sub ? r & 0x83ff : u16((_Float16)(((float)(r % 20001) - 10000) / 5000));
        *value = sub && flush ? 0 : (double)f16(x);
        return x;
    case BF16:
        x = sub ? r & 0x807f : u32((float)(((double)(r % 20001) - 10000) / 5000)) >> 16;
        *value = sub && flush ? 0 : (double)f32(x << 16);
        return x;
    case FP8:
    case BF8:
        x = r & 255;
        if (gfx == 0x950 && (x & 127) >= (type == FP8 ? 0x7f : 0x7c)) /* NaN, infinities */
            x ^= 0x40;
        if (gfx >= 0x1200) /* not its NaNs and infinities */
            x = (x & 0x78) == 0x78 ? x & 0x87 : x;
        x = x == 128 ? 1 : x;
        *value = fp8_of(x, type == FP8 ? 3 : 2, gfx == 0x950 || gfx >= 0x1200);
        return x;
    case DOUBLE:
        *value = ((double)(r % 2000001) - 1000000) / 300000;
        return u64(*value);
    case SIGNED4:
        *value = (double)((int)((r & 15) ^ 8) - 8);
        return r & 15;
    default:
        *value = (double)(int8_t)r;
        return r & 255;
    }
}

/* Element j of lane l's registers from `reg` on. */
static void put_element(struct bare *b, int reg, int bits, int j, int l, uint64_t x)
{
    if (bits == 64) {
        row_of(b, reg + 2 * j)[l] = (uint32_t)x;
        row_of(b, reg + 2 * j + 1)[l] = (uint32_t)(x >> 32);
        return;
    }
    uint32_t *w = &row_of(b, reg + j * bits / 32)[l], shift = (uint32_t)(j * bits % 32);
    uint32_t field = bits == 32 ? ~0u : ((1u << bits) - 1) << shift;
    *w = (*w & ~field) | ((uint32_t)x << shift & field);
}

static int blgp_from(int l, int blgp)
{
    return blgp == 0   ? l
           : blgp == 1 ? l % 32
           : blgp == 2 ? 32 + l % 32
           : blgp == 3 ? (l + 16) % 64
                       : 16 * (blgp - 4) + l % 16;
}

/* Coordinates of D to element of the lane, and lane. */
static void d_place(const struct matrix_case *c, int i, int j, int blk, int *e, int *l)
{
    int n = c->m;
    if (c->type_a == DOUBLE) {
        *e = c->blocks == 1 ? i / 4 : 0;
        *l = 16 * (i % 4) + (n == 4 ? 4 * blk : 0) + j;
    } else if (n == 32) {
        *e = 16 * blk + 4 * (i / 8) + i % 4;
        *l = 32 * (i / 4) % 64 + j;
    } else if (n == 16) {
        *e = 4 * blk + i % 4;
        *l = 16 * (i / 4) + j;
    } else {
        *e = i;
        *l = 4 * blk + j;
    }
}

static void check_matrix(const struct matrix_case *c, int arch, struct bare *b, const struct emu_inst *at)
{
    static double A[16][32][64], B[16][32][64], C[16][32][32], raw_b[64][32];
    int per = c->k * c->m * c->blocks / 64, out = c->type_a == DOUBLE ? 64 : 32, gfx = tested[arch].arch.gfx;
    bool integer = c->type_a == INT8;
    if (per == 0)
        per = 1;
    bare_randomize(b);
    for (int blk = 0; blk < c->blocks; blk++)
        for (int i = 0; i < c->m; i++)
            for (int k = 0; k < c->k; k++) {
                int l = c->m * blk + c->m * c->blocks * (k / per) + i;
                put_element(b, c->a, type_bits[c->type_a], k % per, l, element(c->type_a, gfx, &A[blk][i][k]));
                put_element(b, c->b, type_bits[c->type_b], k % per, l, element(c->type_b, gfx, &raw_b[l][k % per]));
            }
    for (int blk = 0; blk < c->blocks; blk++)
        for (int i = 0; i < c->m; i++)
            for (int k = 0; k < c->k; k++)
                B[blk][i][k] = raw_b[blgp_from(c->m * blk + c->m * c->blocks * (k / per) + i, c->blgp)][k % per];
    for (int blk = 0; blk < c->blocks; blk++)
        for (int i = 0; i < c->m; i++)
            for (int j = 0; j < c->m; j++) {
                int e, l;
                double v = c->constant;
                d_place(c, i, j, blk, &e, &l);
                if (c->c >= 0) {
                    uint64_t x;
                    if (integer) {
                        int32_t r = (int32_t)(uint32_t)rnd();
                        v = r;
                        x = (uint32_t)r;
                    } else {
                        v = (double)(float)(((double)(rnd() % 20001) - 10000) / 1000);
                        x = c->type_a == DOUBLE ? u64(v) : u32((float)v);
                    }
                    put_element(b, c->c, out, e, l, x);
                }
                C[blk][i][j] = v;
            }
    ck_assert_int_eq(bare_run(b, at), EMU_END);
    for (int blk = 0; blk < c->blocks; blk++)
        for (int i = 0; i < c->m; i++)
            for (int j = 0; j < c->m; j++) {
                int e, l, group = 1 << c->cbsz, ablk = c->cbsz ? blk / group * group + c->abid % group : blk;
                double want = C[blk][i][j], size = fabs(want), got;
                for (int k = 0; k < c->k; k++) {
                    want += A[ablk][i][k] * B[blk][j][k];
                    size += fabs(A[ablk][i][k] * B[blk][j][k]);
                }
                d_place(c, i, j, blk, &e, &l);
                if (c->type_a == DOUBLE)
                    got = f64(row_of(b, c->d + 2 * e)[l] | (uint64_t)row_of(b, c->d + 2 * e + 1)[l] << 32);
                else
                    got = integer ? (double)(int32_t)row_of(b, c->d + e)[l] : (double)f32(row_of(b, c->d + e)[l]);
                if (integer)
                    want = (double)(int32_t)(uint32_t)(int64_t)want;
                double bound = integer ? 0 : size * (c->type_a == DOUBLE ? 1e-15 : 1.2e-7) * (c->k + 2);
                ASSERT_LANE(fabs(got - want) <= bound, "%s: D[%d][%d] of block %d: got %.9g, expected %.9g +- %.2g",
                            c->text, i, j, blk, got, want, bound);
            }
}

/* gfx908's C and D are in AGPRs. */
static struct matrix_case for_gfx908(const struct matrix_case *c, char text[128])
{
    struct matrix_case m = *c;
    snprintf(text, 128, "%s", c->text);
    char *d = strstr(text, " v[64"), *from = strstr(text, "v[16");
    if (d && (from || c->c < 0)) {
        d[1] = 'a';
        m.d += 1000;
        if (from) {
            *from = 'a';
            m.c += 1000;
        }
    }
    m.text = text;
    return m;
}

START_TEST(mfma)
{
    static struct matrix_case mine[CASES];
    static char buffer[CASES][128];
    static bool known[CASES];
    const char *text[CASES];
    static const int archs[] = { 0, 1, 2, 8 };
    int arch = archs[_i], n = 0;
    struct snippets s;
    for (int k = 0; k < CASES; k++) {
        mine[k] = arch ? cases[k] : for_gfx908(&cases[k], buffer[k]);
        text[k] = cases[k].archs & (arch ? 1 << arch : G90A) ? mine[k].text : "";
    }
    snippets_known(arch, text, CASES, known);
    for (int k = 0; k < CASES; k++) {
        ck_assert_msg(known[k] || !arch, "%s: unknown", text[k]);
        n += *(text[k] = known[k] ? text[k] : "") != 0;
    }
    struct bare *b = snippets_build(&s, arch, text, CASES);
    for (int k = 0; k < CASES; k++)
        for (int repeat = 0; *text[k] && repeat < 6; repeat++) {
            rnd_seed((uint64_t)(100 * k + repeat));
            check_matrix(&mine[k], arch, b, s.start[k]);
        }
    printf("%s: %d MFMA forms\n", tested[arch].arch.name, n);
    snippets_free(&s);
}
END_TEST

/* D over C, A or B: the whole of them is read before D is written. EXEC 0 changes nothing. */
START_TEST(aliases)
{
    const char *text[] = { "v_mfma_f32_16x16x16_bf16 v[64:67], v[0:1], v[8:9], v[16:19]",
                           "s_mov_b64 exec, 0\nv_mfma_f32_16x16x16_bf16 v[16:19], v[0:1], v[8:9], v[16:19]" };
    struct snippets s;
    static struct bare first;
    struct bare *b = snippets_build(&s, 2, text, 2);
    for (int repeat = 0; repeat < 20; repeat++) {
        bare_randomize(b);
        memcpy(&first, b, sizeof(first));
        ck_assert_int_eq(bare_run(b, s.start[0]), EMU_END);
        for (int r = 0; r < 4; r++)
            memcpy(first.v[64 + r], b->v[64 + r], 256);
        ck_assert_int_eq(bare_run(b, s.start[1]), EMU_END);
        for (int r = 0; r < 4; r++)
            ck_assert(!memcmp(first.v[64 + r], b->v[16 + r], 256));
    }
    snippets_free(&s);
}
END_TEST

/* ---- WMMA: lane l of 16 holds row l of A, column l of B; D[i][j] is element i / r of lane 16 (i % r) + j, r rows a
 * register - */

static const struct {
    const char *text;
    int type, out; /* out: 0 f32, 1 i32, 2 f16 low, 3 f16 high, 4 bf16 low */
    bool signed_a, signed_b;
} wmmas[] = {
    { "v_wmma_f32_16x16x16_f16 v[64:%d], v[0:7], v[8:15], v[16:%d]", HALF, 0, false, false },
    { "v_wmma_f32_16x16x16_bf16 v[64:%d], v[0:7], v[8:15], v[16:%d]", BF16, 0, false, false },
    { "v_wmma_f16_16x16x16_f16 v[64:%d], v[0:7], v[8:15], v[16:%d]", HALF, 2, false, false },
    { "v_wmma_f16_16x16x16_f16 v[64:%d], v[0:7], v[8:15], v[16:%d] op_sel:[0,0,1]", HALF, 3, false, false },
    { "v_wmma_bf16_16x16x16_bf16 v[64:%d], v[0:7], v[8:15], v[16:%d]", BF16, 4, false, false },
    { "v_wmma_i32_16x16x16_iu8 v[64:%d], v[0:3], v[8:11], v[16:%d] neg_lo:[1,1,0]", SIGNED8, 1, true, true },
    { "v_wmma_i32_16x16x16_iu8 v[64:%d], v[0:3], v[8:11], v[16:%d] neg_lo:[1,0,0]", SIGNED8, 1, true, false },
    { "v_wmma_i32_16x16x16_iu4 v[64:%d], v[0:1], v[8:9], v[16:%d] neg_lo:[1,1,0]", SIGNED4, 1, true, true },
    { "v_wmma_i32_16x16x16_iu4 v[64:%d], v[0:1], v[8:9], v[16:%d] neg_lo:[0,1,0]", SIGNED4, 1, false, true },
};
enum { WMMAS = sizeof(wmmas) / sizeof(wmmas[0]) };

static void check_wmma(int k, struct bare *b, const struct emu_inst *at)
{
    double A[16][16], B[16][16], C[16][16];
    int bits = type_bits[wmmas[k].type], rows = b->w.wave_size / 16, out = wmmas[k].out;
    uint32_t old[16][16], none = bits == 8 ? 256 : 16;
    bare_randomize(b);
    for (int i = 0; i < 16; i++)
        for (int e = 0; e < 16; e++) {
            uint64_t x = element(wmmas[k].type, 0x1100, &A[i][e]), y = element(wmmas[k].type, 0x1100, &B[i][e]);
            if (out == 1 && !wmmas[k].signed_a && A[i][e] < 0)
                A[i][e] += none;
            if (out == 1 && !wmmas[k].signed_b && B[i][e] < 0)
                B[i][e] += none;
            for (int l = i; l < b->w.wave_size; l += 16) {
                put_element(b, 0, bits, e, l, x);
                put_element(b, 8, bits, e, l, y);
            }
        }
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 16; j++) {
            int r = 16 + i / rows, l = 16 * (i % rows) + j;
            float v = ((float)(rnd() % 20001) - 10000) / 5000;
            uint32_t bf = u32(v) >> 16;
            old[i][j] = b->v[64 + i / rows][l];
            C[i][j] = out == 0   ? v
                      : out == 1 ? (double)(int32_t)(rnd() % 100000)
                      : out == 4 ? (double)f32(bf << 16)
                                 : (double)(float)(_Float16)v;
            uint32_t x = out == 0 ? u32(v) : out == 1 ? (uint32_t)C[i][j] : out == 4 ? bf : u16((_Float16)v);
            b->v[r][l] = out == 3 ? x << 16 | 0x1234 : out > 1 ? x | 0x56780000 : x;
        }
    ck_assert_int_eq(bare_run(b, at), EMU_END);
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 16; j++) {
            double want = C[i][j], size = fabs(want), got;
            uint32_t x = b->v[64 + i / rows][16 * (i % rows) + j], h = out == 3 ? x >> 16 : x & 0xffff;
            for (int e = 0; e < 16; e++) {
                want += A[i][e] * B[j][e];
                size += fabs(A[i][e] * B[j][e]);
            }
            got = out == 0   ? (double)f32(x)
                  : out == 1 ? (double)(int32_t)x
                  : out == 4 ? (double)f32(h << 16)
                             : (double)f16(h);
            double bound = out == 0   ? size * 2e-6
                           : out == 1 ? 0
                                      : size * 2e-6 + fabs(want) * (out == 4 ? 0x1p-8 : 0x1p-11) + 1e-7;
            ASSERT_LANE(fabs(got - want) <= bound, "%s wave%d: D[%d][%d]: got %.9g, expected %.9g", wmmas[k].text,
                        b->w.wave_size, i, j, got, want);
            if (out >= 2)
                ASSERT_LANE(out == 3 ? (x & 0xffff) == (old[i][j] & 0xffff) : x >> 16 == old[i][j] >> 16,
                            "%s: the other half of D", wmmas[k].text);
        }
}

START_TEST(wmma)
{
    char buffer[WMMAS][128];
    const char *text[WMMAS];
    int arch = 3 + _i;
    struct snippets s;
    for (int k = 0; k < WMMAS; k++) {
        snprintf(buffer[k], sizeof(buffer[k]), wmmas[k].text, arch == 3 ? 71 : 67, arch == 3 ? 23 : 19);
        text[k] = buffer[k];
    }
    struct bare *b = snippets_build(&s, arch, text, WMMAS);
    for (int k = 0; k < WMMAS; k++)
        for (int repeat = 0; repeat < 8; repeat++) {
            rnd_seed((uint64_t)(100 * k + repeat));
            check_wmma(k, b, s.start[k]);
        }
    printf("%s, wave%d: %d WMMA forms\n", tested[arch].arch.name, tested[arch].wave_size, WMMAS);
    snippets_free(&s);
}
END_TEST

/* ---- sparse: of each four of K, A's two elements and their places ------------------------------------------------ */

static const struct {
    int archs;
    const char *text;
    int m, type_a, type_b, shift; /* of the set of indices */
} sparses[] = {
    { G942, "v_smfmac_f32_16x16x32_f16 v[64:67], v[0:1], v[8:11], v5", 16, HALF, HALF, 0 },
    { G942, "v_smfmac_f32_16x16x32_f16 v[64:67], v[0:1], v[8:11], v5 abid:3", 16, HALF, HALF, 24 },
    { G942, "v_smfmac_f32_16x16x32_f16 v[64:67], v[0:1], v[8:11], v5 cbsz:1 abid:1", 16, HALF, HALF, 0 },
    { G942, "v_smfmac_f32_32x32x16_f16 v[64:79], v[0:1], v[8:11], v5 abid:1", 32, HALF, HALF, 8 },
    { G942, "v_smfmac_f32_16x16x32_bf16 a[64:67], v[0:1], v[8:11], v5", 16, BF16, BF16, 0 },
    { G942, "v_smfmac_f32_32x32x16_bf16 v[64:79], v[0:1], v[8:11], v5", 32, BF16, BF16, 0 },
    { G942, "v_smfmac_i32_16x16x64_i8 v[64:67], v[0:1], v[8:11], v5 abid:1", 16, INT8, INT8, 16 },
    { G942, "v_smfmac_i32_32x32x32_i8 v[64:79], v[0:1], v[8:11], v5", 32, INT8, INT8, 0 },
    { G942, "v_smfmac_f32_16x16x64_fp8_fp8 v[64:67], v[0:1], v[8:11], v5", 16, FP8, FP8, 0 },
    { G942, "v_smfmac_f32_16x16x64_fp8_bf8 v[64:67], v[0:1], v[8:11], v5", 16, FP8, BF8, 0 },
    { G942, "v_smfmac_f32_16x16x64_bf8_fp8 v[64:67], v[0:1], v[8:11], v5", 16, BF8, FP8, 0 },
    { G942, "v_smfmac_f32_16x16x64_bf8_bf8 v[64:67], v[0:1], v[8:11], v5", 16, BF8, BF8, 0 },
    { G942, "v_smfmac_f32_32x32x32_fp8_fp8 v[64:79], v[0:1], v[8:11], v5", 32, FP8, FP8, 0 },
    { G942, "v_smfmac_f32_32x32x32_fp8_bf8 v[64:79], v[0:1], v[8:11], v5", 32, FP8, BF8, 0 },
    { G942, "v_smfmac_f32_32x32x32_bf8_fp8 v[64:79], v[0:1], v[8:11], v5", 32, BF8, FP8, 0 },
    { G942, "v_smfmac_f32_32x32x32_bf8_bf8 v[64:79], v[0:1], v[8:11], v5", 32, BF8, BF8, 0 },
    { G950, "v_smfmac_f32_16x16x64_f16 v[64:67], v[0:3], v[8:15], v5", 16, HALF, HALF, 0 },
    { G950, "v_smfmac_f32_16x16x64_bf16 v[64:67], v[0:3], v[8:15], v5", 16, BF16, BF16, 0 },
    { G950, "v_smfmac_f32_16x16x64_f16 v[64:67], v[0:3], v[8:15], v5 abid:1", 16, HALF, HALF, 16 },
    { G950, "v_smfmac_f32_16x16x64_f16 v[64:67], v[0:3], v[8:15], v5 cbsz:1 abid:1", 16, HALF, HALF, 0 },
    { G950, "v_smfmac_i32_16x16x128_i8 v[64:67], v[0:3], v[8:15], v5", 16, INT8, INT8, 0 },
    { G950, "v_smfmac_f32_16x16x128_fp8_fp8 v[64:67], v[0:3], v[8:15], v5", 16, FP8, FP8, 0 },
    { G950, "v_smfmac_f32_16x16x128_fp8_bf8 v[64:67], v[0:3], v[8:15], v5", 16, FP8, BF8, 0 },
    { G950, "v_smfmac_f32_16x16x128_bf8_fp8 v[64:67], v[0:3], v[8:15], v5", 16, BF8, FP8, 0 },
    { G950, "v_smfmac_f32_16x16x128_bf8_bf8 v[64:67], v[0:3], v[8:15], v5", 16, BF8, BF8, 0 },
    { G950, "v_smfmac_f32_32x32x32_f16 v[64:79], v[0:3], v[8:15], v5", 32, HALF, HALF, 0 },
    { G950, "v_smfmac_f32_32x32x32_bf16 v[64:79], v[0:3], v[8:15], v5", 32, BF16, BF16, 0 },
    { G950, "v_smfmac_f32_32x32x32_f16 v[64:79], v[0:3], v[8:15], v5 abid:1", 32, HALF, HALF, 16 },
    { G950, "v_smfmac_f32_32x32x32_f16 v[64:79], v[0:3], v[8:15], v5 cbsz:1 abid:1", 32, HALF, HALF, 0 },
    { G950, "v_smfmac_i32_32x32x64_i8 v[64:79], v[0:3], v[8:15], v5", 32, INT8, INT8, 0 },
    { G950, "v_smfmac_f32_32x32x64_fp8_fp8 v[64:79], v[0:3], v[8:15], v5", 32, FP8, FP8, 0 },
    { G950, "v_smfmac_f32_32x32x64_fp8_bf8 v[64:79], v[0:3], v[8:15], v5", 32, FP8, BF8, 0 },
    { G950, "v_smfmac_f32_32x32x64_bf8_fp8 v[64:79], v[0:3], v[8:15], v5", 32, BF8, FP8, 0 },
    { G950, "v_smfmac_f32_32x32x64_bf8_bf8 v[64:79], v[0:3], v[8:15], v5", 32, BF8, BF8, 0 },
};
enum { SPARSES = sizeof(sparses) / sizeof(sparses[0]) };

static void check_sparse(int k, struct bare *b, const struct emu_inst *at)
{
    static double A[32][128], B[128][32], C[32][32]; /* A dense: with its zeroes */
    bool deep = sparses[k].archs == G950;
    int gfx = deep ? 0x950 : 0x942, m = sparses[k].m,
        per = sparses[k].type_a == HALF || sparses[k].type_a == BF16 ? 4 : 8, n = per << deep, depth = 2 * n * 64 / m;
    int d = strstr(sparses[k].text, " a[64") ? 1064 : 64;
    bool integer = sparses[k].type_a == INT8;
    const struct matrix_case place = { .m = m, .blocks = 1, .type_a = sparses[k].type_a };
    memset(A, 0, sizeof(A));
    bare_randomize(b);
    for (int l = 0; l < 64; l++) {
        int base = l / m * 2 * per, half = depth / 2; /* gfx950: the second half of K is in the upper registers */
        for (int e = 0; e < n; e += 2) {              /* two different places of four, the first before the second */
            unsigned first = (unsigned)(rnd() % 3), second = first + 1 + (unsigned)(rnd() % (3 - first)),
                     at_bit = (unsigned)sparses[k].shift + 2 * (unsigned)e;
            b->v[5][l] = (b->v[5][l] & ~(15u << at_bit)) | (first | second << 2) << at_bit;
            int four = e < per ? base + 2 * e : half + base + 2 * (e - per);
            for (int h = 0; h < 2; h++)
                put_element(b, 0, type_bits[sparses[k].type_a], e + h, l,
                            element(sparses[k].type_a, gfx, &A[l % m][four + (int)(h ? second : first)]));
        }
        for (int e = 0; e < 2 * n; e++)
            put_element(b, 8, type_bits[sparses[k].type_b], e, l,
                        element(sparses[k].type_b, gfx, &B[e < 2 * per ? base + e : half + base + e - 2 * per][l % m]));
    }
    for (int i = 0; i < m; i++)
        for (int j = 0; j < m; j++) {
            int e, l;
            d_place(&place, i, j, 0, &e, &l);
            float v = ((float)(rnd() % 20001) - 10000) / 1000;
            int32_t x = (int32_t)(uint32_t)rnd();
            C[i][j] = integer ? (double)x : (double)v;
            row_of(b, d + e)[l] = integer ? (uint32_t)x : u32(v);
        }
    ck_assert_int_eq(bare_run(b, at), EMU_END);
    for (int i = 0; i < m; i++)
        for (int j = 0; j < m; j++) {
            int e, l;
            double want = C[i][j], size = fabs(want);
            for (int x = 0; x < depth; x++) {
                want += A[i][x] * B[x][j];
                size += fabs(A[i][x] * B[x][j]);
            }
            d_place(&place, i, j, 0, &e, &l);
            uint32_t bits = row_of(b, d + e)[l];
            double got = integer ? (double)(int32_t)bits : (double)f32(bits);
            if (integer)
                want = (double)(int32_t)(uint32_t)(int64_t)want;
            ASSERT_LANE(fabs(got - want) <= (integer ? 0 : size * 1.2e-7 * depth),
                        "%s: D[%d][%d]: got %.9g, expected %.9g", sparses[k].text, i, j, got, want);
        }
}

START_TEST(sparse)
{
    const char *text[SPARSES];
    struct snippets s;
    int arch = _i ? 8 : 2, n = 0;
    for (int k = 0; k < SPARSES; k++)
        n += *(text[k] = sparses[k].archs & 1 << arch ? sparses[k].text : "") != 0;
    struct bare *b = snippets_build(&s, arch, text, SPARSES);
    for (int k = 0; k < SPARSES; k++)
        for (int repeat = 0; *text[k] && repeat < 8; repeat++) {
            rnd_seed((uint64_t)(100 * k + repeat));
            check_sparse(k, b, s.start[k]);
        }
    printf("%s: %d sparse MFMA forms\n", tested[arch].arch.name, n);
    snippets_free(&s);
}
END_TEST

/* gfx12's: lane l holds row l % 16 of A and column l % 16 of B, the half of K that l / 16 says; column l % 16 of
 * D, rows from 8 (l / 16) on. Sparse: of each four of K, A's two elements and their places, two bits each. */

static const struct {
    const char *text;
    int k, type_a, type_b, out; /* out: 0 f32, 1 i32, 2 f16, 3 bf16 */
    bool unsigned_a, unsigned_b;
    int key;          /* sparse: first bit of the index register */
    double sign_a, c; /* A's sign; C times that, 0: |C| */
} wmma12s[] = {
#define W(t, ...)                                                                                                      \
    {                                                                                                                  \
        "v_wmma_" t, __VA_ARGS__                                                                                       \
    }
#define S(t, ...)                                                                                                      \
    {                                                                                                                  \
        "v_swmmac_" t, __VA_ARGS__                                                                                     \
    }
    W("f32_16x16x16_f16 v[64:71], v[0:3], v[8:11], v[32:39]", 16, HALF, HALF, 0, 0, 0, -1, 1, 1),
    W("f32_16x16x16_f16 v[64:71], v[0:3], v[8:11], v[32:39] neg_lo:[1,0,1] neg_hi:[1,0,0]", 16, HALF, HALF, 0, 0, 0, -1,
      -1, -1),
    W("f32_16x16x16_bf16 v[64:71], v[0:3], v[8:11], v[32:39] neg_hi:[0,0,1]", 16, BF16, BF16, 0, 0, 0, -1, 1, 0),
    W("f16_16x16x16_f16 v[64:67], v[0:3], v[8:11], v[32:35]", 16, HALF, HALF, 2, 0, 0, -1, 1, 1),
    W("bf16_16x16x16_bf16 v[64:67], v[0:3], v[8:11], v[32:35]", 16, BF16, BF16, 3, 0, 0, -1, 1, 1),
    W("f32_16x16x16_fp8_fp8 v[64:71], v[0:1], v[8:9], v[32:39]", 16, FP8, FP8, 0, 0, 0, -1, 1, 1),
    W("f32_16x16x16_fp8_bf8 v[64:71], v[0:1], v[8:9], v[32:39]", 16, FP8, BF8, 0, 0, 0, -1, 1, 1),
    W("f32_16x16x16_bf8_fp8 v[64:71], v[0:1], v[8:9], v[32:39]", 16, BF8, FP8, 0, 0, 0, -1, 1, 1),
    W("f32_16x16x16_bf8_bf8 v[64:71], v[0:1], v[8:9], v[32:39]", 16, BF8, BF8, 0, 0, 0, -1, 1, 1),
    W("i32_16x16x16_iu8 v[64:71], v[0:1], v[8:9], v[32:39] neg_lo:[1,1,0]", 16, SIGNED8, SIGNED8, 1, 0, 0, -1, 1, 1),
    W("i32_16x16x16_iu8 v[64:71], v[0:1], v[8:9], v[32:39] neg_lo:[1,0,0]", 16, SIGNED8, SIGNED8, 1, 0, 1, -1, 1, 1),
    W("i32_16x16x16_iu4 v[64:71], v0, v8, v[32:39] neg_lo:[0,1,0]", 16, SIGNED4, SIGNED4, 1, 1, 0, -1, 1, 1),
    W("i32_16x16x32_iu4 v[64:71], v[0:1], v[8:9], v[32:39] neg_lo:[1,1,0]", 32, SIGNED4, SIGNED4, 1, 0, 0, -1, 1, 1),
    S("f32_16x16x32_f16 v[64:71], v[0:3], v[8:15], v5", 32, HALF, HALF, 0, 0, 0, 0, 1, 1),
    S("f32_16x16x32_f16 v[64:71], v[0:3], v[8:15], v5 index_key:1", 32, HALF, HALF, 0, 0, 0, 16, 1, 1),
    S("f32_16x16x32_bf16 v[64:71], v[0:3], v[8:15], v5", 32, BF16, BF16, 0, 0, 0, 0, 1, 1),
    S("f16_16x16x32_f16 v[64:67], v[0:3], v[8:15], v5", 32, HALF, HALF, 2, 0, 0, 0, 1, 1),
    S("bf16_16x16x32_bf16 v[64:67], v[0:3], v[8:15], v5", 32, BF16, BF16, 3, 0, 0, 0, 1, 1),
    S("f32_16x16x32_fp8_fp8 v[64:71], v[0:1], v[8:11], v5 index_key:1", 32, FP8, FP8, 0, 0, 0, 16, 1, 1),
    S("f32_16x16x32_fp8_bf8 v[64:71], v[0:1], v[8:11], v5", 32, FP8, BF8, 0, 0, 0, 0, 1, 1),
    S("f32_16x16x32_bf8_fp8 v[64:71], v[0:1], v[8:11], v5", 32, BF8, FP8, 0, 0, 0, 0, 1, 1),
    S("f32_16x16x32_bf8_bf8 v[64:71], v[0:1], v[8:11], v5", 32, BF8, BF8, 0, 0, 0, 0, 1, 1),
    S("i32_16x16x32_iu8 v[64:71], v[0:1], v[8:11], v5 neg_lo:[1,1,0]", 32, SIGNED8, SIGNED8, 1, 0, 0, 0, 1, 1),
    S("i32_16x16x32_iu4 v[64:71], v0, v[8:9], v5 neg_lo:[1,1,0]", 32, SIGNED4, SIGNED4, 1, 0, 0, 0, 1, 1),
    S("i32_16x16x64_iu4 v[64:71], v[0:1], v[8:11], v5 neg_lo:[1,0,0]", 64, SIGNED4, SIGNED4, 1, 0, 1, 0, 1, 1),
#undef W
#undef S
};
enum { WMMA12S = sizeof(wmma12s) / sizeof(wmma12s[0]) };

static double unsigned_of(double v, int type, bool is_unsigned)
{
    return is_unsigned && v < 0 ? v + (type == SIGNED8 ? 256 : 16) : v;
}
/* The register and the bits of D's or C's element [i][j]; its lane is 16 (i / 8) + j. */
static uint32_t taken(const struct bare *b, int reg, int out, int i, int j)
{
    uint32_t x = b->v[reg + i % 8 / (out >= 2 ? 2 : 1)][16 * (i / 8) + j];
    return out >= 2 ? x >> 16 * (i % 2) & 0xffff : x;
}

static void check_wmma12(int c, struct bare *b, const struct emu_inst *at)
{
    static double A[16][64], B[64][16], C[16][16];
    int k = wmma12s[c].k, out = wmma12s[c].out, key = wmma12s[c].key, cd = key < 0 ? 32 : 64;
    int ta = wmma12s[c].type_a, tb = wmma12s[c].type_b, bits = type_bits[ta];
    memset(A, 0, sizeof(A));
    bare_randomize(b);
    for (int l = 0; l < 32; l++) {
        int first = l / 16 * k / 2;
        for (int e = 0; e < (key < 0 ? k / 2 : k / 4); e += 2) {
            unsigned one = (unsigned)(rnd() % 3), two = one + 1 + (unsigned)(rnd() % (3 - one));
            for (int h = 0; h < 2; h++) {
                double v;
                put_element(b, 0, bits, e + h, l, element(ta, 0x1200, &v));
                v = wmma12s[c].sign_a * unsigned_of(v, ta, wmma12s[c].unsigned_a);
                A[l % 16][key < 0 ? first + e + h : first + 2 * e + (int)(h ? two : one)] = v;
            }
            if (key >= 0)
                b->v[5][l] = (b->v[5][l] & ~(15u << (key + 2 * e))) | (one | two << 2) << (key + 2 * e);
        }
        for (int e = 0; e < k / 2; e++) {
            double v;
            put_element(b, 8, bits, e, l, element(tb, 0x1200, &v));
            B[first + e][l % 16] = unsigned_of(v, tb, wmma12s[c].unsigned_b);
        }
    }
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 16; j++) {
            float v = ((float)(rnd() % 20001) - 10000) / 5000;
            uint32_t x = out == 0 ? u32(v) : out == 1 ? rnd32() : out == 2 ? u16((_Float16)v) : u32(v) >> 16;
            put_element(b, cd, out >= 2 ? 16 : 32, i % 8, 16 * (i / 8) + j, x);
            double old = out == 0   ? (double)v
                         : out == 1 ? (double)(int32_t)x
                         : out == 2 ? (double)f16(x)
                                    : (double)f32(x << 16);
            C[i][j] = wmma12s[c].c == 0 ? fabs(old) : wmma12s[c].c * old;
        }
    ck_assert_int_eq(bare_run(b, at), EMU_END);
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 16; j++) {
            double want = C[i][j], size = fabs(want);
            for (int e = 0; e < k; e++) {
                want += A[i][e] * B[e][j];
                size += fabs(A[i][e] * B[e][j]);
            }
            uint32_t x = taken(b, 64, out, i, j);
            double got = out == 0   ? (double)f32(x)
                         : out == 1 ? (double)(int32_t)x
                         : out == 2 ? (double)f16(x)
                                    : (double)f32(x << 16);
            if (out == 1)
                want = (double)(int32_t)(uint32_t)(int64_t)want;
            double bound = out == 1 ? 0 : size * 1.2e-7 * k + fabs(want) * (out == 3 ? 0x1p-8 : out == 2 ? 0x1p-11 : 0);
            ASSERT_LANE(fabs(got - want) <= bound + (out == 1 ? 0 : 1e-7), "%s: D[%d][%d]: got %.9g, expected %.9g",
                        wmma12s[c].text, i, j, got, want);
        }
}

START_TEST(wmma12)
{
    const char *text[WMMA12S];
    struct snippets s;
    for (int k = 0; k < WMMA12S; k++)
        text[k] = wmma12s[k].text;
    struct bare *b = snippets_build(&s, 6, text, WMMA12S);
    for (int k = 0; k < WMMA12S; k++)
        for (int repeat = 0; repeat < 8; repeat++) {
            rnd_seed((uint64_t)(100 * k + repeat));
            check_wmma12(k, b, s.start[k]);
        }
    printf("gfx1201: %d WMMA forms\n", WMMA12S);
    snippets_free(&s);
}
END_TEST

void emu_case_matrix(Suite *s)
{
    TCase *c = test_case(s, "matrix", NULL, NULL);
    ADD_TESTS(c, aliases, wmma12);
    ADD_LOOPS(c, 4, mfma);
    ADD_LOOPS(c, 2, sparse, wmma);
}
