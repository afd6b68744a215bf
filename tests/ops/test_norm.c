/* SPDX-License-Identifier: MIT
 *
 * rfg_op_rmsnorm, rfg_op_add_rmsnorm, rfg_op_layernorm and rfg_op_add_layernorm on the cpu and on the devices of
 * $RFG_TEST_DEVICES: shapes, quantised outputs, strides, heads, in place, special values; and what they refuse. */
#include <math.h>

#include "base/util.h"
#include "tests/op_cases.h"
#include "rfg/rfg.h"

#define R RFG_DATA_RANDOM
#define I RFG_DATA_INTS
#define C RFG_DATA_CANCEL
#define S RFG_DATA_SPECIAL

static const struct op_case shapes[] = {
    { "rmsnorm bf16->bf16 M=3 N=4096" },
    { "rmsnorm f16->f16 M=2 N=2880 weight=1+w" },
    { "rmsnorm f32->f32 M=5 N=1536" },
    { "rmsnorm bf16->bf16 M=700 N=64" },
    { "rmsnorm f16->f16 M=33 N=128 weight=none" },
    { "rmsnorm f32->f32 M=9 N=1" },
    { "rmsnorm bf16->bf16 M=4 N=3" },
    { "rmsnorm bf16->bf16 M=2 N=4097" },
    { "rmsnorm f32->f32 M=1 N=65536" },
    { "add_rmsnorm bf16->bf16 M=16 N=4096" },
    { "add_rmsnorm bf16->bf16 M=5 N=7168 weight=1+w" },
    { "add_rmsnorm f16->f16 M=3 N=3584" },
    { "add_rmsnorm f32->f32 M=4 N=2048" },
    { "add_rmsnorm bf16->bf16 M=1 N=16384" },
    { "add_rmsnorm bf16->bf16 M=1 N=65536" },
    { "add_rmsnorm f16->f16 M=7 N=777" },
    { "add_rmsnorm bf16->bf16 M=11 N=2 weight=none" },
    { "layernorm bf16->bf16 M=4 N=5120 bias=1" },
    { "layernorm f16->f16 M=3 N=768 bias=1 weight=1+w" },
    { "layernorm f32->f32 M=5 N=1000" },
    { "layernorm f32->f32 M=3 N=333 weight=none bias=1" },
    { "layernorm bf16->bf16 M=130 N=72" },
    { "layernorm f32->f32 M=2 N=20000 bias=1" },
    { "add_layernorm bf16->bf16 M=6 N=6144 bias=1" },
    { "add_layernorm f16->f16 M=3 N=1023" },
    { "add_layernorm f32->f32 M=2 N=12288 weight=none" },
    { "rmsnorm bf16->bf16 M=0 N=64" },
    { "add_layernorm bf16->bf16 M=5 N=0 bias=1" },
};

static const struct op_case quantised[] = {
    { "rmsnorm bf16->e4m3 M=4 N=4096 scale=static" },
    { "rmsnorm bf16->e4m3fnuz M=5 N=2048 scale=token" },
    { "rmsnorm f16->i8 M=3 N=2880 scale=token weight=1+w plain=1" },
    { "rmsnorm f32->e5m2 M=3 N=1000 scale=token weight=none" },
    { "rmsnorm bf16->e4m3 M=3 N=7168 scale=group" },
    { "rmsnorm f32->e4m3fnuz M=4 N=130 scale=group plain=1" },
    { "add_rmsnorm bf16->e4m3 M=4 N=4096 scale=token" },
    { "add_rmsnorm bf16->e4m3fnuz M=3 N=8192 scale=token plain=1" },
    { "add_rmsnorm f16->i8 M=3 N=1001 scale=token" },
    { "add_rmsnorm bf16->e4m3 M=5 N=1544 scale=group scale_columns=1" },
    { "add_rmsnorm bf16->i8 M=2 N=20000 scale=static plain=1" },
    { "layernorm bf16->e4m3 M=3 N=4096 bias=1 scale=token" },
    { "layernorm f32->i8 M=3 N=555 bias=1 scale=group" },
    { "add_layernorm f16->e4m3 M=4 N=3584 bias=1 scale=group plain=1" },
    { "add_layernorm bf16->e5m2 M=3 N=100 scale=static" },
};

static const struct op_case layouts[] = {
    { "rmsnorm bf16->bf16 M=5 N=512 ldx=520 ldy=528" },
    { "rmsnorm bf16->bf16 M=5 N=512 ldx=513" },
    { "rmsnorm bf16->bf16 M=96 N=128 heads=32 ldx=6144" }, /* the queries of a fused QKV */
    { "rmsnorm bf16->bf16 M=24 N=64 heads=8 ldx=768 ldy=768 inplace=1" },
    { "rmsnorm f16->f16 M=12 N=256 heads=4 ldx=2048 weight=1+w" },
    { "rmsnorm bf16->e4m3 M=12 N=128 heads=4 ldx=640 scale=group plain=1" },
    { "rmsnorm f32->i8 M=15 N=100 heads=5 ldx=700 scale=token" },
    { "layernorm f16->f16 M=14 N=80 heads=7 ldx=1000 bias=1" },
    { "add_rmsnorm bf16->bf16 M=4 N=4096 inplace=3" },
    { "add_rmsnorm bf16->bf16 M=9 N=1000 inplace=2" },
    { "add_rmsnorm bf16->bf16 M=3 N=40000 inplace=3" },
    { "add_rmsnorm f16->f16 M=6 N=640 ldx=648 ldr=656 ldy=648 inplace=1" },
    { "add_rmsnorm bf16->e4m3 M=6 N=2048 ldr=2056 inplace=2 scale=token" },
    { "add_layernorm f32->f32 M=5 N=333 inplace=3 bias=1" },
    { "layernorm f32->f32 M=3 N=20000 inplace=1 bias=1" },
    { "rmsnorm bf16->bf16 M=4 N=1024", R, true },
    { "add_rmsnorm f32->e4m3 M=4 N=512 scale=group scale_columns=1", R, true },
    { "add_rmsnorm bf16->bf16 M=4 N=1024 align=4 align_y=8" },
};

static const struct op_case values[] = {
    { "rmsnorm bf16->bf16 M=8 N=1024", I },
    { "add_rmsnorm bf16->bf16 M=8 N=2048 inplace=3", I },
    { "add_rmsnorm f32->f32 M=4 N=300", I },
    { "rmsnorm bf16->bf16 M=8 N=2048", C },
    { "add_rmsnorm f32->f32 M=8 N=1024", C },
    { "layernorm f32->f32 M=8 N=2048 bias=1", C },
    { "rmsnorm bf16->bf16 M=40 N=512", S },
    { "add_rmsnorm f16->f16 M=40 N=512", S },
    { "layernorm bf16->bf16 M=40 N=256 weight=none", S },
    { "add_layernorm f32->f32 M=40 N=100 bias=1", S },
    { "rmsnorm bf16->e4m3 M=40 N=512 scale=token weight=none", S },
    { "rmsnorm f16->e4m3fnuz M=40 N=512 scale=group", S },
    { "add_rmsnorm f32->i8 M=40 N=512 scale=token", S },
};

/* fp32 residual streams, norm weights and biases of a 16-bit x. */
static const struct op_case wide[] = {
    { "add_rmsnorm bf16->bf16 M=3 N=4096 residual=f32" },
    { "add_rmsnorm bf16->bf16 M=3 N=3584 weight=1+w residual=f32 wtype=f32" },
    { "add_rmsnorm f16->f16 M=3 N=3584 residual=f32 inplace=2" },
    { "add_rmsnorm bf16->bf16 M=1 N=20000 residual=f32 wtype=f32 inplace=3" },
    { "add_rmsnorm f16->f16 M=7 N=777 residual=f32 wtype=f32" },
    { "add_rmsnorm bf16->bf16 M=11 N=2 weight=none residual=f32" },
    { "add_rmsnorm bf16->bf16 M=2 N=8192 residual=f32" }, /* what 64 KiB of LDS hold */
    { "add_rmsnorm bf16->bf16 M=6 N=36 residual=f32 wtype=f32" },
    { "add_rmsnorm bf16->e4m3 M=3 N=2048 scale=token residual=f32 wtype=f32" },
    { "add_rmsnorm f16->i8 M=3 N=1001 scale=token weight=none residual=f32" },
    { "add_rmsnorm bf16->e4m3 M=5 N=1544 scale=group plain=1 residual=f32" },
    { "add_rmsnorm bf16->bf16 M=6 N=640 ldx=648 ldr=656 ldy=648 inplace=1 residual=f32" },
    { "add_rmsnorm bf16->bf16 M=12 N=128 heads=4 ldr=768 residual=f32 wtype=f32" },
    { "add_rmsnorm bf16->bf16 M=4 N=1024 residual=f32 wtype=f32 align=4 align_y=8" },
    { "rmsnorm bf16->bf16 M=3 N=4096 wtype=f32" },
    { "rmsnorm f16->f16 M=33 N=130 weight=1+w wtype=f32" },
    { "rmsnorm bf16->bf16 M=4 N=3 wtype=f32" },
    { "layernorm bf16->bf16 M=4 N=5120 bias=1 wtype=f32" },
    { "layernorm f16->f16 M=3 N=333 weight=none bias=1 wtype=f32" },
    { "add_layernorm bf16->bf16 M=3 N=6144 bias=1 residual=f32 wtype=f32" },
    { "add_layernorm f16->e4m3 M=3 N=2500 bias=1 scale=group residual=f32" },
    { "add_rmsnorm bf16->bf16 M=4 N=1024 inplace=3 residual=f32", I },
    { "add_rmsnorm bf16->bf16 M=20 N=256 residual=f32 wtype=f32", S },
    { "add_layernorm f16->f16 M=20 N=100 bias=1 residual=f32 wtype=f32", S },
    { "add_rmsnorm bf16->bf16 M=0 N=64 residual=f32" },
};

OP_CASES(right_shapes, shapes, "norms")
OP_CASES(right_wide, wide, "fp32 residuals and weights")
OP_CASES(right_quantised, quantised, "quantised norms")
OP_CASES(right_layouts, layouts, "strides, heads, in place")
OP_CASES(right_values, values, "exact, large, NaN and inf")

/* A large mean and a small spread: the variance must come from the differences. (mean(x^2) - mean(x)^2 loses it.) */
START_TEST(large_mean)
{
    rfg_context *ctx = op_context(op_device(_i));
    const struct rfg_hip *hip = rfg_context_hip(ctx);
    static float x[2][3000], y[2][3000];
    size_t bytes = sizeof(x);
    uint64_t seed = op_seed();
    for (int r = 0; r < 2; r++)
        for (int i = 0; i < 3000; i++)
            x[r][i] = 10000 + (float)(rfg_random(&seed) % 1024) / 1024;
    void *dx = x, *dy = y;
    if (hip) {
        ck_assert_int_eq(hip->hipMalloc(&dx, bytes), hipSuccess);
        ck_assert_int_eq(hip->hipMalloc(&dy, bytes), hipSuccess);
        ck_assert_int_eq(hip->hipMemcpyHtoD((hipDeviceptr_t)dx, x, bytes), hipSuccess);
    }
    rfg_tensor tx = rfg_tensor_2d(dx, RFG_F32, 2, 3000, 3000), ty = rfg_tensor_2d(dy, RFG_F32, 2, 3000, 3000);
    rfg_norm_params p = { .size = sizeof(p), .eps = 1e-30f };
    ck_assert_msg(rfg_op_layernorm(ctx, &ty, &tx, NULL, &p, NULL) == RFG_OK, "%s", rfg_last_error());
    if (hip) {
        ck_assert_int_eq(hip->hipDeviceSynchronize(), hipSuccess);
        ck_assert_int_eq(hip->hipMemcpyDtoH(y, (hipDeviceptr_t)dy, bytes), hipSuccess);
        hip->hipFree(dx);
        hip->hipFree(dy);
    }
    for (int r = 0; r < 2; r++) {
        double mean = 0, var = 0;
        for (int i = 0; i < 3000; i++)
            mean += (double)x[r][i] / 3000;
        for (int i = 0; i < 3000; i++)
            var += ((double)x[r][i] - mean) * ((double)x[r][i] - mean) / 3000;
        for (int i = 0; i < 3000; i++) {
            double want = ((double)x[r][i] - mean) / sqrt(var);
            ck_assert_msg(fabs((double)y[r][i] - want) < 0.02, "%s: [%d,%d] is %g, not %g", op_device(_i), r, i,
                          (double)y[r][i], want);
        }
    }
    rfg_context_destroy(&ctx);
}
END_TEST

/* The residuals may have different strides: sums land where residual_out says, and nothing between its rows. */
START_TEST(residuals_of_unequal_strides)
{
    enum { ROWS = 3, COLS = 64, APART = 72 };
    rfg_context *ctx = op_context(op_device(_i));
    const struct rfg_hip *hip = rfg_context_hip(ctx);
    static struct {
        float x[ROWS * COLS], y[ROWS * COLS], r[ROWS * APART], ro[ROWS * APART];
    } host, *dev = &host;
    void *mem = NULL;
    if (hip) {
        ck_assert_int_eq(hip->hipMalloc(&mem, sizeof(host)), hipSuccess);
        dev = mem;
    }
    for (int apart = 0; apart < 2; apart++) { /* residual_out's rows, then residual's */
        int64_t ldr = apart ? APART : COLS, ldo = apart ? COLS : APART;
        for (int i = 0; i < ROWS * COLS; i++)
            host.x[i] = (float)i;
        for (int i = 0; i < ROWS * APART; i++)
            host.r[i] = (float)(1000 * i), host.ro[i] = -1;
        if (hip)
            ck_assert_int_eq(hip->hipMemcpyHtoD((hipDeviceptr_t)dev, &host, sizeof(host)), hipSuccess);
        rfg_tensor tx = rfg_tensor_2d(dev->x, RFG_F32, ROWS, COLS, COLS);
        rfg_tensor ty = rfg_tensor_2d(dev->y, RFG_F32, ROWS, COLS, COLS);
        rfg_tensor tr = rfg_tensor_2d(dev->r, RFG_F32, ROWS, COLS, ldr);
        rfg_tensor to = rfg_tensor_2d(dev->ro, RFG_F32, ROWS, COLS, ldo);
        ck_assert_msg(rfg_op_add_rmsnorm(ctx, &ty, &to, &tx, &tr, NULL, NULL, NULL) == RFG_OK, "%s", rfg_last_error());
        if (hip) {
            ck_assert_int_eq(hip->hipDeviceSynchronize(), hipSuccess);
            ck_assert_int_eq(hip->hipMemcpyDtoH(&host, (hipDeviceptr_t)dev, sizeof(host)), hipSuccess);
        }
        for (int i = 0; i < ROWS * APART; i++) {
            int64_t r = i / ldo, c = i % ldo;
            float want = r < ROWS && c < COLS ? (float)(r * COLS + c + 1000 * (r * ldr + c)) : -1;
            ck_assert_msg(host.ro[i] == want, "%s: residual_out's element %d is %g, not %g", op_device(_i), i,
                          (double)host.ro[i], (double)want);
        }
    }
    if (hip)
        hip->hipFree(mem);
    rfg_context_destroy(&ctx);
}
END_TEST

/* eps is added to the mean of the squares, not to their sum: where it is as large as they are, that shows. */
START_TEST(large_eps)
{
    rfg_context *ctx = op_context(op_device(_i));
    const struct rfg_hip *hip = rfg_context_hip(ctx);
    static float host[4][300];
    void *mem = host;
    for (int i = 0; i < 300; i++)
        host[0][i] = host[1][i] = i % 2 ? -1 : 1;
    if (hip) {
        ck_assert_int_eq(hip->hipMalloc(&mem, sizeof(host)), hipSuccess);
        ck_assert_int_eq(hip->hipMemcpyHtoD((hipDeviceptr_t)mem, host, sizeof(host)), hipSuccess);
    }
    char *at = mem;
    size_t half = sizeof(host) / 2;
    rfg_tensor x = rfg_tensor_2d(at, RFG_F32, 2, 300, 300), y = rfg_tensor_2d(at + half, RFG_F32, 2, 300, 300);
    rfg_norm_params p = { .size = sizeof(p), .eps = 3 };
    for (int layer = 0; layer < 2; layer++) {
        rfg_status st =
            layer ? rfg_op_layernorm(ctx, &y, &x, NULL, &p, NULL) : rfg_op_rmsnorm(ctx, &y, &x, NULL, &p, NULL);
        ck_assert_msg(st == RFG_OK, "%s", rfg_last_error());
        if (hip) {
            ck_assert_int_eq(hip->hipDeviceSynchronize(), hipSuccess);
            ck_assert_int_eq(hip->hipMemcpyDtoH(host, (hipDeviceptr_t)mem, sizeof(host)), hipSuccess);
        }
        for (int i = 0; i < 600; i++)
            ck_assert_msg(fabsf(host[2 + i / 300][i % 300] - host[0][i % 300] / 2) < 1e-6f, "%s: %s: %g of %g",
                          op_device(_i), layer ? "layernorm" : "rmsnorm", (double)host[2 + i / 300][i % 300],
                          (double)host[0][i % 300]);
    }
    if (hip)
        ck_assert_int_eq(hip->hipFree(mem), hipSuccess);
    rfg_context_destroy(&ctx);
}
END_TEST

/* An f32 NaN of any bits stays one in bf16: rounding must not carry it over into -0. */
START_TEST(nan_of_f32)
{
    enum { N = 64, AT = 5 };
    rfg_context *ctx = op_context(op_device(_i));
    const struct rfg_hip *hip = rfg_context_hip(ctx);
    static struct {
        _Alignas(16) float r[N], w[N];
        uint16_t x[N], y[N];
    } host, *dev = &host;
    void *mem = NULL;
    if (hip) {
        ck_assert_int_eq(hip->hipMalloc(&mem, sizeof(host)), hipSuccess);
        dev = mem;
    }
    for (int of_weight = 0; of_weight < 2; of_weight++)
        for (int minus = 0; minus < 2; minus++) {
            const uint32_t bits = minus ? 0xffffffff : 0x7fffffff;
            for (int i = 0; i < N; i++)
                host.r[i] = host.w[i] = 1, host.x[i] = 0, host.y[i] = 0x7777;
            memcpy(of_weight ? &host.w[AT] : &host.r[AT], &bits, sizeof(bits));
            if (hip)
                ck_assert_int_eq(hip->hipMemcpyHtoD((hipDeviceptr_t)dev, &host, sizeof(host)), hipSuccess);
            rfg_tensor x = rfg_tensor_2d(dev->x, RFG_BF16, 1, N, N), y = rfg_tensor_2d(dev->y, RFG_BF16, 1, N, N);
            rfg_tensor r = rfg_tensor_2d(dev->r, RFG_F32, 1, N, N), w = rfg_tensor_1d(dev->w, RFG_F32, N);
            ck_assert_msg(rfg_op_add_rmsnorm(ctx, &y, &r, &x, &r, &w, NULL, NULL) == RFG_OK, "%s", rfg_last_error());
            if (hip) {
                ck_assert_int_eq(hip->hipDeviceSynchronize(), hipSuccess);
                ck_assert_int_eq(hip->hipMemcpyDtoH(&host, (hipDeviceptr_t)dev, sizeof(host)), hipSuccess);
            }
            for (int i = 0; i < N; i++)
                ck_assert_msg(of_weight && i != AT ? host.y[i] == 0x3f80 : isnan(rfg_load(host.y, RFG_BF16, i)),
                              "%s: %s: element %d is %04x", op_device(_i), of_weight ? "weight" : "residual", i,
                              host.y[i]);
        }
    if (hip)
        hip->hipFree(mem);
    rfg_context_destroy(&ctx);
}
END_TEST

/* eps is the call's: next to none, and 12, on a row of one value; rows of [T,H,N] views of unequal strides. */
START_TEST(arguments)
{
    rfg_context *ctx = op_context("cpu");
    float x[24], y[12], w[2] = { 1, -3 };
    for (int i = 0; i < 24; i++)
        x[i] = 2;
    rfg_tensor tx = { x, RFG_F32, 3, { 2, 3, 2 }, { 12, 3, 1 } }, ty = { y, RFG_F32, 3, { 2, 3, 2 }, { 6, 2, 1 } };
    rfg_tensor tw = rfg_tensor_1d(w, RFG_F32, 2);
    rfg_norm_params p = { .size = sizeof(p), .eps = 1e-30f };
    ck_assert_msg(rfg_op_rmsnorm(ctx, &ty, &tx, &tw, &p, NULL) == RFG_OK, "%s", rfg_last_error());
    for (int i = 0; i < 12; i++)
        ck_assert(y[i] == (i % 2 ? -3.0f : 1.0f));
    p.eps = 12;
    p.one_plus_weight = 1;
    ck_assert_msg(rfg_op_rmsnorm(ctx, &ty, &tx, &tw, &p, NULL) == RFG_OK, "%s", rfg_last_error());
    for (int i = 0; i < 12; i++) /* 2 / sqrt(4 + 12) = 0.5 */
        ck_assert(y[i] == (i % 2 ? -1.0f : 1.0f));
    rfg_context_destroy(&ctx);
}
END_TEST

/* What a kernel makes of the columns that fill a row's last vector up, (0 - mean) / sigma, is none of the largest. */
START_TEST(scale_of_few_columns)
{
    rfg_context *ctx = op_context("cpu");
    float x[3] = { 1000, 1001, 1002 }, scale = 0;
    int8_t q[3];
    rfg_tensor tx = rfg_tensor_2d(x, RFG_F32, 1, 3, 3), tq = rfg_tensor_2d(q, RFG_I8, 1, 3, 3);
    rfg_tensor ts = rfg_tensor_1d(&scale, RFG_F32, 1);
    rfg_quant quant = { sizeof(rfg_quant), RFG_SCALE_TOKEN, 0, &tq, &ts };
    rfg_norm_params p = { .size = sizeof(p), .quant = &quant };
    ck_assert_msg(rfg_op_layernorm(ctx, NULL, &tx, NULL, &p, NULL) == RFG_OK, "%s", rfg_last_error());
    ck_assert_msg(fabs((double)scale - sqrt(1.5) / 127) < 1e-6, "scale is %g", (double)scale);
    ck_assert(q[0] == -127 && q[1] == 0 && q[2] == 127);
    rfg_context_destroy(&ctx);
}
END_TEST

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

static struct {
    rfg_context *ctx;
    _Alignas(64) uint16_t x[1024], y[1024], r[1024], ro[1024], w[256];
    rfg_tensor tx, ty, tr, tro, tw;
    rfg_norm_params p;
} g;

static void fresh(void)
{
    for (int i = 0; i < 1024; i++)
        g.x[i] = g.r[i] = 0x3f80, g.y[i] = g.ro[i] = 0x7777;
    g.tx = rfg_tensor_2d(g.x, RFG_BF16, 4, 128, 128);
    g.ty = rfg_tensor_2d(g.y, RFG_BF16, 4, 128, 128);
    g.tr = rfg_tensor_2d(g.r, RFG_BF16, 4, 128, 128);
    g.tro = rfg_tensor_2d(g.ro, RFG_BF16, 4, 128, 128);
    g.tw = rfg_tensor_1d(g.w, RFG_BF16, 128);
    g.p = (rfg_norm_params){ .size = sizeof(g.p), .eps = 1e-5f };
}

static void refused(const char *const *words)
{
    rfg_status got = rfg_op_add_rmsnorm(g.ctx, &g.ty, &g.tro, &g.tx, &g.tr, &g.tw, &g.p, NULL);
    ck_assert_msg(got == RFG_ERROR_INVALID_ARGUMENT, "%s: %s", rfg_status_name(got), rfg_last_error());
    for (; *words; words++)
        ck_assert_msg(strstr(rfg_last_error(), *words) != NULL, "no '%s' in: %s", *words, rfg_last_error());
    for (int i = 0; i < 1024; i++)
        ck_assert_msg(g.y[i] == 0x7777 && g.ro[i] == 0x7777 && g.x[i] == 0x3f80 && g.r[i] == 0x3f80,
                      "refused, but wrote element %d", i);
    fresh();
}
#define WORDS(...) ((const char *const[]){ __VA_ARGS__, NULL })

START_TEST(refusals)
{
    g.ctx = op_context("cpu");
    fresh();
    ck_assert_msg(rfg_op_add_rmsnorm(g.ctx, &g.ty, &g.tro, &g.tx, &g.tr, &g.tw, &g.p, NULL) == RFG_OK, "%s",
                  rfg_last_error());
    ck_assert(g.y[0] != 0x7777 && g.ro[0] == 0x4000);
    fresh();
    ck_assert_msg(rfg_op_add_rmsnorm(g.ctx, &g.tx, &g.tr, &g.tx, &g.tr, NULL, NULL, NULL) == RFG_OK, "%s",
                  rfg_last_error());
    ck_assert(g.x[0] == 0x3f80 && g.r[0] == 0x4000); /* in place: 1, and 1 + 1 */
    fresh();

    g.p.eps = -1;
    refused(WORDS("eps is -1", "at least 2^-126, or 0: 1e-06"));
    g.p.eps = 0x1.fffffcp-127f;
    refused(WORDS("eps is 1.17549e-38", "at least 2^-126"));
    g.p.eps = INFINITY;
    refused(WORDS("eps is inf", "finite"));
    g.tw = rfg_tensor_1d(g.w, RFG_BF16, 127);
    refused(WORDS("weight has 127 elements", "x's columns, 128"));
    g.tw.dtype = RFG_F16;
    refused(WORDS("weight is f16", "x's dtype, bf16"));
    g.tr.dtype = RFG_F16;
    refused(WORDS("residual is f16", "x's dtype, bf16, or f32"));
    g.tr.shape[0] = 3;
    refused(WORDS("residual has 3 rows", "x's rows, 4"));
    g.tro.shape[1] = 64;
    refused(WORDS("residual_out has 64 columns", "x's columns, 128"));
    g.tro.data = NULL;
    refused(WORDS("residual_out's data is NULL"));
    g.tx.strides[1] = 2;
    refused(WORDS("x has stride 2 in its last dimension", "must be 1"));
    g.tx.strides[0] = 100;
    refused(WORDS("x has row stride 100", "at least its 128 columns"));
    g.ty.data = g.r;
    refused(WORDS("y [", "overlaps residual [", "may not alias"));
    g.ty.data = g.ro;
    refused(WORDS("residual_out [", "overlaps y ["));
    g.tro.data = g.x;
    refused(WORDS("residual_out [", "overlaps x [", "may not alias"));
    g.tro.data = g.r + 128;
    refused(WORDS("residual_out [", "overlaps residual [", "unless they are one"));
    g.tr.dtype = RFG_F32;
    refused(WORDS("residual_out is bf16", "must be residual's dtype, f32"));
    g.ty.data = g.x;
    g.ty.strides[0] = 136;
    refused(WORDS("y [", "overlaps x [", "unless they are one"));
    g.tx.shape[0] = INT64_C(1) << 40;
    refused(WORDS("1099511627776", "from 0 to 2147483647"));
    g.ty.dtype = RFG_E4M3;
    refused(WORDS("y is e4m3", "x's dtype, bf16"));
    g.tx.ndim = 4;
    refused(WORDS("x has 4 dimensions", "must have 1 to 3"));
    op_refused(rfg_op_add_rmsnorm(g.ctx, &g.ty, &g.tro, &g.tx, NULL, &g.tw, &g.p, NULL), "residual is NULL");
    static const char *const problems[][2] = {
        { "rmsnorm bf16->bf16 M=1 N=8 bias=1", "bias=1: rmsnorm has none" },
        { "rmsnorm bf16->bf16 M=1 N=8 residual=f32", "residual=f32: rmsnorm has none" },
        { "rmsnorm bf16->bf16 M=1 N=8 weight=none wtype=f32", "wtype=f32: there is neither" },
        { "add_rmsnorm f32->f32 M=1 N=8 residual=f32", "residual=f32: is what it is without" },
        { "layernorm f32->f32 M=1 N=8 wtype=f32", "wtype=f32: is what it is without" },
        { "rmsnorm bf16->bf16 M=10 N=8 heads=3", "heads=3: must divide M=10" },
        { "rmsnorm bf16->bf16 M=10 N=8 ldr=9", "" },
        { "rmsnorm bf16->bf16 M=10 N=8 inplace=2", "" },
        { "rmsnorm bf16->f32 M=10 N=8", "" },
    };
    OP_PROBLEMS_REFUSED("", problems);
    rfg_context_destroy(&g.ctx);
}
END_TEST

int main(void)
{
    return op_main("norm",
                   OP_TESTS(right_shapes, right_wide, right_quantised, right_layouts, right_values, large_mean,
                            large_eps, residuals_of_unequal_strides, nan_of_f32),
                   OP_TESTS(arguments, scale_of_few_columns, refusals));
}
