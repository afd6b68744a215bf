#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks rfg.weights, and rfg.gemm on blocks of fp8, on tensors that projects' own packers make of random layers:

  python tests/tools/packers.py DIRECTORY

DIRECTORY has the sdists of autoawq and gptqmodel, which are unpacked, not installed; compressed-tensors, torchao and transformers are imported, as are
torch and rfg. A layer is multiplied on cpu, as it is and prepacked, and compared with what the packer's own reader says that its tensors stand
for, in double precision. A packer that can't be imported is skipped (those of sdists need Python 3.11.4, or a tarfile with filters). Exit status 1 if a product is wrong."""
import glob
import importlib.metadata
import itertools
import os
import sys
import tarfile
import tempfile
import types

os.environ.setdefault("GPTQMODEL_DISABLE_PACK_EXT", "1")  # gptqmodel would compile its C++ for packing; 0 lets it

import rfg  # noqa: E402
import torch  # noqa: E402

N, K = 64, 512
counts = {"right": 0, "wrong": 0, "skipped": 0}


def installed(name):
    return "%s %s" % (name, importlib.metadata.version(name))


def source(folder, name, *bare):
    """Unpacks a project's sdist, of which modules can then be imported: without what the __init__.py of the packages `bare` would import."""
    archives = glob.glob(os.path.join(sys.argv[1], name + "-*.tar.gz"))
    if not archives:
        raise ImportError("no %s-*.tar.gz in %s" % (name, sys.argv[1]))
    if not hasattr(tarfile, "data_filter"):
        raise ImportError("Python %s can't unpack it safely: must be 3.11.4 or later" % sys.version.split()[0])
    tarfile.open(archives[0]).extractall(folder, filter="data")
    root = os.path.basename(archives[0])[:-len(".tar.gz")]
    for package in bare:
        sys.modules[package] = types.ModuleType(package)
        sys.modules[package].__path__ = [os.path.join(folder, root, *package.split("."))]
    return root.replace("-", " ")


def drawn(group, dtype=torch.float16, zeros=True):
    """A layer's weights, (q - z) s, of all codes and zero points from 0 to 15; z and s [N,K/group]."""
    q, z = torch.randint(0, 16, (N, K)), torch.randint(0, 16, (N, K // group)) if zeros else torch.full((N, K // group), 8)
    s = (torch.rand(N, K // group) * 0.09 + 0.01).to(dtype)
    return (q - z.repeat_interleave(group, 1)) * s.float().repeat_interleave(group, 1), z, s


def compare(what, ys, x, w):
    """Products with weights w, of fp32's sums of K terms."""
    x, w = x.double(), w.double()
    allowed = (w.shape[1]**0.5 + 4) * 2**-24 * (x.abs() @ w.abs().T)
    good = all(bool(((y - x @ w.T).abs() <= allowed).all()) for y in ys)
    counts["right" if good else "wrong"] += 1
    print("%s: %d x %d %s" % (what, *w.shape, "right" if good else "WRONG"))


def checked(what, weights, read, dtype, given=None):
    """weights: rfg.weights'; read: what the packer's reader makes of its tensors; given: what the packer was given, if it loses nothing of that."""
    assert given is None or torch.equal(read, given), what
    x = torch.randn(5, read.shape[1]).to(dtype)
    compare(what, [q.gemm(x, dtype="f32") for q in (weights, weights.prepack())], x, read)


def blocks_of_fp8(what, w, w_scale, read):
    x, x_scale = rfg.quantize(torch.randn(5, w.shape[1]), "e4m3", group_rows=1, group_cols=128)
    y = rfg.gemm(x, w, x_scale=x_scale, w_scale=w_scale, x_per="block", w_per="block", dtype="f32")
    compare(what + ", fp8 blocks of 128 x 128", [y], x.double() * x_scale.double().repeat_interleave(128, 1), read)


def compressed_tensors(_):
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.compressors.nvfp4.helpers import unpack_fp4_from_uint8
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme

    def packed(form, w, s, z=None, one=None, **args):
        """Its tensors, and what its reader makes of them (which rounds to its scales' dtype: f32)."""
        scheme, packer = QuantizationScheme(targets=["Linear"], weights=QuantizationArgs(**args)), BaseCompressor.get_value_from_registry(form)
        t = packer.compress({"weight": w, "weight_scale": s, "weight_zero_point": z, **({} if one is None else {"weight_global_scale": one})}, scheme)
        wide = t["weight_scale"] if t["weight_scale"].dtype == torch.uint8 else t["weight_scale"].float()
        return t, packer.decompress(dict(t, weight_scale=wide), scheme)["weight"]

    name = installed("compressed-tensors")
    for group, zeros in itertools.product((128, 32, K), (False, True)):
        w, z, s = drawn(group, torch.bfloat16, zeros)
        t, read = packed("pack-quantized", w, s, (z - 8).to(torch.int8), num_bits=4, symmetric=not zeros, strategy="group", group_size=group)
        q = rfg.weights.pack_quantized(t["weight_packed"], t["weight_scale"], t["weight_zero_point"] if zeros else None)
        checked("%s, int4 group %d%s" % (name, group, ", zero points" if zeros else ""), q, read, torch.bfloat16, w)
    s = torch.exp2(torch.randint(-9, 3, (N, K // 32)).float())
    t, read = packed("mxfp4-pack-quantized", torch.randn(N, K) * 3 * s.repeat_interleave(32, 1), s, num_bits=4, type="float", strategy="group",
                     group_size=32, scale_dtype=torch.uint8)
    checked(name + ", mxfp4", rfg.weights.mxfp4(t["weight_packed"].view(N, K // 32, 16), t["weight_scale"]), read, torch.bfloat16)
    w, one = torch.randn(N, K), torch.tensor([448 * 6 / 4.0])
    s = (one * w.view(N, -1, 16).abs().amax(2) / 6).to(torch.float8_e4m3fn).float()
    t, _ = packed("nvfp4-pack-quantized", w, s, one=one, num_bits=4, type="float", strategy="tensor_group", group_size=16,
                     scale_dtype=torch.float8_e4m3fn)
    read = unpack_fp4_from_uint8(t["weight_packed"], N, K, torch.float32) * (s.double() / one).repeat_interleave(16, 1)  # its reader rounds to bf16
    config = {"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized"}
    checked(name + ", nvfp4", rfg.weights.load(t, config), read, torch.bfloat16)
    for strategy, shape, size in (("tensor", (1,), None), ("channel", (N, 1), None), ("group", (N, K // 64), 64)):
        more = dict(num_bits=8, strategy=strategy, group_size=size)
        s = torch.rand(shape) * 0.01 + 0.01
        t, read = packed("float-quantized", torch.randn(N, K), s, type="float", **more)
        checked("%s, fp8 %s" % (name, strategy), rfg.weights.float_quantized(t["weight"], t["weight_scale"]), read, torch.bfloat16)
        t, read = packed("pack-quantized", torch.randn(N, K), s.expand(N, 1) if strategy == "tensor" else s, symmetric=True, **more)
        q = rfg.weights.pack_quantized(t["weight_packed"], t["weight_scale"], bits=8)
        checked("%s, w8a16 %s" % (name, strategy), q, read, torch.bfloat16)
    w = torch.randn(256, K)
    s = w.view(2, 128, -1, 128).abs().amax((1, 3)) / 448
    t, read = packed("float-quantized", w, s, num_bits=8, type="float", strategy="block", block_structure=[128, 128])
    blocks_of_fp8(name, t["weight"], t["weight_scale"], read)


def autoawq(folder):
    name = source(folder, "autoawq", "awq", "awq.modules", "awq.modules.linear")
    from awq.modules.linear.gemm import WQLinear_GEMM
    from awq.utils.packing_utils import dequantize_gemm

    for group in (128, 32, K):
        linear = torch.nn.Linear(K, N, bias=False)
        linear.weight.data, z, s = drawn(group)
        t = WQLinear_GEMM.from_linear(linear, 4, group, scales=s.T.float(), zeros=z.T)
        read = dequantize_gemm(t.qweight, t.qzeros, t.scales.float(), 4, group).T
        checked("%s, int4 group %d" % (name, group), rfg.weights.awq(t.qweight, t.qzeros, t.scales), read, torch.float16, linear.weight)


def gptqmodel(folder):
    name = source(folder, "gptqmodel", "gptqmodel", "gptqmodel.models")
    sys.modules["gptqmodel"].DEBUG_ON = False
    from gptqmodel.nn_modules.qlinear.torch import TorchLinear
    from gptqmodel.utils.model import convert_gptq_v2_to_v1_format_module

    for v1, group, order in itertools.product((True, False), (128, 32, K), ("g_idx", "no g_idx", "act-order")):
        linear, columns = torch.nn.Linear(K, N, bias=False), torch.randperm(K) if order == "act-order" else torch.arange(K)
        w, z, s = drawn(group)
        linear.weight.data = w[:, columns]
        t = TorchLinear(bits=4, group_size=group, sym=False, desc_act=order == "act-order", in_features=K, out_features=N).eval()
        t.pack(linear, s.float(), z, (columns // group).int())
        scales, t.scales = t.scales, t.scales.float()
        read = t.dequantize_weight().T
        if v1:
            convert_gptq_v2_to_v1_format_module(t, types.SimpleNamespace(bits=4, pack_dtype=torch.int32))
        q = rfg.weights.gptq(t.qweight, t.qzeros, scales, None if order == "no g_idx" else t.g_idx, v1=v1)
        checked("%s, int4 group %d, v%d, %s" % (name, group, 2 - v1, order), q, read, torch.float16, linear.weight)


def torchao(_):
    """gpt-oss's form: torchao packs, transformers' reader of gpt-oss says what that is."""
    from torchao.prototype.mx_formats.mx_tensor import ScaleCalculationMode, to_mx
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors

    what = "%s, mxfp4 (%%s; %s reads it)" % (installed("torchao"), installed("transformers"))
    for k, mode in ((K, "FLOOR"), (2880, "EVEN"), (K, "RCEIL")):
        w = torch.randn(N, k) * torch.exp2(torch.randint(-9, 3, (N, k // 32)).float()).repeat_interleave(32, 1)
        scales, data = to_mx(w, torch.float4_e2m1fn_x2, 32, ScaleCalculationMode[mode])
        blocks, scales = data.view(torch.uint8).view(N, k // 32, 16), scales.view(torch.uint8)
        read = convert_moe_packed_tensors(blocks[None], scales[None], dtype=torch.float32)[0].T
        checked(what % mode, rfg.weights.mxfp4(blocks, scales), read, torch.bfloat16)


def transformers(_):
    """DeepSeek's form."""
    from transformers import FineGrainedFP8Config
    from transformers.integrations.finegrained_fp8 import Fp8Dequantize, Fp8Quantize

    quantizer = types.SimpleNamespace(quantization_config=FineGrainedFP8Config(weight_block_size=(128, 128)))
    w, s = Fp8Quantize(quantizer).convert({"layer.weight": torch.randn(256, K) * 0.02}).values()
    blocks_of_fp8(installed("transformers"), w, s, Fp8Dequantize(quantizer)._dequantize_one(w, s, torch.float32))


@torch.no_grad()
def main():
    torch.manual_seed(1)
    with tempfile.TemporaryDirectory(prefix="rfg-packers-") as folder:
        for packer in (compressed_tensors, autoawq, gptqmodel, torchao, transformers):
            try:
                packer(folder)
            except ImportError as why:
                counts["skipped"] += 1
                print("SKIPPED: %s: %s" % (packer.__name__, why))
    print("%(right)d right, %(wrong)d wrong, %(skipped)d packers skipped" % counts)
    return 1 if counts["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main() if len(sys.argv) == 2 else __doc__)
