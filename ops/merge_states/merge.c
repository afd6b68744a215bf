/* SPDX-License-Identifier: MIT
 *
 * The operator merge_states: its keys, rules and table. The public function is in call.c. */
#include "merge.h"

#include <inttypes.h>

#include "ops/operand.h"

#define MAX_CHUNKS (INT32_MAX - 4096) /* of 16 bytes: kernels count them in 32 bits */

static const char *const form_names[] = { "nth", "tnh", "nht", "mha" };

static const struct rfg_key merge_keys[MERGE_NKEYS] = {
    [MERGE_T] = { "T", RFG_KEY_SIZE, 0, 0, RFG_MAX_SIZE, NULL, "tokens" },
    [MERGE_H] = { "H", RFG_KEY_SIZE, 0, 0, RFG_MAX_SIZE, NULL, "heads" },
    [MERGE_D] = { "D", RFG_KEY_SIZE, 0, 1, RFG_MAX_SIZE, NULL, "elements of a head" },
    [MERGE_N] = { "n", RFG_KEY_SIZE, 0, 1, RFG_MERGE_MAX_STATES, NULL, "states" },
    [MERGE_LSE] = { "lse", RFG_KEY_LAYOUT, 0, 0, 1, NULL, "1: lse_out is written" },
    [MERGE_BASE2] = { "base2", RFG_KEY_LAYOUT, 0, 0, 1, NULL, "1: lse and lse_out are to base 2" },
    [MERGE_FORM] = { "form", RFG_KEY_LAYOUT, 0, 0, MERGE_MHA, form_names, "how tests lay the tensors out" },
    [MERGE_ALIGN] = { "align", RFG_KEY_LAYOUT, 16, 1, 16, NULL,
                      "bytes, up to 16, of which o's pointer and strides are multiples" },
    [MERGE_ALIGN_Y] = { "align_y", RFG_KEY_LAYOUT, 16, 1, 16, NULL,
                        "bytes, up to 16, of which out's pointer and strides are multiples" },
    [MERGE_OVERLAP] = RFG_KEY_OVERLAP,
};

static const struct rfg_op_operand merge_operands[] = {
    { "o", false, RFG_FORMAT_LISTED, 0, 0 },
    { "out", true, RFG_FORMAT_LISTED, 1, 0 },
    { "lse", false, RFG_FORMAT_ALWAYS, RFG_F32, 0 },
    { "lse_out", true, RFG_FORMAT_ALWAYS, RFG_F32, 0 },
};

static int64_t row_chunks(const struct rfg_problem *prob)
{
    return ceil_div(prob->v[MERGE_D], rfg_format_elements(prob->dtype[0], 16));
}

static bool merge_valid(const struct rfg_problem *prob, struct rfg_reason *why)
{
    const int64_t *v = prob->v;
    for (int i = 0; i < 2; i++)
        if (!rfg_dtype_is_float(prob->dtype[i]))
            return rfg_refuse(why, "dtype of %s is %s: must be bf16, f16 or f32", merge_operands[i].name,
                              rfg_dtype_name((rfg_dtype)prob->dtype[i]));
    int64_t rows = v[MERGE_T] * v[MERGE_H];
    if (rows > RFG_MAX_SIZE)
        return rfg_refuse(why, "T=%" PRId64 " H=%" PRId64 ": T H must be at most %d", v[MERGE_T], v[MERGE_H],
                          RFG_MAX_SIZE);
    if (rows * row_chunks(prob) > MAX_CHUNKS)
        return rfg_refuse(why,
                          "T=%" PRId64 " H=%" PRId64 " D=%" PRId64 ": 16 bytes of a state at a time are %" PRId64
                          ", must be at most %d",
                          v[MERGE_T], v[MERGE_H], v[MERGE_D], rows * row_chunks(prob), MAX_CHUNKS);
    for (int i = MERGE_ALIGN; i <= MERGE_ALIGN_Y; i++)
        if (v[i] & (v[i] - 1))
            return rfg_refuse(why, "%s=%" PRId64 ": must be a power of two", merge_keys[i].name, v[i]);
    return true;
}

static void merge_cost(const struct rfg_problem *prob, double *bytes, double *flops)
{
    const int64_t *v = prob->v;
    double rows = (double)v[MERGE_T] * (double)v[MERGE_H], n = (double)v[MERGE_N];
    *bytes = rows * (n * (double)(rfg_format_bytes(prob->dtype[0], v[MERGE_D]) + 4) +
                     (double)rfg_format_bytes(prob->dtype[1], v[MERGE_D]) + (v[MERGE_LSE] ? 4 : 0));
    *flops = 2 * rows * n * (double)v[MERGE_D];
}

void merge_set_sizes(struct merge_args *a, const struct rfg_problem *prob)
{
    const int64_t *v = prob->v;
    a->n = (int)v[MERGE_N];
    a->heads = (int)v[MERGE_H];
    a->d = (int)v[MERGE_D];
    a->rows = (unsigned)(v[MERGE_T] * v[MERGE_H]);
    a->row_chunks = (unsigned)row_chunks(prob);
    rfg_divisor(a->row_chunks, &a->mul, &a->shift);
    rfg_divisor((unsigned)a->heads, &a->head_mul, &a->head_shift);
    a->to_log2 = v[MERGE_BASE2] ? 1 : 1.4426950408889634f;
    a->from_log2 = v[MERGE_BASE2] ? 1 : 0.6931471805599453f;
}

/* ---- the table -------------------------------------------------------------------------------------------------- */

const struct rfg_op rfg_op_merge_states_desc = {
    .name = "merge_states",
    .id = 35,
    .n_in = 1,
    .n_out = 1,
    RFG_OPERANDS(merge_operands),
    .n_keys = MERGE_NKEYS,
    .keys = merge_keys,
    .column_key = { "T", "H", "D" },
    RFG_KARGS(struct merge_args),
    .valid = merge_valid,
    .cost = merge_cost,
};
