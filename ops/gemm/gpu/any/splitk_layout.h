/* SPDX-License-Identifier: MIT
 *
 * The workgroup, LDS and workspace of gemm_splitk_mma; the host and the kernel read this same text. */
#ifndef RFG_SPLITK_LAYOUT_H
#define RFG_SPLITK_LAYOUT_H

#define SPLITK_WAVES_M(tile_m)                ((tile_m) >= 64 ? 2 : 1)
#define SPLITK_WAVES_N(tile_n)                ((tile_n) >= 32 ? (tile_n) / 32 : 1)
#define SPLITK_WAVES(tile_m, tile_n, k_waves) (SPLITK_WAVES_M(tile_m) * SPLITK_WAVES_N(tile_n) * (k_waves))

/* LDS, in 16-byte chunks: steps of tile_m rows of X, then tile_n rows of W, `stages` of them with asynchronous copies,
 * else 2. */
#define SPLITK_STEP_CHUNKS(tile_m, tile_n, tile_k) (((tile_m) + (tile_n)) * ((tile_k) / 8))
/* After the last step, in floats: the sums of each of k_waves groups of waves, rows padded against bank conflicts. */
#define SPLITK_SUM_STRIDE(tile_n)            ((tile_n) + 4)
#define SPLITK_SUMS(tile_m, tile_n, k_waves) ((k_waves) * (tile_m)*SPLITK_SUM_STRIDE(tile_n))

/* Floats of a tile's partial sums in the workspace, [tile][split][row][column]. */
#define SPLITK_PARTIALS(tile_m, tile_n) ((tile_m) * (tile_n))

#endif
