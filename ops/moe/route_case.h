/* SPDX-License-Identifier: MIT */
#ifndef RFG_OPS_ROUTE_CASE_H
#define RFG_OPS_ROUTE_CASE_H

#include "ops/oracle.h"
#include "route.h"

enum {
    ROUTE_IDS,
    ROUTE_WEIGHTS,
    ROUTE_X,
    ROUTE_BIASES,
    ROUTE_LIMIT,
    ROUTE_EXPERTS,
    ROUTE_IDS_OF_TOKENS,
    ROUTE_TENSORS
}; /* of the harness */

/* What no problem says: factors of the weights, and of the shared experts. */
#define ROUTE_SCALE         2.5f
#define ROUTE_SHARED_WEIGHT 0.75f

/* route_oracle.c */
bool route_accept(const struct rfg_problem *prob, const rfg_tensor *host, const rfg_tensor *got, int tensor,
                  int64_t row, struct rfg_reason *why);

/* The same of logits that may be off by `near`, for operators that compute them. */
bool route_accept_near(const struct rfg_problem *prob, const rfg_tensor *host, const rfg_tensor *got, int tensor,
                       int64_t row, double near, struct rfg_reason *why);

#endif
