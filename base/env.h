/* SPDX-License-Identifier: MIT
 *
 * Reads the environment. Nothing else in the library or its programs calls getenv(). */
#ifndef RFG_ENV_H
#define RFG_ENV_H

#include <stdbool.h>
#include <stdlib.h>

/* $name if set and not empty, else NULL. Always NULL in a program with more rights than its caller (set-uid, file
 * capabilities): the caller could name its own compiler and libraries there. */
static inline const char *rfg_env(const char *name)
{
    const char *s = secure_getenv(name);
    return s && *s ? s : NULL;
}

/* Whether the variable is set but empty. */
static inline bool rfg_env_empty(const char *name)
{
    const char *s = secure_getenv(name);
    return s && !*s;
}

#endif
