/* SPDX-License-Identifier: MIT
 *
 * A small kernel for every compiler on this machine. Include it in one source of a program. */
#ifndef RFG_TESTS_JIT_CASE_H
#define RFG_TESTS_JIT_CASE_H

#include <elf.h>

#include "dispatch/jit/jit_internal.h"
#include "tests/entries.h"
#include "tests/tempfiles.h"

/* All compilers take it: hipRTC and NVRTC know threadIdx, a bare clang knows only its builtins. */
#define KERNEL                                                                                                         \
    "#if defined(__clang__) && !defined(__HIPCC_RTC__)\n"                                                              \
    "#define __global__ __attribute__((global))\n"                                                                     \
    "#define TID __builtin_amdgcn_workitem_id_x()\n"                                                                   \
    "#else\n"                                                                                                          \
    "#define TID threadIdx.x\n"                                                                                        \
    "#endif\n"                                                                                                         \
    "#line 1 \"jit/scale.hip\"\n"                                                                                      \
    "extern \"C\" __global__ void scale(float *y, const float *x)\n"                                                   \
    "{\n"                                                                                                              \
    "    y[TID] = x[TID] * 2;\n"

static const struct {
    const struct rfg_jit_provider *prov;
    const char *target;
    int machine;
} compilers[] = {
    { &rfg_jit_hiprtc, "gfx90a", 224 },    { &rfg_jit_hiprtc, "gfx1030", 224 }, { &rfg_jit_nvrtc, "sm_80", EM_CUDA },
    { &rfg_jit_nvrtc, "sm_90a", EM_CUDA }, { &rfg_jit_clang, "gfx942", 224 },   { &rfg_jit_clang, "gfx1100", 224 },
    { &rfg_jit_clang, "gfx1201", 224 },    { &rfg_jit_ziglang, "gfx950", 224 },
};
#define N_COMPILERS (int)(sizeof(compilers) / sizeof(compilers[0]))

/* The first compiler that is here, for what is not about compilers. */
static struct rfg_jit_request request(const char *name, const char *source)
{
    struct rfg_jit_request req = { .name = name, .entry = "scale", .source = source };
    for (int i = 0; i < N_COMPILERS && !req.target; i++) {
        char version[128];
        if (compilers[i].prov->available(version, sizeof(version), NULL) &&
            compilers[i].prov->has_target(compilers[i].target))
            req.target = compilers[i].target;
    }
    if (!req.target)
        printf("SKIPPED: what takes any compiler: there is none\n");
    return req;
}

#endif
