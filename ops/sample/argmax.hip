/* SPDX-License-Identifier: MIT
 *
 * A row's largest element, by SPLIT workgroups of THREADS threads. A thread goes through chunks of 16 bytes, THREADS
 * apart and UNROLL of them in flight, and remembers the first of the largest. Of equal ones of different threads, waves
 * and workgroups the smallest column wins, so that it doesn't matter who comes first. The parts of a row meet in the
 * workspace, where the last workgroup to arrive finds them, or (CLUSTER) in the LDS of the cluster's first one.
 *
 * Macros: IN_DTYPE, ID_DTYPE, PACKED (rows follow each other), WIDTH (bytes of a load), THREADS, UNROLL, SPLIT,
 * CLUSTER. */
#include "rfg_device.h"
#include "rfg_select.h"
#include "sample/argmax_args.h"

#if ID_DTYPE != RFG_I32 && ID_DTYPE != RFG_I64
#error "ID_DTYPE: must be i32 or i64"
#endif

#define VEC   RFG_DTYPE_VEC(IN_DTYPE)
#define WAVES (THREADS / RFG_WAVE)

struct found {
    float value; /* the largest so far, no NaN; while there is none above it, -infinity, of column 0 */
    rfg_u32 at;
};
struct part {
    rfg_u32 order, at;
};

RFG_DEVICE void look(struct found *best, float f, rfg_u32 at)
{
    if (f > best->value) {
        best->value = f;
        best->at = at;
    }
}

/* A thread's chunks from c on, THREADS apart, below end if `test`. */
RFG_DEVICE void look_at_chunks(struct found *best, const char *row, int c, int end, bool test)
{
    rfg_u32x4 v[UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; u++)
        if (!test || c + u * THREADS < end)
            v[u] = rfg_load_chunk(row + (rfg_u64)(rfg_u32)(c + u * THREADS) * 16, 0, VEC, IN_DTYPE, WIDTH, true);
#pragma unroll
    for (int u = 0; u < UNROLL; u++)
        if (!test || c + u * THREADS < end) {
            float f[VEC];
            rfg_unpack(f, v[u], IN_DTYPE);
#pragma unroll
            for (int i = 0; i < VEC; i++)
                look(best, f[i], (rfg_u32)(c + u * THREADS) * VEC + i);
        }
}

/* The first of the largest of the wave's, in all lanes. */
RFG_DEVICE struct part of_wave(struct part p)
{
    struct part best;
    best.order = rfg_wave_max_u32(p.order);
    best.at = ~rfg_wave_max_u32(p.order == best.order ? ~p.at : 0u);
    return best;
}

/* The same of n parts, at most a wave's; a lane beyond them has none. */
RFG_DEVICE struct part none(void)
{
    struct part p = { 0u, 0u };
    return p;
}

RFG_DEVICE void store(struct argmax_args a, int row, rfg_u32 at)
{
    if (ID_DTYPE == RFG_I32) {
        rfg_store4((int *)a.y + row, at);
        return;
    }
    rfg_u32x2 v;
    v.x = at;
    v.y = 0;
    rfg_store8((long long *)a.y + row, v);
}

/* What a workgroup finds in the split-th part of a row: in all lanes of its first wave. */
RFG_DEVICE struct part search(struct argmax_args a, int row, int split, struct part *parts)
{
    const char *x = (const char *)a.x + row * (PACKED ? (long long)a.v : a.ldx) * RFG_DTYPE_BYTES(IN_DTYPE);
    int chunks = a.v / VEC, rest = a.v % VEC;
    int begin = rfg_share_begin(chunks, split, SPLIT), end = rfg_share_begin(chunks, split + 1, SPLIT);
    struct found best = { rfg_as_float(0xff800000u), 0u };
    for (; end - begin >= UNROLL * THREADS; begin += UNROLL * THREADS)
        look_at_chunks(&best, x, begin + rfg_thread(), end, false);
    if (begin < end)
        look_at_chunks(&best, x, begin + rfg_thread(), end, true);
    if (split == SPLIT - 1 && rfg_thread() < rest) {
        rfg_u32 at = (rfg_u32)(a.v - rest + rfg_thread());
        look(&best, rfg_load_float(x, at, IN_DTYPE), at);
    }
    struct part p = { rfg_order_of(best.value), best.at };
    p = of_wave(p);
    if (WAVES == 1)
        return p;
    if (rfg_lane() == 0)
        parts[rfg_wave()] = p;
    rfg_barrier_lds();
    return of_wave(rfg_lane() < WAVES ? parts[rfg_lane()] : none());
}

#if CLUSTER
RFG_KERNEL_CLUSTER(THREADS, SPLIT) argmax_cluster(struct argmax_args a)
{
    RFG_SHARED struct part parts[WAVES], all[SPLIT];
    int row = rfg_group_x() / SPLIT, split = rfg_cluster_rank();
    rfg_start_next();
    rfg_cluster_arrive();
    rfg_await_previous();
    struct part p = search(a, row, split, parts);
    rfg_cluster_wait(); /* the first workgroup runs: see rfg_cluster_arrive() */
    if (rfg_thread() == 0) {
        rfg_cluster_store((float *)&all[split].order, 0, rfg_as_float(p.order));
        rfg_cluster_store((float *)&all[split].at, 0, rfg_as_float(p.at));
    }
    rfg_cluster_arrive();
    rfg_cluster_wait();
    if (split > 0 || rfg_wave() > 0)
        return;
    p = of_wave(rfg_lane() < SPLIT ? all[rfg_lane()] : none());
    if (rfg_lane() == 0)
        store(a, row, p.at);
}
#else
RFG_KERNEL(THREADS) argmax_rows(struct argmax_args a)
{
    RFG_SHARED struct part parts[WAVES];
    rfg_start_next();
    rfg_await_previous();
#if SPLIT > 1 /* all at once */
    RFG_SHARED rfg_u32 flag;
    int row = rfg_group_x() / SPLIT, split = rfg_group_x() % SPLIT;
    struct part p = search(a, row, split, parts);
    struct part *all = (struct part *)a.workspace + (long long)row * SPLIT;
    if (rfg_thread() == 0) {
        rfg_u32x2 v;
        v.x = p.order;
        v.y = p.at;
        rfg_store8(all + split, v);
    }
    if (!rfg_last_to_arrive(a.counters + row, SPLIT, &flag) || rfg_wave() > 0)
        return;
    p = none();
    if (rfg_lane() < SPLIT) {
        rfg_u32x2 v = rfg_load8(all + rfg_lane());
        p.order = v.x;
        p.at = v.y;
    }
    p = of_wave(p);
    if (rfg_lane() == 0)
        store(a, row, p.at);
#else
    for (int row = rfg_group_x(); row < a.m; row += rfg_groups_x(THREADS)) {
        struct part p = search(a, row, 0, parts);
        if (rfg_thread() == 0)
            store(a, row, p.at);
        rfg_barrier_lds(); /* parts are read: the next row's may be written */
    }
#endif
}
#endif

static_assert(sizeof(struct part) == ARGMAX_PART, "a part is not what the host makes room for");
