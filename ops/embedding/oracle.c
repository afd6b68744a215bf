/* SPDX-License-Identifier: MIT
 *
 * The oracle of embedding, by the formula of rfg/embedding.h. */
#include <math.h>

#include "embedding.h"
#include "ops/oracle.h"
#include "embedding_case.h"

rfg_status rfg_oracle_embedding(const struct rfg_problem *prob, const rfg_tensor *host, struct rfg_expected *expected)
{
    int64_t n = prob->v[EMBEDDING_N];
    double scale = prob->v[EMBEDDING_SCALED] ? (double)SCALE : 1;
    for (int64_t r = 0; r < expected[0].n_rows; r++) {
        int64_t at = expected[0].rows[r];
        int64_t id =
            prob->dtype[0] == RFG_I64 ? ((const int64_t *)host[1].data)[at] : ((const int32_t *)host[1].data)[at];
        bool there = id >= FIRST && id < FIRST + prob->v[EMBEDDING_V];
        for (int64_t i = 0; i < n; i++) {
            double v = there ? scale * rfg_element(&host[2], id - FIRST, i) : 0;
            expected[0].value[r * n + i] = isfinite(v) && fabs(v) > 0x1.fffffep127 ? copysign(INFINITY, v) : v;
            expected[0].allow[r * n + i] = scale != 1 && isfinite(v) ? fabs(v) * 0x1p-24 + 0x1p-126 : 0;
        }
    }
    return RFG_OK;
}
