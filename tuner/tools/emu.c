/* SPDX-License-Identifier: MIT
 *
 * rfg-emu: looks into AMD code objects and runs them, with no GPU. */
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch/context.h"
#include "dispatch/jit/jit.h"
#include "base/util.h"
#include "tuner/harness/output.h"
#include "emu/count/counters.h"
#include "emu_bench.h"
#include "emu/hip/hip_emu.h"

#define MAX_ARGS 128

static const char usage[] =
    "usage: rfg-emu --coverage FILE.co...     instructions by mnemonic and family, and which are not implemented\n"
    "       rfg-emu list FILE.co...           kernels: registers, LDS, scratch, arguments\n"
    "       rfg-emu run FILE.co [options]     run a kernel on files\n"
    "       rfg-emu bench [ARCH...]           how fast the emulator is here\n"
    "\n"
    "run:\n"
    "  --kernel NAME          which kernel (needed if the file has several)\n"
    "  --grid X[,Y[,Z]]       workgroups (default 1)\n"
    "  --block X[,Y[,Z]]      work-items of a workgroup (default: what the kernel requires, else 64)\n"
    "  --lds BYTES            dynamic LDS\n"
    "  --device ARCH[:CUS]    default: the code object's architecture\n"
    "  --repeat N             launch it N times\n"
    "  --counters             what the launches did, added up: docs/emulator.md says how each number is meant\n"
    "  --json                 the run (and the counters) as one JSON object\n"
    "  --args A...            the kernel's explicit arguments, in order; to the end of the line:\n"
    "      i8: i16: i32: i64: u8: u16: u32: u64: f32: f64:  a number, e.g. i32:5\n"
    "      in:FILE            a buffer with the file's bytes\n"
    "      out:FILE:BYTES     a buffer of zeroes, written to the file afterwards\n"
    "      inout:FILE:FILE    a buffer with the first file's bytes, written to the second afterwards\n"
    "      zero:BYTES         a buffer of zeroes\n"
    "      bytes:FILE         an argument by value (a struct), the file's bytes\n"
    "      { A... }           a struct of such values and buffers, each aligned to its size, as rfg's kernels take "
    "one\n"
    "      null               a null pointer\n"
    "\n"
    "Files may be rfg's own (.rfgco, of its cache), and offload bundles if --device says which architecture is meant.\n"
    "$RFG_EMU_THREADS, $RFG_EMU_SCHEDULE (a seed), $RFG_EMU_TURN and $RFG_EMU_MAX_SPIN say how workgroups are "
    "scheduled.\n"
    "-h, --help, -V, --version: alone, or after a command. Exit status: 0; 1 if something is missing or failed; 2 for\n"
    "a wrong command line.\n";

__attribute__((format(printf, 1, 2))) static int wrong(const char *fmt, ...)
{
    va_list ap;
    fputs("rfg-emu: ", stderr);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputs("\n", stderr);
    return 2;
}

static char self[] = "rfg-emu"; /* getopt's messages begin with argv[0] */

static int help(void)
{
    fputs(usage, stdout);
    return 0;
}

static int version(void)
{
    printf("rfg-emu %s\n", rfg_version());
    return 0;
}

/* A file's code object, without the header that it has in rfg's cache: malloc'ed; NULL with a message. */
static char *read_code(const char *path, size_t *size)
{
    const char *why = NULL;
    char *data = rfg_read_file(path, size);
    if (data)
        why = rfg_cache_unwrap(data, size);
    else
        why = strerror(errno);
    if (!why)
        return data;
    fprintf(stderr, "rfg-emu: %s: %s\n", path, why);
    free(data);
    return NULL;
}

static struct emu_code *load(const char *path, const struct emu_arch *arch)
{
    char error[512];
    size_t size;
    struct emu_code *code = NULL;
    char *data = read_code(path, &size);
    if (data && !emu_code_load(&code, data, size, arch, error, sizeof(error)))
        fprintf(stderr, "rfg-emu: %s: %s\n", path, error);
    free(data);
    return code;
}

/* ---- coverage
 * ------------------------------------------------------------------------------------------------------------ */

struct count {
    const char *name; /* the op's, or a mnemonic that is known to nobody (malloc'ed) */
    uint64_t n;
    bool missing;
};

struct counts {
    struct count *v;
    int n, capacity;
};

static void add(struct counts *c, const char *name, uint64_t n, bool missing)
{
    for (int i = 0; i < c->n; i++)
        if (!strcmp(c->v[i].name, name)) {
            c->v[i].n += n;
            return;
        }
    if (c->n == c->capacity) {
        int capacity = c->capacity ? 2 * c->capacity : 256;
        struct count *grown = realloc(c->v, (size_t)capacity * sizeof(*grown));
        if (!grown)
            return;
        c->v = grown;
        c->capacity = capacity;
    }
    c->v[c->n++] = (struct count){ strdup(name), n, missing };
}

static void free_counts(struct counts *c)
{
    for (int i = 0; i < c->n; i++)
        free((char *)c->v[i].name);
    free(c->v);
}

static int by_count(const void *a, const void *b)
{
    const struct count *x = a, *y = b;
    if (x->missing != y->missing)
        return x->missing ? -1 : 1;
    return x->n != y->n ? (x->n < y->n ? 1 : -1) : strcmp(x->name, y->name);
}

static void totals(const struct counts *c, uint64_t *all, uint64_t *missing)
{
    *all = *missing = 0;
    for (int i = 0; i < c->n; i++) {
        *all += c->v[i].n;
        *missing += c->v[i].missing ? c->v[i].n : 0;
    }
}

/* Is it a word that no disassembler knows, where a wave would run it: what pads and data come after an end or a jump.
 */
static bool is_undecodable(const struct emu_program *prog, const struct emu_inst *inst)
{
    if (strcmp(inst->op->name, ".long") || inst == prog->inst || inst->address >= prog->size)
        return false;
    const struct emu_inst *before = inst - 1;
    while (before > prog->inst && before->op && !strcmp(before->op->name, ".long"))
        before--;
    const char *name = before->op ? before->op->name : "";
    return strcmp(name, ".long") && strcmp(name, "s_endpgm") && strcmp(name, "s_branch") &&
           strcmp(name, "s_setpc_b64") && strcmp(name, "s_code_end");
}

/* The kernels' own code, without what pads it. */
static void count_code(const struct emu_code *code, struct counts *c)
{
    for (int p = 0; p < 2; p++)
        for (int i = 0; i < code->program[p].n; i++) {
            const struct emu_inst *inst = &code->program[p].inst[i];
            char text[128];
            const char *name = inst->op ? inst->op->name : NULL;
            if (!name) {
                emu_inst_text(&code->program[p], inst, text, sizeof(text));
                text[strcspn(text, " \t\n")] = 0;
                name = text;
            }
            bool undecodable = inst->op && is_undecodable(&code->program[p], inst);
            add(c, undecodable ? "(undecodable)" : name, 1, !inst->fn || undecodable);
        }
}

/* What a file is for, by the names that AITER, hipBLASLt and others give: the first word found in its path; else the
 * folder that it is in. */
static const char *family_of(const char *path, char *buf, size_t size)
{
    static const struct {
        const char *word, *family;
    } words[] = { { "allreduce", "all-reduce" },
                  { "all_reduce", "all-reduce" },
                  { "fmha", "attention" },
                  { "mla", "mla" },
                  { "/pa/", "paged attention" },
                  { "/pa_", "paged attention" },
                  { "moe", "moe" },
                  { "gemm", "gemm" },
                  { "flatmm", "gemm" },
                  { "norm", "norm" },
                  { "topk", "top-k" } };
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strstr(path, words[i].word))
            return words[i].family;
    const char *end = strrchr(path, '/'), *from = end;
    while (from && from > path && from[-1] != '/')
        from--;
    snprintf(buf, size, "%.*s", end ? (int)(end - from) : 1, end ? from : ".");
    return buf;
}

struct family {
    char name[64];
    int files, whole;
    uint64_t instructions, missing;
};

static void add_file(struct family *f, int *n, int room, const char *path, uint64_t all, uint64_t missing, bool whole)
{
    char buf[64];
    const char *name = family_of(path, buf, sizeof(buf));
    int k = 0;
    while (k < *n && strcmp(f[k].name, name))
        k++;
    if (k == room) /* the last takes the rest */
        k--;
    else if (k == *n) {
        f[k] = (struct family){ 0 };
        snprintf(f[k].name, sizeof(f[k].name), "%s", name);
        (*n)++;
    }
    f[k].files++;
    f[k].whole += whole;
    f[k].instructions += all;
    f[k].missing += missing;
}

static int coverage(char **paths, int n)
{
    struct counts total = { 0 };
    struct family family[64];
    int families = 0, whole_files = 0;
    int bad_files = 0;
    uint64_t all, missing;
    for (int f = 0; f < n; f++) {
        struct counts c = { 0 };
        char error[512];
        struct emu_code *code = load(paths[f], NULL);
        if (!code) {
            add_file(family, &families, 64, paths[f], 0, 0, false);
            bad_files++;
            continue;
        }
        bool decoded = emu_code_decode(code, true, error, sizeof(error));
        if (!decoded) {
            fprintf(stderr, "rfg-emu: %s: %s\n", paths[f], error);
            bad_files++;
        }
        count_code(code, &c);
        totals(&c, &all, &missing);
        whole_files += decoded && !missing;
        add_file(family, &families, 64, paths[f], all, missing, decoded && !missing);
        printf("%s: %s v%d, %d kernels, %llu instructions, %d mnemonics, %llu not implemented%s", paths[f],
               code->arch->name, code->version, code->n_kernels, (unsigned long long)all, c.n,
               (unsigned long long)missing, missing ? ":" : "");
        qsort(c.v, (size_t)c.n, sizeof(*c.v), by_count);
        for (int i = 0; i < c.n; i++) {
            if (c.v[i].missing)
                printf(" %s", c.v[i].name);
            add(&total, c.v[i].name, c.v[i].n, c.v[i].missing);
        }
        printf("\n");
        free_counts(&c);
        emu_code_free(&code);
    }
    totals(&total, &all, &missing);
    qsort(total.v, (size_t)total.n, sizeof(*total.v), by_count);
    printf("\n%12s  instruction\n", "count");
    for (int i = 0; i < total.n; i++)
        printf("%12llu  %s%s\n", (unsigned long long)total.v[i].n, total.v[i].name,
               total.v[i].missing ? "  NOT IMPLEMENTED" : "");
    printf("\n%-20s %12s %7s %13s %16s\n", "family", "files", "whole", "instructions", "not implemented");
    for (int i = 0; i < families; i++)
        printf("%-20s %12d %6.1f%% %13llu %16llu\n", family[i].name, family[i].files,
               100.0 * family[i].whole / family[i].files, (unsigned long long)family[i].instructions,
               (unsigned long long)family[i].missing);
    printf("\n%d files, %d wholly implemented, %d not readable or not decodable; %llu instructions, %d mnemonics; not "
           "implemented: %llu (%.3f%%)\n",
           n, whole_files, bad_files, (unsigned long long)all, total.n, (unsigned long long)missing,
           all ? 100.0 * (double)missing / (double)all : 0.0);
    free_counts(&total);
    return missing || bad_files;
}

/* ---- list
 * ------------------------------------------------------------------------------------------------------------------ */

static const char *kind_name(enum emu_arg_kind k)
{
    return k == EMU_ARG_BY_VALUE                 ? "value"
           : k == EMU_ARG_GLOBAL_BUFFER          ? "pointer"
           : k == EMU_ARG_DYNAMIC_SHARED_POINTER ? "LDS pointer"
                                                 : "other";
}

static int list(char **paths, int n)
{
    int bad = 0;
    for (int f = 0; f < n; f++) {
        struct emu_code *code = load(paths[f], NULL);
        if (!code) {
            bad++;
            continue;
        }
        printf("%s: %s, code object v%d, %llu bytes of code\n", paths[f], code->arch->name, code->version,
               (unsigned long long)code->text_size);
        for (int i = 0; i < code->n_kernels; i++) {
            const struct emu_kernel *k = &code->kernel[i];
            printf("  %s: wave%d, %d VGPRs, %d AGPRs, %d SGPRs, LDS %u, scratch %u, at most %d work-items", k->name,
                   k->wave_size, k->n_vgprs, k->n_agprs, k->n_sgprs, k->lds_bytes, k->scratch_bytes, k->max_threads);
            if (k->reqd[0])
                printf(", requires %dx%dx%d", k->reqd[0], k->reqd[1], k->reqd[2]);
            if (k->preload_length)
                printf(", %d dwords preloaded", k->preload_length);
            printf("\n    entry 0x%llx, kernarg %u bytes, %d hidden arguments\n", (unsigned long long)k->entry,
                   k->kernarg_bytes, k->n_args - k->n_explicit);
            for (int a = 0; a < k->n_explicit; a++)
                printf("    %3u: %s, %u bytes%s%s\n", k->arg[a].offset, kind_name(k->arg[a].kind), k->arg[a].size,
                       k->arg[a].name ? ", " : "", k->arg[a].name ? k->arg[a].name : "");
        }
        emu_code_free(&code);
    }
    return bad != 0;
}

/* ---- run
 * -------------------------------------------------------------------------------------------------------------------
 */

struct run {
    const char *path, *kernel, *device;
    uint32_t grid[3], block[3], lds;
    bool block_given, counters, json;
    long repeat;
    char **args;
    int n_args;
    const struct rfg_hip *hip;
    struct {
        uint8_t value[8];
        char *bytes; /* by value, longer than 8: malloc'ed */
        size_t size; /* of the argument */
        void *buffer;
        size_t buffer_size;
        const char *out; /* file to write the buffer to */
    } arg[MAX_ARGS];
};

static bool parse_number(const char *text, unsigned long long lo, unsigned long long hi, unsigned long long *out)
{
    char *end;
    errno = 0;
    *out = strtoull(text, &end, 0);
    return *text >= '0' && *text <= '9' && !*end && !errno && *out >= lo && *out <= hi;
}

static int parse_dims(const char *what, const char *text, unsigned long long most, uint32_t out[3])
{
    char part[32];
    const char *at = text;
    for (int d = 0; d < 3; d++) {
        unsigned long long v = 1;
        if (d == 0 || *at) {
            size_t len = strcspn(at, ",");
            if (len >= sizeof(part))
                return wrong("%s %s: must be X[,Y[,Z]]", what, text);
            memcpy(part, at, len);
            part[len] = 0;
            if (!parse_number(part, 1, most, &v))
                return wrong("%s %s: '%s' must be a number from 1 to %llu", what, text, part, most);
            at += len + (at[len] == ',');
        }
        out[d] = (uint32_t)v;
    }
    return *at ? wrong("%s %s: must be X[,Y[,Z]]", what, text) : 0;
}

/* i32:-5, f32:1.5...: 0 if it was one, 2 if it is a bad one, -1 if it isn't one at all. */
static int parse_scalar(struct run *r, int i, const char *arg)
{
    static const struct {
        const char *prefix;
        size_t size;
        char type;
    } types[] = { { "i8:", 1, 'i' },  { "i16:", 2, 'i' }, { "i32:", 4, 'i' }, { "i64:", 8, 'i' }, { "u8:", 1, 'u' },
                  { "u16:", 2, 'u' }, { "u32:", 4, 'u' }, { "u64:", 8, 'u' }, { "f32:", 4, 'f' }, { "f64:", 8, 'f' } };
    for (size_t t = 0; t < sizeof(types) / sizeof(types[0]); t++) {
        size_t len = strlen(types[t].prefix), size = types[t].size;
        const char *text = arg + len;
        char *end;
        if (strncmp(arg, types[t].prefix, len))
            continue;
        errno = 0;
        r->arg[i].size = size;
        if (types[t].type == 'f') {
            double d = strtod(text, &end);
            float f = (float)d;
            memcpy(r->arg[i].value, size == 4 ? (void *)&f : (void *)&d, size);
        } else if (types[t].type == 'i') {
            long long v = strtoll(text, &end, 0);
            if (size < 8 && (v < -(1ll << (8 * size - 1)) || v >= 1ll << (8 * size - 1)))
                errno = ERANGE;
            memcpy(r->arg[i].value, &v, size);
        } else {
            unsigned long long v = strtoull(text, &end, 0);
            if (*text == '-' || (size < 8 && v >> (8 * size)))
                errno = ERANGE;
            memcpy(r->arg[i].value, &v, size);
        }
        if (end == text || *end || errno)
            return wrong("--args %s: '%s' must be a number that fits in %zu bytes", arg, text, size);
        return 0;
    }
    return -1;
}

static int make_buffer(struct run *r, int i, const char *arg, const void *data, size_t size)
{
    if (!size)
        return wrong("--args %s: must have at least 1 byte", arg);
    if (r->hip->hipMalloc(&r->arg[i].buffer, size) != hipSuccess) {
        fprintf(stderr, "rfg-emu: --args %s: no memory for %zu bytes\n", arg, size);
        return 1;
    }
    r->arg[i].buffer_size = size;
    r->arg[i].size = 8;
    memcpy(r->arg[i].value, &r->arg[i].buffer, 8);
    hipError_t e = data ? r->hip->hipMemcpyHtoD(r->arg[i].buffer, (void *)(uintptr_t)data, size)
                        : r->hip->hipMemsetD8Async(r->arg[i].buffer, 0, size, NULL);
    return e == hipSuccess ? 0 : 1;
}

static int buffer_from(struct run *r, int i, const char *arg, const char *path)
{
    size_t size;
    char *data = rfg_read_file(path, &size);
    if (!data) {
        fprintf(stderr, "rfg-emu: --args %s: %s: %s\n", arg, path, strerror(errno));
        return 1;
    }
    int code = make_buffer(r, i, arg, data, size);
    free(data);
    return code;
}

static int parse_arg(struct run *r, int i, char *arg)
{
    unsigned long long n;
    int code = parse_scalar(r, i, arg);
    if (code >= 0)
        return code;
    char *colon = strrchr(arg, ':');
    if (!strcmp(arg, "null")) {
        r->arg[i].size = 8;
        return 0;
    }
    if (!strncmp(arg, "in:", 3))
        return buffer_from(r, i, arg, arg + 3);
    if (!strncmp(arg, "zero:", 5))
        return parse_number(arg + 5, 1, 1ull << 40, &n) ? make_buffer(r, i, arg, NULL, n)
                                                        : wrong("--args %s: must be zero:BYTES", arg);
    if (!strncmp(arg, "bytes:", 6)) {
        r->arg[i].bytes = rfg_read_file(arg + 6, &r->arg[i].size);
        if (r->arg[i].bytes)
            return 0;
        fprintf(stderr, "rfg-emu: --args %s: %s\n", arg, strerror(errno));
        return 1;
    }
    if (!strncmp(arg, "out:", 4) && colon > arg + 3 && parse_number(colon + 1, 1, 1ull << 40, &n)) {
        *colon = 0;
        r->arg[i].out = arg + 4;
        return rfg_output_check("rfg-emu", "--args", r->arg[i].out) ? make_buffer(r, i, arg, NULL, n) : 1;
    }
    if (!strncmp(arg, "inout:", 6) && colon > arg + 6) {
        *colon = 0;
        r->arg[i].out = colon + 1;
        return rfg_output_check("rfg-emu", "--args", r->arg[i].out) ? buffer_from(r, i, arg, arg + 6) : 1;
    }
    return wrong("--args %s: must be i32:N and the like, in:FILE, out:FILE:BYTES, inout:FILE:FILE, zero:BYTES, "
                 "bytes:FILE or null",
                 arg);
}

/* The members between braces, laid out as C does: the struct becomes the bytes of argument *at, which ends at '}'. */
static int parse_struct(struct run *r, int *at)
{
    int first = *at, i = first + 1;
    size_t size = 0, whole = 1;
    char *bytes = calloc(MAX_ARGS, sizeof(r->arg[0].value));
    if (!bytes)
        return wrong("--args: no memory for a struct");
    r->arg[first].bytes = bytes;
    for (; i < r->n_args && strcmp(r->args[i], "}"); i++) {
        int code = parse_arg(r, i, r->args[i]);
        size_t n = r->arg[i].size;
        if (code)
            return code;
        if (r->arg[i].bytes)
            return wrong("--args %s: can't be in a struct", r->args[i]);
        size = (size + n - 1) / n * n;
        memcpy(bytes + size, r->arg[i].value, n);
        size += n;
        whole = n > whole ? n : whole;
    }
    if (i == r->n_args || !size)
        return wrong("--args {: must have members and end with }");
    r->arg[first].size = (size + whole - 1) / whole * whole;
    *at = i;
    return 0;
}

/* How many arguments a kernel gets by --args: a struct is one. */
static int count_args(const struct run *r)
{
    int n = 0, inside = 0;
    for (int i = 0; i < r->n_args; i++) {
        n += !inside;
        inside = strcmp(r->args[i], "{") ? inside && strcmp(r->args[i], "}") : 1;
    }
    return n;
}

static int write_outputs(struct run *r)
{
    int bad = 0;
    for (int i = 0; i < r->n_args; i++) {
        if (!r->arg[i].out)
            continue;
        struct rfg_output o;
        bool ok = rfg_output_open(&o, "rfg-emu", "--args", r->arg[i].out);
        if (ok) {
            fwrite(r->arg[i].buffer, 1, r->arg[i].buffer_size, o.f);
            ok = rfg_output_close(&o, true);
        }
        bad |= !ok;
    }
    return bad;
}

static const struct emu_kernel *choose_kernel(const struct run *r, const struct emu_code *code)
{
    const struct emu_kernel *k = r->kernel              ? emu_code_kernel(code, r->kernel)
                                 : code->n_kernels == 1 ? &code->kernel[0]
                                                        : NULL;
    if (k)
        return k;
    if (r->kernel)
        fprintf(stderr, "rfg-emu: %s has no kernel '%s': it has", r->path, r->kernel);
    else
        fprintf(stderr, "rfg-emu: %s has %d kernels; --kernel must name one of", r->path, code->n_kernels);
    for (int i = 0; i < code->n_kernels; i++)
        fprintf(stderr, " %s", code->kernel[i].name);
    fprintf(stderr, "\n");
    return NULL;
}

static void print_run(const struct run *r, const char *kernel, uint64_t executed, double ms)
{
    const struct emu_kernel_use *kernels;
    struct emu_counters n;
    int n_kernels, reports = emu_reports(NULL);
    rfg_emu_count(&n);
    n_kernels = rfg_emu_count_kernels(&kernels);
    if (r->json) {
        json_t *j = json_pack("{s:s, s:s, s:i, s:I, s:f, s:i}", "file", r->path, "kernel", kernel, "repeat",
                              (int)r->repeat, "executed", (json_int_t)executed, "ms", ms, "findings", reports);
        if (r->counters)
            json_object_set_new(j, "counters", emu_counters_json(&n, kernels, n_kernels));
        json_dumpf(j, stdout, 0);
        putchar('\n');
        json_decref(j);
        return;
    }
    printf("%s: %llu wave-instructions, %.3f ms, %.1f million a second\n", kernel,
           (unsigned long long)(executed / (uint64_t)r->repeat), ms / (double)r->repeat,
           ms > 0 ? (double)executed / (ms * 1e3) : 0);
    if (r->counters)
        emu_counters_print(stdout, &n, kernels, n_kernels);
    if (reports)
        printf("%d findings\n", reports);
}

/* Device, arguments, launch, outputs. */
static int run_on(struct run *r, const char *file, const struct emu_kernel *k)
{
    void *params[MAX_ARGS] = { 0 };
    hipModule_t module;
    hipFunction_t fn;
    hipStream_t stream;
    hipEvent_t event[2];
    float ms = 0;
    for (int i = 0, n = 0; i < r->n_args; i++, n++) {
        int at = i, code = strcmp(r->args[i], "{") ? parse_arg(r, i, r->args[i]) : parse_struct(r, &i);
        if (code)
            return code;
        if (r->arg[at].size != k->arg[n].size)
            return wrong("--args: argument %d has %zu bytes: %s%s%sof the kernel has %u", n, r->arg[at].size,
                         k->arg[n].name ? "'" : "", k->arg[n].name ? k->arg[n].name : "that ",
                         k->arg[n].name ? "' " : "", k->arg[n].size);
        params[n] = r->arg[at].bytes ? (void *)r->arg[at].bytes : r->arg[at].value;
    }
    if (!r->block_given)
        for (int d = 0; d < 3; d++)
            r->block[d] = k->reqd[0] ? (uint32_t)k->reqd[d] : d ? 1 : 64;
    hipError_t e = r->hip->hipModuleLoadData(&module, file);
    if (e == hipSuccess)
        e = r->hip->hipModuleGetFunction(&fn, module, k->name);
    if (e == hipSuccess)
        e = r->hip->hipStreamCreateWithFlags(&stream, hipStreamNonBlocking);
    for (int i = 0; i < 2 && e == hipSuccess; i++)
        e = r->hip->hipEventCreateWithFlags(&event[i], hipEventDefault);
    if (e == hipSuccess)
        e = r->hip->hipEventRecord(event[0], stream);
    if (r->counters)
        rfg_emu_count(NULL);
    for (long i = 0; i < r->repeat && e == hipSuccess; i++)
        e = r->hip->hipModuleLaunchKernel(fn, r->grid[0], r->grid[1], r->grid[2], r->block[0], r->block[1], r->block[2],
                                          r->lds, stream, params, NULL);
    if (e == hipSuccess)
        e = r->hip->hipEventRecord(event[1], stream);
    if (e == hipSuccess)
        e = r->hip->hipEventElapsedTime(&ms, event[0], event[1]);
    if (e != hipSuccess) {
        fprintf(stderr, "rfg-emu: %s: %s\n", k->name, r->hip->error_name(e));
        return 1;
    }
    print_run(r, k->name, emu_executed(), (double)ms);
    return write_outputs(r) || emu_reports(NULL);
}

static int run(struct run *r)
{
    char error[256], arch_name[32], name[64];
    size_t size;
    const struct emu_arch *arch = NULL;
    if (r->device) {
        snprintf(arch_name, sizeof(arch_name), "%.*s", (int)strcspn(r->device, ":"), r->device);
        arch = emu_arch_find(arch_name);
    }
    struct emu_code *code = load(r->path, arch);
    char *file = code ? read_code(r->path, &size) : NULL;
    const struct emu_kernel *k = file ? choose_kernel(r, code) : NULL;
    int status = 1, ordinal = -1;
    if (k && count_args(r) != k->n_explicit)
        status = wrong("--args: %d are given: %s has %d", count_args(r), k->name, k->n_explicit);
    else if (k) {
        snprintf(name, sizeof(name), "%s", r->device ? r->device : code->arch->name);
        ordinal = rfg_emu_open(name, error, sizeof(error));
        if (ordinal < 0)
            status = wrong("--device %s: %s", name, error);
    }
    if (ordinal >= 0) {
        r->hip = rfg_hip_emu(NULL);
        if (r->hip->hipSetDevice(ordinal) == hipSuccess)
            status = run_on(r, file, k);
        for (int i = 0; i < r->n_args; i++) {
            free(r->arg[i].bytes);
            (void)r->hip->hipFree(r->arg[i].buffer);
        }
    }
    free(file);
    emu_code_free(&code);
    return status;
}

static int run_main(int argc, char **argv)
{
    enum { KERNEL = 256, GRID, BLOCK, LDS, DEVICE, REPEAT, COUNTERS, AS_JSON };
    static const struct option options[] = { { "kernel", required_argument, NULL, KERNEL },
                                             { "grid", required_argument, NULL, GRID },
                                             { "block", required_argument, NULL, BLOCK },
                                             { "lds", required_argument, NULL, LDS },
                                             { "device", required_argument, NULL, DEVICE },
                                             { "repeat", required_argument, NULL, REPEAT },
                                             { "counters", no_argument, NULL, COUNTERS },
                                             { "json", no_argument, NULL, AS_JSON },
                                             { "help", no_argument, NULL, 'h' },
                                             { "version", no_argument, NULL, 'V' },
                                             { 0 } };
    static struct run r = { .grid = { 1, 1, 1 }, .repeat = 1 };
    unsigned long long n;
    int code = 0;
    argv[0] = self;
    /* --args takes the rest, whatever it looks like */
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "--args")) {
            r.args = argv + i + 1;
            r.n_args = argc - i - 1;
            argc = i;
        }
    if (r.n_args > MAX_ARGS)
        return wrong("--args: %d are given: at most %d can be", r.n_args, MAX_ARGS);
    for (int c; !code && (c = getopt_long(argc, argv, "hV", options, NULL)) != -1;) {
        switch (c) {
        case KERNEL:
            r.kernel = optarg;
            break;
        case GRID:
            code = parse_dims("--grid", optarg, UINT32_MAX, r.grid);
            break;
        case BLOCK:
            code = parse_dims("--block", optarg, 1024, r.block);
            r.block_given = true;
            break;
        case LDS:
            if (!parse_number(optarg, 0, 1 << 20, &n))
                return wrong("--lds %s: must be a number of bytes", optarg);
            r.lds = (uint32_t)n;
            break;
        case DEVICE:
            r.device = strncmp(optarg, "emu:", 4) ? optarg : optarg + 4;
            break;
        case REPEAT:
            if (!parse_number(optarg, 1, 1000000, &n))
                return wrong("--repeat %s: must be a number from 1 to 1000000", optarg);
            r.repeat = (long)n;
            break;
        case COUNTERS:
            r.counters = true;
            break;
        case AS_JSON:
            r.json = true;
            break;
        case 'h':
            return help();
        case 'V':
            return version();
        default:
            return wrong("rfg-emu --help lists the options");
        }
    }
    if (code)
        return code;
    if (optind + 1 != argc)
        return wrong("run: must have one FILE.co, has %d", argc - optind);
    r.path = argv[optind];
    return run(&r);
}

/* Commands without options of their own. */
static int simple(int (*run_it)(char **args, int n), int min, int argc, char **argv)
{
    static const struct option options[] = { { "help", no_argument, NULL, 'h' },
                                             { "version", no_argument, NULL, 'V' },
                                             { 0 } };
    const char *name = argv[0];
    argv[0] = self;
    int c = getopt_long(argc, argv, "hV", options, NULL);
    if (c != -1)
        return c == 'h' ? help() : c == 'V' ? version() : wrong("rfg-emu --help lists the options");
    return argc - optind < min ? wrong("%s: must have a file", name) : run_it(argv + optind, argc - optind);
}

static int command(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (!strcmp(what, "--help") || !strcmp(what, "-h"))
        return help();
    if (!strcmp(what, "--version") || !strcmp(what, "-V"))
        return version();
    if (!strcmp(what, "--coverage") || !strcmp(what, "coverage"))
        return simple(coverage, 1, argc - 1, argv + 1);
    if (!strcmp(what, "list"))
        return simple(list, 1, argc - 1, argv + 1);
    if (!strcmp(what, "bench"))
        return simple(emu_bench, 0, argc - 1, argv + 1);
    if (!strcmp(what, "run"))
        return run_main(argc - 1, argv + 1);
    return argc > 1 ? wrong("'%s': rfg-emu --help lists what there is", what)
                    : wrong("a command is missing: rfg-emu --help lists what there is");
}

int main(int argc, char **argv)
{
    rfg_program_begin();
    return rfg_program_end("rfg-emu", command(argc, argv), 1);
}
