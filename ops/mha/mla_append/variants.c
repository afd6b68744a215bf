/* SPDX-License-Identifier: MIT
 *
 * The variants of mla_append. */
#include "append.h"

RFG_VARIANTS(mla_append, &mla_append_rows, &mla_append_cpu);
