//===- FusionInterfaces.td - what the passes ask of every fusion op -*- tablegen -*-===//
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
    What the passes ask of an op on tensors: which dimensions belong together, and which shapes come out.
  }];
  let methods = [
    InterfaceMethod<[{
        Which dimensions of operands and results run together, and what the op does to partial values (see AxesRule).
      }], "::tandem::fusion::AxesRule", "getAxesRule">,
    InterfaceMethod<[{
        Shapes of the results that follow from the operands' shapes and the attributes, one per result. An extent that
        does not follow is ShapedType::kDynamic, and the one that the result type has holds.
      }], "::llvm::LogicalResult", "inferResultShapes",
      (ins "::llvm::SmallVectorImpl<::llvm::SmallVector<int64_t>> &":$shapes)>
  ];
}

#endif // TANDEM_DIALECT_FUSION_IR_FUSIONINTERFACES_TD
