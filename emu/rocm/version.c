/* SPDX-License-Identifier: MIT */
#include "rocm.h"

#define ROCM(release, number, so, hip_version, beside, ...)                                                            \
    __attribute__((unused)) static const struct rocm_version of_##number = { release, number, so, hip_version,         \
                                                                             __VA_ARGS__ };
#include "versions.def"
#undef ROCM

/* -DEMU_ROCM=60400 */
#define ROW(number)       JOINED(of_, number)
#define JOINED(a, number) a##number
const struct rocm_version *const rocm_version = &ROW(EMU_ROCM);
