/* SPDX-License-Identifier: MIT
 *
 * The harness' case of mla_gather, and its oracle. Sequences have different lengths, one in three of them none; an eighth
 * of the rows belong to no sequence. */
#include <string.h>

#include "base/util.h"
#include "gather.h"
#include "ops/mha/mla/mla_case.h"
#include "ops/oracle.h"

#define GAP 64 /* elements between rows with form=gaps: keeps every alignment */

enum { T_ROWS, T_KV, T_CU, T_FIRST, T_TABLE, T_INDICES, T_INDPTR, T_SCALE, T_COUNT };

/* ---- geometry ---------------------------------------------------------------------------------------------------- */

static int64_t gap_of(const struct rfg_problem *prob)
{
    return prob->v[GATHER_FORM] == MLA_FORM_GAPS ? GAP : 0;
}
static int64_t end_of(const struct rfg_problem *prob, int64_t b) /* rows of sequences 0 to b - 1 */
{
    int64_t batch = prob->v[GATHER_B], n = prob->v[GATHER_N] - prob->v[GATHER_N] / 8;
    return b == batch ? n
                      : n * (b - b % 3) / (batch ? batch : 1) + (b % 3 == 1 ? n / (2 * batch) : 0) +
                            (b % 3 == 2 ? n / (2 * batch) : 0);
}
static int64_t first_of(const struct rfg_problem *prob, int64_t b)
{
    return prob->v[GATHER_FIRST] ? b * 7 % 23 : 0;
}
static int64_t keys_of(const struct rfg_problem *prob, int64_t b)
{
    return first_of(prob, b) + end_of(prob, b + 1) - end_of(prob, b);
}
static int64_t most_keys(const struct rfg_problem *prob)
{
    int64_t most = 1;
    for (int64_t b = 0; b < prob->v[GATHER_B]; b++)
        most = keys_of(prob, b) > most ? keys_of(prob, b) : most;
    return most;
}
static int64_t page_of(const struct rfg_problem *prob)
{
    return prob->v[GATHER_PAGE] ? prob->v[GATHER_PAGE] : most_keys(prob);
}
static int64_t blocks_of_sequence(const struct rfg_problem *prob, int64_t b)
{
    return prob->v[GATHER_PAGE] ? ceil_div(keys_of(prob, b), page_of(prob)) : 1;
}
static int64_t blocks_before(const struct rfg_problem *prob, int64_t b)
{
    int64_t blocks = 0;
    for (int64_t i = 0; i < b; i++)
        blocks += blocks_of_sequence(prob, i);
    return blocks;
}

/* ---- tensors ---------------------------------------------------------------------------------------------------- */

static struct rfg_tensor_spec vector_spec(const char *name, int dtype, int64_t n, bool present)
{
    struct rfg_tensor_spec s = { .name = name, .dtype = (rfg_dtype)dtype, .ndim = 1, .shape = { n }, .align_key = -1 };
    s.absent = !present;
    return s;
}

static int gather_tensors(const struct rfg_problem *prob, struct rfg_tensor_spec spec[RFG_MAX_TENSORS])
{
    const int64_t *v = prob->v;
    int64_t d = v[GATHER_D], gap = gap_of(prob), blocks = blocks_before(prob, v[GATHER_B]), page = page_of(prob);
    int64_t row = MLA_ROW_BYTES(MLA_V4), bytes = MLA_KEY_BYTES(v[GATHER_FORMAT]);
    bool table = v[GATHER_PAGE] != 0, indices = v[GATHER_TABLE] == MLA_TABLE_INDICES;
    spec[T_ROWS] = rfg_rows_spec("rows", (rfg_dtype)prob->dtype[1], v[GATHER_N], d, 1, d + gap, GATHER_ALIGN);
    spec[T_ROWS].output = true;
    spec[T_KV] = rfg_rows_spec("kv", (rfg_dtype)prob->dtype[0], blocks * page, d, 1, d + gap, GATHER_ALIGN);
    if (v[GATHER_FORMAT] == MLA_V32)
        spec[T_KV] = rfg_rows_spec("kv", RFG_E4M3, blocks * page, bytes, 1, bytes + gap, GATHER_ALIGN);
    if (v[GATHER_FORMAT] == MLA_V4)
        spec[T_KV] =
            rfg_rows_spec("kv", RFG_E4M3, blocks, page * bytes, 1, ceil_div(page * bytes, row) * row, GATHER_ALIGN);
    spec[T_KV].few_special = true;
    spec[T_CU] = vector_spec("cu_seqlens", RFG_I32, v[GATHER_B] + 1, true);
    spec[T_FIRST] = vector_spec("first", RFG_I32, v[GATHER_B], v[GATHER_FIRST]);
    spec[T_TABLE] = vector_spec("block_table", RFG_I32, v[GATHER_B], table && !indices);
    spec[T_TABLE].ndim = 2;
    spec[T_TABLE].shape[1] = spec[T_TABLE].row_stride = table ? ceil_div(most_keys(prob), page) : 1;
    spec[T_INDICES] = vector_spec("kv_indices", RFG_I32, blocks, indices);
    spec[T_INDPTR] = vector_spec("kv_indptr", RFG_I32, v[GATHER_B] + 1, indices);
    spec[T_SCALE] = vector_spec("kv_scale", RFG_F32, 1, v[GATHER_SCALE]);
    return T_COUNT;
}

/* The i-th of all sequences' blocks: some of a cache that holds no others, in an order that is none. */
static int32_t block_at(int64_t i, int64_t blocks)
{
    return (int32_t)(blocks % 7 ? (i * 7 + 3) % blocks : blocks - 1 - i);
}

static void gather_fill(const struct rfg_problem *prob, int tensor, const rfg_tensor *t, enum rfg_data data,
                        uint64_t seed)
{
    int64_t batch = prob->v[GATHER_B], blocks = blocks_before(prob, batch);
    int32_t *index = t->data;
    switch (tensor) {
    case T_KV:
        if (prob->v[GATHER_FORMAT])
            mla_fill_format((int)prob->v[GATHER_FORMAT], page_of(prob), t, data, seed);
        break;
    case T_CU:
    case T_INDPTR:
        for (int64_t b = 0; b <= batch; b++)
            index[b] = (int32_t)(tensor == T_CU ? end_of(prob, b) : blocks_before(prob, b));
        break;
    case T_FIRST:
        for (int64_t b = 0; b < batch; b++)
            index[b] = (int32_t)first_of(prob, b);
        break;
    case T_INDICES:
        for (int64_t i = 0; i < blocks; i++)
            index[i] = block_at(i, blocks);
        break;
    case T_TABLE:
        for (int64_t b = 0; b < batch; b++)
            for (int64_t i = 0; i < t->shape[1]; i++)
                index[b * t->shape[1] + i] =
                    i < blocks_of_sequence(prob, b) ? block_at(blocks_before(prob, b) + i, blocks) : 0;
        break;
    case T_SCALE:
        *(float *)t->data = data == RFG_DATA_INTS ? 0.5f : 0.3f;
    }
}

/* ---- views of the harness' memory ------------------------------------------------------------------------------- */

struct views {
    rfg_tensor t[T_COUNT];
    struct gather_call call;
};

static void views_of(const struct rfg_problem *prob, const rfg_tensor *t, struct views *w)
{
    const int64_t *v = prob->v;
    int64_t ld = t[T_KV].strides[0], page = page_of(prob), bytes = MLA_KEY_BYTES(v[GATHER_FORMAT]);
    bool v4 = v[GATHER_FORMAT] == MLA_V4, indices = v[GATHER_TABLE] == MLA_TABLE_INDICES;
    memcpy(w->t, t, sizeof(w->t));
    w->t[T_KV] = (rfg_tensor){ t[T_KV].data,
                               t[T_KV].dtype,
                               3,
                               { blocks_before(prob, v[GATHER_B]), page, v[GATHER_FORMAT] ? bytes : v[GATHER_D] },
                               { v4 ? ld : page * ld, v4 ? bytes : ld, 1 } };
    w->call = (struct gather_call){
        .rows = &w->t[T_ROWS],
        .kv = &w->t[T_KV],
        .cu_seqlens = &w->t[T_CU],
        .p = { .size = sizeof(rfg_mla_gather_params),
               .block_table = v[GATHER_PAGE] && !indices ? &w->t[T_TABLE] : NULL,
               .kv_indptr = indices ? &w->t[T_INDPTR] : NULL,
               .kv_indices = indices ? &w->t[T_INDICES] : NULL,
               .first = v[GATHER_FIRST] ? &w->t[T_FIRST] : NULL,
               .kv_scale = v[GATHER_SCALE] ? &w->t[T_SCALE] : NULL,
               .format = (rfg_mla_format)v[GATHER_FORMAT] },
    };
}

static rfg_status gather_run(rfg_context *ctx, const struct rfg_problem *prob, const rfg_tensor *t, rfg_stream stream)
{
    struct views w;
    views_of(prob, t, &w);
    return rfg_op_mla_gather(ctx, w.call.rows, w.call.kv, w.call.cu_seqlens, &w.call.p, stream);
}

static void gather_pack(const struct rfg_problem *prob, const rfg_tensor *t, void *kargs)
{
    struct views w;
    views_of(prob, t, &w);
    gather_fill_args(&w.call, kargs);
}

static void gather_as_called(struct rfg_problem *prob)
{
    prob->v[GATHER_FORM] = MLA_FORM_PACKED;
}

/* ---- the oracle --------------------------------------------------------------------------------------------------- */

static void expect_row(const struct rfg_problem *prob, const rfg_tensor *host, int64_t r, double *value, double *allow)
{
    int format = (int)prob->v[GATHER_FORMAT];
    int64_t d = prob->v[GATHER_D], b = 0, page = page_of(prob), blocks = blocks_before(prob, prob->v[GATHER_B]);
    const rfg_tensor *kv = &host[T_KV];
    while (b < prob->v[GATHER_B] && end_of(prob, b + 1) <= r)
        b++;
    bool there = b < prob->v[GATHER_B];
    int64_t key = there ? first_of(prob, b) + r - end_of(prob, b) : 0;
    int64_t block = !prob->v[GATHER_PAGE] ? b : there ? block_at(blocks_before(prob, b) + key / page, blocks) : 0;
    int64_t t = prob->v[GATHER_PAGE] ? key % page : key;
    double scale = prob->v[GATHER_SCALE] ? rfg_load(host[T_SCALE].data, RFG_F32, 0) : 1;
    uint16_t decoded[MLA_MAX_D];
    if (there && format) {
        const char *at = (const char *)kv->data + (format == MLA_V4 ? block : block * page + t) * kv->strides[0];
        if (format == MLA_V4)
            mla_decode_row(format, at + t * MLA_ROW_BYTES(MLA_V4), at + MLA_V4_SCALES_AT(page) + t * MLA_V4_SCALE_BYTES,
                           decoded);
        else
            mla_decode_row(format, at, at + MLA_V32_SCALES_AT, decoded);
    }
    for (int64_t i = 0; i < d; i++) {
        value[i] = !there   ? 0
                   : format ? rfg_load(decoded, RFG_BF16, i)
                            : (float)(rfg_load(kv->data, kv->dtype, (block * page + t) * kv->strides[0] + i) * scale);
        allow[i] = there ? 0 : -1;
    }
}

rfg_status rfg_oracle_mla_gather(const struct rfg_problem *prob, const rfg_tensor *host, struct rfg_expected *expected)
{
    const struct rfg_expected *e = &expected[T_ROWS];
    int64_t d = prob->v[GATHER_D];
    for (int64_t i = 0; e->value && i < e->n_rows; i++)
        expect_row(prob, host, e->rows[i], e->value + i * d, e->allow + i * d);
    return RFG_OK;
}

static const char *const compiled[] = {
    "mla_gather bf16->bf16 N=8192 D=576 B=8 page=64",
    "mla_gather f16->f16 N=8192 D=96 B=8 page=64 align=2",
    "mla_gather e4m3->bf16 N=8192 D=576 B=8 page=64 scale=1",
    "mla_gather e4m3fnuz->f16 N=8192 D=512 B=8 page=64",
    "mla_gather e5m2->f16 N=8192 D=288 B=8 page=64 align=4",
    "mla_gather e4m3->bf16 N=8192 D=576 B=8 page=64 format=v32",
    "mla_gather e4m3->bf16 N=8192 D=512 B=8 page=64 format=v4",
    NULL,
};
static const char *const small[] = {
    "mla_gather bf16->bf16 N=40 D=96 B=3 page=4 first=1",
    "mla_gather e4m3->f16 N=33 D=128 B=4 page=1 scale=1 table=indices",
    "mla_gather e4m3->bf16 N=20 D=576 B=2 page=8 format=v32",
    NULL,
};

const struct rfg_op_case rfg_op_case_mla_gather = {
    .tensors = gather_tensors,
    .call = gather_run,
    .pack = gather_pack,
    .oracle = rfg_oracle_mla_gather,
    .compiled = compiled,
    .small = small,
    .fill = gather_fill,
    .as_called = gather_as_called,
};
