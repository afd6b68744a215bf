/* SPDX-License-Identifier: MIT
 *
 * Contexts: opening a device, its databases and its cache, and closing them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "context_impl.h"
#include "base/util.h"
#include "ops/params.h"

RFG_PARAMS_END(rfg_context_params, batch_invariant);

/* A parameter, else an environment variable, else NULL. */
static const char *setting(const char *param, const char *env)
{
    return param ? param : rfg_env(env);
}

static int threads_wanted(const rfg_context_params *p)
{
    const char *env = rfg_env("RFG_THREADS");
    if (p->threads > 0 || !env)
        return p->threads;
    char *end;
    long n = strtol(env, &end, 10);
    if (*end || n < 1 || n > RFG_MAX_THREADS) {
        rfg_warn("RFG_THREADS='%s': must be a number from 1 to %d; using the online cores", env, RFG_MAX_THREADS);
        return 0;
    }
    return (int)n;
}

/* Mistakes that would go unnoticed: a list of variants with an unknown name, ... */
static rfg_status check_variants(const rfg_context_params *p, const char *variants)
{
    struct rfg_reason why;
    return rfg_variants_known(variants, &why) ? RFG_OK
                                              : rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "rfg_context_create: %s: %s",
                                                         p->variants ? "variants" : "RFG_VARIANTS", why.text);
}

/* ... a switch other than 0 and 1 (and, in rfg_check_disabled(), an unknown platform), ... */
static rfg_status read_switch(const char *name, bool *on)
{
    const char *env = rfg_env(name);
    if (env && strcmp(env, "0") != 0 && strcmp(env, "1") != 0)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "rfg_context_create: %s='%s': must be 0 or 1", name, env);
    *on = env ? *env == '1' : *on;
    return RFG_OK;
}

/* ... a directory of kernels that has none. */
static rfg_status check_sources(const rfg_context *ctx)
{
    struct rfg_reason why;
    return !ctx->hip || rfg_jit_sources_there(&why)
               ? RFG_OK
               : rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "rfg_context_create: %s", why.text);
}

void rfg_context_calibrate(rfg_context *ctx, const struct rfg_calibration *c)
{
    rfg_device_calibrate(&ctx->dev, c);
    ctx->measured_gbps = c->mem_gbps;
    rfg_log(RFG_LOG_DISPATCH,
            "%s: calibrated %s: %.0f GB/s, caches %.0f GB/s, launch %.2f us, load %.2f us, sync %.2f us", ctx->dev.name,
            c->date, c->mem_gbps, c->cache_gbps, c->latency_us, c->load_us, c->sync_us);
}

/* Values that were measured on this very device replace the table's. */
static void calibrate(rfg_context *ctx, struct rfg_db *user)
{
    struct rfg_calibration c;
    /* An emulated device has the speed of the table. */
    if ((!ctx->platform || ctx->platform->hardware) &&
        rfg_device_calibration(&ctx->dev, ctx->product, ctx->driver, user, &c))
        rfg_context_calibrate(ctx, &c);
}

/* Uses the pack's rows in place of the databases, and no cache on disk. */
static rfg_status open_pack(rfg_context *ctx, const char *path)
{
    size_t n;
    rfg_status st = rfg_pack_open(&ctx->pack, path);
    if (st == RFG_OK && *ctx->dev.target)
        st = rfg_pack_check_target(ctx->pack, ctx->dev.target);
    if (st != RFG_OK)
        return st;
    const struct rfg_row *rows = rfg_pack_rows(ctx->pack, &n);
    ctx->cache = rfg_cache_open("", 0);
    ctx->snap = rfg_snapshot_of(rows, n, ctx->dev.arch, rfg_context_named(ctx));
    return RFG_OK;
}

static void open_databases(rfg_context *ctx, const rfg_context_params *p)
{
    struct rfg_db *user = rfg_db_open_to_read(ctx->user_db, true);
    calibrate(ctx, user);
    char *system_db = p->system_db ? strdup(p->system_db) : rfg_db_system_path(ctx->dev.arch, ctx->dev.cu_count);
    ctx->cache = rfg_cache_open(p->cache_dir, 0);
    ctx->snap = rfg_snapshot_load(user, system_db, ctx->dev.arch, rfg_context_named(ctx));
    rfg_db_close(&user);
    free(system_db);
}

/* product: the name of an imagined device; NULL: the device's own name. */
static rfg_status create(rfg_context **out, const rfg_context_params *p, const char *product,
                         rfg_status (*open)(rfg_context *ctx, const char *name, int threads))
{
    if (p->threads < 0 || p->threads > RFG_MAX_THREADS)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "rfg_context_create: threads is %d: must be from 0 to %d",
                        p->threads, RFG_MAX_THREADS);
    if (p->misses < -1 || p->misses > 1)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "rfg_context_create: misses is %d: must be -1, 0 or 1", p->misses);
    rfg_context *ctx = calloc(1, sizeof(*ctx));
    if (!ctx)
        return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "rfg_context_create: no memory for a context");
    ctx->forks = rfg_fork_count();
    pthread_mutex_init(&ctx->lock, NULL);
    pthread_cond_init(&ctx->made, NULL);
    pthread_mutex_init(&ctx->cpu_lock, NULL);
    pthread_mutex_init(&ctx->warn_lock, NULL);
    pthread_mutex_init(&ctx->module_lock, NULL);
    pthread_mutex_init(&ctx->vendor_lock, NULL);
    pthread_mutex_init(&ctx->vendor_prepare_lock, NULL);
    pthread_mutex_init(&ctx->streams_lock, NULL);
    pthread_mutex_init(&ctx->scratch_lock, NULL);

    const char *variants = setting(p->variants, "RFG_VARIANTS");
    bool overlap = p->launch_overlap != 0, invariant = p->batch_invariant != 0, vendor = true, misses = p->misses > 0;
    int tune_ms;
    rfg_status st;
    if ((st = check_variants(p, variants)) || (!overlap && (st = read_switch("RFG_LAUNCH_OVERLAP", &overlap))) ||
        (!invariant && (st = read_switch("RFG_BATCH_INVARIANT", &invariant))) ||
        (!p->misses && (st = read_switch("RFG_MISSES", &misses))) || (st = read_switch("RFG_VENDOR", &vendor)) ||
        (st = rfg_check_disabled()) || (st = rfg_online_read(p->tune, &tune_ms)) ||
        (st = open(ctx, setting(p->device, "RFG_DEVICE"), threads_wanted(p))) || (st = check_sources(ctx))) {
        rfg_context_destroy(&ctx);
        return st;
    }
    const char *user = setting(p->user_db, "RFG_DB"), *pack = setting(p->pack, "RFG_PACK");
    ctx->user_db = user ? strdup(user) : rfg_db_user_path();
    if (product)
        snprintf(ctx->product, sizeof(ctx->product), "%s", product);
    if (!*ctx->product)
        snprintf(ctx->product, sizeof(ctx->product), "%s", ctx->dev.arch);
    ctx->overlap = overlap && rfg_device_can_overlap(&ctx->dev, NULL);
    ctx->invariant = invariant;
    ctx->uncalibrated = ctx->dev;
    ctx->variants = variants ? strdup(variants) : NULL;
    ctx->save_misses = misses && ctx->user_db && *ctx->user_db;
    if (!pack || !*pack) {
        open_databases(ctx, p);
    } else if ((st = open_pack(ctx, pack))) {
        rfg_context_destroy(&ctx);
        return st;
    }
    if (!ctx->cache || !ctx->snap || !ctx->user_db || (variants && !ctx->variants)) {
        rfg_context_destroy(&ctx);
        return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "rfg_context_create: no memory for the cache or the database");
    }
    rfg_log(RFG_LOG_DISPATCH, "device %s: %s, %d %s; %zu tuned rows from '%s'", ctx->dev.name, ctx->dev.arch,
            ctx->dev.cu_count, ctx->hip ? "CUs" : "threads", rfg_snapshot_rows(ctx->snap),
            ctx->pack ? rfg_pack_path(ctx->pack) : ctx->user_db);
    if (ctx->pool)
        rfg_fork_watch(ctx);
    rfg_vendor_begin(ctx);
    rfg_online_begin(ctx, tune_ms, p->misses < 0, p->cache_dir);
    ctx->trace = rfg_trace_open(ctx);
    *out = ctx;
    return RFG_OK;
}

rfg_status rfg_context_create(rfg_context **out, const rfg_context_params *params)
{
    rfg_context_params p = RFG_CONTEXT_PARAMS_INIT;
    if (!out)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "rfg_context_create: ctx is NULL: must point to a context pointer");
    *out = NULL;
    rfg_status st = RFG_TAKE_PARAMS("rfg_context_create", rfg_context_params, &p, params);
    return st ? st : create(out, &p, NULL, rfg_open_device);
}

rfg_status rfg_context_imagine(rfg_context **out, const rfg_context_params *params, const char *product)
{
    *out = NULL;
    return create(out, params, product, rfg_open_imagined);
}

void rfg_context_destroy(rfg_context **pctx)
{
    if (!pctx || !*pctx)
        return;
    rfg_context *ctx = *pctx;
    *pctx = NULL;
    rfg_describe_end(ctx);
    if (rfg_context_forked(ctx))
        return; /* its locks may be held and its memory be the runtime's: all of it ends with the child */
    rfg_fork_unwatch(ctx);
    int previous = -1;
    /* A context whose creation failed has nothing on the device. Its error message must stay. */
    bool whole = ctx->cache && ctx->snap;
    bool entered = whole && ctx->hip && rfg_device_enter(ctx, &previous) == RFG_OK;
    if (whole)
        rfg_misses_save(ctx, RFG_DB_LAST_NOTE);
    rfg_online_end(ctx);
    rfg_trace_close(&ctx->trace);
    rfg_plans_free(ctx);
    rfg_stream_destroy_all(ctx);
    rfg_workspace_free_all(ctx);
    rfg_scratch_free_all(ctx);
    if (entered)
        rfg_vendor_end(ctx);
    if (ctx->own_stream)
        (void)ctx->hip->hipStreamDestroy(ctx->own_stream);
    if (entered)
        rfg_device_leave(ctx, previous);
    rfg_cpu_pool_destroy(&ctx->pool);
    rfg_cache_close(&ctx->cache);
    rfg_pack_close(&ctx->pack);
    rfg_snapshot_free(&ctx->snap);
    free(ctx->cpu_workspace);
    free(ctx->warned);
    for (struct known_order *o = ctx->orders, *next; o; o = next) {
        next = o->next;
        free(o);
    }
    free(ctx->user_db);
    free(ctx->variants);
    pthread_mutex_destroy(&ctx->lock);
    pthread_cond_destroy(&ctx->made);
    pthread_mutex_destroy(&ctx->cpu_lock);
    pthread_mutex_destroy(&ctx->warn_lock);
    pthread_mutex_destroy(&ctx->module_lock);
    pthread_mutex_destroy(&ctx->vendor_lock);
    pthread_mutex_destroy(&ctx->vendor_prepare_lock);
    pthread_mutex_destroy(&ctx->streams_lock);
    pthread_mutex_destroy(&ctx->scratch_lock);
    free(ctx);
}
