# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models of torchtitan with this package's styles, or with its pass of torch.compile (docs/torch.md)."""

import pytest

pytest.importorskip("torchtitan", reason="no torchtitan (tools/dev torch installs it)")
import titan  # noqa: F401, E402 - `run` looks for its functions
from ranks import run  # noqa: E402


@pytest.mark.parametrize("name", titan.MODELS)
def test_styles(name):
    run("titan", 4, name, "selective-op", False, True)


@pytest.mark.parametrize("name", ["llama3"])
def test_compiled(name):
    run("titan", 2, name, "none-2", True, False)
