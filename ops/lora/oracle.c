/* SPDX-License-Identifier: MIT
 *
 * The oracle of lora, by the formula of rfg/lora.h. */
#include <math.h>

#include "lora.h"
#include "ops/oracle.h"
#include "lora_case.h"

/* Segments are gone through one by one. */
static int64_t adapter_of(const struct rfg_problem *prob, const rfg_tensor *host, int64_t row)
{
    int64_t at = prob->v[LORA_SEGMENTS] ? -1 : row;
    for (int64_t s = 0; s < prob->v[LORA_SEGMENTS]; s++)
        if (rfg_element(&host[CASE_INDPTR], 0, s) <= (double)row &&
            rfg_element(&host[CASE_INDPTR], 0, s + 1) > (double)row)
            at = s;
    double id = at < 0 ? -1 : rfg_element(&host[CASE_IDS], 0, at);
    return id >= 0 && id < (double)prob->v[LORA_ADAPTERS] ? (int64_t)id : -1;
}

/* A sum of n products in fp32: what is allowed of gemm (ops/gemm/oracle.c), and subnormals may be 0. */
static double sum_off(double n)
{
    return (sqrt(n) + 4) * 0x1p-24;
}

static void expect_row(const struct rfg_problem *prob, const rfg_tensor *host, int64_t row, double *value,
                       double *allow)
{
    const int64_t *v = prob->v;
    int64_t adapter = adapter_of(prob, host, row), rank = v[LORA_RANK];
    double h[RFG_LORA_MAX_RANK], off[RFG_LORA_MAX_RANK], scale = CASE_SCALE;
    double tiny = prob->dtype[0] == RFG_F16 ? 0x1p-14 : 0x1p-126; /* of x, a and b: less may be 0 */
    if (adapter >= 0 && v[LORA_RANKS])
        rank = (int64_t)fmin((double)rank, rfg_element(&host[CASE_RANKS], 0, adapter));
    if (adapter >= 0 && v[LORA_SCALES])
        scale *= rfg_element(&host[CASE_SCALES], 0, adapter);
    for (int64_t r = 0; adapter >= 0 && r < rank; r++) {
        double sum = 0, size = 0, lost = 0;
        for (int64_t k = 0; k < v[LORA_K]; k++) {
            double x = rfg_element(&host[CASE_X], row, k);
            double a = rfg_element(&host[CASE_A], adapter * lora_case_rows(prob, v[LORA_RANK]) + r, k);
            sum += x * a;
            size += fabs(x * a);
            if (fabs(x) < tiny || fabs(a) < tiny)
                lost += fabs(x * a);
        }
        h[r] = scale * sum;
        off[r] = fabs(scale) * (size * sum_off((double)v[LORA_K]) + lost + (double)v[LORA_K] * 0x1p-126) +
                 fabs(h[r]) * 0x1p-22;
    }
    for (int64_t n = 0; n < v[LORA_N]; n++) {
        double sum = 0, size = 0, error = 0;
        for (int64_t r = 0; adapter >= 0 && r < rank; r++) {
            double b = rfg_element(&host[CASE_B], adapter * lora_case_rows(prob, v[LORA_N]) + n, r);
            sum += h[r] * b;
            size += fabs(h[r] * b);
            error += off[r] * fabs(b) + (fabs(b) < tiny ? fabs(h[r] * b) : 0);
        }
        double y = rfg_element(&host[CASE_Y_IN], row, n);
        value[n] = y + sum;
        allow[n] = adapter < 0 || rank <= 0 ? -1 : error + (size + fabs(y)) * sum_off((double)rank) + 0x1p-126;
    }
}

rfg_status rfg_oracle_lora(const struct rfg_problem *prob, const rfg_tensor *host, struct rfg_expected *expected)
{
    struct rfg_expected *y = &expected[CASE_Y];
    for (int64_t r = 0; r < y->n_rows; r++)
        expect_row(prob, host, y->rows[r], y->value + r * prob->v[LORA_N], y->allow + r * prob->v[LORA_N]);
    return RFG_OK;
}
