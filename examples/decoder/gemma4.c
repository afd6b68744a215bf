/* SPDX-License-Identifier: MIT
 *
 * What Gemma 4 has besides, as the layers call it: the norm of v, inputs of layers, the factor at a layer's end. rfg has
 * no operator that only adds, and none that only scales: a sum's norm is then not read, and an embedding with a factor
 * scales rows. */
#include "ops.h"

#include <math.h>

void op_norm_v(struct engine *e, int64_t layer, const struct rows *r)
{
    const struct config *c = &e->m->c;
    int64_t n = key_heads(c, layer);
    rfg_tensor v = heads(e, layer, r->count, c->heads + n, n);
    rfg_norm_params p = norm_params(e);
    if (wanted(e, OP_NORM))
        CHECK(rfg_op_rmsnorm(e->ctx, &v, &v, NULL, &p, e->stream));
}

/* residual += x */
static void add(struct engine *e, const struct rows *r)
{
    op_add_norm(e, e->normed, e->residual, e->x, NULL, r->count);
}

/* One half of the pairs, [rows layers, extra]. */
static rfg_tensor half_pairs(const struct engine *e, int64_t rows, int which)
{
    int64_t n = e->m->c.gemma4.extra;
    return rfg_tensor_2d(e->pairs + (size_t)(which * n) * sizeof(uint16_t), e->m->dtype, rows * e->m->c.layers, n,
                         2 * n);
}

/* A layer's input is (norm(projection(embedding) / sqrt(hidden)) w + sqrt(extra) table[token]) / sqrt(2). The first
 * factor goes into eps, the last into w and the table's. */
void op_inputs(struct engine *e, const struct rows *r)
{
    const struct model *m = e->m;
    int64_t n = m->c.gemma4.extra, columns = m->c.layers * n;
    if (!n)
        return;
    op_gemm(e, e->inputs, m->dtype, columns, e->residual, plain(e, m->extra_projection), m->c.hidden, NULL, r->count,
            columns, m->c.hidden, NULL);
    rfg_tensor x = matrix(e, e->inputs, r->count * m->c.layers, n), weight = rfg_tensor_1d(m->extra_norm, RFG_F32, n);
    rfg_norm_params p = norm_params(e);
    p.eps *= (float)m->c.hidden;
    if (wanted(e, OP_NORM))
        CHECK(rfg_op_rmsnorm(e->ctx, &x, &x, &weight, &p, e->stream));
    rfg_tensor y = matrix(e, e->scratch, r->count, columns), ids = ints(r->tokens, r->count);
    rfg_tensor table = matrix(e, m->extra_embedding, m->c.gemma4.extra_vocab, columns);
    rfg_embedding_params of_table = { .size = sizeof(of_table), .scale = (float)sqrt((double)n / 2) };
    if (wanted(e, OP_EMBEDDING))
        CHECK(rfg_op_embedding(e->ctx, &y, &ids, &table, &of_table, e->stream));
    rfg_tensor tokens = matrix(e, e->scratch, r->count * m->c.layers, n), sum = half_pairs(e, r->count, 1);
    p = norm_params(e);
    if (wanted(e, OP_NORM))
        CHECK(rfg_op_add_rmsnorm(e->ctx, &x, &sum, &x, &tokens, NULL, &p, e->stream));
}

/* x = norm(projection(act(gate(residual)) input)) */
static void take_input(struct engine *e, int64_t layer, const struct rows *r)
{
    const struct model *m = e->m;
    const struct layer *l = &m->layer[layer];
    int64_t n = m->c.gemma4.extra, stride = 2 * n * m->c.layers;
    char *at = e->pairs + (size_t)(2 * n * layer) * sizeof(uint16_t);
    op_gemm(e, at, m->dtype, stride, e->residual, plain(e, l->extra_gate), m->c.hidden, NULL, r->count, n, m->c.hidden,
            NULL);
    rfg_tensor x = rfg_tensor_2d(at, m->dtype, r->count, 2 * n, stride), y = matrix(e, e->scratch, r->count, n);
    rfg_act_params p = { .size = sizeof(p), .act = m->c.act, .gates = RFG_GATES_HALVES };
    if (wanted(e, OP_ACT))
        CHECK(rfg_op_act_and_mul(e->ctx, &y, &x, &p, e->stream));
    op_gemm(e, e->x, m->dtype, m->c.hidden, e->scratch, plain(e, l->extra_projection), n, NULL, r->count, m->c.hidden,
            n, NULL);
    op_norm(e, e->x, e->x, l->extra_norm, r->count);
}

bool op_layer_end(struct engine *e, int64_t layer, const struct rows *r)
{
    float factor = e->m->layer[layer].factor;
    if (!e->m->c.gemma4.on || (!e->m->c.gemma4.extra && factor == 1))
        return false;
    add(e, r);
    if (e->m->c.gemma4.extra) {
        take_input(e, layer, r);
        add(e, r);
    }
    if (factor == 1)
        return true;
    rfg_tensor y = matrix(e, e->x, r->count, e->m->c.hidden), x = y, rows = ints(e->counting, r->count);
    rfg_embedding_params p = { .size = sizeof(p), .scale = factor };
    x.data = e->residual;
    if (wanted(e, OP_EMBEDDING))
        CHECK(rfg_op_embedding(e->ctx, &y, &rows, &x, &p, e->stream));
    char *was = e->residual;
    e->residual = e->x;
    e->x = was;
    return true;
}
