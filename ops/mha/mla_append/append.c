/* SPDX-License-Identifier: MIT
 *
 * The operator mla_append: its keys, rules and table. What the tensors of calls must be is in call.c. */
#include "append.h"

#include <inttypes.h>
#include <string.h>

#include "ops/operand.h"

static const char *const as_latent[] = { "same" };
static const char *const as_i64[] = { "i64" };
static const char *const norm_names[] = { "none", "latent", "all" };
static const char *const rope_names[] = { "none", "neox", "gptj" };
static const char *const form_names[] = { "packed", "gaps" };

static const struct rfg_key append_keys[APPEND_NKEYS] = {
    [APPEND_T] = { "T", RFG_KEY_SIZE, 0, 0, RFG_MAX_SIZE, NULL, "tokens" },
    [APPEND_D] = { "D", RFG_KEY_SIZE, 0, 64, MLA_MAX_D, NULL, "elements of a row of kv" },
    [APPEND_R] = { "R", RFG_KEY_SIZE, 0, 0, 64, NULL, "elements of k_rope, the last of D" },
    [APPEND_HQ] = { "Hq", RFG_KEY_ATTR, 0, 0, RFG_MLA_MAX_HEADS, NULL, "heads of q" },
    [APPEND_PAGE] = { "page", RFG_KEY_ATTR, 0, 0, MLA_MAX_PAGE, NULL, "rows of a block of the cache" },
    [APPEND_FORMAT] = { "format", RFG_KEY_ATTR, 0, 0, MLA_V4, mla_format_names, "bytes of a row of the cache" },
    [APPEND_NORM] = { "norm", RFG_KEY_ATTR, 0, 0, APPEND_NORM_ALL, norm_names, "what the RMSNorm is of" },
    [APPEND_WTYPE] = { "wtype", RFG_KEY_ATTR, 0, 0, RFG_DTYPE_COUNT - 1, as_latent,
                       "dtype of the norm's weight; same: latent's", 1u << RFG_F32 },
    [APPEND_ROPE] = { "rope", RFG_KEY_ATTR, 0, 0, APPEND_ROPE_GPTJ, rope_names,
                      "neox: pairs (i, i + R/2); gptj: (2i, 2i + 1)" },
    [APPEND_TABLE] = { "table", RFG_KEY_ATTR, 0, 0, RFG_DTYPE_COUNT - 1, as_latent, "dtype of cos_sin; same: latent's",
                       1u << RFG_F32 },
    [APPEND_POS] = { "pos", RFG_KEY_ATTR, 0, 0, RFG_DTYPE_COUNT - 1, as_i64, "dtype of positions", 1u << RFG_I32 },
    [APPEND_SCALE] = { "scale", RFG_KEY_ATTR, 0, 0, 1, NULL, "1: kv_scale" },
    [APPEND_INPLACE] = { "inplace", RFG_KEY_LAYOUT, 0, 0, 1, NULL, "1: q_out is q" },
    [APPEND_FORM] = { "form", RFG_KEY_LAYOUT, 0, 0, MLA_FORM_GAPS, form_names, "how tests lay the tensors out" },
    [APPEND_ALIGN] = { "align", RFG_KEY_LAYOUT, 16, 1, 16, NULL,
                       "bytes, up to 16, of which pointers and strides are multiples (of 8-bit caches half as many "
                       "do)" },
    [APPEND_OVERLAP] = RFG_KEY_OVERLAP,
};

static const struct rfg_op_operand append_operands[] = {
    { "latent", false, RFG_FORMAT_LISTED, 0, 0 },
    { "kv", true, RFG_FORMAT_LISTED, 1, 0 },
    { "k_rope", false, RFG_FORMAT_AS, 0, 0 },
    { "slots", false, RFG_FORMAT_ALWAYS, RFG_I64, 0 },
    { "norm", false, RFG_FORMAT_KEYED, APPEND_WTYPE, 1 },
    { "cos_sin", false, RFG_FORMAT_KEYED, APPEND_TABLE, 1 },
    { "positions", false, RFG_FORMAT_KEYED, APPEND_POS, 4 }, /* or as slots: i64 */
    { "q", false, RFG_FORMAT_AS, 0, 0 },
    { "q_out", true, RFG_FORMAT_AS, 0, 0 },
    { "kv_scale", false, RFG_FORMAT_ALWAYS, RFG_F32, 0 },
};

/* ---- rules ------------------------------------------------------------------------------------------------------- */

static bool formats_valid(const struct rfg_problem *prob, struct rfg_reason *why)
{
    const int64_t *v = prob->v;
    int x = prob->dtype[0], kv = prob->dtype[1];
    if (x != RFG_BF16 && x != RFG_F16)
        return rfg_refuse(why, "dtype %s: must be bf16 or f16", rfg_dtype_name((rfg_dtype)x));
    if (!mla_format_valid(v[APPEND_FORMAT], x, kv, v[APPEND_D], why))
        return false;
    if (v[APPEND_SCALE] && (kv == x || v[APPEND_FORMAT]))
        return rfg_refuse(why, "scale=1 (kv_scale): must be with a plain kv of 8 bits");
    if (v[APPEND_WTYPE] && !v[APPEND_NORM])
        return rfg_refuse(why, "wtype=f32: there is no norm");
    if ((v[APPEND_TABLE] || v[APPEND_POS]) && !v[APPEND_ROPE])
        return rfg_refuse(why, "%s: there is no rope (cos_sin)", v[APPEND_TABLE] ? "table=f32" : "pos=i32");
    return true;
}

static bool append_valid(const struct rfg_problem *prob, struct rfg_reason *why)
{
    const int64_t *v = prob->v;
    int64_t r = v[APPEND_R], c = v[APPEND_D] - r;
    if (!formats_valid(prob, why))
        return false;
    if (c < 64 || c > 512 || c % 64 || (r != 0 && r != 32 && r != 64))
        return rfg_refuse(why,
                          "D=%" PRId64 " R=%" PRId64
                          ", of kv and k_rope: R must be 0, 32 or 64, and D - R a multiple of 64 up to 512",
                          v[APPEND_D], r);
    if (v[APPEND_FORMAT] && r != MLA_ROTATED)
        return rfg_refuse(why, "format=%s R=%" PRId64 ", of k_rope: must be with R=%d",
                          mla_format_names[v[APPEND_FORMAT]], r, MLA_ROTATED);
    if (v[APPEND_ROPE] && !r)
        return rfg_refuse(why, "rope=%s (cos_sin): must be with R (k_rope)", rope_names[v[APPEND_ROPE]]);
    if (v[APPEND_NORM] == APPEND_NORM_ALL && !r)
        return rfg_refuse(why, "norm=all: is norm=latent without R (k_rope)");
    if (v[APPEND_HQ] && !v[APPEND_ROPE])
        return rfg_refuse(why, "Hq=%" PRId64 " (q): must be with a rope (cos_sin)", v[APPEND_HQ]);
    if (v[APPEND_INPLACE] && !v[APPEND_HQ])
        return rfg_refuse(why, "inplace=1: must be with Hq (q)");
    if (!v[APPEND_PAGE] || v[APPEND_PAGE] & (v[APPEND_PAGE] - 1))
        return rfg_refuse(why, "page=%" PRId64 ", of kv: must be a power of two", v[APPEND_PAGE]);
    if (v[APPEND_T] * (v[APPEND_HQ] / 8 + 1) > RFG_MAX_SIZE)
        return rfg_refuse(why, "T=%" PRId64 " Hq=%" PRId64 ": T (Hq / 8 + 1) must be at most %d", v[APPEND_T],
                          v[APPEND_HQ], RFG_MAX_SIZE);
    if (v[APPEND_ALIGN] & (v[APPEND_ALIGN] - 1))
        return rfg_refuse(why, "align=%" PRId64 ": must be a power of two", v[APPEND_ALIGN]);
    return true;
}

static void append_cost(const struct rfg_problem *prob, double *bytes, double *flops)
{
    const int64_t *v = prob->v;
    double t = (double)v[APPEND_T];
    double row =
        v[APPEND_FORMAT] ? MLA_KEY_BYTES(v[APPEND_FORMAT]) : (double)rfg_format_bytes(prob->dtype[1], v[APPEND_D]);
    double a_token = (double)rfg_format_bytes(prob->dtype[0], v[APPEND_D]) + 8 + row;
    if (v[APPEND_ROPE])
        a_token += (double)rfg_format_bytes(append_position_dtype(prob), 1) +
                   (double)rfg_format_bytes(append_table_dtype(prob), v[APPEND_R]) +
                   2 * (double)v[APPEND_HQ] * (double)rfg_format_bytes(prob->dtype[0], v[APPEND_R]);
    *bytes = t * a_token;
    *flops = t * ((double)v[APPEND_D] * (v[APPEND_NORM] ? 6 : 2) + 3.0 * (double)(v[APPEND_HQ] * v[APPEND_R]));
}

/* ---- arguments --------------------------------------------------------------------------------------------------- */

/* Of a dimension of size 1 only element 0 is there: its stride may be anything. */
static long long stride(const rfg_tensor *t, int dim)
{
    return t && t->shape[dim] > 1 ? t->strides[dim] : 0;
}

void append_fill_args(const struct append_call *c, struct append_args *a)
{
    const rfg_mla_append_params *p = &c->p;
    *a = (struct append_args){ .slots = c->slots->data,
                               .latent = c->latent->data,
                               .latent_token = stride(c->latent, 0),
                               .kv = c->kv->data,
                               .kv_block = stride(c->kv, 0),
                               .kv_row = p->format == RFG_MLA_V4 ? MLA_ROW_BYTES(MLA_V4) : stride(c->kv, 1),
                               .n_slots = c->kv->shape[0] * c->kv->shape[1],
                               .page_shift = __builtin_ctzll((unsigned long long)c->kv->shape[1]),
                               .tokens = (int)c->latent->shape[0],
                               .kv_scale = p->kv_scale ? p->kv_scale->data : NULL,
                               .norm = p->norm ? p->norm->data : NULL,
                               .eps = p->eps > 0 ? p->eps : 1e-6f };
    if (c->k_rope) {
        a->k_rope = c->k_rope->data;
        a->k_rope_token = stride(c->k_rope, 0);
    }
    if (p->cos_sin) {
        a->cos_sin = p->cos_sin->data;
        a->table_rows = p->cos_sin->shape[0];
        a->table_stride = stride(p->cos_sin, 0);
        a->positions = p->positions->data;
    }
    if (p->q) {
        a->hq = (int)p->q->shape[1];
        a->q = p->q->data;
        a->q_token = stride(p->q, 0);
        a->q_head = stride(p->q, 1);
        a->q_out = p->q_out->data;
        a->q_out_token = stride(p->q_out, 0);
        a->q_out_head = stride(p->q_out, 1);
    }
}

/* ---- the table -------------------------------------------------------------------------------------------------- */

const struct rfg_op rfg_op_mla_append_desc = {
    .name = "mla_append",
    .id = 41,
    .n_in = 1,
    .n_out = 1,
    RFG_OPERANDS(append_operands),
    .n_keys = APPEND_NKEYS,
    .keys = append_keys,
    .column_key = { "T", "D", "R" },
    RFG_KARGS(struct append_args),
    .valid = append_valid,
    .cost = append_cost,
};
