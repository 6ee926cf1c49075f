# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Meshes, axes and types: how the dimensions of a tensor are parallelised (docs/fusion.md)."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, Union

from ._errors import ArgumentError

# By the name that NumPy, ml_dtypes and torch have for them.
NUMPY_NAMES = {"f32": "float32", "f16": "float16", "bf16": "bfloat16", "i32": "int32", "f64": "float64", "i64": "int64",
               "i8": "int8", "i1": "bool", "i16": "int16", "f8E4M3FN": "float8_e4m3fn", "f8E5M2": "float8_e5m2"}
DTYPES = tuple(NUMPY_NAMES)
BITS = {dtype: int(dtype.strip("bfi").partition("E")[0]) for dtype in DTYPES}
_DTYPES_BY_NAME = {"bool_": "i1", **{name: dtype for dtype, name in NUMPY_NAMES.items()}}

DType = Any  # a str of DTYPES or their NumPy names, or a dtype of NumPy, ml_dtypes or torch
Dim = Union[None, str, "Digit"]
Path = Union[str, "os.PathLike[str]"]
_Size = Union[None, str, int]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def dtype_name(given: DType, what: str = "") -> str:
    """"bf16" of "bf16", "bfloat16", torch.bfloat16, ml_dtypes.bfloat16 and numpy.dtype(ml_dtypes.bfloat16)."""
    name = given if isinstance(given, str) else str(getattr(given, "__name__", None) or getattr(given, "name", None) or given)
    name = _DTYPES_BY_NAME.get(name.rpartition(".")[2], name)
    if name not in DTYPES:
        raise ArgumentError(f"{what}expected a dtype of {', '.join(DTYPES)}, or one of NumPy or torch, found {given!r}")
    return name


def _check_name(what: str, name: Any) -> None:
    if not isinstance(name, str) or not _NAME.match(name):
        raise ArgumentError(f"{what}: expected a name of letters, digits and _, found {name!r}")


def _integer(what: str, value: Any, least: int) -> int:
    """A number, also one of NumPy, as an int."""
    if not hasattr(value, "__index__") or not least <= value.__index__() < 1 << 63:
        raise ArgumentError(f"{what}: expected a number of at least {least}, found {value!r}")
    return value.__index__()


def _sequence(what: str, value: Any, example: str) -> tuple:
    try:
        return tuple(value)
    except TypeError:
        raise ArgumentError(f"{what}: expected {example}, found {value!r}") from None


class Digit:
    """A factor of a split dimension. Digits multiply to the digits of one dimension, outermost first:
    `didx("x") * loop(2)`."""

    def __init__(self, *factors: tuple[str, _Size]) -> None:
        self.factors = factors  # (kind, mesh axis or number or None)

    def __mul__(self, other: Digit) -> Digit:
        if not isinstance(other, Digit):
            return NotImplemented
        return Digit(*self.factors, *other.factors)

    def __str__(self) -> str:
        return " * ".join(kind if size is None else f'{kind}("{size}")' if isinstance(size, str) else f"{kind}({size})"
                          for kind, size in self.factors) or "-"

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Digit) and self.factors == other.factors

    def __hash__(self) -> int:
        return hash(self.factors)


def didx(axis: str) -> Digit:
    """Split over the devices of mesh axis `axis` (nvFuser's DIDx)."""
    _check_name("didx", axis)
    return Digit(("didx", axis))


def loop(size: _Size = None) -> Digit:
    """Split over the iterations of a loop, `stream` in MLIR and nvFuser's Stream: into `size` slices (a number, or a mesh axis,
    of which it has the size), or one slice for each index."""
    return Digit(("stream", _size("loop", size)))


def serial(size: str | int) -> Digit:
    """Not split: a factor between others. A `serial(n)` before `didx` makes a dimension block-cyclic."""
    return Digit(("serial", _size("serial", size)))


def _size(kind: str, size: Any) -> _Size:
    if isinstance(size, str):
        _check_name(kind, size)
    elif size is not None and (not isinstance(size, int) or size < 1):
        raise ArgumentError(f"{kind}: expected a number above 0 or a mesh axis, found {size!r}")
    return size


class Mesh:
    """Devices in a grid with named axes, outermost first: `Mesh("pod", node=2, gpu=4)`.

    A size of None is that of the world, or of `compile(mesh=...)`. Ranks are in row-major order, or as in `devices`
    (one rank per device, row-major).

    `mesh["x", None]` are axes of a tensor of two dimensions: the first is split over the devices of axis x, the second
    is not split. Entries are the name of an axis, digits (`didx("x") * loop(2)`) or None.
    """

    def __init__(self, name: str = "mesh", *, devices: Sequence[int] | None = None, **axes: int | None) -> None:
        _check_name("mesh", name)
        if not axes:
            raise ArgumentError("mesh: expected at least one axis, such as x=4")
        for axis in axes:
            _check_name("mesh axis", axis)
        self.name = name
        self.sizes: dict[str, int | None] = {axis: None if size is None else _integer(f"mesh axis {axis}", size, 1) for axis, size in axes.items()}
        self.devices: tuple[int, ...] | None = None if devices is None else tuple(
            _integer("mesh: devices", one, 0) for one in _sequence("mesh: devices", devices, "ranks such as [1, 0]"))

    def __getitem__(self, dims: Dim | tuple[Dim, ...]) -> Axes:
        return self.axes(*(dims if isinstance(dims, tuple) else (dims,)))

    def axes(self, *dims: Dim, partial: str | Sequence[str] = (), op: str = "sum") -> Axes:
        """Axes of a tensor with one entry of `dims` per dimension. `partial`: the mesh axes (a name or several) along
        which each device holds one term of a sum (or `op="max"`, `"min"`)."""
        names = (partial,) if isinstance(partial, str) else _sequence("axes: partial", partial, "names of mesh axes")
        return Axes(self, dims, names, op)

    def _key(self) -> tuple:
        return self.name, tuple(self.sizes.items()), self.devices

    def __eq__(self, other: object) -> bool:  # a notebook runs a cell twice
        return isinstance(other, Mesh) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"Mesh({self.name!r}, {', '.join(f'{axis}={size}' for axis, size in self.sizes.items())})"

    def _sized(self, sizes: Mapping[str, int | None]) -> dict[str, int | None]:
        """The same mesh with the sizes given for axes that are None."""
        known = {axis: sizes.get(f"{self.name}.{axis}", sizes.get(axis)) if size is None else size
                 for axis, size in self.sizes.items()}
        return known

    def _text(self, sizes: Mapping[str, int | None]) -> str:
        parts = ", ".join(f'"{axis}" = {"?" if size is None else size}' for axis, size in self._sized(sizes).items())
        devices = "" if self.devices is None else f", devices = [{', '.join(map(str, self.devices))}]"
        return f'#tandem.mesh<"{self.name}", [{parts}]{devices}>'


class Axes:
    """How each dimension of a tensor is parallelised over a mesh; see Mesh."""

    def __init__(self, mesh: Mesh, dims: Sequence[Dim], partial: Sequence[str] = (), op: str = "sum") -> None:
        digits = []
        for dim in dims:
            if dim is None:
                digits.append(Digit())
            elif isinstance(dim, str):
                digits.append(didx(dim))
            elif isinstance(dim, Digit):
                digits.append(dim)
            else:
                raise ArgumentError(f"axes: expected None, the name of a mesh axis or digits, found {dim!r}")
        named = [size for digit in digits for _, size in digit.factors if isinstance(size, str)]
        for axis in (*named, *partial):
            if axis not in mesh.sizes:
                raise ArgumentError(f"axes: expected an axis of {mesh!r}, found {axis!r}")
        split = [*(size for digit in digits for kind, size in digit.factors if kind == "didx"), *partial]
        for twice in split:
            if split.count(twice) > 1:
                raise ArgumentError(f"axes: expected axis {twice!r} to split one dimension, found it twice")
        if op not in ("sum", "max", "min"):
            raise ArgumentError(f"axes: expected sum, max or min, found {op!r}")
        self.mesh, self.digits, self.partial, self.op = mesh, tuple(digits), tuple(partial), op

    def _key(self) -> tuple:
        return self.mesh, self.digits, self.partial, self.op

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Axes) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return self._text()

    def _text(self) -> str:
        partial = ""
        if self.partial:
            kind = "" if self.op == "sum" else self.op + " "
            partial = f", partial = {kind}[{', '.join(f'{chr(34)}{axis}{chr(34)}' for axis in self.partial)}]"
        return f"#fusion.axes<#{self.mesh.name}, [{', '.join(map(str, self.digits))}]{partial}>"

    def _devices(self, dim: int, sizes: Mapping[str, int]) -> int:
        """Over how many devices a dimension is split."""
        count = 1
        for kind, size in self.digits[dim].factors:
            if kind == "didx":
                count *= sizes[str(size)]
        return count


class TensorType:
    """The type of an argument: `TensorType("f32", (None, 64), mesh["x", None])`.

    `shape` is the logical (global) one; a dimension of None has the extent that a call or `compile(shapes=...)` gives
    it. `dtype` is one of f32, f16, bf16, f8E4M3FN, f8E5M2, f64, i64, i32, i16, i8, i1, or one of NumPy or torch.
    """

    def __init__(self, dtype: DType, shape: Sequence[int | None], axes: Axes) -> None:
        if not isinstance(axes, Axes):
            raise ArgumentError(f"expected axes such as mesh[\"x\", None], found {axes!r}")
        shape = _sequence("shape", shape, "extents such as (None, 64)")
        if len(shape) != len(axes.digits):
            raise ArgumentError(f"expected axes with one entry per dimension: {len(shape)}, found {len(axes.digits)}")
        self.dtype, self.axes = dtype_name(dtype), axes
        self.shape: tuple[int | None, ...] = tuple(None if extent is None else _integer("shape", extent, 0) for extent in shape)

    def __repr__(self) -> str:
        return f"TensorType({self.dtype!r}, {self.shape}, {self.axes!r})"
