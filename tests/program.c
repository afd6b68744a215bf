/* SPDX-License-Identifier: MIT */
#include "program.h"

#include <check.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/util.h"

char *out, *err;
static char dir[32];

void program_setup(void)
{
    strcpy(dir, "/tmp/rfg-program-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    ck_assert_int_eq(chdir(dir), 0);
}

void program_teardown(void)
{
    char cmd[100];
    free(out);
    free(err);
    out = err = NULL;
    snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
    ck_assert_int_eq(system(cmd), 0);
}

static int run(const char *where, const char *name, const char *fmt, va_list ap)
{
    char args[700], cmd[1200];
    const char *bin = rfg_env("RFG_BINDIR");
    ck_assert(fmt && vsnprintf(args, sizeof(args), fmt, ap) < (int)sizeof(args));
    ck_assert_msg(bin, "RFG_BINDIR must say where the programs are");
    snprintf(cmd, sizeof(cmd), ": > out; %s/%s %s %s 2> err", bin, name, args, where);
    int rc = system(cmd);
    free(out);
    free(err);
    out = rfg_read_file("out", NULL);
    err = rfg_read_file("err", NULL);
    ck_assert(out && err);
    ck_assert_msg(WIFEXITED(rc), "%s: killed: %s", cmd, err);
    return WEXITSTATUS(rc);
}

int run_program(const char *name, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int rc = run("> out", name, fmt, ap);
    va_end(ap);
    return rc;
}

int run_program_to(const char *where, const char *name, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int rc = run(where, name, fmt, ap);
    va_end(ap);
    return rc;
}
