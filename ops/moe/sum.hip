/* SPDX-License-Identifier: MIT
 *
 * Rows of y, all chunks of all of them as one list, in which a thread takes one after the other: chunks of 16 bytes of
 * x. It asks for the places of SLOTS slots, then for their chunks, all of them in flight, and adds them up in the order
 * of the slots; then for the next SLOTS.
 *
 * Macros: IN_DTYPE (x), OUT_DTYPE (y and the residual), WEIGHTS, RESIDUAL, IDENTITY (may be missing: 0), WIDTH, WIDTH_Y (bytes of a load, and of a
 * store), THREADS, SLOTS. */
#include "rfg_device.h"
#include "moe/sum_args.h"

#define SLOT_ARGS        struct moe_sum_args
#define SLOT_IN          IN_DTYPE
#define SLOT_OUT         OUT_DTYPE
#define SLOT_WEIGHTS     WEIGHTS
#define SLOT_RESIDUAL(a) RESIDUAL
#define SLOT_BATCH       SLOTS
#ifdef IDENTITY
#define SLOT_IDENTITY IDENTITY
#endif
#include "rfg_slots.h"

RFG_KERNEL(THREADS) moe_sum_rows(struct moe_sum_args args)
{
    const struct moe_sum_args *a = &args;
    rfg_u32 step = (rfg_u32)rfg_groups_x(THREADS) * THREADS;
    rfg_start_next();
    rfg_await_previous();
    rfg_u32 total = rfg_slot_tokens(a->t, a->tokens) * a->row_chunks;
    for (rfg_u32 i = (rfg_u32)(rfg_group_x() * THREADS + rfg_thread()); i < total; i += step) {
        rfg_u32 t = (rfg_u32)((rfg_u64)(i * 2u) * a->mul >> 32) >> a->shift, chunk = i - t * a->row_chunks;
        int left = a->n - (int)chunk * SLOT_VEC;
        float sum[SLOT_VEC];
#pragma unroll
        for (int k = 0; k < SLOT_VEC; k++)
            sum[k] = 0.0f;
        for (int first = 0; first < a->top; first += SLOT_BATCH)
            rfg_add_slots(a, sum, t, first, chunk, left);
        rfg_store_slots(a, sum, t, chunk, left);
    }
}
