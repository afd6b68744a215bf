/* SPDX-License-Identifier: MIT
 *
 * What the mock NCCL was told (mock_nccl.c). */
#ifndef RFG_TESTS_MOCK_NCCL_H
#define RFG_TESTS_MOCK_NCCL_H

#include <stddef.h>

struct mock_nccl {
    int calls, fail_at; /* all calls but GetErrorString; the one that fails, from 1 */
    int alive;          /* communicators */
    int aborted, async; /* how many; what CommGetAsyncError() finds */
    const char *last;   /* the last operator */
    const void *send;
    void *receive, *stream;
    size_t count;
    int dtype, op, rank, ranks;
    char id[128]; /* of the newest communicator */
};
extern __attribute__((visibility("default"))) struct mock_nccl mock_nccl;

#endif
