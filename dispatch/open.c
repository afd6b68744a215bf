/* SPDX-License-Identifier: MIT
 *
 * Opening a context's device by its name. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "context_impl.h"
#include "base/util.h"

/* The device is current. */
static rfg_status ask_device(rfg_context *ctx, const char *name)
{
    int version = 0;
    hipError_t e = ctx->hip->describe(ctx->ordinal, &ctx->dev);
    if (!ctx->hip->launch_overlapped)
        ctx->dev.features &= ~(unsigned)RFG_FEATURE_OVERLAP;
    snprintf(ctx->dev.name, sizeof(ctx->dev.name), "%s", name);
    if (e != hipSuccess)
        return rfg_hip_fail(ctx, "describe (reading the device's properties)", e);
    if ((e = ctx->hip->hipDriverGetVersion(&version)) != hipSuccess)
        return rfg_hip_fail(ctx, "hipDriverGetVersion", e);
    if ((e = ctx->hip->hipDeviceGetName(ctx->product, sizeof(ctx->product), ctx->ordinal)) != hipSuccess)
        return rfg_hip_fail(ctx, "hipDeviceGetName", e);
    ctx->platform->driver_name(version, ctx->driver, sizeof(ctx->driver));
    return RFG_OK;
}

static rfg_status open_gpu(rfg_context *ctx, const struct rfg_hip_platform *platform, int ordinal, const char *name)
{
    struct rfg_platform_report report = { 0 };
    ctx->hip = platform->load(&report);
    if (!ctx->hip)
        return rfg_fail(RFG_ERROR_DEVICE, "device '%s': %s", name, report.problem);
    ctx->platform = platform;
    ctx->ordinal = ordinal;
    snprintf(ctx->dev.name, sizeof(ctx->dev.name), "%s", name);
    int count = 0, previous;
    hipError_t e = ctx->hip->hipGetDeviceCount(&count);
    if (e != hipSuccess)
        return rfg_hip_fail(ctx, "hipGetDeviceCount", e);
    if (ordinal >= count)
        return rfg_fail(RFG_ERROR_DEVICE, "device '%s': there %s %d of its kind, counted from 0%s%s", name,
                        count == 1 ? "is" : "are", count, *report.advice ? "; " : "", report.advice);
    rfg_status st = rfg_device_enter(ctx, &previous);
    if (st == RFG_OK) {
        st = ask_device(ctx, name);
        rfg_device_leave(ctx, previous);
    }
    return st;
}

static bool has_device(const struct rfg_hip_platform *p)
{
    const struct rfg_hip *hip = p->hardware ? p->load(NULL) : NULL;
    int count = 0;
    return hip && hip->hipGetDeviceCount(&count) == hipSuccess && count > 0;
}

/* Each platform's form of device names, or the names of platforms with hardware: "amd, nvidia". */
static const char *list_platforms(bool names, char *buf, size_t size)
{
    size_t n = 0;
    *buf = 0;
    for (int i = 0; rfg_platforms[i] && n < size; i++)
        if (!names || rfg_platforms[i]->hardware)
            n += (size_t)snprintf(buf + n, size - n, "%s%s", n ? ", " : "",
                                  names ? rfg_platforms[i]->name : rfg_platforms[i]->devices);
    return buf;
}

rfg_status rfg_open_device(rfg_context *ctx, const char *name, int threads)
{
    char first[16], ways[80], error[256] = "";
    for (int i = 0; !name && rfg_platforms[i]; i++)
        if (has_device(rfg_platforms[i])) {
            snprintf(first, sizeof(first), "%s:0", rfg_platforms[i]->name);
            name = first;
        }
    if (!name || !strcmp(name, "cpu")) {
        rfg_device_cpu(&ctx->dev, threads);
        ctx->pool = rfg_cpu_pool_create(ctx->dev.cu_count);
        return ctx->pool ? RFG_OK
                         : rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "cpu: can't start %d threads: %s", ctx->dev.cu_count,
                                    strerror(errno));
    }
    for (int i = 0; rfg_platforms[i]; i++) {
        size_t len = strlen(rfg_platforms[i]->name);
        if (strncmp(name, rfg_platforms[i]->name, len) != 0 || name[len] != ':')
            continue;
        int ordinal = rfg_platforms[i]->find(name + len + 1, error, sizeof(error));
        if (ordinal >= 0)
            return open_gpu(ctx, rfg_platforms[i], ordinal, name);
        if (*error)
            return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "device '%s': %s", name, error);
    }
    return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "device '%s': must be cpu or one of %s", name,
                    list_platforms(false, ways, sizeof(ways)));
}

rfg_status rfg_open_imagined(rfg_context *ctx, const char *name, int threads)
{
    bool emulated = !strncmp(name, "emu:", 4);
    (void)threads;
    if (!rfg_device_imagine(&ctx->dev, emulated ? name + 4 : name))
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT,
                        "'%.40s': must be an arch that this version knows, such as gfx942, gfx942:228 (CUs) or "
                        "emu:gfx942:4",
                        name);
    if (emulated) {
        char arch[sizeof(ctx->dev.arch)];
        snprintf(arch, sizeof(arch), "%s", ctx->dev.arch);
        snprintf(ctx->dev.arch, sizeof(ctx->dev.arch), RFG_EMU_PREFIX "%.20s", arch);
        ctx->dev.platform = RFG_PLATFORM_EMU;
    }
    snprintf(ctx->dev.name, sizeof(ctx->dev.name), "%s", name);
    return RFG_OK;
}

rfg_status rfg_check_disabled(void)
{
    const char *list = rfg_env("RFG_HIP_DISABLE");
    char names[80];
    for (const char *s = list; s && *s; s += strspn(s, ",")) {
        size_t n = strcspn(s, ",");
        bool known = !n;
        for (int i = 0; rfg_platforms[i] && !known; i++)
            known = rfg_platforms[i]->hardware && strlen(rfg_platforms[i]->name) == n &&
                    !strncmp(s, rfg_platforms[i]->name, n);
        if (!known)
            return rfg_fail(RFG_ERROR_INVALID_ARGUMENT,
                            "rfg_context_create: RFG_HIP_DISABLE='%s': '%.*s': must be one or more of %s", list, (int)n,
                            s, list_platforms(true, names, sizeof(names)));
        s += n;
    }
    return RFG_OK;
}
