#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints the table of tests/ops/test_blocks.c: what PyPI's gguf makes of blocks that the test makes, too.

    pip install gguf && tests/tools/gguf_blocks.py
"""
import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType as T
from gguf.quants import dequantize

BLOCKS = 512
TYPES = "Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS MXFP4 NVFP4".split()
FILLS = (0x00, 0xFF, 0x7F, 0x80)  # the first blocks; the others are random
M64 = (1 << 64) - 1


def random_bytes(n, state):  # base/util.c's rfg_random(), a byte of each number
    out = bytearray()
    for _ in range(n):
        state = (state + 0x9E3779B97F4A7C15) & M64
        z = state
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & M64
        z = (z ^ z >> 27) * 0x94D049BB133111EB & M64
        out.append((z ^ z >> 31) & 255)
    return bytes(out)


def main():
    for name in TYPES:
        t = T[name]
        elements, size = GGML_QUANT_SIZES[t]
        raw = b"".join(bytes([f]) * size for f in FILLS) + random_bytes((BLOCKS - len(FILLS)) * size, int(t))
        with np.errstate(all="ignore"):
            values = dequantize(np.frombuffer(raw, np.uint8).reshape(BLOCKS, size), t).astype(np.float32)
        bits = np.where(np.isnan(values), np.uint32(0x7FC00000), values.view(np.uint32))
        bits = np.where(bits == 0x80000000, np.uint32(0), bits)  # ggml adds and multiplies in several orders
        h = 0xCBF29CE484222325
        for word in bits.ravel().tolist():
            h = (h ^ word) * 0x100000001B3 & M64
        last = values[-1]
        print(f"    {{ RFG_{name}, {int(t)}, {elements}, {size}, 0x{h:016x}, {{ {', '.join(float(v).hex() for v in last[[0, elements // 2 + 1, elements - 1]])} }} }},")


main()
