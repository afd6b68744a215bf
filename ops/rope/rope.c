/* SPDX-License-Identifier: MIT
 *
 * The operators rope, kv_append and rope_append: their tables. What the tensors of calls must be is in call.c,
 * the variants are in gpu.c and cpu.c. */
#include "rope.h"

#include <inttypes.h>

#include "ops/operand.h"

static const char *const as_q[] = { "same" };
static const char *const pairs_names[] = { "neox", "gptj" };
static const char *const mrope_names[] = { "chunked", "interleaved" };
static const char *const norm_names[] = { "none", "w", "1+w" };
static const char *const scales_names[] = { "none", "tensor", "head", "token" };
static const char *const form_names[] = { "nhd", "hnd", "vllm", "packed", "gaps" };
static const char *const qkv_names[] = { "apart", "fused", "gaps" };

/* clang-format off */
#define KEYS                                                                                                          \
    [ROPE_T] = { "T", RFG_KEY_SIZE, 0, 0, RFG_MAX_SIZE, NULL, "tokens" },                                             \
    [ROPE_D] = { "D", RFG_KEY_SIZE, 0, 1, ROPE_MAX_D, NULL, "elements of a head of q and k" },                        \
    [ROPE_HKV] = { "Hkv", RFG_KEY_SIZE, 0, 0, RFG_MAX_SIZE, NULL, "heads of keys and values" },                       \
    [ROPE_DV] = { "Dv", RFG_KEY_ATTR, 0, 0, ROPE_MAX_D, NULL, "elements of a head of v, if not D" },                  \
    [ROPE_PAGE] = { "page", RFG_KEY_ATTR, 0, 0, ROPE_MAX_PAGE, NULL, "rows of a block of the caches" },               \
    [ROPE_R] = { "R", RFG_KEY_ATTR, 0, 0, ROPE_MAX_D, NULL, "elements of a head that are rotated, if not D" },        \
    [ROPE_PAIRS] = { "pairs", RFG_KEY_ATTR, 0, 0, 1, pairs_names, "neox: (i, i + R/2); gptj: (2i, 2i + 1)" },         \
    [ROPE_LAST] = { "last", RFG_KEY_ATTR, 0, 0, 1, NULL, "1: the last R of a head" },                                 \
    [ROPE_OFFSET] = { "offset", RFG_KEY_ATTR, 0, 0, ROPE_MAX_D, NULL,                                                 \
        "the first of those R, where they are neither the first nor the last" },                                      \
    [ROPE_AXES] = { "axes", RFG_KEY_ATTR, 0, 0, 4, NULL, "of positions [axes,T]; 0: they are [T]" },                  \
    [ROPE_MROPE] = { "mrope", RFG_KEY_ATTR, 0, 0, 1, mrope_names, "which axis a pair goes by" },                      \
    [ROPE_TABLE] = { "table", RFG_KEY_ATTR, 0, 0, RFG_DTYPE_COUNT - 1, as_q, "dtype of cos_sin; same: q's",           \
                     1u << RFG_F32 },                                                                                 \
    [ROPE_NORM] = { "norm", RFG_KEY_ATTR, 0, 0, ROPE_NORM_1W, norm_names, "what the weights of the norms are" },      \
    [ROPE_WTYPE] = { "wtype", RFG_KEY_ATTR, 0, 0, RFG_DTYPE_COUNT - 1, as_q, "dtype of the norms' weights; same: q's",\
                     1u << RFG_F32 },                                                                                 \
    [ROPE_SCALES] = { "scales", RFG_KEY_ATTR, 0, 0, ROPE_SCALES_TOKEN, scales_names, "k_scale and v_scale" },         \
    [ROPE_BACKWARD] = { "backward", RFG_KEY_LAYOUT, 0, 0, 1, NULL, "1: by minus the angle" },                         \
    [ROPE_FORM] = { "form", RFG_KEY_LAYOUT, 0, 0, ROPE_FORM_GAPS, form_names,                                         \
        "how the caches lie: as their strides say, or in vLLM's older form (hnd, packed, gaps: tests')" },            \
    [ROPE_QKV] = { "qkv", RFG_KEY_LAYOUT, 0, 0, ROPE_QKV_GAPS, qkv_names, "how q, k and v lie: tests'" },             \
    [ROPE_INPLACE] = { "inplace", RFG_KEY_LAYOUT, 0, 0, 1, NULL, "1: outputs in place of q (and k)" },                \
    [ROPE_ALIGN] = { "align", RFG_KEY_LAYOUT, 16, 1, 16, NULL,                                                        \
        "bytes, up to 16, of which pointers and strides are multiples (of 8-bit caches half as many do)" },           \
    [ROPE_OVERLAP] = RFG_KEY_OVERLAP
/* clang-format on */

static const struct rfg_key rope_keys[ROPE_NKEYS] = {
    KEYS,
    [ROPE_HQ] = { "Hq", RFG_KEY_SIZE, 0, 0, RFG_MAX_SIZE, NULL, "heads of queries" },
};
static const struct rfg_key append_keys[ROPE_NKEYS] = {
    KEYS,
    [ROPE_HQ] = { "Hq", RFG_KEY_ATTR, 0, 0, 0, NULL, "there are no queries" },
};

/* ---- what a problem may say ------------------------------------------------------------------------------------- */

/* Each way to say a thing has one spelling, so that a call and its problem string find the same tuned row; and what an
 * operator doesn't have is left out. */
static bool belongs(const struct rfg_problem *prob, struct rfg_reason *why)
{
    static const int of_rotation[] = { ROPE_R,     ROPE_PAIRS, ROPE_LAST, ROPE_OFFSET,   ROPE_AXES,
                                       ROPE_MROPE, ROPE_TABLE, ROPE_NORM, ROPE_BACKWARD, ROPE_INPLACE };
    static const int of_caches[] = { ROPE_DV, ROPE_PAGE, ROPE_NORM, ROPE_SCALES, ROPE_FORM };
    const struct rfg_key *keys = prob->op->keys;
    for (size_t i = 0; !rope_rotates(prob) && i < sizeof(of_rotation) / sizeof(of_rotation[0]); i++)
        if (prob->v[of_rotation[i]] != keys[of_rotation[i]].def)
            return rfg_refuse(why, "%s: %s rotates nothing", keys[of_rotation[i]].name, prob->op->name);
    for (size_t i = 0; !rope_appends(prob) && i < sizeof(of_caches) / sizeof(of_caches[0]); i++)
        if (prob->v[of_caches[i]] != keys[of_caches[i]].def)
            return rfg_refuse(why, "%s: %s has no cache and no norm", keys[of_caches[i]].name, prob->op->name);
    return true;
}

static bool dtypes_valid(const struct rfg_problem *prob, struct rfg_reason *why)
{
    int x = rope_dtype(prob), p = rope_position_dtype(prob), cache = rope_cache_dtype(prob);
    if (x != RFG_BF16 && x != RFG_F16 && (x != RFG_F32 || rope_appends(prob)))
        return rfg_refuse(why, "dtype %s: must be %s", rfg_dtype_name((rfg_dtype)x),
                          rope_appends(prob) ? "bf16 or f16" : "bf16, f16 or f32");
    if (rope_rotates(prob) && p != RFG_I32 && p != RFG_I64)
        return rfg_refuse(why, "dtype of positions is %s: must be i32 or i64", rfg_dtype_name((rfg_dtype)p));
    if (!rope_appends(prob) && prob->dtype[2] != x)
        return rfg_refuse(why, "dtype of q_out is %s: must be q's, %s", rfg_dtype_name((rfg_dtype)prob->dtype[2]),
                          rfg_dtype_name((rfg_dtype)x));
    bool integer = cache == RFG_I8 || cache == RFG_I4;
    if (rope_appends(prob) && cache != x && cache != RFG_E4M3 && cache != RFG_E4M3FNUZ && cache != RFG_E5M2 && !integer)
        return rfg_refuse(why, "dtype of k_cache is %s: must be k's, %s, or e4m3, e4m3fnuz, e5m2, i8 or i4",
                          rfg_dtype_name((rfg_dtype)cache), rfg_dtype_name((rfg_dtype)x));
    if (rope_appends(prob) && integer && !rope_token_scales(prob))
        return rfg_refuse(
            why, "dtype of k_cache is %s: must be with scales=token (k_scale and v_scale of each token and head)",
            rfg_dtype_name((rfg_dtype)cache));
    return true;
}

static bool rotation_valid(const struct rfg_problem *prob, struct rfg_reason *why)
{
    const int64_t *v = prob->v;
    int64_t r = rope_r(prob);
    if (r % 2 || r > v[ROPE_D])
        return rfg_refuse(why, "R=%" PRId64 ", cos_sin's columns: must be even, and at most D=%" PRId64, r, v[ROPE_D]);
    if (v[ROPE_R] == v[ROPE_D])
        return rfg_refuse(why, "R=%" PRId64 ": is D: leave it out", v[ROPE_R]);
    if (v[ROPE_LAST] && !v[ROPE_R])
        return rfg_refuse(why, "last=1: all of a head is rotated: leave it out");
    if (v[ROPE_OFFSET] && v[ROPE_LAST])
        return rfg_refuse(why, "offset=%" PRId64 ": last=1 says where: leave one out", v[ROPE_OFFSET]);
    if (v[ROPE_OFFSET] && v[ROPE_OFFSET] + r >= v[ROPE_D])
        return rfg_refuse(why, "offset=%" PRId64 ": must be below D - R=%" PRId64 ", which is last=1", v[ROPE_OFFSET],
                          v[ROPE_D] - r);
    if (v[ROPE_TABLE] == rope_dtype(prob))
        return rfg_refuse(why, "table=%s: is q's dtype: leave it out", rfg_dtype_name((rfg_dtype)v[ROPE_TABLE]));
    if (v[ROPE_AXES] == 1)
        return rfg_refuse(why, "axes=1: must be 2 to 4, or 0 for positions [T]");
    if (v[ROPE_MROPE] && v[ROPE_AXES] != 3)
        return rfg_refuse(why, "mrope=interleaved: must be with axes=3 (mrope_interleaved, positions [3,T])");
    if (v[ROPE_WTYPE] && !v[ROPE_NORM])
        return rfg_refuse(why, "wtype=f32: there is no norm");
    return true;
}

static bool cache_valid(const struct rfg_problem *prob, struct rfg_reason *why)
{
    const int64_t *v = prob->v;
    bool codes = rope_cache_dtype(prob) != rope_dtype(prob), i4 = rope_cache_dtype(prob) == RFG_I4;
    int64_t x = rfg_format_elements(rope_cache_dtype(prob), 16);
    if (!v[ROPE_PAGE])
        return rfg_refuse(why, "page=0, k_cache's: must be from 1 to %d", ROPE_MAX_PAGE);
    if (v[ROPE_DV] == v[ROPE_D])
        return rfg_refuse(why, "Dv=%" PRId64 ": is D: leave it out", v[ROPE_DV]);
    if (v[ROPE_SCALES] && !codes)
        return rfg_refuse(why, "scales=%s (k_scale, v_scale): must be with an 8-bit k_cache, or i4",
                          scales_names[v[ROPE_SCALES]]);
    if (v[ROPE_SCALES] == ROPE_SCALES_HEAD && v[ROPE_HKV] == 1)
        return rfg_refuse(why, "scales=head: is scales=tensor with Hkv=1");
    if (i4 && (v[ROPE_D] % 2 || rope_dv(prob) % 2))
        return rfg_refuse(why, "D=%" PRId64 " Dv=%" PRId64 ": must be even with a k_cache of i4", v[ROPE_D],
                          rope_dv(prob));
    if (v[ROPE_FORM] == ROPE_FORM_VLLM && rope_token_scales(prob))
        return rfg_refuse(why, "scales=token: must be with rows of D elements, not form=vllm");
    if (v[ROPE_FORM] == ROPE_FORM_VLLM && v[ROPE_D] % x)
        return rfg_refuse(why, "form=vllm: D=%" PRId64 ", of q and k: must be a multiple of %" PRId64, v[ROPE_D], x);
    return true;
}

static bool rope_valid(const struct rfg_problem *prob, struct rfg_reason *why)
{
    const int64_t *v = prob->v;
    double rows = (double)v[ROPE_HQ] + (rope_appends(prob) ? 2 : 1) * (double)v[ROPE_HKV];
    double d = (double)v[ROPE_D], dv = (double)rope_dv(prob);
    if (!belongs(prob, why) || !dtypes_valid(prob, why))
        return false;
    if (!v[ROPE_D])
        return rfg_refuse(why, "D=0: must be at least 1");
    if (rows * (double)v[ROPE_T] > RFG_MAX_SIZE || rows * (d > dv ? d : dv) > RFG_MAX_STRIDE)
        return rfg_refuse(why,
                          "T=%" PRId64
                          ", %.0f heads of q, k and v: tokens times heads, and heads times elements of a head, must be "
                          "at most %d",
                          v[ROPE_T], rows, RFG_MAX_SIZE);
    if (v[ROPE_ALIGN] & (v[ROPE_ALIGN] - 1))
        return rfg_refuse(why, "align=%" PRId64 ": must be a power of two", v[ROPE_ALIGN]);
    if (rope_rotates(prob) && !rotation_valid(prob, why))
        return false;
    return !rope_appends(prob) || cache_valid(prob, why);
}

/* In place, what isn't rotated is not touched. */
static void rope_cost(const struct rfg_problem *prob, double *bytes, double *flops)
{
    const int64_t *v = prob->v;
    int x = rope_dtype(prob), cache = rope_cache_dtype(prob);
    bool append = rope_appends(prob), part = v[ROPE_INPLACE] && !v[ROPE_NORM];
    double t = (double)v[ROPE_T], hq = (double)v[ROPE_HQ], hkv = (double)v[ROPE_HKV];
    double head = (double)rfg_format_bytes(x, part ? rope_r(prob) : v[ROPE_D]);
    double a_token = 2 * head * (hq + (append ? 0 : hkv));
    if (rope_rotates(prob))
        a_token += (double)rfg_format_bytes(rope_table_dtype(prob), rope_r(prob)) +
                   (double)rfg_format_bytes(rope_position_dtype(prob), v[ROPE_AXES] ? v[ROPE_AXES] : 1);
    if (append)
        a_token += 8 + hkv * (double)(rfg_format_bytes(x, v[ROPE_D]) + rfg_format_bytes(x, rope_dv(prob)) +
                                      rfg_format_bytes(cache, v[ROPE_D]) + rfg_format_bytes(cache, rope_dv(prob)) +
                                      (rope_token_scales(prob) ? 8 : 0));
    *bytes = t * a_token;
    *flops = t * (hq + hkv) * (double)v[ROPE_D] * (v[ROPE_NORM] ? 7 : 3) + t; /* moves: 0 would mean nothing to do */
}

/* ---- the tables ------------------------------------------------------------------------------------------------- */

static const struct rfg_op_operand rope_operands[] = {
    { "q", false, RFG_FORMAT_LISTED, 0, 0 },    { "positions", false, RFG_FORMAT_LISTED, 1, 0 },
    { "q_out", true, RFG_FORMAT_LISTED, 2, 0 }, { "k", false, RFG_FORMAT_AS, 0, 0 },
    { "k_out", true, RFG_FORMAT_AS, 0, 0 },     { "cos_sin", false, RFG_FORMAT_KEYED, ROPE_TABLE, 1 },
};
static const struct rfg_op_operand kv_append_operands[] = {
    { "k", false, RFG_FORMAT_LISTED, 0, 0 },
    { "k_cache", true, RFG_FORMAT_LISTED, 1, 0 },
    { "v", false, RFG_FORMAT_AS, 0, 0 },
    { "v_cache", true, RFG_FORMAT_AS, 1, 0 },
    { "slots", false, RFG_FORMAT_ALWAYS, RFG_I64, 0 },
    { "k_scale", false, RFG_FORMAT_ALWAYS, RFG_F32, 0 },
    { "v_scale", false, RFG_FORMAT_ALWAYS, RFG_F32, 0 },
};
static const struct rfg_op_operand rope_append_operands[] = {
    { "q", false, RFG_FORMAT_LISTED, 0, 0 },
    { "positions", false, RFG_FORMAT_LISTED, 1, 0 },
    { "k_cache", true, RFG_FORMAT_LISTED, 2, 0 },
    { "k", false, RFG_FORMAT_AS, 0, 0 },
    { "v", false, RFG_FORMAT_AS, 0, 0 },
    { "q_out", true, RFG_FORMAT_AS, 0, 0 },
    { "v_cache", true, RFG_FORMAT_AS, 2, 0 },
    { "cos_sin", false, RFG_FORMAT_KEYED, ROPE_TABLE, 1 },
    { "slots", false, RFG_FORMAT_ALWAYS, RFG_I64, 0 },
    { "q_norm", false, RFG_FORMAT_KEYED, ROPE_WTYPE, 1 },
    { "k_norm", false, RFG_FORMAT_KEYED, ROPE_WTYPE, 1 },
    { "k_scale", false, RFG_FORMAT_ALWAYS, RFG_F32, 0 },
    { "v_scale", false, RFG_FORMAT_ALWAYS, RFG_F32, 0 },
};

#define COUNT(array) (int)(sizeof(array) / sizeof((array)[0]))
#define DESC(op_name, op_id, op_keys, inputs, ...)                                                                     \
    const struct rfg_op rfg_op_##op_name##_desc = {                                                                    \
        .name = #op_name,                                                                                              \
        .id = op_id,                                                                                                   \
        .n_in = inputs,                                                                                                \
        .n_out = 1,                                                                                                    \
        .n_operands = COUNT(op_name##_operands),                                                                       \
        .operands = op_name##_operands,                                                                                \
        .n_keys = ROPE_NKEYS,                                                                                          \
        .keys = op_keys,                                                                                               \
        .column_key = { "T", __VA_ARGS__ },                                                                            \
        RFG_KARGS(struct rope_args),                                                                                   \
        .valid = rope_valid,                                                                                           \
        .cost = rope_cost,                                                                                             \
    }

DESC(rope, 12, rope_keys, 2, "Hq", "D");
DESC(kv_append, 13, append_keys, 1, "Hkv", "D");
DESC(rope_append, 14, rope_keys, 2, "Hq", "D");
