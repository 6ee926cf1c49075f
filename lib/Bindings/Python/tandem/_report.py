# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is known of a program without running it: text in a terminal, a table or a drawing in a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from . import _files
from ._mesh import Path


def _microseconds(seconds: float) -> str:
    return f"{seconds * 1e6:.1f} us"


def _table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    cells = "".join(f"<th>{escape(str(cell))}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{cells}</tr>{body}</table>"


class Report:
    """`text` as the command-line tools print it, and the same as `data` (a dict)."""

    def __init__(self, text: str, data: dict[str, Any], svg: str | None = None) -> None:
        self.text, self.data = text, data

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self.text)}</pre>"


class Explanation(Report):
    """How the loops of a program are run. `loops`: dicts with reshards, locations, schedule, source, candidates
    (schedule, seconds), communication_seconds, exposed_seconds, explanation. `seconds` and `baseline_seconds` (without overlap) are
    predicted; None without a machine file."""

    def __init__(self, text: str, data: dict[str, Any], svg: str | None = None) -> None:
        super().__init__(text, data)
        self.loops: list[dict[str, Any]] = data["loops"]
        self.seconds: float | None = data["seconds"] or None
        self.baseline_seconds: float | None = data["baseline_seconds"] or None

    def _repr_html_(self) -> str:
        rows = [(loop["reshards"], " ".join(loop["locations"]), loop["schedule"], loop["source"],
                 _microseconds(loop["communication_seconds"]) if self.seconds else "",
                 _microseconds(loop["exposed_seconds"]) if self.seconds else "",
                 ", ".join(f"{one['schedule']}: {_microseconds(one['seconds'])}" for one in loop["candidates"]))
                for loop in self.loops]
        head = ("reshards", "at", "schedule", "chosen by", "communication", "exposed", "candidates")
        return _table(head, rows) + super()._repr_html_()


class CheckReport(Report):
    """What the checker found. True in a condition if there is no error. `findings`: dicts with diagnosis, severity,
    message, commands, notes. `limits`: what could not be decided."""

    def __init__(self, text: str, data: dict[str, Any], svg: str | None = None) -> None:
        super().__init__(text, data)
        self.ok: bool = data["ok"]
        self.findings: list[dict[str, Any]] = data["findings"]
        self.limits: list[str] = data["limits"]

    def __bool__(self) -> bool:
        return self.ok

    def _repr_html_(self) -> str:
        rows = [(one["severity"], one["diagnosis"], one["message"]) for one in self.findings]
        found = _table(("", "diagnosis", "message"), rows) if rows else ""
        return f"<b>{'no error' if self.ok else 'errors'}</b>{found}{super()._repr_html_()}"


class Simulation(Report):
    """A simulated run. `seconds`: its time; `exposed_seconds`: of it, communication while nothing is computed, on the
    slowest rank; `speedup` over all commands one after another; `svg`: the timeline, which a notebook draws."""

    def __init__(self, text: str, data: dict[str, Any], svg: str) -> None:
        super().__init__(text, data)
        self.seconds: float = data["seconds"]
        self.exposed_seconds: float = data["exposed_seconds"]
        self.speedup: float = data["speedup"]
        self.svg = svg

    def save(self, path: Path) -> None:
        """Writes the drawing."""
        _files.write(path, self.svg.encode())

    def _repr_svg_(self) -> str:
        return self.svg

    def _repr_html_(self) -> str:
        return f"{self.svg}{super()._repr_html_()}"
