/* SPDX-License-Identifier: MIT
 *
 * rope, kv_append and rope_append on the cpu: tokens shared out among threads. */
#include <math.h>
#include <string.h>

#include "ops/cpu/pool.h"
#include "ops/cpu/rows.h"
#include "rope.h"

struct job {
    const struct rope_args *a;
    const struct rfg_problem *prob;
    const struct rfg_format *cache; /* of codes, else NULL */
};

/* What a thread needs: a head of q or k, or v; cosines and sines. */
static int64_t longest_head(const struct rfg_problem *prob)
{
    return prob->v[ROPE_D] > rope_dv(prob) ? prob->v[ROPE_D] : rope_dv(prob);
}
static size_t scratch_bytes(const struct rfg_problem *prob)
{
    return ((size_t)longest_head(prob) + (size_t)rope_r(prob) + 15) / 16 * 16 * sizeof(float);
}

static int64_t position_of(const struct job *j, int64_t token, int axis)
{
    int64_t at = axis * j->a->axis_stride + token;
    return rope_position_dtype(j->prob) == RFG_I64 ? ((const int64_t *)j->a->positions)[at]
                                                   : ((const int32_t *)j->a->positions)[at];
}

static int axis_of(const struct rope_args *a, bool interleaved, int pair)
{
    if (interleaved)
        return pair % 3 && pair < 3 * a->sections[pair % 3] ? pair % 3 : 0;
    int axis = 0;
    for (int end = a->sections[0]; axis + 1 < a->axes && pair >= end; end += a->sections[axis])
        axis++;
    return axis;
}

static void angles_of(const struct job *j, int64_t token, float *c, float *s)
{
    const struct rope_args *a = j->a;
    int dtype = rope_table_dtype(j->prob);
    for (int i = 0; i < a->r / 2; i++) {
        int axis = a->axes ? axis_of(a, j->prob->v[ROPE_MROPE], i) : 0;
        int64_t p = position_of(j, token, axis);
        bool there = p >= 0 && p < a->table_rows;
        c[i] = there ? rfg_float_get(a->cos_sin, dtype, p * a->table_stride + i) : NAN;
        s[i] = there ? a->sin_sign * rfg_float_get(a->cos_sin, dtype, p * a->table_stride + a->r / 2 + i) : NAN;
    }
}

static void normalise(const struct job *j, const void *weight, float *x)
{
    const struct rope_args *a = j->a;
    int dtype = rope_weight_dtype(j->prob);
    float sum = 0;
    for (int i = 0; i < a->d; i++)
        sum += x[i] * x[i];
    float rms = 1 / sqrtf(sum * a->inverse_d + a->eps);
    for (int i = 0; i < a->d; i++)
        x[i] = x[i] * rms * (a->weight_offset + rfg_float_get(weight, dtype, i));
}

static void rotate(const struct job *j, const float *c, const float *s, float *x)
{
    int half = j->a->r / 2;
    bool gptj = j->prob->v[ROPE_PAIRS];
    x += j->a->rotated;
    for (int i = 0; i < half; i++) {
        float *first = x + (gptj ? 2 * i : i), *second = x + (gptj ? 2 * i + 1 : i + half), u = *first, v = *second;
        *first = u * c[i] - v * s[i];
        *second = v * c[i] + u * s[i];
    }
}

static const char *read_head(const struct job *j, struct rope_heads h, int64_t token, int64_t head, int64_t n, float *x)
{
    const char *from = (const char *)h.data + rfg_format_bytes(rope_dtype(j->prob), token * h.token + head * h.head);
    for (int64_t i = 0; x && i < n; i++)
        x[i] = rfg_float_get(from, rope_dtype(j->prob), i);
    return from;
}

/* Element i as it was read, to element `at`; or, if it has changed, from x. */
static void put(const struct job *j, char *to, int64_t at, const char *from, const float *x, int64_t i, bool same)
{
    int64_t size = rfg_format_bytes(rope_dtype(j->prob), 1);
    if (same)
        memcpy(to + at * size, from + i * size, (size_t)size);
    else
        rfg_float_put(to, rope_dtype(j->prob), at, x[i]);
}

/* Does an element that isn't rotated keep its bits? */
static bool keeps(const struct job *j, int64_t i)
{
    const struct rope_args *a = j->a;
    return !j->prob->v[ROPE_NORM] && (i < a->rotated || i >= a->rotated + a->r);
}

static void write_head(const struct job *j, struct rope_heads h, int64_t token, int64_t head, const char *from,
                       const float *x)
{
    char *to = (char *)h.data + rfg_format_bytes(rope_dtype(j->prob), token * h.token + head * h.head);
    for (int64_t i = 0; i < j->a->d; i++)
        if (to != from || !keeps(j, i))
            put(j, to, i, from, x, i, keeps(j, i));
}

/* A scale for this head of this token, and its codes (rfg/rope.h). */
static void write_scaled(const struct job *j, char *row, float *scale, int64_t n, const float *x)
{
    float above = 0, below = 0;
    for (int64_t i = 0; i < n; i++) { /* a NaN doesn't count */
        above = fmaxf(above, x[i]);
        below = fmaxf(below, -x[i]);
    }
    if (j->cache != rfg_format(RFG_I4)) {
        *scale = fmaxf(fmaxf(above, below) / (float)j->cache->largest, 1e-6f);
        float inverse = 1 / *scale;
        for (int64_t i = 0; i < n; i++) {
            double value = x[i] * inverse;
            j->cache->encode(j->cache, row + i, &value);
        }
        return;
    }
    uint32_t bits;
    float most = fmaxf((above + below) / 15, 1e-6f);
    memcpy(&bits, &most, sizeof(bits));
    bits &= ~15u;
    memcpy(&most, &bits, sizeof(bits));
    float inverse = 1 / most, at = rintf(below * inverse);
    int zero = at > 15 ? 15 : isnan(at) ? 0 : (int)at;
    for (int64_t i = 0; i < n; i++) {
        float from_zero = rintf(x[i] * inverse);
        int code = isnan(from_zero) ? zero : (int)fminf(fmaxf(from_zero + (float)zero, 0), 15);
        row[i / 2] = (char)(i % 2 ? (row[i / 2] & 15) | code << 4 : code);
    }
    bits |= (uint32_t)zero;
    memcpy(scale, &bits, sizeof(bits));
}

static void write_cache(const struct job *j, const struct rope_cache *to, int64_t slot, int64_t head, int64_t n,
                        const char *from, const float *x, bool is_v)
{
    const struct rope_args *a = j->a;
    const float *scale = is_v ? a->v_scale : a->k_scale;
    bool older = j->prob->v[ROPE_FORM] == ROPE_FORM_VLLM;
    float inverse =
        scale && !rope_token_scales(j->prob) ? 1 / scale[head * (is_v ? a->v_scale_stride : a->k_scale_stride)] : 1;
    int64_t page = j->prob->v[ROPE_PAGE], at = slot / page * to->block + slot % page * to->row + head * to->head;
    if (rope_token_scales(j->prob)) {
        const int *step = is_v ? a->v_scale_step : a->k_scale_step;
        int64_t place =
            slot / page * step[0] + slot % page * step[1] + head * (is_v ? a->v_scale_stride : a->k_scale_stride);
        write_scaled(j, (char *)to->data + at, (float *)(uintptr_t)scale + place, n, x);
        return;
    }
    int64_t chunk = is_v ? a->v_chunk : a->k_chunk;
    int64_t group = !older ? n : is_v ? 1 : rfg_format_elements(rope_cache_dtype(j->prob), 16);
    for (int64_t i = 0; i < n; i++) {
        int64_t place = at + (older ? i / group * chunk + i % group : i);
        if (j->cache) {
            double value = x[i] * inverse;
            j->cache->encode(j->cache, (char *)to->data + place, &value);
        } else {
            put(j, to->data, place, from, x, i, is_v || !rope_rotates(j->prob) || keeps(j, i));
        }
    }
}

static void run_token(void *ctx, int64_t token, int place, void *scratch)
{
    const struct job *j = ctx;
    const struct rope_args *a = j->a;
    float *x = scratch, *c = x + longest_head(j->prob), *s = c + a->r / 2;
    bool rotates = rope_rotates(j->prob), appends = rope_appends(j->prob), norm = j->prob->v[ROPE_NORM];
    int64_t slot = appends ? ((const int64_t *)a->slots)[token] : 0;
    bool kept = !appends || (slot >= 0 && slot < a->n_slots);
    (void)place;
    if (rotates)
        angles_of(j, token, c, s);
    for (int64_t h = 0; h < a->hq + (kept ? a->hkv : 0); h++) {
        bool is_q = h < a->hq;
        int64_t head = is_q ? h : h - a->hq;
        const char *from = read_head(j, is_q ? a->q : a->k, token, head, a->d, x);
        if (norm)
            normalise(j, is_q ? a->q_norm : a->k_norm, x);
        if (rotates)
            rotate(j, c, s, x);
        if (is_q || !appends)
            write_head(j, is_q ? a->q_out : a->k_out, token, head, from, x);
        else
            write_cache(j, &a->k_cache, slot, head, a->d, from, x, false);
    }
    for (int64_t h = 0; appends && kept && h < a->hkv; h++) {
        const char *from = read_head(j, a->v, token, h, a->dv, j->cache ? x : NULL);
        write_cache(j, &a->v_cache, slot, h, a->dv, from, x, true);
    }
}

static size_t cpu_workspace(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    (void)p;
    return (size_t)(dev->cu_count > 1 ? dev->cu_count : 1) * scratch_bytes(prob);
}

static void cpu_run(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, const void *kargs,
                    struct rfg_cpu_pool *pool)
{
    struct job j = { kargs, prob, NULL };
    double bytes, flops;
    (void)p;
    if (rope_cache_dtype(prob) && rope_cache_dtype(prob) != rope_dtype(prob))
        j.cache = rfg_format(rope_cache_dtype(prob));
    prob->op->cost(prob, &bytes, &flops);
    if (j.a->tokens)
        rfg_cpu_rows_run(dev, pool, j.a->tokens, bytes / j.a->tokens, j.a->workspace, scratch_bytes(prob), run_token,
                         &j);
}

#define VARIANT(op)                                                                                                    \
    const struct rfg_variant op##_cpu = {                                                                              \
        .name = #op "_cpu",                                                                                            \
        .kind = RFG_VARIANT_HOST,                                                                                      \
        .supports = rfg_cpu_plain_supports,                                                                            \
        .predict = rfg_cpu_plain_predict,                                                                              \
        .workspace = cpu_workspace,                                                                                    \
        .run = cpu_run,                                                                                                \
    }
VARIANT(rope);
VARIANT(kv_append);
VARIANT(rope_append);
