# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The exceptions. All are tandem.Error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class Error(RuntimeError):
    """A call failed. `code` is the name of the C API's code, e.g. "unsupported"."""

    code = "internal"


class ArgumentError(Error, ValueError):
    """A tensor or an option is not what was expected."""

    code = "invalid-argument"


class Timeout(Error, TimeoutError):
    """A run made no progress and was ended. Its context cannot be used any more."""

    code = "timeout"


@dataclass(frozen=True)
class Diagnostic:
    """A message of the compiler and where it belongs. `str` gives "file:line:column: severity: message"."""

    severity: str  # "error", "warning", "remark" or "note"
    message: str  # notes follow on lines of their own
    file: str = ""  # "" if unknown; the Python file for an operation of a traced function
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}: " if self.line else f"{self.file}: " if self.file else ""
        return f"{place}{self.severity}: {self.message}"


class CompileError(Error):
    """A fusion was rejected. `diagnostics` are all messages, in order; `file`, `line` and `column` those of the first
    error."""

    code = "invalid-program"

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        self.diagnostics = list(diagnostics)
        first = next((one for one in self.diagnostics if one.severity == "error"), None)
        self.file, self.line, self.column = (first.file, first.line, first.column) if first else ("", 0, 0)
        super().__init__("\n".join(map(str, self.diagnostics)))


def _log(is_warning: bool, message: str) -> None:
    """A message of the runtime that is no error."""
    import logging
    logging.getLogger("tandem").log(logging.WARNING if is_warning else logging.INFO, "%s", message)


def _make(code: str, message: str) -> Error:
    """The exception of a code of the C API."""
    kind = {"invalid-argument": ArgumentError, "timeout": Timeout}.get(code, Error)
    error = kind(message)
    error.code = code
    return error
