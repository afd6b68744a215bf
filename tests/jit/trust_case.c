/* SPDX-License-Identifier: MIT
 *
 * Helpers of the tests of trust: a cache, files of others. */
#include "trust_case.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

char file[700], target[600];

void setup(void)
{
    cache_setup();
    char *path = file_of("kernel");
    snprintf(file, sizeof(file), "%s", path);
    snprintf(target, sizeof(target), "%s/test1", dir);
    free(path);
}

bool is_root(const char *what)
{
    if (geteuid() == 0)
        return true;
    printf("SKIPPED: %s: takes root\n", what);
    return false;
}

void write_text(const char *path, mode_t mode, const char *text)
{
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    ck_assert_int_eq(fclose(f), 0);
    ck_assert_int_eq(chmod(path, mode), 0);
}

void make_old(const char *path)
{
    struct timespec old[2] = { { time(NULL) - 7200, 0 }, { time(NULL) - 7200, 0 } };
    ck_assert_int_eq(utimensat(AT_FDCWD, path, old, AT_SYMLINK_NOFOLLOW), 0);
}

void use_cache(void)
{
    get_fresh("kernel");
}
