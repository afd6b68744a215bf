/* SPDX-License-Identifier: MIT
 *
 * Preparing: makes plans ahead of the calls, for one problem, a range of problems, or a file's. */
#include <stdlib.h>
#include <string.h>

#include "context_impl.h"
#include "base/util.h"

static bool same_kernel(const struct rfg_kernel *a, const struct rfg_kernel *b)
{
    bool same = !strcmp(a->source, b->source) && !strcmp(a->entry, b->entry) && a->n_macros == b->n_macros;
    for (int i = 0; same && i < a->n_macros; i++)
        same = !strcmp(a->macros[i].name, b->macros[i].name) && a->macros[i].value == b->macros[i].value;
    return same;
}

/* What is to be compiled: each kernel once. */
struct requests {
    struct rfg_jit_request *v;
    char (*names)[RFG_CONFIG_STRLEN];
    struct rfg_kernel *kernels;
    int n;
};

static void add_request(rfg_context *ctx, struct requests *r, const struct rfg_problem *prob)
{
    struct rfg_choice c;
    struct rfg_problem own, call = rfg_problem_as_called(prob);
    struct rfg_kernel kernel = { 0 };
    if (rfg_context_problem(ctx, &call, &own) != RFG_OK || rfg_plan_find(ctx, &own) ||
        rfg_choose(ctx, &own, RFG_RUNG_EXACT, 0, &c, NULL, NULL) != RFG_OK || c.variant->kind != RFG_VARIANT_KERNEL)
        return;
    c.variant->kernel(&ctx->dev, &own, c.params, &kernel);
    for (int i = 0; i < r->n; i++)
        if (same_kernel(&r->kernels[i], &kernel))
            return;
    if (rfg_variant_request(&ctx->dev, &own, c.variant, c.params, &r->v[r->n], r->names[r->n], &r->kernels[r->n]) ==
        RFG_OK)
        r->n++;
}

/* Compiles the kernels of the problems' chosen variants into the cache, with many compilers at a time. It ignores
 * errors: they show up again when the plans are made. */
static void prefetch(rfg_context *ctx, const struct rfg_problem *probs, size_t n)
{
    struct requests r = { calloc(n, sizeof(*r.v)), calloc(n, sizeof(*r.names)), calloc(n, sizeof(*r.kernels)), 0 };
    for (size_t i = 0; r.v && r.names && r.kernels && i < n; i++)
        add_request(ctx, &r, &probs[i]);
    if (r.n > 1) {
        struct rfg_device cpu;
        rfg_device_cpu(&cpu, 0);
        int workers = cpu.cu_count < r.n ? cpu.cu_count : r.n;
        struct rfg_jit_pool *pool = rfg_jit_pool_create(workers, 60);
        if (pool)
            rfg_jit_prefetch(ctx->cache, pool, workers, r.v, r.n, NULL, NULL);
        rfg_jit_pool_destroy(&pool);
    }
    for (int i = 0; i < r.n; i++)
        free((char *)r.v[i].source);
    free(r.v);
    free(r.names);
    free(r.kernels);
}

static rfg_status prepare_all(rfg_context *ctx, const struct rfg_problem *probs, size_t n)
{
    rfg_status st = RFG_OK;
    if (ctx->hip && !ctx->pack && n > 1)
        prefetch(ctx, probs, n);
    for (size_t i = 0; i < n && st == RFG_OK; i++)
        st = rfg_plan_prepare(ctx, &probs[i]);
    return st;
}

rfg_status rfg_prepare(rfg_context *ctx, const char *problem)
{
    struct rfg_problem *probs;
    struct rfg_reason why;
    size_t n;
    if (!ctx)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "rfg_prepare: ctx is NULL: must be a context");
    if (rfg_context_forked(ctx))
        return rfg_fork_refuse(ctx);
    rfg_status st = rfg_problems_parse(problem, &probs, &n, &why);
    if (st != RFG_OK)
        return rfg_fail(st, "rfg_prepare: %s", why.text);
    st = prepare_all(ctx, probs, n);
    free(probs);
    return st;
}

/* ---- a file -------------------------------------------------------------------------------------------------- */

static void first_bad_line(void *arg, const char *message)
{
    char **first = arg;
    if (!*first)
        *first = strdup(message);
}

rfg_status rfg_prepare_from_csv(rfg_context *ctx, const char *path)
{
    struct rfg_shapes shapes = { 0 };
    char *first_bad = NULL;
    if (!ctx || !path)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "rfg_prepare_from_csv: %s is NULL: must be a %s",
                        ctx ? "path" : "ctx", ctx ? "file's name" : "context");
    if (rfg_context_forked(ctx))
        return rfg_fork_refuse(ctx);
    rfg_status st = rfg_shapes_read(path, &shapes, first_bad_line, &first_bad);
    struct rfg_problem *probs = calloc(shapes.n + 1, sizeof(*probs));
    size_t n = 0;
    if (st == RFG_OK && !probs)
        st = rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "rfg_prepare_from_csv: no memory for %zu problems", shapes.n);
    for (size_t i = 0; st == RFG_OK && i < shapes.n; i++) {
        if (rfg_context_problem(ctx, &shapes.v[i].problem, &probs[n]) == RFG_OK) {
            n++;
            continue;
        }
        shapes.n_bad++; /* overlap=1 in a context that has none */
        if (!first_bad)
            first_bad = rfg_asprintf("%s:%d: %s", path, shapes.v[i].line, rfg_last_error());
    }
    if (st == RFG_OK)
        st = prepare_all(ctx, probs, n);
    if (st == RFG_OK && shapes.n_bad)
        st = rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s", first_bad ? first_bad : path);
    free(first_bad);
    free(probs);
    rfg_shapes_free(&shapes);
    return st;
}
