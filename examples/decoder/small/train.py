#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Trains the small model: a byte-level Llama of config.json on corpus.py's text, with PyTorch.

  train.py corpus.txt --out . [--steps 6000] [--batch 8] [--seed 1] [--device cpu]

Writes model.safetensors (bf16, Hugging Face's names) beside config.json. The last 2 % of the text are for validation.
Two CPU cores take 0.6 s a step, a GPU takes minutes in all. The same seed and versions give the same batches.
"""
import argparse
import json
import math
import os
import struct
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class Norm(nn.Module):
    def __init__(self, n, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(n)), eps

    def forward(self, x):
        return F.rms_norm(x.float(), (x.shape[-1],), self.weight.float(), self.eps).to(x.dtype)


class Layer(nn.Module):
    def __init__(self, c):
        super().__init__()
        h, d, self.c = c["hidden_size"], c["head_dim"], c
        linear = lambda i, o: nn.Linear(i, o, bias=False)
        self.input_layernorm, self.post_attention_layernorm = Norm(h, c["rms_norm_eps"]), Norm(h, c["rms_norm_eps"])
        self.self_attn, self.mlp = nn.Module(), nn.Module()
        self.self_attn.q_proj = linear(h, c["num_attention_heads"] * d)
        self.self_attn.k_proj = linear(h, c["num_key_value_heads"] * d)
        self.self_attn.v_proj = linear(h, c["num_key_value_heads"] * d)
        self.self_attn.o_proj = linear(c["num_attention_heads"] * d, h)
        self.mlp.gate_proj, self.mlp.up_proj = linear(h, c["intermediate_size"]), linear(h, c["intermediate_size"])
        self.mlp.down_proj = linear(c["intermediate_size"], h)

    def forward(self, x, cos, sin):
        b, t, _ = x.shape
        d, a, h = self.c["head_dim"], self.self_attn, self.input_layernorm(x)
        q, k, v = (p(h).view(b, t, -1, d).transpose(1, 2) for p in (a.q_proj, a.k_proj, a.v_proj))

        def rotate(y):  # pairs (i, i + d/2), as Hugging Face's Llama
            first, second = y.chunk(2, -1)
            return torch.cat((first * cos - second * sin, second * cos + first * sin), -1).to(y.dtype)

        y = F.scaled_dot_product_attention(rotate(q), rotate(k), v, is_causal=True, enable_gqa=True)
        x = x + a.o_proj(y.transpose(1, 2).reshape(b, t, -1))
        h = self.post_attention_layernorm(x)
        return x + self.mlp.down_proj(F.silu(self.mlp.gate_proj(h)) * self.mlp.up_proj(h))


class Llama(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c, self.model = c, nn.Module()
        self.model.embed_tokens = nn.Embedding(c["vocab_size"], c["hidden_size"])
        self.model.layers = nn.ModuleList(Layer(c) for _ in range(c["num_hidden_layers"]))
        self.model.norm = Norm(c["hidden_size"], c["rms_norm_eps"])
        for name, p in self.named_parameters():
            if p.dim() == 2:
                scale = 0.02 / math.sqrt(2 * c["num_hidden_layers"]) if name.endswith(("o_proj.weight", "down_proj.weight")) else 0.02
                nn.init.normal_(p, std=scale)

    def forward(self, ids):
        m, d = self.model, self.c["head_dim"]
        frequency = self.c["rope_theta"] ** (-torch.arange(0, d, 2, device=ids.device).float() / d)
        angle = torch.arange(ids.shape[1], device=ids.device).float()[:, None] * frequency
        x = m.embed_tokens(ids)
        for layer in m.layers:
            x = layer(x, angle.cos(), angle.sin())
        return F.linear(m.norm(x), m.embed_tokens.weight)


def save(model, path):
    """safetensors: the header's length, the header, the numbers."""
    header, data, at = {}, [], 0
    for name, p in model.named_parameters():
        raw = p.detach().to(torch.bfloat16).contiguous().view(torch.int16).cpu().numpy().tobytes()
        header[name] = {"dtype": "BF16", "shape": list(p.shape), "data_offsets": [at, at + len(raw)]}
        data.append(raw)
        at += len(raw)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path + ".new", "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(data))
    os.replace(path + ".new", path)


def main():
    o = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    o.add_argument("corpus")
    o.add_argument("--out", default=os.path.dirname(os.path.abspath(__file__)))
    o.add_argument("--steps", type=int, default=6000)
    o.add_argument("--batch", type=int, default=8)
    o.add_argument("--length", type=int, default=512)
    o.add_argument("--rate", type=float, default=6e-3)
    o.add_argument("--seed", type=int, default=1)
    o.add_argument("--device", default="cpu")
    o = o.parse_args()
    torch.manual_seed(o.seed)
    c = json.load(open(os.path.join(o.out, "config.json")))
    text = torch.frombuffer(bytearray(open(o.corpus, "rb").read()), dtype=torch.uint8).to(o.device)
    train, held = text[:int(0.98 * len(text))], text[int(0.98 * len(text)):]
    model = Llama(c).to(o.device)
    # Muon for the layers' matrices, AdamW for the embedding and the norms.
    matrices = [p for p in model.model.layers.parameters() if p.dim() == 2]
    others = [p for p in model.parameters() if not any(p is m for m in matrices)]
    optimizers = [torch.optim.Muon(matrices, lr=o.rate, weight_decay=0.1, momentum=0.95, adjust_lr_fn="match_rms_adamw"),
                  torch.optim.AdamW(others, lr=o.rate, betas=(0.9, 0.95), weight_decay=0)]
    draws = torch.Generator(o.device).manual_seed(o.seed)

    def loss_of(part, at):
        rows = part[at[:, None] + torch.arange(o.length + 1, device=o.device)].long()
        with torch.autocast(o.device, torch.bfloat16):
            logits = compiled(rows[:, :-1])
        return F.cross_entropy(logits.float().flatten(0, 1), rows[:, 1:].flatten())

    compiled, begin = torch.compile(model), time.time()
    held_at = torch.arange(0, len(held) - o.length - 1, o.length, device=o.device)[:256].split(o.batch)
    for step in range(o.steps + 1):
        if step % 250 == 0 or step == o.steps:
            with torch.no_grad():
                held_loss = sum(loss_of(held, at).item() for at in held_at) / len(held_at)
            print("step %d, %.0f s: %.4f nats a byte held out" % (step, time.time() - begin, held_loss), flush=True)
            save(model, os.path.join(o.out, "model.safetensors"))
        # 100 steps of warm-up; the last third goes down to 0 in a line.
        rate = o.rate * min((step + 1) / 100, 1, 3 * (1 - step / o.steps))
        at = torch.randint(len(train) - o.length - 1, (o.batch,), generator=draws, device=o.device)
        model.zero_grad(set_to_none=True)
        loss_of(train, at).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.step()


if __name__ == "__main__":
    main()
