/* SPDX-License-Identifier: MIT
 *
 * rfg_op_advance: what it refuses, and the problem of a call. */
#include <inttypes.h>

#include "dispatch/dispatch.h"
#include "ops/params.h"
#include "ops/view.h"
#include "advance.h"

#define FN       "rfg_op_advance"
#define BAD(...) rfg_fail(RFG_ERROR_INVALID_ARGUMENT, FN ": " __VA_ARGS__)

RFG_PARAMS_END(rfg_advance_params, spare_count);

enum { LENS, POSITIONS, SLOTS, COUNT, TABLE, OUTPUTS, ACCEPTED = OUTPUTS, ACTIVE, SPARE, ALL };

/* [B] or [B,Sq], one row after the other. like: a tensor whose shape it has; or NULL. */
static rfg_status check_tokens(struct rfg_view *view, const char *name, const rfg_tensor *t, const rfg_tensor *like,
                               int64_t b)
{
    int dims = like ? like->ndim : t && t->ndim == 2 ? 2 : 1;
    rfg_status st = rfg_check_view(view, FN, name, t, dims, true);
    if (st == RFG_OK)
        st = rfg_check_size(view, FN, 0, b, "the sequences of kv_lens");
    if (st || dims == 1)
        return st;
    if (like && (st = rfg_check_size(view, FN, 1, like->shape[1], "positions' columns")))
        return st;
    if (t->shape[1] < 1 || t->shape[1] > ADVANCE_MAX_TOKENS)
        return BAD("%s has %" PRId64 " columns: must be from 1 to %d", name, t->shape[1], ADVANCE_MAX_TOKENS);
    return b <= 1 || t->strides[0] == t->shape[1]
               ? RFG_OK
               : BAD("%s has row stride %" PRId64 ": must be its columns, %" PRId64, name, t->strides[0], t->shape[1]);
}

static rfg_status check_table(const rfg_advance_params *p, struct rfg_problem *prob, struct rfg_view *view)
{
    const rfg_tensor *t = p->block_table;
    rfg_status st;
    if (!t && (p->slots || p->spare || p->page))
        return BAD("block_table is NULL: must be a tensor, with %s", p->slots ? "slots" : p->spare ? "spare" : "page");
    if (!t)
        return RFG_OK;
    if (p->page < 1 || p->page > ADVANCE_MAX_PAGE || p->page & (p->page - 1))
        return BAD("page is %" PRId64 ": must be a power of two, at most %d", p->page, ADVANCE_MAX_PAGE);
    if ((st = rfg_check_view(view, FN, "block_table", t, 2, true)) || (st = rfg_check_dtype(view, FN, RFG_I32, "")) ||
        (st = rfg_check_size(view, FN, 0, prob->v[ADVANCE_B], "the sequences of kv_lens")))
        return st;
    if (t->shape[1] == 0)
        return BAD("block_table has 0 columns: must have at least 1");
    int64_t ld = t->shape[0] > 1 ? t->strides[0] : t->shape[1];
    if (ld < t->shape[1] || ld > RFG_MAX_STRIDE)
        return BAD("block_table has row stride %" PRId64 ": must be at least its %" PRId64 " columns and at most %d",
                   ld, t->shape[1], RFG_MAX_STRIDE);
    prob->v[ADVANCE_BLOCKS] = t->shape[1];
    prob->v[ADVANCE_PAGE] = p->page;
    prob->v[ADVANCE_LDB] = ld == t->shape[1] ? 0 : ld;
    return RFG_OK;
}

static rfg_status check_spare(const rfg_advance_params *p, struct rfg_problem *prob, struct rfg_view *view)
{
    rfg_status st;
    if (!p->spare != !p->spare_count)
        return BAD("%s is NULL: spare and spare_count go together", p->spare ? "spare_count" : "spare");
    if (!p->spare)
        return RFG_OK;
    if ((st = rfg_check_view(&view[SPARE], FN, "spare", p->spare, 1, true)) ||
        (st = rfg_check_dtype(&view[SPARE], FN, RFG_I32, "")))
        return st;
    if (p->spare->shape[0] == 0)
        return BAD("spare has 0 elements: must have at least 1");
    prob->v[ADVANCE_SPARE] = p->spare->shape[0];
    return rfg_check_vector(&view[COUNT], FN, "spare_count", p->spare_count, RFG_I32, 1, "1");
}

static rfg_status check_tensors(const rfg_advance_params *p, const rfg_tensor *kv_lens, const rfg_tensor *positions,
                                struct rfg_problem *prob, struct rfg_view *t)
{
    rfg_status st;
    if ((st = rfg_check_view(&t[LENS], FN, "kv_lens", kv_lens, 1, true)))
        return st;
    int64_t b = prob->v[ADVANCE_B] = kv_lens->shape[0];
    if ((st = check_tokens(&t[POSITIONS], "positions", positions, NULL, b)))
        return st;
    prob->v[ADVANCE_SQ] = positions->ndim == 2 ? positions->shape[1] : 1;
    prob->dtype[0] = (uint8_t)kv_lens->dtype;
    prob->dtype[1] = (uint8_t)positions->dtype;
    if ((st = rfg_check_problem(FN, prob)))
        return st;
    if (p->slots && ((st = check_tokens(&t[SLOTS], "slots", p->slots, positions, b)) ||
                     (st = rfg_check_dtype(&t[SLOTS], FN, RFG_I64, ""))))
        return st;
    if ((st = check_table(p, prob, &t[TABLE])) || (st = check_spare(p, prob, t)) ||
        (st = rfg_check_vector(&t[ACCEPTED], FN, "accepted", p->accepted, RFG_I32, b, "the sequences of kv_lens")))
        return st;
    return rfg_check_vector(&t[ACTIVE], FN, "active", p->active, RFG_I32, b, "the sequences of kv_lens");
}

static void *data_of(const rfg_tensor *t)
{
    return t ? t->data : NULL;
}

rfg_status rfg_op_advance(rfg_context *ctx, const rfg_tensor *kv_lens, const rfg_tensor *positions,
                          const rfg_advance_params *given, rfg_stream stream)
{
    rfg_advance_params p = RFG_ADVANCE_PARAMS_INIT;
    struct rfg_problem prob = { .op = &rfg_op_advance_desc };
    struct rfg_view t[ALL] = { { 0 } };
    rfg_status st;
    if (!ctx)
        return BAD("ctx is NULL: must be a context");
    if ((st = RFG_TAKE_PARAMS(FN, rfg_advance_params, &p, given)) ||
        (st = check_tensors(&p, kv_lens, positions, &prob, t)))
        return st;
    for (int out = 0; out < (p.spare ? OUTPUTS : TABLE); out++)
        for (int other = 0; other < ALL; other++)
            if (other != out && t[out].t && t[other].t && (st = rfg_check_apart(&t[out], FN, &t[other], false)))
                return st;
    if (prob.v[ADVANCE_B] == 0)
        return RFG_OK;

    prob.v[ADVANCE_SLOTS] = p.slots != NULL;
    prob.v[ADVANCE_ACCEPTED] = p.accepted != NULL;
    prob.v[ADVANCE_ACTIVE] = p.active != NULL;
    struct advance_args a = { .kv_lens = kv_lens->data,
                              .positions = positions->data,
                              .slots = data_of(p.slots),
                              .accepted = data_of(p.accepted),
                              .active = data_of(p.active),
                              .spare = data_of(p.spare),
                              .spare_count = data_of(p.spare_count) };
    advance_set_sizes(&a, &prob, p.block_table);
    return rfg_dispatch(ctx, &prob, &a, stream);
}
