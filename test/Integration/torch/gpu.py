# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The tests of layers.py on GPUs. Prints a line for each; exit status 1 if one fails.

    PYTHONPATH=BUILD/python python3 test/Integration/torch/gpu.py [-n RANKS] [--share-gpu] [NAME...]

Each rank has a GPU, and groups use NCCL. With one rank (-n 1) layers run their programs, too. --share-gpu: the ranks use
one GPU, over ucx, and torch's groups gloo; tests in which torch's own collectives have tensors of the GPU are left out."""

import argparse
import os
import sys

from ranks import run

TESTS = {"gather": (8, 12), "scatter": (8, 5, 1), "dispatch": (), "errors": (), "varies": (), "merges": (), "thin": (), "alone": (),
         "autocast": (), "model": (), "tensors": (), "compiled": (), "passes": (), "torchs": (), "graphs": (), "scaled": (8, 5), "scaled_varies": (), "memory": (), "groups": ()}
SHARED = ("gather", "scatter", "dispatch", "errors", "varies", "merges", "thin", "alone", "memory")

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", type=int, default=2, metavar="RANKS")
    parser.add_argument("--share-gpu", action="store_true")
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()
    os.environ["TANDEM_TEST_DEVICE"] = "cuda"
    if options.share_gpu:
        os.environ["TANDEM_TEST_SHARES_GPU"] = "1"
    failed = 0
    chosen = SHARED if options.share_gpu else [name for name in TESTS if name != "groups" or options.n % 2 == 0]
    for name in options.names or chosen:
        try:
            run(name, options.n, *TESTS[name], fresh=True)  # CUDA does not survive a fork
            print(f"ok        {name}", flush=True)
        except AssertionError as error:
            failed += 1
            print(f"FAILED    {name}: {error}", flush=True)
    sys.exit(1 if failed else 0)
