/* SPDX-License-Identifier: MIT
 *
 * The harness' case of mha and mha_decode. */
#include <math.h>
#include <string.h>

#include "base/util.h"
#include "ops/oracle.h"
#include "mha_case.h"

#define GAP  64 /* elements between rows with form=gaps: keeps every alignment */
#define STEP 16 /* keys that kernels take at once; pages are multiples */

/* ---- tensors ---------------------------------------------------------------------------------------------------- */

static struct rfg_tensor_spec rows_spec(const struct rfg_problem *prob, const char *name, int dtype, int64_t rows,
                                        int64_t heads, int64_t d)
{
    return (struct rfg_tensor_spec){ .name = name,
                                     .dtype = (rfg_dtype)dtype,
                                     .ndim = 3,
                                     .shape = { rows, heads, d },
                                     .row_stride = heads * d + (prob->v[MHA_FORM] == MHA_FORM_GAPS ? GAP : 0),
                                     .align_key = MHA_ALIGN };
}

static struct rfg_tensor_spec vector_spec(const char *name, rfg_dtype dtype, int64_t n, bool present)
{
    return (struct rfg_tensor_spec){
        .name = name, .dtype = dtype, .ndim = 1, .shape = { n }, .absent = !present, .align_key = -1
    };
}

/* Blocks of sequence b, and of the cache: as many as its keys fill, as a server has it. */
static int64_t blocks_of_sequence(const struct rfg_problem *prob, int64_t b)
{
    int64_t page = prob->v[MHA_PAGE];
    return (mha_test_length(prob, false, b) + page - 1) / page;
}

static int64_t blocks_of_cache(const struct rfg_problem *prob)
{
    int64_t blocks = 0;
    if (!prob->v[MHA_PAGE] || prob->v[MHA_LENS] == MHA_LENS_ALL)
        return prob->v[MHA_B] * mha_table_columns(prob);
    for (int64_t b = 0; b < prob->v[MHA_B]; b++)
        blocks += blocks_of_sequence(prob, b);
    return blocks;
}

static bool has_lens(const struct rfg_problem *prob)
{
    return prob->v[MHA_PAGE] || (mha_is_decode(prob) && prob->v[MHA_LENS]);
}

static int mha_tensors(const struct rfg_problem *prob, struct rfg_tensor_spec spec[RFG_MAX_TENSORS])
{
    const int64_t *v = prob->v;
    int64_t tokens = v[MHA_B] * v[MHA_SQ], columns = mha_table_columns(prob), hq = v[MHA_HQ], dv = mha_dv(prob);
    int64_t keys = v[MHA_PAGE] ? blocks_of_cache(prob) * v[MHA_PAGE] : v[MHA_B] * v[MHA_S];
    int64_t scales = v[MHA_SCALES] == MHA_SCALES_HEAD ? v[MHA_HKV] : 1;
    int kv = mha_kv_dtype(prob);
    _Static_assert(MHA_T_COUNT <= RFG_MAX_TENSORS, "room for all");
    spec[MHA_T_OUT] = rows_spec(prob, "out", prob->dtype[1], tokens, 1, hq * dv);
    spec[MHA_T_OUT].ndim = 2;
    spec[MHA_T_OUT].shape[1] = hq * dv;
    spec[MHA_T_OUT].shape[2] = 0;
    spec[MHA_T_OUT].output = true;
    spec[MHA_T_LSE] = (struct rfg_tensor_spec){ .name = "lse",
                                                .output = true,
                                                .dtype = RFG_F32,
                                                .ndim = 2,
                                                .shape = { tokens, hq },
                                                .row_stride = hq,
                                                .on_request = !v[MHA_LSE],
                                                .align_key = -1 };
    spec[MHA_T_Q] = rows_spec(prob, "q", prob->dtype[0], tokens, hq, v[MHA_D]);
    spec[MHA_T_K] = rows_spec(prob, "k", kv, keys, v[MHA_HKV], v[MHA_D]);
    spec[MHA_T_V] = rows_spec(prob, "v", kv, keys, v[MHA_HKV], dv);
    spec[MHA_T_K].few_special = spec[MHA_T_V].few_special = true; /* a key is seen by all queries of its sequence */
    spec[MHA_T_SINKS] = vector_spec("sinks", (rfg_dtype)mha_sink_dtype(prob), hq, v[MHA_SINK]);
    spec[MHA_T_ALIBI] = vector_spec("alibi", RFG_F32, hq, v[MHA_ALIBI]);
    spec[MHA_T_K_SCALE] = vector_spec("k_scale", RFG_F32, scales, v[MHA_SCALES]);
    spec[MHA_T_V_SCALE] = vector_spec("v_scale", RFG_F32, scales, v[MHA_SCALES]);
    if (mha_token_scales(prob)) {
        spec[MHA_T_K_SCALE] = rows_spec(prob, "k_scale", RFG_F32, keys, 1, v[MHA_HKV]);
        spec[MHA_T_V_SCALE] = rows_spec(prob, "v_scale", RFG_F32, keys, 1, v[MHA_HKV]);
        spec[MHA_T_K_SCALE].align_key = spec[MHA_T_V_SCALE].align_key = -1;
    }
    spec[MHA_T_CU_Q] = vector_spec("cu_seqlens_q", RFG_I32, v[MHA_B] + 1, v[MHA_VARLEN]);
    spec[MHA_T_CU_K] = vector_spec("cu_seqlens_k", RFG_I32, v[MHA_B] + 1, v[MHA_VARLEN] && !v[MHA_PAGE]);
    spec[MHA_T_TABLE] = vector_spec("block_table", RFG_I32, v[MHA_B], v[MHA_PAGE]);
    spec[MHA_T_TABLE].ndim = 2;
    spec[MHA_T_TABLE].shape[1] = spec[MHA_T_TABLE].row_stride = columns;
    spec[MHA_T_LENS] = vector_spec("kv_lens", RFG_I32, v[MHA_B], has_lens(prob));
    return MHA_T_COUNT;
}

/* Blocks are assigned in arbitrary order, each once. Table entries past a sequence's end name any block. */
static void fill_table(const struct rfg_problem *prob, uint64_t seed, int32_t *table)
{
    int64_t blocks = blocks_of_cache(prob), columns = mha_table_columns(prob), left = blocks;
    for (int64_t i = 0; i < blocks; i++) {
        int64_t j = (int64_t)(rfg_random(&seed) % (uint64_t)(i + 1));
        table[i] = table[j];
        table[j] = (int32_t)i;
    }
    /* From the last sequence on, so that what is still to be handed out lies before the row that is written. */
    for (int64_t b = prob->v[MHA_B] - 1; b >= 0 && blocks; b--) {
        int64_t n = blocks_of_sequence(prob, b);
        left -= n;
        memmove(table + b * columns, table + left, (size_t)n * sizeof(*table));
        for (int64_t i = n; i < columns; i++)
            table[b * columns + i] = (int32_t)(rfg_random(&seed) % (uint64_t)blocks);
    }
}

/* In each head's row of values one element stands out, twice as far at the first and last key of each step that kernels
 * take, of each page and sequence: so that a key that is lost or counted twice is seen among 100,000. */
static void fill_spikes(const struct rfg_problem *prob, const rfg_tensor *t, uint64_t seed)
{
    double values[32]; /* of each size, sign, and whether it is at an end */
    for (int i = 0; i < 32; i++)
        values[i] = t->dtype == RFG_I4 ? i & 8 ? 15 - 16 : 0 : (24 + i % 8) * (i & 8 ? -1 : 1) * (i & 16 ? 2 : 1);
    int64_t period = prob->v[MHA_PAGE] ? prob->v[MHA_PAGE] : prob->v[MHA_S];
    for (int64_t r = 0; r < t->shape[0]; r++) {
        int64_t key = r % period;
        bool end = key % STEP == 0 || key % STEP == STEP - 1 || key == period - 1;
        for (int64_t h = 0; h < t->shape[1]; h++) {
            uint64_t draw = rfg_random(&seed);
            int64_t at = r * t->strides[0] + h * t->strides[1] + (int64_t)(draw >> 16) % t->shape[2];
            rfg_store(t->data, t->dtype, at, values[(draw & 15) + (end ? 16 : 0)]);
        }
    }
}

static bool is_integer(const struct rfg_problem *prob)
{
    return mha_kv_dtype(prob) == RFG_I8 || mha_kv_dtype(prob) == RFG_I4;
}

/* Integers of all sizes, or small ones, among which others stand out. Of i4 those about 8: its codes are from 0 to 15. */
static void fill_codes(const rfg_tensor *t, bool small, uint64_t seed)
{
    for (int64_t r = 0; r < t->shape[0]; r++)
        for (int64_t i = 0; i < t->shape[1] * t->shape[2]; i++) {
            int bits = (int)(rfg_random(&seed) >> 20 & 255), code = small ? bits % 7 - 3 : bits - 128;
            rfg_store(t->data, t->dtype, r * t->strides[0] + i,
                      t->dtype == RFG_I8 ? code : ((code + 8) & 15) - (((code + 8) & 8) ? 16 : 0));
        }
}

/* Such that values are about 1, of a few tokens much more or less; the code that is 0 is any one, mostly near 8. */
static void fill_token_scales(const struct rfg_problem *prob, const rfg_tensor *t, enum rfg_data data, uint64_t seed)
{
    bool small = mha_kv_dtype(prob) == RFG_I4;
    double unit = small ? 0x1p-3 : mha_kv_dtype(prob) == RFG_I8 ? 0x1p-6 : 0x1p-1;
    for (int64_t r = 0; r < t->shape[0]; r++)
        for (int64_t i = 0; i < t->shape[1] * t->shape[2]; i++) {
            uint64_t draw = rfg_random(&seed);
            float *f = (float *)t->data + r * t->strides[0] + i;
            double size = draw % 61 == 0 ? 4 : draw % 67 == 0 ? 0x1p-9 : 0.5 + (double)(draw >> 40 & 1023) / 1024;
            uint32_t zero = (uint32_t)(draw % 13 ? 6 + (draw >> 30) % 5 : (draw >> 30) % 16), bits;
            *f = (float)(data == RFG_DATA_INTS ? 0.5 : unit * size);
            if (data == RFG_DATA_SPECIAL && draw % 1021 == 0)
                *f = draw & 1 << 20 ? NAN : INFINITY;
            memcpy(&bits, f, sizeof(bits));
            bits = small ? (bits & ~15u) | zero : bits;
            memcpy(f, &bits, sizeof(bits));
        }
}

/* Zeroes, so that all weights are alike: results are exact where their number is a power of two. */
static void fill_zeroes(const rfg_tensor *t)
{
    size_t bytes = (size_t)rfg_format_bytes((int)t->dtype, 1);
    for (int64_t r = 0; r < t->shape[0]; r++)
        memset((char *)t->data + (size_t)(r * t->strides[0]) * bytes, 0, (size_t)(t->shape[1] * t->shape[2]) * bytes);
}

static void mha_fill(const struct rfg_problem *prob, int tensor, const rfg_tensor *t, enum rfg_data data, uint64_t seed)
{
    int64_t batch = prob->v[MHA_B], sum = 0;
    int32_t *index = t->data;
    switch (tensor) {
    case MHA_T_Q:
        if (data == RFG_DATA_INTS)
            fill_zeroes(t);
        break;
    case MHA_T_K:
        if (is_integer(prob))
            fill_codes(t, data == RFG_DATA_INTS, seed);
        break;
    case MHA_T_V:
        if (is_integer(prob))
            fill_codes(t, true, seed);
        if (data == RFG_DATA_RANDOM)
            fill_spikes(prob, t, seed);
        break;
    case MHA_T_K_SCALE:
    case MHA_T_V_SCALE:
        if (mha_token_scales(prob))
            fill_token_scales(prob, t, data, seed);
        break;
    case MHA_T_TABLE:
        fill_table(prob, seed, index);
        break;
    case MHA_T_LENS:
        for (int64_t b = 0; b < batch; b++)
            index[b] = (int32_t)mha_test_length(prob, false, b);
        break;
    case MHA_T_CU_Q:
    case MHA_T_CU_K:
        for (int64_t b = 0; b <= batch; b++) {
            index[b] = (int32_t)sum;
            sum += b < batch ? mha_test_length(prob, tensor == MHA_T_CU_Q, b) : 0;
        }
    }
}

static void mha_as_called(struct rfg_problem *prob)
{
    int64_t *v = prob->v, page = v[MHA_PAGE] ? v[MHA_PAGE] : 1;
    v[MHA_S] = mha_called_keys(v[MHA_S], (v[MHA_S] + page - 1) / page * page, v[MHA_VARLEN] && !v[MHA_PAGE]);
    v[MHA_LENS] = mha_is_decode(prob) && v[MHA_LENS] && v[MHA_B] > 1 ? MHA_LENS_LOG : MHA_LENS_ALL;
    if (prob->v[MHA_FORM] != MHA_FORM_VLLM)
        prob->v[MHA_FORM] = MHA_FORM_NHD;
}

/* ---- views of the harness' memory ------------------------------------------------------------------------------- */

/* [groups, tokens, heads, d] in memory that has rows of heads `ld` apart, or, with heads outside, a group's heads one
 * after the other, and groups as far apart as with rows. */
static rfg_tensor heads_view(const rfg_tensor *t, int64_t groups, int64_t tokens, int64_t heads, int64_t d, int64_t ld,
                             bool heads_outside)
{
    rfg_tensor view = { t->data, t->dtype, 4, { groups, tokens, heads, d }, { tokens * ld, ld, d, 1 } };
    if (heads_outside) {
        view.strides[1] = d;
        view.strides[2] = tokens * d;
    }
    return view;
}

/* Without a dimension. */
static rfg_tensor drop(rfg_tensor t, int dim)
{
    t.ndim--;
    for (int i = dim; i < t.ndim; i++) {
        t.shape[i] = t.shape[i + 1];
        t.strides[i] = t.strides[i + 1];
    }
    return t;
}

static rfg_tensor older_vllm(const rfg_tensor *t, int64_t blocks, int64_t heads, int64_t page, int64_t d, bool is_k)
{
    int64_t x = rfg_format_elements((int)t->dtype, 16), block = page * t->strides[0];
    if (is_k)
        return (
            rfg_tensor){ t->data, t->dtype, 5, { blocks, heads, d / x, page, x }, { block, page * d, page * x, x, 1 } };
    return (rfg_tensor){ t->data, t->dtype, 4, { blocks, heads, d, page }, { block, page * d, page, 1 } };
}

static rfg_tensor cache_view(const struct rfg_problem *prob, const rfg_tensor *t, int64_t d, bool is_k)
{
    const int64_t *v = prob->v;
    int64_t page = v[MHA_PAGE], heads = v[MHA_HKV], blocks = v[MHA_B], tokens = v[MHA_S];
    bool hnd = v[MHA_FORM] == MHA_FORM_HND;
    if (page) {
        blocks = blocks_of_cache(prob);
        tokens = page;
    }
    if (v[MHA_FORM] == MHA_FORM_VLLM)
        return older_vllm(t, blocks, heads, page, d, is_k);
    if (v[MHA_VARLEN] && !page)
        return drop(heads_view(t, 1, v[MHA_B] * v[MHA_S], heads, d, t->strides[0], hnd), 0);
    return heads_view(t, blocks, tokens, heads, d, t->strides[0], hnd);
}

void mha_views(const struct rfg_problem *prob, const rfg_tensor *t, struct mha_views *views)
{
    const int64_t *v = prob->v;
    int64_t batch = v[MHA_VARLEN] ? 1 : v[MHA_B], sq = v[MHA_VARLEN] ? v[MHA_B] * v[MHA_SQ] : v[MHA_SQ];
    int64_t hq = v[MHA_HQ], dv = mha_dv(prob);
    /* Varlen has no batch; one query a sequence is passed without its dimension. */
    int gone = v[MHA_VARLEN] ? 0 : mha_is_decode(prob) && sq == 1 ? 1 : -1;
    rfg_tensor *w = views->t;
    memcpy(w, t, MHA_T_COUNT * sizeof(*w));
    w[MHA_T_Q] = heads_view(&t[MHA_T_Q], batch, sq, hq, v[MHA_D], t[MHA_T_Q].strides[0], v[MHA_FORM] == MHA_FORM_HND);
    w[MHA_T_OUT] = heads_view(&t[MHA_T_OUT], batch, sq, hq, dv, t[MHA_T_OUT].strides[0], false);
    w[MHA_T_LSE] = (rfg_tensor){ t[MHA_T_LSE].data, RFG_F32, 3, { batch, hq, sq }, { sq * hq, 1, hq } };
    if (gone >= 0) {
        w[MHA_T_Q] = drop(w[MHA_T_Q], gone);
        w[MHA_T_OUT] = drop(w[MHA_T_OUT], gone);
        w[MHA_T_LSE] = drop(w[MHA_T_LSE], gone ? 2 : 0);
    }
    w[MHA_T_K] = cache_view(prob, &t[MHA_T_K], v[MHA_D], true);
    w[MHA_T_V] = cache_view(prob, &t[MHA_T_V], dv, false);
    for (int i = MHA_T_K_SCALE; mha_token_scales(prob) && i <= MHA_T_V_SCALE; i++)
        w[i] = drop(cache_view(prob, &t[i], 1, false), cache_view(prob, &t[i], 1, false).ndim - 1);
    bool paged = v[MHA_PAGE] != 0, sides = v[MHA_LEFT] >= 0 || v[MHA_RIGHT] >= 0;
    const rfg_tensor *scales[2] = { &w[MHA_T_K_SCALE], &w[MHA_T_V_SCALE] };
    views->call = (struct mha_call){
        .op = prob->op,
        .out = &w[MHA_T_OUT],
        .q = &w[MHA_T_Q],
        .k = &w[MHA_T_K],
        .v = &w[MHA_T_V],
        .p = { .size = sizeof(rfg_mha_params),
               .soft_cap = (float)v[MHA_CAP],
               .causal = v[MHA_CAUSAL] != 0,
               .window = sides ? RFG_MHA_WINDOW_SIDES : (int32_t)v[MHA_WINDOW],
               .window_left = sides ? (int32_t)v[MHA_LEFT] : 0,
               .window_right = sides ? (int32_t)v[MHA_RIGHT] : 0,
               .sinks = v[MHA_SINK] ? &w[MHA_T_SINKS] : NULL,
               .alibi = v[MHA_ALIBI] ? &w[MHA_T_ALIBI] : NULL,
               .lse = w[MHA_T_LSE].data ? &w[MHA_T_LSE] : NULL,
               .k_scale = v[MHA_SCALES] ? scales[0] : NULL,
               .v_scale = v[MHA_SCALES] ? scales[1] : NULL,
               .cu_seqlens_q = v[MHA_VARLEN] ? &w[MHA_T_CU_Q] : NULL,
               .cu_seqlens_k = v[MHA_VARLEN] && !paged ? &w[MHA_T_CU_K] : NULL,
               .max_seqlen_q = v[MHA_VARLEN] ? (int32_t)v[MHA_SQ] : 0,
               .max_seqlen_k = (int32_t)v[MHA_S],
               .mean_seqlen_k = v[MHA_LENS] ? 0 : (int32_t)v[MHA_S],
               .block_table = paged ? &w[MHA_T_TABLE] : NULL,
               .kv_lens = has_lens(prob) ? &w[MHA_T_LENS] : NULL },
    };
}

static rfg_status mha_call(rfg_context *ctx, const struct rfg_problem *prob, const rfg_tensor *t, rfg_stream stream)
{
    struct mha_views w;
    mha_views(prob, t, &w);
    const struct mha_call *c = &w.call;
    return (mha_is_decode(prob) ? rfg_op_mha_decode : rfg_op_mha)(ctx, c->out, c->q, c->k, c->v, &c->p, stream);
}

static void mha_pack(const struct rfg_problem *prob, const rfg_tensor *t, void *kargs)
{
    struct mha_views w;
    mha_views(prob, t, &w);
    mha_fill_args(&w.call, kargs);
}

#define CASE(op)                                                                                                       \
    const struct rfg_op_case rfg_op_case_##op = { .tensors = mha_tensors,                                              \
                                                  .call = mha_call,                                                    \
                                                  .pack = mha_pack,                                                    \
                                                  .oracle = rfg_oracle_mha,                                            \
                                                  .fill = mha_fill,                                                    \
                                                  .as_called = mha_as_called }
CASE(mha);
CASE(mha_decode);
