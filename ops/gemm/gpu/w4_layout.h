/* SPDX-License-Identifier: MIT
 *
 * The workgroup and the LDS of gemm_w4_mma; the host and the kernel read this same text. */
#ifndef RFG_W4_LAYOUT_H
#define RFG_W4_LAYOUT_H

/* Waves: those that multiply, n_waves side by side in each of k_waves; four that copy W, and some that copy X. */
#define W4_N_WAVES(tile_n, frags_n) ((tile_n) / (16 * (frags_n)))
#define W4_W_WAVES                  4
#define W4_X_WAVES(tile_m)          ((tile_m) == 8 ? 1 : (tile_m) == 64 ? 4 : 2)
#define W4_THREADS(tile_m, tile_n, frags_n, k_waves)                                                                   \
    (32 * (W4_N_WAVES(tile_n, frags_n) * (k_waves) + W4_W_WAVES + W4_X_WAVES(tile_m)))

/* LDS in bytes: the arrivals of partial sums, of steps' copies, and of the waves that are done with them; the partial
 * sums of the blocks that this workgroup owns, [block][part][lane]; steps of 128 columns, each tile_n rows of W, tile_m
 * of X, then the scales and the zero points of W's groups. A block of sums is 16 rows of W by 8 of X: four registers of
 * each lane of a wave. scales, zeros: bytes of 16 rows' in a step. */
#define W4_MAX_STAGES                   24
#define W4_BLOCK_BYTES                  512
#define W4_PARTIALS_AT                  512
#define W4_BLOCKS(tile_m, tile_n)       ((tile_m) / 8 * ((tile_n) / 16))
#define W4_OWNED(tile_m, tile_n, split) ((W4_BLOCKS(tile_m, tile_n) + (split)-1) / (split))
#define W4_RING_AT(tile_m, tile_n, k_waves, split)                                                                     \
    (W4_PARTIALS_AT +                                                                                                  \
     ((split) * (k_waves) > 1 ? W4_OWNED(tile_m, tile_n, split) * (split) * (k_waves)*W4_BLOCK_BYTES : 0))
#define W4_STEP_BYTES(tile_m, tile_n, scales, zeros) ((tile_n)*64 + (tile_m)*256 + (tile_n) / 16 * ((scales) + (zeros)))

#endif
