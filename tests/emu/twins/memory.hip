/* SPDX-License-Identifier: MIT
 *
 * Twins: memory, between workgroups and in them. */

/* ---- nothing orders them ---- */

TWIN(sum_of_all, global_race)
{
    if (TID == 0)
        EITHER(ADD(&out[0], in[ME]), out[0] += in[ME]);
}

TWIN(bins_of_memory, global_race)
{
    EITHER(ADD(&out[in[ME] & 31], 1), out[in[ME] & 31]++);
}

TWIN(ends_of_parts, global_race)
{
    out[ME] = in[ME];
    if (TID == 0)
        out[GROUP * SIZE + EITHER(1, 0) * 2048 + SIZE] = (unsigned)ME;
}

TWIN(same_place, global_race)
{
    out[TID + EITHER(GROUP * SIZE, 0)] = in[ME];
}

TWIN(neighbouring_workgroup, global_race)
{
    out[ME] = in[ME];
    EITHER(out[ME + ITEMS] = in[(ME + SIZE) % ITEMS], out[ME + ITEMS] = out[(ME + SIZE) % ITEMS]);
}

TWIN(neighbouring_wave, global_race)
{
    out[ME] = in[ME];
    EITHER(BARRIER, STORED);
    out[ME + ITEMS] = out[ME ^ 64];
}

TWIN(shifted_in_place, global_race)
{
    unsigned v = out[ME + 1];
    EITHER(out[ME + ITEMS + 1] = v + 1, out[ME] = v + in[ME]);
}

/* A store of one lane may be an atomic one. */
TWIN(reset_by_one, nothing)
{
    BAD(if (ME == 300) out[5] = in[ME] | 1;)
    ADD(&out[5], in[ME] & 7);
}

TWIN(tasks_by_hand, global_race)
{
    __shared__ unsigned task;
    if (TID == 0) {
        GOOD(task = ADD(&out[0], 1);)
        BAD(task = out[0]; out[0] = task + 1;)
    }
    BARRIER;
    out[ITEMS + task * SIZE % ITEMS + TID] = EITHER(in[TID], 7);
}

TWIN(most_in_memory, global_race)
{
    GOOD(__hip_atomic_fetch_max(&out[0], in[ME], __ATOMIC_RELAXED, AGENT);)
    BAD(if (in[ME] > out[0]) out[0] = in[ME];)
}

TWIN(bytes_of_two_workgroups, global_race)
{
    unsigned char *bytes = (unsigned char *)out;
    bytes[(GROUP * SIZE + TID) * 1 + EITHER(0, (TID == SIZE - 1))] = (unsigned char)(in[ME] | GROUP << 4);
}

TWIN(two_lists, global_race)
{
    /* places come from two counters, or both from one that starts at 0 twice */
    unsigned at = ADD(&out[in[ME] & 1], 1);
    out[ITEMS + at + EITHER((in[ME] & 1) * ITEMS, 0)] = in[ME];
}

/* ---- releases and acquires ---- */

/* Who comes last adds up. */
#define LAST(before, order, after)                                                                                     \
    __shared__ unsigned arrived;                                                                                       \
    out[ME + ITEMS] = in[ME] * 3;                                                                                      \
    before;                                                                                                            \
    if (TID == 0)                                                                                                      \
        arrived = __hip_atomic_fetch_add(&out[ITEMS - 1], 1, order, AGENT);                                            \
    BARRIER;                                                                                                           \
    if (arrived != GROUPS - 1)                                                                                         \
        return;                                                                                                        \
    after;                                                                                                             \
    unsigned sum = 0;                                                                                                  \
    for (int g = 0; g < GROUPS; g++)                                                                                   \
        sum += out[ITEMS + g * SIZE + (TID ^ 64)];                                                                     \
    out[TID] = sum;

#if __gfx942__ || __gfx950__ /* elsewhere the barrier waits, and nothing is to be written back */
TWIN(last_relaxed, global_race)
{
    LAST(BARRIER, EITHER(__ATOMIC_ACQ_REL, __ATOMIC_RELAXED), AGENT_ACQUIRE);
}

TWIN(last_only_acquires, global_race)
{
    LAST(BARRIER, EITHER(__ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE), AGENT_ACQUIRE);
}
#endif

TWIN(last_only_releases, global_race)
{
    LAST(BARRIER, EITHER(__ATOMIC_ACQ_REL, __ATOMIC_RELEASE), GOOD(AGENT_ACQUIRE));
}

TWIN(last_before_others, global_race)
{
    LAST(GOOD(BARRIER), __ATOMIC_ACQ_REL, AGENT_ACQUIRE);
}

/* Who comes last looks at what all added to by atomics; its wave's own is the last of them. */
#define FENCE(order) __builtin_amdgcn_fence(order, "agent")
#define LAST_LOOKS(add, release, acquire)                                                                              \
    __shared__ unsigned arrived;                                                                                       \
    add;                                                                                                               \
    release;                                                                                                           \
    BARRIER;                                                                                                           \
    if (TID == 0)                                                                                                      \
        arrived = ADD(&out[64], 1);                                                                                    \
    BARRIER;                                                                                                           \
    if (arrived != GROUPS - 1)                                                                                         \
        return;                                                                                                        \
    acquire;                                                                                                           \
    if (TID < 2)                                                                                                       \
    out[ITEMS + TID] = out[TID]

TWIN(last_looks_at_sums, global_race)
{
    LAST_LOOKS(ADD(&out[TID & 1], in[ME] & 255), GOOD(FENCE(__ATOMIC_RELEASE)), GOOD(FENCE(__ATOMIC_ACQUIRE)));
}
TWIN(last_looks_at_sums_of_one_wave, global_race)
{
    LAST_LOOKS(
        if (TID < 2) { ADD(&out[TID], in[ME] & 255); }, GOOD(FENCE(__ATOMIC_RELEASE)), GOOD(FENCE(__ATOMIC_ACQUIRE)));
}
TWIN(last_looks_at_old_sums, global_race)
{
    LAST_LOOKS(ADD(&out[TID & 1], in[ME] & 255), FENCE(__ATOMIC_RELEASE), GOOD(FENCE(__ATOMIC_ACQUIRE)));
}
/* Sums of floats are compare-and-swap loops, which wait for what they get. */
TWIN(last_looks_at_swapped_sums, global_race)
{
    LAST_LOOKS(
        {
            unsigned had = out[TID & 1];
            while (!__hip_atomic_compare_exchange_strong(&out[TID & 1], &had, had + (in[ME] & 255), __ATOMIC_RELAXED,
                                                         __ATOMIC_RELAXED, AGENT))
                ;
        },
        FENCE(__ATOMIC_RELEASE), GOOD(FENCE(__ATOMIC_ACQUIRE)));
}
/* ... and sets the counter back, plainly, and looks at it. */
TWIN(last_sets_the_counter_back, global_race)
{
    __shared__ unsigned arrived;
    if (TID == 0) {
        FENCE(__ATOMIC_RELEASE);
        arrived = ADD(&out[64], 1);
        GOOD(FENCE(__ATOMIC_ACQUIRE);)
        if (arrived == GROUPS - 1) {
            out[65] = out[64];
            STORED;
            out[64] = 0;
        }
    }
}
/* Each work-item of a wave has a flag of its own for another workgroup. */
#if __gfx942__ || __gfx950__ || __gfx1201__ /* elsewhere nothing in the store says that it is one */
TWIN(flags_of_a_wave, global_race)
{
    if (GROUP == 0 && TID < 64) {
        out[ITEMS + TID] = in[TID];
        GOOD(FENCE(__ATOMIC_RELEASE);)
        STORE(&out[TID], 9, __ATOMIC_RELAXED);
    }
    if (GROUP == 1 && TID < 64) {
        while (LOADED(&out[TID], __ATOMIC_RELAXED) != 9)
            SLEEP;
        FENCE(__ATOMIC_ACQUIRE);
        out[2 * ITEMS + TID] = out[ITEMS + (TID ^ 1)];
    }
}
#endif

TWIN(last_but_one, global_race)
{
    __shared__ unsigned arrived;
    out[ME + ITEMS] = in[ME] * 3;
    BARRIER;
    if (TID == 0)
        arrived = __hip_atomic_fetch_add(&out[ITEMS - 1], 1, __ATOMIC_ACQ_REL, AGENT);
    BARRIER;
    if (arrived != GROUPS - EITHER(1, 2))
        return;
    AGENT_ACQUIRE;
    unsigned sum = 0;
    for (int g = 0; g < GROUPS; g++)
        sum += out[ITEMS + g * SIZE + TID];
    out[TID] = sum;
}

/* Each workgroup waits for the one before it. */
#define CHAIN(wait, fence, order)                                                                                      \
    unsigned before = 0;                                                                                               \
    if (GROUP > 0) {                                                                                                   \
        if (TID == 0)                                                                                                  \
            while (!LOADED(&out[ITEMS + GROUP - 1], wait))                                                             \
                SLEEP;                                                                                                 \
        BARRIER;                                                                                                       \
        fence;                                                                                                         \
        before = out[ME - SIZE];                                                                                       \
    }                                                                                                                  \
    out[ME] = before + in[ME];                                                                                         \
    BARRIER;                                                                                                           \
    if (TID == 0)                                                                                                      \
        STORE(&out[ITEMS + GROUP], 1u, order);

#if __gfx942__ || __gfx950__
TWIN(chain_relaxed_store, global_race)
{
    CHAIN(__ATOMIC_ACQUIRE, AGENT_ACQUIRE, EITHER(__ATOMIC_RELEASE, __ATOMIC_RELAXED));
}
#endif

TWIN(chain_relaxed_load, global_race)
{
    CHAIN(EITHER(__ATOMIC_ACQUIRE, __ATOMIC_RELAXED), GOOD(AGENT_ACQUIRE), __ATOMIC_RELEASE);
}

TWIN(chain_not_waited_for, global_race)
{
    unsigned before = 0;
    if (GROUP > 0) {
        GOOD(if (TID == 0) AWAIT(&out[ITEMS + GROUP - 1], 1); BARRIER; AGENT_ACQUIRE;)
        before = out[ME - SIZE];
    }
    out[ME] = before + in[ME];
    BARRIER;
    if (TID == 0)
        STORE(&out[ITEMS + GROUP], 1u, __ATOMIC_RELEASE);
}
TWIN(flag_before_data, global_race)
{
    unsigned before = 0;
    if (GROUP > 0) {
        if (TID == 0)
            AWAIT(&out[ITEMS + GROUP - 1], 1);
        BARRIER;
        AGENT_ACQUIRE;
        before = out[ME - SIZE];
    }
    BAD(if (TID == 0) STORE(&out[ITEMS + GROUP], 1u, __ATOMIC_RELEASE);)
    out[ME] = before + in[ME];
    BARRIER;
    GOOD(if (TID == 0) STORE(&out[ITEMS + GROUP], 1u, __ATOMIC_RELEASE);)
}
TWIN(flag_without_barrier, global_race)
{
    if (GROUP == 0) {
        out[TID] = in[TID];
        GOOD(BARRIER;)
        if (TID == 0)
            STORE(&out[ITEMS], 1u, __ATOMIC_RELEASE);
    } else {
        if (TID == 0)
            AWAIT(&out[ITEMS], 1);
        BARRIER;
        AGENT_ACQUIRE;
        out[ME + ITEMS] = out[TID];
    }
}
/* Others than who saw the flag don't wait for it. */
TWIN(seen_by_one_wave, global_race)
{
    if (GROUP == 0) {
        out[TID] = in[TID];
        BARRIER;
        if (TID == 0)
            STORE(&out[ITEMS], 1u, __ATOMIC_RELEASE);
    } else {
        if (TID == 0)
            AWAIT(&out[ITEMS], 1);
        GOOD(BARRIER;)
        AGENT_ACQUIRE;
        out[ME + ITEMS] = out[TID];
    }
}
TWIN(flag_by_volatile, global_race)
{
    if (GROUP == 0) {
        if (TID < WAVE)
            out[TID] = in[TID];
        if (TID == 0)
            EITHER(STORE(&out[ITEMS], 1u, __ATOMIC_RELEASE), *(volatile unsigned *)&out[ITEMS] = 1);
    } else if (TID < WAVE) {
        EITHER(AWAIT(&out[ITEMS], 1), while (*(volatile unsigned *)&out[ITEMS] != 1) SLEEP);
        out[ME + ITEMS] = out[TID];
    }
}
TWIN(flag_of_the_workgroup, global_race)
{
    if (GROUP == 0) {
        if (TID < WAVE)
            out[TID] = in[TID];
        if (TID == 0)
            __hip_atomic_store(&out[ITEMS], 1u, __ATOMIC_RELEASE, EITHER(AGENT, NEAR));
    } else if (TID < WAVE) {
        while (!__hip_atomic_load(&out[ITEMS], __ATOMIC_ACQUIRE, EITHER(AGENT, NEAR)))
            SLEEP;
        out[ME + ITEMS] = out[TID];
    }
}

TWIN(wrong_mailbox, global_race)
{
    unsigned *flag = out + OUTS - 8;
    out[ME] = in[ME] * 5;
    BARRIER;
    if (TID == 0) {
        STORE(&flag[GROUP], 1u, __ATOMIC_RELEASE);
        AWAIT(&flag[(GROUP + 1) % GROUPS], 1);
    }
    BARRIER;
    AGENT_ACQUIRE;
    out[ITEMS + ME] = out[(ME + EITHER(1, 2) * SIZE) % ITEMS];
}

TWIN(sum_beside_flag, global_race)
{
    unsigned *state = out + ITEMS;
    if (TID == 0) {
        state[2 * GROUP + 1] = in[ME];
        STORE(&state[2 * GROUP], 1u, EITHER(__ATOMIC_RELEASE, __ATOMIC_RELAXED));
        unsigned total = 0;
        for (int g = GROUP - 1; g >= 0; g--) {
            AWAIT(&state[2 * g], 1);
            total += state[2 * g + 1];
        }
        out[GROUP] = total;
    }
}

#if __gfx942__ || __gfx950__ /* elsewhere the barrier waits, and nothing is to be written back */
TWIN(barrier_of_all, global_race)
{
    out[ITEMS + ME] = in[ME];
    BARRIER;
    if (TID == 0) {
        __hip_atomic_fetch_add(&out[0], 1, EITHER(__ATOMIC_ACQ_REL, __ATOMIC_RELAXED), AGENT);
        while (LOADED(&out[0], __ATOMIC_ACQUIRE) < GROUPS)
            SLEEP;
    }
    BARRIER;
    AGENT_ACQUIRE;
    out[2 * ITEMS + ME] = out[ITEMS + (ME * 5 + 300) % ITEMS];
}
#endif

TWIN(barrier_of_some, global_race)
{
    out[ITEMS + ME] = in[ME];
    BARRIER;
    if (TID == 0) {
        __hip_atomic_fetch_add(&out[0], 1, __ATOMIC_ACQ_REL, AGENT);
        while (LOADED(&out[0], __ATOMIC_ACQUIRE) < GROUPS - EITHER(0, 1))
            SLEEP;
    }
    BARRIER;
    AGENT_ACQUIRE;
    out[2 * ITEMS + ME] = out[ITEMS + (ME * 5 + 300) % ITEMS];
}

/* ---- locks ---- */

#define LOCKED(lock, take, give)                                                                                       \
    while (__hip_atomic_exchange(lock, 1u, take, AGENT))                                                               \
        SLEEP;                                                                                                         \
    out[1] += in[ME] | 1;                                                                                              \
    STORE(lock, 0u, give)

TWIN(lock_relaxed, global_race)
{
    if (TID == 0) {
        LOCKED(&out[0], EITHER(__ATOMIC_ACQUIRE, __ATOMIC_RELAXED), __ATOMIC_RELEASE);
    }
}
TWIN(unlock_relaxed, global_race)
{
    if (TID == 0) {
        LOCKED(&out[0], __ATOMIC_ACQUIRE, EITHER(__ATOMIC_RELEASE, __ATOMIC_RELAXED));
    }
}
TWIN(no_lock, global_race)
{
    if (TID == 0) {
        GOOD(LOCKED(&out[0], __ATOMIC_ACQUIRE, __ATOMIC_RELEASE);)
        BAD(out[1] += in[ME] | 1;)
    }
}
TWIN(wrong_lock, global_race)
{
    if (TID == 0) {
        LOCKED(&out[EITHER(0, 64 * (GROUP & 1))], __ATOMIC_ACQUIRE, __ATOMIC_RELEASE);
    }
}
TWIN(unlocked_too_early, global_race)
{
    if (TID == 0) {
        while (__hip_atomic_exchange(&out[0], 1u, __ATOMIC_ACQUIRE, AGENT))
            SLEEP;
        unsigned v = out[1];
        BAD(STORE(&out[0], 0u, __ATOMIC_RELEASE);)
        out[1] = v + (in[ME] | 1);
        GOOD(STORE(&out[0], 0u, __ATOMIC_RELEASE);)
    }
}
TWIN(read_without_the_lock, global_race)
{
    if (TID == 0) {
        BAD(unsigned before = out[1]; HIDDEN(before); out[ITEMS + GROUP] = before;)
        LOCKED(&out[0], __ATOMIC_ACQUIRE, __ATOMIC_RELEASE);
    }
}
TWIN(lock_of_one_wave, global_race)
{
    if (TID == 0)
        while (__hip_atomic_exchange(&out[0], 1u, __ATOMIC_ACQUIRE, AGENT))
            SLEEP;
    BARRIER;
    AGENT_ACQUIRE;
    out[64 + TID] += in[ME];
    GOOD(BARRIER;)
    if (TID == 0)
        STORE(&out[0], 0u, __ATOMIC_RELEASE);
}

/* ---- nobody moves ---- */

TWIN(locks_in_any_order, deadlock)
{
    if (TID == 0) {
        int first = EITHER(0, 64 * (GROUP & 1));
        while (__hip_atomic_exchange(&out[first], 1u, __ATOMIC_ACQUIRE, AGENT))
            SLEEP;
        for (int k = 0; k < 200; k++)
            SLEEP;
        while (__hip_atomic_exchange(&out[64 - first], 1u, __ATOMIC_ACQUIRE, AGENT))
            SLEEP;
        out[1] += in[ME];
        STORE(&out[64 - first], 0u, __ATOMIC_RELEASE);
        STORE(&out[first], 0u, __ATOMIC_RELEASE);
    }
}
TWIN(lock_kept, deadlock)
{
    if (TID == 0) {
        while (__hip_atomic_exchange(&out[0], 1u, __ATOMIC_ACQUIRE, AGENT))
            SLEEP;
        out[1] += in[ME];
        if (EITHER(true, GROUP != 0))
            STORE(&out[0], 0u, __ATOMIC_RELEASE);
    }
}
TWIN(one_too_many_awaited, deadlock)
{
    if (TID == 0) {
        ADD(&out[0], 1);
        while (LOADED(&out[0], __ATOMIC_RELAXED) < GROUPS + EITHER(0, 1))
            SLEEP;
    }
    BARRIER;
    out[ITEMS + ME] = in[ME];
}
TWIN(flag_of_nobody, deadlock)
{
    if (TID == 0 && GROUP == 0)
        STORE(&out[ITEMS + EITHER(0, 1)], 1u, __ATOMIC_RELEASE);
    if (TID == 0)
        AWAIT(&out[ITEMS], 1);
    BARRIER;
    out[ME] = in[ME];
}

/* ---- out of bounds ---- */

TWIN(stored_past_the_end, global_out_of_bounds)
{
    out[OUTS - ITEMS + ME + EITHER(0, 1)] = in[ME];
}
TWIN(loaded_past_the_end, global_out_of_bounds)
{
    out[ME] = in[ME + EITHER(0, 1)];
}
TWIN(loaded_before, global_out_of_bounds)
{
    out[ME] = in[ME - EITHER(ME > 0, (n > 0))];
}
TWIN(wide_at_the_end, global_out_of_bounds)
{
    typedef unsigned wide __attribute__((ext_vector_type(4), aligned(4)));
    wide v = *(const wide *)(in + (ME < EITHER(ITEMS - 3, ITEMS - 1) ? ME : 0));
    out[ME] = v.x + v.w;
}
TWIN(wide_store_at_the_end, global_out_of_bounds)
{
    typedef unsigned wide __attribute__((ext_vector_type(4), aligned(4)));
    wide v = { 1, 2, 3, 4 };
    if (ME == 0)
        *(wide *)(out + OUTS - EITHER(4, 2)) = v;
}
TWIN(atomic_past_the_end, global_out_of_bounds)
{
    ADD(&out[OUTS - 64 + (in[ME] & 63) + EITHER(0, 1)], 1);
}
TWIN(bytes_one_too_many, global_out_of_bounds)
{
    const unsigned char *bytes = (const unsigned char *)in;
    unsigned sum = 0;
    if (ME == 0)
        for (int k = 4 * ITEMS - 40; EITHER(k < 4 * ITEMS, k <= 4 * ITEMS); k++)
            sum += bytes[k];
    out[ME] = sum;
}
TWIN(rows_for_columns, global_out_of_bounds)
{
    /* 8 rows of 512 words */
    int row = ME & 7, column = ME >> 3 & 127;
    out[EITHER(row * 512 + column, column * 512 + row)] = 1;
}
TWIN(index_below_zero, global_out_of_bounds)
{
    unsigned at = (unsigned)ME - EITHER(0, 300 * (n > 0));
    out[at] = in[ME];
}
TWIN(null_pointer, global_out_of_bounds)
{
    unsigned *p = EITHER(out, 0);
    HIDDEN(p);
    p[ME] = 1;
}
TWIN(freed_memory, use_after_free)
{
    out[ME] = EITHER(in, gone)[ME];
}
TWIN(freed_memory_stored, use_after_free)
{
    EITHER(out, gone)[ME] = in[ME];
}
static __device__ const unsigned table_of_constants[4] = { 1, 2, 3, 4 };
TWIN(constants_written, write_to_read_only)
{
    unsigned *p = EITHER(out, (unsigned *)table_of_constants);
    HIDDEN(p);
    p[n & 3] = 5;
    out[ITEMS + ME] = table_of_constants[TID & 3];
}
TWIN(atomic_off_its_size, misaligned)
{
    ADD((unsigned *)((char *)out + EITHER(0, 2)), 1u);
}

/* ---- what nothing wrote ---- */

TWIN(memory_unwritten, uninitialised_memory)
{
    GOOD(fresh[ME] = in[ME];)
    out[ME] = fresh[ME] + 1;
}
TWIN(memory_half_written, uninitialised_memory)
{
    if (EITHER(true, !(TID & 1)))
        fresh[ME] = in[ME];
    STORED;
    out[ME] = fresh[ME] + 1;
}
TWIN(sum_in_unwritten_memory, uninitialised_memory)
{
    GOOD(out[ME] = 1;)
    ADD(&EITHER(out, fresh)[ME], in[ME]);
}
TWIN(index_from_unwritten_memory, uninitialised_memory)
{
    GOOD(fresh[ME] = 3;)
    out[ME] = in[fresh[ME] & 15];
}
TWIN(branch_on_unwritten_memory, uninitialised_memory)
{
    GOOD(if (ME == 0) fresh[0] = 1;)
    GOOD(if (ME != 0) fresh[ME] = 0;)
    if (fresh[EITHER(ME, 1)] & 1)
        out[ME] = 3;
}
TWIN(bytes_unwritten, uninitialised_memory)
{
    unsigned char *bytes = (unsigned char *)fresh;
    for (int k = 0; k < EITHER(4, 3); k++)
        bytes[4 * ME + k] = (unsigned char)(in[ME] >> 8 * k);
    STORED;
    out[ME] = fresh[ME] * 3;
}
/* Copies of what nothing wrote are right until somebody asks for the value. */
TWIN(unwritten_copied, uninitialised_memory)
{
    out[ME] = fresh[ME];
    STORED;
    BAD(out[ITEMS + ME] = in[out[ME] & 15];)
}
struct padded {
    unsigned char c;
    unsigned i;
};
TWIN(padding_copied, uninitialised_memory)
{
    struct padded *from = (struct padded *)fresh + ME / 2, *to = (struct padded *)out + ME / 2;
    if (ME & 1)
        return;
    from->c = (unsigned char)in[ME];
    from->i = in[ME + 1];
    STORED;
    *to = *from;
    STORED;
    if (*EITHER(&to->c, (unsigned *)to) > 77)
        out[2 * ITEMS + ME] = to->i;
}
TWIN(padding_by_way_of_lds, uninitialised_memory)
{
    __shared__ struct padded s[SIZE];
    struct padded *to = (struct padded *)out + ME;
    s[TID].c = (unsigned char)in[ME];
    s[TID].i = in[ME];
    BARRIER;
    *to = s[TID ^ 1];
    STORED;
    out[2 * ITEMS + ME] = EITHER(to->c, *(unsigned *)to) * 3;
}
