/* SPDX-License-Identifier: MIT */
#include "util.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

char *rfg_asprintf(const char *fmt, ...)
{
    char *s;
    va_list ap;
    va_start(ap, fmt);
    int n = vasprintf(&s, fmt, ap);
    va_end(ap);
    return n < 0 ? NULL : s;
}

bool rfg_mkdirs(const char *path)
{
    char *copy = strdup(path);
    if (!copy)
        return false;
    for (char *s = copy + 1; *s; s++)
        if (*s == '/') {
            *s = 0;
            mkdir(copy, 0700); /* a parent that can't be made fails the last mkdir too */
            *s = '/';
        }
    bool ok = mkdir(copy, 0700) == 0 || errno == EEXIST;
    struct stat st;
    if (ok && (stat(copy, &st) || !S_ISDIR(st.st_mode))) {
        errno = ENOTDIR;
        ok = false;
    }
    free(copy);
    return ok;
}

bool rfg_access(const char *path, int mode)
{
    return faccessat(AT_FDCWD, path, mode, AT_EACCESS) == 0;
}

char *rfg_absolute(const char *path)
{
    char here[PATH_MAX] = "";
    return *path != '/' && !getcwd(here, sizeof(here)) ? NULL : rfg_asprintf("%s%s%s", here, *here ? "/" : "", path);
}

char *rfg_xdg_dir(const char *env, const char *fallback)
{
    const char *dir = rfg_env(env), *home = rfg_env("HOME");
    if (dir && dir[0] == '/') /* the XDG specification: relative paths are to be ignored */
        return rfg_asprintf("%s/rfg", dir);
    return home ? rfg_asprintf("%s/%s/rfg", home, fallback) : NULL;
}

char *rfg_read_stream(FILE *f, size_t *size)
{
    char *data = NULL;
    size_t used = 0, room = 0;
    for (;;) {
        if (used + 1 >= room) {
            room = room ? room * 2 : 65536;
            char *more = realloc(data, room);
            if (!more)
                break;
            data = more;
        }
        size_t n = fread(data + used, 1, room - used - 1, f);
        used += n;
        if (n == 0) {
            if (ferror(f))
                break;
            data[used] = 0;
            if (size)
                *size = used;
            return data;
        }
    }
    int e = errno;
    free(data);
    errno = e;
    return NULL;
}

char *rfg_read_file(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rbe");
    if (!f)
        return NULL;
    char *data = rfg_read_stream(f, size);
    int e = errno;
    fclose(f);
    errno = e;
    return data;
}

struct text_stream {
    char **text;
    size_t *size, room;
};

static ssize_t add_text(void *cookie, const char *data, size_t n)
{
    struct text_stream *s = cookie;
    size_t need = *s->size + n + 1;
    if (need > s->room) {
        size_t room = 2 * need;
        char *more = realloc(*s->text, room);
        if (!more)
            return 0;
        *s->text = more;
        s->room = room;
    }
    memcpy(*s->text + *s->size, data, n);
    *s->size += n;
    (*s->text)[*s->size] = 0;
    return (ssize_t)n;
}

static int end_text(void *cookie)
{
    free(cookie);
    return 0;
}

FILE *rfg_text_stream(char **text, size_t *size)
{
    struct text_stream *s = malloc(sizeof(*s));
    *text = calloc(1, 1);
    *size = 0;
    FILE *f = s && *text ? fopencookie(s, "w", (cookie_io_functions_t){ .write = add_text, .close = end_text }) : NULL;
    if (!f) {
        free(*text);
        free(s);
        *text = NULL;
        return NULL;
    }
    *s = (struct text_stream){ text, size, 1 };
    return f;
}

size_t rfg_read_at(int fd, void *data, size_t size, uint64_t at)
{
    size_t done = 0;
    while (done < size) {
        ssize_t n = pread(fd, (char *)data + done, size - done, (off_t)(at + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            break;
        if (n == 0) {
            errno = 0;
            break;
        }
        done += (size_t)n;
    }
    return done;
}

bool rfg_write_all(int fd, const void *data, size_t size)
{
    for (const char *s = data; size;) {
        ssize_t n = write(fd, s, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        s += n;
        size -= (size_t)n;
    }
    return true;
}

double rfg_now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void rfg_sort(double *v, int n)
{
    qsort(v, (size_t)n, sizeof(*v), by_value);
}

double rfg_median(double *v, int n)
{
    rfg_sort(v, n);
    return v[n / 2];
}

uint64_t rfg_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

void rfg_date(char buf[24])
{
    time_t t = time(NULL);
    struct tm tm;
    gmtime_r(&t, &tm);
    strftime(buf, 24, "%Y-%m-%dT%H:%M:%SZ", &tm);
}

void rfg_sha256_hex(char hex[65], const char *const *parts, const size_t *sizes, int n)
{
    unsigned char md[32];
    unsigned len = 0;
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    bool ok = ctx && EVP_DigestInit_ex(ctx, EVP_sha256(), NULL);
    for (int i = 0; ok && i < n; i++) {
        uint64_t size = sizes[i];
        ok = EVP_DigestUpdate(ctx, &size, sizeof(size)) && EVP_DigestUpdate(ctx, parts[i], sizes[i]);
    }
    ok = ok && EVP_DigestFinal_ex(ctx, md, &len);
    EVP_MD_CTX_free(ctx);
    if (!ok)
        ERR_clear_error(); /* the caller has another message */
    hex[0] = 0;
    for (unsigned i = 0; ok && i < len; i++)
        sprintf(hex + 2 * i, "%02x", md[i]);
}
