/* SPDX-License-Identifier: MIT
 *
 * The variants of gemm (registry.def) and gemm_prepack, in order of preference where the model ties. */
#include "gemm.h"

extern const struct rfg_variant gemm_prepack_portable, gemm_prepack_cpu;
RFG_VARIANTS(gemm_prepack, &gemm_prepack_portable, &gemm_prepack_cpu);

static const struct rfg_variant *const variants[] = {
#define RFG_VARIANT(name, files) &name,
#include "registry.def"
};
const struct rfg_variants rfg_op_gemm_variants = { sizeof(variants) / sizeof(variants[0]), variants };
_Static_assert(sizeof(variants) / sizeof(variants[0]) <= RFG_MAX_VARIANTS, "rfg_choose()'s skip");
