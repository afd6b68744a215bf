# SPDX-License-Identifier: MIT
"""rope_table() beside transformers' own frequencies (modeling_rope_utils.py), which are in fp32."""

import numpy as np
import pytest
import torch

import rfg

transformers = pytest.importorskip("transformers", reason="no transformers (pip install transformers)")
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS  # noqa: E402

LONGROPE = dict(short_factor=[1 + i / 50 for i in range(48)], long_factor=[1 + i * i / 9 for i in range(48)])
HEAD = 128
# name: rope_parameters, the config's other members, the length; what rope_table() is told, R
CASES = {
    "linear": (dict(rope_type="linear", factor=4.0), {}, None, dict(factor=4.0), HEAD),
    "dynamic": (dict(rope_type="dynamic", factor=4.0), dict(max_position_embeddings=64), 200, dict(original=64, factor=4.0, length=200), HEAD),
    "dynamic, short": (dict(rope_type="dynamic", factor=4.0), dict(max_position_embeddings=64), 20, dict(original=64, factor=4.0, length=20), HEAD),
    "llama3": (
        dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8192), {}, None,
        dict(factor=8.0, original=8192), HEAD
    ),
    "yarn": (dict(rope_type="yarn", factor=16.0, original_max_position_embeddings=4096), {}, None, dict(factor=16.0, original=4096), HEAD),
    "yarn, betas": (
        dict(rope_type="yarn", factor=16.0, original_max_position_embeddings=4096, beta_fast=24, beta_slow=3, attention_factor=0.75), {}, None,
        dict(factor=16.0, original=4096, beta_fast=24, beta_slow=3, attention_factor=0.75), HEAD
    ),
    "yarn, gpt-oss": (
        dict(rope_type="yarn", factor=32.0, original_max_position_embeddings=4096, truncate=False), {}, None,
        dict(factor=32.0, original=4096, untruncated=1), HEAD
    ),
    "yarn, DeepSeek": (
        dict(rope_type="yarn", factor=40.0, original_max_position_embeddings=4096, mscale=1.0, mscale_all_dim=0.707), {}, None,
        dict(factor=40.0, original=4096, mscale=1.0, mscale_all_dim=0.707), HEAD
    ),
    "longrope, short": (
        dict(rope_type="longrope", original_max_position_embeddings=4096, partial_rotary_factor=0.75, **LONGROPE),
        dict(max_position_embeddings=131072), 4096, dict(original=4096, factor=32.0, length=4096, **LONGROPE), 96
    ),
    "longrope, long": (
        dict(rope_type="longrope", original_max_position_embeddings=4096, partial_rotary_factor=0.75, **LONGROPE),
        dict(max_position_embeddings=131072), 4097, dict(original=4096, factor=32.0, length=4097, **LONGROPE), 96
    ),
    "longrope, attention_factor": (
        dict(rope_type="longrope", original_max_position_embeddings=4096, attention_factor=1.5, partial_rotary_factor=0.75, **LONGROPE),
        dict(max_position_embeddings=131072), 9999, dict(original=4096, factor=32.0, attention_factor=1.5, length=9999, **LONGROPE), 96
    ),
    "proportional": (dict(rope_type="proportional", partial_rotary_factor=0.25), {}, None, dict(partial_rotary_factor=0.25), HEAD),
    "proportional, factor": (
        dict(rope_type="proportional", partial_rotary_factor=0.3, factor=8.0), {}, None, dict(partial_rotary_factor=0.3, factor=8.0), HEAD
    ),
}  # fmt: skip


@pytest.mark.parametrize("theta", [10000.0, 1e6])
@pytest.mark.parametrize("case", CASES)
def test_tables(case, theta):
    parameters, sizes, length, told, r = CASES[case]
    if parameters["rope_type"] not in ROPE_INIT_FUNCTIONS:
        pytest.skip("transformers %s has no %s" % (transformers.__version__, parameters["rope_type"]))
    sizes = dict(dict(head_dim=HEAD, hidden_size=HEAD, num_attention_heads=1, max_position_embeddings=131072), **sizes)
    config = transformers.LlamaConfig(**sizes, rope_parameters=dict(parameters, rope_theta=theta))
    frequencies, attention = ROPE_INIT_FUNCTIONS[parameters["rope_type"]](config, "cpu", seq_len=length)
    assert frequencies.shape == (r // 2,)
    table = rfg.rope_table(np.empty((20, r), np.float32), parameters["rope_type"], theta, **told)
    angles = torch.arange(20, dtype=torch.float64)[:, None] * frequencies.double()
    want = torch.cat((angles.cos(), angles.sin()), -1).numpy() * attention
    assert np.abs(table - want).max() <= 20 * 2**-22  # a frequency is off by some four roundings to fp32
