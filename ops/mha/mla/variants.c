/* SPDX-License-Identifier: MIT
 *
 * The variants of mla_decode, in order of preference where the model ties; the portable ones come last. */
#include "mla.h"

RFG_VARIANTS(mla_decode, &mla_decode_wgmma_codes, &mla_decode_wgmma_few, &mla_decode_wgmma, &mla_decode_tile_mma,
             &mla_decode_portable, &mla_decode_cpu);
