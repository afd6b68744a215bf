/* SPDX-License-Identifier: MIT */
#ifndef RFG_HARNESS_ORACLE_BLOCKS_H
#define RFG_HARNESS_ORACLE_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

#include "rfg/core.h"

/* From RFG_Q4_0 to RFG_NVFP4: elements and bytes of a block; element `index` of an array of blocks. */
static inline bool rfg_dtype_is_blocks(rfg_dtype dtype)
{
    return dtype >= RFG_Q4_0 && dtype <= RFG_NVFP4;
}
int rfg_block_elements(rfg_dtype dtype);
int rfg_block_bytes(rfg_dtype dtype);
double rfg_load_block(const void *base, rfg_dtype dtype, int64_t index);

#endif
