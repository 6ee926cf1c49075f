//===- NoCompiler.cpp - .mlir as input, where there is none -----*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Compile.h"

using namespace tandem::run;

bool tandem::run::hasCompiler() { return false; }

std::vector<std::string> tandem::run::targetNames() { return {}; }

CompiledProgram tandem::run::compileProgram(const CompileRequest &request) {
  CompiledProgram result;
  result.errors = request.path + ": this tool was built without the compiler "
                                 "(TANDEM_ENABLE_COMPILER=OFF); compile the program with "
                                 "tandem-compile on another machine and run the .tsp";
  return result;
}
