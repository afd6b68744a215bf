/* SPDX-License-Identifier: MIT
 *
 * Words of the correct kernels (*.hip here): the files are compiled together for GPUs, where KERNEL and ITEM make
 * kernels, and into tests/emu/emu_corpus.c, where ITEM and HOST make what they must give. A launch is GROUPS workgroups
 * of SIZE work-items; `in` holds ITEMS random words, `out` OUTS words that are 0. */
#define GROUPS 4
#define SIZE   256
#define ITEMS  (GROUPS * SIZE)
#define OUTS   (4 * ITEMS)

#ifdef __AMDGCN__
#ifndef __global__
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#endif
#define TID   ((int)__builtin_amdgcn_workitem_id_x())
#define GROUP ((int)__builtin_amdgcn_workgroup_id_x())
#define ME    (GROUP * SIZE + TID)
#define AGENT __HIP_MEMORY_SCOPE_AGENT
#define NEAR  __HIP_MEMORY_SCOPE_WORKGROUP
#define BARRIER                                                                                                        \
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");                                                             \
    __builtin_amdgcn_s_barrier();                                                                                      \
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup")
/* What the architecture has. */
#if __gfx1030__ || __gfx1100__ || __gfx1201__
#define MFMA 0
#define RDNA 1
#define WAVE 32
#else
#define MFMA 1
#define RDNA 0
#define WAVE 64
#endif
#define UNIFORM(x) __builtin_amdgcn_readfirstlane(x)
#define KERNEL(name)                                                                                                   \
    extern "C" __global__ void __attribute__((amdgpu_flat_work_group_size(SIZE, SIZE)))                                \
    name(const unsigned *in, unsigned *out, int n)
#define FUNCTION static __device__
/* A function of a work-item's word x, its number i, and n, whose value it stores. */
#define ITEM(name)                                                                                                     \
    FUNCTION unsigned name##_of(unsigned x, unsigned i, int n, const unsigned *in);                                    \
    KERNEL(name)                                                                                                       \
    {                                                                                                                  \
        out[ME] = name##_of(in[ME], (unsigned)ME, n, in);                                                              \
    }                                                                                                                  \
    FUNCTION unsigned name##_of(unsigned x, unsigned i, int n, const unsigned *in)
#else
#define FUNCTION static
#define ITEM(name)                                                                                                     \
    static unsigned name##_of(unsigned x, unsigned i, int n, const unsigned *in);                                      \
    HOST(name)                                                                                                         \
    {                                                                                                                  \
        for (unsigned i = 0; i < ITEMS; i++)                                                                           \
            out[i] = name##_of(in[i], i, n, in);                                                                       \
    }                                                                                                                  \
    static unsigned name##_of(unsigned x, unsigned i, int n, const unsigned *in)
/* Which is in the corpus then (emu_corpus.h). */
#define HOST(name)                                                                                                     \
    static void name(const unsigned *in, unsigned *out, int n);                                                        \
    __attribute__((constructor)) static void name##_is_one(void)                                                       \
    {                                                                                                                  \
        corpus_add(#name, name);                                                                                       \
    }                                                                                                                  \
    static void name(const unsigned *in, unsigned *out, int n)
#endif
#define NOINLINE __attribute__((noinline))
