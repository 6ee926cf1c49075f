# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The type stub agrees with the package; docstrings; the progress line; shards."""

import ast
import inspect
import io
import math
import os
import re
import time

import numpy as np
import pytest
from conftest import error, rows
from test_programs import TEXT

import tandem
from tandem import _progress

STUB = os.path.join(os.path.dirname(tandem.__file__), "__init__.pyi")


def declared():
    with open(STUB, encoding="utf-8") as stub:
        return {node.name: node for node in ast.parse(stub.read()).body
                if isinstance(node, (ast.FunctionDef, ast.ClassDef))}


def parameters(node):
    given = node.args
    return ([one.arg for one in [*given.posonlyargs, *given.args]], given.vararg and given.vararg.arg,
            [one.arg for one in given.kwonlyargs], given.kwarg and given.kwarg.arg)


def found_parameters(function):
    kinds = inspect.Parameter
    by_kind = {}
    for one in inspect.signature(function).parameters.values():
        by_kind.setdefault(one.kind, []).append(one.name)
    return (by_kind.get(kinds.POSITIONAL_ONLY, []) + by_kind.get(kinds.POSITIONAL_OR_KEYWORD, []),
            *(names[0] if names else None for names in [by_kind.get(kinds.VAR_POSITIONAL)]),
            by_kind.get(kinds.KEYWORD_ONLY, []),
            *(names[0] if names else None for names in [by_kind.get(kinds.VAR_KEYWORD)]))


def test_stub_names():
    public = {name for name in tandem.__all__ if not inspect.ismodule(getattr(tandem, name))}
    assert set(declared()) == public


def test_stub_parameters():
    compared = 0
    for name, node in declared().items():
        found = getattr(tandem, name)
        if isinstance(node, ast.FunctionDef):
            if inspect.isfunction(found):
                assert parameters(node) == found_parameters(found), name
                compared += 1
            continue
        for method in node.body:
            if not isinstance(method, ast.FunctionDef):
                continue
            assert hasattr(found, method.name), (name, method.name)
            if inspect.isfunction(vars(found).get(method.name)):
                assert parameters(method) == found_parameters(vars(found)[method.name]), (name, method.name)
                compared += 1
    assert compared > 60


def test_stub_is_complete():
    """Public methods of the package's own classes are declared."""
    for name, node in declared().items():
        found = getattr(tandem, name)
        if inspect.isclass(found) and found.__module__ != "tandem._tandem":
            known = {method.name for method in node.body if isinstance(method, ast.FunctionDef)}
            missing = {member for member, value in vars(found).items()
                       if not member.startswith("_") and (inspect.isfunction(value) or isinstance(value, property))}
            assert missing <= known, (name, missing - known)


def test_stub_attributes():
    """Properties without a setter, which C++ classes have too, are declared as such: checkers then reject assignments."""
    for name, node in declared().items():
        found = getattr(tandem, name)
        if inspect.isclass(found):
            properties = {member for one in found.__mro__ for member, value in vars(one).items()
                          if isinstance(value, property) and value.fset is None and not member.startswith("_")}
            methods = {method.name for method in node.body if isinstance(method, ast.FunctionDef)
                       and any(isinstance(one, ast.Name) and one.id == "property" for one in method.decorator_list)}
            assert methods == properties, name


@pytest.mark.parametrize("name", [name for name in tandem.__all__ if callable(getattr(tandem, name))])
def test_docstrings(name):
    assert getattr(tandem, name).__doc__


class Terminal(io.StringIO):
    def isatty(self):
        return True


#: What a cell of a notebook writes to: no terminal. It shows "\r" as one does.
Cell = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})


def test_progress(monkeypatch):
    monkeypatch.setattr(_progress, "DELAY", 0.05)
    for out, variable, shown in ((Terminal(), "", True), (Cell(), "", True), (Terminal(), "0", False), (Cell(), "0", False),
                                 (io.StringIO(), "", False)):
        monkeypatch.setattr("sys.stderr", out)
        monkeypatch.setenv("TANDEM_PROGRESS", variable)
        with _progress.progress("compiling f"):
            deadline = time.monotonic() + 5
            while shown and "compiling f" not in out.getvalue() and time.monotonic() < deadline:
                time.sleep(0.01)
        assert ("tandem: compiling f [" in out.getvalue()) == shown
        end = r"\r\x1b\[2K$" if isinstance(out, Terminal) else r"\r +\r$"
        assert not shown or re.search(end, out.getvalue())  # and is gone again
        assert "\x1b" not in out.getvalue() or isinstance(out, Terminal)


def test_quick_compiles_print_nothing(monkeypatch):
    out = Terminal()
    monkeypatch.setattr("sys.stderr", out)
    with _progress.progress("compiling f"):
        pass
    assert out.getvalue() == ""


def test_shards(world, random):
    program = tandem.compile(TEXT, mesh={"x": 4}, shapes={"x": (32, 16)})
    x = random(32, 16)

    def run(context):
        mine, last = program.shard("x"), program.shard(0, rank=3)
        assert mine == (True, 0, 128 * context.rank, mine.extents, mine.strides, (8, 16))
        np.testing.assert_array_equal(mine.of(x), rows(x, context))
        np.testing.assert_array_equal(last.of(x), x[24:])
        assert program.shard("w").of(random(16, 12)).shape == (16, 12)
        with pytest.raises(tandem.ArgumentError, match="an argument of x, w, y, found 'z'"):
            program.shard("z")
        with pytest.raises(tandem.ArgumentError):
            program.shard("x", rank=4)

    world.run(run)


def test_shards_in_blocks(world, random):
    program = tandem.compile("""
#tp = #tandem.mesh<"tp", ["x" = 4]>
!x = tensor<11x3xf32, #fusion.axes<#tp, [serial(2) * didx("x"), -]>>
func.func @doubled(%x: !x {fusion.name = "x"}) -> (!x {fusion.name = "y"}) {
  %y = arith.addf %x, %x : !x
  return %y : !x
}""")
    x = random(11, 3)

    def run(context):
        part = program.shard("x")
        # Blocks of 2 rows: 8 and 9 are device 0's second block, 10 is device 1's.
        expected = x[[[0, 1, 8, 9], [2, 3, 10], [4, 5], [6, 7]][context.rank]]
        np.testing.assert_array_equal(part.of(x), expected)
        np.testing.assert_array_equal(program(expected), 2 * expected)

    world.run(run)


def test_documentation():
    """The first program of docs/python.md."""
    page = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "docs", "python.md")
    with open(page, encoding="utf-8") as text:
        code = re.search(r"```python\n(.*?)```", text.read(), re.S).group(1)
    found = {}
    exec(compile(code, page, "exec"), found)
    h = found["x"] @ found["w"]
    expected = h * 0.5 * (1 + np.vectorize(math.erf)(h / math.sqrt(2)))
    assert len(found["y"]) == 4 and error(np.hstack(found["y"]), expected) < 1e-5


def test_environment_variables():
    """Each variable that the libraries read is in the table of docs/operations.md."""
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")
    with open(os.path.join(root, "docs", "operations.md"), encoding="utf-8") as text:
        listed = set(re.findall(r"TANDEM_[A-Z0-9_]+", text.read().split("## Environment variables")[1].split("\n## ")[0]))
    read = set()
    for folder in ("lib", "runtime/lib"):
        for path, _, names in os.walk(os.path.join(root, folder)):
            for name in names:
                if name.endswith((".cpp", ".h", ".py")):
                    with open(os.path.join(path, name), encoding="utf-8") as text:
                        read |= set(re.findall(r'(?:getenv\(|environ[.a-z]*[(\[]|"(?=\w+" in os.environ)|'
                                               r'SharedLibrary::open\(\s*|\{)"?(TANDEM_[A-Z0-9_]+)"', text.read()))
    assert len(read) > 10 and read <= listed, read - listed


def test_local_queries(world):
    """One rank asks, the others do not: nothing is prepared, so it does not wait for them."""
    program = tandem.compile(TEXT, mesh={"x": 4}, shapes={"x": (32, 16)})

    def run(context):
        if context.rank == 2:
            return program.memory().arena, len(program.arguments()), program.shard("x").offset

    assert world.run(run)[2] == (program_arena(world, program), 3, 256)


def program_arena(world, program):
    """As the ranks see it that have run the program."""
    def run(context):
        program(np.zeros((8, 16), "f"), np.zeros((16, 12), "f"))
        return program.memory().arena

    return world.run(run)[2]


def test_memory(world):
    """Slices of x that arrive need memory: twice as much for twice as many rows."""
    needs = [world.run(lambda context: tandem.compile(TEXT, mesh={"x": 4}, shapes={"x": (count, 16)}).memory())
             for count in (32, 64)]
    for small, large in zip(*needs):
        assert 0 < small.arena < large.arena and small.symmetric == 0
