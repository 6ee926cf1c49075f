# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Contexts of process groups: one per group and device."""

import datetime
import functools
import itertools
import logging
import os
import select
import threading
import time
import weakref

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d
from torch.distributed.device_mesh import DeviceMesh

import tandem
from tandem import _tandem
from tandem._program import _channel_names

log = logging.getLogger("tandem.torch")
_contexts = {}  # (name of the group, device) -> (group, context, bootstrap, torch_memory)
_made = {}  # name of the group -> how many contexts it has had
_SLICE = datetime.timedelta(seconds=1)  # of waiting
_locks = {}  # name of the group -> a lock of both: a second context of a group would wait for ranks that make none


def resolve(group):
    """A process group with this rank. None: the default one; a mesh of one dimension: its group."""
    if isinstance(group, DeviceMesh):
        if group.ndim != 1:
            raise tandem.ArgumentError(f"expected a mesh of one dimension, such as mesh[\"tp\"], found {group}")
        return group.get_group()
    group = group or dist.group.WORLD
    if group is None:
        raise tandem.ArgumentError("expected a process group, found none: call torch.distributed.init_process_group before")
    if isinstance(group, int):  # GroupMember.NON_GROUP_MEMBER
        raise tandem.ArgumentError("expected a process group with this rank, found one without it")
    return group


def timeout_of(group):
    """The timeout of a process group, in seconds: how long its collectives wait for a rank."""
    for kind in ("cpu", "cuda"):
        try:
            return group._get_backend(torch.device(kind)).options._timeout.total_seconds()
        except (AttributeError, RuntimeError):
            continue  # the group has no backend for this device, or one without options
    return c10d.default_pg_timeout.total_seconds()


class StoreBootstrap:
    """Exchanges bytes among the ranks of a group through the store with which torch made the group. Uses no collective
    of the group, so it works in any thread and while the group is busy. timeout: seconds that it waits for a rank; None:
    the timeout of the group."""

    def __init__(self, group, timeout=None):
        timeout = timeout_of(group) if timeout is None else timeout
        self.rank, self.world_size = dist.get_rank(group), dist.get_world_size(group)
        name = self.name = group.group_name
        number = _made[name] = _made.get(name, 0) + 1
        self._store = dist.PrefixStore(f"tandem/{name}/{number}", c10d._get_process_group_store(group))
        self._timeout, self._exchange = datetime.timedelta(seconds=timeout), 0
        self.check = None  # called while it waits for ranks: its error ends the wait
        self.node, self._processes, space = _tandem.node(), select.poll(), os.readlink("/proc/self/ns/pid")
        self._ranks = {}  # descriptor of a process of this host, which can be read when the process has ended -> rank
        places = [one.decode().split(" ", 2) for one in self.all_gather(f"{os.getpid()} {space} {self.node}".encode())]
        nodes = [node for _, _, node in places]
        for rank, (pid, *place) in enumerate(places):
            if place == [space, self.node] and int(pid) != os.getpid():
                self._watch(rank, int(pid))
        blocks = [len(list(one)) for _, one in itertools.groupby(nodes)]
        #: If the ranks of each node follow each other, and are equally many: their number. Else 1.
        self.ranks_of_a_node = blocks[0] if len(set(blocks)) == 1 and len(blocks) == len(set(nodes)) else 1
        here = [rank for rank, other in enumerate(nodes) if other == self.node]
        self.local_rank, self.local_size = here.index(self.rank), len(here)
        if len({nodes.count(other) for other in nodes}) > 1:  # nodes of different sizes: none can be distinguished
            self.local_rank, self.local_size = self.rank, self.world_size

    def _watch(self, rank, pid):
        try:
            process = os.pidfd_open(pid)
        except (AttributeError, OSError):
            return  # this Python or system has none
        weakref.finalize(self, os.close, process)
        self._processes.register(process)
        self._ranks[process] = rank

    def all_gather(self, data):
        """The bytes of all ranks, in the order of ranks."""
        self._exchange += 1
        keys = [f"{self._exchange}/{rank}" for rank in range(self.world_size)]
        self._store.set(keys[self.rank], b"=" + data)
        until = time.monotonic() + self._timeout.total_seconds()
        while True:
            try:
                self._store.wait(keys, min(self._timeout, _SLICE))
                break
            except RuntimeError as error:  # torch's DistError is one
                self._store.check(keys)  # a store that is lost raises
                if self.check:
                    self.check()
                for process, _ in self._processes.poll(0):  # it has no more to say
                    if not self._store.check([keys[self._ranks[process]]]):
                        raise tandem.Error(f"lost rank {self._ranks[process]}: its process has ended") from error
                if time.monotonic() >= until:
                    missing = [rank for rank, key in enumerate(keys) if not self._store.check([key])]
                    raise tandem.Timeout(f"ranks {missing} of the group did not come within {self._timeout}") from error
        parts = [self._store.get(key)[1:] for key in keys]
        # All ranks have begun this exchange, so none reads the one before.
        if self._exchange > 1:
            self._store.delete_key(f"{self._exchange - 1}/{self.rank}")
        return parts

    def barrier(self):
        self.all_gather(b"")


def context(group=None, device=None, channels="", torch_memory=None, timeout=None):
    """The tandem.Context of a process group (None: the default one) on a device (None: the current GPU for groups with
    NCCL, else the CPU). Collective over the group when it is first called; then `channels` chooses how its ranks
    communicate: "" for "peer,ccl" on GPUs and "ucx" on CPUs. Ranks that share a GPU need "ucx", because NCCL rejects them.
    `torch_memory`, also chosen then (None: true): memory on GPUs comes from torch's caching allocator, except what peers
    access. `timeout`, also chosen then: seconds that a call waits for other ranks (None: the timeout of the process group)."""
    group = resolve(group)
    if device is None:
        device = torch.device("cuda", torch.cuda.current_device()) if "nccl" in dist.get_backend(group) else "cpu"
    device = torch.device(device)
    if device.type == "cuda" and device.index is None:
        device = torch.device("cuda", torch.cuda.current_device())
    if timeout is not None and not (isinstance(timeout, (int, float)) and 0 < timeout <= 4e6):
        raise tandem.ArgumentError(f"context: expected a timeout of more than 0 seconds and at most 4000000, found {timeout!r}")
    _, made, bootstrap, has_torch_memory = _context(group.group_name, device, channels, torch_memory is not False, timeout)
    if timeout is not None and bootstrap._timeout.total_seconds() != timeout:
        raise tandem.ArgumentError(f"context: expected timeout={timeout} before the group is first used; its context has "
                                   f"{bootstrap._timeout.total_seconds()}")
    if torch_memory not in (None, has_torch_memory):
        raise tandem.ArgumentError(f"context: expected torch_memory={torch_memory} before the group is first used")
    if channels and made.channels != channels:
        raise tandem.ArgumentError(f"context: expected channels {made.channels}, which the group has, found {channels}")
    return made


def _context(name, device, channels="", torch_memory=True, timeout=None):
    """(group, context, bootstrap, torch_memory) of the group with this name."""
    key = name, device
    group = c10d._resolve_process_group(name)
    with _locks.setdefault(name, threading.RLock()):  # not one for all: other ranks may make those of two groups in another order
        found = _contexts.get(key)
        if found is not None:
            if found[0] is group:
                return found
            found[1].close()  # of a group that is gone; its name is used again
        bootstrap = StoreBootstrap(group, timeout)
        _contexts[key] = made = group, _make_context(bootstrap, device, channels, torch_memory), bootstrap, torch_memory
        bootstrap.check = made[1].check_health  # ranks that disagree on what they do are known there
        return made


def _agree(name, device, call):
    """Raises unless all ranks of the group are about to make the same call: a text. Collective."""
    _, context, bootstrap, _ = _context(name, device)
    # A rank that runs what it has prepared does not come to the exchange. Of two that come, the exchange tells what
    # differs, and they can go on.
    context.agree(f"prepare a call of tandem.torch:\n{call}")
    for rank, other in enumerate(bootstrap.all_gather(call.encode())):
        if other != call.encode():
            raise tandem.ArgumentError(
                f"expected the same call on all ranks of the group, found {call} on rank {bootstrap.rank} and {other.decode()} "
                f"on rank {rank}; for other numbers of tokens on each rank, all_gather_matmul takes tokens=, a layer a DTensor")


def _flight_recorder(bootstrap):
    """The prefix of a context's files. Ranks have other numbers in a group without all of them, so its name is part of it."""
    prefix = os.environ.get("TANDEM_FLIGHT_RECORDER")
    if not prefix or bootstrap.world_size == dist.get_world_size():
        return prefix
    return f"{prefix}.{bootstrap.name.replace('/', '_')}"


def _make_context(bootstrap, device, channels, torch_memory):
    allocator, recorder = _allocator(device) if torch_memory else None, _flight_recorder(bootstrap)
    if device.type == "cpu":
        return tandem.Context("cpu", channels, bootstrap=bootstrap, timeout=bootstrap._timeout.total_seconds(),
                              matmul_threads=torch.get_num_threads(), allocator=allocator, flight_recorder=recorder)
    if device.type != "cuda":
        raise tandem.ArgumentError(f"expected tensors on a CPU or a GPU of NVIDIA, found {device}")
    return tandem.Context(f"cuda:{device.index}", channels, bootstrap=bootstrap, timeout=bootstrap._timeout.total_seconds(),
                          allocator=allocator, flight_recorder=recorder)


def _allocator(device):
    """torch's allocator for a context on this device; None: memory of the device, as on CPUs, where torch keeps none."""
    if device.type != "cuda":
        return None
    try:
        return _tandem.TorchAllocator(device.index)
    except tandem.Error as error:
        log.warning("memory of %s is not torch's: %s", device, error)
        return None


def make_room(program, context, device):
    """torch keeps freed memory of a GPU for later. Returns it to the driver, if the program's memory would not fit else:
    what torch's allocator does for its own memory."""
    needs = program.memory(context)
    needed = needs.symmetric if context.allocator else sum(needs)
    if needed > torch.cuda.mem_get_info(device)[0] and not torch.cuda.is_current_stream_capturing():
        torch.cuda.empty_cache()


def machine(context, device, ranks):
    """The machine file by which schedules are chosen: TANDEM_MACHINE, else by the name of the GPU; None: fixed rules, also
    over ucx, because the files of GPUs know no staging in host memory."""
    if "TANDEM_MACHINE" in os.environ:
        return os.environ["TANDEM_MACHINE"] or None
    if not {"ccl", "peer"} & set(_channel_names(context)):
        return None
    if device.type == "cuda":
        return _find_machine(torch.cuda.get_device_name(device), ranks)
    return None


@functools.cache
def _find_machine(gpu, ranks):
    return _tandem.find_machine(gpu, ranks) or None
