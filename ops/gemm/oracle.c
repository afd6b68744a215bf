/* SPDX-License-Identifier: MIT
 *
 * The oracle of gemm. */
#include "ops/oracle.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#include "gemm.h"

struct gemm_job {
    const struct rfg_problem *prob;
    const rfg_tensor *x, *w, *bias, *w_scale, *w_zero, *w_global, *residual, *offsets, *weights;
    const int64_t *rows;     /* of Y and of the residual */
    int64_t *experts;        /* whose they are: 0 of a plain product, -1: nobody's */
    bool rounds;             /* X may be rounded: see rounding_of(); */
    bool *loose;             /* not of finite numbers, whose sums are not said then */
    int gated;               /* enum rfg_act + 1 */
    bool packed;             /* W is */
    const double *xd;        /* the rows of X wanted, as doubles, k-major rows */
    int64_t n_rows, cols, k; /* cols: of Y */
    int64_t group;           /* columns of W that share a scale */
    double eps;              /* allowed error, of the sum of magnitudes */
    double *expected, *allow;
};

#define ROW_BLOCK 8

/* sum x*w and sum |x*w| for up to ROW_BLOCK rows of X and one row of W. */
static void dots(const double *x, const double *w, int rows, int64_t k, double *sum, double *mag)
{
    for (int r = 0; r < rows; r++) {
        const double *xr = x + r * k;
        double s[8] = { 0 }, m[8] = { 0 };
        int64_t i = 0;
        for (; i + 8 <= k; i += 8)
            for (int j = 0; j < 8; j++) {
                double t = xr[i + j] * w[i + j];
                s[j] += t;
                m[j] += fabs(t);
            }
        for (; i < k; i++) {
            double t = xr[i] * w[i];
            s[0] += t;
            m[0] += fabs(t);
        }
        sum[r] = ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
        mag[r] = ((m[0] + m[1]) + (m[2] + m[3])) + ((m[4] + m[5]) + (m[6] + m[7]));
    }
}

/* The value of every 16-bit pattern: conversion becomes a load. */
static double half_values[2][65536];
static pthread_once_t half_once = PTHREAD_ONCE_INIT;

static void half_init(void)
{
    for (int i = 0; i < 65536; i++) {
        uint16_t bits = (uint16_t)i;
        half_values[0][i] = rfg_load(&bits, RFG_F16, 0);
        half_values[1][i] = rfg_load(&bits, RFG_BF16, 0);
    }
}

/* The same of a prepacked W of 4 bits, [N/16][K/128][4][16][4][8], in which nibbles of a word are columns 0, 2, 4, 6,
 * 1, 3, 5, 7. */
static void unpack_codes(const rfg_tensor *w, int64_t row, int64_t k, double *out)
{
    for (int64_t i = 0; i < k / 8; i++) /* words */
        for (int e = 0; e < 8; e++) {
            int64_t block = row / 16 * ((k + 127) / 128) + i / 16, chunk = i % 4, word = i % 16 / 4;
            int64_t at = ((block * 4 + chunk) * 16 + row % 16) * 32 + word * 8;
            out[i * 8 + e] = rfg_load(w->data, w->dtype, at + (e % 2 ? 4 + e / 2 : e / 2));
        }
}

/* A row of a prepacked W, by the definition of its layout: [N/16][K/32][4][16][8]. */
static void unpack_doubles(const rfg_tensor *w, int64_t row, int64_t k, double *out)
{
    const double *values = half_values[w->dtype == RFG_BF16];
    const uint16_t *base = w->data;
    for (int64_t i = 0; i < k; i++)
        out[i] = values[base[((((row / 16) * (k / 32) + i / 32) * 4 + i % 32 / 8) * 16 + row % 16) * 8 + i % 8]];
}

/* The same of 8 bits: [N/16][K/64][4][16][16]. */
static void unpack_8(const rfg_tensor *w, int64_t row, int64_t k, double *out)
{
    for (int64_t i = 0; i < k; i++)
        out[i] = rfg_load(w->data, w->dtype,
                          (((row / 16 * (k / 64) + i / 64) * 4 + i % 64 / 16) * 16 + row % 16) * 16 + i % 16);
}

static void to_doubles(const rfg_tensor *t, int64_t row, int64_t k, double *out)
{
    int64_t at =
        t->ndim == 3 ? row / t->shape[1] * t->strides[0] + row % t->shape[1] * t->strides[1] : row * t->strides[0];
    const char *base = (const char *)t->data + rfg_format_bytes((int)t->dtype, at);
    if (t->dtype != RFG_F16 && t->dtype != RFG_BF16) {
        for (int64_t i = 0; i < k; i++)
            out[i] = rfg_load(base, t->dtype, i);
        return;
    }
    const double *values = half_values[t->dtype == RFG_BF16];
    for (int64_t i = 0; i < k; i++)
        out[i] = values[((const uint16_t *)base)[i]];
}

/* A row of codes times row r of scales, if there are any. */
static void scale_codes(const rfg_tensor *scale, int per, int64_t group, int64_t r, int64_t k, double *values)
{
    if (!scale)
        return;
    for (int64_t i = 0; i < k; i++) {
        int64_t c = per == RFG_GEMM_SCALE_BLOCK   ? i / GEMM_SCALE_BLOCK * scale->strides[1]
                    : per == RFG_GEMM_SCALE_GROUP ? i / group * scale->strides[1]
                                                  : 0;
        values[i] *= rfg_load(scale->data, scale->dtype, r * scale->strides[0] + c);
    }
}

/* Row n, as it lies in memory, of expert e's W, scaled. */
static void w_row(const struct gemm_job *j, int64_t e, int64_t n, double *w)
{
    int per = (int)j->prob->v[GEMM_W_PER];
    int64_t of = per == RFG_GEMM_SCALE_TENSOR ? e
                 : per == RFG_GEMM_SCALE_BLOCK
                     ? e * ceil_div(j->prob->v[GEMM_N], GEMM_SCALE_BLOCK) + n / GEMM_SCALE_BLOCK
                     : e * j->prob->v[GEMM_N] + n;
    n += e * j->prob->v[GEMM_N];
    if (j->packed && gemm_w_is_4_bits(j->prob))
        unpack_codes(j->w, n, j->k, w);
    else if (j->packed && rfg_dtype_is_code(j->w->dtype))
        unpack_8(j->w, n, j->k, w);
    else if (j->packed)
        unpack_doubles(j->w, n, j->k, w);
    else
        to_doubles(j->w, n, j->k, w);
    if (gemm_is_codes(j->prob) && j->packed) { /* [N/16][K/32][16], K padded */
        for (int64_t i = 0; i < j->k; i++)
            w[i] *= rfg_load(j->w_scale->data, RFG_E8M0, (n / 16 * ((j->k + 127) / 128 * 4) + i / 32) * 16 + n % 16);
        return;
    }
    if (gemm_w_has_per(j->prob)) {
        scale_codes(j->w_scale, per, j->group ? j->group : 32, of, j->k, w);
        return;
    }
    for (int64_t i = 0; j->w_scale && i < j->k; i++) {
        int64_t cols = j->packed ? (j->k + 127) / 128 * 128 : j->k;
        int64_t groups = (cols + j->group - 1) / j->group, group = n * groups + i / j->group;
        if (j->packed) /* [N/16][groups][16] */
            group = (n / 16 * groups + i / j->group) * 16 + n % 16;
        double zero = j->w_zero ? rfg_load(j->w_zero->data, j->w_zero->dtype, group) : 0;
        w[i] = (w[i] - zero) * rfg_load(j->w_scale->data, j->w_scale->dtype, group);
        if (j->w_global)
            w[i] *= rfg_load(j->w_global->data, RFG_F32, e);
    }
}

/* What Hopper's fp8 matrix unit may cut off a sum of x*w. It takes 32 columns at a time, aligns their products and the
 * sum before them to the largest of these 33, and cuts off what is below 2^-13 of it (14 bits are kept: DeepSeek-V3's
 * report, 3.5.2), so at most 33 times that; then what it has is put into as many bits, which costs at most 2^-13 of it.
 * The sum before is off itself, by `error` at most. Sums begin anew at each GEMM_SCALE_BLOCK columns; they are added in
 * fp32, which j->eps allows for. x and w are scaled: within a block all terms by the same. */
static double cut_off(const double *x, const double *w, int64_t k)
{
    double all = 0, sum = 0, error = 0;
    for (int64_t i = 0; i < k; i += 32) {
        if (i % GEMM_SCALE_BLOCK == 0) {
            all += error;
            sum = error = 0;
        }
        double largest = fabs(sum) + error;
        for (int64_t c = i; c < k && c < i + 32; c++) {
            double t = x[c] * w[c];
            largest = fmax(largest, fabs(t));
            sum += t;
        }
        error += 33 * 0x1p-13 * largest;
        error += 0x1p-13 * (fabs(sum) + error);
    }
    return all + error;
}

/* What rounding X to q8_1 may change of a sum: each 32 columns become whole multiples of their largest magnitude / 127.
 * Errors are spread evenly over such a step, so that their sum's deviation is known; six of them are allowed, and a
 * little for what is near the middle of a step. */
static double rounding_of(const double *x, const double *w, int64_t k)
{
    double variance = 0, rest = 0;
    for (int64_t i = 0; i < k; i += 32) {
        double most = 0;
        for (int64_t c = i; c < k && c < i + 32; c++)
            most = fmax(most, fabs(x[c]));
        for (int64_t c = i; c < k && c < i + 32; c++) {
            double step = most / 127 * fabs(w[c]);
            variance += step * step / 12;
            rest += step * 0x1p-9;
        }
    }
    return 6 * sqrt(variance) + rest;
}

static bool all_finite(const double *v, int64_t n)
{
    bool yes = true;
    for (int64_t i = 0; i < n; i++)
        yes = yes && isfinite(v[i]);
    return yes;
}

struct sum {
    double v, error;
};

/* A column of the product, with its bias and weights, of `rows` rows from `row` on; w: its row of W, row n of all. */
static void sums_of(const struct gemm_job *j, int64_t n, const double *w, int64_t row, int rows, struct sum *s)
{
    double sum[ROW_BLOCK], mag[ROW_BLOCK], bias = j->bias ? rfg_load(j->bias->data, j->bias->dtype, n) : 0;
    dots(j->xd + row * j->k, w, rows, j->k, sum, mag);
    for (int i = 0; i < rows; i++)
        s[i] = (struct sum){ sum[i] + bias, j->eps * (mag[i] + fabs(bias)) + 0x1p-126 +
                                                (j->rounds ? rounding_of(j->xd + (row + i) * j->k, w, j->k)
                                                 : j->prob->v[GEMM_FAST] ? cut_off(j->xd + (row + i) * j->k, w, j->k)
                                                                         : 0) };
    for (int i = 0; i < rows && j->weights; i++) {
        double weight = rfg_load(j->weights->data, j->weights->dtype, j->rows[row + i]);
        s[i] = (struct sum){ s[i].v * weight, (s[i].error + fabs(s[i].v) * 0x1p-23) * fabs(weight) + 0x1p-126 };
    }
}

/* A sum that counts as what is nearest between least and most. */
static struct sum clamped(struct sum s, double least, double most)
{
    if (s.v > most || s.v < least)
        return (struct sum){ s.v > most ? most : least, isfinite(s.v) ? s.error : 0 };
    return s;
}

/* act(gate) * up. An activation's slope is at most 1.13, relu2's 2v. */
static struct sum gate_up(const struct rfg_problem *prob, struct sum gate, struct sum up)
{
    rfg_act act = gemm_act(prob);
    double limit = (double)rfg_gate_in(act, prob->v[GEMM_LIMIT]).limit;
    if (gemm_is_limited(prob)) {
        gate = rfg_act_clamps_first(act) ? clamped(gate, -INFINITY, limit) : gate;
        up = clamped(up, -limit, limit);
    }
    double before = up.v, steep, a = rfg_oracle_gate(act, (double)prob->v[GEMM_LIMIT], gate.v, &up.v, &steep);
    if (up.v != before) /* fp32 rounds what becomes of it */
        up.error += (fabs(before) + 1) * 0x1p-24;
    double y = a * up.v;
    double slope = act == RFG_ACT_RELU2 ? 2 * (fabs(gate.v) + gate.error) : 1.2;
    double error = slope * gate.error * (fabs(up.v) + up.error) + fabs(a) * up.error +
                   fabs(y) * 0x1p-24 * (16 + 4 * fmin(steep, 1e4)) + 0x1p-116 * fmax(1, fabs(up.v));
    /* fp32 may overflow where double does not. */
    return (struct sum){ isfinite(y) && fabs(y) > 0x1.fffffep127 ? copysign(INFINITY, y) : y, isfinite(y) ? error : 0 };
}

/* A column of Y. */
static void gemm_column(void *job, int64_t n, void *scratch)
{
    const struct gemm_job *j = job;
    int halves = j->gated ? 2 : 1, rows;
    int64_t half = gemm_halves(j->prob) ? j->prob->v[GEMM_N] / 2 : 1, first = half > 1 ? n : n * halves, loaded = -1;
    double *w = scratch;
    bool loose = false;
    for (int64_t r = 0; r < j->n_rows; r += rows) {
        struct sum s[2][ROW_BLOCK];
        int64_t e = j->experts[r];
        for (rows = 1; rows < ROW_BLOCK && r + rows < j->n_rows && j->experts[r + rows] == e;)
            rows++;
        for (int i = 0; i < halves && e >= 0; i++) {
            if (e != loaded)
                w_row(j, e, first + i * half, w + i * j->k);
            sums_of(j, e * j->prob->v[GEMM_N] + first + i * half, w + i * j->k, r, rows, s[i]);
        }
        if (e >= 0 && e != loaded)
            loose = j->rounds && !all_finite(w, halves * j->k);
        loaded = e >= 0 ? e : loaded;
        for (int i = 0; i < rows; i++) {
            struct sum y = { 0, -1 };
            if (e >= 0)
                y = j->gated ? gate_up(j->prob, s[0][i], s[1][i]) : s[0][i];
            if (j->residual) {
                double d = rfg_element(j->residual, j->rows[r + i], n);
                y = (struct sum){ y.v + d, y.error + fabs(d) * 0x1p-23 };
            }
            j->expected[(r + i) * j->cols + n] = y.v;
            j->allow[(r + i) * j->cols + n] = e >= 0 && (loose || j->loose[r + i]) ? -INFINITY : y.error;
        }
    }
}

/* Of a batch x and y are [M,batch,..], or matrices one below the other: which matrix a row of y is in, and the row of x
 * that it is made of. */
static int64_t matrix_of(const struct rfg_problem *prob, const rfg_tensor *host, int64_t row)
{
    return host[0].ndim == 3 ? row % prob->v[GEMM_BATCH] : row / prob->v[GEMM_M];
}
static int64_t x_row_of(const struct rfg_problem *prob, const rfg_tensor *host, int64_t row)
{
    int64_t matrix = matrix_of(prob, host, row), batch = prob->v[GEMM_BATCH], m = prob->v[GEMM_M];
    int64_t of = host[0].ndim == 3 ? row / batch : row % m;
    return host[1].ndim == 3 ? of * batch + matrix : matrix * m + of;
}

static int64_t expert_of(const struct gemm_job *j, int64_t row)
{
    const int32_t *offsets = j->offsets ? j->offsets->data : NULL;
    int64_t e = 0, experts = j->prob->v[GEMM_EXPERTS];
    if (j->prob->v[GEMM_IDS])
        return offsets[row] >= 0 && offsets[row] < experts ? offsets[row] : -1;
    while (offsets && e < experts && !(row >= offsets[e] && row < offsets[e + 1]))
        e++;
    return offsets && e == experts ? -1 : e;
}

/* The kernel sums fp32 products in some order: the error of a sum of K terms is at most (K-1) eps sum|terms|; with
 * rounding errors of random sign it grows like sqrt(K), and sqrt(K) + 4 (the bias, scaled weights, the split-K
 * partials, a few ulps of bad luck) is what is allowed: a 16-bit accumulator is far outside it. fp32 denormals may be
 * flushed. */
static rfg_status product(const struct rfg_problem *prob, const rfg_tensor *host, const struct rfg_expected *expected)
{
    int64_t k = prob->v[GEMM_K], n_rows = expected->n_rows;
    double *xd = malloc((size_t)(n_rows * k + 1) * sizeof(double));
    int64_t *experts = malloc((size_t)(n_rows + 1) * sizeof(*experts));
    bool *loose = calloc((size_t)n_rows + 1, sizeof(*loose));
    struct gemm_job j = { .prob = prob,
                          .x = &host[1],
                          .w = &host[2],
                          .bias = prob->v[GEMM_BIAS] ? &host[3] : NULL,
                          .w_scale = prob->v[GEMM_W_SCALE] ? &host[4] : NULL,
                          .w_zero = prob->v[GEMM_W_ZERO] ? &host[7] : NULL,
                          .w_global = prob->v[GEMM_W_GLOBAL] ? &host[14] : NULL,
                          .residual = prob->v[GEMM_RESIDUAL] ? &host[5] : NULL,
                          .offsets = prob->v[GEMM_EXPERTS] ? &host[8] : NULL,
                          .weights = prob->v[GEMM_WEIGHTS] ? &host[10] : NULL,
                          .rows = expected->rows,
                          .experts = experts,
                          .rounds = prob->v[GEMM_FAST] && gemm_w_is_blocks(prob),
                          .loose = loose,
                          .gated = (int)prob->v[GEMM_GATED],
                          .group = prob->v[GEMM_W_GROUP],
                          .packed = prob->v[GEMM_PREPACKED],
                          .xd = xd,
                          .n_rows = n_rows,
                          .cols = gemm_y_cols(prob),
                          .k = k,
                          .eps = (sqrt((double)k) + 4) * 0x1p-24,
                          .expected = expected->value,
                          .allow = expected->allow };
    if (!xd || !experts || !loose) {
        free(xd);
        free(experts);
        free(loose);
        return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "oracle: no memory for %lld rows of x", (long long)n_rows);
    }
    pthread_once(&half_once, half_init);
    for (int64_t r = 0; r < n_rows; r++) {
        int64_t row = expected->rows[r];
        j.experts[r] = prob->v[GEMM_BATCH] ? matrix_of(prob, host, row) : expert_of(&j, row);
        if (j.experts[r] < 0)
            continue;
        if (prob->v[GEMM_BATCH])
            row = x_row_of(prob, host, row);
        if (prob->v[GEMM_TOP] && prob->v[GEMM_IDS]) {
            row /= prob->v[GEMM_TOP];
        } else if (prob->v[GEMM_TOP]) {
            row = ((const int32_t *)host[9].data)[row];
            row = row < 0 || row >= host[1].shape[0] ? host[1].shape[0] - 1 : row;
        }
        to_doubles(j.x, row, k, xd + r * k);
        j.loose[r] = j.rounds && !all_finite(xd + r * k, k);
        if (gemm_is_codes(prob))
            scale_codes(prob->v[GEMM_X_SCALE] ? &host[6] : NULL, (int)prob->v[GEMM_X_PER], 32,
                        prob->v[GEMM_X_PER] == RFG_GEMM_SCALE_TENSOR ? 0 : row, k, xd + r * k);
    }

    bool large = (double)n_rows * (double)prob->v[GEMM_N] * (double)k >= 1e6;
    rfg_status st = rfg_share_out(j.cols, large, (size_t)k * 2 * sizeof(double), gemm_column, &j);
    free(xd);
    free(experts);
    free(loose);
    return st;
}

/* The row of the product that a slot of token t has; none: another number. */
static double place_of(const struct rfg_problem *prob, const rfg_tensor *host, int64_t t, int64_t slot)
{
    int64_t row = t * prob->v[GEMM_SLOTS] + slot;
    if (!prob->v[GEMM_IDS])
        return rfg_element(&host[12], t, slot);
    int32_t e = ((const int32_t *)host[8].data)[row];
    return e >= 0 && e < prob->v[GEMM_EXPERTS] ? (double)row : -1;
}

/* A token's rows of the product, which are rounded to y's dtype before they are added up in fp32: its expected value
 * and what it may be off by are the sums of theirs. */
static void sum_token(const struct rfg_problem *prob, const rfg_tensor *host, int64_t t, const struct sum *rows,
                      struct sum *y)
{
    /* Half of the last bit, and of the last of subnormals. */
    double unit = prob->dtype[2] == RFG_BF16 ? 0x1p-8 : prob->dtype[2] == RFG_F16 ? 0x1p-11 : 0;
    double least = prob->dtype[2] == RFG_F16 ? 0x1p-25 : 0x1p-126;
    int64_t n = prob->v[GEMM_N], slots = prob->v[GEMM_SLOTS];
    for (int64_t i = 0; i < n; i++) {
        double sum = 0, most = 0, off = 0;
        for (int64_t s = 0; s < slots; s++) {
            double at = place_of(prob, host, t, s), v = rows[s * n + i].v, error = rows[s * n + i].error;
            if (at < 0 || at >= (double)prob->v[GEMM_M])
                continue;
            sum += v;
            most += fabs(v) + error;
            off += error + unit * (fabs(v) + error) + least;
        }
        if (prob->v[GEMM_RESIDUAL]) {
            double r = rfg_element(&host[5], t, i);
            sum += r;
            most += fabs(r);
        }
        y[i] = (struct sum){ sum, off + (double)(slots + 1) * (most * 0x1p-24 + 0x1p-126) };
    }
}

static rfg_status summed(const struct rfg_problem *prob, const rfg_tensor *host, const struct rfg_expected *expected)
{
    struct rfg_problem rows_prob = *prob;
    int64_t n = prob->v[GEMM_N], slots = prob->v[GEMM_SLOTS], tokens = gemm_y_rows(prob);
    int64_t *rows = malloc((size_t)slots * sizeof(*rows));
    double *value = malloc((size_t)(slots * n) * 2 * sizeof(*value));
    struct sum *of = malloc((size_t)((slots + 1) * n) * sizeof(*of)), *y = of + slots * n;
    rfg_status st = RFG_OK;
    rows_prob.v[GEMM_RESIDUAL] = 0;
    if (prob->v[GEMM_TOKENS])
        tokens = (int64_t)rfg_load(host[13].data, RFG_I32, 0);
    if (!rows || !value || !of)
        st = rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "oracle: no memory for %lld rows", (long long)slots);
    for (int64_t r = 0; r < expected->n_rows && !st; r++) {
        struct rfg_expected product_of = { .rows = rows, .n_rows = slots, .value = value, .allow = value + slots * n };
        int64_t t = expected->rows[r];
        for (int64_t s = 0; s < slots; s++) {
            double at = place_of(prob, host, t, s);
            rows[s] = at < 0 || at >= (double)prob->v[GEMM_M] ? 0 : (int64_t)at; /* or any one */
        }
        st = product(&rows_prob, host, &product_of);
        for (int64_t i = 0; i < slots * n; i++)
            of[i] = (struct sum){ value[i], value[slots * n + i] };
        sum_token(prob, host, t, of, y);
        for (int64_t i = 0; i < n; i++) {
            expected->value[r * n + i] = y[i].v;
            expected->allow[r * n + i] = t < tokens ? y[i].error : -1;
        }
    }
    free(rows);
    free(value);
    free(of);
    return st;
}

rfg_status rfg_oracle_gemm(const struct rfg_problem *prob, const rfg_tensor *host, struct rfg_expected *expected)
{
    return prob->v[GEMM_SLOTS] ? summed(prob, host, expected) : product(prob, host, expected);
}

/* Bits are moved, none is rounded: what is expected is exactly what was there. */
rfg_status rfg_oracle_gemm_prepack(const struct rfg_problem *prob, const rfg_tensor *host,
                                   struct rfg_expected *expected)
{
    bool four_bits = rfg_dtype_is_4_bits(prob->dtype[0]), codes = rfg_dtype_is_code(prob->dtype[0]);
    int64_t k = prob->v[PREPACK_K], pad = four_bits ? (128 - k % 128) % 128 : 0;
    int64_t padded = k + (prob->v[PREPACK_GROUPS] ? prob->v[PREPACK_PAD] : pad);
    for (int64_t b = 0; b < expected[0].n_rows; b++) /* of 16 rows of W */
        for (int64_t r = 0; r < 16; r++)
            for (int64_t i = 0; i < padded; i++) {                             /* zeros from k on */
                int64_t at = ((i / 32 * 4 + i % 32 / 8) * 16 + r) * 8 + i % 8; /* [K/32][4][16][8] */
                if (four_bits) /* [K/128][4][16][4][8], of columns 0, 2, 4, 6, 1, 3, 5, 7 */
                    at = (((i / 128 * 4 + i % 32 / 8) * 16 + r) * 4 + i % 128 / 32) * 8 + i % 2 * 4 + i % 8 / 2;
                if (codes) /* [K/64][4][16][16] */
                    at = ((i / 64 * 4 + i % 64 / 16) * 16 + r) * 16 + i % 16;
                if (prob->v[PREPACK_GROUPS]) /* [K][16] */
                    at = i * 16 + r;
                at += b * 16 * padded;
                expected[0].value[at] = i < k ? rfg_element(&host[1], expected[0].rows[b] * 16 + r, i) : 0;
                expected[0].allow[at] = 0;
            }
    return RFG_OK;
}
