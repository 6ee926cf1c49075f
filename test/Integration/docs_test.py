# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What README.md and docs/ show of compiled and simulated programs is what they are now (`tools/dev docs` writes it
again), and the snippets of README.md, docs/start.md and docs/learn.md
work."""

import os
import re
import sys

import harness

FAKE_GPU = os.path.abspath(os.path.join(harness.BIN, "..", "lib", "libTandemFakeCuda.so"))
STAND_IN = {"TANDEM_FAKE_GPUS": 2, "TANDEM_CUDA_LIBRARY": FAKE_GPU, "TANDEM_CUBLASLT_LIBRARY": FAKE_GPU, "TANDEM_NCCL_LIBRARY": FAKE_GPU}
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def page(*parts):
    with open(os.path.join(ROOT, *parts), encoding="utf-8") as file:
        return file.read()


def blocks(text, language):
    return re.findall(r"^```" + language + r"\n(.*?)^```$", text, re.M | re.S)


class Docs(harness.Test):
    def test_timelines(self):
        drawn = self.path("images")
        done = harness.run([os.path.join(ROOT, "tools", "dev"), "draw-timelines", drawn])
        self.assertEqual(done.code, 0, str(done))
        with open(os.path.join(ROOT, "docs", "schedules.md")) as file:
            shown = set(re.findall(r"\(images/([\w.]+)\)", file.read()))
        self.assertEqual(set(os.listdir(drawn)), shown)
        for name in sorted(shown):
            with self.subTest(name=name):
                with open(os.path.join(drawn, name)) as new, open(os.path.join(ROOT, "docs", "images", name)) as old:
                    self.assertEqual(new.read(), old.read(), "stale: run tools/dev docs")

    def test_pictures(self):
        drawn = self.path("pictures")
        done = harness.run([sys.executable, os.path.join(ROOT, "docs", "pictures.py"), harness.BIN, drawn])
        self.assertEqual(done.code, 0, str(done))
        shown = set(re.findall(r"\((?:docs/)?images/([\w.]+)\)", page("README.md") + page("docs", "learn.md")))
        self.assertEqual(set(os.listdir(drawn)), shown)
        for name in sorted(os.listdir(drawn)):
            with self.subTest(name=name), open(os.path.join(drawn, name)) as new:
                self.assertEqual(new.read(), page("docs", "images", name), "stale: run tools/dev docs")

    def test_measured_timelines(self):
        """The commands of docs/performance.md that draw the timelines of README.md from traces, on CPUs and with small sizes. The
        picture says which of the two it shows."""
        block = next(block for block in blocks(page("docs", "performance.md"), "sh") if "--trace=docs/measured/trace-" in block)
        loop = block.split("done\n")[0] + "done\n"
        with open(self.path("small.mlir"), "w") as file:
            file.write(page("docs", "overlap.mlir").replace("8192x8192x", "64x32x").replace("8192x3584x", "32x48x")
                       .replace("!y = tensor<32x", "!y = tensor<64x").replace("!ys = tensor<32x", "!ys = tensor<64x"))
        for old, new in ((" --target=cuda-peer", ""), (" --device=cuda --channel=peer,ccl", ""), ("docs/overlap.mlir", self.path("small.mlir")),
                         ("docs/measured/trace-", self.path("")), ("tandem-compile", os.path.abspath(harness.tool("tandem-compile"))),
                         ("tandem-run", os.path.abspath(harness.tool("tandem-run")))):
            self.assertIn(old, loop)
            loop = loop.replace(old, new)
        done = harness.run(["bash", "-euc", "cd \"$0\"\n" + loop, self.path("")], harness.environment())
        self.assertEqual(done.code, 0, str(done))
        picture = self.path("overlap.svg")

        def draw(*traces):
            return harness.run([sys.executable, os.path.join(ROOT, "docs", "pictures.py"), "--overlap", *map(self.path, traces), picture])

        done = draw("baseline.json", "push.json")
        self.assertEqual(done.code, 0, str(done))
        with open(picture) as file:
            text = file.read()
        self.assertIn("Timelines: measured on cpu over ucx, one traced run each; tracing slows them.", text)
        self.assertNotIn("predicted", text)
        for label, count in (("all-gather", 1), ("matmul", 1), ("own rows", 1), ("rows of rank 1", 1), ("put to 1", 1)):
            self.assertEqual(len(re.findall(rf"<title>{label}: \d+ us</title>", text)), count, label)
        self.assertIn("Timelines: measured on cuda over peer,ccl, one traced run each; tracing slows them.", page("docs", "images", "overlap.svg"))
        done = draw("push.json", "baseline.json")
        self.assertEqual(done.code, 1)
        self.assertIn("push.json: expected a trace of @baseline, found @push", done.err)

    def test_site_deletes_only_its_own(self):
        """tools/dev docs --site FOLDER; the site itself is built by site_test.py."""
        def build(folder):
            return harness.run([sys.executable, os.path.join(ROOT, "docs", "site", "build.py"), self.path("no-tools"), folder,
                                "--pictures-as-they-are"])

        for folder, other in (("other", "other"), ("site", "site-source")):
            with self.subTest(other=other):
                kept = self.path(f"{other}/notes.md")
                os.makedirs(self.path(other))
                with open(kept, "w") as file:
                    file.write("kept")
                done = build(self.path(folder))
                self.assertEqual((done.code, os.listdir(self.path(other))), (1, ["notes.md"]), str(done))
                self.assertIn(f"{self.path(other)}: found a folder with other files, expected an empty or new one", done.err)
        build(self.path("new"))  # fails without tools, after it has made its folders
        for folder in ("new", "new-source"):
            self.assertIn(".tandem-site", os.listdir(self.path(folder)))
            with open(self.path(f"{folder}/old.html"), "w") as file:
                file.write("old")
        again = build(self.path("new"))
        self.assertNotIn("other files", again.err)
        self.assertFalse(os.path.exists(self.path("new/old.html")), str(again))

    def test_readme(self):
        """Its lines of torch are in the program of docs/start.md, in this order; test_torch.py runs that."""
        text, program = page("README.md"), iter(blocks(page("docs", "start.md"), "python")[0].splitlines())
        self.assertLessEqual(text.count("\n"), 80)
        for line in blocks(text, "python")[0].splitlines():
            self.assertTrue(any(line == other for other in program), f"not in docs/start.md, or not in this order: {line}")

    def run_page(self, name):
        """Every command of a page runs. The lines of a ```output block are in the output of the commands before it, in that
        order; `...` stands for anything. Blocks ```sh gpu need the driver that stands in for CUDA. Returns the number of lines
        that were compared."""
        clone = self.path(name)
        os.makedirs(os.path.join(clone, "build"))
        os.symlink(os.path.abspath(harness.BIN), os.path.join(clone, "build", "bin"))
        for folder in ("docs", "examples", "machines"):
            os.symlink(os.path.abspath(os.path.join(ROOT, folder)), os.path.join(clone, folder))
        text = page("docs", name)
        out = ran = compared = 0
        for language, block in re.findall(r"^```(sh|sh gpu|output)\n(.*?)^```$", text, re.M | re.S):
            if language != "output":
                ran += 1
                gpu, out = language == "sh gpu", None
                if not gpu or os.path.exists(FAKE_GPU):
                    done = harness.run(["bash", "-euc", "cd \"$0\"\n" + block, clone], harness.environment(**STAND_IN if gpu else {}))
                    self.assertEqual(done.code, 0, block + str(done))
                    out = done.out
                continue
            at = 0
            for line in block.splitlines() if out is not None else ():
                found = re.compile("^" + ".*".join(map(re.escape, line.split("..."))) + "$", re.M).search(out, at)
                self.assertTrue(found, f"not in the output, or not in this order: {line}\n{out}")
                at, compared = found.end(), compared + 1
        self.assertEqual(ran, len(re.findall(r"^```sh", text, re.M)))
        return compared

    def test_start(self):
        """(Its program in Python: test/Integration/torch.)"""
        self.assertGreater(self.run_page("start.md"), 2)

    def test_learn(self):
        self.assertGreater(self.run_page("learn.md"), 20)

    def test_flags(self):
        """Each flag of a command in README.md and docs/ is in the help of that tool."""
        helps = {}
        checked = 0
        names = ["README.md"] + [os.path.join("docs", name) for name in os.listdir(os.path.join(ROOT, "docs")) if name.endswith(".md")]
        for name in sorted(names):
            text = page(name)
            code = re.findall(r"(?<!`)`([^`\n]+)`(?!`)", text) + re.findall(r"^```(?:sh.*?)?\n(.*?)^```$", text, re.M | re.S)
            for command in "\n".join(code).replace("\\\n", " ").splitlines():
                match = re.match(r"\s*(?:\S+/)?(tandem-(?:opt|compile|check|sim|run|bench))\s(.*)", command.split(" # ")[0])
                if not match:
                    continue
                tool, arguments = match.groups()
                if tool not in helps:
                    how = "--help-hidden" if tool in ("tandem-opt", "tandem-compile") else "--help"
                    helps[tool] = harness.run([harness.tool(tool), how]).out
                for flag in re.findall(r"(?<![\w=-])--[a-z][\w-]*", re.split(r"[|;&]", arguments)[0]):
                    with self.subTest(page=name, command=command):
                        self.assertRegex(helps[tool], re.escape(flag) + r"(?![\w-])")
                        checked += 1
        self.assertGreater(checked, 60)

    def test_choices(self):
        written = self.path("choices.md")
        done = harness.run([sys.executable, os.path.join(ROOT, "docs", "choices.py"), harness.BIN, written], limit=300)
        self.assertEqual(done.code, 0, str(done))
        with open(written) as new, open(os.path.join(ROOT, "docs", "measured", "choices.md")) as old:
            self.assertEqual(new.read(), old.read(), "stale: run tools/dev docs")


if __name__ == "__main__":
    harness.main(__doc__, Docs)
