/* SPDX-License-Identifier: MIT
 *
 * rfg_gemm_prepack: what it refuses, and the problem of a call. */
#include <inttypes.h>

#include "dispatch/dispatch.h"
#include "ops/tensors.h"
#include "gemm.h"
#include "prepack_args.h"

#define FN       "rfg_gemm_prepack"
#define BAD(...) rfg_fail(RFG_ERROR_INVALID_ARGUMENT, FN ": " __VA_ARGS__)

enum { SRC, DST, TENSORS };
enum { N = 1, COLS, GROUPS };
static const struct rfg_axis axes[] = {
    [N] = { "rows", 0, 0 },
    [COLS] = { "src's columns, of 4 bits padded to a multiple of 128", 0, 0 },
    [GROUPS] = { "src's columns, or up to 7 more", 0, 0 },
};
#define ANY ((1u << RFG_DTYPE_COUNT) - 2)
enum { OF_GROUPS = 1 };
static const struct rfg_tensor_rule of_src[] = { { "src", SRC, 0, 2, { N }, ANY } }, of_dst[] = {
    { "dst", DST, RFG_OUT, 2, { N, COLS }, 0, SRC + 1, .if_clear = OF_GROUPS },
    { "dst", DST, RFG_OUT, 2, { N, GROUPS }, 0, SRC + 1, .if_set = OF_GROUPS },
};

/* A view as rfg_tensor_prepacked_groups() makes it, as rows. */
static rfg_status groups_as_rows(rfg_tensor *rows, const rfg_tensor *t)
{
    const int64_t *s = t->shape;
    struct rfg_operand o;
    rfg_status st = rfg_check_operand(&o, FN, "dst", t, 3, 3);
    if (st)
        return st;
    if (s[0] > RFG_MAX_SIZE / PREPACK_ROWS || s[2] != PREPACK_ROWS || (o.rows && (o.ld != o.cols || o.inner != 1)))
        return BAD("dst is %" PRId64 " x %" PRId64 " x %" PRId64
                   ": with 3 dimensions it must be [N/16, K/group, 16], packed (rfg_tensor_prepacked_groups())",
                   s[0], s[1], s[2]);
    *rows = rfg_tensor_2d(t->data, t->dtype, s[0] * PREPACK_ROWS, s[1], s[1]);
    return RFG_OK;
}

/* Says in *prob how many columns dst has, of groups padded or not. */
static rfg_status check(struct rfg_tensors *t, rfg_tensor *rows, const rfg_tensor *dst, struct rfg_problem *prob)
{
    bool groups = dst && dst->ndim == 3;
    struct rfg_reason why;
    rfg_status st;
    if ((st = rfg_check_tensors(t, of_src, RFG_RULES(of_src))) ||
        (st = groups ? groups_as_rows(rows, dst) : prepack_rows(rows, FN, "dst", dst)))
        return st;
    t->o[DST].t = rows;
    const struct rfg_operand *src = &t->o[SRC];
    int64_t pad = groups ? rows->shape[1] - src->cols : 0;
    prob->dtype[0] = prob->dtype[1] = (uint8_t)src->t->dtype;
    prob->v[PREPACK_N] = src->rows;
    prob->v[PREPACK_K] = src->cols;
    prob->v[PREPACK_GROUPS] = groups;
    prob->v[PREPACK_PAD] = pad > 0 && pad <= PREPACK_MOST_PAD ? pad : 0;
    if (!prob->op->valid(prob, &why))
        return BAD("src: %s", why.text);
    prob->v[PREPACK_LD] = rfg_ld_key(src);
    t->facts = groups ? OF_GROUPS : 0;
    rfg_set_axis(t, groups ? GROUPS : COLS, prepack_dst_cols(prob));
    return rfg_check_tensors(t, of_dst, RFG_RULES(of_dst));
}

rfg_status rfg_gemm_prepack(rfg_context *ctx, const rfg_tensor *dst, const rfg_tensor *src, rfg_stream stream)
{
    struct rfg_problem prob = { .op = &rfg_op_gemm_prepack_desc };
    const rfg_tensor *const all[] = { src, dst };
    struct rfg_tensors t;
    rfg_tensor rows;
    rfg_status st;
    if (!ctx)
        return BAD("ctx is NULL: must be a context");
    rfg_tensors_begin(&t, FN, axes, all, TENSORS);
    if ((st = check(&t, &rows, dst, &prob)))
        return st;
    const struct rfg_operand *from = &t.o[SRC], *to = &t.o[DST];
    bool groups = prob.v[PREPACK_GROUPS];
    if (from->rows == 0 || from->cols == 0)
        return RFG_OK;
    if (to->begin % 16 || (from->begin % 16 && !groups))
        return BAD("%s is at %p: must be a multiple of 16", to->begin % 16 ? "dst" : "src",
                   to->begin % 16 ? dst->data : src->data);
    if (from->bits % 16 && !groups)
        return BAD("src's rows are %zu bytes apart: must be a multiple of 16", rfg_dtype_bytes(src->dtype, from->ld));
    if ((st = rfg_check_overlaps(&t)))
        return st;
    struct prepack_args a = {
        .dst = dst->data, .src = src->data, .n = (int)from->rows, .k = (int)from->cols, .ld = from->ld
    };
    return rfg_dispatch(ctx, &prob, &a, stream);
}
