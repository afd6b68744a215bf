/* SPDX-License-Identifier: MIT
 *
 * libhipblaslt and librocblas, emulated: emu/rocm/mock_blas.c computes, in the emulated runtime, and ends the process
 * where the real ones would. Both libraries are built of these two files; rocBLAS looks for its kernels
 * beside itself. */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/env.h"
#include "mock_blas.h"

static int (*hip_malloc)(void **, size_t);
static int (*hip_free)(void *);
static int (*hip_write)(void *, void *, size_t);
static int (*hip_capturing)(void *, int *);
static int (*hip_host)(void *, void (*)(void *), void *);
static int (*hip_properties)(void *, int);

static int captured(void *stream)
{
    int status = 0;
    return hip_capturing(stream, &status) || status;
}

/* A product that isn't captured is done at once, as all that the emulated GPU does. */
static int launch(void *stream, void (*fn)(void *), void *data)
{
    if (captured(stream))
        return hip_host(stream, fn, data);
    fn(data);
    return 0;
}

/* "gfx942" of the first GPU: its name stands in the properties, wherever this release has it. */
static void find_arch(char arch[32])
{
    enum { BYTES = 8192, PAST_NAME = 256 };
    char *props = calloc(1, BYTES);
    for (int at = PAST_NAME; props && hip_properties && !hip_properties(props, 0) && at < BYTES - 32 && !*arch; at++)
        if (!strncmp(props + at, "gfx", 3))
            snprintf(arch, 32, "%.*s", (int)strspn(props + at, "gfx0123456789abcdef"), props + at);
    free(props);
}

/* Where rocBLAS looks, and by the names that it knows (tensile_host.cpp). */
static bool has_kernels(void)
{
    static const char *const names[] = { "TensileLibrary_lazy_%s.dat", "TensileLibrary_%s.dat" };
    const char *env = rfg_env("ROCBLAS_TENSILE_LIBPATH");
    char arch[32] = "", own[PATH_MAX], file[64], path[PATH_MAX + 128];
    Dl_info info;
    find_arch(arch);
    if (!dladdr(&mock_blas, &info) || !realpath(info.dli_fname, own))
        return false;
    *strrchr(own, '/') = 0;
    for (int i = 0; i < 2; i++) {
        snprintf(file, sizeof(file), names[i], arch);
        snprintf(path, sizeof(path), "%s%s/%s", env ? env : own, env ? "" : "/rocblas/library", file);
        if (!access(path, R_OK))
            return true;
    }
    return false;
}

/* The runtime of the same release: the real libraries are linked to it. */
__attribute__((constructor)) static void begin(void)
{
    char name[40];
    snprintf(name, sizeof(name), "libamdhip64.so.%d", EMU_ROCM / 10000);
    void *lib = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    mock_blas.rocm = EMU_ROCM;
    if (!lib)
        return;
    *(void **)&hip_malloc = dlsym(lib, "hipMalloc");
    *(void **)&hip_free = dlsym(lib, "hipFree");
    *(void **)&hip_write = dlsym(lib, "hipMemcpyHtoD");
    *(void **)&hip_capturing = dlsym(lib, "hipStreamIsCapturing");
    *(void **)&hip_host = dlsym(lib, "hipLaunchHostFunc");
    *(void **)&hip_properties = dlsym(lib, EMU_ROCM < 60000 ? "hipGetDeviceProperties" : "hipGetDevicePropertiesR0600");
    mock_blas.hip = (struct mock_hip){
        .allocate = hip_malloc, .write = hip_write, .release = hip_free, .ask = captured, .launch = launch
    };
    mock_blas.no_kernels = !has_kernels();
}
