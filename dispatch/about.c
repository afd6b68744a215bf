/* SPDX-License-Identifier: MIT
 *
 * What a context says of itself. */
#include <string.h>

#include "context_impl.h"

const struct rfg_device *rfg_context_info(const rfg_context *ctx)
{
    return &ctx->dev;
}

const struct rfg_hip *rfg_context_hip(const rfg_context *ctx)
{
    return ctx->hip;
}

int rfg_context_ordinal(const rfg_context *ctx)
{
    return ctx->ordinal;
}

const char *rfg_context_variants(const rfg_context *ctx)
{
    return ctx->variants;
}

struct rfg_cache *rfg_context_cache(rfg_context *ctx)
{
    return ctx->cache;
}

const char *rfg_context_driver(const rfg_context *ctx)
{
    return ctx->driver;
}

const char *rfg_context_product(const rfg_context *ctx)
{
    return ctx->product;
}

const char *rfg_context_measured_on(const rfg_context *ctx, int i)
{
    return rfg_snapshot_device(ctx->snap, ctx->dev.cu_count, i);
}

const char *rfg_context_named(const rfg_context *ctx)
{
    return strcmp(ctx->product, ctx->dev.arch) ? ctx->product : "";
}

const char *rfg_context_device(const rfg_context *ctx)
{
    if (ctx)
        return ctx->dev.name;
    (void)rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "rfg_context_device: ctx is NULL: must be a context");
    return "";
}
