/* SPDX-License-Identifier: MIT */
#ifndef RFG_OPS_MLA_APPEND_H
#define RFG_OPS_MLA_APPEND_H

#include "append_args.h"
#include "ops/mha/mla/mla.h"

/* Indices of the keys. */
enum {
    APPEND_T,
    APPEND_D,
    APPEND_R,
    APPEND_HQ,
    APPEND_PAGE,
    APPEND_FORMAT, /* rfg_mla_format */
    APPEND_NORM,   /* enum append_norm */
    APPEND_WTYPE,  /* dtype of norm; 0: latent's */
    APPEND_ROPE,   /* enum append_rope */
    APPEND_TABLE,  /* dtype of cos_sin; 0: latent's */
    APPEND_POS,    /* dtype of positions; 0: i64 */
    APPEND_SCALE,  /* kv_scale */
    APPEND_INPLACE,
    APPEND_FORM, /* enum mla_form: tests' */
    APPEND_ALIGN,
    APPEND_OVERLAP,
    APPEND_NKEYS
};

enum append_norm { APPEND_NORM_NONE, APPEND_NORM_LATENT, APPEND_NORM_ALL };
enum append_rope { APPEND_ROPE_NONE, APPEND_ROPE_NEOX, APPEND_ROPE_GPTJ };

extern const struct rfg_op rfg_op_mla_append_desc;

static inline int append_latent(const struct rfg_problem *prob)
{
    return (int)(prob->v[APPEND_D] - prob->v[APPEND_R]);
}
static inline int append_weight_dtype(const struct rfg_problem *prob)
{
    return prob->v[APPEND_WTYPE] ? (int)prob->v[APPEND_WTYPE] : prob->dtype[0];
}
static inline int append_table_dtype(const struct rfg_problem *prob)
{
    return prob->v[APPEND_TABLE] ? (int)prob->v[APPEND_TABLE] : prob->dtype[0];
}
static inline int append_position_dtype(const struct rfg_problem *prob)
{
    return prob->v[APPEND_POS] ? (int)prob->v[APPEND_POS] : RFG_I64;
}
/* Elements that the norm is of. */
static inline int append_normed(const struct rfg_problem *prob)
{
    return prob->v[APPEND_NORM] == APPEND_NORM_ALL ? (int)prob->v[APPEND_D] : append_latent(prob);
}

/* A call with its arguments. */
struct append_call {
    const rfg_tensor *kv, *latent, *k_rope, *slots;
    rfg_mla_append_params p;
};
/* The kernel arguments of a call that was checked. */
void append_fill_args(const struct append_call *c, struct append_args *a);

/* gpu.c, cpu.c */
extern const struct rfg_variant mla_append_rows, mla_append_cpu;

#endif
