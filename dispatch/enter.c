/* SPDX-License-Identifier: MIT
 *
 * The beginning of every call: makes the device current, refuses a context of the parent after fork(), and reports
 * errors of the runtime. */
#include "context_impl.h"

atomic_uint rfg_forks;

rfg_status rfg_fork_refuse(const rfg_context *ctx)
{
    return rfg_fail(RFG_ERROR_DEVICE,
                    "%s: the context was made before fork(): the device is the parent's, make a context in the child",
                    ctx->dev.name);
}

rfg_status rfg_hip_fail(const rfg_context *ctx, const char *what, hipError_t error)
{
    rfg_status st = error == hipErrorOutOfMemory ? RFG_ERROR_OUT_OF_MEMORY : RFG_ERROR_DEVICE;
    return rfg_fail(st, "%s: %s failed: %s (%d)", ctx->dev.name, what, ctx->hip->error_name(error), (int)error);
}

rfg_status rfg_device_enter(const rfg_context *ctx, int *previous)
{
    *previous = -1;
    if (!ctx->hip)
        return RFG_OK;
    if (rfg_context_forked(ctx))
        return rfg_fork_refuse(ctx);
    hipError_t e = ctx->hip->hipGetDevice(previous);
    if (e != hipSuccess && e != hipErrorInvalidContext && e != hipErrorNotInitialized)
        return rfg_hip_fail(ctx, "hipGetDevice", e);
    if (e == hipSuccess && *previous == ctx->ordinal)
        return RFG_OK;
    if (e != hipSuccess)
        *previous = -1;
    e = ctx->hip->hipSetDevice(ctx->ordinal);
    return e == hipSuccess ? RFG_OK : rfg_hip_fail(ctx, "hipSetDevice", e);
}

void rfg_device_leave(const rfg_context *ctx, int previous)
{
    hipError_t e = previous >= 0 && previous != ctx->ordinal ? ctx->hip->hipSetDevice(previous) : hipSuccess;
    if (e != hipSuccess) /* what the caller asked for is done: no error of its call */
        rfg_warn("device %d was current and can't be again, %s is: hipSetDevice failed: %s (%d)", previous,
                 ctx->dev.name, ctx->hip->error_name(e), (int)e);
}

rfg_status rfg_call_enter(const rfg_context *ctx, const char *fn, int *previous)
{
    *previous = -1;
    return ctx ? rfg_device_enter(ctx, previous)
               : rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s: ctx is NULL: must be a context", fn);
}
