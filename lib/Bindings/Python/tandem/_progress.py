# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One line on a terminal or in a notebook while something takes long. Elsewhere, and if TANDEM_PROGRESS is 0, nothing is
printed."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Callable

DELAY = 1.0  # seconds until the line appears
_BAR = 20
_shown = threading.Lock()  # one line at a time


def _is_notebook(out: Any) -> bool:
    """Is it the output of a notebook's cell? That shows "\r" as a terminal does, and knows fewer escapes."""
    return type(out).__module__.split(".")[0] == "ipykernel"


def _draw(text: str, start: float, done: threading.Event, out: Any, state: dict[str, Any], clear: Callable[[str], str]) -> None:
    if done.wait(DELAY) or not _shown.acquire(blocking=False):
        return
    try:
        position = 0
        while True:
            if state["done"] is None:
                bar = "".join("#" if (position - index) % _BAR < 4 else "." for index in range(_BAR))
            else:
                bar = "".join("#" if index < state["done"] * _BAR else "." for index in range(_BAR))
            line = f"tandem: {text} [{bar}] {time.monotonic() - start:.0f} s"
            out.write(clear(line) + line)
            out.flush()
            if done.wait(0.2):
                break
            position += 1
        out.write(clear(line))
        out.flush()
    finally:
        _shown.release()


def _erase(line: str) -> str:
    return "\r\x1b[2K"


def _blank(line: str) -> str:
    return "\r" + " " * (len(line) + 8) + "\r"


@contextmanager
def progress(text: str) -> Iterator[Callable[[float], None]]:
    """The value is a function that sets how much is done, 0 to 1; until it is called, the bar only moves."""
    out = sys.stderr
    state: dict[str, Any] = {"done": None}
    is_notebook = _is_notebook(out)
    if os.environ.get("TANDEM_PROGRESS") == "0" or out is None or not (is_notebook or out.isatty()):
        yield lambda part: None
        return
    done = threading.Event()
    thread = threading.Thread(target=_draw, args=(text, time.monotonic(), done, out, state, _blank if is_notebook else _erase),
                              daemon=True)
    thread.start()
    try:
        yield lambda part: state.update(done=part)
    finally:
        done.set()
        thread.join()
