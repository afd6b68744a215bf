/* SPDX-License-Identifier: MIT */
#include "fenced.h"

#include <sys/mman.h>
#include <unistd.h>

static size_t align_up(size_t n, size_t a)
{
    return (n + a - 1) / a * a;
}

/* As near to the page behind it as its alignment lets it. */
static rfg_status map(size_t size, size_t align, size_t shift, struct rfg_fenced *out)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), room = align_up(shift + size, align);
    out->before = 256;
    out->mapped = align_up(out->before + room, page) + 2 * page;
    out->base = mmap(NULL, out->mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (out->base == MAP_FAILED) {
        out->base = NULL;
        return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "harness: no memory for %zu bytes", size);
    }
    char *end = (char *)out->base + out->mapped - page;
    out->data = end - room + shift;
    out->after = room - shift - size;
    if (mprotect((char *)out->base + page, out->mapped - 2 * page, PROT_READ | PROT_WRITE) != 0)
        return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "harness: no memory for %zu bytes", size);
    return RFG_OK;
}

rfg_status rfg_fenced_alloc(rfg_context *ctx, size_t size, size_t align, size_t shift, struct rfg_fenced *out)
{
    const struct rfg_hip *hip = rfg_context_hip(ctx);
    *out = (struct rfg_fenced){ 0 };
    if (!hip)
        return map(size, align, shift, out);
    hipError_t e = hip->hipMalloc(&out->base, shift + size ? shift + size : 1);
    if (e != hipSuccess)
        return rfg_hip_fail(ctx, "hipMalloc", e);
    out->data = (char *)out->base + shift;
    out->before = shift;
    return RFG_OK;
}

void rfg_fenced_free(rfg_context *ctx, struct rfg_fenced *f)
{
    const struct rfg_hip *hip = rfg_context_hip(ctx);
    if (f->base && hip)
        (void)hip->hipFree(f->base);
    else if (f->base)
        (void)munmap(f->base, f->mapped);
    *f = (struct rfg_fenced){ 0 };
}
