/* SPDX-License-Identifier: MIT
 *
 * Finding instructions by name, in the build of the vector handlers that this host can run; and the architectures. */
#include <pthread.h>
#include <stdlib.h>

#include "isa.h"

#include "memory.h"

extern const struct emu_op emu_valu_ops_portable[], emu_mma_ops_portable[];
#if defined(__x86_64__)
extern const struct emu_op emu_valu_ops_avx2[], emu_mma_ops_avx2[], emu_valu_ops_avx512[], emu_mma_ops_avx512[];
#endif

static const struct emu_op **sorted;
static size_t n_sorted;

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const struct emu_op *const *)a)->name, (*(const struct emu_op *const *)b)->name);
}

/* Those that were built for what this host has. */
static void choose(const struct emu_op **valu, const struct emu_op **mma)
{
    *valu = emu_valu_ops_portable;
    *mma = emu_mma_ops_portable;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c")) {
        *valu = emu_valu_ops_avx2;
        *mma = emu_mma_ops_avx2;
    }
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq")) {
        *valu = emu_valu_ops_avx512;
        *mma = emu_mma_ops_avx512;
    }
#endif
}

static void build(void)
{
    const struct emu_op *tables[] = { emu_salu_ops, NULL, emu_memory_ops, NULL };
    choose(&tables[1], &tables[3]);
    for (int t = 0; t < 4; t++)
        for (const struct emu_op *op = tables[t]; op->name; op++)
            n_sorted++;
    sorted = malloc(n_sorted * sizeof(*sorted));
    if (!sorted)
        abort();
    size_t n = 0;
    for (int t = 0; t < 4; t++)
        for (const struct emu_op *op = tables[t]; op->name; op++)
            sorted[n++] = op;
    qsort(sorted, n_sorted, sizeof(*sorted), by_name);
}

const struct emu_op *emu_op_find(const char *name)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, build);
    struct emu_op key = { .name = name };
    const struct emu_op *k = &key, **found = bsearch(&k, sorted, n_sorted, sizeof(*sorted), by_name);
    return found ? *found : NULL;
}

/* Both halves of a VOPD instruction read before either writes: the second one must not see what the first one wrote. */
static void x_dual(W *w, I *i)
{
    uint32_t was[64], now[64], *d = emu_row(w, i->reg[0]);
    memcpy(was, d, sizeof(was));
    i->op->fn(w, i);
    memcpy(now, d, sizeof(now));
    memcpy(d, was, sizeof(was));
    w->pc = i + 2;
    if (w->checks)
        emu_check_before(w, i + 1);
    i[1].fn(w, i + 1);
    memcpy(d, now, sizeof(now)); /* the destinations differ */
}

void emu_make_dual(struct emu_inst *i)
{
    i->fn = x_dual;
}

const struct emu_arch *emu_arch_find(const char *name, size_t len)
{
    static const struct emu_arch archs[] = {
        { "gfx90a", 0x90a, 64, 65536, 104, 4, 8, 512, 8, true },
        { "gfx942", 0x942, 64, 65536, 304, 4, 8, 512, 8, true },
        { "gfx1100", 0x1100, 32, 65536, 96, 2, 16, 1536, 24, false },
    };
    for (size_t k = 0; k < sizeof(archs) / sizeof(archs[0]); k++)
        if (strlen(archs[k].name) == len && !strncmp(archs[k].name, name, len))
            return &archs[k];
    return NULL;
}
