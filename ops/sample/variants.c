/* SPDX-License-Identifier: MIT
 *
 * The variants of argmax and sample, in order of preference where the model ties; the portable ones come last. */
#include "argmax.h"
#include "sample.h"

RFG_VARIANTS(argmax, &argmax_cluster, &argmax_rows, &argmax_portable, &argmax_cpu);
RFG_VARIANTS(sample, &sample_split, &sample_rows, &sample_portable, &sample_cpu);
