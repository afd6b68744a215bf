/* SPDX-License-Identifier: MIT
 *
 * The workgroup and the LDS of gemm_wgmma; the host and the kernel read this same text. rows_a, rows_b: rows of the
 * tile that are the instruction's operands A and B. */
#ifndef RFG_WGMMA_LAYOUT_H
#define RFG_WGMMA_LAYOUT_H

/* width: bytes of a row of a step, 128 or 256. */
#define WGMMA_GROUPS(rows_a)            (((rows_a) + 63) / 64) /* warpgroups that multiply */
#define WGMMA_COPIERS(tile_rows, width) ((tile_rows) * ((width) / 16) < 128 ? (tile_rows) * ((width) / 16) : 128)
#define WGMMA_THREADS(rows_a, tile_m, tile_n, width)                                                                   \
    (128 * WGMMA_GROUPS(rows_a) + WGMMA_COPIERS(tile_n, width) + WGMMA_COPIERS(tile_m, width))

/* Of codes: sums of 128 columns, width / 128 a step, are multiplied in registers of their own; if there is room in as
 * many sets as a step has, so that one is added while the next is multiplied. */
#define WGMMA_PARTS(rows_a, rows_b, width) ((width) == 256 && (rows_a) * (rows_b) <= 64 * 64 ? 2 : 1)

/* LDS in bytes: the arrivals of partial sums, of steps' copies, and of the waves that are done with them; the partial
 * sums of the blocks that this workgroup owns, [block][rank][lane]; steps, each tile_m rows of X, then tile_n rows of
 * W; what an instruction reads beyond the last step, if A has less than 64 rows; and steps' scales of blocks, for each
 * 128 columns tile_m of X, then one of W, which is tile_n rows'. A block of sums is 16 rows of A by 8 of B: four
 * registers of each lane of a wave. */
#define WGMMA_MAX_STAGES                   16
#define WGMMA_BLOCK_BYTES                  512
#define WGMMA_PARTIALS_AT                  512
#define WGMMA_A_WAVES(rows_a)              (((rows_a) + 15) / 16) /* that have rows of the tile */
#define WGMMA_BLOCKS(rows_a, rows_b)       ((rows_b) / 8 * WGMMA_A_WAVES(rows_a))
#define WGMMA_OWNED(rows_a, rows_b, split) ((WGMMA_BLOCKS(rows_a, rows_b) + (split)-1) / (split))
#define WGMMA_RING_AT(rows_a, rows_b, split)                                                                           \
    ((WGMMA_PARTIALS_AT + ((split) > 1 ? WGMMA_OWNED(rows_a, rows_b, split) * (split)*WGMMA_BLOCK_BYTES : 0) + 1023) / \
     1024 * 1024)
#define WGMMA_STEP_BYTES(tile_m, tile_n, width) (((tile_m) + (tile_n)) * (width))
#define WGMMA_BEYOND(rows_a)                    ((WGMMA_GROUPS(rows_a) * 64 - (rows_a)) * 128)
#define WGMMA_SCALES(tile_m)                    ((tile_m) + 4) /* floats of 128 columns, whole chunks */
#define WGMMA_SCALE_BYTES(tile_m, width)        ((width) / 128 * WGMMA_SCALES(tile_m) * 4)

#endif
