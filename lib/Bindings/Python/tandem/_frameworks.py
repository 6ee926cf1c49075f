# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""New tensors of the caller's library, other than torch (Torch.cpp). No library is imported here that the caller did not import."""

from __future__ import annotations

import sys
from typing import Any, Callable

from ._errors import ArgumentError
from ._mesh import NUMPY_NAMES

_FOREIGN = ("bf16", "f8E4M3FN", "f8E5M2")  # not NumPy's own
_makers: dict[type, Callable[[Any, str, tuple], Any]] = {}  # type -> function


def _cupy(like: Any, dtype: str, shape: tuple) -> Any:
    cupy = sys.modules["cupy"]
    if dtype in _FOREIGN:
        raise ArgumentError(f"CuPy has no {dtype}: pass the results as out=")
    return cupy.empty(shape, dtype=NUMPY_NAMES[dtype])


def _numpy(like: Any, dtype: str, shape: tuple) -> Any:
    try:
        import numpy
    except ImportError:
        raise ArgumentError("NumPy is not installed: pass the results as out=") from None
    if dtype not in _FOREIGN:
        return numpy.empty(shape, dtype=NUMPY_NAMES[dtype])
    if "ml_dtypes" not in sys.modules:
        raise ArgumentError(f"NumPy has no {dtype}: import ml_dtypes, or pass the results as out=")
    return numpy.empty(shape, dtype=getattr(sys.modules["ml_dtypes"], NUMPY_NAMES[dtype]))


def _other(like: Any, dtype: str, shape: tuple) -> Any:
    return None


def make(like: Any, dtype: str, shape: tuple) -> Any:
    """An uninitialised tensor of the library and device of `like`; of NumPy where that is None or none of a library.
    None if the library's tensors cannot be written: then `finish` makes one."""
    kind = type(like)
    maker = _makers.get(kind)
    if maker is None:
        library = {base.__module__.split(".")[0] for base in kind.__mro__}
        maker = (_cupy if "cupy" in library else
                 _other if hasattr(kind, "__dlpack__") and "numpy" not in library else _numpy)
        _makers[kind] = maker
    return maker(like, dtype, shape)


def finish(like: Any, array: Any) -> Any:
    """The tensor of the library of `like` for memory of Tandem: by DLPack, without a copy."""
    library = type(like).__module__.split(".")[0]
    if library in ("jax", "jaxlib"):
        import jax
        return jax.dlpack.from_dlpack(array)
    return array
