#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""unhide.py IN OUT: copies a relocatable ELF object and makes its hidden symbols visible.

The library is compiled with hidden visibility. Tests call functions inside it, and 120 test programs that link it
statically are 3 GB. So the tests link one shared library of the same objects, in which nothing is hidden."""
import struct
import sys

SHT_SYMTAB, STV_HIDDEN, SYMBOL = 2, 2, 24
data = bytearray(open(sys.argv[1], "rb").read())
if data[:6] != b"\x7fELF\x02\x01":
    sys.exit("%s: must be a little-endian 64-bit ELF object" % sys.argv[1])
(sections,) = struct.unpack_from("<Q", data, 0x28)
size, count = struct.unpack_from("<HH", data, 0x3A)
if count == 0:  # more than 65,279 sections: the count is in the first one
    (count,) = struct.unpack_from("<Q", data, sections + 0x20)
for header in range(sections, sections + count * size, size):
    (kind,) = struct.unpack_from("<I", data, header + 4)
    if kind == SHT_SYMTAB:
        start, length = struct.unpack_from("<QQ", data, header + 0x18)
        for other in range(start + 5, start + length, SYMBOL):
            if data[other] & 3 == STV_HIDDEN:
                data[other] &= ~3
open(sys.argv[2], "wb").write(data)
