# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Features of torch on layers of tandem.torch, against the same layers on one rank (docs/torch.md)."""

import os

import pytest
from ranks import run

FEATURES = ("own_forward", "adapters", "modes", "losses", "checkpoints", "changes", "transforms", "life", "late", "negative",
            "gradients_of_fuse", "passes")


@pytest.mark.parametrize("feature", FEATURES)
def test_feature(feature):
    run(feature, 2)


@pytest.mark.parametrize("kind", ["padded", "known", "new", "operator"])
def test_ranks_that_disagree(kind):
    run("disagree", 2, kind)


def test_random_modules():
    """TANDEM_TEST_FUZZ=SEED,SECONDS: others, for longer."""
    seed, seconds = os.environ.get("TANDEM_TEST_FUZZ", "0,60").split(",")
    run("fuzz", 2, seed, seconds, seconds=float(seconds) + 60)
