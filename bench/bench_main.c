/* SPDX-License-Identifier: MIT
 *
 * rfg-bench: times problems on a device through the public API. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "tuner/harness/loads.h"
#include "tuner/harness/output.h"
#include "bench.h"

/* ---- timing one problem ------------------------------------------------------------------------------------------ */

struct result {
    char config[RFG_CONFIG_STRLEN];
    bool overlap; /* was so launched */
    int rung;
    double p50, p95, p99;
    double copy_gbps;              /* --copy: median, read and written */
    const struct rfg_shape *shape; /* of the file; NULL: of no line */
    struct rfg_check check;
};

static struct rfg_case_params case_params(const struct bench_options *o, const struct rfg_device *dev,
                                          const struct rfg_problem *prob)
{
    double bytes, flops;
    prob->op->cost(prob, &bytes, &flops);
    return (struct rfg_case_params){ .seed = o->seed,
                                     .rotate_bytes = rfg_rotate_bytes(dev),
                                     .check_rows = o->no_check   ? 1
                                                   : flops > 4e9 ? 16
                                                                 : 0 };
}

/* A copy, then three samples, and again, so that other load of the machine affects both alike. */
static rfg_status time_beside_copies(const struct bench_options *o, struct rfg_case *c, const struct rfg_plan *plan,
                                     struct rfg_times *out, double *copy_gbps)
{
    int most = (o->rounds + 2) / 3;
    struct rfg_times copies = { 0, calloc((size_t)most, sizeof(double)) };
    *out = (struct rfg_times){ 0, calloc((size_t)most * 3, sizeof(double)) };
    rfg_status st =
        out->us && copies.us ? RFG_OK : rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "no memory for %d samples", o->rounds);
    double start = rfg_now();
    for (int i = 0; st == RFG_OK && i < most && (i < 3 || rfg_now() - start < o->max_s); i++) {
        struct rfg_times t;
        copies.us[copies.n++] = bench_memory_copy(o->memory);
        st = rfg_case_time(c, plan, 3, 0, &t);
        for (int k = 0; st == RFG_OK && k < t.n && k < 3; k++)
            out->us[out->n++] = t.us[k];
        rfg_times_free(&t);
    }
    if (st == RFG_OK) {
        rfg_sort(out->us, out->n);
        rfg_sort(copies.us, copies.n);
        *copy_gbps = rfg_times_at(&copies, 0.5);
    } else {
        rfg_times_free(out);
    }
    rfg_times_free(&copies);
    return st;
}

static rfg_status time_one(const struct bench_options *o, struct rfg_case *c, const struct rfg_plan *plan,
                           struct result *r)
{
    struct rfg_times t;
    rfg_status st = RFG_OK;
    if (!o->no_check) {
        st = rfg_case_poison(c, 0);
        if (st == RFG_OK)
            st = rfg_case_run_checked(c, 0, plan, NULL);
        if (st == RFG_OK)
            st = rfg_case_check(c, 0, &r->check);
        if (st == RFG_OK && !r->check.ok)
            st = rfg_fail(RFG_ERROR_INTERNAL, "wrong result: %s", r->check.message);
    }
    if (st == RFG_OK)
        st = o->copy ? time_beside_copies(o, c, plan, &t, &r->copy_gbps)
                     : rfg_case_time(c, plan, o->rounds, o->max_s, &t);
    if (st == RFG_OK) {
        r->p50 = rfg_times_at(&t, 0.5);
        r->p95 = rfg_times_at(&t, 0.95);
        r->p99 = rfg_times_at(&t, 0.99);
        rfg_times_free(&t);
    }
    return st;
}

static void print_header(const struct bench_options *o, const struct rfg_device *dev)
{
    if (dev->platform == RFG_PLATFORM_CPU)
        printf("cpu: %s, %d threads, read bandwidth %.1f GB/s measured\n", dev->arch, dev->cu_count, dev->mem_gbps);
    printf("%-44s %9s %9s %9s %9s %9s %7s%s  %s\n", "problem", "p50 us", "p95 us", "p99 us", "GB/s", "TFLOP/s",
           "% floor", o->copy ? "  % of copy's GB/s" : "", "rung, variant");
}

static void print_result(const struct bench_options *o, const struct rfg_device *dev, const struct rfg_problem *prob,
                         const struct result *r)
{
    char text[RFG_PROBLEM_STRLEN];
    const char *which;
    double bytes, flops, floor = rfg_floor_us(dev, prob, &which);
    prob->op->cost(prob, &bytes, &flops);
    rfg_problem_format(prob, text, sizeof(text));
    double gbps = bytes / r->p50 * 1e-3, tflops = flops / r->p50 * 1e-6;
    if (o->json) {
        json_t *j = json_pack("{s:s, s:s, s:s, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:s, s:f}", "problem", text,
                              "device", dev->name, "variant", r->config, "rung", r->rung, "p50_us", r->p50, "p95_us",
                              r->p95, "p99_us", r->p99, "bytes", bytes, "flops", flops, "gb_per_s", gbps, "tflops",
                              tflops, "floor_us", floor, "floor_by", which, "error_ratio", r->check.max_ratio);
        if (o->copy)
            json_object_set_new(j, "copy_gb_per_s", json_real(r->copy_gbps));
        if (r->shape && r->shape->us > 0) {
            json_object_set_new(j, "other_us", json_real(r->shape->us));
            json_object_set_new(j, "other_on", json_string(r->shape->us_on));
        }
        if (rfg_problem_overlaps(prob))
            json_object_set_new(j, "overlap", json_boolean(r->overlap));
        json_dumpf(j, stdout, 0);
        putchar('\n');
        json_decref(j);
    } else {
        printf("%-44s %9.2f %9.2f %9.2f %9.1f %9.2f %7.1f", text, r->p50, r->p95, r->p99, gbps, tflops,
               100 * floor / r->p50);
        if (o->copy)
            printf("  %7.1f of %6.1f", 100 * gbps / r->copy_gbps, r->copy_gbps);
        printf("  %d %s%s\n", r->rung, r->config, rfg_problem_overlaps(prob) && !r->overlap ? " launched plainly" : "");
        if (r->shape && r->shape->us > 0)
            printf("%-44s %9.2f  what the shapes file says of another library%s%s\n", "", r->shape->us,
                   *r->shape->us_on ? ", on " : "", r->shape->us_on);
    }
    fflush(stdout);
}

struct sweep {
    const struct bench_options *o;
    rfg_context *ctx;
    struct rfg_case *c;
    const struct rfg_variant *var;
    struct result *v;
    int n, failed;
};

static bool sweep_one(void *arg, const int *p)
{
    struct sweep *s = arg;
    struct result r = { .rung = 0 }, *more;
    struct rfg_plan *plan;
    rfg_config_format(s->var, p, r.config, sizeof(r.config));
    rfg_status st = rfg_plan_create(s->ctx, rfg_case_problem(s->c), s->var, p, &plan);
    if (st == RFG_OK) {
        r.overlap = rfg_plan_choice(plan)->overlap;
        st = time_one(s->o, s->c, plan, &r);
    }
    rfg_plan_destroy(s->ctx, &plan);
    if (st != RFG_OK) {
        fprintf(stderr, "rfg-bench: %s: %s\n", r.config, rfg_last_error());
        s->failed += st != RFG_ERROR_UNSUPPORTED;
    } else if ((more = realloc(s->v, (size_t)(s->n + 1) * sizeof(*more)))) {
        s->v = more;
        s->v[s->n++] = r;
    }
    return true;
}

static int faster(const void *a, const void *b)
{
    double x = ((const struct result *)a)->p50, y = ((const struct result *)b)->p50;
    return (x > y) - (x < y);
}

static rfg_status bench_all(const struct bench_options *o, rfg_context *ctx, const struct rfg_device *dev,
                            struct rfg_case *c, const struct rfg_problem *prob)
{
    struct sweep s = { .o = o, .ctx = ctx, .c = c };
    for (int i = 0; i < rfg_op_variants(prob->op)->n; i++) {
        s.var = rfg_op_variants(prob->op)->list[i];
        rfg_variant_each(s.var, dev, rfg_case_problem(c), sweep_one, &s);
    }
    if (s.n)
        qsort(s.v, (size_t)s.n, sizeof(*s.v), faster);
    for (int i = 0; i < s.n; i++)
        print_result(o, dev, prob, &s.v[i]);
    free(s.v);
    return s.failed ? rfg_fail(RFG_ERROR_INTERNAL, "%d configurations failed", s.failed) : RFG_OK;
}

static rfg_status bench_forced(const struct bench_options *o, rfg_context *ctx, struct rfg_case *c,
                               const struct rfg_problem *prob, struct result *r)
{
    const struct rfg_variant *var;
    struct rfg_plan *plan;
    struct rfg_reason why;
    int p[RFG_MAX_PARAMS] = { 0 };
    if (!rfg_config_parse(prob->op, o->variant, &var, p, &why))
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "--variant: %s", why.text);
    rfg_config_format(var, p, r->config, sizeof(r->config));
    rfg_status st = rfg_plan_create(ctx, rfg_case_problem(c), var, p, &plan);
    if (st == RFG_OK) {
        r->overlap = rfg_plan_choice(plan)->overlap;
        st = time_one(o, c, plan, r);
    }
    rfg_plan_destroy(ctx, &plan);
    return st;
}

static rfg_status bench_public(const struct bench_options *o, rfg_context *ctx, struct rfg_case *c, struct result *r)
{
    rfg_status st = time_one(o, c, NULL, r);
    const struct rfg_plan *plan = st == RFG_OK ? rfg_plan_find(ctx, rfg_case_as_called(c)) : NULL;
    if (plan) {
        const struct rfg_choice *choice = rfg_plan_choice(plan);
        rfg_config_format(choice->variant, choice->params, r->config, sizeof(r->config));
        r->rung = (int)choice->rung;
        r->overlap = choice->overlap;
    }
    return st;
}

static rfg_status bench_one(const struct bench_options *o, rfg_context *ctx, const struct rfg_device *dev,
                            const struct rfg_problem *prob, struct result *r)
{
    struct rfg_case_params params = case_params(o, dev, prob);
    struct rfg_case *c;
    rfg_status st = rfg_case_create(ctx, prob, &params, &c);
    if (st != RFG_OK)
        return st;
    if (o->all)
        st = bench_all(o, ctx, dev, c, prob);
    else if (o->variant)
        st = bench_forced(o, ctx, c, prob, r);
    else
        st = bench_public(o, ctx, c, r);
    rfg_case_destroy(&c);
    if (st == RFG_OK && !o->all)
        print_result(o, dev, prob, r);
    return st;
}

/* The context that a problem needs: bit 0 is launch_overlap's, bit 1 batch_invariant's. */
#define CONTEXTS 4
static int context_of(const struct bench_options *o, const struct rfg_problem *prob)
{
    return (o->overlap || rfg_problem_overlaps(prob)) + 2 * (o->invariant || rfg_problem_is_invariant(prob));
}

/* contexts: at least the first, and those that problems need. */
static int run(struct bench_options *o, rfg_context *const contexts[CONTEXTS], struct bench_baseline *old)
{
    struct rfg_device dev = *rfg_context_info(contexts[0]);
    struct bench_baseline *medians = NULL;
    int failed = 0, refused = 0;
    if (dev.platform == RFG_PLATFORM_CPU && !o->dispatch && (o->memory = bench_memory_create(&dev, o->copy)))
        dev.mem_gbps = bench_memory_read(o->memory);
    if (o->copy && !o->memory) {
        fprintf(stderr, "rfg-bench: --copy: %s\n", dev.platform == RFG_PLATFORM_CPU ? "no memory" : "on cpu only");
        return 2;
    }
    if (!o->json && !o->dispatch && !o->counters && !o->time)
        print_header(o, &dev);
    for (size_t i = 0; i < o->shapes.n; i++) {
        struct rfg_problem prob = rfg_loads_applied(&o->shapes.v[i].problem);
        rfg_context *ctx = contexts[context_of(o, &prob)];
        struct result r = { .shape = &o->shapes.v[i] };
        char text[RFG_PROBLEM_STRLEN];
        rfg_status st = rfg_context_problem(ctx, &prob, &prob);
        rfg_problem_format(&prob, text, sizeof(text));
        if (st == RFG_OK && old && bench_baseline_us(old, text) == 0)
            st = rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "--baseline: '%s' does not have this problem", o->baseline);
        if (st == RFG_OK)
            st = o->dispatch              ? bench_dispatch(ctx, &prob, o->json)
                 : o->counters || o->time ? bench_counters(ctx, &prob, o->variant, o->seed, o->json, o->time)
                                          : bench_one(o, ctx, &dev, &prob, &r);
        if (st != RFG_OK) {
            fprintf(stderr, "rfg-bench: %s: %s\n", text, rfg_last_error());
            failed++;
            refused += st == RFG_ERROR_INVALID_ARGUMENT;
            continue;
        }
        double before = bench_baseline_us(old, text);
        if (before > 0 && r.p50 > before * (1 + o->threshold / 100)) {
            fprintf(stderr, "rfg-bench: REGRESSION: %s: %.2f us, baseline %.2f us (+%.1f%%, allowed %.0f%%)\n", text,
                    r.p50, before, 100 * (r.p50 / before - 1), o->threshold);
            failed++;
        }
        if (o->save && !bench_baseline_set(&medians, text, r.p50)) {
            fprintf(stderr, "rfg-bench: --save-baseline: no memory for %s\n", text);
            failed++;
        }
    }
    if (o->save && medians)
        failed += !bench_baseline_save(medians, o->save, &dev);
    bench_baseline_free(&medians);
    bench_memory_destroy(&o->memory);
    return failed > refused ? 1 : refused || o->bad_lines ? 2 : 0;
}

static int bench(int argc, char **argv)
{
    struct bench_options o = { .rounds = 50, .max_s = 3, .threshold = 10, .seed = 1 };
    struct bench_baseline *old = NULL;
    struct rfg_reason why;
    rfg_context *ctx[CONTEXTS] = { NULL };
    bool needed[CONTEXTS] = { true };
    int code;
    code = bench_options_parse(&o, argc, argv);
    if (code >= 0)
        goto out;
    code = 2;
    if (!rfg_output_check("rfg-bench", "--save-baseline", o.save))
        goto out;
    if (o.baseline && !bench_baseline_load(o.baseline, &old, &why)) {
        fprintf(stderr, "rfg-bench: --baseline: %s\n", why.text);
        goto out;
    }
    for (size_t i = 0; i < o.shapes.n; i++)
        needed[context_of(&o, &o.shapes.v[i].problem)] = true;
    for (int i = 0; i < CONTEXTS; i++) {
        rfg_context_params params = { .size = sizeof(params),
                                      .device = o.device,
                                      .user_db = o.db,
                                      .misses = -1,
                                      .launch_overlap = i & 1,
                                      .batch_invariant = i & 2 };
        if (!needed[i])
            continue;
        if (rfg_context_create(&ctx[i], &params) != RFG_OK) {
            fprintf(stderr, "rfg-bench: %s\n", rfg_last_error());
            goto out;
        }
        if (!rfg_device_can_overlap(rfg_context_info(ctx[0]), &why) && o.overlap) {
            fprintf(stderr, "rfg-bench: --overlap: %s\n", why.text);
            goto out;
        }
    }
    if (old && !bench_baseline_fits(old, rfg_context_info(ctx[0])->arch, &why)) {
        fprintf(stderr, "rfg-bench: --baseline: '%s': %s\n", o.baseline, why.text);
        goto out;
    }
    code = run(&o, ctx, old);
out:
    for (int i = 0; i < CONTEXTS; i++)
        rfg_context_destroy(&ctx[i]);
    bench_baseline_free(&old);
    rfg_shapes_free(&o.shapes);
    (void)gemm_loads_set(NULL, 0);
    return code;
}

int main(int argc, char **argv)
{
    rfg_program_begin();
    return rfg_program_end("rfg-bench", bench(argc, argv), 1);
}
