# SPDX-License-Identifier: MIT
"""rfg in PyTorch: operators that torch.compile(fullgraph=True) takes, with a backward where there is one, and a switch that has a
model use them.

    y = rfg.torch.gemm(x, w)                # = torch.ops.rfg.gemm; the operators of rfg, tensors with any leading dimensions
    print(rfg.torch.enable(model))          # what was replaced, what not and why
    print(rfg.torch.compare(model, inputs)) # times and differences, with and without

All return new tensors. rfg's own functions (rfg.gemm(x, w, out=y)) cost less in eager mode and write into outputs."""

import torch as _torch

from .. import _captures, _switch
from . import autograd, custom
from .comparing import Comparison, compare
from .modules import Report, disable, enable

gemm = _torch.ops.rfg.gemm
gemm_batched = _torch.ops.rfg.gemm_batched
gemm_scaled = _torch.ops.rfg.gemm_scaled
gemm_prepack = _torch.ops.rfg.gemm_prepack
linears = _torch.ops.rfg.linears
gated_linear = _torch.ops.rfg.gated_linear
act = _torch.ops.rfg.act
act_and_mul = _torch.ops.rfg.act_and_mul
act_quant = _torch.ops.rfg.act_quant
act_and_mul_quant = _torch.ops.rfg.act_and_mul_quant
rmsnorm = _torch.ops.rfg.rmsnorm
rmsnorm_quant = _torch.ops.rfg.rmsnorm_quant
layernorm = _torch.ops.rfg.layernorm
add_rmsnorm = _torch.ops.rfg.add_rmsnorm
add_rmsnorm_quant = _torch.ops.rfg.add_rmsnorm_quant
add_layernorm = _torch.ops.rfg.add_layernorm
dequantize = _torch.ops.rfg.dequantize
quantize = _torch.ops.rfg.quantize
quantize_given = _torch.ops.rfg.quantize_given
quantize_scale = _torch.ops.rfg.quantize_scale
embedding = _torch.ops.rfg.embedding
mha = _torch.ops.rfg.mha
mha_lse = _torch.ops.rfg.mha_lse
mha_decode = _torch.ops.rfg.mha_decode
lora = _torch.ops.rfg.lora
mla_decode = _torch.ops.rfg.mla_decode
mla_decode_lse = _torch.ops.rfg.mla_decode_lse
merge_states = _torch.ops.rfg.merge_states
rope = _torch.ops.rfg.rope
kv_append = _torch.ops.rfg.kv_append
rope_append = _torch.ops.rfg.rope_append
advance = _torch.ops.rfg.advance
moe_route = _torch.ops.rfg.moe_route
moe_align = _torch.ops.rfg.moe_align
moe_sum = _torch.ops.rfg.moe_sum
moe = _torch.ops.rfg.moe
argmax = _torch.ops.rfg.argmax
sample = _torch.ops.rfg.sample

_switch.install()
_captures.install(_torch)
