/* SPDX-License-Identifier: MIT
 *
 * LDS and workspace of gemm_stream_mma; the host and the kernel read this same text. A quad is four of a lane's sums.
 */
#ifndef RFG_STREAM_LAYOUT_H
#define RFG_STREAM_LAYOUT_H

/* A wave's partial sums of a tile, in bytes: [quad][lane]. In LDS each of k_waves has its own, if there are more than
 * one; in the workspace each of a tile's splits. */
#define STREAM_PARTIAL_BYTES(tile_m, tile_n)      ((tile_m) * (tile_n)*4)
#define STREAM_LDS_BYTES(tile_m, tile_n, k_waves) ((k_waves) > 1 ? (k_waves)*STREAM_PARTIAL_BYTES(tile_m, tile_n) : 16)
/* Waves that add up and store quads, each with a counter. */
#define STREAM_FINISHERS(quads, k_waves) ((quads) < (k_waves) ? (quads) : (k_waves))

#endif
