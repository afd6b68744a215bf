/* SPDX-License-Identifier: MIT
 *
 * For args_ops.c: what may be wrong with embedding's params. */
/* ---- embedding: y, ids, table ------------------------------------------------------------------------------------ */

static rfg_status embedding(const struct call *c)
{
    rfg_embedding_params p = c->embedding;
    return rfg_op_embedding(c->ctx, c->t[0], c->t[1], c->t[2], PARAMS(p), c->stream);
}
static void embedding_scale_nan(struct call *c)
{
    c->embedding.scale = NAN;
}
static void embedding_scale_inf(struct call *c)
{
    c->embedding.scale = -INFINITY;
}
static const struct wrong embedding_wrongs[] = { { "scale", embedding_scale_nan },
                                                 { "scale", embedding_scale_inf },
                                                 { NULL, NULL } };
