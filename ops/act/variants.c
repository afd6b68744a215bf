/* SPDX-License-Identifier: MIT
 *
 * The variants of act_and_mul and act, in order of preference where the model ties; the portable ones come last. */
#include "act.h"

RFG_VARIANTS(act_and_mul, &act_and_mul_flat, &act_and_mul_rows, &act_and_mul_portable, &act_and_mul_cpu_avx512,
             &act_and_mul_cpu_avx2, &act_and_mul_cpu_portable);
RFG_VARIANTS(act, &act_flat, &act_rows, &act_portable, &act_cpu_avx512, &act_cpu_avx2, &act_cpu_portable);
