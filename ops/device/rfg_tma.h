/* SPDX-License-Identifier: MIT
 *
 * Hopper's copies of tiles from matrices in global memory to LDS (TMA), of which one thread asks for a whole tile.
 *
 * A matrix is described by a kernel's parameter, after its arguments: const __grid_constant__ rfg_tile_map (struct
 * rfg_tile_map on the host, rfg_variant's tile_maps()). A tile's rows are 128 bytes; chunk c (16 bytes) of row r comes
 * to r * 128 + (c ^ r % 8) * 16, as rfg_wgmma.h reads it, from a multiple of 1024 bytes on. What lies beyond the matrix
 * is zero. */
#if RFG_HAS_WGMMA

/* Of a launch's registers a lane, as many for each thread, warpgroups give some back and take others up: n a lane, a
 * literal, a multiple of 8. All four waves call it; the second waits until there are enough. */
#define rfg_fewer_registers(n) asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(n))
#define rfg_more_registers(n)  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(n))

typedef struct __align__(64)
{
    rfg_u64 words[16];
}
rfg_tile_map;

RFG_DEVICE void rfg_tile_expect(const rfg_tile_map *map)
{
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

/* `bytes`, whole 16 aligned to 16, to an address of LDS, counted by an arrival. One thread asks. */
RFG_DEVICE void rfg_bulk_load(rfg_u32 to, const void *from, rfg_u32 bytes, rfg_u64 *arrival)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(rfg_lds_address(arrival))
                 : "memory");
}

/* The tile from byte `col` of row `row` on, to address `to` of LDS; its bytes are counted by `arrival`. */
RFG_DEVICE void rfg_tile_load(rfg_u32 to, const rfg_tile_map *map, int col, int row, rfg_u64 *arrival)
{
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], "
        "[%2];" ::"r"(to),
        "l"(map), "r"(rfg_lds_address(arrival)), "r"(col), "r"(row)
        : "memory");
}

/* The same to these addresses in the LDS of each workgroup of the cluster whose bit is set, counted by its arrival. */
RFG_DEVICE void rfg_tile_load_to(rfg_u32 to, const rfg_tile_map *map, int col, int row, rfg_u64 *arrival, rfg_u32 ranks)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, {%3, %4}], [%2], %5;" ::"r"(to),
                 "l"(map), "r"(rfg_lds_address(arrival)), "r"(col), "r"(row), "h"((rfg_u16)ranks)
                 : "memory");
}

/* The same two of a map of rows that take turns: tile_rows rows, row `row` and the one that takes turns with it first.
 */
RFG_DEVICE void rfg_tile_load_turns(rfg_u32 to, const rfg_tile_map *map, int col, int row, rfg_u64 *arrival)
{
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], "
        "[%2];" ::"r"(to),
        "l"(map), "r"(rfg_lds_address(arrival)), "r"(col), "r"(0), "r"(row)
        : "memory");
}
RFG_DEVICE void rfg_tile_load_turns_to(rfg_u32 to, const rfg_tile_map *map, int col, int row, rfg_u64 *arrival,
                                       rfg_u32 ranks)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(to),
                 "l"(map), "r"(rfg_lds_address(arrival)), "r"(col), "r"(0), "r"(row), "h"((rfg_u16)ranks)
                 : "memory");
}

/* The tile that was written to LDS, by any threads, to byte `col` of row `row` on, as far as the matrix goes. The
 * writers call rfg_tile_written() and meet before; this thread may then wait, with the next, for all but its n newest
 * (a constant) to be read from LDS, or be done. */
RFG_DEVICE void rfg_tile_store(const rfg_tile_map *map, int col, int row, rfg_u32 from)
{
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];\n"
                 "cp.async.bulk.commit_group;" ::"l"(map),
                 "r"(from), "r"(col), "r"(row)
                 : "memory");
}
RFG_DEVICE void rfg_tile_written(void)
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
#define rfg_tile_stores_read(n) asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(n) : "memory")
#define rfg_tile_stores_done(n) asm volatile("cp.async.bulk.wait_group %0;" ::"n"(n) : "memory")

/* Arrives at the rank-th workgroup's. (With .release.cluster said, all memory that this thread wrote is waited for.) */
RFG_DEVICE void rfg_arrive_at(rfg_u64 *arrival, int rank)
{
    asm volatile("{\n.reg .b32 at;\n"
                 "mapa.shared::cluster.u32 at, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [at];\n}" ::"r"(rfg_lds_address(arrival)),
                 "r"(rank)
                 : "memory");
}

#endif
