#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""run.py python|python_torch: pytest on the files of that part, with a cache and databases of its own. Its last line counts as a
Check suite's does. The torch part is run by $RFG_TORCH_PYTHON if set (a Python of the same version, with torch and pytest)."""

import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    part = sys.argv[1]
    python = os.environ.get("RFG_TORCH_PYTHON", sys.executable) if part == "python_torch" else sys.executable
    if part == "python_torch" and subprocess.run([python, "-c", "import torch, pytest"], stderr=subprocess.DEVNULL).returncode:
        print("SKIPPED: rfg.torch: no torch (pip install torch; RFG_TORCH_PYTHON names the Python that has it)")
        return 77
    names = [n for n in sorted(os.listdir(HERE)) if n.startswith("test_torch" if part == "python_torch" else "test_") and n.endswith(".py")]
    if part == "python":
        names = [n for n in names if not n.startswith("test_torch")]
    with tempfile.TemporaryDirectory(prefix="rfg-python-") as folder:
        env = dict(os.environ, XDG_DATA_HOME=folder, XDG_CACHE_HOME=folder, RFG_DEVICE="cpu")
        for name in ("RFG_DB", "RFG_CACHE_DIR", "RFG_VARIANTS"):
            env.pop(name, None)
        command = [python, "-m", "pytest", "-q", "-rfEs", "-p", "no:cacheprovider", "--rootdir", HERE] + [os.path.join(HERE, n) for n in names]
        done = subprocess.run(command + sys.argv[2:], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    print(done.stdout, end="")
    for why in re.findall(r"^SKIPPED.*", done.stdout, re.M):
        print("SKIPPED: " + why)
    counts = {word: int(n) for n, word in re.findall(r"(\d+) (passed|failed|error|skipped)", done.stdout)}
    failed = counts.get("failed", 0)
    print("Checks: %d, Failures: %d, Errors: %d" % (counts.get("passed", 0) + failed + counts.get("error", 0), failed, counts.get("error", 0)))
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
