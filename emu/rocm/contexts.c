/* SPDX-License-Identifier: MIT
 *
 * HIP's other calls for devices, and its contexts: a device's is the device. */
#include <stdio.h>
#include <string.h>

#include "rocm.h"

#define EXISTS(d) ((d) >= 0 && (d) < emu_n_devices)

hipError_t hipDeviceGet(hipDevice_t *device, int ordinal)
{
    rocm_start();
    if (!device)
        return rocm_end(hipErrorInvalidValue);
    if (!EXISTS(ordinal))
        return rocm_end(hipErrorInvalidDevice);
    *device = ordinal;
    return rocm_end(hipSuccess);
}

hipError_t hipDeviceComputeCapability(int *major, int *minor, hipDevice_t device)
{
    hipError_t e = hipDeviceGetAttribute(major, hipDeviceAttributeComputeCapabilityMajor, device);
    return e != hipSuccess ? e : hipDeviceGetAttribute(minor, hipDeviceAttributeComputeCapabilityMinor, device);
}

hipError_t hipDeviceGetPCIBusId(char *id, int len, int device)
{
    rocm_start();
    if (!id || len < 1)
        return rocm_end(hipErrorInvalidValue);
    if (!EXISTS(device))
        return rocm_end(hipErrorInvalidDevice);
    snprintf(id, (size_t)len, "0000:%02x:00.0", (unsigned)emu_devices[device].card.pci_bus);
    return rocm_end(hipSuccess);
}

hipError_t hipDeviceGetByPCIBusId(int *device, const char *id)
{
    unsigned domain, bus;
    rocm_start();
    if (device && id && sscanf(id, "%x:%x:", &domain, &bus) == 2)
        for (int i = 0; i < emu_n_devices; i++)
            if (domain == 0 && emu_devices[i].card.pci_bus == (int)bus) {
                *device = i;
                return rocm_end(hipSuccess);
            }
    return rocm_end(hipErrorInvalidValue);
}

hipError_t uuid_of(char uuid[16], hipDevice_t device) __asm__("hipDeviceGetUuid");
hipError_t uuid_of(char uuid[16], hipDevice_t device)
{
    rocm_start();
    if (!uuid || !EXISTS(device))
        return rocm_end(uuid ? hipErrorInvalidDevice : hipErrorInvalidValue);
    char text[24];
    snprintf(text, sizeof(text), "emulated%08x", (unsigned)device);
    memcpy(uuid, text, 16);
    return rocm_end(hipSuccess);
}

hipError_t hipDeviceCanAccessPeer(int *can, int device, int peer)
{
    rocm_start();
    if (!can || !EXISTS(device) || !EXISTS(peer))
        return rocm_end(can ? hipErrorInvalidDevice : hipErrorInvalidValue);
    *can = 0;
    return rocm_end(hipSuccess);
}

hipError_t hipSetDeviceFlags(unsigned flags)
{
    (void)flags;
    return rocm_end(hipSuccess);
}

hipError_t hipDeviceSetCacheConfig(hipFuncCache_t config)
{
    (void)config;
    return rocm_end(hipSuccess);
}

/* ---- contexts --------------------------------------------------------------------------------------------------- */

static hipCtx_t context_of(int device)
{
    return (hipCtx_t)&emu_devices[device];
}

static int device_of(hipCtx_t ctx)
{
    for (int i = 0; i < emu_n_devices; i++)
        if (context_of(i) == ctx)
            return i;
    return -1;
}

hipError_t hipCtxCreate(hipCtx_t *ctx, unsigned flags, hipDevice_t device)
{
    (void)flags;
    hipError_t e = ctx ? hipSetDevice(device) : rocm_end(hipErrorInvalidValue);
    if (e == hipSuccess)
        *ctx = context_of(device);
    return e;
}

hipError_t hipCtxDestroy(hipCtx_t ctx)
{
    return rocm_end(device_of(ctx) >= 0 ? hipSuccess : hipErrorInvalidValue);
}

hipError_t hipCtxGetCurrent(hipCtx_t *ctx)
{
    int d;
    hipError_t e = ctx ? hipGetDevice(&d) : rocm_end(hipErrorInvalidValue);
    if (e == hipSuccess)
        *ctx = context_of(d);
    return e;
}

hipError_t hipCtxSetCurrent(hipCtx_t ctx)
{
    return ctx ? hipSetDevice(device_of(ctx)) : rocm_end(hipSuccess);
}

/* The thread's contexts below the current one. */
static _Thread_local struct {
    int device[16];
    int n;
} pushed;

hipError_t hipCtxPushCurrent(hipCtx_t ctx)
{
    int before;
    hipError_t e = pushed.n < 16 ? hipGetDevice(&before) : rocm_end(hipErrorOutOfMemory);
    if (e == hipSuccess)
        e = hipSetDevice(device_of(ctx));
    if (e == hipSuccess)
        pushed.device[pushed.n++] = before;
    return e;
}

hipError_t hipCtxPopCurrent(hipCtx_t *ctx)
{
    hipError_t e = pushed.n ? hipSuccess : rocm_end(hipErrorInvalidContext);
    if (e == hipSuccess && ctx)
        e = hipCtxGetCurrent(ctx);
    return e == hipSuccess ? hipSetDevice(pushed.device[--pushed.n]) : e;
}

hipError_t hipCtxGetDevice(hipDevice_t *device)
{
    return hipGetDevice(device);
}

hipError_t hipCtxSynchronize(void)
{
    return hipDeviceSynchronize();
}

hipError_t hipDevicePrimaryCtxRetain(hipCtx_t *ctx, hipDevice_t device)
{
    rocm_start();
    if (!ctx || !EXISTS(device))
        return rocm_end(ctx ? hipErrorInvalidDevice : hipErrorInvalidValue);
    *ctx = context_of(device);
    return rocm_end(hipSuccess);
}

hipError_t hipDevicePrimaryCtxRelease(hipDevice_t device)
{
    return rocm_end(EXISTS(device) ? hipSuccess : hipErrorInvalidDevice);
}

hipError_t hipDevicePrimaryCtxGetState(hipDevice_t device, unsigned *flags, int *active)
{
    int current = -1;
    hipError_t e = hipGetDevice(&current);
    if (flags)
        *flags = 0;
    if (active)
        *active = current == device;
    return e;
}
