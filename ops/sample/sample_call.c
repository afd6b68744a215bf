/* SPDX-License-Identifier: MIT
 *
 * rfg_op_sample: what its tensors must be, and the problem of a call. */
#include <inttypes.h>

#include "dispatch/dispatch.h"
#include "ops/params.h"
#include "ops/tensors.h"
#include "sample.h"

#define FN       "rfg_op_sample"
#define BAD(...) rfg_fail(RFG_ERROR_INVALID_ARGUMENT, FN ": " __VA_ARGS__)

RFG_PARAMS_END(rfg_sample_params, reserved);

/* clang-format off */
enum {
    Y, LOGITS, SEED, OFFSET, TEMPERATURE, TOP_K, TOP_P, MIN_P, REPETITION, FREQUENCY, PRESENCE, BIAS, COUNTS,
    PROMPT, TENSORS
};
/* clang-format on */

enum { B = 1, V };
static const struct rfg_axis axes[] = { [B] = { "rows", 0, 0 }, [V] = { "tokens of the vocabulary", 1, SAMPLE_MAX_V } };

#define F32 RFG_DTYPE(F32)
#define I32 RFG_DTYPE(I32)
#define I64 RFG_DTYPE(I64)

static const struct rfg_tensor_rule rules[] = {
    { "logits", LOGITS, 0, 2, { B, V }, RFG_FLOAT_FORMATS },
    { "y", Y, RFG_OUT, 1, { B }, RFG_INDEX_FORMATS },
    { "seed", SEED, 0, 1, { B }, I64 },
    { "offset", OFFSET, 0, 1, { B }, I64 },
    { "temperature", TEMPERATURE, RFG_OPTIONAL, 1, { B }, F32 },
    { "top_k", TOP_K, RFG_OPTIONAL, 1, { B }, I32 },
    { "top_p", TOP_P, RFG_OPTIONAL, 1, { B }, F32 },
    { "min_p", MIN_P, RFG_OPTIONAL, 1, { B }, F32 },
    { "repetition", REPETITION, RFG_OPTIONAL, 1, { B }, F32 },
    { "frequency", FREQUENCY, RFG_OPTIONAL, 1, { B }, F32 },
    { "presence", PRESENCE, RFG_OPTIONAL, 1, { B }, F32 },
    { "bias", BIAS, RFG_OPTIONAL, 2, { B, V }, F32 },
    { "counts", COUNTS, RFG_OPTIONAL, 2, { B, V }, I32 },
    { "prompt", PROMPT, RFG_OPTIONAL, 2, { B, V }, RFG_DTYPE(I8) },
};

rfg_status rfg_op_sample(rfg_context *ctx, const rfg_tensor *y, const rfg_tensor *logits, const rfg_tensor *seed,
                         const rfg_tensor *offset, const rfg_sample_params *given, rfg_stream stream)
{
    rfg_sample_params p = RFG_SAMPLE_PARAMS_INIT;
    rfg_status st;
    if (!ctx)
        return BAD("ctx is NULL: must be a context");
    if ((st = RFG_TAKE_PARAMS(FN, rfg_sample_params, &p, given)))
        return st;
    if (p.order != RFG_SAMPLE_TOP_K_FIRST && p.order != RFG_SAMPLE_JOINT)
        return BAD("order is %d: must be RFG_SAMPLE_TOP_K_FIRST or RFG_SAMPLE_JOINT", (int)p.order);
    if (p.reserved)
        return BAD("reserved is %" PRId32 ": must be 0", p.reserved);
    const rfg_tensor *const all[] = {
        y,       logits,       seed,        offset,     p.temperature, p.top_k,  p.top_p,
        p.min_p, p.repetition, p.frequency, p.presence, p.bias,        p.counts, p.prompt
    };
    struct rfg_tensors t;
    const struct rfg_operand *o = t.o;
    rfg_tensors_begin(&t, FN, axes, all, TENSORS);
    if ((st = rfg_check_tensors(&t, rules, RFG_RULES(rules))) || rfg_size(&t, B) == 0 || (st = rfg_check_overlaps(&t)))
        return st;
    struct rfg_problem prob = { .op = &rfg_op_sample_desc,
                                .dtype = { (uint8_t)logits->dtype, (uint8_t)y->dtype },
                                .v = { [SAMPLE_B] = rfg_size(&t, B),
                                       [SAMPLE_V] = rfg_size(&t, V),
                                       [SAMPLE_TEMPERATURE] = p.temperature != NULL,
                                       [SAMPLE_TOP_K] = p.top_k != NULL,
                                       [SAMPLE_TOP_P] = p.top_p != NULL,
                                       [SAMPLE_MIN_P] = p.min_p != NULL,
                                       [SAMPLE_REPETITION] = p.repetition != NULL,
                                       [SAMPLE_FREQUENCY] = p.frequency != NULL,
                                       [SAMPLE_PRESENCE] = p.presence != NULL,
                                       [SAMPLE_BIAS] = p.bias != NULL,
                                       [SAMPLE_COUNTS] = p.counts != NULL,
                                       [SAMPLE_PROMPT] = p.prompt != NULL,
                                       [SAMPLE_LDX] = rfg_ld_key(&o[LOGITS]),
                                       [SAMPLE_ALIGN] = rfg_alignment(o[LOGITS].bits) } };
    prob.v[SAMPLE_JOINT] = p.order == RFG_SAMPLE_JOINT;
    struct sample_args a = { .logits = logits->data,
                             .y = y->data,
                             .seed = seed->data,
                             .offset = offset->data,
                             .temperature = rfg_data(&o[TEMPERATURE]),
                             .top_k = rfg_data(&o[TOP_K]),
                             .top_p = rfg_data(&o[TOP_P]),
                             .min_p = rfg_data(&o[MIN_P]),
                             .repetition = rfg_data(&o[REPETITION]),
                             .frequency = rfg_data(&o[FREQUENCY]),
                             .presence = rfg_data(&o[PRESENCE]),
                             .bias = rfg_data(&o[BIAS]),
                             .counts = rfg_data(&o[COUNTS]),
                             .prompt = rfg_data(&o[PROMPT]),
                             .b = (int)rfg_size(&t, B),
                             .v = (int)rfg_size(&t, V),
                             .joint = p.order == RFG_SAMPLE_JOINT,
                             .ldx = o[LOGITS].ld,
                             .ld_bias = o[BIAS].ld,
                             .ld_counts = o[COUNTS].ld,
                             .ld_prompt = o[PROMPT].ld };
    return rfg_dispatch(ctx, &prob, &a, stream);
}
