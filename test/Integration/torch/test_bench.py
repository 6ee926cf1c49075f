# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""PyTorch's arms of python -m tandem.bench, on CPU ranks over gloo: in the processes of Tandem's, on the same tensors."""

import json
import subprocess
import sys

import pytest

SHAPES = ["--shapes=ag:16x12x8,rs:16x8x12,ar:16x8x12,ag:15x12x8", "--schedules=auto", "--iterations=4", "--warmup=1", "--link-rate=1",
          "--row-time=1000", "--torch=yes"]


@pytest.mark.parametrize("launcher", [["-m", "tandem.bench", "-n", "2"],
                                      ["-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone", "-m", "tandem.bench"]])
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_arms(launcher, dtype, tmp_path):
    path = tmp_path / "b.json"
    done = subprocess.run([sys.executable, *launcher, *SHAPES, f"--dtypes={dtype}", f"--json={path}"], capture_output=True, text=True,
                          timeout=200, check=False)
    assert done.returncode == 0, done
    data = json.loads(path.read_text())
    assert data["torch"]["torch"] and data["torch"]["backend"] == "gloo"
    *rows, uneven = data["rows"]
    for row in rows:
        arms = {m["what"]: m for m in row["measurements"]}
        assert arms["torch sequence"]["verified"] and arms["auto"]["verified"]
        for what in ("sequence", "torch sequence", "torch matmul"):
            assert len(arms[what]["times_us"]) == 4
        assert arms["torch sequence"]["ratio_to_sequence"] == pytest.approx(
            arms["sequence"]["median_us"] / arms["torch sequence"]["median_us"])
        for what in ("torch fused",) if row["op"] != "ar" else ("torch one shot", "torch two shots", "torch one shot alone"):
            assert "symmetric memory needs a GPU for each rank" in arms[what]["refused"]
    refused = {m["refused"] for m in uneven["measurements"] if m["what"].startswith("torch")}
    assert refused == {"M = 15 is no multiple of 2 ranks"}
