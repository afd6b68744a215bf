/* SPDX-License-Identifier: MIT
 *
 * What calls that read the cache of latent attention share. */
#ifndef RFG_MLA_CALL_H
#define RFG_MLA_CALL_H

#include "mla.h"
#include "ops/tensors.h"

/* The rules of kv, by facts and axes that a call has under these names. like: slot + 1 of the tensor whose dtype kv may
 * have, too. */
/* clang-format off */
#define MLA_CACHE_RULES(like) \
    { "kv", KV, RFG_VIEW, 3, { B, PAGE, D }, RFG_8_BIT_FLOATS, like, .if_clear = PAGED | HEADED | FORMATTED }, \
    { "kv", KV, RFG_VIEW, 4, { B, PAGE, ONE_HEAD, D }, RFG_8_BIT_FLOATS, like, .if_set = HEADED, \
      .if_clear = PAGED | FORMATTED }, \
    { "kv", KV, RFG_VIEW, 3, { BLOCKS, PAGE, D }, RFG_8_BIT_FLOATS, like, .if_set = PAGED, \
      .if_clear = HEADED | FORMATTED }, \
    { "kv", KV, RFG_VIEW, 4, { BLOCKS, PAGE, ONE_HEAD, D }, RFG_8_BIT_FLOATS, like, .if_set = PAGED | HEADED, \
      .if_clear = FORMATTED }, \
    { "kv", KV, RFG_VIEW, 3, { B, PAGE, BYTES }, RFG_DTYPE(E4M3), .if_set = FORMATTED, .if_clear = PAGED | HEADED }, \
    { "kv", KV, RFG_VIEW, 4, { B, PAGE, ONE_HEAD, BYTES }, RFG_DTYPE(E4M3), .if_set = HEADED | FORMATTED, \
      .if_clear = PAGED }, \
    { "kv", KV, RFG_VIEW, 3, { BLOCKS, PAGE, BYTES }, RFG_DTYPE(E4M3), .if_set = PAGED | FORMATTED, \
      .if_clear = HEADED }, \
    { "kv", KV, RFG_VIEW, 4, { BLOCKS, PAGE, ONE_HEAD, BYTES }, RFG_DTYPE(E4M3), .if_set = PAGED | HEADED | FORMATTED }
/* clang-format on */

/* What a format asks of kv; tables, either of which may be NULL, and kv make at most 2^31 - 1 keys. Then all overlaps. */
rfg_status mla_check_cache(const struct rfg_tensors *t, const rfg_tensor *kv, rfg_mla_format format,
                           const rfg_tensor *block_table, const rfg_tensor *kv_indices);

#endif
