/* SPDX-License-Identifier: MIT */
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util.h"

void rfg_program_begin(void)
{
    /* The lowest free number is taken. Nothing can be written to it: output that goes nowhere is still an error. */
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDONLY) != fd)
            _exit(127);
}

int rfg_program_end(const char *program, int code, int failed)
{
    errno = 0;
    if (!fflush(stdout) && !ferror(stdout))
        return code;
    fprintf(stderr, "%s: standard output: can't be written: %s\n", program,
            errno ? strerror(errno) : "an earlier write failed");
    return code ? code : failed;
}

static bool complain(const char *program, const char *option, const char *path, int err)
{
    fprintf(stderr, "%s: %s: '%s' can't be written: %s\n", program, option, path, strerror(err));
    return false;
}

bool rfg_output_check(const char *program, const char *option, const char *path)
{
    struct stat st;
    if (!path)
        return true;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) /* opening a pipe would wait for a reader */
        return S_ISDIR(st.st_mode) ? complain(program, option, path, EISDIR)
                                   : rfg_access(path, W_OK) || complain(program, option, path, errno);
    int made = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    int fd = made < 0 && errno == EEXIST ? open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666) : made;
    if (fd < 0)
        return complain(program, option, path, errno);
    close(fd);
    if (made >= 0)
        unlink(path);
    return true;
}

bool rfg_output_open(struct rfg_output *o, const char *program, const char *option, const char *path)
{
    struct stat st;
    mode_t mask = umask(0);
    umask(mask);
    *o = (struct rfg_output){ .program = program, .option = option, .path = path };
    bool there = lstat(path, &st) == 0;
    bool beside = !there || S_ISREG(st.st_mode);
    o->tmp = beside ? rfg_asprintf("%s.tmp-XXXXXX", path) : NULL;
    int fd = o->tmp ? mkostemp(o->tmp, O_CLOEXEC) : -1;
    bool direct = !beside || (fd < 0 && (errno == EACCES || errno == EPERM || errno == EROFS));
    if (fd >= 0 && (fchmod(fd, there ? st.st_mode & 0777 : 0666 & ~mask) || !(o->f = fdopen(fd, "w")))) {
        int err = errno;
        close(fd);
        unlink(o->tmp);
        errno = err;
    } else if (direct) {
        free(o->tmp);
        o->tmp = NULL;
        o->f = fopen(path, "we");
    }
    if (o->f)
        return true;
    int err = errno;
    free(o->tmp);
    o->tmp = NULL;
    return complain(program, option, path, err);
}

bool rfg_output_close(struct rfg_output *o, bool whole)
{
    int err = EIO; /* of an earlier write: stdio doesn't keep the reason */
    bool ok = whole && !ferror(o->f);
    if (fclose(o->f)) {
        ok = false;
        err = errno;
    }
    if (ok && o->tmp && rename(o->tmp, o->path)) {
        ok = false;
        err = errno;
    }
    if (!ok && o->tmp)
        unlink(o->tmp);
    free(o->tmp);
    o->tmp = NULL;
    o->f = NULL;
    return ok || complain(o->program, o->option, o->path, err);
}

json_t *rfg_json_text(const char *s)
{
    json_t *o = json_string(s);
    char *ascii = o ? NULL : strdup(s);
    for (char *c = ascii; c && *c; c++)
        if ((unsigned char)*c >= 0x80)
            *c = '?';
    if (ascii)
        o = json_string(ascii);
    free(ascii);
    return o;
}
