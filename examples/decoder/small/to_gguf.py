#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the small model as a .gguf file, as llama.cpp's converter would: `pip install gguf`.

  to_gguf.py small.gguf [--type BF16|F16|F32|Q8_0|Q4_0|...] [--embedding TYPE]

Rows of a head's q and k are put in turn. Tokens are bytes: a byte-level BPE without merges. Types of blocks are those that
gguf can quantise to; matrices whose rows are no whole blocks are Q8_0 then.
"""
import argparse
import json
import os
import struct

import gguf
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
NAMES = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
PARTS = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q",
         "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
         "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}


def read(path):
    """safetensors, all bf16, as fp32 arrays."""
    with open(path, "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        base = f.tell()
        for name, t in header.items():
            if name != "__metadata__":
                f.seek(base + t["data_offsets"][0])
                raw = np.frombuffer(f.read(t["data_offsets"][1] - t["data_offsets"][0]), np.uint16)
                yield name, (raw.astype(np.uint32) << 16).view(np.float32).reshape(t["shape"])


def in_turn(w, heads):
    """Rows i and i + half of each head become neighbours."""
    return w.reshape(heads, 2, w.shape[0] // heads // 2, -1).swapaxes(1, 2).reshape(w.shape)


def byte_tokens():
    """GPT-2's characters for bytes: printable ones are themselves, the others come from 256 on, in order."""
    itself = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(b if b in itself else next(others)) for b in range(256)]


def main():
    o = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    o.add_argument("out")
    o.add_argument("--type", default="BF16")
    o.add_argument("--embedding", default="")
    o = o.parse_args()
    c = json.load(open(os.path.join(HERE, "config.json")))
    w = gguf.GGUFWriter(o.out, "llama")
    w.add_name("small")
    w.add_block_count(c["num_hidden_layers"])
    w.add_context_length(c["max_position_embeddings"])
    w.add_embedding_length(c["hidden_size"])
    w.add_feed_forward_length(c["intermediate_size"])
    w.add_head_count(c["num_attention_heads"])
    w.add_head_count_kv(c["num_key_value_heads"])
    w.add_key_length(c["head_dim"])
    w.add_value_length(c["head_dim"])
    w.add_layer_norm_rms_eps(c["rms_norm_eps"])
    w.add_rope_freq_base(c["rope_theta"])
    w.add_rope_dimension_count(c["head_dim"])
    w.add_vocab_size(c["vocab_size"])
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("gpt-2")
    w.add_token_list(byte_tokens())
    w.add_token_types([gguf.TokenType.NORMAL] * 256)
    w.add_token_merges([])
    w.add_add_bos_token(False)
    for name, x in read(os.path.join(HERE, "model.safetensors")):
        name = name.removesuffix(".weight")
        if name in NAMES:
            to = NAMES[name]
        else:
            layer, part = name.removeprefix("model.layers.").split(".", 1)
            to = f"blk.{layer}.{PARTS[part]}"
            if part in ("self_attn.q_proj", "self_attn.k_proj"):
                x = in_turn(x, c["num_attention_heads" if "q_proj" in part else "num_key_value_heads"])
        kind = gguf.GGMLQuantizationType[o.type if x.ndim > 1 else "F32"]
        block = gguf.GGML_QUANT_SIZES[kind][0]
        if to == "token_embd" and o.embedding:
            kind = gguf.GGMLQuantizationType[o.embedding]
        elif block > 1 and x.shape[-1] % block:
            kind = gguf.GGMLQuantizationType.Q8_0
        if kind == gguf.GGMLQuantizationType.F32:
            w.add_tensor(to + ".weight", x)
        else:
            w.add_tensor(to + ".weight", gguf.quants.quantize(x, kind), raw_dtype=kind)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


main()
