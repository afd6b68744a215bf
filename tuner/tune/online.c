/* SPDX-License-Identifier: MIT
 *
 * rfg-tune --online: tunes beside an engine (dispatch/online.c) that uses the same device. It has low priority, uses
 * the device within a budget, tunes misses until none are left, and ends with the engine. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/trust.h"
#include "base/util.h"
#include "tune.h"

#define END_WITHIN 10 /* seconds after the engine's end; what holds us longer is cut off */

/* ---- the engine
 * ------------------------------------------------------------------------------------------------------
 */

/* PR_SET_PDEATHSIG would end us with the engine's thread that started us, not with the engine. */
static void *watch(void *parent)
{
    while (getppid() == (pid_t)(intptr_t)parent)
        nanosleep(&(struct timespec){ .tv_nsec = 200000000 }, NULL);
    tune_stop = SIGTERM;
    nanosleep(&(struct timespec){ .tv_sec = END_WITHIN }, NULL);
    _exit(TUNE_EXIT_SIGNAL + SIGTERM); /* a row is written as a whole, or not at all */
}

/* The lock on DB.tuning; an engine's tuner got it with its stderr. -1: another tuner has it. */
static int lock(const char *db)
{
    struct rfg_reason why = { "" };
    char *path = rfg_asprintf("%s.tuning", db);
    int fd = path ? rfg_open_own_file(AT_FDCWD, path, O_RDWR | O_CREAT, &why) : -1;
    bool held = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (!held)
        fprintf(stderr, "rfg-tune: --online: %s: %s\n", path ? path : db,
                fd < 0 ? why.text : "another online tuner is at work on this database");
    if (!held && fd >= 0)
        close(fd);
    free(path);
    return held ? fd : -1;
}

bool tune_online_begin(struct tune *t, const char *db)
{
    pthread_t thread;
    tune_pace_begin(&t->pace, t->opt.online_ms);
    (void)setpriority(PRIO_PROCESS, 0, 19);
    if (!t->opt.engine)
        return lock(db) >= 0; /* held until the end */
    bool ok = pthread_create(&thread, NULL, watch, (void *)(intptr_t)t->opt.engine) == 0;
    if (ok)
        pthread_detach(thread);
    else
        fprintf(stderr, "rfg-tune: --engine: no thread to watch it\n");
    return ok;
}

/* ---- the run ----------------------------------------------------------------------------------------------------- */

/* Drops misses that have a row by now: the engine went on counting until it used the row. Online tuning's own rows are
 * provisional. */
static void leave_out_tuned(struct tune *t, struct tune_shape *s)
{
    bool tuned =
        s->state == SHAPE_CURRENT || (s->state == SHAPE_WAITING && s->had_row && s->row.how == RFG_SOURCE_PROVISIONAL &&
                                      tune_row_is_current(t, s, &s->row));
    if (!tuned)
        return;
    s->state = SHAPE_CURRENT;
    if (rfg_db_clear_miss(t->db, &s->problem, t->dev.arch, t->dev.cu_count) != RFG_OK)
        tune_say("the miss of %s is not cleared: %s", s->text, rfg_last_error());
}

bool tune_online_run(struct tune *t)
{
    bool ok = true;
    for (int from = 0, n = t->n_shapes; ok && from < n; from = n, n = t->n_shapes) {
        for (int i = from; i < n && !tune_is_over(t); i++) {
            if (from) /* the first ones were looked up */
                tune_look_up_shape(t, &t->shapes[i]);
            leave_out_tuned(t, &t->shapes[i]);
        }
        ok = tune_batches(t, from, n);
        /* Its shapes may move now; and between two rounds its memory on the device is the engine's. */
        tune_child_destroy(&t->child);
        if (!ok || tune_is_over(t) || t->gave_up)
            break;
        ok = tune_read_misses(t) < 0; /* what the engine has missed since: at the end of the list */
    }
    tune_rest(t); /* what follows, another tuner, begins with nothing owed */
    tune_say("online: used the device for %.3f s in %d slices, the longest %.3f s, and stayed away for %.1f s (%d ms a "
             "minute)",
             t->pace.busy_s, t->pace.slices, t->pace.longest_s, t->pace.paused_s, t->opt.online_ms);
    return ok;
}
