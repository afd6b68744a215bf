/* SPDX-License-Identifier: MIT
 *
 * A prepacked W in elements: [N/16][K/32][4][16][8], that is blocks of 16 rows by 32 columns, in which the 16-byte
 * chunks of 8 columns follow each other row by row. The host and the kernels read this same text. */
#ifndef RFG_PREPACK_LAYOUT_H
#define RFG_PREPACK_LAYOUT_H

#define PREPACK_ROWS  16
#define PREPACK_COLS  32
#define PREPACK_CHUNK 8 /* elements in 16 bytes */
#define PREPACK_BLOCK (PREPACK_ROWS * PREPACK_COLS)

/* Where element k of row n is in a prepacked W of `cols` columns. n or cols has 64 bits. */
#define PREPACKED_AT(n, k, cols)                                                                                       \
    ((n) / PREPACK_ROWS * PREPACK_ROWS * (cols) + (k) / PREPACK_COLS * PREPACK_BLOCK +                                 \
     (k) % PREPACK_COLS / PREPACK_CHUNK * (PREPACK_ROWS * PREPACK_CHUNK) + (n) % PREPACK_ROWS * PREPACK_CHUNK +        \
     (k) % PREPACK_CHUNK)

#endif
