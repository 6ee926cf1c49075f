# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Programs: compiled fusions that can be called, and functions that are compiled when they are called."""

import inspect
import json
import math
import os
import re
import threading
from collections import namedtuple

from . import _files, _tandem
from ._context import init
from ._emit import emit
from ._errors import ArgumentError, CompileError, Diagnostic
from ._mesh import Axes, Tensor, _integer, _sequence
from ._progress import progress
from ._report import CheckReport, Explanation, Simulation
from ._trace import Value

_LOCATION = re.compile(r'loc\("([^"\\]+)":(\d+):(\d+)\)$')
_SEVERITIES = ("error", "warning", "remark", "note")

Argument = namedtuple("Argument", "name is_result present dtype shape local_shape")
Argument.__doc__ = """An input or a result as this rank sees it. `shape` is the logical one; a call takes and returns
tensors of `local_shape`, or None where not `present`."""


MemoryNeeds = namedtuple("MemoryNeeds", "arena symmetric workspace")
MemoryNeeds.__doc__ = """Bytes of device memory that a program needs on this rank, without its arguments: intermediate
values, memory that peers access, and scratch memory of matrix libraries. Programs of a context share them."""


class Shard(namedtuple("Shard", "present term offset extents strides local_shape")):
    """A rank's part of an argument: element i of the part, row-major in `extents`, is element
    offset + sum(index[d] * strides[d]) of the row-major logical tensor. A program takes it in `local_shape`; if that
    has fewer elements (tandem-c/Program.h, `tandem_shard`), `elements()` are those that the rank holds. `term`: of a
    partial argument, which term. Not `present`: the rank holds nothing."""

    __slots__ = ()

    def elements(self):
        """The elements of the row-major logical tensor that the part has, in its order: a list."""
        elements, loop = [self.offset] if self.present else [], len(self.extents)
        inner = [0]  # of the dimensions behind
        for extent in reversed(self.local_shape):
            indices = [0]
            while len(indices) < extent and loop:
                loop -= 1
                indices = [i * self.strides[loop] + index for i in range(self.extents[loop]) for index in indices]
            inner = [index + rest for index in indices[:extent] for rest in inner]
        return [first + rest for first in elements for rest in inner]

    def of(self, tensor):
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

    def __init__(self, bytes, diagnostics=(), source=None):
        super().__init__(bytes)
        self.diagnostics = tuple(diagnostics)  # warnings and remarks
        self._source = source

    def arguments(self, context=None):
        """The inputs, then the results. Local: other ranks need not call it, and nothing is prepared."""
        return [Argument(*one) for one in self._arguments(context)]

    def memory(self, context=None):
        """The device memory that the program takes on this rank, known before the first run. Local."""
        return MemoryNeeds(*self._memory(context))

    def shard(self, argument, rank=None, context=None):
        """The part of an argument (its name, or its number) that a rank holds; this one if none is given. Local."""
        context = context or _tandem.current_context() or init()
        if not isinstance(argument, int):
            names = [one.name for one in self.arguments(context)]
            if argument not in names:
                raise ArgumentError(f"expected an argument of {', '.join(names)}, found {argument!r}")
            argument = names.index(argument)
        return Shard(*self._shard(argument, context.rank if rank is None else rank, context))

    def save(self, path):
        """Writes a .tsp file, which `tandem.load` reads: also where only the runtime is installed."""
        _files.write(path, self.bytes)

    def explain(self, machine=None):
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

    def check(self, lint=False):
        """Replays the commands of all ranks: can the program hang or race, or (compiled with `reference=True`) differ
        from its unsharded reference? `lint`: also report what is legal but slow."""
        return CheckReport(*_made(_tandem.check(self.bytes, lint)))

    def simulate(self, machine, graph=True):
        """One run on a machine file (a name such as "h200x8", or a path): the predicted time and timeline.
        `graph=False`: commands are enqueued one by one."""
        return Simulation(*_made(_tandem.simulate(self.bytes, os.fspath(machine), graph)))


def _made(report):
    ok, text, data, svg = report
    if not ok:
        raise ArgumentError(text)
    return text, json.loads(data), svg


def load(path):
    """The program of a .tsp file. Needs no compiler. Errors in the file are found when it is first run."""
    return Program(_files.read(path))


# Texts may be paths. `bound` needs tandem_set_extent, which has no binding.
_OPTIONS: dict = {name: (str, os.PathLike) if kind is str else kind for name, kind in _tandem.compile_options().items()
                  if name != "bound"}


def _named(what, given):
    """A dict by names, as pairs."""
    if not isinstance(given, (dict, type(None))) or not all(isinstance(name, str) for name in given or {}):
        raise ArgumentError(f"{what}: expected a dict by name, found {given!r}")
    return (given or {}).items()


def _mesh_size(axis, size):
    return _integer(f"mesh: size of {axis}", size, 1)


def _shape(name, extents):
    what = f"shapes: {name}"
    return [_integer(what, extent, 0) for extent in _sequence(what, extents, "extents such as (8192, 4096)")]


def _compile_text(text, name, mesh, shapes, options):
    mesh = [(axis, _mesh_size(axis, size)) for axis, size in _named("mesh", mesh)]
    shapes = [(argument, _shape(argument, extents)) for argument, extents in _named("shapes", shapes)]
    options = {key: value for key, value in options.items() if value is not None}
    for key, value in options.items():
        if not isinstance(value, _OPTIONS.get(key, ())) or isinstance(value, int) and value < 0:
            raise ArgumentError(f"compile: expected options of {', '.join(_OPTIONS)}, found {key}={value!r}")
        if isinstance(value, os.PathLike):
            options[key] = os.fspath(value)
    with progress(f"compiling {name}"):
        data, messages, loops = _tandem.compile(text, name, mesh, shapes, {"reference": False, **options})
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


def compile(source, *, mesh=None, shapes=None, target=None, machine=None, name=None, check=True, **options):
    """Compiles a fusion for given sizes; returns a Program.

    source: the text of a fusion (MLIR), or a function decorated with `fuse`.
    mesh: sizes of mesh axes that the source leaves open: {"x": 8}.
    shapes: logical shapes of arguments, by name: {"x": (8192, 4096)}.
    target: "cpu-local" (ranks as threads; the default), "cpu-ucx", "cuda-peer", "cuda-nccl", "cuda-ucx",
        "hip-peer", "hip-rccl", "hip-ucx".
    machine: machine file (a name such as "h200x8", or a path) by whose costs schedules are chosen.
    check: prove that the program can neither hang nor race, and that it gives what the unsharded fusion gives; what is
        found is a CompileError. False: `explain()` says that nothing was proven.
    Further options: entry, ranks, workers, gather, certify, deterministic, tuned, reference (put the unsharded
    reference into the program); see tandem-c/CompileOptions.def.

    Raises CompileError with the compiler's messages and their places.
    """
    options.update(target=target or "cpu-local", machine=machine, check=check)
    if isinstance(source, Fusion):
        if name is not None:
            raise ArgumentError("compile: a traced function has its own name")
        sizes = source._mesh_sizes(mesh)
        return _compile_text(source.trace(shapes, sizes), f"<traced {source.__name__}>", {}, {}, options)
    name = name or "input.mlir"
    if not isinstance(source, str) or not isinstance(name, str):
        raise ArgumentError(f"compile: expected the text of a fusion or a fused function, and a name, found {source!r}, {name!r}")
    return _compile_text(source, name, mesh, shapes, options)


class Fusion(_tandem.Fusion):
    """A function on symbolic tensors; see `fuse`. A call compiles it for the shapes of the tensors, once, and runs
    the program. Each rank keeps the `most_programs` (512) that it used last."""

    def __init__(self, function, types, results, options):
        super().__init__()
        if not hasattr(function, "__code__"):
            raise ArgumentError(f"fuse: expected a function of Python, found {function!r}")
        self.function, self.options = function, options
        self.__name__, self.__doc__ = function.__name__, function.__doc__
        self.file = inspect.getsourcefile(function) or "<python>"
        self.line = function.__code__.co_firstlineno
        positional, named = types
        names = list(inspect.signature(function).parameters)
        if len(positional) > len(names):
            raise ArgumentError(f"{self.__name__}: expected {len(names)} types, found {len(positional)}")
        self.types = dict(zip(names, positional))
        for key, type_ in named.items():
            if key not in names or key in self.types:
                raise ArgumentError(f"{self.__name__}: expected one type for each of {', '.join(names)}, found {key}")
            self.types[key] = type_
        for key in names:
            if not isinstance(self.types.get(key), Tensor):
                raise ArgumentError(f"{self.__name__}: {key}: expected a tandem.Tensor, found {self.types.get(key)!r}")
        self.types = {key: self.types[key] for key in names}
        self.results = results if isinstance(results, (tuple, list)) else (results,)
        for axes in self.results:
            if not isinstance(axes, Axes):
                raise ArgumentError(f"{self.__name__}: results: expected axes such as mesh[\"x\", None], found {axes!r}")
        self._programs, self._lock = {}, threading.Lock()

    def _meshes(self):
        meshes = []
        for axes in [*(type_.axes for type_ in self.types.values()), *self.results]:
            if axes.mesh not in meshes:
                meshes.append(axes.mesh)
        return meshes

    def _mesh_sizes(self, given, world_size=None):
        """All sizes of mesh axes, by "axis" and "mesh.axis"."""
        sizes = {axis: _mesh_size(axis, size) for axis, size in _named("mesh", given)}
        axes = {f"{mesh.name}.{axis}": size for mesh in self._meshes() for axis, size in mesh.sizes.items()}
        for given, size in sizes.items():
            known = [stated for axis, stated in axes.items() if given in (axis, axis.rpartition(".")[2])]
            if not known:
                raise ArgumentError(f"{self.__name__}: mesh: expected a mesh axis of {', '.join(axes)}, found {given!r}")
            if not {None, size} & set(known):
                raise ArgumentError(f"{self.__name__}: mesh: expected size {known[0]} of {given}, as its mesh says, found {size}")
        for mesh in self._meshes():
            known = mesh._sized(sizes)
            unknown = [axis for axis, size in known.items() if size is None]
            if len(unknown) == 1 and world_size:
                others = 1
                for size in known.values():
                    others *= size or 1
                known[unknown[0]] = world_size // others
            for axis, size in known.items():
                if size is None:
                    raise ArgumentError(f"{self.__name__}: expected the size of mesh axis {axis}: mesh={{\"{axis}\": 8}}")
                sizes[f"{mesh.name}.{axis}"] = size
        return sizes

    def trace(self, shapes=None, mesh=None):
        """The text of the fusion for the given shapes of arguments and sizes of mesh axes (dicts, by name)."""
        shapes, sizes = {key: _shape(key, extents) for key, extents in _named("shapes", shapes)}, self._mesh_sizes(mesh)
        arguments = []
        for name, type_ in self.types.items():
            shape = tuple(shapes.pop(name, type_.shape))
            if len(shape) != len(type_.shape) or any(
                    stated not in (None, extent) for stated, extent in zip(type_.shape, shape)):
                raise ArgumentError(f"{self.__name__}: {name}: expected shape {type_.shape}, found {shape}")
            if None in shape:
                raise ArgumentError(f"{self.__name__}: {name}: expected its shape: shapes={{\"{name}\": (...)}}")
            arguments.append(Value("argument", [], shape, type_.dtype, type_.axes, name=name))
        if shapes:
            raise ArgumentError(f"{self.__name__}: no argument is named {next(iter(shapes))}")
        results = self.function(*arguments)
        results = list(results) if isinstance(results, (tuple, list)) else [results]
        if len(results) != len(self.results):
            raise ArgumentError(f"{self.__name__}: expected {len(self.results)} results, found {len(results)}")
        for value in results:
            if not isinstance(value, Value):
                raise ArgumentError(f"{self.__name__}: expected traced tensors as results, found {value!r}")
        labels = ["result"] if len(results) == 1 else [f"result{index}" for index in range(len(results))]
        return emit(self.__name__, arguments, results, self.results, labels, sizes, (self.file, self.line, 1))

    def compile(self, **options):
        """tandem.compile of this function."""
        return compile(self, **{**self.options, **options})

    def _specialize(self, tensors, context):
        """The program for the local shapes of tensors (None: no part). Called when there is none yet."""
        with self._lock:  # ranks that are threads share it
            key = context.device, context.channels, context.world_size, tensors
            if key not in self._programs:
                self._programs[key] = self._compile_for(tensors, context)
                while len(self._programs) > self.most_programs:
                    del self._programs[next(iter(self._programs))]
            return self._programs[key]

    @property
    def num_programs(self):
        """How many compiled programs it has."""
        return len(self._programs)

    def _compile_for(self, tensors, context):
        sizes, shapes = self._sizes(tensors, context)
        options = {"target": _target(context), "ranks": context.world_size, **self.options}
        return compile(self, **{**options, "mesh": sizes, "shapes": shapes})

    def _sizes(self, tensors, context):
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


def _channel_names(context):
    """Without their link classes."""
    return [channel.rpartition(":")[2] for channel in context.channels.split(",")]


def _target(context):
    """The compile target of a context's device and channels."""
    channels = _channel_names(context)
    if context.device.startswith("cuda"):
        return "cuda-peer" if "peer" in channels else "cuda-nccl" if "ccl" in channels else "cuda-ucx"
    return "cpu-local" if "ucx" not in channels else "cpu-ucx"


def fuse(*types, results, options=None, **named):
    """Decorator: a function on symbolic tensors becomes a fusion.

    types, named: a `Tensor` for each parameter, in order or by name.
    results: the axes of the result, or a tuple of them.
    options: those of `compile`, for programs that calls compile: {"machine": "h200x8"}.

        tp = tandem.Mesh("tp", x=4)

        @tandem.fuse(x=tandem.Tensor("f32", (None, 64), tp["x", None]),
                     w=tandem.Tensor("f32", (64, 32), tp[None, None]), results=tp[tandem.stream("x"), None])
        def allgather_matmul(x, w):
            return x @ w

    The function runs once for each combination of shapes, on `Value`s; control flow in it depends on shapes only. Calls
    of the result take this rank's parts of the tensors, as those of a `Program` do. Where a dimension is None and split
    over devices, the extent is that of the call's tensor times the number of devices.
    """
    return lambda function: Fusion(function, (types, named), results, dict(_named("options", options)))
