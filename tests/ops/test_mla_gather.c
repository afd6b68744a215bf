/* SPDX-License-Identifier: MIT
 *
 * rfg_op_mla_gather on the cpu and on the devices of $RFG_TEST_DEVICES: every format, tables, sequences without rows. */
#include "rfg/mla.h"
#include "tests/op_cases.h"

#define R RFG_DATA_RANDOM
#define S RFG_DATA_SPECIAL
#define P "mla_gather "

static const struct op_case rows[] = {
    { P "bf16->bf16 N=100 D=576 B=3 page=64", R, true },
    { P "bf16->bf16 N=100 D=576 B=7 page=4 first=1 form=gaps" },
    { P "f16->f16 N=40 D=512 B=5 page=1 first=1 table=indices", S },
    { P "f16->f16 N=40 D=288 B=2", R, true },
    { P "bf16->bf16 N=9 D=64 B=1 page=16" },
    { P "bf16->bf16 N=0 D=64 B=1 page=16" },
    { P "e4m3->bf16 N=100 D=576 B=4 page=16 scale=1", R, true },
    { P "e4m3fnuz->f16 N=50 D=512 B=4 page=16 scale=1 first=1", S },
    { P "e5m2->bf16 N=50 D=96 B=4 page=16 table=indices" },
    { P "e4m3->f16 N=50 D=96 B=4 form=gaps", R, true },
    { P "e4m3->bf16 N=100 D=576 B=4 page=64 format=v32 first=1" },
    { P "e4m3->bf16 N=50 D=576 B=4 page=1 format=v32 table=indices form=gaps" },
    { P "e4m3->bf16 N=100 D=576 B=40 page=2 format=v32" },
    { P "e4m3->bf16 N=30 D=576 B=4 page=16 format=v32", S },
    { P "e4m3->bf16 N=100 D=512 B=4 page=64 format=v4 first=1" },
    { P "e4m3->bf16 N=50 D=512 B=4 page=1 format=v4 table=indices" },
    { P "e4m3->bf16 N=50 D=512 B=3 format=v4" },
};
OP_CASES(right_rows, rows, "MLA gather")

START_TEST(refusals)
{
    static const char *const bad[][2] = {
        { "f32->f32 N=2 D=576 B=1 page=16", "bf16 or f16" },
        { "f16->bf16 N=2 D=576 B=1 page=16", "dtype of kv is f16" },
        { "bf16->bf16 N=2 D=568 B=1 page=16", "multiple of 32" },
        { "bf16->bf16 N=2 D=576 B=1 page=12", "page=12" },
        { "bf16->bf16 N=2 D=576 B=1 table=indices", "must be with a page" },
        { "bf16->bf16 N=2 D=576 B=1 page=16 scale=1", "kv_scale" },
        { "e4m3->f16 N=2 D=576 B=1 page=16 format=v32", "must be with bf16" },
        { "e4m3->bf16 N=2 D=512 B=1 page=16 format=v32", "must be 576" },
        { "e4m3->bf16 N=2 D=576 B=1 page=16 format=v4", "must be 512" },
        { "e4m3->bf16 N=2 D=512 B=1 page=16 scale=1 format=v4", "kv_scale" },
    };
    OP_PROBLEMS_REFUSED("mla_gather ", bad);
}
END_TEST

int main(void)
{
    return op_main("mla_gather", OP_TESTS(right_rows), OP_TESTS(refusals));
}
