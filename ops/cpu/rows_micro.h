/* SPDX-License-Identifier: MIT
 *
 * The functions of struct rfg_cpu_rows, in the compilers' vector types. The includer defines LANES (4, 8, 16) and
 * ROWS_TABLE. */
#include <math.h>
#include <string.h>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "rfg/act.h"
#include "rows.h"

typedef float vf __attribute__((vector_size(LANES * 4)));
typedef uint32_t vu __attribute__((vector_size(LANES * 4)));
typedef int32_t vi __attribute__((vector_size(LANES * 4)));
typedef uint16_t vh __attribute__((vector_size(LANES * 2)));
typedef uint8_t vb __attribute__((vector_size(LANES)));

#define INLINE    static inline __attribute__((always_inline))
#define WHOLE(n)  (((n) + LANES - 1) / LANES * LANES)
#define SPLAT(x)  ((vf){ 0 } + (x))
#define SPLATU(x) ((vu){ 0 } + (uint32_t)(x))

INLINE vf choose(vi mask, vf a, vf b)
{
    return (vf)((mask & (vi)a) | (~mask & (vi)b));
}
INLINE vu chooseu(vi mask, vu a, vu b)
{
    return ((vu)mask & a) | (~(vu)mask & b);
}
INLINE vf magnitude(vf v)
{
    return (vf)((vu)v & 0x7fffffff);
}
/* The smaller, the larger one; b of a NaN in a. */
INLINE vf smaller(vf a, vf b)
{
    return choose(a < b, a, b);
}
INLINE vf larger(vf a, vf b)
{
    return choose(a > b, a, b);
}
INLINE vf get(const float *p)
{
    vf v;
    memcpy(&v, p, sizeof(v));
    return v;
}
INLINE void put(float *p, vf v)
{
    memcpy(p, &v, sizeof(v));
}

/* ---- formats ---------------------------------------------------------------------------------------------------- */

INLINE vf from_bf16(vh h)
{
    return (vf)(__builtin_convertvector(h, vu) << 16);
}
/* To nearest even. A NaN becomes quiet, so that dropping its low bits can't make it infinity. */
INLINE vh to_bf16(vf f)
{
    vu u = (vu)f, r = (u + 0x7fff + (u >> 16 & 1)) >> 16;
    return __builtin_convertvector(chooseu(f == f, r, u >> 16 | 0x40), vh);
}
INLINE vf from_f16(vh h)
{
#if defined(__F16C__) && LANES == 8
    return (vf)_mm256_cvtph_ps((__m128i)h);
#elif defined(__AVX512F__) && LANES == 16
    return (vf)_mm512_cvtph_ps((__m256i)h);
#else
    /* Exponent and fraction moved into place and rescaled by 2^112, which is exact and normalises denormals; infinity
     * and NaN get their exponent back by hand. */
    vu wide = __builtin_convertvector(h, vu), m = wide & 0x7fff;
    vu v = (vu)((vf)(m << 13) * 0x1p112f) | ((vu)(m > 0x7bff) & 0x7f800000);
    return (vf)(v | (wide & 0x8000) << 16);
#endif
}
INLINE vh to_f16(vf f)
{
#if defined(__F16C__) && LANES == 8
    return (vh)_mm256_cvtps_ph((__m256)f, _MM_FROUND_TO_NEAREST_INT);
#elif defined(__AVX512F__) && LANES == 16
    return (vh)_mm512_cvtps_ph((__m512)f, _MM_FROUND_TO_NEAREST_INT);
#else
    vu u = (vu)f, sign = u >> 16 & 0x8000, a = u & 0x7fffffff;
    vu denormal = (vu)((vf)a + 0.5f) - 0x3f000000; /* the addition rounds to a multiple of 2^-24 */
    vu normal = (a + 0xfff + (a >> 13 & 1) - 0x38000000) >> 13;
    vu r = chooseu((vi)(a < SPLATU(0x38800000)), denormal, normal);
    r = chooseu((vi)(a >= SPLATU(0x477ff000)), SPLATU(0x7c00), r); /* 65520 and more round to infinity */
    r = chooseu((vi)(a > SPLATU(0x7f800000)), SPLATU(0x7e00), r);
    return __builtin_convertvector(r | sign, vh);
#endif
}

INLINE vf load_vector(const char *p, int dtype)
{
    vh h;
    if (dtype == RFG_F32)
        return get((const float *)(const void *)p);
    memcpy(&h, p, sizeof(h));
    return dtype == RFG_F16 ? from_f16(h) : from_bf16(h);
}
INLINE void store_vector(char *p, vf v, int dtype)
{
    if (dtype == RFG_F32) {
        memcpy(p, &v, sizeof(v));
        return;
    }
    vh h = dtype == RFG_F16 ? to_f16(v) : to_bf16(v);
    memcpy(p, &h, sizeof(h));
}

/* fp8: to nearest even of |v|'s bits at the format's last place, or for denormals by an addition whose last bit is
 * theirs. Saturates. */
INLINE vu fp8_code(vf v, int mantissa, int bias, float max, uint32_t nan, bool negative_zero)
{
    vu u = (vu)v, sign = u >> 24 & 0x80;
    vf a = smaller(magnitude(v), SPLAT(max));
    uint32_t magic_bits = (uint32_t)(127 + 23 + 1 - bias - mantissa) << 23, least_bits = (uint32_t)(128 - bias) << 23;
    float magic, least;
    memcpy(&magic, &magic_bits, 4);
    memcpy(&least, &least_bits, 4);
    vu small = (vu)(a + magic) - magic_bits, n = (vu)a;
    n = ((n + ((1u << (22 - mantissa)) - 1) + (n >> (23 - mantissa) & 1)) >> (23 - mantissa)) -
        ((uint32_t)(127 - bias) << mantissa);
    vu code = chooseu(a < SPLAT(least), small, n), with_sign = code | sign;
    code = negative_zero ? with_sign : chooseu((vi)(code == 0), code, with_sign);
    return chooseu(v == v, code, SPLATU(nan));
}
INLINE vu code_of(vf v, int dtype)
{
    if (dtype == RFG_E4M3)
        return fp8_code(v, 3, 7, 448.0f, 0x7f, true);
    if (dtype == RFG_E4M3FNUZ)
        return fp8_code(v, 3, 8, 240.0f, 0x80, false);
    if (dtype == RFG_E5M2)
        return fp8_code(v, 2, 15, 57344.0f, 0x7f, true);
    vf c = larger(smaller(v, SPLAT(127.0f)), SPLAT(-128.0f));
    vu whole = (vu)(c + 0x1.8p23f) - 0x4b400000; /* the addition rounds to a whole number, to nearest even */
    return chooseu(v == v, whole, SPLATU(0));
}

/* ---- stores past the caches ------------------------------------------------------------------------------------- */

#if defined(__AVX2__)
static void copy_streaming(char *to, const char *from, size_t n)
{
    size_t head = -(uintptr_t)to & 31;
    head = head < n ? head : n;
    memcpy(to, from, head);
    size_t at = head;
    for (; at + 32 <= n; at += 32)
        _mm256_stream_si256((__m256i *)(void *)(to + at),
                            _mm256_loadu_si256((const __m256i_u *)(const void *)(from + at)));
    memcpy(to + at, from + at, n - at);
}
#else
static void copy_streaming(char *to, const char *from, size_t n)
{
    memcpy(to, from, n);
}
#endif

/* ---- the table's functions -------------------------------------------------------------------------------------- */

INLINE void load_as(float *out, const void *in, const int dtype, int n)
{
    const char *p = in;
    const int size = dtype == RFG_F32 ? 4 : 2;
    int i = 0;
    for (; i + LANES <= n; i += LANES)
        put(out + i, load_vector(p + i * size, dtype));
    if (i < n) {
        char rest[LANES * 4] = { 0 };
        memcpy(rest, p + i * size, (size_t)((n - i) * size));
        put(out + i, load_vector(rest, dtype));
    }
}
static void load(float *out, const void *in, int dtype, int n)
{
    if (dtype == RFG_F32)
        load_as(out, in, RFG_F32, n);
    else if (dtype == RFG_F16)
        load_as(out, in, RFG_F16, n);
    else
        load_as(out, in, RFG_BF16, n);
}

INLINE void store_as(char *p, const float *in, const int dtype, int n)
{
    const int size = dtype == RFG_F32 ? 4 : 2;
    int i = 0;
    for (; i + LANES <= n; i += LANES)
        store_vector(p + i * size, get(in + i), dtype);
    if (i < n) {
        char rest[LANES * 4];
        store_vector(rest, get(in + i), dtype);
        memcpy(p + i * size, rest, (size_t)((n - i) * size));
    }
}
static void store(void *out, const float *in, int dtype, int n, bool stream)
{
    char block[RFG_BLOCK * 4] __attribute__((aligned(64))), *p = stream ? block : out;
    if (dtype == RFG_F32)
        store_as(p, in, RFG_F32, n);
    else if (dtype == RFG_F16)
        store_as(p, in, RFG_F16, n);
    else
        store_as(p, in, RFG_BF16, n);
    if (stream)
        copy_streaming(out, block, (size_t)n * (dtype == RFG_F32 ? 4 : 2));
}

INLINE void codes_as(uint8_t *out, const float *in, float inverse, const int dtype, int n)
{
    for (int i = 0; i < n; i += LANES) {
        vb b = __builtin_convertvector(code_of(get(in + i) * inverse, dtype), vb);
        memcpy(out + i, &b, n - i < LANES ? (size_t)(n - i) : LANES);
    }
}
static void codes(uint8_t *out, const float *in, float inverse, int dtype, int n, bool stream)
{
    uint8_t block[RFG_BLOCK] __attribute__((aligned(64))), *p = stream ? block : out;
    if (dtype == RFG_E4M3)
        codes_as(p, in, inverse, RFG_E4M3, n);
    else if (dtype == RFG_E4M3FNUZ)
        codes_as(p, in, inverse, RFG_E4M3FNUZ, n);
    else if (dtype == RFG_E5M2)
        codes_as(p, in, inverse, RFG_E5M2, n);
    else
        codes_as(p, in, inverse, RFG_I8, n);
    if (stream)
        copy_streaming((char *)out, (const char *)block, (size_t)n);
}

/* Vectors are zero beyond n, which no maximum and no sum minds. */
static float largest(const float *in, int n)
{
    vf m = SPLAT(0.0f);
    for (int i = 0; i < n / LANES * LANES; i += LANES)
        m = larger(magnitude(get(in + i)), m);
    float r = 0;
    for (int i = n / LANES * LANES; i < n; i++)
        r = fabsf(in[i]) > r ? fabsf(in[i]) : r;
    for (int i = 0; i < LANES; i++)
        r = m[i] > r ? m[i] : r;
    return r;
}

static void add(float *h, const float *a, const float *b, int dtype, int n)
{
    for (int i = 0; i < n; i += LANES) {
        vf s = get(a + i) + get(b + i);
        put(h + i, dtype == RFG_F32 ? s : dtype == RFG_F16 ? from_f16(to_f16(s)) : from_bf16(to_bf16(s)));
    }
}

INLINE float across(vf v)
{
    float s = 0;
    for (int i = 0; i < LANES; i++)
        s += v[i];
    return s;
}

static float sum(const float *in, int n)
{
    vf s0 = SPLAT(0.0f), s1 = s0;
    int i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        s0 += get(in + i);
        s1 += get(in + i + LANES);
    }
    float rest = 0;
    for (; i < n; i++)
        rest += in[i];
    return across(s0 + s1) + rest;
}

static float sum_squares(const float *in, float minus, int n)
{
    vf s0 = SPLAT(0.0f), s1 = s0;
    int i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        vf a = get(in + i) - minus, b = get(in + i + LANES) - minus;
        s0 += a * a;
        s1 += b * b;
    }
    float rest = 0;
    for (; i < n; i++)
        rest += (in[i] - minus) * (in[i] - minus);
    return across(s0 + s1) + rest;
}

INLINE void normalise_as(float *y, const float *h, float minus, float scale, const float *w, float offset,
                         const float *bias, int n, const bool has_w, const bool has_bias)
{
    for (int i = 0; i < n; i += LANES) {
        vf v = (get(h + i) - minus) * scale;
        if (has_w)
            v *= get(w + i) + offset;
        if (has_bias)
            v += get(bias + i);
        put(y + i, v);
    }
}
static void normalise(float *y, const float *h, float minus, float scale, const float *w, float offset,
                      const float *bias, int n)
{
    if (w && bias)
        normalise_as(y, h, minus, scale, w, offset, bias, n, true, true);
    else if (w)
        normalise_as(y, h, minus, scale, w, offset, bias, n, true, false);
    else
        normalise_as(y, h, minus, scale, w, offset, bias, n, false, bias != NULL);
}

/* 2^v: whole and fractional part; the fraction by its series, exact to a rounding or two. */
INLINE vf exp2_of(vf v)
{
    v = choose(v > 128.5f, SPLAT(128.5f), v);
    v = choose(v < -151.0f, SPLAT(-151.0f), v);
    vf shifted = v + 0x1.8p23f;
    vi n = (vi)shifted - 0x4b400000;
    vf f = v - (shifted - 0x1.8p23f);
    vf p = SPLAT(1.5252734e-5f);
    p = p * f + 1.5403530e-4f;
    p = p * f + 1.3333558e-3f;
    p = p * f + 9.6181291e-3f;
    p = p * f + 5.5504109e-2f;
    p = p * f + 2.4022651e-1f;
    p = p * f + 6.9314718e-1f;
    p = p * f + 1.0f;
    vi half = n >> 1, rest = n - half; /* two factors: the whole one may be beyond a float's exponent */
    return p * (vf)((half + 127) << 23) * (vf)((rest + 127) << 23);
}
INLINE vf sigmoid(vf v)
{
    return 1.0f / (1.0f + exp2_of(v * -1.44269504f));
}
/* As the GPU's: see ops/act/act_device.h. */
INLINE vf gelu(vf v)
{
    vf z = magnitude(v) * 0.70710678f, t = 1.0f / (z * 0.5f + 1.0f), p = SPLAT(0.17100675404071808f);
    p = p * t - 0.8196915984153748f;
    p = p * t + 1.4752486944198608f;
    p = p * t - 1.107899785041809f;
    p = p * t + 0.2488659769296646f;
    p = p * t - 0.16692271828651428f;
    p = p * t + 0.0893019437789917f;
    p = p * t + 0.3757663071155548f;
    p = p * t + 0.9998276829719543f;
    p = p * t - 1.265503168106079f;
    vf half_erfc = 0.5f * t * exp2_of((p - z * z) * 1.44269504f);
    return v * choose(v < 0.0f, half_erfc, 1.0f - half_erfc);
}

INLINE void act_as(float *y, const float *a, const float *b, const int act, float alpha, float limit, int n)
{
    for (int i = 0; i < n; i += LANES) {
        vf v = get(a + i), u = b ? get(b + i) : SPLAT(1.0f);
        if (act == RFG_ACT_SILU)
            v *= sigmoid(v);
        else if (act == RFG_ACT_GELU)
            v = gelu(v);
        else if (act == RFG_ACT_GELU_TANH)
            v *= sigmoid(v * (v * v * 0.0713548162f + 1.59576912f));
        else if (act == RFG_ACT_RELU)
            v = choose(v < 0.0f, SPLAT(0.0f), v);
        else if (act == RFG_ACT_RELU2)
            v = choose(v < 0.0f, SPLAT(0.0f), v * v);
        else if (act == RFG_ACT_SWIGLUOAI) {
            v = choose(v > limit, SPLAT(limit), v);
            v *= sigmoid(v * alpha);
            u = choose(u > limit, SPLAT(limit), choose(u < -limit, SPLAT(-limit), u)) + 1.0f;
        }
        put(y + i, b ? v * u : v);
    }
}
static void act(float *y, const float *a, const float *b, int act, float alpha, float limit, int n)
{
#define CASE(k)                                                                                                        \
    case k:                                                                                                            \
        act_as(y, a, b, k, alpha, limit, n);                                                                           \
        break
    switch (act) {
        CASE(RFG_ACT_SILU);
        CASE(RFG_ACT_GELU);
        CASE(RFG_ACT_GELU_TANH);
        CASE(RFG_ACT_RELU);
        CASE(RFG_ACT_RELU2);
        CASE(RFG_ACT_SWIGLUOAI);
    default:
        act_as(y, a, b, RFG_ACT_NONE, alpha, limit, n);
    }
}

const struct rfg_cpu_rows ROWS_TABLE = { load, store, codes, largest, add, sum, sum_squares, normalise, act };
