# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A dump taken after any pass of the pipeline, read again, compiles to the same program.

  dumps.py PROGRAM MESH [OPTION...]

For each snapshot of the pipeline on PROGRAM, the passes behind it run on the dump; the module must be the one that
the whole pipeline makes. OPTION: more options of --tandem-lower.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

# Passes that run several times: running one of them once more on its own result changes nothing.
REPEATED = {"canonicalize", "cse"}


def lower(source, options):
    done = subprocess.run(["tandem-opt", source, f"--tandem-lower={' '.join(options)}"], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{source}: tandem-opt failed with {options}:\n{done.stderr}")
    # A choice names the places in the text that was read.
    return re.sub(r'(#tandem.choice<"[^"]*") at \[[^\]]*\]', r"\1", done.stdout)


def main():
    program, mesh, *more = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        options = [f"mesh={mesh}", *more]
        expected = lower(program, options + [f"snapshots={folder}"])
        dumps = sorted(pathlib.Path(folder).glob("*.mlir"))
        if len(dumps) < 10:
            sys.exit(f"expected a dump after each pass, found {len(dumps)}")
        passed = []
        for dump in dumps:
            # "07-fusion-form-loops.mlir"; the first is the input.
            stage = dump.stem.split("-", 1)[1]
            if stage != "input" and stage not in REPEATED:
                passed.append(stage)
            rest = [f"disable={','.join(passed)}"] if passed else []
            if lower(dump, options + rest) != expected:
                sys.exit(f"{program}: the dump after {stage} compiles to another program")
        print(f"{len(dumps)} dumps compile to the same program")


main()
