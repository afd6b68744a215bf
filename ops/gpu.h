/* SPDX-License-Identifier: MIT
 *
 * Shared by the GPU variants of all operators. */
#ifndef RFG_OPS_GPU_H
#define RFG_OPS_GPU_H

#include "op.h"

#define MAX_GROUPS (1 << 20) /* workgroups of a launch whose kernel goes through the rest in turn */
/* From a load's issue to its data, with the memory system busy. Models compare bytes in flight with it. */
#define LOAD_US      0.8
#define MIN(a, b)    ((a) < (b) ? (a) : (b))
#define MAX(a, b)    ((a) > (b) ? (a) : (b))
#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* For kernels whose order of tiles depends on it. Most GPUs' have no such macro. */
static inline void xcd_macro(const struct rfg_device *dev, struct rfg_kernel *k)
{
    if (dev->xcds > 1)
        rfg_kernel_macro(k, "XCDS", dev->xcds);
}

/* Pages that are no power of two are a constant of the kernel: rfg_pages.h. */
static inline void page_macro(struct rfg_kernel *k, int64_t page)
{
    if (page & (page - 1))
        rfg_kernel_macro(k, "PAGE_KEYS", (int)page);
}

/* Bytes of the widest access, up to `widest`, to rows of n elements of a format: rows are whole ones, and aligned. */
static inline int access_width(int format, int64_t n, int64_t align, int widest)
{
    int size = (int)rfg_format_bytes(format, 1), width = widest;
    while (width > size && (align < width || n * size % width))
        width /= 2;
    return width;
}

/* The same for stores of what a chunk of 16 bytes of another format becomes, which may be less than 16 bytes. */
static inline int store_width(int from, int format, int64_t n, int64_t align)
{
    int widest = (int)rfg_format_bytes(format, rfg_format_elements(from, 16));
    return access_width(format, n, align, MIN(widest, 16));
}

/* Whether it has Hopper's asynchronous matrix instructions. */
static inline bool has_wgmma(const struct rfg_device *dev, struct rfg_reason *why)
{
    return dev->hw->mma == RFG_MMA_WGMMA ||
           rfg_refuse(why, "target is %s: must be sm_90a", *dev->target ? dev->target : dev->arch);
}

static inline bool is_gpu(const struct rfg_device *dev, struct rfg_reason *why)
{
    return dev->platform != RFG_PLATFORM_CPU || rfg_refuse(why, "device is %s: must be a GPU", dev->name);
}

#endif
