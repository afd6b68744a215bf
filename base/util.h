/* SPDX-License-Identifier: MIT
 *
 * Small helpers for files, paths and strings. */
#ifndef RFG_DISPATCH_UTIL_H
#define RFG_DISPATCH_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "env.h"

/* printf into a malloc'ed string; aborts nothing: NULL if there is no memory. */
__attribute__((format(printf, 1, 2))) char *rfg_asprintf(const char *fmt, ...);

/* mkdir -p; what is made is the user's alone (0700). */
bool rfg_mkdirs(const char *path);

/* access(2) with the rights of the effective user, who may not be the one who started the program. False: errno says
 * why. */
bool rfg_access(const char *path, int mode);

/* The path from the root on, links and all; malloc'ed. */
char *rfg_absolute(const char *path);

/* $XDG_<kind>_HOME/rfg or $HOME/<fallback>/rfg; malloc'ed; NULL if there is no home. */
char *rfg_xdg_dir(const char *env, const char *fallback);

/* The whole file, NUL-terminated (the NUL isn't counted); NULL with errno. */
char *rfg_read_file(const char *path, size_t *size);
char *rfg_read_stream(FILE *f, size_t *size);

/* open_memstream(3) that tells when memory ran out: ferror() or fclose() does. (glibc's drops what has no room.) *text is
 * to free(), NULL without memory; both are valid after fflush() and fclose(). */
FILE *rfg_text_stream(char **text, size_t *size);

/* Reads size bytes from there on; how many there were, fewer at the file's end (errno is 0) or after an error. */
size_t rfg_read_at(int fd, void *data, size_t size, uint64_t at);
/* Writes all of data, or false. */
bool rfg_write_all(int fd, const void *data, size_t size);

/* Seconds, monotonic. */
double rfg_now(void);

void rfg_sort(double *v, int n);
/* Sorts v; n > 0. */
double rfg_median(double *v, int n);

/* splitmix64, for seeds that are printed and accepted back. */
uint64_t rfg_random(uint64_t *state);

/* "2026-11-21T03:40:00Z" */
void rfg_date(char buf[24]);

/* Hex SHA-256 over n parts, each preceded by its length, so that no two lists of parts look alike. ""
 * without memory. */
void rfg_sha256_hex(char hex[65], const char *const *parts, const size_t *sizes, int n);

#endif
