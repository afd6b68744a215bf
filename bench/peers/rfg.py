# SPDX-License-Identifier: MIT
"""The few functions of librfg that norms_peers.py and gemm_peers.py call, through ctypes. Tensors are anything with
data_ptr(), shape, stride() and dtype, such as torch's."""

import ctypes as c

DTYPES = {"float32": 1, "float16": 2, "bfloat16": 3, "float8_e4m3fn": 4}
ACTS = {"silu": 0, "gelu": 1, "gelu_tanh": 2}
SCALE_TOKEN = 2


class Tensor(c.Structure):
    _fields_ = [
        ("data", c.c_void_p),
        ("dtype", c.c_int),
        ("ndim", c.c_int32),
        ("shape", c.c_int64 * 5),
        ("strides", c.c_int64 * 5),
    ]


class ContextParams(c.Structure):
    _fields_ = [
        ("device", c.c_char_p),
        ("user_db", c.c_char_p),
        ("system_db", c.c_char_p),
        ("cache_dir", c.c_char_p),
        ("threads", c.c_int),
        ("no_misses", c.c_int),
        ("variants", c.c_char_p),
        ("launch_overlap", c.c_int),
        ("reserved", c.c_int * 15),
    ]  # room for fields of later versions: 0


class NormParams(c.Structure):
    _fields_ = [("eps", c.c_float), ("one_plus_weight", c.c_int)]


class ActParams(c.Structure):
    _fields_ = [("act", c.c_int), ("interleaved", c.c_int), ("alpha", c.c_float), ("limit", c.c_float)]


class Quant(c.Structure):
    _fields_ = [("kind", c.c_int), ("q", c.POINTER(Tensor)), ("scale", c.POINTER(Tensor))]


class RfgError(Exception):
    pass


def tensor(t):
    """A rfg_tensor of t, to be passed by reference; None stays NULL."""
    if t is None:
        return None
    v = Tensor(t.data_ptr(), DTYPES[str(t.dtype).replace("torch.", "")], len(t.shape))
    for i, (n, s) in enumerate(zip(t.shape, t.stride())):
        v.shape[i], v.strides[i] = n, s
    return c.byref(v)


def by_token(q, scale):
    """A rfg_quant with a scale a row; None stays NULL."""
    if q is None:
        return None
    ref_q, ref_scale = tensor(q), tensor(scale)
    v = Quant(SCALE_TOKEN, c.pointer(ref_q._obj), c.pointer(ref_scale._obj))
    return c.byref(v)


class Rfg:
    """One context. stream: the handle all calls are queued on (a GPU's); None on cpu. db, system_db: as the context's
    user_db and system_db; "" for none, so untuned with both."""

    def __init__(self, library, device, db=None, overlap=False, stream=None, system_db=None):
        self.lib = c.CDLL(library)
        self.lib.rfg_last_error.restype = self.lib.rfg_version.restype = c.c_char_p
        p, ptr, f = c.c_void_p, c.c_void_p, self.lib
        f.rfg_context_create.argtypes = [c.POINTER(c.c_void_p), c.POINTER(ContextParams)]
        f.rfg_prepare_stream.argtypes = [p, ptr]
        f.rfg_prepare_from_csv.argtypes = [p, c.c_char_p]
        f.rfg_explain.argtypes = [p, c.c_char_p, c.c_char_p, c.c_size_t]
        f.rfg_context_destroy.argtypes = [c.POINTER(c.c_void_p)]
        # Tensors and parameter structures are references or NULL.
        f.rfg_op_add_rmsnorm.argtypes = [p] + [c.c_void_p] * 8
        f.rfg_op_act_and_mul.argtypes = [p] + [c.c_void_p] * 5
        f.rfg_op_gemm.argtypes = [p] + [c.c_void_p] * 5
        self.stream = stream
        self.ctx = c.c_void_p()
        params = ContextParams(
            device=device.encode(),
            user_db=db.encode() if db is not None else None,
            system_db=system_db.encode() if system_db is not None else None,
            no_misses=1,
            launch_overlap=int(overlap),
        )
        self.check(f.rfg_context_create(c.byref(self.ctx), c.byref(params)))
        self.check(f.rfg_prepare_stream(self.ctx, stream))

    def check(self, status):
        if status:
            raise RfgError("rfg: status %d: %s" % (status, self.lib.rfg_last_error().decode()))

    def close(self):
        self.lib.rfg_context_destroy(c.byref(self.ctx))

    def explain(self, problem):
        buf = c.create_string_buffer(8192)
        self.check(self.lib.rfg_explain(self.ctx, problem.encode(), buf, len(buf)))
        return buf.value.decode()

    def prepare_from_csv(self, path):
        """Compiles and loads what the problems of a shapes file need, on all cores."""
        self.check(self.lib.rfg_prepare_from_csv(self.ctx, path.encode()))

    # Calls with everything converted ahead, so that a captured loop of them does nothing else.

    def add_rmsnorm(self, y, residual_out, x, residual, weight, eps, q=None, scale=None):
        keep = [
            tensor(y),
            by_token(q, scale),
            tensor(residual_out),
            tensor(x),
            tensor(residual),
            tensor(weight),
            c.byref(NormParams(eps, 0)),
        ]
        fn, ctx, stream, check = self.lib.rfg_op_add_rmsnorm, self.ctx, self.stream, self.check
        return lambda: check(fn(ctx, *keep, stream))

    def act_and_mul(self, y, x, act, q=None, scale=None):
        keep = [tensor(y), by_token(q, scale), tensor(x), c.byref(ActParams(ACTS[act], 0, 0, 0))]
        fn, ctx, stream, check = self.lib.rfg_op_act_and_mul, self.ctx, self.stream, self.check
        return lambda: check(fn(ctx, *keep, stream))

    def gemm(self, y, x, w):
        keep = [tensor(y), tensor(x), tensor(w), None]
        fn, ctx, stream, check = self.lib.rfg_op_gemm, self.ctx, self.stream, self.check
        return lambda: check(fn(ctx, *keep, stream))
