/* SPDX-License-Identifier: MIT
 *
 * For kernels of grouped products with SLOTS, after experts.h: rows of the product go to the workspace, as Y's would,
 * and the last to arrive of those that made a column of tiles sums it for all tokens, in the order of the slots: the
 * bits of moe_sum. Macros: WIDTH_Y (rfg_slots.h). */
#if SLOTS
/* What rfg_slots.h reads. */
struct slot_sums {
    const void *x, *residual;
    void *y;
    const int *places;
    const float *weights;     /* nor ldw: with SLOT_WEIGHTS alone */
    int top, x_rows, experts; /* experts: with SLOT_IDS */
    long long ldx, ldy, ldr, ldp, ldw;
};
#define SLOT_ARGS        struct slot_sums
#define SLOT_IN          OUT_DTYPE
#define SLOT_OUT         OUT_DTYPE
#define SLOT_WEIGHTS     0
#define SLOT_IDS         EXPERT_IDS
#define SLOT_RESIDUAL(a) ((a)->residual != 0)
#define SLOT_BATCH       8
#define WIDTH            16 /* rows in the workspace are whole chunks */
#include "rfg_slots.h"

/* Columns n0 to n0 + tile_n - 1, a multiple of 16, of all tokens, by `threads` threads. */
RFG_DEVICE void sum_columns(const struct gemm_args *all, int n0, int tile_n, int thread, int threads)
{
    struct slot_sums s;
    s.x = all->workspace;
    s.ldx = GEMM_LDY(all);
    s.x_rows = all->m;
    s.y = all->y;
    s.ldy = all->ldy;
    s.residual = all->residual;
    s.ldr = all->ldr;
    s.places = EXPERT_IDS ? all->offsets : all->places;
    s.experts = all->experts;
    s.ldp = s.top = all->top;
    int chunks = tile_n / SLOT_VEC, total = (int)rfg_slot_tokens(all->m / all->top, all->tokens) * chunks;
#pragma unroll 1
    for (int i = thread; i < total; i += threads) {
        int n = n0 + i % chunks * SLOT_VEC;
        float sum[SLOT_VEC];
        if (n >= all->n)
            continue;
#pragma unroll
        for (int k = 0; k < SLOT_VEC; k++)
            sum[k] = 0.0f;
#pragma unroll 1
        for (int first = 0; first < all->top; first += SLOT_BATCH)
            rfg_add_slots(&s, sum, (rfg_u32)(i / chunks), first, (rfg_u32)(n / SLOT_VEC), all->n - n);
        rfg_store_slots(&s, sum, (rfg_u32)(i / chunks), (rfg_u32)(n / SLOT_VEC), all->n - n);
    }
}
#endif
