# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tandem.tune."""

import json

import numpy as np
import pytest

import tandem
from conftest import error, rows

tp = tandem.Mesh("tp", x=4)


@tandem.fuse(x=tandem.Tensor("f32", (None, 64), tp["x", None]), w=tandem.Tensor("f32", (64, 32), tp[None, None]),
             results=tp[None, None])
def product(x, w):
    return x @ w


def tuned(world, x, w, path, **options):
    return world.run(lambda context: tandem.tune(product, rows(x, context), w, path=path, machine="cpu2", repeats=2,
                                                 others=2, **options))


def test_tune(world, random, tmp_path):
    """The same choice on all ranks; the file is what `compile` reads, and keeps what it knows of other loops."""
    x, w, path = random(256, 64), random(64, 32), tmp_path / "choices.json"
    programs = tuned(world, x, w, path)
    assert len({program.bytes for program in programs}) == 1
    (loop,) = json.loads(path.read_text())["loops"]
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


def test_file_of_another_machine(world, random, tmp_path):
    path = tmp_path / "choices.json"
    path.write_text(json.dumps({"tandem_tuned": 1, "machine": "abacus", "target": "cpu-local", "loops": []}))
    with pytest.raises(tandem.ArgumentError, match='was measured on "abacus"'):
        tuned(world, random(256, 64), random(64, 32), path)


def test_errors(world, random, tmp_path):
    with pytest.raises(tandem.ArgumentError, match="expected repeats"):
        world.run(lambda context: tandem.tune(product, rows(random(256, 64), context), random(64, 32),
                                              path=tmp_path / "choices.json", machine="cpu2", repeats=0))
