//===- Registration.cpp - everything that a tool registers -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Compiler/Registration.h"

#include "SimulatedPricer.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Pass/PassRegistry.h"
#include "tandem/Compiler/Passes.h"
#include "tandem/Compiler/Pipelines.h"
#include "tandem/Conversion/FusionToHostIR/Passes.h"
#include "tandem/Dialect/Fusion/IR/FusionDialect.h"
#include "tandem/Dialect/Fusion/Transforms/Passes.h"
#include "tandem/Dialect/HostIR/IR/HostIRDialect.h"
#include "tandem/Dialect/HostIR/Transforms/Passes.h"
#include "tandem/Dialect/Mesh/IR/Mesh.h"

using namespace mlir;

void tandem::registerTandemDialects(DialectRegistry &registry) {
  registry.insert<tandem::MeshDialect, tandem::fusion::FusionDialect, tandem::hostir::HostIRDialect,
                  arith::ArithDialect, func::FuncDialect, math::MathDialect, memref::MemRefDialect,
                  scf::SCFDialect, tensor::TensorDialect>();
  registerSchedules(registry);
  registerLowerings(registry);
  registerSimulatedPricer(registry);
}

void tandem::registerTandemPasses() {
  tandem::registerTandemCompilerPasses();
  tandem::registerTandemConversionPasses();
  tandem::fusion::registerTandemFusionPasses();
  tandem::hostir::registerHostIRPasses();
  // PassPipelineRegistration cannot report an option out of range.
  registerPassPipeline(
      "tandem-lower", "lower fusions to planned host programs",
      [](OpPassManager &manager, StringRef text,
         function_ref<LogicalResult(const Twine &)> error) -> LogicalResult {
        TandemLowerOptions options;
        if (failed(options.parseFromString(text)))
          return failure();
        return buildTandemLowerPipeline(manager, options, error);
      },
      [](function_ref<void(const mlir::detail::PassOptions &)> handle) {
        handle(TandemLowerOptions());
      });
}
