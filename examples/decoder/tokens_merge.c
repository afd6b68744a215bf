/* SPDX-License-Identifier: MIT
 *
 * A heap of pairs that may be merged: n log n, where a text of n characters has no spaces to cut it. */
#include "tokens.h"

#include <stdlib.h>

#include "decoder.h"

struct pair {
    double priority;
    int64_t left, right;
    size_t size; /* of both: a pair one of which was merged since has another */
    int32_t id;
};

struct heap {
    struct pair *pairs;
    size_t count;
};

static bool before(const struct pair *a, const struct pair *b)
{
    return a->priority < b->priority || (a->priority == b->priority && a->left < b->left);
}

static void push(struct heap *h, struct pair p)
{
    size_t i = h->count++;
    for (; i > 0 && before(&p, &h->pairs[(i - 1) / 2]); i = (i - 1) / 2)
        h->pairs[i] = h->pairs[(i - 1) / 2];
    h->pairs[i] = p;
}

static struct pair pop(struct heap *h)
{
    struct pair top = h->pairs[0], last = h->pairs[--h->count];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < h->count; i = child) {
        if (child + 1 < h->count && before(&h->pairs[child + 1], &h->pairs[child]))
            child++;
        if (!before(&h->pairs[child], &last))
            break;
        h->pairs[i] = h->pairs[child];
    }
    h->pairs[i] = last;
    return top;
}

static void offer(struct heap *h, const struct tokens *t, merge_rule *rule, const struct symbol *symbols, int64_t left)
{
    int64_t right = left < 0 ? -1 : symbols[left].next;
    if (right < 0)
        return;
    struct pair p = { .left = left, .right = right, .size = symbols[left].size + symbols[right].size };
    p.id = rule(t, &symbols[left], &symbols[right], &p.priority);
    if (p.id >= 0)
        push(h, p);
}

void merge_symbols(const struct tokens *t, merge_rule *rule, struct symbol *symbols, size_t count)
{
    /* Each symbol is offered once with the one before it, each merge offers two more. */
    struct heap h = { .pairs = allocate(3 * count + 1, sizeof(*h.pairs)) };
    for (size_t i = 0; i < count; i++)
        offer(&h, t, rule, symbols, (int64_t)i);
    while (h.count > 0) {
        struct pair p = pop(&h);
        struct symbol *left = &symbols[p.left], *right = &symbols[p.right];
        if (!left->size || !right->size || left->next != p.right || left->size + right->size != p.size)
            continue;
        left->size = p.size;
        left->id = p.id;
        left->next = right->next;
        right->size = 0;
        if (left->next >= 0)
            symbols[left->next].before = p.left;
        offer(&h, t, rule, symbols, left->before);
        offer(&h, t, rule, symbols, p.left);
    }
    free(h.pairs);
}
