/* SPDX-License-Identifier: MIT
 *
 * The variants of rope, kv_append and rope_append, in order of preference where the model ties; the portable ones come
 * last. */
#include "rope.h"

RFG_VARIANTS(rope, &rope_rows, &rope_portable, &rope_cpu);
RFG_VARIANTS(kv_append, &kv_append_rows, &kv_append_portable, &kv_append_cpu);
RFG_VARIANTS(rope_append, &rope_append_rows, &rope_append_portable, &rope_append_cpu);
