/* SPDX-License-Identifier: MIT
 *
 * Checks that no other user can have written the files that we run (docs/security.md). Only root and the user that we
 * run as are trusted. Nothing here blocks (FIFOs, leases) or follows a link that somebody else made. */
#ifndef RFG_DISPATCH_TRUST_H
#define RFG_DISPATCH_TRUST_H

#include <spawn.h>
#include <stdbool.h>

#include "error.h"

/* Whether the calling program has more rights than the user who started it (set-uid, file capabilities). Its
 * environment and PATH are then controlled by that user. */
bool rfg_privileged(void);

/* Opens a directory that is ours alone: owned by us, no link, not writable by others. The directories above it must be
 * too, but root may own them, and others may write to those with the sticky bit (/tmp). make: missing directories are
 * made, with mode 0700. -1: why names the directory and the rule, errno is the system's if it refused (else EPERM). */
int rfg_open_own_dir(const char *path, bool make, struct rfg_reason *why);
/* The same for a directory's entry. */
int rfg_open_own_subdir(int dir, const char *name, bool make, struct rfg_reason *why);
/* A regular file that is ours alone, by a name in dir (or a path with AT_FDCWD); flags as open(2), made 0600. */
int rfg_open_own_file(int dir, const char *name, int flags, struct rfg_reason *why);

/* A regular file that the user named, read-only: root's or ours, and written by nobody else. Links are followed: what
 * they lead to counts. */
int rfg_open_trusted_file(const char *path, struct rfg_reason *why);

/* Whether a program that was found (not named by the user) may be started. Its owner must be root, us, or the owner of
 * librfg.so (of the program that librfg.a is linked into), and others must not be able to write to it. */
bool rfg_program_trusted(const char *path, struct rfg_reason *why);

/* Whether a library that was found beside another may be loaded: the same rule, with the owner of `beside` in place of
 * librfg.so's. */
bool rfg_library_trusted(const char *path, const char *beside, struct rfg_reason *why);

/* The path of a program: itself if it has a slash, else the first of $PATH's absolute directories that has it; of
 * the system's own where the environment isn't to be believed. False: there is none. */
bool rfg_find_program(const char *name, char *path, size_t size);

/* The executable file of that name beside this library or program, or in PREFIX/bin. malloc'ed; NULL if
 * there is none. */
char *rfg_program_path(const char *program);

/* The environment of a program that we start: ours, with `set` ("NAME=value", NULL-terminated) replacing variables of
 * these names; only PATH and `set` if ours isn't trusted. The array is malloc'ed, its strings aren't; NULL: no
 * memory. */
char **rfg_program_env(char *const *set);

/* How a program that we start begins: with no signal blocked, SIGPIPE and SIGCHLD as by default. */
struct rfg_start {
    int fd[3];       /* its stdin, stdout, stderr: ours of that number; -1: /dev/null */
    bool own_group;  /* Ctrl-C is for us, and all signals are as by default */
    bool only_these; /* it gets no other descriptor, whatever flags that has */
    const char *dir; /* its current directory; NULL: ours */
};

/* posix_spawn(3). In a set-uid program the child's real user is our effective one, by setpriv
 * where there is one (Debian: util-linux). Else the dynamic linker would take TMPDIR from it, and what it asks by
 * access(2) would be answered for the caller: clang finds that it may not write its output. */
int rfg_spawn(pid_t *pid, const char *program, const struct rfg_start *how, const char *const *argv, char *const *env);

#endif
