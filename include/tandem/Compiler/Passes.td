//===- Passes.td - passes of the pipeline itself -*- tablegen -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_COMPILER_PASSES_TD
#define TANDEM_COMPILER_PASSES_TD

include "mlir/Pass/PassBase.td"

def TandemSnapshot : Pass<"tandem-snapshot", "::mlir::ModuleOp"> {
  let summary = "Write the module into a numbered file";
  let description = [{
    Writes `<directory>/<number>-<stage>.mlir`, the number with two digits. `--tandem-lower` puts one after each of its
    passes when asked for snapshots. The file appears whole or not at all. Changes nothing.
  }];
  let options = [
    Option<"directory", "directory", "std::string", /*default=*/"", "folder; made if it is not there">,
    Option<"number", "number", "unsigned", /*default=*/"0", "number of the file">,
    Option<"stage", "stage", "std::string", /*default=*/"\"module\"", "name of the file">
  ];
}

#endif // TANDEM_COMPILER_PASSES_TD
