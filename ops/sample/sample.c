/* SPDX-License-Identifier: MIT
 *
 * The operator sample: its keys, rules and table. The public function is in sample_call.c. */
#include "sample.h"

#include <inttypes.h>

#include "ops/operand.h"
#include "ops/params.h"

#define HAS(name, help)                                                                                                \
    {                                                                                                                  \
        name, RFG_KEY_ATTR, 0, 0, 1, NULL, help                                                                        \
    }
static const struct rfg_key sample_keys[SAMPLE_NKEYS] = {
    [SAMPLE_B] = { "B", RFG_KEY_SIZE, 0, 0, RFG_MAX_SIZE, NULL, "rows of logits" },
    [SAMPLE_V] = { "V", RFG_KEY_SIZE, 0, 1, SAMPLE_MAX_V, NULL, "columns of logits" },
    [SAMPLE_TEMPERATURE] = HAS("temperature", "1: rows have temperatures"),
    [SAMPLE_TOP_K] = HAS("top_k", "1: rows have a top-k"),
    [SAMPLE_TOP_P] = HAS("top_p", "1: rows have a top-p"),
    [SAMPLE_MIN_P] = HAS("min_p", "1: rows have a min-p"),
    [SAMPLE_REPETITION] = HAS("repetition", "1: rows have a repetition penalty"),
    [SAMPLE_FREQUENCY] = HAS("frequency", "1: rows have a frequency penalty"),
    [SAMPLE_PRESENCE] = HAS("presence", "1: rows have a presence penalty"),
    [SAMPLE_BIAS] = HAS("bias", "1: a bias is added to logits"),
    [SAMPLE_COUNTS] = HAS("counts", "1: there are counts of generated tokens"),
    [SAMPLE_PROMPT] = HAS("prompt", "1: there is a mask of the prompt's tokens"),
    [SAMPLE_JOINT] = HAS("joint", "1: top-p is of all tokens, not of what top-k left"),
    [SAMPLE_LDX] = { "ldx", RFG_KEY_LAYOUT, 0, 0, RFG_MAX_STRIDE, NULL, "row stride of logits in elements; 0: packed" },
    [SAMPLE_ALIGN] = { "align", RFG_KEY_LAYOUT, 16, 1, 16, NULL,
                       "bytes, up to 16, of which the logits' pointer and row stride are multiples" },
    [SAMPLE_OVERLAP] = RFG_KEY_OVERLAP,
};

static const struct rfg_op_operand sample_operands[] = {
    { "logits", false, RFG_FORMAT_LISTED, 0, 0 },
    { "y", true, RFG_FORMAT_LISTED, 1, 0 },
    { "seed", false, RFG_FORMAT_ALWAYS, RFG_I64, 0 },
    { "offset", false, RFG_FORMAT_ALWAYS, RFG_I64, 0 },
    { "temperature", false, RFG_FORMAT_ALWAYS, RFG_F32, 0 },
    { "top_k", false, RFG_FORMAT_ALWAYS, RFG_I32, 0 },
    { "top_p", false, RFG_FORMAT_ALWAYS, RFG_F32, 0 },
    { "min_p", false, RFG_FORMAT_ALWAYS, RFG_F32, 0 },
    { "repetition", false, RFG_FORMAT_ALWAYS, RFG_F32, 0 },
    { "frequency", false, RFG_FORMAT_ALWAYS, RFG_F32, 0 },
    { "presence", false, RFG_FORMAT_ALWAYS, RFG_F32, 0 },
    { "bias", false, RFG_FORMAT_ALWAYS, RFG_F32, 0 },
    { "counts", false, RFG_FORMAT_ALWAYS, RFG_I32, 0 },
    { "prompt", false, RFG_FORMAT_ALWAYS, RFG_I8, 0 },
};

static bool dtypes_valid(const uint8_t *d, struct rfg_reason *why)
{
    if (!rfg_dtype_is_float(d[0]))
        return rfg_refuse(why, "dtype of logits is %s: must be bf16, f16 or f32", rfg_dtype_name((rfg_dtype)d[0]));
    return d[1] == RFG_I32 || d[1] == RFG_I64 ||
           rfg_refuse(why, "dtype of y is %s: must be i32 or i64", rfg_dtype_name((rfg_dtype)d[1]));
}

static bool sample_valid(const struct rfg_problem *prob, struct rfg_reason *why)
{
    const int64_t *v = prob->v;
    if (!dtypes_valid(prob->dtype, why))
        return false;
    if (v[SAMPLE_LDX] && v[SAMPLE_LDX] < v[SAMPLE_V])
        return rfg_refuse(why, "ldx=%" PRId64 ": must be at least V=%" PRId64, v[SAMPLE_LDX], v[SAMPLE_V]);
    return !(v[SAMPLE_ALIGN] & (v[SAMPLE_ALIGN] - 1)) ||
           rfg_refuse(why, "align=%" PRId64 ": must be a power of two", v[SAMPLE_ALIGN]);
}

static void sample_cost(const struct rfg_problem *prob, double *bytes, double *flops)
{
    const int64_t *v = prob->v;
    double n = (double)v[SAMPLE_B] * (double)v[SAMPLE_V];
    *bytes = n * (double)(rfg_format_bytes(prob->dtype[0], 1) + 4 * v[SAMPLE_BIAS] + 4 * v[SAMPLE_COUNTS] +
                          v[SAMPLE_PROMPT]) +
             (double)v[SAMPLE_B] * (double)(16 + rfg_format_bytes(prob->dtype[1], 1));
    *flops = n * 20;
}

const struct rfg_op rfg_op_sample_desc = {
    .name = "sample",
    .id = 16,
    .n_in = 1,
    .n_out = 1,
    RFG_OPERANDS(sample_operands),
    .n_keys = SAMPLE_NKEYS,
    .keys = sample_keys,
    .column_key = { "B", "V", NULL },
    RFG_KARGS(struct sample_args),
    .valid = sample_valid,
    .cost = sample_cost,
};
