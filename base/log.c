/* SPDX-License-Identifier: MIT
 *
 * RFG_LOG and warnings: whole lines to stderr in one write, so that threads and processes don't mix theirs. */
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "text.h"
#include "util.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static unsigned topics;

static const struct {
    const char *name;
    unsigned bit;
} names[] = {
    { "dispatch", RFG_LOG_DISPATCH },
    { "calls", RFG_LOG_CALLS },
    { "jit", RFG_LOG_JIT },
    { "all", RFG_LOG_DISPATCH | RFG_LOG_CALLS | RFG_LOG_JIT },
};
#define N_NAMES (sizeof(names) / sizeof(names[0]))

static void put(const char *kind, const char *end, const char *fmt, va_list ap)
{
    char line[1200];
    size_t n = (size_t)snprintf(line, sizeof(line), "rfg: %s: ", kind), room = sizeof(line) - strlen(end) - 1;
    vsnprintf(line + n, room - n, fmt, ap);
    rfg_escape(line, room);
    strcat(strcat(line, end), "\n");
    fputs(line, stderr);
}

/* A bad file or a bad day can bring the same warning a million times. How often this one came; a kind is a place in
 * the source, known by its format. */
static uint64_t count(const char *fmt)
{
    static struct {
        const char *fmt;
        uint64_t n;
    } kinds[64];
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    uint64_t n = 1; /* more kinds than there are: said each time */
    pthread_mutex_lock(&mutex);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (!kinds[i].fmt || kinds[i].fmt == fmt) {
            kinds[i].fmt = fmt;
            n = ++kinds[i].n;
            break;
        }
    pthread_mutex_unlock(&mutex);
    return n;
}

void rfg_warn(const char *fmt, ...)
{
    char end[80] = "";
    uint64_t n = count(fmt), left = n;
    while (left % 10 == 0)
        left /= 10;
    if (n > RFG_WARNINGS_OF_A_KIND && left != 1)
        return;
    if (n >= RFG_WARNINGS_OF_A_KIND)
        snprintf(end, sizeof(end), " (number %" PRIu64 " of this kind: not all are shown from here on)", n);
    va_list ap;
    va_start(ap, fmt);
    put("warning", end, fmt, ap);
    va_end(ap);
}

void rfg_warn_each(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    put("warning", "", fmt, ap);
    va_end(ap);
}

void rfg_print(FILE *f, const char *fmt, ...)
{
    char *text;
    va_list ap;
    va_start(ap, fmt);
    int n = vasprintf(&text, fmt, ap);
    va_end(ap);
    size_t size = n < 0 ? 0 : 4 * (size_t)n + 1; /* every byte as \xNN */
    char *wide = size ? realloc(text, size) : NULL;
    if (!wide) {
        if (n >= 0)
            free(text);
        return;
    }
    int lines = 0;
    for (; n > 0 && wide[n - 1] == '\n'; lines++)
        wide[--n] = 0;
    rfg_escape(wide, size);
    fputs(wide, f);
    while (lines--)
        putc('\n', f);
    free(wide);
}

static void init(void)
{
    const char *env = rfg_env("RFG_LOG");
    for (const char *s = env; s && *s;) {
        size_t len = strcspn(s, ","), i = 0;
        while (i < N_NAMES && (strlen(names[i].name) != len || strncmp(s, names[i].name, len)))
            i++;
        if (i < N_NAMES)
            topics |= names[i].bit;
        else if (len)
            rfg_warn("RFG_LOG: '%.*s' is not a topic: must be dispatch, calls, jit or all", (int)len, s);
        s += len + (s[len] == ',');
    }
}

bool rfg_log_on(enum rfg_log_topic topic)
{
    pthread_once(&once, init);
    return topics & topic;
}

void rfg_log(enum rfg_log_topic topic, const char *fmt, ...)
{
    if (!rfg_log_on(topic))
        return;
    const char *kind = topic == RFG_LOG_DISPATCH ? "dispatch" : topic == RFG_LOG_CALLS ? "calls" : "jit";
    va_list ap;
    va_start(ap, fmt);
    put(kind, "", fmt, ap);
    va_end(ap);
}
