/* SPDX-License-Identifier: MIT
 *
 * How gemm_blocks_dot shares out rows and lays out LDS; the host and the kernel read this same text. */
#ifndef RFG_BLOCKS_LAYOUT_H
#define RFG_BLOCKS_LAYOUT_H

/* Rows of W that a workgroup has: whole steps of `rows`. */
#define BLOCKS_ROWS(n, groups, rows) ((((n) + (groups)-1) / (groups) + (rows)-1) / (rows) * (rows))

/* LDS in bytes: arrivals and the ring of what is copied, X's codes and scales, sums. scale_bytes: of 32 columns. */
#define BLOCKS_ROUND(bytes)                               (((bytes) + 15) / 16 * 16)
#define BLOCKS_X_AT(slots, slot_bytes)                    (BLOCKS_ROUND((slots)*8) + (slots) * (slot_bytes))
#define BLOCKS_SCALES_AT(x_at, m_tile, k)                 ((x_at) + (m_tile) * (k))
#define BLOCKS_SUMS_AT(scales_at, m_tile, k, scale_bytes) ((scales_at) + (m_tile) * ((k) / 32) * (scale_bytes))
#define BLOCKS_LDS_BYTES(sums_at, rows, m_tile, k_waves)  ((sums_at) + (rows) * (m_tile) * (k_waves)*4)

#endif
