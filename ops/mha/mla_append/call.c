/* SPDX-License-Identifier: MIT
 *
 * rfg_op_mla_append: what its tensors must be, and the problem of a call, whose rules are append.c's. */
#include <float.h>
#include <inttypes.h>
#include <math.h>

#include "append.h"
#include "dispatch/dispatch.h"
#include "ops/params.h"
#include "ops/tensors.h"

#define FN       "rfg_op_mla_append"
#define BAD(...) rfg_fail(RFG_ERROR_INVALID_ARGUMENT, FN ": " __VA_ARGS__)

RFG_PARAMS_END(rfg_mla_append_params, reserved);

enum { LATENT, K_ROPE, KV, SLOTS, NORM, COS_SIN, POSITIONS, Q, Q_OUT, KV_SCALE, TENSORS };

enum { T = 1, C, R, D, HQ, BLOCKS, PAGE, ONE_HEAD, BYTES, MAXPOS };
static const struct rfg_axis axes[] = {
    [T] = { "tokens", 0, 0 },
    [C] = { "elements of the latent", 1, 0 },
    [R] = { "rotated elements", 1, 0 },
    [D] = { "elements of latent and k_rope", 1, 0 },
    [HQ] = { "heads", 0, 0 },
    [BLOCKS] = { "blocks", 0, 0 },
    [PAGE] = { "rows of a block", 1, 0 },
    [ONE_HEAD] = { "heads", 1, 1 },
    [BYTES] = { "bytes of a row", 1, 0 },
    [MAXPOS] = { "positions", 0, 0 },
};

/* HEADED: kv has a dimension for its head. BOTH: the norm is of latent and k_rope. */
enum { HEADED = 1, FORMATTED = 2, BOTH = 4 };
#define HALVES RFG_HALF_FORMATS
#define F32    RFG_DTYPE(F32)
#define E4M3   RFG_DTYPE(E4M3)
#define OUTPUT (RFG_VIEW | RFG_OUT)

/* clang-format off */
static const struct rfg_tensor_rule rules[] = {
    { "latent", LATENT, RFG_VIEW, 2, { T, C }, HALVES },
    { "k_rope", K_ROPE, RFG_VIEW | RFG_OPTIONAL, 2, { T, R }, 0, LATENT + 1 },
    { "slots", SLOTS, 0, 1, { T }, RFG_DTYPE(I64) },
    { "cos_sin", COS_SIN, RFG_OPTIONAL, 2, { MAXPOS, R }, F32, LATENT + 1, .with = POSITIONS + 1 },
    { "positions", POSITIONS, RFG_OPTIONAL, 1, { T }, RFG_INDEX_FORMATS, .with = COS_SIN + 1 },
    { "q", Q, RFG_VIEW | RFG_OPTIONAL, 3, { T, HQ, R }, 0, LATENT + 1, .with = Q_OUT + 1 },
    { "q_out", Q_OUT, OUTPUT | RFG_OPTIONAL, 3, { T, HQ, R }, 0, LATENT + 1, .same = Q + 1, .with = Q + 1 },
    { "kv_scale", KV_SCALE, RFG_OPTIONAL, 1, { ONE_HEAD }, F32 },
};
static const struct rfg_tensor_rule more_rules[] = {
    { "norm", NORM, RFG_OPTIONAL, 1, { C }, F32, LATENT + 1, .if_clear = BOTH },
    { "norm", NORM, RFG_OPTIONAL, 1, { D }, F32, LATENT + 1, .if_set = BOTH },
    { "kv", KV, OUTPUT, 3, { BLOCKS, PAGE, D }, RFG_8_BIT_FLOATS, LATENT + 1, .if_clear = FORMATTED | HEADED },
    { "kv", KV, OUTPUT, 4, { BLOCKS, PAGE, ONE_HEAD, D }, RFG_8_BIT_FLOATS, LATENT + 1, .if_set = HEADED,
      .if_clear = FORMATTED },
    { "kv", KV, OUTPUT, 3, { BLOCKS, PAGE, BYTES }, E4M3, .if_set = FORMATTED, .if_clear = HEADED },
    { "kv", KV, OUTPUT, 4, { BLOCKS, PAGE, ONE_HEAD, BYTES }, E4M3, .if_set = FORMATTED | HEADED },
};
/* clang-format on */

static rfg_status check_params(const struct append_call *c)
{
    const rfg_mla_append_params *p = &c->p;
    if (!isfinite(p->eps) || (p->eps != 0 && p->eps < FLT_MIN))
        return BAD("eps is %g: must be finite and at least 2^-126, or 0: 1e-6", (double)p->eps);
    if (p->eps > 0 && !p->norm)
        return BAD("eps is %g: must be 0, norm is NULL", (double)p->eps);
    if (p->gptj && !p->cos_sin)
        return BAD("gptj is %" PRId32 ": must be 0, cos_sin is NULL", p->gptj);
    if (p->reserved)
        return BAD("reserved is %" PRId32 ": must be 0", p->reserved);
    if (p->q && !p->cos_sin)
        return BAD("cos_sin is NULL: q is rotated by it");
    if (p->cos_sin && !c->k_rope)
        return BAD("k_rope is NULL: cos_sin rotates it");
    return mla_check_format(FN, p->format);
}

static rfg_status check_tensors(const struct append_call *c, struct rfg_tensors *t)
{
    const rfg_mla_append_params *p = &c->p;
    rfg_status st;
    t->facts = (c->kv && c->kv->ndim == 4 ? HEADED : 0) | (p->format ? FORMATTED : 0);
    if ((st = rfg_check_tensors(t, rules, RFG_RULES(rules))))
        return st;
    rfg_set_axis(t, D, rfg_size(t, C) + rfg_size(t, R));
    if (p->norm && c->k_rope && p->norm->ndim == 1 && p->norm->shape[0] != rfg_size(t, C))
        t->facts |= BOTH;
    if (p->format)
        rfg_set_axis(t, BYTES, MLA_KEY_BYTES(p->format));
    if ((st = rfg_check_tensors(t, more_rules, RFG_RULES(more_rules))) || (st = mla_check_rows(FN, c->kv, p->format)))
        return st;
    return rfg_check_overlaps(t);
}

static void problem_of(const struct append_call *c, const struct rfg_tensors *t, struct rfg_problem *prob)
{
    const rfg_mla_append_params *p = &c->p;
    const struct rfg_operand *o = t->o;
    int64_t *v = prob->v;
    uintptr_t bits = o[LATENT].bits | o[K_ROPE].bits | o[NORM].bits | o[COS_SIN].bits | o[Q].bits | o[Q_OUT].bits;
    *prob = (struct rfg_problem){ .op = &rfg_op_mla_append_desc };
    prob->dtype[0] = (uint8_t)c->latent->dtype;
    prob->dtype[1] = (uint8_t)c->kv->dtype;
    v[APPEND_T] = rfg_size(t, T);
    v[APPEND_D] = rfg_size(t, D);
    v[APPEND_R] = rfg_size(t, R);
    v[APPEND_HQ] = rfg_size(t, HQ);
    v[APPEND_PAGE] = rfg_size(t, PAGE);
    v[APPEND_FORMAT] = (int64_t)p->format;
    v[APPEND_NORM] = !p->norm ? APPEND_NORM_NONE : t->facts & BOTH ? APPEND_NORM_ALL : APPEND_NORM_LATENT;
    v[APPEND_WTYPE] = p->norm && p->norm->dtype != c->latent->dtype ? (int64_t)p->norm->dtype : 0;
    v[APPEND_ROPE] = !p->cos_sin ? APPEND_ROPE_NONE : p->gptj ? APPEND_ROPE_GPTJ : APPEND_ROPE_NEOX;
    v[APPEND_TABLE] = p->cos_sin && p->cos_sin->dtype != c->latent->dtype ? (int64_t)p->cos_sin->dtype : 0;
    v[APPEND_POS] = p->positions && p->positions->dtype != RFG_I64 ? (int64_t)p->positions->dtype : 0;
    v[APPEND_SCALE] = p->kv_scale != NULL;
    v[APPEND_INPLACE] = p->q && o[Q].begin == o[Q_OUT].begin && v[APPEND_HQ];
    if (!p->format)
        bits |= o[KV].bits * (rfg_format_bytes((int)c->kv->dtype, 1) == 1 ? 2 : 1);
    v[APPEND_ALIGN] = rfg_alignment(bits);
}

rfg_status rfg_op_mla_append(rfg_context *ctx, const rfg_tensor *kv, const rfg_tensor *latent, const rfg_tensor *k_rope,
                             const rfg_tensor *slots, const rfg_mla_append_params *params, rfg_stream stream)
{
    struct append_call c = { kv, latent, k_rope, slots, RFG_MLA_APPEND_PARAMS_INIT };
    const rfg_mla_append_params *p = &c.p;
    struct rfg_problem prob;
    struct rfg_tensors t;
    struct append_args a;
    rfg_status st;
    if (!ctx)
        return BAD("ctx is NULL: must be a context");
    if ((st = RFG_TAKE_PARAMS(FN, rfg_mla_append_params, &c.p, params)) || (st = check_params(&c)))
        return st;
    const rfg_tensor *const all[] = { latent,     k_rope,       kv,   slots,    p->norm,
                                      p->cos_sin, p->positions, p->q, p->q_out, p->kv_scale };
    rfg_tensors_begin(&t, FN, axes, all, TENSORS);
    if ((st = check_tensors(&c, &t)))
        return st;
    problem_of(&c, &t, &prob);
    if (prob.v[APPEND_T] == 0)
        return rfg_check_problem(FN, &prob);
    append_fill_args(&c, &a);
    return rfg_dispatch(ctx, &prob, &a, stream);
}
