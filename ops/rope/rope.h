/* SPDX-License-Identifier: MIT */
#ifndef RFG_OPS_ROPE_H
#define RFG_OPS_ROPE_H

#include "ops/op.h"
#include "rope_args.h"
#include "rfg/rope.h"

#define ROPE_MAX_D    8192
#define ROPE_MAX_PAGE (1 << 20)

/* Indices of the keys, of all three operators. */
enum {
    ROPE_T,
    ROPE_D,
    ROPE_HQ, /* rope, rope_append */
    ROPE_HKV,
    ROPE_DV,    /* 0: D */
    ROPE_PAGE,  /* kv_append, rope_append */
    ROPE_R,     /* 0: D */
    ROPE_PAIRS, /* 1: GPT-J */
    ROPE_LAST,
    ROPE_OFFSET, /* of what is rotated, where it is neither first nor last */
    ROPE_AXES,   /* 0: positions are [T] */
    ROPE_MROPE,
    ROPE_TABLE, /* dtype of cos_sin; 0: q's */
    ROPE_NORM,  /* enum rope_norm */
    ROPE_WTYPE, /* dtype of the norms' weights; 0: q's */
    ROPE_SCALES,
    ROPE_BACKWARD,
    ROPE_FORM,
    ROPE_QKV,
    ROPE_INPLACE,
    ROPE_ALIGN,
    ROPE_OVERLAP,
    ROPE_NKEYS
};

enum rope_norm { ROPE_NORM_NONE, ROPE_NORM_W, ROPE_NORM_1W };
enum rope_scales { ROPE_SCALES_NONE, ROPE_SCALES_TENSOR, ROPE_SCALES_HEAD, ROPE_SCALES_TOKEN };
enum rope_mrope { ROPE_MROPE_CHUNKED, ROPE_MROPE_INTERLEAVED };
/* Where the caches lie; tests lay them out by the others, whose strides the public function sees as NHD. */
enum rope_form { ROPE_FORM_NHD, ROPE_FORM_HND, ROPE_FORM_VLLM, ROPE_FORM_PACKED, ROPE_FORM_GAPS };
/* Where q, k and v lie: tests'. */
enum rope_qkv { ROPE_QKV_APART, ROPE_QKV_FUSED, ROPE_QKV_GAPS };

extern const struct rfg_op rfg_op_rope_desc, rfg_op_kv_append_desc, rfg_op_rope_append_desc;

static inline bool rope_rotates(const struct rfg_problem *prob)
{
    return prob->op != &rfg_op_kv_append_desc;
}
static inline bool rope_appends(const struct rfg_problem *prob)
{
    return prob->op != &rfg_op_rope_desc;
}

/* Of a problem: the dtype of q, k and v; positions; the cache; cos_sin; the norms' weights. */
static inline int rope_dtype(const struct rfg_problem *prob)
{
    return prob->dtype[0];
}
static inline int rope_position_dtype(const struct rfg_problem *prob)
{
    return rope_rotates(prob) ? prob->dtype[1] : RFG_DTYPE_NONE;
}
static inline int rope_cache_dtype(const struct rfg_problem *prob)
{
    return !rope_appends(prob) ? RFG_DTYPE_NONE : prob->dtype[rope_rotates(prob) ? 2 : 1];
}
/* A scale for each head of each token, which is written as the codes are. */
static inline bool rope_token_scales(const struct rfg_problem *prob)
{
    return prob->v[ROPE_SCALES] == ROPE_SCALES_TOKEN;
}
static inline int rope_table_dtype(const struct rfg_problem *prob)
{
    return prob->v[ROPE_TABLE] ? (int)prob->v[ROPE_TABLE] : prob->dtype[0];
}
static inline int rope_weight_dtype(const struct rfg_problem *prob)
{
    return prob->v[ROPE_WTYPE] ? (int)prob->v[ROPE_WTYPE] : prob->dtype[0];
}
static inline int64_t rope_dv(const struct rfg_problem *prob)
{
    return prob->v[ROPE_DV] ? prob->v[ROPE_DV] : prob->v[ROPE_D];
}
static inline int64_t rope_r(const struct rfg_problem *prob)
{
    return !rope_rotates(prob) ? 0 : prob->v[ROPE_R] ? prob->v[ROPE_R] : prob->v[ROPE_D];
}
/* The first of a head's elements that are rotated. */
static inline int64_t rope_first(const struct rfg_problem *prob)
{
    return prob->v[ROPE_LAST] ? prob->v[ROPE_D] - rope_r(prob) : prob->v[ROPE_OFFSET];
}
/* Heads of a token: of q, k and v, as far as there are any. */
static inline int64_t rope_heads_of_token(const struct rfg_problem *prob)
{
    return prob->v[ROPE_HQ] + prob->v[ROPE_HKV] * (rope_appends(prob) ? 2 : 1);
}

/* A call as the public functions are given it; what an operator doesn't have is NULL. */
struct rope_call {
    const char *fn;
    const struct rfg_op *op;
    const rfg_tensor *q_out, *k_out, *k_cache, *v_cache, *q, *k, *v, *cos_sin, *positions, *slots;
    rfg_rope_params rope;
    rfg_rope_append_params p;
};

/* The kernel arguments of a call that was checked. */
void rope_fill_args(const struct rope_call *c, struct rope_args *a);

/* gpu.c, cpu.c; one for each operator, which differ by name only. */
#define ROPE_VARIANTS(op) extern const struct rfg_variant op##_rows, op##_portable, op##_cpu
ROPE_VARIANTS(rope);
ROPE_VARIANTS(kv_append);
ROPE_VARIANTS(rope_append);

#endif
