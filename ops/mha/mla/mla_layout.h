/* SPDX-License-Identifier: MIT
 *
 * How mla_decode's kernels divide keys, and what they have in LDS and in the workspace. The host and the kernels read
 * this same text; a kernel asserts that the LDS_BYTES and ACC that it is compiled with are what it lays out. */
#ifndef RFG_MLA_LAYOUT_H
#define RFG_MLA_LAYOUT_H

#define MLA_MAX_POSITION (0x7fffffff - 64) /* of a first query: counts of keys stay below 2^31 */

#define MLA_TILE 16 /* rows of a row tile: queries times heads */

/* A sequence's steps, of `keys` keys each, make segments of MLA_EACH() steps, by its length alone: at most MLA_SEGMENTS,
 * of at least MLA_LEAST_KEYS keys. */
#define MLA_SEGMENTS      16
#define MLA_LEAST_KEYS    128
#define MLA_LEAST(keys)   (MLA_LEAST_KEYS / (keys))
#define MLA_EACH(n, keys) ((n) <= MLA_LEAST(keys) * MLA_SEGMENTS ? MLA_LEAST(keys) : ((n)-1) / MLA_SEGMENTS + 1)

/* LDS, in this order: tiles of keys; queries, where they are not in registers; scores, of each part of D; weights of 16
 * bits (unless `scalar`: there they take the place of scores); a factor and more for each row; rows as they lie in the
 * cache, where they are decoded from there (`raw`: pieces of 16 bytes of all of them). Rows of keys and of queries are
 * MLA_ROW_CHUNKS() chunks of 16 bytes. */
#define MLA_TILES(stages, raw)                (!(stages) || (raw) ? 1 : (stages))
#define MLA_ROW_CHUNKS(d)                     (((d) / 8 + 7) / 8 * 8)
#define MLA_SCORE_ROW(keys)                   ((keys) + 4)
#define MLA_WEIGHT_ROW(keys)                  ((keys) / 2 + 4)
#define MLA_QUERIES_AT(tiles, keys, d)        ((tiles) * (keys)*MLA_ROW_CHUNKS(d) * 4)
#define MLA_SCORES_AT(tiles, keys, d, q_rows) (MLA_QUERIES_AT(tiles, keys, d) + (q_rows)*MLA_ROW_CHUNKS(d) * 4)
#define MLA_WEIGHTS_AT(tiles, keys, d, q_rows, parts, rows)                                                            \
    (MLA_SCORES_AT(tiles, keys, d, q_rows) + (parts) * (rows)*MLA_SCORE_ROW(keys))
#define MLA_FACTORS_AT(tiles, keys, d, q_rows, parts, rows, scalar)                                                    \
    (MLA_WEIGHTS_AT(tiles, keys, d, q_rows, parts, rows) + ((scalar) ? 0 : (rows)*MLA_WEIGHT_ROW(keys)))
#define MLA_LDS_FLOATS(tiles, keys, d, q_rows, parts, rows, scalar, raw)                                               \
    (MLA_FACTORS_AT(tiles, keys, d, q_rows, parts, rows, scalar) + (rows)*4 + (raw)*4)

/* Workspace, in floats: of each segment its threads' sums, then of each row the maximum and the sum of weights. */
#define MLA_SLOT_FLOATS(threads, acc, rows) ((threads) * (acc) + 2 * (rows))

/* mla_decode_wgmma, in bytes: barriers and a little more; queries; two tiles of keys; weights of both tiles, unless each
 * takes the place of a block of keys that isn't values. */
#define MLA_WG_ROWS 64
#define MLA_WG_KEYS 64
/* Rows that TMA copies at a time: a tile's, or a page's if that has fewer. */
#define MLA_WG_TMA_ROWS(paged, shift) (!(paged) || (shift) >= 6 ? 64 : 1 << (shift))
#define MLA_WG_Q_AT                   4096
#define MLA_WG_LDS_BYTES(d, dv)       (MLA_WG_Q_AT + 3 * (d)*128 + ((d) >= (dv) + 64 ? 0 : 2 * 64 * 128))

/* Its workspace, in floats: of each workgroup that shares a sequence's keys with other clusters, its columns' sums, a
 * sixteenth of the parts' of DV, and ends, four floats of each of 256 threads. */
#define MLA_WG_UNITS(dv, parts)       (((dv) / 16 + (parts)-1) / (parts))
#define MLA_WG_SLOT_FLOATS(dv, parts) ((MLA_WG_UNITS(dv, parts) + 1) * 1024)

/* mla_decode_wgmma_few, in bytes: barriers and a little more; queries; weights; two tiles of keys; what the cluster's other
 * workgroups send, sums and ends, unless that takes the place of keys. */
#define MLA_FEW_Q_AT                2048
#define MLA_FEW_WEIGHTS_AT(d, rows) (MLA_FEW_Q_AT + (d) / 64 * (rows)*128)
#define MLA_FEW_KV_AT(d, rows)      (MLA_FEW_WEIGHTS_AT(d, rows) + (rows)*128)
#define MLA_FEW_KV_END(d, rows)     (MLA_FEW_KV_AT(d, rows) + 2 * (d)*128)
/* Units of four floats of each of 128 threads that a workgroup combines, of a row tile's dv by rows. */
#define MLA_FEW_UNITS(dv, rows, parts)    (((dv) / 64 * ((rows) / 8) + (parts)-1) / (parts))
#define MLA_FEW_RECEIVED(dv, rows, parts) ((parts) * (MLA_FEW_UNITS(dv, rows, parts) * 2048 + (rows)*8))
#define MLA_FEW_APART(d, dv, rows, parts) (MLA_FEW_KV_END(d, rows) + MLA_FEW_RECEIVED(dv, rows, parts) <= 232448)
#define MLA_FEW_LDS_BYTES(d, dv, rows, parts)                                                                          \
    (MLA_FEW_KV_END(d, rows) +                                                                                         \
     ((parts) > 1 && MLA_FEW_APART(d, dv, rows, parts) ? MLA_FEW_RECEIVED(dv, rows, parts) : 0))
/* Its workspace, in floats: as above, of a cluster's workgroup. */
#define MLA_FEW_SLOT_FLOATS(dv, rows, parts) (MLA_FEW_UNITS(dv, rows, parts) * 512 + (rows)*2)

/* mla_decode_wgmma_codes, in bytes: barriers and queries as there; weights of each team; tiles of codes, as many as there
 * is room for; in their place what teams and the cluster's workgroups send. */
#define MLA_CODES_KV_AT(d, rows, teams)  (MLA_FEW_WEIGHTS_AT(d, rows) + (teams) * (rows)*128)
#define MLA_CODES_STAGES(d, rows, teams) ((232448 - MLA_CODES_KV_AT(d, rows, teams)) / (64 * (d)))
#define MLA_CODES_LDS_BYTES(d, rows, teams)                                                                            \
    (MLA_CODES_KV_AT(d, rows, teams) + MLA_CODES_STAGES(d, rows, teams) * 64 * (d))

#endif
