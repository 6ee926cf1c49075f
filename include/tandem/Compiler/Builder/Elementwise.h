//===- Elementwise.h - elementwise ops by name ------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_COMPILER_BUILDER_ELEMENTWISE_H
#define TANDEM_COMPILER_BUILDER_ELEMENTWISE_H

#include "tandem/Compiler/Builder/Types.h"

namespace tandem::builder {
inline namespace TANDEM_VERSION_NAMESPACE {
namespace detail {

/// An elementwise op whose operands and result have one type. docs/kernels.md states its results.
struct Elementwise {
  const char *name;     ///< "add"
  const char *floats;   ///< "arith.addf"; null: no floating point
  const char *integers; ///< "arith.addi"; null: no integers
  size_t operands;
  bool truth; ///< also of i1
};

/// All that the builder knows. The compiler's list is ElementwiseModels.cpp.
inline const std::vector<Elementwise> &elementwiseOps() {
  static const std::vector<Elementwise> ops = {
      {"add", "arith.addf", "arith.addi", 2, false},
      {"sub", "arith.subf", "arith.subi", 2, false},
      {"mul", "arith.mulf", "arith.muli", 2, false},
      {"div", "arith.divf", "arith.divsi", 2, false},
      {"rem", "arith.remf", "arith.remsi", 2, false},
      {"maximum", "arith.maximumf", "arith.maxsi", 2, false},
      {"minimum", "arith.minimumf", "arith.minsi", 2, false},
      {"maxnum", "arith.maxnumf", nullptr, 2, false},
      {"minnum", "arith.minnumf", nullptr, 2, false},
      {"neg", "arith.negf", nullptr, 1, false},
      {"and", nullptr, "arith.andi", 2, true},
      {"or", nullptr, "arith.ori", 2, true},
      {"xor", nullptr, "arith.xori", 2, true},
      {"shl", nullptr, "arith.shli", 2, false},
      {"shr", nullptr, "arith.shrsi", 2, false},
      {"abs", "math.absf", "math.absi", 1, false},
      {"ceil", "math.ceil", nullptr, 1, false},
      {"cos", "math.cos", nullptr, 1, false},
      {"erf", "math.erf", nullptr, 1, false},
      {"erfc", "math.erfc", nullptr, 1, false},
      {"exp", "math.exp", nullptr, 1, false},
      {"exp2", "math.exp2", nullptr, 1, false},
      {"expm1", "math.expm1", nullptr, 1, false},
      {"floor", "math.floor", nullptr, 1, false},
      {"fma", "math.fma", nullptr, 3, false},
      {"log", "math.log", nullptr, 1, false},
      {"log10", "math.log10", nullptr, 1, false},
      {"log1p", "math.log1p", nullptr, 1, false},
      {"log2", "math.log2", nullptr, 1, false},
      {"pow", "math.powf", nullptr, 2, false},
      {"round", "math.round", nullptr, 1, false},
      {"roundeven", "math.roundeven", nullptr, 1, false},
      {"rsqrt", "math.rsqrt", nullptr, 1, false},
      {"sin", "math.sin", nullptr, 1, false},
      {"sqrt", "math.sqrt", nullptr, 1, false},
      {"tanh", "math.tanh", nullptr, 1, false},
      {"trunc", "math.trunc", nullptr, 1, false},
  };
  return ops;
}

/// The op called "add", "arith.addf" or "arith.addi"; null if there is none.
inline const Elementwise *findElementwise(const std::string &name) {
  for (const Elementwise &op : elementwiseOps())
    if (name == op.name || (op.floats && name == op.floats) || (op.integers && name == op.integers))
      return &op;
  return nullptr;
}

/// The predicate of a comparison: of arith.cmpf and of arith.cmpi (signed).
struct Predicate {
  const char *name, *floats, *integers;
};

inline const Predicate *findPredicate(const std::string &name) {
  static const std::vector<Predicate> known = {{"eq", "oeq", "eq"},  {"ne", "une", "ne"},
                                               {"lt", "olt", "slt"}, {"le", "ole", "sle"},
                                               {"gt", "ogt", "sgt"}, {"ge", "oge", "sge"}};
  for (const Predicate &one : known)
    if (name == one.name)
      return &one;
  return nullptr;
}

/// The cast between two types; null if there is none.
inline const char *castOp(DType from, DType to) {
  if (isFloat(from) && isFloat(to))
    return bits(to) > bits(from) ? "arith.extf" : bits(to) < bits(from) ? "arith.truncf" : nullptr;
  if (isFloat(from))
    return to == DType::I1 ? nullptr : "arith.fptosi";
  if (isFloat(to))
    return from == DType::I1 ? "arith.uitofp" : "arith.sitofp";
  if (bits(to) > bits(from))
    return from == DType::I1 ? "arith.extui" : "arith.extsi";
  return bits(to) < bits(from) ? "arith.trunci" : nullptr;
}

} // namespace detail
} // namespace TANDEM_VERSION_NAMESPACE
} // namespace tandem::builder

#endif // TANDEM_COMPILER_BUILDER_ELEMENTWISE_H
