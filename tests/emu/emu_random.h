/* SPDX-License-Identifier: MIT
 *
 * Random kernels (tests/emu/random/random_kernels.py) as code for the host and for GPUs. */
#ifndef RFG_TESTS_EMU_RANDOM_H
#define RFG_TESTS_EMU_RANDOM_H

#include <stddef.h>

#define EMU_RANDOM_IN    1024 /* words that kernels read */
#define EMU_RANDOM_ARCHS 7

struct random_kernel {
    int seed;
    unsigned size, groups, words;
    void (*run)(const unsigned *in, unsigned *out, int n);
};

extern const char *const emu_random_archs[EMU_RANDOM_ARCHS];

/* The source in dir: n kernels, or $RFG_TEST_FILE. */
void emu_random_source(const char *dir, int first, int n);
/* Them too; wave: what lanes of a wave are to the host. */
const struct random_kernel *emu_random_host(const char *dir, int first, int n, void (**wave)(unsigned));
/* malloc'ed, of the source in dir. NULL: the compiler crashes, as LLVM 19 does on some functions at O0. */
char *emu_random_code(const char *dir, const char *arch, int level, size_t *size);

#endif
