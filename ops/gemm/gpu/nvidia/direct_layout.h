/* SPDX-License-Identifier: MIT
 *
 * LDS of gemm_direct_mma; the host and the kernel read this same text. */
#ifndef RFG_DIRECT_LAYOUT_H
#define RFG_DIRECT_LAYOUT_H

#define DIRECT_STEP   64 /* columns */
#define DIRECT_PIECE  4  /* steps of x that one arrival counts */
#define DIRECT_AHEAD  2  /* pieces of a set that are in flight */
#define DIRECT_PIECES 63 /* of a workgroup, at most */
/* Pieces that a set of a workgroup of so many steps has at most. */
#define DIRECT_SET_PIECES(steps, k_waves) ((((steps) + (k_waves)-1) / (k_waves) + DIRECT_PIECE - 1) / DIRECT_PIECE)
#define DIRECT_PARTIALS_AT                512
#define DIRECT_BLOCK_BYTES                512 /* sums of 16 rows of W by 8 of X: four floats of each lane */
#define DIRECT_ROW(steps)                 ((steps)*DIRECT_STEP * 2 + 16) /* bytes from row to row of x: rows begin at other banks */
#define DIRECT_OWNED(blocks, split)       (((blocks) + (split)-1) / (split))
#define DIRECT_X_AT(blocks, k_waves, split)                                                                            \
    (DIRECT_PARTIALS_AT +                                                                                              \
     ((k_waves) * (split) > 1 ? DIRECT_OWNED(blocks, split) * (k_waves) * (split)*DIRECT_BLOCK_BYTES : 0))
#define DIRECT_LDS_BYTES(blocks, k_waves, split, tile_m, steps)                                                        \
    (DIRECT_X_AT(blocks, k_waves, split) + (tile_m)*DIRECT_ROW(steps))

#endif
