/* SPDX-License-Identifier: MIT
 *
 * C entry points over FlashInfer's public CUDA headers (Apache-2.0, not part of this tree), so that mla_peers.py can
 * time its latent attention without its Python package: the kernels fa2 and fa3, whose work its scheduler divides on
 * the host ahead of time. bf16, D=576 Dv=512, one query a sequence. Built by build.sh. */
#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include <flashinfer/utils.cuh>

#include <flashinfer/attention/mla.cuh>
#include <flashinfer/attention/mla_hopper.cuh>
#include <flashinfer/attention/mla_params.cuh>
#include <flashinfer/attention/scheduler.cuh>

using namespace flashinfer;
using bf16 = __nv_bfloat16;
using Params = MLAParams<bf16, bf16, bf16, int32_t>;

static constexpr uint32_t DV = 512, ROPE = 64, D = DV + ROPE;

#include "flashinfer_peer.h"

PEER const char *peer_mla_error()
{
    return last_error.c_str();
}

struct peer_plan {
    bool fa3 = false;
    uint32_t heads = 0, page = 0;
    MLAPlanInfo info;
    char *floats = nullptr, *ints = nullptr, *pinned = nullptr;

    ~peer_plan()
    {
        cudaFree(floats);
        cudaFree(ints);
        cudaFreeHost(pinned);
    }

    template <typename T>
    T *int_at(int64_t offset) const
    {
        return (T *)(ints + offset);
    }
};

static constexpr size_t FLOAT_BYTES = 128 << 20, INT_BYTES = 8 << 20; /* as its Python package takes them */

/* lens: of the host, keys of each sequence, whose blocks follow each other in what peer_mla_run() takes as indices. */
PEER int peer_mla_open(void **plan, int fa3, int32_t *lens, int batch, int heads, int page, void *stream)
{
    *plan = nullptr;
    auto *p = new peer_plan;
    p->fa3 = fa3 != 0;
    p->heads = (uint32_t)heads;
    p->page = (uint32_t)page;
    int failed = guarded([&] {
        auto s = (cudaStream_t)stream;
        std::vector<int32_t> rows(batch + 1), blocks(batch + 1);
        for (int b = 0; b < batch; b++) {
            rows[b + 1] = b + 1;
            blocks[b + 1] = blocks[b] + (lens[b] + page - 1) / page;
        }
        size_t staged = 0;
        cudaError_t e = cudaMalloc(&p->floats, FLOAT_BYTES);
        e = e ? e : cudaMalloc(&p->ints, INT_BYTES);
        e = e ? e : cudaMallocHost(&p->pinned, INT_BYTES);
        e = e ? e
              : MLAPlan<int32_t>(p->floats, FLOAT_BYTES, p->ints, p->pinned, INT_BYTES, p->info, staged, rows.data(),
                                 blocks.data(), lens, (uint32_t)batch, (uint32_t)heads, DV, false, s);
        e = e ? e : cudaMemcpyAsync(p->ints, p->pinned, staged, cudaMemcpyHostToDevice, s);
        return e ? e : cudaStreamSynchronize(s);
    });
    return given(plan, p, failed);
}

/* q [batch, heads, 576], kv [blocks, page, 576], o [batch, heads, 512]; indices: of the device. */
PEER int peer_mla_run(void *plan, void *q, void *kv, void *o, int32_t *indices, float scale, void *stream)
{
    auto *p = (peer_plan *)plan;
    return guarded([&] {
        const MLAPlanInfo &i = p->info;
        Params a{};
        a.q_nope = (bf16 *)q;
        a.q_pe = (bf16 *)q + DV;
        a.ckv = (bf16 *)kv;
        a.kpe = (bf16 *)kv + DV;
        a.q_indptr = p->int_at<int32_t>(i.q_indptr_offset);
        a.kv_indptr = p->int_at<int32_t>(i.kv_indptr_offset);
        a.partial_indptr = p->int_at<int32_t>(i.partial_indptr_offset);
        a.kv_indices = indices;
        a.q_len = p->int_at<int32_t>(i.q_len_offset);
        a.kv_len = p->int_at<int32_t>(i.kv_len_offset);
        a.q_start = p->int_at<int32_t>(i.q_start_offset);
        a.kv_start = p->int_at<int32_t>(i.kv_start_offset);
        a.kv_end = p->int_at<int32_t>(i.kv_end_offset);
        a.work_indptr = p->int_at<int32_t>(i.work_indptr_offset);
        a.merge_packed_offset_start = p->int_at<int32_t>(i.merge_packed_offset_start_offset);
        a.merge_packed_offset_end = p->int_at<int32_t>(i.merge_packed_offset_end_offset);
        a.merge_partial_packed_offset_start = p->int_at<int32_t>(i.merge_partial_packed_offset_start_offset);
        a.merge_partial_packed_offset_end = p->int_at<int32_t>(i.merge_partial_packed_offset_end_offset);
        a.merge_partial_stride = p->int_at<int32_t>(i.merge_partial_stride_offset);
        a.final_o = (bf16 *)o;
        a.partial_o = (bf16 *)(p->floats + i.partial_o_offset);
        a.partial_lse = (float *)(p->floats + i.partial_lse_offset);
        a.num_heads = uint_fastdiv(p->heads);
        a.block_size = uint_fastdiv(p->page);
        a.q_nope_stride_n = a.q_pe_stride_n = p->heads * D;
        a.q_nope_stride_h = a.q_pe_stride_h = D;
        a.ckv_stride_page = a.kpe_stride_page = p->page * D;
        a.ckv_stride_n = a.kpe_stride_n = D;
        a.o_stride_n = p->heads * DV;
        a.o_stride_h = DV;
        a.sm_scale = scale;
        auto s = (cudaStream_t)stream;
        auto x = (uint32_t)i.num_blks_x, y = (uint32_t)i.num_blks_y;
        return p->fa3 ? mla::BatchMLAPageAttentionHopper<MaskMode::kNone, DV, ROPE>(a, x, y, s)
                      : mla::BatchMLAPagedAttention<MaskMode::kNone, DV, ROPE>(a, x, y, s);
    });
}

PEER void peer_mla_close(void *plan)
{
    delete (peer_plan *)plan;
}
