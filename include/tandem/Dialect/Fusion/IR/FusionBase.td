//===- FusionBase.td - fusion dialect -*- tablegen -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_FUSION_IR_FUSIONBASE_TD
#define TANDEM_DIALECT_FUSION_IR_FUSIONBASE_TD

include "mlir/IR/OpBase.td"

def Fusion_Dialect : Dialect {
  let name = "fusion";
  let cppNamespace = "::tandem::fusion";
  let summary = "Tensor fusions whose axes are parallelised over devices and streams";
  let description = [{
    The `fusion` dialect states *what* is computed and how every tensor axis is parallelised, not how buffers, streams
    or messages implement it. Values are tensors of logical (global) shape. A tensor's encoding, `#fusion.axes`, splits
    each dimension into digits, like the factors of a reshape. Each digit is spread over devices (`didx`, as in
    nvFuser), iterated (`stream`), or neither (`serial`). `fusion.reshard` is the only op that communicates.

    A tensor without encoding is *undecided*; a tensor with encoding is decided. `fusion-propagate-axes` decides,
    `fusion-insert-reshards` places reshards, `convert-fusion-to-hostir` lowers.
  }];
  let dependentDialects = ["::mlir::func::FuncDialect", "::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect", "::tandem::MeshDialect"];
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
  let extraClassDeclaration = [{
    void registerAttributes();
    /// Also reads the older spellings of the mesh dialect's attributes: `#fusion.mesh<...>`, `#fusion<reduce_kind ...>`
    /// They print as `#tandem.mesh<...>` and `#tandem<reduce_kind ...>`.
    ::mlir::Attribute parseAttribute(::mlir::DialectAsmParser &parser, ::mlir::Type type) const override;
    void printAttribute(::mlir::Attribute attr, ::mlir::DialectAsmPrinter &printer) const override;
    void registerOps();
  }];
}

#endif // TANDEM_DIALECT_FUSION_IR_FUSIONBASE_TD
