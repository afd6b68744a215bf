/* SPDX-License-Identifier: MIT
 *
 * A C entry point over the XQA decode kernel that FlashInfer carries (not part of this tree), what its
 * trtllm_batch_decode_with_kv_cache() takes on sm_90. It is compiled for one page, one group of heads and one dtype of
 * the cache: peer_xqa_page(), peer_xqa_group() and peer_xqa_fp8() say which. D = 128, q and out bf16. Built by
 * build.sh. */
#include <cstdint>
#include <exception>

#include "mha.h"

#define PEER extern "C" __attribute__((visibility("default"))) int

PEER peer_xqa_page()
{
    return TOKENS_PER_PAGE;
}

PEER peer_xqa_group()
{
    return HEAD_GRP_SIZE;
}

PEER peer_xqa_fp8()
{
    return CACHE_ELEM_ENUM == 2;
}

/* k, v [blocks, page, hkv, 128]; table [batch, width]; lens [batch]; semaphores: 8 MiB, zeros at first; scratch: 120
 * MiB. q_scale: of the scores, beside 1 / sqrt(128) and kv_scale, which is of K and of V. Returns a cudaError_t. */
PEER peer_xqa_run(void *q, void *k, void *v, void *o, void *table, void *lens, int batch, int hkv, int width,
                  float q_scale, float kv_scale, void *semaphores, void *scratch, int sms, int pdl, void *stream)
{
    const uint64_t token = (uint64_t)hkv * 128, page = token * TOKENS_PER_PAGE;
#if CACHE_ELEM_ENUM == 2
    auto launch = launchHopperF8MHAFlashInfer;
#else
    auto launch = launchMHAFlashInfer;
#endif
    try {
        launch((uint32_t)sms, (uint32_t)hkv, 0, q_scale, nullptr, (OutputHead *)o, (InputHead const *)q, nullptr,
               (GMemCacheHead *)k, (GMemCacheHead *)v, (KVCachePageIndex const *)table,
               (uint32_t)(width * TOKENS_PER_PAGE), (uint32_t const *)lens, (uint32_t)batch, kv_scale, nullptr,
               (uint32_t *)semaphores, scratch, pdl != 0, page, token, 128, (cudaStream_t)stream);
    } catch (const std::exception &) {
        const cudaError_t e = cudaGetLastError();
        return (int)(e ? e : cudaErrorUnknown);
    }
    return (int)cudaGetLastError();
}
