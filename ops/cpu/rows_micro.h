/* SPDX-License-Identifier: MIT
 *
 * The functions of struct rfg_cpu_rows, in the compilers' vector types. The includer defines LANES (4, 8, 16),
 * ROWS_TABLE, and what its `feature` and `needs` are.
 *
 * All work is done in chunks of a few vectors, which stay in registers from the loads to the stores and hide the
 * arithmetic's latencies from one another. What depends on the call (which activation, is there a weight, ...) is asked
 * once a chunk; only the dtype is compiled in. */
#include <math.h>
#include <string.h>

#include "ops/quant.h"
#include "rfg/act.h"
#include "rows.h"
#include "vectors.h"

#define VECTORS (LANES == 16 ? 4 : 2) /* as many as the registers hold */
#define CHUNK   (VECTORS * LANES)
_Static_assert(RFG_SCALE_COLUMNS % CHUNK == 0 && CHUNK <= RFG_CPU_CHUNK, "groups and rows are whole chunks");
_Static_assert(RFG_MX_COLUMNS % (2 * LANES) == 0, "groups are whole pairs of vectors");

typedef struct {
    vf v[VECTORS];
} chunk;

/* Stores past the caches. */
#if LANES == 16
#define STREAM(p, v)      _mm512_stream_si512((__m512i *)(void *)(p), (__m512i)(v))
#define STREAM_HALF(p, v) _mm256_stream_si256((__m256i *)(void *)(p), (__m256i)(v))
#elif LANES == 8
#define STREAM(p, v)      _mm256_stream_si256((__m256i *)(void *)(p), (__m256i)(v))
#define STREAM_HALF(p, v) _mm_stream_si128((__m128i *)(void *)(p), (__m128i)(v))
#else
#define STREAM(p, v)      memcpy(p, &(v), sizeof(v))
#define STREAM_HALF(p, v) memcpy(p, &(v), sizeof(v))
#endif

INLINE float across(chunk c)
{
    vf v = c.v[0];
    for (int k = 1; k < VECTORS; k++)
        v += c.v[k];
    for (int half = LANES / 2; half; half /= 2)
        for (int i = 0; i < half; i++)
            v[i] += v[i + half];
    return v[0];
}

/* ---- formats ---------------------------------------------------------------------------------------------------- */

/* fp8, to nearest even: adding 2^(exponent + 23 - mantissa bits) leaves |v| in units of its last place in the sum's low
 * bits; the exponent is that of denormals at least. Saturates. */
INLINE vu fp8_code(vf v, int mantissa, int bias, float max, uint32_t nan, bool negative_zero)
{
    vu sign = (vu)v >> 24 & 0x80, least = SPLATU(128 - bias) << 23;
    vf a = smaller(SPLAT(max), magnitude(v));
    vu exponent = (vu)larger((vf)((vu)a & 0x7f800000), (vf)least), unit = exponent + ((uint32_t)(23 - mantissa) << 23);
    vu code = (vu)(a + (vf)unit) - unit + ((exponent - least) >> (23 - mantissa)); /* of a NaN: far beyond all others */
    code = fewer(code, SPLATU(nan));
    return negative_zero ? code | sign : chooseu((vi)(code == 0), code, code | sign);
}
INLINE vu code_of(vf v, int dtype)
{
    if (dtype == RFG_E4M3)
        return fp8_code(v, 3, 7, 448.0f, 0x7f, true);
    if (dtype == RFG_E4M3FNUZ)
        return fp8_code(v, 3, 8, 240.0f, 0x80, false);
    if (dtype == RFG_E5M2)
        return fp8_code(v, 2, 15, 57344.0f, 0x7f, true);
    if (dtype == RFG_E2M1) { /* to the low four bits; of a NaN the largest */
        vu code = fp8_code(v, 1, 1, 6.0f, 7, true);
        return chooseu(v == v, (code & 7) | (code >> 4 & 8), SPLATU(7));
    }
    vf c = larger(smaller(v, SPLAT(127.0f)), SPLAT(-128.0f));
    vu whole = (vu)(c + 0x1.8p23f) - 0x4b400000; /* the addition rounds to a whole number, to nearest even */
    return chooseu(v == v, whole & 0xff, SPLATU(0));
}

/* ---- chunks ----------------------------------------------------------------------------------------------------- */

/* bf16 comes and goes as pairs: the even elements of two vectors are one, the odd ones the next, which takes neither
 * shuffles nor conversions. The other formats are in the order of memory. */
INLINE vi columns(int k, const int dtype)
{
    static const int32_t lane[16] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };
    vi i;
    memcpy(&i, lane, sizeof(i));
    return dtype == RFG_BF16 ? k / 2 * 2 * LANES + 2 * i + k % 2 : k * LANES + i;
}

/* Prefetches a page ahead: chunks take so long that the few in flight don't cover memory's latency. Prefetching beyond
 * the tensor is harmless. */
INLINE void fetch(const char *p, int size)
{
    for (int i = 0; i < CHUNK * size; i += 64)
        __builtin_prefetch((const void *)((uintptr_t)p + 4096 + (uintptr_t)i), 0, 3);
}

/* n elements, then zeroes. */
INLINE chunk load(const char *p, const int dtype, int n)
{
    const int size = dtype == RFG_F32 ? 4 : 2;
    char rest[CHUNK * 4];
    chunk c;
    if (__builtin_expect(n < CHUNK, 0)) {
        memset(rest, 0, sizeof(rest));
        memcpy(rest, p, (size_t)(n * size));
        p = rest;
    }
    for (int k = 0; k < VECTORS; k++)
        if (dtype == RFG_F32) {
            memcpy(&c.v[k], p + k * LANES * 4, sizeof(vf));
        } else if (dtype == RFG_F16) {
            vh h;
            memcpy(&h, p + k * LANES * 2, sizeof(h));
            c.v[k] = from_f16(h);
        } else if (k % 2 == 0) {
            vu u;
            memcpy(&u, p + k * LANES * 2, sizeof(u));
            c.v[k] = (vf)(u << 16);
            c.v[k + 1] = (vf)(u & 0xffff0000);
        }
    return c;
}

/* The first n, to nearest even. stream: p is aligned to 64 bytes. */
INLINE void store(char *p, chunk c, const int dtype, int n, bool stream)
{
    const int size = dtype == RFG_F32 ? 4 : 2;
    char rest[CHUNK * 4], *to = n < CHUNK ? rest : p;
    stream = stream && n == CHUNK;
    for (int k = 0; k < VECTORS; k++)
        if (dtype == RFG_F16) {
            vh h = to_f16(c.v[k]);
            if (stream)
                STREAM_HALF(to + k * LANES * 2, h);
            else
                memcpy(to + k * LANES * 2, &h, sizeof(h));
        } else if (dtype == RFG_F32 || k % 2 == 0) {
            vu u = dtype == RFG_F32 ? (vu)c.v[k] : to_bf16(c.v[k]) >> 16 | (to_bf16(c.v[k + 1]) & 0xffff0000);
            if (stream)
                STREAM(to + k * LANES * size, u);
            else
                memcpy(to + k * LANES * size, &u, sizeof(u));
        }
    if (n < CHUNK)
        memcpy(p, rest, (size_t)(n * size));
}

/* f32 that belongs to a chunk of a 16-bit dtype, in that one's order. */
INLINE chunk load_f32(const char *p, const int dtype, int n)
{
    chunk c = load(p, RFG_F32, n);
    for (int k = 0; dtype == RFG_BF16 && k < VECTORS; k += 2) {
        vq u;
        memcpy(&u, &c.v[k], sizeof(u));
        c.v[k] = (vf) __builtin_convertvector(u, vu);
        c.v[k + 1] = (vf) __builtin_convertvector(u >> 32, vu);
    }
    return c;
}
INLINE void store_f32(char *p, chunk c, const int dtype, int n, bool stream)
{
    for (int k = 0; dtype == RFG_BF16 && k < VECTORS; k += 2) {
        vq u = __builtin_convertvector((vu)c.v[k], vq) | __builtin_convertvector((vu)c.v[k + 1], vq) << 32;
        memcpy(&c.v[k], &u, sizeof(u));
    }
    store(p, c, RFG_F32, n, stream);
}

/* Zero from element n on. */
INLINE chunk keep(chunk c, const int dtype, int n)
{
    if (__builtin_expect(n < CHUNK, 0))
        for (int k = 0; k < VECTORS; k++)
            c.v[k] = (vf)((vi)c.v[k] & (columns(k, dtype) < n));
    return c;
}

/* A row of scratch keeps chunks as they are. (Vector by vector: compilers copy a struct through the stack.) */
INLINE chunk get(const float *row)
{
    chunk c;
    for (int k = 0; k < VECTORS; k++)
        memcpy(&c.v[k], row + k * LANES, sizeof(vf));
    return c;
}
INLINE void put(float *row, chunk c)
{
    for (int k = 0; k < VECTORS; k++)
        memcpy(row + k * LANES, &c.v[k], sizeof(vf));
}

/* Codes, a byte each, in the order of memory. */
INLINE void store_codes(uint8_t *to, chunk c, float inverse, const int dtype, const int q_dtype)
{
    vu code[VECTORS];
    for (int k = 0; k < VECTORS; k++)
        code[k] = code_of(c.v[k] * inverse, q_dtype);
    for (int k = 0; k < VECTORS; k++)
        if (dtype != RFG_BF16) {
            vb b = __builtin_convertvector(code[k], vb);
            memcpy(to + k * LANES, &b, sizeof(b));
        } else if (k % 2 == 0) {
            vb2 b = __builtin_convertvector((vh2)(code[k] | code[k + 1] << 16), vb2);
            memcpy(to + k * LANES, &b, sizeof(b));
        }
}

#define STAGED 512 /* codes are gathered, to leave as whole cache lines whatever the instruction set */

INLINE void codes_as(uint8_t *q, const float *row, int64_t n, float inverse, bool stream, const int dtype,
                     const int q_dtype)
{
    uint8_t staged[STAGED] __attribute__((aligned(64)));
    for (int64_t from = 0; from < n; from += STAGED) {
        int len = n - from < STAGED ? (int)(n - from) : STAGED, at = 0;
        for (; at < len; at += CHUNK)
            store_codes(staged + at, get(row + from + at), inverse, dtype, q_dtype);
        if (q_dtype == RFG_E2M1) { /* whole groups: pairs */
            len /= 2;
            for (int i = 0; i < len; i++)
                staged[i] = (uint8_t)(staged[2 * i] | staged[2 * i + 1] << 4);
        }
        uint8_t *to = q + (q_dtype == RFG_E2M1 ? from / 2 : from);
        at = 0;
        for (; stream && at + LANES * 4 <= len; at += LANES * 4) {
            vu v;
            memcpy(&v, staged + at, sizeof(v));
            STREAM(to + at, v);
        }
        memcpy(to + at, staged + at, (size_t)(len - at));
    }
}
/* Of n elements of scratch. */
INLINE void codes(uint8_t *q, const float *row, int64_t n, float inverse, bool stream, const int dtype, int q_dtype)
{
    if (q_dtype == RFG_E4M3)
        codes_as(q, row, n, inverse, stream, dtype, RFG_E4M3);
    else if (q_dtype == RFG_E4M3FNUZ)
        codes_as(q, row, n, inverse, stream, dtype, RFG_E4M3FNUZ);
    else if (q_dtype == RFG_E5M2)
        codes_as(q, row, n, inverse, stream, dtype, RFG_E5M2);
    else if (q_dtype == RFG_E2M1)
        codes_as(q, row, n, inverse, stream, dtype, RFG_E2M1);
    else
        codes_as(q, row, n, inverse, stream, dtype, RFG_I8);
}

/* ---- norms ------------------------------------------------------------------------------------------------------ */

INLINE chunk add(chunk a, chunk b, const int dtype)
{
    for (int k = 0; k < VECTORS; k++) {
        vf s = a.v[k] + b.v[k];
        a.v[k] = dtype == RFG_F32 ? s : dtype == RFG_F16 ? from_f16(to_f16(s)) : (vf)(to_bf16(s) & 0xffff0000);
    }
    return a;
}

struct stats {
    float mean, rstd;
};

/* A chunk of a row goes to scratch, and into the sums. */
INLINE void arrive(const struct rfg_cpu_norm *r, const struct rfg_cpu_input *in, int64_t col, int n, const int dtype,
                   chunk *sum)
{
    const int size = dtype == RFG_F32 ? 4 : 2;
    chunk h = load(in->x + col * size, dtype, n);
    const bool stream = r->out.stream && (uintptr_t)in->residual_out % 64 == 0;
    if (in->residual && r->residual_dtype != dtype) {
        h = add(h, load_f32(in->residual + col * 4, dtype, n), RFG_F32);
        fetch(in->residual + col * 4, 4);
        store_f32(in->residual_out + col * 4, h, dtype, n, stream);
    } else if (in->residual) {
        h = add(h, load(in->residual + col * size, dtype, n), dtype);
        fetch(in->residual + col * size, size);
        store(in->residual_out + col * size, h, dtype, n, stream);
    }
    put(in->row + col, h);
    fetch(in->x + col * size, size);
    for (int k = 0; k < VECTORS; k++)
        sum->v[k] = r->layer ? sum->v[k] + h.v[k] : multiply_add(h.v[k], h.v[k], sum->v[k]);
}

INLINE struct stats statistics(const struct rfg_cpu_norm *r, const int dtype)
{
    const struct rfg_cpu_out *o = &r->out;
    struct stats st = { 0, 0 };
    chunk sum = { 0 };
    if (r->arrived)
        sum = get(r->sums);
    else
        for (int64_t col = 0; col < o->n; col += CHUNK)
            arrive(r, &r->in, col, o->n - col < CHUNK ? (int)(o->n - col) : CHUNK, dtype, &sum);
    if (r->layer) {
        st.mean = across(sum) * r->inverse_n;
        sum = (chunk){ 0 };
        for (int64_t col = 0; col < o->n; col += CHUNK) {
            chunk d = get(r->in.row + col);
            for (int k = 0; k < VECTORS; k++)
                d.v[k] -= st.mean;
            d = keep(d, dtype, o->n - col < CHUNK ? (int)(o->n - col) : CHUNK);
            for (int k = 0; k < VECTORS; k++)
                sum.v[k] = multiply_add(d.v[k], d.v[k], sum.v[k]);
        }
    }
    st.rstd = 1.0f / sqrtf(across(sum) * r->inverse_n + r->eps);
    return st;
}

INLINE chunk of_weight(const struct rfg_cpu_norm *r, const char *p, int64_t col, int n, const int dtype)
{
    return r->weight_dtype == dtype ? load(p + col * (dtype == RFG_F32 ? 4 : 2), dtype, n)
                                    : load_f32(p + col * 4, dtype, n);
}

INLINE chunk normalised(const struct rfg_cpu_norm *r, struct stats st, int64_t col, int n, const int dtype)
{
    chunk y = get(r->in.row + col), factor;
    for (int k = 0; k < VECTORS; k++) {
        y.v[k] -= st.mean;
        factor.v[k] = SPLAT(st.rstd);
    }
    if (r->weight) {
        factor = of_weight(r, r->weight, col, n, dtype);
        if (r->one_plus)
            for (int k = 0; k < VECTORS; k++)
                factor.v[k] += 1.0f;
        for (int k = 0; k < VECTORS; k++)
            y.v[k] *= st.rstd;
    }
    if (r->bias) {
        chunk b = of_weight(r, r->bias, col, n, dtype);
        for (int k = 0; k < VECTORS; k++)
            y.v[k] = multiply_add(y.v[k], factor.v[k], b.v[k]);
    } else {
        for (int k = 0; k < VECTORS; k++)
            y.v[k] *= factor.v[k];
    }
    if (dtype == RFG_BF16 && (r->residual_dtype == RFG_F32 || r->weight_dtype == RFG_F32))
        for (int k = 0; k < VECTORS; k++) /* a NaN of f32 may have any lower half: see to_bf16() */
            y.v[k] = choose(y.v[k] == y.v[k], y.v[k], SPLAT(NAN));
    return keep(y, dtype, n);
}

/* ---- activations ------------------------------------------------------------------------------------------------ */

/* v sigmoid(-w ln 2) */
INLINE vf gated(vf v, vf w)
{
    return v / (1.0f + exp2_of(w));
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

INLINE vf tanh_of(vf v)
{
    vf z = v * v, p = z * -0.006096714176237583f + 0.020997179672122f, m = magnitude(v);
    p = p * z - 0.05385090783238411f;
    p = p * z + 0.1333276927471161f;
    p = p * z - 0.333333283662796f;
    vf e = 1.0f - 2.0f / (1.0f + exp2_of(m * 2.88539008f));
    return choose(m < 0.625f, v * z * p + v, choose(v < 0.0f, -e, e));
}

INLINE chunk activated(const struct rfg_cpu_act *r, int64_t col, int n, const int dtype)
{
    const int size = dtype == RFG_F32 ? 4 : 2;
    chunk y, b;
    if (r->interleaved) {
        char turns[2][CHUNK * 4];
        for (int i = 0; i < 2 * n; i++)
            memcpy(turns[i % 2] + i / 2 * size, r->a + (2 * col + i) * size, (size_t)size);
        y = load(turns[0], dtype, n);
        b = load(turns[1], dtype, n);
    } else {
        y = load(r->a + col * size, dtype, n);
        fetch(r->a + col * size, size);
        if (r->b) {
            b = load(r->b + col * size, dtype, n);
            fetch(r->b + col * size, size);
        }
    }
    if (r->b && r->limit > 0 && r->limit < INFINITY)
        for (int k = 0; k < VECTORS; k++) {
            y.v[k] = r->act == RFG_ACT_SWIGLUSTEP ? y.v[k] : smaller(SPLAT(r->limit), y.v[k]);
            b.v[k] = larger(SPLAT(-r->limit), smaller(SPLAT(r->limit), b.v[k]));
        }
    switch (r->act) {
    case RFG_ACT_SILU:
        for (int k = 0; k < VECTORS; k++)
            y.v[k] = gated(y.v[k], y.v[k] * -1.44269504f);
        break;
    case RFG_ACT_GELU:
        for (int k = 0; k < VECTORS; k++)
            y.v[k] = gelu(y.v[k]);
        break;
    case RFG_ACT_GELU_TANH:
        for (int k = 0; k < VECTORS; k++)
            y.v[k] = gated(y.v[k], y.v[k] * (y.v[k] * y.v[k] * -0.10294324f + -2.3022082f));
        break;
    case RFG_ACT_RELU:
        for (int k = 0; k < VECTORS; k++)
            y.v[k] = larger(SPLAT(0.0f), y.v[k]);
        break;
    case RFG_ACT_RELU2:
        for (int k = 0; k < VECTORS; k++) {
            vf v = larger(SPLAT(0.0f), y.v[k]);
            y.v[k] = v * v;
        }
        break;
    case RFG_ACT_SWIGLUOAI:
        for (int k = 0; k < VECTORS; k++) {
            y.v[k] = gated(y.v[k], y.v[k] * (r->alpha * -1.44269504f));
            b.v[k] += 1.0f;
        }
        break;
    case RFG_ACT_SWIGLUSTEP:
        for (int k = 0; k < VECTORS; k++)
            y.v[k] = smaller(SPLAT(r->limit), gated(y.v[k], y.v[k] * -1.44269504f));
        break;
    case RFG_ACT_SITU:
        for (int k = 0; k < VECTORS; k++) {
            y.v[k] = gated(r->alpha * tanh_of(y.v[k] / r->alpha), y.v[k] * -1.44269504f);
            b.v[k] = isinf(r->linear_beta) ? b.v[k] : r->linear_beta * tanh_of(b.v[k] / r->linear_beta);
        }
        break;
    default:
        break;
    }
    if (r->b)
        for (int k = 0; k < VECTORS; k++)
            y.v[k] *= b.v[k];
    return y;
}

/* ---- rows ------------------------------------------------------------------------------------------------------- */

/* Scales of mx for n columns of scratch, from column `from` of the row on: each group is divided by its own. A group is
 * whole vectors, in whatever order they have its columns. */
INLINE void divide_groups(const struct rfg_cpu_out *o, int64_t from, int64_t n)
{
    for (int64_t col = from; col < from + n; col += RFG_MX_COLUMNS) {
        float *group = o->row + col, largest = 0;
        for (int i = 0; i < RFG_MX_COLUMNS; i++)
            largest = fabsf(group[i]) > largest ? fabsf(group[i]) : largest; /* NaNs don't count */
        if (o->rounding == RFG_SCALE_UP)
            largest /= o->q_dtype == RFG_E2M1 ? 6.0f : 448.0f;
        float scale = rfg_cpu_power_scale(largest, o->rounding, o->q_dtype);
        float inverse = 1 / rfg_cpu_store_e8m0((uint8_t *)o->scale + col / RFG_MX_COLUMNS * o->scale_col, scale);
        for (int i = 0; i < RFG_MX_COLUMNS; i++)
            group[i] *= inverse;
    }
}

/* Results of a norm or of an activation, one of which is NULL, and their codes: a group or a row at a time, since
 * that is what a scale must have seen. */
INLINE void results(const struct rfg_cpu_out *o, const struct rfg_cpu_norm *norm, struct stats st,
                    const struct rfg_cpu_act *act, const int dtype)
{
    const int size = dtype == RFG_F32 ? 4 : 2;
    const bool stream_y = o->stream && (uintptr_t)o->y % 64 == 0, stream_q = o->stream && (uintptr_t)o->q % 64 == 0;
    chunk next = { 0 };
    const bool mx = o->q && o->scale_kind == RFG_SCALE_MX;
    int64_t span = mx || (o->q && o->scale_kind == RFG_SCALE_GROUP) ? RFG_SCALE_COLUMNS : o->n;
    for (int64_t from = 0; from < o->n; from += span) {
        int64_t end = o->n - from < span ? o->n : from + span;
        chunk most = { 0 };
        for (int64_t col = from; col < end; col += CHUNK) {
            int n = end - col < CHUNK ? (int)(end - col) : CHUNK;
            chunk y = norm ? normalised(norm, st, col, n, dtype) : activated(act, col, n, dtype);
            if (o->y)
                store(o->y + col * size, y, dtype, n, stream_y);
            if (o->q) {
                put(o->row + col, y);
                for (int k = 0; k < VECTORS; k++) /* NaNs don't count */
                    most.v[k] = larger(magnitude(y.v[k]), most.v[k]);
            }
            /* The next row is loaded while this one is stored, so that memory always does both. */
            if (norm && norm->next.x)
                arrive(norm, &norm->next, col, n, dtype, &next);
        }
        if (!o->q)
            continue;
        if (mx) {
            divide_groups(o, from, end - from);
            codes(o->q + rfg_format_bytes(o->q_dtype, from), o->row + from, end - from, 1, stream_q, dtype, o->q_dtype);
            continue;
        }
        float *scale = (float *)o->scale + from / span * o->scale_col;
        if (o->scale_kind != RFG_SCALE_STATIC) {
            float largest = 0;
            for (int k = 0; k < VECTORS; k++)
                for (int i = 0; i < LANES; i++)
                    largest = most.v[k][i] > largest ? most.v[k][i] : largest;
            *scale = rfg_cpu_scale(largest, o->q_dtype);
        }
        codes(o->q + from, o->row + from, end - from, 1.0f / *scale, stream_q, dtype, o->q_dtype);
    }
    if (norm)
        put(norm->sums, next);
}

#define ROW(dtype)                                                                                                     \
    static void norm_##dtype(const struct rfg_cpu_norm *r)                                                             \
    {                                                                                                                  \
        results(&r->out, r, statistics(r, dtype), NULL, dtype);                                                        \
    }                                                                                                                  \
    static void act_##dtype(const struct rfg_cpu_act *r)                                                               \
    {                                                                                                                  \
        results(&r->out, NULL, (struct stats){ 0, 0 }, r, dtype);                                                      \
    }
ROW(RFG_F32)
ROW(RFG_F16)
ROW(RFG_BF16)

static void norm(const struct rfg_cpu_norm *r)
{
    (r->out.dtype == RFG_F32 ? norm_RFG_F32 : r->out.dtype == RFG_F16 ? norm_RFG_F16 : norm_RFG_BF16)(r);
}
static void act(const struct rfg_cpu_act *r)
{
    (r->out.dtype == RFG_F32 ? act_RFG_F32 : r->out.dtype == RFG_F16 ? act_RFG_F16 : act_RFG_BF16)(r);
}

const struct rfg_cpu_rows ROWS_TABLE = { LANES, ROWS_FEATURE, ROWS_NEEDS, norm, act };
