/* SPDX-License-Identifier: MIT
 *
 * rfg_op_mla_decode on the cpu and on the devices of $RFG_TEST_DEVICES: heads, queries, sizes, tables, 8-bit caches.
 * What must not change a bit, and what it refuses, is in test_mla_rules.c; every combination in test_mla_all.c. */
#include "tests/op_cases.h"

#define R RFG_DATA_RANDOM
#define C RFG_DATA_CANCEL
#define I RFG_DATA_INTS    /* equal weights: sums are exact, so all variants give the same bits */
#define S RFG_DATA_SPECIAL /* without masks: what 0 times a masked NaN is, is said of no variant */

/* Small: the emulator does ten million products a second. */
static const struct op_case heads[] = {
    { "mla_decode bf16->bf16 B=2 Hq=16 D=576 S=100 Dv=512 lse=1 page=64" },
    { "mla_decode bf16->bf16 B=1 Hq=1 D=576 S=33 Dv=512 lse=1 page=16" },
    { "mla_decode f16->f16 B=2 Hq=3 D=576 S=70 Dv=512 page=1 lens=any" },
    { "mla_decode bf16->bf16 B=3 Hq=12 D=576 S=60 Sq=2 Dv=512 causal=1 lse=1 page=64 lens=any" },
    { "mla_decode f16->f16 B=1 Hq=24 D=576 S=65 Dv=512 lse=1 page=32" },
    { "mla_decode bf16->bf16 B=1 Hq=96 D=576 S=20 Dv=512 lse=1 page=16" },
    { "mla_decode bf16->bf16 B=1 Hq=128 D=576 S=17 Dv=512 page=16" },
    { "mla_decode bf16->bf16 B=2 Hq=5 D=576 S=40 Sq=8 Dv=512 causal=1 lse=1 page=16" },
    { "mla_decode f16->f16 B=2 Hq=8 D=576 S=5 Sq=8 Dv=512 causal=1 lse=1 page=16" }, /* rows see nothing */
    { "mla_decode bf16->bf16 B=2 Hq=4 D=576 S=40 Sq=3 Dv=512 page=8" },
    { "mla_decode bf16->bf16 B=2 Hq=16 D=512 S=50 lse=1 page=64" },
    { "mla_decode f16->f16 B=2 Hq=16 D=512 S=50 Dv=448 lse=1 page=64" },
    { "mla_decode bf16->bf16 B=2 Hq=16 D=288 S=90 Dv=256 lse=1 page=16" },
    { "mla_decode f16->f16 B=2 Hq=7 D=96 S=90 Dv=64 lse=1" },
    { "mla_decode bf16->bf16 B=2 Hq=7 D=192 S=90 lse=1 lens=any" },
    { "mla_decode bf16->bf16 B=3 Hq=16 D=128 S=0 Dv=64 lse=1 page=16" },
    { "mla_decode bf16->bf16 B=0 Hq=16 D=576 S=16 Dv=512 page=16" },
    { "mla_decode f16->f16 B=1 Hq=16 D=576 S=40 Dv=512 lse=1 page=16", C },
};

static const struct op_case options[] = {
    { "mla_decode bf16->bf16 B=2 Hq=6 D=128 S=70 Dv=64 cap=2 lse=1 page=16" },
    { "mla_decode bf16->bf16 B=2 Hq=6 D=128 S=70 Dv=64 sink=1 lse=1 page=16 lens=any" },
    { "mla_decode f16->f16 B=2 Hq=6 D=128 S=1 Dv=64 sink=1 stype=f16 lse=1 page=16" },
    { "mla_decode bf16->bf16 B=2 Hq=6 D=128 S=40 Sq=3 Dv=64 causal=1 cap=30 sink=1 stype=bf16 page=4" },
    { "mla_decode bf16->bf16 B=3 Hq=6 D=128 S=150 Dv=64 lse=1 page=16 table=indices lens=any" },
    { "mla_decode f16->f16 B=3 Hq=6 D=128 S=50 Sq=2 Dv=64 causal=1 lse=1 page=1 table=indices lens=log" },
    { "mla_decode bf16->bf16 B=2 Hq=6 D=128 S=50 Dv=64 lse=1 page=16 q=apart" },
    { "mla_decode bf16->bf16 B=2 Hq=6 D=576 S=50 Sq=2 Dv=512 page=16 table=indices q=apart form=gaps lens=any" },
    { "mla_decode bf16->bf16 B=2 Hq=6 D=128 S=50 Dv=64 lse=1 page=16 form=gaps" },
    { "mla_decode bf16->bf16 B=2 Hq=6 D=128 S=50 Dv=64 form=gaps" },
    { "mla_decode bf16->bf16 B=2 Hq=16 D=128 S=50 Dv=64 lse=1 page=16 kv=e4m3 scale=1" },
    { "mla_decode f16->f16 B=2 Hq=16 D=576 S=50 Sq=2 Dv=512 causal=1 lse=1 page=16 kv=e4m3fnuz scale=1 lens=any" },
    { "mla_decode bf16->bf16 B=2 Hq=3 D=512 S=50 Dv=448 page=64 kv=e5m2" },
    { "mla_decode bf16->bf16 B=2 Hq=6 D=128 S=50 Dv=64 lse=1 page=16", R, true },
    { "mla_decode f16->f16 B=2 Hq=6 D=96 S=50 Dv=64 page=16 kv=e4m3 scale=1", R, true },
};

#define SHARED(parts) "mla_decode_portable{parts=" #parts "}"
/* Bytes of V3.2 and V4; queries at positions of their own, keys of one rank of several. */
static const struct op_case formats[] = {
    { "mla_decode bf16->bf16 B=2 Hq=16 D=576 S=100 Dv=512 lse=1 page=64 kv=e4m3 format=v32" },
    { "mla_decode bf16->bf16 B=2 Hq=5 D=576 S=40 Sq=2 Dv=512 causal=1 lse=1 page=1 kv=e4m3 format=v32 table=indices "
      "lens=any" },
    { "mla_decode bf16->bf16 B=2 Hq=3 D=576 S=48 Dv=512 kv=e4m3 format=v32 q=apart form=gaps" },
    { "mla_decode bf16->bf16 B=2 Hq=16 D=512 S=100 lse=1 page=64 kv=e4m3 format=v4" },
    { "mla_decode bf16->bf16 B=2 Hq=5 D=512 S=40 Sq=2 Dv=448 causal=1 lse=1 page=1 kv=e4m3 format=v4 lens=any" },
    { "mla_decode bf16->bf16 B=2 Hq=3 D=512 S=37 sink=1 lse=1 kv=e4m3 format=v4 form=gaps lens=any" },
    { "mla_decode bf16->bf16 B=1 Hq=3 D=576 S=900 Dv=512 lse=1 page=64 kv=e4m3 format=v32", R, false, SHARED(4) },
    { "mla_decode bf16->bf16 B=3 Hq=5 D=96 S=70 Sq=3 Dv=64 causal=1 lse=1 page=16 lens=any positions=1" },
    { "mla_decode bf16->bf16 B=5 Hq=5 D=96 S=70 Dv=64 causal=1 lse=1 page=16 positions=1" },
    { "mla_decode f16->f16 B=3 Hq=5 D=96 S=70 Sq=8 Dv=64 causal=1 lse=1 page=16 table=indices positions=1 lens=any "
      "cp=2" },
    { "mla_decode bf16->bf16 B=4 Hq=5 D=96 S=70 Sq=3 Dv=64 causal=1 lse=1 positions=1 cp=3", R, true },
    { "mla_decode bf16->bf16 B=8 Hq=5 D=96 S=330 Sq=2 Dv=64 causal=1 lse=1 page=8 lens=any positions=1 cp=8" },
    { "mla_decode bf16->bf16 B=3 Hq=5 D=512 S=70 Sq=3 causal=1 lse=1 page=16 kv=e4m3 format=v4 positions=1 cp=4" },
};

/* Segments: two or more, of one step or more, by one workgroup and by several. */
static const struct op_case segments[] = {
    { "mla_decode bf16->bf16 B=2 Hq=3 D=64 S=600 lse=1 page=16 lens=any" },
    { "mla_decode f16->f16 B=1 Hq=3 D=64 S=2100 lse=1 page=64" },
    { "mla_decode bf16->bf16 B=1 Hq=1 D=64 S=5000 sink=1 lse=1 page=16" },
    { "mla_decode bf16->bf16 B=3 Hq=3 D=64 S=600 Sq=2 causal=1 lse=1 page=16 lens=log", R, false, SHARED(4) },
    { "mla_decode bf16->bf16 B=3 Hq=3 D=64 S=600 lse=1 page=16 lens=any", R, false, SHARED(1) },
    { "mla_decode bf16->bf16 B=1 Hq=3 D=64 S=2500 lse=1 page=16", R, false, SHARED(16) },
};

static const struct op_case exact[] = {
    { "mla_decode bf16->bf16 B=2 Hq=8 D=128 S=256 Dv=64 page=16", I },
    { "mla_decode f16->f16 B=3 Hq=4 D=64 S=512 Sq=2 page=16", I },
    { "mla_decode bf16->bf16 B=1 Hq=2 D=64 S=2048 page=1", I },
    { "mla_decode bf16->bf16 B=2 Hq=8 D=576 S=256 Dv=512 page=32 kv=e5m2", I },
};

static const struct op_case special[] = {
    { "mla_decode bf16->bf16 B=8 Hq=4 D=64 S=40 lse=1 page=16", S },
    { "mla_decode f16->f16 B=8 Hq=4 D=96 S=40 Dv=64 lse=1 page=16", S },
    { "mla_decode bf16->bf16 B=8 Hq=4 D=64 S=40 page=16 kv=e4m3 scale=1", S },
    { "mla_decode bf16->bf16 B=8 Hq=4 D=576 S=40 Dv=512 page=16 kv=e4m3 format=v32", S },
};

/* Sizes that Hopper's matrix instructions take, of more than 64 rows and of more than 128 keys. */
static const struct op_case wide[] = {
    { "mla_decode bf16->bf16 B=2 Hq=64 D=576 S=300 Sq=2 Dv=512 causal=1 lse=1 page=64 lens=any" },
    { "mla_decode bf16->bf16 B=2 Hq=6 D=192 S=300 Sq=3 Dv=128 causal=1 cap=30 sink=1 stype=bf16 lse=1 page=4" },
    { "mla_decode f16->f16 B=3 Hq=6 D=192 S=400 Dv=128 lse=1 page=16 table=indices lens=any" },
    { "mla_decode bf16->bf16 B=2 Hq=6 D=320 S=300 Sq=2 Dv=256 lse=1 page=16 table=indices q=apart form=gaps lens=any" },
    { "mla_decode f16->f16 B=1 Hq=70 D=256 S=257 lse=1 page=64" },
    { "mla_decode bf16->bf16 B=2 Hq=3 D=512 S=130 lse=1 page=1" },
    { "mla_decode f16->f16 B=2 Hq=6 D=192 S=200 Sq=2 Dv=128 causal=1 sink=1 form=gaps" },
    { "mla_decode bf16->bf16 B=2 Hq=5 D=128 S=200 lse=1 lens=log", C },
    { "mla_decode bf16->bf16 B=2 Hq=8 D=192 S=512 Dv=128 page=16", I },
    { "mla_decode f16->f16 B=8 Hq=4 D=192 S=140 Dv=128 lse=1 page=16", S },
};

#define CLUSTERS(parts, clusters) "mla_decode_wgmma{parts=" #parts ",clusters=" #clusters "}"
/* Clusters that share a sequence: with less than a tile each, with one, with odd numbers of them. */
static const struct op_case clusters[] = {
    { "mla_decode bf16->bf16 B=1 Hq=16 D=576 S=700 Dv=512 lse=1 page=64", R, false, CLUSTERS(8, 2) },
    { "mla_decode bf16->bf16 B=2 Hq=3 D=192 S=2100 Dv=128 sink=1 lse=1 page=16 lens=any", R, false, CLUSTERS(16, 2) },
    { "mla_decode f16->f16 B=1 Hq=70 D=192 S=1100 Dv=128 lse=1 page=64", R, false, CLUSTERS(8, 4) },
    { "mla_decode bf16->bf16 B=1 Hq=5 D=320 S=600 Sq=2 Dv=256 causal=1 lse=1 page=1", R, false, CLUSTERS(8, 16) },
    { "mla_decode bf16->bf16 B=1 Hq=2 D=128 S=3000 lse=1", R, false, CLUSTERS(16, 8) },
    { "mla_decode f16->f16 B=1 Hq=3 D=192 S=900 Dv=128 lse=1 page=64", R, false, CLUSTERS(2, 1) },
    { "mla_decode bf16->bf16 B=2 Hq=70 D=576 S=300 Dv=512 lse=1 page=64", R, false, CLUSTERS(2, 2) },
    { "mla_decode bf16->bf16 B=1 Hq=16 D=576 S=900 Dv=512 lse=1 page=64", R, false, CLUSTERS(2, 4) },
    { "mla_decode f16->f16 B=3 Hq=40 D=192 S=700 Sq=2 Dv=128 causal=1 sink=1 lse=1 page=16 lens=any", R, false,
      CLUSTERS(4, 2) },
    { "mla_decode bf16->bf16 B=1 Hq=9 D=320 S=1000 Dv=256 lse=1 page=16", R, false, CLUSTERS(2, 16) },
    { "mla_decode bf16->bf16 B=2 Hq=8 D=192 S=1024 Dv=128 page=16", I, false, CLUSTERS(8, 2) },
    { "mla_decode bf16->bf16 B=3 Hq=8 D=192 S=1000 Dv=128 page=16 lens=any", C, false, CLUSTERS(8, 4) },
};

#define FEW(rows, parts, clusters) "mla_decode_wgmma_few{rows=" #rows ",parts=" #parts ",clusters=" #clusters "}"
/* Few rows on Hopper: each cache, both numbers of rows, sums that replace keys in LDS (32 rows) and that don't. */
static const struct op_case few[] = {
    { "mla_decode bf16->bf16 B=3 Hq=16 D=576 S=700 Dv=512 lse=1 page=64 lens=any", R, false, FEW(16, 1, 1) },
    { "mla_decode bf16->bf16 B=3 Hq=16 D=576 S=700 Dv=512 lse=1 page=64 lens=any", R, false, FEW(16, 8, 1) },
    { "mla_decode bf16->bf16 B=2 Hq=32 D=576 S=900 Dv=512 lse=1 page=16 lens=any", R, false, FEW(32, 2, 1) },
    { "mla_decode bf16->bf16 B=2 Hq=12 D=576 S=900 Sq=2 Dv=512 causal=1 sink=1 lse=1 page=1", R, false, FEW(32, 8, 2) },
    { "mla_decode f16->f16 B=3 Hq=40 D=192 S=300 Dv=128 lse=1 page=64 table=indices lens=any", R, false,
      FEW(16, 2, 2) },
    { "mla_decode bf16->bf16 B=2 Hq=5 D=320 S=1100 Sq=3 Dv=256 causal=1 cap=30 sink=1 stype=bf16 lse=1 page=4", R,
      false, FEW(16, 16, 4) },
    { "mla_decode bf16->bf16 B=2 Hq=6 D=512 S=600 Dv=448 lse=1 page=16 q=apart form=gaps lens=any", R, false,
      FEW(16, 4, 4) },
    { "mla_decode f16->f16 B=1 Hq=3 D=64 S=900 lse=1", R, false, FEW(16, 16, 1) },
    { "mla_decode bf16->bf16 B=3 Hq=16 D=576 S=700 Dv=512 lse=1 page=64 kv=e4m3 format=v32 lens=any", R, false,
      FEW(16, 2, 1) },
    { "mla_decode bf16->bf16 B=2 Hq=20 D=576 S=900 Dv=512 lse=1 page=1 kv=e4m3 format=v32 table=indices", R, false,
      FEW(32, 8, 2) },
    { "mla_decode bf16->bf16 B=2 Hq=12 D=512 S=500 Sq=2 lse=1 causal=1 page=64 kv=e4m3 format=v4 lens=any", R, false,
      FEW(16, 4, 1) },
    { "mla_decode bf16->bf16 B=2 Hq=12 D=512 S=500 Dv=448 lse=1 page=16 kv=e4m3 format=v4", R, false, FEW(32, 1, 1) },
    { "mla_decode bf16->bf16 B=2 Hq=16 D=576 S=500 Dv=512 lse=1 page=64 kv=e4m3 scale=1", R, false, FEW(16, 2, 4) },
    { "mla_decode f16->f16 B=2 Hq=9 D=576 S=300 Dv=512 lse=1 page=16 kv=e4m3fnuz scale=1 lens=any", R, false,
      FEW(16, 1, 1) },
    { "mla_decode f16->f16 B=2 Hq=30 D=192 S=300 Dv=128 lse=1 page=16 kv=e5m2 lens=any", R, false, FEW(32, 2, 1) },
    { "mla_decode bf16->bf16 B=8 Hq=4 D=192 S=140 Dv=128 lse=1 page=16", S, false, FEW(16, 1, 1) },
    { "mla_decode bf16->bf16 B=8 Hq=4 D=192 S=140 Dv=128 lse=1 page=16 kv=e4m3 scale=1", S, false, FEW(16, 1, 1) },
    { "mla_decode bf16->bf16 B=8 Hq=4 D=576 S=140 Dv=512 lse=1 page=16 kv=e4m3 format=v32", S, false, FEW(16, 2, 1) },
    { "mla_decode bf16->bf16 B=2 Hq=8 D=192 S=1024 Dv=128 page=16", I, false, FEW(16, 8, 2) },
    { "mla_decode bf16->bf16 B=3 Hq=8 D=192 S=1000 Dv=128 page=16 lens=any", C, false, FEW(16, 8, 4) },
};

#define CODES(rows, teams, parts, clusters)                                                                            \
    "mla_decode_wgmma_codes{rows=" #rows ",teams=" #teams ",parts=" #parts ",clusters=" #clusters "}"
/* Few rows of a cache of e4m3 on Hopper: pages that are copied whole and in rows, numbers of teams above that of tiles. */
static const struct op_case codes[] = {
    { "mla_decode bf16->bf16 B=3 Hq=16 D=576 S=700 Dv=512 lse=1 page=64 kv=e4m3 scale=1 lens=any", R, false,
      CODES(16, 2, 1, 1) },
    { "mla_decode bf16->bf16 B=2 Hq=16 D=576 S=900 Dv=512 lse=1 page=64 kv=e4m3 scale=1", R, false,
      CODES(16, 3, 2, 1) },
    { "mla_decode bf16->bf16 B=2 Hq=12 D=576 S=900 Sq=2 Dv=512 causal=1 sink=1 lse=1 page=2 kv=e4m3 lens=any", R, false,
      CODES(32, 2, 1, 1) },
    { "mla_decode f16->f16 B=3 Hq=9 D=576 S=1300 Dv=512 lse=1 page=128 kv=e4m3 scale=1 lens=any", R, false,
      CODES(16, 2, 4, 4) },
    { "mla_decode f16->f16 B=2 Hq=5 D=320 S=1100 Sq=3 Dv=256 causal=1 cap=30 sink=1 lse=1 page=4 kv=e4m3", R, false,
      CODES(16, 3, 16, 1) },
    { "mla_decode bf16->bf16 B=2 Hq=6 D=576 S=600 Dv=512 lse=1 page=16 q=apart form=gaps kv=e4m3 lens=any", R, false,
      CODES(16, 2, 2, 1) },
    { "mla_decode bf16->bf16 B=2 Hq=3 D=256 S=900 lse=1 kv=e4m3", R, false, CODES(16, 3, 1, 1) },
    { "mla_decode bf16->bf16 B=8 Hq=4 D=320 S=140 Dv=256 lse=1 page=16 kv=e4m3 scale=1", S, false, CODES(16, 2, 1, 1) },
    { "mla_decode bf16->bf16 B=2 Hq=8 D=320 S=1024 Dv=256 page=16 kv=e4m3", C, false, CODES(16, 2, 8, 2) },
};

OP_CASES(right_heads, heads, "MLA decode")
OP_CASES(right_options, options, "options of MLA decode")
OP_CASES(right_formats, formats, "formats and positions of MLA decode")
OP_CASES(right_segments, segments, "segments of MLA decode")
OP_CASES(right_exact, exact, "MLA decode of integers")
OP_CASES(right_special, special, "MLA decode of NaN, inf, denormals")
OP_CASES(right_wide, wide, "MLA decode of many rows")
OP_CASES(right_clusters, clusters, "MLA decode by several clusters")
OP_CASES(right_few, few, "MLA decode of few rows")
OP_CASES(right_codes, codes, "MLA decode of few rows of codes")

START_TEST(items_by_turns)
{
    op_few_groups(op_device(_i), "mla_decode bf16->bf16 B=5 Hq=3 D=64 S=40 lse=1 page=16",
                  "mla_decode_tile_mma{parts=1,stages=0}", 2);
    op_few_groups(op_device(_i), "mla_decode bf16->bf16 B=5 Hq=3 D=64 S=40 lse=1 page=16",
                  "mla_decode_portable{parts=1}", 2);
}
END_TEST

int main(void)
{
    return op_main_gpus("mla",
                        OP_TESTS(right_heads, right_options, right_formats, right_segments, right_exact, right_special,
                                 right_wide, right_clusters, right_few, right_codes),
                        OP_TESTS(NULL), OP_TESTS(items_by_turns));
}
