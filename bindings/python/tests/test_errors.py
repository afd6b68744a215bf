# SPDX-License-Identifier: MIT
"""What is refused: each is one rfg.Error that names the argument, the value and the rule."""

import os
import subprocess
import sys

import numpy as np
import pytest
import rfg
from rfg import _rfg

X = np.ones((3, 8), np.float32)
W = np.ones((5, 8), np.float32)


class Elsewhere:
    """A tensor of PyTorch's kind that claims to be on some device."""

    def __init__(self, device, shape=(3, 8), dtype="torch.float32", strides=None):
        self.device, self.shape, self.dtype = device, shape, dtype
        self.strides = strides or tuple(np.zeros(shape, np.float32).strides[i] // 4 for i in range(len(shape)))

    def data_ptr(self):
        return 4096

    def stride(self):
        return self.strides


def refused(function, *args, **kwargs):
    with pytest.raises(rfg.Error) as e:
        function(*args, **kwargs)
    return str(e.value), e.value.status


def test_messages_of_the_library():
    text, status = refused(rfg.gemm, X, W[:, :7])
    assert status == "RFG_ERROR_INVALID_ARGUMENT"
    assert text == "rfg_op_gemm: w has 7 columns: must be x's columns, 8"
    text, _ = refused(rfg.gemm, np.ones((3, 16), np.float32)[:, ::2], W)
    assert text == "rfg_op_gemm: x has stride 2 in its last dimension: must be 1"
    text, status = refused(rfg.explain, "gemm bf16,bf16->bf16 M=8 N=two K=7168")
    assert "two" in text and status == "RFG_ERROR_INVALID_ARGUMENT"
    text, status = refused(rfg.Context, "gpu:0")
    assert "gpu:0" in text
    assert issubclass(rfg.Error, RuntimeError)


def test_dtypes():
    assert "w has elements of format 'd'" in refused(rfg.gemm, X, W.astype(np.float64))[0]
    assert "format 'H'" in refused(rfg.gemm, X.astype(np.uint16), W)[0]
    assert "format '>f'" in refused(rfg.gemm, X.astype(">f4"), W)[0]
    assert "dtype that rfg has no name for" in refused(rfg.gemm, Elsewhere("cpu", dtype="torch.complex64"), W, out=X)[0]
    assert "must be one of bf16" in refused(rfg.view, X, "bf17")[0]
    assert "must be 2 for bf16" in refused(rfg.view, X, "bf16")[0]


FLOATS = [np.ones((4, 64)), np.ones((4, 64), np.int64), np.ones((4, 64), np.int32), np.ones((4, 64), np.complex64), np.ones((4, 64), bool)]
NONE = [[[1.0] * 64], None, np.float32(1), 7, "x"]
FUNCTIONS = {
    "gemm": lambda x: rfg.gemm(x, np.ones((32, 64), np.float32)),
    "gated": lambda x: rfg.gemm(x, np.ones((32, 64), np.float32), act="silu"),
    "grouped_gemm": lambda x: rfg.grouped_gemm(x, np.ones((1, 32, 64), np.float32), np.array([0, 4], np.int32)),
    "act": rfg.act,
    "act_and_mul": rfg.act_and_mul,
    "rmsnorm": rfg.rmsnorm,
    "layernorm": rfg.layernorm,
    "add_rmsnorm": lambda x: rfg.add_rmsnorm(x, np.ones((4, 64), np.float32)),
    "moe_route": lambda x: rfg.moe_route(x, 2),
    "argmax": rfg.argmax,
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("x", FLOATS + NONE, ids=str)
def test_a_wrong_x_is_said_of_x(name, x):
    """Not of an output that is made like it, and not as an AttributeError."""
    text = refused(FUNCTIONS[name], x)[0]
    assert " x " in text.split(": ", 1)[1].join("  ") or " x: " in text, text


def test_wrong_others():
    f = np.ones((4, 64), np.float32)
    assert "gemm: w is a list: must be a tensor" == refused(rfg.gemm, f, [1.0])[0]
    assert "w has 0 dimensions" in refused(rfg.gemm, f, np.float32(1))[0]
    assert "src is None" in refused(rfg.gemm_prepack, None)[0]
    assert "src has 1 dimensions: must have at least 2" in refused(rfg.gemm_prepack, f[0])[0]
    assert "residual is None" in refused(rfg.add_rmsnorm, f, None)[0]
    assert refused(rfg.embedding, [1], f)[0] == "embedding: ids is a list: must be a tensor"
    assert refused(rfg.embedding, np.ones(2, np.int32), [1])[0] == "embedding: table is a list: must be a tensor"
    assert "logits is a int" in refused(rfg.sample, 3, f, f)[0]
    text = refused(rfg.gemm, f, np.ones((32, 60), np.float32))[0]
    assert "bias" not in text and "w has 60 columns: must be x's columns, 64" in text, text
    text = refused(rfg.gemm, f, np.ones((32, 64), np.float32), np.ones(31, np.float32))[0]
    assert "bias has 31 elements: must be y's columns, 32" in text, text


def test_devices():
    text, _ = refused(rfg.gemm, X, Elsewhere("cuda:1", (5, 8)))
    assert text == "gemm: w is on nvidia:1, x on cpu: all tensors of a call must be on one device"
    gpu = [Elsewhere("cuda:%d" % n, s) for n, s in ((0, (3, 5)), (1, (3, 8)), (0, (5, 8)))]
    assert refused(_rfg.gemm, *gpu)[0] == "gemm: w is on nvidia:0, x on nvidia:1: all tensors of a call must be on one device"
    assert "doesn't know: must be cpu, CUDA or ROCm" in refused(rfg.gemm, X, Elsewhere("xpu:0", (5, 8)))[0]
    same = [Elsewhere("cuda:7", s) for s in ((3, 5), (3, 8), (5, 8))]
    text, status = refused(_rfg.gemm, *same)
    assert status == "RFG_ERROR_DEVICE" and "nvidia" in text.lower() or "cuda" in text.lower()
    with rfg.Context("cpu") as ctx:
        assert "ctx: is for cpu, the tensors are on nvidia:7" in refused(_rfg.gemm, *same, ctx=ctx)[0]


def test_what_is_no_tensor():
    assert "w is a int, which is no tensor" in refused(rfg.gemm, X, 3, out=X)[0]
    assert "x is a list" in refused(_rfg.rmsnorm, X, [1.0], None)[0]
    assert "there is no tensor among the arguments" in refused(_rfg.rmsnorm, None, None, None)[0]
    assert "6 dimensions: must be at most 5" in refused(rfg.rmsnorm, np.ones((1,) * 6, np.float32))[0]
    assert "6 dimensions: must be at most 5" in refused(_rfg.rmsnorm, X, Elsewhere("cpu", (1,) * 6), None)[0]
    assert "has 1 strides: must have 2" in refused(_rfg.rmsnorm, X, Elsewhere("cpu", strides=(1,)), None)[0]


def test_outputs_that_cannot_be_written():
    out = np.empty((3, 5), np.float32)
    out.flags.writeable = False
    assert "y is read-only: it is written" in refused(rfg.gemm, X, W, out=out)[0]
    X.flags.writeable = False  # inputs may be
    try:
        rfg.gemm(X, W)
    finally:
        X.flags.writeable = True
    records = np.zeros(5, np.dtype([("a", "f4"), ("b", "u1")]))["a"]
    assert "a stride of 5 bytes" in refused(rfg.rmsnorm, records)[0]
    assert "overlap" in refused(rfg.gemm, X, W, out=W[:3, :5])[0]


def test_arguments():
    assert refused(rfg.act, X, "swish")[0] == "act: 'swish': must be one of silu, gelu, gelu_tanh, relu, relu2, swigluoai, situ, swiglustep, none"
    assert "quant.kind: 'row'" in refused(rfg.act, X, quant=("row", X, X))[0]
    assert "quant: is a int" in refused(rfg.act, X, quant=3)[0]
    assert "eps: is a str" in refused(rfg.rmsnorm, X, eps="small")[0]
    assert "max_seqlen_k: 4294967296: must be a number of 32 bits" in refused(_rfg.mha, X, X, X, X, max_seqlen_k=1 << 32)[0]
    assert "ctx: is a str" in refused(rfg.rmsnorm, X, ctx="cpu")[0]
    assert "stream: is a str" in refused(rfg.rmsnorm, X, stream="s")[0]
    assert "kind: 'static'" in refused(rfg.new_quant, X, "static", "i8")[0]
    with pytest.raises(TypeError, match=r"rmsnorm\(\) has no argument 'epsilon'"):
        _rfg.rmsnorm(X, X, None, epsilon=1)
    with pytest.raises(TypeError, match=r"takes 3 tensors \(y - x w\), not 2"):
        _rfg.gemm(X, W)


def test_streams():
    """On cpu there is one stream; a number that is none is refused by the library, not followed."""
    assert rfg.rmsnorm(X, stream=0).shape == X.shape
    text, status = refused(rfg.rmsnorm, X, stream=4096)
    assert "stream" in text and status == "RFG_ERROR_INVALID_ARGUMENT"


def test_closed_contexts():
    ctx = rfg.Context("cpu")
    assert ctx.device == "cpu"
    rfg.rmsnorm(X, ctx=ctx)
    ctx.close()
    ctx.close()
    assert refused(rfg.rmsnorm, X, ctx=ctx)[0] == "the context was closed"
    assert refused(ctx.stats)[0] == "the context was closed"
    assert repr(ctx) == "<rfg.Context, closed>"


def without_library(setting, code="import rfg, numpy; rfg.rmsnorm(numpy.ones((2, 2), 'f'))"):
    env = dict(os.environ)
    env.pop("RFG_LIBRARY")
    env.update(setting)
    code = "import rfg\ntry:\n    exec(%r)\nexcept rfg.Error as e:\n    print(e.status, e)" % code
    return subprocess.run([sys.executable, "-c", code], env=env, cwd="/", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout


def test_missing_library(tmp_path):
    assert "this package was built without one: set RFG_LIBRARY" in without_library({})
    assert "/nowhere/librfg.so" in without_library({"RFG_LIBRARY": "/nowhere/librfg.so"})
    assert "must be an absolute path" in without_library({"RFG_LIBRARY": "librfg.so"})
    assert "has no rfg_" in without_library({"RFG_LIBRARY": _libm()})
    assert without_library({"RFG_LIBRARY": os.environ["RFG_LIBRARY"]}) == ""


def _libm():
    for line in open("/proc/self/maps"):
        if "/libm.so" in line or "/libm-" in line:
            return line.split()[-1]
    pytest.skip("no libm is loaded")


def test_no_library_of_the_search_path(tmp_path):
    """docs/security.md: a librfg of the current directory or of LD_LIBRARY_PATH isn't taken."""
    os.symlink(os.environ["RFG_LIBRARY"], tmp_path / "librfg.so.0.2")
    os.symlink(os.environ["RFG_LIBRARY"], tmp_path / "librfg.so")
    assert "built without one" in without_library({"LD_LIBRARY_PATH": str(tmp_path)}, "import os; os.chdir(%r); rfg.version()" % str(tmp_path))


def test_damaged_pack(tmp_path):
    for name, content in (("empty", b""), ("text", b"no pack\n" * 100)):
        path = tmp_path / name
        path.write_bytes(content)
        path.chmod(0o600)
        with pytest.raises(rfg.Error, match=str(path)) as e:
            rfg.Context("cpu", pack=str(path))
        assert "\n" not in str(e.value)
