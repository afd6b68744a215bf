#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""torch_venv.py BUILDDIR [newest|oldest ...] [-- pytest's arguments]: runs the tests of rfg.torch under the newest PyTorch and
transformers and the oldest that are supported, on cpu, in virtual environments of .venv-torch, which it makes once. Its last line
counts as that of ./dev test does.

PyPI's PyTorch for x86-64 is CUDA's, and can't be loaded without 2.5 GB of NVIDIA's libraries. No test here calls them: each one that
is missing is made as a stub, whose functions say that there is no device. That takes a C compiler, readelf and nm."""

import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
VENVS = os.path.join(ROOT, ".venv-torch")

# What is tested, each with all that it needs, but NVIDIA's and triton. A change of it makes the environment anew.
PACKAGES = {
    "newest": """
        torch==2.15.0 transformers==5.24.0 pytest==9.2.0 numpy==2.4.6 annotated-doc==0.0.7 annotated-types==0.8.0
        anyio==4.16.0 click==8.5.1 filelock==4.3.1 fsspec==2026.9.0 h11==0.16.0 hf-xet==1.8.0 httpcore2==2.16.2
        httpx2==2.16.2 huggingface-hub==2.4.0 idna==3.20 iniconfig==2.3.1 jinja2==3.1.6 markdown-it-py==4.3.0
        markupsafe==3.0.4 mdurl==0.1.2 mpmath==1.4.1 networkx==3.6.1 packaging==26.4 pluggy==1.7.0 pydantic==2.14.4
        pydantic-core==2.50.5 pygments==2.21.0 pyyaml==6.0.4 regex==2026.11.19 rich==15.0.0 safetensors==0.8.0
        shellingham==1.5.4 sympy==1.14.0 tokenizers==0.23.3 tqdm==4.70.1 truststore==0.10.5 typer==0.29.2
        typing-extensions==4.16.0 typing-inspection==0.4.5
    """.split(),
    "oldest": """
        torch==2.15.0 transformers==5.4.0 pytest==9.2.0 numpy==2.4.6 annotated-doc==0.0.7 annotated-types==0.8.0
        anyio==4.16.0 certifi==2026.10.19.post1 click==8.5.1 filelock==4.3.1 fsspec==2026.9.0 h11==0.16.0 hf-xet==1.8.0
        httpcore==1.0.9 httpx==0.28.1 huggingface-hub==1.33.0 idna==3.20 iniconfig==2.3.1 jinja2==3.1.6
        markdown-it-py==4.3.0 markupsafe==3.0.4 mdurl==0.1.2 mpmath==1.4.1 networkx==3.6.1 packaging==26.4 pluggy==1.7.0
        pydantic==2.14.4 pydantic-core==2.50.5 pygments==2.21.0 pyyaml==6.0.4 regex==2026.11.19 rich==15.0.0
        safetensors==0.8.0 shellingham==1.5.4 sympy==1.14.0 tokenizers==0.22.2 tqdm==4.70.1 typer==0.29.2
        typing-extensions==4.16.0 typing-inspection==0.4.5
    """.split(),
}

# What returns no status.
ANSWERS = {
    "cudaGetErrorString": 'const char *cudaGetErrorString(int e) { return "a stub of bindings/python/torch_venv.py"; }',
    "cudaGetErrorName": 'const char *cudaGetErrorName(int e) { return "cudaErrorNoDevice"; }',
}
NO_DEVICE = 100  # cudaErrorNoDevice
NVIDIA = r"lib(?:cu|nv|nccl)"


def output(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def make_stubs(lib):
    """Libraries of NVIDIA that the ones in `lib` name, and that nobody has, with the functions that they ask for, by version."""
    there = set(os.listdir(lib))
    versions, by_version, plain = {}, {}, set()
    for name in sorted(there):
        if ".so" not in name:
            continue
        path, of = os.path.join(lib, name), None
        for needed in re.findall(r"NEEDED.*\[(%s[^\]]*)\]" % NVIDIA, output("readelf", "-d", path)):
            if needed not in there:
                versions.setdefault(needed, set())
        for file, version in re.findall(r"File: (\S+)|Name: (\S+)", output("readelf", "-VW", path)):
            of = file or of
            if version and of in versions:
                versions[of].add(version)
        for symbol in re.findall(r" [Uw] (\S+)", output("nm", "-D", "--undefined-only", path)):
            function, _, version = symbol.partition("@")
            version = version.strip("@")
            if version:
                by_version.setdefault(version, set()).add(function)
            elif re.match(r"cu[a-zA-Z]|nv|nccl", function):
                plain.add(function)
    for name, its in sorted(versions.items()):
        functions = set().union(*(by_version.get(v, ()) for v in its)) if its else plain
        text = "\n".join(ANSWERS.get(f, "int %s(void) { return %d; }" % (f, NO_DEVICE)) for f in sorted(functions))
        command = [os.environ.get("CC", "cc"), "-shared", "-fno-builtin", "-w", "-x", "c", "-", "-Wl,-soname," + name, "-o", os.path.join(lib, name)]
        if its:
            script = os.path.join(lib, "stubs.map")
            with open(script, "w") as f:
                for v in sorted(its):
                    f.write("%s { global: %s; };\n" % (v, "; ".join(sorted(by_version.get(v, ("none",))))))
            command.append("-Wl,--version-script=" + script)
        subprocess.run(command, input=text, text=True, check=True)


def make(name, python):
    """The environment's Python. It must have the version of the one that rfg's extension is built for."""
    folder = os.path.join(VENVS, name)
    its, stamp = os.path.join(folder, "bin", "python"), os.path.join(folder, "made-of")
    want = "\n".join([output(python, "--version").strip()] + PACKAGES[name]) + "\n"
    if os.path.exists(stamp) and open(stamp).read() == want:
        return its
    print("torch_venv.py: making %s: a gigabyte, minutes" % folder, flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([python, "-m", "venv", folder], check=True)
    subprocess.run([its, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"] + PACKAGES[name], check=True)
    make_stubs(output(its, "-c", "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])").strip() + "/lib")
    subprocess.run([its, "-c", "import torch, transformers, pytest; torch.ones(2) + 1"], check=True)
    with open(stamp, "w") as f:
        f.write(want)
    return its


def main():
    args = sys.argv[1:]
    more = args[args.index("--") + 1 :] if "--" in args else []
    args = args[: args.index("--")] if "--" in args else args
    if not args or not set(args[1:]) <= set(PACKAGES):
        sys.exit(__doc__)
    program = os.path.join(os.path.abspath(args[0]), "bindings", "test-python")
    if not os.path.exists(program):
        print("SKIPPED: rfg.torch: %s is not built" % program)
        print("0 passed, 0 failed, 1 skipped")
        return 1
    python = re.search(r'^exec "([^"]*)"', open(program).read(), re.M).group(1)
    counts = dict.fromkeys(("passed", "failed", "skipped"), 0)
    for name in args[1:] or PACKAGES:
        try:
            its = make(name, python)
        except (subprocess.CalledProcessError, OSError) as why:
            print("torch_venv.py: %s can't be made: %s" % (name, why))
            counts["failed"] += 1
            continue
        print("%s: %s" % (name, " ".join(p for p in PACKAGES[name] if p.startswith(("torch=", "transformers=")))), flush=True)
        done = subprocess.run(["sh", program, "python_torch"] + more, env=dict(os.environ, RFG_TORCH_PYTHON=its), stdout=subprocess.PIPE, text=True)
        print(done.stdout, end="")
        n, failures, errors = map(int, (re.findall(r"^Checks: (\d+), Failures: (\d+), Errors: (\d+)", done.stdout, re.M) or [(0, 0, 0)])[-1])
        bad = max(failures + errors, int(done.returncode not in (0, 77)))
        counts["passed"] += n - failures - errors
        counts["failed"] += bad
        counts["skipped"] += len(re.findall(r"^SKIPPED:", done.stdout, re.M))
    print("%(passed)d passed, %(failed)d failed, %(skipped)d skipped" % counts)
    return int(counts["failed"] > 0 or counts["passed"] == 0)


if __name__ == "__main__":
    sys.exit(main())
