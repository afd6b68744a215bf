/* SPDX-License-Identifier: MIT
 *
 * What variants say of their kernels and ask of devices. */
#include "op.h"

void rfg_kernel_macro(struct rfg_kernel *k, const char *name, int value)
{
    if (k->n_macros == RFG_MAX_MACROS) { /* a variant's table is wrong: there is no such source */
        k->source = "";
        return;
    }
    k->macros[k->n_macros].name = name;
    k->macros[k->n_macros++].value = value;
}

bool rfg_cpu_only(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why)
{
    (void)prob;
    return dev->platform == RFG_PLATFORM_CPU || rfg_refuse(why, "needs the cpu device, this is %s", dev->name);
}

bool rfg_device_can_overlap(const struct rfg_device *dev, struct rfg_reason *why)
{
    return dev->features & RFG_FEATURE_OVERLAP ||
           rfg_refuse(why, "overlap=1: %s (%s) can't overlap launches: must be an NVIDIA GPU from sm_90 on", dev->name,
                      dev->arch);
}

#define STREAM_K_TILE ((size_t)256 * 256 * sizeof(float))

size_t rfg_workspace_bytes(const struct rfg_device *dev)
{
    size_t tiles = dev->platform == RFG_PLATFORM_AMD ? (size_t)dev->cu_count * STREAM_K_TILE : 0;
    return tiles < RFG_WORKSPACE_BYTES ? RFG_WORKSPACE_BYTES
                                       : (tiles + RFG_WORKSPACE_BYTES - 1) / RFG_WORKSPACE_BYTES * RFG_WORKSPACE_BYTES;
}
