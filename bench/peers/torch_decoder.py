# SPDX-License-Identifier: MIT
"""The decoder of examples/decoder in PyTorch, for decoder_peers.py: the same weights, the same steps. With ranks each has
the part that examples/decoder/team.c gives it, and torch.distributed sums."""

import glob
import json
import math
import os

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as collectives
import torch.nn.functional as F

# What `rfg-decoder --random NAME` is made of (examples/decoder/shapes.c).
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 8192}
BUILT_IN = {
    "llama3-8b": dict(hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32,
                      num_key_value_heads=8, head_dim=128, vocab_size=128256, rms_norm_eps=1e-5, rope_theta=5e5,
                      rope_scaling=LLAMA3),
    "llama3-70b": dict(hidden_size=8192, intermediate_size=28672, num_hidden_layers=80, num_attention_heads=64,
                       num_key_value_heads=8, head_dim=128, vocab_size=128256, rms_norm_eps=1e-5, rope_theta=5e5,
                       rope_scaling=LLAMA3),
    "llama3-70b-tp8": dict(hidden_size=8192, intermediate_size=3584, num_hidden_layers=80, num_attention_heads=8,
                           num_key_value_heads=1, head_dim=128, vocab_size=16032, rms_norm_eps=1e-5, rope_theta=5e5,
                           rope_scaling=LLAMA3),
    "qwen3-8b": dict(hidden_size=4096, intermediate_size=12288, num_hidden_layers=36, num_attention_heads=32,
                     num_key_value_heads=8, head_dim=128, vocab_size=151936, rms_norm_eps=1e-6, rope_theta=1e6,
                     qk_norm=True),
    "qwen3-30b-a3b": dict(hidden_size=2048, num_hidden_layers=48, num_attention_heads=32, num_key_value_heads=4,
                          head_dim=128, vocab_size=151936, rms_norm_eps=1e-6, rope_theta=1e6, qk_norm=True,
                          experts=128, top=8, intermediate_size=768),
    "small-moe": dict(hidden_size=256, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, head_dim=64,
                      vocab_size=256, rms_norm_eps=1e-5, rope_theta=1e4, tie_word_embeddings=True, experts=16, top=4,
                      intermediate_size=128),
    "small": dict(hidden_size=256, intermediate_size=576, num_hidden_layers=6, num_attention_heads=4, num_key_value_heads=2,
                  head_dim=64, vocab_size=256, rms_norm_eps=1e-5, rope_theta=1e4, tie_word_embeddings=True),
}


# ---- weights -----------------------------------------------------------------------------------------------------


def signed(x):
    """64 bits as PyTorch's int64 has them."""
    return (x + 2**63) % 2**64 - 2**63


def shifted(z, bits):
    return (z >> bits) & signed((1 << (64 - bits)) - 1)


def random_tensor(seed, name, shape, mean, spread, device):
    """The numbers of weights_random() in examples/decoder/weights.c, by SplitMix64 of a counter."""
    h = 0xcbf29ce484222325
    for byte in name.encode():
        h = (h ^ byte) * 0x100000001b3 % 2**64
    n = math.prod(shape)
    out = torch.empty(n, dtype=torch.bfloat16, device=device)
    piece = 1 << 26
    for first in range(0, n, piece):
        count = min(piece, n - first)
        z = torch.arange(first // 4 + 1, (first + count + 3) // 4 + 1, device=device)
        z = z * signed(0x9e3779b97f4a7c15) + signed(seed ^ h)
        z = (z ^ shifted(z, 30)) * signed(0xbf58476d1ce4e5b9)
        z = (z ^ shifted(z, 27)) * signed(0x94d049bb133111eb)
        z ^= shifted(z, 31)
        halves = z.view(torch.int16)[:count].float()  # little endian, as the machine is
        scale = torch.tensor(spread / 32768, dtype=torch.float32, device=device)
        out[first:first + count] = (halves * scale + mean).bfloat16()
    return out.view(shape)


class Files:
    def __init__(self, folder, device):
        from safetensors import safe_open  # PyPI: safetensors
        self.of, self.device = {}, device
        for path in sorted(glob.glob(os.path.join(folder, "*.safetensors"))):
            f = safe_open(path, "pt", device=str(device))
            self.of.update({name: f for name in f.keys()})

    def get(self, name, shape, mean, spread):
        return self.of[name].get_tensor(name)


class Random:
    def __init__(self, seed, device):
        self.seed, self.device = seed, device

    def get(self, name, shape, mean, spread):
        return random_tensor(self.seed, name, shape, mean, spread, self.device)


# ---- the model ---------------------------------------------------------------------------------------------------


def angles(c, length, device):
    """[length, head_dim / 2] cosines and sines in fp32, from double, with Llama 3's scaling."""
    d = c["head_dim"]
    f = float(c["rope_theta"]) ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    scaling = c.get("rope_scaling")
    if scaling:
        if scaling.get("rope_type", scaling.get("type")) != "llama3":
            raise ValueError("rope_scaling %s: only llama3 is here" % scaling)
        low, high, factor = scaling["low_freq_factor"], scaling["high_freq_factor"], scaling["factor"]
        turns = scaling["original_max_position_embeddings"] * f / (2 * math.pi)
        smooth = ((turns - low) / (high - low)).clamp(0, 1)
        f = (1 - smooth) * f / factor + smooth * f
    t = torch.arange(length, dtype=torch.float64)[:, None] * f
    return t.cos().float().to(device), t.sin().float().to(device)


def rms(x, w, eps):
    return F.rms_norm(x.float(), (x.shape[-1],), w.float(), eps).to(x.dtype)


def rotate(x, cos, sin):
    """x [..., heads, d]; cos, sin [..., 1, d / 2]"""
    a, b = x.float().chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1).to(x.dtype)


class Decoder(torch.nn.Module):
    def __init__(self, c, weights, context, batch, device):
        super().__init__()
        self.ranks, self.rank = (dist.get_world_size(), dist.get_rank()) if dist.is_initialized() else (1, 0)
        self.group = dist.group.WORLD.group_name if self.ranks > 1 else None  # torch.compile takes the name
        h, i = c["hidden_size"], c["intermediate_size"] // self.ranks
        self.hq, self.hkv = c["num_attention_heads"] // self.ranks, c["num_key_value_heads"] // self.ranks
        self.d = c["head_dim"]
        self.eps, self.context, self.grouped = c["rms_norm_eps"], context, False
        self.experts, self.top, self.gathered = c.get("experts", 0), c.get("top", 0), True
        q, kv = self.hq * self.d, self.hkv * self.d

        def matrix(name, rows, cols, cut=None):
            """rows, cols: this rank's; cut: the dimension of which it has a part."""
            shape = [rows, cols]
            if cut is None or self.ranks == 1:
                return weights.get(name + ".weight", tuple(shape), 0.0, math.sqrt(3 / cols))
            n = shape[cut]
            shape[cut] *= self.ranks
            whole = weights.get(name + ".weight", tuple(shape), 0.0, math.sqrt(3 / shape[1]))
            return whole.narrow(cut, self.rank * n, n).clone()

        def norm(name, n):
            return weights.get(name + ".weight", (n,), 1.0, 0.1)

        self.layers = []
        for n in range(c["num_hidden_layers"]):
            p, a, m = "model.layers.%d." % n, "self_attn.", "mlp."
            self.layers.append(dict(
                norm=norm(p + "input_layernorm", h), mlp_norm=norm(p + "post_attention_layernorm", h),
                qkv=torch.cat([matrix(p + a + "q_proj", q, h, 0), matrix(p + a + "k_proj", kv, h, 0),
                               matrix(p + a + "v_proj", kv, h, 0)]),
                o=matrix(p + a + "o_proj", h, q, 1)))
            if self.experts:
                self.layers[-1].update(self.load_experts(matrix, p + m, h, i, n))
            else:
                self.layers[-1].update(
                    gate_up=torch.cat([matrix(p + m + "gate_proj", i, h, 0), matrix(p + m + "up_proj", i, h, 0)]),
                    down=matrix(p + m + "down_proj", h, i, 1))
            if c.get("qk_norm"):
                self.layers[-1].update(q_norm=norm(p + a + "q_norm", self.d), k_norm=norm(p + a + "k_norm", self.d))
        self.norm = norm("model.norm", h)
        self.embedding = matrix("model.embed_tokens", c["vocab_size"], h)
        part = c["vocab_size"] // self.ranks
        self.head = (self.embedding.narrow(0, self.rank * part, part) if c.get("tie_word_embeddings")
                     else matrix("lm_head", part, h, 0))
        self.dtype = self.embedding.dtype
        self.cos, self.sin = angles(c, context, device)
        # A tensor a layer: of views of one tensor torch.compile copies all of it at each write.
        self.k, self.v = ([torch.zeros((batch, self.hkv, context, self.d), dtype=self.dtype, device=device)
                           for _ in self.layers] for _ in range(2))
        self.rows = torch.arange(batch, device=device)
        self.columns = torch.arange(context, device=device)
        # What a step reads and writes: the newest token of each sequence and its position.
        self.tokens = torch.zeros(batch, dtype=torch.int64, device=device)
        self.positions = torch.zeros(batch, dtype=torch.int64, device=device)

    def load_experts(self, matrix, prefix, h, i, n):
        """As rfg-decoder's random weights: all layers have the first layer's experts."""
        router = matrix(prefix + "gate", self.experts, h)
        if n > 0:
            return dict(router=router, w1=self.layers[0]["w1"].clone(), w2=self.layers[0]["w2"].clone())
        w1, w2 = [], []
        for e in range(self.experts):
            p = prefix + "experts.%d." % e
            w1.append(torch.cat([matrix(p + "gate_proj", i, h, 0), matrix(p + "up_proj", i, h, 0)]))
            w2.append(matrix(p + "down_proj", h, i, 1))
        return dict(router=router, w1=torch.stack(w1), w2=torch.stack(w2))

    def summed(self, x):
        """The sum of all ranks' x."""
        if self.ranks > 1 and torch.compiler.is_compiling():
            return collectives.all_reduce(x, "sum", self.group)
        if self.ranks > 1:
            dist.all_reduce(x)
        return x

    def chosen(self, layer, x):
        shares, ids = F.linear(x, layer["router"]).float().softmax(-1).topk(self.top)
        return (shares / shares.sum(-1, keepdim=True)), ids

    def mixture(self, layer, x):
        """x [T, hidden] of a decode step: by gathered weights, which torch.compile reads in place, or by grouped products."""
        shares, ids = self.chosen(layer, x)
        if self.gathered:
            gate, up = torch.einsum("th,tkoh->tko", x, layer["w1"][ids]).chunk(2, -1)
            y = torch.einsum("tki,tkhi->tkh", F.silu(gate) * up, layer["w2"][ids])
        else:
            flat, order = ids.flatten().sort()
            ends = torch.zeros(self.experts, dtype=torch.int32, device=x.device)
            ends = ends.scatter_add(0, flat, torch.ones_like(flat, dtype=torch.int32)).cumsum(0, dtype=torch.int32)
            gate, up = torch._grouped_mm(x[order // self.top], layer["w1"].transpose(1, 2), offs=ends).chunk(2, -1)
            z = torch._grouped_mm(F.silu(gate) * up, layer["w2"].transpose(1, 2), offs=ends)
            y = torch.empty_like(z).index_copy(0, order, z).unflatten(0, (-1, self.top))
        return (y.float() * shares[..., None]).sum(1).to(x.dtype)

    def mixture_of_prompt(self, layer, x):
        shares, ids = self.chosen(layer, x)
        y = torch.zeros(x.shape, dtype=torch.float32, device=x.device)
        for e in range(self.experts):
            rows, slot = (ids == e).nonzero(as_tuple=True)
            gate, up = F.linear(x[rows], layer["w1"][e]).chunk(2, -1)
            y.index_add_(0, rows, F.linear(F.silu(gate) * up, layer["w2"][e]).float() * shares[rows, slot][:, None])
        return y.to(x.dtype)

    def projected(self, layer, x, cos, sin):
        """x [..., hidden]: q, k, v [..., heads, d]"""
        qkv = F.linear(rms(x, layer["norm"], self.eps), layer["qkv"]).unflatten(-1, (-1, self.d))
        q, k, v = qkv.split((self.hq, self.hkv, self.hkv), -2)
        if "q_norm" in layer:
            q, k = rms(q, layer["q_norm"], self.eps), rms(k, layer["k_norm"], self.eps)
        return rotate(q, cos, sin), rotate(k, cos, sin), v

    def rest(self, layer, x, attention):
        x = x + self.summed(F.linear(attention.flatten(-2), layer["o"]))
        normed = rms(x, layer["mlp_norm"], self.eps)
        if self.experts:
            return x + self.summed(self.mixture_of_prompt(layer, normed) if x.shape[0] > 64 else self.mixture(layer, normed))
        gate, up = F.linear(normed, layer["gate_up"]).chunk(2, -1)
        return x + self.summed(F.linear(F.silu(gate) * up, layer["down"]))

    def logits(self, x):
        y = F.linear(rms(x, self.norm, self.eps), self.head).float()
        if self.ranks == 1:
            return y
        if torch.compiler.is_compiling():
            return collectives.all_gather_tensor(y, gather_dim=1, group=self.group)
        parts = torch.empty((self.ranks * y.shape[0], y.shape[1]), dtype=y.dtype, device=y.device)
        dist.all_gather_into_tensor(parts, y)
        return parts.unflatten(0, (self.ranks, -1)).transpose(0, 1).flatten(1)

    def attend(self, q, n, seen):
        """One query a sequence, q [B, Hq, D], over the keys that are seen [B, context]."""
        if not self.grouped:
            return F.scaled_dot_product_attention(q[:, :, None], self.k[n], self.v[n], attn_mask=seen[:, None, None],
                                                  enable_gqa=True)[:, :, 0]
        # Heads that share a key as rows of one product: what torch.compile fuses best.
        scores = q.unflatten(1, (self.hkv, -1)) @ self.k[n].transpose(-1, -2) / math.sqrt(self.d)
        weights = scores.float().masked_fill(~seen[:, None, None], -math.inf).softmax(-1)
        return (weights.to(self.dtype) @ self.v[n]).flatten(1, 2)

    def step(self, tokens, positions):
        """Logits [B, V] of the tokens after `tokens`."""
        cos, sin = self.cos[positions][:, None], self.sin[positions][:, None]
        seen = self.columns <= positions[:, None]
        x = F.embedding(tokens, self.embedding)
        for n, layer in enumerate(self.layers):
            q, k, v = self.projected(layer, x, cos, sin)
            self.k[n][self.rows, :, positions] = k
            self.v[n][self.rows, :, positions] = v
            x = self.rest(layer, x, self.attend(q, n, seen))
        return self.logits(x)

    def forward(self):
        """The greedy step, in place: what is captured."""
        logits = self.step(self.tokens, self.positions)
        self.tokens.copy_(logits.argmax(-1))
        self.positions.add_(1)
        return logits

    def prefill(self, tokens, row):
        """tokens [T] of sequence `row` from its first position on: the logits [1, V] after the last."""
        n = tokens.shape[0]
        cos, sin = self.cos[:n, None], self.sin[:n, None]
        x = F.embedding(tokens, self.embedding)
        for i, layer in enumerate(self.layers):
            q, k, v = self.projected(layer, x, cos, sin)
            self.k[i][row, :, :n] = k.transpose(0, 1)
            self.v[i][row, :, :n] = v.transpose(0, 1)
            q, k, v = (t.transpose(0, 1)[None] for t in (q, k, v))
            a = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
            x = self.rest(layer, x, a[0].transpose(0, 1))
        return self.logits(x[-1:])


def prompt_token(row, at, vocab):
    """The ladder's prompts (examples/decoder/ladder.c)."""
    z = (row * 1000003 + at + 1) * 0x9e3779b97f4a7c15 % 2**64
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9 % 2**64
    return (z ^ z >> 31) % vocab


def load(args, batch, device):
    """The model of rfg-decoder's --random NAME or --model FOLDER."""
    if args.random:
        if args.random not in BUILT_IN:
            raise SystemExit("--random %s: must be one of %s" % (args.random, ", ".join(BUILT_IN)))
        c = dict(BUILT_IN[args.random])
        c["num_hidden_layers"] = args.layers or c["num_hidden_layers"]
        return Decoder(c, Random(args.seed, device), args.context, batch, device)
    with open(os.path.join(args.model, "config.json"), encoding="utf-8") as f:
        c = json.load(f)
    c.setdefault("head_dim", c["hidden_size"] // c["num_attention_heads"])
    kind = c["architectures"][0]
    if kind not in ("LlamaForCausalLM", "Qwen3ForCausalLM"):
        raise SystemExit("%s: %s: must be LlamaForCausalLM or Qwen3ForCausalLM" % (args.model, kind))
    c["qk_norm"] = kind.startswith("Qwen3")
    return Decoder(c, Files(args.model, device), args.context, batch, device)
