# SPDX-License-Identifier: MIT
"""The few functions of librfg that the *_peers.py call, through ctypes. Tensors are
anything with data_ptr(), shape, stride() and dtype, such as torch's. Run alone it compares the structures here with
what a C compiler ($CC, else cc) makes of the headers."""

import ctypes as c

# int32 and int64, of tables, lengths and tokens, are read from the library if it has names for them.
DTYPES = {"int32": 0, "int64": 0, "float32": 1, "float16": 2, "bfloat16": 3, "float8_e4m3fn": 4, "float8_e8m0fnu": 11}
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


class Params(c.Structure):
    """Its size comes first."""

    def __init__(self, **members):
        super().__init__(size=c.sizeof(self), **members)


class ContextParams(Params):
    _fields_ = [
        ("size", c.c_size_t),
        ("device", c.c_char_p),
        ("user_db", c.c_char_p),
        ("system_db", c.c_char_p),
        ("cache_dir", c.c_char_p),
        ("threads", c.c_int32),
        ("misses", c.c_int32),
        ("variants", c.c_char_p),
        ("pack", c.c_char_p),
        ("tune", c.c_char_p),
        ("launch_overlap", c.c_int32),
        ("batch_invariant", c.c_int32),
    ]


class Quant(Params):
    _fields_ = [
        ("size", c.c_size_t),
        ("kind", c.c_int),
        ("rounding", c.c_int),
        ("q", c.POINTER(Tensor)),
        ("scale", c.POINTER(Tensor)),
    ]


class NormParams(Params):
    _fields_ = [
        ("size", c.c_size_t),
        ("eps", c.c_float),
        ("one_plus_weight", c.c_int32),
        ("quant", c.POINTER(Quant)),
        ("bias", c.POINTER(Tensor)),
    ]


class ActParams(Params):
    _fields_ = [
        ("size", c.c_size_t),
        ("act", c.c_int),
        ("gates", c.c_int),
        ("alpha", c.c_float),
        ("limit", c.c_float),
        ("quant", c.POINTER(Quant)),
    ]


class GemmParams(Params):
    _fields_ = [
        ("size", c.c_size_t),
        ("bias", c.POINTER(Tensor)),
        ("w_scale", c.POINTER(Tensor)),
        ("residual", c.POINTER(Tensor)),
        ("gated", c.c_int32),
        ("act", c.c_int),
        ("x_scale", c.POINTER(Tensor)),
        ("w_zero", c.POINTER(Tensor)),
        ("x_per", c.c_int),
        ("w_per", c.c_int),
        ("fast_accum", c.c_int32),
        ("gates", c.c_int),
        ("offsets", c.POINTER(Tensor)),
        ("rows", c.POINTER(Tensor)),
        ("weights", c.POINTER(Tensor)),
        ("limit", c.c_float),
        ("alpha", c.c_float),
        ("y_scale", c.POINTER(Tensor)),
    ]


class QuantizeParams(Params):
    _fields_ = [
        ("size", c.c_size_t),
        ("group_rows", c.c_int64),
        ("group_cols", c.c_int64),
        ("scale_given", c.c_int32),
        ("rounding", c.c_int),
        ("reciprocal", c.c_int32),
        ("codes", c.c_int),
        ("max", c.c_float),
        ("floor_amax", c.c_float),
        ("floor_scale", c.c_float),
        ("zero_scale", c.c_float),
        ("smooth", c.POINTER(Tensor)),
    ]


class MhaParams(Params):
    _fields_ = [
        ("size", c.c_size_t),
        ("scale", c.c_float),
        ("soft_cap", c.c_float),
        ("causal", c.c_int32),
        ("window", c.c_int32),
        ("window_left", c.c_int32),
        ("window_right", c.c_int32),
        ("sinks", c.POINTER(Tensor)),
        ("alibi", c.POINTER(Tensor)),
        ("lse", c.POINTER(Tensor)),
        ("k_scale", c.POINTER(Tensor)),
        ("v_scale", c.POINTER(Tensor)),
        ("cu_seqlens_q", c.POINTER(Tensor)),
        ("cu_seqlens_k", c.POINTER(Tensor)),
        ("max_seqlen_q", c.c_int32),
        ("max_seqlen_k", c.c_int32),
        ("mean_seqlen_k", c.c_int32),
        ("block_table", c.POINTER(Tensor)),
        ("kv_lens", c.POINTER(Tensor)),
    ]


class RopeAppendParams(Params):
    _fields_ = [
        ("size", c.c_size_t),
        ("rope", c.c_void_p),
        ("q_norm", c.POINTER(Tensor)),
        ("k_norm", c.POINTER(Tensor)),
        ("eps", c.c_float),
        ("one_plus_weight", c.c_int32),
        ("k_scale", c.POINTER(Tensor)),
        ("v_scale", c.POINTER(Tensor)),
    ]


class SampleParams(Params):
    _fields_ = [
        ("size", c.c_size_t),
        ("temperature", c.POINTER(Tensor)),
        ("top_k", c.POINTER(Tensor)),
        ("top_p", c.POINTER(Tensor)),
        ("min_p", c.POINTER(Tensor)),
        ("repetition", c.POINTER(Tensor)),
        ("frequency", c.POINTER(Tensor)),
        ("presence", c.POINTER(Tensor)),
        ("bias", c.POINTER(Tensor)),
        ("counts", c.POINTER(Tensor)),
        ("prompt", c.POINTER(Tensor)),
        ("order", c.c_int),
        ("reserved", c.c_int32),
    ]


class MoeRouteParams(Params):
    _fields_ = [
        ("size", c.c_size_t),
        ("scoring", c.c_int),
        ("renormalise", c.c_int32),
        ("bias", c.POINTER(Tensor)),
        ("groups", c.c_int64),
        ("topk_groups", c.c_int64),
        ("shared", c.c_int64),
        ("tokens", c.POINTER(Tensor)),
        ("scale", c.c_float),
        ("shared_weight", c.c_float),
    ]


class MoeAlignParams(Params):
    _fields_ = [
        ("size", c.c_size_t),
        ("format", c.c_int),
        ("block", c.c_int32),
        ("experts", c.c_int64),
        ("offsets", c.POINTER(Tensor)),
        ("block_experts", c.POINTER(Tensor)),
        ("count", c.POINTER(Tensor)),
        ("weights_out", c.POINTER(Tensor)),
        ("places", c.POINTER(Tensor)),
        ("weights", c.POINTER(Tensor)),
        ("expert_map", c.POINTER(Tensor)),
        ("tokens", c.POINTER(Tensor)),
    ]


class MoeSumParams(Params):
    _fields_ = [
        ("size", c.c_size_t),
        ("weights", c.POINTER(Tensor)),
        ("residual", c.POINTER(Tensor)),
        ("tokens", c.POINTER(Tensor)),
    ]


class LoraParams(Params):
    _fields_ = [
        ("size", c.c_size_t),
        ("indptr", c.POINTER(Tensor)),
        ("scales", c.POINTER(Tensor)),
        ("ranks", c.POINTER(Tensor)),
        ("scale", c.c_float),
        ("reserved", c.c_int32),
    ]


class MergeStatesParams(Params):
    _fields_ = [
        ("size", c.c_size_t),
        ("lse_out", c.POINTER(Tensor)),
        ("base2", c.c_int32),
        ("reserved", c.c_int32),
    ]


class MlaParams(Params):
    _fields_ = [
        ("size", c.c_size_t),
        ("scale", c.c_float),
        ("soft_cap", c.c_float),
        ("causal", c.c_int32),
        ("max_seqlen_k", c.c_int32),
        ("q_rope", c.POINTER(Tensor)),
        ("block_table", c.POINTER(Tensor)),
        ("kv_indptr", c.POINTER(Tensor)),
        ("kv_indices", c.POINTER(Tensor)),
        ("kv_lens", c.POINTER(Tensor)),
        ("sinks", c.POINTER(Tensor)),
        ("lse", c.POINTER(Tensor)),
        ("kv_scale", c.POINTER(Tensor)),
        ("q_positions", c.POINTER(Tensor)),
        ("format", c.c_int),
        ("cp_size", c.c_int32),
        ("cp_rank", c.c_int32),
        ("cp_interleave", c.c_int32),
    ]


class MoeParams(Params):
    _fields_ = [
        ("size", c.c_size_t),
        ("experts", c.c_int64),
        ("act", c.c_int),
        ("gates", c.c_int),
        ("limit", c.c_float),
        ("alpha", c.c_float),
        ("weights_first", c.c_int32),
        ("fast_accum", c.c_int32),
        ("x_per", c.c_int),
        ("w_per", c.c_int),
        ("w1_bias", c.POINTER(Tensor)),
        ("w2_bias", c.POINTER(Tensor)),
        ("w1_scale", c.POINTER(Tensor)),
        ("w2_scale", c.POINTER(Tensor)),
        ("w1_zero", c.POINTER(Tensor)),
        ("w2_zero", c.POINTER(Tensor)),
        ("x_scale", c.POINTER(Tensor)),
        ("h_scale", c.POINTER(Tensor)),
        ("expert_map", c.POINTER(Tensor)),
        ("tokens", c.POINTER(Tensor)),
        ("residual", c.POINTER(Tensor)),
        ("workspace", c.c_void_p),
        ("workspace_bytes", c.c_size_t),
        ("x_codes", c.c_int),
        ("rounding", c.c_int),
    ]


class RfgError(Exception):
    pass


class Fp4:
    """Of bytes [..., K/2] with two values each: the tensor [..., K] of e2m1 that rfg is told of; prepacked: its w is
    rfg_tensor_prepacked()'s."""

    dtype = "e2m1"

    def __init__(self, codes, prepacked=False):
        self.codes, shape = codes, tuple(codes.shape)
        if prepacked:
            rows = codes.numel() // shape[-1]
            self.shape = (rows // 16, shape[-1] * 2 // 128, 4, 16, 32)
        else:
            self.shape = shape[:-1] + (2 * shape[-1],)

    def data_ptr(self):
        return self.codes.data_ptr()

    def stride(self):
        out = [1]
        for n in self.shape[:0:-1]:
            out.insert(0, out[0] * n)
        return out


def tensor(t):
    """A rfg_tensor of t, to be passed by reference; None stays NULL."""
    if t is None:
        return None
    v = Tensor(t.data_ptr(), DTYPES[str(t.dtype).replace("torch.", "")], len(t.shape))
    for i, (n, s) in enumerate(zip(t.shape, t.stride())):
        v.shape[i], v.strides[i] = n, s
    return c.byref(v)


def pointer(t):
    """A rfg_tensor of t as a structure's member; None stays NULL."""
    return c.pointer(tensor(t)._obj) if t is not None else None


def members(**given):
    """Of a params structure: tensors as pointers to views."""
    return {k: pointer(v) if hasattr(v, "data_ptr") else v for k, v in given.items() if v is not None}


def by_token(q, scale):
    """A rfg_quant with a scale a row; None stays NULL."""
    if q is None:
        return None
    return c.pointer(Quant(kind=SCALE_TOKEN, q=pointer(q), scale=pointer(scale)))


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
        f.rfg_op_add_rmsnorm.argtypes = [p] + [c.c_void_p] * 7
        f.rfg_op_act_and_mul.argtypes = [p] + [c.c_void_p] * 4
        f.rfg_op_gemm.argtypes = [p] + [c.c_void_p] * 5
        if hasattr(f, "rfg_op_quantize"):
            f.rfg_op_quantize.argtypes = [p] + [c.c_void_p] * 5
        if hasattr(f, "rfg_op_moe"):
            f.rfg_op_moe_route.argtypes = [p] + [c.c_void_p] * 5
            f.rfg_op_moe_align.argtypes = [p] + [c.c_void_p] * 4
            f.rfg_op_moe_sum.argtypes = [p] + [c.c_void_p] * 5
            f.rfg_op_moe.argtypes = [p] + [c.c_void_p] * 8
            f.rfg_moe_workspace_bytes.argtypes = [c.c_void_p] * 7 + [c.POINTER(c.c_size_t)]
            f.rfg_gemm_prepack.argtypes = [p] + [c.c_void_p] * 3
        if hasattr(f, "rfg_op_mha"):
            f.rfg_op_mha.argtypes = [p] + [c.c_void_p] * 6
            f.rfg_op_mha_decode.argtypes = [p] + [c.c_void_p] * 6
        if hasattr(f, "rfg_op_lora"):
            f.rfg_op_lora.argtypes = [p] + [c.c_void_p] * 7
        if hasattr(f, "rfg_op_merge_states"):
            f.rfg_op_merge_states.argtypes = [p] + [c.c_void_p] * 5
        if hasattr(f, "rfg_op_rope_append"):
            f.rfg_op_rope_append.argtypes = [p] + [c.c_void_p] * 11
            f.rfg_op_argmax.argtypes = [p] + [c.c_void_p] * 3
            f.rfg_op_sample.argtypes = [p] + [c.c_void_p] * 6
        f.rfg_dtype_name.restype, f.rfg_dtype_name.argtypes = c.c_char_p, [c.c_int]
        for name, short in (("int32", b"i32"), ("int64", b"i64"), ("e2m1", b"e2m1")):
            DTYPES[name] = ([i for i in range(32) if f.rfg_dtype_name(i) in (short, name.encode())] or [0])[0]
        self.stream = stream
        self.ctx = c.c_void_p()
        params = ContextParams(
            device=device.encode(),
            user_db=db.encode() if db is not None else None,
            system_db=system_db.encode() if system_db is not None else None,
            misses=-1,
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
            tensor(residual_out),
            tensor(x),
            tensor(residual),
            tensor(weight),
            c.byref(NormParams(eps=eps, quant=by_token(q, scale))),
        ]
        fn, ctx, stream, check = self.lib.rfg_op_add_rmsnorm, self.ctx, self.stream, self.check
        return lambda: check(fn(ctx, *keep, stream))

    def act_and_mul(self, y, x, act, q=None, scale=None):
        keep = [tensor(y), tensor(x), c.byref(ActParams(act=ACTS[act], quant=by_token(q, scale)))]
        fn, ctx, stream, check = self.lib.rfg_op_act_and_mul, self.ctx, self.stream, self.check
        return lambda: check(fn(ctx, *keep, stream))

    def gemm(self, y, x, w, x_scale=None, w_scale=None, per=0, fast=False, **more):
        """per: of rfg_gemm_scale, for both scales; more: of rfg_gemm_params."""
        plain = x_scale is None and w_scale is None and not more
        params = GemmParams(x_per=per, w_per=per, fast_accum=int(fast), **members(x_scale=x_scale, w_scale=w_scale, **more))
        keep = [tensor(y), tensor(x), tensor(w), None if plain else c.byref(params)]
        return self.call(self.lib.rfg_op_gemm, keep)

    def call(self, fn, keep):
        ctx, stream, check = self.ctx, self.stream, self.check
        return lambda: check(fn(ctx, *keep, stream))

    def prepack(self, dst, src):
        """Now."""
        self.check(self.lib.rfg_gemm_prepack(self.ctx, tensor(dst), tensor(src), self.stream))

    def moe_route(self, ids, weights, x, **params):
        return self.call(
            self.lib.rfg_op_moe_route,
            [tensor(ids), tensor(weights), tensor(x), c.byref(MoeRouteParams(**members(**params)))],
        )

    def moe_align(self, rows, ids, **params):
        return self.call(
            self.lib.rfg_op_moe_align, [tensor(rows), tensor(ids), c.byref(MoeAlignParams(**members(**params)))]
        )

    def moe_sum(self, y, x, places, **params):
        keep = [tensor(y), tensor(x), tensor(places), c.byref(MoeSumParams(**members(**params)))]
        return self.call(self.lib.rfg_op_moe_sum, keep)

    def lora(self, y, x, a, b, ids, **params):
        keep = [tensor(t) for t in (y, x, a, b, ids)] + [c.byref(LoraParams(**members(**params)))]
        return self.call(self.lib.rfg_op_lora, keep)

    def merge_states(self, out, o, lse, **params):
        keep = [tensor(out), tensor(o), tensor(lse), c.byref(MergeStatesParams(**members(**params)))]
        return self.call(self.lib.rfg_op_merge_states, keep)

    def mla_decode(self, out, q, kv, **params):
        keep = [tensor(out), tensor(q), tensor(kv), c.byref(MlaParams(**members(**params)))]
        return self.call(self.lib.rfg_op_mla_decode, keep)

    def moe(self, workspace, y, x, w1, w2, ids, weights, **params):
        """workspace: a function that gives a tensor of so many bytes at least."""
        p, size = MoeParams(**members(**params)), c.c_size_t()
        keep = [tensor(t) for t in (y, x, w1, w2, ids, weights)] + [c.byref(p)]
        self.check(self.lib.rfg_moe_workspace_bytes(*keep, c.byref(size)))
        p.workspace, p.workspace_bytes = workspace(size.value).data_ptr(), size.value
        return self.call(self.lib.rfg_op_moe, keep)

    def quantize(self, q, scale, x, **params):
        """params: of rfg_quantize_params."""
        keep = [tensor(q), tensor(scale), tensor(x), c.byref(QuantizeParams(**params))]
        fn, ctx, stream, check = self.lib.rfg_op_quantize, self.ctx, self.stream, self.check
        return lambda: check(fn(ctx, *keep, stream))

    def mha(self, out, q, k, v, causal, lens=None):
        """Prefill. lens: cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k."""
        params = MhaParams(causal=int(causal))
        if lens:
            params.cu_seqlens_q, params.cu_seqlens_k = pointer(lens[0]), pointer(lens[1])
            params.max_seqlen_q, params.max_seqlen_k = lens[2:]
        keep = [tensor(out), tensor(q), tensor(k), tensor(v), c.byref(params)]
        fn, ctx, stream, check = self.lib.rfg_op_mha, self.ctx, self.stream, self.check
        return lambda: check(fn(ctx, *keep, stream))

    def mha_decode(self, out, q, k, v, block_table, kv_lens, max_seqlen_k, mean_seqlen_k, k_scale=None, v_scale=None):
        params = MhaParams(
            k_scale=pointer(k_scale),
            v_scale=pointer(v_scale),
            max_seqlen_k=max_seqlen_k,
            mean_seqlen_k=mean_seqlen_k,
            block_table=pointer(block_table),
            kv_lens=pointer(kv_lens),
        )
        keep = [tensor(t) for t in (out, q, k, v)] + [c.byref(params)]
        fn, ctx, stream, check = self.lib.rfg_op_mha_decode, self.ctx, self.stream, self.check
        return lambda: check(fn(ctx, *keep, stream))

    def rope_append(self, q_out, k_cache, v_cache, q, k, v, cos_sin, positions, slots, q_norm, k_norm, eps):
        params = RopeAppendParams(q_norm=pointer(q_norm), k_norm=pointer(k_norm), eps=eps)
        keep = [tensor(t) for t in (q_out, k_cache, v_cache, q, k, v, cos_sin, positions, slots)] + [c.byref(params)]
        fn, ctx, stream, check = self.lib.rfg_op_rope_append, self.ctx, self.stream, self.check
        return lambda: check(fn(ctx, *keep, stream))

    def argmax(self, y, x):
        keep = [tensor(y), tensor(x)]
        fn, ctx, stream, check = self.lib.rfg_op_argmax, self.ctx, self.stream, self.check
        return lambda: check(fn(ctx, *keep, stream))

    def sample(self, y, logits, seed, offset, temperature, top_k, top_p):
        params = SampleParams(temperature=pointer(temperature), top_k=pointer(top_k), top_p=pointer(top_p))
        keep = [tensor(t) for t in (y, logits, seed, offset)] + [c.byref(params)]
        fn, ctx, stream, check = self.lib.rfg_op_sample, self.ctx, self.stream, self.check
        return lambda: check(fn(ctx, *keep, stream))


def contexts(library, db, stream):
    """rfg, with launch_overlap, and with no tuned database, on the first GPU."""
    return {
        "rfg": Rfg(library, "nvidia:0", db, stream=stream),
        "rfg+ov": Rfg(library, "nvidia:0", db, overlap=True, stream=stream),
        "untuned": Rfg(library, "nvidia:0", "", stream=stream, system_db=""),
    }


def self_test():
    """The structures declared above are beginnings of C's: members that C added later are left out, as `size` says."""
    import os
    import shlex
    import subprocess
    import tempfile

    structures = {
        "rfg_tensor": Tensor,
        "rfg_context_params": ContextParams,
        "rfg_norm_params": NormParams,
        "rfg_act_params": ActParams,
        "rfg_quant": Quant,
        "rfg_gemm_params": GemmParams,
        "rfg_quantize_params": QuantizeParams,
        "rfg_mha_params": MhaParams,
        "rfg_rope_append_params": RopeAppendParams,
        "rfg_sample_params": SampleParams,
        "rfg_moe_route_params": MoeRouteParams,
        "rfg_moe_align_params": MoeAlignParams,
        "rfg_moe_sum_params": MoeSumParams,
        "rfg_lora_params": LoraParams,
        "rfg_merge_states_params": MergeStatesParams,
        "rfg_moe_params": MoeParams,
    }
    of_c = {name: [f[0] for f in s._fields_] for name, s in structures.items()}
    dtypes = {"float32": "RFG_F32", "float16": "RFG_F16", "bfloat16": "RFG_BF16", "float8_e4m3fn": "RFG_E4M3", "float8_e8m0fnu": "RFG_E8M0"}
    code = "#include <stdio.h>\n" + "".join("#include <rfg/%s.h>\n" % h for h in ("rfg", "mha", "moe", "rope", "sample")) + "int main(void)\n{\n"
    expected = []

    def say(expression, value):
        nonlocal code
        code += '    printf("%%d\\n", (int)(%s));\n' % expression
        expected.append((expression, value))

    for name, fields in of_c.items():
        known = structures[name]
        say("sizeof(%s) >= %d" % (name, c.sizeof(known)), 1)
        for f in fields:
            say("offsetof(%s, %s)" % (name, f), getattr(known, f).offset)
            say("sizeof(((%s *)0)->%s)" % (name, f), getattr(known, f).size)
    for name, constant in dtypes.items():
        say(constant, DTYPES[name])
    include = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "include")
    with tempfile.TemporaryDirectory() as d:
        source, program = os.path.join(d, "layout.c"), os.path.join(d, "layout")
        with open(source, "w") as f:
            f.write(code + "    return 0;\n}\n")
        cc = shlex.split(os.environ.get("CC", "cc"))
        subprocess.run(cc + ["-std=gnu17", "-I" + include, "-o", program, source], check=True)
        got = [int(x) for x in subprocess.run([program], check=True, capture_output=True, text=True).stdout.split()]
    assert len(got) == len(expected)
    for (expression, value), g in zip(expected, got):
        assert g == value, "%s is %d in C, %d here" % (expression, g, value)
    print("rfg: %d sizes and offsets right" % len(got))


if __name__ == "__main__":
    self_test()
