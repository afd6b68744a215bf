/* SPDX-License-Identifier: MIT
 *
 * moe_align on the cpu: a counting sort, by one thread. */
#include "align.h"
#include "ops/cpu/rows.h"

/* The expert of a token's slot; a->experts if it has none here. */
static int expert_of(const struct moe_align_args *a, int64_t t, int64_t slot)
{
    int id = a->ids[t * a->ldi + slot];
    if (id < 0 || id >= a->ids_end)
        return a->experts;
    if (a->map)
        id = a->map[id];
    return id < 0 || id >= a->experts ? a->experts : id;
}

/* Does an id stand for the token itself? */
static bool is_identity(const struct moe_align_args *a, int id)
{
    return id >= a->ids_end && id - a->ids_end < a->identity;
}

static int value_of(const struct moe_align_args *a, int64_t format, int64_t t, int64_t slot)
{
    return (int)(format == ALIGN_VLLM ? t * a->top + slot : format == ALIGN_AITER ? slot << 24 | t : t);
}

/* Rows that are padding. */
static void pad(const struct moe_align_args *a, int64_t format, int64_t from, int64_t to)
{
    int value = format == ALIGN_VLLM ? a->t * a->top : format == ALIGN_AITER ? a->top << 24 | a->t : -1;
    for (int64_t i = from; i < to; i++) {
        a->rows[i] = value;
        if (a->weights_out)
            a->weights_out[i] = 0;
    }
}

/* Writes what the format has of offsets, count, padding and block_experts, for an expert with n rows from `begin` on. Its
 * rows are filled in later. */
static void begin_segment(const struct moe_align_args *a, int64_t format, int e, int64_t begin, int64_t n, int64_t end)
{
    if (format == ALIGN_PLAIN)
        a->offsets[e] = (int)begin;
    if (format == ALIGN_MASKED)
        a->count[e] = (int)(n < a->n_rows ? n : a->n_rows);
    if (!ALIGN_PADS(format))
        return;
    pad(a, format, begin + n, end);
    if (format == ALIGN_CONTIGUOUS)
        for (int64_t i = begin; i < end; i++)
            a->block_experts[i] = i < begin + n ? e : -1;
    else
        for (int64_t b = begin / a->block; b < end / a->block; b++)
            a->block_experts[b] = e;
}

static void end_segments(const struct moe_align_args *a, int64_t format, int64_t tokens, int64_t end)
{
    if (format == ALIGN_PLAIN)
        a->offsets[a->experts] = (int)end;
    if (!ALIGN_PADS(format))
        return;
    pad(a, format, end, a->n_rows);
    for (int64_t b = format == ALIGN_CONTIGUOUS ? end : end / a->block; b < a->n_blocks; b++)
        a->block_experts[b] = -1;
    if (format != ALIGN_CONTIGUOUS)
        a->count[0] = (int)end;
    if (format == ALIGN_AITER)
        a->count[1] = (int)tokens;
}

static void cpu_run(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, const void *kargs,
                    struct rfg_cpu_pool *pool)
{
    const struct moe_align_args *a = kargs;
    int64_t format = prob->v[ALIGN_FORMAT], tokens = a->t, at = 0;
    int next[ALIGN_MAX_EXPERTS + 1] = { 0 }; /* how many of each expert, then where its next one goes */
    (void)dev, (void)p, (void)pool;
    if (a->tokens && *a->tokens < tokens)
        tokens = *a->tokens > 0 ? *a->tokens : 0;
    for (int64_t t = 0; t < tokens; t++)
        for (int slot = 0; slot < a->top; slot++)
            next[expert_of(a, t, slot)]++;
    for (int e = 0; e < a->experts; e++) {
        int64_t n = next[e], begin = format == ALIGN_MASKED ? (int64_t)e * a->n_rows : at;
        at = begin + ceil_div(n, a->block) * a->block;
        begin_segment(a, format, e, begin, n, at);
        next[e] = (int)begin;
    }
    end_segments(a, format, tokens, at);
    for (int64_t t = 0; t < a->t; t++)
        for (int slot = 0; slot < a->top; slot++) {
            int e = t < tokens ? expert_of(a, t, slot) : a->experts;
            int64_t place = next[e]++;
            bool there = e < a->experts && !(format == ALIGN_MASKED && place >= ((int64_t)e + 1) * a->n_rows);
            if (a->places)
                a->places[t * a->ldp + slot] = there ? (int)place
                                               : t < tokens && is_identity(a, a->ids[t * a->ldi + slot])
                                                   ? ALIGN_IDENTITY
                                                   : -1;
            if (!there)
                continue;
            a->rows[place] = value_of(a, format, t, slot);
            if (a->weights_out)
                a->weights_out[place] = a->weights[t * a->ldw + slot];
        }
}

const struct rfg_variant moe_align_cpu = {
    .name = "moe_align_cpu",
    .kind = RFG_VARIANT_HOST,
    .supports = rfg_cpu_plain_supports,
    .predict = rfg_cpu_plain_predict,
    .run = cpu_run,
};
