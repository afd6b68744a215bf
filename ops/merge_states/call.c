/* SPDX-License-Identifier: MIT
 *
 * rfg_op_merge_states: what its tensors must be, and the problem of a call. */
#include <inttypes.h>

#include "dispatch/dispatch.h"
#include "merge.h"
#include "ops/params.h"
#include "ops/tensors.h"

#define FN       "rfg_op_merge_states"
#define BAD(...) rfg_fail(RFG_ERROR_INVALID_ARGUMENT, FN ": " __VA_ARGS__)

RFG_PARAMS_END(rfg_merge_states_params, reserved);

enum { O, LSE, OUT, LSE_OUT, TENSORS };

enum { STATES = 1, TOKENS, HEADS, ELEMENTS };
static const struct rfg_axis axes[] = {
    [STATES] = { "states", 1, RFG_MERGE_MAX_STATES },
    [TOKENS] = { "tokens", 0, 0 },
    [HEADS] = { "heads", 0, 0 },
    [ELEMENTS] = { "elements of a head", 1, 0 },
};

#define F32 RFG_DTYPE(F32)
/* In the order of their slots. What o and out may be is the problem's to say. */
static const struct rfg_tensor_rule rules[] = {
    { "o",
      O,
      RFG_VIEW,
      4,
      { STATES, TOKENS, HEADS, ELEMENTS },
      (1u << RFG_DTYPE_COUNT) - 2 - RFG_DTYPE(I4) - RFG_DTYPE(E2M1) },
    { "lse", LSE, RFG_VIEW | RFG_ANY_LAST, 3, { STATES, TOKENS, HEADS }, F32 },
    { "out",
      OUT,
      RFG_VIEW | RFG_OUT,
      3,
      { TOKENS, HEADS, ELEMENTS },
      (1u << RFG_DTYPE_COUNT) - 2 - RFG_DTYPE(I4) - RFG_DTYPE(E2M1) },
    { "lse_out", LSE_OUT, RFG_VIEW | RFG_ANY_LAST | RFG_OUT | RFG_OPTIONAL, 2, { TOKENS, HEADS }, F32 },
};

/* Is out one of the states of o? Its elements aren't another state's: o's are distinct. */
static bool is_state(const struct rfg_operand *out, const struct rfg_operand *o)
{
    const rfg_tensor *t = o->t;
    uintptr_t step = (uintptr_t)(t->shape[0] > 1 ? t->strides[0] * rfg_format_bytes((int)t->dtype, 1) : 1);
    uintptr_t behind = out->begin - o->begin;
    bool is = out->begin >= o->begin && behind % step == 0 && behind / step < (uintptr_t)t->shape[0] &&
              out->t->dtype == t->dtype;
    for (int i = 0; is && i < 3; i++)
        is = t->shape[i + 1] == 1 || out->t->strides[i] == t->strides[i + 1];
    return is;
}

/* Out that is a state is compared with all but o, and lse_out with o, too. */
static rfg_status check_places(struct rfg_tensors *t)
{
    if (is_state(&t->o[OUT], &t->o[O])) {
        uintptr_t end = t->end[O];
        t->end[O] = t->begin[O];
        rfg_status st = rfg_check_overlaps(t);
        if (st)
            return st;
        t->end[O] = end;
        t->outs &= ~(1u << OUT);
    }
    return rfg_check_overlaps(t);
}

static struct merge_strides strides_of(const rfg_tensor *t, int token)
{
    return (struct merge_strides){ token ? t->strides[0] : 0, t->strides[token], t->strides[token + 1] };
}

rfg_status rfg_op_merge_states(rfg_context *ctx, const rfg_tensor *out, const rfg_tensor *o, const rfg_tensor *lse,
                               const rfg_merge_states_params *given, rfg_stream stream)
{
    rfg_merge_states_params p = RFG_MERGE_STATES_PARAMS_INIT;
    struct rfg_tensors t;
    rfg_status st;
    if (!ctx)
        return BAD("ctx is NULL: must be a context");
    if ((st = RFG_TAKE_PARAMS(FN, rfg_merge_states_params, &p, given)))
        return st;
    if (p.reserved)
        return BAD("reserved is %" PRId32 ": must be 0", p.reserved);
    const rfg_tensor *const all[] = { o, lse, out, p.lse_out };
    rfg_tensors_begin(&t, FN, axes, all, TENSORS);
    t.interleaved = true;
    if ((st = rfg_check_tensors(&t, rules, RFG_RULES(rules))) || (st = rfg_check_distinct(&t.o[O], FN)))
        return st;
    struct rfg_problem prob = { .op = &rfg_op_merge_states_desc, .dtype = { (uint8_t)o->dtype, (uint8_t)out->dtype } };
    prob.v[MERGE_T] = rfg_size(&t, TOKENS);
    prob.v[MERGE_H] = rfg_size(&t, HEADS);
    prob.v[MERGE_D] = rfg_size(&t, ELEMENTS);
    prob.v[MERGE_N] = rfg_size(&t, STATES);
    prob.v[MERGE_LSE] = p.lse_out != NULL;
    prob.v[MERGE_BASE2] = p.base2 != 0;
    prob.v[MERGE_ALIGN] = rfg_alignment(t.o[O].bits);
    prob.v[MERGE_ALIGN_Y] = rfg_alignment(t.o[OUT].bits);
    if ((st = rfg_check_problem(FN, &prob)))
        return st;
    if (rfg_size(&t, TOKENS) == 0 || rfg_size(&t, HEADS) == 0)
        return RFG_OK;
    if ((st = check_places(&t)))
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
