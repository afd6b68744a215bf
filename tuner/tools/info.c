/* SPDX-License-Identifier: MIT
 *
 * rfg-info: prints what rfg finds on this machine, and what is missing. It collects JSON first and prints the text from
 * it, so that the two never differ. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dispatch/context.h"
#include "dispatch/db/db.h"
#include "dispatch/hip/hip_platform.h"
#include "dispatch/jit/jit.h"
#include "base/rocm.h"
#include "base/util.h"
#include "ops/gemm/vendor/vendor.h"
#include "tuner/harness/options.h"
#include "tuner/harness/output.h"
#include "rfg/rfg.h"

/* ---- collecting ---------------------------------------------------------------------------------------------- */

static json_t *device_json(const struct rfg_device *d)
{
    json_t *o = json_pack("{s:s, s:s, s:i}", "name", d->name, "arch", d->arch, "cu_count", d->cu_count);
    json_t *features = json_array();
    static const struct {
        unsigned bit;
        const char *name;
    } names[] = {
        { RFG_FEATURE_MMA, "mma" },
        { RFG_FEATURE_ASYNC, "async" },
        { RFG_FEATURE_AVX2, "avx2" },
        { RFG_FEATURE_AVX512, "avx512" },
        { RFG_FEATURE_AVX512VNNI, "avx512vnni" },
        { RFG_FEATURE_AVX512BF16, "avx512bf16" },
        { RFG_FEATURE_CLUSTER, "cluster" },
        { RFG_FEATURE_OVERLAP, "overlap" },
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (d->features & names[i].bit)
            json_array_append_new(features, json_string(names[i].name));
    }
    json_object_set_new(o, "features", features);
    json_object_set_new(o, "cache_bytes", json_integer(d->cache_bytes));
    return o;
}

/* The models' numbers, and their source. */
static json_t *numbers_json(struct rfg_device *d, bool hardware, const char *product, const char *driver)
{
    char *path = rfg_db_user_path();
    struct rfg_calibration c;
    struct rfg_db *db = hardware ? rfg_db_open_to_read(path, true) : NULL;
    bool measured = rfg_device_calibration(d, product, driver, db, &c);
    rfg_db_close(&db);
    if (measured)
        rfg_device_calibrate(d, &c);
    json_t *o = json_pack("{s:f, s:f, s:f, s:f, s:f, s:s}", "mem_gbps", d->mem_gbps, "cache_gbps", d->cache_gbps,
                          "latency_us", d->latency_us, "load_us", d->load_us, "sync_us", d->sync_us, "from",
                          measured ? "rfg-tune --calibrate" : "the built-in table");
    if (measured) {
        json_object_set_new(o, "date", json_string(c.date));
        json_object_set_new(o, "database", rfg_json_text(path));
    }
    free(path);
    return o;
}

static json_t *gpu_json(const struct rfg_hip *hip, const struct rfg_hip_platform *p, int ordinal)
{
    struct rfg_device d;
    char name[128] = "";
    size_t memory = 0;
    hipError_t e = hip->describe(ordinal, &d);
    if (e != hipSuccess)
        return json_pack("{s:o, s:s}", "name", json_sprintf("%s:%d", p->name, ordinal), "problem", hip->error_name(e));
    json_t *o = device_json(&d);
    json_object_set_new(o, "name", json_sprintf("%s:%d", p->name, ordinal));
    if (hip->hipDeviceGetName(name, sizeof(name), ordinal) == hipSuccess && name[0])
        json_object_set_new(o, "product", rfg_json_text(name));
    if (hip->hipDeviceTotalMem(&memory, ordinal) == hipSuccess)
        json_object_set_new(o, "memory_bytes", json_integer((json_int_t)memory));
    json_object_set_new(o, "target", json_string(d.target));
    json_object_set_new(o, "wave_size", json_integer(d.wave_size));
    json_object_set_new(o, "lds_bytes", json_integer(d.lds_bytes));
    json_object_set_new(o, "max_threads", json_integer(d.max_threads));
    char driver[64];
    int version = 0;
    (void)hip->hipDriverGetVersion(&version);
    p->driver_name(version, driver, sizeof(driver));
    json_object_set_new(o, "numbers", numbers_json(&d, p->hardware, *name ? name : d.arch, driver));
    return o;
}

/* The variables and device nodes that decide which GPUs a process sees; without a runtime it prints nothing else. */
static json_t *facts_json(const struct rfg_hip_platform *p, bool found)
{
    struct rfg_platform_fact facts[RFG_PLATFORM_FACTS];
    int n = found && p->facts ? p->facts("", facts, RFG_PLATFORM_FACTS) : 0;
    json_t *list = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(list, json_pack("{s:o, s:o, s:b}", "what", rfg_json_text(facts[i].what), "says",
                                              rfg_json_text(facts[i].says), "misleads", facts[i].misleads));
    return list;
}

static json_t *platform_json(const struct rfg_hip_platform *p)
{
    struct rfg_platform_report r = { 0 };
    const struct rfg_hip *hip = p->load(&r);
    json_t *devices = json_array();
    for (int i = 0; hip && i < r.devices; i++)
        json_array_append_new(devices, gpu_json(hip, p, i));
    return json_pack("{s:s, s:b, s:o, s:o, s:o, s:o, s:o, s:o}", "platform", r.platform ? r.platform : p->name, "found",
                     r.found, "library", rfg_json_text(r.library), "version", rfg_json_text(r.version), "problem",
                     rfg_json_text(r.problem), "advice", rfg_json_text(r.advice), "devices", devices, "facts",
                     facts_json(p, r.found));
}

static json_t *rocm_json(void)
{
    struct rfg_platform_report unused;
    bool off = rfg_platform_switched_off(&unused, "amd"), hip = false;
    json_t *list = json_array();
    for (int i = 0; i < RFG_ROCM_COUNT && !off; i++) {
        if (i >= RFG_ROCM_HIPBLASLT && (!hip || gemm_vendor_off())) /* of use with a GPU alone */
            break;
        const struct rfg_rocm_library *l = rfg_rocm_open((enum rfg_rocm)i);
        struct rfg_reason differs = { "" };
        (void)rfg_rocm_differs((enum rfg_rocm)i, &differs);
        hip = hip || (i == RFG_ROCM_HIP && l->handle);
        json_array_append_new(list, json_pack("{s:s, s:o, s:o, s:s, s:o, s:o, s:s}", "name", l->name, "path",
                                              rfg_json_text(l->handle ? l->path : ""), "soname",
                                              rfg_json_text(l->soname), "found", l->handle ? l->found : "", "problem",
                                              rfg_json_text(l->problem), "differs", rfg_json_text(differs.text),
                                              "variable", rfg_rocm_variable((enum rfg_rocm)i)));
    }
    return list;
}

static json_t *compilers_json(void)
{
    json_t *list = json_array();
    for (int i = 0; rfg_jit_providers[i]; i++) {
        const struct rfg_jit_provider *p = rfg_jit_providers[i];
        char version[128] = "";
        struct rfg_reason why = { "" };
        bool there = p->available(version, sizeof(version), &why);
        json_array_append_new(list, json_pack("{s:s, s:b, s:o, s:o}", "name", p->name, "available", there, "version",
                                              rfg_json_text(there ? version : ""), "problem",
                                              rfg_json_text(there ? "" : why.text)));
    }
    return list;
}

/* The nearest directory above path (or path) that exists says whether a file could be made there. */
static bool can_write(const char *path)
{
    char *p = strdup(path);
    bool ok = false;
    while (p && *p) {
        if (rfg_access(p, F_OK)) {
            ok = rfg_access(p, W_OK);
            break;
        }
        char *slash = strrchr(p, '/');
        if (!slash) {
            ok = rfg_access(".", W_OK);
            break;
        }
        if (slash == p)
            slash++;
        if (!*slash) { /* "/" itself */
            break;
        }
        *slash = 0;
    }
    free(p);
    return ok;
}

static json_t *path_json(char *path)
{
    json_t *o = path && *path ? json_pack("{s:o, s:b, s:b}", "path", rfg_json_text(path), "exists",
                                          rfg_access(path, F_OK), "writable", can_write(path))
                              : json_pack("{s:s, s:b, s:b}", "path", "", "exists", 0, "writable", 0);
    free(path);
    return o;
}

/* A cache directory that isn't ours alone is not used: see docs/security.md. */
static json_t *cache_json(void)
{
    struct rfg_reason why = { "" };
    char *path = rfg_cache_default_dir();
    bool refused = path && !rfg_cache_usable(path, false, &why) && errno == EPERM;
    json_t *o = path_json(path);
    json_object_set_new(o, "problem", rfg_json_text(refused ? why.text : ""));
    return o;
}

static json_t *collect(void)
{
    struct rfg_device cpu;
    rfg_device_cpu(&cpu, 0);
    json_t *c = device_json(&cpu);
    json_object_del(c, "cu_count");
    json_object_set_new(c, "threads", json_integer(cpu.cu_count));
    json_object_set_new(c, "numbers", numbers_json(&cpu, true, cpu.arch, ""));
    json_t *platforms = json_array();
    for (int i = 0; rfg_platforms[i]; i++)
        json_array_append_new(platforms, platform_json(rfg_platforms[i]));
    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "version", rfg_version(), "platforms", platforms, "cpu", c,
                     "compilers", compilers_json(), "rocm", rocm_json(), "database", path_json(rfg_db_user_path()),
                     "cache", cache_json());
}

/* ---- printing ------------------------------------------------------------------------------------------------ */

static const char *str(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

static long long num(const json_t *o, const char *key)
{
    return json_integer_value(json_object_get(o, key));
}

static bool yes(const json_t *o, const char *key)
{
    return json_is_true(json_object_get(o, key));
}

static void print_features(const json_t *o)
{
    const json_t *list = json_object_get(o, "features");
    for (size_t i = 0; i < json_array_size(list); i++)
        printf("%s%s", i ? " " : ", ", json_string_value(json_array_get(list, i)));
}

static double real(const json_t *o, const char *key)
{
    return json_number_value(json_object_get(o, key));
}

static void print_numbers(const json_t *device)
{
    const json_t *o = json_object_get(device, "numbers");
    printf("    memory %.0f GB/s, caches %.0f GB/s, launch %.2f us, load %.2f us, sync %.2f us: by %s%s%s\n",
           real(o, "mem_gbps"), real(o, "cache_gbps"), real(o, "latency_us"), real(o, "load_us"), real(o, "sync_us"),
           str(o, "from"), *str(o, "date") ? ", " : "", str(o, "date"));
}

static void print_path(const char *what, const json_t *o)
{
    if (!*str(o, "path"))
        printf("%s: none: neither its variable nor HOME is set\n", what);
    else
        rfg_print(stdout, "%s: %s (%s%s%s%s)\n", what, str(o, "path"), yes(o, "exists") ? "exists" : "not there yet",
                  yes(o, "writable") ? "" : ", not writable", *str(o, "problem") ? ", not used: " : "",
                  str(o, "problem"));
}

static void print_text(const json_t *info)
{
    size_t i, j;
    const json_t *o, *d;
    printf("rfg %s\n\n", str(info, "version"));
    json_array_foreach(json_object_get(info, "platforms"), i, o)
    {
        printf("%s: ", str(o, "platform"));
        if (yes(o, "found"))
            printf("%s%s%s\n", str(o, "library"), *str(o, "version") ? ", version " : "", str(o, "version"));
        else
            printf("not found (%s)\n", str(o, "library"));
        if (*str(o, "problem"))
            printf("  problem: %s\n", str(o, "problem"));
        if (*str(o, "advice"))
            printf("  advice: %s\n", str(o, "advice"));
        json_array_foreach(json_object_get(o, "devices"), j, d)
        {
            if (*str(d, "problem")) {
                printf("  %s: %s\n", str(d, "name"), str(d, "problem"));
                continue;
            }
            printf("  %s: %s, %s, %lld CUs, %.1f GiB, LDS %lld KiB, wave %lld", str(d, "name"),
                   *str(d, "product") ? str(d, "product") : "unnamed", str(d, "arch"), num(d, "cu_count"),
                   (double)num(d, "memory_bytes") / (1 << 30), num(d, "lds_bytes") / 1024, num(d, "wave_size"));
            print_features(d);
            printf("\n");
            print_numbers(d);
        }
        json_array_foreach(json_object_get(o, "facts"), j, d)
            rfg_print(stdout, "  %s: %s\n", str(d, "what"), str(d, "says"));
    }
    o = json_object_get(info, "cpu");
    printf("cpu: %s, %lld threads", str(o, "arch"), num(o, "threads"));
    print_features(o);
    printf("\n");
    print_numbers(o);
    printf("\nCompilers:\n");
    json_array_foreach(json_object_get(info, "compilers"), i, o)
    {
        if (yes(o, "available"))
            printf("  %s: %s\n", str(o, "name"), str(o, "version"));
        else
            printf("  %s: not available: %s\n", str(o, "name"), str(o, "problem"));
    }
    if (json_array_size(json_object_get(info, "rocm")))
        printf("\nROCm's libraries:\n");
    json_array_foreach(json_object_get(info, "rocm"), i, o)
    {
        if (*str(o, "path"))
            rfg_print(stdout, "  %s: %s (%s%s%s)\n", str(o, "name"), str(o, "path"), str(o, "soname"),
                      *str(o, "soname") ? ", " : "", str(o, "found"));
        else
            rfg_print(stdout, "  %s: %s\n", str(o, "name"), str(o, "problem"));
        if (*str(o, "differs"))
            rfg_print(stdout, "    warning: another release: %s\n", str(o, "differs"));
    }
    printf("\n");
    print_path("Tuned database", json_object_get(info, "database"));
    print_path("Kernel cache", json_object_get(info, "cache"));
}

/* ---- keys -------------------------------------------------------------------------------------------------------- */

static void print_key(const struct rfg_op *op, const struct rfg_key *k)
{
    char values[160];
    if (k->names)
        rfg_key_values(k, "|", values, sizeof(values));
    else
        snprintf(values, sizeof(values), k->max >= INT32_MAX - 1 ? "%lld.." : "%lld..%lld", (long long)k->min,
                 (long long)k->max);
    printf("  %s=%s", k->name, values);
    if (k->kind != RFG_KEY_SIZE && k->names)
        printf(" (%s)", k->names[k->def - k->min]);
    else if (k->kind != RFG_KEY_SIZE)
        printf(" (%lld)", (long long)k->def);
    for (int c = 0; c < 3; c++)
        if (op->column_key[c] && !strcmp(op->column_key[c], k->name) && strcmp(k->name, (const char[]){ "MNK"[c], 0 }))
            printf(" (column %c of CSV files)", "MNK"[c]);
    printf("\n      %s\n", k->help);
}

/* A line such as "  bias          input   w's dtype". */
static void print_operand(const struct rfg_op *op, const struct rfg_op_operand *o)
{
    printf("  %-14s%-8s", o->name, o->output ? "output" : "input");
    if (o->at == RFG_FORMAT_LISTED)
        printf("dtype %d of the list\n", o->of + 1);
    else if (o->at == RFG_FORMAT_AS)
        printf("%s's dtype\n", op->operands[o->of].name);
    else if (o->at == RFG_FORMAT_ALWAYS)
        printf("%s\n", rfg_dtype_name((rfg_dtype)o->of));
    else if (o->at == RFG_FORMAT_OF_SCALE)
        printf("f32, with %s=mx e8m0\n", op->keys[o->of].name);
    else
        printf("what %s= says, else %s%s\n", op->keys[o->of].name, o->same ? op->operands[o->same - 1].name : "absent",
               o->same ? "'s dtype" : "");
}

static void print_keys(const struct rfg_op *op)
{
    static const char *const kinds[] = { [RFG_KEY_SIZE] = "sizes, which must be given:",
                                         [RFG_KEY_ATTR] = "attributes (defaults in brackets):",
                                         [RFG_KEY_LAYOUT] = "layout (not in tuned rows' keys):" };
    char signature[RFG_DTYPES_STRLEN];
    printf("%s %s\n operands and their dtypes:\n", op->name, rfg_op_signature(op, signature, sizeof(signature)));
    for (int i = 0; i < op->n_operands; i++)
        print_operand(op, &op->operands[i]);
    for (enum rfg_key_kind kind = RFG_KEY_SIZE; kind <= RFG_KEY_LAYOUT; kind++) {
        bool any = false;
        for (int i = 0; i < op->n_keys; i++)
            if (op->keys[i].kind == kind) {
                if (!any)
                    printf(" %s\n", kinds[kind]);
                any = true;
                print_key(op, &op->keys[i]);
            }
    }
    printf("\n");
}

/* The exit status. */
static int list_keys(const char *name)
{
    if (name && !rfg_op_find(name, strlen(name))) {
        fprintf(stderr, "rfg-info: --keys %s: no such operator: must be one of", name);
        for (int i = 0; rfg_ops[i]; i++)
            fprintf(stderr, "%s %s", i ? "," : "", rfg_ops[i]->name);
        fputs("\n", stderr);
        return 2;
    }
    for (int i = 0; rfg_ops[i]; i++)
        if (!name || !strcmp(name, rfg_ops[i]->name))
            print_keys(rfg_ops[i]);
    return 0;
}

/* ---- the command line -------------------------------------------------------------------------------------------- */

struct options {
    bool json, keys;
};

#define RFG_OPTIONS struct options
static const struct rfg_option table[] = {
    { "json", NULL, "for programs", RFG_FLAG(json) },
    { "keys", NULL, "instead: the keys of problem strings, and their meanings", RFG_FLAG(keys) },
    { 0 },
};

static const struct rfg_command_line command_line = {
    .program = "rfg-info",
    .before = "usage: rfg-info [--json]\n"
              "       rfg-info --keys [OPERATOR]\n"
              "\n"
              "Says what rfg finds on this machine: platforms, their devices and what hides them, compilers,\n"
              "ROCm's libraries, the tuned database and the cache of compiled kernels; and for what is\n"
              "missing, what to do.\n"
              "\n",
    .after = "  -h, --help       this text\n"
             "  -V, --version    rfg's version\n",
    .column = 19,
    .options = table,
    .hint = "rfg-info --help lists the options\n",
};

static int run(int argc, char **argv)
{
    struct options o = { 0 };
    int first = 0, code = rfg_options_parse(&command_line, argc, argv, &o, &first);
    if (code >= 0)
        return code;
    if (o.keys && first + 1 >= argc)
        return list_keys(argv[first]);
    if (first < argc) {
        fprintf(stderr, "rfg-info: %s: not an option; rfg-info --help lists them\n", argv[first]);
        return 2;
    }
    json_t *info = collect();
    if (!info) {
        fputs("rfg-info: out of memory\n", stderr);
        return 1;
    }
    if (o.json) {
        json_dumpf(info, stdout, JSON_INDENT(2));
        printf("\n");
    } else {
        print_text(info);
    }
    json_decref(info);
    return 0;
}

int main(int argc, char **argv)
{
    rfg_program_begin();
    return rfg_program_end("rfg-info", run(argc, argv), 1);
}
