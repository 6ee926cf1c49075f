# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Styles as drop-ins for torch's (docs/torch.md), also in the models of torch's own tests."""

import pytest
import styles  # noqa: F401 - `run` looks for its functions
from ranks import run


@pytest.mark.parametrize("kind", ["Linear", "Embedding"])
@pytest.mark.parametrize("name", ["ColwiseParallel", "RowwiseParallel"])
def test_arguments(name, kind):
    run("arguments", 2, name, kind)


def test_torchs_models():
    run("torchs_models", 4)


def test_tied():
    run("tied", 2)
