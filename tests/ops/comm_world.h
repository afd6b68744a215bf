/* SPDX-License-Identifier: MIT
 *
 * Ranks of a communicator for tests, on the devices of $RFG_TEST_DEVICES (cpu, if it isn't set). The ranks of nvidia:0
 * are nvidia:0, nvidia:1...; where there is one GPU only, all are on it. Those of emu:ARCH:N have N CUs and more. Each
 * rank needs a thread. */
#ifndef RFG_TESTS_COMM_WORLD_H
#define RFG_TESTS_COMM_WORLD_H

#include <pthread.h>
#include <stdbool.h>

#include "ops/op.h"
#include "rfg/rfg.h"

struct rfg_jit_provider;

#define WORLD_MOST 8 /* ranks */

struct world {
    int ranks;
    rfg_context *ctx[WORLD_MOST];
    rfg_comm *comm[WORLD_MOST];
    rfg_stream stream[WORLD_MOST];
    pthread_barrier_t loaded, done; /* of the test */
};

extern char world_device[8][40];
extern int world_devices;

void world_read_devices(void);
bool world_is_emulated(const char *device);
void world_device_of_rank(const char *device, int rank, char name[60]);
void world_open(struct world *w, const char *device, int ranks, int timeout_ms);
void world_close(struct world *w);

/* A kernel compiles, and has registers enough. */
void world_compile(const struct rfg_device *dev, const struct rfg_jit_provider *prov, const struct rfg_problem *prob,
                   const struct rfg_variant *var, const int *p);

#endif
