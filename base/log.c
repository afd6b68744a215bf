/* SPDX-License-Identifier: MIT
 *
 * RFG_LOG and warnings. A line goes to stderr in one write, so that lines of threads and processes don't mix, or to the
 * function that the program has set. */
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "text.h"
#include "util.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static unsigned of_env;    /* topics of $RFG_LOG */
static atomic_uint topics; /* those that are on */

static struct {
    pthread_mutex_t lock; /* held while fn runs */
    rfg_log_fn fn;        /* NULL: stderr */
    void *user;
} callback = { .lock = PTHREAD_MUTEX_INITIALIZER };
static atomic_bool has_callback;

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

static void put(rfg_log_topic topic, const char *end, const char *fmt, va_list ap)
{
    const char *kind = topic == RFG_LOG_WARNING    ? "warning"
                       : topic == RFG_LOG_DISPATCH ? "dispatch"
                       : topic == RFG_LOG_CALLS    ? "calls"
                                                   : "jit";
    char line[1200];
    size_t n = (size_t)snprintf(line, sizeof(line), "rfg: %s: ", kind), room = sizeof(line) - strlen(end) - 1;
    vsnprintf(line + n, room - n, fmt, ap);
    rfg_escape(line, room);
    strcat(line, end);
    if (atomic_load(&has_callback)) {
        pthread_mutex_lock(&callback.lock);
        bool taken = callback.fn != NULL;
        if (taken)
            callback.fn(callback.user, topic, line + n);
        pthread_mutex_unlock(&callback.lock);
        if (taken)
            return;
    }
    fputs(strcat(line, "\n"), stderr);
}

/* How often this kind of warning came: the same one can come a million times. A kind is a place in the source, known by
 * its format string. */
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
    put(RFG_LOG_WARNING, end, fmt, ap);
    va_end(ap);
}

void rfg_warn_each(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    put(RFG_LOG_WARNING, "", fmt, ap);
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
            of_env |= names[i].bit;
        else if (len)
            rfg_warn("RFG_LOG: '%.*s' is not a topic: must be dispatch, calls, jit or all", (int)len, s);
        s += len + (s[len] == ',');
    }
    atomic_fetch_or(&topics, of_env);
}

/* A child must be able to log even if another thread of the parent held the lock. */
static void before_fork(void)
{
    pthread_mutex_lock(&callback.lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&callback.lock);
}

static void watch_forks(void)
{
    (void)pthread_atfork(before_fork, after_fork, after_fork);
}

void rfg_log_watch_forks(void)
{
    static pthread_once_t watched = PTHREAD_ONCE_INIT;
    pthread_once(&watched, watch_forks);
}

void rfg_set_log_callback(rfg_log_fn fn, void *user, unsigned wanted)
{
    rfg_log_watch_forks();
    pthread_mutex_lock(&callback.lock);
    callback.fn = fn;
    callback.user = user;
    atomic_store(&has_callback, fn != NULL);
    pthread_mutex_unlock(&callback.lock);
    pthread_once(&once, init);
    atomic_store(&topics, of_env | (fn ? wanted : 0));
}

bool rfg_log_on(rfg_log_topic topic)
{
    pthread_once(&once, init);
    return atomic_load_explicit(&topics, memory_order_relaxed) & topic;
}

void rfg_log(rfg_log_topic topic, const char *fmt, ...)
{
    if (!rfg_log_on(topic))
        return;
    va_list ap;
    va_start(ap, fmt);
    put(topic, "", fmt, ap);
    va_end(ap);
}
