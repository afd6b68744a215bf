/* SPDX-License-Identifier: MIT
 *
 * rfg_op_mla_gather: what its tensors must be, and the problem of a call, whose rules are gather.c's. */
#include <inttypes.h>

#include "dispatch/dispatch.h"
#include "gather.h"
#include "ops/mha/mla/mla_call.h"
#include "ops/params.h"
#include "ops/tensors.h"

#define FN       "rfg_op_mla_gather"
#define BAD(...) rfg_fail(RFG_ERROR_INVALID_ARGUMENT, FN ": " __VA_ARGS__)

RFG_PARAMS_END(rfg_mla_gather_params, reserved);

enum { ROWS, KV, CU_SEQLENS, TABLE, INDPTR, INDICES, FIRST, KV_SCALE, TENSORS };

enum { N = 1, D, ENDS, B, BLOCKS, PAGE, ONE_HEAD, BYTES, COLUMNS, ENTRIES };
static const struct rfg_axis axes[] = {
    [N] = { "rows", 0, 0 },          [D] = { "elements of a row", 1, 0 },  [ENDS] = { "ends", 1, 0 },
    [B] = { "sequences", 0, 0 },     [BLOCKS] = { "blocks", 0, 0 },        [PAGE] = { "rows of a block", 0, 0 },
    [ONE_HEAD] = { "heads", 1, 1 },  [BYTES] = { "bytes of a row", 0, 0 }, [COLUMNS] = { "columns", 0, 0 },
    [ENTRIES] = { "entries", 0, 0 },
};

/* HEADED: kv has a dimension for its head. FORMATTED: a row of kv is bytes. */
enum { PAGED = 1, HEADED = 2, FORMATTED = 4 };
#define I32 RFG_DTYPE(I32)

/* clang-format off */
static const struct rfg_tensor_rule rules[] = {
    { "rows", ROWS, RFG_VIEW | RFG_OUT, 2, { N, D }, RFG_HALF_FORMATS },
    { "cu_seqlens", CU_SEQLENS, 0, 1, { ENDS }, I32 },
};
static const struct rfg_tensor_rule more_rules[] = {
    MLA_CACHE_RULES(ROWS + 1),
    { "block_table", TABLE, RFG_VIEW | RFG_OPTIONAL, 2, { B, COLUMNS }, I32 },
    { "kv_indptr", INDPTR, RFG_OPTIONAL, 1, { B | RFG_PLUS_ONE }, I32 },
    { "kv_indices", INDICES, RFG_OPTIONAL, 1, { ENTRIES }, I32 },
    { "first", FIRST, RFG_OPTIONAL, 1, { B }, I32 },
    { "kv_scale", KV_SCALE, RFG_OPTIONAL, 1, { ONE_HEAD }, RFG_DTYPE(F32) },
};
/* clang-format on */

static rfg_status check_tensors(const struct gather_call *c, struct rfg_tensors *t)
{
    const rfg_mla_gather_params *p = &c->p;
    rfg_status st;
    t->facts = (p->block_table || p->kv_indices ? PAGED : 0) | (c->kv && c->kv->ndim == 4 ? HEADED : 0) |
               (p->format ? FORMATTED : 0);
    if ((st = rfg_check_tensors(t, rules, RFG_RULES(rules))))
        return st;
    rfg_set_axis_of(t, B, "cu_seqlens", rfg_size(t, ENDS) - 1);
    if (p->format)
        rfg_set_axis(t, BYTES, MLA_KEY_BYTES(p->format));
    st = rfg_check_tensors(t, more_rules, RFG_RULES(more_rules));
    return st ? st : mla_check_cache(t, c->kv, p->format, p->block_table, p->kv_indices);
}

static void problem_of(const struct gather_call *c, const struct rfg_tensors *t, struct rfg_problem *prob)
{
    const rfg_mla_gather_params *p = &c->p;
    int64_t *v = prob->v;
    *prob = (struct rfg_problem){ .op = &rfg_op_mla_gather_desc };
    prob->dtype[0] = (uint8_t)c->kv->dtype;
    prob->dtype[1] = (uint8_t)c->rows->dtype;
    v[GATHER_N] = rfg_size(t, N);
    v[GATHER_D] = rfg_size(t, D);
    v[GATHER_B] = rfg_size(t, B);
    v[GATHER_PAGE] = t->facts & PAGED ? rfg_size(t, PAGE) : 0;
    v[GATHER_FORMAT] = (int64_t)p->format;
    v[GATHER_SCALE] = p->kv_scale != NULL;
    v[GATHER_FIRST] = p->first != NULL;
    v[GATHER_TABLE] = p->kv_indices ? MLA_TABLE_INDICES : MLA_TABLE_BLOCK;
    v[GATHER_ALIGN] = rfg_alignment(t->o[ROWS].bits | (p->format ? 0 : t->o[KV].bits));
}

rfg_status rfg_op_mla_gather(rfg_context *ctx, const rfg_tensor *rows, const rfg_tensor *kv,
                             const rfg_tensor *cu_seqlens, const rfg_mla_gather_params *params, rfg_stream stream)
{
    struct gather_call c = { rows, kv, cu_seqlens, RFG_MLA_GATHER_PARAMS_INIT };
    const rfg_mla_gather_params *p = &c.p;
    struct rfg_problem prob;
    struct rfg_tensors t;
    struct gather_args a;
    rfg_status st;
    if (!ctx)
        return BAD("ctx is NULL: must be a context");
    if ((st = RFG_TAKE_PARAMS(FN, rfg_mla_gather_params, &c.p, params)) || (st = mla_check_format(FN, p->format)))
        return st;
    if (p->reserved)
        return BAD("reserved is %" PRId32 ": must be 0", p->reserved);
    if (!p->kv_indptr != !p->kv_indices)
        return BAD("%s is NULL: kv_indptr and kv_indices belong together", p->kv_indptr ? "kv_indices" : "kv_indptr");
    if (p->kv_indices && p->block_table)
        return BAD("kv_indices is given beside block_table: a cache has one table");
    const rfg_tensor *const all[] = { rows,          kv,       cu_seqlens, p->block_table, p->kv_indptr,
                                      p->kv_indices, p->first, p->kv_scale };
    rfg_tensors_begin(&t, FN, axes, all, TENSORS);
    if ((st = check_tensors(&c, &t)))
        return st;
    problem_of(&c, &t, &prob);
    if (prob.v[GATHER_N] == 0 || prob.v[GATHER_B] == 0 || kv->shape[0] == 0)
        return rfg_check_problem(FN, &prob);
    gather_fill_args(&c, &a);
    return rfg_dispatch(ctx, &prob, &a, stream);
}
