/* SPDX-License-Identifier: MIT
 *
 * rfg_op_mha and rfg_op_mha_decode on the cpu and on the devices of $RFG_TEST_DEVICES: head sizes, groups, masks,
 * ragged and paged batches, forms of the cache, 8-bit caches. What they refuse, and what must not change a result, is
 * in test_mha_rules.c. */
#include "tests/op_cases.h"

#define R RFG_DATA_RANDOM
#define C RFG_DATA_CANCEL
#define I RFG_DATA_INTS    /* equal weights: sums are exact, so all variants give the same bits */
#define S RFG_DATA_SPECIAL /* without masks: what 0 times a masked NaN is, is said of no variant */

/* Small: the emulator does ten million products a second. */
static const struct op_case prefill[] = {
    { "mha bf16->bf16 B=2 Hq=4 Hkv=4 D=64 S=50 Sq=50 lse=1" },
    { "mha bf16->bf16 B=1 Hq=6 Hkv=2 D=96 S=70 Sq=33 causal=1" },
    { "mha bf16->bf16 B=1 Hq=8 Hkv=2 D=128 S=130 Sq=20 causal=1 lse=1" },
    { "mha f16->f16 B=1 Hq=4 Hkv=1 D=128 S=65 Sq=65 causal=1 lse=1" },
    { "mha bf16->bf16 B=1 Hq=2 Hkv=2 D=192 S=64 Sq=40 Dv=128 causal=1 lse=1" },
    { "mha f16->f16 B=1 Hq=2 Hkv=1 D=192 S=40 Sq=17" },
    { "mha bf16->bf16 B=1 Hq=2 Hkv=1 D=256 S=63 Sq=30 causal=1 lse=1" },
    { "mha f16->f16 B=2 Hq=6 Hkv=2 D=64 S=1 Sq=1 lse=1" },
    { "mha bf16->bf16 B=1 Hq=2 Hkv=1 D=64 S=300 Sq=3 lse=1" },
    /* kv heads that don't come out even on 8 dies: 4, 2 and 1 by turns; 8 that the caches hold, then 2 and 1. */
    { "mha bf16->bf16 B=7 Hq=2 Hkv=1 D=64 S=70 Sq=70 causal=1 lse=1" },
    { "mha bf16->bf16 B=11 Hq=1 Hkv=1 D=64 S=16384 Sq=16 causal=1 window=21", R, false,
      "mha_prefill_mma{waves=4,frags_q=1,tile_kv=64,stages=1,q_lds=0,pack=0,parts=1}" },
    { "mha bf16->bf16 B=1 Hq=2 Hkv=2 D=64 S=80 Sq=80 lse=1", C }, /* nearly one key takes all */
    { "mha f16->f16 B=1 Hq=4 Hkv=2 D=128 S=66 Sq=18 causal=1 lse=1", C },
    { "mha bf16->bf16 B=0 Hq=2 Hkv=1 D=64 S=8 Sq=8" },
    { "mha bf16->bf16 B=1 Hq=2 Hkv=1 D=64 S=8 Sq=0 lse=1" },
    { "mha bf16->bf16 B=2 Hq=2 Hkv=1 D=64 S=0 Sq=5 lse=1" },
};

static const struct op_case masks[] = {
    { "mha bf16->bf16 B=1 Hq=2 Hkv=1 D=64 S=20 Sq=60 causal=1 lse=1" }, /* 40 rows see nothing */
    { "mha bf16->bf16 B=1 Hq=2 Hkv=1 D=64 S=150 Sq=90 causal=1 window=34 lse=1" },
    { "mha f16->f16 B=1 Hq=2 Hkv=1 D=64 S=90 Sq=90 window_left=5 window_right=40 lse=1" },
    { "mha bf16->bf16 B=1 Hq=2 Hkv=1 D=64 S=90 Sq=40 window_right=7 lse=1" },
    { "mha bf16->bf16 B=1 Hq=2 Hkv=1 D=64 S=90 Sq=30 window_left=33 window_right=7 lse=1", R, false,
      "mha_portable{rows=4}" },
    { "mha bf16->bf16 B=1 Hq=2 Hkv=1 D=64 S=70 Sq=70 window_left=0 window_right=0 lse=1" },
    { "mha bf16->bf16 B=1 Hq=2 Hkv=2 D=128 S=70 Sq=40 causal=1 cap=1 lse=1" },
    { "mha f16->f16 B=1 Hq=2 Hkv=2 D=64 S=70 Sq=40 cap=30 lse=1", C },
    { "mha bf16->bf16 B=2 Hq=4 Hkv=2 D=64 S=40 Sq=40 causal=1 window=13 sink=1 lse=1" },
    { "mha bf16->bf16 B=1 Hq=4 Hkv=2 D=64 S=10 Sq=30 causal=1 sink=1 lse=1" },
    { "mha bf16->bf16 B=1 Hq=6 Hkv=2 D=64 S=10 Sq=30 causal=1 sink=1 stype=bf16 lse=1" },
    { "mha f16->f16 B=2 Hq=4 Hkv=1 D=128 S=40 Sq=40 causal=1 window=5 sink=1 stype=f16" },
    { "mha bf16->bf16 B=1 Hq=4 Hkv=2 D=64 S=70 Sq=50 causal=1 alibi=1 lse=1" },
    { "mha f16->f16 B=1 Hq=4 Hkv=1 D=64 S=33 Sq=50 alibi=1 sink=1 cap=2 window_left=20 lse=1" },
};

static const struct op_case ragged[] = {
    { "mha bf16->bf16 B=5 Hq=2 Hkv=1 D=64 S=70 Sq=40 causal=1 lse=1 varlen=1" },
    { "mha bf16->bf16 B=4 Hq=4 Hkv=2 D=128 S=33 Sq=33 varlen=1" },
    { "mha f16->f16 B=5 Hq=2 Hkv=2 D=64 S=60 Sq=30 causal=1 lse=1 varlen=1 lens=any" },
    { "mha bf16->bf16 B=4 Hq=2 Hkv=1 D=64 S=90 Sq=20 causal=1 window=41 lse=1 varlen=1 lens=log" },
    { "mha bf16->bf16 B=2 Hq=4 Hkv=2 D=128 S=100 Sq=24 causal=1 lse=1 page=16" },
    { "mha f16->f16 B=3 Hq=2 Hkv=1 D=64 S=75 Sq=16 causal=1 lse=1 page=32 lens=any" },
    { "mha bf16->bf16 B=3 Hq=2 Hkv=1 D=96 S=75 Sq=16 causal=1 page=1 lens=log" },
    { "mha bf16->bf16 B=3 Hq=4 Hkv=2 D=64 S=130 Sq=20 causal=1 lse=1 varlen=1 page=64 lens=log" },
    { "mha bf16->bf16 B=2 Hq=2 Hkv=1 D=128 S=140 Sq=9 causal=1 sink=1 page=128 kv=e4m3 scales=tensor" },
    { "mha bf16->bf16 B=1 Hq=4 Hkv=2 D=128 S=60 Sq=30 causal=1 lse=1 kv=e5m2 scales=head" },
    { "mha bf16->bf16 B=2 Hq=4 Hkv=2 D=64 S=50 Sq=40 causal=1 lse=1 form=hnd" },
    { "mha bf16->bf16 B=2 Hq=4 Hkv=2 D=64 S=50 Sq=40 causal=1 lse=1 form=gaps" },
    { "mha f16->f16 B=3 Hq=4 Hkv=2 D=64 S=50 Sq=20 varlen=1 lse=1 form=hnd" },
    { "mha f16->f16 B=3 Hq=4 Hkv=2 D=64 S=50 Sq=20 varlen=1 form=gaps" },
    { "mha bf16->bf16 B=2 Hq=4 Hkv=2 D=64 S=50 Sq=20 causal=1 page=16 form=hnd" },
    { "mha bf16->bf16 B=2 Hq=4 Hkv=2 D=64 S=33 Sq=40 causal=1 lse=1", R, true },
};

static const struct op_case decode[] = {
    { "mha_decode bf16->bf16 B=2 Hq=8 Hkv=2 D=128 S=200 page=16" },
    { "mha_decode bf16->bf16 B=3 Hq=8 Hkv=2 D=64 S=150 lse=1 page=32 lens=any" },
    { "mha_decode f16->f16 B=3 Hq=4 Hkv=4 D=96 S=100 lse=1 page=1 lens=log" },
    { "mha_decode bf16->bf16 B=2 Hq=16 Hkv=1 D=128 S=300 lse=1 page=64 lens=any" },
    { "mha_decode bf16->bf16 B=2 Hq=4 Hkv=2 D=192 S=150 Dv=128 page=128 lens=log" },
    { "mha_decode f16->f16 B=2 Hq=4 Hkv=2 D=192 S=70 page=16" },
    { "mha_decode bf16->bf16 B=1 Hq=10 Hkv=2 D=256 S=130 lse=1 page=16" },
    { "mha_decode bf16->bf16 B=3 Hq=4 Hkv=2 D=64 S=100 lse=1" }, /* no table */
    { "mha_decode f16->f16 B=3 Hq=4 Hkv=2 D=128 S=75 lse=1 lens=any" },
    { "mha_decode bf16->bf16 B=9 Hq=4 Hkv=2 D=64 S=200 lse=1 page=16 lens=log" },
    { "mha_decode bf16->bf16 B=1 Hq=2 Hkv=1 D=64 S=3000 lse=1 page=16" },
    { "mha_decode bf16->bf16 B=1 Hq=1 Hkv=1 D=64 S=1 page=16" },
    { "mha_decode bf16->bf16 B=2 Hq=2 Hkv=1 D=64 S=0 lse=1 page=16" },
    { "mha_decode bf16->bf16 B=0 Hq=2 Hkv=1 D=64 S=16 page=16" },
    { "mha_decode bf16->bf16 B=2 Hq=64 Hkv=1 D=64 S=70 page=16 lens=any" },
    { "mha_decode f16->f16 B=2 Hq=4 Hkv=2 D=64 S=150 lse=1 page=16", C },
};

static const struct op_case speculative[] = {
    { "mha_decode bf16->bf16 B=2 Hq=8 Hkv=2 D=128 S=90 Sq=2 causal=1 lse=1 page=16 lens=any" },
    { "mha_decode f16->f16 B=2 Hq=8 Hkv=2 D=64 S=90 Sq=3 page=16" },
    { "mha_decode bf16->bf16 B=3 Hq=4 Hkv=1 D=64 S=70 Sq=4 causal=1 lse=1 page=32 lens=any" },
    { "mha_decode bf16->bf16 B=2 Hq=4 Hkv=2 D=64 S=70 Sq=5 causal=1 window=21 lse=1 page=16 lens=log" },
    { "mha_decode bf16->bf16 B=1 Hq=4 Hkv=4 D=96 S=40 Sq=6 window_left=9 window_right=1 lse=1" },
    { "mha_decode f16->f16 B=1 Hq=4 Hkv=2 D=64 S=70 Sq=7 causal=1 alibi=1 page=1" },
    { "mha_decode bf16->bf16 B=2 Hq=8 Hkv=2 D=128 S=60 Sq=8 causal=1 lse=1 page=16" },
    { "mha_decode bf16->bf16 B=2 Hq=4 Hkv=2 D=64 S=5 Sq=8 causal=1 lse=1 page=16" }, /* rows see nothing */
    { "mha_decode bf16->bf16 B=2 Hq=4 Hkv=2 D=64 S=5 Sq=8 causal=1 sink=1 lse=1" },
    { "mha_decode bf16->bf16 B=2 Hq=8 Hkv=2 D=64 S=150 window=41 sink=1 lse=1 page=16 lens=log" },
    { "mha_decode bf16->bf16 B=3 Hq=6 Hkv=2 D=64 S=150 sink=1 stype=bf16 lse=1 page=16 lens=any" },
    { "mha_decode f16->f16 B=2 Hq=8 Hkv=1 D=128 S=70 Sq=3 causal=1 window=9 sink=1 stype=f16 page=32" },
    /* Sinks above the one score, and below it. */
    { "mha_decode bf16->bf16 B=2 Hq=32 Hkv=2 D=64 S=1 sink=1 lse=1 page=16" },
    { "mha_decode bf16->bf16 B=2 Hq=8 Hkv=2 D=128 S=90 cap=2 alibi=1 lse=1 page=16" },
};

static const struct op_case caches[] = {
    { "mha_decode bf16->bf16 B=2 Hq=8 Hkv=2 D=128 S=100 lse=1 page=16 kv=e4m3 scales=tensor" },
    { "mha_decode bf16->bf16 B=2 Hq=4 Hkv=2 D=64 S=100 lse=1 page=32 kv=e4m3fnuz scales=head lens=any" },
    { "mha_decode f16->f16 B=2 Hq=4 Hkv=2 D=128 S=60 lse=1 page=16 kv=e5m2" },
    { "mha_decode f16->f16 B=2 Hq=4 Hkv=2 D=96 S=60 Sq=3 causal=1 kv=e4m3 scales=head" },
    { "mha_decode bf16->bf16 B=2 Hq=8 Hkv=2 D=128 S=100 lse=1 page=16 form=hnd lens=any" },
    { "mha_decode bf16->bf16 B=2 Hq=8 Hkv=2 D=64 S=100 Sq=2 causal=1 lse=1 page=1 form=hnd" },
    { "mha_decode f16->f16 B=2 Hq=4 Hkv=2 D=64 S=50 form=hnd lens=log" },
    { "mha_decode bf16->bf16 B=2 Hq=8 Hkv=2 D=128 S=100 Sq=2 lse=1 page=16 form=gaps lens=any" },
    { "mha_decode bf16->bf16 B=2 Hq=4 Hkv=2 D=64 S=50 form=gaps" },
    { "mha_decode bf16->bf16 B=2 Hq=8 Hkv=2 D=128 S=100 lse=1 page=16 form=vllm lens=any" },
    { "mha_decode bf16->bf16 B=3 Hq=4 Hkv=2 D=64 S=30 page=4 form=vllm lens=log" },
    { "mha_decode f16->f16 B=2 Hq=4 Hkv=4 D=64 S=70 Sq=3 causal=1 page=32 form=vllm" },
    { "mha_decode bf16->bf16 B=2 Hq=4 Hkv=2 D=96 S=70 lse=1 page=16 kv=e4m3 scales=head form=vllm lens=log" },
    { "mha_decode bf16->bf16 B=2 Hq=4 Hkv=2 D=192 S=70 Dv=128 lse=1 page=128 kv=e4m3fnuz form=vllm" },
    { "mha_decode bf16->bf16 B=2 Hq=4 Hkv=2 D=128 S=70 lse=1 page=16", R, true },
    { "mha_decode f16->f16 B=2 Hq=4 Hkv=2 D=64 S=70 page=16 kv=e4m3 scales=tensor", R, true },
};

/* A scale of each token and head. */
static const struct op_case token_scales[] = {
    { "mha_decode bf16->bf16 B=2 Hq=8 Hkv=2 D=128 S=100 lse=1 page=16 kv=i8 scales=token lens=any" },
    { "mha_decode bf16->bf16 B=2 Hq=8 Hkv=2 D=128 S=100 lse=1 page=16 kv=i4 scales=token lens=any" },
    { "mha_decode f16->f16 B=2 Hq=4 Hkv=2 D=128 S=100 lse=1 page=32 kv=i4 scales=token" },
    { "mha_decode f16->f16 B=3 Hq=4 Hkv=2 D=64 S=90 Sq=3 causal=1 lse=1 page=16 kv=i8 scales=token form=hnd lens=any" },
    { "mha_decode bf16->bf16 B=2 Hq=8 Hkv=1 D=256 S=70 lse=1 page=64 kv=i4 scales=token form=hnd" },
    { "mha_decode bf16->bf16 B=2 Hq=4 Hkv=2 D=96 S=90 lse=1 page=48 kv=i4 scales=token form=gaps lens=any" },
    { "mha_decode bf16->bf16 B=2 Hq=4 Hkv=2 D=80 S=90 sink=1 lse=1 page=16 kv=i8 scales=token" },
    { "mha_decode bf16->bf16 B=2 Hq=4 Hkv=2 D=72 S=70 window=20 lse=1 page=7 kv=i4 scales=token" },
    { "mha_decode f16->f16 B=2 Hq=4 Hkv=2 D=128 S=80 lse=1 page=16 kv=e4m3 scales=token lens=any" },
    { "mha_decode bf16->bf16 B=2 Hq=4 Hkv=2 D=64 S=80 cap=3 alibi=1 lse=1 kv=i8 scales=token" },
    { "mha_decode bf16->bf16 B=2 Hq=16 Hkv=1 D=192 S=70 Dv=128 lse=1 page=16 kv=i4 scales=token" },
    { "mha_decode f32->f32 B=2 Hq=4 Hkv=2 D=64 S=70 lse=1 page=16 kv=i4 scales=token" },
    { "mha_decode bf16->bf16 B=2 Hq=4 Hkv=2 D=64 S=70 lse=1 page=16 kv=i8 scales=token", R, true },
    { "mha_decode bf16->bf16 B=2 Hq=8 Hkv=2 D=128 S=256 page=16 kv=i8 scales=token", I },
    { "mha_decode f16->f16 B=2 Hq=8 Hkv=2 D=128 S=256 page=32 kv=i4 scales=token", I },
    { "mha_decode bf16->bf16 B=5 Hq=4 Hkv=2 D=64 S=100 lse=1 page=16 kv=i8 scales=token", S },
    { "mha_decode bf16->bf16 B=5 Hq=4 Hkv=2 D=64 S=100 lse=1 page=16 kv=i4 scales=token", S },
    { "mha_decode bf16->bf16 B=9 Hq=4 Hkv=2 D=64 S=200 lse=1 page=16 kv=i8 scales=token lens=log", R, false,
      "mha_decode_stream_mma{tiles=1,waves=2,unroll=1,cluster=0,parts=1,groups=2}" },
    { "mha_decode f16->f16 B=2 Hq=16 Hkv=2 D=64 S=230 Sq=4 lse=1 page=16 kv=i4 scales=token", R, false,
      "mha_decode_stream_mma{tiles=1,waves=2,unroll=1,cluster=1,parts=5,groups=1}" },
    { "mha_decode bf16->bf16 B=2 Hq=8 Hkv=2 D=128 S=90 lse=1 page=16 kv=i8 scales=token align=4 lens=any" },
    { "mha_decode f16->f16 B=2 Hq=4 Hkv=2 D=72 S=90 lse=1 page=16 kv=i4 scales=token align=4" },
    { "mha_decode bf16->bf16 B=2 Hq=4 Hkv=2 D=120 Dv=40 S=70 Sq=2 lse=1 page=16 kv=e4m3 scales=token align=8" },
    { "mha bf16->bf16 B=2 Hq=4 Hkv=2 D=64 S=70 Sq=20 causal=1 lse=1 page=16 kv=i8 scales=token lens=any" },
    { "mha f16->f16 B=2 Hq=4 Hkv=2 D=80 S=50 Sq=20 causal=1 lse=1 page=16 kv=i4 scales=token" },
    { "mha bf16->bf16 B=3 Hq=4 Hkv=2 D=64 S=50 Sq=20 lse=1 varlen=1 kv=i4 scales=token" },
    { "mha bf16->bf16 B=2 Hq=4 Hkv=2 D=64 S=50 Sq=20 window_right=3 kv=i8 scales=token form=hnd" },
};

/* Contexts as long as the emulator's pace allows. */
static const struct op_case far[] = {
    { "mha_decode bf16->bf16 B=1 Hq=1 Hkv=1 D=64 S=8192 page=16", R, false,
      "mha_decode_stream_mma{tiles=1,waves=4,unroll=1,cluster=1,parts=16,groups=1}" },
    { "mha_decode f16->f16 B=1 Hq=1 Hkv=1 D=64 S=8192 page=64", R, false,
      "mha_decode_stream_mma{tiles=1,waves=2,unroll=1,cluster=0,parts=1,groups=2}" },
    { "mha f16->f16 B=1 Hq=1 Hkv=1 D=64 S=4096 Sq=4 causal=1", R, false,
      "mha_prefill_mma{waves=4,frags_q=1,tile_kv=64,stages=1,q_lds=0,pack=0,parts=8}" },
};

/* Heads that kernels pad, each size and mixed: q and k or v alone. */
static const struct op_case heads[] = {
    { "mha bf16->bf16 B=2 Hq=4 Hkv=2 D=32 S=70 Sq=40 causal=1 lse=1" },
    { "mha bf16->bf16 B=1 Hq=4 Hkv=2 D=72 S=90 Sq=33 lse=1" },
    { "mha f16->f16 B=2 Hq=2 Hkv=1 D=80 S=70 Sq=20 causal=1 lse=1 page=16" },
    { "mha bf16->bf16 B=3 Hq=2 Hkv=1 D=112 S=60 Sq=40 causal=1 lse=1 varlen=1" },
    { "mha bf16->bf16 B=1 Hq=2 Hkv=1 D=120 S=66 Sq=35 causal=1 window=20 sink=1 lse=1" },
    { "mha f16->f16 B=1 Hq=2 Hkv=1 D=160 S=70 Sq=40 causal=1 lse=1" },
    { "mha bf16->bf16 B=1 Hq=2 Hkv=1 D=320 S=70 Sq=20 causal=1 lse=1" },
    { "mha bf16->bf16 B=1 Hq=2 Hkv=1 D=512 S=70 Sq=20 causal=1 lse=1" },
    { "mha bf16->bf16 B=1 Hq=2 Hkv=1 D=8 S=70 Sq=20 Dv=24 cap=3 lse=1" },
    { "mha bf16->bf16 B=1 Hq=4 Hkv=2 D=128 S=70 Sq=33 Dv=72 causal=1 lse=1" },
    { "mha f16->f16 B=1 Hq=4 Hkv=2 D=40 S=70 Sq=33 Dv=64 alibi=1 lse=1" },
    { "mha bf16->bf16 B=1 Hq=4 Hkv=2 D=80 S=50 Sq=20 causal=1 form=hnd lse=1" },
    { "mha bf16->bf16 B=2 Hq=4 Hkv=2 D=112 S=50 Sq=20 form=gaps" },
    { "mha bf16->bf16 B=1 Hq=4 Hkv=2 D=80 S=60 Sq=12 lse=1 kv=e4m3 scales=head" },
    { "mha f16->f16 B=1 Hq=2 Hkv=2 D=72 S=40 Sq=9", R, true },
    { "mha bf16->bf16 B=5 Hq=2 Hkv=1 D=80 S=60 Sq=24 lse=1 varlen=1 lens=log", S },
    { "mha bf16->bf16 B=5 Hq=3 Hkv=3 D=72 S=60 Sq=24 lse=1 varlen=1 lens=log", S },
};
static const struct op_case decode_heads[] = {
    { "mha_decode bf16->bf16 B=2 Hq=8 Hkv=2 D=32 S=200 lse=1 page=16 lens=any" },
    { "mha_decode bf16->bf16 B=2 Hq=8 Hkv=2 D=72 S=100 lse=1 page=16" },
    { "mha_decode f16->f16 B=3 Hq=8 Hkv=2 D=80 S=150 lse=1 page=32 lens=any" },
    { "mha_decode bf16->bf16 B=2 Hq=8 Hkv=1 D=112 S=100 Sq=3 causal=1 lse=1 page=16" },
    { "mha_decode f16->f16 B=2 Hq=4 Hkv=2 D=120 S=90 lse=1 page=1 lens=log" },
    { "mha_decode bf16->bf16 B=2 Hq=4 Hkv=2 D=160 S=150 sink=1 lse=1 page=16" },
    { "mha_decode bf16->bf16 B=1 Hq=4 Hkv=1 D=320 S=90 lse=1 page=16" },
    { "mha_decode bf16->bf16 B=2 Hq=8 Hkv=1 D=512 S=90 lse=1 page=16 lens=any" },
    { "mha_decode f16->f16 B=2 Hq=24 Hkv=1 D=512 S=70 lse=1 page=16" },
    { "mha_decode bf16->bf16 B=2 Hq=4 Hkv=2 D=24 S=70 Dv=8 lse=1" },
    { "mha_decode bf16->bf16 B=2 Hq=4 Hkv=2 D=128 S=70 Dv=80 lse=1 page=16 form=hnd" },
    { "mha_decode bf16->bf16 B=2 Hq=4 Hkv=2 D=72 S=70 Dv=128 lse=1 page=16 form=gaps" },
    { "mha_decode bf16->bf16 B=2 Hq=8 Hkv=2 D=80 S=100 lse=1 page=16 kv=e4m3 scales=tensor" },
    { "mha_decode f16->f16 B=2 Hq=8 Hkv=2 D=112 S=100 lse=1 page=16 kv=e5m2 lens=any" },
    { "mha_decode bf16->bf16 B=2 Hq=8 Hkv=1 D=72 S=100 lse=1 page=16 kv=e4m3fnuz scales=tensor" },
    { "mha_decode bf16->bf16 B=2 Hq=8 Hkv=2 D=80 S=100 lse=1 page=16 form=vllm lens=any" },
    { "mha_decode bf16->bf16 B=2 Hq=8 Hkv=2 D=112 S=50 lse=1 page=16 kv=e4m3 scales=head form=vllm" },
    { "mha_decode bf16->bf16 B=2 Hq=4 Hkv=2 D=80 S=70 lse=1 page=16", R, true },
    { "mha_decode bf16->bf16 B=6 Hq=4 Hkv=2 D=112 S=100 Dv=128 lse=1 page=16", S },
    /* Parts of the keys, shared out and not. */
    { "mha_decode f16->f16 B=2 Hq=16 Hkv=2 D=80 S=230 Sq=4 lse=1 page=16", R, false,
      "mha_decode_stream_mma{tiles=1,waves=2,unroll=1,cluster=1,parts=5,groups=1}" },
    { "mha_decode f16->f16 B=1 Hq=36 Hkv=1 D=112 S=520 Dv=72 Sq=2 lse=1 page=16", R, false,
      "mha_decode_stream_mma{tiles=1,waves=2,unroll=1,cluster=0,parts=1,groups=4}" },
    { "mha bf16->bf16 B=1 Hq=2 Hkv=1 D=40 S=200 Sq=20 causal=1 lse=1 page=16", R, false,
      "mha_prefill_mma{waves=4,frags_q=1,tile_kv=64,stages=1,q_lds=0,pack=1,parts=3}" },
};

/* Pages that are no power of two: of whole steps, and of others. */
static const struct op_case pages[] = {
    { "mha bf16->bf16 B=2 Hq=2 Hkv=1 D=64 S=110 Sq=30 causal=1 lse=1 page=48" },
    { "mha f16->f16 B=3 Hq=2 Hkv=1 D=128 S=75 Sq=16 causal=1 lse=1 page=7 lens=any" },
    { "mha_decode bf16->bf16 B=3 Hq=8 Hkv=2 D=64 S=300 lse=1 page=48 lens=any" },
    { "mha_decode bf16->bf16 B=2 Hq=8 Hkv=2 D=128 S=1000 page=784" },
    { "mha_decode f16->f16 B=2 Hq=4 Hkv=2 D=64 S=100 Sq=3 causal=1 lse=1 page=24 lens=log" },
    { "mha_decode bf16->bf16 B=2 Hq=4 Hkv=2 D=64 S=60 lse=1 page=48 kv=e4m3 scales=head form=hnd" },
    { "mha_decode bf16->bf16 B=2 Hq=4 Hkv=2 D=64 S=60 lse=1 page=5 form=vllm" },
};

/* q, k and v of f32. */
static const struct op_case singles[] = {
    { "mha f32->f32 B=2 Hq=4 Hkv=2 D=64 S=70 Sq=20 causal=1 lse=1" },
    { "mha f32->f32 B=2 Hq=4 Hkv=1 D=80 S=50 Sq=9 Dv=24 window_left=9 lse=1 page=16" },
    { "mha f32->f32 B=1 Hq=2 Hkv=2 D=128 S=30 Sq=9 sink=1 kv=e4m3 scales=head" },
    { "mha_decode f32->f32 B=3 Hq=4 Hkv=2 D=128 S=150 lse=1 page=48 lens=any" },
    { "mha_decode f32->f32 B=2 Hq=4 Hkv=2 D=72 S=90 cap=2 alibi=1 lse=1 form=hnd" },
    { "mha_decode f32->f32 B=2 Hq=4 Hkv=2 D=64 S=50 lse=1 page=16 form=vllm" },
    { "mha_decode f32->f32 B=2 Hq=4 Hkv=2 D=64 S=50 lse=1 page=16", R, true },
    { "mha f32->f32 B=2 Hq=4 Hkv=2 D=64 S=64 Sq=20", I },
    { "mha_decode f32->f32 B=2 Hq=4 Hkv=2 D=64 S=80 lse=1", C },
    { "mha_decode f32->f32 B=6 Hq=4 Hkv=2 D=64 S=100 lse=1 page=16", S },
};

static const struct op_case exact[] = {
    { "mha bf16->bf16 B=2 Hq=4 Hkv=2 D=64 S=64 Sq=20", I },
    { "mha f16->f16 B=1 Hq=2 Hkv=1 D=128 S=256 Sq=33", I },
    { "mha bf16->bf16 B=1 Hq=2 Hkv=2 D=96 S=128 Sq=7 page=16", I },
    { "mha bf16->bf16 B=2 Hq=4 Hkv=2 D=64 S=128 Sq=5 kv=e4m3", I },
    { "mha_decode bf16->bf16 B=2 Hq=8 Hkv=2 D=128 S=256 page=16", I },
    { "mha_decode f16->f16 B=3 Hq=4 Hkv=1 D=64 S=512 Sq=2 page=16", I },
    { "mha_decode bf16->bf16 B=1 Hq=2 Hkv=1 D=64 S=2048 page=1", I },
    { "mha_decode bf16->bf16 B=2 Hq=8 Hkv=2 D=128 S=256 page=32 kv=e5m2", I },
};

static const struct op_case special[] = {
    { "mha bf16->bf16 B=4 Hq=4 Hkv=2 D=64 S=50 Sq=20 lse=1", S },
    { "mha f16->f16 B=4 Hq=4 Hkv=4 D=128 S=70 Sq=9 lse=1", S },
    { "mha bf16->bf16 B=5 Hq=2 Hkv=1 D=64 S=60 Sq=24 lse=1 varlen=1 lens=log", S },
    { "mha_decode bf16->bf16 B=6 Hq=4 Hkv=2 D=64 S=100 lse=1 page=16", S },
    { "mha_decode f16->f16 B=5 Hq=4 Hkv=2 D=128 S=80 Sq=3 lse=1 page=16 lens=log", S },
    { "mha_decode bf16->bf16 B=5 Hq=32 Hkv=1 D=64 S=70 lse=1 page=1", S },
};

/* Keys in segments, whose order of sums is the same in any batch: one workgroup's, and several's. */
static const struct op_case segments[] = {
    { "mha_decode bf16->bf16 B=1 Hq=4 Hkv=1 D=64 S=300 lse=1 page=16 invariant=1", R, false,
      "mha_decode_stream_mma{tiles=1,waves=2,unroll=1,cluster=1,parts=1,groups=1}" },
    { "mha_decode f16->f16 B=1 Hq=4 Hkv=1 D=64 S=300 Sq=2 lse=1 page=16 invariant=1", R, false,
      "mha_decode_stream_mma{tiles=1,waves=2,unroll=1,cluster=1,parts=2,groups=1}" },
};

/* At least three parts of the keys, combined in an order that must not be that of arrival; in enough rows for another
 * order's rounding to show. */
static const struct op_case parts[] = {
    /* more sequences than a wave has lanes */
    { "mha_decode f16->f16 B=70 Hq=1 Hkv=1 D=64 S=20 page=16", R, false,
      "mha_decode_stream_mma{tiles=1,waves=2,unroll=1,cluster=0,parts=1,groups=2}" },
    { "mha_decode f16->f16 B=2 Hq=16 Hkv=2 D=64 S=230 Sq=4 lse=1 page=16", R, false,
      "mha_decode_stream_mma{tiles=1,waves=2,unroll=1,cluster=1,parts=5,groups=1}" },
    { "mha_decode f16->f16 B=1 Hq=36 Hkv=1 D=64 S=520 Sq=2 lse=1 page=16", R, false,
      "mha_decode_stream_mma{tiles=1,waves=2,unroll=1,cluster=0,parts=1,groups=4}" },
    { "mha_decode bf16->bf16 B=1 Hq=8 Hkv=1 D=64 S=900 lse=1 page=16", R, false,
      "mha_decode_stream_mma{tiles=1,waves=4,unroll=1,cluster=1,parts=12,groups=1}" },
    { "mha f16->f16 B=1 Hq=2 Hkv=1 D=64 S=400 Sq=40 lse=1", R, false,
      "mha_prefill_mma{waves=4,frags_q=1,tile_kv=64,stages=1,q_lds=0,pack=0,parts=4}" },
    { "mha bf16->bf16 B=2 Hq=4 Hkv=1 D=64 S=200 Sq=20 causal=1 lse=1 page=16", R, false,
      "mha_prefill_mma{waves=4,frags_q=1,tile_kv=64,stages=1,q_lds=0,pack=1,parts=3}" },
    { "mha_decode bf16->bf16 B=1 Hq=4 Hkv=1 D=64 S=100 page=16 kv=i8 scales=token", R, false,
      "mha_decode_stream_mma{tiles=1,waves=2,unroll=1,cluster=0,parts=1,groups=2}" },
};

OP_CASES(right_far, far, "long contexts")
/* The same by clusters of workgroups, which NVIDIA has. */
static const struct op_case clusters[] = {
    { "mha_decode f16->f16 B=2 Hq=16 Hkv=2 D=64 S=230 Sq=4 lse=1 page=16", R, false,
      "mha_decode_stream_mma{tiles=1,waves=2,unroll=2,cluster=4,parts=1,groups=3}" },
    { "mha_decode f16->f16 B=2 Hq=16 Hkv=2 D=64 S=230 Sq=4 lse=1 page=16", R, false,
      "mha_decode_stream_mma{tiles=1,waves=2,unroll=1,cluster=2,parts=3,groups=1}" },
    { "mha bf16->bf16 B=1 Hq=2 Hkv=1 D=128 S=300 Sq=30 causal=1 lse=1", R, false,
      "mha_prefill_wgmma{groups=1,tile_kv=64,stages=2,pack=0,parts=4}" },
    { "mha_decode bf16->bf16 B=1 Hq=64 Hkv=1 D=64 S=400 lse=1 page=64", R, false,
      "mha_decode_wgmma{groups=1,tile_kv=64,stages=2,pack=1,parts=4}" },
    { "mha bf16->bf16 B=1 Hq=2 Hkv=1 D=72 S=300 Sq=30 Dv=80 causal=1 lse=1", R, false,
      "mha_prefill_wgmma{groups=1,tile_kv=64,stages=2,pack=0,parts=4}" },
    { "mha bf16->bf16 B=1 Hq=4 Hkv=2 D=120 S=300 Sq=30 Dv=136 causal=1 lse=1", R, false,
      "mha_prefill_wgmma{groups=1,tile_kv=64,stages=2,pack=0,parts=4}" },
    { "mha_decode bf16->bf16 B=2 Hq=8 Hkv=2 D=80 S=400 lse=1 page=16", R, false,
      "mha_decode_stream_mma{tiles=1,waves=4,unroll=1,cluster=4,parts=1,groups=1}" },
    { "mha_decode f16->f16 B=2 Hq=8 Hkv=2 D=112 S=900 lse=1 page=16 lens=any", R, false,
      "mha_decode_stream_mma{tiles=1,waves=2,unroll=2,cluster=16,parts=1,groups=1}" },
    { "mha_decode f16->f16 B=2 Hq=8 Hkv=2 D=72 S=300 Dv=176 lse=1 page=16 lens=any", R, false,
      "mha_decode_stream_mma{tiles=1,waves=4,unroll=1,cluster=0,parts=1,groups=2}" },
    { "mha_decode bf16->bf16 B=2 Hq=16 Hkv=2 D=128 S=400 lse=1 page=16 kv=i4 scales=token lens=any", R, false,
      "mha_decode_stream_mma{tiles=1,waves=4,unroll=1,cluster=2,parts=3,groups=1}" },
    { "mha_decode f16->f16 B=2 Hq=16 Hkv=2 D=64 S=400 Sq=2 lse=1 page=16 kv=i8 scales=token", R, false,
      "mha_decode_stream_mma{tiles=2,waves=4,unroll=1,cluster=4,parts=1,groups=1}" },
    /* Steps on their way to LDS. */
    { "mha_decode bf16->bf16 B=2 Hq=8 Hkv=2 D=72 S=900 Dv=64 lse=1 page=16 lens=any", R, false,
      "mha_decode_stream_mma{tiles=1,waves=4,unroll=3,cluster=4,parts=1,groups=1}" },
    { "mha_decode f16->f16 B=2 Hq=8 Hkv=2 D=112 S=900 Dv=96 lse=1 page=16 lens=log", R, false,
      "mha_decode_stream_mma{tiles=1,waves=2,unroll=6,cluster=0,parts=1,groups=2}" },
    { "mha_decode bf16->bf16 B=2 Hq=8 Hkv=2 D=128 S=900 lse=1 page=1 lens=any", R, false,
      "mha_decode_stream_mma{tiles=1,waves=4,unroll=3,cluster=1,parts=3,groups=2}" },
    { "mha_decode bf16->bf16 B=2 Hq=8 Hkv=2 D=128 S=900 lse=1 page=16 kv=i4 scales=token lens=any", R, false,
      "mha_decode_stream_mma{tiles=1,waves=4,unroll=4,cluster=2,parts=1,groups=2}" },
    { "mha_decode f16->f16 B=2 Hq=8 Hkv=2 D=64 S=900 lse=1 kv=i8 scales=token lens=any", R, false,
      "mha_decode_stream_mma{tiles=1,waves=8,unroll=4,cluster=0,parts=1,groups=1}" },
    { "mha_decode bf16->bf16 B=2 Hq=8 Hkv=2 D=128 S=900 lse=1 page=16 kv=e4m3 scales=head", R, false,
      "mha_decode_stream_mma{tiles=1,waves=8,unroll=3,cluster=1,parts=2,groups=1}" },
    { "mha_decode bf16->bf16 B=6 Hq=4 Hkv=2 D=112 S=100 Dv=128 lse=1 page=16", S, false,
      "mha_decode_stream_mma{tiles=1,waves=2,unroll=3,cluster=1,parts=2,groups=1}" },
    /* Two waves to a step. */
    { "mha_decode f16->f16 B=2 Hq=16 Hkv=2 D=512 S=230 Sq=4 causal=1 lse=1 page=16", R, false,
      "mha_decode_stream_mma{tiles=1,waves=8,unroll=1,cluster=4,parts=1,groups=1}" },
    { "mha_decode bf16->bf16 B=2 Hq=8 Hkv=1 D=504 S=900 lse=1 page=16 lens=any", R, false,
      "mha_decode_stream_mma{tiles=1,waves=8,unroll=1,cluster=2,parts=3,groups=1}" },
    { "mha_decode bf16->bf16 B=9 Hq=8 Hkv=1 D=512 S=500 Dv=320 lse=1 page=16 lens=log", R, false,
      "mha_decode_stream_mma{tiles=1,waves=4,unroll=1,cluster=0,parts=1,groups=2}" },
    { "mha_decode bf16->bf16 B=2 Hq=16 Hkv=1 D=320 S=300 lse=1 page=16 sink=1", R, false,
      "mha_decode_stream_mma{tiles=1,waves=8,unroll=1,cluster=1,parts=2,groups=1}" },
    { "mha bf16->bf16 B=1 Hq=2 Hkv=1 D=512 S=300 Sq=30 causal=1 lse=1", R, false,
      "mha_prefill_mma{waves=4,frags_q=1,tile_kv=32,stages=2,q_lds=1,pack=0,parts=3}" },
};

OP_CASES(right_exact, exact, "attention with equal weights")
OP_CASES(right_special, special, "attention with NaN and infinity")
OP_CASES(right_prefill, prefill, "attention")
OP_CASES(right_masks, masks, "masks, windows, sinks, soft cap, alibi")
OP_CASES(right_ragged, ragged, "ragged, chunked and strided prefill")
OP_CASES(right_decode, decode, "decode")
OP_CASES(right_speculative, speculative, "decode of several queries, masks")
OP_CASES(right_caches, caches, "8-bit caches, forms of the cache")
OP_CASES(right_parts, parts, "parts of the keys")
OP_CASES(right_token_scales, token_scales, "caches with a scale a token and head")
OP_CASES(right_heads, heads, "heads of any size")
OP_CASES(right_decode_heads, decode_heads, "decode, heads of any size")
OP_CASES(right_singles, singles, "attention in f32")
OP_CASES(right_pages, pages, "pages that are no power of two")

START_TEST(right_segments)
{
    setenv("RFG_BATCH_INVARIANT", "1", 1);
    op_cases_run(op_device(_i), "segments of the keys", segments, sizeof(segments) / sizeof(segments[0]));
    unsetenv("RFG_BATCH_INVARIANT");
}
END_TEST

START_TEST(right_clusters)
{
    if (!strncmp(op_device(_i), "nvidia:", 7))
        op_cases_run(op_device(_i), "parts of the keys in a cluster", clusters, sizeof(clusters) / sizeof(clusters[0]));
    else
        printf("SKIPPED: parts of the keys in a cluster: takes an NVIDIA GPU\n");
}
END_TEST

START_TEST(units_by_turns)
{
    op_few_groups(op_device(_i), "mha bf16->bf16 B=2 Hq=2 Hkv=2 D=64 S=20 Sq=6 lse=1", "mha_portable{rows=1}", 3);
}
END_TEST

int main(void)
{
    return op_main_gpus("mha",
                        OP_TESTS(right_prefill, right_masks, right_ragged, right_decode, right_speculative,
                                 right_caches, right_token_scales, right_parts, right_segments, right_far, right_exact,
                                 right_special, right_heads, right_decode_heads, right_singles, right_pages),
                        OP_TESTS(NULL), OP_TESTS(right_clusters, units_by_turns));
}
