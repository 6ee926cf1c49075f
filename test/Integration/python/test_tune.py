# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tandem.tune."""

import importlib
import json

import numpy as np
import pytest

import tandem
from conftest import error, rows

tp = tandem.Mesh("tp", x=4)


@tandem.fuse(x=tandem.TensorType("f32", (None, 64), tp["x", None]), w=tandem.TensorType("f32", (64, 32), tp[None, None]),
             results=tp[None, None])
def product(x, w):
    return x @ w


def tuned(world, x, w, path, **options):
    options = {"repeats": 2, "others": 2, **options}
    return world.run(lambda context: tandem.tune(product, rows(x, context), w, path=path, machine="cpu2", **options))


def test_tune(world, random, tmp_path):
    """The same choice on all ranks; the file is what `compile` reads, and keeps what it knows of other loops."""
    x, w, path = random(256, 64), random(64, 32), tmp_path / "choices.json"
    programs = tuned(world, x, w, path)
    assert len({program.bytes for program in programs}) == 1
    (loop,) = json.loads(path.read_text())["loops"]
    assert loop["what"] in str(programs[0].explain("cpu2"))  # compiles once more
    assert 0 < loop["seconds"] <= loop["plain"] and loop["signature"] and loop["what"]
    compiled = product.compile(shapes={"x": (256, 64)}, machine="cpu2", tuned=path)
    assert compiled.bytes == programs[0].bytes
    (chosen,) = compiled._loops
    assert chosen["source"] == "tuned" and chosen["schedule"] == loop["what"]
    for y in world.run(lambda context: compiled(rows(x, context), w)):
        assert error(y, x @ w) < 1e-5

    other = random(512, 64)
    tuned(world, other, w, path)
    assert len(json.loads(path.read_text())["loops"]) == 2
    tuned(world, other, w, path)
    assert len(json.loads(path.read_text())["loops"]) == 2


def test_torch(world, random, tmp_path, monkeypatch):
    """Tensors of torch are made in one place, which is not that of the other libraries."""
    torch = pytest.importorskip("torch")
    monkeypatch.delattr(importlib.import_module("tandem._frameworks"), "make")
    x, w = torch.tensor(random(256, 64)), torch.tensor(random(64, 32))

    def run(context):
        mine = x.chunk(context.world_size)[context.rank]
        program = tandem.tune(product, mine, w, path=tmp_path / "choices.json", machine="cpu2", repeats=2, others=2)
        return program(mine, w)

    for y in world.run(run):
        assert isinstance(y, torch.Tensor) and error(y.numpy(), (x @ w).numpy()) < 1e-5


def test_new_tensors(random):
    assert tandem._tandem.new_tensor(None, "i8", (2, 3)).dtype == np.int8
    made = tandem._tandem.new_tensor(random(4, 4), "f64", (5,))
    assert made.dtype == np.float64 and made.shape == (5,)
    with pytest.raises(tandem.ArgumentError, match='expected the name of an element type, found "f31"'):
        tandem._tandem.new_tensor(None, "f31", (1,))


def test_file_of_another_machine(world, random, tmp_path):
    path = tmp_path / "choices.json"
    path.write_text(json.dumps({"tandem_tuned": 1, "machine": "abacus", "target": "cpu-local", "loops": []}))
    with pytest.raises(tandem.ArgumentError, match='was measured on "abacus"'):
        tuned(world, random(256, 64), random(64, 32), path)


@pytest.mark.parametrize("options, message", [
    ({"repeats": 0}, "expected repeats"), ({"tuned": "old.json"}, "expected path= alone, found tuned='old.json' too")])
def test_errors(world, random, tmp_path, options, message):
    with pytest.raises(tandem.ArgumentError, match=message):
        tuned(world, random(256, 64), random(64, 32), tmp_path / "choices.json", **options)


def test_function_with_choices(world, random, tmp_path, monkeypatch):
    """Choices that the function is compiled with elsewhere are not in the way."""
    monkeypatch.setitem(product.options, "tuned", tmp_path / "old.json")
    tuned(world, random(256, 64), random(64, 32), tmp_path / "choices.json")
    assert len(json.loads((tmp_path / "choices.json").read_text())["loops"]) == 1
