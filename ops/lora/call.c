/* SPDX-License-Identifier: MIT
 *
 * rfg_op_lora: what its tensors must be, and the problem of a call. */
#include <inttypes.h>
#include <math.h>

#include "dispatch/dispatch.h"
#include "lora.h"
#include "ops/params.h"
#include "ops/tensors.h"

#define FN       "rfg_op_lora"
#define BAD(...) rfg_fail(RFG_ERROR_INVALID_ARGUMENT, FN ": " __VA_ARGS__)

RFG_PARAMS_END(rfg_lora_params, reserved);

enum { X, A, B, IDS, INDPTR, SCALES, RANKS, Y, TENSORS };

enum { ROWS = 1, COLUMNS, INNER, RANK, ADAPTERS, SEGMENTS };
static const struct rfg_axis axes[] = {
    [ROWS] = { "rows", 0, 0 },         [COLUMNS] = { "columns", 0, 0 },
    [INNER] = { "columns", 1, 0 },     [RANK] = { "rank", 1, RFG_LORA_MAX_RANK },
    [ADAPTERS] = { "adapters", 0, 0 }, [SEGMENTS] = { "segments", 1, RFG_MAX_SIZE - 1 },
};

enum { SEGMENTED = 1 };
#define HALVES (RFG_DTYPE(F16) | RFG_DTYPE(BF16))
#define I32    RFG_DTYPE(I32)

/* clang-format off */
static const struct rfg_tensor_rule rules[] = {
    { "x", X, RFG_VIEW, 2, { ROWS, INNER }, HALVES },
    { "a", A, RFG_VIEW | RFG_LIKE_ALONE, 3, { ADAPTERS, RANK, INNER }, HALVES, .like = X + 1 },
    { "b", B, RFG_VIEW | RFG_LIKE_ALONE, 3, { ADAPTERS, COLUMNS, RANK }, HALVES, .like = X + 1 },
    { "indptr", INDPTR, RFG_OPTIONAL, 1, { SEGMENTS | RFG_PLUS_ONE }, I32 },
    { "ids", IDS, 0, 1, { ROWS }, I32, .if_clear = SEGMENTED },
    { "ids", IDS, 0, 1, { SEGMENTS }, I32, .if_set = SEGMENTED },
    { "scales", SCALES, RFG_OPTIONAL, 1, { ADAPTERS }, RFG_DTYPE(F32) },
    { "ranks", RANKS, RFG_OPTIONAL, 1, { ADAPTERS }, I32 },
    { "y", Y, RFG_VIEW | RFG_OUT, 2, { ROWS, COLUMNS }, HALVES | RFG_DTYPE(F32) },
};
/* clang-format on */

rfg_status rfg_op_lora(rfg_context *ctx, const rfg_tensor *y, const rfg_tensor *x, const rfg_tensor *a,
                       const rfg_tensor *b, const rfg_tensor *ids, const rfg_lora_params *given, rfg_stream stream)
{
    rfg_lora_params p = RFG_LORA_PARAMS_INIT;
    struct rfg_tensors t;
    rfg_status st;
    if (!ctx)
        return BAD("ctx is NULL: must be a context");
    if ((st = RFG_TAKE_PARAMS(FN, rfg_lora_params, &p, given)))
        return st;
    if (!isfinite(p.scale))
        return BAD("scale is %g: must be finite", (double)p.scale);
    if (p.reserved)
        return BAD("reserved is %" PRId32 ": must be 0", p.reserved);
    const rfg_tensor *const all[] = { x, a, b, ids, p.indptr, p.scales, p.ranks, y };
    rfg_tensors_begin(&t, FN, axes, all, TENSORS);
    t.facts = p.indptr ? SEGMENTED : 0;
    t.interleaved = true;
    if ((st = rfg_check_tensors(&t, rules, RFG_RULES(rules))) || (st = rfg_check_overlaps(&t)))
        return st;
    struct rfg_problem prob = { .op = &rfg_op_lora_desc, .dtype = { (uint8_t)x->dtype, (uint8_t)y->dtype } };
    prob.v[LORA_M] = rfg_size(&t, ROWS);
    prob.v[LORA_N] = rfg_size(&t, COLUMNS);
    prob.v[LORA_K] = rfg_size(&t, INNER);
    prob.v[LORA_RANK] = rfg_size(&t, RANK);
    prob.v[LORA_ADAPTERS] = rfg_size(&t, ADAPTERS);
    prob.v[LORA_SEGMENTS] = rfg_size(&t, SEGMENTS);
    prob.v[LORA_SCALES] = p.scales != NULL;
    prob.v[LORA_RANKS] = p.ranks != NULL;
    prob.v[LORA_ALIGN] = rfg_alignment(t.o[X].bits);
    prob.v[LORA_ALIGN_A] = rfg_alignment(t.o[A].bits);
    prob.v[LORA_ALIGN_B] = rfg_alignment(t.o[B].bits);
    prob.v[LORA_ALIGN_Y] = rfg_alignment(t.o[Y].bits);
    if (!prob.v[LORA_M] || !prob.v[LORA_N] || !prob.v[LORA_ADAPTERS])
        return rfg_check_problem(FN, &prob);
    struct lora_args args = { .y = y->data,
                              .x = x->data,
                              .a = a->data,
                              .b = b->data,
                              .ids = ids->data,
                              .indptr = rfg_data(&t.o[INDPTR]),
                              .scales = rfg_data(&t.o[SCALES]),
                              .ranks = rfg_data(&t.o[RANKS]),
                              .ldy = y->strides[0],
                              .ldx = x->strides[0],
                              .a_adapter = a->strides[0],
                              .a_row = a->strides[1],
                              .b_adapter = b->strides[0],
                              .b_row = b->strides[1],
                              .scale = p.scale == 0 ? 1 : p.scale };
    lora_set_sizes(&args, &prob);
    return rfg_dispatch(ctx, &prob, &args, stream);
}
