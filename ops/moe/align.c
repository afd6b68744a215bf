/* SPDX-License-Identifier: MIT
 *
 * The operator moe_align: its public function, argument rules and tables. Variants are in align_gpu.c and align_cpu.c.
 */
#include "align.h"

#include <inttypes.h>

#include "ops/params.h"
#include "ops/view.h"

#define FN       "rfg_op_moe_align"
#define BAD(...) rfg_fail(RFG_ERROR_INVALID_ARGUMENT, FN ": " __VA_ARGS__)

#define MAX_AITER_TOKENS ((1 << 24) - 1)

static const char *const format_names[] = { "plain", "vllm", "aiter", "contiguous", "masked" };

static const struct rfg_key align_keys[ALIGN_NKEYS] = {
    [ALIGN_T] = { "T", RFG_KEY_SIZE, 0, 0, RFG_MAX_SIZE, NULL, "tokens: rows of ids" },
    [ALIGN_TOP] = { "top", RFG_KEY_SIZE, 0, 1, ALIGN_MAX_TOP, NULL, "k, experts of a token: columns of ids" },
    [ALIGN_E] = { "E", RFG_KEY_SIZE, 0, 1, ALIGN_MAX_EXPERTS, NULL, "experts; with a map the local ones" },
    [ALIGN_MAP] = { "map", RFG_KEY_ATTR, 0, 0, RFG_MAX_SIZE, NULL, "entries of the expert map; 0: there is none" },
    [ALIGN_TOKENS] = { "tokens", RFG_KEY_ATTR, 0, 0, 1, NULL, "1: device memory says how many tokens count" },
    [ALIGN_WEIGHTS] = { "weights", RFG_KEY_ATTR, 0, 0, 1, NULL, "1: weights are sorted, too" },
    [ALIGN_PLACES] = { "places", RFG_KEY_ATTR, 0, 0, 1, NULL, "1: the row of each pair is written" },
    [ALIGN_FORMAT] = { "format", RFG_KEY_ATTR, 0, 0, ALIGN_MASKED, format_names, "what is written: rfg/moe.h" },
    [ALIGN_BLOCK] = { "block", RFG_KEY_ATTR, 1, 1, 1 << 16, NULL, "rows that segments are multiples of" },
    [ALIGN_ROWS] = { "rows", RFG_KEY_LAYOUT, 0, 0, RFG_MAX_SIZE, NULL,
                     "size of rows (masked: of an expert's); 0: the least that is enough (masked: T)" },
    [ALIGN_LDI] = { "ldi", RFG_KEY_LAYOUT, 0, 0, RFG_MAX_STRIDE, NULL,
                    "elements from a row of ids to the next; 0: they follow one another" },
    [ALIGN_LDW] = { "ldw", RFG_KEY_LAYOUT, 0, 0, RFG_MAX_STRIDE, NULL,
                    "elements from a row of weights to the next; 0: they follow one another" },
    [ALIGN_LDP] = { "ldp", RFG_KEY_LAYOUT, 0, 0, RFG_MAX_STRIDE, NULL,
                    "elements from a row of places to the next; 0: they follow one another" },
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
    if (!ALIGN_PADS(format) && v[ALIGN_BLOCK] != 1)
        return rfg_refuse(why, "block=%" PRId64 ": must be 1 with format=%s, which doesn't pad", v[ALIGN_BLOCK],
                          format_names[format]);
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

/* ---- the public function ---------------------------------------------------------------------------------------- */

RFG_PARAMS_END(rfg_moe_align_params, tokens);

enum { OFFSETS, BLOCK_EXPERTS, COUNT, WEIGHTS_OUT, PLACES, ROWS, OUTPUTS, IDS = OUTPUTS, WEIGHTS, MAP, TOKENS, ALL };

/* A tensor of [T,k], whose row stride may be its own: *key, which is 0 if it has none. */
static rfg_status check_pairs(struct rfg_view *view, const char *name, const rfg_tensor *t, rfg_dtype dtype,
                              const rfg_tensor *ids, int64_t *key)
{
    rfg_status st;
    if ((st = rfg_check_view(view, FN, name, t, 2, true)) || (st = rfg_check_dtype(view, FN, dtype, "")))
        return st;
    if (ids && ((st = rfg_check_size(view, FN, 0, ids->shape[0], "ids' tokens")) ||
                (st = rfg_check_size(view, FN, 1, ids->shape[1], "ids' columns"))))
        return st;
    int64_t ld = t->shape[0] > 1 ? t->strides[0] : t->shape[1];
    if (ld < t->shape[1] || ld > RFG_MAX_STRIDE)
        return BAD("%s has row stride %" PRId64 ": must be at least its %" PRId64 " columns and at most %d", name, ld,
                   t->shape[1], RFG_MAX_STRIDE);
    *key = ld == t->shape[1] ? 0 : ld;
    return RFG_OK;
}

/* rows, or weights_out, of its shape. */
static rfg_status check_rows(struct rfg_view *view, const char *name, const rfg_tensor *t, rfg_dtype dtype,
                             const struct rfg_problem *prob, const rfg_tensor *rows)
{
    bool masked = prob->v[ALIGN_FORMAT] == ALIGN_MASKED;
    rfg_status st;
    if ((st = rfg_check_view(view, FN, name, t, masked ? 2 : 1, true)) || (st = rfg_check_dtype(view, FN, dtype, "")))
        return st;
    if (masked && (st = rfg_check_size(view, FN, 0, prob->v[ALIGN_E], "params' experts")))
        return st;
    if (rows && (st = rfg_check_size(view, FN, masked, rows->shape[masked], "rows' size")))
        return st;
    if (masked && t->shape[0] > 1 && t->strides[0] != t->shape[1])
        return BAD("%s has row stride %" PRId64 ": must be its columns, %" PRId64, name, t->strides[0], t->shape[1]);
    return RFG_OK;
}

/* An operand that the format has, or has not. */
static rfg_status check_of_format(struct rfg_view *view, const char *name, const rfg_tensor *t, bool has, int64_t size,
                                  const struct rfg_problem *prob)
{
    if (!t == has)
        return BAD("%s is %s: must be %s with format %s", name, t ? "given" : "NULL", has ? "a tensor" : "NULL",
                   format_names[prob->v[ALIGN_FORMAT]]);
    return rfg_check_vector(view, FN, name, t, RFG_I32, size, "what rows, experts and format make it");
}

static rfg_status check_scalars(const rfg_moe_align_params *p, struct rfg_problem *prob)
{
    if (p->format < 0 || p->format > ALIGN_MASKED)
        return BAD("format is %" PRId32 ": must be one of enum rfg_moe_format, 0 to %d", p->format, ALIGN_MASKED);
    if (p->block < 0 || p->block > align_keys[ALIGN_BLOCK].max)
        return BAD("block is %" PRId32 ": must be from 0 to %" PRId64, p->block, align_keys[ALIGN_BLOCK].max);
    if (p->experts < 0 || p->experts > ALIGN_MAX_EXPERTS)
        return BAD("experts is %" PRId64 ": must be from 0 to %d", p->experts, ALIGN_MAX_EXPERTS);
    prob->v[ALIGN_FORMAT] = p->format;
    prob->v[ALIGN_BLOCK] = p->block ? p->block : 1;
    prob->v[ALIGN_E] = p->experts ? p->experts : 1;
    return RFG_OK;
}

static rfg_status check_tensors(const rfg_moe_align_params *p, const rfg_tensor *rows, const rfg_tensor *ids,
                                struct rfg_problem *prob, struct rfg_view *t)
{
    struct rfg_reason why;
    int64_t *v = prob->v;
    rfg_status st;
    if ((st = check_pairs(&t[IDS], "ids", ids, RFG_I32, NULL, &v[ALIGN_LDI])))
        return st;
    if (ids->shape[1] < 1 || ids->shape[1] > ALIGN_MAX_TOP)
        return BAD("ids has %" PRId64 " columns: must be from 1 to %d", ids->shape[1], ALIGN_MAX_TOP);
    v[ALIGN_T] = ids->shape[0];
    v[ALIGN_TOP] = ids->shape[1];
    if (!align_valid(prob, &why))
        return BAD("%s", why.text);
    if ((st = check_rows(&t[ROWS], "rows", rows, RFG_I32, prob, NULL)))
        return st;
    bool masked = v[ALIGN_FORMAT] == ALIGN_MASKED;
    int64_t n = rows->shape[masked], least = align_least_rows(prob);
    if (!masked && n < least)
        return BAD("rows has %" PRId64 " elements: must have at least %" PRId64 ", the rows that ids may have", n,
                   least);
    if (masked && n == 0 && v[ALIGN_T] > 0)
        return BAD("rows is %" PRId64 " x 0: must have a column", rows->shape[0]);
    v[ALIGN_ROWS] = n == least ? 0 : n;
    if (!align_valid(prob, &why))
        return BAD("%s", why.text);
    int64_t format = v[ALIGN_FORMAT], counts = align_counts(prob);
    if ((st = check_of_format(&t[OFFSETS], "offsets", p->offsets, format == ALIGN_PLAIN, v[ALIGN_E] + 1, prob)) ||
        (st = check_of_format(&t[COUNT], "count", p->count, counts > 0, counts, prob)) ||
        (st = check_of_format(&t[BLOCK_EXPERTS], "block_experts", p->block_experts, ALIGN_PADS(format),
                              align_blocks(prob), prob)))
        return st;
    if (!p->weights != !p->weights_out)
        return BAD("%s is NULL: weights and weights_out go together", p->weights ? "weights_out" : "weights");
    if (p->weights && ((st = check_pairs(&t[WEIGHTS], "weights", p->weights, RFG_F32, ids, &v[ALIGN_LDW])) ||
                       (st = check_rows(&t[WEIGHTS_OUT], "weights_out", p->weights_out, RFG_F32, prob, rows))))
        return st;
    if (p->places && (st = check_pairs(&t[PLACES], "places", p->places, RFG_I32, ids, &v[ALIGN_LDP])))
        return st;
    if (p->expert_map && ((st = rfg_check_view(&t[MAP], FN, "expert_map", p->expert_map, 1, true)) ||
                          (st = rfg_check_dtype(&t[MAP], FN, RFG_I32, ""))))
        return st;
    if (p->expert_map && p->expert_map->shape[0] == 0)
        return BAD("expert_map has 0 elements: must have at least 1");
    return rfg_check_vector(&t[TOKENS], FN, "tokens", p->tokens, RFG_I32, 1, "1");
}

rfg_status rfg_op_moe_align(rfg_context *ctx, const rfg_tensor *rows, const rfg_tensor *ids,
                            const rfg_moe_align_params *given, rfg_stream stream)
{
    rfg_moe_align_params p = RFG_MOE_ALIGN_PARAMS_INIT;
    struct rfg_problem prob = { .op = &rfg_op_moe_align_desc, .dtype = { RFG_I32, RFG_I32 } };
    struct rfg_view t[ALL] = { { 0 } };
    rfg_status st;
    if (!ctx)
        return BAD("ctx is NULL: must be a context");
    if ((st = RFG_TAKE_PARAMS(FN, rfg_moe_align_params, &p, given)) || (st = check_scalars(&p, &prob)) ||
        (st = check_tensors(&p, rows, ids, &prob, t)))
        return st;
    for (int out = 0; out < OUTPUTS; out++)
        for (int other = 0; other < ALL; other++)
            if (other != out && t[out].t && t[other].t && (st = rfg_check_apart(&t[out], FN, &t[other], false)))
                return st;

    prob.v[ALIGN_MAP] = p.expert_map ? p.expert_map->shape[0] : 0;
    prob.v[ALIGN_TOKENS] = p.tokens != NULL;
    prob.v[ALIGN_WEIGHTS] = p.weights != NULL;
    prob.v[ALIGN_PLACES] = p.places != NULL;
    struct moe_align_args a = { .ids = ids->data,
                                .map = p.expert_map ? p.expert_map->data : NULL,
                                .tokens = p.tokens ? p.tokens->data : NULL,
                                .weights = p.weights ? p.weights->data : NULL,
                                .rows = rows->data,
                                .offsets = p.offsets ? p.offsets->data : NULL,
                                .block_experts = p.block_experts ? p.block_experts->data : NULL,
                                .count = p.count ? p.count->data : NULL,
                                .weights_out = p.weights_out ? p.weights_out->data : NULL,
                                .places = p.places ? p.places->data : NULL,
                                .ldi = prob.v[ALIGN_LDI] ? prob.v[ALIGN_LDI] : prob.v[ALIGN_TOP],
                                .ldw = prob.v[ALIGN_LDW] ? prob.v[ALIGN_LDW] : prob.v[ALIGN_TOP],
                                .ldp = prob.v[ALIGN_LDP] ? prob.v[ALIGN_LDP] : prob.v[ALIGN_TOP] };
    align_set_sizes(&a, &prob);
    return rfg_dispatch(ctx, &prob, &a, stream);
}

static const struct rfg_variant *const align_variants[] = { &moe_align_experts, &moe_align_chunks, &moe_align_cpu };

const struct rfg_op rfg_op_moe_align_desc = {
    .name = "moe_align",
    .id = 32,
    .n_in = 1,
    .n_out = 1,
    .n_operands = sizeof(align_operands) / sizeof(align_operands[0]),
    .operands = align_operands,
    .n_keys = ALIGN_NKEYS,
    .keys = align_keys,
    .column_key = { "T", "E", "top" },
    .n_variants = sizeof(align_variants) / sizeof(align_variants[0]),
    .variants = align_variants,
    .kargs_size = sizeof(struct moe_align_args),
    .head = offsetof(struct moe_align_args, workspace),
    .valid = align_valid,
    .cost = align_cost,
};
