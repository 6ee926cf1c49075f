# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""torch's own tests of styles, with this package's styles in their place. PyTorch's wheel has no tests: TANDEM_PYTORCH_SOURCE is
a folder of its source, of the version that is installed."""

import os
import subprocess
import sys

import pytest

SOURCE = os.environ.get("TANDEM_PYTORCH_SOURCE")


@pytest.mark.skipif(not SOURCE, reason="TANDEM_PYTORCH_SOURCE names no folder with PyTorch's source")
@pytest.mark.parametrize("name", ["test_tp_style", "test_tp_examples", "test_parallelize_api"])
def test_styles(name):
    folder = os.path.join(SOURCE, "test", "distributed", "tensor", "parallel")
    here = os.path.dirname(__file__)
    environment = {**os.environ, "TANDEM_TORCHS_TEST": os.path.join(folder, f"{name}.py"),
                   "PYTHONPATH": os.pathsep.join((here, os.environ.get("PYTHONPATH", "")))}
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "torchs_tests.py"], cwd=here, env=environment,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-6000:]
