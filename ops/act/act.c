/* SPDX-License-Identifier: MIT
 *
 * The operators act_and_mul and act: their public functions, argument rules and tables. Variants are in gpu.c and
 * cpu.c. */
#include "act.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "ops/gates.h"
#include "ops/params.h"

static const char *const act_names[] = { "silu", "gelu", "gelu_tanh", "relu", "relu2", "swigluoai", "none" };

static const struct rfg_key act_keys[ACT_NKEYS] = {
    [ACT_M] = { "M", RFG_KEY_SIZE, 0, 0, RFG_MAX_SIZE, NULL, "rows" },
    [ACT_N] = { "N", RFG_KEY_SIZE, 0, 0, RFG_MAX_SIZE / 2, NULL,
                "columns of y" }, /* x may have twice as many columns */
    [ACT_ACT] = { "act", RFG_KEY_ATTR, RFG_ACT_SILU, RFG_ACT_SILU, RFG_ACT_NONE, act_names, "the activation" },
    [ACT_GATES] = RFG_KEY_GATES("how a and b lie in a row of x"),
    [ACT_SCALE] = { "scale", RFG_KEY_ATTR, 0, 0, RFG_SCALE_MX, RFG_SCALE_NAMES, "the quantised output's scales" },
    [ACT_ROUNDING] = RFG_KEY_ROUNDING("with scale=mx, how a scale follows from the largest"),
    [ACT_PLAIN] = { "plain", RFG_KEY_ATTR, 0, 0, 1, NULL, "1: with a scale, the plain output too" },
    [ACT_LDX] = { "ldx", RFG_KEY_LAYOUT, 0, 0, RFG_MAX_STRIDE, NULL,
                  "elements from a row of x to the next; 0: they follow one another" },
    [ACT_LDY] = { "ldy", RFG_KEY_LAYOUT, 0, 0, RFG_MAX_STRIDE, NULL,
                  "elements from a row of y and q to the next; 0: they follow one another" },
    [ACT_SCALE_COLUMNS] = { "scale_columns", RFG_KEY_LAYOUT, 0, 0, 1, NULL, "1: scales of groups are column-major" },
    [ACT_INPLACE] = { "inplace", RFG_KEY_LAYOUT, 0, 0, 1, NULL, "1: y is x" },
    [ACT_ALIGN] = { "align", RFG_KEY_LAYOUT, 16, 1, 16, NULL,
                    "bytes, up to 16, of which pointers and row strides of x are multiples" },
    [ACT_ALIGN_Y] = { "align_y", RFG_KEY_LAYOUT, 16, 1, 16, NULL,
                      "bytes, up to 16, of which pointers and row strides of the outputs are multiples" },
    [ACT_OVERLAP] = RFG_KEY_OVERLAP,
};

/* The list's output is q's; without q it says y's, which is x's. */
static const struct rfg_op_operand act_operands[] = {
    { "x", false, RFG_FORMAT_LISTED, 0, 0 },
    { "q", true, RFG_FORMAT_LISTED, 1, 0 },
    { "y", true, RFG_FORMAT_AS, 0, 0 },
    { "scale", true, RFG_FORMAT_OF_SCALE, ACT_SCALE, 0 },
};

static bool act_valid(const struct rfg_problem *prob, struct rfg_reason *why)
{
    const int64_t *v = prob->v;
    struct rfg_outputs_keys outputs = { v[ACT_N],        v[ACT_LDY],   v[ACT_SCALE],
                                        v[ACT_ROUNDING], v[ACT_PLAIN], v[ACT_SCALE_COLUMNS] };
    if (!rfg_outputs_valid(prob, &outputs, why))
        return false;
    if (!act_multiplies(prob) && (v[ACT_GATES] || v[ACT_ACT] == RFG_ACT_SWIGLUOAI))
        return rfg_refuse(why, "%s: only of act_and_mul", v[ACT_GATES] ? "gates=interleaved" : "act=swigluoai");
    if (v[ACT_INPLACE] && (act_multiplies(prob) || !act_is_plain(prob) || v[ACT_LDX] != v[ACT_LDY]))
        return rfg_refuse(why, "inplace=1: only of act with a plain output and ldy=ldx");
    if (v[ACT_LDX] && v[ACT_LDX] < act_x_cols(prob))
        return rfg_refuse(why, "ldx=%" PRId64 ": must be at least %" PRId64, v[ACT_LDX], act_x_cols(prob));
    if (v[ACT_LDY] && v[ACT_LDY] < v[ACT_N])
        return rfg_refuse(why, "ldy=%" PRId64 ": must be at least N=%" PRId64, v[ACT_LDY], v[ACT_N]);
    for (int i = ACT_ALIGN; i <= ACT_ALIGN_Y; i++)
        if (v[i] & (v[i] - 1))
            return rfg_refuse(why, "%s=%" PRId64 ": must be a power of two", act_keys[i].name, v[i]);
    return true;
}

static void act_cost(const struct rfg_problem *prob, double *bytes, double *flops)
{
    const int64_t *v = prob->v;
    double m = (double)v[ACT_M], row = (double)rfg_format_bytes(prob->dtype[0], act_x_cols(prob));
    *bytes = m * row + rfg_outputs_bytes(prob, v[ACT_M], v[ACT_N], v[ACT_SCALE], v[ACT_PLAIN]);
    *flops = 10 * m * (double)v[ACT_N];
}

void act_set_chunks(struct act_args *a, const struct rfg_problem *prob)
{
    unsigned vec = (unsigned)rfg_format_elements(prob->dtype[0], 16), d = (unsigned)(a->n - 1) / vec + 1;
    unsigned group = RFG_SCALE_COLUMNS / vec;
    if (prob->v[ACT_SCALE] == RFG_SCALE_GROUP)
        d = (d + group - 1) / group * group;
    a->row_chunks = d;
    rfg_divisor(d, &a->mul, &a->shift);
}

/* ---- the public functions --------------------------------------------------------------------------------------- */

RFG_PARAMS_END(rfg_act_params, quant);

static rfg_status run(const char *fn, const struct rfg_op *op, rfg_context *ctx, const rfg_tensor *y,
                      const rfg_tensor *x, const rfg_act_params *given, rfg_stream stream)
{
    rfg_act_params params = RFG_ACT_PARAMS_INIT;
    struct rfg_operand ox;
    struct rfg_outputs o;
    bool mul = op == &rfg_op_act_and_mul_desc;
    rfg_status st;
    if (!ctx)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s: ctx is NULL: must be a context", fn);
    if ((st = RFG_TAKE_PARAMS(fn, rfg_act_params, &params, given)))
        return st;
    if ((st = rfg_check_float_operand(&ox, fn, "x", x, 1, 3)))
        return st;
    if (ox.inner != 1)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT,
                        "%s: x has strides %" PRId64 " and %" PRId64 " over %" PRId64 " x %" PRId64
                        " rows: must be rows of one stride",
                        fn, x->strides[0], x->strides[1], x->shape[0], x->shape[1]);
    if (mul && ox.cols % 2)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s: x has %" PRId64 " columns: must be 2N, an even number", fn,
                        ox.cols);
    if ((unsigned)params.act > RFG_ACT_NONE)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s: act is %d: must be an rfg_act, from 0 to %d", fn,
                        (int)params.act, (int)RFG_ACT_NONE);
    if ((unsigned)params.gates > RFG_GATES_INTERLEAVED)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s: gates is %d: " RFG_GATES_RULE, fn, (int)params.gates);
    if (!mul && (params.act == RFG_ACT_SWIGLUOAI || params.gates))
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s: %s: only rfg_op_act_and_mul has it", fn,
                        params.gates ? "gates is RFG_GATES_INTERLEAVED" : "act is RFG_ACT_SWIGLUOAI");
    if (!isfinite(params.alpha) || !isfinite(params.limit) || params.limit < 0)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s: alpha is %g, limit %g: must be finite, limit 0 or above", fn,
                        (double)params.alpha, (double)params.limit);
    if (params.act != RFG_ACT_SWIGLUOAI && (params.alpha != 0 || params.limit != 0))
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s: alpha is %g, limit %g: must be 0, act is not swigluoai", fn,
                        (double)params.alpha, (double)params.limit);
    int64_t n = mul ? ox.cols / 2 : ox.cols;
    if (n > RFG_MAX_SIZE / 2)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s: x has %" PRId64 " columns: must be at most %d", fn, ox.cols,
                        RFG_MAX_SIZE / 2);
    if ((st = rfg_check_outputs(&o, fn, y, params.quant, &ox, n)))
        return st;
    if ((o.plain && o.y.inner != 1) || (o.quantised && o.q.inner != 1))
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT,
                        "%s: %s's first two dimensions must fold into one: rows of one stride", fn,
                        o.plain && o.y.inner != 1 ? "y" : "q");
    if (ox.rows == 0 || n == 0)
        return RFG_OK;
    if ((st = rfg_check_outputs_apart(&o, fn, &ox, !mul)) || (st = rfg_check_outputs_distinct(&o, fn)))
        return st;

    struct rfg_problem prob = { .op = op,
                                .dtype = { (uint8_t)x->dtype, (uint8_t)(o.quantised ? o.quant.q->dtype : x->dtype) } };
    int64_t ldy = o.plain ? o.y.ld : o.q.ld;
    prob.v[ACT_M] = ox.rows;
    prob.v[ACT_N] = n;
    prob.v[ACT_ACT] = params.act;
    prob.v[ACT_GATES] = params.gates;
    prob.v[ACT_SCALE] = o.quantised ? o.quant.kind : 0;
    prob.v[ACT_ROUNDING] = o.quant.rounding;
    prob.v[ACT_PLAIN] = o.quantised && y;
    prob.v[ACT_LDX] = ox.ld == ox.cols ? 0 : ox.ld;
    prob.v[ACT_LDY] = ldy == n ? 0 : ldy;
    prob.v[ACT_SCALE_COLUMNS] = o.scale_columns;
    prob.v[ACT_INPLACE] = o.plain && o.y.begin == ox.begin;
    prob.v[ACT_ALIGN] = rfg_alignment(ox.bits);
    prob.v[ACT_ALIGN_Y] = rfg_alignment(o.y.bits | o.q.bits);

    struct act_args a = { .x = x->data,
                          .y = o.plain ? y->data : NULL,
                          .q = o.quantised ? o.quant.q->data : NULL,
                          .scale = o.quantised ? o.quant.scale->data : NULL,
                          .ldx = ox.ld,
                          .ldy = o.y.ld,
                          .ldq = o.q.ld,
                          .scale_row = o.scale_row,
                          .scale_col = o.scale_col,
                          .alpha = params.alpha != 0 ? params.alpha : ACT_DEFAULT_ALPHA,
                          .limit = params.limit != 0 ? params.limit : ACT_DEFAULT_LIMIT,
                          .m = (int)ox.rows,
                          .n = (int)n };
    act_set_chunks(&a, &prob);
    return rfg_dispatch(ctx, &prob, &a, stream);
}

rfg_status rfg_op_act_and_mul(rfg_context *ctx, const rfg_tensor *y, const rfg_tensor *x, const rfg_act_params *params,
                              rfg_stream stream)
{
    return run("rfg_op_act_and_mul", &rfg_op_act_and_mul_desc, ctx, y, x, params, stream);
}

rfg_status rfg_op_act(rfg_context *ctx, const rfg_tensor *y, const rfg_tensor *x, const rfg_act_params *params,
                      rfg_stream stream)
{
    return run("rfg_op_act", &rfg_op_act_desc, ctx, y, x, params, stream);
}

/* ---- the tables ------------------------------------------------------------------------------------------------- */

/* Ties in the model go to the earlier one; the portable ones come last. */
#define VARIANTS(op)                                                                                                   \
    static const struct rfg_variant *const op##_variants[] = {                                                         \
        &op##_flat, &op##_rows, &op##_portable, &op##_cpu_avx512, &op##_cpu_avx2, &op##_cpu_portable,                  \
    }
VARIANTS(act_and_mul);
VARIANTS(act);

#define DESC(op_name, op_id)                                                                                           \
    const struct rfg_op rfg_op_##op_name##_desc = {                                                                    \
        .name = #op_name,                                                                                              \
        .id = op_id,                                                                                                   \
        .n_in = 1,                                                                                                     \
        .n_out = 1,                                                                                                    \
        .n_operands = sizeof(act_operands) / sizeof(act_operands[0]),                                                  \
        .operands = act_operands,                                                                                      \
        .n_keys = ACT_NKEYS,                                                                                           \
        .keys = act_keys,                                                                                              \
        .column_key = { "M", "N", NULL },                                                                              \
        .n_variants = sizeof(op_name##_variants) / sizeof(op_name##_variants[0]),                                      \
        .variants = op_name##_variants,                                                                                \
        .kargs_size = sizeof(struct act_args),                                                                         \
        .head = offsetof(struct act_args, workspace),                                                                  \
        .valid = act_valid,                                                                                            \
        .cost = act_cost,                                                                                              \
    }
DESC(act_and_mul, 2);
DESC(act, 3);
