/* SPDX-License-Identifier: MIT
 *
 * For the kernels of sample, which include it after rfg_device.h, rfg_select.h and sample_args.h: a workgroup draws a
 * token. Tokens are in order of their logits, from the largest down, and of their ids, from the smallest up. Each
 * filter leaves those up to a place in that order, and the draw is a place, too: where a count or a sum of weights is
 * reached. It is found by digits of the order, 8 bits at a time: a histogram of what the tokens of each digit have, a
 * sum over it, and on with the digit in which the place lies. Sums are of integers: it doesn't matter who adds first.
 *
 * Tokens are those of a row of logits, or (`listed`, a constant) of a list in LDS that has all that can be drawn.
 *
 * Macros: IN_DTYPE, ID_DTYPE, WIDTH (bytes of a load), THREADS, EXTRAS (there is a tensor of a value a token). */
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
#define SEEN  (EXTRAS ? 4 : VEC) /* tokens of a step */
static_assert(THREADS >= BINS, "a thread for each bin");

/* LDS. */
struct lds {
    struct sample_args args;
    rfg_u64 totals[WAVES];
    rfg_u32 low[BINS], high[BINS];
    rfg_u64 left;
    rfg_u32 digit, part[WAVES], at[WAVES];
};

/* A row and what is known of it. */
struct row {
    const struct sample_args *a; /* in LDS, so that nothing of it is kept in scalar registers */
    struct sample_row rules;
    const char *logits;
    const rfg_u64 *list; /* a token's order in the upper half, its id in the lower */
    rfg_u32 *orders;     /* EXTRAS: of the row, in the workspace, so that what they are made of is read once */
    int tokens;          /* in the row, or the list */
    long long r;
    rfg_u64 random;
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
    DRAW,  /* the same, up to the draw */
    SUM,   /* the same, up to the sum that is given */
    ID,    /* tokens of the order that was drawn, up to the draw, from the smallest id up */
};

#if EXTRAS
/* A token's order; behind the row, that of -infinity. */
RFG_DEVICE rfg_u32 order_of(const struct row *w, int at)
{
    if (at >= w->a->v)
        return SAMPLE_NO_LOGITS;
    float l = rfg_load_float(w->logits, at, IN_DTYPE);
    int count = w->a->counts ? (int)rfg_load4(w->a->counts + w->r * w->a->ld_counts + at) : 0;
    int in_prompt = w->a->prompt ? (int)rfg_load1(w->a->prompt + w->r * w->a->ld_prompt + at) : 0;
    if (w->a->bias)
        l += rfg_load_float(w->a->bias, w->r * w->a->ld_bias + at, RFG_F32);
    return sample_order(sample_penalised(&w->rules, l, count, in_prompt));
}
#else
/* 16 bytes of the row's logits; behind it, the last one again. (Tests of each would take more masks than there are
 * scalar registers.) */
RFG_DEVICE rfg_u32x4 load_logits(const struct row *w, int chunk)
{
    int last = w->a->v - 1, first = chunk * VEC;
    if (first + VEC - 1 <= last)
        return rfg_load_chunk(w->logits + (long long)chunk * 16, 0, VEC, IN_DTYPE, WIDTH, false);
    rfg_u32 u[4] = { 0, 0, 0, 0 };
#pragma unroll
    for (int i = 0; i < VEC; i++) {
        int at = first + i < last ? first + i : last;
        if (VEC == 4)
            u[i % 4] = rfg_load4((const float *)w->logits + at);
        else
            u[i / 2] |= (rfg_u32)rfg_load2((const rfg_u16 *)w->logits + at) << (i % 2 * 16);
    }
    rfg_u32x4 v;
    v.x = u[0];
    v.y = u[1];
    v.z = u[2];
    v.w = u[3];
    return v;
}

/* The orders of their tokens; behind the row, that of -infinity. */
RFG_DEVICE void orders_of(rfg_u32 *order, const struct row *w, int chunk, rfg_u32x4 logits)
{
    float l[VEC];
    rfg_unpack(l, logits, IN_DTYPE);
#pragma unroll
    for (int i = 0; i < VEC; i++)
        order[i] = chunk * VEC + i < w->a->v ? sample_order(l[i]) : SAMPLE_NO_LOGITS;
}
#endif

/* The orders and ids of SEEN tokens. */
RFG_DEVICE void load_tokens(rfg_u32 *order, rfg_u32 *id, const struct row *w, int chunk, bool listed)
{
    if (!listed) {
#if EXTRAS
        rfg_u32x4 v = rfg_load16_once(w->orders + (long long)chunk * SEEN);
        order[0] = v.x;
        order[1] = v.y;
        order[2] = v.z;
        order[3] = v.w;
#else
        orders_of(order, w, chunk, load_logits(w, chunk));
#endif
    }
#pragma unroll
    for (int i = 0; i < SEEN; i++) {
        int at = chunk * SEEN + i;
        rfg_u64 token = listed && at < w->tokens ? w->list[at] : (rfg_u64)SAMPLE_NO_LOGITS << 32 | ~0u;
        order[i] = listed ? (rfg_u32)(token >> 32) : order[i];
        id[i] = listed ? (rfg_u32)token : (rfg_u32)at;
    }
}

RFG_DEVICE void add(struct lds *s, rfg_u32 digit, rfg_u64 n)
{
    rfg_u32 low = (rfg_u32)n, before = rfg_lds_add(&s->low[digit], low), high = (rfg_u32)(n >> 32);
    high += before + low < before;
    if (high)
        rfg_lds_add(&s->high[digit], high);
}

/* What a token has of the sum. */
RFG_DEVICE rfg_u64 amount(const struct row *w, rfg_u32 order, int kind)
{
    if (kind == COUNT)
        return 1;
    if (kind == ID)
        return order == w->last;
    rfg_u64 n = sample_weight(&w->rules, order, w->largest, kind != ALL);
    return kind == ALL || order > w->last ? n : 0; /* those of the last order are added as one */
}

RFG_DEVICE void clear(struct lds *s)
{
    rfg_barrier_lds();
    if (rfg_thread() < BINS)
        s->low[rfg_thread()] = s->high[rfg_thread()] = 0;
    rfg_barrier_lds();
}

/* The place at which the sum of a kind reaches `sum`; of ID, p.order is ~id. Kinds share the code, which is long. */
RFG_DEVICE struct place find(struct lds *s, const struct row *w, bool listed, int kind, rfg_u64 sum)
{
    struct place p = { kind == ID ? 0xffu : 0u, sum, sum }; /* ids are below 2^24 */
    int chunks = (w->tokens + SEEN - 1) / SEEN;
#pragma unroll 1
    for (int shift = kind == ID ? 16 : 24; shift >= 0; shift -= 8) {
        clear(s);
#pragma unroll 1
        for (int c = rfg_thread(); c < chunks; c += THREADS) {
            rfg_u32 order[SEEN], id[SEEN];
            load_tokens(order, id, w, c, listed);
#pragma unroll
            for (int i = 0; i < SEEN; i++) {
                rfg_u32 key = (kind == ID ? ~id[i] : order[i]) >> shift;
                if (key >> 8 != p.order)
                    continue;
                rfg_u64 n = amount(w, order[i], kind);
                if (n)
                    add(s, key & 255u, n);
            }
        }
        if (rfg_thread() == 0 && (kind == LEFT || kind == DRAW) && w->last >> shift >> 8 == p.order) {
            rfg_u64 n = sample_weight(&w->rules, w->last, w->largest, 1) * (rfg_u64)w->times;
            if (n)
                add(s, w->last >> shift & 255u, n);
        }
        rfg_barrier_lds();
        int bin = BINS - 1 - rfg_thread();
        rfg_u64 own = bin >= 0 ? (rfg_u64)s->high[bin] << 32 | s->low[bin] : 0, all;
        rfg_u64 before = rfg_group_sum_before(own, s->totals, WAVES, &all);
        if (shift == 24 && (kind == ALL || kind == LEFT))
            p.sum = p.left = sample_share(&w->rules, all);
        if (shift == 24 && kind == DRAW) {
            all = all < sum ? all : sum;
            p.sum = p.left = sample_mul_high(w->random, all) + 1;
        }
        if (before < p.left && before + own >= p.left) {
            s->digit = (rfg_u32)bin;
            s->left = p.left - before;
        }
        rfg_barrier_lds();
        p.left = s->left;
        p.order = p.order << 8 | s->digit;
    }
    return p;
}

/* The largest order, and the first token of it. */
RFG_DEVICE rfg_u32 find_largest(struct lds *s, const struct row *w, bool listed, rfg_u32 *first)
{
    rfg_u32 best = 0, at = 0;
    int chunks = (w->tokens + SEEN - 1) / SEEN;
    for (int c = rfg_thread(); c < chunks; c += THREADS) {
        rfg_u32 order[SEEN], id[SEEN];
        load_tokens(order, id, w, c, listed);
#pragma unroll
        for (int i = 0; i < SEEN; i++)
            if (order[i] > best || (listed && order[i] == best && id[i] < at)) {
                best = order[i];
                at = id[i];
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
    *first = ~rfg_wave_max_u32(has && best == most ? s->at[rfg_lane()] : 0u);
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

RFG_DEVICE rfg_u32 draw(struct lds *s, struct row *w, bool listed)
{
    rfg_u32 id;
    w->largest = find_largest(s, w, listed, &id);
    if (w->largest == SAMPLE_NO_LOGITS)
        return 0;
    if (w->rules.greedy)
        return id;
    w->last = 0;
    w->times = 0;
    int share = w->a->joint ? ALL : LEFT, next = w->rules.p_on ? share : DRAW;
    int kind = w->rules.k > 0 && w->rules.k < w->tokens ? COUNT : next;
    rfg_u64 sum = kind == COUNT ? (rfg_u64)w->rules.k : ~0ull;
#pragma unroll 1
    for (;;) {
        struct place p = find(s, w, listed, kind, sum);
        if (kind == ID)
            return ~p.order;
        if (kind == COUNT) {
            w->last = p.order;
            w->times = (int)p.left;
            kind = next;
            sum = ~0ull;
            continue;
        }
        rfg_u64 weight = sample_weight(&w->rules, p.order, w->largest, kind != ALL);
        int times = sample_times(weight, p.left);
        if (kind == DRAW) {
            w->last = p.order;
            kind = ID;
            sum = (rfg_u64)times;
            continue;
        }
        if (kind == LEFT) {
            sum = p.sum - p.left + weight * (rfg_u64)times;
        } else if (p.order >= w->last) {
            w->times = p.order == w->last && w->times < times ? w->times : times;
            w->last = p.order;
        }
        kind = DRAW;
    }
}

RFG_DEVICE rfg_u64 load_u64(const long long *p)
{
    rfg_u32x2 v = rfg_load8(p);
    return (rfg_u64)v.y << 32 | v.x;
}

/* What is read of the row but its logits; the loads' wait is a caller's to hide. */
RFG_DEVICE void read_rules(struct row *w)
{
    w->random = sample_random(load_u64(w->a->seed + w->r), load_u64(w->a->offset + w->r));
    w->rules = rules_of(w->a, w->r);
}

/* a: in LDS. */
RFG_DEVICE struct row row_at(const struct sample_args *a, int r)
{
    struct row w;
    w.a = a;
    w.r = r;
    w.tokens = a->v;
    w.list = 0;
    w.orders = 0;
    w.logits = (const char *)a->logits + r * a->ldx * RFG_DTYPE_BYTES(IN_DTYPE);
    return w;
}

RFG_DEVICE void store(const struct sample_args *a, int r, rfg_u32 id)
{
    if (ID_DTYPE == RFG_I32) {
        rfg_store4((int *)a->y + r, id);
        return;
    }
    rfg_u32x2 v;
    v.x = id;
    v.y = 0;
    rfg_store8((long long *)a->y + r, v);
}
