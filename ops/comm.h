/* SPDX-License-Identifier: MIT
 *
 * The collectives. They are no operators of the registry: a problem of several devices can be neither prepared nor
 * tuned on one. Their kernels are made by plans, as all; dispatch/comm.c launches them. It stands beside op.h, and not in
 * comm/, since the dispatcher includes no operator's folder. */
#ifndef RFG_OPS_COMM_H
#define RFG_OPS_COMM_H

#include "comm_args.h"
#include "op.h"
#include "rfg/comm.h"

/* Keys. */
enum { COMM_RANKS, COMM_OVERLAP, COMM_NKEYS };

/* Parameters of the kernel. threads and unroll: comm.hip. */
enum { COMM_P_TWO, COMM_P_BULK, COMM_P_THREADS, COMM_P_UNROLL, COMM_NPARAMS };

enum { COMM_BY_PACKETS, COMM_BY_TILES, COMM_BY_LINES }; /* COMM_P_BULK: comm.hip */

enum comm_op { COMM_OP_REDUCE, COMM_OP_SCATTER, COMM_OP_GATHER, COMM_OPS };
extern const struct rfg_op *const comm_ops[COMM_OPS];

/* gpu.c, cpu.c: of all three. */
extern const struct rfg_variant comm_push, comm_cpu;

/* A kernel and the workgroups of a launch; 0: as many as comm_groups() says. */
struct comm_way {
    int p[COMM_NPARAMS];
    int groups;
};
/* The kernel for a message: n elements of an all-reduce, of a rank's part else. */
void comm_choose(enum comm_op op, int ranks, int dtype, int64_t n, struct comm_way *way);
/* The i-th way that comm_choose() may give; false: there are no more. */
bool comm_way(enum comm_op op, int ranks, int i, struct comm_way *way);
/* Workgroups for n elements, a power of two: one for each tile, of bulk data at most one a CU. They need not all be
 * resident: those that are wait for their like on other ranks, and all GPUs start them in order. shared: unless ranks
 * are on one GPU, which then holds all. */
int comm_groups(const struct rfg_device *dev, enum comm_op op, int ranks, int dtype, int64_t n, const int *p,
                bool shared);
/* The most elements of a launch. */
int64_t comm_most(enum comm_op op, int ranks, int dtype, const int *p);

#endif
