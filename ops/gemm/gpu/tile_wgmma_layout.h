/* SPDX-License-Identifier: MIT
 *
 * The workgroup and the LDS of gemm_tile_wgmma; the host and the kernel read this same text. */
#ifndef RFG_TILE_WGMMA_LAYOUT_H
#define RFG_TILE_WGMMA_LAYOUT_H

#define TILE_ROWS    128 /* of X: 64 a warpgroup */
#define TILE_WIDTH   128 /* bytes of a row of a step */
#define TILE_WAVES   8   /* that multiply; the next one copies, three more copy scales */
#define TILE_THREADS ((TILE_WAVES + 4) * 32)

/* Registers of a lane of those that multiply, and of those that copy. A launch has 168 for each of three warpgroups
 * (65536 / 384, in eights): who asks for more than that is left waits for ever. */
#define TILE_REGISTERS 224
#define TILE_FEWER     56

/* LDS in bytes: arrivals; of a grouped product the list of experts' tiles; steps, each TILE_ROWS rows of X, then tile_n
 * rows of W; for each wave TILE_Y_BUFFERS tiles of TILE_Y_ROWS rows of Y, 128 bytes of each, as rfg_tma.h has them;
 * with scales of blocks those of steps, floats: of each row of X, then of W. */
#define TILE_MAX_STAGES 8
#define TILE_LIST_AT    (16 * TILE_MAX_STAGES)
#define TILE_LIST_BYTES 8
#define TILE_RING_AT(experts)                                                                                          \
    ((experts) ? (TILE_LIST_AT + ((experts) + 1) * TILE_LIST_BYTES + 1023) / 1024 * 1024 : 1024)
#define TILE_STEP_BYTES(tile_n) ((TILE_ROWS + (tile_n)) * TILE_WIDTH)
#define TILE_Y_WIDTH            128
#define TILE_Y_ROWS             16
#define TILE_Y_BYTES            (TILE_Y_ROWS * TILE_Y_WIDTH)
#define TILE_Y_BUFFERS          2
#define TILE_W_SCALES           4
#define TILE_SCALES             (TILE_ROWS + TILE_W_SCALES)
#define TILE_LDS_BYTES(tile_n, stages, blocks, experts)                                                                \
    (TILE_RING_AT(experts) + (stages) * (TILE_STEP_BYTES(tile_n) + ((blocks) ? TILE_SCALES * 4 : 0)) +                 \
     TILE_WAVES * TILE_Y_BUFFERS * TILE_Y_BYTES)
#define TILE_MOST_EXPERTS 1024 /* each lane of a wave lists 32 */
/* Rows of tiles that are worked through together: X's and W's then come from L2 about as often. */
#define TILE_BAND 16

#endif
