/* SPDX-License-Identifier: MIT
 *
 * C entry points over vLLM's own kernels (csrc/ of its source distribution, Apache-2.0, not part of this tree),
 * launched as its functions launch them: bf16, rows packed and 16-byte aligned, d a multiple of 8. Its functions that
 * take torch's tensors are compiled along and dropped by the linker. Each returns a cudaError_t. Built by build.sh. */
#include "layernorm_kernels.cu"

#include "activation_kernels.cu"

using scalar = c10::BFloat16;
using packed = vllm::PackedTypeConverter<scalar>::Type;

#define PEER extern "C" __attribute__((visibility("default"))) int

/* residual += x; x = rmsnorm(residual) * w */
PEER peer_add_rmsnorm(void *x, void *residual, void *w, int64_t rows, int64_t d, float eps, int pdl, void *stream)
{
    (void)pdl;
    int most = rows < 256 ? 1024 : 256;
    vllm::fused_add_rms_norm_kernel<scalar, 8, true>
        <<<(unsigned)rows, std::min((int)d, most), 0, (cudaStream_t)stream>>>(
            (scalar *)x, d, (scalar *)residual, (const scalar *)w, eps, (int)rows, (int)d, d);
    return (int)cudaGetLastError();
}

/* y = rmsnorm(x) * w */
PEER peer_rmsnorm(void *y, void *x, void *w, int64_t rows, int64_t d, float eps, int pdl, void *stream)
{
    (void)pdl;
    int most = rows < 256 ? 1024 : 256;
    vllm::rms_norm_kernel<scalar, 8, 2, true><<<(unsigned)rows, std::min((int)d / 8, most), 0, (cudaStream_t)stream>>>(
        (scalar *)y, (const scalar *)x, d, 0, 0, 0, 0, (const scalar *)w, 0, eps, (int)rows, (int)d);
    return (int)cudaGetLastError();
}

PEER peer_silu_and_mul(void *y, void *x, int64_t rows, int64_t d, int pdl, void *stream)
{
    (void)pdl;
    vllm::act_and_mul_kernel<scalar, packed, vllm::silu_kernel<scalar>, vllm::packed_silu_kernel<packed>, true, true,
                             false, false><<<(unsigned)rows, std::min((int)d / 8, 1024), 0, (cudaStream_t)stream>>>(
        (scalar *)y, (const scalar *)x, (int)d, 0, 1, 0);
    return (int)cudaGetLastError();
}

PEER peer_gelu_tanh_and_mul(void *y, void *x, int64_t rows, int64_t d, int pdl, void *stream)
{
    (void)pdl;
    vllm::act_and_mul_kernel<scalar, packed, vllm::gelu_tanh_kernel<scalar>, vllm::packed_gelu_tanh_kernel<packed>,
                             true, true, false, false>
        <<<(unsigned)rows, std::min((int)d / 8, 1024), 0, (cudaStream_t)stream>>>((scalar *)y, (const scalar *)x,
                                                                                  (int)d, 0, 1, 0);
    return (int)cudaGetLastError();
}
