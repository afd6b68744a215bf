/* SPDX-License-Identifier: MIT
 *
 * merge_states as the harness has it. One state in eight has no keys, which is said in each way that there is, and so
 * have all of one query in sixteen; what their o holds is NaN. */
#include <math.h>

#include "base/util.h"
#include "merge.h"
#include "ops/oracle.h"
#include "merge_case.h"

#define GAP 64 /* elements between rows of form=mha: keeps every alignment */

static int merge_tensors(const struct rfg_problem *prob, struct rfg_tensor_spec spec[RFG_MAX_TENSORS])
{
    const int64_t *v = prob->v;
    int64_t rows = v[MERGE_T] * v[MERGE_H], ld = v[MERGE_FORM] == MERGE_MHA ? v[MERGE_D] + GAP : 0;
    spec[CASE_OUT] = rfg_rows_spec("out", (rfg_dtype)prob->dtype[1], rows, v[MERGE_D], 1, ld, MERGE_ALIGN_Y);
    spec[CASE_LSE_OUT] = rfg_rows_spec("lse_out", RFG_F32, rows, 1, 1, 0, -1);
    spec[CASE_O] = rfg_rows_spec("o", (rfg_dtype)prob->dtype[0], v[MERGE_N] * rows, v[MERGE_D], 1, ld, MERGE_ALIGN);
    spec[CASE_LSE] = rfg_rows_spec("lse", RFG_F32, v[MERGE_N] * rows, 1, 1, 0, -1);
    spec[CASE_OUT].output = spec[CASE_LSE_OUT].output = true;
    spec[CASE_LSE_OUT].on_request = !v[MERGE_LSE];
    spec[CASE_LSE].few_special = true; /* each spoils a row of out */
    return CASE_TENSORS;
}

/* What lse says of a state: a number, or, in one of three ways, that it has no keys. */
enum said { SAID_NUMBER, SAID_MINUS, SAID_PLUS, SAID_FAR };

static enum said said_of(int64_t state, int64_t token, int64_t head)
{
    uint64_t seed = (uint64_t)(token * 65537 + head + 1), of_row = rfg_random(&seed);
    seed += (uint64_t)(state + 1) * 0x9e3779b97f4a7c15;
    uint64_t r = rfg_random(&seed);
    if (of_row % 16 == 0) /* without a number none is far below another */
        return r % 4 == 0 ? SAID_PLUS : SAID_MINUS;
    return r % 8 ? SAID_NUMBER : (enum said)(SAID_MINUS + (r >> 8) % 3);
}

/* Numbers within a few powers of e, about a level of the row's own, which is far from 0 in some. Far below all is one
 * state at most as far as the row has another. */
static double lse_of(const struct rfg_problem *prob, int64_t state, int64_t token, int64_t head, uint64_t r)
{
    const double levels[] = { 0, 3, -40, 1000 };
    double level = levels[(uint64_t)(token + head) % 4], v = (double)(r >> 40) * 0x1p-21 - 4;
    enum said said = said_of(state, token, head);
    bool others = false;
    for (int64_t i = 0; i < prob->v[MERGE_N] && !others; i++)
        others = said_of(i, token, head) == SAID_NUMBER;
    if (said == SAID_FAR && others)
        return level - 200;
    return said == SAID_MINUS ? -INFINITY : said == SAID_PLUS ? INFINITY : level + v;
}

static bool has_keys(const struct rfg_problem *prob, int64_t state, int64_t token, int64_t head)
{
    double v = lse_of(prob, state, token, head, 0);
    return isfinite(v) && said_of(state, token, head) != SAID_FAR;
}

static void fill_lse(const struct rfg_problem *prob, const rfg_tensor *t, enum rfg_data data, uint64_t seed)
{
    int64_t state, token, head;
    for (int64_t r = 0; r < t->shape[0]; r++) {
        float *lse = (float *)t->data + r * t->strides[0];
        merge_case_place(prob, true, false, r, &state, &token, &head);
        double v = data == RFG_DATA_INTS ? 0 : lse_of(prob, state, token, head, rfg_random(&seed));
        if (isfinite(*lse) || data != RFG_DATA_SPECIAL)
            *lse = (float)v;
        else if (isnan(*lse))
            *(uint32_t *)lse = 0x7fffffff; /* a NaN whose lower half isn't 0 */
    }
}

static void fill_unused(const struct rfg_problem *prob, const rfg_tensor *t, uint64_t seed)
{
    int64_t state, token, head;
    for (int64_t r = 0; r < t->shape[0]; r++) {
        int64_t at = (int64_t)(rfg_random(&seed) % (uint64_t)t->shape[1]);
        merge_case_place(prob, false, false, r, &state, &token, &head);
        if (!has_keys(prob, state, token, head))
            rfg_store(t->data, t->dtype, r * t->strides[0] + at, NAN);
    }
}

static void merge_fill(const struct rfg_problem *prob, int tensor, const rfg_tensor *t, enum rfg_data data,
                       uint64_t seed)
{
    if (tensor == CASE_LSE)
        fill_lse(prob, t, data, seed);
    else if (data != RFG_DATA_INTS && data != RFG_DATA_SPECIAL)
        fill_unused(prob, t, seed);
}

static struct merge_strides elements(struct merge_strides rows, int64_t ld)
{
    return (struct merge_strides){ rows.state * ld, rows.token * ld, rows.head * ld };
}

static rfg_status merge_call(rfg_context *ctx, const struct rfg_problem *prob, const rfg_tensor *t, rfg_stream stream)
{
    const int64_t *v = prob->v;
    struct merge_strides o = elements(merge_case_rows(prob, false, false), t[CASE_O].strides[0]),
                         lse = elements(merge_case_rows(prob, true, false), t[CASE_LSE].strides[0]),
                         out = elements(merge_case_rows(prob, false, true), t[CASE_OUT].strides[0]),
                         lse_out = elements(merge_case_rows(prob, true, true), t[CASE_LSE_OUT].strides[0]);
    rfg_tensor to = { t[CASE_O].data,
                      t[CASE_O].dtype,
                      4,
                      { v[MERGE_N], v[MERGE_T], v[MERGE_H], v[MERGE_D] },
                      { o.state, o.token, o.head, 1 } },
               tl = { t[CASE_LSE].data,
                      RFG_F32,
                      3,
                      { v[MERGE_N], v[MERGE_T], v[MERGE_H] },
                      { lse.state, lse.token, lse.head } },
               ty = { t[CASE_OUT].data,
                      t[CASE_OUT].dtype,
                      3,
                      { v[MERGE_T], v[MERGE_H], v[MERGE_D] },
                      { out.token, out.head, 1 } },
               tm = { t[CASE_LSE_OUT].data, RFG_F32, 2, { v[MERGE_T], v[MERGE_H] }, { lse_out.token, lse_out.head } };
    rfg_merge_states_params p = { .size = sizeof(p), .lse_out = tm.data ? &tm : NULL, .base2 = v[MERGE_BASE2] != 0 };
    return rfg_op_merge_states(ctx, &ty, &to, &tl, &p, stream);
}

static void merge_pack(const struct rfg_problem *prob, const rfg_tensor *t, void *kargs)
{
    struct merge_args *a = kargs;
    *a = (struct merge_args){
        .o = t[CASE_O].data,
        .lse = t[CASE_LSE].data,
        .out = t[CASE_OUT].data,
        .lse_out = t[CASE_LSE_OUT].data,
        .by_o = elements(merge_case_rows(prob, false, false), t[CASE_O].strides[0]),
        .by_lse = elements(merge_case_rows(prob, true, false), t[CASE_LSE].strides[0]),
        .by_out = elements(merge_case_rows(prob, false, true), t[CASE_OUT].strides[0]),
        .by_lse_out = elements(merge_case_rows(prob, true, true), t[CASE_LSE_OUT].strides[0]),
    };
    merge_set_sizes(a, prob);
}

static void merge_as_called(struct rfg_problem *prob)
{
    prob->v[MERGE_FORM] = MERGE_NTH;
}

static const char *const compiled[] = {
    "merge_states bf16->bf16 T=128 H=128 D=512 n=8",
    "merge_states f16->f16 T=16 H=32 D=128 n=2 lse=1",
    "merge_states bf16->f32 T=16 H=32 D=128 n=16",
    "merge_states f16->bf16 T=16 H=32 D=63 n=3",
    "merge_states f32->bf16 T=16 H=32 D=66 n=4",
    "merge_states f32->f16 T=16 H=32 D=65 n=64",
    "merge_states f32->f32 T=16 H=32 D=128 n=2 align=8 align_y=4",
    NULL,
};

static const char *const small[] = {
    "merge_states bf16->bf16 T=9 H=3 D=72 n=4 lse=1",
    "merge_states f32->f16 T=5 H=2 D=600 n=40 base2=1 form=mha align=4",
    NULL,
};

const struct rfg_op_case rfg_op_case_merge_states = {
    .tensors = merge_tensors,
    .fill = merge_fill,
    .call = merge_call,
    .pack = merge_pack,
    .oracle = rfg_oracle_merge_states,
    .as_called = merge_as_called,
    .compiled = compiled,
    .small = small,
};
