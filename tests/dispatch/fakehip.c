/* SPDX-License-Identifier: MIT
 *
 * Two devices, so that one can be the wrong one. Every handle is a struct object in one list. A capturing stream
 * records its launches and memsets, a graph is such a record, replaying is doing it (on NVIDIA's, where the tuner works
 * for a while, its first launch only). One lock around everything. */
#include "fakehip.h"

#include <elf.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch/hip/hip_platform.h"
#include "ops/calibrate/calibrate_args.h"
#include "ops/gemm/gemm.h"
#include "tuner/harness.h"

enum kind { ALLOCATION, STREAM, EVENT, MODULE, GRAPH, EXEC, N_KINDS };
static const char *const kind_names[] = { "allocation", "stream", "event", "module", "graph", "executable graph" };

#define DEVICES  2
#define EDGE     ((size_t)512 << 10)
#define MOST_LDS 232448 /* an sm_90's */

struct work { /* of a captured stream: a launch, or a memset if there is no kernel */
    char kernel[64];
    unsigned threads;      /* of a workgroup */
    bool is_gemm, overlap; /* other kernels do nothing */
    struct gemm_args args;
    double us; /* of a kernel of ops/calibrate */
    void *dst;
    const void *src; /* of a copy; NULL: a memset */
    int value;
    size_t n;
};

struct object {
    struct object *next;
    enum kind kind;
    int device; /* that was current when it was made */
    void *mem;  /* ALLOCATION; MODULE: the code object */
    size_t size;
    bool blocking, capturing, invalidated; /* STREAM */
    hipStreamCaptureMode mode;
    pthread_t captor; /* the thread that began the capture */
    struct work *work;
    int n_work;
    struct function *functions; /* MODULE */
    double at;                  /* EVENT: counts up */
};

struct function {
    struct function *next;
    int device;
    char name[64];
    unsigned lds; /* that launches may take: NVIDIA's 48 KiB, or what was asked for last */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct object *objects, null_streams[DEVICES];
static char misuse[200];
static int launches, splits, overlapped;
static bool nvidia;
static double clock_ms;
static rfg_dtype in_dtype = RFG_BF16, out_dtype = RFG_F32;
static struct rfg_calibration speed; /* mem_gbps 0: none */
static _Thread_local int current;

/* ---- accounts -----------------------------------------------------------------------------------------------------
 */

static hipError_t misused(hipError_t e, const char *what)
{
    if (!*misuse)
        snprintf(misuse, sizeof(misuse), "%s", what);
    return e;
}

static struct object *add(enum kind kind)
{
    struct object *o = calloc(1, sizeof(*o));
    if (!o)
        abort();
    o->kind = kind;
    o->device = current;
    o->next = objects;
    objects = o;
    return o;
}

static struct object *find(const void *handle, enum kind kind)
{
    if (kind == STREAM && !handle)
        return &null_streams[current];
    for (struct object *o = objects; o; o = o->next)
        if ((o == handle || (kind == ALLOCATION && o->mem == handle)) && o->kind == kind)
            return o;
    return NULL;
}

static hipError_t destroy(void *handle, enum kind kind)
{
    struct object *o = find(handle, kind);
    if (!o || !handle)
        return misused(hipErrorInvalidHandle, "an unknown object is destroyed");
    struct object **at = &objects;
    while (*at != o)
        at = &(*at)->next;
    *at = o->next;
    for (struct function *f = o->functions, *next; f; f = next) {
        next = f->next;
        free(f);
    }
    free(o->mem);
    free(o->work);
    free(o);
    return hipSuccess;
}

/* Does a capture forbid this thread what may allocate or wait? Asking for it all the same ends the capture: whoever
 * captures finds out when it is over. */
static bool forbidden(const char *what)
{
    bool any = false;
    for (struct object *o = objects; o; o = o->next)
        if (o->kind == STREAM && o->capturing &&
            (o->mode == hipStreamCaptureModeGlobal ||
             (o->mode == hipStreamCaptureModeThreadLocal && pthread_equal(o->captor, pthread_self()))))
            any = o->invalidated = true;
    char text[100];
    snprintf(text, sizeof(text), "%s during a capture", what);
    if (any)
        misused(hipErrorStreamCaptureUnsupported, text);
    return any;
}

/* A stream that may be given work now, by this thread; else the error. */
static hipError_t usable(const struct object *s, const char *what)
{
    if (!s)
        return misused(hipErrorInvalidHandle, "work in what is no stream");
    if (s->device != current)
        return misused(hipErrorInvalidHandle, "work in a stream of a device that is not current");
    for (struct object *o = objects; s == &null_streams[current] && o; o = o->next)
        if (o->kind == STREAM && o->capturing && o->blocking && o->device == current) {
            o->invalidated = true;
            return misused(hipErrorStreamCaptureImplicit, what);
        }
    return s->invalidated ? hipErrorStreamCaptureInvalidated : hipSuccess;
}

/* Do n bytes at p lie in one allocation? */
static bool is_device(const void *p, size_t n)
{
    for (struct object *o = objects; o; o = o->next)
        if (o->kind == ALLOCATION && (const char *)p >= (char *)o->mem &&
            (const char *)p + n <= (char *)o->mem + o->size)
            return true;
    return false;
}

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

void fakehip_gemm_dtypes(rfg_dtype in, rfg_dtype out)
{
    in_dtype = in;
    out_dtype = out;
}

/* ---- work ---------------------------------------------------------------------------------------------------------
 */

static void gemm(const struct gemm_args *a)
{
    size_t k_size = (size_t)a->k;
    double *x = malloc(((size_t)a->m + 1) * k_size * sizeof(double) + 1), *w = x + (size_t)a->m * k_size;
    if (!x)
        abort();
    for (int64_t i = 0; i < (int64_t)a->m * a->k; i++)
        x[i] = rfg_load(a->x, in_dtype, i / a->k * a->ldx + i % a->k);
    for (int64_t n = 0; n < a->n; n++) {
        for (int64_t k = 0; k < a->k; k++)
            w[k] = rfg_load(a->w, in_dtype, n * a->ldw + k);
        for (int64_t m = 0; m < a->m; m++) {
            double sum = a->bias ? rfg_load(a->bias, in_dtype, n) : 0;
            for (int64_t k = 0; k < a->k; k++)
                sum += x[m * a->k + k] * w[k];
            rfg_store(a->y, out_dtype, m * a->ldy + n, sum);
        }
    }
    free(x);
}

/* Reads of memory are those of all, once; further ones find their bytes in the cache. */
static double calibrate_us(const char *kernel, const struct calibrate_args *a)
{
    double us = speed.latency_us, bytes = 16.0 * a->n * a->groups;
    if (strstr(kernel, "_read"))
        us += a->times == 1 ? 1e-3 * bytes / speed.mem_gbps : 1e-3 * bytes * a->times / speed.cache_gbps;
    else if (strstr(kernel, "_chase"))
        us += a->n * speed.load_us;
    else if (strstr(kernel, "_reduce"))
        us += speed.sync_us;
    return us;
}

static bool calibrates(const char *kernel)
{
    return !strncmp(kernel, "calibrate_", 10);
}

static void perform(const struct work *w)
{
    if (calibrates(w->kernel))
        clock_ms += 1e-3 * w->us;
    else if (w->is_gemm)
        gemm(&w->args);
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

static void submit(struct object *stream, const struct work *w)
{
    if (!stream->capturing) {
        perform(w);
        return;
    }
    stream->work = realloc(stream->work, (size_t)(stream->n_work + 1) * sizeof(*w));
    if (!stream->work)
        abort();
    stream->work[stream->n_work++] = *w;
}

/* ---- entries: each is called with the lock held -------------------------------------------------------------------
 */

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
    return forbidden("hipDeviceSynchronize") ? hipErrorStreamCaptureUnsupported : hipSuccess;
}

static hipError_t do_hipMalloc(void **ptr, size_t size)
{
    if (forbidden("hipMalloc"))
        return hipErrorStreamCaptureUnsupported;
    struct object *o = add(ALLOCATION);
    o->mem = aligned_alloc(256, (size + 511) & ~(size_t)255);
    if (!o->mem)
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
    return ptr ? destroy(ptr, ALLOCATION) : hipSuccess;
}

static hipError_t do_hipMemcpyHtoD(hipDeviceptr_t dst, void *src, size_t size)
{
    if (forbidden("hipMemcpyHtoD"))
        return hipErrorStreamCaptureUnsupported;
    if (!is_device(dst, size))
        return misused(hipErrorInvalidValue, "copy to what is no allocation");
    memcpy(dst, src, size);
    return hipSuccess;
}

static hipError_t do_hipMemcpyDtoH(void *dst, hipDeviceptr_t src, size_t size)
{
    if (forbidden("hipMemcpyDtoH"))
        return hipErrorStreamCaptureUnsupported;
    if (!is_device(src, size))
        return misused(hipErrorInvalidValue, "copy from what is no allocation");
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
    return destroy(stream, STREAM);
}

static hipError_t do_hipStreamSynchronize(hipStream_t stream)
{
    struct object *s = find(stream, STREAM);
    if (!s)
        return misused(hipErrorInvalidHandle, "hipStreamSynchronize of no stream");
    s->invalidated |= s->capturing;
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
    for (int i = 0; i < x->n_work; i++) {
        if (i == 0 || !nvidia)
            perform(&x->work[i]);
        if (nvidia)
            clock_ms += 1e-3 * time_us(&x->work[i]);
    }
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
        w.us = calibrate_us(w.kernel, a);
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
        const uint32_t *counters = w.args.counters;
        if (!is_device(w.args.workspace, (size_t)gx * gy * 4) || !is_device(counters, gx * sizeof(*counters)))
            return misused(hipErrorInvalidValue, "a split launch without a workspace");
        for (unsigned i = 0; i < gx; i++)
            if (counters[i])
                return misused(hipErrorInvalidValue, "a split launch whose counters are not zero");
        memset(w.args.workspace, 0xee, (size_t)gx * gy * 4);
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

/* ---- the table ----------------------------------------------------------------------------------------------------
 */

#define X(ret, name, params, args)                                                                                     \
    static ret fake_##name params                                                                                      \
    {                                                                                                                  \
        pthread_mutex_lock(&lock);                                                                                     \
        ret e = do_##name args;                                                                                        \
        pthread_mutex_unlock(&lock);                                                                                   \
        return e;                                                                                                      \
    }
RFG_HIP_ENTRIES(X)
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
        RFG_HIP_ENTRIES(X)
#undef X
            .error_name = rfg_hip_error_name,
        .describe = describe,
        .platform = RFG_PLATFORM_AMD,
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
    nvidia = true;
    return &table;
}
