/* SPDX-License-Identifier: MIT
 *
 * Communicators, for the bench and the tests; for the public functions: dispatch.h. */
#ifndef RFG_DISPATCH_COMM_H
#define RFG_DISPATCH_COMM_H

#include "dispatch/context.h"

/* Tests: loads the kernels of a call of n elements, as rfg_comm_run() counts them. */
rfg_status rfg_comm_load(rfg_comm *comm, enum comm_op op, int dtype, int64_t n);
/* Tests: which kernel a message of so many bytes gets. */
const struct comm_way *rfg_comm_way(const rfg_comm *comm, enum comm_op op, int64_t bytes);
/* Tests and the bench: later calls take this way, whatever their size; groups 0: comm_groups(). NULL: as rows say
 * again. var: a variant in place of comm_push, NULL: that. */
void rfg_comm_force(rfg_comm *comm, const struct comm_way *way, const struct rfg_variant *var);

#endif
