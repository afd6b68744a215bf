/* SPDX-License-Identifier: MIT
 *
 * The variants of mha and mha_decode, in order of preference where the model ties; the portable ones come last. */
#include "mha.h"

RFG_VARIANTS(mha, &mha_prefill_wgmma, &mha_prefill_mma, &mha_portable, &mha_cpu_avx512, &mha_cpu_avx2,
             &mha_cpu_portable);
RFG_VARIANTS(mha_decode, &mha_decode_stream_mma, &mha_decode_wgmma, &mha_decode_tile_mma, &mha_decode_portable,
             &mha_decode_cpu_avx512, &mha_decode_cpu_avx2, &mha_decode_cpu_portable);
