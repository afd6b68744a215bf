#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A model on rfg beside the same model in PyTorch: the same weights, prompts and steps, in one run on one GPU, or on
N with --tp N: rfg's ranks are threads of its process, PyTorch's are processes (NCCL; on cpu Gloo), with the same parts.

    bench/decoder_peers.py --random llama3-8b --batch 1,8,32        # Llama-3-8B's sizes, 1024 keys in buffers of 2048
    bench/decoder_peers.py --model examples/decoder/small --greedy 64 --batch 1
    bench/decoder_peers.py --random llama3-70b --layers 8 --tp 2 --peers captured,compiled --ttft 0
    bench/decoder_peers.py --random small --device cpu --peers eager  # anywhere, to try it; with --tp 2 too

  rfg           rfg-decoder --ladder, in a process of its own: all rungs; the last is compared
  eager         PyTorch's kernels one by one
  captured      the same in a CUDA graph
  compiled      torch.compile, captured
  max-autotune  torch.compile in that mode (its own GEMM kernels), captured
  transformers  LlamaForCausalLM of the package transformers, if it is there: static cache, compiled as its generate() does

PyTorch's attention is the faster of SDPA with a mask and of plain products over grouped heads, for each way to run. A step
is timed as the ladder does: steps queued one after the other, by the host's clock; TPOT: each token comes to the host.
TTFT: a prompt alone, the better of eager and compiled. Peers and rfg take turns on the GPU, never at the same time.

Before it is timed each peer is fed rfg's tokens, and its logits are compared with rfg's: the rms of the difference may
be 4 2^-9 sqrt(8 layers) of the logits' rms (about eight roundings a layer). --greedy N: N greedy tokens of an eager
model must be rfg's. Exit: 0; 1 a comparison failed; 2 bad usage."""

import argparse
import datetime
import itertools
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "peers"))
import torch  # noqa: E402
import torch_decoder  # noqa: E402

PEERS = ("eager", "captured", "compiled", "max-autotune", "transformers")
CHECKED = 8  # steps whose logits are compared


def say(*text):
    print(*text, flush=True)


def parse(argv):
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    which = p.add_mutually_exclusive_group(required=True)
    which.add_argument("--random", metavar="NAME", help="rfg-decoder's --random")
    which.add_argument("--model", metavar="DIR", help="a Hugging Face folder: Llama or Qwen3")
    p.add_argument("--layers", type=int, default=0, help="of --random: so many (default: as many as the model has)")
    p.add_argument("--tp", type=int, default=1, help="ranks (default %(default)s)")
    p.add_argument("--from", type=int, default=0, dest="first", help="rfg's first rung (default 1; with --tp the last)")
    p.add_argument("--decoder", default=os.path.join(HERE, "..", "build", "bin", "rfg-decoder"), help="(default %(default)s)")
    p.add_argument("--device", default="nvidia:0", help="rfg's name of PyTorch's device 0, or cpu (default %(default)s)")
    p.add_argument("--batch", default="1", help="numbers between commas (default %(default)s)")
    p.add_argument("--context", type=int, default=2048, help="keys of the buffers (default %(default)s)")
    p.add_argument("--prompt-tokens", type=int, default=1024, help="keys before the first step (default %(default)s)")
    p.add_argument("--steps", type=int, default=64, help="(default %(default)s)")
    p.add_argument("--ttft", type=int, default=2048, help="tokens of the prompt whose TTFT is compared; 0: none (default %(default)s)")
    p.add_argument("--greedy", type=int, default=0, metavar="N", help="greedy tokens that must be the same")
    p.add_argument("--attention", choices=("sdpa", "products", "both"), default="both", help="PyTorch's; both: the faster (default)")
    p.add_argument("--peers", default=",".join(PEERS), help="(default %(default)s)")
    p.add_argument("--seed", type=int, default=1, help="of random weights (default %(default)s)")
    p.add_argument("--json", metavar="FILE", help="everything measured")
    args = p.parse_args(argv)
    args.peers = args.peers.split(",")
    if args.tp > 1 and args.model:
        p.error("--tp %d: must be of --random" % args.tp)
    args.first = args.first or (8 if args.tp > 1 else 1)
    if args.tp > 1 and (args.greedy or "transformers" in args.peers or args.ttft):
        args.greedy, args.ttft = 0, 0
        args.peers = [n for n in args.peers if n != "transformers"]
    if set(args.peers) - set(PEERS):
        p.error("--peers %s: must be of %s" % (",".join(args.peers), ", ".join(PEERS)))
    try:
        args.batch = [int(b) for b in args.batch.split(",")]
    except ValueError:
        p.error("--batch %s: must be numbers between commas" % args.batch)
    if args.prompt_tokens + CHECKED + 3 * args.steps > args.context:
        p.error("--context %d: must hold --prompt-tokens and %d + 3 times --steps" % (args.context, CHECKED))
    return args


# ---- rfg ---------------------------------------------------------------------------------------------------------


def decoder(args, *more):
    which = ["--random", args.random] if args.random else ["--model", args.model]
    which += ["--layers", str(args.layers)] if args.layers else []
    which += ["--tp", str(args.tp)] if args.tp > 1 else []
    command = [args.decoder, *which, "--device", args.device, "--context", str(args.context), "--seed", str(args.seed)]
    done = subprocess.run(command + list(map(str, more)), stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise SystemExit("%s: exit code %d" % (" ".join(command + list(map(str, more))), done.returncode))
    return done.stdout


def ladder(args, batch, folder):
    path = os.path.join(folder, "ladder.json")
    say(decoder(args, "--ladder", "--from", args.first, "--batch", batch, "--prompt-tokens", args.prompt_tokens, "--steps", args.steps,
                "--chunk", max(args.prompt_tokens, args.ttft), "--json", path))
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def rfg_tokens(args, prompt, count, folder):
    """Greedy tokens after a prompt, and the logits that each was chosen by."""
    path = os.path.join(folder, "logits")
    text = decoder(args, "--ids", ",".join(map(str, prompt)), "--tokens", count, "--logits", path)
    tokens = [int(t) for t in text.strip().split(",")]
    return tokens, torch.frombuffer(bytearray(open(path, "rb").read()), dtype=torch.float32).view(len(tokens), -1)


# ---- PyTorch -----------------------------------------------------------------------------------------------------


def sync():
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def place(model, positions):
    """The next step's positions, in transformers' cache too, which counts them itself."""
    model.positions.copy_(positions)
    for layer in getattr(model, "static_layers", ()):
        layer.cumulative_length.copy_(positions[0])


def captured(model, step):
    """step() as a graph; the state that warming it up changed is put back."""
    was = model.tokens.clone(), model.positions.clone()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
            place(model, was[1])
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        logits = step()
    model.tokens.copy_(was[0])
    place(model, was[1])

    def replay():
        graph.replay()
        return logits

    return replay


def ways(model, args, name):
    """The steps that stand for a peer: callables that make one step and return its logits."""
    ways_of = {"sdpa": (False,), "products": (True,), "both": (False, True)}[args.attention]
    for grouped, model.gathered in itertools.product(ways_of, (True, False) if model.experts else (True,)):
        model.grouped = grouped
        if name == "eager":
            yield model.forward, grouped
        elif name == "captured":
            yield captured(model, model.forward), grouped
        else:
            torch._dynamo.reset()
            mode = "max-autotune-no-cudagraphs" if name == "max-autotune" else None
            yield captured(model, torch.compile(model.forward, mode=mode, fullgraph=True)), grouped


def begin(model, args, prompt=None):
    """Every sequence has its prompt but for the last token, which the first step reads."""
    vocab = model.embedding.shape[0]
    for row in range(model.tokens.shape[0]):
        tokens = prompt or [torch_decoder.prompt_token(row, i, vocab) for i in range(args.prompt_tokens)]
        tokens = torch.tensor(tokens, device=model.tokens.device)
        if len(tokens) > 1:
            model.prefill(tokens[:-1], row)
        model.tokens[row], model.positions[row] = tokens[-1], len(tokens) - 1


def compare(model, step, rfg, what):
    """Feeds rfg's tokens; the largest rms difference of a step's logits, by their rms. Of a mixture the median: rounding may
    swap two experts that are nearly as good."""
    tokens, logits = rfg
    differences, at = [], model.positions.clone()
    for i in range(min(CHECKED, len(tokens))):
        got = step()[0].float().cpu()
        differences.append(float((got - logits[i]).pow(2).mean().sqrt() / logits[i].pow(2).mean().sqrt()))
        model.tokens.fill_(tokens[i])
    place(model, at)
    worst = statistics.median(differences) if model.experts else max(differences)
    allowed = 4 * 2**-9 * math.sqrt(8 * len(model.layers))
    if not worst <= allowed:
        say("# WRONG: %s: logits differ from rfg's by %.3g of their size (%.3g is allowed)" % (what, worst, allowed))
    return worst, worst <= allowed


def timed(model, step, args):
    """ms of a queued step, and TPOT's percentiles."""
    first = model.positions.clone()
    for _ in range(3):
        step()
    place(model, first)
    sync()
    start = time.perf_counter()
    for _ in range(args.steps):
        step()
    sync()
    ms = 1e3 * (time.perf_counter() - start) / args.steps
    times = []
    for _ in range(args.steps):
        start = time.perf_counter()
        step()
        model.tokens.tolist()
        times.append(1e3 * (time.perf_counter() - start))
    place(model, first)
    return ms, statistics.median(times)


def transformers_step(model, args):
    """transformers' own Llama on the same weights: a callable as ways() gives them."""
    import transformers
    c = torch_decoder.BUILT_IN.get(args.random)
    if args.model:
        m = transformers.AutoModelForCausalLM.from_pretrained(args.model, dtype=model.dtype).to(model.tokens.device)
    else:
        if c.get("qk_norm"):
            raise ValueError("only Llama is here")
        c = dict(c, max_position_embeddings=args.context, tie_word_embeddings=False)
        with torch.device("meta"):
            m = transformers.LlamaForCausalLM(transformers.LlamaConfig(**c))
        state = {"model.embed_tokens.weight": model.embedding, "model.norm.weight": model.norm, "lm_head.weight": model.head}
        q, kv, i = model.hq * model.d, model.hkv * model.d, c["intermediate_size"]
        for n, layer in enumerate(model.layers):
            p = "model.layers.%d." % n
            for name, t in zip("qkv", layer["qkv"].split((q, kv, kv))):
                state[p + "self_attn.%s_proj.weight" % name] = t
            state[p + "mlp.gate_proj.weight"], state[p + "mlp.up_proj.weight"] = layer["gate_up"].split(i)
            state[p + "self_attn.o_proj.weight"], state[p + "mlp.down_proj.weight"] = layer["o"], layer["down"]
            state[p + "input_layernorm.weight"] = layer["norm"]
            state[p + "post_attention_layernorm.weight"] = layer["mlp_norm"]
        m.load_state_dict(state, strict=True, assign=True)
        m.model.rotary_emb = type(m.model.rotary_emb)(m.config).to(model.tokens.device)
    m.eval()
    batch = model.tokens.shape[0]
    cache = transformers.StaticCache(config=m.config, max_cache_len=args.context)
    model.static_layers = cache.layers
    for row_tokens in [torch.stack([torch.tensor([torch_decoder.prompt_token(r, i, model.embedding.shape[0])
                                                  for i in range(int(model.positions[0]))]) for r in range(batch)])]:
        if row_tokens.shape[1]:
            m(row_tokens.to(model.tokens.device), past_key_values=cache, use_cache=True,
              cache_position=torch.arange(row_tokens.shape[1], device=model.tokens.device), logits_to_keep=1)
    torch._dynamo.reset()

    def one():
        return m(model.tokens[:, None], past_key_values=cache, use_cache=True, cache_position=model.positions[:1]).logits[:, -1]

    inner = torch.compile(one, fullgraph=True) if torch.cuda.is_available() else one

    def step():
        logits = inner().float()
        model.tokens.copy_(logits.argmax(-1))
        model.positions.add_(1)
        return logits

    return captured(model, step) if torch.cuda.is_available() else step


def attempt(what, fn):
    try:
        return fn()
    except Exception as e:  # a peer that fails is left out, whatever it raises
        say("# left out: %s: %s: %s" % (what, type(e).__name__, (str(e).strip().splitlines() or [""])[0][:300]))
        return None


def run_peer(model, args, name, rfg, batch):
    """(ms, TPOT p50, difference, right) of the faster way; None: left out."""
    best = None
    steps = [(transformers_step(model, args), None)] if name == "transformers" else ways(model, args, name)
    for step, grouped in steps:
        what = "%s, B=%d%s" % (name, batch, "" if grouped is None else ", attention by " + ("products" if grouped else "SDPA"))
        what += ", experts " + ("gathered" if model.gathered else "grouped") if model.experts else ""
        differs, right = compare(model, step, rfg, what) if batch == 1 else (0.0, True)
        begin(model, args)
        ms, tpot = timed(model, step, args)
        begin(model, args)
        say("# %s: %.3f ms a token, TPOT %.3f ms, logits differ by %.2g" % (what, ms, tpot, differs))
        if best is None or ms < best[0]:
            best = (ms, tpot, differs, right)
    return best


def ttft(model, args):
    """The better of eager and compiled, in ms."""
    vocab = model.embedding.shape[0]
    tokens = torch.tensor([torch_decoder.prompt_token(0, i, vocab) for i in range(args.ttft)])
    best = {}
    for name in ("eager", "compiled"):
        torch._dynamo.reset()
        call = torch.compile(model.prefill, fullgraph=True) if name == "compiled" else model.prefill

        def measure():
            times = []
            for _ in range(8):
                start = time.perf_counter()
                call(tokens.to(model.tokens.device), 0).argmax(-1).tolist()
                times.append(1e3 * (time.perf_counter() - start))
            return statistics.median(times[2:])

        best[name] = attempt("TTFT, " + name, measure)
        if best[name]:
            say("# TTFT of %d tokens, %s: %.2f ms" % (args.ttft, name, best[name]))
    return min((t for t in best.values() if t), default=None)


# ---- ranks -------------------------------------------------------------------------------------------------------


def run_peers(args, batch, rfg, model):
    """{peer: what run_peer() says}"""
    rows = {}
    for name in args.peers:
        begin(model, args)
        got = attempt("%s, B=%d" % (name, batch), lambda: run_peer(model, args, name, rfg, batch))
        if got:
            rows[name] = got
    return rows


def prepare_torch():
    torch.set_grad_enabled(False)
    torch._dynamo.config.cache_size_limit = 64


def run_rank(rank, args, batch, rfg, path):
    """A process of PyTorch's; the first one says what it measured. All make the same steps: a peer that fails on one
    rank alone ends by NCCL's timeout."""
    cuda = not (args.device == "cpu" or args.device.startswith("emu"))
    device = torch.device("cuda", rank) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    torch.distributed.init_process_group("nccl" if cuda else "gloo", init_method="file://" + path + ".rendezvous", rank=rank,
                                         world_size=args.tp, timeout=datetime.timedelta(seconds=120))
    prepare_torch()
    if rank:
        globals()["say"] = lambda *text: None
    rows = run_peers(args, batch, rfg, torch_decoder.load(args, batch, device))
    if rank == 0:
        with open(path, "w", encoding="utf-8") as f:
            json.dump(rows, f)
    torch.distributed.destroy_process_group()


def run_ranks(args, batch, rfg, folder):
    path = os.path.join(folder, "peers%d.json" % batch)
    torch.multiprocessing.spawn(run_rank, (args, batch, rfg, path), nprocs=args.tp)
    with open(path, encoding="utf-8") as f:
        return json.load(f)


# ---- the run -----------------------------------------------------------------------------------------------------


def greedy(model, args, folder):
    prompt = list(b"The quick brown fox") if args.model else [torch_decoder.prompt_token(0, i, model.embedding.shape[0]) for i in range(16)]
    tokens, _ = rfg_tokens(args, prompt, args.greedy, folder)
    begin(model, args, prompt)
    mine = []
    for _ in range(len(tokens)):
        model.forward()
        mine.append(int(model.tokens[0]))
    same = next((i for i, (a, b) in enumerate(zip(mine, tokens)) if a != b), len(tokens))
    say("greedy tokens: the first %d of %d are the same" % (same, len(tokens)))
    return same == len(tokens)


def main(argv=None):
    args = parse(argv)
    device = torch.device("cpu" if args.device == "cpu" or args.device.startswith("emu") else "cuda")
    prepare_torch()
    results, right = [], True
    with tempfile.TemporaryDirectory() as folder:
        for batch in args.batch:
            say("== B=%d" % batch)
            own = ladder(args, batch, folder)
            model = torch_decoder.load(args, batch, device) if args.tp == 1 else None
            rfg = None
            if batch == 1:
                vocab = model.embedding.shape[0] if model else torch_decoder.BUILT_IN[args.random]["vocab_size"]
                rfg = rfg_tokens(args, [torch_decoder.prompt_token(0, i, vocab) for i in range(args.prompt_tokens)], CHECKED, folder)
                if args.greedy:
                    right &= greedy(model, args, folder)
            rows = run_peers(args, batch, rfg, model) if model else run_ranks(args, batch, rfg, folder)
            right &= all(got[3] for got in rows.values())
            first = ttft(model, args) if args.ttft and batch == 1 else None
            results.append((batch, own, rows, first))
            del model
            if device.type == "cuda":
                torch.cuda.empty_cache()
    say("\n%5s %9s %9s  %s" % ("B", "rfg ms", "TPOT p50", "  ".join("%20s" % n for n in args.peers)))
    for batch, own, rows, first in results:
        last = own["rungs"][-1]
        cells = ["%20s" % ("%.3f ms %.2fx" % (rows[n][0], rows[n][0] / last["ms"]) if n in rows else "-") for n in args.peers]
        say("%5d %9.3f %9.3f  %s" % (batch, last["ms"], last["p50"], "  ".join(cells)))
        if rows:
            say("      against the best: %.2fx; bytes at copy speed: %.2f of the time; first to last rung: %.2fx" %
                (min(r[0] for r in rows.values()) / last["ms"], own["share_of_copy_speed"], own["rungs"][0]["ms"] / last["ms"]))
        mine = next((t["p50"] for t in own["ttft"] if t["tokens"] == args.ttft), None)
        if first and mine:
            say("      TTFT of %d tokens: rfg %.2f ms, the best PyTorch %.2f ms: %.2fx" % (args.ttft, mine, first, first / mine))
    if args.json:
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump([{"batch": b, "rfg": o, "peers": {n: dict(zip(("ms", "tpot", "differs", "right"), r)) for n, r in rows.items()},
                        "ttft_ms": first} for b, o, rows, first in results], f, indent=1)
    say("1 passed, 0 failed" if right else "0 passed, 1 failed")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
