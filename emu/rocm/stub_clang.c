/* SPDX-License-Identifier: MIT */
#include "stub_clang.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/env.h"

#define MAX_ARGS 128
#define MAX_PATH 512

/* What comgr's table of each release has (comgr-isa-metadata in amd/comgr/src of ROCm/llvm-project) that rfg has
 * kernels for or might ask about; gfx940 and gfx941 went with 7.0. */
const char *const stub_targets[] = {
    "gfx900",  "gfx906",  "gfx908",  "gfx90a",  "gfx90c",
#if EMU_ROCM < 70000
    "gfx940",  "gfx941",
#endif
    "gfx942",
#if EMU_ROCM >= 60400
    "gfx950",
#endif
    "gfx1010", "gfx1030", "gfx1031", "gfx1032", "gfx1100", "gfx1101", "gfx1102", "gfx1103",
#if EMU_ROCM >= 60100
    "gfx1150", "gfx1151",
#endif
#if EMU_ROCM >= 60400
    "gfx1152", "gfx1200", "gfx1201",
#endif
    NULL,
};

bool stub_has_target(const char *target)
{
    int i = 0;
    while (stub_targets[i] && strcmp(stub_targets[i], target) != 0)
        i++;
    return stub_targets[i] != NULL;
}

static void *read_file(const char *path, size_t *size)
{
    FILE *f = fopen(path, "re");
    void *data = NULL;
    long n = f && !fseek(f, 0, SEEK_END) ? ftell(f) : -1;
    if (n >= 0 && (data = calloc(1, (size_t)n + 1))) {
        rewind(f);
        *size = fread(data, 1, (size_t)n, f);
    }
    if (f)
        fclose(f);
    return data;
}

static bool write_file(const char *path, const void *data, size_t size)
{
    FILE *f = fopen(path, "we");
    bool ok = f && fwrite(data, 1, size, f) == size;
    return f && !fclose(f) && ok;
}

/* 0: it ended well; its own words are in the file `log`. */
static int start(const char *const *argv, const char *log)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none;
    pid_t pid;
    int status = 0;
    sigemptyset(&none);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", 0, 0);
    posix_spawn_file_actions_addopen(&actions, 1, log, 01 | 0100, 0600); /* O_WRONLY | O_CREAT */
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
    /* clang needs no more of the environment, and none of the emulated runtime's. */
    char *const env[] = { (char *)"PATH=/usr/bin:/bin", (char *)"LC_ALL=C", NULL };
    int err = posix_spawn(&pid, argv[0], &actions, &attr, (char *const *)argv, env);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&actions);
    if (err)
        return err;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

/* dir/name, with the directories that it takes; false: not below dir, or too long. */
static bool place(const char *dir, const struct stub_file *f, char path[MAX_PATH])
{
    size_t at = strlen(dir) + 1;
    if (snprintf(path, MAX_PATH, "%s/%s", dir, f->name) >= MAX_PATH || !*f->name || strstr(f->name, ".."))
        return false;
    for (char *slash = path + at; (slash = strchr(slash, '/')); *slash++ = '/') {
        *slash = 0;
        mkdir(path, 0700);
    }
    return true;
}

static void remove_files(const char *dir, const struct stub_file *files, int n)
{
    char path[MAX_PATH];
    for (int i = 0; i < n; i++)
        if (place(dir, &files[i], path) && !unlink(path))
            for (char *slash; (slash = strrchr(path, '/')) && slash > path + strlen(dir) && (*slash = 0, 1);)
                if (rmdir(path))
                    break;
}

/* Files are called in the log as the program called them. */
static void without(char *log, const char *dir)
{
    size_t n = strlen(dir) + 1;
    for (char *at = log; (at = strstr(at, dir));)
        memmove(at, at + n, strlen(at + n) + 1);
}

static bool failed(char **log, const char *why)
{
    *log = strdup(why);
    return false;
}

bool stub_clang(const char *const *args, const struct stub_file *files, int n, void **out, size_t *out_size, char **log)
{
    const char *argv[MAX_ARGS] = { STUB_CLANG }, *tmp = rfg_env("TMPDIR");
    char dir[200], from[MAX_PATH], path[MAX_PATH], to[240], words[240], include[240];
    int n_args = 1, st = 0;
    size_t log_size;
    *out = *log = NULL;
    *out_size = 0;
    if (!*STUB_CLANG)
        return failed(log, "error: this stub was built without clang: it compiles nothing");
    snprintf(dir, sizeof(dir), "%.150s/rocm-stub-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(dir))
        return failed(log, "error: no temporary directory can be made");
    snprintf(to, sizeof(to), "%s/.out", dir);
    snprintf(words, sizeof(words), "%s/.log", dir);
    snprintf(include, sizeof(include), "-I%s", dir);
    for (int i = n - 1; i >= 0 && !st; i--) /* the first last: its path stays */
        st = place(dir, &files[i], i ? path : from) && write_file(i ? path : from, files[i].data, files[i].size) ? 0
                                                                                                                 : EIO;
    while (args[n_args - 1] && n_args < MAX_ARGS - 6) {
        argv[n_args] = args[n_args - 1];
        n_args++;
    }
    const char *const last[] = { "-o", to, from, n > 1 ? include : NULL };
    memcpy(argv + n_args, last, sizeof(last));
    st = st ? st : start(argv, words);
    *log = read_file(words, &log_size);
    if (*log)
        without(*log, dir);
    else
        *log = strdup(st ? strerror(st) : "");
    *out = st ? NULL : read_file(to, out_size);
    remove_files(dir, files, n);
    unlink(to);
    unlink(words);
    rmdir(dir);
    return *out;
}
