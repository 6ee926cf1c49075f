//===- Integers.h - integer arithmetic of host programs ---------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Integer arithmetic at compile time, for buffer planning, slices of buffers and the translation to
// stream programs.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_HOSTIR_EVALUATE_INTEGERS_H
#define TANDEM_DIALECT_HOSTIR_EVALUATE_INTEGERS_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "tandem/Support/LLVM.h"

#include <optional>
#include <string>

namespace tandem::hostir {

enum class IntegerKind : uint8_t {
  Add,
  Sub,
  Mul,
  DivS,
  DivU,
  CeilDivS,
  CeilDivU,
  FloorDivS,
  RemS,
  RemU,
  MinS,
  MaxS,
  MinU,
  MaxU,
  And,
  Or,
  Xor,
  Shl,
  ShrS,
  ShrU,
  Compare,
  // Of one operand:
  Wrap,   // truncates, or extends the sign
  Unsign, // of `width` bits, as an unsigned number
  Negate, // sign-extends an i1
};

/// An integer operation. Numbers are sign-extended to 64 bits; i1 is 0 or 1. Example: i8 addition
/// of 127 and 1 (Add, width 8) gives -128.
struct IntegerOp {
  IntegerKind opcode;
  uint8_t width = 64;                                        ///< in bits; `index` has 64
  arith::CmpIPredicate predicate = arith::CmpIPredicate::eq; ///< of Compare

  bool isUnary() const { return opcode >= IntegerKind::Wrap; }
};

/// The width of an integer or index type; none for other types.
std::optional<uint8_t> getIntegerWidth(Type type);

/// The operation of an `arith` op on integers or indices; none for other ops, constants and
/// `arith.select`.
std::optional<IntegerOp> getIntegerOp(Operation *op);

/// The value of a constant; none if it is no integer of at most 64 bits.
std::optional<int64_t> getConstantNumber(Operation *op);

/// The result; sums and products wrap, as in `arith`. None where `arith` is undefined: division by
/// zero, quotient overflow, shifts by the width or more. Unary operations ignore `b`.
std::optional<int64_t> evaluate(IntegerOp op, int64_t a, int64_t b);

/// The reason why `evaluate` gives none, for a diagnostic.
std::string describeUndefined(IntegerOp op, int64_t b);

/// Whether a loop of this width continues: a < b, optionally unsigned.
bool isLess(int64_t a, int64_t b, unsigned width, bool isUnsigned);

/// The loop's next index; none if it does not fit the width, which ends the loop.
std::optional<int64_t> advance(int64_t index, int64_t step, unsigned width);

/// The value of a constant, `arith.select` or integer op if `valueOf` knows its operands.
std::optional<int64_t> evaluateOp(Operation *op,
                                  function_ref<std::optional<int64_t>(Value)> valueOf);

} // namespace tandem::hostir

#endif // TANDEM_DIALECT_HOSTIR_EVALUATE_INTEGERS_H
