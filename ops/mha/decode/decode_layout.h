/* SPDX-License-Identifier: MIT
 *
 * Where mha_decode_stream_mma's kernels have what in LDS and in the workspace, in floats; the host and the kernels read
 * this same text, and each kernel asserts that the LDS_BYTES it is launched with are what it lays out.
 *
 * LDS: for each wave that writes partials, the maximum and the sum of probabilities of `rows` rows; then their outputs,
 * rows of dv padded by 4; AMD: the queries; before partials there are any, in their place, the steps on their way
 * (MHA_DECODE_RING); then, in a cluster, an arrival counter and what the other workgroups send;
 * with cluster=0 a flag, and the sequences' numbers of steps with sums of 16 of them. */
#ifndef RFG_MHA_DECODE_LAYOUT_H
#define RFG_MHA_DECODE_LAYOUT_H

#define MHA_DECODE_STEP      16   /* tokens */
#define MHA_DECODE_MAX_BATCH 1024 /* with cluster=0 */

/* Rows of a work item that are not padding, when it covers a whole kv head (NVIDIA; AMD combines all rows). */
#define MHA_DECODE_REAL_ROWS(queries, rows)                                                                            \
    ((queries) > (rows) / 2 ? (rows) : (queries) > (rows) / 4 ? (rows) / 2 : (rows) / 4)

/* AMD: a row of queries, padded so that lanes which LDS answers together hit all banks. */
#define MHA_DECODE_QUERY_ROW(d, wave_size) ((d) / 2 + ((wave_size) == 64 ? 8 : 4))

/* Of a cluster, each workgroup owns a part of the output. */
#define MHA_DECODE_OWNED_ROWS(real_rows, cluster) ((real_rows) > (cluster) ? (real_rows) / (cluster) : 1)

#define MHA_DECODE_OUTPUTS_AT(waves, rows)             (2 * (waves) * (rows))
#define MHA_DECODE_QUERIES_AT(waves, rows, dv)         (MHA_DECODE_OUTPUTS_AT(waves, rows) + (waves) * (rows) * ((dv) + 4))
#define MHA_DECODE_TAIL_AT(waves, rows, dv, query_row) (MHA_DECODE_QUERIES_AT(waves, rows, dv) + (rows) * (query_row))
#define MHA_DECODE_LDS_FLOATS(tail_at, cluster, real_rows, dv)                                                         \
    ((tail_at) + ((cluster) > 1 ? 4 + (cluster)*MHA_DECODE_OWNED_ROWS(real_rows, cluster) * 4 + (real_rows) * (dv)     \
                  : (cluster)   ? 0                                                                                    \
                                : 4 + MHA_DECODE_MAX_BATCH / 16 * 17))

/* NVIDIA: with more than two steps under way they are on their way to LDS, where each lane has room for what it holds
 * of that many, in bytes. */
#define MHA_DECODE_RING(unroll)                            ((unroll) > 2 ? (unroll) : 0)
#define MHA_DECODE_STAGE_BYTES(d, dv, bits, token_scales)  (((d) + (dv)) * (bits) / 16 + ((token_scales) ? 4 : 0))
#define MHA_DECODE_RING_FLOATS(unroll, waves, stage_bytes) (MHA_DECODE_RING(unroll) * (waves)*32 * (stage_bytes) / 4)

/* SEGMENTED: a sequence's steps make at most MHA_DECODE_SEGMENTS segments of equal length, by its own length alone. LDS
 * has in place of a cluster's room that of a quad's sums so far; the workspace all segments' partials of an item. */
#define MHA_DECODE_SEGMENTS 32
#define MHA_DECODE_LEAST    32 /* steps of a segment */
#define MHA_DECODE_SEGMENT_STEPS(steps)                                                                                \
    ((steps) <= MHA_DECODE_LEAST * MHA_DECODE_SEGMENTS ? MHA_DECODE_LEAST : ((steps)-1) / MHA_DECODE_SEGMENTS + 1)
#define MHA_DECODE_RUNNING_FLOATS(real_rows, dv) ((real_rows) * (dv) / 4 * 6)

/* Workspace: the partials of a workgroup, of each item that it shares with others (cluster=0: it has two at most). */
#define MHA_DECODE_PARTIAL_FLOATS(rows, real_rows, dv, cluster)                                                        \
    (2 * (rows) + (real_rows) * (dv) / ((cluster) > 1 ? (cluster) : 1))

/* Lanes whose registers have no room for the next step's keys and values beside this one's: RDNA's, where both halves
 * of a wave hold what matrix instructions take, and NVIDIA's with the largest heads. */
#define MHA_DECODE_LOADS_LATE(nvidia, wave_size, d, dv) ((wave_size) == 32 && (!(nvidia) || (d) + (dv) > 384))

#endif
