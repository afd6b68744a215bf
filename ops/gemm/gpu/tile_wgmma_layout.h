/* SPDX-License-Identifier: MIT
 *
 * The workgroup and the LDS of gemm_tile_wgmma; the host and the kernel read this same text. */
#ifndef RFG_TILE_WGMMA_LAYOUT_H
#define RFG_TILE_WGMMA_LAYOUT_H

#define TILE_WIDTH   128 /* bytes of a row of a step */
#define TILE_WAVES   8   /* that multiply; the next one copies, three more copy scales */
#define TILE_THREADS ((TILE_WAVES + 4) * 32)

/* Registers of a lane of those that multiply, and of those that copy. A launch has 168 for each of three warpgroups
 * (65536 / 384, in eights): who asks for more than that is left waits for ever. */
#define TILE_REGISTERS(experts) ((experts) ? 224 : 232)
#define TILE_FEWER(experts)     ((experts) ? 56 : 40) /* where those of rows of X that may be anywhere are kept */
#define TILE_MOST_SUMS          192

/* LDS in bytes: arrivals; some scales; of a grouped product the list of experts' tiles; steps, each tile_m rows of X,
 * then tile_n rows of W; for each wave TILE_Y_BUFFERS tiles of TILE_Y_ROWS rows of Y, 128 bytes of each, as rfg_tma.h
 * has them; with scales of blocks those of steps' rows of X, else scales of rows and biases of the tile's columns:
 * floats. The scales in front are of steps' blocks of W, or of the tile's rows of X. */
#define TILE_MAX_STAGES 12
#define TILE_FEW_AT     256
#define TILE_LIST_AT    (TILE_FEW_AT + 512)
#define TILE_LIST_BYTES 8
#define TILE_RING_AT(experts)                                                                                          \
    ((experts) ? (TILE_LIST_AT + ((experts) + 1) * TILE_LIST_BYTES + 1023) / 1024 * 1024 : 1024)
#define TILE_STEP_BYTES(tile_m, tile_n) (((tile_m) + (tile_n)) * TILE_WIDTH)
#define TILE_Y_WIDTH                    128
#define TILE_Y_ROWS                     16
#define TILE_Y_BYTES                    (TILE_Y_ROWS * TILE_Y_WIDTH)
#define TILE_Y_BUFFERS                  2
#define TILE_W_SCALES                   4
#define TILE_LDS_BYTES(tile_m, tile_n, stages, blocks, rows, experts)                                                  \
    (TILE_RING_AT(experts) + (stages)*TILE_STEP_BYTES(tile_m, tile_n) + TILE_WAVES * TILE_Y_BUFFERS * TILE_Y_BYTES +   \
     4 * ((blocks) ? (stages) * (tile_m) : ((rows) ? 2 : 1) * (tile_n)))
#define TILE_MOST_EXPERTS 1024 /* each lane of a wave lists 32 */
/* Rows of Y whose tiles are worked through together: X's and W's then come from L2 about as often. */
#define TILE_BAND_ROWS 2048

#endif
