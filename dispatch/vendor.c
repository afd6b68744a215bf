/* SPDX-License-Identifier: MIT
 *
 * Vendors' libraries: their handles, one a stream where a handle serves one stream at a time, and the first use of a
 * library that may end its process.
 *
 * hipBLASLt allocates and clears memory when it makes a handle, and calls exit() if it can't (CHECK_HIP_ERROR in
 * hipblasLtCreate(), ROCm/hipBLASLt library/src/amd_detail/hipblaslt.cpp, 6.2 on). So handles are made when a context
 * is, with some to spare; one that is made later is made where nobody captures (capture.c). */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "context_impl.h"
#include "jit/jit_internal.h"

#define SPARES 4

struct vendor_handle {
    struct vendor_handle *next;
    const struct rfg_variant *var;
    void *handle;
    _Atomic(rfg_stream)
        stream; /* RFG_NO_STREAM: a spare; own_key(): the context's, for prepare; CLOSED: an empty entry */
};
#define LEFT   ((rfg_stream)(UINTPTR_MAX - 2)) /* its stream is gone, and it could not be closed */
#define CLOSED ((rfg_stream)(UINTPTR_MAX - 1))

/* ---- handles --------------------------------------------------------------------------------------------------- */

static rfg_stream own_key(const rfg_context *ctx)
{
    return (rfg_stream)(uintptr_t)ctx; /* no stream has this address */
}

static struct vendor_handle *find(const rfg_context *ctx, const struct rfg_variant *var, rfg_stream stream)
{
    struct vendor_handle *h = atomic_load_explicit(&ctx->vendor_handles, memory_order_acquire);
    while (h && (h->var != var || atomic_load_explicit(&h->stream, memory_order_acquire) != stream))
        h = h->next;
    return h;
}

/* The rest is under ctx->vendor_lock, and the device is current. */

static rfg_status make_handle(rfg_context *ctx, const struct rfg_variant *var, struct vendor_handle **out)
{
    struct rfg_vendor_env env = { .hip = ctx->hip, .device = ctx->ordinal };
    struct vendor_handle *h = find(ctx, var, CLOSED);
    if (!h) {
        if (!(h = calloc(1, sizeof(*h))))
            return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "%s: no memory for a handle", var->name);
        h->var = var;
        h->next = atomic_load(&ctx->vendor_handles);
        atomic_store(&h->stream, CLOSED);
        atomic_store_explicit(&ctx->vendor_handles, h, memory_order_release);
    }
    rfg_status st = rfg_capture_hold(ctx);
    if (st == RFG_OK)
        st = var->vendor_open(&ctx->dev, &env, &h->handle);
    rfg_capture_release();
    if (st == RFG_OK)
        atomic_store_explicit(&h->stream, RFG_NO_STREAM, memory_order_release);
    *out = h;
    return st;
}

/* Gives the stream a spare one, else a new one. */
static rfg_status take_handle(rfg_context *ctx, const struct rfg_variant *var, rfg_stream stream)
{
    struct rfg_vendor_env env = { .hip = ctx->hip, .device = ctx->ordinal, .stream = stream };
    struct vendor_handle *h = find(ctx, var, stream);
    if (h)
        return RFG_OK;
    h = find(ctx, var, RFG_NO_STREAM);
    rfg_status st = h ? RFG_OK : make_handle(ctx, var, &h);
    if (st == RFG_OK && var->vendor_bind && stream != own_key(ctx))
        st = var->vendor_bind(h->handle, &env);
    if (st == RFG_OK)
        atomic_store_explicit(&h->stream, stream, memory_order_release);
    return st;
}

/* The context's own handle, spare ones, and one for each stream that it serves by now. */
static rfg_status open_variant(rfg_context *ctx, const struct rfg_variant *var, void **handle)
{
    pthread_mutex_lock(&ctx->vendor_lock);
    rfg_status st = RFG_OK;
    struct vendor_handle *h = find(ctx, var, own_key(ctx)), *spare;
    if (!h) {
        st = take_handle(ctx, var, own_key(ctx));
        for (int i = 0; i < SPARES && st == RFG_OK; i++)
            st = make_handle(ctx, var, &spare);
        for (int i = 0; i < atomic_load(&ctx->n_streams) && st == RFG_OK; i++) {
            rfg_stream stream = atomic_load(&ctx->streams[i].stream);
            if (stream != RFG_NO_STREAM)
                st = take_handle(ctx, var, stream);
        }
        h = find(ctx, var, own_key(ctx));
    }
    pthread_mutex_unlock(&ctx->vendor_lock);
    *handle = h ? h->handle : NULL;
    return h ? RFG_OK : st;
}

static bool has_handles(const rfg_context *ctx, const struct rfg_variant *var)
{
    return var->kind == RFG_VARIANT_VENDOR && var->vendor_open && var->vendor_opens(&ctx->dev);
}

void rfg_vendor_begin(rfg_context *ctx)
{
    int previous = -1;
    bool entered = false;
    for (int o = 0; ctx->hip && rfg_ops[o]; o++) {
        const struct rfg_variants *all = rfg_op_variants(rfg_ops[o]);
        for (int i = 0; i < all->n; i++) {
            const struct rfg_variant *var = all->list[i];
            void *handle;
            if (var->first_run || !rfg_variant_listed(ctx->variants, rfg_ops[o], var) || !has_handles(ctx, var))
                continue;
            entered = entered || rfg_device_enter(ctx, &previous) == RFG_OK;
            if (!entered || open_variant(ctx, var, &handle) != RFG_OK)
                rfg_log(RFG_LOG_DISPATCH, "%s: %s", var->name, rfg_last_error());
        }
    }
    if (entered)
        rfg_device_leave(ctx, previous);
}

void rfg_vendor_stream(rfg_context *ctx, rfg_stream stream)
{
    pthread_mutex_lock(&ctx->vendor_lock);
    for (struct vendor_handle *h = atomic_load(&ctx->vendor_handles); h; h = h->next)
        if (atomic_load(&h->stream) == own_key(ctx) && take_handle(ctx, h->var, stream) != RFG_OK)
            rfg_log(RFG_LOG_DISPATCH, "%s: stream %p has no handle: %s", h->var->name, stream, rfg_last_error());
    pthread_mutex_unlock(&ctx->vendor_lock);
}

rfg_status rfg_vendor_handle(rfg_context *ctx, const struct rfg_variant *var, rfg_stream stream, void **handle)
{
    struct vendor_handle *h = var->vendor_open ? find(ctx, var, stream) : NULL;
    bool captured = false;
    rfg_status st = RFG_OK;
    if (var->vendor_open && !h) {
        st = rfg_stream_captured(ctx, var->name, stream, &captured);
        if (st == RFG_OK && captured)
            st = rfg_fail(RFG_ERROR_NOT_READY,
                          "%s has no handle for stream %p yet, which is being captured: call rfg_prepare_stream() "
                          "before the capture",
                          var->name, stream);
        pthread_mutex_lock(&ctx->vendor_lock);
        if (st == RFG_OK)
            st = take_handle(ctx, var, stream);
        pthread_mutex_unlock(&ctx->vendor_lock);
        h = st == RFG_OK ? find(ctx, var, stream) : NULL;
    }
    *handle = h ? h->handle : NULL;
    return st;
}

bool rfg_vendor_serves(const rfg_context *ctx, rfg_stream stream)
{
    struct vendor_handle *h = atomic_load(&ctx->vendor_handles);
    while (h && atomic_load(&h->stream) != stream)
        h = h->next;
    return h;
}

void rfg_vendor_leave(rfg_context *ctx, rfg_stream stream)
{
    if (!rfg_vendor_serves(ctx, stream))
        return;
    pthread_mutex_lock(&ctx->vendor_lock);
    bool close = rfg_capture_hold(ctx) == RFG_OK;
    for (struct vendor_handle *h = atomic_load(&ctx->vendor_handles); h; h = h->next)
        if (atomic_load(&h->stream) == stream) {
            atomic_store(&h->stream, close ? CLOSED : LEFT);
            if (close)
                h->var->vendor_close(h->handle);
        }
    rfg_capture_release();
    pthread_mutex_unlock(&ctx->vendor_lock);
}

void rfg_vendor_end(rfg_context *ctx)
{
    struct vendor_handle *h = atomic_load(&ctx->vendor_handles), *next;
    if (!h)
        return;
    bool close = rfg_capture_hold(ctx) == RFG_OK; /* else they stay, as memory that can't be freed now */
    for (; h; h = next) {
        next = h->next;
        if (close && atomic_load(&h->stream) != CLOSED)
            h->var->vendor_close(h->handle);
        free(h);
    }
    rfg_capture_release();
    atomic_store(&ctx->vendor_handles, NULL);
}

/* ---- the first use --------------------------------------------------------------------------------------------- */

#define MAX_TRIED 16 /* variants and devices */

static struct tried {
    const struct rfg_variant *var;
    char device[40];
    bool ok;
    struct rfg_reason why;
} tried[MAX_TRIED];
static int n_tried;
static pthread_mutex_t tried_lock = PTHREAD_MUTEX_INITIALIZER;
static rfg_vendor_try_fn override;
static atomic_bool alone;

void rfg_vendor_override_try(rfg_vendor_try_fn fn)
{
    pthread_mutex_lock(&tried_lock);
    override = fn;
    n_tried = 0;
    pthread_mutex_unlock(&tried_lock);
}

void rfg_vendor_alone(void)
{
    atomic_store(&alone, true);
}

/* rfg-compile, on the same device with the same libraries. */
static bool in_child(const rfg_context *ctx, const struct rfg_variant *var, struct rfg_reason *why)
{
    char library[4200] = "", runtime[4200] = "";
    char *program = rfg_jit_worker_program(), *output = NULL;
    Dl_info info;
    if (!program)
        return rfg_refuse(why, "no rfg-compile beside rfg or in its bin directory to try it in first");
    if (dladdr(*(void *const *)&ctx->hip->hipInit, &info) && info.dli_fname)
        snprintf(runtime, sizeof(runtime), "RFG_LIBHIP=%s", info.dli_fname);
    var->vendor_setting(library, sizeof(library));
    const char *const argv[] = { program, "--first-run", var->name, "--device", ctx->dev.name, runtime, library, NULL };
    bool ok = rfg_jit_run(argv, NULL, &output, why);
    if (!ok && output && *output) {
        const char *line = output + strspn(output, "\r\n");
        rfg_log(RFG_LOG_DISPATCH, "%s: %.*s", var->name, (int)strcspn(line, "\r\n"), line);
    }
    free(output);
    free(program);
    return ok;
}

/* Once a process, device and variant. */
static rfg_status try_first(const rfg_context *ctx, const struct rfg_variant *var)
{
    struct tried *t = NULL, now = { .var = var };
    if (atomic_load(&alone))
        return RFG_OK; /* this is the child */
    pthread_mutex_lock(&tried_lock);
    for (int i = 0; i < n_tried && !t; i++)
        if (tried[i].var == var && !strcmp(tried[i].device, ctx->dev.name))
            t = &tried[i];
    if (!t) {
        snprintf(now.device, sizeof(now.device), "%s", ctx->dev.name);
        now.ok = override ? override(ctx, var, &now.why) : in_child(ctx, var, &now.why);
        t = &tried[n_tried < MAX_TRIED ? n_tried++ : MAX_TRIED - 1];
        *t = now;
    }
    now = *t;
    pthread_mutex_unlock(&tried_lock);
    return now.ok ? RFG_OK
                  : rfg_fail(RFG_ERROR_UNSUPPORTED, "%s: its first use failed in a process of its own: %s", var->name,
                             now.why.text);
}

/* With a stream and memory of their own for one product. */
static rfg_status prepare_and_run(rfg_context *ctx, const struct rfg_problem *prob, const struct rfg_variant *var,
                                  const int *p, struct rfg_vendor_env *env, void **plan)
{
    const struct rfg_hip *hip = ctx->hip;
    hipStream_t stream = NULL;
    rfg_status st = rfg_capture_hold(ctx);
    hipError_t e = hipSuccess;
    if (st == RFG_OK && (e = hip->hipStreamCreateWithFlags(&stream, hipStreamNonBlocking)) != hipSuccess)
        st = rfg_hip_fail(ctx, "hipStreamCreateWithFlags", e);
    if (st == RFG_OK && (e = hip->hipMalloc(&env->workspace, RFG_FIRST_RUN_BYTES)) != hipSuccess)
        st = rfg_hip_fail(ctx, "hipMalloc", e);
    env->stream = (rfg_stream)stream;
    if (st == RFG_OK)
        st = var->vendor_prepare(&ctx->dev, prob, p, env, plan);
    if (stream && (e = hip->hipStreamSynchronize(stream)) != hipSuccess && st == RFG_OK) {
        var->vendor_release(*plan);
        *plan = NULL;
        st = rfg_hip_fail(ctx, "hipStreamSynchronize", e);
    }
    if (env->workspace)
        (void)hip->hipFree(env->workspace);
    if (stream)
        (void)hip->hipStreamDestroy(stream);
    rfg_capture_release();
    return st;
}

rfg_status rfg_vendor_prepare(rfg_context *ctx, const struct rfg_problem *prob, const struct rfg_variant *var,
                              const int *p, void **plan)
{
    struct rfg_vendor_env env = { .hip = ctx->hip, .device = ctx->ordinal };
    rfg_status st = var->first_run ? try_first(ctx, var) : RFG_OK;
    pthread_mutex_lock(&ctx->vendor_prepare_lock);
    if (st == RFG_OK && has_handles(ctx, var))
        st = open_variant(ctx, var, &env.handle);
    if (st == RFG_OK)
        st = var->first_run ? prepare_and_run(ctx, prob, var, p, &env, plan)
                            : var->vendor_prepare(&ctx->dev, prob, p, &env, plan);
    pthread_mutex_unlock(&ctx->vendor_prepare_lock);
    /* Captured elsewhere: another variant serves the problem, rather than none. */
    return st == RFG_ERROR_NOT_READY ? RFG_ERROR_UNSUPPORTED : st;
}
