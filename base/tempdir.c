/* SPDX-License-Identifier: MIT */
#include "tempdir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util.h"

#define LETTERS 6 /* what mkdtemp() fills in */

static char *full_prefix(const char *prefix)
{
    const char *tmp = rfg_env("TMPDIR");
    if (prefix)
        return strdup(prefix);
    char *dir = rfg_absolute(tmp ? tmp : "/tmp"); /* compilers run in another current directory */
    char *full = dir ? rfg_asprintf("%s/rfg-tmp-", dir) : NULL;
    free(dir);
    return full;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st;
    (void)kind;
    (void)ftw;
    remove(path);
    return 0;
}

void rfg_remove_tree(const char *path)
{
    if (rmdir(path)) /* an empty one takes no memory */
        nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* The directory, opened and held; -1: not a directory of ours, or its maker lives. */
static int hold(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && (fstat(fd, &st) || st.st_uid != geteuid() || flock(fd, LOCK_EX | LOCK_NB) || fstat(fd, &st) ||
                    st.st_nlink == 0)) { /* 0: a sweeper was faster */
        close(fd);
        fd = -1;
    }
    return fd;
}

static bool is_name(const char *name, const char *prefix)
{
    size_t len = strlen(prefix);
    if (strncmp(name, prefix, len) || strlen(name) != len + LETTERS)
        return false;
    for (const char *s = name + len; *s; s++)
        if (!((*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || (*s >= '0' && *s <= '9')))
            return false;
    return true;
}

static void sweep(const char *prefix)
{
    const char *slash = strrchr(prefix, '/');
    char *dir = slash ? strndup(prefix, (size_t)(slash - prefix) + 1) : strdup("./");
    DIR *d = dir ? opendir(dir) : NULL;
    for (struct dirent *e; d && (e = readdir(d));) {
        char *path = is_name(e->d_name, slash ? slash + 1 : prefix) ? rfg_asprintf("%s%s", dir, e->d_name) : NULL;
        int fd = path ? hold(path) : -1;
        if (fd >= 0) {
            rfg_remove_tree(path);
            close(fd);
        }
        free(path);
    }
    if (d)
        closedir(d);
    free(dir);
}

void rfg_tempdir_sweep(const char *prefix)
{
    char *full = full_prefix(prefix);
    if (full)
        sweep(full);
    free(full);
}

bool rfg_tempdir_make(struct rfg_tempdir *d, const char *prefix)
{
    char *full = full_prefix(prefix);
    *d = (struct rfg_tempdir){ .fd = -1 };
    if (full)
        sweep(full);
    /* Between its making and its locking a sweeper may take it: then the next one. */
    for (int i = 0; full && i < 100 && !d->path; i++) {
        char *path = rfg_asprintf("%sXXXXXX", full);
        if (!path || !mkdtemp(path)) {
            free(path);
            break;
        }
        if ((d->fd = hold(path)) >= 0) {
            d->path = path;
            break;
        }
        int e = errno;
        if (e == ENOLCK || e == EOPNOTSUPP) { /* a file system without locks: nobody sweeps there */
            d->path = path;
            break;
        }
        rfg_remove_tree(path);
        free(path);
        errno = e;
        if (e == EMFILE || e == ENFILE)
            break;
    }
    int e = errno;
    free(full);
    errno = e;
    return d->path != NULL;
}

void rfg_tempdir_remove(struct rfg_tempdir *d)
{
    if (!d->path)
        return;
    rfg_remove_tree(d->path);
    if (d->fd >= 0)
        close(d->fd);
    free(d->path);
    *d = (struct rfg_tempdir){ .fd = -1 };
}
