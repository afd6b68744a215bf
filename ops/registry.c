/* SPDX-License-Identifier: MIT
 *
 * The operators, as registry.def lists them. */
#include <string.h>

#include "op.h"

#define RFG_OP(name, folder) extern const struct rfg_op rfg_op_##name##_desc;
#include "registry.def"
#undef RFG_OP

const struct rfg_op *const rfg_ops[] = {
#define RFG_OP(name, folder) &rfg_op_##name##_desc,
#include "registry.def"
#undef RFG_OP
    NULL,
};

const struct rfg_op *rfg_op_find(const char *name, size_t len)
{
    for (int i = 0; rfg_ops[i]; i++)
        if (strlen(rfg_ops[i]->name) == len && !strncmp(rfg_ops[i]->name, name, len))
            return rfg_ops[i];
    return NULL;
}
