/* SPDX-License-Identifier: MIT
 *
 * The files of the code cache, <dir>/<target>/<key>.rfgco, and the locks beside them. All by names that are exactly
 * ours in directories that are ours alone (trust.h): nothing else is opened, believed or deleted. */
#ifndef RFG_DISPATCH_CACHE_DISK_H
#define RFG_DISPATCH_CACHE_DISK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

#include "jit.h"

#define RFG_CACHE_KEY_LEN 64

/* The open directory of a target's code objects; made if it is missing. The whole way to it is looked at each time:
 * somebody may have deleted it or put another in its place since. -1: why. */
int rfg_disk_open(const char *cache_dir, const char *target, struct rfg_reason *why);

enum rfg_disk_read { RFG_DISK_HIT, RFG_DISK_MISS, RFG_DISK_DAMAGED /* and deleted */, RFG_DISK_REFUSED };
/* why: what was wrong with it. */
enum rfg_disk_read rfg_disk_read(int dir, const char *key, struct rfg_blob *code, struct rfg_reason *why);
void rfg_disk_delete(int dir, const char *key);
/* Returns the file's size, 0 with errno. */
uint64_t rfg_disk_write(int dir, const char *key, const struct rfg_blob *code);

/* One compile a key among processes. Who has the lock compiles and gives signs of life; the others wait for as long as
 * there are some. */
struct rfg_disk_lock {
    int fd; /* -1: not locked */
    bool beating, done;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t cond;
};
enum rfg_disk_lock_result {
    RFG_DISK_LOCKED,
    RFG_DISK_FREED,  /* its holder is through: look on the disk, and compile without a lock if nothing is there */
    RFG_DISK_SILENT, /* for `patience` seconds its holder gave no sign of life: compile without it */
    RFG_DISK_NO_LOCK /* there is none to be had: why */
};
enum rfg_disk_lock_result rfg_disk_lock(struct rfg_disk_lock *lock, int dir, const char *key, double patience,
                                        struct rfg_reason *why);
void rfg_disk_unlock(struct rfg_disk_lock *lock, int dir, const char *key);

/* Deletes what crashed processes left and, if the code objects of all targets are more than max_bytes together, the
 * least recently used ones down to nine tenths of it. Returns how many bytes are left. */
uint64_t rfg_disk_evict(const char *cache_dir, uint64_t max_bytes, uint64_t *evicted);

#endif
