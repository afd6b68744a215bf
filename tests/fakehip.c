/* SPDX-License-Identifier: MIT
 *
 * Every handle is a struct object in one list. A capturing stream records its launches and memsets, a graph is such a
 * record, replaying is doing it. One lock around everything. */
#include "fakehip.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../ops/gemm/gemm.h"
#include "../tuner/harness.h"

enum kind { ALLOCATION, STREAM, EVENT, MODULE, GRAPH, EXEC, N_KINDS };
static const char *const kind_names[] = { "allocation", "stream", "event", "module", "graph", "executable graph" };

struct work { /* of a captured stream: a launch, or a memset if there is no kernel */
    char kernel[64];
    struct gemm_args args;
    void *dst;
    int value;
    size_t n;
};

struct object {
    struct object *next;
    enum kind kind;
    void *mem; /* ALLOCATION */
    size_t size;
    bool capturing; /* STREAM */
    struct work *work;
    int n_work;
    struct function *functions; /* MODULE */
    double at;                  /* EVENT: counts up */
};

struct function {
    struct function *next;
    char name[64];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct object *objects, null_stream = { .kind = STREAM };
static char misuse[200];
static int launches;
static double clock_ms;
static rfg_dtype in_dtype = RFG_BF16, out_dtype = RFG_F32;
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
    o->next = objects;
    objects = o;
    return o;
}

static struct object *find(const void *handle, enum kind kind)
{
    if (kind == STREAM && !handle)
        return &null_stream;
    for (struct object *o = objects; o; o = o->next)
        if ((o == handle || (kind == ALLOCATION && o->mem == handle)) && o->kind == kind)
            return o;
    return NULL;
}

static hipError_t destroy(void *handle, enum kind kind)
{
    struct object *o = find(handle, kind);
    if (!o || o == &null_stream)
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

static bool any_capture(void)
{
    for (struct object *o = objects; o; o = o->next)
        if (o->kind == STREAM && o->capturing)
            return true;
    return false;
}

static hipError_t forbidden(const char *what)
{
    char text[100];
    snprintf(text, sizeof(text), "%s during a capture", what);
    return misused(hipErrorStreamCaptureUnsupported, text);
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
    return launches;
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
    for (int64_t m = 0; m < a->m; m++)
        for (int64_t n = 0; n < a->n; n++) {
            double sum = a->bias ? rfg_load(a->bias, in_dtype, n) : 0;
            for (int64_t k = 0; k < a->k; k++)
                sum += rfg_load(a->x, in_dtype, m * a->ldx + k) * rfg_load(a->w, in_dtype, n * a->ldw + k);
            rfg_store(a->y, out_dtype, m * a->ldy + n, sum);
        }
}

static void perform(const struct work *w)
{
    if (*w->kernel)
        gemm(&w->args);
    else
        memset(w->dst, w->value, w->n);
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
    *count = 1;
    return hipSuccess;
}

static hipError_t do_hipSetDevice(int device)
{
    if (device)
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
    return device ? hipErrorInvalidDevice : hipSuccess;
}

static hipError_t do_hipDeviceGetName(char *name, int len, hipDevice_t device)
{
    snprintf(name, (size_t)len, "imagined gfx90a");
    return device ? hipErrorInvalidDevice : hipSuccess;
}

static hipError_t do_hipDeviceTotalMem(size_t *bytes, hipDevice_t device)
{
    *bytes = (size_t)1 << 34;
    return device ? hipErrorInvalidDevice : hipSuccess;
}

static hipError_t do_hipDeviceSynchronize(void)
{
    return any_capture() ? forbidden("hipDeviceSynchronize") : hipSuccess;
}

static hipError_t do_hipMalloc(void **ptr, size_t size)
{
    if (any_capture())
        return forbidden("hipMalloc");
    struct object *o = add(ALLOCATION);
    o->mem = aligned_alloc(256, (size + 511) & ~(size_t)255);
    if (!o->mem)
        abort();
    memset(o->mem, 0xdb, (size + 511) & ~(size_t)255);
    o->size = size;
    *ptr = o->mem;
    return hipSuccess;
}

static hipError_t do_hipFree(void *ptr)
{
    if (any_capture())
        return forbidden("hipFree");
    return ptr ? destroy(ptr, ALLOCATION) : hipSuccess;
}

static hipError_t do_hipMemcpyHtoD(hipDeviceptr_t dst, void *src, size_t size)
{
    if (any_capture())
        return forbidden("hipMemcpyHtoD");
    if (!is_device(dst, size))
        return misused(hipErrorInvalidValue, "copy to what is no allocation");
    memcpy(dst, src, size);
    return hipSuccess;
}

static hipError_t do_hipMemcpyDtoH(void *dst, hipDeviceptr_t src, size_t size)
{
    if (any_capture())
        return forbidden("hipMemcpyDtoH");
    if (!is_device(src, size))
        return misused(hipErrorInvalidValue, "copy from what is no allocation");
    memcpy(dst, src, size);
    return hipSuccess;
}

static hipError_t do_hipMemsetD8Async(hipDeviceptr_t dst, unsigned char value, size_t n, hipStream_t stream)
{
    struct object *s = find(stream, STREAM);
    if (!s || !is_device(dst, n))
        return misused(hipErrorInvalidValue, "memset of what is no allocation, or in no stream");
    submit(s, &(struct work){ .dst = dst, .value = value, .n = n });
    return hipSuccess;
}

static hipError_t do_hipStreamCreateWithFlags(hipStream_t *stream, unsigned flags)
{
    (void)flags;
    *stream = (hipStream_t)add(STREAM);
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
    return s->capturing ? forbidden("hipStreamSynchronize") : hipSuccess;
}

static hipError_t do_hipStreamIsCapturing(hipStream_t stream, hipStreamCaptureStatus *status)
{
    struct object *s = find(stream, STREAM);
    if (!s)
        return misused(hipErrorInvalidHandle, "hipStreamIsCapturing of no stream");
    *status = s->capturing ? hipStreamCaptureStatusActive : hipStreamCaptureStatusNone;
    return hipSuccess;
}

static hipError_t do_hipStreamBeginCapture(hipStream_t stream, hipStreamCaptureMode mode)
{
    struct object *s = find(stream, STREAM);
    (void)mode;
    if (!s || s == &null_stream || s->capturing)
        return misused(hipErrorIllegalState, "hipStreamBeginCapture of no stream, or twice");
    s->capturing = true;
    return hipSuccess;
}

static hipError_t do_hipStreamEndCapture(hipStream_t stream, hipGraph_t *graph)
{
    struct object *s = find(stream, STREAM);
    if (!s || !s->capturing)
        return misused(hipErrorIllegalState, "hipStreamEndCapture without a capture");
    struct object *g = add(GRAPH);
    g->work = s->work;
    g->n_work = s->n_work;
    s->work = NULL;
    s->n_work = 0;
    s->capturing = false;
    *graph = (hipGraph_t)g;
    return hipSuccess;
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
    memcpy(x->work, g->work, (size_t)g->n_work * sizeof(*x->work));
    *exec = (hipGraphExec_t)x;
    return hipSuccess;
}

static hipError_t do_hipGraphLaunch(hipGraphExec_t exec, hipStream_t stream)
{
    struct object *x = find(exec, EXEC), *s = find(stream, STREAM);
    if (!x || !s)
        return misused(hipErrorInvalidHandle, "hipGraphLaunch of no graph, or in no stream");
    for (int i = 0; i < x->n_work; i++)
        perform(&x->work[i]);
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
    struct object *e = find(event, EVENT);
    if (!e || !find(stream, STREAM))
        return misused(hipErrorInvalidHandle, "hipEventRecord of no event, or in no stream");
    e->at = clock_ms += 0.5;
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
    if (memcmp(image, "\177ELF", 4))
        return misused(hipErrorInvalidImage, "hipModuleLoadData of no ELF file");
    *module = (hipModule_t)add(MODULE);
    return hipSuccess;
}

static hipError_t do_hipModuleUnload(hipModule_t module)
{
    return destroy(module, MODULE);
}

static hipError_t do_hipModuleGetFunction(hipFunction_t *fn, hipModule_t module, const char *name)
{
    struct object *m = find(module, MODULE);
    if (!m)
        return misused(hipErrorInvalidHandle, "hipModuleGetFunction of no module");
    if (strncmp(name, "gemm_", 5))
        return hipErrorNotFound;
    struct function *f = calloc(1, sizeof(*f));
    if (!f)
        abort();
    snprintf(f->name, sizeof(f->name), "%s", name);
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
    (void)attr, (void)value;
    return is_function(fn) ? hipSuccess : misused(hipErrorInvalidHandle, "hipFuncSetAttribute of no function");
}

static hipError_t do_hipFuncGetAttribute(int *value, hipFunction_attribute attr, hipFunction_t fn)
{
    (void)attr;
    *value = 0;
    return is_function(fn) ? hipSuccess : misused(hipErrorInvalidHandle, "hipFuncGetAttribute of no function");
}

static hipError_t do_hipModuleLaunchKernel(hipFunction_t fn, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                           unsigned by, unsigned bz, unsigned lds, hipStream_t stream, void **params,
                                           void **extra)
{
    struct object *s = find(stream, STREAM);
    struct work w = { 0 };
    if (!is_function(fn) || !s || !params || extra)
        return misused(hipErrorInvalidHandle, "a launch of no function, in no stream, or without arguments");
    if (!gx || !gy || !gz || !bx || !by || !bz || bx * by * bz > 1024 || lds > 65536)
        return misused(hipErrorInvalidConfiguration, "a launch of an impossible size");
    snprintf(w.kernel, sizeof(w.kernel), "%s", ((struct function *)fn)->name);
    memcpy(&w.args, params[0], sizeof(w.args));
    if (gy > 1 && (!is_device(w.args.head.workspace, 1) || !is_device(w.args.head.counters, 4)))
        return misused(hipErrorInvalidValue, "a split launch without a workspace");
    submit(s, &w);
    launches++;
    return hipSuccess;
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

static const char *error_name(hipError_t e)
{
    static _Thread_local char text[40];
    const char *known = e == hipErrorOutOfMemory ? "hipErrorOutOfMemory" : NULL;
    snprintf(text, sizeof(text), "fake error %d", (int)e);
    return known ? known : text;
}

static hipError_t describe(int device, struct rfg_device *out)
{
    if (device || !rfg_device_imagine(out, "gfx90a"))
        return hipErrorInvalidDevice;
    out->platform = RFG_PLATFORM_AMD;
    return hipSuccess;
}

const struct rfg_hip *fakehip(void)
{
    static const struct rfg_hip table = {
#define X(ret, name, params, args) .name = fake_##name,
        RFG_HIP_ENTRIES(X)
#undef X
            .error_name = error_name,
        .describe = describe,
        .platform = RFG_PLATFORM_AMD,
    };
    return &table;
}
