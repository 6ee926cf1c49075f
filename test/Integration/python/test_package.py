# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the wheel contains (the component Python of the build's installation), in an environment with nothing else."""

import os
import subprocess
import sys
import tempfile

import pytest
from test_programs import TEXT

import tandem

HERE = os.path.dirname(os.path.abspath(__file__))


def done(command):
    """The output of a command that succeeds, run without LD_LIBRARY_PATH and PYTHONPATH."""
    kept = {key: value for key, value in os.environ.items()
            if key not in ("LD_LIBRARY_PATH", "PYTHONPATH", "TANDEM_MACHINES")}
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, env=kept)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """site-packages of a new virtual environment."""
    env = tmp_path_factory.mktemp("bare")
    done([sys.executable, "-m", "venv", "--without-pip", env])
    site = env / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    done(["cmake", "--install", os.environ["TANDEM_BUILD"], "--prefix", site, "--component", "Python", "--strip"])
    assert os.listdir(site) == ["tandem"]
    return site


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("programs") / "p.tsp"
    tandem.compile(TEXT, mesh={"x": 1}, shapes={"x": (8, 16)}).save(path)
    return path


def python(site):
    return site.parents[2] / "bin" / "python"


def test_libraries(site):
    for folder, _, names in os.walk(site):
        for name in names:
            if ".so" in name:
                needed = done(["ldd", os.path.join(folder, name)])
                assert not any(word in needed for word in ("not found", "LLVM", "MLIR", "libuc", "libcuda")), needed
    assert sorted(os.listdir(site / "tandem" / "lib")) == [
        f"libtandem_{half}.so.{tandem.__version__.rsplit(chr(46), 1)[0]}" for half in ("compiler", "runtime")]


def test_contents(site):
    for name in ("py.typed", "__init__.py", "share/tandem/machines/h200x8.json",
                 "share/doc/tandem/THIRD_PARTY_NOTICES.md"):
        assert (site / "tandem" / name).is_file(), name


def test_bare_environment(site, program):
    assert done([python(site), os.path.join(HERE, "installed.py"), program]) == "ok\n"


def test_runtime_only(site, program):
    """A program compiled elsewhere runs where the compiler is not installed."""
    for name in os.listdir(site / "tandem" / "lib"):
        if "compiler" in name:
            os.rename(site / "tandem" / "lib" / name, site / name)
    try:
        assert done([python(site), os.path.join(HERE, "installed.py"), program, "runtime"]) == "ok\n"
    finally:
        for name in os.listdir(site):
            if "compiler" in name:
                os.rename(site / name, site / "tandem" / "lib" / name)


def test_version():
    """That of the wheel, which pyproject.toml reads from the sources."""
    backend = "import scikit_build_core.build as b, sys; print(b.prepare_metadata_for_build_wheel(sys.argv[1]))"
    root = os.path.join(HERE, "..", "..", "..")
    with tempfile.TemporaryDirectory() as folder:
        out = subprocess.run([sys.executable, "-c", backend, folder], cwd=root, capture_output=True, text=True, timeout=60)
        assert out.returncode == 0 and out.stdout.split()[-1] == f"tandem-{tandem.__version__}.dist-info", out
