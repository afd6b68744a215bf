# SPDX-License-Identifier: MIT
"""What the operators compute, in NumPy and double precision."""

import math

import numpy as np


def act(v, name):
    v = v.astype(np.float64)
    if name == "silu":
        return v / (1 + np.exp(-v))
    if name == "gelu":
        return v * (1 + np.vectorize(math.erf)(v / math.sqrt(2))) / 2
    if name == "gelu_tanh":
        return v * (1 + np.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3))) / 2
    if name == "relu":
        return np.maximum(v, 0)
    if name == "relu2":
        return np.maximum(v, 0) ** 2
    assert name == "none"
    return v


def rms(x, weight=None, eps=1e-6):
    x = x.astype(np.float64)
    y = x / np.sqrt((x * x).mean(-1, keepdims=True) + eps)
    return y if weight is None else y * weight


def layer(x, weight=None, bias=None, eps=1e-6):
    x = x.astype(np.float64)
    x = x - x.mean(-1, keepdims=True)
    y = x / np.sqrt((x * x).mean(-1, keepdims=True) + eps)
    return (y if weight is None else y * weight) + (0 if bias is None else bias)


def attention(q, k, v, causal=False, scale=None, window=None, kv_lens=None, sinks=None):
    """q [B,Sq,Hq,D], k [B,S,Hkv,D]: out [B,Sq,Hq,Dv], lse [B,Hq,Sq]."""
    q, k, v = (t.astype(np.float64) for t in (q, k, v))
    b, sq, hq, d = q.shape
    out = np.zeros((b, sq, hq, v.shape[-1]))
    lse = np.full((b, hq, sq), -np.inf)
    for s in range(b):
        n = k.shape[1] if kv_lens is None else int(kv_lens[s])
        for h in range(hq):
            g = h // (hq // k.shape[2])
            for i in range(sq):
                at = i + n - sq
                keys = [j for j in range(n) if not (causal and j > at)]
                if isinstance(window, int):
                    keys = [j for j in keys if at - window < j]
                elif window is not None:
                    keys = [j for j in keys if at - window[0] <= j <= at + window[1]]
                if not keys:
                    continue
                w = k[s, keys, g] @ q[s, i, h] * (scale or d**-0.5)
                total = np.log(np.exp(w).sum() + (np.exp(sinks[h]) if sinks is not None else 0))
                lse[s, h, i] = total
                out[s, i, h] = np.exp(w - total) @ v[s, keys, g]
    return out, lse
