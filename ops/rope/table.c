/* SPDX-License-Identifier: MIT
 *
 * Tables of cosines and sines, by the formulas of rfg/rope.h. */
#include <inttypes.h>
#include <math.h>

#include "ops/params.h"
#include "ops/tensors.h"
#include "rope.h"

#define FN       "rfg_rope_table"
#define BAD(...) rfg_fail(RFG_ERROR_INVALID_ARGUMENT, FN ": " __VA_ARGS__)
#define PI       3.14159265358979323846

RFG_PARAMS_END(rfg_rope_table_params, reserved);

static rfg_status check_number(const char *name, double v, double least, const char *rule)
{
    return isfinite(v) && v >= least ? RFG_OK : BAD("%s is %g: must be %s", name, v, rule);
}

static rfg_status check_params(rfg_rope_table_params *p)
{
    double *const defaults[] = { &p->theta,     &p->factor,   &p->low_freq_factor, &p->high_freq_factor,
                                 &p->beta_fast, &p->beta_slow };
    static const double values[] = { 10000, 1, 1, 4, 32, 1 };
    rfg_status st;
    for (int i = 0; i < 6; i++)
        if (*defaults[i] == 0)
            *defaults[i] = values[i];
    if ((int)p->scaling < RFG_ROPE_DEFAULT || p->scaling > RFG_ROPE_YARN)
        return BAD("scaling is %d: must be one of enum rfg_rope_scaling", (int)p->scaling);
    if ((st = check_number("theta", p->theta, 1 + 0x1p-20, "finite and above 1")) ||
        (st = check_number("factor", p->factor, 1, "finite and at least 1")) ||
        (st = check_number("low_freq_factor", p->low_freq_factor, 0x1p-40, "finite and above 0")) ||
        (st = check_number("high_freq_factor", p->high_freq_factor, 0x1p-40, "finite and above 0")) ||
        (st = check_number("beta_slow", p->beta_slow, 0x1p-40, "finite and above 0")) ||
        (st = check_number("beta_fast", p->beta_fast, 0x1p-40, "finite and above 0")) ||
        (st = check_number("attention_factor", p->attention_factor, 0, "finite and 0 or above")) ||
        (st = check_number("mscale", p->mscale, 0, "finite and 0 or above")) ||
        (st = check_number("mscale_all_dim", p->mscale_all_dim, 0, "finite and 0 or above")))
        return st;
    if (p->original < 0 || (p->original == 0 && p->scaling >= RFG_ROPE_LLAMA3))
        return BAD("original is %" PRId32 ": llama3 and yarn need the positions that the model was trained on first",
                   p->original);
    if (p->scaling == RFG_ROPE_LLAMA3 && p->high_freq_factor <= p->low_freq_factor)
        return BAD("high_freq_factor is %g: must be above low_freq_factor, %g", p->high_freq_factor,
                   p->low_freq_factor);
    if (p->scaling == RFG_ROPE_YARN && p->beta_fast < p->beta_slow)
        return BAD("beta_fast is %g: must be at least beta_slow, %g", p->beta_fast, p->beta_slow);
    if (p->first < 0 || p->first > RFG_MAX_SIZE)
        return BAD("first is %" PRId64 ": must be from 0 to %d", p->first, RFG_MAX_SIZE);
    if (p->reserved)
        return BAD("reserved is %" PRId32 ": must be 0", p->reserved);
    return RFG_OK;
}

/* ---- formulas --------------------------------------------------------------------------------------------------- */

static double llama3(const rfg_rope_table_params *p, double t)
{
    double wavelength = 2 * PI / t, low = p->low_freq_factor, high = p->high_freq_factor;
    if (wavelength < p->original / high)
        return t;
    if (wavelength > p->original / low)
        return t / p->factor;
    double g = (p->original / wavelength - low) / (high - low);
    return (1 - g) * t / p->factor + g * t;
}

/* The pair that makes `turns` turns over the original positions. */
static double pair_of(const rfg_rope_table_params *p, int64_t r, double turns)
{
    return (double)r * log(p->original / (2 * PI * turns)) / (2 * log(p->theta));
}

static double yarn(const rfg_rope_table_params *p, int64_t r, int64_t i, double t)
{
    double low = pair_of(p, r, p->beta_fast), high = pair_of(p, r, p->beta_slow);
    if (!p->untruncated) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0);
    high = fmin(high, (double)(r - 1));
    if (low == high)
        high += 0.001; /* as the paper's code, which divides by the difference */
    double m = 1 - fmin(fmax(((double)i - low) / (high - low), 0), 1);
    return t * ((1 - m) / p->factor + m);
}

static double attention_factor(const rfg_rope_table_params *p)
{
    double log_factor = 0.1 * log(p->factor);
    if (p->scaling != RFG_ROPE_YARN)
        return 1;
    if (p->attention_factor > 0)
        return p->attention_factor;
    if (p->mscale > 0 && p->mscale_all_dim > 0)
        return (p->mscale * log_factor + 1) / (p->mscale_all_dim * log_factor + 1);
    return log_factor + 1;
}

static double frequency(const rfg_rope_table_params *p, int64_t r, int64_t i)
{
    double t = pow(p->theta, -2.0 * (double)i / (double)r);
    switch (p->scaling) {
    case RFG_ROPE_LINEAR:
        return t / p->factor;
    case RFG_ROPE_LLAMA3:
        return llama3(p, t);
    case RFG_ROPE_YARN:
        return yarn(p, r, i, t);
    default:
        return t;
    }
}

static const struct rfg_tensor_rule rules[] = { { "table", 0, 0, 2, { 0 }, RFG_FLOAT_FORMATS } };

rfg_status rfg_rope_table(const rfg_tensor *table, const rfg_rope_table_params *params)
{
    rfg_rope_table_params p = { 0 };
    struct rfg_tensors t;
    const struct rfg_operand *o = t.o;
    rfg_status st;
    rfg_tensors_begin(&t, FN, NULL, &table, 1);
    if ((st = RFG_TAKE_PARAMS(FN, rfg_rope_table_params, &p, params)) || (st = check_params(&p)) ||
        (st = rfg_check_tensors(&t, rules, RFG_RULES(rules))))
        return st;
    if (o->cols % 2 || o->cols < 2)
        return BAD("table has %" PRId64 " columns: must be even, at least 2", o->cols);
    double m = attention_factor(&p);
    for (int64_t i = 0; i < o->cols / 2; i++) {
        double f = frequency(&p, o->cols, i);
        for (int64_t r = 0; r < o->rows; r++) {
            double angle = (double)(p.first + r) * f, v[] = { m * cos(angle), m * sin(angle) };
            const struct rfg_format *format = rfg_format((int)table->dtype);
            char *row = (char *)table->data + r * o->ld * format->bytes;
            format->encode(format, row + i * format->bytes, &v[0]);
            format->encode(format, row + (o->cols / 2 + i) * format->bytes, &v[1]);
        }
    }
    return RFG_OK;
}
