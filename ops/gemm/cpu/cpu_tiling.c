/* SPDX-License-Identifier: MIT
 *
 * How the cpu's variants cut a problem.
 *
 * Y is cut into tasks of n_chunk rows of W by m_tile rows of X. A task packs its rows of X in panels (its thread keeps
 * them: the next task usually wants the same), then walks W in strips. Without k_block a strip is one register block:
 * W is read once, in the order in which it lies in memory, which is what one or two rows of X need. With k_block a
 * strip is STRIP_ROWS rows, taken k_block columns at a time, so that these and the panel's part that goes with them
 * stay in the L1 cache. The packed tile stays in the L2, and the tasks of one chunk of W follow each other, so that the
 * chunk stays in the last-level cache.
 *
 * Every output is computed by one task, as a sum in an order that depends on the instruction set and `dot` only: not on
 * threads, M, or the place in a tile. (But see dot_is_exact.) */
#include "cpu_run.h"

#define STRIP_ROWS  32 /* rows of W that share an L1 cache with a panel of X, with k_block */
#define SHORT_STRIP 8  /* the same if the next strip is prefetched meanwhile: both have to fit into the L2 cache */
#define TILE_BYTES  (576 << 10) /* of packed X in a task: a share of a core's L2 cache */
#define CHUNK_BYTES (4 << 20)   /* of W in a task, if X has several tiles: a share of the last-level cache */
#define MAX_TASKS   (1 << 20)
#define TASKS       8 /* for each thread, at least: evens out what else the machine does */

static enum cpu_kind kind_of(const struct rfg_problem *prob, bool dot)
{
    return is_i8_dot(prob, dot)                                 ? CPU_I8_DOT
           : prob->dtype[0] == RFG_F32 || is_decoded(prob, dot) ? CPU_F32
           : prob->dtype[0] == RFG_F16                          ? CPU_F16
           : dot                                                ? CPU_BF16_DOT
                                                                : CPU_BF16;
}

struct tiling gemm_cpu_tiling(const struct cpu_isa *isa, int threads, const struct rfg_problem *prob, const int *p,
                              bool dot)
{
    struct tiling t = { .kind = kind_of(prob, dot),
                        .prepacked = prob->v[GEMM_PREPACKED],
                        .decoded = is_decoded(prob, dot),
                        .gathered = prob->v[GEMM_TOP] != 0,
                        .halves = gemm_halves(prob) };
    int64_t m = prob->v[GEMM_M], n = prob->v[GEMM_N], k = prob->v[GEMM_K];
    t.element = gemm_is_codes(prob) ? 1 : prob->dtype[0] == RFG_F32 ? 4 : 2;
    t.w_element = t.kind == CPU_F32 ? 4 : t.kind == CPU_I8_DOT ? 1 : 2;
    t.padded_k = ceil_div(k, isa->group) * isa->group;
    t.row_bytes = (size_t)t.padded_k * (t.kind == CPU_BF16_DOT ? 2 : t.kind == CPU_I8_DOT ? 1 : 4);
    t.k_block = p[P_KBLOCK] ? p[P_KBLOCK] : t.padded_k;

    int64_t fit = t.row_bytes ? TILE_BYTES / (int64_t)t.row_bytes : MAX_TILE;
    fit = min64(fit / p[P_COLS] * p[P_COLS], MAX_TILE / p[P_COLS] * p[P_COLS]);
    t.m_tile = min64(m, fit > p[P_COLS] ? fit : p[P_COLS]);
    t.m_tiles = ceil_div(m, t.m_tile);
    t.m_tile = ceil_div(m, t.m_tiles);
    t.strip = !p[P_KBLOCK] ? p[P_ROWS] : p[P_PREFETCH] == CPU_PREFETCH_NEXT ? SHORT_STRIP : STRIP_ROWS;
    if (prob->v[GEMM_GATED] && t.strip == 1) /* gate's row and up's */
        t.strip = 2;
    if (t.prepacked) /* the rows of its blocks */
        t.strip = PREPACK_ROWS;
    t.strip_bytes = t.prepacked || t.decoded || t.halves ? round_256((size_t)(t.strip * k * t.w_element)) : 0;
    t.x_bytes = t.decoded || t.gathered ? round_256((size_t)(p[P_COLS] * k) * sizeof(float)) : 0;
    /* Of a grouped product the tiles of any expert fit. */
    int64_t tallest = prob->v[GEMM_EXPERTS] ? min64(prob->v[GEMM_M], fit > p[P_COLS] ? fit : p[P_COLS]) : t.m_tile;
    t.tile_bytes = round_256((size_t)tallest * t.row_bytes);
    t.acc_bytes = round_256((size_t)(t.strip * tallest * isa->lanes) * sizeof(float));

    int64_t tasks = ceil_div((int64_t)threads * TASKS, t.m_tiles);
    t.n_chunk = ceil_div(n, tasks);
    if (t.m_tiles > 1)
        t.n_chunk = min64(t.n_chunk, CHUNK_BYTES / (t.padded_k * t.w_element + 1) + t.strip);
    if (t.n_chunk < ceil_div(n * t.m_tiles, MAX_TASKS))
        t.n_chunk = ceil_div(n * t.m_tiles, MAX_TASKS);
    t.n_chunk = ceil_div(t.n_chunk, t.strip) * t.strip;
    t.n_chunks = ceil_div(n, t.n_chunk);
    return t;
}
