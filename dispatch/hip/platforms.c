/* SPDX-License-Identifier: MIT
 *
 * The table of platforms. */
#include "hip.h"

const struct rfg_hip_platform *const rfg_platforms[] = {
#define RFG_PLATFORM(name) &rfg_platform_##name,
#include "platforms.def"
#undef RFG_PLATFORM
    NULL
};
