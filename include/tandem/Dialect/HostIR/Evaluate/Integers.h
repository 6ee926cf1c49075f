//===- Integers.h - integer arithmetic of host programs ---------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The one arithmetic for numbers that are known at compile time: buffer planning, slices of buffers
// and the translation to stream programs use it.
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
  Negate, // extends the sign of an i1
};

/// An integer operation. Numbers are kept sign-extended to 64 bits, those of type i1 as 0 and 1.
/// Example: i8 addition of 127 and 1 (Add, width 8) gives -128.
struct IntegerOp {
  IntegerKind kind;
  uint8_t width = 64;                                        ///< in bits; `index` has 64
  arith::CmpIPredicate predicate = arith::CmpIPredicate::eq; ///< of Compare

  bool isUnary() const { return kind >= IntegerKind::Wrap; }
};

/// The width of an integer or index type that a number can have; none for other types.
std::optional<uint8_t> getIntegerWidth(Type type);

/// What an `arith` op on integers or indices computes from its operands; none for other ops,
/// constants and `arith.select`.
std::optional<IntegerOp> getIntegerOp(Operation *op);

/// The number of a constant; none if it is no integer of at most 64 bits.
std::optional<int64_t> getConstantNumber(Operation *op);

/// The result; sums and products wrap, as in `arith`. None where `arith` leaves it undefined:
/// division by zero, quotients that overflow, shifts by the width or more. `b` is ignored by unary
/// operations.
std::optional<int64_t> evaluate(IntegerOp op, int64_t a, int64_t b);

/// Why `evaluate` gives nothing, for a diagnostic.
std::string describeUndefined(IntegerOp op, int64_t b);

/// Whether a loop of this width goes on: next < end, unsigned if asked.
bool isLess(int64_t a, int64_t b, unsigned width, bool isUnsigned);

/// The next index of a loop; none if it does not fit into the width: the loop is over.
std::optional<int64_t> advance(int64_t index, int64_t step, unsigned width);

/// The number that a constant, `arith.select` or integer op gives, if `valueOf` knows its operands.
std::optional<int64_t> evaluateOp(Operation *op,
                                  function_ref<std::optional<int64_t>(Value)> valueOf);

} // namespace tandem::hostir

#endif // TANDEM_DIALECT_HOSTIR_EVALUATE_INTEGERS_H
