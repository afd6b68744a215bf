/* SPDX-License-Identifier: MIT
 *
 * NVRTC, with declarations of our own: no CUDA toolkit is needed to build. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jit_internal.h"
#include "base/util.h"

typedef struct rtc_program_s *rtc_program;

static struct {
    bool ok;
    char version[64];
    struct rfg_reason why;
    int *targets; /* 75, 80, 90: sm numbers */
    int n_targets;
    int (*version_fn)(int *major, int *minor);
    const char *(*error_string)(int result);
    int (*n_archs)(int *n);
    int (*archs)(int *archs);
    int (*create)(rtc_program *prog, const char *src, const char *name, int n, const char *const *headers,
                  const char *const *names);
    int (*compile)(rtc_program prog, int n, const char *const *options);
    int (*log_size)(rtc_program prog, size_t *size);
    int (*log)(rtc_program prog, char *log);
    int (*cubin_size)(rtc_program prog, size_t *size);
    int (*cubin)(rtc_program prog, char *cubin);
    int (*destroy)(rtc_program *prog);
} rtc;

static pthread_once_t once = PTHREAD_ONCE_INIT;

/* -v puts registers and spills into the log. */
static const char *const options[] = { "--std=c++17", "--ptxas-options=-v", NULL };

/* The highest CUDA major that the driver takes code objects of; 0: there is no driver, so any will do. */
static int driver_major(void)
{
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    int (*version)(int *) = cuda ? (int (*)(int *))dlsym(cuda, "cuDriverGetVersion") : NULL;
    int v = 0;
    return version && version(&v) == 0 ? v / 1000 : 0;
}

/* Fills the function table; false leaves why. */
static bool bind_entries(void *lib)
{
#define LOAD(member, name)                                                                                             \
    if (!(*(void **)&rtc.member = dlsym(lib, name)))                                                                   \
        return rfg_refuse(&rtc.why, "NVRTC without " name ": 11.2 or newer is needed");
    LOAD(version_fn, "nvrtcVersion")
    LOAD(error_string, "nvrtcGetErrorString")
    LOAD(n_archs, "nvrtcGetNumSupportedArchs")
    LOAD(archs, "nvrtcGetSupportedArchs")
    LOAD(create, "nvrtcCreateProgram")
    LOAD(compile, "nvrtcCompileProgram")
    LOAD(log_size, "nvrtcGetProgramLogSize")
    LOAD(log, "nvrtcGetProgramLog")
    LOAD(cubin_size, "nvrtcGetCUBINSize")
    LOAD(cubin, "nvrtcGetCUBIN")
    LOAD(destroy, "nvrtcDestroyProgram")
#undef LOAD
    return true;
}

/* The newest NVRTC that the driver can load code objects of; one that is too new only if there is no other. */
static void *find(void)
{
    static const char *const sonames[] = { "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so" };
    const char *override = rfg_env("RFG_LIBNVRTC");
    if (override) {
        void *lib = dlopen(override, RTLD_NOW | RTLD_LOCAL);
        if (!lib)
            rfg_refuse(&rtc.why, "RFG_LIBNVRTC=%s can't be loaded", override);
        return lib;
    }
    const char *roots[] = { "", rfg_env("CUDA_HOME"), rfg_env("CUDA_PATH"), "/usr/local/cuda" }; /* "": loader's path */
    int limit = driver_major();
    void *too_new = NULL;
    for (int r = 0; r < 4; r++) {
        for (int i = 0; roots[r] && i < 4; i++) {
            char path[512];
            snprintf(path, sizeof(path), "%s%s%s", roots[r], r ? "/lib64/" : "", sonames[i]);
            void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
            int (*version)(int *, int *) = lib ? (int (*)(int *, int *))dlsym(lib, "nvrtcVersion") : NULL;
            int major = 0, minor = 0;
            if (!version || version(&major, &minor))
                continue;
            if (!limit || major <= limit)
                return lib;
            too_new = too_new ? too_new : lib;
        }
    }
    if (!too_new)
        rfg_refuse(&rtc.why, "libnvrtc.so.13, .12, .11.2 not found (NVIDIA's cuda-nvrtc; or set RFG_LIBNVRTC)");
    return too_new;
}

static void load(void)
{
    void *lib = find();
    if (!lib || !bind_entries(lib))
        return;
    int major = 0, minor = 0, n = 0;
    rtc.version_fn(&major, &minor);
    if (rtc.n_archs(&n) || n <= 0 || !(rtc.targets = calloc((size_t)n, sizeof(int))) || rtc.archs(rtc.targets)) {
        rfg_refuse(&rtc.why, "NVRTC %d.%d does not list its targets", major, minor);
        return;
    }
    rtc.n_targets = n;
    snprintf(rtc.version, sizeof(rtc.version), "nvrtc %d.%d", major, minor);
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

/* "sm_80"; "sm_90a" and up: with the architecture's own instructions; "sm_100f" and up: with its family's. */
static bool has_target(const char *target)
{
    char *end;
    if (strncmp(target, "sm_", 3))
        return false; /* before anything is loaded */
    long sm = strtol(target + 3, &end, 10);
    if (end == target + 3 || (*end && (end[1] || !((*end == 'a' && sm >= 90) || (*end == 'f' && sm >= 100)))))
        return false;
    pthread_once(&once, load);
    for (int i = 0; rtc.ok && i < rtc.n_targets; i++)
        if (rtc.targets[i] == sm)
            return true;
    return false;
}

static rfg_status compile(const struct rfg_jit_request *req, struct rfg_blob *code, char **log)
{
    *code = (struct rfg_blob){ 0 };
    *log = NULL;
    if (!has_target(req->target))
        return rfg_jit_failed(&rfg_jit_nvrtc, req, NULL, rtc.ok ? "not one of its targets" : rtc.why.text);
    char arch[64];
    snprintf(arch, sizeof(arch), "--gpu-architecture=%s", req->target);
    const char *args[] = { arch, options[0], options[1] };
    rtc_program prog = NULL;
    size_t size = 0;
    int err = rtc.create(&prog, req->source, "rfg.cu", 0, NULL, NULL);
    if (!err) {
        err = rtc.compile(prog, 3, args);
        if (rtc.log_size(prog, &size) == 0 && size > 1 && (*log = calloc(1, size + 1)))
            rtc.log(prog, *log);
        if (!err)
            err = rtc.cubin_size(prog, &size);
        if (!err && (code->data = malloc(size))) {
            code->size = size;
            err = rtc.cubin(prog, code->data);
        }
        rtc.destroy(&prog);
    }
    if (err || !code->data) {
        rfg_blob_free(code);
        return rfg_jit_failed(&rfg_jit_nvrtc, req, *log, err ? rtc.error_string(err) : "out of memory");
    }
    return RFG_OK;
}

const struct rfg_jit_provider rfg_jit_nvrtc = {
    .name = "nvrtc",
    .options = options,
    .available = available,
    .has_target = has_target,
    .compile = compile,
};
