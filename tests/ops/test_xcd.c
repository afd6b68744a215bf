/* SPDX-License-Identifier: MIT
 *
 * The order of tiles on GPUs of several dies: that it loses none and keeps together what it should (the kernels' text,
 * compiled for the host), and what it saves, counted by the emulator's L2s. */
#include <jansson.h>

#include "tests/emu/emu_kernel.h"
#include "tests/program.h"
#include "tests/suite.h"

typedef unsigned rfg_u32;
static int xcds;
#define XCDS       (rfg_u32) xcds
#define RFG_DEVICE static inline
#include "ops/device/rfg_xcd.h"

static const int dies[] = { 1, 2, 4, 6, 8 };
#define N_DIES (sizeof(dies) / sizeof(dies[0]))

START_TEST(order_is_one_to_one)
{
    for (size_t i = 0; i < N_DIES; i++)
        for (int n = 1; n < 100; n++) {
            char seen[100] = { 0 };
            xcds = dies[i];
            for (int g = 0; g < n; g++) {
                int at = rfg_xcd_order(g, n);
                ck_assert_msg(at >= 0 && at < n && !seen[at]++, "%d dies: %d of %d goes to %d", xcds, g, n, at);
                /* The die's next workgroup has the next place. */
                ck_assert(g < xcds || at == rfg_xcd_order(g - xcds, n) + 1);
            }
        }
}
END_TEST

START_TEST(every_tile_once)
{
    static const int shapes[][4] = { { 16, 1, 1, 1 },   { 64, 2, 3, 1 },   { 64, 8, 4, 3 },  { 64, 9, 5, 1 },
                                     { 128, 4, 32, 1 }, { 128, 5, 7, 2 },  { 16, 33, 3, 4 }, { 128, 32, 64, 1 },
                                     { 64, 31, 2, 28 }, { 16, 100, 1, 1 }, { 512, 17, 5, 1 } };
    for (size_t i = 0; i < N_DIES * (sizeof(shapes) / sizeof(shapes[0])); i++) {
        const int *s = shapes[i / N_DIES];
        int n = s[1] * s[2] * s[3];
        char *seen = calloc((size_t)n, 1);
        xcds = dies[i % N_DIES];
        ck_assert_ptr_nonnull(seen);
        for (int g = 0; g < n; g++) {
            struct rfg_tile t = rfg_xcd_tile(g, s[0], s[1], s[2], s[3]);
            bool in = t.m >= 0 && t.m < s[1] && t.n >= 0 && t.n < s[2] && t.split >= 0 && t.split < s[3];
            ck_assert_msg(in && !seen[(t.split * s[2] + t.n) * s[1] + t.m]++, "%d dies, %d x %d x %d: %d is %d %d %d",
                          xcds, s[1], s[2], s[3], g, t.m, t.n, t.split);
        }
        free(seen);
    }
}
END_TEST

/* 4 x 32 tiles on 8 dies: die d has columns 4 d to 4 d + 3. Of 32 x 64 tiles of 128 rows it has rows 4 d to 4 d + 3,
 * and takes the four of a column one after the other. */
START_TEST(dies_keep_together)
{
    xcds = 8;
    for (int g = 0; g < 128; g++)
        ck_assert_int_eq(rfg_xcd_tile(g, 128, 4, 32, 1).n / 4, g % 8);
    for (int g = 0; g < 2048; g++) {
        struct rfg_tile t = rfg_xcd_tile(g, 128, 32, 64, 1);
        ck_assert_int_eq(t.m, g % 8 * 4 + g / 8 % 4);
        ck_assert_int_eq(t.n, g / 32);
    }
}
END_TEST

START_TEST(turns)
{
    static const int expected[][12] = { /* of 1 to 12 things */
                                        { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 },
                                        { 1, 2, 2, 4, 4, 4, 4, 8, 8, 8, 8, 8 },
                                        { 1, 2, 3, 3, 3, 6, 6, 6, 6, 6, 6, 12 }
    };
    static const int of[] = { 1, 8, 6 };
    for (int i = 0; i < 3; i++)
        for (int n = 1; n <= 12; n++) {
            xcds = of[i];
            ck_assert_msg(rfg_xcd_turns(n) == expected[i][n - 1], "%d dies, %d: %d", xcds, n, rfg_xcd_turns(n));
        }
}
END_TEST

/* ---- what it saves ----------------------------------------------------------------------------------------------- */

/* Lines of 128 bytes that the L2s fetch. Beside these, each die reads the arguments and the dispatch packet. */
static const struct saved {
    const char *device, *problem, *variant;
    int lines;
} saved[] = {
    /* W has 2048 lines, X 512. Each die has all four tiles of two columns: W once, X on every die. (In the order of
     * workgroups it would be 4 times and twice.) */
    { "emu:gfx942:304", "gemm bf16,bf16->bf16 M=64 N=256 K=512",
      "gemm_splitk_mma{tile_m=16,tile_n=16,tile_k=128,k_waves=4,stages=4,split_k=1}", 2048 + 8 * 512 },
    /* 4 parts of k on 2 dies each: X twice; of each of 64 tiles' four partial sums of 8 lines three come from other
       dies. */
    { "emu:gfx942:304", "gemm bf16,bf16->bf16 M=64 N=256 K=512",
      "gemm_stream_mma{tile_m=16,frags_n=1,k_waves=1,unroll=4,split_k=4}", 2048 + 2 * 512 + 64 * 3 * 8 },
    /* Each die has all four tiles of two columns: W once, its 4096 lines; X, 1024, on every die. */
    { "emu:gfx942:304", "gemm bf16,bf16->bf16 M=256 N=1024 K=256",
      "gemm_tile{tile_m=64,tile_n=64,tile_k=64,waves_m=2,waves_n=2,buffers=2,split_k=1}", 4096 + 8 * 1024 },
    /* One L2 for all, in a partition of one die; and on a GPU that has no dies. */
    { "emu:gfx942:38", "gemm bf16,bf16->bf16 M=64 N=256 K=512",
      "gemm_splitk_mma{tile_m=16,tile_n=16,tile_k=128,k_waves=4,stages=4,split_k=1}", 2048 + 512 },
    { "emu:gfx90a:104", "gemm bf16,bf16->bf16 M=64 N=256 K=512",
      "gemm_splitk_mma{tile_m=16,tile_n=16,tile_k=128,k_waves=4,stages=4,split_k=1}", 2048 + 512 },
    /* Keys and values of a kv head: 256 lines; queries of all 8 heads: 256. Of 5 kv heads 4 are on two dies each, the
     * last one on all. (In the order of workgroups: each on all.) */
    { "emu:gfx942:304", "mha bf16->bf16 B=5 S=64 Sq=16 Hq=8 Hkv=1 D=128",
      "mha_prefill_mma{waves=4,frags_q=1,tile_kv=64,stages=1,q_lds=0,pack=0,parts=1}", (4 * 2 + 8) * 256 + 5 * 256 },
    /* Only 4 kv heads fit into 32 MiB, but 8 are taken at a time: each on one die, for both tiles of its 128 heads. */
    { "emu:gfx942:304", "mha_decode bf16->bf16 B=8 Hq=128 Hkv=1 D=128 S=16384",
      "mha_decode_tile_mma{waves=4,frags_q=1,tile_kv=64,stages=1,q_lds=0,pack=1,parts=1}", 8 * 65536 + 8 * 256 },
    /* 6 dies, 8 kv heads: 6 on one die each, the others on three. */
    { "emu:gfx942:228", "mha bf16->bf16 B=1 S=64 Sq=16 Hq=48 Hkv=8 D=128",
      "mha_prefill_mma{waves=4,frags_q=1,tile_kv=64,stages=1,q_lds=0,pack=0,parts=1}", (6 + 2 * 3) * 256 + 48 * 32 },
};

START_TEST(fetched)
{
    const struct saved *s = &saved[_i];
    setenv("RFG_EMU_L2", "on", 1);
    setenv("RFG_EMU_CHECKS", "none", 1);
    ck_assert_msg(run_program("rfg-bench", "--counters --no-check --json --device %s --problem '%s' --variant '%s'",
                              s->device, s->problem, s->variant) == 0,
                  "%s", err);
    json_t *j = json_loads(out, 0, NULL);
    int lines = (int)json_integer_value(json_object_get(json_object_get(j, "l2"), "fetched"));
    ck_assert_msg(lines >= s->lines && lines <= s->lines + 8 * 8, "%s on %s: %d lines, should be about %d", s->problem,
                  s->device, lines, s->lines);
    json_decref(j);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("xcd");
    TCase *tc = tcase_create("order"), *emu = tcase_create("emu");
    ADD_TESTS(tc, order_is_one_to_one, every_tile_once, dies_keep_together, turns);
    suite_add_tcase(s, tc);
    tcase_set_timeout(emu, 120);
    tcase_add_checked_fixture(emu, program_setup, program_teardown);
    if (emu_is_there())
        tcase_add_loop_test(slow_case(s, "emu", "fetched", program_setup, program_teardown), fetched, 0,
                            sizeof(saved) / sizeof(saved[0]));
    suite_add_tcase(s, emu); /* empty without the emulator's LLVM */
    return run_suite(s);
}
