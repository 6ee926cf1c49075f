# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Signatures, annotations and docstrings; the progress line; shards."""

import ast
import inspect
import io
import math
import os
import re
import textwrap
import time

import numpy as np
import pytest
from conftest import error, rows
from test_programs import TEXT

import tandem
from tandem import _progress

def public(kind):
    return [(name, getattr(tandem, name)) for name in tandem.__all__ if kind(getattr(tandem, name))]


FUNCTIONS = public(inspect.isfunction)
METHODS = [(f"{name}.{member}", value) for name, found in public(inspect.isclass) if found.__module__ != "tandem._tandem"
           for member, value in vars(found).items()
           if inspect.isfunction(value) and (member in ("__init__", "__call__") or not member.startswith("_"))
           and value.__module__.startswith("tandem") and not (member == "__init__" and issubclass(found, tuple))]
#: Those whose options are other ones: of a schedule, of parameters of a function, axes of a mesh.
OPEN = ("Mesh.__init__", "Value.__init__", "Value.reshard", "reshard", "fuse")


@pytest.mark.parametrize("name, function", FUNCTIONS + METHODS, ids=lambda value: value if isinstance(value, str) else "")
def test_signatures(name, function):
    """Each parameter has an annotation and, of options, a name."""
    signature = inspect.signature(function)
    for parameter in signature.parameters.values():
        assert parameter.annotation is not parameter.empty or parameter.name == "self", parameter
        assert parameter.kind is not parameter.VAR_KEYWORD or name in OPEN, parameter
    # Functions made by one that is annotated have what it says.
    assert signature.return_annotation is not signature.empty, name


def test_compile_options():
    """Those of the compiler, declared in tandem-c/CompileOptions.def, under their names and with their types."""
    kinds = {str: {"str | None", "Path | None"}, bool: {"bool"}, int: {"int | None"}}
    declared = {name: kinds[kind] for name, kind in tandem._tandem.compile_options().items() if name != "bound"}
    for function, others in ((tandem.compile, set()), (tandem.Fusion.compile, set()), (tandem.tune, {"tuned"})):
        found = {one.name: one for one in inspect.signature(function).parameters.values() if one.kind is one.KEYWORD_ONLY}
        assert declared.keys() - others <= found.keys(), function
        assert {"mesh", "shapes", "name"} | declared.keys() >= found.keys() - {"path", "repeats", "others", "context"}, function
        for name in declared.keys() - others - ({"machine"} if function is tandem.tune else set()):
            assert found[name].annotation in declared[name], (function, name)
    assert tandem.CompileOptions.__annotations__.keys() == declared.keys() | {"mesh", "shapes", "name"}


@pytest.mark.parametrize("old, new", [("Tensor", "TensorType"), ("Shard", "LocalShard"), ("stream", "loop")])
def test_renamed(old, new):
    with pytest.raises(AttributeError, match=f"no attribute '{old}': its name is tandem.{new} now"):
        getattr(tandem, old)
    assert new in tandem.__all__ and old not in tandem.__all__


def test_unknown_name():
    with pytest.raises(AttributeError, match="module 'tandem' has no attribute 'nothing'$"):
        _ = tandem.nothing


def extension_parameters(function):
    """Of a function of nanobind: names, and which of them are keyword-only."""
    given = ast.parse(re.sub(r"\\(\d+)", r"\1", function.__nb_signature__[0][0]) + ": ...").body[0].args
    return [one.arg for one in given.posonlyargs + given.args][1:], [one.arg for one in given.kwonlyargs]


def test_context_options():
    """`init` and `local_world` have the options of Context."""
    positional, keywords = extension_parameters(tandem.Context.__init__)
    for function, without in ((tandem.init, set()), (tandem.local_world, {"world", "rank", "bootstrap"})):
        found = inspect.signature(function).parameters.values()
        assert [one.name for one in found if one.kind is one.KEYWORD_ONLY] == [name for name in keywords if name not in without]
        assert [one.name for one in found if one.kind is one.POSITIONAL_OR_KEYWORD and one.name != "size"] == positional


def test_context_docstring():
    positional, keywords = extension_parameters(tandem.Context.__init__)
    arguments = tandem.Context.__doc__.split("\nArgs:\n")[1].split("\nRaises")[0]
    named = [name for line in arguments.splitlines() if (match := re.match(r"    (\w[\w, ]*):", line)) for name in match[1].split(", ")]
    assert named == positional + keywords


def test_extension_stub():
    """The stub of the extension has its public classes and their parameters."""
    with open(os.path.join(os.path.dirname(tandem.__file__), "_tandem.pyi"), encoding="utf-8") as stub:
        declared = {node.name: node for node in ast.parse(stub.read()).body if isinstance(node, ast.ClassDef)}
    assert declared.keys() == {"World", "Context", "Array", "Program", "Fusion"}
    for name, node in declared.items():
        found = getattr(tandem._tandem, name)
        members = {one.name: one for one in node.body if isinstance(one, ast.FunctionDef)}
        properties = {member for member, value in vars(found).items() if isinstance(value, property) and value.fset is None}
        assert {member for member, one in members.items() if one.decorator_list} == properties
        assert members.keys() >= {member for member in vars(found) if not member.startswith("_")} - {"most_programs"}
        for member, one in members.items():
            function = getattr(found, member)
            given = [each.arg for each in one.args.posonlyargs + one.args.args][1:], [each.arg for each in one.args.kwonlyargs]
            if hasattr(function, "__nb_signature__") and "*args" not in function.__nb_signature__[0][0] and not one.args.posonlyargs:
                assert extension_parameters(function) == ((given[0], []) if one.args.kwarg else given), (name, member)


@pytest.mark.parametrize("name, function", [
    (name, function) for name, function in FUNCTIONS + [("local_world", tandem.local_world)]
    if any(one.kind is one.KEYWORD_ONLY for one in inspect.signature(function).parameters.values())])
def test_sections(name, function):
    """Docstrings of functions with options say what each is, what is returned, and have an example in Python."""
    note = inspect.getdoc(function)
    arguments = note.split("\nArgs:\n")[1].split("\nReturns:")[0]
    named = {one for line in re.sub(r"\n {8}", " ", arguments).splitlines() if (match := re.match(r"    ([\w, ]+):", line))
             for one in match[1].split(", ")}
    others = tandem.CompileOptions.__annotations__.keys() - {"machine"} if name == "tune" else set()
    assert named == inspect.signature(function).parameters.keys() - others
    returns = inspect.signature(function).return_annotation
    assert returns in ("None", None, inspect.Parameter.empty) or "\nReturns:\n" in note
    ast.parse(textwrap.dedent(note.split("\nExample:\n")[1]))


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
