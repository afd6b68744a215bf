/* SPDX-License-Identifier: MIT
 *
 * A shared library that tests copy under the names of ROCm's: a HIP runtime with one GPU that does nothing, which
 * counts its calls. Its soname is a place for another one (test_which_rocm.c writes it into the copy). */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#pragma GCC visibility push(default)
#include "dispatch/hip/hip.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

int fake_rocm_calls;
hipError_t hipGetDevicePropertiesR0600(void *props, int device);
void hiprtcCreateProgram(void);

static int attribute(hipDeviceAttribute_t attr)
{
    switch ((int)attr) {
    case hipDeviceAttributeMultiprocessorCount:
        return 304;
    case hipDeviceAttributeWarpSize:
        return 64;
    case hipDeviceAttributeMaxSharedMemoryPerBlock:
        return 65536;
    case hipDeviceAttributeMaxThreadsPerBlock:
        return 1024;
    case hipDeviceAttributeL2CacheSize:
        return 4 << 20;
    default:
        return 0;
    }
}

static hipError_t answer(const char *name, ...)
{
    va_list ap;
    va_start(ap, name);
    fake_rocm_calls++;
    if (!strcmp(name, "hipGetDeviceCount")) {
        *va_arg(ap, int *) = 1;
    } else if (!strcmp(name, "hipDriverGetVersion")) {
        *va_arg(ap, int *) = 60443483;
    } else if (!strcmp(name, "hipGetDevice")) {
        *va_arg(ap, int *) = 0;
    } else if (!strcmp(name, "hipDeviceGetName")) {
        char *text = va_arg(ap, char *);
        int size = va_arg(ap, int);
        snprintf(text, (size_t)size, "a fake GPU");
    } else if (!strcmp(name, "hipDeviceTotalMem")) {
        *va_arg(ap, size_t *) = (size_t)1 << 30;
    } else if (!strcmp(name, "hipDeviceGetAttribute")) {
        int *value = va_arg(ap, int *);
        *value = attribute((hipDeviceAttribute_t)va_arg(ap, int));
    }
    va_end(ap);
    return hipSuccess;
}

#define LIST(...) , ##__VA_ARGS__
#define X(ret, name, params, args)                                                                                     \
    ret name params                                                                                                    \
    {                                                                                                                  \
        return answer(#name LIST args);                                                                                \
    }
RFG_HIP_ENTRIES(X)
#undef X

const char *hipGetErrorName(hipError_t e)
{
    return e == hipSuccess ? "hipSuccess" : "hipErrorUnknown";
}

hipError_t hipGetDevicePropertiesR0600(void *props, int device)
{
    strcpy((char *)props + 1160, "gfx942:sramecc+:xnack-"); /* as hip_amd.c says */
    return hipSuccess;
}

/* That hipRTC is in this library; the tests take it out of copies that have none. */
void hiprtcCreateProgram(void)
{
}
