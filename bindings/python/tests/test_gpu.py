# SPDX-License-Identifier: MIT
"""Device memory, streams and contexts of a GPU: on the emulated MI300X of an emulated ROCm (docs/emulator.md)."""

import os
import subprocess
import sys

import pytest


def test_amd():
    rocm = os.environ.get("EMULATED_ROCM_DIR", "")
    if not os.path.isdir(rocm):
        pytest.skip("no emulated ROCm is built")
    env = dict(os.environ, LD_LIBRARY_PATH=rocm, EMULATED_ROCM_GPUS="MI300X:4")
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "on_gpu.py")
    done = subprocess.run([sys.executable, script], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0 and "right on amd:0" in done.stdout, done.stdout
