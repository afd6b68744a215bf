/* SPDX-License-Identifier: MIT
 *
 * rfg_op_dequantize: what its tensors must be, and the problem of a call, whose rules are
 * dequantize.c's. */
#include "dispatch/dispatch.h"
#include "ops/params.h"
#include "dequantize.h"

#define FN       "rfg_op_dequantize"
#define BAD(...) rfg_fail(RFG_ERROR_INVALID_ARGUMENT, FN ": " __VA_ARGS__)

RFG_PARAMS_END(rfg_dequantize_params, group_cols);

enum { Y, Q, SCALE, TENSORS };

enum { M = 1, N, SCALE_ROWS, SCALE_COLS };
static const struct rfg_axis axes[] = {
    [M] = { "rows", 0, 0 },
    [N] = { "columns", 0, 0 },
    [SCALE_ROWS] = { "rows", 0, 0 },
    [SCALE_COLS] = { "columns", 0, 0 },
};

static const struct rfg_tensor_rule rules[] = {
    { "q", Q, 0, 2, { M, N }, DEQUANTIZE_CODES | DEQUANTIZE_BLOCKS },
    { "y", Y, RFG_OUT, 2, { M, N }, RFG_FLOAT_FORMATS },
    { "scale", SCALE, RFG_EITHER_WAY, 2, { SCALE_ROWS, SCALE_COLS }, DEQUANTIZE_SCALES },
};

rfg_status rfg_op_dequantize(rfg_context *ctx, const rfg_tensor *y, const rfg_tensor *q, const rfg_tensor *scale,
                             const rfg_dequantize_params *given, rfg_stream stream)
{
    rfg_dequantize_params p = RFG_DEQUANTIZE_PARAMS_INIT;
    const rfg_tensor *const all[] = { y, q, scale };
    struct rfg_tensors t;
    const struct rfg_operand *o = t.o;
    rfg_status st;
    if (!ctx)
        return BAD("ctx is NULL: must be a context");
    if ((st = RFG_TAKE_PARAMS(FN, rfg_dequantize_params, &p, given)))
        return st;
    rfg_tensors_begin(&t, FN, axes, all, TENSORS);
    if ((st = rfg_check_tensors(&t, rules, RFG_RULES(rules))))
        return st;
    struct rfg_problem prob = { .op = &rfg_op_dequantize_desc,
                                .dtype = { (uint8_t)q->dtype, (uint8_t)scale->dtype, (uint8_t)y->dtype },
                                .v = { [DEQUANTIZE_M] = rfg_size(&t, M),
                                       [DEQUANTIZE_N] = rfg_size(&t, N),
                                       [DEQUANTIZE_GROUP_ROWS] = p.group_rows,
                                       [DEQUANTIZE_GROUP_COLS] = p.group_cols,
                                       [DEQUANTIZE_SCALE_COLUMNS] = t.turned != 0,
                                       [DEQUANTIZE_LDQ] = rfg_ld_key(&o[Q]),
                                       [DEQUANTIZE_LDY] = rfg_ld_key(&o[Y]),
                                       [DEQUANTIZE_ALIGN] = rfg_alignment(o[Q].bits),
                                       [DEQUANTIZE_ALIGN_Y] = rfg_alignment(o[Y].bits) } };
    if ((st = dequantize_check_scales(&t, SCALE, &prob, rfg_size(&t, M), rfg_size(&t, N), p.group_rows, p.group_cols)))
        return st;
    if (rfg_size(&t, M) == 0 || rfg_size(&t, N) == 0)
        return rfg_check_problem(FN, &prob);
    if ((st = rfg_check_overlaps(&t)))
        return st;
    struct dequantize_args a = { .q = q->data,
                                 .scale = scale->data,
                                 .y = y->data,
                                 .m = (int)rfg_size(&t, M),
                                 .n = (int)rfg_size(&t, N),
                                 .ldq = o[Q].ld,
                                 .ldy = o[Y].ld,
                                 .scale_row = rfg_row_stride(&t, SCALE),
                                 .scale_col = rfg_col_stride(&t, SCALE) };
    dequantize_set_chunks(&a, &prob);
    return rfg_dispatch(ctx, &prob, &a, stream);
}
