/* SPDX-License-Identifier: MIT
 *
 * The promises of docs/security.md: planted files, a set-uid program's environment. Some tests need root (another
 * user's files); without it they report that they are skipped. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trust_case.h"
#include "cache_case.h"

/* ---- planted files ---------------------------------------------------------------------------------------------- */

/* Moves what is there aside and puts a link to it in its place. */
static void link_instead(const char *path)
{
    char aside[800];
    snprintf(aside, sizeof(aside), "%s.real", path);
    ck_assert_int_eq(rename(path, aside), 0);
    ck_assert_int_eq(symlink(aside, path), 0);
}

enum how { MODE, OWNER, LINK, FIFO, DIRECTORY };

static const struct plant {
    const char *name, *what; /* of which: "file", "target", "dir", "root" */
    enum how how;
    mode_t mode;
    const char *says; /* NULL: nothing is wrong with it */
} plants[] = {
    { "as it should be", "file", MODE, 0600, NULL },
    { "readable by all", "file", MODE, 0644, NULL },
    { "file that its group writes", "file", MODE, 0620, "can be written by others" },
    { "file that all write", "file", MODE, 0602, "can be written by others" },
    { "file of another user", "file", OWNER, 0600, "belongs to another user" },
    { "link for a file", "file", LINK, 0, "is no regular file" },
    { "FIFO for a file", "file", FIFO, 0, "is no regular file" },
    { "directory for a file", "file", DIRECTORY, 0, "is no regular file" },
    { "target directory, readable by all", "target", MODE, 0755, NULL },
    { "target directory that its group writes", "target", MODE, 0770, "can be written by others" },
    { "target directory that all write", "target", MODE, 01777, "can be written by others" },
    { "target directory of another user", "target", OWNER, 0755, "belongs to another user" },
    { "link for a target directory", "target", LINK, 0, "is a link" },
    { "FIFO for a target directory", "target", FIFO, 0, "is a link or a file" },
    { "cache, readable by all", "dir", MODE, 0755, NULL },
    { "cache that its group writes", "dir", MODE, 0770, "can be written by others" },
    { "cache that all write", "dir", MODE, 01777, "can be written by others" },
    { "cache of another user", "dir", OWNER, 0755, "belongs to another user" },
    { "link for a cache", "dir", LINK, 0, "is a link" },
    { "parent with the sticky bit", "root", MODE, 01777, NULL },
    { "parent that its group writes", "root", MODE, 0770, "can be written by others" },
    { "parent that all write", "root", MODE, 0777, "can be written by others" },
    { "parent of another user", "root", OWNER, 0755, "belongs to another user" },
};

/* A file of ours, whole and right, that could have been put there or changed by somebody else is not run. */
START_TEST(planted_files_are_not_run)
{
    const struct plant *p = &plants[_i];
    const char *path = !strcmp(p->what, "file")     ? file
                       : !strcmp(p->what, "target") ? target
                       : *p->what == 'd'            ? dir
                                                    : root;
    if (p->how == OWNER && !is_root(p->name))
        return;
    get_fresh("kernel");
    ck_assert_uint_eq(get_fresh("kernel").disk_hits, 1);
    ck_assert_uint_eq(compiles(), 1);
    if (p->how == LINK)
        link_instead(path);
    if (p->how == FIFO || p->how == DIRECTORY) {
        rfg_remove_tree(path);
        ck_assert_int_eq(p->how == FIFO ? mkfifo(path, 0600) : mkdir(path, 0700), 0);
    }
    if (p->mode)
        ck_assert_int_eq(chmod(path, p->mode), 0);
    if (p->how == OWNER)
        ck_assert_int_eq(chown(path, NOBODY, NOBODY), 0);
    int n = warnings_of(use_cache, "code cache");
    ck_assert_msg(compiles() == (p->says ? 2 : 1), "%s: %zu compiles", p->name, compiles());
    ck_assert_msg(p->says ? n >= 1 && strstr(warned, p->says) : n == 0, "%s: %s", p->name, warned);
    ck_assert_msg(!p->says || strstr(warned, dir), "%s: %s", p->name, warned); /* it says where */
    if (p->how == OWNER)
        ck_assert_int_eq(chown(root, 0, 0), 0);
    if (*p->what == 'f' && p->says && p->how != DIRECTORY) { /* ours again, by the next rename */
        struct stat st;
        ck_assert_int_eq(lstat(file, &st), 0);
        ck_assert_uint_eq(st.st_mode, S_IFREG | 0600);
        ck_assert_uint_eq(get_fresh("kernel").disk_hits, 1);
    }
    ck_assert_int_eq(chmod(root, 0700), 0);
}
END_TEST

/* What the cache makes is for its user alone, whatever the umask. */
START_TEST(what_is_made_is_ours_alone)
{
    const struct {
        const char *path;
        mode_t mode;
    } made[] = { { dir, S_IFDIR | 0700 }, { target, S_IFDIR | 0700 }, { file, S_IFREG | 0600 } };
    umask(0);
    get_fresh("kernel");
    for (int i = 0; i < 3; i++) {
        struct stat st;
        ck_assert_int_eq(lstat(made[i].path, &st), 0);
        ck_assert_msg(st.st_mode == made[i].mode, "%s: mode %o", made[i].path, st.st_mode);
    }
}
END_TEST

/* Links on the way that root or we made are no harm (/tmp is one here and there); another user's are. */
START_TEST(links_on_the_way)
{
    char real[600], path[600], *link = rfg_asprintf("%s/link", root);
    snprintf(real, sizeof(real), "%s/real", root);
    ck_assert_int_eq(mkdir(real, 0700), 0);
    ck_assert_int_eq(symlink("real", link), 0);
    snprintf(path, sizeof(path), "%s/../link/./cache//", link);
    struct rfg_reason why;
    ck_assert_msg(rfg_cache_usable(path, true, &why), "%s", why.text);
    strcat(real, "/cache");
    ck_assert_int_eq(access(real, F_OK), 0);
    ck_assert_int_eq(chdir(root), 0);
    ck_assert(rfg_cache_usable("link/other", true, &why));
    ck_assert_int_eq(symlink("loop", "loop"), 0);
    ck_assert(!rfg_cache_usable("loop/cache", true, &why));
    ck_assert_msg(strstr(why.text, strerror(ELOOP)) != NULL, "%s", why.text);
    ck_assert(!rfg_cache_usable("/", true, &why) || geteuid() == 0);
    if (is_root("another user's link")) {
        ck_assert_int_eq(lchown(link, NOBODY, NOBODY), 0);
        ck_assert(!rfg_cache_usable("link/other", true, &why));
        ck_assert_msg(strstr(why.text, "'link' is a link that another user made") != NULL, "%s", why.text);
    }
    free(link);
}
END_TEST

START_TEST(info_says_so)
{
    char cmd[1000];
    const char *bin = rfg_env("RFG_BINDIR");
    ck_assert_msg(bin, "RFG_BINDIR must say where the programs are");
    for (int bad = 0; bad < 2; bad++) {
        ck_assert_int_eq(chmod(root, bad ? 0777 : 0700), 0);
        snprintf(cmd, sizeof(cmd), "RFG_CACHE_DIR=%s RFG_JIT=clang %s/rfg-info > %s/info", dir, bin, root);
        ck_assert_int_eq(system(cmd), 0);
        snprintf(cmd, sizeof(cmd), "%s/info", root);
        char *text = rfg_read_file(cmd, NULL);
        ck_assert_msg(!strstr(text, ", not used: '") == !bad, "%s", text);
        ck_assert_int_ne(access(dir, F_OK), 0); /* it only looks */
        free(text);
    }
    ck_assert_int_eq(chmod(root, 0700), 0);
}
END_TEST

/* ---- others' files ---------------------------------------------------------------------------------------------- */

#define KEY "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

/* Names that are nearly ours, in directories of a project that somebody took for the cache. */
static const char *const others[] = {
    "src/Cargo.lock",
    "src/yarn.lock",
    "src/.lock",
    "src/a.rfgco.tmp-abcdef",
    "src/a.rfgco",
    "src/" KEY,
    "src/" KEY ".lock.bak",
    "src/" KEY "0.lock",
    "src/x" KEY ".lock",
    "src/" KEY ".rfgco.tmp-abcde",
    "src/" KEY ".rfgco.tmp-abcdefg",
    "src/" KEY ".rfgco.tmp-abc.ef",
    "src/" KEY ".rfgco.bak",
    "src/0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef.lock",
    "src/deeper/" KEY ".lock",
    "poetry.lock",
    KEY ".lock",
    "../elsewhere/" KEY ".rfgco", /* behind links */
    "../elsewhere/" KEY ".lock",
    "../elsewhere/linked",
};
#define N_OTHERS (sizeof(others) / sizeof(others[0]))

START_TEST(others_files_stay)
{
    static const char *const made[] = { "", "/src", "/src/deeper", "/../elsewhere" };
    char path[800], link[800];
    for (size_t i = 0; i < sizeof(made) / sizeof(made[0]); i++) {
        snprintf(path, sizeof(path), "%s%s", dir, made[i]);
        ck_assert_int_eq(mkdir(path, 0700), 0);
    }
    for (size_t i = 0; i < N_OTHERS; i++) {
        snprintf(path, sizeof(path), "%s/%s", dir, others[i]);
        write_text(path, 0600, "somebody's work");
        make_old(path);
    }
    snprintf(path, sizeof(path), "%s/gfx942", dir);
    ck_assert_int_eq(symlink("../elsewhere", path), 0);
    snprintf(path, sizeof(path), "%s/src/%s.rfgco", dir, KEY);
    ck_assert_int_eq(symlink("../../elsewhere/linked", path), 0);
    snprintf(link, sizeof(link), "%s/src/" KEY ".lock", dir);
    ck_assert_int_eq(symlink("../../elsewhere/linked", link), 0);
    make_old(path);
    make_old(link);
    struct rfg_cache *c = rfg_cache_open(dir, 1); /* a bound that calls for deletion at each store */
    ck_assert_int_eq(get(c, "a"), RFG_OK);
    ck_assert_int_eq(get(c, "b"), RFG_OK);
    rfg_cache_close(&c);
    for (size_t i = 0; i < N_OTHERS; i++) {
        char name[800];
        snprintf(name, sizeof(name), "%s/%s", dir, others[i]);
        char *text = rfg_read_file(name, NULL);
        ck_assert_msg(text && !strcmp(text, "somebody's work"), "%s: gone", others[i]);
        free(text);
    }
    struct stat st;
    ck_assert_int_eq(lstat(path, &st), 0);
    ck_assert_int_eq(lstat(link, &st), 0);
}
END_TEST

START_TEST(ours_go_when_nobody_holds_them)
{
    char held[800], stale[800], tmp[800], other[800];
    get_fresh("a");
    snprintf(held, sizeof(held), "%s/%s.lock", target, KEY);
    snprintf(stale, sizeof(stale), "%s/1%s.lock", target, &KEY[1]);
    snprintf(tmp, sizeof(tmp), "%s/%s.rfgco.tmp-aZ09xy", target, KEY);
    snprintf(other, sizeof(other), "%s/%s.rfgco.tmp-foreig", target, KEY);
    const char *const all[] = { held, stale, tmp, other };
    for (int i = 0; i < 4; i++) {
        write_text(all[i], 0600, "");
        make_old(all[i]);
    }
    if (is_root("another user's temporary file"))
        ck_assert_int_eq(chown(other, NOBODY, NOBODY), 0);
    int fd = open(held, O_RDWR | O_CLOEXEC);
    ck_assert_int_eq(flock(fd, LOCK_EX), 0);
    get_fresh("b");
    ck_assert_int_eq(access(held, F_OK), 0);
    ck_assert_int_ne(access(stale, F_OK), 0);
    ck_assert_int_ne(access(tmp, F_OK), 0);
    ck_assert_int_eq(access(other, F_OK), geteuid() == 0 ? 0 : -1);
    close(fd);
}
END_TEST

/* ---- programs --------------------------------------------------------------------------------------------------- */

START_TEST(programs_that_are_found)
{
    struct rfg_reason why;
    char path[600];
    snprintf(path, sizeof(path), "%s/program", root);
    ck_assert(!rfg_program_trusted(path, &why)); /* it isn't there */
    write_text(path, 0755, "#!/bin/sh\n");
    ck_assert_msg(rfg_program_trusted(path, &why), "%s", why.text);
    chmod(path, 0644);
    ck_assert(!rfg_program_trusted(path, &why));
    chmod(path, 0757);
    ck_assert(!rfg_program_trusted(path, &why));
    ck_assert_ptr_nonnull(strstr(why.text, "can be written by others"));
    if (is_root("another user's program")) {
        chmod(path, 0755);
        ck_assert_int_eq(chown(path, NOBODY, NOBODY), 0);
        ck_assert(!rfg_program_trusted(path, &why));
        ck_assert_ptr_nonnull(strstr(why.text, "belongs to another user"));
    }
    unlink(path);
    ck_assert_int_eq(mkfifo(path, 0755), 0);
    ck_assert(!rfg_program_trusted(path, &why));
}
END_TEST

START_TEST(programs_in_the_path)
{
    char path[600], found[600], dirs[1300];
    snprintf(path, sizeof(path), "%s/rfg-program", root);
    write_text(path, 0755, "#!/bin/sh\n");
    ck_assert_int_eq(chdir(root), 0);
    const char *const relative[] = { "", ".", ":/nowhere", "./", "/nowhere:", ".:/nowhere" };
    for (size_t i = 0; i < sizeof(relative) / sizeof(relative[0]); i++) {
        setenv("PATH", relative[i], 1); /* the current directory is not a place to find programs in */
        ck_assert_msg(!rfg_find_program("rfg-program", found, sizeof(found)), "PATH=%s: %s", relative[i], found);
        snprintf(dirs, sizeof(dirs), "%s:%s", relative[i], root);
        setenv("PATH", dirs, 1);
        ck_assert(rfg_find_program("rfg-program", found, sizeof(found)));
        ck_assert_str_eq(found, path);
    }
    ck_assert(rfg_find_program("./rfg-program", found, sizeof(found))); /* named */
    chmod(path, 0644);
    ck_assert(!rfg_find_program("rfg-program", found, sizeof(found)));
}
END_TEST

/* `python -m ziglang` would take a ziglang.py out of the current directory, whoever put it there. */
START_TEST(modules_of_the_current_directory)
{
    char module[600], marker[600], script[1300], version[128];
    struct rfg_reason why;
    snprintf(module, sizeof(module), "%s/ziglang.py", root);
    snprintf(marker, sizeof(marker), "%s/marker", root);
    snprintf(script, sizeof(script), "open('%s', 'w')\nprint('clang version 22.0')\n", marker);
    write_text(module, 0644, script);
    ck_assert_int_eq(chdir(root), 0);
    char *text = NULL;
    const char *python = rfg_env("RFG_PYTHON");
    const char *const by_name[] = { python ? python : "python3", module, NULL };
    if (!rfg_jit_run(by_name, NULL, &text, &why)) {
        printf("SKIPPED: python modules: %s\n", why.text);
        return;
    }
    free(text);
    ck_assert_int_eq(unlink(marker), 0); /* the bait works */
    (void)rfg_jit_ziglang.available(version, sizeof(version), &why);
    ck_assert_int_ne(access(marker, F_OK), 0);
    /* Relative paths keep their meaning. */
    ck_assert_int_eq(symlink("/bin/pwd", "where"), 0);
    ck_assert(rfg_jit_run((const char *const[]){ "./where", NULL }, NULL, &text, &why));
    ck_assert_str_eq(text, "/\n");
    free(text);
    setenv("TMPDIR", ".", 1);
    struct rfg_tempdir tmp;
    ck_assert(rfg_tempdir_make(&tmp, NULL));
    ck_assert_int_eq(*tmp.path, '/');
    rfg_tempdir_remove(&tmp);
}
END_TEST

/* A compiler or linker whose output isn't a file of ours: where $TMPDIR's parent is everybody's, it could be
 * replaced. */
START_TEST(output_of_a_compiler)
{
    char path[600], script[1400];
    snprintf(path, sizeof(path), "%s/clang", root);
    snprintf(script, sizeof(script),
             "#!/bin/sh\n"
             "case \"$*\" in\n"
             "*--print-supported-cpus*) printf 'clang version 19.0\\nInstalledDir: %s\\n gfx942 \\n';;\n"
             "*) while [ $# -gt 1 ]; do [ \"$1\" = -o ] && %s \"$2\"; shift; done;;\n"
             "esac\n",
             root, _i == 1 ? "ln -s /etc/passwd" : "echo object >");
    write_text(path, 0755, script);
    snprintf(path, sizeof(path), "%s/lld", root);
    snprintf(script, sizeof(script), "#!/bin/sh\nwhile [ $# -gt 1 ]; do [ \"$1\" = -o ] && %s \"$2\"; shift; done\n",
             _i == 2 ? "ln -s /etc/passwd" : "echo code >");
    write_text(path, 0755, script);
    snprintf(path, sizeof(path), "%s/clang", root);
    setenv("RFG_CLANG", path, 1);
    struct rfg_jit_request req = { .name = "v{}", .entry = "k", .target = "gfx942", .source = "" };
    struct rfg_blob code;
    char *log = NULL;
    rfg_status st = rfg_jit_clang.compile(&req, &code, &log);
    ck_assert_msg(st == (_i ? RFG_ERROR_IO : RFG_OK), "%s", rfg_last_error());
    ck_assert(_i ? strstr(rfg_last_error(), "is no regular file") != NULL : !memcmp(code.data, "code\n", 5));
    rfg_blob_free(&code);
}
END_TEST

/* ---- a set-uid program ------------------------------------------------------------------------------------------ */

/* What this program does with --as-privileged: everything that an environment could turn to other ends. */
static int as_privileged(void)
{
    char version[128], *cache = rfg_cache_default_dir(), *db = rfg_db_user_path();
    struct rfg_reason why = { "" };
    struct rfg_jit_request req = { .name = "v{}", .entry = "k", .target = "gfx942", .source = "" };
    struct rfg_blob code;
    char *log;
    printf("privileged %d, cache %s, user database %s\n", rfg_privileged(), cache ? cache : "none",
           db && *db ? db : "none");
    for (int i = 0; rfg_jit_providers[i]; i++) {
        bool there = rfg_jit_providers[i]->available(version, sizeof(version), &why);
        printf("%s: %s\n", rfg_jit_providers[i]->name, there ? version : why.text);
    }
    struct rfg_jit_pool *pool = rfg_jit_pool_create(1, 20);
    if (rfg_jit_pool_compile(pool, &rfg_jit_clang, &req, &code, &log) == RFG_OK)
        rfg_blob_free(&code);
    free(log);
    rfg_jit_pool_destroy(&pool);
    struct rfg_cache *c = rfg_cache_open(NULL, 0);
    rfg_cache_close(&c);
    free(cache);
    free(db);
    fflush(stdout);
    _exit(0); /* what compilers leave behind is not our concern */
}

static const char *const bait[] = { "clang", "clang-22", "clang-19", "python3", "ld.lld", "worker" };

/* Runs it: with a real user that isn't the effective one, as of a set-uid program, or as it is. What it printed. */
static char *run_as(bool privileged)
{
    char out[600], *argv[] = { (char *)"test-trust", (char *)"--as-privileged", NULL };
    snprintf(out, sizeof(out), "%s/out", root);
    pid_t pid = fork();
    if (pid == 0) {
        int fd = open(out, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        dup2(fd, 1);
        dup2(fd, 2);
        if (!privileged || setresuid(NOBODY, 0, 0) == 0)
            execv("/proc/self/exe", argv);
        _exit(99);
    }
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    char *text = rfg_read_file(out, NULL);
    ck_assert_msg(status == 0, "status %d: %s", status, text);
    return text;
}

START_TEST(privileged_program_takes_nothing_from_its_caller)
{
    char path[700], marker[600], script[700], value[1300];
    if (!is_root("a set-uid program"))
        return;
    ck_assert_int_eq(chmod(root, 0777), 0); /* shells give up a set-uid right: the marker must be possible then too */
    snprintf(marker, sizeof(marker), "%s/marker", root);
    snprintf(script, sizeof(script), "#!/bin/sh\necho $0 >> %s\n", marker);
    for (size_t i = 0; i < sizeof(bait) / sizeof(bait[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", root, bait[i]);
        write_text(path, 0755, script);
    }
    const struct {
        const char *name, *is;
    } set[] = { { "RFG_CLANG", "clang" },
                { "RFG_COMPILE_WORKER", "worker" },
                { "RFG_ZIGLANG_PYTHON", "python3" },
                { "RFG_LIBNVRTC", "libevil.so" },
                { "RFG_LIBHIP", "libevil.so" },
                { "RFG_LIBHIPRTC", "libevil.so" },
                { "RFG_LIBCOMGR", "libevil.so" },
                { "RFG_CACHE_DIR", "evil-cache" },
                { "XDG_CACHE_HOME", "evil-xdg" },
                { "HOME", "evil-home" },
                { "RFG_DB", "evil.db" } };
    for (size_t i = 0; i < sizeof(set) / sizeof(set[0]); i++) {
        snprintf(value, sizeof(value), "%s/%s", root, set[i].is);
        setenv(set[i].name, value, 1);
    }
    snprintf(value, sizeof(value), "%s:%s", root, getenv("PATH"));
    setenv("PATH", value, 1);
    for (int named = 1; named >= 0; named--) {
        if (!named) /* by the PATH alone */
            for (int i = 0; i < 3; i++)
                unsetenv(set[i].name);
        char *text = run_as(false); /* the bait works */
        ck_assert_msg(access(marker, F_OK) == 0, "%s", text);
        ck_assert_msg(!named || strstr(text, "evil-cache"), "%s", text);
        ck_assert_int_eq(unlink(marker), 0);
        free(text);
        text = run_as(true);
        char *touched = rfg_read_file(marker, NULL);
        ck_assert_msg(!touched, "%sstarted: %s", text, touched);
        ck_assert_msg(strstr(text, "privileged 1, cache none, user database none") != NULL, "%s", text);
        ck_assert_msg(!strstr(text, "evil") && !strstr(text, root), "%s", text);
        free(text);
    }
}
END_TEST

/* A ROCm of its caller's: its hipRTC would be loaded into the program. */
START_TEST(privileged_program_does_not_heed_rocm_path)
{
    const char *fake = rfg_env("RFG_FAKE_ROCM");
    char path[700];
    if (!is_root("a set-uid program"))
        return;
    ck_assert_msg(fake, "RFG_FAKE_ROCM must name a library");
    snprintf(path, sizeof(path), "%s/evil-rocm/lib", root);
    ck_assert(rfg_mkdirs(path));
    snprintf(path, sizeof(path), "%s/evil-rocm/lib/libhiprtc.so", root);
    ck_assert_int_eq(symlink(fake, path), 0);
    snprintf(path, sizeof(path), "%s/evil-rocm", root);
    setenv("ROCM_PATH", path, 1);
    char *text = run_as(false);
    ck_assert_msg(strstr(text, "evil-rocm/lib/libhiprtc.so has no hiprtcVersion") != NULL, "%s", text);
    free(text);
    text = run_as(true);
    ck_assert_msg(strstr(text, "privileged 1") && !strstr(text, "evil"), "%s", text);
    free(text);
}
END_TEST

static int n_sources;

static int look_for_getenv(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)ftw;
    size_t len = strlen(path);
    if (kind != FTW_F || st->st_size > 4 << 20 || len < 2 ||
        (strcmp(path + len - 2, ".c") && strcmp(path + len - 2, ".h")))
        return 0;
    static const struct {
        const char *word, *file; /* that may have it */
    } words[] = { { "getenv", "base/env.h" },
                  { "environ", "base/trust.c" },
                  { "execvp", "" },
                  { "posix_spawnp", "" },
                  { "popen", "" } };
    char *text = rfg_read_file(path, NULL);
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        size_t n = strlen(words[i].word);
        for (const char *s = text; (s = strstr(s, words[i].word)); s += n) {
            bool word = !strspn(s + n, "abcdefghijklmnopqrstuvwxyz_") && s > text &&
                        !strchr("abcdefghijklmnopqrstuvwxyz", s[-1]);
            bool ours = *words[i].file && strstr(path, words[i].file);
            /* rfg-tune starts itself again with what it was started with. */
            bool itself = strstr(path, "tuner/tune/child.c") && words[i].word[0] == 'e';
            ck_assert_msg(!word || ours || itself, "%s: has %s: take rfg_env(), rfg_program_env(), rfg_jit_run()", path,
                          words[i].word);
        }
    }
    free(text);
    n_sources++;
    return 0;
}

START_TEST(environment_has_one_door)
{
    static const char *const dirs[] = { "base", "dispatch", "ops", "emu", "tuner", "bench", "bindings" };
    const char *source = rfg_env("RFG_SOURCE_ROOT"), *bin = rfg_env("RFG_BINDIR");
    ck_assert_msg(source && bin, "RFG_SOURCE_ROOT and RFG_BINDIR must be set");
    char path[600], cmd[1300];
    for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", source, dirs[i]);
        ck_assert_int_eq(nftw(path, look_for_getenv, 16, FTW_PHYS), 0);
    }
    ck_assert_int_gt(n_sources, 200);
    /* And what was linked, macros and all. */
    if (system("nm --version >/dev/null 2>&1")) {
        printf("SKIPPED: the library's symbols: no nm (Debian: binutils)\n");
        return;
    }
    snprintf(cmd, sizeof(cmd),
             "nm -u %s/../librfg-internal.a 2>/dev/null >%s/symbols && grep -q ' secure_getenv$' %s/symbols", bin, root,
             root);
    ck_assert_msg(system(cmd) == 0, "%s", cmd);
    snprintf(cmd, sizeof(cmd), "! grep -E ' (access|getenv|execvp|execlp|posix_spawnp|popen|system)$' %s/symbols",
             root);
    ck_assert_msg(system(cmd) == 0, "the library calls one of these");
}
END_TEST

int main(int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], "--as-privileged"))
        return as_privileged();
    Suite *s = suite_create("trust");
    TCase *tc = test_case(s, "files", setup, cache_teardown);
    tcase_set_timeout(tc, 15);
    ADD_TESTS(tc, what_is_made_is_ours_alone, links_on_the_way, info_says_so, others_files_stay,
              ours_go_when_nobody_holds_them);
    ADD_LOOPS(tc, sizeof(plants) / sizeof(plants[0]), planted_files_are_not_run);
    tc = test_case(s, "programs", setup, cache_teardown);
    ADD_TESTS(tc, programs_that_are_found, programs_in_the_path, modules_of_the_current_directory,
              privileged_program_takes_nothing_from_its_caller, privileged_program_does_not_heed_rocm_path,
              environment_has_one_door);
    ADD_LOOPS(tc, 3, output_of_a_compiler);
    return run_suite(s);
}
