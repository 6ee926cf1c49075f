# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A fusion as data, and its text."""

import dataclasses
import itertools
import math
import os


@dataclasses.dataclass(frozen=True)
class Mesh:
    name: str
    axes: tuple  # of (name, size), outermost first
    devices: tuple = ()  # world ranks; empty: 0 ... n-1
    is_open: bool = False  # sizes are written as `?`

    def size(self, axis):
        return dict(self.axes)[axis]

    @property
    def ranks(self):
        return self.devices or tuple(range(math.prod(size for _, size in self.axes)))

    def __str__(self):
        axes = ", ".join(f'"{name}" = {"?" if self.is_open else size}' for name, size in self.axes)
        devices = f", devices = [{', '.join(map(str, self.devices))}]" if self.devices else ""
        return f'#tandem.mesh<"{self.name}", [{axes}]{devices}>'


@dataclasses.dataclass(frozen=True)
class Axes:
    mesh: Mesh
    dims: tuple  # one tuple of digits per dimension; a digit is ("didx", axis), ("stream", n), ("serial", n), ("stream", None)
    partial: tuple = ()
    kind: str = "sum"

    def __str__(self):
        def digit(d):
            kind, what = d
            return f'didx("{what}")' if kind == "didx" else kind if what is None else f"{kind}({what})"

        dims = ", ".join(" * ".join(map(digit, dim)) or "-" for dim in self.dims)
        partial = ""
        if self.partial:
            kind = "" if self.kind == "sum" else self.kind + " "
            axes = ", ".join(f'"{axis}"' for axis in self.partial)
            partial = f", partial = {kind}[{axes}]"
        return f"#fusion.axes<#{self.mesh.name}, [{dims}]{partial}>"


@dataclasses.dataclass(frozen=True)
class Value:
    name: str
    shape: tuple
    dtype: str
    axes: Axes = None  # None: undecided
    bound: float = 1  # of the absolute values, roughly
    floor: float = 0  # no absolute value is smaller
    exact: bool = False  # the same bits, however the program runs

    def type(self, unknown=()):
        """`unknown`: dimensions whose extent is written as `?`."""
        extents = "".join(f"{'?' if i in unknown else extent}x" for i, extent in enumerate(self.shape))
        axes = f", {self.axes}" if self.axes else ""
        return f"tensor<{extents}{self.dtype}{axes}>"


@dataclasses.dataclass(frozen=True)
class Op:
    """`kind` is an op of the fusion dialect (without prefix), of arith or of math (with it), or "constant"."""

    kind: str
    operands: tuple  # names
    result: Value
    attributes: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Program:
    seed: int
    meshes: tuple
    arguments: tuple  # of Value
    ops: tuple
    results: tuple  # names
    target: str = "cpu-local"
    workers: int = 4
    gather: str = "before"
    disabled: tuple = ()  # passes that are left out
    machine: str = ""  # schedules and slices by its costs; "eager": slices are always worth it
    #: argument name -> dimensions written as `?`
    unknown: dict = dataclasses.field(default_factory=dict)
    #: Every op's values share a stream digit, so one loop has them all.
    one_loop: bool = False
    deterministic: str = ""  # "bitwise", "batch" or "tp"
    #: Extents vary from run to run, from 0 to this; 0: they do not. Those of the runs, the last of which is looked at.
    bound: int = 0
    extents: tuple = ()
    varying: dict = dataclasses.field(default_factory=dict)  # value name -> dimensions that vary

    def value(self, name):
        for value in itertools.chain(self.arguments, (op.result for op in self.ops)):
            if value.name == name:
                return value
        raise KeyError(name)

    def options(self):
        """Of tandem-compile."""
        options = [f"--target={self.target}", f"--workers={self.workers}", f"--gather={self.gather}"]
        if self.machine:
            eager = os.path.join(os.path.dirname(os.path.abspath(__file__)), "eager.json")
            options.append(f"--machine={eager if self.machine == 'eager' else self.machine}")
        options += [f"--disable-pass={name}" for name in self.disabled]
        if self.deterministic:
            options.append(f"--deterministic={self.deterministic}")
        if self.bound:
            options.append(f"--bound={self.bound}")
        values = itertools.chain(self.arguments, (op.result for op in self.ops))
        used = {value.axes.mesh for value in values if value.axes}
        for mesh in self.meshes:
            if mesh.is_open and mesh in used:
                options += [f"--mesh={mesh.name}.{name}={size}" for name, size in mesh.axes]
        return options

    def live(self):
        """Without ops, arguments and meshes that no result needs."""
        needed = set(self.results)
        ops = []
        for op in reversed(self.ops):
            if op.result.name in needed:
                ops.append(op)
                needed.update(op.operands)
        arguments = tuple(a for a in self.arguments if a.name in needed)
        return dataclasses.replace(self, ops=tuple(reversed(ops)), arguments=arguments)

    def text(self):
        unknown = ({v.name: self.varying.get(v.name, ()) for v in (*self.arguments, *(op.result for op in self.ops))}
                   if self.bound else unknown_extents(self))
        types = {v.name: v.type(unknown[v.name])
                 for v in itertools.chain(self.arguments, (op.result for op in self.ops))}
        lines = [f"#{mesh.name} = {mesh}" for mesh in self.meshes]
        arguments = []
        for value in self.arguments:
            attributes = [f'fusion.name = "{value.name}"']
            if unknown[value.name] and not self.bound:
                attributes.append(f"fusion.shape = [{', '.join(map(str, value.shape))}]")
            arguments.append(f"    %{value.name}: {types[value.name]} {{{', '.join(attributes)}}}")
        results = [f'{types[name]} {{fusion.name = "out{i}"}}' for i, name in enumerate(self.results)]
        lines.append("func.func @f(\n" + ",\n".join(arguments) + ")\n    -> (" + ",\n        ".join(results) + ") {")
        lines += [f"  %{op.result.name} = {format_op(op, types)}" for op in self.ops]
        names = ", ".join("%" + name for name in self.results)
        lines += [f"  return {names} : {', '.join(types[name] for name in self.results)}", "}"]
        return "\n".join(lines) + "\n"


def with_words(text, op):
    """`text`, with the user's words on the op's reshards among its attributes."""
    words = [f"{key} = {value}" for key, value in op.attributes.get("words", {}).items()]
    if not words:
        return text
    head, types = text.rsplit(" : ", 1)  # an attribute may have a type, too
    flags = [head[head.index("{") + 1:-1]] if head.endswith("}") else []
    head = head[:head.index(" {")] if flags else head
    return f"{head} {{{', '.join(flags + words)}}} : {types}"


def format_op(op, types):
    return with_words(format_plain(op, types), op)


def format_plain(op, types):
    attributes = op.attributes
    names = ", ".join("%" + name for name in op.operands)
    inputs = [types[name] for name in op.operands]
    result = types[op.result.name]
    array = lambda key: f"[{', '.join(map(str, attributes[key]))}]"
    if op.kind == "constant":
        return f"arith.constant dense<{attributes['number']}> : {result}"
    if op.kind in CASTS:
        return f"{op.kind} {names} : {inputs[0]} to {result}"
    if op.kind in ("arith.cmpf", "arith.cmpi"):
        return f"{op.kind} {attributes['predicate']}, {names} : {inputs[0]}"
    if op.kind == "arith.select":
        return f"{op.kind} {names} : {inputs[0]}, {result}"
    if "." in op.kind:
        return f"{op.kind} {names} : {result}"
    if op.kind == "reshard":
        schedule = f" {{schedule = {attributes['schedule']}}}" if attributes.get("schedule") else ""
        return f"fusion.reshard {names}{schedule} : {inputs[0]} -> {result}"
    if op.kind == "matmul":
        flags = [flag for flag in ("transpose_a", "transpose_b") if attributes.get(flag)]
        flags = f" {{{', '.join(flags)}}}" if flags else ""
        operands = [f"%{name}" for name in op.operands]
        bias = f" bias {operands[2]}" if len(operands) == 3 else ""
        return f"fusion.matmul {operands[0]}, {operands[1]}{bias}{flags} : {', '.join(inputs)} -> {result}"
    if op.kind == "attention":
        flags = ["causal"] if attributes["causal"] else []
        flags += [f"zigzag = {attributes['zigzag']} : i64"] if attributes["zigzag"] else []
        flags += [f"scale = {attributes['scale']:.6e} : f64"]
        return f"fusion.attention {names} {{{', '.join(flags)}}} : {', '.join(inputs)} -> {result}"
    if op.kind == "grouped_matmul":
        flags = " {transpose_b}" if attributes["transpose_b"] else ""
        return f"fusion.grouped_matmul {names}{flags} : {', '.join(inputs)} -> {result}"
    if op.kind == "reduce":
        keep = " {keep_dims}" if attributes.get("keep_dims") else ""
        return f"fusion.reduce {attributes['reduction']} {names} dims {array('dims')}{keep} : {inputs[0]} -> {result}"
    if op.kind == "broadcast":
        return f"fusion.broadcast {names} dims {array('dims')} : {inputs[0]} -> {result}"
    if op.kind == "permute":
        return f"fusion.permute {names} {array('permutation')} : {inputs[0]} -> {result}"
    if op.kind == "reshape":
        return f"fusion.reshape {names} : {inputs[0]} -> {result}"
    if op.kind == "slice":
        return (f"fusion.slice {names} offsets {array('offsets')} steps {array('steps')} "
                f": {inputs[0]} -> {result}")
    if op.kind == "concat":
        return f"fusion.concat {names} dim {attributes['dim']} : ({', '.join(inputs)}) -> {result}"
    raise ValueError(op.kind)


CASTS = ("arith.extf", "arith.truncf", "arith.extui", "arith.uitofp", "arith.sitofp", "arith.fptosi")


def unknown_extents(program):
    """Which dimensions of each value are written as `?`: what follows from those of the arguments. Where it does not fit
    together (operands of an elementwise op must have one type), nothing is unknown."""
    unknown = {v.name: frozenset(program.unknown.get(v.name, ())) for v in program.arguments}
    nothing = {v.name: frozenset()
               for v in itertools.chain(program.arguments, (op.result for op in program.ops))}
    for op in program.ops:
        inputs = [unknown[name] for name in op.operands]
        rank = len(op.result.shape)
        if op.kind in ("reshape", "slice", "constant"):
            result = frozenset()
            if op.kind == "reshape" and inputs[0]:
                return nothing
        elif op.kind == "permute":
            result = frozenset(i for i, p in enumerate(op.attributes["permutation"]) if p in inputs[0])
        elif op.kind == "reduce":
            kept = [d for d in range(len(program.value(op.operands[0]).shape))
                    if op.attributes.get("keep_dims") or d not in op.attributes["dims"]]
            result = frozenset(i for i, d in enumerate(kept) if d in inputs[0] and d not in op.attributes["dims"])
        elif op.kind == "broadcast":
            # A `?` stands for the operand's extent: not where it is repeated.
            extents = program.value(op.operands[0]).shape
            result = frozenset(d for i, d in enumerate(op.attributes["dims"])
                               if i in inputs[0] and extents[i] == op.result.shape[d])
        elif op.kind == "concat":
            result = frozenset().union(*inputs)
        elif op.kind == "grouped_matmul":
            n = inputs[1] & {1 if op.attributes["transpose_b"] else 2}
            result = frozenset((inputs[0] - {rank - 1}) | ({rank - 1} if n else set()))
        elif op.kind == "attention":
            batch = set.intersection(*map(set, inputs)) & set(range(rank - 2))
            result = frozenset(batch | (inputs[0] & {rank - 2}) | (inputs[2] & {rank - 1}))
        elif op.kind == "matmul":
            lhs, rhs = (len(program.value(name).shape) for name in op.operands[:2])
            m = lhs - 1 if op.attributes.get("transpose_a") else lhs - 2
            n = rhs - 2 if op.attributes.get("transpose_b") else rhs - 1
            has_n, batch = rhs > 1, rank - (lhs > 1) - (rhs > 1)
            result = {rank - 1 - has_n} if lhs > 1 and m in inputs[0] else set()
            result |= {rank - 1} if has_n and n in inputs[1] else set()
            for i in range(batch):
                a, b = i - batch + lhs - 2, i - batch + rhs - 2
                if a in inputs[0] or b in inputs[1]:
                    result.add(i)
            result = frozenset(result)
        else:
            result = inputs[0]
            if any(other != result for other in inputs):
                return nothing
        unknown[op.result.name] = result
    return unknown
