/* SPDX-License-Identifier: MIT
 *
 * mla_decode_portable: mla_tile.h's algorithm by fp32 FMA, for every GPU and any alignment. A thread has two neighbouring
 * elements of the values, for MY_ROWS of the rows. */
#include "rfg_device.h"
#include "rfg_attention.h"
#include "rfg_latent.h"
#include "mha/mla/mla_args.h"
#include "mha/mla/mla_layout.h"

#define SCALAR  1
#define PAIRS   (DV / 2)
#define MY_ROWS (ACC / 2)
#define OWNERS  (ROWS / MY_ROWS) /* threads that have the same elements of different rows */
static_assert(OWNERS * PAIRS <= WAVES * RFG_WAVE, "gpu.c says so, too");

#define MLA_NAME   mla_decode_portable
#define MLA_KERNEL RFG_KERNEL(THREADS)
#include "mha/mla/mla_tile.h"

struct queries {
    int none;
};

RFG_DEVICE void load_queries(const struct mla_args *a, const struct work_item *it, float *lds, struct queries *q)
{
    rfg_u32x4 *to = (rfg_u32x4 *)lds + MLA_QUERIES_AT(TILES, KEYS, D) / 4;
    q->none = 0;
#pragma unroll 1
    for (int i = rfg_thread(); i < ROWS * ROW_CHUNKS; i += THREADS)
        to[chunk_at(i / ROW_CHUNKS, i % ROW_CHUNKS)] = query_chunk(a, it, i / ROW_CHUNKS, i % ROW_CHUNKS);
    rfg_barrier_lds();
}

RFG_DEVICE void multiply_keys(const struct work_item *it, const struct queries *q, const rfg_u32x4 *tile, float *lds)
{
    const rfg_u32x4 *queries = (const rfg_u32x4 *)lds + MLA_QUERIES_AT(TILES, KEYS, D) / 4;
    int key = rfg_thread() % KEYS;
    (void)q;
#pragma unroll 1
    for (int r = rfg_thread() / KEYS; r < ROWS; r += THREADS / KEYS) {
        float s = 0.0f;
#pragma unroll 2
        for (int c = 0; c < D / 8 && it->row0 + r < it->rows; c++) {
            float k[8], x[8];
            rfg_unpack(k, tile[chunk_at(key, c)], DTYPE);
            rfg_unpack(x, queries[chunk_at(r, c)], DTYPE);
#pragma unroll
            for (int i = 0; i < 8; i++)
                s = rfg_fma(k[i], x[i], s);
        }
        lds[SCORES_AT + r * SCORE_ROW + key] = s;
    }
}

/* This thread's pair of elements, and the first of its rows. What follows from them is many registers' addresses. */
RFG_DEVICE int my_pair(void)
{
    return rfg_recompute(rfg_thread()) % PAIRS;
}
RFG_DEVICE int my_row(void)
{
    return rfg_recompute(rfg_thread()) / PAIRS * MY_ROWS;
}
RFG_DEVICE int acc_row(int i)
{
    return rfg_thread() < OWNERS * PAIRS ? my_row() + i / 2 : 0;
}

RFG_DEVICE void add_values(const struct work_item *it, struct sums *acc, const rfg_u32x4 *tile, const float *lds)
{
    (void)it;
    if (rfg_thread() >= OWNERS * PAIRS)
        return;
#pragma unroll
    for (int i = 0; i < ACC; i++)
        acc->o[i] *= lds[FACTORS_AT + acc_row(i)];
#pragma unroll 2
    for (int key = 0; key < KEYS; key++) {
        rfg_u32 w = *((const rfg_u32 *)(tile + chunk_at(key, my_pair() / 4)) + my_pair() % 4);
        float v0 = rfg_low(w, DTYPE), v1 = rfg_high(w, DTYPE);
#pragma unroll
        for (int r = 0; r < MY_ROWS; r++) {
            float p = lds[SCORES_AT + (my_row() + r) * SCORE_ROW + key];
            acc->o[2 * r] = rfg_fma(p, v0, acc->o[2 * r]);
            acc->o[2 * r + 1] = rfg_fma(p, v1, acc->o[2 * r + 1]);
        }
    }
}

RFG_DEVICE void store_out(const struct mla_args *a, const struct work_item *it, const struct sums *acc,
                          const float *lds)
{
    if (rfg_thread() >= OWNERS * PAIRS)
        return;
#pragma unroll
    for (int i = 0; i < ACC; i++) {
        int r = acc_row(i);
        float factor = lds[FACTORS_AT + r];
        if (it->row0 + r < it->rows)
            rfg_store_float(a->out.data, row_at(a, it, &a->out, r) + my_pair() * 2 + i % 2,
                            factor == 0.0f ? 0.0f : acc->o[i] * factor, DTYPE);
    }
}

#include "mha/mla/mla_kernel.h"
