/* SPDX-License-Identifier: MIT
 *
 * The harness' case of embedding. The table begins at id FIRST; some ids are not in it. */
#include <string.h>

#include "base/util.h"
#include "embedding.h"
#include "ops/oracle.h"
#include "embedding_case.h"

static int embedding_tensors(const struct rfg_problem *prob, struct rfg_tensor_spec spec[RFG_MAX_TENSORS])
{
    const int64_t *v = prob->v;
    spec[0] = rfg_rows_spec("y", (rfg_dtype)prob->dtype[2], v[EMBEDDING_M], v[EMBEDDING_N], 1, v[EMBEDDING_LDY],
                            EMBEDDING_ALIGN_Y);
    spec[0].output = true;
    spec[1] = (struct rfg_tensor_spec){
        .name = "ids", .dtype = (rfg_dtype)prob->dtype[0], .ndim = 1, .shape = { v[EMBEDDING_M] }, .align_key = -1
    };
    spec[2] = rfg_rows_spec("table", (rfg_dtype)prob->dtype[1], v[EMBEDDING_V], v[EMBEDDING_N], 1, v[EMBEDDING_LDT],
                            EMBEDDING_ALIGN);
    return 3;
}

/* One id in eight is beside the table: right before it, right behind it, far off, or inside but for its upper half. */
static void embedding_fill(const struct rfg_problem *prob, int tensor, const rfg_tensor *t, enum rfg_data data,
                           uint64_t seed)
{
    int64_t v = prob->v[EMBEDDING_V];
    bool wide = prob->dtype[0] == RFG_I64;
    const int64_t beside[] = { FIRST - 1, FIRST + v, -1, wide ? INT64_MIN : INT32_MIN,
                               wide ? FIRST + v / 2 + ((int64_t)1 << 32) : INT32_MAX };
    (void)data;
    for (int64_t m = 0; tensor == 1 && m < prob->v[EMBEDDING_M]; m++) {
        uint64_t r = rfg_random(&seed), which = r >> 8;
        int64_t id = r % 8 == 0 || !v ? beside[which % 5] : FIRST + (int64_t)(which % (uint64_t)v);
        if (wide)
            ((int64_t *)t->data)[m] = id;
        else
            ((int32_t *)t->data)[m] = (int32_t)id;
    }
}

static rfg_status embedding_call(rfg_context *ctx, const struct rfg_problem *prob, const rfg_tensor *t,
                                 rfg_stream stream)
{
    rfg_embedding_params p = { .size = sizeof(p), .scale = prob->v[EMBEDDING_SCALED] ? SCALE : 0, .first = FIRST };
    return rfg_op_embedding(ctx, &t[0], &t[1], &t[2], &p, stream);
}

static void embedding_pack(const struct rfg_problem *prob, const rfg_tensor *t, void *kargs)
{
    struct embedding_args *a = kargs;
    *a = (struct embedding_args){ .table = t[2].data,
                                  .ids = t[1].data,
                                  .y = t[0].data,
                                  .m = (int)prob->v[EMBEDDING_M],
                                  .n = (int)prob->v[EMBEDDING_N],
                                  .scale = SCALE,
                                  .v = prob->v[EMBEDDING_V],
                                  .first = FIRST,
                                  .ldt = t[2].strides[0],
                                  .ldy = t[0].strides[0] };
    embedding_set_chunks(a, prob);
}

static const char *const compiled[] = {
    "embedding i32,bf16->bf16 M=64 N=4096 V=1000",
    "embedding i64,f16->f16 M=64 N=4096 V=1000 scaled=1",
    "embedding i64,bf16->f32 M=64 N=4094 V=1000 scaled=1 ldy=4096",
    "embedding i32,f32->f32 M=64 N=1001 V=1000",
    "embedding i32,f16->f32 M=64 N=1001 V=1000",
    NULL,
};

const struct rfg_op_case rfg_op_case_embedding = {
    .tensors = embedding_tensors,
    .fill = embedding_fill,
    .call = embedding_call,
    .pack = embedding_pack,
    .oracle = rfg_oracle_embedding,
    .compiled = compiled,
};
