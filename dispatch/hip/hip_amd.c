/* SPDX-License-Identifier: MIT
 *
 * AMD: libamdhip64, loaded at run time. The functions of the table are the library's own. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "amd_facts.h"
#include "base/env.h"
#include "hip_platform.h"
#include "base/log.h"
#include "base/rocm.h"

static struct rfg_hip amd;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct rfg_platform_report found;
static const struct rfg_hip *loaded;

static const char *(*get_error_name)(hipError_t e);
/* ROCm 6 changed the struct of device properties, and gave the new one a function of its own. */
static hipError_t (*get_properties_r0600)(void *props, int device);
static hipError_t (*get_properties)(void *props, int device);

/* The place of gcnArchName in ROCm 6's struct. A later one may have moved it: what is there must look like a name. */
#define R0600_ARCH_NAME 1160
#define PROPERTIES_SIZE 8192 /* more than any release's struct needs */

static const char *amd_error_name(hipError_t e)
{
    const char *name = get_error_name(e);
    return name ? name : "unknown HIP error";
}

/* "gfx942:sramecc+:xnack-" -> "gfx942". False if there is no such name at s. */
static bool take_arch(char arch[32], const char *s, const char *end)
{
    size_t n = 0;
    while (s + n < end && n < 31 && ((s[n] >= 'a' && s[n] <= 'z') || (s[n] >= '0' && s[n] <= '9')))
        n++;
    if (n < 6 || memcmp(s, "gfx", 3) != 0)
        return false;
    memcpy(arch, s, n);
    arch[n] = 0;
    return true;
}

static hipError_t arch_of(int device, char arch[32])
{
    char *props = calloc(1, PROPERTIES_SIZE);
    if (!props)
        return hipErrorOutOfMemory;
    hipError_t e = get_properties_r0600 ? get_properties_r0600(props, device) : get_properties(props, device);
    if (e == hipSuccess) {
        const char *end = props + PROPERTIES_SIZE;
        size_t at = get_properties_r0600 ? R0600_ARCH_NAME : offsetof(hipDeviceProp_t, gcnArchName);
        bool ok = take_arch(arch, props + at, end);
        for (const char *s = props + 256; !ok && s < end; s++) /* past the device's own name */
            ok = take_arch(arch, s, end);
        e = ok ? hipSuccess : hipErrorNotFound;
    }
    free(props);
    return e;
}

/* As clr's flags.cpp takes a bool from the environment. */
bool rfg_wgp_mode(void)
{
    const char *mode = rfg_env("GPU_ENABLE_WGP_MODE");
    return !mode || !strcmp(mode, "true") || atoi(mode) != 0;
}

/* hipDeviceAttributeNumberOfXccs, of HIP 7. Older ones aren't asked: an error would be the thread's last one, which the
 * host program may look at. */
#define NUMBER_OF_XCCS ((hipDeviceAttribute_t)10018)

static int attribute(hipDeviceAttribute_t attr, int device)
{
    int value;
    return amd.hipDeviceGetAttribute(&value, attr, device) == hipSuccess && value > 0 ? value : 0;
}

static hipError_t amd_describe(int device, struct rfg_device *out)
{
    *out = (struct rfg_device){ .platform = RFG_PLATFORM_AMD };
    const struct {
        hipDeviceAttribute_t attr;
        int *value;
    } wanted[] = {
        { hipDeviceAttributeMultiprocessorCount, &out->cu_count },
        { hipDeviceAttributeWarpSize, &out->wave_size },
        { hipDeviceAttributeMaxSharedMemoryPerBlock, &out->lds_bytes },
        { hipDeviceAttributeMaxThreadsPerBlock, &out->max_threads },
    };
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        hipError_t e = amd.hipDeviceGetAttribute(wanted[i].value, wanted[i].attr, device);
        if (e != hipSuccess)
            return e;
    }
    hipError_t e = arch_of(device, out->arch);
    if (e != hipSuccess)
        return e;
    snprintf(out->name, sizeof(out->name), "amd:%d", device);
    memcpy(out->target, out->arch, sizeof(out->target));
    if (rfg_arch_of(out->arch)->wgps && rfg_wgp_mode())
        out->cu_count *= 2;

    struct rfg_memory memory = { .clock_khz = attribute(hipDeviceAttributeMemoryClockRate, device),
                                 .bus_bits = attribute(hipDeviceAttributeMemoryBusWidth, device) };
    struct rfg_kfd kfd;
    int version, pci[3];
    if (amd.hipDeviceGetName(memory.product, sizeof(memory.product), device) != hipSuccess)
        memory.product[0] = 0;
    bool placed = amd.hipDeviceGetAttribute(&pci[0], hipDeviceAttributePciDomainID, device) == hipSuccess &&
                  amd.hipDeviceGetAttribute(&pci[1], hipDeviceAttributePciBusId, device) == hipSuccess &&
                  amd.hipDeviceGetAttribute(&pci[2], hipDeviceAttributePciDeviceId, device) == hipSuccess;
    rfg_kfd_find(&kfd, out->arch, placed ? pci : NULL);
    if (amd.hipDriverGetVersion(&version) == hipSuccess && version >= 70000000)
        memory.xcds = attribute(NUMBER_OF_XCCS, device);
    if (!memory.xcds)
        memory.xcds = kfd.xcds;
    /* HIP's is the L2: one XCD's before 7.0, all of them since (ROCR, amd_gpu_agent.cpp: HSA_AGENT_INFO_CACHE_SIZE).
     * The Infinity Cache behind it is KFD's level 3, or the table's. */
    out->cache_bytes = attribute(hipDeviceAttributeL2CacheSize, device);
    if (kfd.cache_bytes > out->cache_bytes)
        out->cache_bytes = kfd.cache_bytes;
    rfg_device_peaks(out, &memory);
    return hipSuccess;
}

static void *symbol(void *lib, const char *name)
{
    void *p = dlsym(lib, name);
    if (!p && !found.problem[0])
        snprintf(found.problem, sizeof(found.problem), "%.240s has no %s", found.library, name);
    return p;
}

static void version_text(const char *before, int v, char *buf, size_t size)
{
    snprintf(buf, size, "%s%d.%d.%d", before, v / 10000000, v / 100000 % 100, v % 100000);
}

static void driver_name(int version, char *buf, size_t size)
{
    version_text("HIP ", version, buf, size);
}

static void *open_runtime(void)
{
    const struct rfg_rocm_library *hip = rfg_rocm_open(RFG_ROCM_HIP);
    snprintf(found.library, sizeof(found.library), "%s", hip->path);
    /* What the file says; the runtime says more, but only where there is a device. */
    snprintf(found.version, sizeof(found.version), "%s", hip->version);
    found.found = hip->handle;
    if (!hip->handle) {
        snprintf(found.problem, sizeof(found.problem), "%s", hip->problem);
        snprintf(found.advice, sizeof(found.advice),
                 "for an AMD GPU: apt-get install libamdhip64-5 libhiprtc-builtins5, or AMD's ROCm packages");
        return NULL;
    }
    char paths[2][512];
    if (rfg_rocm_runtimes(paths, 2) > 1)
        rfg_warn("two HIP runtimes are loaded, %s and %s; rfg uses %s, to which streams and memory of the other mean "
                 "nothing (RFG_LIBHIP names the one to use)",
                 paths[0], paths[1], hip->path);
    return hip->handle;
}

static void load(void)
{
    found.platform = "AMD";
    snprintf(found.library, sizeof(found.library), "libamdhip64.so");
    void *lib = rfg_platform_switched_off(&found, "amd") ? NULL : open_runtime();
    if (!lib)
        return;
#define X(ret, name, params, args) amd.name = (ret(*) params)symbol(lib, #name);
    RFG_HIP_ENTRIES(X)
#undef X
#define X(ret, name, params, args) amd.name = (ret(*) params)dlsym(lib, #name);
    RFG_HIP_PEER_ENTRIES(X)
#undef X
    *(void **)&get_error_name = symbol(lib, "hipGetErrorName");
    *(void **)&get_properties_r0600 = dlsym(lib, "hipGetDevicePropertiesR0600");
    if (!get_properties_r0600)
        *(void **)&get_properties = symbol(lib, "hipGetDeviceProperties");
    if (found.problem[0]) {
        snprintf(found.advice, sizeof(found.advice), "update ROCm's HIP runtime: rfg needs 5.2 or newer");
        return;
    }
    amd.error_name = amd_error_name;
    amd.describe = amd_describe;
    amd.platform = RFG_PLATFORM_AMD;
    amd.graph_tail = true;
    amd.warm_up_ms = 30;

    hipError_t e = amd.hipInit(0);
    const char *call = "hipInit";
    if (e == hipSuccess) {
        int v;
        if (amd.hipDriverGetVersion(&v) == hipSuccess)
            version_text("", v, found.version, sizeof(found.version));
        call = "hipGetDeviceCount";
        e = amd.hipGetDeviceCount(&found.devices);
    }
    /* Both are what HIP says on a machine without an AMD GPU (5.2 and 5.7: the second). */
    if (e == hipErrorNoDevice || e == hipErrorInvalidDevice || (e == hipSuccess && found.devices == 0)) {
        found.devices = 0;
        if (e == hipSuccess)
            snprintf(found.problem, sizeof(found.problem), "no AMD device");
        else
            snprintf(found.problem, sizeof(found.problem), "no AMD device (%s: %s, %d)", call, amd_error_name(e),
                     (int)e);
    } else if (e != hipSuccess) {
        found.devices = 0;
        snprintf(found.problem, sizeof(found.problem), "%s: %s (%d)", call, amd_error_name(e), (int)e);
    } else {
        loaded = &amd;
        return;
    }
    snprintf(
        found.advice, sizeof(found.advice),
        "for an AMD GPU: load the kernel's amdgpu driver; /dev/kfd and /dev/dri/render* must be there and yours to "
        "open (group render, on some systems video); HIP_VISIBLE_DEVICES must not hide it");
}

static const struct rfg_hip *get(struct rfg_platform_report *report)
{
    const struct rfg_hip *hip = rfg_hip_overridden(RFG_PLATFORM_AMD, report);
    if (hip)
        return hip;
    pthread_once(&once, load);
    if (report)
        *report = found;
    return loaded;
}

const struct rfg_hip_platform rfg_platform_amd = {
    .id = RFG_PLATFORM_AMD,
    .name = "amd",
    .devices = "amd:N",
    .hardware = true,
    .load = get,
    .find = rfg_platform_ordinal,
    .driver_name = driver_name,
    .facts = rfg_amd_facts,
};
