/* SPDX-License-Identifier: MIT
 *
 * The workgroup and the LDS of gemm_w4_mma; the host and the kernel read this same text. wgmma: 1: by these
 * instructions. */
#ifndef RFG_W4_LAYOUT_H
#define RFG_W4_LAYOUT_H

/* Waves: those that multiply, n_waves side by side in each of k_waves; four that copy W, and some that copy X. */
#define W4_N_WAVES(tile_n, frags_n)          ((tile_n) / (16 * (frags_n)))
#define W4_W_WAVES                           4
#define W4_X_WAVES(tile_m, wgmma)            ((wgmma) || (tile_m) >= 32 ? 4 : 2)
#define W4_THREADS(mma_waves, tile_m, wgmma) (32 * ((mma_waves) + W4_W_WAVES + W4_X_WAVES(tile_m, wgmma)))

/* With wgmma registers a lane: of a launch of so many warpgroups; of those that copy W, X, and that multiply. */
#define W4_LAUNCHED(groups)              (65536 / 128 / (groups) / 8 * 8)
#define W4_W_REGISTERS(tile_m)           ((tile_m) == 128 ? 32 : 40)
#define W4_X_REGISTERS(tile_m)           ((tile_m) == 64 ? 120 : 96)
#define W4_MMA_REGISTERS(tile_m, groups) ((groups) == 3 ? 224 : (tile_m) == 64 ? 176 : (tile_m) == 128 ? 192 : 184)

/* LDS in bytes: the arrivals of partial sums, of steps' copies, and of the waves that are done with them; the partial
 * sums of the blocks that this workgroup owns, [block][part][lane]; steps of 128 columns, each tile_n rows of W, tile_m
 * of X, then the scales and the zero points of W's groups. A block of sums is 16 rows of W by 8 of X: four registers of
 * each lane of a wave. parts: of a block, if more than one; w: bytes of a row of W in a step; scales, zeros: of 16 rows'. */
#define W4_MAX_STAGES                   24
#define W4_LEAST_STAGES                 4 /* of fewer than there are steps: the waves that copy, of each kind */
#define W4_BLOCK_BYTES                  512
#define W4_PARTIALS_AT                  512
#define W4_BLOCKS(tile_m, tile_n)       ((tile_m) / 8 * ((tile_n) / 16))
#define W4_OWNED(tile_m, tile_n, split) ((W4_BLOCKS(tile_m, tile_n) + (split)-1) / (split))
#define W4_UP(bytes, wgmma)             ((wgmma) ? ((bytes) + 1023) / 1024 * 1024 : (bytes))
#define W4_RING_AT(tile_m, tile_n, split, parts, wgmma)                                                                \
    W4_UP(W4_PARTIALS_AT + ((parts) > 1 ? W4_OWNED(tile_m, tile_n, split) * (parts)*W4_BLOCK_BYTES : 0), wgmma)
#define W4_STEP_BYTES(tile_m, tile_n, w, scales, zeros, wgmma)                                                         \
    W4_UP((tile_n) * (w) + (tile_m)*256 + (tile_n) / 16 * ((scales) + (zeros)), wgmma)

#endif
