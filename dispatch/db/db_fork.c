/* SPDX-License-Identifier: MIT
 *
 * fork() and open databases: SQLite has locks of its own, which nobody releases in a child if another thread of the
 * parent held them. */
#include <pthread.h>

#include "db_internal.h"

static pthread_mutex_t opened_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER; /* one was closed; nobody waits to fork any more */
static struct rfg_db *opened;                             /* all that are open */
static int forks;                                         /* threads that wait to fork */

/* Has this thread one open, or another one? */
static bool any_open(bool of_this_thread)
{
    for (const struct rfg_db *db = opened; db; db = db->next)
        if ((pthread_equal(db->opener, pthread_self()) != 0) == of_this_thread)
            return true;
    return false;
}

void rfg_db_watch(struct rfg_db *db)
{
    pthread_mutex_lock(&opened_lock);
    while (forks && !any_open(true)) /* who has one already is waited for */
        pthread_cond_wait(&changed, &opened_lock);
    db->opener = pthread_self();
    db->next = opened;
    opened = db;
    pthread_mutex_unlock(&opened_lock);
}

void rfg_db_unwatch(struct rfg_db *db)
{
    pthread_mutex_lock(&opened_lock);
    struct rfg_db **at = &opened;
    while (*at != db)
        at = &(*at)->next;
    *at = db->next;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&opened_lock);
}

void rfg_db_before_fork(void)
{
    pthread_mutex_lock(&opened_lock);
    forks++;
    while (any_open(false))
        pthread_cond_wait(&changed, &opened_lock);
    forks--;
}

void rfg_db_after_fork(bool child)
{
    if (child) { /* whoever waits is the parent's */
        pthread_cond_init(&changed, NULL);
        forks = 0;
    } else
        pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&opened_lock);
}
