# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a step of a model communicates, and how much of it a machine would overlap (docs/simulator.md)."""

from __future__ import annotations

import bisect
import contextlib
import json
import math
import os
import re
from collections.abc import Callable, Iterator
from html import escape
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed import distributed_c10d as c10d
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import tandem
from tandem import _files
from tandem._report import Report, _microseconds, _table

from . import _fusions, _ops, _scaled

#: Operators of tandem.torch: what they do, and how a call is prepared: (function, group, numbers, rows, weights).
_OPERATORS: dict[str, tuple[str, Callable[..., tuple]]] = {
    "all_gather_matmul": ("all-gather, matmul", lambda x, weights, dim, group, tokens, gathered: (
        _ops._prepare_gather, group, (dim, tokens, gathered), (x,), weights)),
    "matmul_reduce_scatter": ("matmul, reduce-scatter", lambda xs, weights, dim, group, rows=None: (
        _ops._prepare_scatter, group, (dim,), xs, weights)),
    "matmul_reduce_scatter_backward": ("all-gather, matmuls", lambda x, weight, grad, dim, group, need_x, need_weight: (
        _ops._prepare_scatter_backward, group, (dim, need_x, need_weight), (x, grad), (weight,))),
    "matmul_all_reduce": ("matmul, all-reduce", lambda xs, weights, group: (_ops._prepare_reduce, group, (), xs, weights)),
    "all_gather_scaled_matmul": (
        "all-gather, scaled matmul", lambda x, weights, scale_x, scales, group, tokens, out_dtype, scales_result, gathered=False: (
            _scaled._prepare_gather, group, (tokens, _scaled._RESULTS.index(out_dtype), len(weights), gathered), (x, scale_x),
            (*weights, *scales, *scales_result))),
    "scaled_matmul_reduce_scatter": (
        "scaled matmul, reduce-scatter", lambda x, weight, scale_x, scale, group, out_dtype, rows=None: (
            _scaled._prepare_scatter, group, (_scaled._RESULTS.index(out_dtype),), (x, scale_x), (weight, scale))),
}
#: Collectives of torch, by their names without "_c10d_functional::" or "c10d::". "": nothing predicts them.
_COLLECTIVES = {
    "all_gather_into_tensor": "all-gather", "reduce_scatter_tensor": "reduce-scatter", "all_reduce": "all-reduce",
    "all_to_all_single": "", "broadcast": "", "_allgather_base_": "all-gather", "_reduce_scatter_base_": "reduce-scatter",
    "allreduce_": "all-reduce", "allgather_": "", "reduce_scatter_": "", "alltoall_base_": "", "broadcast_": "",
}
_BY_SIZE = {1: "f8E4M3FN", 2: "bf16", 4: "f32", 8: "f64"}


class _Call(NamedTuple):
    """A call of an operator or a collective. key: all that its price depends on."""

    layer: str
    direction: str
    operation: str
    key: tuple
    events: tuple | None


class _Layers:
    """Knows of which layer a node of autograd is: nodes are numbered in the order in which they are made."""

    def __init__(self, model: nn.Module) -> None:
        self._names = {id(module): name for name, module in model.named_modules(remove_duplicate=False)}
        self._open: list[str] = [""]
        self._begins, self._at = [0], [""]  # from which node on it is which layer

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Hooks of all modules would not do: those of a module itself, which communicate, run after them."""
        call = nn.Module.__call__

        def watched_call(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            self._go([*self._open, self._names.get(id(module), self._open[-1])])
            try:
                return call(module, *args, **kwargs)
            finally:
                self._go(self._open[:-1])

        nn.Module.__call__ = watched_call
        try:
            yield
        finally:
            nn.Module.__call__ = call

    def _go(self, layers: list[str]) -> None:
        self._open = layers
        self._begins.append(torch._C._autograd._get_sequence_nr())
        self._at.append(layers[-1])

    def now(self) -> tuple[str, str]:
        """(layer, direction) of what runs now. A forward pass that is computed again is "forward", too."""
        node = torch._C._current_autograd_node()
        if node is None or len(self._open) > 1:
            return self._open[-1], "forward"
        return self._at[bisect.bisect_right(self._begins, node._sequence_nr()) - 1], "backward"


class _Recorder(TorchDispatchMode):
    """Notes calls of operators and collectives, with the shapes of their tensors."""

    def __init__(self, layers: _Layers, timed: bool) -> None:
        super().__init__()
        self.layers, self.timed, self.calls = layers, timed, list[_Call]()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(issubclass(one, DTensor) for one in types):
            return NotImplemented  # its local tensors come again
        kwargs, (space, name) = kwargs or {}, func._schema.name.split("::")
        operation = self._operation(space, name)
        if operation is None:
            return func(*args, **kwargs)
        events = tuple(torch.cuda.Event(enable_timing=True) for _ in range(2)) if self.timed else None
        if events:
            events[0].record()
        result = func(*args, **kwargs)
        if events:
            events[1].record()
        key = (space, name, *(_described(one) for one in (*args, *kwargs.values())))
        if space == "tandem" or _travels(key):
            self.calls.append(_Call(*self.layers.now(), operation, key, events))
        return result

    @staticmethod
    def _operation(space: str, name: str) -> str | None:
        if space == "tandem":
            return _OPERATORS[name][0] if name in _OPERATORS else None
        if space not in ("_c10d_functional", "c10d"):
            return None
        known = _COLLECTIVES.get(name.removesuffix("_out"), _COLLECTIVES.get(name.rstrip("_")))
        return None if known is None else known or name.strip("_").replace("_", "-")


class _Shape(NamedTuple):
    size: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype

    def tensor(self) -> torch.Tensor:
        made = torch.empty_strided(self.size, self.stride, dtype=self.dtype, device="meta")
        dense = made.is_contiguous() or made.dim() == 2 and made.t().is_contiguous()
        return made if dense else made.contiguous()


def _described(value: Any) -> Any:
    """An argument of a call, as part of a key."""
    if isinstance(value, torch.Tensor):
        return _Shape(tuple(int(one) for one in value.shape), tuple(int(one) for one in value.stride()), value.dtype)
    if isinstance(value, (list, tuple)):
        return tuple(_described(one) for one in value)
    if isinstance(value, torch.ScriptObject):
        with contextlib.suppress(RuntimeError, TypeError):
            return dist.ProcessGroup.unbox(value).group_name
        return None
    return value if isinstance(value, (str, int, float, bool, torch.dtype, type(None))) else repr(value)


def _tensors(value: Any) -> Any:
    """The arguments of a key as tensors without data."""
    if isinstance(value, _Shape):
        return value.tensor()
    return [_tensors(one) for one in value] if isinstance(value, tuple) else value


def _shapes(key: tuple) -> list[str]:
    found: list[str] = []
    for one in key:
        if isinstance(one, _Shape):
            found.append("x".join(map(str, one.size)) or "1")
        elif isinstance(one, tuple):
            found += _shapes(one)
    return found


def _parts(key: tuple) -> tuple[list[_Shape], list[str]]:
    """The tensors of a collective of torch, and the names of groups (and of the operation of a sum)."""
    leaves = tree_leaves(key[2:], is_leaf=lambda one: isinstance(one, _Shape))
    return [one for one in leaves if isinstance(one, _Shape)], [one for one in leaves if isinstance(one, str)]


def _travels(key: tuple) -> bool:
    """Does a collective of torch send anything?"""
    tensors, names = _parts(key)
    return all(0 not in one.size for one in tensors) and (not names or _ops._ranks(names[-1]) > 1)


def _operands(key: tuple) -> tuple:
    """(function that prepares a call, group, numbers, rows, weights) of a call of an operator of tandem.torch."""
    return _OPERATORS[key[1]][1](*map(_tensors, key[2:]))


def _planned(key: tuple, planned: _fusions.Planned) -> tuple[tandem.Program, list[tuple]]:
    """The program with which a call runs, and the operands, as `_operands` has them, of all calls that it makes."""
    prepare, group, numbers, rows, weights = _operands(key)
    calls = [(prepare, group, numbers, rows, weights)]
    made = prepare((group, planned, {}), numbers, rows, weights)
    if callable(made):  # dx by one program, and then torch's product for dw
        (x, grad), (weight,), dim = rows, weights, numbers[0]
        calls.append((_ops._prepare_gather, group, (dim, x.shape[dim], True), (grad,), [weight.t()]))
        made = _ops._prepare_gather((group, planned, {}), *calls[-1][2:])
    return made[0], calls


class _Prices:
    """Compiles what was called for a machine, each kind of call once."""

    def __init__(self, machine: str, target: str) -> None:
        self.machine, self.target, self.compile_seconds = machine, target, 0.0
        self.programs: dict[tuple, tandem.Program | None] = {}
        self._known: dict[tuple, dict[str, Any]] = {}

    def of(self, call: _Call) -> dict[str, Any]:
        if call.key not in self._known:
            program = self._operator(call.key) if call.key[0] == "tandem" else self._collective(call)
            self.programs[call.key] = program
            self._known[call.key] = self._priced(program, call.key[0] == "tandem")
        return self._known[call.key]

    def _planned(self, ranks: int) -> _fusions.Planned:
        return _fusions.Planned(ranks, self.machine, self.target)

    def _operator(self, key: tuple) -> tandem.Program:
        _, name, *arguments = key
        planned = self._planned(_ops._ranks(_operands(key)[1]))
        program = _planned(key, planned)[0]
        self.compile_seconds += planned.seconds
        return program

    def _collective(self, call: _Call) -> tandem.Program | None:
        tensors, groups = _parts(call.key)
        if call.operation not in _COLLECTIVES.values() or not tensors or not groups:
            return None
        ranks = c10d._resolve_process_group(groups[-1]).size()
        # Of one that writes into a tensor, the smaller one of a gather and the larger one of a reduce-scatter go in.
        sizes = [math.prod(one.size) for one in tensors]
        extent = min(sizes) * ranks if call.operation == "all-gather" else max(sizes)
        layer = _fusions.Layer(_BY_SIZE[tensors[0].dtype.itemsize], ranks)
        if call.operation == "all-gather":
            value: Any = layer.argument("x", (extent,), "x")
        else:
            value = layer.argument("x", (ranks, extent), "x", None).sum(0)
        axes = layer.mesh["x" if call.operation == "reduce-scatter" else None]
        layer.result("y", value.reshard(axes), axes)
        planned = self._planned(ranks)
        made = _fusions.compile_for(planned, layer, call.operation.replace("-", "_"))
        self.compile_seconds += planned.seconds
        return made

    @staticmethod
    def _priced(program: tandem.Program | None, ours: bool) -> dict[str, Any]:
        priced: dict[str, Any] = {"schedule": "", "seconds": 0.0, "baseline_seconds": 0.0, "communication_seconds": 0.0,
                                  "exposed_seconds": 0.0, "explanation": "nothing predicts it", "candidates": [],
                                  "is_predicted": program is not None}
        if program is None:
            return priced
        explained = program.explain()
        priced.update(seconds=explained.seconds or 0.0, baseline_seconds=explained.baseline_seconds or explained.seconds or 0.0)
        if not ours:
            return {**priced, "communication_seconds": priced["seconds"], "exposed_seconds": priced["seconds"],
                    "baseline_seconds": priced["seconds"],
                    "explanation": "a collective of torch, next to no matmul of tandem.torch; what else may hide it is not known"}
        loops = explained.loops
        return {**priced, "schedule": "; ".join(loop["schedule"] for loop in loops),
                "communication_seconds": sum(loop["communication_seconds"] for loop in loops),
                "exposed_seconds": sum(loop["exposed_seconds"] for loop in loops),
                "explanation": "; ".join(loop["explanation"] for loop in loops),
                "candidates": [one for loop in loops for one in loop["candidates"]]}


class StepReport(Report):
    """What a step of a model communicates on a machine, by prediction. Print it, show it in a notebook, or read:

    calls: in the order of the step, dicts with layer, direction ("forward", "backward"), operation, shapes, schedule,
        seconds, baseline_seconds (without overlap), communication_seconds, exposed_seconds (of communication, while
        nothing is computed), explanation (why not more is overlapped), candidates (schedule, seconds); on GPUs also
        measured_seconds and measured_matmul_seconds.
    seconds, baseline_seconds, communication_seconds, exposed_seconds: sums over the calls.
    overlapped: the share of communication_seconds that is not exposed; 1 if there is none.
    unpredicted: how many calls have no prediction (`is_predicted` of a call): they are in no sum.
    memory: bytes on each rank for intermediate values ("arena"), of memory that peers access ("symmetric") and of matrix
        libraries ("workspace"). All calls share them. "without_tandem": for intermediate values, if collectives and matmuls
        of torch run one after the other; what its communication library needs is not in it.
    compile_seconds, prepare_seconds: what it took to compile the programs here, and to prepare those of this process so far.
    """

    def __init__(self, data: dict[str, Any]) -> None:
        self.calls: list[dict[str, Any]] = data["calls"]
        self.machine: str = data["machine"]
        self.seconds, self.baseline_seconds, self.communication_seconds, self.exposed_seconds = (
            sum(one[key] for one in self.calls)
            for key in ("seconds", "baseline_seconds", "communication_seconds", "exposed_seconds"))
        self.overlapped = 1 - self.exposed_seconds / self.communication_seconds if self.communication_seconds else 1.0
        self.unpredicted = sum(not one["is_predicted"] for one in self.calls)
        self.memory: dict[str, int] = data["memory"]
        self.compile_seconds: float = data["compile_seconds"]
        self.prepare_seconds: float = data["prepare_seconds"]
        data.update({key: getattr(self, key) for key in ("seconds", "baseline_seconds", "communication_seconds",
                                                         "exposed_seconds", "overlapped", "unpredicted")})
        super().__init__("", data)
        self.text = self._text()

    def _rows(self) -> list[tuple[str, ...]]:
        """Equal calls of several layers are one row."""
        rows: dict[tuple, list[dict[str, Any]]] = {}
        for one in self.calls:
            layer = re.sub(r"\b\d+\b", "*", one["layer"])
            rows.setdefault((layer, one["direction"], one["operation"], one["shapes"], one["schedule"]), []).append(one)
        made = []
        for (layer, direction, operation, shapes, schedule), calls in rows.items():
            first = calls[0]
            times = [_microseconds(first[key]) for key in ("seconds", "baseline_seconds", "communication_seconds",
                                                           "exposed_seconds")]
            made.append((layer or "(model)", direction, f"{len(calls)} x {operation}", shapes, schedule, *times, first["explanation"]))
        return made

    _HEAD = ("layer", "direction", "calls", "shapes of a rank", "schedule", "time", "without overlap", "communication", "exposed")

    def _text(self) -> str:
        rows = self._rows()
        lines = []
        for *cells, explanation in rows:
            lines += [f"{cells[0]}, {cells[1]}: {cells[2]}, {cells[3]}",
                      f"    {cells[5]} ({cells[6]} without overlap); communication {cells[7]}, exposed {cells[8]}"
                      + (f"; {cells[4]}" if cells[4] else ""),
                      f"    {explanation}"]
        total = (f"{len(self.calls)} calls on {self.machine}: predicted {_microseconds(self.seconds)}, without overlap "
                 f"{_microseconds(self.baseline_seconds)}; communication {_microseconds(self.communication_seconds)}, "
                 f"{100 * self.overlapped:.0f} % of it overlapped, {_microseconds(self.exposed_seconds)} exposed")
        if self.unpredicted:
            total += f"\n{self.unpredicted} of the calls have no prediction, and are not in these sums"
        measured = [one for one in self.calls if "measured_seconds" in one]
        if measured:
            took, products = (sum(one[key] for one in measured) for key in ("measured_seconds", "measured_matmul_seconds"))
            total += (f"\nmeasured here: {_microseconds(took)}, of which {_microseconds(max(0.0, took - products))} more than "
                      "the matmuls alone")
        if not self.calls:
            total = "nothing is communicated: the model is not split, or its group has one rank"
        memory = ", ".join(f"{size} bytes {kind.replace('_', ' ')}" for kind, size in self.memory.items())
        return "\n".join([*lines, total, f"memory on each rank: {memory}; compiled in {self.compile_seconds:.1f} s, prepared in "
                          f"{self.prepare_seconds:.1f} s"])

    def _repr_html_(self) -> str:
        return f"{self.timeline()}{_table((*self._HEAD, 'explanation'), self._rows())}<p>{escape(self.text.splitlines()[-2])}</p>"

    def timeline(self) -> str:
        """The calls of the step one after another, as SVG: above their time, below their communication; what is exposed is
        red. What is computed between the calls is not shown."""
        scale, at, bars = 1000 / max(self.seconds, 1e-12), 0.0, []
        for one in self.calls:
            width = one["seconds"] * scale
            title = f"<title>{escape(one['layer'])}, {one['direction']}: {escape(one['operation'])}, {_microseconds(one['seconds'])}, " \
                    f"exposed {_microseconds(one['exposed_seconds'])}</title>"
            hidden = max(0.0, one["communication_seconds"] - one["exposed_seconds"]) * scale
            exposed = one["exposed_seconds"] * scale
            for x, y, length, color in ((at, 20, max(0.0, width - exposed), "#4878a8"), (at, 44, hidden, "#78a878"),
                                        (at + width - exposed, 44, exposed, "#c04040")):
                if length > 0:
                    bars.append(f'<rect x="{x:.2f}" y="{y}" width="{length:.2f}" height="20" fill="{color}">{title}</rect>')
            at += width
        legend = f"{escape(self.machine)}: {_microseconds(self.seconds)}; blue: compute, green: communication overlapped, red: exposed"
        return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1000 70" width="1000" height="70" font-family="sans-serif" '
                f'font-size="12"><text x="0" y="13">{legend}</text>{"".join(bars)}</svg>')

    def save(self, path: Any) -> None:
        """Writes the timeline (.svg), or all data (.json)."""
        is_drawing = os.fspath(path).endswith(".svg")
        _files.write(path, (self.timeline() if is_drawing else json.dumps(self.data, indent=1)).encode())


def _target(machine: str) -> str:
    """What programs for a machine file are compiled for."""
    return "hip-peer" if re.match(r"mi\d", os.path.basename(machine)) else "cuda-peer"


def _loss(result: Any) -> torch.Tensor:
    loss = result.get("loss") if isinstance(result, dict) else getattr(result, "loss", None)
    if loss is not None:
        return loss
    results = [one for one in tree_leaves(result) if isinstance(one, torch.Tensor) and one.requires_grad]
    if not results:
        raise tandem.ArgumentError("report: expected a result of the model that needs a gradient, or backward=False")
    return sum((one.float().sum() for one in results[1:]), results[0].float().sum())


@contextlib.contextmanager
def _kept(model: nn.Module, inputs: list[torch.Tensor]) -> Iterator[None]:
    """Gradients, buffers and random numbers are afterwards as before."""
    grads = [(one, one.grad) for one in (*model.parameters(), *inputs) if one.is_leaf]
    buffers = [(one, one.detach().clone()) for one in model.buffers() if not isinstance(one, DTensor)]
    attributes = [(one, dict(one.__dict__), dict(one._buffers)) for one in model.modules()]  # some cache tensors
    for one, _ in grads:
        one.grad = None
    with torch.random.fork_rng():
        try:
            yield
        finally:
            for one, grad in grads:
                one.grad = grad
            for module, kept, named in attributes:
                module.__dict__.clear()
                module.__dict__.update(kept)
                module._buffers.clear()
                module._buffers.update(named)
            with torch.no_grad():
                for one, value in buffers:
                    one.copy_(value)


def _measured(calls: list[_Call]) -> Iterator[dict[str, float]]:
    """The time of each call on this GPU, and of its matmuls alone."""
    torch.cuda.synchronize()
    known: dict[tuple, float] = {}
    for call in calls:
        if call.key[0] == "tandem" and call.key not in known:
            known[call.key] = _matmul_seconds(call.key)
        assert call.events is not None
        yield {"measured_seconds": call.events[0].elapsed_time(call.events[1]) / 1e3,
               "measured_matmul_seconds": known.get(call.key, 0.0)}


def _matmul_seconds(key: tuple) -> float:
    """Of the products of a call, by torch, without communication; 0 for 8 bits."""
    name = key[1]
    if "scaled" in name:
        return 0.0
    _, group, numbers, rows, weights = _operands(key)
    ranks = _ops._ranks(group) if name == "all_gather_matmul" else 1
    def random(shape: Any) -> torch.Tensor:
        return torch.randn(shape, dtype=rows[0].dtype, device="cuda")
    if name == "matmul_reduce_scatter_backward":
        (x, _), (weight,), (_, need_x, need_weight) = rows, weights, numbers
        tokens, grad = x.numel() // x.shape[-1], weight.shape[1]
        pairs = [((tokens, grad), (grad, weight.shape[0]))] * need_x + [((x.shape[-1], tokens), (tokens, grad))] * need_weight
    else:
        lefts = rows * len(weights) if name == "all_gather_matmul" else rows
        pairs = [((x.numel() // x.shape[-1] * ranks, x.shape[-1]), tuple(w.shape)) for x, w in zip(lefts, weights)]
    operands = [(random(left), random(right)) for left, right in pairs]
    times = []
    for _ in range(4):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for left, right in operands:
            left @ right
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / 1e3)
    return min(times)


def recorded(who: str, model: nn.Module, sample: Any, backward: bool, loss: Callable[[Any], torch.Tensor] | None,
             fake: bool) -> _Recorder:
    """Runs one step of a model, and notes its calls. fake: nothing is computed and nothing is sent."""
    if not isinstance(model, nn.Module):
        raise tandem.ArgumentError(f"{who}: expected a module, found {model!r}")
    args, kwargs = ((), sample) if isinstance(sample, dict) else (sample if isinstance(sample, tuple) else (sample,), {})
    inputs = [one for one in tree_leaves((args, kwargs)) if isinstance(one, torch.Tensor)]
    layers = _Layers(model)
    recorder = _Recorder(layers, not fake and any(one.is_cuda for one in (*inputs, *model.parameters())))
    with _kept(model, inputs), FakeTensorMode(allow_non_fake_inputs=True) if fake else contextlib.nullcontext():
        with layers.watched(), recorder:
            result = model(*args, **kwargs)
            if backward:
                (loss or _loss)(result).backward()
    return recorder


def report(model: nn.Module, sample: Any, *, machine: Any, backward: bool = True, loss: Callable[[Any], torch.Tensor] | None = None,
           target: str | None = None) -> StepReport:
    """Runs one step of a model that is split, and says what of its communication would be overlapped on a machine.

    Args:
        model: A module with layers of tandem.torch or of torch's tensor parallelism. Gradients (also of the sample), buffers
            and random states are as before afterwards.
        sample: What it is called with: a tensor, a tuple of arguments, or a dict of arguments by name.
        machine: A machine file (a name such as "h200x8", or a path), by which the step is predicted. The ranks of the
            groups are placed on it in their order.
        backward: Also run the backward pass.
        loss: Of the model's result. Default: its `loss`, or else the sum of its tensors.
        target: What to compile for. Default: "cuda-peer", for machine files "mi*" "hip-peer".

    Returns:
        The report. Collective: all ranks of the model's groups call it. In a group of torch's "fake" backend, one process
        stands for a rank of many, and nothing is computed: tensors have shapes alone.

    Example:
        print(tandem.torch.report(model, tokens, machine="h200x8"))
    """
    machine = os.fspath(machine)
    recorder = recorded("report", model, sample, backward, loss, dist.is_initialized() and "fake" in dist.get_backend())
    calls = recorder.calls
    prices = _Prices(machine, target or _target(machine))
    made = [{"layer": call.layer, "direction": call.direction, "operation": call.operation,
             "shapes": ", ".join(_shapes(call.key)), **prices.of(call)} for call in calls]
    if recorder.timed:
        for one, times in zip(made, _measured(calls)):
            one.update(times)
    return StepReport({"machine": machine, "calls": made, "memory": _memory(prices), "compile_seconds": prices.compile_seconds,
                       "prepare_seconds": _ops._groups.prepare_seconds})


def _memory(prices: _Prices) -> dict[str, int]:
    with tandem.Context("cpu", "local", world=tandem.World(1), rank=0) as alone:
        needs = [program.memory(alone) for program in prices.programs.values() if program is not None]
    memory = {kind: max((getattr(one, kind) for one in needs), default=0) for kind in ("arena", "symmetric", "workspace")}
    return {**memory, "without_tandem": max((_bytes_without(key) for key in prices.programs), default=0)}


def _bytes_without(key: tuple) -> int:
    """What a call keeps between its collective and its matmuls, if torch does one after the other: the gathered rows, or the
    sum that is scattered."""
    if key[0] != "tandem":
        return 0
    prepare, group, numbers, rows, weights = _operands(key)
    if prepare in (_ops._prepare_gather, _scaled._prepare_gather):
        tokens = numbers[0] if prepare is _scaled._prepare_gather else numbers[1]
        rows_of_all = rows[0].numel() * _ops._ranks(group) if tokens is None else rows[0].shape[-1] * tokens
        return rows_of_all * rows[0].element_size()
    if prepare is _ops._prepare_scatter_backward:
        return rows[0].numel() // rows[0].shape[-1] * weights[0].shape[1] * rows[0].element_size()
    made = _scaled._RESULTS[numbers[0]] if prepare is _scaled._prepare_scatter else rows[0].dtype
    return rows[0].numel() // rows[0].shape[-1] * weights[0].shape[1] * made.itemsize


def assert_overlapped(model: nn.Module, sample: Any, *, machine: Any, at_least: float = 0.8, backward: bool = True,
                      loss: Callable[[Any], torch.Tensor] | None = None, target: str | None = None) -> StepReport:
    """Raises AssertionError, which lists the calls, unless at least this share of the communication of a step would be
    overlapped on the machine, or if some have no prediction. Needs no GPU, and is the same in each run. All else is as for `report`, which it returns."""
    made = report(model, sample, machine=machine, backward=backward, loss=loss, target=target)
    if not made.calls or made.overlapped < at_least or made.unpredicted:
        raise AssertionError(f"expected {100 * at_least:g} % of the communication to be overlapped\n{made}")
    return made
