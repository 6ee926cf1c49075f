# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""From traced operations to the text of a fusion.

A value without axes is undecided: the compiler chooses. Undecided and decided values are connected only by a reshard, so types
are decided here where a result, or another operand of an elementwise operation, says what they should be.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ._errors import ArgumentError
from ._mesh import Axes, Mesh
from ._trace import Place, Value


class _Graph:
    """The operations that the results need, in order, with decided types.

    An elementwise operation has one type for its operands and its result. So the values that such operations connect
    are one class, whose axes are those of its first decided operand, else those of the first result in it.
    """

    def __init__(self, arguments: Sequence[Value], results: Sequence[Value], result_axes: Sequence[Axes]) -> None:
        self.order: list[Value] = []
        self.parents: dict[int, int] = {}
        self.axes: dict[int, Axes] = {}
        self.adapted: dict[tuple[int, Axes], Value] = {}
        self.results = list(results)
        self.sort(arguments)
        operations = list(self.order)
        for value in operations:
            if value.details.get("elementwise"):
                for operand in value.operands:
                    # Results of one call are decided together, by the compiler.
                    if operand.axes is None and operand.op not in ("constant", "result"):
                        self.parents[self.root(operand)] = self.root(value)
        for value in operations:
            if value.details.get("elementwise"):
                for operand in value.operands:
                    if operand.axes is not None:
                        self.axes.setdefault(self.root(value), operand.axes)
        for value, axes in zip(results, result_axes):
            if value.axes is None and value.op != "result":
                self.axes.setdefault(self.root(value), axes)
        for value in operations:
            if value.axes is None and value.op not in ("constant", "result"):
                value.axes = self.axes.get(self.root(value))
        for value in operations:
            if value.details.get("elementwise"):
                value.operands = [self.adapt(operand, value.axes) for operand in value.operands]
        self.results = [self.adapt(value, axes) for value, axes in zip(results, result_axes)]
        used = {id(operand) for value in self.order for operand in value.operands} | set(map(id, self.results))
        self.order = [value for value in self.order if id(value) in used]

    def sort(self, arguments: Sequence[Value]) -> None:
        seen = {id(argument) for argument in arguments}
        stack = [(value, False) for value in reversed(self.results)]
        while stack:  # not recursive: a chain of operations may be long
            value, done = stack.pop()
            if done:
                self.order.append(value)
            elif id(value) not in seen:
                if value.op == "argument":
                    raise ArgumentError(f"expected values of this function, found argument {value.details['name']} of another")
                seen.add(id(value))
                stack.append((value, True))
                stack.extend((operand, False) for operand in reversed(value.operands))

    def root(self, value: Value) -> int:
        key = id(value)
        while self.parents.get(key, key) != key:
            key = self.parents[key]
        return key

    def adapt(self, value: Value, axes: Axes | None) -> Value:
        """The value with these axes: a reshard of it if it has others."""
        if value.axes == axes or axes is None:
            return value
        key = id(value), axes
        if key not in self.adapted:
            if value.op == "constant":
                made = Value("constant", [], value.shape, value.dtype, axes, number=value.details["number"])
            else:
                made = Value("fusion.reshard", [value], value.shape, value.dtype, axes, attributes=[])
            made.place = value.place
            at = next((index for index, other in enumerate(self.order) if other is value), -1)
            self.order.insert(at + 1, made)
            self.adapted[key] = made
        return self.adapted[key]


def _literal(number: float, dtype: str) -> str:
    if dtype.startswith("i"):
        half = 1 << int(dtype[1:]) - 1
        least, most = (0, 1) if dtype == "i1" else (-half, half - 1)
        if not least <= number <= most or number != int(number):  # nor is NaN
            raise ArgumentError(f"expected a whole number from {least} to {most} beside {dtype}, found {number!r}")
        return str(bool(number)).lower() if dtype == "i1" else str(int(number))
    if not math.isfinite(number):
        bits = {"f32": "7F800000", "f16": "7C00", "bf16": "7F80", "f64": "7FF0000000000000", "f8E5M2": "7C",
                "f8E4M3FN": "7F"}[dtype]  # which has no infinity: NaN
        if math.isnan(number):
            bits = {"f32": "7FC00000", "f16": "7E00", "bf16": "7FC0", "f64": "7FF8000000000000", "f8E5M2": "7E",
                    "f8E4M3FN": "7F"}[dtype]
        elif number < 0:
            bits = f"{int(bits, 16) | 1 << (4 * len(bits) - 1):X}"
        return "0x" + bits
    text = repr(float(number))
    if "." not in text:  # 1e-06
        text = text.replace("e", ".0e")
    return text


def _type(value: Value) -> str:
    shape = "".join(f"{extent}x" for extent in value.shape)
    return f"tensor<{shape}{value.dtype}{', ' + value.axes._text() if value.axes is not None else ''}>"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\5C").replace('"', "\\22").replace("\n", "\\0A") + '"'


def _symbol(name: str) -> str:
    return f"@{name}" if name.isascii() and name.isidentifier() else "@" + _quoted(name)


def _loc(place: Place | None) -> str:
    return f" loc({_quoted(place[0])}:{place[1]}:{place[2]})" if place and place[0] else ""


def _attributes(parts: Sequence[str]) -> str:
    return f" {{{', '.join(parts)}}}" if parts else ""


def _ranked(dtype: str, shape: Sequence[int | str]) -> str:
    return f"tensor<{''.join(f'{extent}x' for extent in shape)}{dtype}>"


def _declarations(name: str, order: Sequence[Value]) -> list[str]:
    """One for each kernel that is called; it serves all extents."""
    texts: dict[str, str] = {}
    for value in order:
        if value.op != "fusion.call":
            continue
        kernel = value.details["kernel"]
        sides = [", ".join(_ranked(dtype, "?" * len(shape)) for dtype, shape in types)
                 for types in ([(one.dtype, one.shape) for one in value.operands], value.details["types"])]
        text = f"func.func private {_symbol(kernel)}({sides[0]}) -> ({sides[1]})"
        if kernel == name:
            raise ArgumentError(f"{name}: expected a kernel of another name than the fusion")
        if texts.setdefault(kernel, text) != text:
            raise ArgumentError(f"{name}: call: expected the ranks and dtypes of the first call of {kernel}, "
                                f"found others")
    return list(texts.values())


def _operation(value: Value, names: Mapping[int, str]) -> str:
    """The text of one operation without its location."""
    details, result = value.details, _type(value)
    operands = [names[id(operand)] for operand in value.operands]
    types = [_type(operand) for operand in value.operands]
    op = value.op
    if op == "constant":
        return f"arith.constant dense<{_literal(details['number'], value.dtype)}> : {result}"
    if details.get("elementwise"):
        if "predicate" in details:
            return f"{op} {details['predicate']}, {', '.join(operands)} : {types[0]}"
        if op == "arith.select":
            return f"{op} {', '.join(operands)} : {types[0]}, {result}"
        if "source" in details:
            return f"{op} {operands[0]} : {types[0]} to {result}"
        return f"{op} {', '.join(operands)} : {result}"
    if op == "fusion.matmul":
        flags = [flag for flag in ("transpose_a", "transpose_b") if details[flag]]
        bias = f" bias {operands[2]}" if len(operands) == 3 else ""
        return (f"{op} {operands[0]}, {operands[1]}{bias}{_attributes(flags + details['attributes'])} : "
                f"{', '.join(types)} -> {result}")
    if op in ("fusion.attention", "fusion.grouped_matmul"):
        return f"{op} {', '.join(operands)}{_attributes(details['attributes'])} : {', '.join(types)} -> {result}"
    if op == "fusion.call":
        made = ", ".join(_ranked(*one) for one in details["types"])
        return (f"{op} {_symbol(details['kernel'])}({', '.join(operands)}) dims {_quoted(details['dims'])}"
                f"{_attributes(details['attributes'])} : ({', '.join(types)}) -> ({made})")
    if op == "fusion.concat":
        return f"{op} {', '.join(operands)} dim {details['dim']} : ({', '.join(types)}) -> {result}"
    if op == "fusion.reduce":
        kept = _attributes(["keep_dims"] if details["keepdims"] else [])
        return f"{op} {details['kind']} {operands[0]} dims {details['dims']}{kept} : {types[0]} -> {result}"
    middle = {"fusion.slice": lambda: f" offsets {details['offsets']} steps {details['steps']}",
              "fusion.permute": lambda: f" {details['order']}",
              "fusion.broadcast": lambda: f" dims {details['dims']}",
              "fusion.reshape": lambda: "",
              "fusion.reshard": lambda: _attributes(details["attributes"])}[op]()
    return f"{op} {operands[0]}{middle} : {types[0]} -> {result}"


def emit(name: str, arguments: Sequence[Value], results: Sequence[Value], result_axes: Sequence[Axes], result_names: Sequence[str],
         mesh_sizes: Mapping[str, int | None], place: Place | None) -> str:
    """The text of the fusion `name`. `arguments` are values with axes, each with the detail `name`. `place`: of the
    function, (file, line, column). None: the text has no places, so it is the same wherever it was traced."""
    for value, axes in zip(results, result_axes):
        if len(axes.digits) != value.ndim:
            raise ArgumentError(f"{name}: expected result axes of {value.ndim} dimensions for {value!r}, found {axes!r}")
    graph = _Graph(arguments, results, result_axes)
    meshes: dict[str, Mesh] = {}
    for value in [*arguments, *graph.order, *graph.results]:
        if value.axes is not None:
            known = meshes.setdefault(value.axes.mesh.name, value.axes.mesh)
            if known != value.axes.mesh:
                raise ArgumentError(f"{name}: expected meshes with different names, found two named {known.name!r}: "
                                    f"{known!r} and {value.axes.mesh!r}")
    lines = [f"#{mesh.name} = {mesh._text(mesh_sizes)}" for mesh in meshes.values()]
    # Names of Python may have letters that those of values cannot have.
    names = {id(argument): f"%{argument.details['name']}" if argument.details["name"].isascii() else f"%arg.{number}"
             for number, argument in enumerate(arguments)}
    # Numbers cannot be names of arguments.
    for number, value in enumerate(graph.order):
        names[id(value)] = f"%{number}"
        if value.op == "result":
            names[id(value)] = names[id(value.operands[0])] + f"#{value.details['number']}"
    lines += _declarations(name, graph.order)
    parameters = ", ".join(f"{names[id(argument)]}: {_type(argument)} {{fusion.name = \"{argument.details['name']}\"}}"
                           for argument in arguments)
    returned = ", ".join(f'{_type(value)} {{fusion.name = "{label}"}}'
                         for value, label in zip(graph.results, result_names))
    lines.append(f"func.func {_symbol(name)}({parameters}) -> ({returned}) {{")
    for value in graph.order:
        if value.op != "result":
            count = f":{len(value.details['types'])}" if value.op == "fusion.call" else ""
            lines.append(f"  {names[id(value)]}{count} = {_operation(value, names)}{_loc(place and value.place)}")
    lines.append(f"  return {', '.join(names[id(value)] for value in graph.results)} : "
                 f"{', '.join(_type(value) for value in graph.results)}{_loc(place)}")
    lines.append(f"}}{_loc(place)}")
    return "\n".join(lines) + "\n"
