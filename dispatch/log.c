/* SPDX-License-Identifier: MIT
 *
 * RFG_LOG and warnings: whole lines to stderr in one write, so that threads and processes don't mix theirs. */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "context.h"
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

static void put(const char *kind, const char *fmt, va_list ap)
{
    char line[1200];
    int n = snprintf(line, sizeof(line), "rfg: %s: ", kind);
    vsnprintf(line + n, sizeof(line) - (size_t)n - 1, fmt, ap);
    strcat(line, "\n");
    fputs(line, stderr);
}

void rfg_warn(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    put("warning", fmt, ap);
    va_end(ap);
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
    put(kind, fmt, ap);
    va_end(ap);
}
