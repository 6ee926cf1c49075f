# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""docs/contribute.md, "Add a kind of command": the sources with the page's pieces compile, and without one of those for a
switch, the compiler names the kind that is missing."""

import json
import os
import re
import shlex
import shutil

import harness

STEP = re.compile(r"^\d\. (?P<text>.*?):\n\n   ```\w*\n(?P<code>.*?)   ```$", re.M | re.S)
PLACE = re.compile(r"in\s+`(?P<file>[^`]+)`,\s+(?P<where>before|after)\s+`(?P<anchor>[^`]+)`")


class Page:
    """The steps of the page: file, line next to which the code belongs, code."""

    def __init__(self, source):
        with open(os.path.join(source, "docs/contribute.md")) as file:
            section = file.read().split("## Add a kind of command\n")[1].split("\n## ")[0]
        self.steps = []
        for step in STEP.finditer(section):
            place = PLACE.search(step["text"])
            if not place:
                raise ValueError(f"expected a file and a line of it in: {step['text']}")
            self.steps.append((place["file"], place["where"], place["anchor"], re.sub("^   ", "", step["code"], flags=re.M)))

    def apply(self, copy):
        """Inserts the code of all steps."""
        for path, where, anchor, code in self.steps:
            with open(os.path.join(copy, path)) as file:
                lines = file.readlines()
            found = [i for i, line in enumerate(lines) if line.strip().startswith(anchor)]
            if not found:
                raise ValueError(f"{path}: no line begins with '{anchor}'")
            at = found[-1] if where == "after" else found[0]
            lines[at + (where == "after"):at + (where == "after")] = [code]
            with open(os.path.join(copy, path), "w") as file:
                file.writelines(lines)


SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.dirname(os.path.abspath(harness.BIN))


def cached(name):
    """A variable of CMake's cache."""
    with open(os.path.join(BUILD, "CMakeCache.txt")) as file:
        return re.search(rf"^{name}:\w+=(.*)$", file.read(), re.M)[1]


class AddACommand(harness.Test):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.page = Page(SOURCE)
        with open(os.path.join(BUILD, "compile_commands.json")) as file:
            cls.commands = json.load(file)

    def setUp(self):
        super().setUp()
        self.copy = os.path.join(self.folder, "copy")
        for folder in ("include", "lib", "runtime"):
            shutil.copytree(os.path.join(SOURCE, folder), os.path.join(self.copy, folder), ignore=shutil.ignore_patterns("Bindings"))
        self.page.apply(self.copy)
        self.generated = os.path.join(self.copy, "generated")
        self.generate()

    def generate(self):
        program = os.path.join(self.generated, "tandem/Program")
        os.makedirs(program)
        self.call(cached("TANDEM_FLATC"), "--cpp", "--scoped-enums", "-o", program, os.path.join(self.copy, "lib/Program/stream_program.fbs"))
        llvm = cached("MLIR_DIR").split("/lib/cmake")[0]
        ops = "tandem/Dialect/HostIR/IR/HostIROps"
        os.makedirs(os.path.dirname(os.path.join(self.generated, ops)))
        for suffix, what in (("h", "decls"), ("cpp", "defs")):
            self.call(f"{llvm}/bin/mlir-tblgen", f"-gen-op-{what}", "-dialect=hostir", f"-I{self.copy}/include", f"-I{llvm}/include",
                      f"{self.copy}/include/{ops}.td", "-o", f"{self.generated}/{ops}.{suffix}.inc")

    def call(self, *command):
        done = harness.run(command)
        self.assertEqual(done.code, 0, done)

    def compile(self, path):
        """Checks a file of the copy with the flags of its library. Returns what the compiler says."""
        library = os.path.join(os.path.dirname(path), "CMakeFiles")
        command = next(each["command"] for each in self.commands if f" -o {library}/" in each["command"])
        words = shlex.split(command.split(" -o ")[0])
        if "ccache" in words[0]:
            words = words[1:]
        for folder in ("include", "runtime/include", "generated"):
            words.insert(1, f"-I{self.copy}/{folder}")
        # Headers compiled beforehand are those of the sources, not of the copy.
        for flags in (["-Xclang", "-include-pch", "-Xclang"], ["-Xclang", "-include", "-Xclang"], ["-include"]):
            while flags[0] in words and (at := next((i for i in range(len(words)) if words[i:i + len(flags)] == flags), None)) is not None:
                del words[at:at + len(flags) + 1]
        return harness.run([*words, "-O0", "-fsyntax-only", os.path.join(self.copy, path)], limit=300)

    def test_compiles(self):
        self.assertEqual(len(self.page.steps), 8)
        paths = [path for path, *_ in self.page.steps if path.endswith(".cpp")]
        for path in [*paths, "lib/Program/Commands.cpp", "lib/Dialect/HostIR/IR/ComputeOps.cpp"]:
            done = self.compile(path)
            self.assertEqual(done.code, 0, done)

    def test_missing_case(self):
        switches = [path for path, _, anchor, _ in self.page.steps if anchor.startswith("case ")]
        self.assertEqual(len(switches), 4)
        for path in switches:
            shutil.copyfile(os.path.join(SOURCE, path), os.path.join(self.copy, path))
            done = self.compile(path)
            self.assertRegex(done.err, "(?i)enumeration value .*transpose.* not handled in switch")
            self.assertNotEqual(done.code, 0)


if __name__ == "__main__":
    harness.main(__doc__, AddACommand)
