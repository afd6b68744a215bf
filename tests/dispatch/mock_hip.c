/* SPDX-License-Identifier: MIT
 *
 * A mock libamdhip64 with one device that only answers queries. $MOCK_HIP is
 *   arch|name|processors|memory clock in kHz|bus width in bits|L2 bytes|hipDriverGetVersion()|XCCs|bus
 * Of the rest of the table, in mock_hip_rest.c, nothing works. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch/hip/hip.h"

static struct {
    char arch[64], name[64];
    int processors, khz, bits, l2, version, xccs, bus;
} mock;

hipError_t hipInit(unsigned flags)
{
    const char *text = getenv("MOCK_HIP");
    (void)flags;
    return text && sscanf(text, "%63[^|]|%63[^|]|%d|%d|%d|%d|%d|%d|%d", mock.arch, mock.name, &mock.processors,
                          &mock.khz, &mock.bits, &mock.l2, &mock.version, &mock.xccs, &mock.bus) == 9
               ? hipSuccess
               : hipErrorNoDevice;
}

hipError_t hipDriverGetVersion(int *version)
{
    *version = mock.version;
    return hipSuccess;
}

hipError_t hipGetDeviceCount(int *count)
{
    *count = 1;
    return hipSuccess;
}

hipError_t hipDeviceGetName(char *name, int len, hipDevice_t device)
{
    snprintf(name, (size_t)len, "%s", strcmp(mock.name, "-") ? mock.name : "");
    return device ? hipErrorInvalidDevice : hipSuccess;
}

hipError_t hipGetDeviceProperties(hipDeviceProp_t *props, int device)
{
    memset(props, 0, sizeof(*props));
    snprintf(props->gcnArchName, sizeof(props->gcnArchName), "%s", mock.arch);
    return device ? hipErrorInvalidDevice : hipSuccess;
}

#define NUMBER_OF_XCCS 10018

/* Before 7.0 there is no such attribute, and asking would leave the thread an error that its program finds: ends it. */
hipError_t hipDeviceGetAttribute(int *value, hipDeviceAttribute_t attr, int device)
{
    const struct {
        int attr, value;
    } known[] = {
        { hipDeviceAttributeMultiprocessorCount, mock.processors },
        { hipDeviceAttributePhysicalMultiProcessorCount, mock.processors },
        { hipDeviceAttributeWarpSize, strncmp(mock.arch, "gfx9", 4) ? 32 : 64 },
        { hipDeviceAttributeMaxSharedMemoryPerBlock, 65536 },
        { hipDeviceAttributeMaxThreadsPerBlock, 1024 },
        { hipDeviceAttributeMemoryClockRate, mock.khz },
        { hipDeviceAttributeMemoryBusWidth, mock.bits },
        { hipDeviceAttributeL2CacheSize, mock.l2 },
        { hipDeviceAttributePciDomainID, 0 },
        { hipDeviceAttributePciBusId, mock.bus },
        { hipDeviceAttributePciDeviceId, 0 },
        { NUMBER_OF_XCCS, mock.xccs },
    };
    if (device)
        return hipErrorInvalidDevice;
    if ((int)attr == NUMBER_OF_XCCS && mock.version < 70000000) {
        fprintf(stderr, "mock_hip: HIP %d was asked for XCCs\n", mock.version);
        abort();
    }
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (known[i].attr == (int)attr) {
            *value = known[i].value;
            return hipSuccess;
        }
    return hipErrorInvalidValue;
}

const char *hipGetErrorName(hipError_t e)
{
    return e == hipSuccess ? "hipSuccess" : "hipErrorUnknown";
}
