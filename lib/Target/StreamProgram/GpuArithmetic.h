//===- GpuArithmetic.h - values in a GPU's registers ------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The arithmetic of elementwise kernels on GPUs. It gives the bits of expression code on the CPU:
// what GPUs or LLVM leave undefined, or do in another way, is written out in instructions.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TARGET_STREAMPROGRAM_GPUARITHMETIC_H
#define TANDEM_LIB_TARGET_STREAMPROGRAM_GPUARITHMETIC_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"
#include "tandem/Support/ElementTypes.h"
#include "tandem/Support/LLVM.h"

namespace tandem::target {

class GpuArithmetic {
protected:
  GpuArithmetic(mlir::MLIRContext *context, mlir::Location loc) : b(context), loc(loc) {}

  /// The result of an op of a kernel. Operands and result are in registers. Reports an op that GPUs
  /// do not have.
  FailureOr<mlir::Value> compute(mlir::Operation *op, ArrayRef<mlir::Value> operands);
  /// A constant of a register type.
  mlir::Value splat(mlir::Type type, mlir::TypedAttr value) {
    auto vector = dyn_cast<mlir::VectorType>(type);
    return mlir::arith::ConstantOp::create(
        b, loc,
        vector ? mlir::TypedAttr(mlir::DenseElementsAttr::get(vector, mlir::Attribute(value)))
               : value);
  }
  mlir::Value integerLike(mlir::Value value, int64_t number) {
    return splat(value.getType(),
                 b.getIntegerAttr(mlir::getElementTypeOrSelf(value.getType()), number));
  }
  mlir::Value compare(mlir::arith::CmpIPredicate predicate, mlir::Value value, int64_t number) {
    return mlir::arith::CmpIOp::create(b, loc, predicate, value, integerLike(value, number));
  }
  mlir::Value divide(mlir::Operation *op, mlir::Value x, mlir::Value y);
  mlir::Value remainder(mlir::Value x, mlir::Value y);
  mlir::Value toInteger(mlir::Type type, mlir::Value x);
  mlir::Value toOdd(mlir::Value x, bool isSigned);
  /// The same of a conversion between floats, from an integer to a narrow float, or of bits that
  /// stay as they are; null for any other op.
  mlir::Value convert(mlir::Operation *op, mlir::Value operand, mlir::Type type);
  /// f32 from the bytes of a float of 8 bits, and the nearest such bytes.
  mlir::Value fromFp8(mlir::Type fp8, mlir::Value bytes);
  mlir::Value toFp8(mlir::Type fp8, mlir::Value x);

  mlir::Type shaped(mlir::Type element) const {
    return width == 0 ? element : mlir::VectorType::get({width}, element);
  }
  /// The type in registers.
  mlir::Type registerType(mlir::Type type) {
    mlir::Type element = mlir::getElementTypeOrSelf(type);
    return shaped(element.isF16() || element.isBF16() || isFp8(element) ? b.getF32Type() : element);
  }
  mlir::Value add(mlir::Value x, mlir::Value y) {
    return mlir::arith::AddIOp::create(b, loc, x, y);
  }

  mlir::OpBuilder b;
  mlir::Location loc;
  int64_t width = 0; ///< elements of a vector; 0: values are scalars
};

} // namespace tandem::target

#endif // TANDEM_LIB_TARGET_STREAMPROGRAM_GPUARITHMETIC_H
