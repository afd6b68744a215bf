# SPDX-License-Identifier: MIT
"""Shared by aiter_counters.py's operators: launching AITER's code objects, and the report of a problem's counters."""
import collections
import csv
import os
import tempfile

import numpy as np

from emu_counters import Wrong, emulate, to_bits

CHECKS = ["registers", "waits", "lds", "races", "hazards", "barriers"]

Out = collections.namedtuple("Out", "bytes")    # a buffer of zeroes, which is read back
Zeroes = collections.namedtuple("Zeroes", "bytes")
# One row of the tables: counters, whose ("ours" or "AITER"), and of what. minimal: bytes, by the operator's definition.
Count = collections.namedtuple("Count", "who how counters minimal")
# What a larger problem of the same launch adds: counters of both, and how many pieces of work (PIECE) lie between.
Loop = collections.namedtuple("Loop", "who less more pieces")


def attributes(text, **defaults):
    """The numbers of a problem "op types KEY=N ...", and what is left of its keys."""
    left = dict(w.split("=", 1) for w in text.split()[2:])
    return {k: int(left.pop(k, v)) for k, v in defaults.items()}, left


def cus_of(args):
    return int(args.device.split(":")[2])


def table(args, path):
    """Rows of one of the wheel's lists of kernels, dicts of text."""
    path = os.path.join(args.aiter, path)
    if not os.path.exists(path):
        raise Wrong("--aiter: there is no %s" % path)
    with open(path, newline="") as f:
        return list(csv.DictReader(f))


def launch(text, args, name, grid, threads, values, off, turn=False):
    """Runs the code object's only kernel with `off` of the checks left out; turn: its waves take turns of one instruction.

    values: arrays, Out, Zeroes, None, ints (u32) and floats, each padded to 16 bytes as the structures of AITER's
    csrc/py_itfs_cu/asm_*.cu. Gives the counters, the Out's bytes, and what to write beside the problem."""
    path = os.path.join(args.aiter, name)
    if not os.path.exists(path):
        raise Wrong("--aiter: there is no %s" % path)
    with tempfile.TemporaryDirectory() as folder:
        words, out = [], os.path.join(folder, "out")
        for i, x in enumerate(values):
            if isinstance(x, np.ndarray):
                file = os.path.join(folder, "arg%d" % i)
                x.tofile(file)
                words += ["in:" + file, "i64:0"]
            elif isinstance(x, (Out, Zeroes)):
                words += ["out:%s:%d" % (out, x.bytes) if isinstance(x, Out) else "zero:%d" % x.bytes, "i64:0"]
            elif x is None:
                words += ["null", "i64:0"]
            else:
                words += ["f32:%r" % x if isinstance(x, float) else "u32:%d" % x] + 3 * ["u32:0"]
        checks = ",".join(c for c in CHECKS if c not in off)
        c = emulate("%s, %s" % (text, name), path, grid, threads, 0, words, args, checks, 1 if turn else None)
        how = os.path.basename(name) + "".join(", without " + ", ".join(sorted(off)) if off else "")
        return c, np.fromfile(out, np.uint8), how + (", in turn" if turn else "")


# ---- operands ---------------------------------------------------------------------------------------------------------

def random_bf16(rng, shape, size):
    return to_bits(rng.uniform(-size, size, shape).astype(np.float32), "bf16")


def shuffled(w, rows=16):
    """A matrix (or several), as its bytes lie: by `rows` rows, of each 16 bytes: [rows of w / rows][bytes / 16][rows][16]."""
    b = np.ascontiguousarray(w).reshape(-1, w.shape[-1]).view(np.uint8)
    return np.ascontiguousarray(b.reshape(len(b) // rows, rows, -1, 16).transpose(0, 2, 1, 3))
