/* SPDX-License-Identifier: MIT
 *
 * rfg_op_merge_states: what it refuses, and the problem of a call. */
#include <inttypes.h>

#include "dispatch/dispatch.h"
#include "merge.h"
#include "ops/params.h"
#include "ops/view.h"

#define FN       "rfg_op_merge_states"
#define BAD(...) rfg_fail(RFG_ERROR_INVALID_ARGUMENT, FN ": " __VA_ARGS__)

RFG_PARAMS_END(rfg_merge_states_params, reserved);

enum { O, LSE, OUT, LSE_OUT, TENSORS };

static const char *const size_names[] = { "o's states", "o's tokens", "o's heads", "o's elements of a head" };

/* Of the dimensions of o from `first` on, but for those behind v's last. */
static rfg_status check_sizes(const struct rfg_view *v, const rfg_tensor *o, int first)
{
    rfg_status st = RFG_OK;
    for (int i = 0; i < v->t->ndim && st == RFG_OK; i++)
        st = rfg_check_size(v, FN, i, o->shape[first + i], size_names[first + i]);
    return st;
}

static rfg_status check_tensors(const rfg_tensor *o, const rfg_tensor *lse, const rfg_tensor *out,
                                const rfg_tensor *lse_out, struct rfg_view v[TENSORS])
{
    rfg_status st;
    if ((st = rfg_check_view(&v[O], FN, "o", o, 4, true)) || (st = rfg_check_distinct(&v[O], FN)) ||
        (st = rfg_check_view(&v[LSE], FN, "lse", lse, 3, false)) || (st = rfg_check_dtype(&v[LSE], FN, RFG_F32, "")) ||
        (st = check_sizes(&v[LSE], o, 0)) || (st = rfg_check_view(&v[OUT], FN, "out", out, 3, true)) ||
        (st = rfg_check_distinct(&v[OUT], FN)) || (st = check_sizes(&v[OUT], o, 1)))
        return st;
    v[LSE_OUT] = (struct rfg_view){ .name = "lse_out" };
    if (lse_out && ((st = rfg_check_view(&v[LSE_OUT], FN, "lse_out", lse_out, 2, false)) ||
                    (st = rfg_check_dtype(&v[LSE_OUT], FN, RFG_F32, "")) ||
                    (st = rfg_check_distinct(&v[LSE_OUT], FN)) || (st = check_sizes(&v[LSE_OUT], o, 1))))
        return st;
    if (o->shape[0] < 1 || o->shape[0] > RFG_MERGE_MAX_STATES)
        return BAD("o has %" PRId64 " states: must be from 1 to %d", o->shape[0], RFG_MERGE_MAX_STATES);
    if (o->shape[3] < 1)
        return BAD("o has %" PRId64 " elements of a head: must be at least 1", o->shape[3]);
    return RFG_OK;
}

/* Is out one of the states of o? Its elements aren't another state's: o's are distinct. */
static bool is_state(const struct rfg_view *out, const struct rfg_view *o)
{
    const rfg_tensor *t = o->t;
    rfg_tensor state = {
        NULL, t->dtype, 3, { t->shape[1], t->shape[2], t->shape[3] }, { t->strides[1], t->strides[2], t->strides[3] }
    };
    struct rfg_view view = { .t = &state, .begin = out->begin };
    uintptr_t step = (uintptr_t)(t->shape[0] > 1 ? t->strides[0] * rfg_format_bytes((int)t->dtype, 1) : 1);
    uintptr_t behind = out->begin - o->begin;
    return out->begin >= o->begin && behind % step == 0 && behind / step < (uintptr_t)t->shape[0] &&
           rfg_view_same(out, &view);
}

static rfg_status check_places(const struct rfg_view v[TENSORS])
{
    rfg_status st;
    if (!is_state(&v[OUT], &v[O]) && (st = rfg_check_apart(&v[OUT], FN, &v[O], false)))
        return st;
    if ((st = rfg_check_apart(&v[OUT], FN, &v[LSE], false)) || v[LSE_OUT].begin == v[LSE_OUT].end)
        return st;
    if ((st = rfg_check_apart(&v[OUT], FN, &v[LSE_OUT], false)) ||
        (st = rfg_check_apart(&v[LSE_OUT], FN, &v[O], false)) ||
        (st = rfg_check_apart(&v[LSE_OUT], FN, &v[LSE], false)))
        return st;
    return RFG_OK;
}

static struct merge_strides strides_of(const rfg_tensor *t, int token)
{
    return (struct merge_strides){ token ? t->strides[0] : 0, t->strides[token], t->strides[token + 1] };
}

rfg_status rfg_op_merge_states(rfg_context *ctx, const rfg_tensor *out, const rfg_tensor *o, const rfg_tensor *lse,
                               const rfg_merge_states_params *given, rfg_stream stream)
{
    rfg_merge_states_params p = RFG_MERGE_STATES_PARAMS_INIT;
    struct rfg_view v[TENSORS];
    rfg_status st;
    if (!ctx)
        return BAD("ctx is NULL: must be a context");
    if ((st = RFG_TAKE_PARAMS(FN, rfg_merge_states_params, &p, given)))
        return st;
    if (p.reserved)
        return BAD("reserved is %" PRId32 ": must be 0", p.reserved);
    if ((st = check_tensors(o, lse, out, p.lse_out, v)))
        return st;
    struct rfg_problem prob = { .op = &rfg_op_merge_states_desc, .dtype = { (uint8_t)o->dtype, (uint8_t)out->dtype } };
    prob.v[MERGE_T] = o->shape[1];
    prob.v[MERGE_H] = o->shape[2];
    prob.v[MERGE_D] = o->shape[3];
    prob.v[MERGE_N] = o->shape[0];
    prob.v[MERGE_LSE] = p.lse_out != NULL;
    prob.v[MERGE_BASE2] = p.base2 != 0;
    prob.v[MERGE_ALIGN] = rfg_alignment(v[O].bits);
    prob.v[MERGE_ALIGN_Y] = rfg_alignment(v[OUT].bits);
    if ((st = rfg_check_problem(FN, &prob)))
        return st;
    if (o->shape[1] == 0 || o->shape[2] == 0)
        return RFG_OK;
    if ((st = check_places(v)))
        return st;
    struct merge_args a = { .o = o->data,
                            .lse = lse->data,
                            .out = out->data,
                            .lse_out = p.lse_out ? p.lse_out->data : NULL,
                            .by_o = strides_of(o, 1),
                            .by_lse = strides_of(lse, 1),
                            .by_out = strides_of(out, 0) };
    if (p.lse_out)
        a.by_lse_out = strides_of(p.lse_out, 0);
    merge_set_sizes(&a, &prob);
    return rfg_dispatch(ctx, &prob, &a, stream);
}
