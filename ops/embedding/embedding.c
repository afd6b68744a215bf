/* SPDX-License-Identifier: MIT
 *
 * The operator embedding: its public function, argument rules and tables. Variants are in gpu.c and cpu.c. */
#include "embedding.h"

#include <inttypes.h>
#include <math.h>

#include "ops/operand.h"
#include "ops/params.h"

#define FN       "rfg_op_embedding"
#define BAD(...) rfg_fail(RFG_ERROR_INVALID_ARGUMENT, FN ": " __VA_ARGS__)

static const struct rfg_key embedding_keys[EMBEDDING_NKEYS] = {
    [EMBEDDING_M] = { "M", RFG_KEY_SIZE, 0, 0, RFG_MAX_SIZE, NULL, "ids, rows of y" },
    [EMBEDDING_N] = { "N", RFG_KEY_SIZE, 0, 0, RFG_MAX_SIZE, NULL, "columns of y and the table" },
    [EMBEDDING_V] = { "V", RFG_KEY_SIZE, 0, 0, RFG_MAX_SIZE, NULL, "rows of the table" },
    [EMBEDDING_SCALED] = { "scaled", RFG_KEY_ATTR, 0, 0, 1, NULL, "1: rows are multiplied with a scale" },
    [EMBEDDING_LDT] = { "ldt", RFG_KEY_LAYOUT, 0, 0, RFG_MAX_STRIDE, NULL,
                        "elements from a row of the table to the next; 0: they follow one another" },
    [EMBEDDING_LDY] = { "ldy", RFG_KEY_LAYOUT, 0, 0, RFG_MAX_STRIDE, NULL,
                        "elements from a row of y to the next; 0: they follow one another" },
    [EMBEDDING_ALIGN] = { "align", RFG_KEY_LAYOUT, 16, 1, 16, NULL,
                          "bytes, up to 16, of which the table's pointer and row stride are multiples" },
    [EMBEDDING_ALIGN_Y] = { "align_y", RFG_KEY_LAYOUT, 16, 1, 16, NULL,
                            "bytes, up to 16, of which y's pointer and row stride are multiples" },
    [EMBEDDING_OVERLAP] = RFG_KEY_OVERLAP,
};

static const struct rfg_op_operand embedding_operands[] = {
    { "ids", false, RFG_FORMAT_LISTED, 0, 0 },
    { "table", false, RFG_FORMAT_LISTED, 1, 0 },
    { "y", true, RFG_FORMAT_LISTED, 2, 0 },
};

static bool dtypes_valid(const uint8_t *d, struct rfg_reason *why)
{
    if (d[0] != RFG_I32 && d[0] != RFG_I64)
        return rfg_refuse(why, "dtype of ids is %s: must be i32 or i64", rfg_dtype_name((rfg_dtype)d[0]));
    if (!rfg_dtype_is_float(d[1]))
        return rfg_refuse(why, "dtype of table is %s: must be bf16, f16 or f32", rfg_dtype_name((rfg_dtype)d[1]));
    return d[2] == d[1] || d[2] == RFG_F32 ||
           rfg_refuse(why, "dtype of y is %s: must be the table's, %s, or f32", rfg_dtype_name((rfg_dtype)d[2]),
                      rfg_dtype_name((rfg_dtype)d[1]));
}

static bool embedding_valid(const struct rfg_problem *prob, struct rfg_reason *why)
{
    const int64_t *v = prob->v;
    if (!dtypes_valid(prob->dtype, why))
        return false;
    for (int i = EMBEDDING_LDT; i <= EMBEDDING_LDY; i++)
        if (v[i] && v[i] < v[EMBEDDING_N])
            return rfg_refuse(why, "%s=%" PRId64 ": must be at least N=%" PRId64, embedding_keys[i].name, v[i],
                              v[EMBEDDING_N]);
    for (int i = EMBEDDING_ALIGN; i <= EMBEDDING_ALIGN_Y; i++)
        if (v[i] & (v[i] - 1))
            return rfg_refuse(why, "%s=%" PRId64 ": must be a power of two", embedding_keys[i].name, v[i]);
    return true;
}

static void embedding_cost(const struct rfg_problem *prob, double *bytes, double *flops)
{
    const int64_t *v = prob->v;
    double m = (double)v[EMBEDDING_M];
    *bytes = m * (double)(rfg_format_bytes(prob->dtype[0], 1) + rfg_format_bytes(prob->dtype[1], v[EMBEDDING_N]) +
                          rfg_format_bytes(prob->dtype[2], v[EMBEDDING_N]));
    *flops = m * (double)v[EMBEDDING_N]; /* moves: 0 would mean nothing to do */
}

void embedding_set_chunks(struct embedding_args *a, const struct rfg_problem *prob)
{
    unsigned d = (unsigned)ceil_div(prob->v[EMBEDDING_N], rfg_format_elements(prob->dtype[1], 16));
    a->row_chunks = d;
    rfg_divisor(d, &a->mul, &a->shift);
}

/* ---- the public function ---------------------------------------------------------------------------------------- */

RFG_PARAMS_END(rfg_embedding_params, first);

rfg_status rfg_op_embedding(rfg_context *ctx, const rfg_tensor *y, const rfg_tensor *ids, const rfg_tensor *table,
                            const rfg_embedding_params *given, rfg_stream stream)
{
    rfg_embedding_params p = RFG_EMBEDDING_PARAMS_INIT;
    struct rfg_operand oy, oi, ot;
    struct rfg_reason why;
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
    if (!dtypes_valid(prob.dtype, &why))
        return BAD("%s", why.text);
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

/* ---- the table -------------------------------------------------------------------------------------------------- */

static const struct rfg_variant *const embedding_variants[] = { &embedding_rows, &embedding_portable, &embedding_cpu };

const struct rfg_op rfg_op_embedding_desc = {
    .name = "embedding",
    .id = 11,
    .n_in = 2,
    .n_out = 1,
    .n_operands = sizeof(embedding_operands) / sizeof(embedding_operands[0]),
    .operands = embedding_operands,
    .n_keys = EMBEDDING_NKEYS,
    .keys = embedding_keys,
    .column_key = { "M", "N", "V" },
    .n_variants = sizeof(embedding_variants) / sizeof(embedding_variants[0]),
    .variants = embedding_variants,
    .kargs_size = sizeof(struct embedding_args),
    .head = offsetof(struct embedding_args, workspace),
    .valid = embedding_valid,
    .cost = embedding_cost,
};
