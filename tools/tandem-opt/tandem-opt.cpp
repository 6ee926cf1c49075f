//===- tandem-opt.cpp - the passes from the command line -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/IR/DialectRegistry.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "tandem/Compiler/Registration.h"
#include "tandem/Program/Files.h"

#include "llvm/Support/raw_ostream.h"

int main(int argc, char **argv) {
  for (int i = 1; i < argc; ++i) {
    llvm::StringRef path(argv[i]);
    path.consume_front("@"); // options from a file
    if (llvm::StringRef(argv[i - 1]) != "-o" && tandem::isEndless(path.str())) {
      llvm::errs() << "tandem-opt: " << path << ": cannot read: not a regular file\n";
      return 1;
    }
  }
  mlir::DialectRegistry registry;
  mlir::registerAllDialects(registry);
  mlir::registerAllPasses();
  tandem::registerTandemDialects(registry);
  tandem::registerTandemPasses();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "Tandem's passes over fusion and hostir\n", registry));
}
