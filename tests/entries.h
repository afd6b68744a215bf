/* SPDX-License-Identifier: MIT */
#ifndef RFG_TESTS_ENTRIES_H
#define RFG_TESTS_ENTRIES_H

#include <dirent.h>

/* How many names a directory has; 0: there is none. */
static inline int entries_in(const char *path)
{
    int n = 0;
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));)
        n += e->d_name[0] != '.';
    if (d)
        closedir(d);
    return n;
}

#endif
