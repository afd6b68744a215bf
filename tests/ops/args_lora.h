/* SPDX-License-Identifier: MIT
 *
 * For args_ops.c: calls of lora: y, x, a, b, ids, scales, ranks, indptr. */
static rfg_status lora(const struct call *c)
{
    rfg_lora_params p = { .scale = c->lora_scale, .scales = c->t[5], .ranks = c->t[6], .indptr = c->t[7] };
    return rfg_op_lora(c->ctx, c->t[0], c->t[1], c->t[2], c->t[3], c->t[4], PARAMS(p), c->stream);
}
static void lora_scale_nan(struct call *c)
{
    c->lora_scale = NAN;
}
static void lora_scale_inf(struct call *c)
{
    c->lora_scale = -INFINITY;
}
static const struct wrong lora_wrongs[] = { { "scale", lora_scale_nan }, { "scale", lora_scale_inf }, { NULL, NULL } };
