# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tandem.torch on processes with gloo groups, on the CPU (docs/torch.md)."""

import ast
import inspect
import os
import time

import layers
from ranks import fork, run, together

import tandem
import tandem.torch


def test_stub():
    """The type stub has the names and parameters of the package, and each has a docstring."""
    with open(os.path.join(os.path.dirname(tandem.torch.__file__), "__init__.pyi"), encoding="utf-8") as stub:
        nodes = [node for node in ast.parse(stub.read()).body if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    assert {node.name for node in nodes} == set(tandem.torch.__all__)
    for node in nodes:
        found = getattr(tandem.torch, node.name)
        assert inspect.getdoc(found), node.name
        methods = [(node, found)] if isinstance(node, ast.FunctionDef) else [
            (method, getattr(found, method.name)) for method in node.body if isinstance(method, ast.FunctionDef)]
        for declared, function in methods:
            given = declared.args
            assert ([one.arg for one in [*given.posonlyargs, *given.args, *given.kwonlyargs]] ==
                    list(inspect.signature(function).parameters)), (node.name, declared.name)


def test_room(monkeypatch):
    """A program whose memory would not fit gets what torch keeps for later; in a capture, where that is an error, nothing.
    With torch's allocator only symmetric memory counts."""
    class Program:
        @staticmethod
        def memory(context):
            return tandem.MemoryNeeds(60, 30, 10)

    class Context:
        allocator = None

    emptied, state = [], {}
    for name, function in (("mem_get_info", lambda device: (state["free"], 1000)),
                           ("is_current_stream_capturing", lambda: state["captures"]),
                           ("empty_cache", lambda: emptied.append(dict(state)))):
        monkeypatch.setattr(f"torch.cuda.{name}", function)
    for free, captures in ((100, False), (99, False), (99, True)):
        state.update(free=free, captures=captures)
        tandem.torch._groups.make_room(Program, Context, "cuda:0")
    Context.allocator = object()
    for free in (30, 29):
        state.update(free=free, captures=False)
        tandem.torch._groups.make_room(Program, Context, "cuda:0")
    assert emptied == [{"free": free, "captures": False} for free in (99, 29)]


def test_gather():
    run("gather", 2, 8, 12, fresh=True)


def test_gather_any_number_of_tokens():
    run("gather", 3, 0, 1, 2, 7)


def test_scatter():
    run("scatter", 2, 8, 5, 1)


def test_memory():
    run("memory", 2, fresh=True)


def test_model():
    run("model", 2)


def test_compiled_model():
    run("compiled", 2)


def test_autocast():
    run("autocast", 2)


def test_dtensors():
    run("tensors", 2)


def test_groups():
    run("groups", 4)


def test_compile_pass():
    run("passes", 2)


def test_inductors_cache():
    run("cached", 2, 5)


def test_scaled():
    run("scaled", 2, 8, 5)


def test_scaled_varying_tokens():
    run("scaled_varies", 2)


def test_dynamic_shapes():
    run("dynamic", 2)


def test_layers_of_torch():
    run("torchs", 2)


def test_merged_operators():
    run("merges", 2)


def test_thin_products():
    run("thin", 2)


def test_groups_of_one_rank():
    run("alone", 2)


def test_nodes():
    run("nodes", 4)


def test_errors():
    run("errors", 2)


def test_dispatch():
    run("dispatch", 2)


def test_varying_tokens():
    run("varies", 2)


def test_logs():
    run("logs", 2)


def test_missing_rank():
    run("leaves", 2)


def test_documentation():
    run("documentation", 2)


def test_ranks_that_fail_differently():
    def start(environment, log):
        return fork(lambda: layers.main("fails", ()), environment, log)

    began = time.monotonic()
    codes, texts = together(start, 2, 100)
    assert codes == [1, 3], (codes, texts)
    assert "fails on its own" in texts[1] and "rank 1" in texts[0] and "expected an error" not in texts[0], texts
    assert time.monotonic() - began < 60, texts
