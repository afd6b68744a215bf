/* SPDX-License-Identifier: MIT
 *
 * Progress of the sweep: on a terminal one line that is rewritten, elsewhere a line per shape. */
#include <math.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/util.h"
#include "tune.h"

static bool line_shown;

static bool on_terminal(void)
{
    static int answer = -1;
    const char *term = rfg_env("TERM");
    if (answer < 0)
        answer = isatty(2) && term && strcmp(term, "dumb");
    return answer;
}

void tune_progress_clear(void)
{
    if (line_shown)
        fputs("\r\033[K", stderr);
    line_shown = false;
}

void tune_say(const char *fmt, ...)
{
    va_list ap;
    tune_progress_clear();
    fputs("rfg-tune: ", stderr);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
}

static void format_seconds(double s, char *buf, size_t size)
{
    long n = (long)(s + 0.5);
    if (n >= 3600)
        snprintf(buf, size, "%ld:%02ld:%02ld", n / 3600, n / 60 % 60, n % 60);
    else
        snprintf(buf, size, "%ld:%02ld", n / 60, n % 60);
}

/* A shape's likely time, relative to others: part of the work is constant, part grows with the problem. */
static double effort(const struct tune_shape *s)
{
    return 300 + s->floor_us;
}

/* Shapes that need tuning: how many there are, which one this is, and the seconds that are left; -1: unknown. */
static double count(const struct tune *t, const struct tune_shape *now, int *at, int *all)
{
    double seconds = 0, spent = 0, left = 0;
    *at = *all = 0;
    for (int i = 0; i < t->n_shapes; i++) {
        const struct tune_shape *s = &t->shapes[i];
        bool done = s->state == SHAPE_TUNED || (s->state == SHAPE_FAILED && s->seconds > 0);
        if (!done && s->state != SHAPE_WAITING)
            continue;
        ++*all;
        if (s == now)
            *at = *all;
        if (done) {
            seconds += s->seconds;
            spent += effort(s);
        } else
            left += effort(s);
    }
    return spent > 0 ? seconds / spent * left : -1;
}

void tune_progress_update(const struct tune *t, const struct tune_shape *s, int tried, double best_us,
                          const char *doing)
{
    static double last;
    double now = rfg_now();
    int at, all, done, failed, jobs;
    char eta[32] = "?", best[32] = "", compiles[48] = "", line[RFG_PROBLEM_STRLEN + 300];
    struct winsize w = { 0 };
    if (!on_terminal() || now - last < 0.1)
        return;
    last = now;
    double left = count(t, s, &at, &all);
    if (left >= 0)
        format_seconds(left, eta, sizeof(eta));
    if (isfinite(best_us))
        snprintf(best, sizeof(best), ", best %.2f us", best_us);
    tune_compiler_count(t->compiler, &done, &failed, &jobs);
    if (done < jobs)
        snprintf(compiles, sizeof(compiles), ", %d/%d compiled", done, jobs);
    snprintf(line, sizeof(line), "[%d/%d] %s  %d/%d%s%s%s%s, ETA %s", at, all, s->text, tried, s->n, best,
             *doing ? ", " : "", doing, compiles, eta);
    int columns = ioctl(2, TIOCGWINSZ, &w) == 0 && w.ws_col > 1 ? w.ws_col - 1 : 79;
    fprintf(stderr, "\r%.*s\033[K", columns, line);
    fflush(stderr);
    line_shown = true;
}

void tune_progress_done(const struct tune *t, const struct tune_shape *s)
{
    int at, all;
    char config[RFG_CONFIG_STRLEN], eta[32];
    format_seconds(count(t, s, &at, &all), eta, sizeof(eta));
    if (on_terminal() && s->state == SHAPE_TUNED)
        return; /* the table has it; failures are worth a line that stays */
    tune_progress_clear();
    if (s->state == SHAPE_TUNED)
        fprintf(stderr, "[%d/%d] %s: %.2f us %s, %d tried, %.1f s, ETA %s\n", at, all, s->text, s->row.median_us,
                rfg_row_config(&s->row, config, sizeof(config)), s->tried, s->seconds, eta);
    else
        fprintf(stderr, "[%d/%d] %s: failed: %s\n", at, all, s->text, s->why);
}
