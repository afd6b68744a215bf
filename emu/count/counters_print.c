/* SPDX-License-Identifier: MIT
 *
 * Counters for people and for programs. */
#include <inttypes.h>

#include "counters.h"
#include "l2.h"

const char *emu_class_name(enum emu_class cls)
{
    static const char *const names[EMU_CLASSES] = {
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
        [EMU_FLAT_LOAD] = "flat_load",
        [EMU_FLAT_STORE] = "flat_store",
        [EMU_FLAT_ATOMIC] = "flat_atomic",
        [EMU_SCRATCH_LOAD] = "scratch_load",
        [EMU_SCRATCH_STORE] = "scratch_store",
        [EMU_LDS] = "lds",
        [EMU_LDS_ATOMIC] = "lds_atomic",
        [EMU_CROSS] = "cross",
        [EMU_CACHE] = "cache",
    };
    return names[cls];
}

static const struct {
    enum emu_limit bit;
    const char *name;
} limits[] = {
    { EMU_LIMIT_WAVES, "waves" }, { EMU_LIMIT_VGPRS, "vgprs" },       { EMU_LIMIT_SGPRS, "sgprs" },
    { EMU_LIMIT_LDS, "lds" },     { EMU_LIMIT_BARRIERS, "barriers" },
};
#define N_LIMITS (sizeof(limits) / sizeof(limits[0]))

static double ratio(uint64_t a, uint64_t b)
{
    return b ? (double)a / (double)b : 0;
}

static double waves_per_simd(const struct emu_residency *r)
{
    return (double)r->waves / r->simds;
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

static void put(json_t *to, const char *key, uint64_t n)
{
    json_object_set_new(to, key, json_integer((json_int_t)n));
}

static json_t *traffic_json(const struct emu_traffic *t)
{
    json_t *j = json_object();
    put(j, "requests", t->requests);
    put(j, "bytes", t->bytes);
    put(j, "lines64", t->lines64);
    put(j, "lines128", t->lines128);
    put(j, "unique64", t->unique64);
    put(j, "unique128", t->unique128);
    return j;
}

static json_t *kernel_json(const struct emu_kernel_use *k)
{
    json_t *j = json_object(), *by = json_array();
    json_object_set_new(j, "name", json_string_nocheck(k->name));
    put(j, "launches", k->launches);
    put(j, "workgroups", k->workgroups);
    put(j, "work_items", (uint64_t)k->threads);
    put(j, "waves", (uint64_t)k->waves);
    put(j, "wave_size", (uint64_t)k->wave_size);
    put(j, "vgprs", (uint64_t)k->vgprs);
    put(j, "agprs", (uint64_t)k->agprs);
    put(j, "sgprs", (uint64_t)k->sgprs);
    put(j, "spilled_vgprs", (uint64_t)k->spilled_vgprs);
    put(j, "spilled_sgprs", (uint64_t)k->spilled_sgprs);
    put(j, "static_lds", k->static_lds);
    put(j, "dynamic_lds", k->dynamic_lds);
    put(j, "scratch", k->scratch);
    json_object_set_new(j, "waves_per_simd", json_real(waves_per_simd(&k->at)));
    put(j, k->at.wgp ? "workgroups_per_wgp" : "workgroups_per_cu", (uint64_t)k->at.groups);
    for (size_t i = 0; i < N_LIMITS; i++)
        if (k->at.limits & limits[i].bit)
            json_array_append_new(by, json_string(limits[i].name));
    json_object_set_new(j, "limited_by", by);
    return j;
}

static json_t *matrix_json(const struct emu_counters *n)
{
    json_t *j = json_object(), *by = json_object();
    put(j, "instructions", n->matrix);
    put(j, "cycles", n->matrix_cycles);
    for (int row = 0; emu_matrix_name(row); row++)
        if (n->by_matrix[row])
            put(by, emu_matrix_name(row), n->by_matrix[row]);
    json_object_set_new(j, "by_shape", by);
    return j;
}

json_t *emu_counters_json(const struct emu_counters *n, const struct emu_kernel_use *kernels, int n_kernels)
{
    json_t *j = json_object(), *by = json_object(), *vector = json_object(), *global = json_object(),
           *l2 = json_object(), *scratch = json_object(), *lds = json_object(), *list = json_array();
    put(j, "launches", n->launches);
    put(j, "workgroups", n->workgroups);
    put(j, "waves", n->waves);
    put(j, "wave_instructions", n->instructions);
    for (int k = 0; k < EMU_CLASSES; k++)
        put(by, emu_class_name((enum emu_class)k), n->by_class[k]);
    json_object_set_new(j, "by_class", by);
    put(j, "dual_issued", n->dual_issued);
    put(vector, "instructions", n->vector);
    put(vector, "active_lanes", n->active_lanes);
    put(vector, "lanes", n->vector_lanes);
    json_object_set_new(vector, "share", json_real(ratio(n->active_lanes, n->vector_lanes)));
    json_object_set_new(j, "vector", vector);
    json_object_set_new(j, "matrix", matrix_json(n));
    json_object_set_new(global, "loads", traffic_json(&n->loads));
    json_object_set_new(global, "stores", traffic_json(&n->stores));
    json_object_set_new(global, "atomics", traffic_json(&n->atomics));
    json_object_set_new(global, "scalar_loads", traffic_json(&n->scalar));
    put(global, "unique64", n->unique64);
    put(global, "unique128", n->unique128);
    json_object_set_new(j, "global", global);
    if (n->l2_asked) {
        put(l2, "lines", n->l2_asked);
        put(l2, "fetched", n->l2_fetched);
        put(l2, "fetched_bytes", n->l2_fetched * EMU_L2_LINE);
        json_object_set_new(j, "l2", json_incref(l2));
    }
    json_decref(l2);
    put(scratch, "load_bytes", n->scratch_load_bytes);
    put(scratch, "store_bytes", n->scratch_store_bytes);
    json_object_set_new(j, "scratch", scratch);
    put(lds, "requests", n->lds_requests);
    put(lds, "load_bytes", n->lds_load_bytes);
    put(lds, "store_bytes", n->lds_store_bytes);
    put(lds, "atomic_bytes", n->lds_atomic_bytes);
    put(lds, "ideal_cycles", n->lds_ideal_cycles);
    put(lds, "conflict_cycles", n->lds_conflict_cycles);
    json_object_set_new(j, "lds", lds);
    put(j, "waitcnts", n->waitcnts);
    put(j, "barriers", n->barriers);
    put(j, "sleeps", n->sleeps);
    put(j, "spin_iterations", n->spin_iterations);
    put(j, "branches_taken", n->branches_taken);
    for (int k = 0; k < n_kernels; k++)
        json_array_append_new(list, kernel_json(&kernels[k]));
    json_object_set_new(j, "kernels", list);
    return j;
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

static void print_kernel(FILE *f, const struct emu_kernel_use *k)
{
    const char *comma = "";
    fprintf(f,
            "  %s: %" PRIu64 " launches, %" PRIu64 " workgroups of %d work-items (%d waves of %d)\n"
            "    %d VGPRs, %d AGPRs, %d SGPRs; LDS %u static + %u dynamic; scratch %u; spills %d VGPRs, %d SGPRs\n"
            "    %.3g waves per SIMD, %d workgroups per %s; limited by ",
            k->name, k->launches, k->workgroups, k->threads, k->waves, k->wave_size, k->vgprs, k->agprs, k->sgprs,
            k->static_lds, k->dynamic_lds, k->scratch, k->spilled_vgprs, k->spilled_sgprs, waves_per_simd(&k->at),
            k->at.groups, k->at.wgp ? "WGP" : "CU");
    for (size_t i = 0; i < N_LIMITS; i++)
        if (k->at.limits & limits[i].bit) {
            fprintf(f, "%s%s", comma, limits[i].name);
            comma = ", ";
        }
    fputs("\n", f);
}

static void print_traffic(FILE *f, const char *name, const struct emu_traffic *t)
{
    fprintf(f, "    %-12s %12" PRIu64 " %14" PRIu64 " %12" PRIu64 " %12" PRIu64 " %12" PRIu64 " %12" PRIu64 "\n", name,
            t->requests, t->bytes, t->lines64, t->unique64, t->lines128, t->unique128);
}

void emu_counters_print(FILE *f, const struct emu_counters *n, const struct emu_kernel_use *kernels, int n_kernels)
{
    for (int k = 0; k < n_kernels; k++)
        print_kernel(f, &kernels[k]);
    fprintf(f, "  %" PRIu64 " launches, %" PRIu64 " workgroups, %" PRIu64 " waves, %" PRIu64 " wave-instructions:\n   ",
            n->launches, n->workgroups, n->waves, n->instructions);
    for (int k = 0; k < EMU_CLASSES; k++)
        if (n->by_class[k])
            fprintf(f, " %s %" PRIu64, emu_class_name((enum emu_class)k), n->by_class[k]);
    fprintf(f,
            "\n  vector instructions %" PRIu64 ", lanes on %" PRIu64 " of %" PRIu64
            " (%.1f%%), issued in pairs %" PRIu64 "\n  matrix instructions %" PRIu64 ", busy cycles %" PRIu64 "\n",
            n->vector, n->active_lanes, n->vector_lanes, 100 * ratio(n->active_lanes, n->vector_lanes), n->dual_issued,
            n->matrix, n->matrix_cycles);
    for (int row = 0; emu_matrix_name(row); row++)
        if (n->by_matrix[row])
            fprintf(f, "    %s: %" PRIu64 " of %u cycles\n", emu_matrix_name(row), n->by_matrix[row],
                    emu_matrix_cycles(row));
    fprintf(f, "  global memory %11s %14s %12s %12s %12s %12s\n", "requests", "bytes", "64-byte", "distinct",
            "128-byte", "distinct");
    print_traffic(f, "loads", &n->loads);
    print_traffic(f, "stores", &n->stores);
    print_traffic(f, "atomics", &n->atomics);
    print_traffic(f, "scalar loads", &n->scalar);
    fprintf(f, "    %-12s %12s %14s %12s %12" PRIu64 " %12s %12" PRIu64 "\n", "any", "", "", "", n->unique64, "",
            n->unique128);
    if (n->l2_asked)
        fprintf(f, "  L2: lines of %d bytes asked for %" PRIu64 ", fetched %" PRIu64 " (%.1f%%), %" PRIu64 " bytes\n",
                EMU_L2_LINE, n->l2_asked, n->l2_fetched, 100 * ratio(n->l2_fetched, n->l2_asked),
                n->l2_fetched * EMU_L2_LINE);
    fprintf(f, "  scratch bytes: loaded %" PRIu64 ", stored %" PRIu64 "\n", n->scratch_load_bytes,
            n->scratch_store_bytes);
    fprintf(f,
            "  LDS: %" PRIu64 " requests; bytes loaded %" PRIu64 ", stored %" PRIu64 ", by atomics %" PRIu64
            "; cycles %" PRIu64 " without conflicts + %" PRIu64 " of conflicts (%.1f%%)\n",
            n->lds_requests, n->lds_load_bytes, n->lds_store_bytes, n->lds_atomic_bytes, n->lds_ideal_cycles,
            n->lds_conflict_cycles, 100 * ratio(n->lds_conflict_cycles, n->lds_ideal_cycles));
    fprintf(f,
            "  waitcnts %" PRIu64 ", barriers %" PRIu64 ", sleeps %" PRIu64 ", spin iterations %" PRIu64
            ", branches taken %" PRIu64 "\n",
            n->waitcnts, n->barriers, n->sleeps, n->spin_iterations, n->branches_taken);
}
