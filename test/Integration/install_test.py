# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An installation, and projects that use it (examples/ and install/): what is exported, found and needed."""

import os
import re
import shlex
import shutil
import tempfile
import textwrap
import unittest

import harness

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
PROJECTS = os.path.join(ROOT, "test", "Integration", "install")
EXAMPLES = os.path.join(ROOT, "examples")
#: Warnings that users of the headers may ask for.
PEDANTIC = "-pedantic -Wall -Wextra -Werror"
BUILD = os.path.dirname(os.path.abspath(harness.BIN))
#: What each library may need, beyond the C and C++ libraries.
NEEDED = {"runtime": ("libfmt", "libdnnl"), "compiler": ("libfmt", "libz", "libzstd")}
SYSTEM = ("libc", "libm", "libstdc++", "libgcc_s", "libdl", "libpthread", "ld-linux-x86-64", "ld-linux-aarch64")
#: Built into the libraries and tools.
BUILT_IN = ("LLVM and MLIR", "FlatBuffers", "fmt", "JSON for Modern C++", "xxHash", "CLI11")

with open(os.path.join(ROOT, "include", "tandem-c", "Version.h")) as file:
    VERSION = ".".join(re.findall(r"#define TANDEM_VERSION_[A-Z]+ (\d+)", file.read()))
ABI = VERSION.rsplit(".", 1)[0]


def done(command, limit=120, **variables):
    """The output of a command that succeeds. Its LD_LIBRARY_PATH and TANDEM_MACHINES are those given."""
    env = harness.environment(**variables)
    if "LD_LIBRARY_PATH" not in variables:
        env.pop("LD_LIBRARY_PATH", None)
    result = harness.run([str(word) for word in command], env, limit)
    assert result.code == 0, f"{shlex.join(map(str, command))}\n{result}"
    return result.out


def install(prefix, *components):
    for component in components or [None]:
        done(["cmake", "--install", BUILD, "--prefix", prefix, "--strip"] +
             (["--component", component] if component else []))


def tool(name):
    """An installed tool."""
    return os.path.join(PREFIX, "bin", name)


def files(folder):
    return sorted(os.path.relpath(os.path.join(parent, name), folder)
                  for parent, _, names in os.walk(folder) for name in names)


def headers(name):
    """The text of a header of the C API and of those that it includes, by name."""
    with open(os.path.join(ROOT, "include", "tandem-c", name)) as header:
        texts = {name: re.sub(r"/\*.*?\*/", "", header.read(), flags=re.S)}
    for other in re.findall(r'#include "tandem-c/(.*)"', texts[name]):
        texts.update(headers(other))
    return texts


def declared(half):
    """The functions of a half of the C API."""
    return sorted(set(re.findall(r"\b(tandem_\w+)\s*\(", "".join(headers(half.capitalize() + ".h").values()))))


def dynamic(path, tag):
    """The names in a library's dynamic section."""
    return re.findall(rf"\({tag}\).*\[(.*)\]", done(["readelf", "-dW", path]))


def configure(project, build, *options, **variables):
    return done(["cmake", "-S", os.path.join(PROJECTS, project), "-B", build, "-G", "Ninja",
                 "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", *options], **variables)


def build(project, folder, *options, **variables):
    configure(project, folder, *options, **variables)
    done(["cmake", "--build", folder], limit=600, **variables)


def copied(example, folder):
    """Copies a folder of examples/, which must build without its neighbours."""
    return shutil.copytree(os.path.join(EXAMPLES, example), os.path.join(folder, "sources"))


def setUpModule():
    """PREFIX: a full installation, moved away from where it was installed. PROGRAM: what it compiles."""
    global FOLDER, PREFIX, LIB, PROGRAM
    FOLDER = tempfile.mkdtemp(prefix="tandem-install-")
    unittest.addModuleCleanup(shutil.rmtree, FOLDER, ignore_errors=True)
    first, PREFIX = os.path.join(FOLDER, "first"), os.path.join(FOLDER, "moved", "tandem")
    install(first)
    os.mkdir(os.path.dirname(PREFIX))
    os.rename(first, PREFIX)
    LIB = next(os.path.join(PREFIX, os.path.dirname(name)) for name in files(PREFIX)
               if name.endswith("/libtandem_runtime.so"))
    # A machine file that no other folder has.
    machines = os.path.join(PREFIX, "share", "tandem", "machines")
    shutil.copy(os.path.join(machines, "h200x2.json"), os.path.join(machines, "only-here.json"))
    PROGRAM = os.path.join(FOLDER, "gather.tsp")
    with open(os.path.join(EXAMPLES, "c", "fusion.h")) as header, open(os.path.join(FOLDER, "gather.mlir"), "w") as fusion:
        fusion.writelines(line.replace('\\"', '"') + "\n" for line in re.findall(r'^ +"(.*)\\n"', header.read(), re.M))
    done([tool("tandem-compile"), fusion.name, "--target=cpu-local", "--mesh", "x=2", "-o", PROGRAM])


class Contents(harness.Test):
    def library(self, half):
        return os.path.join(LIB, f"libtandem_{half}.so")

    def test_exports(self):
        """Only the functions of the headers, each with the version."""
        for half in ("runtime", "compiler"):
            with self.subTest(library=half):
                self.assertGreater(len(declared(half)), 8)
                symbols = [line.split()[-2:] for line in
                           done(["nm", "-D", "--defined-only", "--with-symbol-versions",
                                 self.library(half)]).splitlines()]
                # GNU ld defines the version itself as an absolute symbol.
                names = sorted(name for kind, name in symbols if kind != "A")
                self.assertEqual(names, [f"{name}@@TANDEM_{ABI}" for name in declared(half)])
                self.assertEqual(dynamic(self.library(half), "SONAME"), [f"libtandem_{half}.so.{ABI}"])

    def test_needs(self):
        for half, allowed in NEEDED.items():
            with self.subTest(library=half):
                needed = dynamic(self.library(half), "NEEDED")
                self.assertEqual([name for name in needed if name.split(".so")[0] not in allowed + SYSTEM], [])
                self.assertEqual(dynamic(self.library(half), "RUNPATH"), [])

    def test_no_path_of_the_build(self):
        """Neither the source tree nor the first prefix is in what programs are built with."""
        for name in files(PREFIX):
            if name.startswith(("lib", "include", "share")) and ".so" not in name:
                with self.subTest(file=name), open(os.path.join(PREFIX, name)) as text:
                    content = text.read()
                    for path in (ROOT, BUILD, os.path.join(FOLDER, "first")):
                        self.assertNotIn(path + "/", content)

    def test_notices(self):
        """Every component of binaries has them."""
        for component in ("Runtime", "Compiler", "Tools"):
            with self.subTest(component=component):
                prefix = self.path(component)
                install(prefix, component)
                with open(os.path.join(prefix, "share", "doc", "tandem", "THIRD_PARTY_NOTICES.md")) as text:
                    sections = re.split(r"^## ", text.read(), flags=re.M)
                copyrights = {section.split("\n")[0] for section in sections if "Copyright" in section}
                self.assertLessEqual(set(BUILT_IN), copyrights)
                self.assertIn("share/doc/tandem/LICENSE", files(prefix))

    def test_headers_alone(self):
        for half in ("Runtime", "Compiler"):
            for command in (["cc", "-xc", "-std=c11"], ["clang-22", "-xc", "-std=c11"], ["c++", "-xc++", "-std=c++17"]):
                with self.subTest(header=half, compiler=command[0]):
                    done([*command, "-pedantic", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-include",
                          f"tandem-c/{half}.h", f"-I{PREFIX}/include", "/dev/null"])

    def test_structs(self):
        """Each begins with its size."""
        texts = {**headers("Runtime.h"), **headers("Compiler.h")}
        found = re.findall(r"typedef struct (tandem_\w+) \{\s*([^;]*);", "".join(texts.values()))
        self.assertGreater(len(found), 15)
        self.assertEqual([name for name, first in found if first != "size_t struct_size"], [])

    def test_machine_files(self):
        """Tools and libraries find those next to them; TANDEM_MACHINES names others."""
        sim = [tool("tandem-sim"), PROGRAM]
        self.assertIn("2 ranks", done([*sim, "--machine=only-here"]))
        # Through the PATH, argv[0] has no folder.
        done(["sh", "-c", 'PATH=$1 exec tandem-sim "$2" --machine=only-here', "sh", tool(""), PROGRAM])
        refused = harness.run([*sim, "--machine=only-here"], harness.environment(TANDEM_MACHINES=self.folder))
        self.assertNotEqual(refused.code, 0, str(refused))
        self.assertIn(os.path.join(self.folder, "only-here.json"), refused.err)


class Projects(harness.Test):
    def test_c11(self):
        build(copied("c", self.folder), self.folder, f"-DCMAKE_PREFIX_PATH={PREFIX}", f"-DCMAKE_C_FLAGS={PEDANTIC}")
        done([self.path("main"), self.path("gather.tsp")])
        ran = harness.run([self.path("main"), self.path("gather.tsp"), "only-here"], harness.environment())
        # The libraries write nothing that the program has not asked for.
        self.assertEqual((ran.code, ran.out, ran.err), (0, f"gathered with {VERSION}\n", ""))
        missing = harness.run([self.path("main"), self.path("gather.tsp"), "nowhere"])
        self.assertNotEqual(missing.code, 0, str(missing))
        self.assertIn("nowhere", missing.err)

    def test_cxx17(self):
        build(copied("cxx", self.folder), self.folder, f"-DCMAKE_PREFIX_PATH={PREFIX}", f"-DCMAKE_CXX_FLAGS={PEDANTIC}")
        out = done([self.path("main")])
        self.assertRegex(out, rf"\A\S+:1:\d+: expected.*\n(.*\n)*gathered with {re.escape(VERSION)}\n\Z")
        self.assertEqual(done([self.path("shapes")]),
                         "".join(f"4 ranks computed the same product of {rows} rows each\n" for rows in (8, 3, 8)) +
                         "compiled 2 programs, used one again 1 times\n")
        self.builds_a_layer(self.path("builder"))

    def builds_a_layer(self, builder):
        self.assertRegex(done([builder]), r"\A\S*builder\.cpp:\d+: error: matmul\(x: 64x32xf32, x: 64x32xf32\): "
                                          r"expected equal contracted extents, found 32 and 64\n"
                                          r"\S*builder\.cpp:\d+: error: .*\ncompiled a layer\n\Z")

    def test_more(self):
        build("more", self.folder, f"-DCMAKE_PREFIX_PATH={PREFIX}")
        self.builds_a_layer(self.path("builder-plain"))
        # Two copies of the compiler: each has its own LLVM, with its own global state.
        copy = self.path("libother.so")
        shutil.copy(os.path.join(LIB, "libtandem_compiler.so"), copy)
        out = done([self.path("two"), os.path.join(LIB, "libtandem_compiler.so"), copy])
        self.assertEqual(out, "compiled with both\n")

    def test_builder_version(self):
        """The builder's inline namespace is that of the library's version."""
        source = self.path("builder.cpp")
        with open(source, "w") as file:
            file.write('#include "tandem/Compiler/Builder.h"\n'
                       f"tandem::builder::v{ABI.replace('.', '_')}::Fusion f(\"layer\");\n")
        done([os.environ.get("CXX", "c++"), "-std=c++17", "-fsyntax-only", f"-I{PREFIX}/include", source])

    def test_jit_fuser(self):
        """examples/jit-fuser, which compares itself with one rank and with plain loops."""
        build(os.path.join(EXAMPLES, "jit-fuser"), self.folder, f"-DCMAKE_PREFIX_PATH={PREFIX}",
              "-DCMAKE_CXX_FLAGS=-Werror -pedantic")
        # Ranks as threads and as processes; small groups; other shapes; three ranks; one.
        for options in (["--ranks=4", "--machine=h200x4"], ["--ranks=2", "--processes"],
                        ["--ranks=2", "--group-ops=9", "--attention=op"],
                        ["--ranks=3", "--tokens=15", "--heads=6", "--hidden=36", "--blocks=1",
                         "--group-bytes=20000"], ["--ranks=1"]):
            with self.subTest(options):
                out = done([self.path("jit-fuser"), *options])
                self.assertRegex(out, r"\A3 steps: \d+ groups of \d+ ops in all, \d+ programs; loss [\d.]+ to [\d.]+\n"
                                      r"results agree with one rank, plain loops and finite differences\n\Z")
        self.assertIn("--group-ops=64", done([self.path("jit-fuser"), "--help"]))
        refused = harness.run([self.path("jit-fuser"), "--ranks=2", "--target=gpu"])
        self.assertEqual(refused.code, 1, str(refused))
        self.assertIn('group: error: unknown target "gpu"', refused.err)

    def test_pkg_config(self):
        pc = os.path.join(LIB, "pkgconfig")
        flags = shlex.split(done(["pkg-config", "--cflags", "--libs", "tandem-runtime", "tandem-compiler"],
                                 PKG_CONFIG_PATH=pc))
        self.assertEqual(done(["pkg-config", "--modversion", "tandem-runtime"], PKG_CONFIG_PATH=pc), VERSION + "\n")
        done(["cc", "-std=c11", "-pedantic", "-Wall", "-Wextra", "-Werror", os.path.join(EXAMPLES, "c", "main.c"),
              "-o", self.path("main"), *flags])
        out = done([self.path("main"), self.path("gather.tsp"), "only-here"], LD_LIBRARY_PATH=LIB)
        self.assertEqual(out, f"gathered with {VERSION}\n")

    def test_runtime_only(self):
        """An installation of the runtime: neither the compiler nor LLVM is found, and none is needed."""
        prefix = self.path("prefix")
        install(prefix, "Runtime", "RuntimeDevelopment")
        self.assertEqual([name for name in files(prefix) if "ompiler" in name or "machines" in name], [])
        build("runtime", self.path("build"), f"-DCMAKE_PREFIX_PATH={prefix}")
        main = self.path("build/main")
        self.assertEqual(done([main, PROGRAM]), f"gathered with {VERSION}\n")
        self.assertNotRegex(done(["ldd", main]), "LLVM|MLIR|tandem_compiler|not found")
        refused = harness.run(["cmake", "-S", os.path.join(EXAMPLES, "c"), "-B", self.path("refused"), "-G", "Ninja",
                               f"-DCMAKE_PREFIX_PATH={prefix}"])
        self.assertNotEqual(refused.code, 0, str(refused))
        self.assertIn("component Compiler of Tandem is not installed", refused.err)


class Documentation(harness.Test):
    def test_snippets(self):
        """The programs in docs/embedding.md are the lines between [docs: NAME] and [docs: end] of files that tests build and
        run, or programs of docs/torch.md, which its tests run."""
        shown = []
        for name in ("embedding.md", "torch.md"):
            with open(os.path.join(ROOT, "docs", name)) as page:
                shown.append(re.findall(r"^```(?:c|cpp|python)\n(.*?)^```$", page.read(), re.M | re.S))
        page, known, found = shown[0], set(shown[1]), 0
        for folder in ("examples", "test/Integration/install", "test/Integration/python", "test/Unit/Runtime/Api",
                       "test/Unit/Runtime/Device/Gpu"):
            for name in files(os.path.join(ROOT, folder)):
                if not name.endswith((".c", ".cpp", ".h", ".py")):
                    continue
                with open(os.path.join(ROOT, folder, name)) as source:
                    parts = re.findall(r"^ *(?://|/\*|#) \[docs: (\w+)\](?: \*/)?\n(.*?)^ *(?://|/\*|#) \[docs: end\](?: \*/)?$",
                                       source.read(), re.M | re.S)
                for label, part in parts:
                    found += 1
                    known.add(textwrap.dedent(part))
                    with self.subTest(f"{name}: {label}"):
                        self.assertIn(textwrap.dedent(part), page)
        self.assertGreater(found, 0)
        for program in page:
            with self.subTest(program):
                self.assertIn(program, known)


class Subproject(harness.Test):
    """The sources of the next version, as a folder of another project."""

    def setUp(self):
        super().setUp()
        self.sources = self.path("tandem-next")
        for name in ("cmake", "include", "lib", "runtime", "tools", "machines"):
            shutil.copytree(os.path.join(ROOT, name), os.path.join(self.sources, name))
        shutil.copy(os.path.join(ROOT, "CMakeLists.txt"), self.sources)
        major, minor = ABI.split(".")
        self.next = f"{major}.{int(minor) + 1}.0"
        with open(os.path.join(self.sources, "include", "tandem-c", "Version.h"), "r+") as header:
            text = header.read().replace(f"TANDEM_VERSION_MINOR {minor}", f"TANDEM_VERSION_MINOR {int(minor) + 1}")
            header.seek(0)
            header.write(text)

    def test_subproject(self):
        folder = self.path("build")
        # Equal files compile once, whatever the folder's name is this time.
        cache = {"CCACHE_BASEDIR": self.folder, "CCACHE_NOHASHDIR": "1"}
        build("subproject", folder, f"-DTANDEM_SOURCE_DIR={self.sources}", "-DTANDEM_ENABLE_COMPILER=OFF",
              "-DTANDEM_ENABLE_CUDA=OFF", "-DTANDEM_ENABLE_UCX=OFF", "-DTANDEM_ENABLE_DNNL=OFF",
              **cache)
        self.assertEqual(done([os.path.join(folder, "app")]), self.next + "\n")

        with self.subTest("compiled as by itself"):
            flags = self.flags(folder)
            extra = [flag for flag in flags["app.cpp"] if flag not in flags["alone.cpp"]]
            self.assertEqual(" ".join(extra).replace("-I ", "-I").replace("-isystem ", "-I"),
                             f"-I{self.sources}/include")
            self.assertEqual([flag for flag in flags["alone.cpp"] if flag not in flags["app.cpp"]], [])
        with self.subTest("with the project's compilers"):
            self.assertEqual(self.compilers(folder, self.sources), self.compilers(folder, PROJECTS))
        with self.subTest("with the compiler: the same checks when configured"):
            configure("subproject", self.path("both"), f"-DTANDEM_SOURCE_DIR={self.sources}")
        with self.subTest("without tests"):
            self.assertIn("Total Tests: 0", done(["ctest", "--test-dir", folder, "-N"]))
        with self.subTest("without rules to install"):
            with open(os.path.join(folder, "tandem", "cmake_install.cmake")) as rules:
                self.assertNotIn("INSTALL DESTINATION", rules.read())
        with self.subTest("no file sees CUDA"):
            self.assertNotRegex(" ".join(word for _, words in self.commands(folder) for word in words), r"-(I|isystem) ?\S*cuda")
        with self.subTest("two versions in one process"):
            build("runtime", self.path("host"), f"-DCMAKE_PREFIX_PATH={self.runtime_prefix()}")
            out = done([self.path("host/main"), PROGRAM, os.path.join(folder, "libplugin.so")])
            self.assertEqual(out, f"plugin: gathered with {self.next}\ngathered with {VERSION}\n")
        with self.subTest("device hip without CUDA"):
            stand_in = os.path.join(BUILD, "lib", "libTandemFakeCuda.so")
            if os.path.exists(stand_in) and any(os.path.basename(file) == "HipDriver.cpp" for file, _ in self.commands(folder)):
                again = done([self.path("host/main"), PROGRAM, os.path.join(folder, "libplugin.so")], GATHER_DEVICE="hip",
                             TANDEM_FAKE_GPUS=2, TANDEM_HIP_LIBRARY=stand_in, TANDEM_HIPBLASLT_LIBRARY=stand_in)
                self.assertEqual(again, out)

    def runtime_prefix(self):
        prefix = self.path("runtime")
        install(prefix, "Runtime", "RuntimeDevelopment")
        return prefix

    def commands(self, folder):
        for entry in harness.read_json(os.path.join(folder, "compile_commands.json")):
            yield entry["file"], shlex.split(entry["command"])

    def flags(self, folder):
        """source -> its flags, without compiler, output and input."""
        return {os.path.basename(file): words[1:words.index("-o")] for file, words in self.commands(folder)
                if file.startswith(PROJECTS)}

    def compilers(self, folder, sources):
        """The compilers of C++ files in `sources`, without launchers."""
        return {next(word for word in words if re.search(r"(\+\+|clang)[-\d]*$", word))
                for file, words in self.commands(folder) if file.startswith(sources) and file.endswith(".cpp")}


if __name__ == "__main__":
    harness.main(__doc__, Contents, Projects, Documentation, Subproject)
