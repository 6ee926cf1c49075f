//===- OpLowering.h - how one op becomes host IR -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_OPLOWERING_H
#define TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_OPLOWERING_H

#include "LoopEmitter.h"
#include "OpDims.h"
#include "tandem/Support/LLVM.h"
#include <memory>

namespace tandem {

/// How ops of one name become host IR, slice by slice. Stateless: what belongs to a loop is in the
/// LoopEmitter. Each is one class in a file under Lowerings/, or in another library, which adds it
/// to `getLowerings()`.
class OpLowering {
public:
  virtual ~OpLowering() = default;

  /// Gives the op's result its buffer, before the loop. By default one of its own.
  virtual LogicalResult prepare(Operation *op, LoopEmitter &loop) const;

  /// Emits the slice of the result at `index` (null: the whole result) on `stream`. Called on the
  /// devices of the result's mesh only, unless the op's operands are on another mesh.
  virtual LogicalResult emit(Operation *op, const SliceIndex *index, Value stream,
                             LoopEmitter &loop) const = 0;

  /// Whether `accumulate` is there: only of ops whose axes rule has a reduction; see
  /// ReducingLowering.
  virtual bool accumulates() const { return false; }

  /// Combines the slice of operand number `operand` at `index` into `out`, the whole result, on the
  /// main stream.
  virtual LogicalResult accumulate(Operation *op, unsigned operand, const SliceIndex &index,
                                   Value out, LoopEmitter &loop) const;

  /// The element type in which `accumulate` combines slices: that of the result, or a wider one.
  virtual Type getAccumulatorElement(Operation *op) const;

  /// Whether `emit` reads operands through `LoopEmitter::getSource`, so that a slice may be read
  /// where it is; else slices must be in the operand's buffer.
  virtual bool readsPlaces() const { return false; }
  /// Whether `emit` writes its result through `LoopEmitter::getTarget`.
  virtual bool writesPlaces() const { return false; }
};

/// Whether a slice is the first that is combined into its result.
struct FirstSlice {
  /// Surely not.
  bool never = false;
  /// If this holds; null: surely, unless `never`.
  Value condition;
};

/// Emits `first` or `later` under the condition that the slice is its result's first.
LogicalResult ifFirst(OpBuilder &builder, Location loc, const FirstSlice &isFirst,
                      function_ref<LogicalResult()> first, function_ref<LogicalResult()> later);

/// The lowering of an op that combines over a dimension: one function for a slice of the result and
/// for a slice of an operand.
class ReducingLowering : public OpLowering {
public:
  LogicalResult emit(Operation *op, const SliceIndex *index, Value stream,
                     LoopEmitter &loop) const final;
  bool accumulates() const final { return true; }
  LogicalResult accumulate(Operation *op, unsigned operand, const SliceIndex &index, Value out,
                           LoopEmitter &loop) const final;

protected:
  /// Combines what `dims` takes of the operands into what it takes of the buffer `out`: written by
  /// the first slice, added to by later ones.
  virtual LogicalResult combine(Operation *op, OpDims dims, Value out, const FirstSlice &first,
                                Value stream, LoopEmitter &loop) const = 0;

  /// Sums of f16 and bf16 are kept in f32 until the last slice is in them: a rounding per slice
  /// would make the error grow with the number of slices.
  static Type getWideElement(Operation *op);
};

/// The lowering of an elementwise op: the launch of a kernel.
class ElementwiseLowering : public OpLowering {
public:
  bool readsPlaces() const override { return true; }
  LogicalResult emit(Operation *op, const SliceIndex *index, Value stream,
                     LoopEmitter &loop) const final;

protected:
  /// Emits the op on one element of each operand, in a kernel: ops of arith and math. By default
  /// the op itself.
  virtual Value emitElement(Operation *op, ValueRange elements, OpBuilder &builder) const;
};

/// Emits the reduction of `in`, a view that `makeView` made of `inDims`, over the dimensions
/// `reduced` of those. The first slice is written to the view `out`, later ones are combined with
/// it.
LogicalResult emitReduction(OpBuilder &builder, Location loc, ReduceKind kind, Value in,
                            const LocalDims &inDims, ArrayRef<int64_t> reduced, Value out,
                            const FirstSlice &first, Value stream);

/// The lowerings by op name.
class OpLowerings {
public:
  template <typename OpT> void add(std::unique_ptr<OpLowering> lowering) {
    byName[OpT::getOperationName()] = std::move(lowering);
  }
  /// For every op with the trait `Elementwise` that has no lowering of its own.
  void addElementwise(std::unique_ptr<OpLowering> lowering) { elementwise = std::move(lowering); }

  const OpLowering *find(Operation *op) const;

private:
  llvm::StringMap<std::unique_ptr<OpLowering>> byName;
  std::unique_ptr<OpLowering> elementwise;
};

/// The project's lowerings. Another library adds its own before it makes a context:
/// `getLowerings().add<MyOp>(std::make_unique<MyLowering>())`. Not thread-safe.
OpLowerings &getLowerings();
/// The lowering of an op; null if there is none.
inline const OpLowering *getLowering(Operation *op) { return getLowerings().find(op); }

/// Each adds the lowerings of one file under Lowerings/.
void addConcatLowering(OpLowerings &lowerings);
void addElementwiseLowering(OpLowerings &lowerings);
void addMatmulLowering(OpLowerings &lowerings);
void addReduceLowering(OpLowerings &lowerings);
void addReshardLowering(OpLowerings &lowerings);
void addViewLowerings(OpLowerings &lowerings);

/// Writes a constant into the buffer of its result, on the main stream: for ops that need it as a
/// buffer (elementwise ops have it in their kernel).
LogicalResult emitConstant(Operation *op, ProgramBuilder &program);

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_OPLOWERING_H
