# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Functions of each element of a traced tensor, and softmax."""

from __future__ import annotations

import math
from typing import Callable

from ._errors import ArgumentError
from ._trace import _FLOATS, Value, _elementwise, _value, maximum


def _unary(name: str, op: str, text: str) -> Callable[[Value], Value]:
    def function(value: Value) -> Value:
        value = _value(name, value)
        if value.dtype not in _FLOATS:
            raise ArgumentError(f"{name}: expected a floating-point dtype, found {value!r}")
        return _elementwise(op, value)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = text
    return function


exp = _unary("exp", "math.exp", "e to the power of each element.")
log = _unary("log", "math.log", "The natural logarithm of each element.")
sqrt = _unary("sqrt", "math.sqrt", "The square root of each element.")
rsqrt = _unary("rsqrt", "math.rsqrt", "1 / sqrt of each element.")
tanh = _unary("tanh", "math.tanh", "The hyperbolic tangent of each element.")
erf = _unary("erf", "math.erf", "The error function of each element.")
sin = _unary("sin", "math.sin", "The sine of each element.")
cos = _unary("cos", "math.cos", "The cosine of each element.")
absolute = _unary("absolute", "math.absf", "The absolute value of each element.")


def relu(value: Value) -> Value:
    """max(value, 0)."""
    return maximum(value, 0)


def sigmoid(value: Value) -> Value:
    """1 / (1 + exp(-value))."""
    return 1 / (1 + exp(-value))


def silu(value: Value) -> Value:
    """value * sigmoid(value), the activation of Llama's MLP."""
    return value / (1 + exp(-value))


def gelu(value: Value, *, approximate: str = "none") -> Value:
    """value * 0.5 * (1 + erf(value / sqrt(2))).

    Args:
        value: A traced tensor of floats.
        approximate: "tanh", as in torch: 1 + tanh(sqrt(2 / pi) * (value + 0.044715 * value**3)) instead, which a GPU can
            compute in the matmul before it.

    Returns:
        A tensor of the same shape.

    Example:
        y = tandem.gelu(x @ w, approximate="tanh")
    """
    if approximate == "tanh":
        inner = value + 0.044715 * (value * value * value)
        return value * 0.5 * (1 + tanh(inner * math.sqrt(2 / math.pi)))
    if approximate != "none":
        raise ArgumentError(f"gelu: approximate: expected none or tanh, found {approximate!r}")
    return value * 0.5 * (1 + erf(value * math.sqrt(0.5)))


def softmax(value: Value, axis: int = -1) -> Value:
    """exp(value) over its sum along a dimension, computed from value - max."""
    shifted = exp(value - value.max(axis, keepdims=True))
    return shifted / shifted.sum(axis, keepdims=True)
