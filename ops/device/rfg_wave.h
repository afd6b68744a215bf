/* SPDX-License-Identifier: MIT
 *
 * What lanes and workgroups do together. */

/* The sum over the wave, in every lane. */
RFG_DEVICE float rfg_wave_sum(float v)
{
#pragma unroll
    for (int mask = RFG_WAVE / 2; mask > 0; mask /= 2)
        v += rfg_shuffle_xor(v, mask);
    return v;
}

/* The sums over the wave of n values a lane (n a constant power of two, at most RFG_WAVE; v is overwritten): lane l
 * gets that of v[l / (RFG_WAVE / n)]. Halves the values with each step, so that n - 1 + log2(RFG_WAVE / n) shuffles do. */
RFG_DEVICE float rfg_wave_sum_scatter(float *v, int n)
{
    int lane = rfg_lane();
    int mask = RFG_WAVE / 2;
#pragma unroll
    for (int half = RFG_WAVE / 2; half > 0; half /= 2) {
        if (half >= n)
            continue;
        bool upper = (lane & mask) != 0;
#pragma unroll
        for (int i = 0; i < half; i++) {
            float keep = upper ? v[i + half] : v[i];
            float give = upper ? v[i] : v[i + half];
            v[i] = keep + rfg_shuffle_xor(give, mask);
        }
        mask /= 2;
    }
    float sum = v[0];
#pragma unroll
    for (int m = RFG_WAVE / 2; m > 0; m /= 2)
        if (m < RFG_WAVE / n)
            sum += rfg_shuffle_xor(sum, m);
    return sum;
}

/* Called by all threads of each of n workgroups that wrote parts of one result to global memory: true in all threads
 * of the last one to arrive, which then sees all parts. counter is 0 before and after. flag: a word of LDS that nobody
 * else uses meanwhile. */
RFG_DEVICE bool rfg_last_to_arrive(rfg_u32 *counter, int n, rfg_u32 *flag)
{
    rfg_release_device();
    rfg_barrier();
    if (rfg_thread() == 0) {
        rfg_u32 before = rfg_atomic_add(counter, 1u);
        if (before == (rfg_u32)n - 1u)
            rfg_atomic_store(counter, 0u);
        *flag = before;
    }
    rfg_barrier();
    bool last = *flag == (rfg_u32)n - 1u;
    if (last)
        rfg_acquire_device();
    return last;
}
