/* SPDX-License-Identifier: MIT
 *
 * The oracles of quantize and quantize_scale, by the formulas of rfg/quantize.h. Quotients and products of fp32 numbers
 * are taken in double, of more than twice fp32's bits, so that rounding them once more changes nothing. */
#include <math.h>

#include "ops/oracle.h"
#include "quantize_case.h"

static double fp32(double v)
{
    return (double)(float)v;
}

struct rule {
    rfg_quantize_params p;
    rfg_dtype codes, scale;
};

static double scale_of(const struct rule *r, double amax)
{
    const rfg_quantize_params *p = &r->p;
    double max = p->max > 0 ? (double)p->max : rfg_largest(r->codes), floor_scale = (double)p->floor_scale;
    if (p->rounding == RFG_SCALE_EXACT && r->scale != RFG_E4M3 && floor_scale == 0 && p->floor_amax == 0 &&
        p->zero_scale == 0)
        floor_scale = fp32(1 / (512 * max));
    amax = fmax(amax, (double)p->floor_amax);
    if (isinf(amax))
        return r->scale == RFG_E8M0 ? NAN : INFINITY;
    double s = p->reciprocal & RFG_RECIPROCAL_OF_MAX ? fp32(amax * fp32(1 / max)) : fp32(amax / max);
    s = fmax(s, floor_scale);
    if (p->rounding == RFG_SCALE_EXACT)
        return s > 0 ? s : (double)p->zero_scale;
    return rfg_oracle_power(r->codes, p->rounding, p->rounding == RFG_SCALE_UP ? s : amax);
}

/* What is quantised: host[2], x, times its column's factor, if there are any. */
static double value_of(const struct rfg_problem *prob, const rfg_tensor *host, int64_t row, int64_t c)
{
    double x = rfg_element(&host[2], row, c);
    return prob->v[QUANTIZE_SMOOTH] ? fp32(x * rfg_element(&host[3], 0, c)) : x;
}

/* What stands for a scale s: the code of e4m3, as which it is stored, times global. */
static double nvfp4_scale(const struct rfg_problem *prob, const rfg_tensor *host, double s, double *stored)
{
    double global = prob->v[QUANTIZE_GLOBAL] ? rfg_load(host[4].data, RFG_F32, 0) : 1;
    uint8_t code;
    rfg_store(&code, RFG_E4M3, 0, fmin(fp32(s / global), 448));
    *stored = rfg_load(&code, RFG_E4M3, 0);
    return fp32(*stored * global);
}

rfg_status rfg_oracle_quantize(const struct rfg_problem *prob, const rfg_tensor *host, struct rfg_expected *expected)
{
    struct rule r = { quantize_case_params(prob), (rfg_dtype)prob->dtype[1], (rfg_dtype)prob->dtype[2] };
    int64_t n = prob->v[QUANTIZE_N], span = r.p.group_cols ? r.p.group_cols : n, groups = n ? (n + span - 1) / span : 0;
    double max = (double)r.p.max;
    for (int64_t i = 0; i < expected[0].n_rows; i++)
        for (int64_t g = 0; g < groups; g++) {
            int64_t row = expected[0].rows[i], from = g * span, to = from + span < n ? from + span : n;
            double scale, amax = 0;
            for (int64_t c = from; c < to; c++)
                amax = fmax(amax, fabs(value_of(prob, host, row, c)));
            if (r.p.scale_given) {
                scale = rfg_element(&host[1], 0, 0);
            } else {
                scale = scale_of(&r, amax);
                if (r.scale == RFG_E4M3)
                    scale = nvfp4_scale(prob, host, scale, &expected[1].value[i * groups + g]);
                else
                    expected[1].value[i * groups + g] = scale;
                expected[1].allow[i * groups + g] = 0;
            }
            for (int64_t c = from; c < to; c++) {
                double x = value_of(prob, host, row, c);
                double v = r.p.reciprocal & RFG_RECIPROCAL_OF_SCALE ? fp32(x * fp32(1 / scale)) : fp32(x / scale);
                if (max > 0 && fabs(v) > max)
                    v = copysign(max, v);
                if (r.scale == RFG_E4M3 && scale == 0)
                    v = 0;
                expected[0].value[i * n + c] = v;
                expected[0].allow[i * n + c] = 0;
            }
        }
    return RFG_OK;
}

rfg_status rfg_oracle_quantize_scale(const struct rfg_problem *prob, const rfg_tensor *host,
                                     struct rfg_expected *expected)
{
    struct rule r = { quantize_case_params(prob), (rfg_dtype)prob->v[QSCALE_CODES], (rfg_dtype)prob->dtype[1] };
    double amax = 0;
    if (!expected[0].value)
        return RFG_OK;
    for (int64_t i = 0; i < prob->v[QSCALE_M]; i++)
        for (int64_t c = 0; c < prob->v[QSCALE_N]; c++)
            amax = fmax(amax, fabs(rfg_element(&host[1], i, c)));
    expected[0].value[0] = scale_of(&r, amax);
    expected[0].allow[0] = 0;
    return RFG_OK;
}
