/* SPDX-License-Identifier: MIT
 *
 * The oracle of mla_decode: attention's, of one kv head whose values are a part of its keys; then the sinks, which here
 * don't change lse. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "mla_case.h"
#include "ops/mha/mha_case.h"
#include "ops/oracle.h"

/* What the same call is to mha_decode. */
struct as_mha {
    struct rfg_problem prob;
    struct mha_call call;
    rfg_tensor q, k, v, table;
    char *joined;   /* q with q_rope, where they are apart */
    int32_t *block; /* a block table in place of kv_indices */
};

/* q [B,Sq,Hq,D] of both parts. */
static bool join_queries(struct as_mha *m, const struct mla_call *c)
{
    const rfg_tensor *q = c->q, *rope = c->p.q_rope;
    int last = q->ndim - 1;
    int64_t dv = q->shape[last], r = rope->shape[last], d = dv + r, n = 1, sq = last == 3 ? q->shape[1] : 1;
    for (int i = 0; i < last; i++)
        n *= q->shape[i];
    size_t size = (size_t)rfg_format_bytes((int)q->dtype, 1);
    m->joined = malloc((size_t)(n * d) * size + 1);
    if (!m->joined)
        return false;
    for (int64_t i = 0; i < n; i++) {
        int64_t h = i % q->shape[last - 1], token = i / q->shape[last - 1], b = token / sq, s = token % sq;
        int64_t at = b * q->strides[0] + h * q->strides[last - 1] + (last == 3 ? s * q->strides[1] : 0);
        int64_t at_r = b * rope->strides[0] + h * rope->strides[last - 1] + (last == 3 ? s * rope->strides[1] : 0);
        memcpy(m->joined + (size_t)(i * d) * size, (const char *)q->data + (size_t)at * size, (size_t)dv * size);
        memcpy(m->joined + (size_t)(i * d + dv) * size, (const char *)rope->data + (size_t)at_r * size,
               (size_t)r * size);
    }
    m->q.data = m->joined;
    m->q.shape[last] = d;
    int64_t stride = 1;
    for (int i = last; i >= 0; i--) {
        m->q.strides[i] = stride;
        stride *= m->q.shape[i];
    }
    return true;
}

static bool make_table(struct as_mha *m, const struct mla_call *c)
{
    const int32_t *begin = c->p.kv_indptr->data, *index = c->p.kv_indices->data;
    int64_t batch = c->q->shape[0], columns = 1;
    for (int64_t b = 0; b < batch; b++)
        columns = begin[b + 1] - begin[b] > columns ? begin[b + 1] - begin[b] : columns;
    m->block = calloc((size_t)(batch * columns + 1), sizeof(*m->block));
    if (!m->block)
        return false;
    for (int64_t b = 0; b < batch; b++)
        for (int64_t i = begin[b]; i < begin[b + 1]; i++)
            m->block[b * columns + i - begin[b]] = index[i];
    m->table = rfg_tensor_2d(m->block, RFG_I32, batch, columns, columns);
    m->call.p.block_table = &m->table;
    return true;
}

static bool as_mha(const struct rfg_problem *prob, const struct mla_call *c, struct as_mha *m)
{
    static const int same[][2] = { { MHA_B, MLA_B },      { MHA_HQ, MLA_HQ },     { MHA_D, MLA_D },
                                   { MHA_S, MLA_S },      { MHA_SQ, MLA_SQ },     { MHA_DV, MLA_DV },
                                   { MHA_CAP, MLA_CAP },  { MHA_PAGE, MLA_PAGE }, { MHA_KV, MLA_KV },
                                   { MHA_LENS, MLA_LENS } };
    const rfg_mla_params *p = &c->p;
    *m = (struct as_mha){ .prob = { .op = &rfg_op_mha_decode_desc }, .q = *c->q };
    memcpy(m->prob.dtype, prob->dtype, sizeof(m->prob.dtype));
    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++)
        m->prob.v[same[i][0]] = prob->v[same[i][1]];
    m->prob.v[MHA_HKV] = 1;
    int64_t ld = c->kv->strides[1];
    m->k = (rfg_tensor){ c->kv->data,
                         c->kv->dtype,
                         4,
                         { c->kv->shape[0], c->kv->shape[1], 1, prob->v[MLA_D] },
                         { c->kv->strides[0], ld, ld, 1 } };
    m->v = m->k;
    m->v.shape[3] = mla_dv(prob);
    m->call = (struct mha_call){ .op = &rfg_op_mha_decode_desc, .out = c->out, .q = &m->q, .k = &m->k, .v = &m->v };
    m->call.p = (rfg_mha_params){ .scale = p->scale,
                                  .soft_cap = p->soft_cap,
                                  .causal = p->causal,
                                  .k_scale = p->kv_scale,
                                  .v_scale = p->kv_scale,
                                  .block_table = p->block_table,
                                  .kv_lens = p->kv_lens };
    return (!p->q_rope || join_queries(m, c)) && (!p->kv_indptr || make_table(m, c));
}

/* out / (1 + exp(sink - lse)), whose error follows from that of lse. */
static void apply_sinks(const struct rfg_problem *prob, const rfg_tensor *sinks, struct rfg_expected *out,
                        const double *lse, const double *lse_allow)
{
    int64_t hq = prob->v[MLA_HQ], dv = mla_dv(prob);
    for (int64_t i = 0; i < out->n_rows * hq; i++) {
        double factor = 1 / (1 + exp(rfg_load(sinks->data, sinks->dtype, i % hq) - lse[i]));
        double relative = lse_allow[i] + 0x1p-20;
        if (lse[i] == -INFINITY) /* no key: 0, whatever the sink */
            continue;
        for (int64_t d = 0; d < dv; d++) {
            double *value = &out->value[i * dv + d], *allow = &out->allow[i * dv + d];
            *value *= factor;
            *allow = isfinite(*value) ? *allow * factor + fabs(*value) * relative : 0;
        }
    }
}

rfg_status rfg_oracle_mla_decode(const struct rfg_problem *prob, const rfg_tensor *host, struct rfg_expected *expected)
{
    struct rfg_expected e[MHA_T_COUNT] = { [MHA_T_OUT] = expected[MLA_T_OUT], [MHA_T_LSE] = expected[MLA_T_LSE] };
    struct mla_views w;
    struct as_mha m;
    size_t n = (size_t)(expected[MLA_T_OUT].n_rows * prob->v[MLA_HQ]) + 1;
    mla_views(prob, host, &w);
    double *own = calloc(2 * n, sizeof(*own));
    rfg_status st = rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "oracle: no memory");
    if (own && as_mha(prob, &w.call, &m)) {
        if (!e[MHA_T_LSE].value) {
            e[MHA_T_LSE].value = own;
            e[MHA_T_LSE].allow = own + n;
        }
        st = mha_expect(&m.prob, &m.call, e);
        if (st == RFG_OK && w.call.p.sinks)
            apply_sinks(prob, w.call.p.sinks, &expected[MLA_T_OUT], e[MHA_T_LSE].value, e[MHA_T_LSE].allow);
    }
    if (own) {
        free(m.joined);
        free(m.block);
    }
    free(own);
    return st;
}
