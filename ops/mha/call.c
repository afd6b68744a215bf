/* SPDX-License-Identifier: MIT
 *
 * rfg_op_mha and rfg_op_mha_decode: what their tensors must be, and the problem of a call, whose rules
 * are mha.c's. */
#include <inttypes.h>
#include <math.h>

#include "dispatch/dispatch.h"
#include "ops/params.h"
#include "ops/tensors.h"
#include "mha_call.h"

#define BAD(...) rfg_fail(RFG_ERROR_INVALID_ARGUMENT, __VA_ARGS__)

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

enum { Q, OUT, K_, V_, LSE, SINKS, ALIBI, K_SCALE, V_SCALE, CU_Q, CU_K, TABLE, LENS, TENSORS };

enum { B = 1, TOKENS, SQ, HQ, D, DV, BLOCKS, ROWS, PAGE, KEYS, HKV, CHUNKS, CHUNK };
static const struct rfg_axis axes[] = {
    [B] = { "sequences", 0, RFG_MAX_SIZE - 1 },
    [TOKENS] = { "tokens", 0, 0 },
    [SQ] = { "queries", 0, 0 },
    [HQ] = { "heads", 0, 0 },
    [D] = { "elements of a head", 0, 0 },
    [DV] = { "elements of a head", 0, 0 },
    [BLOCKS] = { "blocks", 0, 0 },
    [ROWS] = { "keys of a sequence", 0, 0 },
    [PAGE] = { "page", 1, 0 },
    [KEYS] = { "keys", 0, 0 },
    [HKV] = { "heads", 1, 0 },
    [CHUNKS] = { "D / x", 0, 0 },
    [CHUNK] = { "16 bytes' worth", 0, 0 },
};

/* VARLEN: q is packed; PACKED: so are k and v. ONE: decode's q has no dimension for queries. EACH_TOKEN: scales have all
 * of k's dimensions but the last. */
enum { VARLEN = 1, PACKED = 2, PAGED = 4, ONE = 8, OLDER_VLLM = 16, EACH_TOKEN = 32 };
#define FLOATS (RFG_HALF_FORMATS | RFG_DTYPE(F32))
#define CODES  (RFG_8_BIT_FLOATS | RFG_DTYPE(I8) | RFG_DTYPE(I4))
#define F32    RFG_DTYPE(F32)
#define I32    RFG_DTYPE(I32)
#define OUTPUT (RFG_VIEW | RFG_OUT)
#define LSES   (RFG_VIEW | RFG_ANY_LAST | RFG_OUT | RFG_OPTIONAL)
#define SCALES (RFG_VIEW | RFG_ANY_LAST)

/* clang-format off */
static const struct rfg_tensor_rule rules[] = {
    { "cu_seqlens_q", CU_Q, RFG_OPTIONAL, 1, { B | RFG_PLUS_ONE }, I32 },
    { "q", Q, RFG_VIEW, 4, { B, SQ, HQ, D }, FLOATS, .if_clear = VARLEN | ONE },
    { "q", Q, RFG_VIEW, 3, { B, HQ, D }, FLOATS, .if_set = ONE },
    { "q", Q, RFG_VIEW, 3, { TOKENS, HQ, D }, FLOATS, .if_set = VARLEN },
    { "out", OUT, OUTPUT, 4, { B, SQ, HQ, DV }, 0, Q + 1, .if_clear = VARLEN | ONE },
    { "out", OUT, OUTPUT, 3, { B, HQ, DV }, 0, Q + 1, .if_set = ONE },
    { "out", OUT, OUTPUT, 3, { TOKENS, HQ, DV }, 0, Q + 1, .if_set = VARLEN },
    { "k", K_, RFG_VIEW, 4, { B, ROWS, HKV, D }, CODES, Q + 1, .if_clear = PACKED | PAGED },
    { "k", K_, RFG_VIEW, 4, { BLOCKS, PAGE, HKV, D }, CODES, Q + 1, .if_set = PAGED, .if_clear = OLDER_VLLM },
    { "k", K_, RFG_VIEW, 5, { BLOCKS, HKV, CHUNKS, PAGE, CHUNK }, CODES, Q + 1, .if_set = PAGED | OLDER_VLLM },
    { "k", K_, RFG_VIEW, 3, { KEYS, HKV, D }, CODES, Q + 1, .if_set = PACKED },
    { "v", V_, RFG_VIEW, 4, { B, ROWS, HKV, DV }, 0, K_ + 1, .if_clear = PACKED | PAGED },
    { "v", V_, RFG_VIEW, 4, { BLOCKS, PAGE, HKV, DV }, 0, K_ + 1, .if_set = PAGED, .if_clear = OLDER_VLLM },
    { "v", V_, RFG_VIEW, 4, { BLOCKS, HKV, DV, PAGE }, 0, K_ + 1, .if_set = PAGED | OLDER_VLLM },
    { "v", V_, RFG_VIEW, 3, { KEYS, HKV, DV }, 0, K_ + 1, .if_set = PACKED },
    { "cu_seqlens_k", CU_K, RFG_OPTIONAL, 1, { B | RFG_PLUS_ONE }, I32 },
    { "block_table", TABLE, RFG_VIEW | RFG_OPTIONAL, 2, { B, 0 }, I32 },
    { "kv_lens", LENS, RFG_OPTIONAL, 1, { B }, I32 },
    { "lse", LSE, LSES, 3, { B, HQ, SQ }, F32, .if_clear = VARLEN | ONE },
    { "lse", LSE, LSES, 2, { B, HQ }, F32, .if_set = ONE },
    { "lse", LSE, LSES, 2, { HQ, TOKENS }, F32, .if_set = VARLEN },
    { "sinks", SINKS, RFG_OPTIONAL, 1, { HQ }, F32, Q + 1 },
    { "alibi", ALIBI, RFG_OPTIONAL, 1, { HQ }, F32 },
    { "k_scale", K_SCALE, RFG_OPTIONAL, 1, { HKV | RFG_OR_ONE }, F32, .if_clear = EACH_TOKEN },
    { "v_scale", V_SCALE, RFG_OPTIONAL, 1, { HKV | RFG_OR_ONE }, F32, .if_clear = EACH_TOKEN },
    { "k_scale", K_SCALE, SCALES, 3, { B, ROWS, HKV }, F32, .if_set = EACH_TOKEN, .if_clear = PACKED | PAGED },
    { "v_scale", V_SCALE, SCALES, 3, { B, ROWS, HKV }, F32, .if_set = EACH_TOKEN, .if_clear = PACKED | PAGED },
    { "k_scale", K_SCALE, SCALES, 3, { BLOCKS, PAGE, HKV }, F32, .if_set = EACH_TOKEN | PAGED },
    { "v_scale", V_SCALE, SCALES, 3, { BLOCKS, PAGE, HKV }, F32, .if_set = EACH_TOKEN | PAGED },
    { "k_scale", K_SCALE, SCALES, 2, { KEYS, HKV }, F32, .if_set = EACH_TOKEN | PACKED },
    { "v_scale", V_SCALE, SCALES, 2, { KEYS, HKV }, F32, .if_set = EACH_TOKEN | PACKED },
};
/* clang-format on */

/* Which of the optional tensors go together. */
static rfg_status check_kind(const struct mha_call *c)
{
    const rfg_mha_params *p = &c->p;
    const char *fn = c->fn;
    if (c->op == &rfg_op_mha_decode_desc)
        return !p->block_table && c->k && c->k->ndim == 5
                   ? BAD("%s: block_table is NULL: k of 5 dimensions is a cache of pages and needs one", fn)
                   : RFG_OK;
    if (!p->block_table != !p->kv_lens)
        return BAD("%s: %s is NULL: a paged cache needs block_table and kv_lens", fn,
                   p->block_table ? "kv_lens" : "block_table");
    if (p->cu_seqlens_k && p->block_table)
        return BAD("%s: cu_seqlens_k is given beside block_table: a paged cache has its lengths in kv_lens", fn);
    if (p->cu_seqlens_k && !p->cu_seqlens_q)
        return BAD("%s: cu_seqlens_q is NULL: cu_seqlens_k needs it", fn);
    if (p->cu_seqlens_q && !p->cu_seqlens_k && !p->block_table)
        return BAD("%s: cu_seqlens_k is NULL: cu_seqlens_q needs it, or a paged cache", fn);
    if (p->max_seqlen_q < 0 || (!p->cu_seqlens_q && p->max_seqlen_q))
        return BAD("%s: max_seqlen_q is %" PRId32 ": must be %s", fn, p->max_seqlen_q,
                   p->cu_seqlens_q ? "0 or above" : "0, cu_seqlens_q is NULL");
    return RFG_OK;
}

static rfg_status check_tensors(const struct mha_call *c, struct rfg_tensors *t)
{
    const rfg_mha_params *p = &c->p;
    bool decode = c->op == &rfg_op_mha_decode_desc, older = decode && c->k && c->k->ndim == 5;
    if (!decode)
        t->facts = (p->cu_seqlens_q ? VARLEN : 0) | (p->cu_seqlens_k ? PACKED : 0);
    t->facts |= (p->block_table ? PAGED : 0) | (older ? OLDER_VLLM : 0) | (decode && c->q && c->q->ndim == 3 ? ONE : 0);
    const rfg_tensor *scale = p->k_scale ? p->k_scale : p->v_scale;
    t->facts |= scale && scale->ndim > 1 ? EACH_TOKEN : 0;
    if (older && c->q && (c->q->ndim == 3 || c->q->ndim == 4)) {
        int64_t x = rfg_format_elements((int)c->k->dtype, 16);
        rfg_set_axis(t, CHUNKS, x ? c->q->shape[c->q->ndim - 1] / x : 0);
        rfg_set_axis(t, CHUNK, x);
    }
    rfg_status st = rfg_check_tensors(t, rules, RFG_RULES(rules));
    if (st)
        return st;
    if (p->block_table && p->block_table->shape[1] > RFG_MAX_SIZE / rfg_size(t, PAGE))
        return BAD("%s: block_table has %" PRId64 " columns: times k's page of %" PRId64 " must be at most %d", c->fn,
                   p->block_table->shape[1], rfg_size(t, PAGE), RFG_MAX_SIZE);
    for (int i = K_SCALE; t->facts & EACH_TOKEN && i <= V_SCALE; i++)
        for (int n = 0; n < t->o[i].t->ndim; n++)
            if (t->o[i].t->shape[n] > 1 && t->o[i].t->strides[n] > INT32_MAX)
                return BAD("%s: %s has stride %" PRId64 " in dimension %d: must be at most %d", c->fn, t->o[i].name,
                           t->o[i].t->strides[n], n, INT32_MAX);
    double rows = (double)rfg_size(t, TOKENS) * (double)rfg_size(t, HQ); /* of varlen: the problem doesn't say */
    if (rows > RFG_MAX_SIZE)
        return BAD("%s: q has %.0f rows: tokens times heads must be at most %d", c->fn, rows, RFG_MAX_SIZE);
    return rfg_check_overlaps(t);
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

static rfg_status check_numbers(const struct mha_call *c)
{
    const rfg_mha_params *p = &c->p;
    const char *fn = c->fn;
    if (!isfinite(p->scale))
        return BAD("%s: scale is %g: must be finite (0: 1 / sqrt(D))", fn, (double)p->scale);
    if (!isfinite(p->soft_cap) || p->soft_cap < 0)
        return BAD("%s: soft_cap is %g: must be finite and above 0, or 0 for none", fn, (double)p->soft_cap);
    if (p->window < RFG_MHA_WINDOW_SIDES)
        return BAD("%s: window is %" PRId32 ": must be how many keys a query sees, 0 for all, or RFG_MHA_WINDOW_SIDES",
                   fn, p->window);
    if (p->window != RFG_MHA_WINDOW_SIDES && (p->window_left || p->window_right))
        return BAD("%s: window_left is %" PRId32 ", window_right %" PRId32 ": must be 0, window is %" PRId32
                   " and not RFG_MHA_WINDOW_SIDES",
                   fn, p->window_left, p->window_right, p->window);
    if (p->window_left < -1 || p->window_right < -1)
        return BAD("%s: window_left is %" PRId32 ", window_right %" PRId32 ": must be 0 or above, or -1 for all keys",
                   fn, p->window_left, p->window_right);
    if (p->max_seqlen_k < 0)
        return BAD("%s: max_seqlen_k is %" PRId32 ": must be 0 or above", fn, p->max_seqlen_k);
    if (p->mean_seqlen_k < 0)
        return BAD("%s: mean_seqlen_k is %" PRId32 ": must be 0 or above", fn, p->mean_seqlen_k);
    return RFG_OK;
}

/* ---- the problem ------------------------------------------------------------------------------------------------ */

static void problem_of(const struct mha_call *c, const struct rfg_tensors *t, struct rfg_problem *prob)
{
    const rfg_mha_params *p = &c->p;
    const struct rfg_operand *o = t->o;
    int64_t *v = prob->v, held = mha_held(c);
    bool decode = c->op == &rfg_op_mha_decode_desc, varlen = t->facts & VARLEN;
    int64_t sq = varlen           ? p->max_seqlen_q < rfg_size(t, TOKENS) ? p->max_seqlen_q : rfg_size(t, TOKENS)
                           : t->facts & ONE ? 1
                                  : rfg_size(t, SQ);
    bool lone = decode && sq == 1; /* nothing is to the right of the only query */
    bool behind = p->causal || lone, sides = p->window == RFG_MHA_WINDOW_SIDES;
    int64_t seen = sides && p->window_left >= 0 ? (int64_t)p->window_left + 1 : 0; /* with its own */
    *prob = (struct rfg_problem){ .op = c->op };
    prob->dtype[0] = (uint8_t)c->q->dtype;
    prob->dtype[1] = (uint8_t)c->out->dtype;
    v[MHA_B] = rfg_size(t, B);
    v[MHA_HQ] = rfg_size(t, HQ);
    v[MHA_HKV] = rfg_size(t, HKV);
    v[MHA_D] = rfg_size(t, D);
    v[MHA_S] = mha_called_keys(p->max_seqlen_k, held, varlen && !c->p.block_table);
    v[MHA_SQ] = sq;
    v[MHA_DV] = rfg_size(t, DV) == rfg_size(t, D) ? 0 : rfg_size(t, DV);
    v[MHA_CAUSAL] = p->causal && !lone;
    v[MHA_WINDOW] = p->window > 0 ? p->window : !behind ? 0 : seen < RFG_MAX_SIZE ? seen : RFG_MAX_SIZE;
    v[MHA_LEFT] = sides && !behind ? p->window_left : -1;
    v[MHA_RIGHT] = sides && !behind ? p->window_right : -1;
    v[MHA_CAP] = p->soft_cap < (float)MHA_MAX_CAP ? (int64_t)ceilf(p->soft_cap) : MHA_MAX_CAP;
    v[MHA_SINK] = p->sinks != NULL;
    v[MHA_STYPE] = p->sinks && p->sinks->dtype != RFG_F32 ? (int64_t)p->sinks->dtype : 0;
    v[MHA_ALIBI] = p->alibi != NULL;
    v[MHA_LSE] = p->lse != NULL;
    v[MHA_VARLEN] = varlen;
    v[MHA_PAGE] = c->p.block_table ? rfg_size(t, PAGE) : 0;
    v[MHA_KV] = c->k->dtype == c->q->dtype ? 0 : (int64_t)c->k->dtype;
    bool heads = (p->k_scale && o[K_SCALE].cols > 1) || (p->v_scale && o[V_SCALE].cols > 1);
    v[MHA_SCALES] = t->facts & EACH_TOKEN      ? MHA_SCALES_TOKEN
                    : heads                    ? MHA_SCALES_HEAD
                    : p->k_scale || p->v_scale ? MHA_SCALES_TENSOR
                                               : MHA_SCALES_NONE;
    int64_t most = p->max_seqlen_k && p->max_seqlen_k < held ? p->max_seqlen_k : held;
    if (decode && rfg_size(t, B) > 1 && c->p.kv_lens && p->mean_seqlen_k < most - most / 4)
        v[MHA_LENS] = MHA_LENS_LOG;
    v[MHA_FORM] = t->facts & OLDER_VLLM ? MHA_FORM_VLLM : MHA_FORM_NHD;
    v[MHA_ALIGN] = rfg_alignment(o[Q].bits | o[K_].bits | o[V_].bits | o[OUT].bits);
}

static rfg_status run(rfg_context *ctx, struct mha_call *c, const rfg_mha_params *params, rfg_stream stream)
{
    const rfg_mha_params *p = &c->p;
    struct rfg_problem prob;
    struct mha_args a;
    rfg_status st;
    if (!ctx)
        return BAD("%s: ctx is NULL: must be a context", c->fn);
    if ((st = RFG_TAKE_PARAMS(c->fn, rfg_mha_params, &c->p, params)) || (st = check_numbers(c)) || (st = check_kind(c)))
        return st;
    bool decode = c->op == &rfg_op_mha_decode_desc;
    /* Decode looks at no cu_seqlens. */
    const rfg_tensor *const all[] = { c->q,
                                      c->out,
                                      c->k,
                                      c->v,
                                      p->lse,
                                      p->sinks,
                                      p->alibi,
                                      p->k_scale,
                                      p->v_scale,
                                      decode ? NULL : p->cu_seqlens_q,
                                      decode ? NULL : p->cu_seqlens_k,
                                      p->block_table,
                                      p->kv_lens };
    struct rfg_tensors t;
    rfg_tensors_begin(&t, c->fn, axes, all, TENSORS);
    if ((st = check_tensors(c, &t)))
        return st;
    problem_of(c, &t, &prob);
    if (prob.v[MHA_B] == 0 || prob.v[MHA_SQ] == 0 || prob.v[MHA_HQ] == 0)
        return rfg_check_problem(c->fn, &prob);
    mha_fill_args(c, &a);
    return rfg_dispatch(ctx, &prob, &a, stream);
}

RFG_PARAMS_END(rfg_mha_params, kv_lens);

rfg_status rfg_op_mha(rfg_context *ctx, const rfg_tensor *out, const rfg_tensor *q, const rfg_tensor *k,
                      const rfg_tensor *v, const rfg_mha_params *params, rfg_stream stream)
{
    struct mha_call c = { .fn = "rfg_op_mha", .op = &rfg_op_mha_desc, .out = out, .q = q, .k = k, .v = v };
    return run(ctx, &c, params, stream);
}

rfg_status rfg_op_mha_decode(rfg_context *ctx, const rfg_tensor *out, const rfg_tensor *q, const rfg_tensor *k,
                             const rfg_tensor *v, const rfg_mha_params *params, rfg_stream stream)
{
    struct mha_call c = {
        .fn = "rfg_op_mha_decode", .op = &rfg_op_mha_decode_desc, .out = out, .q = q, .k = k, .v = v
    };
    return run(ctx, &c, params, stream);
}
