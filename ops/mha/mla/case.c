/* SPDX-License-Identifier: MIT
 *
 * The harness' case of mla_decode. Lengths and tables are as mha_decode's. */
#include <string.h>

#include "base/util.h"
#include "mla_case.h"
#include "ops/mha/mha_call.h"
#include "ops/oracle.h"

#define GAP 64 /* elements between rows with form=gaps: keeps every alignment */

/* ---- tensors ---------------------------------------------------------------------------------------------------- */

static struct rfg_tensor_spec rows_spec(const struct rfg_problem *prob, const char *name, int dtype, int64_t rows,
                                        int64_t heads, int64_t d)
{
    int64_t gap = prob->v[MLA_FORM] == MLA_FORM_GAPS ? GAP : 0;
    struct rfg_tensor_spec s = { .name = name, .dtype = (rfg_dtype)dtype, .ndim = 3, .align_key = MLA_ALIGN };
    s.shape[0] = rows;
    s.shape[1] = heads;
    s.shape[2] = d;
    s.row_stride = heads * d + gap;
    return s;
}

static struct rfg_tensor_spec vector_spec(const char *name, rfg_dtype dtype, int64_t n, bool present)
{
    struct rfg_tensor_spec s = { .name = name, .dtype = dtype, .ndim = 1, .shape = { n }, .align_key = -1 };
    s.absent = !present;
    return s;
}

/* As many blocks as a sequence's keys fill, as a server has it. */
static int64_t blocks_of_sequence(const struct rfg_problem *prob, int64_t b)
{
    return ceil_div(mla_test_length(prob, b), prob->v[MLA_PAGE]);
}

static int64_t blocks_of_cache(const struct rfg_problem *prob)
{
    int64_t blocks = 0;
    if (prob->v[MLA_LENS] == MHA_LENS_ALL)
        return prob->v[MLA_B] * mla_table_columns(prob);
    for (int64_t b = 0; b < prob->v[MLA_B]; b++)
        blocks += blocks_of_sequence(prob, b);
    return blocks;
}

static bool has_indices(const struct rfg_problem *prob)
{
    return prob->v[MLA_TABLE] == MLA_TABLE_INDICES;
}

static int64_t page_of(const struct rfg_problem *prob)
{
    return prob->v[MLA_PAGE] ? prob->v[MLA_PAGE] : prob->v[MLA_S];
}

/* Rows are keys, or of V4 blocks. */
static struct rfg_tensor_spec kv_spec(const struct rfg_problem *prob, int64_t keys)
{
    int64_t format = prob->v[MLA_FORMAT], page = page_of(prob), row = MLA_ROW_BYTES(MLA_V4);
    if (format == MLA_PLAIN)
        return rows_spec(prob, "kv", mla_kv_dtype(prob), keys, 1, prob->v[MLA_D]);
    if (format == MLA_V32)
        return rows_spec(prob, "kv", RFG_E4M3, keys, 1, MLA_KEY_BYTES(MLA_V32));
    struct rfg_tensor_spec s = rows_spec(prob, "kv", RFG_E4M3, page ? keys / page : 0, 1, page * MLA_KEY_BYTES(MLA_V4));
    s.row_stride = ceil_div(page * MLA_KEY_BYTES(MLA_V4), row) * row;
    return s;
}

static int mla_tensors(const struct rfg_problem *prob, struct rfg_tensor_spec spec[RFG_MAX_TENSORS])
{
    const int64_t *v = prob->v;
    int64_t tokens = v[MLA_B] * v[MLA_SQ], hq = v[MLA_HQ], dv = mla_dv(prob), rope = v[MLA_D] - dv;
    int64_t keys = v[MLA_PAGE] ? blocks_of_cache(prob) * v[MLA_PAGE] : v[MLA_B] * v[MLA_S];
    bool apart = v[MLA_Q] == MLA_Q_APART;
    _Static_assert(MLA_T_COUNT <= RFG_MAX_TENSORS, "room for all");
    spec[MLA_T_OUT] = rows_spec(prob, "out", prob->dtype[1], tokens, 1, hq * dv);
    spec[MLA_T_OUT].ndim = 2;
    spec[MLA_T_OUT].shape[1] = hq * dv;
    spec[MLA_T_OUT].shape[2] = 0;
    spec[MLA_T_OUT].output = true;
    spec[MLA_T_LSE] = (struct rfg_tensor_spec){ .name = "lse",
                                                .output = true,
                                                .dtype = RFG_F32,
                                                .ndim = 2,
                                                .shape = { tokens, hq },
                                                .row_stride = hq,
                                                .on_request = !v[MLA_LSE],
                                                .align_key = -1 };
    spec[MLA_T_Q] = rows_spec(prob, "q", prob->dtype[0], tokens, hq, apart ? dv : v[MLA_D]);
    spec[MLA_T_Q_ROPE] = rows_spec(prob, "q_rope", prob->dtype[0], tokens, hq, apart ? rope : 1);
    spec[MLA_T_Q_ROPE].absent = !apart;
    spec[MLA_T_KV] = kv_spec(prob, keys);
    spec[MLA_T_KV].few_special = true; /* a key is seen by all queries of its sequence */
    spec[MLA_T_SINKS] = vector_spec("sinks", (rfg_dtype)mla_sink_dtype(prob), hq, v[MLA_SINK]);
    spec[MLA_T_SCALE] = vector_spec("kv_scale", RFG_F32, 1, v[MLA_SCALE]);
    spec[MLA_T_TABLE] = vector_spec("block_table", RFG_I32, v[MLA_B], v[MLA_PAGE] && !has_indices(prob));
    spec[MLA_T_TABLE].ndim = 2;
    spec[MLA_T_TABLE].shape[1] = spec[MLA_T_TABLE].row_stride = mla_table_columns(prob);
    spec[MLA_T_INDICES] =
        vector_spec("kv_indices", RFG_I32, has_indices(prob) ? blocks_of_cache(prob) : 1, has_indices(prob));
    spec[MLA_T_INDPTR] = vector_spec("kv_indptr", RFG_I32, v[MLA_B] + 1, has_indices(prob));
    spec[MLA_T_LENS] = vector_spec("kv_lens", RFG_I32, v[MLA_B], v[MLA_PAGE] || v[MLA_LENS]);
    spec[MLA_T_POSITIONS] = vector_spec("q_positions", RFG_I32, v[MLA_B], v[MLA_POSITIONS]);
    return MLA_T_COUNT;
}

/* Blocks are assigned in arbitrary order, each once. Entries of a block table past a sequence's end name any block. */
static void fill_table(const struct rfg_problem *prob, uint64_t seed, int32_t *table)
{
    int64_t blocks = blocks_of_cache(prob), columns = mla_table_columns(prob), left = blocks;
    for (int64_t i = 0; i < blocks; i++) {
        int64_t j = (int64_t)(rfg_random(&seed) % (uint64_t)(i + 1));
        table[i] = table[j];
        table[j] = (int32_t)i;
    }
    if (has_indices(prob))
        return;
    /* From the last sequence on: what is still to be handed out lies before the row that is written. */
    int64_t b = prob->v[MLA_B];
    while (b-- > 0 && blocks) {
        int64_t n = blocks_of_sequence(prob, b), i = n;
        int32_t *row = table + b * columns;
        left -= n;
        memmove(row, table + left, (size_t)n * sizeof(*table));
        while (i < columns)
            row[i++] = (int32_t)(rfg_random(&seed) % (uint64_t)blocks);
    }
}

/* In each row one of the value's elements stands out, more at the first and last key of 16, so that a key that is lost
 * or counted twice is seen among many. Queries are small there: see fill_queries(). */
static void fill_spikes(const struct rfg_problem *prob, const rfg_tensor *t, uint64_t seed)
{
    for (int64_t r = 0; r < t->shape[0]; r++) {
        uint64_t draw = rfg_random(&seed);
        double spike = (double)(6 + draw % 4) * (r % 16 == 0 || r % 16 == 15 ? 2 : 1) * (draw & 16 ? -1 : 1);
        rfg_store(t->data, t->dtype, r * t->strides[0] + (int64_t)(draw >> 16) % mla_dv(prob), spike);
    }
}

static void fill_zeroes(const rfg_tensor *t)
{
    size_t bytes = (size_t)rfg_format_bytes((int)t->dtype, 1);
    for (int64_t r = 0; r < t->shape[0]; r++)
        memset((char *)t->data + (size_t)(r * t->strides[0]) * bytes, 0, (size_t)(t->shape[1] * t->shape[2]) * bytes);
}

/* Scales from 2^-9 to 2^-4 (V32: no powers of two), rotated elements from -1 to 1. As in fill_spikes() one code stands
 * out. Few codes are NaN, and those of special data alone. */
void mla_fill_format(int format, int64_t page, const rfg_tensor *t, enum rfg_data data, uint64_t seed)
{
    int64_t rows = t->shape[0] * (format == MLA_V4 ? page : 1);
    for (int64_t r = 0; r < rows; r++) {
        char *block = (char *)t->data + (format == MLA_V4 ? r / page : r) * t->strides[0], *row = block,
             *scales = block;
        row += format == MLA_V4 ? r % page * MLA_ROW_BYTES(MLA_V4) : 0;
        scales += format == MLA_V4 ? MLA_V4_SCALES_AT(page) + r % page * MLA_V4_SCALE_BYTES : MLA_V32_SCALES_AT;
        for (int i = 0; i < MLA_CODES(format); i++)
            if (data != RFG_DATA_SPECIAL || r % 8)
                row[i] = (char)((row[i] & 0x7f) == 0x7f ? 0 : row[i]);
        if (data == RFG_DATA_SPECIAL && r == 0)
            row[0] = 0x7f;
        if (data == RFG_DATA_RANDOM)
            row[rfg_random(&seed) % (uint64_t)MLA_CODES(format)] = (char)(0x68 | (rfg_random(&seed) & 0x80));
        for (int g = 0; g < MLA_SCALES(format); g++) {
            uint64_t draw = rfg_random(&seed);
            if (format == MLA_V4)
                scales[g] = (char)(data == RFG_DATA_INTS ? 127 : 118 + draw % 6);
            else
                rfg_store(scales, RFG_F32, g, data == RFG_DATA_INTS ? 1 : 0x1p-9 * (1 + (double)(draw % 1000) / 20));
        }
        for (int i = 0; i < MLA_ROTATED; i++)
            rfg_store(row + MLA_ROTATED_AT(format), RFG_BF16, i, (double)(rfg_random(&seed) % 257) / 128 - 1);
    }
}

static void mla_fill(const struct rfg_problem *prob, int tensor, const rfg_tensor *t, enum rfg_data data, uint64_t seed)
{
    int64_t batch = prob->v[MLA_B], sum = 0;
    int32_t *index = t->data;
    switch (tensor) {
    case MLA_T_Q:
    case MLA_T_Q_ROPE:
        if (data == RFG_DATA_INTS) /* so that all weights are alike */
            fill_zeroes(t);
        break;
    case MLA_T_KV:
        if (prob->v[MLA_FORMAT])
            mla_fill_format((int)prob->v[MLA_FORMAT], page_of(prob), t, data, seed);
        else if (data == RFG_DATA_RANDOM)
            fill_spikes(prob, t, seed);
        break;
    case MLA_T_TABLE:
    case MLA_T_INDICES:
        fill_table(prob, seed, index);
        break;
    case MLA_T_INDPTR:
        for (int64_t b = 0; b <= batch; b++) {
            index[b] = (int32_t)sum;
            sum += b < batch ? blocks_of_sequence(prob, b) : 0;
        }
        break;
    case MLA_T_POSITIONS: /* of the last keys, a little before, none, far behind */
        for (int64_t b = 0; b < batch; b++) {
            int64_t n = prob->v[MLA_CP] > 1 ? prob->v[MLA_CP] : 1, len = mla_test_length(prob, b) * n;
            const int64_t at[] = { len - prob->v[MLA_SQ], INT32_MIN, len - 7 * n, INT32_MAX, len / 2, -1 };
            index[b] = (int32_t)at[(uint64_t)(b + len) % 6];
        }
        break;
    case MLA_T_LENS:
        for (int64_t b = 0; b < batch; b++)
            index[b] = (int32_t)mla_test_length(prob, b);
    }
}

static void mla_as_called(struct rfg_problem *prob)
{
    int64_t *v = prob->v, page = v[MLA_PAGE] ? v[MLA_PAGE] : 1;
    int64_t held = has_indices(prob) ? blocks_of_cache(prob) * page : ceil_div(v[MLA_S], page) * page;
    v[MLA_S] = mha_called_keys(v[MLA_S], held, false);
    v[MLA_LENS] = MHA_LENS_ALL;
    v[MLA_FORM] = MLA_FORM_PACKED;
    v[MLA_CP] = 0;
}

/* ---- views of the harness' memory ------------------------------------------------------------------------------- */

/* [batch, tokens, heads, d]; one query a sequence is passed without its dimension. */
static rfg_tensor rows_view(const struct rfg_problem *prob, const rfg_tensor *t, int64_t d)
{
    int64_t ld = t->strides[0], sq = prob->v[MLA_SQ], hq = prob->v[MLA_HQ], b = prob->v[MLA_B];
    if (sq == 1)
        return (rfg_tensor){ t->data, t->dtype, 3, { b, hq, d }, { ld, d, 1 } };
    return (rfg_tensor){ t->data, t->dtype, 4, { b, sq, hq, d }, { sq * ld, ld, d, 1 } };
}

void mla_views(const struct rfg_problem *prob, const rfg_tensor *t, struct mla_views *views)
{
    const int64_t *v = prob->v;
    int64_t b = v[MLA_B], sq = v[MLA_SQ], hq = v[MLA_HQ], d = v[MLA_D], dv = mla_dv(prob), ld = t[MLA_T_KV].strides[0];
    int64_t page = page_of(prob), blocks = v[MLA_PAGE] ? blocks_of_cache(prob) : b;
    bool apart = v[MLA_Q] == MLA_Q_APART, indices = has_indices(prob);
    rfg_tensor *w = views->t;
    memcpy(w, t, MLA_T_COUNT * sizeof(*w));
    w[MLA_T_Q] = rows_view(prob, &t[MLA_T_Q], apart ? dv : d);
    w[MLA_T_Q_ROPE] = rows_view(prob, &t[MLA_T_Q_ROPE], d - dv);
    w[MLA_T_OUT] = rows_view(prob, &t[MLA_T_OUT], dv);
    int64_t row = v[MLA_FORMAT] == MLA_V4 ? MLA_KEY_BYTES(MLA_V4) : ld,
            width = v[MLA_FORMAT] == MLA_PLAIN ? d : MLA_KEY_BYTES(v[MLA_FORMAT]);
    int64_t block = v[MLA_FORMAT] == MLA_V4 ? ld : page * ld;
    w[MLA_T_KV] = (rfg_tensor){ t[MLA_T_KV].data, t[MLA_T_KV].dtype, 3, { blocks, page, width }, { block, row, 1 } };
    if (v[MLA_FORM] == MLA_FORM_GAPS)
        w[MLA_T_KV] =
            (rfg_tensor){ t[MLA_T_KV].data, t[MLA_T_KV].dtype, 4, { blocks, page, 1, width }, { block, row, row, 1 } };
    w[MLA_T_LSE] = sq == 1 ? (rfg_tensor){ t[MLA_T_LSE].data, RFG_F32, 2, { b, hq }, { hq, 1 } }
                           : (rfg_tensor){ t[MLA_T_LSE].data, RFG_F32, 3, { b, hq, sq }, { sq * hq, 1, hq } };
    views->call = (struct mla_call){
        .out = &w[MLA_T_OUT],
        .q = &w[MLA_T_Q],
        .kv = &w[MLA_T_KV],
        .p = { .size = sizeof(rfg_mla_params),
               .scale = 0.0722f, /* about 1 / sqrt(192) */
               .soft_cap = (float)v[MLA_CAP],
               .causal = v[MLA_CAUSAL] != 0,
               .max_seqlen_k = (int32_t)v[MLA_S],
               .q_rope = apart ? &w[MLA_T_Q_ROPE] : NULL,
               .block_table = v[MLA_PAGE] && !indices ? &w[MLA_T_TABLE] : NULL,
               .kv_indptr = indices ? &w[MLA_T_INDPTR] : NULL,
               .kv_indices = indices ? &w[MLA_T_INDICES] : NULL,
               .kv_lens = v[MLA_PAGE] || v[MLA_LENS] ? &w[MLA_T_LENS] : NULL,
               .sinks = v[MLA_SINK] ? &w[MLA_T_SINKS] : NULL,
               .lse = w[MLA_T_LSE].data ? &w[MLA_T_LSE] : NULL,
               .kv_scale = v[MLA_SCALE] ? &w[MLA_T_SCALE] : NULL,
               .q_positions = v[MLA_POSITIONS] ? &w[MLA_T_POSITIONS] : NULL,
               .format = (rfg_mla_format)v[MLA_FORMAT],
               .cp_size = (int32_t)v[MLA_CP],
               .cp_rank = (int32_t)MLA_CASE_RANK(prob),
               .cp_interleave = (int32_t)MLA_CASE_INTERLEAVE(prob) },
    };
}

static rfg_status mla_call(rfg_context *ctx, const struct rfg_problem *prob, const rfg_tensor *t, rfg_stream stream)
{
    struct mla_views w;
    mla_views(prob, t, &w);
    return rfg_op_mla_decode(ctx, w.call.out, w.call.q, w.call.kv, &w.call.p, stream);
}

static void mla_pack(const struct rfg_problem *prob, const rfg_tensor *t, void *kargs)
{
    struct mla_views w;
    mla_views(prob, t, &w);
    mla_fill_args(&w.call, kargs);
}

static const char *const compiled[] = {
    "mla_decode bf16->bf16 B=32 Hq=16 D=576 S=4096 Dv=512 page=64",
    "mla_decode f16->f16 B=4 Hq=128 D=576 S=4096 Sq=2 Dv=512 causal=1 cap=30 page=1 lse=1",
    "mla_decode bf16->bf16 B=4 Hq=12 D=288 S=4096 Dv=256 sink=1 stype=bf16 page=16",
    "mla_decode bf16->bf16 B=4 Hq=64 D=512 S=4096 page=64 kv=e4m3 scale=1",
    "mla_decode f16->f16 B=4 Hq=24 D=512 S=4096 Dv=448 page=64 kv=e4m3fnuz",
    "mla_decode f16->f16 B=4 Hq=24 D=512 S=4096 Dv=448 page=64 kv=e5m2 align=2",
    "mla_decode bf16->bf16 B=4 Hq=24 D=576 S=4096 Dv=512 page=64 align=2",
    "mla_decode bf16->bf16 B=4 Hq=16 D=576 S=4096 Dv=512 page=64 kv=e4m3 format=v32",
    "mla_decode bf16->bf16 B=4 Hq=16 D=512 S=4096 Sq=2 causal=1 page=64 kv=e4m3 format=v4 positions=1",
    "mla_decode bf16->bf16 B=4 Hq=16 D=512 S=4096 Dv=448 page=64 kv=e4m3 format=v4",
    NULL,
};
static const char *const small[] = {
    "mla_decode bf16->bf16 B=2 Hq=3 D=96 S=40 Dv=64 page=16",
    "mla_decode f16->f16 B=2 Hq=5 D=128 S=33 sink=1 lse=1 page=1 kv=e4m3",
    NULL,
};

const struct rfg_op_case rfg_op_case_mla_decode = {
    .tensors = mla_tensors,
    .call = mla_call,
    .pack = mla_pack,
    .oracle = rfg_oracle_mla_decode,
    .compiled = compiled,
    .small = small,
    .fill = mla_fill,
    .as_called = mla_as_called,
};
