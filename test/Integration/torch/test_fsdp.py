# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Collectives next to no matmul, and FSDP with them (docs/torch.md)."""

import pytest
from ranks import run


@pytest.mark.parametrize("ranks, inside", [(2, 0), (3, 0), (4, 0), (4, 2)], ids=["2", "3", "4", "2 nodes of 2"])
def test_collectives(ranks, inside):
    run("collectives", ranks, inside)


@pytest.mark.parametrize("kind, ranks", [("plain", 2), ("plain", 4), ("kept", 2), ("mixed", 2), ("HSDP", 4), ("TP", 4)])
def test_shards(kind, ranks):
    run("shards", ranks, kind)
