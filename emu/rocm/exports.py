#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What meson.build asks of versions.def and names.txt.

  exports.py releases          release, number, major version of the library, HIP version, libraries beside it with theirs; a line each
  exports.py map NUMBER        the linker's version script of a release
  exports.py stubs             C: every name, weak, as a function that is refused by name
"""
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def releases():
    text = open(os.path.join(HERE, "versions.def")).read()
    return re.findall(r'^ROCM\("([\d.]+)", (\d+), (\d+), (\d+), "(.*)",$', text, re.M)


def names():
    """(node, name, the first release's number that has it)"""
    for line in open(os.path.join(HERE, "names.txt")):
        if not line.startswith("#"):
            node, name, since = (line.split() + ["0"])[:3]
            major, minor = node[len("hip_"):].split(".")
            yield node, name, max(int(since), int(major) * 10000 + int(minor) * 100)


def version_script(number):
    nodes = {}
    for node, name, since in names():
        if since <= number:
            nodes.setdefault(node, []).append(name)
    before = ""
    for node in nodes:
        hidden = "" if before else " local: *;"
        print("%s { global: %s;%s }%s;" % (node, "; ".join(nodes[node]), hidden, before))
        before = " " + node


def stubs():
    print('/* Made by emu/rocm/exports.py. */\n#include "emu/rocm/rocm.h"')
    for _, name, _ in names():
        print('int refused_%s(void) __asm__("%s") __attribute__((weak));' % (name, name))
        print('int refused_%s(void) { return rocm_refuse("%s"); }' % (name, name))


if sys.argv[1] == "releases":
    for row in releases():
        print(*row)
elif sys.argv[1] == "map":
    version_script(int(sys.argv[2]))
else:
    stubs()
