/* SPDX-License-Identifier: MIT
 *
 * Correct kernels: workgroups and waves that share work: locks, order, tasks, tiles. */

/* Split-K with a lock: each workgroup adds its part to the sums that are there. */
#ifdef __AMDGCN__
KERNEL(split_k_lock)
{
    float *sums = (float *)(out + 64);
    if (TID == 0)
        while (__hip_atomic_exchange(&out[0], 1, __ATOMIC_ACQUIRE, AGENT))
            __builtin_amdgcn_s_sleep(1);
    BARRIER;
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent");
    sums[TID] += (float)(in[ME] & 0xff);
    BARRIER;
    if (TID == 0)
        __hip_atomic_store(&out[0], 0, __ATOMIC_RELEASE, AGENT);
}
#else
HOST(split_k_lock)
{
    float *sums = (float *)(void *)(out + 64);
    (void)n;
    for (int i = 0; i < ITEMS; i++)
        sums[i % SIZE] += (float)(in[i] & 0xff);
}
#endif

/* Split-K in order: workgroup g adds after g - 1. */
#ifdef __AMDGCN__
KERNEL(split_k_order)
{
    if (TID == 0)
        while (__hip_atomic_load(&out[SIZE], __ATOMIC_ACQUIRE, AGENT) != (unsigned)GROUP)
            __builtin_amdgcn_s_sleep(1);
    BARRIER;
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent");
    out[TID] = GROUP ? out[TID] * 3 + in[ME] : in[ME];
    BARRIER;
    if (TID == 0)
        __hip_atomic_store(&out[SIZE], (unsigned)GROUP + 1, __ATOMIC_RELEASE, AGENT);
}
#else
HOST(split_k_order)
{
    (void)n;
    for (int i = 0; i < ITEMS; i++)
        out[i % SIZE] = i < SIZE ? in[i] : out[i % SIZE] * 3 + in[i];
    out[SIZE] = GROUPS;
}
#endif

/* Partials of four words a work-item; who comes last adds them up in a fixed order and resets the counter. */
#ifdef __AMDGCN__
typedef unsigned uint4_ __attribute__((ext_vector_type(4)));
KERNEL(split_k_partials)
{
    __shared__ unsigned arrived;
    uint4_ *part = (uint4_ *)(out + ITEMS);
    if (TID < 64) {
        uint4_ v = { in[ME], in[ME] >> 3, in[ME] ^ 5, 1 };
        part[GROUP * 64 + TID] = v;
    }
    BARRIER;
    if (TID == 0)
        arrived = __hip_atomic_fetch_add(&out[ITEMS - 1], 1, __ATOMIC_ACQ_REL, AGENT);
    BARRIER;
    if (arrived != GROUPS - 1)
        return;
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent");
    if (TID < 64) {
        uint4_ sum = part[TID];
        for (int g = 1; g < GROUPS; g++)
            sum = sum * 7 + part[g * 64 + TID];
        out[TID] = sum.x + sum.y + sum.z + sum.w;
    }
    if (TID == 0)
        out[ITEMS - 1] = 0;
}
#else
HOST(split_k_partials)
{
    (void)n;
    for (int t = 0; t < 64; t++) {
        unsigned sum[4] = { 0 };
        for (int g = 0; g < GROUPS; g++) {
            unsigned x = in[g * SIZE + t], v[4] = { x, x >> 3, x ^ 5, 1 };
            for (int k = 0; k < 4; k++) {
                sum[k] = sum[k] * 7 + v[k];
                out[ITEMS + 4 * (g * 64 + t) + k] = v[k];
            }
        }
        out[t] = sum[0] + sum[1] + sum[2] + sum[3];
    }
}
#endif

/* Tasks by a counter, as workgroups that stay take them. */
#ifdef __AMDGCN__
KERNEL(tasks)
{
    __shared__ unsigned task;
    for (;;) {
        if (TID == 0)
            task = __hip_atomic_fetch_add(&out[OUTS - 1], 1, __ATOMIC_RELAXED, AGENT);
        BARRIER;
        unsigned mine = task;
        BARRIER;
        if (mine >= 12)
            break;
        out[mine * SIZE + TID] = in[(mine * 77 + TID) % ITEMS] + mine * (unsigned)n;
    }
}
#else
HOST(tasks)
{
    for (unsigned t = 0; t < 12; t++)
        for (unsigned i = 0; i < SIZE; i++)
            out[t * SIZE + i] = in[(t * 77 + i) % ITEMS] + t * (unsigned)n;
    out[OUTS - 1] = 12 + GROUPS;
}
#endif

/* A scan over workgroups: each publishes its sum, its flag with it in 64 bits, and looks back. */
#ifdef __AMDGCN__
KERNEL(look_back)
{
    __shared__ unsigned sum, before;
    unsigned long long *state = (unsigned long long *)(out + ITEMS);
    if (TID == 0)
        sum = 0;
    BARRIER;
    __hip_atomic_fetch_add(&sum, in[ME] & 0xffff, __ATOMIC_RELAXED, NEAR);
    BARRIER;
    if (TID == 0) {
        __hip_atomic_store(&state[GROUP], 1ull << 32 | sum, __ATOMIC_RELAXED, AGENT);
        unsigned total = 0;
        for (int g = GROUP - 1; g >= 0; g--) {
            unsigned long long s;
            do
                s = __hip_atomic_load(&state[g], __ATOMIC_RELAXED, AGENT);
            while (!(s >> 32));
            total += (unsigned)s;
        }
        before = total;
    }
    BARRIER;
    out[ME] = before + (in[ME] & 1);
}
#else
HOST(look_back)
{
    unsigned long long *state = (unsigned long long *)(void *)(out + ITEMS);
    unsigned before = 0;
    (void)n;
    for (int g = 0; g < GROUPS; g++) {
        unsigned sum = 0;
        for (int t = 0; t < SIZE; t++) {
            sum += in[g * SIZE + t] & 0xffff;
            out[g * SIZE + t] = before + (in[g * SIZE + t] & 1);
        }
        state[g] = 1ull << 32 | sum;
        before += sum;
    }
}
#endif

/* Two counters a word, as small histograms have; and one of global memory. */
#ifdef __AMDGCN__
KERNEL(histogram_of_halves)
{
    __shared__ unsigned bins[32];
    if (TID < 32)
        bins[TID] = 0;
    BARRIER;
    unsigned x = in[ME];
    __hip_atomic_fetch_add(&bins[x >> 1 & 31], x & 1 ? 0x10000u : 1u, __ATOMIC_RELAXED, NEAR);
    __hip_atomic_fetch_add(&out[64 + (x >> 8 & 15)], 1, __ATOMIC_RELAXED, AGENT);
    BARRIER;
    if (TID < 64)
        __hip_atomic_fetch_add(&out[TID], bins[TID / 2] >> (TID & 1) * 16 & 0xffff, __ATOMIC_RELAXED, AGENT);
}
#else
HOST(histogram_of_halves)
{
    (void)n;
    for (int i = 0; i < ITEMS; i++) {
        out[in[i] & 63]++;
        out[64 + (in[i] >> 8 & 15)]++;
    }
}
#endif

/* Every operation on integers, in LDS and in memory. */
#ifdef __AMDGCN__
KERNEL(atomics)
{
    __shared__ unsigned s[8];
    __shared__ unsigned long long wide[2];
    if (TID < 8)
        s[TID] = TID == 1 || TID == 3 ? ~0u : 0;
    if (TID < 2)
        wide[TID] = 0;
    BARRIER;
    unsigned x = in[ME];
    __hip_atomic_fetch_or(&s[0], 1u << (x & 31), __ATOMIC_RELAXED, NEAR);
    __hip_atomic_fetch_and(&s[1], ~(1u << (x >> 5 & 31)), __ATOMIC_RELAXED, NEAR);
    __hip_atomic_fetch_xor(&s[2], x, __ATOMIC_RELAXED, NEAR);
    __hip_atomic_fetch_min(&s[3], x, __ATOMIC_RELAXED, NEAR);
    __hip_atomic_fetch_max((int *)&s[4], (int)(x >> 1), __ATOMIC_RELAXED, NEAR);
    __hip_atomic_fetch_add(&wide[x & 1], (unsigned long long)x << 8, __ATOMIC_RELAXED, NEAR);
    unsigned ticket = __hip_atomic_fetch_add(&s[5], 1, __ATOMIC_RELAXED, NEAR);
    __hip_atomic_fetch_add(&s[6], ticket, __ATOMIC_RELAXED, NEAR);
    BARRIER;
    if (TID < 7)
        out[GROUP * 16 + TID] = s[TID];
    if (TID < 2)
        ((unsigned long long *)out)[GROUP * 8 + 4 + TID] = wide[TID];
    __hip_atomic_fetch_xor(&out[100], x, __ATOMIC_RELAXED, AGENT);
    __hip_atomic_fetch_max(&out[101], x, __ATOMIC_RELAXED, AGENT);
    __hip_atomic_fetch_or(&out[102], 1u << (x & 31), __ATOMIC_RELAXED, AGENT);
    __hip_atomic_fetch_add((unsigned long long *)&out[104], (unsigned long long)x << 4, __ATOMIC_RELAXED, AGENT);
}
#else
HOST(atomics)
{
    (void)n;
    for (int g = 0; g < GROUPS; g++) {
        unsigned s[8] = { 0, ~0u, 0, ~0u, 0, SIZE, SIZE * (SIZE - 1) / 2 };
        unsigned long long wide[2] = { 0 };
        for (int t = 0; t < SIZE; t++) {
            unsigned x = in[g * SIZE + t];
            s[0] |= 1u << (x & 31);
            s[1] &= ~(1u << (x >> 5 & 31));
            s[2] ^= x;
            s[3] = x < s[3] ? x : s[3];
            s[4] = x >> 1 > s[4] ? x >> 1 : s[4];
            wide[x & 1] += (unsigned long long)x << 8;
            out[100] ^= x;
            out[101] = x > out[101] ? x : out[101];
            out[102] |= 1u << (x & 31);
            *(unsigned long long *)(void *)&out[104] += (unsigned long long)x << 4;
        }
        for (int k = 0; k < 7; k++)
            out[g * 16 + k] = s[k];
        for (int k = 0; k < 2; k++)
            ((unsigned long long *)(void *)out)[g * 8 + 4 + k] = wide[k];
    }
}
#endif

/* The least and the greatest of floats and doubles: loops of compare-and-swap. */
#ifdef __AMDGCN__
KERNEL(cas_least)
{
    __shared__ float least[2];
    __shared__ double most;
    float *all = (float *)out;
    if (TID < 2)
        least[TID] = 1e9f;
    if (TID == 0)
        most = 0;
    BARRIER;
    float v = (float)(in[ME] >> 12);
    __hip_atomic_fetch_min(&least[TID & 1], v, __ATOMIC_RELAXED, NEAR);
    __hip_atomic_fetch_max(&most, (double)(in[ME] >> 4), __ATOMIC_RELAXED, NEAR);
    __hip_atomic_fetch_max(&all[64 + (TID & 3)], v, __ATOMIC_RELAXED, AGENT);
    __hip_atomic_fetch_max((double *)&out[80], (double)(in[ME] >> 2), __ATOMIC_RELAXED, AGENT);
    BARRIER;
    if (TID < 2)
        all[GROUP * 4 + TID] = least[TID];
    if (TID == 2)
        all[GROUP * 4 + 2] = (float)(int)(most / 256);
}
#else
HOST(cas_least)
{
    float *all = (float *)(void *)out;
    double *wide = (double *)(void *)&out[80];
    (void)n;
    for (int g = 0; g < GROUPS; g++) {
        float least[2] = { 1e9f, 1e9f };
        double most = 0;
        for (int t = 0; t < SIZE; t++) {
            float v = (float)(in[g * SIZE + t] >> 12);
            double d = (double)(in[g * SIZE + t] >> 4), e = (double)(in[g * SIZE + t] >> 2);
            least[t & 1] = v < least[t & 1] ? v : least[t & 1];
            most = d > most ? d : most;
            all[64 + (t & 3)] = v > all[64 + (t & 3)] ? v : all[64 + (t & 3)];
            *wide = e > *wide ? e : *wide;
        }
        all[g * 4] = least[0];
        all[g * 4 + 1] = least[1];
        all[g * 4 + 2] = (float)(int)(most / 256);
    }
}
#endif

/* Where a lane's value goes is counted over the wave (ballot, mbcnt), the waves and the workgroup. */
#ifdef __AMDGCN__
KERNEL(compaction)
{
    __shared__ unsigned count[SIZE / 32], kept[SIZE];
    int wave = TID / WAVE;
    bool keep = in[ME] & 1;
#if __has_builtin(__builtin_amdgcn_ballot_w64) && !RDNA
    unsigned long long all = __builtin_amdgcn_ballot_w64(keep);
#elif __has_builtin(__builtin_amdgcn_ballot_w32) && RDNA
    unsigned long long all = __builtin_amdgcn_ballot_w32(keep);
#else /* LLVM 15 */
    unsigned long long all = __builtin_amdgcn_uicmp((unsigned)keep, 0u, 33);
#endif
    unsigned before = __builtin_amdgcn_mbcnt_hi((unsigned)(all >> 32), __builtin_amdgcn_mbcnt_lo((unsigned)all, 0));
    unsigned sum = (unsigned)__builtin_popcountll(all);
    count[wave] = sum;
    BARRIER;
    unsigned total = 0;
    for (int k = 0; k < SIZE / WAVE; k++) {
        before += k < wave ? count[k] : 0;
        total += count[k];
    }
    if (keep)
        kept[before] = in[ME];
    BARRIER;
    if ((unsigned)TID < total)
        out[ME] = kept[TID];
}
#else
HOST(compaction)
{
    (void)n;
    for (int g = 0; g < GROUPS; g++) {
        int count = 0;
        for (int t = 0; t < SIZE; t++)
            if (in[g * SIZE + t] & 1)
                out[g * SIZE + count++] = in[g * SIZE + t];
    }
}
#endif

/* LDS of one sort after another: words, then bytes, then doubles. */
#ifdef __AMDGCN__
KERNEL(lds_again)
{
    __shared__ union {
        unsigned words[SIZE];
        unsigned char bytes[4 * SIZE];
        double wide[SIZE / 2];
    } s;
    s.words[TID] = in[ME];
    BARRIER;
    unsigned sum = s.words[SIZE - 1 - TID];
    BARRIER;
    s.bytes[4 * TID + (TID & 3)] = (unsigned char)(sum >> 5);
    BARRIER;
    sum += s.bytes[4 * (TID ^ 1) + ((TID ^ 1) & 3)];
    BARRIER;
    if (TID < SIZE / 2)
        s.wide[TID] = (double)sum;
    BARRIER;
    out[ME] = (unsigned)(s.wide[TID / 2] / 4);
}
#else
HOST(lds_again)
{
    (void)n;
    for (int i = 0; i < ITEMS; i++) {
        unsigned t = (unsigned)i % SIZE, first = (unsigned)i - t, half = t / 2;
        unsigned mine = in[first + SIZE - 1 - half], next = in[first + SIZE - 1 - (half ^ 1)];
        out[i] = (unsigned)((double)(mine + (next >> 5 & 255)) / 4);
    }
}
#endif

/* Pointers of which it isn't known where they lead: FLAT loads, stores and atomics on LDS and on memory. */
#ifdef __AMDGCN__
FUNCTION NOINLINE void flat_add(unsigned *p, unsigned v)
{
    __hip_atomic_fetch_add(p, v, __ATOMIC_RELAXED, NEAR);
}
KERNEL(flat_pointers)
{
    __shared__ unsigned s[SIZE];
    s[TID] = 3;
    BARRIER;
    unsigned *p = in[ME] & 1 ? &s[TID] : &out[ME];
    flat_add(p, in[ME] >> 4);
    *p = *p * 3 + 1;
    BARRIER;
    out[ME + ITEMS] = s[TID ^ 1];
}
#else
HOST(flat_pointers)
{
    (void)n;
    for (int i = 0; i < ITEMS; i++) {
        unsigned v = in[i] >> 4;
        if (!(in[i] & 1))
            out[i] = v * 3 + 1;
        out[(i ^ 1) + ITEMS] = in[i] & 1 ? (3 + v) * 3 + 1 : 3;
    }
}
#endif

/* As often round as the workgroup's number says, with barriers. */
#ifdef __AMDGCN__
KERNEL(uniform_trips)
{
    __shared__ unsigned s[SIZE];
    unsigned v = in[ME];
    for (int k = 0; k <= GROUP; k++) {
        s[TID] = v;
        BARRIER;
        v = v * 3 + s[(TID + 17 * k + 1) % SIZE];
        BARRIER;
        if (n < 0)
            break;
    }
    out[ME] = v;
}
#else
HOST(uniform_trips)
{
    (void)n;
    for (int g = 0; g < GROUPS; g++) {
        unsigned v[SIZE], s[SIZE];
        memcpy(v, in + g * SIZE, sizeof(v));
        for (int k = 0; k <= g; k++) {
            memcpy(s, v, sizeof(s));
            for (int t = 0; t < SIZE; t++)
                v[t] = v[t] * 3 + s[(t + 17 * k + 1) % SIZE];
        }
        memcpy(out + g * SIZE, v, sizeof(v));
    }
}
#endif

/* Vectors of 8, 12 and 16 bytes in LDS. */
#ifdef __AMDGCN__
typedef unsigned uint2_ __attribute__((ext_vector_type(2)));
typedef unsigned uint3_ __attribute__((ext_vector_type(3)));
KERNEL(lds_vectors)
{
    __shared__ uint4_ four[SIZE];
    __shared__ uint2_ two[SIZE];
    __shared__ uint3_ three[64];
    unsigned x = in[ME];
    uint4_ v = { x, x + 1, x * 2, x ^ 7 };
    uint2_ w = { x >> 1, x >> 2 };
    uint3_ u = { x >> 3, x >> 4, x >> 5 };
    four[TID] = v;
    two[TID] = w;
    if (TID < 64)
        three[TID] = u;
    BARRIER;
    v = four[(TID + 5) % SIZE];
    w = two[(TID + 9) % SIZE];
    u = three[(TID * 3) & 63];
    out[ME] = v.x + v.y * 2 + v.z * 3 + v.w * 5 + w.x * 7 + w.y * 11 + u.x * 13 + u.y * 17 + u.z * 19;
}
#else
HOST(lds_vectors)
{
    (void)n;
    for (int i = 0; i < ITEMS; i++) {
        int t = i % SIZE, f = i - t;
        unsigned v = in[f + (t + 5) % SIZE], w = in[f + (t + 9) % SIZE], u = in[f + (t * 3 & 63)];
        out[i] = v + (v + 1) * 2 + v * 2 * 3 + (v ^ 7) * 5 + (w >> 1) * 7 + (w >> 2) * 11 + (u >> 3) * 13 +
                 (u >> 4) * 17 + (u >> 5) * 19;
    }
}
#endif

/* Several flags, each with its data: workgroup g hands to g + 1 what only that reads. */
#ifdef __AMDGCN__
KERNEL(mailboxes)
{
    unsigned *box = out + ITEMS, *flag = out + OUTS - 8;
    box[ME] = in[ME] * 5;
    BARRIER;
    if (TID == 0) {
        __hip_atomic_store(&flag[GROUP], 1u, __ATOMIC_RELEASE, AGENT);
        while (!__hip_atomic_load(&flag[(GROUP + 1) % GROUPS], __ATOMIC_ACQUIRE, AGENT))
            __builtin_amdgcn_s_sleep(1);
    }
    BARRIER;
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent");
    out[ME] = box[(ME + SIZE) % ITEMS] + 1;
}
#else
HOST(mailboxes)
{
    (void)n;
    for (int i = 0; i < ITEMS; i++) {
        out[ITEMS + i] = in[i] * 5;
        out[i] = in[(i + SIZE) % ITEMS] * 5 + 1;
    }
    for (int g = 0; g < GROUPS; g++)
        out[OUTS - 8 + g] = 1;
}
#endif

/* All workgroups wait for each other, twice: a counter that only grows. */
#ifdef __AMDGCN__
KERNEL(grid_barrier)
{
    unsigned v = in[ME];
    for (unsigned round = 1; round <= 2; round++) {
        out[ITEMS * round + ME] = v;
        BARRIER;
        if (TID == 0) {
            __hip_atomic_fetch_add(&out[0], 1, __ATOMIC_ACQ_REL, AGENT);
            while (__hip_atomic_load(&out[0], __ATOMIC_ACQUIRE, AGENT) < GROUPS * round)
                __builtin_amdgcn_s_sleep(1);
        }
        BARRIER;
        __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent");
        v = v * 3 + out[ITEMS * round + (unsigned)(ME * 5 + 300) % ITEMS];
    }
    out[3 * ITEMS + ME] = v;
}
#else
HOST(grid_barrier)
{
    (void)n;
    memcpy(out + ITEMS, in, 4 * ITEMS);
    for (unsigned round = 1; round <= 2; round++)
        for (unsigned i = 0; i < ITEMS; i++)
            out[ITEMS * (round + 1) + i] = out[ITEMS * round + i] * 3 + out[ITEMS * round + (i * 5 + 300) % ITEMS];
    out[0] = 2 * GROUPS;
}
#endif
