/* SPDX-License-Identifier: MIT
 *
 * HIP on the emulator. A launch runs when it is made and is over when the call returns: streams keep their order
 * trivially, and captured launches run when their graph is launched. A finding of a check ends the launch with
 * hipErrorLaunchFailure, and is written to stderr; the device stays usable, unlike a real one after a fault, so that a
 * test or a tuner can go on. */
#include "hip_emu.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../dispatch/context.h"
#include "../dispatch/hip_platform.h"
#include "../dispatch/util.h"
#include "emu.h"

#define MAX_DEVICES 32

struct device {
    char spec[40];
    const struct emu_arch *arch;
    int cu_count;
};

struct work {
    const struct function *fn; /* NULL: a memset */
    uint32_t grid[3], block[3], lds;
    void *args;
    char *dst;
    unsigned char value;
    size_t n;
};

enum kind { STREAM = 0x5712ea, EVENT, MODULE, FUNCTION, GRAPH, EXEC };

struct object {
    enum kind kind;
    bool capturing;
    struct work *work;
    int n_work;
    double at;
    struct emu_module module;
    struct function *functions;
    int users; /* of a module: functions in graphs don't count, as in HIP */
};

struct function {
    enum kind kind;
    struct function *next;
    struct emu_module *module;
    const struct emu_kernel *kernel;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct device devices[MAX_DEVICES];
static int n_devices, findings;
static char last_finding[1024];
static struct object null_stream = { .kind = STREAM };
static int captures; /* streams being captured */
static _Thread_local int current;

int rfg_emu_device(const char *spec, struct rfg_reason *why)
{
    size_t len = strcspn(spec, ":");
    const struct emu_arch *arch = emu_arch_find(spec, len);
    char *end, problem[128];
    long cus = spec[len] ? strtol(spec + len + 1, &end, 10) : arch ? arch->cu_count : 0;
    if (!arch) {
        rfg_refuse(why,
                   "'%.30s' is not emulated: must be gfx90a, gfx942 or gfx1100, and may have a number of CUs, as in "
                   "gfx942:304",
                   spec);
        return -1;
    }
    if (spec[len] && (end == spec + len + 1 || *end || cus < 1 || cus > 1024)) {
        rfg_refuse(why, "'%.30s': the number of CUs must be from 1 to 1024", spec);
        return -1;
    }
    if (!emu_llvm_ready(problem, sizeof(problem))) {
        rfg_refuse(why, "the emulator needs LLVM's disassembler: %.100s", problem);
        return -1;
    }
    pthread_mutex_lock(&lock);
    int at = 0;
    while (at < n_devices && (devices[at].arch != arch || devices[at].cu_count != cus))
        at++;
    if (at == MAX_DEVICES) {
        rfg_refuse(why, "there are %d emulated devices already", MAX_DEVICES);
        at = -1;
    } else if (at == n_devices) {
        devices[n_devices] = (struct device){ .arch = arch, .cu_count = (int)cus };
        snprintf(devices[n_devices++].spec, sizeof(devices[0].spec), "%s:%ld", arch->name, cus);
    }
    pthread_mutex_unlock(&lock);
    return at;
}

int rfg_emu_findings(char *last, size_t size)
{
    pthread_mutex_lock(&lock);
    int n = findings;
    if (last && size)
        snprintf(last, size, "%s", last_finding);
    pthread_mutex_unlock(&lock);
    return n;
}

static bool counting;
static struct emu_counters counted;

void rfg_emu_count(struct emu_counters *sums)
{
    pthread_mutex_lock(&lock);
    counting = sums == NULL;
    if (sums)
        *sums = counted;
    else
        counted = (struct emu_counters){ 0 };
    pthread_mutex_unlock(&lock);
}

/* All of them are 64-bit sums. */
static void add_counters(const struct emu_counters *c)
{
    const uint64_t *from = (const uint64_t *)c;
    uint64_t *to = (uint64_t *)&counted;
    for (size_t k = 0; k < sizeof(*c) / sizeof(*from); k++)
        to[k] += from[k];
}

/* ---- helpers --------------------------------------------------------------------------------------------------------
 */

static struct object *as(const void *handle, enum kind kind)
{
    struct object *o = handle ? (struct object *)handle : kind == STREAM ? &null_stream : NULL;
    return o && o->kind == kind ? o : NULL;
}

static struct object *make(enum kind kind)
{
    struct object *o = calloc(1, sizeof(*o));
    if (o)
        o->kind = kind;
    return o;
}

static void drop_work(struct object *o)
{
    for (int k = 0; k < o->n_work; k++)
        free(o->work[k].args);
    free(o->work);
    o->work = NULL;
    o->n_work = 0;
}

static bool add_work(struct object *o, struct work w)
{
    struct work *more = realloc(o->work, (size_t)(o->n_work + 1) * sizeof(*more));
    if (!more)
        return false;
    o->work = more;
    o->work[o->n_work++] = w;
    return true;
}

static bool on(const char *env, bool def)
{
    const char *v = rfg_env(env);
    return v ? strcmp(v, "0") != 0 : def;
}

static hipError_t perform(const struct work *w)
{
    if (!w->fn) {
        memset(w->dst, w->value, w->n);
        return hipSuccess;
    }
    const char *seed = rfg_env("RFG_EMU_SCHEDULE");
    struct emu_launch launch = { .arch = w->fn->module->arch,
                                 .module = w->fn->module,
                                 .kernel = w->fn->kernel,
                                 .cu_count = devices[current].cu_count,
                                 .dynamic_lds = w->lds,
                                 .kernarg = w->args,
                                 .seed = seed ? strtoull(seed, NULL, 0) : 0,
                                 .checks = on("RFG_EMU_CHECKS", true),
                                 .count = counting };
    memcpy(launch.grid, w->grid, sizeof(w->grid));
    memcpy(launch.block, w->block, sizeof(w->block));
    size_t size = w->fn->kernel->kernarg_size;
    if (!(launch.kernarg = emu_alloc(size, "the kernel's arguments")))
        return hipErrorOutOfMemory;
    memcpy(launch.kernarg, w->args, size);
    bool ok = emu_launch_run(&launch);
    emu_free(launch.kernarg);
    if (counting)
        add_counters(&launch.counters);
    if (ok)
        return hipSuccess;
    findings++;
    snprintf(last_finding, sizeof(last_finding), "%s", launch.first);
    rfg_warn("emulator: %s", launch.first);
    return hipErrorLaunchFailure;
}

/* The kernel's argument segment: the caller's arguments, then the hidden ones. */
static void *make_arguments(const struct emu_kernel *k, const struct work *w, void **params)
{
    char *args = calloc(1, k->kernarg_size + 64);
    int next = 0;
    for (int n = 0; args && n < k->n_args; n++) {
        const struct emu_arg *a = &k->args[n];
        uint64_t v = 0;
        int d = (a->hidden - EMU_ARG_OFFSET_X) % 3;
        switch (a->hidden) {
        case EMU_ARG_VALUE:
            memcpy(args + a->offset, params[next++], a->size);
            continue;
        case EMU_ARG_BLOCKS_X:
        case EMU_ARG_BLOCKS_Y:
        case EMU_ARG_BLOCKS_Z:
            v = w->grid[d];
            break;
        case EMU_ARG_SIZE_X:
        case EMU_ARG_SIZE_Y:
        case EMU_ARG_SIZE_Z:
            v = w->block[d];
            break;
        case EMU_ARG_DIMS:
            v = w->grid[2] * w->block[2] > 1 ? 3 : w->grid[1] * w->block[1] > 1 ? 2 : 1;
            break;
        case EMU_ARG_LDS_SIZE:
            v = w->lds;
            break;
        }
        memcpy(args + a->offset, &v, a->size < 8 ? a->size : 8);
    }
    return args;
}

/* ---- entries
 * ---------------------------------------------------------------------------------------------------------- */

static hipError_t e_hipInit(unsigned flags)
{
    return flags ? hipErrorInvalidValue : hipSuccess;
}

static hipError_t e_hipDriverGetVersion(int *version)
{
    *version = 0;
    return hipSuccess;
}

static hipError_t e_hipGetDeviceCount(int *count)
{
    *count = n_devices;
    return hipSuccess;
}

static hipError_t e_hipSetDevice(int device)
{
    if (device < 0 || device >= n_devices)
        return hipErrorInvalidDevice;
    current = device;
    return hipSuccess;
}

static hipError_t e_hipGetDevice(int *device)
{
    *device = current;
    return hipSuccess;
}

static hipError_t e_hipDeviceGetAttribute(int *value, hipDeviceAttribute_t attr, int device)
{
    if (device < 0 || device >= n_devices)
        return hipErrorInvalidDevice;
    const struct device *d = &devices[device];
    switch (attr) {
    case hipDeviceAttributeMultiprocessorCount:
        *value = d->cu_count;
        return hipSuccess;
    case hipDeviceAttributeWarpSize:
        *value = d->arch->wave_size;
        return hipSuccess;
    case hipDeviceAttributeMaxSharedMemoryPerBlock:
        *value = d->arch->lds_bytes;
        return hipSuccess;
    case hipDeviceAttributeMaxThreadsPerBlock:
        *value = 1024;
        return hipSuccess;
    default:
        return hipErrorInvalidValue;
    }
}

static hipError_t e_hipDeviceGetName(char *name, int len, hipDevice_t device)
{
    if (device < 0 || device >= n_devices)
        return hipErrorInvalidDevice;
    snprintf(name, (size_t)len, "emulated %s, %d CUs", devices[device].arch->name, devices[device].cu_count);
    return hipSuccess;
}

static hipError_t e_hipDeviceTotalMem(size_t *bytes, hipDevice_t device)
{
    *bytes = (size_t)16 << 30;
    return device < 0 || device >= n_devices ? hipErrorInvalidDevice : hipSuccess;
}

static hipError_t e_hipDeviceSynchronize(void)
{
    return captures ? hipErrorStreamCaptureUnsupported : hipSuccess;
}

static hipError_t e_hipMalloc(void **ptr, size_t size)
{
    if (captures)
        return hipErrorStreamCaptureUnsupported;
    *ptr = size ? emu_alloc(size, "hipMalloc") : NULL;
    return *ptr || !size ? hipSuccess : hipErrorOutOfMemory;
}

static hipError_t e_hipFree(void *ptr)
{
    if (captures)
        return hipErrorStreamCaptureUnsupported;
    return !ptr || emu_free(ptr) ? hipSuccess : hipErrorInvalidValue;
}

static hipError_t e_hipMemcpyHtoD(hipDeviceptr_t dst, void *src, size_t size)
{
    if (captures)
        return hipErrorStreamCaptureUnsupported;
    if (size && !emu_mapped((uint64_t)(uintptr_t)dst, size, NULL, NULL))
        return hipErrorInvalidValue;
    memcpy(dst, src, size);
    return hipSuccess;
}

static hipError_t e_hipMemcpyDtoH(void *dst, hipDeviceptr_t src, size_t size)
{
    if (captures)
        return hipErrorStreamCaptureUnsupported;
    if (size && !emu_mapped((uint64_t)(uintptr_t)src, size, NULL, NULL))
        return hipErrorInvalidValue;
    memcpy(dst, src, size);
    return hipSuccess;
}

static hipError_t submit(hipStream_t stream, struct work w)
{
    struct object *s = as(stream, STREAM);
    if (s->capturing)
        return add_work(s, w) ? hipSuccess : hipErrorOutOfMemory;
    hipError_t e = perform(&w);
    free(w.args);
    return e;
}

static hipError_t e_hipMemsetD8Async(hipDeviceptr_t dst, unsigned char value, size_t n, hipStream_t stream)
{
    if (!as(stream, STREAM))
        return hipErrorInvalidHandle;
    if (n && !emu_mapped((uint64_t)(uintptr_t)dst, n, NULL, NULL))
        return hipErrorInvalidValue;
    return submit(stream, (struct work){ .dst = dst, .value = value, .n = n });
}

static hipError_t e_hipStreamCreateWithFlags(hipStream_t *stream, unsigned flags)
{
    (void)flags;
    *stream = (hipStream_t)make(STREAM);
    return *stream ? hipSuccess : hipErrorOutOfMemory;
}

static hipError_t destroy(void *handle, enum kind kind)
{
    struct object *o = as(handle, kind);
    if (!o || o == &null_stream)
        return hipErrorInvalidHandle;
    captures -= o->capturing;
    drop_work(o);
    o->kind = 0;
    free(o);
    return hipSuccess;
}

static hipError_t e_hipStreamDestroy(hipStream_t stream)
{
    return destroy(stream, STREAM);
}

static hipError_t e_hipStreamSynchronize(hipStream_t stream)
{
    struct object *s = as(stream, STREAM);
    return !s ? hipErrorInvalidHandle : s->capturing ? hipErrorStreamCaptureUnsupported : hipSuccess;
}

static hipError_t e_hipStreamIsCapturing(hipStream_t stream, hipStreamCaptureStatus *status)
{
    struct object *s = as(stream, STREAM);
    if (!s)
        return hipErrorInvalidHandle;
    *status = s->capturing ? hipStreamCaptureStatusActive : hipStreamCaptureStatusNone;
    return hipSuccess;
}

static hipError_t e_hipStreamBeginCapture(hipStream_t stream, hipStreamCaptureMode mode)
{
    struct object *s = as(stream, STREAM);
    (void)mode;
    if (!s || s == &null_stream)
        return s ? hipErrorStreamCaptureUnsupported : hipErrorInvalidHandle;
    if (s->capturing)
        return hipErrorIllegalState;
    s->capturing = true;
    captures++;
    return hipSuccess;
}

static hipError_t e_hipStreamEndCapture(hipStream_t stream, hipGraph_t *graph)
{
    struct object *s = as(stream, STREAM), *g;
    if (!s || !s->capturing)
        return s ? hipErrorIllegalState : hipErrorInvalidHandle;
    s->capturing = false;
    captures--;
    if (!(g = make(GRAPH))) {
        drop_work(s);
        return hipErrorOutOfMemory;
    }
    g->work = s->work;
    g->n_work = s->n_work;
    s->work = NULL;
    s->n_work = 0;
    *graph = (hipGraph_t)g;
    return hipSuccess;
}

static hipError_t e_hipGraphInstantiate(hipGraphExec_t *exec, hipGraph_t graph, hipGraphNode_t *error_node, char *log,
                                        size_t log_size)
{
    struct object *g = as(graph, GRAPH), *x;
    (void)error_node, (void)log, (void)log_size;
    if (!g)
        return hipErrorInvalidHandle;
    if (!(x = make(EXEC)))
        return hipErrorOutOfMemory;
    for (int k = 0; k < g->n_work; k++) {
        struct work w = g->work[k];
        if (w.fn) {
            size_t size = w.fn->kernel->kernarg_size + 64;
            w.args = malloc(size);
            if (!w.args)
                return destroy(x, EXEC), hipErrorOutOfMemory;
            memcpy(w.args, g->work[k].args, size);
        }
        if (!add_work(x, w))
            return destroy(x, EXEC), hipErrorOutOfMemory;
    }
    *exec = (hipGraphExec_t)x;
    return hipSuccess;
}

static hipError_t e_hipGraphLaunch(hipGraphExec_t exec, hipStream_t stream)
{
    struct object *x = as(exec, EXEC), *s = as(stream, STREAM);
    if (!x || !s)
        return hipErrorInvalidHandle;
    if (s->capturing)
        return hipErrorStreamCaptureUnsupported;
    hipError_t e = hipSuccess;
    for (int k = 0; k < x->n_work && e == hipSuccess; k++)
        e = perform(&x->work[k]);
    return e;
}

static hipError_t e_hipGraphExecDestroy(hipGraphExec_t exec)
{
    return destroy(exec, EXEC);
}

static hipError_t e_hipGraphDestroy(hipGraph_t graph)
{
    return destroy(graph, GRAPH);
}

static hipError_t e_hipEventCreateWithFlags(hipEvent_t *event, unsigned flags)
{
    (void)flags;
    *event = (hipEvent_t)make(EVENT);
    return *event ? hipSuccess : hipErrorOutOfMemory;
}

static hipError_t e_hipEventDestroy(hipEvent_t event)
{
    return destroy(event, EVENT);
}

static hipError_t e_hipEventRecord(hipEvent_t event, hipStream_t stream)
{
    struct object *e = as(event, EVENT);
    if (!e || !as(stream, STREAM))
        return hipErrorInvalidHandle;
    e->at = rfg_now();
    return hipSuccess;
}

static hipError_t e_hipEventSynchronize(hipEvent_t event)
{
    return as(event, EVENT) ? hipSuccess : hipErrorInvalidHandle;
}

static hipError_t e_hipEventElapsedTime(float *ms, hipEvent_t start, hipEvent_t stop)
{
    struct object *a = as(start, EVENT), *b = as(stop, EVENT);
    if (!a || !b)
        return hipErrorInvalidHandle;
    *ms = (float)(1e3 * (b->at - a->at));
    return hipSuccess;
}

static hipError_t e_hipModuleLoadData(hipModule_t *module, const void *image)
{
    char error[300];
    size_t size = emu_elf_size(image);
    struct object *o = make(MODULE);
    if (!o)
        return hipErrorOutOfMemory;
    if (!emu_module_load(&o->module, image, size, error, sizeof(error))) {
        rfg_warn("emulator: %s", error);
        free(o);
        return hipErrorInvalidImage;
    }
    if (n_devices && o->module.arch != devices[current].arch) {
        rfg_warn("emulator: a code object for %s on %s", o->module.arch->name, devices[current].arch->name);
        emu_module_unload(&o->module);
        free(o);
        return hipErrorNoBinaryForGpu;
    }
    *module = (hipModule_t)o;
    return hipSuccess;
}

static hipError_t e_hipModuleUnload(hipModule_t module)
{
    struct object *o = as(module, MODULE);
    if (!o)
        return hipErrorInvalidHandle;
    for (struct function *f = o->functions, *next; f; f = next) {
        next = f->next;
        free(f);
    }
    emu_module_unload(&o->module);
    o->kind = 0;
    free(o);
    return hipSuccess;
}

static hipError_t e_hipModuleGetFunction(hipFunction_t *fn, hipModule_t module, const char *name)
{
    struct object *o = as(module, MODULE);
    if (!o)
        return hipErrorInvalidHandle;
    const struct emu_kernel *k = emu_module_kernel(&o->module, name);
    struct function *f = k ? calloc(1, sizeof(*f)) : NULL;
    if (!f)
        return k ? hipErrorOutOfMemory : hipErrorNotFound;
    char error[400];
    if (!emu_module_program(&o->module, k->wave_size, error, sizeof(error))) {
        rfg_warn("emulator: %s: %s", name, error);
        free(f);
        return hipErrorNotSupported;
    }
    *f = (struct function){ FUNCTION, o->functions, &o->module, k };
    o->functions = f;
    *fn = (hipFunction_t)f;
    return hipSuccess;
}

static hipError_t e_hipFuncSetAttribute(const void *fn, hipFuncAttribute attr, int value)
{
    (void)fn, (void)attr, (void)value;
    return hipSuccess;
}

static hipError_t e_hipFuncGetAttribute(int *value, hipFunction_attribute attr, hipFunction_t fn)
{
    const struct function *f = (const struct function *)fn;
    if (!f || f->kind != FUNCTION)
        return hipErrorInvalidHandle;
    *value = attr == HIP_FUNC_ATTRIBUTE_NUM_REGS            ? f->kernel->vgprs
             : attr == HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES ? (int)f->kernel->lds
             : attr == HIP_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES  ? (int)f->kernel->scratch
                                                            : -1;
    return *value < 0 ? hipErrorInvalidValue : hipSuccess;
}

static hipError_t e_hipModuleLaunchKernel(hipFunction_t fn, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                          unsigned by, unsigned bz, unsigned lds, hipStream_t stream, void **params,
                                          void **extra)
{
    const struct function *f = (const struct function *)fn;
    if (!f || f->kind != FUNCTION || !as(stream, STREAM))
        return hipErrorInvalidHandle;
    uint64_t threads = (uint64_t)bx * by * bz;
    if (!gx || !gy || !gz || !threads || threads > 1024 || (int)threads > f->kernel->max_threads || extra ||
        (uint64_t)lds + f->kernel->lds > (uint64_t)devices[current].arch->lds_bytes)
        return hipErrorInvalidConfiguration;
    struct work w = { .fn = f, .grid = { gx, gy, gz }, .block = { bx, by, bz }, .lds = lds };
    if (!(w.args = make_arguments(f->kernel, &w, params)))
        return hipErrorOutOfMemory;
    return submit(stream, w);
}

/* ---- the table
 * ---------------------------------------------------------------------------------------------------------- */

/* One call at a time: what a launch does is the emulator's own business, and it is one device. */
#define X(ret, name, params, args)                                                                                     \
    static ret emu_##name params                                                                                       \
    {                                                                                                                  \
        pthread_mutex_lock(&lock);                                                                                     \
        ret e = e_##name args;                                                                                         \
        pthread_mutex_unlock(&lock);                                                                                   \
        return e;                                                                                                      \
    }
RFG_HIP_ENTRIES(X)
#undef X

static const char *error_name(hipError_t e)
{
    const char *name = e == hipErrorInvalidConfiguration ? "hipErrorInvalidConfiguration"
                       : e == hipErrorIllegalState       ? "hipErrorIllegalState"
                                                         : NULL;
    return name ? name : rfg_hip_error_name(e);
}

/* Tuned rows say "emu-gfx942": what is fast on the emulator says nothing of the GPU. */
static hipError_t describe(int device, struct rfg_device *out)
{
    if (device < 0 || device >= n_devices || !rfg_device_imagine(out, devices[device].spec))
        return hipErrorInvalidDevice;
    snprintf(out->name, sizeof(out->name), "emu:%s", devices[device].spec);
    snprintf(out->arch, sizeof(out->arch), "emu-%s", devices[device].arch->name);
    out->platform = RFG_PLATFORM_EMU;
    out->cache_bytes = 0; /* nothing to rotate past */
    return hipSuccess;
}

const struct rfg_hip *rfg_hip_emu(struct rfg_platform_report *report)
{
    static const struct rfg_hip table = {
#define X(ret, name, params, args) .name = emu_##name,
        RFG_HIP_ENTRIES(X)
#undef X
            .error_name = error_name,
        .describe = describe,
        .platform = RFG_PLATFORM_EMU,
    };
    if (report) {
        *report = (struct rfg_platform_report){ .platform = "emulator", .devices = 0 };
        report->found = emu_llvm_ready(report->problem, sizeof(report->problem));
        snprintf(report->library, sizeof(report->library), "emu:gfx90a, emu:gfx942, emu:gfx1100 (with :CUS)");
        if (!report->found)
            snprintf(report->advice, sizeof(report->advice), "apt-get install libllvm19, or set RFG_LIBLLVM");
    }
    return &table;
}
