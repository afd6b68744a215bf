/* SPDX-License-Identifier: MIT
 *
 * The vendors' BLAS libraries as variants of gemm, by dlopen and our own declarations. They see column-major matrices:
 * row-major Y[M,N] = X W^T is column-major D(N x M) = A^T B with A = W (K x N, ld = ldw) and B = X (K x M, ld = ldx).
 *
 * $RFG_LIBCUBLASLT, $RFG_LIBHIPBLASLT and $RFG_LIBROCBLAS name the file to load in place of the usual ones (the tests'
 * seam, and for an installation elsewhere); $RFG_VENDOR=0 does without all of them. */
#include "base/env.h"
#include "ops/gpu.h"
#include "ops/model/model.h"
#include "vendor.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_SPLIT 16 /* of K, as the model has it */

bool gemm_vendor_off(void)
{
    const char *env = rfg_env("RFG_VENDOR");
    return env && !strcmp(env, "0");
}

/* "libx.so.2, .1, /opt/lib/libx.so": names, the second and later of one file name by their ending alone. */
static void list_names(const char *const *names, char *buf, size_t size)
{
    const char *so = strstr(names[0], ".so");
    size_t stem = so ? (size_t)(so - names[0]) + 3 : strlen(names[0]), at = 0;
    for (int i = 0; names[i] && at < size; i++) {
        bool same = i > 0 && !strncmp(names[i], names[0], stem) && names[i][stem];
        at += (size_t)snprintf(buf + at, size - at, "%s%s", i ? ", " : "", names[i] + (same ? stem : 0));
    }
}

/* lib, if it has all the symbols. */
static void *bind(void *lib, const char *name, const char *const *symbols, void **slots, struct rfg_reason *why)
{
    for (int i = 0; lib && symbols[i]; i++)
        if (!(slots[i] = dlsym(lib, symbols[i]))) {
            rfg_refuse(why, "%.100s lacks %s", name, symbols[i]);
            return NULL; /* not closed: GPU libraries don't take unloading well */
        }
    return lib;
}

void *gemm_vendor_load(const char *env, const char *const *names, const char *const *symbols, void **slots,
                       struct rfg_reason *why)
{
    const char *path = rfg_env(env), *name = path;
    void *lib = NULL;
    if (path) {
        if (!(lib = dlopen(path, RTLD_NOW | RTLD_LOCAL)))
            rfg_refuse(why, "%s: %s", env, dlerror());
    } else {
        for (int i = 0; names[i] && !lib; i++)
            lib = dlopen(name = names[i], RTLD_NOW | RTLD_LOCAL);
        if (!lib) {
            char tried[160];
            list_names(names, tried, sizeof(tried));
            rfg_refuse(why, "%s not found (or set %s)", tried, env);
        }
    }
    return bind(lib, name, symbols, slots, why);
}

void *gemm_vendor_load_rocm(enum rfg_rocm which, const char *const *symbols, void **slots, struct rfg_reason *why)
{
    const struct rfg_rocm_library *l = rfg_rocm_open(which);
    if (!l->handle)
        rfg_refuse(why, "%s", l->problem);
    return bind(l->handle, l->path, symbols, slots, why);
}

bool gemm_vendor_supports(const struct rfg_device *dev, enum rfg_platform platform, const struct rfg_problem *prob,
                          struct rfg_reason *why)
{
    if (dev->platform != platform)
        return rfg_refuse(why, "needs %s, this is %s", platform == RFG_PLATFORM_AMD ? "an AMD GPU" : "an NVIDIA GPU",
                          dev->name);
    if (gemm_vendor_off())
        return rfg_refuse(why, "switched off by RFG_VENDOR=0");
    static const struct gemm_takes takes = { .rows = GEMM_READ_F32 | GEMM_READ_HALF };
    if (!gemm_takes(prob, &takes, why))
        return false;
    if (prob->v[GEMM_BTYPE])
        return rfg_refuse(why, "btype=%s: must be x's dtype", rfg_dtype_name((rfg_dtype)prob->v[GEMM_BTYPE]));
    if (prob->v[GEMM_K] == 0 || prob->v[GEMM_M] == 0 || prob->v[GEMM_N] == 0)
        return rfg_refuse(why, "M, N or K is 0");
    if (prob->dtype[2] != prob->dtype[0] && prob->dtype[2] != RFG_F32)
        return rfg_refuse(why, "y is %s: must be x's dtype or f32", rfg_dtype_name((rfg_dtype)prob->dtype[2]));
    /* Other kernels have no epilogue: cuBLASLt then adds the bias by one of its own, to what was rounded to Y's dtype
     * already (seen on an H200, with K=13, ldw=131, and N=71 ldy=72), or fails at run time. */
    int64_t align = prob->v[GEMM_ALIGN] < prob->v[GEMM_ALIGN_Y] ? prob->v[GEMM_ALIGN] : prob->v[GEMM_ALIGN_Y];
    if (prob->v[GEMM_BIAS] && align < 16)
        return rfg_refuse(why, "bias=1 with operands aligned to %d bytes: must be 16", (int)align);
    int in = prob->dtype[0]; /* a row of y is a multiple of what it would be in this format */
    if (prob->v[GEMM_BIAS] &&
        (rfg_format_bytes(in, prob->v[GEMM_N]) % 16 || rfg_format_bytes(in, prob->v[GEMM_K]) % 16))
        return rfg_refuse(why, "bias=1 with N=%" PRId64 " K=%" PRId64 ": must be multiples of 16 bytes",
                          prob->v[GEMM_N], prob->v[GEMM_K]);
    return true;
}

/* A good library: tiles that suit the problem, K split where they leave CUs idle, two microseconds more than what moves
 * and multiplies. `rank` is the heuristic's place: the first is its own favourite. */
double gemm_vendor_predict(const struct rfg_device *dev, const struct rfg_problem *prob, int rank)
{
    static const int sides[] = { 64, 128, 256 };
    const struct gemm_model *c = gemm_model(dev);
    double bytes, flops, least = HUGE_VAL, cus = dev->cu_count;
    prob->op->cost(prob, &bytes, &flops);
    double rate = prob->dtype[0] == RFG_F32 || dev->mma_tflops <= 0 ? dev->fma_tflops : dev->mma_tflops;
    double m = (double)prob->v[GEMM_M], n = (double)prob->v[GEMM_N];
    double memory = bytes / (c->vendor_rate * gemm_memory(dev));
    for (int i = 0; i < COUNT(sides); i++)
        for (int j = 0; j < COUNT(sides); j++) {
            double tile_m = sides[i], tile_n = sides[j], tiles = ceil(m / tile_m) * ceil(n / tile_n);
            if ((i > 0 && tile_m >= 2 * m) || (tile_m < m && tile_m < 128))
                continue;
            double in = (tile_m + tile_n) * (double)rfg_format_bytes(prob->dtype[0], prob->v[GEMM_K]);
            double work = MAX(in / (c->vendor_burst * 1e3 * dev->cache_gbps / cus),
                              tile_m * tile_n * (flops / (m * n)) / (c->vendor_mma * 1e6 * rate / cus));
            double split = MIN(MAX(floor(cus / tiles), 1), MOST_SPLIT);
            double whole = pow(ceil(tiles / cus) * work, c->blend), part = pow(work / split, c->blend);
            double all = pow(memory, c->blend);
            least = fmin(least, pow(all + whole, 1 / c->blend));
            least = fmin(least, pow(all + part, 1 / c->blend) + (split > 2 ? c->vendor_split : HUGE_VAL));
        }
    return dev->latency_us + least + c->vendor_tail + 0.02 * rank;
}

size_t gemm_vendor_workspace(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    (void)prob;
    (void)p;
    return rfg_workspace_bytes(dev);
}
