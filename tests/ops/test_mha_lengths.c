/* SPDX-License-Identifier: MIT
 *
 * Attention, by each variant: nothing outside of the tensors is read or written, whatever the lengths. On the cpu and
 * on the devices of $RFG_TEST_DEVICES. */
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "mha_batch.h"

/* A context that has one variant of each operator only, the n-th way, whatever its device takes of them. */
static const char *const ways[] = {
    "mha_cpu_avx512,mha_decode_cpu_avx512",     "mha_cpu_avx2,mha_decode_cpu_avx2",
    "mha_cpu_portable,mha_decode_cpu_portable", "mha_portable,mha_decode_portable",
    "mha_prefill_mma,mha_decode_stream_mma",    "mha_prefill_wgmma,mha_decode_wgmma",
    "mha_prefill_mma,mha_decode_tile_mma",
};
#define N_WAYS (int)(sizeof(ways) / sizeof(ways[0]))
static rfg_context *context_of(const char *device, int way)
{
    setenv("RFG_VARIANTS", ways[way], 1);
    rfg_context *ctx = op_context(device);
    unsetenv("RFG_VARIANTS");
    return ctx;
}

/* Lengths that the tensors don't hold count as the nearest that they hold, on every device and by every variant:
 * nothing is read or written outside of them. */
START_TEST(lengths_past_the_tensors)
{
    static const int32_t lens[][2] = { { 113, -1 }, { INT32_MAX, INT32_MIN }, { -2000, 1 << 20 } };
    static struct result want, got;
    int ran = 0;
    for (int way = 0; way < N_WAYS; way++) {
        rfg_context *ctx = context_of(op_device(_i), way);
        for (int kind = 0; kind < N_KINDS; kind++)
            for (size_t n = 0; n < sizeof(lens) / sizeof(lens[0]); n++) {
                struct batch *b = make_kind(kind);
                for (int s = 0; s < B; s++)
                    b->lens[s] = lens[n][s] < 0 ? 0 : b->columns * PAGE;
                if (try_run(ctx, b, &want)) {
                    memcpy(b->lens, lens[n], sizeof(b->lens));
                    run(ctx, b, &got);
                    must_equal(op_device(_i), kind, ways[way], &want, &got);
                    ran++;
                }
                free(b);
            }
        rfg_context_destroy(&ctx);
    }
    ck_assert_int_ge(ran, 9);
}
END_TEST

/* The same of packed sequences. */
enum { T = 24, TK = 40, SEQUENCES = 3 };
struct packed {
    uint16_t q[T * D], k[TK * D], v[TK * D], out[T * D];
    float lse[T];
};

static bool run_packed(rfg_context *ctx, struct packed *b, const int32_t (*cu)[SEQUENCES + 1])
{
    struct buffers m = { .hip = rfg_context_hip(ctx) };
    memset(b->out, 0xff, sizeof(b->out));
    memset(b->lse, 0xff, sizeof(b->lse));
    rfg_tensor q = { put(&m, b->q, sizeof(b->q)), RFG_BF16, 3, { T, 1, D }, { D, D, 1 } }, out = q;
    rfg_tensor k = { put(&m, b->k, sizeof(b->k)), RFG_BF16, 3, { TK, 1, D }, { D, D, 1 } }, v = k;
    v.data = put(&m, b->v, sizeof(b->v));
    out.data = put(&m, b->out, sizeof(b->out));
    rfg_tensor lse = { put(&m, b->lse, sizeof(b->lse)), RFG_F32, 2, { 1, T }, { T, 1 } };
    rfg_tensor cu_q = rfg_tensor_1d(put(&m, cu[0], sizeof(cu[0])), RFG_I32, SEQUENCES + 1);
    rfg_tensor cu_k = rfg_tensor_1d(put(&m, cu[1], sizeof(cu[1])), RFG_I32, SEQUENCES + 1);
    rfg_mha_params p = {
        .size = sizeof(p), .lse = &lse, .cu_seqlens_q = &cu_q, .cu_seqlens_k = &cu_k, .max_seqlen_q = INT32_MAX
    };
    rfg_status st = rfg_op_mha(ctx, &out, &q, &k, &v, &p, NULL);
    ck_assert_msg(st == RFG_OK || st == RFG_ERROR_UNSUPPORTED, "%s", rfg_last_error());
    get(&m, b->out, out.data, sizeof(b->out));
    get(&m, b->lse, lse.data, sizeof(b->lse));
    free_buffers(&m);
    return st == RFG_OK;
}

START_TEST(places_past_the_tensors)
{
    static const int32_t cu[][2][SEQUENCES + 1] = {
        /* queries, keys */
        { { 0, 5, 5, T }, { 0, 30, 30, TK } },
        { { -7, 5, 5, T + 1 }, { -1, 30, 30, TK + 1 } },
        { { INT32_MIN, 5, 5, INT32_MAX }, { INT32_MIN, 30, 30, INT32_MAX } },
    };
    static struct packed want, got;
    uint64_t seed = op_seed();
    int ran = 0;
    for (int i = 0; i < TK * D; i++) {
        rfg_store(want.q, RFG_BF16, i % (T * D), (double)(int64_t)rfg_random(&seed) * 0x1p-62);
        rfg_store(want.k, RFG_BF16, i, (double)(int64_t)rfg_random(&seed) * 0x1p-63);
        rfg_store(want.v, RFG_BF16, i, (double)(int64_t)rfg_random(&seed) * 0x1p-63);
    }
    for (int way = 0; way < N_WAYS; way++) {
        rfg_context *ctx = context_of(op_device(_i), way);
        bool takes = run_packed(ctx, &want, cu[0]);
        got = want;
        for (size_t n = 1; takes && n < sizeof(cu) / sizeof(cu[0]); n++, ran++) {
            ck_assert_msg(run_packed(ctx, &got, cu[n]), "%s", rfg_last_error());
            ck_assert_msg(!memcmp(&want, &got, sizeof(got)), "%s: %s: cu_seqlens %zu", op_device(_i), ways[way], n);
        }
        rfg_context_destroy(&ctx);
    }
    ck_assert_int_ge(ran, 2);
}
END_TEST

int main(void)
{
    return op_main("mha_lengths", OP_TESTS(lengths_past_the_tensors, places_past_the_tensors), OP_TESTS(NULL));
}
