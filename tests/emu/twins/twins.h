/* SPDX-License-Identifier: MIT
 *
 * Words of the twins (*.hip here): each kernel is compiled twice, as it is right and, with BROKEN defined, with one
 * mistake that a check must find: TWIN(name, the report's name with _ for -; "nothing" for what
 * is not found). `in` holds ITEMS words, `out` OUTS words
 * that are 0, `fresh` ITEMS words that nothing wrote, `gone` was freed. tests/emu/correct/words.h comes before. */
#define TWIN(name, check)                                                                                              \
    extern "C" __global__ void __attribute__((amdgpu_flat_work_group_size(SIZE, SIZE)))                                \
    name(const unsigned *in, unsigned *out, unsigned *fresh, unsigned *gone, int n)
#ifdef BROKEN
#define GOOD(...)
#define BAD(...)          __VA_ARGS__
#define EITHER(good, bad) bad
#else
#define GOOD(...) __VA_ARGS__
#define BAD(...)
#define EITHER(good, bad) good
#endif
/* What the compiler must not see through. */
#define HIDDEN(v) asm volatile("" : "+v"(v))
#define STORED    asm volatile("" ::: "memory")

#define ADD(p, v)        __hip_atomic_fetch_add(p, v, __ATOMIC_RELAXED, AGENT)
#define ADD_NEAR(p, v)   __hip_atomic_fetch_add(p, v, __ATOMIC_RELAXED, NEAR)
#define LOADED(p, order) __hip_atomic_load(p, order, AGENT)
#define STORE(p, v, o)   __hip_atomic_store(p, v, o, AGENT)
#define SLEEP            __builtin_amdgcn_s_sleep(1)
#define AGENT_ACQUIRE    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent")
#define AWAIT(p, v)                                                                                                    \
    while (LOADED(p, __ATOMIC_ACQUIRE) != (unsigned)(v))                                                               \
    SLEEP
