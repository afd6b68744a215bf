/* SPDX-License-Identifier: MIT */
#include "trust.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config.h"
#include "log.h"
#include "paths.h"
#include "util.h"

#define MAX_LINKS   40
#define SYSTEM_PATH "/usr/local/bin:/usr/bin:/bin"

bool rfg_privileged(void)
{
    return getauxval(AT_SECURE) != 0;
}

/* ---- directories ------------------------------------------------------------------------------------------------ */

/* `what` of a message: a path's last part says enough when the path as a whole is in front of it. */
static int refused(struct rfg_reason *why, const char *what, const char *rule)
{
    size_t len = strlen(what);
    rfg_refuse(why, "'%s%s' %s", len > 60 ? "..." : "", len > 60 ? what + len - 60 : what, rule);
    errno = EPERM;
    return -1;
}

static int failed(struct rfg_reason *why, const char *what)
{
    int err = errno;
    size_t len = strlen(what);
    rfg_refuse(why, "'%s%s': %s", len > 60 ? "..." : "", len > 60 ? what + len - 60 : what, strerror(err));
    errno = err;
    return -1;
}

/* The same of what was to be opened; fd, which may be open, is closed. */
static int not_opened(struct rfg_reason *why, const char *what, int fd)
{
    int err = errno;
    if (fd >= 0)
        close(fd);
    errno = err;
    return failed(why, what);
}

/* Root, or the owner of `/`: in a user namespace that doesn't map the outside's root, `/` belongs to nobody. */
static bool is_root(uid_t uid)
{
    struct stat st;
    return uid == 0 || (stat("/", &st) == 0 && uid == st.st_uid);
}

/* Checks a directory of the path. The last one must also be ours. */
static const char *bad_dir(const struct stat *st, bool last)
{
    if (st->st_uid != geteuid() && (last || !is_root(st->st_uid)))
        return "belongs to another user";
    if (st->st_mode & (S_IWGRP | S_IWOTH) && (last || !(st->st_mode & S_ISVTX)))
        return "can be written by others (chmod go-w)";
    return NULL;
}

/* One step from dir (closed) to its entry: a directory, or a link's target in *link (malloc'ed) with dir still open. */
static int step(int dir, const char *name, bool make, bool last, char **link, struct rfg_reason *why)
{
    struct stat st;
    int flags = O_PATH | O_NOFOLLOW | O_CLOEXEC, fd = openat(dir, name, flags);
    if (fd < 0 && errno == ENOENT && make && (mkdirat(dir, name, 0700) == 0 || errno == EEXIST))
        fd = openat(dir, name, flags);
    if (fd < 0 || fstat(fd, &st)) {
        failed(why, name);
    } else if (S_ISLNK(st.st_mode)) {
        char target[PATH_MAX];
        ssize_t n = readlinkat(fd, "", target, sizeof(target) - 1);
        close(fd);
        if (last)
            return refused(why, name, "is a link: must be a directory");
        if (st.st_uid != geteuid() && !is_root(st.st_uid))
            return refused(why, name, "is a link that another user made");
        target[n > 0 ? n : 0] = 0;
        *link = strdup(target);
        return *link ? dir : failed(why, name);
    } else if (!S_ISDIR(st.st_mode)) {
        errno = ENOTDIR;
        failed(why, name);
    } else {
        const char *bad = bad_dir(&st, last);
        if (!bad) {
            close(dir);
            return fd;
        }
        refused(why, name, bad);
    }
    int err = errno;
    if (fd >= 0)
        close(fd);
    errno = err;
    return -1;
}

/* From the root on, part by part. left: the path still to go, malloc'ed, is freed. */
static int walk(char *left, bool make, struct rfg_reason *why)
{
    struct stat st;
    int dir = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC), links = 0;
    const char *bad = dir >= 0 && fstat(dir, &st) == 0 ? bad_dir(&st, false) : "can't be looked at";
    if (bad) {
        refused(why, "/", bad);
        goto out;
    }
    for (;;) {
        char *name = left + strspn(left, "/"), *link = NULL;
        size_t len = strcspn(name, "/");
        if (!len)
            break;
        char *rest = name + len + strspn(name + len, "/");
        bool last = !*rest;
        name[len] = 0;
        if (!strcmp(name, ".")) {
            memmove(left, rest, strlen(rest) + 1);
            continue;
        }
        int next = step(dir, name, make, last, &link, why);
        if (next < 0)
            goto out;
        dir = next;
        if (!link) {
            memmove(left, rest, strlen(rest) + 1);
            continue;
        }
        char *joined = rfg_asprintf("%s/%s", link, rest);
        if (joined && *link == '/') { /* start again: check the link's path too */
            close(dir);
            dir = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        }
        free(link);
        free(left);
        left = joined;
        if (!left || dir < 0 || ++links > MAX_LINKS) {
            errno = left ? ELOOP : ENOMEM;
            failed(why, "links");
            goto out;
        }
    }
    free(left);
    /* O_PATH serves for the way, where search permission is enough; to list and to lock it takes more. */
    int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st)) {
        fd = not_opened(why, "the directory", fd);
    } else if ((bad = bad_dir(&st, true))) { /* "/" and paths that end with ".." */
        close(fd);
        fd = refused(why, "the directory", bad);
    }
    close(dir);
    return fd;
out:;
    int err = errno;
    free(left);
    if (dir >= 0)
        close(dir);
    errno = err;
    return -1;
}

int rfg_open_own_dir(const char *path, bool make, struct rfg_reason *why)
{
    char *whole = rfg_absolute(path);
    return whole ? walk(whole, make, why) : failed(why, path);
}

int rfg_open_own_subdir(int dir, const char *name, bool make, struct rfg_reason *why)
{
    struct stat st;
    int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, fd = openat(dir, name, flags);
    if (fd < 0 && errno == ENOENT && make && (mkdirat(dir, name, 0700) == 0 || errno == EEXIST))
        fd = openat(dir, name, flags);
    if (fd < 0 && (errno == ELOOP || (errno == ENOTDIR && faccessat(dir, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)))
        return refused(why, name, "is a link or a file: must be a directory");
    if (fd < 0 || fstat(fd, &st))
        return not_opened(why, name, fd);
    const char *bad = bad_dir(&st, true);
    if (!bad)
        return fd;
    close(fd);
    return refused(why, name, bad);
}

int rfg_open_own_file(int dir, const char *name, int flags, struct rfg_reason *why)
{
    struct stat st;
    /* O_NONBLOCK: a FIFO would keep us waiting for its other end, a lease for its holder. */
    int fd = openat(dir, name, flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0600);
    if (fd < 0 && (errno == ELOOP || errno == ENXIO))
        return refused(why, name, "is no regular file");
    if (fd < 0 || fstat(fd, &st))
        return not_opened(why, name, fd);
    const char *bad = !S_ISREG(st.st_mode)               ? "is no regular file"
                      : st.st_uid != geteuid()           ? "belongs to another user"
                      : st.st_mode & (S_IWGRP | S_IWOTH) ? "can be written by others (chmod go-w)"
                                                         : NULL;
    if (!bad)
        return fd;
    close(fd);
    return refused(why, name, bad);
}

int rfg_open_trusted_file(const char *path, struct rfg_reason *why)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st)) {
        rfg_refuse(why, "cannot open: %s", strerror(errno));
        if (fd >= 0)
            close(fd);
        return -1;
    }
    const char *bad = !S_ISREG(st.st_mode)                            ? "is no regular file"
                      : st.st_uid != geteuid() && !is_root(st.st_uid) ? "belongs to another user"
                      : st.st_mode & (S_IWGRP | S_IWOTH)              ? "can be written by others (chmod go-w)"
                                                                      : NULL;
    if (!bad)
        return fd;
    close(fd);
    rfg_refuse(why, "%s", bad);
    errno = EPERM;
    return -1;
}

/* ---- programs ------------------------------------------------------------------------------------------------- */

/* A regular file whose owner is root, us, or the owner of `beside` (may be NULL), and that others can't write. */
static bool is_trusted(const char *path, const char *beside, struct rfg_reason *why)
{
    struct stat st, other;
    if (stat(path, &st) || !S_ISREG(st.st_mode))
        return rfg_refuse(why, "%.120s: no regular file", path);
    bool same = beside && stat(beside, &other) == 0 && st.st_uid == other.st_uid;
    if (!same && !is_root(st.st_uid) && st.st_uid != geteuid())
        return rfg_refuse(why, "%.120s: belongs to another user", path);
    if (st.st_mode & S_IWOTH)
        return rfg_refuse(why, "%.120s: can be written by others (chmod o-w)", path);
    return true;
}

bool rfg_program_trusted(const char *path, struct rfg_reason *why)
{
    struct stat st;
    if (stat(path, &st) || !S_ISREG(st.st_mode) || !rfg_access(path, X_OK))
        return rfg_refuse(why, "%.120s: no program that can be run", path);
    char *file = rfg_module_path();
    bool ok = is_trusted(path, file, why);
    free(file);
    return ok;
}

bool rfg_library_trusted(const char *path, const char *beside, struct rfg_reason *why)
{
    return is_trusted(path, beside, why);
}

bool rfg_find_program(const char *name, char *path, size_t size)
{
    const char *dirs = rfg_privileged() ? SYSTEM_PATH : rfg_env("PATH");
    if (strchr(name, '/')) {
        snprintf(path, size, "%s", name);
        return rfg_access(path, X_OK);
    }
    for (size_t len; dirs && *dirs; dirs += len + (dirs[len] == ':')) {
        len = strcspn(dirs, ":");
        int n = snprintf(path, size, "%.*s/%s", (int)len, dirs, name);
        if (*dirs == '/' && n > 0 && (size_t)n < size && rfg_access(path, X_OK))
            return true;
    }
    return false;
}

/* path (malloc'ed) if it may be started, else NULL. */
static char *startable(char *path)
{
    struct rfg_reason why;
    if (path && rfg_access(path, X_OK)) {
        if (rfg_program_trusted(path, &why))
            return path;
        rfg_warn("%s: it is not used", why.text);
    }
    free(path);
    return NULL;
}

char *rfg_program_path(const char *program)
{
    char *self = rfg_module_path(), *slash = self ? strrchr(self, '/') : NULL;
    char *path = slash ? startable(rfg_asprintf("%.*s/%s", (int)(slash - self), self, program)) : NULL;
    free(self);
    if (path)
        return path;
    char *relative = rfg_asprintf(RFG_BINDIR "/%s", program);
    path = relative ? startable(rfg_prefix_path(relative)) : NULL;
    free(relative);
    return path;
}

/* The value of the variable in env that is named as this one, "NAME" or "NAME=value"; NULL: there is none. */
static const char *value_in(char *const *env, const char *name)
{
    size_t len = strcspn(name, "=");
    for (; *env; env++)
        if (!strncmp(*env, name, len) && (*env)[len] == '=')
            return *env + len + 1;
    return NULL;
}

char **rfg_program_env(char *const *set)
{
    static char system_path[] = "PATH=" SYSTEM_PATH, *only[] = { system_path, NULL };
    char **from = rfg_privileged() ? only : environ;
    size_t n = 0, more = 0, used = 0;
    while (from[n])
        n++;
    while (set[more])
        more++;
    char **env = malloc((n + more + 1) * sizeof(*env));
    if (!env)
        return NULL;
    for (size_t i = 0; i < n; i++)
        if (!value_in(set, from[i]))
            env[used++] = from[i];
    memcpy(env + used, set, (more + 1) * sizeof(*env));
    return env;
}

static int spawn_as(pid_t *pid, const char *program, const struct rfg_start *how, char *const *argv, char *const *env)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none, defaults;
    int err = posix_spawn_file_actions_init(&actions);
    if (err)
        return err;
    for (int i = 2; i >= 0 && !err; i--) /* the last first: in a program without a stdin, fd[1] may be 0 */
        err = how->fd[i] < 0 ? posix_spawn_file_actions_addopen(&actions, i, "/dev/null", i ? O_WRONLY : O_RDONLY, 0)
                             : posix_spawn_file_actions_adddup2(&actions, how->fd[i], i);
    if (!err && how->only_these)
        err = posix_spawn_file_actions_addclosefrom_np(&actions, 3);
    if (!err && how->dir)
        err = posix_spawn_file_actions_addchdir_np(&actions, how->dir);
    sigemptyset(&none);
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
    sigaddset(&defaults, SIGCHLD);
    if (how->own_group)
        sigfillset(&defaults);
    posix_spawnattr_init(&attr); /* this and what follows ask for no memory */
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &defaults);
    posix_spawnattr_setpgroup(&attr, 0);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                        (how->own_group ? POSIX_SPAWN_SETPGROUP : 0));
    if (!err)
        err = posix_spawn(pid, program, &actions, &attr, argv, env);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&actions);
    return err;
}

int rfg_spawn(pid_t *pid, const char *program, const struct rfg_start *how, const char *const *argv, char *const *env)
{
    char path[512], ids[2][40], tmp[PATH_MAX + 8];
    const char *dir = value_in(env, "TMPDIR"), *all[64];
    bool same = getuid() == geteuid() && getgid() == getegid();
    if (same || !rfg_find_program("setpriv", path, sizeof(path)))
        return spawn_as(pid, program, how, (char *const *)(uintptr_t)argv, env);
    snprintf(ids[0], sizeof(ids[0]), "--reuid=%lu", (unsigned long)geteuid());
    snprintf(ids[1], sizeof(ids[1]), "--regid=%lu", (unsigned long)getegid());
    snprintf(tmp, sizeof(tmp), "TMPDIR=%s", dir ? dir : "/tmp"); /* setpriv itself is started without it */
    const char *const before[] = { path, ids[0], ids[1], "--keep-groups", "env", tmp, program };
    size_t n = sizeof(before) / sizeof(before[0]), more = 0;
    while (argv[more])
        more++;
    if (n + more >= sizeof(all) / sizeof(all[0]))
        return E2BIG;
    memcpy(all, before, sizeof(before));
    memcpy(all + n, argv + 1, more * sizeof(*argv)); /* and NULL */
    return spawn_as(pid, path, how, (char *const *)(uintptr_t)all, env);
}
