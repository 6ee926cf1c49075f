# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reading and replacing files."""

from __future__ import annotations

import os
import stat
import sys
import threading

from ._errors import ArgumentError
from ._mesh import Path

_MOST_BYTES = 4 << 30


def read(path: Path) -> bytes:
    """All bytes of a regular file: a pipe or a device may never end, and opening one may wait."""
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        info = os.fstat(file.fileno())
        if not stat.S_ISREG(info.st_mode):
            raise ArgumentError(f"{os.fspath(path)}: expected a regular file")
        if info.st_size > _MOST_BYTES:
            raise ArgumentError(f"{os.fspath(path)}: expected at most {_MOST_BYTES} bytes, found {info.st_size}")
        return file.read()


def write(path: Path, data: bytes) -> None:
    """Replaces a file: others find the old bytes or the new ones, also after an error. A pipe or a device is written, and
    what is open (/dev/stdout) after what has been written to it."""
    path = os.fsdecode(path)
    for _ in range(40):  # as many links as Linux follows
        folder, name = os.path.realpath(os.path.dirname(path)), os.path.basename(path)
        if not os.path.islink(path):
            break
        if folder == os.path.realpath("/proc/self/fd"):
            for stream in (sys.stdout, sys.stderr):
                stream.flush()  # what was printed before comes first
            with open(int(name), "wb", closefd=False) as file:
                file.write(data)
            return
        path = os.path.join(folder, os.readlink(path))
    if os.path.exists(path) and not os.path.isfile(path):
        with open(path, "wb") as file:
            file.write(data)
        return
    part = f"{path}.{os.getpid()}.{threading.get_ident()}.tmp"
    try:
        with open(part, "wb") as file:
            file.write(data)
        os.replace(part, path)
    except OSError as error:
        if os.path.exists(part):
            os.remove(part)
        raise OSError(error.errno, error.strerror, path) from None
