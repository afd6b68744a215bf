/* SPDX-License-Identifier: MIT
 *
 * What an operator's oracle (ops/<op>/oracle.c) is made of. Oracles are part of the harness, not of the library: double
 * precision, from the tensors' bytes, written without a look at any kernel. */
#ifndef RFG_OPS_ORACLE_H
#define RFG_OPS_ORACLE_H

#include "op.h"

/* What one output tensor must hold, by row asked for and column: the value before it is rounded to the dtype, and how
 * far off it the kernel's unrounded value may be. NULL where the problem has no such output. For a quantised output:
 * what the codes times their scale stand for. */
struct rfg_expected {
    double *value, *allow; /* allow below 0: nobody writes it, its bytes must be what they were */
};

/* Fills expected[] (one for each of the op's tensors) for `rows` of every output. */
typedef rfg_status rfg_oracle_fn(const struct rfg_problem *prob, const rfg_tensor host[RFG_MAX_TENSORS],
                                 const int64_t *rows, int64_t n_rows, struct rfg_expected expected[RFG_MAX_TENSORS]);

#define RFG_OP(name) rfg_oracle_fn rfg_oracle_##name;
#include "registry.def"
#undef RFG_OP

/* By the problem's op. */
rfg_oracle_fn rfg_oracle;

/* Scalar conversions of the host, independent of what kernels use and of ops/format.c: to nearest, ties to even. The
 * 16-bit formats overflow to infinity, narrower ones and i32 saturate; a NaN becomes a NaN, 0 in i4, i8 and i32, and
 * the largest value in e2m1. */
double rfg_load(const void *base, rfg_dtype dtype, int64_t index);
void rfg_store(void *base, rfg_dtype dtype, int64_t index, double value);
/* ulp of the dtype at |x|, in double. */
double rfg_ulp(rfg_dtype dtype, double x);
/* The largest finite value. */
double rfg_largest(rfg_dtype dtype);

/* The scales at expected[2] that follow from the values of the codes at expected[1], n_rows of n, one for each `group`
 * columns: rfg/quant.h's formula. */
void rfg_expect_scales(const struct rfg_problem *prob, int64_t group, int64_t n, int64_t n_rows,
                       struct rfg_expected expected[RFG_MAX_TENSORS]);

/* Element i of row r of a tensor whose rows are as in rfg_operand: [R,C] or [T,H,C]. */
double rfg_element(const rfg_tensor *t, int64_t row, int64_t i);

#endif
