/* SPDX-License-Identifier: MIT
 *
 * Vector clocks of waves, for check_waves.c. */
#ifndef RFG_EMU_CHECK_CLOCKS_H
#define RFG_EMU_CHECK_CLOCKS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* One wave's entry: its writes up to w and reads up to r are ordered before; its writes up to wb were also written
 * back. */
struct entry {
    uint32_t wave, w, wb, r;
};
struct clock {
    struct entry *e; /* by wave */
    int n, room;
};

static inline const struct entry *find(const struct clock *c, uint32_t wave)
{
    int lo = 0, hi = c->n;
    while (lo < hi) {
        int mid = (lo + hi) / 2;
        if (c->e[mid].wave < wave)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < c->n && c->e[lo].wave == wave ? &c->e[lo] : NULL;
}

static inline bool reserve(struct clock *c, int n)
{
    if (n <= c->room)
        return true;
    struct entry *e = realloc(c->e, (size_t)(n + n / 2 + 8) * sizeof(*e));
    if (!e)
        return false;
    c->e = e;
    c->room = n + n / 2 + 8;
    return true;
}

static inline void raise_to(struct entry *to, const struct entry *from)
{
    to->w = from->w > to->w ? from->w : to->w;
    to->wb = from->wb > to->wb ? from->wb : to->wb;
    to->r = from->r > to->r ? from->r : to->r;
}

/* to: the later of both, wave by wave. Without memory an order is forgotten: that may report a false race, but hides
 * none. */
static inline void join_entries(struct clock *to, const struct entry *from, int n)
{
    if (!n || !reserve(to, to->n + n))
        return;
    int a = to->n - 1, b = n - 1, new = 0;
    for (int i = 0, k = 0; k < n; k++) {
        while (i < to->n && to->e[i].wave < from[k].wave)
            i++;
        new += i == to->n || to->e[i].wave != from[k].wave;
    }
    int at = to->n + new - 1;
    to->n += new;
    for (; b >= 0; at--)
        if (a >= 0 && to->e[a].wave > from[b].wave)
            to->e[at] = to->e[a--];
        else if (a >= 0 && to->e[a].wave == from[b].wave) {
            to->e[at] = to->e[a--];
            raise_to(&to->e[at], &from[b--]);
        } else
            to->e[at] = from[b--];
}

static inline void join(struct clock *to, const struct clock *from)
{
    join_entries(to, from->e, from->n);
}

static inline void copy(struct clock *to, const struct clock *from)
{
    if (!reserve(to, from->n)) {
        to->n = 0;
        return;
    }
    if (from->n)
        memcpy(to->e, from->e, (size_t)from->n * sizeof(*from->e));
    to->n = from->n;
}

#endif
