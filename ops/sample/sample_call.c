/* SPDX-License-Identifier: MIT
 *
 * rfg_op_sample: what it refuses, and the problem of a call. */
#include <inttypes.h>

#include "dispatch/dispatch.h"
#include "ops/operand.h"
#include "ops/params.h"
#include "sample.h"

#define FN       "rfg_op_sample"
#define BAD(...) rfg_fail(RFG_ERROR_INVALID_ARGUMENT, FN ": " __VA_ARGS__)

RFG_PARAMS_END(rfg_sample_params, reserved);

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
    rfg_status st;
    if (!ctx)
        return BAD("ctx is NULL: must be a context");
    if ((st = RFG_TAKE_PARAMS(FN, rfg_sample_params, &p, given)))
        return st;
    if ((st = rfg_check_float_operand(&ol, FN, "logits", logits, 2, 2)) ||
        (st = rfg_check_operand(&oy, FN, "y", y, 1, 1)))
        return st;
    struct rfg_problem prob = { .op = &rfg_op_sample_desc, .dtype = { (uint8_t)logits->dtype, (uint8_t)y->dtype } };
    if ((st = rfg_check_problem(FN, &prob)))
        return st;
    if (oy.cols != ol.rows)
        return BAD("y has %" PRId64 " elements, logits are %" PRId64 " x %" PRId64 ": must be [B], [B,V]", oy.cols,
                   ol.rows, ol.cols);
    if (ol.cols < 1 || ol.cols > SAMPLE_MAX_V)
        return BAD("logits are %" PRId64 " x %" PRId64 ": V must be from 1 to %d", ol.rows, ol.cols, SAMPLE_MAX_V);
    if (p.order != RFG_SAMPLE_TOP_K_FIRST && p.order != RFG_SAMPLE_JOINT)
        return BAD("order is %d: must be RFG_SAMPLE_TOP_K_FIRST or RFG_SAMPLE_JOINT", (int)p.order);
    if (p.reserved)
        return BAD("reserved is %" PRId32 ": must be 0", p.reserved);
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
