#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""manifest.py MANIFEST OUT.c: checks the manifest of the assembly variants and writes ops/asm.h's table of it.
Without OUT.c only checks. An error names the section, the key, the value and the rule."""
import configparser
import os
import re
import sys

NAME = r"[A-Za-z_]\w*"
OTHERS = ("op", "source", "entry", "dtypes", "args", "macros", "limit", "grid", "block", "lds")
MAX = {"rules": 12, "args": 16, "macros": 24, "limits": 4, "factors": 4, "dtypes": 12}  # ops/asm.h


class Bad(Exception):
    pass


class Entry:
    """One [VARIANT ARCH] with what [VARIANT] adds to it."""

    def __init__(self, section, values, folder):
        self.section, self.values, self.folder = section, values, folder
        self.variant, self.arch = section.split()
        for key in OTHERS:
            if key not in values and key != "limit":
                self.bad(key, "", "must be given")
        for key in ("op", "entry"):
            self.match(key, values[key], NAME, "must be a name")
        path = os.path.join(folder, self.arch, values["source"])
        if not os.path.isfile(path):
            self.bad("source", values["source"], "must be a file under asm/%s/" % self.arch)
        self.dtypes = [self.match("dtypes", d, r"\w+(,\w+)*->\w+(,\w+)*", "must be INPUTS->OUTPUTS").group()
                       for d in values["dtypes"].split()]
        self.args = [self.match("args", a, "(%s):([1248])" % NAME, "must be NAME:BYTES, 1, 2, 4 or 8").groups()
                     for a in values["args"].split()]
        self.macros = [self.match("macros", a, "(%s)=(%s)" % (NAME, NAME), "must be NAME=PARAMETER, =in or =out").groups()
                       for a in values["macros"].split()]
        self.limits = []
        for line in filter(None, values.get("limit", "").splitlines()):
            m = self.match("limit", line, r"(.*?)\s*<=\s*(\d+)", "must be PRODUCT <= NUMBER")
            self.limits.append((self.size("limit", m.group(1), False), int(m.group(2))))
        self.rules = [self.rule(k, v) for k, v in values.items() if k not in OTHERS]
        self.grid, self.block, self.lds = (self.size(k, values[k], k == "grid") for k in ("grid", "block", "lds"))
        offset = 0
        self.offsets = []
        for name, size in self.args:
            if offset % int(size):
                self.bad("args", "%s:%s" % (name, size), "is at byte %d: must be aligned to its size" % offset)
            self.offsets.append(("ARG_" + name.upper(), offset))
            offset += int(size)
        self.offsets.append(("ARG_BYTES", offset))
        names = [n for n, _ in self.offsets + self.macros]
        for n in names:
            if names.count(n) > 1:
                self.bad("macros", n, "must be given once")
        for what, n in (("rules", len(self.rules)), ("args", len(self.args)), ("macros", len(names)),
                        ("limits", len(self.limits)), ("dtypes", len(self.dtypes))):
            if n > MAX[what] or (n == 0 and what in ("dtypes", "args")):
                self.bad(what, str(n), "must be from 1 to %d" % MAX[what])

    def bad(self, key, value, rule):
        raise Bad("[%s] %s = %s: %s" % (self.section, key, value, rule))

    def match(self, key, text, pattern, rule):
        return re.fullmatch(pattern, text) or self.bad(key, text, rule)

    def rule(self, key, text):
        self.match(key, key, NAME, "must be a key of the problem")
        m = self.match(key, text, r"(\d+)\.\.(\d+)(?:\s+by\s+(\d+))?", "must be MIN..MAX or MIN..MAX by STEP")
        low, high, step = int(m.group(1)), int(m.group(2)), int(m.group(3) or 1)
        if low > high or step < 1:
            self.bad(key, text, "must have MIN <= MAX and STEP >= 1")
        return key, low, high, step

    def size(self, key, text, may_divide):
        """(problem key or None, number, parameters)"""
        over, product = None, text
        if "/" in text:
            over, product = (s.strip() for s in text.split("/", 1))
            if not may_divide or not re.fullmatch(NAME, over):
                self.bad(key, text, "must be NUMBERs and PARAMETERs with '*' between them%s"
                         % (", or KEY / those" if may_divide else ""))
        number, params = 1, []
        for factor in (f.strip() for f in product.split("*")):
            if re.fullmatch(r"[1-9]\d*", factor):
                number *= int(factor)
            else:
                self.match(key, factor, NAME, "must be a NUMBER above 0 or a PARAMETER")
                params.append(factor)
        if len(params) > MAX["factors"]:
            self.bad(key, text, "must have at most %d PARAMETERs" % MAX["factors"])
        return over, number, params


def read(path):
    ini = configparser.ConfigParser(interpolation=None, delimiters=("=",), comment_prefixes=(";",),
                                    inline_comment_prefixes=None, default_section="")
    ini.optionxform = str
    try:
        with open(path, encoding="utf-8") as f:
            ini.read_file(f, path)
    except (configparser.Error, UnicodeDecodeError) as e:
        raise Bad(str(e).replace("\n", " "))
    entries = []
    for s in ini.sections():
        if not re.fullmatch(r"%s( gfx\w+)?" % NAME, s):
            raise Bad("[%s]: must be [VARIANT] or [VARIANT gfxARCH]" % s)
        if " " in s:
            common = s.split()[0]
            values = dict(ini[common]) if ini.has_section(common) else {}
            values.update(ini[s])
            entries.append(Entry(s, values, os.path.dirname(path) or "."))
    for s in ini.sections():
        if " " not in s and not any(e.variant == s for e in entries):
            raise Bad("[%s]: has no [%s gfxARCH]" % (s, s))
    return entries


def size_c(size):
    over, number, params = size
    return '{ %s, %d, { %s } }' % ('"%s"' % over if over else "NULL", number,
                                   ", ".join('"%s"' % p for p in params) or "NULL")


def write(entries, out):
    out.write('/* generated by asm/manifest.py */\n#include "asm.h"\nconst struct rfg_asm rfg_asm_table[] = {\n')
    for e in entries:
        out.write('    { .variant = "%s", .arch = "%s", .op = "%s", .entry = "%s",\n'
                  % (e.variant, e.arch, e.values["op"], e.values["entry"]))
        out.write('      .source = "asm/%s/%s",\n' % (e.arch, e.values["source"]))
        out.write('      .dtypes = { %s },\n' % ", ".join('"%s"' % d for d in e.dtypes))
        out.write('      .rules = { %s },\n' % ", ".join('{ "%s", %d, %d, %d }' % r for r in e.rules))
        out.write('      .macros = { %s },\n' % ", ".join(
            ['{ "%s", "%s", 0 }' % m for m in e.macros] + ['{ "%s", NULL, %d }' % o for o in e.offsets]))
        out.write('      .limits = { %s },\n' % (", ".join(
            '{ %s, %d }' % (size_c(s), n) for s, n in e.limits) or "{ { NULL, 0, { NULL } }, 0 }"))
        out.write('      .grid = %s, .block = %s, .lds = %s },\n' % tuple(map(size_c, (e.grid, e.block, e.lds))))
    out.write("    { .variant = NULL },\n};\n")


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: manifest.py MANIFEST [OUT.c]")
    try:
        entries = read(sys.argv[1])
    except (Bad, OSError) as e:
        sys.exit("%s: %s" % (sys.argv[1], e))
    if len(sys.argv) == 3:
        with open(sys.argv[2], "w") as out:
            write(entries, out)


main()
