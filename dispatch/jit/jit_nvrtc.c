/* SPDX-License-Identifier: MIT
 *
 * NVRTC, with declarations of our own: no CUDA toolkit is needed to build. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jit_rtc.h"
#include "base/util.h"

static struct rfg_rtc rtc;
static int *targets; /* 75, 80, 90: sm numbers */
static int n_targets;

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
    char missing[64];
    void *lib = find();
    if (!lib)
        return;
    int (*count)(int *) = (int (*)(int *))dlsym(lib, "nvrtcGetNumSupportedArchs");
    int (*list)(int *) = (int (*)(int *))dlsym(lib, "nvrtcGetSupportedArchs");
    bool bound = rfg_rtc_bind(&rtc, lib, "nvrtc", "CUBIN", missing);
    if (!bound || !count || !list) {
        rfg_refuse(&rtc.why, "NVRTC without %s: 11.2 or newer is needed", bound ? "nvrtcGetSupportedArchs" : missing);
        return;
    }
    int major = 0, minor = 0, n = 0;
    rtc.version_fn(&major, &minor);
    if (count(&n) || n <= 0 || !(targets = calloc((size_t)n, sizeof(int))) || list(targets)) {
        rfg_refuse(&rtc.why, "NVRTC %d.%d does not list its targets", major, minor);
        return;
    }
    n_targets = n;
    snprintf(rtc.version, sizeof(rtc.version), "nvrtc %d.%d", major, minor);
    rtc.ok = true;
}

static bool available(char *version, size_t size, struct rfg_reason *why)
{
    pthread_once(&once, load);
    return rfg_rtc_available(&rtc, version, size, why);
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
    for (int i = 0; rtc.ok && i < n_targets; i++)
        if (targets[i] == sm)
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
    return rfg_rtc_compile(&rtc, &rfg_jit_nvrtc, "rfg.cu", arch, req, code, log);
}

const struct rfg_jit_provider rfg_jit_nvrtc = {
    .name = "nvrtc",
    .options = options,
    .available = available,
    .has_target = has_target,
    .compile = compile,
};
