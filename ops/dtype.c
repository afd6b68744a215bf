/* SPDX-License-Identifier: MIT */
#include "rfg/core.h"

static const struct {
    const char *name;
    size_t size;
} dtypes[RFG_DTYPE_COUNT] = {
    [RFG_DTYPE_NONE] = { "none", 0 }, [RFG_F32] = { "f32", 4 },   [RFG_F16] = { "f16", 2 },
    [RFG_BF16] = { "bf16", 2 },       [RFG_E4M3] = { "e4m3", 1 }, [RFG_E4M3FNUZ] = { "e4m3fnuz", 1 },
    [RFG_E5M2] = { "e5m2", 1 },       [RFG_I8] = { "i8", 1 },     [RFG_I32] = { "i32", 4 },
};

const char *rfg_dtype_name(rfg_dtype dtype)
{
    return (unsigned)dtype < RFG_DTYPE_COUNT ? dtypes[dtype].name : "?";
}

size_t rfg_dtype_size(rfg_dtype dtype)
{
    return (unsigned)dtype < RFG_DTYPE_COUNT ? dtypes[dtype].size : 0;
}
