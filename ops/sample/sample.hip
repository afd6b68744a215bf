/* SPDX-License-Identifier: MIT
 *
 * A token drawn from a row of logits, by a workgroup. Tokens are in order of their logits, from the largest down, and
 * of their ids, from the smallest up. Each filter leaves those up to a place in that order, and the draw is a place,
 * too: where a count or a sum of weights is reached. It is found by digits of the order, 8 bits at a time: a histogram
 * of what the tokens of each digit have, a sum over it, and on with the digit in which the place lies. Sums are of
 * integers: it doesn't matter who adds first.
 *
 * Macros: IN_DTYPE, ID_DTYPE, WIDTH (bytes of a load), THREADS, EXTRAS (there is a tensor of a value a token). */
#include "rfg_device.h"
#include "rfg_select.h"
#include "sample/sample_args.h"

#define SAMPLE_FN           RFG_DEVICE
#define SAMPLE_FMA(a, b, c) rfg_fma(a, b, c)
#define SAMPLE_MUL(a, b)    rfg_mul_rounded(a, b)
#define SAMPLE_BITS(f)      rfg_as_u32(f)
#define SAMPLE_FLOAT(u)     rfg_as_float(u)
#include "sample/sample_math.h"

#if ID_DTYPE != RFG_I32 && ID_DTYPE != RFG_I64
#error "ID_DTYPE: must be i32 or i64"
#endif

#define VEC   RFG_DTYPE_VEC(IN_DTYPE)
#define WAVES (THREADS / RFG_WAVE)
#define BINS  256
static_assert(THREADS >= BINS, "a thread for each bin");

/* LDS. */
struct lds {
    rfg_u64 totals[WAVES];
    rfg_u32 low[BINS], high[BINS];
    rfg_u64 left;
    rfg_u32 digit, part[WAVES], at[WAVES];
};

/* A row and what is known of it. */
struct row {
    struct sample_args a;
    struct sample_row rules;
    const char *logits;
    long long r;
    rfg_u32 largest;
    /* What filters left: tokens of a higher order than this one's, and the first so many of this. */
    rfg_u32 last;
    int times;
};

/* A place: a token's order, and what of the sum is left for the tokens of this order. */
struct place {
    rfg_u32 order;
    rfg_u64 sum, left;
};

/* What is summed, and up to where. */
enum {
    COUNT, /* tokens, up to top-k */
    ALL,   /* weights of all tokens, up to top-p of them */
    LEFT,  /* weights of what filters left, up to top-p of them */
    DRAW,  /* the same, up to the draw, of at most `sum` */
};

/* The orders of a chunk's tokens; behind the row, that of -infinity. */
RFG_DEVICE void load_orders(rfg_u32 *order, const struct row *w, int chunk)
{
    float l[VEC];
    int first = chunk * VEC, n = w->a.v - first;
    if (n >= VEC) {
        rfg_unpack(l, rfg_load_chunk(w->logits + (long long)chunk * 16, 0, VEC, IN_DTYPE, WIDTH, false), IN_DTYPE);
    } else {
#pragma unroll
        for (int i = 0; i < VEC; i++)
            l[i] = i < n ? rfg_load_float(w->logits, first + i, IN_DTYPE) : SAMPLE_NONE;
    }
#pragma unroll
    for (int i = 0; i < VEC; i++) {
        float f = l[i];
        if (EXTRAS && i < n) {
            long long at = first + i;
            int count = w->a.counts ? (int)rfg_load4(w->a.counts + w->r * w->a.ld_counts + at) : 0;
            int in_prompt = w->a.prompt ? (int)rfg_load1(w->a.prompt + w->r * w->a.ld_prompt + at) : 0;
            if (w->a.bias)
                f += rfg_load_float(w->a.bias, w->r * w->a.ld_bias + at, RFG_F32);
            f = sample_penalised(&w->rules, f, count, in_prompt);
        }
        order[i] = sample_order(f);
    }
}

RFG_DEVICE void add(struct lds *s, rfg_u32 digit, rfg_u64 n)
{
    rfg_u32 low = (rfg_u32)n, before = rfg_lds_add(&s->low[digit], low), high = (rfg_u32)(n >> 32);
    high += before + low < before;
    if (high)
        rfg_lds_add(&s->high[digit], high);
}

RFG_DEVICE rfg_u64 amount(const struct row *w, rfg_u32 order, int kind)
{
    if (kind == COUNT)
        return 1;
    if (kind != ALL && order <= w->last) /* those of the last order are added as one */
        return 0;
    return sample_weight(&w->rules, order, w->largest, kind != ALL);
}

RFG_DEVICE void clear(struct lds *s)
{
    rfg_barrier_lds();
    if (rfg_thread() < BINS)
        s->low[rfg_thread()] = s->high[rfg_thread()] = 0;
    rfg_barrier_lds();
}

/* The digit in which a sum over the bins reaches place->left, beginning with the highest (or lowest) digit; place->left
 * becomes what of it is left there. `all`: the sum over all bins. */
RFG_DEVICE rfg_u64 sum_bins(struct lds *s, bool from_highest, rfg_u64 *own, rfg_u64 *all)
{
    rfg_barrier_lds();
    int bin = from_highest ? BINS - 1 - rfg_thread() : rfg_thread();
    *own = rfg_thread() < BINS ? (rfg_u64)s->high[bin] << 32 | s->low[bin] : 0;
    return rfg_group_sum_before(*own, s->totals, WAVES, all);
}
RFG_DEVICE rfg_u32 find_digit(struct lds *s, bool from_highest, rfg_u64 before, rfg_u64 own, rfg_u64 *left)
{
    if (before < *left && before + own >= *left) {
        s->digit = (rfg_u32)(from_highest ? BINS - 1 - rfg_thread() : rfg_thread());
        s->left = *left - before;
    }
    rfg_barrier_lds();
    *left = s->left;
    return s->digit;
}

RFG_DEVICE struct place find(struct lds *s, const struct row *w, int kind, rfg_u64 sum)
{
    struct place p = { 0, sum, sum };
    int chunks = (w->a.v + VEC - 1) / VEC;
    for (int shift = 24; shift >= 0; shift -= 8) {
        clear(s);
        for (int c = rfg_thread(); c < chunks; c += THREADS) {
            rfg_u32 order[VEC];
            load_orders(order, w, c);
#pragma unroll
            for (int i = 0; i < VEC; i++) {
                if (shift < 24 && order[i] >> (shift + 8) != p.order)
                    continue;
                rfg_u64 n = amount(w, order[i], kind);
                if (n)
                    add(s, order[i] >> shift & 255u, n);
            }
        }
        if (rfg_thread() == 0 && (kind == LEFT || kind == DRAW) && w->times &&
            (shift == 24 || w->last >> (shift + 8) == p.order)) {
            rfg_u64 n = sample_weight(&w->rules, w->last, w->largest, 1) * (rfg_u64)w->times;
            if (n)
                add(s, w->last >> shift & 255u, n);
        }
        rfg_u64 own, all, before = sum_bins(s, true, &own, &all);
        if (shift == 24 && (kind == ALL || kind == LEFT))
            p.sum = p.left = sample_share(&w->rules, all);
        if (shift == 24 && kind == DRAW) {
            all = all < sum ? all : sum;
            p.sum = p.left =
                sample_mul_high(sample_random((rfg_u64)w->a.seed[w->r], (rfg_u64)w->a.offset[w->r]), all) + 1;
        }
        p.order = p.order << 8 | find_digit(s, true, before, own, &p.left);
    }
    return p;
}

/* The id of the n-th token of an order. */
RFG_DEVICE rfg_u32 find_id(struct lds *s, const struct row *w, rfg_u32 order, rfg_u64 n)
{
    rfg_u32 id = 0;
    int chunks = (w->a.v + VEC - 1) / VEC;
    for (int shift = 16; shift >= 0; shift -= 8) {
        clear(s);
        for (int c = rfg_thread(); c < chunks; c += THREADS) {
            rfg_u32 of[VEC];
            load_orders(of, w, c);
#pragma unroll
            for (int i = 0; i < VEC; i++) {
                rfg_u32 at = (rfg_u32)(c * VEC + i);
                if (of[i] == order && at >> (shift + 8) == id)
                    rfg_lds_add(&s->low[at >> shift & 255u], 1u);
            }
        }
        rfg_u64 own, all, before = sum_bins(s, false, &own, &all);
        id = id << 8 | find_digit(s, false, before, own, &n);
    }
    return id;
}

/* The largest order, and the first token of it. */
RFG_DEVICE rfg_u32 find_largest(struct lds *s, const struct row *w, rfg_u32 *id)
{
    rfg_u32 best = 0, at = 0;
    int chunks = (w->a.v + VEC - 1) / VEC;
    for (int c = rfg_thread(); c < chunks; c += THREADS) {
        rfg_u32 order[VEC];
        load_orders(order, w, c);
#pragma unroll
        for (int i = 0; i < VEC; i++)
            if (order[i] > best) {
                best = order[i];
                at = (rfg_u32)(c * VEC + i);
            }
    }
    rfg_u32 most = rfg_wave_max_u32(best);
    at = rfg_wave_max_u32(best == most ? ~at : 0u);
    rfg_barrier_lds();
    if (rfg_lane() == 0) {
        s->part[rfg_wave()] = most;
        s->at[rfg_wave()] = at;
    }
    rfg_barrier_lds();
    bool has = rfg_lane() < WAVES;
    best = has ? s->part[rfg_lane()] : 0u;
    most = rfg_wave_max_u32(best);
    *id = ~rfg_wave_max_u32(has && best == most ? s->at[rfg_lane()] : 0u);
    return most;
}

RFG_DEVICE struct sample_row rules_of(const struct sample_args *a, long long r)
{
    struct sample_row rules;
    sample_defaults(&rules);
    if (a->temperature)
        sample_temperature(&rules, rfg_load_float(a->temperature, r, RFG_F32));
    if (a->top_p)
        sample_top_p(&rules, rfg_load_float(a->top_p, r, RFG_F32));
    if (a->min_p)
        sample_min_p(&rules, rfg_load_float(a->min_p, r, RFG_F32));
    if (a->top_k)
        rules.k = (int)rfg_load4(a->top_k + r);
    if (a->repetition)
        sample_repetition(&rules, rfg_load_float(a->repetition, r, RFG_F32));
    if (a->frequency)
        rules.frequency = rfg_load_float(a->frequency, r, RFG_F32);
    if (a->presence)
        rules.presence = rfg_load_float(a->presence, r, RFG_F32);
    return rules;
}

RFG_DEVICE rfg_u32 draw(struct lds *s, struct row *w)
{
    rfg_u32 id;
    w->largest = find_largest(s, w, &id);
    if (w->largest == SAMPLE_NO_LOGITS)
        return 0;
    if (w->rules.greedy)
        return id;
    w->last = 0;
    w->times = 0;
    if (w->rules.k > 0 && w->rules.k < w->a.v) {
        struct place p = find(s, w, COUNT, (rfg_u64)w->rules.k);
        w->last = p.order;
        w->times = (int)p.left;
    }
    rfg_u64 sum = ~0ull;
    if (w->rules.p_on) {
        struct place p = find(s, w, w->a.joint ? ALL : LEFT, 0);
        rfg_u64 weight = sample_weight(&w->rules, p.order, w->largest, !w->a.joint);
        int times = sample_times(weight, p.left);
        sum = w->a.joint ? sum : p.sum - p.left + weight * (rfg_u64)times;
        if (w->a.joint && p.order >= w->last) {
            w->times = p.order == w->last && w->times < times ? w->times : times;
            w->last = p.order;
        }
    }
    struct place p = find(s, w, DRAW, sum);
    return find_id(s, w, p.order, (rfg_u64)sample_times(sample_weight(&w->rules, p.order, w->largest, 1), p.left));
}

RFG_KERNEL(THREADS) sample_rows(struct sample_args a)
{
    RFG_SHARED struct lds s;
    rfg_start_next();
    rfg_await_previous();
    for (int r = rfg_group_x(); r < a.b; r += rfg_groups_x(THREADS)) {
        struct row w;
        w.a = a;
        w.r = r;
        w.logits = (const char *)a.logits + r * a.ldx * RFG_DTYPE_BYTES(IN_DTYPE);
        w.rules = rules_of(&a, r);
        rfg_u32 id = draw(&s, &w);
        if (rfg_thread() == 0) {
            if (ID_DTYPE == RFG_I32) {
                rfg_store4((int *)a.y + r, id);
            } else {
                rfg_u32x2 v;
                v.x = id;
                v.y = 0;
                rfg_store8((long long *)a.y + r, v);
            }
        }
    }
}
