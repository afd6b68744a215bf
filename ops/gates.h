/* SPDX-License-Identifier: MIT
 *
 * The key of a gated operator's problem that says how gate's and up's rows lie. */
#ifndef RFG_OPS_GATES_H
#define RFG_OPS_GATES_H

#include "ops/op.h"
#include "rfg/act.h"

#define RFG_GATES_NAMES ((const char *const[]){ "halves", "interleaved" }) /* rfg_gates */
#define RFG_KEY_GATES(help)                                                                                            \
    {                                                                                                                  \
        "gates", RFG_KEY_ATTR, 0, 0, RFG_GATES_INTERLEAVED, RFG_GATES_NAMES, help                                      \
    }
/* Of a parameter that is neither. */
#define RFG_GATES_RULE "must be RFG_GATES_HALVES or RFG_GATES_INTERLEAVED"

#endif
