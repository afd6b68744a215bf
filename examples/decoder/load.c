/* SPDX-License-Identifier: MIT */
#include "load.h"

#include <math.h>
#include <stdio.h>

void *arena_take(struct arena *a, size_t bytes)
{
    a->used = (a->used + 255) / 256 * 256;
    void *at = a->base ? a->base + a->used : NULL;
    a->used += bytes;
    return at;
}

void load_copy(struct loader *l, void *to, const void *from, size_t bytes, rfg_copy_kind kind)
{
    CHECK(rfg_device_copy(l->ctx, to, from, bytes, kind, NULL));
    CHECK(rfg_stream_sync(l->ctx, NULL));
}

void load_at(struct loader *l, char *to, const char *name, int64_t rows, int64_t cols, double mean, double spread)
{
    int64_t n = rows * (cols ? cols : 1);
    for (int64_t at = 0, count; to && at < n; at += count) {
        count = n - at < PIECE ? n - at : PIECE;
        weights_get(l->w, name, rows, cols, mean, spread, at, count, l->piece);
        load_copy(l, to + (size_t)at * sizeof(*l->piece), l->piece, (size_t)count * sizeof(*l->piece),
                  RFG_HOST_TO_DEVICE);
    }
}

void load_more(struct loader *l, const char *name, int64_t rows, int64_t cols, double mean, double spread)
{
    char *to = l->arena.base ? l->arena.base + l->arena.used : NULL;
    l->arena.used += (size_t)(rows * (cols ? cols : 1)) * sizeof(*l->piece);
    load_at(l, to, name, rows, cols, mean, spread);
}

void *load_vector(struct loader *l, const char *name, int64_t n, double mean, double spread)
{
    void *at = arena_take(&l->arena, 0);
    load_more(l, name, n, 0, mean, spread);
    return at;
}

void *load_floats(struct loader *l, const char *name, int64_t n, double mean, double spread)
{
    float *to = arena_take(&l->arena, (size_t)n * sizeof(*to));
    if (to) {
        weights_floats(l->w, name, n, 0, mean, spread, (float *)l->piece);
        load_copy(l, to, l->piece, (size_t)n * sizeof(*to), RFG_HOST_TO_DEVICE);
    }
    return to;
}

void *load_matrix(struct loader *l, const char *name, int64_t rows, int64_t cols)
{
    void *at = arena_take(&l->arena, 0);
    load_more(l, name, rows, cols, 0, sqrt(3.0 / (double)cols));
    return at;
}

const char *load_name(struct loader *l, int64_t layer, const char *part)
{
    snprintf(l->name, sizeof(l->name), "model.layers.%lld.%s", (long long)layer, part);
    return l->name;
}
