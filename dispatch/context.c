/* SPDX-License-Identifier: MIT
 *
 * Contexts: opening a device, its databases and its cache; the op call's way from a problem to a launch. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "context_impl.h"
#include "trace.h"
#include "base/util.h"

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

rfg_status rfg_hip_fail(const rfg_context *ctx, const char *what, hipError_t error)
{
    rfg_status st = error == hipErrorOutOfMemory ? RFG_ERROR_OUT_OF_MEMORY : RFG_ERROR_DEVICE;
    return rfg_fail(st, "%s: %s failed: %s (%d)", ctx->dev.name, what, ctx->hip->error_name(error), (int)error);
}

rfg_status rfg_device_enter(const rfg_context *ctx, int *previous)
{
    *previous = -1;
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

rfg_status rfg_context_stream(rfg_context *ctx, hipStream_t *stream)
{
    int previous;
    rfg_status st = rfg_device_enter(ctx, &previous);
    if (st != RFG_OK)
        return st;
    pthread_mutex_lock(&ctx->lock);
    hipStream_t made;
    hipError_t e = ctx->own_stream ? hipSuccess : ctx->hip->hipStreamCreateWithFlags(&made, hipStreamNonBlocking);
    if (e != hipSuccess)
        st = rfg_hip_fail(ctx, "hipStreamCreateWithFlags", e);
    else if (!ctx->own_stream)
        ctx->own_stream = made;
    *stream = ctx->own_stream;
    pthread_mutex_unlock(&ctx->lock);
    rfg_device_leave(ctx, previous);
    return st;
}

/* ---- creating --------------------------------------------------------------------------------------------------- */

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

/* What would be a mistake that nobody notices: a list of variants with a name that none has, ... */
static rfg_status check_variants(const rfg_context_params *p, const char *variants)
{
    struct rfg_reason why;
    return rfg_variants_known(variants, &why) ? RFG_OK
                                              : rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "rfg_context_create: %s: %s",
                                                         p->variants ? "variants" : "RFG_VARIANTS", why.text);
}

/* ... a switch in other words than 0 and 1 (and, in rfg_check_disabled(), a platform that there isn't), ... */
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

/* What was measured of this very device, rather than the table's word for its kind. */
static void calibrate(rfg_context *ctx, struct rfg_db *user)
{
    struct rfg_calibration c;
    /* An emulator pretends to be a device that is as fast as the table says. */
    if ((!ctx->platform || ctx->platform->hardware) &&
        rfg_device_calibration(&ctx->dev, ctx->product, ctx->driver, user, &c))
        rfg_context_calibrate(ctx, &c);
}

/* The pack's rows in place of the databases, and no cache on disk: reads nothing else. */
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

/* product: what an imagined device is called; NULL: as it calls itself. */
static rfg_status create(rfg_context **out, const rfg_context_params *p, const char *product,
                         rfg_status (*open)(rfg_context *ctx, const char *name, int threads))
{
    if (p->threads < 0 || p->threads > RFG_MAX_THREADS)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "rfg_context_create: threads is %d: must be from 0 to %d",
                        p->threads, RFG_MAX_THREADS);
    rfg_context *ctx = calloc(1, sizeof(*ctx));
    if (!ctx)
        return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "rfg_context_create: no memory for a context");
    ctx->forks = rfg_fork_count();
    pthread_mutex_init(&ctx->lock, NULL);
    pthread_mutex_init(&ctx->cpu_lock, NULL);
    pthread_mutex_init(&ctx->warn_lock, NULL);
    pthread_mutex_init(&ctx->module_lock, NULL);
    pthread_mutex_init(&ctx->vendor_lock, NULL);
    pthread_mutex_init(&ctx->streams_lock, NULL);
    pthread_mutex_init(&ctx->scratch_lock, NULL);

    const char *variants = setting(p->variants, "RFG_VARIANTS");
    bool overlap = p->launch_overlap != 0, invariant = p->batch_invariant != 0, vendor = true;
    int tune_ms;
    rfg_status st;
    if ((st = check_variants(p, variants)) || (!overlap && (st = read_switch("RFG_LAUNCH_OVERLAP", &overlap))) ||
        (!invariant && (st = read_switch("RFG_BATCH_INVARIANT", &invariant))) ||
        (st = read_switch("RFG_VENDOR", &vendor)) || (st = rfg_check_disabled()) ||
        (st = rfg_online_read(p->tune, &tune_ms)) ||
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
    ctx->save_misses = !p->no_misses && ctx->user_db && *ctx->user_db;
    if (!pack || !*pack) {
        open_databases(ctx, p);
    } else if ((st = open_pack(ctx, pack))) {
        rfg_context_destroy(&ctx);
        return st;
    }
    if (!ctx->cache || !ctx->snap || (variants && !ctx->variants)) {
        rfg_context_destroy(&ctx);
        return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "rfg_context_create: no memory for the cache or the database");
    }
    rfg_log(RFG_LOG_DISPATCH, "device %s: %s, %d %s; %zu tuned rows from '%s'", ctx->dev.name, ctx->dev.arch,
            ctx->dev.cu_count, ctx->hip ? "CUs" : "threads", rfg_snapshot_rows(ctx->snap),
            ctx->pack ? rfg_pack_path(ctx->pack) : ctx->user_db);
    if (ctx->pool)
        rfg_fork_watch(ctx);
    rfg_vendor_begin(ctx);
    rfg_online_begin(ctx, tune_ms, p->cache_dir);
    ctx->trace = rfg_trace_open(ctx);
    *out = ctx;
    return RFG_OK;
}

rfg_status rfg_context_create(rfg_context **out, const rfg_context_params *params)
{
    static const rfg_context_params defaults;
    if (!out)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "rfg_context_create: ctx is NULL: must point to a context pointer");
    *out = NULL;
    return create(out, params ? params : &defaults, NULL, rfg_open_device);
}

rfg_status rfg_context_imagine(rfg_context **out, const rfg_context_params *params, const char *product)
{
    *out = NULL;
    return create(out, params, product, rfg_open_imagined);
}

/* ---- misses ---------------------------------------------------------------------------------------------------- */

#define SAVE_EVERY  5.0   /* seconds between attempts to write the misses down, */
#define SAVE_SELDOM 300.0 /* and after many that failed */

/* Adds what was called and missed since the last time to the user database. Under ctx->lock. In the midst of an op
 * call nobody's lock is waited for; what can't be written now is written at the next attempt, or at the end. */
static void save_misses(rfg_context *ctx, enum rfg_db_mode mode)
{
    struct plan_table *t = atomic_load(&ctx->table);
    struct rfg_db *db = NULL;
    bool failed = false;
    for (size_t i = 0; ctx->save_misses && t && i <= t->mask; i++) {
        struct rfg_plan *plan = atomic_load(&t->slot[i]);
        uint64_t calls = plan ? atomic_load_explicit(&plan->calls, memory_order_relaxed) : 0;
        if (!plan || plan->choice.rung == RFG_RUNG_EXACT || calls == plan->calls_saved)
            continue;
        struct rfg_problem key = rfg_problem_key(&plan->prob);
        failed = (!db && rfg_db_open(&db, ctx->user_db, mode)) ||
                 rfg_db_add_misses(db, &key, ctx->dev.arch, ctx->dev.cu_count, (int)plan->choice.rung,
                                   calls - plan->calls_saved);
        if (failed) {
            if (!ctx->misses_failed || mode != RFG_DB_NOTE)
                rfg_warn("misses are not recorded%s: %s", mode == RFG_DB_NOTE ? " now, tried again later" : "",
                         rfg_last_error());
            break;
        }
        plan->calls_saved = calls;
    }
    rfg_db_close(&db);
    ctx->misses_failed = failed ? ctx->misses_failed + 1 : 0;
    ctx->save_misses_at = rfg_now() + (ctx->misses_failed > 5 ? SAVE_SELDOM : SAVE_EVERY);
}

bool rfg_context_save_misses(rfg_context *ctx)
{
    if (ctx->misses_failed && rfg_now() < ctx->save_misses_at)
        return false;
    save_misses(ctx, RFG_DB_NOTE);
    return !ctx->misses_failed;
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
    /* One that never was whole has nothing on the device, and its creation's error message to keep. */
    bool whole = ctx->cache && ctx->snap;
    bool entered = whole && ctx->hip && rfg_device_enter(ctx, &previous) == RFG_OK;
    if (whole)
        save_misses(ctx, RFG_DB_LAST_NOTE);
    rfg_online_end(ctx);
    rfg_trace_close(&ctx->trace);
    rfg_plan_free_all(ctx);
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
    pthread_mutex_destroy(&ctx->cpu_lock);
    pthread_mutex_destroy(&ctx->warn_lock);
    pthread_mutex_destroy(&ctx->module_lock);
    pthread_mutex_destroy(&ctx->vendor_lock);
    pthread_mutex_destroy(&ctx->streams_lock);
    pthread_mutex_destroy(&ctx->scratch_lock);
    free(ctx);
}

/* ---- the op call ------------------------------------------------------------------------------------------------ */

static struct rfg_plan *probe(rfg_context *ctx, const struct rfg_problem *prob, uint64_t hash)
{
    struct plan_table *t = atomic_load_explicit(&ctx->table, memory_order_acquire);
    for (size_t i = hash; t; i++) {
        struct rfg_plan *plan = atomic_load_explicit(&t->slot[i & t->mask], memory_order_acquire);
        if (!plan || (plan->hash == hash && rfg_problem_equal(&plan->prob, prob)))
            return plan;
    }
    return NULL;
}

static void put(struct plan_table *t, struct rfg_plan *plan)
{
    size_t i = plan->hash;
    while (atomic_load_explicit(&t->slot[i & t->mask], memory_order_relaxed))
        i++;
    atomic_store_explicit(&t->slot[i & t->mask], plan, memory_order_release);
    t->used++;
}

/* Under ctx->lock. */
static rfg_status insert(rfg_context *ctx, struct rfg_plan *plan)
{
    struct plan_table *t = atomic_load(&ctx->table);
    if (!t || 2 * (t->used + 1) > t->mask + 1) {
        size_t size = t ? 2 * (t->mask + 1) : 64;
        struct plan_table *grown = calloc(1, sizeof(*grown) + size * sizeof(grown->slot[0]));
        if (!grown)
            return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "no memory for %zu plans", size);
        grown->mask = size - 1;
        grown->older = t;
        for (size_t i = 0; t && i <= t->mask; i++)
            if (atomic_load(&t->slot[i]))
                put(grown, atomic_load(&t->slot[i]));
        put(grown, plan);
        atomic_store_explicit(&ctx->table, grown, memory_order_release);
        return RFG_OK;
    }
    put(t, plan);
    return RFG_OK;
}

static void say_to_log(void *arg, const char *line)
{
    (void)arg;
    rfg_log(RFG_LOG_DISPATCH, "%s", line);
}

/* Goes down the ladder until a rung's variant can be made ready: a compiler that refuses one variant costs speed, not
 * the op. A tuned row that fails costs its rung; of the model's ranking only the variant that failed goes. If nothing
 * is left, the first thing that the compiler said is why. */
static rfg_status make_plan(rfg_context *ctx, const struct rfg_problem *prob, struct rfg_plan **out)
{
    enum rfg_rung from = RFG_RUNG_EXACT;
    uint32_t skip = 0;
    rfg_status failed = RFG_OK; /* the first compile that did, what of, and why */
    char what[RFG_CONFIG_STRLEN] = "", why[700] = "";
    for (;;) {
        struct rfg_choice choice;
        char text[RFG_PROBLEM_STRLEN], config[RFG_CONFIG_STRLEN];
        rfg_status st =
            rfg_choose(ctx, prob, from, skip, &choice, rfg_log_on(RFG_LOG_DISPATCH) ? say_to_log : NULL, NULL);
        rfg_problem_format(prob, text, sizeof(text));
        if (failed && (st == RFG_ERROR_UNSUPPORTED || st == RFG_ERROR_COMPILE)) /* COMPILE: the pack has no other */
            return rfg_fail(failed, "%s: %s", text, why);
        if (st != RFG_OK)
            return st;
        rfg_config_format(choice.variant, choice.params, config, sizeof(config));
        st = rfg_plan_create(ctx, prob, choice.variant, choice.params, out);
        if (st == RFG_OK) {
            (*out)->choice = choice;
            if (failed)
                rfg_warn("%s: %s can't be used (%s); %s serves it", text, what, why, config);
            return RFG_OK;
        }
        if (st == RFG_ERROR_COMPILE || st == RFG_ERROR_IO) {
            rfg_log(RFG_LOG_DISPATCH, "%s: %s can't be used: %s", text, config, rfg_last_error());
            if (!failed) {
                failed = st;
                snprintf(what, sizeof(what), "%s", config);
                snprintf(why, sizeof(why), "%s", rfg_last_error());
            }
        } else if (st != RFG_ERROR_UNSUPPORTED || (choice.rung == RFG_RUNG_PORTABLE && !failed)) {
            return st;
        } else if (choice.rung == RFG_RUNG_MODEL) {
            /* A library knows what it can do only when it is asked: nothing to be warned of, ... */
            rfg_log(RFG_LOG_DISPATCH, "%s: %s declines: %s", text, config, rfg_last_error());
        } else { /* ... unless a row promised it */
            rfg_warn("%s: %s can't be used (%s); going on without it", text, config, rfg_last_error());
        }
        from = choice.rung < RFG_RUNG_MODEL ? choice.rung + 1 : RFG_RUNG_MODEL;
        for (int i = 0; i < rfg_op_variants(prob->op)->n; i++)
            if (rfg_op_variants(prob->op)->list[i] == choice.variant)
                skip |= 1u << i;
    }
}

bool rfg_plan_renew(rfg_context *ctx, struct rfg_plan *old)
{
    struct plan_table *t = atomic_load(&ctx->table);
    struct rfg_plan *plan;
    if (make_plan(ctx, &old->prob, &plan) != RFG_OK)
        return false;
    if (plan->choice.rung != RFG_RUNG_EXACT) {
        rfg_plan_destroy(ctx, &plan);
        return false;
    }
    plan->hash = old->hash;
    plan->replaced = old;
    size_t i = old->hash;
    while (atomic_load_explicit(&t->slot[i & t->mask], memory_order_relaxed) != old)
        i++;
    atomic_store_explicit(&t->slot[i & t->mask], plan, memory_order_release);
    return true;
}

/* The first call of a problem. */
static rfg_status first_call(rfg_context *ctx, const struct rfg_problem *prob, uint64_t hash, rfg_stream stream,
                             bool in_stream, struct rfg_plan **out)
{
    rfg_status st = RFG_OK;
    pthread_mutex_lock(&ctx->lock);
    struct rfg_plan *plan = probe(ctx, prob, hash);
    if (!plan) {
        bool captured = false;
        char text[RFG_PROBLEM_STRLEN];
        if (in_stream)
            st = rfg_stream_captured(ctx, prob->op->name, stream, &captured);
        if (st == RFG_OK && captured)
            st = rfg_fail(RFG_ERROR_NOT_READY,
                          "%s: first call while the stream is being captured: call rfg_prepare() "
                          "before the capture",
                          rfg_problem_format(prob, text, sizeof(text)));
        else if (st == RFG_OK)
            st = make_plan(ctx, prob, &plan);
        if (st == RFG_OK) {
            plan->hash = hash;
            st = insert(ctx, plan);
            if (st != RFG_OK)
                rfg_plan_destroy(ctx, &plan);
        }
        if (st == RFG_OK && ctx->save_misses && rfg_now() > ctx->save_misses_at)
            save_misses(ctx, RFG_DB_NOTE);
    }
    pthread_mutex_unlock(&ctx->lock);
    *out = plan;
    return st;
}

static struct rfg_problem own_problem(const rfg_context *ctx, const struct rfg_problem *prob)
{
    struct rfg_problem own = rfg_problem_with_overlap(prob, ctx->overlap);
    return rfg_problem_with_invariant(&own, ctx->invariant);
}

rfg_status rfg_context_problem(const rfg_context *ctx, const struct rfg_problem *prob, struct rfg_problem *own)
{
    struct rfg_reason why = { "overlap=1: launch_overlap of the context is off" };
    if (rfg_problem_is_invariant(prob) && !ctx->invariant)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "invariant=1: batch_invariant of the context is off");
    if (rfg_problem_overlaps(prob) && !ctx->overlap)
        return rfg_fail(rfg_device_can_overlap(&ctx->dev, &why) ? RFG_ERROR_INVALID_ARGUMENT : RFG_ERROR_UNSUPPORTED,
                        "%s", why.text);
    *own = own_problem(ctx, prob);
    return RFG_OK;
}

/* ---- describing calls ------------------------------------------------------------------------------------------ */

/* This thread's, between rfg_describe_begin() and rfg_describe_end(). */
static _Thread_local struct {
    const rfg_context *ctx; /* NULL: it describes none */
    char *buf;              /* NULL: nobody asked for the problems */
    size_t size;
} description;

bool rfg_context_describes(const rfg_context *ctx)
{
    return description.ctx == ctx;
}

bool rfg_checks_begin(rfg_context *ctx)
{
    if (description.ctx)
        return false;
    description.ctx = ctx;
    description.buf = NULL;
    atomic_fetch_add(&ctx->describing, 1);
    return true;
}

rfg_status rfg_describe_begin(rfg_context *ctx, char *buf, size_t size)
{
    if (!ctx || !buf)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "rfg_describe_begin: %s is NULL", !ctx ? "ctx" : "buf");
    if (size < RFG_PROBLEM_MAX)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "rfg_describe_begin: size is %zu: must be at least %d", size,
                        RFG_PROBLEM_MAX);
    if (!rfg_checks_begin(ctx))
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT,
                        "rfg_describe_begin: this thread describes already: rfg_describe_end() must come first");
    *buf = 0;
    description.buf = buf;
    description.size = size;
    return RFG_OK;
}

/* Is it a line of the list already? */
static bool is_listed(const char *list, const char *problem)
{
    size_t len = strlen(problem);
    for (const char *s = list; (s = strstr(s, problem)); s++)
        if ((s == list || s[-1] == '\n') && (!s[len] || s[len] == '\n'))
            return true;
    return false;
}

static rfg_status describe_call(const struct rfg_problem *prob)
{
    char text[RFG_PROBLEM_STRLEN];
    if (!description.buf || is_listed(description.buf, rfg_problem_format(prob, text, sizeof(text))))
        return RFG_OK;
    size_t at = strlen(description.buf), need = at + (at > 0) + strlen(text) + 1;
    if (need > description.size)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT,
                        "rfg_describe_begin: size is %zu: must be at least %zu for the problems up to \"%s\" "
                        "(RFG_DESCRIBE_MAX: for any one call's)",
                        description.size, need, text);
    snprintf(description.buf + at, description.size - at, "%s%s", at ? "\n" : "", text);
    return RFG_OK;
}

void rfg_describe_end(rfg_context *ctx)
{
    if (!ctx || description.ctx != ctx)
        return;
    description.ctx = NULL;
    atomic_fetch_sub(&ctx->describing, 1);
}

bool rfg_dispatch_offers(rfg_context *ctx, const struct rfg_problem *prob, const struct rfg_variant *var)
{
    struct rfg_problem own = own_problem(ctx, prob);
    struct rfg_order order;
    if (!rfg_variant_listed(ctx->variants, prob->op, var) || !rfg_variant_supports(var, &ctx->dev, &own, NULL))
        return false;
    /* An order's words begin with the name of the variant that has some parameters for it, whatever the sizes. */
    return !rfg_problem_is_invariant(&own) ||
           (rfg_context_order(ctx, &own, &order, NULL) && !strncmp(order.words, var->name, strlen(var->name)));
}

rfg_status rfg_dispatch(rfg_context *ctx, const struct rfg_problem *prob, void *kargs, rfg_stream stream)
{
    struct rfg_problem own;
    if (ctx->overlap || ctx->invariant) {
        own = own_problem(ctx, prob);
        prob = &own;
    }
    struct rfg_graph *record = NULL;
    int previous = -1;
    rfg_status st = RFG_OK;
    if (rfg_stream_is_special(ctx, stream))
        return rfg_stream_refuse_special(prob->op->name, stream);
    if (!ctx->hip && stream && (st = rfg_stream_record(ctx, prob->op->name, stream, &record)) != RFG_OK)
        return st;
    if (atomic_load_explicit(&ctx->describing, memory_order_relaxed) && description.ctx == ctx)
        return describe_call(prob);
    if (ctx->hip && (st = rfg_device_enter(ctx, &previous)) != RFG_OK)
        return st;
    uint64_t hash = rfg_problem_hash(prob);
    struct rfg_plan *plan = probe(ctx, prob, hash);
    if (!plan)
        st = first_call(ctx, prob, hash, stream, true, &plan);
    struct rfg_traced *traced = ctx->trace && st == RFG_OK ? rfg_trace_begin(ctx->trace, plan, stream) : NULL;
    if (st == RFG_OK)
        st = record ? rfg_graph_add_launch(record, plan, kargs) : rfg_plan_launch(ctx, plan, kargs, stream);
    if (st == RFG_ERROR_NOT_READY && plan && plan->replaced) /* captured on a stream that the old plan was ready for */
        st = rfg_plan_launch(ctx, plan->replaced, kargs, stream);
    if (traced)
        rfg_trace_end(ctx->trace, traced, st == RFG_OK, record != NULL);
    if (st == RFG_OK) {
        atomic_fetch_add_explicit(&plan->calls, 1, memory_order_relaxed);
        if (rfg_log_on(RFG_LOG_CALLS)) {
            char text[RFG_PROBLEM_STRLEN];
            rfg_log(RFG_LOG_CALLS, "%s", rfg_problem_format(prob, text, sizeof(text)));
        }
        if (ctx->online && plan->choice.rung != RFG_RUNG_EXACT)
            rfg_online_tick(ctx, stream);
    }
    if (ctx->hip)
        rfg_device_leave(ctx, previous);
    return st;
}

rfg_status rfg_plan_prepare(rfg_context *ctx, const struct rfg_problem *prob)
{
    int previous = -1;
    struct rfg_problem own, call = rfg_problem_as_called(prob);
    rfg_status st = rfg_context_problem(ctx, &call, &own);
    if (st != RFG_OK || (ctx->hip && (st = rfg_device_enter(ctx, &previous)) != RFG_OK))
        return st;
    uint64_t hash = rfg_problem_hash(&own);
    struct rfg_plan *plan = probe(ctx, &own, hash);
    if (!plan)
        st = first_call(ctx, &own, hash, NULL, false, &plan);
    if (ctx->hip)
        rfg_device_leave(ctx, previous);
    return st;
}

const struct rfg_plan *rfg_plan_find(rfg_context *ctx, const struct rfg_problem *prob)
{
    struct rfg_problem own;
    if (ctx->overlap || ctx->invariant) {
        own = own_problem(ctx, prob);
        prob = &own;
    }
    return probe(ctx, prob, rfg_problem_hash(prob));
}

/* ---- what it did so far ----------------------------------------------------------------------------------------- */

void rfg_context_stats(rfg_context *ctx, rfg_stats *stats)
{
    struct rfg_cache_stats cache;
    if (stats)
        memset(stats, 0, sizeof(*stats));
    if (!ctx || !stats) {
        (void)rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "rfg_context_stats: %s is NULL: must be %s", ctx ? "stats" : "ctx",
                       ctx ? "where they go" : "a context");
        return;
    }
    if (rfg_context_forked(ctx)) {
        (void)rfg_fork_refuse(ctx);
        return;
    }
    pthread_mutex_lock(&ctx->lock);
    rfg_cache_get_stats(ctx->cache, &cache); /* under the lock, which fork() waits for */
    stats->compiles = cache.compiles;
    stats->cache_hits = cache.memory_hits + cache.disk_hits;
    struct plan_table *t = atomic_load(&ctx->table);
    for (size_t i = 0; t && i <= t->mask; i++) {
        const struct rfg_plan *plan = atomic_load(&t->slot[i]);
        stats->plans += plan != NULL;
        for (; plan; plan = plan->replaced) {
            uint64_t calls = atomic_load_explicit(&plan->calls, memory_order_relaxed);
            stats->calls += calls;
            stats->misses += plan->choice.rung != RFG_RUNG_EXACT ? calls : 0;
        }
    }
    stats->tuned = ctx->tuned;
    pthread_mutex_unlock(&ctx->lock);
}
