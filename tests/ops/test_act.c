/* SPDX-License-Identifier: MIT
 *
 * rfg_op_act_and_mul and rfg_op_act on the cpu and on the devices of $RFG_TEST_DEVICES: every activation, dtype, scale
 * and layout; 8-bit rounding code for code; and what they refuse. */
#include <math.h>

#include "base/util.h"
#include "ops/act/act.h"
#include "tests/op_cases.h"
#include "rfg/rfg.h"

#define R RFG_DATA_RANDOM
#define I RFG_DATA_INTS
#define C RFG_DATA_CANCEL
#define S RFG_DATA_SPECIAL

static const struct op_case shapes[] = {
    { "act_and_mul bf16->bf16 M=3 N=1536" },
    { "act_and_mul bf16->bf16 M=16 N=2880 act=gelu_tanh" },
    { "act_and_mul f16->f16 M=5 N=4864 act=gelu" },
    { "act_and_mul f32->f32 M=2 N=2048 act=silu" },
    { "act_and_mul f32->f32 M=9 N=130 act=gelu_tanh" },
    { "act_and_mul f32->f32 M=4 N=260 act=gelu" },
    { "act_and_mul bf16->bf16 M=7 N=1000 act=relu2" },
    { "act_and_mul f16->f16 M=7 N=200 act=relu" },
    { "act_and_mul bf16->bf16 M=4 N=2880 act=swigluoai gates=interleaved" },
    { "act_and_mul f32->f32 M=3 N=100 act=swigluoai" },
    { "act_and_mul f32->f32 M=3 N=100 act=swigluoai limit=1" },
    { "act_and_mul bf16->bf16 M=3 N=1536 limit=1" },
    { "act_and_mul f16->f16 M=5 N=200 act=gelu limit=2 gates=interleaved" },
    { "act_and_mul f32->f32 M=2 N=70 act=none limit=1" },
    { "act_and_mul bf16->bf16 M=4 N=3072 act=situ" },
    { "act_and_mul f32->f32 M=7 N=130 act=situ" },
    { "act_and_mul f16->f16 M=3 N=333 act=situ limit=1 gates=interleaved" },
    { "act_and_mul f32->f32 M=3 N=130 act=swiglustep limit=1" },
    { "act_and_mul bf16->bf16 M=2 N=200 act=swiglustep" },
    { "act_and_mul bf16->bf16 M=2 N=512 act=none" },
    { "act_and_mul bf16->bf16 M=1 N=1" },
    { "act_and_mul f16->f16 M=3 N=7 gates=interleaved" },
    { "act_and_mul bf16->bf16 M=33 N=1001 act=gelu" },
    { "act_and_mul f32->f32 M=11 N=3" },
    { "act_and_mul bf16->bf16 M=600 N=24" },
    { "act bf16->bf16 M=4 N=4096 act=relu2" },
    { "act f16->f16 M=3 N=333 act=gelu_tanh" },
    { "act f32->f32 M=5 N=64 act=gelu" },
    { "act bf16->bf16 M=2 N=4096 act=none" },
    { "act_and_mul bf16->bf16 M=0 N=64" },
    { "act_and_mul bf16->e4m3 M=4 N=0 scale=token" },
};

static const struct op_case quantised[] = {
    { "act_and_mul bf16->e4m3 M=4 N=2048 scale=static" },
    { "act_and_mul bf16->e4m3fnuz M=4 N=1536 act=gelu_tanh scale=static plain=1" },
    { "act_and_mul f16->e5m2 M=3 N=512 scale=static" },
    { "act_and_mul f32->i8 M=5 N=300 scale=static act=gelu" },
    { "act_and_mul bf16->e4m3 M=6 N=2880 scale=token" },
    { "act_and_mul bf16->e4m3fnuz M=3 N=4864 scale=token plain=1" },
    { "act_and_mul f16->i8 M=7 N=1001 scale=token" },
    { "act_and_mul f32->e4m3 M=3 N=777 scale=token act=gelu_tanh" },
    { "act_and_mul bf16->i8 M=2 N=20000 scale=token" },
    { "act_and_mul bf16->e4m3 M=5 N=2048 scale=group" },
    { "act_and_mul bf16->e4m3 M=9 N=1544 scale=group plain=1" },
    { "act_and_mul bf16->e4m3fnuz M=3 N=1000 scale=group scale_columns=1" },
    { "act_and_mul f32->i8 M=4 N=520 scale=group" },
    { "act_and_mul f16->e5m2 M=2 N=129 scale=group" },
    { "act_and_mul f16->e4m3 M=4 N=1 scale=group" },
    { "act_and_mul bf16->e4m3 M=4 N=2880 act=swigluoai gates=interleaved scale=group plain=1" },
    { "act_and_mul bf16->e4m3 M=4 N=1536 act=situ scale=token" },
    { "act_and_mul f16->i8 M=3 N=260 limit=2 scale=group" },
    { "act bf16->e4m3 M=8 N=4096 act=none scale=token" },
    { "act bf16->e4m3 M=3 N=100 act=relu scale=token" }, /* waves without a chunk */
    { "act bf16->e4m3 M=40 N=1 act=relu2 scale=token" },
    { "act f32->e4m3fnuz M=3 N=640 act=none scale=group" },
    { "act bf16->i8 M=3 N=4097 act=none scale=static" },
};

static const struct op_case layouts[] = {
    { "act_and_mul bf16->bf16 M=5 N=512 ldx=1040 ldy=520" },
    { "act_and_mul bf16->bf16 M=5 N=512 ldx=1028 ldy=516" },
    { "act_and_mul f16->f16 M=5 N=510 ldx=1021 ldy=511" },
    { "act_and_mul bf16->e4m3 M=5 N=512 ldx=1032 ldy=520 scale=token plain=1" },
    { "act_and_mul bf16->e4m3 M=5 N=516 ldy=517 scale=group" },
    { "act_and_mul bf16->bf16 M=4 N=512", R, true },
    { "act_and_mul f32->e4m3 M=4 N=512 scale=group scale_columns=1", R, true },
    { "act_and_mul bf16->bf16 M=6 N=256 gates=interleaved align=4 align_y=8" },
    { "act bf16->bf16 M=5 N=1024 inplace=1" },
    { "act f16->e4m3 M=5 N=300 ldx=304 ldy=304 inplace=1 scale=token plain=1" },
};

static const struct op_case values[] = {
    { "act_and_mul bf16->bf16 M=8 N=600 act=none", I },
    { "act_and_mul f16->i8 M=8 N=600 act=relu2 scale=token plain=1", I },
    { "act_and_mul f32->e4m3 M=4 N=333 act=relu scale=group", I },
    { "act_and_mul bf16->bf16 M=8 N=512", C },
    { "act_and_mul f32->f32 M=8 N=512 act=gelu_tanh", C },
    { "act_and_mul f32->f32 M=8 N=512 act=gelu", C },
    { "act_and_mul f16->f16 M=8 N=512 act=swigluoai", C },
    { "act_and_mul f32->f32 M=8 N=512 act=situ", C },
    { "act_and_mul f16->f16 M=8 N=512 limit=10", C },
    { "act_and_mul f32->e4m3fnuz M=8 N=512 scale=static", C },
    { "act_and_mul bf16->bf16 M=40 N=512", S },
    { "act_and_mul f16->f16 M=40 N=512 act=gelu", S },
    { "act_and_mul f32->f32 M=40 N=64 act=gelu_tanh", S },
    { "act_and_mul bf16->bf16 M=40 N=512 act=relu", S },
    { "act f32->f32 M=40 N=64 act=relu", S },
    { "act_and_mul bf16->bf16 M=40 N=512 act=relu2", S },
    { "act_and_mul bf16->bf16 M=40 N=512 act=swigluoai", S },
    { "act_and_mul f32->f32 M=40 N=64 act=situ", S },
    { "act_and_mul f16->f16 M=40 N=64 act=situ limit=7", S },
    { "act_and_mul f32->f32 M=40 N=64 act=swiglustep", S },
    { "act_and_mul f32->f32 M=8 N=512 act=swiglustep", C },
    { "act_and_mul bf16->bf16 M=40 N=512 limit=10", S },
    { "act_and_mul bf16->e4m3 M=40 N=512 scale=static", S },
    { "act_and_mul bf16->e4m3 M=40 N=512 scale=token", S },
    { "act_and_mul f16->e4m3fnuz M=40 N=512 scale=group", S },
    { "act_and_mul f32->i8 M=40 N=512 scale=token", S },
    { "act bf16->e5m2 M=40 N=512 act=none scale=group", S },
};

OP_CASES(right_shapes, shapes, "activations")
OP_CASES(right_quantised, quantised, "quantised outputs")
OP_CASES(right_layouts, layouts, "strides, alignment, in place")
OP_CASES(right_values, values, "exact, large, NaN and inf")

START_TEST(rows_by_turns)
{
    op_few_groups(op_device(_i), "act_and_mul bf16->e4m3 M=7 N=1200 scale=token",
                  "act_and_mul_rows{threads=256,chunks=1,keep=1,width=16,stream=0}", 2);
    op_few_groups(op_device(_i), "act_and_mul bf16->e4m3 M=5 N=4104 scale=token",
                  "act_and_mul_rows{threads=256,chunks=1,keep=2,width=16,stream=0}", 1);
}
END_TEST

/* ---- rounding, code for code ------------------------------------------------------------------------------------- */

/* Every value that a format can hold, both neighbours of every tie, the tie itself, what saturates, NaN: through
 * act=none with scale 1, against the harness' table-driven conversion. */
static int make_inputs(rfg_dtype dtype, float *x)
{
    int n = 0;
    for (int code = 0; code < 256; code++) {
        uint8_t a = (uint8_t)code, b = (uint8_t)(code + 1);
        float v = (float)rfg_load(&a, dtype, 0), w = (float)rfg_load(&b, dtype, 0);
        x[n++] = v;
        if (isfinite(v) && isfinite(w) && code != 0x7f && code != 0xff) {
            float tie = (v + w) / 2;
            x[n++] = tie;
            x[n++] = nextafterf(tie, -INFINITY);
            x[n++] = nextafterf(tie, INFINITY);
        }
    }
    float max = (float)rfg_largest(dtype), ulp = (float)rfg_ulp(dtype, max);
    const float more[] = { 0.0f,          -0.0f,         NAN,       -NAN,           INFINITY,       -INFINITY,
                           max + ulp / 4, max + ulp / 2, max + ulp, -max - ulp / 4, -max - ulp / 2, -max - 2 * ulp,
                           1e30f,         -1e30f,        0x1p-126f, -0x1p-149f };
    for (size_t i = 0; i < sizeof(more) / sizeof(more[0]); i++)
        x[n++] = more[i];
    while (n % 16)
        x[n++] = 1;
    return n;
}

static void check_codes(rfg_context *ctx, rfg_dtype dtype, const char *device)
{
    const struct rfg_hip *hip = rfg_context_hip(ctx);
    float x[1200], one = 1;
    uint8_t q[1200];
    int n = make_inputs(dtype, x);
    ck_assert_int_le(n, 1200);
    char *mem = NULL, *host = calloc(1, 8192);
    ck_assert_ptr_nonnull(host);
    memcpy(host, x, sizeof(x));
    memcpy(host + 4800, &one, 4);
    void *dev = host;
    if (hip) {
        ck_assert_int_eq(hip->hipMalloc(&dev, 8192), hipSuccess);
        ck_assert_int_eq(hip->hipMemcpyHtoD((hipDeviceptr_t)dev, host, 8192), hipSuccess);
    }
    mem = dev;
    rfg_tensor tx = rfg_tensor_2d(mem, RFG_F32, 1, n, n), tq = rfg_tensor_2d(mem + 6144, dtype, 1, n, n);
    rfg_tensor ts = rfg_tensor_1d(mem + 4800, RFG_F32, 1);
    rfg_quant quant = { sizeof(rfg_quant), RFG_SCALE_STATIC, 0, &tq, &ts };
    rfg_act_params params = { .size = sizeof(params), .act = RFG_ACT_NONE, .quant = &quant };
    ck_assert_msg(rfg_op_act(ctx, NULL, &tx, &params, NULL) == RFG_OK, "%s", rfg_last_error());
    if (hip) {
        ck_assert_int_eq(hip->hipDeviceSynchronize(), hipSuccess);
        ck_assert_int_eq(hip->hipMemcpyDtoH(host, (hipDeviceptr_t)dev, 8192), hipSuccess);
        hip->hipFree(dev);
    }
    memcpy(q, host + 6144, sizeof(q));
    for (int i = 0; i < n; i++) {
        uint8_t want;
        rfg_store(&want, dtype, 0, (double)x[i]);
        bool both_nan = isnan(rfg_load(&want, dtype, 0)) && isnan(rfg_load(&q[i], dtype, 0));
        ck_assert_msg(q[i] == want || both_nan, "%s: %a to %s is %02x, not %02x", device, (double)x[i],
                      rfg_dtype_name(dtype), q[i], want);
    }
    free(host);
}

START_TEST(every_code)
{
    static const char *const isa[] = { "portable", "avx2", "avx512" };
    bool cpu = !strcmp(op_device(_i), "cpu");
    for (int k = 0; k < (cpu ? 3 : 1); k++) {
        char list[100];
        snprintf(list, sizeof(list), "act_cpu_%s", isa[k]);
        rfg_context_params p = { .size = sizeof(p), .device = op_device(_i), .user_db = "", .system_db = "" };
        p.variants = cpu ? list : NULL;
        rfg_context *ctx;
        ck_assert_msg(rfg_context_create(&ctx, &p) == RFG_OK, "%s", rfg_last_error());
        const struct rfg_variant *v = cpu ? rfg_variant_find(&rfg_op_act_desc, list) : NULL;
        if (!v || v->supports(rfg_context_info(ctx), NULL, NULL))
            for (rfg_dtype d = RFG_E4M3; d <= RFG_I8; d = (rfg_dtype)(d + 1))
                check_codes(ctx, d, cpu ? list : op_device(_i));
        rfg_context_destroy(&ctx);
    }
}
END_TEST

/* ---- numbers that no problem says -------------------------------------------------------------------------------- */

/* silu_and_mul_with_clamp's numbers and SiTU's, against the formulas; rfg_op_gemm() by an identity of weights has the
 * same. */
static double by_formula(const rfg_act_params *p, double a, double b)
{
    double beta = (double)p->situ_beta, linear = (double)p->situ_linear_beta, limit = (double)p->limit;
    if (limit > 0) {
        a = p->act == RFG_ACT_SWIGLUSTEP ? a : fmin(a, limit);
        b = fmax(fmin(b, limit), -limit);
    }
    if (p->act == RFG_ACT_SITU)
        return beta * tanh(a / beta) / (1 + exp(-a)) * (isinf(linear) ? b : linear * tanh(b / linear));
    if (p->act == RFG_ACT_SWIGLUOAI)
        return a / (1 + exp(-(double)p->alpha * a)) * (b + 1);
    a /= 1 + exp(-a);
    return (p->act == RFG_ACT_SWIGLUSTEP ? fmin(a, limit) : a) * b;
}

static const rfg_act_params numbers[] = {
    { .size = sizeof(rfg_act_params), .act = RFG_ACT_SILU, .limit = 1.25f },
    { .size = sizeof(rfg_act_params), .act = RFG_ACT_SWIGLUOAI, .alpha = -0.5f, .limit = 0.75f },
    { .size = sizeof(rfg_act_params), .act = RFG_ACT_SITU, .situ_beta = 1, .situ_linear_beta = INFINITY },
    { .size = sizeof(rfg_act_params), .act = RFG_ACT_SITU, .situ_beta = 2.5f, .situ_linear_beta = 0.5f },
    { .size = sizeof(rfg_act_params), .act = RFG_ACT_SWIGLUSTEP, .limit = 1.5f },
    { .size = sizeof(rfg_act_params), .act = RFG_ACT_SITU, .situ_beta = 3, .situ_linear_beta = 9, .limit = 1.5f },
};

START_TEST(right_numbers)
{
    enum { N = 96 };
    rfg_context *ctx = op_context(op_device(_i));
    float x[2][2 * N], w[2 * N][2], y[2][N];
    void *dev[3];
    size_t bytes[3] = { sizeof(x), sizeof(w), sizeof(y) };
    for (int i = 0; i < 3; i++)
        ck_assert_msg(rfg_device_alloc(ctx, &dev[i], bytes[i]) == RFG_OK, "%s", rfg_last_error());
    for (int i = 0; i < N; i++) /* as product of [1, 0] and [0, 1] w has x's rows */
        for (int r = 0; r < 2; r++) {
            x[r][i] = w[i][r] = (float)(i - 40) / (r ? 7 : 9);
            x[r][N + i] = w[N + i][r] = (float)(60 - i) / (r ? 5 : 13);
        }
    for (size_t c = 0; c < 2 * sizeof(numbers) / sizeof(numbers[0]); c++) {
        const rfg_act_params *p = &numbers[c / 2];
        float one[2][2] = { { 1, 0 }, { 0, 1 } };
        bool product = c % 2;
        rfg_gemm_params g = { .size = sizeof(g),
                              .gated = 1,
                              .act = p->act,
                              .alpha = p->alpha,
                              .limit = p->limit,
                              .situ_beta = p->situ_beta,
                              .situ_linear_beta = p->situ_linear_beta };
        rfg_tensor ty = rfg_tensor_2d(dev[2], RFG_F32, 2, N, N);
        rfg_tensor tx =
            product ? rfg_tensor_2d(dev[0], RFG_F32, 2, 2, 2) : rfg_tensor_2d(dev[0], RFG_F32, 2, 2 * N, 2 * N);
        rfg_tensor tw = rfg_tensor_2d(dev[1], RFG_F32, 2 * N, 2, 2);
        memset(y, 0, sizeof(y));
        rfg_status st = rfg_device_copy(ctx, dev[0], product ? (void *)one : (void *)x,
                                        product ? sizeof(one) : sizeof(x), RFG_HOST_TO_DEVICE, NULL);
        st = st ? st : rfg_device_copy(ctx, dev[1], w, sizeof(w), RFG_HOST_TO_DEVICE, NULL);
        st = st ? st : product ? rfg_op_gemm(ctx, &ty, &tx, &tw, &g, NULL) : rfg_op_act_and_mul(ctx, &ty, &tx, p, NULL);
        st = st ? st : rfg_device_copy(ctx, y, dev[2], sizeof(y), RFG_DEVICE_TO_HOST, NULL);
        st = st ? st : rfg_stream_sync(ctx, NULL);
        ck_assert_msg(st == RFG_OK, "%s", rfg_last_error());
        for (int i = 0; i < 2 * N; i++) {
            double got = (double)y[i / N][i % N],
                   want = by_formula(p, (double)x[i / N][i % N], (double)x[i / N][N + i % N]);
            ck_assert_msg(fabs(got - want) <= 2e-6 * fabs(want) + 1e-30, "case %zu, element %d: %.9g, not %.9g", c, i,
                          got, want);
        }
    }
    for (int i = 0; i < 3; i++)
        rfg_device_free(ctx, dev[i]);
    rfg_context_destroy(&ctx);
}
END_TEST

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

static struct {
    rfg_context *ctx;
    _Alignas(64) uint16_t x[4096], y[4096];
    _Alignas(64) uint8_t q[4096];
    _Alignas(64) float s[256];
    rfg_tensor tx, ty, tq, ts;
    rfg_act_params p;
} g;

static void fresh(void)
{
    for (int i = 0; i < 4096; i++)
        g.x[i] = 0x3f80, g.y[i] = 0x7777, g.q[i] = 0x77;
    g.tx = rfg_tensor_2d(g.x, RFG_BF16, 4, 512, 512);
    g.ty = rfg_tensor_2d(g.y, RFG_BF16, 4, 256, 256);
    g.tq = rfg_tensor_2d(g.q, RFG_E4M3, 4, 256, 256);
    g.ts = rfg_tensor_2d(g.s, RFG_F32, 4, 2, 2);
    g.p = (rfg_act_params){ .size = sizeof(g.p), .act = RFG_ACT_GELU };
}

/* The call must say each of the words and write nothing. kind 0: no quant. */
static void refused(bool mul, bool plain, int kind, const char *const *words)
{
    rfg_quant quant = { sizeof(rfg_quant), (rfg_scale_kind)kind, 0, &g.tq, &g.ts };
    g.p.quant = kind ? &quant : NULL;
    rfg_status got = (mul ? rfg_op_act_and_mul : rfg_op_act)(g.ctx, plain ? &g.ty : NULL, &g.tx, &g.p, NULL);
    ck_assert_msg(got == RFG_ERROR_INVALID_ARGUMENT, "%s: %s", rfg_status_name(got), rfg_last_error());
    for (; *words; words++)
        ck_assert_msg(strstr(rfg_last_error(), *words) != NULL, "no '%s' in: %s", *words, rfg_last_error());
    for (int i = 0; i < 4096; i++)
        ck_assert_msg(g.y[i] == 0x7777 && g.q[i] == 0x77, "refused, but wrote element %d", i);
    fresh();
}
#define WORDS(...) ((const char *const[]){ __VA_ARGS__, NULL })

START_TEST(refusals)
{
    g.ctx = op_context("cpu");
    fresh();
    rfg_quant quant = { sizeof(rfg_quant), RFG_SCALE_GROUP, 0, &g.tq, &g.ts };
    rfg_act_params p = { .size = sizeof(p), .quant = &quant };
    ck_assert_msg(rfg_op_act_and_mul(g.ctx, &g.ty, &g.tx, &p, NULL) == RFG_OK, "%s", rfg_last_error());
    ck_assert(g.y[0] != 0x7777 && g.q[0] != 0x77);
    fresh();

    refused(true, false, 0, WORDS("y and quant are NULL", "one must be given"));
    g.tx.shape[1] = 511;
    refused(true, true, 0, WORDS("x has 511 columns", "even number"));
    g.tx.dtype = RFG_E4M3;
    refused(true, true, 0, WORDS("x is e4m3", "must be bf16, f16 or f32"));
    g.ty.dtype = RFG_F32;
    refused(true, true, 0, WORDS("y is f32", "must be x's dtype, bf16"));
    g.ty.shape[1] = 255;
    refused(true, true, 0, WORDS("y has 255 columns", "must be x's N columns, 256"));
    g.p.act = (rfg_act)99;
    refused(true, true, 0, WORDS("act is 99", "from 0 to 8"));
    g.p.limit = -1;
    refused(true, true, 0, WORDS("limit is -1", "from 0 to 10000"));
    g.p.limit = 10001;
    refused(true, true, 0, WORDS("limit is 10001", "from 0 to 10000"));
    g.p.alpha = NAN;
    refused(true, true, 0, WORDS("alpha is nan", "finite"));
    g.p.limit = 10; /* there is no up */
    refused(false, true, 0, WORDS("limit 10: only rfg_op_act_and_mul has a limit"));
    g.p.alpha = 1.5f;
    refused(false, true, 0, WORDS("alpha is 1.5", "must be 0, act is not swigluoai"));
    g.p.situ_beta = 4;
    refused(true, true, 0, WORDS("situ_beta is 4, situ_linear_beta 0", "must be 0, act is not situ"));
    g.p.situ_linear_beta = 25;
    refused(true, true, 0, WORDS("situ_beta is 0, situ_linear_beta 25", "must be 0, act is not situ"));
    g.p.act = RFG_ACT_SITU;
    g.p.situ_beta = -4;
    refused(true, true, 0, WORDS("situ_beta is -4", "from 2^-64 to 2^64"));
    g.p.act = RFG_ACT_SITU;
    g.p.situ_beta = INFINITY;
    refused(true, true, 0, WORDS("situ_beta is inf", "from 2^-64 to 2^64"));
    g.p.act = RFG_ACT_SITU;
    refused(false, true, 0, WORDS("rfg_op_act:", "act is 6", "only rfg_op_act_and_mul has this act"));
    g.p.act = RFG_ACT_SWIGLUOAI;
    refused(false, true, 0, WORDS("rfg_op_act:", "act is 5", "only rfg_op_act_and_mul has this act"));
    g.p.gates = RFG_GATES_INTERLEAVED;
    refused(false, true, 0, WORDS("gates 1", "only rfg_op_act_and_mul has gates"));
    g.ty.data = g.x;
    refused(true, true, 0, WORDS("y [", "overlaps x [", "may not alias"));
    g.tx = rfg_tensor_2d(g.x, RFG_BF16, 4, 256, 256);
    g.ty.data = g.x + 8;
    refused(false, true, 0, WORDS("y [", "overlaps x [", "unless they are one"));
    refused(true, false, 9, WORDS("kind is 9", "RFG_SCALE_STATIC"));
    g.tq.dtype = RFG_BF16;
    refused(true, false, RFG_SCALE_TOKEN, WORDS("q is bf16", "e4m3, e4m3fnuz, e5m2 or i8"));
    g.tq.shape[0] = 3;
    refused(true, false, RFG_SCALE_TOKEN, WORDS("q has 3 rows", "x's rows, 4"));
    refused(true, false, RFG_SCALE_TOKEN, WORDS("scale is 4 x 2", "must be 4 x 1", "one a row"));
    refused(true, false, RFG_SCALE_STATIC, WORDS("scale is 4 x 2", "static: one"));
    g.ts.shape[1] = 1;
    refused(true, false, RFG_SCALE_TOKEN, WORDS("scale has row stride 2", "must be 1"));
    g.ts.shape[1] = 3;
    refused(true, false, RFG_SCALE_GROUP, WORDS("scale has row stride 2"));
    g.ts.dtype = RFG_BF16;
    refused(true, false, RFG_SCALE_GROUP, WORDS("scale is bf16", "must be f32"));
    g.tq.data = g.x;
    refused(true, false, RFG_SCALE_GROUP, WORDS("q [", "overlaps x ["));
    g.ts.data = g.q;
    refused(true, false, RFG_SCALE_GROUP, WORDS("q [", "overlaps scale [", "outputs may not overlap"));
    g.ty.data = g.q;
    refused(true, true, RFG_SCALE_GROUP, WORDS("y [", "overlaps q [", "outputs may not overlap"));
    g.tx.ndim = 3;
    g.tx.shape[0] = 2, g.tx.shape[1] = 2, g.tx.shape[2] = 64;
    g.tx.strides[0] = 512, g.tx.strides[1] = 128, g.tx.strides[2] = 1;
    refused(true, true, 0, WORDS("strides 512 and 128", "rows of one stride"));
    op_problem_refused("act_and_mul bf16->e4m3 M=1 N=8", "output is e4m3");
    op_problem_refused("act_and_mul bf16->bf16 M=1 N=8 act=swish", "act=swish");
    op_problem_refused("act_and_mul bf16->bf16 M=1 N=8 scale=token", "");
    op_problem_refused("act bf16->bf16 M=1 N=8 act=swigluoai", "act=swigluoai, limit=0");
    op_problem_refused("act bf16->bf16 M=1 N=8 act=situ", "act=situ");
    op_problem_refused("act bf16->bf16 M=1 N=8 limit=3", "limit=3");
    rfg_context_destroy(&g.ctx);
}
END_TEST

int main(void)
{
    return op_main_gpus("act",
                        OP_TESTS(right_shapes, right_quantised, right_layouts, right_values, right_numbers, every_code),
                        OP_TESTS(refusals), OP_TESTS(rows_by_turns));
}
