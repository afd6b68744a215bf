/* SPDX-License-Identifier: MIT
 *
 * fakehip.c's objects, in one list, its state, and HIP's rules about them. The lock must be held. */
#ifndef RFG_TESTS_FAKEHIP_OBJECTS_H
#define RFG_TESTS_FAKEHIP_OBJECTS_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "dispatch/hip/hip_platform.h"
#include "ops/gemm/gemm.h"
#include "tuner/harness/harness.h"

enum kind { ALLOCATION, HOST, OPENED, STREAM, EVENT, MODULE, GRAPH, EXEC, N_KINDS };
static const char *const kind_names[] = { "allocation", "host allocation", "opened allocation", "stream", "event",
                                          "module",     "graph",           "executable graph" };

#define DEVICES  2
#define EDGE     ((size_t)512 << 10)
#define MOST_LDS 232448 /* an sm_90's */

struct work { /* of a captured stream: a launch, or a memset if there is no kernel */
    char kernel[64];
    unsigned threads;      /* of a workgroup */
    bool is_gemm, overlap; /* other kernels do nothing */
    unsigned counters;     /* that a gemm split along k wants to be zero */
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
    void *mem;  /* of the first three; MODULE: the code object */
    size_t size;
    bool mapped;                           /* mem is */
    bool blocking, capturing, invalidated; /* STREAM */
    hipStreamCaptureMode mode;
    pthread_t captor;  /* the thread that began the capture */
    struct work *work; /* captured */
    int n_work;
    struct work *late; /* memsets that are not done yet */
    int n_late;
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
static double tail_us;               /* of a replay */
static int replays;
static _Thread_local int current;

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
        if ((kind <= OPENED ? o->mem == handle : o == handle) && o->kind == kind)
            return o;
    return NULL;
}

static void perform(const struct work *w);

/* Does what was put off. */
static void catch_up(struct object *s)
{
    for (int i = 0; i < s->n_late; i++)
        perform(&s->late[i]);
    free(s->late);
    s->late = NULL;
    s->n_late = 0;
}

static void catch_up_all(void)
{
    for (int d = 0; d < DEVICES; d++)
        catch_up(&null_streams[d]);
    for (struct object *o = objects; o; o = o->next)
        if (o->kind == STREAM)
            catch_up(o);
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
    if (o->mapped)
        munmap(o->mem, o->size);
    else
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

#endif
