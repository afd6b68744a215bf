/* SPDX-License-Identifier: MIT */
#ifndef RFG_OPS_NORM_H
#define RFG_OPS_NORM_H

#include "ops/comm.h"
#include "ops/quant.h"
#include "norm_args.h"
#include "rfg/norm.h"

/* Indices of the keys, of all four operators. */
enum {
    NORM_M,
    NORM_N,
    NORM_WEIGHT,   /* enum norm_weight */
    NORM_BIAS,     /* layer norms only */
    NORM_RESIDUAL, /* 1: the residuals are f32 and x isn't */
    NORM_WTYPE,    /* 1: so are weight and bias */
    NORM_SCALE,
    NORM_ROUNDING,      /* of mx scales */
    NORM_PLAIN,         /* the plain output beside the quantised one */
    NORM_HEADS,         /* H of [T,H,N]; 1: two dimensions */
    NORM_LDX,           /* strides of rows (heads > 1: over T) in elements; 0: packed */
    NORM_LDR,           /* of both residuals; not 0 if either isn't packed */
    NORM_LDY,           /* of y and q */
    NORM_SCALE_COLUMNS, /* group scales are column-major */
    NORM_INPLACE,       /* 1: y is x, 2: residual_out is residual */
    NORM_ALIGN,         /* as gemm's, of x, residual, weight and bias */
    NORM_ALIGN_Y,       /* of y, q and residual_out */
    NORM_INVARIANT,
    NORM_OVERLAP,
    NORM_NKEYS
};

enum norm_weight { NORM_WEIGHT_W, NORM_WEIGHT_1W, NORM_WEIGHT_NONE };

/* dtype[0] = x (and y, and as a rule the residuals, weight, bias), dtype[1] = y or q. */
static inline rfg_dtype norm_residual_dtype(const struct rfg_problem *prob)
{
    return prob->v[NORM_RESIDUAL] ? RFG_F32 : (rfg_dtype)prob->dtype[0];
}
static inline rfg_dtype norm_weight_dtype(const struct rfg_problem *prob)
{
    return prob->v[NORM_WTYPE] ? RFG_F32 : (rfg_dtype)prob->dtype[0];
}

#define NORM_DEFAULT_EPS 1e-6f

#define NORM_MAX_N (RFG_MAX_SIZE / 2)

extern const struct rfg_op rfg_op_rmsnorm_desc, rfg_op_add_rmsnorm_desc, rfg_op_layernorm_desc,
    rfg_op_add_layernorm_desc;

static inline bool norm_adds(const struct rfg_problem *prob)
{
    return prob->op == &rfg_op_add_rmsnorm_desc || prob->op == &rfg_op_add_layernorm_desc;
}
static inline bool norm_is_layer(const struct rfg_problem *prob)
{
    return prob->op == &rfg_op_layernorm_desc || prob->op == &rfg_op_add_layernorm_desc;
}
static inline bool norm_is_plain(const struct rfg_problem *prob)
{
    return !prob->v[NORM_SCALE] || prob->v[NORM_PLAIN];
}

/* Fills in a->packed, from the rest. */
void norm_fill_packed(struct norm_args *a);

/* gpu.c, cpu.c; one for each operator, which differ by name only. */
#define NORM_VARIANTS(op)                                                                                              \
    extern const struct rfg_variant op##_rows, op##_portable, op##_cpu_avx512, op##_cpu_avx2, op##_cpu_portable
NORM_VARIANTS(rmsnorm);
NORM_VARIANTS(add_rmsnorm);
NORM_VARIANTS(layernorm);
NORM_VARIANTS(add_layernorm);

/* add_rmsnorm of x that is summed over the ranks of a communicator in the same launch; in no table, as ops/comm.h says.
 * Kernel arguments: struct norm_args, struct comm_args. */
extern const struct rfg_variant add_rmsnorm_joint;
enum { JOINT_RANKS, JOINT_THREADS, JOINT_CHUNKS, JOINT_SPLIT, JOINT_NPARAMS };
void norm_joint_choose(const struct rfg_device *dev, const struct rfg_problem *prob, int ranks, int *joint);

#endif
