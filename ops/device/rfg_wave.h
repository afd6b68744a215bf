/* SPDX-License-Identifier: MIT
 *
 * What lanes and workgroups do together. */

/* One step of a reduction: to the sum, or to the largest. */
RFG_DEVICE float rfg_combine(float a, float b, bool largest)
{
    return largest ? rfg_max(a, b) : a + b;
}
#if RFG_AMD && RFG_WAVE == 64
/* v is the same within each row of 16 lanes: in the last row, of all rows. */
RFG_DEVICE float rfg_combine_rows(float v, bool largest)
{
    v = rfg_combine(v, RFG_ROW_BEFORE(v), largest); /* in rows 1 and 3, of two rows */
    return rfg_combine(v, RFG_HALF_BEFORE(v), largest);
}
#endif
/* The sum, or the largest, of each `lanes` neighbours (16, 32 or 64, at most the wave; a constant), in all of them. The
 * same bits in every lane: each step adds the same two. All lanes of the wave must be on. */
RFG_DEVICE float rfg_reduce_lanes(float v, int lanes, bool largest)
{
#if RFG_AMD
    v = rfg_combine(v, RFG_ROW_ROTATE(v, 8), largest);
    v = rfg_combine(v, RFG_ROW_ROTATE(v, 4), largest);
    v = rfg_combine(v, RFG_ROW_ROTATE(v, 2), largest);
    v = rfg_combine(v, RFG_ROW_ROTATE(v, 1), largest);
    if (lanes == 16)
        return v;
    if (lanes < RFG_WAVE)
        return rfg_combine(v, rfg_other_row(v), largest);
#if RFG_WAVE == 64
    return rfg_of_lane(rfg_combine_rows(v, largest), 63);
#else
    return rfg_combine(rfg_of_lane(v, 0), rfg_of_lane(v, 16), largest);
#endif
#else
#pragma unroll
    for (int mask = lanes / 2; mask > 0; mask /= 2)
        v = rfg_combine(v, rfg_shuffle_xor(v, mask), largest);
    return v;
#endif
}

/* The same over the wave, in one lane at least, which costs less. */
#if RFG_AMD && RFG_WAVE == 64
#define RFG_REDUCED_LANE 63
RFG_DEVICE float rfg_reduce_to_lane(float v, bool largest)
{
    return rfg_combine_rows(rfg_reduce_lanes(v, 16, largest), largest);
}
#else
#define RFG_REDUCED_LANE 0
RFG_DEVICE float rfg_reduce_to_lane(float v, bool largest)
{
    return rfg_reduce_lanes(v, RFG_WAVE, largest);
}
#endif

/* The same over `waves` waves (a constant), this one the wave-th of them: in all their threads. part: a word of LDS for
 * each of them. All threads of the workgroup come here. A loop takes two parts by turns: the barrier of one call then
 * keeps the next one but one from overwriting what is still being read. */
RFG_DEVICE float rfg_group_reduce(float v, float *part, int waves, int wave, bool largest)
{
    if (waves == 1)
        return rfg_reduce_lanes(v, RFG_WAVE, largest);
    v = rfg_reduce_to_lane(v, largest);
    if (rfg_lane() == RFG_REDUCED_LANE)
        part[wave] = v;
    rfg_barrier_lds();
    v = part[0];
#pragma unroll
    for (int w = 1; w < waves; w++)
        v = rfg_combine(v, part[w], largest);
    return v;
}

#if RFG_HAS_CLUSTER
/* The same over the `waves` waves of each of `splits` workgroups, a cluster (constants), with one barrier of the
 * cluster. part: waves * splits words of LDS, which the next calls don't use. The largest of what isn't negative. The
 * caller has called rfg_cluster_arrive() and rfg_cluster_wait() before the first of these. */
RFG_DEVICE float rfg_cluster_reduce(float v, float *part, int waves, int splits, bool largest)
{
    v = rfg_reduce_lanes(v, RFG_WAVE, largest);
    if (rfg_lane() < splits)
        rfg_cluster_store(part + rfg_cluster_rank() * waves + rfg_wave(), rfg_lane(), v);
    rfg_cluster_arrive();
    rfg_cluster_wait();
    v = 0.0f;
#pragma unroll
    for (int i = 0; i < waves * splits; i += RFG_WAVE)
        if (i + rfg_lane() < waves * splits)
            v = rfg_combine(v, part[i + rfg_lane()], largest);
    return rfg_reduce_lanes(v, RFG_WAVE, largest);
}
#endif

/* One step of rfg_wave_sum_scatter: 2 * half values to half, between lanes that differ in the bit `mask`. */
RFG_DEVICE void rfg_halve(float *v, int half, int mask)
{
    bool upper = (rfg_lane() & mask) != 0;
#pragma unroll
    for (int i = 0; i < half; i++) {
        float low = v[i], high = v[i + half]; /* first: a choice between places would keep v out of registers */
        v[i] = (upper ? high : low) + rfg_shuffle_xor(upper ? low : high, mask);
    }
}

/* The sums over the wave of n values a lane (n a constant power of two, at most 32; v is overwritten): lane l gets that
 * of v[l / (RFG_WAVE / n)]. Halves the values with each step, so that n - 1 + log2(RFG_WAVE / n) shuffles do. (A loop
 * would not be unrolled early enough for v to stay in registers.) */
RFG_DEVICE float rfg_wave_sum_scatter(float *v, int n)
{
    int mask = RFG_WAVE / 2;
    if (n >= 32) {
        rfg_halve(v, 16, mask);
        mask /= 2;
    }
    if (n >= 16) {
        rfg_halve(v, 8, mask);
        mask /= 2;
    }
    if (n >= 8) {
        rfg_halve(v, 4, mask);
        mask /= 2;
    }
    if (n >= 4) {
        rfg_halve(v, 2, mask);
        mask /= 2;
    }
    if (n >= 2)
        rfg_halve(v, 1, mask);
    float sum = v[0];
#pragma unroll
    for (int m = 1; m < RFG_WAVE / n; m *= 2)
        sum += rfg_shuffle_xor(sum, m);
    return sum;
}

/* n things shared out among `parts`, the first n % parts of which get one more: where that of part i begins (i = parts:
 * n). Without 64-bit division, which takes a GPU long. */
RFG_DEVICE int rfg_share_begin(int n, int i, int parts)
{
    rfg_u32 each = (rfg_u32)n / (rfg_u32)parts, more = (rfg_u32)n - each * (rfg_u32)parts;
    return (int)(each * (rfg_u32)i + ((rfg_u32)i < more ? (rfg_u32)i : more));
}

/* The two halves of rfg_last_to_arrive() between barriers of the threads that wrote: by thread 0, after
 * rfg_release_wave() of all and a barrier; by all, after another. */
RFG_DEVICE void rfg_count_arrival(rfg_u32 *counter, int n, rfg_u32 *flag)
{
    rfg_release_group();
    rfg_u32 before = rfg_atomic_add(counter, 1u);
    if (before == (rfg_u32)n - 1u)
        rfg_atomic_store(counter, 0u);
    *flag = before;
}
RFG_DEVICE bool rfg_was_last(int n, const rfg_u32 *flag)
{
    bool last = *flag == (rfg_u32)n - 1u;
    if (last)
        rfg_acquire_device();
    return last;
}

/* Called by all threads of each of n workgroups that wrote parts of one result to global memory: true in all threads
 * of the last one to arrive, which then sees all parts. counter is 0 before and after. flag: a word of LDS that nobody
 * else uses meanwhile. */
RFG_DEVICE bool rfg_last_to_arrive(rfg_u32 *counter, int n, rfg_u32 *flag)
{
    rfg_release_wave();
    rfg_barrier();
    if (rfg_thread() == 0)
        rfg_count_arrival(counter, n, flag);
    rfg_barrier();
    return rfg_was_last(n, flag);
}
