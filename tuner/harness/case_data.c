/* SPDX-License-Identifier: MIT
 *
 * Fills a case's tensors from a seed. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "case.h"

#define FILL_ALONE (4 << 20) /* bytes of a tensor that one thread fills */
#define BLOCKS     64

struct fill {
    char *host;
    const struct place *place;
    const void *table;
    size_t size;
    bool blocks; /* of a format whose blocks hold their scales: the table has BLOCKS */
    uint64_t seed;
};

/* Each row has a seed of its own, so that any thread may fill it. */
static void fill_row(void *fill, int64_t r, void *scratch)
{
    const struct fill *f = fill;
    const struct place *p = f->place;
    int64_t cols = (int64_t)(p->seg / f->size);
    char *row = f->host + p->offset + (size_t)r * p->stride;
    uint64_t seed = f->seed ^ ((uint64_t)r + 1) * 0xd1b54a32d192ed03, bits = 0;
    (void)scratch;
    for (int64_t i = 0; i < cols; i++, bits >>= 16) {
        if (i % 4 == 0)
            bits = rfg_random(&seed);
        if (f->blocks)
            memcpy(row + (size_t)i * f->size, (const char *)f->table + (bits & (BLOCKS - 1)) * f->size, f->size);
        else if (f->size == 1)
            ((uint8_t *)row)[i] = ((const uint8_t *)f->table)[bits & 65535];
        else if (f->size == 2)
            ((uint16_t *)row)[i] = ((const uint16_t *)f->table)[bits & 65535];
        else
            ((uint32_t *)row)[i] = ((const uint32_t *)f->table)[bits & 65535];
    }
}

/* For RFG_DATA_EXACT: integers of a size that makes sums of so many products about 8000; halves in a vector. */
static double exact_value(const struct place *p, uint64_t *seed)
{
    int64_t reach = p->spec.ndim == 1 ? 255 : (int64_t)fmin(127, sqrt(24e3 / sqrt((double)p->cols + 1)));
    double v = (double)((int64_t)(rfg_random(seed) % (uint64_t)(2 * reach + 1)) - reach);
    return p->spec.ndim == 1 ? v / 2 : v;
}

static bool fill_random(struct rfg_case *c, const struct place *p, uint64_t *seed)
{
    /* Blocks are drawn from a table: filling is a load and a store, whatever the format. */
    const struct rfg_format *format = rfg_format((int)p->spec.dtype);
    size_t size = (size_t)format->bytes;
    bool blocks = format->kind == RFG_FORMAT_BLOCK; /* each is encoded as a whole */
    /* Numbers below 1: all of them are drawn. */
    bool few = format->kind == RFG_FORMAT_INT || (format->elements > 1 && !blocks);
    double values[RFG_FORMAT_MAX_ELEMENTS];
    char *table = malloc(65536 * size);
    if (!table)
        return false;
    for (int i = 0; i < (blocks ? BLOCKS : 65536) * format->elements; i++) {
        double v = (double)(int64_t)rfg_random(seed) * 0x1p-63 * (few ? rfg_largest(p->spec.dtype) + 1 : 1);
        if (c->params.data == RFG_DATA_INTS)
            v = (double)(rfg_random(seed) % 7) - 3;
        else if (c->params.data == RFG_DATA_CANCEL)
            v *= 64;
        else if (c->params.data == RFG_DATA_EXACT)
            v = exact_value(p, seed);
        if (p->spec.constant != 0)
            v = p->spec.constant;
        if (p->spec.dtype == RFG_I32 || p->spec.dtype == RFG_I64)
            v = p->spec.index_end ? (double)(rfg_random(seed) % (uint64_t)p->spec.index_end) : 0;
        values[i % format->elements] = v;
        if (!blocks)
            rfg_store(table, p->spec.dtype, i, v);
        else if ((i + 1) % format->elements == 0)
            format->encode(format, table + (size_t)(i / format->elements) * size, values);
    }
    struct fill f = {
        .host = c->host, .place = p, .table = table, .size = size, .blocks = blocks, .seed = rfg_random(seed)
    };
    bool filled = rfg_share_out(p->segs, (size_t)p->segs * p->seg >= FILL_ALONE, 0, fill_row, &f) == RFG_OK;
    free(table);
    return filled;
}

/* Neighbouring products cancel almost entirely, so that the result is far below its terms. */
static void make_cancelling(struct rfg_case *c, const struct place *p, bool negate)
{
    rfg_dtype d = p->spec.dtype;
    int64_t cols = rfg_format_elements((int)d, (int64_t)p->seg);
    for (int64_t r = 0; r < p->segs; r++) {
        char *row = c->host + p->offset + (size_t)r * p->stride;
        for (int64_t i = 1; i < cols; i += 2)
            if (i % 32 != 1)
                rfg_store(row, d, i, (negate ? -1 : 1) * rfg_load(row, d, i - 1));
    }
}

/* Special values: always a NaN and an infinity, then harmless ones, then all again. Each goes to its own part of the
 * tensor, so that none is overwritten. A tensor of one element gets any of them. */
static void sprinkle_special(struct rfg_case *c, const struct place *p, uint64_t *seed)
{
    double infinity = rfg_random(seed) % 2 ? INFINITY : -INFINITY, ulp = rfg_ulp(p->spec.dtype, 0);
    const double values[] = { NAN, infinity, -0.0, ulp, -3 * ulp, -infinity };
    int64_t cols = rfg_format_elements((int)p->spec.dtype, (int64_t)p->seg), n = p->segs * cols;
    int64_t places = 2 + (p->spec.few_special ? 0 : p->segs / 4); /* others stay finite and are checked as ever */
    places = places < 5 ? 5 : places;
    places = places > (n + 1) / 2 ? (n + 1) / 2 : places;
    uint64_t first = rfg_random(seed);
    for (int64_t i = 0; i < places; i++) {
        int64_t share = (int64_t)((first + (uint64_t)i) % (uint64_t)places), from = share * n / places;
        int64_t at = from + (int64_t)(rfg_random(seed) % (uint64_t)((share + 1) * n / places - from));
        rfg_store(c->host + p->offset + (size_t)(at / cols) * p->stride, p->spec.dtype, at % cols,
                  values[(n == 1 ? first >> 8 : (uint64_t)i) % 6]);
    }
}

/* NaN around inputs and between their rows, so that a read there shows. (Outputs have GUARD_BYTE.) */
static void surround(struct rfg_case *c, int input)
{
    const struct place *p = &c->place[input];
    for (int i = 0; i < c->n_tensors; i++)
        if (c->place[i].spec.same_as == input + 1)
            return;
    memset(c->host + p->offset - GUARD, POISON, p->extent + 2 * GUARD);
}

/* A value that no kernel writes by chance: NaN, or in formats without NaN the lowest number or one near it. */
static int poison_of(rfg_dtype dtype)
{
    return dtype == RFG_I32 || dtype == RFG_I64 || dtype == RFG_I8 || dtype == RFG_E4M3FNUZ ? 0x80 : POISON;
}

rfg_tensor rfg_case_tensor_at(const struct place *p, char *data)
{
    const struct rfg_tensor_spec *s = &p->spec;
    rfg_tensor t = { data, s->dtype, s->ndim, { 0 }, { 0 } };
    memcpy(t.shape, s->shape, sizeof(t.shape));
    t.strides[s->ndim - 1] = s->column_major ? s->shape[0] : 1;
    if (s->ndim == 3)
        t.strides[1] = s->shape[2];
    if (s->ndim > 1)
        t.strides[0] = s->column_major ? 1 : s->row_stride;
    return t;
}

bool rfg_case_make_data(struct rfg_case *c)
{
    uint64_t seed = c->params.seed ^ (uint64_t)c->rank * 0xa0761d6478bd642f, first = seed;
    memset(c->host, GUARD_BYTE, c->set_bytes);
    for (int i = 0; i < c->n_tensors; i++) {
        const struct place *p = &c->place[i];
        if (p->spec.absent)
            continue;
        if (p->spec.same_as)
            continue;
        if (p->spec.output) {
            for (int64_t r = 0; r < p->segs; r++)
                memset(c->host + p->offset + (size_t)r * p->stride, poison_of(p->spec.dtype), p->seg);
            continue;
        }
        surround(c, i);
        if (!fill_random(c, p, &seed))
            return false;
        bool numbers = p->spec.constant == 0 && p->spec.dtype != RFG_I32 && p->spec.dtype != RFG_I64 &&
                       rfg_format((int)p->spec.dtype)->kind != RFG_FORMAT_BLOCK;
        if (numbers && c->params.data == RFG_DATA_CANCEL)
            make_cancelling(c, p, i % 2 == 1);
        if (numbers && c->params.data == RFG_DATA_SPECIAL)
            sprinkle_special(c, p, &seed);
        if (c->of->fill) {
            rfg_tensor t = rfg_case_tensor_at(p, c->host + p->offset);
            uint64_t own = first ^ ((uint64_t)i + 1) * 0x9e3779b97f4a7c15;
            c->of->fill(&c->prob, i, &t, c->params.data, own);
        }
    }
    return true;
}
