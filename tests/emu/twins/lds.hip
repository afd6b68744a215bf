/* SPDX-License-Identifier: MIT
 *
 * Twins: LDS and barriers. */

TWIN(reversed, lds_race)
{
    __shared__ unsigned s[SIZE];
    s[TID] = in[ME];
    EITHER(BARRIER, STORED);
    out[ME] = s[SIZE - 1 - TID];
}

TWIN(fence_alone, lds_race)
{
    __shared__ unsigned s[SIZE];
    s[TID] = in[ME];
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    GOOD(__builtin_amdgcn_s_barrier();)
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
    out[ME] = s[SIZE - 1 - TID];
}

TWIN(barrier_too_early, lds_race)
{
    __shared__ unsigned s[SIZE];
    BAD(BARRIER;)
    s[TID] = in[ME];
    GOOD(BARRIER;)
    STORED;
    out[ME] = s[SIZE - 1 - TID];
}

/* Sums by halves; first: what is between the stores and them, each: what is after a step. */
#define TREE(first, each)                                                                                              \
    __shared__ unsigned s[SIZE];                                                                                       \
    s[TID] = in[ME];                                                                                                   \
    first;                                                                                                             \
    for (int half = SIZE / 2; half; half /= 2) {                                                                       \
        if (TID < half)                                                                                                \
            s[TID] += s[TID + half];                                                                                   \
        each;                                                                                                          \
        STORED;                                                                                                        \
    }                                                                                                                  \
    out[ME] = s[TID]

TWIN(tree, lds_race)
{
    TREE(BARRIER, GOOD(BARRIER));
}

TWIN(tree_first_barrier, lds_race)
{
    TREE(GOOD(BARRIER), BARRIER);
}

/* The last steps are one wave's, it is thought: but half = 64 reads what another wrote. */
TWIN(tree_last_steps, lds_race)
{
    TREE(
        BARRIER, if (half > EITHER(0, 128)) { BARRIER; });
}

TWIN(scan_in_place, lds_race)
{
    __shared__ unsigned s[SIZE];
    s[TID] = in[ME];
    BARRIER;
    for (int step = 1; step < SIZE; step *= 2) {
        unsigned v = TID >= step ? s[TID - step] : 0;
        GOOD(BARRIER;)
        s[TID] += v;
        BARRIER;
    }
    out[ME] = s[TID];
}

TWIN(one_buffer_for_two, lds_race)
{
    __shared__ unsigned s[2][SIZE];
    unsigned sum = 0;
    for (int k = 0; k < 4; k++) {
        unsigned *to = s[EITHER(k & 1, 0)];
        to[TID] = in[(ME + k * 64) % ITEMS];
        BARRIER;
        sum += to[(TID * 7 + k) % SIZE];
    }
    out[ME] = sum;
}

TWIN(bins_not_cleared_yet, lds_race)
{
    __shared__ unsigned bins[64];
    if (TID < 64)
        bins[TID] = 0;
    GOOD(BARRIER;)
    ADD_NEAR(&bins[in[ME] & 63], 1);
    BARRIER;
    if (TID < 64)
        ADD(&out[TID], bins[TID]);
}

TWIN(bins_read_early, lds_race)
{
    __shared__ unsigned bins[64];
    if (TID < 64)
        bins[TID] = 0;
    BARRIER;
    ADD_NEAR(&bins[in[ME] & 63], 1);
    GOOD(BARRIER;)
    if (TID < 64)
        ADD(&out[TID], bins[TID]);
}

TWIN(bins_without_atomics, lds_race)
{
    __shared__ unsigned bins[64];
    if (TID < 64)
        bins[TID] = 0;
    BARRIER;
    EITHER(ADD_NEAR(&bins[in[ME] & 63], 1), bins[in[ME] & 63]++);
    BARRIER;
    if (TID < 64)
        ADD(&out[TID], bins[TID]);
}

TWIN(bins_of_bytes, lds_race)
{
    __shared__ unsigned bins[64];
    if (TID < 64)
        bins[TID] = 0;
    BARRIER;
    GOOD(ADD_NEAR(&bins[in[ME] & 63], 1 << (in[ME] >> 6 & 3) * 8);)
    BAD(((unsigned char *)bins)[in[ME] & 255]++;)
    BARRIER;
    if (TID < 64)
        ADD(&out[TID], bins[TID]);
}

TWIN(ticket_reset, lds_race)
{
    __shared__ unsigned count;
    if (TID == 0)
        count = 0;
    GOOD(BARRIER;)
    unsigned at = ADD_NEAR(&count, 1);
    out[GROUP * SIZE + (at & 255)] = 1;
}

TWIN(ticket_total, lds_race)
{
    __shared__ unsigned count;
    if (TID == 0)
        count = 0;
    BARRIER;
    ADD_NEAR(&count, in[ME] & 1);
    GOOD(BARRIER;)
    out[ME] = count;
}

TWIN(broadcast, lds_race)
{
    __shared__ unsigned s;
    if (TID == 0)
        s = in[GROUP];
    EITHER(BARRIER, STORED);
    out[ME] = s + TID;
}

/* The next value overwrites one that others still read. */
TWIN(broadcast_again, lds_race)
{
    __shared__ unsigned s;
    unsigned sum = 0;
    for (int k = 0; k < 5; k++) {
        if (TID == 0)
            s = in[k * 8 + GROUP];
        BARRIER;
        sum = sum * 3 + s;
        GOOD(BARRIER;)
    }
    out[ME] = sum;
}

TWIN(transposed, lds_race)
{
    __shared__ unsigned s[16][17];
    s[TID / 16][TID % 16] = in[ME];
    EITHER(BARRIER, STORED);
    out[ME] = s[TID % 16][TID / 16];
}

TWIN(halo, lds_race)
{
    __shared__ unsigned s[SIZE + 2];
    s[TID + 1] = in[ME];
    if (TID == 0)
        s[0] = s[SIZE + 1] = 0;
    EITHER(BARRIER, STORED);
    out[ME] = s[TID] + s[TID + 1] + s[TID + 2];
}

TWIN(tiles_second_barrier, lds_race)
{
    __shared__ unsigned a[16][17], b[16][17];
    int x = TID & 15, y = TID >> 4;
    unsigned sum = 0;
    for (int k = 0; k < 48; k += 16) {
        a[y][x] = in[(GROUP * 256 + y * 32 + k + x) % ITEMS];
        b[y][x] = in[((k + y) * 16 + x) % ITEMS];
        BARRIER;
        for (int i = 0; i < 16; i++)
            sum += a[y][i] * b[i][x];
        GOOD(BARRIER;)
    }
    out[ME] = sum;
}

TWIN(lds_for_other_things, lds_race)
{
    __shared__ union {
        unsigned w[SIZE];
        unsigned char b[4 * SIZE];
    } s;
    s.w[TID] = in[ME];
    BARRIER;
    unsigned v = s.w[SIZE - 1 - TID];
    GOOD(BARRIER;)
    s.b[4 * ((TID + 64) % SIZE) + 1] = (unsigned char)v;
    BARRIER;
    out[ME] = v + s.b[4 * TID + 1];
}

/* The compiler doesn't wait for what assembly stores. */
TWIN(barrier_unwaited, lds_race)
{
    __shared__ unsigned s[SIZE];
    unsigned v = in[ME] + 1, at = 4u * (unsigned)TID;
    s[TID] = v;
    BARRIER;
    asm volatile("ds_write_b32 %0, %1\n" GOOD("s_waitcnt lgkmcnt(0)\n") "s_barrier" ::"v"(at), "v"(v) : "memory");
    out[ME] = s[SIZE - 1 - TID];
}

TWIN(shorts_that_overlap, lds_race)
{
    __shared__ unsigned char s[2 * SIZE + 2];
    struct __attribute__((packed)) half_word {
        unsigned short h;
    };
    ((struct half_word *)(s + 2 * TID + EITHER(0, (TID == 63))))->h = (unsigned short)in[ME];
    BARRIER;
    out[ME] = s[2 * TID];
}

TWIN(reset_beside_atomics, lds_race)
{
    __shared__ unsigned s[2];
    if (TID < 2)
        s[TID] = 0;
    BARRIER;
    ADD_NEAR(&s[0], in[ME] & 3);
    BAD(if (TID == SIZE - 1) s[0] = 5;)
    BARRIER;
    out[ME] = s[0];
}

TWIN(ring_too_short, lds_race)
{
    __shared__ unsigned slot[2][128];
    int t = TID & 127;
    unsigned sum = 0;
    if (UNIFORM(TID / 128) == 0)
        for (int k = 0; k < 9; k++) {
            if (k < 8)
                slot[EITHER(k & 1, 0)][t] = in[(GROUP * 128 + t + k * 33) % ITEMS];
            BARRIER;
        }
    else {
        BARRIER;
        for (int k = 0; k < 8; k++) {
            sum = sum * 3 + slot[EITHER(k & 1, 0)][127 - t];
            BARRIER;
        }
        out[GROUP * 128 + t] = sum;
    }
}

TWIN(most_of_all, lds_race)
{
    __shared__ unsigned most;
    if (TID == 0)
        most = 0;
    BARRIER;
    GOOD(__hip_atomic_fetch_max(&most, in[ME], __ATOMIC_RELAXED, NEAR);)
    BAD(if (in[ME] > *(volatile unsigned *)&most) * (volatile unsigned *)&most = in[ME];)
    BARRIER;
    out[ME] = most;
}

/* Where waves have 64 lanes this is right for neighbours alone. */
TWIN(neighbours, lds_race)
{
    __shared__ unsigned s[SIZE];
    s[TID] = in[ME];
    STORED;
    GOOD(BARRIER;)
    out[ME] = s[(TID + 1) % SIZE];
}

/* ---- barriers ---- */

TWIN(leaves_too_early, divergent_barrier)
{
    __shared__ unsigned s[SIZE];
    s[TID] = in[ME];
    BARRIER;
    if (TID >= 192)
        EITHER(s[TID - 192] += 1, return );
    BARRIER;
    out[ME] = s[TID ^ 1];
}

TWIN(one_barrier_more, divergent_barrier)
{
    __shared__ unsigned s[SIZE];
    s[TID] = in[ME];
    BARRIER;
    if (EITHER(n > 0, UNIFORM(TID) < 64)) {
        BARRIER;
    }
    out[ME] = s[TID ^ 1];
}

TWIN(trips_differ, divergent_barrier)
{
    __shared__ unsigned s[SIZE];
    s[TID] = 0;
    for (int k = 0; k < EITHER(3, 2 + (UNIFORM(TID) >= 128)); k++) {
        BARRIER;
        s[TID] += in[(ME + k) % ITEMS];
    }
    out[ME] = s[TID];
}

/* ---- what nothing wrote ---- */

TWIN(half_of_lds, uninitialised_lds)
{
    __shared__ unsigned s[SIZE];
    if (TID < EITHER(SIZE, SIZE / 2))
        s[TID] = in[ME];
    BARRIER;
    out[ME] = s[SIZE - 1 - TID];
}

TWIN(padding_of_a_tile, uninitialised_lds)
{
    __shared__ unsigned s[16][17];
    s[TID / 16][TID % 16] = in[ME];
    if (TID < 16)
        s[TID][16] = 0;
    BARRIER;
    BAD(__shared__ unsigned t[16][17]; t[TID / 16][TID % 16] = s[TID / 16][TID % 16]; BARRIER;)
    out[ME] = EITHER(s, t)[TID / 16][TID % 16 + 1];
}

TWIN(counter_not_set, uninitialised_lds)
{
    __shared__ unsigned count;
    GOOD(if (TID == 0) count = 0; BARRIER;)
    ADD_NEAR(&count, 1);
    BARRIER;
    if (TID == 0)
        out[GROUP] = count;
}

TWIN(bound_from_lds, uninitialised_lds)
{
    __shared__ unsigned bound[2];
    if (TID < EITHER(2, 1))
        bound[TID] = 5;
    BARRIER;
    unsigned sum = 0;
    for (unsigned k = 0; k < (bound[n & 1] & 15); k++)
        sum += in[k];
    out[ME] = sum;
}

/* ---- out of it ---- */

TWIN(lds_one_further, lds_out_of_bounds)
{
    __shared__ unsigned s[SIZE];
    s[TID] = in[ME];
    BARRIER;
    out[ME] = s[TID + EITHER(TID < SIZE - 1, (n > 0))];
}

TWIN(lds_before_it, lds_out_of_bounds)
{
    __shared__ unsigned s[SIZE];
    s[TID] = in[ME];
    BARRIER;
    out[ME] = s[TID - EITHER(TID > 0, (n > 0))];
}

TWIN(lds_stored_far, lds_out_of_bounds)
{
    __shared__ unsigned s[SIZE];
    s[TID] = 0;
    BARRIER;
    s[(TID * 4 + EITHER(0, 4 * (n > 0) * SIZE)) % EITHER(SIZE, 8 * SIZE)] = 0;
    BARRIER;
    out[ME] = s[TID];
}

/* Each wave waits for the next one's flag. Unoptimised loops load their addresses anew: no loop that only waits. */
#ifdef __OPTIMIZE__
#define FLAGS                                                                                                          \
    __shared__ unsigned s[SIZE], flag[SIZE / WAVE];                                                                    \
    int other = (TID + WAVE) % SIZE;                                                                                   \
    if (TID < SIZE / WAVE)                                                                                             \
        flag[TID] = 0;                                                                                                 \
    BARRIER
#define RAISE                                                                                                          \
    if (TID % WAVE == 0)                                                                                               \
    __hip_atomic_store(&flag[TID / WAVE], 1, __ATOMIC_RELEASE, NEAR)
#define RAISED(wave) __hip_atomic_load(&flag[wave], __ATOMIC_ACQUIRE, NEAR)

TWIN(flags_looked_at_once, lds_race)
{
    FLAGS;
    s[TID] = in[ME];
    RAISE;
    EITHER(while, if)(!RAISED(other / WAVE)) SLEEP;
    out[ME] = s[other];
}

TWIN(flags_too_early, lds_race)
{
    FLAGS;
    BAD(RAISE;)
    s[TID] = in[ME];
    GOOD(RAISE;)
    while (!RAISED(other / WAVE))
        SLEEP;
    out[ME] = s[other];
}

TWIN(flags_of_others, lds_race)
{
    FLAGS;
    s[TID] = in[ME];
    RAISE;
    while (!RAISED(other / WAVE))
        SLEEP;
    out[ME] = s[EITHER(other, SIZE - 1 - TID)];
}
#endif

/* ---- bytes and halves of a word ---- */

/* In the style of AMD's example of a histogram: a bin of a byte of each work-item, zeroed by words, counted by bytes.
 * Four waves have a byte of each word. */
#define BINS  16
#define PLACE ((TID & 63) * 4 + (TID >> 6))
#define ZERO                                                                                                           \
    for (int k = TID; k < BINS * SIZE * (int)sizeof(*bins) / 4; k += SIZE)                                             \
    ((unsigned *)bins)[k] = 0
#define COUNT(at)                                                                                                      \
    for (int k = 0; k < 8; k++)                                                                                        \
    bins[(in[(ME + 97 * k) % ITEMS] & (BINS - 1)) * SIZE + (at)] += 1
#define SUM_BINS                                                                                                       \
    if (TID < BINS) {                                                                                                  \
        unsigned sum = 0;                                                                                              \
        for (int k = 0; k < SIZE; k++)                                                                                 \
            sum += bins[TID * SIZE + k];                                                                               \
        out[GROUP * BINS + TID] = sum;                                                                                 \
    }

TWIN(own_bins_of_bytes, lds_race)
{
    __shared__ __attribute__((aligned(4))) unsigned char bins[BINS * SIZE];
    ZERO;
    BARRIER;
    COUNT(EITHER(PLACE, PLACE & ~1)); /* two waves, one byte */
    BARRIER;
    SUM_BINS;
}
TWIN(own_bins_of_bytes_zeroed_late, lds_race)
{
    __shared__ __attribute__((aligned(4))) unsigned char bins[BINS * SIZE];
    ZERO;
    GOOD(BARRIER;)
    COUNT(PLACE);
    BARRIER;
    SUM_BINS;
}
TWIN(own_bins_of_bytes_summed_early, lds_race)
{
    __shared__ __attribute__((aligned(4))) unsigned char bins[BINS * SIZE];
    ZERO;
    BARRIER;
    COUNT(PLACE);
    GOOD(BARRIER;)
    SUM_BINS;
}
TWIN(own_bins_of_halves, lds_race)
{
    __shared__ __attribute__((aligned(4))) unsigned short bins[BINS * SIZE];
    ZERO;
    BARRIER;
    COUNT(EITHER(PLACE, PLACE & ~1));
    BARRIER;
    SUM_BINS;
}
/* Each reads a byte of the word before any wave stores one: who read which must not be lost. */
TWIN(bytes_read_then_written, lds_race)
{
    __shared__ __attribute__((aligned(4))) unsigned char s[SIZE];
    if (TID < SIZE / 4)
        ((unsigned *)s)[TID] = in[ME];
    BARRIER;
    unsigned had = s[PLACE];
    HIDDEN(had);
    s[PLACE ^ EITHER(0, 1)] = (unsigned char)(had + 1);
    BARRIER;
    out[ME] = s[TID];
}
