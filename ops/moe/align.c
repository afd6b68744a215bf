/* SPDX-License-Identifier: MIT
 *
 * The operator moe_align: its keys, rules and table. The public function is in align_call.c. */
#include "align.h"

#include <inttypes.h>

#include "ops/params.h"
#include "ops/operand.h"

#define MAX_AITER_TOKENS ((1 << 24) - 1)

const char *const align_format_names[] = { "plain", "vllm", "aiter", "contiguous", "masked" };

static const struct rfg_key align_keys[ALIGN_NKEYS] = {
    [ALIGN_T] = { "T", RFG_KEY_SIZE, 0, 0, RFG_MAX_SIZE, NULL, "tokens: rows of ids" },
    [ALIGN_TOP] = { "top", RFG_KEY_SIZE, 0, 1, ALIGN_MAX_TOP, NULL, "k, experts of a token: columns of ids" },
    [ALIGN_E] = { "E", RFG_KEY_SIZE, 0, 1, ALIGN_MAX_EXPERTS, NULL, "experts; with a map the local ones" },
    [ALIGN_MAP] = { "map", RFG_KEY_ATTR, 0, 0, RFG_MAX_SIZE, NULL, "entries of the expert map; 0: there is none" },
    [ALIGN_TOKENS] = { "tokens", RFG_KEY_ATTR, 0, 0, 1, NULL, "1: device memory says how many tokens count" },
    [ALIGN_WEIGHTS] = { "weights", RFG_KEY_ATTR, 0, 0, 1, NULL, "1: weights are sorted, too" },
    [ALIGN_PLACES] = { "places", RFG_KEY_ATTR, 0, 0, 1, NULL, "1: the row of each pair is written" },
    [ALIGN_IDENTITIES] = { "identity", RFG_KEY_ATTR, 0, 0, ALIGN_MAX_IDENTITY, NULL,
                           "ids behind the experts' that stand for the token itself" },
    [ALIGN_FORMAT] = { "format", RFG_KEY_ATTR, 0, 0, ALIGN_MASKED, align_format_names, "what is written: rfg/moe.h" },
    [ALIGN_BLOCK] = { "block", RFG_KEY_ATTR, 1, 1, ALIGN_MAX_BLOCK, NULL, "rows that segments are multiples of" },
    [ALIGN_ROWS] = { "rows", RFG_KEY_LAYOUT, 0, 0, RFG_MAX_SIZE, NULL,
                     "size of rows (masked: of an expert's); 0: the least that is enough (masked: T)" },
    [ALIGN_LDI] = { "ldi", RFG_KEY_LAYOUT, 0, 0, RFG_MAX_STRIDE, NULL, "row stride of ids in elements; 0: packed" },
    [ALIGN_LDW] = { "ldw", RFG_KEY_LAYOUT, 0, 0, RFG_MAX_STRIDE, NULL, "row stride of weights in elements; 0: packed" },
    [ALIGN_LDP] = { "ldp", RFG_KEY_LAYOUT, 0, 0, RFG_MAX_STRIDE, NULL, "row stride of places in elements; 0: packed" },
    [ALIGN_OVERLAP] = RFG_KEY_OVERLAP,
};

static const struct rfg_op_operand align_operands[] = {
    { "ids", false, RFG_FORMAT_LISTED, 0, 0 },
    { "rows", true, RFG_FORMAT_LISTED, 1, 0 },
    { "offsets", true, RFG_FORMAT_ALWAYS, RFG_I32, 0 },
    { "block_experts", true, RFG_FORMAT_ALWAYS, RFG_I32, 0 },
    { "count", true, RFG_FORMAT_ALWAYS, RFG_I32, 0 },
    { "weights_out", true, RFG_FORMAT_ALWAYS, RFG_F32, 0 },
    { "places", true, RFG_FORMAT_ALWAYS, RFG_I32, 0 },
    { "weights", false, RFG_FORMAT_ALWAYS, RFG_F32, 0 },
    { "expert_map", false, RFG_FORMAT_ALWAYS, RFG_I32, 0 },
    { "tokens", false, RFG_FORMAT_ALWAYS, RFG_I32, 0 },
};

/* ---- sizes ------------------------------------------------------------------------------------------------------ */

int64_t align_least_rows(const struct rfg_problem *prob)
{
    const int64_t *v = prob->v;
    int64_t pairs = v[ALIGN_T] * v[ALIGN_TOP], block = v[ALIGN_BLOCK];
    if (v[ALIGN_FORMAT] == ALIGN_MASKED)
        return v[ALIGN_T];
    /* Each expert that has a row may be one row into a block. */
    int64_t most = pairs + (pairs < v[ALIGN_E] ? pairs : v[ALIGN_E]) * (block - 1);
    return most / block * block;
}

int64_t align_rows(const struct rfg_problem *prob)
{
    return prob->v[ALIGN_ROWS] ? prob->v[ALIGN_ROWS] : align_least_rows(prob);
}

int64_t align_blocks(const struct rfg_problem *prob)
{
    int64_t format = prob->v[ALIGN_FORMAT];
    if (!ALIGN_PADS(format))
        return 0;
    return format == ALIGN_CONTIGUOUS ? align_rows(prob) : ceil_div(align_rows(prob), prob->v[ALIGN_BLOCK]);
}

int64_t align_counts(const struct rfg_problem *prob)
{
    int64_t format = prob->v[ALIGN_FORMAT];
    return format == ALIGN_VLLM ? 1 : format == ALIGN_AITER ? 2 : format == ALIGN_MASKED ? prob->v[ALIGN_E] : 0;
}

void align_set_sizes(struct moe_align_args *a, const struct rfg_problem *prob)
{
    const int64_t *v = prob->v;
    a->t = (int)v[ALIGN_T];
    a->top = (int)v[ALIGN_TOP];
    a->experts = (int)v[ALIGN_E];
    a->ids_end = (int)(v[ALIGN_MAP] ? v[ALIGN_MAP] : v[ALIGN_E]);
    a->block = (int)v[ALIGN_BLOCK];
    a->n_rows = (int)align_rows(prob);
    a->n_blocks = (int)align_blocks(prob);
    a->bits = 32 - __builtin_clz((unsigned)a->experts);
    a->identity = (int)v[ALIGN_IDENTITIES];
    rfg_divisor((unsigned)a->top, &a->top_mul, &a->top_shift);
    rfg_divisor((unsigned)a->block, &a->block_mul, &a->block_shift);
}

/* What the problem says alone, and each key. */
static bool align_valid(const struct rfg_problem *prob, struct rfg_reason *why)
{
    const int64_t *v = prob->v;
    int64_t format = v[ALIGN_FORMAT], least;
    for (int i = 0; i < 2; i++)
        if (prob->dtype[i] != RFG_I32)
            return rfg_refuse(why, "dtype of %s is %s: must be i32", align_operands[i].name,
                              rfg_dtype_name((rfg_dtype)prob->dtype[i]));
    if (v[ALIGN_T] * v[ALIGN_TOP] > RFG_MAX_SIZE)
        return rfg_refuse(why, "T=%" PRId64 " top=%" PRId64 ": ids must be at most %d", v[ALIGN_T], v[ALIGN_TOP],
                          RFG_MAX_SIZE);
    if (v[ALIGN_IDENTITIES] && !v[ALIGN_PLACES])
        return rfg_refuse(why, "identity=%" PRId64 ": there must be places, which say it", v[ALIGN_IDENTITIES]);
    if (v[ALIGN_IDENTITIES] + v[ALIGN_MAP] > RFG_MAX_SIZE)
        return rfg_refuse(why, "identity=%" PRId64 " map=%" PRId64 ": ids must be at most %d", v[ALIGN_IDENTITIES],
                          v[ALIGN_MAP], RFG_MAX_SIZE);
    if (!ALIGN_PADS(format) && v[ALIGN_BLOCK] != 1)
        return rfg_refuse(why, "block=%" PRId64 ": must be 1 with format=%s, which doesn't pad", v[ALIGN_BLOCK],
                          align_format_names[format]);
    if (format == ALIGN_AITER && v[ALIGN_T] > MAX_AITER_TOKENS)
        return rfg_refuse(why, "T=%" PRId64 ": must be at most %d with format=aiter", v[ALIGN_T], MAX_AITER_TOKENS);
    if ((least = align_least_rows(prob)) > RFG_MAX_SIZE)
        return rfg_refuse(why,
                          "T=%" PRId64 " top=%" PRId64 " E=%" PRId64 " block=%" PRId64 ": rows may be %" PRId64
                          ", must be at most %d",
                          v[ALIGN_T], v[ALIGN_TOP], v[ALIGN_E], v[ALIGN_BLOCK], least, RFG_MAX_SIZE);
    if (format == ALIGN_MASKED && align_rows(prob) * v[ALIGN_E] > RFG_MAX_SIZE)
        return rfg_refuse(why, "rows=%" PRId64 " E=%" PRId64 ": rows of all experts must be at most %d",
                          align_rows(prob), v[ALIGN_E], RFG_MAX_SIZE);
    if (format != ALIGN_MASKED && v[ALIGN_ROWS] && v[ALIGN_ROWS] < least)
        return rfg_refuse(why, "rows=%" PRId64 ": must be at least %" PRId64 ", what there may be", v[ALIGN_ROWS],
                          least);
    for (int i = ALIGN_LDI; i <= ALIGN_LDP; i++)
        if (v[i] && v[i] < v[ALIGN_TOP])
            return rfg_refuse(why, "%s=%" PRId64 ": must be at least top=%" PRId64, align_keys[i].name, v[i],
                              v[ALIGN_TOP]);
    return true;
}

static void align_cost(const struct rfg_problem *prob, double *bytes, double *flops)
{
    const int64_t *v = prob->v;
    double pairs = (double)v[ALIGN_T] * (double)v[ALIGN_TOP];
    double rows = ALIGN_PADS(v[ALIGN_FORMAT]) ? (double)align_rows(prob) : pairs;
    *bytes = 4 * (pairs + (rows + (v[ALIGN_WEIGHTS] ? pairs + rows : 0)) + (v[ALIGN_PLACES] ? pairs : 0) +
                  (double)(align_blocks(prob) + align_counts(prob) + v[ALIGN_MAP] + v[ALIGN_E]));
    *flops = pairs + 1; /* moves: 0 would mean nothing to do */
}

const struct rfg_op rfg_op_moe_align_desc = {
    .name = "moe_align",
    .id = 32,
    .n_in = 1,
    .n_out = 1,
    RFG_OPERANDS(align_operands),
    .n_keys = ALIGN_NKEYS,
    .keys = align_keys,
    .column_key = { "T", "E", "top" },
    RFG_KARGS(struct moe_align_args),
    .valid = align_valid,
    .cost = align_cost,
};
