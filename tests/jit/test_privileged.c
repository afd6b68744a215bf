/* SPDX-License-Identifier: MIT
 *
 * A set-uid program: programs that it starts have the rights and the temporary directory that it gives them. */
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/tempdir.h"
#include "base/trust.h"
#include "base/util.h"
#include "dispatch/jit/jit_internal.h"
#include "tests/suite.h"

#define NOBODY 65534

static struct rfg_tempdir dir;

static void make_dir(void)
{
    ck_assert(rfg_tempdir_make(&dir, NULL));
}

static void remove_dir(void)
{
    if (geteuid() == 0)
        (void)!setresuid(0, 0, 0);
    rfg_tempdir_remove(&dir);
}

/* From here on as a program of root's that nobody started. */
static bool be_set_uid(void)
{
    if (setresuid(NOBODY, 0, 0) == 0)
        return true;
    printf("SKIPPED: a set-uid program: takes root\n");
    return false;
}

START_TEST(programs_run_as_the_effective_user)
{
    char out[300], tmp[300], script[600];
    snprintf(out, sizeof(out), "%s/out", dir.path);
    snprintf(tmp, sizeof(tmp), "TMPDIR=%s", dir.path);
    snprintf(script, sizeof(script), "echo $(id -ru) $(id -u) $TMPDIR $0 $1 > %s", out);
    if (!be_set_uid())
        return;
    const char *argv[] = { "sh", "-c", script, "zero", "one", NULL };
    char **env = rfg_program_env((char *[]){ tmp, NULL });
    pid_t pid;
    int status;
    const struct rfg_start how = { .fd = { 0, 1, 2 } };
    ck_assert_int_eq(rfg_spawn(&pid, "/bin/sh", &how, argv, env), 0);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    free(env);
    char *text = rfg_read_file(out, NULL), want[400];
    snprintf(want, sizeof(want), "0 0 %s zero one\n", dir.path);
    ck_assert_str_eq(text ? text : "", want);
    free(text);
}
END_TEST

/* access(2) would ask for the real user, who may not look into the directory. */
START_TEST(files_of_the_effective_user_are_there)
{
    if (!be_set_uid())
        return;
    char path[300];
    snprintf(path, sizeof(path), "%s/file", dir.path);
    ck_assert(!rfg_access(path, F_OK));
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    close(fd);
    ck_assert_int_ne(access(path, R_OK), 0);
    ck_assert(rfg_access(path, R_OK));
    ck_assert(!rfg_access(path, X_OK));
}
END_TEST

START_TEST(clang_compiles)
{
    const struct rfg_jit_provider *clang = rfg_jit_provider_find("clang");
    struct rfg_jit_request req = { .name = "nothing",
                                   .entry = "nothing",
                                   .target = "gfx942",
                                   .source = "extern \"C\" __attribute__((global)) void nothing(void)\n{\n}\n" };
    struct rfg_blob code;
    char *log, version[200];
    struct rfg_reason why;
    setenv("TMPDIR", dir.path, 1);
    if (!clang->available(version, sizeof(version), &why)) {
        printf("SKIPPED: a compile in a set-uid program: %s\n", why.text);
        return;
    }
    if (!be_set_uid())
        return;
    rfg_status st = clang->compile(&req, &code, &log);
    ck_assert_msg(st == RFG_OK, "%s", rfg_last_error());
    ck_assert_uint_gt(code.size, 1000);
    rfg_blob_free(&code);
    free(log);
    ck_assert_msg(rmdir(dir.path) == 0, "the compiler left something in %s", dir.path);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("privileged");
    TCase *tc = test_case(s, "set-uid", make_dir, remove_dir);
    ADD_TESTS(tc, programs_run_as_the_effective_user, files_of_the_effective_user_are_there, clang_compiles);
    return run_suite(s);
}
