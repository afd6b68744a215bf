/* SPDX-License-Identifier: MIT
 *
 * The oracle of act_and_mul and act, by the formulas of rfg/act.h. */
#include <math.h>

#include "ops/gates.h"
#include "ops/oracle.h"
#include "ops/quant.h"
#include "act.h"

double rfg_oracle_activate(rfg_act act, double v, double *steep)
{
    double u;
    *steep = 0;
    switch (act) {
    case RFG_ACT_SILU:
        *steep = fabs(v);
        return v / (1 + exp(-v));
    case RFG_ACT_GELU:
        *steep = v * v / 2;
        return v == INFINITY ? v : v * 0.5 * erfc(-v / sqrt(2));
    case RFG_ACT_GELU_TANH:
        u = sqrt(2 / acos(-1)) * (v + 0.044715 * v * v * v);
        *steep = fabs(2 * u);
        return v / (1 + exp(-2 * u)); /* (1 + tanh(u)) / 2 = 1 / (1 + exp(-2u)) */
    case RFG_ACT_RELU:
        return v < 0 ? 0 : v;
    case RFG_ACT_RELU2:
        return v < 0 ? 0 : v * v;
    default:
        return v;
    }
}

double rfg_oracle_gate(rfg_act act, double limit, double a, double *b, double *steep)
{
    struct rfg_gate g = rfg_gate_in(act, (int64_t)limit);
    double alpha = (double)g.alpha, most = (double)g.limit, linear = (double)rfg_gate_linear_beta(g.linear_beta);
    if (rfg_gate_is_limited(act, (int64_t)limit)) {
        a = a > most && rfg_act_clamps_first(act) ? most : a;
        *b = *b > most ? most : *b < -most ? -most : *b;
    }
    if (act == RFG_ACT_SWIGLUOAI) {
        *b += 1;
        *steep = fabs(alpha * a);
        return a / (1 + exp(-alpha * a));
    }
    if (act == RFG_ACT_SITU) {
        *b = linear * tanh(*b / linear);
        *steep = fabs(a);
        return alpha * tanh(a / alpha) / (1 + exp(-a));
    }
    if (act == RFG_ACT_SWIGLUSTEP) {
        double v = rfg_oracle_activate(RFG_ACT_SILU, a, steep);
        return v > most ? most : v;
    }
    return rfg_oracle_activate(act, a, steep);
}

static double value(const struct rfg_problem *prob, const rfg_tensor *x, int64_t row, int64_t i, double *allow)
{
    rfg_act act = (rfg_act)prob->v[ACT_ACT];
    bool mul = act_multiplies(prob), turns = prob->v[ACT_GATES];
    double a = rfg_element(x, row, turns ? 2 * i : i), b = 1, v, steep;
    if (mul)
        b = rfg_element(x, row, turns ? 2 * i + 1 : i + prob->v[ACT_N]);
    v = mul ? rfg_oracle_gate(act, (double)prob->v[ACT_LIMIT], a, &b, &steep) : rfg_oracle_activate(act, a, &steep);
    double y = mul ? v * b : v;
    *allow = isfinite(y) ? fabs(y) * 0x1p-24 * (16 + 4 * fmin(steep, 1e4)) + 0x1p-116 * fmax(1, fabs(b)) : 0;
    if (act == RFG_ACT_NONE)
        *allow = isfinite(y) ? fabs(y) * 0x1p-24 + 0x1p-126 : 0;
    /* fp32 may overflow where double does not, or nearly. */
    return isfinite(y) && fabs(y) > 0x1.fffffep127 ? copysign(INFINITY, y) : y;
}

rfg_status rfg_oracle_act(const struct rfg_problem *prob, const rfg_tensor *host, struct rfg_expected *expected)
{
    int64_t n = prob->v[ACT_N];
    for (int t = 0; t < 2; t++)
        for (int64_t r = 0; r < expected[t].n_rows; r++)
            for (int64_t i = 0; i < n; i++)
                expected[t].value[r * n + i] =
                    value(prob, &host[3], expected[t].rows[r], i, &expected[t].allow[r * n + i]);
    if (expected[2].value)
        rfg_expect_scales((rfg_dtype)prob->dtype[1], prob->v[ACT_SCALE], prob->v[ACT_ROUNDING], n, &expected[1],
                          &expected[2]);
    return RFG_OK;
}
