/* SPDX-License-Identifier: MIT
 *
 * What the cpu's variants (cpu.c) and their running (cpu_run.c) share. */
#ifndef RFG_OPS_GEMM_CPU_RUN_H
#define RFG_OPS_GEMM_CPU_RUN_H

#include "ops/cpu/pool.h"
#include "cpu_kernels.h"
#include "ops/gemm/gemm.h"

#define MAX_TILE 128 /* rows of X in a task */

/* The parameters of all variants, in this order (portable has no dot). */
enum { P_ROWS, P_COLS, P_KBLOCK, P_PREFETCH, P_DOT };

/* Values of the parameter `prefetch`. */
enum cpu_prefetch {
    CPU_PREFETCH_NONE,
    CPU_PREFETCH_ROWS, /* in the rows being read: a little ahead, or with k_block the next range of k */
    CPU_PREFETCH_NEXT, /* the next strip, in the order in which it lies in memory */
};

static inline int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline size_t round_256(size_t bytes)
{
    return (bytes + 255) & ~(size_t)255;
}

/* The way a problem is cut. */
struct tiling {
    enum cpu_kind kind;
    int element, w_element; /* bytes of one of X, and of W as it is multiplied */
    int64_t padded_k;       /* k rounded up to whole groups */
    size_t row_bytes;       /* of one row of packed X */
    int64_t k_block;
    int64_t strip; /* rows of W */
    int64_t m_tile, m_tiles;
    int64_t n_chunk, n_chunks;
    size_t tile_bytes, acc_bytes, strip_bytes, x_bytes; /* of one thread's workspace */
    bool prepacked, decoded; /* W is; the strip's rows of it go to strip_bytes. x_bytes: a panel of X's, if it is */
    bool gathered, halves;   /* rows of X, and of W, are copied there, too: they don't follow one another */
};

struct packed {
    int64_t tile;   /* which one this thread's workspace holds; -1: none */
    uint16_t min_x; /* of it, for CPU_BF16_DOT */
    /* Of its rows, for CPU_I8_DOT: the scales, and what their accumulators begin with. */
    float scale[MAX_TILE];
    uint32_t begin[MAX_TILE];
};

/* Are codes multiplied as integers? */
static inline bool is_i8_dot(const struct rfg_problem *prob, bool dot)
{
    return dot && prob->dtype[0] == RFG_I8;
}
static inline bool is_decoded(const struct rfg_problem *prob, bool dot)
{
    return prob->dtype[1] != prob->dtype[0] || (gemm_is_codes(prob) && !is_i8_dot(prob, dot));
}

static inline size_t worker_bytes(const struct tiling *t)
{
    return t->tile_bytes + t->acc_bytes + t->strip_bytes + t->x_bytes;
}

struct tiling gemm_cpu_tiling(const struct cpu_isa *isa, int threads, const struct rfg_problem *prob, const int *p,
                              bool dot);

/* Runs a problem, grouped or not, whose workspace has a struct packed for each of the device's threads, then a
 * worker_bytes() for each. */
void gemm_cpu_run(const struct cpu_isa *isa, const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                  bool dot, const struct gemm_args *all, struct rfg_cpu_pool *pool);

#endif
