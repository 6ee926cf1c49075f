# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Contexts: where programs run, and how ranks find each other."""

import atexit
import threading

from . import _tandem
from ._errors import ArgumentError
from ._tandem import Context


def init(device="cpu", channels="", **options):
    """Creates the context that all threads use which did not enter another one; returns it. Called by the first run
    of a program if the caller did not. Collective. The options are those of Context."""
    context = Context(device, channels, **options)
    _tandem.set_process_context(context)
    return context


# The end of the interpreter ends threads inside of calls, and closes no context.
atexit.register(_tandem.end)
_initializing = threading.Lock()


def _init_once():
    """The context of `init`, which the first of the threads makes that need it."""
    with _initializing:
        return _tandem.current_context() or init()


class LocalWorld:
    """Ranks as threads of this process; see local_world. `options` are those of Context."""

    def __init__(self, size, device="cpu", channels="", timeout=60.0, **options):
        self._world = _tandem.World(size, timeout)
        self._options = dict(options, device=device, channels=channels, timeout=timeout)
        self._contexts: list = [None] * size
        self.size = size

    def run(self, function, *arguments):
        """Calls `function(context, *arguments)` in one thread per rank, with that rank's context as the current one.
        Returns the list of results, by rank. If ranks fail, raises the error of the first one that failed; then the
        world has lost ranks and cannot be used any more."""
        results, failures = [None] * self.size, []

        def body(rank):
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

    def close(self):
        """Closes the contexts of all ranks, together."""
        contexts = [context for context in self._contexts if context is not None]
        threads = [threading.Thread(target=context.close) for context in contexts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def local_world(size, **options):
    """A world of `size` ranks that are threads of this process: for tests, notebooks, and GPUs of one process.

        with tandem.local_world(4) as world:
            parts = world.run(lambda context: program(x[context.rank], w))
    """
    if not isinstance(size, int) or size < 1:
        raise ArgumentError(f"local_world: expected at least one rank, found {size!r}")
    return LocalWorld(size, **options)
