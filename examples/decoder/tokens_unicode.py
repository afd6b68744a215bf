#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes tokens_unicode.h: which code points are letters, marks, numbers and spaces, as the PyPI package `regex` has them.

  tokens_unicode.py > tokens_unicode.h
"""
import regex

CLASSES = [("UPPER", r"[\p{Lu}\p{Lt}]"), ("LOWER", r"\p{Ll}"), ("LETTER", r"[\p{Lm}\p{Lo}]"), ("MARK", r"\p{M}"),
           ("NUMBER", r"\p{N}"), ("SPACE", r"\p{White_Space}")]


def main():
    everything = "".join(chr(c) if not 0xd800 <= c < 0xe000 else " " for c in range(0x110000))
    of = bytearray(0x110000)
    for i, (_, pattern) in enumerate(CLASSES):
        for m in regex.finditer(pattern + "+", everything):
            of[m.start():m.end()] = bytes([i + 1]) * (m.end() - m.start())
    of[0xd800:0xe000] = bytes(0x800)
    runs = []
    for c in range(0x110000):
        if c == 0 or of[c] != of[c - 1]:
            runs.append((c, of[c]))
    runs.append((0x110000, 0))
    entries, i, turns = [], 0, len(CLASSES) + 1
    while i < len(runs) - 1:
        j = i  # runs of one upper, one lower, one upper ...
        while j + 1 < len(runs) - 1 and runs[j + 1][0] == runs[j][0] + 1 and (runs[j][1], runs[j + 1][1]) in ((1, 2), (2, 1)):
            j += 1
        last = runs[j + 1][0] == runs[j][0] + 1 and runs[j][1] in (1, 2)
        n = j - i + last
        if runs[i][1] == 1 and n > 2:
            entries.append((runs[i][0], turns))
            i += n
        else:
            entries.append(runs[i])
            i += 1
    print("/* SPDX-License-Identifier: MIT\n *\n * Made by tokens_unicode.py of regex %s. Each number is 16 times a code point, plus the"
          " class\n * of it and of all up to the next one. */" % regex.__version__)
    print("enum char_class { OTHER, %s, UPPER_AND_LOWER /* in turn */ };" % ", ".join(n for n, _ in CLASSES))
    print("/* clang-format off */\nstatic const uint32_t char_classes[] = {")
    for i in range(0, len(entries), 12):
        print(" " + ",".join("0x%x" % (c << 4 | k) for c, k in entries[i:i + 12]) + ",")
    print("};\n/* clang-format on */")


main()
