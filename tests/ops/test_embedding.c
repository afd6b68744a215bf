/* SPDX-License-Identifier: MIT
 *
 * rfg_op_embedding on the cpu and on the devices of $RFG_TEST_DEVICES: dtypes, ids beside the table, strides,
 * alignment, special values. (What it refuses: test_args.c.) */
#include <inttypes.h>

#include "tests/op_cases.h"
#include "tests/program.h"
#include "rfg/rfg.h"

#define R RFG_DATA_RANDOM
#define I RFG_DATA_INTS
#define S RFG_DATA_SPECIAL

static const struct op_case shapes[] = {
    { "embedding i32,bf16->bf16 M=37 N=512 V=100" },
    { "embedding i64,bf16->bf16 M=64 N=4096 V=37" },
    { "embedding i64,f16->f16 M=1 N=1536 V=1" },
    { "embedding i32,f32->f32 M=5 N=2048 V=9" },
    { "embedding i32,bf16->f32 M=9 N=1024 V=50" },
    { "embedding i64,f16->f32 M=3 N=8 V=5" },
    { "embedding i32,bf16->bf16 M=17 N=640 V=33 scaled=1" },
    { "embedding i64,f16->f16 M=17 N=72 V=33 scaled=1" },
    { "embedding i64,bf16->f32 M=7 N=640 V=33 scaled=1" },
    { "embedding i32,f32->f32 M=7 N=33 V=8 scaled=1" },
    { "embedding i32,bf16->bf16 M=300 N=1 V=20" },
    { "embedding i64,bf16->bf16 M=0 N=8 V=4" },
    { "embedding i32,f32->f32 M=4 N=0 V=4" },
};

static const struct op_case layouts[] = {
    { "embedding i32,bf16->bf16 M=9 N=512 V=20 ldt=520 ldy=528" },
    { "embedding i64,bf16->f32 M=9 N=516 V=20 ldt=517 ldy=518" },
    { "embedding i64,bf16->f32 M=9 N=516 V=20 ldy=520" },
    { "embedding i64,f16->f16 M=9 N=510 V=20 ldt=511" },
    { "embedding i32,f32->f32 M=9 N=6 V=20 ldy=7 scaled=1" },
    { "embedding i32,bf16->bf16 M=9 N=256 V=20 align=4 align_y=8" },
    { "embedding i64,bf16->f32 M=9 N=256 V=20 align_y=4 scaled=1" },
    { "embedding i64,bf16->bf16 M=9 N=300 V=20", R, true },
    { "embedding i32,f16->f32 M=9 N=301 V=20", R, true },
};

static const struct op_case values[] = {
    { "embedding i32,bf16->bf16 M=40 N=128 V=30", S },        { "embedding i64,f16->f16 M=40 N=128 V=30 scaled=1", S },
    { "embedding i64,f16->f32 M=40 N=72 V=30", S },           { "embedding i32,f32->f32 M=40 N=64 V=30 scaled=1", S },
    { "embedding i32,bf16->f32 M=8 N=600 V=30 scaled=1", I },
};

OP_CASES(right_shapes, shapes, "embeddings")
OP_CASES(right_layouts, layouts, "strides and alignment of embeddings")
OP_CASES(right_values, values, "embeddings of NaN, inf, integers")

START_TEST(rows_by_turns)
{
    op_few_groups(op_device(_i), "embedding i64,bf16->bf16 M=50 N=1000 V=20", "embedding_rows{threads=64,unroll=2}", 3);
    op_few_groups(op_device(_i), "embedding i32,bf16->f32 M=50 N=1000 V=20", "embedding_portable{}", 2);
}
END_TEST

/* By hand: without a scale the bits of a row are copied, a NaN's too, and scale 1 is none. */
START_TEST(bits)
{
    rfg_context *ctx = op_context("cpu");
    uint16_t table[] = { 0x7f81, 0x0001, 0xffc5, 0x8000 }, y[6];
    int64_t ids[] = { 6, 4, 5 };
    rfg_tensor tt = rfg_tensor_2d(table, RFG_BF16, 2, 2, 2), ti = rfg_tensor_1d(ids, RFG_I64, 3),
               ty = rfg_tensor_2d(y, RFG_BF16, 3, 2, 2);
    for (int one = 0; one < 2; one++) {
        rfg_embedding_params p = { .size = sizeof(p), .scale = (float)one, .first = 5 };
        memset(y, 0x55, sizeof(y));
        ck_assert_msg(rfg_op_embedding(ctx, &ty, &ti, &tt, &p, NULL) == RFG_OK, "%s", rfg_last_error());
        static const uint16_t want[] = { 0xffc5, 0x8000, 0, 0, 0x7f81, 0x0001 };
        ck_assert_mem_eq(y, want, sizeof(want));
    }
    rfg_tensor none = rfg_tensor_2d(table, RFG_BF16, 0, 2, 2);
    static const uint16_t zeros[6];
    ck_assert_msg(rfg_op_embedding(ctx, &ty, &ti, &none, NULL, NULL) == RFG_OK, "%s", rfg_last_error());
    ck_assert_mem_eq(y, zeros, sizeof(zeros));
    rfg_context_destroy(&ctx);
}
END_TEST

/* Ids come from memory that anybody may have written: whatever they are, an id that isn't one of the table's is a row
 * of zeros. */
START_TEST(any_id)
{
    static const int64_t firsts[] = {
        0, 5, -3, -(INT64_C(1) << 40), INT64_MIN, INT64_MAX, INT64_MAX - 2, INT64_MIN + 3
    };
    static const int64_t ends[] = { INT64_MIN, INT64_MIN + 1, INT64_MIN + 4, -2,       -1, 0, 1,
                                    4,         INT64_MAX - 3, INT64_MAX - 1, INT64_MAX };
    enum {
        ROWS = 4,
        ENDS = sizeof(ends) / sizeof(ends[0]),
        N_FIRSTS = sizeof(firsts) / sizeof(firsts[0]),
        M = ENDS + 8
    };
    rfg_context *ctx = op_context(op_device(_i));
    float table[ROWS] = { 1, 2, 3, 4 }, y[M];
    void *memory[3];
    size_t bytes[3] = { sizeof(table), M * sizeof(int64_t), sizeof(y) };
    for (int k = 0; k < 3; k++)
        ck_assert_msg(rfg_device_alloc(ctx, &memory[k], bytes[k]) == RFG_OK, "%s", rfg_last_error());
    ck_assert(rfg_device_copy(ctx, memory[0], table, sizeof(table), RFG_HOST_TO_DEVICE, NULL) == RFG_OK);
    for (int k = 0; k < 2 * N_FIRSTS; k++) {
        bool wide = k % 2; /* i64 */
        rfg_embedding_params p = { .size = sizeof(p), .first = firsts[k / 2] };
        int64_t ids[M];
        int32_t narrow[M];
        for (int i = 0; i < M; i++) {
            /* beyond ENDS: around first, where that is a number */
            ids[i] = i < ENDS ? ends[i] : (int64_t)((uint64_t)p.first + (uint64_t)(i - ENDS) - 2);
            narrow[i] = (int32_t)ids[i];
            ids[i] = wide ? ids[i] : narrow[i];
        }
        ck_assert(rfg_device_copy(ctx, memory[1], wide ? (void *)ids : narrow,
                                  M * (wide ? sizeof(int64_t) : sizeof(int32_t)), RFG_HOST_TO_DEVICE, NULL) == RFG_OK);
        rfg_tensor tt = rfg_tensor_2d(memory[0], RFG_F32, ROWS, 1, 1),
                   ti = rfg_tensor_1d(memory[1], wide ? RFG_I64 : RFG_I32, M),
                   ty = rfg_tensor_2d(memory[2], RFG_F32, M, 1, 1);
        ck_assert_msg(rfg_op_embedding(ctx, &ty, &ti, &tt, &p, NULL) == RFG_OK, "%s", rfg_last_error());
        ck_assert(rfg_device_copy(ctx, y, memory[2], sizeof(y), RFG_DEVICE_TO_HOST, NULL) == RFG_OK);
        ck_assert(rfg_stream_sync(ctx, NULL) == RFG_OK);
        for (int i = 0; i < M; i++) {
            float want = 0;
            for (int r = 0; r < ROWS; r++)
                if (p.first <= INT64_MAX - r && ids[i] == p.first + r)
                    want = table[r];
            ck_assert_msg(y[i] == want, "id %" PRId64 ", first %" PRId64 ": %g, expected %g", ids[i], p.first,
                          (double)y[i], (double)want);
        }
    }
    for (int k = 0; k < 3; k++)
        rfg_device_free(ctx, memory[k]);
    rfg_context_destroy(&ctx);
}
END_TEST

int main(void)
{
    return op_main_gpus("embedding", OP_TESTS(right_shapes, right_layouts, right_values, any_id), OP_TESTS(bits),
                        OP_TESTS(rows_by_turns));
}
