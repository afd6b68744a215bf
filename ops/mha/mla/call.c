/* SPDX-License-Identifier: MIT
 *
 * rfg_op_mla_decode: what its tensors must be, and the problem of a call, whose rules are mla.c's. */
#include <inttypes.h>
#include <math.h>

#include "dispatch/dispatch.h"
#include "mla_call.h"
#include "ops/mha/mha_call.h"
#include "ops/params.h"
#include "ops/tensors.h"

#define FN       "rfg_op_mla_decode"
#define BAD(...) rfg_fail(RFG_ERROR_INVALID_ARGUMENT, FN ": " __VA_ARGS__)

RFG_PARAMS_END(rfg_mla_params, cp_interleave);

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

enum { Q, Q_ROPE, OUT, KV, LSE, SINKS, KV_SCALE, TABLE, INDPTR, INDICES, LENS, POSITIONS, TENSORS };

enum { B = 1, SQ, HQ, D, DV, ROPE, BLOCKS, PAGE, ONE_HEAD, COLUMNS, ENTRIES, BYTES };
static const struct rfg_axis axes[] = {
    [B] = { "sequences", 0, RFG_MAX_SIZE - 1 },
    [SQ] = { "queries", 0, 0 },
    [HQ] = { "heads", 0, 0 },
    [D] = { "elements, with those of q_rope", 0, 0 },
    [DV] = { "elements of a value", 0, 0 },
    [ROPE] = { "rotated elements", 0, 0 },
    [BLOCKS] = { "blocks", 0, 0 },
    [PAGE] = { "rows of a block", 0, 0 },
    [ONE_HEAD] = { "heads", 1, 1 },
    [COLUMNS] = { "columns", 0, 0 },
    [ENTRIES] = { "entries", 0, 0 },
    [BYTES] = { "bytes of a row", 0, 0 },
};

/* ONE: q has no dimension for queries. HEADED: kv has one for its head. FORMATTED: a row of kv is bytes. */
enum { ONE = 1, HEADED = 2, PAGED = 4, APART = 8, FORMATTED = 16 };
#define HALVES RFG_HALF_FORMATS
#define F32    RFG_DTYPE(F32)
#define I32    RFG_DTYPE(I32)
#define OUTPUT (RFG_VIEW | RFG_OUT)
#define LSES   (RFG_VIEW | RFG_ANY_LAST | RFG_OUT | RFG_OPTIONAL)

/* clang-format off */
static const struct rfg_tensor_rule rules[] = {
    { "q", Q, RFG_VIEW, 4, { B, SQ, HQ, D }, HALVES, .if_clear = ONE | APART },
    { "q", Q, RFG_VIEW, 3, { B, HQ, D }, HALVES, .if_set = ONE, .if_clear = APART },
    { "q", Q, RFG_VIEW, 4, { B, SQ, HQ, DV }, HALVES, .if_set = APART, .if_clear = ONE },
    { "q", Q, RFG_VIEW, 3, { B, HQ, DV }, HALVES, .if_set = ONE | APART },
    { "out", OUT, OUTPUT, 4, { B, SQ, HQ, DV }, 0, Q + 1, .if_clear = ONE },
    { "out", OUT, OUTPUT, 3, { B, HQ, DV }, 0, Q + 1, .if_set = ONE },
    { "q_rope", Q_ROPE, RFG_VIEW | RFG_OPTIONAL, 4, { B, SQ, HQ, ROPE }, 0, Q + 1, .if_clear = ONE },
    { "q_rope", Q_ROPE, RFG_VIEW | RFG_OPTIONAL, 3, { B, HQ, ROPE }, 0, Q + 1, .if_set = ONE },
};
static const struct rfg_tensor_rule more_rules[] = {
    MLA_CACHE_RULES(Q + 1),
    { "block_table", TABLE, RFG_VIEW | RFG_OPTIONAL, 2, { B, COLUMNS }, I32 },
    { "kv_indptr", INDPTR, RFG_OPTIONAL, 1, { B | RFG_PLUS_ONE }, I32 },
    { "kv_indices", INDICES, RFG_OPTIONAL, 1, { ENTRIES }, I32 },
    { "kv_lens", LENS, RFG_OPTIONAL, 1, { B }, I32 },
    { "q_positions", POSITIONS, RFG_OPTIONAL, 1, { B }, I32 },
    { "lse", LSE, LSES, 3, { B, HQ, SQ }, F32, .if_clear = ONE },
    { "lse", LSE, LSES, 2, { B, HQ }, F32, .if_set = ONE },
    { "sinks", SINKS, RFG_OPTIONAL, 1, { HQ }, F32, Q + 1 },
    { "kv_scale", KV_SCALE, RFG_OPTIONAL, 1, { ONE_HEAD }, F32 },
};
/* clang-format on */

static rfg_status check_tensors(const struct mla_call *c, struct rfg_tensors *t)
{
    const rfg_mla_params *p = &c->p;
    rfg_status st;
    t->facts = (c->q && c->q->ndim == 3 ? ONE : 0) | (c->kv && c->kv->ndim == 4 ? HEADED : 0) |
               (p->block_table || p->kv_indices ? PAGED : 0) | (p->q_rope ? APART : 0) | (p->format ? FORMATTED : 0);
    if ((st = rfg_check_tensors(t, rules, RFG_RULES(rules))))
        return st;
    if (t->facts & APART)
        rfg_set_axis(t, D, rfg_size(t, DV) + rfg_size(t, ROPE));
    if (rfg_size(t, DV) > rfg_size(t, D))
        return BAD("out has %" PRId64 " elements of a value: must be at most q's %" PRId64, rfg_size(t, DV),
                   rfg_size(t, D));
    if (p->format)
        rfg_set_axis(t, BYTES, MLA_KEY_BYTES(p->format));
    st = rfg_check_tensors(t, more_rules, RFG_RULES(more_rules));
    return st ? st : mla_check_cache(t, c->kv, p->format, p->block_table, p->kv_indices);
}

/* Keys of a rank of several stand at positions that only they and q_positions say. */
static rfg_status check_ranks(const rfg_mla_params *p)
{
    if (p->cp_size < 0 || p->cp_interleave < 0)
        return BAD("cp_size is %" PRId32 ", cp_interleave %" PRId32 ": must be 0 or above", p->cp_size,
                   p->cp_interleave);
    if (p->cp_rank < 0 || p->cp_rank >= (p->cp_size > 1 ? p->cp_size : 1))
        return BAD("cp_rank is %" PRId32 ": must be from 0 to below cp_size, %" PRId32, p->cp_rank, p->cp_size);
    if ((p->cp_size > 1 || p->cp_interleave > 1) && !p->q_positions)
        return BAD("cp_size is %" PRId32 ", cp_interleave %" PRId32 ": must be with q_positions", p->cp_size,
                   p->cp_interleave);
    if (p->cp_interleave > 1 && p->cp_size < 2)
        return BAD("cp_interleave is %" PRId32 ": must be with cp_size above 1", p->cp_interleave);
    if ((int64_t)p->cp_size * (p->cp_interleave > 1 ? p->cp_interleave : 1) > RFG_MAX_SIZE)
        return BAD("cp_size is %" PRId32 ", cp_interleave %" PRId32 ": their product must be at most %d", p->cp_size,
                   p->cp_interleave, RFG_MAX_SIZE);
    return mla_check_format(FN, p->format);
}

static rfg_status check_params(const struct mla_call *c)
{
    const rfg_mla_params *p = &c->p;
    if (!isfinite(p->scale) || p->scale == 0)
        return BAD("scale is %g: must be finite and given: 1 / sqrt(elements of an unabsorbed head)", (double)p->scale);
    if (!isfinite(p->soft_cap) || p->soft_cap < 0)
        return BAD("soft_cap is %g: must be finite and above 0, or 0 for none", (double)p->soft_cap);
    if (p->max_seqlen_k < 0)
        return BAD("max_seqlen_k is %" PRId32 ": must be 0 or above", p->max_seqlen_k);
    if (!p->kv_indptr != !p->kv_indices)
        return BAD("%s is NULL: kv_indptr and kv_indices belong together", p->kv_indptr ? "kv_indices" : "kv_indptr");
    if (p->kv_indices && p->block_table)
        return BAD("kv_indices is given beside block_table: a cache has one table");
    if (p->q_positions && !p->causal)
        return BAD("q_positions is given: must be with causal");
    return check_ranks(p);
}

/* ---- the problem ------------------------------------------------------------------------------------------------- */

static void problem_of(const struct mla_call *c, const struct rfg_tensors *t, struct rfg_problem *prob)
{
    const rfg_mla_params *p = &c->p;
    const struct rfg_operand *o = t->o;
    int64_t *v = prob->v, d = rfg_size(t, D), dv = rfg_size(t, DV);
    *prob = (struct rfg_problem){ .op = &rfg_op_mla_decode_desc };
    prob->dtype[0] = (uint8_t)c->q->dtype;
    prob->dtype[1] = (uint8_t)c->out->dtype;
    v[MLA_B] = rfg_size(t, B);
    v[MLA_HQ] = rfg_size(t, HQ);
    v[MLA_D] = d;
    v[MLA_S] = mha_called_keys(p->max_seqlen_k, mla_held(c), false);
    v[MLA_SQ] = t->facts & ONE ? 1 : rfg_size(t, SQ);
    v[MLA_DV] = dv == d ? 0 : dv;
    v[MLA_CAUSAL] = p->causal && (v[MLA_SQ] > 1 || p->q_positions);
    v[MLA_CAP] = p->soft_cap < (float)MHA_MAX_CAP ? (int64_t)ceilf(p->soft_cap) : MHA_MAX_CAP;
    v[MLA_SINK] = p->sinks != NULL;
    v[MLA_STYPE] = p->sinks && p->sinks->dtype != RFG_F32 ? (int64_t)p->sinks->dtype : 0;
    v[MLA_LSE] = p->lse != NULL;
    v[MLA_PAGE] = t->facts & PAGED ? rfg_size(t, PAGE) : 0;
    v[MLA_KV] = c->kv->dtype == c->q->dtype ? 0 : (int64_t)c->kv->dtype;
    v[MLA_SCALE] = p->kv_scale != NULL;
    v[MLA_FORMAT] = (int64_t)p->format;
    v[MLA_POSITIONS] = p->q_positions != NULL;
    v[MLA_TABLE] = p->kv_indices ? MLA_TABLE_INDICES : MLA_TABLE_BLOCK;
    v[MLA_Q] = p->q_rope ? MLA_Q_APART : MLA_Q_WHOLE;
    v[MLA_ALIGN] = rfg_alignment(o[Q].bits | o[Q_ROPE].bits | o[OUT].bits | (p->format ? 0 : o[KV].bits));
}

rfg_status rfg_op_mla_decode(rfg_context *ctx, const rfg_tensor *out, const rfg_tensor *q, const rfg_tensor *kv,
                             const rfg_mla_params *params, rfg_stream stream)
{
    struct mla_call c = { .out = out, .q = q, .kv = kv, .p = RFG_MLA_PARAMS_INIT };
    const rfg_mla_params *p = &c.p;
    struct rfg_problem prob;
    struct rfg_tensors t;
    struct mla_args a;
    rfg_status st;
    if (!ctx)
        return BAD("ctx is NULL: must be a context");
    if ((st = RFG_TAKE_PARAMS(FN, rfg_mla_params, &c.p, params)) || (st = check_params(&c)))
        return st;
    const rfg_tensor *const all[] = {
        q,          p->q_rope,     out, kv, p->lse, p->sinks, p->kv_scale, p->block_table, p->kv_indptr, p->kv_indices,
        p->kv_lens, p->q_positions
    };
    rfg_tensors_begin(&t, FN, axes, all, TENSORS);
    if ((st = check_tensors(&c, &t)))
        return st;
    if (!(t.facts & ONE) && q->shape[1] == 0) /* which no problem is */
        return RFG_OK;
    problem_of(&c, &t, &prob);
    if (prob.v[MLA_B] == 0)
        return rfg_check_problem(FN, &prob);
    mla_fill_args(&c, &a);
    return rfg_dispatch(ctx, &prob, &a, stream);
}
