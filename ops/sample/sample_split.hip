/* SPDX-License-Identifier: MIT
 *
 * A row is shared by SPLIT workgroups, each of which reads its part once, UNROLL chunks of 16 bytes a thread in flight.
 *
 * With top-k: a thread remembers the largest of its tokens, and of these THREADS the k-th largest is a bound that at
 * least k tokens of the part reach; those that do, as a rule few more than k, go to a list in the workspace. None of
 * the others is among the row's k largest. The last workgroup to arrive sorts the few that matter, in LDS, and draws.
 *
 * Without: by sums of weights in bins (sample_bins.h), for which all need the row's largest logit: CLUSTER's workgroups
 * tell each other, others read the whole row for it.
 *
 * A large top-k, a joint top-p with another filter, and rows whose lists are longer than there is room for (many equal
 * logits): the last workgroup draws from the row itself, as sample_rows does.
 *
 * Macros: as sample_device.h, and SPLIT, UNROLL, CLUSTER, BOUND (threads for which registers must do),
 * PICK (chunks in flight where tokens of bins are listed). */
#include "rfg_device.h"
#include "rfg_select.h"
#include "sample/sample_args.h"
#include "sample/sample_device.h"
#include "sample/sample_bins.h"

#define ROOM SAMPLE_ROOM(SPLIT)                        /* of a part's list */
#define MOST (ROOM / 2 < THREADS ? ROOM / 2 : THREADS) /* of top-k: about as many more are in a list */
#define STEP (THREADS * UNROLL)

enum { ROW, LISTS, BY_BINS }; /* what a row is drawn from */

/* Can the tokens to draw from be found by their number alone, *k of them, or by their weights alone? */
RFG_DEVICE int way_of(const struct row *w, int *k)
{
    bool limited = w->rules.k > 0 && w->rules.k < w->a->v;
    bool apart = w->a->joint && w->rules.p_on; /* takes the weights of all */
    *k = w->rules.greedy ? 1 : w->rules.k;
    if (w->rules.greedy || (limited && !apart && w->rules.k <= MOST))
        return LISTS;
    return limited || (apart && w->rules.min_p) ? ROW : BY_BINS;
}

#if EXTRAS
/* The largest order among a thread's tokens; 0: it has none. Writes the orders of the own part. */
RFG_DEVICE rfg_u32 largest_of(const struct row *w, int begin, int end, int own_begin, int own_end)
{
    rfg_u32 best = 0;
    for (int at = begin * VEC + rfg_thread(); at < end * VEC; at += THREADS) {
        rfg_u32 order = order_of(w, at);
        if (at >= own_begin * VEC && at < own_end * VEC)
            rfg_store4(w->orders + at, order);
        best = rfg_larger_u32(best, order);
    }
    return best;
}
#else
/* The largest order of each of the chunks held; 0 of one behind the end. */
RFG_DEVICE void largest_held(rfg_u32 *most, const rfg_u32x4 *held, int at, int end)
{
#pragma unroll
    for (int u = 0; u < UNROLL; u++) {
        rfg_u32 of = 0;
        float l[VEC];
        rfg_unpack(l, held[u], IN_DTYPE);
#pragma unroll
        for (int i = 0; i < VEC; i++)
            of = rfg_larger_u32(of, sample_order(l[i]));
        /* No token may be in two threads: the bound counts them. */
        most[u] = at + rfg_thread() + u * THREADS < end ? of : 0u;
    }
}

/* The largest order among a thread's tokens; 0: it has none. most: as of its first chunks. */
RFG_DEVICE rfg_u32 largest_of(const struct row *w, const rfg_u32 *first, int begin, int end, bool tail)
{
    rfg_u32 best = rest_order(w, rest_of(w, tail));
#pragma unroll
    for (int u = 0; u < UNROLL; u++)
        best = rfg_larger_u32(best, first[u]);
#pragma unroll 1
    for (int at = begin + STEP; at < end; at += STEP) {
        rfg_u32x4 held[UNROLL];
        rfg_u32 most[UNROLL];
        hold(held, w, at, end, UNROLL);
        largest_held(most, held, at, end);
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
            best = rfg_larger_u32(best, most[u]);
    }
    return best;
}
#endif

/* ---- top-k: lists ----------------------------------------------------------------------------------------------- */

/* The k-th largest of what the threads have, or a little below it: the lowest bits say whose it is, so that no two are
 * alike. 0: fewer than k have any. */
RFG_DEVICE rfg_u32 bound_of(struct split_lds *s, rfg_u32 best, int k)
{
    rfg_u32x4 *all = (rfg_u32x4 *)s->list;
    rfg_u32 own = (best & ~(THREADS - 1u)) | (rfg_u32)rfg_thread();
    int before = 0;
    ((rfg_u32 *)all)[rfg_thread()] = own;
    rfg_barrier_lds();
#pragma unroll 4
    for (int i = 0; i < THREADS / 4; i++) {
        rfg_u32x4 v = all[i];
        before += (v.x > own) + (v.y > own) + (v.z > own) + (v.w > own);
    }
    if (before == k - 1)
        s->bound = own & ~(THREADS - 1u);
    rfg_barrier_lds();
    return s->bound;
}

/* Adds a token to the part's list, if it reaches the bound and there is room. */
RFG_DEVICE void list_token(struct split_lds *s, const struct row *w, rfg_u32 order, int id, rfg_u32 bound,
                           rfg_u64 *list)
{
    if (order < bound || id >= w->a->v)
        return;
    rfg_u32 at = rfg_lds_add(&s->found, 1u);
    rfg_u32x2 token;
    token.x = (rfg_u32)id;
    token.y = order;
    if (at < ROOM)
        rfg_store8(list + 1 + at, token);
}

#if !EXTRAS
/* Lists a part's tokens that reach the bound. most: the largest of the thread's first chunks. */
RFG_DEVICE void list_part(struct split_lds *s, const struct row *w, rfg_u32 *most, int begin, int end, bool tail,
                          rfg_u32 bound, rfg_u64 *list)
{
    int rest = rest_of(w, tail);
    if (rest >= 0)
        list_token(s, w, rest_order(w, rest), rest, bound, list);
#pragma unroll 1
    for (int at = begin; at < end; at += STEP) {
        rfg_u32x4 held[UNROLL];
        rfg_u32 reach = 0;
        if (at > begin) {
            hold(held, w, at, end, UNROLL);
            largest_held(most, held, at, end);
        }
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
            reach |= (rfg_u32)(most[u] && most[u] >= bound) << u;
#pragma unroll 1
        for (int c = at + rfg_thread(); reach; reach >>= 1, c += THREADS) { /* few: read again */
            if (!(reach & 1u))
                continue;
            float l[VEC];
            rfg_unpack(l, rfg_load_chunk(w->logits + (long long)c * 16, 0, VEC, IN_DTYPE, WIDTH, false), IN_DTYPE);
#pragma unroll
            for (int i = 0; i < VEC; i++)
                list_token(s, w, sample_order(l[i]), c * VEC + i, bound, list);
        }
    }
}
#endif

/* How many tokens the part's list has, before them. */
RFG_DEVICE void end_list(struct split_lds *s, rfg_u32 bound, rfg_u64 *list)
{
    rfg_barrier_lds();
    if (rfg_thread() == 0) {
        rfg_u32x2 head;
        head.x = s->found;
        head.y = bound;
        rfg_store8(list, head);
    }
}

/* All parts' lists, one behind the other; *bound: at least k of them reach it. False: not all are whole. */
RFG_DEVICE bool read_lists(struct split_lds *s, struct row *w, const rfg_u64 *lists, rfg_u32 *bound)
{
    const int per = THREADS / SPLIT;
    int begin = 0, own = 0, all = 0, part = rfg_thread() / per;
    bool whole = true;
    if (rfg_thread() < SPLIT) {
        rfg_u32x2 head = rfg_load8(lists + rfg_thread() * SAMPLE_PART(SPLIT));
        s->counts[rfg_thread()] = head.x;
        s->bounds[rfg_thread()] = head.y;
    }
    rfg_barrier_lds();
    *bound = 0;
    for (int i = 0; i < SPLIT; i++) {
        int n = (int)s->counts[i];
        whole = whole && n <= ROOM;
        begin = i == part ? all : begin;
        own = i == part ? n : own;
        all += n;
        *bound = rfg_larger_u32(*bound, s->bounds[i]);
    }
    if (!whole)
        return false;
    const rfg_u64 *list = lists + part * SAMPLE_PART(SPLIT) + 1;
#pragma unroll 1
    for (int i = rfg_thread() % per; i < own; i += 4 * per) {
        rfg_u32x2 token[4];
#pragma unroll
        for (int u = 0; u < 4; u++)
            token[u] = rfg_load8(list + (i + u * per < own ? i + u * per : i));
#pragma unroll
        for (int u = 0; u < 4; u++)
            if (i + u * per < own)
                s->list[begin + i + u * per] = (rfg_u64)token[u].y << 32 | token[u].x;
    }
    rfg_barrier_lds();
    w->list = s->list;
    w->tokens = all;
    return true;
}

/* The token drawn from the lists, of which at least k reach `lowest`. False: too many are as large as the k-th. */
RFG_DEVICE bool draw_from_few(struct split_lds *s, struct row *w, int k, rfg_u32 lowest, rfg_u32 *id)
{
    w->largest = find_largest(&s->s, w, true, id);
    if (w->largest == SAMPLE_NO_LOGITS)
        *id = 0;
    if (w->largest == SAMPLE_NO_LOGITS || w->rules.greedy)
        return true;
    /* Leave those of the k-th largest's digit and above. */
    int shift = 0;
    while ((w->largest - lowest) >> shift >= BINS)
        shift++;
    if (rfg_thread() == 0)
        s->found = 0;
    clear(&s->s);
    for (int i = rfg_thread(); i < w->tokens; i += THREADS) {
        rfg_u32 order = (rfg_u32)(w->list[i] >> 32);
        if (order >= lowest)
            rfg_lds_add(&s->s.low[(order - lowest) >> shift], 1u);
    }
    rfg_barrier_lds();
    int bin = BINS - 1 - rfg_thread();
    rfg_u64 all, own = bin >= 0 ? s->s.low[bin] : 0, before = rfg_group_sum_before(own, s->s.totals, WAVES, &all);
    if (before < (rfg_u64)k && before + own >= (rfg_u64)k) {
        s->s.digit = (rfg_u32)bin;
        s->s.left = before + own;
    }
    rfg_barrier_lds();
    int left = s->s.left <= THREADS ? (int)s->s.left : THREADS + 1;
    rfg_u32 digit = s->s.digit;
    if (left > THREADS)
        return false;
    for (int i = rfg_thread(); i < w->tokens; i += THREADS) {
        rfg_u64 token = w->list[i];
        rfg_u32 order = (rfg_u32)(token >> 32);
        if (order >= lowest && (order - lowest) >> shift >= digit)
            s->few.any[rfg_lds_add(&s->found, 1u)] = token ^ 0xffffffffu; /* of equal ones the smaller id is above */
    }
    rfg_barrier_lds();
    rfg_u64 token = rfg_thread() < left ? s->few.any[rfg_thread()] : 0;
    int rank = 0;
#pragma unroll 4
    for (int i = 0; i < left; i++)
        rank += s->few.any[i] > token;
    if (rfg_thread() < left)
        s->few.sorted[rank] = token;
    rfg_barrier_lds();
    token = rfg_thread() < k ? s->few.sorted[rfg_thread()] : 0;
    own = rfg_thread() < k ? sample_weight(&w->rules, (rfg_u32)(token >> 32), w->largest, 1) : 0;
    before = rfg_group_sum_before(own, s->s.totals, WAVES, &all);
    if (w->rules.p_on) {
        rfg_u64 share = sample_share(&w->rules, all);
        if (before < share && before + own >= share)
            s->s.left = before + own;
        rfg_barrier_lds();
        all = s->s.left;
    }
    rfg_u64 at = sample_mul_high(w->random, all) + 1;
    if (before < at && before + own >= at)
        s->s.digit = ~(rfg_u32)token;
    rfg_barrier_lds();
    *id = s->s.digit;
    return true;
}

/* ---- the kernel ------------------------------------------------------------------------------------------------- */

/* The largest of what the threads, and of a cluster the workgroups, have. */
RFG_DEVICE rfg_u32 largest_of_all(struct split_lds *s, rfg_u32 best, int part)
{
    best = rfg_wave_max_u32(best);
    if (rfg_lane() == 0)
        s->s.part[rfg_wave()] = best;
    rfg_barrier_lds();
    best = rfg_wave_max_u32(rfg_lane() < WAVES ? s->s.part[rfg_lane()] : 0u);
#if CLUSTER
    if (rfg_thread() < SPLIT)
        rfg_cluster_store((float *)&s->largest[part], rfg_thread(), rfg_as_float(best));
    rfg_cluster_arrive();
    rfg_cluster_wait();
    for (int i = 0; i < SPLIT; i++)
        best = rfg_larger_u32(best, s->largest[i]);
#else
    (void)part;
#endif
    return best;
}

#if CLUSTER
RFG_KERNEL_CLUSTER(BOUND, SPLIT) sample_split(struct sample_args a)
#else
RFG_KERNEL(BOUND) sample_split(struct sample_args a)
#endif
{
    RFG_SHARED struct split_lds s;
    int r = rfg_group_x() / SPLIT, part = rfg_group_x() % SPLIT, k;
    rfg_start_next();
#if CLUSTER
    rfg_cluster_arrive();
#endif
    if (rfg_thread() == 0) {
        s.s.args = a;
        s.found = 0;
    }
    rfg_barrier_lds();
    rfg_await_previous();
    struct row w = row_at(&s.s.args, r);
    int chunks = CHUNKS(a.v), begin = rfg_share_begin(chunks, part, SPLIT),
        end = rfg_share_begin(chunks, part + 1, SPLIT);
    rfg_u64 *lists = (rfg_u64 *)a.workspace + (long long)r * SPLIT * SAMPLE_PART(SPLIT);
    rfg_u64 *own = lists + part * SAMPLE_PART(SPLIT);
    rfg_u32 best;
    bool tail = part == SPLIT - 1; /* has what is no whole chunk */
#if EXTRAS
    w.orders = (rfg_u32 *)((char *)a.workspace + SAMPLE_PARTS(a.b, SPLIT)) + r * SAMPLE_ORDERS(a.v);
    read_rules(&w);
#else
    rfg_u32x4 held[UNROLL];
    rfg_u32 most[UNROLL];
    if (begin < end)
        hold(held, &w, begin, end, UNROLL);
    read_rules(&w); /* while the logits are on their way */
    largest_held(most, held, begin, end);
#endif
    int way = way_of(&w, &k);
#if CLUSTER
    rfg_cluster_wait(); /* all run: see rfg_cluster_arrive() */
#endif
#if EXTRAS
    if (way == BY_BINS && !CLUSTER) {
        best = largest_of(&w, 0, chunks, begin, end);
        rfg_barrier(); /* other threads' orders are there */
    } else
        best = largest_of(&w, begin, end, begin, end);
#else
    best = largest_of(&w, most, begin, end, tail);
    if (way == BY_BINS && !CLUSTER) {
        const rfg_u32 none[UNROLL] = { 0 };
        best = rfg_larger_u32(best, largest_of(&w, none, -STEP, chunks, true));
    }
#endif
    if (way == LISTS) {
        rfg_u32 bound = bound_of(&s, best, k);
        if (best && best >= bound) {
#if EXTRAS
            for (int at = begin * VEC + rfg_thread(); at < end * VEC; at += THREADS)
                list_token(&s, &w, rfg_load4(w.orders + at), at, bound, own);
#else
            list_part(&s, &w, most, begin, end, tail, bound, own);
#endif
        }
        end_list(&s, bound, own);
    } else if (way == BY_BINS) {
        w.largest = largest_of_all(&s, best, part);
        write_sums(&s, &w, begin, end, tail, own);
    }
    if (!rfg_last_to_arrive(a.counters + r, SPLIT, &s.flag))
        return;
    rfg_u32 id = 0, bound;
    if (way == BY_BINS && w.largest == SAMPLE_NO_LOGITS)
        ;
    else if (way == BY_BINS && draw_from_bins(&s, &w, lists, &id))
        ;
    else if (way == LISTS && read_lists(&s, &w, lists, &bound)) {
        if (!draw_from_few(&s, &w, k, bound, &id))
            id = draw(&s.s, &w, true);
    } else {
        w.tokens = a.v;
        id = draw(&s.s, &w, false);
    }
    if (rfg_thread() == 0)
        store(w.a, r, id);
}
