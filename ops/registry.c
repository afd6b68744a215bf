/* SPDX-License-Identifier: MIT
 *
 * The operators, as registry.def lists them. */
#include <string.h>

#include "comm.h"

#define RFG_OP(name, folder) extern const struct rfg_op rfg_op_##name##_desc;
#include "registry.def"
#undef RFG_OP

const struct rfg_op *const rfg_ops[] = {
#define RFG_OP(name, folder) &rfg_op_##name##_desc,
#include "registry.def"
#undef RFG_OP
    NULL,
};

static const struct rfg_op *find(const struct rfg_op *const *ops, const char *name, size_t len)
{
    while (*ops && (strlen((*ops)->name) != len || strncmp((*ops)->name, name, len)))
        ops++;
    return *ops;
}

const struct rfg_op *rfg_op_find(const char *name, size_t len)
{
    const struct rfg_op *op = find(rfg_ops, name, len);
    return op ? op : find(rfg_joint_ops, name, len);
}

bool rfg_problem_is_alone(const struct rfg_problem *prob, struct rfg_reason *why)
{
    return !prob->op->joint || rfg_refuse(why, "%s: is of several devices: must be an operator of one", prob->op->name);
}
