/* SPDX-License-Identifier: MIT
 *
 * Adds a tile's partial sums across a cluster that shares out k. Each workgroup owns some blocks of the tile. All send
 * their sums of a block from registers to the owner's LDS, and the owner adds them in a fixed order. An arrival counts
 * the bytes. There is no traffic through global memory and no counter, and the order of arrival doesn't matter.
 *
 * One thread calls expect_blocks(), then all rfg_cluster_arrive_first(). After rfg_cluster_wait() they send. An owner of
 * blocks waits for its arrival and adds. */

/* Expects `owned` blocks, 0 or less for none, of each of which all send `bytes` together. */
RFG_DEVICE void expect_blocks(rfg_u64 *arrival, int owned, int bytes)
{
    rfg_arrival_init(arrival, 1);
    rfg_arrive_expect(arrival, owned > 0 ? (rfg_u32)owned * (rfg_u32)bytes : 0);
}

/* The lane's sums of a block, to *to of workgroup `rank`. */
RFG_DEVICE void send_4(void *to, rfg_u64 *arrival, int rank, float v0, float v1, float v2, float v3)
{
    rfg_u32x4 u;
    u.x = rfg_as_u32(v0);
    u.y = rfg_as_u32(v1);
    u.z = rfg_as_u32(v2);
    u.w = rfg_as_u32(v3);
    rfg_cluster_send16(to, arrival, rank, u);
}
RFG_DEVICE void send_2(void *to, rfg_u64 *arrival, int rank, float v0, float v1)
{
    rfg_u32 at, count;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(at) : "r"(rfg_lds_address(to)), "r"(rank));
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(count) : "r"(rfg_lds_address(arrival)), "r"(rank));
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%0], {%1, %2}, [%3];" ::"r"(at),
                 "r"(rfg_as_u32(v0)), "r"(rfg_as_u32(v1)), "r"(count)
                 : "memory");
}

/* Stores a block: 16 rows of W by 8 of X, as mma.m16n8k16 leaves its sums with W as its rows. Its number is that of 16
 * rows of W, blocks_n of which come before the next 8 rows of X. A lane has a column of two rows; lanes that differ by 4
 * have neighbouring ones, and make them two columns of a row each. */
RFG_DEVICE void store_8x16(const struct gemm_args *a, int m0, int n0, int block, int blocks_n, rfg_f32x4 v)
{
    int odd = rfg_lane() / 4 % 2, n = n0 + block % blocks_n * 16 + rfg_lane() / 4 - odd;
    int m = m0 + block / blocks_n * 8 + rfg_lane() % 4 * 2 + odd;
    float above = rfg_shuffle_xor(odd ? v.x : v.y, 4), below = rfg_shuffle_xor(odd ? v.z : v.w, 4);
    store_2(a, m, n, odd ? above : v.x, odd ? v.y : above);
    store_2(a, m, n + 8, odd ? below : v.z, odd ? v.w : below);
}
