/* SPDX-License-Identifier: MIT
 *
 * The corpus: the correct kernels of tests/emu/correct, and those who compile them. */
#ifndef RFG_TESTS_EMU_CORPUS_H
#define RFG_TESTS_EMU_CORPUS_H

#include "emu_kernel.h"
#include "correct/words.h"

struct corpus_kernel {
    const char *name;
    void (*host)(const unsigned *in, unsigned *out, int n); /* what it must give */
};
extern struct corpus_kernel corpus_kernels[];
extern int corpus_n_kernels;
void corpus_add(const char *name, void (*host)(const unsigned *in, unsigned *out, int n));

enum corpus_compiler { BY_HIPRTC, BY_CLANG, BY_ZIGLANG };
struct corpus_build {
    const char *arch;
    enum corpus_compiler by;
    int level;            /* -O; hipRTC has its own */
    bool few;             /* also without RFG_TEST_CORRECT=all */
    const char *features; /* of the target, as ":xnack-"; NULL: none are named */
};
extern const struct corpus_build corpus_builds[];
extern const int corpus_n_builds;
const char *corpus_compiler_name(const struct corpus_build *b);
/* Is it wanted (few, or RFG_TEST_CORRECT=all), and its compiler there? Else says as a skipped test does what is
 * missing. Then the device is open, and corpus_in filled. */
bool corpus_begin(const struct corpus_build *b);
bool corpus_all(void);
/* Is it among those that are run by default, or are all? */
bool corpus_wanted(const struct corpus_build *b);

/* The text of these files of tests/emu, one after another; of all kernels: malloc'ed. */
char *corpus_text(const char *const *names, size_t n);
char *corpus_source(void);
/* A code object: malloc'ed. entry: a kernel of it. The device (emu_open_device()) is open. */
char *corpus_compile(const struct corpus_build *b, const char *entry, const char *source, size_t *size);

/* What kernels get, what they gave, what they must give. */
#define CORPUS_N 1027
extern unsigned corpus_in[ITEMS], corpus_out[OUTS], corpus_want[OUTS];
/* All kernels in a module, and memory for a launch that has corpus_in already. Returns the code object: malloc'ed. */
char *corpus_load(const struct corpus_build *b, hipModule_t *m, size_t *size, void **in, void **out);

#endif
