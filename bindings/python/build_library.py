#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Builds librfg for the package, of the source tree that it lies in.

  build_library.py --version                    the version
  build_library.py --list                       the files of the prefix, the library first
  build_library.py --check LIBRARY              fails if it isn't a librfg of this version
  build_library.py WORK OUT [MESON OPTIONS]     builds in build-python/ of the tree (in WORK if that can't be written), where
                                                pip's second pass and the next installation find it done; puts the files in
                                                OUT, without folders
"""

import ctypes
import glob
import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAMS = ["rfg-tune", "rfg-db", "rfg-info", "rfg-compile", "rfg-emu", "rfg-bench"]


def version():
    return re.search(r"^  version: '(.*)'", open(ROOT + "/meson.build").read(), re.M)[1]


def files():
    schema = re.search(r"^schema = (\d+)", open(ROOT + "/tuned_configs/meson.build").read(), re.M)[1]
    tuned = sorted({os.path.basename(os.path.dirname(p)) for p in glob.glob(ROOT + "/tuned_configs/*_*/*.csv")})
    library = "lib/librfg.so." + ".".join(version().split(".")[:2])
    return [library] + ["bin/" + p for p in PROGRAMS] + ["share/rfg/%s-v%s.db" % (t, schema) for t in tuned]


def check(path):
    if not os.path.isabs(path):
        sys.exit("-Dlibrary=%s: must be an absolute path" % path)
    try:
        found = ctypes.CDLL(path).rfg_version
    except (OSError, AttributeError) as e:
        sys.exit("-Dlibrary=%s: is no librfg: %s" % (path, e))
    found.restype = ctypes.c_char_p
    if found().decode().split(".")[:2] != version().split(".")[:2]:
        sys.exit("-Dlibrary=%s: is of version %s: must be %s" % (path, found().decode(), version()))


def build(work, out, options):
    build_dir = os.path.join(ROOT, "build-python") if os.access(ROOT, os.W_OK) else os.path.abspath(work)
    root = os.path.join(build_dir, "root")
    env = {k: v for k, v in os.environ.items() if k != "DESTDIR" and not k.startswith("MESON")}
    setup = ["meson", "setup", build_dir, ROOT, "--prefix=/usr", "--libdir=lib", "--buildtype=debugoptimized", "--strip", "-Dtests=disabled"] + options
    if os.path.exists(build_dir + "/build.ninja"):
        setup = ["meson", "configure", build_dir] + options
    subprocess.run(setup, check=True, env=env)
    subprocess.run(["ninja", "-C", build_dir], check=True, env=env)
    subprocess.run(["meson", "install", "-C", build_dir, "--no-rebuild", "--quiet", "--destdir", root], check=True, env=env)
    for name in files():
        target = os.path.join(out, os.path.basename(name))
        shutil.copyfile(os.path.join(root, "usr", name), target)  # not the link that librfg.so.0.2 is
        shutil.copymode(os.path.join(root, "usr", name), target)


if __name__ == "__main__":
    if sys.argv[1:] == ["--version"]:
        print(version())
    elif sys.argv[1:] == ["--list"]:
        print("\n".join(files()))
    elif sys.argv[1:2] == ["--check"]:
        check(sys.argv[2])
    else:
        build(sys.argv[1], sys.argv[2], sys.argv[3:])
