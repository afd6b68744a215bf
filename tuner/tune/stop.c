/* SPDX-License-Identifier: MIT
 *
 * rfg-tune: when to stop, and when to stay away from the device. */
#include <time.h>
#include <unistd.h>

#include "base/util.h"
#include "tune.h"

volatile sig_atomic_t tune_stop;

static void on_signal(int sig)
{
    static const char again[] = "\nrfg-tune: stopped at once\n";
    if (tune_stop) {
        ssize_t n = write(2, again, sizeof(again) - 1);
        (void)n;
        _exit(TUNE_EXIT_SIGNAL + sig);
    }
    tune_stop = sig;
}

void tune_catch_signals(void)
{
    struct sigaction sa = { .sa_handler = on_signal };
    sigaction(SIGINT, &sa, NULL);
    sigaction(SIGTERM, &sa, NULL);
    signal(SIGPIPE, SIG_IGN); /* a measuring process that died is noticed by other means */
}

bool tune_is_over(struct tune *t)
{
    t->out_of_time |= t->opt.time_budget > 0 && rfg_now() - t->started > t->opt.time_budget;
    return t->out_of_time || tune_stop;
}

double tune_now(const struct tune *t)
{
    return rfg_now() - t->pace.paused_s;
}

bool tune_rest(struct tune *t)
{
    while (t->pace.owed_s > 0 && !tune_stop) {
        double start = rfg_now(), s = t->pace.owed_s < 0.1 ? t->pace.owed_s : 0.1;
        nanosleep(&(struct timespec){ .tv_nsec = (long)(s * 1e9) }, NULL);
        tune_pace_rested(&t->pace, rfg_now() - start);
    }
    return !tune_stop;
}
