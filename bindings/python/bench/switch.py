#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The gain of rfg.torch.enable() in a model of transformers: time per output token (TPOT) of greedy decoding with a static cache, by
several ways of running the same model, random weights. On a GPU, Llama-3-8B's sizes:

  PYTHONPATH=build/bindings/python RFG_LIBRARY=$PWD/build/librfg.so python3 bindings/python/bench/switch.py --batch 1 8

and anywhere, a small model on cpu:  ... switch.py --device cpu --size tiny --context 24 --cache 64 --tokens 8 --ways eager,rfg

A way is eager, or words joined by +: rfg (enable()), compiled (torch.compile), autotuned (the same with max-autotune), captured (a
graph of one token's work, replayed), overlap (RFG_LAUNCH_OVERLAP=1). Each way has a process of its own (--one), so that none sees another's
memory or settings.

Before it is timed each way is fed the same tokens after the same context. `difference` is the rms of its logits' difference to those
of the first way (name eager first), over their rms; `same` how many of its likeliest tokens are those. It may be 4 2^-9 sqrt(8 layers),
about eight roundings a layer to bf16. Exit: 0; 1 a way failed or differs by more; 2 bad usage."""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time

SIZES = {
    "8b": dict(hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8, head_dim=128,
               vocab_size=128256),
    "1b": dict(hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32, num_key_value_heads=8, head_dim=64,
               vocab_size=128256),
    "tiny": dict(hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=64,
                 vocab_size=512),
}  # fmt: skip
WAYS = "eager,captured,compiled+captured,autotuned+captured,rfg,rfg+captured,rfg+overlap+captured,rfg+compiled+captured"
PARTS = {"eager", "rfg", "overlap", "compiled", "autotuned", "captured"}
FED = 8  # tokens by which ways are compared


def build(args):
    import torch
    import transformers

    config = getattr(transformers, args.family + "Config")(**SIZES[args.size], max_position_embeddings=max(8192, args.cache), pad_token_id=0,
                                                         rope_parameters={"rope_type": "default", "rope_theta": 500000.0})  # fmt: skip
    torch.manual_seed(1)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device(args.device):
        model = getattr(transformers, args.family + "ForCausalLM")(config)
    torch.set_default_dtype(torch.float32)
    return model.eval()


class Decoder:
    """A model, its cache after the context, and one token's step on tensors that stay where they are, so that it can be captured."""

    def __init__(self, model, batch, args):
        import torch
        from transformers import StaticCache

        self.torch, self.model, self.args = torch, model, args
        generator = torch.Generator().manual_seed(2)
        prompt = torch.randint(1, model.config.vocab_size, (batch, args.context), generator=generator).to(args.device)
        self.cache = StaticCache(config=model.config, max_cache_len=args.cache)
        logits = model(prompt, past_key_values=self.cache, logits_to_keep=1).logits
        self.first = logits[:, -1].argmax(-1, keepdim=True)
        self.ids, self.logits = self.first.clone(), torch.empty_like(logits[:, -1])
        self.run = model

    def reset(self):
        """As it was after the context."""
        for layer in self.cache.layers:
            layer.cumulative_length.fill_(self.args.context)
        self.ids.copy_(self.first)

    def fed(self, step):
        """The logits [FED,B,V] of tokens that don't depend on what was computed."""
        generator = self.torch.Generator().manual_seed(3)
        ids = self.torch.randint(1, self.model.config.vocab_size, (FED, *self.ids.shape), generator=generator).to(self.args.device)
        self.reset()
        out = []
        for given in ids:
            self.ids.copy_(given)
            step()
            out.append(self.logits.float().cpu())
        return self.torch.stack(out)

    def step(self):
        logits = self.run(self.ids, past_key_values=self.cache).logits[:, -1]
        self.logits.copy_(logits)
        self.ids.copy_(logits.argmax(-1, keepdim=True))

    def capture(self):
        torch = self.torch
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.step()
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.step()
        return graph.replay


def synchronise(args):
    if args.device != "cpu":
        import torch

        torch.cuda.synchronize()


def one(args):
    """A way, all batches: a line of JSON for each."""
    import torch

    parts = set(args.one.split("+"))
    model = build(args)
    if "rfg" in parts:
        import rfg.torch

        print(rfg.torch.enable(model), file=sys.stderr)
    for batch in args.batch:
        with torch.no_grad():
            decoder = Decoder(model, batch, args)
            if parts & {"compiled", "autotuned"}:
                torch._dynamo.reset()
                options = dict(mode="max-autotune-no-cudagraphs") if "autotuned" in parts else dict(backend=args.backend)
                decoder.run = torch.compile(model, fullgraph=True, **options)
            decoder.reset()
            step = decoder.capture() if "captured" in parts else decoder.step
            torch.save(decoder.fed(step), os.path.join(args.keep, "%s-%d" % (args.one, batch)))
            times = []
            for _ in range(args.runs + 1):  # the first one warms up
                decoder.reset()
                synchronise(args)
                start = time.perf_counter()
                for _ in range(args.tokens):
                    step()
                synchronise(args)
                times.append((time.perf_counter() - start) / args.tokens)
        print(json.dumps({"batch": batch, "ms": sorted(times[1:])[len(times[1:]) // 2] * 1e3}), flush=True)


def table(args, argv):
    print("%s, %s on %s, context %d of %d, %d tokens" % (args.family, args.size, args.device, args.context, args.cache, args.tokens))
    print("%-26s %5s %9s %10s %11s %9s" % ("way", "batch", "TPOT ms", "over first", "difference", "same"))
    base = {}
    failed = 0
    with tempfile.TemporaryDirectory() as keep:
        for way in args.ways.split(","):
            command = [sys.executable, __file__, *argv, "--one", way, "--keep", keep]
            env = dict(os.environ, RFG_LAUNCH_OVERLAP=str(int("overlap" in way)))
            child = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)
            for line in child.stdout:
                failed |= row(args, way, json.loads(line), base, keep)
            if child.wait():
                print("%-26s failed: %d" % (way, child.returncode), flush=True)
                failed = 1
    return failed


def row(args, way, got, base, keep):
    """Prints a way's figures of a batch; 1: its logits are too far from the first way's."""
    import torch

    batch = got["batch"]
    logits = torch.load(os.path.join(keep, "%s-%d" % (way, batch)))
    ms, first = base.setdefault(batch, (got["ms"], logits))
    difference = ((logits - first).pow(2).mean().sqrt() / first.pow(2).mean().sqrt()).item()
    same, of = int((logits.argmax(-1) == first.argmax(-1)).sum()), FED * batch
    wrong = not difference <= 4 * 2**-9 * math.sqrt(8 * SIZES[args.size]["num_hidden_layers"])
    text = "%-26s %5d %9.3f %9.2fx %11.2g %5d/%d%s" % (way, batch, got["ms"], ms / got["ms"], difference, same, of, " WRONG" if wrong else "")
    print(text, flush=True)
    return int(wrong)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--device", default="cuda")
    p.add_argument("--family", default="Llama", help="Llama, Qwen3, Mistral")
    p.add_argument("--size", default="8b", choices=SIZES)
    p.add_argument("--batch", type=int, nargs="+", default=[1])
    p.add_argument("--context", type=int, default=1024)
    p.add_argument("--cache", type=int, default=2048)
    p.add_argument("--tokens", type=int, default=64)
    p.add_argument("--runs", type=int, default=5)
    p.add_argument("--ways", default=WAYS)
    p.add_argument("--backend", default="inductor", help="of compiled: torch.compile's backend")
    p.add_argument("--one", help=argparse.SUPPRESS)
    p.add_argument("--keep", help=argparse.SUPPRESS)
    args = p.parse_args()
    for way in [args.one] if args.one else args.ways.split(","):
        if not set(way.split("+")) <= PARTS:
            p.error("ways: '%s': a way's words are %s" % (way, ", ".join(sorted(PARTS))))
        if "captured" in way and args.device == "cpu":
            p.error("ways: '%s': cpu has no graphs to capture" % way)
    if args.context + max(args.tokens, FED) + 4 > args.cache:
        p.error("context %d and %d tokens (and 4 to warm up) don't fit into a cache of %d" % (args.context, args.tokens, args.cache))
    return one(args) if args.one else table(args, sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
