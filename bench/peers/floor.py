# SPDX-License-Identifier: MIT
"""The floor: the kernel of floor.cu, which only reads so many bytes; and the libraries of build.sh."""

import ctypes
import os
import subprocess
import tempfile

import torch

import race


def checked(status, what):
    if status:
        raise RuntimeError("%s: status %d" % (what, status))


def built(name, path):
    """The library of build.sh, built if it wasn't named."""
    if path:
        return path
    out = os.path.join(tempfile.mkdtemp(prefix="rfg_peers."), name + ".so")
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "build.sh")
    r = subprocess.run([script, name, out], capture_output=True, text=True)
    if r.returncode:
        raise RuntimeError("build.sh %s: %s" % (name, (r.stderr.strip().splitlines() or ["?"])[-1]))
    return out


class Floor:
    """Its configuration is chosen once for each key, such as a size."""

    def __init__(self, path, stream):
        self.lib, self.stream, self.chosen = ctypes.CDLL(path), stream, {}
        v, i = ctypes.c_void_p, ctypes.c_int
        self.lib.peer_floor_read.argtypes = [v, ctypes.c_uint64, i, i, i, i, v, v, v]
        self.x = torch.zeros(1024, device=race.DEV)
        self.y = torch.empty(4096, device=race.DEV)

    def call(self, pointers, size, grid, block, unroll, overlap):
        run, stream, xy = self.lib.peer_floor_read, self.stream, (self.x.data_ptr(), self.y.data_ptr())
        return lambda i: checked(run(pointers[i], size, grid, block, unroll, overlap, *xy, stream), "floor")

    def contestant(self, bench, text, key, pointers, size, calls, most, overlap):
        """(label, call of a set) for size bytes (a multiple of 16) at each of the pointers, or None."""
        if key not in self.chosen:
            tried = [
                (grid, block, unroll)
                for grid in (128, 264, 528, 1056)
                for block in (128, 256, 512)
                for unroll in (4, 8)
                if grid * block <= 132 * 2048
            ]
            candidates = [("grid %d block %d unroll %d" % t, self.call(pointers, size, *t, overlap)) for t in tried]
            won = bench.fastest("%s, floor" % text, candidates, len(pointers), calls, rounds=3, finalists=6, most=most)
            if won is None:
                return None
            self.chosen[key] = won[0], tried[[c[0] for c in candidates].index(won[0])]
        label, t = self.chosen[key]
        return label, self.call(pointers, size, *t, overlap)
