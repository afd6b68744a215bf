/* SPDX-License-Identifier: MIT
 *
 * A mock HIP runtime: two gfx90a with host memory. It counts every object and computes gemm kernels in plain C. For
 * tests of everything around the kernels. */
#ifndef RFG_TESTS_FAKEHIP_H
#define RFG_TESTS_FAKEHIP_H

#include "dispatch/hip/hip.h"

const struct rfg_hip *fakehip(void);
/* The same as two H200 that run gfx90a's code: launches may overlap, and take a time that is simulated; more than 48
 * KiB of LDS must have been allowed. A process has one or the other. */
const struct rfg_hip *fakehip_nvidia(void);
/* From so many columns of a gemm on, overlapping launches are slower than plain ones. */
#define FAKEHIP_MANY_COLUMNS 512

/* What lives: "" if nothing, else "2 allocations, 1 module". Returns buf. */
char *fakehip_live(char *buf, size_t size);
/* Misuse so far: unknown or destroyed handles, addresses that are no allocation's, work that a capture forbids. The
 * first is said in the text; NULL: none. */
const char *fakehip_misuse(void);
void fakehip_forgive(void);
/* Kernels that ran or were captured; those of them that were split along k. */
int fakehip_launches(void);
int fakehip_splits(void);
int fakehip_overlapped(void);

/* How devices reach each other's memory; all of it to begin with. What was enabled isn't any more. */
struct fakehip_peers {
    bool uncached; /* hipExtMallocWithFlags() knows FAKEHIP_UNCACHED */
    bool reach;    /* devices reach each other */
    bool ipc;      /* memory can be given to other processes */
};
#define FAKEHIP_UNCACHED 3 /* hipDeviceMallocUncached */
void fakehip_peers(const struct fakehip_peers *are);

/* The dtypes of the gemm kernels' operands: code objects don't tell. */
void fakehip_gemm_dtypes(rfg_dtype in, rfg_dtype out);

/* From now on events count what the kernels of ops/calibrate take on a device of these numbers; others
 * take latency_us. */
void fakehip_speed(double mem_gbps, double cache_gbps, double latency_us, double load_us, double sync_us);
/* From now on a replay takes so much more at its end. */
void fakehip_tail(double us);
/* Replays so far. */
int fakehip_replays(void);
#define FAKEHIP_WARM_UP_MS 3

#endif
