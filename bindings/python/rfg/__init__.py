# SPDX-License-Identifier: MIT
"""rfg: GPU operators for LLM inference on PyTorch's and NumPy's tensors, with an autotuner.

    y = rfg.gemm(x, w)                          # x [M,K], w [N,K]
    print(rfg.explain(rfg.describe(rfg.gemm, x, w)))

rfg.torch (imported by itself) has custom operators for torch.compile and autograd, and enable(model).
docs/python.md of rfg's sources says more."""

from ._rfg import Error
from .context import Context, Stats, context, describe, explain, prepare, prepare_from_csv, stats, version
from .ops import (
    MoeRows,
    Quant,
    act,
    act_and_mul,
    add_layernorm,
    add_rmsnorm,
    advance,
    argmax,
    dequantize,
    embedding,
    gemm,
    gemm_prepack,
    grouped_gemm,
    kv_append,
    layernorm,
    merge_states,
    mha,
    mha_decode,
    moe,
    moe_align,
    moe_route,
    moe_sum,
    moe_workspace_bytes,
    new_quant,
    quantize,
    quantize_scale,
    rmsnorm,
    rope,
    rope_append,
    rope_table,
    sample,
)
from . import weights
from .tuning import tune
from .view import View, bf16, empty, f32, view

__all__ = [
    "Context",
    "Error",
    "MoeRows",
    "Quant",
    "Stats",
    "View",
    "act",
    "act_and_mul",
    "add_layernorm",
    "add_rmsnorm",
    "advance",
    "argmax",
    "bf16",
    "context",
    "describe",
    "dequantize",
    "embedding",
    "empty",
    "explain",
    "f32",
    "gemm",
    "gemm_prepack",
    "grouped_gemm",
    "kv_append",
    "layernorm",
    "merge_states",
    "mha",
    "mha_decode",
    "moe",
    "moe_align",
    "moe_route",
    "moe_sum",
    "moe_workspace_bytes",
    "new_quant",
    "prepare",
    "prepare_from_csv",
    "quantize",
    "quantize_scale",
    "rmsnorm",
    "rope",
    "rope_append",
    "rope_table",
    "sample",
    "stats",
    "tune",
    "version",
    "view",
    "weights",
]
