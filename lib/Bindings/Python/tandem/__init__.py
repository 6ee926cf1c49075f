# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tandem overlaps communication with matmul. docs/python.md describes this package.

A fusion, a function whose tensors state how their dimensions are split over devices, is compiled to a stream program,
which runs on every rank with tensors of NumPy, torch, JAX or CuPy.
"""

from typing import TYPE_CHECKING, NoReturn

from ._context import Context, LocalWorld, hang_report, init, local_world
from ._errors import ArgumentError, CompileError, Diagnostic, Error, Timeout
from ._functions import absolute, cos, erf, exp, gelu, log, relu, rsqrt, sigmoid, silu, sin, softmax, sqrt, tanh
from ._kernels import KernelCall, KernelOperand, call, register_kernel
from ._mesh import Axes, Digit, Mesh, TensorType, didx, loop, serial
from ._program import Argument, CompileOptions, Fusion, LocalShard, MemoryNeeds, Program, compile, fuse, load
from ._report import CheckReport, Explanation, Report, Simulation
from ._tandem import Array, World, current_context
from ._tandem import version as __version__  # noqa: F401
from ._trace import Value, attention, cast, concat, grouped_matmul, matmul, maximum, minimum, reshard, scaled_matmul, where
from ._tune import tune

__all__ = ["Argument", "ArgumentError", "Array", "Axes", "CheckReport", "CompileError", "CompileOptions", "Context",
           "Diagnostic", "Digit", "Error", "Explanation", "Fusion", "KernelCall", "KernelOperand", "LocalShard",
           "LocalWorld", "MemoryNeeds", "Mesh", "Program", "Report", "Simulation", "TensorType", "Timeout", "Value",
           "World", "absolute", "attention", "call", "cast", "compile", "concat", "cos", "current_context", "didx",
           "erf", "exp", "fuse", "gelu", "grouped_matmul", "hang_report", "init", "load", "local_world", "log", "loop", "matmul",
           "maximum", "minimum", "register_kernel", "relu", "reshard", "rsqrt", "scaled_matmul", "serial", "sigmoid",
           "silu", "sin", "softmax", "sqrt", "tanh", "tune", "where"]

if not TYPE_CHECKING:  # type checkers take a module's __getattr__ to have every name
    def __getattr__(name: str) -> NoReturn:
        now = {"Shard": "LocalShard", "Tensor": "TensorType", "stream": "loop"}.get(name)
        raise AttributeError(f"module 'tandem' has no attribute {name!r}" + (f": its name is tandem.{now} now" if now else ""))
