# SPDX-License-Identifier: MIT
"""What enable() believes: nothing by a module's name, only that its outputs with rfg are those without.

prove(): a module of one tensor, on random values of several magnitudes.
Rehearsal: a model of transformers, on random tokens: a prompt, cached tokens, a static cache, a padded batch. It runs as it is
first, and what each module was given and returned is kept. Then it runs with rfg: each module is given the same and its output
compared, so that a difference is known by the module that makes it."""

import inspect
from contextlib import ExitStack, contextmanager
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

import torch
from torch import Tensor, nn

# How far off an element may be, of its size or the mean size in its row; a tensor (root mean square) a quarter of that. Both sides
# round a few results by half an ulp each, in other places: these are 8 ulps of bfloat16's. Another formula is off by more.
TOLERANCE = {torch.bfloat16: 2**-5, torch.float16: 2**-8, torch.float32: 2**-13}
TF32 = 2**-7  # of float32, where PyTorch may multiply in TF32
# Of attention's scores an ulp counts as many times as they are large, before they are exponents. Rehearsals look for what is lost
# (a mask, a cache), for which this is narrow enough; formulas are proven before.
WIDER = 4
BATCH, STEPS, PLACES = 2, (9, 3, 1), 32  # a rehearsal's sequences; its prompt, chunk and token; the places of its static cache
Stack = List[nn.Module]


def first(output: Any) -> Any:
    """The tensor that an output is about: logits, or the first."""
    if hasattr(output, "logits"):
        return output.logits
    if isinstance(output, dict):
        output = tuple(output.values())
    return first(output[0]) if isinstance(output, (tuple, list)) and output else output


def differs(want: Tensor, got: Any, wider: int = 1) -> str:
    """"" or how far two outputs are apart. What isn't finite without rfg says nothing."""
    if not isinstance(got, Tensor) or got.shape != want.shape or got.dtype != want.dtype:
        return "in shape or dtype"
    tf32 = want.dtype == torch.float32 and want.is_cuda and torch.backends.cuda.matmul.allow_tf32
    limit = wider * (TF32 if tf32 else TOLERANCE.get(want.dtype, TOLERANCE[torch.float32]))
    there = want.isfinite()
    a, b = (torch.where(there, x, 0).double() for x in (want, got))
    row = a.abs().mean(-1, keepdim=True) if a.dim() else a.abs()
    tiny = torch.finfo(want.dtype).smallest_normal
    off = ((a - b).abs() / (torch.maximum(a.abs(), row) + tiny)).nan_to_num(torch.inf)
    rms = ((a - b) / (row + tiny)).square().mean().sqrt()
    return "by up to %.2g of its size, %.2g together" % (off.max(), rms) if off.numel() and not (off.max() <= limit and rms <= limit / 4) else ""


def said(e: Exception) -> str:
    return "%s: %s" % (type(e).__name__, (str(e).splitlines() or [""])[0])


@contextmanager
def aside(model: nn.Module) -> Iterator[None]:
    """What runs in here leaves no trace: no gradients, no random numbers taken, modules train or not as before."""
    devices = {p.device for p in model.parameters() if p.device.type in ("cpu", "cuda")}
    training = [(m, m.training) for m in model.modules()]
    with ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng([d for d in devices if d.type == "cuda"]))
        stack.enter_context(torch.no_grad())
        for kind in {d.type for d in devices}:
            stack.enter_context(torch.autocast(kind, enabled=False))
        try:
            yield
        finally:
            for m, its in training:
                m.training = its


def values(width: int, like: Tensor) -> Tensor:
    """Rows of several magnitudes [2,3,width]."""
    magnitudes = (0.03, 0.1, 1, 30, 300, 1000) if like.dtype == torch.float16 else (1e-6, 1e-3, 1, 30, 1e3, 1e6)
    x = torch.randn(2, 3, width, generator=torch.Generator().manual_seed(7)) * torch.tensor(magnitudes).view(2, 3, 1)
    return x.to(like.device, like.dtype)


def prove(m: nn.Module, before: Callable[..., Any], after: Callable[..., Any], x: Tensor) -> str:
    """"" or why after(x) can't be taken for before(x). As it trains, too: what drops values then isn't rfg's."""
    if len(inspect.signature(type(m).forward).parameters) != 2:
        return "its forward takes %s" % ", ".join(list(inspect.signature(type(m).forward).parameters)[1:])
    for m.training in (True, False):
        for part in (x, x[:1, -1:]):
            try:
                want = before(part)
            except Exception as e:
                return "it can't be tried: " + said(e)
            why = differs(want, after(part)) if isinstance(want, Tensor) else "it returns a " + type(want).__name__
            if why:
                return "rfg's output would differ " + why
    return "" if bool((want.isfinite() & (want != 0)).any()) else "what it computes can't be seen: its outputs are 0 or not finite"


# ---- models of transformers ---------------------------------------------------------------------------------------------


class Call(NamedTuple):
    given: Optional[Tensor]
    output: Optional[Tensor]


def _is_values(x: Any) -> bool:
    return isinstance(x, Tensor) and x.is_floating_point()


def _given(args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
    return next((x for x in (*args, *kwargs.values()) if _is_values(x)), None)


def _copy(x: Any) -> Optional[Tensor]:
    return x.detach().clone() if _is_values(x) else None


def _tokens(config: Any, device: torch.device) -> Tensor:
    """Random ones, none of which a config names: places of images, padding."""
    text = config.get_text_config()
    named = {v for c in (text, config) for k, v in vars(c).items() if k.endswith(("token_id", "token_index")) and isinstance(v, int)}
    ids = torch.randint(text.vocab_size, (4096,), generator=torch.Generator().manual_seed(7)).tolist()
    return torch.tensor([i for i in ids if i not in named][: BATCH * sum(STEPS)], device=device).view(BATCH, -1)


class Rehearsal:
    """Made before anything in a model is replaced. why: "", or why it can't be. Faults are (modules around the one that is wrong
    and itself, what is wrong)."""

    def __init__(self, model: Any) -> None:
        self.model, self.modules, self.why = model, set(model.modules()), ""
        self.calls: Dict[Tuple[str, int], Dict[nn.Module, List[Call]]] = {}  # of each step
        self.kinds: List[str] = []
        self.stack: List[Tuple[nn.Module, Any]] = []
        for kind in ("prompt", "cached", "static", "padded"):
            try:
                self._run(kind, self._keep_given, self._keep_output)
                self.kinds.append(kind)
            except Exception as e:  # of what a model hasn't, a static cache perhaps, nothing is to be shown
                if kind == "prompt":
                    self.why = "the model can't be tried with tokens alone: " + said(e)
                    return

    def covers(self, m: nn.Module) -> str:
        """"" or why a module wasn't seen at work."""
        called = any(m in step for (kind, _), step in self.calls.items() if kind in self.kinds)
        return self.why or ("" if called else "it isn't called when the model is tried")

    def faults(self) -> List[Tuple[Stack, str]]:
        """Of the model as it is now."""
        self.found: List[Tuple[Stack, str]] = []
        for kind in self.kinds:
            try:
                self._run(kind, self._check_given, self._check_output)
            except Exception as e:
                self.found.append((self._around(), said(e)))
            if self.found:
                break
        return self.found

    def _run(self, kind: str, before: Callable[..., Any], after: Callable[..., Any]) -> None:
        self.stack.clear()
        for m in self.model.modules():
            m.training = False
        ids = _tokens(self.model.config, next(self.model.parameters()).device)
        name = "cache" if "cache" in inspect.signature(type(self.model).forward).parameters else "past_key_values"
        how: Dict[str, Any] = {} if kind == "prompt" else {"use_cache": True}
        if kind == "static":
            from transformers import StaticCache

            how[name] = StaticCache(config=self.model.config, max_cache_len=PLACES)
        hooks = [h for m in self.model.modules()
                 for h in (m.register_forward_pre_hook(before, with_kwargs=True), m.register_forward_hook(after, prepend=True))]  # fmt: skip
        try:
            end = 0
            for step in STEPS[:1] if kind == "prompt" else STEPS:
                start, end = end, end + step
                self.step, self.at = (kind, start), {}  # type: Tuple[str, int], Dict[nn.Module, int]
                if kind == "padded":
                    how["attention_mask"] = (torch.arange(end, device=ids.device) >= torch.tensor([[4], [0]], device=ids.device)).long()
                what = "decoder_input_ids" if self.model.config.is_encoder_decoder else "input_ids"
                out = self.model(**{"input_ids": ids, what: ids[:, start:end].contiguous()}, **how)
                if kind != "prompt":
                    how[name] = out[name]
        finally:
            for h in hooks:
                h.remove()

    def _around(self) -> Stack:
        return [m for m, _ in self.stack]

    def _leave(self, m: nn.Module) -> Any:
        while True:  # modules that raised, where that was caught, are still there
            left, what = self.stack.pop()
            if left is m:
                return what

    def _keep_given(self, m: nn.Module, args: Any, kwargs: Any) -> None:
        self.stack.append((m, _copy(_given(args, kwargs))))

    def _keep_output(self, m: nn.Module, args: Any, output: Any) -> None:
        self.calls.setdefault(self.step, {}).setdefault(m, []).append(Call(self._leave(m), _copy(first(output))))

    def _check_given(self, m: nn.Module, args: Any, kwargs: Any) -> Any:
        calls, n = self.calls[self.step].get(m, []), self.at.get(m, 0)
        self.at[m] = n + 1
        call = calls[n] if n < len(calls) else Call(None, None)
        around = self._around()
        self.stack.append((m, call))
        x = _given(args, kwargs)
        why = "" if call.given is None else differs(call.given, x, WIDER)
        if not why:
            return None
        self.found.append((around, "what it gives to %s differs %s" % (type(m).__name__, why)))
        args = tuple(call.given if a is x else a for a in args)
        return args, {name: call.given if a is x else a for name, a in kwargs.items()}

    def _check_output(self, m: nn.Module, args: Any, output: Any) -> Any:
        around, call, got = self._around(), None, first(output)
        call = self._leave(m)
        if call.output is None:
            return None
        want = call.output
        if isinstance(got, Tensor) and got.dim() == want.dim() and want.shape[0] == 1:
            want = want.expand(len(got), *want.shape[1:])  # positions that are the same for all sequences may be told for each
        why = differs(want, got, WIDER)
        if why:
            self.found.append((around, "its output would differ " + why))
        elif "_rfg" in vars(m):
            got.copy_(want)  # where it is: a layer has worked ahead for the norm that is given this very tensor
        elif isinstance(output, Tensor):
            return call.output.clone()
        return None
