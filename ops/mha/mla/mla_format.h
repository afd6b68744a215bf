/* SPDX-License-Identifier: MIT
 *
 * The bytes of a row of the cache: enum rfg_mla_format (rfg/mla.h), for the host and kernels. A row is codes, then
 * elements of 16 bits; its scales are a part of it (V32), or behind all rows of its block (V4). */
#ifndef RFG_MLA_FORMAT_H
#define RFG_MLA_FORMAT_H

#define MLA_PLAIN 0
#define MLA_V32   1
#define MLA_V4    2

/* Of V32 and V4 alone. */
#define MLA_CODES(format)     ((format) == MLA_V32 ? 512 : 448) /* e4m3 */
#define MLA_ROTATED           64                                /* bf16 */
#define MLA_GROUP(format)     ((format) == MLA_V32 ? 128 : 64)  /* codes that share a scale */
#define MLA_SCALES(format)    ((format) == MLA_V32 ? 4 : 7)
#define MLA_KEY_BYTES(format) ((format) == MLA_V32 ? 656 : 584) /* the last dimension of kv */
#define MLA_ROW_BYTES(format) ((format) == MLA_V32 ? 656 : 576) /* from a packed row to the next */
/* Of a row: where its elements of 16 bits begin. Its scales: f32 in the row, or 8 bytes of a block of `page` rows. */
#define MLA_ROTATED_AT(format) ((format) == MLA_V32 ? 528 : 448)
#define MLA_V32_SCALES_AT      512
#define MLA_V4_SCALES_AT(page) ((page)*576)
#define MLA_V4_SCALE_BYTES     8
/* 16 bytes each, of a row with its scales in one place: codes, elements of 16 bits, scales. */
#define MLA_RAW_PIECES(format, d) ((format) == MLA_PLAIN ? (d) / 16 : MLA_CODES(format) / 16 + MLA_ROTATED / 8 + 1)
#define MLA_LEAST_LARGEST         1e-4f /* elements count as at least this in a group's scale */

/* The scale of a group for e4m3, as an e8m0: the least power of two by which the largest (its bits) is at most 448. */
#define MLA_SCALE_CODE(bits) ((((bits) + 0x1fffffu) >> 23) - 8u)

#endif
