# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Programs: compiled fusions that can be called, and functions that are compiled when they are called."""

from __future__ import annotations

import inspect
import json
import math
import os
import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, TypedDict, TypeVar

from . import _files, _tandem
from ._context import init
from ._emit import emit
from ._errors import ArgumentError, CompileError, Diagnostic
from ._mesh import Axes, Mesh, Path, TensorType, _integer, _sequence
from ._progress import progress
from ._report import CheckReport, Explanation, Simulation
from ._tandem import Context
from ._trace import Value

if TYPE_CHECKING:
    from typing_extensions import Unpack

_LOCATION = re.compile(r'loc\("([^"\\]+)":(\d+):(\d+)\)$')
_SEVERITIES = ("error", "warning", "remark", "note")
_Function = TypeVar("_Function", bound=Callable[..., Any])


class _Options(TypedDict, total=False):
    mesh: Mapping[str, int] | None
    shapes: Mapping[str, Sequence[int]] | None
    target: str | None
    name: str | None
    check: bool
    entry: str | None
    ranks: int | None
    workers: int | None
    reference: bool
    gather: str | None
    certify: bool
    deterministic: str | None


class CompileOptions(_Options, total=False):
    """The options of `compile`, which describes them."""

    machine: Path | None
    tuned: Path | None


class Argument(NamedTuple):
    """An input or a result as this rank sees it. `shape` is the logical one; a call takes and returns tensors of
    `local_shape`, or None where not `present`."""

    name: str
    is_result: bool
    present: bool
    dtype: str
    shape: tuple[int, ...]
    local_shape: tuple[int, ...]


class MemoryNeeds(NamedTuple):
    """Bytes of device memory that a program needs on this rank, without its arguments. Programs of a context share them."""

    arena: int  # intermediate values
    symmetric: int  # memory that peers access
    workspace: int  # scratch memory of matrix libraries


class LocalShard(NamedTuple):
    """A rank's part of an argument: element i of the part, row-major in `extents`, is element
    offset + sum(index[d] * strides[d]) of the row-major logical tensor. A program takes it in `local_shape`; if that
    has fewer elements (tandem-c/Program.h, `tandem_shard`), `elements()` are those that the rank holds. `term`: of a
    partial argument, which term. Not `present`: the rank holds nothing."""

    present: bool
    term: int
    offset: int
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    local_shape: tuple[int, ...]

    def elements(self) -> list[int]:
        """The elements of the row-major logical tensor that the part has, in its order: a list."""
        elements, loop = [self.offset] if self.present else [], len(self.extents)
        inner = [0]  # of the dimensions after
        for extent in reversed(self.local_shape):
            indices = [0]
            while len(indices) < extent and loop:
                loop -= 1
                indices = [i * self.strides[loop] + index for i in range(self.extents[loop]) for index in indices]
            inner = [index + rest for index in indices[:extent] for rest in inner]
        return [first + rest for first in elements for rest in inner]

    def of(self, tensor: Any) -> Any:
        """The part of a logical tensor of NumPy or torch, as a new tensor; None if there is none."""
        if not self.present:
            return None
        if math.prod(self.extents) != math.prod(self.local_shape):
            return tensor.reshape(-1)[self.elements()].reshape(self.local_shape)
        if hasattr(tensor, "as_strided"):
            part = tensor.contiguous().as_strided(self.extents, self.strides, self.offset)
            return part.reshape(self.local_shape).clone()
        import numpy
        flat = numpy.ascontiguousarray(tensor).reshape(-1)[self.offset:]
        steps = [stride * flat.itemsize for stride in self.strides]
        part = numpy.lib.stride_tricks.as_strided(flat, self.extents, steps, writeable=False)
        return part.reshape(self.local_shape).copy()


class Program(_tandem.Program):
    """A stream program: the commands of all ranks. Thread-safe.

    `program(*tensors, out=None, stream=None, context=None)` runs it on this rank and returns its result, or a tuple of
    them. Tensors are this rank's parts (`arguments()` lists their shapes), contiguous, of any library with DLPack or
    the buffer protocol; nothing is copied. Results are new tensors of the first input's library, or `out`, a tensor or
    a tuple. Every rank must make the same calls in the same order; the first call in a context is collective.

    Raises ArgumentError if a tensor does not fit, Timeout if other ranks do not come, Error if a run fails.
    """

    def __init__(self, bytes: bytes, diagnostics: Iterable[Diagnostic] = (), source: tuple | None = None) -> None:
        super().__init__(bytes)
        self.diagnostics = tuple(diagnostics)  # warnings and remarks
        self._source = source
        self._loops: list[dict[str, Any]] = []
        self._choices: Any = None

    def arguments(self, context: Context | None = None) -> list[Argument]:
        """The inputs, then the results. Local: other ranks need not call it, and nothing is prepared."""
        return [Argument(*one) for one in self._arguments(context)]

    def memory(self, context: Context | None = None) -> MemoryNeeds:
        """The device memory that the program takes on this rank, known before the first run. Local."""
        return MemoryNeeds(*self._memory(context))

    def shard(self, argument: str | int, rank: int | None = None, context: Context | None = None) -> LocalShard:
        """The part of an argument (its name, or its number) that a rank holds; this one if none is given. Local."""
        context = context or _tandem.current_context() or init()
        if not isinstance(argument, int):
            names = [one.name for one in self.arguments(context)]
            if argument not in names:
                raise ArgumentError(f"expected an argument of {', '.join(names)}, found {argument!r}")
            argument = names.index(argument)
        return LocalShard(*self._shard(argument, context.rank if rank is None else rank, context))

    def save(self, path: Path) -> None:
        """Writes a .tsp file, which `tandem.load` reads: also where only the runtime is installed."""
        _files.write(path, self.bytes)

    def explain(self, machine: Path | None = None) -> Explanation:
        """How each loop of communication and compute is run, whether its communication is overlapped or why not, and
        the runners-up. With a machine file, at which predicted times. `print` it, or show it in a notebook.

        Uses the program's certificate. Predicted times need `compile(machine=..., certify=True)`, or the program is
        compiled again for them.
        """
        if machine is None:
            explained = _tandem.explain(self.bytes)
            predicts = self._source is not None and self._source[-1].get("machine")
            if not predicts or not explained[0] or json.loads(explained[2])["machine"]:
                return Explanation(*_made(explained))
        if self._source is None:
            raise ArgumentError("explain: the program was not compiled here, so its machine file cannot be chosen")
        text, name, mesh, shapes, options = self._source
        options = {**options, "certify": True}
        if machine is not None:
            options["machine"] = machine
        return Explanation(*_made(_tandem.explain(_compile_text(text, name, dict(mesh), dict(shapes), options).bytes)))

    def check(self, *, lint: bool = False) -> CheckReport:
        """Replays the commands of all ranks: can the program hang or race, or (compiled with `reference=True`) differ
        from its unsharded reference? `lint`: also report what is legal but slow."""
        return CheckReport(*_made(_tandem.check(self.bytes, lint)))

    def simulate(self, machine: Path, *, graph: bool = True) -> Simulation:
        """One run on a machine file (a name such as "h200x8", or a path): the predicted time and timeline.
        `graph=False`: commands are enqueued one by one."""
        return Simulation(*_made(_tandem.simulate(self.bytes, os.fspath(machine), graph)))


def _made(report: tuple) -> tuple:
    ok, text, data, svg = report
    if not ok:
        raise ArgumentError(text)
    return text, json.loads(data), svg


def load(path: Path) -> Program:
    """The program of a .tsp file. Needs no compiler. Errors in the file are found when it is first run."""
    return Program(_files.read(path))


# Texts may be paths. `bound` needs tandem_set_extent, which has no binding.
_OPTIONS: dict = {name: (str, os.PathLike) if kind is str else kind for name, kind in _tandem.compile_options().items()
                  if name != "bound"}


def _named(what: str, given: Any) -> Iterable[tuple[str, Any]]:
    """A dict by names, as pairs."""
    if not isinstance(given, (dict, type(None))) or not all(isinstance(name, str) for name in given or {}):
        raise ArgumentError(f"{what}: expected a dict by name, found {given!r}")
    return (given or {}).items()


def _mesh_size(axis: str, size: Any) -> int:
    return _integer(f"mesh: size of {axis}", size, 1)


def _shape(name: str, extents: Any) -> list[int]:
    what = f"shapes: {name}"
    return [_integer(what, extent, 0) for extent in _sequence(what, extents, "extents such as (8192, 4096)")]


def _compile_text(text: str, name: str, mesh: Any, shapes: Any, options: dict[str, Any]) -> Program:
    mesh = [(axis, _mesh_size(axis, size)) for axis, size in _named("mesh", mesh)]
    shapes = [(argument, _shape(argument, extents)) for argument, extents in _named("shapes", shapes)]
    options = {key: value for key, value in options.items() if value is not None}
    for key, value in options.items():
        if not isinstance(value, _OPTIONS[key]) or isinstance(value, int) and value < 0:
            kind = {bool: "True or False", int: "a number of at least 0"}.get(_OPTIONS[key], "a str or a path")
            raise ArgumentError(f"compile: {key}: expected {kind}, found {value!r}")
        if isinstance(value, os.PathLike):
            options[key] = os.fspath(value)
    with progress(f"compiling {name}"):
        data, messages, loops = _tandem.compile(text, name, mesh, shapes, {**options})
    lines = text.splitlines()
    diagnostics = []
    for severity, message, file, line, column in messages:
        # What the parser rejects is placed in the text; a traced operation ends with its place in Python.
        if file == name and 0 < line <= len(lines) and (place := _LOCATION.search(lines[line - 1])):
            file, line, column = place[1], int(place[2]), int(place[3])
        diagnostics.append(Diagnostic(_SEVERITIES[severity], message, file, line, column))
    if data is None:
        raise CompileError(diagnostics)
    program = Program(data, diagnostics, (text, name, mesh, shapes, options))
    program._loops = json.loads(loops)
    return program


def compile(source: str | Fusion, *, mesh: Mapping[str, int] | None = None, shapes: Mapping[str, Sequence[int]] | None = None,
            target: str | None = None, machine: Path | None = None, name: str | None = None, check: bool = True,
            entry: str | None = None, ranks: int | None = None, workers: int | None = None, reference: bool = False,
            gather: str | None = None, certify: bool = False, deterministic: str | None = None, tuned: Path | None = None) -> Program:
    """Compiles a fusion for given sizes.

    Args:
        source: The text of a fusion (MLIR), or a function decorated with `fuse`.
        mesh: Sizes of mesh axes that the source leaves open: {"x": 8}.
        shapes: Logical shapes of arguments, by name: {"x": (8192, 4096)}.
        target: "cpu-local" (ranks as threads; the default), "cpu-ucx", "cuda-peer", "cuda-nccl", "cuda-ucx",
            "hip-peer", "hip-rccl", "hip-ucx".
        machine: Machine file (a name such as "h200x8", or a path) by whose costs schedules are chosen. Default: fixed rules.
        name: Of the text, in messages. Default: "input.mlir".
        check: Prove that the program can neither hang nor race, and that it gives what the unsharded fusion gives; what is
            found is a CompileError. False: `explain()` says that nothing was proven.
        entry: The function of the text. Default: the only public one.
        ranks: Of the world. Default: as many as the meshes need.
        workers: Streams of a rank on which slices of loops run at the same time. Default: 4.
        reference: Put the unsharded reference into the program, with which `Program.check` compares.
        gather: "before", "after" or "cost": the position of reshards that may go on either side of an operation.
        certify: Compare results at more indices, and predict times for `Program.explain`; takes about as long as compiling.
        deterministic: "bitwise", "batch" or "tp" (docs/semantics.md). Default: as the text says.
        tuned: A file of measured choices, which `tune` writes.

    Returns:
        The program. CompileError, with the compiler's messages and their places, if the fusion is rejected.

    Example:
        program = tandem.compile(allgather_matmul, mesh={"gpu": 8}, shapes={"x": (8192, 64)}, machine="h200x8")
    """
    options = {"target": target or "cpu-local", "machine": machine, "check": check, "entry": entry, "ranks": ranks,
               "workers": workers, "reference": reference, "gather": gather, "certify": certify,
               "deterministic": deterministic, "tuned": tuned}
    if isinstance(source, Fusion):
        if name is not None:
            raise ArgumentError("compile: a traced function has its own name")
        sizes = source._mesh_sizes(mesh)
        return _compile_text(source.trace(shapes, sizes), f"<traced {source.__name__}>", {}, {}, options)
    name = name or "input.mlir"
    if not isinstance(source, str) or not isinstance(name, str):
        raise ArgumentError(f"compile: expected the text of a fusion or a fused function, and a name, found {source!r}, {name!r}")
    return _compile_text(source, name, mesh, shapes, options)


def _names_options(function: _Function) -> _Function:
    """Shows each of `**options: Unpack[TYPE]` by name, as type checkers do, also to inspect.signature and shells."""
    signature = inspect.signature(function)
    *own, options = signature.parameters.values()
    taken = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation.__forward_arg__)
             for name, annotation in globals()[options.annotation[len("Unpack["):-1]].__annotations__.items()]
    function.__signature__ = signature.replace(parameters=[*own, *taken])  # type: ignore[attr-defined]
    return function


class Fusion(_tandem.Fusion):
    """A function on symbolic tensors; see `fuse`. A call compiles it for the shapes of the tensors, once, and runs
    the program. Each rank keeps the `most_programs` (512) that it used last."""

    def __init__(self, function: Callable[..., Any], types: tuple[Sequence[TensorType], Mapping[str, TensorType]],
                 results: Axes | Sequence[Axes], options: Any) -> None:
        super().__init__()
        if not hasattr(function, "__code__"):
            raise ArgumentError(f"fuse: expected a function of Python, found {function!r}")
        self.function = function
        self.options: CompileOptions = dict(_named("options", options))  # type: ignore[assignment]
        for key in self.options.keys() - CompileOptions.__annotations__.keys():
            raise ArgumentError(f"fuse: options: expected {', '.join(CompileOptions.__annotations__)}, found {key}")
        self.__name__, self.__doc__ = function.__name__, function.__doc__
        self.file = inspect.getsourcefile(function) or "<python>"
        self.line = function.__code__.co_firstlineno
        positional, named = types
        names = list(inspect.signature(function).parameters)
        if len(positional) > len(names):
            raise ArgumentError(f"{self.__name__}: expected {len(names)} types, found {len(positional)}")
        self.types: dict[str, TensorType] = dict(zip(names, positional))
        for key, type_ in named.items():
            if key not in names or key in self.types:
                raise ArgumentError(f"{self.__name__}: expected one type for each of {', '.join(names)}, found {key}")
            self.types[key] = type_
        for key in names:
            if not isinstance(self.types.get(key), TensorType):
                raise ArgumentError(f"{self.__name__}: {key}: expected a tandem.TensorType, found {self.types.get(key)!r}")
        self.types = {key: self.types[key] for key in names}
        self.results: Sequence[Axes] = results if isinstance(results, (tuple, list)) else (results,)
        for axes in self.results:
            if not isinstance(axes, Axes):
                raise ArgumentError(f"{self.__name__}: results: expected axes such as mesh[\"x\", None], found {axes!r}")
        self._programs: dict[tuple, Program] = {}
        self._lock = threading.Lock()

    def _meshes(self) -> list[Mesh]:
        meshes: list[Mesh] = []
        for axes in [*(type_.axes for type_ in self.types.values()), *self.results]:
            if axes.mesh not in meshes:
                meshes.append(axes.mesh)
        return meshes

    def _mesh_sizes(self, given: Mapping[str, int] | None, world_size: int | None = None) -> dict[str, int]:
        """All sizes of mesh axes, by "axis" and "mesh.axis"."""
        sizes = {axis: _mesh_size(axis, size) for axis, size in _named("mesh", given)}
        axes = {f"{mesh.name}.{axis}": size for mesh in self._meshes() for axis, size in mesh.sizes.items()}
        for name, size in sizes.items():
            stated = [size for axis, size in axes.items() if name in (axis, axis.rpartition(".")[2])]
            if not stated:
                raise ArgumentError(f"{self.__name__}: mesh: expected a mesh axis of {', '.join(axes)}, found {name!r}")
            if not {None, size} & set(stated):
                raise ArgumentError(f"{self.__name__}: mesh: expected size {stated[0]} of {name}, as its mesh says, found {size}")
        for mesh in self._meshes():
            known = mesh._sized(sizes)
            unknown = [axis for axis, size in known.items() if size is None]
            if len(unknown) == 1 and world_size:
                known[unknown[0]] = world_size // math.prod(size or 1 for size in known.values())
            for axis, found in known.items():
                if found is None:
                    raise ArgumentError(f"{self.__name__}: expected the size of mesh axis {axis}: mesh={{\"{axis}\": 8}}")
                sizes[f"{mesh.name}.{axis}"] = found
        return sizes

    def trace(self, shapes: Mapping[str, Sequence[int]] | None = None, mesh: Mapping[str, int] | None = None) -> str:
        """The text of the fusion for the given shapes of arguments and sizes of mesh axes (dicts, by name)."""
        extents_of, sizes = {key: _shape(key, extents) for key, extents in _named("shapes", shapes)}, self._mesh_sizes(mesh)
        arguments = []
        for name, type_ in self.types.items():
            shape: Any = tuple(extents_of.pop(name, type_.shape))
            if len(shape) != len(type_.shape) or any(
                    stated not in (None, extent) for stated, extent in zip(type_.shape, shape)):
                raise ArgumentError(f"{self.__name__}: {name}: expected shape {type_.shape}, found {shape}")
            if None in shape:
                raise ArgumentError(f"{self.__name__}: {name}: expected its shape: shapes={{\"{name}\": (...)}}")
            arguments.append(Value("argument", [], shape, type_.dtype, type_.axes, name=name))
        if extents_of:
            raise ArgumentError(f"{self.__name__}: no argument is named {next(iter(extents_of))}")
        results = self.function(*arguments)
        results = list(results) if isinstance(results, (tuple, list)) else [results]
        if len(results) != len(self.results):
            raise ArgumentError(f"{self.__name__}: expected {len(self.results)} results, found {len(results)}")
        for value in results:
            if not isinstance(value, Value):
                raise ArgumentError(f"{self.__name__}: expected traced tensors as results, found {value!r}")
        labels = ["result"] if len(results) == 1 else [f"result{index}" for index in range(len(results))]
        return emit(self.__name__, arguments, results, self.results, labels, sizes, (self.file, self.line, 1))

    @_names_options
    def compile(self, **options: Unpack[CompileOptions]) -> Program:
        """tandem.compile of this function. Its own options are those that are not given."""
        merged: dict[str, Any] = {**self.options, **options}
        return compile(self, **merged)

    def _specialize(self, tensors: tuple, context: Context) -> Program:
        """The program for the local shapes of tensors (None: no part). Called when there is none yet."""
        with self._lock:  # ranks that are threads share it
            key = context.device, context.channels, context.world_size, tensors
            if key not in self._programs:
                self._programs[key] = self._compile_for(tensors, context)
                while len(self._programs) > self.most_programs:
                    del self._programs[next(iter(self._programs))]
            return self._programs[key]

    @property
    def num_programs(self) -> int:
        """How many compiled programs it has."""
        return len(self._programs)

    def _compile_for(self, tensors: tuple, context: Context) -> Program:
        sizes, shapes = self._sizes(tensors, context)
        options: dict[str, Any] = {"target": _target(context), "ranks": context.world_size, **self.options, "mesh": sizes, "shapes": shapes}
        return compile(self, **options)

    def _sizes(self, tensors: Sequence[Sequence[int] | None], context: Context) -> tuple[dict[str, int], dict[str, tuple[int, ...]]]:
        """Mesh sizes and open logical shapes that follow from a context and local shapes."""
        if len(tensors) != len(self.types):
            raise ArgumentError(f"{self.__name__}: expected {len(self.types)} tensors, found {len(tensors)}")
        sizes = self._mesh_sizes(self.options.get("mesh"), context.world_size)
        shapes = {}
        for (name, type_), local in zip(self.types.items(), tensors):
            if None not in type_.shape:
                continue
            if local is None:
                raise ArgumentError(f"{self.__name__}: {name}: expected a tensor, since its shape is open")
            if len(local) != len(type_.shape):
                raise ArgumentError(f"{self.__name__}: {name}: expected {len(type_.shape)} dimensions, found {len(local)}")
            known = {axis: sizes[f"{type_.axes.mesh.name}.{axis}"] for axis in type_.axes.mesh.sizes}
            shapes[name] = tuple(
                extent * type_.axes._devices(dim, known) if stated is None else stated
                for dim, (stated, extent) in enumerate(zip(type_.shape, local)))
        return sizes, shapes


def _channel_names(context: Any) -> list[str]:
    """Without their link classes."""
    return [channel.rpartition(":")[2] for channel in context.channels.split(",")]


def _target(context: Any) -> str:
    """The compile target of a context's device and channels."""
    channels = _channel_names(context)
    if context.device.startswith("cuda"):
        return "cuda-peer" if "peer" in channels else "cuda-nccl" if "ccl" in channels else "cuda-ucx"
    return "cpu-local" if "ucx" not in channels else "cpu-ucx"


def fuse(*types: TensorType, results: Axes | Sequence[Axes], options: CompileOptions | None = None,
         **named: TensorType) -> Callable[[Callable[..., Any]], Fusion]:
    """Decorator: a function on symbolic tensors becomes a fusion.

    The function runs once for each combination of shapes, on `Value`s; control flow in it depends on shapes only. Calls
    of the result take this rank's parts of the tensors, as those of a `Program` do. Where a dimension is None and split
    over devices, the extent is that of the call's tensor times the number of devices.

    Args:
        types, named: A `TensorType` for each parameter, in order or by name.
        results: The axes of the result, or a tuple of them.
        options: Those of `compile`, for programs that calls compile: {"machine": "h200x8"}.

    Returns:
        The decorator, which makes a `Fusion`.

    Example:
        tp = tandem.Mesh("tp", x=4)

        @tandem.fuse(x=tandem.TensorType("f32", (None, 64), tp["x", None]),
                     w=tandem.TensorType("f32", (64, 32), tp[None, None]), results=tp[tandem.loop("x"), None])
        def allgather_matmul(x, w):
            return x @ w
    """
    return lambda function: Fusion(function, (types, named), results, options)
