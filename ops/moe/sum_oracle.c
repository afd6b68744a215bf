/* SPDX-License-Identifier: MIT
 *
 * The oracle of moe_sum, by the formula of rfg/moe.h. */
#include <math.h>

#include "ops/oracle.h"
#include "sum.h"
#include "sum_case.h"

rfg_status rfg_oracle_moe_sum(const struct rfg_problem *prob, const rfg_tensor *host, struct rfg_expected *expected)
{
    const int64_t *v = prob->v;
    int64_t n = v[SUM_N], rows = sum_x_rows(prob);
    double tokens = v[SUM_TOKENS] ? rfg_load(host[CASE_TOKENS].data, RFG_I32, 0) : (double)v[SUM_T];
    for (int64_t r = 0; r < expected[CASE_Y].n_rows; r++) {
        int64_t t = expected[CASE_Y].rows[r];
        for (int64_t i = 0; i < n; i++) {
            double sum = 0, most = 0, steps = 0;
            for (int64_t k = 0; k < v[SUM_TOP]; k++) {
                double at = rfg_element(&host[CASE_PLACES], t, k);
                if (at == RFG_MOE_IDENTITY && v[SUM_IDENTITY]) {
                    double own = rfg_element(&host[CASE_IDENTITY_WEIGHTS], t, k);
                    own *= rfg_element(&host[CASE_IDENTITY], t, i);
                    sum += own;
                    most += fabs(own);
                    steps += 2;
                }
                if (at < 0 || at >= (double)rows)
                    continue;
                double x = rfg_element(&host[CASE_X], (int64_t)at, i);
                double w = v[SUM_WEIGHTS] ? rfg_element(&host[CASE_WEIGHTS], t, k) : 1;
                sum += w * x;
                most += fabs(w * x);
                steps += 2;
            }
            if (v[SUM_RESIDUAL]) {
                double x = rfg_element(&host[CASE_RESIDUAL], t, i);
                sum += x;
                most += fabs(x);
                steps++;
            }
            bool written = (double)t < tokens;
            expected[CASE_Y].value[r * n + i] = sum;
            /* A rounding to fp32 a product and a sum; subnormals may be 0. */
            expected[CASE_Y].allow[r * n + i] = written ? steps * (most * 0x1p-24 + 0x1p-126) : -1;
        }
    }
    return RFG_OK;
}
