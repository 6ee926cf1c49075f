# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models of torchtitan with this package's styles, or with its pass of torch.compile (docs/torch.md)."""

import importlib.util

import pytest
import titan  # noqa: F401 - `run` looks for its functions
from ranks import run

# The ranks import it: it looks for a GPU then.
pytestmark = pytest.mark.skipif(importlib.util.find_spec("torchtitan") is None, reason="no torchtitan (tools/dev torch installs it)")


@pytest.mark.parametrize("name", titan.MODELS)
def test_styles(name):
    run("titan", 4, name, "selective-op", False, True)


@pytest.mark.parametrize("name", ["llama3"])
def test_compiled(name):
    run("titan", 2, name, "none-2", True, False)
