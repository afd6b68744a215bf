/* SPDX-License-Identifier: MIT
 *
 * For sample_split.hip: rows whose tokens are told apart by their weights alone (no top-k). Weights fall into bins by
 * their exponents, BINS_OF of them to a factor of 2, in the order of the logits. Each part of a row sums its weights by
 * bins, which takes the row's largest logit; the last workgroup to arrive adds the parts' sums up, sees in which bin
 * top-p ends and in which ones the draw can be, lists the tokens of these in LDS and goes on with digits of them. */
#define BINS_OF   24 /* 41 * 24 < SAMPLE_BINS */
#define EACH      (SAMPLE_BINS / THREADS)
#define HALF      (SAMPLE_LIST / 2)
#define CHUNKS(v) (EXTRAS ? ((v) + VEC - 1) / VEC : (v) / VEC) /* of a row; without extras, whole ones */
static_assert(41 * BINS_OF < SAMPLE_BINS && EACH % 2 == 0, "bins");

/* LDS. */
struct split_lds {
    rfg_u64 list[SAMPLE_LIST]; /* lists: at first, what bounds them */
    union {
        struct {
            rfg_u32 low[SAMPLE_BINS], high[SAMPLE_BINS];
        } bins;
        struct {
            rfg_u64 any[THREADS], sorted[THREADS];
        } few;
    };
    struct lds s;
    rfg_u64 base[3], end[3]; /* of the bins found: sums up to its beginning and its end */
    int bin[3];
    rfg_u32 bound, found, also, flag, counts[SPLIT], bounds[SPLIT], largest[SPLIT];
};
enum { CUT, FIRST, LAST }; /* bins: where top-p ends; where the draw may be, from the first to the last */

/* Bins whose tokens are listed. */
struct wanted {
    int cut, first, last;
};

RFG_DEVICE int bin_of(const struct row *w, rfg_u32 order)
{
    float t = rfg_mul_rounded(
        rfg_mul_rounded(sample_of_order(order) - sample_of_order(w->largest), w->rules.inverse_temperature),
        0x1.715476p+0f);
    t = t > -41.0f ? t : -41.0f;
    return order >= w->largest ? 0 : (int)(t * -(float)BINS_OF);
}

RFG_DEVICE void add_to_bin(struct split_lds *s, const struct row *w, rfg_u32 order)
{
    rfg_u64 n = sample_weight(&w->rules, order, w->largest, 1);
    if (!n)
        return;
    int bin = bin_of(w, order);
    rfg_u32 low = (rfg_u32)n, before = rfg_lds_add(&s->bins.low[bin], low), high = (rfg_u32)(n >> 32);
    high += before + low < before;
    if (high)
        rfg_lds_add(&s->bins.high[bin], high);
}

RFG_DEVICE void list_of_bins(struct split_lds *s, const struct row *w, rfg_u32 order, int id, struct wanted of)
{
    int bin = bin_of(w, order);
    bool cut = bin == of.cut;
    if ((!cut && (bin < of.first || bin > of.last)) || id >= w->a->v)
        return;
    rfg_u32 at = rfg_lds_add(cut ? &s->found : &s->also, 1u);
    if (at < HALF)
        s->list[(cut ? 0 : HALF) + at] = (rfg_u64)order << 32 | (rfg_u32)id;
}

#if EXTRAS
/* Adds the tokens of chunks to their bins, or (`lists`, a constant) lists those of some bins. */
RFG_DEVICE void each_of(struct split_lds *s, const struct row *w, int begin, int end, bool tail, int loads, bool lists,
                        struct wanted of)
{
    (void)tail, (void)loads;
    for (int at = begin * VEC + rfg_thread(); at < end * VEC; at += THREADS) {
        rfg_u32 order = rfg_load4(w->orders + at);
        if (lists)
            list_of_bins(s, w, order, at, of);
        else
            add_to_bin(s, w, order);
    }
}
#else
/* `loads` (a constant, at most UNROLL) of a thread's chunks from `at` on; in place of those behind the end, the last
 * one. (LLVM 15 keeps an array in registers only if loops over it have a number for a bound.) */
RFG_DEVICE void hold(rfg_u32x4 *held, const struct row *w, int at, int end, int loads)
{
#pragma unroll
    for (int u = 0; u < UNROLL; u++) {
        int c = at + rfg_thread() + u * THREADS;
        if (u >= loads)
            continue;
        held[u] = rfg_load_chunk(w->logits + (long long)(c < end ? c : end - 1) * 16, 0, VEC, IN_DTYPE, WIDTH, false);
    }
}

/* A thread's token behind the row's whole chunks, of the part that has them; -1: it has none. */
RFG_DEVICE int rest_of(const struct row *w, bool tail)
{
    int rest = w->a->v % VEC;
    return tail && rfg_thread() < rest ? w->a->v - rest + rfg_thread() : -1;
}
RFG_DEVICE rfg_u32 rest_order(const struct row *w, int rest)
{
    return rest < 0 ? 0 : sample_order(rfg_load_float(w->logits, rest, IN_DTYPE));
}

/* Adds the tokens of whole chunks, and (tail) the row's rest, to their bins, or (`lists`, a constant) lists those of
 * some bins. `loads` (a constant): in flight. */
RFG_DEVICE void each_of(struct split_lds *s, const struct row *w, int begin, int end, bool tail, int loads, bool lists,
                        struct wanted of)
{
    int rest = rest_of(w, tail);
#pragma unroll 1
    for (int at = begin; at < end; at += THREADS * loads) {
        rfg_u32x4 v[UNROLL];
        hold(v, w, at, end, loads);
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            int c = at + rfg_thread() + u * THREADS;
            if (u >= loads || c >= end)
                continue;
            float l[VEC];
            rfg_unpack(l, v[u], IN_DTYPE);
#pragma unroll
            for (int i = 0; i < VEC; i++)
                if (lists)
                    list_of_bins(s, w, sample_order(l[i]), c * VEC + i, of);
                else
                    add_to_bin(s, w, sample_order(l[i]));
        }
    }
    if (rest >= 0 && lists)
        list_of_bins(s, w, rest_order(w, rest), rest, of);
    else if (rest >= 0)
        add_to_bin(s, w, rest_order(w, rest));
}
#endif

/* A part's sums, to the workspace. */
RFG_DEVICE void write_sums(struct split_lds *s, const struct row *w, int begin, int end, bool tail, rfg_u64 *sums)
{
    struct wanted none = { -1, 0, -1 };
    for (int i = rfg_thread(); i < SAMPLE_BINS; i += THREADS)
        s->bins.low[i] = s->bins.high[i] = 0;
    rfg_barrier_lds();
    each_of(s, w, begin, end, tail, UNROLL < 4 ? UNROLL : 4, false, none);
    rfg_barrier_lds();
    for (int i = rfg_thread(); i < SAMPLE_BINS; i += THREADS) {
        rfg_u32x2 v;
        v.x = s->bins.low[i];
        v.y = s->bins.high[i];
        rfg_store8(sums + i, v);
    }
}

/* The bin in which the sum over bins reaches `sum`; own: of this thread's, before: of those before them. */
RFG_DEVICE void find_bin(struct split_lds *s, const rfg_u64 *own, rfg_u64 before, rfg_u64 sum, int slot)
{
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        if (before < sum && before + own[i] >= sum) {
            s->bin[slot] = rfg_thread() * EACH + i;
            s->base[slot] = before;
            s->end[slot] = before + own[i];
        }
        before += own[i];
    }
}

/* The token drawn, by the parts' sums. False: the bins have too many. w->largest is known, and no -infinity. */
RFG_DEVICE bool draw_from_bins(struct split_lds *s, struct row *w, const rfg_u64 *sums, rfg_u32 *id)
{
    rfg_u64 own[EACH], sum = 0, all;
    bool cut = w->rules.p_on;
#pragma unroll
    for (int i = 0; i < EACH; i++)
        own[i] = 0;
#pragma unroll 4 /* 8 loads in flight; all of 16 parts' would take more registers than there are */
    for (int part = 0; part < SPLIT; part++)
#pragma unroll
        for (int i = 0; i < EACH; i += 2) {
            rfg_u32x4 v = rfg_load16(sums + part * SAMPLE_PART(SPLIT) + rfg_thread() * EACH + i);
            own[i] += (rfg_u64)v.y << 32 | v.x;
            own[i + 1] += (rfg_u64)v.w << 32 | v.z;
        }
#pragma unroll
    for (int i = 0; i < EACH; i++)
        sum += own[i];
    rfg_u64 before = rfg_group_sum_before(sum, s->s.totals, WAVES, &all);
    rfg_u64 share = cut ? sample_share(&w->rules, all) : all;
    find_bin(s, own, before, share, CUT);
    rfg_barrier_lds();
    /* What top-p leaves is the share at least, and at most all up to the end of its bin. */
    find_bin(s, own, before, sample_mul_high(w->random, share) + 1, FIRST);
    find_bin(s, own, before, sample_mul_high(w->random, cut ? s->end[CUT] : all) + 1, LAST);
    if (rfg_thread() == 0)
        s->found = s->also = 0;
    rfg_barrier_lds();
    struct wanted of = { cut ? s->bin[CUT] : -1, s->bin[FIRST], s->bin[LAST] };
    each_of(s, w, 0, CHUNKS(w->a->v), true, PICK, true, of);
    rfg_barrier_lds();
    if (s->found > HALF || s->also > HALF)
        return false;
    w->list = s->list;
    w->tokens = (int)s->found;
    w->last = 0;
    w->times = 0;
    int kind = SUM;
    sum = share - s->base[CUT];
    rfg_u64 left = all;
#pragma unroll 1
    for (;;) {
        if (!cut && kind == SUM) { /* the draw, which is before top-p's bin or in it */
            rfg_u64 at = sample_mul_high(w->random, left) + 1;
            bool in = of.cut >= 0 && at > s->base[CUT];
            sum = at - s->base[in ? CUT : FIRST];
            w->list = s->list + (in ? 0 : HALF);
            w->tokens = (int)(in ? s->found : s->also);
        }
        struct place p = find(&s->s, w, true, kind, sum);
        if (kind == ID) {
            *id = ~p.order;
            return true;
        }
        rfg_u64 weight = sample_weight(&w->rules, p.order, w->largest, 1);
        int times = sample_times(weight, p.left);
        if (cut) {
            left = s->base[CUT] + p.sum - p.left + weight * (rfg_u64)times;
            cut = false;
        } else {
            w->last = p.order;
            kind = ID;
            sum = (rfg_u64)times;
        }
    }
}
