# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is timed in a case: programs of Tandem with their tensors."""

import hashlib
import os
import re

import numpy as np

from .. import _files, _tandem
from .._errors import CompileError, Error
from .._program import Program, compile, load
from .shapes import Usage

_BLOCK = 1 << 22  # elements that are random; larger tensors repeat them


def random_bytes(dtype, count, seed):
    """Random numbers in [-1, 1), as bytes."""
    generator = np.random.default_rng(seed)
    count = min(count, _BLOCK)
    if dtype.startswith("f8"):  # all finite numbers of at most 1
        return (generator.integers(0, 0x39, count, np.uint8) | generator.integers(0, 2, count, np.uint8) << 7).tobytes()
    values = generator.uniform(-1, 1, count).astype(np.float32)
    if dtype == "bf16":
        return (values.view(np.uint32) >> 16).astype(np.uint16).tobytes()
    return values.astype({"f32": np.float32, "f16": np.float16}[dtype]).tobytes()


def numbers(dtype, data, shape):
    """Bytes as f32."""
    if dtype == "bf16":
        return (np.frombuffer(data, np.uint16).astype(np.uint32) << 16).view(np.float32).reshape(shape)
    if dtype == "f8E4M3FN":
        bits = np.frombuffer(data, np.uint8).astype(np.int32)
        exponent, mantissa = bits >> 3 & 15, bits & 7
        values = np.where(exponent > 0, np.ldexp(1 + mantissa / 8, exponent - 7), np.ldexp(mantissa / 8, -6))
        return np.where(bits & 128, -values, values).astype(np.float32).reshape(shape)
    return np.frombuffer(data, {"f32": np.float32, "f16": np.float16}[dtype]).astype(np.float32).reshape(shape)


class Memory:
    """Tensors of a case in memory of the device, shared by its arms: a piece of an argument in a set has one place."""

    def __init__(self, context, seed):
        self.context, self.seed, self.pieces = context, seed, {}

    def empty(self, dtype, shape):
        return _tandem.new_array(self.context, dtype, shape)

    def input(self, name, dtype, shape, place, number):
        """The part of argument `name` that begins at `place` (element, term), in set `number`: equal on all ranks that have it."""
        key = name, dtype, shape, place, number
        if key not in self.pieces:
            seed = int.from_bytes(hashlib.sha256(repr((self.seed, *key)).encode()).digest()[:8], "little")
            self.pieces[key] = made = self.empty(dtype, shape)
            made.fill(self.context, random_bytes(dtype, int(np.prod(shape, dtype=np.int64)), seed))
        return self.pieces[key]


class Programs:
    """Compiled programs, by name. `folder`: where they are kept, so that a machine without the compiler can time them."""

    def __init__(self, target, ranks, machine="", folder="", check=True):
        self.target, self.ranks, self.machine, self.folder, self.check = target, ranks, machine, folder, check

    def get(self, name, make, deterministic=None):
        """(program, "") or (None, why not). `make()` gives a fusion or a text."""
        path = None
        if self.folder:
            key = f"{self.target} {os.path.basename(self.machine)} {deterministic}"
            key = hashlib.sha256(key.encode()).hexdigest()[:8]
            path = os.path.join(self.folder, f"{re.sub('[ :]', '-', name)}.{self.ranks}.{key}.tsp")
            if os.path.exists(path):
                return load(path), ""
            if os.path.exists(path + ".refused"):
                with open(path + ".refused", encoding="utf-8") as file:
                    return None, file.read()
        try:
            program, why = compile(make(), target=self.target, ranks=self.ranks, machine=self.machine or None, check=self.check,
                                   deterministic=deterministic), ""
        except CompileError as error:
            errors = [one.message for one in error.diagnostics if one.severity == "error"]
            program, why = None, (errors or [str(error)])[0].splitlines()[0]
        except (Error, Usage) as error:
            program, why = None, str(error).splitlines()[0]
        if path:
            os.makedirs(self.folder, exist_ok=True)
            _files.write(path if program else path + ".refused", program.bytes if program else why.encode())
        return program, why


class Arm:
    """What is timed. `what`: its name; `role`: sequence, matmul, communication, fused, probe."""

    def __init__(self, what, role, mode):
        self.what, self.role, self.mode = what, role, mode
        self.seconds, self.host, self.late = [], [], 0.0
        self.refused, self.failure, self.error, self.is_verified = "", "", None, False
        self.lacks_kernels = False  # why it is refused

    def prepare(self, memory, sets):
        """Collective, outside of what is timed."""

    def run(self, number, start, count, spins):
        """(begin, enqueued, end) in ns, of `count` runs with set `number`."""
        raise NotImplementedError

    def poison(self, number):
        """Overwrites all that a run writes."""

    def result(self, number):
        """This rank's part of the result, as f32."""
        raise NotImplementedError

    def tensor(self, torch, number):
        """The same as a tensor of torch, on its device."""
        raise NotImplementedError

    def release(self):
        """Gives memory back."""


class ProgramArm(Arm):
    """A program of Tandem. A graph is captured with its addresses: each set of inputs has its own instance."""

    def __init__(self, what, role, mode, program, context):
        super().__init__(what, role, mode)
        self.program, self.context, self.timed, self.results = program, context, [], []
        self.inputs = []  # by set: arrays by name

    def prepare(self, memory, sets):
        context = self.context
        arguments = self.program.arguments(context)
        shared, program = {}, None
        for number in range(sets):
            tensors, inputs = [], {}
            for index, one in enumerate(arguments):
                if not one.present:
                    tensors.append(None)
                elif one.is_result:
                    shared.setdefault(index, memory.empty(one.dtype, one.local_shape))
                    tensors.append(shared[index])
                else:
                    shard = self.program.shard(index, context=context)
                    inputs[one.name] = memory.input(one.name, one.dtype, one.local_shape, (shard.offset, shard.term), number)
                    tensors.append(inputs[one.name])
            if program is None or self.mode == "graph":
                program = Program(self.program.bytes)
            self.inputs.append(inputs)
            self.timed.append(_tandem.TimedProgram(program, context, tensors))
        self.results = [(arguments[index], array) for index, array in shared.items()]

    def run(self, number, start, count, spins):
        return self.timed[number].run(start, count, spins)

    def poison(self, number):
        for _, array in self.results:
            array.fill(self.context, b"\xff")  # NaN in each type of floats

    def result(self, number):
        (argument, array), = self.results
        return numbers(argument.dtype, array.read(self.context), argument.local_shape)

    def tensor(self, torch, number):
        return torch.tensor(self.results[0][1]).float()

    def release(self):
        self.timed, self.results, self.inputs = [], [], []
