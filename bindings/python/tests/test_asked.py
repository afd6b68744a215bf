# SPDX-License-Identifier: MIT
"""examples/asked.py: all that it asks for is right."""

import os
import subprocess
import sys

import pytest


def test_all_is_right():
    bench = os.path.join(os.path.dirname(os.environ.get("RFG_LIBRARY", "")), "bin", "rfg-bench")
    if not os.path.exists(bench):
        pytest.skip("no rfg-bench beside the library")
    script = os.path.join(os.environ["RFG_SOURCE_ROOT"], "examples", "asked.py")
    done = subprocess.run([sys.executable, script, "--bench", bench], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout.splitlines()[-1].endswith(" 0 wrong through Python"), done.stdout + done.stderr
