/* SPDX-License-Identifier: MIT
 *
 * mla_decode_tile_mma: mla_tile.h's algorithm on matrix cores. Scores are K Q^T (keys are the fragments' rows), outputs
 * V^T P^T, whose A is transposed on its way from LDS to registers: a lane reads some elements of RFG_PV_TOKENS rows, and
 * puts two rows' elements together. */
#include "rfg_device.h"
#include "rfg_attention.h"
#include "rfg_latent.h"
#include "mha/mla/mla_args.h"
#include "mha/mla/mla_layout.h"

#define SCALAR     0
#define COLS       (ROWS / RFG_FRAG_X_ROWS) /* tiles of queries */
#define STEPS_OF_D (D / 32)
#define MY_STEPS   ((STEPS_OF_D + PARTS_OF_D - 1) / PARTS_OF_D)
#define KEY_TILES  (KEYS / 16)
#define CHAINS     2 /* of matrix instructions that wait for each other, for each tile of scores */
#define V_ELEMENTS RFG_LATENT_ELEMENTS(DV) /* of a row of values that a lane reads */
#define V_WORDS    (V_ELEMENTS / 2)
#define V_GROUP    (RFG_LATENT_LANES * V_ELEMENTS) /* that a wave reads */
#define V_GROUPS   (DV / V_GROUP)
#define MY_GROUPS  ((V_GROUPS + WAVES - 1) / WAVES)
#define BLOCKS     (V_ELEMENTS / RFG_PV_ROWS)
#define TILE_SUMS  (BLOCKS * RFG_PV_O) /* of a lane, for a group and a tile of queries */
static_assert(ACC == MY_GROUPS * COLS * TILE_SUMS, "gpu.c says so, too");
static_assert(KEY_TILES * PARTS_OF_D <= WAVES, "each wave has one tile of scores at most");

#define MLA_NAME   mla_decode_tile_mma
#define MLA_KERNEL RFG_KERNEL(THREADS)
#include "mha/mla/mla_tile.h"

struct queries {
#if Q_ROWS
    int none;
#else
    rfg_frag_x x[COLS][MY_STEPS];
#endif
};

/* Which keys, and which part of D, a wave has in multiply_keys(). */
RFG_DEVICE int my_keys(void)
{
    return rfg_wave() % KEY_TILES;
}
RFG_DEVICE int my_part(void)
{
    return rfg_wave() / KEY_TILES;
}

RFG_DEVICE void load_queries(const struct mla_args *a, const struct work_item *it, float *lds, struct queries *q)
{
#if Q_ROWS
    rfg_u32x4 *to = (rfg_u32x4 *)lds + MLA_QUERIES_AT(TILES, KEYS, D) / 4;
    q->none = 0;
#pragma unroll 1
    for (int i = rfg_thread(); i < ROWS * ROW_CHUNKS; i += THREADS) {
        int r = i / ROW_CHUNKS, c = i % ROW_CHUNKS;
        to[chunk_at(r, c)] = query_chunk(a, it, r, c);
    }
    rfg_barrier_lds();
#else
    (void)lds;
#pragma unroll
    for (int col = 0; col < COLS; col++)
#pragma unroll
        for (int n = 0; n < MY_STEPS; n++)
#pragma unroll
            for (int i = 0; i < RFG_FRAG_X; i++)
                q->x[col][n].v[i] = query_chunk(a, it, col * RFG_FRAG_X_ROWS + rfg_frag_row(0),
                                                4 * (my_part() + n * PARTS_OF_D) + rfg_frag_chunk(i));
#endif
}

RFG_DEVICE void multiply_keys(const struct work_item *it, const struct queries *q, const rfg_u32x4 *tile, float *lds)
{
    int part = my_part(), row0 = my_keys() * 16;
    (void)it;
    if (part >= PARTS_OF_D)
        return;
    rfg_frag_wx s[CHAINS][COLS];
#pragma unroll
    for (int n = 0; n < CHAINS; n++)
#pragma unroll
        for (int col = 0; col < COLS; col++)
#pragma unroll
            for (int i = 0; i < RFG_FRAG_WX; i++)
                s[n][col].v[i] = 0.0f;
#if Q_ROWS
    const rfg_u32x4 *queries = (const rfg_u32x4 *)lds + MLA_QUERIES_AT(TILES, KEYS, D) / 4;
    (void)q;
#endif
#pragma unroll
    for (int n = 0; n < MY_STEPS; n++) {
        if (n % 2 == 0)
            rfg_latent_keep_order(); /* or all steps' keys and queries are in registers at once */
        /* Of an odd number of steps, one part's last one is again the other's, times queries that are 0 there. (A branch
         * would hide matrix instructions from LLVM's hazard recogniser.) */
        int c = part + n * PARTS_OF_D, real = c < STEPS_OF_D ? c : STEPS_OF_D - 1;
        rfg_frag_ab keys;
#pragma unroll
        for (int i = 0; i < RFG_FRAG_AB; i++)
            keys.v[i] = tile[chunk_at(row0 + rfg_frag_row(i), 4 * real + rfg_frag_chunk(i))];
#pragma unroll
        for (int col = 0; col < COLS; col++) {
#if Q_ROWS
            rfg_frag_x x;
#pragma unroll
            for (int i = 0; i < RFG_FRAG_X; i++)
                x.v[i] = queries[chunk_at(col * RFG_FRAG_X_ROWS + rfg_frag_row(0), 4 * c + rfg_frag_chunk(i))];
            rfg_frag_mma_wx(&s[n % CHAINS][col], &keys, &x, DTYPE);
#else
            rfg_frag_mma_wx(&s[n % CHAINS][col], &keys, &q->x[col][n], DTYPE);
#endif
        }
    }
    float *to = lds + SCORES_AT + part * ROWS * SCORE_ROW + row0;
#pragma unroll
    for (int col = 0; col < COLS; col++)
#pragma unroll
        for (int i = 0; i < RFG_FRAG_WX; i++)
            to[(col * RFG_FRAG_X_ROWS + rfg_frag_wx_col(i)) * SCORE_ROW + rfg_frag_c_row(i)] =
                s[0][col].v[i] + s[1][col].v[i];
}

RFG_DEVICE void add_group(float *o, const rfg_u32x4 *tile, int token0, int group, rfg_u32 (*p)[RFG_PV_TOKENS / 2])
{
    rfg_u32 v[RFG_PV_TOKENS][V_WORDS];
    int d = group * V_GROUP + rfg_pv_lane() * V_ELEMENTS;
#pragma unroll
    for (int i = 0; i < RFG_PV_TOKENS; i++) {
        const rfg_u32x4 *at = tile + chunk_at(token0 + rfg_latent_token(i), d / 8);
#if V_ELEMENTS == 8
        rfg_u32x4 w = *at;
        v[i][0] = w.x;
        v[i][1] = w.y;
        v[i][2] = w.z;
        v[i][3] = w.w;
#else
        rfg_u32x2 w = *((const rfg_u32x2 *)at + d / 4 % 2);
        v[i][0] = w.x;
        v[i][1] = w.y;
#endif
    }
#pragma unroll
    for (int b = 0; b < BLOCKS; b++) {
        rfg_u32 pairs[RFG_PV_TOKENS / 2 * RFG_PV_ROWS];
#pragma unroll
        for (int i = 0; i < RFG_PV_TOKENS / 2; i++)
#pragma unroll
            for (int r = 0; r < RFG_PV_ROWS; r++) {
                int e = r * BLOCKS + b;
                pairs[i * RFG_PV_ROWS + r] =
                    rfg_byte_perm(v[2 * i][e / 2], v[2 * i + 1][e / 2], e % 2 ? 0x7632 : 0x5410);
            }
#pragma unroll
        for (int col = 0; col < COLS; col++)
            rfg_pv_mma(o + col * TILE_SUMS + b * RFG_PV_O, pairs, p[col], DTYPE);
    }
}

/* The query of this lane in element i of its sums. */
RFG_DEVICE int acc_row(int i)
{
    return i / TILE_SUMS % COLS * RFG_FRAG_X_ROWS + rfg_frag_wx_col(i);
}

RFG_DEVICE void scale_down(struct sums *acc, const float *lds)
{
    bool any = false;
#pragma unroll
    for (int col = 0; col < COLS; col++)
#pragma unroll
        for (int i = 0; i < RFG_FRAG_WX_COLS; i++)
            any |= lds[FACTORS_AT + acc_row(col * TILE_SUMS + i)] != 1.0f;
    if (!rfg_any_lane(any))
        return;
#pragma unroll
    for (int i = 0; i < ACC; i++)
        acc->o[i] *= lds[FACTORS_AT + acc_row(i)];
}

RFG_DEVICE void add_values(const struct work_item *it, struct sums *acc, const rfg_u32x4 *tile, const float *lds)
{
    (void)it;
    scale_down(acc, lds);
#pragma unroll
    for (int t = 0; t < KEY_TILES; t++) {
        rfg_u32 p[COLS][RFG_PV_TOKENS / 2];
        rfg_latent_keep_order();
#pragma unroll
        for (int col = 0; col < COLS; col++)
#pragma unroll
            for (int i = 0; i < RFG_PV_TOKENS / 2; i++) {
                int query = rfg_latent_query();
                p[col][i] = rfg_as_u32(lds[WEIGHTS_AT + (col * RFG_FRAG_X_ROWS + query) * WEIGHT_ROW + t * 8 +
                                           rfg_latent_token(2 * i) / 2]);
            }
#pragma unroll
        for (int g = 0; g < MY_GROUPS; g++) {
            int group = rfg_wave() + g * WAVES;
            if (V_GROUPS % WAVES == 0 || group < V_GROUPS)
                add_group(acc->o + g * COLS * TILE_SUMS, tile, t * 16, group, p);
        }
    }
}

/* A lane has, of float i of O in RFG_PV_O / RFG_PV_ROWS, V_ELEMENTS neighbouring elements. */
RFG_DEVICE void store_out(const struct mla_args *a, const struct work_item *it, const struct sums *acc,
                          const float *lds)
{
#pragma unroll
    for (int g = 0; g < MY_GROUPS; g++) {
        int group = rfg_wave() + g * WAVES;
        if (V_GROUPS % WAVES && group >= V_GROUPS)
            continue;
#pragma unroll
        for (int col = 0; col < COLS; col++)
#pragma unroll
            for (int i = 0; i < RFG_PV_O / RFG_PV_ROWS; i++) {
                const float *o = acc->o + (g * COLS + col) * TILE_SUMS;
                int r = acc_row(col * TILE_SUMS + i), d = group * V_GROUP + rfg_pv_o_lane(i) * V_ELEMENTS;
                float f[V_ELEMENTS], factor = lds[FACTORS_AT + r];
#pragma unroll
                for (int e = 0; e < V_ELEMENTS; e++)
                    f[e] = factor == 0.0f
                               ? 0.0f
                               : o[e % BLOCKS * RFG_PV_O + e / BLOCKS * (RFG_PV_O / RFG_PV_ROWS) + i] * factor;
                if (it->row0 + r >= it->rows)
                    continue;
                char *to = (char *)a->out.data + (row_at(a, it, &a->out, r) + d) * 2;
                rfg_u32 w[V_WORDS];
#pragma unroll
                for (int e = 0; e < V_WORDS; e++)
                    w[e] = rfg_floats_to_16(f[2 * e], f[2 * e + 1], DTYPE);
#if V_ELEMENTS == 8
                rfg_u32x4 v = { w[0], w[1], w[2], w[3] };
                rfg_store16(to, v);
#else
                rfg_u32x2 v = { w[0], w[1] };
                rfg_store8(to, v);
#endif
            }
    }
}

#include "mha/mla/mla_kernel.h"
