/* SPDX-License-Identifier: MIT
 *
 * The functions of struct mha_cpu_isa. The includer defines LANES (8 or 16), MAX_ROWS (a power of two; MAX_ROWS *
 * KEYS accumulators must fit into registers) and ISA_TABLE. */
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "ops/cpu/vectors.h"
#include "rfg/core.h"
#include "cpu_kernels.h"

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

#define KEYS     4           /* whose scores are made together */
#define GROUP    (2 * LANES) /* elements that are unpacked together */
#define SIZE(kv) ((kv) == RFG_BF16 || (kv) == RFG_F16 ? 2 : 1)

/* ---- elements --------------------------------------------------------------------------------------------------- */

/* LANES 8-bit codes as fp16, those of e4m3 as what mha_cpu_code_scale() makes them of. NaNs are NaNs. */
INLINE vh codes(const char *p, const int kv)
{
    vb b;
    memcpy(&b, p, sizeof(b));
    vh h = __builtin_convertvector(b, vh);
    if (kv == RFG_E5M2)
        return h << 8;
    vh nan = kv == RFG_E4M3 ? (vh)((h & 0x7f) == 0x7f) : (vh)(h == 0x80);
    return (h & 0x80) << 8 | (h & 0x7f) << 7 | (nan & 0x7e00);
}

INLINE void unpack(const char *p, const int kv, vf *lo, vf *hi)
{
    if (kv == RFG_BF16) {
        vu u;
        memcpy(&u, p, sizeof(u));
        *lo = (vf)(u << 16);
        *hi = (vf)(u & 0xffff0000);
    } else if (kv == RFG_F16) {
        vh h[2];
        memcpy(h, p, sizeof(h));
        *lo = from_f16(h[0]);
        *hi = from_f16(h[1]);
    } else {
        *lo = from_f16(codes(p, kv));
        *hi = from_f16(codes(p + LANES, kv));
    }
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

#if LANES == 16
#define HALVES(v) _mm256_add_ps(_mm512_castps512_ps256((__m512)(v)), _mm512_extractf32x8_ps((__m512)(v), 1))
INLINE float largest(vf v)
{
    return _mm512_reduce_max_ps((__m512)v);
}
#else
#define HALVES(v) ((__m256)(v))
INLINE float largest(vf v)
{
    __m128 h = _mm_max_ps(_mm256_castps256_ps128((__m256)v), _mm256_extractf128_ps((__m256)v, 1));
    h = _mm_max_ps(h, _mm_movehl_ps(h, h));
    return _mm_cvtss_f32(_mm_max_ss(h, _mm_movehdup_ps(h)));
}
#endif
/* The sum of each of four vectors. */
INLINE __m128 sums(const vf *v)
{
    __m256 a = _mm256_hadd_ps(HALVES(v[0]), HALVES(v[1])), b = _mm256_hadd_ps(HALVES(v[2]), HALVES(v[3]));
    a = _mm256_hadd_ps(a, b);
    return _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
}
INLINE float sum(vf v)
{
    __m128 h = _mm_add_ps(_mm256_castps256_ps128(HALVES(v)), _mm256_extractf128_ps(HALVES(v), 1));
    h = _mm_add_ps(h, _mm_movehl_ps(h, h));
    return _mm_cvtss_f32(_mm_add_ss(h, _mm_movehdup_ps(h)));
}

INLINE void fetch(const char *p, int bytes)
{
    for (int i = 0; i < bytes; i += 64)
        __builtin_prefetch(p + i, 0, 3);
}

/* ---- a block ---------------------------------------------------------------------------------------------------- */

/* s[row][key]: q . k. Those of keys n and on, to a multiple of KEYS, are some numbers. */
INLINE void scores(const struct mha_cpu_block *b, const int rows, const int kv, float (*s)[MHA_CPU_BLOCK])
{
    for (int key = 0; key < b->n; key += KEYS) {
        const char *k[KEYS];
        vf acc[MAX_ROWS][KEYS];
        UNROLL
        for (int j = 0; j < KEYS; j++) {
            k[j] = b->at.k[key + j < b->n ? key + j : b->n - 1] + b->at.k_offset;
            if (key + j < b->n_ahead)
                fetch(b->ahead.k[key + j] + b->ahead.k_offset, b->d * SIZE(kv));
        }
        UNROLL
        for (int r = 0; r < rows; r++) {
            UNROLL
            for (int j = 0; j < KEYS; j++)
                acc[r][j] = SPLAT(0.0f);
        }
        for (int d = 0; d < b->d; d += GROUP) {
            vf lo[KEYS], hi[KEYS];
            UNROLL
            for (int j = 0; j < KEYS; j++)
                unpack(k[j] + d * SIZE(kv), kv, &lo[j], &hi[j]);
            UNROLL
            for (int r = 0; r < rows; r++) {
                vf q0 = get(b->q + r * b->d + d), q1 = get(b->q + r * b->d + d + LANES);
                UNROLL
                for (int j = 0; j < KEYS; j++) {
                    acc[r][j] = multiply_add(lo[j], q0, acc[r][j]);
                    acc[r][j] = multiply_add(hi[j], q1, acc[r][j]);
                }
            }
        }
        UNROLL
        for (int r = 0; r < rows; r++)
            _mm_storeu_ps(&s[r][key], sums(acc[r]));
    }
}

/* A row's softmax step: scores to weights, 0 where masked. Where the maximum grows, O and the sum are scaled down. One
 * copy for any number of rows: the compiler may fuse an expression in one and not in another. */
static __attribute__((noinline)) void softmax_step(const struct mha_cpu_block *b, int r, float *s)
{
    static const float count[16] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };
    vf lane = get(count), most = SPLAT(-INFINITY), total = SPLAT(0.0f);
    vf from = SPLAT((float)(b->from[r] > 0 ? b->from[r] : 0)), to = SPLAT((float)(b->to[r] < b->n ? b->to[r] : b->n));
    for (int i = 0; i < b->n; i += LANES) {
        vf v = get(s + i) * b->scale, key = lane + (float)i;
        if (b->cap > 0) /* by tanh x = 1 - 2 / (1 + exp 2x) */
            v = b->cap * (1.0f - 2.0f / (1.0f + exp2_of(v * (2 * 1.44269504f / b->cap))));
        v -= b->slope[r] != 0 ? b->slope[r] * magnitude(b->place[r] - key) : SPLAT(0.0f);
        v = choose((vi)(key >= from) & (vi)(key < to), v, SPLAT(-INFINITY));
        most = larger(v, most); /* NaNs don't count */
        put(s + i, v);
    }
    float m = larger(SPLAT(b->m[r]), SPLAT(largest(most)))[0], base = m == -INFINITY ? 0 : m;
    if (m != b->m[r]) {
        float down = exp2_of(SPLAT(b->m[r] - base))[0];
        for (int i = 0; i < b->dv; i += LANES)
            put(b->o + r * b->dv + i, get(b->o + r * b->dv + i) * down);
        b->l[r] *= down;
        b->m[r] = m;
    }
    for (int i = 0; i < b->n; i += LANES) {
        vf w = exp2_of(get(s + i) - base);
        total += w;
        put(s + i, w);
    }
    b->l[r] += sum(total);
}

/* O += weights times values, for `vectors` vectors of O from column `at`. */
INLINE void columns(const struct mha_cpu_block *b, const int rows, const int vectors, const int kv, int at, int from,
                    int to, float *o, float (*s)[MHA_CPU_BLOCK], bool ahead)
{
    vf acc[MAX_ROWS][8];
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int i = 0; i < vectors; i++)
            acc[r][i] = get(o + r * b->dv + at + i * LANES);
    }
    for (int key = from; key < to; key++) {
        const char *v = b->at.v[key] + b->at.v_offset + at * SIZE(kv);
        vf x[8];
        if (ahead && key < b->n_ahead)
            fetch(b->ahead.v[key] + b->ahead.v_offset + at * SIZE(kv), vectors * LANES * SIZE(kv));
        UNROLL
        for (int i = 0; i < vectors; i += 2)
            unpack(v + i * LANES * SIZE(kv), kv, &x[i], &x[i + 1]);
        UNROLL
        for (int r = 0; r < rows; r++) {
            UNROLL
            for (int i = 0; i < vectors; i++)
                acc[r][i] = multiply_add(SPLAT(s[r][key]), x[i], acc[r][i]);
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int i = 0; i < vectors; i++)
            put(o + r * b->dv + at + i * LANES, acc[r][i]);
    }
}

INLINE void values(const struct mha_cpu_block *b, const int rows, const int kv, int from, int to, float *o,
                   float (*s)[MHA_CPU_BLOCK], bool ahead)
{
    const int wide = rows > 1 ? 4 : 8;
    int at = 0;
    for (; at + wide * LANES <= b->dv; at += wide * LANES)
        columns(b, rows, wide, kv, at, from, to, o, s, ahead);
    for (; at < b->dv; at += GROUP)
        columns(b, rows, 2, kv, at, from, to, o, s, ahead);
}

INLINE void block(const struct mha_cpu_block *b, const int rows, const int kv)
{
    float s[MAX_ROWS][MHA_CPU_BLOCK];
    bool all = true;
    scores(b, rows, kv, s);
    for (int r = 0; r < rows; r++) {
        softmax_step(b, r, s[r]);
        all &= b->from[r] <= 0 && b->to[r] >= b->n;
    }
    if (all) {
        values(b, rows, kv, 0, b->n, b->o, s, true);
        return;
    }
    /* Row by row: what a row doesn't see may be a NaN. */
    for (int r = 0; r < rows; r++)
        values(b, 1, kv, b->from[r] > 0 ? b->from[r] : 0, b->to[r] < b->n ? b->to[r] : b->n, b->o + r * b->dv, s + r,
               r == 0);
}

#define BLOCK(kv)                                                                                                      \
    static void block_##kv(const struct mha_cpu_block *b)                                                              \
    {                                                                                                                  \
        if (MAX_ROWS >= 4 && b->rows >= 4)                                                                             \
            block(b, MAX_ROWS, kv);                                                                                    \
        else if (b->rows >= 2)                                                                                         \
            block(b, 2, kv);                                                                                           \
        else                                                                                                           \
            block(b, 1, kv);                                                                                           \
    }
BLOCK(RFG_BF16)
BLOCK(RFG_F16)
BLOCK(RFG_E4M3)
BLOCK(RFG_E4M3FNUZ)
BLOCK(RFG_E5M2)

static void any_block(const struct mha_cpu_block *b)
{
    switch (b->kv_dtype) {
    case RFG_BF16:
        block_RFG_BF16(b);
        break;
    case RFG_F16:
        block_RFG_F16(b);
        break;
    case RFG_E4M3:
        block_RFG_E4M3(b);
        break;
    case RFG_E4M3FNUZ:
        block_RFG_E4M3FNUZ(b);
        break;
    default:
        block_RFG_E5M2(b);
    }
}

/* ---- rows ------------------------------------------------------------------------------------------------------- */

static void pack(float *to, const uint16_t *row, int d, int q_dtype, int kv_dtype)
{
    for (int at = 0; at < d; at += GROUP) {
        vf lo, hi;
        if (q_dtype == RFG_F16) {
            unpack((const char *)(row + at), RFG_F16, &lo, &hi);
        } else if (kv_dtype == RFG_BF16) {
            unpack((const char *)(row + at), RFG_BF16, &lo, &hi);
        } else {
            vh h[2];
            memcpy(h, row + at, sizeof(h));
            lo = (vf)(__builtin_convertvector(h[0], vu) << 16);
            hi = (vf)(__builtin_convertvector(h[1], vu) << 16);
        }
        put(to + at, lo);
        put(to + at + LANES, hi);
    }
}

INLINE vu rounded(vf v)
{
    return chooseu((vi)(v == v), to_bf16(v) >> 16, SPLATU(0x7fc0));
}

static void store(uint16_t *row, const float *o, float factor, int dv, int q_dtype, int kv_dtype)
{
    for (int at = 0; at < dv; at += GROUP) {
        vf lo = get(o + at) * factor, hi = get(o + at + LANES) * factor;
        vh h[2];
        if (q_dtype == RFG_F16) {
            h[0] = to_f16(lo);
            h[1] = to_f16(hi);
        } else if (kv_dtype == RFG_BF16) {
            vu u = rounded(lo) | rounded(hi) << 16;
            memcpy(h, &u, sizeof(h));
        } else {
            h[0] = __builtin_convertvector(rounded(lo), vh);
            h[1] = __builtin_convertvector(rounded(hi), vh);
        }
        memcpy(row + at, h, sizeof(h));
    }
}

const struct mha_cpu_isa ISA_TABLE = { MAX_ROWS, GROUP, pack, any_block, store };
