# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""explain, check and simulate."""

import re
import xml.etree.ElementTree

import pytest

import tandem
from tandem import TensorType

tp = tandem.Mesh("tp", x=4)


@tandem.fuse(TensorType("bf16", (4096, 1024), tp["x", None]), TensorType("bf16", (1024, 1024), tp[None, None]),
             results=tp[None, None])
def product(x, w):
    return x @ w


@tandem.fuse(TensorType("bf16", (64, 256), tp["x", None]), TensorType("bf16", (256, 64), tp[None, None]), results=tp[None, None])
def product_of_few_rows(x, w):
    return x @ w


@pytest.fixture(scope="module")
def program():
    return product.compile(target="cuda-peer", machine="h200x4")


def test_explain(program):
    """Also of a program without predicted times: then it is compiled again."""
    certified = product.compile(target="cuda-peer", machine="h200x4", certify=True)
    for explained in (program.explain(), certified.explain(), product.compile(target="cuda-peer").explain("h200x4")):
        (loop,) = explained.loops
        assert loop["reshards"] == "all-gather" and __file__ in loop["locations"][0]
        assert loop["source"] == "cost" and len(loop["candidates"]) > 1
        assert 0 < explained.seconds < explained.baseline_seconds
        assert loop["schedule"] in str(explained) and loop["schedule"] in explained._repr_html_()
        others = [one["schedule"] for one in loop["candidates"] if one["schedule"] != loop["schedule"]]
        assert others and all(one in str(explained) for one in others)


#: Copies x, but its unsharded reference doubles it.
WRONG = """
#tp = #tandem.mesh<"tp", ["x" = 2]>
hostir.program @copied(
    %x: memref<1x4xf32> {hostir.name = "x", hostir.type = tensor<2x4xf32, #fusion.axes<#tp, [didx("x"), -]>>},
    %y: memref<1x4xf32> {hostir.name = "y", hostir.result, hostir.type = tensor<2x4xf32, #fusion.axes<#tp, [didx("x"), -]>>}) {
  %main = hostir.main_stream
  hostir.copy %x to %y on %main : memref<1x4xf32> to memref<1x4xf32>
}
hostir.program @doubled(
    %x: memref<2x4xf32> {hostir.name = "x", hostir.type = tensor<2x4xf32>},
    %y: memref<2x4xf32> {hostir.name = "y", hostir.result, hostir.type = tensor<2x4xf32>}) attributes {reference_of = @copied} {
  %main = hostir.main_stream
  hostir.copy %x to %y on %main : memref<2x4xf32> to memref<2x4xf32>
  hostir.accumulate sum %x into %y on %main : memref<2x4xf32> to memref<2x4xf32>
}
"""


@pytest.mark.parametrize("reference", (True, False))
def test_programs_are_proven_when_they_are_compiled(reference):
    for _ in range(2):
        with pytest.raises(tandem.CompileError, match='not proven: error: wrong-result: .* result "y"'):
            tandem.compile(WRONG, reference=reference)
    unproven = tandem.compile(WRONG, reference=reference, check=False)
    assert unproven.explain().data["properties"] == []
    assert "nothing was proven" in str(unproven.explain()) and "compiled without the check" in str(unproven.explain())
    proven = product.compile(reference=reference).explain()
    assert "deadlock" in proven.data["properties"] and re.match("checked|sampled", proven.data["data"])
    assert product.compile(check=False).explain().data["properties"] == []


def test_explain_what_is_not_overlapped():
    """Few rows: a product that is too short to hide its gather."""
    explained = product_of_few_rows.compile(target="cuda-peer", machine="h200x4").explain()
    (loop,) = explained.loops
    assert loop["exposed_seconds"] > 0.5 * loop["communication_seconds"]
    assert re.search(r"overlapped with compute: (the quickest of all candidates|what .* might gain is less than the model's error)",
                     str(explained)), explained


def test_explain_without_machine():
    explained = product.compile(target="cuda-peer").explain()
    assert explained.seconds is None and explained.loops[0]["source"] == "fallback"
    assert "fixed rules, without prices: with a machine file, it says how much is hidden" in str(explained)


def test_check(program):
    checked = program.check()
    assert checked and not checked.findings and checked.data["ranks"] == 4
    assert "no error" in checked._repr_html_()


def test_check_compares_with_the_reference():
    assert "checked" in product.compile(reference=True).check().data["data"] or \
        "sampled" in product.compile(reference=True).check().data["data"]


def test_simulate(program, tmp_path):
    quick, slow = program.simulate("h200x4"), program.simulate("h200x4", graph=False)
    assert 0 < quick.seconds <= slow.seconds and quick.exposed_seconds <= quick.seconds
    assert xml.etree.ElementTree.fromstring(quick._repr_svg_()).tag.endswith("svg")
    quick.save(tmp_path / "run.svg")
    assert (tmp_path / "run.svg").read_text() == quick.svg


def test_rejected(program):
    with pytest.raises(tandem.ArgumentError, match="nowhere"):
        program.simulate("nowhere")
    loaded = tandem.Program(program.bytes)
    assert "deadlock" in loaded.explain().data["properties"]
    with pytest.raises(tandem.ArgumentError, match="not compiled here"):
        loaded.explain("h200x4")
    with pytest.raises(tandem.ArgumentError):
        tandem.Program(b"nothing").check()
