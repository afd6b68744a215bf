/* SPDX-License-Identifier: MIT
 *
 * LDS and workspace of gemm_tile; the host and the kernel read this same text. */
#ifndef RFG_TILE_LAYOUT_H
#define RFG_TILE_LAYOUT_H

/* LDS, in bytes: `buffers` steps of tile_m rows of X, then tile_n rows of W, `width` bytes each; then, of W of 4 bits,
 * the rows' fp32 scales of each of the step's `groups` (of others 0). */
#define TILE_STEP_BYTES(tile_m, tile_n, width, groups) (((tile_m) + (tile_n)) * (width) + (groups) * (tile_n)*4)
/* Groups of a step of `columns`, which are whole groups, or a part of one. */
#define TILE_GROUPS(columns, group) ((columns) > (group) ? (columns) / (group) : 1)
/* After the last step: for each wave 16 rows of its sums, padded against bank conflicts; in floats. */
#define TILE_SUM_STRIDE(wave_n)       ((wave_n) + 4)
#define TILE_SUM_BYTES(waves, wave_n) ((waves)*16 * TILE_SUM_STRIDE(wave_n) * 4)

/* Floats of a tile's partial sums in the workspace, [tile][split][row][column]. */
#define TILE_PARTIALS(tile_m, tile_n) ((tile_m) * (tile_n))

#endif
