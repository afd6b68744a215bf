/* SPDX-License-Identifier: MIT
 *
 * rfg_gemm_prepack: what it refuses, and the problem of a call. */
#include <inttypes.h>

#include "dispatch/dispatch.h"
#include "gemm.h"
#include "prepack_args.h"

#define FN       "rfg_gemm_prepack"
#define BAD(...) rfg_fail(RFG_ERROR_INVALID_ARGUMENT, FN ": " __VA_ARGS__)

/* A view as rfg_tensor_prepacked_groups() makes it, as rows and columns. */
static rfg_status groups_operand(struct rfg_operand *o, const rfg_tensor *t)
{
    const int64_t *s = t->shape;
    rfg_status st = rfg_check_operand(o, FN, "dst", t, 3, 3);
    if (st)
        return st;
    if (s[0] > RFG_MAX_SIZE / PREPACK_ROWS || s[2] != PREPACK_ROWS || (o->rows && (o->ld != o->cols || o->inner != 1)))
        return BAD("dst is %" PRId64 " x %" PRId64 " x %" PRId64
                   ": with 3 dimensions it must be [N/16, K/group, 16], packed (rfg_tensor_prepacked_groups())",
                   s[0], s[1], s[2]);
    o->rows = s[0] * PREPACK_ROWS;
    o->cols = s[1];
    return RFG_OK;
}

rfg_status rfg_gemm_prepack(rfg_context *ctx, const rfg_tensor *dst, const rfg_tensor *src, rfg_stream stream)
{
    struct rfg_operand od, os;
    struct rfg_reason why;
    rfg_status st;
    if (!ctx)
        return BAD("ctx is NULL: must be a context");
    if ((st = rfg_check_operand(&os, FN, "src", src, 2, 2)))
        return st;
    bool groups = dst && dst->ndim == 3;
    if ((st = groups ? groups_operand(&od, dst) : prepack_operand(&od, FN, "dst", dst)))
        return st;
    if (groups ? !prepack_groups_valid(os.rows, os.cols, (int)src->dtype, &why)
               : !prepack_valid(os.rows, os.cols, (int)src->dtype, &why))
        return BAD("src: %s", why.text);
    if (dst->dtype != src->dtype)
        return BAD("dst is %s, src %s: must be of one dtype", rfg_dtype_name(dst->dtype), rfg_dtype_name(src->dtype));
    struct rfg_problem prob = { .op = &rfg_op_gemm_prepack_desc,
                                .dtype = { (uint8_t)src->dtype, (uint8_t)dst->dtype } };
    prob.v[PREPACK_N] = os.rows;
    prob.v[PREPACK_K] = os.cols;
    prob.v[PREPACK_GROUPS] = groups;
    int64_t pad = ceil_div(os.cols, PREPACK_PAD_TO) * PREPACK_PAD_TO - os.cols;
    prob.v[PREPACK_PAD] = groups && od.cols == os.cols + pad ? pad : 0;
    if (od.rows != os.rows || od.cols != prepack_dst_cols(&prob))
        return BAD("dst is of %" PRId64 " x %" PRId64 ", src %" PRId64 " x %" PRId64 ": must be of one size, %s",
                   od.rows, od.cols, os.rows, os.cols,
                   groups ? "or dst padded to a multiple of 4 groups" : "K of 4 bits padded to a multiple of 128");
    if (os.rows == 0 || os.cols == 0)
        return RFG_OK;
    if (od.begin % 16 || (os.begin % 16 && !groups))
        return BAD("%s is at %p: must be a multiple of 16", od.begin % 16 ? "dst" : "src",
                   od.begin % 16 ? dst->data : src->data);
    if (os.bits % 16 && !groups)
        return BAD("src's rows are %zu bytes apart: must be a multiple of 16", rfg_dtype_bytes(src->dtype, os.ld));
    if ((st = rfg_check_overlap(FN, &od, &os, false)))
        return st;

    prob.v[PREPACK_LD] = os.ld == os.cols ? 0 : os.ld;
    struct prepack_args a = { .dst = dst->data, .src = src->data, .n = (int)os.rows, .k = (int)os.cols, .ld = os.ld };
    return rfg_dispatch(ctx, &prob, &a, stream);
}
