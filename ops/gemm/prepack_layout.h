/* SPDX-License-Identifier: MIT
 *
 * A prepacked W in elements. The host and the kernels read this same text.
 *
 * Of 16 bits: [N/16][K/32][4][16][8], that is blocks of 16 rows by 32 columns, in which the 16-byte chunks of 8 columns
 * follow each other row by row.
 *
 * Of 8 bits: [N/16][K/64][4][16][16], the same bytes as 16 bits of half as many columns.
 *
 * Of 4 bits: [N/16][K/128][4][16][4][8], blocks of 16 rows by 128 columns of as many bytes. The four words of a 16-byte
 * chunk are what four blocks of 16 bits would have in the place of that chunk: word i of chunk c has columns 32 i + 8 c
 * to 32 i + 8 c + 7, so that X's chunks are the same for both. In a word column e is in nibble e / 2 + 4 (e % 2):
 * columns 2 j and 2 j + 1 are 16 bits apart, and a shift and a mask bring both to where a word of 16-bit elements has
 * them. Its scales and zero points are [N/16][K/group][16]. A K that is no multiple of 128 is padded up to the next. */
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

#define PREPACK8_COLS  64
#define PREPACK8_CHUNK 16
#define PREPACKED8_AT(n, k, cols)                                                                                      \
    ((n) / PREPACK_ROWS * PREPACK_ROWS * (cols) + (k) / PREPACK8_CHUNK * (PREPACK_ROWS * PREPACK8_CHUNK) +             \
     (n) % PREPACK_ROWS * PREPACK8_CHUNK + (k) % PREPACK8_CHUNK)

#define PREPACK4_COLS  128
#define PREPACK4_CHUNK 32
/* Columns of a prepacked W that has k. k has 64 bits, or less than 2^31 - 128. */
#define PREPACKED4_COLS(k) (((k) + PREPACK4_COLS - 1) / PREPACK4_COLS * PREPACK4_COLS)
#define PREPACKED4_AT(n, k, cols)                                                                                      \
    ((n) / PREPACK_ROWS * PREPACK_ROWS * (cols) + (k) / PREPACK4_COLS * (PREPACK_ROWS * PREPACK4_COLS) +               \
     (k) % 32 / 8 * (PREPACK_ROWS * PREPACK4_CHUNK) + (n) % PREPACK_ROWS * PREPACK4_CHUNK +                            \
     (k) % PREPACK4_COLS / 32 * 8 + (k) % 8 / 2 + (k) % 2 * 4)
/* Where group g of row n has its scale and its zero point, of `groups` in a row. */
#define PREPACKED4_GROUP_AT(n, g, groups)                                                                              \
    ((n) / PREPACK_ROWS * PREPACK_ROWS * (groups) + (g)*PREPACK_ROWS + (n) % PREPACK_ROWS)

/* A word of eight codes, the first column's in the lowest nibble, as a prepacked W has it. */
#define PREPACK4_WORD(w)                                                                                               \
    (((w)&0xf000000fu) | ((w)&0x000000f0u) << 12 | ((w)&0x00000f00u) >> 4 | ((w)&0x0000f000u) << 8 |                   \
     ((w)&0x000f0000u) >> 8 | ((w)&0x00f00000u) << 4 | ((w)&0x0f000000u) >> 12)

#endif
