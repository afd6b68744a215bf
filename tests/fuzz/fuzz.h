/* SPDX-License-Identifier: MIT
 *
 * A fuzz target: one function that takes any bytes, crashes on a fault (FUZZ_CHECK: on a wrong answer) and leaves
 * nothing behind. driver.c runs it with mutated seeds; libFuzzer can, too. */
#ifndef RFG_TESTS_FUZZ_H
#define RFG_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The target's name, by which its seeds are found; whether they are text; the longest input. */
extern const char fuzz_name[];
extern const int fuzz_is_text;
extern const size_t fuzz_max_size;

/* What the target makes itself to start from; called once. NULL: it makes none. */
extern void (*const fuzz_more_seeds)(void (*add)(const void *data, size_t size));

#define FUZZ_CHECK(cond)                                                                                               \
    do {                                                                                                               \
        if (!(cond)) {                                                                                                 \
            printf("%s:%d: wrong: %s\n", __FILE__, __LINE__, #cond);                                                   \
            fflush(stdout);                                                                                            \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

/* What a target does by turns goes by the input, so that a run alone is what it was among others. */
static inline unsigned fuzz_hash(const uint8_t *data, size_t size)
{
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < size; i++)
        h = (h ^ data[i]) * 16777619u;
    return h ^ h >> 15;
}

/* A directory in memory where there is one, that is gone when the program ends. file.c. */
const char *fuzz_dir(void);
/* The input as a file of that name in it. Returns its path. */
const char *fuzz_file(const char *name, const uint8_t *data, size_t size);

#endif
