/* SPDX-License-Identifier: MIT
 *
 * C entry points over FlashInfer's public CUDA headers (Apache-2.0, not part of this tree), so that norms_peers.py can
 * time its kernels without its Python package. Launches are as its own bindings make them, bf16 throughout; pdl: with
 * programmatic dependent launch, which is its default on sm_90. Each returns a cudaError_t. Built by build.sh. */
#include <algorithm>
#include <cstdint>

#include <flashinfer/activation.cuh>
#include <flashinfer/norm.cuh>

using bf16 = __nv_bfloat16;
using fp8 = __nv_fp8_e4m3;

static __device__ __forceinline__ float silu(const float &v)
{
    return v / (1.0f + __expf(-v));
}

static __device__ __forceinline__ float gelu_tanh(const float &v)
{
    return v * (0.5f * (1.0f + flashinfer::math::tanh(0.7978845608028654f * (v + 0.044715f * v * v * v))));
}

/* The widest vector that divides d, 256 threads at most: as its activation module does it. */
template <float (*ACT)(const float &)>
static cudaError_t act_and_mul(void *y, const void *x, int64_t rows, int d, int pdl, cudaStream_t stream)
{
    cudaLaunchConfig_t config = {};
    cudaLaunchAttribute attr[1];
    attr[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attr[0].val.programmaticStreamSerializationAllowed = pdl;
    config.gridDim = dim3((unsigned)rows);
    config.stream = stream;
    config.attrs = attr;
    config.numAttrs = 1;
    auto launch = [&](auto kernel, int vec) {
        config.blockDim = dim3(std::min<unsigned>((unsigned)(d / vec), 256));
        return cudaLaunchKernelEx(&config, kernel, (bf16 *)y, (const bf16 *)x, d);
    };
    if (d % 8 == 0)
        return launch(flashinfer::activation::act_and_mul_kernel<bf16, ACT, 8>, 8);
    if (d % 4 == 0)
        return launch(flashinfer::activation::act_and_mul_kernel<bf16, ACT, 4>, 4);
    if (d % 2 == 0)
        return launch(flashinfer::activation::act_and_mul_kernel<bf16, ACT, 2>, 2);
    return launch(flashinfer::activation::act_and_mul_kernel<bf16, ACT, 1>, 1);
}

#define PEER extern "C" __attribute__((visibility("default"))) int

/* y = rmsnorm(x) * w */
PEER peer_rmsnorm(void *y, void *x, void *w, int64_t rows, int64_t d, float eps, int pdl, void *stream)
{
    return (int)flashinfer::norm::RMSNorm<bf16>((bf16 *)x, (bf16 *)w, (bf16 *)y, (uint32_t)rows, (uint32_t)d,
                                                (uint32_t)d, (uint32_t)d, eps, pdl != 0, (cudaStream_t)stream);
}

/* residual += x; x = rmsnorm(residual) * w */
PEER peer_add_rmsnorm(void *x, void *residual, void *w, int64_t rows, int64_t d, float eps, int pdl, void *stream)
{
    return (int)flashinfer::norm::FusedAddRMSNorm<bf16>((bf16 *)x, (bf16 *)residual, (bf16 *)w, (uint32_t)rows,
                                                        (uint32_t)d, (uint32_t)d, (uint32_t)d, eps, pdl != 0,
                                                        (cudaStream_t)stream);
}

/* The same into q, e4m3, by one static scale: less work than a scale a token. */
PEER peer_add_rmsnorm_static_fp8(void *q, void *x, void *residual, void *w, void *scale, int64_t rows, int64_t d,
                                 float eps, int pdl, void *stream)
{
    return (int)flashinfer::norm::FusedAddRMSNormQuant<bf16, fp8>(
        (bf16 *)x, (bf16 *)residual, (bf16 *)w, (fp8 *)q, (uint32_t)rows, (uint32_t)d, (uint32_t)d, (uint32_t)d,
        (uint32_t)d, (float *)scale, eps, pdl != 0, (cudaStream_t)stream);
}

PEER peer_silu_and_mul(void *y, void *x, int64_t rows, int64_t d, int pdl, void *stream)
{
    return (int)act_and_mul<silu>(y, x, rows, (int)d, pdl, (cudaStream_t)stream);
}

PEER peer_gelu_tanh_and_mul(void *y, void *x, int64_t rows, int64_t d, int pdl, void *stream)
{
    return (int)act_and_mul<gelu_tanh>(y, x, rows, (int)d, pdl, (cudaStream_t)stream);
}
