# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Contexts: where programs run, and how ranks find each other."""

from __future__ import annotations

import atexit
import threading
from typing import Any, Callable, TypeVar

from . import _tandem
from ._errors import ArgumentError
from ._tandem import Context, World

_T = TypeVar("_T")


def init(device: str = "cpu", channels: str = "", *, world: World | None = None, rank: int | None = None, bootstrap: Any = None,
         timeout: float = 60.0, matmul_threads: int = 0, graphs: bool = True, require_proof: bool = False, no_native: bool = False,
         allocator: Any = None, flight_recorder: str | None = None, flight_recorder_signal: int = 0) -> Context:
    """Creates the context that all threads use which did not enter another one. Collective. The first run of a program calls
    it if the caller did not.

    Args:
        device, channels, world, rank, bootstrap, timeout, matmul_threads, graphs, require_proof, no_native, allocator,
            flight_recorder, flight_recorder_signal: Those of `Context`.

    Returns:
        The context.

    Example:
        context = tandem.init("cuda")
    """
    context = Context(device, channels, world=world, rank=rank, bootstrap=bootstrap, timeout=timeout,
                      matmul_threads=matmul_threads, graphs=graphs, require_proof=require_proof, no_native=no_native,
                      allocator=allocator, flight_recorder=flight_recorder, flight_recorder_signal=flight_recorder_signal)
    _tandem.set_process_context(context)
    return context


def hang_report(prefix: str) -> dict[str, Any]:
    """Which rank waits for which, from the files of flight recorders: docs/operations.md, "Hang reports".

    Args:
        prefix: The `flight_recorder` of the contexts, or TANDEM_FLIGHT_RECORDER: the files are prefix.rank0, ...

    Returns:
        The report: `held_up_by`, a list of ranks, `summary`, lines of text, and `ranks`.

    Example:
        print("\\n".join(tandem.hang_report("/tmp/hang")["summary"]))
    """
    return _tandem.hang_report(prefix)


# The end of the interpreter ends threads inside of calls, and closes no context.
atexit.register(_tandem.end)
_initializing = threading.Lock()


def _init_once() -> Context:
    """The context of `init`, which the first of the threads makes that need it."""
    with _initializing:
        return _tandem.current_context() or init()


class LocalWorld:
    """A world of ranks that are threads of this process: for tests, notebooks, and GPUs of one process.

    Args:
        size: The number of ranks.
        device, channels, timeout, matmul_threads, graphs, require_proof, no_native, allocator, flight_recorder,
            flight_recorder_signal: Those of `Context`.

    Example:
        with tandem.local_world(4) as world:
            parts = world.run(lambda context: program(x[context.rank], w))
    """

    def __init__(self, size: int, device: str = "cpu", channels: str = "", *, timeout: float = 60.0, matmul_threads: int = 0,
                 graphs: bool = True, require_proof: bool = False, no_native: bool = False, allocator: Any = None,
                 flight_recorder: str | None = None, flight_recorder_signal: int = 0) -> None:
        if not isinstance(size, int) or size < 1:
            raise ArgumentError(f"local_world: expected at least one rank, found {size!r}")
        self._world = World(size, timeout)
        self._options: dict[str, Any] = {
            "device": device, "channels": channels, "timeout": timeout, "matmul_threads": matmul_threads, "graphs": graphs,
            "require_proof": require_proof, "no_native": no_native, "allocator": allocator,
            "flight_recorder": flight_recorder, "flight_recorder_signal": flight_recorder_signal}
        self._contexts: list[Any] = [None] * size
        self.size = size

    def run(self, function: Callable[..., _T], *arguments: Any) -> list[_T]:
        """Calls `function(context, *arguments)` in one thread per rank, with that rank's context as the current one.

        Returns:
            The results, by rank. If ranks fail, raises the error of the first one that failed; then the world has lost ranks
            and cannot be used any more.
        """
        results: list[Any] = [None] * self.size
        failures: list[BaseException] = []

        def body(rank: int) -> None:
            try:
                if self._contexts[rank] is None:
                    self._contexts[rank] = Context(world=self._world, rank=rank, **self._options)
                with self._contexts[rank] as context:
                    results[rank] = function(context, *arguments)
            except BaseException as error:  # noqa: BLE001 - raised again below
                failures.append(error)
                # The other ranks must not wait for this one.
                if self._contexts[rank] is not None:
                    self._contexts[rank].close()

        threads = [threading.Thread(target=body, args=(rank,), name=f"rank {rank}") for rank in range(self.size)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]
        return results

    def close(self) -> None:
        """Closes the contexts of all ranks, together."""
        contexts = [context for context in self._contexts if context is not None]
        threads = [threading.Thread(target=context.close) for context in contexts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def __enter__(self) -> LocalWorld:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


local_world = LocalWorld
