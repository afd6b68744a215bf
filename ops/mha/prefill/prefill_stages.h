/* SPDX-License-Identifier: MIT
 *
 * Prefill's LDS, and a wave's queries, of prefill_amd.hip and prefill_nvidia.hip. */

/* LDS, in 16-byte chunks: STAGES tiles of K and V, then (Q_LDS) the queries. */
#define K_TILE (TILE_KV * K_CHUNKS)
#define STAGE  (K_TILE + V_TILE)
#define Q_AT   (STAGES * STAGE)
static_assert(LDS_BYTES == 16 * Q_AT + (Q_LDS ? 16 * FRAGS_Q * STEPS * RFG_FRAG_AB * THREADS : 0),
              "LDS_BYTES must be what prefill_layout.h says of this kernel's macros");

/* Q's fragments, where they are. In LDS a lane reads what it wrote itself, so that nobody waits. */
struct queries {
#if Q_LDS
    rfg_u32x4 *at;
#else
    rfg_frag_ab f[FRAGS_Q][STEPS];
#endif
};

/* Piece i of a fragment: NVIDIA, a step of 16; AMD, a chunk. */
RFG_DEVICE rfg_u32x4 query_piece(const struct queries *q, int f, int k, int i)
{
#if Q_LDS
    return q->at[((f * STEPS + k) * RFG_FRAG_AB + i) * RFG_WAVE];
#else
    return q->f[f][k].v[i];
#endif
}
