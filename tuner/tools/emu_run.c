/* SPDX-License-Identifier: MIT
 *
 * rfg-emu run: a kernel on files. */
#include "emu_tool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "dispatch/context.h"
#include "emu/code/code.h"
#include "emu/count/counters.h"
#include "emu/hip/hip_emu.h"
#include "tuner/harness/output.h"

bool tool_number(const char *text, unsigned long long lo, unsigned long long hi, unsigned long long *out)
{
    char *end;
    errno = 0;
    *out = strtoull(text, &end, 0);
    return *text >= '0' && *text <= '9' && !*end && !errno && *out >= lo && *out <= hi;
}

/* ---- arguments --------------------------------------------------------------------------------------------------- */

/* i32:-5, f32:1.5...: 0 if it was one, 2 if it is a bad one, -1 if it isn't one at all. */
static int parse_scalar(struct tool_run *r, int i, const char *arg)
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
            return tool_wrong("--args %s: '%s' must be a number that fits in %zu bytes", arg, text, size);
        return 0;
    }
    return -1;
}

static int make_buffer(struct tool_run *r, int i, const char *arg, const void *data, size_t size)
{
    if (!size)
        return tool_wrong("--args %s: must have at least 1 byte", arg);
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

static int buffer_from(struct tool_run *r, int i, const char *arg, const char *path)
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

static int parse_arg(struct tool_run *r, int i, char *arg)
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
        return tool_number(arg + 5, 1, 1ull << 40, &n) ? make_buffer(r, i, arg, NULL, n)
                                                       : tool_wrong("--args %s: must be zero:BYTES", arg);
    if (!strncmp(arg, "bytes:", 6)) {
        r->arg[i].bytes = rfg_read_file(arg + 6, &r->arg[i].size);
        if (r->arg[i].bytes)
            return 0;
        fprintf(stderr, "rfg-emu: --args %s: %s\n", arg, strerror(errno));
        return 1;
    }
    if (!strncmp(arg, "out:", 4) && colon > arg + 3 && tool_number(colon + 1, 1, 1ull << 40, &n)) {
        *colon = 0;
        r->arg[i].out = arg + 4;
        return rfg_output_check("rfg-emu", "--args", r->arg[i].out) ? make_buffer(r, i, arg, NULL, n) : 1;
    }
    if (!strncmp(arg, "inout:", 6) && colon > arg + 6) {
        *colon = 0;
        r->arg[i].out = colon + 1;
        return rfg_output_check("rfg-emu", "--args", r->arg[i].out) ? buffer_from(r, i, arg, arg + 6) : 1;
    }
    return tool_wrong("--args %s: must be i32:N and the like, in:FILE, out:FILE:BYTES, inout:FILE:FILE, zero:BYTES, "
                      "bytes:FILE or null",
                      arg);
}

/* The members between braces, laid out as C does: the struct becomes the bytes of argument *at, which ends at '}'. */
static int parse_struct(struct tool_run *r, int *at)
{
    int first = *at, i = first + 1;
    size_t size = 0, whole = 1;
    char *bytes = calloc(MAX_ARGS, sizeof(r->arg[0].value));
    if (!bytes)
        return tool_wrong("--args: no memory for a struct");
    r->arg[first].bytes = bytes;
    for (; i < r->n_args && strcmp(r->args[i], "}"); i++) {
        int code = parse_arg(r, i, r->args[i]);
        size_t n = r->arg[i].size;
        if (code)
            return code;
        if (r->arg[i].bytes)
            return tool_wrong("--args %s: can't be in a struct", r->args[i]);
        size = (size + n - 1) / n * n;
        memcpy(bytes + size, r->arg[i].value, n);
        size += n;
        whole = n > whole ? n : whole;
    }
    if (i == r->n_args || !size)
        return tool_wrong("--args {: must have members and end with }");
    r->arg[first].size = (size + whole - 1) / whole * whole;
    *at = i;
    return 0;
}

/* How many arguments a kernel gets by --args: a struct is one. */
static int count_args(const struct tool_run *r)
{
    int n = 0, inside = 0;
    for (int i = 0; i < r->n_args; i++) {
        n += !inside;
        inside = strcmp(r->args[i], "{") ? inside && strcmp(r->args[i], "}") : 1;
    }
    return n;
}

/* ---- the launch -------------------------------------------------------------------------------------------------- */

static int write_outputs(struct tool_run *r)
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

static const struct emu_kernel *choose_kernel(const struct tool_run *r, const struct emu_code *code)
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

static void print_run(const struct tool_run *r, const char *kernel, uint64_t executed, double ms)
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
static int run_on(struct tool_run *r, const char *file, const struct emu_kernel *k)
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
            return tool_wrong("--args: argument %d has %zu bytes: %s%s%sof the kernel has %u", n, r->arg[at].size,
                              k->arg[n].name ? "'" : "", k->arg[n].name ? k->arg[n].name : "that ",
                              k->arg[n].name ? "' " : "", k->arg[n].size);
        params[n] = r->arg[at].bytes ? (void *)r->arg[at].bytes : r->arg[at].value;
    }
    if (!r->block[0])
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
    if (r->timed && tool_time_begin(r))
        return 1;
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
    if (r->timed)
        return tool_time_end(r);
    print_run(r, k->name, emu_executed(), (double)ms);
    return write_outputs(r) || emu_reports(NULL);
}

int tool_run(struct tool_run *r)
{
    char error[256], arch_name[32], name[64];
    size_t size;
    const struct emu_arch *arch = NULL;
    if (r->device) {
        snprintf(arch_name, sizeof(arch_name), "%.*s", (int)strcspn(r->device, ":"), r->device);
        arch = emu_arch_find(arch_name);
    }
    struct emu_code *code = tool_load(r->path, arch);
    char *file = code ? tool_read_code(r->path, &size) : NULL;
    const struct emu_kernel *k = file ? choose_kernel(r, code) : NULL;
    int status = 1, ordinal = -1;
    if (k && count_args(r) != k->n_explicit)
        status = tool_wrong("--args: %d are given: %s has %d", count_args(r), k->name, k->n_explicit);
    else if (k) {
        snprintf(name, sizeof(name), "%s", r->device ? r->device : code->arch->name);
        ordinal = rfg_emu_open(name, error, sizeof(error));
        if (ordinal < 0)
            status = tool_wrong("--device %s: %s", name, error);
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
