/* SPDX-License-Identifier: MIT
 *
 * hipRTC: in libhiprtc since ROCm 6, inside libamdhip64 before. It aborts the process (5.2) on an architecture that
 * comgr does not list, so comgr is asked first. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch/hip/hip.h"
#include "jit_rtc.h"
#include "base/rocm.h"

static struct rfg_rtc rtc;
static void *comgr_lib; /* assembles */
static char (*targets)[24];
static size_t n_targets;

static pthread_once_t once = PTHREAD_ONCE_INIT;
/* Old hipRTCs are not safe to use from several threads; the newer ones hold a lock of their own. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static const char *options[] = { "-O3", NULL, NULL };

/* Fills targets with comgr's names, "gfx90a" of "amdgcn-amd-amdhsa--gfx90a". */
static bool list_targets(void *comgr)
{
    int (*count_fn)(size_t *) = (int (*)(size_t *))dlsym(comgr, "amd_comgr_get_isa_count");
    int (*name_fn)(size_t, const char **) = (int (*)(size_t, const char **))dlsym(comgr, "amd_comgr_get_isa_name");
    size_t count = 0;
    if (!count_fn || !name_fn || count_fn(&count) || !(targets = calloc(count + 1, sizeof(*targets))))
        return false;
    for (size_t i = 0; i < count; i++) {
        const char *name, *gfx;
        if (name_fn(i, &name) || !(gfx = strstr(name, "--gfx")) || strlen(gfx + 2) >= sizeof(*targets))
            continue;
        strcpy(targets[n_targets++], gfx + 2);
    }
    return n_targets > 0;
}

static void load(void)
{
    char missing[64];
    const struct rfg_rocm_library *hiprtc = rfg_rocm_open(RFG_ROCM_HIPRTC);
    void *lib = hiprtc->handle;
    if (!lib) {
        rfg_refuse(&rtc.why, "%s (Debian: libamdhip64-5; ROCm: hip-runtime-amd)", hiprtc->problem);
        return;
    }
    if (!rfg_rtc_bind(&rtc, lib, "hiprtc", "Code", missing)) {
        rfg_refuse(&rtc.why, "%.120s has no %s", hiprtc->path, missing);
        return;
    }
    const struct rfg_rocm_library *comgr_library = rfg_rocm_open(RFG_ROCM_COMGR);
    void *comgr = comgr_library->handle;
    if (!comgr || !list_targets(comgr)) {
        rfg_refuse(&rtc.why, "hipRTC is there, but no libamd_comgr that lists its targets (%s)",
                   comgr ? comgr_library->path : comgr_library->problem);
        return;
    }
    /* hipRTC takes -mcumode from the environment (clr 5.7 to 7.0, hiprtcInternal.cpp; 5.7 the wrong way round): what it
     * compiles then is another compiler's, in the code's key and in tuned rows. */
    snprintf(rtc.version, sizeof(rtc.version), "hiprtc %.40s (comgr %.40s)%s", hiprtc->version, comgr_library->version,
             rfg_wgp_mode() ? "" : ", GPU_ENABLE_WGP_MODE=0");
    /* The runtime may be another ROCm's than this: see jit_clang.c. (Older ones that don't make version 6: as they
     * are.) */
    if (atoi(hiprtc->version) >= 7)
        options[1] = "-mcode-object-version=5";
    comgr_lib = comgr;
    rtc.ok = true;
}

static bool available(char *version, size_t size, struct rfg_reason *why)
{
    pthread_once(&once, load);
    return rfg_rtc_available(&rtc, version, size, why);
}

static bool has_target(const char *target)
{
    if (strncmp(target, "gfx", 3))
        return false; /* before anything is loaded */
    pthread_once(&once, load);
    for (size_t i = 0; rtc.ok && i < n_targets; i++)
        if (!strcmp(targets[i], target))
            return true;
    return false;
}

static rfg_status compile(const struct rfg_jit_request *req, struct rfg_blob *code, char **log)
{
    *code = (struct rfg_blob){ 0 };
    *log = NULL;
    if (!has_target(req->target))
        return rfg_jit_failed(&rfg_jit_hiprtc, req, NULL, rtc.ok ? "not one of its targets" : rtc.why.text);
    char arch[64];
    snprintf(arch, sizeof(arch), "--offload-arch=%s", req->target);
    pthread_mutex_lock(&mutex);
    rfg_status st = req->assembly ? rfg_comgr_assemble(comgr_lib, &rfg_jit_hiprtc, req, code, log)
                                  : rfg_rtc_compile(&rtc, &rfg_jit_hiprtc, "rfg.hip", arch, req, code, log);
    pthread_mutex_unlock(&mutex);
    return st;
}

const struct rfg_jit_provider rfg_jit_hiprtc = {
    .name = "hiprtc",
    .options = options,
    .available = available,
    .has_target = has_target,
    .compile = compile,
};
