/* SPDX-License-Identifier: MIT */
#include "stub_clang.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/env.h"

#define MAX_ARGS 32

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

bool stub_clang(const char *const *args, const char *name, const void *in, size_t size, void **out, size_t *out_size,
                char **log)
{
    const char *argv[MAX_ARGS] = { STUB_CLANG }, *tmp = rfg_env("TMPDIR");
    char dir[200], from[240], to[240], words[240];
    size_t n = 0, log_size;
    *out = *log = NULL;
    *out_size = 0;
    if (!*STUB_CLANG) {
        *log = strdup("error: this stub was built without clang: it compiles nothing");
        return false;
    }
    snprintf(dir, sizeof(dir), "%.150s/rocm-stub-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(dir)) {
        *log = strdup("error: no temporary directory can be made");
        return false;
    }
    snprintf(from, sizeof(from), "%s/%.30s", dir, name);
    snprintf(to, sizeof(to), "%s/out", dir);
    snprintf(words, sizeof(words), "%s/log", dir);
    for (n = 1; args[n - 1] && n < MAX_ARGS - 4; n++)
        argv[n] = args[n - 1];
    argv[n++] = "-o";
    argv[n++] = to;
    argv[n] = from;
    int st = write_file(from, in, size) ? start(argv, words) : EIO;
    *log = read_file(words, &log_size);
    if (!*log)
        *log = strdup(st ? strerror(st) : "");
    *out = st ? NULL : read_file(to, out_size);
    unlink(from);
    unlink(to);
    unlink(words);
    rmdir(dir);
    return *out;
}
