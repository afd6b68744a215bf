#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""gfx950's instructions as the tests write them, with their words: LLVM 19 can't assemble them, LLVM 22 (PyPI's ziglang) can.

  RFG_ZIGLANG_PYTHON=PYTHON tests/emu/gfx950_words.py > tests/emu/gfx950_words.def    after a change of texts()
  RFG_ZIGLANG_PYTHON=PYTHON tests/emu/gfx950_words.py --check                         is the file what that assembler says?"""
import os
import re
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SHAPES = {"16x16": ("v[64:67]", "v[16:19]"), "32x32": ("v[64:79]", "v[16:31]")}


def registers(first, words):
    return "v%d" % first if words == 1 else "v[%d:%d]" % (first, first + words - 1)


def texts():
    # What emu_isa_lanes.def and emu_isa_matrix.c say for gfx950, where gfx942 hasn't the mnemonic.
    for name in "emu_isa_lanes.def", "emu_isa_matrix.c", "emu_isa_memory.c":
        for line in open(os.path.join(HERE, name)):
            if re.search(r"\bG950\b|\b5, |deep|load_lds_dwordx|offen lds", line):
                yield from (t for t in re.findall(r'"([vdgb][a-z]*_[^"]*)"', line) if known_new(t))
    # emu_isa_gfx950.c: D at v64, A at v0, B or random bits at v32, scale at v40.
    for t in "fp8", "bf8":
        for w in "f32", "f16", "bf16":
            ab = "v0, v32, v40" if w == "f32" else "v0, v40"
            yield "v_cvt_scalef32_pk_%s_%s v64, %s" % (t, w, ab)
            hi = "op_sel:[0,0,0,1]" if w == "f32" else "op_sel:[0,0,1]"
            yield "v_cvt_scalef32_pk_%s_%s v64, %s %s" % (t, w, ab, hi)
            for byte in range(4):
                sel = " op_sel:[0,0,%d,%d]" % (byte & 1, byte >> 1) if byte else ""
                yield "v_cvt_scalef32_sr_%s_%s v64, v0, v32, v40%s" % (t, w, sel)
            for word in range(2):
                sel = " op_sel:[1,0,0]" if word else ""
                yield "v_cvt_scalef32_pk_%s_%s %s, v0, v40%s" % (w, t, registers(64, 2 if w == "f32" else 1), sel)
        for byte in range(4):
            sel = " op_sel:[%d,%d,0]" % (byte & 1, byte >> 1) if byte else ""
            yield "v_cvt_scalef32_f32_%s v64, v0, v40%s" % (t, sel)
            yield "v_cvt_scalef32_f16_%s v64, v0, v40%s" % (t, sel)
            yield "v_cvt_scalef32_f16_%s v64, v0, v40 op_sel:[%d,%d,1]" % (t, byte & 1, byte >> 1)
    for w in "f32", "f16", "bf16":
        for byte in range(4):
            sel = " op_sel:[0,0,%d,%d]" % (byte & 1, byte >> 1) if byte else ""
            from_ = " op_sel:[%d,%d,0]" % (byte & 1, byte >> 1) if byte else ""
            yield "v_cvt_scalef32_pk_fp4_%s v64, %s%s" % (w, "v0, v32, v40" if w == "f32" else "v0, v40", sel)
            yield "v_cvt_scalef32_sr_pk_fp4_%s v64, %s, v32, v40%s" % (w, "v[0:1]" if w == "f32" else "v0", sel)
            yield "v_cvt_scalef32_pk_%s_fp4 %s, v0, v40%s" % (w, registers(64, 2 if w == "f32" else 1), from_)
    for t in "fp6", "bf6":
        yield "v_cvt_scalef32_2xpk16_%s_f32 v[64:69], v[0:15], v[16:31], v40" % t
        for w in "f32", "f16", "bf16":
            wide = 32 if w == "f32" else 16
            if w != "f32":
                yield "v_cvt_scalef32_pk32_%s_%s v[64:69], v[0:15], v40" % (t, w)
            yield "v_cvt_scalef32_sr_pk32_%s_%s v[64:69], %s, v32, v40" % (t, w, registers(0, wide))
            yield "v_cvt_scalef32_pk32_%s_%s %s, v[0:5], v40" % (w, t, registers(64, wide))
    words = [8, 8, 6, 6, 4]
    for shape, k in ("16x16", 128), ("32x32", 64):
        d, c = SHAPES[shape]
        for a in range(5):
            for b in range(5):
                ops = "%sx%d_f8f6f4 %s, %s, %s, %s" % (shape, k, d, registers(0, words[a]), registers(8, words[b]), c)
                mods = (" cbsz:%d" % a if a else "") + (" blgp:%d" % b if b else "")
                sel = (a + 2 * b) % 4, (a * b + b) % 4
                lo = " op_sel:[%d,%d,0]" % (sel[0] & 1, sel[1] & 1) if (sel[0] | sel[1]) & 1 else ""
                yield "v_mfma_f32_" + ops + mods
                yield "v_mfma_scale_f32_%s, v40, v41%s op_sel_hi:[%d,%d,0]%s" % (ops, lo, sel[0] >> 1, sel[1] >> 1, mods)
    for reads in "b64_tr_b16 v[64:65]", "b64_tr_b8 v[64:65]", "b64_tr_b4 v[64:65]", "b96_tr_b6 v[64:66]", "b64_tr_b16 v[0:1]":
        yield "ds_read_%s, v0 offset:48" % reads
    yield "buffer_atomic_pk_add_bf16 v1, v0, s[4:7], 0 offen offset:8"
    for n in 16, 32:
        yield "v_permlane%d_swap_b32 v64, v65" % n
        yield "v_permlane%d_swap_b32_e64 v64, v65 bound_ctrl:1" % n
        yield "v_permlane%d_swap_b32_e64 v64, v65 fi:1" % n
    # decoded only: every form of operand and modifier
    yield from ("v_mfma_f32_32x32x16_bf16 a[4:19], a[64:67], a[96:99], a[128:143] cbsz:1 abid:2 blgp:3",
                "v_mfma_f32_32x32x16_bf16 a[4:19], v[64:67], v[96:99], 1.0",
                "v_mfma_scale_f32_32x32x64_f8f6f4 a[4:19], a[64:71], a[96:103], a[128:143], v200, v201 op_sel_hi:[0,0,0]",
                "v_smfmac_f32_32x32x32_bf16 a[4:19], a[64:67], v[96:103], v128 cbsz:1 abid:1",
                "v_cvt_scalef32_pk_fp8_f32 v4, -v64, |v96|, s9 op_sel:[0,0,0,1]", "v_cvt_scalef32_pk_f32_fp4 v[4:5], s3, -4.0",
                "v_cvt_scalef32_pk32_f32_bf6 v[4:35], v[64:69], vcc_lo", "v_cvt_sr_f16_f32 v4, -|v64|, v96 op_sel:[0,0,1]",
                "v_bitop3_b32 v4, v64, s9, -1 bitop3:0x96", "v_bitop3_b32 v4, m0, v1, 64", "v_ashr_pk_i8_i32 v4, ttmp3, v96, 7",
                "v_prng_b32_e64 v4, s3", "v_prng_b32 v4, 0x12345678", "v_cvt_f32_bf16_e64 v4, |s3| clamp mul:2",
                "v_prng_b32_dpp v4, v64 quad_perm:[3,2,1,0] row_mask:0xf bank_mask:0x3", "v_dot2c_f32_bf16 v4, s3, v96",
                "v_minimum3_f32 v4, -v64, |s9|, 2.0 clamp mul:4", "v_cvt_pk_bf16_f32 v4, |s9|, -v96 clamp",
                "ds_read_b64_tr_b8 a[4:5], v64 offset:65535", "global_load_lds_dwordx3 v[2:3], off offset:-4",
                "global_load_lds_dwordx4 v2, s[4:5] offset:4 sc0 nt sc1", "buffer_load_dwordx4 v5, s[8:11], 0 idxen lds",
                "buffer_load_dwordx3 off, s[8:11], s3 offset:4095 sc0 nt sc1 lds")


NEW = set()  # mnemonics of emu/isa/words_gfx950.def


def known_new(text):
    if not NEW:
        table = open(os.path.join(HERE, "../../emu/isa/words_gfx950.def")).read()
        NEW.update(re.findall(r'"((?:v|ds|global|buffer)_[a-z0-9_]+)"', table))
    name = re.sub("_(e32|e64|dpp|sdwa)$", "", text.split()[0])
    return name in NEW and (not name.startswith("buffer_load") or text.endswith("lds"))


def assembled(lines):
    with tempfile.TemporaryDirectory() as d:
        source, object_ = os.path.join(d, "t.s"), os.path.join(d, "t.o")
        with open(source, "w") as f:
            f.write("".join(l + "\n.long 0xdeadbeef\n" for l in lines))
        subprocess.run([os.environ["RFG_ZIGLANG_PYTHON"], "-m", "ziglang", "clang", "-target", "amdgcn-amd-amdhsa",
                        "-mcpu=gfx950", "-c", source, "-o", object_], check=True)
        elf = open(object_, "rb").read()
    at, = struct.unpack_from("<Q", elf, 40)
    size, n, names = struct.unpack_from("<HHH", elf, 58)
    sections = [struct.unpack_from("<IIQQQQ", elf, at + size * k) for k in range(n)]
    text = next(s for s in sections if elf[sections[names][4] + s[0]:].startswith(b".text\0"))
    words, all_ = [], []
    for word, in struct.iter_unpack("<I", elf[text[4]:text[4] + text[5]]):
        if word == 0xdeadbeef:
            all_.append(words)
            words = []
        else:
            words.append(word)
    return all_


def main():
    if not os.environ.get("RFG_ZIGLANG_PYTHON"):
        print("SKIPPED: RFG_ZIGLANG_PYTHON names no Python with ziglang, whose clang assembles for gfx950")
        return 77
    lines = list(dict.fromkeys(texts()))
    out = "/* SPDX-License-Identifier: MIT\n *\n * Made by gfx950_words.py with LLVM 22's assembler: do not edit. */\n"
    for line, words in zip(lines, assembled(lines)):
        out += 'WORDS("%s", %s)\n' % (line, ", ".join("0x%08x" % w for w in words))
    if "--check" in sys.argv:
        same = out == open(os.path.join(HERE, "gfx950_words.def")).read()
        print("%d texts: gfx950_words.def is %s" % (len(lines), "right" if same else "not what the assembler says"))
        return not same
    sys.stdout.write(out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
