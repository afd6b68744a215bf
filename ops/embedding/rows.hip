/* SPDX-License-Identifier: MIT
 *
 * Rows of the table, all chunks of all of them as one list: each thread takes UNROLL of them, THREADS apart, asks for
 * their ids, then for the chunks, then stores. The grid may be smaller than the list: it is gone through in strides of
 * the grid.
 *
 * Macros: ID_DTYPE, IN_DTYPE (the table), OUT_DTYPE (y), SCALED, PACKED (rows follow each other), WIDTH, WIDTH_Y (bytes
 * of a load and of a store), THREADS, UNROLL. */
#include "rfg_device.h"
#include "embedding/embedding_args.h"

#if ID_DTYPE != RFG_I32 && ID_DTYPE != RFG_I64
#error "ID_DTYPE: must be i32 or i64"
#endif

#define VEC RFG_DTYPE_VEC(IN_DTYPE)

RFG_DEVICE long long id_of(const void *ids, rfg_u32 row)
{
    if (ID_DTYPE == RFG_I32)
        return (int)rfg_load4((const int *)ids + row);
    rfg_u32x2 two = rfg_load8((const long long *)ids + row);
    return (long long)((rfg_u64)two.y << 32 | two.x);
}

/* The difference is right where id >= first, whatever they are: it is no signed number then. */
RFG_DEVICE rfg_u64 row_of(struct embedding_args args, long long id)
{
    return id < args.first ? ~(rfg_u64)0 : (rfg_u64)id - (rfg_u64)args.first;
}

RFG_DEVICE void store(struct embedding_args args, rfg_u32 row, int chunk, int left, rfg_u32x4 v)
{
    char *y = (char *)args.y + row * (PACKED ? (long long)args.n : args.ldy) * RFG_DTYPE_BYTES(OUT_DTYPE);
    if (!SCALED && IN_DTYPE == OUT_DTYPE) {
        rfg_store_chunk(y, (rfg_u32)chunk * 16u, left, v, OUT_DTYPE, WIDTH_Y, false);
        return;
    }
    float f[VEC];
    rfg_unpack(f, v, IN_DTYPE);
#pragma unroll
    for (int i = 0; i < VEC; i++)
        f[i] = SCALED ? f[i] * args.scale : f[i];
#pragma unroll
    for (int i = 0; i < VEC; i += RFG_DTYPE_VEC(OUT_DTYPE))
        if (i < left)
            rfg_store_chunk(y, (rfg_u32)(chunk * VEC + i) * RFG_DTYPE_BYTES(OUT_DTYPE), left - i,
                            rfg_pack(f + i, OUT_DTYPE), OUT_DTYPE, WIDTH_Y, false);
}

RFG_KERNEL(THREADS) embedding_rows(struct embedding_args args)
{
    rfg_u32 total = (rfg_u32)args.m * args.row_chunks;
    rfg_u32 step = (rfg_u32)rfg_groups_x(THREADS) * (THREADS * UNROLL);
    long long ldt = PACKED ? (long long)args.n : args.ldt;
    rfg_start_next();
    rfg_await_previous(); /* who made the ids */
    for (rfg_u32 base = (rfg_u32)rfg_group_x() * (THREADS * UNROLL); base < total; base += step) {
        rfg_u32x4 v[UNROLL];
        rfg_u64 at_row[UNROLL]; /* of the table; V and more: none */
        rfg_u32 row[UNROLL];
        int chunk[UNROLL], left[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            rfg_u32 at = base + (rfg_u32)(u * THREADS + rfg_thread());
            row[u] = (rfg_u32)((rfg_u64)(at * 2u) * args.mul >> 32) >> args.shift;
            chunk[u] = (int)(at - row[u] * args.row_chunks);
            left[u] = at >= total ? 0 : args.n - chunk[u] * VEC;
            at_row[u] = left[u] > 0 ? row_of(args, id_of(args.ids, row[u])) : ~(rfg_u64)0;
        }
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            v[u].x = v[u].y = v[u].z = v[u].w = 0;
            if (at_row[u] < (rfg_u64)args.v)
                v[u] = rfg_load_chunk((const char *)args.table + (long long)at_row[u] * ldt * RFG_DTYPE_BYTES(IN_DTYPE),
                                      (rfg_u32)chunk[u] * 16u, left[u], IN_DTYPE, WIDTH, false);
        }
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
            if (left[u] > 0)
                store(args, row[u], chunk[u], left[u], v[u]);
    }
}
