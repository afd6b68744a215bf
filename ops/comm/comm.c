/* SPDX-License-Identifier: MIT
 *
 * The collectives: their tables, and which kernel a message gets. */
#include "ops/comm.h"

#include "ops/gpu.h"

static const struct rfg_key keys[COMM_NKEYS] = {
    [COMM_RANKS] = { "ranks", RFG_KEY_SIZE, 0, 1, COMM_MAX_RANKS, NULL, "ranks" },
    [COMM_OVERLAP] = RFG_KEY_OVERLAP,
};

static const struct rfg_op_operand operands[] = {
    { "x", false, RFG_FORMAT_LISTED, 0, 0 },
    { "y", true, RFG_FORMAT_LISTED, 1, 0 },
};

#define OP(name_, id_)                                                                                                 \
    static const struct rfg_op name_ = { .name = #name_,                                                               \
                                         .id = id_,                                                                    \
                                         .n_in = 1,                                                                    \
                                         .n_out = 1,                                                                   \
                                         .n_operands = 2,                                                              \
                                         .operands = operands,                                                         \
                                         .n_keys = COMM_NKEYS,                                                         \
                                         .keys = keys,                                                                 \
                                         .kargs_size = sizeof(struct comm_args),                                       \
                                         .head = offsetof(struct comm_args, workspace) }
OP(all_reduce, 100);
OP(reduce_scatter, 101);
OP(all_gather, 102);
const struct rfg_op *const comm_ops[COMM_OPS] = { &all_reduce, &reduce_scatter, &all_gather };

/* ---- which kernel ------------------------------------------------------------------------------------------------ */

static int below(int64_t n)
{
    int p = 1;
    while (2 * (int64_t)p <= n)
        p *= 2;
    return p;
}

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
    case COMM_BY_LINES: /* 7 threads of 8 */
        return p[COMM_P_THREADS] / 8 * 7;
    default:
        return p[COMM_P_THREADS];
    }
}

int comm_groups(const struct rfg_device *dev, enum comm_op op, int ranks, int dtype, int64_t n, const int *p,
                bool shared)
{
    int64_t tiles = (chunks_of(op, ranks, dtype, n, p) + tile_of(p) - 1) / tile_of(p);
    int at_once = p[COMM_P_BULK] ? dev->cu_count : 1 << COMM_TICKET_BITS;
    int most = below(MIN(shared ? MAX(dev->cu_count / ranks, 1) : at_once, 1 << COMM_TICKET_BITS));
    return tiles < 2 ? 1 : MIN(2 * below(tiles - 1), most);
}

int64_t comm_most(enum comm_op op, int ranks, int dtype, const int *p)
{
    const bool two = op == COMM_OP_REDUCE && p[COMM_P_TWO];
    int64_t bytes = COMM_PACKETS; /* of a rank's part, if there are parts */
    if (p[COMM_P_BULK] == COMM_BY_TILES)
        bytes = MIN(op == COMM_OP_REDUCE && !two ? COMM_BULK : COMM_PART(ranks), COMM_TILES * 16 * tile_of(p));
    else if (p[COMM_P_BULK] == COMM_BY_LINES)
        bytes = COMM_LINE_SLOT(two ? 2 : 1, ranks) / 8 * 7;
    return rfg_format_elements(dtype, two ? bytes * ranks : bytes);
}

enum { PACKETS, PACKETS_TWO, BULK_1, BULK_2, BULK_4, BULK_8, BULK_TWO, BULK_TWO_8, WAYS };
static const int ways[WAYS][COMM_NPARAMS] = {
    [PACKETS] = { 0, 0, 128, 1 },  [PACKETS_TWO] = { 1, 0, 128, 1 }, [BULK_1] = { 0, 1, 256, 2 },
    [BULK_2] = { 0, 1, 512, 2 },   [BULK_4] = { 0, 1, 1024, 2 },     [BULK_8] = { 0, 1, 1024, 4 },
    [BULK_TWO] = { 1, 1, 512, 2 }, [BULK_TWO_8] = { 1, 1, 1024, 4 },
};

/* Of two ranks, as measured on two H200 (docs/perf/comm.md): packets up to where the link carries their double in the
 * time of a fence and a flag; then tiles so large that each of 128 workgroups has one. Two ranks send as much in one
 * shot as in two.
 * Of more nothing was measured: a thread's registers hold fewer chunks of each rank. */
static int way_of(enum comm_op op, int ranks, int64_t bytes)
{
    const int64_t mib = 1 << 20;
    if (ranks > 2 && op == COMM_OP_REDUCE)
        return bytes <= (128 << 10) / (ranks / 2) ? PACKETS : bytes <= mib ? PACKETS_TWO : BULK_TWO;
    if (bytes <= mib / 2)
        return PACKETS;
    if (ranks > 2)
        return BULK_2;
    if (op == COMM_OP_REDUCE && bytes > 8 * mib)
        return BULK_TWO_8;
    return bytes <= mib ? BULK_1 : bytes <= 2 * mib ? BULK_2 : bytes <= 4 * mib ? BULK_4 : BULK_8;
}

void comm_choose(enum comm_op op, int ranks, int dtype, int64_t n, struct comm_way *way)
{
    memcpy(way->p, ways[way_of(op, ranks, rfg_format_bytes(dtype, n))], sizeof(way->p));
    way->groups = 0;
}

bool comm_way(enum comm_op op, int ranks, int i, struct comm_way *way)
{
    unsigned used = 0; /* bits of ways */
    way->groups = 0;
    for (int64_t bytes = 1024; bytes <= 2 * COMM_BULK; bytes *= 2)
        used |= 1u << way_of(op, ranks, bytes);
    for (int w = 0; w < WAYS; w++)
        if (used >> w & 1 && !i--) {
            memcpy(way->p, ways[w], sizeof(way->p));
            return true;
        }
    return false;
}
