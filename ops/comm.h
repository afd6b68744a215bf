/* SPDX-License-Identifier: MIT
 *
 * The collectives. They are joint operators (op.h): a problem of several devices can't be prepared on one. Tuned rows
 * say which kernel a message gets, as those of other operators do. A row is of bf16 and serves all dtypes. Their kernels
 * are made by plans; dispatch/comm.c launches them. It stands beside op.h, and not in comm/, since the dispatcher
 * includes no operator's folder. */
#ifndef RFG_OPS_COMM_H
#define RFG_OPS_COMM_H

#include "comm_args.h"
#include "op.h"
#include "rfg/comm.h"

/* Keys. Bytes of an all-reduce's message, of a rank's part else; of the kernels, which serve any: 0. */
enum { COMM_BYTES, COMM_RANKS, COMM_OVERLAP, COMM_NKEYS };

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
/* Sizes of messages that are told apart: powers of two from COMM_LEAST on; the last one is for what is larger, too. */
#define COMM_SIZES 17
#define COMM_LEAST 1024
/* Which of them a message has, and the problem of that size. */
int comm_size_of(int64_t bytes);
struct rfg_problem comm_problem(enum comm_op op, int ranks, int size);
/* What the model takes, where there is no row. */
void comm_choose(const struct rfg_device *dev, const struct rfg_problem *prob, struct comm_way *way);
/* Workgroups for n elements: one for each tile, of tiles and lines at most one a CU. They need not all be
 * resident: those that are wait for their like on other ranks, and all GPUs start them in order. shared: unless ranks
 * are on one GPU, which then holds all. */
int comm_groups(const struct rfg_device *dev, enum comm_op op, int ranks, int dtype, int64_t n, const int *p,
                bool shared);
/* The most elements of a launch. */
int64_t comm_most(enum comm_op op, int ranks, int dtype, const int *p);

#endif
