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
    uint16_t *rows; /* of V32 and V4, as bf16 */
    int32_t *seen;  /* with q_positions: the keys of each query, which is a sequence of its own */
    int32_t *table_of_queries;
    rfg_tensor lens;
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

/* An element of a row of V32 or V4, rounded to bf16. */
void mla_decode_row(int format, const char *row, const char *scales, uint16_t *to)
{
    int codes = MLA_CODES(format), group = MLA_GROUP(format);
    for (int i = 0; i < codes; i++) {
        double scale = rfg_load(scales, format == MLA_V4 ? RFG_E8M0 : RFG_F32, i / group);
        rfg_store(to, RFG_BF16, i, (float)(rfg_load(row, RFG_E4M3, i) * scale)); /* fp32's product, as mla.h has it */
    }
    memcpy(to + codes, row + MLA_ROTATED_AT(format), MLA_ROTATED * sizeof(*to));
}

static bool decode_rows(struct as_mha *m, const struct mla_call *c)
{
    int format = (int)c->p.format;
    int64_t blocks = c->kv->shape[0], page = c->kv->shape[1], d = MLA_CODES(format) + MLA_ROTATED;
    m->rows = malloc((size_t)(blocks * page * d) * sizeof(*m->rows) + 1);
    for (int64_t i = 0; m->rows && i < blocks * page; i++) {
        const char *block = (const char *)c->kv->data + i / page * c->kv->strides[0], *row;
        row = block + i % page * (format == MLA_V4 ? MLA_ROW_BYTES(MLA_V4) : c->kv->strides[1]);
        mla_decode_row(format, row,
                       format == MLA_V4 ? block + MLA_V4_SCALES_AT(page) + i % page * 8 : row + MLA_V32_SCALES_AT,
                       m->rows + i * d);
    }
    m->k = (rfg_tensor){ m->rows, RFG_BF16, 4, { blocks, page, 1, d }, { page * d, d, d, 1 } };
    m->prob.v[MHA_KV] = 0;
    return m->rows != NULL;
}

/* Keys of rank `r` of n, of runs of L, at or before a position: one by one. */
static int32_t count_seen(int64_t position, int64_t len, int64_t n, int64_t r, int64_t run)
{
    int32_t seen = 0;
    for (int64_t j = 0; j < len; j++)
        seen += j / run * n * run + r * run + j % run <= position;
    return seen;
}

/* Each query becomes a sequence whose keys are those that it sees, which are the first ones. */
static bool queries_apart(const struct rfg_problem *prob, struct as_mha *m, const struct mla_call *c)
{
    const rfg_mla_params *p = &c->p;
    int64_t b = prob->v[MLA_B], sq = prob->v[MLA_SQ], n = b * sq, page = c->kv->shape[1];
    const rfg_tensor *table = m->call.p.block_table;
    int64_t columns = table ? table->shape[1] : 1;
    m->seen = malloc((size_t)n * sizeof(*m->seen) + 1);
    m->table_of_queries = malloc((size_t)(n * columns) * sizeof(*m->table_of_queries) + 1);
    if (!m->seen || !m->table_of_queries)
        return false;
    for (int64_t i = 0; i < n; i++) {
        int64_t held =
            p->kv_indptr
                ? (((const int32_t *)p->kv_indptr->data)[i / sq + 1] - ((const int32_t *)p->kv_indptr->data)[i / sq]) *
                      page
                : columns * page;
        int64_t len = p->kv_lens ? ((const int32_t *)p->kv_lens->data)[i / sq] : held;
        int64_t position = (int64_t)((const int32_t *)p->q_positions->data)[i / sq] + i % sq;
        m->seen[i] = count_seen(position, len, p->cp_size > 1 ? p->cp_size : 1, p->cp_rank,
                                p->cp_interleave > 1 ? p->cp_interleave : 1);
        for (int64_t k = 0; k < columns; k++)
            m->table_of_queries[i * columns + k] =
                table ? ((const int32_t *)table->data)[i / sq * table->strides[0] + k] : (int32_t)(i / sq);
    }
    m->table = rfg_tensor_2d(m->table_of_queries, RFG_I32, n, columns, columns);
    m->lens = rfg_tensor_1d(m->seen, RFG_I32, n);
    m->call.p.block_table = &m->table;
    m->call.p.kv_lens = &m->lens;
    m->call.p.causal = 0;
    m->prob.v[MHA_B] = n;
    m->prob.v[MHA_SQ] = 1;
    m->prob.v[MHA_PAGE] = page;
    int last = m->q.ndim - 1;
    m->q = (rfg_tensor){ m->q.data,
                         m->q.dtype,
                         3,
                         { n, m->q.shape[last - 1], m->q.shape[last] },
                         { m->q.strides[last == 3 ? 1 : 0], m->q.strides[last - 1], 1 } };
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
    if (p->format && !decode_rows(m, c))
        return false;
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
    return (!p->q_rope || join_queries(m, c)) && (!p->kv_indptr || make_table(m, c)) &&
           (!p->q_positions || queries_apart(prob, m, c));
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
        free(m.rows);
        free(m.seen);
        free(m.table_of_queries);
    }
    free(own);
    return st;
}
