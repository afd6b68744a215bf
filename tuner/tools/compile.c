/* SPDX-License-Identifier: MIT
 *
 * rfg-compile: compiles the kernels of a problem for any architecture, without such a GPU. rfg-compile --worker is the
 * child process in which the tuner and rfg_prepare_from_csv() compile. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "dispatch/context.h"
#include "dispatch/jit/jit_internal.h"
#include "base/util.h"
#include "tuner/harness/options.h"
#include "tuner/harness/output.h"

/* What tests have a worker do. */
static void crash_or_hang(const char *name)
{
    const char *crash = rfg_env("RFG_TEST_WORKER_CRASH"), *hang = rfg_env("RFG_TEST_WORKER_HANG");
    if (crash && strstr(name, crash))
        abort();
    while (hang && strstr(name, hang))
        pause();
}

struct job {
    struct rfg_device dev;
    struct rfg_problem prob;
    const struct rfg_variant *var;
    const char *output;
    bool source;
    int done, failed;
};

static int list_targets(void)
{
    static const char *const usual[] = { "gfx900",  "gfx906",  "gfx908",  "gfx90a",  "gfx942",  "gfx950",
                                         "gfx1010", "gfx1030", "gfx1100", "gfx1101", "gfx1102", "gfx1150",
                                         "gfx1151", "gfx1200", "gfx1201", "gfx1250", "sm_80",   "sm_86",
                                         "sm_89",   "sm_90",   "sm_90a",  "sm_100a", "sm_120a" };
    for (int i = 0; rfg_jit_providers[i]; i++) {
        const struct rfg_jit_provider *p = rfg_jit_providers[i];
        struct rfg_reason why = { "" };
        char version[128];
        if (!p->available(version, sizeof(version), &why)) {
            printf("%-8s not available: %s\n", p->name, why.text);
            continue;
        }
        printf("%-8s %s:", p->name, version);
        for (size_t t = 0; t < sizeof(usual) / sizeof(usual[0]); t++)
            if (p->has_target(usual[t]))
                printf(" %s", usual[t]);
        printf("\n");
    }
    return 0;
}

static bool write_code(const char *path, const struct rfg_blob *code)
{
    struct rfg_output o;
    if (!rfg_output_open(&o, "rfg-compile", "-o", path))
        return false;
    fwrite(code->data, 1, code->size, o.f);
    return rfg_output_close(&o, true);
}

/* Compiles one parameter set (or prints its source). Always true: go on with the next. */
static bool compile_one(void *ctx, const int *p)
{
    struct job *job = ctx;
    struct rfg_jit_request req;
    struct rfg_kernel kernel;
    char name[RFG_CONFIG_STRLEN];
    job->done++;
    if (rfg_variant_request(&job->dev, &job->prob, job->var, p, &req, name, &kernel) != RFG_OK) {
        fprintf(stderr, "rfg-compile: %s\n", rfg_last_error());
        job->failed++;
        return true;
    }
    if (job->source) {
        fputs(req.source, stdout);
        free((char *)req.source);
        return true;
    }
    struct rfg_blob code = { 0 };
    char *log = NULL;
    const struct rfg_jit_provider *prov = rfg_jit_provider_for(req.target);
    double start = rfg_now();
    rfg_status st = prov ? rfg_jit_compile(prov, &req, NULL, NULL, &code, &log) : RFG_ERROR_COMPILE;
    if (st != RFG_OK) {
        fprintf(stderr, "rfg-compile: %s\n%s", rfg_last_error(), log ? log : "");
        job->failed++;
    } else {
        printf("%-72s %-8s %8.1f ms %8zu bytes\n", name, prov->name, 1e3 * (rfg_now() - start), code.size);
        if (job->output && !write_code(job->output, &code))
            job->failed++;
    }
    fflush(stdout);
    free(log);
    rfg_blob_free(&code);
    free((char *)req.source);
    return true;
}

static int bad(const char *fmt, const char *value, const char *why)
{
    fprintf(stderr, "rfg-compile: ");
    fprintf(stderr, fmt, value, why);
    fprintf(stderr, "\n");
    return 2;
}

/* Every listed parameter set of every kernel variant, or of the one called name. */
static int compile_all(struct job *job, const char *name)
{
    const struct rfg_op *op = job->prob.op;
    bool known = false;
    for (int i = 0; i < rfg_op_variants(op)->n; i++) {
        struct rfg_reason why = { "" };
        job->var = rfg_op_variants(op)->list[i];
        if (job->var->kind != RFG_VARIANT_KERNEL || (name && strcmp(name, job->var->name)))
            continue;
        known = true;
        if (!job->var->supports(&job->dev, &job->prob, &why))
            fprintf(stderr, "%s: refused: %s\n", job->var->name, why.text);
        else
            rfg_variant_each(job->var, &job->dev, &job->prob, compile_one, job);
    }
    if (!known && !name)
        return bad("--problem %s: %s", op->name, "the operator has no kernel variants");
    if (!known)
        return bad("--variant %s: %s", name, "not a kernel variant of this operator");
    if (!job->source)
        fprintf(stderr, "%d compiled, %d failed\n", job->done - job->failed, job->failed);
    return job->failed || !job->done;
}

static int compile_chosen(struct job *job, const char *text)
{
    int p[RFG_MAX_PARAMS] = { 0 };
    struct rfg_reason why = { "" };
    if (!rfg_config_parse(job->prob.op, text, &job->var, p, &why))
        return bad("--variant: %s%s", why.text, "");
    if (job->var->kind != RFG_VARIANT_KERNEL)
        return bad("--variant %s: %s", text, "not a kernel: there is nothing to compile");
    if (!rfg_variant_check(job->var, &job->dev, &job->prob, p, &why))
        return bad("--variant %s: %s", text, why.text);
    compile_one(job, p);
    return job->failed != 0;
}

#define FIRST_RUN_SECONDS 60

static int first_run(const char *variant, const char *device, char *const *settings)
{
    struct rlimit none = { 0 };
    rfg_context *ctx = NULL;
    rfg_context_params p = { .size = sizeof(p),
                             .device = device,
                             .variants = variant,
                             .user_db = "",
                             .system_db = "",
                             .misses = -1,
                             .pack = "" };
    alarm(FIRST_RUN_SECONDS);
    (void)setrlimit(RLIMIT_CORE, &none);
    for (; *settings; settings++)
        if (strncmp(*settings, "RFG_LIB", 7) == 0)
            putenv(*settings);
    rfg_vendor_alone();
    rfg_status st = rfg_context_create(&ctx, &p);
    if (st == RFG_OK)
        st = rfg_prepare(ctx, "gemm f16,f16->f16 M=16 N=16 K=16");
    if (st != RFG_OK)
        fprintf(stderr, "rfg-compile: %s\n", rfg_last_error());
    rfg_context_destroy(&ctx);
    return st != RFG_OK;
}

/* ---- the command line -------------------------------------------------------------------------------------------- */

struct options {
    const char *arch, *problem, *variant, *output, *first_run, *device;
    bool source, list_targets, worker;
};

static bool take_provider(void *options, const char *value)
{
    (void)options;
    if (rfg_jit_provider_find(value))
        return setenv("RFG_JIT", value, 1) == 0;
    bad("--provider %s: %s", value, "must be hiprtc, nvrtc, clang or ziglang");
    return false;
}

#define RFG_OPTIONS struct options
static const struct rfg_option table[] = {
    { "arch", "ARCH", "gfx942, gfx90a:104 (with a CU count), sm_90, ...", RFG_TEXT(arch) },
    { "problem", "PROBLEM", "e.g. \"gemm bf16,bf16->bf16 M=8 N=2112 K=7168\"", RFG_TEXT(problem) },
    { "variant", "VARIANT", "e.g. \"gemm_skinny{...}\", all its parameters given; or a name: all of its parameter sets",
      RFG_TEXT(variant) },
    { "provider", "NAME", "hiprtc, nvrtc, clang or ziglang, not the first that knows the target",
      RFG_CALL(take_provider) },
    { NULL, "FILE", "write the code object", .letter = 'o', RFG_TEXT(output) },
    { "source", NULL, "print the expanded source instead of compiling it", RFG_FLAG(source) },
    { "list-targets", NULL, "which compilers are here, and which of the usual targets each knows",
      RFG_FLAG(list_targets) },
    { "worker", NULL, "serve compile requests on a socket at fd 0", RFG_FLAG(worker) },
    { "first-run", "NAME",
      "use a vendor's library for the first time, on --device, with NAME=VALUE... set: what the\nlibrary does the "
      "first time may end the process",
      RFG_TEXT(first_run) },
    { "device", "D", NULL, RFG_TEXT(device) },
    { 0 },
};

static const struct rfg_command_line command_line = {
    .program = "rfg-compile",
    .before = "usage: rfg-compile --arch ARCH --problem PROBLEM [--variant VARIANT] [options]\n"
              "       rfg-compile --list-targets\n"
              "\n"
              "Compiles one variant, or all that are listed for the problem, and prints the time of each.\n"
              "\n",
    .after = "  -h, --help         -V, --version\n",
    .column = 21,
    .options = table,
    .hint = "rfg-compile --help lists the options\n",
};

static int run(int argc, char **argv)
{
    struct options o = { 0 };
    struct rfg_reason why = { "" };
    int first = 0, code = rfg_options_parse(&command_line, argc, argv, &o, &first);
    if (code >= 0)
        return code;
    if (o.list_targets)
        return list_targets();
    if (o.worker)
        return rfg_jit_worker_main(crash_or_hang);
    struct job job = { .output = o.output, .source = o.source };
    if (o.first_run)
        return o.device ? first_run(o.first_run, o.device, argv + first)
                        : bad("--%s is missing; %s", "device", "amd:0");
    if (first < argc)
        return bad("%s: %s", argv[first], "not an option; a problem goes to --problem");
    if (!o.arch || !o.problem)
        return bad("--%s is missing; %s", o.arch ? "problem" : "arch", "rfg-compile --help shows an example");
    if (!rfg_device_imagine(&job.dev, o.arch))
        return bad("--arch %s: %s", o.arch, "not an architecture that rfg knows");
    if (!rfg_problem_parse(&job.prob, o.problem, &why))
        return bad("--problem \"%s\": %s", o.problem, why.text);
    bool one = o.variant && strchr(o.variant, '{');
    if (job.output && !one)
        return bad("-o %s: %s", job.output, "only with one --variant \"name{all parameters}\"");
    if (!rfg_output_check("rfg-compile", "-o", job.output))
        return 2;
    return one ? compile_chosen(&job, o.variant) : compile_all(&job, o.variant);
}

int main(int argc, char **argv)
{
    rfg_program_begin();
    return rfg_program_end("rfg-compile", run(argc, argv), 1);
}
