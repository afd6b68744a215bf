/* SPDX-License-Identifier: MIT
 *
 * The variants of gemm and gemm_prepack, in order of preference where the model ties; the portable ones come last. */
#include "gemm.h"

RFG_VARIANTS(gemm, &gemm_stream_mma, &gemm_thin_mma, &gemm_w4_mma, &gemm_wgmma, &gemm_tile_wgmma, &gemm_tile64_wgmma,
             &gemm_skinny_mma_asm, &gemm_skinny, &gemm_tile, &gemm_splitk_mma, &gemm_cublaslt, &gemm_hipblaslt,
             &gemm_rocblas, &gemm_portable, &gemm_cpu_avx512, &gemm_cpu_avx2, &gemm_cpu_portable);
RFG_VARIANTS(gemm_prepack, &gemm_prepack_portable, &gemm_prepack_cpu);
