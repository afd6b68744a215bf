/* SPDX-License-Identifier: MIT
 *
 * rfg_gemm_prepack() and rfg_op_gemm() with a prepacked W, on the cpu and on the devices of $RFG_TEST_DEVICES: what is
 * moved where, products, the plain W's bits, graphs; and what is refused. */
#include <inttypes.h>

#include "base/util.h"
#include "ops/gemm/gemm.h"
#include "tests/op_cases.h"
#include "rfg/rfg.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

#define R RFG_DATA_RANDOM
#define I RFG_DATA_INTS
#define C RFG_DATA_CANCEL
#define S RFG_DATA_SPECIAL

static const struct op_case moves[] = {
    { "gemm_prepack bf16->bf16 N=16 K=32" },
    { "gemm_prepack f16->f16 N=16 K=1024" },
    { "gemm_prepack bf16->bf16 N=1024 K=32" },
    { "gemm_prepack bf16->bf16 N=240 K=416 ld=424" },
    { "gemm_prepack f16->f16 N=48 K=96 ld=1000", S },
    { "gemm_prepack bf16->bf16 N=0 K=64" },
    { "gemm_prepack bf16->bf16 N=32 K=0" },
    { "gemm_prepack bf16->bf16 N=2112 K=1056", I },
    { "gemm_prepack i4->i4 N=16 K=128" },
    { "gemm_prepack e2m1->e2m1 N=2112 K=1152" },
    { "gemm_prepack i4->i4 N=48 K=384 ld=416", I },
    { "gemm_prepack e2m1->e2m1 N=16 K=1024 ld=1056", S },
    { "gemm_prepack i4->i4 N=0 K=128" },
    { "gemm_prepack i4->i4 N=16 K=0" },
    { "gemm_prepack e2m1->e2m1 N=48 K=2880" },
    { "gemm_prepack i4->i4 N=16 K=32" },
    { "gemm_prepack i4->i4 N=32 K=224 ld=256" },
    { "gemm_prepack e4m3->e4m3 N=48 K=192" },
    { "gemm_prepack i8->i8 N=32 K=1088 ld=1104", S },
    { "gemm_prepack e5m2->e5m2 N=16 K=0" },
    { "gemm_prepack e8m0->e8m0 N=48 K=90 pad=2 groups=1" },
    { "gemm_prepack e4m3->e4m3 N=48 K=20 pad=4 groups=1" },
    { "gemm_prepack e4m3->e4m3 N=32 K=45 pad=7 groups=1" },
    { "gemm_prepack f32->f32 N=16 K=5 ld=8 pad=3 groups=1" },
    { "gemm_prepack f16->f16 N=16 K=1 groups=1" },
    { "gemm_prepack e8m0->e8m0 N=2112 K=37 groups=1", S },
    { "gemm_prepack i8->i8 N=48 K=56 groups=1" },
    { "gemm_prepack bf16->bf16 N=96 K=7 ld=9 groups=1" },
    { "gemm_prepack f32->f32 N=32 K=60 groups=1", S },
    { "gemm_prepack i8->i8 N=16 K=0 groups=1" },
};

/* fp16 to fp32 with enough terms: MI200's matrix instructions take subnormals for 0, which a short sum would show. */
static const struct op_case products[] = {
    { "gemm bf16,bf16->bf16 M=1 N=16 K=32 packed=1" },
    { "gemm bf16,bf16->bf16 M=8 N=1024 K=7168 packed=1" },
    { "gemm bf16,bf16->bf16 M=1 N=64 K=7168 packed=1" },
    { "gemm bf16,bf16->bf16 M=8 N=80 K=2048 bias=1 packed=1" },
    { "gemm f16,f16->f16 M=3 N=16 K=1024 packed=1" },
    { "gemm f16,f16->f32 M=17 N=144 K=544 bias=1 packed=1" },
    { "gemm bf16,bf16->f32 M=33 N=32 K=512 packed=1" },
    { "gemm bf16,bf16->f16 M=5 N=112 K=288 packed=1" },
    { "gemm f16,f16->bf16 M=130 N=48 K=160 bias=1 packed=1" },
    { "gemm bf16,bf16->bf16 M=257 N=16 K=64 packed=1" },
    { "gemm bf16,bf16->bf16 M=2 N=272 K=32 packed=1" },
    { "gemm bf16,bf16->bf16 M=8 N=96 K=512 ldx=520 ldy=104 packed=1" },
    { "gemm f16,f16->f32 M=6 N=48 K=544 ldx=545 ldy=51 bias=1 packed=1" },
    { "gemm bf16,bf16->bf16 M=7 N=64 K=256 bias=1 packed=1", R, true },
    { "gemm bf16,bf16->bf16 M=8 N=32 K=0 bias=1 packed=1" },
    { "gemm bf16,bf16->bf16 M=0 N=32 K=64 packed=1" },
    { "gemm bf16,bf16->bf16 M=4 N=0 K=64 packed=1" },
    { "gemm bf16,bf16->f32 M=8 N=128 K=1024 packed=1", I },
    { "gemm f16,f16->f32 M=19 N=96 K=672 bias=1 packed=1", I },
    { "gemm bf16,bf16->f32 M=8 N=128 K=1024 packed=1", C },
    { "gemm bf16,bf16->bf16 M=40 N=128 K=256 packed=1", S },
    { "gemm f16,f16->f16 M=17 N=128 K=288 packed=1", S },
};

OP_CASES(right_moves, moves, "prepacking")

OP_CASES(right_products, products, "prepacked W")

/* ---- memory of a device ------------------------------------------------------------------------------------------ */

static rfg_context *ctx;
static const struct rfg_hip *hip;

static void open_device(const char *name)
{
    ctx = op_context(name);
    hip = rfg_context_hip(ctx);
}

static void *device_copy(const void *host, size_t size)
{
    void *p;
    if (hip) {
        ck_assert_int_eq(hip->hipMalloc(&p, size), hipSuccess);
        ck_assert_int_eq(hip->hipMemcpyHtoD((hipDeviceptr_t)p, (void *)(uintptr_t)host, size), hipSuccess);
    } else {
        p = aligned_alloc(256, (size + 255) & ~(size_t)255);
        ck_assert_ptr_nonnull(p);
        memcpy(p, host, size);
    }
    return p;
}

static void to_host(void *host, const void *p, size_t size)
{
    if (hip) {
        ck_assert_int_eq(hip->hipDeviceSynchronize(), hipSuccess);
        ck_assert_int_eq(hip->hipMemcpyDtoH(host, (hipDeviceptr_t)p, size), hipSuccess);
    } else {
        memcpy(host, p, size);
    }
}

static void device_free(void *p)
{
    if (hip)
        ck_assert_int_eq(hip->hipFree(p), hipSuccess);
    else
        free(p);
}

static uint16_t *random_words(size_t n, uint64_t seed, bool finite)
{
    uint16_t *w = malloc(n * 2);
    ck_assert_ptr_nonnull(w);
    for (size_t i = 0; i < n; i++) /* finite: bf16 of about 1 */
        w[i] = finite ? (uint16_t)(0x3f00 + rfg_random(&seed) % 512 + (rfg_random(&seed) & 1) * 0x8000)
                      : (uint16_t)rfg_random(&seed);
    return w;
}

/* The layout's definition, element by element. */
static void plain_loop(uint16_t *to, const uint16_t *w, int n, int k, int ld)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < k; j++)
            to[(((((size_t)(i / 16) * (size_t)(k / 32) + (size_t)(j / 32)) * 4) + (size_t)(j % 32 / 8)) * 16 +
                (size_t)(i % 16)) *
                   8 +
               (size_t)(j % 8)] = w[(size_t)i * (size_t)ld + (size_t)j];
}

/* ---- bits -------------------------------------------------------------------------------------------------------- */

#define GUARD 128 /* words on both sides */

static void compare(const char *what, const void *packed, const uint16_t *want, int n, int k)
{
    size_t words = (size_t)n * (size_t)k;
    uint16_t *got = malloc((words + 2 * GUARD) * 2);
    ck_assert_ptr_nonnull(got);
    to_host(got, (const uint16_t *)packed - GUARD, (words + 2 * GUARD) * 2);
    for (size_t i = 0; i < words + 2 * GUARD; i++) {
        bool in = i >= GUARD && i < words + GUARD;
        uint16_t expected = in ? want[i - GUARD] : 0xa5a5;
        ck_assert_msg(got[i] == expected, "%s: N=%d K=%d: word %zd is %04x, expected %04x", what, n, k,
                      (ssize_t)i - GUARD, got[i], expected);
    }
    free(got);
}

START_TEST(every_bit_in_its_place)
{
    static const int sizes[][3] = { { 16, 32, 32 }, { 16, 64, 72 }, { 48, 32, 40 }, { 64, 96, 96 }, { 176, 608, 616 } };
    open_device(op_device(_i));
    hipStream_t stream = NULL;
    if (hip) {
        ck_assert_int_eq(hip->hipStreamCreateWithFlags(&stream, hipStreamNonBlocking), hipSuccess);
        ck_assert_msg(rfg_prepare_stream(ctx, (rfg_stream)stream) == RFG_OK, "%s", rfg_last_error());
    }
    for (int s = 0; s < COUNT(sizes); s++) {
        int n = sizes[s][0], k = sizes[s][1], ld = sizes[s][2];
        size_t words = (size_t)n * (size_t)k, src_words = (size_t)n * (size_t)ld;
        uint16_t *w = random_words(src_words, op_seed() + (uint64_t)s, false);
        uint16_t *want = malloc(words * 2), *empty = malloc((words + 2 * GUARD) * 2);
        ck_assert(want && empty);
        memset(empty, 0xa5, (words + 2 * GUARD) * 2);
        plain_loop(want, w, n, k, ld);
        void *src = device_copy(w, src_words * 2);
        uint16_t *dst = device_copy(empty, (words + 2 * GUARD) * 2);
        rfg_tensor ts = rfg_tensor_2d(src, RFG_F16, n, k, ld), td = rfg_tensor_prepacked(dst + GUARD, RFG_F16, n, k);
        ck_assert_msg(rfg_gemm_prepack(ctx, &td, &ts, (rfg_stream)stream) == RFG_OK, "%s", rfg_last_error());
        compare("called", dst + GUARD, want, n, k);
        if (hip) { /* the same in a graph: nothing happens until it is launched */
            hipGraph_t graph;
            hipGraphExec_t exec;
            ck_assert_int_eq(hip->hipMemcpyHtoD((hipDeviceptr_t)dst, empty, (words + 2 * GUARD) * 2), hipSuccess);
            ck_assert_int_eq(hip->hipStreamBeginCapture(stream, hipStreamCaptureModeThreadLocal), hipSuccess);
            ck_assert_msg(rfg_gemm_prepack(ctx, &td, &ts, (rfg_stream)stream) == RFG_OK, "%s", rfg_last_error());
            ck_assert_int_eq(hip->hipStreamEndCapture(stream, &graph), hipSuccess);
            ck_assert_int_eq(hip->hipGraphInstantiate(&exec, graph, NULL, NULL, 0), hipSuccess);
            uint16_t first;
            to_host(&first, dst + GUARD, 2);
            ck_assert_int_eq(first, 0xa5a5);
            ck_assert_int_eq(hip->hipGraphLaunch(exec, stream), hipSuccess);
            compare("captured", dst + GUARD, want, n, k);
            ck_assert_int_eq(hip->hipGraphExecDestroy(exec), hipSuccess);
            ck_assert_int_eq(hip->hipGraphDestroy(graph), hipSuccess);
        }
        device_free(src);
        device_free(dst);
        free(w);
        free(want);
        free(empty);
    }
    if (hip)
        ck_assert_int_eq(hip->hipStreamDestroy(stream), hipSuccess);
    rfg_context_destroy(&ctx);
}
END_TEST

/* ---- 4 bits ------------------------------------------------------------------------------------------------------ */

/* What prepacking leaves, bit for bit, is what the layout's definition says; and between guards, nothing else. */
static void moved(rfg_tensor to, const rfg_tensor *from, const uint8_t *want, size_t size)
{
    size_t all = size + 2 * GUARD;
    uint8_t *got = malloc(all), *dst;
    ck_assert_ptr_nonnull(got);
    memset(got, 0xa5, all);
    dst = device_copy(got, all);
    to.data = dst + GUARD;
    ck_assert_msg(rfg_gemm_prepack(ctx, &to, from, NULL) == RFG_OK, "%s", rfg_last_error());
    to_host(got, dst, all);
    for (size_t i = 0; i < all; i++) {
        unsigned expected = i >= GUARD && i < size + GUARD ? want[i - GUARD] : 0xa5;
        ck_assert_msg(got[i] == expected, "%s %d x %d: byte %zd is %02x, expected %02x", rfg_dtype_name(from->dtype),
                      (int)from->shape[0], (int)from->shape[1], (ssize_t)i - GUARD, got[i], expected);
    }
    device_free(dst);
    free(got);
}

/* As rfg/gemm.h has them: [N/16][K/128][4][16][32], and of groups [N/16][groups][16]. */
START_TEST(codes_and_groups_in_their_places)
{
    static const int sizes[][3] = { { 16, 128, 128 }, { 48, 384, 416 }, { 32, 640, 640 } };
    static const rfg_dtype scales[] = { RFG_BF16, RFG_F16, RFG_F32, RFG_E8M0, RFG_I8 };
    open_device(op_device(_i));
    for (int s = 0; s < COUNT(sizes); s++) {
        int n = sizes[s][0], k = sizes[s][1], ld = sizes[s][2];
        size_t size = (size_t)(n * k) / 2;
        uint8_t *w = (uint8_t *)random_words((size_t)(n * ld) / 4, op_seed() + 3, false), *want = calloc(1, size);
        ck_assert_ptr_nonnull(want);
        for (int i = 0; i < (int)size * 2; i++) { /* element i of dst */
            int p = i % 8, part = i % 32 / 8, r = i / 32 % 16, c = i / 512 % 4, b = i / 2048;
            int row = b / (k / 128) * 16 + r;
            int at = row * ld + b % (k / 128) * 128 + 32 * part + 8 * c + 2 * p % 8 + p / 4;
            want[i / 2] = (uint8_t)(want[i / 2] | (w[at / 2] >> at % 2 * 4 & 15) << i % 2 * 4);
        }
        void *src = device_copy(w, (size_t)(n * ld) / 2);
        rfg_dtype dtype = s % 2 ? RFG_E2M1 : RFG_I4;
        rfg_tensor t = rfg_tensor_2d(src, dtype, n, k, ld);
        moved(rfg_tensor_prepacked(NULL, dtype, n, k), &t, want, size);
        for (int d = 0; d < COUNT(scales); d++) { /* the same bytes as scales */
            int bytes = (int)rfg_dtype_bytes(scales[d], 1), groups = 13, apart = groups + s;
            for (int i = 0; i < n * groups * bytes; i++) {
                int e = i / bytes, row = e / 16 / groups * 16 + e % 16;
                want[i] = w[(row * apart + e / 16 % groups) * bytes + i % bytes];
            }
            t = rfg_tensor_2d(src, scales[d], n, groups, apart);
            moved(rfg_tensor_prepacked_groups(NULL, scales[d], n, groups), &t, want, (size_t)(n * groups * bytes));
        }
        device_free(src);
        free(w);
        free(want);
    }
    rfg_context_destroy(&ctx);
}
END_TEST

/* Small integers and scales that are powers of two: plain rows and prepacked ones have the same product, to the bit. */
static void plain_product(int K, int G)
{
    enum { M = 5, N = 48, MOST_K = 512, MOST_G = 16 };
    int padded = (K + 127) / 128 * 128, groups = padded == K ? G : padded / (K / G);
    uint16_t x[M * MOST_K];
    uint8_t scale[N * MOST_G], zero[N * MOST_G];
    uint64_t seed = op_seed();
    float y[2][M * N];
    for (int i = 0; i < M * K; i++) /* bf16 of 1, 2, 4, 8, of both signs */
        x[i] = (uint16_t)(0x3f80 + rfg_random(&seed) % 4 * 0x80 + (rfg_random(&seed) & 1) * 0x8000);
    for (int i = 0; i < N * MOST_G; i++) {
        scale[i] = (uint8_t)(124 + rfg_random(&seed) % 7);
        zero[i] = (uint8_t)(rfg_random(&seed) % 16 - 8);
    }
    uint16_t *codes = random_words(N * MOST_K / 4, seed, false), scale16[N * MOST_G];
    for (int i = 0; i < N * MOST_G; i++)
        scale16[i] = (uint16_t)(scale[i] << 7); /* the same power, bf16 */
    void *dx = device_copy(x, sizeof(x)), *dw = device_copy(codes, N * MOST_K / 2),
         *pw = device_copy(codes, N * MOST_K / 2);
    void *dz = device_copy(zero, sizeof(zero)), *pz = device_copy(zero, sizeof(zero));
    void *ds = device_copy(scale16, sizeof(scale16)), *ps = device_copy(scale16, sizeof(scale16));
    void *dy = device_copy(y, sizeof(y[0]));
    for (int fp = 0; fp < 2; fp++) {
        rfg_dtype wt = fp ? RFG_E2M1 : RFG_I4, st = fp ? RFG_E8M0 : RFG_BF16;
        if (fp) {
            device_free(ds);
            ds = device_copy(scale, sizeof(scale));
        }
        rfg_tensor tx = rfg_tensor_2d(dx, RFG_BF16, M, K, K), ty = rfg_tensor_2d(dy, RFG_F32, M, N, N);
        rfg_tensor w[2] = { rfg_tensor_2d(dw, wt, N, K, K), rfg_tensor_prepacked(pw, wt, N, padded) };
        rfg_tensor s[2] = { rfg_tensor_2d(ds, st, N, G, G), rfg_tensor_prepacked_groups(ps, st, N, groups) };
        rfg_tensor z[2] = { rfg_tensor_2d(dz, RFG_I8, N, G, G), rfg_tensor_prepacked_groups(pz, RFG_I8, N, groups) };
        ck_assert_msg(rfg_gemm_prepack(ctx, &w[1], &w[0], NULL) == RFG_OK, "%s", rfg_last_error());
        ck_assert_msg(rfg_gemm_prepack(ctx, &s[1], &s[0], NULL) == RFG_OK, "%s", rfg_last_error());
        ck_assert_msg(rfg_gemm_prepack(ctx, &z[1], &z[0], NULL) == RFG_OK, "%s", rfg_last_error());
        for (int i = 0; i < 2; i++) {
            rfg_gemm_params p = RFG_GEMM_PARAMS_INIT;
            p.w_scale = &s[i];
            p.w_zero = fp ? NULL : &z[i];
            ck_assert_msg(rfg_op_gemm(ctx, &ty, &tx, &w[i], &p, NULL) == RFG_OK, "%s", rfg_last_error());
            to_host(y[i], dy, sizeof(y[i]));
        }
        for (int i = 0; i < M * N; i++)
            ck_assert_msg(y[0][i] == y[1][i], "K=%d, %s: element %d is %g prepacked, %g plain", K, rfg_dtype_name(wt),
                          i, (double)y[1][i], (double)y[0][i]);
    }
    void *const memory[] = { dx, dw, pw, dz, pz, ds, ps, dy };
    for (int i = 0; i < COUNT(memory); i++)
        device_free(memory[i]);
    free(codes);
}

START_TEST(codes_have_the_plain_product)
{
    open_device(op_device(_i));
    plain_product(512, 8);
    plain_product(416, 13); /* padded to 512 and 16 */
    plain_product(32, 1);
    rfg_context_destroy(&ctx);
}
END_TEST

/* ---- a product's bits -------------------------------------------------------------------------------------------- */

struct pair {
    struct rfg_problem plain, packed;
    rfg_tensor t_plain[RFG_MAX_TENSORS], t_packed[RFG_MAX_TENSORS];
    const struct rfg_variant *var;
    int offered, every, compared;
    size_t y_bytes;
};

static void run_plan(const struct pair *pr, const struct rfg_problem *prob, const rfg_tensor *t, const int *p, void *y)
{
    struct rfg_plan *plan;
    struct gemm_args a;
    char name[RFG_CONFIG_STRLEN];
    rfg_config_format(pr->var, p, name, sizeof(name));
    memset(y, 0x77, pr->y_bytes);
    ck_assert_msg(rfg_plan_create(ctx, prob, pr->var, p, &plan) == RFG_OK, "%s: %s", name, rfg_last_error());
    rfg_op_case_of(prob->op)->pack(prob, t, &a);
    ck_assert_msg(rfg_plan_launch(ctx, plan, &a, NULL) == RFG_OK, "%s: %s", name, rfg_last_error());
    to_host(y, t[0].data, pr->y_bytes);
    rfg_plan_destroy(ctx, &plan);
}

static bool compare_config(void *arg, const int *p)
{
    struct pair *pr = arg;
    if (pr->offered++ % pr->every || !rfg_variant_check(pr->var, rfg_context_info(ctx), &pr->plain, p, NULL))
        return true;
    char name[RFG_CONFIG_STRLEN];
    void *a = malloc(pr->y_bytes), *b = malloc(pr->y_bytes);
    ck_assert(a && b);
    run_plan(pr, &pr->plain, pr->t_plain, p, a);
    run_plan(pr, &pr->packed, pr->t_packed, p, b);
    ck_assert_msg(!memcmp(a, b, pr->y_bytes), "%s: packed=1 gives other bits",
                  rfg_config_format(pr->var, p, name, sizeof(name)));
    pr->compared++;
    free(a);
    free(b);
    return true;
}

static bool count_config(void *arg, const int *p)
{
    (void)p;
    ++*(int *)arg;
    return true;
}

START_TEST(the_plain_products_bits)
{
    static const int sizes[][3] = { { 1, 64, 1024 }, { 5, 48, 512 }, { 33, 80, 96 } };
    int served = 0;
    open_device(op_device(_i));
    const struct rfg_device *dev = rfg_context_info(ctx);
    for (int s = 0; s < COUNT(sizes); s++) {
        int m = sizes[s][0], n = sizes[s][1], k = sizes[s][2];
        struct pair pr = { .y_bytes = (size_t)m * (size_t)n * 2 };
        char text[160];
        snprintf(text, sizeof(text), "gemm bf16,bf16->bf16 M=%d N=%d K=%d", m, n, k);
        ck_assert(rfg_problem_parse(&pr.plain, text, NULL));
        strcat(text, " packed=1");
        ck_assert(rfg_problem_parse(&pr.packed, text, NULL));
        uint16_t *hx = random_words((size_t)m * (size_t)k, op_seed() + 1, true);
        uint16_t *hw = random_words((size_t)n * (size_t)k, op_seed() + 2, true);
        void *x = device_copy(hx, (size_t)m * (size_t)k * 2), *w = device_copy(hw, (size_t)n * (size_t)k * 2);
        void *y = device_copy(hw, pr.y_bytes), *packed = device_copy(hw, (size_t)n * (size_t)k * 2);
        rfg_tensor tw = rfg_tensor_2d(w, RFG_BF16, n, k, k), tp = rfg_tensor_prepacked(packed, RFG_BF16, n, k);
        rfg_tensor tx = rfg_tensor_2d(x, RFG_BF16, m, k, k), ty = rfg_tensor_2d(y, RFG_BF16, m, n, n);
        ck_assert_msg(rfg_gemm_prepack(ctx, &tp, &tw, NULL) == RFG_OK, "%s", rfg_last_error());
        pr.t_plain[0] = pr.t_packed[0] = ty;
        pr.t_plain[1] = pr.t_packed[1] = tx;
        pr.t_plain[2] = tw;
        pr.t_packed[2] = tp;
        for (int v = 0; v < rfg_op_variants(pr.plain.op)->n; v++) {
            struct rfg_reason why = { "" };
            int offered = 0;
            pr.var = rfg_op_variants(pr.plain.op)->list[v];
            if (!pr.var->supports(dev, &pr.packed, &why)) {
                ck_assert_msg(!pr.var->supports(dev, &pr.plain, NULL) || strstr(why.text, "packed=1"),
                              "%s refuses %s: '%s'", pr.var->name, text, why.text);
                continue;
            }
            rfg_variant_each(pr.var, dev, &pr.packed, count_config, &offered);
            pr.every = offered > 4 ? offered / 4 : 1;
            pr.offered = 0;
            int before = pr.compared;
            rfg_variant_each(pr.var, dev, &pr.packed, compare_config, &pr);
            ck_assert_msg(pr.compared > before, "%s: %s: nothing compared", pr.var->name, text);
            served += strcmp(pr.var->name, "gemm_portable") != 0;
        }
        device_free(x);
        device_free(w);
        device_free(y);
        device_free(packed);
        free(hx);
        free(hw);
    }
    ck_assert_msg(served >= COUNT(sizes), "%s: only gemm_portable reads a prepacked W", op_device(_i));
    rfg_context_destroy(&ctx);
}
END_TEST

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

static struct {
    _Alignas(64) uint16_t src[64 * 64], dst[64 * 64], x[64 * 64], y[64 * 64];
    rfg_tensor ts, td, tx, tp, ty;
} g;

static void fresh(void)
{
    for (int i = 0; i < 64 * 64; i++)
        g.src[i] = g.x[i] = 0x3f80, g.y[i] = g.dst[i] = 0x7777;
    g.ts = rfg_tensor_2d(g.src, RFG_BF16, 32, 64, 64);
    g.td = rfg_tensor_prepacked(g.dst, RFG_BF16, 32, 64);
    g.tx = rfg_tensor_2d(g.x, RFG_BF16, 4, 64, 64);
    g.tp = rfg_tensor_prepacked(g.src, RFG_BF16, 32, 64);
    g.ty = rfg_tensor_2d(g.y, RFG_BF16, 4, 32, 32);
}

static void says(rfg_status got, const char *const *words)
{
    ck_assert_msg(got == RFG_ERROR_INVALID_ARGUMENT, "%s: %s", rfg_status_name(got), rfg_last_error());
    for (; *words; words++)
        ck_assert_msg(strstr(rfg_last_error(), *words) != NULL, "no '%s' in: %s", *words, rfg_last_error());
    for (int i = 0; i < 64 * 64; i++)
        ck_assert_msg(g.y[i] == 0x7777 && g.dst[i] == 0x7777, "refused, but wrote word %d", i);
    fresh();
}
#define REFUSED(...) says(rfg_gemm_prepack(ctx, &g.td, &g.ts, NULL), (const char *const[]){ __VA_ARGS__, NULL })
#define REFUSED_GEMM(...)                                                                                              \
    says(rfg_op_gemm(ctx, &g.ty, &g.tx, &g.tp, NULL, NULL), (const char *const[]){ __VA_ARGS__, NULL })

/* After it src and dst are zero points, not W. */
#define REFUSED_GROUPS(...)                                                                                            \
    do {                                                                                                               \
        REFUSED(__VA_ARGS__);                                                                                          \
        g.ts = rfg_tensor_2d(g.src, RFG_I8, 32, 3, 3);                                                                 \
        g.td = rfg_tensor_prepacked_groups(g.dst, RFG_I8, 32, 3);                                                      \
    } while (0)

static void refused_products(void)
{
    ck_assert_msg(rfg_op_gemm(ctx, &g.ty, &g.tx, &g.tp, NULL, NULL) == RFG_OK, "%s", rfg_last_error());
    ck_assert_int_eq(g.y[0], 0x4280); /* 64 ones */
    fresh();
    g.tp.shape[3] = 8;
    REFUSED_GEMM("rfg_op_gemm: w is 2 x 2 x 4 x 8 x 8", "[N/16, K/32, 4, 16, 8]");
    g.tp.strides[4] = 2;
    REFUSED_GEMM("w has stride 2 in dimension 4", "must be 1");
    g.tp.dtype = RFG_F32;
    REFUSED_GEMM("w is prepacked f32");
    g.tp.shape[0] = 1;
    REFUSED_GEMM("w has 16 rows", "must be y's columns, 32");
    g.tp.shape[0] = -1;
    REFUSED_GEMM("w is -1 x 2");
    g.tp.ndim = 4;
    REFUSED_GEMM("w has 4 dimensions");
    g.ty.data = g.src + 8;
    REFUSED_GEMM("overlaps w");
}

START_TEST(refusals)
{
    open_device("cpu");
    fresh();
    ck_assert_msg(rfg_gemm_prepack(ctx, &g.td, &g.ts, NULL) == RFG_OK, "%s", rfg_last_error());
    ck_assert_int_eq(g.dst[0], 0x3f80);
    fresh();

    g.ts.shape[0] = 31;
    REFUSED("rfg_gemm_prepack: src: N=31", "multiple of 16");
    g.ts.shape[1] = 48;
    REFUSED("K=48", "multiple of 32");
    g.ts.dtype = RFG_F32;
    REFUSED("src: w is f32", "bf16, f16 or of 8 or 4 bits");
    g.ts.dtype = RFG_F16;
    REFUSED("dst is bf16: must be src's dtype, f16");
    g.td.dtype = RFG_F32;
    REFUSED("dst is prepacked f32", "bf16 or f16");
    g.ts.ndim = 1;
    REFUSED("src has 1 dimensions");
    g.td = g.ts;
    g.td.data = g.dst;
    REFUSED("dst has 2 dimensions", "must have 5", "rfg_tensor_prepacked");
    g.td.shape[2] = 8;
    REFUSED("dst is 2 x 2 x 8 x 16 x 8", "[N/16, K/32, 4, 16, 8]");
    g.td.strides[1] = 520;
    REFUSED("dst has stride 520 in dimension 1", "must be 512");
    g.td = rfg_tensor_prepacked(g.dst, RFG_BF16, 48, 64);
    REFUSED("dst has 48 rows: must be src's rows, 32");
    g.td.data = g.dst + 4;
    REFUSED("dst is at", "must be a multiple of 16");
    g.ts.data = g.src + 1;
    REFUSED("src is at", "must be a multiple of 16");
    g.ts.strides[0] = 68;
    REFUSED("src's rows are 136 bytes apart", "must be a multiple of 16");
    g.ts.strides[0] = 60;
    REFUSED("src has row stride 60");
    g.td.data = g.src + 32 * 64 - 8;
    REFUSED("overlaps src", "may not alias");
    g.td.data = g.src;
    REFUSED("overlaps src");
    g.ts.data = NULL;
    REFUSED("src's data is NULL");
    g.td.data = NULL;
    REFUSED("dst's data is NULL");
    g.ts = rfg_tensor_2d(g.src, RFG_I4, 32, 48, 64);
    g.td = rfg_tensor_prepacked(g.dst, RFG_I4, 32, 128);
    REFUSED("src: K=48", "multiple of 32");
    g.ts = rfg_tensor_2d(g.src, RFG_I4, 32, 96, 96);
    g.td = rfg_tensor_prepacked(g.dst, RFG_I4, 32, 256);
    REFUSED("dst has 256 columns", "must be src's columns, of 4 bits padded to a multiple of 128, 128");
    g.ts = rfg_tensor_2d(g.src, RFG_F16, 32, 5, 5);
    g.td = rfg_tensor_prepacked_groups(g.dst, RFG_F16, 32, 13);
    REFUSED("dst has 13 columns", "must be src's columns, or up to 7 more, 5");
    g.ts = rfg_tensor_2d(g.src, RFG_F16, 32, 5, 5);
    g.td = rfg_tensor_prepacked_groups(g.dst, RFG_F16, 32, 4);
    REFUSED("dst has 4 columns", "must be src's columns, or up to 7 more, 5");
    g.ts = rfg_tensor_2d(g.src, RFG_E2M1, 32, 128, 144);
    g.td = rfg_tensor_prepacked(g.dst, RFG_E2M1, 32, 128);
    REFUSED("src's rows are 72 bytes apart", "multiple of 16");
    g.ts = rfg_tensor_2d(g.src, RFG_I4, 32, 128, 128);
    g.td = rfg_tensor_prepacked(g.dst, RFG_E2M1, 32, 128);
    REFUSED("dst is e2m1: must be src's dtype, i4");
    g.ts = rfg_tensor_2d(g.src, RFG_I4, 32, 128, 128);
    g.td = rfg_tensor_prepacked_groups(g.dst, RFG_I4, 32, 128);
    REFUSED("src: scales or zero points of i4", "bf16, f16, f32, e8m0, e4m3 or i8");
    g.ts = rfg_tensor_2d(g.src, RFG_I8, 24, 3, 3);
    g.td = rfg_tensor_prepacked_groups(g.dst, RFG_I8, 32, 3);
    REFUSED_GROUPS("src: N=24", "multiple of 16");
    g.ts.shape[0] = 48;
    REFUSED_GROUPS("dst has 32 rows", "must be src's rows, 48");
    g.ts.shape[1] = 2;
    g.td.shape[2] = 8;
    REFUSED_GROUPS("dst is 2 x 3 x 8", "[N/16, K/group, 16]", "rfg_tensor_prepacked_groups");
    g.td.strides[0] = 64;
    REFUSED_GROUPS("dst is 2 x 3 x 16", "packed");
    g.td.strides[0] = 96, g.td.strides[1] = 32;
    REFUSED_GROUPS("dst is 2 x 3 x 16", "packed");
    g.td.data = (char *)g.dst + 8;
    REFUSED_GROUPS("dst is at", "multiple of 16");
    g.td.data = g.src;
    REFUSED("overlaps src", "may not alias");
    says(rfg_gemm_prepack(NULL, &g.td, &g.ts, NULL), (const char *const[]){ "ctx is NULL", NULL });
    says(rfg_gemm_prepack(ctx, NULL, &g.ts, NULL), (const char *const[]){ "dst is NULL", NULL });
    says(rfg_gemm_prepack(ctx, &g.td, NULL, NULL), (const char *const[]){ "src is NULL", NULL });
    says(rfg_gemm_prepack(ctx, &g.td, &g.ts, (rfg_stream)&g), (const char *const[]){ "stream", NULL });
    refused_products();
    rfg_context_destroy(&ctx);
}
END_TEST

/* Problem strings, as the tools and the database have them. */
START_TEST(problem_strings)
{
    static const char *const bad[][2] = {
        { "gemm bf16,bf16->bf16 M=8 N=24 K=64 packed=1", "N=24: must be a multiple of 16" },
        { "gemm bf16,bf16->bf16 M=8 N=32 K=48 packed=1", "K=48: must be a multiple of 32" },
        { "gemm f32,f32->f32 M=8 N=32 K=64 packed=1", "w is f32" },
        { "gemm bf16,bf16->bf16 M=8 N=32 K=64 packed=1 ldw=72", "ldw=72: must be 0" },
        { "gemm bf16,bf16->bf16 M=8 N=32 K=64 packed=2", "packed" },
        { "gemm_prepack bf16->f16 N=32 K=64", "must be alike" },
        { "gemm_prepack bf16->bf16 N=30 K=64", "N=30" },
        { "gemm_prepack bf16->bf16 N=32 K=64 ld=68", "ld=68" },
        { "gemm_prepack i4->i4 N=32 K=48", "K=48: must be a multiple of 32" },
        { "gemm_prepack i4->i4 N=32 K=96 pad=1", "pad=1: must be 0, or of scales" },
        { "gemm_prepack f16->f16 N=32 K=5 pad=8 groups=1", "pad=8: must be from 0 to 7" },
        { "gemm bf16,i4->bf16 M=8 N=32 K=192 w_scale=f16 w_group=96 packed=1",
          "K=192, w_group=96: K must be a multiple" },
        { "gemm_prepack e2m1->e2m1 N=32 K=128 ld=136", "ld=136: must be at least K=128 and a multiple of 32" },
        { "gemm_prepack i32->i32 N=32 K=128", "w is i32" },
        { "gemm_prepack i8->i8 N=32 K=96", "K=96: must be a multiple of 64" },
        { "gemm_prepack i4->i4 N=32 K=128 groups=1", "scales or zero points of i4" },
        { "gemm_prepack f16->f16 N=24 K=4 groups=1", "N=24" },
        { "gemm_prepack f16->f16 N=32 K=4 groups=1 ld=3", "ld=3: must be at least K=4" },
        { "gemm_prepack i8->i8 N=2147483632 K=2147483647 groups=1", "more than 4294967295 groups" },
    };
    struct rfg_problem prob;
    char text[RFG_PROBLEM_STRLEN];
    OP_PROBLEMS_REFUSED("", bad);
    ck_assert(rfg_problem_parse(&prob, "gemm bf16,bf16->bf16 M=8 N=32 K=64 packed=0", NULL));
    ck_assert_str_eq(rfg_problem_format(&prob, text, sizeof(text)), "gemm bf16,bf16->bf16 M=8 N=32 K=64");
    ck_assert(rfg_problem_parse(&prob, "gemm bf16,bf16->bf16 packed=1 M=8 N=32 K=64 bias=1", NULL));
    ck_assert_str_eq(rfg_problem_format(&prob, text, sizeof(text)),
                     "gemm bf16,bf16->bf16 M=8 N=32 K=64 bias=1 packed=1");
    ck_assert_str_eq(rfg_problem_format_attrs(&prob, text, sizeof(text)), "bias=1 packed=1");
}
END_TEST

int main(void)
{
    return op_main("prepack",
                   OP_TESTS(right_moves, right_products, every_bit_in_its_place, codes_and_groups_in_their_places,
                            codes_have_the_plain_product, the_plain_products_bits),
                   OP_TESTS(refusals, problem_strings));
}
