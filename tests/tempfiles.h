/* SPDX-License-Identifier: MIT
 *
 * Files of a test, in a directory of its own that is $TMPDIR, too. For one source of a program. */
#ifndef RFG_TESTS_TEMPFILES_H
#define RFG_TESTS_TEMPFILES_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/tempdir.h"
#include "base/util.h"

static struct rfg_tempdir tmp;
static char *root;

/* Check fixtures. */
static void setup(void)
{
    ck_assert(rfg_tempdir_make(&tmp, NULL));
    root = tmp.path;
    setenv("TMPDIR", root, 1);
}

static void teardown(void)
{
    rfg_tempdir_remove(&tmp);
}

/* Writes root/name, and makes its folders; the path, valid until the next call. */
static const char *put_file(const char *name, const char *text)
{
    static char path[4096];
    snprintf(path, sizeof(path), "%s/%s", root, name);
    char *dir = strdup(path);
    *strrchr(dir, '/') = 0;
    ck_assert(rfg_mkdirs(dir));
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    fclose(f);
    free(dir);
    return path;
}

#endif
