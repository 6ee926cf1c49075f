# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""examples/models, as torchrun starts them: each compares itself with the whole model."""

import os
import subprocess
import sys

import pytest
from ranks import HERE

FOLDER = os.path.join(HERE, "..", "..", "..", "examples", "models")


@pytest.mark.parametrize("name, words", [("generate", "[["), ("finetune", "step 9: loss"), ("pretrain", "step 5: loss")])
def test_is_as_the_whole_model(name, words):
    path = os.path.join(FOLDER, name + ".py")
    with open(path) as file:
        assert len(file.readlines()) < 80  # an example
    made = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=4", path],
                          env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=280)
    assert made.returncode == 0, (made.stdout + made.stderr)[-6000:]
    assert words in made.stdout
