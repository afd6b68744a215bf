/* SPDX-License-Identifier: MIT
 *
 * The variants of mla_gather. */
#include "gather.h"

RFG_VARIANTS(mla_gather, &mla_gather_rows, &mla_gather_cpu);
