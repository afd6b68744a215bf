/* SPDX-License-Identifier: MIT
 *
 * Hand-written kernels of the public wheel amd-aiter, run on the emulated gfx942 with the checks on and compared with
 * plain C. RFG_AITER_DIR says where the wheel's code objects are:
 *
 *   pip download --no-deps amd-aiter && unzip amd_aiter-*.whl 'aiter_meta/hsa/gfx942/<star>'
 *   RFG_AITER_DIR=$PWD/aiter_meta/hsa/gfx942 build/tests/test-emu_aiter
 *
 * Without it the tests are skipped. The kernels' arguments are each padded to 16 bytes; their names are in the code
 * objects' metadata (rfg-emu list), their meaning is in AITER's csrc/py_itfs_cu/asm_*.cu. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "emu/run/front.h"
#include "emu/hip/hip_emu.h"
#include "tests/suite.h"

static const struct rfg_hip *hip;
static const char *dir;
#define OK(call) ck_assert_msg((call) == hipSuccess, "%s", #call)

/* ---- numbers --------------------------------------------------------------------------------------------------------
 */

static uint64_t state;
static uint32_t random_bits(void)
{
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(state >> 33);
}
/* From -1 to 1. */
static float uniform(void)
{
    return (float)random_bits() / 1073741824.0f - 1;
}
static float bf16_value(uint16_t b)
{
    uint32_t x = (uint32_t)b << 16;
    float f;
    memcpy(&f, &x, 4);
    return f;
}
static uint16_t bf16_bits(float f)
{
    uint32_t x;
    memcpy(&x, &f, 4);
    return (uint16_t)((x + 0x7fff + (x >> 16 & 1)) >> 16);
}
static uint16_t *random_bf16(size_t n, float scale)
{
    uint16_t *p = malloc(2 * n);
    ck_assert_ptr_nonnull(p);
    for (size_t i = 0; i < n; i++)
        p[i] = bf16_bits(scale * uniform());
    return p;
}

/* ---- device ---------------------------------------------------------------------------------------------------------
 */

static void *upload(const void *data, size_t size)
{
    void *p;
    OK(hip->hipMalloc(&p, size));
    OK(hip->hipMemcpyHtoD(p, (void *)(uintptr_t)data, size));
    return p;
}
static void *zeroes(size_t size)
{
    void *p;
    OK(hip->hipMalloc(&p, size));
    OK(hip->hipMemsetD8Async(p, 0, size, NULL));
    return p;
}
static void *download(const void *p, size_t size)
{
    void *host = malloc(size);
    ck_assert_ptr_nonnull(host);
    OK(hip->hipMemcpyDtoH(host, (void *)(uintptr_t)p, size));
    return host;
}

struct arguments {
    uint8_t byte[768];
    size_t size;
};
static void put(struct arguments *a, const void *x, size_t size)
{
    ck_assert(a->size + 16 <= sizeof(a->byte));
    memcpy(a->byte + a->size, x, size);
    a->size += 16;
}
static void put_pointer(struct arguments *a, const void *p)
{
    put(a, &p, 8);
}
static void put_u32(struct arguments *a, uint32_t x)
{
    put(a, &x, 4);
}
static void put_f32(struct arguments *a, float x)
{
    put(a, &x, 4);
}

/* How many findings the checks of this list (with spaces between) made; fails if one made none. */
static int found_by(const char *checks)
{
    int sum = 0;
    char name[40];
    for (const char *c = checks; c && *c; c += strspn(c, " ")) {
        size_t n = strcspn(c, " ");
        snprintf(name, sizeof(name), "%.*s", (int)n, c);
        int found = emu_reports(name);
        ck_assert_msg(found > 0, "%s: finds nothing", name);
        sum += found;
        c += n;
    }
    return sum;
}

/* The file's only kernel. known: the checks that find something in it; NULL: none does. "hazard" is where fewer wait
 * states lie between an MFMA (or a VALU instruction) and who reads its result (by DPP) than LLVM puts there: AMD's
 * authors may know better. */
static void launch(const char *file, const char *known, struct arguments *a, unsigned gx, unsigned gy, unsigned gz,
                   unsigned threads)
{
    char path[1024], error[512];
    size_t size;
    struct emu_code *code = NULL;
    hipModule_t module;
    hipFunction_t fn;
    void *extra[] = { HIP_LAUNCH_PARAM_BUFFER_POINTER, a->byte, HIP_LAUNCH_PARAM_BUFFER_SIZE, &a->size,
                      HIP_LAUNCH_PARAM_END };
    snprintf(path, sizeof(path), "%s/%s", dir, file);
    char *data = rfg_read_file(path, &size);
    ck_assert_msg(data != NULL, "%s: cannot be read", path);
    ck_assert_msg(emu_code_load(&code, data, size, NULL, error, sizeof(error)), "%s: %s", path, error);
    ck_assert_int_eq(code->n_kernels, 1);
    OK(hip->hipModuleLoadData(&module, data));
    OK(hip->hipModuleGetFunction(&fn, module, code->kernel[0].name));
    emu_reports_clear();
    uint64_t before = emu_executed();
    hipError_t e = hip->hipModuleLaunchKernel(fn, gx, gy, gz, threads, 1, 1, 0, NULL, NULL, extra);
    if (e == hipSuccess)
        e = hip->hipDeviceSynchronize();
    int reports = emu_reports(NULL);
    printf("%s: %llu wave-instructions, %d findings\n", file, (unsigned long long)(emu_executed() - before), reports);
    ck_assert_msg(e == (known ? hipErrorLaunchFailure : hipSuccess), "%s: %s", file, hip->error_name(e));
    ck_assert_int_eq(reports, found_by(known));
    OK(hip->hipModuleUnload(module));
    emu_code_free(&code);
    free(data);
}

static void open_device(void)
{
    char error[256];
    int d = rfg_emu_open("gfx942:304", error, sizeof(error));
    ck_assert_msg(d >= 0, "%s", error);
    hip = rfg_hip_emu(NULL);
    OK(hip->hipSetDevice(d));
    state = 12345;
}

/* ---- GEMM: D[M][N] += A[M][K] B[N][K]^T, fp32 of bf16 ---------------------------------------------------------------
 */

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
    int m = gemms[_i].m, n = gemms[_i].n, k = gemms[_i].k, split = gemms[_i].split, tile = gemms[_i].tile_m;
    open_device();
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
    launch(gemms[_i].file, NULL, &x, (unsigned)n / 64, (unsigned)((m + tile - 1) / tile), (unsigned)split, 256);
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

/* ---- "layer norm" of a sum: bf16, rows of 8192
 * ------------------------------------------------------------------------
 */

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

/* ---- top k of a softmax ---------------------------------------------------------------------------------------------
 */

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

/* ---- attention ------------------------------------------------------------------------------------------------------
 */

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

static const struct {
    const char *file;
    int heads, kv_heads, q, kv;
    bool causal;
} attentions[] = {
    { "fmha_v3_fwd/MI300/fwd_hd128_bf16_rtne.co", 2, 1, 256, 256, false },
    { "fmha_v3_fwd/MI300/fwd_hd128_bf16_rtz.co", 1, 1, 200, 320, false },
    { "fmha_v3_fwd/MI300/fwd_hd128_bf16_rtna.co", 1, 1, 256, 160, false },
    { "fmha_v3_fwd/MI300/fwd_hd128_bf16_causal_rtne.co", 8, 4, 512, 512, true },
    { "fmha_v3_fwd/MI308/fwd_hd128_bf16_rtne.co", 1, 1, 256, 192, false },
};

START_TEST(attention)
{
    enum { D = 128 };
    int h = attentions[_i].heads, hk = attentions[_i].kv_heads, sq = attentions[_i].q, sk = attentions[_i].kv;
    bool causal = attentions[_i].causal;
    size_t nq = (size_t)(sq * h * D), nk = (size_t)(sk * hk * D);
    float scale = 0.08838834764f; /* 1 / sqrt(128) */
    open_device();
    uint16_t *q = random_bf16(nq, 2), *k = random_bf16(nk, 2), *v = random_bf16(nk, 1), *o = zeroes(2 * nq);
    float *lse = zeroes(4 * (size_t)(h * sq));
    struct arguments x = { 0 };
    put_pointer(&x, o);
    put_pointer(&x, upload(q, 2 * nq));
    put_pointer(&x, upload(k, 2 * nk));
    put_pointer(&x, upload(v, 2 * nk));
    put_pointer(&x, lse);
    put_f32(&x, scale);
    const uint32_t row_q = 2 * (uint32_t)h * D, row_k = 2 * (uint32_t)hk * D, head = 2 * D, q_len = (uint32_t)sq,
                   k_len = (uint32_t)sk, lens = 4 * (uint32_t)sq;
    const uint32_t rest[] = {
        q_len, row_q, 256 * row_q, head,  q_len * row_q, (uint32_t)(h / hk), row_k, head, k_len * row_k, 5, 1, k_len,
        D,     D,     (uint32_t)h, row_k, head,          k_len * row_k,      row_q, head, q_len * row_q
    };
    for (size_t i = 0; i < sizeof(rest) / sizeof(rest[0]); i++)
        put_u32(&x, rest[i]);
    put_pointer(&x, NULL);
    put_pointer(&x, NULL);
    put_u32(&x, lens);
    put_pointer(&x, NULL);
    put_pointer(&x, NULL);
    int tiles = (sq + 255) / 256;
    launch(attentions[_i].file, "hazard", &x, (unsigned)(causal ? (tiles + 1) / 2 : tiles), (unsigned)h, 1, 512);
    float *fq = values(q, nq), *fk = values(k, nk), *fv = values(v, nk), *got_lse = download(lse, 4 * (size_t)(h * sq));
    uint16_t *got = download(o, 2 * nq);
    for (int i = 0; i < sq; i++)
        for (int j = 0; j < h; j++) {
            double want[D];
            int g = j / (h / hk), n = causal ? i + 1 + sk - sq : sk;
            double l = attend(fq + (i * h + j) * D, fk + g * D, fv + g * D, n, D, D, (size_t)hk * D, (size_t)hk * D,
                              (double)scale, want);
            ck_assert_msg(fabs((double)got_lse[j * sq + i] - l) <= 1e-3, "lse of row %d, head %d: got %g, expected %g",
                          i, j, (double)got_lse[j * sq + i], l);
            for (int e = 0; e < D; e++) {
                /* probabilities and the result are rounded to bf16, by rtz's rule down */
                double was = (double)bf16_value(got[(i * h + j) * D + e]);
                ck_assert_msg(fabs(was - want[e]) <= 0x1p-7 * fabs(want[e]) + 4e-3,
                              "O[%d][%d][%d]: got %g, expected %g", i, j, e, was, want[e]);
            }
        }
    printf("%s, %d x %d, %d heads of %d: right\n", attentions[_i].file, sq, sk, h, hk);
}
END_TEST

/* ---- paged attention, one query a sequence --------------------------------------------------------------------------
 */

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

static float e4m3fnuz(unsigned x)
{
    int e = (int)(x >> 3 & 15), m = (int)(x & 7);
    float v = e ? ldexpf((float)(8 + m), e - 11) : ldexpf((float)m, -10);
    return x & 128 ? -v : v;
}
static float cache_value(const void *cache, size_t i, enum kv_type type)
{
    if (type == KV_BF16)
        return bf16_value(((const uint16_t *)cache)[i]);
    return type == KV_FP8 ? e4m3fnuz(((const uint8_t *)cache)[i]) : (float)((const int8_t *)cache)[i];
}
/* A cache with elements up to about 1 when its scales are applied. */
static void *random_cache(size_t n, enum kv_type type, float size)
{
    if (type == KV_BF16)
        return random_bf16(n, size);
    uint8_t *p = malloc(n);
    ck_assert_ptr_nonnull(p);
    for (size_t i = 0; i < n; i++) { /* fp8: below 16, and not the NaN 0x80 */
        uint8_t x = (uint8_t)(random_bits() >> 8);
        p[i] = type == KV_FP8 && (x & 0x78) > 0x58 ? x & 0xdf : x;
        p[i] = p[i] == 0x80 ? 0 : p[i];
    }
    return p;
}

START_TEST(paged_attention)
{
    enum { D = 128, PAGE = 16, SEQS = 2, KV_HEADS = 2, PAGES = 40, MOST = 20 };
    enum kv_type type = paged[_i].type;
    /* K is [page][head][D / x][token][x], V [page][head][token / x][D][x], x elements of 16 bytes */
    int gqa = paged[_i].gqa, heads = gqa * KV_HEADS, bytes = type == KV_BF16 ? 2 : 1, x = 16 / bytes;
    static const int lens[SEQS] = { 300, 77 };
    size_t nq = (size_t)(SEQS * heads * D), nk = (size_t)(PAGES * KV_HEADS * PAGE * D), ns = PAGES * KV_HEADS * PAGE;
    open_device();
    uint16_t *q = random_bf16(nq, 2), *o = zeroes(2 * nq);
    void *k = random_cache(nk, type, 2), *v = random_cache(nk, type, 1);
    float *scale_k = malloc(4 * ns), *scale_v = malloc(4 * ns), unit = type == KV_FP8 ? 16 : 128;
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
    launch(paged[_i].file, paged[_i].known, &a, KV_HEADS, SEQS, 1, 256);
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
    printf("%s, %d sequences, %d heads: right, error at most %.2g\n", paged[_i].file, SEQS, heads, worst);
}
END_TEST

/* ---- MLA's decoding, first stage: 16 heads of 576 against one latent row a token, whose first 512 are the value too -
 */

/* lds-race: "s_waitcnt lgkmcnt(8)" with 8 ds_write_b128 and then 4 ds_read_b64 under way leaves four of the writes
 * before the barrier after which other waves read them. */
START_TEST(mla)
{
    enum { H = 16, D = 576, DV = 512, SEQS = 2, SPLITS = 3, TOKENS = 400 };
    static const int lens[SEQS] = { 300, 65 };
    open_device();
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
    launch("mla/mla_dec_stage1_bf16_a16w16_subQ16_mqa16.co", "lds-race global-race", &x, 1, SEQS, SPLITS, 256);
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
    dir = getenv("RFG_AITER_DIR");
    if (!dir || !*dir) {
        printf("skipped: RFG_AITER_DIR names no directory of amd-aiter's gfx942 code objects\n");
        return 77;
    }
    Suite *s = suite_create("emu_aiter");
    TCase *c = tcase_create("aiter");
    tcase_set_timeout(c, 120);
    tcase_add_loop_test(c, gemm, 0, (int)(sizeof(gemms) / sizeof(gemms[0])));
    tcase_add_test(c, layer_norm);
    tcase_add_loop_test(c, topk, 0, (int)(sizeof(topks) / sizeof(topks[0])));
    tcase_add_loop_test(c, attention, 0, (int)(sizeof(attentions) / sizeof(attentions[0])));
    tcase_add_loop_test(c, paged_attention, 0, (int)(sizeof(paged) / sizeof(paged[0])));
    tcase_add_test(c, mla);
    suite_add_tcase(s, c);
    return run_suite(s);
}
