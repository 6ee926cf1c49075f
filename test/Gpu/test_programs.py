# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""All of test/Programs: each result verified against the unsharded reference, outputs poisoned, many runs in a row."""

import json
import subprocess

import pytest
from conftest import BIN, ENVIRONMENT, FAKE, REPEAT
from sources import cases

_RUN = ("--device=cuda", "--verify", f"--repeat={REPEAT}", "--timeout=20")


def _all():
    """(GPUs, case)."""
    for ranks in (1, 2, 4, 8):
        # The stand-in's collectives are those of one process.
        for way, flags in (("peer", ["--threads"] if FAKE else []), ("peer-launches", ["--threads", "--no-graph"])):
            yield from ((ranks, one) for one in cases(way, (*_RUN, "--channel=peer,ccl", *flags), "cuda-peer", ranks))
        if ranks > 1:  # ranks are threads that share a GPU
            yield from ((ranks // 2, one) for one in
                        cases("shared", (*_RUN, "--channel=peer,local", "--threads"), "cuda-peer", ranks, one_sided=True))
        if FAKE:
            continue
        if ranks <= 2:
            yield from ((1, one) for one in cases("local", (*_RUN, "--channel=local"), "cuda-nccl", ranks))
            yield from ((1, one) for one in cases("ucx", (*_RUN, "--channel=ucx"), "cuda-ucx", ranks, dtypes=("f32",), one_sided=False))
        for way, flags in (("ccl", ()), ("ccl-threads", ("--threads",))):
            yield from ((ranks, one) for one in cases(way, (*_RUN, "--channel=ccl", *flags), "cuda-nccl", ranks))


@pytest.mark.parametrize("case", [pytest.param(case, id=f"{case.batch}-{case.name}", marks=pytest.mark.gpus(gpus)) for gpus, case in _all()])
def test_program(case, outcome_of):
    outcome_of(case).check()


def test_trace(tmp_path):
    """A traced run has times of its commands."""
    import tandem
    one = next(cases("trace", (), "cuda-peer", 2, dtypes=("f32",), matching="^allgather-matmul-push$"))
    one.compile(tandem).save(tmp_path / "p.tsp")
    subprocess.run([BIN / "tandem-run", tmp_path / "p.tsp", "--device=cuda", "--channel=peer,local", "--threads", "--repeat=3",
                    f"--trace={tmp_path / 'trace.json'}"], env=ENVIRONMENT, check=True, timeout=60)
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert sum(event["ph"] == "X" for event in events) > 3
