# SPDX-License-Identifier: MIT
"""vLLM's Triton kernel of a mixture of experts (fused_moe.py of its source distribution, Apache-2.0, not part of this
tree) for moe_peers.py: its kernel, its launch and its tables of configurations; sorting is its, too, where --vllm-lib is
given, else rfg's, as are quantisation, activation and sum."""

import glob
import importlib.util
import json
import os
import re
import sys
import types

import torch
import triton
import triton.language as tl

import moe_small
import race

FOLDER = os.path.join("vllm", "model_executor", "layers", "fused_moe")
DTYPES = {"bf16": None, "fp8": "fp8_w8a8"}
module = library = None


class Anything(type):
    """A stand-in for anything else of vLLM that the module imports: it does nothing."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return stand_in(name)


def stand_in(name):
    members = {"__init__": lambda self, *a, **k: None, "__getattr__": lambda self, n: lambda *a, **k: None}
    return Anything(name, (), members)


def load(folder):
    """fused_moe.py, with stand-ins for its imports."""
    path = os.path.join(folder, FOLDER, "fused_moe.py")
    with open_(path) as f:
        names = set(re.findall(r"^\s*(?:from|import) (vllm[\w.]*)", f.read(), re.M))
    for name in list(names):
        names.update(name.rsplit(".", i)[0] for i in range(1, name.count(".") + 1))
    for name in sorted(names):
        m = types.ModuleType(name)
        m.__path__ = []
        m.__getattr__ = lambda n: stand_in(n)
        sys.modules[name] = m
        if "." in name:
            setattr(sys.modules[name.rsplit(".", 1)[0]], name.rsplit(".", 1)[1], m)
    sys.modules["vllm.triton_utils"].tl, sys.modules["vllm.triton_utils"].triton = tl, triton
    envs = sys.modules["vllm.envs"]
    envs.VLLM_BATCH_INVARIANT, envs.VLLM_TUNED_CONFIG_FOLDER = False, None
    sys.modules["vllm.platforms"].current_platform = types.SimpleNamespace(
        get_device_name=lambda: torch.cuda.get_device_name() if race.DEV == "cuda" else "NVIDIA_H200",
        is_rocm=lambda: False,
        is_cuda=lambda: True,
    )
    spec = importlib.util.spec_from_file_location("vllm_fused_moe", path)
    out = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(out)
    for name in names:  # others ask whether there is a vLLM
        sys.modules.pop(name)
    return out


open_ = open


def open(args):
    global module, library
    if not args.vllm:
        raise ValueError("--vllm isn't given")
    module = load(args.vllm)
    library = moe_small.vllm_library(args) if args.vllm_lib else None


def configurations(w, tokens, most):
    """[(label, configuration)]: that of its table for this GPU; where it has none its default and what its tables of
    Hopper's GPUs and this format have for so many tokens: that of this shape, and the commonest of others."""
    block = [128, 128] if w.form == "fp8" else None
    name = module.get_config_file_name(w.experts, w.inner, DTYPES[w.form], block)
    folder = os.path.join(os.path.dirname(module.__file__), "configs")
    shape, device, *rest = re.fullmatch(r"(E=\d+,N=\d+),device_name=([^,.]*)(.*)", name).groups()
    found = {}
    for path in glob.glob(os.path.join(folder, "E=*,device_name=NVIDIA_H[12]00*%s" % glob.escape(rest[0]))):
        of, other, more = re.fullmatch(r"(E=\d+,N=\d+),device_name=([^,.]*)(.*)", os.path.basename(path)).groups()
        if more != rest[0]:
            continue
        with open_(path) as f:
            table = {int(k): v for k, v in json.load(f).items() if k != "triton_version"}
        one = table[min(table, key=lambda m: abs(m - tokens))]
        if (of, other) == (shape, device):
            return [("its table", one)]
        key = tuple(sorted(one.items()))
        found[key] = found.get(key, 0) + (1000 if of == shape else 1)
    ranked = sorted(found, key=lambda key: -found[key])[:most]
    default = module.get_default_config(tokens, w.experts, w.inner, w.hidden, w.top, DTYPES[w.form], block)
    return [("its default", default)] + [("another's", dict(key)) for key in ranked]


def contestant(bench, p, ctx, config):
    """The call of a set."""
    w, t, k, n = p.w, p.tokens, p.w.top, p.tokens * p.w.top
    e, block = w.experts, config["BLOCK_SIZE_M"]

    def new(dtype, *shape):
        return torch.empty(*shape, device=race.DEV, dtype=dtype)

    rows = (n + min(e, n) * (block - 1)) // block * block
    sorted_ids, blocks, count = new(torch.int32, rows), new(torch.int32, -(-rows // block)), new(torch.int32, 1)
    sums = new(torch.int32, e + 1)
    up, h, out = new(torch.bfloat16, t, k, 2 * w.inner), new(torch.bfloat16, n, w.inner), new(torch.bfloat16, t, k, w.hidden)
    places = torch.arange(n, device=race.DEV, dtype=torch.int32).view(t, k)
    few = n * 4 <= e  # one block a pair, without sorting
    if few:
        count.fill_(n * block)
    shared = dict(config=config, compute_type=tl.bfloat16, use_fp8_w8a8=w.form == "fp8", use_int8_w8a8=False, use_int8_w8a16=False,
                  use_int4_w4a16=False, per_channel_quant=False, block_shape=[128, 128] if w.form == "fp8" else None)  # fmt: skip
    if w.form == "fp8":
        xq, hq = new(torch.float8_e4m3fn, t, w.hidden), new(torch.float8_e4m3fn, n, w.inner)
        xs, hs = new(torch.float32, t, w.s1.shape[2]), new(torch.float32, n, w.s2.shape[2])

    def align(i):
        if library:
            to = [t.data_ptr() for t in (sorted_ids, blocks, count, sums, p.ids[i])]
            moe_small.checked(library.peer_align(*to, n, k, e, block, rows, bench.stream.cuda_stream))
        else:
            ctx.moe_align(sorted_ids, p.ids[i], format=1, block=block, experts=e, block_experts=blocks, count=count)()

    def call(i):
        if not few:
            align(i)
        to = (None, p.ids[i].view(-1), count) if few else (sorted_ids, blocks, count)
        x, x_scale, hx, h_scale = p.x[i], None, h, None
        if w.form == "fp8":
            ctx.quantize(xq, xs, p.x[i], group_rows=1, group_cols=128)()
            x, x_scale, hx, h_scale = xq, xs, hq, hs
        module.invoke_fused_moe_triton_kernel(x, w.w1, up, x_scale, w.s1, None, *to, False, k, **shared)
        ctx.act_and_mul(h, up.view(n, -1), "silu")()
        if w.form == "fp8":
            ctx.quantize(hq, hs, h, group_rows=1, group_cols=128)()
        module.invoke_fused_moe_triton_kernel(hx, w.w2, out, h_scale, w.s2, p.weights[i], *to, True, 1, **shared)
        ctx.moe_sum(p.y[i], out.view(n, -1), places)()

    return call


def calls(bench, p, ctx, args):
    if p.w.form not in DTYPES:
        return {}
    made = [("%s %s" % x, contestant(bench, p, ctx, x[1])) for x in configurations(p.w, p.tokens, args.vllm_configs)]
    won = made[0] if len(made) == 1 else bench.fastest("%s, vllm" % p.text, made, p.n_sets, p.n_calls, rounds=3)
    if not won:
        return {}
    if args.verbose:
        race.say("#   vllm: %s, of %d" % (won[0], len(made)))
    return {"vllm": won[1]}
