//===- PaddedFunction.h - tensors that are larger than their values -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_PADDEDFUNCTION_H
#define TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_PADDEDFUNCTION_H

#include "PassLog.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "tandem/Dialect/Fusion/IR/AxesRule.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "tandem/Support/LLVM.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/EquivalenceClasses.h"

namespace tandem::fusion {

/// Makes a function compute the same results although dimensions are padded: a tensor has indices
/// behind the end of its value. The end is known (fusion-pad-extents), or each run has another one
/// (fusion-bound-extents). Padding of arguments is 0; what other padding holds is not known, unless
/// the ops say that it is 0. An op that would read it gets its operand filled or, if the end is
/// known, without padding.
class PaddedFunction {
public:
  /// Operands that were filled.
  unsigned getNumFilled() const { return numFilled; }

protected:
  /// A dimension of a value.
  using Dim = std::pair<void *, int64_t>;

  /// `varies`: the end is not known. Groups the dimensions that an op's axes rule has in one
  /// factor: all of a group are padded, or none. Example: the rows of a matmul's operand and of its
  /// result.
  PaddedFunction(func::FuncOp function, const PassLog &logger, bool varies);
  virtual ~PaddedFunction() = default;

  virtual bool isPadded(Value value, int64_t dim) const = 0;
  /// Indices of the dimension with its padding.
  virtual int64_t getPaddedExtent(Value value, int64_t dim) const = 0;
  /// A 1-D tensor of i1 that all devices of `mesh` have whole (null: without axes): which indices
  /// of the dimension are before the end. Called before any operand is replaced.
  virtual Value getMask(MeshAttr mesh, Value value, int64_t dim) = 0;
  /// Gives the keys behind the end a weight of 0. Their values are 0 already.
  virtual LogicalResult hideKeys(AttentionOp attention) = 0;
  /// The op must have the operand without padding in `dims`.
  virtual LogicalResult exclude(OpOperand &operand, ArrayRef<int64_t> dims) = 0;

  /// Fills or excludes padding where an op needs it, and finds `computedWhole`.
  LogicalResult fitOps();
  /// `value` with the identity of `kind` as padding of `dim`, next to `user`. `original`: the value
  /// that was filled or cut before, or `value`.
  Value fill(Operation *user, Value value, Value original, int64_t dim, ReduceKind kind);
  Value broadcastMask(OpBuilder &builder, Value original, RankedTensorType type, int64_t dim);
  /// Whether the padding is 0, as the function was before `fitOps`, with finite arguments.
  bool isZero(Value value, int64_t dim) const;
  /// Sets attribute `name` of each argument and result for which `get` gives one.
  void annotate(StringRef name, function_ref<Attribute(Value)> get);

  static RankedTensorType typeOf(Value value) {
    return dyn_cast<RankedTensorType>(value.getType());
  }
  static SmallVector<int64_t> dimsOf(Value value);
  SmallVector<int64_t> getPaddedDims(Value value) const;
  /// With its padding.
  RankedTensorType getPaddedType(Value value) const;
  /// Records that the type of a new value has its padding already.
  template <typename OpT> OpT add(OpT op) {
    types[op->getResult(0)] = typeOf(op->getResult(0));
    return op;
  }

  Dim leaderOf(Value value, int64_t dim) {
    return joined.getOrInsertLeaderValue(dimOf(value, dim));
  }
  /// The dimension itself if no op joins it with another.
  Dim findLeader(Value value, int64_t dim) const;

  func::FuncOp function;
  const PassLog &logger;
  /// Results that the op computes without padding, with these dimensions.
  std::vector<std::pair<OpResult, SmallVector<int64_t>>> computedWhole;
  DenseMap<Value, RankedTensorType> types; ///< of new values, and of those that differ in padding

private:
  /// What the op needs as padding of an operand's dimension.
  enum class Need { Anything, Identity, HiddenKeys, None };
  /// The dimensions of an operand by what the op needs; those that need nothing are in no list.
  struct Use {
    OpOperand *operand;
    ReduceKind kind;
    SmallVector<int64_t> identity, hiddenKeys, none;
  };

  static Dim dimOf(Value value, int64_t dim) { return {value.getAsOpaquePointer(), dim}; }
  void unite(Value a, int64_t dimA, Value b, int64_t dimB) {
    joined.unionSets(dimOf(a, dimA), dimOf(b, dimB));
  }
  void group(Operation *op);
  std::optional<AxesRule> getRule(Operation *op) const;
  Need getNeed(OpOperand &operand, const std::optional<AxesRule> &rule, int64_t dim) const;
  /// Whether a dimension of a result gets the padding of an operand, or may have any extent.
  bool givesPadding(OpResult result, const std::optional<AxesRule> &rule, int64_t dim) const;
  void findZeros();
  bool computeZero(OpResult result, const std::optional<AxesRule> &rule, int64_t dim) const;
  LogicalResult fit(const Use &use);

  const bool varies;
  unsigned numFilled = 0;
  llvm::EquivalenceClasses<Dim> joined;
  DenseMap<Value, SmallVector<bool>> zeros; ///< by dimension
  /// Values whose elements are those of arguments, or constants: finite.
  DenseMap<Value, bool> given;
  DenseMap<std::tuple<Value, int64_t, int>, Value> filled;
};

} // namespace tandem::fusion

#endif // TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_PADDEDFUNCTION_H
