/* SPDX-License-Identifier: MIT
 *
 * What the library is asked to do while calls of the C library fail. */
#ifndef RFG_TESTS_FAILING_SCENES_H
#define RFG_TESTS_FAILING_SCENES_H

#include <stdbool.h>

#include "rfg/core.h"

struct scene {
    const char *name;
    rfg_status (*run)(void); /* the first error, with everything given back; no assertion: their memory counts */
    void (*before)(void);    /* what run() finds there; may be NULL */
    const char *(*after)(rfg_status); /* what is wrong with what it left, NULL: nothing; may be NULL */
    const char *files[3];             /* hold, whatever happens, all that they held before or all that run() writes */
    bool warns;                       /* even where nothing fails */
};
extern const struct scene scenes[];
extern const int n_scenes;

/* A call that succeeded did something else than it should. */
extern const char *wrong;

/* In the test's directory, before all else. */
void scenes_setup(void);

#endif
