/* SPDX-License-Identifier: MIT
 *
 * LDS and workspace of gemm_tile; the host and the kernel read this same text. */
#ifndef RFG_TILE_LAYOUT_H
#define RFG_TILE_LAYOUT_H

/* LDS: `buffers` steps, each of tile_m rows of X, tile_n rows of W, and scales. Bytes of the last: of a W of 4 bits
 * that is decoded, its rows' fp32 scales of each of the step's `groups` (of others 0); of mx formats those of each
 * part, 128 columns: a wave's rows have them by 64 (tile_mx.h). */
#define TILE_GROUP_BYTES(groups, tile_n) ((groups) * (tile_n)*4)
#define TILE_MX_BLOCKS(frags)            (((frags) + 3) / 4)
#define TILE_MX_BYTES(frags_m, frags_n, waves_m, waves_n, parts)                                                       \
    ((parts) * (TILE_MX_BLOCKS(frags_m) * (waves_m) + TILE_MX_BLOCKS(frags_n) * (waves_n)) * 256)
/* Groups of a step of `columns`, which are whole groups, or a part of one. */
#define TILE_GROUPS(columns, group) ((columns) > (group) ? (columns) / (group) : 1)
/* After the last step: for each wave 16 rows of its sums, padded against bank conflicts; in floats. */
#define TILE_SUM_STRIDE(wave_n)       ((wave_n) + 4)
#define TILE_SUM_BYTES(waves, wave_n) ((waves)*16 * TILE_SUM_STRIDE(wave_n) * 4)

/* Floats of a tile's partial sums in the workspace, [tile][split][row][column]. */
#define TILE_PARTIALS(tile_m, tile_n) ((tile_m) * (tile_n))

#endif
