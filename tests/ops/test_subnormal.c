/* SPDX-License-Identifier: MIT
 *
 * Values below 2^-126 on the way to a result: how far off it may be then, as rfg/norm.h and rfg/gemm.h say. On cpu and
 * on the devices of $RFG_TEST_DEVICES. */
#include <math.h>

#include "base/util.h"
#include "ops/oracle.h"
#include "rfg/rfg.h"
#include "tests/op_cases.h"

/* A tensor of a device, and what it holds. */
struct held {
    rfg_tensor t;
    float host[4 * 64]; /* on the device in t's dtype */
};

static void upload(rfg_context *ctx, struct held *h, rfg_dtype dtype, int64_t rows, int64_t cols)
{
    char bytes[sizeof(h->host)];
    ck_assert_int_le(rows * cols, (int64_t)(sizeof(h->host) / sizeof(h->host[0])));
    h->t = rows > 1 ? rfg_tensor_2d(NULL, dtype, rows, cols, cols) : rfg_tensor_1d(NULL, dtype, cols);
    for (int64_t i = 0; i < rows * cols; i++) {
        if (dtype == RFG_I32)
            ((int32_t *)(void *)bytes)[i] = (int32_t)h->host[i];
        else
            rfg_store(bytes, dtype, i, (double)h->host[i]);
        h->host[i] = (float)rfg_load(bytes, dtype, i);
    }
    size_t size = rfg_dtype_bytes(dtype, rows * cols);
    ck_assert_msg(rfg_device_alloc(ctx, &h->t.data, size) == RFG_OK, "%s", rfg_last_error());
    ck_assert(rfg_device_copy(ctx, h->t.data, bytes, size, RFG_HOST_TO_DEVICE, NULL) == RFG_OK);
    ck_assert(rfg_stream_sync(ctx, NULL) == RFG_OK);
}

static void download(rfg_context *ctx, const struct held *h, void *to, size_t bytes)
{
    ck_assert(rfg_device_copy(ctx, to, h->t.data, bytes, RFG_DEVICE_TO_HOST, NULL) == RFG_OK);
    ck_assert(rfg_stream_sync(ctx, NULL) == RFG_OK);
}

/* Between half of 2^e and 2^e, of either sign. */
static float around(int e, uint64_t *seed)
{
    uint64_t r = rfg_random(seed);
    return ldexpf((float)(0.5 + (double)(r >> 40) * 0x1p-25), e) * (r & 1 ? -1 : 1);
}

/* ---- norms ------------------------------------------------------------------------------------------------------ */

enum { N = 64 };

/* Row 0: a large element makes the others' quotients subnormal, which the weight brings back. Row 1: squares are
 * subnormal, beside the least eps. Row 2: all is 0. */
static void norm(const char *device, bool layer)
{
    rfg_context *ctx = op_context(device);
    uint64_t seed = op_seed();
    static struct held x, y, w;
    rfg_norm_params p = { .size = sizeof(p), .eps = 0x1p-126f };
    float got[3 * N];
    int lost = 0;
    memset(&x, 0, sizeof(x));
    for (int i = 0; i < N; i++) {
        x.host[i] = i ? around(-100 - i % 30, &seed) : 0x1p20f;
        x.host[N + i] = around(-68 - i % 10, &seed);
        w.host[i] = around(14, &seed);
    }
    upload(ctx, &x, RFG_F32, 3, N);
    upload(ctx, &y, RFG_F32, 3, N);
    upload(ctx, &w, RFG_F32, 1, N);
    ck_assert_msg((layer ? rfg_op_layernorm : rfg_op_rmsnorm)(ctx, &y.t, &x.t, &w.t, &p, NULL) == RFG_OK, "%s",
                  rfg_last_error());
    download(ctx, &y, got, sizeof(got));
    for (int r = 0; r < 3; r++) {
        const float *h = x.host + r * N;
        double mean = 0, squares = 0;
        for (int i = 0; layer && i < N; i++)
            mean += (double)h[i] / N;
        for (int i = 0; i < N; i++)
            squares += ((double)h[i] - mean) * ((double)h[i] - mean) / N;
        double rstd = 1 / sqrt(squares + 0x1p-126);
        for (int i = 0; i < N; i++) {
            double weight = fabs((double)w.host[i]), want = ((double)h[i] - mean) * rstd * (double)w.host[i];
            double off = fabs((double)got[r * N + i] - want);
            double bound = (fabs(want) + fabs(mean) * rstd * weight) * 0x1p-20 + (weight + 1) * 0x1p-149;
            ck_assert_msg(off <= bound, "%s: %s, row %d, %d: %g, expected %g +- %g", device, layer ? "layer" : "rms", r,
                          i, (double)got[r * N + i], want, bound);
            lost += off > fabs(want) * 0x1p-12;
        }
    }
    ck_assert_msg(layer || lost > 0, "%s: nothing was lost, so nothing is shown", device);
    rfg_device_free(ctx, x.t.data);
    rfg_device_free(ctx, y.t.data);
    rfg_device_free(ctx, w.t.data);
    rfg_context_destroy(&ctx);
}

START_TEST(norms)
{
    norm(op_device(_i), false);
    norm(op_device(_i), true);
}
END_TEST

/* ---- weights of grouped products -------------------------------------------------------------------------------- */

enum { M = 4, COLUMNS = 8, K = 32 };

START_TEST(weights)
{
    static struct held x, w, y, offsets, weight;
    rfg_context *ctx = op_context(op_device(_i));
    uint64_t seed = op_seed();
    float got[M * COLUMNS];
    rfg_gemm_params p = { .size = sizeof(p), .offsets = &offsets.t, .weights = &weight.t };
    for (int m = 0; m < M; m++) { /* products from 2^-128 to 2^-146 */
        for (int k = 0; k < K; k++)
            x.host[m * K + k] = around(-64 - 6 * m, &seed);
        weight.host[m] = around(40, &seed);
    }
    for (int i = 0; i < COLUMNS * K; i++)
        w.host[i] = around(-64, &seed);
    offsets.host[1] = M;
    upload(ctx, &x, RFG_BF16, M, K);
    upload(ctx, &w, RFG_BF16, COLUMNS, K);
    upload(ctx, &y, RFG_F32, M, COLUMNS);
    upload(ctx, &offsets, RFG_I32, 1, 2);
    upload(ctx, &weight, RFG_F32, 1, M);
    ck_assert_msg(rfg_op_gemm(ctx, &y.t, &x.t, &w.t, &p, NULL) == RFG_OK, "%s", rfg_last_error());
    download(ctx, &y, got, sizeof(got));
    /* Of MI100's and MI200's matrix instructions what is subnormal is 0. */
    double least = strstr(op_device(_i), "gfx90") ? 0x1p-126 : 0x1p-149;
    int lost = 0;
    for (int m = 0; m < M; m++)
        for (int n = 0; n < COLUMNS; n++) {
            double sum = 0, factor = (double)weight.host[m];
            for (int k = 0; k < K; k++)
                sum += (double)x.host[m * K + k] * (double)w.host[n * K + k];
            double off = fabs((double)got[m * COLUMNS + n] - sum * factor);
            double bound = fabs(sum * factor) * 0x1p-18 + K * least * fabs(factor);
            ck_assert_msg(off <= bound, "%s: y[%d,%d] is %g, expected %g +- %g", op_device(_i), m, n,
                          (double)got[m * COLUMNS + n], sum * factor, bound);
            lost += off > fabs(sum * factor) * 0x1p-12;
        }
    ck_assert_msg(lost > 0, "%s: nothing was lost, so nothing is shown", op_device(_i));
    struct held *all[] = { &x, &w, &y, &offsets, &weight };
    for (int i = 0; i < 5; i++)
        rfg_device_free(ctx, all[i]->t.data);
    rfg_context_destroy(&ctx);
}
END_TEST

int main(void)
{
    return op_main("subnormal", OP_TESTS(norms, weights), OP_TESTS(NULL));
}
