#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The output of `rfg-tune --dry-run -v` for devices that aren't there, problem by problem: the parameter sets that would be tried, the model's time
for each, the refused ones, with reasons and counts. model.tsv has a checksum of each; no kernel runs, so nothing else sees most of these numbers.

  model.py RFG-TUNE            compares
  model.py RFG-TUNE --record   writes model.tsv anew: for changes of a model or a rule that are meant
"""
import concurrent.futures
import hashlib
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TABLE = HERE + "/model.tsv"
DEVICES = ["gfx942:304", "gfx90a:104", "gfx1100:96", "gfx950:256", "gfx1201:64", "sm_90:132"]
# Vendors' libraries are no matter of the model: none is found, and what is said of that is left out.
NO_LIBRARIES = {"RFG_LIB" + name: "/nonexistent" for name in ("CUBLASLT", "HIPBLASLT", "ROCBLAS")}
LIBRARY = re.compile(r"^  \w*blas\w*: ")


def said(program, device, problems):
    """{problem: text}; candidates sorted by their text: which of two equal ones comes first, the last bit of a logarithm says."""
    with tempfile.TemporaryDirectory() as tmp:
        command = [program, "--dry-run", "-v", "--device", device, "--db", tmp + "/none.db"]
        for p in problems:
            command += ["--problem", p]
        done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ, XDG_DATA_HOME=tmp, XDG_CACHE_HOME=tmp, **NO_LIBRARIES))
    if done.returncode:
        sys.exit("%s: %s" % (device, done.stderr or done.stdout))
    blocks = re.split(r"^(?=\S.*\(floor )", done.stdout, flags=re.M)[1:]
    if len(blocks) != len(problems):
        sys.exit("%s: %d problems, %d answers" % (device, len(problems), len(blocks)))
    return {p: "\n".join(sorted(line for line in b.split("\n") if not LIBRARY.match(line))) for p, b in zip(problems, blocks)}


def main():
    program, record = sys.argv[1], "--record" in sys.argv[2:]
    with open(TABLE) as file:
        rows = [line.rstrip("\n").split("\t") for line in file if not line.startswith("#")]
    problems = [r[0] for r in rows]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        answers = list(pool.map(lambda d: said(program, d, problems), DEVICES))
    sums = {p: [hashlib.sha256(a[p].encode()).hexdigest()[:8] for a in answers] for p in problems}
    if record:
        with open(TABLE, "w") as file:
            file.write("# tests/tools/model.py --record\n# problem\t%s\n" % "\t".join(DEVICES))
            file.writelines("\t".join([p] + sums[p]) + "\n" for p in problems)
        return 0
    wrong = 0
    for p, *old in rows:
        for device, was, now in zip(DEVICES, old + [""] * len(DEVICES), sums[p]):
            if was != now:
                wrong += 1
                if wrong <= 10:
                    print('other than it was: rfg-tune --dry-run -v --device %s --problem "%s"' % (device, p))
    print("%d passed, %d failed" % (len(rows) * len(DEVICES) - wrong, wrong))
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
