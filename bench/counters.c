/* SPDX-License-Identifier: MIT
 *
 * What a problem makes an emulated GPU do: rfg-bench --counters. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

#include "../emu/counters.h"
#include "bench.h"

rfg_status bench_counters(rfg_context *ctx, const struct rfg_problem *prob, const char *variant, uint64_t seed,
                          bool as_json)
{
    static const char *const classes[EMU_CLASSES] = {
        [EMU_SALU] = "salu",
        [EMU_SMEM] = "smem",
        [EMU_BRANCH] = "branch",
        [EMU_WAIT] = "wait",
        [EMU_MESSAGE] = "message",
        [EMU_VALU] = "valu",
        [EMU_TRANS] = "trans",
        [EMU_MFMA] = "mfma",
        [EMU_VMEM_LOAD] = "load",
        [EMU_VMEM_STORE] = "store",
        [EMU_VMEM_ATOMIC] = "atomic",
        [EMU_FLAT_LOAD] = "flat-load",
        [EMU_FLAT_STORE] = "flat-store",
        [EMU_FLAT_ATOMIC] = "flat-atomic",
        [EMU_SCRATCH_LOAD] = "scratch-load",
        [EMU_SCRATCH_STORE] = "scratch-store",
        [EMU_LDS] = "lds",
        [EMU_LDS_ATOMIC] = "lds-atomic",
        [EMU_CROSS] = "cross",
        [EMU_CACHE] = "cache",
    };
    struct rfg_case_params params = { .seed = seed, .check_rows = 1 };
    struct rfg_case *c;
    struct emu_counters n;
    double minimal, flops;
    char text[RFG_PROBLEM_STRLEN], config[RFG_CONFIG_STRLEN];
    if (rfg_context_info(ctx)->platform != RFG_PLATFORM_EMU)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "--counters: device '%s': must be an emulated one, emu:ARCH[:CUS]",
                        rfg_context_device(ctx));
    rfg_status st = rfg_case_create(ctx, prob, &params, &c);
    if (st != RFG_OK)
        return st;
    const struct rfg_variant *var;
    struct rfg_plan *forced = NULL;
    struct rfg_reason why;
    int p[RFG_MAX_PARAMS] = { 0 };
    if (variant && !rfg_config_parse(prob->op, variant, &var, p, &why))
        st = rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "--variant: %s", why.text);
    else if (variant)
        st = rfg_plan_create(ctx, rfg_case_problem(c), var, p, &forced);
    rfg_emu_count(NULL);
    if (st == RFG_OK)
        st = rfg_case_run(c, 0, forced, NULL);
    rfg_emu_count(&n);
    const struct rfg_plan *plan = st != RFG_OK ? NULL : forced ? forced : rfg_plan_find(ctx, rfg_case_problem(c));
    if (!plan) {
        rfg_plan_destroy(ctx, &forced);
        rfg_case_destroy(&c);
        return st != RFG_OK ? st : rfg_fail(RFG_ERROR_INTERNAL, "nothing was launched");
    }
    const struct rfg_choice *choice = rfg_plan_choice(plan);
    int registers, lds, spills;
    rfg_plan_resources(ctx, plan, &registers, &lds, &spills);
    rfg_config_format(choice->variant, choice->params, config, sizeof(config));
    rfg_problem_format(prob, text, sizeof(text));
    prob->op->cost(prob, &minimal, &flops);
    double asked = (double)(n.load_bytes + n.store_bytes),
           active = n.vector ? (double)n.active_lanes / (double)n.vector : 0;
    if (as_json) {
        json_t *by = json_object();
        for (int k = 0; k < EMU_CLASSES; k++)
            json_object_set_new(by, classes[k], json_integer((json_int_t)n.by_class[k]));
        json_t *j = json_pack(
            "{s:s, s:s, s:s, s:I, s:I, s:o, s:f, s:I, s:I, s:I, s:I, s:f, s:I, s:I, s:i, s:i}", "problem", text,
            "device", rfg_context_device(ctx), "variant", config, "waves", (json_int_t)n.waves, "wave_instructions",
            (json_int_t)n.instructions, "by_class", by, "active_lanes", active, "load_bytes", (json_int_t)n.load_bytes,
            "store_bytes", (json_int_t)n.store_bytes, "line_bytes_64", (json_int_t)(n.lines64 * 64), "line_bytes_128",
            (json_int_t)(n.lines128 * 128), "minimal_bytes", minimal, "lds_bytes", (json_int_t)n.lds_bytes, "barriers",
            (json_int_t)n.barriers, "registers", registers, "lds", lds);
        json_dumpf(j, stdout, 0);
        putchar('\n');
        json_decref(j);
    } else {
        printf("%s on %s: %s\n  %" PRIu64 " waves, %" PRIu64 " wave-instructions:", text, rfg_context_device(ctx),
               config, n.waves, n.instructions);
        for (int k = 0; k < EMU_CLASSES; k++)
            if (n.by_class[k])
                printf(" %s %" PRIu64, classes[k], n.by_class[k]);
        printf("\n  lanes on in vector instructions: %.1f\n  global bytes: %" PRIu64 " read, %" PRIu64
               " written; %.3f of the minimum; in lines of 64 bytes %.3f, of 128 %.3f\n  LDS bytes %" PRIu64
               ", barriers %" PRIu64 "; %d registers, %d bytes of static LDS, %d of scratch\n",
               active, n.load_bytes, n.store_bytes, asked / minimal, (double)n.lines64 * 64 / minimal,
               (double)n.lines128 * 128 / minimal, n.lds_bytes, n.barriers, registers, lds, spills);
    }
    rfg_plan_destroy(ctx, &forced);
    rfg_case_destroy(&c);
    return RFG_OK;
}
