# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tandem.torch.report (docs/simulator.md), by one process that stands for a rank of many, and by ranks."""

import functools
import inspect
import json
import os
import re
import subprocess
import sys
import xml.dom.minidom

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from ranks import HERE, fork, run, together
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils.checkpoint import checkpoint

import tandem
import tandem.torch as tt

MACHINE = "h200x8"
TIMES = ("seconds", "baseline_seconds", "communication_seconds", "exposed_seconds")


class MLP(nn.Module):
    def __init__(self, width=2048, hidden=8192):
        super().__init__()
        self.norm = nn.RMSNorm(width)
        self.up_proj, self.down_proj = nn.Linear(width, hidden, False), nn.Linear(hidden, width, False)

    def forward(self, x):
        return x + self.down_proj(torch.relu(self.up_proj(self.norm(x))))


class Stack(nn.Module):
    def __init__(self, again):
        super().__init__()
        self.blocks, self.again = nn.ModuleList(MLP() for _ in range(2)), again

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.again else block(x)
        return x


def one_of_eight(test):
    """Runs a test in a process of its own, as rank 0 of 8: the ranks of other tests are forked from this one, which must not
    have threads of autograd."""
    @functools.wraps(test)
    def forked(*arguments, **options):
        def body():
            dist.init_process_group("fake", rank=0, world_size=8, store=FakeStore())
            test(*arguments, mesh=init_device_mesh("cpu", (8,)), **options)

        codes, texts = together(lambda environment, log: fork(body, environment, log), 1, 240)
        assert codes == [0], texts[0]

    kept = inspect.signature(test)
    forked.__signature__ = kept.replace(parameters=[one for name, one in kept.parameters.items() if name != "mesh"])
    return forked


def split(model, mesh, device="meta"):
    return tt.parallelize(model.to(device, torch.bfloat16), mesh, src_data_rank=None)


def tokens(device="meta", width=2048):
    return torch.zeros(1024, width, dtype=torch.bfloat16, device=device, requires_grad=True)


def of(report, operation):
    return [(one["layer"], one["direction"]) for one in report.calls if operation in one["operation"]]


@pytest.mark.parametrize("again", [False, True], ids=["plain", "checkpoint"])
@one_of_eight
def test_names_layers_and_directions(mesh, again):
    report = tt.report(split(Stack(again), mesh), tokens(), machine=MACHINE)
    layers = ["blocks.0", "blocks.1"]
    gathers = [(f"{one}.up_proj", "forward") for one in layers]
    scatters = [(f"{one}.down_proj", "forward") for one in layers]
    # A forward pass that is computed again in the backward pass stops before the last product, which nothing needs.
    assert sorted(of(report, "all-gather, matmul")) == sorted([*gathers, *gathers * again,
                                                               *[(f"{one}.down_proj", "backward") for one in layers]])
    more = of(report, "matmul, reduce-scatter")
    assert {one for one in more if one[1] == "backward"} == {(f"{one}.up_proj", "backward") for one in layers}
    assert set(scatters) <= set(more)
    gather, = {(one["shapes"], one["schedule"]) for one in report.calls if (one["layer"], one["direction"]) in gathers}
    assert gather[0] == "1024x2048, 2048x1024" and gather[1]


@one_of_eight
def test_adds_up(mesh, tmp_path):
    model = split(Stack(False), mesh)
    report = tt.report(model, (tokens(),), machine=MACHINE)
    for key in TIMES:
        assert getattr(report, key) == pytest.approx(sum(one[key] for one in report.calls)) and getattr(report, key) > 0
    assert all(0 <= one["exposed_seconds"] <= one["communication_seconds"] * 1.001 and one["seconds"] <= one["baseline_seconds"] * 1.001
               for one in report.calls)
    assert report.overlapped == pytest.approx(1 - report.exposed_seconds / report.communication_seconds)
    assert report.memory["symmetric"] > 0 and report.compile_seconds > 0
    assert report.memory["without_tandem"] == 8 * 1024 * 2048 * 2 # gathered tokens
    report.save(tmp_path / "step.json")
    data = json.loads((tmp_path / "step.json").read_text())
    assert data["calls"] == report.calls and data["overlapped"] == report.overlapped
    report.save(tmp_path / "step.svg")
    drawn = xml.dom.minidom.parse(str(tmp_path / "step.svg")).getElementsByTagName("rect")
    right = max(float(one.getAttribute("x")) + float(one.getAttribute("width")) for one in drawn)
    assert right == pytest.approx(1000, abs=1)
    assert "<table>" in report._repr_html_() and "blocks.*.up_proj, forward: 2 x all-gather, matmul" in str(report)
    again = tt.report(model, (tokens(),), machine=MACHINE)
    assert again.calls == report.calls
    forward = tt.report(model, {"x": tokens()}, machine=MACHINE, backward=False)
    assert {one["direction"] for one in forward.calls} == {"forward"}


@one_of_eight
def test_is_the_prediction_of_the_program(mesh):
    first = tt.report(split(MLP(), mesh), tokens(), machine=MACHINE, backward=False).calls[0]
    program = tandem.compile("""#tp = #tandem.mesh<"tp", ["x" = 8]>
        !x = tensor<8192x2048xbf16, #fusion.axes<#tp, [didx("x"), -]>>
        !w = tensor<2048x8192xbf16, #fusion.axes<#tp, [-, didx("x")]>>
        !y = tensor<8192x8192xbf16, #fusion.axes<#tp, [-, didx("x")]>>
        func.func @up(%x: !x, %w: !w) -> !y {
          %y = fusion.matmul %x, %w {fusion.gather = "before"} : !x, !w -> !y
          return %y : !y
        }""", target="cuda-peer", machine=MACHINE, certify=True)
    explained = program.explain()
    assert first["operation"] == "all-gather, matmul"
    assert first["baseline_seconds"] == pytest.approx(explained.baseline_seconds, rel=0.05)


@one_of_eight
def test_asserts(mesh):
    model = split(Stack(False), mesh)
    assert tt.assert_overlapped(model, tokens(), machine=MACHINE, at_least=0.3).overlapped >= 0.3
    with pytest.raises(AssertionError, match=r"(?s)expected 99.9 %.*blocks.\*.up_proj, forward.*exposed"):
        tt.assert_overlapped(model, tokens(), machine=MACHINE, at_least=0.999)
    with pytest.raises(AssertionError, match="nothing is communicated"):
        tt.assert_overlapped(Stack(False).to("meta", torch.bfloat16), tokens(), machine=MACHINE, at_least=0)


@one_of_eight
def test_says_that_torchs_styles_overlap_nothing(mesh):
    plan = {"up_proj": ColwiseParallel(), "down_proj": RowwiseParallel()}
    model = parallelize_module(MLP().to("meta", torch.bfloat16), mesh, plan, src_data_rank=None)
    report = tt.report(model, tokens(), machine=MACHINE)
    assert report.calls and report.overlapped == 0
    sums = [one for one in report.calls if one["operation"] == "all-reduce"]
    assert [(one["layer"], one["direction"]) for one in sums] == [("down_proj", "forward"), ("up_proj", "backward")]
    assert all(one["seconds"] > 10e-6 and "collective of torch" in one["explanation"] for one in sums)


@one_of_eight
def test_counts_what_nothing_predicts(mesh):
    class Exchange(nn.Module):
        def forward(self, x):
            return functional.all_to_all_single(x, None, None, mesh) + functional.all_reduce(x, "sum", alone)

    alone = dist.new_group([0])
    report = tt.report(Exchange(), torch.zeros(8, 2), machine=MACHINE, backward=False)
    assert [one["operation"] for one in report.calls] == ["all-to-all-single"] and report.unpredicted == 1
    assert "1 of the calls have no prediction" in str(report)
    with pytest.raises(AssertionError, match="no prediction"):
        tt.assert_overlapped(Exchange(), torch.zeros(8, 2), machine=MACHINE, at_least=0, backward=False)


@one_of_eight
def test_names_what_does_not_fit(mesh):
    with pytest.raises(tandem.ArgumentError, match="expected a module, found 3"):
        tt.report(3, tokens(), machine=MACHINE)
    model = split(MLP(), mesh)
    with pytest.raises(tandem.Error, match="nowhere"):
        tt.report(model, tokens(), machine="nowhere")
    with pytest.raises(tandem.ArgumentError, match="needs a gradient, or backward=False"):
        tt.report(nn.Identity(), torch.zeros(2), machine=MACHINE)


def test_real_ranks():
    run("step_report", 2)


@pytest.mark.parametrize("how", ["same", "background", "order", "meta"])
def test_warm_up(how):
    run("warm_up", 2, how)


def test_warm_up_of_models_that_differ():
    run("warm_up_differs", 2)


def test_page():
    """The program of the page prints the lines that the page has."""
    with open(os.path.join(HERE, "..", "..", "..", "docs", "simulator.md")) as page:
        code, output = re.findall(r"```(?:python)?\n(.*?)```", page.read().split("\n## The report of a step\n")[1], re.S)[:2]
    code = code.replace('"step.svg"', "__import__('os').devnull")
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert made.returncode == 0, made.stderr
    assert not [line for line in output.splitlines() if line not in made.stdout.splitlines()]
