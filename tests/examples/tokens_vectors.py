#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes tokens_vectors.inc: what other programs make of tricky text. `pip install tokenizers sentencepiece protobuf regex`.

  tokens_vectors.py > tokens_vectors.inc         the committed ones
  tokens_vectors.py --more 5000 > OTHER.h      as many random texts besides

The models are tiny: trained on the repository's own documentation. Pieces are those of the models' regular expressions,
by the package `regex`; ids are those of tokenizers' BPE and of SentencePiece's.
"""
import argparse
import glob
import io
import json
import os
import random

import regex
import sentencepiece
import tokenizers
from sentencepiece import sentencepiece_model_pb2
from tokenizers import decoders, models, pre_tokenizers, trainers

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ENDINGS = "'s|'t|'re|'ve|'m|'ll|'d"
LLAMA3 = r"(?i:" + ENDINGS + r")|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
HIGH, LOW = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
SPLITS = {  # in the order of enum splitter
    "gpt-2": ENDINGS + r"| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "llama-bpe": LLAMA3,
    "qwen2": LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}"),
    "gpt-4o": rf"[^\r\n\p{{L}}\p{{N}}]?{HIGH}*{LOW}+(?i:{ENDINGS})?|[^\r\n\p{{L}}\p{{N}}]?{HIGH}+{LOW}*(?i:{ENDINGS})?"
              r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"}
TEXTS = [
    "Hello world", " leading", "trailing ", "  two  spaces   three", "tabs\tand\nlines\r\n\r\n  x\n", "\n\n\n", "   \n  \n  x",
    "I'm you're WE'LL it's 'S 'Re 'vex 'D", "'\u017f x'\u017fy I'\u017f", "don\u2019t 's x's's 'l 'll'", "1234567 1 22 333 4444",
    "\u0663\u0664\u0665\u0666 \u00bd \u2167\u00b2 x1y22z", "\u4f60\u597d\uff0c\u4e16\u754c\u3002\u65e5\u672c\u8a9e\u30c6\u30ad\u30b9\u30c8",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467 \u2764\ufe0f \U0001f3f3\ufe0f\u200d\U0001f308!", "e\u0301 a\u0308\u0323 \u0301x \u0301\n",
    "\u0928\u092e\u0938\u094d\u0924\u0947 \u0926\u0941\u0928\u093f\u092f\u093e", "\u0645\u0631\u062d\u0628\u0627\u064b \u0628\u0643",
    "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35\u0e0a\u0e32\u0e27\u0e42\u0e25\u0e01", "\uc548\ub155 \uc138\uacc4", "\u1100\u1161\u11a8",
    "getHTTPResponseCode XMLParser iPhone ABCdef ABC'S aBC'll", "for (int i = 0; i < n; i++) {\n\t\tx[i] += 1; // one\n}\n",
    "a/b//c/\n/\n../..\r\n/", "a\u00a0b\u2003c\u3000 d\u200be", "...!!!\n\n??  !\n", "\u01c5ungla \u01c8 \u02b0mod \u00df\u1e9e \u0149",
    "\x1c\x1d x\x85\u2028y \x0b\x0c", "\U0001d49c\U0001d4c1 \U0001d7d9\U0001d7da\U0001d7db\U0001d7dc", "\U000e0001\ufeff x", "nul\x00 nul",
    "\u10d0\u1c90 \u13a0\uab70 \u2160\u2170 \ua7ae", "<|begin|>hi<|end|> there<|e <|begin|><|begin|>", "x<mask>y <mask> z",
    "The decoder runs on rfg's operators alone: weights, cache, graph.", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "-- -_-_- == ==== ",
    "\u00e9t\u00e9 \u00c9T\u00c9 na\u00efve \u00d8re", "A\u0301B\u0301c\u0301 \u4f60A\u4f60a\u4f60", "_a _A 9a $100.50 1,000,000",
]
SPECIAL = ["<|begin|>", "<|end|>"]


def literal(data):
    """A C string's inside; an octal escape ends after three digits."""
    return "".join(chr(b) if 32 <= b < 127 and b not in b'"\\?' else "\\%03o" % b for b in data)


def random_text(draw):
    alphabet = ["a", "B", "s", "'", " ", "\n", "\r", "\t", "1", "\u0663", ".", "/", "\u00e9", "\u0301", "\u4f60", "\u01c5", "\u02b0",
                "\u00a0", "\u017f", "\U0001f600", "S", "l", "L", "e", "t", "r", "_", "the", " of", "ing"]
    if draw.random() < 0.2:
        alphabet = [chr(c) for c in (draw.randrange(0x3000) for _ in range(30))]
    return "".join(draw.choice(alphabet) for _ in range(draw.randrange(1, 24)))


def print_list(kind, name, items):
    print(f"static {kind} {name}[] = {{")
    line = ""
    for item in items:
        if len(line) + len(item) > 116:
            print("   " + line)
            line = ""
        line += " " + item + ","
    print("   " + line + "\n};")


def train_bpe(corpus):
    t = tokenizers.Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=400, special_tokens=SPECIAL, show_progress=False,
                                                      initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet())))
    return t


def bpe_ids(t, pattern, whole, text):
    t.model.ignore_merges = whole
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated"),
                                               pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    return t.encode(text).ids


def train_spm(corpus):
    """With a space in front of a text, and without."""
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus), model_writer=out, model_type="bpe", vocab_size=440, byte_fallback=True,
        normalization_rule_name="identity", remove_extra_whitespaces=False,
        user_defined_symbols=["<mask>"], minloglevel=2, num_threads=1)
    proto = sentencepiece_model_pb2.ModelProto.FromString(out.getvalue())
    proto.normalizer_spec.add_dummy_prefix = False
    return [sentencepiece.SentencePieceProcessor(model_proto=m) for m in (out.getvalue(), proto.SerializeToString())]


def main():
    o = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    o.add_argument("--more", type=int, default=0)
    o = o.parse_args()
    corpus = [line for path in sorted(glob.glob(ROOT + "/docs/*.md")) for line in open(path, encoding="utf-8") if line.strip()]
    draw = random.Random(1)
    texts = TEXTS + [random_text(draw) for _ in range(25 + o.more)]
    bpe = train_bpe(corpus)
    vocabulary = [k for k, _ in sorted(bpe.get_vocab().items(), key=lambda kv: kv[1])]
    merges = [m if isinstance(m, str) else " ".join(m) for m in json.loads(bpe.to_str())["model"]["merges"]]
    spm = train_spm(corpus)
    n = spm[0].get_piece_size()
    kinds = [2 if spm[0].is_unknown(i) else 3 if spm[0].is_control(i) else 6 if spm[0].is_byte(i) else
             4 if spm[0].id_to_piece(i) == "<mask>" else 1 for i in range(n)]
    quoted = lambda items: ['"%s"' % literal(i.encode()) for i in items]
    print("/* SPDX-License-Identifier: MIT\n *\n * Made by tokens_vectors.py. */\n/* clang-format off */")
    print_list("const char *const", "bpe_tokens", quoted(vocabulary))
    print_list("const char *const", "bpe_merges", quoted(merges))
    print_list("const char *const", "spm_tokens", quoted(spm[0].id_to_piece(i) for i in range(n)))
    print_list("const float", "spm_scores", ["%.9g" % spm[0].get_score(i) for i in range(n)])
    print_list("const int32_t", "spm_kinds", [str(k) for k in kinds])
    print("static const struct text { size_t size; const char *text; } texts[] = {")
    for text in texts:
        print('    { %d, "%s" },' % (len(text.encode()), literal(text.encode())))
    print("};")
    # Of each text: a count, and as many numbers.
    for name, pattern in SPLITS.items():
        c = name.replace("-", "_")
        numbers = []
        for text in texts:
            pieces = regex.findall(pattern.replace("(?i:", "(?iu:"), text)
            assert "".join(pieces) == text, (name, text, pieces)
            numbers += [len(pieces), *(len(p.encode()) for p in pieces)]
        print_list("const int16_t", c + "_pieces", [str(i) for i in numbers])
        numbers = []
        for text in texts:
            ids = bpe_ids(bpe, pattern, name == "llama-bpe", text)
            numbers += [len(ids), *ids]
        print_list("const int16_t", c + "_ids", [str(i) for i in numbers])
    for i, name in enumerate(["spm_space", "spm"]):
        numbers = []
        for text in texts:
            ids = spm[i].encode(text)
            numbers += [len(ids), *ids]
        print_list("const int16_t", name + "_ids", [str(i) for i in numbers])


main()
