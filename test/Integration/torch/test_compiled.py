# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""CollectiveMatmulPass in models whose activations have three dimensions (docs/torch.md)."""

import pytest
from ranks import run


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("prepares, bias", [(True, False), (False, False), (False, True)],
                         ids=["one gather", "a gather each", "biases"])
def test_three_dimensions(dim, prepares, bias):
    run("three_dimensions", 2, dim, prepares, bias)


def test_other_dimensions():
    run("other_dimensions", 2)


def test_patterns():
    run("patterns", 2)


def test_scaled_patterns():
    run("scaled_patterns", 2)


def test_casts():
    run("casts", 2)


def test_hf_llama():
    run("hf_llama", 2)
