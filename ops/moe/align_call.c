/* SPDX-License-Identifier: MIT
 *
 * rfg_op_moe_align: what its tensors must be, and the problem of a call, whose rules are align.c's. */
#include <inttypes.h>

#include "dispatch/dispatch.h"
#include "ops/params.h"
#include "ops/tensors.h"
#include "align.h"

#define FN       "rfg_op_moe_align"
#define BAD(...) rfg_fail(RFG_ERROR_INVALID_ARGUMENT, FN ": " __VA_ARGS__)

RFG_PARAMS_END(rfg_moe_align_params, identity);

enum { IDS, ROWS, OFFSETS, BLOCK_EXPERTS, COUNT, WEIGHTS, WEIGHTS_OUT, PLACES, MAP, TOKENS, TENSORS };

enum { T = 1, TOP, E, ROW, BLOCKS, COUNTS, IDS_END, ONE };
static const struct rfg_axis axes[] = {
    [T] = { "tokens", 0, 0 },
    [TOP] = { "experts of a token", 1, ALIGN_MAX_TOP },
    [E] = { "params' experts", 1, 0 },
    [ROW] = { "size", 0, 0 },
    [BLOCKS] = { "the blocks of rows", 0, 0 },
    [COUNTS] = { "what experts and format make it", 0, 0 },
    [IDS_END] = { "experts", 1, 0 },
    [ONE] = { "", 1, 1 },
};

enum { MASKED = 1, HAS_OFFSETS = 2, HAS_BLOCKS = 4, HAS_COUNT = 8 };
#define I32 RFG_DTYPE(I32)
#define F32 RFG_DTYPE(F32)

/* clang-format off */
static const struct rfg_tensor_rule of_ids[] = {
    { "ids", IDS, 0, 2, { T, TOP }, I32 },
    { "rows", ROWS, RFG_OUT, 1, { ROW }, I32, .if_clear = MASKED },
    { "rows", ROWS, RFG_OUT | RFG_PACKED, 2, { E, ROW }, I32, .if_set = MASKED },
}, rules[] = {
    { "offsets", OFFSETS, RFG_OUT, 1, { E | RFG_PLUS_ONE }, I32, .if_set = HAS_OFFSETS },
    { "block_experts", BLOCK_EXPERTS, RFG_OUT, 1, { BLOCKS }, I32, .if_set = HAS_BLOCKS },
    { "count", COUNT, RFG_OUT, 1, { COUNTS }, I32, .if_set = HAS_COUNT },
    { "weights", WEIGHTS, RFG_OPTIONAL, 2, { T, TOP }, F32, .with = WEIGHTS_OUT + 1 },
    { "weights_out", WEIGHTS_OUT, RFG_OUT | RFG_OPTIONAL, 1, { ROW }, F32, .if_clear = MASKED },
    { "weights_out", WEIGHTS_OUT, RFG_OUT | RFG_PACKED | RFG_OPTIONAL, 2, { E, ROW }, F32, .if_set = MASKED },
    { "places", PLACES, RFG_OUT | RFG_OPTIONAL, 2, { T, TOP }, I32 },
    { "expert_map", MAP, RFG_OPTIONAL, 1, { IDS_END }, I32 },
    { "tokens", TOKENS, RFG_OPTIONAL, 1, { ONE }, I32 },
};
/* clang-format on */

static rfg_status check_scalars(const rfg_moe_align_params *p, struct rfg_problem *prob)
{
    if ((int)p->format < 0 || (int)p->format > ALIGN_MASKED)
        return BAD("format is %d: must be one of enum rfg_moe_format, 0 to %d", (int)p->format, ALIGN_MASKED);
    if (p->block < 0 || p->block > ALIGN_MAX_BLOCK)
        return BAD("block is %" PRId32 ": must be from 0 to %d", p->block, ALIGN_MAX_BLOCK);
    if (p->experts < 0 || p->experts > ALIGN_MAX_EXPERTS)
        return BAD("experts is %" PRId64 ": must be from 0 to %d", p->experts, ALIGN_MAX_EXPERTS);
    if (p->identity < 0 || p->identity > ALIGN_MAX_IDENTITY)
        return BAD("identity is %" PRId64 ": must be from 0 to %d", p->identity, ALIGN_MAX_IDENTITY);
    prob->v[ALIGN_IDENTITIES] = p->identity;
    prob->v[ALIGN_FORMAT] = p->format;
    prob->v[ALIGN_BLOCK] = p->block ? p->block : 1;
    prob->v[ALIGN_E] = p->experts ? p->experts : 1;
    return RFG_OK;
}

/* What a format hasn't. */
static rfg_status check_format(const struct rfg_tensors *t, const struct rfg_problem *prob)
{
    static const struct {
        const char *name;
        int slot, fact;
    } own[] = { { "offsets", OFFSETS, HAS_OFFSETS },
                { "block_experts", BLOCK_EXPERTS, HAS_BLOCKS },
                { "count", COUNT, HAS_COUNT } };
    for (int i = 0; i < 3; i++)
        if (t->o[own[i].slot].t && !(t->facts & (unsigned)own[i].fact))
            return BAD("%s is given: must be NULL with format %s", own[i].name,
                       align_format_names[prob->v[ALIGN_FORMAT]]);
    return RFG_OK;
}

static rfg_status check_tensors(struct rfg_tensors *t, struct rfg_problem *prob)
{
    int64_t *v = prob->v, format = v[ALIGN_FORMAT];
    const struct rfg_operand *o = t->o;
    rfg_status st;
    bool masked = format == ALIGN_MASKED;
    t->facts = (masked ? MASKED : 0) | (format == ALIGN_PLAIN ? HAS_OFFSETS : 0) |
               (ALIGN_PADS(format) ? HAS_BLOCKS : 0) | (align_counts(prob) ? HAS_COUNT : 0);
    rfg_set_axis(t, E, v[ALIGN_E]);
    if ((st = rfg_check_tensors(t, of_ids, RFG_RULES(of_ids))))
        return st;
    v[ALIGN_T] = rfg_size(t, T);
    v[ALIGN_TOP] = rfg_size(t, TOP);
    v[ALIGN_PLACES] = o[PLACES].t != NULL;
    if ((st = rfg_check_problem(FN, prob))) /* what the least is is not said before */
        return st;
    int64_t n = rfg_size(t, ROW), least = align_least_rows(prob);
    if (n < (masked ? v[ALIGN_T] > 0 : least))
        return BAD("rows has %" PRId64 " %s: must have at least %" PRId64 "%s", n, masked ? "columns" : "elements",
                   masked ? 1 : least, masked ? "" : ", the rows that ids may have");
    v[ALIGN_ROWS] = n == least ? 0 : n;
    if ((st = check_format(t, prob)))
        return st;
    rfg_set_axis(t, BLOCKS, align_blocks(prob));
    rfg_set_axis(t, COUNTS, align_counts(prob));
    if ((st = rfg_check_tensors(t, rules, RFG_RULES(rules))))
        return st;
    v[ALIGN_LDI] = rfg_ld_key(&o[IDS]);
    v[ALIGN_LDW] = rfg_ld_key(&o[WEIGHTS]);
    v[ALIGN_LDP] = rfg_ld_key(&o[PLACES]);
    v[ALIGN_MAP] = rfg_size(t, IDS_END);
    v[ALIGN_TOKENS] = o[TOKENS].t != NULL;
    v[ALIGN_WEIGHTS] = o[WEIGHTS].t != NULL;
    return rfg_check_overlaps(t);
}

rfg_status rfg_op_moe_align(rfg_context *ctx, const rfg_tensor *rows, const rfg_tensor *ids,
                            const rfg_moe_align_params *given, rfg_stream stream)
{
    rfg_moe_align_params p = RFG_MOE_ALIGN_PARAMS_INIT;
    struct rfg_problem prob = { .op = &rfg_op_moe_align_desc, .dtype = { RFG_I32, RFG_I32 } };
    rfg_status st;
    if (!ctx)
        return BAD("ctx is NULL: must be a context");
    if ((st = RFG_TAKE_PARAMS(FN, rfg_moe_align_params, &p, given)) || (st = check_scalars(&p, &prob)))
        return st;
    const rfg_tensor *const all[] = { ids,       rows,          p.offsets, p.block_experts, p.count,
                                      p.weights, p.weights_out, p.places,  p.expert_map,    p.tokens };
    struct rfg_tensors t;
    const struct rfg_operand *o = t.o;
    rfg_tensors_begin(&t, FN, axes, all, TENSORS);
    t.interleaved = true;
    if ((st = check_tensors(&t, &prob)))
        return st;
    struct moe_align_args a = { .ids = ids->data,
                                .map = rfg_data(&o[MAP]),
                                .tokens = rfg_data(&o[TOKENS]),
                                .weights = rfg_data(&o[WEIGHTS]),
                                .rows = rows->data,
                                .offsets = rfg_data(&o[OFFSETS]),
                                .block_experts = rfg_data(&o[BLOCK_EXPERTS]),
                                .count = rfg_data(&o[COUNT]),
                                .weights_out = rfg_data(&o[WEIGHTS_OUT]),
                                .places = rfg_data(&o[PLACES]),
                                .ldi = o[IDS].ld,
                                .ldw = o[WEIGHTS].t ? o[WEIGHTS].ld : prob.v[ALIGN_TOP],
                                .ldp = o[PLACES].t ? o[PLACES].ld : prob.v[ALIGN_TOP] };
    align_set_sizes(&a, &prob);
    return rfg_dispatch(ctx, &prob, &a, stream);
}
