# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Features of torch on layers of tandem.torch, against the same layers on one rank (docs/torch.md)."""

import os

import pytest
from ranks import run

FEATURES = ("own_forward", "names", "adapters", "modes", "losses", "checkpoints", "changes", "transforms", "life", "compiled_autograd", "late", "crossed", "ended", "recorded", "negative",
            "gradients_of_fuse", "chained")


@pytest.mark.parametrize("feature", FEATURES)
def test_feature(feature):
    run(feature, 2)


#: Those of matrix.py, in groups that take a few seconds.
MATRIX = ("eager", "inference", "no_grad then grad", "autocast", "hooks", "checkpoint", "reentrant", "deepcopy", "pickle",
          "state_dict", "compile", "create_graph", "forward AD", "vmap", "func.grad", "threads", "optimizers", "selective", "FSDP2", "FSDP2 in bf16",
          "adapter", "fake-quantised", "quantised")


@pytest.mark.parametrize("feature", MATRIX)
def test_as_torchs_layers(feature):
    run("matrix", 4 if "FSDP2" in feature else 2, feature)


@pytest.mark.parametrize("feature", ["life_of_jobs", "dropout"])
def test_jobs(feature):
    run(feature, 4)


@pytest.mark.parametrize("check", ["gradcheck", "opcheck"])
def test_operators(check):
    run(check, 2)


@pytest.mark.parametrize("kind", ["padded", "known", "new", "operator", "tokens", "rows", "batches", "batches of tokens", "known batches", "layer"])
def test_ranks_that_disagree(kind):
    run("disagree", 2, kind)


def test_random_modules():
    """TANDEM_TEST_FUZZ=SEED,SECONDS: others, for longer."""
    seed, seconds = os.environ.get("TANDEM_TEST_FUZZ", "0,60").split(",")
    run("fuzz", 2, seed, seconds, seconds=float(seconds) + 60)
