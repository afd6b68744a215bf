/* SPDX-License-Identifier: MIT
 *
 * Linked with a program's own files: its nvidia:N are fakehip.h's. */
#include "fakehip.h"

__attribute__((constructor)) static void override(void)
{
    rfg_hip_override(RFG_PLATFORM_NVIDIA, fakehip_nvidia());
}
