/* SPDX-License-Identifier: MIT
 *
 * Running programs: compilers, and rfg-compile. */
#include "jit_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/trust.h"
#include "base/util.h"

#define MAX_WRITTEN (2 * (rlim_t)RFG_MAX_CODE) /* to one file */
#define MAX_LOG     ((off_t)1 << 20)

static char *read_log(int fd)
{
    struct stat st;
    if (fstat(fd, &st))
        return NULL;
    size_t size = (size_t)(st.st_size < MAX_LOG ? st.st_size : MAX_LOG);
    char *text = malloc(size + 1);
    if (text)
        text[rfg_read_at(fd, text, size, 0)] = 0;
    return text;
}

/* Limits the files that a started program writes, and its output, which is held in memory. */
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
    /* It runs in /, where no other user can put files: python -m loads modules from its current directory first. */
    const struct rfg_start how = { .fd = { -1, fd, fd }, .dir = "/" };
    pid_t pid;
    bool found = rfg_find_program(argv[0], path, sizeof(path));
    char *program = found ? rfg_absolute(path) : NULL;
    int err = !env       ? ENOMEM
              : !found   ? (strchr(argv[0], '/') ? errno : ENOENT)
              : !program ? errno
                         : rfg_spawn(&pid, program, &how, argv, env);
    int status = 0;
    free(program);
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
