/* SPDX-License-Identifier: MIT
 *
 * HIP's other calls for memory. All of it is device memory that the host can touch too. */
#include <stdint.h>
#include <string.h>

#include "rocm.h"

/* ---- allocations ------------------------------------------------------------------------------------------------ */

static hipError_t host_alloc(void **p, size_t size)
{
    rocm_start();
    LOCKED;
    hipError_t e = p ? emu_not_while_capturing() : hipErrorInvalidValue;
    if (e != hipSuccess)
        return rocm_end(e);
    *p = size ? emu_host_alloc(size) : NULL;
    return rocm_end(size && !*p ? hipErrorOutOfMemory : hipSuccess);
}

hipError_t hipHostMalloc(void **p, size_t size, unsigned flags)
{
    (void)flags;
    return host_alloc(p, size);
}

hipError_t hipHostAlloc(void **p, size_t size, unsigned flags)
{
    (void)flags;
    return host_alloc(p, size);
}

hipError_t hipMallocHost(void **p, size_t size)
{
    return host_alloc(p, size);
}

hipError_t hipMemAllocHost(void **p, size_t size)
{
    return host_alloc(p, size);
}

hipError_t hipMallocManaged(void **p, size_t size, unsigned flags)
{
    (void)flags;
    return host_alloc(p, size);
}

hipError_t hipHostFree(void *p)
{
    return hipFree(p);
}

hipError_t hipFreeHost(void *p)
{
    return hipFree(p);
}

hipError_t hipExtMallocWithFlags(void **p, size_t size, unsigned flags)
{
    (void)flags;
    return hipMalloc(p, size);
}

/* In stream order: everything before is done. Pools and graphs' own memory are not offered. */
static bool captured(hipStream_t stream)
{
    hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
    return emu_hipStreamIsCapturing(stream, &status) != hipSuccess || status != hipStreamCaptureStatusNone;
}

hipError_t hipMallocAsync(void **p, size_t size, hipStream_t stream)
{
    rocm_start();
    return captured(stream) ? rocm_refuse("hipMallocAsync during a capture") : hipMalloc(p, size);
}

/* The stream's work on it comes first, the host doesn't wait. */
static hipError_t free_in_order(void *p, hipStream_t stream)
{
    LOCKED;
    (void)emu_finish_all();
    if (!emu_order_wanted() || !emu_find_block(p))
        return emu_free(p);
    if (!emu_stream_ok(&stream))
        return emu_rules.bad_stream;
    const struct emu_block *b = emu_find_block(p);
    emu_order_begin(stream, "hipFreeAsync");
    emu_order_touch(p, b->hi - b->lo, EMU_TOUCH_WRITE);
    bool ordered = emu_order_end(NULL, 0);
    hipError_t e = emu_free(p);
    return ordered ? e : hipErrorLaunchFailure;
}

hipError_t hipFreeAsync(void *p, hipStream_t stream)
{
    rocm_start();
    if (captured(stream))
        return rocm_refuse("hipFreeAsync during a capture");
    hipError_t e = free_in_order(p, stream);
    return rocm_end(e);
}

hipError_t hipHostRegister(void *p, size_t size, unsigned flags)
{
    (void)flags;
    rocm_start();
    LOCKED;
    hipError_t e = emu_not_while_capturing();
    if (e == hipSuccess && (!p || !size))
        e = hipErrorInvalidValue;
    if (e == hipSuccess && emu_find_block(p))
        e = hipErrorHostMemoryAlreadyRegistered;
    struct device *d = emu_here();
    struct emu_block *b = e == hipSuccess && d
                              ? emu_memory_add(&d->memory, EMU_BLOCK_DEVICE, p, size, true, "registered host memory")
                              : NULL;
    if (b)
        b->host = true;
    if (b && emu_hooks->host_write)
        emu_hooks->host_write(b, b->lo, size);
    return rocm_end(e != hipSuccess || b ? e : hipErrorOutOfMemory);
}

hipError_t hipHostUnregister(void *p)
{
    rocm_start();
    LOCKED;
    hipError_t e = emu_not_while_capturing();
    struct emu_block *b = emu_find_block(p);
    if (e == hipSuccess && (!b || b->mapping || b->lo != (uintptr_t)p))
        e = hipErrorHostMemoryNotRegistered;
    if (e == hipSuccess) {
        (void)emu_finish_all();
        emu_order_host_gone(p, b->hi - b->lo, "hipHostUnregister");
    }
    for (int i = 0; i < emu_n_devices && e == hipSuccess; i++)
        if (emu_memory_find(&emu_devices[i].memory, b->lo) == b) {
            emu_memory_remove(&emu_devices[i].memory, b);
            break;
        }
    return rocm_end(e);
}

/* ---- questions about pointers ----------------------------------------------------------------------------------- */

/* The block, and the ordinal of its device. */
static struct emu_block *find(const void *p, int *device)
{
    struct emu_block *b = emu_find_block(p);
    for (int i = 0; b && i < emu_n_devices; i++)
        if (emu_memory_find(&emu_devices[i].memory, b->lo) == b)
            *device = i;
    return b;
}

hipError_t hipHostGetDevicePointer(void **device, void *host, unsigned flags)
{
    rocm_start();
    LOCKED;
    if (!device || flags || !emu_find_block(host))
        return rocm_end(hipErrorInvalidValue);
    *device = host;
    return rocm_end(hipSuccess);
}

hipError_t hipMemGetAddressRange(hipDeviceptr_t *base, size_t *size, hipDeviceptr_t p)
{
    rocm_start();
    LOCKED;
    int device;
    const struct emu_block *b = find(p, &device);
    if (!b)
        return rocm_end(hipErrorNotFound);
    if (base)
        *base = (void *)(uintptr_t)b->lo;
    if (size)
        *size = b->hi - b->lo;
    return rocm_end(hipSuccess);
}

hipError_t hipMemGetInfo(size_t *left, size_t *total)
{
    rocm_start();
    LOCKED;
    const struct device *d = emu_here();
    if (!d)
        return rocm_end(hipErrorNoDevice);
    if (left)
        *left = d->memory.limit - d->memory.allocated;
    if (total)
        *total = d->memory.limit;
    return rocm_end(hipSuccess);
}

/* hipPointerAttribute_t: the same places in all releases; hipMemoryTypeDevice is 1, since 6.0 2. */
hipError_t pointer_attributes(void *out, const void *p) __asm__("hipPointerGetAttributes");
hipError_t pointer_attributes(void *out, const void *p)
{
    struct {
        int type, device;
        void *device_pointer, *host_pointer;
        int managed;
        unsigned flags;
    } a = { .device = -1 };
    rocm_start();
    LOCKED;
    if (!out || !p)
        return rocm_end(rocm_version->keeps_error && !p && out ? hipSuccess : hipErrorInvalidValue);
    if (!find(p, &a.device))
        return rocm_end(hipErrorInvalidValue);
    a.type = rocm_version->r0600 ? 2 : 1;
    a.device_pointer = (void *)(uintptr_t)p;
    memcpy(out, &a, sizeof(a));
    return rocm_end(hipSuccess);
}

hipError_t hipPointerGetAttribute(void *out, hipPointer_attribute attr, hipDeviceptr_t p)
{
    rocm_start();
    LOCKED;
    int device = -1, type = rocm_version->r0600 ? 2 : 1;
    const struct emu_block *b = find(p, &device);
    if (!out || !b)
        return rocm_end(hipErrorInvalidValue);
    size_t size = b->hi - b->lo;
    const void *start = (void *)(uintptr_t)b->lo;
    switch ((int)attr) {
    case HIP_POINTER_ATTRIBUTE_MEMORY_TYPE:
        memcpy(out, &type, sizeof(type));
        break;
    case HIP_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case HIP_POINTER_ATTRIBUTE_HOST_POINTER:
        memcpy(out, &p, sizeof(p));
        break;
    case HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        memcpy(out, &device, sizeof(device));
        break;
    case HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        memcpy(out, &start, sizeof(start));
        break;
    case HIP_POINTER_ATTRIBUTE_RANGE_SIZE:
        memcpy(out, &size, sizeof(size));
        break;
    default:
        return rocm_end(hipErrorNotSupported);
    }
    return rocm_end(hipSuccess);
}

/* ---- copies ----------------------------------------------------------------------------------------------------- */

/* Beside a capture a call that waits is refused, whatever it copies. */
static hipError_t blocking(void)
{
    rocm_start();
    LOCKED;
    return emu_blocking_ok();
}

/* ... and the host then knows that the default stream's work is over. */
static hipError_t waited(hipError_t e)
{
    LOCKED;
    hipError_t late = emu_finish_stream(NULL);
    emu_order_host_stream(NULL);
    return e != hipSuccess ? e : late;
}

/* Which side is the device's, HIP sees by the pointers. */
hipError_t hipMemcpy(void *dst, const void *src, size_t size, hipMemcpyKind kind)
{
    hipError_t e = blocking();
    if (e == hipSuccess && (unsigned)kind > hipMemcpyDefault)
        e = hipErrorInvalidMemcpyDirection;
    return rocm_end(e != hipSuccess ? e : waited(emu_hipMemcpyAsync(dst, src, size, hipMemcpyDefault, NULL)));
}

hipError_t hipMemcpyWithStream(void *dst, const void *src, size_t size, hipMemcpyKind kind, hipStream_t stream)
{
    hipError_t e = hipMemcpyAsync(dst, src, size, kind, stream);
    return e != hipSuccess ? e : hipStreamSynchronize(stream);
}

hipError_t hipMemcpyDtoD(hipDeviceptr_t dst, hipDeviceptr_t src, size_t size)
{
    return hipMemcpy(dst, src, size, hipMemcpyDeviceToDevice);
}

hipError_t hipMemcpyDtoDAsync(hipDeviceptr_t dst, hipDeviceptr_t src, size_t size, hipStream_t stream)
{
    return hipMemcpyAsync(dst, src, size, hipMemcpyDeviceToDevice, stream);
}

hipError_t hipMemcpyHtoDAsync(hipDeviceptr_t dst, void *src, size_t size, hipStream_t stream)
{
    return hipMemcpyAsync(dst, src, size, hipMemcpyHostToDevice, stream);
}

hipError_t hipMemcpyDtoHAsync(void *dst, hipDeviceptr_t src, size_t size, hipStream_t stream)
{
    return hipMemcpyAsync(dst, src, size, hipMemcpyDeviceToHost, stream);
}

hipError_t hipMemcpyPeer(void *dst, int dst_device, const void *src, int src_device, size_t size)
{
    (void)dst_device, (void)src_device;
    return hipMemcpy(dst, src, size, hipMemcpyDeviceToDevice);
}

hipError_t hipMemcpyPeerAsync(void *dst, int dst_device, const void *src, int src_device, size_t size,
                              hipStream_t stream)
{
    (void)dst_device, (void)src_device;
    return hipMemcpyAsync(dst, src, size, hipMemcpyDeviceToDevice, stream);
}

/* All of it at once: nothing is copied of what doesn't fit. */
static bool both_fit(const void *dst, size_t to, const void *src, size_t from)
{
    LOCKED;
    return emu_copy_fits(dst, to, true, "hipMemcpy2D") && emu_copy_fits(src, from, false, "hipMemcpy2D");
}

static hipError_t copy_rows(void *dst, size_t dst_pitch, const void *src, size_t src_pitch, size_t width, size_t height,
                            hipStream_t stream)
{
    size_t to = 0, from = 0;
    hipError_t e = width > dst_pitch || width > src_pitch ? hipErrorInvalidPitchValue : hipSuccess;
    if (e == hipSuccess && width && height &&
        (!dst || !src || __builtin_mul_overflow(dst_pitch, height - 1, &to) ||
         __builtin_mul_overflow(src_pitch, height - 1, &from) || !both_fit(dst, to + width, src, from + width)))
        e = hipErrorInvalidValue;
    for (size_t y = 0; width && y < height && e == hipSuccess; y++)
        e = emu_hipMemcpyAsync((char *)dst + y * dst_pitch, (const char *)src + y * src_pitch, width, hipMemcpyDefault,
                               stream);
    return rocm_end(e);
}

hipError_t hipMemcpy2D(void *dst, size_t dst_pitch, const void *src, size_t src_pitch, size_t width, size_t height,
                       hipMemcpyKind kind)
{
    hipError_t e = blocking();
    (void)kind;
    return e != hipSuccess ? rocm_end(e) : waited(copy_rows(dst, dst_pitch, src, src_pitch, width, height, NULL));
}

hipError_t hipMemcpy2DAsync(void *dst, size_t dst_pitch, const void *src, size_t src_pitch, size_t width, size_t height,
                            hipMemcpyKind kind, hipStream_t stream)
{
    (void)kind;
    rocm_start();
    return copy_rows(dst, dst_pitch, src, src_pitch, width, height, stream);
}

/* ---- memsets ---------------------------------------------------------------------------------------------------- */

static hipError_t set(void *dst, uint32_t value, int width, size_t count)
{
    hipError_t e = blocking();
    return rocm_end(e != hipSuccess ? e : waited(emu_memset(dst, value, width, count, NULL)));
}

static hipError_t set_async(void *dst, uint32_t value, int width, size_t count, hipStream_t stream)
{
    rocm_start();
    return rocm_end(emu_memset(dst, value, width, count, stream));
}

hipError_t hipMemset(void *dst, int value, size_t size)
{
    return set(dst, (uint32_t)value, 1, size);
}

hipError_t hipMemsetAsync(void *dst, int value, size_t size, hipStream_t stream)
{
    return set_async(dst, (uint32_t)value, 1, size, stream);
}

hipError_t hipMemsetD8(hipDeviceptr_t dst, unsigned char value, size_t count)
{
    return set(dst, value, 1, count);
}

hipError_t hipMemsetD16(hipDeviceptr_t dst, unsigned short value, size_t count)
{
    return set(dst, value, 2, count);
}

hipError_t hipMemsetD16Async(hipDeviceptr_t dst, unsigned short value, size_t count, hipStream_t stream)
{
    return set_async(dst, value, 2, count, stream);
}

hipError_t hipMemsetD32(hipDeviceptr_t dst, int value, size_t count)
{
    return set(dst, (uint32_t)value, 4, count);
}

hipError_t hipMemsetD32Async(hipDeviceptr_t dst, int value, size_t count, hipStream_t stream)
{
    return set_async(dst, (uint32_t)value, 4, count, stream);
}
