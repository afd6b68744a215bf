/* SPDX-License-Identifier: MIT
 *
 * --loads of rfg-tune and rfg-bench: the tokens that an engine routed to each expert, for problems with
 * routing=recorded. */
#ifndef RFG_TUNER_LOADS_H
#define RFG_TUNER_LOADS_H

#include "ops/gemm/loads.h"

/* Takes the loads in a file for this process. Either a line for each expert, its tokens, or the header expert,tokens
 * and a line for each expert in any order. Blank lines and those with # are passed over. Errors name file, line, value
 * and rule: IO, INVALID_ARGUMENT, OUT_OF_MEMORY; the loads are then what they were. */
rfg_status rfg_loads_read(const char *path);

/* The same for a program's --loads. False with a message. */
bool rfg_loads_option(const char *program, const char *path);

/* If there are loads, a grouped product without a routing becomes routing=recorded. */
struct rfg_problem rfg_loads_applied(const struct rfg_problem *prob);

#endif
