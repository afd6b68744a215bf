/* SPDX-License-Identifier: MIT
 *
 * C entry points over FlashInfer's public CUDA headers (Apache-2.0, not part of this tree), so that mha_peers.py can
 * time its decode kernels without its Python package: a paged cache [blocks, page, Hkv, 128] with its kernels for CUDA
 * cores and for tensor cores, whose work its scheduler divides on the host ahead of time, and one contiguous sequence.
 * q and o are bf16 [B, Hq, 128], k and v bf16 or e4m3. Groups of 4 and 8 query heads a KV head; with tensor cores any
 * of at most 16 or of more than 64. Built by build.sh. */
#include <cstdint>
#include <exception>
#include <string>

#include <flashinfer/utils.cuh>

/* Of all that the headers' host code chooses from at run time, what is asked for here. */
#undef DISPATCH_GQA_GROUP_SIZE
#define DISPATCH_GQA_GROUP_SIZE(group, GROUP_SIZE, ...)                                                                \
    if ((group) == 4) {                                                                                                \
        constexpr size_t GROUP_SIZE = 4;                                                                               \
        __VA_ARGS__                                                                                                    \
    } else if ((group) == 8) {                                                                                         \
        constexpr size_t GROUP_SIZE = 8;                                                                               \
        __VA_ARGS__                                                                                                    \
    } else {                                                                                                           \
        throw std::runtime_error("CUDA cores: groups of 4 and 8 heads were built, not of " + std::to_string(group));   \
    }

#include <flashinfer/attention/decode.cuh>
#include <flashinfer/attention/default_decode_params.cuh>
#include <flashinfer/attention/default_prefill_params.cuh>
#include <flashinfer/attention/prefill.cuh>
#include <flashinfer/attention/scheduler.cuh>
#include <flashinfer/attention/variants.cuh>

using namespace flashinfer;
using bf16 = __nv_bfloat16;
using fp8 = __nv_fp8_e4m3;

static constexpr uint32_t D = 128;
static constexpr auto NO_ROPE = PosEncodingMode::kNone;
using Variant = DefaultAttention<false, false, false, false>;

#include "flashinfer_peer.h"

PEER const char *peer_mha_error()
{
    return last_error.c_str();
}

struct peer_plan {
    bool is_fp8 = false, tensor_cores = false;
    uint32_t batch = 0, hq = 0, hkv = 0, page = 0;
    DecodePlanInfo decode;
    PrefillPlanInfo prefill;
    void *floats = nullptr, *ints = nullptr, *pinned = nullptr;
    int32_t *q_begin = nullptr; /* of the device: 0, 1, ... batch */

    ~peer_plan()
    {
        cudaFree(floats);
        cudaFree(ints);
        cudaFreeHost(pinned);
        cudaFree(q_begin);
    }

    cudaError_t allocate(size_t float_bytes, size_t int_bytes)
    {
        cudaError_t e = cudaMalloc(&floats, float_bytes + 16);
        e = e ? e : cudaMalloc(&ints, int_bytes + 16);
        return e ? e : cudaMallocHost(&pinned, int_bytes + 16);
    }

    template <typename KV>
    cudaError_t plan_decode(int32_t *pages, cudaStream_t stream)
    {
        using Params = BatchDecodeParams<bf16, KV, bf16, int32_t>;
        cudaError_t e = cudaErrorInvalidValue;
        DISPATCH_GQA_GROUP_SIZE(hq / hkv, GROUP, {
            auto estimate = BatchDecodeWithPagedKVCacheWorkEstimationDispatched<GROUP, D, NO_ROPE, Variant, Params>;
            size_t f = 0, i = 0;
            e = DecodePlanWorkspaceSize<D, NO_ROPE, Variant, Params>(f, i, pages, batch, hq, page, false, stream,
                                                                     estimate);
            e = e ? e : allocate(f, i);
            e = e ? e
                  : DecodePlan<D, NO_ROPE, Variant, Params>(floats, f, ints, pinned, i, decode, pages, batch, hq, page,
                                                            false, stream, estimate);
        });
        return e;
    }

    cudaError_t plan_prefill(int32_t *pages, cudaStream_t stream)
    {
        std::vector<int32_t> rows(batch + 1);
        for (uint32_t b = 0; b <= batch; b++)
            rows[b] = (int32_t)b;
        size_t f = 0, i = 0;
        cudaError_t e = cudaMalloc(&q_begin, rows.size() * sizeof(int32_t));
        e = e ? e : cudaMemcpy(q_begin, rows.data(), rows.size() * sizeof(int32_t), cudaMemcpyHostToDevice);
        e = e ? e
              : PrefillPlanWorkspaceSize<int32_t>(f, i, rows.data(), pages, batch, batch, hq, hkv, D, D, page, false,
                                                  sizeof(bf16), -1, -1, false, 0, 0, stream, is_fp8 ? 1 : 2);
        e = e ? e : allocate(f, i);
        return e ? e
                 : PrefillPlan<int32_t>(floats, f, ints, pinned, i, prefill, rows.data(), pages, batch, batch, hq, hkv,
                                        D, D, page, false, sizeof(bf16), -1, -1, false, 0, 0, stream, is_fp8 ? 1 : 2);
    }

    template <typename KV>
    paged_kv_t<KV, int32_t> cache(void *k, void *v, int32_t *indices, int32_t *begin, int32_t *last) const
    {
        return paged_kv_t<KV, int32_t>(hkv, page, D, batch, QKVLayout::kNHD, (KV *)k, (KV *)v, indices, begin, last);
    }

    template <typename T>
    T *int_at(int64_t offset) const
    {
        return (T *)((char *)ints + offset);
    }

    template <typename KV>
    cudaError_t run_decode(void *q, const paged_kv_t<KV, int32_t> &kv, void *o, float scale, bool pdl,
                           cudaStream_t stream) const
    {
        BatchDecodeParams<bf16, KV, bf16, int32_t> p((bf16 *)q, nullptr, kv, (bf16 *)o, nullptr, nullptr, hq,
                                                     (int32_t)(hq * D), (int32_t)D, -1, 0, scale, 1, 1e4f);
        p.request_indices = int_at<int32_t>(decode.request_indices_offset);
        p.kv_tile_indices = int_at<int32_t>(decode.kv_tile_indices_offset);
        p.o_indptr = int_at<int32_t>(decode.o_indptr_offset);
        p.kv_chunk_size_ptr = int_at<int32_t>(decode.kv_chunk_size_ptr_offset);
        p.padded_batch_size = (uint32_t)decode.padded_batch_size;
        bf16 *tmp_v = decode.split_kv ? (bf16 *)((char *)floats + decode.v_offset) : nullptr;
        float *tmp_s = decode.split_kv ? (float *)((char *)floats + decode.s_offset) : nullptr;
        return BatchDecodeWithPagedKVCacheDispatched<D, NO_ROPE, Variant>(p, tmp_v, tmp_s, pdl, stream);
    }

    template <typename KV>
    cudaError_t run_prefill(void *q, const paged_kv_t<KV, int32_t> &kv, void *o, float scale, bool pdl,
                            cudaStream_t stream) const
    {
        using Params = BatchPrefillPagedParams<bf16, KV, bf16, int32_t>;
        Params p((bf16 *)q, kv, nullptr, q_begin, nullptr, nullptr, (bf16 *)o, nullptr, nullptr, hq, (int32_t)(hq * D),
                 (int32_t)D, -1, 0, scale, 1, 1e4f);
        p.request_indices = int_at<int32_t>(prefill.request_indices_offset);
        p.qo_tile_indices = int_at<int32_t>(prefill.qo_tile_indices_offset);
        p.kv_tile_indices = int_at<int32_t>(prefill.kv_tile_indices_offset);
        p.o_indptr = int_at<int32_t>(prefill.o_indptr_offset);
        p.kv_chunk_size_ptr = int_at<int32_t>(prefill.kv_chunk_size_ptr_offset);
        p.padded_batch_size = (uint32_t)prefill.padded_batch_size;
        p.max_total_num_rows = (uint32_t)prefill.total_num_rows;
        bf16 *tmp_v = nullptr;
        float *tmp_s = nullptr;
        if (prefill.split_kv) {
            p.merge_indptr = int_at<int32_t>(prefill.merge_indptr_offset);
            tmp_v = (bf16 *)((char *)floats + prefill.v_offset);
            tmp_s = (float *)((char *)floats + prefill.s_offset);
        }
        if (prefill.cta_tile_q == 16)
            return BatchPrefillWithPagedKVCacheDispatched<true, 16, D, D, NO_ROPE, false, MaskMode::kNone, Variant>(
                p, tmp_v, tmp_s, pdl, stream);
        if constexpr (sizeof(KV) == 2) {
            if (prefill.cta_tile_q == 128)
                return BatchPrefillWithPagedKVCacheDispatched<true, 128, D, D, NO_ROPE, false, MaskMode::kNone,
                                                              Variant>(p, tmp_v, tmp_s, pdl, stream);
        }
        throw std::runtime_error("tensor cores: no tiles of " + std::to_string(prefill.cta_tile_q) +
                                 " rows were built");
    }

    template <typename KV>
    cudaError_t run(void *q, void *k, void *v, void *o, int32_t *indices, int32_t *begin, int32_t *last, float scale,
                    bool pdl, cudaStream_t stream) const
    {
        auto kv = cache<KV>(k, v, indices, begin, last);
        return tensor_cores ? run_prefill<KV>(q, kv, o, scale, pdl, stream)
                            : run_decode<KV>(q, kv, o, scale, pdl, stream);
    }
};

/* pages: of the host, [batch + 1]: where each sequence's blocks begin in what peer_mha_run() takes as indices. The plan
 * is for exactly these lengths, without the padding that lengths changing between replays would need. */
PEER int peer_mha_open(void **plan, int is_fp8, int tensor_cores, int32_t *pages, int batch, int hq, int hkv, int page,
                       void *stream)
{
    *plan = nullptr;
    auto *p = new peer_plan;
    p->is_fp8 = is_fp8;
    p->tensor_cores = tensor_cores;
    p->batch = (uint32_t)batch;
    p->hq = (uint32_t)hq;
    p->hkv = (uint32_t)hkv;
    p->page = (uint32_t)page;
    int failed = guarded([&] {
        auto s = (cudaStream_t)stream;
        cudaError_t e = tensor_cores ? p->plan_prefill(pages, s)
                        : is_fp8     ? p->plan_decode<fp8>(pages, s)
                                     : p->plan_decode<bf16>(pages, s);
        return e ? e : cudaStreamSynchronize(s);
    });
    return given(plan, p, failed);
}

/* indices, begin [batch + 1] and last [batch] (keys in each sequence's last block): of the device. scale: of the
 * scores, k's included; v's is left to the caller. */
PEER int peer_mha_run(void *plan, void *q, void *k, void *v, void *o, int32_t *indices, int32_t *begin, int32_t *last,
                      float scale, int pdl, void *stream)
{
    auto *p = (peer_plan *)plan;
    return guarded([&] {
        auto s = (cudaStream_t)stream;
        return p->is_fp8 ? p->run<fp8>(q, k, v, o, indices, begin, last, scale, pdl != 0, s)
                         : p->run<bf16>(q, k, v, o, indices, begin, last, scale, pdl != 0, s);
    });
}

PEER void peer_mha_close(void *plan)
{
    delete (peer_plan *)plan;
}

/* k, v [length, Hkv, 128], bf16. workspace: 32 MiB, what its Python package gives it. */
PEER int peer_mha_single(void *q, void *k, void *v, void *o, void *workspace, int length, int hq, int hkv, float scale,
                         void *stream)
{
    return guarded([&] {
        SingleDecodeParams<bf16, bf16, bf16> p((bf16 *)q, (bf16 *)k, (bf16 *)v, (bf16 *)o, nullptr, (uint32_t)length,
                                               (uint32_t)hq, (uint32_t)hkv, QKVLayout::kNHD, D, -1, 0, scale, 1, 1e4f);
        return SingleDecodeWithKVCacheDispatched<D, NO_ROPE, Variant>(p, (bf16 *)workspace, (cudaStream_t)stream);
    });
}
