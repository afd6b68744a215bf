/* SPDX-License-Identifier: MIT
 *
 * What kernels of moe_route that choose share. A row's experts are in the registers of ROW_LANES lanes, in order: each
 * group has the same number of neighbouring lanes, and each lane neighbouring experts of it. So of equal ones the lowest
 * lane's come first. A lane that has nothing to offer has keys of 0, which no float has (rfg_order_of()).
 *
 * Which lane has what depends on E and the groups alone: so do the sums.
 *
 * Macros: those of route_device.h, BIAS_DTYPE, GROUPED, CHUNKS (experts of a lane, at most). And of each kernel,
 * LANE_BITS (ROW_LANES is 1 << LANE_BITS), ROW_LANE (this one's number), ROW_REDUCE(v, largest) (over a row's lanes, to
 * all of them). */

/* With a bias choices say nothing of the score without it. */
#define APART (BIAS && SCORE != ROUTE_TOPK_SOFTMAX)

/* What a lane has. */
struct share {
    rfg_u32 first;   /* expert */
    int n;           /* experts */
    int group, bits; /* a group has 1 << bits lanes */
};

RFG_DEVICE struct share share_of(const struct route_args *a)
{
    struct share s;
    s.bits = GROUPED ? LANE_BITS - a->group_bits : LANE_BITS;
    int lanes = 1 << s.bits, each = (a->size + lanes - 1) >> s.bits;
    int before = (ROW_LANE & (lanes - 1)) * each, left = a->size - before;
    s.group = ROW_LANE >> s.bits;
    s.n = left < each ? left : each;
    s.n = s.n < 0 ? 0 : s.n;
    s.first = (rfg_u32)(s.group * a->size + before);
    return s;
}

/* How many experts a lane has, at the beginning of each loop over them: else tests of all of them would be kept, in
 * more masks than there are scalar registers. */
RFG_DEVICE int count_of(const struct share *s)
{
    return (int)rfg_anew((rfg_u32)s->n);
}

/* A lane's i-th expert; behind the last one expert 0, so that loads need no masks. */
RFG_DEVICE rfg_u32 expert_of(const struct share *s, int i, int n)
{
    return i < n ? s->first + i : 0u;
}

/* The keys of a lane's experts, and what a softmax over the row needs. */
RFG_DEVICE void read_row(const struct route_args *a, const struct share *s, rfg_u32 row, rfg_u32 *key, float *largest,
                         float *inverse)
{
    const char *x = row_of(a, row);
    float l[CHUNKS], b[CHUNKS];
    int n = count_of(s);
#pragma unroll
    for (int i = 0; i < CHUNKS; i++) {
        l[i] = rfg_load_float(x, expert_of(s, i, n), IN_DTYPE);
        b[i] = BIAS ? rfg_load_float(a->bias, expert_of(s, i, n), BIAS_DTYPE) : 0.0f;
    }
    if (SCORE == ROUTE_SOFTMAX && (BIAS || !a->renormalise)) {
        float most = LOW, sum = 0.0f;
        n = count_of(s);
#pragma unroll
        for (int i = 0; i < CHUNKS; i++)
            most = i < n ? rfg_max(most, number(l[i])) : most;
        most = ROW_REDUCE(most, true);
        n = count_of(s);
#pragma unroll
        for (int i = 0; i < CHUNKS; i++)
            sum += i < n ? power(number(l[i]), most) : 0.0f;
        *largest = most;
        *inverse = rfg_rcp(ROW_REDUCE(sum, false));
    }
    n = count_of(s);
#pragma unroll
    for (int i = 0; i < CHUNKS; i++) {
        float c = number(l[i]);
        if (BIAS) {
            c = (APART ? score_of(c, *largest, *inverse) : c) + b[i];
            c = l[i] == l[i] ? number(c) : LOW;
        }
        key[i] = i < n ? rfg_order_of(c) : 0u;
    }
}

RFG_DEVICE rfg_u32 shuffle_xor(rfg_u32 v, int mask)
{
    return rfg_as_u32(rfg_shuffle_xor(rfg_as_float(v), mask));
}

RFG_DEVICE rfg_u32 smaller(rfg_u32 a, rfg_u32 b)
{
    return a < b ? a : b;
}

/* The largest key of a group, and with a bias the second: of this lane and of 1 << bits neighbours of its wave. */
struct two {
    rfg_u32 first, second;
};
RFG_DEVICE struct two add_two(struct two t, struct two o)
{
    t.second = BIAS ? rfg_larger_u32(rfg_larger_u32(t.second, o.second), smaller(t.first, o.first)) : 0u;
    t.first = rfg_larger_u32(t.first, o.first);
    return t;
}
RFG_DEVICE struct two largest_two(const rfg_u32 *key, int bits)
{
    struct two t = { 0u, 0u };
#pragma unroll
    for (int i = 0; i < CHUNKS; i++) {
        struct two one = { key[i], 0u };
        t = add_two(t, one);
    }
    for (int mask = 1; mask < 1 << bits; mask *= 2) {
        struct two other = { shuffle_xor(t.first, mask), 0u };
        other.second = BIAS ? shuffle_xor(t.second, mask) : 0u;
        t = add_two(t, other);
    }
    return t;
}

/* What a group is compared by. */
RFG_DEVICE rfg_u32 group_key(const struct route_args *a, struct two t)
{
    return BIAS && a->size > 1 ? rfg_order_of(number(rfg_float_of(t.first) + rfg_float_of(t.second))) : t.first;
}

/* Takes from a lane what is of no group that is kept. better: groups that go before its own. */
RFG_DEVICE void keep_group(const struct route_args *a, rfg_u32 *key, int better)
{
#pragma unroll
    for (int i = 0; i < CHUNKS; i++)
        key[i] = better < a->top_groups ? key[i] : 0u;
}

/* The largest of a lane's keys, and the first expert that has it. */
RFG_DEVICE rfg_u32 best_of(const struct share *s, const rfg_u32 *key, rfg_u32 *id)
{
    rfg_u32 best = 0u;
    *id = 0u;
#pragma unroll
    for (int i = 0; i < CHUNKS; i++) {
        *id = key[i] > best ? s->first + i : *id;
        best = rfg_larger_u32(best, key[i]);
    }
    return best;
}

/* A wave's `top` largest, from the largest down, a lane each; below those that there are keys of 0. */
RFG_DEVICE struct rfg_pick pick_in_wave(const struct route_args *a, const struct share *s, rfg_u32 *key)
{
    struct rfg_pick own = { 0u, 0u };
    rfg_u32 id, best = best_of(s, key, &id);
#pragma unroll 1
    for (int slot = 0; slot < a->top; slot++) {
        struct rfg_pick p = rfg_pick(best, id);
        own.key = rfg_lane() == slot ? p.key : own.key;
        own.id = rfg_lane() == slot ? p.id : own.id;
#pragma unroll
        for (int i = 0; i < CHUNKS; i++)
            key[i] = s->first + i == p.id ? 0u : key[i];
        best = best_of(s, key, &id);
    }
    return own;
}

/* Of a wave whose lanes have the row's choices: the weights, and what is stored. */
struct chosen {
    rfg_u32 id;
    float weight;
};
RFG_DEVICE struct chosen finish(const struct route_args *a, rfg_u32 row, struct rfg_pick own, float largest,
                                float inverse)
{
    bool has = rfg_lane() < a->top;
    float l = APART ? number(rfg_load_float(row_of(a, row), own.id, IN_DTYPE)) : rfg_float_of(own.key);
    if (SCORE == ROUTE_TOPK_SOFTMAX || (SCORE == ROUTE_SOFTMAX && !BIAS && a->renormalise))
        largest = rfg_float_of(rfg_of_any_lane(own.key, 0));
    struct chosen c = { own.id, weight_of(a, l, has, largest, inverse) };
    store(a, row, true, c.id, c.weight);
    return c;
}
