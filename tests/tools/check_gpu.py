#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A ten-minute check of a GPU that rfg's authors don't have: ./dev check-gpu [DEVICE] writes a report to send to the authors. It has the machine,
rfg's view of it, the operators' results beside the double-precision oracle, the replay of a captured graph, and the speed of the tuner's winners
beside the vendor's library. The report is Markdown, without the user's and the
host's name; this program sends nothing. Nothing outside the report and a temporary folder is written.
Exit: 0 all passed; 1 something failed (the report says what); 2 bad usage."""

import argparse
import datetime
import os
import platform
import re
import subprocess
import sys
import tempfile
import time

TESTS = ["device", "act", "norm", "gemm", "prepack", "mha_rules", "mha"]


def say(*words):
    print(*words, flush=True)


def readable(path, most=4000):
    try:
        with open(path, errors="replace") as f:
            return f.read(most).strip()
    except OSError as e:
        return f"({e.strerror})"


def nodes():
    """The GPUs among KFD's topology nodes, in a line each, with their caches by level."""
    root = "/sys/class/kfd/kfd/topology/nodes"
    for node in sorted(os.listdir(root) if os.path.isdir(root) else [], key=int):
        values = dict(re.findall(r"^(\S+) (\d+)$", readable(f"{root}/{node}/properties"), re.M))
        if values.get("simd_count", "0") == "0":
            continue
        kib = {}
        caches = f"{root}/{node}/caches"
        for c in os.listdir(caches) if os.path.isdir(caches) else []:
            c = dict(re.findall(r"^(\S+) (\d+)$", readable(f"{caches}/{c}/properties"), re.M))
            kib.setdefault(c.get("level"), []).append(int(c.get("size", 0)))
        wanted = ("gfx_target_version", "simd_count", "simd_per_cu", "num_xcc", "array_count", "max_engine_clk_fcompute", "device_id")
        yield f"node {node}: " + ", ".join(f"{k} {values[k]}" for k in wanted if k in values) + \
              "".join(f"; level-{n} caches {len(s)} of {max(s)} KiB" for n, s in sorted(kib.items()) if n)


def nameless(text):
    """Without whom the machine belongs to."""
    for secret, name in (os.path.expanduser("~"), "~"), (platform.node(), "HOST"), (os.environ.get("USER", ""), "USER"):
        if len(secret) > 2 and secret != "root":
            text = text.replace(secret, name)
    return text


def machine():
    lines = [f"system: {platform.system()} {platform.release()} {platform.machine()}"]
    lines += re.findall(r'^PRETTY_NAME="(.*)"', readable("/etc/os-release"), re.M)
    lines += [f"cpu: {m}" for m in re.findall(r"^model name\s*: (.*)", readable("/proc/cpuinfo"), re.M)[:1]]
    lines.append(f"cores: {os.cpu_count()}")
    for path in ("/opt/rocm/.info/version", "/sys/module/amdgpu/version", "/proc/driver/nvidia/version"):
        if os.path.exists(path):
            lines.append(f"{path}: {readable(path, 200).splitlines()[0]}")
    for path in ["/dev/kfd"] + sorted(f"/dev/dri/{d}" for d in (os.listdir("/dev/dri") if os.path.isdir("/dev/dri") else []) if d.startswith("render")):
        there = os.path.exists(path)
        lines.append(f"{path}: " + ("not there" if not there else "can be opened" if os.access(path, os.R_OK | os.W_OK) else "no permission"))
    lines += [f"{k}={v}" for k, v in sorted(os.environ.items()) if re.match(r"(HIP|ROCR|HSA|GPU|AMD|ROCM|CUDA|NCCL|RFG)_", k)]
    return lines + list(nodes())


class Report:
    def __init__(self, o):
        self.o, self.steps, self.text, self.machine = o, [], [], machine()
        self.began = time.monotonic()

    def left(self):
        return 60 * self.o.minutes - (time.monotonic() - self.began)

    def run(self, name, command, seconds, env=None, keep=4000, failed=None):
        """One step. failed: a pattern of output that makes a step a failure whose exit code is 0."""
        seconds = min(seconds, self.left())
        if seconds < 5:
            self.steps.append((name, "not run", 0, "no time left"))
            return None
        say(f"... {name}")
        began = time.monotonic()
        try:
            done = subprocess.run(command, env=dict(os.environ, **(env or {})), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  stdin=subprocess.DEVNULL, timeout=seconds, text=True, errors="replace")
            out, how = done.stdout, "" if done.returncode == 0 else f"exit code {done.returncode}" if done.returncode > 0 else f"killed by signal {-done.returncode}"
            if not how and failed and re.search(failed, out):
                how = "see below"
        except subprocess.TimeoutExpired as e:
            out = e.stdout or ""
            out, how = out if isinstance(out, str) else out.decode(errors="replace"), f"stopped after {seconds:.0f} s"
        except OSError as e:
            out, how = "", f"{command[0]}: {e.strerror}"
        verdict = "failed" if how else "passed"
        self.steps.append((name, verdict, time.monotonic() - began, how))
        say(f"    {verdict}{': ' + how if how else ''} ({time.monotonic() - began:.1f} s)")
        if len(out) > keep:
            out = out[:keep // 2] + "\n[...]\n" + out[-keep // 2:]
        self.text.append(f"## {name}\n\n`{' '.join(os.path.basename(c) if c.startswith('/') else c for c in command)}`\n\n```\n{out.strip()}\n```\n")
        return None if how else out

    def failed(self):
        return any(s[1] == "failed" for s in self.steps)

    def write(self):
        with open(self.o.out, "w") as f:
            f.write(f"# rfg on {self.o.device}, {datetime.date.today().isoformat()}\n\n| step | | seconds | |\n|---|---|---|---|\n")
            for name, verdict, seconds, how in self.steps:
                f.write(f"| {name} | {verdict} | {seconds:.1f} | {how} |\n")
            f.write(nameless("\n## The machine\n\n```\n" + "\n".join(self.machine) + "\n```\n\n" + "\n".join(self.text)))


def main(argv):
    p = argparse.ArgumentParser(prog="./dev check-gpu", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("device", nargs="?", default="amd:0", help="as rfg names it (default %(default)s)")
    p.add_argument("--build", default="build", help=argparse.SUPPRESS)
    p.add_argument("--out", help="the report (default: check-gpu.md)", default="check-gpu.md")
    p.add_argument("--minutes", type=float, default=10, help="how long it may take in all (default %(default)s)")
    p.add_argument("--tests", default=",".join(TESTS), help="of the operators (default %(default)s)")
    o = p.parse_args(argv)
    unknown = [t for t in o.tests.split(",") if t not in TESTS]
    if unknown:
        p.error(f"--tests: '{unknown[0]}': must be some of {','.join(TESTS)}")
    build = os.path.abspath(o.build)
    tool, source = (lambda name: f"{build}/bin/{name}"), os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    r = Report(o)
    try:
        with tempfile.TemporaryDirectory() as tmp:
            os.environ.update(RFG_DB=f"{tmp}/user.db", RFG_CACHE_DIR=f"{tmp}/cache", RFG_BINDIR=f"{build}/bin", RFG_SOURCE_ROOT=source)
            r.run("what rfg sees", [tool("rfg-info")], 60)
            first = r.run("one product", [tool("rfg-bench"), "--device", o.device, "--problem", "gemm bf16,bf16->bf16 M=8 N=512 K=1024"], 120)
            if first is not None: # else there is no such device: the rest would say nothing more
                r.run("a decoder layer, captured and replayed", [f"{build}/examples/decoder_layer", o.device], 90)
                r.run("what the device takes", [tool("rfg-tune"), "--calibrate", "--device", o.device], 60)
                for t in o.tests.split(","):
                    r.run(f"test-{t}", [f"{build}/tests/test-{t}"], 100, env={"RFG_TEST_DEVICES": o.device, "RFG_TEST_CONFIGS": "1", "CK_VERBOSITY": "normal"})
                r.run("tuning", [tool("rfg-tune"), "--device", o.device, "--shapes", f"{source}/examples/shapes.csv", "--per-shape", "1",
                                 "--time-budget", "90"], 180, keep=8000)
                r.run("the winners' rows", [tool("rfg-db"), "export", f"{tmp}/user.db"], 30, keep=40000)
                r.run("winners beside the vendor's", [tool("rfg-bench"), "--device", o.device, "--all-variants", "--max-seconds", "0.2", "--problem",
                                                      "gemm bf16,bf16->bf16 M=8 N=2112 K=7168"], 120, keep=8000)
                r.run("the cost of a call", [tool("rfg-bench"), "--device", o.device, "--dispatch", "--problem", "gemm bf16,bf16->bf16 M=8 N=512 K=1024"], 60)
    finally:
        r.write()
    say(f"{o.out}: {sum(s[1] == 'passed' for s in r.steps)} steps passed, {sum(s[1] == 'failed' for s in r.steps)} failed, "
        f"{sum(s[1] == 'not run' for s in r.steps)} not run. Please read it and send it to us.")
    return 1 if r.failed() else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
