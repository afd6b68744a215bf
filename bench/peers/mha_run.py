# SPDX-License-Identifier: MIT
"""The measurement of mha_peers.py."""

import gc
import math
import time

import torch

import floor
import mha_bars as bars
import mha_rows
import mha_torch
import race
import rfg
from race import attempt, say

SDPA = {"fa2": "FLASH_ATTENTION", "cudnn": "CUDNN_ATTENTION", "efficient": "EFFICIENT_ATTENTION"}


def open_contexts(args, bench):
    """{contestant: context of rfg}."""
    out, stream = {}, bench.stream.cuda_stream or None
    for name, overlap, dbs in (
        ("rfg", False, (args.db, args.system_db)),
        ("rfg+ov", True, (args.db, args.system_db)),
        ("untuned", False, ("", "")),
    ):
        if name not in args.without:
            ctx = attempt(name, lambda: rfg.Rfg(args.lib, args.device, dbs[0], overlap, stream, dbs[1]))
            if ctx:
                out[name] = ctx
    return out


def open_peers(args, bench):
    """{contestant: function of a problem to its candidates}, and the floor."""
    stream, out = bench.stream.cuda_stream, {}
    for name, backend in SDPA.items():
        out[name] = lambda backend=backend: mha_torch.sdpa(backend)
    out["fa2-kvcache"] = mha_torch.flash_attn
    out["flashinfer"] = lambda: mha_torch.FlashInfer(args.flashinfer_lib, stream).candidates
    out["xqa"] = lambda: mha_torch.Xqa(args.xqa_libs, stream).candidates
    for name, option, given in (("flashinfer", "lib", args.flashinfer_lib), ("xqa", "libs", args.xqa_libs)):
        if not given:
            del out[name]
            if name not in args.without:
                say("# left out: %s: no --%s-%s (see bench/peers/build.sh)" % (name, name, option))
    made = {n: attempt(n, make) for n, make in out.items() if n not in args.without}
    reader = None
    if "floor" not in args.without:
        reader = attempt("floor", lambda: floor.Floor(floor.built("floor", args.floor_lib), stream))
    return {n: candidates for n, candidates in made.items() if candidates}, reader


def right(p, name, candidates):
    """[(candidate, error)] of those whose results are right."""
    out = []
    for c in candidates or []:
        error = attempt(" ".join(filter(None, [p.text + ",", name, c.label])), lambda: p.error(c))
        if error is not None:
            out.append((c, error))
    return out


def contestants_of(p, bench, contexts, peers, reader):
    """{name: call of a set}, {name: configuration}, {name: relative error}."""
    calls, labels, errors = {}, {}, {}
    t = time.monotonic()
    for name, ctx in contexts.items():
        made = attempt("%s, %s" % (p.text, name), lambda: [mha_torch.rfg_candidate(p, ctx)])
        for c, error in right(p, name, made):
            calls[name], errors[name], labels[name] = c.call, error, race.chosen(ctx, p.row.problem)
    bench.phase("rfg's first calls", t)
    t = time.monotonic()
    for name, make in peers.items():
        what = "%s, %s" % (p.text, name)
        found = right(p, name, attempt(what, lambda: make(p) or []))
        pairs = [(c.label, c.call) for c, _ in found]
        won = bench.fastest(what, pairs, p.n_sets, p.n_calls, rounds=3, most=p.short) if len(pairs) > 1 else None
        won = won or (pairs or [None])[0]
        if won:
            labels[name], calls[name] = won
            errors[name] = [error for c, error in found if c.call is won[1]][0]
    bench.phase("peers' candidates", t)
    t = time.monotonic()
    if reader:
        size, at = p.row.kv_bytes, [kv.data_ptr() for kv in p.kv]
        won = attempt(
            "%s, floor" % p.text,
            lambda: reader.contestant(bench, p.text, size, at, size, p.n_calls, p.short, 0),
        )
        if won:
            labels["floor"], calls["floor"] = won
    bench.phase("floor's sweeps", t)
    return calls, labels, errors


def measure(p, bench, contexts, peers, reader):
    """Times all contestants of a row; returns its record."""
    p.allocate(bench)
    bench.stream.synchronize()
    calls, labels, errors = contestants_of(p, bench, contexts, peers, reader if not p.row.prefill else None)
    times = bench.times(p, calls)
    return {
        **vars(p.row),
        "text": p.text,
        "bytes": p.row.bytes,
        "kv_bytes": p.row.kv_bytes,
        "flops": p.row.flops,
        "sets": p.n_sets,
        "calls": p.n_calls,
        **race.figures(times),
        "error": errors,
        "configurations": labels,
    }


def run(args, bench, records):
    t = time.monotonic()
    contexts = open_contexts(args, bench)
    peers, reader = open_peers(args, bench)
    bench.phase("opening, building", t)
    head = race.measure_machine(bench)
    say("# us a call; peer/rfg: of the fastest peer, named; rfg's and the peer's TB/s of K and V, or TFLOP/s")
    say(bars.HEAD)
    for i, row in enumerate(args.todo):
        if time.monotonic() - race.T0 > args.seconds:
            left = [mha_rows.ROWS.index(r) + 1 for r in args.todo[i:]]
            say(
                "# OUT OF TIME after %.0f s: %d of %d rows not measured: --rows %s"
                % (args.seconds, len(left), len(args.todo), ",".join(map(str, left)))
            )
            break
        p = mha_torch.Problem(row)
        r = attempt(p.text, lambda: measure(p, bench, contexts, peers, reader))
        attempt(p.text, p.close)
        p = None  # the buffers
        gc.collect()
        torch.cuda.empty_cache()
        if r:
            records.append(r)
            say(bars.show(r))
            race.save(args.json, head, records)
    for name in ("rfg", "rfg+ov"):
        labels = {bars.where(r): r["configurations"].get(name) for r in records}
        other = [t for t, x in labels.items() if x and " by rung 1 " not in x + " "]
        if other:
            say("# %s: %d rows have no tuned row of their own, such as %s" % (name, len(other), other[0]))
    race.measure_copy_again(bench, head)
    race.save(args.json, head, records)
    return head


def main(args):
    if race.DEV == "cuda" and not torch.cuda.is_available():
        say("mha_peers: PyTorch finds no GPU")
        return 1
    gc.disable()  # not in the middle of a capture, but after each row
    torch.manual_seed(0)
    bench = race.Bench(args.rounds)
    bench.phase("start", race.T0)
    records = []
    head = bench.on_stream(lambda: run(args, bench, records))
    say("\n".join(bars.verdict(records, head["copy_gbps"] if head else math.nan)))
    bench.say_seconds()
    return int(not head or not records)
