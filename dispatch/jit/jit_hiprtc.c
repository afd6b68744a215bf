/* SPDX-License-Identifier: MIT
 *
 * hipRTC: in libhiprtc since ROCm 6, inside libamdhip64 before. It aborts the process (5.2) on an architecture that
 * comgr does not list, so comgr is asked first. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jit_internal.h"

typedef struct rtc_program_s *rtc_program;

static struct {
    bool ok;
    char version[128];
    struct rfg_reason why;
    void *comgr; /* assembles */
    char (*targets)[24];
    size_t n_targets;
    int (*version_fn)(int *major, int *minor);
    const char *(*error_string)(int result);
    int (*create)(rtc_program *prog, const char *src, const char *name, int n, const char **headers,
                  const char **names);
    int (*compile)(rtc_program prog, int n, const char **options);
    int (*log_size)(rtc_program prog, size_t *size);
    int (*log)(rtc_program prog, char *log);
    int (*code_size)(rtc_program prog, size_t *size);
    int (*code)(rtc_program prog, char *code);
    int (*destroy)(rtc_program *prog);
} rtc;

static pthread_once_t once = PTHREAD_ONCE_INIT;
/* Old hipRTCs are not safe to use from several threads; the newer ones hold a lock of their own. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static const char *const options[] = { "-O3", NULL };

/* Fills rtc.targets with comgr's names, "gfx90a" of "amdgcn-amd-amdhsa--gfx90a". */
static bool list_targets(void *comgr)
{
    int (*count_fn)(size_t *) = (int (*)(size_t *))dlsym(comgr, "amd_comgr_get_isa_count");
    int (*name_fn)(size_t, const char **) = (int (*)(size_t, const char **))dlsym(comgr, "amd_comgr_get_isa_name");
    size_t count = 0;
    if (!count_fn || !name_fn || count_fn(&count) || !(rtc.targets = calloc(count + 1, sizeof(*rtc.targets))))
        return false;
    for (size_t i = 0; i < count; i++) {
        const char *name, *gfx;
        if (name_fn(i, &name) || !(gfx = strstr(name, "--gfx")) || strlen(gfx + 2) >= sizeof(*rtc.targets))
            continue;
        strcpy(rtc.targets[rtc.n_targets++], gfx + 2);
    }
    return rtc.n_targets > 0;
}

static void load(void)
{
    static const char *const libs[] = {
        "libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so", "libamdhip64.so.5", "/opt/rocm/lib/libhiprtc.so", NULL
    };
    static const char *const comgrs[] = { "libamd_comgr.so.3", "libamd_comgr.so.2", "libamd_comgr.so",
                                          "/opt/rocm/lib/libamd_comgr.so", NULL };
    char tried[120] = "", number[64], comgr_number[64];
    void *lib = rfg_jit_open(libs, tried, sizeof(tried));
    if (!lib) {
        rfg_refuse(&rtc.why, "%s not found (Debian: libamdhip64-5; ROCm: hip-runtime-amd)", tried);
        return;
    }
#define LOAD(member, name)                                                                                             \
    if (!(*(void **)&rtc.member = dlsym(lib, name))) {                                                                 \
        rfg_refuse(&rtc.why, "the library has no " name);                                                              \
        return;                                                                                                        \
    }
    LOAD(version_fn, "hiprtcVersion")
    LOAD(error_string, "hiprtcGetErrorString")
    LOAD(create, "hiprtcCreateProgram")
    LOAD(compile, "hiprtcCompileProgram")
    LOAD(log_size, "hiprtcGetProgramLogSize")
    LOAD(log, "hiprtcGetProgramLog")
    LOAD(code_size, "hiprtcGetCodeSize")
    LOAD(code, "hiprtcGetCode")
    LOAD(destroy, "hiprtcDestroyProgram")
#undef LOAD
    void *comgr = NULL; /* the one that hipRTC brought in, rather than another ROCm's */
    for (int i = 0; comgrs[i] && !comgr; i++)
        comgr = dlopen(comgrs[i], RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    if (!comgr)
        comgr = rfg_jit_open(comgrs, tried, sizeof(tried));
    if (!comgr || !list_targets(comgr)) {
        rfg_refuse(&rtc.why, "hipRTC is there, but no libamd_comgr that lists its targets (%s)", tried);
        return;
    }
    /* hiprtcVersion() says 9.0 for every ROCm 5; the file names say more. */
    rfg_jit_library_version(dlsym(lib, "hiprtcVersion"), number, sizeof(number));
    rfg_jit_library_version(dlsym(comgr, "amd_comgr_get_isa_count"), comgr_number, sizeof(comgr_number));
    int major = 0, minor = 0;
    rtc.version_fn(&major, &minor);
    if (!number[0])
        snprintf(number, sizeof(number), "%d.%d", major, minor);
    snprintf(rtc.version, sizeof(rtc.version), "hiprtc %.50s (comgr %.50s)", number, comgr_number);
    rtc.comgr = comgr;
    rtc.ok = true;
}

static bool available(char *version, size_t size, struct rfg_reason *why)
{
    pthread_once(&once, load);
    snprintf(version, size, "%s", rtc.version);
    if (!rtc.ok && why)
        *why = rtc.why;
    return rtc.ok;
}

static bool has_target(const char *target)
{
    if (strncmp(target, "gfx", 3))
        return false; /* before anything is loaded */
    pthread_once(&once, load);
    for (size_t i = 0; rtc.ok && i < rtc.n_targets; i++)
        if (!strcmp(rtc.targets[i], target))
            return true;
    return false;
}

static rfg_status compile(const struct rfg_jit_request *req, struct rfg_blob *code, char **log)
{
    *code = (struct rfg_blob){ 0 };
    *log = NULL;
    if (!has_target(req->target))
        return rfg_jit_failed(&rfg_jit_hiprtc, req, NULL, rtc.ok ? "not one of its targets" : rtc.why.text);
    if (req->assembly) {
        pthread_mutex_lock(&mutex);
        rfg_status st = rfg_comgr_assemble(rtc.comgr, &rfg_jit_hiprtc, req, code, log);
        pthread_mutex_unlock(&mutex);
        return st;
    }
    char arch[64];
    snprintf(arch, sizeof(arch), "--offload-arch=%s", req->target);
    const char *args[] = { arch, options[0] };
    rtc_program prog = NULL;
    size_t size = 0;

    pthread_mutex_lock(&mutex);
    int err = rtc.create(&prog, req->source, "rfg.hip", 0, NULL, NULL);
    if (!err) {
        err = rtc.compile(prog, 2, args);
        if (rtc.log_size(prog, &size) == 0 && size > 1 && (*log = calloc(1, size + 1)))
            rtc.log(prog, *log);
        if (!err)
            err = rtc.code_size(prog, &size);
        if (!err && (code->data = malloc(size))) {
            code->size = size;
            err = rtc.code(prog, code->data);
        }
        rtc.destroy(&prog);
    }
    pthread_mutex_unlock(&mutex);

    if (err || !code->data) {
        rfg_blob_free(code);
        return rfg_jit_failed(&rfg_jit_hiprtc, req, *log, err ? rtc.error_string(err) : "out of memory");
    }
    return RFG_OK;
}

const struct rfg_jit_provider rfg_jit_hiprtc = {
    .name = "hiprtc",
    .options = options,
    .available = available,
    .has_target = has_target,
    .compile = compile,
};
