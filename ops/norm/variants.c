/* SPDX-License-Identifier: MIT
 *
 * The variants of the norms, in order of preference where the model ties; the portable ones come last. */
#include "norm.h"

RFG_VARIANTS(rmsnorm, &rmsnorm_rows, &rmsnorm_portable, &rmsnorm_cpu_avx512, &rmsnorm_cpu_avx2, &rmsnorm_cpu_portable);
RFG_VARIANTS(add_rmsnorm, &add_rmsnorm_rows, &add_rmsnorm_portable, &add_rmsnorm_cpu_avx512, &add_rmsnorm_cpu_avx2,
             &add_rmsnorm_cpu_portable);
RFG_VARIANTS(layernorm, &layernorm_rows, &layernorm_portable, &layernorm_cpu_avx512, &layernorm_cpu_avx2,
             &layernorm_cpu_portable);
RFG_VARIANTS(add_layernorm, &add_layernorm_rows, &add_layernorm_portable, &add_layernorm_cpu_avx512,
             &add_layernorm_cpu_avx2, &add_layernorm_cpu_portable);
