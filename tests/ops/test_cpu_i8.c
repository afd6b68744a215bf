/* SPDX-License-Identifier: MIT
 *
 * int8 by int8 with sums of int32 on cpu (ops/gemm/cpu/cpu_i8.h): the text that is compiled for vpdpbusd, here with the
 * instruction in plain C, so that any machine runs it: its kernels, and whole products by it. Then gemm_cpu_avx512 with
 * dot=1, where the cpu has AVX512_VNNI. */
#include "base/util.h"
#include "dispatch/context.h"
#include "ops/gemm/cpu/cpu_run.h"
#include "ops/gemm/gemm.h"
#include "tests/op_cases.h"

/* ---- vpdpbusd in C: four lanes ----------------------------------------------------------------------------------- */

#define ISA_TABLE  emulated
#define ROWS_TABLE rfg_cpu_rows_portable
#define LANES      4
#define MAX_REGS   24

typedef uint32_t vec __attribute__((vector_size(16)));

static inline vec vec_load(const float *p)
{
    const char *bytes = (const char *)p; /* of any alignment */
    vec v;
    memcpy(&v, bytes, sizeof(v));
    return v;
}

static inline void vec_store(float *p, vec v)
{
    memcpy(p, &v, sizeof(v));
}

static inline vec flip(vec v)
{
    return v ^ 0x80808080u;
}

static inline vec dot_4(vec acc, vec u, vec s)
{
    for (int l = 0; l < 4; l++)
        for (int i = 0; i < 32; i += 8)
            acc[l] += (uint32_t)((int32_t)(uint8_t)(u[l] >> i) * (int8_t)(uint8_t)(s[l] >> i));
    return acc;
}

extern const struct cpu_isa emulated;
#include "ops/gemm/cpu/cpu_i8.h"

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

static uint64_t seed = 20260101;

static int8_t draw(void)
{
    uint64_t r = rfg_random(&seed);
    return r % 8 == 0 ? -128 : r % 8 == 1 ? 127 : (int8_t)(uint8_t)(r >> 32);
}

/* One block: the sums of int8, in two ranges of k, as a block of a larger matrix. */
static void one_block(const struct cpu_isa *isa, int log2_rows, int cols, int k)
{
    enum { MOST_K = 400 };
    int8_t w[CPU_MAX_ROWS][MOST_K], x[CPU_MAX_COLS][MOST_K];
    _Alignas(64) char packed[CPU_MAX_COLS * (MOST_K + 64)];
    float acc[CPU_MAX_ROWS][CPU_MAX_COLS + 1][16], sums[CPU_MAX_COLS];
    int rows = 1 << log2_rows, lanes = isa->lanes, first = k / isa->group / 2 * isa->group;
    uint32_t begin;
    ck_assert_int_le(k, MOST_K);
    memset(acc, 0x55, sizeof(acc));
    float *a = &acc[0][0][0];
    for (int r = 0; r < rows; r++)
        for (int i = 0; i < k; i++)
            w[r][i] = draw();
    for (int c = 0; c < cols; c++) {
        begin = 0;
        for (int i = 0; i < k; i++)
            begin -= 128u * (uint32_t)(x[c][i] = draw());
        for (int r = 0; r < rows; r++) {
            memset(a + (r * (cols + 1) + c) * lanes, 0, (size_t)lanes * sizeof(float));
            memcpy(a + (r * (cols + 1) + c) * lanes, &begin, sizeof(begin));
        }
    }
    ck_assert_uint_eq(isa->pack[CPU_I8_DOT](packed, (const char *)x, MOST_K, cols, k), 0);
    struct cpu_block b = { .w = (const char *)w,
                           .w_stride = MOST_K,
                           .x = packed,
                           .k = first,
                           .pace = (enum cpu_pace)(k % 4),
                           .ahead = (const char *)w,
                           .acc = a,
                           .acc_stride = (size_t)((cols + 1) * lanes) };
    isa->kernel[CPU_I8_DOT][log2_rows][cols - 1](&b);
    b.w += first;
    b.x += (size_t)first * (size_t)cols;
    b.k = k - first;
    isa->kernel[CPU_I8_DOT][log2_rows][cols - 1](&b);
    for (int r = 0; r < rows; r++) {
        isa->sum(sums, a + r * (cols + 1) * lanes, cols);
        for (int c = 0; c < cols; c++) {
            int32_t want = 0;
            for (int i = 0; i < k; i++)
                want += w[r][i] * x[c][i];
            ck_assert_msg(sums[c] == (float)want, "rows=%d cols=%d k=%d: [%d][%d] is %.9g, must be %d", rows, cols, k,
                          r, c, (double)sums[c], want);
        }
        uint32_t beyond;
        memcpy(&beyond, a + (r * (cols + 1) + cols) * lanes, sizeof(beyond));
        ck_assert_msg(beyond == 0x55555555, "rows=%d cols=%d: wrote beyond", rows, cols);
    }
}

static void all_blocks(const struct cpu_isa *isa)
{
    static const int ks[] = { 1, 3, 15, 16, 17, 63, 64, 65, 127, 128, 200, 399 };
    int tried = 0;
    for (int rows = 0; rows < 4; rows++)
        for (int cols = 1; cols <= CPU_MAX_COLS; cols++)
            for (size_t k = 0; k < sizeof(ks) / sizeof(ks[0]) && cols << rows <= isa->max_regs; k++, tried++)
                one_block(isa, rows, cols, ks[k]);
    ck_assert_int_gt(tried, 200);
}

START_TEST(kernels)
{
    all_blocks(&emulated);
}
END_TEST

/* The longest sums of the largest products: what is on the way to them wraps. */
START_TEST(largest_sums)
{
    static const int8_t ends[] = { -128, 127 };
    const int k = 131071;
    int8_t *w = malloc((size_t)k), *x = malloc((size_t)k);
    char *packed = malloc((size_t)k + 64);
    for (int i = 0; i < 4; i++) {
        int8_t of_w = ends[i % 2], of_x = ends[i / 2];
        memset(w, of_w, (size_t)k);
        memset(x, of_x, (size_t)k);
        float acc[LANES] = { 0 }, sum;
        uint32_t begin = -128u * (uint32_t)(of_x * k);
        memcpy(acc, &begin, sizeof(begin));
        CPU_I8_DOT_pack(packed, (const char *)x, 0, 1, k);
        struct cpu_block b = { .w = (const char *)w, .x = packed, .k = k, .acc = acc };
        emulated.kernel[CPU_I8_DOT][0][0](&b);
        emulated.sum(&sum, acc, 1);
        ck_assert_float_eq(sum, (float)(of_w * of_x * k));
    }
    free(w);
    free(x);
    free(packed);
}
END_TEST

/* ---- products ---------------------------------------------------------------------------------------------------- */

#define ROWS " w_scale=f32 x_scale=f32 x_per=row w_per=row"
#define R    RFG_DATA_RANDOM
#define DOT  "gemm_cpu_avx512{rows=4,cols=4,k_block=0,prefetch=2,dot=1}"

static const struct op_case cases[] = {
    { "gemm i8,i8->f32 M=1 N=64 K=256", R, false, DOT },
    { "gemm i8,i8->bf16 M=5 N=70 K=336" ROWS " bias=1 btype=f32", R, false, DOT },
    { "gemm i8,i8->f32 M=4 N=48 K=1024 w_scale=f32", R, false, DOT },
    { "gemm i8,i8->f16 M=150 N=37 K=50 ldx=51 ldw=53 ldy=39" ROWS, R, false, DOT },
    { "gemm i8,i8->bf16 M=3 N=17 K=50 ldx=51" ROWS, R, true, DOT },
    { "gemm i8,i8->bf16 M=20 N=70 K=256 residual=1 inplace=1" ROWS, R, false, DOT },
    { "gemm i8,i8->f32 M=12 N=48 K=256" ROWS, RFG_DATA_SPECIAL, false, DOT },
    { "gemm i8,i8->f32 M=7 N=72 K=2200" ROWS " act=silu gates=interleaved", R, false, DOT },
    { "gemm i8,i8->f32 M=7 N=72 K=200" ROWS " act=silu limit=3", R, false, DOT },
    { "gemm i8,i8->i8 M=40 N=66 K=336" ROWS, R, false, DOT },
    { "gemm i8,i8->f32 M=60 N=40 K=200 experts=5 top=3 weights=1" ROWS, R, false, DOT },
    { "gemm i8,i8->f32 M=40 N=40 K=200 experts=3 w_scale=f32 x_scale=f32 w_per=row", R, false, DOT },
    { "gemm i8,i8->f32 M=9 N=5 K=0" ROWS " bias=1 btype=f32", RFG_DATA_SPECIAL, false, DOT },
};

static void multiply(const struct op_case *how, const int *p, struct rfg_cpu_pool *pool, rfg_context *ctx)
{
    struct rfg_problem prob = op_problem(how->problem);
    struct rfg_case_params params = { .seed = op_seed(), .data = how->data, .unaligned = how->unaligned };
    struct rfg_device dev = *rfg_context_info(ctx);
    struct gemm_args a;
    struct rfg_check check;
    struct rfg_case *c;
    ck_assert_msg(rfg_case_create(ctx, &prob, &params, &c) == RFG_OK, "%s", rfg_last_error());
    ck_assert_int_eq(rfg_case_poison(c, 0), RFG_OK);
    rfg_op_case_of(prob.op)->pack(rfg_case_problem(c), rfg_case_tensors(c, 0), &a);
    struct tiling t = gemm_cpu_tiling(&emulated, dev.cu_count, &prob, p, true);
    ck_assert_int_eq(t.kind, CPU_I8_DOT);
    size_t threads = (size_t)dev.cu_count,
           size = round_256(threads * sizeof(struct packed)) + threads * worker_bytes(&t);
    a.workspace = aligned_alloc(256, size);
    memset(a.workspace, 0xff, size);
    gemm_cpu_run(&emulated, &dev, &prob, p, true, &a, pool);
    free(a.workspace);
    ck_assert_int_eq(rfg_case_check(c, 0, &check), RFG_OK);
    ck_assert_msg(check.ok && !check.guard_broken, "rows=%d cols=%d k_block=%d prefetch=%d: %s", p[0], p[1], p[2], p[3],
                  check.message);
    rfg_case_destroy(&c);
}

START_TEST(products)
{
    static const int configs[][5] = {
        { 4, 4, 0, 2, 1 }, { 1, 1, 0, 0, 1 }, { 8, 2, 0, 1, 1 }, { 2, 8, 512, 1, 1 }, { 4, 6, 1024, 2, 1 },
    };
    rfg_context *ctx = op_context("cpu");
    struct rfg_cpu_pool *pool = rfg_cpu_pool_create(rfg_context_info(ctx)->cu_count);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (size_t p = 0; p < sizeof(configs) / sizeof(configs[0]); p++)
            multiply(&cases[i], configs[p], pool, ctx);
    rfg_cpu_pool_destroy(&pool);
    rfg_context_destroy(&ctx);
}
END_TEST

#if defined(__x86_64__)

/* What dot=1 takes. */
START_TEST(refusals)
{
    static const struct {
        const char *problem, *words;
        unsigned without;
    } v[] = {
        { "gemm i8,i8->f32 M=4 N=64 K=131071" ROWS, NULL, RFG_FEATURE_AVX512BF16 },
        { "gemm i8,i8->f32 M=4 N=64 K=131072" ROWS, "dot=1: K=131072: must be at most 131071, sums are int32", 0 },
        { "gemm i8,i8->f32 M=4 N=64 K=256" ROWS, "dot=1: needs AVX512_VNNI, which this cpu does not have",
          RFG_FEATURE_AVX512VNNI },
        { "gemm bf16,bf16->f32 M=4 N=64 K=256", NULL, RFG_FEATURE_AVX512VNNI },
        { "gemm bf16,bf16->f32 M=4 N=64 K=256", "dot=1: needs AVX512_BF16, which this cpu does not have",
          RFG_FEATURE_AVX512BF16 },
        { "gemm i8,i8->f32 M=4 N=64 K=256 w_scale=f32 x_scale=f32 x_per=block w_per=block",
          "dot=1: needs scales of tensors or rows, these are of blocks", 0 },
        { "gemm f16,f16->f32 M=4 N=64 K=256", "dot=1: needs bf16, or i8 by i8", 0 },
        { "gemm e4m3,e4m3->f32 M=4 N=64 K=256 w_scale=f32", "dot=1: needs bf16, or i8 by i8", 0 },
        { "gemm bf16,i4->f32 M=4 N=64 K=256 w_scale=f32 w_group=32", "dot=1: needs bf16, or i8 by i8", 0 },
    };
    for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
        struct rfg_device dev;
        struct rfg_problem prob = op_problem(v[i].problem);
        struct rfg_reason why = { "" };
        int p[RFG_MAX_PARAMS] = { 4, 4, 0, 2, 1 };
        rfg_device_cpu(&dev, 2);
        dev.features = RFG_FEATURE_AVX2 | RFG_FEATURE_AVX512 | RFG_FEATURE_AVX512VNNI | RFG_FEATURE_AVX512BF16;
        dev.features &= ~v[i].without;
        bool taken = rfg_variant_check(&gemm_cpu_avx512, &dev, &prob, p, &why);
        ck_assert_msg(taken == !v[i].words && (taken || strstr(why.text, v[i].words)), "%s: %s", v[i].problem,
                      taken ? "taken" : why.text);
        /* Sums of integers have one order, whatever M; and each problem's model has a number for it. */
        struct rfg_order order;
        if (taken)
            ck_assert(gemm_cpu_avx512.order(&dev, &prob, p, &order, &why) == (prob.dtype[0] == RFG_I8));
        if (taken)
            ck_assert_double_gt(gemm_cpu_avx512.predict(&dev, &prob, p), 0);
    }
}
END_TEST

struct best {
    const struct rfg_device *dev;
    const struct rfg_problem *prob;
    double us[2]; /* by dot */
};

static bool predicted(void *arg, const int *p)
{
    struct best *b = arg;
    double us = gemm_cpu_avx512.predict(b->dev, b->prob, p);
    b->us[p[P_DOT]] = us < b->us[p[P_DOT]] ? us : b->us[p[P_DOT]];
    return true;
}

/* Where both can be, the model takes integers: W isn't decoded for each tile of X. */
START_TEST(model_takes_it)
{
    static const int ms[] = { 1, 4, 33, 512 };
    for (size_t i = 0; i < sizeof(ms) / sizeof(ms[0]); i++) {
        char text[200];
        struct rfg_device dev;
        snprintf(text, sizeof(text), "gemm i8,i8->bf16 M=%d N=4096 K=4096" ROWS, ms[i]);
        struct rfg_problem prob = op_problem(text);
        struct best best = { &dev, &prob, { 1e9, 1e9 } };
        rfg_device_cpu(&dev, 16);
        dev.features = RFG_FEATURE_AVX2 | RFG_FEATURE_AVX512 | RFG_FEATURE_AVX512VNNI;
        rfg_variant_each(&gemm_cpu_avx512, &dev, &prob, predicted, &best);
        ck_assert_msg(best.us[1] < best.us[0] && best.us[0] < 1e9, "%s: %g us with dot=1, %g without", text, best.us[1],
                      best.us[0]);
    }
}
END_TEST

/* The instruction itself: its kernels, and products by the variant. */
START_TEST(by_vpdpbusd)
{
    struct rfg_device dev;
    rfg_device_cpu(&dev, 2);
    if (!(dev.features & RFG_FEATURE_AVX512VNNI)) {
        printf("SKIPPED: vpdpbusd's kernels of int8: this cpu has no AVX512_VNNI\n");
        return;
    }
    all_blocks(&rfg_cpu_isa_avx512vnni);
    op_cases_run("cpu", "gemm of int8 by vpdpbusd", cases, (int)(sizeof(cases) / sizeof(cases[0])));
}
END_TEST

#endif

int main(void)
{
    return op_main("cpu_i8", OP_TESTS(NULL),
#if defined(__x86_64__)
                   OP_TESTS(kernels, largest_sums, products, refusals, model_takes_it, by_vpdpbusd)
#else
                   OP_TESTS(kernels, largest_sums, products)
#endif
    );
}
