/* SPDX-License-Identifier: MIT
 *
 * rfg_op_moe_align: what it refuses, and the problem of a call. */
#include <inttypes.h>

#include "dispatch/dispatch.h"
#include "ops/params.h"
#include "ops/view.h"
#include "align.h"

#define FN       "rfg_op_moe_align"
#define BAD(...) rfg_fail(RFG_ERROR_INVALID_ARGUMENT, FN ": " __VA_ARGS__)

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
                   align_format_names[prob->v[ALIGN_FORMAT]]);
    return rfg_check_vector(view, FN, name, t, RFG_I32, size, "what rows, experts and format make it");
}

static rfg_status check_scalars(const rfg_moe_align_params *p, struct rfg_problem *prob)
{
    if ((int)p->format < 0 || (int)p->format > ALIGN_MASKED)
        return BAD("format is %d: must be one of enum rfg_moe_format, 0 to %d", (int)p->format, ALIGN_MASKED);
    if (p->block < 0 || p->block > ALIGN_MAX_BLOCK)
        return BAD("block is %" PRId32 ": must be from 0 to %d", p->block, ALIGN_MAX_BLOCK);
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
    int64_t *v = prob->v;
    rfg_status st;
    if ((st = check_pairs(&t[IDS], "ids", ids, RFG_I32, NULL, &v[ALIGN_LDI])))
        return st;
    if (ids->shape[1] < 1 || ids->shape[1] > ALIGN_MAX_TOP)
        return BAD("ids has %" PRId64 " columns: must be from 1 to %d", ids->shape[1], ALIGN_MAX_TOP);
    v[ALIGN_T] = ids->shape[0];
    v[ALIGN_TOP] = ids->shape[1];
    if ((st = rfg_check_problem(FN, prob)))
        return st;
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
    if ((st = rfg_check_problem(FN, prob)))
        return st;
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
