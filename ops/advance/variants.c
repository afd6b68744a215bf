/* SPDX-License-Identifier: MIT
 *
 * The variants of advance, in order of preference where the model ties; the portable ones come last. */
#include "advance.h"

RFG_VARIANTS(advance, &advance_group, &advance_cpu);
