/* SPDX-License-Identifier: MIT
 *
 * The operator mla_decode: its keys, rules and table. What the tensors of calls must be is in call.c. */
#include "mla.h"

#include <inttypes.h>
#include <string.h>

#include "ops/mha/mha_call.h"
#include "ops/operand.h"

static const char *const kv_names[] = { "same" };
static const char *const stype_names[] = { "f32" };
static const char *const table_names[] = { "block", "indices" };
static const char *const q_names[] = { "whole", "apart" };
static const char *const form_names[] = { "packed", "gaps" };
static const char *const lens_names[] = { "all", "log", "any" };

static const struct rfg_key mla_keys[MLA_NKEYS] = {
    [MLA_B] = { "B", RFG_KEY_SIZE, 0, 0, RFG_MAX_SIZE - 1, NULL, "sequences" },
    [MLA_HQ] = { "Hq", RFG_KEY_SIZE, 0, 1, RFG_MLA_MAX_HEADS, NULL, "heads" },
    [MLA_D] = { "D", RFG_KEY_SIZE, 0, 64, MLA_MAX_D, NULL, "elements of a row of kv" },
    [MLA_S] = { "S", RFG_KEY_SIZE, 0, 0, RFG_MAX_SIZE, NULL,
                "keys that a sequence may have: what the tensors hold, or max_seqlen_k rounded up to a power of two" },
    [MLA_SQ] = { "Sq", RFG_KEY_ATTR, 1, 1, RFG_MLA_MAX_QUERIES, NULL, "queries of a sequence" },
    [MLA_DV] = { "Dv", RFG_KEY_ATTR, 0, 0, 512, NULL, "elements of a value, if not D" },
    [MLA_CAUSAL] = { "causal", RFG_KEY_ATTR, 0, 0, 1, NULL, "1: causal, with Sq above 1" },
    [MLA_CAP] = { "cap", RFG_KEY_ATTR, 0, 0, MHA_MAX_CAP, NULL, "soft_cap, rounded up; 0: none" },
    [MLA_SINK] = { "sink", RFG_KEY_ATTR, 0, 0, 1, NULL, "1: sinks" },
    [MLA_STYPE] = { "stype", RFG_KEY_ATTR, 0, 0, RFG_DTYPE_COUNT - 1, stype_names, "dtype of the sinks: f32, or q's",
                    RFG_HALF_FORMATS },
    [MLA_LSE] = { "lse", RFG_KEY_ATTR, 0, 0, 1, NULL, "1: lse is written" },
    [MLA_PAGE] = { "page", RFG_KEY_ATTR, 0, 0, MLA_MAX_PAGE, NULL, "keys of a block of the cache; 0: no table" },
    [MLA_KV] = { "kv", RFG_KEY_ATTR, 0, 0, RFG_DTYPE_COUNT - 1, kv_names, "dtype of kv; same: q's",
                 1u << RFG_E4M3 | 1u << RFG_E4M3FNUZ | 1u << RFG_E5M2 },
    [MLA_SCALE] = { "scale", RFG_KEY_ATTR, 0, 0, 1, NULL, "1: kv_scale" },
    [MLA_FORMAT] = { "format", RFG_KEY_ATTR, 0, 0, MLA_V4, mla_format_names, "bytes of a row of the cache" },
    [MLA_POSITIONS] = { "positions", RFG_KEY_ATTR, 0, 0, 1, NULL, "1: q_positions, causal" },
    [MLA_TABLE] = { "table", RFG_KEY_LAYOUT, 0, 0, MLA_TABLE_INDICES, table_names, "block_table, or kv_indices" },
    [MLA_Q] = { "q", RFG_KEY_LAYOUT, 0, 0, MLA_Q_APART, q_names, "whole, or q_rope apart" },
    [MLA_FORM] = { "form", RFG_KEY_LAYOUT, 0, 0, MLA_FORM_GAPS, form_names, "how tests lay the tensors out" },
    [MLA_LENS] = { "lens", RFG_KEY_LAYOUT, 0, 0, MHA_LENS_ANY, lens_names, "lengths in tests and tuning" },
    [MLA_CP] = { "cp", RFG_KEY_LAYOUT, 0, 0, 64, NULL, "ranks in tests that share a sequence's keys" },
    [MLA_ALIGN] = { "align", RFG_KEY_LAYOUT, 16, 1, 16, NULL,
                    "bytes, up to 16, of which pointers and strides are multiples" },
    [MLA_INVARIANT] = RFG_KEY_INVARIANT,
    [MLA_OVERLAP] = RFG_KEY_OVERLAP,
};

static const struct rfg_op_operand mla_operands[] = {
    { "q", false, RFG_FORMAT_LISTED, 0, 0 },
    { "out", true, RFG_FORMAT_LISTED, 1, 0 },
    { "kv", false, RFG_FORMAT_KEYED, MLA_KV, 1 },
    { "q_rope", false, RFG_FORMAT_AS, 0, 0 },
    { "lse", true, RFG_FORMAT_ALWAYS, RFG_F32, 0 },
    { "sinks", false, RFG_FORMAT_KEYED, MLA_STYPE, 5 }, /* or as lse: f32 */
    { "kv_scale", false, RFG_FORMAT_ALWAYS, RFG_F32, 0 },
    { "block_table", false, RFG_FORMAT_ALWAYS, RFG_I32, 0 },
    { "kv_indptr", false, RFG_FORMAT_ALWAYS, RFG_I32, 0 },
    { "kv_indices", false, RFG_FORMAT_ALWAYS, RFG_I32, 0 },
    { "kv_lens", false, RFG_FORMAT_ALWAYS, RFG_I32, 0 },
    { "q_positions", false, RFG_FORMAT_ALWAYS, RFG_I32, 0 },
};

static void mla_at_size(struct rfg_problem *prob, bool large)
{
    prob->v[MLA_B] = large ? 64 : 4;
    prob->v[MLA_S] = large ? 16384 : 2048;
    prob->v[MLA_LENS] = MHA_LENS_ALL;
}

/* ---- rules ------------------------------------------------------------------------------------------------------- */

static bool formats_valid(const struct rfg_problem *prob, struct rfg_reason *why)
{
    const int64_t *v = prob->v;
    const char *dtype = rfg_dtype_name((rfg_dtype)prob->dtype[0]);
    if (prob->dtype[0] != RFG_BF16 && prob->dtype[0] != RFG_F16)
        return rfg_refuse(why, "dtype %s: must be bf16 or f16", dtype);
    if (prob->dtype[1] != prob->dtype[0])
        return rfg_refuse(why, "dtype of out is %s: must be q's, %s", rfg_dtype_name((rfg_dtype)prob->dtype[1]), dtype);
    if (v[MLA_STYPE] && (!v[MLA_SINK] || v[MLA_STYPE] != prob->dtype[0]))
        return rfg_refuse(why, "stype=%s: must be q's dtype, %s, or left out for f32, with sink=1",
                          rfg_dtype_name((rfg_dtype)v[MLA_STYPE]), dtype);
    if (v[MLA_SCALE] && (!v[MLA_KV] || v[MLA_FORMAT]))
        return rfg_refuse(why, "scale=1 (kv_scale): must be with a plain kv of 8 bits");
    return mla_format_valid(v[MLA_FORMAT], prob->dtype[0], mla_kv_dtype(prob), v[MLA_D], why);
}

static bool mla_valid(const struct rfg_problem *prob, struct rfg_reason *why)
{
    const int64_t *v = prob->v;
    int64_t dv = mla_dv(prob), rope = v[MLA_D] - dv, columns = mla_table_columns(prob);
    if (!formats_valid(prob, why))
        return false;
    if (v[MLA_DV] == v[MLA_D])
        return rfg_refuse(why, "Dv=%" PRId64 ": is D: leave it out", v[MLA_DV]);
    if (dv < 64 || dv > 512 || dv % 64 || (rope != 0 && rope != 32 && rope != 64))
        return rfg_refuse(why,
                          "D=%" PRId64 " Dv=%" PRId64
                          ", of kv and out: Dv must be a multiple of 64 up to 512, and D - Dv "
                          "must be 0, 32 or 64",
                          v[MLA_D], dv);
    if (v[MLA_CAUSAL] && v[MLA_SQ] == 1 && !v[MLA_POSITIONS])
        return rfg_refuse(why, "causal=1: must be with Sq above 1, or with positions=1 (q_positions)");
    if ((v[MLA_POSITIONS] || v[MLA_CP]) && !v[MLA_CAUSAL])
        return rfg_refuse(why, "%s: must be with causal=1", v[MLA_CP] ? "cp" : "positions=1 (q_positions)");
    if (v[MLA_CP] && !v[MLA_POSITIONS])
        return rfg_refuse(why, "cp=%" PRId64 ": must be with positions=1 (q_positions)", v[MLA_CP]);
    if (v[MLA_Q] == MLA_Q_APART && rope == 0)
        return rfg_refuse(why, "q=apart (q_rope): must be with D above Dv");
    if (v[MLA_PAGE] & (v[MLA_PAGE] - 1))
        return rfg_refuse(why, "page=%" PRId64 ", of kv: must be a power of two, or 0 for no table", v[MLA_PAGE]);
    if (v[MLA_TABLE] == MLA_TABLE_INDICES && !v[MLA_PAGE])
        return rfg_refuse(why, "table=indices: must be with a page");
    double rows = (double)v[MLA_B] * (double)v[MLA_SQ] * (double)v[MLA_HQ];
    double keys = (double)v[MLA_B] * (double)v[MLA_S], blocks = (double)v[MLA_B] * (double)columns;
    if (rows > RFG_MAX_SIZE)
        return rfg_refuse(why, "q has %.0f rows, B Sq Hq: must be at most %d", rows, RFG_MAX_SIZE);
    if (blocks > RFG_MAX_SIZE || (double)columns * (double)v[MLA_PAGE] > RFG_MAX_SIZE || keys > 0x1p50)
        return rfg_refuse(why, "B=%" PRId64 " S=%" PRId64 ": too many keys for kv, or columns for block_table",
                          v[MLA_B], v[MLA_S]);
    if (v[MLA_ALIGN] & (v[MLA_ALIGN] - 1))
        return rfg_refuse(why, "align=%" PRId64 ": must be a power of two", v[MLA_ALIGN]);
    return true;
}

/* ---- lengths in tests, and what a problem costs ----------------------------------------------------------------- */

int64_t mla_test_length(const struct rfg_problem *prob, int64_t b)
{
    struct rfg_problem as = { .op = &rfg_op_mha_decode_desc };
    as.v[MHA_B] = prob->v[MLA_B];
    as.v[MHA_S] = prob->v[MLA_S];
    as.v[MHA_LENS] = prob->v[MLA_LENS];
    return mha_test_length(&as, false, b);
}

double mla_row_bytes(const struct rfg_problem *prob)
{
    return prob->v[MLA_FORMAT] ? MLA_KEY_BYTES(prob->v[MLA_FORMAT])
                               : (double)rfg_format_bytes(mla_kv_dtype(prob), prob->v[MLA_D]);
}

static void mla_cost(const struct rfg_problem *prob, double *bytes, double *flops)
{
    const int64_t *v = prob->v;
    double keys = (double)v[MLA_B] * (double)v[MLA_S], rows = (double)(v[MLA_SQ] * v[MLA_HQ]), dv = mla_dv(prob);
    if (v[MLA_LENS] != MHA_LENS_ALL && v[MLA_B] <= 1 << 16) {
        keys = 0;
        for (int64_t b = 0; b < v[MLA_B]; b++)
            keys += (double)mla_test_length(prob, b);
    }
    *bytes = keys * mla_row_bytes(prob) +
             (double)v[MLA_B] * rows *
                 ((double)(rfg_format_bytes(prob->dtype[0], v[MLA_D])) +
                  (double)rfg_format_bytes(prob->dtype[1], mla_dv(prob)) + (v[MLA_LSE] ? 4 : 0));
    *flops = 2 * keys * rows * ((double)v[MLA_D] + dv);
}

/* ---- arguments --------------------------------------------------------------------------------------------------- */

/* Of a dimension of size 1 only element 0 is there: its stride may be anything. */
static long long stride(const rfg_tensor *t, int dim)
{
    return dim >= 0 && t->shape[dim] > 1 ? t->strides[dim] : 0;
}

static struct mla_rows rows_of(const rfg_tensor *t)
{
    return (struct mla_rows){ t->data, stride(t, 0), stride(t, t->ndim == 4 ? 1 : -1), stride(t, t->ndim - 2) };
}

int64_t mla_held(const struct mla_call *c)
{
    int64_t page = c->kv->shape[1];
    return c->p.block_table  ? c->p.block_table->shape[1] * page
           : c->p.kv_indices ? c->p.kv_indices->shape[0] * page
                             : page;
}

void mla_fill_args(const struct mla_call *c, struct mla_args *a)
{
    const rfg_mla_params *p = &c->p;
    int64_t dv = c->out->shape[c->out->ndim - 1];
    memset(a, 0, sizeof(*a));
    a->q = a->q_rope = rows_of(c->q);
    if (p->q_rope)
        a->q_rope = rows_of(p->q_rope);
    else
        a->q_rope.data = (char *)c->q->data + rfg_format_bytes((int)c->q->dtype, dv);
    a->out = rows_of(c->out);
    a->kv = c->kv->data;
    a->kv_block = stride(c->kv, 0);
    a->kv_row = p->format == RFG_MLA_V4 ? MLA_ROW_BYTES(MLA_V4) : stride(c->kv, 1);
    a->scales_at = MLA_V4_SCALES_AT((long long)c->kv->shape[1]);
    a->table = p->block_table ? p->block_table->data : p->kv_indices ? p->kv_indices->data : NULL;
    a->table_stride = p->block_table ? stride(p->block_table, 0) : 0;
    a->indptr = p->kv_indptr ? p->kv_indptr->data : NULL;
    a->entries = p->kv_indices ? (int)p->kv_indices->shape[0] : 0;
    a->page_shift = a->table ? __builtin_ctzll((unsigned long long)c->kv->shape[1]) : 0;
    a->blocks = (int)c->kv->shape[0];
    a->kv_lens = p->kv_lens ? p->kv_lens->data : NULL;
    a->sinks = p->sinks ? p->sinks->data : NULL;
    a->kv_scale = p->kv_scale ? p->kv_scale->data : NULL;
    if (p->lse) {
        a->lse = p->lse->data;
        a->lse_batch = stride(p->lse, 0);
        a->lse_head = stride(p->lse, 1);
        a->lse_token = stride(p->lse, p->lse->ndim == 3 ? 2 : -1);
    }
    a->scale = p->scale;
    a->soft_cap = p->soft_cap;
    a->batch = (int)c->q->shape[0];
    a->sq = (int)(c->q->ndim == 4 ? c->q->shape[1] : 1);
    a->hq = (int)c->q->shape[c->q->ndim - 2];
    a->skv = (int)mla_held(c);
    a->causal = p->causal != 0 && (a->sq > 1 || p->q_positions);
    a->positions = p->q_positions ? p->q_positions->data : NULL;
    a->cp_run = p->cp_interleave > 1 ? p->cp_interleave : 1;
    a->cp_first = p->cp_rank * a->cp_run;
    a->cp_period = (p->cp_size > 1 ? p->cp_size : 1) * a->cp_run;
}

/* ---- the table -------------------------------------------------------------------------------------------------- */

const struct rfg_op rfg_op_mla_decode_desc = {
    .name = "mla_decode",
    .id = 37,
    .n_in = 1,
    .n_out = 1,
    RFG_OPERANDS(mla_operands),
    .n_keys = MLA_NKEYS,
    .keys = mla_keys,
    .column_key = { "B", "S", "Hq" },
    RFG_KARGS(struct mla_args),
    .at_size = mla_at_size,
    .valid = mla_valid,
    .cost = mla_cost,
};
