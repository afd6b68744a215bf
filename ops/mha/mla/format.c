/* SPDX-License-Identifier: MIT
 *
 * The formats of a row of the cache: rules that mla_append, mla_decode and mla_gather share; those of tables. */
#include <inttypes.h>

#include "mla_call.h"

const char *const mla_format_names[] = { "plain", "v32", "v4" };

bool mla_format_valid(int64_t format, int x, int kv, int64_t d, struct rfg_reason *why)
{
    if (format == MLA_PLAIN)
        return kv == x || (RFG_8_BIT_FLOATS >> kv & 1) ||
               rfg_refuse(why, "dtype of kv is %s: must be %s, or e4m3, e4m3fnuz or e5m2",
                          rfg_dtype_name((rfg_dtype)kv), rfg_dtype_name((rfg_dtype)x));
    const char *name = mla_format_names[format];
    if (x != RFG_BF16)
        return rfg_refuse(why, "format=%s: must be with bf16, not %s", name, rfg_dtype_name((rfg_dtype)x));
    if (kv != RFG_E4M3)
        return rfg_refuse(why, "format=%s: dtype of kv is %s: must be e4m3", name, rfg_dtype_name((rfg_dtype)kv));
    return d == MLA_CODES(format) + MLA_ROTATED ||
           rfg_refuse(why, "format=%s: D=%" PRId64 ": must be %d", name, d, MLA_CODES(format) + MLA_ROTATED);
}

rfg_status mla_check_format(const char *fn, rfg_mla_format format)
{
    if (format < RFG_MLA_PLAIN || format > RFG_MLA_V4)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s: format is %d: must be an rfg_mla_format, 0 to %d", fn,
                        (int)format, (int)RFG_MLA_V4);
    return RFG_OK;
}

rfg_status mla_check_rows(const char *fn, const rfg_tensor *kv, rfg_mla_format format)
{
    bool rows = kv->shape[1] > 1, blocks = kv->shape[0] > 1;
    if (format == RFG_MLA_PLAIN)
        return RFG_OK;
    if ((uintptr_t)kv->data % 16)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s: kv is at %p: with a format it must be a multiple of 16", fn,
                        kv->data);
    if (blocks && kv->strides[0] % 16)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT,
                        "%s: kv has a stride of %" PRId64 " between blocks: must be a multiple of 16", fn,
                        kv->strides[0]);
    if (rows && format == RFG_MLA_V4 && kv->strides[1] != MLA_KEY_BYTES(MLA_V4))
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT,
                        "%s: kv has a row stride of %" PRId64 ": must be %d, scales follow a block's rows", fn,
                        kv->strides[1], MLA_KEY_BYTES(MLA_V4));
    if (rows && format == RFG_MLA_V32 && kv->strides[1] % 16)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s: kv has a row stride of %" PRId64 ": must be a multiple of 16",
                        fn, kv->strides[1]);
    return RFG_OK;
}

static rfg_status check_table(const char *fn, const rfg_tensor *kv, const rfg_tensor *block_table,
                              const rfg_tensor *kv_indices)
{
    int64_t entries = block_table ? block_table->shape[1] : kv_indices ? kv_indices->shape[0] : 1, page = kv->shape[1];
    if (entries && page > RFG_MAX_SIZE / entries)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT,
                        "%s: %s has %" PRId64 " entries: times kv's page of %" PRId64 " must be at most %d", fn,
                        block_table ? "a row of block_table" : "kv_indices", entries, page, RFG_MAX_SIZE);
    if ((block_table || kv_indices) && page == 0)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s: kv has 0 rows of a block: must be a power of two", fn);
    return RFG_OK;
}

rfg_status mla_check_cache(const struct rfg_tensors *t, const rfg_tensor *kv, rfg_mla_format format,
                           const rfg_tensor *block_table, const rfg_tensor *kv_indices)
{
    rfg_status st = mla_check_rows(t->fn, kv, format);
    if (!st)
        st = check_table(t->fn, kv, block_table, kv_indices);
    return st ? st : rfg_check_overlaps(t);
}
