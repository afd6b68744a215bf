/* SPDX-License-Identifier: MIT
 *
 * The oracle of dequantize, by the formula of rfg/quantize.h. The product of a code and a scale is exact in double. */
#include <math.h>

#include "dequantize.h"
#include "ops/oracle.h"

rfg_status rfg_oracle_dequantize(const struct rfg_problem *prob, const rfg_tensor *host, struct rfg_expected *expected)
{
    int64_t n = prob->v[DEQUANTIZE_N], rows = prob->v[DEQUANTIZE_GROUP_ROWS], cols = prob->v[DEQUANTIZE_GROUP_COLS];
    for (int64_t r = 0; r < expected[0].n_rows; r++) {
        int64_t m = expected[0].rows[r];
        for (int64_t i = 0; i < n; i++) {
            double scale = rfg_element(&host[2], rows ? m / rows : 0, cols ? i / cols : 0);
            double v = (double)(float)(rfg_element(&host[1], m, i) * scale);
            expected[0].value[r * n + i] = v;
            expected[0].allow[r * n + i] = fabs(v) < 0x1p-126 ? 0x1p-126 : 0;
        }
    }
    return RFG_OK;
}
