/* SPDX-License-Identifier: MIT
 *
 * Correct kernels: work-items that meet in memory, in LDS, at barriers. */

#ifdef __AMDGCN__
KERNEL(histogram)
{
    __shared__ unsigned bins[64];
    if (TID < 64)
        bins[TID] = 0;
    BARRIER;
    __hip_atomic_fetch_add(&bins[in[ME] & 63], 1, __ATOMIC_RELAXED, NEAR);
    __hip_atomic_fetch_max(&bins[32 + (in[ME] >> 8 & 31)], 2u, __ATOMIC_RELAXED, NEAR);
    BARRIER;
    if (TID < 32)
        __hip_atomic_fetch_add(&out[TID], bins[TID], __ATOMIC_RELAXED, AGENT);
}
#else
HOST(histogram)
{
    (void)n;
    for (int i = 0; i < ITEMS; i++)
        if ((in[i] & 63) < 32)
            out[in[i] & 31]++;
}
#endif

/* Sums of floats by compare-and-swap, in memory and in LDS: LLVM's loops begin with a plain load. Sums are exact. */
#ifdef __AMDGCN__
KERNEL(cas_loops)
{
    __shared__ float near[4];
    __shared__ double doubles[2];
    float *sums = (float *)out;
    double *wide = (double *)(out + 16);
    if (TID < 4)
        near[TID] = 0;
    if (TID < 2)
        doubles[TID] = 0;
    BARRIER;
    unsigned x = in[ME];
    __hip_atomic_fetch_add(&sums[x & 3], (float)(x >> 4 & 15), __ATOMIC_RELAXED, AGENT);
    if (x & 0x100)
        __hip_atomic_fetch_max(&sums[4 + (x & 1)], (float)(x >> 8 & 0xff), __ATOMIC_RELAXED, AGENT);
    __hip_atomic_fetch_add(&wide[x & 1], (double)(x >> 6 & 31), __ATOMIC_RELAXED, AGENT);
    __hip_atomic_fetch_add(&near[x & 3], (float)(x >> 9 & 15), __ATOMIC_RELAXED, NEAR);
    __hip_atomic_fetch_max(&doubles[x & 1], (double)(x >> 12 & 15), __ATOMIC_RELAXED, NEAR);
    BARRIER;
    if (TID < 4)
        __hip_atomic_fetch_add(&sums[8 + TID], near[TID] + (float)doubles[TID & 1], __ATOMIC_RELAXED, AGENT);
}
#else
HOST(cas_loops)
{
    float *sums = (float *)(void *)out;
    double *wide = (double *)(void *)(out + 16);
    (void)n;
    for (int g = 0; g < GROUPS; g++) {
        float near[4] = { 0 };
        double doubles[2] = { 0 };
        for (int t = 0; t < SIZE; t++) {
            unsigned x = in[g * SIZE + t];
            float v = (float)(x >> 8 & 0xff);
            double d = (double)(x >> 12 & 15);
            sums[x & 3] += (float)(x >> 4 & 15);
            if (x & 0x100 && sums[4 + (x & 1)] < v)
                sums[4 + (x & 1)] = v;
            wide[x & 1] += (double)(x >> 6 & 31);
            near[x & 3] += (float)(x >> 9 & 15);
            if (doubles[x & 1] < d)
                doubles[x & 1] = d;
        }
        for (int t = 0; t < 4; t++)
            sums[8 + t] += near[t] + (float)doubles[t & 1];
    }
}
#endif

/* The loop written out, on integers: what nobody else changed is doubled. */
#ifdef __AMDGCN__
KERNEL(cas_by_hand)
{
    unsigned *p = &out[TID & 31], old = *p, now;
    do {
        now = old + (in[ME] & 7);
    } while (!__hip_atomic_compare_exchange_weak(p, &old, now, __ATOMIC_RELAXED, __ATOMIC_RELAXED, AGENT));
}
#else
HOST(cas_by_hand)
{
    (void)n;
    for (int i = 0; i < ITEMS; i++)
        out[i & 31] += in[i] & 7;
}
#endif

/* All waves, and all workgroups, store the same. */
#ifdef __AMDGCN__
KERNEL(equal_values)
{
    __shared__ unsigned s[64];
    s[TID & 63] = in[TID & 63] + 1;
    BARRIER;
    out[TID & 63] = s[(TID + 1) & 63];
    out[100] = 7;
    out[ME + ITEMS] = out[TID & 63] + s[TID & 63];
}
#else
HOST(equal_values)
{
    (void)n;
    for (int t = 0; t < 64; t++)
        out[t] = in[(t + 1) & 63] + 1;
    out[100] = 7;
    for (int i = 0; i < ITEMS; i++)
        out[i + ITEMS] = out[i & 63] + in[i & 63] + 1;
}
#endif

/* One wave fetches, the others compute, each at barriers of its own. */
#ifdef __AMDGCN__
KERNEL(specialised_waves)
{
    __shared__ unsigned tile[2][192];
    int wave = UNIFORM(TID / 64);
    unsigned sum = 0;
    if (wave == 3) {
        for (int k = 0; k < 8; k++) {
            for (int c = 0; c < 3; c++)
                tile[k & 1][64 * c + (TID & 63)] = in[(GROUP * 192 + 64 * c + k * 17 + (TID & 63)) % ITEMS];
            BARRIER;
        }
        BARRIER;
    } else {
        for (int k = 0; k < 8; k++) {
            BARRIER;
            sum = sum * 3 + tile[k & 1][TID] + tile[k & 1][191 - TID];
        }
        BARRIER;
        out[ME] = sum;
    }
}
#else
HOST(specialised_waves)
{
    (void)n;
    for (int g = 0; g < GROUPS; g++)
        for (int t = 0; t < 192; t++) {
            unsigned sum = 0;
            for (int k = 0; k < 8; k++)
                sum = sum * 3 + in[(g * 192 + k * 17 + t) % ITEMS] + in[(g * 192 + k * 17 + 191 - t) % ITEMS];
            out[g * SIZE + t] = sum;
        }
}
#endif

/* Data of any alignment. */
struct __attribute__((packed, aligned(1))) any_place {
    unsigned v[4];
};
#ifdef __AMDGCN__
KERNEL(unaligned)
{
    __shared__ unsigned char bytes[4 * SIZE + 32];
    for (int k = 0; k < 4; k++)
        bytes[4 * TID + k] = (unsigned char)(in[ME] >> 8 * k);
    if (TID < 8)
        ((unsigned *)(bytes + 4 * SIZE))[TID] = 0;
    BARRIER;
    struct any_place p = *(struct any_place *)(bytes + 4 * TID + (in[ME] & 3));
    out[ME] = p.v[0] + 3 * p.v[1] + 5 * p.v[2] + 7 * p.v[3];
    BARRIER;
    p.v[0] = in[ME];
    if (!(TID & 7))
        *(struct any_place *)(bytes + 4 * TID + (in[ME] & 3)) = p;
    BARRIER;
    out[ME + ITEMS] = *(unsigned short *)(bytes + 4 * (TID & ~7) + (in[ME - (TID & 7)] & 2));
}
#else
HOST(unaligned)
{
    (void)n;
    for (int g = 0; g < GROUPS; g++) {
        unsigned char bytes[4 * SIZE + 32] = { 0 };
        memcpy(bytes, in + g * SIZE, 4 * SIZE);
        for (int t = 0; t < SIZE; t++) {
            unsigned v[4];
            memcpy(v, bytes + 4 * t + (in[g * SIZE + t] & 3), 16);
            out[g * SIZE + t] = v[0] + 3 * v[1] + 5 * v[2] + 7 * v[3];
        }
        for (int t = 0; t < SIZE; t += 8)
            memcpy(bytes + 4 * t + (in[g * SIZE + t] & 3), &in[g * SIZE + t], 4);
        for (int t = 0; t < SIZE; t++) {
            unsigned short h;
            memcpy(&h, bytes + 4 * (t & ~7) + (in[g * SIZE + (t & ~7)] & 2), 2);
            out[g * SIZE + t + ITEMS] = h;
        }
    }
}
#endif

#ifdef __AMDGCN__
KERNEL(tree_of_sums)
{
    __shared__ unsigned s[SIZE];
    s[TID] = in[ME];
    BARRIER;
    for (int half = SIZE / 2; half; half /= 2) {
        if (TID < half)
            s[TID] += s[TID + half];
        BARRIER;
    }
    if (TID == 0)
        out[GROUP] = s[0];
}
#else
HOST(tree_of_sums)
{
    (void)n;
    for (int i = 0; i < ITEMS; i++)
        out[i / SIZE] += in[i];
}
#endif

#ifdef __AMDGCN__
KERNEL(scan)
{
    __shared__ unsigned s[2][SIZE];
    int at = 0;
    s[0][TID] = in[ME];
    BARRIER;
    for (int step = 1; step < SIZE; step *= 2, at ^= 1) {
        s[at ^ 1][TID] = s[at][TID] + (TID >= step ? s[at][TID - step] : 0);
        BARRIER;
    }
    out[ME] = s[at][TID];
}
#else
HOST(scan)
{
    (void)n;
    for (int i = 0; i < ITEMS; i++)
        out[i] = in[i] + (i % SIZE ? out[i - 1] : 0);
}
#endif

/* Shorts to their places by way of LDS. */
#ifdef __AMDGCN__
KERNEL(transposition)
{
    __shared__ unsigned short s[16][18];
    unsigned short *to = (unsigned short *)out;
    s[TID / 16][TID % 16] = (unsigned short)in[ME];
    BARRIER;
    to[ME] = s[TID % 16][TID / 16];
    unsigned char *bytes = (unsigned char *)(out + ITEMS) + 4 * (ME & ~255);
    bytes[4 * (TID & 63) + 256 * (TID & 3) + TID / 64] = (unsigned char)(in[ME] >> 4);
}
#else
HOST(transposition)
{
    unsigned short *to = (unsigned short *)(void *)out;
    (void)n;
    for (int i = 0; i < ITEMS; i++) {
        int t = i % SIZE;
        to[i] = (unsigned short)in[i - t + t % 16 * 16 + t / 16];
        ((unsigned char *)(out + ITEMS))[4 * (i & ~255) + 4 * (t & 63) + 256 * (t & 3) + t / 64] =
            (unsigned char)(in[i] >> 4);
    }
}
#endif

/* Lane to lane, 32 at a time: bpermute, swizzle, DPP, permlane. */
#ifdef __AMDGCN__
KERNEL(lane_to_lane)
{
    int v = (int)in[ME], lane = TID & 31;
    int sum = v;
    for (int far = 16; far; far /= 2)
        sum += __builtin_amdgcn_ds_bpermute(4 * ((TID & 63) ^ far), sum);
    int other = __builtin_amdgcn_ds_swizzle(v, 0x041f); /* the neighbour's */
    int quad = __builtin_amdgcn_update_dpp(0, v, 0x1b, 0xf, 0xf, true);
    int shifted = __builtin_amdgcn_update_dpp(lane, v, 0x111, 0xf, 0xf, false); /* row_shr:1 */
    int row = shifted;
    if (v & 1)
        row += __builtin_amdgcn_mov_dpp(v, 0xb1, 0xf, 0xf, true); /* of lanes that are off: 0 */
#if RDNA
    other ^= __builtin_amdgcn_permlanex16(v, v, 0x76543210, 0xfedcba98, true, false) ^
             __builtin_amdgcn_ds_bpermute(4 * ((TID & 31) ^ 16), v);
#endif
    out[ME] = (unsigned)sum;
    out[ME + ITEMS] = (unsigned)(other + 3 * quad);
    out[ME + 2 * ITEMS] = (unsigned)row;
}
#else
HOST(lane_to_lane)
{
    (void)n;
    for (int i = 0; i < ITEMS; i++) {
        int first = i & ~31;
        for (int k = 0; k < 32; k++)
            out[i] += in[first + k];
        out[i + ITEMS] = in[i ^ 1] + 3 * in[i ^ 3];
        out[i + 2 * ITEMS] = (i & 15 ? in[i - 1] : (unsigned)(i & 31)) + (in[i] & 1 && in[i ^ 1] & 1 ? in[i ^ 1] : 0);
    }
}
#endif

/* The last workgroup that arrives adds up. */
#ifdef __AMDGCN__
KERNEL(last_adds_up)
{
    __shared__ int last;
    out[ME + ITEMS] = in[ME] * 3;
    BARRIER;
    if (TID == 0)
        last = __hip_atomic_fetch_add(&out[ITEMS - 1], 1, __ATOMIC_ACQ_REL, AGENT) == GROUPS - 1;
    BARRIER;
    if (!last)
        return;
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent");
    unsigned sum = 0;
    for (int g = 0; g < GROUPS; g++)
        sum += out[ITEMS + g * SIZE + TID];
    out[TID] = sum;
}
#else
HOST(last_adds_up)
{
    (void)n;
    out[ITEMS - 1] = GROUPS;
    for (int i = 0; i < ITEMS; i++) {
        out[i + ITEMS] = in[i] * 3;
        out[i % SIZE] += in[i] * 3;
    }
}
#endif

/* Each workgroup waits for the one before it. */
#ifdef __AMDGCN__
KERNEL(chain)
{
    unsigned before = 0;
    if (GROUP > 0) {
        if (TID == 0)
            while (!__hip_atomic_load(&out[ITEMS + GROUP - 1], __ATOMIC_ACQUIRE, AGENT))
                __builtin_amdgcn_s_sleep(1);
        BARRIER;
        __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent");
        before = out[ME - SIZE];
    }
    out[ME] = before + in[ME];
    BARRIER;
    if (TID == 0)
        __hip_atomic_store(&out[ITEMS + GROUP], 1, __ATOMIC_RELEASE, AGENT);
}
#else
HOST(chain)
{
    (void)n;
    for (int i = 0; i < ITEMS; i++)
        out[i] = in[i] + (i < SIZE ? 0 : out[i - SIZE]);
    for (int g = 0; g < GROUPS; g++)
        out[ITEMS + g] = 1;
}
#endif

/* A lock, and what it guards in the same 16 bytes. */
#ifdef __AMDGCN__
KERNEL(guarded)
{
    if (TID == 0) {
        while (__hip_atomic_exchange(&out[0], 1, __ATOMIC_ACQUIRE, AGENT))
            __builtin_amdgcn_s_sleep(1);
        out[1] += in[ME] & 0xff;
        out[2] = out[2] * 1 + 1;
        __hip_atomic_store(&out[0], 0, __ATOMIC_RELEASE, AGENT);
    }
}
#else
HOST(guarded)
{
    (void)n;
    for (int g = 0; g < GROUPS; g++)
        out[1] += in[g * SIZE] & 0xff;
    out[2] = GROUPS;
}
#endif

/* Whole waves leave before the first barrier. */
#ifdef __AMDGCN__
KERNEL(early_leave)
{
    __shared__ unsigned s[128];
    if (TID >= 128)
        return;
    s[TID] = in[ME];
    BARRIER;
    if (TID >= 100)
        s[TID - 100] += n;
    BARRIER;
    out[ME] = s[127 - TID];
}
#else
HOST(early_leave)
{
    for (int g = 0; g < GROUPS; g++)
        for (int t = 0; t < 128; t++)
            out[g * SIZE + t] = in[g * SIZE + 127 - t] + (127 - t < 28 ? (unsigned)n : 0);
}
#endif

/* A value of one lane for all; then lane by lane until all had their turn. */
#ifdef __AMDGCN__
KERNEL(waterfall)
{
    unsigned x = in[ME], sum = 0, turn = 0;
    for (int done = 0; !done;) {
        unsigned first = (unsigned)UNIFORM((int)(x & 7));
        if (first == (x & 7)) {
            sum = in[first * 3] + x;
            done = 1;
        }
        turn++;
    }
    out[ME] = sum + (turn > 8);
}
#else
HOST(waterfall)
{
    (void)n;
    for (int i = 0; i < ITEMS; i++)
        out[i] = in[(in[i] & 7) * 3] + in[i];
}
#endif

/* LDS used twice for other things, and reductions by atomics with a result. */
#ifdef __AMDGCN__
KERNEL(tickets)
{
    __shared__ unsigned count, place[SIZE];
    if (TID == 0)
        count = 0;
    place[TID] = 0;
    BARRIER;
    if (in[ME] & 1) {
        unsigned at = __hip_atomic_fetch_add(&count, 1, __ATOMIC_RELAXED, NEAR);
        place[at] = in[ME] >> 1;
    }
    BARRIER;
    unsigned sum = 0;
    for (unsigned k = 0; k < count; k++)
        sum ^= place[k] * 3;
    out[ME] = sum + count;
}
#else
HOST(tickets)
{
    (void)n;
    for (int g = 0; g < GROUPS; g++) {
        unsigned sum = 0, count = 0;
        for (int t = 0; t < SIZE; t++)
            if (in[g * SIZE + t] & 1) {
                sum ^= (in[g * SIZE + t] >> 1) * 3;
                count++;
            }
        for (int t = 0; t < SIZE; t++)
            out[g * SIZE + t] = sum + count;
    }
}
#endif
