# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests of IR and of tools: lit and FileCheck. See docs/contribute.md."""

import os

import lit.formats
import lit.util

config.name = "Tandem"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Unit", "Conformance", "Integration", "Benchmark", "Inputs", "CMakeLists.txt"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.tandem_build_dir, "test")

# Our tools first, then FileCheck, not, count, split-file.
path = [config.tandem_tools_dir, config.llvm_tools_dir, config.environment["PATH"]]
config.environment["PATH"] = os.pathsep.join(path)
for name in ("ASAN_OPTIONS", "LSAN_OPTIONS", "UBSAN_OPTIONS"):
    if name in os.environ:
        config.environment[name] = os.environ[name]

config.substitutions.append(("%python", config.tandem_python or "python3"))
config.substitutions.append(("%tandem_src", config.tandem_source_dir))
# A machine file with round numbers.
config.substitutions.append(("%round", f"{config.tandem_python or 'python3'} {config.tandem_source_dir}/test/Inputs/round.py"))

# The assembler for PTX, where the CUDA toolkit is installed.
cuda = [os.path.join(os.environ[name], "bin") for name in ("CUDA_HOME", "CUDA_PATH") if name in os.environ]
ptxas = lit.util.which("ptxas", os.pathsep.join(cuda + ["/usr/local/cuda/bin", os.environ.get("PATH", "")]))
if ptxas:
    config.available_features.add("ptxas")
    config.substitutions.append(("%ptxas", ptxas))

# REQUIRES: asks for one of these.
for feature in config.tandem_features.split(";"):
    if feature:
        config.available_features.add(feature)
