/* SPDX-License-Identifier: MIT
 *
 * The operator lora: its keys, rules and table. The public function is in call.c. */
#include "lora.h"

#include <inttypes.h>

#include "ops/operand.h"

static const char *const form_names[] = { "packed", "gaps" };

#define ALIGN(key, of)                                                                                                 \
    {                                                                                                                  \
        key, RFG_KEY_LAYOUT, 16, 1, 16, NULL, "bytes, up to 16, of which " of "'s pointer and strides are multiples"   \
    }
static const struct rfg_key lora_keys[LORA_NKEYS] = {
    [LORA_M] = { "M", RFG_KEY_SIZE, 0, 0, RFG_MAX_SIZE, NULL, "rows" },
    [LORA_N] = { "N", RFG_KEY_SIZE, 0, 0, RFG_MAX_SIZE, NULL, "columns of y" },
    [LORA_K] = { "K", RFG_KEY_SIZE, 0, 1, RFG_MAX_SIZE, NULL, "columns of x" },
    [LORA_RANK] = { "rank", RFG_KEY_SIZE, 0, 1, RFG_LORA_MAX_RANK, NULL, "rank of the adapters" },
    [LORA_ADAPTERS] = { "adapters", RFG_KEY_SIZE, 0, 0, RFG_MAX_SIZE, NULL, "adapters that there are" },
    [LORA_SEGMENTS] = { "segments", RFG_KEY_ATTR, 0, 0, RFG_MAX_SIZE - 1, NULL, "segments of rows; 0: an id a row" },
    [LORA_SCALES] = { "scales", RFG_KEY_LAYOUT, 0, 0, 1, NULL, "1: adapters have factors" },
    [LORA_RANKS] = { "ranks", RFG_KEY_LAYOUT, 0, 0, 1, NULL, "1: adapters have ranks" },
    [LORA_FORM] = { "form", RFG_KEY_LAYOUT, 0, 0, LORA_GAPS, form_names, "how tests lay the tensors out" },
    [LORA_ALIGN] = ALIGN("align", "x"),
    [LORA_ALIGN_A] = ALIGN("align_a", "a"),
    [LORA_ALIGN_B] = ALIGN("align_b", "b"),
    [LORA_ALIGN_Y] = ALIGN("align_y", "y"),
    [LORA_OVERLAP] = RFG_KEY_OVERLAP,
};

static const struct rfg_op_operand lora_operands[] = {
    { "x", false, RFG_FORMAT_LISTED, 0, 0 },
    { "y", true, RFG_FORMAT_LISTED, 1, 0 },
    { "a", false, RFG_FORMAT_AS, 0, 0 },
    { "b", false, RFG_FORMAT_AS, 0, 0 },
    { "ids", false, RFG_FORMAT_ALWAYS, RFG_I32, 0 },
    { "indptr", false, RFG_FORMAT_ALWAYS, RFG_I32, 0 },
    { "scales", false, RFG_FORMAT_ALWAYS, RFG_F32, 0 },
    { "ranks", false, RFG_FORMAT_ALWAYS, RFG_I32, 0 },
    { "y_in", false, RFG_FORMAT_AS, 1, 0 },
};

static bool lora_valid(const struct rfg_problem *prob, struct rfg_reason *why)
{
    const int64_t *v = prob->v;
    rfg_dtype x = (rfg_dtype)prob->dtype[0], y = (rfg_dtype)prob->dtype[1];
    if (x != RFG_BF16 && x != RFG_F16)
        return rfg_refuse(why, "dtype of x is %s: must be bf16 or f16", rfg_dtype_name(x));
    if (!rfg_dtype_is_float(y))
        return rfg_refuse(why, "dtype of y is %s: must be bf16, f16 or f32", rfg_dtype_name(y));
    for (int i = LORA_ALIGN; i <= LORA_ALIGN_Y; i++)
        if (v[i] & (v[i] - 1))
            return rfg_refuse(why, "%s=%" PRId64 ": must be a power of two", lora_keys[i].name, v[i]);
    return true;
}

/* Of all adapters that the rows can have; y is read and written. */
static void lora_cost(const struct rfg_problem *prob, double *bytes, double *flops)
{
    const int64_t *v = prob->v;
    int64_t lists = v[LORA_SEGMENTS] ? v[LORA_SEGMENTS] : v[LORA_M];
    double m = (double)v[LORA_M], n = (double)v[LORA_N], k = (double)v[LORA_K], rank = (double)v[LORA_RANK];
    double adapters = (double)(v[LORA_ADAPTERS] < lists ? v[LORA_ADAPTERS] : lists);
    *bytes = 2 * adapters * rank * (n + k) + 2 * m * k + 2 * m * (double)rfg_format_bytes(prob->dtype[1], v[LORA_N]) +
             4 * (double)lists;
    *flops = adapters ? 2 * m * rank * (n + k) : 0;
}

void lora_set_sizes(struct lora_args *a, const struct rfg_problem *prob)
{
    const int64_t *v = prob->v;
    a->m = (int)v[LORA_M];
    a->n = (int)v[LORA_N];
    a->k = (int)v[LORA_K];
    a->rank = (int)v[LORA_RANK];
    a->adapters = (int)v[LORA_ADAPTERS];
    a->segments = (int)v[LORA_SEGMENTS];
}

/* ---- the table -------------------------------------------------------------------------------------------------- */

const struct rfg_op rfg_op_lora_desc = {
    .name = "lora",
    .id = 36,
    .n_in = 1,
    .n_out = 1,
    RFG_OPERANDS(lora_operands),
    .n_keys = LORA_NKEYS,
    .keys = lora_keys,
    .column_key = { "M", "N", "K" },
    RFG_KARGS(struct lora_args),
    .valid = lora_valid,
    .cost = lora_cost,
};
