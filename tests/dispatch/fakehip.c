/* SPDX-License-Identifier: MIT
 *
 * The mock has two devices, so that tests can use the wrong one. Every handle is a struct object (fakehip_objects.h). A
 * capturing stream records its launches and memsets; a graph is such a record, and a replay executes it (on NVIDIA,
 * where the tuner would take long, only its first launch). Memsets in a stream are done as late as allowed: before the
 * stream's next operation, or when it is waited for. One lock protects everything. */
#include "fakehip.h"

#include <elf.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch/hip/hip_platform.h"
#include "fakehip_kernels.h"
#include "fakehip_objects.h"

/* ---- what tests ask ---------------------------------------------------------------------------------------------- */

char *fakehip_live(char *buf, size_t size)
{
    int n[N_KINDS] = { 0 };
    size_t at = 0;
    pthread_mutex_lock(&lock);
    for (struct object *o = objects; o; o = o->next)
        n[o->kind]++;
    pthread_mutex_unlock(&lock);
    buf[0] = 0;
    for (int k = 0; k < N_KINDS; k++)
        if (n[k] && at < size)
            at += (size_t)snprintf(buf + at, size - at, "%s%d %s%s", at ? ", " : "", n[k], kind_names[k],
                                   n[k] > 1 ? "s" : "");
    return buf;
}

const char *fakehip_misuse(void)
{
    return *misuse ? misuse : NULL;
}

int fakehip_launches(void)
{
    pthread_mutex_lock(&lock);
    int n = launches;
    pthread_mutex_unlock(&lock);
    return n;
}

int fakehip_splits(void)
{
    pthread_mutex_lock(&lock);
    int n = splits;
    pthread_mutex_unlock(&lock);
    return n;
}

int fakehip_overlapped(void)
{
    pthread_mutex_lock(&lock);
    int n = overlapped;
    pthread_mutex_unlock(&lock);
    return n;
}

void fakehip_forgive(void)
{
    *misuse = 0;
}

void fakehip_speed(double mem_gbps, double cache_gbps, double latency_us, double load_us, double sync_us)
{
    speed = (struct rfg_calibration){ mem_gbps, cache_gbps, latency_us, load_us, sync_us, "", "", "" };
}

void fakehip_tail(double us)
{
    tail_us = us;
}

int fakehip_replays(void)
{
    return replays; /* of the one thread that asks */
}

void fakehip_gemm_dtypes(rfg_dtype in, rfg_dtype out)
{
    in_dtype = in;
    out_dtype = out;
}

/* ---- work -------------------------------------------------------------------------------------------------------- */

static void perform(const struct work *w)
{
    const uint32_t *counters = w->args.counters;
    for (unsigned i = 0; i < w->counters; i++)
        if (counters[i])
            misused(hipErrorInvalidValue, "a split launch whose counters are not zero");
    if (w->counters)
        memset(w->args.workspace, 0xee, w->n);
    if (*w->kernel)
        clock_ms += 1e-3 * (calibrates(w->kernel) ? w->us : speed.latency_us);
    if (calibrates(w->kernel))
        ;
    else if (w->is_gemm)
        gemm(&w->args, in_dtype, out_dtype);
    else if (w->src)
        memmove(w->dst, w->src, w->n);
    else if (!*w->kernel)
        memset(w->dst, w->value, w->n);
}

/* Wide workgroups are good for plain launches and bad for overlapping ones, which are good for few columns only. */
static double time_us(const struct work *w)
{
    double wide = w->threads / 1024.0;
    return !w->overlap ? 3 - wide : w->args.n < FAKEHIP_MANY_COLUMNS ? 1 + wide : 3 + 4 * wide;
}

static void add_work(struct work **list, int *n, const struct work *w)
{
    *list = realloc(*list, (size_t)(*n + 1) * sizeof(*w));
    if (!*list)
        abort();
    (*list)[(*n)++] = *w;
}

static void submit(struct object *stream, const struct work *w)
{
    if (stream->capturing) {
        add_work(&stream->work, &stream->n_work, w);
    } else if (!*w->kernel && !w->src) {
        add_work(&stream->late, &stream->n_late, w);
    } else {
        catch_up(stream);
        perform(w);
    }
}

/* ---- entries: each is called with the lock held ------------------------------------------------------------------ */

static hipError_t do_hipInit(unsigned flags)
{
    return flags ? hipErrorInvalidValue : hipSuccess;
}

static hipError_t do_hipDriverGetVersion(int *version)
{
    *version = 50221153;
    return hipSuccess;
}

static hipError_t do_hipGetDeviceCount(int *count)
{
    *count = DEVICES;
    return hipSuccess;
}

static hipError_t do_hipSetDevice(int device)
{
    if (device < 0 || device >= DEVICES)
        return hipErrorInvalidDevice;
    current = device;
    return hipSuccess;
}

static hipError_t do_hipGetDevice(int *device)
{
    *device = current;
    return hipSuccess;
}

static hipError_t do_hipDeviceGetAttribute(int *value, hipDeviceAttribute_t attr, int device)
{
    (void)attr;
    *value = 64;
    return device < 0 || device >= DEVICES ? hipErrorInvalidDevice : hipSuccess;
}

static hipError_t do_hipDeviceGetName(char *name, int len, hipDevice_t device)
{
    snprintf(name, (size_t)len, "imagined gfx90a");
    return device < 0 || device >= DEVICES ? hipErrorInvalidDevice : hipSuccess;
}

static hipError_t do_hipDeviceTotalMem(size_t *bytes, hipDevice_t device)
{
    *bytes = (size_t)1 << 34;
    return device < 0 || device >= DEVICES ? hipErrorInvalidDevice : hipSuccess;
}

static hipError_t do_hipDeviceSynchronize(void)
{
    if (forbidden("hipDeviceSynchronize"))
        return hipErrorStreamCaptureUnsupported;
    catch_up_all();
    return hipSuccess;
}

static hipError_t do_hipMalloc(void **ptr, size_t size)
{
    if (forbidden("hipMalloc"))
        return hipErrorStreamCaptureUnsupported;
    struct object *o = add(ALLOCATION);
#ifndef __SANITIZE_ADDRESS__ /* meson's MALLOC_PERTURB_ would fill all of it */
    o->mapped = size > 2 * EDGE;
#endif
    o->mem = o->mapped ? mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
                       : aligned_alloc(256, (size + 511) & ~(size_t)255);
    if (!o->mem || o->mem == MAP_FAILED)
        abort();
    /* Nobody may take it for zeroes; the middle of something large is left out, it takes too long. */
    memset(o->mem, 0xdb, size < EDGE ? size : EDGE);
    memset((char *)o->mem + (size < EDGE ? 0 : size - EDGE), 0xdb, size < EDGE ? size : EDGE);
    o->size = size;
    *ptr = o->mem;
    return hipSuccess;
}

static hipError_t do_hipFree(void *ptr)
{
    if (forbidden("hipFree"))
        return hipErrorStreamCaptureUnsupported;
    catch_up_all();
    return ptr ? destroy(ptr, ALLOCATION) : hipSuccess;
}

static hipError_t do_hipMemcpyHtoD(hipDeviceptr_t dst, void *src, size_t size)
{
    if (forbidden("hipMemcpyHtoD"))
        return hipErrorStreamCaptureUnsupported;
    if (!is_device(dst, size))
        return misused(hipErrorInvalidValue, "copy to what is no allocation");
    catch_up(&null_streams[current]);
    memcpy(dst, src, size);
    return hipSuccess;
}

static hipError_t do_hipMemcpyDtoH(void *dst, hipDeviceptr_t src, size_t size)
{
    if (forbidden("hipMemcpyDtoH"))
        return hipErrorStreamCaptureUnsupported;
    if (!is_device(src, size))
        return misused(hipErrorInvalidValue, "copy from what is no allocation");
    catch_up(&null_streams[current]);
    memcpy(dst, src, size);
    return hipSuccess;
}

static hipError_t do_hipMemcpyAsync(void *dst, const void *src, size_t size, hipMemcpyKind kind, hipStream_t stream)
{
    struct object *s = find(stream, STREAM);
    hipError_t e = usable(s, "a copy in the null stream during a capture");
    if (e != hipSuccess)
        return e;
    if (kind != hipMemcpyHostToDevice && kind != hipMemcpyDeviceToHost && kind != hipMemcpyDeviceToDevice)
        return misused(hipErrorInvalidValue, "a copy in no direction");
    if (kind != hipMemcpyDeviceToDevice && s->capturing)
        return misused(hipErrorStreamCaptureUnsupported, "a copy of the host's memory during a capture");
    if (is_device(dst, size) != (kind != hipMemcpyDeviceToHost) ||
        is_device(src, size) != (kind != hipMemcpyHostToDevice))
        return misused(hipErrorInvalidValue, "a copy of what isn't where its direction says");
    submit(s, &(struct work){ .dst = dst, .src = src, .n = size });
    return hipSuccess;
}

static hipError_t do_hipMemsetD8Async(hipDeviceptr_t dst, unsigned char value, size_t n, hipStream_t stream)
{
    struct object *s = find(stream, STREAM);
    hipError_t e = usable(s, "a memset in the null stream during a capture");
    if (e != hipSuccess)
        return e;
    if (!is_device(dst, n))
        return misused(hipErrorInvalidValue, "memset of what is no allocation");
    submit(s, &(struct work){ .dst = dst, .value = value, .n = n });
    return hipSuccess;
}

static hipError_t do_hipStreamCreateWithFlags(hipStream_t *stream, unsigned flags)
{
    struct object *s = add(STREAM);
    s->blocking = !(flags & hipStreamNonBlocking);
    *stream = (hipStream_t)s;
    return hipSuccess;
}

static hipError_t do_hipStreamDestroy(hipStream_t stream)
{
    struct object *s = find(stream, STREAM);
    if (s)
        catch_up(s);
    return destroy(stream, STREAM);
}

static hipError_t do_hipStreamSynchronize(hipStream_t stream)
{
    struct object *s = find(stream, STREAM);
    if (!s)
        return misused(hipErrorInvalidHandle, "hipStreamSynchronize of no stream");
    s->invalidated |= s->capturing;
    catch_up(s);
    return s->capturing ? misused(hipErrorStreamCaptureUnsupported, "hipStreamSynchronize of a captured stream")
                        : hipSuccess;
}

static hipError_t do_hipStreamIsCapturing(hipStream_t stream, hipStreamCaptureStatus *status)
{
    struct object *s = find(stream, STREAM);
    if (!s)
        return misused(hipErrorInvalidHandle, "hipStreamIsCapturing of no stream");
    *status = s->invalidated ? hipStreamCaptureStatusInvalidated
              : s->capturing ? hipStreamCaptureStatusActive
                             : hipStreamCaptureStatusNone;
    return hipSuccess;
}

static hipError_t do_hipStreamBeginCapture(hipStream_t stream, hipStreamCaptureMode mode)
{
    struct object *s = find(stream, STREAM);
    if (!s || !stream || s->capturing)
        return misused(hipErrorIllegalState, "hipStreamBeginCapture of no stream, or twice");
    s->capturing = true;
    s->mode = mode;
    s->captor = pthread_self();
    return hipSuccess;
}

static hipError_t do_hipStreamEndCapture(hipStream_t stream, hipGraph_t *graph)
{
    struct object *s = find(stream, STREAM);
    if (!s || !s->capturing)
        return misused(hipErrorIllegalState, "hipStreamEndCapture without a capture");
    bool lost = s->invalidated;
    s->capturing = s->invalidated = false;
    *graph = NULL;
    if (lost) {
        free(s->work);
    } else {
        struct object *g = add(GRAPH);
        g->work = s->work;
        g->n_work = s->n_work;
        *graph = (hipGraph_t)g;
    }
    s->work = NULL;
    s->n_work = 0;
    return lost ? hipErrorStreamCaptureInvalidated : hipSuccess;
}

static hipError_t do_hipGraphInstantiate(hipGraphExec_t *exec, hipGraph_t graph, hipGraphNode_t *error_node, char *log,
                                         size_t log_size)
{
    struct object *g = find(graph, GRAPH);
    (void)error_node, (void)log, (void)log_size;
    if (!g)
        return misused(hipErrorInvalidHandle, "hipGraphInstantiate of no graph");
    struct object *x = add(EXEC);
    x->n_work = g->n_work;
    x->work = malloc((size_t)g->n_work * sizeof(*x->work) + 1);
    if (!x->work)
        abort();
    if (g->n_work)
        memcpy(x->work, g->work, (size_t)g->n_work * sizeof(*x->work));
    *exec = (hipGraphExec_t)x;
    return hipSuccess;
}

static hipError_t do_hipGraphLaunch(hipGraphExec_t exec, hipStream_t stream)
{
    struct object *x = find(exec, EXEC), *s = find(stream, STREAM);
    hipError_t err = usable(s, "a graph in the null stream during a capture");
    if (err != hipSuccess)
        return err;
    if (!x || s->capturing)
        return misused(hipErrorInvalidHandle, "hipGraphLaunch of no graph, or while the stream is captured");
    catch_up(s);
    for (int i = 0; i < x->n_work; i++) {
        if (i == 0 || !nvidia)
            perform(&x->work[i]);
        if (nvidia)
            clock_ms += 1e-3 * time_us(&x->work[i]);
    }
    clock_ms += 1e-3 * tail_us;
    replays++;
    return hipSuccess;
}

static hipError_t do_hipGraphExecDestroy(hipGraphExec_t exec)
{
    return destroy(exec, EXEC);
}

static hipError_t do_hipGraphDestroy(hipGraph_t graph)
{
    return destroy(graph, GRAPH);
}

static hipError_t do_hipEventCreateWithFlags(hipEvent_t *event, unsigned flags)
{
    (void)flags;
    *event = (hipEvent_t)add(EVENT);
    return hipSuccess;
}

static hipError_t do_hipEventDestroy(hipEvent_t event)
{
    return destroy(event, EVENT);
}

static hipError_t do_hipEventRecord(hipEvent_t event, hipStream_t stream)
{
    struct object *e = find(event, EVENT), *s = find(stream, STREAM);
    hipError_t err = usable(s, "an event in the null stream during a capture");
    if (err != hipSuccess)
        return err;
    if (!e || e->device != s->device)
        return misused(hipErrorInvalidHandle, "hipEventRecord of no event, or of another device's");
    catch_up(s);
    e->at = clock_ms += nvidia || speed.mem_gbps > 0 ? 0 : 0.5;
    return hipSuccess;
}

static hipError_t do_hipEventSynchronize(hipEvent_t event)
{
    return find(event, EVENT) ? hipSuccess : misused(hipErrorInvalidHandle, "hipEventSynchronize of no event");
}

static hipError_t do_hipEventElapsedTime(float *ms, hipEvent_t start, hipEvent_t stop)
{
    struct object *a = find(start, EVENT), *b = find(stop, EVENT);
    if (!a || !b)
        return misused(hipErrorInvalidHandle, "hipEventElapsedTime of no event");
    *ms = (float)(b->at - a->at);
    return hipSuccess;
}

static hipError_t do_hipModuleLoadData(hipModule_t *module, const void *image)
{
    Elf64_Ehdr h;
    if (forbidden("hipModuleLoadData"))
        return hipErrorStreamCaptureUnsupported;
    memcpy(&h, image, 4);
    if (memcmp(&h, ELFMAG, SELFMAG))
        return misused(hipErrorInvalidImage, "hipModuleLoadData of no ELF file");
    memcpy(&h, image, sizeof(h));
    struct object *m = add(MODULE);
    m->size = h.e_shoff + (size_t)h.e_shnum * h.e_shentsize; /* the section table comes last */
    if (!(m->mem = malloc(m->size)))
        abort();
    memcpy(m->mem, image, m->size);
    *module = (hipModule_t)m;
    return hipSuccess;
}

static hipError_t do_hipModuleUnload(hipModule_t module)
{
    return forbidden("hipModuleUnload") ? hipErrorStreamCaptureUnsupported : destroy(module, MODULE);
}

static hipError_t do_hipModuleGetFunction(hipFunction_t *fn, hipModule_t module, const char *name)
{
    struct object *m = find(module, MODULE);
    if (!m)
        return misused(hipErrorInvalidHandle, "hipModuleGetFunction of no module");
    char descriptor[64]; /* of the kernel, in the string table */
    int len = snprintf(descriptor, sizeof(descriptor), "%s.kd", name);
    if (!memmem(m->mem, m->size, descriptor, (size_t)len + 1))
        return hipErrorNotFound;
    for (struct function *f = m->functions; f; f = f->next)
        if (!strcmp(f->name, name)) { /* one handle, whoever asks: its attributes are shared */
            *fn = (hipFunction_t)f;
            return hipSuccess;
        }
    struct function *f = calloc(1, sizeof(*f));
    if (!f)
        abort();
    f->lds = 48 << 10;
    snprintf(f->name, sizeof(f->name), "%s", name);
    f->device = m->device;
    f->next = m->functions;
    m->functions = f;
    *fn = (hipFunction_t)f;
    return hipSuccess;
}

static bool is_function(const void *fn)
{
    for (struct object *o = objects; o; o = o->next)
        for (struct function *f = o->functions; f; f = f->next)
            if (f == fn)
                return true;
    return false;
}

static hipError_t do_hipFuncSetAttribute(const void *fn, hipFuncAttribute attr, int value)
{
    if (!is_function(fn))
        return misused(hipErrorInvalidHandle, "hipFuncSetAttribute of no function");
    if (attr != hipFuncAttributeMaxDynamicSharedMemorySize || value < 0 || value > MOST_LDS)
        return misused(hipErrorInvalidValue, "hipFuncSetAttribute with an impossible value");
    ((struct function *)(uintptr_t)fn)->lds = (unsigned)value;
    return hipSuccess;
}

static hipError_t do_hipFuncGetAttribute(int *value, hipFunction_attribute attr, hipFunction_t fn)
{
    (void)attr;
    *value = 0;
    return is_function(fn) ? hipSuccess : misused(hipErrorInvalidHandle, "hipFuncGetAttribute of no function");
}

static hipError_t launch(hipFunction_t fn, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                         unsigned lds, hipStream_t stream, void **params, bool overlap)
{
    struct object *s = find(stream, STREAM);
    struct work w = { .threads = bx * by * bz, .overlap = overlap };
    hipError_t e = usable(s, "a launch in the null stream during a capture");
    if (e != hipSuccess)
        return e;
    if (!is_function(fn) || !params)
        return misused(hipErrorInvalidHandle, "a launch of no function, or without arguments");
    if (((struct function *)fn)->device != s->device)
        return misused(hipErrorInvalidHandle, "a launch of another device's function");
    if (!gx || !gy || !gz || !bx || !by || !bz || bx * by * bz > 1024 || lds > (nvidia ? MOST_LDS : 65536))
        return misused(hipErrorInvalidConfiguration, "a launch of an impossible size");
    if (nvidia && lds > 48 << 10 && lds > ((struct function *)fn)->lds)
        return hipErrorInvalidValue; /* as cuLaunchKernel does */
    snprintf(w.kernel, sizeof(w.kernel), "%s", ((struct function *)fn)->name);
    if (calibrates(w.kernel)) {
        const struct calibrate_args *a = params[0];
        if (a->groups != (int)gx || !is_device(a->data, (size_t)a->mask + 1) ||
            (strstr(w.kernel, "_read") && 16ull * (unsigned)a->n * gx > (size_t)a->mask + 1) ||
            !is_device(a->counters, gx / (unsigned)(a->times > 0 ? a->times : 1) * 4) ||
            (strstr(w.kernel, "_reduce") && (gx % (unsigned)a->times || !is_device(a->out, (size_t)gx * bx * 4))))
            return misused(hipErrorInvalidValue, "a calibration beyond its memory");
        w.us = calibrate_us(&speed, w.kernel, a);
        submit(s, &w);
        launches++;
        return hipSuccess;
    }
    w.is_gemm = !strncmp(w.kernel, "gemm_", 5);
    if (w.is_gemm)
        memcpy(&w.args, params[0], sizeof(w.args));
    /* Split along k: partial sums, of which we write a few, and one counter a tile, which must be zero. */
    /* gemm_stream_mma has tiles in y as well: there the workspace says whether it is split. */
    bool tiles_in_y = !strcmp(w.kernel, "gemm_stream_mma");
    if (w.is_gemm && gy > 1 && (!tiles_in_y || w.args.workspace)) {
        if (!is_device(w.args.workspace, (size_t)gx * gy * 4) || !is_device(w.args.counters, gx * sizeof(uint32_t)))
            return misused(hipErrorInvalidValue, "a split launch without a workspace");
        w.counters = gx;
        w.n = (size_t)gx * gy * 4;
        splits++;
    }
    submit(s, &w);
    launches++;
    overlapped += overlap;
    return hipSuccess;
}

static hipError_t do_hipModuleLaunchKernel(hipFunction_t fn, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                           unsigned by, unsigned bz, unsigned lds, hipStream_t stream, void **params,
                                           void **extra)
{
    return extra ? misused(hipErrorInvalidHandle, "a launch with extra arguments")
                 : launch(fn, gx, gy, gz, bx, by, bz, lds, stream, params, false);
}

static hipError_t launch_overlapped(hipFunction_t fn, const struct rfg_launch *l, hipStream_t stream, void **params)
{
    pthread_mutex_lock(&lock);
    hipError_t e = launch(fn, l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1], l->block[2], l->lds, stream,
                          params, true);
    pthread_mutex_unlock(&lock);
    return e;
}

#include "fakehip_peers.h"

/* ---- the table --------------------------------------------------------------------------------------------------- */

#define X(ret, name, params, args)                                                                                     \
    static ret fake_##name params                                                                                      \
    {                                                                                                                  \
        pthread_mutex_lock(&lock);                                                                                     \
        ret e = do_##name args;                                                                                        \
        pthread_mutex_unlock(&lock);                                                                                   \
        return e;                                                                                                      \
    }
RFG_HIP_ENTRIES(X)
RFG_HIP_PEER_ENTRIES(X)
#undef X

static hipError_t describe(int device, struct rfg_device *out)
{
    if (device < 0 || device >= DEVICES || !rfg_device_imagine(out, "gfx90a"))
        return hipErrorInvalidDevice;
    out->platform = RFG_PLATFORM_AMD;
    return hipSuccess;
}

const struct rfg_hip *fakehip(void)
{
    for (int d = 0; d < DEVICES; d++)
        null_streams[d] = (struct object){ .kind = STREAM, .device = d };
    static const struct rfg_hip table = {
#define X(ret, name, params, args) .name = fake_##name,
        RFG_HIP_ENTRIES(X) RFG_HIP_PEER_ENTRIES(X)
#undef X
            .error_name = rfg_hip_error_name,
        .describe = describe,
        .platform = RFG_PLATFORM_AMD,
        .graph_tail = true,
        .warm_up_ms = FAKEHIP_WARM_UP_MS,
    };
    return &table;
}

static hipError_t describe_nvidia(int device, struct rfg_device *out)
{
    if (device < 0 || device >= DEVICES || !rfg_device_imagine(out, "sm_90"))
        return hipErrorInvalidDevice;
    snprintf(out->target, sizeof(out->target), "gfx90a"); /* code objects that are there without NVIDIA's compiler */
    return hipSuccess;
}

const struct rfg_hip *fakehip_nvidia(void)
{
    static struct rfg_hip table;
    table = *fakehip();
    table.launch_overlapped = launch_overlapped;
    table.describe = describe_nvidia;
    table.platform = RFG_PLATFORM_NVIDIA;
    table.graph_tail = false;
    table.warm_up_ms = 0;
    nvidia = true;
    return &table;
}
