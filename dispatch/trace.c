/* SPDX-License-Identifier: MIT
 *
 * $RFG_TRACE: which operators a program calls, for profilers (ranges around launches, in the library that the profiler
 * listens to) or as a file that Chrome's about:tracing and Perfetto draw. A context without it has no struct rfg_trace:
 * a call then costs one test of a pointer.
 *
 * Ranges: roctx (ROCm's tracers) or NVTX (Nsight), by dlopen. The file: Chrome's Trace Event Format, an array with an
 * event a line ("X", complete events; times in microseconds). Each event is one write(), so that a program that is
 * killed leaves all but the closing bracket, which readers do without. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/util.h"
#include "context_impl.h"

enum { TEXT = RFG_PROBLEM_STRLEN + RFG_CONFIG_STRLEN + 160, DEVICE_TRACKS = 1000000000 };

struct rfg_traced {
    struct rfg_traced *next;
    const struct rfg_plan *plan;
    rfg_stream stream;
    double begin;           /* seconds, of rfg_now() */
    hipEvent_t start, stop; /* on GPUs, outside of captures */
};

struct rfg_trace {
    rfg_context *ctx;
    int (*push)(const char *), (*pop)(void);
    bool file;
    int track; /* of device times */
    pthread_mutex_t lock;
    struct rfg_traced *first, **end; /* whose kernels may still run, in order; under lock */
    hipEvent_t base;                 /* the device's clock: base was reached at base_time */
    double base_time;
};

/* ---- the file, one for the process ------------------------------------------------------------------------------ */

static pthread_mutex_t file_lock = PTHREAD_MUTEX_INITIALIZER;
static int file = -1;
static pid_t owner; /* a child of fork() writes nothing */
static atomic_int contexts;

static void write_text(const char *text, size_t n)
{
    if (getpid() == owner)
        (void)rfg_write_all(file, text, n); /* a full disk is no reason to fail an operator */
}

__attribute__((destructor)) static void end_file(void)
{
    if (file >= 0)
        write_text("\n]\n", 3);
}

/* path: %p is the process's number, so that a program's processes don't write to one file. */
static bool open_file(const char *path)
{
    char *with_pid = NULL;
    const char *at = strstr(path, "%p");
    pthread_mutex_lock(&file_lock);
    if (file < 0) {
        if (at)
            with_pid = rfg_asprintf("%.*s%d%s", (int)(at - path), path, (int)getpid(), at + 2);
        owner = getpid();
        file = open(with_pid ? with_pid : path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0666);
        if (file < 0)
            rfg_warn("RFG_TRACE=%s: can't be written: %s: nothing is traced", path, strerror(errno));
        else
            write_text("[", 1);
        free(with_pid);
    }
    pthread_mutex_unlock(&file_lock);
    return file >= 0;
}

static void write_event(const char *text)
{
    static bool first = true;
    char line[TEXT + 400];
    pthread_mutex_lock(&file_lock);
    int n = snprintf(line, sizeof(line), "%s\n%s", first ? "" : ",", text);
    first = false;
    write_text(line, (size_t)n < sizeof(line) ? (size_t)n : sizeof(line) - 1);
    pthread_mutex_unlock(&file_lock);
}

/* Of a call, on the track of a thread, or (device) on the context's. Problems and names have no characters that JSON
 * would want escaped. */
static void write_call(const struct rfg_trace *t, const struct rfg_traced *c, double begin, double seconds, bool device,
                       bool recorded)
{
    char problem[RFG_PROBLEM_STRLEN], variant[RFG_CONFIG_STRLEN], text[TEXT + 300];
    rfg_problem_format(&c->plan->prob, problem, sizeof(problem));
    rfg_config_format(c->plan->choice.variant, c->plan->choice.params, variant, sizeof(variant));
    snprintf(
        text, sizeof(text),
        "{\"name\": \"%s %s\", \"cat\": \"%s\", \"ph\": \"X\", \"pid\": %d, \"tid\": %d, \"ts\": %.3f, \"dur\": %.3f, "
        "\"args\": {\"device\": \"%s\", \"stream\": \"%p\", \"problem\": \"%s\", \"variant\": \"%s\"%s}}",
        c->plan->prob.op->name, c->plan->choice.variant->name, device ? "device" : "call", (int)getpid(),
        device ? t->track : (int)gettid(), 1e6 * begin, 1e6 * seconds, t->ctx->dev.name, c->stream, problem, variant,
        recorded ? ", \"captured\": true" : "");
    write_event(text);
}

/* ---- device time ------------------------------------------------------------------------------------------------ */

static void drop(const struct rfg_trace *t, struct rfg_traced *c)
{
    if (c->start)
        (void)t->ctx->hip->hipEventDestroy(c->start);
    if (c->stop)
        (void)t->ctx->hip->hipEventDestroy(c->stop);
    free(c);
}

/* Writes those whose kernels have ended: an elapsed time is refused until then. Under lock. */
static void collect(struct rfg_trace *t, bool all)
{
    float from, ms;
    for (struct rfg_traced *c; (c = t->first);) {
        hipError_t e = t->ctx->hip->hipEventElapsedTime(&ms, c->start, c->stop);
        if (e == hipErrorNotReady && !all)
            return;
        if (e == hipSuccess && t->ctx->hip->hipEventElapsedTime(&from, t->base, c->start) == hipSuccess)
            write_call(t, c, t->base_time + 1e-3 * (double)from, 1e-3 * (double)ms, true, false);
        if (!(t->first = c->next))
            t->end = &t->first;
        drop(t, c);
    }
}

/* Relates the device's clock to the host's, once, before the first launch that is timed. */
static bool has_base(struct rfg_trace *t, rfg_stream stream)
{
    const struct rfg_hip *hip = t->ctx->hip;
    pthread_mutex_lock(&t->lock);
    if (!t->base && hip->hipEventCreateWithFlags(&t->base, hipEventDefault) == hipSuccess) {
        if (hip->hipEventRecord(t->base, (hipStream_t)stream) == hipSuccess &&
            hip->hipEventSynchronize(t->base) == hipSuccess)
            t->base_time = rfg_now();
        else {
            (void)hip->hipEventDestroy(t->base);
            t->base = NULL;
        }
    }
    bool has = t->base != NULL;
    pthread_mutex_unlock(&t->lock);
    return has;
}

static void begin_device_time(struct rfg_trace *t, struct rfg_traced *c)
{
    const struct rfg_hip *hip = t->ctx->hip;
    hipStreamCaptureStatus status;
    if (hip->hipStreamIsCapturing((hipStream_t)c->stream, &status) != hipSuccess ||
        status != hipStreamCaptureStatusNone || !has_base(t, c->stream))
        return;
    if (hip->hipEventCreateWithFlags(&c->start, hipEventDefault) != hipSuccess ||
        hip->hipEventCreateWithFlags(&c->stop, hipEventDefault) != hipSuccess ||
        hip->hipEventRecord(c->start, (hipStream_t)c->stream) != hipSuccess) {
        if (c->start)
            (void)hip->hipEventDestroy(c->start);
        if (c->stop)
            (void)hip->hipEventDestroy(c->stop);
        c->start = c->stop = NULL;
    }
}

/* ---- calls ------------------------------------------------------------------------------------------------------ */

struct rfg_traced *rfg_trace_begin(struct rfg_trace *t, const struct rfg_plan *plan, rfg_stream stream)
{
    struct rfg_traced *c = calloc(1, sizeof(*c));
    if (!c)
        return NULL;
    c->plan = plan;
    c->stream = stream;
    if (t->push) {
        char text[200];
        snprintf(text, sizeof(text), "%s %s", plan->prob.op->name, plan->choice.variant->name);
        (void)t->push(text);
    }
    if (t->file && t->ctx->hip)
        begin_device_time(t, c);
    c->begin = rfg_now();
    return c;
}

void rfg_trace_end(struct rfg_trace *t, struct rfg_traced *c, bool launched, bool recorded)
{
    if (!c)
        return;
    if (t->push)
        (void)t->pop();
    if (t->file && launched)
        write_call(t, c, c->begin, rfg_now() - c->begin, false, recorded);
    if (!c->start || !launched || t->ctx->hip->hipEventRecord(c->stop, (hipStream_t)c->stream) != hipSuccess) {
        drop(t, c);
        return;
    }
    pthread_mutex_lock(&t->lock);
    *t->end = c;
    t->end = &c->next;
    collect(t, false);
    pthread_mutex_unlock(&t->lock);
}

/* ---- contexts --------------------------------------------------------------------------------------------------- */

static const struct profiler {
    const char *env, *names[4], *push, *pop;
} profilers[] = {
    { "RFG_LIBROCTX",
      { "librocprofiler-sdk-roctx.so.1", "librocprofiler-sdk-roctx.so.0", "libroctx64.so.4", "libroctx64.so" },
      "roctxRangePushA",
      "roctxRangePop" },
    { "RFG_LIBNVTX", { "libnvToolsExt.so.1", "libnvToolsExt.so" }, "nvtxRangePushA", "nvtxRangePop" },
};

static bool load_ranges(struct rfg_trace *t)
{
    int first = !strncmp(t->ctx->dev.name, "nvidia", 6);
    for (int i = 0; i < 2; i++) {
        const struct profiler *p = &profilers[(first + i) % 2];
        const char *path = rfg_env(p->env);
        void *lib = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
        for (int n = 0; !path && !lib && n < 4 && p->names[n]; n++)
            lib = dlopen(p->names[n], RTLD_NOW | RTLD_LOCAL);
        if (!lib)
            continue;
        *(void **)&t->push = dlsym(lib, p->push);
        *(void **)&t->pop = dlsym(lib, p->pop);
        if (t->push && t->pop)
            return true;
        t->push = NULL;
    }
    rfg_warn(
        "RFG_TRACE=1: neither roctx (librocprofiler-sdk-roctx.so.1, libroctx64.so.4; or set RFG_LIBROCTX) nor NVTX "
        "(libnvToolsExt.so.1; or set RFG_LIBNVTX) can be loaded: there are no ranges");
    return false;
}

struct rfg_trace *rfg_trace_open(rfg_context *ctx)
{
    const char *asked = rfg_env("RFG_TRACE");
    if (!asked || !strcmp(asked, "0"))
        return NULL;
    struct rfg_trace *t = calloc(1, sizeof(*t));
    if (!t)
        return NULL;
    t->ctx = ctx;
    t->end = &t->first;
    t->file = strcmp(asked, "1") != 0;
    pthread_mutex_init(&t->lock, NULL);
    if (!(t->file ? open_file(asked) : load_ranges(t))) {
        rfg_trace_close(&t);
        return NULL;
    }
    t->track = DEVICE_TRACKS + atomic_fetch_add(&contexts, 1);
    if (t->file && ctx->hip) {
        char text[200];
        snprintf(text, sizeof(text),
                 "{\"name\": \"thread_name\", \"ph\": \"M\", \"pid\": %d, \"tid\": %d, \"args\": {\"name\": \"%s\"}}",
                 (int)getpid(), t->track, ctx->dev.name);
        write_event(text);
    }
    return t;
}

void rfg_trace_close(struct rfg_trace **t)
{
    if (!*t)
        return;
    if ((*t)->ctx->hip) {
        collect(*t, true);
        if ((*t)->base)
            (void)(*t)->ctx->hip->hipEventDestroy((*t)->base);
    }
    pthread_mutex_destroy(&(*t)->lock);
    free(*t);
    *t = NULL;
}
