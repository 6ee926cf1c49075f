//===- PassTest.h - programs as text, and passes over them -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_UNIT_DIALECT_HOSTIR_PASSTEST_H
#define TANDEM_TEST_UNIT_DIALECT_HOSTIR_PASSTEST_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "tandem/Dialect/HostIR/IR/HostIROps.h"
#include "tandem/Support/LLVM.h"
#include <string>

namespace tandem::hostir::test {

/// A context with what host programs are made of.
class PassTest {
public:
  PassTest();

  /// Null, and `diagnostics` says why, if the text is not valid.
  OwningOpRef<ModuleOp> parse(const std::string &text);
  /// Runs a textual pipeline of passes on every program.
  LogicalResult run(ModuleOp module, const std::string &pipeline);
  /// The one program of the module.
  static ProgramOp programOf(ModuleOp module);

  /// Everything that was said since this object was made.
  std::string diagnostics;

private:
  MLIRContext context;
};

} // namespace tandem::hostir::test

#endif // TANDEM_TEST_UNIT_DIALECT_HOSTIR_PASSTEST_H
