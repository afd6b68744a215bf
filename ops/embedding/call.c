/* SPDX-License-Identifier: MIT
 *
 * rfg_op_embedding: what it refuses, and the problem of a call. */
#include <inttypes.h>
#include <math.h>

#include "dispatch/dispatch.h"
#include "ops/operand.h"
#include "ops/params.h"
#include "embedding.h"

#define FN       "rfg_op_embedding"
#define BAD(...) rfg_fail(RFG_ERROR_INVALID_ARGUMENT, FN ": " __VA_ARGS__)

RFG_PARAMS_END(rfg_embedding_params, first);

rfg_status rfg_op_embedding(rfg_context *ctx, const rfg_tensor *y, const rfg_tensor *ids, const rfg_tensor *table,
                            const rfg_embedding_params *given, rfg_stream stream)
{
    rfg_embedding_params p = RFG_EMBEDDING_PARAMS_INIT;
    struct rfg_operand oy, oi, ot;
    rfg_status st;
    if (!ctx)
        return BAD("ctx is NULL: must be a context");
    if ((st = RFG_TAKE_PARAMS(FN, rfg_embedding_params, &p, given)))
        return st;
    if ((st = rfg_check_operand(&oi, FN, "ids", ids, 1, 1)) ||
        (st = rfg_check_float_operand(&ot, FN, "table", table, 2, 2)) ||
        (st = rfg_check_float_operand(&oy, FN, "y", y, 2, 2)))
        return st;
    struct rfg_problem prob = { .op = &rfg_op_embedding_desc,
                                .dtype = { (uint8_t)ids->dtype, (uint8_t)table->dtype, (uint8_t)y->dtype } };
    if ((st = rfg_check_problem(FN, &prob)))
        return st;
    if (oy.rows != oi.cols || oy.cols != ot.cols)
        return BAD("y is %" PRId64 " x %" PRId64 ", ids %" PRId64 ", table %" PRId64 " x %" PRId64
                   ": must be [M,N], [M], [V,N]",
                   oy.rows, oy.cols, oi.cols, ot.rows, ot.cols);
    if (!isfinite(p.scale))
        return BAD("scale is %g: must be finite", (double)p.scale);
    if (oy.rows == 0 || oy.cols == 0)
        return RFG_OK;
    if ((st = rfg_check_overlap(FN, &oy, &oi, false)) || (st = rfg_check_overlap(FN, &oy, &ot, false)))
        return st;

    prob.v[EMBEDDING_M] = oy.rows;
    prob.v[EMBEDDING_N] = oy.cols;
    prob.v[EMBEDDING_V] = ot.rows;
    prob.v[EMBEDDING_SCALED] = p.scale != 0 && p.scale != 1;
    prob.v[EMBEDDING_LDT] = ot.ld == ot.cols ? 0 : ot.ld;
    prob.v[EMBEDDING_LDY] = oy.ld == oy.cols ? 0 : oy.ld;
    prob.v[EMBEDDING_ALIGN] = rfg_alignment(ot.bits);
    prob.v[EMBEDDING_ALIGN_Y] = rfg_alignment(oy.bits);
    struct embedding_args a = { .table = table->data,
                                .ids = ids->data,
                                .y = y->data,
                                .m = (int)oy.rows,
                                .n = (int)oy.cols,
                                .scale = p.scale,
                                .v = ot.rows,
                                .first = p.first,
                                .ldt = ot.ld,
                                .ldy = oy.ld };
    embedding_set_chunks(&a, &prob);
    return rfg_dispatch(ctx, &prob, &a, stream);
}
