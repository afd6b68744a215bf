/* SPDX-License-Identifier: MIT
 *
 * Plans: a variant with fixed parameters, compiled, loaded and ready to launch. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "config.h"
#include "context_impl.h"

/* A loaded code object. Plans of one variant with different M share it. */
struct module {
    struct module *next;
    const struct rfg_blob *code; /* the cache's: one address for one code object */
    hipModule_t handle;
    int users;
    uint32_t lds; /* the most that a launch of its kernel has been allowed */
};

/* ---- requests and provenance --------------------------------------------------------------------------------- */

rfg_status rfg_variant_request(const struct rfg_device *dev, const struct rfg_problem *prob,
                               const struct rfg_variant *var, const int *p, struct rfg_jit_request *req,
                               char name[RFG_CONFIG_STRLEN], struct rfg_kernel *kernel)
{
    memset(kernel, 0, sizeof(*kernel));
    var->kernel(dev, prob, p, kernel);
    req->name = rfg_config_format(var, p, name, RFG_CONFIG_STRLEN);
    req->entry = kernel->entry;
    req->target = dev->target;
    req->assembly = rfg_jit_is_assembly(kernel);
    req->provider = NULL;
    req->args = prob->op->kargs_size + var->joint_args;
    req->least_args = prob->op->head + sizeof(struct rfg_kargs_head);
    req->more_args = var->tile_maps != NULL;
    req->source = rfg_jit_expand(kernel);
    return req->source ? RFG_OK : RFG_ERROR_IO;
}

void rfg_variant_provenance(rfg_context *ctx, const struct rfg_problem *prob, const struct rfg_variant *var,
                            char source_hash[65], char *compiler, size_t size)
{
    source_hash[0] = compiler[0] = 0;
    switch (var->kind) {
    case RFG_VARIANT_HOST:
        /* Host variants are part of the library: its version and compiler name them. */
        snprintf(source_hash, 65, "rfg-%s", RFG_VERSION);
        snprintf(compiler, size, "%s", RFG_HOST_COMPILER);
        break;
    case RFG_VARIANT_VENDOR:
        snprintf(compiler, size, "%s", var->vendor_version(&ctx->dev));
        snprintf(source_hash, 65, "%.64s", compiler);
        break;
    case RFG_VARIANT_KERNEL: {
        struct rfg_kernel kernel = { 0 };
        struct rfg_reason why;
        int p[RFG_MAX_PARAMS] = { 0 };
        for (int i = 0; i < var->n_params; i++)
            p[i] = var->params[i].values[0];
        var->kernel(&ctx->dev, prob, p, &kernel);
        rfg_jit_source_hash(kernel.source, source_hash);
        const struct rfg_jit_provider *prov = rfg_jit_provider_for(ctx->dev.target);
        if (prov)
            prov->available(compiler, size, &why);
        break;
    }
    }
}

/* ---- modules ------------------------------------------------------------------------------------------------- */

/* Is the code object the reason? (NVIDIA's own words for it have no number of HIP's.) Else the device or
 * the machine. */
static bool is_refusal(hipError_t e)
{
    return e == hipErrorInvalidImage || e == hipErrorNoBinaryForGpu || e == hipErrorNotFound ||
           e == hipErrorInvalidKernelFile || e == hipErrorFileNotFound || e == hipErrorSharedObjectSymbolNotFound ||
           e == hipErrorSharedObjectInitFailed || e == hipErrorInvalidDeviceFunction || e == hipErrorInvalidValue ||
           e == hipErrorUnknown;
}

static rfg_status load_locked(rfg_context *ctx, const struct rfg_blob *code, struct module **out, bool *refused)
{
    for (struct module *m = ctx->modules; m; m = m->next)
        if (m->code == code) {
            m->users++;
            *out = m;
            return RFG_OK;
        }
    struct module *m = calloc(1, sizeof(*m));
    if (!m)
        return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "no memory for a module");
    hipError_t e = ctx->hip->hipModuleLoadData(&m->handle, code->data);
    if (e != hipSuccess) {
        free(m);
        *refused = is_refusal(e);
        return rfg_hip_fail(ctx, "hipModuleLoadData", e);
    }
    m->code = code;
    m->users = 1;
    m->next = ctx->modules;
    ctx->modules = m;
    *out = m;
    return RFG_OK;
}

static rfg_status load_module(rfg_context *ctx, const struct rfg_blob *code, struct module **out, bool *refused)
{
    pthread_mutex_lock(&ctx->module_lock);
    rfg_status st = load_locked(ctx, code, out, refused);
    pthread_mutex_unlock(&ctx->module_lock);
    return st;
}

/* On NVIDIA more than 48 KiB of LDS, static LDS included, must be asked for. On AMD the device's limit applies, and the
 * call takes only host functions. The size never shrinks, because plans that share the kernel launch it with different
 * sizes. */
static rfg_status allow_lds(rfg_context *ctx, struct module *module, hipFunction_t fn, uint32_t lds)
{
    hipError_t e = hipSuccess;
    pthread_mutex_lock(&ctx->module_lock);
    if (ctx->hip->platform == RFG_PLATFORM_NVIDIA && lds > module->lds) {
        e = ctx->hip->hipFuncSetAttribute((const void *)fn, hipFuncAttributeMaxDynamicSharedMemorySize, (int)lds);
        if (e == hipSuccess)
            module->lds = lds;
    }
    pthread_mutex_unlock(&ctx->module_lock);
    return e == hipSuccess ? RFG_OK : rfg_hip_fail(ctx, "hipFuncSetAttribute", e);
}

static void drop_module(rfg_context *ctx, struct module *module)
{
    if (!module)
        return;
    pthread_mutex_lock(&ctx->module_lock);
    if (!--module->users) {
        struct module **at = &ctx->modules;
        while (*at != module)
            at = &(*at)->next;
        *at = module->next;
        (void)ctx->hip->hipModuleUnload(module->handle);
        free(module);
    }
    pthread_mutex_unlock(&ctx->module_lock);
}

/* ---- plans ------------------------------------------------------------------------------------------------------ */

/* The plan's module and function. refused: the device doesn't take the code object. */
static rfg_status load(rfg_context *ctx, struct rfg_plan *plan, const struct rfg_blob *code, const char *entry,
                       bool *refused)
{
    *refused = false;
    rfg_status st = load_module(ctx, code, &plan->module, refused);
    if (st != RFG_OK)
        return st;
    hipError_t e = ctx->hip->hipModuleGetFunction(&plan->fn, plan->module->handle, entry);
    if (e == hipSuccess)
        return RFG_OK;
    drop_module(ctx, plan->module);
    plan->module = NULL;
    *refused = is_refusal(e);
    return rfg_hip_fail(ctx, "hipModuleGetFunction", e);
}

/* The code out of the pack, which the ladder has looked into. */
static rfg_status load_from_pack(rfg_context *ctx, struct rfg_plan *plan)
{
    const struct rfg_variant *var = plan->choice.variant;
    struct rfg_kernel kernel = { 0 };
    var->kernel(&ctx->dev, &plan->prob, plan->choice.params, &kernel);
    const struct rfg_pack_code *c = rfg_pack_find(ctx->pack, ctx->dev.target, &kernel);
    const struct rfg_blob *code;
    bool refused = false;
    char text[RFG_PROBLEM_STRLEN], config[RFG_CONFIG_STRLEN];
    rfg_config_format(var, plan->choice.params, config, sizeof(config));
    if (!c)
        return rfg_fail(RFG_ERROR_COMPILE, "%s: %s has no code of %s for %s, and nothing is compiled with a pack",
                        rfg_problem_format(&plan->prob, text, sizeof(text)), rfg_pack_path(ctx->pack), config,
                        ctx->dev.target);
    rfg_log(RFG_LOG_JIT, "from the pack %s for %s", config, ctx->dev.target);
    rfg_status st = rfg_pack_load(ctx->pack, c, &code);
    if (st == RFG_OK)
        st = load(ctx, plan, code, kernel.entry, &refused);
    if (!refused)
        return st;
    char why[300];
    snprintf(why, sizeof(why), "%s", rfg_last_error());
    return rfg_fail(RFG_ERROR_COMPILE, "%s for %s: the device refuses kernel %s of %s: %s", config, ctx->dev.target,
                    kernel.entry, rfg_pack_path(ctx->pack), why);
}

/* Code that the device refuses is compiled once more: the cached file or that compile may have been damaged. */
static rfg_status load_from_cache(rfg_context *ctx, struct rfg_plan *plan)
{
    char name[RFG_CONFIG_STRLEN];
    struct rfg_kernel kernel;
    struct rfg_jit_request req;
    bool refused = true;
    rfg_status st =
        rfg_variant_request(&ctx->dev, &plan->prob, plan->choice.variant, plan->choice.params, &req, name, &kernel);
    if (st != RFG_OK)
        return st;
    while (refused && st == RFG_OK) {
        const struct rfg_blob *code;
        char why[300];
        st = rfg_cache_get(ctx->cache, &req, NULL, NULL, &code);
        refused = false;
        if (st == RFG_OK)
            st = load(ctx, plan, code, req.entry, &refused);
        snprintf(why, sizeof(why), "%s", refused ? rfg_last_error() : "");
        if (refused)
            st = rfg_cache_refuse(ctx->cache, &req, code, why);
    }
    free((char *)req.source);
    return st;
}

static rfg_status prepare_kernel(rfg_context *ctx, struct rfg_plan *plan)
{
    plan->choice.variant->launch(&ctx->dev, &plan->prob, plan->choice.params, &plan->launch);
    rfg_status st = ctx->pack ? load_from_pack(ctx, plan) : load_from_cache(ctx, plan);
    return st == RFG_OK ? allow_lds(ctx, plan->module, plan->fn, plan->launch.lds) : st;
}

static rfg_status prepare_host(rfg_context *ctx, struct rfg_plan *plan)
{
    rfg_status st = RFG_OK;
    pthread_mutex_lock(&ctx->cpu_lock);
    if (plan->workspace > ctx->cpu_workspace_size) {
        size_t size = (plan->workspace + 4095) & ~(size_t)4095;
        void *mem = aligned_alloc(4096, size);
        if (mem) {
            free(ctx->cpu_workspace);
            ctx->cpu_workspace = mem;
            ctx->cpu_workspace_size = size;
        } else
            st = rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "%s: no memory for a workspace of %zu bytes",
                          plan->choice.variant->name, size);
    }
    pthread_mutex_unlock(&ctx->cpu_lock);
    return st;
}

rfg_status rfg_plan_create(rfg_context *ctx, const struct rfg_problem *prob, const struct rfg_variant *var,
                           const int *p, struct rfg_plan **out)
{
    struct rfg_reason why;
    char text[RFG_PROBLEM_STRLEN];
    *out = NULL;
    if (!rfg_variant_check(var, &ctx->dev, prob, p, &why))
        return rfg_fail(RFG_ERROR_UNSUPPORTED, "%s: %s: %s", rfg_problem_format(prob, text, sizeof(text)), var->name,
                        why.text);
    if (rfg_problem_overlaps(prob) && !rfg_device_can_overlap(&ctx->dev, &why))
        return rfg_fail(RFG_ERROR_UNSUPPORTED, "%s: %s", rfg_problem_format(prob, text, sizeof(text)), why.text);
    struct rfg_plan *plan = calloc(1, sizeof(*plan));
    if (!plan)
        return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "no memory for a plan");
    plan->prob = *prob;
    plan->choice.variant = var;
    plan->choice.overlap = rfg_problem_overlaps(prob) && var->kind == RFG_VARIANT_KERNEL;
    memcpy(plan->choice.params, p, (size_t)var->n_params * sizeof(*p));
    plan->workspace = var->workspace ? var->workspace(&ctx->dev, prob, p) : 0;

    rfg_status st = RFG_OK;
    switch (var->kind) {
    case RFG_VARIANT_KERNEL:
        st = prepare_kernel(ctx, plan);
        break;
    case RFG_VARIANT_HOST:
        st = prepare_host(ctx, plan);
        break;
    case RFG_VARIANT_VENDOR:
        st = rfg_vendor_prepare(ctx, prob, var, p, &plan->vendor);
        break;
    }
    if (st != RFG_OK)
        rfg_plan_destroy(ctx, &plan);
    *out = plan;
    return st;
}

void rfg_plan_destroy(rfg_context *ctx, struct rfg_plan **pplan)
{
    struct rfg_plan *plan = *pplan;
    *pplan = NULL;
    if (!plan)
        return;
    if (plan->vendor)
        plan->choice.variant->vendor_release(plan->vendor);
    drop_module(ctx, plan->module);
    free(plan);
}

void rfg_plan_launch_plainly(struct rfg_plan *plan)
{
    plan->choice.overlap = false;
}

size_t rfg_plan_workspace(const struct rfg_plan *plan)
{
    return plan->workspace;
}

rfg_status rfg_plan_params(rfg_context *ctx, const struct rfg_plan *plan, void *kargs, struct rfg_plan_params *params)
{
    const struct rfg_variant *var = plan->choice.variant;
    struct rfg_tile_map maps[RFG_MAX_TILE_MAPS];
    int n = var->tile_maps ? var->tile_maps(&plan->prob, plan->choice.params, kargs, maps) : 0;
    params->list[0] = kargs;
    for (int i = 0; i < n; i++) {
        hipError_t e = ctx->hip->encode_tile_map(&maps[i], &params->maps[i]);
        if (e != hipSuccess)
            return rfg_hip_fail(ctx, "describing a matrix to TMA", e);
        params->list[1 + i] = &params->maps[i];
    }
    return RFG_OK;
}

/* own: the workspace and counters to use; NULL: the stream's, or the cpu's. */
static rfg_status launch(rfg_context *ctx, const struct rfg_plan *plan, void *kargs, const struct rfg_kargs_head *own,
                         rfg_stream stream)
{
    const struct rfg_variant *var = plan->choice.variant;
    struct rfg_kargs_head *head = (void *)((char *)kargs + plan->prob.op->head);
    if (var->kind == RFG_VARIANT_HOST) {
        pthread_mutex_lock(&ctx->cpu_lock);
        *head = own ? *own : (struct rfg_kargs_head){ ctx->cpu_workspace, NULL };
        var->run(&ctx->dev, &plan->prob, plan->choice.params, kargs, ctx->pool);
        pthread_mutex_unlock(&ctx->cpu_lock);
        return RFG_OK;
    }
    if (own) {
        *head = *own;
    } else if (plan->workspace) {
        const struct stream_space *space;
        rfg_status st = rfg_workspace_of(ctx, stream, &space);
        if (st != RFG_OK)
            return st;
        head->workspace = space->workspace;
        head->counters = space->counters;
    } else {
        head->workspace = NULL;
        head->counters = NULL;
    }
    if (var->kind == RFG_VARIANT_VENDOR) {
        struct rfg_vendor_env env = { ctx->hip, ctx->ordinal, head->workspace, stream, NULL };
        rfg_status st = rfg_vendor_handle(ctx, var, stream, &env.handle);
        return st == RFG_OK ? var->vendor_run(plan->vendor, kargs, &env) : st;
    }
    const struct rfg_launch *l = &plan->launch;
    struct rfg_plan_params params;
    rfg_status st = rfg_plan_params(ctx, plan, kargs, &params);
    if (st != RFG_OK)
        return st;
    hipError_t e = plan->choice.overlap ? ctx->hip->launch_overlapped(plan->fn, l, (hipStream_t)stream, params.list)
                                        : ctx->hip->hipModuleLaunchKernel(plan->fn, l->grid[0], l->grid[1], l->grid[2],
                                                                          l->block[0], l->block[1], l->block[2], l->lds,
                                                                          (hipStream_t)stream, params.list, NULL);
    if (e == hipSuccess)
        return RFG_OK;
    char what[100];
    snprintf(what, sizeof(what), "hipModuleLaunchKernel of %s", var->name);
    return rfg_hip_fail(ctx, what, e);
}

rfg_status rfg_plan_launch(rfg_context *ctx, const struct rfg_plan *plan, void *kargs, rfg_stream stream)
{
    return launch(ctx, plan, kargs, NULL, stream);
}

rfg_status rfg_plan_launch_with(rfg_context *ctx, const struct rfg_plan *plan, void *kargs,
                                const struct rfg_kargs_head *own, rfg_stream stream)
{
    return launch(ctx, plan, kargs, own, stream);
}

bool rfg_plan_raw(const struct rfg_plan *plan, hipFunction_t *fn, struct rfg_launch *launch)
{
    *fn = plan->fn;
    *launch = plan->launch;
    return plan->choice.variant->kind == RFG_VARIANT_KERNEL;
}

void rfg_plan_code_hash(const struct rfg_plan *plan, char hex[65])
{
    hex[0] = 0;
    if (plan->module)
        rfg_sha256_hex(hex, (const char *const[]){ plan->module->code->data }, &plan->module->code->size, 1);
}

const struct rfg_problem *rfg_plan_problem(const struct rfg_plan *plan)
{
    return &plan->prob;
}

const struct rfg_choice *rfg_plan_choice(const struct rfg_plan *plan)
{
    return &plan->choice;
}
