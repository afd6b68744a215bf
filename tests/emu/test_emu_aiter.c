/* SPDX-License-Identifier: MIT
 *
 * Hand-written kernels of the public wheel amd-aiter, run on the emulated gfx942 and gfx950 with the checks on and
 * compared with plain C. RFG_AITER_DIR says where the wheel's code objects are, gfx950's beside gfx942's:
 *
 *   pip download --no-deps amd-aiter && unzip amd_aiter-*.whl 'aiter_meta/hsa/<star>'
 *   RFG_AITER_DIR=$PWD/aiter_meta/hsa/gfx942 build/tests/test-emu_aiter
 *
 * Without it the tests are skipped. The kernels' arguments are each padded to 16 bytes; their names are in the code
 * objects' metadata (rfg-emu list), their meaning is in AITER's csrc/py_itfs_cu/asm_*.cu. */
#include "tests/emu/emu_aiter.h"

/* ---- GEMM: D[M][N] += A[M][K] B[N][K]^T, fp32 of bf16 ------------------------------------------------------------ */

static const struct {
    const char *file;
    int tile_m, m, n, k, split;
} gemms[] = {
    { "bf16gemm/bf16gemm_outf32_tn_32x64_pf3.co", 32, 64, 256, 5120, 10 },
    { "bf16gemm/bf16gemm_outf32_tn_32x64_pf3.co", 32, 50, 64, 512, 1 },
    { "bf16gemm/bf16gemm_outf32_tn_48x64_pf3.co", 48, 48, 128, 1024, 2 },
    { "bf16gemm/bf16gemm_outf32_tn_64x64_pf3.co", 64, 100, 64, 1024, 2 },
    { "bf16gemm/bf16gemm_outf32_tn_96x64_pf3.co", 96, 96, 64, 768, 1 },
};

START_TEST(gemm)
{
    int p = open_for(_i, COUNT_OF(gemms));
    int m = gemms[p].m, n = gemms[p].n, k = gemms[p].k, split = gemms[p].split, tile = gemms[p].tile_m;
    uint16_t *a = random_bf16((size_t)m * (size_t)k, 1), *b = random_bf16((size_t)n * (size_t)k, 1);
    struct arguments x = { 0 };
    float *d = zeroes(4 * (size_t)m * (size_t)n);
    put_pointer(&x, d);
    put_pointer(&x, NULL);
    put_pointer(&x, upload(a, 2 * (size_t)m * (size_t)k));
    put_pointer(&x, upload(b, 2 * (size_t)n * (size_t)k));
    put_f32(&x, 1);
    put_f32(&x, 0);
    const uint32_t strides[] = { 0, 0, 4 * (uint32_t)n, 0, 2 * (uint32_t)k, 0, 2 * (uint32_t)k, 0 }; /* D, C, A, B */
    for (int i = 0; i < 8; i++)
        put_u32(&x, strides[i]);
    put_u32(&x, (uint32_t)m);
    put_u32(&x, (uint32_t)n);
    put_u32(&x, (uint32_t)k);
    put_u32(&x, (uint32_t)split);
    launch(gemms[p].file, NULL, &x, (unsigned)n / 64, (unsigned)((m + tile - 1) / tile), (unsigned)split, 256);
    float *got = download(d, 4 * (size_t)m * (size_t)n);
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            double want = 0, size = 0;
            for (int e = 0; e < k; e++) {
                double p = (double)bf16_value(a[i * k + e]) * (double)bf16_value(b[j * k + e]);
                want += p;
                size += fabs(p);
            }
            /* each of k sums in fp32 rounds by half an ulp of at most `size`: together about sqrt(k) of them, thrice */
            ck_assert_msg(fabs((double)got[i * n + j] - want) <= 3 * sqrt(k) * size * 0x1p-25,
                          "D[%d][%d]: got %g, expected %g", i, j, (double)got[i * n + j], want);
        }
    printf("gemm M=%d N=%d K=%d split-K %d: right\n", m, n, k, split);
    free(got);
    free(a);
    free(b);
}
END_TEST

/* ---- GEMM of fp4 with scales of 32: D[M][N] = A[M][K] B[N][K]^T, bf16; gfx950's ---------------------------------- */

static const struct {
    int tile_m, tile_n, m, n, k, split; /* split: of K, by log2 */
} f4gemms[] = {
    { 128, 128, 128, 128, 512, 0 }, { 128, 256, 128, 256, 256, 0 }, { 128, 384, 100, 384, 512, 0 },
    { 128, 512, 128, 512, 256, 0 }, { 160, 128, 160, 256, 512, 0 }, { 160, 256, 160, 256, 256, 0 },
    { 160, 384, 160, 384, 256, 0 }, { 192, 128, 192, 128, 512, 0 }, { 192, 256, 130, 256, 256, 0 },
    { 224, 128, 224, 128, 256, 0 }, { 224, 256, 224, 256, 256, 0 }, { 256, 128, 256, 128, 512, 0 },
    { 256, 256, 256, 256, 256, 0 }, { 32, 128, 32, 128, 1024, 0 },  { 32, 128, 64, 256, 512, 0 },
    { 32, 256, 32, 256, 512, 0 },   { 32, 384, 17, 384, 512, 0 },   { 32, 512, 32, 512, 512, 0 },
    { 32, 640, 32, 640, 256, 0 },   { 32, 768, 32, 768, 256, 0 },   { 32, 896, 32, 896, 256, 0 },
    { 32, 1024, 32, 1024, 256, 0 }, { 64, 128, 64, 128, 512, 0 },   { 64, 256, 64, 256, 256, 0 },
    { 64, 384, 64, 384, 256, 0 },   { 64, 512, 50, 512, 256, 0 },   { 64, 640, 64, 640, 256, 0 },
    { 64, 768, 64, 768, 256, 0 },   { 64, 896, 64, 896, 256, 0 },   { 64, 1024, 64, 1024, 256, 0 },
    { 96, 128, 96, 128, 512, 0 },   { 96, 256, 96, 256, 256, 0 },   { 96, 384, 96, 384, 256, 0 },
    { 96, 512, 96, 512, 256, 0 },   { 96, 640, 96, 640, 256, 0 },
};

/* Scales of rows padded to 256 and columns to 8: [rows / 32][columns / 8][column % 4][row % 16][column / 4 % 2][row /
 * 16 % 2]. */
static size_t scale_at(int row, int column, int columns)
{
    return (size_t)((row / 32 * (columns / 8) + column / 8) * 256 + column % 4 * 64 + row % 16 * 4 +
                    column / 4 % 2 * 2 + row / 16 % 2);
}
static uint8_t *random_scales(int rows, int columns)
{
    uint8_t *s = malloc((size_t)(rows * columns));
    ck_assert_ptr_nonnull(s);
    for (int i = 0; i < rows * columns; i++)
        s[i] = (uint8_t)(124 + random_bits() % 7);
    return s;
}
static double e2m1(const uint8_t *bytes, size_t at)
{
    static const double values[8] = { 0, 0.5, 1, 1.5, 2, 3, 4, 6 };
    unsigned x = bytes[at / 2] >> at % 2 * 4 & 15;
    return x & 8 ? -values[x & 7] : values[x];
}

START_TEST(f4gemm)
{
    open_for(1, 1);
    int m = f4gemms[_i].m, n = f4gemms[_i].n, k = f4gemms[_i].k, rows = (m + 31) / 32 * 32,
        columns = (k / 32 + 7) / 8 * 8;
    int rows_a = (m + 255) / 256 * 256, rows_b = (n + 255) / 256 * 256;
    size_t na = (size_t)(rows * k / 2), nb = (size_t)(n * k / 2);
    uint8_t *a = malloc(na), *b = malloc(nb), *shuffled = malloc(nb), *sa = random_scales(rows_a, columns),
            *sb = random_scales(rows_b, columns);
    for (size_t i = 0; i < na; i++)
        a[i] = (uint8_t)(random_bits() >> 8);
    for (size_t i = 0; i < nb; i++)
        b[i] = (uint8_t)(random_bits() >> 8);
    for (int j = 0; j < n; j++) /* [N / 16][K / 64][2][16][16 bytes] */
        for (int x = 0; x < k / 2; x++)
            shuffled[(size_t)(j / 16 * 16 * (k / 2) + x / 16 * 256 + j % 16 * 16 + x % 16)] = b[j * (k / 2) + x];
    uint16_t *d = zeroes(2 * (size_t)(rows * n));
    struct arguments x = { 0 };
    put_pointer(&x, d);
    put_pointer(&x, NULL);
    put_pointer(&x, upload(a, na));
    put_pointer(&x, upload(shuffled, nb));
    put_f32(&x, 1);
    put_f32(&x, 0);
    const uint32_t rest[] = { 0,           0, (uint32_t)n, 0,           (uint32_t)k, 0,
                              (uint32_t)k, 0, (uint32_t)m, (uint32_t)n, (uint32_t)k };
    for (int i = 0; i < COUNT_OF(rest); i++)
        put_u32(&x, rest[i]);
    put_pointer(&x, upload(sa, (size_t)(rows_a * columns)));
    put_pointer(&x, upload(sb, (size_t)(rows_b * columns)));
    put_u32(&x, (uint32_t)columns);
    put_u32(&x, 0);
    put_u32(&x, (uint32_t)columns);
    put_u32(&x, 0);
    put_u32(&x, (uint32_t)f4gemms[_i].split);
    char file[96];
    snprintf(file, sizeof(file), "f4gemm/f4gemm_bf16_per1x32Fp4_BpreShuffle_%dx%d.co", f4gemms[_i].tile_m,
             f4gemms[_i].tile_n);
    launch(file, NULL, &x, (unsigned)((n + f4gemms[_i].tile_n - 1) / f4gemms[_i].tile_n),
           (unsigned)((m + f4gemms[_i].tile_m - 1) / f4gemms[_i].tile_m), 1, 256);
    uint16_t *got = download(d, 2 * (size_t)(rows * n));
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            double want = 0, size = 0;
            for (int g = 0; g < k / 32; g++) {
                double sum = 0, most = 0;
                for (int e = 32 * g; e < 32 * g + 32; e++) {
                    double p = e2m1(a, (size_t)(i * k + e)) * e2m1(b, (size_t)(j * k + e));
                    sum += p;
                    most += fabs(p);
                }
                double s = ldexp(1, sa[scale_at(i, g, columns)] + sb[scale_at(j, g, columns)] - 254);
                want += s * sum;
                size += s * most;
            }
            double was = (double)bf16_value(got[(size_t)i * (size_t)n + (size_t)j]);
            ck_assert_msg(fabs(was - want) <= 0x1p-8 * fabs(want) + 1e-5 * size, "D[%d][%d]: got %g, expected %g", i, j,
                          was, want);
        }
    printf("%s M=%d N=%d K=%d: right\n", file, m, n, k);
    free(got);
    free(a);
    free(b);
    free(shuffled);
}
END_TEST

/* ---- "layer norm" of a sum: bf16, rows of 8192 ------------------------------------------------------------------- */

/* A workgroup does two rows in a loop whose only barrier is between writing the waves' sums to LDS and reading them:
 * one wave's second row overwrites what others have still to read of the first. So lds-race is right, and the first
 * rows' results depend on the schedule; the second rows' must be right. */
START_TEST(layer_norm)
{
    enum { M = 4, N = 8192 };
    open_device();
    uint16_t *in = random_bf16(M * N, 2), *residual = random_bf16(M * N, 1), *weight = random_bf16(N, 1),
             *bias = random_bf16(N, 1);
    uint16_t *out = zeroes(2 * M * N), *out_residual = zeroes(2 * M * N);
    struct arguments x = { 0 };
    put_pointer(&x, out);
    put_pointer(&x, upload(in, 2 * M * N));
    put_pointer(&x, upload(weight, 2 * N));
    put_pointer(&x, upload(bias, 2 * N));
    put_f32(&x, 1e-5f);
    put_u32(&x, M);
    put_u32(&x, N);
    put_pointer(&x, out_residual);
    put_pointer(&x, upload(residual, 2 * M * N));
    put_pointer(&x, NULL);
    put_pointer(&x, NULL);
    launch("layer_norm.co", "lds-race", &x, M / 2, 1, 1, 256);
    uint16_t *got = download(out, 2 * M * N), *got_residual = download(out_residual, 2 * M * N);
    for (int i = 0; i < M; i++) {
        double square = 0;
        for (int j = 0; j < N; j++) {
            float v = bf16_value(in[i * N + j]) + bf16_value(residual[i * N + j]);
            uint32_t bits; /* cut to bf16, not rounded */
            memcpy(&bits, &v, 4);
            ck_assert_msg(got_residual[i * N + j] == bits >> 16, "residual[%d][%d]: got %04x, expected %08x", i, j,
                          got_residual[i * N + j], bits);
            square += (double)v * (double)v / N;
        }
        for (int j = 0; j < N && i % 2; j++) {
            double v = (double)bf16_value(in[i * N + j]) + (double)bf16_value(residual[i * N + j]),
                   want = v / sqrt(square + 1e-5) * (double)bf16_value(weight[j]) + (double)bf16_value(bias[j]);
            /* one cut to bf16, and fp32's rounding of the sum whose terms may cancel */
            ck_assert_msg(fabs((double)bf16_value(got[i * N + j]) - want) <= fabs(want) * 0x1p-7 + 1e-6,
                          "out[%d][%d]: got %g, expected %g", i, j, (double)bf16_value(got[i * N + j]), want);
        }
    }
    printf("layer_norm M=%d N=%d: right\n", M, N);
}
END_TEST

/* ---- top k of a softmax ------------------------------------------------------------------------------------------ */

static const struct {
    const char *file;
    int rows, experts, k;
    bool renormalize;
} topks[] = {
    { "topksoftmax/topksoftmax_4x128x6.co", 4, 128, 6, true },
    { "topksoftmax/topksoftmax_4x128x8.co", 4, 128, 8, false },
    { "topksoftmax/topksoftmax_4x256x6.co", 4, 256, 6, false },
    { "topksoftmax/topksoftmax_4x256x8.co", 4, 256, 8, true },
    { "topksoftmax/topksoftmax_12x128x6.co", 12, 128, 6, true },
    { "topksoftmax/topksoftmax_12x256x8.co", 12, 256, 8, true },
};

START_TEST(topk)
{
    enum { TOKENS = 11 };
    int experts = topks[_i].experts, k = topks[_i].k, rows = topks[_i].rows;
    open_device();
    float *gate = malloc(4 * TOKENS * (size_t)experts);
    for (int i = 0; i < TOKENS * experts; i++)
        gate[i] = 4 * uniform();
    int32_t *index = zeroes(4 * TOKENS * (size_t)k);
    float *weight = zeroes(4 * TOKENS * (size_t)k);
    struct arguments x = { 0 };
    put_pointer(&x, index);
    put_pointer(&x, weight);
    put_pointer(&x, upload(gate, 4 * TOKENS * (size_t)experts));
    put_u32(&x, TOKENS);
    put_u32(&x, (uint32_t)experts);
    put_u32(&x, (uint32_t)k);
    put_u32(&x, topks[_i].renormalize);
    put_u32(&x, 4 * (uint32_t)k);
    launch(topks[_i].file, NULL, &x, (unsigned)((TOKENS + rows - 1) / rows), 1, 1, 256);
    int32_t *got_index = download(index, 4 * TOKENS * (size_t)k);
    float *got = download(weight, 4 * TOKENS * (size_t)k);
    for (int t = 0; t < TOKENS; t++) {
        float *g = gate + t * experts;
        double sum = 0, chosen = 0, most = (double)g[0];
        bool taken[256] = { false };
        int want[8];
        for (int e = 0; e < experts; e++)
            most = fmax(most, (double)g[e]);
        for (int e = 0; e < experts; e++)
            sum += exp((double)g[e] - most);
        for (int i = 0; i < k; i++) {
            int best = -1;
            for (int e = 0; e < experts; e++)
                if (!taken[e] && (best < 0 || g[e] > g[best]))
                    best = e;
            taken[best] = true;
            want[i] = best;
            chosen += exp((double)g[best] - most) / sum;
        }
        for (int i = 0; i < k; i++) {
            double p = exp((double)g[want[i]] - most) / sum / (topks[_i].renormalize ? chosen : 1);
            ck_assert_msg(got_index[t * k + i] == want[i], "token %d, place %d: expert %d, expected %d", t, i,
                          got_index[t * k + i], want[i]);
            ck_assert_msg(fabs((double)got[t * k + i] - p) <= 2e-6 * p, "token %d, place %d: %.9g, expected %.9g", t, i,
                          (double)got[t * k + i], p);
        }
    }
    printf("%s, %d tokens: right\n", topks[_i].file, TOKENS);
}
END_TEST

/* ---- attention --------------------------------------------------------------------------------------------------- */

/* out[dv] = softmax(scale q K^T) V over keys 0..n-1, whose rows are ks and vs floats apart; returns ln of the sum. */
static double attend(const float *q, const float *k, const float *v, int n, int d, int dv, size_t ks, size_t vs,
                     double scale, double *out)
{
    double *p = malloc(sizeof(*p) * (size_t)n), most = -INFINITY, sum = 0;
    for (int j = 0; j < n; j++) {
        p[j] = 0;
        for (int e = 0; e < d; e++)
            p[j] += (double)q[e] * (double)k[(size_t)j * ks + (size_t)e];
        p[j] *= scale;
        most = fmax(most, p[j]);
    }
    for (int j = 0; j < n; j++)
        sum += p[j] = exp(p[j] - most);
    for (int e = 0; e < dv; e++) {
        out[e] = 0;
        for (int j = 0; j < n; j++)
            out[e] += p[j] / sum * (double)v[(size_t)j * vs + (size_t)e];
    }
    free(p);
    return most + log(sum);
}
static float *values(const uint16_t *bits, size_t n)
{
    float *p = malloc(4 * n);
    ck_assert_ptr_nonnull(p);
    for (size_t i = 0; i < n; i++)
        p[i] = bf16_value(bits[i]);
    return p;
}

/* first: two sequences one after another, and the first's length; 0: one. lockstep: the waves of a workgroup take turns
 * of one instruction. In the hd192 kernels a wave loads tile 2 of K into LDS over tile 0, which it has read, and in the
 * causal ones the next rows' Q over the last V, with no barrier since (lds-race): on hardware the load takes longer
 * than the others take to read it. */
static const struct {
    const char *arch, *file, *known;
    int heads, kv_heads, q, kv, d;
    bool causal;
    int first;
    bool lockstep;
} attentions[] = {
    { "gfx942", "MI300/fwd_hd128_bf16_rtne.co", "hazard", 2, 1, 256, 256, 128, false, 0, false },
    { "gfx942", "MI300/fwd_hd128_bf16_rtz.co", "hazard", 1, 1, 200, 320, 128, false, 0, false },
    { "gfx942", "MI300/fwd_hd128_bf16_rtna.co", "hazard", 1, 1, 256, 160, 128, false, 0, false },
    { "gfx942", "MI300/fwd_hd128_bf16_causal_rtne.co", "hazard", 8, 4, 512, 512, 128, true, 0, false },
    { "gfx942", "MI308/fwd_hd128_bf16_rtne.co", "hazard", 1, 1, 256, 192, 128, false, 0, false },
    { "gfx950", "fwd_hd128_bf16.co", "hazard", 2, 1, 256, 256, 128, false, 0, false },
    { "gfx950", "fwd_hd128_bf16.co", "hazard", 1, 1, 200, 320, 128, false, 0, false },
    { "gfx950", "fwd_hd128_bf16_causal.co", "hazard", 8, 4, 256, 384, 128, true, 0, false },
    { "gfx950", "fwd_hd128_bf16_group.co", "hazard", 2, 1, 300, 200, 128, false, 75, false },
    { "gfx950", "fwd_hd128_bf16_causal_group.co", "hazard", 8, 4, 356, 400, 128, true, 100, false },
    { "gfx950", "fwd_hd192_hd128_bf16.co", "lds-race missing-wait hazard", 2, 2, 128, 256, 192, false, 0, true },
    { "gfx950", "fwd_hd192_hd128_bf16_causal.co", "lds-race missing-wait hazard", 8, 8, 128, 256, 192, true, 0, true },
    { "gfx950", "fwd_hd192_hd128_bf16_group.co", "lds-race missing-wait hazard", 2, 2, 200, 256, 192, false, 60, true },
    { "gfx950", "fwd_hd192_hd128_bf16_causal_group.co", "lds-race missing-wait hazard", 8, 8, 188, 256, 192, true, 60,
      32 },
    { "gfx950", "fwd_hd128_bf16_causal.co", "lds-race hazard", 8, 4, 512, 512, 128, true, 0, true },
};

START_TEST(attention)
{
    enum { DV = 128 };
    int h = attentions[_i].heads, hk = attentions[_i].kv_heads, sq = attentions[_i].q, sk = attentions[_i].kv,
        d = attentions[_i].d, tile = d == 192 ? 128 : 256;
    int first = attentions[_i].first;
    bool causal = attentions[_i].causal, group = first > 0;
    const int q_at[3] = { 0, group ? first : sq, sq }, k_at[3] = { 0, group ? first : sk, sk };
    size_t nq = (size_t)(sq * h * d), nk = (size_t)(sk * hk * d), nv = (size_t)(sk * hk * DV),
           no = (size_t)(sq * h * DV);
    float scale = 1 / sqrtf((float)d);
    open_for(strcmp(attentions[_i].arch, "gfx950") == 0, 1);
    uint16_t *q = random_bf16(nq, 2), *k = random_bf16(nk, 2), *v = random_bf16(nv, 1), *o = zeroes(2 * no);
    float *lse = zeroes(4 * (size_t)(h * sq));
    struct arguments x = { 0 };
    put_pointer(&x, o);
    put_pointer(&x, upload(q, 2 * nq));
    put_pointer(&x, upload(k, 2 * nk));
    put_pointer(&x, upload(v, 2 * nv));
    put_pointer(&x, lse);
    put_f32(&x, scale);
    const uint32_t head = 2 * (uint32_t)d, head_v = 2 * DV, row_q = (uint32_t)h * head, row_k = (uint32_t)hk * head,
                   row_v = (uint32_t)hk * head_v, row_o = (uint32_t)h * head_v, q_len = (uint32_t)sq,
                   k_len = (uint32_t)sk, each = group ? 0 : 1;
    const uint32_t rest[] = { q_len,
                              row_q,
                              (uint32_t)tile * row_q,
                              head,
                              each * q_len * row_q,
                              (uint32_t)(h / hk),
                              row_k,
                              head,
                              each * k_len * row_k,
                              5,
                              1,
                              k_len,
                              (uint32_t)d,
                              DV,
                              (uint32_t)h,
                              row_v,
                              head_v,
                              each * k_len * row_v,
                              row_o,
                              head_v,
                              each * q_len * row_o };
    for (int i = 0; i < COUNT_OF(rest); i++)
        put_u32(&x, rest[i]);
    void *q_begins = group ? upload(q_at, sizeof(q_at)) : NULL, *k_begins = group ? upload(k_at, sizeof(k_at)) : NULL;
    put_pointer(&x, q_begins);
    put_pointer(&x, k_begins);
    put_u32(&x, 4 * q_len);
    put_pointer(&x, q_begins);
    put_pointer(&x, k_begins);
    unsigned tiles = (unsigned)((sq + tile - 1) / tile), heads = (unsigned)h;
    if (causal)
        tiles = (tiles + 1) / 2;
    char file[96];
    snprintf(file, sizeof(file), "fmha_v3_fwd/%s", attentions[_i].file);
    if (attentions[_i].lockstep)
        setenv("RFG_EMU_TURN", "1", 1);
    launch(file, attentions[_i].known, &x, group ? heads : tiles, group ? 2 : heads, group ? tiles : 1,
           d == 192 ? 256 : 512);
    float *fq = values(q, nq), *fk = values(k, nk), *fv = values(v, nv), *got_lse = download(lse, 4 * (size_t)(h * sq));
    uint16_t *got = download(o, 2 * no);
    for (int i = 0; i < sq; i++)
        for (int j = 0; j < h; j++) {
            double want[DV];
            int g = j / (h / hk), s = i >= q_at[1], from = k_at[s], len = k_at[s + 1] - from;
            int keys = causal ? i + 1 - q_at[s] + len - (q_at[s + 1] - q_at[s]) : len;
            double l = attend(fq + (i * h + j) * d, fk + (from * hk + g) * d, fv + (from * hk + g) * DV, keys, d, DV,
                              (size_t)(hk * d), (size_t)hk * DV, (double)scale, want);
            ck_assert_msg(fabs((double)got_lse[j * sq + i] - l) <= 1e-3, "lse of row %d, head %d: got %g, expected %g",
                          i, j, (double)got_lse[j * sq + i], l);
            for (int e = 0; e < DV; e++) {
                /* probabilities and the result are rounded to bf16, by rtz's rule down */
                double was = (double)bf16_value(got[(i * h + j) * DV + e]);
                ck_assert_msg(fabs(was - want[e]) <= 0x1p-7 * fabs(want[e]) + 4e-3,
                              "O[%d][%d][%d]: got %g, expected %g", i, j, e, was, want[e]);
            }
        }
    printf("%s, %d x %d, %d heads of %d: right\n", file, sq, sk, h, hk);
}
END_TEST

/* ---- paged attention, one query a sequence ----------------------------------------------------------------------- */

enum kv_type { KV_BF16, KV_FP8, KV_INT8 };
/* Of known "missing-wait": in the loop of the noquant kernels the block numbers are the second of 25 loads, and all
 * that stands before v_mul_u32_u24_dpp reads them is "s_waitcnt vmcnt(24)", which may leave 24 of them. The gqa16_2tg
 * ones read v[88:103] from LDS and give them to the MFMA after "s_waitcnt vmcnt(0)" and a barrier: neither waits for
 * LDS. */
static const struct {
    const char *file, *known;
    int gqa;
    enum kv_type type;
} paged[] = {
    { "pa/pa_bf16_noquant_gqa8_1tg_4w.co", "missing-wait", 8, KV_BF16 },
    { "pa/pa_bf16_noquant_gqa16_1tg_4w.co", "missing-wait", 16, KV_BF16 },
    { "pa/pa_bf16_pertokenFp8_gqa8_2tg_4w.co", NULL, 8, KV_FP8 },
    { "pa/pa_bf16_pertokenFp8_gqa8_2tg_4w_hp.co", NULL, 8, KV_FP8 },
    { "pa/pa_bf16_pertokenFp8_gqa8_2tg_4w_uhp.co", NULL, 8, KV_FP8 },
    { "pa/pa_bf16_pertokenFp8_gqa16_2tg_4w.co", "missing-wait hazard", 16, KV_FP8 },
    { "pa/pa_bf16_pertokenInt8_gqa8_2tg_4w.co", NULL, 8, KV_INT8 },
    { "pa/pa_bf16_pertokenInt8_gqa16_2tg_4w.co", "missing-wait hazard", 16, KV_INT8 },
};

static float cache_value(const void *cache, size_t i, enum kv_type type)
{
    if (type == KV_BF16)
        return bf16_value(((const uint16_t *)cache)[i]);
    return type == KV_FP8 ? e4m3(((const uint8_t *)cache)[i]) : (float)((const int8_t *)cache)[i];
}
/* A cache with elements up to about 1 when its scales are applied. */
static void *random_cache(size_t n, enum kv_type type, float size)
{
    if (type == KV_BF16)
        return random_bf16(n, size);
    return random_bytes(n, type == KV_FP8);
}

START_TEST(paged_attention)
{
    enum { D = 128, PAGE = 16, SEQS = 2, KV_HEADS = 2, PAGES = 40, MOST = 20 };
    int problem = open_for(_i, COUNT_OF(paged));
    enum kv_type type = paged[problem].type;
    /* K is [page][head][D / x][token][x], V [page][head][token / x][D][x], x elements of 16 bytes */
    int gqa = paged[problem].gqa, heads = gqa * KV_HEADS, bytes = type == KV_BF16 ? 2 : 1, x = 16 / bytes;
    static const int lens[SEQS] = { 300, 77 };
    size_t nq = (size_t)(SEQS * heads * D), nk = (size_t)(PAGES * KV_HEADS * PAGE * D), ns = PAGES * KV_HEADS * PAGE;
    uint16_t *q = random_bf16(nq, 2), *o = zeroes(2 * nq);
    void *k = random_cache(nk, type, 2), *v = random_cache(nk, type, 1);
    float *scale_k = malloc(4 * ns), *scale_v = malloc(4 * ns), unit = type == KV_INT8 ? 128 : 16 * e4m3(0x38) * 2;
    for (size_t i = 0; i < ns; i++) {
        scale_k[i] = type == KV_BF16 ? 1 : (1.5f + uniform()) / unit;
        scale_v[i] = type == KV_BF16 ? 1 : (1.5f + uniform()) / unit;
    }
    int32_t table[SEQS][MOST];
    for (int s = 0; s < SEQS; s++)
        for (int p = 0; p < MOST; p++)
            table[s][p] = (s * MOST + p) * 7 % PAGES;
    struct arguments a = { 0 };
    put_pointer(&a, o);
    put_pointer(&a, upload(q, 2 * nq));
    put_pointer(&a, upload(k, (size_t)bytes * nk));
    put_pointer(&a, upload(v, (size_t)bytes * nk));
    put_pointer(&a, upload(table, sizeof(table)));
    put_pointer(&a, upload(lens, sizeof(lens)));
    put_pointer(&a, type == KV_BF16 ? NULL : upload(scale_k, 4 * ns));
    put_pointer(&a, type == KV_BF16 ? NULL : upload(scale_v, 4 * ns));
    put_f32(&a, (float)(1.4426950408889634 / sqrt(D)));
    const uint32_t head = (uint32_t)(bytes * PAGE * D),
                   rest[] = { MOST, KV_HEADS, 2 * (uint32_t)heads * D, KV_HEADS * head, head, (uint32_t)gqa };
    for (size_t i = 0; i < sizeof(rest) / sizeof(rest[0]); i++)
        put_u32(&a, rest[i]);
    put_pointer(&a, NULL);
    launch(paged[problem].file, paged[problem].known, &a, KV_HEADS, SEQS, 1, 256);
    uint16_t *got = download(o, 2 * nq);
    float *fq = values(q, nq), *rows = malloc(2 * sizeof(*rows) * MOST * PAGE * D);
    double worst = 0;
    for (int s = 0; s < SEQS; s++)
        for (int g = 0; g < KV_HEADS; g++) {
            float *kr = rows, *vr = rows + MOST * PAGE * D;
            for (int t = 0; t < lens[s]; t++)
                for (int e = 0; e < D; e++) {
                    int at = t % PAGE, page = table[s][t / PAGE] * KV_HEADS + g;
                    float *sk = scale_k + page * PAGE + at, *sv = scale_v + page * PAGE + at;
                    size_t ki = (size_t)(page * PAGE * D + e / x * PAGE * x + at * x + e % x),
                           vi = (size_t)(page * PAGE * D + at / x * D * x + e * x + at % x);
                    kr[t * D + e] = *sk * cache_value(k, ki, type);
                    vr[t * D + e] = *sv * cache_value(v, vi, type);
                }
            for (int j = g * gqa; j < (g + 1) * gqa; j++) {
                double want[D];
                attend(fq + (s * heads + j) * D, kr, vr, lens[s], D, D, D, D, 1 / sqrt(D), want);
                for (int e = 0; e < D; e++) {
                    double was = (double)bf16_value(got[(s * heads + j) * D + e]);
                    worst = fmax(worst, fabs(was - want[e]));
                    /* queries and probabilities are rounded to the cache's type */
                    ck_assert_msg(fabs(was - want[e]) <= 0x1p-7 * fabs(want[e]) + (type == KV_BF16 ? 4e-3 : 0.06),
                                  "sequence %d, head %d, %d: got %g, expected %g", s, j, e, was, want[e]);
                }
            }
        }
    printf("%s, %d sequences, %d heads: right, error at most %.2g\n", paged[problem].file, SEQS, heads, worst);
}
END_TEST

/* ---- MLA's decoding, first stage ---------------------------------------------------------------------------------

 * 16 heads of 576 against one latent row a token, whose first 512 are the value too. */

/* lds-race: "s_waitcnt lgkmcnt(8)" with 8 ds_write_b128 and then 4 ds_read_b64 under way leaves four of the writes
 * before the barrier after which other waves read them. */
START_TEST(mla)
{
    enum { H = 16, D = 576, DV = 512, SEQS = 2, SPLITS = 3, TOKENS = 400 };
    static const int lens[SEQS] = { 300, 65 };
    open_for(_i, 1);
    uint16_t *q = random_bf16(SEQS * H * D, 1), *kv = random_bf16(TOKENS * D, 1);
    float *out = zeroes(4 * SEQS * SPLITS * H * DV), *lse = zeroes(4 * SEQS * SPLITS * H);
    int32_t page[TOKENS], begin[SEQS + 1] = { 0, 300, 365 }, last[SEQS] = { 1, 1 }, queries[SEQS + 1] = { 0, 1, 2 },
                                       splits[SEQS + 1] = { 0, SPLITS, 2 * SPLITS };
    for (int t = 0; t < TOKENS; t++)
        page[t] = t * 7 % TOKENS;
    struct arguments x = { 0 };
    put_pointer(&x, out);
    put_pointer(&x, lse);
    put_pointer(&x, upload(q, 2 * SEQS * H * D));
    put_pointer(&x, upload(kv, 2 * TOKENS * D));
    put_pointer(&x, upload(begin, sizeof(begin)));
    put_pointer(&x, upload(page, sizeof(page)));
    put_pointer(&x, upload(last, sizeof(last)));
    put_f32(&x, 1 / sqrtf(D));
    const uint32_t rest[] = { H, SPLITS, 2 * H * D, 2 * D, 0 };
    for (size_t i = 0; i < sizeof(rest) / sizeof(rest[0]); i++)
        put_u32(&x, rest[i]);
    put_pointer(&x, upload(queries, sizeof(queries)));
    put_pointer(&x, upload(splits, sizeof(splits)));
    put_pointer(&x, zeroes(2 * SEQS * H * DV));
    put_pointer(&x, NULL);
    put_pointer(&x, NULL);
    put_u32(&x, SPLITS);
    launch("mla/mla_dec_stage1_bf16_a16w16_subQ16_mqa16.co", "lds-race", &x, 1, SEQS, SPLITS, 256);
    float *got = download(out, 4 * SEQS * SPLITS * H * DV), *got_lse = download(lse, 4 * SEQS * SPLITS * H);
    float *fq = values(q, SEQS * H * D), *rows = malloc(sizeof(*rows) * TOKENS * D);
    for (int s = 0; s < SEQS; s++) {
        int tiles = (lens[s] + 63) / 64, valid = tiles < SPLITS ? tiles : SPLITS; /* the other splits write nothing */
        for (int t = 0; t < lens[s]; t++)
            for (int e = 0; e < D; e++)
                rows[t * D + e] = bf16_value(kv[page[begin[s] + t] * D + e]);
        for (int j = 0; j < H; j++) {
            double want[DV], l = attend(fq + (s * H + j) * D, rows, rows, lens[s], D, DV, D, D, 1 / sqrt(D), want),
                             sum = 0;
            /* the splits' parts, put together by what each says the logarithm of its sum is */
            for (int p = 0; p < valid; p++)
                sum += exp((double)got_lse[(s * SPLITS + p) * H + j] - l);
            ck_assert_msg(fabs(sum - 1) <= 1e-3, "sequence %d, head %d: the splits' weights sum to %g", s, j, sum);
            for (int e = 0; e < DV; e++) {
                double was = 0;
                for (int p = 0; p < valid; p++)
                    was += exp((double)got_lse[(s * SPLITS + p) * H + j] - l) *
                           (double)got[((s * SPLITS + p) * H + j) * DV + e];
                ck_assert_msg(fabs(was - want[e]) <= 0x1p-7 * fabs(want[e]) + 2e-3,
                              "sequence %d, head %d, %d: got %g, expected %g", s, j, e, was, want[e]);
            }
        }
    }
    printf("MLA decoding, %d sequences, %d splits: right\n", SEQS, SPLITS);
}
END_TEST

int main(void)
{
    const int both = architectures();
    if (!both)
        return 77;
    Suite *s = suite_create("emu_aiter");
    TCase *c = tcase_create("aiter");
    tcase_set_timeout(c, 120);
    if (both == 2)
        ADD_TESTS(c, layer_norm);
    ADD_LOOPS(c, COUNT_OF(f4gemms), f4gemm);
    ADD_LOOPS(c, both * COUNT_OF(gemms), gemm);
    ADD_LOOPS(c, (sizeof(topks) / sizeof(topks[0])), topk);
    ADD_LOOPS(c, both == 2 ? COUNT_OF(attentions) : 5, attention);
    ADD_LOOPS(c, both * COUNT_OF(paged), paged_attention);
    ADD_LOOPS(c, both, mla);
    suite_add_tcase(s, c);
    return run_suite(s);
}
