/* SPDX-License-Identifier: MIT
 *
 * The harness' case of mla_append. */
#include <math.h>
#include <string.h>

#include "append_case.h"
#include "base/util.h"
#include "ops/oracle.h"

#define GAP 64 /* elements between rows with form=gaps: keeps every alignment */

static int64_t gap_of(const struct rfg_problem *prob)
{
    return prob->v[APPEND_FORM] == MLA_FORM_GAPS ? GAP : 0;
}
static int64_t table_rows(const struct rfg_problem *prob)
{
    int64_t t = prob->v[APPEND_T];
    return t < 48 ? 48 : t > 8192 ? 8192 : t;
}
/* A power of two, so that there is one of slots: at least a quarter more than tokens. */
static int64_t blocks_of(const struct rfg_problem *prob)
{
    int64_t page = prob->v[APPEND_PAGE], blocks = 2;
    while (blocks * page < prob->v[APPEND_T] + prob->v[APPEND_T] / 4)
        blocks *= 2;
    return blocks;
}
static int64_t v4_block_bytes(const struct rfg_problem *prob)
{
    int64_t row = MLA_ROW_BYTES(MLA_V4);
    return ceil_div(prob->v[APPEND_PAGE] * MLA_KEY_BYTES(MLA_V4), row) * row;
}

/* ---- tensors ---------------------------------------------------------------------------------------------------- */

static struct rfg_tensor_spec vector_spec(const char *name, int dtype, int64_t n, bool present)
{
    struct rfg_tensor_spec s = { .name = name, .dtype = (rfg_dtype)dtype, .ndim = 1, .shape = { n }, .align_key = -1 };
    s.absent = !present;
    return s;
}

static struct rfg_tensor_spec kv_spec(const struct rfg_problem *prob)
{
    const int64_t *v = prob->v;
    int64_t blocks = blocks_of(prob), rows = blocks * v[APPEND_PAGE], cols = v[APPEND_D], gap = gap_of(prob);
    struct rfg_tensor_spec s;
    if (v[APPEND_FORMAT] == MLA_V4)
        s = rfg_rows_spec("kv", RFG_E4M3, blocks, v[APPEND_PAGE] * MLA_KEY_BYTES(MLA_V4), 1, v4_block_bytes(prob),
                          APPEND_ALIGN);
    else if (v[APPEND_FORMAT] == MLA_V32)
        s = rfg_rows_spec("kv", RFG_E4M3, rows, MLA_KEY_BYTES(MLA_V32), 1, MLA_ROW_BYTES(MLA_V32) + gap, APPEND_ALIGN);
    else
        s = rfg_rows_spec("kv", (rfg_dtype)prob->dtype[1], rows, cols, 1, cols + gap, APPEND_ALIGN);
    s.output = true;
    s.by_predicate = v[APPEND_FORMAT] != MLA_PLAIN;
    return s;
}

static int append_tensors(const struct rfg_problem *prob, struct rfg_tensor_spec spec[RFG_MAX_TENSORS])
{
    const int64_t *v = prob->v;
    rfg_dtype x = (rfg_dtype)prob->dtype[0];
    int64_t t = v[APPEND_T], c = append_latent(prob), r = v[APPEND_R], hq = v[APPEND_HQ], gap = gap_of(prob);
    bool rope = v[APPEND_ROPE] != 0;
    _Static_assert(APPEND_T_COUNT <= RFG_MAX_TENSORS, "room for all");
    spec[APPEND_T_LATENT] = rfg_rows_spec("latent", x, t, c, 1, c + gap, APPEND_ALIGN);
    spec[APPEND_T_K_ROPE] = rfg_rows_spec("k_rope", x, t, r ? r : 1, 1, r + gap, APPEND_ALIGN);
    spec[APPEND_T_K_ROPE].absent = !r;
    spec[APPEND_T_Q] = rfg_rows_spec("q", x, t, hq ? hq * r : 1, 1, hq * r + gap, APPEND_ALIGN);
    spec[APPEND_T_Q].absent = !hq;
    spec[APPEND_T_Q_OUT] = spec[APPEND_T_Q];
    spec[APPEND_T_Q_OUT].name = "q_out";
    spec[APPEND_T_Q_OUT].output = true;
    spec[APPEND_T_Q_OUT].same_as = v[APPEND_INPLACE] ? 1 + APPEND_T_Q : 0;
    spec[APPEND_T_SLOTS] = vector_spec("slots", RFG_I64, t, true);
    spec[APPEND_T_POSITIONS] = vector_spec("positions", append_position_dtype(prob), t, rope);
    spec[APPEND_T_TABLE] =
        rfg_rows_spec("cos_sin", (rfg_dtype)append_table_dtype(prob), table_rows(prob), r ? r : 1, 1, 0, APPEND_ALIGN);
    spec[APPEND_T_TABLE].absent = !rope;
    spec[APPEND_T_TABLE].few_special = true; /* a row is seen by all heads of its tokens */
    spec[APPEND_T_NORM] = vector_spec("norm", append_weight_dtype(prob), append_normed(prob), v[APPEND_NORM] != 0);
    spec[APPEND_T_NORM].align_key = APPEND_ALIGN;
    spec[APPEND_T_SCALE] = vector_spec("kv_scale", RFG_F32, 1, v[APPEND_SCALE]);
    spec[APPEND_T_KV] = kv_spec(prob);
    return APPEND_T_COUNT;
}

/* Now and then a value that is none of n: right before or behind them, far off, or among them but for its upper half. */
static int64_t now_and_then_beside(uint64_t draw, int64_t value, int64_t n, bool wide)
{
    const int64_t values[] = { -1, n, wide ? INT64_MIN : INT32_MIN, wide ? value + ((int64_t)1 << 32) : INT32_MAX };
    return draw % 5 == 0 ? values[draw / 5 % 4] : value;
}

static void append_fill(const struct rfg_problem *prob, int tensor, const rfg_tensor *t, enum rfg_data data,
                        uint64_t seed)
{
    int64_t slots = blocks_of(prob) * prob->v[APPEND_PAGE], rows = table_rows(prob);
    bool wide = append_position_dtype(prob) == RFG_I64;
    uint64_t step = rfg_random(&seed) | 1, first = rfg_random(&seed);
    switch (tensor) {
    case APPEND_T_SLOTS:
        for (int64_t i = 0; i < prob->v[APPEND_T]; i++) {
            int64_t slot = (int64_t)((first + (uint64_t)i * step) % (uint64_t)slots);
            ((int64_t *)t->data)[i] = now_and_then_beside(rfg_random(&seed), slot, slots, true);
        }
        break;
    case APPEND_T_POSITIONS:
        for (int64_t i = 0; i < prob->v[APPEND_T]; i++) {
            int64_t p = (int64_t)(rfg_random(&seed) % (uint64_t)rows);
            p = now_and_then_beside(rfg_random(&seed), p, rows, wide);
            if (wide)
                ((int64_t *)t->data)[i] = p;
            else
                ((int32_t *)t->data)[i] = (int32_t)p;
        }
        break;
    case APPEND_T_SCALE: /* exact data stay exact; else some values saturate */
        *(float *)t->data = data == RFG_DATA_INTS ? 0.5f
                            : first % 3           ? 0.011f + (float)(first >> 8 & 255) / 100
                                                  : 0.001f;
        break;
    case APPEND_T_LATENT: /* tokens, and groups of 64, of all sizes: scales differ, some are the least */
        for (int64_t i = 0; data == RFG_DATA_RANDOM && i < t->shape[0]; i++)
            for (int64_t d = 0; d < t->shape[1]; d++) {
                int64_t at = i * t->strides[0] + d, by = (int64_t)((first + (uint64_t)(i * 7 + d / 64)) % 23) - 18;
                rfg_store(t->data, t->dtype, at, ldexp(rfg_load(t->data, t->dtype, at), (int)by));
            }
    }
}

/* ---- views of the harness' memory ------------------------------------------------------------------------------- */

static rfg_tensor kv_view(const struct rfg_problem *prob, const rfg_tensor *t)
{
    const int64_t *v = prob->v;
    int64_t blocks = blocks_of(prob), page = v[APPEND_PAGE], ld = t->strides[0],
            bytes = MLA_KEY_BYTES(v[APPEND_FORMAT]);
    rfg_tensor kv = { t->data, t->dtype, 3, { blocks, page, v[APPEND_D] }, { page * ld, ld, 1 } };
    if (v[APPEND_FORMAT])
        kv.shape[2] = bytes;
    if (v[APPEND_FORMAT] == MLA_V4) {
        kv.strides[0] = ld;
        kv.strides[1] = bytes;
    }
    if (v[APPEND_FORM] == MLA_FORM_GAPS) { /* it has a head */
        kv.ndim = 4;
        kv.shape[3] = kv.shape[2];
        kv.shape[2] = 1;
        kv.strides[2] = kv.strides[1];
        kv.strides[3] = 1;
    }
    return kv;
}

void append_views(const struct rfg_problem *prob, const rfg_tensor *t, struct append_views *views)
{
    const int64_t *v = prob->v;
    int64_t r = v[APPEND_R], hq = v[APPEND_HQ];
    bool rope = v[APPEND_ROPE] != 0;
    rfg_tensor *w = views->t;
    memcpy(w, t, APPEND_T_COUNT * sizeof(*w));
    for (int i = APPEND_T_Q; i < APPEND_T_COUNT; i += APPEND_T_Q_OUT - APPEND_T_Q)
        w[i] = (rfg_tensor){ t[i].data, t[i].dtype, 3, { v[APPEND_T], hq, r }, { t[i].strides[0], r, 1 } };
    w[APPEND_T_KV] = kv_view(prob, &t[APPEND_T_KV]);
    if (v[APPEND_INPLACE])
        w[APPEND_T_Q_OUT] = w[APPEND_T_Q];
    views->call = (struct append_call){
        .kv = &w[APPEND_T_KV],
        .latent = &w[APPEND_T_LATENT],
        .k_rope = r ? &w[APPEND_T_K_ROPE] : NULL,
        .slots = &w[APPEND_T_SLOTS],
        .p = { .size = sizeof(rfg_mla_append_params),
               .norm = v[APPEND_NORM] ? &w[APPEND_T_NORM] : NULL,
               .cos_sin = rope ? &w[APPEND_T_TABLE] : NULL,
               .positions = rope ? &w[APPEND_T_POSITIONS] : NULL,
               .q = hq ? &w[APPEND_T_Q] : NULL,
               .q_out = hq ? &w[APPEND_T_Q_OUT] : NULL,
               .kv_scale = v[APPEND_SCALE] ? &w[APPEND_T_SCALE] : NULL,
               .eps = v[APPEND_NORM] ? APPEND_CASE_EPS : 0,
               .gptj = v[APPEND_ROPE] == APPEND_ROPE_GPTJ,
               .format = (rfg_mla_format)v[APPEND_FORMAT] },
    };
}

static rfg_status append_run(rfg_context *ctx, const struct rfg_problem *prob, const rfg_tensor *t, rfg_stream stream)
{
    struct append_views w;
    append_views(prob, t, &w);
    return rfg_op_mla_append(ctx, w.call.kv, w.call.latent, w.call.k_rope, w.call.slots, &w.call.p, stream);
}

static void append_pack(const struct rfg_problem *prob, const rfg_tensor *t, void *kargs)
{
    struct append_views w;
    append_views(prob, t, &w);
    append_fill_args(&w.call, kargs);
}

static void append_as_called(struct rfg_problem *prob)
{
    prob->v[APPEND_FORM] = MLA_FORM_PACKED;
}

static const char *const compiled[] = {
    "mla_append bf16->bf16 T=8192 D=576 R=64 Hq=16 page=64 norm=latent rope=gptj table=f32",
    "mla_append f16->f16 T=8192 D=288 R=32 Hq=16 page=16 norm=all rope=neox pos=i32",
    "mla_append bf16->e4m3 T=8192 D=576 R=64 page=64 format=v32 norm=latent wtype=f32 rope=gptj",
    "mla_append bf16->e4m3 T=8192 D=512 R=64 Hq=8 page=64 format=v4 norm=all rope=neox table=f32",
    "mla_append f16->e4m3fnuz T=8192 D=576 R=64 page=1 rope=neox scale=1",
    "mla_append bf16->e5m2 T=8192 D=512 R=0 page=64 norm=latent align=2",
    "mla_append bf16->e4m3 T=8192 D=96 R=32 page=64 align=4",
    "mla_append bf16->bf16 T=8192 D=576 R=64 Hq=4 page=64 norm=all rope=neox align=8",
    NULL,
};
static const char *const small[] = {
    "mla_append bf16->bf16 T=5 D=96 R=32 Hq=3 page=4 norm=latent rope=gptj",
    "mla_append f16->e4m3 T=7 D=128 R=64 page=2 norm=all rope=neox scale=1",
    "mla_append bf16->e4m3 T=3 D=576 R=64 Hq=2 page=2 format=v32 norm=latent rope=gptj table=f32",
    NULL,
};

const struct rfg_op_case rfg_op_case_mla_append = {
    .tensors = append_tensors,
    .call = append_run,
    .pack = append_pack,
    .oracle = rfg_oracle_mla_append,
    .accept = append_accept,
    .compiled = compiled,
    .small = small,
    .fill = append_fill,
    .as_called = append_as_called,
};
