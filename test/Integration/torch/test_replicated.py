# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Optimizers, clipping and all that is done with parameters, where no rank has a part of some (docs/torch.md)."""

import pytest
import replicated
from ranks import run


@pytest.mark.parametrize("name", replicated.OPTIMIZERS)
def test_optimizers(name):
    run("optimizers", 2, name)


@pytest.mark.parametrize("way", ["deepcopy", "pickle", "read", "checkpoint", "reentrant", "compile", "plan", "meta"])
def test_ways(way):
    run("ways", 2, way)


def test_sharded():
    run("sharded", 4)


def test_others():
    run("others", 2)
