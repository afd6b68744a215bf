/* SPDX-License-Identifier: MIT
 *
 * The workgroup and the LDS of gemm_tile_wgmma; the host and the kernel read this same text. */
#ifndef RFG_TILE_WGMMA_LAYOUT_H
#define RFG_TILE_WGMMA_LAYOUT_H

#define TILE_WIDTH       128                   /* bytes of a row of a step */
#define TILE_WAVES       8                     /* that multiply; the next one copies, three more copy scales; */
#define TILE_COPIERS(w4) (((w4) ? 8 : 4) * 32) /* w4: not 0 of a W of 4 bits, which all of these decode */
#define TILE_THREADS(w4) (TILE_WAVES * 32 + TILE_COPIERS(w4))

/* Registers of a lane of those that multiply, and of those that copy. A launch has 168 for each of three warpgroups, or
 * 128 for each of four (65536 / threads, in eights): who asks for more than that is left waits for ever. */
#define TILE_LAUNCHED(w4)           ((w4) ? 4 * 128 : 3 * 168)
#define TILE_REGISTERS(experts, w4) ((w4) ? 168 : (experts) ? 224 : 232)
#define TILE_FEWER(experts, w4)     ((w4) ? 88 : (experts) ? 56 : 40) /* with experts where rows of X are */
#define TILE_MOST_COLUMNS_W4        192 /* of an instruction: 96 sums of the 128 registers that nvcc has for it */
#define TILE_MOST_SUMS(w4)          ((w4) ? 128 : 192)

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
/* Of a W of 4 bits in place of scales: its codes and scales as they are, of TILE_RAW times 128 columns, one of which is
 * decoded. Waves have eights of rows by turns. */
#define TILE_RAW                   4
#define TILE_RAW_BYTES(tile_n, w4) ((w4) ? TILE_RAW * (((tile_n) + 63) / 64 * 64) * (64 + 4) : 0)
#define TILE_LDS_BYTES(tile_m, tile_n, stages, blocks, rows, experts, w4)                                              \
    (TILE_RING_AT(experts) + (stages)*TILE_STEP_BYTES(tile_m, tile_n) + TILE_WAVES * TILE_Y_BUFFERS * TILE_Y_BYTES +   \
     ((w4) ? TILE_RAW_BYTES(tile_n, w4) : 4 * ((blocks) ? (stages) * (tile_m) : ((rows) ? 2 : 1) * (tile_n))))
#define TILE_MOST_EXPERTS 1024 /* each lane of a wave lists 32 */
/* Rows of Y whose tiles are worked through together: X's and W's then come from L2 about as often. */
#define TILE_BAND_ROWS 2048

#endif
