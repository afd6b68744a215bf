/* SPDX-License-Identifier: MIT */
#ifndef RFG_DISPATCH_AMD_FACTS_H
#define RFG_DISPATCH_AMD_FACTS_H

#include "hip.h"

/* AMD's rfg_hip_platform.facts: the kernel's GPUs (KFD's topology), /dev/kfd and /dev/dri's render nodes, and the
 * variables by which ROCr and HIP hide, reorder and rename GPUs. Loads nothing and asks no runtime. */
int rfg_amd_facts(const char *root, struct rfg_platform_fact *facts, int max);

#endif
