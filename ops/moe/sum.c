/* SPDX-License-Identifier: MIT
 *
 * The operator moe_sum: its public function, argument rules and tables. Variants are in sum_gpu.c and sum_cpu.c. */
#include "sum.h"

#include <inttypes.h>

#include "ops/operand.h"
#include "ops/params.h"

#define FN       "rfg_op_moe_sum"
#define BAD(...) rfg_fail(RFG_ERROR_INVALID_ARGUMENT, FN ": " __VA_ARGS__)

#define MAX_CHUNKS (INT32_MAX - 4096) /* of 16 bytes: kernels count them in 32 bits */

static const struct rfg_key sum_keys[SUM_NKEYS] = {
    [SUM_T] = { "T", RFG_KEY_SIZE, 0, 0, RFG_MAX_SIZE, NULL, "tokens: rows of y" },
    [SUM_N] = { "N", RFG_KEY_SIZE, 0, 0, RFG_MAX_SIZE, NULL, "columns of x and y" },
    [SUM_TOP] = { "top", RFG_KEY_SIZE, 0, 1, SUM_MAX_TOP, NULL, "k, places of a token" },
    [SUM_WEIGHTS] = { "weights", RFG_KEY_ATTR, 0, 0, 1, NULL, "1: there are weights" },
    [SUM_RESIDUAL] = { "residual", RFG_KEY_ATTR, 0, 0, 1, NULL, "1: there is a residual" },
    [SUM_TOKENS] = { "tokens", RFG_KEY_ATTR, 0, 0, 1, NULL, "1: device memory says how many tokens count" },
    [SUM_INPLACE] = { "inplace", RFG_KEY_LAYOUT, 0, 0, 1, NULL, "1: the residual is y" },
    [SUM_R] = { "R", RFG_KEY_LAYOUT, 0, -1, RFG_MAX_SIZE, NULL, "rows of x; 0: T top, -1: none" },
    [SUM_LDX] = { "ldx", RFG_KEY_LAYOUT, 0, 0, RFG_MAX_STRIDE, NULL,
                  "elements from a row of x to the next; 0: they follow one another" },
    [SUM_LDY] = { "ldy", RFG_KEY_LAYOUT, 0, 0, RFG_MAX_STRIDE, NULL,
                  "elements from a row of y to the next; 0: they follow one another" },
    [SUM_LDR] = { "ldr", RFG_KEY_LAYOUT, 0, 0, RFG_MAX_STRIDE, NULL,
                  "elements from a row of the residual to the next; 0: they follow one another" },
    [SUM_LDP] = { "ldp", RFG_KEY_LAYOUT, 0, 0, RFG_MAX_STRIDE, NULL,
                  "elements from a row of places to the next; 0: they follow one another" },
    [SUM_LDW] = { "ldw", RFG_KEY_LAYOUT, 0, 0, RFG_MAX_STRIDE, NULL,
                  "elements from a row of weights to the next; 0: they follow one another" },
    [SUM_ALIGN] = { "align", RFG_KEY_LAYOUT, 16, 1, 16, NULL,
                    "bytes, up to 16, of which x's pointer and row stride are multiples" },
    [SUM_ALIGN_Y] = { "align_y", RFG_KEY_LAYOUT, 16, 1, 16, NULL,
                      "bytes, up to 16, of which y's and the residual's pointers and row strides are multiples" },
    [SUM_OVERLAP] = RFG_KEY_OVERLAP,
};

static const struct rfg_op_operand sum_operands[] = {
    { "x", false, RFG_FORMAT_LISTED, 0, 0 },
    { "y", true, RFG_FORMAT_LISTED, 1, 0 },
    { "places", false, RFG_FORMAT_ALWAYS, RFG_I32, 0 },
    { "weights", false, RFG_FORMAT_ALWAYS, RFG_F32, 0 },
    { "residual", false, RFG_FORMAT_AS, 1, 0 },
    { "tokens", false, RFG_FORMAT_ALWAYS, RFG_I32, 0 },
};

static bool sum_valid(const struct rfg_problem *prob, struct rfg_reason *why)
{
    const int64_t *v = prob->v;
    for (int i = 0; i < 2; i++)
        if (!rfg_dtype_is_float(prob->dtype[i]))
            return rfg_refuse(why, "dtype of %s is %s: must be bf16, f16 or f32", sum_operands[i].name,
                              rfg_dtype_name((rfg_dtype)prob->dtype[i]));
    if (v[SUM_INPLACE] && !v[SUM_RESIDUAL])
        return rfg_refuse(why, "inplace=1: there must be a residual");
    if (v[SUM_INPLACE] && v[SUM_LDR] != v[SUM_LDY])
        return rfg_refuse(why, "ldr=%" PRId64 ": must be ldy=%" PRId64 " with inplace=1", v[SUM_LDR], v[SUM_LDY]);
    if (v[SUM_T] * v[SUM_TOP] > RFG_MAX_SIZE)
        return rfg_refuse(why, "T=%" PRId64 " top=%" PRId64 ": places must be at most %d", v[SUM_T], v[SUM_TOP],
                          RFG_MAX_SIZE);
    int64_t row_chunks = ceil_div(v[SUM_N], rfg_format_elements(prob->dtype[0], 16));
    if (v[SUM_T] * row_chunks > MAX_CHUNKS)
        return rfg_refuse(why,
                          "T=%" PRId64 " N=%" PRId64 ": 16 bytes of x at a time are %" PRId64 ", must be at most %d",
                          v[SUM_T], v[SUM_N], v[SUM_T] * row_chunks, MAX_CHUNKS);
    for (int i = SUM_LDX; i <= SUM_LDW; i++) {
        int cols = i < SUM_LDP ? SUM_N : SUM_TOP;
        if (v[i] && v[i] < v[cols])
            return rfg_refuse(why, "%s=%" PRId64 ": must be at least %s=%" PRId64, sum_keys[i].name, v[i],
                              sum_keys[cols].name, v[cols]);
    }
    for (int i = SUM_ALIGN; i <= SUM_ALIGN_Y; i++)
        if (v[i] & (v[i] - 1))
            return rfg_refuse(why, "%s=%" PRId64 ": must be a power of two", sum_keys[i].name, v[i]);
    return true;
}

static void sum_cost(const struct rfg_problem *prob, double *bytes, double *flops)
{
    const int64_t *v = prob->v;
    double t = (double)v[SUM_T], top = (double)v[SUM_TOP];
    *bytes = t * (top * (double)rfg_format_bytes(prob->dtype[0], v[SUM_N]) +
                  (v[SUM_RESIDUAL] ? 2 : 1) * (double)rfg_format_bytes(prob->dtype[1], v[SUM_N]) +
                  top * (v[SUM_WEIGHTS] ? 8 : 4));
    *flops = t * (double)v[SUM_N] * (top * (v[SUM_WEIGHTS] ? 2 : 1) + (v[SUM_RESIDUAL] ? 1 : 0));
}

int64_t sum_x_rows(const struct rfg_problem *prob)
{
    int64_t r = prob->v[SUM_R];
    return r < 0 ? 0 : r ? r : prob->v[SUM_T] * prob->v[SUM_TOP];
}

void sum_set_sizes(struct moe_sum_args *a, const struct rfg_problem *prob)
{
    const int64_t *v = prob->v;
    unsigned chunks = (unsigned)ceil_div(v[SUM_N], rfg_format_elements(prob->dtype[0], 16));
    a->t = (int)v[SUM_T];
    a->n = (int)v[SUM_N];
    a->top = (int)v[SUM_TOP];
    a->x_rows = (int)sum_x_rows(prob);
    a->row_chunks = chunks;
    rfg_divisor(chunks, &a->mul, &a->shift);
}

/* ---- the public function ---------------------------------------------------------------------------------------- */

RFG_PARAMS_END(rfg_moe_sum_params, tokens);

static rfg_status check_shape(const struct rfg_operand *o, int64_t rows, int64_t cols)
{
    return o->rows == rows && o->cols == cols
               ? RFG_OK
               : BAD("%s is %" PRId64 " x %" PRId64 ": must be %" PRId64 " x %" PRId64 " with this y and places",
                     o->name, o->rows, o->cols, rows, cols);
}

/* Its row stride; 0: packed. */
static int64_t ld_of(const struct rfg_operand *o)
{
    return o->ld == o->cols ? 0 : o->ld;
}

enum { X, PLACES, WEIGHTS, RESIDUAL, TOKENS, INPUTS };

static rfg_status check_inputs(const rfg_moe_sum_params *p, const rfg_tensor *x, const rfg_tensor *places,
                               const struct rfg_operand *y, struct rfg_operand *in)
{
    rfg_status st;
    if ((st = rfg_check_float_operand(&in[X], FN, "x", x, 2, 2)) || (st = check_shape(&in[X], in[X].rows, y->cols)) ||
        (st = rfg_check_operand(&in[PLACES], FN, "places", places, 2, 2)) ||
        (st = rfg_check_operand_dtype(&in[PLACES], FN, RFG_I32, "")) ||
        (st = check_shape(&in[PLACES], y->rows, in[PLACES].cols)))
        return st;
    int64_t top = in[PLACES].cols;
    if (top < 1 || top > SUM_MAX_TOP)
        return BAD("places has %" PRId64 " columns: must be from 1 to %d", top, SUM_MAX_TOP);
    if (p->weights && ((st = rfg_check_operand(&in[WEIGHTS], FN, "weights", p->weights, 2, 2)) ||
                       (st = rfg_check_operand_dtype(&in[WEIGHTS], FN, RFG_F32, "")) ||
                       (st = check_shape(&in[WEIGHTS], y->rows, top))))
        return st;
    if (p->residual && ((st = rfg_check_operand(&in[RESIDUAL], FN, "residual", p->residual, 2, 2)) ||
                        (st = rfg_check_operand_dtype(&in[RESIDUAL], FN, y->t->dtype, "y's dtype, ")) ||
                        (st = check_shape(&in[RESIDUAL], y->rows, y->cols))))
        return st;
    if (p->tokens &&
        ((st = rfg_check_operand(&in[TOKENS], FN, "tokens", p->tokens, 1, 1)) ||
         (st = rfg_check_operand_dtype(&in[TOKENS], FN, RFG_I32, "")) || (st = check_shape(&in[TOKENS], 1, 1))))
        return st;
    return RFG_OK;
}

rfg_status rfg_op_moe_sum(rfg_context *ctx, const rfg_tensor *y, const rfg_tensor *x, const rfg_tensor *places,
                          const rfg_moe_sum_params *given, rfg_stream stream)
{
    rfg_moe_sum_params p = RFG_MOE_SUM_PARAMS_INIT;
    struct rfg_operand oy, in[INPUTS] = { { 0 } };
    struct rfg_reason why;
    rfg_status st;
    if (!ctx)
        return BAD("ctx is NULL: must be a context");
    if ((st = RFG_TAKE_PARAMS(FN, rfg_moe_sum_params, &p, given)) ||
        (st = rfg_check_float_operand(&in[X], FN, "x", x, 2, 2)) ||
        (st = rfg_check_float_operand(&oy, FN, "y", y, 2, 2)) || (st = check_inputs(&p, x, places, &oy, in)))
        return st;
    if (oy.rows == 0 || oy.cols == 0)
        return RFG_OK;
    for (int i = 0; i < INPUTS; i++)
        if (in[i].t && (st = rfg_check_overlap(FN, &oy, &in[i], i == RESIDUAL)))
            return st;

    const struct rfg_operand *r = &in[RESIDUAL];
    struct rfg_problem prob = { .op = &rfg_op_moe_sum_desc, .dtype = { (uint8_t)x->dtype, (uint8_t)y->dtype } };
    prob.v[SUM_T] = oy.rows;
    prob.v[SUM_N] = oy.cols;
    prob.v[SUM_TOP] = in[PLACES].cols;
    prob.v[SUM_WEIGHTS] = p.weights != NULL;
    prob.v[SUM_RESIDUAL] = p.residual != NULL;
    prob.v[SUM_TOKENS] = p.tokens != NULL;
    prob.v[SUM_INPLACE] = p.residual && rfg_operand_same(&oy, r);
    prob.v[SUM_R] = in[X].rows == oy.rows * in[PLACES].cols ? 0 : in[X].rows ? in[X].rows : -1;
    prob.v[SUM_LDX] = ld_of(&in[X]);
    prob.v[SUM_LDY] = ld_of(&oy);
    prob.v[SUM_LDR] = p.residual ? ld_of(r) : 0;
    prob.v[SUM_LDP] = ld_of(&in[PLACES]);
    prob.v[SUM_LDW] = p.weights ? ld_of(&in[WEIGHTS]) : 0;
    prob.v[SUM_ALIGN] = rfg_alignment(in[X].bits);
    prob.v[SUM_ALIGN_Y] = rfg_alignment(oy.bits | r->bits);
    if (!sum_valid(&prob, &why))
        return BAD("%s", why.text);
    struct moe_sum_args a = { .x = x->data,
                              .residual = p.residual ? p.residual->data : NULL,
                              .y = y->data,
                              .places = places->data,
                              .tokens = p.tokens ? p.tokens->data : NULL,
                              .weights = p.weights ? p.weights->data : NULL,
                              .ldx = in[X].ld,
                              .ldy = oy.ld,
                              .ldr = r->ld,
                              .ldp = in[PLACES].ld,
                              .ldw = in[WEIGHTS].ld };
    sum_set_sizes(&a, &prob);
    return rfg_dispatch(ctx, &prob, &a, stream);
}

static const struct rfg_variant *const sum_variants[] = { &moe_sum_rows, &moe_sum_portable, &moe_sum_cpu };

const struct rfg_op rfg_op_moe_sum_desc = {
    .name = "moe_sum",
    .id = 33,
    .n_in = 1,
    .n_out = 1,
    .n_operands = sizeof(sum_operands) / sizeof(sum_operands[0]),
    .operands = sum_operands,
    .n_keys = SUM_NKEYS,
    .keys = sum_keys,
    .column_key = { "T", "N", "top" },
    .n_variants = sizeof(sum_variants) / sizeof(sum_variants[0]),
    .variants = sum_variants,
    .kargs_size = sizeof(struct moe_sum_args),
    .head = offsetof(struct moe_sum_args, workspace),
    .valid = sum_valid,
    .cost = sum_cost,
};
