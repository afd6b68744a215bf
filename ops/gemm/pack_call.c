/* SPDX-License-Identifier: MIT
 *
 * Weights that are multiplied with the same activations, joined once: rfg_pack_qkv(), rfg_pack_gate_up(). Plain rows
 * are copied, prepacked ones are what rfg_gemm_prepack() makes of each part: blocks of 16 rows follow one another. */
#include <inttypes.h>

#include "ops/gates.h"
#include "ops/operand.h"
#include "gemm.h"
#include "prepack_layout.h"
#include "rfg/device.h"
#include "rfg/gemm.h"

enum { MOST_PARTS = 3 };

struct parts {
    const char *fn;
    int n;
    const char *names[MOST_PARTS];
    const rfg_tensor *t[MOST_PARTS];
    rfg_gates gates;
};

/* All that can be wrong, before anything is written. */
static rfg_status check(rfg_context *ctx, struct rfg_operand *dst, struct rfg_operand *src, const rfg_tensor *to,
                        const struct parts *p)
{
    int64_t rows = 0;
    rfg_status st;
    struct rfg_reason why;
    bool prepacked = to && to->ndim == 5;
    if (!ctx)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s: ctx is NULL: must be a context", p->fn);
    if ((st =
             prepacked ? prepack_operand(dst, p->fn, "dst", to) : rfg_check_float_operand(dst, p->fn, "dst", to, 2, 2)))
        return st;
    for (int i = 0; i < p->n; i++) {
        if ((st = rfg_check_float_operand(&src[i], p->fn, p->names[i], p->t[i], 2, 2)))
            return st;
        if (p->t[i]->dtype != to->dtype)
            return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s: dst is %s, %s %s: must be of one dtype", p->fn,
                            rfg_dtype_name(to->dtype), p->names[i], rfg_dtype_name(p->t[i]->dtype));
        if (src[i].cols != dst->cols)
            return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s: %s has %" PRId64 " columns: must have dst's %" PRId64,
                            p->fn, p->names[i], src[i].cols, dst->cols);
        if (prepacked && !prepack_valid(src[i].rows, src[i].cols, (int)to->dtype, &why))
            return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s: %s: %s", p->fn, p->names[i], why.text);
        if (prepacked && src[i].begin < src[i].end && (src[i].begin % 16 || src[i].bits % 16))
            return rfg_fail(RFG_ERROR_INVALID_ARGUMENT,
                            "%s: %s is at %p, rows of %" PRId64 " elements: both must be multiples of 16 bytes", p->fn,
                            p->names[i], p->t[i]->data, src[i].ld);
        if ((st = rfg_check_overlap(p->fn, dst, &src[i], false)))
            return st;
        rows += src[i].rows;
    }
    if (dst->rows != rows)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s: dst has %" PRId64 " rows: must have %" PRId64 ", as its parts",
                        p->fn, dst->rows, rows);
    if ((unsigned)p->gates > RFG_GATES_INTERLEAVED)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s: gates is %d: " RFG_GATES_RULE, p->fn, (int)p->gates);
    if (p->gates && src[0].rows != src[1].rows)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT,
                        "%s: %s has %" PRId64 " rows, %s %" PRId64 ": interleaved, they must have as many", p->fn,
                        p->names[0], src[0].rows, p->names[1], src[1].rows);
    if (p->gates && prepacked)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT,
                        "%s: gates is RFG_GATES_INTERLEAVED and dst prepacked: must be interleaved first, and then be "
                        "prepacked",
                        p->fn);
    if (prepacked && dst->begin % 16)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s: dst is at %p: must be a multiple of 16", p->fn, to->data);
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

static rfg_status pack(rfg_context *ctx, const rfg_tensor *to, const struct parts *p, rfg_stream stream)
{
    struct rfg_operand dst, src[MOST_PARTS];
    rfg_status st = check(ctx, &dst, src, to, p);
    int64_t first = 0;
    for (int i = 0; i < p->n && st == RFG_OK && dst.rows && dst.cols; i++) {
        if (src[i].rows == 0)
            continue;
        if (to->ndim == 5) {
            rfg_tensor part = rfg_tensor_prepacked((char *)to->data + (size_t)(first * dst.cols) * 2, to->dtype,
                                                   src[i].rows, dst.cols);
            st = rfg_gemm_prepack(ctx, &part, p->t[i], stream);
        } else if (p->gates) {
            st = copy_rows(ctx, &dst, i, p->n, &src[i], stream);
        } else {
            st = copy_rows(ctx, &dst, first, 1, &src[i], stream);
        }
        first += src[i].rows;
    }
    return st;
}

rfg_status rfg_pack_qkv(rfg_context *ctx, const rfg_tensor *dst, const rfg_tensor *q, const rfg_tensor *k,
                        const rfg_tensor *v, rfg_stream stream)
{
    const struct parts p = { .fn = "rfg_pack_qkv", .n = 3, .names = { "q", "k", "v" }, .t = { q, k, v } };
    return pack(ctx, dst, &p, stream);
}

rfg_status rfg_pack_gate_up(rfg_context *ctx, const rfg_tensor *dst, const rfg_tensor *gate, const rfg_tensor *up,
                            rfg_gates gates, rfg_stream stream)
{
    const struct parts p = {
        .fn = "rfg_pack_gate_up", .n = 2, .names = { "gate", "up" }, .t = { gate, up }, .gates = gates
    };
    return pack(ctx, dst, &p, stream);
}
