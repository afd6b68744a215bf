/* SPDX-License-Identifier: MIT
 *
 * Where prefill's kernels have what in LDS and in the workspace; the host and the kernels read this same text, and each
 * kernel asserts that the LDS_BYTES it is launched with are what it lays out. */
#ifndef RFG_MHA_PREFILL_LAYOUT_H
#define RFG_MHA_PREFILL_LAYOUT_H

/* mha_prefill_mma. 16-byte chunks of a row of d elements in LDS: whole 128 bytes. On AMD V is transposed, without
 * padding. */
#define MHA_PREFILL_ROW_CHUNKS(d) (((d) / 8 + 7) / 8 * 8)
#define MHA_PREFILL_TILE_BYTES(tile_kv, d, dv, transposed)                                                             \
    (16 * (tile_kv) * (MHA_PREFILL_ROW_CHUNKS(d) + ((transposed) ? (dv) / 8 : MHA_PREFILL_ROW_CHUNKS(dv))))

/* The workspace of a part of the keys, in floats: outputs, maxima and sums of tile_q queries, with room for those that
 * two lanes have both, in `split` waves. */
#define MHA_PREFILL_PART_FLOATS(tile_q, dv, split) ((tile_q) * ((dv) + 8 * (split)))

/* mha_prefill_wgmma, in bytes: arrival counters; Q, a warpgroup of 64 queries after the other, q_stages times; rings of
 * `stages` tiles of K and of V. Rows are blocks of 64 elements. With parts, outputs, maxima and sums of a tile take the
 * place of all but the counters. */
#define MHA_WGMMA_Q_BEGIN                        1024
#define MHA_WGMMA_BLOCKS(d)                      (((d) + 63) / 64)
#define MHA_WGMMA_Q_BYTES(groups, d)             ((groups)*64 * 128 * MHA_WGMMA_BLOCKS(d))
#define MHA_WGMMA_RING_BYTES(stages, tile_kv, d) ((stages) * (tile_kv)*128 * MHA_WGMMA_BLOCKS(d))
#define MHA_WGMMA_COMBINE_BYTES(groups, dv)      (2 * (8 + (dv)) * 64 * (groups)*2)

#endif
