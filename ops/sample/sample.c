/* SPDX-License-Identifier: MIT
 *
 * The operator sample: its public function, argument rules and tables. Variants are in sample_gpu.c and sample_cpu.c.
 */
#include "sample.h"

#include <inttypes.h>

#include "ops/operand.h"
#include "ops/params.h"

#define FN       "rfg_op_sample"
#define BAD(...) rfg_fail(RFG_ERROR_INVALID_ARGUMENT, FN ": " __VA_ARGS__)

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
    [SAMPLE_LDX] = { "ldx", RFG_KEY_LAYOUT, 0, 0, RFG_MAX_STRIDE, NULL,
                     "elements from a row of logits to the next; 0: they follow one another" },
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

/* ---- the public function ---------------------------------------------------------------------------------------- */

RFG_PARAMS_END(rfg_sample_params, order);

/* An operand that is one value a row, or (cols >= 0) one a token; absent if it may be NULL. */
static rfg_status take(const char *name, const rfg_tensor *t, rfg_dtype dtype, int64_t rows, int64_t cols,
                       const struct rfg_operand *y, struct rfg_operand *o)
{
    rfg_status st;
    int dims = cols < 0 ? 1 : 2;
    if ((st = rfg_check_operand(o, FN, name, t, dims, dims)))
        return st;
    if (t->dtype != dtype)
        return BAD("dtype of %s is %s: must be %s", name, rfg_dtype_name(t->dtype), rfg_dtype_name(dtype));
    if (cols < 0 && o->cols != rows)
        return BAD("%s has %" PRId64 " elements: must have %" PRId64 ", one for each row of logits", name, o->cols,
                   rows);
    if (cols >= 0 && (o->rows != rows || o->cols != cols))
        return BAD("%s is %" PRId64 " x %" PRId64 ": must be as the logits, %" PRId64 " x %" PRId64, name, o->rows,
                   o->cols, rows, cols);
    return rows ? rfg_check_overlap(FN, y, o, false) : RFG_OK;
}

rfg_status rfg_op_sample(rfg_context *ctx, const rfg_tensor *y, const rfg_tensor *logits, const rfg_tensor *seed,
                         const rfg_tensor *offset, const rfg_sample_params *given, rfg_stream stream)
{
    rfg_sample_params p = RFG_SAMPLE_PARAMS_INIT;
    struct rfg_operand oy, ol, o;
    struct rfg_reason why;
    rfg_status st;
    if (!ctx)
        return BAD("ctx is NULL: must be a context");
    if ((st = RFG_TAKE_PARAMS(FN, rfg_sample_params, &p, given)))
        return st;
    if ((st = rfg_check_float_operand(&ol, FN, "logits", logits, 2, 2)) ||
        (st = rfg_check_operand(&oy, FN, "y", y, 1, 1)))
        return st;
    struct rfg_problem prob = { .op = &rfg_op_sample_desc, .dtype = { (uint8_t)logits->dtype, (uint8_t)y->dtype } };
    if (!dtypes_valid(prob.dtype, &why))
        return BAD("%s", why.text);
    if (oy.cols != ol.rows)
        return BAD("y has %" PRId64 " elements, logits are %" PRId64 " x %" PRId64 ": must be [B], [B,V]", oy.cols,
                   ol.rows, ol.cols);
    if (ol.cols < 1 || ol.cols > SAMPLE_MAX_V)
        return BAD("logits are %" PRId64 " x %" PRId64 ": V must be from 1 to %d", ol.rows, ol.cols, SAMPLE_MAX_V);
    if (p.order != RFG_SAMPLE_TOP_K_FIRST && p.order != RFG_SAMPLE_JOINT)
        return BAD("order is %" PRId64 ": must be RFG_SAMPLE_TOP_K_FIRST or RFG_SAMPLE_JOINT", p.order);
    struct sample_args a = { .logits = logits->data,
                             .y = y->data,
                             .b = (int)ol.rows,
                             .v = (int)ol.cols,
                             .joint = p.order == RFG_SAMPLE_JOINT,
                             .ldx = ol.ld };
    const struct {
        const char *name;
        const rfg_tensor *t;
        rfg_dtype dtype;
        bool wide;
        int key; /* -1: must be there */
        const void *data;
        long long *ld;
    } rest[] = {
        { "seed", seed, RFG_I64, false, -1, &a.seed, NULL },
        { "offset", offset, RFG_I64, false, -1, &a.offset, NULL },
        { "temperature", p.temperature, RFG_F32, false, SAMPLE_TEMPERATURE, &a.temperature, NULL },
        { "top_k", p.top_k, RFG_I32, false, SAMPLE_TOP_K, &a.top_k, NULL },
        { "top_p", p.top_p, RFG_F32, false, SAMPLE_TOP_P, &a.top_p, NULL },
        { "min_p", p.min_p, RFG_F32, false, SAMPLE_MIN_P, &a.min_p, NULL },
        { "repetition", p.repetition, RFG_F32, false, SAMPLE_REPETITION, &a.repetition, NULL },
        { "frequency", p.frequency, RFG_F32, false, SAMPLE_FREQUENCY, &a.frequency, NULL },
        { "presence", p.presence, RFG_F32, false, SAMPLE_PRESENCE, &a.presence, NULL },
        { "bias", p.bias, RFG_F32, true, SAMPLE_BIAS, &a.bias, &a.ld_bias },
        { "counts", p.counts, RFG_I32, true, SAMPLE_COUNTS, &a.counts, &a.ld_counts },
        { "prompt", p.prompt, RFG_I8, true, SAMPLE_PROMPT, &a.prompt, &a.ld_prompt },
    };
    if (ol.rows && (st = rfg_check_overlap(FN, &oy, &ol, false)))
        return st;
    for (size_t i = 0; i < sizeof(rest) / sizeof(rest[0]); i++) {
        if (!rest[i].t && rest[i].key >= 0)
            continue;
        if ((st = take(rest[i].name, rest[i].t, rest[i].dtype, ol.rows, rest[i].wide ? ol.cols : -1, &oy, &o)))
            return st;
        memcpy((void *)rest[i].data, &rest[i].t->data, sizeof(void *));
        if (rest[i].ld)
            *rest[i].ld = o.ld;
        if (rest[i].key >= 0)
            prob.v[rest[i].key] = 1;
    }
    if (ol.rows == 0)
        return RFG_OK;
    prob.v[SAMPLE_B] = ol.rows;
    prob.v[SAMPLE_V] = ol.cols;
    prob.v[SAMPLE_JOINT] = p.order == RFG_SAMPLE_JOINT;
    prob.v[SAMPLE_LDX] = ol.ld == ol.cols ? 0 : ol.ld;
    prob.v[SAMPLE_ALIGN] = rfg_alignment(ol.bits);
    return rfg_dispatch(ctx, &prob, &a, stream);
}

static const struct rfg_variant *const sample_variants[] = { &sample_split, &sample_rows, &sample_portable,
                                                             &sample_cpu };

const struct rfg_op rfg_op_sample_desc = {
    .name = "sample",
    .id = 16,
    .n_in = 1,
    .n_out = 1,
    .n_operands = sizeof(sample_operands) / sizeof(sample_operands[0]),
    .operands = sample_operands,
    .n_keys = SAMPLE_NKEYS,
    .keys = sample_keys,
    .column_key = { "B", "V", NULL },
    .n_variants = sizeof(sample_variants) / sizeof(sample_variants[0]),
    .variants = sample_variants,
    .kargs_size = sizeof(struct sample_args),
    .head = offsetof(struct sample_args, workspace),
    .valid = sample_valid,
    .cost = sample_cost,
};
