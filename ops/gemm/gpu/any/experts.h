/* SPDX-License-Identifier: MIT
 *
 * For kernels of grouped products, included after epilogue.h: rows of Y are sorted by expert, each of which has N rows
 * of W (and their scales, zero points and biases) of its own. A tile of rows is of one expert; which one follows from
 * offsets in device memory, so that a launch, or a captured graph, serves any load. */
#include "rfg_select.h"
#include "rfg_xcd.h"

#ifndef MANY_EXPERTS
#define MANY_EXPERTS 0
#endif

#if EXPERTS
/* One expert: its rows of Y are those from `begin` on; its tiles, of all, those from `first` on. */
struct expert {
    int e, begin, rows, first, tiles;
};

/* Where expert e's rows begin. What is not between 0 and M, which it must be, counts as the nearest. */
RFG_DEVICE int expert_begin(const struct gemm_args *a, int e)
{
    int offset = (int)rfg_load4((const char *)a->offsets + (long long)e * 4);
    return offset < 0 ? 0 : offset < a->m ? offset : a->m;
}

#if EXPERT_IDS
/* Each row of Y is a tile of its own; which expert's is said. */
RFG_DEVICE bool find_expert(struct expert *x, const struct gemm_args *a, int tile_m, int tile)
{
    (void)tile_m;
    x->e = xcd_scalar((int)rfg_load4((const char *)a->offsets + (long long)tile * 4));
    x->begin = x->first = tile;
    x->rows = x->tiles = 1;
    return x->e >= 0 && x->e < a->experts;
}
#else
/* Whose tile `tile` is, of all experts' tiles of tile_m rows, one after the other. False: there are fewer. The same in
 * all lanes, which must be on.
 *
 * What takes long is that memory answers, so that a round asks for all offsets at once: of FIND_CHUNKS times four
 * experts a lane. The four are neighbours: a wave's loads are of few lines, the same ones each time. Tiles are numbered
 * in that order: all of a lane's, then the next one's. */
#define FIND_CHUNKS (MANY_EXPERTS ? 4 : 1)
RFG_DEVICE bool find_expert(struct expert *x, const struct gemm_args *a, int tile_m, int tile)
{
    int before = 0;
#pragma unroll 1
    for (int e0 = 0; e0 < a->experts; e0 += FIND_CHUNKS * 4 * RFG_WAVE) {
        int begin[FIND_CHUNKS][5], tiles[FIND_CHUNKS][4], all = 0;
#pragma unroll
        for (int c = 0; c < FIND_CHUNKS; c++)
#pragma unroll
            for (int i = 0; i < 5; i++) {
                int at = e0 + (c * RFG_WAVE + rfg_lane()) * 4 + i;
                begin[c][i] = expert_begin(a, at < a->experts ? at : a->experts);
            }
#pragma unroll
        for (int c = 0; c < FIND_CHUNKS; c++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                int rows = begin[c][i + 1] - begin[c][i];
                all += tiles[c][i] = rows > 0 ? (rows + tile_m - 1) / tile_m : 0;
            }
        int upto = (int)rfg_wave_sum_upto_u32((rfg_u32)all), first = before + upto - all;
        before += (int)rfg_wave_max_u32((rfg_u32)upto);
        if (tile >= before)
            continue;
        struct expert own = { 0, 0, 0, 0, 0 }; /* not 0 in the one lane that has it */
#pragma unroll
        for (int c = 0; c < FIND_CHUNKS; c++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                if (first <= tile && tile < first + tiles[c][i]) {
                    int e = e0 + (c * RFG_WAVE + rfg_lane()) * 4 + i;
                    struct expert it = { e, begin[c][i], begin[c][i + 1] - begin[c][i], first, tiles[c][i] };
                    own = it;
                }
                first += tiles[c][i];
            }
        x->e = xcd_scalar((int)rfg_wave_max_u32((rfg_u32)own.e));
        x->begin = xcd_scalar((int)rfg_wave_max_u32((rfg_u32)own.begin));
        x->rows = xcd_scalar((int)rfg_wave_max_u32((rfg_u32)own.rows));
        x->first = xcd_scalar((int)rfg_wave_max_u32((rfg_u32)own.first));
        x->tiles = (x->rows + tile_m - 1) / tile_m;
        return true;
    }
    return false;
}
#endif

/* The arguments of a product of at most tile_m of the expert's rows, from its row m0 on. */
RFG_DEVICE struct gemm_args args_of(const struct gemm_args *all, const struct expert *x, int m0, int tile_m)
{
    struct gemm_args a = *all;
    long long n = (long long)x->e * a.n, begin = (long long)x->begin + m0;
    a.m = x->rows - m0 < tile_m ? x->rows - m0 : tile_m;
    a.y = (char *)a.y + begin * GEMM_LDY(all) * Y_BYTES;
    a.w = (const char *)a.w + W_BYTES_OF(n * GEMM_LDW(all));
    if (a.bias)
        a.bias = (const char *)a.bias + n * RFG_DTYPE_BYTES(BIAS_DTYPE);
#if GATHER
    a.rows += begin;
#else
#if EXPERT_IDS
    long long of_x = (rfg_u32)begin / (rfg_u32)a.x_each;
#else
    long long of_x = begin;
#endif
    a.x = (const char *)a.x + X_BYTES_OF(of_x * GEMM_LDX(all));
#if SCALES
    if (a.x_scale)
        a.x_scale = (const char *)a.x_scale + of_x * a.x_scale_row * SCALE_BYTES;
#endif
#endif
#if SCALES
    if (a.w_scale)
        a.w_scale = (const char *)a.w_scale + (long long)x->e * a.w_expert_scales * SCALE_BYTES;
#elif W_SCALE_DTYPE
    a.w_scale = (const char *)a.w_scale + n * W_GROUPS_IN(W_COLS(&a)) * W_SCALE_BYTES;
#if W_ZERO
    a.w_zero = (const char *)a.w_zero + n * W_GROUPS_IN(W_COLS(&a));
#endif
#if W_GLOBAL
    a.w_global += x->e;
#endif
#endif
#if WEIGHTED
    a.weights += begin;
#endif
    return a;
}

/* The same of tile number `number` of all experts'. False: there are fewer. */
RFG_DEVICE bool take_tile(struct gemm_args *a, int tile_m, int number)
{
    struct expert x;
    if (!find_expert(&x, a, tile_m, number))
        return false;
    *a = args_of(a, &x, (number - x.first) * tile_m, tile_m);
    return true;
}
#endif
