# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Fixtures of the tests of the Python package."""

import numpy as np
import pytest

import tandem


@pytest.fixture
def random():
    """random(8, 4): an array of f32 in [-1, 1)."""
    generator = np.random.default_rng(1)
    return lambda *shape: generator.uniform(-1, 1, shape).astype(np.float32)


@pytest.fixture
def world():
    """Four ranks as threads."""
    with tandem.local_world(4, timeout=20) as world:
        yield world


def rows(array, context):
    """The rank's rows of an array that is split by rows."""
    return np.ascontiguousarray(np.split(array, context.world_size)[context.rank])


def error(found, expected):
    return np.linalg.norm(found - expected) / np.linalg.norm(expected)
