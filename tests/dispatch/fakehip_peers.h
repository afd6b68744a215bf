/* SPDX-License-Identifier: MIT
 *
 * fakehip.c's memory that others reach: pinned memory of the host, of peers, of other processes (which are this one). */
#ifndef RFG_TESTS_FAKEHIP_PEERS_H
#define RFG_TESTS_FAKEHIP_PEERS_H

#include "fakehip.h"
#include "fakehip_objects.h"

static struct fakehip_peers peers = { .uncached = true, .reach = true, .ipc = true };
static bool enabled[DEVICES][DEVICES];

void fakehip_peers(const struct fakehip_peers *are)
{
    peers = *are;
    memset(enabled, 0, sizeof(enabled));
}

static hipError_t do_hipHostMalloc(void **ptr, size_t size, unsigned flags)
{
    if (forbidden("hipHostMalloc"))
        return hipErrorStreamCaptureUnsupported;
    if (flags != (hipHostMallocPortable | hipHostMallocMapped))
        return misused(hipErrorInvalidValue, "memory of the host that not all devices reach");
    struct object *o = add(HOST);
    if (!(o->mem = malloc(size)))
        abort();
    memset(o->mem, 0xdb, size);
    *ptr = o->mem;
    return hipSuccess;
}

static hipError_t do_hipHostFree(void *ptr)
{
    if (forbidden("hipHostFree"))
        return hipErrorStreamCaptureUnsupported;
    catch_up_all();
    return ptr ? destroy(ptr, HOST) : hipSuccess;
}

static hipError_t do_hipExtMallocWithFlags(void **ptr, size_t size, unsigned flags)
{
    if (flags != hipDeviceMallocFinegrained && flags != FAKEHIP_UNCACHED)
        return misused(hipErrorInvalidValue, "memory that peers' stores don't reach in time");
    return flags == FAKEHIP_UNCACHED && !peers.uncached ? hipErrorInvalidValue : do_hipMalloc(ptr, size);
}

static hipError_t do_hipDeviceCanAccessPeer(int *can, int device, int peer)
{
    if (device < 0 || device >= DEVICES || peer < 0 || peer >= DEVICES || device == peer)
        return misused(hipErrorInvalidDevice, "no two devices");
    *can = peers.reach;
    return hipSuccess;
}

static hipError_t do_hipDeviceEnablePeerAccess(int peer, unsigned flags)
{
    if (flags || peer < 0 || peer >= DEVICES || peer == current)
        return misused(hipErrorInvalidDevice, "no peer");
    if (enabled[current][peer])
        return hipErrorPeerAccessAlreadyEnabled;
    enabled[current][peer] = true;
    return hipSuccess;
}

static hipError_t do_hipIpcGetMemHandle(hipIpcMemHandle_t *handle, void *ptr)
{
    if (!find(ptr, ALLOCATION))
        return misused(hipErrorInvalidValue, "a handle of no allocation");
    memset(handle, 0x77, sizeof(*handle)); /* of a call that fails nothing may be taken */
    if (!peers.ipc)
        return hipErrorNotSupported;
    memcpy(handle, &ptr, sizeof(ptr));
    return hipSuccess;
}

static hipError_t do_hipIpcOpenMemHandle(void **ptr, hipIpcMemHandle_t handle, unsigned flags)
{
    void *theirs;
    memcpy(&theirs, &handle, sizeof(theirs));
    if (flags != 1 /* lazy peer access, in ROCm 6 and later */ || !find(theirs, ALLOCATION))
        return misused(hipErrorInvalidValue, "no handle of an allocation");
    if (!peers.reach)
        return hipErrorPeerAccessUnsupported;
    struct object *o = add(OPENED);
    o->mem = malloc(1); /* its address stands for the memory's in this process */
    *ptr = o->mem;
    return hipSuccess;
}

static hipError_t do_hipIpcCloseMemHandle(void *ptr)
{
    return destroy(ptr, OPENED);
}

#endif
