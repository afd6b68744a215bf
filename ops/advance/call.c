/* SPDX-License-Identifier: MIT
 *
 * rfg_op_advance: what its tensors must be, and the problem of a call, whose rules are advance.c's. */
#include <inttypes.h>

#include "dispatch/dispatch.h"
#include "ops/params.h"
#include "ops/tensors.h"
#include "advance.h"

#define FN       "rfg_op_advance"
#define BAD(...) rfg_fail(RFG_ERROR_INVALID_ARGUMENT, FN ": " __VA_ARGS__)

RFG_PARAMS_END(rfg_advance_params, spare_count);

enum { LENS, POSITIONS, SLOTS, COUNT, TABLE, ACCEPTED, ACTIVE, SPARE, TENSORS };

enum { B = 1, SQ, BLOCKS, SPARES, ONE };
static const struct rfg_axis axes[] = {
    [B] = { "sequences", 0, 0 },   [SQ] = { "tokens", 1, ADVANCE_MAX_TOKENS },
    [BLOCKS] = { "blocks", 1, 0 }, [SPARES] = { "blocks", 1, 0 },
    [ONE] = { "", 1, 1 },
};

enum { SEVERAL = 1, HAS_SPARE = 2 }; /* SEVERAL: positions (and slots) are [B,Sq] */
#define I32 RFG_DTYPE(I32)

/* clang-format off */
static const struct rfg_tensor_rule rules[] = {
    { "kv_lens", LENS, RFG_OUT, 1, { B }, I32 },
    { "positions", POSITIONS, RFG_OUT, 1, { B }, RFG_INDEX_FORMATS, .if_clear = SEVERAL },
    { "positions", POSITIONS, RFG_OUT | RFG_PACKED, 2, { B, SQ }, RFG_INDEX_FORMATS, .if_set = SEVERAL },
    { "slots", SLOTS, RFG_OUT | RFG_OPTIONAL, 1, { B }, RFG_DTYPE(I64), .if_clear = SEVERAL },
    { "slots", SLOTS, RFG_OUT | RFG_PACKED | RFG_OPTIONAL, 2, { B, SQ }, RFG_DTYPE(I64), .if_set = SEVERAL },
    { "block_table", TABLE, RFG_OPTIONAL, 2, { B, BLOCKS }, I32, .if_clear = HAS_SPARE },
    { "block_table", TABLE, RFG_OUT, 2, { B, BLOCKS }, I32, .if_set = HAS_SPARE },
    { "spare", SPARE, RFG_OPTIONAL, 1, { SPARES }, I32, .with = COUNT + 1 },
    { "spare_count", COUNT, RFG_OUT | RFG_OPTIONAL, 1, { ONE }, I32 },
    { "accepted", ACCEPTED, RFG_OPTIONAL, 1, { B }, I32 },
    { "active", ACTIVE, RFG_OPTIONAL, 1, { B }, I32 },
};
/* clang-format on */

rfg_status rfg_op_advance(rfg_context *ctx, const rfg_tensor *kv_lens, const rfg_tensor *positions,
                          const rfg_advance_params *given, rfg_stream stream)
{
    rfg_advance_params p = RFG_ADVANCE_PARAMS_INIT;
    rfg_status st;
    if (!ctx)
        return BAD("ctx is NULL: must be a context");
    if ((st = RFG_TAKE_PARAMS(FN, rfg_advance_params, &p, given)))
        return st;
    if (!p.block_table && (p.slots || p.spare || p.page))
        return BAD("block_table is NULL: must be a tensor, with %s", p.slots ? "slots" : p.spare ? "spare" : "page");
    if (p.page < 0 || p.page > ADVANCE_MAX_PAGE)
        return BAD("page is %" PRId64 ": must be from 0 to %d", p.page, ADVANCE_MAX_PAGE);
    const rfg_tensor *const all[] = { kv_lens,       positions,  p.slots,  p.spare_count,
                                      p.block_table, p.accepted, p.active, p.spare };
    struct rfg_tensors t;
    const struct rfg_operand *o = t.o;
    rfg_tensors_begin(&t, FN, axes, all, TENSORS);
    t.interleaved = true;
    t.facts = (positions && positions->ndim == 2 ? SEVERAL : 0) | (p.spare ? HAS_SPARE : 0);
    if ((st = rfg_check_tensors(&t, rules, RFG_RULES(rules))) || (st = rfg_check_overlaps(&t)))
        return st;

    struct rfg_problem prob = { .op = &rfg_op_advance_desc,
                                .dtype = { (uint8_t)kv_lens->dtype, (uint8_t)positions->dtype },
                                .v = { [ADVANCE_B] = rfg_size(&t, B),
                                       [ADVANCE_SQ] = t.facts & SEVERAL ? rfg_size(&t, SQ) : 1,
                                       [ADVANCE_BLOCKS] = rfg_size(&t, BLOCKS),
                                       [ADVANCE_PAGE] = p.page,
                                       [ADVANCE_SLOTS] = p.slots != NULL,
                                       [ADVANCE_ACCEPTED] = p.accepted != NULL,
                                       [ADVANCE_ACTIVE] = p.active != NULL,
                                       [ADVANCE_SPARE] = rfg_size(&t, SPARES),
                                       [ADVANCE_LDB] = rfg_ld_key(&o[TABLE]) } };
    if (prob.v[ADVANCE_B] == 0)
        return rfg_check_problem(FN, &prob);
    struct advance_args a = { .kv_lens = kv_lens->data,
                              .positions = positions->data,
                              .slots = rfg_data(&o[SLOTS]),
                              .accepted = rfg_data(&o[ACCEPTED]),
                              .active = rfg_data(&o[ACTIVE]),
                              .spare = rfg_data(&o[SPARE]),
                              .spare_count = rfg_data(&o[COUNT]) };
    advance_set_sizes(&a, &prob, p.block_table);
    return rfg_dispatch(ctx, &prob, &a, stream);
}
