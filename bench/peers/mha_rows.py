# SPDX-License-Identifier: MIT
"""The problems of mha_peers.py, their sizes and their order. Run alone it tests itself."""

import dataclasses
import math
import random

K = 1024


@dataclasses.dataclass(frozen=True)
class Row:
    """b sequences of s keys; with log, of lengths log-uniform in 16...s. page 0: prefill, s causal queries each."""

    b: int
    s: int
    hq: int = 32
    hkv: int = 8
    page: int = 16
    kv: str = "bf16"  # or "e4m3"
    scales: str = "none"  # "tensor", "head": of e4m3
    log: bool = False
    d: int = 128

    @property
    def prefill(self):
        return self.page == 0

    @property
    def problem(self):
        """rfg's string."""
        sizes = "bf16->bf16 B=%d Hq=%d Hkv=%d D=%d" % (self.b, self.hq, self.hkv, self.d)
        if self.prefill:
            return "mha %s Sq=%d S=%d causal=1" % (sizes, self.s, self.s)
        fp8 = " kv=%s scales=%s" % (self.kv, self.scales) if self.kv != "bf16" else ""
        return "mha_decode %s S=%d page=%d%s" % (sizes, self.s, self.page, fp8)

    @property
    def text(self):
        return self.problem + (" lens=log" if self.log else "")

    @property
    def lens(self):
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
        return self.kv_bytes + 4 * self.b * (self.s if self.prefill else 1) * self.hq * self.d

    @property
    def blocks(self):
        """Of each sequence."""
        return [-(-n // self.page) for n in self.lens]

    @property
    def flops(self):
        """Of the two products; causal: half of the square, as FlashAttention counts."""
        return 4 * self.hq * self.d * (self.b * self.s * self.s // 2 if self.prefill else sum(self.lens))


ROWS = (
    [Row(1, s * K) for s in (1, 4, 16, 128)]
    + [Row(b, s * K) for b in (8, 32, 64, 256) for s in (1, 4, 16)]
    + [Row(64, 32 * K, log=True)]
    + [Row(b, s * K, hq, hkv) for hq, hkv in ((64, 8), (128, 1)) for b, s in ((32, 4), (1, 16))]
    + [Row(32, 4 * K, page=page) for page in (1, 64, 128)]
    + [Row(32, 4 * K, kv="e4m3", scales=scales) for scales in ("tensor", "head")]
    + [Row(1, s * K, page=0) for s in (2, 8, 32)]
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
