# SPDX-License-Identifier: MIT
from typing import Any, Optional, Sequence, Tuple, Union

built_for: str

class Error(RuntimeError):
    status: str

class Context:
    def __init__(
        self,
        device: Optional[str] = None,
        *,
        user_db: Optional[str] = None,
        system_db: Optional[str] = None,
        cache_dir: Optional[str] = None,
        threads: int = 0,
        misses: int = 0,
        variants: Optional[str] = None,
        launch_overlap: bool = False,
        pack: Optional[str] = None,
        tune: Optional[str] = None,
        batch_invariant: bool = False,
    ) -> None: ...
    @property
    def device(self) -> str: ...
    def close(self) -> None: ...
    def prepare(self, problem: str) -> None: ...
    def prepare_from_csv(self, path: str) -> None: ...
    def prepare_stream(self, stream: int) -> None: ...
    def explain(self, problem: str) -> str: ...
    def describe_begin(self) -> None: ...
    def describe_end(self) -> str: ...
    def stats(self) -> Tuple[int, int, int, int, int, int]: ...

class Comm:
    def __init__(self, ctx: Context, rank: int, ranks: int, timeout_ms: int = 0, vendor_from: int = 0) -> None: ...
    def handle(self) -> bytes: ...
    def connect(self, handles: Sequence[bytes]) -> None: ...
    def prepare(self, dtype: int) -> None: ...
    def check(self) -> None: ...
    def close(self) -> None: ...

class Op:
    __name__: str
    symbol: str
    tensors: Tuple[str, ...]
    members: Tuple[str, ...]
    def __call__(self, *tensors: Any, stream: Any = None, ctx: Union[Context, Comm, None] = None, **members: Any) -> None: ...

def load(path: str) -> None: ...
def privileged() -> bool: ...
def version() -> str: ...
def dtype_number(name: str) -> int: ...
def context(device: str) -> Any: ...
def close_all() -> None: ...

gemm: Op
gemm_prepack: Op
act: Op
act_and_mul: Op
rmsnorm: Op
layernorm: Op
add_rmsnorm: Op
add_layernorm: Op
embedding: Op
dequantize: Op
quantize: Op
quantize_scale: Op
mha: Op
mha_decode: Op
lora: Op
mla_append: Op
mla_decode: Op
mla_gather: Op
merge_states: Op
moe: Op
moe_align: Op
moe_sum: Op
moe_workspace_bytes: Op
rope: Op
kv_append: Op
rope_append: Op
advance: Op
rope_table: Op
moe_route: Op
moe_gate: Op
argmax: Op
sample: Op
all_reduce: Op
reduce_scatter: Op
all_gather: Op
all_reduce_add_rmsnorm: Op
