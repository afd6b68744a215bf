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

RFG_PARAMS_END(rfg_rope_table_params, long_mscale);

static rfg_status check_number(const char *name, double v, double least, const char *rule)
{
    return isfinite(v) && v >= least ? RFG_OK : BAD("%s is %g: must be %s", name, v, rule);
}

/* Members that one scaling, or two, have an effect with. */
static rfg_status check_owners(const rfg_rope_table_params *p)
{
    bool dynamic = p->scaling == RFG_ROPE_DYNAMIC, longrope = p->scaling == RFG_ROPE_LONGROPE;
    const struct {
        const char *name;
        double v;
        bool owned;
        const char *owners;
    } members[] = {
        { "length", (double)p->length, dynamic || longrope, "dynamic and longrope" },
        { "partial_rotary_factor", p->partial_rotary_factor, p->scaling == RFG_ROPE_PROPORTIONAL,
          "proportional (the table's columns are what others rotate)" },
        { "short_factor", p->short_factor != NULL, longrope, "longrope" },
        { "long_factor", p->long_factor != NULL, longrope, "longrope" },
        { "short_mscale", p->short_mscale, longrope, "longrope" },
        { "long_mscale", p->long_mscale, longrope, "longrope" },
    };
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
        if (members[i].v != 0 && !members[i].owned)
            return BAD("%s is given: it belongs to %s", members[i].name, members[i].owners);
    if (longrope && (!p->short_factor || !p->long_factor))
        return BAD("%s is NULL: longrope needs both", p->short_factor ? "long_factor" : "short_factor");
    return RFG_OK;
}

static rfg_status check_params(rfg_rope_table_params *p)
{
    double *const defaults[] = { &p->theta,     &p->factor,   &p->low_freq_factor, &p->high_freq_factor,
                                 &p->beta_fast, &p->beta_slow };
    /* The least that `original` may be, by scaling. */
    static const int32_t original[] = { [RFG_ROPE_LLAMA3] = 1,
                                        [RFG_ROPE_YARN] = 1,
                                        [RFG_ROPE_DYNAMIC] = 1,
                                        [RFG_ROPE_LONGROPE] = 2, /* it is divided by the logarithm */
                                        [RFG_ROPE_PROPORTIONAL] = 0 };
    static const double values[] = { 10000, 1, 1, 4, 32, 1 };
    rfg_status st;
    for (int i = 0; i < 6; i++)
        if (*defaults[i] == 0)
            *defaults[i] = values[i];
    if ((int)p->scaling < RFG_ROPE_DEFAULT || p->scaling > RFG_ROPE_PROPORTIONAL)
        return BAD("scaling is %d: must be one of enum rfg_rope_scaling", (int)p->scaling);
    if ((st = check_number("theta", p->theta, 1 + 0x1p-20, "finite and above 1")) ||
        (st = check_number("factor", p->factor, 1, "finite and at least 1")) ||
        (st = check_number("low_freq_factor", p->low_freq_factor, 0x1p-40, "finite and above 0")) ||
        (st = check_number("high_freq_factor", p->high_freq_factor, 0x1p-40, "finite and above 0")) ||
        (st = check_number("beta_slow", p->beta_slow, 0x1p-40, "finite and above 0")) ||
        (st = check_number("beta_fast", p->beta_fast, 0x1p-40, "finite and above 0")) ||
        (st = check_number("attention_factor", p->attention_factor, 0, "finite and 0 or above")) ||
        (st = check_number("mscale", p->mscale, 0, "finite and 0 or above")) ||
        (st = check_number("mscale_all_dim", p->mscale_all_dim, 0, "finite and 0 or above")) ||
        (st = check_number("partial_rotary_factor", p->partial_rotary_factor, 0, "above 0 and at most 1")) ||
        (st = check_number("short_mscale", p->short_mscale, 0, "finite and 0 or above")) ||
        (st = check_number("long_mscale", p->long_mscale, 0, "finite and 0 or above")) || (st = check_owners(p)))
        return st;
    if (p->partial_rotary_factor > 1)
        return BAD("partial_rotary_factor is %g: must be above 0 and at most 1", p->partial_rotary_factor);
    if (p->original < original[p->scaling])
        return BAD("original is %" PRId32 ": must be at least %" PRId32
                   ", the positions that the model was trained on first",
                   p->original, original[p->scaling]);
    if (p->scaling == RFG_ROPE_LLAMA3 && p->high_freq_factor <= p->low_freq_factor)
        return BAD("high_freq_factor is %g: must be above low_freq_factor, %g", p->high_freq_factor,
                   p->low_freq_factor);
    if (p->scaling == RFG_ROPE_YARN && p->beta_fast < p->beta_slow)
        return BAD("beta_fast is %g: must be at least beta_slow, %g", p->beta_fast, p->beta_slow);
    if (p->first < 0 || p->first > RFG_MAX_SIZE)
        return BAD("first is %" PRId64 ": must be from 0 to %d", p->first, RFG_MAX_SIZE);
    if (p->length < 0 || p->length > RFG_MAX_SIZE)
        return BAD("length is %" PRId64 ": must be from 0 to %d", p->length, RFG_MAX_SIZE);
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

static bool is_long(const rfg_rope_table_params *p)
{
    return p->length > p->original;
}

static double attention_factor(const rfg_rope_table_params *p)
{
    double log_factor = 0.1 * log(p->factor), of_length = is_long(p) ? p->long_mscale : p->short_mscale;
    if (p->scaling != RFG_ROPE_YARN && p->scaling != RFG_ROPE_LONGROPE)
        return 1;
    if (of_length > 0) /* longrope's */
        return of_length;
    if (p->attention_factor > 0)
        return p->attention_factor;
    if (p->scaling == RFG_ROPE_LONGROPE)
        return sqrt(1 + log(p->factor) / log(p->original));
    if (p->mscale > 0 && p->mscale_all_dim > 0)
        return (p->mscale * log_factor + 1) / (p->mscale_all_dim * log_factor + 1);
    return log_factor + 1;
}

/* The base that grows with the length. */
static double dynamic_theta(const rfg_rope_table_params *p, int64_t r)
{
    double longest = fmax((double)p->length, p->original);
    double alpha = p->factor * longest / p->original - (p->factor - 1);
    return p->theta * pow(alpha, (double)r / (double)(r - 2));
}

static double frequency(const rfg_rope_table_params *p, int64_t r, int64_t i)
{
    double t = pow(p->theta, -2.0 * (double)i / (double)r);
    const rfg_tensor *factors = is_long(p) ? p->long_factor : p->short_factor;
    switch (p->scaling) {
    case RFG_ROPE_LINEAR:
        return t / p->factor;
    case RFG_ROPE_LLAMA3:
        return llama3(p, t);
    case RFG_ROPE_YARN:
        return yarn(p, r, i, t);
    case RFG_ROPE_DYNAMIC:
        return pow(dynamic_theta(p, r), -2.0 * (double)i / (double)r);
    case RFG_ROPE_LONGROPE:
        return t / (double)((const float *)factors->data)[i];
    case RFG_ROPE_PROPORTIONAL:
        return (double)i < floor((p->partial_rotary_factor > 0 ? p->partial_rotary_factor : 1) * (double)r / 2)
                   ? t / p->factor
                   : 0;
    default:
        return t;
    }
}

/* ---- the table -------------------------------------------------------------------------------------------------- */

enum { TABLE, SHORT, LONG, TENSORS };
enum { PAIRS = 1 };
static const struct rfg_axis axes[] = { [PAIRS] = { "pairs", 0, 0 } };
static const struct rfg_tensor_rule table_rules[] = { { "table", TABLE, RFG_OUT, 2, { 0 }, RFG_FLOAT_FORMATS } };
static const struct rfg_tensor_rule factor_rules[] = {
    { "short_factor", SHORT, RFG_OPTIONAL, 1, { PAIRS }, RFG_DTYPE(F32) },
    { "long_factor", LONG, RFG_OPTIONAL, 1, { PAIRS }, RFG_DTYPE(F32) },
};

static rfg_status check_factors(const char *name, const rfg_tensor *t)
{
    for (int64_t i = 0; t && i < t->shape[0]; i++) {
        float f = ((const float *)t->data)[i];
        if (!isfinite(f) || f <= 0)
            return BAD("%s[%" PRId64 "] is %g: must be finite and above 0", name, i, (double)f);
    }
    return RFG_OK;
}

/* What params ask of the size of the table; fills in the length. */
static rfg_status check_size(rfg_rope_table_params *p, const struct rfg_operand *o)
{
    int64_t rows = p->first + o->rows, r = o->cols;
    if (r % 2 || r < 2)
        return BAD("table has %" PRId64 " columns: must be even, at least 2", r);
    if (p->scaling == RFG_ROPE_DYNAMIC && r < 4)
        return BAD("table has %" PRId64 " columns: dynamic needs at least 4, it divides by R - 2", r);
    if (p->length && p->length < rows)
        return BAD("length is %" PRId64 ": must be at least %" PRId64 ", the table's last position and one", p->length,
                   rows);
    if (p->scaling == RFG_ROPE_PROPORTIONAL && p->partial_rotary_factor > 0 && p->partial_rotary_factor * (double)r < 2)
        return BAD("partial_rotary_factor is %g: is no pair of %" PRId64, p->partial_rotary_factor, r / 2);
    p->length = p->length ? p->length : rows;
    return RFG_OK;
}

rfg_status rfg_rope_table(const rfg_tensor *table, const rfg_rope_table_params *params)
{
    rfg_rope_table_params p = { 0 };
    struct rfg_tensors t;
    const struct rfg_operand *o = t.o;
    rfg_status st;
    if ((st = RFG_TAKE_PARAMS(FN, rfg_rope_table_params, &p, params)) || (st = check_params(&p)))
        return st;
    const rfg_tensor *const all[TENSORS] = { table, p.short_factor, p.long_factor };
    rfg_tensors_begin(&t, FN, axes, all, TENSORS);
    if ((st = rfg_check_tensors(&t, table_rules, RFG_RULES(table_rules))) || (st = check_size(&p, &o[TABLE])))
        return st;
    rfg_set_axis_of(&t, PAIRS, "table", o[TABLE].cols / 2);
    if ((st = rfg_check_tensors(&t, factor_rules, RFG_RULES(factor_rules))) || (st = rfg_check_overlaps(&t)) ||
        (st = check_factors("short_factor", p.short_factor)) || (st = check_factors("long_factor", p.long_factor)))
        return st;
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
