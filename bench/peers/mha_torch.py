# SPDX-License-Identifier: MIT
"""The buffers of mha_peers.py's problems, the answers in fp64, and the contestants. Run alone it tests the answers on
PyTorch's CPU tensors.

K and V of one set lie one after the other in one piece of memory, which everyone reads in the form he likes best:

  pages   [blocks, page, Hkv, D] through a table that is a random permutation: rfg, FlashInfer
  tokens  [tokens of all sequences, Hkv, D], one sequence after the other: flash-attn, varlen, prefill
  heads   [B, Hkv, S, D]: PyTorch's SDPA

The bytes are the same, so each form has its own answer."""

import collections
import ctypes
import math
import random

import torch
import torch.nn.functional as F

import race
from race import attempt

WORST = 0.01  # relative error; with one rounding to bf16 of weights and of out it is 0.0024

# label; call of a set; what a call's result is as [queries of all sequences, Hq, D]; the form it reads; the largest error
Candidate = collections.namedtuple("Candidate", "label call wrote form worst", defaults=[WORST])

DTYPES = {"bf16": torch.bfloat16, "e4m3": torch.float8_e4m3fn}
SAMPLES = 6  # (sequence, head) pairs; prefill has half as many, each of
QUERIES = 32  # queries


def attend(q, k, v, scale, at=None):
    """q [n, D], k and v [L, D], all of them fp64. at [n]: the last key that each query sees."""
    s = q @ k.t() * scale
    if at is not None:
        s.masked_fill_(torch.arange(k.shape[0], device=k.device)[None] > at[:, None], -math.inf)
    return torch.softmax(s, -1) @ v


class Problem:
    def __init__(self, row):
        self.row, self.text = row, row.text
        self.lens = row.lens
        self.expected_of = {}
        self.on_close = []

    def allocate(self, bench):
        r = self.row
        s = self.n_sets = bench.sets(r.kv_bytes)
        if r.prefill:
            s = self.n_sets = bench.sets(r.bytes)
            self.n_calls = s * max(1, min(20, round(4e12 / r.flops)) // s)
        else:
            self.n_calls = bench.calls(s, r.bytes) if r.bytes < 1 << 30 else 2 * s
        self.short = 64 if r.bytes < 64 << 20 else min(4, self.n_calls)  # calls in the races that choose
        bf16, dtype = torch.bfloat16, DTYPES[r.kv]
        blocks = sum(r.blocks) if r.page else 0
        tokens = blocks * r.page or sum(self.lens) if r.varlen else blocks * r.page or r.b * r.s
        self.kv = torch.empty(s, 2, tokens * r.hkv * r.d, device=race.DEV, dtype=dtype)
        for i in range(s):
            if dtype == bf16:
                self.kv[i].normal_()
            else:
                self.kv[i].copy_(torch.randn(self.kv[i].shape, device=race.DEV, dtype=bf16))
        self.q = torch.randn(s, sum(r.q_lens), r.hq, r.d, device=race.DEV, dtype=bf16)
        self.out = torch.empty_like(self.q)
        self.scale = 1 / math.sqrt(r.d)
        self.k_scale = self.v_scale = None
        if r.scales != "none":
            n = r.hkv if r.scales == "head" else 1
            self.k_scale, self.v_scale = (torch.rand(n, device=race.DEV) * 0.5 + 0.5 for _ in "kv")
        self.begin = [sum(self.lens[:b]) for b in range(r.b + 1)]
        self.q_begin = [sum(r.q_lens[:b]) for b in range(r.b + 1)]
        if not r.prefill:
            self.make_tables(blocks)
        self.sample()

    def int32(self, values):
        return torch.tensor(values, dtype=torch.int32, device=race.DEV)

    def make_tables(self, blocks):
        """perm: the blocks of one sequence after the other; table: as rfg has them, a row a sequence."""
        r, n = self.row, self.row.blocks
        self.first_block = [sum(n[:b]) for b in range(r.b + 1)]
        self.perm = [torch.randperm(blocks, device=race.DEV).to(torch.int32) for _ in range(self.n_sets)]
        self.kv_lens = self.int32(self.lens)
        if min(n) == max(n):
            self.table = [p.view(r.b, -1) for p in self.perm]
            return
        self.table = [torch.zeros(r.b, max(n), dtype=torch.int32, device=race.DEV) for _ in self.perm]
        for table, perm in zip(self.table, self.perm):
            for b in range(r.b):
                table[b, : n[b]] = perm[self.first_block[b] : self.first_block[b + 1]]

    # The forms, of set i.

    def pages(self, i):
        return [t.view(-1, self.row.page, self.row.hkv, self.row.d) for t in self.kv[i]]

    def tokens(self, i):
        return [t.view(-1, self.row.hkv, self.row.d)[: self.begin[-1]] for t in self.kv[i]]

    def heads(self, i):
        r = self.row
        return [t[: self.begin[-1] * r.hkv * r.d].view(r.b, r.hkv, r.s, r.d) for t in self.kv[i]]

    # ---- the answers

    def sample(self):
        """Which heads of which sequences are compared; of prefill, which queries."""
        r, rng = self.row, random.Random(3)
        if r.prefill:
            heads = sorted(rng.sample(range(r.hq), min(SAMPLES // 2, r.hq)))
            least = min(r.q_lens)
            self.queries = sorted({0, 1, least // 2, least - 1} | {rng.randrange(least) for _ in range(QUERIES)})
            self.pairs = [(i * (r.b - 1) // max(len(heads) - 1, 1), h) for i, h in enumerate(heads)]
            return
        order = sorted(range(r.b), key=lambda b: self.lens[b])
        self.pairs = [(order[0], r.hq - 1), (order[-1], 0)]
        self.pairs += [(rng.randrange(r.b), rng.randrange(r.hq)) for _ in range(SAMPLES - 2)]

    def keys(self, form, b, h):
        """K and V [L, D] in fp64 of a sequence and a KV head, of set 0."""
        out = []
        for t, scale in zip(getattr(self, form)(0), (self.k_scale, self.v_scale)):
            t = t.view(torch.uint8) if self.row.kv != "bf16" else t  # not all of PyTorch indexes 8-bit floats
            if form == "pages":
                of_b = self.perm[0][self.first_block[b] : self.first_block[b + 1]].long()
                rows = t[of_b, :, h].reshape(-1, self.row.d)[: self.lens[b]]
            elif form == "tokens":
                rows = t[self.begin[b] : self.begin[b + 1], h]
            else:
                rows = t[b, h]
            rows = rows.contiguous().view(self.kv.dtype).to(torch.bfloat16).double()
            out.append(rows * scale[h % len(scale)].double() if scale is not None else rows)
        return out

    def expected(self, form):
        """[samples, D] in fp64."""
        if form not in self.expected_of:
            r, out = self.row, []
            for b, h in self.pairs:
                k, v = self.keys(form, b, h * r.hkv // r.hq)
                if r.prefill:
                    at = torch.tensor(self.queries, device=race.DEV)
                    q = self.q[0, self.q_begin[b] + at, h].double()
                    out.append(attend(q, k, v, self.scale, at if r.causal else None))
                else:
                    out.append(attend(self.q[0, b, h].double()[None], k, v, self.scale))
            self.expected_of[form] = torch.cat(out)
        return self.expected_of[form]

    def sampled(self, out):
        """Of a result [queries of all sequences, Hq, D], what expected() has."""
        if self.row.prefill:
            return torch.cat([out[[self.q_begin[b] + i for i in self.queries], h] for b, h in self.pairs])
        return torch.stack([out[b, h] for b, h in self.pairs])

    def error(self, c):
        """Relative, of a candidate's set 0; raises if it is wrong."""
        self.out[0].fill_(math.nan)
        out = c.wrote(c.call(0))
        torch.cuda.current_stream().synchronize()
        if tuple(out.shape) != tuple(self.q[0].shape):
            raise RuntimeError("the result is %s, must be %s" % (tuple(out.shape), tuple(self.q[0].shape)))
        if not torch.isfinite(out).all().item():
            raise RuntimeError("wrong: not all of the result is finite")
        e = self.expected(c.form)
        relative = ((self.sampled(out).double() - e).norm() / e.norm()).item()
        if not relative <= c.worst:
            raise RuntimeError("wrong: |got - expected| / |expected| is %.3g, must be <= %.3g" % (relative, c.worst))
        return relative

    def close(self):
        for f in self.on_close:
            f()
        self.on_close = []


# ---- ours -------------------------------------------------------------------------------------------------------


def rfg_candidate(p, ctx):
    r, calls, lens = p.row, [], None
    if r.varlen:  # they live as long as the calls
        lens = p.cu_seqlens = (p.int32(p.q_begin), p.int32(p.begin), max(r.q_lens), max(r.lens))
    for i in range(p.n_sets):
        if r.varlen:
            calls.append(ctx.mha(p.out[i], p.q[i], *p.tokens(i), r.causal, lens))
        elif r.prefill:
            out, q, k, v = (t.view(r.b, -1, *t.shape[1:]) for t in (p.out[i], p.q[i], *p.tokens(i)))
            calls.append(ctx.mha(out, q, k, v, r.causal))
        else:
            k, v = p.pages(i)
            calls.append(ctx.mha_decode(p.out[i], p.q[i], k, v, p.table[i], p.kv_lens, r.s, sum(r.lens) // r.b, p.k_scale, p.v_scale))
    return Candidate("", lambda i: calls[i](), lambda _: p.out[0], "tokens" if r.prefill else "pages")


# ---- peers: each a function of a problem to its candidates, of which the fastest is timed ------------------------


def sdpa(backend):
    """PyTorch's scaled_dot_product_attention with one backend."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    only = getattr(SDPBackend, backend)

    def call(q, k, v, **options):
        with sdpa_kernel([only]):
            return F.scaled_dot_product_attention(q, k, v, **options)

    def dense(p):
        """Decode: q [B, Hq, 1, D]; packed: a group's queries as the queries of its KV head, the same without a mask,
        which also serves backends that don't know groups."""
        r = p.row
        sets = [(p.q[i], *p.heads(i)) for i in range(p.n_sets)]
        one = [(q[:, :, None], k, v) for q, k, v in sets]
        packed = [(q.view(r.b, r.hkv, r.hq // r.hkv, r.d), k, v) for q, k, v in sets]
        wrote = lambda y: y.reshape(r.b, r.hq, r.d)  # noqa: E731
        out = [Candidate("packed", lambda i: call(*packed[i]), wrote, "heads")]
        if backend != "EFFICIENT_ATTENTION":
            out.append(Candidate("enable_gqa", lambda i: call(*one[i], enable_gqa=True), wrote, "heads"))
        return out

    def prefill(p):
        """[B, H, S, D], of K and V that lie so, and that lie as [B, S, H, D]; q and out lie as the latter."""
        r = p.row
        as_heads = lambda t: t.view(r.b, -1, *t.shape[1:]).transpose(1, 2)  # noqa: E731
        q = [as_heads(t) for t in p.q]
        by_head = [(q[i], *p.heads(i)) for i in range(p.n_sets)]
        by_token = [(q[i], *(as_heads(t) for t in p.tokens(i))) for i in range(p.n_sets)]
        wrote = lambda y: y.transpose(1, 2).reshape(p.q[0].shape)  # noqa: E731
        options = {"is_causal": r.causal, "enable_gqa": r.hq != r.hkv}
        return [
            Candidate("K, V by head", lambda i: call(*by_head[i], **options), wrote, "heads"),
            Candidate("K, V by token", lambda i: call(*by_token[i], **options), wrote, "tokens"),
        ]

    def varlen(p):
        """FlashAttention-2 of ragged lengths, which doesn't split the keys."""
        r = p.row
        q_begin, kv_begin, most, longest = p.int32(p.q_begin), p.int32(p.begin), max(r.q_lens), max(p.lens)
        causal = r.prefill and r.causal
        sets = [(p.q[i], *p.tokens(i)) for i in range(p.n_sets)]
        f = torch.ops.aten._flash_attention_forward
        run = lambda i: f(*sets[i], q_begin, kv_begin, most, longest, 0.0, causal, False)[0]  # noqa: E731
        return [Candidate("varlen", run, lambda y: y, "tokens")]

    def candidates(p):
        ragged = p.row.log or p.row.varlen
        if p.row.kv != "bf16" or (ragged and backend != "FLASH_ATTENTION"):
            return None
        if p.row.prefill and not ragged:
            return prefill(p) if backend != "EFFICIENT_ATTENTION" else None
        return varlen(p) if ragged else dense(p)

    return candidates


def flash_attn():
    """flash_attn_with_kvcache() and flash_attn_func() of the package, if it is there."""
    import flash_attn as package

    def candidates(p):
        r = p.row
        if r.kv != "bf16" or r.log or r.varlen:
            return None
        sets = [[t.view(r.b, -1, *t.shape[1:]) for t in (p.q[i], *p.tokens(i))] for i in range(p.n_sets)]
        if r.prefill:
            run = lambda i: package.flash_attn_func(*sets[i], causal=r.causal)  # noqa: E731
        else:
            lens = p.kv_lens
            run = lambda i: package.flash_attn_with_kvcache(*sets[i], cache_seqlens=lens)  # noqa: E731
        return [Candidate("", run, lambda y: y.view(p.q[0].shape), "tokens")]

    return candidates


class FlashInfer:
    """Of peers/flashinfer_mha.cu: decode. Its plans are for the lengths at hand, so without padding."""

    def __init__(self, path, stream):
        self.lib, self.stream = ctypes.CDLL(path), stream
        v, i, f = ctypes.c_void_p, ctypes.c_int, ctypes.c_float
        self.lib.peer_mha_error.restype = ctypes.c_char_p
        self.lib.peer_mha_open.argtypes = [ctypes.POINTER(v), i, i, ctypes.POINTER(ctypes.c_int32), i, i, i, i, v]
        self.lib.peer_mha_run.argtypes = [v] * 8 + [f, i, v]
        self.lib.peer_mha_close.argtypes = [v]
        self.lib.peer_mha_close.restype = None
        self.lib.peer_mha_single.argtypes = [v] * 5 + [i, i, i, f, v]
        self.workspace = torch.empty(32 << 20, device=race.DEV, dtype=torch.uint8)

    def check(self, failed):
        if failed:
            raise RuntimeError(self.lib.peer_mha_error().decode() or "failed")

    def open(self, p, tensor_cores):
        r, plan = p.row, ctypes.c_void_p()
        pages = (ctypes.c_int32 * (r.b + 1))(*p.first_block)
        fp8 = int(r.kv != "bf16")
        self.check(self.lib.peer_mha_open(plan, fp8, tensor_cores, pages, r.b, r.hq, r.hkv, r.page, self.stream))
        p.on_close.append(lambda: self.lib.peer_mha_close(plan))
        return plan

    def candidates(self, p):
        r, out = p.row, []
        if r.prefill or r.scales == "head":  # not built; it has no such scale
            return None
        run, single, stream = self.lib.peer_mha_run, self.lib.peer_mha_single, self.stream
        begin = p.int32(p.first_block)
        last = p.int32([(n - 1) % r.page + 1 for n in p.lens])
        k_scale, v_scale = (t.item() if t is not None else 1 for t in (p.k_scale, p.v_scale))
        scale = p.scale * k_scale  # V's is for the caller to apply, and isn't timed
        wrote = lambda _: p.out[0] * v_scale if v_scale != 1 else p.out[0]  # noqa: E731

        def pointers(i, form):
            return [t.data_ptr() for t in (p.q[i], *form(i), p.out[i])]

        for cores, tensor_cores in (("CUDA cores", 0), ("tensor cores", 1)):
            plan = attempt("%s, flashinfer %s" % (p.text, cores), lambda: self.open(p, tensor_cores))
            if plan is None:
                continue
            args = [
                (plan, *pointers(i, p.pages), p.perm[i].data_ptr(), begin.data_ptr(), last.data_ptr(), scale)
                for i in range(p.n_sets)
            ]
            for pdl in (0, 1):

                def call(i, args=args, pdl=pdl, keep=(begin, last)):
                    self.check(run(*args[i], pdl, stream))

                out.append(Candidate("batch, %s%s" % (cores, ", pdl" if pdl else ""), call, wrote, "pages"))
        if r.b == 1 and r.kv == "bf16" and r.hq // r.hkv in (4, 8):
            sets = [pointers(i, p.tokens) for i in range(p.n_sets)]
            sizes = (self.workspace.data_ptr(), r.s, r.hq, r.hkv, p.scale, stream)
            out.append(
                Candidate("single", lambda i: self.check(single(*sets[i], *sizes)), lambda _: p.out[0], "tokens")
            )
        return out


class Xqa:
    """Of peers/flashinfer_xqa.cu, each library for one page, group of heads and dtype of the cache."""

    def __init__(self, paths, stream):
        v, i, f = ctypes.c_void_p, ctypes.c_int, ctypes.c_float
        self.stream, self.libs = stream, {}
        for path in paths:
            lib = ctypes.CDLL(path)
            lib.peer_xqa_run.argtypes = [v] * 6 + [i] * 3 + [f, f, v, v, i, i, v]
            self.libs[lib.peer_xqa_page(), lib.peer_xqa_group(), bool(lib.peer_xqa_fp8())] = lib
        self.semaphores = torch.zeros(8 << 20, device=race.DEV, dtype=torch.uint8)
        self.scratch = torch.empty(120 << 20, device=race.DEV, dtype=torch.uint8)
        self.sms = getattr(torch.cuda.get_device_properties(0), "multi_processor_count", 1)

    def candidates(self, p):
        r = p.row
        fp8 = r.kv != "bf16"
        lib = self.libs.get((r.page, r.hq // r.hkv, fp8))
        if lib is None or r.scales == "head":
            return None
        k_scale, v_scale = (t.item() if t is not None else 1 for t in (p.k_scale, p.v_scale))
        args = [
            [t.data_ptr() for t in (p.q[i], *p.pages(i), p.out[i], p.table[i], p.kv_lens)]
            + [r.b, r.hkv, p.table[i].shape[1], k_scale / v_scale, v_scale]
            + [self.semaphores.data_ptr(), self.scratch.data_ptr(), self.sms]
            for i in range(p.n_sets)
        ]

        def call(i, pdl):
            error = lib.peer_xqa_run(*args[i], pdl, self.stream)
            if error:
                raise RuntimeError("cudaError_t %d" % error)

        worst = 0.1 if fp8 else WORST  # it has queries and weights in e4m3, too
        return [
            Candidate(label, lambda i, pdl=pdl: call(i, pdl), lambda _: p.out[0], "pages", worst)
            for label, pdl in (("plain", 0), ("pdl", 1))
        ]


def self_test():
    """The answers of all forms, against PyTorch's attention in fp64 on dense copies."""
    from mha_rows import Row

    class Bench:
        def sets(self, _):
            return 2

        def calls(self, sets, _):
            return sets

    race.DEV = "cpu"
    torch.manual_seed(0)
    torch.cuda.current_stream = lambda: type("", (), {"synchronize": lambda self: None})()

    def dense(p, form, b):
        k, v = (torch.stack(t) for t in zip(*(p.keys(form, b, h) for h in range(p.row.hkv))))
        q = p.q[0, p.q_begin[b] : p.q_begin[b + 1]].transpose(0, 1)
        causal = p.row.prefill and p.row.causal
        y = F.scaled_dot_product_attention(q.double()[None], k[None], v[None], is_causal=causal, enable_gqa=True)
        return y[0].transpose(0, 1)

    def element(p, form, b, h, j, which):
        """Row j of K or V by the definition of the form."""
        r, flat = p.row, p.kv[0, which].to(torch.float64).view(-1, p.row.d)
        if form == "pages":
            at = (int(p.table[0][b, j // r.page]) * r.page + j % r.page) * r.hkv + h
        else:
            at = (p.begin[b] + j) * r.hkv + h if form == "tokens" else (b * r.hkv + h) * r.s + j
        scale = (p.k_scale, p.v_scale)[which]
        return flat[at] * (1 if scale is None else scale.double()[h if r.scales == "head" else 0])

    rows = (
        (Row(3, 48, 8, 2, d=64), ("pages", "tokens", "heads")),
        (Row(5, 300, 8, 1, log=True, d=64), ("pages", "tokens")),
        (Row(2, 32, 4, 4, kv="e4m3", scales="head", d=64), ("pages",)),
        (Row(2, 32, 4, 2, kv="e4m3", scales="tensor", page=1, d=64), ("pages",)),
        (Row(1, 96, 4, 2, page=0, d=64), ("tokens", "heads")),
        (Row(2, 96, 4, 2, page=0, d=64, sq=50, causal=False), ("tokens", "heads")),
        (Row(3, 96, 4, 2, page=0, d=64, sq=50, causal=False, varlen=True), ("tokens",)),
        (Row(3, 96, 4, 2, page=0, d=64, causal=False, varlen=True), ("tokens",)),
    )
    for row, forms in rows:
        p = Problem(row)
        p.allocate(Bench())
        answers = {}
        for form in forms:
            b, h = row.b - 1, row.hkv - 1
            for which, t in enumerate(p.keys(form, b, h)):
                assert torch.equal(t, torch.stack([element(p, form, b, h, j, which) for j in range(p.lens[b])]))
            whole = torch.cat([dense(p, form, b) for b in range(row.b)])
            answers[form] = p.sampled(whole)
            off = (answers[form] - p.expected(form)).abs().max().item()
            assert off < 1e-12, (row, form, off)
            got = whole.to(torch.bfloat16)
            assert p.error(Candidate("", lambda i: got, lambda y: y, form)) < 0.003
            wrong = got.clone()
            wrong[p.q_begin[p.pairs[0][0]] + (p.queries[0] if row.prefill else 0), p.pairs[0][1]] *= 1.2
            for bad in (wrong, got * math.nan, got[:0]):
                try:
                    p.error(Candidate("", lambda i: bad, lambda y: y, form))
                except RuntimeError:
                    continue
                raise AssertionError((row, form, bad.shape))
        if row.kv != "bf16":  # the scales count
            k, v = p.keys("pages", 0, 1)
            p.k_scale, p.v_scale = None, None
            assert not torch.equal(p.keys("pages", 0, 1)[1], v)
        elif len(forms) > 1:  # and the permutation
            assert (answers[forms[0]] - answers[forms[1]]).abs().max() > 0.01
        if not row.prefill:
            table, perm = p.table[1], p.perm[1]
            flat = torch.cat([table[b, :n] for b, n in enumerate(row.blocks)])
            assert torch.equal(flat, perm) and torch.equal(perm.sort()[0], torch.arange(len(perm), dtype=torch.int32))
        if row.kv == "bf16" and not row.log and not row.varlen:  # what the GPU's backends are given
            for c in sdpa("MATH")(p):
                assert p.error(c) < WORST, c.label
    print("mha_torch: fine")


if __name__ == "__main__":
    self_test()
