//===- LoweringOpInterface.td - ops that become host IR ---*- tablegen -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CONVERSION_FUSIONTOHOSTIR_LOWERINGOPINTERFACE
#define TANDEM_CONVERSION_FUSIONTOHOSTIR_LOWERINGOPINTERFACE

include "mlir/IR/Interfaces.td"

def LoweringOpInterface : OpInterface<"LoweringOpInterface"> {
  let description = [{An op that `convert-fusion-to-hostir` lowers, slice by slice.}];
  let cppNamespace = "::tandem";
  let methods = [
    InterfaceMethod<"The lowering, which all ops of this name share.",
                    "const ::tandem::OpLowering &", "getLowering">,
  ];
}

#endif // TANDEM_CONVERSION_FUSIONTOHOSTIR_LOWERINGOPINTERFACE
