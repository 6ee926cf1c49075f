# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels of the caller: `call` in a fusion, and what a context runs for it (docs/kernels.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable, overload

from . import _tandem
from ._emit import _quoted
from ._errors import ArgumentError
from ._mesh import BITS, DType, _integer, dtype_name
from ._tandem import Context
from ._trace import Value, _value

# Of the array interface, which has no bf16 and no floats of 8 bits: their bits.
_KINDS = {"i1": "b", "bf16": "u", "f8E4M3FN": "u", "f8E5M2": "u"}


class KernelOperand:
    """A part of a tensor, valid during the call. `numpy.asarray(operand)` is a view of it (on a GPU
    `cupy.asarray(operand)`); bf16 is seen as its bits, uint16, floats of 8 bits as uint8.

    dtype, shape, strides (in elements), offset (the part's first index in the whole tensor), extent (the whole
    tensor's shape).
    """

    def __init__(self, address: int, dtype: str, shape: tuple[int, ...], strides: tuple[int, ...], offset: tuple[int, ...],
                 extent: tuple[int, ...], is_host: bool) -> None:
        self.address, self.dtype, self.shape, self.strides = address, dtype, shape, strides
        self.offset, self.extent = offset, extent
        size = max(BITS[dtype] // 8, 1)
        name = f"{'<' if size > 1 else '|'}{_KINDS.get(dtype, dtype[0])}{size}"
        interface = {"data": (address, False), "shape": shape, "typestr": name, "version": 3,
                     "strides": tuple(stride * size for stride in strides)}
        if is_host:
            self.__array_interface__ = interface
        else:
            self.__cuda_array_interface__ = interface

    def __repr__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


class KernelCall:
    """What a kernel gets: name, config, stream (a cudaStream_t as a number; 0 on the CPU), results and inputs, which
    are lists of KernelOperand."""

    def __init__(self, name: str, config: str, stream: int, results: list[KernelOperand], inputs: list[KernelOperand]) -> None:
        self.name, self.config, self.stream, self.results, self.inputs = name, config, stream, results, inputs


def _invoke(function: Callable[[KernelCall], Any], name: str, config: str, stream: int, operands: Sequence[tuple], num_results: int,
            is_host: bool) -> None:
    made = [KernelOperand(*(*operand, is_host)) for operand in operands]
    function(KernelCall(name, config, stream, made[:num_results], made[num_results:]))


def register_kernel(name: str, function: Callable[[KernelCall], Any] | None = None, *, image: str | bytes | None = None,
                    entry: str | None = None, threads: int = 128, indices_per_block: int = 1, context: Context | None = None) -> None:
    """Says what `tandem.call(name, ...)` runs in a context. Before the first run of a program that calls it, on each rank;
    one of the same name replaces it for later programs.

    Args:
        name: That of the call.
        function: Computes `call.results` from `call.inputs` (a KernelCall). On a GPU it enqueues on `call.stream`, and is not
            called again when a graph is replayed. An exception in it is raised by the call that waits for the run.
        image: Instead of a function, PTX or a cubin. Its parameters are the operands, each a `tandem_kernel_operand` of
            tandem-c/Kernel.h by value.
        entry: The kernel in the image.
        threads: Of a block of the image's kernel.
        indices_per_block: Of the parallel dimensions.
        context: Default: the current one.

    Example:
        tandem.register_kernel("scale", lambda call: numpy.multiply(call.inputs[0], 2, out=numpy.asarray(call.results[0])))
    """
    context = context or _tandem.current_context()
    if context is None:
        raise ArgumentError("register_kernel: expected a context, found none: enter one, or call tandem.init")
    if not isinstance(name, str):
        raise ArgumentError(f"register_kernel: expected a name, found {name!r}")
    if (function is None) == (image is None) or not (function is None or callable(function)) or \
            not isinstance(image, (str, bytes, type(None))):
        raise ArgumentError("register_kernel: expected a function or an image (str or bytes), "
                            f"found {function if image is None else image!r}")
    if image is not None and not (entry and isinstance(entry, str)):
        raise ArgumentError("register_kernel: expected the entry of the image")
    threads, indices_per_block = _integer("threads", threads, 1), _integer("indices_per_block", indices_per_block, 1)
    image = image.encode() if isinstance(image, str) else image or b""
    _tandem.register_kernel(context, name, function, image, entry or "", threads, indices_per_block)


_Type = tuple[DType, Sequence[int]]


@overload
def call(kernel: str, *operands: Value, dims: str, results: _Type, config: str = "", flops: float | None = None,
         bytes: float | None = None, strided: bool = False, effects: str | None = None) -> Value: ...
@overload
def call(kernel: str, *operands: Value, dims: str, results: list[_Type], config: str = "", flops: float | None = None,
         bytes: float | None = None, strided: bool = False, effects: str | None = None) -> tuple[Value, ...]: ...
def call(kernel: Any, *operands: Value, dims: Any, results: Any, config: Any = "", flops: Any = None, bytes: Any = None,
         strided: bool = False, effects: Any = None) -> Any:
    """Runs a kernel of the caller on this rank's parts; `register_kernel` says what it is.

    Args:
        kernel: Its name.
        operands: Traced tensors.
        dims: One character per dimension of each operand and, after "->", of each result. A letter is a dimension whose
            indices are computed independently, the same in all tensors; "_" is needed whole. "s_, _ -> s_": a norm of rows
            with a weight; "bs_, b__, b__ -> bs_, bs": attention that also returns its log-sum-exp.
        results: (dtype, shape), or a list of them.
        config: What the kernel gets as `call.config`.
        flops, bytes: Its cost for one index of each letter.
        strided: Whether it takes any strides; else parts are copied to be dense.
        effects: "reads" (memory of the caller that only "writes" kernels change) or "writes" (calls run in order, one per
            device and run).

    Returns:
        The result; a tuple if `results` is a list. Calls of which no result is used are not traced.

    Example:
        y = tandem.call("scale", x, dims="s_ -> s_", results=("f32", x.shape))
    """
    single = isinstance(results, tuple)
    types = results if isinstance(results, list) else [results]
    for text in (dims, config, effects or ""):
        if not isinstance(text, str):
            raise ArgumentError(f"call: expected dims, config and effects as str, found {text!r}")
    for cost in (flops, bytes):
        if not isinstance(cost, (int, float, type(None))):
            raise ArgumentError(f"call: expected flops and bytes as numbers, found {cost!r}")
    for operand in operands:
        _value("call", operand)
    if not isinstance(kernel, str) or not kernel.isidentifier():
        raise ArgumentError(f"call: expected the name of a kernel, found {kernel!r}")
    if not types or not all(isinstance(one, tuple) and len(one) == 2 for one in types):
        raise ArgumentError(f"call: expected results as (dtype, shape), found {results!r}")
    types = [(dtype_name(dtype, "call: "), shape) for dtype, shape in types]
    attributes = [f"{key} = {_quoted(text)}" for key, text in (("config", config), ("effects", effects)) if text]
    attributes += [f"{key} = {float(cost)!r} : f64" for key, cost in (("flops", flops), ("bytes", bytes))
                   if cost is not None]
    attributes += ["strided"] if strided else []
    made = Value("fusion.call", operands, (), "", kernel=kernel, dims=dims, attributes=attributes)
    values = tuple(Value("result", [made], shape, dtype, number=number) for number, (dtype, shape) in enumerate(types))
    made.details["types"] = [(value.dtype, value.shape) for value in values]
    return values[0] if single else values
