/* SPDX-License-Identifier: MIT
 *
 * rfg-bench --counters and --time: a problem's work on an emulated GPU, and how long it would take. */
#include <jansson.h>
#include <stdio.h>

#include "emu/count/counters.h"
#include "tuner/harness/clock.h"
#include "bench.h"

struct counted {
    struct emu_counters n;
    const struct emu_kernel_use *kernels;
    int n_kernels;
    char problem[RFG_PROBLEM_STRLEN], config[RFG_CONFIG_STRLEN];
    const char *device;
    double minimal, flops;
    struct rfg_clocked clocked; /* --time */
    bool timed;
};

static void print_json(const struct counted *d)
{
    json_t *j = json_pack("{s:s, s:s, s:s, s:f, s:f}", "problem", d->problem, "device", d->device, "variant", d->config,
                          "minimal_bytes", d->minimal, "flops", d->flops);
    json_t *counters = emu_counters_json(&d->n, d->kernels, d->n_kernels);
    json_object_update(j, counters);
    json_dumpf(j, stdout, 0);
    putchar('\n');
    json_decref(counters);
    json_decref(j);
}

static void print_text(const struct counted *d)
{
    const struct emu_traffic *t[] = { &d->n.loads, &d->n.stores, &d->n.atomics, &d->n.scalar };
    double bytes = 0, in64 = 0, in128 = 0, least = d->minimal;
    for (int k = 0; k < 4; k++) {
        bytes += (double)t[k]->bytes;
        in64 += 64 * (double)t[k]->lines64;
        in128 += 128 * (double)t[k]->lines128;
    }
    printf("%s on %s: %s\n", d->problem, d->device, d->config);
    emu_counters_print(stdout, &d->n, d->kernels, d->n_kernels);
    printf(
        "  over the operator's minimum of %.0f bytes: asked for %.3f, in lines of 64 bytes %.3f, of 128 %.3f; distinct "
        "lines %.3f and %.3f\n",
        least, bytes / least, in64 / least, in128 / least, 64 * (double)d->n.unique64 / least,
        128 * (double)d->n.unique128 / least);
}

/* The call itself, counted or timed. */
static rfg_status once(struct rfg_case *c, const struct rfg_plan *forced, struct counted *d)
{
    if (d->timed)
        return rfg_case_clock(c, forced, &d->clocked);
    rfg_emu_count(NULL);
    rfg_status st = rfg_case_run(c, 0, forced, NULL);
    rfg_emu_count(&d->n);
    d->n_kernels = rfg_emu_count_kernels(&d->kernels);
    return st;
}

/* One call; variant NULL: the dispatcher's choice. */
static rfg_status count(rfg_context *ctx, struct rfg_case *c, const char *variant, struct counted *d)
{
    const struct rfg_variant *var;
    struct rfg_plan *forced = NULL;
    struct rfg_reason why;
    int p[RFG_MAX_PARAMS] = { 0 };
    rfg_status st = RFG_OK;
    if (variant && !rfg_config_parse(rfg_case_problem(c)->op, variant, &var, p, &why))
        st = rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "--variant: %s", why.text);
    else if (variant)
        st = rfg_plan_create(ctx, rfg_case_problem(c), var, p, &forced);
    if (st == RFG_OK)
        st = once(c, forced, d);
    const struct rfg_plan *plan = st != RFG_OK ? NULL : forced ? forced : rfg_plan_find(ctx, rfg_case_as_called(c));
    if (plan) {
        const struct rfg_choice *choice = rfg_plan_choice(plan);
        rfg_config_format(choice->variant, choice->params, d->config, sizeof(d->config));
    } else if (st == RFG_OK)
        st = rfg_fail(RFG_ERROR_INTERNAL, "nothing was launched");
    rfg_plan_destroy(ctx, &forced);
    return st;
}

static void print_times_json(const struct counted *d)
{
    json_t *j = json_pack("{s:s, s:s, s:s, s:f}", "problem", d->problem, "device", d->device, "variant", d->config,
                          "predicted_us", d->clocked.us),
           *launches = json_array();
    for (int i = 0; i < d->clocked.n; i++) {
        const struct emu_time_result *r = &d->clocked.launch[i].r;
        json_array_append_new(launches,
                              json_pack("{s:s, s:f, s:f, s:f, s:f, s:f, s:b}", "kernel", d->clocked.launch[i].kernel,
                                        "us", r->us, "clock_mhz", r->clock_mhz, "matrix_busy", r->matrix_busy,
                                        "l1_busy", r->l1_busy, "hbm_busy", r->hbm_busy, "cold", r->cold));
    }
    json_object_set_new(j, "launches", launches);
    json_dumpf(j, stdout, 0);
    putchar('\n');
    json_decref(j);
}

static void print_times(const struct counted *d)
{
    printf("%s on %s: %s\n  %.2f us, predicted (docs/perf/amd_time.md)\n", d->problem, d->device, d->config,
           d->clocked.us);
    for (int i = 0; i < d->clocked.n; i++) {
        const struct emu_time_result *r = &d->clocked.launch[i].r;
        printf("  %8.2f us  %s: inputs from %s, %.0f MHz; busy: matrix %.2f, LDS %.2f, L1 %.2f, fabric %.2f, memory "
               "%.2f\n",
               r->us, d->clocked.launch[i].kernel, r->cold ? "memory" : "the last cache", r->clock_mhz, r->matrix_busy,
               r->lds_busy, r->l1_busy, r->mall_busy, r->hbm_busy);
        printf("            waves:");
        for (int k = 0; k < EMU_STALLS; k++)
            printf(" %s %.2f%s", emu_time_stall_names[k], r->limit[k], k < EMU_STALLS - 1 ? "," : "\n");
    }
}

rfg_status bench_counters(rfg_context *ctx, const struct rfg_problem *prob, const char *variant, uint64_t seed,
                          bool as_json, bool timed)
{
    struct rfg_case_params params = { .seed = seed, .check_rows = 1 };
    struct counted d = { .device = rfg_context_device(ctx), .timed = timed };
    struct rfg_case *c;
    if (rfg_context_info(ctx)->platform != RFG_PLATFORM_EMU)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s: device '%s': must be an emulated one, emu:ARCH[:CUS]",
                        timed ? "--time" : "--counters", d.device);
    rfg_status st = rfg_case_create(ctx, prob, &params, &c);
    if (st != RFG_OK)
        return st;
    st = count(ctx, c, variant, &d);
    rfg_problem_format(prob, d.problem, sizeof(d.problem));
    prob->op->cost(prob, &d.minimal, &d.flops);
    if (st == RFG_OK && timed)
        (as_json ? print_times_json : print_times)(&d);
    else if (st == RFG_OK)
        (as_json ? print_json : print_text)(&d);
    rfg_case_destroy(&c);
    return st;
}
