/* SPDX-License-Identifier: MIT
 *
 * rfg_pack_fnuz(): e4m3 weights, and their scales, as e4m3fnuz hardware takes them. Once, at loading, so the host does
 * it, piece by piece: no kernel to compile for what is done once, and the same bits on every device. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ops/operand.h"
#include "rfg/device.h"
#include "rfg/gemm.h"

#define FN    "rfg_pack_fnuz"
#define PIECE (1 << 20) /* bytes on their way at a time */

/* A code of e4m3fnuz has its exponent's bias one higher than the same bits of e4m3: half the value. It has no -0, whose
 * bits are its only NaN. */
static void convert_codes(uint8_t *codes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        codes[i] = codes[i] == 0x80 ? 0 : (codes[i] & 0x7f) == 0x7f ? 0x80 : codes[i];
}

/* Twice the scale. */
static void double_scales(void *scales, size_t bytes, rfg_dtype dtype)
{
    if (dtype == RFG_F32)
        for (size_t i = 0; i < bytes / sizeof(float); i++)
            ((float *)scales)[i] *= 2;
    else /* an exponent; the largest has no successor but NaN */
        for (size_t i = 0; i < bytes; i++)
            ((uint8_t *)scales)[i] += ((uint8_t *)scales)[i] != 255;
}

static rfg_status check(struct rfg_operand *od, struct rfg_operand *os, const char *to, const char *from,
                        const rfg_tensor *dst, const rfg_tensor *src)
{
    rfg_status st;
    if ((st = rfg_check_operand(od, FN, to, dst, 1, 3)) || (st = rfg_check_operand(os, FN, from, src, 1, 3)))
        return st;
    if (od->rows != os->rows || od->cols != os->cols || od->inner != 1 || os->inner != 1)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT,
                        FN ": %s is %" PRId64 " x %" PRId64 ", %s %" PRId64 " x %" PRId64
                           ": must be of one size, rows at one distance",
                        to, od->rows, od->cols, from, os->rows, os->cols);
    bool same = od->begin == os->begin && od->end == os->end && od->ld == os->ld;
    return same ? RFG_OK : rfg_check_overlap(FN, od, os, false);
}

/* `elements` of them, one after the other. */
static rfg_status convert(rfg_context *ctx, void *piece, char *to, const char *from, size_t bytes, rfg_dtype dtype,
                          rfg_stream stream)
{
    rfg_status st = RFG_OK;
    for (size_t at = 0, n; at < bytes && st == RFG_OK; at += n) {
        n = bytes - at < PIECE ? bytes - at : PIECE;
        if ((st = rfg_device_copy(ctx, piece, from + at, n, RFG_DEVICE_TO_HOST, stream)) ||
            (st = rfg_stream_sync(ctx, stream)))
            return st;
        if (dtype == RFG_E4M3)
            convert_codes(piece, n);
        else
            double_scales(piece, n, dtype);
        if ((st = rfg_device_copy(ctx, to + at, piece, n, RFG_HOST_TO_DEVICE, stream)) == RFG_OK)
            st = rfg_stream_sync(ctx, stream); /* before the next piece comes to the same place */
    }
    return st;
}

static rfg_status convert_rows(rfg_context *ctx, void *piece, const struct rfg_operand *od,
                               const struct rfg_operand *os, rfg_stream stream)
{
    rfg_dtype dtype = os->t->dtype;
    size_t size = rfg_dtype_bytes(dtype, 1), row = (size_t)os->cols * size;
    bool whole = od->ld == od->cols && os->ld == os->cols;
    rfg_status st = RFG_OK;
    for (int64_t r = 0; r < (whole ? 1 : os->rows) && st == RFG_OK; r++)
        st = convert(ctx, piece, (char *)od->t->data + (size_t)(r * od->ld) * size,
                     (const char *)os->t->data + (size_t)(r * os->ld) * size, whole ? row * (size_t)os->rows : row,
                     dtype, stream);
    return st;
}

rfg_status rfg_pack_fnuz(rfg_context *ctx, const rfg_tensor *dst, const rfg_tensor *src, const rfg_tensor *dst_scale,
                         const rfg_tensor *src_scale, rfg_stream stream)
{
    struct rfg_operand od, os, ods, oss;
    rfg_status st;
    if (!ctx)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, FN ": ctx is NULL: must be a context");
    if ((st = check(&od, &os, "dst", "src", dst, src)) || (st = rfg_check_operand_dtype(&od, FN, RFG_E4M3FNUZ, "")) ||
        (st = rfg_check_operand_dtype(&os, FN, RFG_E4M3, "")))
        return st;
    if (!dst_scale != !src_scale)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, FN ": %s is NULL: must be given with %s",
                        dst_scale ? "src_scale" : "dst_scale", dst_scale ? "dst_scale" : "src_scale");
    if (src_scale) {
        if ((st = check(&ods, &oss, "dst_scale", "src_scale", dst_scale, src_scale)))
            return st;
        if ((src_scale->dtype != RFG_F32 && src_scale->dtype != RFG_E8M0) || dst_scale->dtype != src_scale->dtype)
            return rfg_fail(RFG_ERROR_INVALID_ARGUMENT,
                            FN ": src_scale is %s, dst_scale %s: must be f32 or e8m0, of one dtype",
                            rfg_dtype_name(src_scale->dtype), rfg_dtype_name(dst_scale->dtype));
        if ((st = rfg_check_overlap(FN, &od, &oss, false)) || (st = rfg_check_overlap(FN, &ods, &os, false)) ||
            (st = rfg_check_overlap(FN, &od, &ods, false)))
            return st;
    }
    void *piece = malloc(PIECE);
    if (!piece)
        return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, FN ": no memory for %d bytes", PIECE);
    st = convert_rows(ctx, piece, &od, &os, stream);
    if (st == RFG_OK && src_scale)
        st = convert_rows(ctx, piece, &ods, &oss, stream);
    free(piece);
    return st;
}
