# SPDX-License-Identifier: MIT
"""Run by test_gpu.py, with an emulated ROCm on LD_LIBRARY_PATH: tensors as a PyTorch for ROCm shows them, in memory of hipMalloc()."""

import ctypes
import sys
import types

import numpy as np
import reference
import rfg

hip = ctypes.CDLL("libamdhip64.so.6")
streams = []


def must(error):
    assert error == 0, error


class Stream:
    def __init__(self):
        address = ctypes.c_void_p()
        must(hip.hipStreamCreate(ctypes.byref(address)))
        self.cuda_stream = address.value


def current_stream(index):
    streams.append(index)
    return current


current = Stream()
torch = types.ModuleType("torch")
torch.version = types.SimpleNamespace(hip="6.4", cuda=None)
torch.cuda = types.SimpleNamespace(current_stream=current_stream)
torch.is_grad_enabled = lambda: False
sys.modules["torch"] = torch


class Tensor:
    device, dtype, requires_grad = "cuda:0", "torch.float32", False

    def __init__(self, array):
        self.host = np.ascontiguousarray(array, np.float32)
        self.shape = self.host.shape
        self.memory = ctypes.c_void_p()
        must(hip.hipMalloc(ctypes.byref(self.memory), ctypes.c_size_t(self.host.nbytes)))
        self.copy(self.memory, self.host.ctypes.data, 1)

    def copy(self, to, source, kind):
        must(hip.hipMemcpy(ctypes.c_void_p(to) if isinstance(to, int) else to, ctypes.c_void_p(source), ctypes.c_size_t(self.host.nbytes), kind))

    def data_ptr(self):
        return self.memory.value

    def stride(self):
        return tuple(s // 4 for s in self.host.strides)

    def read(self):
        must(hip.hipStreamSynchronize(ctypes.c_void_p(current.cuda_stream)))
        self.copy(self.host.ctypes.data, self.memory.value, 2)
        return self.host


x = Tensor(np.random.default_rng(1).standard_normal((3, 64)))
y, weight = Tensor(np.zeros((3, 64))), Tensor(np.arange(64) / 8)
want = reference.rms(x.host, weight.host)
assert rfg.describe(rfg.rmsnorm, x, weight, out=y) == "rmsnorm f32->f32 M=3 N=64"
streams.clear()
rfg.rmsnorm(x, weight, out=y)
assert streams == [0], streams  # the current one was asked for, of this device
assert np.abs(y.read() - want).max() < 1e-4
assert rfg.context("amd:0").device == "amd:0" and rfg.stats("amd:0").calls == 1
assert rfg.stats("amd:0").compiles + rfg.stats("amd:0").cache_hits >= 1

# A given stream is used, and none is asked for; one that isn't legal reaches the library's check.
rfg.rmsnorm(x, weight, out=y, eps=1.0, stream=Stream())
rfg.rmsnorm(x, weight, out=y, eps=1.0, stream=current.cuda_stream)
assert streams == [0]
assert np.abs(y.read() - reference.rms(x.host, weight.host, 1.0)).max() < 1e-4
try:
    rfg.rmsnorm(x, weight, out=y, stream=2)  # hipStreamPerThread
    raise SystemExit("hipStreamPerThread was taken")
except rfg.Error as e:
    assert "means another stream in each thread" in str(e), e
# Host memory beside the device's.
try:
    rfg.rmsnorm(x, weight.host, out=y)
    raise SystemExit("host memory was taken")
except rfg.Error as e:
    assert str(e) == "rmsnorm: weight is on cpu, x on amd:0: all tensors of a call must be on one device", e
with rfg.Context("amd:0", variants="rmsnorm_portable") as ctx:
    rfg.rmsnorm(x, weight, out=y, ctx=ctx)
    assert np.abs(y.read() - want).max() < 1e-4 and ctx.stats().calls == 1

# PyTorch's captures begin on a stream that has its workspace, in all contexts of the GPU.
import rfg._captures  # noqa: E402


class Graph:
    def capture_begin(self, mode):
        must(hip.hipStreamBeginCapture(ctypes.c_void_p(current.cuda_stream), mode))
        return "begun"


def captured(begin):
    """Are operators that take a workspace legal in a capture?"""
    global current
    current, graph = Stream(), ctypes.c_void_p()
    assert begin(Graph(), 0) == "begun"
    try:
        ctx.prepare_stream(current.cuda_stream)
        return True
    except rfg.Error as e:
        assert "has no workspace yet and is being captured" in str(e), e
        return False
    finally:
        must(hip.hipStreamEndCapture(ctypes.c_void_p(current.cuda_stream), ctypes.byref(graph)))


torch.cuda.CUDAGraph, torch.cuda.current_device = Graph, lambda: 0
before = Graph.capture_begin
rfg._captures.install(torch)
after = Graph.capture_begin
rfg._captures.install(torch)
assert Graph.capture_begin is after  # once
closed = rfg.Context("amd:0")
closed.close()
with rfg.Context("amd:0") as ctx:
    assert not captured(before) and captured(after)
print("right on amd:0")
