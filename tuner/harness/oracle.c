/* SPDX-License-Identifier: MIT
 *
 * Scalar conversions for all oracles (ops/oracle.h). They are written independently of the kernels: plain arithmetic on
 * values, tables for 8-bit formats, no bit tricks. */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "ops/oracle.h"
#include "ops/quant.h"
#include "oracle_blocks.h"

/* ---- number formats ------------------------------------------------------------------------------------------ */

struct format {
    int mantissa, min_exp, max_exp; /* explicit mantissa bits; exponents of the smallest and largest normal */
};

static struct format format_of(rfg_dtype dtype)
{
    switch (dtype) {
    case RFG_F16:
        return (struct format){ 10, -14, 15 };
    case RFG_BF16:
        return (struct format){ 7, -126, 127 };
    case RFG_E4M3:
        return (struct format){ 3, -6, 8 };
    case RFG_E4M3FNUZ:
        return (struct format){ 3, -7, 7 };
    case RFG_E5M2:
        return (struct format){ 2, -14, 15 };
    case RFG_E2M1:
        return (struct format){ 1, 0, 2 };
    case RFG_E8M0:
        return (struct format){ 0, -127, 127 };
    default:
        return (struct format){ 23, -126, 127 };
    }
}

/* The value of each code of a format of 8 or 4 bits, from its definition (OCP's specifications of 8-bit floating point
 * and of microscaling formats; the fnuz ones: Noune et al., "8-bit numerical formats for deep neural networks", 2022,
 * as gfx942 has it). */
static double bytes[RFG_DTYPE_COUNT][256];
static uint8_t ascending[RFG_DTYPE_COUNT][256]; /* the n_finite codes of finite values, by value */
static int n_finite[RFG_DTYPE_COUNT];
static pthread_once_t bytes_once = PTHREAD_ONCE_INIT;

/* Of formats of 8 and 4 bits; 0 for others. */
static int codes_of(rfg_dtype dtype)
{
    return dtype == RFG_I4 || dtype == RFG_E2M1                          ? 16
           : (dtype >= RFG_E4M3 && dtype <= RFG_I8) || dtype == RFG_E8M0 ? 256
                                                                         : 0;
}

static void sort_codes(rfg_dtype dtype)
{
    uint8_t *sorted = ascending[dtype];
    for (int code = 0; code < codes_of(dtype); code++) {
        int at = n_finite[dtype];
        if (!isfinite(bytes[dtype][code]))
            continue;
        for (; at > 0 && bytes[dtype][sorted[at - 1]] > bytes[dtype][code]; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = (uint8_t)code;
        n_finite[dtype]++;
    }
}

static void bytes_init(void)
{
    for (int code = 0; code < 256; code++) {
        int e4 = code >> 3 & 15, m3 = code & 7, e5 = code >> 2 & 31, m2 = code & 3;
        double sign = code & 0x80 ? -1 : 1;
        double e4m3 = e4 ? (1 + m3 / 8.0) * exp2(e4 - 7) : m3 / 8.0 * exp2(-6);
        double fnuz = e4 ? (1 + m3 / 8.0) * exp2(e4 - 8) : m3 / 8.0 * exp2(-7);
        double e5m2 = e5 ? (1 + m2 / 4.0) * exp2(e5 - 15) : m2 / 4.0 * exp2(-14);
        bytes[RFG_E4M3][code] = (code & 0x7f) == 0x7f ? NAN : sign * e4m3;
        bytes[RFG_E4M3FNUZ][code] = code == 0x80 ? NAN : sign * fnuz;
        bytes[RFG_E5M2][code] = e5 == 31 ? (m2 ? NAN : sign * INFINITY) : sign * e5m2;
        bytes[RFG_I8][code] = code < 128 ? code : code - 256;
        bytes[RFG_E8M0][code] = code == 255 ? NAN : exp2(code - 127);
    }
    static const double e2m1[] = { 0, 0.5, 1, 1.5, 2, 3, 4, 6 };
    for (int code = 0; code < 16; code++) {
        bytes[RFG_E2M1][code] = code < 8 ? e2m1[code] : -e2m1[code - 8];
        bytes[RFG_I4][code] = code < 8 ? code : code - 16;
    }
    for (int dtype = 0; dtype < RFG_DTYPE_COUNT; dtype++)
        sort_codes((rfg_dtype)dtype);
}

static const double *byte_table(rfg_dtype dtype)
{
    pthread_once(&bytes_once, bytes_init);
    return bytes[dtype];
}

/* The code of the value nearest to v; of two as near, the even one; the largest finite one beyond. */
static int nearest_code(rfg_dtype dtype, double v)
{
    const double *table = byte_table(dtype);
    const uint8_t *sorted = ascending[dtype];
    int codes = codes_of(dtype), n = n_finite[dtype], best = -1, low = 0, high = n;
    double beyond = 2 * rfg_largest(dtype) + 2; /* further away differences would round to one another */
    if (isnan(v) && dtype == RFG_E2M1)          /* it has no NaN */
        v = rfg_largest(dtype);
    for (int code = 0; isnan(v); code++)
        if (isnan(table[code]) || dtype == RFG_I8 || dtype == RFG_I4)
            return code;
    v = fmin(fmax(v, dtype == RFG_E8M0 ? table[0] : -beyond), beyond);
    while (low < high) { /* those before low are less than v, those from high on aren't */
        int middle = (low + high) / 2;
        if (table[sorted[middle]] < v)
            low = middle + 1;
        else
            high = middle;
    }
    /* The nearest is beside it; of zeros there may be two. */
    for (int i = low > 2 ? low - 2 : 0; i < low + 2 && i < n; i++) {
        int code = sorted[i];
        double d = fabs(table[code] - v), least = best < 0 ? INFINITY : fabs(table[best] - v);
        bool zero = table[code] == 0 && best >= 0 && table[best] == 0;
        if (zero ? !!signbit(v) == code / (codes / 2) : d < least || (d == least && !(code & 1)))
            best = code;
    }
    return best;
}

double rfg_largest(rfg_dtype dtype)
{
    switch (dtype) {
    case RFG_F16:
        return 65504;
    case RFG_BF16:
        return 0x1.fep127;
    case RFG_E4M3:
        return 448;
    case RFG_E4M3FNUZ:
        return 240;
    case RFG_E5M2:
        return 57344;
    case RFG_I8:
        return 127;
    case RFG_I32:
        return INT32_MAX;
    case RFG_I64:
        return 0x1p63;
    case RFG_I4:
        return 7;
    case RFG_E2M1:
        return 6;
    case RFG_E8M0:
        return 0x1p127;
    default:
        return 0x1.fffffep127;
    }
}

double rfg_load(const void *base, rfg_dtype dtype, int64_t index)
{
    if (dtype == RFG_F32)
        return ((const float *)base)[index];
    if (dtype == RFG_I32)
        return ((const int32_t *)base)[index];
    if (dtype == RFG_I64)
        return (double)((const int64_t *)base)[index];
    if (rfg_dtype_is_blocks(dtype))
        return rfg_load_block(base, dtype, index);
    if (codes_of(dtype) == 256)
        return byte_table(dtype)[((const uint8_t *)base)[index]];
    if (codes_of(dtype) == 16)
        return byte_table(dtype)[((const uint8_t *)base)[index / 2] >> (index % 2 ? 4 : 0) & 15];
    struct format f = format_of(dtype);
    int bits = ((const uint16_t *)base)[index];
    int exp_bits = 15 - f.mantissa, mant = bits & ((1 << f.mantissa) - 1);
    int exp = bits >> f.mantissa & ((1 << exp_bits) - 1);
    double sign = bits >> 15 ? -1 : 1;
    if (exp == (1 << exp_bits) - 1)
        return mant ? NAN : sign * INFINITY;
    if (exp == 0)
        return sign * ldexp(mant, f.min_exp - f.mantissa);
    return sign * ldexp((1 << f.mantissa) + mant, exp - f.max_exp - f.mantissa);
}

double rfg_ulp(rfg_dtype dtype, double x)
{
    struct format f = format_of(dtype);
    int e;
    if (!isfinite(x))
        return 0;
    if (dtype == RFG_I8 || dtype == RFG_I32 || dtype == RFG_I64 || dtype == RFG_I4)
        return 1;
    frexp(x, &e); /* |x| = m * 2^e, m in [0.5, 1) */
    e = x == 0 || e - 1 < f.min_exp ? f.min_exp : e - 1;
    return ldexp(1, e - f.mantissa);
}

/* value rounded to nearest even in the format; overflow gives infinity. */
static double round_to(rfg_dtype dtype, double value)
{
    struct format f = format_of(dtype);
    if (!isfinite(value) || value == 0)
        return value;
    double ulp = rfg_ulp(dtype, value), r = nearbyint(value / ulp) * ulp;
    double max = ldexp(2 - ldexp(1, -f.mantissa), f.max_exp);
    return fabs(r) > max ? copysign(INFINITY, value) : r;
}

void rfg_store(void *base, rfg_dtype dtype, int64_t index, double value)
{
    if (dtype == RFG_F32) {
        ((float *)base)[index] = (float)value;
        return;
    }
    if (dtype == RFG_I32) {
        value = isnan(value) ? 0 : fmin(fmax(nearbyint(value), INT32_MIN), INT32_MAX);
        ((int32_t *)base)[index] = (int32_t)value;
        return;
    }
    if (dtype == RFG_I64) {
        value = isnan(value) ? 0 : nearbyint(value);
        ((int64_t *)base)[index] = value >= 0x1p63 ? INT64_MAX : value < -0x1p63 ? INT64_MIN : (int64_t)value;
        return;
    }
    if (codes_of(dtype) == 256) {
        ((uint8_t *)base)[index] = (uint8_t)nearest_code(dtype, value);
        return;
    }
    if (codes_of(dtype) == 16) {
        uint8_t *b = (uint8_t *)base + index / 2;
        int code = nearest_code(dtype, value);
        *b = (uint8_t)(index % 2 ? (*b & 15) | code << 4 : (*b & 0xf0) | code);
        return;
    }
    struct format f = format_of(dtype);
    int exp_bits = 15 - f.mantissa, top = (1 << exp_bits) - 1, bits;
    double r = round_to(dtype, value), a = fabs(r);
    if (isnan(r))
        bits = top << f.mantissa | 1 << (f.mantissa - 1);
    else if (isinf(r))
        bits = top << f.mantissa;
    else if (a < ldexp(1, f.min_exp))
        bits = (int)(a / ldexp(1, f.min_exp - f.mantissa));
    else {
        int e;
        frexp(a, &e);
        bits = (e - 1 + f.max_exp) << f.mantissa | ((int)ldexp(a, f.mantissa - (e - 1)) & ((1 << f.mantissa) - 1));
    }
    ((uint16_t *)base)[index] = (uint16_t)(bits | (signbit(r) ? 0x8000 : 0));
}

double rfg_element(const rfg_tensor *t, int64_t row, int64_t i)
{
    int64_t at = t->ndim == 3   ? row / t->shape[1] * t->strides[0] + row % t->shape[1] * t->strides[1]
                 : t->ndim == 2 ? row * t->strides[0]
                                : 0;
    return rfg_load(t->data, t->dtype, at + i * (t->ndim == 2 ? t->strides[1] : 1));
}

/* The exponent of the least power of two that isn't below v, and of the greatest that isn't above. */
static int least_above(double v)
{
    int k = -200;
    while (exp2(k) < v)
        k++;
    return k;
}
static int greatest_below(double v)
{
    int k = least_above(v);
    return exp2(k) > v ? k - 1 : k;
}

double rfg_oracle_power(rfg_dtype dtype, int64_t rounding, double v)
{
    /* Largest values: 1.75 x 2^8, 1.875 x 2^7, 1.75 x 2^15, 127, 1.5 x 2^2, 7. */
    int e = dtype == RFG_E4M3 ? 8 : dtype == RFG_E4M3FNUZ ? 7 : dtype == RFG_E5M2 ? 15 : dtype == RFG_I8 ? 6 : 2;
    int m = dtype == RFG_E5M2 ? 2 : dtype == RFG_I8 ? 6 : dtype == RFG_E2M1 ? 1 : dtype == RFG_I4 ? 2 : 3, k;
    switch (rounding) {
    case RFG_SCALE_UP:
        k = least_above(v);
        break;
    case RFG_SCALE_DOWN:
        k = greatest_below(v) - e;
        break;
    case RFG_SCALE_EVEN:
        k = greatest_below(v);
        k = greatest_below(v + exp2(k - m - 1)) - e;
        break;
    default:
        k = least_above(v) - e;
        break;
    }
    return exp2(fmin(fmax(k, -127), 127));
}

/* Of a group whose largest magnitude is within `allow` of `largest`: the powers of two that are right, as a range. */
static void expect_power(rfg_dtype dtype, int64_t rounding, double largest, double allow, double *value, double *range)
{
    double by = rounding == RFG_SCALE_UP ? rfg_largest(dtype) : 1, most = fmin(largest + allow, 0x1.fffffep127);
    double low = rfg_oracle_power(dtype, rounding, (double)(float)(fmax(largest - allow, 0) / by));
    double high = rfg_oracle_power(dtype, rounding, (double)(float)(most / by));
    *value = isinf(largest) ? NAN : (low + high) / 2;
    *range = isinf(largest) ? 0 : (high - low) / 2;
}

void rfg_expect_scales(rfg_dtype dtype, int64_t kind, int64_t rounding, int64_t cols, const struct rfg_expected *codes,
                       struct rfg_expected *scales)
{
    int64_t group = rfg_scale_columns(kind) ? rfg_scale_columns(kind) : cols, groups = (cols + group - 1) / group;
    double max = rfg_largest(dtype);
    for (int64_t r = 0; r < scales->n_rows; r++)
        for (int64_t g = 0; g < groups; g++) {
            double largest = 0, allow = 0;
            for (int64_t i = g * group; i < cols && i < (g + 1) * group; i++) {
                largest = fmax(largest, fabs(codes->value[r * cols + i]));
                allow = fmax(allow, codes->allow[r * cols + i]);
            }
            if (kind == RFG_SCALE_MX) {
                expect_power(dtype, rounding, largest, allow, &scales->value[r * groups + g],
                             &scales->allow[r * groups + g]);
                continue;
            }
            double scale = fmax(largest / max, 1 / (512 * max));
            scales->value[r * groups + g] = scale;
            scales->allow[r * groups + g] = isfinite(scale) ? allow / max + 4 * 0x1p-24 * scale : 0;
        }
}

/* ---- threads ---------------------------------------------------------------------------------------------------- */

struct shared_work {
    void (*run)(void *job, int64_t i, void *scratch);
    void *job;
    int64_t n;
    size_t scratch;
    _Atomic int64_t next;
    _Atomic int64_t done;
};

static void *work(void *arg)
{
    struct shared_work *w = arg;
    void *scratch = malloc(w->scratch + 1);
    for (int64_t i; scratch && (i = atomic_fetch_add(&w->next, 1)) < w->n; w->done++)
        w->run(w->job, i, scratch);
    free(scratch);
    return NULL;
}

rfg_status rfg_share_out(int64_t n, bool shared, size_t scratch, void (*run)(void *job, int64_t i, void *scratch),
                         void *job)
{
    struct shared_work w = { .run = run, .job = job, .n = n, .scratch = scratch };
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int threads = !shared ? 1 : cores > 16 ? 16 : (int)cores, started = 0;
    pthread_t t[16];
    while (started < threads - 1 && !pthread_create(&t[started], NULL, work, &w))
        started++;
    work(&w);
    for (int i = 0; i < started; i++)
        pthread_join(t[i], NULL);
    return w.done < n ? rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "oracle: no memory for a thread's %zu bytes", scratch)
                      : RFG_OK;
}
