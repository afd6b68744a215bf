/* SPDX-License-Identifier: MIT
 *
 * libhiprtc, emulated: clang compiles. Declarations as in the header of hipRTC; numbers of results the same.
 *
 * The real one has HIP's words and device library built in. Here they are those of the machine, Debian's
 * libamdhip64-dev and rocm-device-libs, and a source that brings its own words (rfg's do) is compiled without. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stub_clang.h"

enum {
    SUCCESS = 0,
    OUT_OF_MEMORY = 1,
    INVALID_INPUT = 3,
    INVALID_PROGRAM = 4,
    INVALID_OPTION = 5,
    COMPILATION = 6,
    NO_NAMES_AFTER = 8,
    NO_LOWERED_BEFORE = 9,
    UNKNOWN_NAME = 10,
};

#define MAX_OPTIONS 96
#define MAX_FILES   64
#define MAX_NAMES   256
#define OWN_WORDS   "__attribute__((global))"
#define LOWERED     "hiprtc_name_"

struct program {
    char *log;
    void *code;
    size_t size;
    struct stub_file file[MAX_FILES]; /* the source, its headers */
    int n_files;
    char *name[MAX_NAMES], *lowered[MAX_NAMES];
    int n_names;
    bool compiled;
};

STUB_API int hiprtcVersion(int *major, int *minor);
STUB_API const char *hiprtcGetErrorString(int result);
STUB_API int hiprtcCreateProgram(struct program **prog, const char *source, const char *name, int n,
                                 const char *const *headers, const char *const *names);
STUB_API int hiprtcAddNameExpression(struct program *prog, const char *name);
STUB_API int hiprtcGetLoweredName(struct program *prog, const char *name, const char **lowered);
STUB_API int hiprtcCompileProgram(struct program *prog, int n, const char *const *options);
STUB_API int hiprtcGetProgramLogSize(struct program *prog, size_t *size);
STUB_API int hiprtcGetProgramLog(struct program *prog, char *log);
STUB_API int hiprtcGetCodeSize(struct program *prog, size_t *size);
STUB_API int hiprtcGetCode(struct program *prog, char *code);
STUB_API int hiprtcDestroyProgram(struct program **prog);

/* 9.0 for every ROCm 5 and 6 (hipamd/src/hiprtc/hiprtc.cpp: hiprtcVersion()), the release's own from 7.0 on. */
int hiprtcVersion(int *major, int *minor)
{
    *major = EMU_ROCM < 70000 ? 9 : EMU_ROCM / 10000;
    *minor = EMU_ROCM < 70000 ? 0 : EMU_ROCM / 100 % 100;
    return SUCCESS;
}

const char *hiprtcGetErrorString(int result)
{
    static const char *const names[] = {
        [SUCCESS] = "HIPRTC_SUCCESS",
        [OUT_OF_MEMORY] = "HIPRTC_ERROR_OUT_OF_MEMORY",
        [INVALID_INPUT] = "HIPRTC_ERROR_INVALID_INPUT",
        [INVALID_PROGRAM] = "HIPRTC_ERROR_INVALID_PROGRAM",
        [INVALID_OPTION] = "HIPRTC_ERROR_INVALID_OPTION",
        [COMPILATION] = "HIPRTC_ERROR_COMPILATION",
        [NO_NAMES_AFTER] = "HIPRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION",
        [NO_LOWERED_BEFORE] = "HIPRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION",
        [UNKNOWN_NAME] = "HIPRTC_ERROR_NAME_EXPRESSION_NOT_VALID",
    };
    bool known = result >= 0 && result < (int)(sizeof(names) / sizeof(names[0])) && names[result];
    return known ? names[result] : "Invalid HIPRTC error code";
}

/* ---- programs --------------------------------------------------------------------------------------------------- */

static void forget(struct program *p)
{
    for (int i = 0; i < p->n_files; i++) {
        free((char *)p->file[i].name);
        free((char *)p->file[i].data);
    }
    for (int i = 0; i < p->n_names; i++) {
        free(p->name[i]);
        free(p->lowered[i]);
    }
    free(p->log);
    free(p->code);
    free(p);
}

static bool add_file(struct program *p, const char *name, const char *text)
{
    struct stub_file *f = &p->file[p->n_files++];
    *f = (struct stub_file){ strdup(name), strdup(text), strlen(text) };
    return f->name && f->data;
}

int hiprtcCreateProgram(struct program **prog, const char *source, const char *name, int n, const char *const *headers,
                        const char *const *names)
{
    if (!prog || !source || n < 0 || n >= MAX_FILES || (n && (!headers || !names)))
        return INVALID_INPUT;
    const char *slash = name ? strrchr(name, '/') : NULL;
    struct program *p = calloc(1, sizeof(*p));
    bool ok = p && add_file(p, slash ? slash + 1 : name && *name ? name : "program.hip", source);
    for (int i = 0; i < n && ok; i++)
        ok = add_file(p, names[i], headers[i]);
    if (p && !ok) {
        forget(p);
        p = NULL;
    }
    *prog = p;
    return p ? SUCCESS : OUT_OF_MEMORY;
}

int hiprtcDestroyProgram(struct program **prog)
{
    if (!prog || !*prog)
        return INVALID_PROGRAM;
    forget(*prog);
    *prog = NULL;
    return SUCCESS;
}

/* ---- name expressions ------------------------------------------------------------------------------------------- */

int hiprtcAddNameExpression(struct program *prog, const char *name)
{
    if (!prog || !name)
        return prog ? INVALID_INPUT : INVALID_PROGRAM;
    if (prog->compiled)
        return NO_NAMES_AFTER;
    if (prog->n_names == MAX_NAMES || !(prog->name[prog->n_names] = strdup(name)))
        return OUT_OF_MEMORY;
    prog->n_names++;
    return SUCCESS;
}

int hiprtcGetLoweredName(struct program *prog, const char *name, const char **lowered)
{
    if (!prog || !name || !lowered)
        return prog ? INVALID_INPUT : INVALID_PROGRAM;
    if (!prog->compiled)
        return NO_LOWERED_BEFORE;
    for (int i = 0; i < prog->n_names; i++)
        if (!strcmp(prog->name[i], name) && prog->lowered[i]) {
            *lowered = prog->lowered[i];
            return SUCCESS;
        }
    return UNKNOWN_NAME;
}

/* The source, and behind it a constant for each name, which has the compiler instantiate it. */
static char *with_names(const struct program *p)
{
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    if (!f)
        return NULL;
    fputs(p->file[0].data, f);
    for (int i = 0; i < p->n_names; i++)
        fprintf(f,
                "\n#line 1 \"name expression '%s'\"\n__attribute__((device, used)) static const void *" LOWERED
                "%d[] = { (const void *)&%s };\n",
                p->name[i], i, p->name[i] + (p->name[i][0] == '&'));
    return fclose(f) ? NULL : text;
}

/* The symbols that these constants are made of, out of LLVM's text: "@...hiprtc_name_0 = ... [ptr @_Z1kIfEvPT_]" */
static void read_lowered(struct program *p, const char *ir)
{
    for (int i = 0; i < p->n_names; i++) {
        char key[40];
        snprintf(key, sizeof(key), LOWERED "%d", i);
        const char *at = ir;
        while ((at = strstr(at, key)) && strncmp(at + strcspn(at, " ="), " = ", 3) != 0)
            at++;
        const char *end = at ? at + strcspn(at, "\n") : NULL, *symbol = NULL;
        for (const char *c = at; c < end; c++)
            symbol = *c == '@' ? c + 1 : symbol;
        if (symbol)
            p->lowered[i] = strndup(symbol, strcspn(symbol, " ,)]\n"));
    }
}

/* ---- compiling -------------------------------------------------------------------------------------------------- */

/* The processor of the thread's device, for options that name none; false: the process has no HIP. */
static bool device_arch(char *arch, size_t size)
{
    int (*get)(int *) = (int (*)(int *))dlsym(RTLD_DEFAULT, "hipGetDevice"), device = 0;
    int (*ask)(void *, int) = (int (*)(void *, int))dlsym(
        RTLD_DEFAULT, EMU_ROCM < 60000 ? "hipGetDeviceProperties" : "hipGetDevicePropertiesR0600");
    static _Thread_local char props[2048];
    if (!get || !ask || get(&device) || ask(props, device)) /* gcnArchName: emu/rocm/properties.c */
        return false;
    snprintf(arch, size, "--offload-arch=%.60s", props + (EMU_ROCM < 60000 ? 396 : 1160));
    return true;
}

static int refused(struct program *p, const char *why)
{
    free(p->log);
    p->log = strdup(why);
    return COMPILATION;
}

/* What each compilation begins with; returns how many. */
static int first_options(const struct program *p, const char **args)
{
    const char *const all[] = {
        "--cuda-device-only",
        "--no-gpu-bundle-output",
        "--no-default-config",
        "-fuse-cuid=none",
        "-D__HIPCC_RTC__=1",
        "-std=c++17",
#if EMU_ROCM >= 70000
        "-mcode-object-version=6", /* the default of its clang 20 */
#endif
        "-x",
        "hip"
    };
    const char *const bare[] = { "-nogpuinc", "-nogpulib" };
    const char *const hip[] = { "--rocm-device-lib-path=" STUB_BITCODE, "-O3", "-include", "hip/hip_runtime.h" };
    bool own = strstr(p->file[0].data, OWN_WORDS);
    size_t n = sizeof(all) / sizeof(all[0]), more = own ? sizeof(bare) / sizeof(bare[0]) : sizeof(hip) / sizeof(hip[0]);
    memcpy(args, all, sizeof(all));
    memcpy(args + n, own ? bare : hip, more * sizeof(*args));
    return (int)(n + more);
}

static bool compile(struct program *p, const char **args, int at)
{
    struct stub_file file[MAX_FILES];
    void *ir = NULL;
    size_t size;
    char *text = with_names(p), *log = NULL;
    memcpy(file, p->file, sizeof(file));
    file[0].data = text;
    file[0].size = text ? strlen(text) : 0;
    bool ok = text && stub_clang(args, file, p->n_files, &p->code, &p->size, &p->log);
    if (ok && p->n_names) {
        const char *const as_text[] = { "-S", "-emit-llvm", "-Xclang", "-disable-llvm-passes", NULL };
        memcpy(args + at, as_text, sizeof(as_text));
        if ((ok = stub_clang(args, file, p->n_files, &ir, &size, &log)))
            read_lowered(p, ir);
    }
    free(ir);
    free(log);
    free(text);
    return ok;
}

int hiprtcCompileProgram(struct program *prog, int n, const char *const *options)
{
    const char *args[MAX_OPTIONS + 24] = { NULL };
    char of_device[80];
    bool named = false;
    if (!prog || n < 0 || n > MAX_OPTIONS || (n && !options))
        return prog ? INVALID_INPUT : INVALID_PROGRAM;
    int at = first_options(prog, args);
    for (int i = 0; i < n; i++) {
        const char *arch = strncmp(options[i], "--offload-arch=", 15) ? NULL : options[i] + 15;
        char target[24] = "";
        if (arch)
            snprintf(target, sizeof(target), "%.*s", (int)strcspn(arch, ":"), arch);
        if (arch && !stub_has_target(target)) {
            /* 5.x asserts that comgr knows it. */
            if (EMU_ROCM < 60000) {
                fprintf(stderr, "hiprtc: %s is no target of this comgr\n", arch);
                abort();
            }
            return refused(prog, "error: invalid target ID");
        }
        named |= arch != NULL;
        args[at++] = options[i];
    }
    if (!named && device_arch(of_device, sizeof(of_device)))
        args[at++] = of_device;
    if (!strstr(prog->file[0].data, OWN_WORDS) && access(STUB_BITCODE, R_OK))
        return refused(prog, "error: there are no device libraries in " STUB_BITCODE
                             ": apt-get install rocm-device-libs libamdhip64-dev, and set the build up anew");
    free(prog->code);
    free(prog->log);
    prog->compiled = compile(prog, args, at);
    return prog->compiled ? SUCCESS : COMPILATION;
}

int hiprtcGetProgramLogSize(struct program *prog, size_t *size)
{
    if (!prog || !size)
        return prog ? INVALID_INPUT : INVALID_PROGRAM;
    *size = prog->log && *prog->log ? strlen(prog->log) + 1 : 0;
    return SUCCESS;
}

int hiprtcGetProgramLog(struct program *prog, char *log)
{
    if (!prog || !log)
        return prog ? INVALID_INPUT : INVALID_PROGRAM;
    if (prog->log)
        memcpy(log, prog->log, strlen(prog->log) + 1);
    return SUCCESS;
}

int hiprtcGetCodeSize(struct program *prog, size_t *size)
{
    if (!prog || !prog->code || !size)
        return INVALID_PROGRAM;
    *size = prog->size;
    return SUCCESS;
}

int hiprtcGetCode(struct program *prog, char *code)
{
    if (!prog || !prog->code || !code)
        return INVALID_PROGRAM;
    memcpy(code, prog->code, prog->size);
    return SUCCESS;
}
