/* SPDX-License-Identifier: MIT
 *
 * What the platforms share. */
#include "hip_platform.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

int rfg_platform_ordinal(const char *spec, char *error, size_t size)
{
    char *end;
    long n = *spec >= '0' && *spec <= '9' ? strtol(spec, &end, 10) : -1;
    if (size)
        *error = 0;
    return n >= 0 && n < 1024 && !*end ? (int)n : -1;
}

bool rfg_platform_switched_off(struct rfg_platform_report *r, const char *key)
{
    const char *list = rfg_env("RFG_HIP_DISABLE");
    for (size_t len; list && *list; list += len + (list[len] == ',')) {
        len = strcspn(list, ",");
        if (strlen(key) == len && !strncmp(list, key, len)) {
            snprintf(r->problem, sizeof(r->problem), "switched off by RFG_HIP_DISABLE");
            return true;
        }
    }
    return false;
}

static _Atomic(const struct rfg_hip *) overrides[RFG_PLATFORM_EMU + 1];

void rfg_hip_override(enum rfg_platform p, const struct rfg_hip *hip)
{
    atomic_store(&overrides[p], hip);
}

const struct rfg_hip *rfg_hip_overridden(enum rfg_platform p, struct rfg_platform_report *report)
{
    const struct rfg_hip *hip = atomic_load(&overrides[p]);
    if (hip && report)
        *report = (struct rfg_platform_report){ .platform = "override", .found = true, .library = "override" };
    return hip;
}

const char *rfg_hip_error_name(hipError_t error)
{
#define NAME(e)                                                                                                        \
    case e:                                                                                                            \
        return #e;
    switch ((int)error) {
        NAME(hipSuccess)
        NAME(hipErrorInvalidValue)
        NAME(hipErrorOutOfMemory)
        NAME(hipErrorNotInitialized)
        NAME(hipErrorDeinitialized)
        NAME(hipErrorNoDevice)
        NAME(hipErrorInvalidDevice)
        NAME(hipErrorInvalidImage)
        NAME(hipErrorInvalidContext)
        NAME(hipErrorNoBinaryForGpu)
        NAME(hipErrorInvalidHandle)
        NAME(hipErrorNotFound)
        NAME(hipErrorNotReady)
        NAME(hipErrorIllegalAddress)
        NAME(hipErrorLaunchOutOfResources)
        NAME(hipErrorLaunchTimeOut)
        NAME(hipErrorLaunchFailure)
        NAME(hipErrorNotSupported)
        NAME(hipErrorStreamCaptureUnsupported)
        NAME(hipErrorStreamCaptureInvalidated)
        NAME(hipErrorStreamCaptureImplicit)
        NAME(hipErrorStreamCaptureWrongThread)
        NAME(hipErrorCapturedEvent)
        NAME(hipErrorIllegalState)
        NAME(hipErrorInvalidConfiguration)
        NAME(hipErrorInvalidDeviceFunction)
        NAME(hipErrorUnknown)
    }
#undef NAME
    return "hipError?";
}
