/* SPDX-License-Identifier: MIT
 *
 * What gated operators share: the names of activations, what their numbers must be, and the keys that say them. */
#ifndef RFG_OPS_GATES_H
#define RFG_OPS_GATES_H

#include <string.h>

#include "ops/op.h"
#include "rfg/act.h"

/* ---- activations ------------------------------------------------------------------------------------------------ */

/* enum rfg_act, but none: products with up, then those that aren't, which are of gates alone. */
#define RFG_ACT_NAMES "silu", "gelu", "gelu_tanh", "relu", "relu2", "swigluoai", "situ", "swiglustep"
#define RFG_LAST_GATE RFG_ACT_SWIGLUSTEP
static inline bool rfg_act_is_of_gates(int64_t act)
{
    return act >= RFG_ACT_SWIGLUOAI && act <= RFG_LAST_GATE;
}
/* Is the gate clamped before it is activated? */
static inline bool rfg_act_clamps_first(rfg_act act)
{
    return act != RFG_ACT_SWIGLUSTEP;
}

#define RFG_MAX_LIMIT 10000
#define RFG_KEY_LIMIT                                                                                                  \
    {                                                                                                                  \
        "limit", RFG_KEY_ATTR, 0, 0, RFG_MAX_LIMIT, NULL, "the limit of gate and up; 0: swigluoai 7, others none"      \
    }

/* What params say: 0 is each number's default. */
struct rfg_gate_options {
    rfg_act act;
    float alpha, limit, situ_beta, situ_linear_beta;
};
/* What kernels are given: alpha is swigluoai's, or situ's beta; limit and linear_beta may be infinite. */
struct rfg_gate {
    float alpha, limit;
    int linear_beta; /* a float's bits: the member of struct gemm_args was an int, and of a float NVRTC makes other code */
};
static inline float rfg_gate_linear_beta(int bits)
{
    float f;
    memcpy(&f, &bits, sizeof(f));
    return f;
}

/* An error names `fn`, the number and its rule. */
rfg_status rfg_check_gate(const char *fn, const struct rfg_gate_options *o);
struct rfg_gate rfg_gate_of(const struct rfg_gate_options *o);
/* Of a problem, which says no number but the limit. */
struct rfg_gate rfg_gate_in(rfg_act act, int64_t limit);
/* The value of RFG_KEY_LIMIT: rounded up; 0: as many as the act has by default. */
int64_t rfg_gate_limit_key(const struct rfg_gate_options *o);
/* Do kernels clamp, and read struct rfg_gate? */
bool rfg_gate_is_limited(rfg_act act, int64_t limit);

/* ---- rows of gates and ups -------------------------------------------------------------------------------------- */

#define RFG_GATES_NAMES ((const char *const[]){ "halves", "interleaved" }) /* rfg_gates */
#define RFG_KEY_GATES(help)                                                                                            \
    {                                                                                                                  \
        "gates", RFG_KEY_ATTR, 0, 0, RFG_GATES_INTERLEAVED, RFG_GATES_NAMES, help                                      \
    }
/* Of a parameter that is neither. */
#define RFG_GATES_RULE "must be RFG_GATES_HALVES or RFG_GATES_INTERLEAVED"

#endif
