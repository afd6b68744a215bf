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
#include <unistd.h>

#include "hip_impl.h"
#include "emu/isa/llvm.h"
#include "emu/check/watch.h"

#define MAX_CUS 65535

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local int current;
struct device emu_devices[EMU_MAX_DEVICES];
int emu_n_devices;
struct object *emu_objects;
/* emu:ARCH is strict where the releases differ. */
struct emu_rules emu_rules = { .version = 60000000,
                               .code_object = 6,
                               .capture_breaks = true,
                               .sync_breaks = true,
                               .bad_stream = hipErrorInvalidHandle,
                               .bad_launch_stream = hipErrorInvalidHandle,
                               .no_grid = hipErrorInvalidConfiguration,
                               .no_block = hipErrorInvalidConfiguration,
                               .large_block = hipErrorInvalidConfiguration };

bool emu_hip_lock(void)
{
    pthread_mutex_lock(&mutex);
    return true;
}

void emu_hip_unlock(const bool *held)
{
    (void)held;
    pthread_mutex_unlock(&mutex);
}

/* ---- objects --------------------------------------------------------------------------------------------------------
 */

void *emu_make(enum kind kind, size_t size)
{
    struct object *o = calloc(1, size);
    if (o) {
        o->kind = kind;
        o->next = emu_objects;
        emu_objects = o;
    }
    return o;
}

bool emu_is(const void *handle, enum kind kind)
{
    for (const struct object *o = emu_objects; o; o = o->next)
        if (o == handle)
            return o->kind == kind;
    return false;
}

void emu_forget(void *handle)
{
    struct object **at = &emu_objects;
    while (*at != handle)
        at = &(*at)->next;
    *at = (*at)->next;
    free(handle);
}

struct device *emu_here(void)
{
    return current < emu_n_devices ? &emu_devices[current] : NULL;
}

/* ---- devices --------------------------------------------------------------------------------------------------------
 */

static pthread_once_t watched = PTHREAD_ONCE_INIT;

int emu_add_device(const struct emu_arch *arch, int cu_count, const struct card *card)
{
    if (emu_n_devices == EMU_MAX_DEVICES)
        return -1;
    pthread_once(&watched, emu_watch);
    struct device *d = &emu_devices[emu_n_devices];
    d->arch = arch;
    d->cu_count = cu_count;
    d->card = *card;
    d->memory.limit = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    return emu_n_devices++;
}

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

hipError_t emu_hipSetDevice(int device)
{
    LOCKED;
    if (device < 0 || device >= emu_n_devices)
        return hipErrorInvalidDevice;
    current = device;
    return hipSuccess;
}

hipError_t emu_hipGetDevice(int *device)
{
    if (!device)
        return hipErrorInvalidValue;
    LOCKED;
    if (!emu_here())
        return hipErrorNoDevice;
    *device = current;
    return hipSuccess;
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
    /* gfx940 and gfx941 were never sold: gfx942's figures are theirs. */
    const char *sold = d->arch->gfx == 0x942 ? "gfx942" : d->arch->name;
    snprintf(spec, sizeof(spec), "%.16s:%d", sold, d->cu_count);
    if (!rfg_device_imagine(out, spec))
        return hipErrorInvalidDevice;
    snprintf(out->name, sizeof(out->name), "emu:%s:%d", d->arch->name, d->cu_count);
    if (sold != d->arch->name)
        snprintf(out->target, sizeof(out->target), "%s", d->arch->name);
    /* An emulator's times are not the GPU's: its tuned rows bear a name that no GPU has. */
    snprintf(out->arch, sizeof(out->arch), RFG_EMU_PREFIX "%s", d->arch->name);
    out->platform = RFG_PLATFORM_EMU;
    out->cache_bytes = 0; /* nothing to rotate past */
    return hipSuccess;
}

/* ---- memory ---------------------------------------------------------------------------------------------------------
 */

hipError_t emu_hipMalloc(void **ptr, size_t size)
{
    LOCKED;
    hipError_t e = emu_not_while_capturing();
    if (e != hipSuccess)
        return e;
    if (!ptr || !emu_here())
        return ptr ? hipErrorNoDevice : hipErrorInvalidValue;
    *ptr = NULL;
    if (!size)
        return hipSuccess;
    const struct emu_block *b = emu_memory_alloc(&emu_here()->memory, size);
    if (!b)
        return hipErrorOutOfMemory;
    *ptr = (void *)(uintptr_t)b->lo;
    return hipSuccess;
}

struct emu_block *emu_find_block(const void *p)
{
    for (int i = 0; i < emu_n_devices; i++) {
        struct emu_block *b = emu_memory_find(&emu_devices[i].memory, (uint64_t)(uintptr_t)p);
        if (b && !b->freed && (uint64_t)(uintptr_t)p < b->hi)
            return b;
    }
    return NULL;
}

static void host_wrote(struct emu_block *b, const void *p, size_t size)
{
    if (emu_hooks->host_write)
        emu_hooks->host_write(b, (uint64_t)(uintptr_t)p, size);
}

void *emu_host_alloc(size_t size)
{
    struct emu_block *b = emu_here() ? emu_memory_alloc(&emu_here()->memory, size) : NULL;
    if (!b)
        return NULL;
    b->host = true;
    host_wrote(b, (void *)(uintptr_t)b->lo, size);
    return (void *)(uintptr_t)b->lo;
}

hipError_t emu_hipFree(void *ptr)
{
    LOCKED;
    emu_order_host_all(); /* it waits for the device */
    return emu_free(ptr);
}

hipError_t emu_free(void *ptr)
{
    hipError_t e = emu_not_while_capturing();
    if (e != hipSuccess || !ptr)
        return e;
    bool freed = false;
    for (int i = 0; i < emu_n_devices && !freed; i++)
        if (emu_memory_free(&emu_devices[i].memory, ptr, &freed))
            return hipSuccess;
    if (freed)
        emu_report_launch(NULL, "double-free", "hipFree(%p): it was freed before", ptr);
    return hipErrorInvalidValue;
}

/* Any device's: pointers say whose they are. */
struct emu_block *emu_find_range(const void *p, size_t size, bool write, const char *call)
{
    char why[256] = "there is no device";
    for (int i = 0; i < emu_n_devices; i++) {
        char text[256];
        if (emu_memory_check(&emu_devices[i].memory, p, size, write, text, sizeof(text)))
            return emu_memory_find(&emu_devices[i].memory, (uint64_t)(uintptr_t)p);
        if (i == 0 || i == current)
            snprintf(why, sizeof(why), "%s", text);
    }
    emu_report_launch(NULL, "host-copy-out-of-bounds", "%s of %zu bytes at %p: %s", call, size, p, why);
    return NULL;
}

static bool is_device(const void *p)
{
    for (int i = 0; i < emu_n_devices; i++)
        if (emu_memory_owns(&emu_devices[i].memory, p))
            return true;
    return false;
}

bool emu_copy_fits(const void *p, size_t size, bool write, const char *call)
{
    return !is_device(p) || emu_find_range(p, size, write, call);
}

/* A copy that the host waits for. b: what it writes, of a device; NULL: the host's. */
static hipError_t copied_now(const char *call, void *dst, const void *src, size_t size, struct emu_block *b)
{
    emu_order_begin(NULL, "%s of %zu bytes", call, size);
    emu_order_touch(src, size, EMU_TOUCH_READ);
    emu_order_touch(dst, size, EMU_TOUCH_WRITE);
    memcpy(dst, src, size);
    if (b)
        host_wrote(b, dst, size);
    bool ordered = emu_order_end(NULL, 0);
    emu_order_host_stream(NULL);
    return ordered ? hipSuccess : hipErrorLaunchFailure;
}

hipError_t emu_hipMemcpyHtoD(hipDeviceptr_t dst, void *src, size_t size)
{
    LOCKED;
    hipError_t e = emu_blocking_ok();
    if (e != hipSuccess || !size)
        return e;
    struct emu_block *b = src ? emu_find_range(dst, size, true, "hipMemcpyHtoD") : NULL;
    if (!b || !emu_copy_fits(src, size, false, "hipMemcpyHtoD"))
        return hipErrorInvalidValue;
    return copied_now("hipMemcpyHtoD", dst, src, size, b);
}

hipError_t emu_hipMemcpyDtoH(void *dst, hipDeviceptr_t src, size_t size)
{
    LOCKED;
    hipError_t e = emu_blocking_ok();
    if (e != hipSuccess || !size)
        return e;
    if (!dst || !emu_find_range(src, size, false, "hipMemcpyDtoH") || !emu_copy_fits(dst, size, true, "hipMemcpyDtoH"))
        return hipErrorInvalidValue;
    return copied_now("hipMemcpyDtoH", dst, src, size, NULL);
}

/* What a copy or a memset touches is the device's where it should be. */
static bool is_there(const struct node *n, struct emu_block **to)
{
    const char *call = n->src ? "hipMemcpyAsync" : "hipMemsetD8Async";
    bool writes =
        !n->src || n->kind == hipMemcpyHostToDevice || n->kind == hipMemcpyDeviceToDevice || is_device(n->dst);
    bool reads =
        n->src && (n->kind == hipMemcpyDeviceToHost || n->kind == hipMemcpyDeviceToDevice || is_device(n->src));
    *to = writes ? emu_find_range(n->dst, n->size, true, call) : NULL;
    return (*to || !writes) && (!reads || emu_find_range(n->src, n->size, false, call));
}

/* The side of a copy that is the host's own memory, known to the runtime (pinned) or not. */
static const void *host_side(const struct node *n, bool *is_pinned)
{
    const void *side[] = { n->dst, n->src }, *found = NULL;
    *is_pinned = true;
    for (int i = 0; i < 2 && n->src; i++) {
        const struct emu_block *b = emu_find_block(side[i]);
        if (!b)
            *is_pinned = false;
        else if (b->host)
            found = side[i];
    }
    return found;
}

hipError_t emu_run_copy(hipStream_t stream, const struct node *n, bool replayed)
{
    struct emu_block *to;
    bool is_pinned;
    if (!is_there(n, &to))
        return hipErrorInvalidValue;
    const void *host = host_side(n, &is_pinned);
    emu_order_begin(stream, "%s of %zu bytes", n->src ? "hipMemcpyAsync" : "hipMemsetAsync", n->size);
    if (n->src)
        emu_order_touch(n->src, n->size, EMU_TOUCH_READ);
    emu_order_touch(n->dst, n->size, EMU_TOUCH_WRITE);
    if (n->src)
        memmove(n->dst, n->src, n->size);
    else
        for (size_t i = 0; i < n->size; i += (size_t)n->width)
            memcpy((char *)n->dst + i, &n->value, (size_t)n->width);
    if (to)
        host_wrote(to, n->dst, n->size);
    bool ordered = emu_order_end(host, n->size);
    if (!is_pinned && !replayed) /* HIP copies memory that it doesn't know before the call comes back */
        emu_order_host_stream(stream);
    return ordered ? hipSuccess : hipErrorLaunchFailure;
}

static hipError_t submit_copy(const struct node *copy, hipStream_t stream)
{
    struct emu_block *to;
    if (!emu_stream_ok(&stream))
        return emu_rules.bad_stream;
    if (!copy->size)
        return hipSuccess;
    if (!is_there(copy, &to))
        return hipErrorInvalidValue;
    struct node *n = malloc(sizeof(*n));
    if (!n)
        return hipErrorOutOfMemory;
    *n = *copy;
    return emu_submit(stream, n);
}

hipError_t emu_hipMemcpyAsync(void *dst, const void *src, size_t size, hipMemcpyKind kind, hipStream_t stream)
{
    LOCKED;
    if ((unsigned)kind > hipMemcpyDefault || (size && (!dst || !src)))
        return hipErrorInvalidValue;
    if (kind == hipMemcpyDefault)
        kind = hipMemcpyHostToHost; /* is_there() sees which side is a device's */
    return submit_copy(&(struct node){ .dst = dst, .src = src, .kind = kind, .size = size }, stream);
}

hipError_t emu_hipMemsetD8Async(hipDeviceptr_t dst, unsigned char value, size_t size, hipStream_t stream)
{
    return emu_memset(dst, value, 1, size, stream);
}

hipError_t emu_memset(void *dst, uint32_t value, int width, size_t count, hipStream_t stream)
{
    LOCKED;
    if ((uintptr_t)dst % (unsigned)width || count > SIZE_MAX / 4)
        return hipErrorInvalidValue;
    return submit_copy(&(struct node){ .dst = dst, .value = value, .width = width, .size = count * (size_t)width },
                       stream);
}

/* ---- the table ------------------------------------------------------------------------------------------------------
 */
static const struct rfg_hip table = {
#define X(ret, name, params, args) .name = emu_##name,
    RFG_HIP_ENTRIES(X)
#undef X
        .error_name = rfg_hip_error_name,
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
