/* SPDX-License-Identifier: MIT
 *
 * The operators' variants, as registry.def and each folder's variants.c list them. */
#include <string.h>

#include "comm.h"

#define RFG_OP(name, folder) extern const struct rfg_variants rfg_op_##name##_variants;
#include "registry.def"
#undef RFG_OP

/* As rfg_ops. */
static const struct rfg_variants *const variants[] = {
#define RFG_OP(name, folder) &rfg_op_##name##_variants,
#include "registry.def"
#undef RFG_OP
};

static const struct rfg_variant *const joint_list[] = { &comm_push, &comm_cpu };
static const struct rfg_variants joint = { sizeof(joint_list) / sizeof(joint_list[0]), joint_list };

const struct rfg_variants *rfg_op_variants(const struct rfg_op *op)
{
    int i = 0;
    if (op->joint)
        return &joint;
    while (rfg_ops[i] != op)
        i++;
    return variants[i];
}

const struct rfg_variant *rfg_variant_find(const struct rfg_op *op, const char *name)
{
    const struct rfg_variants *v = rfg_op_variants(op);
    for (int i = 0; i < v->n; i++)
        if (!strcmp(v->list[i]->name, name))
            return v->list[i];
    return NULL;
}

uint32_t rfg_variant_bit(const struct rfg_op *op, const struct rfg_variant *var)
{
    const struct rfg_variants *v = rfg_op_variants(op);
    int i = 0;
    while (v->list[i] != var)
        i++;
    return 1u << i;
}
