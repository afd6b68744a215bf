/* SPDX-License-Identifier: MIT
 *
 * For kernels that include it after rfg_device.h: the order of tiles on a GPU of several dies (XCDS of them: MI300 and
 * later), each with an L2 of its own. Workgroups go round them: number w runs on die w % XCDS, so neighbours never
 * share an L2. */
#ifndef XCDS
#define XCDS 1
#endif

/* The place of workgroup `group` of `groups` in an order in which each die has neighbours. One to one. */
RFG_DEVICE int rfg_xcd_order(int group, int groups)
{
    rfg_u32 g = (rfg_u32)group, n = (rfg_u32)groups, xcd = g % XCDS, more = n % XCDS;
    return (int)(xcd * (n / XCDS) + (xcd < more ? xcd : more) + g / XCDS);
}

/* Of n > 0 things that neighbouring workgroups take by turns, as many as keep each on as few dies as possible: on one,
 * or if there are fewer things than dies, on as many as it takes to keep all dies busy. */
RFG_DEVICE int rfg_xcd_turns(int n)
{
    while (n % XCDS && XCDS % n)
        n--;
    return n;
}

/* Of a matrix product in tiles, whose k may be split. */
struct rfg_tile {
    int m, n, split;
};

/* The same in all lanes: the compiler divides in vector registers, and would keep what follows there. */
RFG_DEVICE int xcd_scalar(int n)
{
#if defined(__AMDGCN__)
    return __builtin_amdgcn_readfirstlane(n);
#else
    return n;
#endif
}

/* Workgroup `group`'s tile, of tile_m rows. A die gets all tiles of some rows of W, so that these are read from memory
 * once; of a large X, those of XCD_ROWS rows of X before the next ones, so that what a die works on at a time is about
 * square. Parts of k come last: a die has one or two of them. */
#define XCD_ROWS 512
RFG_DEVICE struct rfg_tile rfg_xcd_tile(int group, int tile_m, int tiles_m, int tiles_n, int splits)
{
    struct rfg_tile t;
    int tiles = tiles_m * tiles_n, at = rfg_xcd_order(group, tiles * splits), height = tiles_m;
    int most = XCD_ROWS / tile_m;
    t.m = 0;
    t.split = splits == 1 ? 0 : at / tiles; /* divisions are slow */
    at -= t.split * tiles;
    if (tiles_m > most) {
        int band = at / (most * tiles_n);
        at -= band * (most * tiles_n);
        t.m = band * most;
        height = tiles_m - t.m < most ? tiles_m - t.m : most;
    }
    t.n = xcd_scalar(at / height);
    t.m = xcd_scalar(t.m + at - t.n * height);
    t.split = xcd_scalar(t.split);
    return t;
}
