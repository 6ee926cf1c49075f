# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times the arms of a case, interleaved in rounds, and verifies them. All calls are collective."""

import gc
import random
import time

import numpy as np

from .. import _tandem
from .._program import Program
from . import fusions
from .arms import Memory, ProgramArm, Programs, numbers

_LEAST_ROUNDS = 3
_COMPARED = 1 << 24  # elements that NumPy compares with those of another arm
_VERIFIED = 2e9  # operations of a product up to which NumPy verifies it in about a second


def turns_of(number, count, sets):
    """The order of a round: pairs of an arm and a set of inputs. Each arm has one turn; neighbours read different sets, an arm reads
    one set after the other, and the order is another one in each round, so that what an arm leaves (caches, clocks) does not
    always come after the same one."""
    turns: list = [None] * count
    shift = number if count % sets == 0 else 0
    for part in range(sets):
        arms = list(range(part, count, sets))
        random.Random(number * sets + part).shuffle(arms)
        turns[(part + shift) % sets::sets] = [(arm, (number + part) % sets) for arm in arms]
    return turns


class Runner:
    """`options`: those of the command line. `torch`: what makes the arms of PyTorch, or None."""

    def __init__(self, ranks, options, torch=None):
        self.ranks, self.options, self.torch = ranks, options, torch
        ranks.start()
        self.contexts = {mode: ranks.context(graphs=mode == "graph") for mode in options.modes}
        self.context = next(iter(self.contexts.values()))
        self.has_gated = all(ranks.gather(_tandem.has_gated_kernels(self.context)))
        # Channel peer has them for GPUs of CUDA (docs/fused-exchange.md).
        self.has_exchange = self.context.device.startswith("cuda") and "peer" in self.context.channels.split(",")
        self.compiler = Programs(options.target, ranks.size, options.machine, options.programs)

    def program(self, name, make, deterministic=None):
        """Compiled by rank 0, for all."""
        data = b""
        if self.ranks.rank == 0:
            program, why = self.compiler.get(name, make, deterministic)
            data = b"+" + program.bytes if program else b"-" + why.encode()
        data = self.ranks.share(data)
        return (Program(data[1:]), "") if data[:1] == b"+" else (None, data[1:].decode())

    def arms_of(self, name, what, role, make, deterministic=None):
        """One for each mode."""
        program, why = self.program(name, make, deterministic)
        arms = []
        for mode, context in self.contexts.items():
            arm = ProgramArm(what, role, mode, program, context)
            arm.refused = why
            arms.append(arm)
        return arms

    def prepare(self, arms, memory):
        """Those that all ranks can run; the others say why not."""
        for arm in arms:
            if not arm.refused and arm.what in self.options.skip:
                arm.refused = arm.failure = self.options.skip[arm.what]
            if not arm.refused:
                self.ranks.phase(f"{arm.what}, {arm.mode}: preparation", self.options.timeout)
                arm.refused = self.ranks.attempt(lambda arm=arm: arm.prepare(memory, self.options.sets))
        for context in self.contexts.values():
            context.check_health()
        return [arm for arm in arms if not arm.refused]

    def time(self, arms):
        """Rounds of all arms, with a common start of all ranks each."""
        options, ranks = self.options, self.ranks
        taken = [[] for _ in arms]
        started, is_over = time.monotonic(), False
        gc.collect()
        gc.disable()
        for number in range(options.warmup + options.iterations):
            for turn, (at, inputs) in enumerate(turns_of(number, len(arms), options.sets)):
                ranks.phase(f"{arms[at].what}, {arms[at].mode}: timed", options.timeout)
                is_late = time.monotonic() - started > options.row_time
                start, is_over = ranks.barrier(int(is_late and turn == 0 and number >= options.warmup + _LEAST_ROUNDS))
                if is_over:
                    break
                begin, enqueued, end = arms[at].run(inputs, start, options.batch, ranks.spins)
                if number >= options.warmup:
                    taken[at].append((end - start, enqueued - start, begin - start))
                if options.gap:
                    time.sleep(options.gap / 1e3)
            if is_over:
                break
        gc.enable()
        for arm, everybody in zip(arms, zip(*ranks.gather(taken))):
            slowest = np.array(everybody, float).max(axis=0) * 1e-9  # by round: of the slowest rank
            arm.seconds, arm.host = ((slowest[:, i] / options.batch).tolist() for i in (0, 1))
            arm.late = float(slowest[:, 2].max(initial=0))

    def measure(self, case):
        """The arms of a case, timed."""
        options, count = self.options, self.ranks.size
        self.ranks.phase(f"{case}: compilation", 10 * options.timeout)
        sequence = fusions.Schedule("sequence")
        arms = self.arms_of(f"{case} sequence", "sequence", "sequence", lambda: fusions.fused(case, count, sequence))
        arms += self.arms_of(f"{case} matmul", "matmul", "matmul", lambda: fusions.matmul(case, count))
        arms += self.arms_of(f"{case} communication", "communication", "communication", lambda: fusions.communication(case, count))
        for schedule in options.schedules:
            arms += self.arms_of(f"{case} {schedule.text}", schedule.text, "fused",
                                 lambda schedule=schedule: fusions.fused(case, count, schedule), schedule.deterministic)
        memory = Memory(self.context, options.seed)
        ready = self.prepare(arms, memory)
        if self.torch:
            theirs = self.torch.arms(case, {arm.what: arm for arm in ready}, options.modes, memory)
            arms += theirs
            ready += self.prepare(theirs, memory)
        if ready:
            examine = self.examiner(case, ready)
            examine()
            self.time(ready)
            examine()  # once more, for what comes with speed
        memory.pieces.clear()
        for arm in arms:
            arm.release()
        gc.collect()
        if self.torch:
            self.torch.release()
        return arms

    def examiner(self, case, arms):
        """A function that compares results: with NumPy's, or those of the first sequence where that takes too long. Large ones are
        compared by torch; without it, they are not verified."""
        if self.options.verify == "none":
            return lambda: None
        sequence = next((arm for arm in arms if arm.what == "sequence"), None)
        if sequence is None:
            return lambda: None
        is_small = self.options.verify == "all" or case.flops <= _VERIFIED
        if not is_small and not self.torch and case.m * max(case.n, case.k) > _COMPARED:
            return lambda: None
        by_torch = self.torch and not is_small
        norm_of = self.torch.torch.linalg.vector_norm if by_torch else np.linalg.norm
        sets = range(self.options.sets)
        wanted: list = [self.reference(case, sequence, number) if is_small else None for number in sets]
        bound = case.types.tolerance * (1 if case.op == "ag" else 2)

        def result(arm, number):
            self.ranks.phase(f"{case}, {arm.what}, {arm.mode}: result", self.options.timeout)
            arm.poison(number)
            self.ranks.barrier()
            arm.run(number, 0, 1, False)
            return arm.tensor(self.torch, number) if by_torch else arm.result(number)

        def examine():
            for number in sets:
                reference = wanted[number] if is_small else result(sequence, number)
                norm = float(norm_of(reference)) or 1.0
                for arm in arms:
                    if arm.role not in ("sequence", "fused") or not is_small and arm is sequence:
                        continue
                    found = result(arm, number)
                    error = float(norm_of(found - reference)) / norm if found.shape == reference.shape else np.inf
                    worst = max(np.inf if one is None else one
                                for one in self.ranks.gather(error if np.isfinite(error) else None))
                    if not arm.failure and not worst <= bound:
                        arm.failure = f"set {number}: relative error {worst:.1e}, expected at most {bound:.1e}"
                    arm.is_verified = not arm.failure
                    arm.error = max(arm.error or 0, worst)

        return examine

    def reference(self, case, sequence, number):
        """This rank's part of the result, by NumPy in f32."""
        names = [one for one in sequence.program.arguments(sequence.context) if not one.is_result]
        parts = {}
        for index, one in enumerate(names):
            shards = [sequence.program.shard(index, rank, sequence.context) for rank in range(self.ranks.size)]
            whole = np.zeros(one.shape, np.float32).reshape(-1)
            mine = sequence.inputs[number][one.name].read(sequence.context) if one.present else b""
            for shard, data in zip(shards, self.ranks.gather_bytes(mine)):
                if shard.present:
                    whole[shard.elements()] = numbers(one.dtype, data, -1)[:len(shard.elements())]
            parts[one.name] = whole.reshape(one.shape)
        y = parts["x"] @ (parts["w"].T if case.is_scaled else parts["w"])
        if case.is_scaled:
            y = y * parts["sx"].reshape(-1, 1) * parts["sw"]
        return sequence.program.shard(len(names), context=sequence.context).of(y)
