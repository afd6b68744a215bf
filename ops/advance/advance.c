/* SPDX-License-Identifier: MIT
 *
 * The operator advance: its public function, argument rules and tables. Variants are in gpu.c and cpu.c. */
#include "advance.h"

#include <inttypes.h>

#include "ops/params.h"
#include "ops/view.h"

#define FN       "rfg_op_advance"
#define BAD(...) rfg_fail(RFG_ERROR_INVALID_ARGUMENT, FN ": " __VA_ARGS__)

static const struct rfg_key advance_keys[ADVANCE_NKEYS] = {
    [ADVANCE_B] = { "B", RFG_KEY_SIZE, 0, 0, RFG_MAX_SIZE, NULL, "sequences" },
    [ADVANCE_SQ] = { "Sq", RFG_KEY_SIZE, 0, 1, ADVANCE_MAX_TOKENS, NULL, "tokens of a sequence in each step" },
    [ADVANCE_BLOCKS] = { "blocks", RFG_KEY_SIZE, 0, 0, RFG_MAX_SIZE, NULL, "columns of the block table" },
    [ADVANCE_PAGE] = { "page", RFG_KEY_ATTR, 0, 0, ADVANCE_MAX_PAGE, NULL, "keys of a block; 0: there is no table" },
    [ADVANCE_SLOTS] = { "slots", RFG_KEY_ATTR, 0, 0, 1, NULL, "1: slots are written" },
    [ADVANCE_ACCEPTED] = { "accepted", RFG_KEY_ATTR, 0, 0, 1, NULL, "1: how many tokens count is in device memory" },
    [ADVANCE_ACTIVE] = { "active", RFG_KEY_ATTR, 0, 0, 1, NULL, "1: sequences may be off" },
    [ADVANCE_SPARE] = { "spare", RFG_KEY_ATTR, 0, 0, RFG_MAX_SIZE, NULL,
                        "size of the list of spare blocks; 0: there is none" },
    [ADVANCE_LDB] = { "ldb", RFG_KEY_LAYOUT, 0, 0, RFG_MAX_STRIDE, NULL,
                      "elements from a row of the table to the next; 0: they follow one another" },
    [ADVANCE_OVERLAP] = RFG_KEY_OVERLAP,
};

static const struct rfg_op_operand advance_operands[] = {
    { "kv_lens", false, RFG_FORMAT_LISTED, 0, 0 },
    { "positions", true, RFG_FORMAT_LISTED, 1, 0 },
    { "lens_out", true, RFG_FORMAT_AS, 0, 0 },
    { "slots", true, RFG_FORMAT_ALWAYS, RFG_I64, 0 },
    { "block_table", false, RFG_FORMAT_ALWAYS, RFG_I32, 0 },
    { "table_out", true, RFG_FORMAT_ALWAYS, RFG_I32, 0 },
    { "spare_count", false, RFG_FORMAT_ALWAYS, RFG_I32, 0 },
    { "count_out", true, RFG_FORMAT_ALWAYS, RFG_I32, 0 },
    { "accepted", false, RFG_FORMAT_ALWAYS, RFG_I32, 0 },
    { "active", false, RFG_FORMAT_ALWAYS, RFG_I32, 0 },
    { "spare", false, RFG_FORMAT_ALWAYS, RFG_I32, 0 },
};

static bool dtypes_valid(const uint8_t *d, struct rfg_reason *why)
{
    if (d[0] != RFG_I32)
        return rfg_refuse(why, "dtype of kv_lens is %s: must be i32", rfg_dtype_name((rfg_dtype)d[0]));
    return d[1] == RFG_I32 || d[1] == RFG_I64 ||
           rfg_refuse(why, "dtype of positions is %s: must be i32 or i64", rfg_dtype_name((rfg_dtype)d[1]));
}

static bool advance_valid(const struct rfg_problem *prob, struct rfg_reason *why)
{
    const int64_t *v = prob->v;
    if (!dtypes_valid(prob->dtype, why))
        return false;
    if (v[ADVANCE_PAGE] & (v[ADVANCE_PAGE] - 1))
        return rfg_refuse(why, "page=%" PRId64 ": must be a power of two", v[ADVANCE_PAGE]);
    for (int i = ADVANCE_SLOTS; i <= ADVANCE_LDB; i++)
        if (i != ADVANCE_ACCEPTED && i != ADVANCE_ACTIVE && v[i] && !v[ADVANCE_PAGE])
            return rfg_refuse(why, "%s=%" PRId64 ": needs page=, there is no block table", advance_keys[i].name, v[i]);
    if (!v[ADVANCE_BLOCKS] != !v[ADVANCE_PAGE])
        return rfg_refuse(why, "blocks=%" PRId64 " page=%" PRId64 ": both or neither must be 0", v[ADVANCE_BLOCKS],
                          v[ADVANCE_PAGE]);
    return !v[ADVANCE_LDB] || v[ADVANCE_LDB] >= v[ADVANCE_BLOCKS] ||
           rfg_refuse(why, "ldb=%" PRId64 ": must be at least blocks=%" PRId64, v[ADVANCE_LDB], v[ADVANCE_BLOCKS]);
}

static void advance_cost(const struct rfg_problem *prob, double *bytes, double *flops)
{
    const int64_t *v = prob->v;
    double tokens = (double)v[ADVANCE_B] * (double)v[ADVANCE_SQ];
    *bytes =
        4 * (double)v[ADVANCE_B] * (2 + (double)((v[ADVANCE_PAGE] > 0) + v[ADVANCE_ACCEPTED] + v[ADVANCE_ACTIVE])) +
        tokens * (double)(rfg_format_bytes(prob->dtype[1], 1) + 8 * v[ADVANCE_SLOTS]);
    *flops = tokens + 1; /* moves: 0 would mean nothing to do */
}

/* ---- the public function ---------------------------------------------------------------------------------------- */

RFG_PARAMS_END(rfg_advance_params, spare_count);

enum { LENS, POSITIONS, SLOTS, COUNT, TABLE, OUTPUTS, ACCEPTED = OUTPUTS, ACTIVE, SPARE, ALL };

/* [B] or [B,Sq], one row after the other. like: a tensor whose shape it has; or NULL. */
static rfg_status check_tokens(struct rfg_view *view, const char *name, const rfg_tensor *t, const rfg_tensor *like,
                               int64_t b)
{
    int dims = like ? like->ndim : t && t->ndim == 2 ? 2 : 1;
    rfg_status st = rfg_check_view(view, FN, name, t, dims, true);
    if (st == RFG_OK)
        st = rfg_check_size(view, FN, 0, b, "the sequences of kv_lens");
    if (st || dims == 1)
        return st;
    if (like && (st = rfg_check_size(view, FN, 1, like->shape[1], "positions' columns")))
        return st;
    if (t->shape[1] < 1 || t->shape[1] > ADVANCE_MAX_TOKENS)
        return BAD("%s has %" PRId64 " columns: must be from 1 to %d", name, t->shape[1], ADVANCE_MAX_TOKENS);
    return b <= 1 || t->strides[0] == t->shape[1]
               ? RFG_OK
               : BAD("%s has row stride %" PRId64 ": must be its columns, %" PRId64, name, t->strides[0], t->shape[1]);
}

static rfg_status check_table(const rfg_advance_params *p, struct rfg_problem *prob, struct rfg_view *view)
{
    const rfg_tensor *t = p->block_table;
    rfg_status st;
    if (!t && (p->slots || p->spare || p->page))
        return BAD("block_table is NULL: must be a tensor, with %s", p->slots ? "slots" : p->spare ? "spare" : "page");
    if (!t)
        return RFG_OK;
    if (p->page < 1 || p->page > ADVANCE_MAX_PAGE || p->page & (p->page - 1))
        return BAD("page is %" PRId64 ": must be a power of two, at most %d", p->page, ADVANCE_MAX_PAGE);
    if ((st = rfg_check_view(view, FN, "block_table", t, 2, true)) || (st = rfg_check_dtype(view, FN, RFG_I32, "")) ||
        (st = rfg_check_size(view, FN, 0, prob->v[ADVANCE_B], "the sequences of kv_lens")))
        return st;
    if (t->shape[1] == 0)
        return BAD("block_table has 0 columns: must have at least 1");
    int64_t ld = t->shape[0] > 1 ? t->strides[0] : t->shape[1];
    if (ld < t->shape[1] || ld > RFG_MAX_STRIDE)
        return BAD("block_table has row stride %" PRId64 ": must be at least its %" PRId64 " columns and at most %d",
                   ld, t->shape[1], RFG_MAX_STRIDE);
    prob->v[ADVANCE_BLOCKS] = t->shape[1];
    prob->v[ADVANCE_PAGE] = p->page;
    prob->v[ADVANCE_LDB] = ld == t->shape[1] ? 0 : ld;
    return RFG_OK;
}

static rfg_status check_spare(const rfg_advance_params *p, struct rfg_problem *prob, struct rfg_view *view)
{
    rfg_status st;
    if (!p->spare != !p->spare_count)
        return BAD("%s is NULL: spare and spare_count go together", p->spare ? "spare_count" : "spare");
    if (!p->spare)
        return RFG_OK;
    if ((st = rfg_check_view(&view[SPARE], FN, "spare", p->spare, 1, true)) ||
        (st = rfg_check_dtype(&view[SPARE], FN, RFG_I32, "")))
        return st;
    if (p->spare->shape[0] == 0)
        return BAD("spare has 0 elements: must have at least 1");
    prob->v[ADVANCE_SPARE] = p->spare->shape[0];
    return rfg_check_vector(&view[COUNT], FN, "spare_count", p->spare_count, RFG_I32, 1, "1");
}

static rfg_status check_tensors(const rfg_advance_params *p, const rfg_tensor *kv_lens, const rfg_tensor *positions,
                                struct rfg_problem *prob, struct rfg_view *t)
{
    struct rfg_reason why;
    rfg_status st;
    if ((st = rfg_check_view(&t[LENS], FN, "kv_lens", kv_lens, 1, true)))
        return st;
    int64_t b = prob->v[ADVANCE_B] = kv_lens->shape[0];
    if ((st = check_tokens(&t[POSITIONS], "positions", positions, NULL, b)))
        return st;
    prob->v[ADVANCE_SQ] = positions->ndim == 2 ? positions->shape[1] : 1;
    prob->dtype[0] = (uint8_t)kv_lens->dtype;
    prob->dtype[1] = (uint8_t)positions->dtype;
    if (!dtypes_valid(prob->dtype, &why))
        return BAD("%s", why.text);
    if (p->slots && ((st = check_tokens(&t[SLOTS], "slots", p->slots, positions, b)) ||
                     (st = rfg_check_dtype(&t[SLOTS], FN, RFG_I64, ""))))
        return st;
    if ((st = check_table(p, prob, &t[TABLE])) || (st = check_spare(p, prob, t)) ||
        (st = rfg_check_vector(&t[ACCEPTED], FN, "accepted", p->accepted, RFG_I32, b, "the sequences of kv_lens")))
        return st;
    return rfg_check_vector(&t[ACTIVE], FN, "active", p->active, RFG_I32, b, "the sequences of kv_lens");
}

static void *data_of(const rfg_tensor *t)
{
    return t ? t->data : NULL;
}

rfg_status rfg_op_advance(rfg_context *ctx, const rfg_tensor *kv_lens, const rfg_tensor *positions,
                          const rfg_advance_params *given, rfg_stream stream)
{
    rfg_advance_params p = RFG_ADVANCE_PARAMS_INIT;
    struct rfg_problem prob = { .op = &rfg_op_advance_desc };
    struct rfg_view t[ALL] = { { 0 } };
    rfg_status st;
    if (!ctx)
        return BAD("ctx is NULL: must be a context");
    if ((st = RFG_TAKE_PARAMS(FN, rfg_advance_params, &p, given)) ||
        (st = check_tensors(&p, kv_lens, positions, &prob, t)))
        return st;
    for (int out = 0; out < (p.spare ? OUTPUTS : TABLE); out++)
        for (int other = 0; other < ALL; other++)
            if (other != out && t[out].t && t[other].t && (st = rfg_check_apart(&t[out], FN, &t[other], false)))
                return st;
    if (prob.v[ADVANCE_B] == 0)
        return RFG_OK;

    prob.v[ADVANCE_SLOTS] = p.slots != NULL;
    prob.v[ADVANCE_ACCEPTED] = p.accepted != NULL;
    prob.v[ADVANCE_ACTIVE] = p.active != NULL;
    struct advance_args a = { .kv_lens = kv_lens->data,
                              .positions = positions->data,
                              .slots = data_of(p.slots),
                              .accepted = data_of(p.accepted),
                              .active = data_of(p.active),
                              .spare = data_of(p.spare),
                              .spare_count = data_of(p.spare_count) };
    advance_set_sizes(&a, &prob, p.block_table);
    return rfg_dispatch(ctx, &prob, &a, stream);
}

void advance_set_sizes(struct advance_args *a, const struct rfg_problem *prob, const rfg_tensor *table)
{
    const int64_t *v = prob->v;
    a->b = (int)v[ADVANCE_B];
    a->sq = (int)v[ADVANCE_SQ];
    a->blocks = (int)v[ADVANCE_BLOCKS];
    a->n_spare = (int)v[ADVANCE_SPARE];
    a->page_shift = v[ADVANCE_PAGE] ? __builtin_ctzll((unsigned long long)v[ADVANCE_PAGE]) : 0;
    a->table = data_of(table);
    a->ldb = v[ADVANCE_LDB] ? v[ADVANCE_LDB] : v[ADVANCE_BLOCKS];
}

/* ---- the table -------------------------------------------------------------------------------------------------- */

static const struct rfg_variant *const advance_variants[] = { &advance_group, &advance_cpu };

const struct rfg_op rfg_op_advance_desc = {
    .name = "advance",
    .id = 34,
    .n_in = 1,
    .n_out = 1,
    .n_operands = sizeof(advance_operands) / sizeof(advance_operands[0]),
    .operands = advance_operands,
    .n_keys = ADVANCE_NKEYS,
    .keys = advance_keys,
    .column_key = { "B", "Sq", "blocks" },
    .n_variants = sizeof(advance_variants) / sizeof(advance_variants[0]),
    .variants = advance_variants,
    .kargs_size = sizeof(struct advance_args),
    .head = offsetof(struct advance_args, workspace),
    .valid = advance_valid,
    .cost = advance_cost,
};
