/* SPDX-License-Identifier: MIT */
#include "cache_case.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/tempdir.h"
#include "base/util.h"

static struct rfg_tempdir tmp;
char *root, dir[512], *warned;
static char tally[512];
bool cache_hang;
const char *cache_version = "fake 1.0", *cache_options[] = { "-O3", NULL };

static bool fake_available(char *version, size_t size, struct rfg_reason *why)
{
    (void)why;
    snprintf(version, size, "%s", cache_version);
    return true;
}

static bool fake_has_target(const char *target)
{
    return !strncmp(target, "test", 4);
}

/* One byte a call goes to the tally. The code object is the source, 16 times over. */
static rfg_status fake_compile(const struct rfg_jit_request *req, struct rfg_blob *code, char **log)
{
    int fd = open(tally, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    ck_assert_int_eq(write(fd, "x", 1), 1);
    close(fd);
    if (strstr(req->source, "long"))
        nanosleep(&(struct timespec){ .tv_sec = 4 }, NULL);
    if (strstr(req->source, "slow"))
        nanosleep(&(struct timespec){ .tv_nsec = 100000000 }, NULL);
    while (strstr(req->source, "forever") && cache_hang)
        pause();
    if (strstr(req->source, "bad")) {
        *log = strdup("rfg.hip:1: error: bad\n");
        return rfg_fail(RFG_ERROR_COMPILE, "%s: error: bad", req->name);
    }
    size_t n = strlen(req->source);
    *code = (struct rfg_blob){ malloc(16 * n), 16 * n };
    for (size_t i = 0; i < 16; i++)
        memcpy((char *)code->data + i * n, req->source, n);
    return RFG_OK;
}

static const struct rfg_jit_provider fake = {
    .name = "fake",
    .options = cache_options,
    .available = fake_available,
    .has_target = fake_has_target,
    .compile = fake_compile,
};
const struct rfg_jit_provider *const cache_provider = &fake;

size_t compiles(void)
{
    struct stat st;
    return stat(tally, &st) ? 0 : (size_t)st.st_size;
}

void cache_setup(void)
{
    ck_assert(rfg_tempdir_make(&tmp, NULL));
    root = tmp.path;
    snprintf(dir, sizeof(dir), "%s/cache", root);
    snprintf(tally, sizeof(tally), "%s/tally", root);
    rfg_jit_extra_provider = &fake;
}

void cache_teardown(void)
{
    rfg_tempdir_remove(&tmp);
    free(warned);
    warned = NULL;
}

struct rfg_jit_request request(const char *source)
{
    return (struct rfg_jit_request){ .name = "v{a=1}", .entry = "k", .target = "test1", .source = source };
}

rfg_status get(struct rfg_cache *c, const char *source)
{
    struct rfg_jit_request req = request(source);
    const struct rfg_blob *code;
    rfg_status st = rfg_cache_get(c, &req, NULL, NULL, &code);
    if (st == RFG_OK) {
        size_t n = strlen(source);
        ck_assert_uint_eq(code->size, 16 * n);
        for (size_t i = 0; i < 16; i++)
            ck_assert_int_eq(memcmp((char *)code->data + i * n, source, n), 0);
    } else {
        ck_assert_ptr_null(code);
    }
    return st;
}

/* In a fresh cache over the same directory; returns its statistics. */
struct rfg_cache_stats get_fresh(const char *source)
{
    struct rfg_cache *c = rfg_cache_open(dir, 0);
    ck_assert_int_eq(get(c, source), RFG_OK);
    struct rfg_cache_stats s;
    rfg_cache_get_stats(c, &s);
    rfg_cache_close(&c);
    ck_assert_ptr_null(c);
    return s;
}

char *file_of(const char *source)
{
    struct rfg_jit_request req = request(source);
    char key[65];
    rfg_cache_key(&req, &fake, key);
    return rfg_asprintf("%s/test1/%s.rfgco", dir, key);
}

int warnings_of(void (*fn)(void), const char *prefix)
{
    char path[600], start[100];
    snprintf(path, sizeof(path), "%s/stderr", root);
    snprintf(start, sizeof(start), "rfg: warning: %s", prefix);
    fflush(stderr);
    int saved = dup(2), fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
    dup2(fd, 2);
    fn();
    fflush(stderr);
    dup2(saved, 2);
    close(saved);
    close(fd);
    free(warned);
    warned = rfg_read_file(path, NULL);
    int n = 0;
    for (char *s = warned; (s = strstr(s, start)); s++)
        n++;
    return n;
}
