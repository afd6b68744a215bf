# SPDX-License-Identifier: MIT
"""The problems of mha_peers.py, their sizes and their order. Run alone it tests itself."""

import dataclasses
import math
import random

K = 1024


@dataclasses.dataclass(frozen=True)
class Row:
    """b sequences of s keys; with log, of lengths log-uniform in 16...s. page 0: prefill of sq queries each, 0: s.
    varlen: sequences of half to all of so many keys and queries (as many queries as keys where sq is s)."""

    b: int
    s: int
    hq: int = 32
    hkv: int = 8
    page: int = 16
    kv: str = "bf16"  # or "e4m3"
    scales: str = "none"  # "tensor", "head": of e4m3
    log: bool = False
    d: int = 128
    sq: int = 0
    causal: bool = True  # prefill
    varlen: bool = False  # prefill

    @property
    def prefill(self):
        return self.page == 0

    @property
    def problem(self):
        """rfg's string."""
        sizes = "bf16->bf16 B=%d Hq=%d Hkv=%d D=%d" % (self.b, self.hq, self.hkv, self.d)
        if self.prefill:
            more = " causal=1" * self.causal + " varlen=1" * self.varlen
            return "mha %s Sq=%d S=%d%s" % (sizes, self.queries, self.s, more)
        fp8 = " kv=%s scales=%s" % (self.kv, self.scales) if self.kv != "bf16" else ""
        return "mha_decode %s S=%d page=%d%s" % (sizes, self.s, self.page, fp8)

    @property
    def text(self):
        return self.problem + (" lens=log" if self.log else "")

    @property
    def queries(self):
        """The most of a sequence."""
        return (self.sq or self.s) if self.prefill else 1

    @property
    def q_lens(self):
        if not self.varlen:
            return [self.queries] * self.b
        return self.lens if self.queries == self.s else halves(self.queries, self.b, 5)

    @property
    def lens(self):
        if self.varlen:
            return halves(self.s, self.b, 7)
        if not self.log:
            return [self.s] * self.b
        rng = random.Random(7)
        return [round(16 * (self.s / 16) ** rng.random()) for _ in range(self.b)]

    @property
    def kv_bytes(self):
        """Of K and V: what has to be read."""
        return 2 * sum(self.lens) * self.hkv * self.d * (2 if self.kv == "bf16" else 1)

    @property
    def bytes(self):
        """With q and out."""
        return self.kv_bytes + 4 * sum(self.q_lens) * self.hq * self.d

    @property
    def blocks(self):
        """Of each sequence."""
        return [-(-n // self.page) for n in self.lens]

    @property
    def flops(self):
        """Of the two products; causal: half of the square, as FlashAttention counts."""
        pairs = sum(q * k for q, k in zip(self.q_lens, self.lens))
        return 4 * self.hq * self.d * (pairs // 2 if self.prefill and self.causal else pairs)


def halves(most, n, seed):
    """n lengths of half to all of most, of which one is."""
    rng = random.Random(seed)
    return [most] + [rng.randint(most // 2, most) for _ in range(n - 1)]


ROWS = (
    [Row(1, s * K) for s in (1, 4, 16, 128)]
    + [Row(b, s * K) for b in (8, 32, 64, 256) for s in (1, 4, 16)]
    + [Row(64, 32 * K, log=True)]
    + [Row(b, s * K, hq, hkv) for hq, hkv in ((64, 8), (128, 1)) for b, s in ((32, 4), (1, 16))]
    + [Row(32, 4 * K, page=page) for page in (1, 64, 128)]
    + [Row(32, 4 * K, kv="e4m3", scales=scales) for scales in ("tensor", "head")]
    + [Row(1, s * K, page=0) for s in (2, 8, 32)]
    # encoders and cross attention: BERT's and ViT's sizes, Whisper's decoder
    + [
        Row(1, 4 * K, 16, 16, 0, d=64, causal=False),
        Row(32, 512, 16, 16, 0, d=64, causal=False, varlen=True),
        Row(8, 4 * K, 16, 16, 0, d=80, causal=False, varlen=True),
        Row(8, 1500, 20, 20, 0, d=64, sq=448, causal=False),
        Row(8, 2 * K, 20, 20, 0, d=64, sq=448, causal=False, varlen=True),
    ]
)


def numbers(text, most):
    """{0, 1, 2, 6} of "1-3,7"; raises ValueError."""
    out = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        a, b = int(first), int(last if dash else first)
        if not 1 <= a <= b <= most:
            raise ValueError("%s: rows are 1 to %d" % (part, most))
        out |= set(range(a - 1, b))
    return out


def listing(rows):
    """One line each."""
    return [
        "%2d %-74s %9.1f MB of K and V, %8.1f GFLOP" % (ROWS.index(r) + 1, r.text, r.kv_bytes / 1e6, r.flops / 1e9)
        for r in rows
    ]


def self_test():
    assert len({r.text for r in ROWS}) == len(ROWS)
    r = Row(32, 4096)
    assert r.text == "mha_decode bf16->bf16 B=32 Hq=32 Hkv=8 D=128 S=4096 page=16" and r.kv_bytes == 1 << 29
    assert r.blocks == [256] * 32 and r.bytes == (1 << 29) + 2 * 2 * 32 * 32 * 128
    r = Row(32, 4096, kv="e4m3", scales="head")
    assert r.text.endswith("S=4096 page=16 kv=e4m3 scales=head") and r.kv_bytes == 1 << 28
    r = Row(1, 2048, page=0)
    assert r.text == "mha bf16->bf16 B=1 Hq=32 Hkv=8 D=128 Sq=2048 S=2048 causal=1"
    assert r.flops == 4 * 32 * 128 * 2048 * 1024
    r = Row(8, 2048, 20, 20, 0, d=64, sq=448, causal=False, varlen=True)
    assert r.text == "mha bf16->bf16 B=8 Hq=20 Hkv=20 D=64 Sq=448 S=2048 varlen=1"
    assert max(r.lens) == 2048 and min(r.lens) >= 1024 and max(r.q_lens) == 448 and len(r.q_lens) == 8
    assert r.flops == 4 * 20 * 64 * sum(q * k for q, k in zip(r.q_lens, r.lens))
    r = Row(32, 512, 16, 16, 0, d=64, causal=False, varlen=True)
    assert r.lens == r.q_lens and r.bytes == 2 * r.kv_bytes
    r = [r for r in ROWS if r.log][0]
    assert r.lens == r.lens and len(r.lens) == 64 and 16 <= min(r.lens) < 64 and 16 * K < max(r.lens) <= 32 * K
    middle = sorted(r.lens)[32]
    assert abs(math.log(middle / 724)) < 1, middle  # the geometric middle of 16...32k
    assert r.blocks[0] == math.ceil(r.lens[0] / 16)
    assert numbers("1-3,7", 9) == {0, 1, 2, 6} and len(listing(ROWS)) == len(ROWS)
    for bad in ("0", "3-2", "10", "x", ""):
        try:
            numbers(bad, 9)
            raise AssertionError(bad)
        except ValueError:
            pass
    print("mha_rows: fine")


if __name__ == "__main__":
    self_test()
