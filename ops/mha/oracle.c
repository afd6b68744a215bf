/* SPDX-License-Identifier: MIT
 *
 * The oracle of attention, by the formulas of rfg/mha.h: two passes over a query's keys, all in double. mla_decode's
 * oracle asks it, too. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ops/oracle.h"
#include "mha_case.h"

#define EPS   0x1p-24 /* half an ulp of 1 in fp32 */
#define MAX_D 576     /* a latent row of MLA */

struct job {
    const struct rfg_problem *prob;
    const struct mha_call *call;
    const int64_t *rows;
    struct rfg_expected *expected;
    double *value; /* what each 16-bit or 8-bit code of k and v stands for */
};

static double vector_at(const rfg_tensor *t, int64_t i, double without)
{
    return t ? rfg_load(t->data, t->dtype, t->shape[0] > 1 ? i : 0) : without;
}

static int64_t index_at(const rfg_tensor *t, int64_t i)
{
    return ((const int32_t *)t->data)[i];
}

/* Where a query is: the sequence that the token belongs to and its place there. False: in none. */
struct place {
    int64_t b, i, sq, skv;
};

static bool find(const struct job *j, int64_t token, struct place *at)
{
    const struct mha_call *c = j->call;
    const rfg_tensor *cu_q = c->p.cu_seqlens_q, *cu_k = c->p.cu_seqlens_k;
    at->b = 0;
    at->sq = j->prob->v[MHA_SQ];
    if (cu_q) {
        while (at->b + 1 < cu_q->shape[0] && index_at(cu_q, at->b + 1) <= token)
            at->b++;
        if (at->b + 1 == cu_q->shape[0])
            return false;
        at->i = token - index_at(cu_q, at->b);
        at->sq = index_at(cu_q, at->b + 1) - index_at(cu_q, at->b);
    } else {
        at->b = token / at->sq;
        at->i = token % at->sq;
    }
    at->skv = c->p.kv_lens ? index_at(c->p.kv_lens, at->b)
              : cu_k       ? index_at(cu_k, at->b + 1) - index_at(cu_k, at->b)
                           : mha_held(c);
    return true;
}

/* A token's own scale (rfg/rope.h): of i4 its last four bits are the code that stands for 0. */
static double token_scale(const rfg_tensor *t, const rfg_tensor *scales, int64_t at, int *zero)
{
    uint32_t bits;
    float f;
    memcpy(&bits, (const float *)scales->data + at, sizeof(bits));
    *zero = t->dtype == RFG_I4 ? (int)(bits % 16) : 0;
    bits -= (uint32_t)*zero;
    memcpy(&f, &bits, sizeof(f));
    return (double)f;
}

/* Key or value `key` of sequence b, head h, times its scale: n elements. Returns the scale. */
static double load_key(const struct job *j, const rfg_tensor *t, double scale, int64_t b, int64_t key, int64_t h, int n,
                       double *out)
{
    const struct mha_call *c = j->call;
    bool older = c->k->ndim == 5; /* [blocks,Hkv,D/x,page,x] and [blocks,Hkv,D,page] */
    int64_t page = older ? c->k->shape[3] : c->k->shape[1], block = b, row = key;
    if (c->p.block_table) {
        block = index_at(c->p.block_table, b * c->p.block_table->strides[0] + key / page);
        row = key % page;
    }
    int64_t at, x = older && t->ndim == 5 ? t->shape[4] : older ? 1 : n, chunk = older ? t->strides[2] : 0;
    if (older)
        at = block * t->strides[0] + h * t->strides[1] + row * t->strides[3];
    else if (c->p.cu_seqlens_k)
        at = (index_at(c->p.cu_seqlens_k, b) + key) * t->strides[0] + h * t->strides[1];
    else
        at = block * t->strides[0] + row * t->strides[1] + h * t->strides[2];
    int size = (int)rfg_format_bytes((int)t->dtype, 1), zero = 0;
    const rfg_tensor *scales = t == c->k ? c->p.k_scale : c->p.v_scale;
    if (scales && scales->ndim > 1) {
        int last = scales->ndim - 1;
        int64_t token = c->p.cu_seqlens_k ? index_at(c->p.cu_seqlens_k, b) + key : row;
        scale = token_scale(t, scales,
                            (last == 2 ? block * scales->strides[0] : 0) + token * scales->strides[last - 1] +
                                h * scales->strides[last],
                            &zero);
    }
    for (int64_t d = 0; d < n; d++) {
        int64_t e = at + d / x * chunk + d % x;
        if (t->dtype == RFG_I4) { /* a number from 0 to 15 */
            out[d] = scale * ((((int)rfg_load(t->data, RFG_I4, e) + 16) % 16) - zero);
            continue;
        }
        out[d] =
            scale * (size == 4 ? (double)((const float *)t->data)[e]
                               : j->value[size == 1 ? ((const uint8_t *)t->data)[e] : ((const uint16_t *)t->data)[e]]);
    }
    return scale;
}

/* One head's answer. */
struct answer {
    double lse, lse_allow;
    double out[MAX_D], allow[MAX_D];
};

/* A kernel may err by this much in a score: fp32 sums of D products, whose order and rounding (matrix units truncate)
 * is its own, and the roundings of the scale, of log2(e) and of the difference to the maximum, all of them relative to
 * the terms' magnitudes; a soft cap by way of exp2 (tanh x = 1 - 2 / (1 + exp 2x)) by an absolute error on top. */
static double score_error(const struct rfg_problem *prob, double magnitudes, double bias)
{
    return 4 * EPS * (magnitudes + bias) + 8 * EPS * (double)prob->v[MHA_CAP];
}

/* q: the query's row, s and err: room for skv numbers each. */
static void attend(const struct job *j, const struct place *at, int64_t h, const double *q, double *s, double *err,
                   struct answer *a)
{
    const struct rfg_problem *prob = j->prob;
    const struct mha_call *c = j->call;
    const rfg_mha_params *p = &c->p;
    int d = (int)prob->v[MHA_D], dv = mha_dv(prob);
    int64_t kv_head = h / (prob->v[MHA_HQ] / prob->v[MHA_HKV]), pos = at->i + at->skv - at->sq;
    double scale = p->scale != 0 ? (double)p->scale : 1 / sqrt(d), cap = (double)p->soft_cap;
    bool own = p->k_scale && p->k_scale->ndim > 1; /* a token's own scales, and the largest of v's */
    double k_scale = own ? 1 : vector_at(p->k_scale, kv_head, 1), v_scale = own ? 1 : vector_at(p->v_scale, kv_head, 1);
    double top = 0;
    double sink = vector_at(p->sinks, h, -INFINITY), slope = vector_at(p->alibi, h, 0), row[MAX_D];
    int64_t from = 0, end = at->skv;
    if (p->window > 0 && pos - p->window + 1 > from)
        from = pos - p->window + 1;
    if (p->window < 0 && p->window_left >= 0 && pos - p->window_left > from)
        from = pos - p->window_left;
    if (p->window < 0 && p->window_right >= 0 && pos + p->window_right + 1 < end)
        end = pos + p->window_right + 1;
    if (p->causal && pos + 1 < end)
        end = pos + 1;

    double max = sink;
    for (int64_t key = from; key < end; key++) {
        double sum = 0, magnitudes = 0, bias = slope * (double)llabs(pos - key);
        load_key(j, c->k, k_scale, at->b, key, kv_head, d, row);
        for (int i = 0; i < d; i++) {
            sum += q[i] * row[i];
            magnitudes += fabs(q[i] * row[i]);
        }
        double score = scale * sum;
        score = cap > 0 ? cap * tanh(score / cap) : score;
        s[key] = score - bias;
        err[key] = isfinite(score) ? score_error(prob, fabs(scale) * magnitudes, fabs(bias)) : 0;
        max = isnan(max) || isnan(s[key]) ? NAN : fmax(max, s[key]);
    }
    memset(a, 0, sizeof(*a));
    a->lse = -INFINITY;
    if (max == -INFINITY)
        return;
    double sum = exp(sink - max), worst = 0;
    for (int64_t key = from; key < end; key++)
        sum += exp(s[key] - max);
    a->lse = max + log(sum);

    /* Exponentials by approximate instructions err by 2^-22 relative, and so do weights by their scores' errors. */
    double n = end > from ? (double)(end - from) : 0, squares[MAX_D] = { 0 }, all[MAX_D] = { 0 }, skewed[MAX_D] = { 0 };
    for (int64_t key = from; own && key < end; key++)
        top = fmax(top, load_key(j, c->v, 1, at->b, key, kv_head, 0, row));
    for (int64_t key = from; key < end; key++) {
        double w = exp(s[key] - a->lse), relative = err[key] + 4 * EPS, lost = 0;
        double mine = load_key(j, c->v, v_scale, at->b, key, kv_head, dv, row);
        /* fp16 has no exponent below 2^-14: smaller weights, beside the maximum's, lose up to 2^-25. Those times scales of
         * tokens are beside the largest weight times the largest scale, or twice that. */
        double most = exp(max - a->lse) * (own ? 2 * top / mine : 1);
        if ((prob->dtype[0] == RFG_F16 || (own && prob->dtype[0] == RFG_BF16)) && w < 0x1p-14 * most)
            lost = fmin(w, 0x1p-25 * most);
        worst += w * relative;
        for (int i = 0; i < dv; i++) {
            double x = w * row[i], size = fabs(x);
            a->out[i] += x;
            squares[i] += x * x;
            all[i] += size;
            skewed[i] += size * relative + lost * fabs(row[i]);
        }
    }
    /* The sum of the exponentials, in fp32 in any order, errs by about sqrt(n) eps. */
    double sum_error = worst + (sqrt(n) + 8) * EPS;
    a->lse_allow = sum_error + 8 * EPS * (fabs(a->lse) + fabs(max)) + 4 * EPS;
    /* The kernels round softmax weights to 16 bits before they multiply V: an error of half an ulp of each at most.
     * The errors are as good as independent, so their squares add up (one has a standard deviation of 0.42 half ulps:
     * 2.3 are five and a half of them). Equal weights have equal errors, which scale the result: `out` allows that.
     * Never more than all errors at their worst. */
    double ulp = prob->dtype[0] == RFG_F32 ? EPS : prob->dtype[0] == RFG_F16 ? 0x1p-11 : 0x1p-8; /* half one of 1 */
    for (int i = 0; i < dv; i++) {
        double norm = sqrt(squares[i]), out = fabs(a->out[i]);
        double rounding = fmin(ulp * all[i], ulp * (out + 2.3 * norm));
        /* Sums in fp32, by matrix units that cut 16 products at a time off at 24 bits: each step a bias of one bit of
         * what has been summed so far. */
        double summing = (n / 16 + 8) * 2 * EPS * (out + 3 * norm) + 8 * EPS * all[i];
        a->allow[i] = isfinite(out) ? rounding + summing + skewed[i] + out * sum_error : 0;
    }
}

/* Head h of the n-th row. s: room for two numbers a key. */
static void run_head(void *job, int64_t item, void *scratch)
{
    const struct job *j = job;
    const struct mha_call *c = j->call;
    int64_t hq = j->prob->v[MHA_HQ], n = item / hq, h = item % hq, token = j->rows[n];
    double *s = scratch;
    int d = (int)j->prob->v[MHA_D], dv = mha_dv(j->prob), dims = c->q->ndim;
    struct rfg_expected *out = &j->expected[MHA_T_OUT], *lse = &j->expected[MHA_T_LSE];
    struct place at = { 0 };
    struct answer a;
    double q[MAX_D];
    bool known = find(j, token, &at);
    if (known) {
        int64_t batch = c->p.cu_seqlens_q ? 0 : at.b * c->q->strides[0];
        int64_t row = c->p.cu_seqlens_q ? token * c->q->strides[0] : dims == 4 ? at.i * c->q->strides[1] : 0;
        for (int i = 0; i < d; i++)
            q[i] = rfg_load(c->q->data, c->q->dtype, batch + row + h * c->q->strides[dims - 2] + i);
        attend(j, &at, h, q, s, s + at.skv, &a);
    }
    /* What belongs to no sequence stays as it was. */
    for (int i = 0; i < dv; i++) {
        int64_t to = (n * hq + h) * dv + i;
        out->value[to] = known ? a.out[i] : NAN;
        out->allow[to] = known ? a.allow[i] : -1;
    }
    if (lse->value) {
        lse->value[n * hq + h] = known ? a.lse : NAN;
        lse->allow[n * hq + h] = known ? a.lse_allow : -1;
    }
}

rfg_status mha_expect(const struct rfg_problem *prob, const struct mha_call *call, struct rfg_expected *expected)
{
    int64_t n_rows = expected[MHA_T_OUT].n_rows;
    struct job j = { .prob = prob, .call = call, .rows = expected[MHA_T_OUT].rows, .expected = expected };
    rfg_dtype kv = (rfg_dtype)mha_kv_dtype(prob);
    int codes = kv == RFG_F32 ? 1 : rfg_format_bytes((int)kv, 1) == 1 ? 256 : 65536; /* none of f32 */
    j.value = malloc((size_t)codes * sizeof(*j.value));
    if (!j.value)
        return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "oracle: no memory for a table");
    for (int i = 0; i < codes; i++) {
        uint16_t code = (uint16_t)i;
        uint8_t byte = (uint8_t)i;
        j.value[i] = codes == 1 ? 0 : rfg_load(codes == 256 ? (const void *)&byte : (const void *)&code, kv, 0);
    }
    size_t scratch = (size_t)mha_held(call) * 2 * sizeof(double);
    rfg_status st = rfg_share_out(n_rows * prob->v[MHA_HQ], true, scratch, run_head, &j);
    free(j.value);
    return st;
}

rfg_status rfg_oracle_mha(const struct rfg_problem *prob, const rfg_tensor *host, struct rfg_expected *expected)
{
    struct mha_views w;
    mha_views(prob, host, &w);
    return mha_expect(prob, &w.call, expected);
}
