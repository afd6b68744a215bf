/* SPDX-License-Identifier: MIT
 *
 * The operator mla_gather: its keys, rules and table. What the tensors of calls must be is in call.c. */
#include "gather.h"

#include <inttypes.h>

#include "ops/operand.h"

static const char *const table_names[] = { "block", "indices" };
static const char *const form_names[] = { "packed", "gaps" };

static const struct rfg_key gather_keys[GATHER_NKEYS] = {
    [GATHER_N] = { "N", RFG_KEY_SIZE, 0, 0, RFG_MAX_SIZE, NULL, "rows" },
    [GATHER_D] = { "D", RFG_KEY_SIZE, 0, 64, MLA_MAX_D, NULL, "elements of a row" },
    [GATHER_B] = { "B", RFG_KEY_SIZE, 0, 0, RFG_MAX_SIZE - 1, NULL, "sequences" },
    [GATHER_PAGE] = { "page", RFG_KEY_ATTR, 0, 0, MLA_MAX_PAGE, NULL, "keys of a block of the cache; 0: no table" },
    [GATHER_FORMAT] = { "format", RFG_KEY_ATTR, 0, 0, MLA_V4, mla_format_names, "bytes of a row of the cache" },
    [GATHER_SCALE] = { "scale", RFG_KEY_ATTR, 0, 0, 1, NULL, "1: kv_scale" },
    [GATHER_FIRST] = { "first", RFG_KEY_ATTR, 0, 0, 1, NULL, "1: first" },
    [GATHER_TABLE] = { "table", RFG_KEY_LAYOUT, 0, 0, MLA_TABLE_INDICES, table_names, "block_table, or kv_indices" },
    [GATHER_FORM] = { "form", RFG_KEY_LAYOUT, 0, 0, MLA_FORM_GAPS, form_names, "how tests lay the tensors out" },
    [GATHER_ALIGN] = { "align", RFG_KEY_LAYOUT, 16, 1, 16, NULL,
                       "bytes, up to 16, of which pointers and strides are multiples" },
    [GATHER_OVERLAP] = RFG_KEY_OVERLAP,
};

static const struct rfg_op_operand gather_operands[] = {
    { "kv", false, RFG_FORMAT_LISTED, 0, 0 },
    { "rows", true, RFG_FORMAT_LISTED, 1, 0 },
    { "cu_seqlens", false, RFG_FORMAT_ALWAYS, RFG_I32, 0 },
    { "block_table", false, RFG_FORMAT_ALWAYS, RFG_I32, 0 },
    { "kv_indptr", false, RFG_FORMAT_ALWAYS, RFG_I32, 0 },
    { "kv_indices", false, RFG_FORMAT_ALWAYS, RFG_I32, 0 },
    { "first", false, RFG_FORMAT_ALWAYS, RFG_I32, 0 },
    { "kv_scale", false, RFG_FORMAT_ALWAYS, RFG_F32, 0 },
};

static bool gather_valid(const struct rfg_problem *prob, struct rfg_reason *why)
{
    const int64_t *v = prob->v;
    int kv = prob->dtype[0], x = prob->dtype[1];
    if (x != RFG_BF16 && x != RFG_F16)
        return rfg_refuse(why, "dtype of rows is %s: must be bf16 or f16", rfg_dtype_name((rfg_dtype)x));
    if (!mla_format_valid(v[GATHER_FORMAT], x, kv, v[GATHER_D], why))
        return false;
    if (v[GATHER_SCALE] && (kv == x || v[GATHER_FORMAT]))
        return rfg_refuse(why, "scale=1 (kv_scale): must be with a plain kv of 8 bits");
    if (v[GATHER_D] % 32)
        return rfg_refuse(why, "D=%" PRId64 ", of kv: must be a multiple of 32", v[GATHER_D]);
    if (v[GATHER_PAGE] & (v[GATHER_PAGE] - 1))
        return rfg_refuse(why, "page=%" PRId64 ", of kv: must be a power of two, or 0 for no table", v[GATHER_PAGE]);
    if (v[GATHER_TABLE] == MLA_TABLE_INDICES && !v[GATHER_PAGE])
        return rfg_refuse(why, "table=indices: must be with a page");
    if (v[GATHER_ALIGN] & (v[GATHER_ALIGN] - 1))
        return rfg_refuse(why, "align=%" PRId64 ": must be a power of two", v[GATHER_ALIGN]);
    return true;
}

static void gather_cost(const struct rfg_problem *prob, double *bytes, double *flops)
{
    const int64_t *v = prob->v;
    double row =
        v[GATHER_FORMAT] ? MLA_KEY_BYTES(v[GATHER_FORMAT]) : (double)rfg_format_bytes(prob->dtype[0], v[GATHER_D]);
    *bytes =
        (double)v[GATHER_N] * (row + (double)rfg_format_bytes(prob->dtype[1], v[GATHER_D])) + 8 * (double)v[GATHER_B];
    *flops = (double)v[GATHER_N] * (double)v[GATHER_D]; /* moves: 0 would mean nothing to do */
}

/* Of a dimension of size 1 only element 0 is there: its stride may be anything. */
static long long stride(const rfg_tensor *t, int dim)
{
    return t->shape[dim] > 1 ? t->strides[dim] : 0;
}

void gather_fill_args(const struct gather_call *c, struct gather_args *a)
{
    const rfg_mla_gather_params *p = &c->p;
    int64_t page = c->kv->shape[1];
    *a = (struct gather_args){ .rows = c->rows->data,
                               .row = stride(c->rows, 0),
                               .cu_seqlens = c->cu_seqlens->data,
                               .first = p->first ? p->first->data : NULL,
                               .kv = c->kv->data,
                               .kv_block = stride(c->kv, 0),
                               .kv_row = p->format == RFG_MLA_V4 ? MLA_ROW_BYTES(MLA_V4) : stride(c->kv, 1),
                               .scales_at = MLA_V4_SCALES_AT((long long)page),
                               .kv_scale = p->kv_scale ? p->kv_scale->data : NULL,
                               .n = (int)c->rows->shape[0],
                               .batch = (int)c->cu_seqlens->shape[0] - 1,
                               .held = (int)(p->block_table ? p->block_table->shape[1] * page : page),
                               .blocks = (int)c->kv->shape[0] };
    if (p->block_table) {
        a->table = p->block_table->data;
        a->table_stride = stride(p->block_table, 0);
    } else if (p->kv_indices) {
        a->table = p->kv_indices->data;
        a->indptr = p->kv_indptr->data;
        a->entries = (int)p->kv_indices->shape[0];
    }
    a->page_shift = a->table ? __builtin_ctzll((unsigned long long)page) : 0;
}

const struct rfg_op rfg_op_mla_gather_desc = {
    .name = "mla_gather",
    .id = 42,
    .n_in = 1,
    .n_out = 1,
    RFG_OPERANDS(gather_operands),
    .n_keys = GATHER_NKEYS,
    .keys = gather_keys,
    .column_key = { "N", "D", "B" },
    RFG_KARGS(struct gather_args),
    .valid = gather_valid,
    .cost = gather_cost,
};
