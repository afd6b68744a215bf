/* SPDX-License-Identifier: MIT
 *
 * The collectives: their tables, and what follows from a message. */
#include "ops/comm.h"

#include "lines_layout.h"
#include "ops/gpu.h"
#include "ops/operand.h"

static const struct rfg_key keys[COMM_NKEYS] = {
    [COMM_BYTES] = { "bytes", RFG_KEY_SIZE, 0, 1, RFG_MAX_SIZE, NULL,
                     "of an all-reduce's message, of a rank's part else" },
    [COMM_RANKS] = { "ranks", RFG_KEY_SIZE, 0, 1, COMM_MAX_RANKS, NULL, "ranks" },
    [COMM_OVERLAP] = RFG_KEY_OVERLAP,
};

static const struct rfg_op_operand operands[] = {
    { "x", false, RFG_FORMAT_LISTED, 0, 0 },
    { "y", true, RFG_FORMAT_LISTED, 1, 0 },
};

/* Rows are of bf16: what of a dtype counts is its bytes. */
static bool valid(const struct rfg_problem *prob, struct rfg_reason *why)
{
    if (prob->dtype[0] != RFG_BF16 || prob->dtype[1] != RFG_BF16)
        return rfg_refuse(why, "%s: dtypes: must be bf16->bf16, which stands for all", prob->op->name);
    return true;
}

/* Over a rank's link. */
static void cost(const struct rfg_problem *prob, double *bytes, double *flops)
{
    const double size = (double)prob->v[COMM_BYTES], peers = (double)prob->v[COMM_RANKS] - 1;
    *bytes = prob->op == comm_ops[COMM_OP_REDUCE] ? 2 * size * peers / (peers + 1) : size * peers;
    *flops = MAX(size / 2 * peers, 1);
}

#define OP(name_, id_)                                                                                                 \
    static const struct rfg_op name_ = { .name = #name_,                                                               \
                                         .id = id_,                                                                    \
                                         .n_in = 1,                                                                    \
                                         .n_out = 1,                                                                   \
                                         .n_operands = 2,                                                              \
                                         .operands = operands,                                                         \
                                         .n_keys = COMM_NKEYS,                                                         \
                                         .keys = keys,                                                                 \
                                         .column_key = { "bytes", "ranks" },                                           \
                                         .joint = true,                                                                \
                                         .valid = valid,                                                               \
                                         .cost = cost,                                                                 \
                                         .kargs_size = sizeof(struct comm_args),                                       \
                                         .head = offsetof(struct comm_args, workspace) }
OP(all_reduce, 100);
OP(reduce_scatter, 101);
OP(all_gather, 102);
const struct rfg_op *const comm_ops[COMM_OPS] = { &all_reduce, &reduce_scatter, &all_gather };
const struct rfg_op *const rfg_joint_ops[] = { &all_reduce, &reduce_scatter, &all_gather, NULL };

/* ---- which kernel ------------------------------------------------------------------------------------------------ */

/* Chunks of 16 bytes of the longest part that a thread goes through. */
static int64_t chunks_of(enum comm_op op, int ranks, int dtype, int64_t n, const int *p)
{
    int64_t chunks = (n + rfg_format_elements(dtype, 16) - 1) / rfg_format_elements(dtype, 16);
    return op == COMM_OP_REDUCE && p[COMM_P_TWO] ? (chunks + ranks - 1) / ranks : chunks;
}

static int64_t tile_of(const int *p)
{
    switch (p[COMM_P_BULK]) {
    case COMM_BY_TILES:
        return p[COMM_P_THREADS] * p[COMM_P_UNROLL];
    case COMM_BY_LINES: /* 15 of 16 bytes */
        return p[COMM_P_THREADS] / 16 * 15;
    default:
        return p[COMM_P_THREADS];
    }
}

int comm_groups(const struct rfg_device *dev, enum comm_op op, int ranks, int dtype, int64_t n, const int *p,
                bool shared)
{
    int64_t tiles = (chunks_of(op, ranks, dtype, n, p) + tile_of(p) - 1) / tile_of(p);
    int at_once = p[COMM_P_BULK] ? dev->cu_count : 1 << COMM_TICKET_BITS;
    int most = MIN(shared ? MAX(dev->cu_count / ranks, 1) : at_once, 1 << COMM_TICKET_BITS);
    return MAX(MIN(tiles, most), 1);
}

int64_t comm_most(enum comm_op op, int ranks, int dtype, const int *p)
{
    const bool two = op == COMM_OP_REDUCE && p[COMM_P_TWO];
    int64_t bytes = COMM_PACKETS; /* of a rank's part, if there are parts */
    if (p[COMM_P_BULK] == COMM_BY_TILES)
        bytes = MIN(op == COMM_OP_REDUCE && !two ? COMM_BULK : COMM_PART(ranks), COMM_TILES * 16 * tile_of(p));
    else if (p[COMM_P_BULK] == COMM_BY_LINES)
        bytes = COMM_LINE_SLOT(two ? 2 : 1, ranks) / 16 * 15;
    return rfg_format_elements(dtype, two ? bytes * ranks : bytes);
}

int comm_size_of(int64_t bytes)
{
    int size = 0;
    while (size < COMM_SIZES - 1 && bytes > (int64_t)COMM_LEAST << size)
        size++;
    return size;
}

struct rfg_problem comm_problem(enum comm_op op, int ranks, int size)
{
    struct rfg_problem prob;
    rfg_problem_init(&prob, comm_ops[op]);
    prob.dtype[0] = prob.dtype[1] = RFG_BF16;
    prob.v[COMM_BYTES] = (int64_t)COMM_LEAST << size;
    prob.v[COMM_RANKS] = ranks;
    return prob;
}
