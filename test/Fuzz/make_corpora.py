# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the fuzzers start from, made of the inputs of other tests: a folder OUT/<Name> for each fuzzer, and OUT/<Name>.dict
with the words of its language.

  make_corpora.py OUT [--programs MAKE_PROGRAMS]
"""

import argparse
import collections
import hashlib
import pathlib
import re
import shutil
import struct
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
#: The fuzzers refuse longer text.
MOST_BYTES = 8192
#: Checking the programs that run for long takes long.
MOST_PROGRAM_BYTES = 32768
#: The first line of a module, see IRFuzzer.cpp.
CHOICES = ("0 2 8 0", "1 3 6 0", "2 4 8 0", "3 2 4 1", "4 2 8 2", "5 2 8 4")


def write(folder, contents):
    """One file for each of the contents, named by it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for content in contents:
        (folder / hashlib.sha256(content).hexdigest()[:16]).write_bytes(content)


def modules():
    """The modules of the tests, without comments; those with several public functions also function by function."""
    for folder in ("Programs", "Dialect", "Conversion", "Regression"):
        for path in sorted((ROOT / "test" / folder).rglob("*.mlir")):
            for part in path.read_text(encoding="utf-8").split("// -----"):
                lines = [re.sub(r"\s*//.*", "", line).rstrip() for line in part.splitlines()]
                text = "\n".join(line for line in lines if line) + "\n"
                yield text
                # Functions begin and end at the margin.
                bodies = re.findall(r"^func\.func @.*?^}\n", text, re.M | re.S)
                if len(bodies) > 1:
                    rest = re.sub(r"^func\.func @.*?^}\n", "", text, flags=re.M | re.S)
                    for body in bodies:
                        yield rest + body


def dictionary(texts, path, word):
    """The words that occur twice or more."""
    counts = collections.Counter(found for text in texts for found in set(re.findall(word, text)))
    words = sorted(found for found, count in counts.items() if count > 1 and 2 < len(found) < 40)
    path.write_text("".join('"{}"\n'.format(w.replace("\\", "\\\\").replace('"', '\\"')) for w in words), encoding="utf-8")


def constant(path, name):
    """Of a header, so that it cannot differ from it."""
    text = (ROOT / "runtime" / path).read_text(encoding="utf-8")
    return int(re.search(rf"\b{name} = ([0-9a-fx']+)u?l*;", text).group(1).replace("'", ""), 0)


def frame(kind, sequence=0, data=b"", size=None):
    """A frame of runtime/lib/Bootstrap/Wire.h."""
    return struct.pack("<IIQQ", constant("lib/Bootstrap/Wire.h", "kFrameMagic"), kind, sequence, len(data) if size is None else size) + data


def conversations():
    """Of a stranger (odd first byte), and of an admitted rank (even)."""
    _accepted, welcome, part, whole, abort, refused, alive, bye, heard = range(9)
    hello = struct.pack("<QIIII", constant("lib/Bootstrap/Wire.h", "kHelloMagic"), 1, 2,
                        constant("include/tandem/Runtime/Bootstrap.h", "kProtocolVersion"), 0)
    for text in (b"", b"GET / HTTP/1.1\r\n\r\n", hello + bytes(48), hello[:9], bytes(64), frame(welcome), frame(part, 1, bytes(8))):
        yield b"\1" + text
    number = frame(part, 1, bytes(8))
    sizes = [frame(part, 2, struct.pack("<Q", size)) for size in (4, 0, 1 << 20, 1 << 40, (1 << 64) - 1)]
    for text in (b"", number, number + sizes[0] + frame(part, 3, b"text"), number + sizes[1] + frame(part, 3, b"\0\0\0\0"),
                 *(number + size for size in sizes), frame(alive) + number, frame(abort, 0, b"a reason"), frame(abort, 0, b"", 1 << 62),
                 frame(abort, 0, b"a reason") + frame(heard) + frame(bye), frame(heard), frame(part, 2, bytes(8)) + frame(abort, 0, b"a reason"),
                 frame(bye), frame(refused, 0, b"no"), frame(whole, 1, bytes(16)), frame(part, 7, bytes(8)),
                 frame(part, 1, bytes(8), 1 << 40), frame(part, 1, bytes(4)), frame(99, 1), number[:7]):
        yield b"\0" + text


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--programs", help="the tool make-programs")
    options = parser.parse_args()
    out = options.out
    out.mkdir(parents=True, exist_ok=True)

    texts = sorted({text for text in modules() if 8 < len(text) < MOST_BYTES - 32})
    write(out / "IR", [f"// fuzz: {CHOICES[i % len(CHOICES)]}\n{text}".encode() for i, text in enumerate(texts)])
    dictionary(texts, out / "IR.dict", r"[#!%@]?[a-z_]+(?:\.[a-z_]+)+|[a-z_]{3,}")

    machines = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "machines").glob("*.json"))]
    write(out / "Machine", [text.encode() for text in machines])
    dictionary([text for text in machines for _ in (0, 1)], out / "Machine.dict", r'"[a-z_0-9]+"')

    write(out / "Bootstrap", conversations())
    if options.programs:
        shutil.rmtree(out / "Program", ignore_errors=True)
        (out / "Program").mkdir()
        subprocess.run([options.programs, out / "Program"], check=True)
        for path in (out / "Program").iterdir():
            if path.stat().st_size > MOST_PROGRAM_BYTES:
                path.unlink()
        shutil.rmtree(out / "CApi", ignore_errors=True)
        shutil.copytree(out / "Program", out / "CApi")


if __name__ == "__main__":
    main()
