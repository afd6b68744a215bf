/* SPDX-License-Identifier: MIT
 *
 * Windows of ranks on the cpu. */
#ifndef RFG_DISPATCH_COMM_CPU_H
#define RFG_DISPATCH_COMM_CPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where other processes find a window. number 0: they don't. */
struct comm_cpu_window {
    uint64_t number; /* a random one, which stands behind the window */
    int32_t process, file;
};

/* Zeroed memory, and where it is; NULL: there is none. */
void *rfg_comm_cpu_alloc(size_t size, struct comm_cpu_window *at);
void rfg_comm_cpu_free(void *window, size_t size, const struct comm_cpu_window *at);
/* Another process' window; NULL: it isn't there, or may not be opened. */
void *rfg_comm_cpu_open(size_t size, const struct comm_cpu_window *at);
void rfg_comm_cpu_close(void *window, size_t size);

#endif
