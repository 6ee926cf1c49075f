# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times Tandem's schedules, their parts and PyTorch's operators, interleaved in one run; calibrates machine files
(docs/benchmarking.md): `python -m tandem.bench`."""
