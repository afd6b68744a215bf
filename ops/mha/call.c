/* SPDX-License-Identifier: MIT
 *
 * rfg_op_mha and rfg_op_mha_decode: what they refuse, and the problem of a call. */
#include <inttypes.h>
#include <math.h>

#include "dispatch/dispatch.h"
#include "ops/operand.h"
#include "ops/params.h"
#include "ops/view.h"
#include "mha_call.h"

#define BAD(...) rfg_fail(RFG_ERROR_INVALID_ARGUMENT, __VA_ARGS__)

/* Everything about a call that its checks found out. */
struct facts {
    struct rfg_view out, q, k, v, lse, sinks, alibi, k_scale, v_scale, cu_q, cu_k, table, lens;
    int64_t batch, sq, tokens; /* tokens: of varlen, all together; sq: the most of a sequence */
    int64_t hq, hkv, d, dv, page;
    bool decode, varlen, older_vllm;
};

/* ---- queries, keys, values -------------------------------------------------------------------------------------- */

static rfg_status check_queries(const struct mha_call *c, struct facts *f)
{
    const char *fn = c->fn;
    rfg_status st;
    int dims = f->varlen ? 3 : f->decode && c->q && c->q->ndim == 3 ? 3 : 4;
    if ((st = rfg_check_view(&f->q, fn, "q", c->q, dims, true)))
        return st;
    if (c->q->dtype != RFG_BF16 && c->q->dtype != RFG_F16)
        return BAD("%s: q is %s: must be bf16 or f16", fn, rfg_dtype_name(c->q->dtype));
    if ((st = rfg_check_view(&f->out, fn, "out", c->out, dims, true)) ||
        (st = rfg_check_dtype(&f->out, fn, c->q->dtype, "q's dtype, ")))
        return st;
    for (int i = 0; i < dims - 1; i++)
        if ((st = rfg_check_size(&f->out, fn, i, c->q->shape[i], "as q's")))
            return st;
    if ((st = rfg_check_distinct(&f->out, fn)))
        return st;
    f->hq = c->q->shape[dims - 2];
    f->d = c->q->shape[dims - 1];
    f->dv = c->out->shape[dims - 1];
    f->tokens = c->q->shape[0];
    f->batch = f->tokens;
    f->sq = dims == 4 ? c->q->shape[1] : 1;
    if (f->varlen) {
        f->batch = c->p.cu_seqlens_q->shape[0] - 1;
        f->sq = c->p.max_seqlen_q < f->tokens ? c->p.max_seqlen_q : f->tokens;
    }
    if (f->decode && f->sq > 8)
        return BAD("%s: q has %" PRId64 " queries a sequence: must have at most 8 (rfg_op_mha takes more)", fn, f->sq);
    if (c->p.window > 0 && !c->p.causal && !(f->decode && f->sq == 1))
        return BAD("%s: window is %" PRId32 " and causal 0: must be with causal%s: it says nothing of later keys, "
                   "RFG_MHA_WINDOW_SIDES does",
                   fn, c->p.window, f->decode ? " or one query a sequence" : "");
    if (!mha_head_dims_allowed(f->d, f->dv))
        return BAD("%s: q's heads have %" PRId64 " elements and out's %" PRId64
                   ": must be both 64, 96, 128, 192 or 256, or 192 and 128",
                   fn, f->d, f->dv);
    double rows = (double)(f->varlen ? f->tokens : f->batch * f->sq) * (double)f->hq;
    if (rows > RFG_MAX_SIZE)
        return BAD("%s: q has %.0f rows: queries times heads must be at most %d", fn, rows, RFG_MAX_SIZE);
    return RFG_OK;
}

static bool is_kv_dtype(rfg_dtype dtype, rfg_dtype q)
{
    return dtype == q || dtype == RFG_E4M3 || dtype == RFG_E4M3FNUZ || dtype == RFG_E5M2;
}

/* vLLM's older form, k [blocks,Hkv,D/x,page,x], v [blocks,Hkv,D,page]. */
static rfg_status check_older_vllm(const struct mha_call *c, struct facts *f)
{
    const char *fn = c->fn;
    rfg_status st;
    if ((st = rfg_check_view(&f->k, fn, "k", c->k, 5, true)) || (st = rfg_check_view(&f->v, fn, "v", c->v, 4, true)))
        return st;
    int64_t x = rfg_format_elements((int)c->k->dtype, 16);
    f->hkv = c->k->shape[1];
    f->page = c->k->shape[3];
    if (!c->p.block_table)
        return BAD("%s: block_table is NULL: k of 5 dimensions is a cache of pages and needs one", fn);
    if ((st = rfg_check_size(&f->k, fn, 4, x, "16 bytes' worth")) ||
        (st = rfg_check_size(&f->k, fn, 2, f->d / x, "D / x")) ||
        (st = rfg_check_size(&f->v, fn, 0, c->k->shape[0], "k's blocks")) ||
        (st = rfg_check_size(&f->v, fn, 1, f->hkv, "k's heads")) ||
        (st = rfg_check_size(&f->v, fn, 2, f->dv, "out's elements of a head")))
        return st;
    return rfg_check_size(&f->v, fn, 3, f->page, "k's page");
}

static rfg_status check_cache(const struct mha_call *c, struct facts *f)
{
    const char *fn = c->fn;
    rfg_status st;
    int dims = f->varlen && c->p.cu_seqlens_k ? 3 : 4;
    f->older_vllm = f->decode && c->k && c->k->ndim == 5;
    if (f->older_vllm) {
        if ((st = check_older_vllm(c, f)))
            return st;
    } else {
        if ((st = rfg_check_view(&f->k, fn, "k", c->k, dims, true)) ||
            (st = rfg_check_view(&f->v, fn, "v", c->v, dims, true)))
            return st;
        for (int i = 0; i < dims - 1; i++)
            if ((st = rfg_check_size(&f->v, fn, i, c->k->shape[i], "as k's")))
                return st;
        if ((st = rfg_check_size(&f->k, fn, dims - 1, f->d, "q's elements of a head")) ||
            (st = rfg_check_size(&f->v, fn, dims - 1, f->dv, "out's elements of a head")))
            return st;
        f->hkv = c->k->shape[dims - 2];
        f->page = dims == 4 ? c->k->shape[1] : 0;
        if (dims == 4 && !c->p.block_table && (st = rfg_check_size(&f->k, fn, 0, f->batch, "q's sequences")))
            return st;
    }
    if (!is_kv_dtype(c->k->dtype, c->q->dtype))
        return BAD("%s: k is %s: must be q's dtype, %s, or e4m3, e4m3fnuz or e5m2", fn, rfg_dtype_name(c->k->dtype),
                   rfg_dtype_name(c->q->dtype));
    if ((st = rfg_check_dtype(&f->v, fn, c->k->dtype, "k's dtype, ")))
        return st;
    if (f->hkv < 1 || f->hq % f->hkv)
        return BAD("%s: k has %" PRId64 " heads: must divide q's, %" PRId64, fn, f->hkv, f->hq);
    return RFG_OK;
}

/* ---- what finds its way among them ------------------------------------------------------------------------------ */

static rfg_status check_lengths(const struct mha_call *c, struct facts *f)
{
    const char *fn = c->fn;
    const rfg_mha_params *p = &c->p;
    rfg_status st;
    f->table = (struct rfg_view){ .name = "block_table" };
    if (c->p.block_table) {
        if ((st = rfg_check_view(&f->table, fn, "block_table", c->p.block_table, 2, true)) ||
            (st = rfg_check_dtype(&f->table, fn, RFG_I32, "")) ||
            (st = rfg_check_size(&f->table, fn, 0, f->batch, "q's sequences")))
            return st;
        if (f->page < 1 || (f->page & (f->page - 1)))
            return BAD("%s: k has pages of %" PRId64 " rows: must be a power of two", fn, f->page);
        if (c->p.block_table->shape[1] > RFG_MAX_SIZE / f->page)
            return BAD("%s: block_table has %" PRId64 " columns: times k's page of %" PRId64 " must be at most %d", fn,
                       c->p.block_table->shape[1], f->page, RFG_MAX_SIZE);
    }
    if ((st = rfg_check_vector(&f->lens, fn, "kv_lens", c->p.kv_lens, RFG_I32, f->batch, "q's sequences")) ||
        (st = rfg_check_vector(&f->cu_q, fn, "cu_seqlens_q", f->varlen ? p->cu_seqlens_q : NULL, RFG_I32, f->batch + 1,
                               "sequences + 1")) ||
        (st = rfg_check_vector(&f->cu_k, fn, "cu_seqlens_k", f->varlen ? p->cu_seqlens_k : NULL, RFG_I32, f->batch + 1,
                               "sequences + 1, as cu_seqlens_q")))
        return st;
    if (p->max_seqlen_k < 0)
        return BAD("%s: max_seqlen_k is %" PRId32 ": must be 0 or above", fn, p->max_seqlen_k);
    if (p->mean_seqlen_k < 0)
        return BAD("%s: mean_seqlen_k is %" PRId32 ": must be 0 or above", fn, p->mean_seqlen_k);
    return RFG_OK;
}

static rfg_status check_lse(const struct mha_call *c, struct facts *f)
{
    const rfg_tensor *q = c->q, *lse = c->p.lse;
    const char *fn = c->fn;
    rfg_status st;
    f->lse = (struct rfg_view){ .name = "lse" };
    if (!lse)
        return RFG_OK;
    if ((st = rfg_check_view(&f->lse, fn, "lse", lse, q->ndim - 1, false)) ||
        (st = rfg_check_dtype(&f->lse, fn, RFG_F32, "")) || (st = rfg_check_distinct(&f->lse, fn)))
        return st;
    if (f->varlen)
        return (st = rfg_check_size(&f->lse, fn, 0, f->hq, "q's heads"))
                   ? st
                   : rfg_check_size(&f->lse, fn, 1, f->tokens, "q's tokens");
    if ((st = rfg_check_size(&f->lse, fn, 0, f->batch, "q's sequences")) ||
        (st = rfg_check_size(&f->lse, fn, 1, f->hq, "q's heads")) || q->ndim == 3)
        return st;
    return rfg_check_size(&f->lse, fn, 2, f->sq, "q's queries");
}

static rfg_status check_sinks(const struct mha_call *c, struct facts *f)
{
    const rfg_tensor *t = c->p.sinks;
    if (t && t->dtype != RFG_F32 && t->dtype != c->q->dtype)
        return BAD("%s: sinks is %s: must be f32 or q's dtype, %s", c->fn, rfg_dtype_name(t->dtype),
                   rfg_dtype_name(c->q->dtype));
    return rfg_check_vector(&f->sinks, c->fn, "sinks", t, t ? t->dtype : RFG_F32, f->hq, "q's heads");
}

static rfg_status check_scale(const struct mha_call *c, const struct facts *f, struct rfg_view *v, const char *name,
                              const rfg_tensor *t)
{
    bool heads = t && t->ndim == 1 && t->shape[0] != 1;
    rfg_status st = rfg_check_vector(v, c->fn, name, t, RFG_F32, heads ? f->hkv : 1, "1 or k's heads");
    if (st == RFG_OK && t && rfg_format_bytes((int)c->k->dtype, 1) != 1)
        return BAD("%s: %s is given, and k is %s: only 8-bit k and v have scales", c->fn, name,
                   rfg_dtype_name(c->k->dtype));
    return st;
}

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
    return RFG_OK;
}

/* Which of the optional tensors go together. */
static rfg_status check_kind(const struct mha_call *c, struct facts *f)
{
    const rfg_mha_params *p = &c->p;
    const char *fn = c->fn;
    f->decode = c->op == &rfg_op_mha_decode_desc;
    f->varlen = !f->decode && p->cu_seqlens_q;
    if (f->decode)
        return RFG_OK;
    if (!p->block_table != !p->kv_lens)
        return BAD("%s: %s is NULL: a paged cache needs block_table and kv_lens", fn,
                   p->block_table ? "kv_lens" : "block_table");
    if (p->cu_seqlens_k && p->block_table)
        return BAD("%s: cu_seqlens_k is given beside block_table: a paged cache has its lengths in kv_lens", fn);
    if (p->cu_seqlens_k && !p->cu_seqlens_q)
        return BAD("%s: cu_seqlens_q is NULL: cu_seqlens_k needs it", fn);
    if (p->cu_seqlens_q && !p->cu_seqlens_k && !p->block_table)
        return BAD("%s: cu_seqlens_k is NULL: cu_seqlens_q needs it, or a paged cache", fn);
    if (f->varlen && (p->cu_seqlens_q->ndim != 1 || p->cu_seqlens_q->shape[0] < 1))
        return BAD("%s: cu_seqlens_q has %d dimensions, %" PRId64 " elements: must be a vector of sequences + 1", fn,
                   (int)p->cu_seqlens_q->ndim, p->cu_seqlens_q->shape[0]);
    if (!f->varlen && p->max_seqlen_q)
        return BAD("%s: max_seqlen_q is %" PRId32 ": must be 0, cu_seqlens_q is NULL", fn, p->max_seqlen_q);
    if (f->varlen && p->max_seqlen_q < 0)
        return BAD("%s: max_seqlen_q is %" PRId32 ": must be 0 or above", fn, p->max_seqlen_q);
    return RFG_OK;
}

static rfg_status check_apart(const struct mha_call *c, const struct facts *f)
{
    const struct rfg_view *out[] = { &f->out, &f->lse };
    const struct rfg_view *all[] = { &f->q,       &f->k,    &f->v,    &f->sinks, &f->alibi, &f->k_scale,
                                     &f->v_scale, &f->cu_q, &f->cu_k, &f->table, &f->lens,  &f->lse };
    for (int o = 0; o < 2; o++)
        for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
            if (all[i] != out[o] && out[o]->begin < all[i]->end && all[i]->begin < out[o]->end)
                return BAD("%s: %s [%p, %p) overlaps %s [%p, %p): the output may not alias another tensor", c->fn,
                           out[o]->name, (void *)out[o]->begin, (void *)out[o]->end, all[i]->name,
                           (void *)all[i]->begin, (void *)all[i]->end);
    return RFG_OK;
}

/* ---- the problem ------------------------------------------------------------------------------------------------ */

static void problem_of(const struct mha_call *c, const struct facts *f, struct rfg_problem *prob)
{
    const rfg_mha_params *p = &c->p;
    int64_t *v = prob->v, held = mha_held(c);
    bool lone = f->decode && f->sq == 1; /* nothing is to the right of the only query */
    bool behind = p->causal || lone, sides = p->window == RFG_MHA_WINDOW_SIDES;
    int64_t seen = sides && p->window_left >= 0 ? (int64_t)p->window_left + 1 : 0; /* with its own */
    *prob = (struct rfg_problem){ .op = c->op };
    prob->dtype[0] = (uint8_t)c->q->dtype;
    prob->dtype[1] = (uint8_t)c->out->dtype;
    v[MHA_B] = f->batch;
    v[MHA_HQ] = f->hq;
    v[MHA_HKV] = f->hkv;
    v[MHA_D] = f->d;
    v[MHA_S] = mha_called_keys(p->max_seqlen_k, held, f->varlen && !c->p.block_table);
    v[MHA_SQ] = f->sq;
    v[MHA_DV] = f->dv == f->d ? 0 : f->dv;
    v[MHA_CAUSAL] = p->causal && !lone;
    v[MHA_WINDOW] = !behind ? 0 : p->window > 0 ? p->window : seen < RFG_MAX_SIZE ? seen : RFG_MAX_SIZE;
    v[MHA_LEFT] = sides && !behind ? p->window_left : -1;
    v[MHA_RIGHT] = sides && !behind ? p->window_right : -1;
    v[MHA_CAP] = p->soft_cap < (float)MHA_MAX_CAP ? (int64_t)ceilf(p->soft_cap) : MHA_MAX_CAP;
    v[MHA_SINK] = p->sinks != NULL;
    v[MHA_STYPE] = p->sinks && p->sinks->dtype != RFG_F32 ? (int64_t)p->sinks->dtype : 0;
    v[MHA_ALIBI] = p->alibi != NULL;
    v[MHA_LSE] = p->lse != NULL;
    v[MHA_VARLEN] = f->varlen;
    v[MHA_PAGE] = c->p.block_table ? f->page : 0;
    v[MHA_KV] = c->k->dtype == c->q->dtype ? 0 : (int64_t)c->k->dtype;
    bool heads = (p->k_scale && p->k_scale->shape[0] > 1) || (p->v_scale && p->v_scale->shape[0] > 1);
    v[MHA_SCALES] = heads ? MHA_SCALES_HEAD : p->k_scale || p->v_scale ? MHA_SCALES_TENSOR : MHA_SCALES_NONE;
    int64_t most = p->max_seqlen_k && p->max_seqlen_k < held ? p->max_seqlen_k : held;
    if (f->decode && f->batch > 1 && c->p.kv_lens && p->mean_seqlen_k < most - most / 4)
        v[MHA_LENS] = MHA_LENS_LOG;
    v[MHA_FORM] = f->older_vllm ? MHA_FORM_VLLM : MHA_FORM_NHD;
    v[MHA_ALIGN] = rfg_alignment(f->q.bits | f->k.bits | f->v.bits | f->out.bits);
}

static rfg_status run(rfg_context *ctx, struct mha_call *c, const rfg_mha_params *params, rfg_stream stream)
{
    const rfg_mha_params *p = &c->p;
    struct facts f = { 0 };
    struct rfg_problem prob;
    struct mha_args a;
    rfg_status st;
    if (!ctx)
        return BAD("%s: ctx is NULL: must be a context", c->fn);
    if ((st = RFG_TAKE_PARAMS(c->fn, rfg_mha_params, &c->p, params)) || (st = check_numbers(c)) ||
        (st = check_kind(c, &f)) || (st = check_queries(c, &f)) || (st = check_cache(c, &f)) ||
        (st = check_lengths(c, &f)) || (st = check_lse(c, &f)) || (st = check_sinks(c, &f)) ||
        (st = rfg_check_vector(&f.alibi, c->fn, "alibi", p->alibi, RFG_F32, f.hq, "q's heads")) ||
        (st = check_scale(c, &f, &f.k_scale, "k_scale", p->k_scale)) ||
        (st = check_scale(c, &f, &f.v_scale, "v_scale", p->v_scale)) || (st = check_apart(c, &f)))
        return st;
    if (f.batch == 0 || f.sq == 0 || f.hq == 0)
        return RFG_OK;
    problem_of(c, &f, &prob);
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
