/* SPDX-License-Identifier: MIT
 *
 * The list of compilers, the choice among them, and what they share: running programs, messages. */
#include "jit_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/trust.h"
#include "base/util.h"

const struct rfg_jit_provider *const rfg_jit_providers[] = { &rfg_jit_hiprtc, &rfg_jit_nvrtc, &rfg_jit_clang,
                                                             &rfg_jit_ziglang, NULL };
const struct rfg_jit_provider *rfg_jit_extra_provider;

void rfg_blob_free(struct rfg_blob *blob)
{
    free(blob->data);
    *blob = (struct rfg_blob){ 0 };
}

const struct rfg_jit_provider *rfg_jit_provider_find(const char *name)
{
    for (int i = 0; rfg_jit_providers[i]; i++)
        if (!strcmp(rfg_jit_providers[i]->name, name))
            return rfg_jit_providers[i];
    return NULL;
}

const struct rfg_jit_provider *rfg_jit_provider_for(const char *target)
{
    if (rfg_jit_extra_provider && rfg_jit_extra_provider->has_target(target))
        return rfg_jit_extra_provider;
    const char *forced = rfg_env("RFG_JIT");
    if (forced && !rfg_jit_provider_find(forced)) {
        rfg_fail(RFG_ERROR_COMPILE, "RFG_JIT=%s: must be hiprtc, nvrtc, clang or ziglang", forced);
        return NULL;
    }
    char asked[800] = "";
    size_t used = 0;
    for (int i = 0; rfg_jit_providers[i]; i++) {
        const struct rfg_jit_provider *p = rfg_jit_providers[i];
        if (forced && strcmp(forced, p->name))
            continue;
        if (p->has_target(target))
            return p;
        char version[128];
        struct rfg_reason why = { "" };
        int n = p->available(version, sizeof(version), &why)
                    ? snprintf(asked + used, sizeof(asked) - used, "; %s does not know it", version)
                    : snprintf(asked + used, sizeof(asked) - used, "; %s: %s", p->name, why.text);
        used += (size_t)n < sizeof(asked) - used ? (size_t)n : sizeof(asked) - used - 1;
    }
    rfg_fail(RFG_ERROR_COMPILE, "no compiler for %s%s%s%s", target, forced ? " with RFG_JIT=" : "",
             forced ? forced : "", asked);
    return NULL;
}

const struct rfg_jit_provider *rfg_jit_provider_of_version(const char *version, const char *target)
{
    const char *forced = rfg_env("RFG_JIT");
    char mine[128];
    for (int i = -1; i < 0 || rfg_jit_providers[i]; i++) {
        const struct rfg_jit_provider *p = i < 0 ? rfg_jit_extra_provider : rfg_jit_providers[i];
        bool allowed = p && (i < 0 || !forced || !strcmp(forced, p->name));
        if (allowed && p->has_target(target) && p->available(mine, sizeof(mine), NULL) && !strcmp(mine, version))
            return p;
    }
    return NULL;
}

/* ---- messages ----------------------------------------------------------------------------------------------- */

/* What the machine did, and not the source: it may go well the next time. Programs are run under LC_ALL=C. */
static bool is_passing(const char *text)
{
    static const char *const phrases[] = {
        "No space left on device",
        "Disk quota exceeded",
        "Too many open files",
        "Cannot allocate memory",
        "Resource temporarily unavailable",
        "Input/output error",
        "Read-only file system",
        "out of memory",
        "OUT_OF_MEMORY",
        "could not be started",
        "version mismatch",
        "before it said its version",
        "unable to execute command: Killed",
        "unable to execute command: Terminated",
        /* signals that nobody raises himself */
        "SIGKILL",
        "SIGTERM",
        "SIGINT",
        "SIGHUP",
        "SIGXCPU",
        "SIGXFSZ",
    };
    bool found = false;
    for (size_t i = 0; text && i < sizeof(phrases) / sizeof(phrases[0]) && !found; i++)
        found = strcasestr(text, phrases[i]) != NULL;
    return found;
}

rfg_status rfg_jit_failed(const struct rfg_jit_provider *prov, const struct rfg_jit_request *req, const char *log,
                          const char *fallback)
{
    const char *line = log ? strstr(log, "error") : NULL;
    if (line) {
        while (line > log && line[-1] != '\n')
            line--;
    } else if (log) {
        line = log + strspn(log, " \r\n\t");
    }
    if (!line || !*line)
        line = fallback;
    rfg_status st = is_passing(log) || is_passing(fallback) ? RFG_ERROR_IO : RFG_ERROR_COMPILE;
    return rfg_fail(st, "%s for %s by %s: %.*s", req->name, req->target, prov->name, (int)strcspn(line, "\r\n"), line);
}

rfg_status rfg_jit_compile(const struct rfg_jit_provider *prov, const struct rfg_jit_request *req,
                           rfg_compile_fn compile, void *ctx, struct rfg_blob *code, char **log)
{
    struct rfg_reason why;
    rfg_status st = compile ? compile(ctx, prov, req, code, log) : prov->compile(req, code, log);
    if (st != RFG_OK || rfg_code_check(req, code, &why))
        return st;
    rfg_blob_free(code);
    return rfg_fail(RFG_ERROR_IO, "%s for %s by %s: the compiler left what is no code object of it: %s", req->name,
                    req->target, prov->name, why.text);
}

/* ---- programs ----------------------------------------------------------------------------------------------- */

#define MAX_WRITTEN (2 * (rlim_t)RFG_MAX_CODE) /* to one file */
#define MAX_LOG     ((off_t)1 << 20)

static char *read_log(int fd)
{
    struct stat st;
    if (fstat(fd, &st))
        return NULL;
    size_t size = (size_t)(st.st_size < MAX_LOG ? st.st_size : MAX_LOG);
    char *text = malloc(size + 1);
    ssize_t n = text ? pread(fd, text, size, 0) : -1;
    if (text)
        text[n > 0 ? n : 0] = 0;
    return text;
}

/* A program that has just been started fills neither the disk nor, by what it says, the memory. */
static void limit_files(pid_t pid)
{
    struct rlimit l;
    if (prlimit(pid, RLIMIT_FSIZE, NULL, &l) == 0 && l.rlim_cur > MAX_WRITTEN) {
        l.rlim_cur = MAX_WRITTEN;
        l.rlim_max = l.rlim_max < MAX_WRITTEN ? l.rlim_max : MAX_WRITTEN;
        (void)prlimit(pid, RLIMIT_FSIZE, &l, NULL);
    }
}

bool rfg_jit_run(const char *const *argv, const char *tmpdir, char **output, struct rfg_reason *why)
{
    if (output)
        *output = NULL;
    /* A file in memory, not a pipe: nothing to drain while the program runs, and a grandchild that outlives it can't
     * keep us waiting. */
    int fd = memfd_create("rfg-output", MFD_CLOEXEC);
    if (fd < 0)
        return rfg_refuse(why, "memfd_create: %s", strerror(errno));
    char path[512], *tmp = tmpdir ? rfg_asprintf("TMPDIR=%s", tmpdir) : NULL;
    char **env = rfg_program_env((char *[]){ (char *)"LC_ALL=C", tmp, NULL });
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none, defaults;
    sigemptyset(&none);
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
    sigaddset(&defaults, SIGCHLD);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, fd, 1);
    posix_spawn_file_actions_adddup2(&actions, fd, 2);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &defaults);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    pid_t pid;
    /* It runs in /, where nobody can have put anything: python -m takes modules from its current directory first. */
    posix_spawn_file_actions_addchdir_np(&actions, "/");
    char *program = rfg_find_program(argv[0], path, sizeof(path)) ? rfg_absolute(path) : NULL;
    int err = !env ? ENOMEM : !program ? ENOENT : rfg_spawn(&pid, program, &actions, &attr, argv, env);
    int status = 0;
    free(program);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&actions);
    free(env);
    free(tmp);
    bool ok = false;
    if (err) {
        rfg_refuse(why, "%s: could not be started: %s", argv[0], strerror(err));
    } else {
        limit_files(pid);
        pid_t got;
        while ((got = waitpid(pid, &status, 0)) < 0 && errno == EINTR)
            ;
        if (got < 0)
            status = 0; /* the host ignores SIGCHLD: no status to be had, the missing output file will tell */
        ok = WIFEXITED(status) && WEXITSTATUS(status) == 0;
        if (!ok && WIFSIGNALED(status))
            rfg_refuse(why, "%s was killed by SIG%s", argv[0], sigabbrev_np(WTERMSIG(status)));
        else if (!ok)
            rfg_refuse(why, "%s exited with %d", argv[0], WEXITSTATUS(status));
        if (output)
            *output = read_log(fd);
    }
    close(fd);
    return ok;
}
