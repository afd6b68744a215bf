/* SPDX-License-Identifier: MIT
 *
 * rfg_op_argmax: what its tensors must be, and the problem of a call. */
#include "dispatch/dispatch.h"
#include "ops/tensors.h"
#include "argmax.h"

#define FN       "rfg_op_argmax"
#define BAD(...) rfg_fail(RFG_ERROR_INVALID_ARGUMENT, FN ": " __VA_ARGS__)

enum { Y, X, TENSORS };

enum { M = 1, V };
static const struct rfg_axis axes[] = { [M] = { "rows", 0, 0 }, [V] = { "values of a row", 1, 0 } };

static const struct rfg_tensor_rule rules[] = {
    { "x", X, 0, 2, { M, V }, RFG_FLOAT_FORMATS },
    { "y", Y, RFG_OUT, 1, { M }, RFG_INDEX_FORMATS },
};

rfg_status rfg_op_argmax(rfg_context *ctx, const rfg_tensor *y, const rfg_tensor *x, rfg_stream stream)
{
    const rfg_tensor *const all[] = { y, x };
    struct rfg_tensors t;
    const struct rfg_operand *o = t.o;
    rfg_status st;
    if (!ctx)
        return BAD("ctx is NULL: must be a context");
    rfg_tensors_begin(&t, FN, axes, all, TENSORS);
    if ((st = rfg_check_tensors(&t, rules, RFG_RULES(rules))) || rfg_size(&t, M) == 0 || (st = rfg_check_overlaps(&t)))
        return st;
    struct rfg_problem prob = { .op = &rfg_op_argmax_desc,
                                .dtype = { (uint8_t)x->dtype, (uint8_t)y->dtype },
                                .v = { [ARGMAX_M] = rfg_size(&t, M),
                                       [ARGMAX_V] = rfg_size(&t, V),
                                       [ARGMAX_LDX] = rfg_ld_key(&o[X]),
                                       [ARGMAX_ALIGN] = rfg_alignment(o[X].bits) } };
    struct argmax_args a = {
        .x = x->data, .y = y->data, .m = (int)rfg_size(&t, M), .v = (int)rfg_size(&t, V), .ldx = o[X].ld
    };
    return rfg_dispatch(ctx, &prob, &a, stream);
}
