/* SPDX-License-Identifier: MIT
 *
 * Temporary directories that are cleaned up even after a kill. The maker holds a lock (flock) on its directory while it
 * lives. The next process that makes a directory of the same prefix removes those that nobody holds. No other user can
 * put a file or a link into one (mode 0700, and a random name). */
#ifndef RFG_DISPATCH_TEMPDIR_H
#define RFG_DISPATCH_TEMPDIR_H

#include <stdbool.h>

struct rfg_tempdir {
    char *path; /* NULL: none */
    int fd;     /* holds the lock */
};

/* Makes PREFIXxxxxxx, x a letter or digit; prefix NULL: "rfg-tmp-" under $TMPDIR or /tmp. Sweeps first. False: errno
 * says why; path is NULL then. */
bool rfg_tempdir_make(struct rfg_tempdir *d, const char *prefix);
/* Removes it with everything in it. */
void rfg_tempdir_remove(struct rfg_tempdir *d);
/* Removes directories of that prefix whose makers are dead: exactly such names, of this user, held by nobody. */
void rfg_tempdir_sweep(const char *prefix);

/* A directory with everything in it; follows no links. */
void rfg_remove_tree(const char *path);

#endif
