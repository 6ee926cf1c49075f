# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Results that must have the same bits: of graphs and of commands launched one by one, and of all schedules of a layer that add in
the order of the ranks."""

from dataclasses import replace

import pytest
from conftest import FAKE, REPEAT
from sources import PROGRAMS, Case, cases, edited, typed

_DUMP = ("--device=cuda", "--channel=peer,local", "--threads", "--verify", "--timeout=20", "--dump-npy={folder}/npy")


def _results(case, outcome_of):
    outcome = outcome_of(case)
    outcome.check()
    found = {path.name: path.read_bytes() for path in (outcome.folder / "npy" / case.name).glob("*.npy")}
    assert found
    return found


def _graphs():
    for ranks in (1, 2, 4):
        for one in cases("graph", (*_DUMP, "--repeat=3"), "cuda-peer", ranks, one_sided=True):
            twin = replace(one, batch=f"launches-{ranks}", flags=(*one.flags, "--no-graph"))
            yield pytest.param(one, twin, id=one.name, marks=pytest.mark.gpus(ranks))


@pytest.mark.parametrize("case, twin", list(_graphs()))
def test_graphs(case, twin, outcome_of):
    found = _results(case, outcome_of)
    assert FAKE or "without a graph" not in outcome_of(case).text
    assert found == _results(twin, outcome_of)


def _schedules():
    """One layer, of a size that kernels of gated matmuls take."""
    text = (PROGRAMS / "deterministic.mlir").read_text(encoding="utf-8")
    text = edited(text, ((r"([<x])72x", r"\g<1>512x"), (r"([<x])96x", r"\g<1>768x"), (r"([<x])144x", r"\g<1>1024x")))
    for dtype in ("f32", "f16", "bf16"):
        for ranks in (2, 4, 8):
            made = [Case(f"{gather}-{reduce}.{dtype}.{ranks}", f"deterministic-{dtype}-{ranks}",
                         typed(edited(text, (("schedule<push>", f"schedule<{gather}>"), ("schedule<exchange>", f"schedule<{reduce}>"))), dtype),
                         "layer", ranks, "cuda-peer", (*_DUMP, f"--repeat={REPEAT}", f"-n{ranks}"))
                    for gather in ("sequence", "pipeline", "exchange", "push", "ring") for reduce in ("sequence", "pipeline", "exchange", "push")]
            # Two ranks may share a GPU; the streams of more share hardware queues, and a wait can block a send.
            yield from (pytest.param(one, made[0], id=one.name, marks=pytest.mark.gpus(ranks // 2)) for one in made[1:])


@pytest.mark.parametrize("case, twin", list(_schedules()))
def test_schedules(case, twin, outcome_of):
    assert _results(case, outcome_of) == _results(twin, outcome_of)
