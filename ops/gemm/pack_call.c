/* SPDX-License-Identifier: MIT
 *
 * Weights that are multiplied with the same activations, joined once: rfg_pack_qkv(), rfg_pack_gate_up(). Plain rows
 * are copied, prepacked ones are what rfg_gemm_prepack() makes of each part: blocks of 16 rows follow one another. */
#include <inttypes.h>

#include "ops/gates.h"
#include "ops/tensors.h"
#include "gemm.h"
#include "prepack_layout.h"
#include "rfg/device.h"
#include "rfg/gemm.h"

#define BAD(...) rfg_fail(RFG_ERROR_INVALID_ARGUMENT, __VA_ARGS__)

enum { DST, PART, MOST_PARTS = 3, TENSORS = PART + MOST_PARTS };
enum { ROWS = 1, COLS };
static const struct rfg_axis axes[] = {
    [ROWS] = { "the rows of its parts", 0, 0 },
    [COLS] = { "columns", 0, 0 },
};

/* dst last: its rows are those of all parts. */
static const struct rfg_tensor_rule of_dst[] = { { "dst", DST, RFG_OUT, 2, { ROWS, COLS }, 0, PART + 1 } },
                                    of_qkv[] = {
                                        { "q", PART, 0, 2, { 0, COLS }, RFG_FLOAT_FORMATS },
                                        { "k", PART + 1, 0, 2, { 0, COLS }, 0, PART + 1 },
                                        { "v", PART + 2, 0, 2, { 0, COLS }, 0, PART + 1 },
                                    },
                                    of_gate_up[] = {
                                        { "gate", PART, 0, 2, { 0, COLS }, RFG_FLOAT_FORMATS },
                                        { "up", PART + 1, 0, 2, { 0, COLS }, 0, PART + 1 },
                                    };

struct parts {
    const char *fn;
    int n;
    const struct rfg_tensor_rule *rules;
    const rfg_tensor *dst, *t[MOST_PARTS];
    rfg_gates gates;
};

static rfg_status check_gates(const struct parts *p, const struct rfg_operand *part, bool prepacked)
{
    if ((unsigned)p->gates > RFG_GATES_INTERLEAVED)
        return BAD("%s: gates is %d: " RFG_GATES_RULE, p->fn, (int)p->gates);
    if (p->gates && part[0].rows != part[1].rows)
        return BAD("%s: %s has %" PRId64 " rows, %s %" PRId64 ": interleaved, they must have as many", p->fn,
                   part[0].name, part[0].rows, part[1].name, part[1].rows);
    if (p->gates && prepacked)
        return BAD("%s: gates is RFG_GATES_INTERLEAVED and dst prepacked: must be interleaved first, and then be "
                   "prepacked",
                   p->fn);
    return RFG_OK;
}

static rfg_status check_prepacked(const struct parts *p, const struct rfg_operand *part)
{
    struct rfg_reason why;
    if (!prepack_valid(part->rows, part->cols, (int)part->t->dtype, &why))
        return BAD("%s: %s: %s", p->fn, part->name, why.text);
    if (part->begin < part->end && (part->begin % 16 || part->bits % 16))
        return BAD("%s: %s is at %p, rows of %" PRId64 " elements: both must be multiples of 16 bytes", p->fn,
                   part->name, part->t->data, part->ld);
    return RFG_OK;
}

/* All that can be wrong, before anything is written. rows: of a prepacked dst. */
static rfg_status check(rfg_context *ctx, struct rfg_tensors *t, rfg_tensor *rows, const struct parts *p)
{
    const rfg_tensor *const all[] = { p->dst, p->t[0], p->t[1], p->t[2] };
    bool prepacked = p->dst && p->dst->ndim == 5;
    int64_t sum = 0;
    rfg_status st;
    if (!ctx)
        return BAD("%s: ctx is NULL: must be a context", p->fn);
    rfg_tensors_begin(t, p->fn, axes, all, TENSORS);
    if ((st = rfg_check_tensors(t, p->rules, p->n)) || (st = check_gates(p, &t->o[PART], prepacked)))
        return st;
    for (int i = 0; i < p->n; i++) {
        if (prepacked && (st = check_prepacked(p, &t->o[PART + i])))
            return st;
        sum += t->o[PART + i].rows;
    }
    if (prepacked) {
        if ((st = prepack_rows(rows, p->fn, "dst", p->dst)))
            return st;
        t->o[DST].t = rows;
    }
    rfg_set_axis(t, ROWS, sum);
    if ((st = rfg_check_tensors(t, of_dst, RFG_RULES(of_dst))) || (st = rfg_check_overlaps(t)))
        return st;
    if (prepacked && t->o[DST].begin % 16)
        return BAD("%s: dst is at %p: must be a multiple of 16", p->fn, p->dst->data);
    return RFG_OK;
}

/* Rows of src to every `step`-th row of dst from `first` on; at once where they follow one another on both sides. */
static rfg_status copy_rows(rfg_context *ctx, const struct rfg_operand *dst, int64_t first, int64_t step,
                            const struct rfg_operand *src, rfg_stream stream)
{
    size_t row = rfg_dtype_bytes(dst->t->dtype, src->cols), size = rfg_dtype_bytes(dst->t->dtype, 1);
    bool whole = step == 1 && dst->ld == src->cols && src->ld == src->cols;
    int64_t copies = whole ? 1 : src->rows;
    rfg_status st = RFG_OK;
    for (int64_t i = 0; i < copies && st == RFG_OK; i++)
        st = rfg_device_copy(ctx, (char *)dst->t->data + (size_t)((first + i * step) * dst->ld) * size,
                             (const char *)src->t->data + (size_t)(i * src->ld) * size,
                             whole ? row * (size_t)src->rows : row, RFG_DEVICE_TO_DEVICE, stream);
    return st;
}

static rfg_status pack(rfg_context *ctx, const struct parts *p, rfg_stream stream)
{
    struct rfg_tensors t;
    rfg_tensor rows;
    rfg_status st = check(ctx, &t, &rows, p);
    const struct rfg_operand *dst = &t.o[DST], *src = &t.o[PART];
    int64_t first = 0;
    for (int i = 0; i < p->n && st == RFG_OK && dst->rows && dst->cols; i++) {
        if (src[i].rows == 0)
            continue;
        if (p->dst->ndim == 5) {
            rfg_tensor part = rfg_tensor_prepacked((char *)p->dst->data + (size_t)(first * dst->cols) * 2,
                                                   p->dst->dtype, src[i].rows, dst->cols);
            st = rfg_gemm_prepack(ctx, &part, p->t[i], stream);
        } else if (p->gates) {
            st = copy_rows(ctx, dst, i, p->n, &src[i], stream);
        } else {
            st = copy_rows(ctx, dst, first, 1, &src[i], stream);
        }
        first += src[i].rows;
    }
    return st;
}

rfg_status rfg_pack_qkv(rfg_context *ctx, const rfg_tensor *dst, const rfg_tensor *q, const rfg_tensor *k,
                        const rfg_tensor *v, rfg_stream stream)
{
    const struct parts p = {
        .fn = "rfg_pack_qkv", .n = RFG_RULES(of_qkv), .rules = of_qkv, .dst = dst, .t = { q, k, v }
    };
    return pack(ctx, &p, stream);
}

rfg_status rfg_pack_gate_up(rfg_context *ctx, const rfg_tensor *dst, const rfg_tensor *gate, const rfg_tensor *up,
                            rfg_gates gates, rfg_stream stream)
{
    const struct parts p = { .fn = "rfg_pack_gate_up",
                             .n = RFG_RULES(of_gate_up),
                             .rules = of_gate_up,
                             .dst = dst,
                             .t = { gate, up },
                             .gates = gates };
    return pack(ctx, &p, stream);
}
