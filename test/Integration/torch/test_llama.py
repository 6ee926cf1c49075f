# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""examples/llama, tiny, on processes with gloo groups."""

import json
import os
import subprocess
import sys

from ranks import HERE, fork, together

FOLDER = os.path.join(HERE, "..", "..", "..", "examples", "llama")


def test_losses_and_times(tmp_path):
    """Losses are those of plain torch, by torch's layers and by Tandem's; steps are timed."""
    sys.path.insert(0, FOLDER)
    import llama
    options = llama.parse(["--blocks=2", "--losses=3", "--rounds=2", "--turn=2", "--profile", f"--json={tmp_path}/report"])

    def start(environment, log):
        environment["LLAMA_STORE"] = "file://" + environment["TANDEM_TEST_STORE"]
        return fork(lambda: llama.be_rank(options, int(environment["RANK"]), 2), environment, log)

    codes, texts = together(start, 2, 240)
    assert codes == [0, 0], texts
    with open(tmp_path / "report") as file:
        report = json.load(file)
    losses = report["losses"]
    assert set(losses) == {"plain", "torch", "tandem"} and all(len(one) == 3 for one in losses.values())
    assert losses["plain"][2] < losses["plain"][0]
    assert set(report["times"]) == {"none", "torch", "tandem"}
    assert all(one["seconds"] > 0 and one["exposed"] < 1 for one in report["times"].values())
    profiled = report["profile"]
    assert set(profiled) == {"torch", "tandem"}
    # Calls in a step. 2 blocks of 2 gathers and 2 scatters; a gather's backward is a scatter.
    counts = {name: round(count) for name, (_, count) in profiled["tandem"]["kernels"].items() if "tandem::" in name}
    assert counts == {"tandem::all_gather_matmul": 4, "tandem::matmul_reduce_scatter": 8,
                      "tandem::matmul_reduce_scatter_backward": 4}, counts
    assert "aten::mm" in profiled["torch"]["kernels"]
    assert all(0 < one["wall"] and one["idle"] == one["wall"] - one["busy"] for one in profiled.values())


def test_ranks_that_fail():
    """Ranks that fail, each in another step, end the run at once: nothing waits for a timeout."""
    made = subprocess.run([sys.executable, os.path.join(FOLDER, "llama.py"), "--blocks=1", "--losses=8", "--variants=tandem",
                           "--fail=0:12,1:11"], capture_output=True, text=True, timeout=200)
    assert made.returncode == 1, made.stderr
    assert "rank 1 fails in step 11, as asked" in made.stderr and "the others are ended" in made.stderr, made.stderr
    # The other rank waited for it, and was ended or saw that its peer had gone.
    assert "rank 0 failed" not in made.stderr or "lost rank 1" in made.stderr, made.stderr
