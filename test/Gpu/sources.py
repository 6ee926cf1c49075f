# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The programs of test/Programs as test cases on GPUs: each entry for some ranks, element types, targets and ways to run."""

import math
import re
from dataclasses import dataclass, field
from pathlib import Path

PROGRAMS = Path(__file__).resolve().parents[1] / "Programs"
ONE_SIDED = re.compile(r"schedule<(push|hierarchical|gated|direct)")
# What kernels of gated matmuls take, also of a device's part.
_WIDER = ((r"(?<![0-9])24(?![0-9])", "192"), (r"(?<![0-9])12(?![0-9])", "96"))
# What kernels of grouped matmuls take.
_GROUPED = ((r"x16(?=x|,)", "x128"), (r"x24(?=x[a-z]|x16)", "x192"), (r"x192x16", "x192x128"), (r"6x24x", "6x192x"),
            (r"\[6, 16, 24\]", "[6, 128, 192]"), (r'"x", 12, 16', '"x", 12, 128'))
_SCALED_GROUPS = ((r"(6x|12x|6x32x)24x", r"\g<1>384x"),)


def edited(text, edits):
    for pattern, new in edits:
        text = re.sub(pattern, new, text)
    return text


def typed(text, dtype):
    """A text that is written in f32."""
    return re.sub(r"(x|\b)f32\b", rf"\g<1>{dtype}", text)


@dataclass(frozen=True)
class Case:
    name: str
    batch: str  # cases of a batch have the same flags and ranks
    text: str = field(repr=False)
    entry: str
    ranks: int
    target: str
    flags: tuple
    is_open: bool = True  # the sizes of its mesh

    def compile(self, tandem):
        return tandem.compile(self.text, name=f"{self.name}.mlir", entry=self.entry, mesh=self.mesh, target=self.target,
                              reference=True, check=False)

    @property
    def mesh(self):
        if not self.is_open:
            return None
        if '"node" = ?' in self.text and self.ranks % 2 == 0:
            return {"node": 2, "gpu": self.ranks // 2}
        return {"x": self.ranks}


def fixed_ranks(text, entry):
    """Of the mesh of an entry, if its sizes are written down; else None."""
    body = re.search(rf"func\.func @{entry}\b.*?(?=\n *func\.func|\Z)", text, re.S)[0]
    for alias, axes in re.findall(r"^#(\w+) = #tandem\.mesh<[^\[]*\[([^\]]*)\]", text, re.M):
        if re.search(rf"#{alias}\b", body):
            return None if "?" in axes else math.prod(int(size) for size in re.findall(r"= *(\d+)", axes))
    return None


def texts():
    """(stem, type, text, is it one-sided) of all files."""
    for path in sorted([*PROGRAMS.glob("*.mlir"), *(PROGRAMS / "Communication").glob("*.mlir")]):
        text, types = path.read_text(encoding="utf-8"), ("f16", "bf16", "f32")
        if path.name == "grouped.mlir":
            text, types = edited(text, _GROUPED), ("f16", "bf16")
        elif path.name == "fp8-groups.mlir":
            text, types = edited(text, _SCALED_GROUPS), ("f32",)
        for dtype in types:
            isWide = dtype != "f32" and re.search(r"schedule<gated|by = (epilogue|sms)", text)
            yield (path.stem if path.parent == PROGRAMS else f"Communication-{path.stem}", dtype,
                   typed(edited(text, _WIDER) if isWide else text, dtype), bool(ONE_SIDED.search(text)))


def cases(batch, flags, target, ranks, *, dtypes=("f16", "bf16", "f32"), one_sided=None, matching="."):
    """All that `target` may have for so many ranks. `one_sided`: only files with, or without, such schedules."""
    for stem, dtype, text, has in texts():
        if dtype not in dtypes or (one_sided is not None and has != one_sided) or not re.search(matching, stem):
            continue
        for entry in re.findall(r"^ *func\.func @(\w+)", text, re.M):
            fixed = fixed_ranks(text, entry)
            if (fixed or ranks) != ranks:
                continue
            yield Case(f"{stem}.{dtype}.{entry}.{ranks}.{target}", f"{batch}-{ranks}", text, entry, ranks, target, (f"-n{ranks}", *flags), not fixed)
