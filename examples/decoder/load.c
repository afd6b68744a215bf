/* SPDX-License-Identifier: MIT */
#include "load.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

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

struct cut cut_rows(const struct config *c, int64_t n)
{
    return (struct cut){ n * ranks_of(c), n * c->shard.rank, false };
}

struct cut cut_columns(const struct config *c, int64_t n)
{
    return (struct cut){ n * ranks_of(c), n * c->shard.rank, true };
}

void load_part(struct loader *l, char *to, const char *name, struct cut cut, int64_t rows, int64_t cols)
{
    int64_t all_rows = cut.columns ? rows : cut.whole, all_cols = cut.columns ? cut.whole : cols;
    int64_t row = cut.columns ? 0 : cut.first, col = cut.columns ? cut.first : 0, many = PIECE / all_cols;
    for (int64_t at = 0, count; to && at < rows; at += count) {
        count = rows - at < many ? rows - at : many;
        weights_get(l->w, name, all_rows, all_cols, 0, sqrt(3.0 / (double)all_cols), (row + at) * all_cols,
                    count * all_cols, l->piece);
        for (int64_t r = 0; cols < all_cols && r < count; r++)
            memmove(l->piece + r * cols, l->piece + r * all_cols + col, (size_t)cols * sizeof(*l->piece));
        load_copy(l, to + (size_t)(at * cols) * sizeof(*l->piece), l->piece, (size_t)(count * cols) * sizeof(*l->piece),
                  RFG_HOST_TO_DEVICE);
    }
}

void load_more_part(struct loader *l, const char *name, struct cut cut, int64_t rows, int64_t cols)
{
    char *to = l->arena.base ? l->arena.base + l->arena.used : NULL;
    l->arena.used += (size_t)(rows * cols) * sizeof(*l->piece);
    load_part(l, to, name, cut, rows, cols);
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

void load_bytes(struct loader *l, char *to, const char *name, const char *dtype, int ndim, const int64_t *shape,
                int constant)
{
    int64_t n = 1;
    for (int i = 0; i < ndim; i++)
        n *= shape[i];
    if (constant >= 0 && weights_are_random(l->w)) {
        CHECK(rfg_device_memset(l->ctx, to, constant, (size_t)n, NULL));
        CHECK(rfg_stream_sync(l->ctx, NULL));
        return;
    }
    for (int64_t at = 0, count; at < n; at += count) {
        count = n - at < 2 * PIECE ? n - at : 2 * PIECE;
        weights_bytes(l->w, name, dtype, ndim, shape, at, count, (uint8_t *)l->piece);
        load_copy(l, to + at, l->piece, (size_t)count, RFG_HOST_TO_DEVICE);
    }
}

void load_codes(struct loader *l, char *to, char *scales, int64_t layer, const char *part, int64_t rows, int64_t cols)
{
    char inv[80];
    int64_t down = (rows + 127) / 128, along = (cols + 127) / 128;
    double scale = 1 / (107.0 * sqrt((double)cols)); /* random codes are 107 on average (rms) */
    load_bytes(l, to, load_name(l, layer, part), "F8_E4M3", 2, (int64_t[]){ rows, cols }, -1);
    snprintf(inv, sizeof(inv), "%s_scale_inv", part);
    weights_floats(l->w, load_name(l, layer, inv), down, along, scale, scale / 8, (float *)l->piece);
    load_copy(l, scales, l->piece, (size_t)(down * along) * sizeof(float), RFG_HOST_TO_DEVICE);
}

void *load_matrix(struct loader *l, const char *name, int64_t rows, int64_t cols)
{
    void *at = arena_take(&l->arena, 0);
    load_more(l, name, rows, cols, 0, sqrt(3.0 / (double)cols));
    return at;
}

rfg_dtype load_dtype(const struct loader *l, const char *name)
{
    rfg_dtype blocks = weights_blocks(l->w, name);
    return blocks == RFG_DTYPE_NONE ? l->m->dtype : blocks;
}

size_t load_row_bytes(const char *name, rfg_dtype dtype, int64_t cols)
{
    size_t bytes = rfg_dtype_bytes(dtype, cols);
    if (!bytes)
        die("tensor '%s': its rows of %lld elements are no whole blocks of %s", name, (long long)cols,
            rfg_dtype_name(dtype));
    return bytes;
}

void load_rows(struct loader *l, const char *name, rfg_dtype dtype, int64_t rows, int64_t cols, int64_t first,
               int64_t count, void *to)
{
    if (dtype == l->m->dtype)
        weights_get(l->w, name, rows, cols, 0, sqrt(3.0 / (double)cols), first * cols, count * cols, to);
    else
        weights_rows(l->w, name, rows, cols, first, count, to);
}

struct weight load_weight(struct loader *l, const char *name, int64_t rows, int64_t cols)
{
    struct weight w = { .dtype = load_dtype(l, name) };
    char *to = l->arena.base ? l->arena.base + l->arena.used : NULL;
    w.at = to;
    size_t row = load_row_bytes(name, w.dtype, cols);
    l->arena.used += row * (size_t)rows;
    int64_t many = (int64_t)(PIECE * sizeof(*l->piece) / row);
    for (int64_t at = 0, count; to && at < rows; at += count) {
        count = rows - at < many ? rows - at : many;
        load_rows(l, name, w.dtype, rows, cols, at, count, l->piece);
        load_copy(l, to + (size_t)at * row, l->piece, (size_t)count * row, RFG_HOST_TO_DEVICE);
    }
    return w;
}

struct weight load_weight_part(struct loader *l, const char *name, struct cut cut, int64_t rows, int64_t cols)
{
    if (ranks_of(&l->m->c) == 1)
        return load_weight(l, name, rows, cols);
    struct weight w = { l->arena.base ? l->arena.base + l->arena.used : NULL, NULL, l->m->dtype };
    load_more_part(l, name, cut, rows, cols);
    return w;
}

const char *load_name(struct loader *l, int64_t layer, const char *part)
{
    snprintf(l->name, sizeof(l->name), "model.layers.%lld.%s", (long long)layer, part);
    return l->name;
}
