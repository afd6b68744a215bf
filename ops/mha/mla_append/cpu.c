/* SPDX-License-Identifier: MIT
 *
 * mla_append on the cpu: tokens shared out among threads. */
#include <math.h>
#include <string.h>

#include "append.h"
#include "ops/cpu/pool.h"
#include "ops/cpu/rows.h"

struct job {
    const struct append_args *a;
    const struct rfg_problem *prob;
    int c, r;
};

static const char *element(const void *p, int64_t at)
{
    return (const char *)p + 2 * at;
}

static void load(const struct job *j, const char *from, int n, float *x)
{
    for (int i = 0; i < n; i++)
        x[i] = rfg_float_get(from, j->prob->dtype[0], i);
}

/* Cosines, then sines, of a token's R/2 pairs. */
static void angles_of(const struct job *j, int64_t token, float *t)
{
    const struct append_args *a = j->a;
    int64_t p = append_position_dtype(j->prob) == RFG_I64 ? ((const int64_t *)a->positions)[token]
                                                          : ((const int32_t *)a->positions)[token];
    for (int i = 0; i < j->r; i++)
        t[i] = p >= 0 && p < a->table_rows
                   ? rfg_float_get(a->cos_sin, append_table_dtype(j->prob), p * a->table_stride + i)
                   : NAN;
}

static void rotate(const struct job *j, const float *t, float *x)
{
    int half = j->r / 2;
    bool gptj = j->prob->v[APPEND_ROPE] == APPEND_ROPE_GPTJ;
    for (int i = 0; i < half; i++) {
        float *first = x + (gptj ? 2 * i : i), *second = x + (gptj ? 2 * i + 1 : i + half), u = *first, v = *second;
        *first = u * t[i] - v * t[half + i];
        *second = v * t[i] + u * t[half + i];
    }
}

static void normalise(const struct job *j, float *x)
{
    int n = append_normed(j->prob), dtype = append_weight_dtype(j->prob);
    float sum = 0;
    for (int i = 0; i < n; i++)
        sum += x[i] * x[i];
    float rms = 1 / sqrtf(sum / (float)n + j->a->eps);
    for (int i = 0; i < n; i++)
        x[i] = x[i] * rms * rfg_float_get(j->a->norm, dtype, i);
}

static void encode(rfg_dtype dtype, char *to, float x)
{
    double value = x;
    rfg_format(dtype)->encode(rfg_format(dtype), to, &value);
}

/* V32 and V4: the codes and scales of a row. */
static void write_groups(int format, char *row, char *scales, const float *x)
{
    for (int g = 0; g < MLA_SCALES(format); g++) {
        const float *of = x + g * MLA_GROUP(format);
        float largest = MLA_LEAST_LARGEST;
        uint32_t bits;
        for (int i = 0; i < MLA_GROUP(format); i++)
            largest = fmaxf(largest, fabsf(of[i])); /* of a number and a NaN the number */
        memcpy(&bits, &largest, sizeof(bits));
        bits = MLA_SCALE_CODE(bits);
        float scale = ldexpf(1, (int)bits - 127), inverse = ldexpf(1, 127 - (int)bits);
        for (int i = 0; i < MLA_GROUP(format); i++)
            encode(RFG_E4M3, row + g * MLA_GROUP(format) + i, of[i] * inverse);
        if (format == MLA_V4)
            scales[g] = (char)bits;
        else
            memcpy(scales + 4 * g, &scale, sizeof(scale));
    }
    if (format == MLA_V4)
        scales[MLA_SCALES(MLA_V4)] = 0;
}

/* Elements of 16 bits: as they were read, where nothing has changed them. */
static void write_halves(const struct job *j, char *to, int64_t at, const float *x, int n, const char *from, bool same)
{
    if (same && n)
        memcpy(to + at * 2, from, (size_t)n * 2);
    else
        for (int i = 0; i < n; i++)
            rfg_float_put(to, j->prob->dtype[0], at + i, x[i]);
}

static void write_row(const struct job *j, int64_t slot, const float *x, const char *latent, const char *k_rope)
{
    const struct append_args *a = j->a;
    const int64_t *v = j->prob->v;
    int format = (int)v[APPEND_FORMAT], kv = j->prob->dtype[1];
    int64_t page = v[APPEND_PAGE], at = slot % page;
    int64_t size = rfg_format_bytes(kv, 1);
    char *block = (char *)a->kv + slot / page * a->kv_block * size, *row = block + at * a->kv_row * size;
    bool kept = v[APPEND_NORM] == APPEND_NORM_NONE, rope_kept = !v[APPEND_ROPE] && v[APPEND_NORM] != APPEND_NORM_ALL;
    if (format != MLA_PLAIN) {
        write_groups(
            format, row,
            format == MLA_V4 ? block + MLA_V4_SCALES_AT(page) + at * MLA_V4_SCALE_BYTES : row + MLA_V32_SCALES_AT, x);
        write_halves(j, row + MLA_ROTATED_AT(format), 0, x + j->c, j->r, k_rope, rope_kept);
    } else if (size == 1) {
        float inverse = a->kv_scale ? 1 / *a->kv_scale : 1;
        for (int i = 0; i < j->c + j->r; i++)
            encode((rfg_dtype)kv, row + i, x[i] * inverse);
    } else {
        write_halves(j, row, 0, x, j->c, latent, kept);
        write_halves(j, row, j->c, x + j->c, j->r, k_rope, rope_kept);
    }
}

static void run_token(void *ctx, int64_t token, int place, void *scratch)
{
    const struct job *j = ctx;
    const struct append_args *a = j->a;
    float *x = scratch, *t = x + MLA_MAX_D;
    int64_t slot = ((const int64_t *)a->slots)[token];
    const char *latent = element(a->latent, token * a->latent_token);
    const char *k_rope = element(a->k_rope, token * a->k_rope_token);
    (void)place;
    if (j->prob->v[APPEND_ROPE])
        angles_of(j, token, t);
    for (int h = 0; h < a->hq; h++) {
        load(j, element(a->q, token * a->q_token + h * a->q_head), j->r, x);
        rotate(j, t, x);
        for (int i = 0; i < j->r; i++)
            rfg_float_put(a->q_out, j->prob->dtype[0], token * a->q_out_token + h * a->q_out_head + i, x[i]);
    }
    if (slot < 0 || slot >= a->n_slots)
        return;
    load(j, latent, j->c, x);
    load(j, k_rope, j->r, x + j->c);
    if (j->prob->v[APPEND_NORM])
        normalise(j, x);
    if (j->prob->v[APPEND_ROPE])
        rotate(j, t, x + j->c);
    write_row(j, slot, x, latent, k_rope);
}

static size_t scratch_bytes(void)
{
    return (MLA_MAX_D + 64) * sizeof(float);
}

static size_t workspace(const struct rfg_device *dev, const struct rfg_problem *prob, const int *none)
{
    (void)prob, (void)none;
    return (size_t)(dev->cu_count > 1 ? dev->cu_count : 1) * scratch_bytes();
}

static void run(const struct rfg_device *dev, const struct rfg_problem *prob, const int *none, const void *kargs,
                struct rfg_cpu_pool *pool)
{
    struct job j = { kargs, prob, append_latent(prob), (int)prob->v[APPEND_R] };
    double bytes, flops;
    (void)none;
    prob->op->cost(prob, &bytes, &flops);
    if (j.a->tokens)
        rfg_cpu_rows_run(dev, pool, j.a->tokens, bytes / j.a->tokens, j.a->workspace, scratch_bytes(), run_token, &j);
}

const struct rfg_variant mla_append_cpu = {
    .name = "mla_append_cpu",
    .kind = RFG_VARIANT_HOST,
    .supports = rfg_cpu_plain_supports,
    .predict = rfg_cpu_plain_predict,
    .workspace = workspace,
    .run = run,
};
