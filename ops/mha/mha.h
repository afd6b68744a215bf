/* SPDX-License-Identifier: MIT */
#ifndef RFG_OPS_MHA_H
#define RFG_OPS_MHA_H

#include "ops/op.h"
#include "mha_args.h"
#include "rfg/mha.h"

/* Indices of the keys, of both operators. B, Hq, Hkv, D, S: sizes; Sq: a size of mha, an attribute (default 1) of
 * mha_decode. */
enum {
    MHA_B,
    MHA_HQ,
    MHA_HKV,
    MHA_D,
    MHA_S, /* keys: the most of a sequence; see mha_called_keys() */
    MHA_SQ,
    MHA_DV,     /* 0: D */
    MHA_CAUSAL, /* 1: mha */
    MHA_WINDOW, /* keys that a query sees; 0: all. With causal, or a lone query of decode; else */
    MHA_LEFT,   /* keys before its own; -1: all */
    MHA_RIGHT,  /* and after */
    MHA_CAP,    /* the soft cap, rounded up; 0: none */
    MHA_SINK,   /* sinks */
    MHA_STYPE,  /* rfg_dtype of them; 0: f32 */
    MHA_ALIBI,  /* slopes */
    MHA_LSE,    /* the log-sum-exp, too */
    MHA_VARLEN, /* mha: cu_seqlens_q and, unless paged, cu_seqlens_k */
    MHA_PAGE,   /* rows of a block; 0: no table */
    MHA_KV,     /* rfg_dtype of k and v; 0: q's */
    MHA_SCALES, /* enum mha_scales: k and v of codes */
    MHA_FORM,   /* enum mha_form: how k and v (and, NHD apart, q) lie; the public functions say nhd or vllm */
    MHA_LENS,   /* enum mha_lens. mha: a layout key, for tests */
    MHA_ALIGN,  /* of all pointers and strides */
    MHA_INVARIANT,
    MHA_OVERLAP,
    MHA_NKEYS
};

enum mha_scales { MHA_SCALES_NONE, MHA_SCALES_TENSOR, MHA_SCALES_HEAD, MHA_SCALES_TOKEN }; /* "none", "tensor", ... */
enum mha_form { MHA_FORM_NHD, MHA_FORM_HND, MHA_FORM_VLLM, MHA_FORM_GAPS }; /* "nhd", "hnd", "vllm", "gaps" */
/* "all": S, or near it; "log": anything: log-uniform 16...S in tests and tuning; "any": 0...S, for tests. */
enum mha_lens { MHA_LENS_ALL, MHA_LENS_LOG, MHA_LENS_ANY };

/* dtype[0] = q, dtype[1] = out: the same, bf16, fp16 or fp32 (portable kernels). */

#define MHA_MAX_D 512 /* elements of a head; any multiple of 8 */

extern const struct rfg_op rfg_op_mha_desc, rfg_op_mha_decode_desc;

static inline bool mha_is_decode(const struct rfg_problem *prob)
{
    return prob->op == &rfg_op_mha_decode_desc;
}
static inline int mha_dv(const struct rfg_problem *prob)
{
    return (int)(prob->v[MHA_DV] ? prob->v[MHA_DV] : prob->v[MHA_D]);
}
/* Keys before its own that a query sees; -1: all. */
static inline int64_t mha_left(const struct rfg_problem *prob)
{
    return prob->v[MHA_WINDOW] ? prob->v[MHA_WINDOW] - 1 : prob->v[MHA_LEFT];
}
/* One query a sequence: nothing is behind it. */
static inline bool mha_is_lone(const struct rfg_problem *prob)
{
    return mha_is_decode(prob) && prob->v[MHA_SQ] == 1;
}
/* enum rfg_dtype of k and v. */
static inline int mha_kv_dtype(const struct rfg_problem *prob)
{
    return prob->v[MHA_KV] ? (int)prob->v[MHA_KV] : prob->dtype[0];
}
static inline int mha_kv_bits(const struct rfg_problem *prob)
{
    return (int)rfg_format_bytes(mha_kv_dtype(prob), 8);
}
/* A scale for each head of each token, which goes to scores and weights. */
static inline bool mha_token_scales(const struct rfg_problem *prob)
{
    return prob->v[MHA_SCALES] == MHA_SCALES_TOKEN;
}
/* Kernels' format of k and v. Codes of integers have a macro of their own, as they came later. */
static inline void mha_kv_macros(const struct rfg_problem *prob, struct rfg_kernel *k)
{
    int kv = mha_kv_dtype(prob);
    rfg_kernel_macro(k, kv == RFG_I8 || kv == RFG_I4 ? "KV_CODES" : "KV_DTYPE", kv);
    if (mha_token_scales(prob))
        rfg_kernel_macro(k, "TOKEN_SCALES", 1);
}

static inline int mha_sink_dtype(const struct rfg_problem *prob)
{
    return prob->v[MHA_STYPE] ? (int)prob->v[MHA_STYPE] : RFG_F32;
}
/* Kernels of f32 sinks, and of none, don't say so: the macro came later. */
static inline void mha_sink_macro(const struct rfg_problem *prob, struct rfg_kernel *k)
{
    if (prob->v[MHA_STYPE])
        rfg_kernel_macro(k, "SINK_DTYPE", mha_sink_dtype(prob));
}

static inline bool mha_is_half(const struct rfg_problem *prob, struct rfg_reason *why)
{
    return prob->dtype[0] != RFG_F32 || rfg_refuse(why, "dtype f32: must be bf16 or f16");
}

/* Elements of a head as a kernel pads them: a multiple of `unit`. Kernels have them as macros D and DV, and D_REAL and
 * DV_REAL where those differ. */
static inline int mha_padded(int64_t d, int unit)
{
    return (int)((d + unit - 1) / unit * unit);
}
static inline void mha_head_macros(const struct rfg_problem *prob, struct rfg_kernel *k, int d, int dv)
{
    rfg_kernel_macro(k, "D", d);
    rfg_kernel_macro(k, "DV", dv);
    if (d != prob->v[MHA_D])
        rfg_kernel_macro(k, "D_REAL", (int)prob->v[MHA_D]);
    if (dv != mha_dv(prob))
        rfg_kernel_macro(k, "DV_REAL", mha_dv(prob));
}
/* The place and length of sequence b in tensors of cu_seqlens, clamped to the tensors. */
struct mha_sequence {
    int q_first, sq, kv_first, skv;
};
static inline int mha_within(int n, int least, int most)
{
    return n > most ? most : n < least ? least : n;
}
static inline struct mha_sequence mha_sequence_of(const struct mha_args *a, int b)
{
    struct mha_sequence s = { 0, a->sq, 0, a->skv };
    if (a->q_begin) {
        s.q_first = mha_within(a->q_begin[b], 0, a->tokens);
        s.sq = mha_within(a->q_begin[b + 1], s.q_first, a->tokens) - s.q_first;
    }
    if (a->kv_begin) {
        s.kv_first = mha_within(a->kv_begin[b], 0, a->skv);
        s.skv = mha_within(a->kv_begin[b + 1], s.kv_first, a->skv) - s.kv_first;
    }
    if (a->kv_lens)
        s.skv = mha_within(a->kv_lens[b], 0, a->skv);
    return s;
}

/* gpu.c (portable), gpu_decode.c, gpu_prefill.c, gpu_wgmma.c, cpu.c */
extern const struct rfg_variant mha_prefill_wgmma, mha_decode_wgmma, mha_prefill_mma, mha_portable, mha_cpu_avx512,
    mha_cpu_avx2, mha_cpu_portable;
extern const struct rfg_variant mha_decode_stream_mma, mha_decode_tile_mma, mha_decode_portable, mha_decode_cpu_avx512,
    mha_decode_cpu_avx2, mha_decode_cpu_portable;
/* Registers of a lane of mha_decode_stream_mma with these parameters, guessed. */
int mha_decode_registers(const struct rfg_device *dev, const struct rfg_problem *prob, const int *params);

#endif
