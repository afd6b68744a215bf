/* SPDX-License-Identifier: MIT
 *
 * The operator dequantize: its keys, rules and table. The public function is in dequantize_call.c. */
#include "dequantize.h"

#include <inttypes.h>

#include "ops/params.h"

#define MAX_CHUNKS (INT32_MAX - 4096) /* what a kernel counts in 32 bits, and more than a grid's last step */

static const struct rfg_key dequantize_keys[DEQUANTIZE_NKEYS] = {
    [DEQUANTIZE_M] = { "M", RFG_KEY_SIZE, 0, 0, RFG_MAX_SIZE, NULL, "rows" },
    [DEQUANTIZE_N] = { "N", RFG_KEY_SIZE, 0, 0, RFG_MAX_SIZE, NULL, "columns" },
    [DEQUANTIZE_GROUP_ROWS] = { "group_rows", RFG_KEY_ATTR, 0, 0, 1 << 30, NULL, "rows that share a scale; 0: all" },
    [DEQUANTIZE_GROUP_COLS] = { "group_cols", RFG_KEY_ATTR, 0, 0, 1 << 30, NULL, "columns that share a scale; 0: all" },
    [DEQUANTIZE_SCALE_COLUMNS] = { "scale_columns", RFG_KEY_LAYOUT, 0, 0, 1, NULL, "1: scales are column-major" },
    [DEQUANTIZE_LDQ] = { "ldq", RFG_KEY_LAYOUT, 0, 0, RFG_MAX_STRIDE, NULL, "row stride of q in elements; 0: packed" },
    [DEQUANTIZE_LDY] = { "ldy", RFG_KEY_LAYOUT, 0, 0, RFG_MAX_STRIDE, NULL, "row stride of y in elements; 0: packed" },
    [DEQUANTIZE_ALIGN] = { "align", RFG_KEY_LAYOUT, 16, 1, 16, NULL,
                           "bytes, up to 16, of which q's pointer and row stride are multiples" },
    [DEQUANTIZE_ALIGN_Y] = { "align_y", RFG_KEY_LAYOUT, 16, 1, 16, NULL,
                             "bytes, up to 16, of which y's pointer and row stride are multiples" },
    [DEQUANTIZE_OVERLAP] = RFG_KEY_OVERLAP,
};

static const struct rfg_op_operand dequantize_operands[] = {
    { "q", false, RFG_FORMAT_LISTED, 0, 0 },
    { "scale", false, RFG_FORMAT_LISTED, 1, 0 },
    { "y", true, RFG_FORMAT_LISTED, 2, 0 },
};

static bool rules_kept(const struct rfg_problem *prob, struct rfg_reason *why)
{
    const int64_t *v = prob->v, rows = v[DEQUANTIZE_GROUP_ROWS], cols = v[DEQUANTIZE_GROUP_COLS];
    const uint8_t *d = prob->dtype;
    if (!dequantize_is_code(d[0]) && !dequantize_is_blocks(d[0]))
        return rfg_refuse(why, "q is %s: must be e4m3, e4m3fnuz, e5m2, i8, e2m1, i4 or of blocks",
                          rfg_dtype_name((rfg_dtype)d[0]));
    if (d[1] != RFG_F32 && d[1] != RFG_E8M0)
        return rfg_refuse(why, "scale is %s: must be f32 or e8m0", rfg_dtype_name((rfg_dtype)d[1]));
    if (!rfg_dtype_is_float(d[2]))
        return rfg_refuse(why, "y is %s: must be bf16, f16 or f32", rfg_dtype_name((rfg_dtype)d[2]));
    if (rows < 0 || rows > 1 << 30 || (rows & (rows - 1)))
        return rfg_refuse(why, "group_rows is %" PRId64 ": must be 0 or a power of two up to 2^30", rows);
    if (cols < 0 || cols > 1 << 30 || (cols & (cols - 1)) || (cols && cols < DEQUANTIZE_CHUNK))
        return rfg_refuse(why, "group_cols is %" PRId64 ": must be 0 or a power of two from %d to 2^30", cols,
                          DEQUANTIZE_CHUNK);
    if (v[DEQUANTIZE_M] * ceil_div(v[DEQUANTIZE_N], DEQUANTIZE_CHUNK) >= MAX_CHUNKS)
        return rfg_refuse(why, "y is %" PRId64 " x %" PRId64 ": must be fewer than 2^31 - 4096 chunks of %d columns",
                          v[DEQUANTIZE_M], v[DEQUANTIZE_N], DEQUANTIZE_CHUNK);
    return true;
}

bool dequantize_layout_valid(const struct rfg_problem *prob, int first_ld, int first_align, struct rfg_reason *why)
{
    _Static_assert(DEQUANTIZE_N == 1, "N is not the second key");
    const struct rfg_key *key = prob->op->keys;
    const int64_t *v = prob->v;
    for (int i = first_ld; i < first_align; i++)
        if (v[i] && v[i] < v[DEQUANTIZE_N])
            return rfg_refuse(why, "%s=%" PRId64 ": less than N=%" PRId64, key[i].name, v[i], v[DEQUANTIZE_N]);
    for (int i = first_align; i < prob->op->n_keys - 1; i++)
        if (v[i] & (v[i] - 1))
            return rfg_refuse(why, "%s=%" PRId64 ": must be a power of two", key[i].name, v[i]);
    return true;
}

bool dequantize_blocks_valid(int dtype, int64_t n, int64_t ldq, struct rfg_reason *why)
{
    const struct rfg_format *f = rfg_format(dtype);
    return (n | ldq) % f->elements == 0 ||
           rfg_refuse(why, "N=%" PRId64 ", ldq=%" PRId64 " of %s: must be whole blocks of %d", n, ldq, f->name,
                      f->elements);
}

static bool dequantize_valid(const struct rfg_problem *prob, struct rfg_reason *why)
{
    return dequantize_layout_valid(prob, DEQUANTIZE_LDQ, DEQUANTIZE_ALIGN, why) && rules_kept(prob, why) &&
           dequantize_blocks_valid(prob->dtype[0], prob->v[DEQUANTIZE_N], prob->v[DEQUANTIZE_LDQ], why);
}

int64_t dequantize_scales(int64_t size, int64_t group)
{
    return group > 0 ? ceil_div(size, group) : 1;
}

static void dequantize_cost(const struct rfg_problem *prob, double *bytes, double *flops)
{
    const int64_t *v = prob->v;
    double scales = (double)dequantize_scales(v[DEQUANTIZE_M], v[DEQUANTIZE_GROUP_ROWS]) *
                    (double)dequantize_scales(v[DEQUANTIZE_N], v[DEQUANTIZE_GROUP_COLS]);
    double row =
        (double)(rfg_format_bytes(prob->dtype[0], v[DEQUANTIZE_N]) + rfg_format_bytes(prob->dtype[2], v[DEQUANTIZE_N]));
    *bytes = (double)v[DEQUANTIZE_M] * row + scales * (double)rfg_format_bytes(prob->dtype[1], 1);
    *flops = (double)v[DEQUANTIZE_M] * (double)v[DEQUANTIZE_N];
}

static unsigned shift_of(int64_t group)
{
    return group ? (unsigned)__builtin_ctzll((unsigned long long)group) : 31;
}

void dequantize_set_chunks(struct dequantize_args *a, const struct rfg_problem *prob)
{
    unsigned d = (unsigned)ceil_div(prob->v[DEQUANTIZE_N], DEQUANTIZE_CHUNK);
    a->row_shift = shift_of(prob->v[DEQUANTIZE_GROUP_ROWS]);
    a->col_shift = shift_of(prob->v[DEQUANTIZE_GROUP_COLS]);
    a->row_chunks = d;
    rfg_divisor(d, &a->mul, &a->shift);
}

rfg_status dequantize_check_scales(const struct rfg_tensors *t, int slot, const struct rfg_problem *prob, int64_t m,
                                   int64_t n, int64_t group_rows, int64_t group_cols)
{
    const struct rfg_operand *o = &t->o[slot];
    bool turned = t->turned >> slot & 1;
    int64_t rows = dequantize_scales(m, group_rows), cols = dequantize_scales(n, group_cols);
    int64_t have_rows = turned ? o->cols : o->rows, have_cols = turned ? o->rows : o->cols;
    if (have_rows == rows && have_cols == cols)
        return RFG_OK;
    rfg_status st = rfg_check_problem(t->fn, prob);
    return st ? st
              : rfg_fail(RFG_ERROR_INVALID_ARGUMENT,
                         "%s: scale is %" PRId64 " x %" PRId64 ": must be %" PRId64 " x %" PRId64
                         " (group_rows=%" PRId64 ", group_cols=%" PRId64 ")",
                         t->fn, have_rows, have_cols, rows, cols, group_rows, group_cols);
}

/* ---- the table -------------------------------------------------------------------------------------------------- */

const struct rfg_op rfg_op_dequantize_desc = {
    .name = "dequantize",
    .id = 17,
    .n_in = 2,
    .n_out = 1,
    RFG_OPERANDS(dequantize_operands),
    .n_keys = DEQUANTIZE_NKEYS,
    .keys = dequantize_keys,
    .column_key = { "M", "N", NULL },
    RFG_KARGS(struct dequantize_args),
    .valid = dequantize_valid,
    .cost = dequantize_cost,
};
