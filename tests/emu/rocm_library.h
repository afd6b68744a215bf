/* SPDX-License-Identifier: MIT
 *
 * For tests of the emulated ROCm releases: the library that $EMULATED_ROCM and LD_LIBRARY_PATH name, opened in a test's
 * own process with the GPUs that the test wants. */
#ifndef RFG_TESTS_ROCM_LIBRARY_H
#define RFG_TESTS_ROCM_LIBRARY_H

#include <check.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dispatch/hip/hip.h"

static const struct rocm_release {
    const char *name;
    int number, so;
} rocm_releases[] = {
    { "5.7", 50700, 5 }, { "6.1", 60100, 6 }, { "6.4", 60400, 6 }, { "7.0", 70000, 7 }, { "7.1", 70100, 7 },
};
static const struct rocm_release *release;
static void *rocm;

static inline bool rocm_is_there(void)
{
    const char *name = getenv("EMULATED_ROCM");
    for (size_t i = 0; name && i < sizeof(rocm_releases) / sizeof(rocm_releases[0]); i++)
        if (!strcmp(rocm_releases[i].name, name))
            release = &rocm_releases[i];
    if (!release)
        printf("SKIPPED: EMULATED_ROCM names no release, with LD_LIBRARY_PATH=build/emulated-rocm/RELEASE\n");
    return release != NULL;
}

static inline void rocm_open(const char *gpus)
{
    setenv("EMULATED_ROCM_GPUS", gpus, 1);
    rocm = dlopen("libamdhip64.so", RTLD_NOW | RTLD_LOCAL);
    ck_assert_msg(rocm != NULL, "%s", dlerror());
}

static inline void *rocm_symbol(const char *name)
{
    void *p = dlsym(rocm, name);
    ck_assert_msg(p != NULL, "no %s", name);
    return p;
}

/* A function with these parameters that returns an error. */
#define CALL(name, ...) ((hipError_t(*)(__VA_ARGS__))rocm_symbol(#name))
#define OK(call)        IS(call, hipSuccess)
#define IS(call, error)                                                                                                \
    do {                                                                                                               \
        hipError_t e_ = (call), want_ = (error);                                                                       \
        ck_assert_msg(e_ == want_, "%s is %d, not %d", #call, e_, want_);                                              \
    } while (0)

/* The device libraries beside the release: build/emulated-rocm/bitcode. */
static inline bool rocm_has_bitcode(void)
{
    char ockl[512];
    snprintf(ockl, sizeof(ockl), "%s/../bitcode/ockl.bc", getenv("EMULATED_ROCM_DIR"));
    bool there = access(ockl, R_OK) == 0;
    if (!there)
        printf("SKIPPED: %s is not there: no ROCm device libraries (Debian: rocm-device-libs)\n", ockl);
    return there;
}

#endif
