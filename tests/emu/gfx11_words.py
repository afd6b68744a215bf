#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""16-bit instructions of gfx11 and gfx12 on named halves of registers, with their words by LLVM 22's assembler (PyPI's ziglang), and the
text by which the emulator knows them: op_sel in place of .l and .h.

  RFG_ZIGLANG_PYTHON=PYTHON tests/emu/gfx11_words.py > tests/emu/gfx11_words.def    after a change of texts()
  RFG_ZIGLANG_PYTHON=PYTHON tests/emu/gfx11_words.py --check                        is the file what that assembler says?"""
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
CPU = {11: "gfx1100", 12: "gfx1201"}
ONE = """cvt_f16_u16 cvt_f16_i16 cvt_u16_f16 cvt_i16_f16 rcp_f16 sqrt_f16 rsq_f16 log_f16 exp_f16 frexp_mant_f16 frexp_exp_i16_f16 floor_f16
ceil_f16 trunc_f16 rndne_f16 fract_f16 sin_f16 cos_f16 cvt_norm_i16_f16 cvt_norm_u16_f16 not_b16 mov_b16""".split()
TWO = "add_f16 sub_f16 subrev_f16 mul_f16 fmac_f16 ldexp_f16".split()
MOST = {11: ["max_f16", "min_f16"], 12: ["max_num_f16", "min_num_f16"]}
ONLY3 = "mul_lo_u16 max_u16 min_u16 max_i16 min_i16 lshlrev_b16 lshrrev_b16 ashrrev_i16 and_b16 or_b16 xor_b16".split()


def halves(gfx):
    """Mnemonic, operands, which of them (D is 0) are of 16 bits, the short encoding too?"""
    for n in ONE:
        yield "v_" + n, ["v1", "v2"], (0, 1), True
    yield "v_cvt_f16_f32", ["v1", "v2"], (0,), True
    yield "v_sat_pk_u8_i16", ["v1", "v2"], (0,), True
    for n in "cvt_f32_f16", "cvt_i32_i16", "cvt_u32_u16":
        yield "v_" + n, ["v1", "v2"], (1,), True
    for n in TWO + MOST[gfx]:
        yield "v_" + n, ["v1", "v2", "v3"], (0, 1, 2), True
    for n in ONLY3:
        yield "v_" + n, ["v1", "v2", "v3"], (0, 1, 2), False
    for t in "f16", "i16", "u16":
        for c in "lt", "eq", "le", "gt", "ge":
            yield "v_cmp_%s_%s" % (c, t), ["vcc_lo", "v2", "v3"], (1, 2), True
    yield "v_cmp_class_f16", ["vcc_lo", "v2", "v3"], (1, 2), True
    yield "v_cndmask_b16", ["v1", "v2", "v3", "s4"], (0, 1, 2), False
    for n in ["maxmin_f16", "minmax_f16"] if gfx == 11 else ["maxmin_num_f16", "minmax_num_f16"]:
        yield "v_" + n, ["v1", "v2", "v3", "v4"], (0, 1, 2, 3), False


def texts(gfx):
    """As the assembler takes it; as it is to be read."""
    for name, operands, which, short in halves(gfx):
        compare = name.startswith("v_cmp_")
        # a comparison writes no half
        bits = list(range(1, len(operands))) + ([] if compare else [0])
        for sel in range(1, 1 << len(which)):
            high = {k for i, k in enumerate(which) if sel >> i & 1}
            written = ", ".join(o + (".h" if k in high else ".l" if k in which else "") for k, o in enumerate(operands))
            said = " op_sel:[%s]" % ",".join("1" if k in high else "0" for k in bits)
            plain = ", ".join(operands)
            if short:
                yield "%s_e32 %s" % (name, written), "%s_e64 %s%s" % (name, plain, said)
                if len(operands) == 3:
                    yield ("%s_e32 %s" % (name, written.replace("v2.l", "0x3456").replace("v2.h", "0x3456")),
                           "%s_e64 %s%s" % (name, plain.replace("v2", "0x3456"), said)) if 1 not in high else (None, None)
                if not compare and 1 in which:
                    dpp = " row_shl:3 row_mask:0xf bank_mask:0x3"
                    yield "%s_dpp %s%s" % (name, written, dpp), "%s_e64_dpp %s%s%s" % (name, plain, dpp, said)
                    yield ("%s_dpp %s dpp8:[7,6,5,4,3,2,1,0]" % (name, written),
                           "%s_e64_dpp %s dpp8:[7,6,5,4,3,2,1,0]%s" % (name, plain, said))
            yield ("%s%s %s" % (name, "_e64" if short else "", written.replace("v1", "v201")),
                   "%s%s %s%s" % (name, "_e64" if short else "", plain.replace("v1", "v201"), said))


def assembled(gfx, lines):
    with tempfile.TemporaryDirectory() as d:
        source = os.path.join(d, "t.s")
        with open(source, "w") as f:
            f.write("".join(l + "\n" for l in lines))
        p = subprocess.run([os.environ["RFG_ZIGLANG_PYTHON"], "-m", "ziglang", "clang", "-cc1as", "-triple", "amdgcn-amd-amdhsa", "-target-cpu",
                            CPU[gfx], "-target-feature", "+real-true16", "-filetype", "asm", "-show-encoding", source, "-o", "-"],
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if p.returncode:
            sys.exit(p.stderr)
    for bytes_ in re.findall(r"encoding: \[(.*?)\]", p.stdout):
        b = [int(x, 16) for x in bytes_.split(",")]
        yield [sum(b[k + j] << 8 * j for j in range(4)) for k in range(0, len(b), 4)]


def main():
    if not os.environ.get("RFG_ZIGLANG_PYTHON"):
        print("SKIPPED: RFG_ZIGLANG_PYTHON names no Python with ziglang, whose clang assembles halves of registers")
        return 77
    out = "/* SPDX-License-Identifier: MIT\n *\n * Made by gfx11_words.py with LLVM 22's assembler: do not edit. */\n"
    n = 0
    for gfx in 11, 12:
        pairs = list(dict.fromkeys(p for p in texts(gfx) if p[0]))
        words = list(assembled(gfx, [p[0] for p in pairs]))
        assert len(words) == len(pairs)
        for (_, said), w in zip(pairs, words):
            n += 1  # two on a line
            out += 'WORDS(%d, "%s", %s)%s' % (gfx, said, ", ".join("0x%08x" % x for x in w), " " if n % 2 else "\n")
    if "--check" in sys.argv:
        same = out == open(os.path.join(HERE, "gfx11_words.def")).read()
        print("%d texts: gfx11_words.def is %s" % (n, "right" if same else "not what the assembler says"))
        return not same
    sys.stdout.write(out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
