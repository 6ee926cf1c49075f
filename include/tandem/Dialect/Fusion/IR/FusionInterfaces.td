//===- FusionInterfaces.td - interfaces of fusion ops ------*- tablegen -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_FUSION_IR_FUSIONINTERFACES_TD
#define TANDEM_DIALECT_FUSION_IR_FUSIONINTERFACES_TD

include "mlir/IR/OpBase.td"

def Fusion_TensorOpInterface : OpInterface<"FusionTensorOpInterface"> {
  let cppNamespace = "::tandem::fusion";
  let description = [{
    An op that runs on each device's piece without communication. Ops of other dialects get it by an external model;
    `ElementwiseModels.cpp` has those of `arith` and `math`. `docs/fusion.md`, "Add an op", adds an op from nothing.
  }];
  let methods = [
    InterfaceMethod<[{
        The dimensions of operands and results that belong together, and the behaviour on partial values (see AxesRule).
      }], "::tandem::fusion::AxesRule", "getAxesRule">,
    InterfaceMethod<[{
        Shapes of the results that follow from the operands' shapes and the attributes, one per result. An extent that
        does not follow is ShapedType::kDynamic; the result type then states it. Emits an error if the operands
        contradict each other.
      }], "::llvm::LogicalResult", "inferResultShapes",
      (ins "::llvm::SmallVectorImpl<::llvm::SmallVector<int64_t>> &":$shapes)>,
    InterfaceMethod<[{
        Success if the op can be lowered with its types and attributes; emits an error otherwise. For ops of other
        dialects, whose own verifiers accept more than kernels compute.
      }], "::llvm::LogicalResult", "verifySupported", (ins), "", "return ::llvm::success();">
  ];
}

#endif // TANDEM_DIALECT_FUSION_IR_FUSIONINTERFACES_TD
