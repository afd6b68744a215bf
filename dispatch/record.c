/* SPDX-License-Identifier: MIT
 *
 * The record of a capture on cpu: calls, with their arguments by value. */
#include <stdlib.h>
#include <string.h>

#include "context_impl.h"

struct rfg_graph *rfg_graph_new(struct made_stream *s)
{
    struct rfg_graph *g = calloc(1, sizeof(*g));
    if (g) {
        g->stream = s;
        g->end = &g->first;
    } else
        (void)rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "no memory for a graph");
    return g;
}

rfg_status rfg_graph_add(struct rfg_graph *g, const struct rfg_record *call, const void *kargs, size_t kargs_size)
{
    struct rfg_record *r = malloc(sizeof(*r) + kargs_size);
    if (!r)
        return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "no memory for a captured call");
    *r = *call;
    if (kargs_size)
        memcpy(r->kargs, kargs, kargs_size);
    *g->end = r;
    g->end = &r->next;
    return RFG_OK;
}

void rfg_record_move(const struct rfg_record *r)
{
    if (r->from)
        memcpy(r->to, r->from, r->bytes);
    else
        memset(r->to, r->value, r->bytes);
}

void rfg_graph_free(struct rfg_graph *g)
{
    for (struct rfg_record *r = g ? g->first : NULL, *next; r; r = next) {
        next = r->next;
        free(r);
    }
    free(g);
}
