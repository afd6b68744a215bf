/* SPDX-License-Identifier: MIT
 *
 * Eight threads copy a row: all its pieces at once (mla_rows.h), 32 rows a workgroup. Bytes bind; a row's place takes
 * three loads one after the other (its sequence's end, by bisection, its block, its pieces), which other rows hide.
 *
 * Macros: DTYPE (rows), KV_DTYPE, FORMAT, D, WIDE, SCALED. */
#include "rfg_device.h"
#include "mha/mla/mla_format.h"
#include "mha/mla_gather/gather_args.h"
#include "mha/mla/mla_rows.h"

#define THREADS 256
#define AT_ONCE (THREADS / 8)

RFG_DEVICE int within_i32(long long n, int least, int most)
{
    n = n < most ? n : most;
    return (int)(n > least ? n : least);
}

RFG_DEVICE int load_int(const int *p, int at)
{
    return (int)rfg_load4(p + at);
}

/* The sequence of row r; -1: none. */
RFG_DEVICE int sequence_of(const struct gather_args *a, int r)
{
    int low = 0, high = a->batch;
    if (r < load_int(a->cu_seqlens, 0) || r >= load_int(a->cu_seqlens, a->batch))
        return -1;
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        if (load_int(a->cu_seqlens, middle) <= r)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Where a row is; block -1: nowhere. */
struct place {
    long long block;
    int t;
};
RFG_DEVICE struct place place_of(const struct gather_args *a, int r)
{
    struct place p = { -1, 0 };
    int b = sequence_of(a, r), held = a->held;
    if (b < 0)
        return p;
    const int *table = a->table;
    if (a->indptr) {
        int first = within_i32(load_int(a->indptr, b), 0, a->entries);
        int end = within_i32(load_int(a->indptr, b + 1), first, a->entries);
        table += first;
        held = (end - first) << a->page_shift;
    } else if (table) {
        table += b * a->table_stride;
    }
    if (held == 0)
        return p;
    long long at = (long long)r - load_int(a->cu_seqlens, b) + (a->first ? load_int(a->first, b) : 0);
    int key = within_i32(at, 0, held - 1);
    p.block = b;
    p.t = key;
    if (a->table) {
        p.block = within_i32(load_int(table, key >> a->page_shift), 0, a->blocks - 1);
        p.t = key & ((1 << a->page_shift) - 1);
    }
    return p;
}

RFG_DEVICE void store_piece(char *p, rfg_u32x4 v)
{
    if (WIDE) {
        rfg_store16(p, v);
        return;
    }
    const rfg_u32 w[4] = { v.x, v.y, v.z, v.w };
#pragma unroll
    for (int i = 0; i < 8; i++)
        rfg_store2(p + 2 * i, (rfg_u16)(w[i / 2] >> (i % 2 * 16)));
}

RFG_KERNEL(THREADS) mla_gather_rows(struct gather_args a)
{
    int lane = rfg_thread() % 8;
    rfg_start_next();
    rfg_await_previous();
    float factor = KV_BYTES == 1 && FORMAT == MLA_PLAIN && a.kv_scale ? rfg_load_float(a.kv_scale, 0, RFG_F32) : 1.0f;
    for (long long r = (long long)rfg_group_x() * AT_ONCE + rfg_thread() / 8; r < a.n;
         r += (long long)rfg_groups_x(THREADS) * AT_ONCE) {
        struct place at = place_of(&a, (int)r);
        if (at.block < 0)
            continue;
        const char *block = (const char *)a.kv + at.block * a.kv_block * KV_BYTES,
                   *row = block + at.t * a.kv_row * KV_BYTES;
        const char *scales =
            FORMAT == MLA_V4 ? block + a.scales_at + at.t * MLA_V4_SCALE_BYTES : row + MLA_V32_SCALES_AT;
        char *to = (char *)a.rows + r * a.row * 2;
        struct row_pieces pieces;
        load_row(&pieces, row, scales, lane);
#pragma unroll
        for (int i = 0; i < GIVEN; i++) {
            int c = given_chunk(i, lane);
            if (c >= 0)
                store_piece(to + c * 16, give_chunk(&pieces, i, lane, factor));
        }
    }
}
