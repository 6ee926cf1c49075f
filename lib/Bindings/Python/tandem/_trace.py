# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Symbolic tensors: a Python function that computes with them is written down as a fusion."""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, Optional, Union

from ._errors import ArgumentError
from ._mesh import BITS, DTYPES, Axes, DType, _integer, _sequence, dtype_name
from ._tandem import shapes

_LARGEST_FP8 = {"f8E4M3FN": 448.0, "f8E5M2": 57344.0}
_FP8 = tuple(_LARGEST_FP8)
_FLOATS = ("f32", "f16", "bf16", "f64", *_FP8)

Operand = Union["Value", float]  # numbers are repeated
Dims = Union[None, int, Sequence[int]]  # None: all
Schedule = Union[str, Mapping[str, Any], tuple[Optional[str], Mapping[str, Any]]]
Place = tuple[str, int, int]  # file, line, column

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def _caller() -> Place:
    """(file, line, column) of the innermost frame outside of this package."""
    frame: Any = sys._getframe(1)
    while frame and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    if frame is None:
        return "", 0, 0
    column = 1
    if hasattr(frame.f_code, "co_positions"):  # Python 3.11
        for index, (_, _, start, _) in enumerate(frame.f_code.co_positions()):
            if index == frame.f_lasti // 2:
                column = (start or 0) + 1
                break
    return frame.f_code.co_filename, frame.f_lineno, column


class Value:
    """A tensor whose elements are not known yet: an argument of a traced function, or the result of an operation.

    `shape` and `dtype` are the logical ones. Operators follow NumPy: `@`, `+`, `-`, `*`, `/`, `**`, comparisons,
    indexing by slices; scalars and dimensions of extent 1 are repeated. Both operands have the same dtype.
    """

    __array_priority__ = 1000  # operators of NumPy arrays give way

    def __init__(self, op: str, operands: Sequence[Value], shape: Sequence[int], dtype: str, axes: Axes | None = None, **details: Any) -> None:
        if dtype and dtype not in DTYPES:  # the results of a call have theirs
            raise ArgumentError(f"{op}: expected a dtype of {', '.join(DTYPES)}, found {dtype!r}")
        self.op, self.operands, self.dtype, self.axes = op, list(operands), dtype, axes
        self.shape: tuple[int, ...] = tuple(_integer(f"{op}: shape", extent, 0) for extent in _sequence(op, shape, "extents such as (8, 64)"))
        self.details, self.place = details, _caller()

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def T(self) -> Value:
        """The last two dimensions exchanged."""
        if self.ndim < 2:
            raise ArgumentError(f"T: expected at least two dimensions, found {self!r}")
        return self.permute(*range(self.ndim - 2), self.ndim - 1, self.ndim - 2)

    def __repr__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"

    def __bool__(self) -> NoReturn:
        raise ArgumentError("the value of a traced tensor is not known: use tandem.where in place of a condition")

    def __iter__(self) -> NoReturn:
        raise TypeError("a traced tensor cannot be iterated over")

    def __matmul__(self, other: Value) -> Value:
        return matmul(self, other)

    def __add__(self, other: Operand) -> Value:
        return _arith("add", self, other)

    def __radd__(self, other: Operand) -> Value:
        return _arith("add", other, self)

    def __sub__(self, other: Operand) -> Value:
        return _arith("sub", self, other)

    def __rsub__(self, other: Operand) -> Value:
        return _arith("sub", other, self)

    def __mul__(self, other: Operand) -> Value:
        return _arith("mul", self, other)

    def __rmul__(self, other: Operand) -> Value:
        return _arith("mul", other, self)

    def __truediv__(self, other: Operand) -> Value:
        return _arith("div", *_as_floats(self, other))

    def __rtruediv__(self, other: Operand) -> Value:
        return _arith("div", *_as_floats(other, self))

    def __floordiv__(self, other: Operand) -> Value:
        return _floor_div(self, other)

    def __rfloordiv__(self, other: Operand) -> Value:
        return _floor_div(other, self)

    def __pow__(self, other: Operand) -> Value:
        if not isinstance(other, Value) and other == 2:
            return self * self
        return _elementwise("math.powf", *_alike("**", self, other))

    def __neg__(self) -> Value:
        return _elementwise("arith.negf", self) if self.dtype in _FLOATS else 0 - self

    __hash__ = object.__hash__  # a key is the value itself, whatever `==` builds

    def __eq__(self, other: Operand) -> Value:  # type: ignore[override]
        return _compare("==", self, other)

    def __ne__(self, other: Operand) -> Value:  # type: ignore[override]
        return _compare("!=", self, other)

    def __lt__(self, other: Operand) -> Value:
        return _compare("<", self, other)

    def __le__(self, other: Operand) -> Value:
        return _compare("<=", self, other)

    def __gt__(self, other: Operand) -> Value:
        return _compare(">", self, other)

    def __ge__(self, other: Operand) -> Value:
        return _compare(">=", self, other)

    def __getitem__(self, index: Any) -> Value:
        index = index if isinstance(index, tuple) else (index,)
        dots = [at for at, part in enumerate(index) if part is Ellipsis]  # `in` would compare traced tensors
        if dots:
            at = dots[0]
            index = index[:at] + (slice(None),) * (self.ndim - len(index) + 1) + index[at + 1:]
        if len(index) > self.ndim:
            raise ArgumentError(f"index: expected at most {self.ndim} dimensions, found {len(index)}")
        offsets, steps, shape, kept = [], [], [], []
        for dim, extent in enumerate(self.shape):
            part = index[dim] if dim < len(index) else slice(None)
            if isinstance(part, int):
                if not -extent <= part < extent:
                    raise ArgumentError(f"index: expected a number below {extent}, found {part}")
                part = slice(part % extent, part % extent + 1)
            elif isinstance(part, slice):
                kept.append(dim)
            else:
                raise ArgumentError(f"index: expected numbers and slices, found {part!r}")
            chosen = range(extent)[part]
            if chosen.step < 0:
                raise ArgumentError("index: expected a positive step")
            offsets.append(chosen.start if len(chosen) else 0)
            steps.append(chosen.step)
            shape.append(len(chosen))
        if len(kept) == self.ndim and tuple(shape) == self.shape:
            return self
        part = Value("fusion.slice", [self], shape, self.dtype, offsets=offsets, steps=steps)
        return part if len(kept) == self.ndim else part.reshape(*(shape[dim] for dim in kept))

    def reshape(self, *shape: int | Sequence[int]) -> Value:
        """The same elements in another shape; one extent may be -1. Dimensions split and merge."""
        extents = _inferred("reshape", [self], shapes.reshape(self.shape, _extents("reshape", shape, -1)))
        return self if tuple(extents) == self.shape else Value("fusion.reshape", [self], extents, self.dtype)

    def permute(self, *order: int | Sequence[int]) -> Value:
        """Dimension i of the result is dimension order[i]."""
        dims = _extents("permute", order, 0)
        shape = _inferred("permute", [self], shapes.permute(self.shape, dims))
        return Value("fusion.permute", [self], shape, self.dtype, order=dims)

    def broadcast_to(self, *shape: int | Sequence[int]) -> Value:
        """Repeated as in NumPy."""
        extents = _extents("broadcast_to", shape, 0)
        if tuple(extents) == self.shape:
            return self
        dims = list(range(len(extents) - self.ndim, len(extents)))
        _inferred("broadcast_to", [self], shapes.broadcast_to(self.shape, extents, dims))
        return Value("fusion.broadcast", [self], extents, self.dtype, dims=dims)

    def sum(self, axis: Dims = None, keepdims: bool = False) -> Value:
        """The sum over dimensions; all if `axis` is None."""
        return _reduce("sum", self, axis, keepdims)

    def max(self, axis: Dims = None, keepdims: bool = False) -> Value:
        """The maximum over dimensions."""
        return _reduce("max", self, axis, keepdims)

    def min(self, axis: Dims = None, keepdims: bool = False) -> Value:
        """The minimum over dimensions."""
        return _reduce("min", self, axis, keepdims)

    def mean(self, axis: Dims = None, keepdims: bool = False) -> Value:
        """The mean over dimensions."""
        count = math.prod(self.shape[dim] for dim in _dims(self, axis))
        return self.sum(axis, keepdims) * (1.0 / count)

    def astype(self, dtype: DType) -> Value:
        """tandem.cast."""
        return cast(self, dtype)

    def reshard(self, axes: Axes, *, schedule: str | None = None, **options: Any) -> Value:
        """tandem.reshard."""
        return reshard(self, axes, schedule=schedule, **options)


def _extents(what: str, given: Sequence[Any], least: int) -> list[int]:
    given = given[0] if len(given) == 1 and isinstance(given[0], (tuple, list)) else given
    return [_integer(what, extent, least) for extent in given]


def _inferred(what: str, operands: Sequence[Value], inferred: tuple[Sequence[int], str]) -> Sequence[int]:
    """The shape that the op infers."""
    shape, error = inferred
    if error:
        raise ArgumentError(f"{what}({', '.join(map(repr, operands))}): {error}")
    return shape


def _dims(value: Value, axis: Dims) -> list[int]:
    dims: Sequence[Any] = range(value.ndim) if axis is None else axis if isinstance(axis, (tuple, list)) else (axis,)
    for dim in dims:
        if not isinstance(dim, int) or not -value.ndim <= dim < value.ndim:
            raise ArgumentError(f"expected a dimension of {value!r}, found {dim!r}")
    return sorted({dim % value.ndim for dim in dims})


def _value(what: str, given: Any) -> Value:
    if not isinstance(given, Value):
        raise ArgumentError(f"{what}: expected a traced tensor, found {type(given).__name__}")
    return given


def _constant(number: float, like: Value) -> Value:
    return Value("constant", [], like.shape, like.dtype, number=number)


def _alike(what: str, *values: Operand) -> list[Value]:
    """The operands in one shape: scalars and extents of 1 are repeated."""
    tensors = [value for value in values if isinstance(value, Value)]
    if not tensors:
        _value(what, values[0])
    first = tensors[0]
    for value in values:
        if not isinstance(value, (Value, int, float, bool)):
            raise ArgumentError(f"{what}: expected traced tensors and numbers, found {type(value).__name__}")
        if isinstance(value, int) and value.bit_length() > 64:
            raise ArgumentError(f"{what}: expected a number that fits {first.dtype}, found one of {value.bit_length()} bits")
        if isinstance(value, Value) and value.dtype != first.dtype:
            raise ArgumentError(f"{what}: expected operands of one dtype, found {first!r} and {value!r}: use astype")
    shape: Sequence[int] = []
    for value in tensors:
        shape = _inferred(what, tensors, shapes.broadcast(shape, value.shape, "extents"))
    wide = [value.broadcast_to(*shape) if isinstance(value, Value) else value for value in values]
    like = next(value for value in wide if isinstance(value, Value))
    return [value if isinstance(value, Value) else _constant(value, like) for value in wide]


def _elementwise(op: str, *operands: Value, dtype: str | None = None, **details: Any) -> Value:
    return Value(op, operands, operands[-1].shape, dtype or operands[-1].dtype, elementwise=True, **details)


def _as_floats(*given: Operand) -> list[Operand]:
    """Integers and truth values as f64: NumPy divides them so."""
    return [cast(value, "f64") if isinstance(value, Value) and value.dtype not in _FLOATS else value for value in given]


def _floor_div(*given: Operand) -> Value:
    a, b = _alike("//", *given)
    if a.dtype in _FLOATS:
        return _elementwise("math.floor", a / b)
    quotient = _arith("div", a, b)  # towards zero
    rest, less = a - quotient * b, quotient - 1
    return where(rest < 0, where(b > 0, less, quotient), where(rest > 0, where(b < 0, less, quotient), quotient))


def _arith(name: str, *given: Operand) -> Value:
    values = _alike(name, *given)
    if values[0].dtype == "i1":
        raise ArgumentError(f"{name}: expected numbers, found truth values: use astype, or tandem.where")
    suffix = "f" if values[0].dtype in _FLOATS else "si" if name == "div" else "i"
    return _elementwise(f"arith.{name}{suffix}", *values)


#: Of floats and of integers. NaN differs from everything, and is neither less nor greater.
_PREDICATES = {"==": ("oeq", "eq"), "!=": ("une", "ne"), "<": ("olt", "slt"), "<=": ("ole", "sle"), ">": ("ogt", "sgt"), ">=": ("oge", "sge")}


def _compare(name: str, *given: Operand) -> Value:
    values = _alike(name, *given)
    if values[0].dtype == "i1":  # true, which is -1 with a sign, is more than false
        values = [cast(value, "i8") for value in values]
    is_float = values[0].dtype in _FLOATS
    return _elementwise(f"arith.cmp{'f' if is_float else 'i'}", *values, dtype="i1", predicate=_PREDICATES[name][not is_float])


def _reduce(kind: str, value: Value, axis: Dims, keepdims: bool) -> Value:
    dims = _dims(value, axis)
    shape = _inferred(kind, [value], shapes.reduce(value.shape, dims, bool(keepdims)))
    return Value("fusion.reduce", [value], shape, value.dtype, kind=kind, dims=dims, keepdims=keepdims)


def matmul(a: Value, b: Value, *, bias: Value | None = None, transpose_a: bool = False, transpose_b: bool = False,
           dtype: DType | None = None, gather: str | None = None, schedule: Schedule | None = None) -> Value:
    """`a[..., M, K] @ b[..., K, N] (+ bias[N])` as in NumPy, accumulated in f32.

    Args:
        a, b: The factors; they may be vectors. One may be f8E4M3FN and the other f8E5M2.
        bias: Added to each row.
        transpose_a, transpose_b: Whether the last two dimensions are exchanged.
        dtype: Of the product. "f32": that of f16 or bf16 factors is not rounded. FP8 factors: f32 (default), f16 or bf16.
        gather: "before" or "after", on which side of the product its operand is gathered; "cost": where it costs less.
        schedule: Of the reshards: a name, choices such as {"by": "messages"}, or ("NAME", {"streams": 2}) (docs/schedules.md). Default: the compiler chooses.

    Returns:
        The product. ArgumentError if shapes or dtypes do not fit.

    Example:
        y = tandem.matmul(x, w, bias=b, transpose_b=True)
    """
    a, b = _value("matmul", a), _value("matmul", b)
    dtype = _product_dtype("matmul", a, b, dtype)
    a, transpose_a = _without_transpose(a, transpose_a)
    b, transpose_b = _without_transpose(b, transpose_b)
    operands = [a, b] if bias is None else [a, b, _value("matmul: bias", bias)]
    shape = _inferred("matmul", operands, shapes.matmul(a.shape, b.shape, bool(transpose_a), bool(transpose_b), None if bias is None else bias.shape))
    if bias is not None and bias.dtype != dtype:
        raise ArgumentError(f"matmul: expected a bias of {dtype}, found {bias!r}")
    return Value("fusion.matmul", operands, shape, dtype, transpose_a=transpose_a, transpose_b=transpose_b,
                 attributes=_annotations(gather, schedule))


def _product_dtype(what: str, a: Value, b: Value, dtype: DType) -> str:
    """Of the product of a and b, as wanted or by default."""
    dtype = dtype_name(dtype, f"{what}: ") if dtype else shapes.product_type(a.dtype)
    error = shapes.product_error(a.dtype, b.dtype, dtype)
    if error:
        raise ArgumentError(f"{what}: {error}")
    return dtype


def scaled_matmul(a: Value, b: Value, scale_a: Value, scale_b: Value, *, bias: Value | None = None, transpose_a: bool = False,
                  transpose_b: bool = False, dtype: DType = "bf16", scale_result: Value | None = None, gather: str | None = None,
                  schedule: Schedule | None = None) -> Value:
    """`(a @ b) * scale_a * scale_b (+ bias) (* scale_result)`, computed in f32 and rounded to `dtype`, as torch's `_scaled_mm`.

    Args:
        a, b: Two matrices.
        scale_a: f32[], or f32[M] for the rows of the result.
        scale_b: f32[], or f32[N] for its columns.
        bias: f32[N].
        dtype: Of the result: f32, f16, bf16, or one of FP8, which is saturated.
        scale_result: f32[], for FP8: 448 / (the largest number to expect).
        transpose_a, transpose_b, gather, schedule: Those of `matmul`.

    Returns:
        The product. ArgumentError if shapes or dtypes do not fit.

    Example:
        y = tandem.scaled_matmul(x, w, scale_x, scale_w, dtype="bf16")
    """
    dtype = dtype_name(dtype, "scaled_matmul: ")
    if dtype not in ("f32", "f16", "bf16", *_FP8):
        raise ArgumentError(f"scaled_matmul: expected a result of f32, f16, bf16 or 8-bit floats, found {dtype!r}")
    product = matmul(a, b, transpose_a=transpose_a, transpose_b=transpose_b, dtype="f32", gather=gather, schedule=schedule)
    if product.ndim != 2:
        raise ArgumentError(f"scaled_matmul: expected matrices, found {a!r} and {b!r}")
    for dim, (name, scale) in enumerate((("scale_a", scale_a), ("scale_b", scale_b))):
        scale = _value(f"scaled_matmul: {name}", scale)
        if scale.dtype != "f32" or scale.shape not in ((), product.shape[dim:dim + 1]):
            raise ArgumentError(f"scaled_matmul: expected {name} of f32[] or f32[{product.shape[dim]}], found {scale!r}")
        product = product * Value("fusion.broadcast", [scale], product.shape, "f32", dims=[dim] if scale.ndim else [])
    if bias is not None:
        product = product + _value("scaled_matmul: bias", bias)
    if scale_result is not None:
        scale = _value("scaled_matmul: scale_result", scale_result)
        if scale.dtype != "f32" or scale.ndim:
            raise ArgumentError(f"scaled_matmul: expected scale_result of f32[], found {scale!r}")
        product = product * Value("fusion.broadcast", [scale], product.shape, "f32", dims=[])
    return round_to(product, dtype)


def round_to(value: Value, dtype: str) -> Value:
    """cast to floats; those of 8 bits are saturated, and NaN stays NaN."""
    if dtype in _FP8:
        value = maximum(minimum(value, _LARGEST_FP8[dtype]), -_LARGEST_FP8[dtype])
    return cast(value, dtype)


def _without_transpose(value: Value, transposed: bool) -> tuple[Value, bool]:
    """The operand of a permutation of the last two dimensions."""
    if value.op == "fusion.permute" and value.ndim >= 2 and value.axes is None:
        count = value.ndim
        if value.details["order"] == [*range(count - 2), count - 1, count - 2]:
            return value.operands[0], not transposed
    return value, transposed


def _annotations(gather: str | None, schedule: Schedule | None) -> list[str]:
    attributes = []
    if gather is not None:
        if gather not in ("before", "after", "cost"):
            raise ArgumentError(f"gather: expected before, after or cost, found {gather!r}")
        attributes.append(f'fusion.gather = "{gather}"')
    if schedule is not None:
        attributes.append(f"fusion.schedule = {_schedule(schedule)}")
    return attributes


def _schedule(schedule: Any) -> str:
    pair = schedule if isinstance(schedule, tuple) else (None, schedule) if isinstance(schedule, Mapping) else (schedule, {})
    name, options = pair if len(pair) == 2 and isinstance(pair[1], Mapping) else ("", {})
    options = {key: str(list(value)) if isinstance(value, (list, tuple)) else value for key, value in options.items()}
    parts = [*([] if name is None else [name]), *options.values()]
    if not parts or not all(isinstance(one, (str, int)) and re.fullmatch(r'[\w-]+|"[\w-]+"|\[\d+(, \d+)*\]', str(one)) for one in parts) \
            or not isinstance(name, (str, type(None))):  # written into the program as they are
        raise ArgumentError(f'schedule: expected a name, or a name and options such as ("NAME", {{"streams": 2}}), '
                            f"found {schedule!r}")
    return f"#fusion.schedule<{', '.join([*([] if name is None else [name]), *(f'{key} = {value}' for key, value in options.items())])}>"


def reshard(value: Value, axes: Axes, *, schedule: str | None = None, **options: Any) -> Value:
    """The same value with other axes: what communicates.

    Args:
        value: A traced tensor.
        axes: Its new axes, one entry per dimension.
        schedule: How it communicates (docs/schedules.md). Default: the compiler chooses.
        options: Those of the schedule, or the choices that stand for it.

    Returns:
        The value with these axes.

    Example:
        whole = tandem.reshard(x, tp[None, None])
    """
    value = _value("reshard", value)
    if not isinstance(axes, Axes):
        raise ArgumentError(f"reshard: expected axes such as mesh[\"x\", None], found {axes!r}")
    if len(axes.digits) != value.ndim:
        raise ArgumentError(f"reshard: expected axes of {value.ndim} dimensions, found {axes!r}")
    attributes = [f"schedule = {_schedule((schedule, options))}"] if schedule is not None or options else []
    return Value("fusion.reshard", [value], value.shape, value.dtype, axes, attributes=attributes)


def concat(values: Sequence[Value], axis: int = 0) -> Value:
    """The tensors, of one dtype, one after another along dimension `axis`."""
    values = [_value("concat", value) for value in _sequence("concat", values, "a list of traced tensors")]
    if not values:
        raise ArgumentError("concat: expected at least one tensor")
    axis = _dims(values[0], axis)[0]
    if any(value.dtype != values[0].dtype for value in values):
        raise ArgumentError(f"concat: expected tensors of one dtype, found {', '.join(map(repr, values))}")
    shape = _inferred("concat", values, shapes.concat([value.shape for value in values], axis))
    return Value("fusion.concat", values, shape, values[0].dtype, dim=axis)


def grouped_matmul(x: Value, w: Value, ends: Value, *, transpose_b: bool = False, dtype: DType | None = None,
                   gather: str | None = None, schedule: Schedule | None = None) -> Value:
    """The product of each row of `x` with the matrix of its group in `w` (docs/operators.md).

    Args:
        x: `[..., M, K]` of f32, f16, bf16 or FP8; rows are sorted by group.
        w: `[G, K, N]`.
        ends: `[..., G]` (i32), where each group ends, as `offs` of `torch._grouped_mm`. Rows from the last end on give 0.
            Values are clamped to the previous end and M.
        transpose_b: Whether w is `[G, N, K]`.
        dtype, gather, schedule: Those of `matmul`.

    Returns:
        `[..., M, N]`. ArgumentError if shapes or dtypes do not fit.

    Example:
        y = tandem.grouped_matmul(tokens, experts, ends)
    """
    for one in (x, w, ends):
        _value("grouped_matmul", one)
    w, transpose_b = _without_transpose(w, transpose_b)
    if x.dtype == "f64" or ends.dtype != "i32":
        raise ArgumentError(f"grouped_matmul: expected factors of f32, f16, bf16 or 8 bits and ends of i32, "
                            f"found {x!r}, {w!r} and {ends!r}")
    dtype = _product_dtype("grouped_matmul", x, w, dtype)
    operands = [x, w, ends]
    shape = _inferred("grouped_matmul", operands, shapes.grouped_matmul(x.shape, w.shape, ends.shape, bool(transpose_b)))
    return Value("fusion.grouped_matmul", operands, shape, dtype,
                 attributes=(["transpose_b"] if transpose_b else []) + _annotations(gather, schedule))


def attention(query: Value, key: Value, value: Value, *, scale: float | None = None, causal: bool = False,
              zigzag: int | None = None) -> Value:
    """softmax(scale * query @ key.T) @ value (docs/operators.md).

    Args:
        query, key, value: `[batch, sequence, D]` of one dtype.
        scale: Default: 1 / sqrt(D).
        causal: Whether a query sees only the keys up to its place.
        zigzag: Over how many devices the sequence is split in zigzag order, which balances causal attention.

    Returns:
        `[batch, sequence of the queries, D of the values]`.

    Example:
        y = tandem.attention(q, k, v, causal=True)
    """
    for one in (query, key, value):
        _value("attention", one)
    if scale is not None and not isinstance(scale, (int, float)):
        raise ArgumentError(f"attention: scale: expected a number, found {scale!r}")
    attributes = [f"scale = {float(scale)!r} : f64"] if scale is not None else []
    attributes += ["causal"] if causal else []
    attributes += [f"zigzag = {_integer('attention: zigzag', zigzag, 1)} : i64"] if zigzag is not None else []
    operands = [query, key, value]
    shape = _inferred("attention", operands, shapes.attention(*(one.shape for one in operands), bool(causal), scale, zigzag))
    return Value("fusion.attention", operands, shape, query.dtype, attributes=attributes)


def cast(value: Value, dtype: DType) -> Value:
    """The value in another dtype, as NumPy: floats are rounded to nearest, and towards zero to integers; truth values
    become 0 and 1; what is not 0 becomes true."""
    value, dtype = _value("astype", value), dtype_name(dtype, "astype: ")
    old = value.dtype
    if old == dtype:
        return value
    if dtype == "i1":
        return value != 0
    if old in _FLOATS and dtype in _FLOATS:
        if BITS[old] == BITS[dtype]:
            return cast(cast(value, "f32"), dtype)
        op = "arith.extf" if BITS[old] < BITS[dtype] else "arith.truncf"
    elif old in _FLOATS:
        op = "arith.fptosi"
    elif dtype in _FLOATS:
        op = "arith.uitofp" if old == "i1" else "arith.sitofp"
    else:
        op = "arith.trunci" if BITS[old] > BITS[dtype] else "arith.extui" if old == "i1" else "arith.extsi"
    return _elementwise(op, value, dtype=dtype, source=old)


def where(condition: Value, a: Operand, b: Operand) -> Value:
    """`a` where the condition is true, else `b`."""
    condition = _value("where", condition)
    if condition.dtype != "i1":
        raise ArgumentError(f"where: expected a condition of i1, found {condition!r}")
    if not isinstance(a, Value) and not isinstance(b, Value):
        raise ArgumentError("where: expected a traced tensor among its alternatives")
    a, b = _alike("where", a, b)
    if condition.shape != a.shape:
        raise ArgumentError(f"where: expected one shape, found {condition!r} and {a!r}")
    return _elementwise("arith.select", condition, a, b)


def maximum(a: Operand, b: Operand) -> Value:
    """The larger of each two elements."""
    a, b = _alike("maximum", a, b)
    return _elementwise("arith.maximumf" if a.dtype in _FLOATS else "arith.maxsi", a, b)


def minimum(a: Operand, b: Operand) -> Value:
    """The smaller of each two elements."""
    a, b = _alike("minimum", a, b)
    return _elementwise("arith.minimumf" if a.dtype in _FLOATS else "arith.minsi", a, b)
