/* SPDX-License-Identifier: MIT
 *
 * How gemm_thin_mma shares out a tile's sums and lays out LDS; the host and the kernel read this same text. A block of
 * sums is the 16 x 8 (8 x 8 if tile_m = 8) that a wave holds in THIN_FLOATS registers of each of its 32 lanes. */
#ifndef RFG_THIN_LAYOUT_H
#define RFG_THIN_LAYOUT_H

#define THIN_LANES_OF_WAVE           32
#define THIN_FRAGS_M(tile_m)         ((tile_m) == 8 ? 1 : (tile_m) / 16) /* of 8 rows, the other 8 count as zero */
#define THIN_BLOCKS(tile_m, frags_n) (THIN_FRAGS_M(tile_m) * (frags_n))
#define THIN_FLOATS(tile_m)          ((tile_m) == 8 ? 2 : 4)
/* Do a workgroup's waves add up their sums in LDS before anything is sent or stored? */
#define THIN_COMBINES(blocks, split) ((split) == 1 || (blocks) > 1)
/* Workgroups that share a block, by lanes: if there are more of them than blocks. */
#define THIN_SHARES(blocks, split)                                                                                     \
    ((split) > (blocks) && (split) % (blocks) == 0 && THIN_LANES_OF_WAVE % ((split) / (blocks)) == 0                   \
         ? (split) / (blocks)                                                                                          \
         : 1)
#define THIN_LANES(blocks, split)                                                                                      \
    (THIN_LANES_OF_WAVE / THIN_SHARES(blocks, split))                /* of a block, that are one owner's */
#define THIN_OWNED(blocks, split) (((blocks) + (split)-1) / (split)) /* blocks of an owner */
#define THIN_SENT(blocks, k_waves, split)                                                                              \
    ((split) * (THIN_COMBINES(blocks, split) ? 1 : (k_waves))) /* to an owner, of a block */

/* LDS in bytes: the arrival, what is sent, what a workgroup's waves add up. */
#define THIN_SENT_AT 16
#define THIN_COMBINE_AT(blocks, floats, k_waves, split)                                                                \
    (THIN_SENT_AT + ((split) > 1 ? THIN_OWNED(blocks, split) * THIN_SENT(blocks, k_waves, split) *                     \
                                       THIN_LANES(blocks, split) * (floats)*4                                          \
                                 : 0))
#define THIN_LDS_BYTES(blocks, floats, k_waves, split)                                                                 \
    (THIN_COMBINE_AT(blocks, floats, k_waves, split) +                                                                 \
     (THIN_COMBINES(blocks, split) ? (blocks) * (k_waves)*THIN_LANES_OF_WAVE * (floats)*4 : 0))

#endif
