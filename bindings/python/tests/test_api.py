# SPDX-License-Identifier: MIT
"""Contexts, preparing, explaining, tuning; and that all of the C headers is there."""

import glob
import inspect
import os
import re
import stat

import numpy as np
import pytest
import rfg
from rfg import _rfg, tuning

ROOT = os.environ["RFG_SOURCE_ROOT"]
X = np.ones((3, 8), np.float32)
W = np.ones((5, 8), np.float32)


def headers():
    return "\n".join(open(p).read() for p in sorted(glob.glob(ROOT + "/include/rfg/*.h")))


def bound():
    return {op.symbol: op for op in vars(_rfg).values() if isinstance(op, type(_rfg.gemm))}


def function_of(op):
    return getattr(rfg, op.__name__, None) or getattr(rfg.comm.Comm, op.__name__)


def test_every_operator_is_bound():
    """Those of a communicator are its methods."""
    declared = set(re.findall(r"RFG_NODISCARD rfg_status (rfg_op_\w+|rfg_gemm_prepack|rfg_rope_table|rfg_moe_workspace_bytes)\(", headers()))
    assert len(declared) >= 20
    assert declared == set(bound())
    for op in bound().values():
        assert op.symbol in function_of(op).__doc__
        assert op.__name__ in rfg.__all__ or hasattr(rfg.comm.Comm, op.__name__)


def test_every_member_is_bound():
    """Members of params structs, in the order of the C struct; window's three are one argument."""
    text = re.sub(r"/\*.*?\*/", "", headers(), flags=re.S)
    for op in bound().values():
        declaration = re.search(r"rfg_status %s\(([^;]*)\);" % op.symbol, text)[1]
        names = [a.split("*")[-1].strip() for a in declaration.split(",")]
        tensors = tuple(n for a, n in zip(declaration.split(","), names) if "rfg_tensor" in a)
        assert op.tensors == tensors, op.symbol
        struct = re.search(r"const (rfg_\w+_params) \*", declaration)
        if not struct:
            assert op.members == ()
            continue
        body = re.search(r"typedef struct %s {(.*?)} %s;" % (struct[1], struct[1]), text, re.S)[1]
        members = [re.sub(r"\[.*|\W", "", n.split()[-1]) for line in body.split(";") if line.strip() for n in line.split(",")]
        assert op.members == tuple(m for m in members[1:] if m != "reserved"), op.symbol
        if op.__name__ in ("rope_table", "moe_workspace_bytes"):
            continue  # take the members as they are
        arguments = set(inspect.signature(function_of(op)).parameters)
        if op.__name__ == "gemm":
            arguments |= set(inspect.signature(rfg.grouped_gemm).parameters)
        hidden = {"workspace_bytes", "window_left", "window_right", "mean_seqlen_k", "gates", "alpha", "limit", "situ_beta", "situ_linear_beta", "bias", "order", "gated"}
        hidden |= {"quantize": {"codes", "global"}, "quantize_scale": {"group_rows", "group_cols", "scale_given", "smooth", "global"},
                   "moe": {"rows", "offsets", "sorted", "places"}, "moe_gate": {"rows", "offsets", "sorted", "places", "normed"}}.get(op.__name__, set())
        hidden |= {"cu_seqlens_q", "cu_seqlens_k", "max_seqlen_q"} if op.__name__ == "mha_decode" else set()
        assert set(op.members) - arguments <= hidden, op.symbol


def test_describe_prepare_explain():
    problem = rfg.describe(rfg.gemm, X, W)
    assert problem.startswith("gemm f32,f32->f32 M=3 N=5 K=8")
    before = rfg.stats()
    assert rfg.describe(rfg.rmsnorm, np.ones((2, 77), np.float32)).startswith("rmsnorm f32->f32 M=2 N=77")
    rfg.prepare("rmsnorm f32->f32 M=1..4 N=77")
    assert rfg.stats().calls == before.calls
    text = rfg.explain(problem)
    assert "rung 4: the model picks gemm_cpu" in text or "chosen: gemm" in text
    with pytest.raises(rfg.Error):
        rfg.describe(rfg.gemm, X, W[:, :3])
    assert rfg.gemm(X, W)[0, 0] == 8  # describing has ended


def test_prepare_from_csv(tmp_path):
    path = tmp_path / "shapes.csv"
    path.write_text("op,dtype,M,N,K\ngemm,\"f32,f32->f32\",3,5,8\n")
    rfg.prepare_from_csv(str(path))
    path.write_text("op,dtype,M,N,K\ngemm,\"f32,f32->f32\",three,5,8\n")
    with pytest.raises(rfg.Error, match="three"):
        rfg.prepare_from_csv(str(path))


def test_stats_count():
    with rfg.Context("cpu", misses=-1, threads=1) as ctx:
        assert ctx.stats() == rfg.Stats(0, 0, 0, 0, 0, 0)
        for _ in range(3):
            rfg.gemm(X, W, ctx=ctx)
        s = rfg.stats(ctx)
        assert (s.calls, s.plans) == (3, 1)
        assert rfg.context(ctx) is ctx
    assert rfg.context("cpu") is rfg.context("cpu")


def test_settings_reach_the_library():
    with rfg.Context("cpu", variants="gemm_cpu_portable") as ctx:
        problem = rfg.describe(rfg.gemm, X, W, ctx=ctx)
        assert "gemm_cpu_portable" in ctx.explain(problem).split("chosen:")[1]
    with pytest.raises(rfg.Error, match="no_such_variant"):
        rfg.Context("cpu", variants="no_such_variant")
    with pytest.raises(rfg.Error, match="/nowhere.rfgpack"):
        rfg.Context("cpu", pack="/nowhere.rfgpack")
    with pytest.raises(rfg.Error, match="threads"):
        rfg.Context("cpu", threads=-1)


def test_version():
    assert rfg.version() == _rfg.built_for == re.search(r'RFG_VERSION +"(.*)"', headers())[1]


def test_tune(tmp_path):
    db = tmp_path / "t.db"
    problem = rfg.describe(rfg.rmsnorm, X)
    text = rfg.tune(problem, device="cpu", db=str(db), quiet=True, options=["--per-shape", "0.05", "--candidates", "2"])
    assert problem in text
    with rfg.Context("cpu", user_db=str(db)) as ctx:
        assert "rung 1" in ctx.explain(problem).split("chosen:")[1]
    with pytest.raises(rfg.Error, match="nothing to tune"):
        rfg.tune()
    with pytest.raises(rfg.Error, match="rfg-tune: exit code"):
        rfg.tune("rmsnorm f32->f32 M=x N=8", db=str(db), quiet=True)


def test_programs_that_others_can_write(tmp_path, monkeypatch):
    """docs/security.md: beside the library or in its prefix, of root, ours or the library's owner, not writable by all."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "bin").mkdir()
    library, program = tmp_path / "lib" / "librfg.so", tmp_path / "bin" / "rfg-tune"
    library.write_text("")
    monkeypatch.setenv("RFG_LIBRARY", str(library))
    with pytest.raises(rfg.Error, match="rfg-tune: there is none in"):
        tuning.program("rfg-tune")
    program.write_text("#!/bin/sh\n")
    with pytest.raises(rfg.Error, match="is no program"):
        tuning.program("rfg-tune")
    program.chmod(0o755)
    assert tuning.program("rfg-tune") == str(program)
    program.chmod(0o757)
    with pytest.raises(rfg.Error, match="can be written by others"):
        tuning.program("rfg-tune")
    program.chmod(0o755)
    if os.geteuid() == 0:
        os.chown(program, 12345, -1)
        with pytest.raises(rfg.Error, match="belongs to another user"):
            tuning.program("rfg-tune")
    assert stat.S_IMODE(os.stat(program).st_mode) == 0o755


def test_bf16_rounds_to_nearest_even():
    bits = np.array([0x3F808000, 0x3F818000, 0x3F808001, 0x7F7FFFFF, 0xFF800000, 0x7F800001], np.uint32)
    assert rfg.bf16(bits.view(np.float32)).array.tolist() == [0x3F80, 0x3F82, 0x3F81, 0x7F80, 0xFF80, 0x7FC0]
    assert rfg.f32(rfg.bf16(np.float32([1.5, -2]))).tolist() == [1.5, -2]
