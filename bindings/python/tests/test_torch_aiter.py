# SPDX-License-Identifier: MIT
"""rfg.compat.aiter: the argument forms of AITER's functions, and their results against PyTorch."""

import inspect
import sys
import types

import pytest
import torch
import torch.nn.functional as F

import rfg
from rfg.compat import aiter

torch.manual_seed(4)
BF16 = torch.bfloat16

# The parameters of AITER's functions (aiter/ops/*.py, aiter/tuned_gemm.py, commit e4048607a5, 22 August 2026).
SIGNATURES = {
    "rms_norm": "input, weight, epsilon, use_model_sensitive_rmsnorm=0",
    "rmsnorm2d_fwd": "input, weight, epsilon, use_model_sensitive_rmsnorm=0",
    "rms_norm_cu": "out, input, weight, epsilon",
    "rmsnorm": "out, input, weight, epsilon, gemma_norm=False",
    "fused_add_rms_norm_cu": "input, residual_in, weight, epsilon",
    "rmsnorm2d_fwd_with_add": "out, input, residual_in, residual_out, weight, epsilon, gemma_norm=False, use_model_sensitive_rmsnorm=0",
    "add_rmsnorm": "out, input, residual_in, residual_out, weight, epsilon, gemma_norm=False",
    "rmsnorm2d_fwd_with_dynamicquant":
        "out, input, yscale, weight, epsilon, use_model_sensitive_rmsnorm=0, group_size=0, shuffle_scale=False",
    "rmsnorm2d_fwd_with_add_dynamicquant":
        "out, input, residual_in, residual_out, yscale, weight, epsilon, use_model_sensitive_rmsnorm=0, group_size=0, shuffle_scale=False",
    "layer_norm": "input, weight=None, bias=None, epsilon=1e-05, x_bias=None",
    "layernorm2d_fwd_with_add": "out, input, residual_in, residual_out, weight, bias, epsilon, x_bias=None",
    "silu_and_mul": "out, input, limit=0.0",
    "gelu_and_mul": "out, input",
    "gelu_tanh_and_mul": "out, input",
    "gelu_fast": "out, input",
    "scaled_silu_and_mul": "out, input, scale",
    "gemm_a8w8": "XQ, WQ, x_scale, w_scale, bias=None, dtype=torch.bfloat16, splitK=None",
    "gemm_a8w8_blockscale": "XQ, WQ, x_scale, w_scale, dtype=torch.bfloat16, isBpreshuffled=False",
    "gemm_a16w16": "A, B, bias=None, otype=None, scale_a=None, scale_b=None, scale_c=None",
    "paged_attention_v1":
        "out, workspace_buffer, query, key_cache, value_cache, scale, block_tables, cu_query_lens, context_lens, max_context_len, "
        "alibi_slopes, kv_cache_dtype, kv_cache_layout, logits_soft_cap, k_scale, v_scale, fp8_out_scale=None, partition_size=256, mtp=1, "
        "sliding_window=0",
    "paged_attention_rocm":
        "out, exp_sums, max_logits, tmp_out, query, key_cache, value_cache, num_kv_heads, scale, block_tables, context_lens, block_size, "
        "max_context_len, alibi_slopes, kv_cache_dtype, k_scale, v_scale, fp8_out_scale=None, partition_size=256, mtp=1, q_scale=None",
    "mla_decode_fwd":
        "q, kv_buffer, o, qo_indptr, kv_indptr, kv_indices, kv_last_page_lens, max_seqlen_q, page_size=1, nhead_kv=1, sm_scale=None, "
        "logit_cap=0.0, num_kv_splits=None, num_kv_splits_indptr=None, work_meta_data=None, work_indptr=None, work_info_set=None, "
        "reduce_indptr=None, reduce_final_map=None, reduce_partial_map=None, q_scale=None, kv_scale=None, intra_batch_mode=False, "
        "return_logits=False, return_lse=False, g_kv_indptr=None, cp_world_size=1, cp_rank=0, causal=True",
    "pa_fwd_asm":
        "Q, K, V, block_tables, context_lens, block_tables_stride0, max_qlen=1, K_QScale=None, V_QScale=None, out_=None, qo_indptr=None, "
        "high_precision=1, kernelName=None",
    "flash_attn_func":
        "q, k, v, dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1, 0), bias=None, alibi_slopes=None, "
        "deterministic=True, return_lse=False, return_attn_probs=False, how_v3_bf16_cvt=1, cu_seqlens_q=None, cu_seqlens_kv=None, "
        "sink_ptr=None, num_splits=0",
    "flash_attn_varlen_func":
        "q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, min_seqlen_q=0, dropout_p=0.0, softmax_scale=None, "
        "logits_soft_cap=0.0, causal=False, window_size=(-1, -1, 0), bias=None, alibi_slopes=None, deterministic=False, return_lse=False, "
        "return_attn_probs=False, how_v3_bf16_cvt=1, block_table=None, out=None, cu_seqlens_q_padded=None, cu_seqlens_k_padded=None, "
        "sink_ptr=None",
    "reshape_and_cache": "key, value, key_cache, value_cache, slot_mapping, kv_cache_dtype, k_scale=None, v_scale=None, asm_layout=False",
    "reshape_and_cache_flash": "key, value, key_cache, value_cache, slot_mapping, kv_cache_dtype, k_scale, v_scale",
    "rope_cached_positions_2c_fwd_inplace": "input_x, input_y, cos, sin, positions, rotate_style, reuse_freqs_front_part, nope_first",
    "rope_cached_positions_fwd_inplace": "input, cos, sin, positions, rotate_style, reuse_freqs_front_part, nope_first",
    "rope_cached_positions_2c_fwd":
        "input_x, input_y, cos, sin, positions, rotate_style, reuse_freqs_front_part, nope_first, transpose_output=False",
    "rope_cached_positions_fwd": "input, cos, sin, positions, rotate_style, reuse_freqs_front_part, nope_first, transpose_output=False",
    "rotary_embedding_fwd": "positions, query, key, head_size, cos_cache, sin_cache, is_neox, is_nope_first",
    "greedy_sample": "out, input",
}  # fmt: skip


def randn(*shape, dtype=BF16):
    return torch.randn(*shape, dtype=dtype)


def near(a, b, rel=1e-2):
    assert a.shape == b.shape
    assert (a.double() - b.double()).abs().max() <= rel * max(1, b.double().abs().max())


def test_signatures():
    assert set(aiter.NAMES) | {"rmsnorm2d_fwd", "layernorm2d_fwd", "fused_add_rms_norm"} >= set(SIGNATURES)
    assert set(aiter.NAMES) - set(SIGNATURES) <= {"layernorm2d_fwd", "fused_add_rms_norm"}
    for name, want in SIGNATURES.items():
        parameters = inspect.signature(getattr(aiter, name)).parameters.values()
        got = [p.name if p.default is p.empty else "%s=%s" % (p.name, p.default) for p in parameters]
        assert ", ".join(got) == want, name
    mm = list(inspect.signature(aiter.tgemm.mm).parameters)
    assert mm == ["inp", "weights", "bias", "otype", "scale_a", "scale_b", "scale_c"]


@pytest.mark.parametrize("shape", [(5, 96), (2, 3, 96)])
def test_norms(shape):
    x, r, w, b = randn(*shape), randn(*shape), randn(96), randn(96)
    want = F.rms_norm(x.float(), (96,), w.float(), 1e-5)
    near(aiter.rms_norm(x, w, 1e-5), want)
    near(aiter.rmsnorm2d_fwd(x, w, 1e-5, 0), want)
    out = torch.empty_like(x)
    aiter.rms_norm_cu(out, x, w, 1e-5)
    near(out, want)
    aiter.rmsnorm(out, x, w, 1e-5, True)
    near(out, F.rms_norm(x.float(), (96,), w.float() + 1, 1e-5))
    total = x + r
    added = F.rms_norm(total.float(), (96,), w.float(), 1e-5)
    for gemma, scale in ((False, added), (True, F.rms_norm(total.float(), (96,), w.float() + 1, 1e-5))):
        residual_out = torch.empty_like(r)
        aiter.rmsnorm2d_fwd_with_add(out, x, r, residual_out, w, 1e-5, gemma)
        near(residual_out, total)
        near(out, scale)
    x2, r2 = x.clone(), r.clone()
    aiter.fused_add_rms_norm_cu(x2, r2, w, 1e-5)
    near(x2, added)
    near(r2, total)
    near(aiter.layernorm2d_fwd(x, w, b), F.layer_norm(x.float(), (96,), w.float(), b.float(), 1e-5))
    aiter.layernorm2d_fwd_with_add(out, x, r, residual_out, w, b, 1e-5)
    near(out, F.layer_norm(total.float(), (96,), w.float(), b.float(), 1e-5))


@pytest.mark.parametrize("group", [0, 128])
@pytest.mark.parametrize("dtype", [torch.float8_e4m3fnuz, torch.int8])
def test_quantised_norms(group, dtype):
    x, r, w = randn(5, 256), randn(5, 256), randn(256)
    q, sums = torch.empty(5, 256, dtype=dtype), torch.empty(5, 256, dtype=BF16)
    scale = torch.empty(5, 2 if group else 1)
    aiter.rmsnorm2d_fwd_with_dynamicquant(q, x, scale, w, 1e-6, group_size=group)
    wide = scale.repeat_interleave(256 // scale.shape[1], 1)
    near(q.float() * wide, F.rms_norm(x.float(), (256,), w.float(), 1e-6), 0.07)
    aiter.rmsnorm2d_fwd_with_add_dynamicquant(q, x, r, sums, scale, w, 1e-6, group_size=group)
    wide = scale.repeat_interleave(256 // scale.shape[1], 1)
    near(sums, x + r)
    near(q.float() * wide, F.rms_norm((x + r).float(), (256,), w.float(), 1e-6), 0.07)


def test_activations():
    x = randn(2, 3, 128)
    a, b = x.float().chunk(2, -1)
    out = torch.empty(2, 3, 64, dtype=BF16)
    for function, want in ((aiter.silu_and_mul, F.silu(a)), (aiter.gelu_and_mul, F.gelu(a)), (aiter.gelu_tanh_and_mul, F.gelu(a, approximate="tanh"))):
        function(out, x)
        near(out, want * b)
    aiter.silu_and_mul(out, x, 0.75)
    near(out, F.silu(a.clamp(max=0.75)) * b.clamp(-0.75, 0.75))
    y = torch.empty_like(x)
    aiter.gelu_fast(y, x)
    near(y, F.gelu(x.float(), approximate="tanh"))
    q = torch.empty(2, 3, 64, dtype=torch.float8_e4m3fn)
    scale = torch.tensor(0.05)
    aiter.scaled_silu_and_mul(q, x, scale)
    near(q.float() * scale, F.silu(a) * b, 0.07)


def test_linear_layers():
    x, w, b = randn(2, 3, 64), randn(48, 64), randn(48)
    want = F.linear(x.float(), w.float(), b.float())
    near(aiter.gemm_a16w16(x, w, b), want)
    assert aiter.gemm_a16w16(x, w, b, torch.float32).dtype == torch.float32
    near(aiter.tgemm.mm(x, w, b, otype=torch.float32), want)
    shuffled = w.view(3, 16, 2, 4, 8).permute(0, 2, 3, 1, 4).contiguous().view(48, 64)
    shuffled.is_shuffled = True
    near(aiter.gemm_a16w16(x, shuffled), F.linear(x.float(), w.float()))


def test_linear_layers_of_codes():
    x, w = randn(2, 3, 256).to(torch.float8_e4m3fn), randn(160, 256).to(torch.float8_e4m3fn)
    xs, ws, bias = torch.rand(6, 1) + 0.5, torch.rand(1, 160) + 0.5, randn(160)
    want = (x.float() * xs.view(2, 3, 1)) @ (w.float() * ws.t()).t()
    near(aiter.gemm_a8w8(x, w, xs, ws), want)
    near(aiter.gemm_a8w8(x, w, xs, ws[:, :1], bias.float(), torch.float32, 2), (x.float() * xs.view(2, 3, 1)) @ w.float().t() * ws[0, 0] + bias, 1e-4)
    xb, wb = torch.rand(6, 2) + 0.5, torch.rand(2, 2) + 0.5
    rows = x.float() * xb.repeat_interleave(128, 1).view(2, 3, 256)
    blocks = w.float() * wb.repeat_interleave(128, 0)[:160].repeat_interleave(128, 1)
    near(aiter.gemm_a8w8_blockscale(x, w, xb, wb, torch.float32), rows @ blocks.t(), 1e-4)
    near(aiter.gemm_a8w8_blockscale(x, w, xb.t().contiguous().t(), wb), rows @ blocks.t())
    with pytest.raises(rfg.Error, match="gemm_a8w8_blockscale: isBpreshuffled"):
        aiter.gemm_a8w8_blockscale(x, w, xb, wb, isBpreshuffled=True)


def cache(kind, dtype=BF16, blocks=7, page=16, heads=2, d=64):
    """k and v [blocks,page,heads,d], and the same in another layout."""
    k, v = randn(blocks, page, heads, d).to(dtype), randn(blocks, page, heads, d).to(dtype)
    if kind == "HND":
        return k, v, k.transpose(1, 2).contiguous(), v.transpose(1, 2).contiguous()
    if kind == "older":
        x = 16 // k.element_size()
        return k, v, k.view(blocks, page, heads, d // x, x).permute(0, 2, 3, 1, 4).contiguous(), v.permute(0, 2, 3, 1).contiguous()
    return k, v, k, v


def attended(q, k, v, table, lens, scale, window=0, cap=0.0):
    """q [B,n,Hq,D], the last n of lens[b] tokens."""
    out = torch.empty_like(q, dtype=torch.float32)
    for b in range(q.shape[0]):
        keys, values = (t[table[b].long()].flatten(0, 1)[: lens[b]].float().repeat_interleave(q.shape[2] // t.shape[2], 1) for t in (k, v))
        s = torch.einsum("ihd,jhd->hij", q[b].float(), keys) * scale
        s = cap * torch.tanh(s / cap) if cap else s
        at = torch.arange(q.shape[1])[:, None] + int(lens[b]) - q.shape[1]
        j = torch.arange(int(lens[b]))
        s = s.masked_fill((j > at) | ((j <= at - window) if window else False), -torch.inf)
        out[b] = torch.einsum("hij,jhd->ihd", s.softmax(-1), values)
    return out


TABLE = torch.tensor([[4, 0, 6], [1, 5, 2]], dtype=torch.int32)
LENS = torch.tensor([37, 20], dtype=torch.int32)
ONE = torch.tensor(1.0)


@pytest.mark.parametrize("mtp", [1, 2])
@pytest.mark.parametrize("layout", ["NHD", "HND"])
def test_paged_attention_v1(layout, mtp):
    k, v, kl, vl = cache(layout)
    q = randn(2 * mtp, 4, 64)
    for window, cap in ((0, 0.0), (9, 0.0), (0, 5.0)):
        out = torch.empty_like(q)
        got = aiter.paged_attention_v1(
            out, None, q, kl, vl, 0.2, TABLE, None, LENS, 48, None, "auto", layout, cap, ONE, ONE, None, 256, mtp, window
        )
        near(out, attended(q.view(2, mtp, 4, 64), k, v, TABLE, LENS, 0.2, window, cap).view(q.shape), 2e-2)
        assert got is out


def test_paged_attention_of_8_bits():
    k, v, _, _ = cache("NHD", torch.float8_e4m3fn)
    q, out = randn(2, 4, 64), torch.empty(2, 4, 64, dtype=BF16)
    scales = torch.tensor(0.5), torch.tensor([2.0])
    aiter.paged_attention_v1(out, None, q, k, v, 0.2, TABLE, None, LENS, 48, None, "fp8", "NHD", 0.0, *scales)
    near(out, attended(q[:, None], k.float() * 0.5, v.float() * 2, TABLE, LENS, 0.2)[:, 0], 3e-2)


def test_paged_attention_in_the_older_form():
    k, v, kl, vl = cache("older")
    q, out = randn(2, 4, 64), torch.empty(2, 4, 64, dtype=BF16)
    want = attended(q[:, None], k, v, TABLE, LENS, 0.125)[:, 0]
    aiter.paged_attention_rocm(out, None, None, None, q, kl, vl, 2, 0.125, TABLE, LENS, 16, 48, None, "auto", ONE, ONE)
    near(out, want, 2e-2)
    near(aiter.pa_fwd_asm(q, kl, vl, TABLE, LENS, TABLE.stride(0)), want, 2e-2)
    assert aiter.pa_fwd_asm(q, kl, vl, TABLE, LENS, TABLE.stride(0), out_=out) is out


@pytest.mark.parametrize("page,queries,heads", [(1, 1, 12), (16, 1, 3), (16, 2, 16)])
def test_mla_decode(page, queries, heads):
    """Latent attention of two sequences: of 21 keys and of 9."""
    lens, pages = [21, 9], [-(-21 // page), -(-9 // page)]
    kv = randn(40 if page == 1 else 5, page, 1, 576)
    indices = torch.randperm(kv.shape[0])[: sum(pages)].to(torch.int32)
    indptr = torch.tensor([0, pages[0], sum(pages)], dtype=torch.int32)
    last = torch.tensor([(n - 1) % page + 1 for n in lens], dtype=torch.int32)
    q, out = randn(2 * queries, heads, 576), torch.empty(2 * queries, heads, 512, dtype=BF16)
    qo = torch.arange(3, dtype=torch.int32) * queries
    got, lse = aiter.mla_decode_fwd(q, kv, out, qo, indptr, indices, last, queries, page, 1, 0.07, return_lse=True)
    assert got is out and lse.shape == (2 * queries, heads)
    for b in range(2):
        keys = kv[indices[indptr[b] : indptr[b + 1]].long()].reshape(-1, 576)[: lens[b]].float()
        for i in range(queries):
            seen = keys[: lens[b] - queries + 1 + i]
            s = 0.07 * q[b * queries + i].float() @ seen.T
            near(out[b * queries + i], s.softmax(-1) @ seen[:, :512], 2e-2)
            near(lse[b * queries + i], s.logsumexp(-1))
    with pytest.raises(rfg.Error, match="3 rows for 2 sequences"):
        aiter.mla_decode_fwd(q[:3] if queries > 1 else randn(3, heads, 576), kv, out, qo, indptr, indices, last, queries, page)
    with pytest.raises(rfg.Error, match="page_size is 2"):
        aiter.mla_decode_fwd(q, kv, out, qo, indptr, indices, last, queries, 2)
    with pytest.raises(rfg.Error, match="cp_world_size: 2"):
        aiter.mla_decode_fwd(q, kv, out, qo, indptr, indices, last, queries, page, cp_world_size=2)


def test_flash_attention():
    q, k, v = randn(2, 5, 4, 64), randn(2, 9, 2, 64), randn(2, 9, 2, 64)
    wide = [t.float().transpose(1, 2) for t in (q, k.repeat_interleave(2, 2), v.repeat_interleave(2, 2))]
    mask = torch.ones(5, 9, dtype=torch.bool).tril(4)
    want = F.scaled_dot_product_attention(*wide, attn_mask=mask).transpose(1, 2)
    out, lse = aiter.flash_attn_func(q, k, v, causal=True, return_lse=True)
    near(out, want)
    scores = (wide[0] @ wide[1].transpose(2, 3) / 8).masked_fill(~mask, -torch.inf)
    near(lse, scores.logsumexp(-1))
    near(aiter.flash_attn_func(q, k, v), F.scaled_dot_product_attention(*wide).transpose(1, 2))

    cu_q, cu_k = torch.tensor([0, 2, 5], dtype=torch.int32), torch.tensor([0, 9, 13], dtype=torch.int32)
    q, k, v = randn(5, 4, 64), randn(13, 2, 64), randn(13, 2, 64)
    got = aiter.flash_attn_varlen_func(q, k, v, cu_q, cu_k, 3, 9, causal=True, window_size=(3, 0, 0), out=torch.empty_like(q))
    for b in range(2):
        rows, keys = slice(int(cu_q[b]), int(cu_q[b + 1])), slice(int(cu_k[b]), int(cu_k[b + 1]))
        n = keys.stop - keys.start
        one = torch.zeros(1, 1, dtype=torch.int32)
        near(got[rows], attended(q[None, rows], k[None, keys], v[None, keys], one, torch.tensor([n]), 0.125, 4)[0])
    k, v, _, _ = cache("NHD")
    cu_k = torch.tensor([0, 37, 57], dtype=torch.int32)
    cu_q = torch.tensor([0, 3, 6], dtype=torch.int32)
    q = randn(6, 4, 64)
    got = aiter.flash_attn_varlen_func(q, k, v, cu_q, cu_k, 3, 48, causal=True, block_table=TABLE)
    near(got, attended(q.view(2, 3, 4, 64), k, v, TABLE, LENS, 0.125).view(q.shape))


@pytest.mark.parametrize("older", [False, True])
def test_cache_writes(older):
    _, _, k, v = cache("older" if older else "NHD")
    key, value, slots = randn(3, 2, 64), randn(3, 2, 64), torch.tensor([5, -1, 33])
    before = k.clone()
    (aiter.reshape_and_cache if older else aiter.reshape_and_cache_flash)(key, value, k, v, slots, "auto", ONE, ONE)
    for t, slot in ((0, 5), (2, 33)):
        b, i = divmod(slot, 16)
        assert torch.equal(k[b, :, :, i].reshape(2, 64) if older else k[b, i], key[t])
        assert torch.equal(v[b, :, :, i] if older else v[b, i], value[t])
    assert int((k != before).sum()) <= 2 * 2 * 64


@pytest.mark.parametrize("style", [0, 1])
@pytest.mark.parametrize("halves_of_one", [True, False])
def test_rope(style, halves_of_one):
    angles = torch.arange(50)[:, None] * 10000 ** (-torch.arange(16) / 16)
    cos, sin = angles.cos(), angles.sin()
    if halves_of_one:
        cos, sin = torch.cat((cos, sin), -1).view(50, 1, 1, 32).chunk(2, -1)
    else:
        cos, sin = cos.view(50, 1, 1, 16), sin.view(50, 1, 1, 16)
    positions = torch.tensor([[3, 0, 49, 7]])
    x, y = randn(1, 4, 4, 64), randn(1, 4, 2, 64)

    def turned(t):
        t = t.float()
        c, s = cos.reshape(50, 16)[positions][:, :, None], sin.reshape(50, 16)[positions][:, :, None]
        head, rest = t[..., :32], t[..., 32:]
        a, b = (head[..., 0::2], head[..., 1::2]) if style else head.chunk(2, -1)
        pair = (a * c - b * s, b * c + a * s)
        return torch.cat((torch.stack(pair, -1).flatten(-2) if style else torch.cat(pair, -1), rest), -1)

    wants = turned(x), turned(y)
    got = aiter.rope_cached_positions_2c_fwd(x, y, cos, sin, positions, style, True, False)
    near(got[0], wants[0])
    near(got[1], wants[1])
    q, k = x.clone(), y.clone()
    aiter.rotary_embedding_fwd(positions, q.view(1, 4, 256), k.view(1, 4, 128), 64, cos, sin, style == 0, False)
    near(k, wants[1])
    # As SGLang and vLLM call it: views of the rotated part.
    assert aiter.rope_cached_positions_2c_fwd_inplace(x[..., :32], y[..., :32], cos, sin, positions, style, True, False) is None
    near(x, wants[0])
    near(y, wants[1])
    assert torch.equal(x[..., 32:].float(), wants[0][..., 32:])
    aiter.rope_cached_positions_fwd_inplace(x[..., :32], cos, sin, torch.zeros_like(positions), style, True, False)
    near(x, wants[0])
    near(aiter.rope_cached_positions_fwd(q, cos, sin, torch.zeros_like(positions), style, True, False), q)


def test_rope_sees_a_cache_that_was_changed():
    cos, sin, positions = torch.ones(4, 1, 1, 16), torch.zeros(4, 1, 1, 16), torch.tensor([[1]])
    x = randn(1, 1, 1, 32)
    near(aiter.rope_cached_positions_fwd(x, cos, sin, positions, 0, True, False), x)
    cos.neg_()
    near(aiter.rope_cached_positions_fwd(x, cos, sin, positions, 0, True, False), -x)


def test_greedy_sampling():
    x, out = randn(5, 300), torch.empty(5, dtype=torch.int32)
    aiter.greedy_sample(out, x)
    assert torch.equal(out.long(), x.argmax(-1))


def test_what_rfg_has_not():
    x, out = randn(2, 64), torch.empty(2, 32, dtype=BF16)
    with pytest.raises(rfg.Error, match="gemm_a16w16: scale_a: a tensor"):
        aiter.gemm_a16w16(x, x, scale_a=ONE)
    _, _, k, v = cache("older")
    q = randn(2, 4, 64)
    with pytest.raises(rfg.Error, match="pa_fwd_asm: V: has 5 dimensions"):
        aiter.pa_fwd_asm(q, k, k, TABLE, LENS, 3)
    with pytest.raises(rfg.Error, match="3 rows for 2 sequences of 1"):
        aiter.paged_attention_rocm(q, None, None, None, randn(3, 4, 64), k, v, 2, 0.1, TABLE, LENS, 16, 48, None, "auto", ONE, ONE)
    with pytest.raises(rfg.Error, match="key_cache: is torch.uint8: give it as the fp8 dtype"):
        aiter.reshape_and_cache(q, q, k.view(torch.uint8), v.view(torch.uint8), LENS, "fp8")
    with pytest.raises(rfg.Error, match="out: strides .* aren't rows"):
        aiter.rms_norm_cu(torch.empty(3, 2, 64, dtype=BF16).transpose(0, 1), randn(2, 3, 64), randn(64), 1e-6)
    with pytest.raises(rfg.Error, match="rotate_style: 2"):
        aiter.rope_cached_positions_fwd(randn(1, 1, 1, 32), randn(4, 16), randn(4, 16), torch.tensor([[1]]), 2, True, False)
    assert not hasattr(aiter, "fused_moe")


def test_installs_in_place_of_aiter():
    assert "aiter" not in sys.modules
    try:
        assert "rms_norm" in aiter.install()
        import aiter as found
        from aiter import rmsnorm2d_fwd

        assert found is aiter and rmsnorm2d_fwd is aiter.rmsnorm2d_fwd
    finally:
        aiter.uninstall()
    assert "aiter" not in sys.modules


def test_installs_in_an_aiter_that_is_there(monkeypatch):
    calls = []
    theirs, part = types.ModuleType("aiter"), types.ModuleType("aiter.ops.activation")
    theirs.silu_and_mul = part.silu_and_mul = lambda *args: calls.append("silu")
    theirs.fused_moe = lambda: calls.append("moe")
    monkeypatch.setitem(sys.modules, "aiter", theirs)
    monkeypatch.setitem(sys.modules, "aiter.ops.activation", part)
    original = theirs.silu_and_mul
    x, out = randn(2, 64), torch.empty(2, 32, dtype=BF16)
    try:
        assert aiter.install() == ["silu_and_mul"]
        part.silu_and_mul(out, x)
        near(out, F.silu(x[:, :32].float()) * x[:, 32:].float())
        assert calls == []
        theirs.silu_and_mul(out, x, 7.0)
        theirs.fused_moe()
        assert calls == ["silu", "moe"] and "limit: 7.0" in aiter.declined["silu_and_mul"]
    finally:
        aiter.uninstall()
    assert theirs.silu_and_mul is original and part.silu_and_mul is original
