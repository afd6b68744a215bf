/* SPDX-License-Identifier: MIT
 *
 * The variants of merge_states, in order of preference where the model ties; the portable ones come last. */
#include "merge.h"

RFG_VARIANTS(merge_states, &merge_states_rows, &merge_states_portable, &merge_states_cpu);
