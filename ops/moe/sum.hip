/* SPDX-License-Identifier: MIT
 *
 * Rows of y, all chunks of all of them as one list, in which a thread takes one after the other: chunks of 16 bytes of
 * x. It asks for the places of SLOTS slots, then for their chunks, all of them in flight, and adds them up in the order
 * of the slots; then for the next SLOTS.
 *
 * Macros: IN_DTYPE (x), OUT_DTYPE (y and the residual), WEIGHTS, RESIDUAL, WIDTH, WIDTH_Y (bytes of a load, and of a
 * store), THREADS, SLOTS. */
#include "rfg_device.h"
#include "moe/sum_args.h"

#define VEC     RFG_DTYPE_VEC(IN_DTYPE)
#define OUT_VEC (RFG_DTYPE_VEC(OUT_DTYPE) < VEC ? RFG_DTYPE_VEC(OUT_DTYPE) : VEC) /* of an access to y */

/* Adds slots first to first + SLOTS - 1 of a token to the sums of a chunk that has `left` elements of the row. */
RFG_DEVICE void add_slots(const struct moe_sum_args *a, float *sum, rfg_u32 t, int first, rfg_u32 chunk, int left)
{
    rfg_u32 place[SLOTS];
    float weight[SLOTS];
    rfg_u32x4 v[SLOTS];
#pragma unroll
    for (int s = 0; s < SLOTS; s++) {
        bool there = first + s < a->top;
        place[s] = there ? rfg_load4(a->places + t * a->ldp + (first + s)) : ~0u;
        weight[s] = WEIGHTS && there ? rfg_as_float(rfg_load4(a->weights + t * a->ldw + (first + s))) : 1.0f;
    }
#pragma unroll
    for (int s = 0; s < SLOTS; s++)
        if (place[s] < (rfg_u32)a->x_rows)
            v[s] = rfg_load_chunk((const char *)a->x + place[s] * a->ldx * RFG_DTYPE_BYTES(IN_DTYPE), chunk * 16u, left,
                                  IN_DTYPE, WIDTH, false);
#pragma unroll
    for (int s = 0; s < SLOTS; s++)
        if (place[s] < (rfg_u32)a->x_rows) {
            float f[RFG_MAX_VEC];
            rfg_unpack(f, v[s], IN_DTYPE);
#pragma unroll
            for (int i = 0; i < VEC; i++)
                sum[i] = WEIGHTS ? rfg_fma(weight[s], f[i], sum[i]) : sum[i] + f[i];
        }
}

/* Rounds the sums, with what is added last, to y. */
RFG_DEVICE void store(const struct moe_sum_args *a, float *sum, rfg_u32 t, rfg_u32 chunk, int left)
{
    char *y = (char *)a->y + t * a->ldy * RFG_DTYPE_BYTES(OUT_DTYPE);
    const char *r = (const char *)a->residual + t * a->ldr * RFG_DTYPE_BYTES(OUT_DTYPE);
#pragma unroll
    for (int i = 0; i < VEC; i += OUT_VEC) {
        rfg_u32 at = (chunk * VEC + i) * RFG_DTYPE_BYTES(OUT_DTYPE);
        int here = left - i < OUT_VEC ? left - i : OUT_VEC;
        float out[RFG_MAX_VEC] = { 0 };
        if (here <= 0)
            continue;
        if (RESIDUAL)
            rfg_unpack(out, rfg_load_chunk(r, at, here, OUT_DTYPE, WIDTH_Y, false), OUT_DTYPE);
#pragma unroll
        for (int k = 0; k < OUT_VEC; k++)
            out[k] = RESIDUAL ? sum[i + k] + out[k] : sum[i + k];
            /* See rfg_pack_bf16(): of fp32 inputs a NaN may be any. */
#pragma unroll
        for (int k = 0; k < OUT_VEC; k++)
            if (OUT_DTYPE == RFG_BF16 && (IN_DTYPE == RFG_F32 || WEIGHTS))
                out[k] = out[k] == out[k] ? out[k] : rfg_as_float(0x7fc00000u);
        rfg_store_chunk(y, at, here, rfg_pack(out, OUT_DTYPE), OUT_DTYPE, WIDTH_Y, false);
    }
}

RFG_KERNEL(THREADS) moe_sum_rows(struct moe_sum_args args)
{
    const struct moe_sum_args *a = &args;
    rfg_u32 step = (rfg_u32)rfg_groups_x(THREADS) * THREADS, tokens = (rfg_u32)a->t;
    rfg_start_next();
    rfg_await_previous();
    if (a->tokens) {
        int most = (int)rfg_load4(a->tokens);
        tokens = most < 0 ? 0u : (rfg_u32)most < tokens ? (rfg_u32)most : tokens;
    }
    rfg_u32 total = tokens * a->row_chunks;
    for (rfg_u32 i = (rfg_u32)(rfg_group_x() * THREADS + rfg_thread()); i < total; i += step) {
        rfg_u32 t = (rfg_u32)((rfg_u64)(i * 2u) * a->mul >> 32) >> a->shift, chunk = i - t * a->row_chunks;
        int left = a->n - (int)chunk * VEC;
        float sum[VEC];
#pragma unroll
        for (int k = 0; k < VEC; k++)
            sum[k] = 0.0f;
        for (int first = 0; first < a->top; first += SLOTS)
            add_slots(a, sum, t, first, chunk, left);
        store(a, sum, t, chunk, left);
    }
}
