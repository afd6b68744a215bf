/* SPDX-License-Identifier: MIT
 *
 * The operators mha and mha_decode: their tables. What the tensors of calls must be is in call.c. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "ops/operand.h"
#include "mha_call.h"

static const char *const kv_names[] = { "same" };
static const char *const stype_names[] = { "f32" };
static const char *const scales_names[] = { "none", "tensor", "head", "token" };
static const char *const form_names[] = { "nhd", "hnd", "vllm", "gaps" };
static const char *const lens_names[] = { "all", "log", "any" };

#define MAX_PAGE (1 << 30)

/* clang-format off */
#define KEYS                                                                                                          \
    [MHA_B] = { "B", RFG_KEY_SIZE, 0, 0, RFG_MAX_SIZE - 1, NULL, "sequences" },                                       \
    [MHA_HQ] = { "Hq", RFG_KEY_SIZE, 0, 1, RFG_MAX_SIZE, NULL, "heads of queries" },                                  \
    [MHA_HKV] = { "Hkv", RFG_KEY_SIZE, 0, 1, RFG_MAX_SIZE, NULL, "heads of keys and values" },                        \
    [MHA_D] = { "D", RFG_KEY_SIZE, 0, 8, MHA_MAX_D, NULL, "elements of a head of q and k" },                               \
    [MHA_S] = { "S", RFG_KEY_SIZE, 0, 0, RFG_MAX_SIZE, NULL,                                                          \
        "keys that a sequence may have: what the tensors hold, or max_seqlen_k rounded up to a power of two" },       \
    [MHA_DV] = { "Dv", RFG_KEY_ATTR, 0, 0, MHA_MAX_D, NULL, "elements of a head of v, if not D" },                          \
    [MHA_CAUSAL] = { "causal", RFG_KEY_ATTR, 0, 0, 1, NULL, "1: causal" },                                            \
    [MHA_WINDOW] = { "window", RFG_KEY_ATTR, 0, 0, RFG_MAX_SIZE, NULL,                                                \
        "keys that a query sees, its own included (with causal=1, or one query); 0: all" },                           \
    [MHA_LEFT] = { "window_left", RFG_KEY_ATTR, -1, -1, RFG_MAX_SIZE, NULL,                                           \
        "keys before its own that a query sees, where window= doesn't say it; -1: all" },                             \
    [MHA_RIGHT] = { "window_right", RFG_KEY_ATTR, -1, -1, RFG_MAX_SIZE, NULL, "keys after it; -1: all" },             \
    [MHA_CAP] = { "cap", RFG_KEY_ATTR, 0, 0, MHA_MAX_CAP, NULL, "soft_cap, rounded up; 0: none" },                    \
    [MHA_SINK] = { "sink", RFG_KEY_ATTR, 0, 0, 1, NULL, "1: sinks" },                                                 \
    [MHA_STYPE] = { "stype", RFG_KEY_ATTR, 0, 0, RFG_DTYPE_COUNT - 1, stype_names, "dtype of the sinks: f32, or q's", \
                    RFG_HALF_FORMATS },                                                                 \
    [MHA_ALIBI] = { "alibi", RFG_KEY_ATTR, 0, 0, 1, NULL, "1: alibi" },                                               \
    [MHA_LSE] = { "lse", RFG_KEY_ATTR, 0, 0, 1, NULL, "1: lse is written" },                                          \
    [MHA_VARLEN] = { "varlen", RFG_KEY_ATTR, 0, 0, 1, NULL, "1: cu_seqlens_q, and cu_seqlens_k unless paged" },       \
    [MHA_PAGE] = { "page", RFG_KEY_ATTR, 0, 0, MAX_PAGE, NULL, "keys of a block of the cache; 0: no block_table" },   \
    [MHA_KV] = { "kv", RFG_KEY_ATTR, 0, 0, RFG_DTYPE_COUNT - 1, kv_names, "dtype of k and v; same: q's",              \
                 1u << RFG_E4M3 | 1u << RFG_E4M3FNUZ | 1u << RFG_E5M2 | 1u << RFG_I8 | 1u << RFG_I4 },                \
    [MHA_SCALES] = { "scales", RFG_KEY_ATTR, 0, 0, MHA_SCALES_TOKEN, scales_names, "k_scale and v_scale" },           \
    [MHA_FORM] = { "form", RFG_KEY_LAYOUT, 0, 0, MHA_FORM_GAPS, form_names,                                           \
        "how k and v lie: as their strides say, or in vLLM's older form (hnd, gaps: tests')" },                       \
    [MHA_ALIGN] = { "align", RFG_KEY_LAYOUT, 16, 1, 16, NULL,                                                         \
        "bytes, up to 16, of which pointers and strides are multiples" },                                             \
    [MHA_INVARIANT] = RFG_KEY_INVARIANT,                                                                              \
    [MHA_OVERLAP] = RFG_KEY_OVERLAP
/* clang-format on */

static const struct rfg_key mha_keys[MHA_NKEYS] = {
    KEYS,
    [MHA_SQ] = { "Sq", RFG_KEY_SIZE, 0, 0, RFG_MAX_SIZE, NULL, "queries of a sequence; with varlen max_seqlen_q" },
    [MHA_LENS] = { "lens", RFG_KEY_LAYOUT, 0, 0, MHA_LENS_ANY, lens_names, "lengths in tests and tuning" },
};
static const struct rfg_key decode_keys[MHA_NKEYS] = {
    KEYS,
    [MHA_SQ] = { "Sq", RFG_KEY_ATTR, 1, 1, 8, NULL, "queries of a sequence" },
    [MHA_LENS] = { "lens", RFG_KEY_ATTR, 0, 0, MHA_LENS_ANY, lens_names,
                   "all: mean_seqlen_k is 3/4 of S or more, B=1, or no kv_lens; log: any lengths (any: tests')" },
};

/* ---- what a problem may say ------------------------------------------------------------------------------------- */

/* Normalises the problem, so that a call and its problem string find the same tuned row. */
static bool masks_valid(const struct rfg_problem *prob, struct rfg_reason *why)
{
    const int64_t *v = prob->v;
    bool lone = mha_is_lone(prob);
    if (lone && (v[MHA_CAUSAL] || v[MHA_RIGHT] >= 0))
        return rfg_refuse(why, "%s=%" PRId64 ": masks nothing with one query: leave it out",
                          v[MHA_CAUSAL] ? "causal" : "window_right", v[MHA_CAUSAL] ? 1 : v[MHA_RIGHT]);
    if (v[MHA_CAUSAL] && v[MHA_RIGHT] >= 0)
        return rfg_refuse(why, "window_right=%" PRId64 ": causal=1 counts it as 0: leave it out", v[MHA_RIGHT]);
    if (v[MHA_WINDOW] && !v[MHA_CAUSAL] && !lone)
        return rfg_refuse(why,
                          "window=%" PRId64 ": must be with causal=1%s: it says nothing of later keys, "
                          "window_left= and window_right= do",
                          v[MHA_WINDOW], mha_is_decode(prob) ? " or Sq=1" : "");
    if (v[MHA_LEFT] >= 0 && (v[MHA_CAUSAL] || lone))
        return rfg_refuse(why, "window_left=%" PRId64 ": is window=%" PRId64 " with %s", v[MHA_LEFT], v[MHA_LEFT] + 1,
                          lone ? "one query" : "causal=1");
    return true;
}

static bool cache_valid(const struct rfg_problem *prob, struct rfg_reason *why)
{
    const int64_t *v = prob->v;
    if (v[MHA_SCALES] && !v[MHA_KV])
        return rfg_refuse(why, "scales=%s (k_scale, v_scale): must be with k and v of 8 bits, or i4",
                          scales_names[v[MHA_SCALES]]);
    if ((v[MHA_KV] == RFG_I8 || v[MHA_KV] == RFG_I4) && !mha_token_scales(prob))
        return rfg_refuse(why,
                          "kv=%s, k's dtype: must be with scales=token (k_scale and v_scale of each token and head)",
                          rfg_dtype_name((rfg_dtype)v[MHA_KV]));
    if (v[MHA_SCALES] == MHA_SCALES_HEAD && v[MHA_HKV] == 1)
        return rfg_refuse(why, "scales=head: is scales=tensor with Hkv=1");
    if (v[MHA_VARLEN] && mha_is_decode(prob))
        return rfg_refuse(why, "varlen=1: %s has no cu_seqlens", prob->op->name);
    if (v[MHA_FORM] == MHA_FORM_VLLM && (!mha_is_decode(prob) || !v[MHA_PAGE]))
        return rfg_refuse(why, "form=vllm: only mha_decode with a page");
    if (v[MHA_FORM] == MHA_FORM_VLLM && mha_token_scales(prob))
        return rfg_refuse(why, "scales=token: must be with rows of D elements, not form=vllm");
    int64_t x = rfg_format_elements(mha_kv_dtype(prob), 16);
    if (v[MHA_FORM] == MHA_FORM_VLLM && v[MHA_D] % x)
        return rfg_refuse(why, "form=vllm: D=%" PRId64 ", of q and k: must be a multiple of %" PRId64, v[MHA_D], x);
    if (v[MHA_LENS] && !v[MHA_VARLEN] && !v[MHA_PAGE] && !mha_is_decode(prob))
        return rfg_refuse(why, "lens=%s: mha has lengths only with varlen=1 or a page", lens_names[v[MHA_LENS]]);
    return true;
}

/* Decode: a small batch, and a large one of long sequences. Prefill: a short prompt, and a chunk of a long one. */
static void mha_at_size(struct rfg_problem *prob, bool large)
{
    int64_t *v = prob->v;
    v[MHA_B] = mha_is_decode(prob) ? large ? 64 : 4 : 1;
    v[MHA_S] = large ? 16384 : mha_is_decode(prob) ? 2048 : 256;
    if (!mha_is_decode(prob))
        v[MHA_SQ] = large ? 2048 : 256;
    v[MHA_LENS] = MHA_LENS_ALL;
    v[MHA_VARLEN] = 0;
}

int64_t mha_table_columns(const struct rfg_problem *prob)
{
    int64_t page = prob->v[MHA_PAGE];
    return page ? (prob->v[MHA_S] + page - 1) / page : 0;
}

static bool mha_valid(const struct rfg_problem *prob, struct rfg_reason *why)
{
    const int64_t *v = prob->v;
    int64_t dv = mha_dv(prob), columns = mha_table_columns(prob);
    if (prob->dtype[0] != RFG_BF16 && prob->dtype[0] != RFG_F16 && prob->dtype[0] != RFG_F32)
        return rfg_refuse(why, "dtype %s: must be bf16, f16 or f32", rfg_dtype_name((rfg_dtype)prob->dtype[0]));
    if (prob->dtype[1] != prob->dtype[0])
        return rfg_refuse(why, "dtype of out is %s: must be q's, %s", rfg_dtype_name((rfg_dtype)prob->dtype[1]),
                          rfg_dtype_name((rfg_dtype)prob->dtype[0]));
    if (v[MHA_DV] == v[MHA_D])
        return rfg_refuse(why, "Dv=%" PRId64 ": is D: leave it out", v[MHA_DV]);
    if (v[MHA_D] % 8 || dv % 8 || dv < 8)
        return rfg_refuse(why, "D=%" PRId64 " Dv=%" PRId64 ", of q and out: must be multiples of 8, from 8 to %d",
                          v[MHA_D], dv, MHA_MAX_D);
    if (v[MHA_HKV] < 1 || v[MHA_HQ] % v[MHA_HKV])
        return rfg_refuse(why, "Hkv=%" PRId64 ", k's heads: must divide Hq=%" PRId64, v[MHA_HKV], v[MHA_HQ]);
    if (mha_is_decode(prob) && v[MHA_SQ] > 8)
        return rfg_refuse(why, "Sq=%" PRId64 ", q's queries of a sequence: must be at most 8 (mha takes more)",
                          v[MHA_SQ]);
    if (v[MHA_STYPE] && (!v[MHA_SINK] || v[MHA_STYPE] != prob->dtype[0]))
        return rfg_refuse(why, "stype=%s: must be q's dtype, %s, or left out for f32, with sink=1",
                          rfg_dtype_name((rfg_dtype)v[MHA_STYPE]), rfg_dtype_name((rfg_dtype)prob->dtype[0]));
    if (!masks_valid(prob, why) || !cache_valid(prob, why))
        return false;
    double rows = (double)v[MHA_B] * (double)(v[MHA_SQ] > 1 ? v[MHA_SQ] : 1) * (double)v[MHA_HQ];
    double keys = (double)v[MHA_B] * (double)v[MHA_S], blocks = (double)v[MHA_B] * (double)columns;
    if (rows > (v[MHA_VARLEN] ? 0x1p50 : RFG_MAX_SIZE)) /* of varlen Sq and S are of the longest sequence */
        return rfg_refuse(why, "q has %.0f rows, B Sq Hq: must be at most %d", rows, RFG_MAX_SIZE);
    if (blocks > RFG_MAX_SIZE || (double)columns * (double)v[MHA_PAGE] > RFG_MAX_SIZE ||
        keys * (double)v[MHA_HKV] > 0x1p50)
        return rfg_refuse(why, "B=%" PRId64 " S=%" PRId64 ": too many keys for k, or columns for block_table", v[MHA_B],
                          v[MHA_S]);
    if (v[MHA_ALIGN] & (v[MHA_ALIGN] - 1))
        return rfg_refuse(why, "align=%" PRId64 ": must be a power of two", v[MHA_ALIGN]);
    return true;
}

/* ---- lengths in tests, and what a problem costs ----------------------------------------------------------------- */

/* splitmix64 of a counter. */
static uint64_t draw(uint64_t at)
{
    uint64_t z = (at + 1) * 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

int64_t mha_test_length(const struct rfg_problem *prob, bool of_queries, int64_t b)
{
    const int64_t *v = prob->v;
    int64_t batch = v[MHA_B], most = of_queries ? v[MHA_SQ] : v[MHA_S], lens = v[MHA_LENS];
    double u = (double)(draw((uint64_t)b * 2 + of_queries) >> 11) * 0x1p-53;
    if (of_queries ? !v[MHA_VARLEN] : lens == MHA_LENS_ALL)
        return most;
    if (b == batch / (of_queries ? 3 : 2) || most == 0)
        return most;
    if (lens == MHA_LENS_ANY)
        return b == (batch / 2 + 1) % batch ? 0 : (int64_t)(u * (double)(most + 1));
    if (of_queries)
        return 1 + (int64_t)(u * (double)most);
    double least = most < 16 ? (double)most : 16;
    return (int64_t)(least * pow((double)most / least, u));
}

/* The sum of those of the numbers from a to b that are above 0. */
static double ramp(double a, double b)
{
    a = a > 0 ? a : 0;
    return b < a ? 0 : (a + b) * (b - a + 1) / 2;
}

/* Of a sequence's sq queries and skv keys: the pairs that aren't masked, and the keys that any query sees. Neither
 * takes longer for long sequences: every first call of a problem asks, for each candidate. */
static void visible(const struct rfg_problem *prob, int64_t sq, int64_t skv, double *pairs, double *keys)
{
    int64_t left = mha_left(prob), right = prob->v[MHA_CAUSAL] ? 0 : prob->v[MHA_RIGHT];
    double first = (double)(skv - sq), last = (double)(skv - 1), n = (double)skv, before = (double)left; /* places */
    double after = (double)right + 1, from = left < 0 ? 0 : ramp(first - before, last - before);
    double to =
        right < 0 ? (double)sq * n : ramp(first + after, last + after) - ramp(first + after - n, last + after - n);
    *pairs = to - from;
    /* From what the first query sees first; the last one sees the last key. */
    *keys = sq > 0 ? n - (left < 0 || first < before ? 0 : first - before) : 0;
}

/* Each query, result, and key and value that any query sees, once; the products of the pairs that aren't masked. */
static void mha_cost(const struct rfg_problem *prob, double *bytes, double *flops)
{
    const int64_t *v = prob->v;
    double d = (double)v[MHA_D], dv = mha_dv(prob), size = (double)rfg_format_bytes(prob->dtype[0], 1);
    double head = (d + dv) * mha_kv_bits(prob) / 8 + (mha_token_scales(prob) ? 8 : 0), pairs = 0, keys = 0, queries = 0;
    int64_t alike = !v[MHA_VARLEN] && !v[MHA_LENS] ? 1 : 4096; /* a sample of these stands for all */
    int64_t n = v[MHA_B] < alike ? v[MHA_B] : alike;
    for (int64_t b = 0; b < n; b++) {
        int64_t sq = mha_test_length(prob, true, b);
        double its_pairs, its_keys;
        visible(prob, sq, mha_test_length(prob, false, b), &its_pairs, &its_keys);
        pairs += its_pairs;
        keys += its_keys;
        queries += (double)sq;
    }
    double share = n ? (double)v[MHA_B] / (double)n : 0, hq = (double)v[MHA_HQ];
    *bytes = share * (queries * hq * ((d + dv) * size + (v[MHA_LSE] ? 4 : 0)) +
                      keys * ((double)v[MHA_HKV] * head + (v[MHA_PAGE] ? 4 / (double)v[MHA_PAGE] : 0)));
    *flops = share * 2 * (d + dv) * pairs * hq;
}

int64_t mha_called_keys(int64_t most, int64_t held, bool varlen)
{
    int64_t s = 1;
    if (!most || (most >= held && !varlen))
        return held;
    most = most < held ? most : held;
    while (s < most)
        s *= 2;
    return s < RFG_MAX_SIZE ? s : RFG_MAX_SIZE;
}

/* ---- kernel arguments ------------------------------------------------------------------------------------------- */

/* Of a dimension of size 1 only element 0 is there: its stride may be anything. */
static long long stride(const rfg_tensor *t, int dim)
{
    return dim >= 0 && t->shape[dim] > 1 ? t->strides[dim] : 0;
}

static struct mha_rows rows_of(const struct mha_call *c, const rfg_tensor *t)
{
    bool packed = c->p.cu_seqlens_q && c->op == &rfg_op_mha_desc;
    int token = t->ndim == 4 ? 1 : packed ? 0 : -1;
    return (struct mha_rows){ t->data, stride(t, packed ? -1 : 0), stride(t, token), stride(t, t->ndim - 2) };
}

static bool is_older_vllm(const struct mha_call *c)
{
    return c->k->ndim == 5;
}

static struct mha_cache cache_of(const struct mha_call *c, const rfg_tensor *t)
{
    if (is_older_vllm(c))
        return (struct mha_cache){ t->data, stride(t, 0), stride(t, 3), stride(t, 1), { stride(t, 2) } };
    int block = t->ndim == 4 ? 0 : -1;
    int by = (int)rfg_format_elements((int)t->dtype, 1) == 2 ? 2 : 1; /* two in a byte */
    return (struct mha_cache){
        t->data, stride(t, block) / by, stride(t, block + 1) / by, stride(t, block + 2) / by, { 0 }
    };
}

int64_t mha_held(const struct mha_call *c)
{
    int64_t page = c->k->shape[is_older_vllm(c) ? 3 : 1];
    return c->p.block_table ? c->p.block_table->shape[1] * page : c->k->ndim == 3 ? c->k->shape[0] : page;
}

/* Strides of scales: a head's is returned; of a token's, to c. */
static int scale_strides(const rfg_tensor *t, struct mha_cache *c)
{
    if (!t || t->ndim == 1)
        return t && t->shape[0] > 1 ? 1 : 0;
    int block = t->ndim == 3 ? 0 : -1;
    c->scale_stride[0] = (int)stride(t, block);
    c->scale_stride[1] = (int)stride(t, block + 1);
    return (int)stride(t, block + 2);
}

void mha_fill_args(const struct mha_call *c, struct mha_args *a)
{
    const rfg_mha_params *p = &c->p;
    bool decode = c->op == &rfg_op_mha_decode_desc, packed = !decode && p->cu_seqlens_q;
    int64_t d = c->q->shape[c->q->ndim - 1], page = c->k->shape[is_older_vllm(c) ? 3 : 1];
    memset(a, 0, sizeof(*a));
    a->q = rows_of(c, c->q);
    a->out = rows_of(c, c->out);
    a->k = cache_of(c, c->k);
    a->v = cache_of(c, c->v);
    if (c->p.block_table) {
        a->block_table = c->p.block_table->data;
        a->table_stride = stride(c->p.block_table, 0);
        a->page_shift = __builtin_ctzll((unsigned long long)page); /* of others kernels have a macro */
    }
    a->kv_lens = c->p.kv_lens ? c->p.kv_lens->data : NULL;
    a->q_begin = packed ? p->cu_seqlens_q->data : NULL;
    a->kv_begin = packed && p->cu_seqlens_k ? p->cu_seqlens_k->data : NULL;
    a->sinks = p->sinks ? p->sinks->data : NULL;
    a->alibi = p->alibi ? p->alibi->data : NULL;
    a->k_scale = p->k_scale ? p->k_scale->data : NULL;
    a->v_scale = p->v_scale ? p->v_scale->data : NULL;
    a->k_scale_stride = scale_strides(p->k_scale, &a->k);
    a->v_scale_stride = scale_strides(p->v_scale, &a->v);
    if (p->lse) {
        a->lse = p->lse->data;
        a->lse_batch = stride(p->lse, packed ? -1 : 0);
        a->lse_head = stride(p->lse, packed ? 0 : 1);
        a->lse_token = stride(p->lse, packed ? 1 : p->lse->ndim == 3 ? 2 : -1);
    }
    a->scale = p->scale != 0 ? p->scale : (float)(1 / sqrt((double)d));
    a->soft_cap = p->soft_cap;
    a->batch = (int)(packed ? p->cu_seqlens_q->shape[0] - 1 : c->q->shape[0]);
    int64_t tokens = c->q->shape[0];
    a->sq = (int)(packed            ? (p->max_seqlen_q < tokens ? p->max_seqlen_q : tokens)
                  : c->q->ndim == 4 ? c->q->shape[1]
                                    : 1);
    a->skv = (int)mha_held(c);
    a->tokens = packed ? (int)tokens : 0;
    a->hq = (int)c->q->shape[c->q->ndim - 2];
    a->hkv = (int)c->k->shape[is_older_vllm(c) ? 1 : c->k->ndim - 2];
    bool sides = p->window == RFG_MHA_WINDOW_SIDES;
    a->window_left = p->window > 0 ? p->window - 1 : sides && p->window_left >= 0 ? p->window_left : INT32_MAX;
    a->window_right = p->causal ? 0 : sides && p->window_right >= 0 ? p->window_right : INT32_MAX;
}

/* ---- the tables ------------------------------------------------------------------------------------------------- */

static const struct rfg_op_operand mha_operands[] = {
    { "q", false, RFG_FORMAT_LISTED, 0, 0 },
    { "out", true, RFG_FORMAT_LISTED, 1, 0 },
    { "k", false, RFG_FORMAT_KEYED, MHA_KV, 1 },
    { "v", false, RFG_FORMAT_KEYED, MHA_KV, 1 },
    { "lse", true, RFG_FORMAT_ALWAYS, RFG_F32, 0 },
    { "sinks", false, RFG_FORMAT_KEYED, MHA_STYPE, 5 }, /* or as lse: f32 */
    { "alibi", false, RFG_FORMAT_ALWAYS, RFG_F32, 0 },
    { "k_scale", false, RFG_FORMAT_ALWAYS, RFG_F32, 0 },
    { "v_scale", false, RFG_FORMAT_ALWAYS, RFG_F32, 0 },
    { "cu_seqlens_q", false, RFG_FORMAT_ALWAYS, RFG_I32, 0 },
    { "cu_seqlens_k", false, RFG_FORMAT_ALWAYS, RFG_I32, 0 },
    { "block_table", false, RFG_FORMAT_ALWAYS, RFG_I32, 0 },
    { "kv_lens", false, RFG_FORMAT_ALWAYS, RFG_I32, 0 },
};

#define DESC(op_name, op_id, op_keys)                                                                                  \
    {                                                                                                                  \
        .name = #op_name, .id = op_id, .n_in = 1, .n_out = 1, .n_keys = MHA_NKEYS, .keys = op_keys,                    \
        RFG_OPERANDS(mha_operands), .column_key = { "B", "S", "Hq" }, RFG_KARGS(struct mha_args),                      \
        .at_size = mha_at_size, .valid = mha_valid, .cost = mha_cost,                                                  \
    }
const struct rfg_op rfg_op_mha_desc = DESC(mha, 9, mha_keys);
const struct rfg_op rfg_op_mha_decode_desc = DESC(mha_decode, 10, decode_keys);
