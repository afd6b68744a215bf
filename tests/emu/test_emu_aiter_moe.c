/* SPDX-License-Identifier: MIT
 *
 * AITER's hand-written kernels of a mixture of experts on the emulated gfx942 and gfx950; see test_emu_aiter.c, which
 * says what RFG_AITER_DIR is. One kernel does both matrix products of a token's experts:
 *
 *   O[token] += weight[slot] * W2[e] act(W1[e] X[token])        (g1u0)
 *   O[token] += weight[slot] * W2[e] (act(G[e] X) * (U[e] X))   (g1u1: W1's first half is G, its second U)
 *
 * A workgroup has 32 tokens of one expert and `tile` of the inner dimension; O is added to by atomics. */
#include "tests/emu/emu_aiter.h"

enum type { BF16, FP8, INT8 };
/* multix: each slot of a token has an X of its own, and what is between the products is scaled for each expert
 * ("smooth quantisation"). blocks: scales for 128 x 128 of a weight, and for 128 of a token; else for rows. lockstep:
 * the waves take turns of one instruction. The kernels with an lds-race write one part of what is between the products
 * over another, with no barrier since it was read: a wave that is 80 instructions ahead makes the others' results
 * wrong. */
static const struct {
    const char *file, *known;
    enum type type;
    bool gated, gelu, multix, blocks;
    int tile, inner, persistent;
    bool lockstep;
} moes[] = {
    { "silu/fmoe_bf16_pertokenFp8_g1u1_silu_1tg_32x128", NULL, FP8, true, false, false, false, 128, 256, 0, false },
    { "silu/fmoe_bf16_pertokenFp8_g1u1_vs_silu_1tg_32x256", "missing-wait", FP8, true, false, false, false, 256, 256, 0,
      false },
    { "gelu/fmoe_bf16_pertokenFp8_g1u1_gelu_1tg_32x192", "missing-wait", FP8, true, true, false, false, 192, 384, 0,
      false },
    { "silu/fmoe_bf16_pertokenFp8_g1u1_multix_silu_1tg_32x320", NULL, FP8, true, false, true, false, 320, 320, 0,
      false },
    { "silu/fmoe_bf16_pertokenFp8_g1u1_vs_silu_1tg_ps_32x128", NULL, FP8, true, false, false, false, 128, 256, 4,
      false },
    { "silu/fmoe_bf16_pertokenInt8_g1u1_vs_silu_1tg_32x256", NULL, INT8, true, false, false, false, 256, 512, 0,
      false },
    { "silu/fmoe_bf16_pertokenInt8_g1u1_vs_multix_silu_1tg_32x128", NULL, INT8, true, false, true, false, 128, 256, 0,
      false },
    { "silu/fmoe_bf16_pertokenInt8_g1u1_vs_silu_1tg_ps_32x384", NULL, INT8, true, false, false, false, 384, 768, 6,
      false },
    { "silu/fmoe_bf16_pertokenInt8_g1u0_vs_silu_1tg_32x256", NULL, INT8, false, false, true, false, 256, 256, 0,
      false },
    { "gelu/fmoe_bf16_pertokenInt8_g1u0_vs_gelu_1tg_32x512", NULL, INT8, false, true, true, false, 512, 512, 0, false },
    { "silu/fmoe_bf16_noquantBf16_g1u0_vs_atm_inlv_silu_1tg_32x512", "lds-race missing-wait", BF16, false, false, false,
      false, 512, 512, 0, true },
    { "gelu/fmoe_bf16_noquantBf16_g1u0_vs_atm_inlv_gelu_1tg_32x512", "lds-race missing-wait", BF16, false, true, false,
      false, 512, 512, 0, true },
    { "silu/fmoe_bf16_blockscaleFp8_g1u1_vs_silu_1tg_32x256", "lds-race missing-wait", FP8, true, false, false, true,
      256, 512, 0, true },
};

static void *random_values(size_t n, enum type type)
{
    return type == BF16 ? (void *)random_bf16(n, 1) : random_bytes(n, type == FP8);
}
static double value(const void *p, size_t i, enum type type)
{
    return type == BF16  ? (double)bf16_value(((const uint16_t *)p)[i])
           : type == FP8 ? (double)e4m3(((const uint8_t *)p)[i])
                         : (double)((const int8_t *)p)[i];
}
/* Scales with which values of this type are about `size`. */
static float *random_scales(size_t n, enum type type, double size)
{
    float *s = malloc(4 * n), unit = type == INT8 ? 74 : 4 * e4m3(0x38) * 2;
    ck_assert_ptr_nonnull(s);
    for (size_t i = 0; i < n; i++)
        s[i] = type == BF16 ? 1 : (float)size * (1 + uniform() / 2) / unit;
    return s;
}
/* Rows by 16, of each 16 bytes: [rows / 16][bytes / 16][16][16]. */
static void *upload_shuffled(const void *w, size_t rows, size_t bytes)
{
    uint8_t *s = malloc(rows * bytes);
    ck_assert_ptr_nonnull(s);
    for (size_t r = 0; r < rows; r++)
        for (size_t b = 0; b < bytes; b += 16)
            memcpy(s + r / 16 * 16 * bytes + b * 16 + r % 16 * 16, (const uint8_t *)w + r * bytes + b, 16);
    void *p = upload(s, rows * bytes);
    free(s);
    return p;
}
static double activation(double x, bool gelu)
{
    return gelu ? x * (1 + erf(x / sqrt(2))) / 2 : x / (1 + exp(-x));
}

enum { TOKENS = 21, K = 2, EXPERTS = 3, DIM = 1024, MOST = 8 /* blocks of 32 */ };
struct mixture {
    enum type type;
    bool gated, blocks, multix, gelu;
    int inner, rows, s1_n, s2_n;
    void *x, *w1, *w2;
    float *sx, *s1, *s2, *smooth;
    /* each token's experts, and the tokens by expert, in blocks of 32 */
    int expert[TOKENS][K], n_blocks;
    float weight[TOKENS][K], sorted_weight[32 * MOST];
    int32_t sorted[32 * MOST], block_expert[MOST];
};

static void route(struct mixture *m)
{
    for (int t = 0; t < TOKENS; t++)
        for (int k = 0; k < K; k++) {
            m->expert[t][k] = (t * t + k) % EXPERTS;
            m->weight[t][k] = 0.5f + uniform() / 4;
        }
    for (int i = 0; i < 32 * MOST; i++) {
        m->sorted[i] = K << 24 | TOKENS;
        m->sorted_weight[i] = 0;
    }
    for (int e = 0; e < EXPERTS; e++) {
        int n = 0;
        for (int t = 0; t < TOKENS; t++)
            for (int k = 0; k < K; k++)
                if (m->expert[t][k] == e) {
                    m->sorted[32 * m->n_blocks + n] = k << 24 | t;
                    m->sorted_weight[32 * m->n_blocks + n++] = m->weight[t][k];
                }
        ck_assert(n && n <= 32);
        m->block_expert[m->n_blocks++] = e;
    }
}

/* A token's results, the squares of what their roundings add up to, and the sums of magnitudes. */
static void expect(const struct mixture *m, int t, double *want, double *variance, double *most)
{
    double *h = malloc(sizeof(*h) * (size_t)m->inner);
    memset(want, 0, sizeof(*want) * DIM);
    memset(variance, 0, sizeof(*variance) * DIM);
    memset(most, 0, sizeof(*most) * DIM);
    for (int k = 0; k < K; k++) {
        int e = m->expert[t][k], xr = m->multix ? k * TOKENS + t : t;
        double largest = 0;
        for (int j = 0; j < m->inner; j++) {
            double sum[2] = { 0, 1 };
            for (int half = 0; half <= m->gated; half++) {
                int r = half * m->inner + j;
                sum[half] = 0;
                for (int d = 0; d < DIM; d++)
                    sum[half] += value(m->x, (size_t)(xr * DIM + d), m->type) *
                                 value(m->w1, (size_t)((e * m->rows + r) * DIM + d), m->type) *
                                 (double)(m->blocks ? m->sx[d / 128 * TOKENS + t] : m->sx[xr]) *
                                 (double)(m->blocks ? m->s1[e * m->s1_n + r / 128 * (DIM / 128) + d / 128]
                                                    : m->s1[e * m->s1_n + r]);
            }
            h[j] = activation(sum[0], m->gelu) * sum[1] * (double)m->smooth[e * m->inner + j];
            largest = fmax(largest, fabs(h[j]));
        }
        for (int d = 0; d < DIM; d++) {
            double sum = 0;
            for (int j = 0; j < m->inner; j++) {
                double w = value(m->w2, (size_t)((e * DIM + d) * m->inner + j), m->type) * (double)m->weight[t][k] *
                           (double)(m->blocks ? m->s2[e * m->s2_n + d / 128 * (m->inner / 128) + j / 128]
                                              : m->s2[e * m->s2_n + d]);
                /* h is rounded to the type, cut to int8: what that makes of the sum, were it random */
                double error = m->type == INT8 ? largest / 127 : fabs(h[j]) * (m->type == FP8 ? 0x1p-4 : 0x1p-8);
                sum += h[j] * w;
                variance[d] += error * error * w * w / 3;
            }
            want[d] += sum;
            most[d] += fabs(sum);
        }
    }
    free(h);
}

START_TEST(moe)
{
    int which = open_for(_i, COUNT_OF(moes));
    enum type type = moes[which].type;
    bool gated = moes[which].gated, blocks = moes[which].blocks, multix = moes[which].multix;
    int inner = moes[which].inner, rows = gated ? 2 * inner : inner, xs = multix ? K * TOKENS : TOKENS;
    static struct mixture m;
    size_t size = type == BF16 ? 2 : 1, n1 = (size_t)(EXPERTS * rows * DIM), n2 = (size_t)(EXPERTS * DIM * inner);
    void *x = random_values((size_t)(xs * DIM), type), *w1 = random_values(n1, type), *w2 = random_values(n2, type);
    int sx_n = blocks ? TOKENS * DIM / 128 : xs, s1_n = blocks ? rows / 128 * (DIM / 128) : rows,
        s2_n = blocks ? DIM / 128 * (inner / 128) : DIM;
    float *sx = random_scales((size_t)sx_n, type, 1),
          *s1 = random_scales((size_t)(EXPERTS * s1_n), type, 2 / sqrt(DIM)),
          *s2 = random_scales((size_t)(EXPERTS * s2_n), type, 1 / sqrt(inner)),
          *smooth = malloc(4 * (size_t)(EXPERTS * inner));
    for (int i = 0; i < EXPERTS * inner; i++)
        smooth[i] = multix ? 1 + uniform() / 2 : 1;
    m = (struct mixture){ type, gated, blocks, multix, moes[which].gelu, inner, rows, s1_n, s2_n, x, w1, w2,
                          sx,   s1,    s2,     smooth };
    route(&m);
    int32_t valid[2] = { 32 * m.n_blocks, TOKENS };
    uint16_t *o = zeroes(2 * TOKENS * DIM);
    struct arguments a = { 0 };
    put_pointer(&a, o);
    put_pointer(&a, upload(x, (size_t)(xs * DIM) * size));
    put_pointer(&a, upload_shuffled(w1, (size_t)(EXPERTS * rows), DIM * size));
    put_pointer(&a, upload(valid, sizeof(valid)));
    put_pointer(&a, upload_shuffled(w2, EXPERTS * DIM, (size_t)inner * size));
    put_pointer(&a, type == BF16 ? NULL : upload(sx, 4 * (size_t)sx_n));
    put_pointer(&a, type == BF16 ? NULL : upload(s1, 4 * (size_t)(EXPERTS * s1_n)));
    put_pointer(&a, type == BF16 ? NULL : upload(s2, 4 * (size_t)(EXPERTS * s2_n)));
    put_pointer(&a, multix ? upload(smooth, 4 * (size_t)(EXPERTS * inner)) : NULL);
    put_pointer(&a, upload(m.sorted, sizeof(m.sorted)));
    put_pointer(&a, upload(m.sorted_weight, sizeof(m.sorted_weight)));
    put_pointer(&a, upload(m.block_expert, sizeof(m.block_expert)));
    const uint32_t row_x = DIM * (uint32_t)size, row_2 = (uint32_t)inner * (uint32_t)size,
                   tiles = (uint32_t)((inner + moes[which].tile - 1) / moes[which].tile),
                   groups = (uint32_t)moes[which].persistent,
                   rest[] = { DIM,
                              (uint32_t)inner,
                              TOKENS,
                              EXPERTS,
                              row_x,
                              row_x,
                              row_2,
                              2 * DIM,
                              row_x * (uint32_t)rows,
                              row_2 * DIM,
                              4 * (uint32_t)s1_n,
                              4 * (uint32_t)s2_n,
                              4 * (uint32_t)inner,
                              K,
                              groups / tiles * tiles,
                              tiles };
    for (int i = 0; i < COUNT_OF(rest); i++)
        put_u32(&a, rest[i]);
    char file[96];
    snprintf(file, sizeof(file), "fmoe/%s.co", moes[which].file);
    if (moes[which].lockstep)
        setenv("RFG_EMU_TURN", "1", 1);
    launch(file, moes[which].known, &a, groups ? groups : tiles, groups ? 1 : (unsigned)m.n_blocks + 1, 1, 256);
    uint16_t *got = download(o, 2 * TOKENS * DIM);
    double worst = 0, largest_want = 0;
    static double want[DIM], variance[DIM], most[DIM];
    for (int t = 0; t < TOKENS; t++) {
        expect(&m, t, want, variance, most);
        for (int d = 0; d < DIM; d++) {
            double was = (double)bf16_value(got[t * DIM + d]), off = fabs(was - want[d]);
            ck_assert_msg(off <= 6 * sqrt(variance[d]) + 0x1p-7 * most[d] + 1e-3,
                          "O[%d][%d]: got %g, expected %g, of deviation %g", t, d, was, want[d], sqrt(variance[d]));
            worst = fmax(worst, off);
            largest_want = fmax(largest_want, fabs(want[d]));
        }
    }
    printf("%s, %d tokens, %d experts: right, error at most %.2g of values up to %.3g\n", file, TOKENS, EXPERTS, worst,
           largest_want);
}
END_TEST

int main(void)
{
    const int both = architectures();
    if (!both)
        return 77;
    Suite *s = suite_create("emu_aiter_moe");
    TCase *c = test_case(s, "moe", NULL, NULL);
    tcase_set_timeout(c, 120);
    ADD_LOOPS(c, both * COUNT_OF(moes), moe);
    return run_suite(s);
}
