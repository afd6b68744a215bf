/* SPDX-License-Identifier: MIT
 *
 * What the vendor variants of gemm share. */
#ifndef RFG_OPS_GEMM_VENDOR_H
#define RFG_OPS_GEMM_VENDOR_H

#include "base/rocm.h"
#include "ops/gemm/gemm.h"

/* $RFG_VENDOR=0 */
bool gemm_vendor_off(void);

/* Opens $env if set, else the first of names that opens, and looks all symbols up (both NULL-terminated). NULL, with
 * the reason, if there is no library or it lacks a symbol. Meant to be called once a library: none is ever closed. */
void *gemm_vendor_load(const char *env, const char *const *names, const char *const *symbols, void **slots,
                       struct rfg_reason *why);

/* The same of one of ROCm's libraries, found as base/rocm.h says. */
void *gemm_vendor_load_rocm(enum rfg_rocm which, const char *const *symbols, void **slots, struct rfg_reason *why);

bool gemm_vendor_supports(const struct rfg_device *dev, enum rfg_platform platform, const struct rfg_problem *prob,
                          struct rfg_reason *why);
double gemm_vendor_predict(const struct rfg_device *dev, const struct rfg_problem *prob, int rank);
/* all of a stream's */
size_t gemm_vendor_workspace(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p);

/* The parameter of the two *Lt variants: the algorithm's rank in the library's heuristic. */
#define GEMM_LT_ALGOS 16
extern const struct rfg_param gemm_lt_params[1];

/* cublasLt and hipBLASLt have one interface under two prefixes and with some other numbers; vendor_lt.c serves both. */

#endif
