/* SPDX-License-Identifier: MIT
 *
 * What the loaders of the HIP table's platforms share. */
#ifndef RFG_DISPATCH_HIP_PLATFORM_H
#define RFG_DISPATCH_HIP_PLATFORM_H

#include "hip.h"

/* Does $RFG_HIP_DISABLE name the platform? Then the report's problem says so. */
bool rfg_platform_switched_off(struct rfg_platform_report *r, const char *key);

/* The table set by rfg_hip_override(), with the report filled; NULL if none is. */
const struct rfg_hip *rfg_hip_overridden(enum rfg_platform p, struct rfg_platform_report *report);

/* rfg_hip_platform.find of platforms that number their devices: "0", "1". */
int rfg_platform_ordinal(const char *spec, char *error, size_t size);

#endif
