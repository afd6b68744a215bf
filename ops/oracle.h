/* SPDX-License-Identifier: MIT
 *
 * Helpers of the operators' oracles (ops/<op>/oracle.c). Oracles are part of the harness, not of the library. They
 * compute in double precision from the tensors' bytes, and are written independently of the kernels. */
#ifndef RFG_OPS_ORACLE_H
#define RFG_OPS_ORACLE_H

#include "op_case.h"
#include "rfg/act.h"

/* Scalar conversions of the host, independent of what kernels use and of ops/format.c: to nearest, ties to even. The
 * 16-bit formats overflow to infinity, narrower ones and i32 saturate; a NaN becomes a NaN, 0 in i4, i8 and i32, and
 * the largest value in e2m1. */
double rfg_load(const void *base, rfg_dtype dtype, int64_t index);
void rfg_store(void *base, rfg_dtype dtype, int64_t index, double value);
/* ulp of the dtype at |x|, in double. */
double rfg_ulp(rfg_dtype dtype, double x);
/* The largest finite value. */
double rfg_largest(rfg_dtype dtype);

/* The scales that follow from the values of the codes, which are of dtype and of `cols` columns: rfg/quant.h's formulas
 * for a kind and rounding. The same rows are asked of both. */
void rfg_expect_scales(rfg_dtype dtype, int64_t kind, int64_t rounding, int64_t cols, const struct rfg_expected *codes,
                       struct rfg_expected *scales);
/* rfg/quantize.h's scale of a power of two, for codes of dtype; v: the largest magnitude, of RFG_SCALE_UP by the
 * dtype's largest. */
double rfg_oracle_power(rfg_dtype dtype, int64_t rounding, double v);

/* Calls run(job, i, scratch) for each i below n, on all cores (16 at most) if `shared`, in any order; each thread has
 * `scratch` bytes of its own. RFG_ERROR_OUT_OF_MEMORY if no thread could get them. */
rfg_status rfg_share_out(int64_t n, bool shared, size_t scratch, void (*run)(void *job, int64_t i, void *scratch),
                         void *job);

/* act(v) by rfg/act.h's formulas, but for those of gates alone; in *steep by how many fp32 epsilons a relative error of one in the
 * argument of its exponential shows. */
double rfg_oracle_activate(rfg_act act, double v, double *steep);
/* What act makes of a gate, by the same formulas and their defaults, and of the up that it multiplies, *b. limit: as
 * keys say it. */
double rfg_oracle_gate(rfg_act act, double limit, double a, double *b, double *steep);

/* Element i of row r of a tensor whose rows are as in rfg_operand: [R,C] or [T,H,C]. */
double rfg_element(const rfg_tensor *t, int64_t row, int64_t i);

#endif
