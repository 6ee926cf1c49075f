# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles and prepares the programs of a step before it runs (docs/simulator.md)."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import distributed_c10d as c10d

import tandem

from . import _fusions, _groups, _ops, _scaled
from ._step import _operands, _planned, recorded

#: The operator whose programs a function prepares.
_OPERATORS = {_ops._prepare_gather: _ops._gather, _ops._prepare_scatter: _ops._scatter, _ops._prepare_reduce: _ops._reduce,
              _ops._prepare_scatter_backward: _ops._scatter_backward, _scaled._prepare_gather: _scaled._gather,
              _scaled._prepare_scatter: _scaled._scatter}


class WarmUp:
    """The programs of a step, which are being compiled. Returned by `warm_up`.

    calls: a text for each kind of call of an operator, in an order that is the same on all ranks.
    compile_seconds: of all programs together. prepare_seconds: of preparing them; 0 before `wait`.
    """

    def __init__(self, keys: list[tuple]) -> None:
        self.prepare_seconds, self._is_ready = 0.0, False
        operands = [(key, *_operands(key)[1:4]) for key in keys]
        # In an order of their names, since models of ranks may use groups in other orders.
        self._contexts: dict[str, Any] = {}
        for name in sorted({group for _, group, _, _ in operands}, key=lambda one: (len(one), one)):
            kind = "cuda" if "nccl" in dist.get_backend(c10d._resolve_process_group(name)) else "cpu"
            device = torch.device("cuda", torch.cuda.current_device()) if kind == "cuda" else torch.device("cpu")
            self._contexts[name] = (device, *_groups._context(name, device)[1:3])
        self._pool = ThreadPoolExecutor(thread_name_prefix="tandem.torch.warm_up")
        self._planned: list[tuple[str, _fusions.Planned, Future]] = []
        for key, group, _, _ in operands:
            device, context, _ = self._contexts[group]
            planned = _fusions.Planned(context.world_size, _groups.machine(context, device, context.world_size),
                                       tandem._program._target(context), certify=False)
            self._planned.append((group, planned, self._pool.submit(_planned, key, planned)))
        self._pool.shutdown(wait=False)

    def wait(self) -> WarmUp:
        """Waits for the compiler, and prepares the programs. Collective: raises unless all ranks of a group have the same calls."""
        if self._is_ready:
            return self
        made = self._made()
        begin = time.perf_counter()
        for name, (_, _, bootstrap) in self._contexts.items():
            self._compare(bootstrap, [text for group, text, _ in made if group == name])
        for group, _, calls in made:
            for prepare, _, numbers, rows, weights in calls:
                device = self._contexts[group][0]
                _OPERATORS[prepare].prepare(group, numbers, *([torch.empty_strided(one.shape, one.stride(), dtype=one.dtype, device=device)
                                                               for one in tensors] for tensors in (rows, weights)))
        self.prepare_seconds, self._is_ready = time.perf_counter() - begin, True
        return self

    @property
    def calls(self) -> list[str]:
        return [text for _, text, _ in self._made()]

    @property
    def compile_seconds(self) -> float:
        self._made()
        return sum(planned.seconds for _, planned, _ in self._planned)

    def _made(self) -> list[tuple[str, str, list[tuple]]]:
        """(group, text, operands of what it calls) of each call, when the compiler is ready, in an order that ranks share."""
        done = [future.result()[1] for _, _, future in self._planned]
        return sorted(((group, planned.calls[0], calls) for (group, planned, _), calls in zip(self._planned, done)),
                      key=lambda one: (len(one[0]), *one[:2]))

    @staticmethod
    def _compare(bootstrap: Any, calls: list[str]) -> None:
        mine = "\n".join(calls)
        for rank, other in enumerate(bootstrap.all_gather(mine.encode())):
            if other.decode() != mine:
                theirs = other.decode().splitlines()
                differ = [one for one in calls if one not in theirs] or ["no more calls"], [
                    one for one in theirs if one not in calls] or ["no more calls"]
                raise tandem.ArgumentError(f"warm_up: expected the same calls on all ranks of the group, found {differ[0][0]} on rank "
                                           f"{bootstrap.rank} and {differ[1][0]} on rank {rank}")


def warm_up(model: nn.Module, sample: Any, *, backward: bool = True, loss: Callable[[Any], torch.Tensor] | None = None,
            wait: bool = True) -> WarmUp:
    """Compiles and prepares the programs of a step, so that the first step takes no longer than the next ones.

    The step runs on shapes alone: nothing is computed, so weights need not be loaded, and may be on the "meta" device.
    Programs are compiled in parallel.

    Args:
        model: A module with layers of tandem.torch.
        sample: What it is called with: a tensor, a tuple of arguments, or a dict of arguments by name. Only shapes matter.
        backward: Also the programs of the backward pass.
        loss: Of the model's result. Default: its `loss`, or else the sum of its tensors.
        wait: Until all is ready. False: programs are compiled in the background; `wait()` of the result does the rest.

    Returns:
        What was compiled. Collective, and so is its `wait`: all ranks of the model's groups call it. Their models may
        call layers in different orders.

    Example:
        warm = tandem.torch.warm_up(model, tokens, wait=False)
        load_weights(model)
        warm.wait()
    """
    calls = recorded("warm_up", model, sample, backward, loss, fake=True).calls
    keys = list(dict.fromkeys(one.key for one in calls if one.key[0] == "tandem"))
    made = WarmUp(keys)
    return made.wait() if wait else made
