/* SPDX-License-Identifier: MIT
 *
 * Loads of experts that an engine recorded: how rows of problems with routing=recorded are shared out. A process has
 * one, which rfg-tune and rfg-bench are given (--loads, tuner/harness/loads.h) before they make problems; an engine has
 * none, and the model then takes rows of such problems for uniform ones. */
#ifndef RFG_OPS_GEMM_LOADS_H
#define RFG_OPS_GEMM_LOADS_H

#include "ops/op.h"

#define GEMM_MAX_EXPERTS 65536
#define GEMM_MAX_LOAD    1000000000000 /* tokens of an expert */

/* Copies the tokens of each expert, at most GEMM_MAX_EXPERTS and GEMM_MAX_LOAD, not all 0. experts 0: there are no
 * loads. Not while other threads use problems. False: no memory. */
bool gemm_loads_set(const int64_t *tokens, int experts);
/* Of how many experts there are loads; 0: there are none. *tokens (may be NULL): each one's. */
int gemm_loads(const int64_t **tokens);
/* 16 hex digits of the loads' numbers: which ones a tuned row was measured with. "": there are none. */
const char *gemm_loads_name(void);

/* Are there loads for the problem, if it is one of routing=recorded? */
bool gemm_loads_fit(const struct rfg_problem *prob, struct rfg_reason *why);
/* Shares out rows (at most RFG_MAX_SIZE) in proportion: each expert's share is rounded down, and what is left goes to
 * those that lost most, of equals to the first. malloc'ed, by expert; NULL: no memory, or no loads. */
int64_t *gemm_loads_share(int64_t rows);

#endif
