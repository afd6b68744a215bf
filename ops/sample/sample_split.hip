/* SPDX-License-Identifier: MIT
 *
 * A row with top-k is shared by SPLIT workgroups. Each reads its part once: a thread remembers the largest of its
 * tokens, and of these THREADS the k-th largest is a bound that at least k tokens of the part reach; those that do, as
 * a rule few more than k, go to a list in the workspace. None of the others is among the row's k largest. The last
 * workgroup to arrive draws from the lists, in LDS. A row without top-k, or whose lists are longer than there is room
 * for (many equal logits), it draws from the row itself, as sample_rows does.
 *
 * Macros: as sample_device.h, and SPLIT. */
#include "rfg_device.h"
#include "rfg_select.h"
#include "sample/sample_args.h"
#include "sample/sample_device.h"

#define ROOM   (SAMPLE_LIST / SPLIT)                     /* of a part's list */
#define MOST   (ROOM / 2 < THREADS ? ROOM / 2 : THREADS) /* of top-k: about as many more are in a list */
#define UNROLL 4

struct split_lds {
    rfg_u64 list[SAMPLE_LIST];
    rfg_u32x4 largest[THREADS / 4];
    struct lds s;
    rfg_u32 bound, found, flag, counts[SPLIT];
};

/* Can the tokens to draw from be found by their number alone? How many. */
RFG_DEVICE int k_of(const struct row *w)
{
    if (w->rules.greedy)
        return 1;
    bool apart = w->a->joint && w->rules.p_on; /* takes the weights of all */
    return !apart && w->rules.k > 0 && w->rules.k < w->a->v && w->rules.k <= MOST ? w->rules.k : 0;
}

/* The largest order among a thread's tokens; 0: it has none. */
RFG_DEVICE rfg_u32 largest_of(const struct row *w, int begin, int end)
{
    rfg_u32 best = 0;
#if EXTRAS
    for (int at = begin * VEC + rfg_thread(); at < end * VEC; at += THREADS) {
        rfg_u32 order = order_of(w, at);
        rfg_store4(w->orders + at, order);
        best = rfg_larger_u32(best, order);
    }
#else
    for (int c = begin + rfg_thread(); c < end; c += THREADS * UNROLL) {
        rfg_u32x4 v[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
            if (c + u * THREADS < end)
                v[u] = load_logits(w, c + u * THREADS);
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
            if (c + u * THREADS < end) {
                rfg_u32 order[VEC];
                orders_of(order, w, c + u * THREADS, v[u]);
#pragma unroll
                for (int i = 0; i < VEC; i++)
                    best = rfg_larger_u32(best, order[i]);
            }
    }
#endif
    return best;
}

/* The k-th largest of what the threads have. */
RFG_DEVICE rfg_u32 bound_of(struct split_lds *s, rfg_u32 own, int k)
{
    int before = 0;
    ((rfg_u32 *)s->largest)[rfg_thread()] = own;
    rfg_barrier_lds();
    for (int i = 0; i < THREADS / 4; i++) {
        rfg_u32x4 v = s->largest[i];
        int first = 4 * i;
        before += (v.x > own) + (v.y > own) + (v.z > own) + (v.w > own);
        before += (v.x == own && first < rfg_thread()) + (v.y == own && first + 1 < rfg_thread()) +
                  (v.z == own && first + 2 < rfg_thread()) + (v.w == own && first + 3 < rfg_thread());
    }
    if (before == k - 1)
        s->bound = own;
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

/* Writes the part's list: how many it has, then the tokens there is room for. */
RFG_DEVICE void write_list(struct split_lds *s, const struct row *w, int begin, int end, rfg_u32 own, rfg_u32 bound,
                           rfg_u64 *list)
{
    if (own && own >= bound) {
#if EXTRAS
        for (int at = begin * VEC + rfg_thread(); at < end * VEC; at += THREADS)
            list_token(s, w, rfg_load4(w->orders + at), at, bound, list);
#else
        for (int c = begin + rfg_thread(); c < end; c += THREADS) {
            rfg_u32 order[VEC];
            orders_of(order, w, c, load_logits(w, c));
#pragma unroll
            for (int i = 0; i < VEC; i++)
                list_token(s, w, order[i], c * VEC + i, bound, list);
        }
#endif
    }
    rfg_barrier_lds();
    if (rfg_thread() == 0)
        rfg_store4(list, s->found);
}

/* All parts' lists, one behind the other. False: not all are whole. */
RFG_DEVICE bool read_lists(struct split_lds *s, struct row *w, const rfg_u64 *lists)
{
    if (rfg_thread() < SPLIT)
        s->counts[rfg_thread()] = rfg_load4(lists + rfg_thread() * (ROOM + 1));
    rfg_barrier_lds();
    int begin = 0;
    bool whole = true;
    for (int part = 0; part < SPLIT; part++) {
        int n = (int)s->counts[part];
        whole = whole && n <= ROOM;
        if (part % WAVES == rfg_wave() && whole)
            for (int i = rfg_lane(); i < n; i += RFG_WAVE) {
                rfg_u32x2 token = rfg_load8(lists + part * (ROOM + 1) + 1 + i);
                s->list[begin + i] = (rfg_u64)token.y << 32 | token.x;
            }
        begin += n;
    }
    rfg_barrier_lds();
    w->list = s->list;
    w->tokens = whole ? begin : w->a->v;
    return whole;
}

RFG_KERNEL(THREADS) sample_split(struct sample_args a)
{
    RFG_SHARED struct split_lds s;
    int r = rfg_group_x() / SPLIT, part = rfg_group_x() % SPLIT;
    rfg_start_next();
    if (rfg_thread() == 0)
        s.s.args = a;
    rfg_barrier_lds();
    rfg_await_previous();
    struct row w = row_of(&s.s.args, r);
    int k = k_of(&w), chunks = (a.v + VEC - 1) / VEC;
    rfg_u64 *lists = (rfg_u64 *)a.workspace + (long long)r * SPLIT * (ROOM + 1);
#if EXTRAS
    w.orders = (rfg_u32 *)((char *)a.workspace + (long long)a.b * SAMPLE_LISTS_BYTES(SPLIT)) + r * SAMPLE_ORDERS(a.v);
#endif
    if (rfg_thread() == 0)
        s.found = 0;
    if (k || EXTRAS) {
        int begin = rfg_share_begin(chunks, part, SPLIT), end = rfg_share_begin(chunks, part + 1, SPLIT);
        rfg_u32 own = largest_of(&w, begin, end), bound = k ? bound_of(&s, own, k) : ~0u;
        write_list(&s, &w, begin, end, own, bound, lists + part * (ROOM + 1));
    }
    if (!rfg_last_to_arrive(a.counters + r, SPLIT, &s.flag))
        return;
    rfg_u32 id;
    if (k && read_lists(&s, &w, lists))
        id = draw(&s.s, &w, true);
    else
        id = draw(&s.s, &w, false);
    if (rfg_thread() == 0)
        store(w.a, r, id);
}
