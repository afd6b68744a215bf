/* SPDX-License-Identifier: MIT
 *
 * The oracle of the norms, by the formulas of rfg/norm.h. */
#include <math.h>
#include <stdlib.h>

#include "ops/oracle.h"
#include "ops/quant.h"
#include "norm.h"

#define EPS 0x1p-24

/* Tensors in the order of norm_tensors(). */
enum { Y, Q, SCALE, RESIDUAL_OUT, X, RESIDUAL, WEIGHT, BIAS };

/* One row. Sums of fp32 numbers in any order err by about sqrt(N) eps of the magnitudes' sum; the square root halves
 * that; a few more roundings follow. */
static void row(const struct rfg_problem *prob, const rfg_tensor *host, int64_t r, double *h, double *y, double *allow)
{
    int64_t n = prob->v[NORM_N];
    bool layer = norm_is_layer(prob), adds = norm_adds(prob);
    double sum = 0, magnitudes = 0, squares = 0, mean = 0;
    for (int64_t i = 0; i < n; i++) {
        h[i] = rfg_element(&host[X], r, i);
        if (adds) { /* the rounded sum is what is normalised; fp32 on the way rounds no differently */
            float f;
            uint16_t bits;
            rfg_dtype dtype = host[RESIDUAL].dtype;
            void *to = dtype == RFG_F32 ? (void *)&f : &bits;
            rfg_store(to, dtype, 0, h[i] + rfg_element(&host[RESIDUAL], r, i));
            h[i] = rfg_load(to, dtype, 0);
        }
        sum += h[i];
        magnitudes += fabs(h[i]);
    }
    double terms = sqrt((double)n) + 8, mean_error = 0;
    if (layer) {
        mean = sum / (double)n;
        mean_error = terms * EPS * magnitudes / (double)n;
    }
    for (int64_t i = 0; i < n; i++)
        squares += (h[i] - mean) * (h[i] - mean);
    double variance = squares / (double)n, eps = (double)NORM_DEFAULT_EPS, rstd = 1 / sqrt(variance + eps);
    /* What the variance errs by: its own sum, and the mean's error squared (its first power cancels), */
    double relative = (terms * EPS * variance + mean_error * mean_error) / (variance + eps);
    if (layer) /* and the roundings of the differences */
        relative += 2 * EPS * sqrt(variance) * magnitudes / (double)n / (variance + eps);
    if (!isfinite(variance)) /* an infinity: the row is 0 and NaN */
        relative = 0;
    for (int64_t i = 0; i < n; i++) {
        double w = prob->v[NORM_WEIGHT] == NORM_WEIGHT_NONE ? 1 : rfg_element(&host[WEIGHT], 0, i);
        double b = prob->v[NORM_BIAS] ? rfg_element(&host[BIAS], 0, i) : 0;
        w += prob->v[NORM_WEIGHT] == NORM_WEIGHT_1W ? 1 : 0;
        double v = (h[i] - mean) * rstd * w;
        y[i] = v + b;
        allow[i] = isfinite(y[i]) ? fabs(v) * (relative + 8 * EPS) + (mean_error + EPS * fabs(h[i])) * rstd * fabs(w) +
                                        EPS * fabs(y[i]) + 0x1p-126
                                  : 0;
    }
}

rfg_status rfg_oracle_rmsnorm(const struct rfg_problem *prob, const rfg_tensor *host, struct rfg_expected *expected)
{
    int64_t n = prob->v[NORM_N];
    const struct rfg_expected *asked =
        expected[Y].value ? &expected[Y] : &expected[Q]; /* all outputs' rows are alike */
    double *h = malloc((size_t)n * 3 * sizeof(double)), *y = h + n, *allow = y + n;
    if (!h)
        return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "oracle: no memory for a row");
    for (int64_t r = 0; r < asked->n_rows; r++) {
        row(prob, host, asked->rows[r], h, y, allow);
        for (int64_t i = 0; i < n; i++) {
            for (int t = Y; t <= Q; t++)
                if (expected[t].value) {
                    expected[t].value[r * n + i] = y[i];
                    expected[t].allow[r * n + i] = allow[i];
                }
            if (expected[RESIDUAL_OUT].value) {
                expected[RESIDUAL_OUT].value[r * n + i] = h[i];
                expected[RESIDUAL_OUT].allow[r * n + i] = 0;
            }
        }
    }
    free(h);
    if (expected[SCALE].value)
        rfg_expect_scales((rfg_dtype)prob->dtype[1], prob->v[NORM_SCALE], prob->v[NORM_ROUNDING], n, &expected[Q],
                          &expected[SCALE]);
    return RFG_OK;
}
