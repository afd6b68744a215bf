/* SPDX-License-Identifier: MIT
 *
 * The emulated GPU's memory: allocations, copies, memsets. */
#include <stdlib.h>
#include <string.h>

#include "hip_impl.h"

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
    (void)emu_finish_all(); /* it waits for the device */
    emu_order_host_all();
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

/* The block that [p, p + size) is in; NULL, and a report, if it isn't in one. Any device's: pointers say whose they
 * are. */
static struct emu_block *find_range(const void *p, size_t size, bool write, const char *call)
{
    char why[256] = "there is no device";
    for (int i = 0; i < emu_n_devices; i++) {
        char text[256];
        if (emu_memory_check(&emu_devices[i].memory, p, size, write, text, sizeof(text)))
            return emu_memory_find(&emu_devices[i].memory, (uint64_t)(uintptr_t)p);
        if (i == 0 || &emu_devices[i] == emu_here())
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
    return !is_device(p) || find_range(p, size, write, call);
}

/* A copy that the host waits for. b: what it writes, of a device; NULL: the host's. */
static hipError_t copied_now(const char *call, void *dst, const void *src, size_t size, struct emu_block *b)
{
    hipError_t e = emu_finish_stream(NULL);
    emu_order_begin(NULL, "%s of %zu bytes", call, size);
    emu_order_touch(src, size, EMU_TOUCH_READ);
    emu_order_touch(dst, size, EMU_TOUCH_WRITE);
    memcpy(dst, src, size);
    if (b)
        host_wrote(b, dst, size);
    bool ordered = emu_order_end(NULL, 0);
    emu_order_host_stream(NULL);
    return ordered ? e : hipErrorLaunchFailure;
}

hipError_t emu_hipMemcpyHtoD(hipDeviceptr_t dst, void *src, size_t size)
{
    LOCKED;
    hipError_t e = emu_blocking_ok();
    if (e != hipSuccess || !size)
        return e;
    struct emu_block *b = src ? find_range(dst, size, true, "hipMemcpyHtoD") : NULL;
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
    if (!dst || !find_range(src, size, false, "hipMemcpyDtoH") || !emu_copy_fits(dst, size, true, "hipMemcpyDtoH"))
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
    *to = writes ? find_range(n->dst, n->size, true, call) : NULL;
    return (*to || !writes) && (!reads || find_range(n->src, n->size, false, call));
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

static hipError_t run_copy(hipStream_t stream, const struct node *n, bool replayed)
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

static bool is_captured(hipStream_t stream)
{
    return stream && ((struct stream *)stream)->capture != hipStreamCaptureStatusNone;
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
    n->run = run_copy;
    bool is_pinned, now = emu_late() && !is_captured(stream);
    (void)host_side(copy, &is_pinned);
    hipError_t e = emu_submit(stream, n);
    /* HIP copies memory that it doesn't know before the call comes back. */
    return e == hipSuccess && now && !is_pinned ? emu_finish_stream(stream) : e;
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
