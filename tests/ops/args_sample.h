/* SPDX-License-Identifier: MIT
 *
 * For args_ops.c: calls of argmax (y, x) and sample (y, logits, seed, offset, and the params' in their order). */
static rfg_status argmax(const struct call *c)
{
    params_size = 0;
    return rfg_op_argmax(c->ctx, c->t[0], c->t[1], c->stream);
}

static rfg_status draw(const struct call *c)
{
    rfg_sample_params p = { .temperature = c->t[4],
                            .top_k = c->t[5],
                            .top_p = c->t[6],
                            .min_p = c->t[7],
                            .repetition = c->t[8],
                            .frequency = c->t[9],
                            .presence = c->t[10],
                            .bias = c->t[11],
                            .counts = c->t[12],
                            .prompt = c->t[13],
                            .order = c->sample_order };
    return rfg_op_sample(c->ctx, c->t[0], c->t[1], c->t[2], c->t[3], PARAMS(p), c->stream);
}
static void order_unknown(struct call *c)
{
    c->sample_order = 2;
}
static void order_negative(struct call *c)
{
    c->sample_order = -1;
}
static const struct wrong sample_wrongs[] = { { "order", order_unknown }, { "order", order_negative }, { NULL, NULL } };
