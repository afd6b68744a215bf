/* SPDX-License-Identifier: MIT
 *
 * C entry points over vLLM's kernels that choose experts in groups and sort tokens by expert (csrc/moe of its source
 * distribution, Apache-2.0, not part of this tree), launched as its functions launch them. Each returns a cudaError_t.
 * Built by build.sh. */
#include "moe/grouped_topk_kernels.cu"

#include "moe/moe_align_sum_kernels.cu"

#define PEER extern "C" __attribute__((visibility("default"))) int

/* DeepSeek V3's: f32 logits and bias, sigmoid, renormalised. */
PEER peer_grouped_topk(void *ids, void *weights, void *x, void *bias, int64_t tokens, int64_t experts, int64_t groups,
                       int64_t topk_groups, int64_t top, double scale, int pdl, void *stream)
{
    vllm::moe::invokeNoAuxTc<float, float, int32_t, vllm::moe::SCORING_SIGMOID>(
        (float *)x, (float *)weights, (int32_t *)ids, (const float *)bias, tokens, experts, groups, topk_groups, top,
        true, scale, pdl != 0, (cudaStream_t)stream);
    return (int)cudaGetLastError();
}

/* moe_align_block_size; sums: experts + 1 numbers between its two launches. */
PEER peer_align(void *rows, void *blocks, void *count, void *sums, void *ids, int64_t n, int64_t top, int64_t experts,
                int64_t block, int64_t most, void *stream)
{
    auto s = (cudaStream_t)stream;
    if (n < 1024 && experts <= 64) {
        const int threads = std::max((int)experts, 32), shared = (int)((threads + 1) * experts + experts + 1) * 4;
        vllm::moe::moe_align_block_size_small_batch_expert_kernel<int32_t, 256>
            <<<1, 256 + threads, shared, s>>>((int32_t *)ids, (int32_t *)rows, (int32_t *)blocks, (int32_t *)count,
                                              NULL, (int)experts, (int)block, n, (int)most, (int)top, false);
        return (int)cudaGetLastError();
    }
    const int padded = (int)(experts + 31) / 32 * 32;
    vllm::moe::moe_align_block_size_kernel<int32_t><<<2, 1024, padded * 4, s>>>(
        (int32_t *)ids, (int32_t *)rows, (int32_t *)blocks, (int32_t *)count, NULL, (int)experts, padded, 32,
        (int)block, n, (int32_t *)sums, (int)most, (int)top, false);
    vllm::moe::count_and_sort_expert_tokens_kernel<int32_t>
        <<<dim3(1, (unsigned)std::min<int64_t>((n + 255) / 256, 65535)), 256, 0, s>>>(
            (int32_t *)ids, (int32_t *)rows, (int32_t *)sums, NULL, n, (int)experts, (int)most, (int)top, false);
    return (int)cudaGetLastError();
}
