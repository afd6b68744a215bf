/* SPDX-License-Identifier: MIT
 *
 * rfg_op_dequantize: what it refuses, and the problem of a call. */
#include <inttypes.h>

#include "dispatch/dispatch.h"
#include "ops/params.h"
#include "dequantize.h"

#define FN       "rfg_op_dequantize"
#define BAD(...) rfg_fail(RFG_ERROR_INVALID_ARGUMENT, FN ": " __VA_ARGS__)

RFG_PARAMS_END(rfg_dequantize_params, group_cols);

rfg_status rfg_op_dequantize(rfg_context *ctx, const rfg_tensor *y, const rfg_tensor *q, const rfg_tensor *scale,
                             const rfg_dequantize_params *given, rfg_stream stream)
{
    rfg_dequantize_params p = RFG_DEQUANTIZE_PARAMS_INIT;
    struct rfg_operand oy, oq;
    struct dequantize_scale s;
    struct rfg_reason why;
    rfg_status st;
    if (!ctx)
        return BAD("ctx is NULL: must be a context");
    if ((st = RFG_TAKE_PARAMS(FN, rfg_dequantize_params, &p, given)))
        return st;
    if ((st = rfg_check_operand(&oq, FN, "q", q, 2, 2)) || (st = dequantize_check_scale(&s, FN, scale)) ||
        (st = rfg_check_operand(&oy, FN, "y", y, 2, 2)))
        return st;
    struct rfg_problem prob = { .op = &rfg_op_dequantize_desc,
                                .dtype = { (uint8_t)q->dtype, (uint8_t)scale->dtype, (uint8_t)y->dtype } };
    prob.v[DEQUANTIZE_M] = oy.rows;
    prob.v[DEQUANTIZE_N] = oy.cols;
    prob.v[DEQUANTIZE_GROUP_ROWS] = p.group_rows;
    prob.v[DEQUANTIZE_GROUP_COLS] = p.group_cols;
    if (!dequantize_rules(&prob, &why))
        return BAD("%s", why.text);
    if (oq.rows != oy.rows || oq.cols != oy.cols)
        return BAD("q is %" PRId64 " x %" PRId64 ": must be y's, %" PRId64 " x %" PRId64, oq.rows, oq.cols, oy.rows,
                   oy.cols);
    if ((st = dequantize_check_scales(&s, FN, &oy, p.group_rows, p.group_cols)))
        return st;
    if (oy.rows == 0 || oy.cols == 0)
        return RFG_OK;
    if ((st = rfg_check_overlap(FN, &oy, &oq, false)) || (st = rfg_check_overlap(FN, &oy, &s.o, false)))
        return st;

    prob.v[DEQUANTIZE_SCALE_COLUMNS] = s.columns;
    prob.v[DEQUANTIZE_LDQ] = oq.ld == oq.cols ? 0 : oq.ld;
    prob.v[DEQUANTIZE_LDY] = oy.ld == oy.cols ? 0 : oy.ld;
    prob.v[DEQUANTIZE_ALIGN] = rfg_alignment(oq.bits);
    prob.v[DEQUANTIZE_ALIGN_Y] = rfg_alignment(oy.bits);
    struct dequantize_args a = { .q = q->data,
                                 .scale = scale->data,
                                 .y = y->data,
                                 .m = (int)oy.rows,
                                 .n = (int)oy.cols,
                                 .ldq = oq.ld,
                                 .ldy = oy.ld,
                                 .scale_row = s.row,
                                 .scale_col = s.col };
    dequantize_set_chunks(&a, &prob);
    return rfg_dispatch(ctx, &prob, &a, stream);
}
