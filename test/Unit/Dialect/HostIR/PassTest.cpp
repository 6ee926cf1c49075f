//===- PassTest.cpp - programs as text, and passes over them -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PassTest.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"
#include "tandem/Dialect/HostIR/Transforms/Passes.h"
#include <mutex>

using namespace mlir;
using namespace tandem::hostir;
using namespace tandem::hostir::test;

PassTest::PassTest() : context(MLIRContext::Threading::DISABLED) {
  static std::once_flag registered;
  std::call_once(registered, [] {
    registerHostIRPasses();
    registerCanonicalizerPass();
    registerCSEPass();
  });
  context.loadDialect<HostIRDialect>();
  context.getDiagEngine().registerHandler([&](Diagnostic &diagnostic) {
    diagnostics += diagnostic.str() + "\n";
    return success();
  });
}

OwningOpRef<ModuleOp> PassTest::parse(const std::string &text) {
  return parseSourceString<ModuleOp>(text, &context);
}

LogicalResult PassTest::run(ModuleOp module, const std::string &pipeline) {
  PassManager manager(&context);
  llvm::raw_string_ostream os(diagnostics);
  if (failed(parsePassPipeline("hostir.program(" + pipeline + ")", manager, os)))
    return failure();
  return manager.run(module);
}

ProgramOp PassTest::programOf(ModuleOp module) { return *module.getOps<ProgramOp>().begin(); }
