/* SPDX-License-Identifier: MIT
 *
 * rfg_op_argmax: what it refuses, and the problem of a call. */
#include <inttypes.h>

#include "dispatch/dispatch.h"
#include "ops/operand.h"
#include "argmax.h"

#define FN       "rfg_op_argmax"
#define BAD(...) rfg_fail(RFG_ERROR_INVALID_ARGUMENT, FN ": " __VA_ARGS__)

rfg_status rfg_op_argmax(rfg_context *ctx, const rfg_tensor *y, const rfg_tensor *x, rfg_stream stream)
{
    struct rfg_operand oy, ox;
    rfg_status st;
    if (!ctx)
        return BAD("ctx is NULL: must be a context");
    if ((st = rfg_check_float_operand(&ox, FN, "x", x, 2, 2)) || (st = rfg_check_operand(&oy, FN, "y", y, 1, 1)))
        return st;
    struct rfg_problem prob = { .op = &rfg_op_argmax_desc, .dtype = { (uint8_t)x->dtype, (uint8_t)y->dtype } };
    if ((st = rfg_check_problem(FN, &prob)))
        return st;
    if (oy.cols != ox.rows)
        return BAD("y has %" PRId64 " elements, x is %" PRId64 " x %" PRId64 ": must be [M], [M,V]", oy.cols, ox.rows,
                   ox.cols);
    if (ox.cols == 0)
        return BAD("x is %" PRId64 " x 0: must have a column", ox.rows);
    if (ox.rows == 0)
        return RFG_OK;
    if ((st = rfg_check_overlap(FN, &oy, &ox, false)))
        return st;

    prob.v[ARGMAX_M] = ox.rows;
    prob.v[ARGMAX_V] = ox.cols;
    prob.v[ARGMAX_LDX] = ox.ld == ox.cols ? 0 : ox.ld;
    prob.v[ARGMAX_ALIGN] = rfg_alignment(ox.bits);
    struct argmax_args a = { .x = x->data, .y = y->data, .m = (int)ox.rows, .v = (int)ox.cols, .ldx = ox.ld };
    return rfg_dispatch(ctx, &prob, &a, stream);
}
