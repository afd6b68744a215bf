/* SPDX-License-Identifier: MIT
 *
 * The emulated GPU behind the HIP table. Work runs when it is queued, in the calling thread and its helpers, so that a
 * stream is always idle when a call comes back; captured work runs when its graph is launched.
 *
 * A kernel's fault is the error of the launch that ran it (a real GPU tells at the next synchronisation, and is lost
 * to the process). What stays of it emu_rules.on_fault says: of emu:ARCH nothing; the report says where it happened,
 * and a test or a sweep wants to go on with the next kernel. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hip_impl.h"
#include "emu/isa/llvm.h"

#define MAX_CUS 65535

/* ---- devices ----------------------------------------------------------------------------------------------------- */

int rfg_emu_open(const char *name, char *error, size_t size)
{
    char arch_name[32];
    size_t len = strcspn(name, ":");
    const struct emu_arch *arch = NULL;
    if (len < sizeof(arch_name)) {
        memcpy(arch_name, name, len);
        arch_name[len] = 0;
        arch = emu_arch_find(arch_name);
    }
    if (!arch || !arch->emulated) {
        char names[256];
        emu_arch_names(names, sizeof(names));
        snprintf(error, size, "'%.*s' is not emulated: must be one of %s", (int)(len < 40 ? len : 40), name, names);
        return -1;
    }
    long cus = arch->cu_count;
    if (name[len]) {
        char *end;
        cus = name[len + 1] >= '0' && name[len + 1] <= '9' ? strtol(name + len + 1, &end, 10) : 0;
        if (cus < 1 || cus > MAX_CUS || *end) {
            snprintf(error, size, "'%.40s' is not a number of CUs: must be from 1 to %d", name + len + 1, MAX_CUS);
            return -1;
        }
    }
    LOCKED;
    for (int i = 0; i < emu_n_devices; i++)
        if (emu_devices[i].arch == arch && emu_devices[i].cu_count == (int)cus)
            return i;
    int n = emu_add_device(arch, (int)cus, &(struct card){ .multiprocessors = (int)cus });
    if (n < 0)
        snprintf(error, size, "it would be number %d: there may be %d emulated devices", emu_n_devices + 1,
                 EMU_MAX_DEVICES);
    return n;
}

hipError_t emu_hipInit(unsigned flags)
{
    return flags ? hipErrorInvalidValue : hipSuccess;
}

hipError_t emu_hipDriverGetVersion(int *version)
{
    if (!version)
        return hipErrorInvalidValue;
    *version = emu_rules.version;
    return hipSuccess;
}

hipError_t emu_hipGetDeviceCount(int *count)
{
    if (!count)
        return hipErrorInvalidValue;
    LOCKED;
    *count = emu_n_devices;
    return emu_n_devices ? hipSuccess : hipErrorNoDevice;
}

hipError_t emu_hipDeviceGetAttribute(int *value, hipDeviceAttribute_t attr, int device)
{
    LOCKED;
    if (device < 0 || device >= emu_n_devices)
        return hipErrorInvalidDevice;
    const struct device *d = &emu_devices[device];
    const struct {
        hipDeviceAttribute_t attr;
        int value;
    } known[] = {
        { hipDeviceAttributeMultiprocessorCount, d->card.multiprocessors },
        { hipDeviceAttributePhysicalMultiProcessorCount, d->card.multiprocessors },
        { hipDeviceAttributeWarpSize, d->arch->wave_size },
        { hipDeviceAttributeMaxSharedMemoryPerBlock, d->arch->lds_bytes },
        { hipDeviceAttributeMaxSharedMemoryPerMultiprocessor, d->arch->lds_bytes },
        { hipDeviceAttributeMaxThreadsPerBlock, 1024 },
        { hipDeviceAttributeMaxThreadsPerMultiProcessor,
          d->arch->simds * d->arch->waves_per_simd * d->arch->wave_size },
        { hipDeviceAttributeMaxRegistersPerBlock, 65536 },
        { hipDeviceAttributeMaxBlockDimX, 1024 },
        { hipDeviceAttributeMaxBlockDimY, 1024 },
        { hipDeviceAttributeMaxBlockDimZ, 1024 },
        { hipDeviceAttributeMaxGridDimX, 0x7FFFFFFF },
        { hipDeviceAttributeMaxGridDimY, 65536 },
        { hipDeviceAttributeMaxGridDimZ, 65536 },
        { hipDeviceAttributeComputeCapabilityMajor, emu_major(d->arch) },
        { hipDeviceAttributeComputeCapabilityMinor, d->arch->gfx >> 4 & 15 },
        { hipDeviceAttributeCooperativeLaunch, 1 },
        { hipDeviceAttributeL2CacheSize, d->card.l2_bytes },
        { hipDeviceAttributeMemoryBusWidth, d->card.bus_bits },
        { hipDeviceAttributeMemoryClockRate, d->card.mem_khz },
        { hipDeviceAttributeClockRate, d->card.clock_khz },
        { hipDeviceAttributePciDomainID, 0 },
        { hipDeviceAttributePciBusId, d->card.pci_bus },
        { hipDeviceAttributePciDeviceId, 0 },
        { hipDeviceAttributeIntegrated, 0 },
        { hipDeviceAttributeManagedMemory, 0 },
        { hipDeviceAttributeMemoryPoolsSupported, 0 },
        { hipDeviceAttributeCanMapHostMemory, 1 },
        { hipDeviceAttributeUnifiedAddressing, 1 },
    };
    if (value && d->card.xccs && (int)attr == 10018) { /* hipDeviceAttributeNumberOfXccs, of HIP 7 */
        *value = d->card.xccs;
        return hipSuccess;
    }
    for (size_t i = 0; value && i < sizeof(known) / sizeof(known[0]); i++)
        if (known[i].attr == attr) {
            *value = known[i].value;
            return hipSuccess;
        }
    return hipErrorInvalidValue;
}

hipError_t emu_hipDeviceGetName(char *name, int len, hipDevice_t device)
{
    LOCKED;
    if (device < 0 || device >= emu_n_devices)
        return hipErrorInvalidDevice;
    if (!name || len < 1)
        return hipErrorInvalidValue;
    const struct device *d = &emu_devices[device];
    snprintf(name, (size_t)len, "%s%s", d->card.name ? "" : "emulated ", d->card.name ? d->card.name : d->arch->name);
    return hipSuccess;
}

hipError_t emu_hipDeviceTotalMem(size_t *bytes, hipDevice_t device)
{
    LOCKED;
    if (device < 0 || device >= emu_n_devices)
        return hipErrorInvalidDevice;
    if (!bytes)
        return hipErrorInvalidValue;
    *bytes = emu_devices[device].memory.limit;
    return hipSuccess;
}

static hipError_t describe(int device, struct rfg_device *out)
{
    LOCKED;
    if (device < 0 || device >= emu_n_devices)
        return hipErrorInvalidDevice;
    const struct device *d = &emu_devices[device];
    char spec[32];
    const char *sold = emu_arch_sold(d->arch);
    snprintf(spec, sizeof(spec), "%.16s:%d", sold, d->cu_count);
    if (!rfg_device_imagine(out, spec))
        return hipErrorInvalidDevice;
    snprintf(out->name, sizeof(out->name), "emu:%s:%d", d->arch->name, d->cu_count);
    if (strcmp(sold, d->arch->name))
        snprintf(out->target, sizeof(out->target), "%s", d->arch->name);
    out->hw = rfg_arch_of(out->target);
    /* An emulator's times are not the GPU's: its tuned rows bear a name that no GPU has. */
    snprintf(out->arch, sizeof(out->arch), RFG_EMU_PREFIX "%s", d->arch->name);
    out->platform = RFG_PLATFORM_EMU;
    out->cache_bytes = 0; /* nothing to rotate past */
    return hipSuccess;
}

/* ---- peers ------------------------------------------------------------------------------------------------------- */

static hipError_t host_malloc(void **ptr, size_t size, unsigned flags)
{
    LOCKED;
    (void)flags;
    hipError_t e = emu_not_while_capturing();
    if (e == hipSuccess && !(*ptr = emu_host_alloc(size)))
        e = hipErrorOutOfMemory;
    return e;
}

static hipError_t host_free(void *ptr)
{
    LOCKED;
    return emu_free(ptr);
}

static hipError_t ext_malloc(void **ptr, size_t size, unsigned flags)
{
    (void)flags;
    return emu_hipMalloc(ptr, size);
}

/* Joint launches see all devices' memory; no other kernels see another's. */
static hipError_t can_access_peer(int *can, int device, int peer)
{
    LOCKED;
    if (!can || device < 0 || device >= emu_n_devices || peer < 0 || peer >= emu_n_devices)
        return can ? hipErrorInvalidDevice : hipErrorInvalidValue;
    *can = device != peer;
    return hipSuccess;
}

static hipError_t enable_peer_access(int peer, unsigned flags)
{
    LOCKED;
    return flags || peer < 0 || peer >= emu_n_devices ? hipErrorInvalidValue : hipSuccess;
}

/* ---- the table --------------------------------------------------------------------------------------------------- */
static const struct rfg_hip table = {
#define X(ret, name, params, args) .name = emu_##name,
    RFG_HIP_ENTRIES(X)
#undef X
        .error_name = rfg_hip_error_name,
    .hipHostMalloc = host_malloc,
    .hipHostFree = host_free,
    .hipExtMallocWithFlags = ext_malloc,
    .hipDeviceCanAccessPeer = can_access_peer,
    .hipDeviceEnablePeerAccess = enable_peer_access,
    .launch_joint = emu_launch_joint,
    .describe = describe,
    .platform = RFG_PLATFORM_EMU,
};

const struct rfg_hip *rfg_hip_emu(struct rfg_platform_report *report)
{
    if (report) {
        char names[256];
        *report = (struct rfg_platform_report){ .platform = "emulator" };
        report->found = emu_disasm_ready(report->problem, sizeof(report->problem));
        emu_arch_names(names, sizeof(names));
        snprintf(report->library, sizeof(report->library), "emu:ARCH[:CUS] of %s", names);
        if (!report->found)
            snprintf(report->advice, sizeof(report->advice), "apt-get install libllvm19, or set RFG_LIBLLVM");
    }
    return &table;
}

static void driver_name(int version, char *buf, size_t size)
{
    (void)version;
    snprintf(buf, size, "emulator " RFG_VERSION);
}

const struct rfg_hip_platform rfg_platform_emu = {
    .id = RFG_PLATFORM_EMU,
    .name = "emu",
    .devices = "emu:ARCH[:CUS]",
    .load = rfg_hip_emu,
    .find = rfg_emu_open,
    .driver_name = driver_name,
};
