/* SPDX-License-Identifier: MIT
 *
 * Temporary directories that no kill leaves behind for long. The maker holds a lock (flock) on its directory as long as
 * it lives; one that nobody holds is swept away by the next that makes one of the same name, or asks for it. Nobody
 * else can put a file or a link into it (0700, and a name that couldn't be known). */
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
/* Removes what dead makers left of that prefix: directories of exactly such names, of this user, that nobody holds. */
void rfg_tempdir_sweep(const char *prefix);

/* A directory with everything in it; follows no links. */
void rfg_remove_tree(const char *path);

#endif
